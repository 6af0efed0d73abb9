"""However a command ends: an exit code, at most one line, never a traceback."""

import os
import re
import shlex
import signal
import subprocess
import sys
from pathlib import Path

import bad_world
import numpy as np
import pytest
from commands import Commands, assert_refused

from xdops.cli import door, terminal
from xdops.cli.main import main
from xdops.storage.lock import lock, lock_file

SEARCH = shlex.split("search data.npz --out out --seeds 1 --epochs 2 --backbone small --depth 1 1 1 --spaces backbone")


@pytest.fixture
def home(tmp_path: Path) -> Path:
    np.savez(tmp_path / "data.npz", **bad_world.GOOD)
    return tmp_path


@pytest.mark.parametrize("stdout", ["head", "closed", "full"])
@pytest.mark.parametrize(
    "argv", [["--help"], ["ops", "--help"], ["data", "darcy", "--samples=2", "--size=9", "--out=d.npz"], SEARCH]
)
def test_nobody_reading_is_no_traceback(stdout: str, argv: list[str], home: Path, commands: Commands) -> None:
    ending = commands.run(argv, home, stdout=stdout)
    assert ending.code == {"head": 141, "closed": 0, "full": 2}[stdout]
    assert ending.err.count("\n") == (1 if stdout == "full" else 0), ending.err


@pytest.mark.parametrize("encoding", ["ascii", "latin-1", "utf-8"])
def test_any_terminal_can_show_everything(encoding: str, home: Path, commands: Commands) -> None:
    (home / "d\u00e4ta \U0001f600 [bold].npz").write_bytes((home / "data.npz").read_bytes())
    words = [w if w != "data.npz" else "d\u00e4ta \U0001f600 [bold].npz" for w in SEARCH]
    ending = commands.run([w if w != "out" else "[red]out[/red]" for w in words], home, encoding=encoding)
    assert (ending.code, ending.err) == (0, "")
    assert "[bold].npz" in ending.out
    assert "Report: [red]out[/red]/report.html" in ending.out


@pytest.mark.parametrize("after", [0.0, 0.02, 0.1, 0.3, 0.6])
def test_ctrl_c_at_any_moment_is_130_and_the_same_command_goes_on(after: float, home: Path, commands: Commands) -> None:
    ending = commands.run([*SEARCH, "--resume"], home, signals=[(after, signal.SIGINT)])
    assert ending.code in (0, 130)
    assert "Traceback" not in ending.err
    assert ending.err.count("\n") <= 2
    assert commands.run([*SEARCH, "--resume"], home).code == 0


def test_a_library_that_turns_ctrl_c_into_another_error_is_still_an_interruption(capfd) -> None:
    def load() -> int:
        try:
            signal.raise_signal(signal.SIGINT)
        except KeyboardInterrupt:
            raise ImportError("initialization failed") from None
        return 0

    assert door.through(load, ["search"]) == 130
    assert capfd.readouterr().err == "xdops: stopped by Ctrl-C\n"
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler


TELLER = """
class Teller:
    def find_spec(self, name, path=None, target=None):
        if name == "torch":
            print("here", flush=True)
"""


def test_ctrl_c_while_python_imports_us_is_no_traceback(home: Path) -> None:
    """The console script's own lines; the signal comes as soon as torch is looked for."""
    script = "import sys; from xdops.cli.main import main; sys.meta_path.insert(0, Teller()); sys.exit(main())"
    script = f"{TELLER}\n{script}"
    process = subprocess.Popen(
        [sys.executable, "-c", script, "ops"], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, cwd=home
    )
    assert process.stdout is not None
    process.stdout.readline()
    process.send_signal(signal.SIGINT)
    _, errors = process.communicate()
    assert process.returncode == 130
    assert "Traceback" not in errors


