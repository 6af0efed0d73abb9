"""The claims of the paper's Appendix A, one test each, and what the named constructors promise beyond them."""

import pytest
import torch
import torch.nn.functional as F
from matrix_laws import agree
from torch import nn

from xdops import XDOperation, named
from xdops.errors import XDError
from xdops.matrices import Kronecker, default_radices, dft, identity, inverse_dft, permutation, random_gaussian, sparse
from xdops.operations import Axis
from xdops.operations.definition import xd_operation

CONV = {1: F.conv1d, 2: F.conv2d, 3: F.conv3d}
CONV_TRANSPOSE = {1: F.conv_transpose1d, 2: F.conv_transpose2d, 3: F.conv_transpose3d}
POOL = {1: nn.AvgPool1d, 2: nn.AvgPool2d, 3: nn.AvgPool3d}
SIZES = [(16,), (9, 10), (6, 5, 7)]
DOUBLE = torch.float64
TIGHT = 1e-10


@pytest.fixture(autouse=True)
def _double_precision():
    torch.set_default_dtype(DOUBLE)
    yield
    torch.set_default_dtype(torch.float32)


def channels(m, c=4):
    return torch.randn(2, c, *m)


@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize(("stride", "dilation", "groups"), [(1, 2, 1), (2, 1, 1), (3, 2, 2), (1, 1, 4), (2, 2, 4)])
def test_claim_convolutions_of_any_dilation_stride_and_groups_have_depth_1_3_1(size, stride, dilation, groups):
    op = named.convolution(4, 8, 3, size, stride=stride, dilation=dilation, groups=groups, padding=2)
    blocks = op.weight.unflatten(0, (groups, -1)).unflatten(2, (groups, -1))
    own = torch.cat([blocks[g, :, g] for g in range(groups)])
    x = channels(size)
    agree(op(x), CONV[len(size)](x, own, stride=stride, dilation=dilation, padding=2, groups=groups), TIGHT)
    assert op.depth == ((1, 3, 1) if dilation > 1 else (1, 1, 1))
    assert op.C is not None
    assert op.C[..., 0].sum() == 4 * 8 / groups


def test_remark_undilated_convolutions_have_depth_1_1_1():
    op = named.convolution(2, 3, 4, 17, padding=2, padding_mode="reflect", bias=True)
    x = channels((17,), 2)
    agree(op(x), F.conv1d(F.pad(x, (2, 2), mode="reflect"), op.weight, op.bias), TIGHT)
    assert op.depth == (1, 1, 1)


@pytest.mark.parametrize(("k", "d", "s"), [(3, 3, 2), (4, 5, 1), (2, 15, 5), (3, 1, 3)])
def test_the_architecture_in_the_proof_of_the_convolution_claim_is_a_convolution(k, d, s):
    """K = diag(kept) F^-1, L = F P_d and M = F, as written: a circular convolution with zeros where the stride leaves out."""
    n = 16
    x, w = torch.randn(n), torch.randn(k)
    places = torch.arange(k) * d
    free = torch.tensor([t for t in range(n) if t not in places.tolist()])
    source = torch.empty(n, dtype=torch.long)
    source[torch.cat((places, free))] = torch.arange(n)
    kept = (torch.arange(n) % s == 0).double()
    K = inverse_dft(n, order="reversed").scale_rows(kept)
    L = dft(n, order="reversed") @ permutation(source)
    M = dft(n, order="reversed")
    assert (K.depth, L.depth, M.depth) == (1, 3, 1)
    y = xd_operation(x[None, None], w[None, None], *(Kronecker([m]) for m in (K, L, M)), [Axis(n)])
    by_hand = torch.stack([sum(w[j] * x[(t - j * d) % n] for j in range(k)) for t in range(n)])
    agree(y[0, 0], kept * by_hand, TIGHT)


