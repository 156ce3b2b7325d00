"""rocpd databases made from a list of kernels, in the layout that rocprofv3 of ROCm 7 writes (schema 3).

Column names are facts of rocprofiler-sdk's rocpd_tables.sql. Nothing here comes from a recorded file: durations and
resources are what a test hands in, or what the gfx1151 document prints.
"""

from __future__ import annotations

import contextlib
import dataclasses
import json
import sqlite3
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

Dim = tuple[int, int, int]

TENSILE_GEMM = (
    "Cijk_Ailk_Bljk_HHS_BH_MT128x128x32_MI16x16x16x1_SN_1LDSB1_AMAS3_BL1_BS1_EPS1_GLVWA8_GLVWB8_GRVW8_GSU1_GSUASB_"
    "ISA1151_IU1_K1_KLA_LBSPPA0_LBSPPB128_LPA0_LPB8_LRVW16_MIAV1_MMFGLC_NLCA1_NLCB1_PGR1_PLR0_SIA3_SS1_SU32_SUS256_"
    "SVW4_TT4_64_TLDS1_UMLDSA0_UMLDSB1_USFGROn1_VAW2_VSn1_VW4_VWB2_WSGRA1_WSGRB1_WS32_WG32_4_1_WGM8"
)
CAST = "triton_poi_fused__to_copy_0"
EPILOGUE = "triton_poi_fused__to_copy_add_mul_1"
HIP_GEMM = "void scaled_mm_kernel<128, 128, 32>(__half const*, unsigned char const*, __half const*, __half*, int)"
GUID = "0000f2c4-8192-7151-8115-1151c0de0001"
CALLS = 23

TABLES: dict[str, str] = {
    "rocpd_metadata": "tag value",
    "rocpd_string": "string",
    "rocpd_info_node": "hash machine_id system_name hostname release version hardware_name domain_name",
    "rocpd_info_process": "nid ppid pid init fini start end command environment extdata",
    "rocpd_info_thread": "nid ppid pid tid name start end extdata",
    "rocpd_info_agent": "nid pid type absolute_index logical_index type_index uuid name model_name vendor_name "
    "product_name user_name extdata",
    "rocpd_info_queue": "nid pid name extdata",
    "rocpd_info_stream": "nid pid name extdata",
    "rocpd_info_pmc": "nid pid agent_id target_arch event_code instance_id name symbol description long_description "
    "component units value_type block expression is_constant is_derived extdata",
    "rocpd_info_code_object": "nid pid agent_id uri load_base load_size load_delta storage_type extdata",
    "rocpd_info_kernel_symbol": "nid pid code_object_id kernel_name display_name kernel_object kernarg_segment_size "
    "kernarg_segment_alignment group_segment_size private_segment_size sgpr_count arch_vgpr_count accum_vgpr_count "
    "extdata",
    "rocpd_track": "nid pid tid name_id extdata",
    "rocpd_event": "category_id stack_id parent_stack_id correlation_id call_stack line_info extdata",
    "rocpd_arg": "event_id position type name value extdata",
    "rocpd_pmc_event": "event_id pmc_id value extdata",
    "rocpd_region": "nid pid tid start end name_id event_id extdata",
    "rocpd_sample": "track_id timestamp event_id extdata",
    "rocpd_kernel_dispatch": "nid pid tid agent_id kernel_id dispatch_id queue_id stream_id start end "
    "private_segment_size group_segment_size workgroup_size_x workgroup_size_y workgroup_size_z grid_size_x "
    "grid_size_y grid_size_z region_name_id event_id extdata",
    "rocpd_memory_copy": "nid pid tid start end name_id dst_agent_id dst_address src_agent_id src_address size "
    "queue_id stream_id region_name_id event_id extdata",
    "rocpd_memory_allocate": "nid pid tid agent_id type level start end address size queue_id stream_id event_id "
    "extdata",
}
TEXT = frozenset(
    {"tag", "value", "string", "machine_id", "system_name", "hostname", "release", "version", "hardware_name"}
    | {"domain_name", "command", "environment", "extdata", "name", "type", "model_name", "vendor_name"}
    | {"product_name", "user_name", "target_arch", "symbol", "description", "long_description", "component", "units"}
    | {"value_type", "block", "expression", "uri", "storage_type", "kernel_name", "display_name", "call_stack"}
    | {"line_info", "level"}
)
AGENTS: dict[str, dict[str, Any]] = {
    "gfx1151": {
        "cu_count": 40,
        "simd_per_cu": 2,
        "max_waves_per_simd": 16,
        "wave_front_size": 32,
        "lds_size_in_kb": 64,
    },
    "gfx942": {"cu_count": 304, "simd_per_cu": 4, "max_waves_per_simd": 8, "wave_front_size": 64, "lds_size_in_kb": 64},
    "gfx1100": {
        "cu_count": 96,
        "simd_per_cu": 2,
        "max_waves_per_simd": 16,
        "wave_front_size": 32,
        "lds_size_in_kb": 64,
    },
    "gfx950": {
        "cu_count": 256,
        "simd_per_cu": 4,
        "max_waves_per_simd": 8,
        "wave_front_size": 64,
        "lds_size_in_kb": 160,
    },
}


