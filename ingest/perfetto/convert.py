"""Perfetto traces as rows: launches from slices of GPU categories and render stages, calls, annotations, counters.

rocprofv3 (`--output-format pftrace`; rocprofiler-sdk, source/lib/output/generatePerfetto.cpp) writes categories
kernel_dispatch, memory_copy, hip_api, hsa_api, marker_api, … with the times as arguments begin_ns and end_ns;
workgroup_size and grid_size are products, the grid in work-items. Conversions of PyTorch traces keep its categories and
arguments.
"""

from __future__ import annotations

import re
from collections import Counter
from pathlib import Path
from typing import Any, Final

import polars as pl

from kerneldb import times
from kerneldb.batch import Manifest
from kerneldb.errors import NotATraceError
from kerneldb.gpus.hip import BLOCKS, WORK_ITEMS
from kerneldb.ingest.amd import capture
from kerneldb.ingest.amd.host import Host, Marker
from kerneldb.ingest.amd.launches import Launches, copy_kind
from kerneldb.ingest.columns import frame_of
from kerneldb.ingest.ledger import Ledger
from kerneldb.ingest.output import File, Output
from kerneldb.ingest.perfetto.model import KINDS, Slice, Trace, Track
from kerneldb.ingest.perfetto.packets import Decoder
from kerneldb.ingest.readers import Options, Progress, Unit
from kerneldb.ingest.source import Source, text_of

CALLS: Final = re.compile(
    r"(rocm_)?(hip|hsa|rccl|rocdecode|rocjpeg|ompt)(_\w+)?_api(_ext)?|cuda_(runtime|driver)|(hip|rocm)_runtime|"
    r"(hip|hsa|rccl|ompt)_api"
)
MARKERS: Final = ("marker_api", "rocm_marker_api", "user_annotation", "nvtx", "roctx")
OTHERS: Final = Ledger(
    "slices of category", (), {r"(?!kernel).*": "a span of the host that is neither call nor marker"}
)
ARGUMENTS: Final = Ledger(
    "argument of GPU slices",
    (
        *("begin_ns", "end_ns", "agent", "corr_id", "queue", "kernel_id", "private_segment_size", "group_segment_size"),
        *(
            "workgroup_size",
            "grid_size",
            "stream_id",
            "stream_ID",
            "stream",
            "bytes",
            "copy_bytes",
            "src_agent",
            "dst_agent",
        ),
        *("correlation", "device", "grid", "block", "registers per thread", "shared memory", "gpu_id", "agent_type"),
    ),
    {
        "delta_ns|kind|operation|tid|queue_name": "said by other columns",
        "ancestor_id|args": "the call above the call",
        "submission_id|context|kernel_iid|External id": "a number of the tool's own",
        "est. achieved occupancy %|blocks per SM|warps per SM|queued": "as in PyTorch traces: give the trace itself",
    },
    outcome="unread",
)
COPY: Final = re.compile(r"MEMORY_COPY_|Memcpy [HD]to[HD]|Copy(Host|Device)To(Host|Device)")
AGENT: Final = re.compile(r"(\D*?)[\s\-\[]*(\d+)\D*")
TRIPLE: Final = re.compile(r"\s*[(\[]\s*\d+\s*,\s*\d+\s*,\s*\d+\s*[)\]]\s*")
SIZE: Final = re.compile(r"\d+")
INT64: Final = 1 << 63
GPU: Final = "GPU"
ENDINGS: Final = (".pftrace", ".perfetto-trace", ".perfetto_trace", ".pf-trace", ".perfetto")
ROCPROF: Final = ("kernel_dispatch", "memory_copy")
REMEDY: Final = "Record with `rocprofv3 --kernel-trace --output-format pftrace`, or give another format of the tool."


