"""What goes into the search for changes, and what comes out."""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

VERSION: Final = 4
"""Of the search: changes that an older one stored are looked for again."""
FEWEST: Final = 5
"""Runs on either side of a change: fewer could be one bad night of a machine."""
WINDOW: Final = 400
"""Runs that are looked at when a run is added: the newest ones."""
LEAST_PCT: Final = 0.5
"""Smaller changes are not reported, however sure they are."""
LEAST_OF_PARTS_PCT: Final = 1.5
"""The same of single kernels, operators, modules and causes, which a board changes by itself by up to 1.2 %."""
CLOCKS: Final = "clocks"
"""The subject of the shift that all kernels of a run have in common, and the cause of what moves with it."""


@dataclasses.dataclass(frozen=True, slots=True)
class Run:
    """A run in its place: its trace, commit, and the versions, host and board that it had."""

    trace_id: str
    commit: str
    environment: Mapping[str, str]


@dataclasses.dataclass(frozen=True, slots=True)
class Line:
    """The points of one subject: at which runs (ascending), which values (above 0), and how many launches each."""

    subject: str
    name: str
    places: Sequence[int]
    values: Sequence[float]
    counts: Sequence[float | None]


@dataclasses.dataclass(frozen=True, slots=True)
class Step:
    """A change of a line: between which of its points, how large (natural logarithm), and how sure.

    `first` is the last point that is surely before it, `last` the first that is surely after it; `at` is the first one
    after it, most likely. `begin` and `end` bound the points that were compared. `p_value` is corrected.
    """

    at: int
    first: int
    last: int
    begin: int
    end: int
    shift: float
    error: float
    p_value: float
    noise: float


@dataclasses.dataclass(frozen=True, slots=True)
class Change:
    """A row of `history_changes`, but for the ids of its series."""

    trace_id: str
    before_trace_id: str
    subject: str
    name: str
    first_commit: str
    last_commit: str
    before_value: float
    after_value: float
    change_pct: float
    low_pct: float
    high_pct: float
    impact_ns: float | None
    p_value: float
    runs_before: int
    runs_after: int
    noise_pct: float
    cause: str
    detail: str | None
