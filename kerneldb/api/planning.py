"""Makes the plan of a replay from selected kernels: distinct calls with their kernels, evidence and route."""

from __future__ import annotations

import dataclasses
import itertools
import re
from typing import TYPE_CHECKING, Any, Final

from kerneldb.api import collectives, triton, unrecorded
from kerneldb.api.queries import require_traces
from kerneldb.api.recorded import Recorded, rows, triple
from kerneldb.errors import UsageError
from kerneldb.ids import content_id
from kerneldb.replay.wire.plan import Item, Plan, PlannedKernel
from kerneldb.selection import Selection

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence

    import duckdb
    import pyarrow as pa

    from kerneldb.api.inheriting import Found
    from kerneldb.replay.wire.plan import OpCall
    from kerneldb.warehouse import Warehouse

    Connection = duckdb.DuckDBPyConnection
    Row = dict[str, Any]

SHARE: Final = re.compile(r"(\d+(?:\.\d+)?)\s*%?")
SMALLEST_SHARE: Final = 0.01
KERNEL: Final = "kernel"
MEMORY: Final = "memory"
INHERITED: Final = unrecorded.INHERITED
INFERRED: Final = unrecorded.INFERRED
TRITON: Final = "triton"
RECORDED: Final = ("aten", TRITON, MEMORY, "collective")
REPLAYABLE: Final = (*RECORDED, INHERITED, INFERRED)


@dataclasses.dataclass(frozen=True, slots=True)
class Request:
    """Which signatures to replay: those of the selection, the `top` ones of it by time, or those up to a share of time.

    `until_share` is between 0 and 1. `signatures` are prefixes of signature ids.
    """

    where: str | None = None
    traces: tuple[str, ...] = ()
    signatures: tuple[str, ...] = ()
    top: int | None = None
    until_share: float | None = None
    config: Mapping[str, Any] | None = None


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
        message = f"{text!r} is no share of time; give a percentage such as 95%"
        raise UsageError(message)
    return share


def make_plan(warehouse: Warehouse, request: Request) -> Planned:
    """Plan the replay of `request`. Raises SelectionError and UsageError, also where nothing is selected."""
    _check(request.config)
    require_traces(warehouse, request.traces)
    with warehouse.connection() as con:
        timing = _bound(con, request)
        wanted = {**timing, "signatures": _wanted(con, request, timing)}
        recorded = Recorded(con)
        exchanges = list(collectives.items(con, wanted["signatures"]))
        calls = collectives.without(_call_items(con, {"signatures": wanted["signatures"]}, recorded), exchanges)
        others = unrecorded.plan(con, wanted, recorded, request.config)
        covered = {kernel.signature_id for item in calls for kernel in item.kernels}
        remaining = {**wanted, "covered": others.covered}
        copies = [item for item in _copy_items(con, remaining) if item.kernels[0].signature_id not in covered]
        specs = [one.spec.call for one in (*calls, *others.items) if one.spec is not None]
        sources = triton.sources_for(con, [call for call in specs if triton.is_triton(call)])
        known = collectives.with_reasons([*rows(con, "replay_routes", remaining), *others.routes], exchanges)
        routes = _settled(known, covered)
        routes = triton.with_reasons(routes, (*calls, *others.items), sources)
        vendors = [row["vendor"] for row in rows(con, "replay_vendors")]
    notes: dict[str, Any] = {"where": request.where, "traces": list(request.traces), **timing}
    if len(vendors) == 1:
        notes["vendor"] = vendors[0]
    return Planned(Plan((*calls, *exchanges, *others.items, *copies), notes, sources), routes, tuple(others.found))


def _bound(con: Connection, request: Request) -> Row:
    """Make what is to be replayed known as `selection`; returns which launches these are, by their `timing`."""
    Selection(request.where, request.traces).bind(con)
    (found,) = rows(con, "replay_timing")
    return found


def _check(config: Mapping[str, Any] | None) -> None:
    """Raise UsageError where the configuration of a model says no sizes, also where no launch needs them."""
    if config is not None:
        from kerneldb.replay.infer.scene import from_config

        from_config(config, dtype="fp16")


def _wanted(con: Connection, request: Request, timing: Row) -> list[str]:
    ranked = rows(con, "replay_ranked", timing)
    if request.signatures:
        ranked = [row for row in ranked if row["signature_id"].startswith(request.signatures)]
    if request.until_share is not None:
        ranked = [row for row in ranked if (row["before_ns"] or 0) < request.until_share * (row["all_ns"] or 1)]
    chosen = [row["signature_id"] for row in ranked[: request.top]]
    if not chosen:
        raise UsageError(_unselected(con, request))
    return chosen


def _unselected(con: Connection, request: Request) -> str:
    """The remedy first: sums beside traces of launches need not be why nothing is selected."""
    sums = [row["trace"] for row in rows(con, "sums_only", {"names": list(request.traces) or None})]
    message = "no launch is selected; see what there is with: kerneldb top --by signature"
    if not sums:
        return message
    held = f"{sums[0]} holds" if len(sums) == 1 else f"{sums[0]} and {len(sums) - 1:,} more hold"
    return f"{message} ({held} sums by kernel only; what is replayed comes from traces of launches)"


