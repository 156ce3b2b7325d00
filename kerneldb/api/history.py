"""The history of a program over its commits: what changed for good, since when, and why."""

from __future__ import annotations

import dataclasses
import importlib.util
from typing import TYPE_CHECKING, Any, Final

from kerneldb.api.queries import ask, require, statement
from kerneldb.errors import GateError, UsageError
from kerneldb.history.model import VERSION

if TYPE_CHECKING:
    import datetime as dt
    from collections.abc import Mapping, Sequence

    import pyarrow as pa

    from kerneldb.warehouse import Warehouse

OWN: Final = ("code", "launches")
"""Causes of a change that are the program's; the others are the machine's, the driver's or of other versions."""
SUBJECTS: Final = ("kernel", "operator", "module", "budget", "total", "energy", "measured", "clocks")
MISSING: Final = "looking for changes takes ruptures: pip install 'kerneldb[history]', then: kerneldb history --update"
LATER: Final = "kerneldb history --update looks at them"


@dataclasses.dataclass(frozen=True, slots=True)
class Asked:
    """Which part of the history: a workload, a branch, a subject, and what happened at or after a time."""

    workload: str | None = None
    branch: str | None = None
    subject: str | None = None
    since: dt.datetime | None = None


@dataclasses.dataclass(frozen=True, slots=True)
class History:
    """Changes, newest first (columns as in `kernel_history`), and the series that were looked at."""

    changes: pa.Table
    series: Sequence[Mapping[str, Any]]

    @property
    def due(self) -> int:
        """Runs whose changes were not looked for yet."""
        return sum(row["due"] for row in self.series)

    def check(self, limit_pct: float) -> None:
        """Raise GateError where the program itself got slower or hungrier by `limit_pct` or more, for good.

        Changes by clocks, another driver or machine do not count, nor what a later commit took back. Raises UsageError
        where there is nothing to compare, or runs were not looked at: a gate that compares nothing is not passed.
        """
        if self.due or not any(row["runs"] > 1 for row in self.series):
            reason = (
                f"{self.due} runs were not looked at yet: {remedy()}" if self.due else "it has no two runs of a series"
            )
            raise UsageError(f"the history has nothing to check: {reason}")
        slower = [
            f"{row['subject']} {row['name']}: {row['change_pct']:+.1f} % in "
            f"{row['first_commit'][:9]}..{row['last_commit'][:9]}"
            for row in self.changes.to_pylist()
            if row["cause"] in OWN
            and row["change_pct"] >= limit_pct
            and row["change_pct"] + row["later_pct"] >= limit_pct
        ]
        if slower:
            raise GateError(f"slower by {limit_pct:g} % or more: " + "; ".join(slower))


def remedy() -> str:
    """What to do about runs whose changes were not looked for."""
    return LATER if importlib.util.find_spec("ruptures") else MISSING


def ask_history(warehouse: Warehouse, asked: Asked) -> History:
    """The changes of a part of the history. Raises UsageError for a workload, branch or subject that there is not."""
    series = ask(warehouse, "history_series", {"workload": None, "branch": None, "version": VERSION})
    for what in ("workload", "branch"):
        value = getattr(asked, what)
        if value is not None:
            require(what, [value], [row[what] for row in series if row[what] is not None])
            series = [row for row in series if row[what] == value]
    if asked.subject is not None:
        require("subject", [asked.subject], SUBJECTS)
    return History(warehouse.answer(statement("history_changes"), dataclasses.asdict(asked)), series)


def since(warehouse: Warehouse, text: str) -> dt.datetime:
    """When a commit of the history was made, else the time that `text` says. Raises UsageError."""
    (found,) = ask(warehouse, "history_since", {"text": text})
    if found["since"] is None:
        raise UsageError(f"{text!r} is neither a commit of the history (7 digits or more) nor a time like 2026-11-24")
    time: dt.datetime = found["since"]
    return time
