"""Damaged traces: reading all at once and event by event give the same columns, counts and meanings."""

from __future__ import annotations

import os
import random
import re
from typing import TYPE_CHECKING, Any

import pytest

from tests.ingest.reading import collected, event_by_event, frame_of
from tests.ingest.traces import LAYOUTS, everything

if TYPE_CHECKING:
    from kerneldb.ingest.pytorch.collect import Collector

MUTATIONS = int(os.environ.get("KERNELDB_MUTATIONS", "60"))
"""`KERNELDB_MUTATIONS=10000` for a thorough run (some minutes)."""
GROUPS = ("op", "gpu", "api", "sync", "range", "memory", "other")
COUNTS = ("events", "repaired", "lost", "old_categories", "window_end_ns", "skipped", "unread", "marks")
VALUE = re.compile(rb'(?<=[:\[,] )[-\d.]+(?=[,\s\]}])|"[^"\n]{0,40}"')
ODD = [
    *(b"NaN", b"Infinity", b"-inf", b"null", b"true", b"[]", b"{}", b'""', b'"1.5"', b'"5"', b'"x"', b'"a\\\\b"'),
    *(b"1e400", b"99999999999999999999999", b"-1", b"1.50", b"5.0", b"5.5", b"0.0005", b"007", b"1.", b".5", b"+5"),
    *(b"1712170235123456.789", b'"\\ud800"', b"\\u00e9", b"\\", b'"', b"\xff", b"\x01", b"\xc3\xa9", b"\n", b"\t"),
    *(b",", b"}", b"{", b"]", b"[", b"},{", b"}, {", b"},\r\n{", b'"ph":"X",', b'"args":{"a":1},', b'"ts": 5, '),
]


def mutated(text: bytes, chooser: random.Random) -> bytes:
    """`text` with one to six pieces cut out, doubled, overwritten, or replaced by odd values."""
    changed = bytearray(text)
    for _ in range(chooser.choice([1, 1, 2, 3, 6])):
        start = chooser.randrange(len(changed))
        end = start + chooser.choice([1, 1, 2, 5, 20, 200])
        match = VALUE.search(bytes(changed), start)
        kind = chooser.randrange(6)
        if kind == 0:
            del changed[start:end]
        elif kind == 1:
            changed[start:start] = chooser.choice(ODD)
        elif kind == 2:
            changed[start] = chooser.randrange(256)
        elif kind == 3:
            changed[start:start] = changed[start:end]
        elif match is not None:
            changed[match.start() : match.end()] = chooser.choice(ODD)
    return bytes(changed)


def content(found: Collector) -> dict[str, Any]:
    """Everything that was read, with meanings in place of codes; columns without any value do not count."""
    interners = {
        "thread": found.threads, "call": found.calls, "note": found.notes, "kernel": found.kernels,
        "collective": found.collectives, "api": found.apis, "sync": found.syncs, "label": found.labels,
    }  # fmt: skip
    read: dict[str, Any] = {name: getattr(found, name) for name in COUNTS}
    read["counters"] = found.counters.between((None, None)).rows()
    for group in GROUPS:
        frame = frame_of(found, group)
        for column in () if frame is None else frame.get_columns():
            values = column.to_list()
            if column.name in interners:
                rows = interners[column.name].rows()
                values = [None if code is None else rows[code] for code in values]
            if any(value is not None for value in values):
                read[f"{group}.{column.name}"] = values
    return read


@pytest.mark.parametrize("layout", LAYOUTS)
def test_both_ways_read_the_same(layout: str) -> None:
    text = LAYOUTS[layout](everything()).encode()
    for number in range(-(-MUTATIONS // len(LAYOUTS))):
        damaged = mutated(text, random.Random(f"{layout} {number}"))
        fast = content(collected(damaged))
        with event_by_event():
            assert content(collected(damaged)) == fast, (layout, number)


SEPARATORS = ["},\n{", "},\r\n{", "}\n,\n{", "} , {", "},{", "},\n  {", "\t},\n\t{"]


@pytest.mark.parametrize("damage", [None, '"name": "aten::say "it""'])
def test_any_separators_in_one_text(damage: str | None) -> None:
    """Also beside an event that is not valid JSON, which sends its piece through the reader of lines."""
    names = [f"aten::op{number}" for number in range(60)]
    events = [f'"ph": "X", "cat": "cpu_op", "name": "{name}", "pid": 1, "tid": 1, "ts": 5, "dur": 1' for name in names]
    if damage:
        events[30] = events[30].replace(f'"name": "{names[30]}"', damage)
        names[30] = 'aten::say "it"'
    chooser = random.Random(0)
    text = "{" + "".join(event + chooser.choice(SEPARATORS) for event in events[:-1]) + events[-1] + "}"
    found = collected(f'{{"traceEvents": [{text}]}}'.encode())
    frame = frame_of(found, "op")
    assert frame is not None
    rows = found.calls.rows()
    assert [rows[code][0] for code in frame["call"]] == names
    assert (found.lost, found.repaired) == (0, int(damage is not None))
