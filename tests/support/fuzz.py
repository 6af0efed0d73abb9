"""Damages files that commands read, thousands of times, and tells what is not answered as promised.

    PYTHONPATH=src python tests/support/fuzz.py --cases 1000 --seed 0            # everything
    PYTHONPATH=src python tests/support/fuzz.py --only predict resume --cases 200

Whatever is damaged, a command either ends as with the undamaged file, or with exit code 2 and one line, and has written nothing.
Where a file carries no digest, as arrays of users do, another outcome is no fault.
"""

import argparse
import json
import os
import shutil
import signal
import sys
import tempfile
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import bad_world
import command_server
import mini_table
import numpy as np
import scipy.io
from commands import Ending, assert_refused, snapshot
from mutations import damage

from xdops.bench.layers import LAYERS
from xdops.engine.rates import Rates
from xdops.reproduce.tables import TABLES

REPOSITORY = Path(__file__).parents[2]
FLAGS = "--seeds 1 --epochs 3 --depth 1 1 1 -q --backbone small --spaces backbone,xd --resume"
Outcome = Callable[[Path], Any]


@dataclass(frozen=True)
class Target:
    """Files that are damaged, the command that reads them, and what it gives; None where any outcome may be right."""

    prepare: Callable[[Path], None]
    files: str  # a glob
    command: str
    outcome: Outcome | None
    keeps: bool = True  # whether a refused command leaves the folder as it was, to the last byte


def run(words: str, home: Path, **options: Any) -> Ending:
    return Ending(**command_server.run({"argv": words.split(), "cwd": str(home), **options}))


def good(words: str, home: Path) -> None:
    ending = run(words, home)
    assert ending.code == 0, ending


def data(home: Path) -> None:
    np.savez(home / "data.npz", **bad_world.GOOD)


def finished(home: Path) -> None:
    data(home)
    good(f"search data.npz --out run {FLAGS}", home)


def unfinished(home: Path) -> None:
    """Stopped at any moment after the first checkpoint."""
    data(home)
    for wait in np.geomspace(0.2, 60, 60):  # machines may be busy
        shutil.rmtree(home / "run", ignore_errors=True)
        ending = run(f"search data.npz --out run {FLAGS} --epochs 20 --spaces xd", home, signals=[(float(wait), signal.SIGINT)])
        if ending.code == 130 and len(list(home.rglob("last-*.json"))) == 2:
            return
    raise AssertionError("no search was stopped between its checkpoints")


def tuned(home: Path) -> None:
    data(home)
    good(f"search data.npz --out run {FLAGS} --trials 2", home)


def reproduced(home: Path) -> None:
    good("reproduce mini -q", home)


def documents(home: Path) -> None:
    """Results as they are in the repository, and what benches of a few layers and networks might have measured."""
    shutil.copytree(REPOSITORY / "results", home / "results")
    shutil.copy(REPOSITORY / "docs" / "performance.md", home / "page.md")
    timing = {"seconds": 0.01, "ratio": 1.5, "low": 1.4, "high": 1.6}
    forms = ("conv", "auto", "no kernels", "full", "full, no kernels", "depth 3", "frozen", "xd half", "xd full", "fno")
    timings = dict.fromkeys(forms, timing)
    layer = {
        "plan_by_measured_rates": "grouped",
        "plan": "auto",
        "training": timings,
        "inference": {"merged": timing},
        "size": [64],
        "kernels_gain": 1.2,
    }
    layer |= {"depth3_over_depth1": 1.3, "auto_over_best": 1.0, "memory_ratio": 1.1, "profile": {"kernels": 0.6, "products": 0.4}}
    point = {"plan": "auto", "kernel": 17, "batch": 20, "channels": 64, "training": timings}
    measured = {
        "layers": [{"layer": one.name, **layer} for one in LAYERS],
        "sweep": [{"n": n, **point} for n in (64, 128)],
        "networks": [{"network": "lenet", "batch": 8, "training": timings}],
    }
    machine = {"processor": "x", "cores": 2, "threads": 2, "torch": "2"}
    (home / "bench").mkdir()
    for name, rows in measured.items():
        document = {"machine": machine, "repetitions": 3, "rates": vars(Rates()), ("points" if name == "sweep" else name): rows}
        (home / "bench" / f"bench-{name}.json").write_text(json.dumps(document))


def arrays(home: Path) -> None:
    """The same arrays in every format."""
    finished(home)
    home.joinpath("arrays", "folder").mkdir(parents=True)
    x, y = bad_world.X.astype(np.float32), bad_world.Y
    np.savez_compressed(home / "arrays" / "d.npz", x=x, y=y)
    np.save(home / "arrays" / "folder" / "x.npy", x)
    np.save(home / "arrays" / "folder" / "y.npy", y)
    bad_world.write_h5(
        home / "arrays" / "d.h5", lambda f: (f.create_dataset("x", data=x, compression="gzip"), f.create_dataset("y", data=y))
    )
    scipy.io.savemat(home / "arrays" / "d.mat", {"x": x, "y": y[:, None]}, do_compression=True)


