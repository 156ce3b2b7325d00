"""Rows of a long trace on their way from one step of a reader to the next, in order of a key and in little memory.

Few rows stay where they are. Many are sorted some at a time and written beside the conversion; whoever needs those
between two keys gets them from every such run. Memory is bounded by what is held and by what is asked for at once.
"""

from __future__ import annotations

import dataclasses
import shutil
import threading
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Final

import polars as pl

from kerneldb import limits
from kerneldb.batch import write_run

HELD_BYTES: Final = 64 << 20
"""What all runs of a shelf may hold in memory."""
SAMPLED: Final = 256
"""Of so many rows of a run one key is remembered: more than what is asked for is read by that much."""

Stretch = tuple[int | None, int | None]
"""First key of a stretch and first key behind it; None: from the beginning, to the end and what has no key."""


class Shelf:
    """What is held in memory of all `runs`; over `HELD_BYTES` it goes into files of `folder`, if there is one.

    One thread may read some of its runs while others add to other ones: whoever does either has its `lock`.
    """

    def __init__(self, folder: Path | None = None) -> None:
        self.lock = threading.RLock()
        self._folder = folder
        self._runs: list[Runs] = []
        self._held = 0

    def runs(self, key: str) -> Runs:
        """New rows in order of the column `key`."""
        self._runs.append(Runs(self, key))
        return self._runs[-1]

    def took(self, size: int) -> None:
        """Note that runs of it hold so many bytes more."""
        self._held += size
        if self._folder is None or self._held < HELD_BYTES:
            return
        limits.check_memory()
        for number, runs in enumerate(self._runs):
            runs.put_away(self._folder, f"{number}-")
        self._held = 0

    def clear(self) -> None:
        """Remove all files."""
        if self._folder is not None:
            shutil.rmtree(self._folder, ignore_errors=True)


@dataclasses.dataclass(frozen=True, slots=True)
class _Run:
    """Rows in order of their key: `keys` are some of it, without NULL, which is at the end."""

    rows: pl.DataFrame | Path
    height: int
    keys: pl.Series

    def between(self, stretch: Stretch) -> pl.DataFrame | None:
        """Rows of the stretch, and a few more."""
        low, high = stretch
        start = 0 if low is None else max(int(self.keys.search_sorted(low)) - 1, 0) * SAMPLED
        end = self.height if high is None else min(int(self.keys.search_sorted(high)) * SAMPLED, self.height)
        if start >= end:
            return None
        if isinstance(self.rows, pl.DataFrame):
            return self.rows.slice(start, end - start)
        return pl.scan_ipc(self.rows).slice(start, end - start).collect()


class Runs:
    """Rows in order of the column `key`; `height` counts them, `columns` are those that any of them has."""

    def __init__(self, shelf: Shelf, key: str) -> None:
        self.key = key
        self.height = 0
        self.columns: dict[str, pl.DataType] = {}
        self._shelf = shelf
        self._held: list[pl.DataFrame] = []
        self._runs: list[_Run] = []

    def add(self, frame: pl.DataFrame) -> None:
        """Take rows; frames may lack columns that others have."""
        with self._shelf.lock:
            self.columns |= frame.schema
            if frame.height:
                self.height += frame.height
                self._held.append(frame)
                self._shelf.took(int(frame.estimated_size()))

    def put_away(self, folder: Path, prefix: str) -> None:
        """Write what is held as a run. Raises OSError where the disk is full or cannot be written."""
        frame = self._gathered()
        if frame is not None:
            path = folder / f"{prefix}{len(self._runs)}.ipc"
            write_run(frame, path)
            self._runs.append(_Run(path, frame.height, _some(frame[self.key])))

    def _gathered(self) -> pl.DataFrame | None:
        """What is held, in order, and held no more."""
        if not self._held:
            return None
        held, self._held = self._held, []
        rows = pl.concat(held, how="diagonal")
        in_order = rows[self.key].is_sorted(nulls_last=True)
        return rows if in_order else rows.sort(self.key, nulls_last=True, maintain_order=True)

    def _all(self) -> list[_Run]:
        with self._shelf.lock:
            frame = self._gathered()
            if frame is not None:
                self._runs.append(_Run(frame, frame.height, _some(frame[self.key])))
            return self._runs

    def between(self, stretch: Stretch) -> pl.DataFrame:
        """The rows of a stretch, run by run."""
        found = [part for run in self._all() if (part := run.between(stretch)) is not None]
        if not found:
            return pl.DataFrame(schema=self.columns)
        rows, key = pl.concat(found, how="diagonal"), pl.col(self.key)
        low, high = stretch
        if low is not None:
            rows = rows.filter((key >= low) | key.is_null())
        return rows if high is None else rows.filter(key < high)

    def each(self, *columns: str) -> Iterator[pl.DataFrame]:
        """These columns of all rows, run by run; those that are not there are left out."""
        for run in self._all():
            rows = run.rows.lazy() if isinstance(run.rows, pl.DataFrame) else pl.scan_ipc(run.rows)
            yield rows.select(name for name in columns if name in rows.collect_schema()).collect()

    def sampled(self) -> list[pl.Series]:
        """Some keys of every run, one for `SAMPLED` rows."""
        return [run.keys for run in self._all()]

    def clear(self) -> None:
        """Forget the rows."""
        for run in self._runs:
            if isinstance(run.rows, Path):
                run.rows.unlink()
        self._held, self._runs = [], []


def _some(keys: pl.Series) -> pl.Series:
    return keys.gather_every(SAMPLED).drop_nulls()


def gathered(frame: pl.DataFrame, rows: pl.Series) -> pl.DataFrame:
    """The rows of these numbers; NULL for those without one."""
    return pl.DataFrame([column.gather(rows) for column in frame.get_columns()])


def stretches(runs: Sequence[Runs], rows: int) -> list[Stretch]:
    """Stretches of keys that have about so many rows of all `runs` each, in order."""
    keys = [some for one in runs for some in one.sampled() if some.len()]
    if sum(one.height for one in runs) <= rows or not keys:
        return [(None, None)]
    cuts = pl.concat(keys).sort().gather_every(max(rows // SAMPLED, 1))[1:].unique(maintain_order=True).to_list()
    return list(zip([None, *cuts], [*cuts, None], strict=True))
