"""Pickles of plain data are read as pickle reads them; anything else is refused by name, and no byte of a file can do harm."""

import pickle
import pickletools
import tracemalloc
from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pickle_support import Python2, Touch

from xdops.data.pickle_program import RefusedPickle, check_instructions
from xdops.data.pickles import PlainUnpickler, read_object_npy, read_pickle, unpickled
from xdops.errors import XDError


def same(a: Any, b: Any) -> bool:
    """Equal in type, values and shape, all the way down; arrays of the first are in this machine's byte order."""
    if type(a) is not type(b):
        return False
    if isinstance(a, np.ndarray):
        if a.dtype == object:
            return a.shape == b.shape and all(same(x, y) for x, y in zip(a.flat, b.flat, strict=True))
        b = b.astype(b.dtype.newbyteorder("="))
        return a.dtype == b.dtype and a.shape == b.shape and np.array_equal(a, b)
    if isinstance(a, dict):
        return list(a) == list(b) and all(same(a[key], b[key]) for key in a)
    if isinstance(a, list | tuple):
        return len(a) == len(b) and all(same(x, y) for x, y in zip(a, b, strict=True))
    return a == b or (a != a and b != b)


def objects(*values: Any) -> np.ndarray:
    array = np.empty(len(values), object)
    array[:] = values
    return array


GRID = np.arange(24, dtype=np.float32).reshape(2, 3, 4)
PLAIN: dict[str, Any] = {
    "numbers": [0, -1, 255, 70_000, 2**40, -(2**200), 1.5, float("inf"), True, False, None, 1 + 2j],
    "strings": ["", "ab", "ü\n'", b"", b"\x00\xff", "x" * 300, b"y" * 300],
    "containers": {"a": [1, (2, (3,)), {}], 5: {"b": set(), "c": {1, "x"}, "d": frozenset({b"z"})}, None: ()},
    "types": [np.zeros(2, code) for code in ("?", "i1", "u2", "<i4", ">i8", "f2", "f4", ">f8", "c8", "c16", "S3", "U5")],
    "orders": [GRID, np.asfortranarray(GRID), GRID.transpose(1, 0, 2), GRID[:, ::2], GRID[:0], np.array(3.0)],
    "scalars": [np.float32(0.1), np.int64(-3), np.bool_(True), np.str_("name"), np.complex64(1j)],
    "objects": objects(GRID, "seq", [1, np.ones(2)], objects(1, None)).reshape(2, 2),
    "shared": [GRID[0], *[np.arange(3)] * 2],
}  # fmt: skip


@pytest.mark.parametrize("protocol", range(6))
@pytest.mark.parametrize("name", PLAIN)
def test_plain_data_are_read_as_pickle_reads_them(name: str, protocol: int) -> None:
    data = pickle.dumps(PLAIN[name], protocol)
    read = unpickled(data, "a file")
    assert same(read, pickle.loads(data, encoding="latin-1"))
    assert same(read, PLAIN[name])


@pytest.mark.parametrize("core", [b"numpy.core.", b"numpy._core."])
def test_arrays_of_old_and_new_numpy_are_read(core: bytes) -> None:
    data = pickle.dumps({"x": GRID, "n": np.float32(2)}, 2).replace(b"numpy._core.", core).replace(b"numpy.core.", core)
    assert same(unpickled(data, "a file"), {"x": GRID, "n": np.float32(2)})


def test_arrays_can_be_written_to_and_one_array_stays_one() -> None:
    a, b = unpickled(pickle.dumps([GRID] * 2), "a file")
    assert a is b
    a[0, 0, 0] = 5
    assert not np.shares_memory(a, GRID)


def test_a_file_of_protein_features_is_read(tmp_path: Path) -> None:
    features = {
        "seq": "ACDE",
        "pssm": np.random.default_rng(0).random((4, 22)),
        "ss": np.eye(4, 3, dtype=np.float32),
        "sa": [0.5] * 4,
    }
    path = tmp_path / "protein.pkl"
    path.write_bytes(pickle.dumps(features))
    assert same(read_pickle(path), features)
    with pytest.raises(XDError, match=r"nothing\.pkl, which cannot be read"):
        read_pickle(tmp_path / "nothing.pkl")


def test_an_npy_file_of_objects_is_read(tmp_path: Path) -> None:
    array = objects(4, "ACDE", GRID)
    np.save(tmp_path / "a.npy", array, allow_pickle=True)
    assert same(read_object_npy(tmp_path / "a.npy"), array)


