"""Pairs of spaces, each example by example: by how much one is better, how sure that is, and what it costs."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from xdops.errors import several
from xdops.experiments.verdict import CONFIDENCE, ENOUGH_SEEDS, Comparison, compare
from xdops.report.summary import SpaceSummary, is_share, with_spread
from xdops.search import MeanMetric
from xdops.search.scores import Scores

#: What is compared with what, as far as it is there; the first pair is what the verdict is about.
PAIRS = (("xd", "backbone"), ("xd", "darts"), ("darts", "backbone"), ("xd", "coordinates"), ("coordinates", "backbone"))
NAMES = {"xd": "XD", "darts": "DARTS", "backbone": "the backbone", "coordinates": "the backbone that sees coordinates"}


@dataclass(frozen=True)
class Compared:
    new: SpaceSummary
    base: SpaceSummary
    found: Comparison

    @property
    def name(self) -> str:
        return f"{self.new.space} against {self.base.space}"

    @property
    def gain(self) -> float:
        """The difference, positive for the better."""
        return self.found.difference if self.base.higher_is_better else -self.found.difference

    @property
    def error_gone(self) -> float | None:
        """The part of the base's error that the new space takes away, negative if it adds to it; None if there is no error."""
        found = self.found
        error, left = (1 - found.base, 1 - found.new) if self.base.metric == "accuracy" else (found.base, found.new)
        return 1 - left / error if error > 0 else None

    @property
    def times_slower(self) -> float:
        return self.new.seconds_per_epoch / self.base.seconds_per_epoch if self.base.seconds_per_epoch else 1.0

    @property
    def times_larger(self) -> float:
        return parameters(self.new) / parameters(self.base)

    def cells(self) -> tuple[str, ...]:
        """One line of the table of comparisons."""
        found = self.found
        return (
            self.name,
            amount(found.difference, self.base.metric),
            interval(self),
            "–" if self.error_gone is None else f"{-self.error_gone:+.0%}",
            f"{examples(found.for_better)} better, {examples(found.for_worse)} worse",
            f"x {self.times_slower:.2g}",
            f"x {self.times_larger:.2g}",
        )

    def to_dict(self) -> dict[str, Any]:
        return {"new": self.new.space, "base": self.base.space, **vars(self.found), "error_gone": self.error_gone}


#: The heads of `cells`.
HEADS = ("", "difference", f"{CONFIDENCE:.0%} interval", "error", "examples", "time / epoch", "parameters")


def compare_spaces(rows: Sequence[SpaceSummary], scores: Mapping[str, Mapping[int, Scores]], metric: MeanMetric) -> list[Compared]:
    """Every pair of PAIRS whose spaces have a seed in common. scores: by space and seed."""
    by_name = {row.space: row for row in rows}
    found = []
    for new, base in PAIRS:
        both = sorted(set(scores.get(new, {})) & set(scores.get(base, {})))
        if both:
            of_base, of_new = ({seed: scores[space][seed].totals for seed in both} for space in (base, new))
            units = scores[base][both[0]].units
            comparison = compare(of_base, of_new, metric.higher_is_better, units, metric.final)
            found.append(Compared(by_name[new], by_name[base], comparison))
    return found


def verdict(compared: Sequence[Compared]) -> str:
    """Plain sentences: whether XD helped and by how much, or not, or that it cannot be told; how sure that is, and its cost."""
    new, base = PAIRS[0]
    pairs = {(pair.new.space, pair.base.space): pair for pair in compared}
    if (new, base) not in pairs:
        return f"No comparison: it takes both {base} and {new} (--spaces {base},{new})."
    first, other = pairs[new, base], pairs.get(PAIRS[1])
    placed = pairs.get(PAIRS[3])
    more = [*([beside(other)] if other else []), *([place(first, placed)] if placed else [])]
    return " ".join([judgement(first), caution(first), costs(first), *more]).replace("  ", " ")


