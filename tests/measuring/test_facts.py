"""Facts about the machine, and a profiler that keeps its own lines to itself."""

import os
import platform
import subprocess
import sys
from pathlib import Path

import torch

from xdops.measuring.machine import machine_facts, processor
from xdops.measuring.profile import LOG_LEVEL, quiet_profiler

PROFILE = """
import torch
from xdops.measuring.profile import KERNELS, KINDS, REST, time_shares
a = torch.ones(8, 8)
shares = time_shares(lambda: a @ a)
assert set(shares) == {KERNELS, *KINDS, REST}, shares
assert abs(sum(shares.values()) - 1) < 1e-9, shares
"""


def test_facts_name_the_processor_and_what_torch_makes_of_it() -> None:
    facts = machine_facts()
    assert facts["processor"] == processor()
    assert facts["cores"] == os.cpu_count()
    assert facts["threads"] == torch.get_num_threads()
    assert facts["capability"] == torch.backends.cpu.get_cpu_capability()
    assert facts["torch"] == torch.__version__
    assert facts["python"] == platform.python_version()
    assert ("gpu" in facts) == torch.cuda.is_available()


def test_a_processor_is_called_by_its_model_where_the_system_tells_it(tmp_path: Path) -> None:
    info = tmp_path / "cpuinfo"
    info.write_text("processor\t: 0\nmodel name\t: Some Model: 3000\nflags\t\t: avx2\n")
    assert processor(info) == "Some Model: 3000"
    info.write_text("processor\t: 0\n")
    assert processor(info) == platform.machine()
    assert processor(tmp_path / "none") in (platform.processor(), platform.machine())


def test_the_profiler_writes_nothing_to_the_terminal() -> None:
    environment = {name: value for name, value in os.environ.items() if name != LOG_LEVEL}
    done = subprocess.run([sys.executable, "-c", PROFILE], env=environment, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")


def test_a_log_level_of_the_users_own_is_kept(monkeypatch) -> None:
    monkeypatch.setenv(LOG_LEVEL, "1")
    with quiet_profiler():
        assert os.environ[LOG_LEVEL] == "1"
    assert os.environ[LOG_LEVEL] == "1"
    monkeypatch.delenv(LOG_LEVEL)
    with quiet_profiler():
        assert os.environ[LOG_LEVEL] == "6"
    assert LOG_LEVEL not in os.environ
