"""Finds the operator calls of launches that were recorded without one, among launches that have one.

What is found is stored beside the launch (`inferred_calls`, `launches.inferred_id`), never in place of what was
recorded.
"""

from __future__ import annotations

import dataclasses
import functools
from typing import TYPE_CHECKING, Any, Final

import polars as pl

from kerneldb.api import donors
from kerneldb.api.queries import by_id, frame, rows, selecting
from kerneldb.api.recorded import call_row
from kerneldb.ids import content_id
from kerneldb.replay.wire.plan import OpCall

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from kerneldb.api.queries import Connection, Row
    from kerneldb.warehouse import Warehouse

    Rows = Mapping[str, Row]

INHERITED: Final = "inherited"
INFERRED: Final = "inferred"
MOST_DONORS: Final = 8
MOST_LAUNCHES: Final = 1_000_000

TARGET: Final = (
    "trace_id", "launch_index", "signature_id", "duration_ns", "timing", "process", "device", "stream", "start_ns"
)  # fmt: skip
SURE: Final = 0.5
"""What is less sure is neither an inherited call, which is then one to try among others, nor an operator."""

RIGHT: Final = {"one call": 0.998, "neighbours": 0.98, "order": 0.95, "duration": 0.6}
"""The share of calls found this way that were the recorded ones, over traces whose calls were hidden
(docs/replay-without-calls.md)."""
RUNGS: Final = {"launch": 1.0, "launch key": 0.98, "launch key, other GPU": 0.9, "name": 0.7}
FAR: Final = 512
FAR_SHARE: Final = 0.5
OTHER_DURATION: Final = 0.6
RELATED: Final = 0.8
CLOSE: Final = 0.5
"""Traces with at least this share of the kernels are asked before others."""
TOLERANCE: Final = 0.25
TOLERANCE_NS: Final = 500

COLUMNS: Final = (
    "trace_id", "launch_index", "signature_id", "inferred_id", "inferred_by", "call_id", "call_ordinal", "call_kernels",
    "call_launch", "donor_trace_id", "donor_launch_index", "method", "confidence", "alternatives", "evidence",
)  # fmt: skip
SUMMARY: Final = (
    ("trace", "string"), ("found", "string"), ("method", "string"), ("launches", "int64"), ("share_pct", "double"),
    ("confidence", "double"),
)  # fmt: skip
"""Columns of `summary`, with their Arrow types."""


@dataclasses.dataclass(frozen=True, slots=True)
class Found:
    """What was found for the launches of one trace.

    `rows` are rows of `inferred_calls` (and the operator and trace of the donor), `signatures` and `calls` those of the
    other tables that they name, by id. `weak` are donors that are too unsure to be accepted. `launches` has index,
    duration and shared memory of each launch of the trace, `wanted` counts those without a recorded call.
    """

    trace_id: str
    trace: str
    wanted: int
    rows: pl.DataFrame
    signatures: Rows
    calls: Rows
    launches: pl.DataFrame
    weak: pl.DataFrame

    @property
    def with_call(self) -> pl.DataFrame:
        """The rows with a whole call: dims and all."""
        import polars as pl

        return self.rows.filter(pl.col("call_kernels").is_not_null())


def inherit(warehouse: Warehouse, traces: Sequence[str] = (), where: str | None = None) -> list[Found]:
    """Find the calls of all launches without one in the traces of the selection, and store them.

    Earlier finds of the same kind in these traces are replaced. Raises UsageError and SelectionError.
    """
    with selecting(warehouse, where, traces) as con:
        found = find(con)
    keep(warehouse, found)
    return found


def keep(warehouse: Warehouse, found: Iterable[Found]) -> None:
    """Store what was inherited, a transaction per trace, in place of what was before."""
    for one in found:
        store(warehouse, one.trace_id, one.rows.select(COLUMNS), one.signatures, one.calls, renew=True)


def store(
    warehouse: Warehouse, trace_id: str, rows: pl.DataFrame, signatures: Rows, calls: Rows, *, renew: bool
) -> None:
    """Store rows of `inferred_calls`, and the signatures and calls that they name; see `warehouse.found.store`."""
    from kerneldb.derive import FACTS
    from kerneldb.warehouse import found

    facts = pl.DataFrame(list(signatures.values()), schema={**FACTS, "name": pl.String()})
    texts = {name: pl.String() for name in (*(field.name for field in dataclasses.fields(OpCall)), "call_id")}
    frames: dict[str, Any] = {
        "rows": rows,
        "signatures": facts,
        "calls": pl.DataFrame(list(calls.values()), schema=texts),
    }
    warehouse.write(functools.partial(found.store, trace_id=trace_id, renew=renew, **frames))


