"""Kernels without Python: called by their address, with all that they need in one row of whole numbers, by every thread of a team.

A call through Python costs more than a small kernel, and only one thread at a time may make one. Here every thread takes a part of
the work that nobody has taken yet, until none is left. The words of a row are the next part, the number of parts, and then what the
kernel wants, addresses of arrays among it. The dtype of all arrays is that of the pointer by which the row is handed over.
"""

# Numba compiles plain Python; its types are numba's, found at the first call.
# mypy: disable-error-code="no-untyped-def, no-untyped-call"

import ctypes
from collections.abc import Callable
from typing import Any

import torch
from llvmlite import ir
from numba import carray, cfunc, types
from numba.extending import intrinsic
from torch.profiler import record_function

from xdops.engine.kernels.compiling import compiling, inlined
from xdops.engine.kernels.team import Body
from xdops.engine.kernels.threads import run_parts

#: Where a kernel's own words begin.
OWN = 2


@intrinsic
def integers(typingctx, given):
    """The row as whole numbers."""

    def codegen(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        return builder.bitcast(args[0], ir.IntType(64).as_pointer())

    return types.CPointer(types.int64)(given), codegen


@intrinsic
def integers_at(typingctx, address):
    """The address as a pointer to whole numbers."""

    def codegen(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        return builder.inttoptr(args[0], ir.IntType(64).as_pointer())

    return types.CPointer(types.int64)(types.int64), codegen


@intrinsic
def pointer_at(typingctx, given, address):
    """The address as a pointer of the same type."""

    def codegen(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        return builder.inttoptr(args[1], args[0].type)

    return given(given, types.int64), codegen


@intrinsic
def next_part(typingctx, row):
    """Counts the first word up, whatever other threads do, and returns what it was."""

    def codegen(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        return builder.atomic_rmw("add", args[0], ir.Constant(ir.IntType(64), 1), "monotonic")

    return types.int64(row), codegen


@inlined
def numbers(given, address, count):
    """An array of the row's dtype."""
    return carray(pointer_at(given, address), (count,))


@inlined
def words(address, count):
    """An array of whole numbers."""
    return carray(integers_at(address), (count,))


class Native:
    """A function of a row, compiled at its first use for a dtype, or found compiled: `kernel(dtype, words, parts)`."""

    def __init__(self, function: Callable[..., Any]) -> None:
        self.function = function
        self.name = f"xdops::{function.__module__.rsplit('.', 1)[-1]} {function.__name__}"  # in a profile
        self.bodies: dict[Any, Any] = {}
        self.compiled: list[Any] = []  # code lives as long as what it belongs to

    def __call__(self, dtype: Any, row: list[int], parts: int) -> None:
        body = self.bodies.get(dtype) or self.compile(dtype)
        told = (ctypes.c_int64 * (OWN + len(row)))(0, parts, *row)
        if torch.autograd._profiler_enabled():
            with record_function(self.name):
                run_parts(body, told, parts)
        else:
            run_parts(body, told, parts)

    def compile(self, dtype: Any) -> Any:
        """Compile it now."""
        number = types.float32 if dtype.itemsize == 4 else types.float64
        signature = types.void(types.CPointer(number))

        def compiled(cache: bool) -> Any:
            options: dict[str, Any] = {"cache": cache, "error_model": "numpy"}
            return cfunc(signature, **options)(self.function)

        found = compiling(lambda: compiled(True), lambda: compiled(False))
        self.compiled.append(found)
        self.bodies[dtype] = Body(found.address)
        return self.bodies[dtype]