def test_ctrl_c_while_something_is_cleared_away_is_no_traceback() -> None:
    program = """
from xdops.cli import door
class Late:
    def __init__(self, error): self.error = error
    def __del__(self): raise self.error
door.prepare(own_process=True)
Late(KeyboardInterrupt())
Late(KeyError("told"))
"""
    ended = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
    assert ended.returncode == 0
    assert "KeyboardInterrupt" not in ended.stderr
    assert "KeyError: 'told'" in ended.stderr


def test_a_terminal_without_columns_is_still_printed_to(monkeypatch, capsys) -> None:
    monkeypatch.setenv("COLUMNS", "0")
    terminal.console().print("60 predictions")
    assert capsys.readouterr().out == "60 predictions\n"


def test_a_name_without_end_is_cut_short() -> None:
    assert len(door.one_line(f"given {'x' * 5000}.npz; expected a file")) < 300


def test_the_module_of_the_console_script_imports_nothing_heavy() -> None:
    code = "import sys; import xdops.cli.main; print([m for m in ('torch', 'numpy', 'tyro', 'rich') if m in sys.modules])"
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout == "[]\n"


def test_python_m_xdops_ends_as_xdops_does(home: Path) -> None:
    ending = subprocess.run([sys.executable, "-m", "xdops", "opps"], capture_output=True, text=True, cwd=home, check=False)
    assert ending.returncode == 2
    assert ending.stderr.startswith("xdops: given command 'opps'")


def test_a_current_folder_that_is_gone_is_one_line(tmp_path: Path, monkeypatch, capsys) -> None:
    (tmp_path / "gone").mkdir()
    monkeypatch.chdir(tmp_path / "gone")
    (tmp_path / "gone").rmdir()
    assert main(SEARCH) == 2
    assert "given a current folder that is gone" in capsys.readouterr().err


def test_a_mistake_of_ours_is_one_line_that_names_a_log_with_the_traceback(monkeypatch, capsys, tmp_path: Path) -> None:
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))

    def broken(words: object) -> int:
        raise LookupError("two\nlines")

    monkeypatch.setattr("xdops.cli.main.dispatch", broken)
    assert main(["ops", "--seed", "3"]) == 70
    printed = capsys.readouterr().err
    assert printed.count("\n") == 1
    found = re.search(r"LookupError: two\. The traceback is in (\S+\.log)", printed)
    assert found is not None
    log = Path(found[1]).read_text()
    assert "Traceback" in log
    assert "'--seed' '3'" in log


@pytest.mark.parametrize(
    ("error", "code", "words"),
    [
        (MemoryError(), 2, "does not fit into memory"),
        (RuntimeError("[enforce fail] DefaultCPUAllocator: can't allocate memory: you tried to allocate 9 bytes"), 2, "memory"),
        (KeyboardInterrupt(), 130, "stopped by Ctrl-C"),
        (PermissionError(13, "Permission denied", "/root/x"), 2, r"given /root/x \(Permission denied\)"),
        (SystemExit(0), 70, "a mistake of ours: SystemExit: 0"),
        (GeneratorExit(), 70, "a mistake of ours: GeneratorExit"),
        (OSError(28, "No space left on device"), 2, "No space left"),
        (OSError(27, "File too large"), 2, "an output that cannot be printed to .*files that were written before are whole"),
        (ImportError("library.so: failed to map segment from shared object"), 2, "does not fit into memory"),
    ],
)
def test_what_is_no_mistake_of_ours_is_told_as_what_it_is(error: BaseException, code: int, words: str, capfd) -> None:
    def action() -> int:
        raise error

    saved, stdout = os.dup(1), sys.stdout
    try:
        assert door.through(action, ["ops"]) == code
    finally:
        os.dup2(saved, 1)
        os.close(saved)
        sys.stdout = stdout
    printed = capfd.readouterr().err
    assert printed.count("\n") == 1
    assert re.search(words, printed)


