"""Comparisons of traces: their times, their hardware counters, and their kernels side by side."""

from __future__ import annotations

import collections
import dataclasses
import math
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from kerneldb.api.queries import ask, require, require_traces, rows, selected, selecting, statement, table
from kerneldb.errors import GateError, UsageError
from kerneldb.output.text import shorten
from kerneldb.output.units import duration

if TYPE_CHECKING:
    from collections.abc import Sequence

    import pyarrow as pa

    from kerneldb.warehouse import Warehouse

Pair = tuple[str, str]

THRESHOLD: Final = 0.03
"""Changes of a kernel's mean up to this share count as none."""
QUIET: Final = frozenset({"unchanged", "noise"})
"""Verdicts of kernels that no table shows, unless their time matters to the total."""
CHANGED: Final = frozenset({"slower", "faster", "only before", "only after"})
"""Verdicts beyond doubt."""
DOUBTS: Final = {"noise": "within chance", "too few": "too few launches to tell", "unchanged": "below the threshold"}
NAME_CELLS: Final = 60
FUSED: Final = "_fused_"
"""What the names of kernels hold that PyTorch's compiler fused."""


class SteadyState(NamedTuple):
    """The steady-state iterations of one side: how many, and the mean of their GPU time in ns."""

    n: int
    mean_ns: float


@dataclasses.dataclass(frozen=True, slots=True)
class Difference:
    """What changed between two traces or sets of traces: a row per matched kernel, and the sums of the rows.

    Totals in ns. `common_shift_pct` is what all kernels have in common, None where too few match by signature to tell;
    `by_verdict` counts rows. `steady_state` are the iterations before and after, where both sides have some. `gpus` has
    the names of the GPUs of each side, as far as they are known. `threshold` is the share that counts as no change.
    """

    table: pa.Table
    before_ns: int
    after_ns: int
    common_shift_pct: float | None
    by_verdict: dict[str, int]
    steady_state: tuple[SteadyState, SteadyState] | None = None
    gpus: tuple[list[str], ...] = ()
    threshold: float = THRESHOLD

    def shown(self) -> list[bool]:
        """Which rows tables show: what changed, and what matters to the total whatever its verdict.

        That is what changed the total by more than the threshold; and where the rows shown leave more of its change
        than that, the largest of the others.
        """
        rows = self.table.select(["verdict", "n_before", "n_after", "delta_ns"]).to_pylist()
        limit_ns = self.threshold * self.before_ns
        shown = [
            row["verdict"] not in QUIET or row["n_before"] != row["n_after"] or abs(row["delta_ns"]) > limit_ns
            for row in rows
        ]
        left_ns = sum(row["delta_ns"] for row, is_shown in zip(rows, shown, strict=True) if not is_shown)
        for place, row in enumerate(rows):  # the largest changes come first
            if abs(left_ns) <= limit_ns:
                break
            if not shown[place] and row["delta_ns"] * left_ns > 0:
                shown[place] = True
                left_ns -= row["delta_ns"]
        return shown

    def doubt(self) -> str | None:
        """A sentence on what is known where the total changed, and not by kernels that changed beyond doubt.

        None where these leave no more of the change than the threshold, as where the total changed by less.
        """
        rows, limit_ns = self.table.to_pylist(), self.threshold * self.before_ns
        certain = [row for row in rows if row["verdict"] in CHANGED]
        left_ns = self.after_ns - self.before_ns - sum(row["delta_ns"] for row in certain)
        largest = self._largest_doubt(left_ns)
        if largest is None or abs(left_ns) <= limit_ns or abs(self.after_ns - self.before_ns) <= limit_ns:
            return None
        if abs(self.common_shift_pct or 0) > 100 * self.threshold and largest["verdict"] == "unchanged":
            return f"no kernel explains the change by itself: all shifted together by {self.common_shift_pct:+.2f} %"
        begin = "no kernel changed beyond doubt" if not certain else f"{_signed(left_ns)} is in no kernel beyond doubt"
        return f"{begin}; the largest part: {_of_row(largest)}"

    def _largest_doubt(self, left_ns: int) -> dict[str, Any] | None:
        """Of the rows that did not change beyond doubt the one with most of `left_ns`."""
        others = (row for row in self.table.to_pylist() if row["verdict"] not in CHANGED)
        return next((row for row in others if row["delta_ns"] * left_ns > 0), None)

    @property
    def delta_pct(self) -> float | None:
        """Change of the total GPU time in percent; None where there was none before."""
        return 100 * (self.after_ns - self.before_ns) / self.before_ns if self.before_ns else None

    @property
    def iteration_delta_pct(self) -> float | None:
        """Change of the mean GPU time of a steady-state iteration in percent; None where a side has none."""
        if self.steady_state is None or not self.steady_state[0].mean_ns:
            return None
        return 100 * (self.steady_state[1].mean_ns / self.steady_state[0].mean_ns - 1)

    def remarks(self) -> list[str]:
        """What else differs than the times of the program, as sentences."""
        found = [told] if (told := other_gpus(self.gpus, names_differ=True)) else []
        if self.is_fused():
            found.append("kernels were fused: kerneldb diff --by fusion says which operators became which kernels")
        return found

    def is_fused(self) -> bool:
        """Whether kernels that a compiler fused are on one side only, and others on the other side only."""
        only: dict[str, set[bool]] = collections.defaultdict(set)
        for row in self.table.select(["matched_by", "kernel"]).to_pylist():
            only[row["matched_by"]].add(FUSED in (row["kernel"] or ""))
        return True in only["only after"] and False in only["only before"]

    def grown(self) -> tuple[str, float]:
        """What of the GPU time grew by how many percent: of an iteration where the sides have not equally many."""
        per_iteration = self.iteration_delta_pct
        if (
            self.steady_state is not None
            and per_iteration is not None
            and self.steady_state[0].n != self.steady_state[1].n
        ):
            return "GPU time of a steady-state iteration", per_iteration
        return "GPU time", math.inf if self.delta_pct is None else self.delta_pct

    def check(self, limit_pct: float) -> None:
        """Raise GateError where the GPU time, or a kernel that got slower beyond noise, grew by `limit_pct` or more.

        The GPU time is the total, or that of a steady-state iteration where the sides have not equally many. Raises
        UsageError where a side has none: a gate that compares nothing is not passed.
        """
        if not self.before_ns or not self.after_ns:
            message = "one side has no GPU time, so --fail-on has nothing to check; compare counters with --metrics"
            raise UsageError(message)
        reasons = [
            f"{row['kernel']}: +{row['own_delta_pct']:.1f} % a launch"
            for row in self.table.to_pylist()
            if row["verdict"] == "slower" and row["own_delta_pct"] >= limit_pct
        ]
        what, change = self.grown()
        if change >= limit_pct:
            doubt = self.doubt()
            reasons.insert(0, f"{what}: +{change:.1f} %" + (f", but {doubt}" if doubt else ""))
        if reasons:
            shown = "; ".join(reasons[:3]) + (f"; and {len(reasons) - 3} more" if len(reasons) > 3 else "")  # noqa: PLR2004
            raise GateError(f"over the limit of {limit_pct:g} %: {shown}")


