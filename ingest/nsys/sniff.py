"""Columns of the reports of `nsys stats`: names of all eras, and units out of the header, never by position.

Names and units were observed by running nsys 2020.4, 2022.4 and 2023.4 on one export, and in public files of 2021 to
2026. The unit is in parentheses behind the name (`Start (us)`, `StcSMem (MB)`, 2020: `Duration(nsec)`) and follows
`--timeunit` and `--format csv:mem=B:dur=us`.
"""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Final

from kerneldb.ingest import delimited, sqlite
from kerneldb.ingest.ledger import Ledger
from kerneldb.ingest.readers import Head

TIME_NS: Final = {"ns": 1.0, "nsec": 1.0, "us": 1e3, "usec": 1e3, "ms": 1e6, "msec": 1e6, "s": 1e9, "sec": 1e9}
"""Unit of time → nanoseconds."""
BYTES: Final = {
    "B": 1.0,
    "KB": 1e3,
    "MB": 1e6,
    "GB": 1e9,
    "TB": 1e12,
    "KiB": 1024.0,
    "MiB": 1024.0**2,
    "GiB": 1024.0**3,
    "TiB": 1024.0**4,
}
"""Unit of memory → bytes."""
KIBIBYTES_2020: Final = 1024.0
"""gpumemsizesum of 2020 divides bytes by 1024 and prints no unit."""
PER_SECOND: Final = re.compile(r"(\w+?)(?:/s|ps)$")
MEASURED: Final = re.compile(
    r"(?:.* )?(?:Start|Duration|Dur|Time|[TAQK]?(?:Avg|Med|Min|Max|StdDev))|StcSMem|DymSMem|Bytes|Throughput"
)
"""Columns of times and sizes."""

ALIASES: Final[Mapping[str, str]] = {
    "Start Time": "Start",
    "CorrID": "CorrId",
    "Thru": "Throughput",
    "Average": "Avg",
    "Minimum": "Min",
    "Maximum": "Max",
    "Operations": "Count",
    "Pid": "PID",
    "Tid": "TID",
    "API Name": "API Function",
    "GPU PageFaults": "GPU Page Faults",
}
"""Older name of a column → the name of today."""
REPORT_ENDINGS: Final = (".nsys-rep", ".qdrep", ".qdstrm", ".nsys-rep.gz")
REPORT_MARK: Final = re.compile(rb"Profiler Report (\d+)@(\d+)@(\d+)@(\d+)")
REPORT_MARK_BYTES: Final = 1 << 14
TABLES: Final = ("CUPTI_ACTIVITY_KIND_", "NVTX_EVENTS", "TARGET_INFO_", "META_DATA_", "EXPORT_META_DATA", "ANALYSIS_")
RECORDS: Final = ("CUPTI_ACTIVITY_KIND_", "NVTX_EVENTS")
STRINGS: Final = re.compile(r"StringIds(?:_V\d+)?", re.IGNORECASE)
ANY_STRINGS: Final = re.compile(r"String(?:Ids|Table)(?:_V\d+)?", re.IGNORECASE)
RECORDING: Final = ".sqlite]"
ANNOUNCED: Final = re.compile(r"(?:Processing|Exporting) \[")
SCRIPT: Final = re.compile(r"\b(\w++)\.py\b(.*)")
PASTED: Final = re.compile(
    r"^(?:[^\S\n]|\|)*(?:Time ?\(%\)[\s|]{2,}Total Time|Start ?\(\w+\)[\s|]{2,}Duration"
    r"|API Start ?\(\w+\)[\s|]{2,}API Dur|NVTX Range[\s|]{2,}Style"
    r"|Total(?: \(\w+\))?[\s|]{2,}(?:Count|Operations)[\s|]{2,}Avg)",
    re.MULTILINE,
)
FIRST_OBJECT: Final = re.compile(r"^\[\s*\{([^{}]*)\}", re.MULTILINE)
KEY: Final = re.compile(r'"((?:[^"\\]|\\.){,999}+)"\s*:')
MARKS: Final = re.compile(r"\b(?:Start|Duration|Time|Total|Range|Name|Faults)\b")
LINE_LIMIT: Final = 1000
TEXT_BYTES: Final = 4096
ENDINGS: Final = re.compile(r"(?:\.gz|\.csv|\.tsv|\.json|\.txt|\.log|\.sqlite|\.db)+$")


