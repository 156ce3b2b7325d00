"""The order of an ingest: skip, convert beside the database, commit; and what a failure leaves."""

from __future__ import annotations

import contextlib
import errno
import gzip
import os
import shutil
import signal
import socket
import subprocess
import sys
import zipfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import polars as pl
import pytest
from click.testing import CliRunner
from polars.exceptions import PanicException

import kerneldb
from kerneldb.api import ingestion
from kerneldb.api.ingestion import IngestOptions, Outcome
from kerneldb.batch import Manifest
from kerneldb.cli import cli
from kerneldb.cli.ingest import summary, warnings
from kerneldb.errors import UnreadableTraceError, UsageError, WarehouseError, WarehouseLockedError
from kerneldb.files import remove_stale_spools
from kerneldb.ingest import Unit
from kerneldb.warehouse import commit
from kerneldb.warehouse.commit import Added
from tests.nsys import exports


@pytest.mark.parametrize("most_bytes", [10_000, 1_300_000, 1_500_000])  # of the database, and of its log
def test_a_full_disk_takes_the_same_command_again(
    most_bytes: int, tmp_path: Path, small_trace: Path, full_disk: Any, runner: CliRunner
) -> None:
    words = ["--db", str(tmp_path / "k.duckdb"), "ingest", str(small_trace)]
    with full_disk(most_bytes):
        done = runner.invoke(cli, words)
    said = "File too large. Nothing was lost; make room there, and give the command again."
    assert (done.exit_code, done.stderr) == (3, f"Error: {tmp_path}: {said}\n")
    again = runner.invoke(cli, words)
    assert again.exit_code == 0, again.output


class MemoryStore:
    """A store that remembers what was committed, how the spool looked then, and what it was asked."""

    def __init__(self) -> None:
        self.committed: dict[str, Manifest] = {}
        self.columns: list[str] = []
        self.known: list[tuple[str, str]] = []
        self.asked: list[Unit] = []
        self.tags: list[Mapping[str, str]] = []

    def batch(self) -> contextlib.AbstractContextManager[None]:
        return contextlib.nullcontext()

    def held(self, unit: Unit) -> list[tuple[str, str]]:
        self.asked.append(unit)
        return self.known

    def commit(self, manifest: Manifest, *, replace: bool, tags: Mapping[str, str]) -> Added:
        self.tags.append(tags)
        self.columns = pl.read_parquet(manifest.parts["kernel_names"]).columns
        known = manifest.trace_id in self.committed
        self.committed[manifest.trace_id] = manifest
        return Added(manifest.name, known, written=replace or not known)


def ingest(store: MemoryStore, folder: Path, *paths: Path, options: IngestOptions | None = None) -> list[Outcome]:
    return list(ingestion.ingest_each(store, folder / "k.duckdb", paths, options or IngestOptions(), None))


def test_a_trace_is_committed_with_derived_columns_and_no_spool_stays(small_trace: Path, tmp_path: Path) -> None:
    store = MemoryStore()
    (outcome,) = ingest(store, tmp_path, small_trace)
    assert outcome.status == "ingested"
    assert outcome.launches
    assert outcome.bytes == len(gzip.decompress(small_trace.read_bytes()))
    assert {"category", "deriver_version"} <= set(store.columns)
    assert list(tmp_path.iterdir()) == []


def test_a_trace_that_is_held_is_not_converted(small_trace: Path, tmp_path: Path) -> None:
    store = MemoryStore()
    store.known = [("id", "there")]
    (outcome,) = ingest(store, tmp_path, small_trace)
    assert (outcome.status, outcome.trace, outcome.trace_id) == ("unchanged", "there", "id")
    assert store.committed == {}
    assert [unit.files for unit in store.asked] == [(small_trace,)]


def test_the_same_content_under_another_name_is_unchanged(small_trace: Path, tmp_path: Path) -> None:
    store = MemoryStore()
    copy = tmp_path / "copies" / "other.json.gz"
    copy.parent.mkdir()
    shutil.copy(small_trace, copy)
    assert [outcome.status for outcome in ingest(store, tmp_path, small_trace, copy)] == ["ingested", "unchanged"]


def test_a_bad_file_does_not_stop_the_others(small_trace: Path, tmp_path: Path) -> None:
    bad = tmp_path / "bad.json"
    bad.write_text("<html>")
    store = MemoryStore()
    outcomes = ingest(store, tmp_path, tmp_path / "missing.json", bad, small_trace)
    assert [outcome.status for outcome in outcomes] == ["failed", "failed", "ingested"]
    assert "missing.json" in str(outcomes[0].error)
    assert "HTML" in str(outcomes[1].error)
    assert list(tmp_path.iterdir()) == [bad]


def test_an_error_of_the_database_ends_the_call(small_trace: Path, tmp_path: Path) -> None:
    class Locked(MemoryStore):
        def commit(self, manifest: Manifest, *, replace: bool, tags: Mapping[str, str]) -> Added:
            message = f"{manifest.name} {replace} {tags}: held by 1"
            raise WarehouseLockedError(message, 1)

    with pytest.raises(WarehouseLockedError):
        ingest(Locked(), tmp_path, small_trace)
    assert list(tmp_path.iterdir()) == []


