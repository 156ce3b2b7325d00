"""Shares of what took no time."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

import kerneldb
from kerneldb.cli import cli
from kerneldb.warehouse import Warehouse
from tests.warehouse.conftest import Launch, Traces

if TYPE_CHECKING:
    from click.testing import CliRunner


@pytest.fixture(scope="module")
def warehouse(tmp_path_factory: pytest.TempPathFactory) -> Warehouse:
    """Two launches of a kernel that took no time."""
    folder = tmp_path_factory.mktemp("zero")
    warehouse = Warehouse.create_or_open(folder / "k.duckdb")
    launches = tuple(Launch("gemm", start, 0, op="aten::mm", phase="decode") for start in (5, 9))
    warehouse.commit(Traces(folder)("zero", launches))
    return warehouse


@pytest.mark.parametrize(("by", "where"), [("kernel", None), ("trace", "duration_ns = 0")])
def test_of_no_time_at_all_no_share_is_known(
    warehouse: Warehouse, runner: CliRunner, by: str, where: str | None
) -> None:
    given = ["--where", where] if where else []
    found = runner.invoke(cli, ["--db", str(warehouse.path), "top", "--by", by, *given])
    assert "nan" not in found.stdout
    (row,) = kerneldb.open(warehouse.path).top(by, where=where).rows()
    assert (row["n"], row["total_ns"], row["share_pct"]) == (2, 0, None)


@pytest.mark.parametrize("call", ["top_kernels({})", "signature_stats({})", "time_by('category, op', {})"])
def test_no_macro_divides_by_it(warehouse: Warehouse, call: str) -> None:
    for source in ("'kernels'", "'selection'"):
        found = warehouse.query(f"SELECT share_pct FROM {call.format(source)}", where="true")
        assert found["share_pct"].to_pylist() == [None]
