"""Profiles of JAX and TensorFlow as rows: launches with their HLO instruction, ranges, driver calls, allocations."""

from __future__ import annotations

import dataclasses
import itertools
import json
import re
from collections import Counter
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, Final

import polars as pl

from kerneldb import gpus, times
from kerneldb.batch import Manifest
from kerneldb.errors import NotATraceError, TraceError, UnreadableTraceError
from kerneldb.ids import content_id
from kerneldb.ingest.columns import frame_of
from kerneldb.ingest.launches import AXES, Signer, with_occupancy
from kerneldb.ingest.ledger import Ledger
from kerneldb.ingest.output import File, Output, nullable
from kerneldb.ingest.privacy import public
from kerneldb.ingest.pytorch.identity import CallRow
from kerneldb.ingest.readers import Options, Progress, Unit
from kerneldb.ingest.source import Source, text_of
from kerneldb.ingest.wire import WireError
from kerneldb.ingest.xla import events, rows, xspace
from kerneldb.ingest.xla.hlo import NAMESPACE, Described, Instruction, Module
from kerneldb.ingest.xla.host import Host
from kerneldb.ingest.xla.mapping import BY_OP, Found, Launch, Mapper
from kerneldb.ingest.xla.recording import GPU, HOST, Line, Plane, Recording

PLANES: Final = Ledger(
    "plane",
    ("/host:metadata", "Task Environment"),
    {
        f"{GPU.pattern}|{HOST.pattern}": "read",
        r"(\S+ )?/host:(__\w+|metadata)": "numbers of XLA's own",
        r"#.*|(\S+ )?/device:.*": "not a GPU",
    },
)
LINES: Final = Ledger(
    "line of a GPU",
    (),
    {
        "XLA (Ops|Modules|TraceMe)|Async XLA Ops|Steps|Framework.*|TensorFlow.*|Source.*|Launch Stats|HLO.*": (
            "says again what the streams say"
        )
    },
)
COUNTERS: Final = "_counters_"
"""The line of a GPU with samples of its counters. Source: openxla/xla, cupti_pm_sampler_impl.cc."""
SAMPLES: Final = {"counter": pl.String, "device": pl.Int32, "ts_ns": pl.Int64, "value": pl.Float64}
HIDDEN: Final = "CUDA graph recorded as a whole: its kernels are not in the file"
JSON_ONLY: Final = "kernels without HLO: modules are in the xplane.pb of the session only"
NO_MODULE: Final = "kernels without HLO: their module is not in the file"
NOT_FOUND: Final = "kernels without HLO: no instruction fits"
CALL_COLUMNS: Final = ("call_id", "op", "input_dims", "input_strides", "input_dtypes", "scalars")
MEGAHERTZ_KHZ: Final = 1000
SLICE_ROWS: Final = 1 << 14
NUMBER: Final = re.compile(r"(\.\d+)+$")
"""What tells instructions of one kind apart: `.14` of `loop_add_fusion.14`."""
MESSAGES: Final = ("errors", "warnings")
ENDINGS: Final = (".pb", ".xplane", ".trace")


def convert(unit: Unit, folder: Path, options: Options, progress: Progress | None = None) -> Manifest:
    """Convert the profile. Raises UnreadableTraceError for damaged files, NotATraceError for one without GPU work."""
    one = Source(unit.files[0])
    data = text_of(one)
    if progress is not None:
        progress(one.read_bytes, one.stored_bytes)
    as_json = data.lstrip()[:1] == b"{"
    recording = events.read(data, one.label) if as_json else xspace.read(data)
    output = Output(folder, [one])
    output.report = recording.report
    conversion = Conversion(recording, output)
    conversion.run(one.label)
    name = one.stem
    for ending in ENDINGS:
        name = name.removesuffix(ending)
    facts = recording.facts
    return output.finish(
        options,
        name,
        [File(one, "trace", conversion.read, output.report)],
        kind="timeline",
        source="xla",
        tool="jax.profiler" if "jax_version" in facts else "XLA profiler",
        framework_version=facts.get("jax_version"),
        era=recording.era,
        clock="epoch" if recording.base_ns is not None else "capture",
        base_ns=recording.base_ns,
        host=", ".join(facts.get("hostnames", ())) or None,
        has_shapes=conversion.described > 0,
        has_stacks="python_function" in conversion.host.ranges["kind"],
        metadata=json.dumps(_kept(facts, options), sort_keys=True, default=str),
        reader_version=1,
    )


