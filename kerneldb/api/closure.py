"""Closure: what the kernels of a stage predict, by their replays, against what was measured of it whole."""

from __future__ import annotations

import dataclasses
import itertools
from typing import TYPE_CHECKING, Any, Final

from kerneldb.api.queries import require_traces, rows, statement
from kerneldb.errors import KerneldbError

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    import pyarrow as pa

    from kerneldb.warehouse import Warehouse

Row = dict[str, Any]
KERNELS: Final = "kernels"
Stage = tuple[str, str, str | None]

TOP: Final = 20
KEY: Final = ("trace", "stage", "mode")
NOTHING: Final = (
    "nothing was measured whole{of}, so there is nothing to compare kernels with. Measure a model or a script with: "
    "kerneldb record MODEL"
)
NO_LAUNCHES: Final = (
    "the traces of the measured stages hold no GPU activity, so there are no kernels to sum; measure and trace on a GPU"
)
NOT_SELECTED: Final = "no launch of the measured stages is selected; see: kerneldb top --by phase"
NOTHING_REPLAYED: Final = (
    "{trace}, {stage}: none of its kernels was replayed on {gpu}; replay them with: "
    "kerneldb replay --trace {kernels_trace}"
)


@dataclasses.dataclass(frozen=True, slots=True)
class Books:
    """One stage in one mode, all figures per iteration: one prefill, one decoded token, one training step, one script.

    `facts`: model, GPU, run, the trace of its kernels. As rows: `terms` of time and energy; `groups` (tiers,
    categories, routes); `kernels`, those with most time.
    """

    trace: str
    stage: str
    mode: str | None
    facts: Row
    terms: list[Row]
    groups: list[Row]
    kernels: list[Row]

    def term(self, section: str, name: str) -> Row:
        """A term by its section (time, energy, above gap) and name. Raises KeyError."""
        found = next((row for row in self.terms if (row["section"], row["term"]) == (section, name)), None)
        if found is None:
            raise KeyError((section, name))
        return found

    def as_dict(self) -> Row:
        """What `--json` prints for the stage."""
        named = {"trace": self.trace, "stage": self.stage, "mode": self.mode, **self.facts}
        groups = {
            by: [{key: value for key, value in row.items() if key != "grouped_by"} for row in some]
            for by, some in itertools.groupby(self.groups, lambda row: row["grouped_by"])
        }
        return {**named, "terms": self.terms, "groups": groups, "kernels": self.kernels}


@dataclasses.dataclass(frozen=True, slots=True)
class Closure:
    """The books of all stages asked for; `table` holds all their terms, one row each.

    `jobs` are the stages of jobs of several ranks, computation and communication apart.
    """

    books: list[Books]
    table: pa.Table
    jobs: list[Row] = dataclasses.field(default_factory=list)

    def remarks(self) -> Iterator[str]:
        """What keeps books from closing, with the remedy, a line each."""
        for one in self.books:
            if all(
                row["value"] == 0 for row in one.terms if row["section"] == "time" and row["term"].startswith(KERNELS)
            ):
                facts = {**one.facts, "gpu": one.facts["gpu"] or "its GPU"}
                yield NOTHING_REPLAYED.format(trace=one.trace, stage=one.stage, **facts)


def closure(warehouse: Warehouse, names: Sequence[str], where: str | None = None, top: int = TOP) -> Closure:
    """Close the books of the measured stages of the traces or runs `names` (all where empty).

    With `where`, only kernels of launches that meet it enter; the measured totals stay whole. Raises UsageError for an
    unknown name, SelectionError for a bad `where`, KerneldbError where nothing was measured.
    """
    stages = rows(warehouse, "closure_measured", names=list(names) or None)
    if not stages:
        require_traces(warehouse, names)
        message = NOTHING.format(of=f" of {', '.join(names)}" if names else "")
        raise KerneldbError(message)
    wanted = {_key(row): row for row in stages}
    table, groups, kernels, jobs = _answers(warehouse, names, where, top)
    terms = [row for row in table.to_pylist() if _key(row) in wanted]
    by_stage = [_grouped(found) for found in (terms, groups, kernels)]
    books = [
        Books(*key, _facts(row), *(_stripped(found.get(key, [])) for found in by_stage))
        for key, row in wanted.items()
        if key in by_stage[0]
    ]
    if not books:
        raise KerneldbError(NO_LAUNCHES if where is None else NOT_SELECTED)
    import pyarrow as pa

    return Closure(books, pa.Table.from_pylist(terms, table.schema), jobs)


def _answers(
    warehouse: Warehouse, names: Sequence[str], where: str | None, top: int
) -> tuple[pa.Table, list[Row], list[Row], list[Row]]:
    from kerneldb.selection import Selection
    from kerneldb.warehouse.execute import query_errors
    from kerneldb.warehouse.statements import table_of

    with warehouse.connection() as con, query_errors():
        Selection(where).bind(con)
        terms = table_of(con, statement("closure_terms"))
        con.execute(statement("closure_select"))
        groups = table_of(con, statement("closure_groups"))
        kernels = table_of(con, statement("closure_top"), {"top": top})
        jobs = table_of(con, statement("closure_jobs"), {"names": list(names) or None})
    return terms, groups.to_pylist(), kernels.to_pylist(), jobs.to_pylist()


def _key(row: Row) -> Stage:
    return row["trace"], row["stage"], row["mode"]


def _grouped(found: list[Row]) -> dict[Stage, list[Row]]:
    grouped: dict[Stage, list[Row]] = {}
    for row in found:
        grouped.setdefault(_key(row), []).append(row)
    return grouped


def _stripped(found: list[Row]) -> list[Row]:
    return [{name: value for name, value in row.items() if name not in KEY} for row in found]


def _facts(row: Row) -> Row:
    return {name: value for name, value in row.items() if name not in KEY}
