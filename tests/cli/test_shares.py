"""Shares of what took no time."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

import kerneldb
from kerneldb.cli import cli
from kerneldb.warehouse import Warehouse
from tests.warehouse.conftest import Launch, Traces

if TYPE_CHECKING:
    from pathlib import Path

    from click.testing import CliRunner


@pytest.mark.parametrize("where", [(), ("--where", "duration_ns = 0")])
@pytest.mark.parametrize("by", ["kernel", "trace"])
def test_of_no_time_at_all_no_share_is_known(
    tmp_path: Path, runner: CliRunner, where: tuple[str, ...], by: str
) -> None:
    warehouse = Warehouse.create_or_open(tmp_path / "k.duckdb")
    warehouse.commit(Traces(tmp_path)("zero", (Launch("gemm", 5, 0), Launch("gemm", 9, 0))))
    found = runner.invoke(cli, ["--db", str(warehouse.path), "top", "--by", by, *where])
    assert "nan" not in found.stdout
    (row,) = kerneldb.open(warehouse.path).top(by, where=where[-1] if where else None).rows()
    assert (row["n"], row["total_ns"], row["share_pct"]) == (2, 0, None)


@pytest.mark.parametrize(
    "name",
    ["top_kernels", "categories", "families", "libraries", "operations", "operators", "phases", "signature_stats"],
)
def test_neither_views_nor_macros_divide_by_it(tmp_path: Path, name: str) -> None:
    warehouse = Warehouse.create_or_open(tmp_path / "k.duckdb")
    warehouse.commit(Traces(tmp_path)("zero", (Launch("gemm", 5, 0, op="aten::mm", phase="decode"),)))
    for source in (name, f"{name}('kernels')"):
        assert warehouse.query(f"SELECT share_pct FROM {source}")["share_pct"].to_pylist() == [None]
