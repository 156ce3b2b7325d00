"""Ways of damaging a file that know its structure: JSON, tables of text, SQLite, protobuf, Parquet and archives.

Each takes dice and the bytes of a healthy file, and returns those of a damaged one, the same for the same dice.
"""

from __future__ import annotations

import gzip
import io
import json
import random
import re
import sqlite3
import struct
import traceback
import zipfile
import zlib
from collections.abc import Callable, Iterator, Sequence
from typing import Any, Final

from tests.fuzz import endless
from tests.protobuf import varint

Dice = random.Random
Spot = tuple[Any, Any]
"""A list or an object, and the index or key of a value in it."""

# Values that no writer writes. Texts in RAW stand for what follows them, which `json.dumps` would not write.
RAW: Final = {
    "@nan": "NaN",
    "@infinity": "-Infinity",
    "@huge": "1e999",
    "@digits": "9" * 5_000,
    "@surrogate": '"\\ud800"',
    "@deep": "[" * 10_000 + "]" * 10_000,
    "@nested": "[" * 400 + "]" * 400,
    "@objects": '{"a":' * 900 + "1" + "}" * 900,
    "@bare": "nothing",
}
NUMBERS: Final = (
    0, -1, 0.5, -0.0, 1e308, -1e308, 5e-324, 1 << 31, (1 << 31) - 1, 1 << 53, (1 << 63) - 1, 1 << 63, -(1 << 63)
)  # fmt: skip
WORDS: Final = (
    "", " ", "a" * 200_000, "\x00", "a\x00b", "\x1b[2J\x1b]0;title\x07", "two\nlines", "\u202e\u2028", "L0", "L9", "ok",
    "skipped", "inherited", "inferred", "none", "aten", "memory", "triton", "collective", "aten::mm", "nothing::such",
    "1999-12-31T23:59:60", "2024-W01-1", "0001-01-01T00:00:00+23:59", "9999-12-31T23:59:59-23:59", "[", "{}", "null",
    "[[-1, 2]]", "[[9223372036854775807, 9223372036854775807]]", "[[1e999]]", "[NaN]", '["float"]', '[["float"], 3]',
    '{"kernel_hash": 3, "grid": "grid(1,2)"}', '{"Collective name": []}', "[" * 10_000, "_Z" + "1a" * 40, "\U0001d54f",
    "; values:a cache:b",
)  # fmt: skip
ODD: Final[tuple[Any, ...]] = (None, True, False, [], {}, [[]], [None], {"": None}, *NUMBERS, *RAW)


def spots(value: Any) -> Iterator[Spot]:
    """All places in a JSON value."""
    pairs = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, held in pairs:
        yield value, key
        yield from spots(held)


def delete(_dice: Dice, spot: Spot, _all: Sequence[Spot]) -> None:
    """Leave the value out."""
    held, key = spot
    del held[key]


def replace(dice: Dice, spot: Spot, _all: Sequence[Spot]) -> None:
    """Put an odd value in its place; for texts and numbers mostly an odd one of their kind."""
    held, key = spot
    kind = NUMBERS if isinstance(held[key], int | float) else WORDS if isinstance(held[key], str) else ODD
    held[key] = dice.choice(kind if dice.random() < 0.8 else (*ODD, *WORDS))


def wrap(dice: Dice, spot: Spot, _all: Sequence[Spot]) -> None:
    """Give the value another type."""
    held, key = spot
    one = held[key]
    held[key] = dice.choice(([one], [one, one], {"a": one}, str(one), json.dumps(one), bool(one)))


def swap(dice: Dice, spot: Spot, all_spots: Sequence[Spot]) -> None:
    """Exchange it with another value, which does not hold it and is not held by it."""
    (held, key), (other, name) = spot, dice.choice(all_spots)
    one, two = json.dumps(held[key]), json.dumps(other[name])
    held[key], other[name] = json.loads(two), json.loads(one)


