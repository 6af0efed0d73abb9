"""Every bad input: exit code 2, one clear line, nothing written. A new command or flag comes with its bad inputs.

FLAGS holds bad values of every flag of every command, CASES whole commands; a test fails where a flag has none. All of them run in
one folder, which must be afterwards as it was before (see `bad_world.py` for what is in it). Each runs as the console script
would, in a fork of one warm process (`command_server.py`).
"""

import dataclasses
import os
import shlex
import shutil
import typing
from collections.abc import Iterator
from pathlib import Path

import bad_world
import numpy as np
import pytest
import torch
from commands import Commands, assert_refused, snapshot

from xdops.cli.main import COMMANDS

FAST = "--seeds 1 --epochs 1 --backbone small --depth 1 1 1 -q"
SEARCH = f"search data.npz --out new/out {FAST}"
PREDICT = "predict run data.npz -o p.npz"
REPRODUCE = "reproduce complexity --out new/runs --results new/results --docs new/docs"

NAVIER_STOKES = "data navier-stokes --samples 2 --size 8 --solver-size 16 --time 0.1 --step 0.01 --record-every 0.1 --out n.npz"

#: No machine has both kinds of device.
MISSING_DEVICE = "mps" if torch.cuda.is_available() else "cuda"

CORES = os.cpu_count() or 1

WHOLE = ("1.5", "-1", "99999999999999999999")
NUMBER = ("nan", "inf", "-1")
SHARED = "no/such/b.json", "file/b.json", "notes", ("mine.json", "holds something else")

#: A bad value of a flag, alone or with words of the complaint.
Value = str | tuple[str, str]

#: How several runs at a time are made, the same for every command that makes runs.
WORKERS: dict[str, tuple[Value, ...]] = {
    "--workers": (*WHOLE, "0", "100000"),
    "--ray": ("", "nowhere"),
    "--cpus-per-run": (*WHOLE, "0", "100000", (str(4 * CORES + 1), f"from 1 to {4 * CORES}: four threads per core")),
    "--gpus-per-run": (*WHOLE, "1000"),
}

#: Places for runs that are none.
URLS: tuple[Value, ...] = (
    ("nosuch://bucket/mine", "fsspec does not open .*Protocol not known: nosuch"),
    ("s3:/bucket/mine", "with one slash.*s3://bucket"),
    ("sftp://me:secret@host/mine", "a URL with a password in it"),
    "dir://mine::file:///proc", "http://127.0.0.1:1/mine", "memory::", "a::b://c", "file:", "file://file/below", "://",
)  # fmt: skip

