"""CSV of every kind and era, alone and as files of one capture."""

from __future__ import annotations

import gzip
from typing import TYPE_CHECKING

import polars as pl
import pytest

from kerneldb import ingest
from kerneldb.errors import UnreadableTraceError
from kerneldb.ingest import Options
from tests.rocprof.conversion import converted, launch_rows

if TYPE_CHECKING:
    from pathlib import Path

KERNELS_63 = (
    '"Kind","Agent_Id","Queue_Id","Thread_Id","Dispatch_Id","Kernel_Id","Kernel_Name","Correlation_Id",'
    '"Start_Timestamp","End_Timestamp","Private_Segment_Size","Group_Segment_Size","Workgroup_Size_X",'
    '"Workgroup_Size_Y","Workgroup_Size_Z","Grid_Size_X","Grid_Size_Y","Grid_Size_Z"\n'
    '"KERNEL_DISPATCH",4,1,7,1,10,"add(float*)",1,1000,1500,16,2048,64,1,1,1000,1,1\n'
)
"""ROCm 6.2 and 6.3: no stream, no registers, a plain agent number, and the LDS of the dispatch."""
AGENT = '"Node_Id","Logical_Node_Id","Agent_Type","Cpu_Cores_Count","Cu_Count","Name"\n'
AGENTS = AGENT + '0,0,"CPU",64,0,"AMD EPYC"\n4,1,"GPU",0,304,"gfx942"\n'
"""As rocprofv3 writes it: nothing says the number of a GPU among GPUs."""
COUNTERS = (
    '"Correlation_Id","Dispatch_Id","Agent_Id","Queue_Id","Process_Id","Thread_Id","Grid_Size","Kernel_Id",'
    '"Kernel_Name","Workgroup_Size","LDS_Block_Size","Scratch_Size","VGPR_Count","Accum_VGPR_Count","SGPR_Count",'
    '"Counter_Name","Counter_Value","Start_Timestamp","End_Timestamp"\n'
)
COUNTED = '1,{dispatch},"Agent 4",1,15,15,1000,10,"add(float*)",64,0,0,8,4,16,"{counter}",{value},{start},{end}\n'
ROCPROF_V1 = (
    '"Index","KernelName","gpu-id","queue-id","queue-index","pid","tid","grd","wgr","lds","scr","arch_vgpr",'
    '"accum_vgpr","sgpr","wave_size","sig","obj","DispatchNs","BeginNs","EndNs","CompleteNs","DurationNs"\n'
    '0,"vec_add(double*, int)",0,0,0,11,12,1048576,256,512,0,8,0,16,64,0x0,0x7f,1,5000,9000,9500,4000\n'
)
ROCPROF_V2 = (
    "Dispatch_ID,GPU_ID,Queue_ID,PID,TID,Grid_Size,Workgroup_Size,LDS_Per_Workgroup,Scratch_Per_Workitem,Arch_VGPR,"
    "Accum_VGPR,SGPR,Wave_Size,Kernel_Name,Start_Timestamp,End_Timestamp,Correlation_ID,SQ_WAVES,FETCH_SIZE\n"
    '1,0,1,77,77,512,64,0,0,16.0,0,32,64,"k",100,300,1,8.0,2\n'
)
STATS = '"Name","Calls","TotalDurationNs","AverageNs","Percentage","MinNs","MaxNs","StdDev"\n'


def written(path: Path, text: str) -> Path:
    path.write_text(text, encoding="utf-8")
    return path


@pytest.mark.parametrize("agent", ["9" * 40, "GPU 2147483648", "-1", "1e3"])
def test_an_agent_whose_number_no_gpu_has_is_unknown(tmp_path: Path, agent: str) -> None:
    text = KERNELS_63.replace('"KERNEL_DISPATCH",4,', f'"KERNEL_DISPATCH","{agent}",')
    (row,) = converted(written(tmp_path / "huge_kernel_trace.csv", text)).launches.to_dicts()
    assert (row.get("device"), row["duration_ns"]) == (None, 500)


