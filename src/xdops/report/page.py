"""The report of a search as one HTML file that needs nothing beside itself."""

from collections.abc import Sequence
from dataclasses import dataclass
from html import escape

from xdops.report.comparisons import HEADS, Compared
from xdops.report.summary import SpaceSummary, number, seeds_of, with_spread

CSS = """
:root { --ink: #1f2937; --faint: #6b7280; --line: #e5e7eb; --accent: #1d4ed8; }
* { box-sizing: border-box; }
body { margin: 0; background: #f8fafc; color: var(--ink); font: 16px/1.55 system-ui, -apple-system,
  "Segoe UI", Roboto, "Helvetica Neue", "DejaVu Sans", sans-serif; }
main { max-width: 1120px; margin: 0 auto; padding: 40px 24px 64px; }
h1 { font-size: 28px; line-height: 1.25; margin: 0 0 6px; }
h2 { font-size: 20px; margin: 0 0 4px; }
h3 { font-size: 16px; margin: 26px 0 4px; }
p { margin: 6px 0 12px; max-width: 76ch; }
.lead { color: var(--faint); margin-bottom: 22px; max-width: none; }
section { background: #fff; border: 1px solid var(--line); border-radius: 10px; padding: 22px 26px; margin: 18px 0; }
.verdict { border-left: 6px solid var(--tone); font-size: 18px; }
.verdict p { margin: 0; max-width: none; }
table { border-collapse: collapse; width: 100%; font-variant-numeric: tabular-nums; }
th, td { text-align: right; padding: 8px 10px; border-bottom: 1px solid var(--line); white-space: nowrap; }
th { color: var(--faint); font-weight: 600; font-size: 14px; }
th:first-child, td:first-child { text-align: left; }
tr.best td { font-weight: 700; }
tr:last-child td { border-bottom: 0; }
.wide { overflow-x: auto; }
figure { margin: 14px 0 6px; }
figure img { max-width: 100%; height: auto; display: block; }
figcaption, .note { color: var(--faint); font-size: 14px; max-width: 104ch; margin-top: 6px; }
pre { background: #0f172a; color: #e2e8f0; padding: 14px 16px; border-radius: 8px; overflow-x: auto; font-size: 14px;
  line-height: 1.5; white-space: pre-wrap; overflow-wrap: anywhere; }
code { font-family: ui-monospace, SFMono-Regular, Menlo, Consolas, "DejaVu Sans Mono", monospace; }
ul { padding-left: 20px; margin: 8px 0; }
dl { display: grid; grid-template-columns: max-content 1fr; gap: 4px 20px; margin: 10px 0 0; }
dt { color: var(--faint); }
dd { margin: 0; }
@media print { body { background: #fff; } section { break-inside: avoid; } }
"""

#: The colour of the verdict: helped, hurt, neither.
TONES = {"helped": "#15803d", "did not help": "#b91c1c"}


@dataclass(frozen=True)
class Picture:
    """An <img> and what to see in it."""

    image: str
    caption: str


@dataclass(frozen=True)
class Changed:
    """A layer among those that changed most."""

    name: str
    facts: str
    pictures: tuple[Picture, ...]


