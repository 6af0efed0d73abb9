"""Results of reproduced tables, read back from results/TABLE-SCALE.json, and shown beside the paper's for the terminal."""

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from rich import box
from rich.table import Table

from xdops.errors import XDError
from xdops.report.texts import check_text, check_words
from xdops.reproduce.collect import WROTE, read_verified
from xdops.reproduce.tables import SCALES, TABLES
from xdops.storage.documents import read_json, understood

Results = dict[str, Any]  # of one table at one scale, as `xdops.reproduce.collect` writes it
ResultLine = dict[str, Any]  # one of its rows


def read_results(folder: Path) -> list[Results]:
    """Every table's results in the folder, in the order of TABLES."""
    if folder.exists() and not folder.is_dir():
        raise XDError(f"--results {folder}, which is not a folder", "the folder of TABLE-SCALE.json", "--results results")
    own = {f"{table}-{scale}.json" for table in TABLES for scale in SCALES}  # results and nothing else
    found = []
    for path in sorted(folder.glob("*.json")):
        if path.name not in own and "table" not in read_json(path, WROTE, "delete it"):
            continue  # something else, as the plan of all tables
        results = read_verified(path)
        with understood(path, WROTE, "delete it"):
            found.append(_checked(results))
    names = list(TABLES)
    return sorted(
        found, key=lambda r: (names.index(r["table"]) if r["table"] in names else len(names), r["table"], SCALES.index(r["scale"]))
    )


def _checked(results: Results) -> Results:
    """What pages are made from, every kind of entry looked at once; a table's name becomes part of file names."""
    if not re.fullmatch(r"[a-z0-9][a-z0-9.-]*", results["table"]) or results["scale"] not in SCALES:
        raise ValueError(f"a table named {results['table']!r} at scale {results['scale']!r}")
    for name in ("title", "where", "note", "command", "metric"):
        if not isinstance(results[name], str):
            raise TypeError(f"{name} is no text")
    if results["format"] != 1:
        raise ValueError(f"format {results['format']!r}")
    check_text(results)
    check_words([results.get(name) for name in ("rows", "machines", "figures", "metric", "higher")])
    if not isinstance(results["machines"], list) or not isinstance(results["figures"], list):
        raise TypeError("machines and figures are no lists")
    terminal_table(results)
    progress(results)
    return results


def show(value: float | None, percent: bool = False) -> str:
    """As the paper prints it: four decimals below one, or percent."""
    if value is None:
        return "–"
    if percent:
        return f"{100 * value:.1f}"
    return f"{value:.4f}" if 0.001 <= abs(value) < 1 else f"{value:.4g}"


def here(line: ResultLine, percent: bool) -> str:
    """Mean ± spread, or why there is none."""
    if line["mean"] is None:
        return "diverged" if line["diverged"] else "–" if line["planned"] else "not run here"
    mean = show(line["mean"], percent)
    if line["spread"] is None:
        return mean
    decimals = 1 if percent else len(mean.partition(".")[2]) if "e" not in mean else None
    return (
        f"{mean} ± {line['spread']:.2g}"
        if decimals is None
        else f"{mean} ± {(100 if percent else 1) * line['spread']:.{decimals}f}"
    )


def against_paper(line: ResultLine, percent: bool) -> str:
    """Ours as a multiple of the paper's; for percentages the difference in points."""
    if line["mean"] is None or not line["paper"]:
        return "–"
    return f"{100 * (line['mean'] - line['paper']):+.1f}" if percent else f"{line['mean'] / line['paper']:.2f}x"


def seeds(line: ResultLine) -> str:
    """How many seeds stand behind a line, of how many there are to be, and how many diverged."""
    done, planned, lost = len(line["seeds"]), len(line["planned"]), len(line["diverged"])
    if not done + planned + lost:
        return "–"
    count = f"{done}" if done + lost >= planned else f"{done} of {planned}"
    return f"{count}, {lost} diverged" if lost else count


def setting(values: Mapping[str, Any]) -> str:
    return ", ".join(f"{key} {value}" for key, value in values.items())


def metrics(results: Results) -> list[str]:
    return list(dict.fromkeys(line["metric"] for line in results["rows"]))


def is_best(line: ResultLine, results: Results) -> bool:
    """Whether no other method does better at the same setting."""
    same = [r for r in results["rows"] if r["setting"] == line["setting"] and r["metric"] == line["metric"]]
    means = [r["mean"] for r in same if r["mean"] is not None]
    if results["lower_is_better"] is None:
        return False
    lower = results["lower_is_better"] and line["metric"] not in results.get("higher", ())
    return len(means) > 1 and line["mean"] == (min if lower else max)(means)


def progress(results: Results) -> tuple[int, int]:
    """Runs finished, diverged ones included, and runs planned."""
    rows = {(line["method"], setting(line["setting"])): line for line in results["rows"]}.values()
    done = sum(len(set(line["planned"]) & {*line["seeds"], *map(int, line["diverged"])}) for line in rows)
    return done, sum(len(line["planned"]) for line in rows)


def against_rows_of_the_paper(results: Results) -> tuple[int, int, int]:
    """Rows that the paper measured itself, how many of them are run here, and how many are run at settings that it has not."""
    rows = {(line["method"], setting(line["setting"])): line for line in results["rows"] if not line.get("source")}.values()
    own = [line for line in rows if line["paper"] is not None]
    run = [line for line in rows if line["seeds"]]
    return len(own), sum(line["paper"] is not None for line in run), sum(line["paper"] is None for line in run)


def caption(results: Results) -> str:
    done, planned = progress(results)
    better = {True: "lower is better; ", False: "higher is better; ", None: ""}[results["lower_is_better"]]
    if results.get("higher"):
        better = f"lower is better, higher of {', '.join(results['higher'])}; "
    unit = ", in percent" if results["percent"] else ""
    unfinished = f"; {done} of {planned} runs are finished" if done < planned else ""
    return f"{', '.join(metrics(results))}{unit}; {better}mean ± standard deviation over seeds{unfinished}"


def terminal_table(results: Results) -> Table:
    """A line per method and setting."""
    percent, several = results["percent"], len(metrics(results)) > 1
    title = f"{results['title']} ({results['where']}), {results['scale']} scale"
    table = Table(title=title, caption=caption(results), box=box.SIMPLE_HEAD, pad_edge=False, collapse_padding=True)
    for head in ("setting", "method", *(["metric"] if several else [])):
        table.add_column(head)
    for head in ("here", "paper", "here - paper" if percent else "here / paper", "seeds", "s/epoch"):
        table.add_column(head, justify="right", no_wrap=True)
    before = None
    for line in sorted(results["rows"], key=lambda r: first_place(r["setting"], results)):
        if before is not None and line["setting"] != before:
            table.add_section()
        name = "" if line["setting"] == before else setting(line["setting"])
        cells = [
            here(line, percent),
            show(line["paper"], percent),
            against_paper(line, percent),
            seeds(line),
            f"{line['seconds_per_epoch']:.2f}" if "seconds_per_epoch" in line else "–",
        ]
        table.add_row(
            name, line["method"], *([line["metric"]] if several else []), *cells, style="bold" if is_best(line, results) else None
        )
        before = line["setting"]
    return table


def first_place(values: Mapping[str, Any], results: Results) -> int:
    """Where a setting first appears: lines of one setting belong together."""
    return next(i for i, line in enumerate(results["rows"]) if line["setting"] == values)
