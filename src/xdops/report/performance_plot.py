"""The picture of docs/performance.md: the ratio to the convolution against size, and against kernel size."""

from collections.abc import Sequence
from typing import Any

from matplotlib import rc_context
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from xdops.report.result_plots import png
from xdops.report.style import FONT, INK, quiet

#: Colours that people with any colour vision tell apart, by number of dimensions.
LINES = {1: "#1d4ed8", 2: "#d97706"}

Point = dict[str, Any]


def draw(lines: dict[str, list[Point]]) -> bytes:
    with rc_context(FONT):
        figure = Figure(figsize=(11, 4.4), layout="constrained")
        by_size, by_kernel = figure.subplots(1, 2)
        _line(by_size, lines["size"], "n")
        first = lines["size"][0]
        _finish(by_size, f"against size (1d, kernel {first['kernel']})", "points n", [p["n"] for p in lines["size"]])
        by_size.set_xscale("log", base=2)
        by_size.set_xticks([p["n"] for p in lines["size"]], [str(p["n"]) for p in lines["size"]])
        for name in ("kernel 1d", "kernel 2d"):
            _line(by_kernel, lines[name], "kernel")
        taps = sorted({p["kernel"] for name in ("kernel 1d", "kernel 2d") for p in lines[name]})
        _finish(by_kernel, "against kernel size", "kernel size k (k taps in 1d, k x k in 2d)", taps)
        return png(figure)


def _line(axes: Axes, points: Sequence[Point], key: str) -> None:
    p = points[0]
    colour, size = LINES[p["dims"]], "" if key == "n" else f"n = {'x'.join([str(p['n'])] * p['dims'])}, "
    label = f"{p['dims']}d, {size}batch {p['batch']}, {p['channels']} channels"
    at, ratios = [p[key] for p in points], [p["auto"]["ratio"] for p in points]
    low, high = [p["auto"]["low"] for p in points], [p["auto"]["high"] for p in points]
    axes.fill_between(at, low, high, color=colour, alpha=0.15, linewidth=0)
    axes.plot(at, ratios, "o-", color=colour, markersize=5, linewidth=1.6, label=label)
    before = None
    for x, y, p in zip(at, ratios, points, strict=True):
        if p["plan"] != before:  # a plan's name stands where it takes over; lines fall, so there is room above to the right
            axes.annotate(p["plan"], (x, y), (6, 5), textcoords="offset points", color=colour, fontsize=9)
        before = p["plan"]


def _finish(axes: Axes, title: str, across: str, ticks: Sequence[int]) -> None:
    quiet(axes)
    axes.set_yscale("log", base=2)
    low, high = axes.get_ylim()
    axes.set_ylim(min(low, 0.9) / 1.35, max(high, 1.1) * 1.35)
    axes.yaxis.set_major_formatter(lambda value, _: f"{value:g}")
    axes.axhline(1, color=INK, linewidth=1, linestyle="--")
    axes.annotate("the convolution", (1, 1), (0, 3), xycoords=("axes fraction", "data"), textcoords="offset points",
                  ha="right", fontsize=9, color=INK)  # fmt: skip
    axes.set_xticks(ticks, [str(t) for t in ticks])
    axes.set_title(f"Training step, {title}", fontsize=11, color=INK, loc="left")
    axes.set_xlabel(across)
    axes.set_ylabel("time of XD (auto) / time of convolution")
    axes.legend(frameon=False, fontsize=9)
