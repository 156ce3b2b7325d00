"""Tables between other lines, odd files, and what is refused."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest

from kerneldb.errors import NotATraceError, UnreadableTraceError
from kerneldb.ingest import Options, diagnose
from tests.ncu.reading import SPEED, convert_text, page, printed, row, values

if TYPE_CHECKING:
    from pathlib import Path

DURATION = row("Duration", "us", "6.75")
TIME = (0, "gpu__time_duration.sum", None)


def test_lines_of_the_application_in_between(tmp_path: Path) -> None:
    text = (
        "==PROF== Connected to process 7 (/home/me/secret/app)\n"
        '==PROF== Profiling "k" - 0: 0%....50%....100% - 9 passes\n'
        "+-----+\n| NVIDIA-SMI |\n\n"
        "hello, world\n"
        + page(
            DURATION,
            "step 1, loss 2.5",
            "==WARNING== Slow: /home/me/secret/app",
            "no line end" + row("Elapsed Cycles", "cycle", "13,485"),
            '"quoted text of the program',
            row("Duration", "us", "1.00", launch=1),
        )
        + "==PROF== Disconnected from process 7\n"
    )
    one = convert_text(text, tmp_path)
    assert one.table("launches")["duration_ns"].to_list() == [6750, 1000]
    found = values(one)
    assert found[0, "gpc__cycles_elapsed.max", None][0] == 13485
    assert found[0, "profiler__replayer_passes", None][0] == 9
    assert (1, "profiler__replayer_passes", None) not in found
    assert one.report("skipped") == {"lines of the application": 6}
    kept = json.dumps(one.trace) + str(one.table("ingest_reports").rows())
    assert "secret" not in kept
    assert "==WARNING==" in kept


def test_process_name_only_on_request(tmp_path: Path) -> None:
    assert "app" not in json.loads(convert_text(page(DURATION), tmp_path).trace["metadata"]).get("process_names", [])
    one = convert_text(page(DURATION), tmp_path / ".", "b.csv", Options(keep_environment=True))
    assert json.loads(one.trace["metadata"])["process_names"] == ["app"]


@pytest.mark.parametrize("encoding", ["utf-8-sig", "utf-16"])
def test_byte_order_marks(encoding: str, tmp_path: Path) -> None:
    one = convert_text(page(DURATION).encode(encoding), tmp_path)
    assert one.table("launches")["duration_ns"].to_list() == [6750]


def test_windows_line_ends(tmp_path: Path) -> None:
    one = convert_text(page(DURATION).replace("\n", "\r\n"), tmp_path)
    assert one.table("launches")["duration_ns"].to_list() == [6750]


def test_rule_rows(tmp_path: Path) -> None:
    rule = (
        row("", "", "", section="SpeedOfLight").rstrip(",")
        + ',"SOLBottleneck","OPT","Too small\n- really","local","96.87"'
    )
    metrics = convert_text(page(DURATION, rule), tmp_path).table("metrics")
    columns = ("metric", "instance", "text", "value", "unit", "section")
    assert metrics.select(columns).row(1) == (
        "rule:SOLBottleneck",
        "OPT",
        "Too small\n- really",
        96.87,
        "% local",
        "SpeedOfLight",
    )


def test_launch_columns(tmp_path: Path) -> None:
    section = "Launch Statistics"
    text = page(
        DURATION,
        row("Registers Per Thread", "register/thread", "168", section),
        row("Static Shared Memory Per Block", "byte/block", "64", section),
        row("Dynamic Shared Memory Per Block", "Kbyte/block", "1.02", section),
        row("Theoretical Occupancy", "%", "50", "Occupancy"),
        row("Achieved Occupancy", "%", "12.50", "Occupancy"),
    )
    launch = convert_text(text, tmp_path).launches.row(0, named=True)
    wanted = {
        "timing": "profiled",
        "start_ns": None,
        "duration_ns": 6750,
        "grid_x": 8,
        "grid_y": 2,
        "block_x": 64,
        "registers": 168,
        "static_shared_bytes": 64,
        "dynamic_shared_bytes": None,
        "shared_bytes": None,
        "quality": "shared memory rounded",
        "occupancy": 0.125,
        "theoretical_occupancy": 0.5,
        "device": 0,
        "stream": 7,
    }
    assert {name: launch.get(name) for name in wanted} == wanted


def test_absent_values(tmp_path: Path) -> None:
    text = page(
        row("flop_count_sp.sum", "", "n/a"), row("sass__x.sum", "inst", "no data"), row("derived__t", "", "nan")
    )
    one = convert_text(text, tmp_path)
    assert [(value, words) for value, words, _ in values(one).values()] == [
        (None, "n/a"),
        (None, "no data"),
        (None, "nan"),
    ]
    assert one.table("launches")["duration_ns"].to_list() == [None]


def test_labels_that_mean_something_else(tmp_path: Path) -> None:
    """Neither a contradicting label nor one of several sections is lost or mixed up."""
    text = page(
        row("gpu__time_duration.sum", "us", "6.75", "Command line profiler metrics"),
        DURATION,
        row("SM Frequency", "Ghz", "1.99"),
        row("SM Frequency", "Ghz", "1.11"),
        row("Odd", "", "1", "A"),
        row("Odd", "", "2", "B"),
        row("Odd", "", "30", "B"),
    )
    one = convert_text(text, tmp_path)
    metrics = one.table("metrics").select("metric", "instance", "section", "value").rows()
    assert metrics == [
        ("gpu__time_duration.sum", None, "Command line profiler metrics", 6750),
        ("gpc__cycles_elapsed.avg.per_second", None, SPEED, 1.99e9),
        ("SM Frequency", None, SPEED, 1.11e9),
        ("Odd", None, "A", 1),
        ("Odd", "B", "B", 2),
        ("Odd", "B #2", "B", 30),
    ]
    assert one.report("note") == {"metrics printed more than once": 1}


def test_the_finest_print_counts(tmp_path: Path) -> None:
    one = convert_text(page(DURATION, row("gpu__time_duration.sum", "ns", "6752", "Command line")), tmp_path)
    assert one.table("launches")["duration_ns"].to_list() == [6752]
    assert values(one)[TIME] == (6752, None, 0.5)


def test_same_launch_id_in_two_processes(tmp_path: Path) -> None:
    text = page(DURATION, DURATION.replace('"7","app"', '"8","app"'))
    assert convert_text(text, tmp_path).table("launches")["process"].to_list() == ["7", "8"]


def test_ambiguous_numbers_are_refused(tmp_path: Path) -> None:
    with pytest.raises(UnreadableTraceError, match=r"page\.csv: `8\.192` may be 8192 or .*`LC_ALL=C ncu --import"):
        convert_text(page(row("dram__bytes.sum", "byte", "8.192")), tmp_path)


@pytest.mark.parametrize("cut", [3, 8, 60, 120])
def test_a_cut_page_is_refused(cut: int, tmp_path: Path) -> None:
    text = page(DURATION, row("Elapsed Cycles", "cycle", "13,485"))[:-cut]
    with pytest.raises(UnreadableTraceError, match=r"line 3 is cut.*ncu --import"):
        convert_text(text, tmp_path)


def test_a_cut_raw_page_is_refused(tmp_path: Path) -> None:
    with pytest.raises(UnreadableTraceError, match=r"line 4 is cut.*--page raw"):
        convert_text(printed("C.raw.csv")[:-30], tmp_path)


def test_a_cut_record_in_the_middle_is_refused(tmp_path: Path) -> None:
    with pytest.raises(UnreadableTraceError, match="line 2 is cut"):
        convert_text(page(DURATION[:120], DURATION), tmp_path)


def test_a_page_without_units_is_refused(tmp_path: Path) -> None:
    text = page(DURATION).replace('"Metric Unit"', '"Unit"', 1)
    with pytest.raises(UnreadableTraceError, match=r"line 1 names no column Metric Unit.*ncu --import"):
        convert_text(text, tmp_path)


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("==ERROR== The application returned an error code (1).\n", "profiled no kernel.*error code .1.*without ncu"),
        ("==PROF== Connected\n==ERROR== ERR_NVGPUCTRPERM: no permission\n", "ERR_NVGPUCTRPERM.*developer.nvidia.com"),
        ("==PROF== Connected to process 7\n==WARNING== No kernels were profiled.\n", "--target-processes all"),
        (page(), "profiled no kernel"),
    ],
)
def test_no_kernels(text: str, why: str, tmp_path: Path) -> None:
    with pytest.raises(NotATraceError, match=why):
        convert_text(text, tmp_path)


def test_console_text_is_refused(tmp_path: Path) -> None:
    with pytest.raises(NotATraceError, match=r"for people.*--csv"):
        convert_text(printed("console.txt"), tmp_path, "console.txt")


def test_a_raw_page_for_people_is_refused(tmp_path: Path) -> None:
    text = (
        "[15030] python3.12@127.0.0.1\n  scale_add (1024, 1, 1)x(128, 1, 1), Context 1, Stream 7, Device 0, CC 9.0\n"
        "  Metric Name                Metric Unit   Metric Value\n  -------------------------- ----------- ---------\n"
        "  gpu__time_duration.sum              us         6.30\n"
    )
    with pytest.raises(NotATraceError, match=r"for people.*--csv"):
        convert_text(text, tmp_path, "raw.txt")


@pytest.mark.parametrize("name", ["run.ncu-rep.gz", "report.bin"])
def test_a_report_that_has_another_name(name: str, tmp_path: Path) -> None:
    with pytest.raises(NotATraceError, match=r"in an archive, or under another name.*\*\.ncu-rep"):
        convert_text(b"NVR\x00" + bytes(64), tmp_path, name)


def test_an_empty_file_is_refused(tmp_path: Path) -> None:
    with pytest.raises(NotATraceError, match="an empty file"):
        convert_text("", tmp_path)


def test_diagnostics(tmp_path: Path) -> None:
    path = tmp_path / "page.csv"
    shares = [row(f"{what} Throughput", "%", "19.66") for what in ("Memory", "Compute (SM)")]
    path.write_text(page(DURATION, *shares, row("flop_count_sp.sum", "", "n/a")))
    (told,) = diagnose(path)
    by_topic = {one.topic: one for one in told.diagnostics}
    assert "normalised form" in by_topic["roofline"].message
    assert "--set basic" in by_topic["roofline"].message
    assert "--set full" in by_topic["roofline"].remedy
    assert "flop_count_sp.sum" in by_topic["metrics"].message
    assert "clock" in by_topic["clocks"].message
    assert "--nvtx" in by_topic["phases"].remedy


def test_diagnostics_of_a_whole_page(tmp_path: Path) -> None:
    path = tmp_path / "raw.csv"
    path.write_bytes(printed("C.raw.csv"))
    (told,) = diagnose(path)
    by_topic = {one.topic: one for one in told.diagnostics}
    assert by_topic["roofline"].level == "ok"
    assert by_topic["replay passes"].message == "Each kernel ran 38 times to collect its counters."
    assert "phases" not in by_topic


def test_two_sessions_in_one_log(tmp_path: Path) -> None:
    other = DURATION.replace('"7","app"', '"8","app"')
    text = "".join(
        f'==PROF== Profiling "k" - 0 (1/1): 0%....100% - {passes} passes\n' + page(one)
        for passes, one in ((9, DURATION), (8, other))
    )
    one = convert_text(text, tmp_path)
    assert one.table("launches").height == 2
    assert "profiler__replayer_passes" not in one.table("metrics")["metric"].to_list()


def test_old_details_page(tmp_path: Path) -> None:
    """12 columns, up to 2022: no grid and block, but their products among the metrics."""
    header = (
        '"ID","Process ID","Process Name","Host Name","Kernel Name","Kernel Time","Context","Stream","Section Name",'
        '"Metric Name","Metric Unit","Metric Value"'
    )
    start = '"0","7","app","node3","k(int)","2020-Oct-28 21:47:21","1","7",'
    rows = [
        start + '"GPU Speed Of Light","Duration","usecond","1.60"',
        start + '"GPU Speed Of Light","SOL SM","%","9.15"',
        start + '"Launch Statistics","Grid Size","","8,192"',
        start + '"Launch Statistics","Block Size","","64"',
    ]
    one = convert_text("\n".join([header, *rows]) + "\n", tmp_path)
    launch = one.launches.row(0, named=True)
    assert (launch["duration_ns"], launch["total_blocks"], launch["threads_per_block"]) == (1600, 8192, 64)
    assert (launch["grid_x"], launch["device"], one.trace["host"]) == (None, None, "node3")
    assert json.loads(one.trace["metadata"])["kernel_time"] == ["2020-Oct-28 21:47:21"] * 2
    assert values(one)[0, "sm__throughput.avg.pct_of_peak_sustained_elapsed", None][0] == 9.15


@pytest.mark.parametrize("value", ["9.00", "6.77"])
def test_two_sessions_whose_processes_have_one_number(value: str, tmp_path: Path) -> None:
    """As in containers, appended to one log: a launch of the second session is not a page of one of the first."""
    with pytest.raises(UnreadableTraceError, match=r"launch 0 takes 6750 ns .* of one report: .* file of its own"):
        convert_text(page(DURATION) + page(row("Duration", "us", value)), tmp_path)
    with pytest.raises(UnreadableTraceError, match=r"launch 0 of process 7 is k\(int\) and then other"):
        convert_text(page(DURATION) + page(row("Duration", "us", "6.75", name="other")), tmp_path)
    again = convert_text(page(DURATION) + page(row("Duration", "us", "6.750")), tmp_path)
    assert again.table("launches")["duration_ns"].to_list() == [6750]


def test_each_table_of_a_log_has_its_own_units(tmp_path: Path) -> None:
    names = ("ID", "Process ID", "Kernel Name", "gpu__time_duration.sum")
    tables = [(names, ("", "", "", "ms"), ("0", "7", "k", "1.5")), (names, ("", "", "", "us"), ("0", "8", "k", "1.5"))]
    text = "".join(",".join(f'"{cell}"' for cell in cells) + "\n" for table in tables for cells in table)
    assert convert_text(text, tmp_path).table("launches")["duration_ns"].to_list() == [1_500_000, 1_500]


def test_a_duration_of_unknown_unit_is_none(tmp_path: Path) -> None:
    one = convert_text(page(row("Duration", "tick", "6.75")), tmp_path)
    assert one.table("launches")["duration_ns"].to_list() == [None]
    assert one.table("metrics")["unit"].to_list() == ["tick"]
