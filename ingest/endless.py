"""Views of a stranger's SQLite database that would keep a reader busy without end."""

from __future__ import annotations

import itertools
import re
import sqlite3
from collections import Counter
from collections.abc import Iterable
from pathlib import Path
from typing import Final

from kerneldb.errors import UnreadableTraceError

EXPORT_AGAIN: Final = "Copy it again, or export it again with the profiler."
RECURSIVE: Final = "RECURSIVE STEP"
LOOP: Final = re.compile(r"SCAN (?!CONSTANT)|SEARCH .*[<>]")
"""A part of a plan that reads all rows of a table, or a range of them: a join of profilers looks each row up."""
STEPS: Final = 1_000_000
LEAST_STEPS: Final = 50_000_000
STEPS_PER_BYTE: Final = 10
"""Steps of SQLite's machine: to go through a table takes less than one for each of its bytes."""


def refuse(path: Path, connection: sqlite3.Connection, views: Iterable[str]) -> None:
    """Raise UnreadableTraceError where rows of one of these views may never end, before any is asked for."""
    for view in sorted(views):
        named = '"' + view.replace('"', '""') + '"'
        plan = connection.execute(" ".join(("EXPLAIN QUERY PLAN SELECT * FROM", named))).fetchall()
        loops = Counter(parent for _, parent, _, detail in plan if LOOP.match(detail))
        if any(RECURSIVE in detail for *_, detail in plan):
            why = "is recursive and may never end"
        elif max(loops.values(), default=0) > 1 and not _ends(connection, named, path.stat().st_size):
            why = "pairs rows of tables, far more than the file has"
        else:
            continue
        raise UnreadableTraceError(f"{path}: its view {view} {why}, which no profiler writes. {EXPORT_AGAIN}")


def _ends(connection: sqlite3.Connection, view: str, size: int) -> bool:
    """Whether SQLite counts the rows of a view in steps that a file of this size may need."""
    left = itertools.repeat(0, (LEAST_STEPS + STEPS_PER_BYTE * size) // STEPS)
    connection.set_progress_handler(lambda: next(left, 1), STEPS)
    try:
        connection.execute(" ".join(("SELECT count(*) FROM", view))).fetchone()
    except sqlite3.OperationalError as error:
        if "interrupted" not in str(error):
            raise
        return False
    finally:
        connection.set_progress_handler(None, 0)
    return True
