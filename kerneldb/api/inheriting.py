"""Finds the operator calls of launches that were recorded without one, among launches that have one.

What is found is stored beside the launch (`found_calls`, `launches.found_id`), never in place of what was recorded.
"""

from __future__ import annotations

import dataclasses
import datetime
import functools
from typing import TYPE_CHECKING, Any, Final

from kerneldb.api.queries import require_traces, statement
from kerneldb.ids import content_id
from kerneldb.selection import Selection

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    import duckdb
    import polars as pl

    from kerneldb.warehouse import Warehouse

    Connection = duckdb.DuckDBPyConnection

INHERITED: Final = "inherited"
INFERRED: Final = "inferred"
MOST_DONORS: Final = 8
MOST_LAUNCHES: Final = 1_000_000
AXES: Final = tuple(f"{shape}_{axis}" for shape in ("grid", "block") for axis in "xyz")
CALL: Final = ("op", "input_dims", "input_strides", "input_dtypes", "scalars")

TIMELINE: Final = "timeline"
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
BY_GRAMMAR: Final = "operator by grammar"
BY_NAME_ALONE: Final = "the name of the kernel tells the operator, not its sizes"
OPERATOR_SHARE: Final = {"name": 0.95, "operation": 0.85, "grammar": 0.8}
TOLERANCE: Final = 0.25
TOLERANCE_NS: Final = 500

GRAMMAR: Final = {
    ("PyTorch ATen", operation): f"aten::{operator}"
    for operation, operator in {
        "fill": "fill_", "where": "where", "copy": "copy_", "arange": "arange", "cat": "cat", "argmax": "argmax",
        "index_select": "index_select", "mean": "mean", "cos": "cos", "sin": "sin", "neg": "neg", "rsqrt": "rsqrt",
        "mul": "mul", "add": "add", "pow": "pow", "silu": "silu", "gather": "gather", "softmax": "_softmax",
        "gelu": "gelu",
    }.items()
}  # fmt: skip
"""Operators that the names of their kernels tell, for launches like none that was ever recorded with its operator."""


@dataclasses.dataclass(frozen=True, slots=True)
class Found:
    """What was found for the launches of one trace.

    `rows` are rows of `found_calls` (and the operator and trace of the donor), `signatures` and `calls` those of the
    other tables that they name. `weak` are donors that are too unsure to be believed. `launches` has index, duration
    and shared memory of each launch of the trace, `wanted` counts those without a recorded call.
    """

    trace_id: str
    trace: str
    wanted: int
    rows: pl.DataFrame
    signatures: pl.DataFrame
    calls: pl.DataFrame
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
    require_traces(warehouse, traces)
    with warehouse.connection() as con:
        Selection(where, tuple(traces)).bind(con)
        found = find(con)
    keep(warehouse, found)
    return found


def keep(warehouse: Warehouse, found: Iterable[Found]) -> None:
    """Store what was inherited, a transaction per trace, in place of what was before."""
    from kerneldb.warehouse import found as storing

    for one in found:
        rows = one.rows.select(COLUMNS)
        store = functools.partial(
            storing.store, trace_id=one.trace_id, rows=rows, signatures=one.signatures, calls=one.calls, renew=True
        )
        warehouse.write(store)


def find(con: Connection) -> list[Found]:
    """The calls found for the traces of `selection`, which is bound."""
    return [_of_trace(con, row["trace_id"], row["trace"]) for row in _rows(con, "inherit_targets")]


SUMMARY: Final = (
    ("trace", "string"), ("found", "string"), ("method", "string"), ("launches", "int64"), ("share_pct", "double"),
    ("confidence", "double"),
)  # fmt: skip
"""Columns of `summary`, with their Arrow types."""


def summary(found: Iterable[Found]) -> list[dict[str, Any]]:
    """Per trace and way of finding: launches, their share of those without a call, and the mean confidence."""
    import polars as pl

    lines: list[dict[str, Any]] = []
    for one in found:
        ways = one.rows.group_by("method").agg(
            launches=pl.len(), confidence=pl.col("confidence").mean(), whole=pl.col("call_kernels").is_not_null().all()
        )
        largest = ways.sort("launches", descending=True).iter_rows(named=True)
        lines.extend(_summary_line(one, row) for row in largest)
        rest = one.wanted - one.rows.height
        if rest:
            lines.append(_summary_line(one, {"method": None, "launches": rest, "confidence": None, "whole": None}))
    return lines


