"""`xdops bench`: what an XD-operation costs, as a multiple of the convolution it replaces."""

import json
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Annotated, Any

import tyro
from rich.console import Console
from rich.progress import Progress, SpinnerColumn, TextColumn, TimeElapsedColumn
from rich.table import Table

from xdops.bench import compiling, layers, networks, sequences, sweep
from xdops.bench.run import measure_layer
from xdops.bench.summary import summarise
from xdops.cli import terminal
from xdops.cli.measured import check_json
from xdops.engine import kernels
from xdops.engine.machine import measured_rates, rates
from xdops.errors import XDError, several
from xdops.measuring.machine import machine_facts
from xdops.report.performance import LAYERS, NETWORKS, SWEEP, check_page, write_document
from xdops.storage.documents import with_digest
from xdops.storage.files import write_file

#: Of all layers about a day on two cores.
MOST_REPETITIONS = 1000
MOST_EXAMPLES = 4096


@dataclass(frozen=True)
class Layers:
    """Time XD-operations against the convolutions they replace, side by side in one process, and say which targets are met.

    Every repetition runs each candidate once; a ratio is the median over repetitions of time over the convolution's time in the
    same repetition, with quartiles. Training is forward and backward with K, L and M learning. Close other programs first.

        xdops bench layers                              all layers, up to a minute each on two cores
        xdops bench layers --only cifar-32 jsb          some
        xdops bench layers --json bench.json            everything measured, as JSON
    """

    only: tuple[str, ...] = ()
    """names of layers, all if none are given"""
    repetitions: int = 7
    """how many times each candidate runs; three times, at most, if it takes long"""
    memory: bool = True
    """measure peak memory too, each layer in a process of its own (Linux)"""
    json: Path | None = None
    """where to write everything"""

    def run(self) -> int:
        names = [layer.name for layer in layers.LAYERS]
        unknown = set(self.only) - set(names)
        if unknown:
            raise XDError(f"layers {', '.join(sorted(unknown))}", f"some of {', '.join(names)}", "xdops bench layers")
        _check(self.repetitions, self.json)
        console, rows = _console(), []
        _say_rates(console)
        with _progress(console) as tick:
            for layer in layers.LAYERS:
                if not self.only or layer.name in self.only:
                    rows.append(measure_layer(layer, self.repetitions, self.memory, tick))
                    console.print(_line(rows[-1]))
        summary = summarise(rows)
        console.print(layers_table(rows))
        for line in summary["text"]:
            console.print(line)
        _write(console, self.json, self.repetitions, {"layers": rows, "summary": summary})
        return 0


@dataclass(frozen=True)
class Sweep:
    """Every form's training step against the convolution's as the grid grows.

    xdops bench sweep --json sweep.json             about a minute on two cores
    """

    repetitions: int = 7
    """how many times each candidate runs"""
    json: Path | None = None
    """where to write everything"""

    def run(self) -> int:
        _check(self.repetitions, self.json)
        console, points = _console(), []
        _say_rates(console)
        with _progress(console) as tick:
            for n in sweep.SIZES:
                tick(f"n = {n}")
                points.append(sweep.measure_point(sweep.layer_of(n), self.repetitions))
                forms = {form: t["ratio"] for form, t in points[-1]["training"].items() if form != "conv"}
                console.print(f"n = {n}: " + ", ".join(f"{form} {ratio:.2f}" for form, ratio in forms.items()))
        _write(console, self.json, self.repetitions, {"points": points})
        return 0


