"""What `kerneldb db doctor` finds: about the installation, the database file, or one trace."""

from __future__ import annotations

import contextlib
import importlib.metadata
import platform
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from kerneldb.api.store import place_of
from kerneldb.errors import KerneldbError, UsageError, WarehouseLockedError, WarehouseMissingError
from kerneldb.files import printed_path

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    import pyarrow as pa

REQUIRED = ("duckdb", "polars", "pyarrow", "msgspec", "click", "textual")
OPTIONAL = {"torch": "replay and record"}
IN_C = "PyTorch traces are read by the part in C"
IN_PYTHON = "PyTorch traces are read in Python alone, which takes several times as long"
NO_COMPILER = "install a C compiler, then: pip install --force-reinstall --no-deps kerneldb"


QUICK_S = 3.0
"""How long a check waits for another process."""


class Check(NamedTuple):
    """One diagnostic. `level` is ok, note, warning or problem; `remedy` says what to do, if anything can be done."""

    level: str
    topic: str
    message: str
    remedy: str | None = None


def environment(database: str | Path) -> list[Check]:
    """Check Python, the packages, the reader of PyTorch traces and the database file."""
    return [Check("ok", "python", platform.python_version()), *_packages(), *_reader(), *_database(database)]


def trace(text: str, database: str | Path) -> list[Check]:
    """Check the trace file `text`, or the files of the trace with that name in the database.

    Raises UsageError where it is neither, TraceError where the file is no trace.
    """
    from kerneldb import ingest

    paths = [Path(text)] if Path(text).exists() else _files_of(text, database)
    found = [one for path in paths for diagnosis in ingest.diagnose(path) for one in diagnosis.diagnostics]
    return [Check(one.level, one.topic, one.message, one.remedy or None) for one in found]


def check_table(checks: Sequence[Check]) -> pa.Table:
    """The checks as rows."""
    import pyarrow as pa

    schema = pa.schema([(name, pa.string()) for name in Check._fields])
    return pa.Table.from_pylist([check._asdict() for check in checks], schema)


def _packages() -> Iterator[Check]:
    for name in (*REQUIRED, *OPTIONAL):
        try:
            found = Check("ok", name, importlib.metadata.version(name))
        except importlib.metadata.PackageNotFoundError:
            found = Check("problem", name, "not installed", f"pip install {name}")
            if name in OPTIONAL:
                found = Check("note", name, f"not installed; needed for {OPTIONAL[name]}")
        yield found


def _reader() -> Iterator[Check]:
    """What reads PyTorch traces; the rows are the same either way. Nothing where a package of it is missing."""
    with contextlib.suppress(ImportError):
        from kerneldb.ingest.pytorch import native

        remedy = f"unset {native.PURE}" if native.is_there() else NO_COMPILER
        yield Check("ok", "reader", IN_C) if native.built() else Check("note", "reader", IN_PYTHON, remedy)


def _database(path: str | Path) -> Iterator[Check]:
    from kerneldb import api

    try:
        place = place_of(path)
        database = api.open(path, create=False, lock_timeout=QUICK_S)
        version = database.version()
        traces = len(database.traces())
    except WarehouseMissingError:
        lacks, remedy = f"{place} does not exist", "kerneldb ingest creates it"
        if place.is_lake:
            lacks, remedy = f"there is no lake at {place}", "kerneldb db init makes it"
        yield Check("note", "database", lacks, remedy)
    except WarehouseLockedError as error:
        yield Check("warning", "database", str(error), "wait for that process, or end it")
    except KerneldbError as error:
        yield Check("problem", "database", str(error))
    else:
        size = "" if place.is_lake else f", {place.path.stat().st_size / 1e6:,.1f} MB"
        held = "1 trace" if traces == 1 else f"{traces:,} traces"
        yield Check("ok", "database", f"{place}: {held}{size}, {version}")


def _files_of(name: str, database: str | Path) -> list[Path]:
    from kerneldb import api

    if not place_of(database).exists():
        raise UsageError(f"{name}: no such file, and no database {database} with a trace of that name")
    paths = [printed_path(path) for path in api.open(database, create=False, lock_timeout=QUICK_S).files(name)]
    missing = [path for path in paths if not path.exists()]
    if missing:
        raise UsageError(f"the file of trace {name} no longer exists: {missing[0]}")
    return paths
