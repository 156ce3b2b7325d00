"""Turns a chunk of events into one frame per group of events.

Valid JSON of the usual types goes through polars' NDJSON reader. A chunk that it refuses (malformed events, numbers
written as strings, backslashes in nested lists) is read event by event in Python: slower, tolerant, with every repair
counted.
"""

from __future__ import annotations

import contextlib
import dataclasses
import io
import json
import re
from collections import Counter
from collections.abc import Sequence
from typing import Any, Final

import polars as pl

from kerneldb.ingest.pytorch import census, fields, repair
from kerneldb.times import SATURATED

EXACT_FLOAT_LIMIT_US: Final = 2.0**43
SATURATED_US: Final = SATURATED // 1000
"""A time that 64 bits of nanoseconds do not hold stays far too large, so that it is refused, and counted."""
DECIMAL_TS: Final = re.compile(rb'("ts"\s*:\s*)(-?\d+(?:\.\d+)?)')
DECIMALS: Final = re.compile(rb'"ts"\s*:\s*-?\d+\.\d*[1-9]')
ARGUMENTS: Final = re.compile(rb',\s*"args"\s*:\s*\{')
MARK: Final = b"\x02"
"""Parts an event from its arguments; no JSON text holds it."""
APART: Final = pl.Schema({"event": pl.String(), "args": pl.String()})
HEADER: Final = b"event" + MARK + b"args\n"
BACKSLASH: Final = rb"\\"
"""One, as JSON writes it."""
ODD_ARGUMENTS: Final = rf"^\s*\{{.*[\[{{].*\\|{repair.SURROGATE_ESCAPE.pattern}"
"""Arguments with a backslash in a nested value, or with an escape for half of a character."""
EXAMPLES: Final = 3
EXAMPLE_CHARS: Final = 60


@dataclasses.dataclass(slots=True)
class Chunk:
    """Events of one chunk by group, with what reading them took.

    Frames carry `cat`, `name`, `pid`, `tid`, `ts` (ns, Int64), `dur` (ns, Int64, NULL where absent), and the
    arguments of their group. `meta` holds names, counters and marks; `skipped` counts what has no table by phase and
    category, `unread` the events with an argument that is not read. `behind` is the text after the array's closing
    bracket, once that was seen.
    """

    groups: dict[str, pl.DataFrame]
    meta: pl.DataFrame
    events: int
    repaired: int = 0
    lost: int = 0
    examples: list[str] = dataclasses.field(default_factory=list)
    behind: str | None = None
    skipped: Counter[tuple[str, str]] = dataclasses.field(default_factory=Counter)
    unread: Counter[str] = dataclasses.field(default_factory=Counter)
    old_categories: bool = False


def decode(ndjson: bytes) -> Chunk:
    """Decode a chunk; times that float64 cannot hold to the nanosecond are read from their decimal text."""
    try:
        return _fast(ndjson)
    except pl.exceptions.PolarsError:
        return _tolerant(ndjson)


def _fast(ndjson: bytes) -> Chunk:
    """Raises PolarsError where the chunk has to be read event by event."""
    with contextlib.suppress(pl.exceptions.PolarsError):
        apart = _apart(ndjson)
        if apart is not None:
            return _grouped(apart)
    frame = _whole(ndjson)
    if BACKSLASH in ndjson and frame["args"].str.contains("\\", literal=True).any():
        msg = "a backslash in arguments that were read as text"
        raise pl.exceptions.ComputeError(msg)
    return _grouped(frame)


