"""`xdops data`: files for all three equations, plain words for every mistake, and Ctrl-C that loses nothing."""

import io
import json
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest
from rich.console import Console

from xdops.cli.data import Burgers, Darcy, Display, NavierStokes
from xdops.cli.main import main
from xdops.pde.burgers import BurgersSettings
from xdops.pde.darcy import DarcySettings
from xdops.pde.navier_stokes import NavierStokesSettings

NAVIER_STOKES = "navier-stokes --samples 2 --size 8 --solver-size 16 --time 0.2 --step 0.01 --record-every 0.1 --viscosity 1e-3"


@pytest.fixture(autouse=True)
def _here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("XDOPS_DATA", raising=False)


def run(words: str) -> int:
    return main(["data", *words.split()])


@pytest.mark.parametrize(
    ("words", "a_shape", "u_shape", "expected"),
    [
        ("burgers --samples 4 --size 64 --seed 3", (4, 64), (4, 64), {"seed": 3, "viscosity": 0.1}),
        ("darcy --samples 4 --size 9 --low 1", (4, 9, 9), (4, 9, 9), {"low": 1.0, "high": 12.0}),
        (NAVIER_STOKES, (2, 8, 8), (2, 8, 8, 2), {"viscosity": 1e-3, "record_every": 0.1}),
    ],
)
def test_an_npz_of_each_equation(words: str, a_shape: tuple, u_shape: tuple, expected: dict, capsys: pytest.CaptureFixture) -> None:
    assert run(f"{words} --out data.npz") == 0
    with np.load("data.npz", allow_pickle=False) as file:
        assert (file["a"].shape, file["u"].shape) == (a_shape, u_shape)
        written = json.loads(str(file["settings"]))
    assert written["kind"] == words.split()[0]
    assert expected.items() <= written["settings"].items()
    assert f"data.npz: a {a_shape}, u {u_shape}" in capsys.readouterr().out


def test_the_flags_stand_for_the_settings() -> None:
    assert Burgers().settings() == BurgersSettings()
    assert Darcy().settings() == DarcySettings()
    assert NavierStokes().settings() == NavierStokesSettings()


def test_without_out_the_data_folder_is_filled_and_named(capsys: pytest.CaptureFixture, monkeypatch: pytest.MonkeyPatch) -> None:
    words = "darcy --samples 4 --size 9"
    assert run(words) == 0
    (first,) = Path("data/pde").iterdir()
    assert str(first) in capsys.readouterr().out
    assert run(f"{words} --data-dir given") == 0
    monkeypatch.setenv("XDOPS_DATA", "environment")
    now = time.time
    monkeypatch.setattr(time, "time", lambda: now() + 86_400)  # a file that held the time would differ now
    assert run(words) == 0
    assert Path("given/pde", first.name).read_bytes() == Path("environment/pde", first.name).read_bytes() == first.read_bytes()


def test_the_same_command_again_only_reads(capsys: pytest.CaptureFixture) -> None:
    assert run("darcy --samples 20 --size 9 --out d.h5") == 0
    assert "16 of 20 samples" in capsys.readouterr().out
    assert run("darcy --samples 20 --size 9 --out d.h5") == 0
    assert capsys.readouterr().out == "d.h5: a (20, 9, 9), u (20, 9, 9)\n"


BAD = {
    "burgers --viscosity -0.1 --out d.npz": "viscosity -0.1",
    "burgers --samples 0 --out d.npz": "samples = 0",
    "burgers --size 101 --out d.npz": "size = 101",
    "burgers --samples 1 --size 64 --steps 1 --viscosity 1e-9 --time 50 --out d.npz": "1 step of 50",
    "darcy --size 2 --out d.npz": "size 2",
    "darcy --size 85 --solver-size 400 --out d.npz": "size 85 from solver_size 400",
    "darcy --low 0 --out d.npz": "permeability low 0",
    "darcy --samples 1 --size 5 --out d.txt": "d.txt; expected a file name that ends in .npz or .h5",
    "darcy --samples 1 --size 5 --out d.npz.part": "d.npz.part; expected a file name that ends in .npz or .h5; try: d.npz\n",
    "darcy --samples 1 --size 5 --out taken/d.npz": "taken/d.npz, which could not be written",
    "darcy --samples 1 --size 5 --data-dir taken": "could not be written",
    "darcy --samples 1 --size 5 --seed -1 --out d.npz": "seed -1",
    "navier-stokes --size 64 --solver-size 100 --out d.npz": "size 64 with solver_size 100",
    "navier-stokes --samples 1 --size 16 --solver-size 64 --step 1 --time 2 --out d.npz": "a step of 1 in time, unstable",
    "navier-stokes --viscosity nan --out d.npz": "viscosity nan",
}


@pytest.mark.parametrize("words", BAD)
def test_bad_input_is_refused_and_nothing_is_written(words: str, capsys: pytest.CaptureFixture) -> None:
    Path("taken").write_text("a file, where a folder is needed")
    assert run(words) == 2
    message = capsys.readouterr().err
    assert message.startswith("xdops: given ")
    assert BAD[words] in message
    assert [path.name for path in Path.cwd().iterdir()] == ["taken"]


def test_a_file_of_other_settings_is_not_overwritten(capsys: pytest.CaptureFixture) -> None:
    assert run("darcy --samples 2 --size 9 --out d.npz") == 0
    before = Path("d.npz").read_bytes()
    assert run("darcy --samples 3 --size 9 --out d.npz") == 2
    assert "d.npz, which holds samples 2 (asked: 3)" in capsys.readouterr().err
    assert Path("d.npz").read_bytes() == before


def test_ctrl_c_keeps_what_is_finished_and_the_same_command_goes_on(capsys: pytest.CaptureFixture) -> None:
    words = "darcy --samples 160 --size 57 --out d.h5"
    command = [sys.executable, "-m", "xdops.cli.main", "data", *words.split()]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    assert process.stdout is not None
    assert process.stdout.readline() == "16 of 160 samples\n"
    process.send_signal(signal.SIGINT)
    out, err = process.communicate()
    assert process.returncode == 130
    assert "Run the same command again to continue." in out
    assert "Traceback" not in err
    assert run(words) == 0
    assert "samples are there; going on." in capsys.readouterr().out
    assert [path.name for path in Path.cwd().iterdir()] == ["d.h5"]


def test_a_terminal_sees_a_bar_with_the_time_left() -> None:
    screen = io.StringIO()
    with Display(Console(file=screen, force_terminal=True, width=100, highlight=False), 40) as display:
        display.update(16, 40)
        display.update(32, 40)
        display.bar.refresh()
    shown = screen.getvalue()
    assert "16 of 40 samples are there; going on." in shown
    assert "32/40" in shown


@pytest.mark.parametrize("command", ["", "burgers", "darcy", "navier-stokes"])
def test_help_shows_examples(command: str, capsys: pytest.CaptureFixture) -> None:
    assert run(f"{command} --help") == 0
    assert f"xdops data {command or 'burgers'} --" in capsys.readouterr().out
