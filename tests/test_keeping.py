"""Files that stay open between questions of tests: whole and closed for everybody else, and not written by readers."""

from __future__ import annotations

import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import duckdb
import pytest

from kerneldb.warehouse import Warehouse
from tests.keeping import Keeper

NOTE = "INSERT INTO annotations BY NAME SELECT 's' AS signature_id, 'k' AS key, 'v' AS value, 'me' AS author"
COUNT = "SELECT count(*) AS n FROM annotations"


@pytest.fixture
def noted(keeper: Keeper, tmp_path: Path) -> Iterator[Warehouse]:
    """A file with a note, which is kept open."""
    keeper.keeping = True
    warehouse = Warehouse.create_or_open(tmp_path / "k.duckdb")
    warehouse.query(NOTE, write=True)
    assert warehouse.query(COUNT).to_pylist() == [{"n": 1}]
    yield warehouse
    keeper.close()


def test_a_copy_is_whole(noted: Warehouse, tmp_path: Path) -> None:
    assert Warehouse(shutil.copy(noted.path, tmp_path / "copy.duckdb")).query(COUNT).to_pylist() == [{"n": 1}]


def test_others_find_it_closed(noted: Warehouse) -> None:
    program = f"import duckdb; print(duckdb.connect({str(noted.path)!r}).sql('{COUNT}').fetchall())"
    done = subprocess.run([sys.executable, "-c", program], check=True, capture_output=True, text=True)
    assert done.stdout == "[(1,)]\n"
    noted.query("DELETE FROM annotations", write=True)
    with duckdb.connect(str(noted.path)) as con:
        assert con.execute(COUNT).fetchall() == [(0,)]


def test_another_file_of_the_same_name_is_opened(noted: Warehouse, tmp_path: Path) -> None:
    other = Warehouse.create_or_open(tmp_path / "other.duckdb")
    other.path.rename(noted.path)
    assert noted.query(COUNT).to_pylist() == [{"n": 0}]


def test_readers_may_not_write(noted: Warehouse) -> None:
    with pytest.raises(AssertionError, match="only reads"), noted.lease() as con:
        con.execute("DELETE FROM annotations")
