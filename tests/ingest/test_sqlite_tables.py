"""No table of a profiler's SQLite file may stop its reader, whether it has no row, one or many."""

from __future__ import annotations

import contextlib
from typing import TYPE_CHECKING

import pytest

from kerneldb.errors import TraceError, UnreadableTraceError
from tests.ingest import sizes
from tests.ingest.conversion import convert_file
from tests.nvprof.test_nvprof import nvvp

if TYPE_CHECKING:
    from pathlib import Path

FILES = {
    "nsys": "field/nsight/nsys-2025.5.2-two-graph-launches.sqlite",
    "nsys with samples of the CPU": "data/nsys/nsightful_power_iteration.sqlite",
    "rocpd": "data/rocprof/synthetic_gfx1151_full.db",
    "rpd": "data/rocprof/rpd_matmul_result.rpd",
    "nvprof": None,
}


@pytest.mark.parametrize("rows", [0, 1, sizes.MANY])
@pytest.mark.parametrize("kind", FILES)
def test_any_table_may_have_any_number_of_rows(field: Path, tmp_path: Path, kind: str, rows: int) -> None:
    place = FILES[kind]
    path = nvvp(tmp_path / "given.nvvp") if place is None else field.parent / place
    for number, table in enumerate(sizes.tables(path)):
        changed = sizes.resized(path, tmp_path / f"{number}{path.suffix}", table, rows)
        with contextlib.suppress(TraceError):  # a table may be missed, and the error then says so
            converted = convert_file(changed, tmp_path / f"spool-{number}")
            assert converted.accounted > 0, table
            assert not any("new to this version" in reason for reason in converted.report("skipped")), table


def test_a_view_without_end_is_refused(field: Path, tmp_path: Path) -> None:
    path = field / "hostile" / "endless-view.sqlite"
    with pytest.raises(UnreadableTraceError, match="view NVTX_EVENTS is recursive and may never end"):
        convert_file(path, tmp_path / "spool")