def _settled(routes: Iterable[Mapping[str, Any]], covered: set[str]) -> pa.Table:
    """The routes as a table; copies that replay as part of a recorded call have its route."""
    import pyarrow as pa

    aten = {"route": "aten"}
    settled = [{**row, **(aten if row["route"] == MEMORY and row["signature_id"] in covered else {})} for row in routes]
    types = {name: pa.string() for name in ("signature_id", "category", "kind", "name", "route", "reason")}
    return pa.Table.from_pylist(settled, schema=pa.schema({**types, "n": pa.int64(), "total_ns": pa.int64()}))


def _call_items(con: Connection, wanted: Row, recorded: Recorded) -> Iterator[Item]:
    for kernels, group in itertools.groupby(rows(con, "replay_variants", wanted), key=lambda row: row["kernels"]):
        members = list(group)
        if all(row["kind"] != KERNEL for row in members) or members[0]["call_id"] is None:
            continue
        spec = recorded.spec(members[0]["trace_id"], members[0]["op_id"])
        route = _route(spec.call)
        if route is not None:
            yield Item(content_id("p1", kernels), route, spec, tuple(map(_planned, members)))


def _route(call: OpCall) -> str | None:
    """None for calls that no route of this version replays: those recorded without shapes."""
    if call.input_dims is None and call.input_dtypes is None:
        return None
    return TRITON if triton.is_triton(call) else "aten"


def _copy_items(con: Connection, wanted: Row) -> Iterator[Item]:
    for row in rows(con, "replay_copies", wanted):
        kernel = _planned({**row, "ordinal": 0})
        yield Item(content_id("p1", kernel.signature_id), "memory", None, (kernel,))


def _planned(row: Row) -> PlannedKernel:
    return PlannedKernel(
        ordinal=row["ordinal"],
        signature_id=row["signature_id"],
        name=row["name"],
        kind=row["kind"],
        grid=triple(row, "grid"),
        block=triple(row, "block"),
        shared_bytes=row.get("shared_bytes"),
        bytes=row["bytes"],
        copy_kind=row["copy_kind"],
        launches=row["launches"],
        median_ns=row["median_ns"],
        total_ns=row["total_ns"],
    )


def feasibility(routes: pa.Table) -> list[dict[str, Any]]:
    """The plan as a table: category, route, distinct signatures, launches, share of time, and the reason for none.

    The last row, TOTAL, is of all launches, and says what share of the time recorded calls replay; what inherited and
    inferred calls replay stands apart, in rows of their own before it. What lacks something (a source) is not counted
    as replayable: it has a reason.
    """
    listed = routes.to_pylist()
    whole = sum(row["total_ns"] or 0 for row in listed) or 1
    groups: dict[tuple[str, str, str | None], list[Row]] = {}
    for row in listed:
        groups.setdefault((row["category"], row["route"], row["reason"]), []).append(row)
    lines = [_line(*key, group, whole, REPLAYABLE) for key, group in groups.items()]
    lines.sort(key=lambda line: -line["total_ns"])
    apart = {route: [row for row in listed if row["route"] == route] for route in (INHERITED, INFERRED)}
    lines.extend(
        _line(f"TOTAL {route}", route, None, group, whole, (route,)) for route, group in apart.items() if group
    )
    return [*lines, _line("TOTAL", "", None, listed, whole, RECORDED)]


def _line(
    category: str, route: str, reason: str | None, group: Sequence[Row], whole: int, replayable: Collection[str]
) -> dict[str, Any]:
    total = sum(row["total_ns"] or 0 for row in group)
    able = [row for row in group if row["route"] in replayable and row["reason"] is None]
    return {
        "category": category,
        "route": route,
        "signatures": len({row["signature_id"] for row in group}),
        "launches": sum(row["n"] for row in group),
        "total_ns": total,
        "share_pct": 100 * total / whole,
        "replayable_pct": 100 * sum(row["total_ns"] or 0 for row in able) / whole,
        "reason": reason,
    }


CANDIDATES: Final = (
    ("kernel", "string"), ("grid", "string"), ("launches", "int64"), ("total_ns", "int64"), ("route", "string"),
    ("rank", "int64"), ("op", "string"), ("input_dims", "string"), ("input_dtypes", "string"), ("score", "double"),
    ("why", "string"), ("signature_id", "string"), ("item_id", "string"),
)  # fmt: skip
"""Columns of `candidates`, with their Arrow types."""


def candidates(plan: Plan) -> Iterator[dict[str, Any]]:
    """What may have launched the kernels without a recorded call: a row per item and candidate, with the reasons."""
    for item in plan.items:
        for rank, candidate in enumerate(item.candidates, 1):
            kernel, call = max(item.kernels, key=lambda one: one.total_ns or 0), candidate.spec.call
            yield {
                "kernel": short(kernel.name),
                "grid": kernel.grid and "x".join(map(str, kernel.grid)),
                "launches": kernel.launches,
                "total_ns": sum(one.total_ns or 0 for one in item.kernels),
                "route": item.route,
                "rank": rank,
                "op": call.op,
                "input_dims": call.input_dims,
                "input_dtypes": call.input_dtypes,
                "score": candidate.score,
                "why": candidate.why,
                "signature_id": kernel.signature_id,
                "item_id": item.id,
            }


def short(name: str) -> str:
    """A kernel name without templates and parameters, as in `short_name`."""
    from kerneldb.names import decode

    return decode(name).short_name or name
