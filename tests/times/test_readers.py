"""Every reader keeps the rows of events with bad times, leaves the times out, and counts them."""

from __future__ import annotations

from typing import TYPE_CHECKING

import polars as pl
import pytest

from kerneldb.ingest import Options
from kerneldb.times import UNCOUNTED, Guard
from tests.ingest.conversion import Converted, convert_file
from tests.ingest.traces import T0, Raw, Trace, kineto
from tests.nsys import exports
from tests.rocprof.conversion import converted
from tests.rocprof.databases import Kernel, Process, rocpd
from tests.times import inputs

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from tests.times.inputs import Input


@pytest.mark.parametrize("make", inputs.LAUNCHES, ids=lambda make: make.__name__)
def test_bad_durations_cost_themselves_only(tmp_path: Path, make: Callable[[Path], Input]) -> None:
    given = make(tmp_path)
    trace = converted(*given.paths)
    assert trace.report("refused") == given.refused
    launches = trace.table("launches").sort("duration_ns", nulls_last=True)
    assert launches["duration_ns"].to_list() == [inputs.GOOD_NS, None, None]
    if "start_ns" in launches.columns:
        assert launches["start_ns"].null_count() == 0
        kept = launches["start_ns"][0] + inputs.GOOD_NS
        assert launches["end_ns"].to_list() == [kept, None, None]
    assert trace.trace["launches"] == 3
    assert (trace.trace.get("window_start_ns"), trace.trace.get("window_end_ns")) == given.window
    check_no_stored_time_is_negative_or_absurd(trace)


def check_no_stored_time_is_negative_or_absurd(trace: Converted) -> None:
    rows = 0
    for table in ("launches", "ops", "api_calls", "ranges"):
        for name in ("duration_ns", "launch_duration_ns"):
            frame = trace.table(table)
            if name in frame.columns:
                kept = frame[name].drop_nulls()
                rows += kept.len()
                assert kept.is_between(0, 7 * inputs.DAY_NS).all(), (table, name)
    assert rows


@pytest.mark.parametrize("make", inputs.SUMS, ids=lambda make: make.__name__)
def test_impossible_sums_are_left_out(tmp_path: Path, make: Callable[[Path], Path]) -> None:
    trace = converted(make(tmp_path))
    sums = trace.table("rollups").sort("total_ns", nulls_last=True)
    assert sums["n"].to_list() == [3, 3, 3]
    assert sums["timed"].to_list() == [3, 0, 0]
    for name, wanted in {"total_ns": 15_000, "min_ns": 4_000, "max_ns": 6_000}.items():
        assert sums[name].to_list() == [wanted, None, None]
    if "sum_squares_ns2" in sums.columns:
        assert sums["sum_squares_ns2"].null_count() == 2
    assert trace.report("refused") == {
        "sum over launches with a negative duration": 1,
        "sum over launches longer than 7 days": 1,
    }


def test_the_report_names_an_example(tmp_path: Path) -> None:
    reports = converted(*inputs.pytorch(tmp_path).paths).table("ingest_reports")
    refused = dict(reports.filter(pl.col("outcome") == "refused").select("reason", "example").iter_rows())
    assert refused["launch with a negative duration"] == "gemm: -7,000 ns"
    assert refused["operator longer than 7 days"] == "aten::mm: 691,200,000,000,000 ns"


def _read(trace: Trace, folder: Path) -> Converted:
    path = folder / "trace.json"
    path.write_text(kineto(trace), encoding="utf-8")
    return convert_file(path, folder / "spool")


def test_what_breaks_out_of_the_window_that_kineto_states(tmp_path: Path) -> None:
    trace, end = Trace(), T0 + 10_000_000
    for number, (at, took) in enumerate(((0, 5_000), (0, 900_000_000), (5_000_000, 3_600 * 10**9))):
        trace.kernel("gemm", T0 + at, took, number + 1)
    trace.kernel("shifted clock", end + 60 * 10**9, 3_600 * 10**9, 9)
    trace.add("i", None, "Record Window End", end, s="g", pid="", tid="")
    found = _read(trace, tmp_path)
    assert found.report("refused") == {"launch that ends after the recorded window": 1}
    assert found.launches["duration_ns"].to_list() == [5_000, 900_000_000, None, 3_600 * 10**9]
    assert found.trace["window_end_ns"] == end + 3_660 * 10**9


