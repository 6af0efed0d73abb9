"""What stands in `results/` belongs to the tables as they are: a setting that is changed by accident would disown it."""

from pathlib import Path

import pytest

from xdops.errors import XDError
from xdops.reproduce.collect import read_earlier
from xdops.reproduce.earlier import line_of
from xdops.reproduce.table import SearchRow, TunedRow
from xdops.reproduce.tables import TABLES, Context, find_table

RESULTS = Path(__file__).parents[2] / "results"


@pytest.mark.parametrize("name", sorted(path.stem.removesuffix("-laptop") for path in RESULTS.glob("*-laptop.json")))
def test_every_result_belongs_to_a_row(name: str) -> None:
    assert name in TABLES
    table = find_table(name)
    earlier = read_earlier(table, "laptop", RESULTS)
    assert earlier is not None
    try:
        rows = table.rows(Context("laptop"))
    except XDError as error:
        pytest.skip(str(error))  # rows that are read from data which are not here
    run = {line["method"] + str(line["setting"]) for line in earlier["rows"] if line["mean"] is not None and not line.get("source")}
    ours = [row for row in rows if isinstance(row, SearchRow | TunedRow)]
    known = {row.method + str(dict(row.setting)) for row in ours if line_of(earlier, row) is not None}
    assert not ours or run <= known, f"settings of {sorted(run - known)} are others than those they were run with"
