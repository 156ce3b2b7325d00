"""Ranks of a job in a plan of steps: what their collectives exchanged, what they waited, and which run together."""

from __future__ import annotations

import dataclasses
import json
from collections import Counter, defaultdict
from typing import TYPE_CHECKING, Any, Final

from kerneldb.api.queries import rows
from kerneldb.ids import content_id
from kerneldb.replay.routes.collective import operation_of
from kerneldb.replay.wire.steps import Exchange, Step

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from kerneldb.api.queries import Connection, Row

ROOTED: Final = frozenset({"broadcast", "reduce", "gather", "scatter"})
"""Of these, PyTorch notes the place of the root in the group, of others that of the process."""
PAIRS: Final = frozenset({"send", "recv"})


def exchanges(con: Connection, trace_id: str, window: Mapping[str, Any]) -> dict[int, Exchange]:
    """What the operators of a window exchange, by op_id; left out are those whose group is not known."""
    asked = {**window, "trace_id": trace_id}
    found = ((row["op_id"], _exchange(row)) for row in rows(con, "step_exchanges", asked))
    return {op_id: one for op_id, one in found if one is not None}


def _exchange(row: Row) -> Exchange | None:
    group = _group(row)
    if not group:
        return None
    said, operation = json.loads(row["details"] or "{}"), operation_of(str(row["operation"]))
    place = int(said.get("Rank", 0)) if operation in ROOTED else len(group)
    peer = row["dst_rank"] if row["dst_rank"] is not None else row["src_rank"]
    given, taken = (tuple(map(int, json.loads(row[name] or "[]"))) for name in ("in_split", "out_split"))
    return Exchange(operation, group, given, taken, group[place] if place < len(group) else None, peer)


def _group(row: Row) -> tuple[int, ...]:
    """The ranks of the group; PyTorch shortens long lists, and says which rank is the first, and how far they are."""
    try:
        listed = tuple(map(int, json.loads(row["group_ranks"] or "[]")))
    except ValueError:
        first, stride, size = row["first_rank"], row["rank_stride"], row["group_size"]
        if first is None or not stride or not size:
            return ()
        listed = tuple(range(first, first + stride * size, stride))
    return listed


def waits(con: Connection, asked: Mapping[str, Any]) -> dict[int, int]:
    """How long launches waited for other ranks, by launch_index; none where the traces of these are not here."""
    bounds = {name: asked[name] for name in ("trace_id", "first", "last")}
    return {row["launch_index"]: row["wait_ns"] for row in rows(con, "step_waits", bounds)}


def together(con: Connection, steps: Sequence[Step]) -> Iterator[Step]:
    """The steps with their rank, and those that are the same step of all ranks of a job with the name of it."""
    ids = sorted({step.trace_id for step in steps})
    known = {row["trace_id"]: row for row in rows(con, "step_ranks", {"trace_ids": ids})}
    jobs: dict[tuple[Any, ...], list[Step]] = defaultdict(list)
    for step in steps:
        row = known[step.trace_id]
        exchanging = any(call.exchange is not None for call in step.calls)
        if row["job"] is None or row["rank"] is None or not exchanging:
            yield step
        else:
            placed = dataclasses.replace(step, rank=row["rank"], ranks=row["world_size"] or 1)
            jobs[row["job"], step.iteration, step.phase].append(placed)
    for key, some in jobs.items():
        why = _apart(some)
        name = None if why else content_id("sj1", *map(str, key))
        yield from (dataclasses.replace(step, alone=why, job=name) for step in some)


def _apart(steps: Sequence[Step]) -> str | None:
    """Why steps of a job cannot run together; None where they can."""
    there = Counter(step.rank for step in steps)
    missing = [str(rank) for rank in range(steps[0].ranks) if rank not in there]
    if missing:
        return f"no step of rank {', '.join(missing)} of the job is selected"
    if max(there.values()) > 1:
        return "the job has several steps of a rank"
    shown = {step.rank: _sequences(step) for step in steps}
    groups = {group for one in shown.values() for group in one}
    if not all(set(group) <= set(there) for group in groups):
        return "a group has ranks that the job lacks"
    alike = all(len({tuple(shown[rank][group]) for rank in group}) == 1 for group in groups)
    return None if alike else "the ranks show other collectives"


def _sequences(step: Step) -> dict[tuple[int, ...], list[str]]:
    """The collectives of each group in order. Ranks may have different numbers of sends and receives."""
    found: dict[tuple[int, ...], list[str]] = defaultdict(list)
    for call in step.calls:
        if call.exchange is not None and call.exchange.operation not in PAIRS:
            found[call.exchange.group].append(call.exchange.operation)
    return found
