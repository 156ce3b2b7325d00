"""Patterns that are compiled when needed find what the regular expressions find."""

from __future__ import annotations

import re

import pytest

from kerneldb.names.patterns import Pattern, Patterns, alternatives
from kerneldb.names.tables import rows_of

PATTERNS = [row["pattern"] for row in rows_of("rules.csv")]
TEXTS = [
    re.sub(r"\(\?[:!=<]+|[()\[\]?*+^$|\\]|\{\d.*\}", "", one) for pattern in PATTERNS for one in alternatives(pattern)
]
"""What is left of the patterns without what means something in them: each matches some of them, at least in part."""


def test_rules_that_match_are_never_passed_by() -> None:
    """Each pattern anew for each text, since after the first match it is an ordinary expression."""
    found = {(pattern, text) for pattern in PATTERNS for text in TEXTS if re.search(pattern, text)}
    assert len({pattern for pattern, _ in found}) > len(PATTERNS) * 0.7
    assert [pair for pair in found if not Pattern(pair[0]).occurs_in(pair[1])] == []


def test_the_first_rule_is_found_by_its_letters() -> None:
    rules = Patterns([Pattern(one) for one in PATTERNS])
    compiled = [re.compile(one) for one in PATTERNS]
    for text in (*TEXTS, *(f"x_{text}" for text in TEXTS), "", "k", "xy"):
        found = next((number for number, one in enumerate(compiled) if one.search(text)), None)
        assert rules.first_in(text) == found, text


@pytest.mark.parametrize(
    ("pattern", "matching", "other"),
    [
        ("^ab?c|d{2}", ["ac", "abcd", "xddx"], ["xac", "d"]),
        ("a(b|c)|^x$", ["ac", "zab", "x"], ["a", "xx"]),
        (r"[)|(]x|\|y", [")x", "|x", "|y"], ["x", "y"]),
        ("[^]|]z", ["az"], ["]z", "|z"]),
        ("", ["", "a"], []),
        (r"\bk", ["a k"], ["ak"]),
    ],
)
def test_alternatives_and_their_beginnings(pattern: str, matching: list[str], other: list[str]) -> None:
    """Bars inside of brackets part nothing, and letters that may be absent need not be there."""
    assert [text for text in matching if not Pattern(pattern).occurs_in(text)] == []
    assert [text for text in other if Pattern(pattern).occurs_in(text)] == []
