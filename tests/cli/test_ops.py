"""The command line: what `xdops`, `xdops ops` and mistakes print, and their exit codes."""

import re
import subprocess
import sys

import pytest

from xdops import __version__, named
from xdops.cli import ops
from xdops.cli.main import COMMANDS, main


def test_ops_prints_every_operation_with_a_small_error(capsys):
    assert main(["ops", "--inputs", "2"]) == 0
    printed = capsys.readouterr().out
    errors = [float(e) for e in re.findall(r"\d\.\de[+-]\d\d", printed.split("all within")[0])]
    assert len(errors) == len(list(ops.checks()))
    assert max(errors) < 1e-5
    assert "(1, 4, 1)" in printed


def test_every_constructor_is_in_the_table(monkeypatch):
    called = set()
    for name in named.__all__:
        make = getattr(named, name)

        def recorded(*args, _name=name, _make=make, **options):
            called.add(_name)
            return _make(*args, **options)

        monkeypatch.setattr(named, name, recorded)
    list(ops.checks())
    assert called == set(named.__all__)


def test_ops_fails_if_an_operation_is_not_what_it_says(monkeypatch, capsys):
    monkeypatch.setattr(named, "skip", named.zero)
    assert main(["ops", "--inputs", "1"]) == 1
    assert "not skip" in capsys.readouterr().out


@pytest.mark.parametrize(("arguments", "message"), [(["opps"], "'opps'"), (["ops", "--inputs", "0"], "at least 1")])
def test_a_mistake_is_one_line_on_stderr_and_exit_code_2(arguments, message, capsys):
    assert main(arguments) == 2
    printed = capsys.readouterr()
    assert message in printed.err
    assert printed.err.startswith("xdops: given ")
    assert len(printed.err.splitlines()) == 1


def test_help_lists_every_command_without_loading_any():
    code = (
        "import sys; from xdops.cli.main import main; main(['--help']);"
        "print([m for m in ('matplotlib', 'sklearn', 'scipy', 'tensorboard', 'ray', 'lightning_fabric') if m in sys.modules])"
    )
    printed = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout
    assert all(name in printed for name in COMMANDS)
    assert printed.rstrip().endswith("[]")


def test_version_and_no_command(capsys):
    assert main(["--version"]) == 0
    assert capsys.readouterr().out == f"xdops {__version__}\n"
    assert main([]) == 2
    assert "usage" in capsys.readouterr().out
