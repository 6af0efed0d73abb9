"""docs/results.md and its figures, made from results/ alone."""

import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from xdops.errors import XDError, several
from xdops.measuring.duration import hours
from xdops.report.paired import paired_rows
from xdops.report.paper_state import paper_state
from xdops.report.plan import plan_section
from xdops.report.result_plots import png, result_figure
from xdops.report.rows import (
    ResultLine,
    Results,
    against_paper,
    caption,
    here,
    is_best,
    metrics,
    read_results,
    seeds,
    setting,
    show,
)
from xdops.report.settings_list import settings_list
from xdops.reproduce.reproduction import duration
from xdops.reproduce.tables import TABLES, find_table
from xdops.storage.documents import understood
from xdops.storage.files import check_target, make_folder, write_file

PAGE = "results.md"
INTRODUCTION = """# Results

The paper's tables and figures, run here, beside the paper's own numbers. Each section names the command that made it; `xdops
reproduce --render` writes this page from the files in `results/`, which also hold every seed's value and all settings.
"""


def note_of(table: Results) -> str:
    """What the table says of itself today, as its rows are the same; of a table that is no longer there, what it said."""
    known = table["table"] in TABLES and find_table(table["table"]).notes.get(table["scale"])
    return str(known or table["note"])


def write_page(results: Path, docs: Path) -> Path:
    """Write the page and a figure per table; returns the page's path."""
    found = read_results(results)
    if not found:
        given = f"--results {results}, which holds no results of a table"
        raise XDError(given, "what `xdops reproduce TABLE` wrote there", "--results results")
    parts, pictures = [INTRODUCTION, overview(found)], {}
    for table in found:
        name = f"{table['table']}-{table['scale']}"
        with understood(results / f"{name}.json", "a file that `xdops reproduce` wrote", "delete it"):
            figure = result_figure(table)
            if figure is not None:
                pictures[f"figures/{name}.png"] = png(figure)
            more = sorted((docs / "figures").glob(f"{name}-*.png"))
            parts.append(section(table, None if figure is None else f"figures/{name}.png", [f"figures/{p.name}" for p in more]))
    if planned := plan_section(results / "plan-paper.json"):
        parts.append(planned)
    make_folder(docs / "figures")
    for place, data in pictures.items():
        write_file(docs / place, data)
    write_file(docs / PAGE, "\n".join(parts).encode(errors="replace"))
    return docs / PAGE


def check_page(docs: Path) -> None:
    """Refuse, before any work, a folder that the page cannot be written to, or that has a page of somebody else's."""
    page = docs / PAGE
    check_target(page, 1 << 20)
    check_target(docs / "figures" / "any.png")
    if page.exists() and not page.read_bytes().startswith(INTRODUCTION.encode()):
        raise XDError(f"--docs {docs}, whose {PAGE} was not written by xdops", "another folder", "--docs somewhere/else")


def overview(found: Sequence[Results]) -> str:
    return markdown(["in the paper", "what", "here"], paper_state(found))


def section(table: Results, picture: str | None, more: Sequence[str] = ()) -> str:
    """more: pictures of what was found, which the runs themselves were needed for."""
    parts = [
        f"## {plain(table['title'])}, {table['scale']} scale\n",
        f"In the paper: {plain(table['where'])}.\n",
        plain(note) + "\n" if (note := note_of(table)) else "",
        code_block(table["command"]),
        f"![{plain(table['title'])}]({picture})\n" if picture else "",
        figures_table(table),
        f"{caption(table)[:1].upper()}{caption(table)[1:]}."
        + ("\n" if table["lower_is_better"] is None else " The best of a setting is bold.\n"),
        paired_table(table),
        details_table(table),
        tuning_table(table),
        diverged(table),
        "\n".join(f"![{plain(table['title'])}]({path})\n" for path in more),
        settings_list(table),
        run_on(table),
    ]
    return "\n".join(part for part in parts if part)


def plain(text: str) -> str:
    """Text as it stands in Markdown: one line, no tags, links, emphasis or headings of its own. Code in `backticks` stays."""
    line = " ".join(text.split())
    parts = line.split("`") if line.count("`") % 2 == 0 else [line.replace("`", "'")]
    for i in range(0, len(parts), 2):
        parts[i] = re.sub(r"([\\\[\]<>*_#|])", r"\\\1", parts[i])
    return "`".join(parts)


def code_block(text: str) -> str:
    """Fenced by more backticks than it holds."""
    fence = "`" * max(3, 1 + max(map(len, re.findall("`+", text)), default=0))
    return f"{fence}\n{text}\n{fence}\n"


def figures_table(table: Results) -> str:
    """Methods by settings as the paper has it; with several metrics, methods at settings by metrics."""
    if len(metrics(table)) > 1:
        columns = metrics(table)
        rows = _grouped(table["rows"], lambda r: ", ".join(filter(None, (r["method"], setting(r["setting"])))))
        cells = {(name, line["metric"]): cell(line, table) for name, lines in rows.items() for line in lines}
    else:
        columns = list(dict.fromkeys(setting(line["setting"]) for line in table["rows"]))
        rows = _grouped(table["rows"], lambda r: r["method"])
        cells = {(name, setting(line["setting"])): cell(line, table) for name, lines in rows.items() for line in lines}
    return markdown(["", *columns], [[name, *(cells.get((name, column), "") for column in columns)] for name in rows])


def cell(line: ResultLine, table: Results) -> str:
    ours = here(line, table["percent"])
    paper = "" if line["paper"] is None else f"<br>paper: {show(line['paper'], table['percent'])}"
    return (f"**{ours}**" if is_best(line, table) else ours) + paper


