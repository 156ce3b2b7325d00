"""Making, migrating and compacting databases, and moving traces between them."""

from __future__ import annotations

import dataclasses
from pathlib import Path
from typing import TYPE_CHECKING

from kerneldb.api.queries import require, rows
from kerneldb.api.store import place_of
from kerneldb.errors import UsageError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from kerneldb.warehouse import Warehouse
    from kerneldb.warehouse.place import Place
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


@dataclasses.dataclass(frozen=True, slots=True)
class Copied:
    """What a copy wrote: the names, in the target, of traces it had not, and how much was learned of all of them.

    `notes` are annotations, `calls` calls of replays, `finds` launches whose call was found.
    """

    traces: list[str]
    notes: int = 0
    calls: int = 0
    finds: int = 0

    def __bool__(self) -> bool:
        """Whether anything was written."""
        return bool(self.traces or self.notes or self.calls or self.finds)


def copy_traces(target: Warehouse, source: Warehouse, names: Sequence[str]) -> Copied:
    """Copy the named traces (all where empty) into `target`, with notes, results of replays and found calls.

    Traces that `target` has stay; what was learned of them since is added. Raises UsageError for an unknown trace, and
    where source and target are one.
    """
    from kerneldb.warehouse import transfer

    if _are_one(source.place, target.place):
        message = f"{target.place} is source and target at once"
        raise UsageError(message)
    known = {row["name"]: row["trace_id"] for row in rows(source, "transfer_traces")}
    require("trace", list(names), list(known))
    wanted = [known[name] for name in dict.fromkeys(names)] if names else list(known.values())
    done = transfer.transfer(target, source.place, wanted)
    traces = [target.trace_name(trace_id) or trace_id for trace_id in done.trace_ids]
    return Copied(traces, done.learned.notes, done.learned.items, done.learned.finds)


def _are_one(one: Place, other: Place) -> bool:
    """Whether both name the same database, however they write its path."""
    if one.catalog == "postgres":
        return str(one) == str(other)
    return (one.catalog, one.path.resolve()) == (other.catalog, other.path.resolve())
