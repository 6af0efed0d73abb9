"""A warm process that runs `xdops` commands, each in a fork of itself, as the console script would: started by `commands.py`.

A request is a JSON line: argv, cwd, and optionally env, stdout ("closed", "full", "head"), encoding, memory and file_size (limits
in bytes), signals (pairs of seconds and the number of a signal). The answer is a JSON line: code (negative: a signal), out, err.
"""

import contextlib
import gc
import io
import json
import os
import resource
import signal
import sys
import tempfile
import time
import traceback
from pathlib import Path

import torch

from xdops.cli.main import COMMANDS, main

PATIENCE = 120.0
#: Whatever the command makes of it: a child that went on would clear away its parent's folders.
END = os._exit


def child(request: dict, out: int, err: int) -> None:
    """Never returns."""
    code = 99
    try:
        os.chdir(request["cwd"])
        os.environ.update(request.get("env", {}))
        source = os.open(os.devnull, os.O_RDONLY)
        os.dup2(source, 0)
        os.dup2(err, 2)
        where = request.get("stdout")
        if where == "full":
            os.dup2(os.open("/dev/full", os.O_WRONLY), 1)
        elif where == "head":  # a pipe that nobody reads any more
            reader, writer = os.pipe()
            os.dup2(writer, 1)
            os.close(reader)
        else:
            os.dup2(out, 1)
        encoding = request.get("encoding", "utf-8")
        sys.stdout, sys.stderr = (
            os.fdopen(1, "w", encoding=encoding),
            os.fdopen(2, "w", encoding=encoding, errors="backslashreplace"),
        )
        if where == "closed":
            os.close(1)
            sys.stdout = None  # as Python has it then
        if "memory" in request:
            used = int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()
            resource.setrlimit(resource.RLIMIT_AS, (used + request["memory"],) * 2)
        if "file_size" in request:
            resource.setrlimit(resource.RLIMIT_FSIZE, (request["file_size"],) * 2)
        sys.argv = ["xdops", *(os.fsdecode(word.encode("utf-8", "surrogateescape")) for word in request["argv"])]
        sys.path[:] = [p for p in sys.path if p not in ("", os.getcwd())]
        signal.signal(signal.SIGINT, signal.default_int_handler)
        code = main()
        if sys.stdout is not None:
            sys.stdout.flush()
    except BaseException:
        traceback.print_exc()
        code = 98
    finally:
        signal.signal(signal.SIGINT, signal.SIG_IGN)
        sys.stderr.flush()
        END(code)


def run(request: dict) -> dict:
    with tempfile.TemporaryFile() as out, tempfile.TemporaryFile() as err:
        pid = os.fork()
        if pid == 0:
            child(request, out.fileno(), err.fileno())
        started, code = time.monotonic(), None
        signals = [tuple(pair) for pair in request.get("signals", ())]
        while code is None:
            found, status = os.waitpid(pid, os.WNOHANG)
            waited = time.monotonic() - started
            if found:
                code = os.waitstatus_to_exitcode(status)
            elif signals and waited > signals[0][0]:
                os.kill(pid, signals.pop(0)[1])
            elif waited > PATIENCE:
                os.kill(pid, signal.SIGKILL)
            else:
                time.sleep(0.002)
        out.seek(0)
        err.seek(0)
        return {"code": code, "out": out.read().decode(errors="replace"), "err": err.read().decode(errors="replace")}


def warm_up() -> None:
    """Everything that a command imports or prepares before it looks at its input is done once, here."""
    torch.set_num_threads(1)
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # until a command begins
    for name, command in COMMANDS.items():
        command.load()
        with contextlib.redirect_stdout(io.StringIO()):
            main([name, "--help"])


if __name__ == "__main__":
    warm_up()
    gc.freeze()  # what is shared stays shared
    print(json.dumps("ready"), flush=True)
    for line in sys.stdin:
        print(json.dumps(run(json.loads(line))), flush=True)
