"""A backbone that sends a signal, once, in the middle of training: its process dies as a machine does, or Ctrl-C is pressed."""

from pathlib import Path

SOURCE = """
import os, signal
from pathlib import Path
from torch import nn

class Mortal(nn.Module):
    def __init__(self, request):
        super().__init__()
        self.steps = 0
        self.conv, self.out = nn.Conv1d(request.in_channels, 4, 3, padding=1), nn.Linear(4, request.outputs)

    def forward(self, x):
        self.steps += self.training
        if self.steps == 8 and not Path({marker!r}).exists():
            Path({marker!r}).touch()
            os.kill({process}, signal.{signal})
        return self.out(self.conv(x).relu().mean(-1))

def build(request):
    return Mortal(request)
"""


def write_mortal(folder: Path, signal: str = "SIGKILL", process: str = "os.getpid()") -> Path:
    """mortal.py in the folder, for `--backbone mortal:build`; returns the file that is there once the signal was sent."""
    marker = folder / "killed"
    (folder / "mortal.py").write_text(SOURCE.format(marker=str(marker), signal=signal, process=process))
    return marker
