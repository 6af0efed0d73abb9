"""Pictures of a reproduced table, from its results alone: a panel per figure that the table asks for."""

import io
import math
from collections.abc import Callable, Sequence
from typing import Any

from matplotlib import rc_context
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.ticker import LogLocator, MaxNLocator, NullFormatter, NullLocator

from xdops.report.paired import PairedExamples, pairs
from xdops.report.rows import ResultLine, Results, setting
from xdops.report.style import COLOURS, FONT, INK, OTHER, literal, quiet
from xdops.reproduce.collect import matches

#: Networks as they are, and networks searched over, each from its own shelf: greys and greens against blues and violets.
PLAIN = (COLOURS["backbone"], "#047857", "#be123c", "#854d0e")
SEARCHED = (COLOURS["xd"], OTHER, "#0891b2", "#c026d3")

#: How far apart, of an axis, numbers have to be to be told apart.
LABEL = 0.08


def method_colours(methods: Sequence[str]) -> dict[str, str]:
    """A colour per method, by what it is and in order of appearance."""
    plain, searched = iter(PLAIN), iter(SEARCHED)
    colours = {}
    for method in dict.fromkeys(methods):
        if "darts" in method.lower():
            colours[method] = COLOURS["darts"]
        else:
            colours[method] = next(searched if method.lower().endswith("xd") else plain, INK)
    return colours


