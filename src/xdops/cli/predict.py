"""`xdops predict`: what a network that a search has found says about new data."""

import io
import zipfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import numpy as np
import torch
import tyro
from torch import Tensor, nn

from xdops.cli.chosen import Chosen
from xdops.cli.terminal import console
from xdops.data.arrays import ArrayFile, open_arrays
from xdops.data.checks import check_finite, check_range, check_shape
from xdops.data.ragged import LENGTH, separate_inputs
from xdops.data.task import Reading
from xdops.errors import XDError, listed
from xdops.experiments.trial import blaming
from xdops.search import Tiles
from xdops.storage.files import check_target, write_file
from xdops.storage.npy import zip_members

BATCH = 256


@dataclass(frozen=True)
class Predict(Chosen):
    """Apply a network that `xdops search` has found to new data.

    Inputs are scaled as in training, and predictions come back in the units of the training targets. Classification writes `label`
    (N,), `probability` (N, classes) and `classes`; regression and dense prediction write `prediction`; so do sequences whose next
    step is predicted, (steps, channels), with the `length` of each.

    example:
      xdops predict runs/ecg new.npz -o predictions.npz
    """

    data: Annotated[Path, tyro.conf.Positional, tyro.conf.arg(metavar="DATA")]
    """.npz, .h5, .mat, or a folder of .npy, with inputs of the shape trained on; after a search with --crop, of any size.
    Sequences of different lengths: x and length, as in the search; after one with --causal direct up to its longest, else any."""
    out: Annotated[Path, tyro.conf.arg(aliases=["-o"])] = Path("predictions.npz")
    """The .npz to write."""
    x_name: Annotated[str | None, tyro.conf.arg(metavar="NAME", help_behavior_hint="")] = None
    """The name of the inputs. Default: x or x_test, or the only array there is."""

    def run(self) -> int:
        check_output(self.out, self.data)
        finished = self.open_run()
        space, seed = self.choose(finished)
        file = open_arrays(self.data)
        name = input_name(file, self.x_name)
        x = file.read(name)
        if x.dtype.kind not in "biuf":
            raise XDError(f"{name} of type {x.dtype}", "real numbers", "numbers")
        if x.ndim == 0 or len(x) == 0:
            raise XDError(f"{name} of shape {x.shape}, with no examples", "at least one", "an array (N, ...)")
        check_shape(x, name)
        check_finite(x, name, "step" if finished.reading.request.ragged else "example")
        check_range(x, name, target=False)
        reading = finished.reading
        inputs: Tensor | list[Tensor]
        if reading.request.ragged:
            inputs = separate_inputs(reading, x, file.read(length_name(file, name)), name)
            finished.network.check_predicted(reading.request, space, [part.shape[-1] for part in inputs])
        else:
            inputs = reading.inputs(x, name)  # before the network is built, which takes longer, and memory
        network = finished.best(space, seed)
        with blaming(finished.network.backbone, "on these inputs", "mend it"):
            if isinstance(inputs, list):
                arrays = decode_sequences(reading, network, inputs)
            else:
                arrays = decode(reading, outputs(network, inputs, reading.tiles()))
        check_predictions(arrays)
        buffer = io.BytesIO()
        np.savez_compressed(buffer, allow_pickle=False, **arrays)
        write_file(self.out, buffer.getvalue())
        count = len(next(iter(arrays.values())))
        console().print(f"{count} predictions by {space}, seed {seed}: {', '.join(arrays)} in {self.out}", soft_wrap=True)
        return 0


def check_output(out: Path, data: Path) -> None:
    """Refuse to write over anything but earlier predictions, and where nothing can be written."""
    if out.suffix != ".npz":
        better = out.with_suffix(".npz") if out.name[:1].isalnum() else "p.npz"
        raise XDError(f"-o {out}", "a file name that ends in .npz", f"-o {better}")
    if not out.absolute().parent.is_dir():
        raise XDError(f"-o {out}, in a folder that does not exist", "an existing folder", f"mkdir -p {out.parent}")
    check_target(out)
    if not out.exists():
        return
    if data.exists() and out.samefile(data):
        raise XDError(f"-o {out}, which is the data", "another file to write to", "-o predictions.npz")
    if not holds_predictions(out):
        raise XDError(f"-o {out}, which exists and holds no predictions", "a new file", "another name, or remove it")


#: The arrays of every kind of prediction.
WRITTEN = ({"label", "probability", "classes"}, {"prediction"}, {"prediction", LENGTH})


def holds_predictions(path: Path) -> bool:
    """Whether what this command writes is in the file, and nothing else."""
    names = set(zip_members(path))
    with zipfile.ZipFile(path) as archive:
        return names in WRITTEN and len(archive.namelist()) == len(names)


def input_name(file: ArrayFile, given: str | None) -> str:
    if given is not None:
        return given  # `read` says what is there if this is not
    for name in ("x", "x_test"):
        if name in file.names:
            return name
    if len(file.names) == 1:
        return file.names[0]
    raise XDError(f"no array 'x' in {file.path}, which has: {listed(file.names)}", "the inputs", "--x-name NAME")


def length_name(file: ArrayFile, name: str) -> str:
    """What the lengths of the sequences in this array are called: length_test for x_test, length for x, and for any other."""
    own = [LENGTH + name[at:] for at, sign in enumerate(name) if sign == "_"]
    found = [length for length in (*own, LENGTH) if length in file.names]
    if not found:
        raise XDError(
            f"no array {LENGTH!r} in {file.path}, which has: {listed(file.names)}",
            "sequences one after the other, as in training, and how long each is",
            "length = [len(s) for s in sequences], x = numpy.concatenate(sequences)",
        )
    return found[0]


def outputs(network: nn.Module, x: Tensor, tiles: Tiles | None) -> Tensor:
    """tiles: how inputs of any size are predicted, by a network that was trained on crops."""
    with torch.no_grad():
        return torch.cat([network(part) if tiles is None else tiles(network, part) for part in x.split(BATCH)])


@torch.no_grad()
def decode_sequences(reading: Reading, network: nn.Module, inputs: Sequence[Tensor]) -> dict[str, np.ndarray]:
    """A class per sequence, from its last step; or at every step what comes next, probabilities for zeros and ones."""
    said = [network(x) for x in inputs]  # (1, outputs, T) each
    if reading.classes:
        return decode(reading, torch.cat([y[..., -1] for y in said]))
    steps = torch.cat([y[0].T for y in said])
    prediction = steps.sigmoid() if reading.y_scaling is None else reading.y_scaling.undo(steps)
    return {"prediction": prediction.numpy(), LENGTH: np.array([y.shape[-1] for y in said])}


def check_predictions(arrays: dict[str, np.ndarray]) -> None:
    """Refuse to write numbers that are none."""
    for name, array in arrays.items():
        if array.dtype.kind == "f" and not np.isfinite(array).all():
            bad = int((~np.isfinite(array).reshape(len(array), -1).all(axis=1)).sum())
            raise XDError(
                f"{bad} of {len(array)} examples for which the network's {name} is not a finite number",
                "inputs like those trained on",
                "check the units of the inputs",
            )


def decode(reading: Reading, y: Tensor) -> dict[str, np.ndarray]:
    """Arrays in the user's own terms."""
    if reading.classes:
        classes = np.asarray(reading.classes)
        return {"label": classes[y.argmax(dim=1).numpy()], "probability": y.softmax(dim=1).numpy(), "classes": classes}
    assert reading.y_scaling is not None
    return {"prediction": reading.y_scaling.undo(y).numpy()}
