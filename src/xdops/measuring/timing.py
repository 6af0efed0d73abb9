"""Interleaved timing: in every repetition each candidate runs once, and is compared with the reference of that same repetition."""

import statistics
import time
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass

#: Seconds below which a candidate counts as quick, and those that its runs of one repetition are to fill.
QUICK, FILL = 0.1, 0.02


@dataclass(frozen=True)
class Timing:
    """Seconds (median), and the ratio to the reference of the same repetition: median and quartiles."""

    seconds: float
    ratio: float
    low: float
    high: float

    def to_dict(self) -> dict[str, float]:
        return asdict(self)


def interleaved(
    candidates: Mapping[str, Callable[[], object]], reference: str, repetitions: int, tick: Callable[[], None] = lambda: None
) -> dict[str, Timing]:
    """Time all candidates in turn, `repetitions` times, after one round that is not counted.

    A quick candidate runs once more before it is timed: else it is timed with the caches as the one before it left them. A very
    quick one is timed several times in a row, and the mean counts: a single run of a millisecond says more about the machine.
    """
    times: dict[str, list[float]] = {name: [] for name in candidates}
    for repetition in range(repetitions + 1):
        for name, run in candidates.items():
            runs = 1
            if repetition and (times[name] or [0.0])[-1] < QUICK:
                runs = max(1, round(FILL / max(_seconds(run), 1e-6)))
            taken = _seconds(run, runs)
            if repetition:
                times[name].append(taken)
            tick()
    return {name: _timing(taken, times[reference]) for name, taken in times.items()}


def _seconds(run: Callable[[], object], runs: int = 1) -> float:
    """Per run."""
    start = time.perf_counter()
    for _ in range(runs):
        run()
    return (time.perf_counter() - start) / runs


def _timing(taken: list[float], reference: list[float]) -> Timing:
    ratios = [t / r for t, r in zip(taken, reference, strict=True)]
    low, middle, high = statistics.quantiles(ratios, n=4)
    return Timing(statistics.median(taken), middle, low, high)
