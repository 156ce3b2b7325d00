"""How long a process keeps a file: while questions come, and no longer than others let it."""

from __future__ import annotations

import contextlib
import os
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import duckdb
import pytest

import kerneldb
from kerneldb.errors import WarehouseError, WarehouseLockedError
from kerneldb.warehouse import Warehouse, session, template
from kerneldb.warehouse.session import session_of
from tests.warehouse.conftest import Traces

pytestmark = pytest.mark.slow
LONGEST_S = 120
"""When a test gives up; what it waits for takes a fraction of a second."""
OTHER = """
import sys
from kerneldb.warehouse import Warehouse

warehouse = Warehouse(sys.argv[1], lock_timeout=120)
if sys.argv[2] == "write":
    for number in range(5):
        warehouse.write(lambda con: con.execute("UPDATE traces SET label = ?", [str(number)]))
    print("done", flush=True)
else:
    print("asks", flush=True)
    while not select.select([sys.stdin], [], [], 0)[0]:
        labels = set(warehouse.query("SELECT label FROM traces")["label"].to_pylist())
        if len(labels) != 1:
            sys.exit(f"half a change was seen: {labels}")
"""


@contextlib.contextmanager
def other(path: Path, role: str) -> Iterator[subprocess.Popen[str]]:
    """Another process that writes, or asks until its stdin ends."""
    command = [sys.executable, "-c", f"import select{OTHER}", str(path), role]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        try:
            yield process
        finally:
            process.kill()


def until(happens: Callable[[], bool]) -> None:
    ends = time.monotonic() + LONGEST_S
    while not happens():
        assert time.monotonic() < ends, "it did not happen"
        time.sleep(0.01)


def can_be_written(path: Path) -> bool:
    """Whether nobody in this process has the file open."""
    try:
        duckdb.connect(str(path)).close()
    except duckdb.Error:
        return False
    return True