def test_rocm_6_kernel_traces(tmp_path: Path) -> None:
    (row,) = converted(written(tmp_path / "old_kernel_trace.csv", KERNELS_63)).launches.to_dicts()
    assert (row["grid_x"], row["block_x"], row["reported_grid_x"], row["reported_grid_unit"]) == (
        16,
        64,
        1000,
        "work-items",
    )
    assert (row["shared_bytes"], row["scratch_bytes"], row.get("registers_reported")) == (2048, 16, None)
    assert (row["device"], row["duration_ns"], row["timing"]) == (4, 500, "timeline")


def test_agents_are_numbered_as_gpus_where_they_are_described(tmp_path: Path) -> None:
    written(tmp_path / "77_kernel_trace.csv", KERNELS_63)
    written(tmp_path / "77_agent_info.csv", AGENTS)
    trace = converted(tmp_path)
    assert trace.launches["device"].to_list() == [0]
    assert trace.launches["process"].to_list() == ["77"]
    assert trace.table("devices").select("device", "arch", "multiprocessors").rows() == [(0, "gfx942", 304)]
    alone = converted(tmp_path / "77_kernel_trace.csv")
    assert any("agent_info" in reason for reason in alone.report("note"))


def test_files_of_one_capture_are_one_trace(tmp_path: Path) -> None:
    written(tmp_path / "a_kernel_trace.csv", KERNELS_63)
    written(tmp_path / "a_agent_info.csv", AGENTS)
    written(tmp_path / "b_kernel_trace.csv", KERNELS_63.replace("add", "sub"))
    units = ingest.plan(ingest.expand([tmp_path]))
    assert [sorted(file.name for file in unit.files) for unit in units] == [
        ["a_agent_info.csv", "a_kernel_trace.csv"],
        ["b_kernel_trace.csv"],
    ]


def test_counter_collection_alone_is_profiled(tmp_path: Path) -> None:
    rows = [
        COUNTED.format(dispatch=1, counter="SQ_WAVES", value="16.000000", start=10, end=30),
        COUNTED.format(dispatch=1, counter="FETCH_SIZE", value="2.50", start=10, end=30),
        COUNTED.format(dispatch=2, counter="SQ_WAVES", value="4", start=40, end=45),
    ]
    trace = converted(written(tmp_path / "x_counter_collection.csv", COUNTERS + "".join(rows)))
    launches = launch_rows(trace, "timing", "duration_ns", "total_blocks", "threads_per_block", "grid_x", "quality")
    assert [row["duration_ns"] for row in launches] == [20, 5]
    assert {row["timing"] for row in launches} == {"profiled"}
    assert (launches[0]["total_blocks"], launches[0]["threads_per_block"], launches[0]["grid_x"]) == (16, 64, None)
    assert trace.trace["kind"] == "profiled"
    metrics = trace.table("metrics").select("launch_index", "metric", "value", "unit", "precision").rows()
    assert metrics == [
        (0, "SQ_WAVES", 16.0, None, 5e-7),
        (0, "FETCH_SIZE", 2560.0, "byte", 5.12),
        (1, "SQ_WAVES", 4.0, None, 0.5),
    ]


def test_counters_of_traced_kernels_belong_to_the_traced_launch(tmp_path: Path) -> None:
    written(tmp_path / "x_kernel_trace.csv", KERNELS_63)
    rows = [
        COUNTED.format(dispatch=1, counter="SQ_WAVES", value="16", start=1000, end=1500),
        COUNTED.format(dispatch=9, counter="SQ_WAVES", value="17", start=2000, end=2001),
    ]
    written(tmp_path / "x_counter_collection.csv", COUNTERS + "".join(rows))
    trace = converted(tmp_path)
    assert [row["timing"] for row in launch_rows(trace, "timing")] == ["timeline", "profiled"]
    assert trace.table("metrics").select("launch_index", "value").rows() == [(0, 16.0), (1, 17.0)]
    assert trace.trace["kind"] == "timeline"


def test_rocprof_v1(tmp_path: Path) -> None:
    trace = converted(written(tmp_path / "results.csv", ROCPROF_V1))
    (row,) = trace.launches.to_dicts()
    assert (row["name"], row["duration_ns"], row["total_blocks"], row["threads_per_block"]) == (
        "vec_add(double*, int)",
        4000,
        4096,
        256,
    )
    assert (row["shared_bytes"], row["registers_reported"], row["process"], row["device"]) == (512, 8, "11", 0)
    assert (trace.trace["source"], row["timing"]) == ("rocprof", "timeline")


