"""`xdops export`: a network that a search has found, as one file for other programs."""

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import tyro

from xdops.cli.chosen import Chosen
from xdops.cli.terminal import console
from xdops.experiments.deployed import Deployed, notes_of, raw_example
from xdops.experiments.trial import blaming
from xdops.spaces.exporting import check_path, export


@dataclass(frozen=True)
class Export(Chosen):
    """Write a network that `xdops search` has found to one file that other programs run: ONNX, or torch's exported program.

    The file takes a batch of any size of arrays as in the data, in their own layout and units: scaling is inside, real arithmetic
    only. It gives `probability` for classes, otherwise `prediction` in the units of the targets. Before it is written, what it
    computes is compared with the network on random inputs, and the largest relative error is printed. After a search with --crop
    the file is for one window, after one with --causal direct for the longest length. Large networks take a few minutes.

    examples:
      xdops export runs/ecg ecg.onnx                 needs the extra: pip install 'xdops[onnx]'
      xdops export runs/ecg ecg.pt2 --space xd --seed 1
    """

    out: Annotated[Path, tyro.conf.Positional, tyro.conf.arg(metavar="FILE")]
    """The new file: NAME.onnx or NAME.pt2."""

    def run(self) -> int:
        check_path(self.out)
        finished = self.open_run()
        space, seed = self.choose(finished)
        reading = finished.reading
        network = Deployed(finished.best(space, seed), reading).eval()
        masked = space == "xd" and finished.network.causal == "direct"  # operations that are others at every step: for one length
        free = (0, 1) if reading.request.ragged and not masked else (0,)
        example = raw_example(reading)
        with blaming(finished.network.backbone, "on random inputs", "mend it"):
            exported = export(network, example, self.out, free, notes_of(reading))
        window = " of one window" if reading.cropped else ""
        shape = ", ".join("any" if dim in free else str(n) for dim, n in enumerate(example.shape))
        dtype = str(example.dtype).removeprefix("torch.")
        console().print(f"{space}, seed {seed}, for {dtype} inputs{window} ({shape})\n{exported}", soft_wrap=True)
        return 0
