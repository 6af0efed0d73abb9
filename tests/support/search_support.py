"""A tiny network to search over, and the same search as a program of its own: python search_support.py OUT [resume] [summed].

The program says at which step it is; at step SEARCH_HOLD ("EPOCH STEP") it waits for SEARCH_SIGNALS signals (1 if not given). The
process of rank SEARCH_LATE does not look for a checkpoint before there is one.
"""

import atexit
import dataclasses
import json
import os
import signal
import sys
from pathlib import Path

import pytest
import torch
from torch import Tensor, nn

from xdops.convert import XDConfig, convert_
from xdops.search import Metric, OptimizerSettings, Problem, ScheduleSettings, SearchSettings, Silent, Split, run, search, signals
from xdops.search.checkpoint import Checkpoint, newest

#: Momentum, Adam, a schedule and a warm-up that ends within the run.
SETTINGS = SearchSettings(
    epochs=4,
    batch_size=8,
    seed=3,
    weights=OptimizerSettings("sgd", 0.05, momentum=0.9, weight_decay=1e-4),
    architecture=OptimizerSettings("adam", 1e-2),
    schedule=ScheduleSettings("step", milestones=(0.75,), factor=0.5),
    warmup=1,
    clip=5.0,
    accelerator="cpu",
)


#: For runs that are compared up to rounding: Adam makes steps of full size from gradients that are nothing but rounding.
STEADY = OptimizerSettings("sgd", 1e-2, 0.9)


def make_network(dropout: float = 0.2, searched: bool = True, seed: int = 0, normed: bool = False) -> nn.Sequential:
    """Two convolutions on signals of length 12; with `searched`, XD-operations that start as them; `normed`: with batch norm."""
    torch.manual_seed(seed)
    network = nn.Sequential(
        nn.Conv1d(1, 4, 3, padding=1), *[nn.BatchNorm1d(4)] * normed, nn.ReLU(), nn.Dropout(dropout),
        nn.Conv1d(4, 4, 3, padding=1), nn.ReLU(), nn.Flatten(), nn.Linear(48, 3),
    )  # fmt: skip
    if searched:
        convert_(network, torch.zeros(1, 1, 12), XDConfig())
    return network


def accuracy(prediction: Tensor, y: Tensor) -> Tensor:
    return (prediction.argmax(1) == y).double().mean()


def jitter(x: Tensor, generator: torch.Generator) -> Tensor:
    return x + 0.05 * torch.randn(x.shape, generator=generator)


def summed_loss(prediction: Tensor, y: Tensor) -> Tensor:
    return nn.functional.cross_entropy(prediction, y, reduction="sum")


def make_split(examples: int, seed: int) -> Split:
    """Signals of three frequencies at random phases."""
    generator = torch.Generator().manual_seed(seed)
    y = torch.randint(3, (examples,), generator=generator)
    phase = 6.3 * torch.rand(examples, 1, generator=generator)
    x = torch.sin((y[:, None] + 1) * torch.arange(12) / 2 + phase) + 0.3 * torch.randn(examples, 12, generator=generator)
    return Split(x[:, None], y)


def make_problem(**changes: object) -> Problem:
    """37 training examples: no batch size of these tests divides them."""
    problem = Problem(
        make_split(37, 1),
        make_split(21, 2),
        make_split(23, 3),
        nn.functional.cross_entropy,
        Metric("accuracy", accuracy, True),
        jitter,
    )
    return dataclasses.replace(problem, **changes)  # type: ignore[arg-type]


