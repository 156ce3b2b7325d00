"""`*.trace.json.gz`, the Chrome trace that jax.profiler and TensorBoard write of a profile.

Source: openxla/xla, xla/tsl/profiler/convert/trace_events_to_json.cc: processes are planes, threads are lines, all
values of `args` are texts. It leaves out the modules, the properties of GPUs, and events beyond a million.
"""

from __future__ import annotations

import dataclasses
import json
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, Final

import msgspec

from kerneldb import times
from kerneldb.errors import UnreadableTraceError
from kerneldb.ingest import nested
from kerneldb.ingest.ledger import Ledger
from kerneldb.ingest.xla.recording import Event, Line, Plane, Recording

MOST_EVENTS: Final = 1_000_000
MICROSECOND_NS: Final = 1000
TOP: Final = Ledger("entry", ("traceEvents", "displayTimeUnit", "metadata"), {})
NAMES: Final = ("process_name", "thread_name")
KEYS: Final = Ledger("key of events", ("ph", "pid", "tid", "ts", "dur", "name", "args"), {}, "unread")
PHASES: Final = Ledger("events of phase", ("X", "M"), {"": "without content"})
CUT: Final = "1,000,000 events: the profiler writes no more into JSON; give the xplane.pb of the session"


class Row(msgspec.Struct):
    """An event, its arguments not yet decoded."""

    ph: Any = ""
    pid: Any = None
    tid: Any = None
    ts: Any = None
    dur: Any = None
    name: Any = ""
    args: msgspec.Raw = msgspec.Raw(b"{}")


class Whole(Row, forbid_unknown_fields=True):
    """An event of which everything is known."""


class WholeDocument(msgspec.Struct):
    """The file, where everything of its events is known."""

    traceEvents: list[Whole]  # noqa: N815 (as the format spells it)


class Document(msgspec.Struct):
    """The file."""

    traceEvents: list[Row]  # noqa: N815


@dataclasses.dataclass(frozen=True, slots=True)
class Rows:
    """The events of a thread."""

    rows: list[Row]

    def __len__(self) -> int:
        """How many there are."""
        return len(self.rows)

    def __iter__(self) -> Iterator[Event]:
        """Decode them, at each pass anew."""
        for row in self.rows:
            yield Event(str(row.name), _ns(row.ts), _ns(row.dur), arguments(row))


def read(text: bytes, label: str) -> Recording:
    """Decode a whole file. Raises UnreadableTraceError for cut or damaged JSON."""
    try:
        top = msgspec.json.decode(text, type=dict[str, msgspec.Raw])
        rows, keys = _rows(text, top)
    except RecursionError as error:
        raise nested.error(text) from error
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        message = (
            f"{label}: the JSON of jax.profiler is cut or damaged ({error}). Record again, or give the xplane.pb "
            "of the session, which lies beside it."
        )
        raise UnreadableTraceError(message) from error
    recording = Recording(list(_planes(rows)), "trace.json")
    hosts = dict.fromkeys(plane.host for plane in recording.planes if plane.host)
    if hosts:
        recording.facts["hostnames"] = list(hosts)
    TOP.account(dict.fromkeys(top, 1), recording.report)
    KEYS.account(keys, recording.report)
    PHASES.account(Counter(str(row.ph) for row in rows), recording.report)
    if len(rows) >= MOST_EVENTS:
        recording.report.add("truncated", CUT, 1)
    return recording


def _rows(text: bytes, top: Mapping[str, msgspec.Raw]) -> tuple[Sequence[Row], Counter[str]]:
    """The events, and how many have each key where some have others than those that are known."""
    try:
        return msgspec.json.decode(text, type=WholeDocument).traceEvents, Counter()
    except msgspec.ValidationError:
        rows = msgspec.json.decode(text, type=Document).traceEvents
        listed = msgspec.json.decode(top["traceEvents"], type=list[dict[str, msgspec.Raw]])
        return rows, Counter(key for event in listed for key in event)


def _planes(rows: Iterable[Row]) -> Iterator[Plane]:
    names: dict[tuple[str, str | None], str] = {}
    threads: dict[str, dict[str, list[Row]]] = {}
    for row in rows:
        process, thread = str(row.pid), str(row.tid)
        if row.ph == "X":
            threads.setdefault(process, {}).setdefault(thread, []).append(row)
        elif row.ph == "M" and row.name in NAMES:
            name = str(arguments(row).get("name", ""))
            names[process, thread if row.name == NAMES[1] else None] = name
    for process, lines in threads.items():
        found = [Line(names.get((process, thread), thread), Rows(some)) for thread, some in lines.items()]
        yield Plane(names.get((process, None), process), found, {})


def arguments(row: Row) -> dict[str, Any]:
    """The arguments of an event; none where they are no object."""
    try:
        found = msgspec.json.decode(row.args)
    except msgspec.ValidationError:
        found = json.loads(bytes(row.args), parse_int=_held, parse_float=_held)
    except RecursionError as error:  # the stack of who asks is deeper than that of `read`
        raise nested.error(bytes(row.args)) from error
    return found if isinstance(found, dict) else {}


def _held(digits: str) -> float | None:
    """A number, None for one that 64 bits do not hold."""
    found = float(digits)
    if not -(2.0**63) <= found < 2.0**63:
        return None
    return int(digits) if digits.lstrip("-").isdecimal() else found


def _ns(value: object) -> int | None:
    """Microseconds, perhaps printed as a text, as whole nanoseconds; None for what is no number."""
    if isinstance(value, str):
        try:
            value = float(value)
        except ValueError:
            return None
    return times.whole_ns(value * MICROSECOND_NS) if isinstance(value, int | float) else None
