"""Ingest: expand the paths, convert each file beside the database, derive, commit.

A conversion works in a spool folder `<database>.spool-<host>-<pid>-…` and takes no lock. Only the commit touches the
database, in one transaction, so a process killed at any moment leaves the database as it was and at most a spool
folder, which the next ingest on the same host removes.
"""

from __future__ import annotations

import contextlib
import dataclasses
import functools
import os
import shutil
import sys
import time
import zlib
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, Literal, Protocol

from kerneldb import files
from kerneldb.batch import write_part
from kerneldb.errors import KerneldbError, TraceError, UnreadableTraceError, UsageError, WarehouseError
from kerneldb.files import of_disk, remove_stale_spools, spool_folder

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

    import polars as pl
    import pyarrow as pa

    from kerneldb.batch import Manifest
    from kerneldb.ingest import Options, Unit
    from kerneldb.warehouse.commit import Added

    Converted = tuple[Manifest, float]
    """A finished conversion, and how many seconds it took."""

LEAST_WORK: Final = 4 << 20
PACKED: Final = 10
PACKED_ENDINGS: Final = (".gz", ".zip")
"""Traces are about ten times as long as text."""
WORTH_WORKERS: Final = 128 << 20
"""Less text is read by the time that a second process has started."""
WORKER_BYTES: Final = 1 << 30

Status = Literal["ingested", "unchanged", "replaced", "failed"]


class ProgressCallback(Protocol):
    """Follows an ingest: called with the file and how many of its stored bytes are read."""

    def __call__(self, label: str, done: int, total: int, /) -> None:
        """`done` of `total` bytes of `label` are read."""


class Store(Protocol):
    """What ingest needs of the warehouse."""

    def batch(self) -> contextlib.AbstractContextManager[None]:
        """A context for the commits of one call."""

    def held(self, unit: Unit) -> list[tuple[str, str]]:
        """(trace id, name) of each trace in `unit` where all of them are there already, by content; else nothing."""

    def commit(self, manifest: Manifest, *, replace: bool, tags: Mapping[str, str]) -> Added:
        """Add the trace, and say what became of it."""


@dataclasses.dataclass(frozen=True, slots=True)
class IngestOptions:
    """What the user says about the traces of one ingest call; see `kerneldb ingest --help`."""

    label: str | None = None
    phase: str | None = None
    name: str | None = None
    run: str | None = None
    tags: Mapping[str, str] = dataclasses.field(default_factory=dict)
    replace: bool = False
    keep_environment: bool = False
    time_zone: str | None = None
    date: str | None = None
    triton_sources: tuple[Path, ...] = ()
    shard: tuple[int, int] | None = None

    def for_reader(self) -> Options:
        """The part that readers see."""
        from kerneldb.ingest import Options

        return Options(self.label, self.phase, self.name, self.run, self.keep_environment, self.time_zone, self.date)


@dataclasses.dataclass(frozen=True, slots=True)
class ReportEntry:
    """A line of the ingest report: `n` events had `outcome` (stored, repaired, skipped, lost, …) for `reason`."""

    outcome: str
    reason: str
    n: int


@dataclasses.dataclass(frozen=True, slots=True)
class Linked:
    """A trace that another one was linked with.

    `relation` is print (of the same launches), job, hint (may be of one job), or apart (cannot be of one job).
    `rank` is that of the other one; `joined` says whether both are in one run, which is `run`.
    """

    other: str
    rank: int | None
    relation: str
    evidence: str
    run: str
    joined: bool


@dataclasses.dataclass(frozen=True, slots=True)
class Outcome:
    """What became of one trace. `bytes` is its size without compression; `seconds` runs from opening to commit.

    `sums` counts rows of a trace that holds no launches by its nature: sums of a report, measurements, power readings,
    counters of source lines.
    `linked` are the traces that it was joined with, or could be.
    Size and counts are None for a trace that was not read.
    """

    path: Path
    status: Status
    trace: str | None = None
    trace_id: str | None = None
    launches: int | None = None
    ops: int | None = None
    events: int | None = None
    seconds: float = 0.0
    bytes: int | None = None
    report: tuple[ReportEntry, ...] = ()
    error: KerneldbError | None = None
    sums: int = 0
    linked: tuple[Linked, ...] = ()


