"""CSV text in the forms in which shells, editors, spreadsheets and transfers leave it, through all readers of CSV.

Figures of each form are those of the plain text, or the file is refused in one line that names it.
"""

from __future__ import annotations

import codecs
import csv
import dataclasses
import functools
import io
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import kerneldb
from kerneldb.api.ingestion import IngestOptions, Outcome
from kerneldb.errors import TraceError
from tests.ingest.conversion import Converted, convert_file
from tests.ncu.reading import page, printed, row

NSYS = Path(__file__).parents[1] / "fixtures" / "nsys"
NVPROF = (
    '"Start","Duration","Grid X","Grid Y","Grid Z","Block X","Block Y","Block Z","Registers Per Thread","Static SMem",'
    '"Dynamic SMem","Size","Throughput","Device","Context","Stream","Name"\n'
    "s,ms,,,,,,,,KB,B,MB,GB/s,,,,\n"
    '0.150000,0.002048,,,,,,,,,,0.250000,122.070312,"TITAN Xp (1)","1","7","[CUDA memcpy HtoD]"\n'
    '0.160000,1.500000,64,2,1,256,1,1,32,8.0,16,,,"TITAN Xp (1)","1","7","void step<float, int>(float*, int) [117]"\n'
)
NVPROF_SUMS = (
    '"Type","Time(%)","Time","Calls","Avg","Min","Max","Name"\n,%,ms,,us,us,ms,\n'
    '"GPU activities",90.0,542.360000,3,180786.0,100.0,300.0,"void step<float, int>(float*, int)"\n'
    '"GPU activities",10.0,60.000000,2,30000.0,29000.0,0.031,"[CUDA memcpy DtoH]"\n'
)
ROCPROF = (
    '"Kind","Agent_Id","Queue_Id","Thread_Id","Dispatch_Id","Kernel_Id","Kernel_Name","Correlation_Id",'
    '"Start_Timestamp","End_Timestamp","Workgroup_Size_X","Workgroup_Size_Y","Workgroup_Size_Z","Grid_Size_X",'
    '"Grid_Size_Y","Grid_Size_Z"\n'
    '"KERNEL_DISPATCH","Agent 1",1,42,1,8,"addition(float*, int)",1,1000,2500,64,1,1,1024,1,1\n'
    '"KERNEL_DISPATCH","Agent 1",1,42,2,8,"addition(float*, int)",2,3000,4250,64,1,1,1024,1,1\n'
)
ROCPROF_V1 = (
    '"Index","KernelName","gpu-id","queue-id","pid","tid","grd","wgr","lds","scr","vgpr","sgpr","BeginNs","EndNs"\n'
    '0,"addition(float*, int)",0,0,42,42,1024,64,0,0,8,24,1000,2500\n'
    '1,"addition(float*, int)",0,0,42,42,1024,64,0,0,8,24,3000,4250\n'
)
ROCPROF_SUMS = (
    '"Name","Calls","TotalDurationNs","AverageNs","Percentage"\n'
    '"addition(float*, int)",2,2750,1375,68.75\n"other(int)",1,1250,1250,31.25\n'
)
ROCPROF_COUNTERS = (
    '"Correlation_Id","Dispatch_Id","Agent_Id","Queue_Id","Process_Id","Thread_Id","Grid_Size","Kernel_Id",'
    '"Kernel_Name","Workgroup_Size","Counter_Name","Counter_Value","Start_Timestamp","End_Timestamp"\n'
    '1,1,"Agent 4",1,15,15,1000,10,"add(float*, int)",64,"SQ_WAVES",16,1000,1020\n'
    '2,2,"Agent 4",1,15,15,1000,10,"add(float*, int)",64,"SQ_WAVES",17.5,2000,2005\n'
)
ROCPROF_COPIES = (
    '"Kind","Direction","Stream_Id","Source_Agent_Id","Destination_Agent_Id","Correlation_Id","Start_Timestamp",'
    '"End_Timestamp"\n"MEMORY_COPY","MEMORY_COPY_HOST_TO_DEVICE",0,"Agent 0","Agent 4",1,1000,2500\n'
)
ROCPROF_CALLS = (
    '"Domain","Function","Process_Id","Thread_Id","Correlation_Id","Start_Timestamp","End_Timestamp"\n'
    '"HIP_RUNTIME_API","hipLaunchKernel",15,16,1,500,600\n"HIP_RUNTIME_API","hipMalloc",15,16,2,610,640\n'
)
ROCPROF_MEMORY = (
    '"Kind","Operation","Agent_Id","Allocation_Size","Address","Correlation_Id","Start_Timestamp","End_Timestamp"\n'
    '"MEMORY_ALLOCATION","MEMORY_ALLOCATION_ALLOCATE","Agent 4",1024,"0x00007ffb26354000",1,1000,1010\n'
)
NSYS_EXECUTIONS = (
    "API Start (ns),API Dur (ns),Queue Start (ns),Queue Dur (ns),Kernel Start (ns),Kernel Dur (ns),Total Dur (ns),PID,"
    "TID,DevId,API Function,GridXYZ,BlockXYZ,Kernel Name\n"
    '100,20,120,30,150,50,100,7,7,0,cudaLaunchKernel,   8    2    1, 256    1    1,"add(float *, int)"\n'
    '300,20,320,30,350,70,120,7,7,0,cudaLaunchKernel,   8    2    1, 256    1    1,"add(float *, int)"\n'
)
NCU_SOURCE = (
    '"Kernel Name","gemm(float *)"\n"#","Address","Source","# Samples","Instructions Executed"\n'
    '"0","0x7fc48541d900","  IMAD.MOV.U32 R1, RZ, RZ, c[0x0][0x28] ","42","3632"\n'
    '"1","0x7fc48541d910","  EXIT ","1","16"\n'
)
POWER = (
    "timestamp, index, uuid, power.draw [W], clocks.current.sm [MHz]\n"
    "2026/11/21 10:20:30.123, 0, GPU-8c6cd7a2-0000-0000-0000-000000000000, 71.25 W, 1410 MHz\n"
    "2026/11/21 10:20:30.223, 0, GPU-8c6cd7a2-0000-0000-0000-000000000000, 171.50 W, 1980 MHz\n"
)


