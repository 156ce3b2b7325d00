"""The questions behind the commands: which SQL file, which parameters, and which names there are."""

from __future__ import annotations

import contextlib
import functools
from importlib import resources
from typing import TYPE_CHECKING, Any, Final, TypeGuard

from kerneldb.errors import SelectionError, UsageError, no_such

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    import duckdb
    import polars as pl
    import pyarrow as pa

    from kerneldb.selection import Selection
    from kerneldb.warehouse import Warehouse

    Connection = duckdb.DuckDBPyConnection
    Relation = duckdb.DuckDBPyRelation
    Expression = duckdb.Expression
    Params = Mapping[str, Any]
    Row = dict[str, Any]

COLUMNS: Final = (
    "category", "family", "library", "operation", "op", "dtype", "phase", "module", "kind", "device", "stream", "trace",
    "timing",
)  # fmt: skip
KEYS: Final = {"kernel": "name_id", "signature": "signature_id", **{name: name for name in COLUMNS}}
"""What `top` groups by, and the column that holds it."""

LEADING: Final = {"kernel": ("kernel", "category", "library"), "signature": ("key", "kernel", "category", "op")}
"""The columns before the figures, where the key alone says too little to people."""

FIGURES: Final = ("n", "total_ns", "share_pct", "mean_ns", "min_ns", "max_ns")
SIZES: Final = ("gemm_m", "gemm_n", "gemm_k", "gemm_batch", "grid_x", "grid_y", "grid_z", "bytes")
ORDERS: Final = ("total", "n", "mean", "min", "max")
ONLY_OF_LAUNCHES: Final = frozenset({"module"})
OBJECT: Final = "table, view or macro"
ANALYSIS: Final = "analysis_"
FEW: Final = frozenset({
    "analysis_collective_stragglers", "analysis_collective_waits", "analysis_collectives", "analysis_gpu_time",
    "analysis_iterations", "analysis_overlap", "analysis_selected", "tui_overview_busy", "tui_overview_streams",
})  # fmt: skip
"""Statements that read few columns of the selected launches, those of `_kernels`."""


@functools.cache
def statement(name: str) -> str:
    """The text of `schemas/queries/<name>.sql`."""
    return resources.files("kerneldb.schemas").joinpath("queries", f"{name}.sql").read_text(encoding="utf-8")


def rows(
    con: Connection, name: str, params: Params | None = None, selection: Selection | None = None
) -> list[dict[str, Any]]:
    """The rows of a statement file as dictionaries; it reads the launches of `selection` under that name.

    For small results, without Arrow.
    """
    from kerneldb.warehouse.statements import rows_of

    if selection is not None:
        selection.bind(con, few=name in FEW)
    return rows_of(con, statement(name), params)


def table(con: Connection, name: str, params: Params | None = None, selection: Selection | None = None) -> pa.Table:
    """As `rows`, as an Arrow table."""
    from kerneldb.warehouse.statements import table_of

    if selection is not None:
        selection.bind(con)
    return table_of(con, statement(name), params)


def frame(con: Connection, name: str, params: Params | None = None) -> pl.DataFrame:
    """As `rows`, as a frame."""
    from kerneldb.warehouse.statements import frame_of

    return frame_of(con, statement(name), params)


def by_id(con: Connection, name: str, column: str, ids: Iterable[str]) -> dict[str, dict[str, Any]]:
    """The rows of a statement file about `ids`, by their id, which is in `column`."""
    return {row[column]: row for row in rows(con, name, {"ids": sorted(set(ids))})}


def relation(con: Connection, name: str, selection: Selection) -> Relation:
    """A statement file as a relation, which reads the launches of `selection` under that name."""
    selection.bind(con)
    return con.sql(statement(name))


def ask(warehouse: Warehouse, name: str, params: Params | None = None) -> list[dict[str, Any]]:
    """The rows of a statement file, on a connection of its own; Ctrl-C ends it."""
    from kerneldb.warehouse.execute import interruptible, query_errors

    with warehouse.connection() as con, query_errors():
        return interruptible(con, lambda: rows(con, name, params))


