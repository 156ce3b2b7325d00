"""What a reader hands over: Parquet parts per warehouse table, and a manifest that names them.

A reader writes frames with `Spool.write` while it still parses, so memory stays flat, and closes with `Spool.finish`.
The warehouse commits a finished manifest in one transaction. No database is involved before that, so readers run
anywhere and in parallel; a spool folder left behind by a killed process holds nothing that anyone else needs.
"""

from __future__ import annotations

import contextlib
import dataclasses
import json
from collections import defaultdict, deque
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from kerneldb import files, limits

if TYPE_CHECKING:
    from collections.abc import Iterator
    from concurrent.futures import Future, ThreadPoolExecutor

    import polars as pl

MANIFEST_NAME = "manifest.json"
MANIFEST_VERSION = 1
PART_ROWS: Final = 61_440
"""Rows of a part, but for the last ones: a row group (`session.sql`), which DuckDB puts together anew of others."""
MANY_ROWS: Final = 1 << 15
"""Parts of fewer rows are written at once: a thread costs more than that."""
SPARSE: Final = ("launches", "ops", "api_calls", "ranges")
"""Tables with columns that whole traces leave NULL, whose long parts leave them out: writing NULL takes as long."""
WRITERS: Final = 4
"""Parts that are being written while the reader goes on; more would only hold memory."""


@dataclasses.dataclass(frozen=True, slots=True)
class Manifest:
    """A finished conversion of one trace.

    `parts` maps a table name to its Parquet files, in row order. `rows` counts their rows. `trace` repeats the row of
    `traces` so that callers need not read Parquet to name what they commit. `tags` are notes that the files carry.
    """

    trace_id: str
    name: str
    folder: Path
    trace: dict[str, Any]
    parts: dict[str, list[Path]]
    rows: dict[str, int]
    tags: dict[str, str] = dataclasses.field(default_factory=dict)

    @classmethod
    def load(cls, folder: Path) -> Manifest:
        """Read the manifest of a spool folder. Raises FileNotFoundError where the conversion did not finish."""
        raw = json.loads((folder / MANIFEST_NAME).read_text(encoding="utf-8"))
        parts = {table: [folder / name for name in names] for table, names in raw["parts"].items()}
        return cls(raw["trace_id"], raw["name"], folder, raw["trace"], parts, raw["rows"])


def write_part(frame: pl.DataFrame, path: Path) -> None:
    """Write the Parquet file `path`. Raises OSError where the disk is full or cannot be written."""
    with _disk_errors(path):
        frame.write_parquet(path, compression="uncompressed", statistics=False, row_group_size=PART_ROWS)


def _stated(frame: pl.DataFrame) -> pl.DataFrame:
    """`frame` without the columns that no row has; but with its start, by which the commit tells timelines."""
    import polars as pl

    stated = frame.select(
        column for column in frame.get_columns() if column.name == "start_ns" or column.null_count() < frame.height
    )
    if "trace_id" not in stated.columns:
        return stated
    trace = stated["trace_id"][0]  # as a code: the same text in every row
    return stated.with_columns(trace_id=pl.lit(trace, dtype=pl.Enum([trace])))