#: By command: one that is good, and bad values of every flag that takes some. Those that take none are given one, see `flag_cases`.
FLAGS: dict[str, tuple[str, dict[str, tuple[Value, ...]]]] = {
    "search": (SEARCH, {
        "--spaces": ("", ",", "nas", ("xd,nas", "xd,nas.*some of backbone, darts, xd"), "xd,,nas"),
        "--seeds": (*WHOLE, ("0", "--seeds 0"), "10001", "abc", ""),
        "--seed": WHOLE,
        "--epochs": (*WHOLE, ("0", "given --epochs 0;.*try: --epochs 1"), ("2147483647", "--however-long|--epochs ")),
        "--out": ("file", ("notes", "holds other files"), ("notes/thesis.txt", "is a file"), "file/below", "data.npz", "x" * 300,
                  "/proc/xdops", "/dev/null", ("\udcff", "no text in UTF-8"), *URLS),
        "--x-name": ("", ("ecg", "no array 'ecg'.*which has: x, y"), "x/y", "[bold]", "x\ny"),
        "--y-name": ("", "rhythm", "\udcff"),
        "--layout": ("", ("NCHW", "expected one of NL"), "XYZ", "C"),
        "--kind": ("", "poetry", ("dense", r"a grid like that of x, \(24,\)")),
        "--split": (("0.5 0.5 0.5", "sum to 1"), "nan 0.5 0.5", "1 0 0", "-1 1 1", "0.5 0.5", "0.999999 5e-7 5e-7"),
        "--split-seed": WHOLE,
        "--backbone": ("", "nothing", ("nothing.here:build", "cannot be imported"), ":", "a:", ":b", "os:path",
                       "badbackbone:number", "badbackbone:absent", "badbackbone:nothing", "badbackbone:fails", "badbackbone:wrong",
                       "badbackbone:leaves", ("badbackbone:vanishes", "SystemExit: 0"),
                       ("badbackbone:Leaving", "fails on inputs.*SystemExit: 0"), "badbackbone:Late",
                       ("badbackbone:LeavingLate", r"fails in training on \d+ examples? \(SystemExit: 0\)"),
                       ("badbackbone:Unsayable", r"fails on inputs of shape \(2, 1, 24\): Odd;"),
                       ("badbackbone:Base", "fails on inputs.*BaseException: of no kind"),
                       ("badbackbone:BaseLate", r"fails in training on \d+ examples? \(GeneratorExit"),
                       "badbackbone:Nan", "json:loads"),
        "--lr": (*NUMBER, "0", "1e400", "abc", "", ("1e300", "at most 1e\\+09"), ("1e-320", "learns nothing")),
        "--backbone-lr": (*NUMBER, "0"),
        "--arch-lr": (*NUMBER, ("0", "given --arch-lr 0, which learns nothing.*try: --arch-lr 1e-3"), ("1e300", "at most 1e\\+09")),
        "--warmup": (*WHOLE, ("1", "--warmup 1 of 1 epoch, after which no architecture moves")),
        "--batch-size": (*WHOLE, "0"),
        "--clip": (*NUMBER, "0", "1e-300"),
        "--crop": (*WHOLE, "0", ("3", "--crop 3 for a grid of 24.*at least 8"), ("24", "less than the longest side"), "25"),
        "--domain": ("", "quarter"),
        "--causal": ("", "never", ("direct", "--causal direct with examples of one size"), "windows",
                     ("filters", "--causal filters with examples of one size")),
        "--depth": ("1 1", ("0 1 1", "--depth 0 1 1"), "1 1 17", "1000000 1 1", "-1 1 1", "a b c", "99999999999999999999 1 1"),
        "--precision": ("", "16", "half"),
        "--accelerator": ("", "tpu", (MISSING_DEVICE, f"accelerator {MISSING_DEVICE}.*does not have")),
        "--processes": (*WHOLE, "0", "100000"),
        **WORKERS,
        "--trials": (*WHOLE, "100001"),
        "--ranges": ("missing.toml", "notes", "pipe.npz", "data.npz", *(f"{name}.json" for name in bad_world.JSON), "huge.toml"),
    }),
    "predict": (PREDICT, {
        "--out": (("p.csv", "ends in .npz; try: -o p.npz"), (".npz", "try: -o p.npz"), ("-", "try: -o p.npz"),
                  ("no/such/p.npz", "folder that does not exist"), ("data.npz", "which is the data"),
                  "regression.npz", "folder.npz", "file/p.npz", "pipe.npz", "device.npz", "run/settings.json", f"{'x' * 250}.npz",
                  "", ".", "..", "garbage.npz", "torn.npz", ("thesis.npz", "holds no predictions"), "/proc/p.npz"),
        "--space": (("darts", "--space darts.*expected backbone seed 0"), "", "nas"),
        "--seed": (*WHOLE, ("7", "--seed 7.*expected backbone seed 0")),
        "--x-name": ("ecg", "", "y"),
        "--backbone": (("other:build", "instead of other:build"), ""),
    }),
    "export": ("export run net.pt2", {
        "--space": ("darts", "", "nas"),
        "--seed": (*WHOLE, "7"),
        "--backbone": (("other:build", "instead of other:build"),),
    }),
    "reproduce": (REPRODUCE, {
        "--scale": ("", "huge"),
        "--rows": ("nothing-like-this", "", "["),
        "--seeds": (*WHOLE, "1 1", " ".join(map(str, range(101)))),
        "--out": ("file", "file/below", "/proc/xdops", *URLS),
        "--results": ("file", "file/below", "/proc/xdops"),
        "--docs": ("file", "file/below", "/proc/xdops", "."),
        **WORKERS,
        "--data-dir": (("missing", "data folder missing, which does not exist"), "file", "notes", "~nobody-of-this-name/x",
                       ("datapipes", "no CIFAR-10 in")),
    }),
    "plan": ("plan burgers", {
        "--scale": ("", "huge"),
        "--tflops": (*NUMBER, "0", "abc", "1e9"),
        "--data-dir": (("missing", "complexity"),),
        "--json": SHARED,
    }),
    "bench layers": ("bench layers --no-memory --only cifar-32 --json new.json", {
        "--only": ("nothing", ""),
        "--repetitions": (*WHOLE, "2", "1001"),
        "--json": (*SHARED, "data.npz", "/dev/full", "/proc/b.json", "pipe.npz"),
    }),
    "bench networks": ("bench networks --no-memory --only lenet", {
        "--only": ("nothing", ""),
        "--batch": (*WHOLE, "0", "5000"),
        "--repetitions": (*WHOLE, "2", "1001"),
        "--json": SHARED,
    }),
    "bench sequences": ("bench sequences --only jsb", {
        "--only": ("nothing", ""),
        "--repetitions": (*WHOLE, "2", "1001"),
        "--json": SHARED,
    }),
    "bench compile": ("bench compile --backends aot_eager", {
        "--backends": ("nothing", ""),
        "--repetitions": (*WHOLE, "2", "1001"),
        "--json": SHARED,
    }),
    "bench sweep": ("bench sweep", {
        "--repetitions": (*WHOLE, "2", "1001"),
        "--json": SHARED,
    }),
    "bench document": ("bench document --data . --out results.md", {
        "--data": ("missing", "notes", "data.npz", *((f"bench-{name}", "bench-[a-z]*.json") for name in bad_world.JSON)),
        "--out": ("missing.md", "notes", "data.npz"),
    }),
    "data burgers": ("data burgers --samples 2 --size 64 --out b.npz", {
        "--samples": (*WHOLE, "0", "2147483647"),
        "--size": (*WHOLE, "0", "7", "2147483646"),
        "--seed": WHOLE,
        "--viscosity": (*NUMBER, "0", "abc"),
        "--time": (*NUMBER, "1e12"),
        "--period": (*NUMBER, "1e300", "1e-300"),
        "--steps": (*WHOLE, "0", "2147483647"),
        "--out": ("b.txt", "file/b.npz", "folder.npz", "data.npz", "good.h5", "garbage.h5", "x" * 300 + ".npz", "/proc/b.npz",
                  "pipe.npz", "device.npz", ("begun.npz", "no regular file"), ""),
        "--data-dir": ("file", "/proc/xdops"),
    }),
    "data darcy": ("data darcy --samples 2 --size 9 --out d.npz", {
        "--samples": (*WHOLE, "0", "2147483647"),
        "--size": (*WHOLE, "0", "2", "2147483647"),
        "--seed": WHOLE,
        "--high": (*NUMBER, "1e308", ("1e12", "a ratio of at most")),
        "--low": (*NUMBER, ("12", "permeabilities 12 and 12")),
        "--solver-size": (*WHOLE, "0", "10", "8"),
        "--out": ("b.txt",),
        "--data-dir": ("file", "/proc/xdops"),
    }),
    "data navier-stokes": (NAVIER_STOKES, {
        "--samples": (*WHOLE, "0", "2147483647"),
        "--size": (*WHOLE, "0", "7"),
        "--solver-size": (*WHOLE, "0", "20", "2147483640"),
        "--seed": WHOLE,
        "--viscosity": NUMBER,
        "--time": (*NUMBER, "1e9"),
        "--step": (*NUMBER, "1e-12", "0.03"),
        "--record-every": (*NUMBER, "0", "0.07"),
        "--out": ("b.txt",),
        "--data-dir": ("file", "/proc/xdops"),
    }),
    "ops": ("ops", {"--inputs": (*WHOLE, "0", "10001"), "--seed": WHOLE}),
}  # fmt: skip

