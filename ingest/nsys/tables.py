"""The tables of an export: those that are read, and why the others are not.

Names: exports of 2020 to 2026 and the SQLite schema reference of Nsight Systems.
"""

from __future__ import annotations

from collections import Counter
from typing import Final

from kerneldb.ingest.ledger import Ledger
from kerneldb.ingest.nsys import activities, host, store
from kerneldb.ingest.output import Report

OF_LABELS: Final = "ENUM_*"
"""The tables of labels of enumerations, of which an export has up to ninety."""
ENVIRONMENT: Final = "TARGET_INFO_SYSTEM_ENV"
GRAPHICS: Final = "graphics, not computing"
NETWORK: Final = "network"
READ: Final = frozenset(
    {
        *("StringIds", "NVTX_EVENTS", "META_DATA_CAPTURE", "ANALYSIS_DETAILS", "TARGET_INFO_SESSION_START_TIME"),
        *(*store.EXPORT_TABLES, *store.GPU_TABLES, "TARGET_INFO_CUDA_DEVICE"),
        *(*activities.TABLES, *host.CALL_TABLES),
        *("CUPTI_ACTIVITY_KIND_SYNCHRONIZATION", "CUPTI_ACTIVITY_KIND_CUDA_EVENT", "CUDA_GPU_MEMORY_USAGE_EVENTS"),
        *("GPU_METRICS", "TARGET_INFO_GPU_METRICS", "COMPOSITE_EVENTS", "SAMPLING_CALLCHAINS"),
    }
)
LEDGER: Final = Ledger(
    "table",
    READ,
    {
        r"ENUM_.*": "labels of numbers; those that are needed are read",
        r"CUPTI_ACTIVITY_KIND_OVERHEAD|PROFILER_OVERHEAD": "overhead of the profiler and of the driver",
        r"DIAGNOSTIC_EVENT": "messages about the recording; warnings among them are notes",
        ENVIRONMENT: "the environment of the program; `--keep-environment` stores it",
        r"PROCESSES|TARGET_INFO_PROCESS|ThreadNames": "names of processes and threads",
        r"ProcessStreams|ANALYSIS_FILE": "what programs printed, and names of files",
        r"CUDA_GRAPH_(NODE_)?EVENTS": "creation of CUDA graphs and their nodes; launches of graphs are read",
        r"TARGET_INFO_\w*|NIC_ID_MAP|NET_IB_DEVICE\w*": "contexts, streams and parts of the machine",
        r"(OSRT|CUDA)_CALLCHAINS": "call stacks of calls; the calls are read",
        r"OSRT_FILE_ACCESS_\w+": "accesses to files",
        r"SCHED_EVENTS": "scheduling of threads",
        r"CUDA_UM_CPU_PAGE_FAULT_EVENTS": "page faults of unified memory on the CPU",
        r"CUDA_UM_GPU_PAGE_FAULT_EVENTS": "page faults of unified memory on GPUs",
        r"CUDA_GPU_MEMORY_POOL_EVENTS": "pools of device memory; allocations are read",
        r"CUDA_\w+|CUPTI_ACTIVITY_KIND_\w+": "a kind of CUDA event without a table in kerneldb",
        r"NVTX_\w+": "payloads, counters and scopes of NVTX; ranges and marks are read",
        r"OPENACC_\w+": "OpenACC constructs; the kernels that they launch are read",
        r"OPENMP_\w+": "OpenMP events",
        r"MPI_(RANKS|COMMUNICATORS)": "ranks and communicators of MPI; calls are read",
        r"UCP_\w+|NET_\w+|NIC_\w+|IB_\w+": NETWORK,
        r"GPU_CONTEXT_SWITCH\w*": "context switches of GPUs",
        r"GPU_(MEMORY_\w+|VIDEO_ENGINE_\w+)|DEMOTED_BYTES|MEMORY_TRANSFER_EVENTS": GRAPHICS,
        r"OPENGL_\w+|KHR_DEBUG_\w+|VULKAN_\w+|DX1[12]\w*|D3D1[12]\w*|DXGI_\w+|OPENXR_\w+|VSYNC\w*|SLI_\w+": GRAPHICS,
        r"WDDM_\w+|ETW_\w+|FRAME\w*|FPS\w*": GRAPHICS,
        r"NV(MEDIA|VIDEO|JPEG|API|N)_\w+|TRACE_PROCESS_EVENT_NVMEDIA|OPENCL_\w+": "calls of other libraries",
        r"PERF_EVENT_\w+|PMU_\w+|UNCORE_\w+|SOC_METRICS\w*": "counters of the CPU and of the system",
        r"GENERIC_EVENT\w*|SYSCALL\w*|SYSTEM_EVENTS?\w*|UNIT_TRACE_\w+": "events of the system or of user programs",
        r"PYTHON_\w+": "samples of Python",
        r"sqlite_\w+": "made by SQLite",
    },
)


def account(tables: store.Store, ledger: Ledger, report: Report) -> None:
    """Count the rows of tables that are not read: versions of one table together, and all tables of labels as one."""
    rows: Counter[str] = Counter()
    for name in tables.names():
        versioned = store.VERSIONED.fullmatch(name)
        base = versioned.group(1) if versioned else name
        if ledger.reason(base) is not None:
            rows[OF_LABELS if base.startswith("ENUM_") else base] += tables.count(name)
    ledger.account(dict(sorted(rows.items())), report)
