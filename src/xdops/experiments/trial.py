"""Steps of training that count for nothing: what would fail in training fails here, and how long it will take is known.

What a user's network does later, in any epoch, is told in the same words.
"""

import dataclasses
import time
import traceback
from collections.abc import Iterator
from contextlib import contextmanager

from torch import nn

from xdops.errors import XDError, first_line, is_memory, several
from xdops.search import Diverged, Interrupted, Problem, SearchSettings
from xdops.search.batches import step_count
from xdops.search.distributed import make_fabric, under_torchrun
from xdops.search.loop import Loop
from xdops.search.seeds import reproducible


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
            except Exception as error:
                if isinstance(error, XDError) or is_memory(error):
                    raise
                examples = several(step.examples, "example")
                raise XDError(
                    f"backbone {name}, which fails in training on {examples} ({type(error).__name__}: {error})",
                    "a network that can be trained",
                    "another --batch-size if it is the last, smaller batch; or mend the backbone",
                ) from error
            seconds.append(time.monotonic() - started)
    return min(seconds) * step_count(len(problem.train), settings)


@contextmanager
def telling_which(run: str) -> Iterator[None]:
    """Of several runs, which one has diverged."""
    try:
        yield
    except Diverged as error:
        raise error.of(run) from error


@contextmanager
def blaming(backbone: str) -> Iterator[None]:
    """What comes out of the module of a user's backbone is no mistake of ours: its line is named."""
    try:
        yield
    except (XDError, Interrupted):
        raise
    except Exception as error:
        module = backbone.partition(":")[0]
        frames = [(frame, line) for frame, line in traceback.walk_tb(error.__traceback__) if frame.f_globals["__name__"] == module]
        if not frames or is_memory(error):
            raise
        frame, line = frames[-1]
        raise XDError(
            f"backbone {backbone}, which fails in training ({first_line(error)}, in {frame.f_code.co_filename} line {line})",
            "a network that can be trained to the end",
            "mend it, then --resume",
        ) from error
