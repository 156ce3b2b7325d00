"""Makes the plan of a replay from selected kernels: distinct calls with their kernels, evidence and route."""

from __future__ import annotations

import dataclasses
import itertools
import json
import re
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Final

from kerneldb.api.queries import rows, selecting
from kerneldb.api.recorded import Recorded, planned_kernel
from kerneldb.errors import UsageError
from kerneldb.ids import content_id
from kerneldb.replay import routes
from kerneldb.replay.plan.work import Work
from kerneldb.replay.routes.collective import OPERATOR
from kerneldb.replay.wire.plan import CallSpec, Candidate, OpCall, Plan

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    import pyarrow as pa

    from kerneldb.api.inheriting import Found
    from kerneldb.api.queries import Connection, Row
    from kerneldb.replay.plan.work import Decision
    from kerneldb.replay.wire.plan import Item, PlannedKernel
    from kerneldb.warehouse import Warehouse


SHARE: Final = re.compile(r"(\d+(?:\.\d+)?)\s*%?")
SMALLEST_SHARE: Final = 0.01
KERNEL: Final = "kernel"
COMMUNICATION: Final = "COMMUNICATION"
SAID: Final = ("Collective name", "dtype", "In msg nelems", "Out msg nelems", "Group size")
NOT_RECORDED: Final = "what the collective exchanges is not recorded"
NO_SHAPES: Final = "recorded without input shapes"
NO_CODE: Final = "code that XLA generated or called, which is not in the trace"
XLA: Final = "hlo::"
"""What operations of XLA's own begin with."""


@dataclasses.dataclass(frozen=True, slots=True)
class Request:
    """Which signatures to replay: those of the selection, the `top` ones of it by time, or those up to a share of time.

    `until_share` is between 0 and 1. `signatures` are prefixes of signature ids. With `in_context`, an `iteration` of
    each trace (by label or number; else a steady one) as a whole, or what of it is of a `phase`; the plan names its
    calls that are `among` those with a launch that meets this condition. What is only `shown` is not run, and lacks
    what takes time to find and is no part of the list.
    """

    where: str | None = None
    traces: tuple[str, ...] = ()
    signatures: tuple[str, ...] = ()
    top: int | None = None
    until_share: float | None = None
    config: Mapping[str, Any] | None = None
    in_context: bool = False
    iteration: str | None = None
    phase: str | None = None
    among: str | None = None
    shown: bool = False


@dataclasses.dataclass(frozen=True, slots=True)
class Planned:
    """A plan, and the selected signatures with their routes, also those that none replays.

    `found` is what launches without a recorded call inherit.
    """

    plan: Plan
    routes: pa.Table
    found: tuple[Found, ...] = ()


def share_of(text: str) -> float:
    """`95%` or `95` as 0.95. Raises UsageError for anything else."""
    match = SHARE.fullmatch(text.strip())
    share = float(match.group(1)) / 100 if match else 0.0
    if not 0 < share <= 1 or ("%" not in text and share < SMALLEST_SHARE):  # 0.95 would be 0.95 %
        raise UsageError(f"{text!r} is not a share of time; give a percentage such as 95%")
    return share


def make_plan(warehouse: Warehouse, request: Request) -> Planned:
    """Plan the replay of `request`. Raises SelectionError and UsageError, also where nothing is selected."""
    import pyarrow as pa

    from kerneldb.api import step_reuse, stepping, unrecorded
    from kerneldb.replay.infer.dims import from_config

    if request.in_context:
        return stepping.plan_steps(warehouse, request)
    if request.config is not None:  # one without sizes is refused, also where no launch needs them
        from_config(request.config, dtype="fp16")
    with selecting(warehouse, request.where, request.traces) as con:
        (timing,) = rows(con, "replay_timing")  # which launches are replayed
        wanted = {**timing, "signatures": _wanted(con, request, timing)}
        recorded = Recorded(con)
        exchanges = list(_exchanges(con, wanted))
        known = routes.decide([*_calls(con, wanted, recorded, exchanges, request.shown), *exchanges], recorded)
        others = unrecorded.plan(con, wanted, recorded, request.config)
        remaining = {**wanted, "covered": others.covered}
        covered = {kernel.signature_id for one in known if one.item is not None for kernel in one.item.kernels}
        copies = routes.decide(_copies(con, remaining, covered), recorded)
        selected = rows(con, "replay_selected", remaining)
        vendors = [row["vendor"] for row in rows(con, "replay_vendors")]
        items = [one.item for one in (*known, *others.decisions, *copies) if one.item is not None]
        items = items if request.shown else step_reuse.with_distances(con, recorded, items)
        sources = routes.gather(items, recorded)
    notes: dict[str, Any] = {"where": request.where, "traces": list(request.traces), **timing}
    if len(vendors) == 1:
        notes["vendor"] = vendors[0]
    settled = list(_settled(selected, others.routes, [*known, *copies]))
    texts = ("signature_id", "category", "kind", "name", "route", "reason")
    schema = pa.schema([*((name, pa.string()) for name in texts), ("n", pa.int64()), ("total_ns", pa.int64())])
    table = pa.Table.from_pylist(settled, schema)
    return Planned(Plan(tuple(items), notes, sources), table, tuple(others.found))


