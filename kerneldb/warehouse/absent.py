"""What a text that a condition or a statement compares a column with may mean, where the column never has it."""

from __future__ import annotations

import contextlib
import json
import re
from typing import TYPE_CHECKING, Any, Final

import duckdb

from kerneldb.errors import QueryTimeoutError
from kerneldb.schemas.loader import statement
from kerneldb.warehouse import near
from kerneldb.warehouse.execute import interruptible, time_limit

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    import pyarrow as pa

    Connection = duckdb.DuckDBPyConnection
    Relation = duckdb.DuckDBPyRelation

COMPARED: Final = re.compile(r"(\w+)\s*(?:==?|\bIN\s*\()\s*((?:'(?:[^']|'')*'[\s,]*)+)", re.IGNORECASE)
"""A column, and the texts that a condition compares it with."""
FEW: Final = 12
MANY: Final = 10_000
"""So many values of a column are listed; of one that has more than many, nothing is said."""
LONGEST_S: Final = 5.0
"""A hint that takes longer is left out."""
VIEW: Final = "kernels"
ENERGY: Final = "no energy of a selected launch has been measured: kerneldb replay does, on a GPU"
REPLAY: Final = "no selected launch has been replayed: kerneldb replay does, on a GPU"
FOUND: Final = (
    "no call has been found for a selected launch that was recorded without: kerneldb db inherit looks for one"
)
MEASURED: Final = {
    **dict.fromkeys(("energy_mj", "dynamic_mj"), ENERGY),
    **dict.fromkeys(("replay_grade", "replay_ns", "quality", "energy_reason"), REPLAY),
    **dict.fromkeys(("inferred_by", "inferred_id"), FOUND),
}
"""Columns that no recording fills, and what does."""


def absent_values(rows: Relation, where: str) -> list[str]:
    """A sentence for each text in `where` that the column it is compared with has in none of `rows`."""
    return [
        line
        for column, texts in COMPARED.findall(where)
        for line in _absent(rows, column, [text.replace("''", "'") for text in re.findall(r"'((?:[^']|'')*)'", texts)])
    ]


def unmeasured(rows: Relation, where: str) -> list[str]:
    """A sentence for each kind of measurement that `where` asks for and that none of `rows` has."""
    asked = dict.fromkeys(re.findall(r"[a-z_]+", re.sub(r"'[^']*'", "", where.lower())))
    named = [column for column in asked if column in MEASURED]
    if not named:
        return []
    counts = [duckdb.FunctionExpression("count", duckdb.ColumnExpression(column)) for column in named]
    (found,) = rows.aggregate(counts).fetchall()
    empty = [column for column, count in zip(named, found, strict=True) if not count]
    return list(dict.fromkeys(MEASURED[column] for column in empty))


def says_nothing(table: pa.Table) -> bool:
    """Whether an answer has no rows, or one of nothing but 0 and NULL, as sums over no rows are."""
    import pyarrow.types as kinds

    def is_nothing(cell: pa.ChunkedArray) -> bool:
        is_number = kinds.is_integer(cell.type) or kinds.is_floating(cell.type) or kinds.is_decimal(cell.type)
        return bool(cell.null_count or (is_number and cell[0].as_py() == 0))

    return not table.num_rows or (table.num_rows == 1 and all(map(is_nothing, table.columns)))


def absent_texts(con: Connection, sql: str) -> list[str]:
    """As `absent_values`, of the texts that a statement compares columns with, in the tables and views that it names.

    What a macro gives is not asked again: of its columns those of `kernels` count. Nothing where the statement is none
    that only reads, or the engine takes longer than `LONGEST_S`.
    """
    with contextlib.suppress(duckdb.Error, QueryTimeoutError), time_limit(con, LONGEST_S):
        return interruptible(con, lambda: list(dict.fromkeys(_absent_texts(con, sql))))
    return []


def _absent_texts(con: Connection, sql: str) -> Iterator[str]:
    ((parsed,),) = con.execute(statement("session", "parsed"), {"sql": sql}).fetchall()
    nodes = list(_nodes(json.loads(parsed)))
    names = [node["table_name"] for node in nodes if node.get("type") == "BASE_TABLE"]
    names += [VIEW for node in nodes if node.get("type") == "TABLE_FUNCTION"]
    for name in dict.fromkeys(names):
        with contextlib.suppress(duckdb.CatalogException):  # a name that only the statement itself gives (WITH)
            rows = con.table(name)
            for column, texts in filter(None, map(_compared, nodes)):
                yield from _absent(rows, column, texts)


def _absent(rows: Relation, column: str, texts: Sequence[str]) -> Iterator[str]:
    """A sentence for each of `texts` that a column never has, with what it has instead."""
    types = {name.lower(): str(kind) for name, kind in zip(rows.columns, rows.types, strict=True)}
    if types.get(column.lower()) != "VARCHAR":
        return
    distinct = rows.select(duckdb.ColumnExpression(column)).distinct().limit(MANY).fetchall()
    values = sorted(value for (value,) in distinct if value is not None)
    for wanted in texts:
        close = near.near_values(wanted, values)
        shown = ", ".join(map(repr, close or values[:FEW]))
        more = ", …" if not close and len(values) > FEW else ""
        if wanted not in values and shown and len(distinct) < MANY:
            yield f"{column} has no value {wanted!r}; {'near' if close else 'it has'}: {shown}{more}"


def _nodes(parsed: object) -> Iterator[dict[str, Any]]:
    """All nodes of a statement as the engine parsed it."""
    if isinstance(parsed, dict):
        yield parsed
    parts = parsed.values() if isinstance(parsed, dict) else parsed if isinstance(parsed, list) else ()
    for part in parts:
        yield from _nodes(part)


def _compared(node: dict[str, Any]) -> tuple[str, list[str]] | None:
    """The column and the texts of a comparison for equality (`=`, IN); None for other nodes."""
    if node.get("type") == "COMPARE_EQUAL":
        parts = [node["left"], node["right"]]
    elif node.get("type") == "COMPARE_IN":
        parts = node["children"]
    else:
        return None
    columns = [part["column_names"][-1] for part in parts if part["type"] == "COLUMN_REF"]
    texts = [_text(part) for part in parts if part["type"] == "VALUE_CONSTANT"]
    return (columns[0], [text for text in texts if text is not None]) if len(columns) == 1 else None


def _text(constant: dict[str, Any]) -> str | None:
    """The text that a constant is; None for numbers."""
    if "literal" in constant:  # DuckDB 2.0
        held = constant["literal"]
        return held["text"] if held["kind"] == "STRING" else None
    held = constant["value"]
    return held["value"] if held["type"]["id"] == "VARCHAR" and not held["is_null"] else None