def test_other_npy_files_are_refused(tmp_path: Path) -> None:
    path = tmp_path / "a.npy"
    np.save(path, GRID)
    with pytest.raises(XDError, match=r"an array of float32; expected an array of objects; try: numpy\.load"):
        read_object_npy(path)
    np.save(path, objects(1, 2), allow_pickle=True)
    whole = path.read_bytes()
    for cut in range(0, len(whole), 7):
        path.write_bytes(whole[:cut])
        with pytest.raises(XDError, match="cut-off"):
            read_object_npy(path)
    path.write_bytes(whole.replace(b"(2,)", b"(3,)"))
    with pytest.raises(XDError, match="not the array that its header announces"):
        read_object_npy(path)
    np.save(path, objects(1, Touch(tmp_path / "trap")), allow_pickle=True)
    with pytest.raises(XDError, match=r"the name '_?io\.open'"):
        read_object_npy(path)
    assert not (tmp_path / "trap").exists()


@pytest.mark.parametrize("protocol", range(6))
def test_a_malicious_pickle_is_refused_by_name_without_being_run(protocol: int, tmp_path: Path) -> None:
    trap = tmp_path / "trap"
    evil = pickle.dumps({"data": [GRID, Touch(trap)]}, protocol)
    pickle.loads(evil)["data"][1].close()
    assert trap.exists()  # it does what it threatens to
    trap.unlink()
    with pytest.raises(XDError, match=r"a pickle with the name '_?io\.open'"):
        unpickled(evil, "a file")
    assert not trap.exists()


NAMES = [
    b"cos\nsystem\n",
    b"cbuiltins\neval\n",
    b"c__builtin__\ngetattr\n",
    b"cnumpy\nload\n",
    b"cnumpy.core.multiarray\nfromfile\n",
]


