"""Precisions in which torch dies are found out in a child process, and refused before anything is written."""

import signal
import sys
from pathlib import Path

import numpy as np
import pytest
import torch
from search_support import SETTINGS, make_network, make_problem

from xdops.cli.main import main
from xdops.errors import XDError
from xdops.measuring import precision
from xdops.search import SearchSettings, search
from xdops.search.distributed import check_machine


def program(code: str) -> tuple[str, ...]:
    return (sys.executable, "-c", code)


DIES = program(f"import os, signal; os.kill(os.getpid(), signal.{signal.Signals.SIGILL.name})")
FAILS = program("import sys; sys.exit('no such kernel')")


@pytest.fixture
def dying(monkeypatch: pytest.MonkeyPatch) -> None:
    """A machine on which the trial ends by an illegal instruction."""
    monkeypatch.setattr(precision, "TRIAL", DIES)


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
def test_the_trial_of_a_precision_passes_here_or_with_what_the_error_advises(dtype: torch.dtype) -> None:
    assert precision.failure(dtype) is None  # tests/conftest.py has followed the advice if need be


@pytest.mark.parametrize(
    ("trial", "ending"), [(DIES, "SIGILL"), (FAILS, "no such kernel"), (program("raise SystemExit(3)"), "exit code 3")]
)
def test_how_the_trial_ended_is_told(trial: tuple[str, ...], ending: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(precision, "TRIAL", trial)
    assert precision.failure(torch.bfloat16) == ending
    with pytest.raises(
        XDError,
        match=rf"bf16-mixed, in which torch dies on this machine .{ending}.*AVX512_CORE_BF16, or use precision 32-true",
    ):
        precision.check_precision("bf16-mixed", torch.bfloat16)


def test_a_precision_is_tried_once_per_process_and_again_under_other_variables(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    log = tmp_path / "log"
    monkeypatch.setattr(precision, "TRIAL", program(f"import sys; open({str(log)!r}, 'a').write(sys.argv[1] + ' ')"))
    for _ in range(3):
        assert precision.failure(torch.bfloat16) is None
    assert log.read_text() == "bfloat16 "
    monkeypatch.setenv("ONEDNN_MAX_CPU_ISA", "SSE41")
    precision.failure(torch.bfloat16)
    precision.failure(torch.float16)
    assert log.read_text() == "bfloat16 bfloat16 float16 "


@pytest.mark.usefixtures("dying")
def test_a_search_is_refused_before_anything_is_written(tmp_path: Path) -> None:
    settings = SearchSettings.from_dict(SETTINGS.to_dict() | {"precision": "bf16-mixed"})
    with pytest.raises(XDError, match="SIGILL"):
        search(make_network(), make_problem(), settings, tmp_path / "run")
    assert not (tmp_path / "run").exists()


@pytest.mark.usefixtures("dying")
def test_the_command_ends_with_one_message_and_exit_code_2(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    x = np.random.default_rng(0).standard_normal((30, 12)).astype(np.float32)
    np.savez(tmp_path / "data.npz", x=x, y=np.arange(30) % 2)
    command = [
        "search",
        str(tmp_path / "data.npz"),
        "--out",
        str(tmp_path / "out"),
        "--precision",
        "bf16-mixed",
        "--accelerator",
        "cpu",
    ]
    assert main(command) == 2
    error = capsys.readouterr().err
    assert error.count("\n") == 1
    assert "ONEDNN_MAX_CPU_ISA=AVX512_CORE_BF16" in error
    assert [path.name for path in tmp_path.iterdir()] == ["data.npz"]


@pytest.mark.usefixtures("dying")
@pytest.mark.parametrize("name", ["32-true", "64-true"])
def test_full_precisions_need_no_trial(name: str) -> None:
    check_machine(SearchSettings(precision=name, accelerator="cpu"))
