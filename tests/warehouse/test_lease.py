"""Who may hold the file, what a lease can reach, and what queries say when they fail."""

from __future__ import annotations

import contextlib
import logging
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import duckdb
import polars as pl
import pytest
from click.testing import CliRunner

from kerneldb.cli import cli
from kerneldb.errors import (
    QueryError,
    QueryTimeoutError,
    SelectionError,
    WarehouseError,
    WarehouseLockedError,
    WarehouseMissingError,
    WarehouseVersionError,
)
from kerneldb.warehouse import Warehouse
from kerneldb.warehouse.engine import _problem, transaction

HOLDER = """
import sys, duckdb
con = duckdb.connect(sys.argv[1], read_only=sys.argv[2] == "read")
print("held", flush=True)
sys.stdin.read()
"""


@contextlib.contextmanager
def held(path: Path, mode: str) -> Iterator[subprocess.Popen[str]]:
    """Another process that has the file open."""
    command = [sys.executable, "-c", HOLDER, str(path), mode]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "held\n"
        yield process
        process.communicate()


@pytest.mark.parametrize("write", [False, True])
def test_lock_of_another_process_names_it(filled: Warehouse, write: bool) -> None:
    with held(filled.path, "write") as process, pytest.raises(WarehouseLockedError, match=str(process.pid)) as caught:
        filled.query("SELECT 1", write=write)
    assert caught.value.pid == process.pid


@pytest.mark.parametrize("silent_s", [0.0, 60.0])
def test_who_waits_long_says_so_once(filled: Warehouse, monkeypatch: pytest.MonkeyPatch, silent_s: float) -> None:
    """A log gets it, too: a command there would seem to hang."""
    monkeypatch.setattr("kerneldb.warehouse.engine.SILENT_S", silent_s)
    seconds = "3" if silent_s == 0 else "0.5"  # to be asked once more
    with held(filled.path, "write") as process:
        done = CliRunner().invoke(cli, ["--db", str(filled.path), "query", "SELECT 1", "--lock-timeout", seconds])
    assert done.exit_code == 3
    said = f"in use by process {process.pid}; wait for it, or end it. Trying again for up to"
    assert done.stderr.count(said) == (silent_s == 0), done.stderr
    assert not logging.getLogger("kerneldb").handlers


def test_readers_of_several_processes_go_together(filled: Warehouse) -> None:
    with held(filled.path, "read") as process:
        assert filled.traces().num_rows == 3
        with pytest.raises(WarehouseLockedError, match=str(process.pid)):
            filled.rename("one", "uno")


def test_writer_waits_for_the_lock(filled: Warehouse) -> None:
    patient = Warehouse(filled.path, lock_timeout=60)
    with held(filled.path, "write") as process:
        assert process.stdin is not None
        threading.Timer(0.3, process.stdin.close).start()
        patient.rename("one", "uno")
        process.wait()
        process.stdin = None
    assert "uno" in patient.traces()["trace"].to_pylist()


def test_read_leases_of_one_process_nest(filled: Warehouse) -> None:
    with filled.connection() as outer, filled.connection() as inner:
        assert (
            outer.sql("SELECT count(*) FROM traces").fetchall() == inner.sql("SELECT count(*) FROM traces").fetchall()
        )
        outer.register("mine", pl.DataFrame({"a": [1]}).to_arrow())
        with pytest.raises(duckdb.CatalogException):
            inner.sql("FROM mine")
    filled.rename("one", "uno")


def test_writer_waits_for_leases_of_its_process(filled: Warehouse) -> None:
    with filled.connection(), pytest.raises(WarehouseLockedError) as caught:
        filled.rename("one", "uno")
    assert caught.value.pid == os.getpid()
    with filled.connection(read_only=False), pytest.raises(WarehouseLockedError):
        filled.traces()
    assert filled.traces().num_rows == 3


