"""Refusals of data that cannot be learned from, each with what was found and where."""

import numpy as np

from xdops.backbones.request import TaskKind
from xdops.data.scaling import SAME, Scaling
from xdops.data.split import Arrays
from xdops.errors import XDError, several

#: Inputs are scaled in double precision; targets are compared in single precision, where squares must not overflow or vanish.
LARGEST_INPUT, LARGEST_TARGET, SMALLEST_TARGET = 1e100, 1e15, 1e-15
#: Standard deviations from the mean of the training part, for values of other parts, and for those to be predicted from.
LARGEST_SCALED = 1e6
#: Values of each channel that are looked at, and how many different ones of many are few.
SAMPLE, FEW = 10_000, 10
#: The smallest number that commonly stands for a missing one, and what calculations in double precision leave of zeros.
LEAST_FILL, ROUNDING = 900.0, 1e-12
#: What single precision may lose of the differences between targets.
LEAST_DIGITS = 1e-3


def check_shape(array: np.ndarray, name: str) -> None:
    """Refuse arrays that are a single number, or that have a side of length 0."""
    if array.ndim == 0:
        raise XDError(f"{name}, a single value", "an array (N, ...) with one entry per example", "more examples")
    if array.size == 0 and len(array):
        raise XDError(f"{name} of shape {array.shape}, with nothing in it", "at least one value per example", "another array")


def check_range(array: np.ndarray, name: str, target: bool) -> None:
    """Refuse numbers that the arithmetic to come cannot hold."""
    if array.dtype.kind not in "iuf" or array.size == 0:
        return
    largest = max(abs(float(array.max())), abs(float(array.min())))
    most = LARGEST_TARGET if target else LARGEST_INPUT
    if largest > most:
        raise XDError(f"{name} with values up to {largest:.3g}", f"at most {most:g}", "larger units, or a logarithm")
    if target and 0 < largest < SMALLEST_TARGET:
        raise XDError(f"{name} with values no larger than {largest:.3g}", f"at least {SMALLEST_TARGET:g}", "smaller units")


def check_single(array: np.ndarray, name: str) -> None:
    """Refuse targets (N, channels, ...) whose differences single precision does not see: small ones beside a large offset."""
    if array.size == 0 or array.dtype.itemsize <= 2 or array.dtype == np.float32:
        return
    axes = (0, *range(2, array.ndim))
    lost = np.abs(array - array.astype(np.float32)).max(axis=axes)
    spread = array.max(axis=axes).astype(np.float64) - array.min(axis=axes).astype(np.float64)
    bad = np.flatnonzero((spread > 0) & (lost > LEAST_DIGITS * spread))
    if len(bad):
        mean, differ = array[:, bad[0]].mean(dtype=np.float64), spread[bad[0]]
        raise XDError(
            f"{name} with values around {mean:.6g} that differ by {differ:.3g} at most",
            "differences that seven digits show",
            "subtract an offset, or smaller units",
        )


