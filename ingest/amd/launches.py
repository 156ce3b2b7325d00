"""Rows of `launches` from what AMD's profilers say of a dispatch or a copy; registers as the hardware allocates them.

rocprofv3 reads counts from the kernel descriptor (rocprofiler-sdk, code_object.cpp): vector registers in steps of the
encoding, not of the allocation; 128 scalar registers on every RDNA, which limit nothing. Steps of the allocation are
LLVM's (AMDGPUBaseInfo.cpp, `getVGPRAllocGranule`).
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from typing import Final

import polars as pl

from kerneldb import times
from kerneldb.gpus.hip import WORK_ITEMS
from kerneldb.ingest.amd.host import Host, known_moments
from kerneldb.ingest.columns import Schema, schema
from kerneldb.ingest.distinct import coded_rows
from kerneldb.ingest.launches import INT32_MAX, WAVE64, Signer, name_id, with_occupancy
from kerneldb.ingest.output import Output, nullable

UNIFIED: Final = ("gfx90a", "gfx940", "gfx941", "gfx942", "gfx950")
LARGE_RDNA: Final = ("gfx1100", "gfx1101", "gfx1151", "gfx1200", "gfx1201")
"""RDNA with 1,536 vector registers per lane: allocated in steps of 24 (wave32) or 12 (wave64)."""
RDNA: Final = re.compile(r"gfx1[0-2]\d\d")
RDNA1: Final = re.compile(r"gfx101\d")
UNIFIED_STEP: Final = 8
SCALAR_STEP: Final = 16

HALVED: Final = "gfx950_registers_halved"
AS_REPORTED: Final = "registers_as_reported"
UNKNOWN_KERNEL: Final = "unknown_kernel"
NO_SYMBOL: Final = "no_symbol"
COUNTED: Final = "counters_collected"
STATIC_ONLY: Final = "lds_static_only"
"""rocprofv3's own CSV prints the LDS of the code, rounded up to 512 bytes, and not what the launch adds."""

GRID: Final = ("grid_x", "grid_y", "grid_z")
BLOCK: Final = ("block_x", "block_y", "block_z")
GIVEN: Final[Schema] = {
    **schema("kind name timing process device stream queue start_ns end_ns correlation_id"),
    **schema("reported_grid_x reported_grid_y reported_grid_z reported_grid_unit"),
    **dict.fromkeys(BLOCK, pl.Int64),
    **schema("total_blocks threads_per_block bytes copy_kind shared_bytes static_shared_bytes dynamic_shared_bytes"),
    **schema("scratch_bytes registers_reported agprs_reported sgprs_reported graph_id graph_node_id quality"),
}
"""Columns of launches as readers hand them over; missing ones are NULL, `timing` then is timeline, the grid unit
work-items. LDS: what the dispatch packet says (`shared_bytes`) and what the code needs (`static_shared_bytes`)."""

PER_ROW: Final = ("start_ns", "end_ns", "correlation_id", "external_id", "graph_id", "graph_node_id")
"""Columns that differ from launch to launch; all others are described once per distinct launch."""
DISTINCT: Final[Schema] = {name: kind for name, kind in GIVEN.items() if name not in PER_ROW} | schema("region")
ALWAYS: Final = ("start_ns", "end_ns", "duration_ns", "api_index", "phase", "quality")
FROM_SIGNATURE: Final = (*GRID, *BLOCK, "name", "total_blocks", "threads_per_block", "bytes", "copy_kind")
WRITTEN: Final = (
    *(name for name in DISTINCT if name not in FROM_SIGNATURE),
    *("registers", "agprs", "sgprs", "theoretical_occupancy", "theoretical_occupancy_cu", "theoretical_limiter"),
    *("signature_id", "fixed_scalars"),
)
DIRECTION: Final = re.compile(r"(HOST|DEVICE)_TO_(HOST|DEVICE)|Copy(Host|Device)To(Host|Device)", re.IGNORECASE)
UNTIMED: Final = "launches whose start or end is not in the file"
WAITS: Final = ("barrier", "marker", "internalmarker")
"""What a queue waits at, in small letters: commands of HIP (ROCclr), which the profilers list among activities."""
WAITED: Final = "barriers and markers: no work of the GPU"
PROFILED: Final = "kernels timed under counter collection: not part of time sums"
RDNA_SCALARS: Final = "scalar registers are fixed on RDNA and limit nothing: sgprs left empty"


def is_rdna(arch: str | None) -> bool:
    """Whether the architecture is one of RDNA, where scalar registers are fixed."""
    return arch is not None and RDNA.fullmatch(arch) is not None


def is_halved(arch: str | None, agprs: int | None) -> bool:
    """Whether register counts are half of the truth.

    rocprofiler-sdk took gfx950 for a chip without accumulation registers: it reports half of all as vector registers
    and no accumulation registers. `agprs` is the highest count that the trace reports; above zero, the fault is mended.
    """
    return arch == "gfx950" and not agprs


