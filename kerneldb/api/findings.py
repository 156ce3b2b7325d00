"""What a replay learned about calls that were not recorded: rows of its tries, and of the calls that it found."""

from __future__ import annotations

import dataclasses
import datetime
from typing import TYPE_CHECKING, Any, Final

from kerneldb.api.inheriting import COLUMNS, INFERRED, INHERITED, call_frame, found_signature, signature_frame
from kerneldb.api.recorded import rows

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from kerneldb.replay.wire.journal import CallResult, Journal
    from kerneldb.replay.wire.plan import Candidate, Item, OpCall, PlannedKernel
    from kerneldb.warehouse import Warehouse

    Row = dict[str, Any]

RECORDED: Final = "op"
MEMORY: Final = "memory"
UNRECORDED: Final = (INHERITED, INFERRED)
COMPARED: Final = ("same_name", "same_grid", "same_block", "same_shared")
MEASURED: Final = ("time_ns", "recorded_ns", "score", "reason", "accepted")


def believed(item: Item, call: CallResult | None = None) -> Candidate | None:
    """The call that stands for the unrecorded one of `item`: the one found, or the inherited one."""
    if call is not None and call.found is not None:
        return call.found
    return item.candidates[0] if item.route == INHERITED and item.candidates else None


def dims_source(item: Item, call: CallResult | None = None) -> str | None:
    """Where the replayed call comes from: op (recorded), inherited or inferred; None for copies and fills."""
    if item.route in UNRECORDED:
        found = believed(item, call)
        return item.route if found is None else found.source
    return None if item.route == MEMORY else RECORDED


def call_row(call: OpCall) -> Row:
    """The row of `op_calls` of a call."""
    from kerneldb.ingest.pytorch.identity import call_id

    row = dataclasses.asdict(call)
    return {**row, "call_id": call_id(row)}


def found_ids(warehouse: Warehouse, items: Mapping[str, Item], found: Journal) -> dict[tuple[str, int], Row]:
    """Signatures with the calls that stand for unrecorded ones, by item and ordinal of the kernel: fact rows."""
    wanted = [(items[one.item], candidate) for one in found.calls if (candidate := believed(items[one.item], one))]
    ids = sorted({kernel.signature_id for item, _ in wanted for kernel in item.kernels})
    if not ids:
        return {}
    with warehouse.connection() as con:
        facts = {row["signature_id"]: row for row in rows(con, "inherit_signatures", {"ids": ids})}
    return {
        (item.id, kernel.ordinal): found_signature(facts[kernel.signature_id], call_row(candidate.spec.call))
        for item, candidate in wanted
        for kernel in item.kernels
        if kernel.signature_id in facts
    }


def try_rows(run_id: str, call: CallResult) -> Iterator[Row]:
    """Rows of `replay_tries`."""
    for index, one in enumerate(call.trail):
        recorded = dataclasses.asdict(one.call)
        recorded.pop("extra")
        same = {name: getattr(one, name) for name in (*COMPARED, *MEASURED)}
        named = {"overload": one.overload, "why": one.why, "grade": one.grade, "candidate": one.candidate}
        yield {"run_id": run_id, "item_id": call.item, "try_index": index, **recorded, **named, **same}


def keep(warehouse: Warehouse, items: Mapping[str, Item], found: Journal, ids: Mapping[tuple[str, int], Row]) -> None:
    """Store the calls that a replay found for the launches of its items, a transaction per trace."""
    import polars as pl

    from kerneldb.warehouse import found as storing

    traces: dict[str, list[Row]] = {}
    for call in found.calls:
        item = items[call.item]
        if call.found is not None and item.route == INFERRED:
            for trace_id, row in _found_rows(found.run.run_id, item, call.found, ids):
                traces.setdefault(trace_id, []).append(row)
    calls = [call_row(call.found.spec.call) for call in found.calls if call.found is not None]
    for trace_id, listed in traces.items():
        frame = pl.DataFrame(listed, infer_schema_length=None).select(*COLUMNS, "run_id", "item_id")
        given = (trace_id, frame, signature_frame(ids.values()), call_frame(calls))
        warehouse.write(lambda con, given=given: storing.store(con, *given, renew=False))  # type: ignore[misc]


def _found_rows(
    run_id: str, item: Item, found: Candidate, ids: Mapping[tuple[str, int], Row]
) -> Iterator[tuple[str, Row]]:
    now = datetime.datetime.now(datetime.UTC).replace(tzinfo=None)
    same: Row = {
        "found_by": found.source,
        "call_kernels": len(item.kernels),
        "donor_trace_id": found.donor.trace_id if found.donor else None,
        "donor_launch_index": found.donor.launch_index if found.donor else None,
        "run_id": run_id,
        "item_id": item.id,
        "method": "replayed",
        "confidence": found.score,
        "alternatives": len(item.candidates),
        "evidence": found.why,
        "found_at": now,
    }
    for kernel in item.kernels:
        signature = ids.get((item.id, kernel.ordinal))
        if signature is not None:
            of_kernel = {"signature_id": kernel.signature_id, "found_id": signature["signature_id"]}
            of_call = {"call_id": signature["call_id"], "call_ordinal": kernel.ordinal}
            for trace_id, place in _placed(item.kernels, kernel):
                yield trace_id, {**same, **of_kernel, **of_call, **place}


def _placed(kernels: Sequence[PlannedKernel], kernel: PlannedKernel) -> Iterator[tuple[str, Row]]:
    """The launches of a kernel, each with that of the first kernel of its call, where all were launched as often."""
    for trace_id, indices in (kernel.places or {}).items():
        first = (kernels[0].places or {}).get(trace_id, ())
        firsts = first if len(first) == len(indices) else indices
        for index, begin in zip(indices, firsts, strict=True):
            yield trace_id, {"trace_id": trace_id, "launch_index": index, "call_launch": begin}
