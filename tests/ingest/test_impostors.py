"""What is no PyTorch trace says what it is instead, in one line, with the file and a remedy."""

from __future__ import annotations

import gzip
import io
import json
import pickle
import sqlite3
import zipfile
from typing import TYPE_CHECKING

import polars as pl
import pytest

from kerneldb.errors import NotATraceError, TraceError, UnreadableTraceError
from kerneldb.ingest import Options, convert, expand, plan, trace_keys
from tests.ingest.conversion import outcome
from tests.ingest.traces import everything, kineto

if TYPE_CHECKING:
    from pathlib import Path

EXECUTION_TRACE = {
    "schema": "1.1.1-chakra.0.0.4",
    "pid": 1,
    "time": "2024",
    "start_ts": 1,
    "nodes": [{"id": 1, "name": "[pytorch|profiler]", "ctrl_deps": 1}],
}
MEMORY_TIMELINE = [[0, 1, 2, 3], [[10, 20], [30, 40]]]


def sqlite_file(statement: str = "CREATE TABLE contacts (x)") -> bytes:
    connection = sqlite3.connect(":memory:")
    connection.execute(statement or "VACUUM")
    content = connection.serialize()
    connection.close()
    return content


def parquet_file() -> bytes:
    buffer = io.BytesIO()
    pl.DataFrame({"a": [1]}).write_parquet(buffer)
    return buffer.getvalue()


def arrow_file() -> bytes:
    buffer = io.BytesIO()
    pl.DataFrame({"a": [1]}).write_ipc(buffer)
    return buffer.getvalue()


def archive_of(name: str) -> bytes:
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w") as archive:
        archive.writestr(name, "{}")
    return buffer.getvalue()


IMPOSTORS: dict[str, tuple[bytes, str]] = {
    "empty": (b"", "empty"),
    "blanks": (b" \n\n", "empty"),
    "empty gzip": (gzip.compress(b""), "empty"),
    "zeros": (bytes(4096), "binary"),
    "binary": (bytes(range(256)) * 16, "binary"),
    "html": (b"<!DOCTYPE html><html><body>Sign in</body></html>", "HTML"),
    "html behind blanks": (b"\n\n  <html><body>Sign in</body></html>", "HTML"),
    "xml": (b'<?xml version="1.0"?><Error><Code>AccessDenied</Code></Error>', "XML"),
    "execution trace": (json.dumps(EXECUTION_TRACE).encode(), "execution trace"),
    "indented execution trace": (json.dumps(EXECUTION_TRACE, indent=2).encode(), "execution trace"),
    "memory timeline": (json.dumps(MEMORY_TIMELINE).encode(), "memory timeline"),
    "gzip of a memory timeline": (gzip.compress(json.dumps(MEMORY_TIMELINE).encode()), "memory timeline"),
    "sqlite": (sqlite_file(), "(tables contacts)"),
    "gzip of sqlite": (gzip.compress(sqlite_file()), "(tables contacts)"),
    "parquet": (parquet_file(), "Parquet"),
    "text": (b"Name,Calls,Time\nkernel,3,12\n", "text"),
    "a table of another program": (b"Start,End,Name\n1,2,lunch\n", "text"),
    "a database without tables": (sqlite_file(""), "SQLite"),
    "german text": ("Größe der Läufe: 3 µs\n".encode() * 20, "text"),
    "other object": (b'{"loss": [1, 2, 3]}', "traceEvents"),
    "other array": (b"[1, 2, 3]", "traceEvents"),
    "number": (b"12", "text"),
    "pickle": (pickle.dumps({"segments": []}), "pickle"),
    "hdf": (
        b"\x89HDF\r\n\x1a\n" + bytes(40),
        "an HDF5 file, not a trace. If it is an export of Nsight Systems: `nsys export --type sqlite",
    ),
    "arrow": (
        arrow_file(),
        "an Arrow file, not a trace. If it is an export of Nsight Systems: `nsys export --type sqlite",
    ),
    "zstd": (b"\x28\xb5\x2f\xfd" + bytes(40), "zstd"),
    "bz2": (b"BZh91AY&SY" + bytes(40), "bz2"),
    "elf": (b"\x7fELF\x02\x01\x01" + bytes(60), "ELF"),
    "html zip": (archive_of("index.html"), ".json"),
    "console of nsys": (
        b"loss 0.5\nGenerating '/tmp/nsys-report-2ee6.qdstrm'\nGenerated:\n    /a/b.nsys-rep\n",
        "nsys profile",
    ),
    "console of nsys 2020": (b'Saved report file to "/tmp/nsys-report-0b19.qdrep"\n', "nsys profile"),
    "nvidia-smi inside a console": (b"$ ls\n" * 30 + b"| NVIDIA-SMI 418.67  Driver Version: 418.67 |\n", "text"),
    "log with dates": (b"20240101 12:00:00 INFO step 3\n20240101 12:00:01 12 of 30 done\n", "text"),
    "log with stamps": (b"2024/01/01 12:00:00, step, done\n", "text"),
    "comment on GPUs": (b"# all values of one gpu and its mem in a table\n1 2 3\n", "text"),
    "table with times": (b"timestamp,value\n1,2\n", "text"),
    "execution trace in a zip": (archive_of("et.json"), "traceEvents"),
    "unitrace": (
        b'{ "traceEvents":[\n{"ph": "X", "tid": 4, "pid": 3, "name": "gemm[SIMD32]", "cat": "gpu_op", "ts": 1},\n',
        "unitrace",
    ),
    "torch_npu": (
        b'[{"name": "process_name", "pid": 3, "ph": "M", "args": {"name": "Ascend Hardware"}}, '
        b'{"name": "MatMulV2", "pid": 3, "tid": 2, "ts": "1700.123", "dur": 12.5, "ph": "X", "args": {}}]',
        "Ascend",
    ),
}


