"""Traces of a damaged clock, whose launches last for years: shares of them are figures, not errors of the engine."""

from __future__ import annotations

from typing import Final

import pytest

import kerneldb
from kerneldb.times import Guard
from kerneldb.warehouse import Warehouse
from tests.warehouse.conftest import Launch, Traces

YEAR_NS: Final = 365 * 86_400 * 10**9
"""A hundred times 2.9 years are more ns than a BIGINT holds."""


@pytest.fixture(scope="module")
def years(tmp_path_factory: pytest.TempPathFactory) -> Warehouse:
    """Two traces: `first` computes for 8 years of 12, and communicates for 4, during 3 of which it computes.

    Readers refuse launches of years; sums of many can be that long, and databases from before hold them.
    """
    folder = tmp_path_factory.mktemp("years")
    warehouse, make = Warehouse.create_or_open(folder / "k.duckdb"), Traces(folder)
    nccl = Launch("nccl", YEAR_NS, 4 * YEAR_NS, stream=20)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Guard, "checked", lambda _self, _table, frame: frame)
        for name, longest in (("first", 4), ("second", 8)):
            gemms = (Launch("gemm", 0, 4 * YEAR_NS), Launch("gemm", 8 * YEAR_NS, longest * YEAR_NS))
            warehouse.commit(make(name, (*gemms, nccl)))
    return warehouse


def test_busy_time_of_years_is_a_percentage(years: Warehouse) -> None:
    rows = years.query("SELECT busy_ns, busy_pct FROM gpu_time() ORDER BY trace").to_pylist()
    assert [row["busy_ns"] // YEAR_NS for row in rows] == [9, 13]
    assert [row["busy_pct"] for row in rows] == pytest.approx([100 * 9 / 12, 100 * 13 / 16])


def test_overlap_of_years_is_a_percentage(years: Warehouse) -> None:
    rows = years.query("SELECT hidden_communication_pct FROM overlap('kernels') WHERE trace = 'first'").to_pylist()
    assert rows == [{"hidden_communication_pct": pytest.approx(75)}]


def test_a_change_of_years_is_a_percentage(years: Warehouse) -> None:
    with years.connection() as con:
        found = con.sql("SELECT kernel, delta_pct FROM diff('first', 'second') ORDER BY kernel").fetchall()
    assert found == [("gemm", pytest.approx(50)), ("nccl", 0)]


def test_the_comparison_of_years_is_a_percentage(years: Warehouse) -> None:
    assert kerneldb.open(years.path).diff("first", "second").delta_pct == pytest.approx(100 * 4 / 12)
