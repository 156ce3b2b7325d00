"""What rocprof-sys writes differently: GUIDs without separators, domains in small letters, kernel names as regions."""

from __future__ import annotations

from typing import TYPE_CHECKING

import polars as pl
import pytest

from tests.rocprof.conversion import converted, launch_rows
from tests.rocprof.databases import GUID, TABLES, Kernel, Process, fill, rocpd, settings, views

if TYPE_CHECKING:
    from pathlib import Path

KERNEL = Kernel("void gemm<float>(float*)", (256, 1, 1), (64, 1, 1), [10, 20])
MD5 = "5d41402abc4b2a76b9719d911017c592"
OTHER_MD5 = "7d793037a0760186574b0282f2f435e7"
START = 1_000_000_000_000


@pytest.mark.parametrize(
    ("guids", "merged"),
    [
        *(((GUID, MD5), merged) for merged in (True, False)),
        *((("first of the runs", "second of the runs"), merged) for merged in (True, False)),
        ((MD5,), True),
        ((MD5, OTHER_MD5), False),
        ((GUID.upper(),), False),
    ],
)
def test_guids_of_any_form_make_parts(tmp_path: Path, guids: tuple[str, ...], merged: bool) -> None:
    with rocpd(tmp_path / "run.db") as connection:
        processes = [Process(connection, guid, 100 + number) for number, guid in enumerate(guids)]
        for process in processes:
            fill(process, [KERNEL], START + process.pid)
        if merged:
            views(connection, [process.suffix for process in processes])
    trace = converted(tmp_path / "run.db")
    by_process = trace.launches.group_by("process").agg(pl.len(), pl.col("duration_ns").sum()).sort("process")
    assert by_process.rows() == [(str(100 + number), 2, 30) for number in range(len(guids))]
    assert trace.launches["api_call"].null_count() == 0


def test_tables_without_a_suffix_count_beside_those_with_one(tmp_path: Path) -> None:
    with rocpd(tmp_path / "run.db") as connection:
        process = Process(connection, MD5)
        fill(process, [KERNEL])
        for table in TABLES:
            connection.execute(f'CREATE TABLE "{table}" AS SELECT * FROM "{table}{process.suffix}"')
    assert converted(tmp_path / "run.db").launches.height == 4


def recorded(process: Process, rename: bool = False) -> None:
    """A call that launches a kernel within a roctx range, and a sample of the stack, as rocprof-sys writes them."""
    settings(process, {"kernel_rename": rename})
    process.region("rocm_marker_api", "train_step", START - 100, START + 1_000, 1, extdata="{}")
    process.region("rocm_hip_api", "hipLaunchKernel", START - 50, START - 40, 2, extdata="{}")
    process.region("timer_sampling", "main at a.cpp:3", START - 45, START - 44, 0, extdata="{}")
    kernel_id = process.symbol(KERNEL)
    for number, name in enumerate((KERNEL.name, "gemm", "attention")):
        process.dispatch(KERNEL, kernel_id, START + 10 * number, 5, 2 + number, region_name_id=process.text(name))


def test_ranges_calls_and_samples_of_the_stack(tmp_path: Path) -> None:
    with rocpd(tmp_path / "run.db") as connection:
        recorded(Process(connection, MD5))
    trace = converted(tmp_path / "run.db")
    assert trace.table("ranges")["name"].to_list() == ["train_step"]
    assert trace.table("api_calls").select("name", "kind").rows() == [("hipLaunchKernel", "hip")]
    assert trace.report("skipped") == {"sample of the call stack (not supported)": 1}
    launches = launch_rows(trace, "api_call", "phase")
    assert [(row["api_call"], row["phase"]) for row in launches] == [
        ("hipLaunchKernel", "train_step"),
        (None, None),
        (None, "attention"),
    ]


def test_a_kernel_that_was_renamed_to_its_own_name_has_it_as_phase(tmp_path: Path) -> None:
    with rocpd(tmp_path / "run.db") as connection:
        recorded(Process(connection, MD5), rename=True)
    phases = [row["phase"] for row in launch_rows(converted(tmp_path / "run.db"), "phase")]
    assert phases == ["train_step", "gemm", "attention"]
