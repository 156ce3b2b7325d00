"""What an event of a PyTorch trace holds: categories of all eras and vendors, and the arguments read from each group.

Categories: kineto `include/ActivityType.h`; torch 1.8-1.10 wrote them in title case, and 1.8 wrote `external id`.
"""

from __future__ import annotations

from typing import Final, Literal

Kind = Literal["text", "int", "unsigned", "float"]
"""How an argument is read. Lists and objects are text: their JSON, as `values.text_of` prints it."""

LAUNCHING_APIS: Final = (
    *("cuda_runtime", "cuda_driver", "xpu_runtime", "xpu_driver", "mtia_runtime", "glow_runtime"),
    *("privateuse1_runtime", "privateuse1_driver"),
)
GPU: Final = ("kernel", "gpu_memcpy", "gpu_memset", "mtia_ccp_events", "hpu_op", "collective_comm")
RANGES: Final = ("user_annotation", "gpu_user_annotation", "python_function", "overhead", "cuda_profiler_range")
COUNTERS: Final = "cuda_profiler_range"
"""Spans whose arguments are counters over them, whatever their names."""
GROUP_OF: Final[dict[str, str]] = {
    **dict.fromkeys(GPU, "gpu"),
    "cpu_op": "op",
    **dict.fromkeys(LAUNCHING_APIS, "api"),
    **dict.fromkeys(("cuda_sync", "xpu_sync", "cuda_event"), "sync"),
    **dict.fromkeys(RANGES, "range"),
}
OLD_NAMES: Final = {
    "Operator": "cpu_op",
    "Runtime": "cuda_runtime",
    "Kernel": "kernel",
    "Memcpy": "gpu_memcpy",
    "Memset": "gpu_memset",
    "Python": "python_function",
}
KIND_OF: Final = {"gpu_memcpy": "memcpy", "gpu_memset": "memset"}
MEMORY: Final = "[memory]"
"""Name of the marks that say what was allocated."""
SPELLINGS: Final = {"External id": "external id", "Input Dims": "Input dims"}
"""Arguments that had another name before."""

SHAPES: Final = ("Input Dims", "Input Strides", "Input type", "Concrete Inputs")
TRITON: Final = ("kernel_hash", "kernel_file", "kernel_kwargs", "num_warps", "num_stages", "grid", "kernel_backend")
COLLECTIVE: Final[dict[str, Kind]] = {
    **dict.fromkeys(("Collective name", "dtype"), "text"),
    **dict.fromkeys(("In msg nelems", "Out msg nelems", "Group size"), "int"),
    **dict.fromkeys(("Process Group Name", "Process Group Description", "Process Group Ranks"), "text"),
}
EXCHANGE: Final = (
    *("Process Group Name", "Process Group Description", "Process Group Ranks", "Is asynchronized op"),
    *("In split size", "Out split size", "Global rank start", "Global rank stride", "Process Group ID", "Rank"),
    *("Src Rank", "Dst Rank", "Root Rank", "Comms Id", "Input Tensors start", "Output Tensors start", "Seq"),
)
"""What an operator `record_param_comms` says of its collective beside its sizes (torch/csrc/profiler/util.cpp)."""

CALL: Final = ("name", *SHAPES, *TRITON, *COLLECTIVE)
NOTES: Final = ("Call stack", "Module Hierarchy", *EXCHANGE)
KERNEL: Final = ("cat", "name", "kind", "grid", "block", "occupancy")
GPU_COLLECTIVE: Final = (*COLLECTIVE, "Seq")
MARK: Final = ("str", "annotation", "module_fqn")
"""What a program said of the kernels of a graph while it was captured (torch/cuda/_annotate_cuda_graph_trace.py)."""
API: Final = ("cat", "name", "grid", "block", "shared memory", "kind", "kernel")
SYNC: Final = ("cat", "name", "cuda_sync_kind")
LABEL: Final = ("cat", "name")
THREAD: Final = ("pid", "tid")
WHOLE: Final = ("Seq", "shared memory", *(name for name, kind in COLLECTIVE.items() if kind == "int"))
"""Integers among the interned arguments, but for notes: `Seq` of an operator is text."""

NUMBERS: Final[dict[str, dict[str, Kind]]] = {
    "op": {
        **dict.fromkeys(("External id", "Record function id", "Sequence number", "Fwd thread id"), "int"),
        "flops": "float",
    },
    "gpu": {
        **dict.fromkeys(
            ("External id", "correlation", "device", "stream", "context", "queued", "bytes", "size"), "int"
        ),
        **dict.fromkeys(("registers per thread", "shared memory", "graph id", "graph node id"), "int"),
        **dict.fromkeys(("toDevice", "inDevice"), "int"),
        **dict.fromkeys(("est. achieved occupancy %", "blocks per SM", "warps per SM"), "float"),
    },
    "api": dict.fromkeys(("External id", "correlation", "stream", "bytes", "size"), "int"),
    "sync": {
        **dict.fromkeys(("stream", "device", "context", "correlation"), "int"),
        **dict.fromkeys(("wait_on_stream", "wait_on_cuda_event_record_corr_id", "wait_on_cuda_event_id"), "int"),
        "event_id": "int",
    },
    "range": {},
    "memory": {
        **dict.fromkeys(("Bytes", "Total Allocated", "Total Reserved", "Device Type", "Device Id"), "int"),
        "Addr": "unsigned",
    },
    "other": {},
}
"""Group → the arguments that have a column of their own."""
INTERNED: Final[dict[str, dict[str, tuple[str, ...]]]] = {
    "op": {"call": CALL, "note": NOTES},
    "gpu": {"kernel": KERNEL, "collective": GPU_COLLECTIVE, "mark": MARK},
    "api": {"api": API},
    "sync": {"sync": SYNC},
    "range": {"label": LABEL, "finished": ("finished",)},
    "memory": {},
    "other": {"label": LABEL},
}
"""Group → column of codes → the arguments, with name and category, that each code stands for."""
OPTIONAL: Final = ("note", "collective", "mark", "finished")
"""Codes that events without any of their arguments do not have."""
COMMON: Final = (*SHAPES, "Ev Idx")
"""With the numbers, all that most operators have."""
