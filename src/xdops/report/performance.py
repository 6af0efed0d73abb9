"""The measured parts of docs/performance.md: tables and a picture, made from what `xdops bench` wrote and nothing else.

The page is written by hand around blocks `<!-- measured NAME -->` ... `<!-- end NAME -->`, which this module fills.
"""

import re
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from xdops.bench import layers
from xdops.bench.counts import causal_counts, counts
from xdops.bench.summary import GROWTH_LIMIT, GROWTH_TEXT, TARGETS, Row, geometric_mean, growth
from xdops.errors import XDError
from xdops.report.performance_plot import draw
from xdops.storage.documents import read_json, understood
from xdops.storage.files import check_target, write_file

#: Measured in training beside the forms.
NOT_FORMS = ("conv", "auto", "depth 3", "b and C", "frozen", "fno")

BLOCK = re.compile(r"(<!-- measured (?P<name>[\w-]+) -->\n).*?(<!-- end (?P=name) -->)", re.DOTALL)


def write_document(layers_json: Path, sweep_json: Path, page: Path) -> list[Path]:
    """Fill the page's blocks and draw its picture; returns what was written."""
    run = _read(layers_json, {"machine", "repetitions", "rates", "layers"}, "xdops bench layers --json")
    sweep = _read(sweep_json, {"machine", "repetitions", "lines"}, "xdops bench sweep --json")
    known = {layer.name for layer in layers.LAYERS}
    with understood(layers_json, hint="measure again"):
        unknown = {row["layer"] for row in run["layers"]} - known
    if unknown:
        raise XDError(
            f"layers {', '.join(sorted(unknown))} in {layers_json}", f"some of {', '.join(sorted(known))}", "measure again"
        )
    if not page.is_file():
        raise XDError(f"--out {page}", "a page with blocks to fill, which exists", "--out docs/performance.md")
    with understood(page, "a page with blocks to fill", "--out docs/performance.md"):
        text = page.read_text(encoding="utf-8")
    found = {match["name"] for match in BLOCK.finditer(text)}
    if found != set(BLOCKS):
        wanted = ", ".join(f"<!-- measured {name} --> ... <!-- end {name} -->" for name in BLOCKS)
        raise XDError(f"{page} with blocks {', '.join(sorted(found)) or 'none'}", wanted, "add or remove blocks")
    picture = page.with_suffix(".png")
    check_target(picture)
    with understood(Path(f"{layers_json} or {sweep_json}"), "what `xdops bench` wrote", "measure again"):
        filled = BLOCK.sub(lambda m: m[1] + BLOCKS[m["name"]](run, sweep, picture.name).rstrip() + "\n" + m[3], text)
        drawn = draw(sweep["lines"])
    write_file(page, filled.encode())
    write_file(picture, drawn)
    return [page, picture]


def _read(path: Path, keys: set[str], command: str) -> dict[str, Any]:
    if not path.is_file():
        raise XDError(f"{path}, which is not a file", f"what `{command} {path}` writes", f"run {command} {path}")
    read = read_json(path, f"what `{command} {path}` writes", "write it again")
    if not keys <= set(read):
        raise XDError(f"{path} without {', '.join(sorted(keys))}", f"what `{command} {path}` writes", "write it again")
    return read


def _table(head: Sequence[str], rows: Sequence[Sequence[str]], left: int = 1) -> str:
    """Markdown; all but the first `left` columns are numbers."""
    rule = ["---" if i < left else "---:" for i in range(len(head))]
    return "\n".join("| " + " | ".join(cells) + " |" for cells in (head, rule, *rows)) + "\n"


def _number(value: float | None, digits: int = 2) -> str:
    return "" if value is None else f"{value:.{digits}f}"


def _three(value: float) -> str:
    """Three figures, without an exponent."""
    return f"{float(f'{value:.3g}'):.10g}"


