"""Invalid JSON that profilers have written, and cut files: what is readable is read, every repair is counted."""

from __future__ import annotations

import gzip
import json
import random
import re
from typing import TYPE_CHECKING

import pytest
from click.testing import CliRunner

from kerneldb.cli import cli
from kerneldb.errors import NotATraceError, TraceError
from tests.ingest.conversion import convert_file, dims
from tests.ingest.traces import LAYOUTS, T0, Trace, everything, indented, kineto, kineto_2021, kineto_2026

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from tests.ingest.conftest import Convert
    from tests.ingest.conversion import Converted

PRINTERS = {function.__name__: function for function in (kineto, kineto_2021, kineto_2026)}
MARK = "@@"


def seven() -> Trace:
    """Seven operators with kernels; the fourth is called `MARK`."""
    trace = Trace(metadata={"record_shapes": 1, "note": "n0te"})
    for number in range(7):
        name = MARK if number == 3 else f"op{number}"
        trace.launch(name, f"kernel{number}", T0 + number * 100_000, 10 + number)
    return trace


def is_whole(found: Converted) -> bool:
    """All events are there, and no event lies about it."""
    return (found.launches.height, found.table("ops").height, found.table("api_calls").height, found.total("lost")) == (
        7,
        7,
        7,
        0,
    )


def op_names(found: Converted) -> list[str]:
    return found.table("ops").sort("start_ns")["name"].to_list()


def visible(name: str) -> str:
    """A name without quotes, each run of control characters one blank: a repair may write them otherwise."""
    return re.sub(r"[\x00-\x1f]+", " ", name).replace('"', "")


UNESCAPED = (
    'a", "b',
    'C:\\Users\\"me"\\x.py',
    'say "hi" there',
    '"',
    '{"device": "cuda"}',
    "C:\\Users\\me\\net.py(3): f",
    "C:\\users\\x",
    "lone \\ backslash",
)
CONTROLS = ('two\n"lines"', "bell\x07", "tab\there", "windows\r\nline", "nul\x00byte")


def printed(names: tuple[str, ...], few: int) -> list[tuple[str, str]]:
    """All of these names as one program prints them, and a few of them as its other versions do."""
    return [(printer, name) for printer in PRINTERS for name in (names if printer == "kineto" else names[:few])]


@pytest.mark.parametrize(("printer", "written"), printed(UNESCAPED, 2))
def test_unescaped_names(convert: Convert, printer: str, written: str) -> None:
    """pytorch #146900, #113001; kineto PR #1459, #336."""
    found = convert(PRINTERS[printer](seven()).replace(MARK, written))
    assert is_whole(found)
    assert op_names(found)[3] == written
    assert found.repaired == 1


@pytest.mark.parametrize(("printer", "written"), printed(CONTROLS, 1))
def test_control_characters_in_names(convert: Convert, printer: str, written: str) -> None:
    """perfetto #598, pytorch #130622, kineto 51fd6e6a."""
    found = convert(PRINTERS[printer](seven()).replace(MARK, written))
    assert is_whole(found)
    assert visible(op_names(found)[3]) == visible(written)
    assert found.repaired == 1


@pytest.mark.parametrize("printer", PRINTERS)
def test_invalid_utf8(convert: Convert, printer: str) -> None:
    """pytorch #136180."""
    text = PRINTERS[printer](seven()).encode().replace(MARK.encode(), b"caf\xe9")
    found = convert(text)
    assert is_whole(found)
    assert op_names(found)[3] == "caf\ufffd"
    assert found.repaired == 1


def test_numbers_that_json_does_not_know(convert: Convert) -> None:
    """kineto #105: the bandwidth of a copy that took no time."""
    first, *parts = kineto(seven()).split('"shared memory": 1024')
    numbers = ("inf", "-inf", "nan", "-nan", "NaN", "Infinity", "-Infinity")
    wrong = [
        f'"memory bandwidth (GB/s)": {number}, "shared memory": 1024{part}'
        for number, part in zip(numbers, parts, strict=True)
    ]
    found = convert(first + "".join(wrong))
    assert is_whole(found)
    assert found.launches["shared_bytes"].to_list() == [1024] * 7
    assert found.launches["grid_x"].to_list() == [64] * 7
    assert found.repaired == 4, "by event; the last three are read as they are"


