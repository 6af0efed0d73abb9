"""The `xdops` command: a table of subcommands, each a frozen dataclass that tyro fills and whose `run()` gives the exit code."""

import importlib
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import tyro

from xdops.errors import XDError


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
    "reproduce": Command("xdops.cli.reproduce", "Reproduce", "the paper's tables and figures, beside the paper's numbers"),
    "data": Command("xdops.cli.data", "Data", "data of Burgers' equation, Darcy flow and Navier-Stokes, from real solvers"),
    "bench": Command("xdops.cli.bench", "Bench", "what an XD-operation costs against the convolution it replaces"),
    "ops": Command("xdops.cli.ops", "Ops", "all named operations, checked against independent implementations"),
}

#: What the shell sees when the input was wrong, as for every Unix tool.
BAD_INPUT = 2


def usage() -> str:
    width = max(len(name) for name in COMMANDS)
    listing = "\n".join(f"  {name:<{width}}  {command.summary}" for name, command in COMMANDS.items())
    return f"usage: xdops COMMAND [options]\n\ncommands:\n{listing}\n\nxdops COMMAND --help says what a command takes."


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one subcommand; an XDError becomes one message on stderr."""
    given = list(sys.argv[1:] if arguments is None else arguments)
    if not given or given[0] in ("-h", "--help"):
        print(usage())
        return 0 if given else BAD_INPUT
    if given[0] == "--version":
        from xdops import __version__

        print(f"xdops {__version__}")
        return 0
    name, *rest = given
    try:
        if name not in COMMANDS:
            raise XDError(f"command {name!r}", f"one of {', '.join(COMMANDS)}", "xdops --help")
        command = tyro.cli(COMMANDS[name].load(), args=rest, prog=f"xdops {name}")
        return int(command.run())
    except XDError as error:
        print(f"xdops: {error}", file=sys.stderr)
        return BAD_INPUT


if __name__ == "__main__":
    sys.exit(main())
