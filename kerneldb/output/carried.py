"""What of the engine's types Arrow carries, and as what the rest goes there: as the text that the engine prints."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, cast

if TYPE_CHECKING:
    from duckdb import DuckDBPyRelation
    from duckdb.sqltypes import DuckDBPyType

UNCARRIED: Final = frozenset({"uhugeint", "bit", "bignum", "variant", "time with time zone", "time_ns"})
"""Types whose values come out of Arrow as other values (-1 for the largest integer), without a part, or not at all."""

DEEPEST: Final = 24
"""So many types within each other are carried; Arrow refuses more than 64, and a map is two."""


def carried(relation: DuckDBPyRelation) -> DuckDBPyRelation:
    """`relation`, with text in place of what Arrow cannot carry, also inside of lists, structures and maps."""
    import duckdb

    types = [_carried(kind) for kind in relation.types]
    if not any(types):
        return relation
    columns = []
    for place, (name, kind) in enumerate(zip(relation.columns, types, strict=True), start=1):
        column = duckdb.SQLExpression(f"#{place}")  # by place: several columns may have one name
        columns.append((column if kind is None else column.cast(kind)).alias(name))
    return relation.select(*columns)


def _carried(kind: DuckDBPyType, room: int = DEEPEST) -> DuckDBPyType | None:
    """The type that `kind` has to be cast to, within `room` more levels; None where it can stay."""
    import duckdb

    nested = kind.id in {"list", "array", "struct", "map"}
    if kind.id in UNCARRIED or (nested and room == 0):
        return duckdb.type("VARCHAR")
    if not nested:
        return None
    children = {name: cast("DuckDBPyType", child) for name, child in kind.children}
    if kind.id == "array":
        del children["size"]
    inner = {name: _carried(child, room - 1) for name, child in children.items()}
    if not any(inner.values()):
        return None
    return _nested(kind.id, {name: inner[name] or child for name, child in children.items()})


def _nested(kind: str, children: dict[str, DuckDBPyType]) -> DuckDBPyType:
    import duckdb

    if kind == "struct":
        return duckdb.struct_type(children)
    if kind == "map":
        return duckdb.map_type(children["key"], children["value"])
    return duckdb.list_type(children["child"])
