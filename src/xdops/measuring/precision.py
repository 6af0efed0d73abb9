"""Whether this machine computes in a reduced precision, found out in a child process.

Some virtual machines announce instructions (Intel's AMX) that they do not grant. torch's products in bfloat16 then end the process
by a signal, which no exception handler sees: so another process tries them first.
"""

import os
import signal
import subprocess
import sys
from functools import lru_cache
from pathlib import Path

import torch

from xdops.errors import XDError

#: The program that tries, given names of dtypes.
TRIAL = (sys.executable, str(Path(__file__).with_name("precision_trial.py")))

#: What the libraries under torch are told to use of the processor.
VARIABLES = ("ONEDNN_MAX_CPU_ISA", "DNNL_MAX_CPU_ISA", "MKL_ENABLE_INSTRUCTIONS", "ATEN_CPU_CAPABILITY")

#: What helps where AMX is announced and not granted: oneDNN then uses the instructions before it.
REMEDY = {"ONEDNN_MAX_CPU_ISA": "AVX512_CORE_BF16"}


def failure(dtype: torch.dtype) -> str | None:
    """How a process ends that trains in this precision here; None if it works. Tried once per process and setting."""
    name = str(dtype).removeprefix("torch.")
    return _failure(name, TRIAL, tuple(os.environ.get(variable) for variable in VARIABLES))


@lru_cache(maxsize=16)
def _failure(name: str, program: tuple[str, ...], environment: tuple[str | None, ...]) -> str | None:
    done = subprocess.run([*program, name], capture_output=True, text=True, check=False)
    if done.returncode >= 0:
        return (done.stderr.strip().splitlines() or [f"exit code {done.returncode}"])[-1] if done.returncode else None
    try:
        return signal.Signals(-done.returncode).name
    except ValueError:
        return f"signal {-done.returncode}"


def check_precision(name: str, dtype: torch.dtype) -> None:
    """Refuse the precision of this name if torch cannot compute in its dtype here."""
    ending = failure(dtype)
    if ending is None:
        return
    remedy = " ".join(f"{variable}={value}" for variable, value in REMEDY.items())
    raise XDError(
        f"precision {name}, in which torch dies on this machine ({ending})",
        "a precision that this machine's processor can really compute in",
        f"set the environment variable {remedy}, or use precision 32-true",
    )