def predictions(home: Path) -> dict[str, list]:
    with np.load(home / "p.npz") as found:
        return {name: found[name].tolist() for name in found}


def results(home: Path) -> dict[str, Any]:
    """Of every run, but for its times."""
    found = {}
    for path in home.rglob("result.json"):
        result = json.loads(path.read_text())
        keys = ("best_epoch", "best_validation", "test_at_best", "test_at_last", "novelty", "best_sha256")
        found[str(path.relative_to(home))] = {key: result[key] for key in keys}
    return found


def reproduction(home: Path) -> dict:
    return mini_table.timeless(json.loads((home / "results" / "mini-laptop.json").read_text()))


PREDICT = "predict run {} -o p.npz --space xd --seed 0"
TARGETS = {
    "predict": Target(finished, "run/**/*", PREDICT.format("data.npz"), predictions),
    "resume": Target(finished, "run/**/*", f"search data.npz --out run {FLAGS}", results, keeps=False),
    "continue": Target(unfinished, "run/**/*", f"search data.npz --out run {FLAGS} --epochs 20 --spaces xd", results, keeps=False),
    "tuned": Target(tuned, "run/**/*", f"search data.npz --out run {FLAGS} --trials 2", results, keeps=False),
    "reproduce": Target(reproduced, "runs/**/*", "reproduce mini -q", reproduction, keeps=False),
    "render": Target(documents, "results/*.json", "reproduce --render", None),
    "list": Target(documents, "results/*.json", "reproduce --list", None),
    "bench": Target(documents, "bench/*.json", "bench document --data bench --out page.md", None),
    "npz": Target(arrays, "arrays/d.npz", PREDICT.format("arrays/d.npz"), predictions),
    "npy": Target(arrays, "arrays/folder/*.npy", "search arrays/folder --out new --seeds 1 --epochs 1 --spaces backbone -q", None),
    "h5": Target(arrays, "arrays/d.h5", PREDICT.format("arrays/d.h5"), None),
    "mat": Target(arrays, "arrays/d.mat", PREDICT.format("arrays/d.mat"), None),
}  # fmt: skip


def try_one(target: Target, template: Path, expected: Any, rng: np.random.Generator) -> tuple[str, str]:
    """What was damaged, and what is wrong with the answer: empty if nothing is."""
    with tempfile.TemporaryDirectory(dir=template.parent) as folder:
        home = Path(folder, "home")
        shutil.copytree(template, home, symlinks=True)
        files = sorted(path.relative_to(home) for path in home.glob(target.files) if path.is_file())
        what = damage(home, files, rng)
        before = snapshot(home)
        ending = run(target.command, home)
        try:
            if ending.code == 0:
                assert target.outcome is None or same(target.outcome(home), expected), "another outcome"
            else:
                assert_refused(ending)
                after = snapshot(home)
                assert after == before if target.keeps else set(after) == set(before), f"written: {set(after) ^ set(before)}"
            assert not list(home.rglob("*.tmp")), "temporary files"
        except Exception as wrong:
            return what, f"{type(wrong).__name__}: {wrong}\n    {ending}"
        return what, ""


def same(one: Any, other: Any) -> bool:
    return json.dumps(one, sort_keys=True) == json.dumps(other, sort_keys=True)


def fuzz(name: str, cases: int, seed: int) -> list[str]:
    """Complaints about so many damaged files of a target."""
    target = TARGETS[name]
    with tempfile.TemporaryDirectory() as folder:
        template = Path(folder, "template")
        template.mkdir()
        target.prepare(template)
        whole = Path(folder, "whole")
        shutil.copytree(template, whole)
        ending = run(target.command, whole)
        assert ending.code == 0, ending
        expected = None if target.outcome is None else target.outcome(whole)
        found = []
        for case in range(cases):
            what, wrong = try_one(target, template, expected, np.random.default_rng([seed, case]))
            found += [f"{name}, case {case}: {what}: {wrong}"] if wrong else []
        return found


def prepare() -> None:
    """This process is the one that every command is a fork of."""
    os.environ["COLUMNS"] = "120"
    command_server.PATIENCE = 900.0  # of busy machines; a command that hangs is still told
    TABLES["mini"] = "mini_table:MINI"
    command_server.warm_up()


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--cases", type=int, default=100, help="of every target")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--only", nargs="*", default=list(TARGETS), choices=list(TARGETS))
    words = parser.parse_args()
    prepare()
    bad = 0
    for name in words.only:
        complaints = fuzz(name, words.cases, words.seed)
        bad += len(complaints)
        print(f"{name}: {words.cases} damaged, {len(complaints)} not answered as promised", flush=True)
        for complaint in complaints:
            print(f"  {complaint}", flush=True)
    return int(bad > 0)


if __name__ == "__main__":
    sys.exit(main())
