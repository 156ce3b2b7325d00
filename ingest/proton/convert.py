"""Trees of Proton as sums per kernel and scope, its timelines as launches.

Source: triton, third_party/proton/csrc/lib/Data/TreeData.cpp, TraceData.cpp and include/Data/Metric.h. A tree is
`[root, devices]`: nodes have `frame.name`, `metrics` and `children`; a node with a `count` above zero is a kernel, the
nodes above it are scopes or Python frames, perhaps with values that the program gave them. A timeline is one JSON
object, until 2025 one per stream, each on a line; its first kernel starts at 0.
"""

from __future__ import annotations

import contextlib
import json
import math
import re
from collections import Counter
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, Final, NamedTuple

import msgspec
import polars as pl

from kerneldb import gpus, times
from kerneldb.batch import Manifest
from kerneldb.errors import NotATraceError, UnreadableTraceError
from kerneldb.ingest import digits, nested
from kerneldb.ingest.columns import frame_of, schema
from kerneldb.ingest.launches import Signer
from kerneldb.ingest.ledger import Ledger
from kerneldb.ingest.output import File, Output, Report
from kerneldb.ingest.privacy import public
from kerneldb.ingest.proton import KINDS, PACKED
from kerneldb.ingest.readers import Options, Progress, Unit
from kerneldb.ingest.source import Source, text_of

TIME, COUNT = "time (ns)", "count"
OLD: Final = {"Time (ns)": TIME, "Count": COUNT, "DeviceId": "device_id", "DeviceType": "device_type"}
"""Names of values before Triton 3.2."""
OWN: Final = (TIME, COUNT, "device_id", "device_type")
"""Values that Proton gives itself; all others are stored as metrics."""
KEYS: Final = Ledger(
    "key of events", ("name", "cat", "ph", "ts", "dur", "tid", "args"), {"pid": "a number of Proton's own"}
)
ARGUMENTS: Final = Ledger(
    "argument of kernels",
    ("call_stack", "metrics", "device_id", "stream_id"),
    {"display_stream_id": "the lane, which the event has"},
    "unread",
)
ENTRIES: Final = Ledger("entry", ("traceEvents", "displayTimeUnit"), {})
NODES: Final = Ledger("key of frames", ("children", "frame", "metrics"), {}, "unread")
MARKS: Final = ("<captured_at>", "<capture", "ROOT")
PYTHON: Final = re.compile(r".+:\d+@\S+")
STREAM: Final = re.compile(r"GPU .*?Stream (\d+)")
"""Name of a lane with kernels. Source: proton/csrc/lib/Data/Dump/ChromeTraceDump.cpp."""
VENDORS: Final = {"CUDA": "NVIDIA", "HIP": "AMD"}
COPY: Final = re.compile(r"(?i)\W*mem(cpy|set)")
MICROSECOND_NS: Final = 1000
MEGAHERTZ_KHZ: Final = 1000
UNLIKE: Final = 'Profile work on a GPU, without `mode` and `backend="instrumentation"`.'
SHADOW: Final = 'Profile with `context="shadow"`: a tree is as deep as the stacks of Python in it.'
RECORD: Final = "Profile again: `triton.profiler.start(NAME)`, the program, `triton.profiler.finalize()`."
SUMS: Final = schema("kind name device n timed total_ns phase path")
LAUNCHES: Final = schema("kind name device stream start_ns duration_ns phase range_path") | {"python_line": pl.String}
VALUES: Final = schema("launch_index metric value")
RANGES: Final = schema("range_id kind name parent_id depth path start_ns duration_ns")
DEVICES: Final = schema("device vendor arch multiprocessors clock_mhz memory_clock_mhz properties")
Node = dict[str, Any]


class Frame(NamedTuple):
    """A node, the names above it without the root, the range that it is in, and its own number as a range."""

    node: Node
    above: tuple[str, ...]
    parent: int | None
    number: int


class Scope(NamedTuple):
    """Where a kernel ran: the outermost scope, all scopes, and the innermost Python frame."""

    phase: str | None
    path: str | None
    python_line: str | None