@pytest.mark.parametrize("name", NAMES)
def test_a_name_is_refused_before_its_module_is_imported(name: bytes, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("builtins.__import__", None)
    with pytest.raises(XDError, match="the name"):
        unpickled(name + b".", "a file")


@pytest.mark.parametrize(
    "code",
    [
        b"\x80\x02}(U\x04datacnumpy\ndtype\nU\x02V8K\0K\1\x87Ru.",  # an array of records
        b"\x80\x02}(U\x04datacnumpy\nndarray\nK\x05\x85Ru.",  # an array of any size
        b"\x80\x02}(U\x04datacnumpy.core.multiarray\n_reconstruct\ncnumpy\ndtype\nK\0\x85U\1b\x87Ru.",  # of another class
        b"\x80\x02}(U\x04datacnumpy.core.multiarray\n_reconstruct\ncnumpy\nndarray\nK\0\x85U\1b\x87Ru.",  # without content
        b"\x80\x02}U\x04datacnumpy\ndtype\ns.",  # a name in place of a value
        b"\x80\x02c_codecs\nencode\n}U\x01xK\x01sb0N.",  # an instruction that plain data do not need
        b"\x80\x02c_codecs\nencode\n}U\x01xK\x01sb.",  # a name's attributes set
        b"\x80\x02c_codecs\nencode\nN}U\x08functionK\x01s\x86b.",  # and set in the other way
        b"\x80\x02}K\1\x85Q.",  # a reference to something stored elsewhere
        b"\x80\x02c__builtin__\nbytes\nJ\xff\xff\xff\x7f\x85R.",  # 2 GB of zeros
        b"\x80\x02}K\1\x85K\2s.",  # a tuple as a key
        b"\x80\x02c__builtin__\nset\n]K\1\x85a\x85R.",  # and in a set
        b"\x80\x02]q\1h\1a.",  # a list in itself
        b"\x80\x02" + b"(" * 200 + b"l" * 200 + b".",  # lists in lists in lists
        b"\x80\x02Nr\xff\xff\xff\x7f.",  # a table of two thousand million objects
    ],
)
def test_pickles_of_anything_else_are_refused(code: bytes) -> None:
    with pytest.raises(XDError, match="a pickle with"):
        unpickled(code, "a file")


@pytest.mark.parametrize(
    "code",
    [
        b"",
        b"\x80\x02",
        b"\x80\x02}",
        b"\x80\x02u.",
        b"\x80\x02}(K\1u.",
        b"\x80\x02}]K\1s.",
        b"\x80\x02}K\1a.",
        b"\x80\x02]K\1b.",
        b"\x80\x02\x87.",
        b"h\x05.",
        b"\xff\xff",
        b"}}.",
        b"N.N.",
        b"\x80\x09N.",
        b"\x80\x04\x95\xff\xff\xff\xff\xff\xff\xff\x7fN.",
        b"\x80\x04\x8e\xff\xff\xff\xff\xff\xff\xff\x7fab.",
        b"\x80\x04\x96\xff\xff\xff\xff\xff\xff\xff\x7fab.",
    ],
)
def test_broken_pickles_are_refused(code: bytes) -> None:
    with pytest.raises(XDError, match="not a complete pickle"):
        unpickled(code, "a file")


def test_what_stands_for_a_name_keeps_nothing_that_a_pickle_gives_it() -> None:
    named = PlainUnpickler(b"").names["_codecs.encode"]
    assert not hasattr(named, "__dict__")
    with pytest.raises(RefusedPickle):
        named.__setstate__({"function": None})


BIG = b"X" + (1 << 20).to_bytes(4, "little") + b"a" * (1 << 20) + b"q\0"  # a string of a megabyte, object 0
ENCODED, ENCODED_AGAIN = b"c_codecs\nencode\nq\1h\0\x85R", b"h\1h\0\x85R"
ARRAY = b"cnumpy.core.numeric\n_frombuffer\nq\4(h\0cnumpy\ndtype\nX\2\0\0\0u1\x85Rq\2J\0\0\x10\0\x85q\3X\1\0\0\0CtR"
ARRAY_AGAIN = b"h\4(h\0h\2h\3X\1\0\0\0CtR"


@pytest.mark.parametrize(("first", "again"), [(ENCODED, ENCODED_AGAIN), (ARRAY, ARRAY_AGAIN)], ids=["strings", "arrays"])
def test_data_are_not_multiplied(first: bytes, again: bytes) -> None:
    """2000 times one megabyte out of a file of one megabyte."""
    assert unpickled(b"\x80\2](" + BIG + first + b"e.", "a file")[0] == "a" * (1 << 20)
    tracemalloc.start()
    with pytest.raises(XDError, match="instructions that multiply its data"):
        unpickled(b"\x80\2](" + BIG + first + again * 2000 + b"e.", "a file")
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert peak < 20 << 20


@pytest.mark.parametrize("key", [b"N" + b"\x85" * 200_000, b"N" + b"q\0h\0\x86" * 60], ids=["deep", "wide"])
def test_nested_tuples_neither_overflow_the_stack_nor_take_for_ever(key: bytes) -> None:
    with pytest.raises(XDError, match="a tuple as a key"):  # pickle.loads would end this process, or never end
        unpickled(b"\x80\2}" + key + b"K\1s.", "a file")


def test_no_cut_or_changed_byte_of_a_batch_leads_to_another_error() -> None:
    x, y = np.arange(3 * 4, dtype=np.uint8).reshape(3, 4), np.array([1, 2, 3])
    data = Python2().batch(x, y)
    for i in range(len(data)):
        with pytest.raises(XDError, match="a batch"):
            unpickled(data[:i], "a batch")
        with suppress(XDError):  # a changed pixel or letter is as good as the old one
            unpickled(data[:i] + bytes([data[i] ^ 0x41]) + data[i + 1 :], "a batch")


WHOLE = [pickle.dumps([PLAIN["containers"], GRID[0], np.float32(1), objects(1, GRID[0, 0])], protocol) for protocol in range(6)]
CODES = sorted(instruction.code.encode("latin-1") for instruction in pickletools.opcodes)


@st.composite
def mutated(draw: st.DrawFn) -> bytes:
    """A pickle in which bytes were replaced, pieces moved about, and instructions put in."""
    data = draw(st.sampled_from(WHOLE))
    for _ in range(draw(st.integers(1, 6))):
        at, length = draw(st.integers(0, len(data))), draw(st.integers(0, 12))
        new = draw(st.one_of(st.binary(max_size=6), st.sampled_from(CODES), st.sampled_from(NAMES), st.just(data[at : at + 30])))
        data = data[:at] + new + data[at + length :]
    return data


@given(mutated())
@settings(max_examples=250)
def test_a_mutated_pickle_gives_plain_data_or_our_error(data: bytes) -> None:
    try:
        read = unpickled(data, "a file")
    except XDError:
        return
    check_instructions(data)
    assert only_plain(read)


@given(
    st.lists(st.sampled_from([*CODES, b"\0", b"\1", b"\n", b"1", *NAMES, b"cnumpy\ndtype\n", b"c_codecs\nencode\n"]), max_size=40)
)
@settings(max_examples=250)
def test_a_random_program_gives_plain_data_or_our_error(parts: list[bytes]) -> None:
    with suppress(XDError):
        assert only_plain(unpickled(b"".join(parts) + b".", "a file"))


def only_plain(value: Any) -> bool:
    if isinstance(value, dict):
        return all(only_plain(part) for pair in value.items() for part in pair)
    if isinstance(value, list | tuple | set | frozenset) or (isinstance(value, np.ndarray) and value.dtype == object):
        return all(only_plain(part) for part in value)
    return type(value) in (int, float, complex, bool, str, bytes, bytearray, type(None), np.ndarray) or isinstance(
        value, np.generic
    )