def place(first: Compared, placed: Compared) -> str:
    """Whether knowing where each point is explains what XD has gained."""
    said = beside(placed)
    helped = first.found.sure and first.gain > 0 and len(first.found.seeds) > 1
    if helped and not (placed.found.sure and placed.gain > 0):
        return f"{said} So the gain may be no more than knowing where each point is, which coordinates tell a backbone as well."
    return f"{said} So coordinates alone do not explain the gain." if helped else said


def judgement(pair: Compared) -> str:
    name, base, found = NAMES[pair.new.space], pair.base, pair.found
    figures = f"test {base.metric} {with_spread(pair.new)} against the backbone's {with_spread(base)}"
    how_sure = f"{CONFIDENCE:.0%} interval over {sample(pair)}: {interval(pair)}"
    by = f"a difference of {amount(found.difference, base.metric)} ({how_sure})"
    single = len(found.seeds) == 1
    chance = "one seed cannot tell skill from chance: add --seeds 3."
    if not found.sure:
        return f"{name} made no clear difference: {figures}, {by}, zero included{f'; {chance}' if single else '.'}"
    if single:
        return f"{name} came out {'better' if pair.gain > 0 else 'worse'}: {figures}, {by}; but {chance}"
    if pair.gain < 0:
        return f"{name} did not help, it made things worse{within(found)}: {figures}, {by}."
    gone = "" if pair.error_gone is None else f"; {pair.error_gone:.0%} of the backbone's error is gone"
    return f"{name} helped{within(found)}: {figures}, {by}{gone}."


def within(found: Comparison) -> str:
    """What a claim is limited to, where the interval does not count other trainings."""
    count = len(found.seeds)
    if found.speaks_of_training:
        return ""
    return " in these runs" if found.agreeing == count else f" on average, but in {found.agreeing} of {count} seeds only"


def caution(pair: Compared) -> str:
    """What the interval does not speak of."""
    count = len(pair.found.seeds)
    if pair.found.speaks_of_training or count == 1:
        return ""
    few = f"{count} seeds are too few to speak of training variance"
    return f"{few}: the interval is that of these networks on other examples (--seeds {ENOUGH_SEEDS} counts other trainings)."


def costs(pair: Compared) -> str:
    better = examples(pair.found.for_better)
    return (
        f"Per pair of runs {better} {'example changes' if better == '1' else 'examples change'} for the better, "
        f"{examples(pair.found.for_worse)} for the worse; "
        f"an epoch takes {pair.times_slower:.2g} times as long ({pair.new.seconds_per_epoch:.2g} s instead of "
        f"{pair.base.seconds_per_epoch:.2g} s), and {parameters(pair.new):,} parameters are trained instead of "
        f"{parameters(pair.base):,}."
    )


def beside(pair: Compared) -> str:
    """The other space in one sentence."""
    word = "no clear difference" if not pair.found.sure else "better" if pair.gain > 0 else "worse"
    by = amount(pair.found.difference, pair.base.metric)
    return f"Against {NAMES[pair.base.space]}: {word}, {by} ({interval(pair)})."


def sample(pair: Compared) -> str:
    """What the difference was taken over; where a space has more seeds, its own figures are of all of them."""
    count, examples = len(pair.found.seeds), several(pair.found.examples, "test example")
    shared = "" if len(pair.new.test) == len(pair.base.test) == count else " that both have"
    return f"{examples} and {'the ' if shared else ''}{several(count, 'seed')}{shared}"


def interval(pair: Compared) -> str:
    metric = pair.base.metric
    return f"{amount(pair.found.low, metric).removesuffix(' points')} to {amount(pair.found.high, metric)}"


def amount(value: float, metric: str) -> str:
    return f"{100 * value:+.2f} points" if is_share(metric) else f"{value:+.3g}"


def examples(mean: float) -> str:
    """A mean over seeds: of a few examples, halves matter."""
    return f"{mean:.0f}" if mean >= 10 or mean == round(mean) else f"{mean:.1f}"


def parameters(row: SpaceSummary) -> int:
    return row.weights + row.architecture
