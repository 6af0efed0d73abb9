"""What a time was measured on: facts without which it means nothing."""

import os
import platform
from pathlib import Path
from typing import Any

import torch


def machine_facts() -> dict[str, Any]:
    """Processor and its cores, what torch makes of it, and the GPU if there is one."""
    facts = {
        "processor": processor(),
        "cores": os.cpu_count(),
        "threads": torch.get_num_threads(),
        "capability": torch.backends.cpu.get_cpu_capability(),
        "torch": torch.__version__,
        "python": platform.python_version(),
    }
    return facts | {"gpu": torch.cuda.get_device_name()} if torch.cuda.is_available() else facts


def processor(cpuinfo: Path = Path("/proc/cpuinfo")) -> str:
    """The model's name where the system tells it, else the name of its kind."""
    try:
        lines = cpuinfo.read_text().splitlines()
    except OSError:  # not Linux
        return platform.processor() or platform.machine()
    return next((line.split(":", 1)[1].strip() for line in lines if line.startswith("model name")), platform.machine())
