"""Reports that nsys 2020.4, 2022.4 and 2023.4 printed from one capture tell what the capture holds."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

import polars as pl
import pytest

from kerneldb.errors import NotATraceError, TraceError, UnreadableTraceError
from kerneldb.ingest import Options, convert
from tests.ingest.conversion import Converted, convert_file
from tests.nsys import exports

if TYPE_CHECKING:
    from pathlib import Path

TRACES = {
    "console_2020.4.csv": 1000,
    "console_2022.4.csv": 1,
    "console_2023.4.csv": 1,
    "microseconds_gputrace.csv": 1,
    "units_cuda_gpu_trace.csv": 1,
    "seconds_cuda_gpu_trace.csv": 100_000,
    "r23_cuda_gpu_trace.csv": 1,
    "r23_cuda_gpu_trace.tsv": 1,
    "r23_cuda_gpu_trace.json": 1,
    "r23_cuda_gpu_trace_base.csv": 1,
    "r23_cuda_gpu_trace_mangled.csv": 1,
    "r23_cuda_gpu_trace_nvtx-name.csv": 1,
}
"""File → last digit of its starts in ns."""
EXACT_SIZES = {"console_2020.4.csv", "units_cuda_gpu_trace.csv"}
NAMES = {"base": 1, "mangled": 2}
MICROSECOND = 1000


@pytest.fixture
def folder(root: Path) -> Path:
    return root / "tests" / "fixtures" / "nsys"


def read(path: Path, tmp_path: Path, options: Options | None = None) -> Converted:
    return convert_file(path, tmp_path / f"spool-{path.name}", options)


def copy_kind(one: exports.Copy) -> str | None:
    return None if one.kind is None else {1: "HtoD", 2: "DtoH", 8: "DtoD"}[one.kind]


def in_order() -> list[exports.Kernel | exports.Copy]:
    return sorted((*exports.KERNELS, *exports.MEMORY), key=lambda one: one.start)


@pytest.mark.parametrize("name", TRACES)
def test_launches_are_those_of_the_capture(folder: Path, tmp_path: Path, name: str) -> None:
    rows = read(folder / name, tmp_path).launches.sort("launch_index").to_dicts()
    truth = in_order()
    assert [row["launch_index"] for row in rows] == list(range(len(truth)))
    column = next((number for word, number in NAMES.items() if word in name), 0)
    found = sorted(rows, key=lambda row: (row["correlation_id"], row["start_ns"]))
    for row, one in zip(found, sorted(truth, key=lambda one: (one.correlation, one.start)), strict=True):
        assert abs(row["start_ns"] - one.start) <= TRACES[name] / 2, name
        assert row["stream"] == one.stream
        assert row["device"] == 0
        if isinstance(one, exports.Kernel):
            check_kernel(row, one, column, exact=name in EXACT_SIZES)
        else:
            assert row["kind"] == ("memset" if one.kind is None else "memcpy")
            assert row["copy_kind"] == copy_kind(one)


def check_kernel(row: dict[str, Any], one: exports.Kernel, column: int, *, exact: bool) -> None:
    assert row["kind"] == "kernel"
    assert row["name"] == one.name[column]
    assert tuple(row[f"grid_{axis}"] for axis in "xyz") == one.grid
    assert tuple(row[f"block_{axis}"] for axis in "xyz") == one.block
    assert row["registers"] == one.registers
    tolerance = 0 if exact else 500
    assert abs(row["static_shared_bytes"] - one.shared[0]) <= tolerance
    assert abs(row["dynamic_shared_bytes"] - one.shared[1]) <= tolerance
    assert ("shared_rounded" in (row["quality"] or "")) is not exact


@pytest.mark.parametrize("name", [name for name in TRACES if not name.startswith("seconds")])
def test_durations_are_exact(folder: Path, tmp_path: Path, name: str) -> None:
    launches = read(folder / name, tmp_path).launches
    assert sorted(launches["duration_ns"]) == sorted(one.duration for one in in_order())
    assert (launches["end_ns"] - launches["start_ns"]).to_list() == launches["duration_ns"].to_list()


def test_seconds_with_four_decimals_are_marked_as_rounded(folder: Path, tmp_path: Path) -> None:
    launches = read(folder / "seconds_cuda_gpu_trace.csv", tmp_path).launches
    assert launches["quality"].str.contains("start_rounded,duration_rounded").all()
    assert launches["duration_ns"].max() == 2_500_000


@pytest.mark.parametrize("name", TRACES)
def test_bytes_are_exact_or_marked(folder: Path, tmp_path: Path, name: str) -> None:
    rows = read(folder / name, tmp_path).launches.filter(pl.col("kind") != "kernel").to_dicts()
    truth = {one.correlation: one.bytes for one in exports.MEMORY}
    for row in rows:
        rounded = "bytes_rounded" in (row["quality"] or "")
        assert rounded or row["bytes"] == truth[row["correlation_id"]], name
        assert row["bytes"] is None or abs(row["bytes"] - truth[row["correlation_id"]]) <= 500


def test_bytes_of_short_copies_come_out_of_the_throughput(folder: Path, tmp_path: Path) -> None:
    rows = read(folder / "r23_cuda_gpu_trace.csv", tmp_path).launches.to_dicts()
    found = {row["correlation_id"]: (row["bytes"], row["quality"]) for row in rows if row["kind"] != "kernel"}
    assert found == {6: (8, None), 7: (65_536, None), 8: (33_554_000, "bytes_rounded"), 10: (4_096, None)}


def test_signatures_of_csv_and_sqlite_are_equal(folder: Path, tmp_path: Path) -> None:
    exported = convert_file(exports.build(tmp_path / "r23.sqlite", "2023.4"), tmp_path / "exported")
    printed = read(folder / "r23_cuda_gpu_trace.csv", tmp_path)
    columns = ["start_ns", "end_ns", "signature_id"]
    wanted = exported.launches.sort("start_ns").filter(pl.col("correlation_id") != 8)
    found = printed.launches.sort("start_ns").filter(pl.col("correlation_id") != 8)
    assert found.select(columns).rows() == wanted.select(columns).rows()


def test_ranges_in_front_of_names_become_phases(folder: Path, tmp_path: Path) -> None:
    launches = read(folder / "r23_cuda_gpu_trace_nvtx-name.csv", tmp_path).launches
    found = dict(
        launches.filter(pl.col("process").is_null() if "process" in launches.columns else True)
        .select("start_ns", "phase")
        .iter_rows()
    )
    assert found[1_000_500] == "layer 0"
    assert found[1_010_000] == "ncclAllReduce"
    assert found[1_070_000] is None


SUMS = {
    "console_2020.4.csv": ("report", False),
    "console_2022.4.csv": ("report_grid", True),
    "console_2023.4.csv": ("report_grid", True),
    "r23_cuda_gpu_kern_gb_sum.json": ("report_grid", True),
    "r23_cuda_gpu_kern_sum.tsv": ("report", False),
    "console_json_2023.4.txt": ("report", False),
    "r23_cuda_gpu_sum.csv": ("report", False),
}


@pytest.mark.parametrize("name", SUMS)
def test_sums_are_those_of_the_capture(folder: Path, tmp_path: Path, name: str) -> None:
    origin, by_shape = SUMS[name]
    found = sums(read(folder / name, tmp_path), origin)
    groups: dict[tuple[Any, ...], list[int]] = {}
    for one in exports.KERNELS:
        key = (one.name[0], *(one.grid + one.block if by_shape else (None,) * 6))
        groups.setdefault(key, []).append(one.duration)
    assert set(found) == set(groups)
    for key, durations in groups.items():
        row = found[key]
        assert (row["n"], row["timed"]) == (len(durations), len(durations))
        assert row["total_ns"] == sum(durations)
        assert (row["min_ns"], row["max_ns"]) == (min(durations), max(durations))
        assert row["timing"] == "timeline"
        if "2020" in name:
            assert (row["median_ns"], row["sum_squares_ns2"]) == (None, None)
        else:
            assert row["median_ns"] == pytest.approx(pl.Series(durations).median())
            assert row["sum_squares_ns2"] == pytest.approx(sum(one**2 for one in durations), rel=1e-3)


def sums(converted: Converted, origin: str) -> dict[tuple[Any, ...], dict[str, Any]]:
    names = converted.table("kernel_names").select("name_id", "name")
    shapes = converted.table("signatures").join(names, on="name_id")
    rows = converted.table("rollups").join(shapes.drop("trace_id", strict=False), on="signature_id")
    wanted = rows.filter(pl.col("origin") == origin, pl.col("kind") == "kernel")
    axes = [f"{shape}_{axis}" for shape in ("grid", "block") for axis in "xyz"]
    return {(row["name"], *(row[axis] for axis in axes)): row for row in wanted.to_dicts()}


@pytest.mark.parametrize(
    "name", ["console_2020.4.csv", "console_2022.4.csv", "console_2023.4.csv", "r23_cuda_gpu_sum.csv"]
)
def test_sums_of_copies_have_direction_and_no_bytes(folder: Path, tmp_path: Path, name: str) -> None:
    converted = read(folder / name, tmp_path)
    signatures = converted.table("signatures").filter(pl.col("kind") != "kernel").drop("kind")
    rows = converted.table("rollups").join(signatures, on="signature_id")
    copies = rows.filter(pl.col("bytes").is_null())
    found = {row["copy_kind"]: (row["n"], row["total_ns"]) for row in copies.to_dicts()}
    assert found == {copy_kind(one): (1, one.duration) for one in exports.MEMORY}


@pytest.mark.parametrize("name", ["console_2020.4.csv", "console_2022.4.csv", "r23_cuda_gpu_mem_size_sum.json"])
def test_sizes_of_copies_are_metrics_in_bytes(folder: Path, tmp_path: Path, name: str) -> None:
    converted = read(folder / name, tmp_path)
    signatures = converted.table("signatures").select("signature_id", "copy_kind")
    rows = converted.table("metrics").join(signatures, on="signature_id")
    totals = rows.filter(pl.col("metric") == "memory_operation__bytes.sum").to_dicts()
    truth = {copy_kind(one): one.bytes for one in exports.MEMORY}
    assert {row["copy_kind"] for row in totals} == set(truth)
    for row in totals:
        assert row["unit"] == "byte"
        assert abs(row["value"] - truth[row["copy_kind"]]) <= row["precision"]
    assert set(rows.filter(pl.col("metric") == "memory_operation__bytes.count")["value"]) == {1.0}


def test_sums_per_range_keep_the_range_and_overlap(folder: Path, tmp_path: Path) -> None:
    rows = read(folder / "console_2022.4.csv", tmp_path).table("rollups").filter(pl.col("origin") == "report_phase")
    by_phase = dict(rows.group_by("phase").agg(pl.col("n").sum()).iter_rows())
    assert by_phase == {
        "prefill": 2,
        "layer 0": 2,
        "NCCL:ncclAllReduce": 1,
        "decode": 5,
        "epoch": 1,
        "unfinished": 2,
        None: 1,
    }
    assert rows["n"].sum() > len(exports.KERNELS)


def test_prefixed_names_of_sums_become_phases(folder: Path, tmp_path: Path) -> None:
    converted = read(folder / "r23_cuda_gpu_kern_sum_nvtx-name_base.csv", tmp_path)
    assert set(converted.table("kernel_names")["name"]) == {"gemm", "add", "plain_kernel"}
    rows = converted.table("rollups")
    assert rows["n"].sum() == len(exports.KERNELS)
    assert set(rows["phase"]) == {"layer 0", "ncclAllReduce", "decode", "epoch", "unfinished", None}


def test_projected_ranges(folder: Path, tmp_path: Path) -> None:
    converted = read(folder / "r23_nvtx_gpu_proj_trace.csv", tmp_path)
    rows = {row["name"]: row for row in converted.table("ranges").to_dicts()}
    assert rows["prefill"]["start_ns"] == 1_000_500
    assert rows["prefill"]["duration_ns"] == 1_011_536 - 1_000_500
    assert rows["layer 0"]["parent_id"] == rows["prefill"]["range_id"]
    assert rows["layer 0"]["depth"] == 1
    assert converted.trace["kind"] == "timeline"


def test_a_capture_of_several_reports_reads_each_event_once(folder: Path, tmp_path: Path) -> None:
    converted = read(folder / "console_2023.4.csv", tmp_path)
    assert converted.launches.height == len(in_order())
    assert set(converted.table("rollups")["origin"]) == {"report", "report_grid", "report_phase"}
    skipped = converted.report("skipped")
    assert "report cuda_kern_exec_trace: the same work is in cuda_gpu_trace, in more detail" in skipped
    assert "report cuda_gpu_sum: the same work is in cuda_gpu_kern_sum, in more detail" in skipped
    assert any("osrt_sum" in reason for reason in converted.report("note"))


def test_run_and_name(folder: Path, tmp_path: Path) -> None:
    for name in ("r23_cuda_gpu_trace_base.csv", "r23_cuda_gpu_kern_sum.tsv", "r23_cuda_gpu_trace.json"):
        assert read(folder / name, tmp_path).trace.get("stated_run") is None  # a name in a path proves nothing
    said = read(folder / "r23_cuda_gpu_sum.csv", tmp_path, Options(run="mine", name="sums", phase="decode"))
    assert (said.trace["stated_run"], said.trace["name"], said.trace["default_phase"]) == ("mine", "sums", "decode")
    assert said.trace["kind"] == "summary"


REFUSED = {
    "column_2020.4.txt": (r"made for reading.*--format csv .*--report cuda_gpu_kern_sum", NotATraceError),
    "column_2023.4.txt": (r"made for reading.*--format csv .*--report cuda_gpu_kern_sum", NotATraceError),
    "table_2023.4.txt": ("made for reading", NotATraceError),
    "console_nohdr_2023.4.csv": ("no header line.*without `nohdr`", NotATraceError),
    "nohdr_cuda_gpu_kern_sum.csv": ("no header line.*without `nohdr`", NotATraceError),
    "empty_osrt_sum.csv": ("empty report", NotATraceError),
}


@pytest.mark.parametrize("name", REFUSED)
def test_what_cannot_be_read_names_the_remedy(folder: Path, tmp_path: Path, name: str) -> None:
    pattern, kind = REFUSED[name]
    with pytest.raises(kind, match=pattern) as caught:
        convert(folder / name, tmp_path / "spool", Options())
    assert "\n" not in str(caught.value)
    assert name in str(caught.value)
    assert not list(tmp_path.glob("spool/**/*.parquet"))


@pytest.mark.parametrize("name", ["r23_cuda_gpu_trace.csv", "console_2022.4.csv", "r23_cuda_gpu_trace.json"])
@pytest.mark.parametrize("share", [0.3, 0.55, 0.8])
def test_a_cut_text_is_refused(folder: Path, tmp_path: Path, name: str, share: float) -> None:
    content = (folder / name).read_bytes()
    cut = content[: int(len(content) * share)]
    if cut.endswith(b"\n") or b"," not in cut[cut.rfind(b"\n") :]:
        cut = content[: int(len(content) * share) + 20]
    path = tmp_path / name
    path.write_bytes(cut)
    with pytest.raises(UnreadableTraceError, match="cut"):
        convert(path, tmp_path / "spool", Options())
    assert not list(tmp_path.glob("spool/**/*.parquet"))


@pytest.mark.parametrize("change", ["crlf", "bom", "utf-16", "application text"])
def test_what_shells_do_to_a_text(folder: Path, tmp_path: Path, change: str) -> None:
    text = (folder / "console_2022.4.csv").read_text(encoding="utf-8")
    contents = {
        "crlf": text.replace("\n", "\r\n").encode(),
        "bom": b"\xef\xbb\xbf" + text.encode(),
        "utf-16": text.encode("utf-16"),
        "application text": b"loading model, please wait\nstep 1, loss 3.5\n[1/2] done\n" + text.encode(),
    }
    path = tmp_path / "capture.csv"
    path.write_bytes(contents[change])
    converted = convert_file(path, tmp_path / "spool")
    assert converted.launches.height == len(in_order())
    assert converted.table("rollups").filter(pl.col("origin") == "report_grid").height == 5
    skipped = converted.report("skipped").get("line of other programs", 0)
    assert skipped == (2 if change == "application text" else 0)


HEADERS = {
    "gputrace 2021.5": "Start (ns),Duration (ns),CorrId,GrdX,GrdY,GrdZ,BlkX,BlkY,BlkZ,Reg/Trd,StcSMem (MB),"
    "DymSMem (MB),Bytes (MB),Throughput (MBps),SrcMemKd,DstMemKd,Device,Ctx,Strm,Name",
    "columns in another order": "Name,Strm,Ctx,Device,DstMemKd,SrcMemKd,Throughput (MB/s),Bytes (MB),DymSMem (MB),"
    "StcSMem (MB),Reg/Trd,BlkZ,BlkY,BlkX,GrdZ,GrdY,GrdX,CorrId,Duration (us),Start (ms)",
    "KiB and milliseconds": "Start (ms),Duration (ms),CorrId,GrdX,GrdY,GrdZ,BlkX,BlkY,BlkZ,Reg/Trd,StcSMem (KiB),"
    "DymSMem (KiB),Bytes (KiB),Throughput (KiB/s),SrcMemKd,DstMemKd,Device,Ctx,GreenCtx,Strm,Name",
}


def test_a_column_less_costs_that_column(tmp_path: Path) -> None:
    """Or the file is no such report any more; nobody is asked to report a file that was edited."""
    header, refused = HEADERS["columns in another order"].split(","), dict[str, str]()
    for left in header:
        path = tmp_path / "a_gputrace.csv"
        values = {"Name": "k", "Device": "NVIDIA H200 (3)", "Start (ms)": "1.5", "Duration (us)": "2"}
        names = [name for name in header if name != left]
        path.write_text(f"{','.join(names)}\n{','.join(values.get(name, '1') for name in names)}\n", encoding="utf-8")
        try:
            found = convert_file(path, tmp_path / re.sub(r"\W", "", left)).launches
        except TraceError as error:
            refused[left] = str(error)
            continue
        assert found.height == 1
        assert (found["bytes"][0] is None) == left.startswith("Bytes")
    assert len(refused) < len(header) // 2
    assert not [left for left, said in refused.items() if "report it" in said]


@pytest.mark.parametrize("kind", HEADERS)
def test_units_come_from_the_header(tmp_path: Path, kind: str) -> None:
    values = {
        "Start": 1.5,
        "Duration": 0.25,
        "CorrId": 9,
        "GrdX": 4,
        "GrdY": 2,
        "GrdZ": 1,
        "BlkX": 64,
        "BlkY": 1,
        "BlkZ": 1,
        "Reg/Trd": 40,
        "StcSMem": 2,
        "DymSMem": 0,
        "Device": "NVIDIA H200 (3)",
        "Ctx": 1,
        "Strm": 13,
        "Name": "k",
    }
    factors = {"ns": 1, "us": 1_000, "ms": 1_000_000, "MB": 1_000_000, "KiB": 1024}
    names = re.findall(r"([\w/]+)(?: \((\w+)[^)]*\))?", HEADERS[kind])
    if kind == "gputrace 2021.5":
        values |= {"Start": 1500, "Duration": 250}
    fields = [str(values.get(name, "")) for name, _ in re.findall(r"([\w/]+)( \([^)]*\))?(?:,|$)", HEADERS[kind])]
    path = tmp_path / "a_gputrace.csv"
    path.write_text(f"{HEADERS[kind]}\n{','.join(fields)}\n", encoding="utf-8")
    row = convert_file(path, tmp_path / "spool").launches.row(0, named=True)
    unit = dict(names)
    assert row["start_ns"] == values["Start"] * factors[unit["Start"]]  # type: ignore[operator]
    assert row["duration_ns"] == values["Duration"] * factors[unit["Duration"]]  # type: ignore[operator]
    assert row["static_shared_bytes"] == 2 * factors[unit["StcSMem"]]
    assert (row["device"], row["stream"], row["registers"]) == (3, 13, 40)
    assert [row[f"grid_{axis}"] for axis in "xyz"] == [4, 2, 1]


def test_calls_of_the_api(tmp_path: Path) -> None:
    path = tmp_path / "a_cuda_api_trace.csv"
    header = "Start (ns),Duration (ns),Name,Result,CorrID,Pid,Tid,T-Pri,Thread Name"
    path.write_text(f"{header}\n10,5,cudaLaunchKernel_v7000,0,77,1,2,20,main\n20,5,cuLaunchKernel,0,78,1,2,20,main\n")
    rows = convert_file(path, tmp_path / "spool").table("api_calls").to_dicts()
    assert [(row["name"], row["kind"], row["start_ns"], row["correlation_id"]) for row in rows] == [
        ("cudaLaunchKernel", "cuda_runtime", 10, 77),
        ("cuLaunchKernel", "cuda_driver", 20, 78),
    ]


def test_execution_trace_links_kernels_to_calls(folder: Path, tmp_path: Path) -> None:
    text = (folder / "console_2022.4.csv").read_text(encoding="utf-8")
    start = text.index("API Start")
    path = tmp_path / "a_kernexectrace.csv"
    path.write_text(text[start : text.index("\n\n", start) + 1], encoding="utf-8")
    rows = convert_file(path, tmp_path / "spool").launches
    graph = rows.filter(pl.col("api_call") == "cudaGraphLaunch")
    assert graph["start_ns"].to_list() == [1_060_000, 1_061_000]
    second = rows.row(by_predicate=pl.col("process") == str(exports.SECOND), named=True)
    assert (second["launch_start_ns"], second["launch_duration_ns"], second["start_ns"]) == (1_000_100, 777, 1_001_000)
    assert set(rows["launch_status"]) == {"no_op"}


def test_columns_that_no_table_takes_are_named(tmp_path: Path) -> None:
    header = (
        "API Start (ns),API Dur (ns),Queue Start (ns),Queue Dur (ns),Kernel Start (ns),Kernel Dur (ns),Total Dur (ns),"
        "PID,TID,DevId,API Function,GridXYZ,BlockXYZ,Kernel Name"
    )
    path = tmp_path / "run_cuda_kern_exec_trace.csv"
    path.write_text(f"{header}\n50,5,55,5,60,31,41,2,2,1,cuLaunchKernel,   2    1    1,  64    1    1,k\n")
    named = convert_file(path, tmp_path / "spool").report("unread")
    assert sorted(reason.split(":")[0] for reason in named) == [
        "column Queue Dur",
        "column Queue Start",
        "column Total Dur",
    ]