def _apart(ndjson: bytes) -> pl.DataFrame | None:
    r"""Events with their arguments as the writer spelled them, cut off before the rest is read: each is parsed once.

    None, or PolarsError here or where they are read, where the arguments cannot be cut off: they do not come last, or
    are no object, or hold a backslash in a nested value. Polars writes one into the text of such a value as it stands:
    `["\\r"]`, a backslash and an r, comes out as `["\r"]`, a carriage return. Nor does it count lone surrogates.
    """
    start = ARGUMENTS.search(ndjson)
    if start is None or MARK in ndjson:
        return None
    cut = HEADER + ndjson.replace(start.group(), b"}" + MARK + b"{")
    lines = pl.read_csv(io.BytesIO(cut), separator=MARK.decode(), quote_char=None, schema=APART)
    frame = _whole(_lines(lines["event"]))
    arguments = lines["args"].str.strip_suffix("}")
    odd = frame["args"].null_count() < frame.height
    odd = odd or (BACKSLASH[:1] in ndjson and arguments.str.contains(ODD_ARGUMENTS).any())
    return None if odd or frame.height != lines.height else _kept(frame.with_columns(arguments))


def _lines(texts: pl.Series) -> bytes:
    return texts.str.join("\n").cast(pl.Binary).item() or b""


def _kept(frame: pl.DataFrame) -> pl.DataFrame | None:
    """Arguments that are stored, and not read, as polars writes JSON, whatever blanks the writer put into them.

    None where one of these has a backslash.
    """
    read = (pl.col("ph") == "X") & pl.col("cat").is_in(fields.READ)
    rows = frame.select((pl.col("args").is_not_null() & ~read.fill_null(value=False)).arg_true()).to_series()
    if rows.is_empty():
        return frame
    kept = frame["args"].gather(rows)
    if kept.str.contains("\\", literal=True).any():
        return None
    text = _lines('{"args":' + kept + "}")
    written = pl.read_ndjson(io.BytesIO(text), schema={"args": pl.String()})["args"]
    return frame.with_columns(frame["args"].scatter(rows, written))


def _whole(ndjson: bytes) -> pl.DataFrame:
    """Events with their arguments as text of JSON."""
    frame = pl.read_ndjson(io.BytesIO(ndjson), schema=fields.EVENT)
    latest = frame["ts"].max()
    if isinstance(latest, float) and latest >= EXACT_FLOAT_LIMIT_US and DECIMALS.search(ndjson):
        texts = fields.EVENT | {"ts": pl.String()}
        frame = pl.read_ndjson(io.BytesIO(DECIMAL_TS.sub(rb'\1"\2"', ndjson)), schema=texts)
    return frame.with_columns(_nanoseconds(frame, "ts"), _nanoseconds(frame, "dur"))


def _nanoseconds(frame: pl.DataFrame, name: str) -> pl.Expr:
    """Microseconds to integer ns.

    The whole part is split off first: below 2^43 µs the fraction then keeps three exact digits.
    """
    if frame.schema[name] == pl.String:
        return _decimal_nanoseconds(pl.col(name))
    column = pl.col(name).clip(-SATURATED_US, SATURATED_US)
    whole = column.floor()
    return whole.cast(pl.Int64) * 1000 + ((column - whole) * 1000).round().cast(pl.Int64)


def _decimal_nanoseconds(column: pl.Expr) -> pl.Expr:
    parts = column.str.splitn(".", 2)
    whole = parts.struct.field("field_0").cast(pl.Int64, strict=False)
    whole = pl.when(whole.is_between(-SATURATED_US, SATURATED_US)).then(whole)
    digits = (parts.struct.field("field_1").fill_null("") + pl.lit("000")).str.slice(0, 3).cast(pl.Int64, strict=False)
    sign = pl.when(column.str.starts_with("-")).then(-1).otherwise(1)
    exact = pl.when(~column.str.contains("[eE]")).then(whole * 1000 + sign * digits)
    # An exponent, or more than 64 bits hold.
    rough = column.cast(pl.Float64, strict=False).clip(-SATURATED_US, SATURATED_US) * 1000
    return pl.coalesce(exact, rough.round().cast(pl.Int64, strict=False)).alias(column.meta.output_name())