@pytest.mark.parametrize("key", ["tid", "pid", "ts", "ph"])
def test_missing_quote_before_a_key(convert: Convert, key: str) -> None:
    """pytorch #33961."""
    text = kineto(seven()).replace(f'"{key}":', f'{key}":', 2)
    found = convert(text)
    assert is_whole(found)
    assert found.repaired == 2


def test_all_quotes_missing_in_all_events(convert: Convert) -> None:
    found = convert(kineto(seven()).replace('"tid":', 'tid":'))
    assert is_whole(found)


@pytest.mark.parametrize("printer", PRINTERS)
@pytest.mark.parametrize(
    ("whole", "broken"),
    [
        ('"External id": 1010\n    }', '"External id": 1010, \n    }'),
        ('"block": [128, 1, 1]', '"block": [128, 1, 1], '),
    ],
    ids=["at the end", "in the middle"],
)
def test_empty_argument(convert: Convert, printer: str, whole: str, broken: str) -> None:
    """output_json.cpp appendFragment: an empty fragment leaves a comma behind."""
    text = PRINTERS[printer](seven())
    assert whole in text
    found = convert(text.replace(whole, broken, 1))
    assert is_whole(found)
    assert found.repaired == 1


def test_repairs_leave_valid_escapes_alone(convert: Convert) -> None:
    """A broken name beside arguments that are escaped as they should be."""
    trace = seven()
    scalars = ["C:\\me\\new", 'say "hi"', "tab\t", "\u001f"]
    trace.events[9]["args"]["Concrete Inputs"] = scalars
    found = convert(kineto(trace).replace(MARK, 'a "b" \\ c'))
    assert is_whole(found)
    assert dims(found.launch("kernel3")["scalars"]) == scalars


@pytest.mark.parametrize("gap", [",\n  ,\n", ",,"])
def test_empty_event(convert: Convert, gap: str) -> None:
    found = convert(kineto(seven()).replace("},\n", "}" + gap, 1))
    assert is_whole(found)


def test_comma_behind_the_last_event(convert: Convert) -> None:
    found = convert(kineto(seven()).replace("}\n  ],", "},\n  ],"))
    assert is_whole(found)
    assert found.total("truncated") == 0


@pytest.mark.parametrize(
    "value", ['"a "quoted" word"', '"C:\\dir\\x"', '"two\nlines"', '"a /"b/" / c"', '{"lr": 1e-3}']
)
def test_metadata_strings(convert: Convert, value: str) -> None:
    """`add_metadata` escapes nothing; what stands beside the broken string must survive."""
    trace = seven()
    trace.metadata["baseTimeNanoseconds"] = 1_790_857_026_000_000_000
    found = convert(kineto(trace).replace('"n0te"', value))
    assert is_whole(found)
    assert found.trace["base_ns"] == 1_790_857_026_000_000_000
    assert found.total("truncated") == 0


def test_metadata_repair_is_counted(convert: Convert) -> None:
    assert convert(kineto(seven()).replace('"n0te"', '"a "quoted" word"')).report("repaired") == {"metadata string": 1}


@pytest.mark.parametrize("behind", [False, True], ids=["before", "behind"])
def test_log_lines_with_quotes(convert: Convert, behind: bool) -> None:
    """kineto #1336, #1453, #1460: the logger's own lines as metadata, before or behind the events."""
    trace = seven()
    side = trace.behind if behind else trace.metadata
    side["WARNING"] = ["W0TE", "second line"]
    side["baseTimeNanoseconds"] = 1_790_857_026_000_000_000
    found = convert(kineto(trace).replace("W0TE", 'WARNING:2024 failed to "open" C:\\x'))
    assert is_whole(found)
    assert found.trace["base_ns"] == 1_790_857_026_000_000_000
    assert found.repaired == 1


def test_several_defects_at_once(convert: Convert) -> None:
    text = kineto(seven()).replace(MARK, 'a\n"b"').replace('"name": "op1"', '"name": "o "p" 1"')
    text = text.replace('"shared memory": 1024', '"bandwidth": inf, "shared memory": 1024', 1)
    found = convert(text)
    assert is_whole(found)
    assert found.repaired == 3


def test_what_cannot_be_repaired_costs_only_itself(convert: Convert) -> None:
    text = kineto(seven()).replace('"pid": 100, "tid": 1,\n    "ts": 4401030676300.000', '"pid": 1=0, "tid": ???')
    found = convert(text)
    assert (found.launches.height, found.table("ops").height, found.total("lost")) == (7, 6, 1)
    assert found.accounted == 21
    example = found.table("ingest_reports").filter(outcome="lost")["example"][0]
    assert "???" in example