@pytest.mark.parametrize("size", SIZES)
def test_claim_skip_and_zero_have_depth_1_1_1(size):
    x = channels(size)
    agree(named.skip(4, size)(x), x, TIGHT)
    assert torch.equal(named.zero(4, size)(x), torch.zeros_like(x))
    for op in (named.skip(4, size), named.zero(4, size)):
        assert op.depth == (1, 1, 1)
        assert not op.matrix("L").matrices[0].to_dense().any()


@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize("pool", [(2, None, 0), (3, 1, 1), (3, 2, 1), (4, 3, 2), (5, 2, 0)])
@pytest.mark.parametrize("ceil_mode", [False, True])
@pytest.mark.parametrize("count_include_pad", [False, True])
def test_claim_average_pooling_has_depth_1_1_1(size, pool, ceil_mode, count_include_pad):
    k, stride, padding = pool
    op = named.average_pool(4, k, size, stride, padding=padding, ceil_mode=ceil_mode, count_include_pad=count_include_pad)
    x = channels(size)
    agree(op(x), POOL[len(size)](k, stride, padding, ceil_mode, count_include_pad)(x), TIGHT)
    assert op.depth == (1, 1, 1)
    assert op.b is not None
    assert op.C is not None
    assert torch.equal(op.C[..., 0], torch.eye(4))


@pytest.mark.parametrize(("k", "d", "s"), [(3, 2, 1), (2, 5, 2), (4, 3, 3)])
def test_claim_average_pooling_may_be_dilated_at_depth_1_1_1(k, d, s):
    op = named.average_pool(3, k, 23, stride=s, dilation=d)
    x = channels((23,), 3)
    agree(op(x), F.conv1d(x, torch.full((3, 1, k), 1 / k), stride=s, dilation=d, groups=3), TIGHT)
    assert op.depth == (1, 1, 1)


def test_average_pooling_of_smaller_inputs_is_right_where_no_count_depends_on_the_end():
    op = named.average_pool(2, 3, 20, 2, padding=1)
    x = channels((13,), 2)
    agree(op(x), nn.AvgPool1d(3, 2, 1)(x), TIGHT)


@pytest.mark.parametrize("d", [1, 2, 4])
def test_claim_composition_with_a_fixed_matrix_adds_its_depth_to_M_or_K(d):
    n = 16
    op = named.convolution(2, 3, 3, n, padding=1, padding_mode="circular")
    cells = torch.randperm(n * n)[:n]
    real = sparse(torch.zeros(n * n).index_fill(0, cells, 0.5).view(n, n)) if d == 4 else None
    A = real or (permutation(torch.randperm(n)) if d == 2 else identity(n).scale_rows(torch.randn(n)))
    x = channels((n,), 2)
    before, after = named.compose_input(op, A), named.compose_output(A, op)
    agree(before(x), op(A.apply(x).real), TIGHT)
    agree(after(x), A.apply(op(x)).real, TIGHT)
    assert before.depth == (1, 1, 1 + d)
    assert after.depth == (1 + d, 1, 1)
    assert op.depth == (1, 1, 1)


def test_claim_composition_holds_for_parameter_free_operations_in_two_dimensions():
    order = [torch.randperm(4), torch.randperm(8)]
    A = [permutation(o) for o in order]
    op = named.skip(2, (4, 8))
    x = channels((4, 8), 2)
    shuffled = x[:, :, order[0]][..., order[1]]
    agree(named.compose_input(op, A)(x), shuffled, TIGHT)
    agree(named.compose_output(A, op)(x), shuffled, TIGHT)


def graphs():
    torch.manual_seed(1)
    ring = torch.eye(12).roll(1, 0)
    star = torch.zeros(9, 9)
    star[0, 1:] = star[1:, 0] = 1
    random = (torch.rand(14, 14) < 0.2).double() * torch.rand(14, 14)
    isolated = random.clone()
    isolated[[0, 5, 13]] = 0
    isolated[:, [0, 5, 13]] = 0
    dense = torch.ones(5, 5)
    return {"ring": ring + ring.T, "star": star, "directed and weighted": random, "isolated nodes": isolated,
            "complete": dense, "no edges": torch.zeros(6, 6), "one node": torch.zeros(1, 1)}  # fmt: skip


