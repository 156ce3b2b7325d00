"""What `kerneldb db doctor` says of AMD's traces, with the command that helps."""

from __future__ import annotations

from typing import TYPE_CHECKING

import polars as pl

from kerneldb import ingest
from kerneldb.batch import Spool
from kerneldb.ingest.doctor import read_table
from tests.rocprof.databases import GUID, Kernel, Process, fill, rocpd, write_rocpd
from tests.rocprof.test_csv import COUNTED, COUNTERS, KERNELS_63, STATS, written

if TYPE_CHECKING:
    from pathlib import Path

    from kerneldb.ingest.doctor import Diagnostic

KERNEL = Kernel("k", (256, 1, 1), (64, 1, 1), [10])


def diagnostics(path: Path) -> dict[str, Diagnostic]:
    """Topic → one."""
    (diagnosis,) = ingest.diagnose(path)
    return {one.topic: one for one in diagnosis.diagnostics}


def test_a_good_trace(tmp_path: Path) -> None:
    found = diagnostics(write_rocpd(tmp_path / "run.db", [KERNEL]))
    assert found["GPU events"].level == found["API calls"].level == "ok"
    assert "--marker-trace" in found["phases"].remedy
    assert "roctxRangePush" in found["phases"].remedy


def test_calls_without_kernels(tmp_path: Path) -> None:
    with rocpd(tmp_path / "run.db") as connection:
        Process(connection).region("HIP_RUNTIME_API_EXT", "hipMalloc", 1, 2, 1)
    found = diagnostics(tmp_path / "run.db")["no kernels"]
    assert found.level == "problem"
    assert "rocprofv3 --kernel-trace" in found.remedy


def test_kernels_without_calls(tmp_path: Path) -> None:
    with rocpd(tmp_path / "run.db") as connection:
        process = Process(connection)
        process.dispatch(KERNEL, process.symbol(KERNEL), 100, 10, 1)
    assert "--hip-trace" in diagnostics(tmp_path / "run.db")["API calls"].remedy


def test_orphans_are_told(tmp_path: Path) -> None:
    with rocpd(tmp_path / "run.db") as connection:
        process = Process(connection)
        fill(process, [KERNEL])
        process.dispatch(KERNEL, 0, 100, 10, 1)
    assert diagnostics(tmp_path / "run.db")["orphans"].message.startswith("1 launches")


def test_counters_only_and_sums_only(tmp_path: Path) -> None:
    row = COUNTED.format(dispatch=1, counter="SQ_WAVES", value="1", start=1, end=2)
    found = diagnostics(written(tmp_path / "x_counter_collection.csv", COUNTERS + row))
    assert found["counters only"].level == "warning"
    assert "agent_info" in found["devices"].remedy
    sums = diagnostics(written(tmp_path / "y_kernel_stats.csv", STATS + '"k",4,400,100.0,80.0,50,150,40.0\n'))
    assert sums["sums only"].level == "warning"


def test_parts_that_differ_in_their_columns(tmp_path: Path) -> None:
    """Copies have no registers, and a part in which nothing has a queue has no column for it."""
    with rocpd(tmp_path / "run.db") as connection:
        process = Process(connection)
        fill(process, [KERNEL])
        place = {**process.place(), "name_id": process.text("MEMORY_COPY_HOST_TO_DEVICE"), "dst_agent_id": 1}
        process.insert("rocpd_memory_copy", start=5, end=6, size=8, event_id=process.event("MEMORY_COPY", 900), **place)
    assert diagnostics(tmp_path / "run.db")["GPU events"].message.startswith("2 launches")


def test_real_files_are_judged(shared_data: Path) -> None:
    for path in sorted((shared_data / "rocprof").glob("*.db")):
        assert diagnostics(path)["GPU events"].level == "ok"


def test_tables_are_read_with_the_columns_that_are_there(tmp_path: Path) -> None:
    spool = Spool(tmp_path / "spool")
    spool.write("launches", pl.DataFrame({"a": [1], "queue": [None]}))
    spool.write("launches", pl.DataFrame({"queue": [7]}))
    manifest = spool.finish({"trace_id": "t", "name": "t"})
    assert read_table(manifest, "launches").rows() == [(1, None), (None, 7)]
    assert read_table(manifest, "launches", "a", "gone").rows() == [(1, None), (None, None)]
    assert read_table(manifest, "ops", "a").is_empty()


def test_the_gfx950_fault_is_told(tmp_path: Path) -> None:
    assert "gfx950" in diagnostics(write_rocpd(tmp_path / "run.db", [KERNEL], "gfx950"))["registers"].message


def test_captures_without_a_row(tmp_path: Path) -> None:
    with rocpd(tmp_path / "run.db") as connection:
        Process(connection)
        connection.execute(f'DELETE FROM "rocpd_info_agent_{GUID.replace("-", "_")}"')
    for path in (tmp_path / "run.db", written(tmp_path / "x_kernel_trace.csv", KERNELS_63.splitlines()[0] + "\n")):
        assert diagnostics(path)["no kernels"].level == "problem"


def test_advice_about_devices_fits_the_format(tmp_path: Path, shared_data: Path) -> None:
    """A database has no CSV files beside it."""
    assert "agent_info" in diagnostics(written(tmp_path / "1_kernel_trace.csv", KERNELS_63))["devices"].remedy
    assert "agent_info" not in diagnostics(shared_data / "rocprof" / "rpd_matmul_result.rpd")["devices"].remedy


def test_what_is_not_stored_is_named_where_there_are_no_launches(shared_data: Path) -> None:
    found = diagnostics(shared_data / "rocprof" / "rocprofv3_docs_pc_sampling_host_trap.csv")
    assert "samples of the program counter" in found["not stored"].message
    assert "rocprofv3 --kernel-trace" in found["no kernels"].remedy
