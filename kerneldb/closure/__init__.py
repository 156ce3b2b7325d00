"""The balance of measured and predicted: what kernels cost by their replays, against what was measured of the whole.

`balance` turns the sums over the launches of measured stages, the replays of their kernels and the figures measured of
the whole into rows of `closure_kernels`, `closure`, `closure_terms` and `closure_jobs`. It is arithmetic over the
dataclasses of `model`, and knows no database; `kerneldb.warehouse.closure` reads these and stores the rows.

All figures are per iteration. What is unknown is None, and so is what is made of it. docs/closure.md has the formulas.
"""

from __future__ import annotations

import collections
import dataclasses
from typing import TYPE_CHECKING

from kerneldb.closure.books import Book, book, sums
from kerneldb.closure.jobs import Job, jobs
from kerneldb.closure.kernels import Kernel, kernels
from kerneldb.closure.model import order
from kerneldb.closure.terms import Term, terms

if TYPE_CHECKING:
    from collections.abc import Sequence

    from kerneldb.closure.model import Given


@dataclasses.dataclass(frozen=True, slots=True)
class Balance:
    """The rows of all four tables, in the order in which people read them."""

    kernels: Sequence[Kernel]
    books: Sequence[Book]
    terms: Sequence[Term]
    jobs: Sequence[Job]


def balance(given: Given) -> Balance:
    """The balance of all stages that are given. A stage without launches has no rows."""
    found = kernels(given)
    of_stage = collections.defaultdict(list)
    for kernel in found:
        of_stage[kernel.key].append(kernel)
    books: list[Book] = []
    for stage in sorted(given.stages, key=lambda stage: (*order(stage.key), stage.run is None, stage.run or "")):
        if listed := of_stage.get(stage.key):
            summed = sums(listed)
            run = given.runs.get(summed.energy_run_id or "")
            books.append(book(stage, summed, given.flows[stage.launches_trace_id, stage.stage], run))
    return Balance(found, books, [term for one in books for term in terms(one)], jobs(given.stages, found))