@pytest.mark.parametrize("name", graphs())
def test_claim_graph_convolution_has_depth_1_1_5(name):
    A = graphs()[name].double()
    looped = A + torch.eye(len(A))
    D = torch.diag(looped.sum(1) ** -0.5)
    op = named.graph_convolution(3, 5, A)
    x = channels((len(A),), 3)
    agree(op(x), torch.einsum("oi,bin->bon", op.weight[..., 0], x @ (D @ looped @ D).T), TIGHT)
    assert op.depth == (1, 1, 5)
    assert op.matrix("M").matrices[0].butterflies[0].radices == default_radices(op.sizes[0])


@pytest.mark.parametrize("name", graphs())
def test_claim_diffusion_graph_convolution_has_depth_1_1_5(name):
    A = graphs()[name].double()
    walk = torch.zeros_like(A)
    connected = A.sum(1) > 0
    walk[connected] = A[connected] / A[connected].sum(1, keepdim=True)
    op = named.diffusion_graph_convolution(3, 5, A.to_sparse())
    x = channels((len(A),), 3)
    agree(op(x), torch.einsum("oi,bin->bon", op.weight[..., 0], x @ walk.T), TIGHT)
    assert op.depth == (1, 1, 5)


def spectral(x, weight, n):
    dims = tuple(range(2, x.dim()))
    padded = torch.zeros(*weight.shape[:2], *n, dtype=torch.complex128)
    padded[(..., *(slice(0, k) for k in weight.shape[2:]))] = weight
    y = torch.fft.ifftn(torch.einsum("oi...,bi...->bo...", padded, torch.fft.fftn(x, s=n, dim=dims)), dim=dims).real
    return y[(..., *(slice(0, m) for m in x.shape[2:]))]


@pytest.mark.parametrize(("size", "modes"), [((16,), 4), ((16,), 8), ((36,), 5), ((31,), 3), ((8, 12), 3), ((4, 6, 8), 2)])
def test_claim_fno_with_half_as_many_modes_as_real_weights_has_depth_1_4_1(size, modes):
    op = named.fno(3, 5, modes, size)
    x = channels(size, 3)
    real, imaginary = op.weight.chunk(2, dim=-1)
    agree(op(x), spectral(x, torch.complex(real, imaginary), op.sizes), TIGHT)
    assert op.depth == (1, 4, 1)
    assert op.kernel_size[-1] == 2 * modes


@pytest.mark.parametrize(("size", "modes"), [((16,), 4), ((16,), 16), ((36,), 7), ((31,), 3), ((8, 12), (3, 5)), ((4, 6, 8), 2)])
def test_remark_fno_with_as_many_modes_as_complex_weights_has_depth_1_1_1(size, modes):
    op = named.fno_complex(3, 5, modes, size)
    x = channels(size, 3)
    agree(op(x), spectral(x, torch.view_as_complex(op.weight), op.sizes), TIGHT)
    agree(op.evaluate(x, "staged"), op(x), TIGHT)
    assert op.depth == (1, 1, 1)


@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize(("k", "d"), [(1, 1), (2, 1), (3, 1), (2, 3), (3, 2)])
def test_claim_transposed_convolution_with_stride_of_its_dilated_kernel_has_depth_1_3_3(size, k, d):
    op = named.transposed_convolution(3, 5, k, size, dilation=d)
    x = channels(size, 3)
    agree(op(x), CONV_TRANSPOSE[len(size)](x, op.weight, stride=d * (k - 1) + 1, dilation=d), TIGHT)
    assert op.depth == (1, 3, 3)


@pytest.mark.parametrize("size", SIZES)
def test_remark_depthwise_separable_convolutions_are_compositions(size):
    pair = named.depthwise_separable(3, 5, 3, size, padding=1)
    x = channels(size, 3)
    conv = CONV[len(size)]
    agree(pair(x), conv(conv(x, pair[0].weight, padding=1, groups=3), pair[1].weight), TIGHT)
    assert [op.depth for op in pair] == [(1, 1, 1), (1, 1, 1)]
    assert all(isinstance(op, XDOperation) for op in pair)
    assert sum(op.weight.numel() for op in pair) == 3 * 3 ** len(size) + 3 * 5


