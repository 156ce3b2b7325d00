"""Parts of packets: arguments of slices, flows, stages and counters of GPUs.

Source: google/perfetto, protos/perfetto/trace: debug_annotation.proto (name_iid 1, bool 2, uint 3, int 4, double 5,
string 6, pointer 7, nested_value 8, legacy_json 9, name 10, dict_entries 11, array_values 12, string_value_iid 17),
gpu_render_stage_event.proto (duration 2, hw_queue_id 3, stage_id 4, context 5, extra_data 6, submission_id 10,
gpu_id 11, hw_queue_iid 13, stage_iid 14, name 17, name_iid 20, launch 21), gpu_counter_event.proto
(counter_descriptor 1, counters 2, gpu_id 3), counter_descriptor.proto.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, Final

from kerneldb.ingest.output import Report
from kerneldb.ingest.perfetto.model import STAGE, Reading, Sequence, Slice
from kerneldb.ingest.wire import Message, WireError, double_of, fields, signed, text_of

DEEPEST: Final = 8
UNITS: Final = {1: "ns", 3: "byte"}
STRING_VALUES, SPECIFICATIONS = 29, 24
NAME_ID, NESTED, NAME, STRING_ID = 1, 8, 10, 17
ENTRIES: Final = (11, 12)
PLAIN: Final[dict[int, tuple[type, Callable[[Any], Any]]]] = {
    **dict.fromkeys((2, 3, 7), (int, int)),
    4: (int, signed),
    5: (int, double_of),
    **dict.fromkeys((6, 9), (bytes, text_of)),
}
"""Fields with a plain value → the type on the wire, and how it is decoded."""
MISSING: Final = "argument without a name, or with a text that is not in the file"
WIDTH: Final = 8
COUNTERS: Final = -1
"""Where a sequence keeps the names of GPU counters: no field has this number."""


def unit(counter: Message | None) -> str | None:
    """The unit of a counter: one that Perfetto numbers, else its name."""
    return None if counter is None else UNITS.get(counter.number(3) or 0) or counter.text(6)


def flow_ids(event: Message, field: int) -> Iterator[int]:
    """Numbers of flows, one by one or packed as fixed64. Raises WireError where they are damaged."""
    for value in event.values(field):
        if isinstance(value, int):
            yield value
        elif len(value) % WIDTH == 0:
            yield from (int.from_bytes(value[at : at + WIDTH], "little") for at in range(0, len(value), WIDTH))


def arguments(event: Message, sequence: Sequence, report: Report) -> dict[str, Any]:
    """The debug annotations of an event by name."""
    found: dict[str, Any] = {}
    for part in event.parts(4):
        name, value = _named(part, sequence, 0)
        if name is None or value is None:
            report.add("lost", MISSING, 1)
        else:
            found[name] = value
    return found


def _named(annotation: bytes, sequence: Sequence, depth: int) -> tuple[str | None, Any]:
    """Name and value of an annotation: a number, text, list or dict; None for what is absent or nests too deep."""
    name, value, entries = None, None, list[bytes]()
    for number, raw in fields(annotation):
        if number == NAME:
            name = text_of(raw)
        elif number == NAME_ID:
            name = sequence.text(3, raw) if isinstance(raw, int) else None
        elif number in PLAIN and isinstance(raw, PLAIN[number][0]):
            value = PLAIN[number][1](raw)
        elif number == STRING_ID and isinstance(raw, int):
            value = sequence.text(STRING_VALUES, raw)
        elif isinstance(raw, bytes) and number == NESTED:
            value = _nested(Message(raw), 0)
        elif isinstance(raw, bytes) and number in ENTRIES:
            entries.append(raw)
    if entries and depth < DEEPEST:
        inner = [_named(entry, sequence, depth + 1) for entry in entries]
        value = [one for _, one in inner] if None in [key for key, _ in inner] else dict(inner)
    return name, value


def _nested(value: Message, depth: int) -> Any:
    """A NestedValue: dict_keys 2, dict_values 3, array_values 4, int 5, double 6, bool 7, string 8."""
    if depth >= DEEPEST:
        return None
    if value.parts(2):
        keys = [key.decode(errors="replace") for key in value.parts(2)]
        return {key: _nested(Message(part), depth + 1) for key, part in zip(keys, value.parts(3), strict=False)}
    if value.parts(4):
        return [_nested(Message(part), depth + 1) for part in value.parts(4)]
    double = value.number(6)
    plain = (value.text(8), value.signed(5), value.number(7), None if double is None else double_of(double))
    return next((one for one in plain if one is not None), None)


def stage(event: Message, sequence: Sequence, at: int | None) -> Slice:
    """A stage of a GPU as a slice: its category is STAGE, and its arguments are the fields of the event."""
    own, queue = (event.number(field) for field in (14, 13))
    name = event.text(17) or sequence.text(2, event.number(20)) or sequence.text(SPECIFICATIONS, own)
    known: dict[str, Any] = {
        "gpu_id": event.signed(11),
        "queue": queue if queue is not None else event.signed(3),
        "queue_name": sequence.text(SPECIFICATIONS, queue),
        "context": event.number(5),
        "submission_id": event.number(10),
        "kernel_iid": event.number(19),
    }
    extra = [Message(part) for part in event.parts(6)]
    known |= {one.text(1) or "": one.text(2) for one in extra}
    launch = event.message(21)
    if launch is not None:
        known |= {"grid": _dims(launch.message(1)), "block": _dims(launch.message(2))}
    duration = event.number(2)
    end = None if at is None else at + signed(duration or 0)
    return Slice(
        0, (STAGE,), name or "", at, end, {key: value for key, value in known.items() if value is not None}, ()
    )


def _dims(dims: Message | None) -> list[int] | None:
    sizes = [dims.number(axis) for axis in (1, 2, 3)] if dims is not None else [None]
    return None if None in sizes else [size for size in sizes if size is not None]


def gpu_counters(event: Message, sequence: Sequence, at: int | None) -> list[Reading]:
    """The readings of a GpuCounterEvent; its descriptor names counters by number for all packets of the writer."""
    descriptor = event.message(1)
    for part in descriptor.parts(1) if descriptor is not None else ():
        spec = Message(part)
        sequence.interned[COUNTERS][spec.number(1) or 0] = spec
    readings = []
    for part in event.parts(2):
        counter = Message(part)
        number, double = counter.number(1) or 0, counter.number(3)
        value = counter.signed(2) if double is None else double_of(double)
        if value is None:
            message = f"counter {number} without a value"
            raise WireError(message)
        name = sequence.text(COUNTERS, number) or f"counter {number}"
        readings.append(Reading(name, None, event.signed(3), at, float(value)))
    return readings