def test_something_else_among_the_events(convert: Convert) -> None:
    text = kineto(seven()).replace('"traceEvents": [', '"traceEvents": [\n  17, "text", null,')
    found = convert(text)
    assert (found.launches.height, found.table("ops").height, found.total("lost")) == (7, 7, 3)


@pytest.mark.parametrize("other", ["[[[]]]", "[]", "7", '"text"', "null"])
def test_what_is_no_event_between_two_costs_only_itself(convert: Convert, other: str) -> None:
    """There is no gap as between events, and behind its name the first one has a key that no writer has there."""
    text = re.sub(r'("name": "op\d",)', r'\1 "more": 1,', indented(seven()))
    text, count = re.subn(r"(op\d[^{}]*\{[^{}]*\}\s*\},)(\s*)\{", rf"\1\g<2>{other},\g<2>{{", text)
    assert count == 6
    found = convert(text)
    assert (found.table("ops").height, found.launches.height, found.total("lost")) == (7, 7, count)


def test_a_list_of_events_in_place_of_the_first(convert: Convert) -> None:
    """What separates its members separates no events, and its end is not that of the events."""
    document = json.loads(indented(seven()))
    document["traceEvents"][0] = document["traceEvents"][:2]
    found = convert(json.dumps(document, indent=1))
    assert (found.total("lost"), found.accounted) == (1, len(document["traceEvents"]))


@pytest.mark.parametrize("layout", LAYOUTS)
def test_defects_in_every_layout(convert: Convert, monkeypatch: pytest.MonkeyPatch, layout: str) -> None:
    monkeypatch.setattr("kerneldb.ingest.source.BLOCK_BYTES", 700)
    found = convert(LAYOUTS[layout](seven()).replace(MARK, 'say "hi" \\ there'))
    assert is_whole(found)
    assert op_names(found)[3] == 'say "hi" \\ there'
    assert found.repaired == 1


def complete_events(text: str) -> int:
    """Events of the text that are there from brace to brace."""
    position = text.index('"traceEvents"')
    position = text.index("[", position) + 1
    decoder, count = json.JSONDecoder(), 0
    while (start := text.find("{", position)) >= 0:
        try:
            _, position = decoder.raw_decode(text, start)
        except ValueError:
            return count
        count += 1
    return count


