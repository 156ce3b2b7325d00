"""Calls of the HIP, HSA, RCCL, … APIs: rows of `api_calls`, and which of them launched what.

A dispatch carries the correlation id (rocpd: stack id) of the innermost call around its launch.
"""

from __future__ import annotations

import re
from collections import defaultdict
from typing import Final

import polars as pl

from kerneldb import times
from kerneldb.ingest.amd.output import Output, nullable
from kerneldb.ingest.amd.ranges import Marker, Ranges

CALLS: Final[dict[str, type[pl.DataType]]] = {
    "process": pl.String,
    "thread": pl.String,
    "kind": pl.String,
    "name": pl.String,
    "start_ns": pl.Int64,
    "end_ns": pl.Int64,
    "correlation_id": pl.Int64,
    "external_id": pl.Int64,
    "bytes": pl.Int64,
}
"""Columns of calls as readers hand them over; `kind` is the domain as printed."""

LINKED: Final[dict[str, type[pl.DataType]]] = {
    "api_index": pl.Int64,
    "api_call": pl.String,
    "launch_start_ns": pl.Int64,
    "launch_duration_ns": pl.Int64,
    "range_id": pl.Int64,
    "api_process": pl.String,
}
CORE_MARKER: Final = re.compile(r"MARKER_CORE(_RANGE)?_API|rocm_marker_api")
"""Of rocprofv3, and of rocprof-sys, whose domains are in small letters."""
NO_RANGE: Final = re.compile(r"roctx(RangePop|RangeStop|GetThreadId)")
DOMAIN_ENDING: Final = re.compile("^rocm_|_API(_EXT)?$|_api$")
GRAPH_LAUNCH: Final = "GraphLaunch"


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
        calls = calls.with_columns(self.ranges.around(calls, "start_ns"), duration_ns=times.between())
        self.calls += calls.height
        self._output.saw(calls)
        self._output.write("api_calls", calls.drop("end_ns").with_columns(_domains(calls["kind"])))
        kept = calls.select(
            "correlation_id",
            "api_index",
            "range_id",
            api_call=pl.col("name").cast(pl.Categorical),
            launch_start_ns="start_ns",
            launch_duration_ns="duration_ns",
            api_process=pl.col("process").cast(pl.Categorical),
        )
        self._parts[part].append(kept.drop_nulls("correlation_id"))

    def skip(self, reason: str, n: int) -> None:
        """Count what stands among the calls and is none."""
        self._output.report.add("skipped", reason, n)

    def linked(self, part: str, launches: pl.DataFrame) -> pl.DataFrame:
        """`launches` with the columns of LINKED, launch_status, phase and range_path.

        Uses `correlation_id` and, where no call is known, `external_id` (the roctx range that the profiler noted) and
        `region` (the text of the range, with `--kernel-rename`). Either column may be absent.
        """
        launches = nullable(launches, {"correlation_id": pl.Int64, "external_id": pl.Int64, "region": pl.String})
        known = self._calls_of(part)
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

    def _calls_of(self, part: str) -> pl.DataFrame:
        if part not in self._sorted:
            slices = self._parts.pop(part, [])
            whole = pl.concat(slices) if slices else pl.DataFrame()
            self._sorted[part] = whole if whole.is_empty() else whole.sort("correlation_id", maintain_order=True)
        return self._sorted[part]

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
    names = [name for name in calls.unique().drop_nulls() if GRAPH_LAUNCH in name]
    call = pl.when(indexes.is_not_null()).then(pl.lit("no_op")).otherwise(pl.lit("no_launch"))
    graph = calls.is_in(names).fill_null(False) if names else pl.lit(False)
    return pl.select(pl.when(graph).then(pl.lit("graph")).otherwise(call).alias("launch_status")).to_series()


def _domains(kinds: pl.Series) -> pl.Series:
    """HIP_RUNTIME_API_EXT → hip_runtime, rocm_hip_api → hip."""
    table = {kind: DOMAIN_ENDING.sub("", kind).lower() for kind in kinds.unique().drop_nulls()}
    return kinds.replace_strict(table, default="api", return_dtype=pl.String).fill_null("api")
