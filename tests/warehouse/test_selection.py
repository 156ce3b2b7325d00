from __future__ import annotations

from pathlib import Path

import pytest

import kerneldb
from kerneldb.errors import QueryError, SelectionError
from kerneldb.selection import Selection
from kerneldb.warehouse import Warehouse


def starts(warehouse: Warehouse, selection: Selection) -> list[int]:
    with warehouse.connection() as con:
        found = selection.relation(con).select("start_ns").fetchall()
    return sorted(start for (start,) in found)


@pytest.mark.parametrize("where", [None, "", "  \n", "true"])
def test_no_condition_selects_all(read: Warehouse, where: str | None) -> None:
    assert len(starts(read, Selection(where))) == 21


@pytest.mark.parametrize(
    "where",
    [
        "name LIKE 'gemm%' AND trace = 'one' -- and no more",
        "short_name = 'gemm' /* ; drop table traces */ AND trace = 'one'",
        "signature_id IN (SELECT signature_id FROM signatures WHERE name_id = 'n:gemm') AND trace = 'one'",
        "match_name = 'gemm' AND trace = 'one' AND label IS DISTINCT FROM 'a''b;--'",
    ],
)
def test_any_expression(read: Warehouse, where: str) -> None:
    assert starts(read, Selection(where)) == [20, 130, 300]


@pytest.mark.parametrize(
    "where",
    [
        "true) UNION ALL (SELECT * FROM kernels WHERE (true",
        "true; DROP TABLE traces",
        "true LIMIT 3",
        "true) -- ",
        "true ORDER BY 1",
        "SELECT 1",
        "name =",
        "-- nothing but a comment",
    ],
)
def test_more_than_an_expression_is_refused(read: Warehouse, where: str) -> None:
    with read.connection() as con, pytest.raises(SelectionError) as caught:
        Selection(where).relation(con).fetchall()
    assert repr(where) in str(caught.value)
    assert read.traces().num_rows == 3


def test_unknown_column_names_near_ones(read: Warehouse) -> None:
    with read.connection() as con, pytest.raises(SelectionError, match=r"near columns: .*duration_ns"):
        Selection("durationns > 5").relation(con)
    with read.connection() as con, pytest.raises(SelectionError, match="near columns: short_name, name"):
        Selection("kernel = 'add'").relation(con)
    with read.connection() as con, pytest.raises(SelectionError, match="kerneldb db schema kernels"):
        Selection("zzz > 5").relation(con)


@pytest.mark.parametrize(
    ("where", "text"),
    [
        ('category = "GEMM"', "'GEMM'"),
        ("category IN (GEMM, GEMV)", "'GEMM'"),
        ("op = aten::mm", "'aten::mm'"),
        ('name LIKE "%gemm%"', "'%gemm%'"),
    ],
)
def test_a_text_without_its_quotes_is_told_so(read: Warehouse, where: str, text: str) -> None:
    with read.connection() as con, pytest.raises(SelectionError, match=f"single quotes: {text}$") as caught:
        Selection(where).relation(con)
    assert "Candidate" not in str(caught.value)
    with pytest.raises(QueryError, match=f"single quotes: {text}$"):
        read.query(f"SELECT count(*) FROM kernels WHERE {where}")
    with read.connection() as con, pytest.raises(SelectionError, match="near columns"):
        Selection("gemm > duration_ns").relation(con)


@pytest.mark.parametrize("name", ["it's {x}; DROP TABLE traces --", '%s \\\' OR 1 = 1 "q"', "{names}"])
def test_any_name_of_a_trace_selects_it_alone(tmp_path: Path, name: str) -> None:
    fixtures = Path(__file__).parents[1] / "fixtures"
    with kerneldb.open(tmp_path / "k.duckdb") as database:
        database.ingest(fixtures / "nsys" / "r23_cuda_gpu_kern_sum.tsv", name="another")
        database.ingest(fixtures / "graph-replays-h100.json.gz", name=name)
        for where in (None, "true"):
            assert [row["trace"] for row in database.top("trace", where=where, traces=[name]).rows()] == [name]
            assert {row["trace"] for row in database.analyze("gpu_time", where=where, traces=[name]).rows()} == {name}


def test_wrong_types_are_a_selection_error(read: Warehouse) -> None:
    with read.connection() as con, pytest.raises(SelectionError):
        Selection("no_such_function(name)").relation(con)


def test_traces_are_bound(read: Warehouse) -> None:
    assert starts(read, Selection(traces=("three",))) == [5, 100]
    assert len(starts(read, Selection("kind = 'kernel'", ("one", "three")))) == 9
    assert starts(read, Selection(traces=("' OR true --",))) == []


def test_bound_selection_feeds_every_macro(read: Warehouse) -> None:
    with read.connection() as con:
        Selection("category = 'GEMM'", ("one",)).bind(con)
        assert con.sql("SELECT sum(total_ns)::BIGINT FROM top_kernels('selection')").fetchall() == [(300,)]
        assert con.sql("SELECT busy_ns FROM gpu_time('selection')").fetchall() == [(300,)]
        Selection("category = 'GEMM'", ("three",)).bind(con)
        assert con.sql("SELECT count(*) FROM selection").fetchall() == [(2,)]


def test_query_binds_where(read: Warehouse) -> None:
    table = read.query("SELECT n FROM time_by('category', 'selection') WHERE n > $n", {"n": 0}, where="trace = 'three'")
    assert table.to_pylist() == [{"n": 2}]
    with pytest.raises(SelectionError):
        read.query("FROM selection", where="nowhere = 1")


def test_selection_reaches_the_scan(read: Warehouse) -> None:
    with read.connection() as con:
        Selection("trace = 'three'").bind(con)
        plan = con.sql("EXPLAIN FROM top_kernels('selection')").fetchall()[0][1]
    assert "name = 'three'" in plan or "name='three'" in plan
