"""Questions to the file: cancelled, waiting for a writer, on a file that is gone or changed."""

from __future__ import annotations

import asyncio
import contextlib
import os
import subprocess
import sys
import threading
from pathlib import Path
from typing import TYPE_CHECKING, Any

import duckdb
import pytest

import kerneldb
from kerneldb.errors import SelectionError, UsageError, WarehouseMissingError
from kerneldb.schemas import loader
from kerneldb.schemas.loader import Migration
from kerneldb.selection import Selection
from kerneldb.tui.model import Choice
from kerneldb.tui.store import Condition, Store
from kerneldb.tui.widgets.header import facts_of
from kerneldb.warehouse import migrate

if TYPE_CHECKING:
    from collections.abc import Iterator

FIXTURES = Path(__file__).parents[1] / "fixtures"

# DuckDB 1.5 says what is wrong with a condition, but does not mark the place.
MARKED = r"syntax error" if duckdb.__version__.startswith("1.") else r"LINE 1[^\n]*\n +\^"
# The application may be reading at that moment: its leases are short, so that others get their turn.
HOLD = """
import duckdb, sys, time

for _ in range(200):
    try:
        con = duckdb.connect(sys.argv[1])
    except duckdb.IOException:
        time.sleep(0.05)
    else:
        break
print("held", flush=True)
sys.stdin.read()
"""
SLOW = "SELECT sum(a.range * b.range) FROM range(100000000) AS a, range(100000) AS b"


@contextlib.contextmanager
def holder(path: Path) -> Iterator[subprocess.Popen[str]]:
    """Another process that holds the file for writing."""
    command = [sys.executable, "-c", HOLD, os.fspath(path)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "held\n"
        try:
            yield process
        finally:
            process.terminate()


def test_statements_read_the_selection(trace_database: Path) -> None:
    async def flow() -> list[dict[str, Any]]:
        store = Store(trace_database)
        return await store.rows("tui_status_launches", None, Selection("category = 'GEMM'"))

    (found,) = asyncio.run(flow())
    where = "category = 'GEMM'"
    expected = kerneldb.open(trace_database).sql("SELECT count(*) AS n FROM selection", where=where).rows()
    assert found["matched"] == expected[0]["n"] > 0


def test_a_bad_condition_is_refused_with_the_place(trace_database: Path) -> None:
    with pytest.raises(SelectionError, match=MARKED):
        asyncio.run(Store(trace_database).check(Selection("category = = 3")))
    with pytest.raises(UsageError, match="near: step"):
        asyncio.run(Store(trace_database).check(Selection(None, ("stepp",))))


@pytest.mark.parametrize("early", [False, True])
def test_a_cancelled_question_is_interrupted_in_the_engine(trace_database: Path, early: bool) -> None:
    """Also where it is cancelled just before the engine gets its statement."""
    begun, may_ask, ended = threading.Event(), threading.Event(), threading.Event()

    def work(con: Any) -> Any:
        begun.set()
        may_ask.wait()
        try:
            return con.execute(SLOW).fetchall()
        finally:
            ended.set()

    async def flow() -> None:
        store = Store(trace_database)
        task = asyncio.create_task(store.read(work))
        while not begun.is_set():
            await asyncio.sleep(0.01)
        if not early:
            may_ask.set()
            await asyncio.sleep(0.2)
        task.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await task
        may_ask.set()
        while not ended.is_set():
            await asyncio.sleep(0.01)
        assert await store.rows("trace_names") == [{"name": "step"}]

    asyncio.run(asyncio.wait_for(flow(), 120))


def test_a_locked_file_is_waited_for_and_the_holder_named(database: Path) -> None:
    said: list[Condition] = []

    async def flow() -> tuple[int, list[dict[str, Any]]]:
        store = Store(database, said.append)
        with holder(database) as other:
            task = asyncio.create_task(store.rows("trace_names"))
            while not said:
                await asyncio.sleep(0.02)
            assert not task.done()
            pid = other.pid
        return pid, await task

    pid, rows = asyncio.run(asyncio.wait_for(flow(), 120))
    assert rows == [{"name": "step"}]
    assert said[0].kind == "locked"
    assert f"process {pid} (python" in said[0].sentence
    assert [condition.kind for condition in said] == ["locked", "ready"]


def test_a_vanished_file_is_said_to_be_gone_and_may_come_back(database: Path) -> None:
    said: list[Condition] = []

    async def flow() -> None:
        store = Store(database, said.append)
        await store.rows("trace_names")
        aside = database.rename(database.with_suffix(".aside"))
        assert store.changed()
        with pytest.raises(WarehouseMissingError):
            await store.rows("trace_names")
        aside.rename(database)
        assert store.changed()
        assert not store.changed()
        assert await store.rows("trace_names") == [{"name": "step"}]

    asyncio.run(flow())
    assert [condition.kind for condition in said] == ["missing", "ready"]


def test_a_commit_of_another_process_is_noticed(database: Path) -> None:
    store = Store(database)
    assert not store.changed()
    kerneldb.open(database).rename("step", "again")
    assert store.changed()
    assert asyncio.run(store.rows("trace_names")) == [{"name": "again"}]


def test_what_the_commands_do_runs_in_a_thread(trace_database: Path) -> None:
    found = asyncio.run(Store(trace_database).call(lambda database: database.top("category")))
    assert found.rows() == kerneldb.open(trace_database).top("category").rows()


def test_a_closed_store_does_not_keep_the_file(trace_database: Path) -> None:
    store = Store(trace_database)
    asyncio.run(store.rows("trace_names"))
    store.close()
    with duckdb.connect(str(trace_database)) as con:
        assert con.execute("SELECT 1").fetchone() == (1,)


def test_an_older_file_is_brought_up_to_date_once(database: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    version = migrate.newest() + 1
    later = Migration(version, "more", "ALTER TABLE traces ADD COLUMN weather VARCHAR;")
    steps = (*loader.migrations(), later)
    monkeypatch.setattr(loader, "migrations", lambda: steps)
    told: list[str] = []

    async def flow() -> None:
        store = Store(database, lambda condition: told.append(condition.sentence))
        try:
            await asyncio.gather(*(store.rows("tui_devices", {"names": None}) for _ in range(4)))
        finally:
            store.close()

    asyncio.run(flow())
    assert told == []


def test_the_header_names_gpus_of_the_selection(tmp_path: Path) -> None:
    with kerneldb.open(tmp_path / "k.duckdb") as db:
        for gpu, trace in (("H100", "graph-replays-h100"), ("H200", "stacks-memory-h200")):
            db.ingest(FIXTURES / f"{trace}.json.gz", name=gpu)

    async def ask() -> None:
        store = Store(tmp_path / "k.duckdb")
        for names in (("H100",), ("H200",), ("H100", "H200"), ()):
            found = await facts_of(store, Choice(traces=names))
            assert {device.split()[1] for device in found.devices} == set(names or ("H100", "H200"))
        store.close()

    asyncio.run(ask())
