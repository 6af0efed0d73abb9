"""Training steps of whole sequence networks: searched in every way, as multiples of the TCN's own."""

import dataclasses
from collections.abc import Callable, Mapping
from typing import Any

import torch
from torch import nn

from xdops.bench.run import TimedStep
from xdops.convert import arch_parameters, weight_parameters
from xdops.data.music import NOTES
from xdops.measuring.timing import interleaved
from xdops.reproduce.sequences.networks import build_network
from xdops.reproduce.sequences.presets import JSB, MNIST, PRESETS, Preset
from xdops.reproduce.sequences.problems import error_percent, note_loss, note_metric
from xdops.search import Examples, MeanMetric, Metric, Problem, Sequences, Split

#: Steps of a piece of JSB Chorales: the mean, and the longest there is.
MEAN_STEPS, LONGEST = 60, 160
#: What each network may take, in multiples of the TCN's time.
LIMITS: dict[str, dict[str, float]] = {
    "jsb": {"undilated TCN, filters XD": 2.5, "undilated TCN, direct XD": 5.0, "undilated TCN, windows XD": 15.0},
    "pmnist": {"undilated TCN XD": 3.0, "undilated TCN, half domain XD": 3.0},
}


def measure(case: str, repetitions: int, tick: Callable[[str], None]) -> dict[str, Any]:
    """One line per network: seconds of a step, ratio to the TCN's, and the limit."""
    torch.manual_seed(0)
    preset = next(p for p in PRESETS["paper"] if p.data == (JSB if case == "jsb" else MNIST))
    problem = random_music() if case == "jsb" else random_digits(preset)
    steps = {m: training_step(preset, m, problem) for m in ("undilated TCN", *LIMITS[case])}
    timed = interleaved(steps, "undilated TCN", repetitions, lambda: tick(case))
    return {name: timing.to_dict() | {"limit": LIMITS[case].get(name)} for name, timing in timed.items()}


def random_music() -> Problem:
    """Pieces of the mean and of the largest length."""
    lengths = (MEAN_STEPS, LONGEST)
    x, y = (torch.rand(2, sum(lengths), NOTES) < 0.05).float()
    part: Examples = Sequences(x, y, lengths)
    return Problem(part, part, part, note_loss, MeanMetric("loss", note_metric, False), reduction="sum")


def random_digits(preset: Preset) -> Problem:
    part: Examples = Split(torch.randn(preset.batch_size, 1, preset.side**2), torch.randint(10, (preset.batch_size,)))
    return Problem(part, part, part, nn.functional.cross_entropy, Metric("error (%)", error_percent, False))


def training_step(preset: Preset, method: str, problem: Problem) -> TimedStep:
    """All that a search does in a step: forward, backward, clipping, and both optimizers."""
    settings = preset.search(method)
    network = build_network(dataclasses.replace(preset, more=(method,)), method, problem, 0).train()
    optimizers = [torch.optim.Adam(weight_parameters(network), settings.weights.lr)]
    if architecture := arch_parameters(network):
        optimizers.append(torch.optim.Adam(architecture, settings.architecture.lr))
    batch = problem.train.batch(torch.arange(preset.batch_size))

    def step() -> None:
        for optimizer in optimizers:
            optimizer.zero_grad()
        problem.loss(*batch.counted(network(batch.x))).backward()
        if settings.clip is not None:
            nn.utils.clip_grad_norm_(weight_parameters(network), settings.clip)
        for optimizer in optimizers:
            optimizer.step()

    return step


def lines(measured: Mapping[str, Mapping[str, Any]]) -> list[str]:
    """For the terminal."""
    found = []
    for case, networks in measured.items():
        for name, t in networks.items():
            limit = "" if t["limit"] is None else f", at most {t['limit']:g}: {'met' if t['ratio'] <= t['limit'] else 'not met'}"
            found.append(f"{case:7s} {name:28s} {1e3 * t['seconds']:8.1f} ms  {t['ratio']:5.2f} x the TCN's{limit}")
    return found