def _machine(run: dict[str, Any]) -> str:
    m = run["machine"]
    return f"{m['processor']}, {m['cores']} cores, {m['threads']} threads, torch {m['torch']}, {run['repetitions']} repetitions"


def conditions(run: dict[str, Any], sweep: dict[str, Any], picture: str) -> str:
    r = run["rates"]
    return (
        f"Layers: {_machine(run)}.\nSweep: {_machine(sweep)}.\n"
        f"Rates planned with: products {r['gemm'] / 1e9:.3g} Gflop/s, memory {r['memory'] / 1e9:.3g} GB/s, "
        f"{r['call'] * 1e6:.3g} µs per call, half rate at blocks of {r['half']:.3g}.\n"
    )


def targets(run: dict[str, Any], sweep: dict[str, Any], picture: str) -> str:
    rows: list[Row] = run["layers"]
    lines = []
    for target in TARGETS:
        figure, values = target.figure(rows), target.values(rows)
        over = sorted((name for name, v in values.items() if v > target.limit), key=lambda name: -values[name])
        listed = "" if target.mean else ", ".join(f"{name} {values[name]:.2f}" for name in over)
        lines.append([target.text, _verdict(figure, target.limit), listed, _number(figure), _number(target.limit)])
    grown = growth(rows)
    lines.append([GROWTH_TEXT, _verdict(grown, GROWTH_LIMIT), "", _number(grown), _number(GROWTH_LIMIT)])
    return _table(["figure", "", "layers above", "measured", "target"], lines, left=3)


def _verdict(figure: float | None, limit: float) -> str:
    if figure is None:
        return "not measured"
    return "met" if figure <= limit else "not met"


def layer_table(run: dict[str, Any], sweep: dict[str, Any], picture: str) -> str:
    head = ["layer", "plan", "conv ms", "training", "quartiles", "auto/best", "depth 3", "b and C", "frozen",
            "merged", "FNO", "memory", "memory MiB"]  # fmt: skip
    lines = []
    for row in run["layers"]:
        t, auto = row["training"], row["training"]["auto"]
        used = row["memory"]
        mib = "" if row["memory_ratio"] is None else f"{used['xd'] / 2**20:.0f} / {used['conv'] / 2**20:.0f}"
        lines.append(
            [row["layer"], row["plan"], _number(t["conv"]["seconds"] * 1e3, 1), f"**{auto['ratio']:.2f}**",
             f"{auto['low']:.2f} to {auto['high']:.2f}", _number(row["auto_over_best"]),
             *(_number(t[name]["ratio"] if name in t else None) for name in ("depth 3", "b and C", "frozen")),
             _number(row["inference"]["merged"]["ratio"]), _number(t["fno"]["ratio"] if "fno" in t else None),
             _number(row["memory_ratio"]), mib]
        )  # fmt: skip
    return _table(head, lines, left=2)


def form_table(run: dict[str, Any], sweep: dict[str, Any], picture: str) -> str:
    """Milliseconds of a training step by form; the chosen one, measured as `auto`, in bold."""
    rows = run["layers"]
    forms = list(dict.fromkeys(f for row in rows for f in (row["plan"], *row["training"]) if f not in NOT_FORMS))
    lines = []
    for row in rows:
        t = row["training"]
        cells = []
        for form in forms:
            if form == row["plan"]:
                cells.append(f"**{t['auto']['seconds'] * 1e3:.1f}**")
            else:
                cells.append(_number(t[form]["seconds"] * 1e3, 1) if form in t else "")
        lines.append([row["layer"], _number(t["conv"]["seconds"] * 1e3, 1), *cells])
    return _table(["layer", "convolution", *forms], lines)


