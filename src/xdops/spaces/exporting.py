"""A searched network as one file for other programs: ONNX, or torch's own exported program; real arithmetic only.

Operations are merged first, so that the graph holds products of fixed real matrices. Fourier layers go the same way: each is an
XD-operation (Appendix A, claim 6), whose merged form needs no FFT and no complex number. The file is made in memory, read back,
and compared with the network on random inputs before it is written.
"""

import copy
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from xdops.arguments import check
from xdops.convert.merge import merge_
from xdops.convert.refusals import check_example, check_values, tensors_of, unwrapped
from xdops.convert.replace import swap
from xdops.convert.uses import ExampleInput, arguments, record_uses, relative_difference
from xdops.errors import XDError
from xdops.operations import Operation
from xdops.operations.catalogue.fourier import SpectralConv, from_spectral_conv
from xdops.spaces.export_files import WRITERS, ExampleCall, Written, gist, quiet
from xdops.storage.files import check_target, write_file

#: Largest relative difference between the file's outputs and the network's.
TOLERANCES = {torch.float32: 1e-5, torch.float64: 1e-10}
#: Batches of random inputs that both must agree on.
BATCHES = (1, 2, 5)


@dataclass(frozen=True)
class Exported:
    """A file that was written, and how far it is from the network that it was made from; print it."""

    path: Path
    size: int  # bytes
    error: float  # largest |file - network| over random inputs, relative to the largest |network|
    checked_by: str

    def __str__(self) -> str:
        return f"{self.path} ({self.size / 1e6:,.1f} MB): largest relative error {self.error:.1e}, checked by {self.checked_by}"


def export(
    model: nn.Module,
    example_input: ExampleInput,
    path: str | os.PathLike[str],
    dynamic: Sequence[int] = (0,),
    notes: Mapping[str, str] | None = None,
) -> Exported:
    """Write `model`, merged and in eval mode, to a new file, net.onnx or net.pt2; print what it returns. The model stays as it is.

    dynamic: the dimensions of the inputs whose size stays free, the batch unless told otherwise; an XD-operation that is not
    shift-invariant fixes the grid. notes: names and texts that are kept in the file, such as the labels of classes.
    """
    from xdops import __version__

    check("path", path, str | os.PathLike, "xdops.export")
    check("dynamic", dynamic, Sequence[int], "xdops.export")
    check("notes", notes, Mapping[str, str] | None, "xdops.export")
    path, model = Path(path), unwrapped(model)
    check_path(path)
    check_values(model, "export")
    check_example(example_input)
    network, example = for_export(model, example_input)
    call = ExampleCall(example)
    check_dynamic(dynamic, call)
    free = {dim: "batch" if dim == 0 else f"size_{dim}" for dim in dynamic}
    program = traced(network, call, free)
    check_real(program)
    written = WRITERS[path.suffix](program, call, free, {"xdops": __version__, **(notes or {})})
    error = largest_error(network, written, call, free)
    write_file(path, written.data)
    return Exported(path, len(written.data), error, written.checked_by)


def check_path(path: Path) -> None:
    """Refuse a file that could not be made, before any work."""
    if path.suffix not in WRITERS:
        raise XDError(f"{path}", f"a file name that ends in {' or '.join(WRITERS)}", "net.onnx")
    if os.path.lexists(path):
        raise XDError(f"{path}, which exists", "a new file", "another name, or remove it")
    if not path.absolute().parent.is_dir():
        raise XDError(f"{path}, in a folder that does not exist", "a file in an existing folder", f"mkdir -p {path.parent}")
    check_target(path)
    for module in ("onnx", "onnxscript", "onnxruntime") if path.suffix == ".onnx" else ():
        try:
            import_module(module)
        except ImportError as error:
            hint = "pip install 'xdops[onnx]', or a .pt2 file, which needs no extra"
            raise XDError(f"{path} where {module} is not installed", "the extra onnx", hint) from error


def check_dynamic(dynamic: Sequence[int], call: ExampleCall) -> None:
    """Refuse dimensions that no input has."""
    most = max((t.dim() for t in call.tensors), default=0)
    if not all(isinstance(dim, int) and 0 <= dim < most for dim in dynamic):
        raise XDError(f"dynamic={dynamic!r}", f"dimensions of the inputs, from 0 to {most - 1}", "dynamic=(0,) for the batch alone")


