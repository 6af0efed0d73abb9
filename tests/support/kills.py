"""Kills and interrupts commands at random moments, and tells what does not go on afterwards as if nothing had happened.

    PYTHONPATH=src python tests/support/kills.py --rounds 10 --seed 0

In every round each command is killed (SIGKILL), then interrupted once and twice (SIGINT), at moments drawn anew, and made again:
its outcome is that of an uninterrupted one, to the bit, and no file of a dead process is left. An interrupted one ends with exit
code 130, and with one line or two (the second says how to continue).
"""

import argparse
import hashlib
import shutil
import signal
import sys
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from fuzz import FLAGS, data, documents, finished, predictions, prepare, reproduction, results, run, same


def file(name: str) -> Callable[[Path], str]:
    return lambda home: hashlib.sha256((home / name).read_bytes()).hexdigest()


def arrays(name: str) -> Callable[[Path], dict[str, Any]]:
    def read(home: Path) -> dict[str, Any]:
        with np.load(home / name) as found:
            return {key: found[key].tolist() for key in found}

    return read


@dataclass(frozen=True)
class Work:
    before: Callable[[Path], None]
    command: str
    outcome: Callable[[Path], Any]


def nothing(home: Path) -> None:
    return None


WORK = {
    "search": Work(data, f"search data.npz --out run {FLAGS}", results),
    "trials": Work(data, f"search data.npz --out run {FLAGS} --trials 2", results),
    "workers": Work(data, f"search data.npz --out run {FLAGS} --workers 2 --cpus-per-run 1", results),
    "processes": Work(data, f"search data.npz --out run {FLAGS} --spaces xd --processes 2", results),
    "reproduce": Work(nothing, "reproduce mini -q", reproduction),
    "render": Work(documents, "reproduce --render", file("docs/results.md")),
    "npz": Work(nothing, "data darcy --samples 6 --size 17 --out d.npz", arrays("d.npz")),
    "h5": Work(nothing, "data burgers --samples 40 --size 256 --out b.h5", file("b.h5")),
    "predict": Work(finished, "predict run data.npz -o p.npz", predictions),
    "export": Work(finished, "export run net.pt2", nothing),
    "ops": Work(nothing, "ops --inputs 1", nothing),
    "plan": Work(nothing, "plan mini --scale laptop --json plan.json", nothing),
}


def fresh(name: str, folder: Path, template: Path) -> Path:
    home = Path(tempfile.mkdtemp(dir=folder)) / name
    shutil.copytree(template, home)
    return home


def left_over(home: Path) -> list[str]:
    return [str(path.relative_to(home)) for path in home.rglob("*") if path.suffix in (".tmp", ".part") or ".lock" in path.name]


def try_one(work: Work, home: Path, moments: list[tuple[float, int]], expected: Any) -> str:
    """What is wrong; empty if nothing is."""
    first = run(work.command, home, signals=moments)
    if moments[0][1] == signal.SIGINT:
        lines = first.err.count("\n") - first.err.startswith("\n")
        if first.code not in (0, 130) or lines > 2 or "Traceback" in first.err:
            return f"interrupted: {first}"
    elif first.code not in (0, -signal.SIGKILL):
        return f"killed: {first}"
    again = first if first.code == 0 else run(work.command, home)  # what is done need not be doable again: export refuses its file
    if again.code != 0:
        return f"again, after {moments}, {first}: {again}"
    if not same(work.outcome(home), expected):
        return f"another outcome, after {moments}"
    return f"left over: {left_over(home)}" if left_over(home) else ""


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument(
        "--only", nargs="*", default=[name for name in WORK if name not in ("workers", "processes")], choices=list(WORK)
    )
    words = parser.parse_args()
    prepare()
    rng, bad = np.random.default_rng(words.seed), 0
    for name in words.only:
        work = WORK[name]
        with tempfile.TemporaryDirectory() as folder:
            template, whole = Path(folder, "template"), Path(folder, "whole")
            template.mkdir()
            work.before(template)
            shutil.copytree(template, whole)
            started = time.monotonic()
            ending = run(work.command, whole)
            lasted = time.monotonic() - started
            assert ending.code == 0, ending
            expected, count = work.outcome(whole), 0
            for _ in range(words.rounds):
                for numbers in ([signal.SIGKILL], [signal.SIGINT], [signal.SIGINT, signal.SIGINT]):
                    at = float(rng.uniform(0, lasted))
                    gap = float(rng.choice([0.01, 0.6]))
                    wrong = try_one(
                        work, fresh(name, Path(folder), template), [(at + i * gap, int(n)) for i, n in enumerate(numbers)], expected
                    )
                    count += bool(wrong)
                    if wrong:
                        print(f"  {name} ({lasted:.2f} s), {[n.name for n in numbers]} at {at:.3f}, gap {gap}: {wrong}", flush=True)
            bad += count
            print(f"{name}: {words.rounds} kills, {2 * words.rounds} interrupts, {count} not answered as promised", flush=True)
    return int(bad > 0)


if __name__ == "__main__":
    sys.exit(main())