@dataclasses.dataclass(frozen=True)
class Sample:
    """A text, the name of its file, and how many first columns every version of the tool prints in that order."""

    text: str
    name: str
    fixed: int = 1
    preamble: int = 0


SAMPLES = {
    "ncu details": Sample(
        page(
            row("Duration", "us", "6.75"), row("SM Frequency", "Ghz", "1.99"), row("Duration", "us", "7.25", launch=1)
        ),
        "details.csv",
        fixed=2,
    ),
    "ncu raw": Sample(printed("C.raw.csv").decode(), "page.csv", fixed=2),
    "nsys trace": Sample((NSYS / "r23_cuda_gpu_trace.csv").read_text(encoding="utf-8"), "r_cuda_gpu_trace.csv"),
    "nsys sums": Sample((NSYS / "r23_cuda_gpu_sum.csv").read_text(encoding="utf-8"), "r_cuda_gpu_sum.csv"),
    "nvprof trace": Sample(NVPROF, "gpu.csv", fixed=3),
    "nvprof sums": Sample(NVPROF_SUMS, "sums.csv", fixed=4),
    "rocprof kernels": Sample(ROCPROF, "1_kernel_trace.csv"),
    "rocprof v1": Sample(ROCPROF_V1, "results.csv"),
    "rocprof v1 sums": Sample(ROCPROF_SUMS, "results.stats.csv"),
    "power": Sample(POWER, "power.csv"),
    "nsys executions": Sample(NSYS_EXECUTIONS, "r_cuda_kern_exec_trace.csv"),
    "nsys ranges": Sample(
        (NSYS / "r23_nvtx_gpu_proj_trace.csv").read_text(encoding="utf-8"), "r_nvtx_gpu_proj_trace.csv"
    ),
    "rocprof counters": Sample(ROCPROF_COUNTERS, "1_counter_collection.csv"),
    "rocprof copies": Sample(ROCPROF_COPIES, "1_memory_copy_trace.csv"),
    "rocprof calls": Sample(ROCPROF_CALLS, "1_hip_api_trace.csv"),
    "rocprof memory": Sample(ROCPROF_MEMORY, "1_memory_allocation_trace.csv"),
    "rocprof sums": Sample(ROCPROF_SUMS, "1_kernel_stats.csv"),
}
WRITTEN = ("byte order mark", "CRLF", "UTF-16 LE", "UTF-16 BE, CRLF", "no last line end", "blank lines at the end")
"""Forms of a page of several tables, which has no columns of its own."""


