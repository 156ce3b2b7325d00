"""nvprof: texts in the layouts of its generations and its SQLite files, made by hand after NVIDIA's documentation."""

from __future__ import annotations

import sqlite3
from typing import TYPE_CHECKING

import polars as pl
import pytest

from kerneldb.errors import NotATraceError, UnreadableTraceError
from kerneldb.ingest import Options, convert, diagnose
from kerneldb.ingest.ledger import UNKNOWN
from tests.ingest.conversion import Converted, convert_file

if TYPE_CHECKING:
    from pathlib import Path

PREAMBLE = "==4711== NVPROF is profiling process 4711, command: ./app --token=SECRET\n==4711== Profiling result:\n"
HEADER = (
    '"Start","Duration","Grid X","Grid Y","Grid Z","Block X","Block Y","Block Z","Registers Per Thread","Static SMem",'
    '"Dynamic SMem","Size","Throughput","SrcMemType","DstMemType","Device","Context","Stream","Name"'
)
UNITS = "s,ms,,,,,,,,KB,B,MB,GB/s,,,,,,"
ROWS = (
    '0.150000,0.002048,,,,,,,,,,0.250000,122.070312,"Pageable","Device","TITAN Xp (1)","1","7","[CUDA memcpy HtoD]"',
    '0.160000,1.500000,64,2,1,256,1,1,32,8.000000,16,,,,,"TITAN Xp (1)","1","7",'
    '"void step<float, int>(float*, int) [117]"',
    '0.170000,0.750000,64,2,1,256,1,1,32,8.000000,0,,,,,"TITAN Xp (1)","1","13",'
    '"void step<float, int>(float*, int) [121]"',
    '0.180000,0.001024,,,,,,,,,,0.003906,3.725290,,,"TITAN Xp (1)","1","7","[CUDA memset]"',
)
TRACE = PREAMBLE + "\n".join((HEADER, UNITS, *ROWS)) + "\n"


def read(tmp_path: Path, text: str, name: str = "run.csv") -> Converted:
    path = tmp_path / name
    path.write_text(text, encoding="utf-8")
    return convert_file(path, tmp_path / f"spool-{name}")


def test_launches(tmp_path: Path) -> None:
    converted = read(tmp_path, TRACE)
    copy, first, second, fill = converted.launches.sort("launch_index").to_dicts()
    assert (copy["kind"], copy["copy_kind"], copy["bytes"]) == ("memcpy", "HtoD", 262_144)
    assert (fill["kind"], fill["duration_ns"]) == ("memset", 1_024)
    assert first["name"] == second["name"] == "void step<float, int>(float*, int)"
    assert (first["correlation_id"], second["correlation_id"]) == (117, 121)
    assert (first["start_ns"], first["duration_ns"], first["end_ns"]) == (160_000_000, 1_500_000, 161_500_000)
    assert [first[f"grid_{axis}"] for axis in "xyz"] == [64, 2, 1]
    assert [first[f"block_{axis}"] for axis in "xyz"] == [256, 1, 1]
    assert (first["registers"], first["static_shared_bytes"], first["dynamic_shared_bytes"]) == (32, 8_192, 16)
    assert (first["device"], first["stream"], second["stream"]) == (1, 7, 13)
    assert first["signature_id"] == second["signature_id"]


def test_trace_row_and_device(tmp_path: Path) -> None:
    converted = read(tmp_path, TRACE)
    trace = converted.trace
    assert (trace["source"], trace["kind"], trace["era"], trace["clock"]) == (
        "nvprof",
        "timeline",
        "gpu trace csv",
        "capture",
    )
    assert trace["name"] == "run"
    assert converted.table("devices").select("device", "name", "vendor").rows() == [(1, "TITAN Xp", "NVIDIA")]
    assert converted.report("stored") == {"GPU activity": 4}
    for part in tmp_path.glob("spool-*/**/*"):
        assert part.is_dir() or b"SECRET" not in part.read_bytes()


def test_starts_have_microseconds_and_sizes_four_digits(tmp_path: Path) -> None:
    qualities = {row["kind"]: row["quality"] for row in read(tmp_path, TRACE).launches.to_dicts()}
    assert qualities["kernel"] == "start_rounded"
    assert "bytes_rounded" in qualities["memset"]


