"""Counter collection: launches of its own, or counters of launches that the kernel trace of the capture has."""

from __future__ import annotations

from typing import Final

import polars as pl

from kerneldb.ingest.amd.counters import metric_rows
from kerneldb.ingest.amd.launches import COUNTED, Launches
from kerneldb.ingest.amd.output import Output, nullable
from kerneldb.ingest.rocprof_csv import activities
from kerneldb.ingest.rocprof_csv.agents import AgentMap

KEY: Final = ("part", "dispatch", "start")
KNOWN: Final[dict[str, type[pl.DataType]]] = {
    "part": pl.String,
    "dispatch": pl.Int64,
    "start": pl.Int64,
    "launch_index": pl.Int64,
}


class Counters:
    """Feed all kernel traces first. A dispatch is known by its number and its start."""

    def __init__(self, output: Output, launches: Launches, agents: AgentMap, process: str | None, halved: bool) -> None:
        self._output = output
        self._launches = launches
        self._agents = agents
        self._process = process
        self._halved = halved
        self._known = pl.DataFrame(schema=KNOWN)

    def traced(self, part: str, rows: pl.DataFrame, wide: list[str], from_rocpd: bool) -> None:
        """Write rows of a kernel trace; `wide` are columns of counters beside them (rocprof, rocprofv2).

        Times under counter collection are no times of a running program.
        """
        timing = "profiled" if wide else "timeline"
        given = activities.kernels(rows, self._agents, self._process, timing, from_rocpd)
        if wide:
            given = given.with_columns(quality=_with_counted())
        first, behind = self._launches.add(part, given, self._agents.archs, self._halved)
        keyed = nullable(rows, {"dispatch": pl.Int64, "start": pl.Int64})
        made = keyed.select(part=pl.lit(part), dispatch="dispatch", start="start")
        numbers = pl.int_range(first, behind, dtype=pl.Int64, eager=True)
        self._known = pl.concat([self._known, made.with_columns(launch_index=numbers)])
        if wide:
            values = rows.select(wide).with_columns(launch_index=numbers)
            long = values.unpivot(index="launch_index", variable_name="counter", value_name="value_text")
            self._write(long, None)

    def add(self, rows: pl.DataFrame, from_rocpd: bool, run_pass: int | None) -> None:
        """Write rows of a counter file, one per dispatch and counter."""
        guid = pl.col("guid").fill_null("") if "guid" in rows.columns else pl.lit("")
        rows = nullable(rows, {"dispatch": pl.Int64, "start": pl.Int64}).with_columns(part=guid)
        fresh = rows.unique(KEY, keep="first", maintain_order=True)
        fresh = fresh.join(self._known, on=KEY, how="anti", nulls_equal=True, maintain_order="left")
        for (part,), some in fresh.partition_by("part", as_dict=True, maintain_order=True).items():
            self._launch(str(part), some, from_rocpd)
        found = rows.join(self._known, on=KEY, how="left", nulls_equal=True, maintain_order="left")
        self._write(found.select("launch_index", "counter", value_text="value"), run_pass)

    def _launch(self, part: str, rows: pl.DataFrame, from_rocpd: bool) -> None:
        given = activities.kernels(rows, self._agents, self._process, "profiled", from_rocpd)
        given = given.with_columns(quality=_with_counted())
        first, behind = self._launches.add(part, given, self._agents.archs, self._halved)
        made = rows.select(*KEY, launch_index=pl.int_range(first, behind, dtype=pl.Int64))
        self._known = pl.concat([self._known, made])

    def _write(self, values: pl.DataFrame, run_pass: int | None) -> None:
        text = pl.col("value_text")
        decimals = text.str.extract(r"^-?\d+\.(\d+)$").str.len_chars().fill_null(0)
        plain = text.str.contains(r"^-?\d+(\.\d+)?$")
        rows = values.with_columns(
            value=text.cast(pl.Float64, strict=False),
            precision=pl.when(plain).then(0.5 * 10.0 ** (-decimals.cast(pl.Float64))),
            text=pl.when(text.cast(pl.Float64, strict=False).is_null()).then(text),
        ).drop("value_text")
        rows = rows.with_columns(pl.lit(run_pass, dtype=pl.Int32).alias("pass"))
        stored = rows.filter(pl.col("value").is_not_null() | pl.col("text").is_not_null())
        self._output.report.add("stored", "counter values", stored.height)
        self._output.write("metrics", metric_rows(stored))


def _with_counted() -> pl.Expr:
    return pl.concat_str(pl.col("quality"), pl.lit(COUNTED), separator=",", ignore_nulls=True)