def convert(unit: Unit, folder: Path, options: Options, progress: Progress | None = None) -> Manifest:
    """Convert the trace. Raises NotATraceError for one without GPU work, by name of what it holds."""
    one = Source(unit.files[0])
    trace = Decoder().read(text_of(one))
    if progress is not None:
        progress(one.read_bytes, one.stored_bytes)
    work = [*(one for one in trace.slices if _kind(one) is not None), *trace.stages]
    if not work:
        raise _refused(trace, one.label)
    output = Output(folder, [one])
    output.report = trace.report
    is_rocprof = any(set(one.categories) & set(ROCPROF) and "begin_ns" in one.arguments for one in work)
    launches = _write(trace, work, output)
    output.report.add("read", "packets", trace.packets)
    name = capture.prefix_of(Path(_stem(one)))
    return output.finish(
        options,
        name or one.stem,
        [File(one, "trace", trace.packets, output.report)],
        kind=launches.trace_kind,
        source="rocprofv3" if is_rocprof else "perfetto",
        tool="rocprofv3" if is_rocprof else "Perfetto",
        era=capture.era_of("rocprofv3 pftrace", one.path) if is_rocprof else "pftrace",
        clock="boottime",
        base_ns=0,
        metadata="{}",
        reader_version=1,
    )


def _stem(one: Source) -> str:
    return next((one.stem.removesuffix(ending) for ending in ENDINGS if one.stem.endswith(ending)), one.stem)


def _kind(one: Slice) -> str | None:
    """The kind of launch of a slice, None for others. Where kernels and copies share a category, the name says it."""
    kind = next((KINDS[category] for category in one.categories if category in KINDS), None)
    return "memcpy" if kind == "kernel" and COPY.match(one.name) else kind


def _is_call(one: Slice) -> bool:
    return any(CALLS.fullmatch(category) for category in one.categories)


def _write(trace: Trace, work: list[Slice], output: Output) -> Launches:
    """Write all rows: markers first, as calls and launches are placed in them."""
    rest = [one for one in trace.slices if _kind(one) is None]
    calls = [one for one in rest if _is_call(one)]
    marked = [one for one in rest if not _is_call(one) and set(one.categories) & set(MARKERS)]
    ended = [one for one in marked if None not in (one.start_ns, one.end_ns)]
    host = Host(output, [_marker(one, trace.tracks) for one in ended])
    output.report.add("skipped", "annotations without an end", len(marked) - len(ended))
    flows = _calls_by_flow(calls)
    host.add("", _call_rows(calls, trace.tracks))
    launches = Launches(output, host)
    devices = _devices(work)
    launches.add("", _launch_rows(work, trace.tracks, devices, flows), {})
    launches.finish()
    taken = {id(one) for one in (*calls, *marked)}
    others = Counter(one.categories[0] if one.categories else "none" for one in rest if id(one) not in taken)
    OTHERS.account(others, output.report)
    ARGUMENTS.account(Counter(key for one in work for key in one.arguments), output.report)
    _write_readings(trace, output)
    return launches


def _place(track: int, tracks: dict[int, Track]) -> tuple[str | None, str | None]:
    """Process and thread of a track, looked up among the tracks above it; a thread without a number has its name."""
    process, thread, seen = None, None, set[int]()
    known = tracks.get(track)
    while known is not None and track not in seen:
        seen.add(track)
        process, thread = process or known.process, thread or known.thread or known.name
        track = known.parent if known.parent is not None else track
        known = tracks.get(track)
    return process, thread


def _times(one: Slice) -> tuple[int | None, int | None]:
    """Start and end: as arguments where the tool says so, else of the slice; in 64 bits."""
    start, end = (_integer(one.arguments.get(key)) for key in ("begin_ns", "end_ns"))
    start, end = (start, end) if start is not None and end is not None else (one.start_ns, one.end_ns)
    return times.fitting(start), times.fitting(end)


def _marker(one: Slice, tracks: dict[int, Track]) -> Marker:
    start, end = _times(one)
    process, thread = _place(one.track, tracks)
    return Marker(process, thread, one.name, start or 0, end or 0)


def _correlation(one: Slice) -> int | None:
    found = (_integer(one.arguments.get(key)) for key in ("corr_id", "correlation"))
    return next((number for number in found if number is not None), None)


