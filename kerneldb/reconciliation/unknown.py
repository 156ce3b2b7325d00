"""Arithmetic with unknowns: what is made of an unknown (None) is unknown, and so is a quotient of 0."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, TypeAlias

if TYPE_CHECKING:
    from collections.abc import Iterable

Figure: TypeAlias = float | None


def plus(*values: Figure) -> Figure:
    """The sum of all; unknown where one is."""
    known = [value for value in values if value is not None]
    return sum(known) if len(known) == len(values) else None


def minus(value: Figure, *others: Figure) -> Figure:
    """`value` less all others; unknown where one is."""
    for other in others:
        value = None if value is None or other is None else value - other
    return value


def times(*values: Figure) -> Figure:
    """The product of all; unknown where one is."""
    known = [value for value in values if value is not None]
    return math.prod(known) if len(known) == len(values) else None


def over(value: Figure, other: Figure) -> Figure:
    """`value` / `other`; unknown where one is, and of 0."""
    return None if value is None or not other else value / other


def root_of_squares(*values: Figure) -> Figure:
    """How wide independent errors are together: the root of the sum of their squares; unknown where one is."""
    known = [value for value in values if value is not None]
    return math.hypot(*known) if len(known) == len(values) else None


def percent(value: Figure, whole: Figure) -> Figure:
    """`value` as a share of `whole`, in %."""
    return times(100.0, over(value, whole))


def error_pct(predicted: Figure, measured: Figure) -> Figure:
    """How far a prediction is off, in % of what was measured."""
    return times(100.0, minus(over(predicted, measured), 1.0))


def total(values: Iterable[Figure]) -> Figure:
    """The sum of those that are known, which does not depend on their order; unknown where none is."""
    known = [value for value in values if value is not None]
    return math.fsum(known) if known else None


def mean(values: Iterable[Figure]) -> Figure:
    """The mean of those that are known; unknown where none is."""
    known = [value for value in values if value is not None]
    return math.fsum(known) / len(known) if known else None


def at_least(value: Figure, limit: float) -> bool:
    """Whether it is known to be `limit` or more."""
    return value is not None and value >= limit


def below(value: Figure, limit: Figure) -> bool:
    """Whether both are known, and it is less than `limit`."""
    return value is not None and limit is not None and value < limit


def above_zero(value: Figure) -> Figure:
    """`value` where it is more than 0: what may be nothing bounds nothing."""
    return value if value is not None and value > 0 else None


def formatted(text: str, *values: Figure | int | str) -> str | None:
    """`text` with the values in its places; None where one is unknown."""
    return None if None in values else text.format(*values)
