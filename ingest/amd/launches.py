"""Rows of `launches` from what AMD's profilers say of a dispatch or a copy."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping
from typing import Final

import polars as pl

from kerneldb import times
from kerneldb.ingest.amd.host import Host
from kerneldb.ingest.amd.output import Output, nullable
from kerneldb.ingest.amd.resources import allocated, is_rdna
from kerneldb.ingest.amd.shapes import Shapes
from kerneldb.ingest.occupancy import with_occupancy
from kerneldb.ingest.signing import INT32_MAX, Signer, name_id

WORK_ITEMS: Final = "work-items"
BLOCKS: Final = "blocks"
UNKNOWN_KERNEL: Final = "unknown_kernel"
NO_SYMBOL: Final = "no_symbol"
BACKWARD: Final = "ends_before_it_starts"
COUNTED: Final = "counters_collected"
STATIC_ONLY: Final = "lds_static_only"
"""rocprofv3's own CSV prints the LDS of the code, rounded up to 512 bytes, and not what the launch adds."""
AXES: Final = "xyz"

GIVEN: Final[dict[str, type[pl.DataType]]] = {
    "kind": pl.String,
    "name": pl.String,
    "timing": pl.String,
    "process": pl.String,
    "device": pl.Int32,
    "stream": pl.Int64,
    "queue": pl.Int64,
    "start_ns": pl.Int64,
    "end_ns": pl.Int64,
    "correlation_id": pl.Int64,
    **{f"reported_grid_{axis}": pl.Int64 for axis in AXES},
    "reported_grid_unit": pl.String,
    **{f"block_{axis}": pl.Int64 for axis in AXES},
    "total_blocks": pl.Int64,
    "threads_per_block": pl.Int32,
    "bytes": pl.Int64,
    "copy_kind": pl.String,
    "shared_bytes": pl.Int64,
    "static_shared_bytes": pl.Int64,
    "dynamic_shared_bytes": pl.Int64,
    "scratch_bytes": pl.Int64,
    "registers_reported": pl.Int32,
    "agprs_reported": pl.Int32,
    "sgprs_reported": pl.Int32,
    "graph_id": pl.Int64,
    "graph_node_id": pl.Int64,
    "quality": pl.String,
}
"""Columns of launches as readers hand them over; missing ones are NULL, `timing` then is timeline, the grid unit
work-items. LDS: what the dispatch packet says (`shared_bytes`) and what the code needs (`static_shared_bytes`)."""

PER_ROW: Final = ("start_ns", "end_ns", "correlation_id", "external_id", "graph_id", "graph_node_id")
"""Columns that differ from launch to launch; all others are described once per distinct launch."""
ROW_TYPES: Final[dict[str, type[pl.DataType]]] = dict.fromkeys(PER_ROW, pl.Int64)
DISTINCT: Final[dict[str, type[pl.DataType]]] = {
    **{name: kind for name, kind in GIVEN.items() if name not in PER_ROW},
    "region": pl.String,
}
ALLOCATED: Final = ("registers", "agprs", "sgprs")
THEORETICAL: Final = ("theoretical_occupancy", "theoretical_occupancy_cu", "theoretical_limiter")
ALWAYS: Final = ("start_ns", "end_ns", "duration_ns", "api_index", "phase", "quality")
FROM_SIGNATURE: Final = (
    "name",
    "grid_x",
    "grid_y",
    "grid_z",
    "block_x",
    "block_y",
    "block_z",
    "total_blocks",
    "threads_per_block",
    "bytes",
    "copy_kind",
)
WRITTEN: Final = (
    *(name for name in DISTINCT if name not in FROM_SIGNATURE),
    *ALLOCATED,
    *THEORETICAL,
    "signature_id",
    "fixed_scalars",
)
DIRECTION: Final = re.compile(r"(HOST|DEVICE)_TO_(HOST|DEVICE)|Copy(Host|Device)To(Host|Device)", re.IGNORECASE)


def copy_kind(name: str | None) -> str | None:
    """HtoD, DtoH, DtoD or HtoH, as the name of a copy prints its direction."""
    found = DIRECTION.search(name or "")
    if found is None:
        return None
    one, other = [side for side in found.groups() if side][:2]
    return f"{one[0].upper()}to{other[0].upper()}"