@dataclasses.dataclass(frozen=True)
class Kernel:
    """A kernel and how long each of its launches took, in ns. `grid` counts work-items, as rocpd does.

    `lds`: bytes of the dispatch; `static_lds`: of the code (None: the same). Registers are as the profiler reports.
    """

    name: str
    grid: Dim
    workgroup: Dim
    durations: Sequence[int]
    vgpr: int = 32
    agpr: int = 0
    sgpr: int = 128
    lds: int = 0
    static_lds: int | None = None
    scratch: int = 0
    api: str = "hipModuleLaunchKernel"


class Process:
    """The tables of one process in a rocpd file. Ids follow the writer: process id, thread id, number of the node."""

    def __init__(
        self,
        connection: sqlite3.Connection,
        guid: str = GUID,
        pid: int = 115108,
        arch: str = "gfx1151",
        machine: str = "m",
    ) -> None:
        self.connection = connection
        self.suffix = "_" + guid.replace("-", "_")
        self.pid = pid
        self._strings: dict[str, int] = {}
        self._events = 0
        for table, columns in TABLES.items():
            self._create(table, columns.split(), guid)
        for tag, value in (("schema_version", "3"), ("uuid", self.suffix), ("guid", guid)):
            self.insert("rocpd_metadata", tag=tag, value=value)
        self._describe(arch, machine)

    def insert(self, table: str, **row: Any) -> int:
        """Add a row; returns its id."""
        names = ", ".join(f'"{name}"' for name in row)
        marks = ", ".join("?" * len(row))
        cursor = self.connection.execute(
            f'INSERT INTO "{table}{self.suffix}" ({names}) VALUES ({marks})', tuple(row.values())
        )
        return int(cursor.lastrowid or 0)

    def text(self, text: str) -> int:
        """Id of a text in `rocpd_string`."""
        if text not in self._strings:
            self._strings[text] = self.insert("rocpd_string", string=text)
        return self._strings[text]

    def event(self, category: str, stack: int, correlation: int = 0, **extra: Any) -> int:
        """Add an event; `stack` is the number that ties a dispatch to the call that launched it."""
        facts = {"category_id": self.text(category), "stack_id": stack, "parent_stack_id": stack}
        return self.insert("rocpd_event", **facts, correlation_id=correlation, **{"extdata": "{}", **extra})

    def place(self) -> dict[str, int]:
        """nid, pid and tid of the only thread."""
        return {"nid": 1, "pid": self.pid, "tid": self.pid}

    def region(self, category: str, name: str, start: int, end: int, stack: int, **event: Any) -> int:
        """Add an API call or a roctx range; returns its event."""
        number = self.event(category, stack, **event)
        where = {"name_id": self.text(name), "event_id": number}
        self.insert("rocpd_region", start=start, end=end, **where, **self.place())
        return number

    def symbol(self, kernel: Kernel, code_object: int = 1) -> int:
        """Add a kernel symbol; returns its kernel id."""
        static = kernel.lds if kernel.static_lds is None else kernel.static_lds
        return self.insert(
            "rocpd_info_kernel_symbol",
            nid=1,
            pid=self.pid,
            code_object_id=code_object,
            kernel_name=kernel.name + ".kd",
            display_name=kernel.name,
            kernarg_segment_size=80,
            group_segment_size=static,
            private_segment_size=kernel.scratch,
            sgpr_count=kernel.sgpr,
            arch_vgpr_count=kernel.vgpr,
            accum_vgpr_count=kernel.agpr,
            extdata="{}",
        )

    def dispatch(self, kernel: Kernel, kernel_id: int, start: int, duration: int, stack: int, **other: Any) -> int:
        """Add a launch; returns its event."""
        event = self.event("KERNEL_DISPATCH", stack)
        sizes = {f"workgroup_size_{axis}": size for axis, size in zip("xyz", kernel.workgroup, strict=True)}
        sizes |= {f"grid_size_{axis}": size for axis, size in zip("xyz", kernel.grid, strict=True)}
        row: dict[str, Any] = {
            **self.place(),
            **sizes,
            "agent_id": 1,
            "kernel_id": kernel_id,
            "dispatch_id": event,
            "queue_id": 1,
            "stream_id": 0,
            "start": start,
            "end": start + duration,
            "private_segment_size": kernel.scratch,
            "group_segment_size": kernel.lds,
            "region_name_id": self.text(""),
            "event_id": event,
            "extdata": "{}",
        }
        self.insert("rocpd_kernel_dispatch", **{**row, **other})
        return event

    def gpu(self, number: int, arch: str, **other: Any) -> None:
        """Add a GPU beside the one that every file has; `number` is its id, and one more than its place among GPUs."""
        facts = json.dumps({"name": arch, "product_name": f"AMD {arch}", **AGENTS[arch]})
        indexes = {"absolute_index": number, "logical_index": number, "type_index": number - 1}
        row = {"id": number, "type": "GPU", "name": arch, "extdata": facts, "nid": 1, "pid": self.pid, **indexes}
        self.insert("rocpd_info_agent", **{**row, **other})

    def _create(self, table: str, columns: list[str], guid: str) -> None:
        kinds = {name: "TEXT" if name in TEXT else "REAL" if name == "value" else "INTEGER" for name in columns}
        if table == "rocpd_pmc_event":
            kinds["value"] = "REAL"
        identity = '"id" INTEGER PRIMARY KEY'
        owner = [] if table == "rocpd_metadata" else [f"\"guid\" TEXT DEFAULT '{guid}' NOT NULL"]
        parts = ", ".join([identity, *owner, *(f'"{name}" {kind}' for name, kind in kinds.items())])
        self.connection.execute(f'CREATE TABLE "{table}{self.suffix}" ({parts})')

    def _describe(self, arch: str, machine: str) -> None:
        facts = {"name": arch, "product_name": f"AMD {arch}", **AGENTS[arch]}
        process = {"nid": 1, "pid": self.pid}
        self.insert("rocpd_info_node", id=1, hash=1, machine_id=machine, system_name="Linux", hostname="strix-halo")
        secret = json.dumps({"HF_TOKEN": "hf_secret"})
        self.insert(
            "rocpd_info_process",
            id=self.pid,
            ppid=1,
            command="python train.py --key hunter2",
            environment=secret,
            extdata=json.dumps({"kernel_rename": False, "output_path": "/home/someone/out"}),
            **process,
        )
        self.insert("rocpd_info_thread", id=self.pid, ppid=1, tid=self.pid, extdata="{}", **process)
        cpu = {"id": 0, "type": "CPU", "absolute_index": 0, "logical_index": 0, "type_index": 0, "name": "AMD CPU"}
        gpu = {"id": 1, "type": "GPU", "absolute_index": 1, "logical_index": 1, "type_index": 0, "name": arch}
        self.insert("rocpd_info_agent", extdata="{}", **cpu, **process)
        self.insert("rocpd_info_agent", product_name=f"AMD {arch}", extdata=json.dumps(facts), **gpu, **process)
        self.insert("rocpd_info_queue", id=1, name="Queue 0", **process)
        self.insert("rocpd_info_stream", id=0, name="Default Stream", **process)
        self.insert("rocpd_info_code_object", id=1, agent_id=1, uri="memory://1", extdata="{}", **process)


