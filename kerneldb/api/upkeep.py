"""Making, migrating and compacting databases, and moving traces between them."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from kerneldb.api.queries import require, rows
from kerneldb.api.store import place_of
from kerneldb.errors import UsageError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from kerneldb.warehouse import Warehouse
    from kerneldb.warehouse.upkeep import Compaction

LOCK_TIMEOUT_S = 30.0
KEEP_HOURS = 24
ORPHAN_HOURS = 24


def init(path: str | Path, data: str | None = None, lock_timeout: float = LOCK_TIMEOUT_S) -> None:
    """Make the database at `path`; `data` is the folder or S3 prefix for the Parquet files of a new lake."""
    from kerneldb.warehouse import upkeep

    upkeep.init(place_of(path), data, lock_timeout)


def migrate(path: str | Path, lock_timeout: float = LOCK_TIMEOUT_S) -> tuple[int, int]:
    """Bring tables, views and macros to this version of kerneldb; the schema version before and now."""
    from kerneldb.warehouse import upkeep

    return upkeep.migrate_to_newest(place_of(path), lock_timeout)


def compact(
    path: str | Path,
    keep_hours: int = KEEP_HOURS,
    orphan_hours: int = ORPHAN_HOURS,
    lock_timeout: float = LOCK_TIMEOUT_S,
) -> Compaction:
    """Merge the small files of a lake; drop old snapshots and orphaned files. See `kerneldb.warehouse.upkeep`."""
    from kerneldb.warehouse import upkeep

    return upkeep.compact(place_of(path), keep_hours, orphan_hours, lock_timeout)


def copy_traces(target: Warehouse, source: Warehouse, names: Sequence[str]) -> list[str]:
    """Copy the named traces (all where empty) into `target`, with their notes; names, there, of those it had not.

    Raises UsageError for an unknown trace, and where source and target are one.
    """
    from kerneldb.warehouse import transfer

    if str(source.place) == str(target.place):
        message = f"{target.place} is source and target at once"
        raise UsageError(message)
    known = {row["name"]: row["trace_id"] for row in rows(source, "transfer_traces")}
    require("trace", list(names), list(known))
    wanted = [known[name] for name in names] if names else list(known.values())
    added = transfer.transfer(target, source.place, wanted)
    return [target.trace_name(trace_id) or trace_id for trace_id in added]
