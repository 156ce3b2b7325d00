"""The tables of an export, from SQLite or from a folder of Parquet files, and what it says about itself.

Tables are absent where the capture had nothing for them, columns where the version did not know them, and some
exports carry versioned names (`NVTX_EVENTS_V2`), so both are looked up by pattern and missing columns read as NULL.
"""

from __future__ import annotations

import contextlib
import json
import os
import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Final, Protocol

import polars as pl
from polars.exceptions import PolarsError

from kerneldb import limits, repeated
from kerneldb.errors import UnreadableTraceError
from kerneldb.ingest import columns, digits, sqlite
from kerneldb.ingest.nsys import pages
from kerneldb.ingest.output import Report
from kerneldb.ingest.source import Source

Schema = Mapping[str, type[pl.DataType]]
VERSIONED: Final = re.compile(r"(.+)_V(\d+)", re.IGNORECASE)
VENDOR: Final = "NVIDIA"
PAIRS: Final[Schema] = {"name": pl.String, "value": pl.String}
EXPORT_TABLES: Final = ("META_DATA_EXPORT", "EXPORT_META_DATA")
# Versions and switches of the profiler. Commands, arguments, paths, user names and environments may be private.
PUBLIC: Final = re.compile(
    r"^(?:EXPORT_PRODUCT_\w+|EXPORT_SCHEMA_VERSION|EXPORT_PLATFORM|EXPORT_ARCH|EXPORT_TIME_UTC|EXPORT_PARAM_LAZY|"
    r"EXPORT_PARAM_T\w+|EXPORT_CONFIG_\w+|CAPTURE_EVENT_TYPE|RUN_DURATION_MS|"
    r"(?:PROCESS_\d+:)?(?:CUDA_\w+|COLLECT_\w+)(?::(?:MODE|TRACE_DEVICE_GRAPH_LAUNCH))?)$"
)
GPU_TABLES: Final = ("TARGET_INFO_GPU", "TARGET_INFO_CUDA_GPU")
GPU_NUMBERS: Final = (
    *("id", "deviceId", "l2CacheSize", "totalMemory", "memoryBandwidth", "clockRate", "smCount", "maxShmemPerSm"),
    *("maxShmemPerBlockOptin", "maxRegistersPerSm", "threadsPerWarp", "maxWarpsPerSm", "maxBlocksPerSm"),
    *("computeMajor", "computeMinor", "smMajor", "smMinor"),
)
GPU: Final[Schema] = {"name": pl.String, "chipName": pl.String, **dict.fromkeys(GPU_NUMBERS, pl.Int64)}
MAPPING: Final[Schema] = dict.fromkeys(("gpuId", "cudaId", "pid"), pl.Int64)
DEVICE: Final = columns.schema(
    "process device vendor name arch multiprocessors memory_bytes warp_size max_threads_per_multiprocessor "
    "registers_per_multiprocessor shared_bytes_per_multiprocessor shared_bytes_per_block_optin clock_mhz properties"
)
HERTZ: Final = 1e6
TEXTS: Final = frozenset({"string", "large_string", "string_view", "binary", "large_binary", "binary_view"})
"""Types of Parquet columns that are read as dictionaries: each text once, however many rows have it."""

Pairs = dict[str, str | list[str]]


class Store(Protocol):
    """Tables of one export."""

    def frames(self, table: str, schema: Schema) -> Iterator[pl.DataFrame]:
        """These columns of a table, in batches; no batch where the table is not there, NULL for missing columns."""

    def names(self) -> frozenset[str]:
        """Names of all tables of the file, as they are."""

    def count(self, table: str) -> int:
        """Rows of a table, 0 where it is not there."""


def frame(store: Store, table: str, schema: Schema) -> pl.DataFrame:
    """A small table as a whole."""
    return pl.concat([pl.DataFrame(schema=schema), *store.frames(table, schema)])


class Tables:
    """Finds the name that a table has in this export."""

    def __init__(self, tables: Mapping[str, tuple[str, ...]]) -> None:
        self._columns = tables
        versions: dict[str, tuple[int, str]] = {}
        for name in tables:
            found = VERSIONED.fullmatch(name)
            if found is not None:
                base, version = found.group(1), digits.whole(found.group(2)) or 0
                versions[base] = max(versions.get(base, (0, "")), (version, name))
        self._latest = {base: name for base, (_, name) in versions.items()}

    def names(self) -> frozenset[str]:
        """All names."""
        return frozenset(self._columns)

    def name(self, table: str) -> str | None:
        """The table of that name, or else its highest version."""
        return table if table in self._columns else self._latest.get(table)

    def columns(self, table: str) -> frozenset[str]:
        """Columns of the table, none where it is not there."""
        found = self.name(table)
        return frozenset() if found is None else frozenset(self._columns[found])


