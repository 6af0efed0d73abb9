"""Distance maps of test proteins: the true one, and what each method predicts."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from matplotlib import rc_context
from matplotlib.figure import Figure

from xdops.data.proteins import Protein
from xdops.report.operators import label
from xdops.report.result_plots import png
from xdops.report.style import FONT, INK
from xdops.reproduce.protein import METHODS, PRESETS, predict_map, trained_network
from xdops.reproduce.protein.presets import Preset
from xdops.reproduce.protein.problem import FARTHEST
from xdops.reproduce.runs import DIVERGED, finished_seeds, run_folder
from xdops.reproduce.table import Context, Row
from xdops.reproduce.tables.protein import parts_of, rows
from xdops.reproduce.tuning import settle
from xdops.storage.files import write_file


@dataclass(frozen=True)
class Shown:
    """A test protein, its true map with NaN where it is not known, and a predicted one per method."""

    protein: Protein
    true: np.ndarray
    predicted: dict[str, np.ndarray]


def chosen(proteins: Sequence[Protein]) -> list[Protein]:
    """The longest, and the one of middle length: not those that came out best."""
    ordered = sorted(proteins, key=lambda p: (len(p), p.id))
    return [ordered[len(ordered) // 2], ordered[-1]]


def maps_figure(title: str, shown: Sequence[Shown]) -> Figure:
    """A row per protein; distances up to 16 angstrom, near ones dark."""
    with rc_context(FONT):
        columns = 1 + len(shown[0].predicted)
        figure = Figure(figsize=(2.9 * columns, 2.9 * len(shown) + 0.5), layout="constrained")
        grid = figure.subplots(len(shown), columns, squeeze=False)
        for axes, one in zip(grid, shown, strict=True):
            named = {"true": one.true} | one.predicted
            for ax, (name, distances) in zip(axes, named.items(), strict=True):
                image = ax.imshow(distances, cmap="viridis", vmin=0, vmax=FARTHEST, interpolation="nearest")
                label(ax, name)
            axes[0].set_ylabel(f"{one.protein.id}, {len(one.protein)} residues", fontsize=10, color=INK)
        figure.colorbar(image, ax=grid, label="distance in angstrom, 16 and more alike", shrink=0.7)
        figure.suptitle(title, x=0.01, ha="left", color=INK, fontsize=11)
    return figure


def draw_distance_maps(context: Context, home: Path, docs: Path) -> list[Path]:
    """One picture, of the deepest networks and the first seed (fold) that every method has finished."""
    preset = PRESETS[context.scale]
    for depth in sorted(preset.depths, reverse=True):
        own = {row.method: settle(home, row) for row in rows(context) if row.setting["depth"] == depth and row.seeds}
        seeds = [seed for seed in preset.seeds if all(_trained(home, row, seed) for row in own.values())]
        if not seeds:
            continue
        shown = [show(preset, protein, depth, home, own, seeds[0]) for protein in chosen(parts_of(preset, context, seeds[0]).test)]
        path = docs / "figures" / f"protein-{context.scale}-maps.png"
        path.parent.mkdir(parents=True, exist_ok=True)
        what = f"fold {seeds[0]}" if preset.folds else f"seed {seeds[0]}"
        write_file(path, png(maps_figure(f"Test proteins, networks of depth {depth}, {what}", shown)))
        return [path]
    return []


def _trained(home: Path, row: Row, seed: int) -> bool:
    return seed in finished_seeds(home, row) and not (run_folder(home, row, seed) / DIVERGED).exists()


def show(preset: Preset, protein: Protein, depth: int, home: Path, own: dict[str, Row], seed: int) -> Shown:
    predicted = {}
    for method in (m for m in METHODS if m in own):
        network = trained_network(method, depth, preset.crop, seed, run_folder(home, own[method], seed))
        predicted[method] = predict_map(network, protein, preset.crop).clamp(max=FARTHEST).numpy()
    true = np.where(protein.known, protein.distances.clamp(max=FARTHEST), np.nan)
    return Shown(protein, true, predicted)