def test_reader_waits_for_the_writer_in_another_thread(filled: Warehouse) -> None:
    writing, patient = threading.Event(), Warehouse(filled.path, lock_timeout=60)

    def write() -> None:
        with filled.connection(read_only=False) as con:
            writing.set()
            time.sleep(0.2)
            con.execute("UPDATE traces SET label = 'late'")

    thread = threading.Thread(target=write)
    thread.start()
    writing.wait()
    assert set(patient.traces()["label"].to_pylist()) == {"late"}
    thread.join()


def test_threads_read_together(read: Warehouse) -> None:
    found: list[int] = []
    threads = [threading.Thread(target=lambda: found.append(read.query("FROM gpu_time()").num_rows)) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert found == [3] * 8


def test_file_open_in_the_same_process_is_a_lock(filled: Warehouse) -> None:
    with duckdb.connect(str(filled.path)), pytest.raises(WarehouseLockedError, match="in this process") as caught:
        filled.traces()
    assert caught.value.pid == os.getpid()


def test_file_that_vanished(filled: Warehouse) -> None:
    filled.path.unlink()
    for write in (False, True):
        with pytest.raises(WarehouseMissingError):
            filled.query("SELECT 1", write=write)
    assert not filled.path.exists()


@pytest.mark.parametrize(
    ("text", "kind"),
    [
        (
            "Trying to read a database file with version number 999, but we can only read 64 to 68",
            WarehouseVersionError,
        ),
        ("Could not set lock on file: Resource temporarily unavailable", WarehouseLockedError),
        ("Cannot open file: Permission denied", WarehouseError),
    ],
)
def test_meaning_of_engine_errors(text: str, kind: type[WarehouseError]) -> None:
    assert type(_problem(Path("k.duckdb"), duckdb.IOException(text))) is kind


@pytest.mark.parametrize("write", [False, True])
def test_queries_reach_no_other_file(filled: Warehouse, tmp_path: Path, write: bool) -> None:
    file = tmp_path / "secret.csv"
    file.write_text("a,b\n1,2\n", encoding="utf-8")
    for sql in (
        f"FROM read_csv('{file}')",
        f"FROM read_text('{file}')",
        f"FROM '{file}'",
        f"COPY traces TO '{tmp_path}/out.csv'",
        f"ATTACH '{tmp_path}/new.duckdb' AS new",
        "SET enable_external_access = true",
        "LOAD sqlite_scanner",
    ):
        with pytest.raises(QueryError):
            filled.query(sql, write=write)
    assert sorted(path.name for path in tmp_path.iterdir()) == sorted([filled.path.name, file.name])


def test_where_reaches_no_other_file(read: Warehouse, tmp_path: Path) -> None:
    file = tmp_path / "secret.txt"
    file.write_text("x", encoding="utf-8")
    with pytest.raises((SelectionError, QueryError), match=r"[Cc]annot access file"):
        read.query("FROM selection", where=f"EXISTS (FROM read_text('{file}'))")


def test_python_variables_are_out_of_reach(read: Warehouse) -> None:
    params = pl.DataFrame({"a": [1]})
    with pytest.raises(QueryError, match="params does not exist"):
        read.query("FROM params")
    assert params.height == 1


def test_query_reads_only_unless_asked(filled: Warehouse) -> None:
    with pytest.raises(QueryError, match=r"read-only.*\n.*--write"):
        filled.query("DELETE FROM traces")
    filled.query("DELETE FROM traces WHERE name = 'one'", write=True)
    assert filled.traces().num_rows == 2


@pytest.mark.parametrize(("sql", "count"), [("SELECT 1; SELECT 2", 2), ("", 0), ("-- nothing", 0)])
def test_one_statement(read: Warehouse, sql: str, count: int) -> None:
    with pytest.raises(QueryError, match=f"has {count}"):
        read.query(sql)


def test_error_shows_the_place(read: Warehouse) -> None:
    with pytest.raises(QueryError, match=r"(?s)nowhere.*LINE 1.*\^"):
        read.query("SELECT * FROM nowhere")
    with pytest.raises(QueryError, match="syntax error"):
        read.query("SELEC 1")


def test_parameters(read: Warehouse) -> None:
    assert read.query("SELECT $a + $b AS c", {"a": 1, "b": 2}).to_pylist() == [{"c": 3}]
    assert read.query("SELECT ? AS c", [5]).to_pylist() == [{"c": 5}]
    with pytest.raises(QueryError):
        read.query("SELECT $a")


def test_statements_with_comments_and_without_rows(filled: Warehouse) -> None:
    assert filled.query("-- a\nSELECT 1 AS a; -- b").to_pylist() == [{"a": 1}]
    assert filled.query("SELECT 1 AS a WHERE false").column_names == ["a"]
    assert filled.query("CREATE TABLE mine (a INTEGER)", write=True).num_rows == 0


def test_timeout(read: Warehouse) -> None:
    began = time.monotonic()
    with pytest.raises(QueryTimeoutError, match=r"0\.2 s"):
        read.query("SELECT sum(a.range * b.range) FROM range(10_000_000) AS a, range(10_000_000) AS b", timeout=0.2)
    assert time.monotonic() - began < 60
    assert read.query("SELECT 1 AS a", timeout=30).num_rows == 1


def test_times_are_utc(read: Warehouse) -> None:
    sql = "SELECT current_setting('TimeZone') AS zone, TIMESTAMPTZ '2026-01-01 00:00:00+00'::VARCHAR AS noon"
    assert read.query(sql).to_pylist() == [{"zone": "UTC", "noon": "2026-01-01 00:00:00+00"}]


def test_sums_are_integers(read: Warehouse) -> None:
    hugeint = "SELECT table_name, column_name FROM duckdb_columns() WHERE data_type LIKE '%HUGEINT%' AND NOT internal"
    assert read.query(hugeint).to_pylist() == []


@pytest.mark.skipif(duckdb.__version__.startswith("1."), reason="the optimizer pass came with DuckDB 2")
def test_slow_optimizer_pass_is_off(read: Warehouse) -> None:
    setting = read.query("SELECT current_setting('disabled_optimizers') AS off")
    assert setting.to_pylist() == [{"off": "partial_aggregate_pushdown"}]


def test_reader_waits_as_long_as_asked(filled: Warehouse) -> None:
    began = time.monotonic()
    with held(filled.path, "write"), pytest.raises(WarehouseLockedError):
        Warehouse(filled.path, lock_timeout=4).traces()
    assert time.monotonic() - began > 3.1


@pytest.mark.parametrize("error", [RuntimeError("Query interrupted"), duckdb.InterruptException("Interrupted")])
def test_an_interrupted_transaction_is_rolled_back(filled: Warehouse, error: Exception) -> None:
    def change() -> None:
        with filled.connection(read_only=False) as con, transaction(con):
            con.execute("DELETE FROM traces")
            raise error

    with pytest.raises(KeyboardInterrupt):
        change()
    assert filled.traces().num_rows == 3


def test_ctrl_c_cancels_the_statement(filled: Warehouse) -> None:
    timer = threading.Timer(0.5, os.kill, (os.getpid(), signal.SIGINT))
    timer.start()
    began = time.monotonic()
    with pytest.raises(KeyboardInterrupt):
        filled.query("SELECT sum(a.range * b.range) FROM range(10_000_000) AS a, range(10_000_000) AS b")
    assert time.monotonic() - began < 60
    assert filled.query("SELECT 1 AS a").num_rows == 1


@pytest.mark.parametrize("name", ["x.sqlite", "sqlite:x", "md:x", "x.csv"])
def test_names_choose_no_extension(tmp_path: Path, name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    Warehouse.create_or_open(name)
    assert Warehouse.open(name).traces().num_rows == 0
    other = Path("other-" + name.replace(":", "-"))
    other.write_bytes(b"SQLite format 3\0" + bytes(4080) if "sql" in name else b"a,b\n1,2\n")
    with pytest.raises(WarehouseVersionError, match="not a DuckDB database"):
        Warehouse.open(other)
