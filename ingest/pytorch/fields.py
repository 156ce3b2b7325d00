"""What an event of a PyTorch trace holds: categories of all eras and vendors, and the arguments read from each group.

Categories: kineto `include/ActivityType.h`; torch 1.8-1.10 wrote them in title case, and 1.8 wrote `external id`.
"""

from __future__ import annotations

from typing import Final

import polars as pl

LAUNCHING_APIS: Final = (
    *("cuda_runtime", "cuda_driver", "xpu_runtime", "xpu_driver", "mtia_runtime", "glow_runtime"),
    *("privateuse1_runtime", "privateuse1_driver"),
)
GPU: Final = ("kernel", "gpu_memcpy", "gpu_memset", "mtia_ccp_events", "hpu_op", "collective_comm")
RANGES: Final = ("user_annotation", "gpu_user_annotation", "python_function", "overhead", "cuda_profiler_range")
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
READ: Final = (*OLD_NAMES, *(name for name in GROUP_OF if name != "cuda_profiler_range"))
"""Categories, as printed, whose arguments are read into columns; those of others are kept as text."""
KIND_OF: Final = {"gpu_memcpy": "memcpy", "gpu_memset": "memset"}
EVENT: Final = pl.Schema(
    {
        **dict.fromkeys(("ph", "cat", "name", "pid", "tid"), pl.String),
        **dict.fromkeys(("ts", "dur"), pl.Float64),
        "args": pl.String,
    }
)
COLLECTIVE: Final[dict[str, pl.DataType]] = {
    **dict.fromkeys(("Collective name", "dtype"), pl.String()),
    **dict.fromkeys(("In msg nelems", "Out msg nelems", "Group size"), pl.Int64()),
    **dict.fromkeys(("Process Group Name", "Process Group Description", "Process Group Ranks"), pl.String()),
}
EXCHANGE: Final = (
    *("Process Group Name", "Process Group Description", "Process Group Ranks", "Is asynchronized op"),
    *("In split size", "Out split size", "Global rank start", "Global rank stride", "Process Group ID", "Rank"),
    *("Src Rank", "Dst Rank", "Root Rank", "Comms Id", "Input Tensors start", "Output Tensors start", "Seq"),
)
"""What an operator `record_param_comms` says of its collective beside its sizes (torch/csrc/profiler/util.cpp)."""
GPU_ARGS: Final[dict[str, pl.DataType]] = {
    **dict.fromkeys(("External id", "correlation", "device", "stream", "queued", "bytes"), pl.Int64()),
    **dict.fromkeys(("registers per thread", "shared memory"), pl.Int64()),
    **dict.fromkeys(("context", "grid", "block", "kind"), pl.String()),
    **dict.fromkeys(("est. achieved occupancy %", "blocks per SM", "warps per SM"), pl.Float64()),
}
GPU_OPTIONAL: Final[dict[str, dict[str, pl.DataType]]] = {
    '"external id"': {"external id": pl.Int64()},
    '"graph id"': {"graph id": pl.Int64(), "graph node id": pl.Int64()},
    '"occupancy"': {"occupancy": pl.String()},
    '"fromDevice"': {"toDevice": pl.Int64(), "inDevice": pl.Int64()},
    '"size"': {"size": pl.Int64()},
    '"Collective name"': {**COLLECTIVE, "Seq": pl.Int64()},
}
OP_ARGS: Final[dict[str, pl.DataType]] = {
    **dict.fromkeys(("External id", "Record function id", "Sequence number", "Fwd thread id"), pl.Int64()),
    **dict.fromkeys(("Input Dims", "Input Strides", "Input type", "Concrete Inputs"), pl.String()),
}
TRITON: Final = ("kernel_hash", "kernel_file", "kernel_kwargs", "num_warps", "num_stages", "grid", "kernel_backend")
OP_OPTIONAL: Final[dict[str, dict[str, pl.DataType]]] = {
    '"Input dims"': {"Input dims": pl.String()},
    '"external id"': {"external id": pl.Int64()},
    '"Call stack"': {"Call stack": pl.String()},
    '"Module Hierarchy"': {"Module Hierarchy": pl.String()},
    '"flops"': {"flops": pl.Float64()},
    '"kernel_backend"': dict.fromkeys(TRITON, pl.String()),
    '"Collective name"': {**COLLECTIVE, **dict.fromkeys(EXCHANGE, pl.String())},
}
API_ARGS: Final[dict[str, pl.DataType]] = dict.fromkeys(("External id", "correlation", "stream", "bytes"), pl.Int64())
API_OPTIONAL: Final[dict[str, dict[str, pl.DataType]]] = {
    '"external id"': {"external id": pl.Int64()},
    '"kernel"': {**dict.fromkeys(("kernel", "grid", "block"), pl.String()), "shared memory": pl.Int64()},
    '"src"': {"kind": pl.String()},
    '"size"': {"size": pl.Int64()},
}
SYNC_ARGS: Final[dict[str, pl.DataType]] = {
    "cuda_sync_kind": pl.String(),
    **dict.fromkeys(("stream", "device", "context", "correlation"), pl.Int64()),
    **dict.fromkeys(("wait_on_stream", "wait_on_cuda_event_record_corr_id", "wait_on_cuda_event_id"), pl.Int64()),
    "event_id": pl.Int64(),
}
RANGE_ARGS: Final[dict[str, pl.DataType]] = {"finished": pl.String()}
MEMORY_ARGS: Final[dict[str, pl.DataType]] = {
    **dict.fromkeys(("Bytes", "Total Allocated", "Total Reserved", "Device Type", "Device Id"), pl.Int64()),
    "Addr": pl.String(),
}
ARGS: Final = {
    "gpu": (GPU_ARGS, GPU_OPTIONAL),
    "op": (OP_ARGS, OP_OPTIONAL),
    "api": (API_ARGS, API_OPTIONAL),
    "sync": (SYNC_ARGS, {}),
    "range": (RANGE_ARGS, {}),
    "memory": (MEMORY_ARGS, {}),
}
