"""Settings that all tests share: reproducible, without deadlines that a busy machine would miss, and on every processor."""

import os

import pytest
import torch
from hypothesis import settings

from xdops.measuring import precision
from xdops.storage import cache

#: Nothing is kept, so plans are made with the default rates, here and in processes that tests start.
os.environ[cache.VARIABLE] = os.devnull

settings.register_profile("xdops", deadline=None, derandomize=True, print_blob=True)
settings.load_profile("xdops")


@pytest.fixture(autouse=True)
def _seeded() -> None:
    torch.manual_seed(0)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Those on Ray come first: one process has them all, for two Rays on two cores would wait for each other."""
    items.sort(key=lambda item: item.path.name != "test_on_ray.py")


def pytest_collection_finish(session: pytest.Session) -> None:
    """Where torch would die in a reduced precision, do what `check_precision` advises, before anything is computed."""
    texts = (path.read_text() for path in {item.path for item in session.items})
    used = any("float16" in text or "bf16" in text for text in texts)
    if used and any(precision.failure(dtype) for dtype in (torch.bfloat16, torch.float16)):
        os.environ.update(precision.REMEDY)