def ingest_each(
    store: Store, database: Path, paths: Sequence[Path], options: IngestOptions, progress: ProgressCallback | None
) -> Iterator[Outcome]:
    """Ingest the files behind `paths` one after the other, yielding what became of each trace as it is known.

    A file that fails yields an outcome with its error; the others go on. Errors of the database end the call. Raises
    UsageError where one `options.name` would have to serve several files, WarehouseError where the database has no
    folder to be in.
    """
    folder = database.parent
    if not folder.is_dir():
        state = "is not a folder" if folder.exists() else "does not exist"
        message = f"{database}: the folder {folder} {state}. Create it (mkdir -p {folder}) or give another path."
        raise WarehouseError(message)
    if files.printed(folder.resolve()) != str(folder.resolve()):
        message = f"{database}: the path of its folder is not UTF-8, as DuckDB needs it. Give another path (--db)."
        raise WarehouseError(message)
    remove_stale_spools(database)
    units, failed = plan_units(paths, options)
    yield from failed
    with contextlib.ExitStack() as stack:
        stack.enter_context(store.batch())
        plain = Conversions(store, options, functools.cache(lambda: _spool(stack, database)))
        with _ahead(plain, units) as conversions:
            for unit in units:
                yield from _ingest_unit(store, conversions, unit, options, progress)


def _ahead(plain: Conversions, units: Sequence[Unit]) -> contextlib.AbstractContextManager[Conversions]:
    """Conversions by other processes, where there is enough to do."""
    workers = workers_for(units)
    if workers == 0:
        return contextlib.nullcontext(plain)
    from kerneldb.api.ahead import Ahead

    return contextlib.closing(Ahead(plain, units, workers))


def _spool(stack: contextlib.ExitStack, database: Path) -> Path:
    """The folder in which conversions lie until they are committed."""
    try:
        return stack.enter_context(spool_folder(database))
    except OSError as error:
        lacks = f"nothing can be written there ({error.strerror}), but a database takes it"
        message = f"{database.parent}: {lacks}; make the folder writable, or give a database elsewhere with --db"
        raise WarehouseError(message) from error


def plan_units(paths: Sequence[Path], options: IngestOptions) -> tuple[list[Unit], list[Outcome]]:
    """The traces behind `paths` that are the share of `options.shard` (number, of how many), and what cannot be read.

    Raises UsageError where one `options.name` would have to serve several of them.
    """
    from kerneldb import ingest

    found: list[Path] = []
    failed: list[Outcome] = []
    for path in paths:
        try:
            found += ingest.expand([path])
        except (TraceError, OSError) as error:
            failed.append(_failed(path, error))
    units = ingest.plan(dict.fromkeys(found))
    if options.name is not None and len(units) > 1:
        raise UsageError(f"--name names one trace, but there are several: {options.name}")
    if options.shard is not None:
        number, count = options.shard
        units = [unit for unit in units if zlib.crc32(os.fsencode(unit.path.absolute())) % count == number]
    return units, failed


def left_out(paths: Iterable[Path]) -> list[str]:
    """A line for each file below the folders among `paths` that is passed over though its profiler is known."""
    from kerneldb import ingest

    return [str(error) for error in ingest.left_out(paths)]


def _failed(path: Path, error: TraceError | OSError, seconds: float = 0.0) -> Outcome:
    reason = error if isinstance(error, TraceError) else TraceError(f"{path}: {error.strerror or error}")
    if reason is not error:
        reason.__cause__ = error
    return Outcome(path, "failed", seconds=seconds, error=reason)