@dataclasses.dataclass(frozen=True, slots=True)
class Column:
    """One column of a report. `unit` is as printed, None where none is."""

    printed: str
    name: str
    unit: str | None

    @property
    def factor(self) -> float | None:
        """Base units (ns, bytes, bytes/s) per printed unit; None where the unit is missing or unknown."""
        rate = PER_SECOND.match(self.unit or "")
        unit = rate.group(1) if rate else self.unit
        return TIME_NS.get(unit or "", BYTES.get(unit or ""))

    @property
    def is_unclear(self) -> bool:
        """Whether this is a time or size in a unit that is not known."""
        return self.unit not in {None, "%"} and self.factor is None and MEASURED.fullmatch(self.name) is not None


def column(printed: str) -> Column:
    """Take name and unit apart: `Total Time (ns)`, `Time(%)`, `Start(sec)`, `GrdX`."""
    stripped = printed.strip()
    name, opened, unit = stripped.removesuffix(")").rpartition("(")
    if not opened or not stripped.endswith(")") or ")" in unit:
        return Column(printed, ALIASES.get(stripped, stripped), None)
    name = name.rstrip()
    return Column(printed, ALIASES.get(name, name), unit)


@dataclasses.dataclass(frozen=True, slots=True)
class Kind:
    """A report: its name of today, the columns it is recognised by, and those that it never has."""

    name: str
    needed: frozenset[str]
    absent: frozenset[str] = frozenset()


def _kind(name: str, needed: str, absent: str = "") -> Kind:
    return Kind(name, frozenset(needed.split("|")), frozenset(absent.split("|")) - {""})


KINDS: Final = (
    _kind("cuda_gpu_trace", "Start|Duration|CorrId|GrdX|BlkX|Device|Strm|Name"),
    _kind("cuda_kern_exec_trace", "API Start|API Dur|Kernel Start|Kernel Dur|Kernel Name"),
    _kind("cuda_kern_exec_sum", "PID|TID|DevId|Count|QCount|Kernel Name"),
    _kind("cuda_gpu_kern_gb_sum", "Total Time|Instances|Avg|Min|Max|GridXYZ|BlockXYZ|Name"),
    _kind(
        "cuda_gpu_kern_sum", "Time|Total Time|Instances|Avg|Min|Max|Name", "GridXYZ|Category|Style|Range|Source|Q Name"
    ),
    _kind("cuda_gpu_sum", "Time|Total Time|Instances|Avg|Min|Max|Category|Operation"),
    _kind("cuda_gpu_mem_time_sum", "Time|Total Time|Count|Avg|Min|Max|Operation", "Category"),
    _kind("cuda_gpu_mem_size_sum", "Total|Count|Avg|Min|Max|Operation"),
    _kind("nvtx_kern_sum", "NVTX Range|Kern Inst|Total Time|Avg|Kernel Name"),
    _kind("nvtx_gpu_proj_trace", "Name|Projected Start|Projected Duration|Orig Start|Style|RangeStack"),
    _kind("nvtx_gpu_proj_sum", "Range|Style|Total Proj Time"),
    _kind("nvtx_pushpop_trace", "Start|Duration|Name|PID|TID|Lvl|RangeId|ParentId"),
    _kind("cuda_api_trace", "Start|Duration|Name|Result|CorrId", "GrdX"),
    _kind("vulkan_api_trace", "Start|Duration|Name|Event Class|CorrId"),
    _kind("mpi_event_trace", "Start|Duration|Event|PID|TID|Rank"),
    _kind("mpi_event_sum", "Total Time|Instances|Avg|Source|Name"),
    _kind("mpi_msg_size_sum", "Total Message Volume|Instances|Avg|Source|Name"),
    _kind("nvtx_sum", "Total Time|Instances|Style|Range"),
    _kind("range_sum", "Time|Total Time|Instances|Avg|Min|Max|Range"),
    _kind("nvvideo_api_sum", "Time|Total Time|Num Calls|Avg|Event Type|Name"),
    _kind("api_sum", "Time|Total Time|Num Calls|Avg|Min|Max|Name"),
    _kind("event_sum", "Time|Total Time|Count|Avg|Min|Max|Name"),
    _kind("um_sum", "Virtual Address|CPU Page Faults|GPU Page Faults"),
    _kind("um_total_sum", "Total HtoD Migration Size|Total DtoH Migration Size"),
    _kind("um_cpu_page_faults_sum", "CPU Page Faults|CPU Instruction Address"),
    _kind("wddm_queue_sum", "Utilization|Instances|Avg|Q Name"),
    _kind("network_congestion", "Start|Duration|Send wait rate|GUID"),
)
"""Reports by their columns; the first that fits. `api_sum`, `range_sum` and `event_sum` are those of many reports."""