def allocated(frame: pl.DataFrame, archs: Mapping[int, str | None], halved: bool = False) -> pl.DataFrame:
    """Add `registers`, `agprs`, `sgprs` as allocated and extend `quality`.

    Needs columns `name`, `device`, `registers_reported`, `agprs_reported`, `sgprs_reported` and `quality`.
    """
    parts = [
        _of_arch(part, archs.get(device) if device is not None else None, halved)
        for (device,), part in frame.with_row_index("row").partition_by("device", as_dict=True).items()
    ]
    # Each kind of architecture adds its columns in an order of its own.
    whole = pl.concat(part.select(parts[0].columns) for part in parts)
    return whole.sort("row").drop("row") if len(parts) != 1 else whole.drop("row")


def _of_arch(frame: pl.DataFrame, arch: str | None, halved: bool) -> pl.DataFrame:
    vector, scalar = pl.col("registers_reported"), pl.col("sgprs_reported")
    none = pl.lit(None, dtype=pl.Int32)
    if arch is None or not arch.startswith("gfx"):
        return _noted(frame.with_columns(registers=vector, agprs="agprs_reported", sgprs=scalar), AS_REPORTED)
    if is_rdna(arch):
        narrow, wide = (24, 12) if arch in LARGE_RDNA else (8, 4) if RDNA1.fullmatch(arch) else (16, 8)
        step = pl.when(pl.col("name").str.contains(WAVE64)).then(wide).otherwise(narrow)
        return frame.with_columns(registers=_up(vector, step), agprs=none, sgprs=none)
    frame = frame.with_columns(sgprs=_up(scalar, SCALAR_STEP))
    if arch in UNIFIED and halved and is_halved(arch, 0):
        # The sum of both kinds is twice what is reported; how it is divided is not recorded.
        return _noted(frame.with_columns(registers=_up(2 * vector, UNIFIED_STEP), agprs=none), HALVED)
    if arch in UNIFIED:
        # Vector and accumulation registers share one file: the first are aligned to 4, the sum to 8.
        alone = pl.col("agprs_reported").fill_null(0) == 0
        aligned, both = _up(vector, 4), _up(_up(vector, 4) + pl.col("agprs_reported"), UNIFIED_STEP)
        return frame.with_columns(
            registers=pl.when(alone).then(_up(vector, UNIFIED_STEP)).otherwise(aligned),
            agprs=pl.when(alone).then("agprs_reported").otherwise(both - aligned),
        )
    frame = frame.with_columns(registers=_up(vector, 4), agprs=none)
    return _noted(frame, "gfx908_agprs_not_recorded") if arch == "gfx908" else frame