class Launches:
    """Writes launches slice by slice; `finish` writes their signatures and names."""

    def __init__(self, output: Output, host: Host) -> None:
        self.output = output
        self._host = host
        self._signer = Signer()
        self._shapes: dict[tuple[str, bool, tuple[tuple[int, str | None], ...]], Shapes] = {}
        self.statuses: Counter[str] = Counter()
        self.timings: Counter[str] = Counter()
        self.phased = 0
        self.rdna = 0

    def add(
        self, part: str, given: pl.DataFrame, archs: Mapping[int, str | None], halved: bool = False
    ) -> tuple[int, int]:
        """Write a slice; returns the first launch_index of it and the one behind its last.

        Beside the columns of GIVEN, `external_id` and `region` may be there, see `Host.linked`.
        """
        key = (part, halved, tuple(archs.items()))
        if key not in self._shapes:
            self._shapes[key] = Shapes(list(DISTINCT), lambda rows: self.described(rows, archs, halved))
        rows = nullable(given, {**DISTINCT, **ROW_TYPES})
        return self.write(part, rows.select(PER_ROW), self._shapes[key].described(rows))

    def described(self, distinct: pl.DataFrame, archs: Mapping[int, str | None], halved: bool = False) -> pl.DataFrame:
        """Columns of `launches` for distinct launches, one row each, from columns of GIVEN and `region`."""
        rows = _fitting(_shaped(nullable(distinct, DISTINCT)))
        rows = self._signer.sign(with_occupancy(allocated(rows, archs, halved), archs))
        rdna = [device for device, arch in archs.items() if is_rdna(arch)]
        fixed = pl.col("device").is_in(rdna) & pl.col("sgprs_reported").is_not_null()
        return rows.with_columns(fixed_scalars=fixed.fill_null(False)).select(*WRITTEN)

    def write(self, part: str, rows: pl.DataFrame, described: pl.DataFrame) -> tuple[int, int]:
        """Write a slice of launches, given columns of PER_ROW and what `described` says of each of them."""
        first = self.output.launches
        whole = self._host.linked(part, _timed(rows.hstack(described)))
        whole = whole.with_row_index("launch_index", first).cast({"launch_index": pl.Int64})
        self._count(whole)
        process = pl.coalesce("process", "api_process")
        self.output.write("launches", _told(whole.with_columns(process=process).drop("fixed_scalars", "api_process")))
        return first, self.output.launches

    def finish(self, symbols: pl.DataFrame | None = None) -> None:
        """Write signatures and names; `symbols` has a column `name` with names that were perhaps never launched."""
        self.output.spool.write("signatures", self._signer.signatures())
        names = self._signer.names()
        if symbols is not None and symbols.height:
            distinct = symbols.select("name").drop_nulls().unique(maintain_order=True)
            ids = pl.Series("name_id", [name_id(name) for name in distinct["name"]], dtype=pl.String)
            names = pl.concat([names, distinct.select(ids, "name", kind=pl.lit("kernel"))])
            names = names.unique("name_id", keep="first", maintain_order=True)
        self.output.spool.write("kernel_names", names)

    @property
    def trace_kind(self) -> str:
        """`profiled` where every kernel ran under a kernel profiler, else timeline."""
        return "profiled" if set(self.timings) == {"profiled"} else "timeline"

    def _count(self, rows: pl.DataFrame) -> None:
        self.output.launches += rows.height
        self.output.saw(rows)
        self.output.report.add("stored", "GPU activities", rows.height)
        self.statuses.update(dict(rows.group_by("launch_status").len().sort("launch_status").iter_rows()))
        timings = rows.filter(pl.col("kind") == "kernel").group_by("timing").len()
        self.timings.update(dict(timings.iter_rows()))
        self.rdna += int(rows["fixed_scalars"].sum())
        self.phased += rows.height - rows["phase"].null_count()


def _shaped(rows: pl.DataFrame) -> pl.DataFrame:
    """Workgroups from what the source counts, LDS told apart, and what is missing filled with what it means."""
    work_items = pl.col("reported_grid_unit").fill_null(WORK_ITEMS) == WORK_ITEMS
    grid = {}
    for axis in AXES:
        size, block = pl.col(f"reported_grid_{axis}"), pl.col(f"block_{axis}")
        whole = pl.when(block > 0).then((size + block - 1) // block)
        grid[f"grid_{axis}"] = pl.when(work_items).then(whole).otherwise(size)
    shared, static = pl.col("shared_bytes"), pl.col("static_shared_bytes")
    told_apart = (shared >= static) & ~pl.col("quality").fill_null("").str.contains(STATIC_ONLY, literal=True)
    has_grid = pl.col("reported_grid_x").is_not_null()
    return rows.with_columns(
        **grid,
        reported_grid_unit=pl.when(has_grid).then(pl.coalesce("reported_grid_unit", pl.lit(WORK_ITEMS))),
        timing=pl.col("timing").fill_null("timeline"),
        name=pl.col("name").fill_null(UNKNOWN_KERNEL),
        dynamic_shared_bytes=pl.coalesce("dynamic_shared_bytes", pl.when(told_apart).then(shared - static)),
    )


def _fitting(rows: pl.DataFrame) -> pl.DataFrame:
    """Sizes as 32-bit numbers; NULL where they are none."""
    sizes = [f"{side}_{axis}" for side in ("grid", "block") for axis in AXES]
    fits = [
        pl.when(pl.col(name).is_between(0, INT32_MAX)).then(pl.col(name)).cast(pl.Int32).alias(name) for name in sizes
    ]
    return rows.with_columns(fits)


def _timed(rows: pl.DataFrame) -> pl.DataFrame:
    """Add `duration_ns`, and a word in `quality` where an activity ends before it starts, which the spool refuses."""
    rows = rows.with_columns(duration_ns=times.between())
    backward = rows["end_ns"] < rows["start_ns"]
    if not backward.any():
        return rows
    noted = pl.concat_str(pl.col("quality"), pl.lit(BACKWARD), separator=",", ignore_nulls=True)
    return rows.with_columns(quality=pl.when(backward).then(noted).otherwise("quality"))


def _told(rows: pl.DataFrame) -> pl.DataFrame:
    """Without columns that say nothing in this slice: they are NULL in the warehouse all the same."""
    return rows.select([column for column in rows if column.null_count() < rows.height or column.name in ALWAYS])
