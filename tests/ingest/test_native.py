"""The compiled reader gives what the one in Python gives: on whole, damaged and hostile traces."""

from __future__ import annotations

import gzip
import importlib.machinery
import importlib.util
import os
import random
from array import array
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from kerneldb.ingest.pytorch import native
from kerneldb.ingest.pytorch.split import Splitter
from tests.ingest.reading import collected, scanned
from tests.ingest.test_mutations import GROUPS, MUTATIONS, content, mutated
from tests.ingest.traces import LAYOUTS, everything

if TYPE_CHECKING:
    from collections.abc import Iterator

    from kerneldb.ingest.pytorch.collect import Collector

TRACE = Path(__file__).resolve().parents[1] / "fixtures" / "train-step-h200.json.gz"
OTHER = os.environ.get("KERNELDB_SCAN")
"""Another build of the C part, with sanitizers: `make sanitize`."""
pytestmark = pytest.mark.skipif(
    native._scan is None and not OTHER, reason="kerneldb was installed without a C compiler"
)


@pytest.fixture(autouse=True, scope="module")
def _build() -> Iterator[None]:
    if not OTHER:
        yield
        return
    name = "kerneldb.ingest.pytorch._scan"
    loader = importlib.machinery.ExtensionFileLoader(name, OTHER)
    spec = importlib.util.spec_from_loader(name, loader)
    assert spec is not None
    module = importlib.util.module_from_spec(spec)
    loader.exec_module(module)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(native, "_scan", module)
        yield


def rows(found: Collector) -> dict[str, Any]:
    """What was read, without its order: of an event that is cut in two by damage, each reader has an order of its own.

    Arguments that nobody reads are left out: the reader in Python takes names that differ in digits for the same.
    """
    read = content(found)
    del read["unread"]
    for group in GROUPS:
        read.pop(f"{group}.id", None)
        columns = sorted(name for name in read if name.startswith(f"{group}."))
        values = zip(*(read.pop(name) for name in columns), strict=True)
        read[group] = columns, sorted(map(repr, values))
    return read


