"""Two methods example by example: what the results of a table say about their difference."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from xdops.experiments.verdict import Comparison, compare
from xdops.report.rows import ResultLine, Results, setting
from xdops.reproduce.collect import matches


@dataclass(frozen=True)
class PairedExamples:
    """The metric of both methods on the examples that both were tested on."""

    new: str
    base: str
    where: Mapping[str, Any]
    values: Mapping[str, tuple[float, float]]  # example -> of the base, of the new

    def comparison(self, higher_is_better: bool) -> Comparison:
        base, new = ([pair[i] for pair in self.values.values()] for i in (0, 1))
        return compare({0: base}, {0: new}, higher_is_better)


def find_pair(results: Results, spec: Mapping[str, Any]) -> PairedExamples | None:
    """The pair that a figure of kind "paired" asks for, if both rows have examples."""
    new, base = (_examples(results, spec[which], spec["where"]) for which in ("new", "base"))
    both = {name: (base[name], new[name]) for name in base if name in new}
    return PairedExamples(spec["new"], spec["base"], spec["where"], both) if both else None


def pairs(results: Results) -> list[PairedExamples]:
    found = (find_pair(results, spec) for spec in results["figures"] if spec["kind"] == "paired")
    return [pair for pair in found if pair is not None]


def paired_rows(results: Results) -> list[list[str]]:
    """Per pair: what is compared, the difference with its interval, and on how many examples it goes either way."""
    lines = []
    for pair in pairs(results):
        found = pair.comparison(results["lower_is_better"] is False)
        lines.append(
            [
                f"{pair.new} - {pair.base}",
                setting(pair.where),
                f"{found.difference:+.3f}",
                f"{found.low:+.3f} to {found.high:+.3f}",
                f"{found.for_better:.0f} better, {found.for_worse:.0f} worse of {found.examples}",
            ]
        )
    return lines


def _examples(results: Results, method: str, where: Mapping[str, Any]) -> dict[str, float]:
    lines: list[ResultLine] = [
        line
        for line in results["rows"]
        if line["method"] == method and line["metric"] == results["metric"] and matches(line["setting"], where)
    ]
    return lines[0].get("examples", {}) if lines else {}
