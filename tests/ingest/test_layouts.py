"""The same trace gives the same tables, however its text is laid out, wrapped, encoded or cut into chunks."""

from __future__ import annotations

import codecs
import functools
import gzip
import io
import json
import zipfile
from pathlib import Path
from typing import TYPE_CHECKING

import polars as pl
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from polars.testing import assert_frame_equal

from kerneldb.errors import UnreadableTraceError
from kerneldb.ingest import convert as convert_all
from kerneldb.ingest import expand, source, trace_keys
from kerneldb.ingest.pytorch import convert as reader
from kerneldb.ingest.pytorch.split import Splitter
from kerneldb.ingest.readers import Options
from tests.ingest.conversion import Converted, convert_file, from_repository, laid_out
from tests.ingest.reading import collected, event_by_event, operators
from tests.ingest.traces import LAYOUTS, T0, Trace, everything, kineto

if TYPE_CHECKING:
    from collections.abc import Callable

    from tests.ingest.conftest import Convert

ROOT = Path(__file__).resolve().parents[2]
RECORDED = sorted([*ROOT.glob("tests/fixtures/*.json.gz"), *ROOT.glob("examples/*.json.gz")])
TABLES = (
    "launches",
    "signatures",
    "kernel_names",
    "op_calls",
    "ops",
    "api_calls",
    "ranges",
    "memory_events",
    "samples",
    "metrics",
)
SMALL = [path for path in RECORDED if path.stat().st_size < 150_000]
NAMES = [path.name.removesuffix(".json.gz") for path in SMALL]


def assert_same_tables(found: Converted, expected: Converted) -> None:
    for name in TABLES:
        one, two = (side.table(name).select(pl.exclude("trace_id")) for side in (found, expected))
        assert_frame_equal(one, two, check_row_order=True, check_column_order=False)


def zipped(text: bytes) -> bytes:
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("notes.txt", "not a trace")
        archive.writestr("rank0/inner.json", text)
    return buffer.getvalue()


WRAPPINGS: dict[str, tuple[str, Callable[[bytes], bytes]]] = {
    "gzip named json": ("trace.json", gzip.compress),
    "plain named gz": ("trace.json.gz", bytes),
    "two gzip members": ("trace.json.gz", lambda text: gzip.compress(text[:700]) + gzip.compress(text[700:])),
    "zip member": ("traces.zip", zipped),
    "gzip in zip": ("traces.zip", lambda text: zipped(gzip.compress(text))),
    "UTF-8 mark": ("trace.json", lambda text: codecs.BOM_UTF8 + text),
    "UTF-16 little endian": ("trace.json", lambda text: codecs.BOM_UTF16_LE + text.decode().encode("utf-16-le")),
    "UTF-16 big endian": ("trace.json", lambda text: codecs.BOM_UTF16_BE + text.decode().encode("utf-16-be")),
    "gzip of UTF-16": ("trace.json.gz", lambda text: gzip.compress(text.decode().encode("utf-16"))),
    "Windows line ends": ("trace.json", lambda text: text.replace(b"\n", b"\r\n")),
    "blanks around": ("trace.json", lambda text: b"\n \n" + text + b"\n\n"),
}


@pytest.mark.parametrize("layout", [name for name in LAYOUTS if name != "kineto"])
def test_layouts_give_the_same_tables(layout: str) -> None:
    found = laid_out(layout)
    assert_same_tables(found, laid_out())
    assert found.total("truncated") == 0


def odd() -> Trace:
    """Every kind of event, and a launch with names that are no ASCII and have the text between events in them."""
    trace = everything()
    trace.launch('模型 🚀 "},{" name', "模型 🚀 }, {", T0 + 700_000, 30)
    return trace


@pytest.fixture(scope="module")
def odd_tables(tmp_path_factory: pytest.TempPathFactory) -> Converted:
    folder = tmp_path_factory.mktemp("odd")
    (folder / "trace.json").write_text(kineto(odd()), encoding="utf-8")
    return convert_file(folder / "trace.json", folder / "spool")


@pytest.mark.parametrize("wrapping", WRAPPINGS)
def test_wrappings_give_the_same_tables(convert: Convert, odd_tables: Converted, wrapping: str) -> None:
    name, wrap = WRAPPINGS[wrapping]
    found = convert(wrap(kineto(odd()).encode()), name)
    assert_same_tables(found, odd_tables)
    assert (found.total("truncated"), found.repaired, found.total("lost")) == (0, 0, 0)