def _summary_line(one: Found, row: Mapping[str, Any]) -> dict[str, Any]:
    found = {True: "call", False: "operator", None: "nothing"}[row["whole"]]
    share = 100 * row["launches"] / max(one.wanted, 1)
    return {
        "trace": one.trace,
        "found": found,
        "method": row["method"],
        "launches": row["launches"],
        "share_pct": share,
        "confidence": row["confidence"],
    }


def _rows(con: Connection, name: str, **params: Any) -> list[dict[str, Any]]:
    from kerneldb.warehouse.statements import rows_of

    return rows_of(con, statement(name), params)


def _frame(con: Connection, name: str, **params: Any) -> pl.DataFrame:
    from kerneldb.warehouse.statements import frame_of

    return frame_of(con, statement(name), params)


def _of_trace(con: Connection, trace_id: str, trace: str) -> Found:
    import polars as pl

    own = _frame(con, "inherit_launches", trace_id=trace_id, most=MOST_LAUNCHES)
    donors = {row["trace_id"]: row for row in _donor_traces(con, trace_id)}
    others = [_frame(con, "inherit_launches", trace_id=one, most=MOST_LAUNCHES) for one in donors if one != trace_id]
    known = [frame.with_columns(wanted=pl.lit(value=False)) for frame in others]
    kin = [one for one, row in donors.items() if row["kinship"] >= CLOSE]
    related = pl.col("trace_id").is_in([trace_id, *kin])
    launches = pl.concat([own, *known]).with_columns(related=related).with_row_index("row")
    matched = _explained(_matched(launches, {one: row["kinship"] for one, row in donors.items()}), donors)
    weak = matched.filter(pl.col("confidence") < SURE)
    whole = _grouped(matched.filter(pl.col("confidence") >= SURE))
    rows = pl.concat([whole, _operators(con, own, whole)], how="diagonal_relaxed")
    return _found(con, trace_id, trace, own, rows, weak)


def _donor_traces(con: Connection, trace_id: str) -> list[dict[str, Any]]:
    """The traces with recorded calls of most kernels that are wanted, and those that add further kernels."""
    chosen: list[dict[str, Any]] = []
    covered: set[str] = set()
    pool = _rows(con, "inherit_pool", trace_id=trace_id)
    while pool and len(chosen) < MOST_DONORS:
        best = max(pool, key=lambda row: (len(set(row["known"]) - covered), row["trace_id"] == trace_id, row["n"]))
        if not set(best["known"]) - covered:
            break
        chosen.append(best)
        covered |= set(best["known"])
        pool.remove(best)
    return chosen


def _matched(launches: pl.DataFrame, kinship: Mapping[str, float]) -> pl.DataFrame:
    """A row per wanted launch with a donor: the donor's call, its place in it, and how sure that is."""
    import polars as pl

    from kerneldb.api import donors

    found = donors.match(launches.drop("row").select(donors.FACTS))
    target = launches.select("row", *TARGET)
    donor = launches.select(
        donor="row",
        donor_trace_id="trace_id",
        donor_launch_index="launch_index",
        donor_op_id="op_id",
        call_id="call_id",
        call_ordinal=pl.col("ordinal").cast(pl.Int32),
        call_kernels=pl.col("kernels").cast(pl.Int32),
        usual="duration_ns",
    )
    rows = found.join(target, on="row").join(donor, on="donor").sort("row")
    alike = ["signature_id", "call_id"]
    mean, usual = pl.col("duration_ns").mean().over(alike), pl.col("usual").mean().over(alike)
    off = (mean - usual).abs()
    slower = (pl.col("timing") == TIMELINE) & (off > TOLERANCE_NS) & (off > TOLERANCE * usual)
    kin = pl.col("donor_trace_id").replace_strict(dict(kinship), default=0.0, return_dtype=pl.Float64())
    return rows.with_columns(ratio=pl.when(slower).then(mean / usual), kinship=kin).with_columns(
        confidence=_confidence(), method=pl.format("{}: {}", "level", "decided")
    )