def convert(unit: Unit, folder: Path, options: Options, progress: Progress | None = None) -> Manifest:
    """Convert the profile. Raises UnreadableTraceError for cut JSON, NotATraceError for one without kernels."""
    one = Source(unit.files[0])
    text = text_of(one)
    if progress is not None:
        progress(one.read_bytes, one.stored_bytes)
    output, signer = Output(folder, [one]), Signer()
    is_tree = text.lstrip()[:1] == b"[" or PACKED.match(text) is not None
    read = (_tree if is_tree else _timeline)(text, one.label, output, signer)
    signer.write(output.spool)
    output.report.add("read", "frames" if is_tree else "events", read)
    name = one.stem
    for ending in KINDS:
        name = name.removesuffix(ending)
    return output.finish(
        options,
        name,
        [File(one, "trace", read, output.report)],
        kind="summary" if is_tree else "timeline",
        source="proton",
        tool="Proton",
        era="hatchet" if is_tree else "chrome_trace",
        clock="capture",
        metadata="{}",
        reader_version=1,
    )


def _cut(label: str, why: object) -> UnreadableTraceError:
    return UnreadableTraceError(f"{label}: the file of Proton is cut or damaged ({why}). {RECORD}")


def _decoded(text: bytes, label: str) -> Any:
    try:
        return msgspec.msgpack.decode(text) if PACKED.match(text) else msgspec.json.decode(text)
    except RecursionError as error:
        raise nested.error(b"" if PACKED.match(text) else text, SHADOW) from error
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise _cut(label, error) from error


def _tree(text: bytes, label: str, output: Output, signer: Signer) -> int:
    """Write the sums of a tree; returns the number of its frames, without the root."""
    parts = _decoded(text, label)
    roots = [part for part in parts if isinstance(part, dict) and "frame" in part]
    described = [part for part in parts if isinstance(part, dict) and "frame" not in part]
    rows, values, ranges, unnamed, odd, keys = [], [], [], 0, 0, Counter[str]()
    output.report.add("lost", "part of the file that is no frame", len(parts) - len(roots) - len(described))
    for frame in _frames(roots):
        keys.update(frame.node.keys())
        _account(frame.node, output.report)
        metrics = {OLD.get(key, key): value for key, value in _object(frame.node, "metrics").items()}
        listed = [(key, _number(value)) for key, value in metrics.items() if key not in OWN]
        odd += sum(value is None for _, value in listed)
        if _is_kernel(metrics):
            rows.append(_sum(frame.node, metrics, frame.above))
            values.append(listed)
        elif frame.number >= 0:
            ranges.append((_range(frame), listed))
        else:
            unnamed += not _name(frame.node)
    if not rows:
        held = ", ".join(dict.fromkeys(key for _, given in ranges for key, _ in given)) or "no values"
        message = f"{label}: a tree of Proton without kernels (frames with {held}). {UNLIKE} {RECORD}"
        raise NotATraceError(message)
    output.write("devices", _devices(described, output.report))
    _write_ranges(ranges, output)
    _write_sums(rows, values, output, signer)
    output.report.add("skipped", "frame without a name", unnamed)
    output.report.add("unread", "values of frames that are no numbers: lists and texts", odd)
    NODES.account(keys, output.report)
    return len(rows) + len(ranges) + unnamed


def _frames(roots: list[Node]) -> Iterator[Frame]:
    """All nodes, each before those below it."""
    stack = [Frame(root, (), None, -1) for root in reversed(roots)]
    count = 0
    while stack:
        node, above, parent, _ = stack.pop()
        name = _name(node)
        is_range = bool(name) and name not in MARKS and not _is_kernel(_object(node, "metrics"))
        frame = Frame(node, above, parent, count if is_range else -1)
        yield frame
        count += is_range
        inside = (*above, name) if is_range else above
        within = frame.number if is_range else parent
        children = node.get("children")
        listed = children if isinstance(children, list) else []
        stack += [Frame(child, inside, within, -1) for child in reversed(listed) if isinstance(child, dict)]


def _account(node: Node, report: Report) -> None:
    """Name what of a node is not of the type that Proton writes, so that something of it is left out."""
    metrics = {OLD.get(key, key): value for key, value in _object(node, "metrics").items()}
    odd = _Odd(report, "frame", _name(node))
    for key, kind in (("frame", dict), ("metrics", dict), ("children", list)):
        odd.kind(node, key, kind)
    children = node.get("children")
    listed = children if isinstance(children, list) else []
    odd.add("lost", "child of a frame that is none", sum(not isinstance(one, dict) for one in listed))
    odd.number("lost", metrics, COUNT)
    odd.number("unread", metrics, TIME)
    odd.number("unread", metrics, "device_id", 31)
    is_timed = bool(_number(metrics.get(TIME))) and not _is_kernel(metrics)
    odd.add("lost", f"`{TIME}` of a frame that counts no kernel", int(is_timed))