def paired_table(table: Results) -> str:
    """Methods compared on the same test examples."""
    lines = paired_rows(table)
    heads = ["compared", "setting", f"difference in {table['metric']}", "95% interval", "test examples"]
    return f"{markdown(heads, lines)}\nIntervals are over test examples, paired; not over other trainings.\n" if lines else ""


def details_table(table: Results) -> str:
    """Seeds, cost and size of every row."""
    compared = "here - paper" if table["percent"] else "here / paper"
    several, mixed = len(metrics(table)) > 1, len(machines(table)) > 1
    theirs = any(line.get("paper_hours") for line in table["rows"] if line["seeds"])
    heads = [
        "method",
        "setting",
        *(["metric"] if several else []),
        compared,
        "seeds",
        "s / epoch",
        "hours per run",
        *(["the paper's hours"] if theirs else []),
        "time",
        "weights",
        "architecture",
        *(["machine"] if mixed else []),
    ]
    lines = [
        [
            line["method"],
            setting(line["setting"]),
            *([line["metric"]] if several else []),
            against_paper(line, table["percent"]),
            seeds(line),
            f"{line['seconds_per_epoch']:.2f}" if "seconds_per_epoch" in line else "–",
            hours(line["seconds"] / 3600 / (len(line["seeds"]) + len(line["diverged"]))) if line["seeds"] else "not run here",
            *([hours(line.get("paper_hours"))] if theirs else []),
            duration(line["seconds"]) if line["seeds"] else "–",
            *(f"{line[name]:,}" if name in line else "–" for name in ("weights", "architecture")),
            *([machine_of(line, table) if line["seeds"] else "–"] if mixed else []),
        ]
        for line in table["rows"]
        if line["seeds"] or (theirs and line.get("paper_hours"))
    ]
    if not lines:
        return ""
    where = f"on the machine{'s' if mixed else ''} named below{', the paper on a V100' if theirs else ''}"
    said = (
        f"Hours of one run, and time for all seeds together, {where}, of which many did other work at the same time: compare times "
        "of different rows with care. Runs of candidates that were not chosen are not counted. Weights and architecture are "
        "numbers of parameters."
    )
    return f"{markdown(heads, lines)}\n{said}\n"


def tuning_table(table: Results) -> str:
    """What was tried for every row, and chosen."""
    lines = [
        [
            line["method"],
            setting(line["setting"]),
            line["chosen"] + end_of_range(list(tried), line["chosen"]),
            "; ".join(f"{k}: {_validation(v)}" for k, v in tried.items()),
        ]
        for line in table["rows"]
        if (tried := line.get("tried")) and line["metric"] == table["metric"]
    ]
    said = "Chosen on validation, with the first seed, in full training runs; the test part played no role."
    if any(line[2].endswith(ENDS) for line in lines):
        said += " Where it is an end of what was tried, a wider range might do better."
    return f"{markdown(['method', 'setting', 'chosen', 'tried: validation'], lines)}\n{said}\n" if lines else ""


NUMBER = re.compile(r"\d+(?:\.\d+)?(?:e[+-]?\d+)?")
ENDS = (", the smallest tried", ", the largest tried")


def end_of_range(tried: Sequence[str], chosen: str) -> str:
    """Which end of its range a choice is, where candidates are three or more values of one number; else nothing."""
    numbers = [[float(number) for number in NUMBER.findall(name)] for name in tried]
    if chosen not in tried or len({len(found) for found in numbers}) != 1:
        return ""
    differing = [values for values in zip(*numbers, strict=True) if len(set(values)) > 1]
    if len(differing) != 1 or len(tried) < 3:
        return ""
    value = differing[0][tried.index(chosen)]
    return ENDS[0] if value == min(differing[0]) else ENDS[1] if value == max(differing[0]) else ""


def _validation(value: float | None) -> str:
    return "diverged" if value is None else f"{value:.4g}"


def diverged(table: Results) -> str:
    lines = [(line, seed, why) for line in table["rows"] for seed, why in line["diverged"].items()]
    return "".join(f"- {r['method']}, {setting(r['setting'])}, seed {seed} diverged: {why}.\n" for r, seed, why in lines)


def machines(of: Mapping[str, Any]) -> list[str]:
    """Of a table or one of its rows, each once as it is called here."""
    return list(dict.fromkeys(machine(facts) for facts in of["machines"]))


def run_on(table: Results) -> str:
    """The machine, or all with the numbers that stand beside the rows."""
    found = machines(table)
    if len(found) == 1:
        return f"Run on: {found[0]}.\n"
    return "\n".join(f"Machine {i}: {name}.\n" for i, name in enumerate(found, 1))


def machine_of(line: ResultLine, table: Results) -> str:
    """The numbers of the machines that a row was run on; of older rows it may not be known."""
    known = "machines" in line
    return (", " if known else " or ").join(
        str(i) for i, name in enumerate(machines(table), 1) if not known or name in machines(line)
    )


def machine(facts: Mapping[str, Any]) -> str:
    known = f"{facts['processor']}, {facts['cores']} cores, {several(facts['threads'], 'thread')}, torch {facts['torch']}"
    return f"{known}, {facts['gpu']}" if "gpu" in facts else known


def markdown(heads: Sequence[str], lines: Sequence[Sequence[str]]) -> str:
    rows = [heads, ["---"] * len(heads), *lines]
    return "\n".join(f"| {' | '.join(cell.replace('|', chr(92) + '|') for cell in row)} |" for row in rows) + "\n"


def _grouped(lines: Sequence[ResultLine], name: Any) -> dict[str, list[ResultLine]]:
    groups: dict[str, list[ResultLine]] = {}
    for line in lines:
        groups.setdefault(name(line), []).append(line)
    return groups
