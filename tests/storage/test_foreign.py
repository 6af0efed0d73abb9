"""A parser that crashes takes only itself along."""

import gc
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


def test_ctrl_c_while_a_parser_is_ended_prints_no_traceback(tmp_path: Path, monkeypatch, capfd) -> None:
    with h5py.File(tmp_path / "x.h5", "w") as file:
        file["x"] = np.arange(3)
    reader = Parser(tmp_path / "x.h5", "hdf5")
    process, wait = reader._process, reader._process.wait

    def interrupted() -> int:
        wait()
        raise KeyboardInterrupt

    monkeypatch.setattr(process, "wait", interrupted)
    del reader
    gc.collect()
    assert process.returncode is not None
    assert capfd.readouterr().err == ""
