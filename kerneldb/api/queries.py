"""The questions behind the commands: which SQL file, which parameters, and which names there are."""

from __future__ import annotations

import contextlib
import difflib
import functools
from importlib import resources
from typing import TYPE_CHECKING, Any, Final

from kerneldb.errors import SelectionError, UsageError

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    import duckdb
    import pyarrow as pa

    from kerneldb.selection import Selection
    from kerneldb.warehouse import Warehouse

    Connection = duckdb.DuckDBPyConnection
    Relation = duckdb.DuckDBPyRelation
    Expression = duckdb.Expression

KEYS: Final = {
    "kernel": "name_id",
    "signature": "signature_id",
    "category": "category",
    "family": "family",
    "library": "library",
    "operation": "operation",
    "op": "op",
    "dtype": "dtype",
    "phase": "phase",
    "module": "module",
    "kind": "kind",
    "device": "device",
    "stream": "stream",
    "trace": "trace",
    "timing": "timing",
}
"""What `top` groups by, and the column that holds it."""

LEADING: Final = {
    "kernel": ("kernel", "category", "library"),
    "signature": ("key", "kernel", "category", "op"),
}
"""The columns before the figures, where the key alone says too little to people."""

FIGURES: Final = ("n", "total_ns", "share_pct", "mean_ns", "min_ns", "max_ns")
ORDERS: Final = {"total": "total_ns", "n": "n", "mean": "mean_ns", "min": "min_ns", "max": "max_ns"}
ONLY_OF_LAUNCHES: Final = frozenset({"module"})
BATCH_ROWS: Final = 65_536
NEAR: Final = 5


@functools.cache
def statement(name: str) -> str:
    """The text of `schemas/queries/<name>.sql`."""
    return resources.files("kerneldb.schemas").joinpath("queries", f"{name}.sql").read_text(encoding="utf-8")


def rows(warehouse: Warehouse, name: str, **params: Any) -> list[dict[str, Any]]:
    """The rows of a statement file."""
    from kerneldb.warehouse.execute import interruptible, query_errors
    from kerneldb.warehouse.statements import rows_of

    with warehouse.connection() as con, query_errors():
        return interruptible(con, lambda: rows_of(con, statement(name), params))


def require(what: str, names: Sequence[str], known: Sequence[str]) -> None:
    """Raise UsageError, with the nearest names there are, unless all `names` are `known`."""
    for name in names:
        if name not in known:
            near = difflib.get_close_matches(name, known, NEAR, 0.4)
            message = f"there is no {what} {name!r}" + (f"; near: {', '.join(near)}" if near else "")
            raise UsageError(message)


def require_traces(warehouse: Warehouse, names: Sequence[str]) -> None:
    """Raise UsageError unless all traces `names` exist."""
    if names:
        require("trace", names, [row["name"] for row in rows(warehouse, "trace_names")])


def traces(warehouse: Warehouse, names: Sequence[str]) -> pa.Table:
    """The traces (all where `names` is empty) with their notes: rows of the view `trace_overview`."""
    require_traces(warehouse, names)
    with warehouse.connection() as con:
        return _of_traces(con, con.table("trace_overview"), "trace_overview", names).to_arrow_table()


def report(warehouse: Warehouse, names: Sequence[str]) -> pa.Table:
    """The ingest report of the traces (all where `names` is empty)."""
    require_traces(warehouse, names)
    return warehouse.answer(statement("trace_reports"), {"names": list(names) or None})


def files(warehouse: Warehouse, name: str) -> list[str]:
    """The paths of the files of the trace `name`."""
    require_traces(warehouse, [name])
    return [row["path"] for row in rows(warehouse, "trace_files") if row["name"] == name]


def schema(warehouse: Warehouse, name: str | None) -> pa.Table:
    """The objects of the database; with `name`, the columns of that one."""
    if name is None:
        return warehouse.answer(statement("schema_objects"))
    require("table, view or macro", [name], list(_objects(warehouse)))
    return warehouse.answer(statement("schema_columns"), {"object": name})


def about(warehouse: Warehouse, name: str) -> dict[str, str | None]:
    """Kind, meaning, notes and example (None: none) of an object. Raises UsageError for an unknown name."""
    require("table, view or macro", [name], list(_objects(warehouse)))
    (found,) = rows(warehouse, "schema_about", object=name)
    return found


def _objects(warehouse: Warehouse) -> dict[str, str]:
    """Name → table, view or macro."""
    return {row["object"]: row["kind"] for row in rows(warehouse, "schema_objects")}


def top(warehouse: Warehouse, by: str, where: str | None, names: Sequence[str], sort: str) -> pa.Table:
    """Launches and GPU time by `by`, largest `sort` first, told apart by timing.

    Without a condition the rollups answer, which does not depend on the number of launches.
    """
    require("grouping", [by], list(KEYS))
    require("order", [sort], list(ORDERS))
    require_traces(warehouse, names)
    from kerneldb.warehouse.execute import query_errors

    with warehouse.connection() as con, query_errors():
        found = _top(con, by, where, names)
    # timeline, summed, profiled: times of programs that ran as ever stand before those under a profiler.
    order = [("timing", "descending"), (ORDERS[sort], "descending"), ("n", "descending"), ("key", "ascending")]
    leading = LEADING.get(by, ("key",))
    told_apart = () if by == "timing" else ("timing",)
    columns = [*leading, *told_apart, *FIGURES, *([] if "key" in leading else ["key"])]
    labels = [KEYS[by] if name == "key" else name for name in columns]
    return found.sort_by(order).select(columns).rename_columns(labels)


