"""What an event of a PyTorch trace holds: categories of all eras and vendors, and the arguments read from each group.

Categories: kineto `include/ActivityType.h`; torch 1.8-1.10 wrote them in title case, and 1.8 wrote `external id`.
"""

from __future__ import annotations

from typing import Final

import polars as pl

GROUP_OF: Final[dict[str, str]] = {
    "kernel": "gpu",
    "gpu_memcpy": "gpu",
    "gpu_memset": "gpu",
    "mtia_ccp_events": "gpu",
    "hpu_op": "gpu",
    "collective_comm": "gpu",
    "cpu_op": "op",
    "cuda_runtime": "api",
    "cuda_driver": "api",
    "xpu_runtime": "api",
    "xpu_driver": "api",
    "mtia_runtime": "api",
    "glow_runtime": "api",
    "privateuse1_runtime": "api",
    "privateuse1_driver": "api",
    "cuda_sync": "api",
    "xpu_sync": "api",
    "cuda_event": "api",
    "user_annotation": "range",
    "gpu_user_annotation": "range",
    "python_function": "range",
    "overhead": "range",
    "cuda_profiler_range": "range",
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
LAUNCHING_APIS: Final = (
    "cuda_runtime",
    "cuda_driver",
    "xpu_runtime",
    "xpu_driver",
    "mtia_runtime",
    "glow_runtime",
    "privateuse1_runtime",
    "privateuse1_driver",
)

EVENT: Final = pl.Schema(
    {
        "ph": pl.String,
        "cat": pl.String,
        "name": pl.String,
        "pid": pl.String,
        "tid": pl.String,
        "ts": pl.Float64,
        "dur": pl.Float64,
        "args": pl.String,
    }
)

GPU_ARGS: Final[dict[str, pl.DataType]] = {
    **dict.fromkeys(
        (
            "External id",
            "correlation",
            "device",
            "stream",
            "queued",
            "bytes",
            "registers per thread",
            "shared memory",
        ),
        pl.Int64(),
    ),
    **dict.fromkeys(("context", "grid", "block", "kind"), pl.String()),
    **dict.fromkeys(("est. achieved occupancy %", "blocks per SM"), pl.Float64()),
}
GPU_OPTIONAL: Final[dict[str, dict[str, pl.DataType]]] = {
    '"external id"': {"external id": pl.Int64()},
    '"graph id"': {"graph id": pl.Int64(), "graph node id": pl.Int64()},
    '"occupancy"': {"occupancy": pl.String()},
    '"fromDevice"': {"fromDevice": pl.Int64(), "toDevice": pl.Int64(), "inDevice": pl.Int64()},
    '"size"': {"size": pl.Int64()},
    '"Collective name"': {
        "Collective name": pl.String(),
        "dtype": pl.String(),
        "In msg nelems": pl.Int64(),
        "Out msg nelems": pl.Int64(),
        "Group size": pl.Int64(),
        "Process Group Name": pl.String(),
        "Process Group Description": pl.String(),
        "Process Group Ranks": pl.String(),
        "Seq": pl.Int64(),
    },
}
OP_ARGS: Final[dict[str, pl.DataType]] = {
    **dict.fromkeys(("External id", "Record function id", "Sequence number", "Fwd thread id"), pl.Int64()),
    **dict.fromkeys(("Input Dims", "Input Strides", "Input type", "Concrete Inputs"), pl.String()),
}
OP_OPTIONAL: Final[dict[str, dict[str, pl.DataType]]] = {
    '"Input dims"': {"Input dims": pl.String()},
    '"external id"': {"external id": pl.Int64()},
    '"Call stack"': {"Call stack": pl.String()},
    '"Module Hierarchy"': {"Module Hierarchy": pl.String()},
    '"flops"': {"flops": pl.Float64()},
    '"kernel_backend"': dict.fromkeys(
        (
            "kernel_backend",
            "kernel_file",
            "kernel_hash",
            "kernel_kwargs",
            "kernel_name",
            "num_warps",
            "num_stages",
            "grid",
        ),
        pl.String(),
    ),
    '"Collective name"': {
        "Collective name": pl.String(),
        "dtype": pl.String(),
        "In msg nelems": pl.Int64(),
        "Out msg nelems": pl.Int64(),
        "Group size": pl.Int64(),
        "Process Group Name": pl.String(),
        "Process Group Description": pl.String(),
        "Process Group Ranks": pl.String(),
    },
}
API_ARGS: Final[dict[str, pl.DataType]] = {
    **dict.fromkeys(("External id", "correlation", "stream", "bytes"), pl.Int64()),
}
API_OPTIONAL: Final[dict[str, dict[str, pl.DataType]]] = {
    '"external id"': {"external id": pl.Int64()},
    '"kernel"': {"grid": pl.String(), "block": pl.String(), "shared memory": pl.Int64()},
    '"src"': {"src": pl.String(), "dst": pl.String(), "kind": pl.String()},
    '"ptr"': {"ptr": pl.String(), "size": pl.Int64()},
    '"cuda_sync_kind"': {"cuda_sync_kind": pl.String(), "wait_on_stream": pl.Int64()},
}
RANGE_ARGS: Final[dict[str, pl.DataType]] = {
    "External id": pl.Int64(),
    "Python id": pl.Int64(),
    "Python module id": pl.Int64(),
    "finished": pl.String(),
}
MEMORY_ARGS: Final[dict[str, pl.DataType]] = {
    **dict.fromkeys(("Bytes", "Total Allocated", "Total Reserved", "Device Type", "Device Id"), pl.Int64()),
    "Addr": pl.String(),
}
ARGS: Final = {
    "gpu": (GPU_ARGS, GPU_OPTIONAL),
    "op": (OP_ARGS, OP_OPTIONAL),
    "api": (API_ARGS, API_OPTIONAL),
    "range": (RANGE_ARGS, {}),
    "memory": (MEMORY_ARGS, {}),
}
