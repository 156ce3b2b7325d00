"""Every line of the threat model names tests, and they are there."""

from __future__ import annotations

import ast
import re
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pathlib import Path

NAMED = re.compile(r"`(tests/[\w/]+\.py)(?:::(\w+))?`")


def named_in(path: Path) -> set[str]:
    nodes = ast.walk(ast.parse(path.read_text(encoding="utf-8")))
    return {node.name for node in nodes if isinstance(node, ast.FunctionDef) and node.name.startswith("test_")}


def test_every_named_test_is_there(root: Path) -> None:
    named = [
        found
        for page in ("docs/security.md", "SECURITY.md")
        for found in NAMED.findall((root / page).read_text(encoding="utf-8"))
    ]
    files = {name: named_in(root / name) if (root / name).is_file() else set() for name, _ in named}
    assert [(name, test) for name, test in named if not files[name] or (test and test not in files[name])] == []
    assert len(named) > 40


def test_every_line_names_one(root: Path) -> None:
    for page in ("docs/security.md", "SECURITY.md"):
        rows = [line for line in (root / page).read_text(encoding="utf-8").splitlines() if line.startswith("| ")]
        assert [row for row in rows[1:] if not NAMED.search(row)] == []