def _account_event(event: Node, report: Report) -> None:
    """The same for the event of a kernel."""
    arguments = _object(event, "args")
    odd = _Odd(report, "kernel", str(event.get("name") or ""))
    odd.kind(event, "args", dict)
    for key, kind in (("call_stack", list), ("metrics", dict)):
        odd.kind(arguments, key, kind)
    odd.number("unread", event, "ts")
    odd.number("unread", event, "dur")
    odd.number("unread", arguments, "device_id", 31)
    odd.number("unread", arguments, "stream_id", 63)


class _Odd(NamedTuple):
    """Counts what of a part of the file, such as a frame, is of another type; `name` is what it is called."""

    report: Report
    part: str
    name: str

    def add(self, outcome: str, reason: str, n: int) -> None:
        self.report.add(outcome, reason, n, self.name or None)

    def kind(self, node: Node, key: str, kind: type) -> None:
        """What should be an object or a list, and is neither that nor NULL."""
        is_odd = not isinstance(node.get(key), kind | None)
        self.add("lost", f"`{key}` of a {self.part} that is no {'list' if kind is list else 'object'}", int(is_odd))

    def number(self, outcome: str, node: Node, key: str, bits: int = 0) -> None:
        """What should be a number, of not more than `bits`, or the text of one where these are given."""
        value = node.get(key)
        is_odd = value is not None and (_below(value, bits) if bits else _number(value)) is None
        self.add(outcome, f"`{key}` of a {self.part} that is no number", int(is_odd))


def _range(frame: Frame) -> dict[str, Any]:
    name = _name(frame.node)
    is_python = PYTHON.fullmatch(name) is not None
    return {
        "range_id": frame.number,
        "kind": "python_function" if is_python else "scope",
        "name": name,
        "parent_id": frame.parent,
        "depth": len(frame.above),
        "start_ns": None,
        "duration_ns": None,
        "path": None if is_python else _scope((*frame.above, name)).path,
    }


def _write_ranges(ranges: list[tuple[dict[str, Any], list[tuple[str, float | None]]]], output: Output) -> None:
    """Scopes and frames, without times, and the values that the program gave them."""
    rows = frame_of([row for row, _ in ranges], RANGES)
    output.write("ranges", rows)
    output.report.add("stored", "scopes and frames", rows.height)
    values = [(row["range_id"], key, value) for row, listed in ranges for key, value in listed if value is not None]
    metrics = frame_of(values, schema("range_id metric value"))
    output.write("metrics", metrics.with_columns(source_metric="metric"))
    output.report.add("stored", "values of scopes", metrics.height)


def _object(node: Node, key: str) -> Node:
    found = node.get(key)
    return found if isinstance(found, dict) else {}


def _name(node: Node) -> str:
    return str(_object(node, "frame").get("name") or "")


def _number(value: object) -> float | None:
    """A number of JSON; NaN, which MessagePack may hold, is none."""
    is_number = isinstance(value, int | float) and not isinstance(value, bool)
    return float(value) if is_number and math.isfinite(value) else None  # type: ignore[arg-type]


def _is_kernel(metrics: Node) -> bool:
    return bool(_number(metrics.get(COUNT, metrics.get("Count"))))


def _scope(names: tuple[str, ...]) -> Scope:
    scopes = [name for name in names if not PYTHON.fullmatch(name)]
    frames = [name for name in names if PYTHON.fullmatch(name)]
    return Scope(scopes[0] if scopes else None, "/".join(scopes) or None, frames[-1] if frames else None)


def _kind(name: str) -> str:
    found = COPY.match(name)
    return f"mem{found[1].lower()}" if found else "kernel"


def _sum(node: Node, metrics: Node, above: tuple[str, ...]) -> dict[str, Any]:
    name, count, total = _name(node), _whole(metrics.get(COUNT)), _whole(metrics.get(TIME))
    scope = _scope(above)
    return {
        "kind": _kind(name),
        "name": name or "unknown_kernel",
        "device": _below(metrics.get("device_id"), 31),
        "n": count,
        "timed": count if total is not None else 0,
        "total_ns": total,
        "phase": scope.phase,
        "path": scope.path,
    }


