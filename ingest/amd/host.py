"""roctx ranges: nesting, paths, and which one encloses a moment on a thread.

A thread's ranges (push and pop) nest. Ranges of a process (start and stop) may overlap in any way and hold for all its
threads; inside them, those of the thread count.
"""

from __future__ import annotations

import dataclasses
import heapq
import re
from collections import defaultdict
from collections.abc import Iterable, Iterator
from typing import Any, Final

import polars as pl

from kerneldb import times
from kerneldb.ingest.columns import frame_of, schema
from kerneldb.ingest.output import Output, nullable

RANGE: Final = "roctx"
COLUMNS: Final = schema(
    "range_id kind name process thread start_ns duration_ns parent_id depth path phase external_id part"
)

Key = tuple[str | None, str | None]
"""Process and thread; thread None for ranges of the whole process."""
CALLS: Final = schema("process thread kind name start_ns end_ns correlation_id external_id bytes")
"""Columns of calls as readers hand them over; `kind` is the domain as printed."""

LINKED: Final = schema("api_index api_call launch_start_ns launch_duration_ns range_id api_process")
CORE_MARKER: Final = re.compile(r"MARKER_CORE(_RANGE)?_API|rocm_marker_api")
"""Of rocprofv3, and of rocprof-sys, whose domains are in small letters."""
NO_RANGE: Final = re.compile(r"roctx(RangePop|RangeStop|GetThreadId)")
UNTIMED_RANGE: Final = "roctx range whose start or end is not in the file"
DOMAIN_ENDING: Final = re.compile("^rocm_|_API(_EXT)?$|_api$")


@dataclasses.dataclass(slots=True)
class Marker:
    """A roctx range, or a mark where both times are equal.

    `external_id` is what the profiler calls it in launches of the same `part` (see `Host`).
    """

    process: str | None
    thread: str | None
    name: str
    start_ns: int
    end_ns: int
    external_id: int | None = None
    part: str = ""

    @property
    def closed_ns(self) -> int:
        """The end of what may enclose something: the start where the duration is refused."""
        return self.end_ns if 0 <= self.end_ns - self.start_ns <= times.LONGEST_NS else self.start_ns


class Ranges:
    """All ranges of a trace, numbered in order of time."""

    def __init__(self, markers: Iterable[Marker]) -> None:
        ordered = sorted(markers, key=lambda one: (one.start_ns, -one.closed_ns))
        self._segments = _segments(ordered)
        self._rows: list[dict[str, Any]] = []
        for number, (marker, parent) in enumerate(zip(ordered, _parents(ordered), strict=True)):
            self._rows.append(_range_row(number, marker, None if parent is None else self._rows[parent]))

    def frame(self) -> pl.DataFrame:
        """Rows of `ranges` without trace_id, and beside them `phase` (the outermost range), `external_id`, `part`."""
        return frame_of(self._rows, COLUMNS)

    def around(self, frame: pl.DataFrame, at: str) -> pl.Series:
        """`range_id` of the innermost range around the time `at` (in ns) of each row's process and thread."""
        if not self._rows:
            return pl.repeat(None, frame.height, dtype=pl.Int64, eager=True).alias("range_id")
        asked = frame.select("process", "thread", at=pl.col(at)).with_row_index("row")
        own = _looked_up(asked, self._segments.filter(pl.col("thread").is_not_null()), ["process", "thread"])
        shared = _looked_up(asked, self._segments.filter(pl.col("thread").is_null()), ["process"])
        return pl.select(pl.coalesce(own, shared).alias("range_id")).to_series()


def _range_row(number: int, marker: Marker, above: dict[str, Any] | None) -> dict[str, Any]:
    return {
        "range_id": number,
        "kind": "roctx_mark" if marker.end_ns == marker.start_ns else RANGE,
        "name": marker.name,
        "process": marker.process,
        "thread": marker.thread,
        "start_ns": times.fitting(marker.start_ns),
        "duration_ns": times.fitting(marker.end_ns - marker.start_ns),
        "parent_id": None if above is None else above["range_id"],
        "depth": 0 if above is None else above["depth"] + 1,
        "path": marker.name if above is None else f"{above['path']}/{marker.name}",
        "phase": marker.name if above is None else above["phase"],
        "external_id": marker.external_id,
        "part": marker.part,
    }