def test_rocprof_v1_of_old_releases(tmp_path: Path) -> None:
    """`fbar` (of HSAIL) is no counter: kernels beside counters would not be part of time sums."""
    text = ROCPROF_V1.replace('"arch_vgpr","accum_vgpr","sgpr","wave_size"', '"vgpr","sgpr","fbar"')
    trace = converted(written(tmp_path / "results.csv", text.replace("0,8,0,16,64,0x0", "0,8,16,0,0x0")))
    (row,) = trace.launches.to_dicts()
    assert (row["timing"], row["duration_ns"], row["registers_reported"]) == ("timeline", 4000, 8)
    assert trace.table("metrics").is_empty()


def test_rocprof_v1_with_counters_and_no_times(tmp_path: Path) -> None:
    """What `rocprof -i counters.txt` prints; `--timestamp on` adds times."""
    lines = ROCPROF_V1.splitlines()
    header = lines[0].replace('"DispatchNs","BeginNs","EndNs","CompleteNs","DurationNs"', '"SQ_WAVES","TCC_HIT[0]"')
    row = lines[1].replace("5000,9000,9500,4000", "16.5,3").replace("0x7f,1,", "0x7f,")
    trace = converted(written(tmp_path / "results.csv", f"{header}\n{row}\n"))
    assert launch_rows(trace, "name", "timing", "start_ns", "duration_ns", "total_blocks") == [
        {
            "name": "vec_add(double*, int)",
            "timing": "profiled",
            "start_ns": None,
            "duration_ns": None,
            "total_blocks": 4096,
        }
    ]
    assert sorted(trace.rows("metrics", "metric", "instance", "value"), key=str) == [
        ("SQ_WAVES", None, 16.5),
        ("TCC_HIT", "0", 3.0),
        ("TCC_HIT", None, 3.0),
    ]


def test_sums_beside_the_kernels_of_rocprof_v1_are_of_the_same_trace(tmp_path: Path) -> None:
    """`rocprof --stats` writes both: as two traces, each kernel would count twice."""
    written(tmp_path / "results.csv", ROCPROF_V1)
    for name, row in (("stats", '"vec_add(double*, int)",1,4000,4000,100'), ("hip_stats", '"hipMalloc",7,70,10,100')):
        written(tmp_path / f"results.{name}.csv", ",".join(STATS.split(",")[:5]) + f"\n{row}\n")
    trace = converted(tmp_path)
    assert (trace.table("launches").height, trace.trace["name"]) == (1, "results")
    assert trace.rows("call_sums", "name", "n") == [("hipMalloc", 7)]
    assert trace.rows("rollups", "n", "total_ns") == [(1, 4000)]


def test_wide_counters_of_rocprofv2(tmp_path: Path) -> None:
    trace = converted(written(tmp_path / "results_7.csv", ROCPROF_V2))
    (row,) = trace.launches.to_dicts()
    assert (row["timing"], row["registers_reported"], row["total_blocks"]) == ("profiled", 16, 8)
    metrics = trace.table("metrics").select("metric", "value", "unit").rows()
    assert metrics == [("SQ_WAVES", 8.0, None), ("FETCH_SIZE", 2048.0, "byte")]


def test_sums_of_kernels_are_rollups(tmp_path: Path) -> None:
    text = STATS + '"k(int)",4,400,100.0,80.0,50,150,40.0\n"other",1,100,100.0,20.0,100,100,0.0\n'
    trace = converted(written(tmp_path / "x_kernel_stats.csv", text))
    rollups = trace.table("rollups").join(trace.table("signatures"), on="signature_id")
    names = rollups.join(trace.table("kernel_names"), on="name_id")
    rows = names.select("name", "origin", "n", "total_ns", "min_ns", "max_ns", "sum_squares_ns2").rows()
    assert rows == [("k(int)", "report", 4, 400, 50, 150, 44800.0), ("other", "report", 1, 100, 100, 100, 10000.0)]
    assert trace.trace["kind"] == "summary"