def workers_for(units: Sequence[Unit]) -> int:
    """How many processes are to read the traces; 0: this one does, where there is little or one of them.

    Each has a core and a GiB of free memory.
    """
    if len(units) < 2 or sum(map(_work, units)) < WORTH_WORKERS or not sys.executable:  # noqa: PLR2004 (several)
        return 0
    found = min(len(units), files.cores(), files.free_memory() // WORKER_BYTES)
    return found if found > 1 else 0


def _work(unit: Unit) -> int:
    """About how many bytes of text there are to read; opening and storing a file takes as long as some megabytes."""
    with contextlib.suppress(OSError, TraceError):
        return LEAST_WORK + unit.stored_bytes * (PACKED if unit.path.suffix in PACKED_ENDINGS else 1)
    return 0


class Conversions:
    """Converts traces when their turn comes."""

    def __init__(self, store: Store, options: IngestOptions, spool: Callable[[], Path]) -> None:
        self.store = store
        self.options = options
        self.spool = spool

    def held(self, unit: Unit) -> list[tuple[str, str]]:
        """(trace id, name) of the traces of `unit`, where all of them are there already and are to stay."""
        from kerneldb import ingest

        with ingest.guarded(unit.label):
            return [] if self.options.replace else self.store.held(unit)

    def of(self, unit: Unit, follow: Callable[[int, int], None] | None) -> Iterable[Converted]:
        """Finished conversions of the traces of `unit`; the folders of those before it are gone then."""
        shutil.rmtree(self.spool(), ignore_errors=True)
        return whole(unit, self.spool(), self.options, follow)


def whole(
    unit: Unit, folder: Path, options: IngestOptions, follow: Callable[[int, int], None] | None
) -> Iterator[Converted]:
    """The traces of `unit` with all that is derived of them, converted into `folder`."""
    from kerneldb import ingest

    began = time.monotonic()
    for manifest in ingest.convert(unit, folder, options.for_reader(), follow):
        with ingest.guarded(unit.label):
            complete = archived(derived(manifest), options.triton_sources, unit.path)
        yield complete, time.monotonic() - began
        began = time.monotonic()


def _ingest_unit(
    store: Store, conversions: Conversions, unit: Unit, options: IngestOptions, progress: ProgressCallback | None
) -> Iterator[Outcome]:
    from kerneldb import ingest

    began = time.monotonic()
    follow = None if progress is None else functools.partial(progress, unit.path.name)
    try:
        held = conversions.held(unit)
        for trace_id, name in held:
            yield Outcome(unit.path, "unchanged", name, trace_id, seconds=time.monotonic() - began)
        if held:
            return
        for manifest, seconds in conversions.of(unit, follow):
            with ingest.guarded(unit.label):
                added = _commit(store, manifest, unit.path, options, time.monotonic() - seconds)
            yield added
            began = time.monotonic()
    except (TraceError, OSError) as error:
        problem = of_disk(error, conversions.spool().parent.parent)
        if problem is not None:
            raise problem from error
        yield _failed(_place(unit), error, time.monotonic() - began)
    except WarehouseError as error:
        yield _failed(_place(unit), _refused(unit, error), time.monotonic() - began)


def _place(unit: Unit) -> Path:
    """The file or folder that failed; of a member of an archive, `archive.zip::member.json` as messages have it."""
    return unit.path if unit.member is None else Path(unit.label)


def _refused(unit: Unit, error: WarehouseError) -> TraceError:
    """Values that the database refuses, or no memory for them, concern this trace; all else concerns all traces."""
    import duckdb

    if of_disk(error.__cause__, unit.path) is not None:  # no memory beside a full disk is one, too
        raise error
    first = next(iter(str(error.__cause__).splitlines()), "")
    if isinstance(error.__cause__, duckdb.OutOfMemoryException):
        refused = UnreadableTraceError(f"{unit.label}: adding it takes more memory than there is ({first}).")
    elif isinstance(error.__cause__, duckdb.IntegrityError | duckdb.DataError):
        refused = UnreadableTraceError(
            f"{unit.label}: the database does not take its rows ({first}); nothing of it was stored. "
            "Please report it with what `kerneldb db doctor` prints for the file."
        )
    else:
        raise error
    refused.__cause__ = error
    return refused


def _commit(store: Store, manifest: Manifest, file: Path, options: IngestOptions, began: float) -> Outcome:
    read = read_part(manifest, "trace_files", ["events", "bytes"])
    report = read_part(manifest, "ingest_reports", ["outcome", "reason", "n"])
    added = store.commit(manifest, replace=options.replace, tags=options.tags)
    status: Status = "unchanged" if not added.written else ("replaced" if added.known else "ingested")
    return Outcome(
        file,
        status,
        added.name,
        manifest.trace_id,
        launches=manifest.rows.get("launches", 0),
        ops=manifest.rows.get("ops", 0),
        events=sum(row["events"] or 0 for row in read),
        seconds=time.monotonic() - began,
        bytes=sum(row["bytes"] or 0 for row in read),
        report=tuple(ReportEntry(**row) for row in report),
        sums=sum(
            manifest.rows.get(table, 0) for table in ("rollups", "measurements", "power_samples", "source_counters")
        ),
        linked=tuple(Linked(**row) for row in added.linked),
    )


def read_part(manifest: Manifest, table: str, columns: list[str]) -> list[dict[str, Any]]:
    """The rows of a table that a manifest adds."""
    import polars as pl

    parts = manifest.parts.get(table, [])
    return pl.concat([pl.read_parquet(part, columns=columns) for part in parts]).to_dicts() if parts else []


def derived(manifest: Manifest) -> Manifest:
    """`manifest` with the derived columns of its devices, distinct kernel names and signatures filled in."""
    import polars as pl

    from kerneldb import derive

    frames = {}
    if "devices" in manifest.parts:
        frames["devices"] = derive.derive_devices(
            pl.concat(map(pl.read_parquet, manifest.parts["devices"]), how="diagonal_relaxed")
        )
    if "kernel_names" in manifest.parts:
        distinct = pl.read_parquet(manifest.parts["kernel_names"]).unique("name_id", maintain_order=True)
        names = frames["kernel_names"] = derive.derive_names(distinct)
    if {"kernel_names", "signatures"} <= manifest.parts.keys():
        facts = pl.read_parquet(manifest.parts["signatures"]).unique("signature_id", maintain_order=True)
        frames["signatures"] = derive.derive_signatures(facts, names)
    for table, frame in frames.items():
        manifest = _with_part(manifest, table, frame, "derived", behind=False)
    return manifest


def archived(manifest: Manifest, folders: Sequence[Path], file: Path) -> Manifest:
    """`manifest` with the sources of the Triton kernels that it names, as far as they are found.

    Those that cannot be stored are listed in its report.
    """
    import polars as pl

    from kerneldb.ingest import triton_sources

    found = triton_sources.found(manifest, folders, file)
    report = found.report().rows().with_columns(trace_id=pl.lit(manifest.trace_id), file_index=pl.lit(0))
    added = {"ingest_reports": report, triton_sources.TABLE: pl.DataFrame(found.rows)}
    for table, frame in added.items():
        if not frame.is_empty():
            manifest = _with_part(manifest, table, frame, "archived", behind=True)
    return manifest


def _with_part(manifest: Manifest, table: str, frame: pl.DataFrame, made: str, *, behind: bool) -> Manifest:
    """`manifest` with `frame` behind what it has of `table`, or in its place; `made` names the file."""
    path = manifest.folder / f"{table}.{made}.parquet"
    write_part(frame, path)
    parts, rows = (manifest.parts.get(table, []), manifest.rows.get(table, 0)) if behind else ([], 0)
    return dataclasses.replace(
        manifest, parts={**manifest.parts, table: [*parts, path]}, rows={**manifest.rows, table: rows + frame.height}
    )


COLUMNS: Final = {
    "trace": "string", "status": "string", "launches": "int64", "ops": "int64", "events": "int64", "bytes": "int64",
    "seconds": "double", "trace_id": "string", "path": "string", "error": "string",
}  # fmt: skip
"""Columns of a table of outcomes, with their Arrow types."""


def outcome_columns(outcomes: Sequence[Outcome]) -> dict[str, list[Any]]:
    """What `kerneldb ingest` prints, by column: one value per outcome. A file that failed stands for its trace."""
    columns = {name: [getattr(outcome, name) for outcome in outcomes] for name in COLUMNS}
    columns["trace"] = [outcome.trace or files.printed(outcome.path.name) for outcome in outcomes]
    columns["path"] = [files.printed(outcome.path) for outcome in outcomes]
    return columns | {"error": [None if outcome.error is None else str(outcome.error) for outcome in outcomes]}


def outcome_table(outcomes: Sequence[Outcome]) -> pa.Table:
    """One row per outcome."""
    import pyarrow as pa

    return pa.table(outcome_columns(outcomes), schema=pa.schema(list(COLUMNS.items())))
