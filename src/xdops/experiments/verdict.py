"""How sure a difference between two spaces is: paired over test examples and seeds, by the bootstrap.

Every network of both spaces is tested on the same examples, and runs of one seed start from the same weights and see the same
batches: d[s, i], the difference on example i between the two runs of seed s, leaves out what both share. Its mean over S seeds and
N examples is off for two reasons. The test examples are a sample: resampling them, the same ones for every network, shows by how
much. And another training would end elsewhere: how much the seeds differ shows that, once there are enough of them. Their spread
already holds what testing each of them on N examples adds, so that part is taken off the resampled examples' share.

Resampling alone never draws what the sample has none of: four examples for the better and none for the worse would look certain,
though a coin does that one time in eight. So every resample holds half an example more each way, on average, as extreme as the most
extreme there is; Agresti and Min (2005) do the same to tables of right and wrong.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from xdops.errors import XDError

CONFIDENCE = 0.95

#: With fewer seeds than this the interval speaks of the trained networks alone: two or three trainings say too little about others.
ENOUGH_SEEDS = 5

RESAMPLES = 2000
#: Draws at once, for the memory that they take.
_BLOCK = 1 << 21


@dataclass(frozen=True)
class Comparison:
    """new - base in the metric, with an interval that holds the truth in 95 of 100 comparisons."""

    base: float  # the metric, mean over seeds
    new: float
    low: float
    high: float
    seeds: tuple[int, ...]  # those that both spaces were trained with
    examples: int
    for_better: float  # examples on which `new` does better than `base`, per pair of runs
    for_worse: float
    speaks_of_training: bool  # whether the interval counts how much another training would differ
    agreeing: int  # seeds whose own difference points the same way as the mean

    @property
    def difference(self) -> float:
        return self.new - self.base

    @property
    def sure(self) -> bool:
        """Whether the interval leaves out zero."""
        return self.low > 0 or self.high < 0


def compare(
    base: Mapping[int, Sequence[float]],
    new: Mapping[int, Sequence[float]],
    higher_is_better: bool,
    units: Sequence[float] | None = None,
    final: Callable[[float], float] | None = None,
    seed: int = 0,
) -> Comparison:
    """Compare two spaces by their scores on every test example, by seed; seeds that only one of them has are left out.

    The metric is final(sum_i t_i / sum_i u_i) with scores t_i and units u_i, see `xdops.search.scores`: their mean unless given.
    """
    seeds = tuple(sorted(set(base) & set(new)))
    if not seeds:
        raise XDError(
            f"runs of seeds {sorted(base)} and {sorted(new)}", "at least one seed in common", "--resume with those --seeds"
        )
    a, b = (np.array([scores[s] for s in seeds], dtype=np.float64) for scores in (base, new))  # (S, N)
    sums = np.vstack([a, b, np.ones(a.shape[1]) if units is None else np.array(units, dtype=np.float64)])  # (2 S + 1, N)
    of_base, of_new = (metric[0] for metric in _metrics(sums.sum(axis=1)[None], final))
    per_seed = of_new - of_base
    base_again, new_again = _metrics(_resample(sums, seed) + _one_more_each_way(sums, seed), final)
    noise = new_again - base_again - per_seed  # (R, S)
    trained = len(seeds) >= ENOUGH_SEEDS
    away = _with_other_trainings(per_seed, noise, seed) if trained else noise.mean(axis=1)
    low, high = per_seed.mean() + np.quantile(away, [(1 - CONFIDENCE) / 2, (1 + CONFIDENCE) / 2])
    gain = (b - a) if higher_is_better else (a - b)
    better, worse = ((gain > 0).sum(1).mean(), (gain < 0).sum(1).mean())
    return Comparison(
        base=float(of_base.mean()),
        new=float(of_new.mean()),
        low=float(low),
        high=float(high),
        seeds=seeds,
        examples=a.shape[1],
        for_better=float(better),
        for_worse=float(worse),
        speaks_of_training=trained,
        agreeing=int((np.sign(per_seed) == np.sign(per_seed.mean())).sum()),
    )


def _metrics(sums: np.ndarray, final: Callable[[float], float] | None) -> tuple[np.ndarray, np.ndarray]:
    """The metric of the base and of the new space, (R, S) each, from sums (R, 2 S + 1) of scores and, last, of units."""
    means = sums[:, :-1] / sums[:, -1:]
    base, new = np.hsplit(means if final is None else np.vectorize(final, otypes=[np.float64])(means), 2)
    return base, new


def _resample(rows: np.ndarray, seed: int) -> np.ndarray:
    """The sum of each row (K, N) over N examples drawn with replacement, the same for all rows; (R, K)."""
    generator, examples = np.random.default_rng((seed, rows.shape[1])), rows.shape[1]
    found = []
    for start in range(0, RESAMPLES, block := max(1, _BLOCK // examples)):
        count = min(block, RESAMPLES - start)
        drawn = generator.integers(examples, size=(count, examples)) + examples * np.arange(count)[:, None]
        times = np.bincount(drawn.ravel(), minlength=count * examples).reshape(count, examples)  # how often each was drawn
        found.append(times.astype(np.float64) @ rows.T)
    return np.concatenate(found)


def _one_more_each_way(rows: np.ndarray, seed: int) -> np.ndarray:
    """(R, K): the example on which the spaces differ most, and its mirror image, base and new exchanged: each half a time."""
    base, new = np.vsplit(rows[:-1], 2)
    extreme = np.abs((new - base).mean(axis=0)).argmax()
    mirrored = np.concatenate([new[:, extreme], base[:, extreme], rows[-1:, extreme]])
    times = np.random.default_rng((seed, rows.shape[1], 2)).poisson(0.5, size=(RESAMPLES, 2))
    return times @ np.stack([rows[:, extreme], mirrored])


def _with_other_trainings(per_seed: np.ndarray, noise: np.ndarray, seed: int) -> np.ndarray:
    """How far other examples and other seeds would move the mean difference, one draw for every resample.

    Seeds: their spread over the root of S, from a t distribution, since S seeds know that spread only so well. Examples: what
    resampling them does to all seeds alike.
    """
    count, examples = len(per_seed), noise.mean(axis=1)
    single = (noise - examples[:, None]).var(axis=0).sum() / (count - 1) / count  # of the mean, by what differs from seed to seed
    alike = max(0.0, 1 - single / examples.var()) ** 0.5 if examples.any() else 0.0
    draws = np.random.default_rng((seed, count, 1)).standard_t(count - 1, size=len(noise))
    return alike * examples + draws * per_seed.std(ddof=1) / count**0.5
