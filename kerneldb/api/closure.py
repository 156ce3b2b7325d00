"""Closure: what the kernels of a stage predict, by their replays, against what was measured of it whole."""

from __future__ import annotations

import dataclasses
import itertools
from typing import TYPE_CHECKING, Any, Final

from kerneldb.api.queries import require_traces, rows
from kerneldb.errors import KerneldbError

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    import duckdb
    import pyarrow as pa

    from kerneldb.closure.kernels import Kernel
    from kerneldb.warehouse import Warehouse

Row = dict[str, Any]
KERNELS: Final = "kernels"
Stage = tuple[str, str, str | None]

TOP: Final = 20
KEY: Final = ("trace", "stage", "mode")
SHOWN: Final = (
    "trace", "stage", "mode", "kernel", "signature_id", "category", "route", "grade", "n", "recorded_ns", "share_pct",
    "replayed_ns", "ratio", "above_gap_mj",
)  # fmt: skip
"""Columns of `closure_kernels` that are shown of a kernel."""
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
    found = _found(warehouse, sorted({trace for trace, _, _ in wanted}), where)
    terms = [row for row in found.terms if _key(row) in wanted]
    by_stage = [_grouped(some) for some in (terms, found.groups(), found.longest(top))]
    books = [
        Books(*key, _facts(row), *(_stripped(some.get(key, [])) for some in by_stage))
        for key, row in wanted.items()
        if key in by_stage[0]
    ]
    if not books:
        raise KerneldbError(NO_LAUNCHES if where is None else NOT_SELECTED)
    return Closure(books, _table(terms), _named(warehouse, found.jobs, names))


@dataclasses.dataclass(frozen=True, slots=True)
class _Found:
    """Rows of `closure_terms` and `closure_jobs`, and the kernels that they are made of."""

    terms: Sequence[Row]
    jobs: Sequence[Row]
    kernels: Sequence[Kernel]

    def groups(self) -> list[Row]:
        """Recorded against replayed, per tier, category and route of each stage."""
        from kerneldb.closure.groups import groups

        return [dataclasses.asdict(one) for one in groups(self.kernels)]

    def longest(self, top: int) -> list[Row]:
        """The `top` kernels of each stage that take most time."""
        from kerneldb.closure.groups import longest

        return [line(one) for one in longest(self.kernels, top)]


def line(kernel: Kernel) -> Row:
    """What is shown of a kernel."""
    row = {name: getattr(kernel, name) for name in SHOWN}
    return {**row, "above_gap_error_mj": kernel.above_gap_half_mj, "reason": kernel.reason or kernel.energy_reason}


def _found(warehouse: Warehouse, traces: Sequence[str], where: str | None) -> _Found:
    """What is stored of these traces; with `where`, what only the launches that meet it make."""
    from kerneldb.closure.kernels import Kernel
    from kerneldb.warehouse.execute import query_errors

    if where is not None:
        with warehouse.connection() as con, query_errors():
            return _selected(con, where)
    kernels = [Kernel(**row) for row in rows(warehouse, "closure_kernels", traces=traces)]
    return _Found(rows(warehouse, "closure_terms", traces=traces), rows(warehouse, "closure_jobs"), kernels)


def _selected(con: duckdb.DuckDBPyConnection, where: str) -> _Found:
    from kerneldb.selection import Selection
    from kerneldb.warehouse import closure as stored

    Selection(where).bind(con)
    found = stored.selected(con)
    terms, jobs = ([dataclasses.asdict(one) for one in some] for some in (found.terms, found.jobs))
    return _Found(terms, jobs, found.kernels)


def _named(warehouse: Warehouse, jobs: Iterable[Row], names: Sequence[str]) -> list[Row]:
    """The jobs that are called so (all where `names` is empty), by themselves, their run or one of their traces."""
    if not names:
        return list(jobs)
    called = {*names, *(row["job"] for row in rows(warehouse, "closure_job_names", names=list(names)))}
    return [row for row in jobs if row["job"] in called or row["run"] in names]


def _table(terms: Sequence[Row]) -> pa.Table:
    import pyarrow as pa

    from kerneldb.closure.terms import FIGURES, Term

    kinds = {field.name: pa.float64() if field.name in FIGURES else pa.string() for field in dataclasses.fields(Term)}
    return pa.Table.from_pylist(list(terms), pa.schema(list(kinds.items())))


def _key(row: Mapping[str, Any]) -> Stage:
    return row["trace"], row["stage"], row["mode"]


def _grouped(found: Iterable[Row]) -> dict[Stage, list[Row]]:
    grouped: dict[Stage, list[Row]] = {}
    for row in found:
        grouped.setdefault(_key(row), []).append(row)
    return grouped


def _stripped(found: Iterable[Row]) -> list[Row]:
    return [{name: value for name, value in row.items() if name not in KEY} for row in found]


def _facts(row: Row) -> Row:
    return {name: value for name, value in row.items() if name not in KEY}
