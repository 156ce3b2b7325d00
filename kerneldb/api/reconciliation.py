"""Reconciliation: what the kernels of a workload predict, by their replays, against what was measured of it whole."""

from __future__ import annotations

import dataclasses
import itertools
from typing import TYPE_CHECKING, Final

from kerneldb.api.queries import ask, require_traces, selecting
from kerneldb.errors import KerneldbError
from kerneldb.reconciliation import Reconciled
from kerneldb.reconciliation.components import FIGURES, Component
from kerneldb.reconciliation.jobs import Job
from kerneldb.reconciliation.kernels import Kernel, groups, longest
from kerneldb.shell import kerneldb, valued

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    import pyarrow as pa

    from kerneldb.api.queries import Row
    from kerneldb.reconciliation.kernels import Group
    from kerneldb.warehouse import Warehouse

Workload = tuple[str, str, str | None]

TOP: Final = 20
KEY: Final = ("trace", "workload", "mode")
SHOWN: Final = (
    "trace", "workload", "mode", "kernel", "signature_id", "category", "route", "grade", "n", "recorded_ns",
    "share_pct", "replayed_ns", "ratio", "dynamic_mj",
)  # fmt: skip
"""Columns of `reconciliation_kernels` that are shown of a kernel."""
NOTHING: Final = (
    "nothing was measured whole{of}, so there is nothing to compare kernels with. Measure a model or a script with: "
    "kerneldb record MODEL"
)
NO_LAUNCHES: Final = (
    "the traces of the measured workloads hold no GPU activity, so there are no kernels to sum; measure and trace on "
    "a GPU"
)
NOTHING_REPLAYED: Final = "{trace}, {workload}: none of its kernels was replayed on {gpu}; replay them with: {replay}"


@dataclasses.dataclass(frozen=True, slots=True)
class WorkloadReconciliation:
    """One workload in one mode, figures per iteration: one prefill, one decoded token, one training step, one script.

    `facts`: model, GPU, run, the trace of its kernels. As rows: `components` of time and energy; `groups` (tiers,
    categories, routes); `kernels`, those with most time.
    """

    trace: str
    workload: str
    mode: str | None
    facts: Row
    components: list[Row]
    groups: list[Row]
    kernels: list[Row]

    def component(self, section: str, name: str) -> Row:
        """A component by its section (time, energy, dynamic energy) and name. Raises KeyError."""
        return {(row["section"], row["component"]): row for row in self.components}[section, name]

    def as_dict(self) -> Row:
        """What `--json` prints for the workload."""
        named = {"trace": self.trace, "workload": self.workload, "mode": self.mode, **self.facts}
        by_kind = itertools.groupby(self.groups, lambda row: row["grouped_by"])
        groups = {by: [_without(row, "grouped_by") for row in some] for by, some in by_kind}
        return {**named, "components": self.components, "groups": groups, "kernels": self.kernels}


@dataclasses.dataclass(frozen=True, slots=True)
class Reconciliation:
    """The balances of all workloads asked for; `table` holds all their components, one row each.

    `jobs` are the workloads of jobs of several ranks, computation and communication apart.
    """

    balances: list[WorkloadReconciliation]
    table: pa.Table
    jobs: list[Row] = dataclasses.field(default_factory=list)

    def remarks(self) -> Iterator[str]:
        """What keeps balances from closing, with the remedy, a line each."""
        for one in self.balances:
            times = [
                row for row in one.components if row["section"] == "time" and row["component"].startswith("kernels")
            ]
            if all(row["value"] == 0 for row in times):
                facts = {**one.facts, "gpu": one.facts["gpu"] or "its GPU"}
                replay = kerneldb("replay", *valued("--trace", f"{one.facts['kernels_trace']}"))
                yield NOTHING_REPLAYED.format(trace=one.trace, workload=one.workload, replay=replay, **facts)


def reconciliation(
    warehouse: Warehouse, names: Sequence[str], where: str | None = None, top: int = TOP
) -> Reconciliation:
    """Close the balances of the measured workloads of the traces or runs `names` (all where empty).

    With `where`, only kernels of launches that meet it enter; the measured totals stay whole. Raises UsageError for an
    unknown name, SelectionError for a bad `where`, KerneldbError where nothing was measured.
    """
    import pyarrow as pa

    workloads = ask(warehouse, "reconciliation_measured", {"names": list(names) or None})
    if not workloads:
        require_traces(warehouse, names)
        message = NOTHING.format(of=f" of {', '.join(names)}" if names else "")
        raise KerneldbError(message)
    wanted = {_key(row): _without(row, *KEY) for row in workloads}
    found = _found(warehouse, sorted({trace for trace, _, _ in wanted}), where)
    components = [row for row in _rows(found.components) if _key(row) in wanted]
    by_workload = [
        _by_workload(some)
        for some in (components, _rows(groups(found.kernels)), map(_line, longest(found.kernels, top)))
    ]
    balances = [
        WorkloadReconciliation(*key, facts, *(some.get(key, []) for some in by_workload))
        for key, facts in wanted.items()
        if key in by_workload[0]
    ]
    if not balances:
        nothing_selected = "no launch of the measured workloads is selected; see: kerneldb top --by phase"
        raise KerneldbError(NO_LAUNCHES if where is None else nothing_selected)
    kinds = [(one.name, pa.float64() if one.name in FIGURES else pa.string()) for one in dataclasses.fields(Component)]
    table = pa.Table.from_pylist(components, pa.schema(kinds))
    return Reconciliation(balances, table, _named(warehouse, _rows(found.jobs), names))


def _found(warehouse: Warehouse, traces: Sequence[str], where: str | None) -> Reconciled:
    """What is stored of these traces; with `where`, what only the launches that meet it make."""
    from kerneldb.warehouse import reconciliation as stored

    if where is not None:
        with selecting(warehouse, where, ()) as con:
            return stored.selected(con)
    kernels = [Kernel(**row) for row in ask(warehouse, "reconciliation_kernels", {"traces": traces})]
    components = [Component(**row) for row in ask(warehouse, "reconciliation_components", {"traces": traces})]
    return Reconciled(kernels, (), components, [Job(**row) for row in ask(warehouse, "reconciliation_jobs")])


def _rows(found: Iterable[Group | Job | Component]) -> list[Row]:
    return [dataclasses.asdict(one) for one in found]


def _line(kernel: Kernel) -> Row:
    """What is shown of a kernel."""
    row = {name: getattr(kernel, name) for name in SHOWN}
    return {**row, "dynamic_error_mj": kernel.dynamic_half_mj, "reason": kernel.reason or kernel.energy_reason}


def _named(warehouse: Warehouse, jobs: Iterable[Row], names: Sequence[str]) -> list[Row]:
    """The jobs that are called so (all where `names` is empty), by themselves, their run or one of their traces."""
    if not names:
        return list(jobs)
    called = {*names, *(row["job"] for row in ask(warehouse, "reconciliation_job_names", {"names": list(names)}))}
    return [row for row in jobs if row["job"] in called or row["run"] in names]


def _key(row: Row) -> Workload:
    return row["trace"], row["workload"], row["mode"]


def _by_workload(found: Iterable[Row]) -> dict[Workload, list[Row]]:
    """The rows of each workload, without what names it."""
    workloads: dict[Workload, list[Row]] = {}
    for row in found:
        workloads.setdefault(_key(row), []).append(_without(row, *KEY))
    return workloads


def _without(row: Row, *names: str) -> Row:
    return {name: value for name, value in row.items() if name not in names}