def for_export(model: nn.Module, example_input: ExampleInput) -> tuple[nn.Module, ExampleInput]:
    """A merged copy of the model on the CPU, without Fourier layers, and an example of two or more for it."""
    network: nn.Module = (model.merged() if isinstance(model, Operation) else copy.deepcopy(model)).cpu().eval()
    args, kwargs = arguments(example_input)
    example: ExampleInput = tuple(map(_two, args)) if args else {name: _two(value) for name, value in kwargs.items()}
    layers = {name: module for name, module in network.named_modules() if isinstance(module, SpectralConv)}
    uses, _ = record_uses(network, example, layers)
    for name, layer in layers.items():
        grids = {shape[1:] for shape in uses[name].recorded}
        if len(grids) > 1:
            raise XDError(f"{name}, a Fourier layer on grids of {sorted(grids)} points", "one grid", "a layer for each grid")
        for grid in grids:
            swap(network, layer, from_spectral_conv(layer, grid).merged())
    merge_(network)
    return network, example


def _two(value: Any) -> Any:
    """On the CPU, and at least two examples: a single one would be taken for the only batch size that there is."""
    if not isinstance(value, Tensor) or value.dim() == 0:
        return value
    value = value.detach().cpu()
    return value if len(value) > 1 else torch.cat((value, value))


def traced(network: nn.Module, call: ExampleCall, free: Mapping[int, str]) -> torch.export.ExportedProgram:
    """The network as a graph, for any size of the free dimensions."""
    shapes = call.shapes({dim: torch.export.Dim(name) for dim, name in free.items()})
    try:
        with quiet(), torch.no_grad():
            return torch.export.export(network, call.args, call.kwargs, dynamic_shapes=shapes, strict=False)
    except Exception as error:
        hint = "x.shape[0] instead of len(x) or a number; dynamic=() if all sizes are fixed"
        if set(free) - {0}:
            hint = "dynamic=(0,): XD-operations fix the grid, unless they are made by XDConfig(shift_invariant=True)"
        raise XDError(
            f"a network that torch.export cannot trace ({gist(error)})",
            f"tensor code without branches on values, for any size of {' and '.join(free.values()) or 'no dimension'}",
            hint,
        ) from error


def check_real(program: torch.export.ExportedProgram) -> None:
    """Refuse complex numbers, which few programs know."""
    for node in program.graph.nodes:
        for value in tensors_of(node.meta.get("val")):
            if value.is_complex():
                raise XDError(
                    f"a network that computes with complex numbers ({node.target})",
                    "real arithmetic, which every program knows",
                    "real and imaginary parts as channels, or xdops.SpectralConv for Fourier layers",
                )


@torch.no_grad()
def largest_error(network: nn.Module, written: Written, call: ExampleCall, free: Mapping[int, str]) -> float:
    """How far a file is from the network on random inputs; refused if it is more than rounding."""
    largest, generator = 0.0, torch.Generator().manual_seed(0)
    for batch in BATCHES if free else BATCHES[:1]:
        inputs = [_random(t, batch, free, generator) for t in call.tensors]
        args, kwargs = call.of(inputs)
        for said, meant in zip(written.run(inputs), tensors_of(network(*args, **kwargs)), strict=True):
            if not meant.isfinite().any():
                raise XDError("a network whose outputs are all NaN or infinite", "numbers to compare", "weights that are numbers")
            error, most = relative_difference(said, meant), TOLERANCES.get(meant.dtype, 0.0)
            if error > most:
                raise XDError(
                    f"a file whose outputs differ from the network's by {error:.1e} ({written.checked_by})",
                    f"at most {most:.0e} for {meant.dtype}",
                    "model.float() first, or the other kind of file",
                )
            largest = max(largest, error)
    return largest


def _random(like: Tensor, batch: int, free: Mapping[int, str], generator: torch.Generator) -> Tensor:
    """Numbers as large as the example's, or whole numbers in its range; free dimensions other than the batch are longer."""
    shape = [n if dim not in free else batch if dim == 0 else n + batch for dim, n in enumerate(like.shape)]
    if not like.is_floating_point():
        return torch.randint(int(like.min()), int(like.max()) + 1, shape, generator=generator).to(like.dtype)
    spread = float(like.double().std(correction=0)) or 1.0
    return (float(like.double().mean()) + spread * torch.randn(shape, generator=generator, dtype=torch.float64)).to(like.dtype)
