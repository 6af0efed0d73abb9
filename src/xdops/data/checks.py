"""Refusals of data that cannot be learned from, each with what was found and where."""

import numpy as np

from xdops.backbones.request import Kind
from xdops.data.split import Arrays
from xdops.errors import XDError


def check_finite(array: np.ndarray, name: str) -> None:
    """Count what is not a number, and say where it is."""
    if array.dtype.kind != "f":
        return
    bad = ~np.isfinite(array)
    if not bad.any():
        return
    nans, where = int(np.isnan(array).sum()), tuple(int(i) for i in np.argwhere(bad)[0])
    examples = int(bad.reshape(len(array), -1).any(axis=1).sum())
    raise XDError(
        f"{name} with {nans} NaN and {int(bad.sum()) - nans} infinite values, in {examples} of {len(array)} examples, "
        f"the first at index {where}",
        "finite numbers only",
        "drop those examples, or fill the gaps, e.g. numpy.nan_to_num",
    )


def check_classes(parts: Arrays, kind: Kind, y_name: str) -> tuple[str, ...] | tuple[int, ...]:
    """The labels of the training part, in order; other parts must have no others."""
    if kind != "classification":
        return ()
    known = np.unique(parts["train"][1])
    if len(known) < 2:
        raise XDError(
            f"{y_name} with one class only, {known.tolist()[0]!r}, in the training part",
            "at least two classes",
            "--y-name, or --kind regression",
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