#: Flags that the good command above would not look at, and one that does.
BEHIND = {
    ("search", "--ranges"): f"{SEARCH} --trials 4",
    ("predict", "--backbone"): "predict foreign data.npz -o p.npz",
    ("export", "--backbone"): "export foreign net.pt2",
    ("reproduce", "--data-dir"): "reproduce cifar --out new/runs --results new/results --docs new/docs",
    ("plan", "--data-dir"): "plan complexity",
    ("data burgers", "--data-dir"): "data burgers --samples 2 --size 64",
    ("data darcy", "--data-dir"): "data darcy --samples 2 --size 9",
    ("data navier-stokes", "--data-dir"): NAVIER_STOKES.removesuffix(" --out n.npz"),
}


def search(name: str, *flags: str) -> str:
    return shlex.join(["search", name, "--out", "new", *FAST.split(), *flags])


#: Commands by what is wrong with them, and a word of the complaint.
CASES: dict[str, str] = {
    "opps": "'opps'",
    "--verbose": "'--verbose'",
    "search --no-such-flag": "no-such-flag",
    "search data.npz data.npz": "",
    f"search --sync-batchnorm data.npz --out new/out {FAST}": "--sync-batchnorm with one process.*--processes 2, or torchrun",
    f"{SEARCH} --workers {4 * CORES} --processes 2": f"{8 * CORES} processes at a time; expected at most {4 * CORES}, four",
    f"{SEARCH} --backbone tcn --spaces xd": r"--depth 1 1 1 for a dilated convolution.*try: --depth 1 3 1$",
    "search digits --kind regression": "--kind regression with digits",
    "search permuted-digits --split 0.5 0.25 0.25 --split-seed 3": "--split .*, --split-seed 3 with permuted-digits",
    "search missing.npz": "does not exist",
    "search pipe.npz": "pipe, a socket or a device",
    "search pipes": "pipe, a socket or a device",
    "search folders": "y.npy, which is a folder",
    "search device.npz": "pipe, a socket or a device",
    "search loop.npz": "cannot be opened|does not exist",
    f"search {'x' * 300}.npz": "path of 304 characters",
    "search emptyfolder": "holds no .npy",
    "search notes": "holds no .npy",
    "search folder.npz": "holds no .npy",
    "search cells.mat": "array 'x'",
    "search struct.mat": "array 'x'",
    "search ''": "no .npy|given",
    "search .": "given",
    "search ..": "given",
    "search /": "given",
    "search '[bold]x[/bold].npz'": r"\[bold\]x\[/bold\]",
    "search \udcff.npz": "does not exist",
    f"search data.npz --out run {FAST} --spaces backbone": "already holds this run|another run",
    f"search data.npz --out notes --resume {FAST}": "holds other files",
    f"search regression.npz --out run --resume {FAST}": "holds another run.*data.*crc32",
    f"search data.npz --out run --resume {FAST} --depth 3 3 3": "holds another run.*network.depth",
    f"search data.npz --out new {FAST} --depth 1 0 1 --spaces backbone": "--depth 1 0 1",
    f"search data.npz --out new {FAST} --x-name a --y-name b": "no array 'a' and 'b'",
    f"search data.npz --out run --resume {FAST} --epochs 3": "search.epochs is 1 there, 3 here",
    f"search data.npz --out new {FAST} --batch-size 43 --backbone badbackbone:Norm": r"fails in training on 1 example \(",
    f"search data.npz --out new {FAST} --seeds 9999 --epochs 10000000": "--however-long",
    f"{SEARCH} --epochs 5000000 --spaces backbone": "work that would take about",  # tiny steps, but five million epochs
    "predict": "RUN|required|Required|missing|Missing",
    "predict run": "DATA|required|Required|missing|Missing",
    "predict missing data.npz": "holds no settings.json",
    "predict file data.npz": "holds no settings.json",
    "predict notes data.npz": "holds no settings.json",
    "predict run missing.npz": "does not exist",
    "predict run regression.npz -o p.npz": "examples of shape",
    "predict run dense.npz -o p.npz": "examples of shape",
    "predict run x-huge.npz -o p.npz": "values up to 1e\\+200",
    "predict run x-nan.npz -o p.npz": "1 NaN",
    "predict run empty.npz -o p.npz": "no examples",
    "predict run x-0d.npz -o p.npz": "no examples|a single value",
    "predict run x-6d.npz -o p.npz": "layout NL; expected 2 dimensions, as in training; try: an array like that of the search",
    "predict run x-text.npz -o p.npz": "real numbers",
    "predict run names.npz -o p.npz": "no array 'x'.*which has: a, b",
    "predict run longer.npz -o p.npz": r"examples of shape \(1, 25\).*\(1, 24\)",
    "predict run pipe.npz -o p.npz": "a pipe",
    "predict run data.npz -o p.npz --backbone evil:build": "--backbone evil:build for run, whose backbone is small",
    "predict foreign data.npz -o p.npz": "'evil:build' is code that is not part of xdops.*--trust-run",
    "export": "RUN|required|Required|missing|Missing",
    "export run": "FILE|required|Required|missing|Missing",
    "export missing net.pt2": "holds no settings.json",
    "export run net.h5": "ends in .onnx or .pt2",
    "export run net": "ends in .onnx or .pt2",
    "export run no/such/net.pt2": "a folder that does not exist",
    "export run file/net.pt2": "a folder that does not exist",
    "export foreign net.pt2": "'evil:build' is code that is not part of xdops.*--trust-run",
    "reproduce": "no table",
    "reproduce nothing": "table 'nothing'",
    "reproduce ../../evil": "table '../../evil'",
    "reproduce complexity --out ''": "nothing as the value after --out",
    "reproduce complexity --out=": "nothing as the value after --out=",
    "reproduce complexity --out=~/runs": "--out=~/runs, in which ~ does not stand for your home",
    f"search data.npz {FAST} --out '~'": "~ does not stand",
    f"search data.npz {FAST} --out ' '": "nothing as the value after --out",
    f"search data.npz {FAST} --out {'x' * 5000}": "a word of 5,000 characters after --out",
    f"predict {'x/' * 1500} data.npz": "holds no settings.json",
    "reproduce --render --results file --docs new": "not a folder",
    "reproduce --render --results results-cut --docs .": "was not written by xdops",
    "reproduce --render --results missing --docs new": "--results missing, which holds no results",
    "reproduce --render --results notes --docs new": "--results notes, which holds no results",
    f"{NAVIER_STOKES} --samples 1 --time 1e6 --step 1e-3 --record-every 1e6": "would take about (5. h|2 days)",
    "bench": "given",
    "bench nothing": "given",
    "data": "given",
    "data heat": "given",
    **{f"predict run-{name} data.npz -o p.npz": "settings.json" for name in bad_world.JSON},
    **{f"search data.npz --out run-{name} --resume {FAST}": "settings.json" for name in bad_world.JSON},
    **{f"reproduce --list --results results-{name}": "burgers-laptop.json" for name in bad_world.JSON},
    **{f"reproduce --render --docs new --results results-{name}": "burgers-laptop.json" for name in ("cut", "deep", "foreign")},
    **{search(f"{name}.npz"): word for name, (_, word) in bad_world.ARRAYS.items()},
    **{search(f"{name}.npz", *flags): word for name, (_, flags, word) in bad_world.WITH_FLAGS.items()},
    **{search(name): word for name, (_, word) in (bad_world.FILES | bad_world.HDF5).items()},
}  # fmt: skip


