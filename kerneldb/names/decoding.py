"""Decoding: demangle, parse, find the rule, read the rest.

A rule (rules.csv, a line each) says what kind of kernel it is whose name has a certain head: qualifier and function, no
template arguments. The table is ordered and the first rule whose pattern occurs in the head wins: exact symbols of
libraries come first, then engines, then ATen's broad patterns, then guesses by word. Only the head is searched, so that
a functor named in a template argument never decides about the kernel around it. `reader`, a function `module:name` of
this package, reads the rest of the name; what it finds replaces what the line says. Heads repeat while template
arguments vary, so the rule of each head is remembered.
"""

from __future__ import annotations

import contextlib
import pkgutil
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache, lru_cache
from typing import TYPE_CHECKING

from kerneldb.names.demangling import demangle, strip_suffixes
from kerneldb.names.dtypes import argument_types, element_type, packed_types, typed
from kerneldb.names.model import Decoded, Facts
from kerneldb.names.patterns import Pattern, Patterns
from kerneldb.names.shortening import shorten
from kerneldb.names.structure import parse
from kerneldb.names.tables import rows_of

if TYPE_CHECKING:
    from collections.abc import Sequence

    from kerneldb.names.structure import Structure

Reader = Callable[["Structure"], Facts]

DERIVER_VERSION: int = 7
# Longer heads are garbage or text; patterns are searched in so many characters.
_HEAD_LIMIT = 400


@dataclass(frozen=True, slots=True)
class Rule:
    """A line of the table: what a head in which ``pattern`` occurs says, and what reads the rest of the name.

    Readers of many libraries are in many modules, of which a trace needs few.
    """

    pattern: Pattern
    facts: Facts
    reader: str | None


@cache
def _reader(name: str) -> Reader:
    found: Reader = pkgutil.resolve_name(f"{__package__}.{name}")
    return found


def _read_rules() -> tuple[Rule, ...]:
    """Read rules.csv; an empty cell is None."""
    rules = []
    for row in rows_of("rules.csv"):
        facts: Facts = {
            "category": row["category"],
            "library": row["library"],
            "family": row["family"],
            "operation": row["operation"] or None,
            "direction": row["direction"] or None,
        }
        rules.append(Rule(Pattern(row["pattern"]), facts, row["reader"] or None))
    return tuple(rules)


RULES = _read_rules()
_PATTERNS = Patterns([rule.pattern for rule in RULES])


@lru_cache(maxsize=20_000)
def _rule(head: str, kind: str) -> Rule | None:
    """Return the first rule whose pattern occurs in the head; a copy or fill event is one whatever its name says."""
    number = _PATTERNS.first_in(head)
    found = None if number is None else RULES[number]
    category = kind.upper()
    if category not in {"MEMCPY", "MEMSET"} or (found is not None and found.facts["category"] == category):
        return found
    return next(rule for rule in RULES if rule.facts["category"] == category)


def _read(rule: Rule, structure: Structure) -> Facts:
    """Return what the line and its reader say."""
    facts = rule.facts.copy()
    if rule.reader is not None:
        reader = _reader(rule.reader)
        with contextlib.suppress(ValueError):  # A number with more digits than int() accepts: not a kernel's name.
            facts.update(reader(structure))
    return facts


def _type_by_suffix(base: str, facts: Facts) -> None:
    """Take the element type from the end of a function's name (``rms_norm_f32``), the last resort."""
    last = base.removesuffix("_kernel").split("_")[-2:]
    named = [word for word in last if word in {"f32", "f16", "bf16", "fp16", "fp32", "f64", "half", "float"}]
    if named == last[-1:]:  # two of them are what it can be, not what it is
        facts.update(typed(map(element_type, named)))


@lru_cache(maxsize=10_000)
def decode(name: str, kind: str = "kernel") -> Decoded:
    """Decode a kernel's printed name.

    Args:
        name: as any profiler prints it, mangled or not.
        kind: of the GPU activity: ``kernel``, ``memcpy`` or ``memset``.

    Returns:
        What the name says; the category is ``OTHER`` where no rule knows it. Any text is accepted.
    """
    structure = parse(name)
    found = _rule(structure.head[:_HEAD_LIMIT], kind)
    text = strip_suffixes(demangle(name))
    short, match = shorten(structure), structure.canonical
    if found is None:
        return Decoded(text, short, match, "OTHER")
    facts = _read(found, structure)
    if text.startswith("_Z"):
        facts.update(typed(argument_types(structure.args) or packed_types(structure.base)))
    elif facts.get("dtype") is None:
        _type_by_suffix(structure.base, facts)
    return Decoded(demangled=text, short_name=short, match_name=match, **facts)


def decode_many(names: Sequence[tuple[str, str]]) -> list[Decoded]:
    """Decode (name, kind) pairs; equal pairs are decoded once."""
    return [decode(name, kind) for name, kind in names]