@pytest.mark.parametrize(
    ("printed", "unit", "wanted"),
    [("8.1920", "KB", 8192), ("8.0000", "KB", 8192), ("16", "B", 16), ("2.0480", "KB", 2048)],
)
def test_a_kilobyte_has_1000_bytes_until_cuda_8(tmp_path: Path, printed: str, unit: str, wanted: int) -> None:
    units = UNITS.replace("KB", unit, 1)
    row = ROWS[1].replace("8.000000", printed)
    converted = read(tmp_path, "\n".join((HEADER, units, row)) + "\n")
    assert converted.launches["static_shared_bytes"].to_list() == [wanted]


def test_older_columns_and_units(tmp_path: Path) -> None:
    header = HEADER.replace('"SrcMemType","DstMemType",', "")
    units = "us,us,,,,,,,,B,B,B,MB/s,,,,"
    row = '5.5,2.25,1,1,1,32,1,1,8,0,0,,,"Tesla K40c (0)","1","7","k(int, int)"'
    (launch,) = read(tmp_path, "\n".join((header, units, row)) + "\n").launches.to_dicts()
    assert (launch["start_ns"], launch["duration_ns"], launch["name"]) == (5_500, 2_250, "k(int, int)")


def test_numbers_with_exponents(tmp_path: Path) -> None:
    row = '1e-05,1.5e-06,1,1,1,32,1,1,8,0,0,,,"Tesla K40c (0)","1","7","k"'
    header = HEADER.replace('"SrcMemType","DstMemType",', "")
    (launch,) = read(tmp_path, "\n".join((header, "s,s,,,,,,,,B,B,B,MB/s,,,,", row)) + "\n").launches.to_dicts()
    assert (launch["start_ns"], launch["duration_ns"]) == (10_000, 1_500)


def test_unified_memory_columns(tmp_path: Path) -> None:
    header = HEADER.replace('"Name"', '"Unified Memory","Virtual Address","Name","Correlation_ID"')
    row = ROWS[1].replace('"void step<float, int>(float*, int) [117]"', ',,"k","9"')
    (launch,) = read(tmp_path, "\n".join((header, UNITS + ",,,", row)) + "\n").launches.to_dicts()
    assert (launch["name"], launch["correlation_id"]) == ("k", 9)


SUMMARY = (
    PREAMBLE + '"Type","Time(%)","Time","Calls","Avg","Min","Max","Name"\n,%,ms,,us,us,ms,\n'
    '"GPU activities",90.0,542.360000,3,180786.000000,100.000000,300.000000,"void step<float, int>(float*, int)"\n'
    '"GPU activities",10.0,60.000000,2,30000.000000,29000.000000,0.031000,"[CUDA memcpy DtoH]"\n'
    '"API calls",99.0,700.000000,4,1.000000,1.000000,1.000000,"cudaMemcpy"\n'
)


def test_summary(tmp_path: Path) -> None:
    converted = read(tmp_path, SUMMARY)
    names = converted.table("signatures").join(converted.table("kernel_names").select("name_id", "name"), on="name_id")
    rows = {row["name"]: row for row in converted.table("rollups").join(names, on="signature_id").to_dicts()}
    step = rows["void step<float, int>(float*, int)"]
    assert (step["n"], step["total_ns"], step["min_ns"], step["max_ns"]) == (3, 542_360_000, 100_000, 300_000_000)
    assert rows["[CUDA memcpy DtoH]"]["copy_kind"] == "DtoH"
    assert {row["origin"] for row in rows.values()} == {"report"}
    assert converted.trace["kind"] == "summary"
    skipped = converted.report("skipped")
    assert skipped["activity API calls: calls of the host in texts of nvprof are not read; those of nsys are"] == 1


def test_summary_of_2016_glues_units_and_quotes_nothing(tmp_path: Path) -> None:
    text = (
        "==9== Profiling result:\nTime(%),Time,Calls,Avg,Min,Max,Name\n"
        "90.00%,542.36ms,3,180.79ms,100.00us,300.00ms,void step<float, int>(float*, int)\n"
        "10.00%,60.0us,2,30.0us,29.0us,31.0us,[CUDA memset]\n"
    )
    converted = read(tmp_path, text)
    rows = converted.table("rollups").sort("total_ns", descending=True).to_dicts()
    assert [(row["n"], row["total_ns"]) for row in rows] == [(3, 542_360_000), (2, 60_000)]
    assert "void step<float, int>(float*, int)" in set(converted.table("kernel_names")["name"])


