"""Native blocks read back as rows, so that a test can say which cells a decoder made. Written apart from the writer."""

import struct
from collections.abc import Iterable
from typing import Any

from proto.otlp.policy import Block

_NUMBERS = {
    "UInt8": "B",
    "UInt32": "I",
    "UInt64": "Q",
    "Int64": "q",
    "Float64": "d",
    "Date": "H",
    "DateTime('UTC')": "I",
}


def rows(blocks: Iterable[Block], table: str) -> list[dict[str, Any]]:
    """Every row of `table`, by column name: numbers, bytes, and lists of pairs for maps; blocks one after the other."""
    return [row for block in blocks if block.table == table for row in _Reader(b"".join(block.pieces)).rows()]


def as_list(text: bytes) -> list[tuple[bytes, bytes]]:
    """A list that is one text (docs/codec.md 2): its keys, each with letter and text."""
    if not text:
        return []
    assert text[:1] == text[-1:] == b"\1"
    entries = (entry.split(b"\2") for entry in text[1:-1].split(b"\1"))
    return [(_plain(key), _plain(rest)) for key, rest in entries]


def _plain(marked: bytes) -> bytes:
    head, *escaped = marked.split(b"\3")
    return head + b"".join(bytes([each[0] - 64]) + each[1:] for each in escaped)


class _Reader:
    def __init__(self, data: bytes) -> None:
        self.data = data
        self.at = 0

    def rows(self) -> list[dict[str, Any]]:
        columns, count = self.varint(), self.varint()
        names, cells = [], []
        for _ in range(columns):
            names.append(self.string().decode())
            kind = self.string().decode()
            if "LowCardinality" in kind:
                self.expect("Q", 1)
            cells.append(self.column(kind, count))
        self.check(self.at == len(self.data))
        return [dict(zip(names, row, strict=True)) for row in zip(*cells, strict=True)]

    def column(self, kind: str, count: int) -> list[Any]:
        if kind.startswith("Map("):
            key, value = kind[4:-1].split(", ")
            ends = self.numbers("Q", count)
            total = ends[-1] if ends else 0
            pairs = list(zip(self.column(key, total), self.column(value, total), strict=True))
            return [pairs[start:end] for start, end in zip([0, *ends], ends, strict=False)]
        if kind == "LowCardinality(String)":
            return self.symbols(count)
        if kind == "String":
            return [self.string() for _ in range(count)]
        if kind.startswith("FixedString("):
            return [self.take(int(kind[12:-1])) for _ in range(count)]
        return self.numbers("q" if kind.startswith("DateTime64") else _NUMBERS[kind], count)

    def symbols(self, count: int) -> list[bytes]:
        if count == 0:
            return []
        (flags, size) = self.numbers("Q", 2)
        self.check(flags & ~0xFF == 0x600)
        keys = [self.string() for _ in range(size)]
        self.check(len(set(keys)) == size)
        self.expect("Q", count)
        return [keys[place] for place in self.numbers("BHI"[flags & 0xFF], count)]

    def numbers(self, code: str, count: int) -> list[Any]:
        return list(struct.unpack(f"<{count}{code}", self.take(struct.calcsize(f"<{count}{code}"))))

    def expect(self, code: str, number: int) -> None:
        self.check(self.numbers(code, 1) == [number])

    def check(self, holds: bool) -> None:  # no assert: this module is read under `python -O` too
        if not holds:
            raise ValueError(f"not a Native block of ours, at byte {self.at}")

    def string(self) -> bytes:
        return self.take(self.varint())

    def varint(self) -> int:
        value = shift = 0
        while True:
            byte = self.take(1)[0]
            value |= (byte & 0x7F) << shift
            shift += 7
            if byte < 0x80:
                return value

    def take(self, size: int) -> bytes:
        self.at += size
        self.check(self.at <= len(self.data))
        return self.data[self.at - size : self.at]