def _of_row(row: dict[str, Any]) -> str:
    """The kernel of a row with its change, and why that is in doubt."""
    few = "other numbers of launches" if row["n_before"] != row["n_after"] and row["verdict"] in QUIET else None
    facts = [few or DOUBTS.get(row["verdict"], row["verdict"]), *filter(None, [row["changed_in"]])]
    return f"{_signed(row['delta_ns'])} ({'; '.join(facts)}) of {shorten(str(row['kernel']), NAME_CELLS)}"


def _signed(ns: float) -> str:
    return ("+" if ns > 0 else "") + duration(ns)


def other_gpus(gpus: Sequence[Sequence[str]], *, names_differ: bool) -> str | None:
    """A sentence where the sides ran on different GPUs; `names_differ`: what is compared has other names on each."""
    if len(set(map(tuple, gpus))) <= 1 or not all(gpus):
        return None
    named = " -> ".join(", ".join(names) for names in gpus)
    pointer = "; kernels have other names on each, so that few match: kerneldb diff --by category compares what they do"
    told = f"different GPUs ({named}): what is slower or faster may be the GPU, not the program"
    return told + pointer * names_differ


def traces_named(warehouse: Warehouse, name: str) -> list[str]:
    """The traces that `name` means: a trace, else those of a run, else of a label, else those that fit it as a pattern.

    Raises UsageError where there is none.
    """
    found = [row["trace"] for row in ask(warehouse, "traces_named", {"wanted": name})]
    if not found:
        require_traces(warehouse, [name])
    return found


def difference(
    warehouse: Warehouse, before: str, after: str, where: str | None, threshold: float = THRESHOLD
) -> Difference:
    """Compare two sides (see `traces_named`); `where` restricts both. Raises UsageError for an unknown name."""
    from kerneldb.selection import Selection
    from kerneldb.warehouse.execute import query_errors

    sides = traces_named(warehouse, before), traces_named(warehouse, after)
    params = {"before": before, "after": after, "threshold": threshold}
    if where is None:
        found = warehouse.answer(statement("analysis_diff"), params)
    else:
        with warehouse.connection() as con, query_errors():
            both = Selection(where, tuple(dict.fromkeys((*sides[0], *sides[1]))))
            con.register("selection", both.read(con))
            found = table(con, "analysis_diff_selected", params)
    sums = found.select(["total_before_ns", "total_after_ns", "common_shift_pct", "verdict"]).to_pylist()
    steady_state = [
        SteadyState(row["n"], row["mean_ns"])
        for names in sides
        for row in selected(warehouse, "analysis_steady_state", where, names, {"names": names}).to_pylist()
    ]
    return Difference(
        found,
        sum(row["total_before_ns"] for row in sums),
        sum(row["total_after_ns"] for row in sums),
        sums[0]["common_shift_pct"] if sums else None,
        dict(collections.Counter(row["verdict"] for row in sums)),
        (steady_state[0], steady_state[1]) if len(steady_state) == len(sides) else None,
        gpus(warehouse, before, after),
        threshold,
    )