def _below(value: object, bits: int) -> int | None:
    """The number that a text or number is, None where it is negative or has more bits."""
    text = str(value)
    number = int(text) if text.isdecimal() and len(text) <= len(str(1 << bits)) else None
    return number if number is not None and number < 1 << bits else None


def _whole(value: object) -> int | None:
    number = _number(value)
    return None if number is None else times.whole_ns(number)


def _write_sums(
    rows: list[dict[str, Any]], values: list[list[tuple[str, float | None]]], output: Output, signer: Signer
) -> None:
    """One sum per kernel, device and outermost scope: a node of a tree is in one scope, so these add up."""
    signed = signer.sign(frame_of(rows, SUMS))
    negative = (pl.col("n") < 0) | (pl.col("total_ns") < 0)
    output.report.add("refused", "sum with a negative count or time", signed.filter(negative).height)
    kept = signed.filter(~negative.fill_null(value=False))
    sums = {name: pl.col(name).sum() for name in ("n", "timed")}
    sums["total_ns"] = pl.when(pl.col("timed").sum() > 0).then(pl.col("total_ns").sum())
    output.report.add("note", "sums of kernels without a time", kept["total_ns"].null_count())
    summed = kept.group_by("device", "signature_id", "phase", maintain_order=True).agg(**sums)
    output.write("rollups", summed.with_columns(origin=pl.lit("report"), timing=pl.lit("timeline")))
    output.report.add("stored", "kernels of frames, as sums per outermost scope", kept.height)
    listed = [
        (signature, key, value)
        for signature, own in zip(signed["signature_id"], values, strict=True)
        for key, value in own
        if value is not None
    ]
    metrics = frame_of(listed, {**schema("signature_id metric value")})
    added = metrics.group_by("signature_id", "metric", maintain_order=True).agg(pl.col("value").sum())
    output.write("metrics", added.with_columns(source_metric="metric"))
    output.report.add("stored", "values of kernels", added.height)


def _devices(described: list[Node], report: Report) -> pl.DataFrame:
    """Rows of `devices`: `{"CUDA": {"0": {"arch": "90", "clock_rate": 1980000, "num_sms": 132, …}}}`."""
    rows = []
    for part in described:
        for kind, listed in part.items():
            for number, facts in listed.items() if isinstance(listed, dict) else ():
                device = digits.whole(number)
                if device is not None and device >= 0 and isinstance(facts, dict):
                    rows.append(_device(kind, device, facts))
    return frame_of(rows, DEVICES, report)


def _device(kind: str, number: int, facts: Node) -> dict[str, Any]:
    arch, vendor = str(facts.get("arch") or ""), VENDORS.get(kind)
    is_nvidia = vendor == "NVIDIA" and arch.isdecimal() and 1 < len(arch) <= digits.READ
    capability = (int(arch[:-1]), int(arch[-1])) if is_nvidia else ()
    named = gpus.arch_of(vendor, "", *capability) if capability else arch.partition(":")[0] or None
    clock, memory = (_number(facts.get(key)) for key in ("clock_rate", "memory_clock_rate"))
    return {
        "device": number,
        "vendor": vendor,
        "arch": named,
        "multiprocessors": _whole(facts.get("num_sms")),
        "clock_mhz": None if clock is None else clock / MEGAHERTZ_KHZ,
        "memory_clock_mhz": None if memory is None else memory / MEGAHERTZ_KHZ,
        "properties": json.dumps(public(facts)),
    }


