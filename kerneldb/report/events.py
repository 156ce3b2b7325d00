"""What a timeline in a page holds: all events of a trace as rows of columns, packed for `timeline.js`.

The packed form is gzip over: the length of a header (4 bytes, little-endian), the header (JSON), and for each row of
the header its columns start (delta from the event before, the first from the origin), duration, name and link (1 + the
number of the event on the host that launched it; 0: none), each as `PLANES` planes of bytes, lowest first. Times are
in ns.
"""

from __future__ import annotations

import base64
import dataclasses
import json
import struct
import zlib
from typing import TYPE_CHECKING, Any, Final

import polars as pl

from kerneldb.output.text import harmless

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from kerneldb.report.asking import Asking

PLANES: Final = 6
"""Bytes of a number: 2^48 ns are 78 hours."""
MOST: Final = 1_000_000
"""Events of a page; beyond it the shortest are left out."""
PATH: Final = "critical path"
MOST_ON_PATH: Final = 20_000
"""With more launches than this, a page has no critical path: it would take minutes."""
LEVEL: Final = 6
COLUMNS: Final = ("place", "lane", "row", "name", "category", "start_ns", "duration_ns", "number", "link")


@dataclasses.dataclass(frozen=True, slots=True)
class Events:
    """Rows of events in order of places and lanes (columns `COLUMNS`), and counters (name, ts_ns, value, unit).

    `shown` of `found` events are in `frame`; `shortest_ns` is the shortest of those that were chosen by their length.
    """

    frame: pl.DataFrame
    counters: pl.DataFrame
    found: int
    shortest_ns: int | None

    @property
    def shown(self) -> int:
        """Number of events."""
        return self.frame.height

    def note(self) -> str:
        """What is left out, as a sentence; nothing where all are shown."""
        if self.shown == self.found:
            return ""
        return f"{self.shown:,} of {self.found:,} events: those shorter than {self.shortest_ns:,} ns are left out."


def gather(ask: Asking, most: int = MOST) -> Events:
    """The events of the trace that `ask` is about: launches before all others, long ones before short ones."""
    launches, host = _launches(ask), _host(ask)
    parts = [*_path(ask, launches.height), _spans(ask), launches, _gaps(ask), host]
    frame = pl.concat(parts)
    found = frame.height
    if found > most:
        rank = pl.col("place").str.starts_with("GPU").rank("dense", descending=True)
        frame = frame.with_row_index("order").sort(rank, "duration_ns", descending=[False, True]).head(most)
        shortest = frame["duration_ns"][-1]
        return Events(frame.sort("order").drop("order"), ask.frame("events_samples"), found, int(shortest))
    return Events(frame, ask.frame("events_samples"), found, None)


def _plain(frame: pl.DataFrame, **others: Any) -> pl.DataFrame:
    """Rows with all columns: `others` as they are given, what is missing NULL."""
    held = frame.with_columns(**others)
    absent = {name: pl.lit(None) for name in ("category", "number", "link") if name not in held.columns}
    whole = held.with_columns(**absent).with_columns(
        pl.col("place", "lane", "name", "category").cast(pl.String),
        pl.col("start_ns", "duration_ns", "number", "link").cast(pl.Int64),
    )
    return _rows(whole).select(COLUMNS)


def _host(ask: Asking) -> pl.DataFrame:
    """What threads did."""
    return _plain(_numbered(ask))


def _numbered(ask: Asking) -> pl.DataFrame:
    return ask.frame("events_host").with_row_index("number")


def _launches(ask: Asking) -> pl.DataFrame:
    """Launches, linked with their call, else with their operator."""
    host = _numbered(ask)
    found = ask.frame("events_launches")
    for name, lane in (("api_index", "API calls"), ("op_id", "operators")):
        of = host.filter(pl.col("lane") == lane, pl.col(name).is_not_null()).select(name, pl.col("number").alias(lane))
        found = found.join(of.unique(name, keep="first"), on=name, how="left", maintain_order="left")
    return _plain(found, link=pl.coalesce("API calls", "operators"))


def _gaps(ask: Asking) -> pl.DataFrame:
    return _plain(ask.frame("events_gaps"), lane=pl.lit("idle"), category="idle: " + pl.col("cause"))


