"""What is shown of runs that are made several at a time."""

import io
import json
import re
from pathlib import Path

from rich.console import Console

from xdops.storage.lock import HOLDER
from xdops.workers import Job
from xdops.workers.board import Board


def jobs(home: Path, *names: str) -> list[Job]:
    found = [Job(name, home / str(i), 5, print, ()) for i, name in enumerate(names)]
    for job in found:
        job.folder.mkdir()
    return found


def trained(job: Job, epoch: int) -> None:
    record = {"epoch": epoch, "train_loss": 0.5, "validation_metric": 0.25, "seconds": 1.0}
    with open(job.folder / "metrics.jsonl", "a") as file:
        file.write(json.dumps(record) + "\n")


def test_every_epoch_is_told_once_whatever_the_runs_are_called(tmp_path: Path) -> None:
    out = io.StringIO()
    both = jobs(tmp_path, "CNN, seed 0", "CNN, seed 0")
    with Board(Console(file=out, width=200), both) as board:
        for epoch, job in ((1, both[0]), (1, both[1]), (2, both[0])):
            trained(job, epoch)
            board.update(both)
            board.update(both)
    assert [line.partition(" done")[0] for line in out.getvalue().splitlines()] == [
        "CNN, seed 0: epoch 1/5",
        "CNN, seed 0: epoch 1/5",
        "CNN, seed 0: epoch 2/5",
    ]
    assert "0 running, 2 waiting, 0 of 2 done" in out.getvalue()


def test_on_a_terminal_a_run_has_one_line_however_long_its_name_is(tmp_path: Path) -> None:
    out = io.StringIO()
    one, other = jobs(tmp_path, f"CNN XD, {'a long setting, ' * 10}seed 0", "CNN, seed 0")
    (one.folder / HOLDER).touch()
    with Board(Console(file=out, width=60, force_terminal=True), [one, other]) as board:
        board.update([one, other])
        shown = out.getvalue()
    lines = [line for line in re.sub(r"\x1b\[[0-9;?]*[A-Za-z]", "", shown).replace("\r", "").splitlines() if line]
    assert [line[:6] for line in lines] == ["CNN XD", "1 runn"]
    assert lines[0].endswith("…")