def _confidence() -> pl.Expr:
    import polars as pl

    right = pl.col("decided").replace_strict(RIGHT, return_dtype=pl.Float64())
    rung = pl.col("level").replace_strict(RUNGS, return_dtype=pl.Float64())
    far = pl.when(pl.col("away") > FAR).then(FAR_SHARE).otherwise(1.0)
    other = pl.when(pl.col("ratio").is_not_null()).then(OTHER_DURATION).otherwise(1.0)
    related = (pl.col("kinship") / RELATED).clip(0, 1)
    return right * rung * far * other * related


def _grouped(rows: pl.DataFrame) -> pl.DataFrame:
    """With `call_launch`: kernels in a row that are the next ones of the same call belong to one execution of it."""
    import polars as pl

    stream = ["process", "device", "stream"]
    ordered = rows.sort(*stream, "start_ns", "launch_index", nulls_last=True)
    same = (pl.col("call_id") == pl.col("call_id").shift(1)).over(stream)
    follows = (pl.col("call_ordinal") == pl.col("call_ordinal").shift(1) + 1).over(stream)
    begins = ~(same & follows & (pl.col("call_ordinal") > 0)).fill_null(value=False)
    numbered = ordered.with_columns(group=begins.cum_sum())
    return numbered.with_columns(call_launch=pl.col("launch_index").first().over("group")).sort("launch_index")


def _operators(con: Connection, own: pl.DataFrame, whole: pl.DataFrame) -> pl.DataFrame:
    """A row per launch for which only the operator can be told, surely enough: by kernels of its name or operation."""
    import polars as pl

    trace_id = own["trace_id"][0]
    asked = _rows(con, "inherit_operators", trace_id=trace_id, close=CLOSE)
    told = [{"signature_id": row["signature_id"], **_operator(row)} for row in asked]
    text = dict.fromkeys(("signature_id", "op", "method", "evidence"), pl.String())
    known = pl.DataFrame(told, schema={**text, "confidence": pl.Float64()}).filter(pl.col("confidence") >= SURE)
    wanted = own.filter(pl.col("wanted") & pl.col("op").is_null() & (pl.col("kind") == "kernel")).drop("op")
    rest = wanted.join(whole.select("launch_index"), on="launch_index", how="anti").join(known, on="signature_id")
    same = ("trace_id", "launch_index", "signature_id", "op", "method", "confidence", "evidence")
    return rest.select(*same, call_launch="launch_index")


def _operator(row: Mapping[str, Any]) -> dict[str, Any]:
    """The operator of most launches like these, or the one that the name tells; empty where nothing does."""
    if row["op"] is not None:
        share = OPERATOR_SHARE[row["method"]] * row["n"] / row["of_n"]
        return {"op": row["op"], "method": f"operator by {row['method']}", "confidence": share, "evidence": _vote(row)}
    op = GRAMMAR.get((row["library"], row["operation"]))
    known = {"op": op, "method": BY_GRAMMAR, "confidence": OPERATOR_SHARE["grammar"], "evidence": BY_NAME_ALONE}
    return {} if op is None else known


def _vote(row: Mapping[str, Any]) -> str:
    alike = "of this kernel" if row["method"] == "name" else f"of {row['library']}'s {row['operation']} kernels"
    where = "in traces with most of these kernels" if row["related"] else "elsewhere"
    return f"{row['n']:,} of {row['of_n']:,} launches {alike} {where}; no sizes"


def _explained(rows: pl.DataFrame, donors: Mapping[str, Mapping[str, Any]]) -> pl.DataFrame:
    """With `donor_trace`, its name, and `evidence`, a line for people."""
    import polars as pl

    names = {trace_id: row["trace"] for trace_id, row in donors.items()}
    trace = pl.col("donor_trace_id").replace_strict(names, default=None, return_dtype=pl.String())
    window = pl.format("; {} kernels before and {} behind agree, of {} calls", "before", "after", "alternatives")
    slower = pl.format("; takes {} times as long: perhaps other work", pl.col("ratio").round(2))
    stranger = pl.format("; that trace has {} % of the kernels", (100 * pl.col("kinship")).round(0).cast(pl.Int64()))
    text = pl.concat_str(
        pl.format("as {} #{}", "donor_trace", "donor_launch_index"),
        pl.when(pl.col("alternatives") > 1).then(window).otherwise(pl.lit("; the only call of such a kernel")),
        pl.when(pl.col("ratio").is_not_null()).then(slower).otherwise(pl.lit("")),
        pl.when(pl.col("kinship") < RELATED).then(stranger).otherwise(pl.lit("")),
    )
    return rows.with_columns(donor_trace=trace).with_columns(evidence=text)