def _parents(markers: list[Marker]) -> Iterator[int | None]:
    """For each marker, in order of start, the innermost one around it: of its thread, else of its process."""
    open_ones: dict[Key, list[int]] = defaultdict(list)
    for number, marker in enumerate(markers):
        keys: list[Key] = [(marker.process, marker.thread), (marker.process, None)]
        found = None
        for key in dict.fromkeys(keys):
            stack = open_ones[key]
            stack[:] = [one for one in stack if markers[one].closed_ns > marker.start_ns]
            around = (one for one in reversed(stack) if markers[one].closed_ns >= marker.closed_ns)
            found = next(around, None) if found is None else found
        yield found
        if marker.closed_ns > marker.start_ns:
            open_ones[marker.process, marker.thread].append(number)


def _segments(markers: list[Marker]) -> pl.DataFrame:
    """(process, thread, at, range_id): from `at` on, the range that began last and is still open; NULL for none."""
    by_key: dict[Key, list[int]] = defaultdict(list)
    for number, marker in enumerate(markers):
        if marker.closed_ns > marker.start_ns:
            by_key[marker.process, marker.thread].append(number)
    rows = [
        (process, thread, at, number)
        for (process, thread), numbers in by_key.items()
        for at, number in _steps(markers, numbers)
    ]
    schema = {"process": pl.String, "thread": pl.String, "at": pl.Int64, "number": pl.Int64}
    return frame_of(rows, schema).sort("at", maintain_order=True)


def _steps(markers: list[Marker], numbers: list[int]) -> Iterator[tuple[int, int | None]]:
    ends: list[tuple[int, int]] = []
    stack: list[int] = []
    gone: set[int] = set()
    for number in numbers:
        yield from _ended(ends, stack, gone, markers[number].start_ns)
        stack.append(number)
        heapq.heappush(ends, (markers[number].closed_ns, number))
        yield markers[number].start_ns, number
    yield from _ended(ends, stack, gone, None)


def _ended(
    ends: list[tuple[int, int]], stack: list[int], gone: set[int], until: int | None
) -> Iterator[tuple[int, int | None]]:
    while ends and (until is None or ends[0][0] <= until):
        at, number = heapq.heappop(ends)
        gone.add(number)
        while stack and stack[-1] in gone:
            gone.discard(stack.pop())
        yield at, stack[-1] if stack else None


def _looked_up(asked: pl.DataFrame, segments: pl.DataFrame, by: list[str]) -> pl.Series:
    if segments.is_empty():
        return pl.repeat(None, asked.height, dtype=pl.Int64, eager=True)
    keys = pl.col(by).fill_null("")
    steps = segments.with_columns(keys).select(*by, "at", "number")
    ordered = asked.with_columns(keys).sort("at")
    found = ordered.join_asof(steps, on="at", by=by, strategy="backward", check_sortedness=False)
    return found.sort("row")["number"]


def known_moments() -> tuple[pl.Expr, pl.Expr]:
    """`start_ns` and `end_ns` without zeros: clocks that count from the start of the machine never show them.

    A profiler writes them where it has no time, such as for a dispatch that did not end.
    """
    start, end = (pl.when(pl.col(name) != 0).then(name).alias(name) for name in ("start_ns", "end_ns"))
    return start, end


def is_range(domain: str | None, function: str | None) -> bool:
    """Whether a call of the marker API is a range or a mark, rather than something else that roctx does."""
    return CORE_MARKER.fullmatch(domain or "") is not None and NO_RANGE.match(function or "") is None


