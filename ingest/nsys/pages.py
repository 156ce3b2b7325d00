"""What the pages of a Parquet file become when they are decompressed, as their own headers say.

The sizes in the metadata at the end of a file are for planning: what a reader allocates is what the header of each page
says. Headers are structs of Thrift's compact protocol: parquet.thrift of apache/parquet-format (PageHeader: 2 is
uncompressed_page_size, 3 compressed_page_size), thrift-compact-protocol.md of apache/thrift.
"""

from __future__ import annotations

import mmap
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, Final

UNCOMPRESSED: Final = 2
COMPRESSED: Final = 3
STOP: Final = 0
BOOLEANS: Final = (1, 2)
BYTE: Final = 3
INTEGERS: Final = (4, 5, 6)
DOUBLE: Final = 7
BINARY: Final = 8
LISTS: Final = (9, 10)
MAP: Final = 11
STRUCT: Final = 12
LONG: Final = 15
"""The size of a list that follows as a number of its own."""


def decompressed(path: Path, metadata: Any) -> int:
    """Bytes of all pages of a file with this metadata (of pyarrow). Raises ValueError where a header is none."""
    groups = (metadata.row_group(number) for number in range(metadata.num_row_groups))
    chunks = [group.column(number) for group in groups for number in range(group.num_columns)]
    with path.open("rb") as file, mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as data:
        try:
            return sum(size for chunk in chunks for size in _sizes(data, chunk))
        except (IndexError, RecursionError) as error:
            raise ValueError("a page has no header") from error


def _sizes(data: mmap.mmap, chunk: Any) -> Iterator[int]:
    """The size of each page of a column chunk, decompressed."""
    offsets = (chunk.dictionary_page_offset, chunk.data_page_offset)
    at = min(one for one in offsets if one)
    end = at + chunk.total_compressed_size
    while at < end:
        header = Header(data, at)
        size, stored = header.numbers.get(UNCOMPRESSED, -1), header.numbers.get(COMPRESSED, -1)
        if min(size, stored) < 0:
            raise ValueError("a page has no size")
        yield size
        at = header.end + stored


class Header:
    """A struct at a place of a file: its integers by field, and where it ends. Raises IndexError beyond the file."""

    def __init__(self, data: mmap.mmap, at: int) -> None:
        self._data = data
        self.end = at
        self.numbers: dict[int, int] = {}
        self._struct(self.numbers.__setitem__)

    def _struct(self, keep: Callable[[int, int], None] | None = None) -> None:
        field = 0
        while (head := self._byte()) != STOP:
            kind = head & 15
            field = field + (head >> 4) if head >> 4 else self._integer()
            if kind in INTEGERS:
                number = self._integer()
                if keep is not None:
                    keep(field, number)
            elif kind not in BOOLEANS:  # which are in the head
                self._skip(kind)

    def _skip(self, kind: int) -> None:
        if kind in {*BOOLEANS, BYTE}:
            self.end += 1
        elif kind in INTEGERS:
            self._number()
        elif kind == DOUBLE:
            self.end += 8
        elif kind == BINARY:
            length = self._number()  # which moves the end itself
            self.end += length
        elif kind in LISTS:
            self._list()
        elif kind == MAP:
            self._map()
        elif kind == STRUCT:
            self._struct()
        else:
            raise ValueError(f"a page header has a field of kind {kind}")

    def _list(self) -> None:
        head = self._byte()
        for _ in range(self._number() if head >> 4 == LONG else head >> 4):
            self._skip(head & 15)

    def _map(self) -> None:
        count = self._number()
        kinds = self._byte() if count else 0
        for _ in range(count):
            self._skip(kinds >> 4)
            self._skip(kinds & 15)

    def _byte(self) -> int:
        self.end += 1
        return self._data[self.end - 1]

    def _number(self) -> int:
        """A number of any length, seven bits a byte, the lowest first."""
        found = shift = 0
        while (byte := self._byte()) & 128:
            found |= (byte & 127) << shift
            shift += 7
        return found | byte << shift

    def _integer(self) -> int:
        number = self._number()
        return (number >> 1) ^ -(number & 1)