SEVERAL = (
    "==9== Profiling result:\nTime(%),Time,Calls,Avg,Min,Max,Name\n%,ms,,us,us,us,\n"
    "90.0,1.500000,3,500.0,100.0,900.0,step(float*, int)\n"
    "10.0,0.100000,2,50.0,29.0,71.0,[CUDA memcpy HtoD]\n"
    "==9== API calls:\nTime(%),Time,Calls,Avg,Min,Max,Name\n%,s,,us,us,us,\n"
    "99.0,2.500000,5,1.0,1.0,1.0,cudaLaunchKernel\n1.0,0.5,5,1.0,1.0,1.0,cuDeviceGet\n"
    "==9== Unified Memory profiling result:\n"
    "Device,Count,Avg Size,Min Size,Max Size,Total Size,Total Time,Name\n,,KB,KB,MB,MB,ms,\n"
    "TITAN Xp (0),12,43.0,4.0,1.0,0.5,0.16,Host To Device\nTITAN Xp (0),7,,,,,3.5,Gpu page fault groups\n"
    "Total CPU Page faults: 49\n"
)


def test_that_only_the_table_of_the_gpu_is_summed(tmp_path: Path) -> None:
    converted = read(tmp_path, SEVERAL)
    rows = converted.table("rollups").sort("total_ns").select("n", "total_ns", "min_ns").rows()
    assert rows == [(2, 100_000, 29_000), (3, 1_500_000, 100_000)]
    skipped = converted.report("skipped")
    assert {reason.partition(":")[0]: n for reason, n in skipped.items()} == {
        "activity API calls": 2,
        "table Unified Memory profiling result": 3,
    }
    assert list(converted.report("unread").values()) == [4, 4], "Time(%) and Avg"


def test_that_units_are_those_of_the_nearest_header(tmp_path: Path) -> None:
    """A log of two processes: the second table has units of its own."""
    other = "us,us,,,,,,,,KB,B,MB,GB/s,,,,,,"
    text = TRACE + "==4712== Profiling result:\n" + "\n".join((HEADER, other, ROWS[1])) + "\n"
    kernels = read(tmp_path, text).launches.filter(pl.col("kind") == "kernel")
    assert sorted(kernels["duration_ns"]) == [1_500, 750_000, 1_500_000]
    assert min(kernels["start_ns"]) == 160


def test_activities_that_are_no_kernels(tmp_path: Path) -> None:
    blank = ",".join([""] * 13)
    events = [
        f'0.19,,{blank},"TITAN Xp (0)",,,"[Unified Memory page thrashing]"',
        f'0.19,0.002,{blank},,,,"cudaLaunchKernel (step [117])"',
        f'0.19,0.002,{blank},,,,"cudaMemcpy"',
        f'0.19,0.002,{blank},,,,"[something of the next version]"',
    ]
    converted = read(tmp_path, TRACE + "\n".join(events) + "\n")
    assert converted.launches.height == 4
    skipped = [reason for reason in converted.report("skipped") if reason.startswith("activity")]
    assert len(skipped) == 4
    assert [reason for reason in skipped if UNKNOWN in reason] == [
        f"activity [something of the next version]: {UNKNOWN}"
    ]


def test_output_of_the_program_in_between(tmp_path: Path) -> None:
    text = "loss 3.5\n" + TRACE.replace(ROWS[2], "iteration 7 done\n" + ROWS[2]) + "==4711== Generated result file\n"
    converted = read(tmp_path, text)
    assert converted.launches.height == 4
    assert converted.report("skipped")["line of other programs"] == 2


def diagnostics(path: Path) -> dict[str, str]:
    (diagnosis,) = diagnose(path)
    return {f"{one.topic}: {one.message}": one.remedy for one in diagnosis.diagnostics}


def test_doctor(tmp_path: Path) -> None:
    path = tmp_path / "run.csv"
    path.write_text(TRACE, encoding="utf-8")
    found = diagnostics(path)
    assert (
        "nvprof --export-profile"
        in found["precision: 4 launches with rounded starts: the printed text has no more digits."]
    )
    path.write_text(SUMMARY, encoding="utf-8")
    (remedy,) = diagnostics(path).values()
    assert "nvprof --csv --print-gpu-trace" in remedy
    texts = " ".join([*found, *found.values(), remedy])
    assert "nsys export" not in texts
    assert "Nsight" not in texts