@contextlib.contextmanager
def selecting(
    warehouse: Warehouse,
    where: str | None,
    traces: Sequence[str],
    *,
    few: bool = False,
    sides: Sequence[tuple[str, ...]] = (),
) -> Iterator[Connection]:
    """A connection whose statements read the selected launches as `selection`; `few` as in `Selection.bind`.

    `sides` are those of `Selection`. Raises UsageError for an unknown trace, SelectionError for a bad `where`.
    """
    from kerneldb.selection import Selection
    from kerneldb.warehouse.execute import query_errors

    require_traces(warehouse, traces)
    with warehouse.connection() as con, query_errors():
        Selection(where, tuple(traces), sides=tuple(sides)).bind(con, few=few)
        yield con


def selected(
    warehouse: Warehouse,
    name: str,
    where: str | None,
    traces: Sequence[str],
    params: Params | None = None,
    *,
    sides: Sequence[tuple[str, ...]] = (),
) -> pa.Table:
    """The rows of a statement file, which reads the selected launches as `selection`. Raises as `selecting` does."""
    with selecting(warehouse, where, traces, few=name in FEW, sides=sides) as con:
        return table(con, name, params)


def of_traces(warehouse: Warehouse, name: str, traces: Sequence[str]) -> pa.Table:
    """The rows of a statement file about `traces` (all where empty). Raises UsageError for an unknown one."""
    require_traces(warehouse, traces)
    return warehouse.answer(statement(name), {"names": list(traces) or None})


def require(what: str, names: Sequence[str], known: Sequence[str]) -> None:
    """Raise UsageError, with the nearest names there are, unless all `names` are `known`."""
    for name in names:
        if name not in known:
            raise no_such(what, name, known)


@functools.cache
def analyses() -> list[str]:
    """The names of the analyses: statement files that begin so."""
    files = resources.files("kerneldb.schemas").joinpath("queries").iterdir()
    stems = (file.name.removesuffix(".sql") for file in files)
    return sorted(stem.removeprefix(ANALYSIS) for stem in stems if stem.startswith(ANALYSIS))


def require_traces(warehouse: Warehouse, names: Sequence[str]) -> None:
    """Raise UsageError unless all traces `names` exist."""
    if names:
        require("trace", names, [row["name"] for row in ask(warehouse, "trace_names")])


def has_condition(where: str | None) -> TypeGuard[str]:
    """Whether a WHERE text leaves anything out: a blank one means all launches."""
    return where is not None and bool(where.strip())


def among(column: str, values: Iterable[object]) -> Expression:
    """Whether a column holds one of `values`."""
    import duckdb

    return duckdb.ColumnExpression(column).isin(*map(duckdb.ConstantExpression, values))


def schema(warehouse: Warehouse, name: str | None) -> pa.Table:
    """The objects of the database; with `name`, the columns of that one."""
    if name is None:
        return warehouse.answer(statement("schema_objects"))
    require(OBJECT, [name], list(_objects(warehouse)))
    return warehouse.answer(statement("schema_columns"), {"object": name})


def about(warehouse: Warehouse, name: str) -> dict[str, str | None]:
    """Kind, meaning, notes and example (None: none) of an object. Raises UsageError for an unknown name."""
    require(OBJECT, [name], list(_objects(warehouse)))
    (found,) = ask(warehouse, "schema_about", {"object": name})
    return found


def _objects(warehouse: Warehouse) -> dict[str, str]:
    """Name → table, view or macro."""
    return {row["object"]: row["kind"] for row in ask(warehouse, "schema_objects")}


def top(warehouse: Warehouse, by: str, where: str | None, traces: Sequence[str], sort: str) -> pa.Table:
    """Launches and GPU time by `by`, largest `sort` first, a row per timing."""
    from kerneldb.selection import Selection
    from kerneldb.warehouse.execute import query_errors

    require("grouping", [by], list(KEYS))
    require("order", [sort], ORDERS)
    require_traces(warehouse, traces)
    with warehouse.connection() as con, query_errors():
        bind_sums(con, Selection(where, tuple(traces)), by)
        found = table(con, "top", {"sort": sort})
    told_apart = () if by == "timing" else ("timing",)
    sizes = SIZES if by == "signature" else ()
    columns = list(dict.fromkeys((*LEADING.get(by, ("key",)), *told_apart, *FIGURES, "key", *sizes)))
    labels = [KEYS[by] if name == "key" else name for name in columns]
    return found.select(columns).rename_columns(labels)