@pytest.mark.parametrize("layout", LAYOUTS)
def test_damaged_traces_are_read_alike(layout: str) -> None:
    text = LAYOUTS[layout](everything()).encode()
    assert content(scanned(text)) == content(collected(text))
    for number in range(-(-MUTATIONS // len(LAYOUTS))):
        damaged = mutated(text, random.Random(f"native {layout} {number}"))
        assert rows(scanned(damaged)) == rows(collected(damaged)), (layout, number)


@pytest.mark.parametrize("threads", [0, 3])
def test_a_recorded_trace_in_pieces(threads: int) -> None:
    text = gzip.decompress(TRACE.read_bytes())
    assert content(scanned(text, 1 << 16, threads)) == content(collected(text, 1 << 16))


def trace(*events: str) -> bytes:
    first = '{"ph": "X", "cat": "cpu_op", "name": "aten::mm", "pid": 1, "tid": 1, "ts": 5, "dur": 1}'
    return f'{{"traceEvents": [{", ".join([first, *events, first])}]}}'.encode()


def event(**members: str) -> str:
    given = {"ph": '"X"', "cat": '"cpu_op"', "name": '"aten::add"', "pid": "1", "tid": "2", "ts": "7", "dur": "2"}
    return "{" + ", ".join(f'"{name}": {text}' for name, text in (given | members).items()) + "}"


@pytest.mark.parametrize(
    "times",
    [
        *("0", "-0", "5.0005", "-5.0005", "8796093022207.999", "8796093022208.0005", "1712170235123456.7891", "null"),
        *(
            "1e3",
            "1E-3",
            "9000000000000001",
            "123456789012345678901",
            '"12.5"',
            '""',
            "true",
            "[1]",
            "0.1234567890123456789",
        ),
        *("0.00000000000000000001", "-8796093022208.123", "4398046511104.0005", "2.5e-1", "9" * 400),
    ],
)
def test_times_to_the_nanosecond(times: str) -> None:
    text = trace(event(ts=times), event(dur=times))
    assert content(scanned(text)) == content(collected(text))


@pytest.mark.parametrize("seed", range(5))
def test_durations_to_the_last_bit(seed: int) -> None:
    chooser = random.Random(seed)
    texts = [repr(chooser.random() * 10 ** chooser.randrange(-3, 12)) for _ in range(200)]
    texts += [f"{chooser.randrange(10 ** chooser.randrange(1, 19))}.{chooser.randrange(10**9)}" for _ in range(200)]
    text = trace(*(event(dur=one, args=f'{{"flops": {one}}}') for one in texts))
    assert content(scanned(text)) == content(collected(text))


HOSTILE = {
    "nested deep": event(args='{"Input Dims": ' + "[" * 90 + "]" * 90 + "}"),
    "names of arguments": event(args="{" + ", ".join(f'"key {"x" * n}": 1' for n in range(700)) + "}"),
    "the same argument twice": event(args='{"Input Dims": [1], "Input Dims": [2], "External id": 1, "External id": 2}'),
    "a category behind the arguments": '{"args": {"External id": 5}, "name": "a", "ts": 3, "ph": "X", "cat": "cpu_op"}',
    "an old spelling": event(args='{"external id": 5, "Input dims": [[2]]}'),
    "two spellings": event(args='{"external id": 5, "External id": null, "Sequence number": 9}'),
    "an integer of 64 bits": event(args='{"External id": 9223372036854775807, "flops": 4611686018427387904}'),
    "an integer of 65 bits": event(
        args='{"External id": 9223372036854775808, "Sequence number": -9223372036854775808}'
    ),
    "an address": event(ph='"i"', name='"[memory]"', args='{"Addr": 18446744073709551615, "Bytes": -5}'),
    "arguments that are none": event(args="7"),
    "a list": event(args='["External id", 5]'),
    "no phase": '{"name": "a", "ts": 5}',
    "phases": ", ".join(event(ph=f'"{phase}"', id="1") for phase in ("s", "t", "f", "B", "", "XX", "é")),
    "names": ", ".join(
        event(name=name) for name in ("5", "null", "1.50", '"\\u00e9"', '"é"', '"\\ud83d\\ude00"', "{}")
    ),
    "categories": ", ".join(event(cat=cat) for cat in ('"cpu\\u005fop"', "null", '""', "5", '"Operator"', '"mine"')),
    "a counter": event(ph='"C"', args='{"a": 1, "b": 2.5}') + ", " + event(ph='"C"', args='{"a": NaN}'),
    "counters of a range": event(cat='"cuda_profiler_range"', args='{"sm__cycles": 5}'),
    "empty": "{}",
    "no event behind a whole one": event(name='"aten::whole"') + ', {"": "X", "ts": [: 5}, ' + event(ts="9"),
}

BEYOND = ("nested deep", "names of arguments", "an integer of 65 bits", "an address")
"""What the scan takes in no form."""


@pytest.mark.parametrize("what", HOSTILE)
def test_unusual_events_are_read_alike(what: str) -> None:
    text = trace(HOSTILE[what])
    assert content(scanned(text)) == content(collected(text))


def test_many_codes_are_forgotten_and_given_anew(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(native.narrow, "MOST_KEYS", 16)
    text = trace(*(event(name=f'"aten::op{n % 40}"') for n in range(400)))
    assert content(scanned(text, 1 << 10)) == content(collected(text, 1 << 10))


def test_a_scan_refuses_parts_that_the_text_does_not_have() -> None:
    scanner = native.Scan()._scanner
    for start, end in ((-1, 1), (2, 1), (0, 4)):
        with pytest.raises(ValueError, match="no such part"):
            scanner.scan(b"{},", start, end)
    assert scanner.scan(b"{}", 0, 2) == 0


def test_layouts_that_are_none_are_refused() -> None:
    make = native._scan.Scanner
    groups, categories, tables, other, memory = native._layout()
    for wrong in ((groups, categories, tables, 99, memory), (groups[:1], categories, tables, other, memory)):
        with pytest.raises(ValueError, match="layout"):
            make(*wrong, 16, 0)
    for code in ((99, 0, False, ()), (0, 0, False, (99,)), (0, 0, False, (-1,))):
        with pytest.raises(ValueError, match="layout"):
            make((((), (code,), True),), (), tables, 0, 0, 16, 0)


@pytest.mark.parametrize("what", [name for name in HOSTILE if name not in BEYOND])
def test_an_event_is_usual_once_it_was_read(what: str) -> None:
    """It is handed back in a form that the scan takes: no piece is read a second time."""
    assert [reader for _, reader in native.narrowed(Splitter(iter([trace(HOSTILE[what])])), 0)] == [1]


def test_columns_of_numbers_are_those_of_the_bytes() -> None:
    for code, values in {"q": [-(2**63), 7], "Q": [2**64 - 1], "d": [0.5, -1.0], "I": [2**32 - 1, 0], "i": []}.items():
        if code == "i":
            with pytest.raises(ValueError, match="no such format"):
                native._scan.numbers(code, b"")
            continue
        assert native.numbers(code, array(code, values).tobytes()).to_list() == values