SHARED: Final = frozenset({"api_sum", "range_sum", "event_sum", "nvtx_sum", "cuda_gpu_kern_sum"})
"""Columns that sums of several subjects have: which of them a table is, only its name says."""
HOST_SUMS: Final = frozenset(
    {
        *("cuda_api_sum", "osrt_sum", "syscall_sum", "vulkan_api_sum", "nvvideo_api_sum", "openacc_sum", "openmp_sum"),
        *("mpi_event_sum", "mpi_msg_size_sum", "nvtx_sum", "nvtx_pushpop_sum", "nvtx_startend_sum"),
        *("nvtx_gpu_proj_sum", "vulkan_marker_sum", "vulkan_gpu_marker_sum", "opengl_khr_range_sum"),
        *("opengl_khr_gpu_range_sum", "dx11_pix_sum", "dx12_pix_sum", "dx12_gpu_marker_sum"),
    }
)
"""Reports that sum over calls or ranges."""

COLUMNS: Final = Ledger(
    "column",
    {
        *(name for kind in KINDS for name in kind.needed),
        *("GrdY", "GrdZ", "BlkY", "BlkZ", "Reg/Trd", "StcSMem", "DymSMem", "Bytes", "Throughput"),
        *("Ctx", "API Function", "Med", "StdDev", "Lvl", "RangeId", "ParentId", "Orig Duration", "Num Calls"),
        *(f"{stage}{statistic}" for stage in "TAQK" for statistic in ("Avg", "Med", "Min", "Max", "StdDev")),
    },
    {
        "Rank": "of `nsys recipe`",
        "(?:Src|Dst)MemKd": "pageable, pinned or device memory of a copy",
        "GreenCtx": "part of the context",
        "Queue (?:Start|Dur)|Total Dur": "follows from the times of the call and of the kernel",
        "End": "follows from start and duration",
        "NVTX Inst|NumGPUOps|NumChild": "numbers of what is around or inside a range",
        "Dur(?:Non)?Child": "follows from the ranges inside",
        "NameTree": "the name, moved in as deep as its range is",
        "T-Pri|Thread Name|HWid|VMid": "facts of the thread and of the machine",
    },
    outcome="unread",
)
"""Columns of all reports, by their names of today."""

