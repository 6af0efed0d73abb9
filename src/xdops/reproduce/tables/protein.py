"""Protein distances: MAE_8 of PDNET's residual networks and of XD-operations against depth."""

from functools import cache, partial
from pathlib import Path
from typing import Any

import torch

from xdops.data.proteins.domains import describe_channels
from xdops.data.proteins.protein import PAIR_FEATURES, RESIDUE_CHANNELS, Protein
from xdops.reproduce.protein.judging import SHARES, judge, precision_name, trained_network
from xdops.reproduce.protein.networks import DILATED, METHODS, RESNET, XD, build_network
from xdops.reproduce.protein.presets import PRESETS, Preset
from xdops.reproduce.protein.problem import METRIC, VALIDATION, Parts, domain_parts, make_problem, pdnet_parts
from xdops.reproduce.table import (
    Context,
    Judged,
    LineFigure,
    PairedFigure,
    Prepared,
    Row,
    SearchRow,
    Sketch,
    Table,
    chosen_among,
    quoted,
    with_the_rest,
)

#: The paper's Table 11, MAE_8 on PSICOV by depth.
PAPER = {
    RESNET: {4: 5.99, 6: 5.30, 10: 4.91, 18: 4.80, 34: 4.66},
    DILATED: {4: 6.04, 6: 5.49, 10: 4.64, 18: 4.59, 34: 4.50, 258: 3.5},
    XD: {4: 5.59, 6: 4.59, 10: 4.25, 18: 4.22, 34: 4.00},
}
#: PDNET's own figure, of the dilated network with 258 layers; the 3.5 above is the XD paper's reproduction of it.
PUBLISHED, PUBLISHED_BY = 4.1, "Adhikari 2020"
#: Proteins of PDNET's list deepcov.
DEEPCOV = 3456
PSICOV, DOMAINS = "PSICOV", "40 domains"


@cache
def load_parts(data_dir: Path | None, fold: int | None) -> Parts:
    """Loaded once; all runs of a table share the proteins."""
    return pdnet_parts(data_dir) if fold is None else domain_parts(data_dir, fold)


def parts_of(preset: Preset, context: Context, seed: int) -> Parts:
    return load_parts(context.data_dir, seed if preset.folds else None)


def prepare(preset: Preset, method: str, depth: int, context: Context, seed: int) -> Prepared:
    problem = make_problem(parts_of(preset, context, seed), preset.crop)
    network = build_network(method, depth, preset.crop, seed)
    return Prepared(problem, network, preset.search(method, depth), {"method": method, "depth": depth, "crop": preset.crop})


def sketch(preset: Preset, method: str, depth: int) -> Sketch:
    """On noise of the crops' size, for as many proteins as PDNET trains on."""
    crop = preset.crop
    noise = Protein(
        "noise",
        "A" * crop,
        torch.randn(RESIDUE_CHANNELS, crop),
        torch.randn(len(PAIR_FEATURES), crop, crop),
        1 + 20 * torch.rand(crop, crop),
        torch.ones(crop, crop, dtype=torch.bool),
    )
    problem = make_problem(Parts((noise,), (noise,), (noise,)), crop)
    network = build_network(method, depth, crop, seed=0)
    return Sketch(Prepared(problem, network, preset.search(method, depth), {}), DEEPCOV - VALIDATION)


def judge_run(preset: Preset, method: str, depth: int, context: Context, folder: Path, seed: int) -> Judged:
    network = trained_network(method, depth, preset.crop, seed, folder)
    return judge(network, parts_of(preset, context, seed).test, preset.crop)


def settings_of(preset: Preset, method: str, depth: int) -> dict[str, Any]:
    search = preset.search(method, depth).to_dict()
    del search["seed"]
    if method != XD:
        del search["architecture"]
    return {
        "crop": preset.crop,
        "data": f"{DOMAINS} in 5 folds" if preset.folds else "PDNET's deepcov and PSICOV",
        "search": search,
    }


def row(preset: Preset, method: str, depth: int, proteins: str, context: Context) -> Row:
    """Tuned, where the preset has several candidates."""
    candidates = {
        name: SearchRow(
            method=method,
            setting={"proteins": proteins, "depth": depth},
            seeds=own.seeds,
            settings=settings_of(own, method, depth),
            paper=None if own.folds else PAPER[method].get(depth),
            prepare=partial(prepare, own, method, depth, context),
            report="last",
            chosen_by="loss",
            judge=partial(judge_run, own, method, depth, context),
            sketch=None if own.folds else partial(sketch, own, method, depth),
        )
        for name, own in preset.candidates(method, depth).items()
    }
    return chosen_among(candidates)


def rows(context: Context) -> list[Row]:
    """The paper's figures stand beside its own test proteins alone."""
    preset = PRESETS[context.scale]
    proteins = DOMAINS if preset.folds else PSICOV
    found = [row(preset, method, depth, proteins, context) for depth in preset.depths for method in METHODS]
    quotations = [
        quoted(method, {"proteins": PSICOV, "depth": depth}, value)
        for method, by_depth in PAPER.items()
        for depth, value in by_depth.items()
    ]
    return with_the_rest(found, [*quotations, quoted(DILATED, {"proteins": PSICOV, "depth": 258}, PUBLISHED, PUBLISHED_BY)])


MEANING = """MAE_8 is the mean absolute error in angstrom over pairs at least 24 residues apart whose true distance is at most 8,
both triangles of a prediction averaged: the mean over pairs of a protein, then over proteins. It alone can be had cheaply, by
predicting short distances everywhere, which early epochs do; so nothing is selected by it, and the precision of the L/5, L/2 and L
closest predicted pairs stands beside it. Depth counts convolutions, as in the paper: depth 18 is 8 residual blocks. At depth 4
there is one block, whose dilation is 1: the dilated network is the plain one."""
EPOCHS = PRESETS["laptop"].epochs
LAPTOP = f"""
40 domains of 47 to 138 residues instead of PDNET's 3,456 training proteins ({describe_channels()}), crops of 64 x 64 instead of
128 x 128, in a cross-validation of five fixed folds: one is tested, the next is for validation, three are trained on, and every
protein is tested once. Figures are means over the five folds, spreads those between folds, which differ in their proteins: the
methods are to be compared protein by protein, as the paired figures do. {EPOCHS} epochs are {12 * EPOCHS} steps: far from where the
networks would end. Every row chooses among three step sizes by the validation loss of fold 0: of the weights where nothing is
searched, of the architecture where it is."""

TABLE = Table(
    "protein",
    "Protein distances",
    "Figure 4, Table 11",
    METRIC,
    rows,
    higher=tuple(precision_name(share) for share in SHARES),
    figures=(
        LineFigure("depth", DOMAINS, {"proteins": DOMAINS}),
        LineFigure("depth", PSICOV, {"proteins": PSICOV}, log_x=True),
        *(
            PairedFigure(XD, base, {"proteins": DOMAINS, "depth": depth})
            for depth in PRESETS["laptop"].depths
            for base in (RESNET, DILATED)
        ),
    ),
    notes={"laptop": MEANING + LAPTOP, "paper": MEANING},
)
