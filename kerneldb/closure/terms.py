"""The balance of a stage as a list: a row per term, with a note where there is no value.

Of a section, the terms of the role `addend` add up to its `predicted, replayed only`, together with those `addend, not
replayed` to its `predicted`; in a host-bound stage, those `addend, observed` make it the measured time. Observed
energies are in the totals. `status` says how far a value can be trusted.
"""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING, Final

from kerneldb.closure import energy_terms, time_terms

if TYPE_CHECKING:
    from collections.abc import Iterator

    from kerneldb.closure.books import Book
    from kerneldb.closure.lines import Line
    from kerneldb.closure.unknown import Figure

VALUELESS: Final = frozenset({"left out", "withheld"})
"""Terms that have no value for a reason; any other without one is unknown."""
FIGURES: Final = ("value", "low", "high")
"""Columns that are numbers, in the unit of the term; all others are text."""


@dataclasses.dataclass(frozen=True, slots=True)
class Term:
    """A row of `closure_terms`: a term of time, of energy, or of energy above the power of gaps."""

    trace: str
    stage: str
    mode: str | None
    section: str
    term: str
    role: str
    status: str
    value: Figure
    unit: str
    low: Figure
    high: Figure
    source: str | None
    note: str | None


def terms(book: Book) -> Iterator[Term]:
    """The terms of a stage that say something of it."""
    sections = {
        "time": time_terms.lines(book),
        "energy": energy_terms.lines(book),
        "above gap": energy_terms.lines_above_gap(book),
    }
    for section, lines in sections.items():
        for line in lines:
            yield _term(book, section, line)


def _term(book: Book, section: str, line: Line) -> Term:
    unknown = line.value is None and line.status not in VALUELESS
    row = {**dataclasses.asdict(line), "status": "unknown" if unknown else line.status}
    return Term(*book.stage.key, section, **row)