class Host:
    """All calls of a trace. Give all markers first, then the calls slice by slice, then ask for links.

    A part is a set of correlation ids that is unique in itself (in a merged file: one process).
    """

    def __init__(self, output: Output, markers: list[Marker]) -> None:
        self._output = output
        self.ranges = Ranges(markers)
        self._range_rows = self.ranges.frame()
        self.calls = 0
        self._parts: dict[str, list[pl.DataFrame]] = defaultdict(list)
        self._sorted: dict[str, pl.DataFrame] = {}
        if self._range_rows.height:
            output.saw(self._range_rows.with_columns(end_ns=pl.col("start_ns") + pl.col("duration_ns")))
        output.write("ranges", self._range_rows.drop("phase", "external_id", "part"))

    @property
    def has_ranges(self) -> bool:
        """Whether the trace holds any roctx range or mark."""
        return self._range_rows.height > 0

    def add(self, part: str, calls: pl.DataFrame) -> None:
        """Write a slice of calls, in any order."""
        calls = nullable(calls, CALLS).with_row_index("api_index", self.calls).cast({"api_index": pl.Int64})
        calls = calls.with_columns(known_moments())
        calls = calls.with_columns(self.ranges.around(calls, "start_ns"), duration_ns=times.between())
        self.calls += calls.height
        self._output.saw(calls)
        # HIP_RUNTIME_API_EXT → hip_runtime, rocm_hip_api → hip
        domains = {kind: DOMAIN_ENDING.sub("", kind).lower() for kind in calls["kind"].unique().drop_nulls()}
        kind = pl.col("kind").replace_strict(domains, default="api", return_dtype=pl.String).fill_null("api")
        self._output.write("api_calls", calls.drop("end_ns").with_columns(kind))
        kept = calls.select(
            pl.col("correlation_id", "api_index", "range_id"),
            api_call=pl.col("name").cast(pl.Categorical),
            launch_start_ns="start_ns",
            launch_duration_ns="duration_ns",
            api_process=pl.col("process").cast(pl.Categorical),
        )
        self._parts[part].append(kept.drop_nulls("correlation_id"))

    def skip(self, reason: str, n: int) -> None:
        """Count records among the calls that are not calls."""
        self._output.report.add("skipped", reason, n)

    def linked(self, part: str, launches: pl.DataFrame) -> pl.DataFrame:
        """`launches` with the columns of LINKED, launch_status, phase and range_path.

        Uses `correlation_id` and, where no call is known, `external_id` (the roctx range that the profiler noted) and
        `region` (the text of the range, with `--kernel-rename`). Either column may be absent.
        """
        launches = nullable(launches, {"correlation_id": pl.Int64, "external_id": pl.Int64, "region": pl.String})
        if part not in self._sorted:
            slices = self._parts.pop(part, [])
            self._sorted[part] = (
                pl.concat(slices).sort("correlation_id", maintain_order=True) if slices else pl.DataFrame()
            )
        known = self._sorted[part]
        if known.is_empty():
            found = nullable(launches, LINKED)
        else:
            place = known["correlation_id"].search_sorted(launches["correlation_id"].fill_null(-1))
            matched = known[place.clip(upper_bound=known.height - 1)]
            hit = matched["correlation_id"] == launches["correlation_id"]
            columns = matched.select(*LINKED)
            if not hit.fill_null(False).all():
                columns = columns.select(pl.when(hit).then(pl.all()))
            found = nullable(launches.hstack(columns), LINKED)
        return self._phased(part, found.with_columns(_statuses(found["api_call"], found["api_index"])))

    def _phased(self, part: str, launches: pl.DataFrame) -> pl.DataFrame:
        region = pl.when(pl.col("region") != "").then("region")
        ranges = self._range_rows
        if ranges.is_empty():
            return launches.with_columns(phase=region, range_path=region).drop("region", "external_id")
        noted = ranges.filter(pl.col("external_id") > 0, pl.col("part") == part).unique("external_id", keep="first")
        noted = noted.select("external_id", noted="range_id")
        launches = launches.join(noted, on="external_id", how="left", maintain_order="left")
        launches = launches.with_columns(range_id=pl.coalesce("range_id", "noted"))
        paths = ranges.select("range_id", "phase", range_path="path")
        launches = launches.join(paths, on="range_id", how="left", maintain_order="left")
        return launches.with_columns(
            phase=pl.coalesce("phase", region), range_path=pl.coalesce("range_path", region)
        ).drop("region", "external_id", "noted")


def _statuses(calls: pl.Series, indexes: pl.Series) -> pl.Series:
    """`graph` below the launch of a graph, `no_op` below another call (operators are not recorded), else no_launch."""
    names = [name for name in calls.unique().drop_nulls() if "GraphLaunch" in name]
    call = pl.when(indexes.is_not_null()).then(pl.lit("no_op")).otherwise(pl.lit("no_launch"))
    graph = calls.is_in(names).fill_null(False) if names else pl.lit(False)
    return pl.select(pl.when(graph).then(pl.lit("graph")).otherwise(call).alias("launch_status")).to_series()
