"""One odd value costs itself, never the file or the folder."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

import pytest
from polars.exceptions import PanicException

from kerneldb import ingest
from kerneldb.derive import derive_names, derive_signatures
from kerneldb.errors import KerneldbError, UnreadableTraceError
from kerneldb.ingest.pytorch import convert as pytorch
from kerneldb.ingest.pytorch.identity import triple
from tests.fuzz.corpus import FORMATS
from tests.ingest.traces import T0, Raw, Trace, compact, kineto

if TYPE_CHECKING:
    from pathlib import Path

    from tests.ingest.conftest import Convert

LAUNCHES = 2


def two(**kernel_args: Any) -> Trace:
    """Two launches; the second one's kernel has `kernel_args`."""
    trace = Trace(metadata={"record_shapes": 1})
    trace.launch("one", "kernel1", T0, 5)
    trace.launch("two", "kernel2", T0 + 100_000, 6, None, **kernel_args)
    return trace


@pytest.mark.parametrize("name", ["nsys-text", "nvprof-text", "ncu", "rocprof-csv", "power", "proton", "bundle"])
def test_numbers_of_more_digits_than_python_reads(tmp_path: Path, name: str) -> None:
    """Each number of a last line has 5,000 digits: the file is read, or what is said of it blames no program."""
    for number, sample in enumerate(FORMATS[name].all()):
        for damaged, content in sample.items():
            room = tmp_path / f"{number}-{damaged}"
            for file, kept in {**sample, damaged: long_numbers(content)}.items():
                (room / file).parent.mkdir(parents=True, exist_ok=True)
                (room / file).write_bytes(kept)
            for at, unit in enumerate(ingest.plan(ingest.expand(sorted(room.glob("*"))))):
                said = of_reading(unit, tmp_path / f"{room.name}-{at}")
                assert not re.search("report it|limit|not of one report", said), damaged


def of_reading(unit: ingest.Unit, folder: Path) -> str:
    try:
        ingest.convert(unit, folder, ingest.Options())
    except KerneldbError as error:
        return str(error)
    return ""


def long_numbers(content: bytes) -> bytes:
    """The text with 5,000 digits in place of each number of its last line."""
    before, newline, last = content.rstrip(b"\n").rpartition(b"\n")
    return before + newline + re.sub(rb"\d+", b"9" * 5000, last) + b"\n"


@pytest.mark.parametrize("text", ["[2147483648, 1, 1]", "[1, " + "9" * 5000 + ", 1]"])
def test_shapes_beyond_int32(text: str) -> None:
    assert triple(text) == (None, None, None)
    assert triple("[2147483647, 1, 1]") == (2**31 - 1, 1, 1)


def test_products_beyond_their_columns(convert: Convert) -> None:
    found = convert(two(grid=[2**31 - 1] * 3, block=[2**16, 2**16, 1]))
    names = derive_names(found.table("kernel_names"))
    rows = derive_signatures(found.table("signatures"), names)
    assert set(rows.select("total_blocks", "threads_per_block").rows()) == {(64, 128), (None, None)}


def test_device_beyond_int32(convert: Convert) -> None:
    assert convert(two(device=2**40)).launch("kernel2")["device"] is None


@pytest.mark.parametrize("args", [Raw("[1]"), Raw('"\\\\"'), Raw("[" * 400 + "]" * 400)], ids=["list", "text", "deep"])
@pytest.mark.parametrize("phase", ["C", "X"])
def test_odd_arguments(convert: Convert, phase: str, args: Raw) -> None:
    trace = two()
    trace.add(phase, "cpu_op", "odd", T0 + 1, dur=1, args=args)
    trace.launch("three", "kernel3", T0 + 200_000, 7)
    found = convert(compact(trace))
    assert found.launches.height == LAUNCHES + 1
    assert found.table("samples").is_empty()


def test_annotation_without_a_name(convert: Convert) -> None:
    trace = two()
    trace.span("user_annotation", Raw("null"), T0 - 10, 500_000, {"Ev Idx": 0})
    assert convert(trace).launches.height == LAUNCHES


def test_metadata_beyond_int64(convert: Convert) -> None:
    trace = two()
    trace.metadata["baseTimeNanoseconds"] = -1e300
    trace.metadata["deviceProperties"] = [{"id": 0, "name": "NVIDIA H200", "totalGlobalMem": 1e300}]
    found = convert(trace)
    assert found.trace["base_ns"] is None
    assert found.rows("devices", "device", "memory_bytes") == [(0, None)]


def test_text_with_every_mark(convert: Convert) -> None:
    found = convert(kineto(two()).encode().replace(b'"two"', b'"\x00\x01\x02\x03\x1e\xff"'))
    assert found.launches.height == LAUNCHES


@pytest.mark.parametrize("error", [ValueError("odd"), IndexError("odd"), KeyError("odd"), PanicException("odd")])
def test_unexpected_errors_name_the_file(
    convert: Convert, monkeypatch: pytest.MonkeyPatch, error: BaseException
) -> None:
    def fail(*_: object) -> None:
        raise error

    monkeypatch.setattr(pytorch, "link", fail)
    with pytest.raises(UnreadableTraceError, match=rf"trace\.json: cannot be read \({type(error).__name__}: .*odd"):
        convert(two())


@pytest.mark.parametrize("error", [MemoryError, RecursionError])
def test_lack_of_memory_costs_the_file(
    convert: Convert, monkeypatch: pytest.MonkeyPatch, error: type[Exception]
) -> None:
    def fail(*_: object) -> None:
        raise error

    monkeypatch.setattr(pytorch, "link", fail)
    with pytest.raises(UnreadableTraceError, match=r"trace\.json: (reading it takes more memory|nested more deeply)"):
        convert(two())


