"""What a replay learned about calls that were not recorded: rows of its tries, and of the calls that it found."""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING

import polars as pl

from kerneldb.api import inheriting
from kerneldb.api.queries import by_id
from kerneldb.api.recorded import call_row
from kerneldb.replay import routes
from kerneldb.replay.routes.base import Route

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from kerneldb.api.queries import Row
    from kerneldb.replay.wire.plan import Candidate, Item, PlannedKernel
    from kerneldb.replay.wire.results import AttemptResult, CallResult
    from kerneldb.warehouse import Warehouse

    Ids = Mapping[tuple[str, int], Row]


class _Unknown(Route):
    source = None


def accepted(item: Item, call: CallResult | None = None) -> Candidate | None:
    """The call that is taken for the unrecorded one of `item`: the one found, or the inherited one."""
    return _route(item).accepted(item, call)


def dims_source(item: Item, call: CallResult | None = None) -> str | None:
    """Where the replayed call comes from: op (recorded), inherited or inferred; None for copies and fills."""
    route = _route(item)
    found = route.accepted(item, call) if route.apart else None
    return route.source if found is None else found.source


def _route(item: Item) -> Route:
    """The route of an item; of one that is not registered here nothing is known."""
    return next((route for route in routes.known() if route.name == item.route), _Unknown())


def inferred_ids(warehouse: Warehouse, items: Mapping[str, Item], calls: Iterable[CallResult]) -> Ids:
    """Signatures with the calls that are taken for unrecorded ones, by item and ordinal of the kernel: fact rows."""
    wanted = [(items[one.item], candidate) for one in calls if (candidate := accepted(items[one.item], one))]
    if not wanted:
        return {}
    with warehouse.connection() as con:
        ids = (kernel.signature_id for item, _ in wanted for kernel in item.kernels)
        facts = by_id(con, "inherit_signatures", "signature_id", ids)
    return {
        (item.id, kernel.ordinal): inheriting.found_signature(facts[kernel.signature_id], call_row(candidate.spec.call))
        for item, candidate in wanted
        for kernel in item.kernels
        if kernel.signature_id in facts
    }


def attempt_rows(run_id: str, item: str, tried: Iterable[AttemptResult]) -> Iterator[Row]:
    """Rows of `replay_attempts`: the calls that were tried for an item."""
    for index, one in enumerate(tried):
        row = dataclasses.asdict(one)
        row |= {**row.pop("call"), "run_id": run_id, "item_id": item, "attempt_index": index}
        yield {name: value for name, value in row.items() if name not in {"extra", "attempt"}}


def keep(warehouse: Warehouse, items: Mapping[str, Item], run_id: str, calls: Sequence[CallResult]) -> None:
    """Store the calls that a replay found for the launches of its items, a transaction per trace."""
    proposed = (call for call in calls if _route(items[call.item]).source == inheriting.INFERRED)
    learned = [call for call in proposed if call.found is not None]
    ids = inferred_ids(warehouse, items, learned)
    listed = [row for call in learned if call.found for row in _found_rows(run_id, items[call.item], call.found, ids)]
    if not listed:
        return
    signatures = {row["signature_id"]: row for row in ids.values()}
    known = {row["call_id"]: row for row in (call_row(call.found.spec.call) for call in learned if call.found)}
    for (trace_id,), found in pl.DataFrame(listed, infer_schema_length=None).group_by("trace_id", maintain_order=True):
        inheriting.store(warehouse, str(trace_id), found, signatures, known, renew=False)


def _found_rows(run_id: str, item: Item, found: Candidate, ids: Ids) -> Iterator[Row]:
    donor = found.donor
    same: Row = {
        "inferred_by": found.source,
        "call_kernels": len(item.kernels),
        "donor_trace_id": donor and donor.trace_id,
        "donor_launch_index": donor and donor.launch_index,
        "run_id": run_id,
        "item_id": item.id,
        "method": "replayed",
        "confidence": found.score,
        "alternatives": len(item.candidates),
        "evidence": found.why,
    }
    for kernel in item.kernels:
        signature = ids.get((item.id, kernel.ordinal))
        if signature is not None:
            of_kernel = {"signature_id": kernel.signature_id, "inferred_id": signature["signature_id"]}
            of_call = {"call_id": signature["call_id"], "call_ordinal": kernel.ordinal}
            yield from ({**same, **of_kernel, **of_call, **place} for place in _placed(item.kernels, kernel))


def _placed(kernels: Sequence[PlannedKernel], kernel: PlannedKernel) -> Iterator[Row]:
    """The launches of a kernel, each with that of the first kernel of its call, where all were launched as often."""
    for trace_id, indices in (kernel.places or {}).items():
        first = (kernels[0].places or {}).get(trace_id, ())
        firsts = first if len(first) == len(indices) else indices
        for index, begin in zip(indices, firsts, strict=True):
            yield {"trace_id": trace_id, "launch_index": index, "call_launch": begin}
