"""Records a model or a script into a folder, and ingests it."""

from __future__ import annotations

import dataclasses
from pathlib import Path
from typing import TYPE_CHECKING, Any

from kerneldb.api.ingestion import IngestOptions, Outcome
from kerneldb.replay.recording import bundle, ranks

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    import pyarrow as pa

    from kerneldb.api import Database
    from kerneldb.recordings import Recording
    from kerneldb.replay.recording.settings import Settings


@dataclasses.dataclass(frozen=True, slots=True)
class Recorded:
    """A recording: its folder, what bundle.json in it holds, and what became of its traces in the database.

    `contents` is that of every rank, one where there are no ranks. `complete` is false where a workload could not be
    recorded; `table` then has the reason.
    """

    folder: Path
    contents: tuple[Recording, ...]
    complete: bool
    outcomes: tuple[Outcome, ...] = ()

    def table(self) -> pa.Table:
        """One row per workload and mode, of each rank; figures are per iteration, NULL where unknown."""
        return table(self.contents)

    @property
    def content(self) -> Recording:
        """What bundle.json holds, of the first rank where there are several."""
        return self.contents[0]


def record(
    database: Database | None,
    settings: Settings,
    folder: Path | None = None,
    *,
    resume: bool = False,
    listen: Callable[[Mapping[str, Any]], None] | None = None,
) -> Recorded:
    """Record what `settings` (see `kerneldb.replay.recording.settings.resolved`) say, and ingest it into `database`.

    The folder is named by model and settings unless given. Raises RecordError without PyTorch, device or memory,
    UsageError where the folder has another recording.
    """
    target = folder or Path(settings.bundle_name)
    complete = ranks.run(settings, target, resume=resume, listen=listen or (lambda _: None))
    outcomes = () if database is None else tuple(database.ingest_each([target], IngestOptions()))
    return Recorded(target, tuple(bundle.read_all(target)), complete, outcomes)


def table(contents: Sequence[Recording]) -> pa.Table:
    """The rows of recordings, one per workload and mode of each rank."""
    import pyarrow as pa

    texts, counts = ("workload", "mode", "reason"), ("rank", "iterations", "launches")
    kinds = {**dict.fromkeys(texts, pa.string()), **dict.fromkeys(counts, pa.int64())}
    rows = bundle.rows(contents)
    columns = {}
    for name in bundle.columns(contents):
        values = [one[name] for one in rows]
        if name in counts:
            values = [None if value is None else round(value) for value in values]
        columns[name] = pa.array(values, kinds.get(name, pa.float64()))
    return pa.table(columns)