@dataclass(frozen=True)
class Page:
    title: str
    verdict: str
    rows: Sequence[SpaceSummary]
    compared: Sequence[Compared]
    notes: Sequence[str]  # how the data were understood
    seeds: Picture
    curves: Picture
    novelty: Picture | None
    changed: Sequence[Changed]
    tuning: str  # HTML: what was tried and chosen, or that nothing was
    command: str
    facts: dict[str, str]  # settings worth reading

    def html(self) -> str:
        tone = next((colour for words, colour in TONES.items() if f" {words}" in self.verdict), "#64748b")
        body = [
            f"<h1>{escape(self.title)}</h1>",
            '<p class="lead">A backbone and the search spaces around it, trained alike, compared on data none of them saw.</p>',
            f'<section class="verdict" style="--tone: {tone}"><p>{escape(self.verdict)}</p></section>',
            self._results(),
            self._comparisons(),
            section("Tuning", self.tuning),
            section("Learning curves", figure(self.curves)),
            self._operations(),
            section("The data, as they were understood", listing(self.notes)),
            section("Repeat it", f"<pre><code>{escape(self.command)}</code></pre>{definitions(self.facts)}"),
        ]
        return (
            '<!doctype html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n'
            '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
            f"<title>{escape(self.title)}</title>\n<style>{CSS}</style>\n</head>\n<body>\n<main>\n"
            + "\n".join(part for part in body if part)
            + "\n</main>\n</body>\n</html>\n"
        )

    def _results(self) -> str:
        first = self.rows[0]
        best = (max if first.higher_is_better else min)(row.mean for row in self.rows)
        heads = ("space", f"test {first.metric}", "on validation", "weights", "architecture", "seconds / epoch", "novelty")
        lines = ["<tr>" + "".join(f"<th>{escape(head)}</th>" for head in heads) + "</tr>"]
        for row in self.rows:
            cells = (
                row.space,
                with_spread(row),
                number(sum(row.validation) / len(row.validation), row.metric),
                f"{row.weights:,}",
                f"{row.architecture:,}",
                f"{row.seconds_per_epoch:.2f}",
                f"{row.novelty:.3f}" if row.architecture else "–",
            )
            mark = ' class="best"' if row.mean == best else ""
            lines.append(f"<tr{mark}>" + "".join(f"<td>{escape(cell)}</td>" for cell in cells) + "</tr>")
        note = (
            f'<p class="note">Mean ± standard deviation over {seeds_of(self.rows)}; '
            f"{'higher' if first.higher_is_better else 'lower'} is better. Each network is taken at its best epoch on validation. "
            "Weights and architecture are numbers of trained parameters.</p>"
        )
        return section("Result", f'<div class="wide"><table>{"".join(lines)}</table></div>{note}{figure(self.seeds)}')

    def _comparisons(self) -> str:
        if not self.compared:
            return ""
        note = (
            '<p class="note">Every network is tested on the same examples: intervals are those of the paired difference, from '
            "a bootstrap over test examples and, with 5 seeds or more, over trainings; with fewer they speak of these networks "
            "alone. Examples are counted per pair of runs of one seed.</p>"
        )
        return section("Comparisons", table([HEADS, *(pair.cells() for pair in self.compared)]) + note)

    def _operations(self) -> str:
        parts = [figure(self.novelty)] if self.novelty else []
        for layer in self.changed:
            parts.append(f'<h3>{escape(layer.name)}</h3><p class="note">{escape(layer.facts)}</p>')
            parts += [figure(picture) for picture in layer.pictures]
        return section("What the operations became", "".join(parts)) if parts else ""


def table(lines: Sequence[Sequence[str]]) -> str:
    """The first line is the head."""
    cells = (("th" if i == 0 else "td", line) for i, line in enumerate(lines))
    rows = ("<tr>" + "".join(f"<{tag}>{escape(cell)}</{tag}>" for cell in line) + "</tr>" for tag, line in cells)
    return f'<div class="wide"><table>{"".join(rows)}</table></div>'


def section(title: str, content: str) -> str:
    return f"<section><h2>{escape(title)}</h2>{content}</section>"


def figure(picture: Picture) -> str:
    caption = f"<figcaption>{escape(picture.caption)}</figcaption>" if picture.caption else ""
    return f"<figure>{picture.image}{caption}</figure>"


def listing(items: Sequence[str]) -> str:
    return "<ul>" + "".join(f"<li>{escape(item)}</li>" for item in items) + "</ul>"


def definitions(facts: dict[str, str]) -> str:
    return "<dl>" + "".join(f"<dt>{escape(key)}</dt><dd>{escape(value)}</dd>" for key, value in facts.items()) + "</dl>"
