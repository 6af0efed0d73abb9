"""The `xdops` command: a table of subcommands, each a frozen dataclass that tyro fills and whose `run()` gives the exit code."""

import importlib
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True)
class Command:
    """Where a subcommand lives. Its module is imported only when it is called, so that `xdops --help` stays quick."""

    module: str
    dataclass: str
    summary: str

    def load(self) -> Any:
        return getattr(importlib.import_module(self.module), self.dataclass)


#: A new command is one line here, and a frozen dataclass with `run(self) -> int` in a module beside this one.
COMMANDS = {
    "search": Command("xdops.cli.search", "Search", "search operations for your data, and say whether it helped"),
    "predict": Command("xdops.cli.predict", "Predict", "predictions of a network that a search has found"),
    "export": Command("xdops.cli.export", "Export", "a network that a search has found, as ONNX or torch's exported program"),
    "reproduce": Command("xdops.cli.reproduce", "Reproduce", "the paper's tables and figures, beside the paper's numbers"),
    "plan": Command("xdops.cli.plan", "Plan", "what a table of the paper would take, from a few measured steps"),
    "data": Command("xdops.cli.data", "Data", "data of Burgers' equation, Darcy flow and Navier-Stokes, from real solvers"),
    "bench": Command("xdops.cli.bench", "Bench", "what an XD-operation costs against the convolution it replaces"),
    "ops": Command("xdops.cli.ops", "Ops", "all named operations, checked against independent implementations"),
}


def usage() -> str:
    width = max(len(name) for name in COMMANDS)
    listing = "\n".join(f"  {name:<{width}}  {command.summary}" for name, command in COMMANDS.items())
    return f"usage: xdops COMMAND [options]\n\ncommands:\n{listing}\n\nxdops COMMAND --help says what a command takes."


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one subcommand; see `xdops.cli.door` for how it can end. Everything else is imported inside: Ctrl-C is answered early."""
    words = list(sys.argv[1:] if arguments is None else arguments)
    try:
        from xdops.cli import door

        try:
            door.prepare(own_process=arguments is None)
            return door.through(lambda: dispatch(words), words)
        finally:
            if arguments is None:
                door.leave()
    except KeyboardInterrupt:
        return 130


def dispatch(words: Sequence[str]) -> int:
    """The subcommand's exit code."""
    if not words or words[0] in ("-h", "--help"):
        print(usage())
        return 0 if words else 2
    if words[0] == "--version":
        from xdops import __version__

        print(f"xdops {__version__}")
        return 0
    from xdops.cli.words import check_here, fill, in_flags
    from xdops.errors import XDError

    name, *rest = words
    if name not in COMMANDS:
        raise XDError(f"command {name!r}", f"one of {', '.join(COMMANDS)}", "xdops --help")
    check_here()
    command = fill(COMMANDS[name].load(), rest, f"xdops {name}")
    if command is None:
        return 0
    try:
        return int(command.run())
    except XDError as error:
        raise in_flags(error, command) from error


if __name__ == "__main__":
    sys.exit(main())