def gpus(warehouse: Warehouse, before: str, after: str) -> tuple[list[str], ...]:
    """The names of the GPUs of each side (see `traces_named`), as far as they are known."""
    sides = traces_named(warehouse, before), traces_named(warehouse, after)
    return tuple(one["gpus"] or [] for names in sides for one in ask(warehouse, "scope", {"names": names}))


def difference_by(
    warehouse: Warehouse, before: str, after: str, by: str, where: str | None, threshold: float = THRESHOLD
) -> pa.Table:
    """What changed between two sides (see `traces_named`), by a key of `diff_by`. UsageError for unknown names."""
    sides = tuple(traces_named(warehouse, before)), tuple(traces_named(warehouse, after))
    params = {"before": before, "after": after, "by": by, "threshold": threshold}
    names = list(dict.fromkeys(sides[0] + sides[1]))
    return selected(warehouse, "analysis_diff_by", where, names, params, sides=sides)


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
        counted = {}
        for side in ("before", "after"):
            verdicts = [one for one in self.classes[f"verdict_{side}"].to_pylist() if one is not None]
            counted[side] = len(verdicts) - verdicts.count("unknown"), len(verdicts)
        return counted

    def changes(self) -> dict[str, int]:
        """How many kernels are the same, changed their class, became known, or are on one side only."""
        return dict(collections.Counter(self.classes["change"].to_pylist()))

    def sentence(self) -> str:
        """Coverage and class changes in a line."""
        known = [f"{n} of {of} kernels" for n, of in self.coverage().values()]
        changes = ", ".join(f"{n:,} {change}" for change, n in self.changes().items())
        return f"classified by the rule {self.rule}: {known[0]} before, {known[1]} after; {changes}"


def counter_difference(warehouse: Warehouse, before: str, after: str, rule: str) -> CounterDifference:
    """Compare two sets of counters; `before` and `after` are names as of `traces_named`.

    Raises UsageError for an unknown name or rule, and where a side holds no counters.
    """
    for name in (before, after):
        traces_named(warehouse, name)
    require("rule", [rule], [row["rule"] for row in ask(warehouse, "bounds_rules")])
    sides = {"before": before, "after": after}
    classes = warehouse.answer(statement("analysis_diff_classes"), {**sides, "rule": rule})
    found = CounterDifference(classes, warehouse.answer(statement("analysis_diff_metrics"), sides), rule)
    for side, (_, kernels) in found.coverage().items():
        if not kernels:
            message = f"{sides[side]} has no hardware counters; ingest a page of Nsight Compute with the same --run"
            raise UsageError(message)
    return found


def compare(
    warehouse: Warehouse,
    traces: Sequence[str],
    where: str | None,
    pairs: Sequence[Pair] = (),
    iterations: int | None = None,
) -> pa.Table:
    """One row per kernel and trace, matched kernels first, then the sums of an iteration.

    Kernels are the same that have the same role (annotation) or else the same name; `pairs` makes all kernels whose
    names hold one of two texts the same. `iterations` per trace: as given, else the greatest common divisor of the
    launch counts of its matched kernels. Columns: see `schemas/queries/compare_kernels.sql`; times in ns.

    Raises UsageError for unknown traces and for texts that no selected kernel's name holds.
    """
    texts = [text for pair in pairs for text in pair]
    labels = [first for first, _ in pairs for _ in range(2)]
    with selecting(warehouse, where, traces) as con:
        if missing := rows(con, "compare_texts", {"texts": texts}):
            raise UsageError(f"no selected kernel has {missing[0]['text']!r} in its name")
        wanted = {"texts": texts, "labels": labels, "traces": list(traces), "iterations": iterations}
        return table(con, "compare_kernels", wanted)


def pair_of(text: str) -> Pair:
    """The two sides of A=B. Raises UsageError unless both are there."""
    first, _, second = text.partition("=")
    if not first.strip() or not second.strip():
        raise UsageError(f"{text!r} is not A=B, parts of two kernels' names")
    return first.strip(), second.strip()
