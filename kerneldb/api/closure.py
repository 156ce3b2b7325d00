"""Closure: what the kernels of a stage predict, by their replays, against what was measured of it whole."""

from __future__ import annotations

import dataclasses
import itertools
from typing import TYPE_CHECKING, Any, Final

from kerneldb.api.queries import ask, require_traces, selecting
from kerneldb.closure import Balance
from kerneldb.closure.jobs import Job
from kerneldb.closure.kernels import Kernel, groups, longest
from kerneldb.closure.terms import FIGURES, Term
from kerneldb.errors import KerneldbError

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    import pyarrow as pa

    from kerneldb.closure.kernels import Group
    from kerneldb.warehouse import Warehouse

Row = dict[str, Any]
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
        return {(row["section"], row["term"]): row for row in self.terms}[section, name]

    def as_dict(self) -> Row:
        """What `--json` prints for the stage."""
        named = {"trace": self.trace, "stage": self.stage, "mode": self.mode, **self.facts}
        by_kind = itertools.groupby(self.groups, lambda row: row["grouped_by"])
        groups = {by: [_without(row, "grouped_by") for row in some] for by, some in by_kind}
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
            times = [row for row in one.terms if row["section"] == "time" and row["term"].startswith("kernels")]
            if all(row["value"] == 0 for row in times):
                facts = {**one.facts, "gpu": one.facts["gpu"] or "its GPU"}
                yield NOTHING_REPLAYED.format(trace=one.trace, stage=one.stage, **facts)


def closure(warehouse: Warehouse, names: Sequence[str], where: str | None = None, top: int = TOP) -> Closure:
    """Close the books of the measured stages of the traces or runs `names` (all where empty).

    With `where`, only kernels of launches that meet it enter; the measured totals stay whole. Raises UsageError for an
    unknown name, SelectionError for a bad `where`, KerneldbError where nothing was measured.
    """
    import pyarrow as pa

    stages = ask(warehouse, "closure_measured", {"names": list(names) or None})
    if not stages:
        require_traces(warehouse, names)
        message = NOTHING.format(of=f" of {', '.join(names)}" if names else "")
        raise KerneldbError(message)
    wanted = {_key(row): _without(row, *KEY) for row in stages}
    found = _found(warehouse, sorted({trace for trace, _, _ in wanted}), where)
    terms = [row for row in _rows(found.terms) if _key(row) in wanted]
    by_stage = [
        _by_stage(some) for some in (terms, _rows(groups(found.kernels)), map(_line, longest(found.kernels, top)))
    ]
    books = [
        Books(*key, facts, *(some.get(key, []) for some in by_stage))
        for key, facts in wanted.items()
        if key in by_stage[0]
    ]
    if not books:
        nothing_selected = "no launch of the measured stages is selected; see: kerneldb top --by phase"
        raise KerneldbError(NO_LAUNCHES if where is None else nothing_selected)
    kinds = [(one.name, pa.float64() if one.name in FIGURES else pa.string()) for one in dataclasses.fields(Term)]
    table = pa.Table.from_pylist(terms, pa.schema(kinds))
    return Closure(books, table, _named(warehouse, _rows(found.jobs), names))


def _found(warehouse: Warehouse, traces: Sequence[str], where: str | None) -> Balance:
    """What is stored of these traces; with `where`, what only the launches that meet it make."""
    from kerneldb.warehouse import closure as stored

    if where is not None:
        with selecting(warehouse, where, ()) as con:
            return stored.selected(con)
    kernels = [Kernel(**row) for row in ask(warehouse, "closure_kernels", {"traces": traces})]
    terms = [Term(**row) for row in ask(warehouse, "closure_terms", {"traces": traces})]
    return Balance(kernels, (), terms, [Job(**row) for row in ask(warehouse, "closure_jobs")])


def _rows(found: Iterable[Group | Job | Term]) -> list[Row]:
    return [dataclasses.asdict(one) for one in found]


def _line(kernel: Kernel) -> Row:
    """What is shown of a kernel."""
    row = {name: getattr(kernel, name) for name in SHOWN}
    return {**row, "above_gap_error_mj": kernel.above_gap_half_mj, "reason": kernel.reason or kernel.energy_reason}


def _named(warehouse: Warehouse, jobs: Iterable[Row], names: Sequence[str]) -> list[Row]:
    """The jobs that are called so (all where `names` is empty), by themselves, their run or one of their traces."""
    if not names:
        return list(jobs)
    called = {*names, *(row["job"] for row in ask(warehouse, "closure_job_names", {"names": list(names)}))}
    return [row for row in jobs if row["job"] in called or row["run"] in names]


def _key(row: Row) -> Stage:
    return row["trace"], row["stage"], row["mode"]


def _by_stage(found: Iterable[Row]) -> dict[Stage, list[Row]]:
    """The rows of each stage, without what names it."""
    stages: dict[Stage, list[Row]] = {}
    for row in found:
        stages.setdefault(_key(row), []).append(_without(row, *KEY))
    return stages


def _without(row: Row, *names: str) -> Row:
    return {name: value for name, value in row.items() if name not in names}
