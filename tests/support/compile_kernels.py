"""Compiles the kernels for both dtypes, each in a process of its own."""

import os
import subprocess
import sys

import torch

from xdops.engine.kernels import digit_products, points, tap_products, transforming
from xdops.storage import cache

KERNELS = (transforming, points, tap_products, digit_products)

if __name__ == "__main__":
    if len(sys.argv) == 2:
        for module in KERNELS:
            for kernel in (module.forward, module.backward):
                kernel.compile(getattr(torch, sys.argv[1]))
    else:
        alone = os.environ | {cache.VARIABLE: os.devnull}  # without a place for a lock none waits for the other
        both = [subprocess.Popen([sys.executable, __file__, dtype], env=alone) for dtype in ("float32", "float64")]
        sys.exit(max(process.wait() for process in both))
