"""Sequences of different lengths in a search: what padding and batching may not change."""

import dataclasses
import math

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from xdops.errors import XDError
from xdops.search import Batch, MeanMetric, OptimizerSettings, Problem, ScheduleSettings, SearchSettings, Sequences, Silent, search
from xdops.search.schedule import schedule_factor

LENGTHS = (3, 7, 1, 5, 4)


class Causal(nn.Module):
    """Output t of (batch, outputs, T) sees inputs up to t: padding at the end changes nothing before it."""

    def __init__(self, dropout: float = 0.0) -> None:
        super().__init__()
        self.conv = nn.Conv1d(2, 3, 2)
        self.dropout = nn.Dropout(dropout)

    def forward(self, x: Tensor) -> Tensor:
        y: Tensor = self.dropout(self.conv(F.pad(x, (1, 0))))
        return y


def squares(prediction: Tensor, batch: Batch) -> tuple[Tensor, int]:
    given, y = batch.counted(prediction)
    return (given - y).square().sum(), len(y)


def mean_square(prediction: Tensor, y: Tensor) -> Tensor:
    return (prediction - y).square().sum(1).mean()


def sum_square(prediction: Tensor, y: Tensor) -> Tensor:
    return (prediction - y).square().sum()


def make_sequences(seed: int = 0, counted: bool = False) -> Sequences:
    generator = torch.Generator().manual_seed(seed)
    x, y = (torch.randn(sum(LENGTHS), c, generator=generator) for c in (2, 3))
    some = torch.rand(len(x), generator=generator) < 0.5
    some[[0, 3, 10, 11, 16]] = True  # the first step of each
    return Sequences(x, y, LENGTHS, some if counted else None)


def make_problem(counted: bool = False, reduction: str = "mean") -> Problem:
    loss = mean_square if reduction == "mean" else sum_square
    parts = [make_sequences(seed, counted) for seed in range(3)]
    return Problem(*parts, loss, MeanMetric("square", squares, False), reduction=reduction)


def run(tmp_path, problem: Problem, name: str = "run", network: nn.Module | None = None, **changes):
    torch.manual_seed(0)
    settings = SearchSettings(
        epochs=2, batch_size=5, weights=OptimizerSettings("sgd", 0.05), precision="64-true", accelerator="cpu"
    )
    network = network or Causal().double()
    return search(network, problem, dataclasses.replace(settings, **changes), tmp_path / name, progress=Silent())


def test_a_batch_holds_every_sequence_and_says_which_steps_count():
    sequences = make_sequences()
    batch = sequences.batch(torch.tensor([1, 3]))
    assert batch.x.shape == (2, 2, 7)
    assert batch.mask is not None
    assert batch.mask.sum(1).tolist() == [7, 5]
    assert torch.equal(batch.x[1, :, :5].T, sequences.x[11:16])
    assert batch.x[1, :, 5:].abs().sum() == 0
    given, y = batch.counted(torch.arange(42.0).reshape(2, 3, 7))
    assert given.shape == y.shape == (12, 3)
    assert torch.equal(y, torch.cat((sequences.y[3:10], sequences.y[11:16])))
    assert given[7].tolist() == [21, 28, 35]


@pytest.mark.parametrize("reduction", ["mean", "sum"])
@pytest.mark.parametrize("counted", [False, True])
def test_losses_and_metrics_are_the_same_however_sequences_are_batched(tmp_path, reduction, counted):
    problem = make_problem(counted, reduction)
    whole = run(tmp_path, problem, "whole")
    for i, changes in enumerate(({"batch_size": 1, "accumulate": 5}, {"batch_size": 2, "accumulate": 3}, {"eval_batch_size": 2})):
        parts = run(tmp_path, problem, f"parts{i}", **changes)
        for a, b in zip(whole.history, parts.history, strict=True):
            assert a.train_loss == pytest.approx(b.train_loss, rel=1e-10)
            assert a.validation_loss == pytest.approx(b.validation_loss, rel=1e-10)
            assert a.validation_metric == pytest.approx(b.validation_metric, rel=1e-10)
        assert whole.test_at_best == pytest.approx(parts.test_at_best, rel=1e-10)