def table_of(sample: Sample) -> list[list[str]]:
    return list(csv.reader(io.StringIO(sample.text)))


def written(table: list[list[str]]) -> str:
    out = io.StringIO()
    csv.writer(out, quoting=csv.QUOTE_ALL, lineterminator="\n").writerows(table)
    return out.getvalue()


def as_power(sample: Sample, text: str) -> str:
    """nvidia-smi puts no quotes."""
    return text.replace('"', "") if sample.text == POWER else text


def reordered(sample: Sample) -> str:
    table = [line[: sample.fixed] + line[sample.fixed :][::-1] for line in padded(sample)]
    return as_power(sample, written(table))


def padded(sample: Sample) -> list[list[str]]:
    """Rows as long as the header: rows of metrics on a details page end before the rules."""
    table = table_of(sample)
    return [line[: len(table[0])] + [""] * (len(table[0]) - len(line)) for line in table]


def with_column(sample: Sample) -> str:
    cells = ["Next_Thing", "", *["7.5"] * len(sample.text.splitlines())]  # the second line may hold units
    table = [[*line, cell] for line, cell in zip(padded(sample), cells, strict=False)]
    return as_power(sample, written(table))


FORMS: dict[str, Callable[[Sample], str | bytes]] = {
    "byte order mark": lambda sample: codecs.BOM_UTF8 + sample.text.encode(),
    "CRLF": lambda sample: sample.text.replace("\n", "\r\n"),
    "UTF-16 LE": lambda sample: codecs.BOM_UTF16_LE + sample.text.encode("utf-16-le"),
    "UTF-16 BE, CRLF": lambda sample: codecs.BOM_UTF16_BE + sample.text.replace("\n", "\r\n").encode("utf-16-be"),
    "no last line end": lambda sample: sample.text.rstrip("\n"),
    "blank lines at the end": lambda sample: sample.text + "\n\n  \n",
    "another order of columns": reordered,
    "a new column": with_column,
}


def read(sample: Sample, text: str | bytes, folder: Path) -> Converted:
    path = folder / sample.name
    path.write_bytes(text if isinstance(text, bytes) else text.encode())
    return convert_file(path, folder / "spool")


Figures = dict[str, list[tuple[Any, ...]]]


def figures(one: Converted, without: str = "") -> Figures:
    """Launches, sums, metrics and power readings."""
    metrics = one.rows("metrics", "metric", "value", "unit")
    return {
        "launches": one.rows("launches", "launch_index", "duration_ns", "device", "signature_id"),
        "sums": one.rows("rollups", "n", "total_ns", "signature_id"),
        "metrics": sorted((line for line in metrics if without.lower() not in line[0].lower() or not without), key=str),
        "power": one.rows("power_samples", "power_w", "sm_mhz", "ts_ns"),
        "ranges": one.rows("ranges", "name", "depth", "start_ns", "duration_ns"),
        "calls": one.rows("api_calls", "name", "start_ns", "duration_ns"),
        "memory": one.rows("memory_events", "address", "bytes", "ts_ns"),
        "source": one.rows("source_counters", "instruction", "text", "metric", "value"),
    }


@pytest.fixture(scope="module")
def plain(tmp_path_factory: pytest.TempPathFactory) -> Callable[[Sample], Figures]:
    """The figures of a plain text, which all its forms are held to."""

    @functools.cache
    def found(sample: Sample) -> Figures:
        return figures(read(sample, sample.text, tmp_path_factory.mktemp("plain")))

    return found


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("name", SAMPLES)
def test_that_a_form_has_the_figures_of_the_plain_text(
    tmp_path: Path, plain: Callable[[Sample], Figures], name: str, form: str
) -> None:
    sample = SAMPLES[name]
    assert any(plain(sample).values())
    assert figures(read(sample, FORMS[form](sample), tmp_path), without="Next_Thing") == plain(sample)


