"""Moving traces between databases; `kerneldb.warehouse.upkeep` makes, migrates and compacts them."""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING

from kerneldb.api.queries import ask, require
from kerneldb.errors import UsageError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from kerneldb.warehouse import Warehouse


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
    """Copy the named traces (all where empty) into `target`, with notes, results of replays and inferred calls.

    Traces that `target` has stay; what was learned of them since is added. Raises UsageError for an unknown trace, and
    where source and target are one.
    """
    from kerneldb.warehouse import transfer

    ends = {
        str(one) if one.catalog == "postgres" else (one.catalog, one.path.resolve())
        for one in (source.place, target.place)
    }
    if len(ends) == 1:  # however they write the path
        raise UsageError(f"source and target are the same database: {target.place}")
    known = {row["name"]: row["trace_id"] for row in ask(source, "transfer_traces")}
    require("trace", list(names), list(known))
    wanted = [known[name] for name in dict.fromkeys(names)] if names else list(known.values())
    done = transfer.transfer(target, source.place, wanted)
    traces = [target.trace_name(trace_id) or trace_id for trace_id in done.trace_ids]
    return Copied(traces, done.learned.notes, done.learned.items, done.learned.finds)
