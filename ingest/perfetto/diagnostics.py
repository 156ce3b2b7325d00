"""What `kerneldb doctor` says of Perfetto traces: as of AMD's other formats; names that the file lacks are counted."""

from __future__ import annotations

from kerneldb.ingest.amd.diagnostics import diagnostics

__all__ = ["diagnostics"]
