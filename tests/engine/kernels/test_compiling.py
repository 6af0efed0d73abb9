"""Kernels are compiled by one process while others wait, and a line says so."""

import os
import subprocess
import sys

import numpy as np
import pytest

from xdops.storage import cache

pytest.importorskip("numba")

SCRIPT = """
import numpy as np
from xdops.engine.kernels.compiling import kernel

@kernel
def doubled(x):
    total = x[0] * 0
    for value in x:
        total += 2 * value
    return total

print(doubled(np.arange(4.0)), doubled(np.arange(4.0)))
"""


def test_of_two_processes_one_compiles_and_says_so_in_one_line(tmp_path):
    script = tmp_path / "script.py"
    script.write_text(SCRIPT)
    environment = os.environ | {"XDOPS_CACHE": str(tmp_path / "cache"), "NUMBA_CACHE_DIR": str(tmp_path / "numba")}
    processes = [
        subprocess.Popen([sys.executable, str(script)], env=environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        for _ in range(2)
    ]
    outputs = [process.communicate() for process in processes]
    assert [out for out, _ in outputs] == ["12.0 12.0\n"] * 2
    assert sorted(errors for _, errors in outputs) == ["", "compiling kernels (once)\n"]


def test_without_a_place_for_a_lock_everyone_compiles_for_itself(tmp_path):
    script = tmp_path / "script.py"
    script.write_text(SCRIPT)
    environment = os.environ | {"XDOPS_CACHE": os.devnull, "NUMBA_CACHE_DIR": str(tmp_path / "numba")}
    done = subprocess.run([sys.executable, str(script)], env=environment, capture_output=True, text=True, check=True)
    assert (done.stdout, done.stderr) == ("12.0 12.0\n", "compiling kernels (once)\n")


HOLD = """
import sys
from pathlib import Path
from xdops.storage.lock import lock_file

with lock_file(Path(sys.argv[1])):
    print("held", flush=True)
    sys.stdin.read()
"""


def test_nobody_waits_for_ever_for_a_process_that_is_suspended(tmp_path, monkeypatch):
    from xdops.engine.kernels import compiling

    monkeypatch.setenv(cache.VARIABLE, str(tmp_path))
    monkeypatch.setattr(compiling, "PATIENCE", 0.1)
    monkeypatch.setattr(compiling, "_patient", True)
    words = [sys.executable, "-c", HOLD, str(tmp_path / "kernels")]
    with subprocess.Popen(words, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as holder:
        assert holder.stdout is not None
        assert holder.stdout.readline() == b"held\n"
        assert compiling.kernel(lambda x: x[0] + 1)(np.ones(1)) == 2
        assert not compiling._patient  # for the next kernel
        holder.communicate()


@pytest.mark.parametrize("bytes_per_file", [100, 1 << 30])
def test_a_full_disk_stops_no_kernel(bytes_per_file, tmp_path):
    script = tmp_path / "script.py"
    limit = f"import resource\nresource.setrlimit(resource.RLIMIT_FSIZE, ({bytes_per_file}, resource.RLIM_INFINITY))\n"
    script.write_text(limit + SCRIPT)
    environment = os.environ | {"XDOPS_CACHE": str(tmp_path / "cache"), "NUMBA_CACHE_DIR": str(tmp_path / "numba")}
    done = subprocess.run([sys.executable, str(script)], env=environment, capture_output=True, text=True, check=False)
    assert done.stdout == "12.0 12.0\n", done.stderr
    assert any(tmp_path.rglob("*.nbc")) == (bytes_per_file > 100)
