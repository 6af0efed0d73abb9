"""Penn Treebank in Mikolov's version: three text files of 10,000 different words, a sentence per line."""

from dataclasses import dataclass
from pathlib import Path

import numpy as np

from xdops.data.places import find_file
from xdops.errors import XDError, several

SOURCE = "the Linguistic Data Consortium (LDC99T42), in the version of Mikolov's `simple-examples`"
END = "<eos>"  # of a sentence, a word like any other
WORDS = 10_000
#: Words of the official files, ends of sentences counted.
TOKENS = (929_589, 73_760, 82_430)
FILES = (("train.txt", "ptb.train.txt"), ("valid.txt", "ptb.valid.txt"), ("test.txt", "ptb.test.txt"))


@dataclass(frozen=True)
class Text:
    """Numbers of words, in the order in which `words` lists them."""

    words: tuple[str, ...]
    train: np.ndarray  # (tokens,) int64
    validation: np.ndarray
    test: np.ndarray


def load_text(data_dir: str | Path | None = None) -> Text:
    """Penn Treebank, checked: its words, and how many there are."""
    paths = [find_file(data_dir, "ptb", names, "Penn Treebank", SOURCE) for names in FILES]
    text = number_words([read_words(path) for path in paths], [str(path) for path in paths])
    found = len(text.words), (len(text.train), len(text.validation), len(text.test))
    if found != (WORDS, TOKENS):
        raise XDError(
            f"{paths[0].parent} with {several(found[0], 'different word')}, {found[1]} in all",
            f"{WORDS:,} and {TOKENS}, as the official files have",
            f"the files of {SOURCE}",
        )
    return text


def read_words(path: Path) -> list[str]:
    """All words, and one for each end of a line."""
    try:
        lines = path.read_text(encoding="utf-8").splitlines()
    except (OSError, UnicodeDecodeError) as error:
        raise XDError(f"{path}, which cannot be read as text ({error})", "a text file", f"the files of {SOURCE}") from error
    words = [word for line in lines for word in (*line.split(), END)]
    if not words:
        raise XDError(f"{path}, which is empty", "a text", f"the files of {SOURCE}")
    return words


def number_words(texts: list[list[str]], names: list[str]) -> Text:
    """Words numbered in the order of their first appearance in the training text; others are refused."""
    vocabulary = {word: i for i, word in enumerate(dict.fromkeys(texts[0]))}
    for words, name in zip(texts[1:], names[1:], strict=True):
        unknown = list(dict.fromkeys(word for word in words if word not in vocabulary))
        if unknown:
            raise XDError(
                f"{name} with {several(len(unknown), 'word')} that the training text has not: {', '.join(map(repr, unknown[:5]))}",
                "words of the training text alone",
                "write <unk> for the others, as the official files do",
            )
    return Text(tuple(vocabulary), *(np.array([vocabulary[word] for word in words], dtype=np.int64) for words in texts))
