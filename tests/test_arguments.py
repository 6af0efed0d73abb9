"""Whatever is given to a public function from Python is used as meant, or refused in one line that says what it takes."""

import os
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, Literal, Protocol

import numpy as np
import pytest
import torch
from torch import nn

import xdops
from xdops.arguments import checked, fits, shown
from xdops.errors import XDError
from xdops.matrices import KMatrix, dft, permutation
from xdops.pde import BurgersSettings, DarcySettings, burgers_field, published_forcing, solve_darcy
from xdops.search import OptimizerSettings, Problem, ScheduleSettings, SearchSettings, Split, load_checkpoint, load_weights


class Reads(Protocol):
    def read(self) -> str: ...


@pytest.mark.parametrize(
    ("hint", "good", "bad"),
    [
        (int, [3, np.int64(3)], [True, 3.0, "3", None, torch.tensor(3)]),
        (float, [3, 3.5, np.float32(3)], [True, "3", None, 3j]),
        (bool, [True, np.True_], [1, None, torch.ones(2)]),
        (str, ["a"], [b"a", 3, Path("a")]),
        (Path, ["a", Path("a")], [b"a", 3, None]),
        (str | os.PathLike[str], ["a", Path("a")], [b"a", None]),
        (int | Sequence[int] | None, [3, (3, 4), [3], None], ["34", 3.5, ["a"], {3}, np.ones(2)]),
        (tuple[int, int], [(1, 2), [1, 2]], [(1,), (1, 2, 3), ("a", "b"), 3]),
        (tuple[str, ...], [(), ("a", "b")], ["ab", (3,)]),
        (Iterable[str], [("a",), {"a": 1}, iter("ab")], ["ab", [3], 3]),
        (Mapping[str, int], [{}, {"a": 1}], [{"a": "b"}, {1: 1}, [], "text"]),
        (Literal["half", "full"], ["half"], ["quarter", None, np.array(["half", "full"]), ["half"]]),
        (Callable[[int], int] | None, [len, None], ["len", 3]),
        (nn.Module, [nn.Linear(1, 1)], [nn.Linear, None, "net"]),
        (Reads, [open(os.devnull)], [3, None]),  # noqa: SIM115
        (Any, [3, None], []),
    ],
)
def test_values_that_fit_a_signature(hint: Any, good: list[Any], bad: list[Any]) -> None:
    assert [value for value in good if not fits(value, hint)] == []
    assert [shown(value) for value in bad if fits(value, hint)] == []


def test_a_refusal_names_the_argument_the_function_and_what_it_takes() -> None:
    @checked
    def draw(size: int | Sequence[int] | None = None, *names: str, domain: Literal["half", "full"] = "half") -> object:
        return size

    assert draw(np.int64(3)) == 3
    assert type(draw(np.int64(3))) is int
    with pytest.raises(XDError, match=r"given size=3.5 for .*draw; expected a whole number, a sequence.* or None"):
        draw(3.5)  # type: ignore[arg-type]
    with pytest.raises(XDError, match=r"names=3 .*expected text"):
        draw(3, "a", 3)  # type: ignore[arg-type]
    with pytest.raises(XDError, match=r"expected 'half' or 'full'; try: domain='half'"):
        draw(domain="quarter")  # type: ignore[arg-type]
    with pytest.raises(TypeError, match="unexpected keyword"):
        draw(sizes=3)  # type: ignore[call-arg]


@pytest.mark.parametrize("value", [torch.ones(2, 3), np.ones((40, 40)), nn.Linear(2, 2), "x" * 1000, [[1] * 100], object()])
def test_a_value_is_shown_in_a_short_line(value: object) -> None:
    assert len(shown(value)) < 70
    assert "\n" not in shown(value)


def conv() -> nn.Conv1d:
    return nn.Conv1d(2, 2, 3, padding=1)


def operation() -> xdops.XDOperation:
    return xdops.XDOperation.from_conv(conv(), 12)


def net() -> nn.Sequential:
    return nn.Sequential(conv())


X = torch.ones(1, 2, 12)
#: No machine has both kinds of device.
MISSING = "mps" if torch.cuda.is_available() else "cuda"

