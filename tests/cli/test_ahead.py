"""Several traces that other processes convert: the outcome is that of one after the other."""

from __future__ import annotations

import gzip
import os
import signal
import subprocess
import sys
from multiprocessing.connection import Pipe
from pathlib import Path

import pytest

import kerneldb
from kerneldb import files as machine
from kerneldb.api import ahead, ingestion
from kerneldb.api.ingestion import IngestOptions, Outcome
from kerneldb.replay import processes

TABLES = ("traces", "launches", "ops", "signatures", "kernel_names", "rollups", "trace_links", "ingest_reports")


@pytest.fixture
def files(small_trace: Path, tmp_path: Path) -> list[Path]:
    """A trace, the same bytes again, a page that is none, the trace with a blank behind it, a missing file, and CSV."""
    text = gzip.decompress(small_trace.read_bytes())
    paths = [tmp_path / f"{name}.json" for name in ("a", "same", "page", "later", "missing")]
    for path, content in zip(paths, (text, text, b"<html>", text + b" "), strict=False):
        path.write_bytes(content)
    paths.append(tmp_path / "1_kernel_trace.csv")
    paths[-1].write_text("Kind,Agent_Id,Kernel_Name,Start_Timestamp,End_Timestamp\nKERNEL_DISPATCH,GPU 0,k,5,9\n")
    return paths


def told(database: Path, files: list[Path], monkeypatch: pytest.MonkeyPatch, workers: int) -> list[Outcome]:
    monkeypatch.setattr(ingestion, "workers_for", lambda _: workers)
    return list(kerneldb.open(database).ingest_each(files, IngestOptions()))


@pytest.mark.thorough
def test_as_one_after_the_other(files: list[Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    databases = [tmp_path / f"{workers}.duckdb" for workers in (0, 2)]
    alone, several = (told(path, files, monkeypatch, workers) for path, workers in zip(databases, (0, 2), strict=True))
    for one, other in zip(alone, several, strict=True):
        assert one.seconds >= 0 <= other.seconds
        facts = [
            (it.path, it.status, it.trace, it.trace_id, it.launches, it.report, str(it.error)) for it in (one, other)
        ]
        assert facts[0] == facts[1]
    assert [one.status for one in several] == ["failed", "ingested", "unchanged", "failed", "ingested", "ingested"]
    for table in TABLES:
        columns = "* EXCLUDE (ingested_at)" if table == "traces" else "*"
        sql = f"SELECT {columns} FROM {table} ORDER BY ALL"
        rows = [kerneldb.open(path).sql(sql).rows() for path in databases]
        assert rows[0] == rows[1]
    assert not list(tmp_path.glob("*.spool-*"))


def test_a_process_that_dies_costs_its_file(files: list[Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    script = f"import os, signal; os.kill(os.getpid(), {int(signal.SIGKILL)})"
    monkeypatch.setattr(processes, "command", lambda *_: (sys.executable, "-c", script))
    (outcome,) = told(tmp_path / "k.duckdb", files[:1], monkeypatch, 1)
    assert "the process that read it ended (signal 9)" in str(outcome.error)
    assert not list(tmp_path.glob("*.spool-*"))


def test_an_ended_caller_ends_its_processes(tmp_path: Path) -> None:
    ours, theirs = Pipe()
    with theirs:
        process = subprocess.Popen(
            processes.command(ahead.__name__, str(theirs.fileno())),
            pass_fds=[theirs.fileno()],
            env=dict(os.environ) | processes.environment(),
        )
    ours.close()
    assert process.wait() == 1


def test_little_is_read_by_one_process(files: list[Path], monkeypatch: pytest.MonkeyPatch) -> None:
    units, _ = ingestion.plan_units(files[:2], IngestOptions())
    monkeypatch.setattr(machine, "cores", lambda: 16)
    monkeypatch.setattr(machine, "free_memory", lambda: 64 << 30)
    assert ingestion.workers_for(units) == 0
    assert ingestion.workers_for(units * 100) == 16
    assert ingestion.workers_for(units[:1] * 3) == 0
    monkeypatch.setattr(machine, "free_memory", lambda: 3 << 30)
    assert ingestion.workers_for(units * 100) == 3
