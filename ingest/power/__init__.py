"""Power logs of nvidia-smi: `--query-gpu=… --format=csv`, and `dmon` as text or CSV."""

from __future__ import annotations

from typing import Final

from kerneldb.ingest.readers import Head, Later, Reader


def _fits(head: Head) -> bool:
    from kerneldb.ingest.power.log import looks_like

    return looks_like(head.data)


READER: Final = Reader("nvidia-smi", (".csv", ".dmon"), _fits, Later("power.convert"), Later("power.diagnostics"))