def _top(con: Connection, by: str, where: str | None, names: Sequence[str]) -> pa.Table:
    import duckdb

    from kerneldb.selection import Selection
    from kerneldb.warehouse.statements import table_of

    where = where if where and where.strip() else None
    of_launches = where is not None or by in ONLY_OF_LAUNCHES
    source = sums(con, Selection(where, tuple(names))) if of_launches else rollups(con, names)
    keyed = source.select(key_of(by).alias("key"), duckdb.StarExpression())
    con.register("keyed", keyed)
    wanted = dict.fromkeys(("key", *LEADING.get(by, ()), "timing", *FIGURES))
    return table_of(con, statement("top")).select(list(wanted))


def key_of(by: str) -> Expression:
    """What is summed over; operators that were found for launches recorded without one stand apart."""
    import duckdb

    column = duckdb.ColumnExpression(KEYS[by])
    if by != "op":
        return column
    found = duckdb.ColumnExpression("found_by")
    between, behind = duckdb.ConstantExpression(" ("), duckdb.ConstantExpression(")")
    labelled = duckdb.FunctionExpression("concat", column, between, found, behind)
    return duckdb.CaseExpression(found.isnull() | column.isnull(), column).otherwise(labelled)


def sums(con: Connection, selection: Selection) -> Relation:
    """The selected launches with the figures of `kernel_rollups`, each the sums of one launch."""
    selection.bind(con)
    return con.table_function("_as_rollups", ["selection"])


def rollups(con: Connection, names: Sequence[str]) -> Relation:
    """The rows of `kernel_rollups` of the traces `names` (all where empty), primary as they are among them alone."""
    from kerneldb.selection import revived

    if not names:
        return con.table("kernel_rollups")
    con.register("named", _of_traces(con, con.table("all_rollups"), "all_rollups", names))
    return con.sql(statement("named_rollups"), params={"revived": list(revived(con, names))})


def repeated_by(warehouse: Warehouse, names: Sequence[str]) -> list[tuple[str, str, str]]:
    """(trace, run, other trace) of those traces `names` whose launches are primary in another trace of their run."""
    found = rows(warehouse, "repeated_by", names=list(names)) if names else []
    return [(row["trace"], row["run"], row["other"]) for row in found]


def sums_only(warehouse: Warehouse, names: Sequence[str]) -> list[str]:
    """Those of the traces `names` (all where empty) that hold sums by kernel and no single launches."""
    return [row["trace"] for row in rows(warehouse, "sums_only", names=list(names) or None)]


@contextlib.contextmanager
def stream(warehouse: Warehouse, table: str, where: str | None, names: Sequence[str]) -> Iterator[pa.RecordBatchReader]:
    """The selected rows of a table, view or macro as a stream, for as long as the context lasts."""
    from kerneldb.warehouse.execute import query_errors

    require_traces(warehouse, names)
    known = _objects(warehouse)
    with warehouse.connection() as con, query_errors():
        yield _selected(con, table, where, names, known).to_arrow_reader(BATCH_ROWS)


def _selected(
    con: Connection, table: str, where: str | None, names: Sequence[str], known: Mapping[str, str]
) -> Relation:
    import duckdb

    from kerneldb.selection import Selection

    if table == "kernels":
        return Selection(where, tuple(names)).relation(con)
    try:
        found = con.table_function(table) if known.get(table) == "macro" else con.table(table)
    except duckdb.CatalogException:
        require("table, view or macro", [table], [name for name in known if name != table])
        raise
    except duckdb.BinderException as error:
        message = f"{table} has arguments that have to be given; ask it with: kerneldb query"
        raise UsageError(message) from error
    relation = _of_traces(con, found, table, names)
    try:
        return relation if where is None else relation.filter(where)
    except duckdb.Error as error:
        message = f"the condition {where!r} does not work on {table}: {error}"
        raise SelectionError(message) from error


def _of_traces(con: Connection, relation: Relation, table: str, names: Sequence[str]) -> Relation:
    """The rows of `relation`, called `table`, that belong to the traces `names` (all where empty)."""
    import duckdb

    if not names:
        return relation
    if "trace" in relation.columns:
        wanted = [duckdb.ConstantExpression(name) for name in names]
        return relation.filter(duckdb.ColumnExpression("trace").isin(*wanted))
    if "trace_id" not in relation.columns:
        message = f"{table} holds no rows of single traces; leave --trace out"
        raise UsageError(message)
    named = con.execute(statement("trace_ids"), {"names": list(names)}).fetchall()
    wanted = [duckdb.ConstantExpression(trace_id) for (trace_id,) in named]
    return relation.filter(duckdb.ColumnExpression("trace_id").isin(*wanted))
