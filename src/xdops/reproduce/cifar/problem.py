"""The learning problem: the ten classes of CIFAR-10, its images as they are or with rows and columns in another order."""

from dataclasses import dataclass
from pathlib import Path

import torch
import torch.nn.functional as F
from torch import Tensor

from xdops.backbones.request import Request
from xdops.data.cifar import CLASSES, OFFICIAL, OFFICIAL_SOURCE, SHAPE, Release, load_cifar10
from xdops.data.images import Normalisation, Permutation, flip_and_crop
from xdops.data.objective import accuracy
from xdops.errors import XDError
from xdops.search import Metric, Problem, Split
from xdops.search.problem import Penalty

REQUEST = Request("classification", SHAPE[0], CLASSES, SHAPE[1:])
METRIC = "accuracy"


@dataclass(frozen=True, eq=False)
class Images:
    """Normalised with the training images' mean and standard deviation per channel."""

    train: Split
    test: Split
    source: str


def load_images(data_dir: Path | None, train: int | None, test: int | None, release: Release = OFFICIAL) -> Images:
    """All images, or the same number of each class, the first ones in their order."""
    arrays = load_cifar10(data_dir, release)
    scaling = Normalisation.of(arrays.x_train)
    y_train, y_test = (torch.from_numpy(y.astype("int64")) for y in (arrays.y_train, arrays.y_test))
    of_train, of_test = first_of_each_class(y_train, train), first_of_each_class(y_test, test)
    return Images(
        Split(torch.from_numpy(scaling.apply(arrays.x_train[of_train.numpy()])), y_train[of_train]),
        Split(torch.from_numpy(scaling.apply(arrays.x_test[of_test.numpy()])), y_test[of_test]),
        arrays.source,
    )


def first_of_each_class(labels: Tensor, count: int | None) -> Tensor:
    """Indices of `count` images in all, in ascending order; None: of all images."""
    if count is None:
        return torch.arange(len(labels))
    fewest = int(labels.bincount(minlength=CLASSES).min())
    if count > CLASSES * fewest:
        raise XDError(
            f"CIFAR-10 with {fewest:,} images of a class",
            f"{count // CLASSES:,} of each, {count:,} in all",
            f"the complete data set, from {OFFICIAL_SOURCE}",
        )
    chosen = [(labels == c).nonzero().flatten()[: count // CLASSES] for c in range(CLASSES)]
    return torch.cat(chosen).sort().values


def permutation_of(seed: int) -> Permutation:
    """One order of the rows and one of the columns per seed, for all images alike."""
    return Permutation.draw(*SHAPE[1:], seed)


def hold_out(images: Split, count: int) -> tuple[Split, Split]:
    """What is left to train on, and `count` images for validation: as many of each class, its last ones."""
    last = torch.cat([(images.y == c).nonzero().flatten()[-(count // CLASSES) :] for c in range(CLASSES)])
    kept = torch.ones(len(images.y), dtype=torch.bool).index_fill(0, last, False)
    return Split(images.x[kept], images.y[kept]), Split(images.x[last], images.y[last])


def make_problem(images: Images, permutation: Permutation | None, penalty: Penalty | None = None, held_out: int = 0) -> Problem:
    """Flips and crops for images as they are, nothing for permuted ones, where neither would mean anything.

    held_out: so many training images are for validation, and settings can be chosen. The published protocol has no such part:
    nothing is selected, and the accuracy after the last epoch is what counts. There the test images stand in its place, which gives
    test curves; whoever selects an epoch must not report it from here.
    """
    train, test = images.train, images.test
    if permutation is not None:
        train, test = (Split(permutation.apply(part.x).contiguous(), part.y) for part in (train, test))
    train, validation = hold_out(train, held_out) if held_out else (train, test)
    augment = flip_and_crop if permutation is None else None
    metric = Metric(METRIC, accuracy, higher_is_better=True)
    return Problem(train, validation, test, F.cross_entropy, metric, augment, penalty=penalty)