def scale(dice: Dice, spot: Spot, all_spots: Sequence[Spot]) -> None:
    """Take a number beside it, or a text with something odd in it."""
    held, key = spot
    one = held[key]
    if isinstance(one, str):
        at = dice.randint(0, len(one))
        held[key] = one[:at] + dice.choice(("\x00", "\x1b[31m", "\n", "[", '"', "-", "0" * 30)) + one[at:]
    elif isinstance(one, int | float):
        held[key] = dice.choice((-one, one + 1, one * (1 << 31), one / 3, float(one)))
    else:
        delete(dice, spot, all_spots)


def rename(dice: Dice, spot: Spot, all_spots: Sequence[Spot]) -> None:
    """Give it another name, or put it into the list once more."""
    held, key = spot
    if isinstance(held, dict):
        held[dice.choice(("", "x", "\n\x1b[0m", *(str(name) for _, name in all_spots)))] = held.pop(key)
    else:
        held.insert(dice.randint(0, len(held)), held[key])


def equal(_dice: Dice, spot: Spot, all_spots: Sequence[Spot]) -> None:
    """Give all values of its name and kind what it is: ids that name nothing any more."""
    held, key = spot
    for other, name in all_spots:
        if isinstance(name, str) and name == key and type(other[name]) is type(held[key]) in {int, str}:
            other[name] = held[key]


def traced(error: BaseException | None) -> str:
    """The end of a traceback."""
    return "" if error is None else "".join(traceback.format_exception(error))[-4_000:]


Change = Callable[[Dice, Spot, Sequence[Spot]], None]
CHANGES: Final[tuple[Change, ...]] = (delete, *[replace] * 8, wrap, swap, *[scale] * 4, rename, equal)


def json_value(dice: Dice, text: bytes, changes: Sequence[Change] = CHANGES, style: Any = None) -> bytes:
    """The JSON text with one value changed; as it was, where it is no JSON or holds no other value."""
    try:
        value = json.loads(text)
        places = list(spots(value))
    except (ValueError, RecursionError):  # no JSON, or deeper than Python follows
        return text
    if not places:
        return text
    kind = dice.choice((str, int | float, object))
    of_kind = [spot for spot in places if isinstance(spot[0][spot[1]], kind)]
    dice.choice(changes)(dice, dice.choice(of_kind or places), places)
    made = json.dumps(value, ensure_ascii=dice.random() < 0.7, **(style or {}))
    for word, raw in RAW.items():
        made = made.replace(f'"{word}"', raw)
    return made.encode("utf-8", "surrogatepass")


def some_bytes(dice: Dice, whole: bytes) -> bytes:
    """Bytes changed, taken out, put in, or moved; or the end is missing."""
    at, to = sorted((dice.randint(0, len(whole)), dice.randint(0, len(whole))))
    odd = bytes(dice.randrange(256) for _ in range(dice.randint(1, 4)))
    match dice.randrange(6):
        case 0:
            return whole[:at]
        case 1:
            return whole[:at] + whole[min(to, at + 64) :]
        case 2:
            return whole[:at] + odd + whole[at:]
        case 3:
            return whole[:at] + whole[at:to] + whole[at:]
        case 4:
            return whole[:at] + b"\x00" * min(len(whole) - at, 512) + whole[at + 512 :]
        case _:
            return whole[:at] + odd + whole[at + len(odd) :]


def json_text(dice: Dice, whole: bytes) -> bytes:
    """A JSON document with one to four values changed, or with changed bytes."""
    if dice.random() < 0.15:
        return some_bytes(dice, whole)
    style = {"indent": 1} if b"\n  " in whole[:200] else {}
    for _ in range(dice.choice((1, 1, 1, 2, 4))):
        whole = json_value(dice, whole, style=style)
    return whole