@pytest.mark.parametrize("name", ["x_hip_api_stats.csv", "stats_of_calls.csv", "x_domain_stats.csv"])
def test_sums_of_calls_and_domains_are_no_kernels(tmp_path: Path, name: str) -> None:
    row = (
        '"KERNEL_DISPATCH",4,400,100.0,80.0,50,150,1.0\n'
        if "domain" in name
        else '"hipMalloc",4,400,100.0,80.0,50,150,1.0\n'
    )
    trace = converted(written(tmp_path / name, STATS + row))
    assert trace.table("rollups").is_empty()
    kind = {"x_hip_api_stats.csv": "hip", "x_domain_stats.csv": "domain"}.get(name, "api")
    (found,) = trace.rows("call_sums", "kind", "n", "total_ns", "min_ns", "max_ns", "deviation_ns")
    assert found == (kind, 4, 400, 50, 150, 1.0)


def test_program_counter_samples_are_skipped_aloud(tmp_path: Path) -> None:
    text = '"Sample_Timestamp","Exec_Mask","Dispatch_Id","Instruction","Instruction_Comment","Correlation_Id"\n'
    text += '1,2,3,"s_endpgm","",4\n'
    trace = converted(written(tmp_path / "x_pc_sampling_host_trap.csv", text))
    assert trace.report("skipped") == {"samples of the program counter (not supported)": 1}


def test_quotes_commas_and_line_breaks_in_texts(tmp_path: Path) -> None:
    text = '"Domain","Function","Process_Id","Thread_Id","Correlation_Id","Start_Timestamp","End_Timestamp"\n'
    text += '"MARKER_CORE_RANGE_API","say ""hi"",\nand go",1,1,5,0,100\n"HIP_RUNTIME_API_EXT","hipFree",1,1,6,10,20\n'
    trace = converted(written(tmp_path / "x_marker_api_trace.csv", text))
    assert trace.table("ranges")["name"].to_list() == ['say "hi",\nand go']
    assert trace.table("api_calls")["range_id"].to_list() == [0]


def test_a_cut_file_gives_what_is_whole(tmp_path: Path) -> None:
    whole = KERNELS_63 + KERNELS_63.splitlines()[1] + "\n"
    trace = converted(written(tmp_path / "x_kernel_trace.csv", whole[:-25]))
    assert trace.launches.height == 1
    assert trace.report("truncated") == {"the text ends within a row": 1}


def test_compressed_windows_and_marked_files(tmp_path: Path) -> None:
    path = tmp_path / "x_kernel_trace.csv.gz"
    path.write_bytes(gzip.compress(b"\xef\xbb\xbf" + KERNELS_63.replace("\n", "\r\n").encode()))
    assert converted(path).launches["grid_z"].to_list() == [1]


def test_a_table_of_someone_else_is_refused(tmp_path: Path) -> None:
    path = written(tmp_path / "people.csv", "name,age\nAda,36\n")
    (unit,) = ingest.plan([path])
    assert unit.reader is None or unit.reader.name != "rocprofv3"


def test_numbers_beyond_32_bits_stay_exact(tmp_path: Path) -> None:
    """A kernel of 331 s, as in a file that rocprof wrote."""
    end = 331_634_184_678 + 1000
    trace = converted(written(tmp_path / "x_kernel_trace.csv", KERNELS_63.replace(",1500,", f",{end},")))
    assert trace.launches["duration_ns"].to_list() == [331_634_184_678]


AGENTS_950 = AGENTS.replace("gfx942", "gfx950")
TRACED_950 = (
    '"Kind","Agent_Id","Dispatch_Id","Kernel_Name","Correlation_Id","Start_Timestamp","End_Timestamp","LDS_Block_Size",'
    '"VGPR_Count","Accum_VGPR_Count","SGPR_Count","Workgroup_Size_X","Workgroup_Size_Y","Workgroup_Size_Z",'
    '"Grid_Size_X","Grid_Size_Y","Grid_Size_Z"\n'
)
ROW_950 = '"KERNEL_DISPATCH","Agent 4",{n},"k{agpr}",{n},{n}000,{n}500,0,64,{agpr},16,64,1,1,64,1,1\n'