def _calls_by_flow(calls: list[Slice]) -> dict[int, int]:
    """Flow → the correlation of the call that it comes from: where calls have none, the number of the flow."""
    return {flow: _own_correlation(one) or 0 for one in reversed(calls) for flow in one.flows}


def _own_correlation(one: Slice) -> int | None:
    number = _correlation(one)
    return number if number is not None else next((flow % INT64 for flow in one.flows), None)


def _call_rows(calls: list[Slice], tracks: dict[int, Track]) -> pl.DataFrame:
    rows = []
    for one in calls:
        (start, end), (process, thread) = _times(one), _place(one.track, tracks)
        kind = next(category for category in one.categories if CALLS.fullmatch(category))
        rows.append((process, thread, kind, one.name, start, end, _own_correlation(one)))
    texts, numbers = ("process", "thread", "kind", "name"), ("start_ns", "end_ns", "correlation_id")
    schema = {**dict.fromkeys(texts, pl.String), **dict.fromkeys(numbers, pl.Int64)}
    return frame_of(rows, schema)


def _integer(value: object) -> int | None:
    """A number of 64 bits from a number or a text; None where it is none."""
    if isinstance(value, str) and re.fullmatch(r"-?\d{1,19}", value):
        value = int(value)
    return value if isinstance(value, int) and -INT64 <= value < INT64 else None


def _agent(value: object) -> tuple[str, int] | None:
    """Label and number of `GPU-0`, `Agent 4` or 4."""
    found = AGENT.fullmatch(str(value)) if value is not None else None
    return (found[1].strip(" -[").upper(), int(found[2])) if found and len(found[2]) < len(str(INT64)) else None


def _devices(work: list[Slice]) -> dict[tuple[str, int], int]:
    """Agent → number of the GPU: its own where the label counts GPUs, else its place among the agents that ran work."""
    kernels = [one for one in work if _kind(one) == "kernel"]
    found = {agent for one in kernels for agent in [_agent(one.arguments.get("agent"))] if agent is not None}
    if all(label == GPU for label, _ in found):
        return {agent: agent[1] for agent in found}
    return {agent: place for place, agent in enumerate(sorted(found))}


def _launch_rows(
    work: list[Slice], tracks: dict[int, Track], devices: dict[tuple[str, int], int], flows: dict[int, int]
) -> pl.DataFrame:
    rows = [_launch(one, tracks, devices, flows) for one in work]
    return frame_of(rows, LAUNCH).sort("start_ns", nulls_last=True)


def _launch(
    one: Slice, tracks: dict[int, Track], devices: dict[tuple[str, int], int], flows: dict[int, int]
) -> dict[str, Any]:
    said, (start, end) = one.arguments, _times(one)
    kind = _kind(one) or "kernel"
    agents = [said.get(key) for key in (("agent",) if kind == "kernel" else ("dst_agent", "src_agent"))]
    found = (devices.get(agent) for agent in map(_agent, agents) if agent is not None)
    numbered = (_integer(said.get(key)) for key in ("device", "gpu_id"))
    from_flow = next((flows[flow] for flow in one.flows if flow in flows), None)
    correlation = _correlation(one)
    return {
        "kind": kind,
        "name": one.name or ("unknown_kernel" if kind == "kernel" else kind),
        "process": _place(one.track, tracks)[0],
        "device": next((number for number in (*found, *numbered) if number is not None), None),
        "queue": _integer(said.get("queue")),
        "stream": _first(said, "stream_id", "stream_ID", "stream"),
        "start_ns": start,
        "end_ns": end,
        "correlation_id": correlation if correlation is not None else from_flow,
        "bytes": _first(said, "bytes", "copy_bytes") if kind != "kernel" else None,
        "copy_kind": copy_kind(one.name) if kind == "memcpy" else None,
        "shared_bytes": _first(said, "group_segment_size", "shared memory"),
        "scratch_bytes": _integer(said.get("private_segment_size")),
        "registers_reported": _integer(said.get("registers per thread")),
        **(_shape(said) if kind == "kernel" else {}),
    }


