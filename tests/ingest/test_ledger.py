"""Patterns of what a reader leaves out are passed by where the first letters differ, and mean the same."""

from __future__ import annotations

import re

import pytest

from kerneldb.ingest import ledger
from kerneldb.ingest.amd import unread
from kerneldb.ingest.pytorch import census

PATTERNS = (
    *("", "ab", "ab?", "ab*c", "ab{0}c", "a b: .*", "ab|cd", "(ab|cd)e", "a(b|c)", r"a\.b", ".*: id", "a+b", "(?i)AB"),
    *census.ARGUMENTS.skipped, *census.MARKS.skipped, *unread.RPD.skipped, *unread.ROCPD.skipped,
)  # fmt: skip
NAMES = (
    "",
    "a",
    "ab",
    "abc",
    "ac",
    "a.b",
    "aab",
    "cd",
    "abe",
    "cde",
    "a b: c",
    "x: id",
    "AB",
    "cpu_op: Python id",
    *PATTERNS,
)


@pytest.mark.parametrize("pattern", dict.fromkeys(PATTERNS))
def test_a_pattern_is_that_of_a_regular_expression(pattern: str) -> None:
    found = [name for name in NAMES if ledger._is_like(pattern, name)]
    assert found == [name for name in NAMES if re.fullmatch(pattern, name)]
