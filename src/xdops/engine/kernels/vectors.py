"""Vectors of eight or sixteen numbers in numba's compiled code: an emitter of LLVM instructions, and what plain kernels use of it.

Numba turns loops into vector instructions when it can prove that arrays do not overlap, which it cannot do for rows of one array.
Here vectors are said outright; LLVM fits them to the registers of any processor.
"""

from functools import cache
from typing import Any

from llvmlite import binding, ir
from numba import types
from numba.core import cgutils
from numba.extending import intrinsic

LANES = 8


@cache
def register_bits() -> int:
    """Of this processor's largest vectors; kept code is kept per processor."""
    return 512 if binding.get_host_cpu_features().get("avx512f") else 256


class Emitter:
    """Emits operations on vectors of float32 or float64 numbers: eight, or as many more as fill a register."""

    def __init__(self, context: Any, builder: Any, dtype: Any, wide: bool = False) -> None:
        self.context, self.builder = context, builder
        self.bits = 32 if dtype == types.float32 else 64
        self.lanes = max(LANES, register_bits() // self.bits) if wide else LANES
        self.registers = 32 if register_bits() == 512 else 16
        self.vector = ir.VectorType(ir.FloatType() if self.bits == 32 else ir.DoubleType(), self.lanes)

    def data(self, array_type: Any, array: Any) -> Any:
        """Pointer to an array's first number."""
        return self.context.make_array(array_type)(self.context, self.builder, array).data

    def plus(self, index: Any, offset: int) -> Any:
        return self.builder.add(index, ir.Constant(index.type, offset)) if offset else index

    def times(self, index: Any, factor: int) -> Any:
        return self.builder.mul(index, ir.Constant(index.type, factor))

    def variable(self) -> Any:
        """Where a vector can be stored and loaded: a register, once LLVM has looked at it."""
        return cgutils.alloca_once(self.builder, self.vector)

    def _address(self, data: Any, index: Any) -> Any:
        return self.builder.bitcast(self.builder.gep(data, [index]), self.vector.as_pointer())

    def load(self, data: Any, index: Any) -> Any:
        return self.builder.load(self._address(data, index), align=self.bits // 8)

    def store(self, data: Any, index: Any, value: Any) -> None:
        self.builder.store(value, self._address(data, index), align=self.bits // 8)

    def splat(self, data: Any, index: Any, offset: int = 0) -> Any:
        """One number, in all lanes."""
        number = self.builder.load(self.builder.gep(data, [self.plus(index, offset)]))
        undefined = ir.Constant(self.vector, ir.Undefined)
        single = self.builder.insert_element(undefined, number, ir.Constant(ir.IntType(32), 0))
        return self.shuffle(single, undefined, [0] * self.lanes)

    def zero(self) -> Any:
        return ir.Constant(self.vector, None)

    def add(self, a: Any, b: Any) -> Any:
        return self.builder.fadd(a, b)

    def multiply(self, a: Any, b: Any) -> Any:
        return self.builder.fmul(a, b)

    def negative(self, a: Any) -> Any:
        return self.builder.fneg(a)

    def fma(self, a: Any, b: Any, c: Any) -> Any:
        """a b + c, in one instruction where the processor has it."""
        kind = ir.FunctionType(self.vector, [self.vector] * 3)
        function = cgutils.get_or_insert_function(self.builder.module, kind, f"llvm.fmuladd.v{self.lanes}f{self.bits}")
        return self.builder.call(function, [a, b, c])

    def fnma(self, a: Any, b: Any, c: Any) -> Any:
        """c - a b."""
        return self.fma(self.negative(a), b, c)

    def shuffle(self, a: Any, b: Any, picks: list[int]) -> Any:
        return self.builder.shuffle_vector(a, b, ir.Constant(ir.VectorType(ir.IntType(32), len(picks)), picks))

    def sums(self, vectors: list[Any]) -> Any:
        """The sums of eight vectors, as one of eight: halves of two vectors meet in one, then quarters, and so on."""
        span = self.lanes // 2
        while len(vectors) > 1:
            half = len(vectors) // 2
            vectors = [self._met(a, b, span) for a, b in zip(vectors[:half], vectors[half:], strict=True)]
            span //= 2
        total = vectors[0]
        while span:
            total = self._met(total, total, span)
            span //= 2
        return self.shuffle(total, total, list(range(0, self.lanes, self.lanes // LANES))) if self.lanes > LANES else total

    def _met(self, a: Any, b: Any, span: int) -> Any:
        """Of every two runs of `span` lanes, the sum of both of a in the first, and of both of b in the second."""
        of_a = [not i & span for i in range(self.lanes)]
        stay = [i if first else self.lanes + i for i, first in enumerate(of_a)]
        move = [i + span if first else self.lanes + i - span for i, first in enumerate(of_a)]
        return self.add(self.shuffle(a, b, stay), self.shuffle(a, b, move))

    def transposed(self, rows: list[Any]) -> list[Any]:
        """Eight rows of an 8 x 8 block to its columns: off-diagonal halves of ever smaller blocks change places."""
        span = LANES // 2
        while span:
            low = [i for k in range(0, LANES, 2 * span) for part in (0, LANES) for i in range(part + k, part + k + span)]
            high = [i + span for i in low]
            for first in range(0, LANES, 2 * span):
                for i in range(first, first + span):
                    a, b = rows[i], rows[i + span]
                    rows[i], rows[i + span] = self.shuffle(a, b, low), self.shuffle(a, b, high)
            span //= 2
        return rows


@intrinsic
def turn(typingctx: Any, source: Any, start: Any, step: Any, out: Any, place: Any, pitch: Any) -> Any:
    """The 8 x 8 block with rows source[start + i step :] transposed to rows out[place + i pitch :]."""

    def codegen(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        emit = Emitter(context, builder, source.dtype)
        source_data, out_data = emit.data(signature.args[0], args[0]), emit.data(signature.args[3], args[3])
        at, to, rows = args[1], args[4], []
        for _ in range(LANES):
            rows.append(emit.load(source_data, at))
            at = builder.add(at, args[2])
        for row in emit.transposed(rows):
            emit.store(out_data, to, row)
            to = builder.add(to, args[5])
        return context.get_dummy_value()

    return types.void(source, types.intp, types.intp, out, types.intp, types.intp), codegen


@intrinsic
def copy8(typingctx: Any, source: Any, start: Any, out: Any, place: Any) -> Any:
    """out[place : place + 8] = source[start : start + 8]."""

    def codegen(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        emit = Emitter(context, builder, source.dtype)
        value = emit.load(emit.data(signature.args[0], args[0]), args[1])
        emit.store(emit.data(signature.args[2], args[2]), args[3], value)
        return context.get_dummy_value()

    return types.void(source, types.intp, out, types.intp), codegen


@intrinsic
def clear8(typingctx: Any, out: Any, place: Any) -> Any:
    """out[place : place + 8] = 0."""

    def codegen(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        emit = Emitter(context, builder, out.dtype)
        emit.store(emit.data(signature.args[0], args[0]), args[1], emit.zero())
        return context.get_dummy_value()

    return types.void(out, types.intp), codegen


@intrinsic
def prefetch(typingctx: Any, out: Any, place: Any) -> Any:
    """The cache line of out[place] is fetched, to be written, while other things are done."""

    def codegen(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        byte, i32 = ir.IntType(8).as_pointer(), ir.IntType(32)
        kind = ir.FunctionType(ir.VoidType(), [byte, i32, i32, i32])
        function = cgutils.get_or_insert_function(builder.module, kind, "llvm.prefetch.p0")
        data = context.make_array(signature.args[0])(context, builder, args[0]).data
        write, soon, of_data = (ir.Constant(i32, number) for number in (1, 3, 1))
        builder.call(function, [builder.bitcast(builder.gep(data, [args[1]]), byte), write, soon, of_data])
        return context.get_dummy_value()

    return types.void(out, types.intp), codegen