OLD_NAMES: Final[Mapping[str, str]] = {
    "gputrace": "cuda_gpu_trace",
    "gpukernsum": "cuda_gpu_kern_sum",
    "gpukerngbsum": "cuda_gpu_kern_gb_sum",
    "kernexectrace": "cuda_kern_exec_trace",
    "kernexecsum": "cuda_kern_exec_sum",
    "gpumemtimesum": "cuda_gpu_mem_time_sum",
    "gpumemsizesum": "cuda_gpu_mem_size_sum",
    "gpusum": "cuda_gpu_sum",
    "apigpusum": "cuda_api_gpu_sum",
    "cudaapitrace": "cuda_api_trace",
    "cudaapisum": "cuda_api_sum",
    "nvtxsum": "nvtx_sum",
    "nvtxkernsum": "nvtx_kern_sum",
    "nvtxgpuproj": "nvtx_gpu_proj_trace",
    "nvtxppsum": "nvtx_pushpop_sum",
    "nvtxpptrace": "nvtx_pushpop_trace",
    "nvtxssesum": "nvtx_startend_sum",
    "osrtsum": "osrt_sum",
    "openaccsum": "openacc_sum",
    "openmpevtsum": "openmp_sum",
    "vulkanapisum": "vulkan_api_sum",
    "vulkanapitrace": "vulkan_api_trace",
    "vulkanmarkerssum": "vulkan_marker_sum",
    "vulkangpumarkersum": "vulkan_gpu_marker_sum",
    "khrdebugsum": "opengl_khr_range_sum",
    "khrdebuggpusum": "opengl_khr_gpu_range_sum",
    "pixsum": "dx12_pix_sum",
    "dx11pixsum": "dx11_pix_sum",
    "dx12pixsum": "dx12_pix_sum",
    "dx12gpumarkersum": "dx12_gpu_marker_sum",
    "unifiedmemory": "um_sum",
    "unifiedmemorytotals": "um_total_sum",
    "umcpupagefaults": "um_cpu_page_faults_sum",
    "wddmqueuesdetails": "wddm_queue_sum",
}
"""Name of a report until 2023 → its name of today."""

NAMES: Final = (
    *("cuda_gpu_trace", "cuda_gpu_kern_sum", "cuda_gpu_kern_gb_sum", "cuda_gpu_mem_time_sum", "cuda_gpu_mem_size_sum"),
    *("cuda_gpu_sum", "cuda_kern_exec_trace", "cuda_kern_exec_sum", "cuda_api_sum", "cuda_api_trace"),
    *("cuda_api_gpu_sum", "nvtx_sum", "nvtx_kern_sum", "nvtx_gpu_proj_trace", "nvtx_gpu_proj_sum"),
    *("nvtx_pushpop_sum", "nvtx_pushpop_trace", "nvtx_startend_sum", "osrt_sum", "openmp_sum", "openacc_sum"),
    *("mpi_event_sum", "mpi_event_trace", "mpi_msg_size_sum", "um_sum", "um_total_sum", "um_cpu_page_faults_sum"),
    *("vulkan_api_sum", "vulkan_api_trace", "vulkan_marker_sum", "vulkan_gpu_marker_sum", "opengl_khr_range_sum"),
    *("opengl_khr_gpu_range_sum", "dx11_pix_sum", "dx12_pix_sum", "dx12_gpu_marker_sum", "wddm_queue_sum"),
    *("nvvideo_api_sum", "syscall_sum", "network_congestion"),
)
"""Names of reports since 2023, as nsys writes them into the names of files."""
SUFFIX: Final = re.compile(
    "(?:^|[_.-])(" + "|".join((*OLD_NAMES, *NAMES)) + r")((?:[_-](?:nvtx-name|base|mangled))*)$", re.IGNORECASE
)


def kind_of(columns: Sequence[Column]) -> str | None:
    """Name of the report with these columns, None where no report has them."""
    names = {one.name for one in columns}
    return next((kind.name for kind in KINDS if kind.needed <= names and not kind.absent & names), None)


def report_named(kind: str, stated: str | None) -> str:
    """The report with the columns of `kind`, where the file or the line before says that it is `stated`.

    The name counts where the columns leave it open, and never makes kernels of what has another name.
    """
    if kind == "cuda_gpu_sum":
        return stated if stated == "cuda_api_gpu_sum" else kind
    return stated if stated in HOST_SUMS and kind in SHARED else kind


def from_file_name(stem: str) -> tuple[str, str | None, frozenset[str]]:
    """`(capture, report, arguments)` of a file that `nsys stats -o` named, such as `x_cuda_gpu_trace_base`.

    The capture is empty where the file has the name of the report alone.
    """
    found = SUFFIX.search(stem)
    if found is None:
        return stem, None, frozenset()
    report = found.group(1).lower()
    arguments = frozenset(re.findall(r"nvtx-name|base|mangled", found.group(2)))
    return stem[: found.start()], OLD_NAMES.get(report, report), arguments


def base_name(path: Path) -> str:
    """The file name without the endings of text and export files."""
    return ENDINGS.sub("", path.name) or path.name