@pytest.mark.parametrize("form", WRITTEN)
def test_that_a_form_of_a_source_page_has_its_counters(
    tmp_path: Path, plain: Callable[[Sample], Figures], form: str
) -> None:
    sample = Sample(NCU_SOURCE, "source.csv")
    assert plain(sample)["source"]
    assert figures(read(sample, FORMS[form](sample), tmp_path)) == plain(sample)


@pytest.mark.parametrize("name", SAMPLES)
def test_that_a_new_column_is_named(tmp_path: Path, name: str) -> None:
    """It is stored as a counter, or a line of the report names it."""
    one = read(SAMPLES[name], with_column(SAMPLES[name]), tmp_path)
    stored = [text for (text,) in (*one.rows("metrics", "source_metric"), *one.rows("samples", "counter"))]
    assert any(
        "next_thing" in (text or "").lower() for text in (*stored, *one.report("skipped"), *one.report("unread"))
    )


@pytest.mark.parametrize("name", SAMPLES)
def test_that_semicolons_are_refused_by_name(tmp_path: Path, name: str) -> None:
    """A spreadsheet in a locale of decimal commas writes them, and has rounded the numbers by then."""
    sample = SAMPLES[name]
    table = table_of(sample)
    text = "\n".join(";".join(f'"{cell}"' if ";" in cell or '"' in cell else cell for cell in line) for line in table)
    with pytest.raises(TraceError, match=r"`;` between the fields, as a spreadsheet saves it.*rounds long numbers"):
        read(sample, text + "\n", tmp_path)


def strayed(sample: Sample, line: int) -> bytes:
    """The text with a return between two fields in the middle of a line, where no CSV parser expects it."""
    lines = sample.text.splitlines()
    middle = len(lines[line]) // 2
    at = lines[line].index(",", middle) if "," in lines[line][middle:] else lines[line].rindex(",")
    lines[line] = f"{lines[line][:at]}\r{lines[line][at:]}"
    return ("\n".join(lines) + "\n").encode()


@pytest.fixture(scope="module")
def outcomes(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Outcome]:
    """What becomes of such texts, and of two that are as they should be, in one call."""
    folder, paths = tmp_path_factory.mktemp("strayed"), {}
    texts = {name: strayed(sample, -(number % 2)) for number, (name, sample) in enumerate(SAMPLES.items())}
    names = {name: SAMPLES[name].name for name in texts} | dict.fromkeys(GOOD, "other.csv")
    for name, text in (texts | GOOD).items():
        paths[name] = folder / name / names[name]
        paths[name].parent.mkdir()
        paths[name].write_bytes(text)
    with kerneldb.open(folder / "k.duckdb") as database:
        found = {one.path: one for one in database.ingest_each(list(paths.values()), IngestOptions())}
    return {name: found[path] for name, path in paths.items()}


GOOD = {"good power": POWER.encode(), "good nvprof": NVPROF.encode()}


@pytest.mark.parametrize("name", GOOD)
def test_that_stray_returns_cost_no_other_file(outcomes: dict[str, Outcome], name: str) -> None:
    assert outcomes[name].status == "ingested"


@pytest.mark.parametrize("name", SAMPLES)
def test_that_a_stray_return_is_refused_or_changes_no_figure(
    outcomes: dict[str, Outcome], plain: Callable[[Sample], Figures], tmp_path: Path, name: str
) -> None:
    """A refusal in one line, or figures as they were."""
    sample, bad, error = SAMPLES[name], outcomes[name].path, outcomes[name].error
    if error is None:
        found = convert_file(bad, tmp_path / "spool")
        assert figures(found) == plain(sample) or sum(found.report("skipped").values())
    else:
        assert "\n" not in str(error)
        assert str(bad) in str(error)
        assert "report it" not in str(error)
