"""The four sequence tasks as problems: what is predicted, the loss that is trained on, and the metric that the paper reports."""

import math
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor

from xdops.data.mnist import load_mnist
from xdops.data.music import load_music
from xdops.data.text import load_text
from xdops.errors import XDError
from xdops.reproduce.sequences.presets import MNIST, TREEBANK, Preset
from xdops.search import Batch, MeanMetric, Metric, Problem, Sequences, Split
from xdops.search.seeds import derive_seed

#: Training digits set aside for validation.
HELD_OUT_DIGITS = 6000


def make_problem(preset: Preset, data_dir: Path | None, seed: int) -> Problem:
    """seed: draws the order of the pixels of permuted MNIST, nothing else."""
    if preset.data == MNIST:
        return digits_problem(preset, data_dir, seed)
    return words_problem(preset, data_dir) if preset.data == TREEBANK else music_problem(preset, data_dir)


# Music: the notes of the next step


def music_problem(preset: Preset, data_dir: Path | None) -> Problem:
    music = load_music(preset.data, data_dir)
    parts = ((music.train, preset.examples), (music.validation, preset.held_out), (music.test, preset.held_out))
    train, validation, test = (next_steps(pieces[:count], preset.longest) for pieces, count in parts)
    return Problem(train, validation, test, note_loss, MeanMetric("loss", note_metric, False), reduction="sum")


def next_steps(pieces: Sequence[np.ndarray], longest: int | None = None) -> Sequences:
    """Inputs are all steps but the last, targets all but the first; pieces are cut to so many inputs."""
    cut = [torch.from_numpy(piece[: None if longest is None else longest + 1]).float() for piece in pieces]
    return Sequences(torch.cat([p[:-1] for p in cut]), torch.cat([p[1:] for p in cut]), tuple(len(p) - 1 for p in cut))


def note_loss(prediction: Tensor, y: Tensor) -> Tensor:
    """The negative log-likelihood of 88 independent notes, summed over notes and steps."""
    return F.binary_cross_entropy_with_logits(prediction, y, reduction="sum")


def note_metric(prediction: Tensor, batch: Batch) -> tuple[Tensor, int]:
    """The same per step."""
    given, y = batch.counted(prediction)
    return note_loss(given, y), len(y)


# Permuted MNIST: the digit, from all pixels in one order that is the same for all images


def digits_problem(preset: Preset, data_dir: Path | None, seed: int) -> Problem:
    digits = load_mnist(data_dir)
    order = torch.randperm(preset.side**2, generator=torch.Generator().manual_seed(derive_seed(seed, "pixels")))
    end = len(digits.x_train) - HELD_OUT_DIGITS
    parts = (
        (digits.x_train[:end], digits.y_train[:end], preset.examples),
        (digits.x_train[end:], digits.y_train[end:], preset.held_out),
        (digits.x_test, digits.y_test, preset.held_out),
    )
    train, validation, test = (pixels(x[:count], y[:count], preset.side, order) for x, y, count in parts)
    return Problem(train, validation, test, F.cross_entropy, Metric("error (%)", error_percent, False))


def pixels(x: np.ndarray, y: np.ndarray, side: int, order: Tensor) -> Split:
    """Images (N, 28, 28) averaged down to `side`, scaled to mean 0 and deviation 1 of MNIST, as sequences (N, 1, side^2)."""
    images = torch.from_numpy(x.astype(np.float32))[:, None] / 255
    if images.shape[-1] % side:
        raise XDError(f"digits of {side} x {side}", f"a side that divides {images.shape[-1]}", "side=14")
    images = (F.avg_pool2d(images, images.shape[-1] // side) - 0.1307) / 0.3081
    return Split(images.flatten(2)[..., order].contiguous(), torch.from_numpy(y.astype(np.int64)))


def error_percent(logits: Tensor, y: Tensor) -> Tensor:
    return 100 * (logits.argmax(dim=1) != y).double().mean()


# Penn Treebank: the next word


def words_problem(preset: Preset, data_dir: Path | None) -> Problem:
    text = load_text(data_dir)
    parts = ((text.train, preset.examples), (text.validation, preset.held_out), (text.test, preset.held_out))
    train, validation, test = (word_windows(torch.from_numpy(words[:count]), preset.window) for words, count in parts)
    return Problem(train, validation, test, F.cross_entropy, MeanMetric("perplexity", word_metric, False, math.exp))


def word_windows(words: Tensor, count: int) -> Split:
    """Every `count` words, from the twice as many up to each: x (N, 2 count), y (N, count), the words that follow the last ones."""
    whole = (len(words) - 1) // count * count
    x = words[:whole].unfold(0, 2 * count, count)
    y = words[count + 1 : whole + 1].unfold(0, count, count)
    return Split(x.contiguous(), y.contiguous())


def word_metric(prediction: Tensor, batch: Batch) -> tuple[Tensor, int]:
    """Cross-entropy of the words that count."""
    return F.cross_entropy(prediction, batch.y, reduction="sum"), batch.y.numel()