COLUMNS: Final = (
    "trace_id", "launch_index", "signature_id", "found_id", "found_by", "call_id", "call_ordinal", "call_kernels",
    "call_launch", "donor_trace_id", "donor_launch_index", "method", "confidence", "alternatives", "evidence",
    "found_at",
)  # fmt: skip


def _found(
    con: Connection, trace_id: str, trace: str, own: pl.DataFrame, rows: pl.DataFrame, weak: pl.DataFrame
) -> Found:
    import polars as pl

    calls = {
        row["call_id"]: row for row in _rows(con, "inherit_calls", ids=rows["call_id"].drop_nulls().unique().to_list())
    }
    calls |= {_operator_call(op): {"call_id": _operator_call(op), "op": op} for op in rows["op"].drop_nulls().unique()}
    by_operator = pl.col("op").replace_strict(
        {op: _operator_call(op) for op in rows["op"].drop_nulls().unique()}, default=None
    )
    filled = rows.with_columns(call_id=pl.coalesce("call_id", by_operator.cast(pl.String())))
    pairs = filled.select("signature_id", "call_id").unique(maintain_order=True)
    facts = {row["signature_id"]: row for row in _rows(con, "inherit_signatures", ids=pairs["signature_id"].to_list())}
    made = [found_signature(facts[one], calls[call]) for one, call in pairs.rows()]
    ids = pl.Series([row["signature_id"] for row in made], dtype=pl.String())
    now = pl.lit(datetime.datetime.now(datetime.UTC).replace(tzinfo=None))
    whole = filled.join(pairs.with_columns(found_id=ids), on=["signature_id", "call_id"])
    by = pl.when(pl.col("method") == BY_GRAMMAR).then(pl.lit(INFERRED)).otherwise(pl.lit(INHERITED))
    stamped = whole.with_columns(found_by=by, found_at=now).sort("launch_index")
    kept = stamped.select(*COLUMNS, "donor_op_id", "donor_trace")
    launches = own.select("launch_index", "duration_ns", "shared_bytes")
    wanted = int(own["wanted"].sum())
    return Found(trace_id, trace, wanted, kept, signature_frame(made), call_frame(calls.values()), launches, weak)


def signature_frame(rows: Iterable[Mapping[str, Any]]) -> pl.DataFrame:
    """Distinct fact rows of `signatures`, with the `name`."""
    import polars as pl

    from kerneldb.derive import FACTS

    distinct = {row["signature_id"]: row for row in rows}
    return pl.DataFrame(list(distinct.values()), schema={**FACTS, "name": pl.String()})


def call_frame(rows: Iterable[Mapping[str, Any]]) -> pl.DataFrame:
    """Distinct rows of `op_calls`."""
    import polars as pl

    distinct = {row["call_id"]: row for row in rows}
    return pl.DataFrame(list(distinct.values()), schema=dict.fromkeys(("call_id", *CALL, "extra"), pl.String()))


@functools.cache
def _operator_call(op: str) -> str:
    """The id of a call of which the operator is all that is known."""
    return content_id("c1", op, None, None, None, None, None)


def found_signature(facts: Mapping[str, Any], call: Mapping[str, Any]) -> dict[str, Any]:
    """The fact columns of the signature `facts` with `call` as its operator call, and its `name`."""
    shape = [facts[axis] for axis in AXES]
    products = [facts["total_blocks"], facts["threads_per_block"]]
    more = products if all(axis is None for axis in shape) and any(one is not None for one in products) else []
    copied = (facts["bytes"], facts["copy_kind"])
    identity = content_id("s1", facts["kind"], facts["name"], *shape, *copied, call["call_id"], *more)
    return {**facts, **{name: call.get(name) for name in CALL}, "call_id": call["call_id"], "signature_id": identity}