def test_doctor_on_databases(tmp_path: Path) -> None:
    path = nvvp(tmp_path / "run.nvvp")
    assert "GPU events: 2 launches of 2 signatures." in diagnostics(path)
    with sqlite3.connect(path) as connection:
        connection.execute("DELETE FROM CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL")
    connection.close()
    assert "compute capability 8.0" in diagnostics(path)["no GPU events: The file holds no kernels."]


@pytest.mark.parametrize("row", [ROWS[1][:40] + "\n", ROWS[1][:-4] + "\n"])
@pytest.mark.parametrize("after", ["", ROWS[2] + "\n"])
def test_a_row_that_lost_its_end_names_its_line(tmp_path: Path, row: str, after: str) -> None:
    path = tmp_path / "run.csv"
    path.write_text(PREAMBLE + "\n".join((HEADER, UNITS, ROWS[0])) + "\n" + row + after, encoding="utf-8")
    with pytest.raises(UnreadableTraceError, match=r"line 6 has .*cut or damaged"):
        convert(path, tmp_path / "spool", Options())


def test_a_sum_that_lost_its_end_names_its_line(tmp_path: Path) -> None:
    path = tmp_path / "run.csv"
    path.write_text(SUMMARY.replace(',300.000000,"void step<float, int>(float*, int)"', ""), encoding="utf-8")
    with pytest.raises(UnreadableTraceError, match="line 5 has 6 fields where the header has 8"):
        convert(path, tmp_path / "spool", Options())


@pytest.mark.parametrize("text", ["No kernels were profiled.\n", f"{HEADER}\n{UNITS}\n", f"{HEADER}\n"])
def test_nothing_was_recorded(tmp_path: Path, text: str) -> None:
    path = tmp_path / "run.csv"
    path.write_text(PREAMBLE + text, encoding="utf-8")
    with pytest.raises(NotATraceError, match=r"nothing was recorded.*print-gpu-trace"):
        convert(path, tmp_path / "spool", Options())


REFUSED = {
    "console summary": (
        "            Type  Time(%)      Time     Calls       Avg       Min       Max  Name\n",
        "made for reading",
    ),
    "console trace": (
        "   Start  Duration            Grid Size      Block Size     Regs*    SSMem*\n",
        "made for reading",
    ),
    "api trace": ('"Start","Duration","Name"\ns,us,\n1.0,2.0,"cudaMalloc"\n', "without GPU work"),
}


@pytest.mark.parametrize("kind", REFUSED)
def test_what_cannot_be_read_names_the_remedy(tmp_path: Path, kind: str) -> None:
    text, pattern = REFUSED[kind]
    path = tmp_path / "run.csv"
    path.write_text(PREAMBLE + text, encoding="utf-8")
    with pytest.raises(NotATraceError, match=f"{pattern}.*nvprof --csv --print-gpu-trace"):
        convert(path, tmp_path / "spool", Options())


@pytest.mark.parametrize("cut", [3, 60, 100])
def test_a_cut_text(tmp_path: Path, cut: int) -> None:
    path = tmp_path / "run.csv"
    path.write_text(TRACE[:-cut], encoding="utf-8")
    with pytest.raises(UnreadableTraceError, match="cut"):
        convert(path, tmp_path / "spool", Options())


def nvvp(path: Path) -> Path:
    shape = "gridX, gridY, gridZ, blockX, blockY, blockZ, staticSharedMemory, dynamicSharedMemory, registersPerThread"
    with sqlite3.connect(path) as connection:
        connection.execute("CREATE TABLE StringTable (_id_ INTEGER, value TEXT)")
        connection.executemany("INSERT INTO StringTable VALUES (?, ?)", [(1, "_Z4stepPfi"), (2, "NVIDIA Tegra X1")])
        kernel = f"(_id_, start, end, deviceId, contextId, streamId, correlationId, {shape}, name)"
        for table in ("CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL", "CUPTI_ACTIVITY_KIND_KERNEL"):
            connection.execute(f"CREATE TABLE {table} {kernel}")
        row = (1, 1000, 3500, 0, 1, 7, 9, 8, 1, 1, 128, 1, 1, 64, 0, 20, 1)
        marks = ", ".join("?" for _ in row)
        connection.execute(f"INSERT INTO CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL VALUES ({marks})", row)
        copy = "(_id_, copyKind, srcKind, dstKind, bytes, start, end, deviceId, contextId, streamId, correlationId)"
        connection.execute(f"CREATE TABLE CUPTI_ACTIVITY_KIND_MEMCPY {copy}")
        connection.execute("INSERT INTO CUPTI_ACTIVITY_KIND_MEMCPY VALUES (1, 1, 1, 3, 4096, 100, 900, 0, 1, 7, 3)")
        device = "(id, name, computeCapabilityMajor, computeCapabilityMinor, numMultiprocessors, coreClockRate)"
        connection.execute(f"CREATE TABLE CUPTI_ACTIVITY_KIND_DEVICE {device}")
        connection.execute("INSERT INTO CUPTI_ACTIVITY_KIND_DEVICE VALUES (0, 2, 5, 3, 1, 921600)")
    connection.close()
    return path


