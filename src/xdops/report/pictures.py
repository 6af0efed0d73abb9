"""Pictures beside a table's own plots: of what its runs found, drawn whenever the table is run."""

from collections.abc import Callable
from pathlib import Path

from xdops.report.distance_maps import draw_distance_maps
from xdops.report.music import draw_music
from xdops.report.permutations import draw_first_layers
from xdops.reproduce.table import Context

#: table -> function(context, folder of its runs, docs) -> the pictures it wrote, figures/TABLE-SCALE-*.png of docs
PICTURES: dict[str, Callable[[Context, Path, Path], list[Path]]] = {
    "cifar": draw_first_layers,
    "music": draw_music,
    "protein": draw_distance_maps,
}
