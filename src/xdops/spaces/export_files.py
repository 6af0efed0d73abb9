"""What a traced network can be written to: ONNX, and torch's own exported program. Each is made in memory, and read back."""

import io
import json
import logging
import re
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, redirect_stderr, redirect_stdout
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from xdops.convert.refusals import tensors_of
from xdops.convert.uses import ExampleInput, arguments
from xdops.errors import XDError

OPSET = 18


class ExampleCall:
    """Arguments like those of an example, with other tensors."""

    def __init__(self, example: ExampleInput) -> None:
        self.args, self.kwargs = arguments(example)

    @property
    def tensors(self) -> list[Tensor]:
        return [v for v in (*self.args, *self.kwargs.values()) if isinstance(v, Tensor)]

    def of(self, tensors: Sequence[Tensor]) -> tuple[tuple[Any, ...], dict[str, Any]]:
        left = iter(tensors)
        args = tuple(next(left) if isinstance(v, Tensor) else v for v in self.args)
        return args, {name: next(left) if isinstance(v, Tensor) else v for name, v in self.kwargs.items()}

    def shapes(self, free: Mapping[int, Any]) -> Any:
        """The free dimensions of every argument, as torch's exporters take them."""

        def of(value: Any) -> Any:
            return {dim: name for dim, name in free.items() if dim < value.dim()} if isinstance(value, Tensor) else None

        return tuple(map(of, self.args)) if self.args else {name: of(value) for name, value in self.kwargs.items()}


@dataclass(frozen=True)
class Written:
    """A file's bytes, and what they compute when they are read back: tensors from tensors."""

    data: bytes
    run: Callable[[Sequence[Tensor]], list[Tensor]]
    checked_by: str


#: (program, how it is called, names of its free dimensions, notes to keep in the file) -> the file
Writer = Callable[[torch.export.ExportedProgram, ExampleCall, Mapping[int, str], Mapping[str, str]], Written]


def write_onnx(
    program: torch.export.ExportedProgram, call: ExampleCall, free: Mapping[int, str], notes: Mapping[str, str]
) -> Written:
    import onnxruntime

    options = onnxruntime.SessionOptions()
    options.log_severity_level = 4
    try:
        with quiet():
            made = torch.onnx.export(program, dynamic_shapes=call.shapes(free), dynamo=True, opset_version=OPSET, verbose=False)
        assert made is not None
        made.model.metadata_props.update(notes)
        data: bytes = made.model_proto.SerializeToString()
        session = onnxruntime.InferenceSession(data, options, providers=["CPUExecutionProvider"])
    except Exception as error:
        lacks = _LACKING.search(str(error))
        why = f"with {lacks[1] or lacks[2]}, which ONNX lacks" if lacks else f"that ONNX cannot hold ({gist(error)})"
        raise XDError(
            f"a network {why}",
            "operators that ONNX has, in float32",
            "the same in a .pt2 file, or other operators",
        ) from error

    def run(inputs: Sequence[Tensor]) -> list[Tensor]:
        given = {known.name: t.numpy() for known, t in zip(session.get_inputs(), inputs, strict=True)}
        return [torch.from_numpy(array) for array in session.run(None, given)]

    return Written(data, run, f"onnxruntime {onnxruntime.__version__}")


#: How the exporter and onnxruntime say that they know no such operator.
_LACKING = re.compile(r"No ONNX function found for <OpOverload\(op='([\w.]+)'|Could not find an implementation for (\w+)")


def write_pt2(
    program: torch.export.ExportedProgram, call: ExampleCall, free: Mapping[int, str], notes: Mapping[str, str]
) -> Written:
    buffer = io.BytesIO()
    with quiet():
        torch.export.save(program, buffer, extra_files={"notes.json": json.dumps(dict(notes))})
        again = torch.export.load(io.BytesIO(buffer.getvalue())).module()

    def run(inputs: Sequence[Tensor]) -> list[Tensor]:
        args, kwargs = call.of(inputs)
        return list(tensors_of(again(*args, **kwargs)))

    return Written(buffer.getvalue(), run, f"torch {torch.__version__}")


#: By the ending of a file's name.
WRITERS: dict[str, Writer] = {".onnx": write_onnx, ".pt2": write_pt2}


@contextmanager
def quiet() -> Iterator[None]:
    """What torch's exporters tell their own developers is not for users."""
    loggers = [logging.getLogger(name) for name in ("torch", "torch.onnx", "torch.export", "onnxscript", "onnx_ir")]
    levels = [logger.level for logger in loggers]
    try:
        for logger in loggers:
            logger.setLevel(logging.CRITICAL)
        with warnings.catch_warnings(), redirect_stdout(io.StringIO()), redirect_stderr(io.StringIO()):
            warnings.simplefilter("ignore")
            yield
    finally:
        for logger, level in zip(loggers, levels, strict=True):
            logger.setLevel(level)


def gist(error: BaseException) -> str:
    """The first line of an error that says something."""
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    return f"{type(error).__name__}: {lines[0][:200]}" if lines else type(error).__name__
