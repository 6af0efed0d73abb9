"""What is in a run folder is never believed without being checked, and never run."""

import json
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import bad_world
import numpy as np
import pytest
from commands import Commands, assert_refused, snapshot

from xdops.storage.documents import sealed

FLAGS = ["--seeds", "2", "--epochs", "2", "--depth", "1", "1", "1", "-q", "--spaces", "backbone,xd"]
PREDICT = ["predict", "out", "data.npz", "-o", "p.npz", "--space", "xd", "--seed", "0"]


@pytest.fixture(scope="module")
def finished(tmp_path_factory: pytest.TempPathFactory, commands: Commands) -> Path:
    """Two searches, one around our own network, one around a user's."""
    folder = tmp_path_factory.mktemp("finished")
    np.savez(folder / "data.npz", **bad_world.GOOD)
    (folder / "evil.py").write_text("open('ran', 'w')\nfrom xdops.backbones.small import SmallCNN as build\n")
    for out, backbone in (("out", "small"), ("foreign", "evil:build")):
        assert commands.run(["search", "data.npz", "--out", out, "--backbone", backbone, *FLAGS], folder).code == 0
    (folder / "ran").unlink()
    return folder


@pytest.fixture
def home(finished: Path, tmp_path: Path) -> Path:
    shutil.copytree(finished, tmp_path, dirs_exist_ok=True)
    return tmp_path


def test_a_runs_own_code_is_imported_only_if_the_user_names_it(home: Path, commands: Commands) -> None:
    predict = ["predict", "foreign", "data.npz", "-o", "p.npz"]
    before = snapshot(home)
    assert_refused(commands.run(predict, home), "'evil:build' is code that is not part of xdops.*--trust-run")
    assert_refused(commands.run([*predict, "--backbone", "other:build"], home), "instead of other:build")
    assert snapshot(home) == before
    named = commands.run([*predict, "--backbone", "evil:build"], home)
    assert (named.code, named.err) == (0, "")
    assert (home / "ran").exists()
    trusted = commands.run([*predict, "--trust-run"], home)
    assert trusted.code == 0
    assert trusted.err == "xdops: warning: importing evil:build, which foreign names: its author's code runs\n"


def test_modules_of_the_current_folder_are_not_found_by_our_own_runs(home: Path, commands: Commands) -> None:
    for name in ("scipy", "h5py", "matplotlib", "small", "numpy", "json"):
        (home / f"{name}.py").write_text("open('ran', 'w')\n")
    assert commands.run(PREDICT, home).code == 0
    assert not (home / "ran").exists()


CHECKPOINT = "runs/xd-seed0/checkpoints"


def best(home: Path, run: str = "xd-seed0") -> Path:
    return home / "out/runs" / run / json.loads((home / "out/runs" / run / "result.json").read_text())["best_checkpoint"]


def swap(home: Path, name: str, other: str) -> None:
    """The file or folder of another run in the place of this one's."""
    here, there = home / "out/runs/xd-seed0" / name, home / f"{other}/{name}"
    shutil.rmtree(here) if here.is_dir() else here.unlink()
    shutil.copytree(there, here) if there.is_dir() else shutil.copy(there, here)


def edit(name: str, change):
    return lambda home: bad_world.rewrite(home / "out" / name, change)


SETTINGS, RESULT, RUN = "settings.json", "runs/xd-seed0/result.json", "runs/xd-seed0/run.json"
ANOTHER_RUN, OLDER = "another run|does not verify", "xdops 0.1 before files were sealed"