def test_what_breaks_out_of_the_window_of_a_session_of_nsys(tmp_path: Path) -> None:
    kernels = [
        exports.Kernel(1_000_000, took, exports.ADD, (1, 1, 1), (32, 1, 1), number)
        for number, took in enumerate((5_000, 900_000_000, 3_600 * 10**9), start=1)
    ]
    details = [{"globalVid": 1, "duration": 10_000_000, "startTime": 77, "stopTime": 10_000_077}]
    extra = {"ANALYSIS_DETAILS": details}
    path = exports.build(tmp_path / "a.sqlite", kernels=kernels, memory=[], calls=[], ranges=[], extra=extra)
    found = convert_file(path, tmp_path / "spool")
    assert found.report("refused") == {"launch that ends after the recorded window": 1}
    assert sorted(found.launches["duration_ns"].drop_nulls()) == [5_000, 900_000_000]
    assert found.trace["window_end_ns"] == 901_000_000


def test_what_breaks_out_of_the_life_of_a_process_of_rocpd(tmp_path: Path) -> None:
    kernel = Kernel("gemm", (256, 1, 1), (64, 1, 1), [])
    with rocpd(tmp_path / "run.db") as connection:
        process = Process(connection)
        symbol = process.symbol(kernel)
        connection.execute(
            f'UPDATE "rocpd_info_process{process.suffix}" SET fini = NULL, "end" = ?', (inputs.START_NS + 10_000,)
        )
        for number, took in enumerate((5_000, 3_600 * 10**9)):
            process.dispatch(kernel, symbol, inputs.START_NS, took, number)
    found = converted(tmp_path / "run.db")
    assert found.report("refused") == {"launch that ends after the recorded window": 1}


def test_an_operator_with_a_bad_duration_encloses_nothing(tmp_path: Path) -> None:
    trace = Trace()
    trace.op("endless", T0, inputs.LONG_NS, {"External id": 1})
    trace.launch("aten::mm", "gemm", T0 + 100_000, 7)
    trace.api("cudaLaunchKernel", T0 + 500_000, 1_000, 8)
    trace.kernel("lonely", T0 + 600_000, 1_000, 8)
    found = _read(trace, tmp_path)
    assert found.op("aten::mm")["parent_id"] is None
    assert found.launch("gemm")["op_id"] == found.op("aten::mm")["op_id"]
    assert found.launch("lonely")["op_id"] is None


@pytest.mark.parametrize("took", ["18446744073709552", "18446744073709.552e3", "1e300", "5e15", "-1e300"])
def test_a_number_that_64_bits_do_not_hold_is_refused_and_does_not_wrap(tmp_path: Path, took: str) -> None:
    trace = Trace()
    trace.kernel("good", T0, 5_000, 1)
    trace.kernel("bad", T0 + 10_000, Raw(took), 2)
    found = _read(trace, tmp_path)
    assert found.launch("bad")["duration_ns"] is None
    why = "with a negative duration" if took.startswith("-") else "longer than 7 days"
    assert found.report("refused") == {f"launch {why}": 1}


def test_starts_that_no_clock_shows(tmp_path: Path) -> None:
    trace = Trace()
    trace.kernel("good", T0, 5_000, 1)
    trace.kernel("bad", Raw("4e15"), 5_000, 2)
    trace.memory(T0, 512, 4096)
    trace.add("C", None, "power", Raw("-4e15"), args={"W": 1.0})
    found = _read(trace, tmp_path)
    bad = found.launch("bad")
    assert (bad["start_ns"], bad["end_ns"], bad["duration_ns"]) == (None, None, 5_000)
    assert found.report("refused") == {
        "launch with a time that no clock shows": 1,
        "sample with a time that no clock shows": 1,
    }
    assert (found.trace["window_start_ns"], found.trace["window_end_ns"]) == (T0, T0 + 5_000)


def test_power_readings_of_a_later_century(tmp_path: Path) -> None:
    rows = ("2026/11/21 10:20:30.123, 0, 121.50 W", "2100/11/21 10:20:31.123, 0, 121.50 W")
    path = tmp_path / "power.csv"
    path.write_text("\n".join(("timestamp, index, power.draw [W]", *rows, "")), encoding="utf-8")
    log = convert_file(path, tmp_path / "spool", Options(time_zone="UTC"))
    assert log.report("refused") == {"power reading with a time that no clock shows": 1}
    assert [value is None for (value,) in log.rows("power_samples", "epoch_ns")] == [False, True]
    assert (log.trace["window_start_ns"], log.trace["window_end_ns"]) == (0, 0)


def test_counts_that_no_recording_has_are_left_out() -> None:
    guard = Guard()
    given = pl.DataFrame({"signature_id": ["a", "b", "c"], "n": [3, 9 * 10**18, -1], "total_ns": [5, 5, 5]})
    assert guard.checked("rollups", given)["signature_id"].to_list() == ["a"]
    assert list(guard.taken()) == [(UNCOUNTED, 2, ("b", "9,000,000,000,000,000,000"))]