def result_figure(results: Results) -> Figure | None:
    """All panels, or None if there is nothing to draw yet."""
    panels = [(spec, lines) for spec in results["figures"] if spec["kind"] != "paired" and (lines := _lines(spec, results))]
    paired = pairs(results)
    count = len(panels) + len(paired)
    if not count:
        return None
    columns = min(2, count)
    height = -(-count // columns)
    with rc_context(FONT):
        figure = Figure(figsize=(5.6 * columns, 4.0 * height), layout="constrained")
        grid = list(figure.subplots(height, columns, squeeze=False).flat)
        colours = method_colours([line["method"] for line in results["rows"]])
        for axes, (spec, lines) in zip(grid, panels, strict=False):
            quiet(axes)
            axes.set_title(literal(spec["title"]), loc="left", color=INK, fontsize=10)
            DRAW[spec["kind"]](axes, spec, lines, colours, 100 if results["percent"] else 1)
        for axes, pair in zip(grid[len(panels) :], paired, strict=False):
            quiet(axes)
            paired_panel(axes, pair, colours, results)
        for axes in grid[count:]:
            axes.set_axis_off()
    return figure


def _lines(spec: dict[str, Any], results: Results) -> list[ResultLine]:
    needed = "mean" if spec["kind"] == "line" else "curves"
    main = [line for line in results["rows"] if line["metric"] == results["metric"] and not line.get("source")]
    lines = [line for line in main if matches(line["setting"], spec["where"])]
    return lines if any(line.get(needed) is not None for line in lines) else []


def line_panel(axes: Axes, spec: dict[str, Any], lines: Sequence[ResultLine], colours: dict[str, str], scale: float) -> None:
    """Mean with its spread against a setting, a line per method; the paper's dashed, with hollow marks."""
    ticks = sorted({line["setting"][spec["x"]] for line in lines}, key=lambda x: (isinstance(x, str), x))
    numeric = not any(isinstance(x, str) for x in ticks)
    place = {x: x if numeric else i for i, x in enumerate(ticks)}
    methods = list(dict.fromkeys(line["method"] for line in lines))
    beside = _beside(list(place.values()), len(methods), spec["log_x"] and numeric)
    for i, method in enumerate(methods):
        own = sorted((line for line in lines if line["method"] == method), key=lambda line: place[line["setting"][spec["x"]]])
        ours = [line for line in own if line["mean"] is not None]
        axes.errorbar(
            [beside(place[line["setting"][spec["x"]]], i) for line in ours],
            [scale * line["mean"] for line in ours],
            [scale * (line["spread"] or 0) for line in ours],
            color=colours[method], marker="o", markersize=5, linewidth=2, capsize=3, zorder=3,
        )  # fmt: skip
        paper = [line for line in own if line["paper"] is not None]
        axes.plot(
            [place[line["setting"][spec["x"]]] for line in paper],
            [scale * line["paper"] for line in paper],
            color=colours[method], linestyle="--", marker="o", markerfacecolor="white", markersize=5, linewidth=1.1, alpha=0.8,
        )  # fmt: skip
    if spec["log_x"] and numeric:
        axes.set_xscale("log", base=2)
        axes.xaxis.set_minor_locator(NullLocator())
    words = [f"{x:g}" if numeric else literal(x) for x in ticks]
    shown = _apart([place[x] for x in ticks], spec["log_x"]) if numeric else [True for _ in ticks]
    axes.set_xticks([place[x] for x in ticks], [word if one else "" for word, one in zip(words, shown, strict=True)])
    if spec["log_y"]:
        _log_y(axes)
    else:
        axes.set_ylim(bottom=0)
    axes.margins(x=0.08)
    axes.set_xlabel(literal(spec["x"]))
    axes.set_ylabel(literal(lines[0]["metric"]) + (" (%)" if scale == 100 else ""))
    handles = [Line2D([], [], color=colours[m], marker="o", markersize=5, linewidth=2, label=literal(m)) for m in methods]
    if any(line["paper"] is not None for line in lines):
        style = {"linestyle": "--", "marker": "o", "markerfacecolor": "white", "markersize": 5, "linewidth": 1.1}
        handles.append(Line2D([], [], color=INK, label="the paper's", **style))  # type: ignore[arg-type]
    _legend(axes, handles)


def _apart(places: Sequence[float], logarithmic: bool) -> list[bool]:
    """Which ticks, in order, have room for a number: those far enough from the last one that has."""
    at = [math.log(x) if logarithmic else x for x in places]
    room, last, shown = LABEL * (at[-1] - at[0]), -math.inf, []
    for x in at:
        shown.append(x - last >= room)
        last = x if shown[-1] else last
    return shown


def _beside(places: Sequence[float], methods: int, logarithmic: bool) -> Callable[[float, int], float]:
    """Moves each method's marks a little aside, so that the spreads of equal methods can be told apart."""
    step = 0.01 * (math.log(max(places) / min(places)) if logarithmic else max(places) - min(places))

    def moved(x: float, method: int) -> float:
        shift = step * (method - (methods - 1) / 2)
        return x * math.exp(shift) if logarithmic else x + shift

    return moved


def curves_panel(axes: Axes, spec: dict[str, Any], lines: Sequence[ResultLine], colours: dict[str, str], scale: float) -> None:
    """By epoch: what is trained on dotted, what is not solid."""
    drawn = [line for line in lines if "curves" in line]
    for line in drawn:
        for name, style, width in (("train", ":", 1.5), ("held out", "-", 1.8)):
            curve = line["curves"][name]
            factor = scale if name == "held out" else 1
            axes.plot(curve["epoch"], [factor * v for v in curve["value"]], style, color=colours[line["method"]], linewidth=width)
    _log_y(axes)
    axes.xaxis.set_major_locator(MaxNLocator(integer=True))
    axes.set_xlabel("epoch")
    axes.set_ylabel(literal(drawn[0]["metric"]) + (" (%)" if scale == 100 else ""))
    handles = [Line2D([], [], color=colours[line["method"]], linewidth=2, label=literal(line["method"])) for line in drawn]
    handles += [
        Line2D([], [], color=INK, label=spec.get("held_out", "test")),
        Line2D([], [], color=INK, linestyle=":", label="training loss"),
    ]
    _legend(axes, handles)


def novelty_panel(axes: Axes, spec: dict[str, Any], lines: Sequence[ResultLine], colours: dict[str, str], scale: float) -> None:
    """By epoch, a line per row; rows are told apart by what `where` leaves open."""
    drawn = [line for line in lines if "curves" in line]
    shades = dict(zip(range(len(drawn)), (PLAIN[0], *SEARCHED), strict=False))
    handles = []
    for i, line in enumerate(drawn):
        curve = line["curves"]["novelty"]
        axes.plot([0, *curve["epoch"]], [0, *curve["value"]], color=shades[i], linewidth=2)
        own = ", ".join(str(v) for k, v in line["setting"].items() if k not in spec["where"])
        handles.append(Line2D([], [], color=shades[i], linewidth=2, label=literal(f"{line['method']}, {own}")))
    axes.set_ylim(bottom=0)
    axes.xaxis.set_major_locator(MaxNLocator(integer=True))
    axes.set_xlabel("epoch")
    axes.set_ylabel("relative distance from the start")
    _legend(axes, handles)


def paired_panel(axes: Axes, pair: PairedExamples, colours: dict[str, str], results: Results) -> None:
    """A point per test example: below the diagonal the new method has less."""
    base, new = ([values[i] for values in pair.values.values()] for i in (0, 1))
    found = pair.comparison(results["lower_is_better"] is False)
    ends = [0.0, 1.05 * max(*base, *new)]
    axes.plot(ends, ends, color=OTHER, linewidth=1, zorder=1)
    axes.scatter(base, new, color=colours[pair.new], s=22, alpha=0.8, edgecolors="none", zorder=2)
    axes.set_xlim(*ends)
    axes.set_ylim(*ends)
    axes.set_aspect("equal")
    axes.set_xlabel(f"{results['metric']}, {pair.base}")
    axes.set_ylabel(f"{results['metric']}, {pair.new}")
    counted = f"better on {found.for_better:.0f} of {found.examples}, mean difference {found.difference:+.2f}"
    title = f"{setting(pair.where)}:\n{counted}"  # on two lines: panels are narrow
    axes.set_title(title, loc="left", color=INK, fontsize=10)


def _log_y(axes: Axes) -> None:
    """Plain numbers at 1, 2 and 5: a decade or less is the usual range."""
    axes.set_yscale("log")
    axes.yaxis.set_major_locator(LogLocator(subs=(1, 2, 5)))
    axes.yaxis.set_major_formatter(lambda value, _: f"{value:.4g}")
    axes.yaxis.set_minor_formatter(NullFormatter())


def _legend(axes: Axes, handles: Sequence[Line2D]) -> None:
    """Beside the lines, never over them."""
    axes.legend(handles=handles, frameon=False, fontsize=8.5, loc="upper left", bbox_to_anchor=(1.0, 1.0))


DRAW: dict[str, Callable[[Axes, dict[str, Any], Sequence[ResultLine], dict[str, str], float], None]] = {
    "line": line_panel,
    "curves": curves_panel,
    "novelty": novelty_panel,
}


def png(figure: Figure) -> bytes:
    buffer = io.BytesIO()
    with rc_context(FONT):
        figure.savefig(buffer, format="png", dpi=150, metadata={"Software": None})
    return buffer.getvalue()