def _kept(facts: dict[str, Any], options: Options) -> dict[str, Any]:
    """The facts of the profile; by default without hosts, which have a column, and only the number of messages."""
    if options.keep_environment:
        return facts
    counted: dict[str, Any] = {name: len(facts[name]) for name in MESSAGES if name in facts}
    return {**public({key: value for key, value in facts.items() if key != "hostnames"}), **counted}


@dataclasses.dataclass(slots=True)
class Conversion:
    """One profile on its way into `output`. `read` counts events, `described` the launches with an instruction."""

    recording: Recording
    output: Output
    read: int = 0
    described: int = 0
    host: Host = dataclasses.field(init=False)
    _numbers: dict[tuple[str, int], int] = dataclasses.field(init=False)
    _readings: list[tuple[str, int, int | None, float | None]] = dataclasses.field(default_factory=list)
    _signer: Signer = dataclasses.field(default_factory=Signer)
    _calls: dict[str, CallRow] = dataclasses.field(default_factory=dict)
    _shared: dict[tuple[int, int, str], dict[str, str | None]] = dataclasses.field(default_factory=dict)

    def run(self, label: str) -> None:
        """Write all rows."""
        report = self.output.report
        named = Counter(plane.name for plane in self.recording.planes)
        PLANES.account({name: n for name, n in named.items() if PLANES.reason(name) != "read"}, report)
        self._numbers = self.recording.numbers()
        moved = sum(number != device for (_, number), device in self._numbers.items())
        report.add("note", "GPUs with another number: several have the same one, or none can have it", moved)
        activities = self._activities()
        if activities.is_empty():
            raise _refused(self.recording, label)
        self.host = Host(self.recording.hosts, self.output, self._numbers)
        launches = activities.sort("start_ns", nulls_last=True, maintain_order=True)
        self.output.write("devices", _devices(self.recording.gpus, self._numbers))
        self._write(self._linked(self._instructed(launches)))
        self.read += self.host.events
        report.add("read", "events", self.read)

    def _activities(self) -> pl.DataFrame:
        """Rows of the streams of all GPUs; other lines repeat them."""
        frames = [rows.frame([]).with_columns(host=pl.lit(""))]
        stats: Counter[str] = Counter()
        lines: Counter[str] = Counter()
        for plane in self.recording.gpus:
            device, host = self._numbers[plane.host, plane.device or 0], pl.lit(plane.host).alias("host")
            for line in plane.lines:
                self.read += len(line.events)
                if line.name == COUNTERS:
                    self._readings += _readings(line, device)
                    continue
                if line.stream is None:
                    lines[line.name] += len(line.events)
                    continue
                events_ = iter(line.events)
                while some := list(itertools.islice(events_, SLICE_ROWS)):
                    stats.update(key for event in some for key in event.stats)
                    found = [rows.row(event, device, line.stream) for event in some]
                    frames.append(rows.frame(found).with_columns(host))
        self._write_readings()
        rows.STATS.account(stats, self.output.report)
        LINES.account(lines, self.output.report)
        return pl.concat(frames)

    def _write_readings(self) -> None:
        samples = frame_of(self._readings, SAMPLES)
        self.output.write("samples", samples)
        self.output.report.add("stored", "samples over time", samples.height)

    def _instructed(self, launches: pl.DataFrame) -> pl.DataFrame:
        """`launches` with their operation, `module` (the path of the traced function) and Python line."""
        calls: list[dict[str, str | None]] = [{} for _ in range(launches.height)]
        for keys, part in launches.with_row_index("place").group_by("device", "program", "hlo_module"):
            module = self.recording.module(keys[1], keys[2])
            for found in () if module is None else Mapper(module).found(_launches(part)):
                calls[found.place] = self._call(module, found)  # type: ignore[arg-type]
            self._unknown(part, module, calls)
        frame = pl.DataFrame(calls, schema=dict.fromkeys(CALLED, pl.String))
        self.described = frame["call_id"].count()
        instructed = launches.hstack(frame)
        path = pl.coalesce("traced", "op_name", "hlo_module")
        return instructed.with_columns(module=path, python_line=pl.coalesce("line", "python_line"))

    def _call(self, module: Module, found: Found) -> dict[str, str | None]:
        """The operation of an instruction, as columns; launches of one instruction share it."""
        key = (id(module), found.instruction.number, found.method)
        if key not in self._shared:
            known = self._described(module, found.instruction)
            call = {name: known.call.get(name) for name in CALL_COLUMNS}
            self._shared[key] = {**call, "traced": known.op_name, "line": known.source, "link_method": found.method}
            if known.call:
                self._calls[known.call["call_id"] or ""] = known.call
        return self._shared[key]

    def _described(self, module: Module, instruction: Instruction) -> Described:
        try:
            return module.described(instruction)
        except WireError as error:
            self.output.report.add("lost", "HLO instruction: damaged", 1, str(error))
            return Described({}, None, None)

    def _unknown(self, part: pl.DataFrame, module: Module | None, calls: list[dict[str, str | None]]) -> None:
        """Name the operation of kernels without an instruction by `hlo_op`, and count them."""
        without = NO_MODULE if self.recording.modules else JSON_ONLY
        for place, kind, hlo_op, buffered in part.select(
            "place", "kind", "hlo_op", pl.col("graph_id").is_not_null()
        ).iter_rows():
            if kind == "kernel" and not calls[place]:
                self.output.report.add("note", without if module is None else NOT_FOUND, 1)
                if hlo_op and not buffered:
                    calls[place] = {"op": NAMESPACE + NUMBER.sub("", hlo_op), "link_method": BY_OP}

    def _linked(self, launches: pl.DataFrame) -> pl.DataFrame:
        """`launches` with their driver call, and the annotations around it."""
        machines = {plane.name: plane.host for plane in self.recording.hosts}
        calls = (
            self.host.calls.rename({"python_line": "frame"})
            .with_columns(host=pl.col("process").replace_strict(machines, default=""))
            .unique(["host", "correlation_id"], keep="first")
            .select(
                "host",
                "correlation_id",
                "api_index",
                "range_id",
                "frame",
                api_call="name",
                launch_start_ns="start_ns",
                launch_duration_ns="duration_ns",
            )
        )
        ranges = self.host.ranges.select("range_id", "phase", range_path="path")
        linked = launches.join(calls, on=["host", "correlation_id"], how="left", maintain_order="left")
        linked = linked.join(ranges, on="range_id", how="left", maintain_order="left")
        status = (
            pl.when(pl.col("call_id").is_not_null())
            .then(pl.lit("linked"))
            .when(pl.col("graph_id").is_not_null() | (pl.col("kind") == "graph"))
            .then(pl.lit("graph"))
            .when(pl.col("api_index").is_not_null())
            .then(pl.lit("no_op"))
            .otherwise(pl.lit("no_launch"))
        )
        line = pl.coalesce("python_line", pl.col("frame").str.strip_prefix("$"))
        return linked.with_columns(launch_status=status, python_line=line)

    def _write(self, launches: pl.DataFrame) -> None:
        output = self.output
        archs = dict(_devices(self.recording.gpus, self._numbers).select("device", "arch").iter_rows())
        signed = self._with_signatures(with_occupancy(launches, archs))
        signed = signed.with_columns(
            launch_index=pl.int_range(pl.len(), dtype=pl.Int64),
            timing=pl.lit("timeline"),
            end_ns=pl.col("start_ns") + pl.col("duration_ns"),
        )
        output.saw(signed)
        output.launches = signed.height
        output.write("launches", signed.drop(*UNSTORED))
        for kind, n in signed.group_by("kind", maintain_order=True).len().iter_rows():
            output.report.add("stored", f"{kind} launches", n)
        output.report.add("note", HIDDEN, signed.filter(kind="graph").height)
        for method, n in signed.drop_nulls("link_method").group_by("link_method").len().sort("link_method").iter_rows():
            output.report.add("note", f"HLO by {method}", n)

    def _with_signatures(self, launches: pl.DataFrame) -> pl.DataFrame:
        """`launches` with signatures that hold their call; writes these, the calls and the names."""
        signed = self._signer.sign(launches).rename({"signature_id": "bare"})
        pairs = signed.select("bare", *CALL_COLUMNS).unique(maintain_order=True)
        facts = self._signer.signatures().rename({"signature_id": "bare"})
        whole = pairs.join(facts, on="bare", how="left", maintain_order="left")
        ids = [_identity(*row) for row in whole.select("bare", "call_id", "op").iter_rows()]
        whole = whole.with_columns(signature_id=pl.Series(ids, dtype=pl.String))
        spool = self.output.spool
        spool.write("signatures", whole.drop("bare"))
        spool.write("kernel_names", self._signer.names())
        if self._calls:
            spool.write("op_calls", pl.DataFrame(list(self._calls.values()), infer_schema_length=None))
        known = whole.select("bare", "call_id", "op", "signature_id")
        return signed.join(known, on=["bare", "call_id", "op"], how="left", nulls_equal=True, maintain_order="left")