CELLS: Final = (
    "", '""', "-1", "0", "nan", "inf", "-0.0", "1e308", "1e999", "9" * 40, "9223372036854775807",
    "-9223372036854775808", "1,5", '"1,234,567"', "1.234.567", "1 234", "0x10", "12%", "3 MHz", "n/a", "[N/A]",
    "None", "true", "\x00", "a\x00b",
    '"', '"a', 'a"b', "\r", "a\rb", '"two\nlines"', "\u00a0", "\u202e", "\x1b[2J", "=1+1", "us", "ticks",
    "(1, 2, 3)", "(0)",
    "a" * 200_000, "_Z" + "1a" * 40, "<" * 5_000, "(" * 5_000, "2026-99-99", "Start", "Name", "\ufeff", "\ud83d\ude00"
)  # fmt: skip


def _cell(dice: Dice, line: str) -> str:
    """One cell of the line changed, taken out, doubled, or moved."""
    cells = re.split(r"(?<=[,;\t]) ?|  +", line)
    at, to = dice.randrange(len(cells)), dice.randrange(len(cells))
    mark = cells[at][-1:] if cells[at][-1:] in {",", ";", "\t"} else ""
    match dice.randrange(8):
        case 0:
            del cells[at]
        case 1:
            cells.insert(to, cells[at])
        case 2:
            cells[at], cells[to] = cells[to], cells[at]
        case 3:
            kept = cells[at]
            place = dice.randint(0, len(kept))
            cells[at] = (
                kept[:place] + dice.choice(("-", '"', "\x00", "\r", "0" * 30, ".", ",", " ", "\x1b[31m")) + kept[place:]
            )
        case _:
            cells[at] = dice.choice(CELLS) + mark
    return "".join(cells) if "," in line or "\t" in line else "  ".join(cells)


def _line(dice: Dice, lines: list[str]) -> None:
    at, to = dice.randrange(len(lines)), dice.randrange(len(lines))
    match dice.randrange(13):
        case 0:
            del lines[at]
        case 1:
            lines.insert(to, lines[at])
        case 2:
            lines[at], lines[to] = lines[to], lines[at]
        case 3:
            lines.insert(at, dice.choice(("", "==1== NVPROF", "==PROF== x", "{", "[", "#", '"', ",,,,,,,,,", "\x0c")))
        case 4:
            lines[at] = lines[at][: dice.randint(0, len(lines[at]))]
        case 5:
            _column(dice, lines)
        case _:
            lines[at] = _cell(dice, lines[at])


def _column(dice: Dice, lines: list[str]) -> None:
    """All cells of a column below the first line made equal."""
    rows = [re.split(r"(?<=[,;\t])", line) for line in lines]
    at = dice.randrange(max(map(len, rows)))
    below = [row for row in rows[1:] if at < len(row) - 1]
    value = dice.choice(below)[at] if below else ""
    for row in below:
        row[at] = value
    lines[:] = map("".join, rows)


def table(dice: Dice, whole: bytes) -> bytes:
    """A table of text with cells or lines changed; now and then other line ends, another encoding, or odd bytes."""
    if whole[:1] in {b"[", b"{"}:
        return json_text(dice, whole)
    text = whole.decode("utf-8", "replace")
    lines = text.split("\n")
    for _ in range(dice.choice((1, 1, 1, 2, 4))):
        if lines:
            _line(dice, lines)
    made = "\n".join(lines)
    match dice.randrange(24):
        case 0:
            made = made.replace("\n", dice.choice(("\r\n", "\r", "\n\n")))
        case 1:
            return made.encode("utf-16", "surrogatepass")
        case 2:
            made = made.replace(",", dice.choice((";", "\t", "|", ", ")))
        case 3 | 4:
            return some_bytes(dice, made.encode("utf-8", "surrogatepass"))
        case 5:
            made = made.replace('"', "")
    return made.encode("utf-8", "surrogatepass")


STORED: Final = (
    None, 0, 1, -1, 2**31, 2**62, -(2**63), 2**63 - 1, 0.5, 1e308, float("inf"), "", "x", "12", "1e3", "\x00",
    "\x1b[2J", b"", b"\x00\xff", b"[1]", "a" * 100_000, "{", '{"a": [1]}', "[" * 5_000, "_Z" + "1a" * 40, "\u202e",
)  # fmt: skip
ENDLESS: Final = "WITH RECURSIVE e(n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM e) SELECT {} FROM e"


