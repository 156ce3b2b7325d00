"""What a condition or a statement gets told that names a column which does not exist."""

from __future__ import annotations

from pathlib import Path

import pytest

import kerneldb
from kerneldb.api import Database
from kerneldb.errors import QueryError, SelectionError
from kerneldb.warehouse.near import SYNONYMS, near_columns
from tests.conftest import made_once


@pytest.fixture(scope="module")
def decoder(root: Path, tmp_path_factory: pytest.TempPathFactory) -> Database:
    def make(path: Path) -> None:
        kerneldb.open(path).ingest(root / "tests" / "fixtures" / "compiled-graph-h200.json.gz")

    return kerneldb.open(made_once(tmp_path_factory, "near.duckdb", make))


@pytest.mark.parametrize(
    ("sql", "near"),
    [
        ("SELECT kernel FROM kernels", "short_name, name"),
        ("SELECT duration FROM kernels", "duration_ns"),
        ("SELECT k.catgory FROM kernels AS k", "category"),
        ("SELECT gemm FROM kernels", "gemm_m, gemm_n, gemm_k, gemm_batch"),
        ("SELECT launches FROM top_kernels()", "n"),
        ("SELECT time FROM top_kernels('kernels')", "total_ns"),
        ("WITH t AS (SELECT 1 AS whole) SELECT wole FROM t", "whole"),
    ],
)
def test_a_statement_gets_the_columns_that_it_may_mean(decoder: Database, sql: str, near: str) -> None:
    with pytest.raises(QueryError) as error:
        decoder.sql(sql)
    assert f"\nnear columns: {near}\n" in str(error.value)
    assert "Candidate" not in str(error.value)
    assert "LINE 1" in str(error.value)  # the engine marks the place


def test_a_condition_gets_no_columns_that_only_share_letters(decoder: Database) -> None:
    with pytest.raises(SelectionError) as error:
        decoder.top(where="kernel LIKE '%gemm%'")
    assert str(error.value).endswith("\nnear columns: short_name, name")
    with pytest.raises(SelectionError, match="see: kerneldb db schema kernels"):
        decoder.top(where="zzyx = 1")


def test_a_text_without_quotes_is_no_column(decoder: Database) -> None:
    with pytest.raises(QueryError) as error:
        decoder.sql("SELECT 1 FROM kernels WHERE category = GEMM")
    assert "a text takes single quotes: 'GEMM'" in str(error.value)
    assert "near columns" not in str(error.value)


def test_other_words_mean_columns_that_there_are(decoder: Database) -> None:
    known = {row["column_name"] for row in decoder.sql("SELECT DISTINCT column_name FROM schema_docs").rows()}
    assert {name for names in SYNONYMS.values() for name in names} <= known
    assert near_columns("KERNEL", ["numel", "level", "short_name"]) == ["short_name"]