def test_definition_3_1_holds_with_everything_at_random():
    """Every part of the definition at once, against dense matrices and a loop over channels."""
    op = named.convolution(2, 3, (3, 2), (6, 4), padding_mode="circular")
    n = op.sizes
    K, L, M = (type(op.matrix("K"))([random_gaussian(m, 2) for m in n]) for _ in range(3))
    b, C = torch.randn(*n, 2), torch.randn(3, 2, 2)
    x = torch.randn(1, 2, 6, 4)
    given = xd_operation(x, op.weight, K, L, M, op.axes, b=b, C=C)
    k, l, m = (matrix.to_dense() for matrix in (K, L, M))  # noqa: E741
    zero_padded = torch.zeros(3, 2, *n)
    zero_padded[..., :3, :2] = op.weight.detach()
    expected = torch.zeros(3, *n)
    for i in range(3):
        for j in range(2):
            domain = l @ zero_padded[i, j].flatten().to(torch.complex128) + torch.view_as_complex(b).flatten()
            placed = torch.zeros(n)
            placed[:6, :4] = x[0, j]
            y = k @ (torch.view_as_complex(C)[i, j] * domain * (m @ placed.flatten().to(torch.complex128)))
            expected[i] += y.real.view(n)
    rows = tuple(slice(0, size) for size in given.shape[2:])
    agree(given[0], expected[(slice(None), *rows)], TIGHT)


def test_parameter_free_operations_can_learn_to_use_their_weights():
    op = named.skip(2, 8, kernel_size=3)
    op(channels((8,), 2)).square().sum().backward()
    assert max(float(m.values[0].grad.abs().max()) for m in op.L) > 0


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: named.convolution(4, 4, 3, (8, 8, 8, 8)), "1, 2 or 3"),
        (lambda: named.convolution(3, 4, 3, 8, groups=2), "divisible"),
        (lambda: named.convolution(4, 4, (3, 3), 8), "kernel_size"),
        (lambda: named.average_pool(2, 2, 8, padding=2), "half a window"),
        (lambda: named.average_pool(2, 9, 8), "at least 9"),
        (lambda: named.fno(2, 2, 9, 16), "at most 16"),
        (lambda: named.fno_complex(2, 2, 17, 16), "at most 16"),
        (lambda: named.graph_convolution(2, 2, torch.ones(3, 4)), r"\(nodes, nodes\)"),
        (lambda: named.diffusion_graph_convolution(2, 2, -torch.eye(3)), "negative"),
        (lambda: named.skip(0, 8), "at least one"),
        (lambda: named.skip(2, 0), "positive"),
        (lambda: named.compose_input(named.skip(2, 8), identity(4)), "sizes"),
        (lambda: named.compose_output(identity(8), named.average_pool(2, 2, 8)), "stride 1"),
        (lambda: named.compose_input(named.convolution(1, 1, 3, 8, padding=1, padding_mode="reflect"), identity(10)), "padding"),
    ],
)  # fmt: skip
def test_bad_arguments_are_named(make, message):
    with pytest.raises(XDError, match=message):
        make()


@pytest.mark.parametrize("size", [(12,), (6, 8), (4, 4, 6)])
def test_a_skip_can_learn_to_use_its_weights_in_every_number_of_dimensions(size: tuple[int, ...]) -> None:
    torch.manual_seed(0)
    op = named.skip(2, size, kernel_size=3, dtype=torch.float64)
    x, target = torch.randn(4, 2, *size, dtype=torch.float64), torch.randn(4, 2, *size, dtype=torch.float64)
    optimizer = torch.optim.Adam(op.parameters(), 1e-2)
    for _ in range(3):
        optimizer.zero_grad()
        (op(x) - target).square().mean().backward()
        optimizer.step()
    assert op.weight.grad is not None
    assert op.weight.grad.abs().max() > 0
