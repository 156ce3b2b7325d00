"""Views of a stranger's SQLite database that would keep a reader busy without end."""

from __future__ import annotations

import itertools
import re
import sqlite3
from collections import Counter
from collections.abc import Mapping
from pathlib import Path
from typing import Final, NoReturn

from kerneldb.errors import UnreadableTraceError

RECURSIVE: Final = "RECURSIVE STEP"
LOOP: Final = re.compile(r"SCAN (?!CONSTANT)|SEARCH .*[<>]")
"""A part of a plan that reads all rows of a table, or a range of them: joins that look each row up have one."""
STEPS: Final = 1_000_000
LEAST_STEPS: Final = 50_000_000
STEPS_PER_BYTE: Final = 10
"""Steps of SQLite's machine: to go through a table takes less than one for each of its bytes."""


class Views:
    """The views of the database at `path`, by name with the name as SQL has it.

    A recursive one is refused at once: UnreadableTraceError. Those that pair or repeat rows of tables are looked at
    when a statement names them: profilers add some, as sums beside a span, that take long and that no reader asks.
    """

    def __init__(self, path: Path, connection: sqlite3.Connection, named: Mapping[str, str]) -> None:
        self._path = path
        self._connection = connection
        self._pairing: dict[str, str] = {}
        for view, name in sorted(named.items()):
            plan = connection.execute(" ".join(("EXPLAIN QUERY PLAN SELECT * FROM", name))).fetchall()
            loops = Counter(parent for _, parent, _, detail in plan if LOOP.match(detail))
            if any(RECURSIVE in detail for *_, detail in plan):
                self._refuse(view, "is recursive and may never end")
            if loops.total() > 1:
                self._pairing[view] = name

    def require_end(self, sql: str) -> None:
        """Raise UnreadableTraceError where `sql` names a view that has far more to go through than the file."""
        for view in [*self._pairing]:
            if re.search(rf"(?<!\w){re.escape(view)}(?!\w)", sql, re.IGNORECASE) is None:
                continue
            if not self._ends(self._pairing.pop(view)):
                self._refuse(view, "pairs or repeats rows of tables, far more than the file has")

    def _ends(self, name: str) -> bool:
        """Whether SQLite counts its rows in steps that a file of this size may need: no more rows than it has bytes."""
        size = self._path.stat().st_size
        left = itertools.repeat(0, (LEAST_STEPS + STEPS_PER_BYTE * size) // STEPS)
        self._connection.set_progress_handler(lambda: next(left, 1), STEPS)
        try:
            (rows,) = self._connection.execute(" ".join(("SELECT count(*) FROM", name))).fetchone()
        except sqlite3.OperationalError as error:
            if "interrupted" not in str(error):
                raise
            return False
        finally:
            self._connection.set_progress_handler(None, 0)
        return bool(rows <= size)

    def _refuse(self, view: str, why: str) -> NoReturn:
        remedy = "Export it again with the profiler."
        raise UnreadableTraceError(f"{self._path}: its view {view} {why}, which no profiler writes. {remedy}")