CALLED: Final = (*CALL_COLUMNS, "traced", "line", "link_method")
UNSTORED: Final = (
    *CALLED[:-1],
    *(*AXES, "bare", "name", "bytes", "copy_kind", "hlo_op", "hlo_module", "op_name", "program", "frame", "host"),
)


def _readings(line: Line, device: int) -> Iterator[tuple[str, int, int | None, float | None]]:
    """Counters of a GPU sampled over time: each event has the value under its own name."""
    for event in line.events:
        yield event.name, device, times.fitting(event.start_ns), rows.real(event.stats.get(event.name))


def _identity(bare: str, call: str | None, op: str | None) -> str:
    """The id of a signature with its call; of one with only a name of an operation, with that."""
    return bare if call is None and op is None else content_id("s1", bare, call or op)


def _launches(part: pl.DataFrame) -> Iterator[Launch]:
    rows_ = part.sort("place").select("place", "kind", "name", "hlo_op", "correlation_id").iter_rows()
    return (Launch(*row) for row in rows_)


def _devices(planes: list[Plane], numbers: Mapping[tuple[str, int], int]) -> pl.DataFrame:
    """Rows of `devices`, as far as the file describes GPUs."""
    found = [_device(plane, numbers[plane.host, plane.device or 0]) for plane in planes if plane.stats]
    kinds = {"device": pl.Int32, "arch": pl.String}
    return pl.DataFrame(found, schema_overrides=kinds) if found else nullable(pl.DataFrame(), kinds)


