"""Whether the trees of pages in an SQLite file are trees: one page met on two ways makes rows without end."""

from __future__ import annotations

import functools
import struct
from collections.abc import Sequence
from pathlib import Path
from typing import BinaryIO, Final

from kerneldb.errors import UnreadableTraceError

FIRST: Final = 100
"""The first page begins with the header of the file, then comes what other pages begin with."""
INTERIOR: Final = frozenset((2, 5))
"""First byte of a page that points to others. Source: https://www.sqlite.org/fileformat2.html, "B-tree Pages"."""
MET: Final = 0xFF
"""In place of the first byte of a page: it was met. No page begins so."""
CELLS_AT: Final = 12
READ_BYTES: Final = 1 << 20
SIZES: Final = frozenset(1 << bits for bits in range(9, 17))


def require_trees(path: Path, real: Path, roots: Sequence[int]) -> None:
    """Raise UnreadableTraceError where trees with these roots meet a page twice. `real` is the file, `path` its name.

    An interior page of a few kilobytes may point hundreds of times to the same child, and a few levels of such pages
    are more rows than a reader ever gets through. SQLite does not look, and counts them without asking whether to stop.
    """
    seen = real.stat()
    shared = _shared(real, tuple(roots), (seen.st_dev, seen.st_ino, seen.st_size, seen.st_mtime_ns))
    if shared is not None:
        raise UnreadableTraceError(
            f"{path}: its page {shared:,} is met twice, as in a damaged file, so that rows may have no end. "
            "Copy it again, or export it again with the profiler."
        )


@functools.lru_cache(maxsize=64)
def _shared(path: Path, roots: tuple[int, ...], _stamp: tuple[int, ...]) -> int | None:
    """Kept while the file is the same: it is opened several times on its way."""
    with path.open("rb") as file:
        file.seek(16)
        stated = int.from_bytes(file.read(2), "big")
        page = 65536 if stated == 1 else stated
        return _Walk(file, page).shared(roots) if page in SIZES else None


class _Walk:
    """One walk over trees: from interior pages to what they point to. Of leaves only the first byte is looked at."""

    def __init__(self, file: BinaryIO, page: int) -> None:
        self._file = file
        self._page = page
        self._at_once = READ_BYTES // page
        self._kinds: dict[int, bytearray] = {}

    def shared(self, roots: Sequence[int]) -> int | None:
        """Number of a page that is met twice; None where none is."""
        waiting: list[int] = []
        children: Sequence[int] = (1, *roots)
        while True:
            for number in children:
                part, place = divmod(number - 1, self._at_once)
                kinds = self._kinds.get(part)
                if kinds is None:
                    kinds = self._read(part)
                if place >= len(kinds):  # beyond the end of the file, which SQLite says
                    continue
                if kinds[place] == MET:
                    return number
                if kinds[place] in INTERIOR:
                    waiting.append(number)
                kinds[place] = MET
            if not waiting:
                return None
            children = self._children(waiting.pop())

    def _read(self, part: int) -> bytearray:
        """First bytes of the pages in a part of the file."""
        self._file.seek(part * self._at_once * self._page)
        content = self._file.read(self._at_once * self._page)
        kinds = bytearray(content[:: self._page])
        if part == 0 and len(content) > FIRST:
            kinds[0] = content[FIRST]
        self._kinds[part] = kinds
        return kinds

    def _children(self, number: int) -> list[int]:
        """What an interior page points to, as SQLite reads it: places beyond the page are taken modulo its size."""
        self._file.seek((number - 1) * self._page)
        page = self._file.read(self._page)
        begin = FIRST if number == 1 else 0
        if len(page) < self._page:
            return []
        cells = int.from_bytes(page[begin + 3 : begin + 5], "big")
        cells = min(cells, (self._page - begin - CELLS_AT) // 2)
        places = struct.unpack_from(f">{cells}H", page, begin + CELLS_AT)
        whole, mask = page + page[:4], self._page - 1
        found = [int.from_bytes(whole[at : at + 4], "big") for at in (place & mask for place in places)]
        found.append(int.from_bytes(page[begin + 8 : begin + CELLS_AT], "big"))
        return [child for child in found if child]