@pytest.mark.parametrize(("layout", "first"), [("kineto", 0), ("compact", 2)])
def test_cut_files(convert: Convert, layout: str, first: int) -> None:
    """At every tenth of the file, of the layouts in turn: what is there is loaded, and the cut is said."""
    trace = everything()
    trace.metadata["cupti_version"] = 26
    text = LAYOUTS[layout](trace)
    start = text.index('"traceEvents"') + 20
    end = text.rindex("]")
    wrong = []
    for step in range(first, 20, 4):
        cut = text[: start + (end - start) * step // 20]
        found = convert(cut)
        whole = complete_events(cut)
        if found.total("truncated") != 1 or found.report("read")["events"] != whole or found.total("lost") > 1:
            wrong.append((step, whole, found.table("ingest_reports").rows()))
        assert found.trace["base_ns"] is not None
    assert wrong == []


@pytest.mark.parametrize("share", [0.99, 0.5, 0.1])
def test_cut_array(convert: Convert, share: float) -> None:
    text = LAYOUTS["array"](everything())
    cut = text[: int(len(text) * share)]
    found = convert(cut)
    assert found.report("read")["events"] == complete_events('"traceEvents":' + cut)
    assert found.total("truncated") == 1


def test_cut_behind_the_events(convert: Convert) -> None:
    text = kineto(everything())
    found = convert(text[: text.rindex("]") + 1])
    assert found.report("read")["events"] == len(everything().events)
    assert found.total("truncated") == 1


def test_cut_before_the_first_event_ends(convert: Convert) -> None:
    text = kineto(everything())
    found = convert(text[: text.index('"traceEvents"') + 40])
    assert (found.report("read").get("events", 0), found.total("truncated")) == (0, 1)


def test_cut_before_the_events_is_no_trace(convert: Convert) -> None:
    text = kineto(everything())
    with pytest.raises(NotATraceError):
        convert(text[: text.index('"traceEvents"')])


def noise() -> Trace:
    """A trace whose gzip is longer than a few blocks."""
    chooser, trace = random.Random(0), Trace()
    for number in range(3000):
        trace.kernel(f"kernel_{chooser.random()}", T0 + number * 10_000, chooser.randrange(9_000), number + 1)
    return trace


@pytest.mark.parametrize("printer", [kineto, indented])
def test_cut_gzip(convert: Convert, printer: Callable[[Trace], str]) -> None:
    packed = gzip.compress(printer(noise()).encode())
    found = convert(packed[: len(packed) // 2], "trace.json.gz")
    assert 1000 < found.launches.height < 2000
    assert found.report("truncated") == {"the gzip stream ends early": 1}
    assert found.accounted == found.report("read")["events"] + found.total("lost")


def test_damaged_gzip(convert: Convert) -> None:
    packed = bytearray(gzip.compress(kineto(noise()).encode()))
    middle = len(packed) // 2
    packed[middle : middle + 64] = bytes(64)
    found = convert(bytes(packed), "trace.json.gz")
    assert found.launches.height > 500
    assert found.total("truncated") == 1
    assert found.accounted == found.report("read")["events"] + found.total("lost")


def test_damaged_check_sum(convert: Convert) -> None:
    packed = bytearray(gzip.compress(kineto(noise()).encode()))
    packed[-8] ^= 0xFF
    found = convert(bytes(packed), "trace.json.gz")
    assert found.launches.height > 1500
    assert found.total("truncated") == 1


def test_small_damaged_gzip_is_not_called_empty(convert: Convert) -> None:
    packed = bytearray(gzip.compress(kineto(everything()).encode()))
    packed[20:40] = bytes(20)
    with pytest.raises(TraceError, match="gzip"):
        convert(bytes(packed), "trace.json.gz")


def test_zeros_behind_a_gzip_member(convert: Convert) -> None:
    """Tapes and some object stores pad with zeros; gzip itself ignores them."""
    packed = gzip.compress(kineto(everything()).encode()) + bytes(512)
    assert convert(packed, "trace.json.gz").total("truncated") == 0


@pytest.mark.parametrize(
    ("file", "events", "repairs"),
    [
        ("malformed-torch2.13-cpu_full.json", 820, {"event that is not valid JSON": 1}),
        ("malformed-torch2.13-cpu_nan.json", 23, {"metadata string": 1}),
        ("malformed-torch2.13-cpu_windows_quote_path.json", 50, {"event that is not valid JSON": 1}),
    ],
)
def test_real_malformed_traces_load_whole(
    convert: Convert, shared_data: Path, file: str, events: int, repairs: dict[str, int]
) -> None:
    found = convert((shared_data / "pytorch" / file).read_bytes())
    assert found.report("read") == {"events": events}
    assert found.report("repaired") == repairs
    assert (found.total("lost"), found.total("truncated"), found.accounted) == (0, 0, events)
    assert found.trace["base_ns"] is not None


def test_a_long_list_behind_the_events_holds_no_events(tmp_path: Path) -> None:
    event = '{"ph":"X","cat":"kernel","name":"k","pid":0,"tid":7,"ts":1,"dur":5,"args":{"stream":7,"device":0}}'
    other = ",".join([event] * 200_000)  # more than a piece of the text
    path = tmp_path / "a.json"
    path.write_text(f'{{"schemaVersion":1,"traceEvents":[{event},{event}],"other":[{other}],"displayTimeUnit":"ms"}}')
    found = convert_file(path, tmp_path / "spool")
    assert (found.launches.height, found.report("read")) == (2, {"events": 2})
    assert 0 < found.report("skipped")["member of a list behind the events"] < 200_000
    assert (found.report("lost"), found.report("truncated")) == ({}, {})


def test_a_long_example_is_cut_in_a_table_of_the_report(tmp_path: Path) -> None:
    event = '{"ph":"X","cat":"kernel","name":"k","pid":0,"tid":7,"ts":1,"dur":5,"args":{"stream":7,"device":0}}'
    refused = event.replace('"k"', f'"{"n" * 3000}"').replace('"dur":5', '"dur":-5')
    path, database = tmp_path / "a.json", str(tmp_path / "k.duckdb")
    path.write_text(f'{{"traceEvents":[{event},{refused},{event}]}}')
    runner = CliRunner()
    runner.invoke(cli, ["--db", database, "ingest", str(path)])
    asked = ["--db", database, "traces", "--report"]
    assert max(map(len, runner.invoke(cli, asked).stdout.splitlines())) < 400
    assert "n" * 3000 in runner.invoke(cli, [*asked, "--format", "ndjson"]).stdout
