"""The one WHERE text: an expression over the view `kernels`, with the same meaning wherever it is taken."""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING, Final, Literal

import duckdb

from kerneldb.errors import SelectionError
from kerneldb.schemas.loader import statement
from kerneldb.warehouse import near
from kerneldb.warehouse.engine import literal, unquoted

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    Connection = duckdb.DuckDBPyConnection
    Relation = duckdb.DuckDBPyRelation

Level = Literal["name", "launch", "call"]

VIEW: Final = "kernels"
EVERYTHING: Final = "all_launches"
CANDIDATES: Final = "\nCandidate bindings:"


@dataclasses.dataclass(frozen=True, slots=True)
class Selection:
    """Which launches: those of `traces` (names; none means all) that meet `where` (None or blank means all).

    `level` says how finely lists distinguish kernels; it does not change which launches are selected. A named trace
    whose launches are primary in a trace that is not named answers with them; what is compared has `sides`, of which
    each is judged as if the others were not named.
    """

    where: str | None = None
    traces: tuple[str, ...] = ()
    level: Level = "name"
    sides: tuple[tuple[str, ...], ...] = ()

    def relation(self, con: Connection) -> Relation:
        """The selected rows of the view `kernels`, as a relation of `con`.

        The text is parsed as one expression and never becomes part of a statement, so it cannot hold a second one.
        Raises SelectionError with the engine's message and the names of near columns.
        """
        return self._meeting(con.sql(_of_traces(con, self.traces, self.sides)) if self.traces else con.table(VIEW))

    def read(self, con: Connection) -> Relation:
        """The selected rows of the view `all_launches`, for those who judge themselves what is primary.

        Raises SelectionError as `relation` does.
        """
        if not self.traces:
            return self._meeting(con.table(EVERYTHING))
        return self._meeting(con.sql(statement("selection", "named_launches").format(names=_listed(self.traces))))

    def _meeting(self, selected: Relation) -> Relation:
        if self.where is None or not self.where.strip():
            return selected
        try:
            return selected.filter(self.where)
        except duckdb.Error as error:
            raise SelectionError(_explained(self.where, str(error), selected.columns)) from error

    def bind(self, con: Connection, *, few: bool = False) -> None:
        """Make `relation` known to statements of `con` as `selection`: `FROM top_kernels('selection')`.

        With `few` it may have the columns of `_kernels` only, which take less time to plan.

        Registered and not looked up among Python's variables: those are out of reach without external access. A
        temporary view, which takes half as long, would need the text pasted: it serves where there is none.
        """
        if self.where is not None and self.where.strip():
            relation = self.relation(con)
            con.execute(statement("selection", "bind_nothing"))
            con.register("selection", relation)
        else:
            everything = statement("selection", "few_columns" if few else "everything")
            rows = _of_traces(con, self.traces, self.sides, few=few) if self.traces else everything
            con.execute(statement("selection", "bind_rows").format(rows=rows))


def _listed(texts: Iterable[str]) -> str:
    return ", ".join(map(literal, texts))


def _of_traces(
    con: Connection, names: Sequence[str], sides: Sequence[tuple[str, ...]] = (), *, few: bool = False
) -> str:
    """The statement of what `kernels` would hold if there were no other traces; `few` as in `Selection.bind`.

    One statement, and not a relation of a relation: DuckDB plans the whole view for each of them.
    """
    kept = sorted({one for side in sides or (names,) for one in revived(con, side).items()})
    also = "".join(f" OR (trace = {literal(name)} AND timing = {literal(timing)})" for name, timing in kept)
    kind = "few_of_traces" if few and not also else "of_traces"
    return statement("selection", kind).format(names=_listed(names), also=also)


def revived(con: Connection, names: Sequence[str]) -> dict[str, str]:
    """Of the traces `names` those that answer though another trace has their launches, with the timing of these.

    These are traces whose launches are primary in traces that are not named; else the first of each rank and phase of a
    run, where none of `names` has primary launches of it; and sums that tools printed, where there are no launches.
    """
    found = con.execute(statement("selection", "named"), {"names": list(names)}).fetchall()
    alone = {name: timing for name, *_, timing, stands_alone, _ in found if stands_alone}
    answered: set[tuple[object, ...]] = {
        (run, rank, phase) for name, run, rank, phase, is_primary, *_ in found if is_primary or name in alone
    }
    first: dict[tuple[object, ...], tuple[str, str]] = {}
    for name, run, rank, phase, _, timing, _, is_launched in found:
        if is_launched and (run, rank, phase) not in answered:
            first.setdefault((run, rank, phase), (name, timing))
    answered |= set(first)
    sums = {name: "summed" for name, *work, _, _, _, launched in found if not launched and tuple(work) not in answered}
    return dict(first.values()) | alone | sums


def _explained(where: str, message: str, columns: list[str]) -> str:
    lead = f"the condition {where!r} does not work: "
    if quoted := unquoted(message, where):
        return f"{lead}{message.partition(CANDIDATES)[0]}\n{quoted}"
    return lead + near.said(message, columns).partition(CANDIDATES)[0]
