"""Decoding: demangle, parse, find the rule, read the rest."""

from __future__ import annotations

from functools import lru_cache
from typing import TYPE_CHECKING

from kerneldb.names import (
    rules_aten,
    rules_attention,
    rules_compiled,
    rules_convolution,
    rules_gemm,
    rules_serving,
    rules_system,
)
from kerneldb.names.demangling import demangle, strip_suffixes
from kerneldb.names.dtypes import distinct, element_type
from kerneldb.names.model import Decoded
from kerneldb.names.shortening import shorten
from kerneldb.names.structure import parse

if TYPE_CHECKING:
    from collections.abc import Sequence

    from kerneldb.names.model import Facts
    from kerneldb.names.rules import Rule
    from kerneldb.names.structure import Structure

DERIVER_VERSION: int = 5

# The order matters: exact symbols of libraries first, then engines, then ATen's broad patterns, then guesses by word.
RULES: tuple[Rule, ...] = (
    *rules_system.RULES,
    *rules_compiled.INDUCTOR,
    *rules_serving.EARLY,
    *rules_attention.RULES,
    *rules_gemm.RULES,
    *rules_convolution.RULES,
    *rules_aten.RULES,
    *rules_compiled.HAND_WRITTEN,
    *rules_serving.LATE,
)
# Longer heads are garbage or text; patterns are searched in this much of them.
_HEAD_LIMIT = 400


@lru_cache(maxsize=20_000)
def _rule_for(head: str) -> Rule | None:
    """Return the first rule whose pattern occurs in the head."""
    return next((rule for rule in RULES if rule.pattern.search(head)), None)


def _rule(name: Structure, kind: str) -> Rule | None:
    """Return the rule for a name; a copy or fill event is one whatever its name says."""
    found = _rule_for(name.head[:_HEAD_LIMIT])
    wanted = {"memcpy": ("MEMCPY", rules_system.MEMCPY), "memset": ("MEMSET", rules_system.MEMSET)}.get(kind)
    if wanted is None or (found is not None and found.facts.get("category") == wanted[0]):
        return found
    return wanted[1]


def _read(rule: Rule, structure: Structure) -> Facts:
    """Let the rule's reader read the rest of a name."""
    if rule.reader is None:
        return {}
    try:
        return rule.reader(structure)
    except ValueError:  # A number with more digits than int() accepts: this is no kernel's name.
        return {}


def _type_by_suffix(base: str, facts: Facts) -> None:
    """Take the element type from the end of a function's name (``rms_norm_f32``), the last resort."""
    _, _, suffix = base.removesuffix("_kernel").rpartition("_")
    if suffix in {"f32", "f16", "bf16", "fp16", "fp32", "f64", "half", "float"}:
        facts["dtype"] = element_type(suffix)
        facts["dtypes"] = distinct([facts["dtype"]])


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
    found = _rule(structure, kind)
    text = strip_suffixes(demangle(name))
    short, match = shorten(structure), structure.canonical
    if found is None:
        return Decoded(text, short, match, "OTHER")
    facts = found.facts.copy()
    facts.update(_read(found, structure))
    if facts.get("dtype") is None:
        _type_by_suffix(structure.base, facts)
    return Decoded(demangled=text, short_name=short, match_name=match, **facts)


def decode_many(names: Sequence[tuple[str, str]]) -> list[Decoded]:
    """Decode (name, kind) pairs; equal pairs are decoded once."""
    return [decode(name, kind) for name, kind in names]
