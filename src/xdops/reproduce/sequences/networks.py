"""The networks of the sequence experiments, dilated or not, and the spaces over them, in the three ways to be causal."""

import torch
from torch import nn

from xdops.backbones.request import Request
from xdops.backbones.tcn import TCN, WordTCN
from xdops.backbones.windows import in_windows
from xdops.convert import convert_
from xdops.data.music import NOTES
from xdops.data.text import WORDS
from xdops.reproduce.sequences.presets import METHODS, MNIST, TREEBANK, Preset
from xdops.search import Examples, Problem


def build_network(preset: Preset, method: str, problem: Problem, seed: int) -> nn.Module:
    """The backbone of this seed, searched as the method says; all methods of a backbone start from the same weights."""
    dilated, way = METHODS[method][0], preset.way_of(method)
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        levels = backbone(preset, dilated)
        network = in_windows(levels, preset.window) if way == "windows" else levels
        if way is not None:
            convert_(network, longest_example(problem), preset.config(way))
    return network


def backbone(preset: Preset, dilated: bool) -> TCN | WordTCN:
    shape = preset.levels, preset.kernel, preset.width, preset.dropout, dilated
    if preset.data == TREEBANK:
        return WordTCN(
            WORDS, preset.width, preset.levels, preset.kernel, preset.window, preset.dropout, preset.embedding_dropout, dilated
        )
    if preset.data == MNIST:
        return TCN(Request("classification", 1, 10, (preset.side**2,)), *shape)
    return TCN(Request("dense", NOTES, NOTES, (1,)), *shape)


def longest_example(problem: Problem) -> torch.Tensor:
    """One example of the longest length there is, which an operation at absolute positions must hold."""
    parts: tuple[Examples, ...] = (problem.train, problem.validation, problem.test)
    found = [part.batch(torch.tensor([i])).x for part in parts for i in ([0] if not hasattr(part, "lengths") else [longest(part)])]
    return max(found, key=lambda x: x.shape[-1])


def longest(part: Examples) -> int:
    lengths = part.lengths  # type: ignore[attr-defined]
    return max(range(len(lengths)), key=lambda i: lengths[i])
