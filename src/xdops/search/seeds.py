"""Randomness that depends on where a run is, not on how it got there: what makes resuming exact without saved generator states."""

import hashlib
import random
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
import torch


def derive_seed(seed: int, *place: str | int) -> int:
    """An independent seed for each place of a run, e.g. ("step", epoch, step, rank)."""
    text = "/".join(map(str, (seed, *place)))
    return int.from_bytes(hashlib.blake2b(text.encode(), digest_size=4).digest(), "little")


def seed_all(seed: int) -> None:
    """Seed every global generator that a network may draw from."""
    if torch.accelerator.is_available():
        torch.manual_seed(seed)
    else:  # that would note a traceback for every kind of device that is not there, at every step
        torch.default_generator.manual_seed(seed)
    np.random.seed(seed)  # noqa: NPY002 - the global one is what a network's code would use
    random.seed(seed)


@contextmanager
def reproducible() -> Iterator[None]:
    """Deterministic algorithms inside; the caller's generators and choice of algorithms afterwards as they were."""
    states = torch.get_rng_state(), np.random.get_state(), random.getstate()  # noqa: NPY002
    cuda = torch.cuda.get_rng_state_all() if torch.cuda.is_available() else []
    deterministic, warn_only = torch.are_deterministic_algorithms_enabled(), torch.is_deterministic_algorithms_warn_only_enabled()
    options: Any = torch.utils.deterministic
    fill = options.fill_uninitialized_memory
    torch.use_deterministic_algorithms(True, warn_only=True)
    options.fill_uninitialized_memory = False  # only for hunting bugs, and slow
    try:
        yield
    finally:
        torch.use_deterministic_algorithms(deterministic, warn_only=warn_only)
        options.fill_uninitialized_memory = fill
        torch.set_rng_state(states[0])
        np.random.set_state(states[1])  # noqa: NPY002
        random.setstate(states[2])
        if cuda:
            torch.cuda.set_rng_state_all(cuda)
