"""What arrays must be before anything is trained on them."""

import numpy as np
import pytest

from xdops.data.checks import check_told_apart
from xdops.data.scaling import Scaling
from xdops.errors import XDError


def told_apart(values: np.ndarray) -> None:
    x = values.reshape(-1, 1, 16)
    check_told_apart(x, Scaling.of(x.reshape(-1, 1)), "x")


def test_huge_numbers_for_missing_ones_hide_all_others_and_flags_with_rounding_do_not():
    generator = np.random.default_rng(0)
    values, noise = generator.normal(size=800), 1e-17 * generator.normal(size=800)
    told_apart(values)
    told_apart((values > 1) + noise)
    for hidden in (np.where(values > 2, 1e20, values), np.where(values > 2, 1.0, 1e-9 * values)):
        with pytest.raises(XDError, match="cannot be told apart"):
            told_apart(hidden)