def _path(ask: Asking, launches: int) -> Iterator[pl.DataFrame]:
    """The critical path, unless there are so many `launches` that it takes too long."""
    steps = ask.critical_path(str(ask.params["trace"])) if launches <= MOST_ON_PATH else []
    if not steps:
        return
    what = pl.when(pl.col("part") == "host").then(pl.coalesce("call", "op")).otherwise(pl.col("kernel"))
    found = pl.DataFrame(steps, infer_schema_length=None).sort("start_ns", maintain_order=True)
    told = pl.concat_str(pl.col("part") + ": " + pl.col("cause"), what, separator=", ", ignore_nulls=True)
    lane = pl.lit(PATH)
    yield _plain(found.select("start_ns", "duration_ns", category="part", name=told), place=lane, lane=lane)


def _spans(ask: Asking) -> pl.DataFrame:
    return _plain(ask.frame("events_spans"))


def _rows(frame: pl.DataFrame) -> pl.DataFrame:
    """Number the rows of each lane, so that events of a row do not overlap; then in order of lanes, rows and starts.

    An event is in the row below those that are open when it begins.
    """
    lanes = frame.partition_by("place", "lane", maintain_order=True)
    placed = [lane.with_columns(row=_open_at(lane)).sort("row", maintain_order=True) for lane in lanes]
    return pl.concat(placed) if placed else frame.with_columns(row=pl.lit(0, dtype=pl.Int64))


def _open_at(lane: pl.DataFrame) -> pl.Series:
    """How many earlier events of the lane, which is in order of starts, have not ended when each begins."""
    ends = lane["start_ns"] + lane["duration_ns"]
    if not (lane["start_ns"] < ends.shift(1).cum_max()).any():
        return pl.repeat(0, lane.height, dtype=pl.Int64, eager=True)
    rows: list[int] = []
    opened: list[int] = []
    for start, end in zip(lane["start_ns"].to_list(), ends.to_list(), strict=True):
        while opened and opened[-1] <= start:
            opened.pop()
        rows.append(len(opened))
        opened.append(end)
    return pl.Series(rows, dtype=pl.Int64)


def packed(events: Events) -> bytes:
    """The gzip that `timeline.js` reads."""
    frame = events.frame
    names = frame.select(pl.col("name", "category")).unique(maintain_order=True).with_row_index("code")
    coded = frame.join(names, on=("name", "category"), how="left", nulls_equal=True, maintain_order="left")
    order = coded.with_row_index("at").filter(pl.col("number").is_not_null()).select("number", link_to="at")
    coded = coded.join(order, left_on="link", right_on="number", how="left", maintain_order="left")
    origin = int(frame["start_ns"].min() or 0) if frame.height else 0  # type: ignore[arg-type]  # of integers
    lanes: list[dict[str, Any]] = []
    columns: list[bytes] = []
    by_row = coded.partition_by("place", "lane", "row", as_dict=True, maintain_order=True)
    for (place, lane, row), part in by_row.items():
        lanes.append({"place": place, "lane": lane, "row": row, "n": part.height})
        columns += _columns(part.sort("start_ns", maintain_order=True), origin)
    header = {
        "origin": origin,
        "names": [harmless(str(name)) for name in names["name"]],
        "categories": names["category"].to_list(),
        "lanes": lanes,
        "counters": list(_counters(events.counters)),
        "note": events.note(),
    }
    head = json.dumps(header, separators=(",", ":")).encode()
    packer = zlib.compressobj(LEVEL, wbits=31)
    body = [packer.compress(struct.pack("<I", len(head)) + head), *map(packer.compress, columns), packer.flush()]
    return b"".join(body)


def _columns(part: pl.DataFrame, origin: int) -> Iterator[bytes]:
    start = part["start_ns"]
    yield _planes(start.diff().fill_null(start[0] - origin))
    yield _planes(part["duration_ns"])
    yield _planes(part["code"])
    yield _planes(part["link_to"].cast(pl.Int64).fill_null(-1) + 1)


def _planes(values: pl.Series) -> bytes:
    """Numbers from 0 as planes of their bytes, which compress better than numbers side by side."""
    whole = values.cast(pl.UInt64).to_arrow().cast("uint64").buffers()[1].to_pybytes()[: 8 * len(values)]
    return b"".join(whole[byte::8] for byte in range(PLANES))


def _counters(frame: pl.DataFrame) -> Iterator[dict[str, Any]]:
    for (name, unit), part in frame.partition_by("name", "unit", as_dict=True, maintain_order=True).items():
        points: Sequence[Any] = part["ts_ns"].to_list()
        yield {"name": harmless(str(name)), "unit": unit, "ts": points, "values": part["value"].to_list()}


def inlined(events: Events) -> str:
    """The packed events as text for a page."""
    return base64.b64encode(packed(events)).decode()