def find(con: Connection) -> list[Found]:
    """The calls found for the traces of `selection`, which is bound."""
    return [_of_trace(con, row["trace_id"], row["trace"]) for row in rows(con, "inherit_targets")]


def summary(found: Iterable[Found]) -> list[dict[str, Any]]:
    """Per trace and way of finding: launches, their share of those without a call, and the mean confidence."""
    lines: list[Row] = []
    whole = pl.when(pl.col("call_kernels").is_not_null().all()).then(pl.lit("call")).otherwise(pl.lit("operator"))
    sums = {"found": whole, "launches": pl.len(), "confidence": pl.mean("confidence")}
    for one in found:
        ways = one.rows.group_by("method").agg(**sums).sort("launches", descending=True).to_dicts()
        rest = one.wanted - one.rows.height
        if rest:
            ways.append({"found": "nothing", "method": None, "launches": rest, "confidence": None})
        lines.extend({"trace": one.trace, "share_pct": 100 * way["launches"] / one.wanted, **way} for way in ways)
    return lines


def _of_trace(con: Connection, trace_id: str, trace: str) -> Found:
    # The traces with recorded calls of most kernels that are wanted, and those that add further kernels
    known: list[Row] = []
    covered: set[str] = set()
    pool = rows(con, "inherit_pool", {"trace_id": trace_id})
    while pool and len(known) < MOST_DONORS:
        best = max(
            pool, key=lambda one: (len(set(one["known"]) - covered), one["donor_trace_id"] == trace_id, one["n"])
        )
        if not set(best["known"]) - covered:
            break
        known.append(best)
        covered |= set(best["known"])
        pool.remove(best)
    kin = [trace_id, *(row["donor_trace_id"] for row in known if row["kinship"] >= CLOSE)]
    asked = dict.fromkeys([trace_id, *(row["donor_trace_id"] for row in known)])
    own, *others = (frame(con, "inherit_launches", {"trace_id": one, "most": MOST_LAUNCHES}) for one in asked)
    launches = pl.concat([own, *(other.with_columns(wanted=pl.lit(value=False)) for other in others)])
    numbered = launches.with_columns(related=pl.col("trace_id").is_in(kin)).with_row_index("row")
    matched = _matched(numbered, known)
    whole, weak = _grouped(matched.filter(pl.col("confidence") >= SURE)), matched.filter(pl.col("confidence") < SURE)
    operators = frame(con, "inherit_operators", {"trace_id": trace_id, "close": CLOSE, "sure": SURE})
    captured = frame(con, "inherit_captured", {"trace_id": trace_id})
    whole = pl.concat([captured, whole.join(captured, on="launch_index", how="anti")], how="diagonal_relaxed")
    rest = own.select("trace_id", "launch_index", "signature_id", call_launch="launch_index")
    by_operator = rest.join(whole, on="launch_index", how="anti").join(operators, on="signature_id")
    named = _named(con, pl.concat([whole, by_operator], how="diagonal_relaxed"))
    launched = own.select("launch_index", "duration_ns", "shared_bytes")
    return Found(trace_id, trace, int(own["wanted"].sum()), *named, launched, weak)


def _matched(launches: pl.DataFrame, traces: list[Row]) -> pl.DataFrame:
    """A row per wanted launch with a donor: the donor's call, its place in it, and how sure that is and why."""
    place = pl.col("ordinal", "kernels").cast(pl.Int32).name.prefix("call_")
    given = pl.col("trace_id", "launch_index", "op_id").name.prefix("donor_")
    donor = launches.select(given, "call_id", place, donor="row", usual="duration_ns")
    found = donors.match(launches.select(donors.FACTS)).join(launches.select("row", *TARGET), on="row")
    named = pl.DataFrame(traces, schema={"donor_trace_id": pl.String, "donor_trace": pl.String, "kinship": pl.Float64})
    rows = found.join(donor, on="donor").join(named, on="donor_trace_id", how="left").sort("row")
    alike = ["signature_id", "call_id"]
    mean, usual = pl.col("duration_ns").mean().over(alike), pl.col("usual").mean().over(alike)
    off = (mean - usual).abs()
    slower = (pl.col("timing") == "timeline") & (off > TOLERANCE_NS) & (off > TOLERANCE * usual)
    right = pl.col("decided").replace_strict(RIGHT, return_dtype=pl.Float64())
    rung = pl.col("level").replace_strict(RUNGS, return_dtype=pl.Float64())
    far = pl.when(pl.col("away") > FAR).then(FAR_SHARE).otherwise(1.0)
    other = pl.when(pl.col("ratio").is_not_null()).then(OTHER_DURATION).otherwise(1.0)
    related = (pl.col("kinship") / RELATED).clip(0, 1)
    return rows.with_columns(pl.col("kinship").fill_null(0.0), ratio=pl.when(slower).then(mean / usual)).with_columns(
        inferred_by=pl.lit(INHERITED),
        method=pl.format("{}: {}", "level", "decided"),
        confidence=right * rung * far * other * related,
        evidence=_evidence(),
    )


