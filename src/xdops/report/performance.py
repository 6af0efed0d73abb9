"""The measured parts of docs/performance.md: a table, a picture and lines, made from what `xdops bench` wrote and nothing else.

The page is written by hand around blocks `<!-- measured NAME -->` ... `<!-- end NAME -->`, which this module fills.
"""

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from xdops.bench import layers
from xdops.bench.counts import counts
from xdops.bench.summary import TARGETS, geometric_mean
from xdops.errors import XDError
from xdops.report.performance_plot import draw
from xdops.report.texts import check_names
from xdops.storage.documents import read_json, understood, without_digest
from xdops.storage.files import check_target, write_file

BLOCK = re.compile(r"(<!-- measured (?P<name>[\w-]+) -->\n).*?(<!-- end (?P=name) -->)", re.DOTALL)

#: What `xdops bench` wrote into one folder.
LAYERS, SWEEP, NETWORKS = "bench-layers.json", "bench-sweep.json", "bench-networks.json"


@dataclass(frozen=True)
class Measured:
    """The three measurements, and the name of the picture."""

    layers: dict[str, Any]
    sweep: dict[str, Any]
    networks: dict[str, Any]
    picture: str


def write_document(data: Path, page: Path) -> list[Path]:
    """Fill the page's blocks and draw its picture from the measurements in a folder; returns what was written."""
    run = _read(data / LAYERS, {"machine", "repetitions", "rates", "layers"}, "xdops bench layers --json")
    sweep = _read(data / SWEEP, {"machine", "repetitions", "points"}, "xdops bench sweep --json")
    networks = _read(data / NETWORKS, {"machine", "repetitions", "networks"}, "xdops bench networks --json")
    known = {layer.name for layer in layers.LAYERS}
    with understood(data / LAYERS, hint="measure again"):
        unknown = {row["layer"] for row in run["layers"]} - known
    if unknown:
        raise XDError(
            f"layers {', '.join(sorted(unknown))} in {data / LAYERS}", f"some of {', '.join(sorted(known))}", "measure again"
        )
    text = check_page(page)
    picture = page.with_suffix(".png")
    with understood(data, "what `xdops bench` wrote", "measure again"):
        measured = Measured(run, sweep, networks, picture.name)
        filled = BLOCK.sub(lambda m: m[1] + BLOCKS[m["name"]](measured).rstrip() + "\n" + m[3], text)
        drawn = draw(sweep["points"])
    write_file(page, filled.encode())
    write_file(picture, drawn)
    return [page, picture]


def check_page(page: Path) -> str:
    """The text of a page that has exactly our blocks, and room for a picture beside it."""
    if not page.is_file():
        raise XDError(f"--out {page}", "a page with blocks to fill, which exists", "--out docs/performance.md")
    with understood(page, "a page with blocks to fill", "--out docs/performance.md"):
        text = page.read_text(encoding="utf-8")
    found = {match["name"] for match in BLOCK.finditer(text)}
    if found != set(BLOCKS):
        wanted = ", ".join(f"<!-- measured {name} --> ... <!-- end {name} -->" for name in BLOCKS)
        raise XDError(f"{page} with blocks {', '.join(sorted(found)) or 'none'}", wanted, "add or remove blocks")
    check_target(page.with_suffix(".png"))
    return text


def _read(path: Path, keys: set[str], command: str) -> dict[str, Any]:
    if not path.is_file():
        raise XDError(f"{path}, which is not a file", f"what `{command} {path}` writes", f"run {command} {path}")
    read = without_digest(path, read_json(path, f"what `{command} {path}` writes", "write it again"))
    with understood(path, f"what `{command} {path}` writes", "write it again"):
        check_names(read)
    if not keys <= set(read):
        raise XDError(f"{path} without {', '.join(sorted(keys))}", f"what `{command} {path}` writes", "write it again")
    return read


def _table(head: Sequence[str], rows: Sequence[Sequence[str]], left: int = 1) -> str:
    """Markdown; all but the first `left` columns are numbers."""
    rule = ["---" if i < left else "---:" for i in range(len(head))]
    return "\n".join("| " + " | ".join(cells) + " |" for cells in (head, rule, *rows)) + "\n"


def _number(value: float | None, digits: int = 2) -> str:
    return "" if value is None else f"{value:.{digits}f}"


def _machine(run: dict[str, Any]) -> str:
    m = run["machine"]
    return f"{m['processor']}, {m['cores']} cores, {m['threads']} threads, torch {m['torch']}, {run['repetitions']} repetitions"


def conditions(measured: Measured) -> str:
    r = measured.layers["rates"]
    return (
        f"{_machine(measured.layers)}. Rates planned with: products {r['gemm'] / 1e9:.3g} Gflop/s, compiled kernels "
        f"{r['kernel'] / 1e9:.3g} Gflop/s, memory {r['memory'] / 1e9:.3g} GB/s, {r['call'] * 1e6:.3g} µs per call, "
        f"half rate at blocks of {r['half']:.3g}. {_otherwise(measured.layers['layers'])}\n"
    )