def _wanted(con: Connection, request: Request, timing: Row) -> list[str]:
    ranked = rows(con, "replay_ranked", timing)
    if request.signatures:
        ranked = [row for row in ranked if row["signature_id"].startswith(request.signatures)]
    if request.until_share is not None:
        ranked = [row for row in ranked if (row["before_ns"] or 0) < request.until_share * (row["all_ns"] or 1)]
    chosen = [row["signature_id"] for row in ranked[: request.top]]
    if not chosen:
        message = "no launch is selected; see what there is with: kerneldb top --by signature"
        sums = [row["trace"] for row in rows(con, "sums_only", {"names": list(request.traces) or None})]
        if sums:  # beside traces of launches they need not be why nothing is selected: the remedy comes first
            held = f"{sums[0]} holds" if len(sums) == 1 else f"{sums[0]} and {len(sums) - 1:,} more hold"
            message += f" ({held} sums by kernel only; what is replayed comes from traces of launches)"
        raise UsageError(message)
    return chosen


def _calls(con: Connection, wanted: Row, recorded: Recorded, exchanges: Iterable[Work], shown: bool) -> Iterator[Work]:
    """A work per distinct recorded call and list of kernels that it launched.

    A plan that is only `shown` needs nothing for grades. Left out are those that launched nothing but the collectives
    of `exchanges`: operators that only pass them on.
    """
    exchanged = {kernel.signature_id for work in exchanges for kernel in work.kernels}
    variants = rows(con, "replay_variants", {"signatures": wanted["signatures"]})
    firsts = [row for row in variants if row["ordinal"] == 0 and not shown]
    below = _below(con, recorded, {(row["trace_id"], row["op_id"]) for row in firsts if row["call_id"] is not None})
    for kernels, group in itertools.groupby(variants, key=lambda row: row["kernels"]):
        members = list(group)
        if all(row["kind"] != KERNEL for row in members) or members[0]["call_id"] is None:
            continue
        if {row["signature_id"] for row in members} <= exchanged:
            continue
        place = members[0]["trace_id"], members[0]["op_id"]
        spec = recorded.spec(*place)
        others = (row["category"] for row in members if row["kind"] == KERNEL and row["category"] != COMMUNICATION)
        category = next(others, COMMUNICATION)
        own = tuple(map(planned_kernel, members))
        inside = below.get(place, ())
        yield Work(content_id("p1", kernels), own, category, spec, why_not=NO_SHAPES, below=inside)


def _below(
    con: Connection, recorded: Recorded, places: Iterable[tuple[str, int]]
) -> dict[tuple[str, int], tuple[PlannedKernel, ...]]:
    """What calls inside of these operators launched: they come out again with them."""
    inner = [(*place, op_id) for place in sorted(places) for op_id in recorded.inside(*place)]
    if not inner:
        return {}
    asked = dict(zip(("trace_ids", "outer_ids", "op_ids"), map(list, zip(*inner, strict=True)), strict=True))
    grouped = itertools.groupby(rows(con, "replay_below", asked), key=lambda row: (row["trace_id"], row["outer_id"]))
    return {place: tuple(map(planned_kernel, group)) for place, group in grouped}


def _exchanges(con: Connection, wanted: Row) -> Iterator[Work]:
    """A work per kernel, type, sizes and ranks of the wanted collectives: what ranks exchanged, by their launches."""
    for row in rows(con, "replay_collectives", {"signatures": wanted["signatures"]}):
        said = json.dumps({name: row[name] for name in SAID if row[name] is not None})
        identity = content_id("p1", row["signature_id"], said)
        yield Work(identity, (planned_kernel(row),), COMMUNICATION, CallSpec(OpCall(OPERATOR, extra=said)))


def _copies(con: Connection, remaining: Row, covered: set[str]) -> Iterator[Work]:
    """A work per copy and fill that is not part of a call."""
    for row in rows(con, "replay_copies", remaining):
        if row["signature_id"] not in covered:
            yield Work(content_id("p1", row["signature_id"]), (planned_kernel(row),), row["category"])


def _settled(selected: Iterable[Row], others: Iterable[Row], decisions: Iterable[Decision]) -> Iterator[Row]:
    """The rows of signatures whose call is recorded, and of copies, each with its route, or the reason for none.

    Then those of the `others`, of which collectives have a route where the launches say what is exchanged.
    """
    found: dict[str, tuple[str, str | None]] = {}
    for one in decisions:
        for kernel in () if one.item is None else one.item.kernels:
            route, reason = found.get(kernel.signature_id, (one.route, None))
            found[kernel.signature_id] = route, reason or (one.reason if route == one.route else None)
    for row in selected:
        unnamed = NO_CODE if (row["op"] or "").startswith(XLA) else NO_SHAPES
        why_not = "the size of the copy is not recorded" if row["kind"] != KERNEL else unnamed
        usual = NOT_RECORDED if row["category"] == COMMUNICATION else why_not
        route, reason = found.get(row["signature_id"], (routes.NONE, usual))
        yield {**row, "route": route, "reason": reason}
    for row in others:
        exchanged = found.get(row["signature_id"]) if row["category"] == COMMUNICATION else None
        yield row if exchanged is None else {**row, "route": exchanged[0], "reason": exchanged[1]}