def members(command: object) -> Iterator[tuple[str, type]]:
    """The subcommands of a command by their names, or the command itself without one."""
    for member in typing.get_args(command) or (command,):
        made, *notes = typing.get_args(member) or (member,)
        yield next((note.name for note in notes if hasattr(note, "name")), ""), made


def flags_of(made: type) -> dict[str, str]:
    """What each flag takes, as Python writes the type."""
    hints = {name: str(hint) for name, hint in typing.get_type_hints(made, include_extras=True).items()}
    own = [field.name for field in dataclasses.fields(made) if "Positional" not in hints[field.name]]
    return {f"--{name.replace('_', '-')}": hints[name] for name in own}


#: Every command, subcommands included, with its flags.
KNOWN = {f"{name} {word}".strip(): flags_of(made) for name, command in COMMANDS.items() for word, made in members(command.load())}


def is_switch(hint: str) -> bool:
    return "bool" in hint


def flag_cases() -> dict[str, str]:
    """Each bad value in the place of the good one, or behind the others, where it overrules. A flag without a value refuses one."""
    found = {}
    for command, (good, flags) in FLAGS.items():
        hints = KNOWN[command]
        found |= {f"{good} {flag}=perhaps": "perhaps" for flag, hint in hints.items() if is_switch(hint)}
        for flag, values in flags.items():
            base = BEHIND.get((command, flag), good)
            for value, complaint in ((v, "") if isinstance(v, str) else v for v in values):
                words = value.split(" ") if "tuple" in hints[flag] else [value]
                found[f"{base} {shlex.join([flag, *words])}"] = complaint
    return found


