"""The examples of docs/python-api.md run as they stand."""

from __future__ import annotations

import re
import shutil
from pathlib import Path

import pytest


def test_python_examples_run(root: Path, small_trace: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    shutil.copy(small_trace, tmp_path / "trace.json.gz")
    monkeypatch.chdir(tmp_path)
    text = (root / "docs" / "python-api.md").read_text(encoding="utf-8")
    blocks = re.findall(r"^```python\n(.*?)^```", text, re.MULTILINE | re.DOTALL)
    assert len(blocks) >= 6
    names: dict[str, object] = {}
    for block in blocks:
        exec(compile(block, "docs/python-api.md", "exec"), names)  # noqa: S102 (our own documentation)
