"""A new database is made beside other work, gets its name as a whole, and leaves nothing where nobody needs it."""

from __future__ import annotations

import threading
from pathlib import Path

import pytest

import kerneldb
from kerneldb.errors import NotATraceError
from kerneldb.warehouse import Warehouse, migrate
from kerneldb.warehouse.draft import Draft
from tests.ingest.traces import everything, kineto


def names(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


def test_a_draft_that_was_put_is_a_whole_database(tmp_path: Path) -> None:
    path = tmp_path / "k.duckdb"
    with Draft(tmp_path / "draft") as draft:
        assert draft.put(path)
        assert not draft.put(tmp_path / "second.duckdb")
    assert names(tmp_path) == ["k.duckdb"]
    with Warehouse(path).lease() as con:
        assert migrate.inspect(con, Warehouse(path).place).is_current
    assert Warehouse(path).traces().num_rows == 0


def test_a_database_that_is_there_stays(tmp_path: Path) -> None:
    path = tmp_path / "k.duckdb"
    path.write_bytes(b"somebody's")
    with Draft(tmp_path / "draft") as draft:
        assert not draft.put(path)
    assert path.read_bytes() == b"somebody's"


def test_leaving_ends_the_work(tmp_path: Path) -> None:
    with Draft(tmp_path / "draft"):
        pass
    assert "kerneldb-draft" not in [thread.name for thread in threading.enumerate() if thread.is_alive()]


def test_without_a_draft_the_database_is_made_in_its_place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Draft, "put", lambda _self, _path: False)
    text = tmp_path / "trace.json"
    text.write_text(kineto(everything()), encoding="utf-8")
    (outcome,) = kerneldb.open(tmp_path / "k.duckdb").ingest(text)
    assert outcome.status == "ingested"
    assert names(tmp_path) == ["k.duckdb", "trace.json"]


def test_a_file_that_is_no_trace_leaves_no_database(tmp_path: Path) -> None:
    text = tmp_path / "page.json"
    text.write_text("<html></html>", encoding="utf-8")
    with pytest.raises(NotATraceError):
        kerneldb.open(tmp_path / "k.duckdb").ingest(text)
    assert names(tmp_path) == ["page.json"]