def _device(plane: Plane, number: int) -> dict[str, Any]:
    stats = plane.stats
    name, vendor = (str(stats[key]) if key in stats else None for key in ("gpu_device_name", "device_vendor"))
    vendor = "NVIDIA" if (vendor or "").lower() == "nvidia" else vendor
    major, minor, clock = (
        rows.integer(stats.get(f"{key}")) for key in ("compute_cap_major", "compute_cap_minor", "clock_rate")
    )
    return {
        "device": number,
        "vendor": vendor,
        "name": name,
        "arch": gpus.arch_of(vendor, name or "", major, minor),
        "multiprocessors": rows.integer(stats.get("core_count")),
        "memory_bytes": rows.integer(stats.get("memory_size")),
        "clock_mhz": None if clock is None else clock / MEGAHERTZ_KHZ,
        "properties": json.dumps(public(stats), default=str),
    }


def _held(plane: Plane) -> str:
    """The name of a plane; of a GPU with those of its lines, none of which is a stream."""
    lines = ", ".join(dict.fromkeys(line.name for line in plane.lines))
    return f"{plane.name} with {lines}" if plane.device is not None else plane.name


def _refused(recording: Recording, label: str) -> TraceError:
    held = ", ".join(_held(plane) for plane in recording.planes if plane.lines)
    damaged = "; ".join(
        f"{reason} ({n})" for (outcome, reason), (n, _) in recording.report.counts.items() if outcome == "lost"
    )
    if damaged and not held:
        return UnreadableTraceError(
            f"{label}: cut or damaged, or no profile of XLA: nothing in it can be read. Copy it again."
        )
    lost = f"; lost: {damaged}" if damaged else ""
    message = f"{label}: a profile of XLA without GPU work (it holds {held or 'nothing'}{lost})."
    return NotATraceError(f"{message} Profile on a GPU: `with jax.profiler.trace(FOLDER): …`, and wait for the result.")
