"""Ctrl-C and SIGTERM as a wish to stop after the step at hand."""

import multiprocessing
import os
import signal
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType

#: Signals this close together are one wish: a terminal and a launcher (torchrun, a parent process) both pass it on.
_SAME_WISH = 0.5


class StopRequest:
    """Whether somebody asked to stop, and since when."""

    def __init__(self, announce: bool, forward: bool) -> None:
        self._announce, self._forward = announce, forward
        self._since: float | None = None

    @property
    def requested(self) -> bool:
        return self._since is not None

    def receive(self, number: int, frame: FrameType | None) -> None:
        """The signal handler: the first wish is noted, a second one quits at once."""
        if self._since is None:
            self._since = time.monotonic()
            if self._announce:
                print("\nfinishing the step and saving; Ctrl-C again quits at once", file=sys.stderr, flush=True)
            if self._forward:
                self._signal_children(signal.SIGTERM)
        elif time.monotonic() - self._since > _SAME_WISH:
            if self._forward:
                self._signal_children(signal.SIGKILL if hasattr(signal, "SIGKILL") else signal.SIGTERM)
            raise KeyboardInterrupt

    def _signal_children(self, number: int) -> None:
        for child in multiprocessing.active_children():
            if child.pid is not None:
                os.kill(child.pid, number)


@contextmanager
def stop_on_signals(announce: bool = True, forward: bool = False) -> Iterator[StopRequest]:
    """Note SIGINT and SIGTERM instead of dying of them; the handlers before are restored. forward: to child processes as well.

    Only the main thread receives signals: in any other nothing is changed.
    """
    request = StopRequest(announce, forward)
    if threading.current_thread() is not threading.main_thread():
        yield request
        return
    numbers = (signal.SIGINT, signal.SIGTERM)
    before = {number: signal.signal(number, request.receive) for number in numbers}
    try:
        yield request
    finally:
        for number, handler in before.items():
            # None: installed by something that is not Python, which cannot be put back.
            signal.signal(number, signal.SIG_DFL if handler is None else handler)


def stop_with_parent() -> None:
    """Ask this process to stop once the one that started it is gone, however it went: nobody else would, and it holds a lock."""
    parent = multiprocessing.parent_process()
    assert parent is not None

    def watch() -> None:
        parent.join()
        os.kill(os.getpid(), signal.SIGTERM)

    threading.Thread(target=watch, daemon=True).start()
