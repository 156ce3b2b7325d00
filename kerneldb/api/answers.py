"""Answers: one table macro each, over the launches that a WHERE text and trace names select."""

from __future__ import annotations

import contextlib
import dataclasses
import math
from typing import TYPE_CHECKING, Any, Final

from kerneldb.api.queries import BATCH_ROWS, require, require_traces, statement
from kerneldb.errors import GateError, UsageError

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    import pyarrow as pa

    from kerneldb.warehouse import Warehouse

THRESHOLD: Final = 0.03
"""Changes of a kernel's mean up to this share are not told from none."""


def answer(warehouse: Warehouse, name: str, where: str | None, traces: Sequence[str], **params: Any) -> pa.Table:
    """The rows of `schemas/queries/answer_<name>.sql`, which reads the selected launches as `selection`.

    Raises UsageError for an unknown trace, SelectionError for a bad `where`.
    """
    from kerneldb.selection import Selection
    from kerneldb.warehouse.execute import query_errors

    require_traces(warehouse, traces)
    with warehouse.lease() as con, query_errors():
        Selection(where, tuple(traces)).bind(con)
        return con.sql(statement(f"answer_{name}"), params=params or None).to_arrow_table()


@contextlib.contextmanager
def stream(
    warehouse: Warehouse, query: str, where: str | None, traces: Sequence[str]
) -> Iterator[pa.RecordBatchReader]:
    """The rows of `schemas/queries/<query>.sql` over `selection` as a stream, for as long as the context lasts."""
    from kerneldb.selection import Selection
    from kerneldb.warehouse.execute import query_errors

    require_traces(warehouse, traces)
    with warehouse.lease() as con, query_errors():
        Selection(where, tuple(traces)).bind(con)
        yield con.sql(statement(query)).to_arrow_reader(BATCH_ROWS)


@dataclasses.dataclass(frozen=True, slots=True)
class Difference:
    """What changed between two traces: a row per matched kernel, and the sums of the rows.

    Totals in ns. `common_shift_pct` is what all kernels have in common; `by_verdict` counts rows.
    """

    table: pa.Table
    before_ns: int
    after_ns: int
    common_shift_pct: float
    by_verdict: dict[str, int]

    @property
    def delta_pct(self) -> float | None:
        """Change of the total GPU time in percent; None where there was none before."""
        return 100 * (self.after_ns - self.before_ns) / self.before_ns if self.before_ns else None

    def check(self, limit_pct: float) -> None:
        """Raise GateError where the total, or a kernel that got slower beyond noise, grew by `limit_pct` or more."""
        worst = [
            row for row in self.table.to_pylist() if row["verdict"] == "slower" and row["own_delta_pct"] >= limit_pct
        ]
        reasons = [f"{row['kernel']}: +{row['own_delta_pct']:.1f} % a launch" for row in worst]
        total = math.inf if self.delta_pct is None else self.delta_pct
        if total >= limit_pct and self.after_ns:
            reasons.insert(0, f"GPU time: +{total:.1f} %")
        if reasons:
            shown = "; ".join(reasons[:3]) + (f"; and {len(reasons) - 3} more" if len(reasons) > 3 else "")  # noqa: PLR2004
            message = f"over the limit of {limit_pct:g} %: {shown}"
            raise GateError(message)


def difference(
    warehouse: Warehouse, before: str, after: str, where: str | None, threshold: float = THRESHOLD
) -> Difference:
    """Compare two traces; `where` restricts both. Raises UsageError for an unknown trace."""
    require_traces(warehouse, [before, after])
    params = {"before": before, "after": after, "threshold": threshold}
    if where is None:
        table = warehouse.query(statement("answer_diff"), params)
    else:
        table = answer(warehouse, "diff_selected", where, [before, after], **params)
    columns = {name: table[name].to_pylist() for name in ("total_before_ns", "total_after_ns", "verdict")}
    shift = table["common_shift_pct"].to_pylist()
    counts = {verdict: columns["verdict"].count(verdict) for verdict in dict.fromkeys(columns["verdict"])}
    return Difference(
        table, sum(columns["total_before_ns"]), sum(columns["total_after_ns"]), shift[0] if shift else 0.0, counts
    )


@dataclasses.dataclass(frozen=True, slots=True)
class CounterDifference:
    """What changed between two sets of counters: `classes` has a row per kernel, `metrics` one per counter.

    The columns are those of the macros `diff_classes` and `diff_metrics`; in `metrics`, rows without a kernel are over
    all launches of a set. `rule` classified.
    """

    classes: pa.Table
    metrics: pa.Table
    rule: str

    def coverage(self) -> dict[str, tuple[int, int]]:
        """Side (before, after) → kernels with a known class, and kernels."""
        verdicts = {side: self.classes[f"verdict_{side}"].to_pylist() for side in ("before", "after")}
        return {
            side: (sum(1 for one in found if one not in {None, "unknown"}), sum(1 for one in found if one is not None))
            for side, found in verdicts.items()
        }

    def changes(self) -> dict[str, int]:
        """How many kernels are the same, changed their class, became known, or are on one side only."""
        found = self.classes["change"].to_pylist()
        return {change: found.count(change) for change in dict.fromkeys(found)}

    def sentence(self) -> str:
        """Coverage and class changes in a line."""
        known = [f"{n} of {of} kernels" for n, of in self.coverage().values()]
        changes = ", ".join(f"{n:,} {change}" for change, n in self.changes().items())
        return f"classified by the rule {self.rule}: {known[0]} before, {known[1]} after; {changes}"


def counter_difference(warehouse: Warehouse, before: str, after: str, rule: str) -> CounterDifference:
    """Compare two sets of counters; `before` and `after` name a trace, or a run whose traces make a set.

    Raises UsageError for an unknown name or rule, and where a side holds no counters.
    """
    named = [
        name for name in (before, after) if not warehouse.query(statement("report_named"), {"name": name}).num_rows
    ]
    require_traces(warehouse, named)
    require("rule", [rule], [row["rule"] for row in warehouse.query(statement("bounds_rules")).to_pylist()])
    sides = {"before": before, "after": after}
    classes = warehouse.query(statement("answer_diff_classes"), {**sides, "rule": rule})
    found = CounterDifference(classes, warehouse.query(statement("answer_diff_metrics"), sides), rule)
    for side, (_, kernels) in found.coverage().items():
        if not kernels:
            message = f"{sides[side]} holds no hardware counters; ingest those of Nsight Compute into it or its run"
            raise UsageError(message)
    return found
