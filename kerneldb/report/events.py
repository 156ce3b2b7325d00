"""What a timeline in a page holds: the events of a trace as rows of columns, packed for `timeline_data.js`.

Of a trace of more than `MOST` events, those shorter than a step are summed, by the step in which they begin: what is
summed is an item of `n` events, which together took `busy_ns`, named after the longest. A page that is served asks for
the stretch that it shows, in finer steps.

The packed form is gzip over: the length of a header (4 bytes, little-endian), the header (JSON), and for each row of
the header its columns start (delta from the item before, the first from the origin), duration, name and link (1 + the
number of the item on the host that launched it; 0: none). A column is a byte that says how many planes it has, and
these planes of bytes, lowest first. Rows with `summed` have two columns more, n and busy_ns; in a page that is served
all have one more, `key`: of a launch 1 + the start of its call, of an operator or a call 1 + its id; 0: none. Times are
in ns.
"""

from __future__ import annotations

import base64
import collections
import dataclasses
import hashlib
import json
import struct
import zlib
from typing import TYPE_CHECKING, Any, Final

import polars as pl

from kerneldb.api import timeline, tracks
from kerneldb.output.text import harmless
from kerneldb.output.units import duration
from kerneldb.report import exchanges
from kerneldb.report.model import shapes
from kerneldb.shell import Name, kerneldb

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from kerneldb.api.timeline import Axis
    from kerneldb.report.asking import Asking

MOST: Final = 1_000_000
"""Events of a page that are held one by one, and rows of one with sums."""
PATH: Final = "critical path"
MOST_ON_PATH: Final = 20_000
"""With more launches than this, a page has no critical path: it would take minutes."""
BINS: Final = 4000
"""Steps of a whole trace in a page that is served: as many as a wide screen has columns."""
MOST_BINS: Final = 20_000
DERIVED: Final = ("idle", "phase", "module", PATH)
"""Lanes whose items are no events of the trace."""
CALLERS: Final = ("operators", "API calls")
NUMBERS: Final = 1 << 40
"""More than a trace has events: numbers of several traces are that far apart."""
UNKNOWN: Final = "zoom in for the cause"
LEVEL: Final = 6
FACTS_MADE: Final = frozenset(
    {"signature", "input_dims", *(f"{shape}_{axis}" for shape in ("grid", "block") for axis in "xyz")}
)
"""Columns of facts that are told in another form."""
COLUMNS: Final = (
    "place", "lane", "row", "name", "category", "start_ns", "duration_ns", "number", "link", "n", "busy_ns", "key",
    "signature",
)  # fmt: skip


@dataclasses.dataclass(frozen=True, slots=True)
class Window:
    """A stretch of a trace: events shorter than `step_ns` are summed; 0: none are."""

    first_ns: int
    last_ns: int
    step_ns: int = 0


@dataclasses.dataclass(frozen=True, slots=True)
class Extent:
    """All of a trace: its number of events on host and GPU, `launches` among them; times are told from `zero_ns` on."""

    whole: Window
    events: int
    launches: int
    zero_ns: int


@dataclasses.dataclass(frozen=True, slots=True)
class Events:
    """Rows of items in order of places and lanes (columns `COLUMNS`), and counters (name, ts_ns, value, unit).

    They show `window` of the trace `found`; `live` is its name, in a page that is served and asks for more.
    """

    frame: pl.DataFrame
    counters: pl.DataFrame
    found: Extent
    window: Window
    live: str = ""
    trace: str = ""
    """Its name, in a page that does not ask; none of several traces."""
    facts: Mapping[str, Mapping[str, Any]] = dataclasses.field(default_factory=dict)
    """What is stored of launches, by their `signature` in the frame; a page that is served asks for it."""
    exchanges: pl.DataFrame | None = None
    """Its collectives (see `exchanges.gather`), where all events are there one by one."""
    aligned: bool = True
    """Whether times of several traces are by one clock."""
    categories: Mapping[str, int] = dataclasses.field(default_factory=dict)
    """The time of each category of launches in the whole trace; a page that asks for a stretch knows them."""
    pathless: Mapping[str, int] = dataclasses.field(default_factory=dict)
    """Traces whose critical path is no lane here, and how many launches they have."""

    def note(self) -> str:
        """What is summed, as a sentence; nothing where all events are there one by one."""
        if not self.window.step_ns:
            return ""
        if self.live:
            return f"{self.found.events:,} events: what is too short to be seen is drawn as sums, until you zoom in."
        alone = self.frame.filter(pl.col("n") == 1, ~pl.col("lane").is_in(DERIVED)).height
        step = duration(self.window.step_ns)
        return (
            f"{alone:,} of {self.found.events:,} events one by one, all of {step} and more among them; "
            f"shorter ones are summed by {step}, shorter idle times left out. kerneldb serve shows each."
        )

    def without_path(self) -> str:
        """That the critical path is no lane here, and what shows it; nothing where it is one."""
        if not self.pathless:
            return ""
        names = [Name(name) for name in self.pathless]
        sizes = (f"{'' if len(names) == 1 else f'{harmless(name)}: '}{n:,}" for name, n in self.pathless.items())
        command = kerneldb("analyze", "critical-path", *names)
        return f"The critical path is not drawn for so many launches ({', '.join(sizes)}): {command} shows it."