def _view(dice: Dice, con: sqlite3.Connection, table_name: str, columns: list[str]) -> None:
    """A view in the place of a table: of its rows, or of far more than the file has."""
    con.execute(f'ALTER TABLE "{table_name}" RENAME TO "moved"')
    listed = ", ".join(f'"{name}"' for name in columns)
    first = ", ".join(f'a."{name}"' for name in columns)
    folds = dice.choice((2, 3, 6, 6, 9))
    pairs = ", ".join(["moved AS a", *(f"moved AS b{number}" for number in range(1, folds))])
    doubled = "moved"
    for number in range(dice.choice((2, 8, 14))):
        con.execute(
            f"CREATE VIEW doubled{number} AS SELECT {listed} FROM {doubled} UNION ALL SELECT {listed} FROM {doubled}"
        )
        doubled = f"doubled{number}"
    select = dice.choice(
        (
            f"SELECT {listed} FROM moved",
            ENDLESS.format(", ".join(f'n AS "{name}"' for name in columns)),
            f"SELECT {first} FROM {pairs}",
            f"SELECT {first} FROM {pairs}",
            f"SELECT {first} FROM {pairs} GROUP BY random()",
            f"SELECT {listed} FROM {doubled}",
            f"SELECT {listed} FROM moved WHERE {endless.COSTLY} > 0",
            f"SELECT DISTINCT {listed} FROM {doubled}",
            f"SELECT {first} FROM moved AS a WHERE (SELECT count(*) FROM {pairs.replace(' AS a', ' AS c')}) > 0",
        )
    )
    con.execute(f'CREATE VIEW "{table_name}" AS {select}')


def _statement(dice: Dice, con: sqlite3.Connection, table_name: str, columns: list[str]) -> None:
    column, other = dice.choice(columns), dice.choice(columns)
    row = f'rowid = (SELECT rowid FROM "{table_name}" LIMIT 1 OFFSET {dice.randrange(12)})'
    where = dice.choice((f" WHERE {row}", f" WHERE {row}", f" WHERE {row}", ""))
    match dice.randrange(17):
        case 16:
            endless.compute(con, table_name)
        case 0:
            con.execute(f'DROP TABLE "{table_name}"')
        case 1:
            con.execute(
                f'ALTER TABLE "{table_name}" RENAME COLUMN "{column}" TO "{dice.choice(("x", "id", "a b", "START"))}"'
            )
        case 2:
            con.execute(f'ALTER TABLE "{table_name}" DROP COLUMN "{column}"')
        case 3:
            con.execute(f'DELETE FROM "{table_name}"{where}')
        case 4:
            con.execute(f'INSERT INTO "{table_name}" SELECT * FROM "{table_name}"')
        case 5:
            con.execute(f'UPDATE OR IGNORE "{table_name}" SET "{column}" = "{other}"{where}')
        case 6:
            _view(dice, con, table_name, columns)
        case 7:
            con.execute(
                f'ALTER TABLE "{table_name}" RENAME TO "{dice.choice(("other", "NEXT", "rocpd_x", "CUPTI_X"))}"'
            )
        case 8:
            con.execute(f'UPDATE OR IGNORE "{table_name}" SET "{column}" = CAST("{column}" AS BLOB){where}')
        case 9:
            con.execute(f'UPDATE OR IGNORE "{table_name}" SET "{column}" = -"{column}"{where}')
        case _:
            con.execute(f'UPDATE OR IGNORE "{table_name}" SET "{column}" = ?{where}', (dice.choice(STORED),))


