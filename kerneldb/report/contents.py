"""The sections of a report on one trace: which query, which columns, which words."""

from __future__ import annotations

from typing import Final

from kerneldb.report.model import Column, Plan
from kerneldb.report.wording import UNSPLIT

COUNT: Final = Column("n", "launches", "count")
TOTAL: Final = Column("total_ns", "GPU time", "ns")
MEAN: Final = Column("mean_ns", "mean", "ns")
SHARE: Final = Column("share_pct", "share", "percent")
KERNEL: Final = Column("kernel", "kernel", "code")
DEVICE: Final = Column("device", "GPU", "count")
OPERATOR: Final = Column("op", "operator", "code")
PHASE: Final = Column("phase", "phase")
DTYPE: Final = Column("dtype", "type")
MEDIAN: Final = Column("median_ns", "median", "ns")
GRADE: Final = Column("grade", "grade")
DELTA: Final = Column("delta_pct", "Δ", "percent")
OVER_PEAK: Final = (
    "the kernel did less work, or moved less through DRAM, than its shapes say, or ran above the clock of the sheet."
)
IDLE_TIME: Final = Column("idle_ns", "idle", "ns")


SETUP: Final = Plan(
    "setup",
    "The trace",
    (
        Column("trace", "trace"),
        Column("source", "source"),
        Column("framework_version", "framework"),
        Column("device_names", "GPU"),
        Column("launches", "launches", "count"),
        Column("window_ns", "window", "ns"),
        Column("label", "label"),
        Column("run", "run"),
        Column("rank", "rank", "count"),
        Column("notes", "notes"),
    ),
    is_sparse=True,
)
LACKS: Final = Plan(
    "lacks",
    "What the trace lacks",
    (Column("what", "missing"), Column("remedy", "how to have it")),
    "Nothing: operators, shapes, stacks, phases, FLOPs, replay and energy are there.",
)
TOP: Final = Plan(
    "top",
    "Top kernels",
    (
        Column("place", "#", "count"),
        SHARE,
        Column("cumulative_pct", "cumulative", "percent"),
        Column("library", "library"),
        KERNEL,
        Column("description", "description"),
        COUNT,
        TOTAL,
        MEAN,
    ),
)
CATEGORIES: Final = Plan("categories", "By category", (Column("category", "category"), COUNT, TOTAL, MEAN, SHARE))
OPERATORS: Final = Plan("operators", "By operator", (OPERATOR, COUNT, TOTAL, MEAN, SHARE), "No launch has an operator.")
PHASES: Final = Plan("phases", "By phase", (PHASE, COUNT, TOTAL, MEAN, SHARE), "No phases recorded.")
GPU_TIME: Final = Plan(
    "gpu_time",
    "Busy and idle",
    (
        DEVICE,
        COUNT,
        Column("span_ns", "first start to last end", "ns"),
        Column("busy_ns", "busy", "ns"),
        Column("busy_pct", "busy share", "percent"),
        IDLE_TIME,
        Column("computation_ns", "computation", "ns"),
        Column("exposed_communication_ns", "exposed communication", "ns"),
        Column("exposed_memcpy_ns", "exposed copies", "ns"),
        Column("overlap_ns", "overlap", "ns"),
    ),
    "No timeline in this trace.",
)
WHY: Final = "Why it takes so long"
WALL: Final = Plan(
    "wall_budget",
    "Wall time by cause",
    (
        DEVICE,
        Column("part", "part"),
        Column("cause", "cause", words=(("unsplit", UNSPLIT),)),
        Column("n", "pieces", "count"),
        Column("wall_ns", "time", "ns"),
        Column("share_pct", "share", "percent"),
        Column("known", "of known work", "count"),
        Column("needed_ns", "needed at the peaks", "ns"),
        Column("lost_ns", "beyond that", "ns"),
    ),
    "No timeline.",
    is_sparse=True,
    asked="wall_sums",
)
IDLE: Final = Plan(
    "idle",
    "Idle time by cause",
    (
        DEVICE,
        Column("part", "part"),
        Column("cause", "cause"),
        Column("n", "pieces of gaps", "count"),
        IDLE_TIME,
        SHARE,
        MEDIAN,
        Column("max_ns", "longest", "ns"),
        Column("waiting_call", "waiting call", "code"),
    ),
    "No timeline in this trace.",
    asked="idle_sums",
)
ITERATIONS: Final = Plan(
    "iterations",
    "Iterations",
    (
        DEVICE,
        Column("inferred_by", "found by"),
        Column("iterations", "iterations", "count"),
        Column("steady_state", "steady state", "count"),
        Column("launches", "launches each", "count"),
        Column("mean_total_ns", "GPU time each", "ns"),
        Column("mean_span_ns", "span each", "ns"),
        Column("covered_pct", "kernels covered", "percent"),
        Column("remark", "remark"),
    ),
    "No repeats found.",
)
REPLAYS: Final = Plan(
    "replays",
    "Recorded against replayed, by grade",
    (
        GRADE,
        COUNT,
        TOTAL,
        SHARE,
        Column("replayed_ns", "replayed", "ns"),
        DELTA,
        Column("energy_mj", "energy in mJ", "number"),
    ),
    "Not replayed: kerneldb replay --trace NAME",
)
REPLAYED_KERNELS: Final = Plan(
    "replayed_kernels",
    "Replayed kernels",
    (
        KERNEL,
        GRADE,
        COUNT,
        TOTAL,
        MEAN,
        Column("replay_ns", "replayed", "ns"),
        DELTA,
        Column("energy_mj", "mJ each", "number"),
        Column("dynamic_mj", "dynamic energy", "number"),
    ),
)
RECONCILIATION: Final = Plan(
    "reconciliation",
    "Predicted against measured whole, per iteration",
    (
        Column("workload", "workload"),
        Column("mode", "mode"),
        Column("section", "of"),
        Column("component", "component"),
        Column("value", "value", "number"),
        Column("low", "low", "number"),
        Column("high", "high", "number"),
        Column("unit", "unit"),
        Column("source", "source"),
        Column("note", "note"),
    ),
    "Nothing was measured whole: kerneldb record MODEL",
)
OCCUPANCY: Final = Plan(
    "occupancy",
    "Occupancy",
    (
        KERNEL,
        TOTAL,
        Column("blocks", "blocks", "count"),
        Column("threads", "threads each", "count"),
        Column("registers", "registers", "count"),
        Column("shared_bytes", "shared bytes", "count"),
        Column("theoretical_pct", "theoretical", "percent"),
        Column("limiter", "limited by"),
        Column("estimated_pct", "estimated by the tool", "percent"),
    ),
    "Neither registers nor shared memory of launches are in the trace. Profilers note them of launches that they trace "
    "one by one, as those of CUDA graphs by nsys --cuda-graph-trace=node.",
    is_sparse=True,
)
NO_GPU: Final = (
    "Launches have their registers and shared memory, but the trace does not say on which GPU they ran, so what it "
    "holds at once is not known. Keep what says it: deviceProperties in a trace of PyTorch, the table TARGET_INFO_GPU "
    "in an export of nsys, *_agent_info.csv beside the other files of rocprofv3."
)
NO_LIMITS: Final = (
    "Launches have their registers and shared memory, but how many blocks a GPU of {} holds at once is not known here."
)
OVERHEAD: Final = Plan(
    "overhead",
    "Launch calls",
    (
        Column("api_call", "call", "code"),
        COUNT,
        Column("call_ns", "host time", "ns"),
        Column("median_call_ns", "median call", "ns"),
        Column("median_delay_ns", "median delay", "ns"),
        Column("median_kernel_ns", "median launch", "ns"),
        Column("shorter_than_call_pct", "shorter than their call", "percent"),
    ),
    "No launch calls recorded.",
)
FUSION: Final = Plan(
    "fusion",
    "Runs of small kernels that could be one",
    (
        Column("kernels_in_run", "kernels", "count"),
        Column("runs", "runs", "count"),
        TOTAL,
        Column("at_stake_ns", "at most saved, with pauses", "ns"),
        Column("kernel_ns_at_stake", "without pauses", "ns"),
        Column("kernels", "sequence", "code"),
    ),
)
CONVERSIONS: Final = Plan(
    "conversions",
    "Conversions between types",
    (
        Column("from_dtype", "from"),
        Column("to_dtype", "to"),
        PHASE,
        COUNT,
        TOTAL,
        Column("elements", "elements", "count"),
    ),
)
COLLECTIVES: Final = Plan(
    "collectives",
    "Collectives",
    (
        Column("operation", "operation"),
        Column("algorithm", "algorithm"),
        Column("protocol", "protocol"),
        DTYPE,
        Column("bytes", "size", "bytes"),
        Column("group_size", "ranks", "count"),
        COUNT,
        TOTAL,
        MEDIAN,
        Column("median_bus_gbs", "bus GB/s", "number"),
    ),
)
HELD: Final = (
    Column("device_type", "memory of"),
    DEVICE,
    Column("name", "name", "code"),
    Column("allocations", "allocations", "count"),
    Column("allocated_bytes", "allocated in all", "bytes"),
    Column("peak_bytes", "most held at once", "bytes"),
    Column("at_peak_bytes", "held at the peak", "bytes"),
    Column("at_peak_pct", "share of the peak", "percent"),
)
MEMORY: Final = Plan("memory", "By outermost operator", HELD, is_sparse=True)
MEMORY_LINES: Final = Plan("memory_lines", "By Python line", HELD, is_sparse=True)
STRAGGLERS: Final = Plan(
    "stragglers",
    "Waits of each rank for another",
    (
        Column("run", "job"),
        Column("rank", "rank", "count"),
        Column("late_rank", "waits for rank", "count"),
        Column("n", "collectives", "count"),
        Column("wait_ns", "wait", "ns"),
        Column("share_pct", "share of its time", "percent"),
        Column("computed_longer_ns", "late one busy longer before", "ns"),
        Column("idle_longer_ns", "late one idle longer before", "ns"),
        Column("longest_wait_ns", "longest wait", "ns"),
        Column("longest_operation", "in"),
        Column("longest_bytes", "size", "bytes"),
        Column("longest_at_ns", "begun at", "ns"),
    ),
    is_sparse=True,
)
NAMES: Final = Plan("names", "Full names", (KERNEL, Column("name", "full name", "code"), COUNT))
ROOFLINE: Final = Plan(
    "roofline",
    "Achieved against attainable",
    (
        TOTAL,
        KERNEL,
        DTYPE,
        OPERATOR,
        Column("input_dims", "shapes", "shapes"),
        Column("moved_bytes", "bytes", "bytes"),
        Column("intensity", "FLOP/byte", "number"),
        Column("flops_per_second", "FLOP/s", "rate"),
        Column("pct_peak_flops", "of peak FLOP/s", "percent", OVER_PEAK),
        Column("bytes_per_second", "bytes/s", "rate"),
        Column("pct_peak_bandwidth", "of peak bytes/s", "percent", OVER_PEAK),
        Column("pct_attainable", "of attainable", "percent", OVER_PEAK),
        Column("bound", "bound"),
        Column("method", "work from"),
    ),
    "No FLOPs known: record shapes, collect counters, or name them (kerneldb db annotate).",
)