@pytest.mark.parametrize("body", ["raise ValueError('THREADS must be > 0')", "import no_such_library", "import inner_library"])
def test_a_library_that_cannot_be_loaded_is_named(body: str, tmp_path: Path, monkeypatch, capfd) -> None:
    (tmp_path / "broken_library.py").write_text(body)
    (tmp_path / "inner_library.py").write_text("1 / 0")
    monkeypatch.syspath_prepend(tmp_path)

    def action() -> int:
        import broken_library  # type: ignore[import-not-found]

        return broken_library.code

    assert door.through(action, ["ops"]) == 2
    printed = capfd.readouterr().err
    assert re.match(r"xdops: given (broken|no_such)_library, which cannot be loaded \(\w+: .*\); expected .*; try: ", printed)


def test_a_notebooks_choice_of_windows_is_none_of_ours(home: Path, commands: Commands) -> None:
    ending = commands.run([*SEARCH, "-q"], home, env={"MPLBACKEND": "nonsense", "MPLCONFIGDIR": str(home / "data.npz")})
    assert (ending.code, ending.err) == (0, "")
    assert (home / "out" / "report.html").exists()


def test_a_terminal_is_never_told_what_to_do_by_a_name(home: Path, commands: Commands) -> None:
    name = "d\x1b[2J\x9b31m\u202e.npz"
    (home / name).write_bytes((home / "data.npz").read_bytes())
    ending = commands.run([w if w != "data.npz" else name for w in [*SEARCH, "-q"]], home)
    assert (ending.code, ending.err) == (0, "")
    assert "d\\x1b[2J\\x9b31m\\u202e.npz" in ending.out
    assert not re.search("[\x1b\x9b\u202e]", ending.out)


def test_work_that_does_not_fit_into_memory_is_refused(home: Path, commands: Commands) -> None:
    np.savez(home / "large.npz", x=np.arange(4e6).reshape(200, 20_000), y=np.arange(200) % 2)
    words = [w if w != "data.npz" else "large.npz" for w in SEARCH]
    ending = commands.run([*words, "--batch-size", "140"], home, memory=60_000_000)
    assert_refused(ending, "memory")
    assert not (home / "out").exists()


def test_a_disk_without_room_is_refused_before_anything_is_written(home: Path, commands: Commands) -> None:
    """Writing stops at 8 kB per file, as a disk or a quota does."""
    ending = commands.run([*SEARCH, "--spaces", "xd"], home, file_size=8_000)
    assert_refused(ending, r"a full disk.*go on: xdops search data.npz .*--resume$")
    assert sorted(p.name for p in home.iterdir()) == ["data.npz"]


def test_a_name_that_is_no_text_is_refused_as_a_folder_and_shown_as_far_as_it_goes(home: Path, commands: Commands) -> None:
    os.rename(home / "data.npz", os.fsencode(home) + b"/d\xff.npz")
    words = [w if w != "data.npz" else "d\udcff.npz" for w in SEARCH]
    assert_refused(commands.run([w for w in words if w not in ("--out", "out")], home), "no text in UTF-8")
    assert len(os.listdir(home)) == 1
    assert commands.run(words, home).code == 0
    assert "xdops search: d?.npz" in (home / "out" / "report.html").read_text()


def test_control_characters_stay_on_the_line() -> None:
    assert door.one_line("a\nb\x1b[31m\udcff") == "a\\nb\\x1b[31m\\udcff"


def test_two_processes_on_one_folder_the_second_is_told(home: Path, commands: Commands) -> None:
    with lock(home / "out"):
        assert_refused(commands.run([*SEARCH, "-q"], home), f"out, which process {os.getpid()} on .* is using")


def test_two_processes_on_one_data_file_the_second_is_told(home: Path, commands: Commands) -> None:
    words = ["data", "darcy", "--samples=2", "--size=9", "--out=d.npz"]
    with lock_file(home / "d.npz"):
        assert_refused(commands.run(words, home), f"d.npz, which process {os.getpid()} on .* is using")
    assert commands.run(words, home).code == 0
    assert sorted(p.name for p in home.iterdir()) == ["d.npz", "data.npz"]
