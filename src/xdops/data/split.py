"""Training, validation and test parts: seeded, and with every class in the same proportion."""

import numpy as np

from xdops.backbones.request import TaskKind
from xdops.errors import XDError

PARTS = ("train", "val", "test")

Arrays = dict[str, tuple[np.ndarray, np.ndarray]]  # part, or "all" -> x, y


def check_fractions(fractions: tuple[float, float, float]) -> None:
    if any(not 0 < f < 1 for f in fractions) or abs(sum(fractions) - 1) > 1e-6:
        raise XDError(f"--split {' '.join(map(str, fractions))}", "three positive fractions that sum to 1", "--split 0.7 0.15 0.15")


def split_indices(groups: np.ndarray, fractions: tuple[float, ...], seed: int) -> list[np.ndarray]:
    """Indices of each part. `groups` are class labels (all equal where there are none); each is divided in the same proportion.

    Rounding favours the first part, so that a class with a single example is trained on.
    """
    rng = np.random.default_rng(seed)
    parts: list[list[np.ndarray]] = [[np.empty(0, dtype=int)] for _ in fractions]  # all of them, where there are no examples
    for group in np.unique(groups):
        members = rng.permutation(np.flatnonzero(groups == group))
        later = [round(len(members) * f) for f in fractions[1:]]
        while sum(later) >= len(members):
            later[int(np.argmax(later))] -= 1
        start = len(members) - sum(later)
        for part, count, end in zip(parts, (start, *later), np.cumsum((start, *later)), strict=True):
            part.append(members[end - count : end])
    # Shuffled once more, so that the order says nothing about the class.
    return [rng.permutation(np.concatenate(part)) for part in parts]


def divide(arrays: Arrays, kind: TaskKind, fractions: tuple[float, float, float], seed: int) -> tuple[Arrays, str]:
    """Three parts, whatever was given, and a sentence on how they came about."""

    def cut(part: str, shares: tuple[float, ...], names: tuple[str, ...]) -> Arrays:
        x, y = arrays[part]
        groups = y if kind == "classification" else np.zeros(len(y), dtype=int)
        indices = split_indices(groups, shares, seed)
        return {name: (x[i], y[i]) for name, i in zip(names, indices, strict=True)}

    train, val, _ = fractions
    by_class = ", each class in proportion" if kind == "classification" else ""
    percent = " / ".join(f"{f:.0%}" for f in fractions)
    if set(arrays) in ({"all"}, {"train"}):
        parts, how = (
            cut(next(iter(arrays)), fractions, PARTS),
            f"split at random, {percent}, seed {seed}{by_class}",
        )
    elif set(arrays) == {"train", "test"}:
        share = (train / (train + val), val / (train + val))
        parts = cut("train", share, PARTS[:2]) | {"test": arrays["test"]}
        how = f"{share[1]:.0%} of the training part set aside for validation, seed {seed}{by_class}"
    else:
        parts, how = arrays, "as given"
    for name, (x, _) in parts.items():
        if len(x) == 0:
            why, hint = "", "more data, or another --split"
            if by_class and how != "as given":
                labels = arrays[next(iter(arrays))][1]
                why = f", as {len(labels)} examples of {len(np.unique(labels))} classes are divided class by class"
                hint = "--kind regression if these are no classes; or more data, or another --split"
            raise XDError(f"an empty {name} part{why}", "at least one example in each of train, val, test", hint)
    return parts, how