ALL = CASES | flag_cases()


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory, commands: Commands) -> Path:
    folder = tmp_path_factory.mktemp("world")
    bad_world.build(folder)
    made = commands.run(f"search data.npz --out run {FAST} --spaces backbone".split(), folder)
    assert made.code == 0, made
    made = commands.run(f"search data.npz --out warm {FAST} --spaces xd".split(), folder)  # kernels are compiled now if ever
    assert made.code == 0, made
    shutil.rmtree(folder / "warm")
    (folder / "evil.py").write_text(f"from xdops.backbones.small import SmallCNN as build\nopen({str(folder / 'ran')!r}, 'w')\n")
    made = commands.run(f"search data.npz --out foreign {FAST} --spaces backbone --backbone evil:build".split(), folder)
    assert made.code == 0, made
    (folder / "ran").unlink()
    return folder


@pytest.mark.parametrize("line", ALL, ids=lambda line: ascii(line)[1:90])
def test_bad_input_is_one_line_and_leaves_no_trace(line: str, commands: Commands, world: Path) -> None:
    before = snapshot(world)
    ending = commands.run(shlex.split(line), world)
    assert_refused(ending, ALL[line])
    assert snapshot(world) == before


def test_every_command_and_every_flag_comes_with_bad_inputs() -> None:
    assert set(FLAGS) == set(KNOWN)
    for command, hints in KNOWN.items():
        given = {flag for flag, values in FLAGS[command][1].items() if values}
        assert given == {flag for flag, hint in hints.items() if not is_switch(hint)}, command


def test_there_are_about_as_many_cases_as_users_find_ways() -> None:
    assert len(ALL) >= 300


def test_the_good_command_beside_the_bad_ones_is_good(commands: Commands, world: Path, tmp_path: Path) -> None:
    assert commands.run([*PREDICT.split()[:-1], str(tmp_path / "p.npz")], world).code == 0
    assert commands.run(["predict", "run", "good.h5", "-o", str(tmp_path / "p.npz")], world).code == 0
    labels = np.load(tmp_path / "p.npz")["label"]
    assert labels.shape == (60,)
    assert os.listdir(tmp_path) == ["p.npz"]