def views(connection: sqlite3.Connection, suffixes: Iterable[str]) -> None:
    """The views without suffix, as `rocpd merge` makes them for several processes."""
    listed = list(suffixes)
    for table in TABLES:
        parts = " UNION ALL ".join(f'SELECT * FROM "{table}{suffix}"' for suffix in listed)
        connection.execute(f'CREATE VIEW "{table}" AS {parts}')


@contextlib.contextmanager
def rocpd(path: Path) -> Any:
    """A connection to a new file, committed at the end."""
    connection = sqlite3.connect(path)
    try:
        with connection:
            yield connection
    finally:
        connection.close()


def fill(process: Process, kernels: Sequence[Kernel], start: int = 1_000_000_000_000) -> None:
    """One launch of each kernel after the other, again and again, every one below an API call and 2 µs apart."""
    ids = [process.symbol(kernel) for kernel in kernels]
    at, stack = start, 100
    for turn in range(max((len(kernel.durations) for kernel in kernels), default=0)):
        for kernel, kernel_id in zip(kernels, ids, strict=True):
            if turn < len(kernel.durations):
                stack += 1
                process.region("HIP_RUNTIME_API_EXT", kernel.api, at - 9_000, at - 4_000, stack)
                process.dispatch(kernel, kernel_id, at, kernel.durations[turn], stack)
                at += kernel.durations[turn] + 2_000


