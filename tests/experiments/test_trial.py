"""Whose mistake it is: what fails in a user's own module is told with its line, from whichever process."""

import sys
import types

import pytest
from torch.multiprocessing import ProcessRaisedException

from xdops.errors import XDError
from xdops.experiments.trial import blaming

TOLD = """
-- Process 1 terminated with the following error:
Traceback (most recent call last):
  File "/env/torch/nn/modules/module.py", line 1778, in _wrapped_call_impl
  File "/home/me/mine[1].py", line 12, in forward
  File "/home/me/mine[1].py", line 15, in act
  File "/env/torch/functional.py", line 7, in helper
RuntimeError: SystemExit: 0
"""


@pytest.fixture
def mine(monkeypatch: pytest.MonkeyPatch) -> None:
    module = types.ModuleType("mine")
    module.__file__ = "/home/me/mine[1].py"
    monkeypatch.setitem(sys.modules, "mine", module)


@pytest.mark.usefixtures("mine")
def test_a_network_that_fails_in_another_process_is_named_with_its_line() -> None:
    told = r"mine:build, which fails in training \(RuntimeError: SystemExit: 0, in .*mine\[1\].py line 15\)"
    with pytest.raises(XDError, match=told), blaming("mine:build"):
        raise ProcessRaisedException(TOLD, 1, 123)


@pytest.mark.usefixtures("mine")
@pytest.mark.parametrize("error", [ProcessRaisedException("KeyError: ours", 0, 1), KeyError("ours"), SystemExit(0)])
def test_what_does_not_come_from_the_network_is_not_its_mistake(error: BaseException) -> None:
    with pytest.raises(type(error)), blaming("mine:build"):
        raise error