def _first(said: dict[str, Any], *keys: str) -> int | None:
    return next((number for key in keys if (number := _integer(said.get(key))) is not None), None)


def _shape(said: dict[str, Any]) -> dict[str, Any]:
    """Grid and block: three sizes each, in blocks and threads; or products, the grid in work-items."""
    grid, block = (_three(said.get(key)) for key in ("grid", "block"))
    if grid is not None and block is not None:
        return _sizes(grid, block, BLOCKS)
    grid, block = (_three(said.get(key)) for key in ("grid_size", "workgroup_size"))
    if grid is not None and block is not None:
        return _sizes(grid, block, WORK_ITEMS)
    items, threads = (_integer(said.get(key)) for key in ("grid_size", "workgroup_size"))
    whole = items is not None and threads is not None and threads > 0 and items % threads == 0
    blocks = items // threads if whole and items is not None and threads is not None else None
    return {"total_blocks": blocks, "threads_per_block": threads}


def _sizes(grid: list[int], block: list[int], unit: str) -> dict[str, Any]:
    named = {f"reported_grid_{axis}": size for axis, size in zip("xyz", grid, strict=True)}
    return {
        **named,
        **{f"block_{axis}": size for axis, size in zip("xyz", block, strict=True)},
        "reported_grid_unit": unit,
    }


def _three(value: object) -> list[int] | None:
    """Three sizes from a list, or from a text such as `(64,1,1)` (rocprof-sys) or `[64, 1, 1]`."""
    listed = SIZE.findall(value) if isinstance(value, str) and TRIPLE.fullmatch(value) else value
    sizes = [_integer(size) for size in listed] if isinstance(listed, list) and len(listed) == len("xyz") else []
    known = [size for size in sizes if size is not None and size >= 0]
    return known if len(known) == len("xyz") else None


LAUNCH: Final = {
    **dict.fromkeys(("kind", "name", "process", "copy_kind", "reported_grid_unit"), pl.String),
    **dict.fromkeys(("queue", "stream", "start_ns", "end_ns", "correlation_id", "bytes"), pl.Int64),
    **dict.fromkeys(("shared_bytes", "scratch_bytes", "total_blocks"), pl.Int64),
    **{f"{name}_{axis}": pl.Int64 for name in ("reported_grid", "block") for axis in "xyz"},
    **dict.fromkeys(("device", "registers_reported", "threads_per_block"), pl.Int32),
}


def _write_readings(trace: Trace, output: Output) -> None:
    rows = []
    for one in trace.readings:
        track = trace.tracks.get(one.track) if one.track is not None else None
        process = _place(one.track, trace.tracks)[0] if one.track is not None else None
        rows.append((one.counter, process, one.device, times.fitting(one.ts_ns), one.value, track and track.unit))
    schema = {"counter": pl.String, "process": pl.String, "device": pl.Int32, "ts_ns": pl.Int64, "value": pl.Float64}
    frame = frame_of(rows, {**schema, "unit": pl.String})
    output.write("samples", frame)
    output.report.add("stored", "samples over time", frame.height)


def _refused(trace: Trace, label: str) -> NotATraceError:
    """Says what the trace holds instead: kinds of packets, and categories of slices."""
    held = [
        reason.partition(":")[0].removeprefix("packets ")
        for outcome, reason in trace.report.counts
        if outcome == "skipped"
    ]
    categories = dict.fromkeys(category for one in trace.slices for category in one.categories)
    listed = [*(f"slices of {name}" for name in categories), *held]
    shown = ", ".join(listed[:6]) + (", …" if len(listed) > 6 else "")  # noqa: PLR2004
    lost = "".join(
        f"; {reason} ({n})"
        for (outcome, reason), (n, _) in trace.report.counts.items()
        if outcome in ("lost", "truncated")
    )
    return NotATraceError(f"{label}: a Perfetto trace without GPU work (it holds {shown or 'nothing'}{lost}). {REMEDY}")