@pytest.mark.parametrize("printer", [kineto, compact])
def test_two_traces_in_one_text(convert: Convert, printer: Any) -> None:
    found = convert(printer(two()) * 2)
    assert found.launches.height == LAUNCHES
    assert found.report("lost") == {"text behind the end of the trace": 1}
    assert (found.repaired, found.total("truncated")) == (0, 0)


@pytest.mark.parametrize("padding", ["\0" * 64, "\n \n", "\0\n"])
def test_padding_is_no_cut(convert: Convert, padding: str) -> None:
    found = convert(kineto(two()) + padding)
    assert (found.total("truncated"), found.total("lost"), found.repaired) == (0, 0, 0)


def test_era_needs_evidence(convert: Convert) -> None:
    assert (
        convert('[{"ph": "X", "cat": "kernel", "name": "k", "pid": 0, "tid": 7, "ts": 1, "dur": 1}]').trace["era"]
        is None
    )


def test_no_gpu_activity_is_noted(convert: Convert) -> None:
    trace = Trace()
    trace.op("one", T0, 5)
    assert convert(trace).report("note") == {"no GPU activity": 1}
    assert "no GPU activity" not in convert(two()).report("note")


def test_examples_are_short(convert: Convert) -> None:
    found = convert(kineto(two()).replace('"two"', '"say "hi" ' + "x" * 100 + '"'))
    (example,) = found.table("ingest_reports").filter(outcome="repaired")["example"]
    assert example.startswith('"name": "say "hi"')
    assert len(example) == 60


def escaped(text: str) -> str:
    """`text` with escapes for halves of surrogate pairs, as JSON can have them and UTF-8 cannot."""
    return re.sub("[\ud800-\udfff]", lambda half: f"\\u{ord(half.group()):04x}", text)


@pytest.mark.parametrize("printer", [kineto, compact])
@pytest.mark.parametrize(
    "args", [{"kernel_hash": "ca\ud800bc"}, {"other": "\udfff"}, {"Concrete Inputs": ["\ud800", ""]}, {"\ud800": 1}]
)
def test_half_a_character_is_replaced(convert: Convert, printer: Any, args: dict[str, Any]) -> None:
    trace = two()
    trace.op("odd", T0 + 1, 1, args)
    trace.launch("three", "kernel3", T0 + 200_000, 7)
    found = convert(escaped(printer(trace)))
    assert found.launches.height == LAUNCHES + 1
    assert found.op("odd")["call_id"] is not None
    assert (found.repaired, found.total("lost")) == (1, 0)
    scalars = found.table("op_calls").filter(op="odd")["scalars"].item()
    assert scalars == ('["\ufffd", ""]' if "Concrete Inputs" in args else None)


@pytest.mark.parametrize("behind", [True, False])
def test_half_a_character_in_a_name(convert: Convert, behind: bool) -> None:
    """Also of the last event of the text, which is read by itself."""
    trace = two()
    trace.op("n\udc00", T0 + 1, 1)
    if behind:
        trace.launch("three", "kernel3", T0 + 200_000, 7)
    found = convert(escaped(compact(trace)))
    assert found.op("n\ufffd")["duration_ns"] == 1
    assert found.repaired == 1


@pytest.mark.parametrize("args", [{"n\ud800": 1.5}, Raw('"{\\"n\\\\ud800\\": 1.5}"')], ids=["object", "text"])
def test_half_a_character_in_a_counter(convert: Convert, args: Any) -> None:
    trace = two()
    trace.add("C", None, "odd", T0 + 1, args=args)
    assert convert(escaped(compact(trace))).rows("samples", "counter", "value") == [("odd.n\ufffd", 1.5)]


def test_half_a_character_in_the_metadata(convert: Convert) -> None:
    trace = two()
    trace.metadata |= {"host_name": "n\ud800", "deviceProperties": [{"id": 0, "name": "NVIDIA \udfff"}]}
    found = convert(escaped(compact(trace)))
    assert found.trace["host"] == "n\ufffd"
    assert found.rows("devices", "name") == [("NVIDIA \ufffd",)]
    assert found.report("repaired") == {"metadata string": 1}


def test_counters_without_names(convert: Convert) -> None:
    trace = two()
    for name, key in (("", "clock"), ("clock", ""), ("", "")):
        trace.add("C", None, name, T0, args={key: 5})
    trace.events[-1].pop("name")
    found = convert(trace)
    assert found.rows("samples", "counter", "value") == [("clock", 5.0), ("clock", 5.0), ("", 5.0)]


@pytest.mark.parametrize("printer", [kineto, compact])
def test_a_value_that_is_no_number_is_counted(convert: Convert, printer: Any) -> None:
    """`NaN` says that there is none, and a number may stand in quotes."""
    odd = {"correlation": 2**63, "context": "seven", "shared memory": -(2**64), "blocks per SM": "many"}
    trace = two(**odd, queued="12", **{"warps per SM": Raw("NaN"), "registers per thread": Raw("null")})
    trace.add("i", "cpu_instant_event", "[memory]", T0, s="t", args={"Bytes": 1, "Addr": 2**64, "Device Id": "0"})
    found = convert(printer(trace))
    row = found.launch("kernel2")
    assert (row["correlation_id"], row["context"], row["shared_bytes"], row["queued_ns"]) == (None, None, None, 12)
    note = "(no number, or beyond 64 bits): unknown"
    wrong = {reason: n for reason, n in found.report("unread").items() if reason.endswith(note)}
    assert wrong == {f"argument kernel: {name} {note}": 1 for name in odd} | {f"argument [memory]: Addr {note}": 1}