def gather(ask: Asking, most: int, *, live: bool = False) -> Events:
    """The events of the trace that `ask` is about: one by one where there are at most `most`.

    Else with sums: in steps that give at most `most` rows, or (`live`) as many as a screen shows.
    """
    made = _gather(ask, most, live=live)
    launches, stretch = made.found.launches, live and made.found.events > most
    pathless = {str(ask.params["trace"]): launches} if launches > (0 if stretch else MOST_ON_PATH) else {}
    return dataclasses.replace(made, categories=categories(ask), pathless=pathless)


def categories(ask: Asking) -> dict[str, int]:
    """The time of each category of launches of a trace, most first."""
    return {row["category"]: row["total_ns"] for row in ask.rows("events_categories")}


def _gather(ask: Asking, most: int, *, live: bool) -> Events:
    found, name = extent(ask), str(ask.params["trace"])
    if found.events <= most:
        items, samples = _items(ask, found.whole, found)
        known = facts(ask)
        return Events(items, samples, found, found.whole, trace=name, facts=known, exchanges=exchanges.gather(ask))
    if live:
        return window(ask, found, found.whole.first_ns, found.whole.last_ns, BINS)
    stretch = dataclasses.replace(found.whole, step_ns=_step(ask, found.whole, most))
    return Events(*_items(ask, stretch, found), found, stretch, trace=name, facts=facts(ask))


def facts(ask: Asking, signature: str | None = None) -> dict[str, dict[str, Any]]:
    """What is stored of the launches of each signature (of `signature` alone), with its `point` in the roofline."""
    found = {}
    for row in ask.also({"signature": signature}).rows("events_facts"):
        stored = {name: value for name, value in row.items() if value is not None and name not in FACTS_MADE}
        for shape in ("grid", "block"):
            if row[f"{shape}_x"] is not None:
                stored[shape] = [row[f"{shape}_{axis}"] for axis in "xyz"]
        if row["input_dims"]:
            stored["shapes"] = harmless(shapes(row["input_dims"]))
        found[row["signature"]] = {**stored, "point": point(str(ask.params["trace"]), row["signature"])}
    return found


def point(trace: str, signature: str) -> str:
    """What the dot of a signature in the roofline of a trace is called."""
    return hashlib.sha256(f"{trace} {signature}".encode()).hexdigest()[:16]