def test_every_step_weighs_the_same_in_a_long_and_a_short_sequence(tmp_path):
    problem = make_problem()
    network = Causal().double()
    result = run(tmp_path, problem, network=network, epochs=1)
    sequences, errors = problem.test, []
    for x, y in zip(sequences.x.split(LENGTHS), sequences.y.split(LENGTHS), strict=True):
        errors.append((network(x.T[None].double())[0].T - y).square().sum(1))
    assert result.test_at_best == pytest.approx(torch.cat(errors).mean().item(), rel=1e-10)


def test_a_search_over_sequences_resumes_exactly(tmp_path):
    settings = SearchSettings(epochs=3, batch_size=1, weights=OptimizerSettings("adam", 0.01), accelerator="cpu")

    def network() -> Causal:
        torch.manual_seed(1)
        return Causal(dropout=0.3)

    whole = search(network(), make_problem(), settings, tmp_path / "whole", progress=Silent())

    class StopAfter(Silent):
        def step(self, epoch: int, step: int, loss: float) -> None:
            if (epoch, step) == (1, 3):
                raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        search(network(), make_problem(), settings, tmp_path / "parts", progress=StopAfter())
    again = search(network(), make_problem(), settings, tmp_path / "parts", resume=True, progress=Silent())
    assert [r.train_loss for r in whole.history] == [r.train_loss for r in again.history]
    assert whole.test_at_last == again.test_at_last


def test_other_lengths_are_other_data():
    sequences = make_sequences()
    other = dataclasses.replace(sequences, lengths=(4, 6, 1, 5, 4))
    assert sequences.signature() != other.signature()
    assert sequences.signature() == make_sequences().signature()


@pytest.mark.parametrize(
    ("lengths", "message"),
    [((3, 0, 17), "sequence 1 of length 0"), ((3, 7), "add up to 10"), ((), "no sequences"), ((-3, 23), "sequence 0 of length -3")],
)
def test_lengths_that_are_wrong_are_refused(lengths, message):
    with pytest.raises(XDError, match=message):
        Sequences(torch.zeros(20, 2), torch.zeros(20, 3), lengths)


def test_a_sequence_of_which_nothing_counts_is_refused():
    counted = torch.tensor([True] * 3 + [False] * 17)
    with pytest.raises(XDError, match="no step counts"):
        Sequences(torch.zeros(20, 2), torch.zeros(20, 3), LENGTHS, counted)


def test_a_mean_metric_may_end_in_a_function_of_the_mean():
    assert MeanMetric("perplexity", squares, False, math.exp).of(4.0, 2) == pytest.approx(math.exp(2))


def test_the_architecture_is_clipped_only_if_asked():
    assert "clip_architecture" not in SearchSettings(clip=1.0).to_dict()
    settings = SearchSettings(clip=1.0, clip_architecture=False, schedule=ScheduleSettings("plateau", after=10))
    assert SearchSettings.from_dict(settings.to_dict()) == settings


def test_a_plateau_counts_only_after_its_first_epochs():
    schedule, metric = ScheduleSettings("plateau", factor=0.1, patience=3, after=10), MeanMetric("loss", squares, False)
    rising = [float(i) for i in range(12)]
    assert schedule_factor(schedule, 100, rising[:10], metric) == 1
    assert schedule_factor(schedule, 100, rising[:11], metric) == pytest.approx(0.1)
    assert schedule_factor(schedule, 100, rising, metric) == pytest.approx(0.01)
    largest_of_three = [5.0] * 8 + [9.0, 7.0, 8.0]
    assert schedule_factor(schedule, 100, largest_of_three, metric) == 1