def _otherwise(rows: Sequence[dict[str, Any]]) -> str:
    changed = [f"{row['layer']} ({row['plan_by_measured_rates']})" for row in rows if row["plan_by_measured_rates"] != row["plan"]]
    if not changed:
        return "With the rates measured on this machine every layer would be planned alike."
    some = f"{len(changed)} of {len(rows)} layers"
    return f"With the rates measured on this machine {some} would be planned otherwise: {', '.join(changed)}."


def targets(measured: Measured) -> str:
    rows = measured.layers["layers"]
    lines = []
    for target in TARGETS:
        figure = target.figure(rows)
        verdict = "not measured" if figure is None else "met" if target.met(figure) else "not met"
        above = ", ".join(f"{name} {value:.2f}" for name, value in target.above(rows).items())
        number, limit = _number(figure), f"{target.limit:g}{' or more' if target.at_least else ''}"
        lines.append(f"- {target.text}: **{number or 'none'}**, target {limit}: {verdict}{'; ' + above if above else ''}")
    return "\n".join(lines) + "\n"


def layer_table(measured: Measured) -> str:
    """The one table: times as multiples of the convolution's, and beside them the same ratio of operation counts."""
    head = ["layer", "plan", "conv ms", "half", "quartiles", "no kernels", "full", "full, no kernels", "depth 3", "frozen",
            "merged", "FNO", "auto/best", "memory", "flops", "K and M", "fewest"]  # fmt: skip
    by_name = {layer.name: layer for layer in layers.LAYERS}
    lines, ratios = [], []
    for row in measured.layers["layers"]:
        t, auto = row["training"], row["training"]["auto"]
        c = counts(by_name[row["layer"]], row["plan"])
        ratios.append((auto["ratio"], t["full"]["ratio"], c.ratio, c.fewest / c.conv))
        timed = [_number(t[name]["ratio"]) for name in ("no kernels", "full", "full, no kernels", "depth 3", "frozen")]
        lines.append(
            [row["layer"], row["plan"], _number(t["conv"]["seconds"] * 1e3, 1), f"**{auto['ratio']:.2f}**",
             f"{auto['low']:.2f} to {auto['high']:.2f}", *timed, _number(row["inference"]["merged"]["ratio"]),
             _number(t["fno"]["ratio"] if "fno" in t else None), _number(row["auto_over_best"]), _number(row["memory_ratio"]),
             _number(c.ratio), _number(c.matrices / c.conv), f"{c.fewest / c.conv:.2f} {c.fewest_form}"]
        )  # fmt: skip
    half, full, flops, fewest = (_number(geometric_mean(values)) for values in zip(*ratios, strict=True))
    lines.append(["geometric mean", "", "", f"**{half}**", "", "", full, *[""] * 7, flops, "", fewest])
    return _table(head, lines, left=2)


def profile(measured: Measured) -> str:
    """Where time goes: rates of the convolution and of the operation, each by its own count, and shares of the latter's time."""
    kinds = ["kernels", "products", "batched products", "elementwise", "copies", "calls and rest"]
    by_name = {layer.name: layer for layer in layers.LAYERS}
    lines = []
    for row in measured.layers["layers"]:
        c, t = counts(by_name[row["layer"]], row["plan"]), row["training"]
        rates = [_number(flops / t[what]["seconds"] / 1e9, 0) for what, flops in (("conv", c.conv), ("auto", c.plan))]
        lines.append([row["layer"], *rates, *(f"{100 * row['profile'].get(kind, 0):.0f}%" for kind in kinds)])
    return _table(["layer", "conv Gflop/s", "XD Gflop/s", *kinds], lines)


def picture(measured: Measured) -> str:
    return f"![Ratio of a training step to the convolution's against size, for every form]({measured.picture})\n"


def network_lines(measured: Measured) -> str:
    lines = []
    for row in measured.networks["networks"]:
        t, batch = row["training"], row["batch"]
        fno = f", FNO {t['fno']['ratio']:.2f}" if "fno" in t else ""
        lines.append(
            f"- {row['network']} (batch {batch}): {t['conv']['seconds'] * 1e3:.0f} ms with convolutions; "
            f"XD {t['xd half']['ratio']:.2f} times that in half the domain, {t['xd full']['ratio']:.2f} in the full one{fno}"
        )
    return "\n".join(lines) + "\n"


#: The page has exactly these blocks; a new one is one function and one line here.
BLOCKS: dict[str, Callable[[Measured], str]] = {
    "conditions": conditions,
    "targets": targets,
    "layers": layer_table,
    "profile": profile,
    "sizes": picture,
    "networks": network_lines,
}