class SqliteStore:
    """An export as SQLite."""

    def __init__(self, database: sqlite.Database) -> None:
        self._database = database
        self._tables = Tables(database.tables())

    def frames(self, table: str, schema: Schema) -> Iterator[pl.DataFrame]:
        """Batches of a table through ADBC. Missing columns are not asked of SQLite: a NULL costs as much as a value."""
        name, present = self._tables.name(table), self._tables.columns(table)
        if name is None:
            return
        read = {one: kind for one, kind in schema.items() if one in present} or dict(schema)
        absent = [pl.lit(None, dtype=kind).alias(one) for one, kind in schema.items() if one not in read]
        chosen = ", ".join(sqlite.quoted(one) if one in present else "NULL" for one in read)
        spans = self._database.spans(name)
        where = ("WHERE _rowid_ BETWEEN ? AND ?",) if spans else ()
        sql = " ".join(("SELECT", chosen, "FROM", sqlite.quoted(name), *where))
        for part in sqlite.gathered(self._database.frames(sql, read, spans=spans)):
            yield part.with_columns(absent).select(*schema) if absent else part

    def names(self) -> frozenset[str]:
        """All tables; what a view shows has been counted where it is stored."""
        return self._tables.names() - self._database.views()

    def count(self, table: str) -> int:
        """Rows of a table."""
        name = self._tables.name(table)
        return 0 if name is None else self._database.count(name)


class ParquetStore:
    """An export as a folder of Parquet files (`nsys export --type parquetdir`), one per table."""

    def __init__(self, folder: Path, read: Sequence[Source] = ()) -> None:
        """`read` are its files as sources, which count what was left empty."""
        self._folder = folder
        self._odd = {one.path.stem: one.odd for one in read}
        self._texts: dict[str, list[str]] = {}
        self._tables = Tables({path.stem: self._names(path) for path in sorted(folder.glob("*.parquet"))})

    def frames(self, table: str, schema: Schema) -> Iterator[pl.DataFrame]:
        """Batches of a table. A text that repeats is in memory once, as in the file."""
        name, present = self._tables.name(table), self._tables.columns(table)
        if name is None:
            return
        path = self._folder / f"{name}.parquet"
        size, texts = path.stat().st_size, 0
        with self._open(path, self._texts[name]) as file:
            chosen = [one for one in schema if one in present]
            _check_types(path, size, file, chosen)
            left = file.metadata.num_rows
            for batch in file.iter_batches(batch_size=sqlite.BATCH_ROWS, columns=chosen):
                batch.validate(full=True)  # polars takes it that text is UTF-8
                read = [_repeated(*column) for column in zip(batch.schema.names, batch, strict=True)]
                rows = pl.DataFrame(read or pl.repeat(None, batch.num_rows, eager=True))  # that rows are counted
                texts += repeated.text_bytes(rows)
                limits.check_ratio(size, texts)
                left -= batch.num_rows
                yield _shaped(rows, schema, self._odd.setdefault(name, {}))
            if left:
                message = f"{path}: damaged ({left:,} of its {file.metadata.num_rows:,} rows are not there)."
                raise UnreadableTraceError(f"{message} Export again with nsys.")

    def names(self) -> frozenset[str]:
        """All tables."""
        return self._tables.names()

    def count(self, table: str) -> int:
        """Rows of a table."""
        name = self._tables.name(table)
        if name is None:
            return 0
        with self._open(self._folder / f"{name}.parquet") as file:
            rows: int = file.metadata.num_rows
            return rows

    def _names(self, path: Path) -> tuple[str, ...]:
        with self._open(path) as file:
            columns, metadata = file.schema_arrow, file.metadata
            if len(set(columns.names)) < len(columns.names):
                twice = next(name for name, n in Counter(columns.names).items() if n > 1)
                raise UnreadableTraceError(f"{path}: it has several columns {twice}; export again with nsys")
            claimed = [metadata.row_group(number).num_rows for number in range(metadata.num_row_groups)]
            if min(claimed, default=0) < 0 or sum(claimed) != metadata.num_rows:
                message = f"{path}: damaged (its parts have other numbers of rows than it). Export again with nsys."
                raise UnreadableTraceError(message)
            values = repeated.VALUE_BYTES * metadata.num_rows * len(columns)
            limits.check_ratio(path.stat().st_size, max(values, pages.decompressed(path, metadata)))
            self._texts[path.stem] = [column.name for column in columns if str(column.type) in TEXTS]
            return tuple(columns.names)

    @contextlib.contextmanager
    def _open(self, path: Path, texts: Sequence[str] = ()) -> Iterator[Any]:
        """The file of a table, with dictionaries for the columns `texts`.

        What is wrong with it, when opened or read, is an UnreadableTraceError.
        """
        import pyarrow as pa
        from pyarrow import parquet

        try:
            # As bytes: a name need not be UTF-8.
            with pa.OSFile(os.fsencode(path)) as raw, parquet.ParquetFile(raw, read_dictionary=texts) as file:
                yield file
        except (pa.ArrowException, PolarsError, ValueError, OSError) as error:
            first = str(error).splitlines()[0]
            message = f"{path}: damaged ({first}). Export again: `nsys export --type parquetdir FILE.nsys-rep`."
            raise UnreadableTraceError(message) from error