@pytest.mark.parametrize("kind", IMPOSTORS)
def test_impostors_are_named(tmp_path: Path, kind: str) -> None:
    content, word = IMPOSTORS[kind]
    path = tmp_path / "some.trace.json"
    path.write_bytes(content)
    with pytest.raises(NotATraceError) as caught:
        convert(path, tmp_path / "spool", Options())
    message = str(caught.value)
    assert "\n" not in message
    assert str(path) in message
    assert word in message
    assert message.count(". ") >= 1 or kind == "html zip", "a remedy follows the diagnosis"
    assert caught.value.exit_code == 1
    assert not list(tmp_path.glob("spool/**/*.parquet"))


@pytest.mark.parametrize("size", [100_000, 500_000])
def test_long_json_without_events(tmp_path: Path, size: int) -> None:
    path = tmp_path / "weights.json"
    path.write_text(json.dumps({"weights": [1] * (size // 3)}), encoding="utf-8")
    with pytest.raises(NotATraceError, match="traceEvents"):
        convert(path, tmp_path / "spool", Options())


def test_long_metadata_before_the_events(tmp_path: Path) -> None:
    trace = everything()
    trace.metadata["INFO"] = ["a log line " * 10] * 4000
    path = tmp_path / "trace.json"
    path.write_text(kineto(trace), encoding="utf-8")
    (manifest,) = convert(path, tmp_path / "spool", Options())
    assert manifest.rows["launches"] == 5


@pytest.mark.parametrize(
    "text", ['{"traceEvents": []}', "[]", '{"schemaVersion": 1, "traceEvents": [\n\n  ], "traceName": "a"}']
)
def test_a_trace_without_events_is_a_trace(tmp_path: Path, text: str) -> None:
    path = tmp_path / "trace.json"
    path.write_text(text, encoding="utf-8")
    (manifest,) = convert(path, tmp_path / "spool", Options())
    assert manifest.trace["launches"] == 0


@pytest.mark.parametrize(
    "action", [lambda path: convert(path, path.parent / "spool", Options()), trace_keys, lambda path: expand([path])]
)
def test_missing_file(tmp_path: Path, action: object) -> None:
    assert callable(action)
    with pytest.raises(UnreadableTraceError, match="no such file"):
        action(tmp_path / "gone.json")


def test_folder_without_traces(tmp_path: Path) -> None:
    (tmp_path / "notes.txt").write_text("x", encoding="utf-8")
    with pytest.raises(NotATraceError, match="no trace in this folder"):
        expand([tmp_path])


def test_damaged_zip(tmp_path: Path) -> None:
    path = tmp_path / "traces.zip"
    path.write_bytes(archive_of("a.json")[:-30])
    with pytest.raises(TraceError, match="zip archive that cannot be read"):
        convert(path, tmp_path / "spool", Options())


def test_damaged_zip_member(tmp_path: Path) -> None:
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("a.json", kineto(everything()))
    content = bytearray(buffer.getvalue())
    content[60:90] = bytes(30)
    path = tmp_path / "traces.zip"
    path.write_bytes(bytes(content))
    assert isinstance(outcome(lambda: convert(path, tmp_path / "spool", Options())), TraceError)


def patched(place: int, value: int) -> bytes:
    """An archive with one member whose headers say something else: `place` counts from the start of the local one."""
    content = bytearray(archive_of("t.json"))
    central = content.rindex(b"PK\x01\x02")
    content[place] = value
    content[central + place + 2] = value
    return bytes(content)


ARCHIVES: dict[str, tuple[bytes, str]] = {
    "encrypted": (patched(6, 0x01), "encrypted"),
    "patched data": (patched(6, 0x20), "patched"),
    "version 9.9": (patched(4, 99), "version 9.9"),
    **{f"method {number}": (patched(8, number), "not supported") for number in (1, 9, 93, 99)},
    "cut": (archive_of("t.json")[:30], "zip"),
}


@pytest.mark.parametrize("kind", ARCHIVES)
def test_an_archive_that_cannot_be_unpacked_costs_itself_only(tmp_path: Path, kind: str) -> None:
    content, word = ARCHIVES[kind]
    (tmp_path / "a.zip").write_bytes(content)
    (tmp_path / "b.json").write_text('{"traceEvents": []}', encoding="utf-8")
    first, second = plan(expand([tmp_path]))
    with pytest.raises(UnreadableTraceError, match=rf"a\.zip: .*{word}.*[Uu]npack|{word}.*again"):
        convert(first, tmp_path / "one", Options())
    assert convert(second, tmp_path / "two", Options())


def test_links_that_lead_back_end(tmp_path: Path) -> None:
    (tmp_path / "one").symlink_to(".")
    (tmp_path / "two").symlink_to(".")
    (tmp_path / "b.json").write_text("[]", encoding="utf-8")
    assert expand([tmp_path]) == [tmp_path / "b.json"]
