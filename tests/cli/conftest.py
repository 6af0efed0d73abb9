"""One warm process for all tests that run commands."""

from collections.abc import Iterator

import pytest
from commands import Commands


@pytest.fixture(scope="session")
def commands() -> Iterator[Commands]:
    server = Commands()
    yield server
    server.close()