def _check_types(path: Path, size: int, file: Any, names: Sequence[str]) -> None:
    """Refuse columns that are no numbers or texts, and those of texts of one length that would take too much."""
    from pyarrow import types

    for name in names:
        kind = file.schema_arrow.field(name).type
        if types.is_fixed_size_binary(kind):  # a dictionary of them is decoded for each row
            limits.check_ratio(size, kind.byte_width * file.metadata.num_rows)
        elif not _is_plain(kind):
            message = f"{path}: column {name} holds {kind}, no number or text; export again with nsys"
            raise UnreadableTraceError(message)


def _is_plain(kind: Any) -> bool:
    """Whether values of a type are numbers, times, or texts that are read as dictionaries."""
    from pyarrow import types

    texts = kind.value_type if types.is_dictionary(kind) else kind
    checks = (types.is_integer, types.is_floating, types.is_boolean, types.is_null, types.is_temporal, types.is_decimal)
    return str(texts) in TEXTS or any(check(kind) for check in checks)


def _repeated(name: str, values: Any) -> pl.Series:
    """A column of a batch; texts of a dictionary are not copied for each of their rows."""
    if str(values.type).startswith("dictionary"):
        return pl.Series(name, values.dictionary).gather(pl.Series(values.indices))
    return pl.Series(name, values)


def _shaped(part: pl.DataFrame, schema: Schema, odd: sqlite.Odd) -> pl.DataFrame:
    """The columns of `schema`; what they do not hold is NULL, and counted in `odd`.

    Ids are unsigned in Parquet; SQLite holds the same 64 bits as signed integers.
    """
    unsigned = [name for name, kind in part.schema.items() if kind == pl.UInt64]
    part = part.with_columns(pl.col(unsigned).reinterpret(signed=True)) if unsigned else part
    values = ((name, kind, pl.col(name) if name in part.columns else pl.lit(None)) for name, kind in schema.items())
    shaped = part.with_columns(value.cast(kind, strict=False).alias(name) for name, kind, value in values)
    for name in part.columns:
        if shaped[name].null_count() > part[name].null_count():
            lost = part[name].filter(shaped[name].is_null() & part[name].is_not_null())
            sqlite.count_odd(odd, name, schema[name], lost.to_list())
    return shaped.select(*schema)


def pairs(store: Store, *tables: str) -> Pairs:
    """Name → value of tables of settings; names that repeat get all their values."""
    found: Pairs = {}
    for table in tables:
        for name, value in frame(store, table, PAIRS).drop_nulls().iter_rows():
            before = found.get(name)
            known = before if isinstance(before, list) else [] if before is None else [before]
            found[name] = [*known, value] if known else value
    return found


def trace_facts(store: Store, form: str, keep_environment: bool) -> dict[str, Any]:
    """Columns of `traces` that the export fills. Environments and command lines only with `keep_environment`."""
    exported, captured = pairs(store, *EXPORT_TABLES), pairs(store, "META_DATA_CAPTURE")
    everything = {**exported, **captured}
    if keep_environment:
        everything |= pairs(store, "TARGET_INFO_SYSTEM_ENV")
    kept = {name: value for name, value in everything.items() if keep_environment or PUBLIC.match(name)}
    version = exported.get("EXPORT_SCHEMA_VERSION")
    started = frame(store, "TARGET_INFO_SESSION_START_TIME", {"utcEpochNs": pl.Int64})["utcEpochNs"].drop_nulls()
    base = None if started.is_empty() else started[0]
    return {
        "source": "nsys",
        "kind": "timeline",
        "tool": "Nsight Systems",
        "tool_version": _one(exported.get("EXPORT_PRODUCT_VERSION")),
        "era": f"{form} {version}" if version else form,
        "host": _one(captured.get("DEVICE_DISPLAY_NAME")),
        "metadata": json.dumps(kept, sort_keys=True),
        # All times of an export count from the start of the session.
        "clock": "capture" if base is None else "epoch",
        "base_ns": base,
    }


def _one(value: str | list[str] | None) -> str | None:
    return value[0] if isinstance(value, list) else value


def recorded_ns(store: Store) -> int | None:
    """How long the session was recorded, as the export states it. All times count from the start of the session."""
    stated = frame(store, "ANALYSIS_DETAILS", {"duration": pl.Int64})["duration"].drop_nulls()
    longest = stated.max()
    return longest if isinstance(longest, int) and longest > 0 else None