def _evidence() -> pl.Expr:
    """A line for people."""
    window = pl.format("; {} kernels before and {} behind agree, of {} calls", "before", "after", "alternatives")
    slower = pl.format("; takes {} times as long: perhaps other work", pl.col("ratio").round(2))
    stranger = pl.format("; that trace has {} % of the kernels", (100 * pl.col("kinship")).round(0).cast(pl.Int64()))
    return pl.concat_str(
        pl.format("as {} #{}", "donor_trace", "donor_launch_index"),
        pl.when(pl.col("alternatives") > 1).then(window).otherwise(pl.lit("; the only call of such a kernel")),
        slower.fill_null(""),
        pl.when(pl.col("kinship") < RELATED).then(stranger).otherwise(pl.lit("")),
    )


def _grouped(rows: pl.DataFrame) -> pl.DataFrame:
    """With `call_launch`: kernels in a row that are the next ones of the same call belong to one execution of it."""
    stream = ["process", "device", "stream"]
    ordered = rows.sort(*stream, "start_ns", "launch_index", nulls_last=True)
    same = (pl.col("call_id") == pl.col("call_id").shift(1)).over(stream)
    follows = (pl.col("call_ordinal") == pl.col("call_ordinal").shift(1) + 1).over(stream)
    begins = ~(same & follows & (pl.col("call_ordinal") > 0)).fill_null(value=False)
    numbered = ordered.with_columns(group=begins.cum_sum())
    return numbered.with_columns(call_launch=pl.col("launch_index").first().over("group")).sort("launch_index")


def _named(con: Connection, found: pl.DataFrame) -> tuple[pl.DataFrame, dict[str, Row], dict[str, Row]]:
    """Rows of `inferred_calls` (with operator and trace of the donor), and the signatures and calls that they name."""
    by_op = {op: call_row(OpCall(op)) for op in found["op"].drop_nulls().unique()}
    ids = pl.col("op").replace_strict(
        {op: call["call_id"] for op, call in by_op.items()}, default=None, return_dtype=pl.String()
    )
    calls = by_id(con, "inherit_calls", "call_id", found["call_id"].drop_nulls())
    calls |= {call["call_id"]: call for call in by_op.values()}
    filled = found.with_columns(call_id=pl.coalesce("call_id", ids))
    pairs = filled.select("signature_id", "call_id").unique(maintain_order=True)
    facts = by_id(con, "inherit_signatures", "signature_id", pairs["signature_id"])
    made = [found_signature(facts[one], calls[call]) for one, call in pairs.rows()]
    named = pairs.with_columns(inferred_id=pl.Series([row["signature_id"] for row in made], dtype=pl.String()))
    rows = filled.join(named, on=["signature_id", "call_id"]).sort("launch_index")
    signatures = {row["signature_id"]: row for row in made}
    return rows.select(*COLUMNS, "donor_op_id", "donor_trace"), signatures, calls


def found_signature(facts: Mapping[str, Any], call: Mapping[str, Any]) -> Row:
    """The fact columns of the signature `facts` with `call` as its operator call, and its `name`."""
    shape = [facts[f"{shape}_{axis}"] for shape in ("grid", "block") for axis in "xyz"]
    products = [facts["total_blocks"], facts["threads_per_block"]]
    more = products if all(axis is None for axis in shape) and any(one is not None for one in products) else []
    copied = (facts["bytes"], facts["copy_kind"])
    identity = content_id("s1", facts["kind"], facts["name"], *shape, *copied, call["call_id"], *more)
    return {**facts, **call, "signature_id": identity}