#: What is done to a run, and the words by which `predict` refuses it.
DAMAGE = {
    "scaling": (edit(SETTINGS, lambda d: d["identity"]["reading"]["x_scaling"].update(mean=[5.0])), r"settings.json.*changed"),
    "classes": (edit(SETTINGS, lambda d: d["identity"]["reading"].update(classes=[1, 0])), r"settings.json.*changed"),
    "backbone": (edit(SETTINGS, lambda d: d["identity"]["network"].update(backbone="evil:build")), r"settings.json.*changed"),
    "seeds": (edit(SETTINGS, lambda d: d.update(seeds=[0])), r"settings.json.*changed"),
    "test figure": (edit(RESULT, lambda d: d.update(test_at_best=1.0)), r"result.json.*changed"),
    "best checkpoint": (edit(RESULT, lambda d: d.update(best_checkpoint="x")), r"result.json.*changed"),
    "run": (edit(RUN, lambda d: d["settings"].update(seed=1)), r"run.json.*changed"),
    "facts": (lambda h: bad_world.rewrite(best(h).with_suffix(".json"), lambda d: d["facts"].update(best=9)), "does not verify"),
    "weights cut": (lambda h: best(h).write_bytes(best(h).read_bytes()[:-5]), "sha256 differs"),
    "weights gone": (lambda h: best(h).unlink(), "does not verify"),
    "checkpoints of another seed": (lambda h: swap(h, "checkpoints", "out/runs/xd-seed1"), ANOTHER_RUN),
    "checkpoints of another space": (lambda h: swap(h, "checkpoints", "out/runs/backbone-seed0"), ANOTHER_RUN),
    "checkpoints of another search": (lambda h: swap(h, "checkpoints", "foreign/runs/xd-seed0"), ANOTHER_RUN),
    "the result of another seed": (lambda h: swap(h, "result.json", "out/runs/xd-seed1"), "result.json.*belongs to another run"),
    "the run.json of another seed": (lambda h: swap(h, "run.json", "out/runs/xd-seed1"), "another run"),
    "a whole run of another search": (lambda h: swap(h, "", "foreign/runs/xd-seed0"), "holds another run.*experiment"),
    "a whole run of another seed": (lambda h: swap(h, "", "out/runs/xd-seed1"), "holds another run.*seed is 0"),
    "settings of another search": (lambda h: shutil.copy(h / "foreign/settings.json", h / "out"), "evil:build|another run"),
    "settings of an older version": (edit(SETTINGS, lambda d: d.pop("seal")), OLDER),
    "a result of an older version": (edit(RESULT, lambda d: d.pop("seal")), OLDER),
}


@pytest.mark.parametrize("what", DAMAGE)
def test_damage_and_mix_ups_are_refused_by_name(what: str, home: Path, commands: Commands) -> None:
    damage, message = DAMAGE[what]
    damage(home)
    before = snapshot(home)
    assert_refused(commands.run(PREDICT, home), message)
    assert snapshot(home) == before


def reading(part: str, value: object) -> Callable[[dict], None]:
    """An entry of how arrays are read, by its path."""

    def change(identity: dict) -> None:
        *above, last = part.split(".")
        at = identity["reading"]
        for name in above:
            at = at[name]
        at[last] = value

    return change


SENSELESS = r"settings\.json, which makes no sense"
#: What somebody may have sealed who wants a command to fill the memory, or to say what was never learned.
LIES = {
    "no change": (lambda identity: None, ""),
    "scaling of a million channels": (reading("x_scaling.mean", [0.0] * 10**6), SENSELESS),
    "scaling of none": (reading("x_scaling.std", []), SENSELESS),
    "negative deviation": (reading("x_scaling.std", [-1.0]), SENSELESS),
    "no number": (reading("x_scaling.mean", [float("nan")]), SENSELESS),
    "fewer classes than outputs": (reading("classes", [0]), SENSELESS),
    "more classes than outputs": (reading("classes", [0, 1, 2]), SENSELESS),
    "no classes": (reading("classes", []), SENSELESS),
    "another kind": (reading("request.kind", "dense"), SENSELESS),
    "a grid without end": (reading("request.spatial", [10**9]), r"\(1, 1000000000\), channels and grid of the training data"),
    "a grid of no size": (reading("request.spatial", []), SENSELESS),
    "half a point": (reading("request.spatial", [23.5]), SENSELESS),
    "another layout": (reading("layout", "NCHW"), SENSELESS),
    "a depth without end": (lambda identity: identity["network"].update(depth=[10**6] * 3), SENSELESS),
    "a backbone of no name": (lambda identity: identity["network"].update(backbone=3), SENSELESS),
}