def devices(store: Store, report: Report) -> pl.DataFrame:
    """Rows of `devices`: per process where the export maps CUDA ordinals to GPUs, else by number for all processes.

    The mapping matters under CUDA_VISIBLE_DEVICES, where ordinal 0 may be any GPU of the host. Devices have the numbers
    that `Numbering` gives. Numbers that no GPU has are counted in `report`.
    """
    gpus: dict[int, dict[str, Any]] = {}
    for table in GPU_TABLES:
        for row in frame(store, table, GPU).iter_rows(named=True):
            number = row["id"] if row["id"] is not None else row["deviceId"]
            if number is not None:
                gpus.setdefault(number, row)
    mapping = frame(store, "TARGET_INFO_CUDA_DEVICE", MAPPING).unique(maintain_order=True)
    if mapping.is_empty():
        rows = [_device(gpu, None, number) for number, gpu in gpus.items()]
    else:
        own = is_ambiguous(mapping)
        rows = [_device(gpus.get(gpu, {}), str(pid), gpu if own else at) for gpu, at, pid in mapping.iter_rows()]
    return columns.frame_of([row for row in rows if row["name"] is not None], DEVICE, report)


def is_ambiguous(mapping: pl.DataFrame) -> bool:
    """Whether an ordinal is one GPU in a process and another one in the next (columns of MAPPING)."""
    return mapping.drop_nulls().unique(["gpuId", "cudaId"])["cudaId"].is_duplicated().any()


class Numbering:
    """Numbers of devices that mean one GPU each: ordinals, or the host's own where ordinals are ambiguous."""

    def __init__(self, store: Store) -> None:
        mapping = frame(store, "TARGET_INFO_CUDA_DEVICE", MAPPING)
        self.is_of_host = is_ambiguous(mapping)
        known = mapping.drop_nulls().unique(["pid", "cudaId"], keep="first", maintain_order=True)
        device = {name: pl.col(name).cast(pl.Int32, strict=False) for name in ("gpuId", "cudaId")}
        self._gpus = known.select(_pid="pid", deviceId=device["cudaId"], _gpu=device["gpuId"])
        self.unknown = 0
        """Rows of processes that the export does not map, where an ordinal may be any GPU."""

    def numbered(self, rows: pl.DataFrame, process: pl.Expr) -> pl.DataFrame:
        """`rows` with those numbers in `deviceId`, which holds ordinals of `process` (its pid)."""
        if not self.is_of_host:
            return rows
        named = rows.with_columns(process.alias("_pid"), pl.col("deviceId").cast(pl.Int32, strict=False))
        named = named.join(self._gpus, on=["_pid", "deviceId"], how="left", maintain_order="left")
        self.unknown += named["_gpu"].null_count() - rows["deviceId"].null_count()
        return named.with_columns(deviceId="_gpu").drop("_pid", "_gpu")

    def account(self, outcome: str, what: str, report: Report) -> None:
        """Count the rows whose GPU is not known."""
        why = "ordinals differ between processes, and the export does not map those of this one"
        report.add(outcome, f"GPU of {what}: {why}", self.unknown)


def arch_of_device(devices: pl.DataFrame) -> dict[int, str | None]:
    """Ordinal → architecture, None where processes disagree about it."""
    if devices.is_empty():
        return {}
    found = devices.group_by("device").agg(pl.col("arch").unique())
    return {number: archs[0] if len(archs) == 1 else None for number, archs in found.iter_rows()}


def _device(gpu: Mapping[str, Any], process: str | None, number: int) -> dict[str, Any]:
    from kerneldb import gpus

    name, major, minor = gpu.get("name"), gpu.get("computeMajor"), gpu.get("computeMinor")
    capability = (major, minor) if major else (None, None)  # MIG slices print 0.0
    warps, warp = gpu.get("maxWarpsPerSm"), gpu.get("threadsPerWarp")
    clock = gpu.get("clockRate")
    properties = {key: value for key, value in gpu.items() if value is not None and key not in ("id", "deviceId")}
    return {
        "process": process,
        "device": number,
        "vendor": VENDOR,
        "name": name,
        "arch": gpus.arch_of(VENDOR, name or "", *capability),
        "multiprocessors": gpu.get("smCount") or None,
        "memory_bytes": gpu.get("totalMemory"),
        "warp_size": warp,
        "max_threads_per_multiprocessor": warps * warp if warps and warp else None,
        "registers_per_multiprocessor": gpu.get("maxRegistersPerSm"),
        "shared_bytes_per_multiprocessor": gpu.get("maxShmemPerSm"),
        "shared_bytes_per_block_optin": gpu.get("maxShmemPerBlockOptin"),
        "clock_mhz": clock / HERTZ if clock else None,
        "properties": json.dumps(properties),
    }
