"""What was tried for every space, what was chosen, and how validation depends on the step sizes."""

import math
from collections.abc import Mapping, Sequence

from matplotlib.figure import Figure
from matplotlib.ticker import FixedLocator, NullFormatter

from xdops.experiments.tuning import Trial, Tuned
from xdops.measuring.duration import hours
from xdops.report.style import INK, colour, literal, quiet
from xdops.report.summary import is_share, number

TunedSpaces = Mapping[str, Tuned]

NOTHING_TUNED = "Nothing was tuned: every space has the step sizes of the recipe or of the command. --trials 16 tunes all alike."

#: The settings that are drawn, and what they are called.
STEP_SIZES = {"lr": "step size of the weights", "arch_lr": "step size of the architecture"}

HEADS = ("space", "tried", "epochs", "hours", "chosen", "validation")


def tuning_lines(tuned: TunedSpaces, metric: str) -> list[tuple[str, ...]]:
    """A line per space: what was spent, and what was chosen."""
    return [
        (
            space,
            f"{len(found.trials)}",
            f"{found.epochs:,}",
            hours(found.seconds / 3600),
            setting(found.values),
            validation(found.trials[found.chosen], metric),
        )
        for space, found in tuned.items()
    ]


def trial_lines(tuned: TunedSpaces, metric: str) -> list[tuple[str, ...]]:
    """A line per trial of every space."""
    return [
        (space, f"{trial.number}", f"{trial.epochs}", setting(trial.values), validation(trial, metric))
        for space, found in tuned.items()
        for trial in found.trials
    ]


def setting(values: Mapping[str, float]) -> str:
    shown = {name: f"{value:.0f}" if name == "batch_size" else f"{value:.2g}" for name, value in values.items()}
    return ", ".join(f"{name} {value}" for name, value in shown.items())


def validation(trial: Trial, metric: str) -> str:
    return "diverged" if trial.best is None else number(trial.best.validation_metric, metric)


def step_size_figure(tuned: TunedSpaces, metric: str) -> Figure | None:
    """Best validation of each trial against its step sizes; the longer it was trained, the larger the dot; the chosen in a ring."""
    shown = [name for name in STEP_SIZES if any(name in trial.values for found in tuned.values() for trial in found.trials)]
    if not shown:
        return None
    figure = Figure(figsize=(9.5, 3.4), layout="constrained")
    panels = figure.subplots(1, len(shown), squeeze=False, sharey=True)[0]
    scale = 100 if is_share(metric) else 1
    for axes, name in zip(panels, shown, strict=True):
        for space, found in tuned.items():
            trials = [trial for trial in found.trials if trial.best is not None and name in trial.values]
            axes.scatter(*places(trials, name, scale), s=sizes(trials), color=colour(space), alpha=0.7, linewidths=0, label=space)
            chosen = [trial for trial in trials if trial.number == found.chosen]
            axes.scatter(*places(chosen, name, scale), s=220, facecolors="none", edgecolors=colour(space), linewidths=1.8)
        axes.set_xscale("log")
        axes.xaxis.set_major_locator(FixedLocator(round_numbers(*axes.get_xlim())))
        axes.xaxis.set_major_formatter("{x:g}")
        axes.xaxis.set_minor_formatter(NullFormatter())  # its labels run into each other
        axes.set_xlabel(STEP_SIZES[name], color=INK)
        quiet(axes)
    panels[0].set_title(f"Validation {literal(metric)}{' (%)' if scale == 100 else ''}", loc="left", color=INK)
    panels[0].legend(frameon=False)
    return figure


def round_numbers(low: float, high: float) -> list[float]:
    """Few enough between these two that their labels do not run into each other."""
    leading = (1, 1.5, 2, 3, 4, 6, 8) if high < 5 * low else (1, 2, 5) if high < 500 * low else (1,)
    decades = range(math.floor(math.log10(low)), math.ceil(math.log10(high)))
    return [tick for decade in decades for digit in leading if low <= (tick := float(f"{digit}e{decade}")) <= high]


def places(trials: Sequence[Trial], name: str, scale: float) -> tuple[list[float], list[float]]:
    return [t.values[name] for t in trials], [scale * t.best.validation_metric for t in trials if t.best is not None]


def sizes(trials: Sequence[Trial]) -> list[float]:
    longest = max((trial.epochs for trial in trials), default=1)
    return [20 + 60 * trial.epochs / longest for trial in trials]
