"""The balance of measured and predicted: what kernels cost by their replays, against what was measured of the whole.

`reconcile` turns the sums over the launches of measured workloads, the replays of their kernels and the figures
measured of the whole into rows of `reconciliation_kernels`, `reconciliation`, `reconciliation_components` and
`reconciliation_jobs`. It is arithmetic over the dataclasses of `model`, and knows no database;
`kerneldb.warehouse.reconciliation` reads these and stores the rows.

All figures are per iteration. What is unknown is None, and so is what is made of it. docs/reconciliation.md has the
formulas.
"""

from __future__ import annotations

import collections
import dataclasses
from typing import TYPE_CHECKING

from kerneldb.reconciliation.balances import WorkloadBalance, balance, sums
from kerneldb.reconciliation.components import Component, components
from kerneldb.reconciliation.jobs import Job, jobs
from kerneldb.reconciliation.kernels import Kernel, kernels
from kerneldb.reconciliation.model import order

if TYPE_CHECKING:
    from collections.abc import Sequence

    from kerneldb.reconciliation.model import Given


@dataclasses.dataclass(frozen=True, slots=True)
class Reconciled:
    """The rows of all four tables, in the order in which people read them."""

    kernels: Sequence[Kernel]
    balances: Sequence[WorkloadBalance]
    components: Sequence[Component]
    jobs: Sequence[Job]


def reconcile(given: Given) -> Reconciled:
    """The balance of all workloads that are given. A workload without launches has no rows."""
    found = kernels(given)
    of_workload = collections.defaultdict(list)
    for kernel in found:
        of_workload[kernel.key].append(kernel)
    balances: list[WorkloadBalance] = []
    for workload in sorted(
        given.workloads, key=lambda workload: (*order(workload.key), workload.run is None, workload.run or "")
    ):
        if listed := of_workload.get(workload.key):
            summed = sums(listed)
            run = given.runs.get(summed.energy_run_id or "")
            balances.append(balance(workload, summed, given.flows[workload.launches_trace_id, workload.workload], run))
    return Reconciled(
        found, balances, [component for one in balances for component in components(one)], jobs(given.workloads, found)
    )