def test_one_name_cannot_serve_several_files(small_trace: Path, tmp_path: Path) -> None:
    other = tmp_path / "other.json.gz"
    shutil.copyfile(small_trace, other)
    with pytest.raises(UsageError, match="--name"):
        ingest(MemoryStore(), tmp_path, small_trace, other, options=IngestOptions(name="x"))


def test_spools_of_dead_processes_go_and_those_of_live_ones_stay(tmp_path: Path) -> None:
    ended = subprocess.Popen([sys.executable, "-c", ""])
    ended.wait()
    prefix = f"k.duckdb.spool-{socket.gethostname()}-"
    names = {
        "dead": f"{prefix}{ended.pid}-a",
        "live": f"{prefix}{os.getpid()}-b",
        "elsewhere": "k.duckdb.spool-other-1-c",
    }
    for name in names.values():
        (tmp_path / name).mkdir()
    removed = remove_stale_spools(tmp_path / "k.duckdb")
    assert [path.name for path in removed] == [names["dead"]]
    assert {path.name for path in tmp_path.iterdir()} == {names["live"], names["elsewhere"]}


@pytest.mark.parametrize("workers", [0, 2])
def test_a_bad_member_of_an_archive_costs_itself(
    tmp_path: Path, small_trace: Path, monkeypatch: pytest.MonkeyPatch, workers: int
) -> None:
    monkeypatch.setattr(ingestion, "workers_for", lambda _: workers)
    good, path = gzip.decompress(small_trace.read_bytes()), tmp_path / "mixed.zip"
    with zipfile.ZipFile(path, "w") as archive:
        for name, text in (("a.json", good), ("b.json", b"<html>"), ("c.json", good + b" "), ("d.json", b"")):
            archive.writestr(name, text)
    with kerneldb.open(tmp_path / "k.duckdb") as database:
        found = [list(database.ingest_each([path], IngestOptions())) for _ in range(2)]
    for outcomes, read in zip(found, ("ingested", "unchanged"), strict=True):
        assert [one.status for one in outcomes] == [read, "failed", read, "failed"]
        rows = ingestion.outcome_columns(outcomes)
        assert rows["trace"] == ["a", "mixed.zip::b.json", "c", "mixed.zip::d.json"]
        assert rows["path"] == [str(path), f"{path}::b.json", str(path), f"{path}::d.json"]
        assert [str(error).startswith(f"{path}::b.json: ") for error in rows["error"]] == [False, True, False, False]


def test_outcomes_become_rows() -> None:
    error = UsageError("no")
    table = ingestion.outcome_table(
        [Outcome(Path("a"), "failed", error=error), Outcome(Path("b"), "ingested", "t", "1", 5)]
    )
    assert table.column("error").to_pylist() == ["no", None]
    assert table.column("trace").to_pylist() == ["a", "t"]
    assert table.column("launches").to_pylist() == [None, 5]


KILLED = """
import os, signal, sys
import kerneldb
from kerneldb import derive
from kerneldb.warehouse import commit

place, path, trace = sys.argv[1:]

def stop(*_arguments, **_options):
    os.kill(os.getpid(), signal.SIGKILL)

if place == "deriving":
    derive.derive_names = stop
else:
    commit.set_tags = stop
kerneldb.open(path).ingest(trace, replace=True, name="again")
"""


@pytest.mark.parametrize("place", ["deriving", pytest.param("committing", marks=pytest.mark.thorough)])
def test_a_killed_ingest_leaves_the_database_as_it_was(database: Path, small_trace: Path, place: str) -> None:
    sql = "SELECT (SELECT count(*) FROM launches), (SELECT count(*) FROM rollups), name FROM traces"
    before = kerneldb.open(database).sql(sql).rows()
    done = subprocess.run([sys.executable, "-c", KILLED, place, str(database), str(small_trace)], check=False)
    assert done.returncode == -signal.SIGKILL
    assert list(database.parent.glob("*.spool-*"))
    assert kerneldb.open(database).sql(sql).rows() == before
    assert [outcome.status for outcome in kerneldb.open(database).ingest(small_trace, replace=True)] == ["replaced"]
    assert kerneldb.open(database).sql(sql).rows() == before
    assert not list(database.parent.glob("*.spool-*"))


@pytest.mark.parametrize("error", [MemoryError(), PanicException("odd")])
def test_what_fails_while_a_trace_is_stored_costs_that_trace(
    small_trace: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, error: BaseException
) -> None:
    set_tags, failing = commit.set_tags, list[BaseException]([error])

    def once(*given: Any, **named: Any) -> None:
        if failing:
            raise failing.pop()
        set_tags(*given, **named)

    monkeypatch.setattr(commit, "set_tags", once)
    other = tmp_path / "other.json.gz"
    shutil.copyfile(small_trace, other)
    found = list(kerneldb.open(tmp_path / "k.duckdb").ingest_each([small_trace, other], IngestOptions()))
    assert [one.status for one in found] == ["failed", "ingested"]
    assert str(found[0].error).startswith(f"{small_trace}: ")