def _grouped(frame: pl.DataFrame) -> Chunk:
    old = frame.select(pl.col("cat").is_in(list(fields.OLD_NAMES)).any()).item()
    category = pl.col("cat").replace(fields.OLD_NAMES)
    span = pl.col("ph") == "X"
    group = (
        pl.when(span)
        .then(category.replace_strict(fields.GROUP_OF, default="other", return_dtype=pl.String))
        .when((pl.col("ph") == "i") & (pl.col("name") == "[memory]"))
        .then(pl.lit("memory"))
        .when(pl.col("ph").is_in(["M", "C", "i", "I"]))
        .then(pl.lit("meta"))
        .otherwise(pl.lit("skipped"))
    )
    frame = frame.with_columns(cat=category, group=group)
    parts = frame.partition_by("group", as_dict=True, include_key=False, maintain_order=True)
    by_name = {str(key[0]): part for key, part in parts.items()}
    groups = {name: _with_args(name, by_name[name]) for name in fields.ARGS if name in by_name}
    if "other" in by_name:
        groups["other"] = by_name["other"]
    counts: Counter[tuple[str, str]] = Counter()
    if "skipped" in by_name:
        counted = by_name["skipped"].group_by(pl.col("ph").fill_null("?"), pl.col("cat").fill_null("?")).len()
        counts.update({(phase, name): n for phase, name, n in counted.iter_rows()})
    meta = by_name.get("meta", frame.clear().drop("group"))
    unread = census.unread_arguments(frame, "text" if "text" in frame.columns else "args")
    return Chunk(groups, meta, frame.height, skipped=counts, unread=unread, old_categories=bool(old))


def _with_args(group: str, frame: pl.DataFrame) -> pl.DataFrame:
    required, optional = fields.ARGS[group]
    text = _lines(frame["args"].fill_null("{}"))
    schema = dict(required)
    for key, columns in optional.items():
        if key.encode() in text:
            schema.update(columns)
    arguments = _read_arguments(text, schema)
    kept = frame.drop("args", "ph")
    if group == "range":
        counters = pl.when(pl.col("cat") == "cuda_profiler_range").then(pl.col("args")).alias("args")
        kept = frame.drop("ph").with_columns(counters)
    return kept.hstack(arguments.get_columns())


def _read_arguments(ndjson: bytes, schema: dict[str, pl.DataType]) -> pl.DataFrame:
    """Typed columns; where a writer spelled a number as a string, through text, with NULL for what is no number."""
    try:
        return pl.read_ndjson(io.BytesIO(ndjson), schema=schema)
    except pl.exceptions.ComputeError:
        loose = pl.read_ndjson(io.BytesIO(ndjson), schema=dict.fromkeys(schema, pl.String()))
        return loose.select(pl.col(name).cast(kind, strict=False) for name, kind in schema.items())


def _tolerant(ndjson: bytes) -> Chunk:
    """Read event by event.

    Neighbouring lines that do not parse alone are joined once: a boundary may be wrongly placed.
    """
    reader = _TolerantReader()
    for line in ndjson.decode("utf-8", errors="replace").split("\n"):
        reader.feed(line)
    reader.flush()
    try:
        ndjson.decode()
    except UnicodeDecodeError:
        reader.repaired += 1
    return reader.chunk()


def decode_tail(tail: bytes) -> Chunk:
    """Decode the last event and what follows it.

    `behind` is the text after the array's closing bracket, None where the text is cut.
    """
    text = tail.decode("utf-8", errors="replace").lstrip("\ufeff")
    events, repaired, lost, behind = repair.split_events(text)
    reader = _TolerantReader()
    reader.take(events, repaired, behind, text)
    reader.lost += lost
    return reader.chunk()


def _example(line: str) -> str:
    """The event from its name on, short: arguments behind it may be private."""
    start = max(line.find('"name"'), 0)
    return line[start : start + EXAMPLE_CHARS]