def assert_close_runs(one: Path, two: Path) -> None:
    """Weights, optimizer states, losses and metrics agree up to rounding."""
    a, b = newest(one / "checkpoints"), newest(two / "checkpoints")
    assert a is not None
    assert b is not None
    assert set(a.tensors) == set(b.tensors)
    for name, tensor in a.tensors.items():
        torch.testing.assert_close(b.tensors[name], tensor, rtol=1e-8, atol=1e-10, msg=name)
    for r, s in zip(a.facts["position"]["history"], b.facts["position"]["history"], strict=True):
        assert r["train_loss"] == pytest.approx(s["train_loss"], rel=1e-9)
        assert r["validation_loss"] == pytest.approx(s["validation_loss"], rel=1e-9)
        assert r["validation_metric"] == s["validation_metric"]


class StopAt(Silent):
    """Sends a signal to this process at one step, as Ctrl-C would."""

    def __init__(self, epoch: int, step: int, number: int = signal.SIGINT) -> None:
        self.at, self.number = (epoch, step), number

    def step(self, epoch: int, step: int, loss: float) -> None:
        if (epoch, step) == self.at:
            os.kill(os.getpid(), self.number)


def assert_same_run(a: Path, b: Path) -> None:
    """The last states, tensors and facts, are equal bit for bit, but for time."""
    first, second = newest(a / "checkpoints"), newest(b / "checkpoints")
    assert first is not None
    assert second is not None
    assert set(first.tensors) == set(second.tensors)
    for name, tensor in first.tensors.items():
        assert torch.equal(tensor, second.tensors[name]), name
    assert timeless(first.facts["position"]) == timeless(second.facts["position"])
    assert [timeless(line) for line in lines(a)] == [timeless(line) for line in lines(b)]


def timeless(value: dict) -> dict:
    kept = {k: v for k, v in value.items() if k != "seconds"}
    return kept | {"history": [timeless(r) for r in value["history"]]} if "history" in value else kept


def lines(out: Path) -> list[dict]:
    return [json.loads(line) for line in (out / "metrics.jsonl").read_text().splitlines()]


class Held(Silent):
    """Progress that says where the run is, and at one step waits for signals, however late they come."""

    def __init__(self) -> None:
        self.signals, arrived = os.pipe()
        os.set_blocking(arrived, False)
        signal.set_wakeup_fd(arrived)  # every signal leaves a byte there, before its handler runs

    def step(self, epoch: int, step: int, loss: float) -> None:
        print(f"step {epoch} {step}", flush=True)
        if os.environ.get("SEARCH_HOLD") == f"{epoch} {step}":
            for _ in range(int(os.environ.get("SEARCH_SIGNALS", "1"))):
                os.read(self.signals, 1)


#: A search that several processes can share up to rounding: no dropout, double precision, a loss that is a sum.
SUMMED = (
    dataclasses.replace(SETTINGS, precision="64-true", weights=OptimizerSettings("sgd", 0.005, 0.9), architecture=STEADY),
    make_problem(loss=summed_loss, reduction="sum"),
)


def look_late(folder: Path, run: str | None = None) -> Checkpoint | None:
    """As `newest`, once there is something to see."""
    while not any(folder.glob("last-*.json")):
        os.sched_yield()
    return newest(folder, run)


def say_whether_connected() -> None:
    if torch.distributed.is_initialized():
        print("still connected", flush=True)


def main() -> None:
    atexit.register(say_whether_connected)  # what is registered later is called before
    settings, problem = SUMMED if "summed" in sys.argv else (SETTINGS, make_problem())
    if "SEARCH_SIGNALS" in os.environ:
        signals._SAME_WISH = 0.0  # as many wishes as signals, however quickly they follow
    if os.environ.get("SEARCH_LATE") == os.environ.get("RANK", ""):
        run.newest = look_late
    network = make_network(dropout=0.0 if "summed" in sys.argv else 0.2, normed="normed" in sys.argv)
    settings = dataclasses.replace(settings, sync_batchnorm="normed" in sys.argv)
    search(network, problem, settings, Path(sys.argv[1]), resume="resume" in sys.argv, progress=Held())


if __name__ == "__main__":
    torch.set_num_threads(int(os.environ.get("SEARCH_THREADS", "1")))
    main()