def fits(head: Head) -> bool:
    """Whether the reader takes the file: to read it, or to say which file to give instead."""
    if sqlite.is_database(head.data):
        names = sqlite.table_names(head)
        return is_export(names) or is_nameless(names)
    if is_report_file(head):
        return True
    named = from_file_name(base_name(head.path))[1] is not None
    if not head.data.strip():
        return named
    if b"\x00" in head.data[:TEXT_BYTES] or head.data.lstrip().startswith(b"{"):
        return False
    text = head.data.decode("utf-8", errors="replace")
    array = text.lstrip().startswith("[")
    printed = any(map(report_of, text.splitlines())) or PASTED.search(text) or next(headers(text), None)
    return (named and not array) or bool(printed)


def is_export(tables: frozenset[str]) -> bool:
    """Whether a database with these tables is an export of Nsight Systems."""
    return any(map(STRINGS.fullmatch, tables)) and any(name.startswith(TABLES) for name in tables)


def is_nameless(tables: frozenset[str]) -> bool:
    """Whether these are tables of an export without those of names; nvprof's databases have a table of names."""
    return any(name.startswith(RECORDS) for name in tables) and not any(map(ANY_STRINGS.fullmatch, tables))


def is_parquet_export(folder: Path) -> bool:
    """Whether a folder is a `parquetdir` export: one Parquet file per table, perhaps not of all tables."""
    names = frozenset(path.stem for path in folder.glob("*.parquet"))
    return is_export(names) or is_nameless(names)


def is_report_file(head: Head) -> bool:
    """Whether the file is a report of the profiler itself, which only nsys can read."""
    named = head.path.name.endswith(REPORT_ENDINGS)
    return named or REPORT_MARK.search(head.data[:REPORT_MARK_BYTES]) is not None


def writer_of(head: Head) -> str | None:
    """Version of nsys that wrote a report file, such as 2025.6.1."""
    found = REPORT_MARK.search(head.data)
    return None if found is None else ".".join(part.decode() for part in found.groups()[:3])


def headers(text: str) -> Iterator[tuple[str, list[Column]]]:
    """Name and columns of each report whose header line, or first JSON object, is in `text`."""
    for line in text.splitlines():
        found = header(line)
        if found is not None:
            yield found
    for one in FIRST_OBJECT.finditer(text):
        described = first_object(text, one.start())
        if described is not None:
            yield described


def first_object(text: str, start: int = 0) -> tuple[str, list[Column]] | None:
    """Name and columns of the report that begins at `start` as a JSON array of objects, else None."""
    found = FIRST_OBJECT.match(text, start)
    described = [column(key) for key in KEY.findall(found.group(1))] if found else []
    name = kind_of(described)
    return None if name is None else (name, described)


def header(line: str) -> tuple[str, list[Column]] | None:
    """Name and columns of the report whose header this line is (CSV or TSV), else None."""
    if len(line) > LINE_LIMIT or MARKS.search(line) is None:
        return None
    described = [column(name) for name in fields(line)]
    name = kind_of(described)
    return None if name is None else (name, described)


def fields(line: str) -> list[str]:
    """The fields of a header line."""
    return line.split("\t") if "\t" in line else delimited.fields(line)


def recording_of(line: str) -> str | None:
    """The export that nsys says it prints a report of (`Processing [run.sqlite] with […]... `), else None."""
    start = line.find("Processing [") + len("Processing [")
    if start < len("Processing ["):
        exporting = line.find("Exporting [")
        script = line.find(".py ", exporting) if exporting >= 0 else -1
        start = script + len(".py ") if script >= 0 else len(line)
    end = line.find(RECORDING, start + 1)
    return None if end < 0 else line[start : end + len(RECORDING) - 1]


def report_of(line: str) -> tuple[str, frozenset[str]] | None:
    """Report and arguments that nsys announces before it prints (`Processing […/gputrace.py](base)... `), else None."""
    begun = ANNOUNCED.search(line)
    found = None if begun is None else SCRIPT.search(line, begun.end())
    if found is None:
        return None
    name, rest = found.groups()
    arguments = frozenset(re.findall(r"nvtx-name|base|mangled", rest.split("...")[0]))
    return OLD_NAMES.get(name, name), arguments