@pytest.mark.parametrize(("last", "registers"), [(0, 128), (32, 64)])
def test_the_gfx950_fault_is_judged_by_the_whole_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, last: int, registers: int
) -> None:
    """The only kernel with accumulation registers stands in the last of several slices."""
    monkeypatch.setattr("kerneldb.ingest.rocprof_csv.table.SLICE_BYTES", 1)
    monkeypatch.setattr("kerneldb.ingest.source.BLOCK_BYTES", 1024)
    rows = "".join(ROW_950.format(n=n, agpr=0) for n in range(1, 40)) + ROW_950.format(n=40, agpr=last)
    trace = written(tmp_path / "x_kernel_trace.csv", TRACED_950 + rows)
    launches = converted(trace, written(tmp_path / "x_agent_info.csv", AGENTS_950)).launches
    assert launches.height == 40
    assert set(launches["registers"].to_list()) == {registers}


@pytest.mark.parametrize(("agpr", "registers", "quality"), [(0, 128, "gfx950_registers_halved"), (4, 64, "")])
def test_the_gfx950_fault_in_counter_collection(tmp_path: Path, agpr: int, registers: int, quality: str) -> None:
    row = COUNTED.replace(",8,4,16,", f",64,{agpr},16,")
    rows = row.format(dispatch=1, counter="SQ_WAVES", value="1", start=1, end=2)
    counted = written(tmp_path / "x_counter_collection.csv", COUNTERS + rows)
    (launch,) = converted(counted, written(tmp_path / "x_agent_info.csv", AGENTS_950)).launches.to_dicts()
    assert launch["registers"] == registers
    assert quality in launch["quality"]


CPUS = '0,0,"CPU",64,0,"AMD EPYC"\n1,1,"CPU",64,0,"AMD EPYC"\n'
TWO = CPUS + '2,2,"GPU",0,304,"gfx942"\n3,3,"GPU",0,304,"gfx942"\n'
APART = CPUS + '5,2,"GPU",0,304,"gfx942"\n9,3,"GPU",0,304,"gfx942"\n'


@pytest.mark.parametrize(
    ("agents", "cells", "devices"),
    [
        (TWO, ["Agent 2", "Agent 3"], [0, 1]),
        (TWO, ["GPU 0", "GPU 1"], [0, 1]),
        (TWO, ["2", "3"], [0, 1]),
        (APART, ["Agent 2", "Agent 3"], [0, 1]),
        (APART, ["Agent 5", "Agent 9"], [0, 1]),
        (TWO, ["Agent 0", "CPU 0", "Agent 7"], [None, None, None]),
    ],
    ids=["logical", "of the kind", "plain", "gaps", "absolute", "no GPU"],
)
def test_gpus_are_numbered_among_gpus(tmp_path: Path, agents: str, cells: list[str], devices: list[int | None]) -> None:
    head, row = KERNELS_63.splitlines()
    rows = [
        row.replace(",4,1,7,", f',"{cell}",1,7,').replace(",1000,1500,", f",{n}000,{n}500,")
        for n, cell in enumerate(cells)
    ]
    trace = converted(
        written(tmp_path / "7_kernel_trace.csv", "\n".join([head, *rows]) + "\n"),
        written(tmp_path / "7_agent_info.csv", AGENT + agents),
    )
    assert [row["device"] for row in launch_rows(trace, "device")] == devices
    assert trace.table("devices")["device"].to_list() == [0, 1]


COPIES_HEAD = (
    "Kind,Direction,Stream_Id,Source_Agent_Id,Destination_Agent_Id,Correlation_Id,Start_Timestamp,End_Timestamp"
)
COPIES = f"""{COPIES_HEAD}
"MEMORY_COPY","MEMORY_COPY_HOST_TO_DEVICE",0,"Agent 0","Agent 4",1,1000,1100
"MEMORY_COPY","MEMORY_COPY_DEVICE_TO_HOST",0,"Agent 4","Agent 0",2,1200,1300
"""


def test_a_copy_belongs_to_its_device_where_no_file_names_the_agents(tmp_path: Path) -> None:
    trace = converted(written(tmp_path / "7_memory_copy_trace.csv", COPIES))
    devices = [row["device"] for row in launch_rows(trace, "device")]
    assert devices[0] == devices[1] is not None


def test_a_column_that_is_new_is_no_counter(tmp_path: Path) -> None:
    text = KERNELS_63.replace('"Grid_Size_Z"\n', '"Grid_Size_Z","Node_Name"\n').replace(",1,1\n", ',1,1,"host7"\n')
    trace = converted(written(tmp_path / "x_kernel_trace.csv", text))
    assert (trace.launches["timing"].to_list(), trace.trace["kind"]) == (["timeline"], "timeline")
    assert trace.table("metrics").is_empty()
    assert trace.trace["source"] == "rocprofv3"


