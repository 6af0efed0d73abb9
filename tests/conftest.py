"""Settings that all tests share: reproducible, and without deadlines that a busy machine would miss."""

import pytest
import torch
from hypothesis import settings

settings.register_profile("xdops", deadline=None, derandomize=True, print_blob=True)
settings.load_profile("xdops")


@pytest.fixture(autouse=True)
def _seeded() -> None:
    torch.manual_seed(0)
