"""Packets of a Perfetto trace, decoded: slices of tracks, counters, and stages of GPUs, on one clock.

Source: google/perfetto, protos/perfetto/trace. Trace: packet 1. TracePacket: clock_snapshot 6, timestamp 8,
trusted_packet_sequence_id 10, track_event 11, interned_data 12, sequence_flags 13 (1: state cleared),
incremental_state_cleared 41, compressed_packets 50 (zlib), gpu_counter_event 52, gpu_render_stage_event 53,
timestamp_clock_id 58, trace_packet_defaults 59 (timestamp_clock_id 58, track_event_defaults 11), track_descriptor 60.
"""

from __future__ import annotations

import zlib
from collections import Counter, defaultdict
from typing import Final

from kerneldb.ingest.ledger import Ledger
from kerneldb.ingest.output import Report
from kerneldb.ingest.perfetto import parts
from kerneldb.ingest.perfetto.model import (
    BOOTTIME,
    HOST_ARGUMENTS,
    KINDS,
    Clock,
    Reading,
    Sequence,
    Slice,
    Trace,
    Track,
)
from kerneldb.ingest.wire import Message, WireError, double_of, fields

BEGIN, END, INSTANT, COUNTER = 1, 2, 3, 4
CLEARED: Final = 1
OWN_CLOCKS: Final = range(64, 128)
"""Clocks of one sequence of packets only."""
LARGEST_INFLATED: Final = 64 << 20
EVENT, INTERNED, CLOCKS, COMPRESSED, GPU_COUNTER, STAGE, DESCRIPTOR = 11, 12, 6, 50, 52, 53, 60
NAMES: Final = {
    **{
        1: "ftrace_events",
        2: "process_tree",
        4: "inode_file_map",
        5: "chrome_events",
        7: "sys_stats",
        9: "process_stats",
    },
    **{33: "trace_config", 34: "ftrace_stats", 35: "trace_stats", 36: "synchronization_marker", 37: "profile_packet"},
    **{38: "battery", 39: "android_log", 40: "power_rails", 43: "process_descriptor", 44: "thread_descriptor"},
    **{
        45: "system_info",
        46: "trigger",
        47: "packages_list",
        48: "chrome_benchmark_metadata",
        49: "perfetto_metatrace",
    },
    **{51: "chrome_metadata", 54: "streaming_profile_packet", 56: "heap_graph", 57: "graphics_frame_event"},
    **{61: "module_symbols", 62: "vulkan_memory_event", 63: "gpu_log", 64: "deobfuscation_mapping", 66: "perf_sample"},
    **{65: "vulkan_api_event", 67: "cpu_info", 68: "smaps_packet", 69: "service_event", 70: "initial_display_state"},
    **{
        71: "gpu_mem_total_event",
        72: "extension_descriptor",
        73: "memory_tracker_snapshot",
        76: "frame_timeline_event",
    },
    **{77: "android_energy_estimation_breakdown", 78: "ui_state", 82: "translation_table", 84: "statsd_atom"},
    **{86: "android_system_property", 88: "network_packet", 89: "trace_uuid", 90: "track_event_range_of_interest"},
    **{91: "entity_state_residency", 95: "etw_events", 109: "chrome_trigger", 126: "trace_attributes", 128: "gpu_info"},
    **{124: "trace_provenance", 129: "generic_gpu_frequency_event", 133: "zstd_compressed_packets"},
}
"""Fields of TracePacket that hold data of other kinds."""
HEADERS: Final = frozenset((3, 8, 10, 13, 41, 42, 58, 59, 79, 80, 87, 98, 102, 103))
READ: Final = frozenset((EVENT, INTERNED, CLOCKS, COMPRESSED, GPU_COUNTER, STAGE, DESCRIPTOR))
PACKETS: Final = Ledger(
    "packets",
    (),
    {
        "ftrace_.*|sys_stats|process_.*|perf_sample|etw_events|android_.*|heap_graph|.*profile_packet": "not GPU work",
        "chrome_.*|battery|power_rails|statsd_atom|smaps_packet|network_packet|packages_list": "not GPU work",
        "frame_timeline_event|graphics_frame_event|vulkan_.*|gpu_(log|info|mem_total_event)": "not GPU work",
        "generic_gpu_frequency_event|memory_tracker_snapshot|streaming_.*|inode_file_map": "not GPU work",
        "trace_\\w+|synchronization_marker|system_info|cpu_info|service_event|ui_state|trigger": "about the recording",
        "extension_descriptor|translation_table|perfetto_metatrace": "about the recording",
        "track_event_range_of_interest": "about the recording",
        "deobfuscation_mapping|module_symbols|initial_display_state|entity_state_residency": "not GPU work",
        "thread_descriptor": "not GPU work",
        "packed packets in packed packets": "no tool writes them",
        "zstd_compressed_packets": "packed with zstd: record without compression",
    },
)