def count_table(run: dict[str, Any], sweep: dict[str, Any], picture: str) -> str:
    by_name = {layer.name: layer for layer in layers.LAYERS}
    lines, ratios = [], []
    for row in run["layers"]:
        c = counts(by_name[row["layer"]], row["plan"])
        ratios.append((c.ratio, c.fewest / c.conv, row["training"]["auto"]["ratio"]))
        lines.append(
            [row["layer"], row["plan"], _three(c.conv / 1e6), _three(c.plan / 1e6), f"**{c.ratio:.2f}**",
             _number(c.matrices / c.conv), f"{c.fewest / c.conv:.2f} {c.fewest_form}", _number(row["training"]["auto"]["ratio"])]
        )  # fmt: skip
    chosen, fewest, time = (_number(geometric_mean(values)) for values in zip(*ratios, strict=True))
    lines.append(["geometric mean", "", "", "", f"**{chosen}**", "", fewest, time])
    head = [
        "layer",
        "plan",
        "conv Mflop",
        "plan Mflop",
        "flops ratio",
        "K and M alone",
        "fewest of all forms",
        "measured time ratio",
    ]
    return _table(head, lines, left=2)


def profile_table(run: dict[str, Any], sweep: dict[str, Any], picture: str) -> str:
    """Shares of a training step's time, by kind of work."""
    kinds = list(run["layers"][0]["profile"]) if run["layers"] else []
    lines = [[row["layer"], row["plan"], *(f"{100 * row['profile'][kind]:.0f}%" for kind in kinds)] for row in run["layers"]]
    return _table(["layer", "plan", *kinds], lines, left=2)


def causal_table(run: dict[str, Any], sweep: dict[str, Any], picture: str) -> str:
    measured = {row["layer"]: row for row in run["layers"]}
    lines = []
    for layer in layers.LAYERS:
        if layer.causal and (row := measured.get(layer.name)) is not None:
            c = causal_counts(layer, row["plan"])
            columns = f"{layer.batch} x {layer.channels[0]}"
            parts = [_three(flops / 1e6) for flops in (c.conv, c.build, c.apply, c.mix)]
            lines.append(
                [layer.name, str(layer.size[0]), str(layer.kernel), columns, *parts, f"**{c.ratio:.2f}**",
                 _number(row["training"]["auto"]["ratio"])]
            )  # fmt: skip
    head = [
        "layer",
        "n",
        "k",
        "columns",
        "conv Mflop",
        "build Mflop",
        "apply Mflop",
        "mix Mflop",
        "flops ratio",
        "measured time ratio",
    ]
    return _table(head, lines)


def sweep_tables(run: dict[str, Any], sweep: dict[str, Any], picture: str) -> str:
    titles = {"size": "n", "kernel 1d": "kernel", "kernel 2d": "kernel"}
    out = [f"![Ratio of an XD-operation's training step to the convolution's, against size and kernel]({picture})\n"]
    for line, points in sweep["lines"].items():
        key = titles[line]
        p = points[0]
        fixed = f"kernel {p['kernel']}" if key == "n" else f"n = {'x'.join([str(p['n'])] * p['dims'])}"
        out.append(f"{p['dims']}d, {fixed}, batch {p['batch']}, {p['channels']} channels, circular:\n")
        lines = [
            [str(p[key]), p["plan"], _number(p["conv"]["seconds"] * 1e3, 1), _number(p["auto"]["seconds"] * 1e3, 1),
             f"**{p['auto']['ratio']:.2f}**", f"{p['auto']['low']:.2f} to {p['auto']['high']:.2f}"]
            for p in points
        ]  # fmt: skip
        out.append(_table([key, "plan", "conv ms", "XD ms", "ratio", "quartiles"], lines, left=2))
    return "\n".join(out)


#: The page has exactly these blocks; a new one is one function and one line here.
BLOCKS: dict[str, Callable[[dict[str, Any], dict[str, Any], str], str]] = {
    "conditions": conditions,
    "targets": targets,
    "layers": layer_table,
    "forms": form_table,
    "counts": count_table,
    "profile": profile_table,
    "causal": causal_table,
    "sweep": sweep_tables,
}
