"""Images that are images, and images that are not: CIFAR-10, with its rows and columns in their order or in another."""

from xdops.reproduce.cifar.entropy_penalty import EntropyPenalty
from xdops.reproduce.cifar.networks import FIRST_LAYER, build_network
from xdops.reproduce.cifar.permutation_loss import PermutationLoss
from xdops.reproduce.cifar.presets import (
    AUXILIARY,
    ENTROPY,
    IMAGES,
    NORMAL,
    ORDERED,
    PERMUTED,
    PRESETS,
    SHARED,
    SPACES,
    Architecture,
    Preset,
)
from xdops.reproduce.cifar.problem import METRIC, load_images, make_problem, permutation_of

__all__ = [
    "AUXILIARY",
    "ENTROPY",
    "FIRST_LAYER",
    "IMAGES",
    "METRIC",
    "NORMAL",
    "ORDERED",
    "PERMUTED",
    "PRESETS",
    "SHARED",
    "SPACES",
    "Architecture",
    "EntropyPenalty",
    "PermutationLoss",
    "Preset",
    "build_network",
    "load_images",
    "make_problem",
    "permutation_of",
]