def _up(value: pl.Expr, step: int | pl.Expr) -> pl.Expr:
    return (((value + step - 1) // step) * step).cast(pl.Int32)


def _noted(frame: pl.DataFrame, remark: str) -> pl.DataFrame:
    known = pl.col("registers_reported").is_not_null()
    return frame.with_columns(quality=pl.when(known).then(remarked(remark)).otherwise("quality"))


def remarked(remark: str) -> pl.Expr:
    """`quality` with a further word."""
    return pl.concat_str(pl.col("quality"), pl.lit(remark), separator=",", ignore_nulls=True)


class Shapes:
    """Rows are told apart by the columns `keys` (NULL equals NULL); `describe` gives one row for each combination.

    `table` holds what was described so far, in the order of the numbers that `numbered` returns. Rows are looked up by
    a hash of their keys, and every hit is compared with the keys themselves.
    """

    def __init__(self, keys: Sequence[str], describe: Callable[[pl.DataFrame], pl.DataFrame]) -> None:
        self._keys = list(keys)
        self._describe = describe
        self._known = pl.DataFrame()
        self._numbers = pl.DataFrame(schema={"hash": pl.UInt64, "shape": pl.UInt32})
        self.table = pl.DataFrame()

    def numbered(self, rows: pl.DataFrame) -> pl.Series:
        """For each row the place of its combination in `table`."""
        coded, distinct = coded_rows(rows.select(self._keys))
        return self._places(distinct).gather(coded)

    def _places(self, asked: pl.DataFrame) -> pl.Series:
        hashes = pl.DataFrame({"hash": asked.hash_rows()})
        found = self._by_hash(hashes)
        if found.null_count():
            unseen = found.is_null()
            self._learn(asked.filter(unseen).unique(maintain_order=True))
            found = self._by_hash(hashes)
        return found if self._agree(asked, found) else self._by_keys(asked)

    def described(self, rows: pl.DataFrame) -> pl.DataFrame:
        """What `describe` says of each row, in the order of the rows."""
        numbers = self.numbered(rows)  # makes the table grow
        return self.table[numbers]

    def _by_hash(self, hashes: pl.DataFrame) -> pl.Series:
        return hashes.join(self._numbers, on="hash", how="left", maintain_order="left")["shape"]

    def _agree(self, asked: pl.DataFrame, found: pl.Series) -> bool:
        """Whether rows with one hash really have the same keys."""
        known = self._known[found]
        return all(one.equals(other) for one, other in zip(asked, known, strict=True))

    def _by_keys(self, asked: pl.DataFrame) -> pl.Series:
        known = self._known.with_row_index("shape")
        found = asked.join(known, on=self._keys, how="left", nulls_equal=True, maintain_order="left")["shape"]
        if found.null_count():
            self._learn(asked.filter(found.is_null()).unique(maintain_order=True))
            return self._by_keys(asked)
        return found

    def _learn(self, fresh: pl.DataFrame) -> None:
        described = self._describe(fresh)
        first = self.table.height
        numbers = pl.DataFrame({"hash": fresh.hash_rows()}).with_row_index("shape", first).select("hash", "shape")
        self._numbers = pl.concat([self._numbers, numbers]).unique("hash", keep="first", maintain_order=True)
        self._known = pl.concat([self._known, fresh]) if first else fresh
        self.table = pl.concat([self.table, described], how="vertical_relaxed") if first else described


def copy_kind(name: str | None) -> str | None:
    """HtoD, DtoH, DtoD or HtoH, as the name of a copy prints its direction."""
    found = DIRECTION.search(name or "")
    if found is None:
        return None
    one, other = [side for side in found.groups() if side][:2]
    return f"{one[0].upper()}to{other[0].upper()}"


def mapped(
    texts: pl.Series, function: Callable[[str], object], kind: type[pl.DataType] = pl.String, default: object = None
) -> pl.Expr:
    """`function` of each text, computed once per distinct one, as an expression over the column of that name.

    NULL becomes `default`.
    """
    table = {text: function(text) for text in texts.unique().drop_nulls()}
    values = pl.col(texts.name).replace_strict(table, default=None, return_dtype=kind) if table else pl.lit(None, kind)
    return values if default is None else values.fill_null(default)


def kind_of(name: str, kinds: Mapping[str, str]) -> str:
    """The kind of an activity by what its name begins with in any case (`kinds`: beginning → kind), else kernel."""
    return next((kind for start, kind in kinds.items() if name.lower().startswith(start)), "kernel")


class Launches:
    """Writes launches slice by slice; `finish` writes their signatures and names."""

    def __init__(self, output: Output, host: Host) -> None:
        self.output = output
        self._host = host
        self._signer = Signer()
        self._shapes: dict[tuple[str, bool, tuple[tuple[int, str | None], ...]], Shapes] = {}
        self._statuses: Counter[str] = Counter()
        self._timings: Counter[str] = Counter()
        self._phased = 0
        self._rdna = 0

    def add(
        self, part: str, given: pl.DataFrame, archs: Mapping[int, str | None], halved: bool = False
    ) -> tuple[int, int]:
        """Write a slice; returns the first launch_index of it and the one behind its last.

        Beside the columns of GIVEN, `external_id` and `region` may be there, see `Host.linked`.
        """
        key = (part, halved, tuple(archs.items()))
        if key not in self._shapes:
            self._shapes[key] = Shapes(list(DISTINCT), lambda rows: self.described(rows, archs, halved))
        rows = nullable(given, DISTINCT | dict.fromkeys(PER_ROW, pl.Int64))
        return self.write(part, rows.select(PER_ROW), self._shapes[key].described(rows))

    def described(self, distinct: pl.DataFrame, archs: Mapping[int, str | None], halved: bool = False) -> pl.DataFrame:
        """Columns of `launches` for distinct launches, one row each, from columns of GIVEN and `region`."""
        rows = _shaped(nullable(distinct, DISTINCT))
        whole = rows["shared_bytes"]
        # Occupancy takes static LDS where nothing else is known; `quality` then has STATIC_ONLY.
        least = allocated(rows, archs, halved).with_columns(pl.coalesce("shared_bytes", "static_shared_bytes"))
        rows = self._signer.sign(with_occupancy(least, archs).with_columns(whole))
        rdna = [device for device, arch in archs.items() if is_rdna(arch)]
        fixed = pl.col("device").is_in(rdna) & pl.col("sgprs_reported").is_not_null()
        return rows.with_columns(fixed_scalars=fixed.fill_null(False)).select(*WRITTEN)

    def write(self, part: str, rows: pl.DataFrame, described: pl.DataFrame) -> tuple[int, int]:
        """Write a slice of launches, given columns of PER_ROW and what `described` says of each of them."""
        first = self.output.launches
        linked = self._host.linked(part, _timed(rows.hstack(described)))
        linked = linked.with_row_index("launch_index", first).cast({"launch_index": pl.Int64})
        self._count(linked)
        linked = linked.with_columns(process=pl.coalesce("process", "api_process")).drop("fixed_scalars", "api_process")
        # A column that is NULL in the whole slice is NULL in the warehouse without being written.
        kept = [column for column in linked if column.null_count() < linked.height or column.name in ALWAYS]
        self.output.write("launches", linked.select(kept))
        return first, self.output.launches

    def finish(self, symbols: pl.DataFrame | None = None) -> None:
        """Write signatures and names, and report how launches were linked and what was left empty on purpose.

        `symbols` has a column `name` with names that were perhaps never launched.
        """
        self.output.spool.write("signatures", self._signer.signatures())
        names = self._signer.names()
        if symbols is not None and symbols.height:
            distinct = symbols.select("name").drop_nulls().unique(maintain_order=True)
            ids = pl.Series("name_id", [name_id(name) for name in distinct["name"]], dtype=pl.String)
            names = pl.concat([names, distinct.select(ids, "name", kind=pl.lit("kernel"))])
            names = names.unique("name_id", keep="first", maintain_order=True)
        self.output.spool.write("kernel_names", names)
        report = self.output.report
        report.add("stored", "API calls", self._host.calls)
        report.add("stored", "roctx ranges", self._host.ranges.frame().height)
        for status, n in self._statuses.items():
            report.add("note", f"launches {status}", n)
        if self._host.has_ranges:
            report.add("note", "launches inside roctx ranges", self._phased)
        report.add("note", PROFILED, self._timings["profiled"])
        report.add("note", RDNA_SCALARS, self._rdna)

    @property
    def trace_kind(self) -> str:
        """`profiled` where every kernel ran under a kernel profiler, else timeline."""
        return "profiled" if set(self._timings) == {"profiled"} else "timeline"

    def _count(self, rows: pl.DataFrame) -> None:
        self.output.launches += rows.height
        self.output.saw(rows)
        self.output.report.add("stored", "GPU activities", rows.height)
        self._statuses.update(dict(rows.group_by("launch_status").len().sort("launch_status").iter_rows()))
        timings = rows.filter(pl.col("kind") == "kernel").group_by("timing").len()
        self._timings.update(dict(timings.iter_rows()))
        self._rdna += int(rows["fixed_scalars"].sum())
        self._phased += rows.height - rows["phase"].null_count()
        untimed = rows.filter(pl.any_horizontal(pl.col("start_ns", "end_ns").is_null())).height
        self.output.report.add("note", UNTIMED, untimed)


def _shaped(rows: pl.DataFrame) -> pl.DataFrame:
    """Workgroups from what the source counts, static and dynamic LDS apart, and defaults for what is missing.

    Sizes become 32-bit numbers, NULL where they do not fit.
    """
    work_items = pl.col("reported_grid_unit").fill_null(WORK_ITEMS) == WORK_ITEMS
    sizes: dict[str, pl.Expr] = {name: pl.when(pl.col(name) > 0).then(name) for name in BLOCK}
    for grid, block in zip(GRID, BLOCK, strict=True):
        size, width = pl.col(f"reported_{grid}"), pl.col(block)
        blocks = pl.when((width > 0) & (size >= 0)).then((size + width - 1) // width)
        sizes[grid] = pl.when(work_items).then(blocks).otherwise(size)
    shared, static = pl.col("shared_bytes"), pl.col("static_shared_bytes")
    separable = (shared >= static) & ~pl.col("quality").fill_null("").str.contains(STATIC_ONLY, literal=True)
    has_grid = pl.col("reported_grid_x").is_not_null()
    return rows.with_columns(
        **{name: pl.when(size.is_between(0, INT32_MAX)).then(size).cast(pl.Int32) for name, size in sizes.items()},
        reported_grid_unit=pl.when(has_grid).then(pl.coalesce("reported_grid_unit", pl.lit(WORK_ITEMS))),
        bytes=pl.when(pl.col("bytes") >= 0).then("bytes"),
        timing=pl.col("timing").fill_null("timeline"),
        name=pl.col("name").fill_null(UNKNOWN_KERNEL),
        dynamic_shared_bytes=pl.coalesce("dynamic_shared_bytes", pl.when(separable).then(shared - static)),
    )


def _timed(rows: pl.DataFrame) -> pl.DataFrame:
    """Add `duration_ns`, and a word in `quality` where an activity ends before it starts, which the spool refuses."""
    rows = rows.with_columns(known_moments()).with_columns(duration_ns=times.between())
    backward = rows["end_ns"] < rows["start_ns"]
    if not backward.any():
        return rows
    return rows.with_columns(quality=pl.when(backward).then(remarked("ends_before_it_starts")).otherwise("quality"))