EVENT_FIELDS: Final = frozenset((3, 4, 9, 10, 11, 22, 23, 30, 36, 42, 44, 47, 48))
"""Fields of TrackEvent that are read."""
EVENT_NAMES: Final = {
    **{1: "timestamp_delta_us", 16: "timestamp_absolute_us", 2: "thread_time_delta_us", 17: "thread_time_absolute_us"},
    **{8: "thread_instruction_count_delta", 20: "thread_instruction_count_absolute", 12: "extra_counter_values"},
    **{31: "extra_counter_track_uuids", 45: "extra_double_counter_track_uuids", 46: "extra_double_counter_values"},
    **{5: "task_execution", 6: "legacy_event", 21: "log_message", 50: "screenshot"},
    **dict.fromkeys((*range(24, 30), 32, 35, 38, 39, 40, 41, 43, 49), "chrome"),
    **{33: "source_location", 34: "source_location_iid", 55: "callstack", 56: "callstack_iid"},
    **dict.fromkeys((52, 53, 54), "correlation_id"),
}
FIELDS: Final = Ledger(
    "field of events",
    (),
    {
        "extra_.*|thread_.*": "values of counters at the begin of a slice; those of events of their own are read",
        "callstack.*|source_location.*": "call stacks of the host (not supported)",
        "timestamp_.*": "times of old versions; those of packets are read",
        "task_execution|log_message|legacy_event|screenshot|chrome|correlation_id": "of programs that profile no GPU",
    },
    outcome="unread",
)
TRACK_NAMES: Final = (2, 10, 13)
"""Fields of TrackDescriptor: name, static_name, atrace_name."""