def sqlite(dice: Dice, whole: bytes) -> bytes:
    """A database with values, types, rows, columns or tables changed, or with damaged pages."""
    made = whole
    if dice.random() < 0.8:
        con = sqlite3.connect(":memory:")
        con.deserialize(whole)
        for _ in range(dice.choice((1, 1, 2, 4))):
            tables = [name for (name,) in con.execute("SELECT name FROM sqlite_master WHERE type = 'table' ORDER BY 1")]
            if not tables:
                break
            name = dice.choice(tables)
            columns = [row[1] for row in con.execute(f'PRAGMA table_info("{name}")')]
            try:
                with con:
                    _statement(dice, con, name, columns)
            except sqlite3.Error:  # a column that a view needs, or the last one
                continue
        made = con.serialize()
        con.close()
    if dice.random() < 0.05:
        made = endless.shared(made, dice.randrange(len(made) // 4096) + 1)
    if made == whole or dice.random() < 0.1:
        for _ in range(dice.choice((1, 2, 8))):
            made = _page(dice, made)
    return made


def _page(dice: Dice, whole: bytes) -> bytes:
    """Bytes of the file header, of the head of a page, or of anywhere."""
    if not whole:
        return whole
    pages = max(len(whole) // 4096, 1)
    near = dice.choice(
        (dice.randrange(100), 4096 * dice.randrange(pages) + dice.randrange(16), dice.randrange(len(whole)))
    )
    if dice.random() < 0.3:
        return some_bytes(dice, whole)
    return whole[:near] + bytes([dice.choice((0, 1, 127, 255, dice.randrange(256)))]) + whole[near + 1 :]


Fields = list[tuple[int, int, Any]]
"""Number, wire type, and value: a number, bytes, or the fields of a message."""
FIXED: Final = {1: 8, 5: 4}
DEEPEST: Final = 6


def _fields(data: bytes, depth: int = 0) -> Fields | None:
    """The fields of a message; None where the bytes are none."""
    found: Fields = []
    at = 0
    while at < len(data):
        tag, at = _number(data, at)
        kind = tag & 7
        if kind == 0:
            value, at = _number(data, at)
            found.append((tag >> 3, kind, value))
            continue
        size = FIXED.get(kind, -1)
        if kind == 2:
            size, at = _number(data, at)
        if size < 0 or tag >> 3 == 0 or at + size > len(data):
            return None
        part = data[at : at + size]
        at += size
        inner = (
            _fields(part, depth + 1) if kind == 2 and depth < DEEPEST and part[:1] < b"\x80" and len(part) > 1 else None
        )
        found.append((tag >> 3, kind, inner or part))
    return found if at == len(data) else None


def _number(data: bytes, at: int) -> tuple[int, int]:
    value = shift = 0
    while at < len(data):
        value |= (data[at] & 0x7F) << shift
        at, shift = at + 1, shift + 7
        if data[at - 1] < 0x80:
            return value, at
    return -1, len(data) + 1


def _encoded(fields: Fields) -> bytes:
    out = bytearray()
    for number, kind, value in fields:
        out += varint(number << 3 | kind)
        if kind == 0:
            out += varint(value)
            continue
        part = _encoded(value) if isinstance(value, list) else value
        out += (varint(len(part)) if kind == 2 else b"") + part
    return bytes(out)


def _messages(fields: Fields) -> Iterator[Fields]:
    yield fields
    for _, _, value in fields:
        if isinstance(value, list):
            yield from _messages(value)


def _field(dice: Dice, top: Fields) -> None:
    held = dice.choice([one for one in _messages(top) if one] or [top])
    if not held:
        return
    at, to = dice.randrange(len(held)), dice.randrange(len(held))
    number, kind, value = held[at]
    match dice.randrange(8):
        case 0:
            del held[at]
        case 1:
            held.insert(to, held[at])
        case 2:
            held[at], held[to] = held[to], held[at]
        case 3:
            held[at] = (dice.choice((1, 2, 3, 4, 5, 7, 8, 11, number + 1, 1 << 28)), kind, value)
        case 4:
            held[at] = (number, 2, dice.choice((b"", b"\xff" * 12, b"\x0a\xff\xff\xff\xff\x07", b"\x0b" * 2_000)))
        case 5:
            held[at] = (number, 0, dice.choice((0, 1, 2**31, 2**63, 2**64 - 1)))
        case _ if kind == 0:
            held[at] = (number, 0, dice.choice((0, 1, value + 1, -value, value << 32, 2**63, 2**64 - 1)))
        case _ if kind == 1:
            held[at] = (
                number,
                1,
                dice.choice((struct.pack("<d", float("nan")), struct.pack("<d", 1e308), b"\xff" * 8)),
            )
        case _:
            text = _encoded(value) if isinstance(value, list) else value
            odd = dice.choice((b"\x00", b"\xff\xfe", b"\x1b[2J", b"a" * 100_000, "\u202e".encode(), b"[" * 2_000))
            place = dice.randint(0, len(text))
            held[at] = (number, kind, text[:place] + odd + text[place:] if kind == 2 else text)


def protobuf(dice: Dice, whole: bytes) -> bytes:
    """A message with fields changed, taken out, doubled or moved at any depth, or with changed bytes."""
    fields = _fields(whole)
    if fields is None or dice.random() < 0.2:
        return some_bytes(dice, whole)
    for _ in range(dice.choice((1, 1, 2, 4))):
        _field(dice, fields)
    return _encoded(fields)


def parquet(dice: Dice, whole: bytes) -> bytes:
    """A table with a column taken out, renamed or of another type, or with changed bytes."""
    import polars as pl

    if dice.random() < 0.4:
        return some_bytes(dice, whole)
    frame = pl.read_parquet(io.BytesIO(whole))
    column, other = dice.choice(frame.columns), dice.choice(frame.columns)
    match dice.randrange(6):
        case 0:
            frame = frame.drop(column)
        case 1:
            frame = frame.rename({column: f"{column}x"})
        case 2:
            frame = frame.with_columns(pl.col(column).cast(pl.String))
        case 3:
            frame = frame.with_columns(pl.lit(None, dtype=dice.choice((pl.Int64, pl.Binary, pl.Null))).alias(column))
        case 4:
            frame = frame.with_columns(pl.lit(dice.choice((-1, 2**62, 0.5, "x", b"\xff"))).alias(column))
        case _:
            frame = frame.with_columns(pl.col(other).alias(column)).head(dice.choice((0, 1, 100)))
    out = io.BytesIO()
    frame.write_parquet(out)
    return out.getvalue()


NAMES: Final = (
    "../up.json",
    "/root.json",
    "a/b/c.json",
    ".hidden.json",
    "rank0.json",
    "x" * 300 + ".json",
    "a\x00b.json",
    "\n.json",
)


def archive(dice: Dice, whole: bytes) -> bytes:
    """An archive of a damaged trace, or a damaged archive: other names, methods, flags, check sums, or bytes."""
    if dice.random() < 0.5:
        made = some_bytes(dice, whole)
        if made.startswith(b"PK") and dice.random() < 0.5:  # in the list of members
            at = made.rfind(b"PK\x01\x02")
            place = max(at, 0) + dice.randrange(46)
            made = made[:place] + bytes([dice.choice((0, 1, 9, 99, 255))]) + made[place + 1 :]
        return made
    if not whole.startswith(b"PK"):
        packed = gzip.compress(json_text(dice, gzip.decompress(whole)), mtime=0)
        return packed + dice.choice((b"", b"", packed, b"\x00" * 64, b"tail"))
    return _zip(dice, whole)


def _zip(dice: Dice, whole: bytes) -> bytes:
    out = io.BytesIO()
    with zipfile.ZipFile(io.BytesIO(whole)) as old, zipfile.ZipFile(out, "w") as new:
        for info in old.infolist():
            data = old.read(info)
            if info.filename.endswith(".json") and dice.random() < 0.7:
                data = json_text(dice, data)
            name = dice.choice(NAMES) if dice.random() < 0.4 else info.filename
            method = dice.choice((zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED, zipfile.ZIP_BZIP2, zipfile.ZIP_LZMA))
            data = dice.choice((data, data, data, b"", out.getvalue(), gzip.compress(data), zlib.compress(data)))
            if name not in new.namelist():
                new.writestr(zipfile.ZipInfo(name), data, method)
    return out.getvalue()