def write_run(frame: pl.DataFrame, path: Path) -> None:
    """Write `path`, in a folder made for it, so that parts of it are read fast. Raises OSError as `write_part` does."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with _disk_errors(path):
        frame.write_ipc(path)


@contextlib.contextmanager
def _disk_errors(path: Path) -> Iterator[None]:
    import polars as pl

    try:
        yield
    except pl.exceptions.ComputeError:  # an error of the system in the words of the format: ask the system itself
        path.with_suffix(".probe").write_bytes(bytes(files.PROBE_BYTES))
        raise


class Spool:
    """Writes the parts of one trace into `folder` (created when missing; must be empty).

    `guard` looks at the times of all rows: whoever closes the trace reports what was `refused`.
    """

    def __init__(self, folder: Path) -> None:
        from kerneldb.times import Guard

        folder.mkdir(parents=True, exist_ok=True)
        self.folder = folder
        self.guard = Guard()
        self._parts: dict[str, list[str]] = defaultdict(list)
        self._rows: dict[str, int] = defaultdict(int)
        self._held: dict[str, list[pl.DataFrame]] = defaultdict(list)
        self._writers: ThreadPoolExecutor | None = None
        self._pending: deque[Future[None]] = deque()

    def write(self, table: str, frame: pl.DataFrame) -> None:
        """Append `frame` to `table`, without times that cannot be true.

        Columns are matched by name at commit; missing ones become NULL. Few rows wait for more of the same columns, and
        many are written by threads: what goes wrong there is raised by a later call.
        """
        if frame.height == 0:
            return
        from kerneldb import repeated

        limits.check_memory()
        frame = self.guard.checked(table, frame)
        repeated.check(table, frame)
        held = self._held[table]
        if held and held[0].schema != frame.schema:
            self._put(table)
        self._rows[table] += frame.height
        self._held[table].append(frame)
        self._put(table, PART_ROWS)

    def _put(self, table: str, least: int = 1) -> None:
        """Write what is held of `table`, in parts of `PART_ROWS`, until fewer than `least` rows are left."""
        held = self._held[table]
        if sum(frame.height for frame in held) < least:
            return
        import polars as pl

        from kerneldb import repeated

        rows = pl.concat(held)
        while rows.height >= least:
            for part in repeated.in_parts(rows.head(PART_ROWS)):
                self._write_part(table, part)
            rows = rows.slice(PART_ROWS)
        self._held[table] = [rows] if rows.height else []

    def _write_part(self, table: str, frame: pl.DataFrame) -> None:
        from kerneldb import repeated

        name = f"{table}.{len(self._parts[table]):05d}.parquet"
        self._parts[table].append(name)
        if frame.height < MANY_ROWS:
            write_part(repeated.plain(frame), self.folder / name)
        else:
            self._write_beside(_stated(frame) if table in SPARSE else frame, self.folder / name)

    def _write_beside(self, frame: pl.DataFrame, path: Path) -> None:
        from concurrent.futures import ThreadPoolExecutor

        most = min(files.cores(), WRITERS)
        self._writers = self._writers or ThreadPoolExecutor(most, thread_name_prefix="kerneldb-spool")
        self._settle(most - 1)
        self._pending.append(self._writers.submit(write_part, frame, path))

    def _settle(self, left: int = 0) -> None:
        """Wait until no more than `left` parts are being written. Raises what went wrong."""
        while len(self._pending) > left:
            self._pending.popleft().result()

    def replace(self, table: str, frame: pl.DataFrame) -> None:
        """Write `frame` instead of everything written to `table` so far."""
        self._put(table)
        self._settle()
        for name in self._parts.pop(table, []):
            (self.folder / name).unlink()
        self._rows.pop(table, None)
        self.write(table, frame)

    def paths(self, table: str) -> list[Path]:
        """The parts of `table` written so far."""
        self._put(table)
        self._settle()
        return [self.folder / name for name in self._parts.get(table, [])]

    def refused(self) -> list[tuple[str, int, str]]:
        """Reason, number of events and example of what was refused since this was asked last; for the report."""
        taken = list(self.guard.taken())
        if not taken:
            return []
        names = self._names({signature for _, _, (signature, _) in taken if signature is not None})
        return [
            (reason, n, f"{names[signature]}: {text}" if signature in names else text)
            for reason, n, (signature, text) in taken
        ]

    def _names(self, signatures: set[str]) -> dict[str | None, str]:
        """Names of kernels by signature, as far as they were written."""
        import polars as pl

        parts = [self.paths(table) for table in ("signatures", "kernel_names")]
        if not signatures or not all(parts):
            return {}
        known, named = (pl.scan_parquet(paths, missing_columns="insert") for paths in parts)
        wanted = known.filter(pl.col("signature_id").is_in(list(signatures))).select("signature_id", "name_id")
        found = wanted.join(named.select("name_id", "name"), on="name_id").select("signature_id", "name")
        return dict(found.collect().iter_rows())

    def finish(self, trace: dict[str, Any]) -> Manifest:
        """Write the manifest. `trace` is the row of `traces` (JSON-able values), with `trace_id` and `name`.

        Raises RuntimeError where times were refused that are in no report: a fault of the reader.
        """
        for table in list(self._held):
            self._put(table)
        self._settle()
        if self._writers is not None:
            self._writers.shutdown()
        if self.guard.counts:
            message = f"refused and not reported: {', '.join(self.guard.counts)}"
            raise RuntimeError(message)
        content = {
            "version": MANIFEST_VERSION,
            "trace_id": trace["trace_id"],
            "name": trace["name"],
            "trace": trace,
            "parts": dict(self._parts),
            "rows": dict(self._rows),
        }
        temporary = self.folder / (MANIFEST_NAME + ".tmp")
        temporary.write_text(json.dumps(content, indent=1), encoding="utf-8")
        temporary.replace(self.folder / MANIFEST_NAME)
        return Manifest.load(self.folder)
