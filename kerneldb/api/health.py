"""What `kerneldb doctor` finds: about the installation, the database file, or one trace."""

from __future__ import annotations

import importlib.metadata
import platform
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from kerneldb.api.store import place_of
from kerneldb.errors import KerneldbError, UsageError, WarehouseLockedError, WarehouseMissingError

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    import pyarrow as pa

REQUIRED = ("duckdb", "polars", "pyarrow", "msgspec", "click", "textual")
OPTIONAL = {"torch": "replay and record"}


QUICK_S = 3.0
"""How long a check waits for another process."""


class Check(NamedTuple):
    """One finding. `level` is ok, note, warning or problem; `remedy` says what to do, where something can be done."""

    level: str
    topic: str
    message: str
    remedy: str | None = None


def environment(database: str | Path) -> list[Check]:
    """Check Python, the packages and the database file."""
    return [Check("ok", "python", platform.python_version()), *_packages(), *_database(database)]


def trace(text: str, database: str | Path) -> list[Check]:
    """Check the trace file `text`, or the files of the trace with that name in the database.

    Raises UsageError where it is neither, TraceError where the file is no trace.
    """
    from kerneldb import ingest

    paths = [Path(text)] if Path(text).exists() else _files_of(text, database)
    findings = [finding for path in paths for one in ingest.diagnose(path) for finding in one.findings]
    return [Check(finding.level, finding.topic, finding.message, finding.remedy or None) for finding in findings]


def check_table(checks: Sequence[Check]) -> pa.Table:
    """The checks as rows."""
    import pyarrow as pa

    schema = pa.schema([(name, pa.string()) for name in Check._fields])
    return pa.Table.from_pylist([check._asdict() for check in checks], schema)


def _packages() -> Iterator[Check]:
    for name in REQUIRED:
        version = _version(name)
        if version is None:
            yield Check("problem", name, "not installed", f"pip install {name}")
        else:
            yield Check("ok", name, version)
    for name, purpose in OPTIONAL.items():
        version = _version(name)
        yield (
            Check("note", name, f"not installed; needed for {purpose}")
            if version is None
            else Check("ok", name, version)
        )


def _version(name: str) -> str | None:
    try:
        return importlib.metadata.version(name)
    except importlib.metadata.PackageNotFoundError:
        return None


def _database(path: str | Path) -> Iterator[Check]:
    from kerneldb import api

    try:
        database = api.open(path, create=False, lock_timeout=QUICK_S)
        version = database.version()
        traces = len(database.traces())
    except WarehouseMissingError:
        yield Check("note", "database", *_where_missing(path))
    except WarehouseLockedError as error:
        yield Check("warning", "database", str(error), "wait for that process, or end it")
    except KerneldbError as error:
        yield Check("problem", "database", str(error))
    else:
        place = place_of(path)
        size = "" if place.is_lake else f", {place.path.stat().st_size / 1e6:,.1f} MB"
        held = "1 trace" if traces == 1 else f"{traces:,} traces"
        yield Check("ok", "database", f"{place}: {held}{size}, {version}")


def _where_missing(path: str | Path) -> tuple[str, str]:
    place = place_of(path)
    if place.is_lake:
        return f"there is no lake at {place}", "kerneldb init makes it"
    return f"{place} does not exist", "kerneldb ingest creates it"


def _files_of(name: str, database: str | Path) -> list[Path]:
    from kerneldb import api

    if not place_of(database).exists():
        message = f"{name}: no such file, and no database {database} with a trace of that name"
        raise UsageError(message)
    paths = [Path(path) for path in api.open(database, create=False, lock_timeout=QUICK_S).files(name)]
    missing = [path for path in paths if not path.exists()]
    if missing:
        message = f"the file of trace {name} is not there any more: {missing[0]}"
        raise UsageError(message)
    return paths