SUMS_V1 = '"Name","Calls","TotalDurationNs","AverageNs","Percentage"\n"{name}",2,200,100,100.0\n'


@pytest.mark.parametrize(
    ("file", "name", "stored"),
    [
        ("results.stats.csv", "GEMM_KERNEL", 1),
        ("results.stats.csv", "foo(float*)", 1),
        ("stats.csv", "foo(float*)", 1),
        ("results.hip_stats.csv", "foo(float*)", 0),
    ],
)
def test_sums_of_rocprof(tmp_path: Path, file: str, name: str, stored: int) -> None:
    trace = converted(written(tmp_path / file, SUMS_V1.format(name=name)))
    assert trace.table("rollups").height == stored
    assert trace.table("call_sums").height == 1 - stored


def test_addresses_in_the_upper_half(tmp_path: Path) -> None:
    head = (
        '"Kind","Operation","Agent_Id","Allocation_Size","Address","Correlation_Id","Start_Timestamp","End_Timestamp"\n'
    )
    row = '"MEMORY_ALLOCATION","MEMORY_ALLOCATION_ALLOCATE","Agent 4",8,"0xfffffffffffffff0",1,10,20\n'
    trace = converted(written(tmp_path / "x_memory_allocation_trace.csv", head + row))
    assert trace.table("memory_events")["address"].to_list() == ["0xfffffffffffffff0"]


def test_what_cannot_be_read_is_called_by_its_capture(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_: object) -> None:
        raise ArithmeticError

    monkeypatch.setattr("kerneldb.ingest.rocprof_csv.convert.convert", fail)
    for prefix in ("a", "b"):
        written(tmp_path / f"{prefix}_kernel_trace.csv", KERNELS_63)
        written(tmp_path / f"{prefix}_agent_info.csv", AGENTS)
    for prefix, unit in zip("ab", ingest.plan(ingest.expand([tmp_path])), strict=True):
        with pytest.raises(UnreadableTraceError, match=f"^{tmp_path}/{prefix}_\\*: cannot be read"):
            ingest.convert(unit, tmp_path / "spool", Options())


def test_channels_of_a_counter_are_its_instances(tmp_path: Path) -> None:
    """The tables of rocprof-compute, which join passes: identifiers come again with a number."""
    head = "Dispatch_ID,GPU_ID,Grid_Size,Workgroup_Size,LDS_Per_Workgroup,Wave_Size,Kernel_Name,Start_Timestamp,"
    head += "End_Timestamp,Kernel_ID,TCC_HIT[0],TCC_HIT[1],TCC_HIT[2],SQ_WAVES,Kernel_ID_1,Dispatch_ID_2,"
    head += "Start_Timestamp_pmc_perf_3\n"
    rows = "0,0,512,64,0,64,k,10,20,3,1,2,4,8,3,0,9\n1,0,512,64,0,64,k,30,40,3,1,,4,8,3,1,9\n"
    metrics = converted(written(tmp_path / "pmc_perf.csv", head + rows)).table("metrics")
    assert set(metrics["metric"]) == {"TCC_HIT", "SQ_WAVES"}
    totals = metrics.filter(metric="TCC_HIT").filter(pl.col("instance").is_null())
    assert totals.select("launch_index", "value").rows() == [(0, 7.0)]
    assert metrics.filter(metric="TCC_HIT", launch_index=1)["instance"].to_list() == ["0", "2"]


@pytest.mark.parametrize("column", ["Node_Id", "Logical_Node_Id"])
def test_a_number_of_an_agent_that_is_none_is_counted(tmp_path: Path, column: str) -> None:
    header, *rows = AGENTS.splitlines()
    cells = rows[-1].split(",")
    cells[header.replace('"', "").split(",").index(column)] = "9" * 5000
    written(tmp_path / "x_agent_info.csv", "\n".join([header, *rows[:-1], ",".join(cells), ""]))
    written(tmp_path / "x_kernel_trace.csv", KERNELS_63)
    found = converted(tmp_path)
    reason = f"cell of column {column.lower()} that is no number of an agent"
    assert found.report("unread")[reason] == 1
    assert launch_rows(found, "name")