@pytest.mark.parametrize("what", LIES)
def test_sealed_lies_that_make_no_sense_are_refused_before_anything_is_built(what: str, home: Path, commands: Commands) -> None:
    change, message = LIES[what]
    bad_world.forge(home / "out", change)
    before = snapshot(home)
    ending = commands.run(PREDICT, home)
    if not message:
        assert ending.code == 0  # what is sealed here verifies
        return
    assert_refused(ending, message)
    assert snapshot(home) == before


@pytest.mark.parametrize(
    "lie",
    [{"best_checkpoint": 5}, {"best_validation": "high"}, {"history": []}, {"best_epoch": 10**9}, {"novelty": {"conv1": "far"}}],
    ids=str,
)
def test_a_sealed_result_that_is_none_is_refused(lie: dict, home: Path, commands: Commands) -> None:
    path = home / "out" / RESULT
    document = json.loads(path.read_text())
    seal = document.pop("seal")
    path.write_text(json.dumps(sealed(seal["kind"], seal["run"], document | lie)))
    assert_refused(commands.run(PREDICT, home), r"result\.json, which makes no sense")


def test_the_newest_state_plays_no_part_in_predictions(home: Path, commands: Commands) -> None:
    """Predictions come from the checkpoint that the result names, whatever happens to the others."""
    assert commands.run(PREDICT, home).code == 0
    expected = np.load(home / "p.npz")["probability"]
    for path in (home / "out" / CHECKPOINT).glob("last-*"):
        path.write_bytes(b"damaged")
    assert commands.run(PREDICT, home).code == 0
    np.testing.assert_array_equal(np.load(home / "p.npz")["probability"], expected)


def spoil_result(out: Path) -> None:
    bad_world.rewrite(out / "runs/xd-seed0/result.json", lambda d: d.update(test_at_best=1.0))


def spoil_begun_run(out: Path) -> None:
    (out / "runs/xd-seed0/result.json").unlink()
    bad_world.rewrite(out / "runs/xd-seed0/run.json", lambda d: d.update(describe={}))


def put_folder_in_place_of_report(out: Path) -> None:
    (out / "report.html").unlink()
    (out / "report.html").mkdir()


@pytest.mark.parametrize(
    ("spoil", "complaint"),
    [
        (spoil_result, "result.json, which does not verify"),
        (spoil_begun_run, "run.json, which does not verify"),
        (put_folder_in_place_of_report, "report.html, which is a folder"),
    ],
)
def test_what_is_damaged_or_in_the_way_is_told_before_anything_is_resumed(
    spoil: Callable[[Path], None], complaint: str, home: Path, commands: Commands
) -> None:
    spoil(home / "out")
    before = snapshot(home)
    again = ["search", "data.npz", "--out", "out", "--backbone", "small", *FLAGS, "--seeds", "3", "--resume"]
    assert_refused(commands.run(again, home), complaint)
    assert snapshot(home) == before


def test_predictions_that_are_no_numbers_are_not_written(home: Path, commands: Commands) -> None:
    np.savez(home / "far.npz", x=bad_world.X * 1e60)
    before = snapshot(home)
    assert_refused(commands.run(["predict", "out", "far.npz", "-o", "p.npz"], home), "too large when scaled|not a finite number")
    assert snapshot(home) == before


def test_damage_drawn_at_random_is_answered_as_promised() -> None:
    """Some of the cases that `tests/support/fuzz.py` makes by the thousand."""
    script = Path(__file__).parents[1] / "support" / "fuzz.py"
    words = [sys.executable, str(script), "--cases", "1", "--only", "predict", "resume", "render", "bench"]
    ending = subprocess.run(words, capture_output=True, text=True, check=False)
    assert ending.returncode == 0, ending.stdout + ending.stderr