def test_databases(tmp_path: Path) -> None:
    converted = convert_file(nvvp(tmp_path / "run.nvvp"), tmp_path / "spool")
    copy, kernel = converted.launches.sort("launch_index").to_dicts()
    assert (copy["kind"], copy["copy_kind"], copy["bytes"], copy["duration_ns"]) == ("memcpy", "HtoD", 4096, 800)
    assert (kernel["name"], kernel["duration_ns"], kernel["shared_bytes"]) == ("_Z4stepPfi", 2500, 64)
    assert (converted.trace["source"], converted.trace["era"]) == ("nvprof", "sqlite")
    device = converted.table("devices").row(0, named=True)
    assert (device["name"], device["arch"], device["clock_mhz"]) == ("NVIDIA Tegra X1", "sm_53", 921.6)


def test_that_other_tables_of_a_database_are_counted(tmp_path: Path) -> None:
    path = nvvp(tmp_path / "run.nvvp")
    with sqlite3.connect(path) as connection:
        peer = "CREATE TABLE CUPTI_ACTIVITY_KIND_MEMCPY2 AS SELECT * FROM CUPTI_ACTIVITY_KIND_MEMCPY"
        connection.execute(peer)
        for table in ("CUPTI_ACTIVITY_KIND_RUNTIME", "CUPTI_ACTIVITY_KIND_NEXT_YEAR"):
            connection.execute(f"CREATE TABLE {table} (_id_ INTEGER)")
            connection.execute(f"INSERT INTO {table} VALUES (1), (2)")
    connection.close()
    converted = convert_file(path, tmp_path / "spool")
    assert sorted(converted.launches["kind"]) == ["kernel", "memcpy", "memcpy"]
    skipped = converted.report("skipped")
    assert skipped[f"table CUPTI_ACTIVITY_KIND_NEXT_YEAR: {UNKNOWN}"] == 2
    assert [n for reason, n in skipped.items() if "KIND_RUNTIME: calls of the host" in reason] == [2]
    assert not any("KIND_MEMCPY" in reason or "StringTable" in reason for reason in skipped)


def test_many_rows(tmp_path: Path) -> None:
    many = "\n".join((HEADER, UNITS, *(ROWS[1] for _ in range(5_000)))) + "\n"
    launches = read(tmp_path, many).launches
    assert launches.height == 5_000
    assert launches.select(pl.col("duration_ns").sum()).item() == 5_000 * 1_500_000


def test_numbers_of_unknown_meaning(tmp_path: Path) -> None:
    """A unit that is not known, decimals behind a comma, and times without a unit: none is taken for nanoseconds."""
    with pytest.raises(UnreadableTraceError, match=r"line 4 has units that are not known \(ticks\)"):
        read(tmp_path, TRACE.replace("s,ms,", "s,ticks,"), "unit.csv")
    with pytest.raises(UnreadableTraceError, match="line 5 has 20 fields where the header has 19"):
        read(tmp_path, TRACE.replace("0.150000,", "0,150000,"), "comma.csv")
    bare = read(tmp_path, TRACE.replace(UNITS + "\n", ""), "bare.csv").launches
    assert bare["duration_ns"].to_list() == [None] * 4


def test_counters_alone(tmp_path: Path) -> None:
    """`nvprof --metrics`: something was recorded, though no launches."""
    header = '"Device","Kernel","Invocations","Metric Name","Metric Description","Min","Max","Avg"'
    text = (
        f'{PREAMBLE.replace("Profiling", "Metric")}{header}\n"V100 (0)","k(int)",3,"ipc","Executed IPC",1.0,2.0,1.5\n'
    )
    with pytest.raises(NotATraceError, match="counters of nvprof, which have no times"):
        read(tmp_path, text)
