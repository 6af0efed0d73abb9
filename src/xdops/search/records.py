"""metrics.jsonl and TensorBoard: one entry per epoch, none twice.

TensorBoard also shows how far every layer has moved, and after epochs 1, 2, 4, 8, ... and the last one what the operations have
become: the matrix Re(K diag(L w) M) of the mean filter w in each dimension, blue negative, red positive.
"""

import json
from collections.abc import Mapping
from pathlib import Path

from torch import nn
from torch.utils.tensorboard import SummaryWriter

from xdops.search.folder import METRICS, TENSORBOARD
from xdops.search.pictures import operator_pictures
from xdops.search.results import EpochRecord
from xdops.storage.files import append_line, disk_error, write_file


class Records:
    """Both logs of a run, continued after the epochs already done."""

    def __init__(self, out: Path, done: list[EpochRecord], epochs: int) -> None:
        """epochs: of the whole run."""
        self._epochs = epochs
        self._lines, folder = out / METRICS, out / TENSORBOARD
        # A run that was killed may have written more than its checkpoint knows: both logs go back to the checkpoint.
        write_file(self._lines, "".join(json.dumps(r.to_dict()) + "\n" for r in done).encode())
        self._folder = folder
        try:
            self._writer = SummaryWriter(str(folder), purge_step=len(done) + 1)
        except OSError as error:
            raise disk_error(folder, 0, error) from error

    def add(self, record: EpochRecord, moved: Mapping[str, float], network: nn.Module) -> None:
        """moved: novelty by layer."""
        append_line(self._lines, json.dumps(record.to_dict()))
        try:
            for name, value in record.to_dict().items():
                if name != "epoch":
                    self._writer.add_scalar(name.replace("_", "/", 1), value, record.epoch)
            for layer, value in moved.items():
                self._writer.add_scalar(f"novelty of layers/{layer}", value, record.epoch)
            if record.epoch & (record.epoch - 1) == 0 or record.epoch == self._epochs:
                for name, picture in operator_pictures(network):
                    self._writer.add_image(name, picture, record.epoch)
            self._writer.flush()
        except OSError as error:
            raise disk_error(self._folder, 0, error) from error

    def close(self) -> None:
        self._writer.close()
