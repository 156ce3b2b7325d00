"""Questions take a part of the memory that is free, and temporary files for the rest."""

from __future__ import annotations

from pathlib import Path

import pytest

from kerneldb.warehouse import Warehouse

ROWS = 2_000_000
ORDERED = f"""
    SELECT sum(place)::BIGINT AS places
    FROM (SELECT row_number() OVER (ORDER BY hash(i), i) AS place FROM range({ROWS}) AS r(i))
"""
SETTINGS = "SELECT current_setting('memory_limit') AS memory, current_setting('temp_directory') AS folder"


def test_questions_take_half_of_what_is_free(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("kerneldb.files.free_memory", lambda: 8 * 2**30)
    (row,) = Warehouse.create_or_open(tmp_path / "k.duckdb").query(SETTINGS).to_pylist()
    assert row["memory"] == "3.9 GiB"
    assert Path(row["folder"]).parent != Path.cwd()
    assert not Path(row["folder"]).exists()


def test_what_takes_more_goes_to_files_that_are_removed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("kerneldb.files.free_memory", lambda: 0)
    monkeypatch.setattr("kerneldb.warehouse.engine.LEAST_MEMORY", 64 * 10**6)
    warehouse = Warehouse.create_or_open(tmp_path / "k.duckdb")
    (row,) = warehouse.query(SETTINGS).to_pylist()
    (answer,) = warehouse.query(ORDERED).to_pylist()
    assert answer["places"] == ROWS * (ROWS + 1) // 2
    warehouse.release()
    assert not Path(row["folder"]).exists()
