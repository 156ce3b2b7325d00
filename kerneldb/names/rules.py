"""Rules: from the head of a name (qualifier and function, no template arguments) to what kind of kernel it is.

The table is ordered, the first hit wins. A rule's pattern is searched in the head only, so that a functor named in a
template argument never decides about the kernel around it; a rule may carry a reader for the rest of the name. Heads
repeat while template arguments vary, so the hit of each head is remembered.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

from kerneldb.names.model import Facts

if TYPE_CHECKING:
    from kerneldb.names.structure import Structure

Reader = Callable[["Structure"], Facts]


@dataclass(frozen=True, slots=True)
class Rule:
    """One line of the table: what a head that matches ``pattern`` tells, and who reads the rest of the name."""

    pattern: re.Pattern[str]
    facts: Facts
    reader: Reader | None = None


def rule(
    pattern: str,
    category: str,
    library: str | None,
    family: str,
    operation: str | None = None,
    reader: Reader | None = None,
    *,
    direction: str | None = None,
) -> Rule:
    """Make one line of the table; ``pattern`` is searched, not anchored."""
    facts: Facts = {"category": category, "library": library, "family": family, "operation": operation}
    if direction is not None:
        facts["direction"] = direction
    return Rule(re.compile(pattern), facts, reader)