def _timeline(text: bytes, label: str, output: Output, signer: Signer) -> int:
    """Write the launches of a timeline; returns the number of its events."""
    rows: list[dict[str, Any]] = []
    values: list[tuple[int, str, float]] = []
    others, keys, arguments, entries, odd = Counter[str](), Counter[str](), Counter[str](), Counter[str](), 0
    parts = list(_events(text, label, entries))
    events = [event for event in parts if isinstance(event, dict)]
    output.report.add("lost", "event that is no object", len(parts) - len(events))
    streams = dict(found for event in events if (found := _stream(event)) is not None)
    for event in events:
        if event.get("ph") != "X" or event.get("cat") != "kernel":
            others[str(event.get("cat", ""))] += 1
            continue
        keys.update(event.keys())
        _account_event(event, output.report)
        arguments.update(_object(event, "args").keys())
        given = list(_values(event))
        odd += len(_object(_object(event, "args"), "metrics")) - len(given)
        values.extend((len(rows), *one) for one in given)
        rows.append(_launch(event, streams))
    for category, n in others.items():
        output.report.add("skipped", f"events of category {category or 'none'}: not of whole kernels", n)
    for ledger, counted in ((KEYS, keys), (ARGUMENTS, arguments), (ENTRIES, entries)):
        ledger.account(counted, output.report)
    output.report.add("unread", "values of kernels that are no numbers", odd)
    if not rows:
        held = ", ".join(name or "no category" for name in others) or "nothing"
        message = f"{label}: a timeline of Proton without kernels (events: {held}). {UNLIKE} {RECORD}"
        raise NotATraceError(message)
    places = _write_launches(frame_of(rows, LAUNCHES), output, signer)
    metrics = frame_of([(places[at], *one) for at, *one in values], VALUES)
    output.write("metrics", metrics.with_columns(source_metric="metric"))
    output.report.add("stored", "values of kernels", metrics.height)
    return len(parts)


def _events(text: bytes, label: str, entries: Counter[str]) -> Iterator[Any]:
    """The events of all objects: one on each line, or a single one that another program laid out over lines.

    What else stands in the objects is counted in `entries`; where there should be a list of events and is none, None.
    """
    lines = [line for line in text.split(b"\n") if line.strip()]
    for part in [text] if lines and lines[0].strip() == b"{" else lines:
        listed = _decoded(part, label)
        entries.update(listed.keys() if isinstance(listed, dict) else ())
        events = listed.get("traceEvents", []) if isinstance(listed, dict) else None
        yield from events if isinstance(events, list) else (None,)


def _values(event: Node) -> Iterator[tuple[str, float]]:
    """What the program gave to a kernel, such as its `flops`: numbers, which Proton prints as texts."""
    for key, value in _object(_object(event, "args"), "metrics").items():
        with contextlib.suppress(ValueError):
            number = float(value) if isinstance(value, str) else _number(value)
            if number is not None and math.isfinite(number):
                yield key, number


def _stream(event: Node) -> tuple[str, str] | None:
    """Lane and stream, where the event names a lane: since 2026 `tid` counts lanes, of which some are streams."""
    found = STREAM.fullmatch(str(_object(event, "args").get("name")))
    is_name = event.get("ph") == "M" and event.get("name") == "thread_name" and found
    return (str(event.get("tid", "")), found[1]) if is_name and found else None


def _launch(event: Node, streams: Mapping[str, str]) -> dict[str, Any]:
    given = _object(event, "args")
    stack = given.get("call_stack")
    names = [str(name) for name in stack] if isinstance(stack, list) else []
    scope = _scope(tuple(name for name in names[:-1] if name not in MARKS))
    name, lane = str(event.get("name") or "unknown_kernel"), str(event.get("tid", ""))
    stream = given.get("stream_id", streams.get(lane, lane))
    start, duration = (_number(event.get(key)) for key in ("ts", "dur"))
    return {
        "kind": _kind(name),
        "name": name,
        "device": _below(given.get("device_id"), 31),
        "stream": _below(stream, 63),
        "start_ns": None if start is None else times.whole_ns(start * MICROSECOND_NS),
        "duration_ns": None if duration is None else times.whole_ns(duration * MICROSECOND_NS),
        "phase": scope.phase,
        "range_path": scope.path,
        "python_line": scope.python_line,
    }


def _write_launches(rows: pl.DataFrame, output: Output, signer: Signer) -> list[int]:
    """Write the launches in order of time; returns the `launch_index` of each row."""
    ordered = rows.with_row_index("row").sort("start_ns", nulls_last=True, maintain_order=True)
    places = ordered["row"].arg_sort().to_list()
    signed = (
        signer.sign(ordered.drop("row"))
        .drop("name")
        .with_columns(
            launch_index=pl.int_range(pl.len(), dtype=pl.Int64),
            timing=pl.lit("timeline"),
            launch_status=pl.lit("no_launch"),
            end_ns=pl.col("start_ns") + pl.col("duration_ns"),
        )
    )
    output.saw(signed)
    output.launches = signed.height
    output.write("launches", signed)
    output.report.add("stored", "launches", signed.height)
    return places