def together(asks: Sequence[Asking], axis: Axis, most: int) -> Events:
    """The events of several traces at the times that they have on `axis`, with at most `most` rows, as many of each.

    Places end with the name of their trace; those of GPUs come before those of hosts.
    """
    found = [gather(ask, most // len(asks)) for ask in asks]
    frames, samples, stretches = [], [], []
    known: dict[str, Mapping[str, Any]] = {}
    collectives = []
    for number, (one, placed) in enumerate(zip(found, axis.traces, strict=True)):
        name, whole = harmless(placed.trace), one.found.whole
        of_trace = pl.lit(f", {name}")
        place = pl.when(pl.col("lane") == PATH).then(pl.lit(f"trace {name}")).otherwise(pl.col("place") + of_trace)
        moved = pl.col("start_ns") + placed.shift_ns
        signature = pl.lit(f"{number} ") + pl.col("signature")
        numbers = pl.col("number", "link") + number * NUMBERS
        frames.append(one.frame.with_columns(moved, numbers, place=place, signature=signature))
        known |= {f"{number} {signature}": stored for signature, stored in one.facts.items()}
        samples.append(one.counters.with_columns(pl.col("ts_ns") + placed.shift_ns, pl.col("name") + of_trace))
        if one.exchanges is not None:
            collectives.append(exchanges.moved(one.exchanges, f", {name}", placed.shift_ns))
        stretches.append((whole.first_ns + placed.shift_ns, whole.last_ns + placed.shift_ns, one.window.step_ns))
    firsts, lasts, steps = zip(*stretches, strict=True)
    whole = Window(min(firsts), max(lasts))
    extents = [one.found for one in found]
    events, launches = sum(one.events for one in extents), sum(one.launches for one in extents)
    zeros = (one.zero_ns + placed.shift_ns for one, placed in zip(extents, axis.traces, strict=True))
    held = Extent(whole, events, launches, min(zeros))
    frame = pl.concat(frames).sort(pl.col("place").str.starts_with("process"), maintain_order=True)
    stretch = dataclasses.replace(whole, step_ns=max(steps))
    together = pl.concat(collectives, how="vertical_relaxed") if collectives else None
    told = pl.concat(samples, how="vertical_relaxed")
    spent: collections.Counter[str] = collections.Counter()
    for one in found:
        spent.update(one.categories)
    of_all = dict(spent.most_common())
    pathless = {name: n for one in found for name, n in one.pathless.items()}
    return Events(frame, told, held, stretch, "", "", known, together, axis.aligned, of_all, pathless)


def extent(ask: Asking) -> Extent:
    """When the trace begins and ends, and what it holds."""
    (row,) = ask.rows("events_extent")
    return Extent(Window(row["first_ns"] or 0, row["last_ns"] or 1), row["n"], row["launches"], row["zero_ns"] or 0)


def window(ask: Asking, found: Extent, first_ns: int, last_ns: int, bins: int) -> Events:
    """A stretch of a trace for a page that is served, in at most `MOST_BINS` steps."""
    steps = max(1, min(bins, MOST_BINS))
    stretch = Window(first_ns, last_ns, max(1, (last_ns - first_ns) // steps))
    return Events(*_items(ask, stretch, found, part=True), found, stretch, str(ask.params["trace"]))


def _step(ask: Asking, whole: Window, most: int) -> int:
    """The first step, each twice the one before, with which there are at most `most` rows."""
    step = max(1, (whole.last_ns - whole.first_ns) // most)
    while ask.also({"step_ns": step}).rows("events_count")[0]["n"] > most:
        step *= 2
    return step


def _items(ask: Asking, stretch: Window, found: Extent, *, part: bool = False) -> tuple[pl.DataFrame, pl.DataFrame]:
    """The items of a stretch, and its counters; of a whole trace with few launches the critical path, too."""
    ask = ask.also(dataclasses.asdict(stretch))
    numbered = ask.frame("events_host").with_row_index("number")
    gpu = _launches(ask, numbered, found.whole.first_ns)
    host = _plain(numbered, key=pl.when(pl.col("lane").is_in(CALLERS)).then(pl.col("id") + 1))
    gaps = _gaps(ask, part=part)
    path = () if part or found.launches > MOST_ON_PATH else _path(ask)
    devices = pl.concat([_plain(ask.frame("events_spans")), gpu, gaps])
    devices = devices.sort(pl.col("place").str.len_chars(), "place", maintain_order=True)
    return pl.concat([*path, devices, host]), ask.frame("events_samples")


def _plain(frame: pl.DataFrame, **others: Any) -> pl.DataFrame:
    """Rows with all columns: `others` as they are given, what is missing NULL; an event each, unless it is said."""
    held = frame.with_columns(**others)
    absent = {
        name: pl.lit(None) for name in ("category", "number", "link", "key", "signature") if name not in held.columns
    }
    alone = {} if "n" in held.columns else {"n": pl.lit(1), "busy_ns": pl.col("duration_ns")}
    whole = held.with_columns(**absent, **alone).with_columns(
        pl.col("place", "lane", "name", "category", "signature").cast(pl.String),
        pl.col("start_ns", "duration_ns", "number", "link", "n", "busy_ns", "key").cast(pl.Int64),
    )
    return _rows(whole).select(COLUMNS)


def _launches(ask: Asking, host: pl.DataFrame, origin: int) -> pl.DataFrame:
    """Launches, linked with their call, else with their operator, else with the sum of calls in which theirs is."""
    found = ask.frame("events_launches")
    for name, lane in (("api_index", "API calls"), ("op_id", "operators")):
        of = host.filter(pl.col("lane") == lane).select(pl.col("id").alias(name), pl.col("number").alias(lane))
        found = found.join(of.unique(name, keep="first"), on=name, how="left", maintain_order="left")
    found = _among_sums(found, host)
    key = pl.col("called_ns") - origin + 1
    return _plain(found, link=pl.coalesce("API calls", "operators", "sums"), key=pl.when(key > 0).then(key))


def _among_sums(found: pl.DataFrame, host: pl.DataFrame) -> pl.DataFrame:
    """With the column `sums`: the number of the sum of calls in which the call of a launch is."""
    sums = host.filter(pl.col("lane") == "API calls", pl.col("n") > 1).select(
        "start_ns", pl.col("number").alias("sums"), (pl.col("start_ns") + pl.col("duration_ns")).alias("until_ns")
    )
    if sums.is_empty():
        return found.with_columns(sums=pl.lit(None, dtype=pl.UInt32))
    placed = found.with_row_index("order").sort("called_ns")
    near = placed.join_asof(sums.sort("start_ns"), left_on="called_ns", right_on="start_ns", coalesce=False)
    return near.with_columns(sums=pl.when(pl.col("called_ns") <= pl.col("until_ns")).then("sums")).sort("order")


def _gaps(ask: Asking, *, part: bool) -> pl.DataFrame:
    """Idle times with their causes; of a `part` of a trace without, which are asked for when it is there."""
    if part:
        found = ask.frame("events_idle").with_columns(name=pl.lit("idle"), cause=pl.lit(UNKNOWN))
    else:
        found = ask.frame("events_gaps")
    return _plain(found, lane=pl.lit("idle"), category="idle: " + pl.col("cause"))


def caused(ask: Asking, stretch: Window) -> Iterator[tuple[str, str, str, int, int]]:
    """Of each idle time of a stretch its place, its cause, what it is called, its start and its duration."""
    axis = ask.of(timeline.axis, [ask.params["trace"]])
    if not axis.traces:
        return
    shift = axis.traces[0].shift_ns
    part = timeline.Stretch(stretch.first_ns + shift, stretch.last_ns - stretch.first_ns, 1)
    for _, found in ask.of(tracks.gaps, axis, part, causes=True):
        gap = found.facts
        place = f"GPU {'?' if gap['device'] is None else gap['device']}"
        then, call = gap["next_op"] or gap["next"], gap["waiting_call"]
        told = [
            gap["cause"],
            (f", after {call} had ended" if gap["is_carried"] else f": {call}") if call else "",
            f", then {then}" if then else "",
        ]
        yield place, gap["cause"], "".join(told), found.begins_ns - shift, found.ends_ns - found.begins_ns


def _path(ask: Asking) -> Iterator[pl.DataFrame]:
    """The critical path."""
    steps = ask.critical_path(str(ask.params["trace"]))
    if not steps:
        return
    what = pl.when(pl.col("part") == "host").then(pl.coalesce("call", "op")).otherwise(pl.col("kernel"))
    found = pl.DataFrame(steps, infer_schema_length=None).sort("start_ns", maintain_order=True)
    cause = pl.col("cause").replace({"unsplit": "waiting and transfer"})
    told = pl.concat_str(pl.col("part") + ": " + cause, what, separator=", ", ignore_nulls=True)
    lane = pl.lit(PATH)
    yield _plain(found.select("start_ns", "duration_ns", category="part", name=told), place=lane, lane=lane)


def _rows(frame: pl.DataFrame) -> pl.DataFrame:
    """Number the rows of each lane, so that events of a row do not overlap; then in order of lanes, rows and starts.

    An event is in the row below those that are open when it begins.
    """
    lanes = frame.partition_by("place", "lane", maintain_order=True)
    placed = [lane.with_columns(row=_open_at(lane)).sort("row", maintain_order=True) for lane in lanes]
    return pl.concat(placed) if placed else frame.with_columns(row=pl.lit(0, dtype=pl.Int64))


def _open_at(lane: pl.DataFrame) -> pl.Series:
    """The first row in which nothing is open when an event of the lane begins, which is in order of starts.

    Nested events are as deep as they are nested; launches that overlap take turns in few rows. Sums reach as far as
    what they stand for, which may be beyond the event around its first: nothing is within them.
    """
    alone = lane["n"] == 1
    ends = lane["start_ns"] + lane["duration_ns"]
    if not (lane["start_ns"] < ends.set(~alone, None).shift(1).forward_fill().cum_max()).any():
        return pl.repeat(0, lane.height, dtype=pl.Int64, eager=True)
    rows: list[int] = []
    opened: list[int] = []
    for start, end, is_event in zip(lane["start_ns"].to_list(), ends.to_list(), alone.to_list(), strict=True):
        while opened and opened[-1] <= start:
            opened.pop()
        row = next((place for place, until in enumerate(opened) if until <= start), len(opened))
        rows.append(row)
        if is_event:
            opened[row : row + 1] = [end]
    return pl.Series(rows, dtype=pl.Int64)


def packed(events: Events) -> bytes:
    """The gzip that `timeline_data.js` reads."""
    frame, whole = events.frame, events.found.whole
    frame = frame if events.live else frame.with_columns(_known(events.facts))
    told = ("name", "category", "signature")
    names = frame.select(told).unique(maintain_order=True).with_row_index("code")
    coded = frame.join(names, on=told, how="left", nulls_equal=True, maintain_order="left")
    order = coded.with_row_index("at").filter(pl.col("number").is_not_null()).select("number", link_to="at")
    coded = coded.join(order, left_on="link", right_on="number", how="left", maintain_order="left")
    lanes: list[dict[str, Any]] = []
    columns: list[bytes] = []
    by_row = coded.partition_by("place", "lane", "row", as_dict=True, maintain_order=True)
    for (place, lane, row), part in by_row.items():
        summed = bool((part["n"] > 1).any())
        lanes.append({"place": place, "lane": lane, "row": row, "n": part.height, "summed": summed})
        columns += _columns(part.sort("start_ns", maintain_order=True), whole.first_ns, summed, bool(events.live))
    header = {
        "origin": whole.first_ns,
        "zero": events.found.zero_ns - whole.first_ns,
        "end": whole.last_ns - whole.first_ns,
        "events": events.found.events,
        "window": [
            events.window.first_ns - whole.first_ns,
            events.window.last_ns - whole.first_ns,
            events.window.step_ns,
        ],
        "live": events.live,
        "trace": harmless(events.trace or events.live),
        "names": [harmless(str(name)) for name in names["name"]],
        "categories": names["category"].to_list(),
        "signatures": names["signature"].to_list(),
        "ranked": list(events.categories),
        "facts": events.facts,
        "aligned": events.aligned,
        "exchanges": None if events.exchanges is None else exchanges.header(events.exchanges, whole.first_ns),
        "lanes": lanes,
        "counters": list(_counters(events.counters)),
        "note": events.note(),
    }
    head = json.dumps(header, separators=(",", ":")).encode()
    packer = zlib.compressobj(LEVEL, wbits=31)
    body = [packer.compress(struct.pack("<I", len(head)) + head), *map(packer.compress, columns), packer.flush()]
    return b"".join(body)


def _known(facts: Mapping[str, Any]) -> pl.Expr:
    """Signatures of which nothing is told tell nothing apart: there may be as many as launches."""
    signature = pl.col("signature")
    return pl.when(signature.is_in(list(facts))).then(signature).alias("signature")


def _columns(part: pl.DataFrame, origin: int, summed: bool, live: bool) -> Iterator[bytes]:
    start = part["start_ns"]
    yield _planes(start.diff().fill_null(start[0] - origin))
    yield _planes(part["duration_ns"])
    yield _planes(part["code"])
    yield _planes(part["link_to"].cast(pl.Int64).fill_null(-1) + 1)
    if summed:
        yield _planes(part["n"])
        yield _planes(part["busy_ns"])
    if live:
        yield _planes(part["key"].fill_null(0))


def _planes(values: pl.Series) -> bytes:
    """Numbers from 0 as planes of their bytes, which compress better than numbers side by side."""
    whole = values.cast(pl.UInt64).to_arrow().cast("uint64").buffers()[1].to_pybytes()[: 8 * len(values)]
    most: Any = values.max() or 0
    planes = (int(most).bit_length() + 7) // 8
    return bytes([planes]) + b"".join(whole[byte::8] for byte in range(planes))


def _counters(frame: pl.DataFrame) -> Iterator[dict[str, Any]]:
    for (name, unit), part in frame.partition_by("name", "unit", as_dict=True, maintain_order=True).items():
        points: Sequence[Any] = part["ts_ns"].to_list()
        yield {"name": harmless(str(name)), "unit": unit, "ts": points, "values": part["value"].to_list()}


def inlined(events: Events) -> str:
    """The packed events as text for a page."""
    return base64.b64encode(packed(events)).decode()
