"""Music, and all sequences: TCNs dilated and not, each as it is and searched, beside what others have published."""

import dataclasses
from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

from xdops.reproduce.sequences.networks import build_network
from xdops.reproduce.sequences.presets import JSB, MNIST, NOTTINGHAM, PRESETS, TREEBANK, Preset
from xdops.reproduce.sequences.problems import make_problem
from xdops.reproduce.table import Context, CurvesFigure, Prepared, Row, SearchRow, Table, chosen_among, quoted, with_the_rest

#: What is reported of each data set.
REPORTED = {JSB: "loss", NOTTINGHAM: "loss", MNIST: "error %", TREEBANK: "perplexity"}

#: The paper's own figures (Table 13; Table 3 has 3.23 for the undilated TCN on Nottingham), then those of others that it lists.
PAPER: dict[str, dict[str, float]] = {
    "undilated TCN": {MNIST: 11.3, JSB: 8.16, NOTTINGHAM: 3.21, TREEBANK: 94.30},
    "undilated TCN XD": {MNIST: 1.77, JSB: 8.07, NOTTINGHAM: 2.84, TREEBANK: 85.04},
    "TCN": {MNIST: 2.89, JSB: 8.17, NOTTINGHAM: 2.97, TREEBANK: 88.49},
    "TCN XD": {MNIST: 1.75, JSB: 8.07, NOTTINGHAM: 2.81, TREEBANK: 84.11},
}
#: What it quotes, from whom.
OTHERS: dict[tuple[str, str], dict[str, float]] = {
    ("LSTM", "Bai et al. 2018"): {MNIST: 14.3, JSB: 8.45, NOTTINGHAM: 3.29, TREEBANK: 78.93},
    ("GRU", "Bai et al. 2018"): {MNIST: 12.7, JSB: 8.43, NOTTINGHAM: 3.46, TREEBANK: 92.48},
    ("RNN", "Bai et al. 2018"): {MNIST: 74.7, JSB: 8.91, NOTTINGHAM: 4.05, TREEBANK: 114.50},
    ("TCN", "Bai et al. 2018"): {MNIST: 2.8, JSB: 8.10, NOTTINGHAM: 3.07, TREEBANK: 88.68},
    ("TrellisNet", "Bai et al. 2019"): {MNIST: 1.87, TREEBANK: 54.19},
    ("Transformer", "Wang et al. 2020"): {NOTTINGHAM: 3.34},
    ("R-Transformer", "Wang et al. 2020"): {NOTTINGHAM: 2.37, TREEBANK: 84.38},
    ("HiPPO-LegS", "Gu et al. 2020"): {MNIST: 1.7},
}


def prepare(preset: Preset, method: str, data_dir: Path | None, seed: int) -> Prepared:
    problem = make_problem(preset, data_dir, seed)
    network = build_network(preset, method, problem, seed)
    describe = {"data": preset.data, "method": method, "way": preset.way_of(method)}
    return Prepared(problem, network, preset.search(method), describe)


def settings_of(preset: Preset, method: str) -> dict[str, Any]:
    search = preset.search(method).to_dict()
    del search["seed"]
    names = ("levels", "kernel", "width", "dropout", "embedding_dropout", "examples", "held_out", "longest", "side", "window")
    settings: dict[str, Any] = {name: getattr(preset, name) for name in names} | {"search": search}
    way = preset.way_of(method)
    if way is not None:
        settings |= {"way": way, "depth": list(preset.depth)} | ({"span": preset.span} if way == "filters" else {})
    return settings


def setting_of(data: str, part: str = "") -> dict[str, str]:
    return {"data": f"{data}{part and ', '}{part} ({REPORTED[data]})"}


def row(preset: Preset, method: str, data_dir: Path | None) -> Row:
    """Tuned, where the preset has several candidates. The paper's figure stands beside runs on all data alone."""
    candidates = {
        name: SearchRow(
            method=method,
            setting=setting_of(own.data, own.part),
            seeds=own.seeds,
            settings=settings_of(own, method),
            paper=None if own.part else PAPER.get(method, {}).get(own.data),
            prepare=partial(prepare, own, method, data_dir),
            report="best",
        )
        for name, own in preset.candidates(method).items()
    }
    return chosen_among(candidates)


def rows(context: Context, presets: Mapping[str, Sequence[Preset]] = PRESETS, chosen: Sequence[str] = tuple(REPORTED)) -> list[Row]:
    """What is run at this scale, then what else the paper has, its own and others' figures."""
    own = [preset for preset in presets[context.scale] if preset.data in chosen]
    published = {(method, ""): figures for method, figures in PAPER.items()} | OTHERS
    return with_the_rest(
        [row(preset, method, context.data_dir) for preset in own for method in preset.methods()],
        [
            quoted(method, setting_of(data), figures[data], source)
            for (method, source), figures in published.items()
            for data in chosen
            if data in figures
        ],
    )


WAYS = """`TCN XD` and `undilated TCN XD` are searched over the TCN as it is and over the one without dilation. Operations are kept
from the future by `filters` (shift-invariant: each tap is one long learned filter), `direct` (masked, at absolute positions) or
`windows` (the paper's: each prediction from the last 40 steps alone); on permuted MNIST a whole sequence is classified, and
operations see all of it, in the full domain or in half of it. Reported is the test metric at the best validation epoch; the test
part plays no other role.
"""
LAPTOP = """JSB Chorales: all data and the paper's network and optimizer, 40 epochs instead of 100. Nottingham: the first 200
pieces, cut to 200 steps, 60 for validation and 60 for testing, 10 epochs, filters of 64 points. Permuted MNIST: 2,000 images of
14 x 14 pixels (196 steps), 6 levels, 6 epochs. Penn Treebank: 100,000 words, width 64, 3 levels, 5 epochs, filters of 32 points,
less dropout. Every row chooses among three step sizes on validation: of the weights where nothing is searched, of the architecture
where it is.

"""


def _curves(*chosen: str) -> tuple[CurvesFigure, ...]:
    """Of every data set at every scale; those without runs are not drawn."""
    parts = dict.fromkeys((preset.data, preset.part) for presets in PRESETS.values() for preset in presets)
    return tuple(
        CurvesFigure(setting_of(data, part), f"{data}, {part}" if part else data, "validation")
        for data, part in parts
        if data in chosen
    )


def music_rows(context: Context) -> list[Row]:
    return rows(context, chosen=(JSB, NOTTINGHAM))


PRINTED = " For the undilated TCN on Nottingham the paper prints 3.23 in Table 3 and 3.21 in Table 13, which stands here."

MUSIC = Table(
    "music",
    "Music: the next notes",
    "Table 3",
    "loss",
    music_rows,
    figures=_curves(JSB, NOTTINGHAM),
    notes={"laptop": LAPTOP + WAYS + PRINTED, "paper": WAYS + PRINTED},
    runs="sequences",
)
SEQUENCES = dataclasses.replace(
    MUSIC,
    name="sequences",
    title="Sequences: digits, music and words",
    where="Table 13",
    metric="error, loss or perplexity",
    rows=rows,
    figures=_curves(*REPORTED),
)