@pytest.mark.parametrize("wrapping", ["gzip named json", "zip member", "two gzip members"])
def test_the_trace_id_is_that_of_the_decompressed_bytes(tmp_path: Path, wrapping: str) -> None:
    name, wrap = WRAPPINGS[wrapping]
    text = kineto(everything()).encode()
    path = tmp_path / name
    path.write_bytes(wrap(text))
    expected = laid_out().manifest.trace_id
    assert trace_keys(path) == [expected]
    assert convert_file(path, tmp_path / "spool").manifest.trace_id == expected


@pytest.mark.parametrize(
    ("file", "name"),
    [
        ("run.pt.trace.json", "run"),
        ("run.json.gz", "run"),
        ("run.pt.trace.json.gz", "run"),
        ("run.json.tmp", "run"),
        ("host_1.1623143089861.pt.trace.json", "host_1.1623143089861"),
        (".json", ".json"),
    ],
)
def test_trace_names(convert: Convert, file: str, name: str) -> None:
    assert convert(everything(), file).trace["name"] == name


def test_every_member_of_an_archive_is_a_trace(tmp_path: Path) -> None:
    path = tmp_path / "ranks.zip"
    with zipfile.ZipFile(path, "w") as archive:
        for rank in range(2):
            trace = everything()
            trace.launch("aten::rank", f"kernel_{rank}", T0 + 700_000, 30)
            archive.writestr(f"rank{rank}.json", kineto(trace))
    manifests = convert_all(path, tmp_path / "spool", Options())
    assert [manifest.name for manifest in manifests] == ["rank0", "rank1"]
    assert len({manifest.trace_id for manifest in manifests}) == 2
    assert len(trace_keys(path)) == 2


@pytest.mark.filterwarnings("ignore:Duplicate name")
def test_an_archive_with_two_members_of_one_name_is_refused_whole(tmp_path: Path) -> None:
    path = tmp_path / "ranks.zip"
    with zipfile.ZipFile(path, "w") as archive:
        for rank in range(2):
            trace = everything()
            trace.launch("aten::rank", f"kernel_{rank}", T0 + 700_000, 30)
            archive.writestr("rank.json", kineto(trace))
    with pytest.raises(UnreadableTraceError, match=r"several members are called rank\.json\. Unpack it"):
        convert_all(path, tmp_path / "spool", Options())


