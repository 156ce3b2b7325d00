"""Small databases of what tests of several screens need."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kerneldb.warehouse import Warehouse, session
from tests.warehouse.conftest import Launch, Traces

if TYPE_CHECKING:
    from pathlib import Path


def found_operators(folder: Path) -> Path:
    """Launches of aten::mm: one with the operator recorded (of 300 ns), one for which it was inherited (of 200)."""
    warehouse = Warehouse.create_or_open(folder / "found.duckdb")
    launches = (
        Launch("gemm", 0, 300, op="aten::mm"),
        Launch("gemm", 400, 200),
        Launch("add", 700, 100, op="aten::add"),
    )
    warehouse.commit(Traces(folder)("found", launches))
    with warehouse.connection(read_only=False) as con:
        for table in ("launches", "rollups"):
            con.execute(
                f"UPDATE {table} SET inferred_by = 'inherited', inferred_id = 's:gemm:1:aten::mm' "
                "WHERE signature_id = 's:gemm:1:'"
            )
    return closed(warehouse)


def sums_only(folder: Path) -> Path:
    """A report of two signatures of one kernel, s:gemm:1: (100 ns) and s:gemm:2: (200 ns), without single launches."""
    warehouse = Warehouse.create_or_open(folder / "sums.duckdb")
    report = {"origin": "report", "timing": "timeline", "n": 3}
    reports = tuple(report | {"signature_id": f"s:gemm:{grid}:", "total_ns": 100 * grid} for grid in (1, 2))
    warehouse.commit(Traces(folder)("sums", (), kind="summary", source="nsys", reports=reports))
    return closed(warehouse)


def closed(warehouse: Warehouse) -> Path:
    """The file, which nobody holds any more."""
    session.release_all()
    return warehouse.path
