"""The picture of docs/performance.md: the ratio to the convolution against size, form by form."""

from collections.abc import Sequence
from typing import Any

from matplotlib import rc_context
from matplotlib.figure import Figure

from xdops.report.result_plots import png
from xdops.report.style import FONT, INK, quiet

#: Colours that people with any colour vision tell apart.
COLOURS = ("#1d4ed8", "#d97706", "#047857", "#b91c1c", "#6d28d9", "#0e7490", "#525252")


def draw(points: Sequence[dict[str, Any]]) -> bytes:
    """A line per form, with quartiles; the form that was chosen has a large mark."""
    with rc_context(FONT):
        figure = Figure(figsize=(8, 4.6), layout="constrained")
        axes = figure.subplots()
        forms = sorted({form for p in points for form in p["training"]} - {"conv"})
        for i, form in enumerate(forms):
            colour = COLOURS[i % len(COLOURS)]
            seen = [p for p in points if form in p["training"]]
            at, timings = [p["n"] for p in seen], [p["training"][form] for p in seen]
            axes.fill_between(at, [t["low"] for t in timings], [t["high"] for t in timings], color=colour, alpha=0.12, linewidth=0)
            axes.plot(at, [t["ratio"] for t in timings], "o-", color=colour, markersize=4, linewidth=1.6, label=form)
            chosen = [(p["n"], p["training"][form]["ratio"]) for p in seen if p["plan"] == form]
            axes.plot([n for n, _ in chosen], [r for _, r in chosen], "o", color=colour, markersize=9)
        quiet(axes)
        axes.set_xscale("log", base=2)
        axes.set_yscale("log", base=2)
        axes.yaxis.set_major_formatter(lambda value, _: f"{value:g}")
        axes.axhline(1, color=INK, linewidth=1, linestyle="--")
        ticks = [p["n"] for p in points]
        axes.set_xticks(ticks, [str(n) for n in ticks])
        p = points[0]
        what = f"kernel {p['kernel']}, batch {p['batch']}, {p['channels']} channels, half domain"
        axes.set_title(f"Training step: {what}", fontsize=11, color=INK, loc="left")
        axes.set_xlabel("points n; a large mark is the form that is planned")
        axes.set_ylabel("time / time of the convolution")
        axes.legend(frameon=False, fontsize=9)
        return png(figure)
