"""What a search learns, and with what."""

import dataclasses
import json
import random
from pathlib import Path

import pytest
import torch
from search_support import SETTINGS, make_network, make_problem, make_split
from torch import Tensor, nn

from xdops.convert import arch_parameters, weight_parameters
from xdops.search import OptimizerSettings, Silent, search

PLAIN = OptimizerSettings("sgd", 0.05)


def run(network: nn.Module, out: Path, problem_changes: dict | None = None, **changes: object):
    return search(
        network, make_problem(**(problem_changes or {})), dataclasses.replace(SETTINGS, **changes), out, progress=Silent()
    )


def copies(parameters: list) -> list[Tensor]:
    return [p.detach().clone() for p in parameters]


def all_equal(a: list, b: list) -> bool:
    return all(torch.equal(p, q) for p, q in zip(a, b, strict=True))


class Watch(Silent):
    """Keeps the architecture after every epoch, and what learned in it."""

    def __init__(self, network: nn.Module) -> None:
        self.network, self.seen, self.learned = network, [copies(arch_parameters(network))], []

    def step(self, epoch: int, step: int, loss: float) -> None:
        self.flags = [p.requires_grad for p in arch_parameters(self.network)]

    def epoch(self, record, best: bool) -> None:
        self.seen.append(copies(arch_parameters(self.network)))
        self.learned.append(self.flags)


@pytest.mark.trains
def test_the_architecture_stays_bit_for_bit_in_warmup_and_cooldown_and_moves_between(tmp_path: Path) -> None:
    network = make_network()
    before = copies(weight_parameters(network))
    watch = Watch(network)
    # Momentum and weight decay would move a parameter that is merely without gradient.
    settings = dataclasses.replace(
        SETTINGS, epochs=5, warmup=2, cooldown=1, architecture=OptimizerSettings("sgd", 1e-2, momentum=0.9, weight_decay=0.1)
    )
    result = search(network, make_problem(), settings, tmp_path / "run", progress=watch)
    moved = [not all_equal(a, b) for a, b in zip(watch.seen, watch.seen[1:], strict=False)]
    assert moved == [False, False, True, True, False]
    assert [all(f) for f in watch.learned] == [any(f) for f in watch.learned] == moved
    assert not all_equal(before, weight_parameters(network))
    assert all(p.requires_grad for p in arch_parameters(network))
    assert [r.lr_architecture > 0 for r in result.history] == moved
    assert [r.novelty > 0 for r in result.history] == [False, False, True, True, True]
    assert result.weights == sum(p.numel() for p in weight_parameters(network))
    assert result.architecture == sum(p.numel() for p in arch_parameters(network)) > 0
    assert len(result.novelty) == 2


def test_fixed_parameters_stay_fixed_after_the_warmup(tmp_path: Path) -> None:
    network = make_network()
    network[0].freeze("K")
    fixed = [p for name, p in network[0].named_parameters() if name.startswith("K")]
    before = copies(fixed)
    network[6].bias.requires_grad_(False)
    bias = network[6].bias.detach().clone()
    run(network, tmp_path / "run", epochs=2)
    assert all_equal(before, fixed)
    assert not any(p.requires_grad for p in fixed)
    assert torch.equal(bias, network[6].bias)


def test_both_step_sizes_follow_the_same_schedule(tmp_path: Path) -> None:
    result = run(make_network(), tmp_path / "run", warmup=0)
    assert [r.lr_weights for r in result.history] == [0.05, 0.05, 0.05, 0.025]
    assert [r.lr_architecture for r in result.history] == [0.01, 0.01, 0.01, 0.005]


@pytest.mark.trains
def test_a_backbone_without_architecture_trains_by_the_same_call(tmp_path: Path) -> None:
    result = run(make_network(searched=False), tmp_path / "run", epochs=12)
    assert result.architecture == 0
    assert result.novelty == {}
    assert result.history[-1].train_loss < 0.9 * result.history[0].train_loss


