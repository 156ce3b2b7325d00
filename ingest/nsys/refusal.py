"""What is said of report files of the profiler itself."""

from __future__ import annotations

from kerneldb.errors import NotATraceError
from kerneldb.ingest.nsys import sniff
from kerneldb.ingest.readers import Head
from kerneldb.shell import command_line, file


def refusal(head: Head) -> NotATraceError:
    """Which command makes of a report file (`*.nsys-rep`) one that can be read."""
    name = head.path.name
    stem = next((name.removesuffix(one) for one in sniff.REPORT_ENDINGS if name.endswith(one)), head.path.stem)
    version = sniff.writer_of(head)
    writer = f" ({version})" if version else ""
    words = "nsys", "export", "--type", "sqlite", "--output", file(f"{stem}.sqlite"), file(name)
    message = (
        f"{head.path}: a report file of Nsight Systems, which only nsys reads. Export it: "
        f"`{command_line(words)}`. It needs an nsys that is not older than the writer{writer}."
    )
    return NotATraceError(message)
