"""Calls that are proposed for kernels of a replayed step that only its graph has, such as those that make a mask.

The eager program of the same recording did not launch them, so that no call of it is theirs. What they may have been
is found as for any launch without a call: inherited from an equal launch elsewhere, else inferred from name, grid and
duration.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from kerneldb.api import unrecorded
from kerneldb.api.queries import rows

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from kerneldb.api.queries import Connection, Row
    from kerneldb.api.recorded import Recorded
    from kerneldb.replay.plan.work import Work

    Guesses = Mapping[tuple[str, int], Work]


def guesses(con: Connection, recorded: Recorded, launches: Sequence[Row]) -> Guesses:
    """A work with candidates by trace and launch, for those of the launches that are a call of their own."""
    signatures = sorted({one["signature_id"] for one in launches})
    if not signatures:
        return {}
    (timing,) = rows(con, "replay_timing")
    wanted: dict[str, Any] = {**timing, "signatures": signatures}
    found = unrecorded.plan(con, wanted, recorded, None)
    return {
        (trace_id, index): one.work
        for one in found.decisions
        if one.item is not None and len(one.work.kernels) == 1
        for trace_id, indices in (one.work.kernels[0].places or {}).items()
        for index in indices
    }
