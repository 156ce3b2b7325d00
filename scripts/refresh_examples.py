"""Run the console blocks of README.md and docs/*.md as the tests do, and write what the commands print now.

    python -m scripts.refresh_examples [DOCUMENT...]

Run from the repository, with the development tools installed. Output that still agrees is left as it is. A line `…`
goes between the lines that are now most like those around it.
"""

from __future__ import annotations

import difflib
import itertools
import re
import sys
import tempfile
from pathlib import Path
from typing import Final

from tests.docs.test_documents import BLOCK, DOCUMENTS, ROOT, agrees, normal, run_in_shell, run_kerneldb

ELISION: Final = "…"
EXAMPLE: Final = re.compile(r"^\$ .*\n(?:> .*\n)*", re.MULTILINE)


def refreshed(block: str, folder: Path) -> str:
    """The block with what its commands print in `folder`."""
    commands = EXAMPLE.findall(block)
    printed = EXAMPLE.split(block)
    parts = [printed[0]]
    for command, expected in zip(commands, printed[1:], strict=True):
        text = command[2:].replace("\n> ", "\n").rstrip("\n")
        found = run_kerneldb(text, folder) if text.startswith("kerneldb ") else None
        actual = [line.rstrip() for line in (run_in_shell(text, folder) if found is None else found).splitlines()]
        parts += [command, *(line + "\n" for line in merged(expected.splitlines(), actual))]
    return "".join(parts)


def merged(expected: list[str], actual: list[str]) -> list[str]:
    """The lines `actual`, shortened as `expected` is; `expected` itself where it agrees."""
    old, new = ([normal(line) for line in lines if line.strip()] for lines in (expected, actual))
    if agrees(old, new):
        return expected
    actual = [line for line in actual if line or "" in expected]
    parts = [list(part) for is_gap, part in itertools.groupby(expected, ELISION.__eq__) if not is_gap]
    if ELISION not in expected or not parts:
        return actual
    lines: list[str] = []
    end = 0
    for number, part in enumerate(parts):
        size = min(len(part), len(actual) - end)
        starts = range(end, len(actual) - size + 1)
        if number == 0 and expected[0] != ELISION:
            start = 0
        elif number == len(parts) - 1 and expected[-1] != ELISION:
            start = starts[-1]
        else:
            start = max(starts, key=lambda place: likeness(part, actual[place : place + len(part)]))
        lines += [ELISION] * (start > end) + actual[start : start + size]
        end = start + size
    return lines + [ELISION] * (end < len(actual))


def likeness(lines: list[str], others: list[str]) -> float:
    """How much lines are like others, from 0 to 1 each."""
    pairs = zip(lines, others, strict=False)
    return sum(difflib.SequenceMatcher(None, normal(one), normal(other)).ratio() for one, other in pairs)


def main() -> None:
    """Refresh the documents that are named, by default all."""
    for document in map(Path, sys.argv[1:] or DOCUMENTS):
        text = document.read_text(encoding="utf-8")
        with tempfile.TemporaryDirectory() as name:
            folder = Path(name)
            for shared in ("examples", "tests"):
                (folder / shared).symlink_to(ROOT / shared)
            new = BLOCK.sub(lambda block, here=folder: f"```console\n{refreshed(block[1], here)}```", text)
        if new != text:
            document.write_text(new, encoding="utf-8")


if __name__ == "__main__":
    main()