def write_rocpd(path: Path, kernels: Sequence[Kernel], arch: str = "gfx1151") -> Path:
    """A rocpd file with these launches."""
    with rocpd(path) as connection:
        process = Process(connection, arch=arch)
        fill(process, kernels)
        views(connection, [process.suffix])
    return path


def around(mean: int, calls: int, low: int | None = None, high: int | None = None) -> list[int]:
    """`calls` durations with exactly this mean, and where given this minimum and maximum (ns)."""
    if low is None or high is None or calls < 4:
        return [mean] * calls
    rest = mean * calls - low - high
    share, over = divmod(rest, calls - 2)
    return [low, high, *(share + (number < over) for number in range(calls - 2))]


TORCH = (
    Kernel(CAST, (8388608, 1, 1), (128, 1, 1), around(951_516, CALLS), vgpr=32),
    Kernel(
        TENSILE_GEMM,
        (8192, 64, 1),
        (128, 1, 1),
        around(40_185_627, CALLS, 37_657_000, 41_316_000),
        vgpr=256,
        lds=17408,
        api="hipExtModuleLaunchKernel",
    ),
    Kernel(EPILOGUE, (8388608, 1, 1), (128, 1, 1), around(1_039_385, CALLS), vgpr=40),
)
"""The three kernels of the gfx1151 document: calls, means, and the GEMM's minimum and maximum; the shapes and registers
of the two Triton kernels are made up."""


def torch_gemm(path: Path) -> Path:
    """The document's torch.compile run: cast, Tensile GEMM, epilogue, 23 times each."""
    return write_rocpd(path, TORCH)


def hip_gemm(path: Path, matched: bool = False) -> Path:
    """The document's fused HIP kernel, before or after its launch shape was matched to Tensile's."""
    grid, workgroup, mean = (
        ((8192, 64, 1), (128, 1, 1), 41_082_000) if matched else ((4096, 128, 1), (64, 2, 1), 40_272_000)
    )
    kernel = Kernel(HIP_GEMM, grid, workgroup, around(mean, CALLS), vgpr=192, lds=16896, api="hipLaunchKernel")
    return write_rocpd(path, [kernel])


def settings(process: Process, values: Mapping[str, Any]) -> None:
    """Replace the settings of the tool that the file records."""
    table = f"rocpd_info_process{process.suffix}"
    process.connection.execute(f'UPDATE "{table}" SET extdata = ?', (json.dumps(values),))