def test_folders_are_searched_for_traces(tmp_path: Path) -> None:
    for name in ("b/rank1.json", "b/rank0.pt.trace.json.gz", "a.zip", "c/left.json.tmp"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text("{}", encoding="utf-8")
    for name in ("notes.txt", ".hidden.json"):
        (tmp_path / name).write_text("{}", encoding="utf-8")
    found = [str(path.relative_to(tmp_path)) for path in expand([tmp_path, tmp_path / "b" / "rank1.json"])]
    assert found == ["a.zip", "b/rank0.pt.trace.json.gz", "b/rank1.json", "c/left.json.tmp"]


@pytest.fixture
def small_chunks(monkeypatch: pytest.MonkeyPatch) -> Callable[[int], None]:
    """Makes the reader cut the text every so many bytes."""

    def cut(size: int) -> None:
        monkeypatch.setattr(source, "BLOCK_BYTES", size)
        monkeypatch.setattr(reader, "Splitter", functools.partial(Splitter, chunk_bytes=size))

    return cut


@pytest.mark.parametrize("layout", LAYOUTS)
def test_small_chunks_give_the_same_tables(
    convert: Convert, odd_tables: Converted, small_chunks: Callable[[int], None], layout: str
) -> None:
    small_chunks(211)
    found = convert(LAYOUTS[layout](odd()))
    assert_same_tables(found, odd_tables)
    assert (found.repaired, found.total("lost"), found.total("truncated")) == (0, 0, 0)


@pytest.mark.parametrize("path", SMALL, ids=NAMES)
def test_recorded_traces_in_chunks_of_64_kib(tmp_path: Path, small_chunks: Callable[[int], None], path: Path) -> None:
    text = tmp_path / "trace.json"
    text.write_bytes(gzip.decompress(path.read_bytes()))
    expected = from_repository(path)
    small_chunks(1 << 16)
    assert_same_tables(convert_file(text, tmp_path / "chunks"), expected)


@pytest.mark.parametrize("path", SMALL, ids=lambda path: path.name.removesuffix(".json.gz"))
def test_tools_that_write_a_trace_again_change_nothing(tmp_path: Path, path: Path) -> None:
    """`json.load` and `json.dump`: one line, shorter fractions, escapes instead of UTF-8."""
    again = tmp_path / "again.json"
    again.write_text(json.dumps(json.loads(gzip.decompress(path.read_bytes()))), encoding="utf-8")
    assert_same_tables(convert_file(again, tmp_path / "one"), from_repository(path))


@pytest.mark.parametrize("path", SMALL, ids=lambda path: path.name.removesuffix(".json.gz"))
def test_event_by_event_gives_the_same_tables(tmp_path: Path, path: Path) -> None:
    with event_by_event():
        found = convert_file(path, tmp_path / "one")
    assert_same_tables(found, from_repository(path))
    assert found.report("read") == from_repository(path).report("read")


@pytest.mark.parametrize("layout", LAYOUTS)
def test_both_paths_agree_on_every_kind_of_event(convert: Convert, layout: str) -> None:
    trace = everything()
    trace.launch('a "b" \\ c', "模型", T0 + 700_000, 30, {"Concrete Inputs": ["", "[1.0, 2]", "模型"]})
    text = LAYOUTS[layout](trace)
    fast = convert(text)
    with event_by_event():
        tolerant = convert(text)
    assert_same_tables(tolerant, fast)
    assert_frame_equal(tolerant.table("ingest_reports"), fast.table("ingest_reports"))


def names() -> st.SearchStrategy[str]:
    return st.text(st.characters(exclude_categories=["Cs"]) | st.sampled_from('"\\{}[],:\n\r\t'), max_size=12)


def scalars() -> st.SearchStrategy[object]:
    return st.none() | st.booleans() | st.integers(-(2**63), 2**63 - 1) | names()


def assert_events_come_back(events: list[tuple[str, str, int, list[str], object]], layout: str, size: int) -> None:
    trace = Trace()
    for op, thread, at, texts, other in events:
        trace.op(op, T0 + at, 5_000, {"Concrete Inputs": texts, "note": other}, tid=thread)
    read = collected(LAYOUTS[layout](trace).encode(), size)
    rows = operators(read).select("name", "tid", "ts", "Concrete Inputs").iter_rows()
    found = [(name, tid, ts - T0, json.loads(texts)) for name, tid, ts, texts in rows]
    assert found == [(op, thread, at, texts) for op, thread, at, texts, _ in events]
    assert read.lost + read.repaired == 0


@settings(max_examples=25, deadline=None, suppress_health_check=list(HealthCheck))
@given(
    events=st.lists(
        st.tuples(names(), names(), st.integers(0, 10**9), st.lists(names(), max_size=3), scalars()),
        min_size=2,
        max_size=12,
    ),
    layout=st.sampled_from(sorted(LAYOUTS)),
    size=st.sampled_from([40, 200, 1 << 20]),
)
def test_random_events_come_back(events: list[tuple[str, str, int, list[str], object]], layout: str, size: int) -> None:
    assert_events_come_back(events, layout, size)


ESCAPED = ["\\r", "\\n", "\\", "\\\\x", "C:\\temp\\new", "\\u0041", '\\"', 'a"b', "\r", "\x01é", "]\\n", "[\\t"]
"""What JSON writes with backslashes; read twice, some of it is other text."""


@pytest.mark.parametrize(("layout", "size"), [*((name, 100) for name in sorted(LAYOUTS)), ("kineto", 1 << 20)])
def test_text_with_backslashes_comes_back(layout: str, size: int) -> None:
    events: list[tuple[str, str, int, list[str], object]] = [("plain", "1", 0, [], None)] * 3
    for text in ESCAPED:
        events[1:1] = [(text, "1", 1, [text], text), (text, "1", 2, [], {text: text})]
    assert_events_come_back(events, layout, size)


@pytest.mark.parametrize("text", ESCAPED)
def test_arguments_with_backslashes_come_back(text: str) -> None:
    """A path of Windows among the arguments of an operator or of a range, beside a list without any."""
    event = {"ph": "X", "cat": "cpu_op", "name": "a", "pid": 1, "tid": 1, "ts": 5.5, "dur": 1.0}
    args = {"Concrete Inputs": ["1"], "kernel_file": text, "kernel_backend": "triton"}
    found = operators(collected(json.dumps([{**event, "args": args}] * 3).encode()))
    assert found["kernel_file"].to_list() == [text] * 3
    assert [json.loads(one) for one in found["Concrete Inputs"]] == [["1"]] * 3


@pytest.mark.parametrize("metadata", ['"own": {"traceEvents": [{"ph": "X"}]}', '"own": [{"a": {"traceEvents" : [1]}}]'])
def test_an_entry_of_the_metadata_may_hold_a_trace_of_its_own(tmp_path: Path, metadata: str) -> None:
    path = tmp_path / "trace.json"
    event = {"ph": "X", "cat": "kernel", "name": "k", "pid": 0, "tid": 7, "ts": 5, "dur": 2, "args": {"stream": 7}}
    path.write_text(f'{{"schemaVersion": 1, {metadata}, "traceEvents": [{json.dumps(event)}]}}')
    assert convert_file(path, tmp_path / "spool").launches.select("start_ns", "duration_ns").rows() == [(5_000, 2_000)]
