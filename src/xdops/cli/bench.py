"""`xdops bench layers`: what an XD-operation costs, as a multiple of the convolution it replaces."""

import json
import math
import os
import platform
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, Literal

import torch
import tyro
from rich.console import Console
from rich.progress import Progress, SpinnerColumn, TextColumn, TimeElapsedColumn
from rich.table import Table

from xdops.bench.layers import LAYERS
from xdops.bench.run import measure_layer
from xdops.errors import XDError
from xdops.operations.plan import calibrate, rates


@dataclass(frozen=True)
class Bench:
    """Time XD-operations against the convolutions they replace, side by side in one process.

    Every repetition runs each candidate once; a ratio is the median over repetitions of time over the convolution's time in the
    same repetition, with quartiles. Training is forward and backward with K, L and M learning. Close other programs first.

        xdops bench layers                              all layers, about ten minutes on two cores
        xdops bench layers --only cifar-32 jsb          some
        xdops bench layers --json bench.json            everything measured, as JSON
    """

    what: Annotated[Literal["layers"], tyro.conf.Positional]
    """what to time"""
    only: tuple[str, ...] = ()
    """names of layers, all if none are given"""
    repetitions: int = 7
    """how often each candidate runs"""
    memory: bool = True
    """measure peak memory too, each layer in a process of its own (Linux)"""
    calibrate: bool = False
    """measure this machine's rates first and plan with them"""
    json: Path | None = None
    """where to write everything"""

    def run(self) -> int:
        names = [layer.name for layer in LAYERS]
        unknown = set(self.only) - set(names)
        if unknown:
            raise XDError(f"layers {', '.join(sorted(unknown))}", f"some of {', '.join(names)}", "xdops bench layers")
        if self.repetitions < 3:
            raise XDError(f"{self.repetitions} repetitions", "at least 3, for a spread", "--repetitions 7")
        if self.json is not None and not self.json.parent.is_dir():
            raise XDError(f"--json {self.json}", f"a file in a folder that exists; {self.json.parent} does not", "mkdir it first")
        if self.calibrate:
            calibrate()
        console = Console()
        if not console.is_terminal:
            console = Console(width=140)  # a log or a file: never cut the table
        rows: list[dict[str, Any]] = []
        columns = (SpinnerColumn(), TextColumn("{task.description}"), TimeElapsedColumn())
        with Progress(*columns, console=console, transient=True) as progress:
            task = progress.add_task("")
            for layer in LAYERS:
                if not self.only or layer.name in self.only:
                    rows.append(
                        measure_layer(layer, self.repetitions, self.memory, lambda text: progress.update(task, description=text))
                    )
                    progress.console.print(_line(rows[-1]))
        summary = summarise(rows)
        console.print(layers_table(rows))
        for line in summary["text"]:
            console.print(line)
        if self.json is not None:
            written = {
                "machine": machine(),
                "repetitions": self.repetitions,
                "rates": vars(rates()),
                "layers": rows,
                "summary": summary,
            }
            self.json.write_text(json.dumps(written, indent=1) + "\n")
            console.print(f"written to {self.json}")
        return 0


def machine() -> dict[str, Any]:
    return {
        "cores": os.cpu_count(),
        "threads": torch.get_num_threads(),
        "torch": torch.__version__,
        "processor": platform.machine(),
    }


def _line(row: dict[str, Any]) -> str:
    t = row["training"]["auto"]
    return f"{row['layer']:14s} {row['plan']:9s} {t['ratio']:5.2f} x the convolution ({t['low']:.2f} to {t['high']:.2f})"


def _ratio(timings: dict[str, dict[str, float]], name: str) -> str:
    return f"{timings[name]['ratio']:.2f}" if name in timings else ""


def layers_table(rows: list[dict[str, Any]]) -> Table:
    table = Table(title="Time as a multiple of the convolution's")
    for name in (
        "layer",
        "conv ms",
        "plan",
        "training",
        "quartiles",
        "auto/best",
        "depth 3",
        "b and C",
        "frozen",
        "merged",
        "FNO",
        "memory",
    ):
        table.add_column(name, justify="left" if name in ("layer", "plan") else "right")
    for row in rows:
        training, auto = row["training"], row["training"]["auto"]
        table.add_row(
            row["layer"], f"{training['conv']['seconds'] * 1e3:.1f}", row["plan"], f"{auto['ratio']:.2f}",
            f"{auto['low']:.2f}-{auto['high']:.2f}", f"{row['auto_over_best']:.2f}", _ratio(training, "depth 3"),
            _ratio(training, "b and C"), _ratio(training, "frozen"), _ratio(row["inference"], "merged"), _ratio(training, "fno"),
            "" if row["memory_ratio"] is None else f"{row['memory_ratio']:.2f}",
        )  # fmt: skip
    return table


def geometric_mean(values: list[float]) -> float:
    return math.exp(sum(math.log(v) for v in values) / len(values))


def summarise(rows: list[dict[str, Any]]) -> dict[str, Any]:
    """The figures that the targets are about."""
    ratios = {row["layer"]: row["training"]["auto"]["ratio"] for row in rows}
    kernels = {layer.name: layer.kernel for layer in LAYERS}
    memory = [row["memory_ratio"] for row in rows if row["memory_ratio"] is not None]
    frozen = {row["layer"]: row["training"]["frozen"]["ratio"] for row in rows}
    deep = {row["layer"]: row["depth3_over_depth1"] for row in rows}
    away = {row["layer"]: row["auto_over_best"] for row in rows}
    large = {name: r for name, r in ratios.items() if kernels[name] >= 9}
    per_point = {row["layer"]: row["training"]["auto"]["seconds"] / row["size"][0] for row in rows}
    both = {"burgers-256", "burgers-8192"} <= set(per_point)
    out: dict[str, Any] = {
        "geometric_mean": geometric_mean(list(ratios.values())), "worst": max(ratios.values()),
        "worst_large_kernel": max(large.values(), default=None), "worst_frozen": max(frozen.values()),
        "worst_depth3_over_depth1": max(deep.values()), "worst_auto_over_best": max(away.values()),
        "memory_geometric_mean": geometric_mean(memory) if memory else None, "worst_memory": max(memory, default=None),
        "growth": per_point["burgers-8192"] / per_point["burgers-256"] if both else None,
    }  # fmt: skip
    wording = {
        "geometric_mean": "training, geometric mean over layers", "worst": "training, worst layer",
        "worst_large_kernel": "training, worst layer with kernel 9 or more", "worst_frozen": "frozen (warm-up), worst layer",
        "worst_depth3_over_depth1": "depth (3,3,3) over depth 1, worst", "worst_auto_over_best": "auto over best form, worst layer",
        "memory_geometric_mean": "peak memory, geometric mean", "worst_memory": "peak memory, worst layer",
        "growth": "time per point, n = 8192 over n = 256",
    }  # fmt: skip
    out["text"] = [f"{text}: {out[key]:.2f}" for key, text in wording.items() if out[key] is not None]
    return out
