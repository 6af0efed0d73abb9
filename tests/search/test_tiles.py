"""Predictions of any size by tiles: exact where a plain convolutional network is."""

from itertools import pairwise

import pytest
import torch
from torch import Tensor, nn

from xdops.convert import convert_
from xdops.errors import XDError
from xdops.search import Tiles
from xdops.search.tiles import tile_starts


def network(dims: int, layers: int) -> nn.Module:
    """Its outputs see `layers` points far in every direction."""
    torch.manual_seed(0)
    conv = {1: nn.Conv1d, 2: nn.Conv2d, 3: nn.Conv3d}[dims]
    parts: list[nn.Module] = []
    for i in range(layers):
        parts += [conv(1 if i == 0 else 3, 3 if i < layers - 1 else 1, 3, padding=1), nn.ReLU()]
    return nn.Sequential(*parts[:-1]).double()


@pytest.mark.parametrize(
    ("sides", "size", "overlap", "layers"),
    [((40,), (16,), 8, 2), ((17,), (16,), 9, 2), ((30, 21), (12, 12), 8, 2), ((16, 40), (16, 16), 12, 3),
     ((9, 11, 8), (8, 8, 8), 4, 1)],
)  # fmt: skip
def test_tiles_of_a_convolutional_network_that_sees_no_further_are_exact(
    sides: tuple[int, ...], size: tuple[int, ...], overlap: int, layers: int
) -> None:
    plain, x = network(len(sides), layers), torch.randn(2, 1, *sides, dtype=torch.float64)
    tiles = Tiles(size, overlap)
    assert layers <= tiles.exact
    torch.testing.assert_close(tiles(plain, x), plain(x), rtol=1e-10, atol=1e-10)


def test_so_are_those_of_its_xd_operations_at_their_start() -> None:
    plain, x = network(2, 2).float(), torch.randn(1, 1, 25, 37)
    expected = plain(x)
    convert_(plain, torch.zeros(1, 1, 16, 16))
    torch.testing.assert_close(Tiles((16, 16), 8)(plain, x), expected, rtol=1e-5, atol=1e-5)


def test_margins_are_zeros_around_the_input() -> None:
    plain, x = network(2, 2), torch.randn(1, 1, 20, 29, dtype=torch.float64)
    expected = plain(nn.functional.pad(x, (5,) * 4))[:, :, 5:-5, 5:-5]
    torch.testing.assert_close(Tiles((16, 16), 8, margin=5)(plain, x), expected, rtol=1e-10, atol=1e-10)


def test_a_shorter_input_is_padded_to_a_tile_and_cut_back() -> None:
    plain, x = network(1, 2), torch.randn(1, 1, 7, dtype=torch.float64)
    expected = plain(nn.functional.pad(x, (2, 7)))[:, :, 2:9]
    torch.testing.assert_close(Tiles((16,), 4, margin=2)(plain, x), expected)


def test_every_tile_has_the_networks_size() -> None:
    seen = set()

    def watch(x: Tensor) -> Tensor:
        seen.add(tuple(x.shape))
        return x

    x = torch.randn(1, 2, 50, 3)
    torch.testing.assert_close(Tiles((16, 8), 5)(watch, x), x)  # type: ignore[arg-type]
    assert seen == {(1, 2, 16, 8)}


def test_blending_goes_from_one_tile_to_the_next_without_a_jump() -> None:
    """Tiles that each say another number: the result climbs from the first to the last in small steps."""
    said = iter(range(10))
    result = Tiles((16,), 8)(lambda x: torch.full_like(x, next(said)), torch.zeros(1, 1, 40))[0, 0]  # type: ignore[arg-type]
    steps = result.diff()
    assert result[0] == 0
    assert result[-1] == len(tile_starts(40, 16, 8)) - 1
    assert (steps >= 0).all()
    assert steps.max() < 0.5


def test_outputs_that_are_not_on_the_grid_are_averaged() -> None:
    x = torch.randn(3, 2, 40, 16)
    starts = tile_starts(40, 16, 4)
    expected = torch.stack([x[:, :, a : a + 16].mean(dim=(2, 3)) for a in starts]).mean(dim=0)
    torch.testing.assert_close(Tiles((16, 16), 4)(lambda t: t.mean(dim=(2, 3)), x), expected)  # type: ignore[arg-type]


@pytest.mark.parametrize(("side", "size", "overlap"), [(100, 64, 16), (65, 64, 0), (64, 64, 16), (500, 128, 32), (3, 8, 2)])
def test_tiles_cover_everything_and_overlap_enough(side: int, size: int, overlap: int) -> None:
    starts = tile_starts(side, size, overlap)
    assert starts[0] == 0
    assert starts[-1] == max(0, side - size)
    assert all(0 < b - a <= size - overlap for a, b in pairwise(starts))


@pytest.mark.parametrize(("size", "overlap", "margin"), [((), 0, 0), ((8, 8), 8, 0), ((8,), -1, 0), ((8,), 2, -1)])
def test_tiles_that_cannot_be_are_refused(size: tuple[int, ...], overlap: int, margin: int) -> None:
    with pytest.raises(XDError, match="tiles of"):
        Tiles(size, overlap, margin)
