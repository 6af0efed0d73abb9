"""Learning curves, test results per seed, and novelty per layer."""

import statistics
from collections.abc import Mapping, Sequence

from matplotlib.figure import Figure

from xdops.report.style import INK, colour, literal, quiet
from xdops.report.summary import SpaceSummary, is_share
from xdops.search import SearchResult

ResultsBySpace = Mapping[str, Sequence[SearchResult]]


def learning_curves(results: ResultsBySpace) -> Figure:
    """Validation metric and training loss by epoch: every seed thin, the mean thick."""
    first = next(iter(results.values()))[0]
    figure = Figure(figsize=(9.5, 3.4), layout="constrained")
    left, right = figure.subplots(1, 2)
    scale = 100 if is_share(first.metric) else 1
    for space, runs in results.items():
        metric = [[scale * r.validation_metric for r in run.history] for run in runs]
        loss = [[r.train_loss for r in run.history] for run in runs]
        for axes, curves in ((left, metric), (right, loss)):
            epochs = range(1, len(curves[0]) + 1)
            for curve in curves:
                axes.plot(range(1, len(curve) + 1), curve, color=colour(space), linewidth=0.7, alpha=0.35)
            mean = [statistics.fmean(values) for values in zip(*curves, strict=False)]
            axes.plot(epochs[: len(mean)], mean, color=colour(space), linewidth=2, label=space)
    left.set_title(f"Validation {literal(first.metric)}{' (%)' if scale == 100 else ''}", loc="left", color=INK)
    right.set_title("Training loss (log scale)", loc="left", color=INK)
    right.set_yscale("log")
    if not first.higher_is_better:
        left.set_yscale("log")
    for axes in (left, right):
        quiet(axes)
        axes.set_xlabel("epoch")
        axes.xaxis.get_major_locator().set_params(integer=True)
    left.legend(frameon=False)
    return figure


def seed_strip(rows: Sequence[SpaceSummary]) -> Figure:
    """One dot per seed and a bar at the mean: whether spaces overlap is seen at once."""
    figure = Figure(figsize=(9.5, 0.55 * len(rows) + 0.8), layout="constrained")
    axes = figure.subplots()
    scale = 100 if is_share(rows[0].metric) else 1
    for i, row in enumerate(rows):
        y = len(rows) - 1 - i
        axes.plot([scale * v for v in row.test], [y] * len(row.test), "o", color=colour(row.space), alpha=0.75, markersize=7)
        axes.plot([scale * row.mean] * 2, [y - 0.3, y + 0.3], color=colour(row.space), linewidth=2.5)
    axes.set_yticks(range(len(rows)), [row.space for row in reversed(rows)])
    axes.set_ylim(-0.6, len(rows) - 0.4)
    axes.margins(x=0.08)
    quiet(axes)
    axes.grid(axis="x", color="#e5e7eb", linewidth=0.8)
    axes.grid(axis="y", visible=False)
    axes.set_xlabel(f"test {literal(rows[0].metric)}{' (%)' if scale == 100 else ''}")
    return figure


def novelty_bars(results: ResultsBySpace) -> Figure | None:
    """How far each layer's architecture moved from its start, one bar per layer and space."""
    layers: dict[str, dict[str, float]] = {}
    for space, runs in results.items():
        if runs[0].novelty:
            layers[space] = {name: statistics.fmean(r.novelty[name] for r in runs) for name in runs[0].novelty}
    if not layers:
        return None
    names = list(dict.fromkeys(name for values in layers.values() for name in values))
    figure = Figure(figsize=(9.5, 0.3 * len(names) * len(layers) + 1.0), layout="constrained")
    axes = figure.subplots()
    height = 0.8 / len(layers)
    for i, (space, values) in enumerate(layers.items()):
        at = [y + (i - (len(layers) - 1) / 2) * height for y in range(len(names))]
        widths = [values.get(name, 0.0) for name in names]
        bars = axes.barh(at, widths, height * 0.9, color=colour(space), label=space)
        axes.bar_label(bars, fmt="%.3f", padding=3, fontsize=8, color=INK)
    axes.set_yticks(range(len(names)), [literal(name) for name in names])
    axes.invert_yaxis()
    quiet(axes)
    axes.grid(axis="y", visible=False)
    axes.margins(x=0.12)
    axes.set_xlabel("relative distance from the start (0 = still the backbone's operation)")
    axes.legend(frameon=False)
    return figure