LINE: Final = (
    "category", "route", "signatures", "launches", "total_ns", "share_pct", "replayable_pct", "reason"
)  # fmt: skip


NOT_REPLAYABLE: Final = "not replayable"


def feasibility(planned: pa.Table, *, totals: bool = True) -> list[dict[str, Any]]:
    """The plan as a table: category, route, distinct signatures, launches, share of time, and the reason for none.

    With `totals` the last row, TOTAL, is of all launches. Where not all of them have a recorded call, rows before it
    add up to it: how much has one, inherits one, tries one that was inferred, or cannot be replayed. The last are those
    with a reason, also where they have a call that lacks something (a source).
    """
    import polars as pl

    listed = pl.DataFrame(planned).with_columns(pl.col("total_ns").fill_null(0))
    total_ns, route, whole = pl.col("total_ns"), pl.col("route"), listed["total_ns"].sum() or 1
    able = route.is_in([one.name for one in routes.known()]) & pl.col("reason").is_null()
    sums = {
        "signatures": pl.n_unique("signature_id"),
        "launches": pl.sum("n"),
        "total_ns": total_ns.sum(),
        "share_pct": total_ns.sum(),
        "replayable_pct": total_ns.filter(able).sum(),
    }
    apart = [one.name for one in routes.known() if one.apart]
    groups = listed.group_by("category", "route", "reason", maintain_order=True).agg(**sums)
    inferred = {name: able & (route == name) for name in apart}
    kinds = {"recorded": able & ~route.is_in(apart), **inferred, NOT_REPLAYABLE: ~able}
    found = {name: part for name, chosen in kinds.items() if (part := listed.filter(chosen)).height}
    kept = found if totals and found.keys() not in ({"recorded"}, {NOT_REPLAYABLE}) else {}
    sums_of = [
        part.group_by(route=pl.lit("" if name == NOT_REPLAYABLE else name), category=pl.lit(f"TOTAL {name}")).agg(
            **sums
        )
        for name, part in kept.items()
    ]
    last = listed.select(**sums, category=pl.lit("TOTAL"), route=pl.lit(""))
    parts = [groups.sort("total_ns", descending=True, maintain_order=True), *sums_of, *([last] if totals else [])]
    lines = pl.concat(parts, how="diagonal").select(LINE).to_dicts()
    shares = ("share_pct", "replayable_pct")  # sums so far; polars multiplies by the inverse, which is less exact
    return [{**line, **{name: 100 * line[name] / whole for name in shares}} for line in lines]


CALLS: Final = (
    ("kernel", "string"), ("grid", "string"), ("launches", "int64"), ("total_ns", "int64"), ("route", "string"),
    ("rank", "int64"), ("op", "string"), ("input_dims", "string"), ("input_dtypes", "string"), ("score", "double"),
    ("why", "string"), ("signature_id", "string"), ("item_id", "string"),
)  # fmt: skip
"""Columns of `calls`, with their Arrow types."""


def calls(plan: Plan) -> Iterator[dict[str, Any]]:
    """The calls that a plan runs, those with most time first: a row per item, or per candidate of one without a call.

    Candidates beyond the first (`rank` 2 and on) are tried for the same launches, which only the first has: a sum of
    `launches` or `total_ns` counts each once. `why` says where a call comes from; it is NULL where a route makes it
    without one (copies of memory).
    """
    rows = [
        _call(item, rank, candidate)
        for item in plan.items
        for rank, candidate in enumerate(item.candidates or (_recorded(item),), 1)
    ]
    for row in sorted(rows, key=lambda row: (-row["total_ns"], row["item_id"], row["rank"])):
        yield row if row["rank"] == 1 else {**row, "launches": None, "total_ns": None}


def _recorded(item: Item) -> Candidate | None:
    return None if item.spec is None else Candidate(item.spec, "recorded")


def _call(item: Item, rank: int, candidate: Candidate | None) -> dict[str, Any]:
    kernel = max(item.kernels, key=lambda one: one.total_ns or 0)
    call = None if candidate is None else candidate.spec.call
    return {
        "kernel": short(kernel.name),
        "grid": kernel.grid and "x".join(map(str, kernel.grid)),
        "launches": sum(one.launches for one in item.kernels),
        "total_ns": sum(one.total_ns or 0 for one in item.kernels),
        "route": item.route,
        "rank": rank,
        "op": call and call.op,
        "input_dims": call and call.input_dims,
        "input_dtypes": call and call.input_dtypes,
        "score": candidate and candidate.score,
        "why": candidate and candidate.why,
        "signature_id": kernel.signature_id,
        "item_id": item.id,
    }


def short(name: str) -> str:
    """A kernel name without templates and parameters, as in `short_name`."""
    from kerneldb.names import decode

    return decode(name).short_name or name