def check_told_apart(array: np.ndarray, scaling: Scaling, name: str) -> None:
    """Refuse (N, channels, ...) of which a few values, such as 1e20 for what is missing, are so large that all others become one
    number when they are scaled: a network would see nothing of them."""
    step = max(1, array[:, 0].size // SAMPLE)
    for channel in range(array.shape[1]):
        check_offset(array[:, channel], scaling.mean[channel], name)
        some = array[:, channel].reshape(-1)[::step].astype(np.float64)
        before = len(np.unique(some))
        seen, which = np.unique(np.round((some - scaling.mean[channel]) / scaling.std[channel], 6), return_inverse=True)
        if len(seen) <= max(FEW, before // 1000) and before >= 10 * len(seen):
            largest = float(np.abs(array[:, channel]).max())
            unseen = max(float(np.ptp(some[which == i])) for i in range(len(seen)))
            if largest < LEAST_FILL and unseen < ROUNDING * largest:
                continue  # a few numbers with the rounding of double precision on them
            raise XDError(
                f"{name} with values up to {largest:.3g}, beside which the others cannot be told apart",
                "values that single precision tells apart when all are scaled alike",
                "drop or fill in what is missing, if huge numbers stand for it",
            )


def check_offset(values: np.ndarray, mean: float, name: str) -> None:
    """Refuse values that differ by so little beside their mean that they are taken for one number, and only centred: nanoseconds
    since 1970, for one. A constant with a few units of rounding on it is one."""
    low, high = values.min(), values.max()
    largest = float(max(abs(float(low)), abs(float(high))))
    spread = float(int(high) - int(low)) if values.dtype.kind in "iu" else float(high) - float(low)
    rounding = 0.0 if values.dtype.kind in "iu" else 8 * float(np.spacing(largest))
    few = rounding < spread < 1e6 * SAME * largest  # most need no closer look
    if largest >= LEAST_FILL and few and float(values.std(dtype=np.float64)) <= SAME * abs(mean):
        raise XDError(
            f"{name} with values around {mean:.6g} that differ by {spread:.3g} at most",
            "differences that double precision shows well",
            "subtract an offset, such as the smallest value",
        )


def check_scaled(array: np.ndarray, name: str) -> None:
    """Refuse what is no longer a useful number once it is scaled to single precision as the training part is."""
    bad = int((~(np.abs(array) <= LARGEST_SCALED)).sum())
    if bad:
        raise XDError(
            f"{name} with {several(bad, 'value')} too large when scaled as in training",
            "values like those trained on",
            "check the units",
        )


def check_varied(array: np.ndarray, name: str, what: str) -> None:
    """Refuse examples that are all the same: nothing can be learned from them, whatever figure comes out."""
    if len(array) > 1 and (array == array[:1]).all():
        raise XDError(
            f"{name} with the same {what} in each of {len(array)} examples",
            f"{what}s that differ",
            "another array",
        )


def check_finite(array: np.ndarray, name: str, what: str = "example") -> None:
    """Count what is not a number, and say where it is. what: one row of the array."""
    if array.dtype.kind != "f":
        return
    bad = ~np.isfinite(array)
    if not bad.any():
        return
    nans, where = int(np.isnan(array).sum()), tuple(int(i) for i in np.argwhere(bad)[0])
    rows = int(bad.reshape(len(array), -1).any(axis=1).sum())
    drop = "drop those examples, or " if what == "example" else ""  # steps of sequences count in their lengths
    raise XDError(
        f"{name} with {nans} NaN and {int(bad.sum()) - nans} infinite values, in {rows} of {len(array)} {what}s, "
        f"the first at index {where}",
        "finite numbers only",
        f"{drop}fill the gaps, e.g. numpy.nan_to_num",
    )


def check_classes(
    parts: Arrays, kind: TaskKind, y_name: str, otherwise: str = "--kind regression"
) -> tuple[str, ...] | tuple[int, ...]:
    """The labels of the training part, in order; other parts must have no others. otherwise: what to try if they are no classes."""
    if kind != "classification":
        return ()
    kinds = {part: y.dtype.kind for part, (_, y) in parts.items()}
    if len(set(kinds.values())) > 1:
        raise XDError(f"{y_name} of text in some parts and of numbers in others", "the same in all parts", "one kind of labels")
    known = np.unique(parts["train"][1])
    if len(known) < 2:
        raise XDError(
            f"{y_name} with one class only, {known.tolist()[0]!r}, in the training part",
            "at least two classes",
            f"--y-name, or {otherwise}",
        )
    for part in ("val", "test"):
        strange = np.setdiff1d(parts[part][1], known).tolist()
        if strange:
            raise XDError(
                f"labels {', '.join(map(repr, strange[:10]))} in the {part} part",
                f"only labels seen in training: {', '.join(map(repr, known.tolist()[:10]))}{', ...' if len(known) > 10 else ''}",
                "add such examples to the training part, or drop them from the others",
            )
    return tuple(known.tolist())