@dataclass(frozen=True)
class Networks:
    """A training step and the peak memory of whole networks: convolutions, XD-operations in both domains and, for PDEs, FNO.

    xdops bench networks                            all networks, about twenty minutes on two cores
    xdops bench networks --only lenet burgers-1024  some
    xdops bench networks --only wrn-40-4 --batch 32    what a larger batch takes
    """

    only: tuple[str, ...] = ()
    """names of networks, all if none are given"""
    batch: Annotated[int | None, tyro.conf.arg(metavar="INT", help_behavior_hint="")] = None
    """examples of a step, instead of each network's own number"""
    repetitions: int = 3
    """how many times each candidate runs"""
    memory: bool = True
    """measure peak memory too, each network in a process of its own (Linux)"""
    json: Path | None = None
    """where to write everything"""

    def run(self) -> int:
        names = [network.name for network in networks.NETWORKS]
        if unknown := set(self.only) - set(names):
            raise XDError(f"networks {', '.join(sorted(unknown))}", f"some of {', '.join(names)}", "xdops bench networks")
        if self.batch is not None and not 1 <= self.batch <= MOST_EXAMPLES:
            raise XDError(f"--batch {self.batch}", f"from 1 to {MOST_EXAMPLES:,}", "--batch 16")
        _check(self.repetitions, self.json)
        console, rows = _console(), []
        _say_rates(console)
        with _progress(console) as tick:
            for network in networks.NETWORKS:
                if not self.only or network.name in self.only:
                    network = replace(network, batch=self.batch or network.batch)
                    tick(network.name)
                    rows.append(networks.measure_network(network, self.repetitions, self.memory))
        console.print(networks_table(rows))
        _write(console, self.json, self.repetitions, {"networks": rows})
        return 0


@dataclass(frozen=True)
class Sequences:
    """Time a training step of searched sequence networks, in every way to be causal, against the TCN's, on random data.

    xdops bench sequences --json sequences.json     about a minute
    """

    only: tuple[str, ...] = ()
    """jsb (the paper's network for music) or pmnist (for digits, batches of 64, depth 3, not causal); both if none are given"""
    repetitions: int = 7
    """how many times each candidate runs"""
    json: Path | None = None
    """where to write everything"""

    def run(self) -> int:
        unknown = set(self.only) - set(sequences.LIMITS)
        if unknown:
            raise XDError(f"networks {', '.join(sorted(unknown))}", f"some of {', '.join(sequences.LIMITS)}", "--only jsb")
        _check(self.repetitions, self.json)
        console = _console()
        with _progress(console) as tick:
            measured = {case: sequences.measure(case, self.repetitions, tick) for case in self.only or sequences.LIMITS}
        for line in sequences.lines(measured):
            console.print(line, highlight=False)
        _write(console, self.json, self.repetitions, {"networks": measured})
        return 0


@dataclass(frozen=True)
class Compile:
    """Time the first step, forward and backward, of a compiled network of two convolutions and of the same network converted.

    xdops bench compile --json compile.json         about two minutes; inductor needs a C++ compiler
    """

    backends: tuple[str, ...] = compiling.BACKENDS
    """of torch.compile: aot_eager, inductor or both"""
    repetitions: int = 3
    """how many times each network is compiled"""
    json: Path | None = None
    """where to write everything"""

    def run(self) -> int:
        unknown = set(self.backends) - set(compiling.BACKENDS)
        if unknown or not self.backends:
            given = ", ".join(sorted(unknown)) or "none"
            raise XDError(f"--backends {given}", f"some of {', '.join(compiling.BACKENDS)}", "--backends aot_eager")
        _check(self.repetitions, self.json)
        console = _console()
        with _progress(console) as tick:
            measured = {name: compiling.measure_compiling(name, self.repetitions, tick) for name in self.backends}
        console.print(compile_table(measured))
        _write(console, self.json, self.repetitions, {"compiling": measured})
        return 0


@dataclass(frozen=True)
class Document:
    """Fill the measured blocks of the performance page, and draw its picture beside it, from what was measured.

    xdops bench document --data docs/data --out docs/performance.md
    xdops bench document --data docs/data --out docs/performance.md --measure       a quarter of an hour on two cores
    """

    data: Path
    """the folder of what `xdops bench layers`, `sweep` and `networks` wrote, bench-layers.json and so on"""
    out: Path
    """the page, which has a block for every part that is measured"""
    measure: bool = False
    """measure everything first, and write it into the folder"""

    def run(self) -> int:
        if self.measure:
            check_page(self.out)
            Layers(json=self.data / LAYERS).run()
            Sweep(repetitions=5, json=self.data / SWEEP).run()
            Networks(repetitions=3, memory=False, json=self.data / NETWORKS).run()
        for path in write_document(self.data, self.out):
            print(f"written to {path}")
        return 0


#: `xdops bench layers | networks | sweep | sequences | compile | document`.
Bench = (
    Annotated[Layers, tyro.conf.subcommand("layers")]
    | Annotated[Networks, tyro.conf.subcommand("networks")]
    | Annotated[Sweep, tyro.conf.subcommand("sweep")]
    | Annotated[Sequences, tyro.conf.subcommand("sequences")]
    | Annotated[Compile, tyro.conf.subcommand("compile")]
    | Annotated[Document, tyro.conf.subcommand("document")]
)


