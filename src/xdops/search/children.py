"""Data-parallel processes that a run starts on this machine: what they return, and how they may end.

A user's network may end any of them in any way, with a good exit code too: none is waited for that is gone.
"""

import logging
import os
import pickle
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from multiprocessing.connection import Connection
from typing import Any

from lightning_fabric.plugins.environments.lightning import find_free_network_port
from torch import multiprocessing, nn
from torch.multiprocessing import ProcessContext, ProcessExitedException, ProcessRaisedException

from xdops.errors import XDError, first_line, last_line
from xdops.search.distributed import OwnProcesses, launch, make_fabric
from xdops.search.settings import SearchSettings
from xdops.search.signals import stop_with_parent

logging.getLogger("torch.multiprocessing.spawn").setLevel(logging.ERROR)  # that the others end with one that died is told in a line

#: What the others say when one of them is killed.
_GONE = ("Connection closed by peer", "Connection reset by peer", "Broken pipe")
#: Exit code of a process that was interrupted from within.
_INTERRUPTED = 130
#: Seconds between two looks for an answer.
_LOOK = 0.1


class ChildGone(XDError):
    """A process of the run ended before it was done."""

    def __init__(self, how: str) -> None:
        super().__init__(
            f"a process of the run that ended before it was done ({how})",
            "processes that live as long as the run",
            "look for what ended it (memory is the usual cause, or a network that ends Python), then resume",
        )


def in_children(settings: SearchSettings, function: Callable[..., Any], network: nn.Module, *arguments: Any) -> Any:
    """function(fabric, network, *arguments) in each of `settings.processes` processes; what the first of them returns."""
    check_sendable(network, *arguments)
    reader, writer = multiprocessing.get_context("spawn").Pipe(duplex=False)
    # Of tensors that are sent as they are all processes share the memory: good for data, not for a network.
    sent = (find_free_network_port(), writer, settings, function, pickle.dumps(network), arguments)
    try:
        with _quiet_children():
            started = multiprocessing.start_processes(_child, sent, settings.processes, join=False)
        writer.close()
        return _answer(started, reader)
    except ProcessExitedException as error:
        if error.exit_code == _INTERRUPTED:
            raise KeyboardInterrupt from error
        raise ChildGone(last_line(error)) from error
    except ProcessRaisedException as error:
        if any(words in str(error) for words in _GONE):
            raise ChildGone("another one tells that its connection is closed") from error
        raise
    finally:
        reader.close()


def _answer(started: ProcessContext, reader: Connection) -> Any:
    """Of the first process. It is read while processes are waited for: who sends a long one ends only when it is heard."""
    found: list[Any] = []
    ended = False
    while not ended:
        ended = started.join(timeout=_LOOK)
        if not found and reader.poll():
            with suppress(EOFError):  # nobody is left who could answer
                found = [reader.recv()]
    if not found:
        raise ChildGone("all of them, with exit code 0 and without a word")
    return found[0]


def _child(
    rank: int,
    port: int,
    writer: Connection,
    settings: SearchSettings,
    function: Callable[..., Any],
    network: bytes,
    arguments: tuple[Any, ...],
) -> None:
    """A started process. The ways to end that would say nothing to the one that waits are made to say something."""
    stop_with_parent()  # from the beginning, as the others are waited for next: who is left behind would wait for half an hour
    os.environ["LOCAL_RANK"] = str(rank)  # for a user's network that asks which one it is
    try:
        fabric = make_fabric(settings, OwnProcesses(rank, port))
        answer = launch(fabric, function, pickle.loads(network), *arguments)
    except KeyboardInterrupt:
        sys.exit(_INTERRUPTED)
    except BaseException as error:
        if isinstance(error, Exception):
            raise
        raise RuntimeError(first_line(error)) from error
    if rank == 0:
        writer.send(answer)


@contextmanager
def _quiet_children() -> Iterator[None]:
    """Processes that are started do not each warn that they look for unused parameters and find none."""
    name = "TORCH_CPP_LOG_LEVEL"
    given = name in os.environ
    os.environ.setdefault(name, "ERROR")
    try:
        yield
    finally:
        if not given:
            os.environ.pop(name, None)


def check_sendable(*arguments: Any) -> None:
    """Refuse what cannot be sent to another process, before any is started."""
    for argument in arguments:
        try:
            pickle.dumps(argument)
        except Exception as error:
            raise XDError(
                f"{type(argument).__name__}, which cannot be sent to another process ({error})",
                "importable functions and modules without parametrizations when processes > 1",
                "torchrun --nproc-per-node 2, which sends nothing",
            ) from error