UNPACKED = """
import os, signal, sys
import kerneldb
from kerneldb.ingest import sqlite

sqlite.Database = lambda *_: os.kill(os.getpid(), signal.SIGKILL)
kerneldb.open(sys.argv[1]).ingest(sys.argv[2])
"""


def test_what_a_killed_ingest_unpacked_goes_with_the_next_one(tmp_path: Path) -> None:
    exports.build(tmp_path / "a.sqlite", "2025.3")
    packed, database, room = tmp_path / "a.sqlite.gz", tmp_path / "k.duckdb", tmp_path / "room"
    packed.write_bytes(gzip.compress((tmp_path / "a.sqlite").read_bytes()))
    room.mkdir()
    command = [sys.executable, "-c", UNPACKED, str(database), str(packed)]
    done = subprocess.run(command, check=False, env={**os.environ, "TMPDIR": str(room)})
    assert done.returncode == -signal.SIGKILL
    assert [path.name for path in tmp_path.glob("k.duckdb.spool-*/trace/kerneldb-unpacked-*/*")] == ["a.sqlite"]
    kerneldb.open(database).ingest(packed)
    assert not [path for path in tmp_path.rglob("*") if "spool" in path.name or "unpacked" in path.name]


def test_an_interrupted_ingest_exits_130_and_cleans_up(
    small_trace: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def interrupted(_manifest: Manifest) -> Manifest:
        raise KeyboardInterrupt

    monkeypatch.setattr(ingestion, "derived", interrupted)
    done = CliRunner().invoke(cli, ["--db", str(tmp_path / "k.duckdb"), "ingest", str(small_trace)])
    assert done.exit_code == 130
    assert list(tmp_path.iterdir()) == []


def test_all_errors_of_a_call_are_told(small_trace: Path, tmp_path: Path) -> None:
    database = kerneldb.open(tmp_path / "k.duckdb")
    with pytest.raises(UnreadableTraceError, match=r"a\.json") as caught:
        database.ingest([tmp_path / "a.json", tmp_path / "b.json", small_trace])
    assert "b.json" in caught.value.__notes__[0]
    assert len(database.traces()) == 1


def test_options_that_a_known_trace_does_not_take_are_told(database: Path, small_trace: Path) -> None:
    def told(*arguments: str) -> str:
        return CliRunner().invoke(cli, ["--db", str(database), "ingest", str(small_trace), *arguments]).stderr

    assert "not applied" not in told()
    unchanged = told("--phase", "decode", "--set", "a=b")
    assert "step: --phase, --set not applied" in unchanged
    assert "kerneldb traces NAME --set KEY=VALUE" in unchanged
    assert "step: --name not applied" in told("--replace", "--name", "other", "--set", "a=b")


def test_a_trace_without_gpu_activity_is_told() -> None:
    outcome = Outcome(Path("cpu.json"), "ingested", "cpu", "1", 0)
    lines = list(warnings(outcome, IngestOptions()))
    assert lines == ["cpu: no GPU activity in it; see: kerneldb db doctor cpu.json"]


def test_a_folder_that_takes_no_files_is_not_the_traces_fault(
    small_trace: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refused(_: Path) -> None:
        raise PermissionError(errno.EACCES, "Permission denied")

    monkeypatch.setattr(ingestion, "spool_folder", refused)
    with pytest.raises(WarehouseError, match=r"nothing can be written there \(Permission denied\)"):
        list(ingestion.ingest_each(MemoryStore(), tmp_path / "x.duckdb", [small_trace], IngestOptions(), None))


def test_a_database_without_a_folder_is_not_the_traces_fault(small_trace: Path, tmp_path: Path) -> None:
    missing = tmp_path / "nodir"
    with pytest.raises(WarehouseError, match=r"nodir does not exist.*mkdir") as caught:
        list(ingestion.ingest_each(MemoryStore(), missing / "x.duckdb", [small_trace], IngestOptions(), None))
    assert caught.value.exit_code == 3
    assert not missing.exists()


def test_what_is_asked_for_is_printed_when_quiet(small_trace: Path, tmp_path: Path) -> None:
    """The README's `ingest --quiet --csv > outcome.csv`."""
    words = ["--db", str(tmp_path / "k.duckdb"), "ingest", "--quiet", str(small_trace)]
    assert CliRunner().invoke(cli, [*words, "--csv"]).stdout.startswith("trace,status,")
    assert not CliRunner().invoke(cli, words).stdout


@pytest.mark.parametrize(("size", "seconds", "said"), [(10e6, 2.0, " (5 MB/s)"), (1.3e6, 5.8, ""), (0.5e6, 0.1, "")])
def test_a_speed_is_told_where_it_says_something(size: float, seconds: float, said: str) -> None:
    outcome = Outcome(Path("a.json"), "ingested", "a", launches=60, seconds=seconds, bytes=int(size))
    assert summary(outcome) == f"a: ingested, 60 launches, 0 ops in {seconds:.1f} s{said}"