def _say_rates(console: Console) -> None:
    have = "compiled kernels" if kernels.installed() else "no compiled kernels (pip install 'xdops[kernels]')"
    console.print(f"{have}; planned with {rates()}; measured here: {measured_rates()}", highlight=False)


def _check(repetitions: int, target: Path | None) -> None:
    if not 3 <= repetitions <= MOST_REPETITIONS:
        raise XDError(
            several(repetitions, "repetition"), f"at least 3, for a spread, at most {MOST_REPETITIONS:,}", "--repetitions 7"
        )
    check_json(target, "xdops bench")


def _console() -> Console:
    console = terminal.console()
    return console if console.is_terminal else terminal.console(width=140)  # a log or a file: never cut the table


@contextmanager
def _progress(console: Console) -> Iterator[Callable[[str], None]]:
    """A line that says what is being measured, by calling what this yields."""
    columns = (SpinnerColumn(), TextColumn("{task.description}"), TimeElapsedColumn())
    with Progress(*columns, console=console, transient=True) as progress:
        task = progress.add_task("")
        yield lambda text: progress.update(task, description=text)


def _write(console: Console, target: Path | None, repetitions: int, measured: dict[str, Any]) -> None:
    if target is None:
        return
    written = {"machine": machine_facts(), "repetitions": repetitions, "rates": vars(rates()), **measured}
    write_file(target, (json.dumps(with_digest(written), indent=1) + "\n").encode())
    console.print(f"written to {target}")


def _line(row: dict[str, Any]) -> str:
    t = row["training"]["auto"]
    return f"{row['layer']:14s} {row['plan']:9s} {t['ratio']:5.2f} x the convolution ({t['low']:.2f} to {t['high']:.2f})"


def _ratio(timings: dict[str, dict[str, float]], name: str) -> str:
    return f"{timings[name]['ratio']:.2f}" if name in timings else ""


def networks_table(rows: list[dict[str, Any]]) -> Table:
    table = Table(title="A training step: milliseconds with convolutions, the others as multiples of it; peak memory in MiB")
    table.add_column("network")
    for name in ("batch", "conv ms", *networks.KINDS[1:], *(f"{kind} MiB" for kind in networks.KINDS)):
        table.add_column(name, justify="right")
    for row in rows:
        memory = {kind: used for kind, used in row["memory"].items() if used is not None}
        table.add_row(
            row["network"],
            str(row["batch"]),
            f"{row['training']['conv']['seconds'] * 1e3:.0f}",
            *(_ratio(row["training"], kind) for kind in networks.KINDS[1:]),
            *(f"{memory[kind] / 2**20:.0f}" if kind in memory else "" for kind in networks.KINDS),
        )
    return table


def layers_table(rows: list[dict[str, Any]]) -> Table:
    table = Table(title="Time as a multiple of the convolution's")
    training = {"half": "auto", "no kernels": "no kernels", "full": "full", "depth 3": "depth 3", "frozen": "frozen", "FNO": "fno"}
    for name in ("layer", "plan", "conv ms", *training, "merged", "auto/best", "memory"):
        table.add_column(name, justify="left" if name in ("layer", "plan") else "right")
    for row in rows:
        table.add_row(
            row["layer"], row["plan"], f"{row['training']['conv']['seconds'] * 1e3:.1f}",
            *(_ratio(row["training"], key) for key in training.values()), _ratio(row["inference"], "merged"),
            f"{row['auto_over_best']:.2f}", "" if row["memory_ratio"] is None else f"{row['memory_ratio']:.2f}",
        )  # fmt: skip
    return table


def compile_table(measured: dict[str, dict[str, dict[str, float]]]) -> Table:
    table = Table(title="Two convolutions, torch.compile: seconds of the first step, milliseconds of later ones")
    table.add_column("network")
    for backend in measured:
        for name in (f"{backend}, first s", f"{backend}, later ms"):
            table.add_column(name, justify="right")
    for network in next(iter(measured.values())):
        steps = [found[network] for found in measured.values()]
        table.add_row(network, *(text for s in steps for text in (f"{s['first']:.1f}", f"{s['later'] * 1e3:.1f}")))
    return table
