"""The one WHERE text: an expression over the view `kernels`, with the same meaning wherever it is taken."""

from __future__ import annotations

import dataclasses
import difflib
import re
from typing import TYPE_CHECKING, Final, Literal

import duckdb

from kerneldb.errors import SelectionError

if TYPE_CHECKING:
    Connection = duckdb.DuckDBPyConnection
    Relation = duckdb.DuckDBPyRelation

Level = Literal["name", "launch", "call"]

VIEW: Final = "kernels"
UNKNOWN_COLUMN: Final = re.compile(r'Referenced column "([^"]+)" (?:was )?not found', re.IGNORECASE)
NEAR: Final = 5


@dataclasses.dataclass(frozen=True, slots=True)
class Selection:
    """Which launches: those of `traces` (names; none means all) that meet `where` (None or blank means all).

    `level` says how finely lists tell kernels apart; it does not change which launches are selected. `counted` of the
    rows holds among `traces` alone: the first of a run counts where none of the named ones otherwise would.
    """

    where: str | None = None
    traces: tuple[str, ...] = ()
    level: Level = "name"

    def relation(self, con: Connection) -> Relation:
        """The selected rows of the view `kernels`, as a relation of `con`.

        The text is parsed as one expression and never becomes part of a statement, so it cannot hold a second one.
        Raises SelectionError with the engine's message and the names of near columns.
        """
        selected = con.table(VIEW)
        if self.traces:
            names = (duckdb.ConstantExpression(name) for name in self.traces)
            selected = selected.filter(duckdb.ColumnExpression("trace").isin(*names))
            selected = _counting(selected, _uncounted(con, self.traces))
        if self.where is None or not self.where.strip():
            return selected
        try:
            return selected.filter(self.where)
        except duckdb.Error as error:
            raise SelectionError(_explained(self.where, str(error), selected.columns)) from error

    def bind(self, con: Connection, name: str = "selection") -> Relation:
        """Make `relation` known to statements of `con` as `name`: `FROM selection`, `FROM top_kernels('selection')`.

        Registered and not looked up among Python's variables: those are out of reach without external access. A
        temporary view would need the text pasted.
        """
        relation = self.relation(con)
        con.register(name, relation)
        return relation


def _uncounted(con: Connection, names: tuple[str, ...]) -> list[str]:
    """The first of those `names` that stand for a run of which none of the `names` counts."""
    wanted = (duckdb.ConstantExpression(name) for name in names)
    traces = con.table("traces").filter(duckdb.ColumnExpression("name").isin(*wanted))
    found = traces.select("name", "run", "counted").fetchall()
    counting = {run for _, run, counted in found if counted is not False}
    first: dict[str, str] = {}
    for name, run, _ in sorted(found, key=lambda row: names.index(row[0])):
        if run not in counting:
            first.setdefault(run, name)
    return list(first.values())


def _counting(relation: Relation, names: list[str]) -> Relation:
    """`relation` with `counted` set for the traces `names`."""
    if not names:
        return relation
    among = duckdb.ColumnExpression("trace").isin(*map(duckdb.ConstantExpression, names))
    counted = duckdb.CaseExpression(among, duckdb.ConstantExpression(value=True)).otherwise(
        duckdb.ColumnExpression("counted")
    )
    columns = (duckdb.ColumnExpression(name) for name in relation.columns if name != "counted")
    place = relation.columns.index("counted")
    shown = list(columns)
    return relation.select(*shown[:place], counted.alias("counted"), *shown[place:])


def _explained(where: str, message: str, columns: list[str]) -> str:
    lines = [f"the condition {where!r} does not work: {message}"]
    if unknown := UNKNOWN_COLUMN.search(message):
        near = difflib.get_close_matches(unknown.group(1).lower(), columns, NEAR, 0.5)
        lines.append(f"near columns: {', '.join(near)}" if near else "see: kerneldb schema kernels")
    return "\n".join(lines)
