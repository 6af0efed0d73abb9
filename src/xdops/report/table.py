"""The tables of a search, for the terminal."""

from collections.abc import Mapping, Sequence

from rich import box
from rich.table import Table

from xdops.experiments.tuning import Tuned
from xdops.report.comparisons import HEADS, Compared
from xdops.report.summary import SpaceSummary, number, seeds_of, with_spread
from xdops.report.tuning import HEADS as TUNING_HEADS
from xdops.report.tuning import tuning_lines


def comparison_table(compared: Sequence[Compared]) -> Table:
    """Pairs of spaces, example by example."""
    return plain_table("paired over test examples and seeds", HEADS, [pair.cells() for pair in compared])


def tuning_table(tuned: Mapping[str, Tuned], metric: str) -> Table:
    return plain_table("tuned on validation, with the same budget", TUNING_HEADS, tuning_lines(tuned, metric))


def plain_table(title: str, heads: Sequence[str], lines: Sequence[Sequence[str]]) -> Table:
    table = Table(title=title, box=box.SIMPLE_HEAD, pad_edge=False, collapse_padding=True)
    for i, head in enumerate(heads):
        table.add_column(head, justify="right" if i else "left")
    for line in lines:
        table.add_row(*line)
    return table


def terminal_table(rows: Sequence[SpaceSummary], title: str) -> Table:
    arrow = "higher is better" if rows[0].higher_is_better else "lower is better"
    caption = f"mean ± standard deviation over {seeds_of(rows)}; {arrow}"
    table = Table(title=title, caption=caption, box=box.SIMPLE_HEAD, pad_edge=False, collapse_padding=True)
    table.add_column("space")
    table.add_column(f"test {rows[0].metric}", justify="right", no_wrap=True)
    for head in ("validation", "weights", "architecture", "s/epoch", "novelty"):
        table.add_column(head, justify="right")
    best = (max if rows[0].higher_is_better else min)(row.mean for row in rows)
    for row in rows:
        cells = [
            with_spread(row),
            number(sum(row.validation) / len(row.validation), row.metric),
            f"{row.weights:,}",
            f"{row.architecture:,}",
            f"{row.seconds_per_epoch:.2f}",
            f"{row.novelty:.3f}" if row.architecture else "-",
        ]
        table.add_row(row.space, *cells, style="bold" if row.mean == best else None)
    return table