def test_a_file_stays_open_between_questions_and_is_let_go_when_none_come(
    filled: Warehouse, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(session, "LINGER_S", LONGEST_S)
    filled.traces()
    assert not can_be_written(filled.path)
    monkeypatch.setattr(session, "LINGER_S", 0.0)
    until(lambda: can_be_written(filled.path))
    assert filled.traces().num_rows == 3


def test_a_database_that_is_closed_lets_its_file_go(filled: Warehouse, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(session, "LINGER_S", LONGEST_S)
    with kerneldb.open(filled.path) as database:
        assert len(database.sql("FROM traces").rows()) == 3
        assert not can_be_written(filled.path)
    assert can_be_written(filled.path)


def test_a_question_in_the_middle_keeps_a_file_that_is_closed(filled: Warehouse) -> None:
    with filled.connection() as con:
        filled.release()
        assert con.execute("SELECT count(*) FROM traces").fetchone() == (3,)


@pytest.mark.parametrize("answered", [True, False], ids=["between questions", "within one"])
def test_a_writer_elsewhere_gets_the_file_from_who_keeps_it(filled: Warehouse, answered: bool) -> None:
    """Questions that never cease would keep it for good."""
    with other(filled.path, "write") as writer:
        assert writer.stdout is not None
        done = threading.Event()
        stdout = writer.stdout
        threading.Thread(target=lambda: (stdout.readline(), done.set()), daemon=True).start()
        patient = Warehouse(filled.path, lock_timeout=LONGEST_S)

        def written() -> bool:
            with contextlib.nullcontext() if answered else patient.connection():
                patient.traces()
            return done.is_set()

        until(written)
    assert set(patient.query("SELECT label FROM traces")["label"].to_pylist()) == {"4"}


@pytest.mark.thorough
def test_writers_and_readers_of_several_processes_take_turns(filled: Warehouse) -> None:
    """Nobody starves, and nobody sees a part of what was written at once."""
    filled.write(lambda con: con.execute("UPDATE traces SET label = 'first'"))
    with (
        other(filled.path, "ask") as one,
        other(filled.path, "ask") as two,
        other(filled.path, "write") as writer,
    ):
        for process in (one, two, writer):
            assert process.stdout is not None
            assert process.stdout.readline() in {"asks\n", "done\n"}
        writer.wait(LONGEST_S)
        for process in (one, two):
            process.communicate("", timeout=LONGEST_S)
            assert process.returncode == 0
    assert set(filled.query("SELECT label FROM traces")["label"].to_pylist()) == {"4"}


def test_threads_that_ask_without_end_let_their_process_write(filled: Warehouse) -> None:
    ended = threading.Event()
    patient = Warehouse(filled.path, lock_timeout=LONGEST_S)

    def ask() -> None:
        while not ended.is_set():
            patient.traces()

    threads = [threading.Thread(target=ask) for _ in range(4)]
    for thread in threads:
        thread.start()
    try:
        patient.rename("one", "uno")
    finally:
        ended.set()
        for thread in threads:
            thread.join()
    assert "uno" in patient.traces()["trace"].to_pylist()


@contextlib.contextmanager
def asking(warehouse: Warehouse, threads: int, question_s: float) -> Iterator[None]:
    """Threads that ask without end; each question takes so long."""
    ended = threading.Event()

    def ask() -> None:
        while not ended.is_set():
            with warehouse.connection():
                time.sleep(question_s)

    running = [threading.Thread(target=ask) for _ in range(threads)]
    for thread in running:
        thread.start()
    try:
        yield
    finally:
        ended.set()
        for thread in running:
            thread.join()


def test_who_asks_again_at_once_does_not_overtake_a_writer(filled: Warehouse, monkeypatch: pytest.MonkeyPatch) -> None:
    waiting, attached = [], session.engine.opened

    def opened(path: Path, attach: str, *arguments: Any) -> Any:
        waiting.append(attach == "attach" and session_of(path)._writers_waiting > 0)
        return attached(path, attach, *arguments)

    monkeypatch.setattr(session.engine, "opened", opened)
    patient = Warehouse(filled.path, lock_timeout=LONGEST_S)
    with asking(patient, 1, 0.02):
        for number in range(10):
            patient.tag("one", {"number": str(number)})
    assert waiting.count(True) == 0


def test_questions_that_overlap_let_another_process_write(filled: Warehouse) -> None:
    with asking(Warehouse(filled.path, lock_timeout=LONGEST_S), 3, 0.4), other(filled.path, "write") as writer:
        assert writer.stdout is not None
        assert writer.stdout.readline() == "done\n"


def test_who_may_wait_no_longer_for_its_turn_is_told_so(filled: Warehouse) -> None:
    held, ends = threading.Event(), threading.Event()

    def hold() -> None:
        with session_of(filled.path)._changed:  # as a thread that attaches the file
            held.set()
            ends.wait()

    thread = threading.Thread(target=hold)
    thread.start()
    try:
        assert held.wait(LONGEST_S)
        with pytest.raises(WarehouseLockedError), session_of(filled.path).reading(0.0):
            pass
        with pytest.raises(WarehouseLockedError), session_of(filled.path).writing(0.0):
            pass
    finally:
        ends.set()
        thread.join()


def test_a_file_that_comes_while_another_is_attached_is_read(
    filled: Warehouse, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    Warehouse.create_or_open(tmp_path / "other.duckdb")
    attached = session.engine.opened

    def opened(path: Path, *arguments: Any) -> Any:
        con = attached(path, *arguments)
        if (tmp_path / "other.duckdb").exists():
            (tmp_path / "other.duckdb").replace(path)
        return con

    session.release_all()
    monkeypatch.setattr(session.engine, "opened", opened)
    assert filled.traces().num_rows == 0


def test_a_batch_writes_into_the_file_that_is_there(filled: Warehouse, tmp_path: Path, make_trace: Traces) -> None:
    Warehouse.create_or_open(tmp_path / "other.duckdb")
    first = make_trace("four")
    with filled.batch():
        filled.write(lambda _: (tmp_path / "other.duckdb").replace(filled.path), [first.folder.parent])
        filled.commit(first)
    assert filled.traces()["trace"].to_pylist() == ["four"]


def test_a_file_that_took_the_place_of_another_one_is_read(filled: Warehouse, tmp_path: Path) -> None:
    assert filled.traces().num_rows == 3
    Warehouse.create_or_open(tmp_path / "other.duckdb")
    (tmp_path / "other.duckdb").replace(filled.path)
    assert filled.traces().num_rows == 0


def test_a_question_within_another_one_does_not_wait_for_it(filled: Warehouse) -> None:
    with filled.connection(), session_of(filled.path).reading(0) as con:
        os.utime(filled.path)  # as a writer that waits does
        with filled.connection() as inner:
            assert inner.execute("SELECT count(*) FROM traces").fetchone() == (3,)
        assert con.execute("SELECT count(*) FROM traces").fetchone() == (3,)


@pytest.mark.filterwarnings("ignore:.*fork:DeprecationWarning")
def test_a_child_process_opens_files_anew(filled: Warehouse) -> None:
    assert filled.traces().num_rows == 3
    child = os.fork()
    if not child:
        os._exit(0 if Warehouse(filled.path).traces().num_rows == 3 else 1)
    assert os.waitpid(child, 0)[1] == 0
    assert filled.traces().num_rows == 3


def test_who_may_not_wait_is_told_who_has_the_file(filled: Warehouse) -> None:
    with filled.connection(), pytest.raises(WarehouseLockedError) as caught:
        Warehouse(filled.path, lock_timeout=0).rename("one", "uno")
    assert caught.value.pid == os.getpid()


def test_a_new_database_is_made_from_one_that_was_kept(tmp_path: Path, make_trace: Traces) -> None:
    warehouse = Warehouse.create_or_open(tmp_path / "k.duckdb")
    warehouse.commit(make_trace("one"))
    assert Warehouse.create_or_open(tmp_path / "second.duckdb").traces().num_rows == 0
    assert warehouse.traces().num_rows == 1


def test_without_a_folder_to_keep_anything_a_database_is_made_all_the_same(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "file").touch()
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "file"))
    warehouse = Warehouse.create_or_open(tmp_path / "k.duckdb")
    assert warehouse.traces().num_rows == 0
    assert sorted(path.name for path in tmp_path.iterdir()) == ["file", "k.duckdb"]


def test_who_has_no_home_gets_a_database_all_the_same(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def homeless(*_: object, **__: object) -> Path:
        raise RuntimeError("could not determine the home directory")

    monkeypatch.setattr(template.platformdirs, "user_cache_path", homeless)
    assert Warehouse.create_or_open(tmp_path / "k.duckdb").traces().num_rows == 0


@pytest.mark.thorough
def test_a_damaged_template_is_made_anew(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    Warehouse.create_or_open(tmp_path / "first.duckdb")
    (kept,) = (tmp_path / "cache" / "kerneldb").glob("*.duckdb")
    for size in (0, 8192, 1_000_000):
        os.truncate(kept, size)
        left = kept.parent / f"{template.MAKING}x"
        left.mkdir()
        os.utime(left, (0, 0))
        assert Warehouse.create_or_open(tmp_path / f"{size}.duckdb").traces().num_rows == 0
        assert not left.exists()
        (kept,) = kept.parent.glob("*.duckdb")
        assert kept.stat().st_size > size


def test_a_template_that_is_prepared_is_made_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    making: list[str] = []

    def make(path: Path) -> None:
        making.append(threading.current_thread().name)
        path.write_bytes(b"made")

    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.setattr(template, "_make", make)
    template.prepare()
    assert template._template() == b"made"
    template.prepare()
    assert len(making) == 1
    for thread in threading.enumerate():
        if thread.name == "kerneldb-template":
            thread.join()
    assert len(making) == 1
    assert len(list((tmp_path / "cache" / "kerneldb").iterdir())) == 1


def test_a_folder_is_no_database(tmp_path: Path) -> None:
    with pytest.raises(WarehouseError, match="cannot be opened: Is a directory"):
        Warehouse.open(tmp_path)


def test_few_templates_are_kept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    kept = tmp_path / "cache" / "kerneldb"
    kept.mkdir(parents=True)
    for number in range(6):
        (kept / f"empty-{number}.duckdb").touch()
        os.utime(kept / f"empty-{number}.duckdb", (number, number))
    Warehouse.create_or_open(tmp_path / "k.duckdb")
    assert len(list(kept.glob("*.duckdb"))) == 4
    assert not (kept / "empty-2.duckdb").exists()


def test_a_batch_keeps_the_file_for_writing_until_others_ask_or_it_ends(
    warehouse: Warehouse, make_trace: Traces, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(session, "LINGER_S", LONGEST_S)
    with warehouse.batch():
        for name in ("one", "two"):
            warehouse.commit(make_trace(name))
            assert not can_be_written(warehouse.path)
        with other(warehouse.path, "ask") as reader:
            assert reader.stdout is not None
            assert reader.stdout.readline() == "asks\n"
            reader.communicate("", timeout=LONGEST_S)
            assert reader.returncode == 0
        warehouse.commit(make_trace("three"))
        assert warehouse.traces().num_rows == 3
        warehouse.commit(make_trace("four"))
    assert can_be_written(warehouse.path)
    assert warehouse.traces().num_rows == 4


def test_a_commit_that_fails_ends_the_engine_of_its_batch(
    warehouse: Warehouse, make_trace: Traces, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(session, "LINGER_S", LONGEST_S)
    with warehouse.batch():
        warehouse.commit(make_trace("one"))
        with pytest.raises(ZeroDivisionError):
            warehouse.write(lambda _con: 1 / 0, [make_trace("two").folder.parent])
        assert can_be_written(warehouse.path)
        warehouse.commit(make_trace("two"))
    assert warehouse.traces().num_rows == 2
