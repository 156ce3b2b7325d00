"""Converts one capture of Nsight Systems, in whichever form it was handed over."""

from __future__ import annotations

import shlex
import tempfile
from pathlib import Path
from typing import Final

from kerneldb.batch import Manifest
from kerneldb.errors import NotATraceError
from kerneldb.ingest import readers, sqlite
from kerneldb.ingest.nsys import heads, printed
from kerneldb.ingest.options import Options, Progress
from kerneldb.ingest.readers import Unit

LATEST: Final = "It needs an nsys that is not older than the writer{writer}"


def convert(unit: Unit, folder: Path, options: Options, progress: Progress | None) -> Manifest:
    """Convert a capture into the spool `folder`.

    Raises NotATraceError for files that nsys has to export or print first, with the command; UnreadableTraceError for
    damaged ones.
    """
    path = unit.files[0]
    if len(unit.files) > 1 or path.suffix == ".parquet":
        from kerneldb.ingest.nsys import exported

        return exported.convert_folder(unit, folder, options, progress)
    head = readers.head_of(path)
    if heads.is_report_file(head):
        raise _report_file(head)
    if not sqlite.is_database(head.data):
        return printed.convert(path, folder, options, progress)
    from kerneldb.ingest.nsys import exported

    with tempfile.TemporaryDirectory(
        prefix="kerneldb-nsys-", dir=folder.parent if folder.parent.is_dir() else None
    ) as place:
        return exported.convert_file(path, Path(place), folder, options, progress)


def _report_file(head: readers.Head) -> NotATraceError:
    name = head.path.name
    stem = next((name.removesuffix(one) for one in heads.REPORT_ENDINGS if name.endswith(one)), head.path.stem)
    writer = heads.writer_of(head)
    newer = LATEST.format(writer=f" ({writer})" if writer else "")
    message = (
        f"{head.path}: a report file of Nsight Systems, which only nsys reads. Export it: "
        f"`nsys export --type sqlite --output {shlex.quote(f'{stem}.sqlite')} {shlex.quote(name)}`. {newer}."
    )
    return NotATraceError(message)