class _TolerantReader:
    def __init__(self) -> None:
        self.events: list[dict[str, Any]] = []
        self.repaired = 0
        self.lost = 0
        self.examples: list[str] = []
        self.behind: str | None = None
        self._pending: str | None = None

    def feed(self, line: str) -> None:
        """Take one line; a line that fails is kept to be tried together with the next one that fails."""
        if self.behind is not None:
            self.behind += "," + line
            return
        try:
            event = repair.STRICT.decode(line)
        except (ValueError, RecursionError):
            self._retry(line)
        else:
            self.take([event], 0, None, line)

    def _retry(self, line: str) -> None:
        parsed = repair.parse_event(line)
        if parsed is not None:
            self.take([parsed[0]], int(parsed[1]), None, line)
            return
        events, repaired, lost, behind = repair.split_events(line)
        if not lost:
            self.take(events, repaired, behind, line)
        elif self._pending is None:
            self._pending = line
        else:
            events, repaired, lost, behind = repair.split_events(self._pending + "," + line)
            self._pending = line if lost else None
            self.lost += lost
            self.take(events, repaired, behind, line)

    def take(self, events: Sequence[object], repaired: int, behind: str | None, line: str) -> None:
        """Keep what is an event, count what is not."""
        for event in events:
            if isinstance(event, dict):
                self.events.append(event)
            else:
                self.lost += 1
        self.repaired += repaired
        self.behind = behind
        if repaired and len(self.examples) < EXAMPLES:
            self.examples.append(_example(line))

    def flush(self) -> None:
        """Give up a line that is still pending."""
        if self._pending is not None:
            self.lost += 1
            self.examples.append(_example(self._pending))
            self._pending = None

    def chunk(self) -> Chunk:
        """The frames of all events read."""
        rows = [[_scalar(event.get(name)) for name in fields.EVENT] for event in self.events]
        frame, repaired = _texts(rows)
        times = (_decimal_nanoseconds(pl.col(name)) for name in ("ts", "dur"))
        chunk = _grouped_tolerant(frame.with_columns(*times))
        chunk.repaired = repaired + self.repaired
        chunk.lost, chunk.examples, chunk.behind = self.lost, self.examples, self.behind
        return chunk


def _texts(rows: list[list[str | None]]) -> tuple[pl.DataFrame, int]:
    """The rows as text, and in how many of them lone surrogates had to be replaced."""
    schema = {name: pl.String() for name in fields.EVENT}
    try:
        return pl.DataFrame(rows, schema=schema, orient="row"), 0
    except UnicodeEncodeError:
        whole = [[text and repair.without_surrogates(text) for text in row] for row in rows]
    repaired = sum(row != before for row, before in zip(whole, rows, strict=True))
    return pl.DataFrame(whole, schema=schema, orient="row"), repaired


def _scalar(value: object) -> str | None:
    if value is None or isinstance(value, str):
        return value
    if isinstance(value, repair.ExactFloat):
        return value.text
    try:
        return json.dumps(value, ensure_ascii=False)
    except RecursionError:
        return None


def _grouped_tolerant(frame: pl.DataFrame) -> Chunk:
    """As `_grouped`, with arguments converted value by value; what does not fit its column becomes NULL."""
    bare = _grouped(frame.with_columns(text=pl.col("args"), args=pl.lit("{}")))
    for name, part in bare.groups.items():
        if name in fields.ARGS:
            bare.groups[name] = _loose_args(name, part)
        else:
            bare.groups[name] = part.with_columns(args=pl.col("text")).drop("text")
    bare.meta = bare.meta.with_columns(args=pl.col("text")).drop("text")
    return bare


def _loose_args(group: str, frame: pl.DataFrame) -> pl.DataFrame:
    required, optional = fields.ARGS[group]
    schema = dict(required)
    for columns in optional.values():
        schema.update(columns)
    parsed = [repair.arguments_of(text) for text in frame["text"].to_list()]
    made = [
        pl.Series(name, [_scalar(row.get(name)) for row in parsed], dtype=pl.String).cast(kind, strict=False)
        for name, kind in schema.items()
    ]
    kept = frame.drop([name for name in schema if name in frame.columns])
    if "args" in kept.columns:
        kept = kept.with_columns(args=pl.when(pl.col("cat") == "cuda_profiler_range").then(pl.col("text")))
    return kept.drop("text").hstack(made)
