"""A parser that crashes takes only itself along."""

import signal
from pathlib import Path

import h5py
import numpy as np
import pytest

from xdops.storage.foreign import Parser, ParserFailed


@pytest.mark.parametrize("how", [signal.SIGSEGV, signal.SIGKILL])
def test_a_crash_is_an_answer(how: signal.Signals, tmp_path: Path) -> None:
    with h5py.File(tmp_path / "x.h5", "w") as file:
        file["x"] = np.arange(3)
    parser = Parser(tmp_path / "x.h5", "hdf5")
    assert parser.names() == ["x"]
    parser._process.send_signal(how)
    parser._process.wait()
    with pytest.raises(ParserFailed, match=f"made its parser crash: {how.name}"):
        parser.read("x")
