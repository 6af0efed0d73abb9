"""Random windows of large examples, inputs and targets alike."""

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import torch
from search_support import StopAt, assert_same_run
from torch import Generator, Tensor, nn

from xdops.errors import XDError
from xdops.search import (
    Batch,
    Crops,
    Interrupted,
    MeanMetric,
    OptimizerSettings,
    Problem,
    SearchSettings,
    Silent,
    Split,
    Tiles,
    search,
)


@dataclass(frozen=True)
class Maps:
    """Examples of different sizes, one per batch: x[i] (1, *sides), y[i] (*sides, 1)."""

    x: list[Tensor]
    y: list[Tensor]

    def __len__(self) -> int:
        return len(self.x)

    def batch(self, indices: Tensor, generator: Generator | None = None) -> Batch:
        (i,) = indices.tolist()
        return Batch(self.x[i][None], self.y[i][None], torch.ones(1, *self.y[i].shape[:-1], dtype=torch.bool))

    def weight(self, indices: Tensor) -> int:
        return len(indices)

    def signature(self) -> dict[str, Any]:
        return {"sums": [float(t.sum()) for t in self.x]}


def generator(seed: int = 0) -> torch.Generator:
    return torch.Generator().manual_seed(seed)


def numbered(*sides: int) -> Tensor:
    """Every point its own number, from 1 on, (1, *sides)."""
    return torch.arange(1.0, 1 + torch.Size(sides).numel()).reshape(1, *sides)


def maps(*lengths: int) -> Maps:
    """Square maps whose targets are twice the inputs."""
    x = [numbered(n, n) for n in lengths]
    return Maps(x, [2 * t.movedim(0, -1) for t in x])


def test_inputs_and_targets_are_cut_at_the_same_place() -> None:
    batch = Crops(maps(9, 12), (4, 4)).batch(torch.tensor([0, 1, 1]), generator())
    assert batch.x.shape == (3, 1, 4, 4)
    assert torch.equal(batch.y, 2 * batch.x.movedim(1, -1))
    assert (batch.x > 0).all()


def test_so_are_targets_without_a_mask_which_then_need_none() -> None:
    x = torch.stack([numbered(7, 9), 100 + numbered(7, 9)])
    batch = Crops(Split(x, 3 * x), (4, 5)).batch(torch.tensor([1, 0]), generator())
    assert torch.equal(batch.y, 3 * batch.x)
    assert batch.mask is None


def test_every_window_within_the_example_is_drawn_and_none_outside() -> None:
    crops = Crops(Split(numbered(6)[None], torch.zeros(1)), (4,))
    source = generator()
    firsts = {int(crops.batch(torch.tensor([0]), source).x[0, 0, 0]) for _ in range(60)}
    assert firsts == {1, 2, 3}


def test_margins_and_short_examples_are_zero_and_do_not_count() -> None:
    inside = torch.zeros(6, 6, dtype=torch.bool)
    inside[1:4, 1:4] = True
    x = numbered(3, 3)[None]
    for examples in (maps(3), Split(x, 2 * x)):
        batch = Crops(examples, (6, 6), margin=1).batch(torch.tensor([0]), generator())
        assert torch.equal(batch.x[0, 0][inside], numbered(3, 3).flatten())
        assert not batch.x[0, 0][~inside].any()
        assert batch.mask is not None
        assert torch.equal(batch.mask[0], inside)
        assert torch.equal(batch.y[0, ..., 0], 2 * batch.x[0, 0])


def test_a_window_reaches_into_the_margin_of_a_long_example_and_no_further() -> None:
    crops, source, outside = Crops(Split(numbered(8)[None], numbered(8)[None]), (4,), margin=2), generator(), set()
    for _ in range(60):
        batch = crops.batch(torch.tensor([0]), source)
        assert (batch.mask is None) == bool((batch.x > 0).all())
        outside.add(0 if batch.mask is None else int((~batch.mask).sum()))
    assert outside == {0, 1, 2}


def test_large_and_small_examples_share_a_batch() -> None:
    batch = Crops(maps(3, 20), (6, 6)).batch(torch.tensor([0, 1]), generator())
    assert batch.mask is not None
    assert batch.mask.flatten(1).sum(dim=1).tolist() == [9, 36]


def test_classes_stay_as_they_are() -> None:
    batch = Crops(Split(torch.randn(4, 3, 8, 8), torch.tensor([3, 1, 0, 2])), (5, 5)).batch(torch.tensor([2, 0]), generator())
    assert batch.x.shape == (2, 3, 5, 5)
    assert batch.y.tolist() == [0, 3]
    assert batch.mask is None


def test_the_same_generator_draws_the_same_windows_and_none_gives_the_examples_as_they_are() -> None:
    crops = Crops(maps(9, 12), (4, 4))
    indices = torch.tensor([1, 0])
    assert torch.equal(crops.batch(indices, generator(5)).x, crops.batch(indices, generator(5)).x)
    assert crops.batch(indices[:1]).x.shape == (1, 1, 12, 12)


@pytest.mark.parametrize(("size", "margin"), [((4,), 0), ((0, 4), 0), ((4, 4), -1)])
def test_sizes_that_do_not_fit_are_refused(size: tuple[int, ...], margin: int) -> None:
    with pytest.raises(XDError, match="crops of"):
        Crops(maps(9), size, margin)


def squared(prediction: Tensor, y: Tensor) -> Tensor:
    return (prediction - y).square().mean()


def total(prediction: Tensor, batch: Batch) -> tuple[Tensor, int]:
    return squared(*batch.counted(prediction)) * len(batch.y), len(batch.y)


def cropped_problem() -> Problem:
    """Maps of several sizes to be smoothed."""
    source = generator(3)

    def examples(*lengths: int) -> Maps:
        x = [torch.randn(1, n, n, generator=source) for n in lengths]
        return Maps(x, [nn.functional.avg_pool2d(t, 3, 1, 1).movedim(0, -1) for t in x])

    train = Crops(examples(5, 9, 12, 10, 7), (8, 8), margin=1)
    metric = MeanMetric("error", total, higher_is_better=False)
    return Problem(train, examples(6, 13), examples(11), squared, metric, predictor=Tiles((8, 8), 4, margin=1))


SETTINGS = SearchSettings(
    epochs=3,
    batch_size=2,
    weights=OptimizerSettings("rmsprop", 1e-2, alpha=0.9, eps=1e-7),
    accelerator="cpu",
    eval_batch_size=1,
)


def network() -> nn.Module:
    torch.manual_seed(0)
    return nn.Sequential(nn.Conv2d(1, 4, 3, padding=1), nn.ReLU(), nn.Conv2d(4, 1, 3, padding=1))


@pytest.mark.trains
def test_training_on_crops_learns_and_resumes_exactly(tmp_path: Path) -> None:
    result = search(network(), cropped_problem(), SETTINGS, tmp_path / "whole", progress=Silent())
    assert result.history[-1].train_loss < result.history[0].train_loss
    with pytest.raises(Interrupted):
        search(network(), cropped_problem(), SETTINGS, tmp_path / "parts", progress=StopAt(1, 1))
    search(network(), cropped_problem(), SETTINGS, tmp_path / "parts", resume=True, progress=Silent())
    assert_same_run(tmp_path / "whole", tmp_path / "parts")


def test_another_crop_is_another_run() -> None:
    one, other = (Crops(maps(9), (4, 4), margin).signature() for margin in (0, 1))
    assert one != other
