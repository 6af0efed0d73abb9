"""Steps of training that count for nothing: what would fail in training fails here, and how long it will take is known.

What a user's network does later, in any epoch, is told in the same words.
"""

import dataclasses
import re
import sys
import time
import traceback
from collections.abc import Iterator
from contextlib import contextmanager

from torch import nn
from torch.multiprocessing import ProcessRaisedException

from xdops.errors import XDError, first_line, is_memory, last_line, several
from xdops.search import Diverged, Interrupted, Problem, SearchSettings
from xdops.search.batches import step_count
from xdops.search.distributed import make_fabric, under_torchrun
from xdops.search.loop import Loop
from xdops.search.seeds import reproducible

#: Seconds, at least, that an epoch takes beside its steps: validation, checkpoints that are on the disk, metrics.
SAVING = 0.02


def check_training(network: nn.Module, problem: Problem, settings: SearchSettings, name: str) -> float:
    """Seconds of an epoch, from two steps of training, the smallest included; the network is spoilt by them.

    Under torchrun, where no step can be made by the first process alone, nothing is tried.
    """
    if under_torchrun():
        return 0.0
    with reproducible():
        loop = Loop(make_fabric(dataclasses.replace(settings, processes=1)), network, problem, settings)
        steps = loop.begin_epoch()
        seconds = []
        for step in (min(steps, key=lambda s: s.examples), steps[0]):
            started = time.monotonic()
            try:
                loop.step(step, stop=False)
            except Diverged as error:
                expected = "numbers that stay near where they began; nothing was written"
                raise Diverged(error.given, expected, error.hint) from error
            except BaseException as error:
                if isinstance(error, XDError | KeyboardInterrupt) or is_memory(error):
                    raise
                examples = several(step.examples, "example")
                raise XDError(
                    f"backbone {name}, which fails in training on {examples} ({first_line(error)})",
                    "a network that can be trained",
                    "another --batch-size if it is the last, smaller batch; or mend the backbone",
                ) from error
            seconds.append(time.monotonic() - started)
    return SAVING + min(seconds) * step_count(len(problem.train), settings)


@contextmanager
def telling_which(run: str) -> Iterator[None]:
    """Of several runs, which one has diverged."""
    try:
        yield
    except Diverged as error:
        raise error.of(run) from error


@contextmanager
def blaming(backbone: str, when: str = "in training", hint: str = "mend it, then --resume") -> Iterator[None]:
    """What comes out of the module of a user's backbone is no mistake of ours: its line is named. SystemExit, too: what asks Python
    to leave in the middle of our work would pass for its end. KeyboardInterrupt alone is what it seems."""
    try:
        yield
    except (XDError, Interrupted, KeyboardInterrupt):
        raise
    except BaseException as error:
        place = _last_line_in(backbone.partition(":")[0], error)
        if place is None or is_memory(error):
            raise
        said = last_line(error) if isinstance(error, ProcessRaisedException) else first_line(error)
        raise XDError(
            f"backbone {backbone}, which fails {when} ({said}, in {place})", "a network that works to the end", hint
        ) from error


def _last_line_in(module: str, error: BaseException) -> str | None:
    """FILE line NUMBER of the module, where the error comes from there; also in a process that was started, which sends text."""
    frames = [(frame, line) for frame, line in traceback.walk_tb(error.__traceback__) if frame.f_globals["__name__"] == module]
    if frames:
        return f"{frames[-1][0].f_code.co_filename} line {frames[-1][1]}"
    file = getattr(sys.modules.get(module), "__file__", None)
    if file is None or not isinstance(error, ProcessRaisedException):
        return None
    lines = re.findall(rf'File "{re.escape(file)}", line (\d+)', str(error))
    return f"{file} line {lines[-1]}" if lines else None
