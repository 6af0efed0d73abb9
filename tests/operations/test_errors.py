"""Each mistake gets one error that says what was given, what was expected and what to try, before any work is done."""

import pickle

import pytest
import torch
from torch import nn

from xdops import XDConfig, XDError, XDOperation
from xdops.matrices import (
    Butterfly,
    KMatrix,
    Kronecker,
    default_radices,
    dft,
    diagonal,
    identity,
    permutation,
    plan_matrix,
    sparse,
)
from xdops.operations import Axis

OP = XDOperation.from_conv(nn.Conv2d(3, 4, 3, padding=1), (12, 10))
POINT = nn.Conv1d(1, 1, 1)
LINE = XDOperation.from_conv(nn.Conv1d(3, 4, 3), 12)


def image(*shape, dtype=torch.float32):
    return torch.zeros(shape, dtype=dtype)


def operation(**changes):
    parts = {"axes": [Axis(4)], "weight": torch.zeros(2, 2, 3), "K": [identity(4)], "L": [identity(4)], "M": [identity(4)]}
    return XDOperation(**{**parts, **changes})


def planned(plan):
    op = XDOperation.from_conv(nn.Conv1d(1, 1, 1), 4)
    op.plan = plan
    return op(torch.zeros(1, 1, 4))


MISTAKES = {
    "too few dimensions": (lambda: OP(image(3, 12, 10)), r"shape \(3, 12, 10\).*4 dimensions"),
    "too many dimensions": (lambda: LINE(image(1, 3, 12, 1)), "3 dimensions"),
    "channels that do not match": (lambda: OP(image(1, 5, 12, 10)), "5 channels.*3 channels"),
    "an input larger than the operation": (lambda: OP(image(1, 3, 12, 30)), r"length 30 .*dimension 1.*at most 12"),
    "an input too small for any output": (lambda: LINE(image(1, 3, 2)), "length 2.*at least 3"),
    "an integer input": (lambda: OP(image(1, 3, 12, 10, dtype=torch.long)), "int64.*floating-point"),
    "an integer vector": (lambda: identity(4).apply(torch.arange(4)), "int64.*floating-point"),
    "a depth of zero for a layer": (lambda: XDOperation.from_conv(nn.Conv1d(1, 1, 1), 4, depth=0), "depth 0.*three positive"),
    "a parameter that there is not": (lambda: XDOperation.from_conv(POINT, 4, trained=("Q",)), r"\['Q'\].*K, L, M, b, C"),
    "a plan that there is not": (lambda: XDOperation.from_conv(POINT, 4, plan="nope"), "plan 'nope'.*'auto' or one of"),
    "plans": (lambda: planned(["fused"]), r"plan \['fused'\].*'auto' or one of"),
    "complex filters of a convolution": (
        lambda: XDOperation.from_conv(nn.Conv1d(1, 1, 3, dtype=torch.complex64), 5), "complex64.*a real one"
    ),
    "a layer without a weight yet": (lambda: XDOperation.from_conv(nn.LazyConv1d(1, 3), 5), "Conv1d that has not seen an input"),
    "an input size too small for reflections": (
        lambda: XDOperation.from_conv(nn.Conv1d(1, 1, 9, padding=4, padding_mode="reflect"), 4), "length 4.*at least 5"
    ),
    "the past, going round": (
        lambda: XDOperation.from_conv(nn.Conv1d(1, 1, 3, padding=2), 9, causal=True, boundary="wrap"), "causal=True with boundary"
    ),
    "a size in words": (lambda: LINE.merged("large"), "input_size='large'"),
    "the last of a picture": (lambda: OP.last(image(1, 3, 12, 10)), "in 2 dimensions; expected one dimension"),
    "a depth of zero for a network": (lambda: XDConfig(depth=0), "depth 0.*three positive"),
    "integer butterfly values": (lambda: Butterfly(torch.zeros(8, 2, dtype=torch.long), (2, 2), True), "int64.*floating-point"),
    "an integer dtype": (lambda: identity(4, dtype=torch.int32), "int32"),
    "a vector longer than the matrix": (lambda: identity(4).apply(torch.zeros(5)), "length 5.*at most 4"),
    "a size with a large prime": (lambda: dft(37), "largest prime factor is 37.*at most 17.*39"),
    "a size of zero": (lambda: default_radices(0), "positive size"),
    "radices of another size": (lambda: dft(8, (2, 2)), "product 8"),
    "values that do not fit the radices": (lambda: Butterfly(torch.zeros(7, 2), (2, 2), True), r"\(16, 2\)"),
    "a permutation with a repetition": (lambda: permutation([0, 1, 1]), r"\[0, 1, 1\].*every integer from 0 to 2 once"),
    "a permutation out of range": (lambda: permutation([1, 2, 3]), "every integer from 0 to 2"),
    "an empty permutation": (lambda: permutation([]), "every integer"),
    "a matrix with too many nonzeros": (lambda: sparse(torch.ones(4, 4)), "16 nonzeros.*at most 4.*16 x 16"),
    "a matrix that is not square": (lambda: sparse(torch.ones(4, 5)), "square"),
    "a diagonal that is a matrix": (lambda: diagonal(torch.ones(2, 2)), "vector"),
    "a diagonal of the wrong length": (lambda: identity(4).scale_rows(torch.ones(3)), r"shape \(4,\)"),
    "a product of different sizes": (lambda: identity(4) @ identity(8), "4 and 8"),
    "a product of different grids": (lambda: Kronecker([identity(4)]) @ Kronecker([identity(8)]), "equal sizes"),
    "butterflies of different sizes": (lambda: KMatrix([*identity(4).butterflies, *identity(2).butterflies]), "all of one size"),
    "no butterflies": (lambda: KMatrix([]), "at least one"),
    "a Kronecker product of nothing": (lambda: Kronecker([]), "at least one"),
    "rows out of range": (lambda: identity(4).apply(torch.zeros(4), rows=[4]), "integers from 0 to 3"),
    "too many columns": (lambda: identity(4).to_dense(columns=5), "1 to 4"),
    "an unknown plan": (lambda: plan_matrix(4, 4, 4, "fast"), "'fast'.*dense"),
    "depth zero": (lambda: identity(4, 0), "at least 1"),
    "a depth too small": (lambda: XDOperation.from_conv(nn.Conv1d(1, 1, 3, dilation=2), 9, depth=(1, 1, 1)), r"\(1, 3, 1\)"),
    "a depth that is no triple": (lambda: XDOperation.from_conv(nn.Conv1d(1, 1, 3), 9, depth=(1, 1)), "3 values, each a whole"),
    "a layer that is no convolution": (lambda: XDOperation.from_conv(nn.Linear(2, 2), 9), "a Linear.*Conv1d"),
    "an input size of the wrong length": (lambda: XDOperation.from_conv(nn.Conv2d(1, 1, 3), 9, size=(9,)), "2 numbers"),
    "an input smaller than the kernel": (lambda: XDOperation.from_conv(nn.Conv1d(1, 1, 5), 3), "length 3.*at least 5"),
    "a size too small to be exact": (lambda: XDOperation.from_conv(nn.Conv1d(1, 1, 3, padding=1), 16, size=16), "at least 17"),
    "a size that cannot be factored": (lambda: XDOperation.from_conv(nn.Conv1d(1, 1, 3), 16, size=37), "37"),
    "an unknown presence": (lambda: XDOperation.from_conv(nn.Conv1d(1, 1, 3), 16, b="yes"), "'absent', 'fixed' or 'trained'"),
    "no dimensions": (lambda: operation(axes=[], weight=torch.zeros(1, 1), K=[], L=[], M=[]), "1, 2 or 3"),
    "matrices of another size": (lambda: operation(K=[identity(8)]), r"K of sizes \[8\].*\[4\]"),
    "filters of another dimension": (lambda: operation(weight=torch.zeros(2, 2, 3, 3)), "1 spatial dimensions"),
    "filters larger than the operation": (lambda: operation(weight=torch.zeros(2, 2, 5)), r"at most \(4,\)"),
    "b of another shape": (lambda: operation(b=torch.zeros(4)), r"b of shape \(4,\).*\(4, 2\)"),
    "C of another shape": (lambda: operation(C=torch.zeros(2, 2)), r"C of shape \(2, 2\).*\(2, 2, 2\)"),
    "groups that do not divide": (lambda: operation(weight=torch.zeros(3, 1, 3), groups=2), "divisible by groups"),
}  # fmt: skip


@pytest.mark.parametrize("mistake", MISTAKES)
def test_a_mistake_is_answered_with_what_was_given_expected_and_to_try(mistake):
    make, message = MISTAKES[mistake]
    with pytest.raises(XDError, match=message) as caught:
        make()
    assert str(caught.value) == f"given {caught.value.given}; expected {caught.value.expected}; try: {caught.value.hint}"


def test_nothing_is_computed_before_the_error(monkeypatch):
    def work(*_args, **_kwargs):
        raise AssertionError("work was done")

    monkeypatch.setattr(KMatrix, "_dense", work)
    monkeypatch.setattr(KMatrix, "_staged", work)
    with pytest.raises(XDError):
        OP(image(1, 3, 12, 30))
    with pytest.raises(XDError):
        identity(4).apply(torch.zeros(5))


def test_an_error_survives_a_process_boundary():
    error = XDError("this", "that", "the other")
    again = pickle.loads(pickle.dumps(error))
    assert (again.given, again.expected, again.hint) == ("this", "that", "the other")
    assert isinstance(again, ValueError)
