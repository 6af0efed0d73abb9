"""A search that fails before any of its runs is finished is in nobody's way: the corrected command takes its folder."""

import json
import shlex
from pathlib import Path

import numpy as np
import pytest
from commands import Commands, assert_refused, snapshot
from search_data import regression

SEARCH = shlex.split("search data.npz --out out --seeds 1 --epochs 4 --backbone small --depth 1 1 1 -q --spaces backbone,xd")
#: Fails after so many steps in one process, or when told to by a file.
LATE = """
import os
from pathlib import Path
from torch import nn

class Late(nn.Module):
    steps = 0
    def __init__(self, request):
        super().__init__()
        self.conv = nn.Conv1d(1, request.outputs, 3, padding=1)
    def forward(self, x):
        Late.steps += self.training
        if Late.steps > 5 and not Path("mended").exists():
            raise RuntimeError("late trouble")
        return self.conv(x).mean(-1)

class Leaving(Late):
    # ends Python as if all were well; or asks to stop as Ctrl-C does
    ending = SystemExit
    def forward(self, x):
        Leaving.steps += self.training
        if Leaving.steps > 5 and not Path("mended").exists():
            raise self.ending(0)
        return self.conv(x).mean(-1)

class Vanishing(Late):
    # ends the process on the spot
    def forward(self, x):
        Vanishing.steps += self.training
        if Vanishing.steps > 5 and not Path("mended").exists():
            os._exit(0)
        return self.conv(x).mean(-1)

class Picky(Late):
    # takes no inputs but zeros, as it is tried with, once it is old
    def forward(self, x):
        if Path("old").exists() and bool(x.any()):
            raise SystemExit(0)
        return self.conv(x).mean(-1)

class Stopping(Leaving):
    ending = KeyboardInterrupt

class Wild(Late):
    # blows up once the first run is finished
    def forward(self, x):
        blown = self.training and Path("out/runs/backbone-seed0/result.json").exists()
        return self.conv(x).mean(-1) * (float("nan") if blown else 1)
"""


@pytest.fixture
def home(tmp_path: Path) -> Path:
    np.savez(tmp_path / "data.npz", **regression())
    (tmp_path / "late.py").write_text(LATE)
    (tmp_path / "wild.toml").write_text("lr = [600, 1000]")  # ruins any regression within a few steps
    (tmp_path / "tame.toml").write_text("lr = [0.001, 0.01]")
    return tmp_path


def settings(home: Path) -> dict:
    return json.loads((home / "out" / "settings.json").read_text())


def test_after_trials_that_all_blew_up_the_corrected_ranges_take_the_folder(home: Path, commands: Commands) -> None:
    wild = [*SEARCH, "--trials", "2", "--ranges", "wild.toml"]
    assert_refused(
        commands.run(wild, home), "backbone, whose numbers blew up in every trial.*--ranges FILE with smaller step sizes"
    )
    assert "blew up in every trial" in settings(home)["failed"]
    left = snapshot(home)
    assert_refused(commands.run(wild, home), "already holds this run")
    assert snapshot(home) == left  # until something else is asked for, there is something to look at

    tame = [*SEARCH, "--trials", "2", "--ranges", "tame.toml"]
    assert commands.run(tame, home).code == 0
    assert "failed" not in settings(home)
    assert_refused(commands.run([*tame, "--lr", "0.1"], home), "--lr")
    assert_refused(commands.run([*SEARCH, "--resume"], home), "holds another run")


def test_a_network_that_fails_late_is_named_with_its_line_and_mended_code_goes_on(home: Path, commands: Commands) -> None:
    late = [*SEARCH, "--backbone", "late:Late", "--spaces", "backbone"]
    complaint = r"backbone late:Late, which fails in training \(RuntimeError: late trouble, in .*late.py line 14\).*--resume"
    assert_refused(commands.run(late, home), complaint)
    assert_refused(commands.run([*late, "--resume", "--trials", "2"], home), complaint)  # in trials likewise, in the same folder
    (home / "mended").touch()
    assert commands.run([*late, "--resume", "--trials", "2"], home).code == 0
    assert "failed" not in settings(home)


@pytest.mark.parametrize("name", ["Leaving", "Vanishing"])
def test_a_network_that_ends_python_does_not_pass_for_a_good_end(name: str, home: Path, commands: Commands) -> None:
    leaving = [*SEARCH, "--backbone", f"late:{name}", "--spaces", "backbone", "--resume"]
    told = rf"backbone late:{name}, which fails in training \(SystemExit: 0, in .*late.py line \d+\).*mend it, then --resume"
    assert_refused(commands.run(leaving, home), told)
    (home / "mended").touch()
    assert commands.run(leaving, home).code == 0


@pytest.mark.parametrize("words", ["predict out data.npz -o p.npz", "export out net.pt2"])
def test_a_network_that_fails_on_new_inputs_is_named(words: str, home: Path, commands: Commands) -> None:
    leaving = "--backbone late:Picky"
    assert commands.run([*SEARCH, *leaving.split(), "--spaces", "backbone"], home).code == 0
    (home / "old").touch()
    before = snapshot(home)
    assert_refused(commands.run(f"{words} {leaving}".split(), home), r"backbone late:Picky, which fails on .*late.py line \d+\)")
    assert snapshot(home) == before


def test_what_was_not_saved_is_not_called_saved(home: Path, commands: Commands) -> None:
    stopping = [*SEARCH, "--backbone", "late:Stopping", "--spaces", "backbone", "--resume"]
    ending = commands.run(stopping, home)
    assert ending.code == 130
    assert "Stopped; what was saved before is whole. Continue with:" in ending.out
    (home / "mended").touch()
    assert commands.run(stopping, home).code == 0


def test_a_run_that_blows_up_beside_a_finished_one_says_which_and_where_to_go_on(home: Path, commands: Commands) -> None:
    wild = [*SEARCH, "--backbone", "late:Wild", "--spaces", "backbone", "--seeds", "2"]
    told = "backbone, seed 1, with a training loss of nan in epoch 1, step 1.*with another --out, since out keeps what was finished"
    assert_refused(commands.run(wild, home), told)
    assert (home / "out/runs/backbone-seed0/result.json").exists()
    assert "failed" not in settings(home)


def test_finished_runs_of_a_search_that_failed_are_kept(home: Path, commands: Commands) -> None:
    assert commands.run([*SEARCH, "--spaces", "backbone"], home).code == 0
    wild = [*SEARCH, "--spaces", "backbone", "--seeds", "2", "--resume"]
    (home / "out" / "runs" / "backbone-seed1").mkdir()
    (home / "out" / "runs" / "backbone-seed1" / "run.json").write_text("{}")  # the second run cannot begin
    assert_refused(commands.run(wild, home), "run.json")
    assert "failed" not in settings(home)
    before = snapshot(home)
    assert_refused(commands.run([*SEARCH, "--lr", "0.02"], home), "holds another run")
    assert snapshot(home) == before
