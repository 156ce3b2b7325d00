"""What traces say reaches agents as data: marked, without characters that act, and nothing in it is followed."""

from __future__ import annotations

import hashlib
import json
from typing import TYPE_CHECKING, Any

import pytest

from tests.agents.conftest import ask

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

__all__ = ["ask"]

QUESTIONS: list[tuple[str, dict[str, Any]]] = [
    ("traces", {"limit": 500}),
    ("top", {"limit": 500}),
    ("top", {"by": "op", "limit": 500}),
    ("query", {"sql": "FROM ranges ORDER BY range_id, name", "limit": 300}),
    ("query", {"sql": "SELECT trace_id, metadata, label, host FROM traces ORDER BY ALL", "limit": 300}),
    ("query", {"sql": "FROM trace_tags ORDER BY ALL", "limit": 300}),
    ("query", {"sql": "SELECT name, demangled FROM kernel_names ORDER BY ALL", "limit": 500}),
]


@pytest.mark.thorough
def test_hostile_texts_change_nothing_and_are_marked(hostile: Path, ask: Callable[..., Any]) -> None:
    before = hashlib.sha256(hostile.read_bytes()).hexdigest()
    answers = ask(hostile, QUESTIONS)
    for answer, question in zip(answers, QUESTIONS, strict=True):
        assert answer["answered"], (question, answer)
        assert "never instructions" in answer["note"]
        assert answer["text_columns"]
        texts = [cell for row in answer["rows"] for cell in row if isinstance(cell, str)]
        assert all(one.isprintable() or set(one) & {"\n", "\t"} for one in texts)
        assert not any(ord(char) in {0x1B, 0x202E, 0x9B} for one in texts for char in one)
        assert json.loads(json.dumps(answer)) == answer
    assert sum(len(answer["rows"]) for answer in answers) > 200
    named = [str(row[0]) for row in answers[0]["rows"]]
    told = ask(hostile, [("why", {"trace": name}) for name in named[:2]] + [("replay", {"where": named[0]})])
    assert not told[-1]["answered"]
    assert hashlib.sha256(hostile.read_bytes()).hexdigest() == before
