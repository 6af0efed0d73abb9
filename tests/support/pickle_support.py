"""Pickles to read: as Python 2 wrote them, and one that does harm."""

import struct
from pathlib import Path

import numpy as np


class Python2:
    """Writes a batch as Python 2 did, with protocol 2: strings of bytes, every object numbered."""

    def __init__(self) -> None:
        self.numbered = 0

    def put(self) -> bytes:
        self.numbered += 1
        return b"q" + bytes([self.numbered]) if self.numbered < 256 else b"r" + struct.pack("<I", self.numbered)

    def string(self, s: bytes) -> bytes:
        return (b"U" + bytes([len(s)]) if len(s) < 256 else b"T" + struct.pack("<i", len(s))) + s + self.put()

    def integer(self, n: int) -> bytes:
        if 0 <= n < 256:
            return b"K" + bytes([n])
        return b"M" + struct.pack("<H", n) if 0 <= n < 65536 else b"J" + struct.pack("<i", n)

    def items(self, values: list[bytes]) -> bytes:
        parts = [b"(" + b"".join(values[i : i + 1000]) + b"e" for i in range(0, len(values), 1000)]
        return b"]" + self.put() + b"".join(parts)

    def array(self, x: np.ndarray, by_columns: bool) -> bytes:
        start = b"cnumpy.core.multiarray\n_reconstruct\n" + self.put() + b"cnumpy\nndarray\n" + self.put()
        start += b"K\0\x85" + self.put() + self.string(b"b") + b"\x87" + self.put() + b"R" + self.put()
        shape = self.integer(x.shape[0]) + self.integer(x.shape[1]) + b"\x86" + self.put()
        dtype = b"cnumpy\ndtype\n" + self.put() + self.string(b"u1") + b"K\0K\1\x87" + self.put() + b"R" + self.put()
        dtype += b"(K\3" + self.string(b"|") + b"NNNJ\xff\xff\xff\xffJ\xff\xff\xff\xffK\0t" + self.put() + b"b"
        content = b"T" + struct.pack("<i", x.size) + x.tobytes("F" if by_columns else "C") + self.put()
        return start + b"(K\1" + shape + dtype + (b"\x88" if by_columns else b"\x89") + content + b"t" + self.put() + b"b"

    def batch(self, x: np.ndarray, y: np.ndarray, by_columns: bool = False) -> bytes:
        start = b"\x80\x02}" + self.put() + b"("
        label = self.string(b"batch_label") + self.string(b"training batch 1 of 5")
        labels = self.string(b"labels") + self.items([self.integer(int(n)) for n in y])
        data = self.string(b"data") + self.array(x, by_columns)
        files = self.string(b"filenames") + self.items([self.string(f"frog_s_{i:06}.png".encode()) for i in range(len(y))])
        return start + label + labels + data + files + b"u."


class Touch:
    """Unpickled, it creates a file."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def __reduce__(self) -> tuple[object, tuple[object, ...]]:
        return open, (str(self.path), "w")
