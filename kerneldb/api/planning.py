"""Makes the plan of a replay from selected kernels: distinct calls with their kernels, evidence and route."""

from __future__ import annotations

import dataclasses
import itertools
import re
from typing import TYPE_CHECKING, Any, Final

from kerneldb.api.queries import require_traces, statement
from kerneldb.errors import UsageError
from kerneldb.ids import content_id
from kerneldb.replay.evidence import Trace
from kerneldb.replay.plan import Item, OpCall, Plan, PlannedKernel
from kerneldb.selection import Selection

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    import duckdb
    import pyarrow as pa

    from kerneldb.warehouse import Warehouse

    Connection = duckdb.DuckDBPyConnection
    Row = Mapping[str, Any]

CALL_FIELDS: Final = ("op", "input_dims", "input_strides", "input_dtypes", "scalars", "extra")
SHARE: Final = re.compile(r"(\d+(?:\.\d+)?)\s*%?")
SMALLEST_SHARE: Final = 0.01
KERNEL: Final = "kernel"
REPLAYABLE: Final = ("aten", "memory")


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


@dataclasses.dataclass(frozen=True, slots=True)
class Planned:
    """A plan, the selected signatures with their routes (`plan_rows`), and those that no route replays."""

    plan: Plan
    routes: pa.Table


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
    require_traces(warehouse, request.traces)
    with warehouse.lease() as con:
        Selection(request.where, request.traces).bind(con)
        wanted = {"signatures": _wanted(con, request)}
        routes = con.sql(statement("replay_routes"), params=wanted).to_arrow_table()
        calls = list(_call_items(con, wanted))
        covered = {kernel.signature_id for item in calls for kernel in item.kernels}
        copies = [item for item in _copy_items(con, wanted) if item.kernels[0].signature_id not in covered]
        routes = _settled(routes, covered)
        vendors = [row["vendor"] for row in _rows(con, "replay_vendors")]
    notes: dict[str, Any] = {"where": request.where, "traces": list(request.traces)}
    if len(vendors) == 1:
        notes["vendor"] = vendors[0]
    return Planned(Plan((*calls, *copies), notes), routes)


def _wanted(con: Connection, request: Request) -> list[str]:
    ranked = _rows(con, "replay_ranked")
    if request.signatures:
        ranked = [row for row in ranked if row["signature_id"].startswith(request.signatures)]
    if request.until_share is not None:
        ranked = [row for row in ranked if (row["before_ns"] or 0) < request.until_share * row["all_ns"]]
    chosen = [row["signature_id"] for row in ranked[: request.top]]
    if not chosen:
        message = "no launch is selected; see what there is with: kerneldb top --by signature"
        raise UsageError(message)
    return chosen


def _settled(routes: pa.Table, covered: set[str]) -> pa.Table:
    """`routes` with those of copies that replay as part of an operator call."""
    import pyarrow as pa

    rows = routes.to_pylist()
    for row in rows:
        if row["signature_id"] in covered and row["route"] == "memory":
            row["route"] = "aten"
    return pa.Table.from_pylist(rows, schema=routes.schema)


def _rows(con: Connection, name: str, params: Row | None = None) -> list[dict[str, Any]]:
    table = con.sql(statement(name), params=dict(params or {})).to_arrow_table()
    rows: list[dict[str, Any]] = table.to_pylist()
    return rows


def _call_items(con: Connection, wanted: Row) -> Iterator[Item]:
    traces: dict[str, tuple[Trace, dict[int, int]]] = {}
    for kernels, group in itertools.groupby(_rows(con, "replay_variants", wanted), key=lambda row: row["kernels"]):
        rows = list(group)
        if all(row["kind"] != KERNEL for row in rows) or rows[0]["call_id"] is None:
            continue
        first = rows[0]
        if first["trace_id"] not in traces:
            traces[first["trace_id"]] = _recorded(con, first["trace_id"])
        trace, places = traces[first["trace_id"]]
        spec = trace.spec(places[first["op_id"]])
        if _route(spec.call) is not None:
            yield Item(content_id("p1", kernels), "aten", spec, tuple(map(_planned, rows)))


def _route(call: OpCall) -> str | None:
    """None for calls that no route of this version replays: Triton kernels, and calls recorded without shapes."""
    shapes = call.input_dims is not None or call.input_dtypes is not None
    return None if call.op.startswith("triton") or not shapes else "aten"


def _recorded(con: Connection, trace_id: str) -> tuple[Trace, dict[int, int]]:
    rows = _rows(con, "replay_ops", {"trace_id": trace_id})
    places = {row["op_id"]: place for place, row in enumerate(rows)}
    calls = [OpCall(**{name: row[name] for name in CALL_FIELDS}) for row in rows]
    return Trace(calls, [places.get(row["parent_id"]) for row in rows]), places


def _copy_items(con: Connection, wanted: Row) -> Iterator[Item]:
    for row in _rows(con, "replay_copies", wanted):
        kernel = _planned({**row, "ordinal": 0})
        yield Item(content_id("p1", kernel.signature_id), "memory", None, (kernel,))


def _planned(row: Row) -> PlannedKernel:
    return PlannedKernel(
        ordinal=row["ordinal"],
        signature_id=row["signature_id"],
        name=row["name"],
        kind=row["kind"],
        grid=_triple(row, "grid"),
        block=_triple(row, "block"),
        shared_bytes=row.get("shared_bytes"),
        bytes=row["bytes"],
        copy_kind=row["copy_kind"],
        launches=row["launches"],
        median_ns=row["median_ns"],
        total_ns=row["total_ns"],
    )


def _triple(row: Row, shape: str) -> tuple[int, ...] | None:
    values = [row.get(f"{shape}_{axis}") for axis in "xyz"]
    return (
        None if any(value is None for value in values) else tuple(int(value) for value in values if value is not None)
    )


def feasibility(routes: pa.Table) -> list[dict[str, Any]]:
    """The plan as a table: category, route, distinct signatures, launches, share of time, and the reason for none."""
    rows = routes.to_pylist()
    whole = sum(row["total_ns"] or 0 for row in rows) or 1
    groups: dict[tuple[str, str, str | None], list[Row]] = {}
    for row in rows:
        groups.setdefault((row["category"], row["route"], row["reason"]), []).append(row)
    lines = [_line(*key, group, whole) for key, group in groups.items()]
    lines.sort(key=lambda line: -line["total_ns"])
    return [*lines, _line("TOTAL", "", None, rows, whole)]


def _line(category: str, route: str, reason: str | None, rows: Sequence[Row], whole: int) -> dict[str, Any]:
    total = sum(row["total_ns"] or 0 for row in rows)
    replayable = sum(row["total_ns"] or 0 for row in rows if row["route"] in REPLAYABLE)
    return {
        "category": category,
        "route": route,
        "signatures": len(rows),
        "launches": sum(row["n"] for row in rows),
        "total_ns": total,
        "share_pct": 100 * total / whole,
        "replayable_pct": 100 * replayable / whole,
        "reason": reason,
    }
