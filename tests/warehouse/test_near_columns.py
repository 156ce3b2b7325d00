"""What a condition or a statement gets told that names a column which does not exist."""

from __future__ import annotations

from pathlib import Path

import pytest
from click.testing import CliRunner

import kerneldb
from kerneldb.api import Database, browsing
from kerneldb.cli import cli
from kerneldb.errors import QueryError, SelectionError
from kerneldb.selection import Selection
from kerneldb.warehouse.absent import says_nothing
from kerneldb.warehouse.near import SYNONYMS, near_columns, near_values
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
        ("SELECT * FROM launches WHERE dur_us > 1", "duration_ns"),
        ("FROM idle_gaps() ORDER BY duration_ns", "gap_ns"),
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


@pytest.mark.parametrize("name", ["launches", "idle_gaps()"])
def test_without_a_near_column_the_relation_is_named(decoder: Database, name: str) -> None:
    with pytest.raises(QueryError, match=f"see: kerneldb db schema {name.removesuffix('()')}\n"):
        decoder.sql(f"SELECT zzyx FROM {name}")


def test_the_screen_and_the_command_say_the_same(decoder: Database) -> None:
    sql = "SELECT catgory FROM kernels"
    with pytest.raises(QueryError) as command:
        decoder.sql(sql)
    with decoder.warehouse.connection() as con, pytest.raises(QueryError) as screen:
        browsing.answer(con, sql, Selection(None), 10)
    assert str(screen.value) == str(command.value)


@pytest.mark.parametrize(
    ("wanted", "values", "near"),
    [
        ("mm", ["aten::abs", "aten::addmm", "aten::mm", "aten::bmm"], ["aten::mm", "aten::bmm", "aten::addmm"]),
        ("gemm", ["COPY", "GEMM", "GEMV"], ["GEMM", "GEMV"]),
        ("gpt2", ["bloom-560m", "gpt2-train"], ["gpt2-train"]),
        ("x", ["opq"], []),
    ],
)
def test_a_text_means_what_ends_with_it_holds_it_or_is_like_it(wanted: str, values: list[str], near: list[str]) -> None:
    assert near_values(wanted, values) == near


@pytest.mark.parametrize(
    ("sql", "said"),
    [
        ("SELECT op FROM kernels WHERE category = 'fused'", "category has no value 'fused'; near: 'FUSED'"),
        ("SELECT count(*) FROM kernels AS k WHERE k.kind IN ('Kernel')", "kind has no value 'Kernel'"),
        ("SELECT sum(n) FROM time_by('category') WHERE trace = 'compiled'", "near: 'compiled-graph-h200'"),
        ("WITH s AS (FROM kernels) SELECT count(*) FROM s WHERE 'bfloat16' = dtype", "dtype has no value 'bfloat16'"),
        ("SELECT count(*) FROM selection WHERE op = 'bmm'", "op has no value"),
        ("FROM kernels WHERE category != 'gemm' AND duration_ns < 0", None),
        ("SELECT 0", None),
    ],
)
def test_a_statement_that_finds_nothing_gets_near_values(decoder: Database, sql: str, said: str | None) -> None:
    assert says_nothing(decoder.sql(sql, where="true").to_arrow())
    found = decoder.absent_texts(sql, "true")
    assert len(found) == (said is not None)
    assert said is None or said in found[0]
    shown = CliRunner().invoke(cli, ["--db", str(decoder.path), "query", "--where", "true", sql])
    assert shown.stderr.splitlines() == found


def test_an_answer_needs_no_hint(decoder: Database) -> None:
    sql = "SELECT count(*) FROM kernels WHERE kind IN ('kernel', 'Kernel')"
    shown = CliRunner().invoke(cli, ["--db", str(decoder.path), "query", sql])
    assert "Kernel" not in shown.stderr


def test_a_text_without_quotes_is_no_column(decoder: Database) -> None:
    with pytest.raises(QueryError) as error:
        decoder.sql("SELECT 1 FROM kernels WHERE category = GEMM")
    assert "a text takes single quotes: 'GEMM'" in str(error.value)
    assert "near columns" not in str(error.value)


def test_other_words_mean_columns_that_there_are(decoder: Database) -> None:
    known = {row["column_name"] for row in decoder.sql("SELECT DISTINCT column_name FROM schema_docs").rows()}
    assert {name for names in SYNONYMS.values() for name in names} <= known
    assert near_columns("KERNEL", ["numel", "level", "short_name"]) == ["short_name"]