class Decoder:
    """Decodes packets one after another into `trace`."""

    def __init__(self) -> None:
        self.trace = Trace(Report())
        self._sequences: dict[int, Sequence] = defaultdict(Sequence)
        self._open: dict[int, list[Slice]] = defaultdict(list)
        self._clocks: dict[int, Clock] = {}
        self._others: Counter[str] = Counter()
        self._totals: dict[int, float] = {}
        self._fields: Counter[str] = Counter()
        self._empty: Counter[int] = Counter()

    def read(self, data: bytes) -> Trace:
        """Decode a whole file. A cut end is reported; a damaged packet is counted and left out."""
        report = self.trace.report
        try:
            self._packets(data, 0)
        except WireError as error:
            report.add("truncated", "the last packet is cut or damaged", 1, str(error))
        for stack in self._open.values():
            report.add("note", "slices that the recording cut", len(stack))
            self.trace.slices += stack
        self.trace.packets += self._empty.pop(1, 0)
        self._others.update({f"field {number} of the trace": n for number, n in self._empty.items()})
        PACKETS.account(self._others, report)
        FIELDS.account(self._fields, report)
        return self.trace

    def _packets(self, data: bytes, depth: int) -> None:
        for number, value in fields(data, self._empty):
            if number != 1 or not isinstance(value, bytes):
                self._others[f"field {number} of the trace"] += 1
                continue
            self.trace.packets += 1
            if not value:
                continue
            try:
                self._packet(Message(value), depth)
            except WireError as error:
                self.trace.report.add("lost", "packet: damaged", 1, str(error))

    def _packet(self, packet: Message, depth: int) -> None:
        sequence = self._sequence(packet)
        for number in packet:
            if number not in HEADERS and number not in READ:
                self._others[NAMES.get(number, f"field {number}")] += 1
        for part in packet.parts(CLOCKS):
            self._snapshot(Message(part), sequence)
        for part in packet.parts(COMPRESSED) if depth == 0 else ():
            self._packets(_inflated(part), depth + 1)
        for part in packet.parts(DESCRIPTOR):
            self._describe(Message(part))
        if depth and COMPRESSED in packet:
            self._others["packed packets in packed packets"] += len(packet.parts(COMPRESSED))
        own = next((field for field in (EVENT, STAGE, GPU_COUNTER) if field in packet), None)
        if own is None:
            return
        at = self._time(packet, sequence)
        for part in packet.parts(own):
            if own == EVENT:
                self._event(Message(part), sequence, at)
            elif own == STAGE:
                self.trace.stages.append(parts.stage(Message(part), sequence, at))
            else:
                self.trace.readings += parts.gpu_counters(Message(part), sequence, at)

    def _sequence(self, packet: Message) -> Sequence:
        number = packet.number(10) or 0
        if (packet.number(13) or 0) & CLEARED or packet.number(41):
            self._sequences.pop(number, None)
        sequence = self._sequences[number]
        for part in packet.parts(59):
            defaults = Message(part)
            sequence.clock = defaults.number(58) or sequence.clock
            event = defaults.message(EVENT)
            sequence.track = event.number(11) if event is not None else sequence.track
        for part in packet.parts(INTERNED):
            _intern(Message(part), sequence)
        return sequence

    def _snapshot(self, snapshot: Message, sequence: Sequence) -> None:
        """Pairs of times on several clocks at one moment (Clock: id 1, timestamp 2, is_incremental 3, unit 4)."""
        clocks = [Message(part) for part in snapshot.parts(1)]
        base = next((one.number(2) for one in clocks if one.number(1) == BOOTTIME), None)
        for one in clocks:
            number, at = one.number(1) or 0, one.number(2) or 0
            clock = Clock(at, base, max(one.number(4) or 1, 1), bool(one.number(3)))
            if number in OWN_CLOCKS:
                sequence.clocks[number] = clock
            else:
                self._clocks.setdefault(number, clock)

    def _time(self, packet: Message, sequence: Sequence) -> int | None:
        """The time of a packet in ns of the boot clock, as far as the file relates its clock to that."""
        at, number = packet.number(8), packet.number(58) or sequence.clock
        if at is None or number == BOOTTIME:
            return at
        clock = sequence.clocks.get(number) or self._clocks.get(number)
        if clock is None:
            self.trace.report.add("note", f"times on clock {number}, which the file relates to no other", 1)
            return None if number in OWN_CLOCKS else at
        return clock.boottime(at)

    def _describe(self, track: Message) -> None:
        number = track.number(1) or 0
        process, thread, counter = track.message(3), track.message(4), track.message(8)
        pid = thread.signed(1) if thread is not None else process.signed(1) if process is not None else None
        tid = thread.signed(2) if thread is not None else None
        named = (
            *(track.text(field) for field in TRACK_NAMES),
            *(thread and thread.text(5), process and process.text(6), counter and counter.text(6)),
        )
        self.trace.tracks[number] = Track(
            next((name for name in named if name), None),
            track.number(5),
            None if pid is None else str(pid),
            None if tid is None else str(tid),
            parts.unit(counter),
            max((counter.signed(4) or 1) if counter is not None else 1, 1),
            bool(counter is not None and counter.number(5)),
        )

    def _event(self, event: Message, sequence: Sequence, at: int | None) -> None:
        self._fields.update(EVENT_NAMES.get(field, str(field)) for field in event.beyond(EVENT_FIELDS))
        kind = event.number(9) or 0
        track = event.number(11)
        place = track if track is not None else sequence.track or 0
        if kind == BEGIN:
            self._open[place].append(self._slice(event, sequence, place, at, None))
        elif kind == END:
            self._end(event, sequence, place, at)
        elif kind == INSTANT:
            self.trace.slices.append(self._slice(event, sequence, place, at, at))
        elif kind == COUNTER:
            self._count(event, place, at)
        else:
            self._others["track_event of a legacy phase" if 6 in event else "track_event without a type"] += 1  # noqa: PLR2004

    def _end(self, event: Message, sequence: Sequence, track: int, at: int | None) -> None:
        if not self._open[track]:
            self.trace.report.add("lost", "end of a slice that never began", 1)
            return
        begun = self._open[track].pop()
        more = parts.arguments(event, sequence, self.trace.report)
        self.trace.slices.append(begun._replace(end_ns=at, arguments={**begun.arguments, **more}))

    def _slice(self, event: Message, sequence: Sequence, track: int, start: int | None, end: int | None) -> Slice:
        categories = [name.decode(errors="replace") for name in event.parts(22)]
        categories += [sequence.text(1, number) or "" for number in event.numbers(3)]
        name = event.text(23)
        if name is None and 10 in event:  # noqa: PLR2004
            name = sequence.text(2, event.number(10))
            if name is None:
                self.trace.report.add("lost", "name of a slice that is not in the file", 1)
        flows = (number for field in (47, 36, 48, 42) for number in parts.flow_ids(event, field))
        arguments = parts.arguments(event, sequence, self.trace.report)
        if KINDS.keys().isdisjoint(categories):
            arguments = {key: arguments[key] for key in HOST_ARGUMENTS if key in arguments}
        return Slice(track, tuple(categories), name or "", start, end, arguments, tuple(flows))

    def _count(self, event: Message, track: int, at: int | None) -> None:
        known = self.trace.tracks.get(track)
        fixed = event.number(44)
        value = event.signed(30) if fixed is None else double_of(fixed)
        if value is None:
            return
        if known is not None and known.incremental:
            value += self._totals.get(track, 0)
            self._totals[track] = value
        name = known.name if known is not None else None
        factor = known.factor if known is not None else 1
        self.trace.readings.append(Reading(name or f"track {track}", track, None, at, float(value) * factor))


def _intern(data: Message, sequence: Sequence) -> None:
    for field in data:
        for part in data.parts(field):
            entry = Message(part)
            number = entry.number(1)
            if number is not None:
                sequence.interned[field][number] = entry


def _inflated(data: bytes) -> bytes:
    """Packets that were packed with zlib. Raises WireError where they are damaged or beyond measure."""
    inflater = zlib.decompressobj()
    try:
        found = inflater.decompress(data, LARGEST_INFLATED)
    except zlib.error as error:
        message = f"packed packets: {error}"
        raise WireError(message) from error
    if inflater.unconsumed_tail:
        message = f"packed packets of more than {LARGEST_INFLATED:,} bytes"
        raise WireError(message)
    return found