#: Calls that once went wrong without a word, or ended in another library's error.
CALLS: dict[str, tuple[Callable[[], object], str]] = {
    "a boundary that there is not": (lambda: xdops.XDOperation.from_conv(conv(), 12, boundary="text"), "boundary='text'"),
    "names as one text": (lambda: xdops.XDOperation.from_conv(conv(), 12, trained="KLM"), "trained='KLM'"),
    "a size of many bits": (lambda: xdops.XDOperation.from_conv(conv(), 12, size=2**70), "below 2.31"),
    "a depth with a fraction": (lambda: xdops.XDConfig(depth=3.5), "depth=3.5 for XDConfig"),
    "overrides of nothing": (lambda: xdops.XDConfig(overrides=None), "overrides=None"),
    "an array for a word": (lambda: xdops.XDConfig(b=np.ones(3)), "b=.a ndarray of shape"),
    "a kernel in words": (lambda: xdops.XDConfig(kernel_size="five"), "kernel_size='five'"),
    "a filter in words": (lambda: xdops.convert_(net(), X, filter_fn="0.*"), "filter_fn='0"),
    "an example without values": (lambda: xdops.convert_(net(), X.to("meta")), "meta device"),
    "no path": (lambda: xdops.save(net(), None), "path=None for xdops.save"),
    "a path of bytes": (lambda: xdops.load(b"net", net), "path=b'net' for xdops.load"),
    "notes in words": (lambda: xdops.export(net(), X, "net.pt2", notes="mine"), "notes='mine'"),
    "free dimensions in words": (lambda: xdops.export(net(), X, "net.pt2", dynamic="batch"), "dynamic='batch'"),
    "no operation": (lambda: xdops.distance(None, operation()), "op=None for distance"),
    "a size for each of none": (lambda: xdops.distance(operation(), operation(), ()), r"input_size=\(\) for an operation in 1 dim"),
    "nothing to show": (lambda: xdops.show("op"), "op='op' for show"),
    "an input without channels": (lambda: operation().plan_for(torch.zeros(2)), "shape"),
    "a list to freeze": (lambda: operation().freeze(["K"]), r"names=\['K'\]"),
    "no channels": (lambda: xdops.SpectralConv(0, 1, (3,)), "0 -> 1 channels"),
    "a device that there is not": (lambda: xdops.SpectralConv(1, 1, (3,), device="gpu"), "device='gpu' .*try: device='cpu'"),
    "a device that is not here": (lambda: xdops.SpectralConv(1, 1, (3,), device=MISSING), f"device='{MISSING}' "),
    "weights of whole numbers": (lambda: xdops.SpectralConv(1, 1, (3,), dtype=torch.int64), "dtype=torch.int64"),
    "filters of whole numbers": (lambda: xdops.named.convolution(1, 1, 3, 12, dtype=torch.int64), "dtype=torch.int64"),
    "pairs of pairs": (lambda: xdops.named.fno(1, 1, 2, 8, dtype=torch.complex64), "dtype=torch.complex64"),
    "a skip of whole numbers": (lambda: xdops.named.skip(1, 8, dtype=torch.int32), "dtype=torch.int32"),
    "a path without end": (lambda: xdops.save(net(), "x" * 5000), "path of 5,000 characters for xdops.save.*a shorter one"),
    "folders without end": (lambda: load_weights("y/" * 3000, net()), "path of 6,000 characters for load_weights"),
    "a path with a null": (lambda: xdops.load("a\0b", net), "null"),
    "no modes": (lambda: xdops.SpectralConv(1, 1, ()), "with modes"),
    "channels below zero": (lambda: xdops.named.convolution(-1, 2, 3, 12), "-1 to 2 channels"),
    "channels of many bits": (lambda: xdops.named.graph_convolution(2**70, 2, torch.eye(4)), "below 2.31"),
    "butterflies in words": (lambda: KMatrix("text"), "butterflies='text'"),
    "points in words": (lambda: dft("8"), "n='8' for dft"),
    "points of many bits": (lambda: dft(2**70), "below 2.31"),
    "an order of rows": (lambda: permutation(torch.ones(2, 2)), "order of shape"),
    "a grid of less than nothing": (lambda: published_forcing(-1), "grid size = -1"),
    "a checkpoint without a name": (lambda: load_checkpoint(""), "it is no file"),
    "an order of fractions": (lambda: permutation([0.5, 1.0]), "order="),
    "decays above one": (lambda: OptimizerSettings("adam", 0.1, betas=(2, 5)), r"betas=\(2, 5\)"),
    "optimizers in words": (
        lambda: SearchSettings(weights="adam"),
        "weights='adam' for SearchSettings",
    ),
    "milestones in words": (lambda: ScheduleSettings("step", milestones=("a",)), "milestones="),
    "arrays as examples": (lambda: Split(np.ones((3, 1)), np.ones(3)), "x=.a ndarray of shape"),
    "no examples": (lambda: Problem(None, None, None, len, None), "train=None for Problem"),
    "a checkpoint of bytes": (lambda: load_checkpoint(b"x"), "path=b'x'"),
    "samples in words": (lambda: burgers_field("2", 64, 0), "samples='2'"),
    "viscosity in words": (lambda: BurgersSettings(viscosity="thick"), "viscosity='thick'"),
    "a solver of any size": (lambda: DarcySettings(solver_size="any"), "solver_size='any'"),
    "permeability in words": (lambda: solve_darcy("rock"), "a='rock' for solve_darcy"),
}


@pytest.mark.parametrize("what", CALLS)
def test_a_call_that_makes_no_sense_is_refused_in_one_line(what: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    call, words = CALLS[what]
    with pytest.raises(XDError, match=words) as refused:
        call()
    assert "\n" not in str(refused.value)
    assert list(tmp_path.iterdir()) == []