def by_time(warehouse: Warehouse) -> list[str]:
    """The traces that have GPU time, those with most first, and those timed under a profiler last."""
    from kerneldb.selection import Selection

    with warehouse.connection() as con:
        bind_sums(con, Selection(None), "trace")
        return list(dict.fromkeys(row["key"] for row in rows(con, "top", {"sort": "total"})))


def bind_sums(con: Connection, selection: Selection, by: str) -> None:
    """Make the sums of the selected launches known as `keyed`: the columns of `kernel_rollups`, and `key` for `by`.

    Without a condition the rollups answer, which does not depend on the number of launches.
    """
    if has_condition(selection.where) or by in ONLY_OF_LAUNCHES:
        selection.bind(con)
        bind_keyed(con, con.table_function("_as_rollups", ["selection"]), by)
    else:
        bind_keyed(con, rollups(con, selection.traces), by)


def bind_keyed(con: Connection, source: Relation, by: str) -> None:
    """Make `source` known as `keyed`, with what is summed over as `key`.

    Operators that were found for launches recorded without one get rows of their own.
    """
    import duckdb

    key: Expression = duckdb.ColumnExpression(KEYS[by])
    if by == "op":
        found = duckdb.ColumnExpression("inferred_by")
        between, behind = duckdb.ConstantExpression(" ("), duckdb.ConstantExpression(")")
        labelled = duckdb.FunctionExpression("concat", key, between, found, behind)
        key = duckdb.CaseExpression(found.isnull() | key.isnull(), key).otherwise(labelled)
    con.register("keyed", source.select(key.alias("key"), duckdb.StarExpression()))


def rollups(con: Connection, names: Sequence[str]) -> Relation:
    """The rows of `kernel_rollups` of the traces `names` (all where empty), primary as they are among them alone."""
    from kerneldb.selection import revived

    if not names:
        return con.table("kernel_rollups")
    con.register("named", con.table("all_rollups").filter(among("trace", names)))
    return con.sql(statement("named_rollups"), params={"revived": list(revived(con, names))})


@contextlib.contextmanager
def stream(warehouse: Warehouse, name: str, where: str | None, traces: Sequence[str]) -> Iterator[pa.RecordBatchReader]:
    """The selected rows of a table, view or macro as a stream, for as long as the context lasts."""
    from kerneldb.warehouse.execute import query_errors, streamed

    require_traces(warehouse, traces)
    known = _objects(warehouse)
    with warehouse.connection() as con, query_errors():
        yield streamed(_rows_of(con, name, where, traces, known))


def _rows_of(
    con: Connection, name: str, where: str | None, traces: Sequence[str], known: Mapping[str, str]
) -> Relation:
    import duckdb

    from kerneldb.selection import Selection

    if name == "kernels":
        return Selection(where, tuple(traces)).relation(con)
    try:
        found = con.table_function(name) if known.get(name) == "macro" else con.table(name)
    except duckdb.CatalogException:
        require(OBJECT, [name], [other for other in known if other != name])
        raise
    except duckdb.BinderException as error:
        raise UsageError(f"{name} needs arguments; call it in SQL with: kerneldb query") from error
    relation = _of_traces(con, found, name, traces) if traces else found
    try:
        return relation if where is None else relation.filter(where)
    except duckdb.Error as error:
        raise SelectionError(f"the condition {where!r} does not work on {name}: {error}") from error


def _of_traces(con: Connection, relation: Relation, name: str, traces: Sequence[str]) -> Relation:
    """The rows of `relation`, called `name`, that belong to the traces `traces`."""
    if "trace" in relation.columns:
        return relation.filter(among("trace", traces))
    if "trace_id" not in relation.columns:
        raise UsageError(f"{name} holds no rows of single traces; leave --trace out")
    named = rows(con, "trace_ids", {"names": list(traces)})
    return relation.filter(among("trace_id", [row["trace_id"] for row in named]))
