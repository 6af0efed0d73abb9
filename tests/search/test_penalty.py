"""A loss on the network itself: it acts once per step, is annealed alike when resumed or shared, and belongs to the run."""

import dataclasses
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import torch
from search_support import SETTINGS, STEADY, StopAt, assert_close_runs, assert_same_run, make_network, make_problem
from torch import Tensor, nn

from xdops.convert import arch_parameters
from xdops.errors import XDError
from xdops.search import Interrupted, Silent, search
from xdops.search.checkpoint import newest


@dataclass(frozen=True)
class Shrink:
    """The architecture's square, less and less of it."""

    weight: float = 0.1

    def __call__(self, network: nn.Module, progress: float) -> Tensor:
        squares = torch.stack([p.square().sum() for p in arch_parameters(network)])
        return self.weight * (1 - progress) * squares.sum()

    def to_dict(self) -> dict[str, Any]:
        return dataclasses.asdict(self)


PROBLEM = make_problem(penalty=Shrink())
SHORT = dataclasses.replace(SETTINGS, architecture=STEADY, epochs=3, batch_size=4, accumulate=2, precision="64-true")


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Path:
    out = tmp_path_factory.mktemp("penalty") / "whole"
    search(make_network(dropout=0.0), PROBLEM, SHORT, out, progress=Silent())
    return out


def square(out: Path) -> float:
    checkpoint = newest(out / "checkpoints")
    assert checkpoint is not None
    return sum(
        float(t.square().sum()) for name, t in checkpoint.tensors.items() if name.startswith("network") and ".values." in name
    )


@pytest.mark.trains
def test_it_moves_the_architecture(whole: Path, tmp_path: Path) -> None:
    search(make_network(dropout=0.0), make_problem(), SHORT, tmp_path / "without", progress=Silent())
    assert 0 < square(whole) < 0.98 * square(tmp_path / "without")


def test_a_run_with_it_resumes_bit_for_bit(whole: Path, tmp_path: Path) -> None:
    with pytest.raises(Interrupted):
        search(make_network(dropout=0.0), PROBLEM, SHORT, tmp_path / "run", progress=StopAt(1, 2))
    search(make_network(dropout=0.0), PROBLEM, SHORT, tmp_path / "run", resume=True, progress=Silent())
    assert_same_run(whole, tmp_path / "run")


def test_two_processes_equal_one(whole: Path, tmp_path: Path) -> None:
    search(make_network(dropout=0.0), PROBLEM, dataclasses.replace(SHORT, processes=2), tmp_path / "two", progress=Silent())
    assert_close_runs(whole, tmp_path / "two")


def test_another_one_is_another_run(whole: Path) -> None:
    other = make_problem(penalty=Shrink(0.2))
    with pytest.raises(XDError, match=r"penalty\.weight is 0\.1 there, 0\.2 here"):
        search(make_network(dropout=0.0), other, SHORT, whole, resume=True, progress=Silent())