@pytest.mark.trains
def test_it_learns(tmp_path: Path) -> None:
    result = run(make_network(dropout=0.0), tmp_path / "run", {"train": make_split(150, 1)}, epochs=15)
    assert result.test_at_best > 0.8  # a third by guessing
    assert result.best_validation == max(r.validation_metric for r in result.history)
    best = result.history[result.best_epoch - 1]
    ties = [r for r in result.history if r.validation_metric == result.best_validation]
    assert best == min(ties, key=lambda r: r.validation_loss)


def test_accumulated_halves_equal_the_whole_batch(tmp_path: Path) -> None:
    options = {"weights": PLAIN, "architecture": PLAIN, "precision": "64-true", "epochs": 2, "warmup": 0}
    networks = [make_network(dropout=0.0) for _ in range(2)]
    run(networks[0], tmp_path / "whole", {"augment": None}, batch_size=10, **options)
    run(networks[1], tmp_path / "halves", {"augment": None}, batch_size=5, accumulate=2, **options)
    for p, q in zip(*(n.parameters() for n in networks), strict=True):
        torch.testing.assert_close(p, q, rtol=1e-10, atol=1e-12)


def test_a_step_is_the_optimizers_own_with_clipped_gradients_of_each_kind(tmp_path: Path) -> None:
    clip = 0.01
    network, reference = make_network(dropout=0.0), make_network(dropout=0.0)
    run(
        network,
        tmp_path / "run",
        {"augment": None},
        weights=PLAIN,
        architecture=PLAIN,
        clip=clip,
        epochs=1,
        warmup=0,
        batch_size=37,
    )
    split = make_problem().train
    nn.functional.cross_entropy(reference(split.x), split.y).backward()
    for group in (weight_parameters(reference), arch_parameters(reference)):
        norm = torch.cat([p.grad.flatten() for p in group]).norm()
        assert norm > clip
        with torch.no_grad():
            for p in group:
                p -= 0.05 * clip / norm * p.grad
    for p, q in zip(network.parameters(), reference.parameters(), strict=True):
        torch.testing.assert_close(p, q, rtol=1e-5, atol=1e-7)


@pytest.mark.trains
@pytest.mark.parametrize("precision", ["bf16-mixed", "64-true"])
def test_other_precisions_train(tmp_path: Path, precision: str) -> None:
    network = make_network(dropout=0.0)
    seen = []
    network[3].register_forward_hook(lambda module, inputs, output: seen.append(inputs[0].dtype))
    result = run(network, tmp_path / "run", precision=precision, epochs=6)
    assert result.history[-1].train_loss < 0.9 * result.history[0].train_loss
    assert set(seen) <= ({torch.float64} if precision == "64-true" else {torch.bfloat16, torch.float32})
    assert {p.dtype for p in network.parameters()} == {torch.float64 if precision == "64-true" else torch.float32}


class Noisy(nn.Module):
    """Draws from every global generator there is."""

    def forward(self, x: Tensor) -> Tensor:
        return x * (1 + 0.1 * random.random() + 0.1 * torch.rand(())) if self.training else x


def test_generators_other_than_torchs_are_seeded_too(tmp_path: Path) -> None:
    losses = []
    for name in ("a", "b"):
        network = make_network()
        network[2] = Noisy()
        losses.append([r.train_loss for r in run(network, tmp_path / name, epochs=2).history])
        random.seed(5)
    assert losses[0] == losses[1]


def test_metrics_go_to_jsonl_and_tensorboard_once_per_epoch(tmp_path: Path) -> None:
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

    result = run(make_network(), tmp_path / "run")
    lines = [json.loads(line) for line in (tmp_path / "run" / "metrics.jsonl").read_text().splitlines()]
    assert lines == [r.to_dict() for r in result.history]
    events = EventAccumulator(str(tmp_path / "run" / "tensorboard"))
    events.Reload()
    scalars = events.Scalars("train/loss")
    assert [s.step for s in scalars] == [1, 2, 3, 4]
    assert [s.value for s in scalars] == pytest.approx([r.train_loss for r in result.history])
