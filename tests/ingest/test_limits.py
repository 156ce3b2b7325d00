"""What an input may cost, the guard around each file of a batch, and long and many names."""

from __future__ import annotations

import functools
import gzip
import os
import tempfile
import time
import zipfile
from pathlib import Path
from typing import cast

import duckdb
import polars as pl
import pytest

import kerneldb
from kerneldb import files, ingest, limits
from kerneldb.api.ingestion import IngestOptions
from kerneldb.batch import write_part
from kerneldb.errors import NotATraceError, UnreadableTraceError, UsageError
from kerneldb.files import of_disk
from kerneldb.ingest import Options, convert, expand
from kerneldb.ingest.columns import frame_of
from kerneldb.ingest.output import Report
from kerneldb.names import decode
from tests.ingest.traces import everything, kineto

GROWTH = 1.5
BAD = (b"", b"PK\x03\x04broken", b"<html>login</html>", b"\x00\xff" * 50, b"SQLite format 3\x00" + b"\x01" * 600)


def trace(path: Path, text: bytes | None = None) -> Path:
    path.write_bytes(kineto(everything()).encode() if text is None else text)
    return path


def packed(path: Path, members: dict[str, bytes]) -> Path:
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, content in members.items():
            archive.writestr(name, content)
    return path


def refused(path: Path, spool: Path) -> str:
    with pytest.raises(UnreadableTraceError) as caught:
        convert(path, spool, Options())
    return str(caught.value)


@pytest.mark.parametrize("variable", ["KERNELDB_MAX_MEMORY", "KERNELDB_MAX_NAME", "KERNELDB_MAX_MEMBERS"])
def test_a_limit_is_named_with_its_variable(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, variable: str) -> None:
    given = packed(tmp_path / "a.zip", {"a.json": kineto(everything()).encode(), "b.json": b"{}"})
    convert(trace(tmp_path / "a.json"), tmp_path / "without", Options())
    monkeypatch.setenv(variable, "1")
    said = refused(given, tmp_path / "spool")
    assert said.startswith(str(given))
    assert f"more than {variable} allows (1). If you trust the file, set {variable} higher." in said


def test_an_archive_that_explodes_is_refused_early(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(limits, "ALWAYS_BYTES", 1 << 20)
    bomb = tmp_path / "bomb.json.gz"
    bomb.write_bytes(gzip.compress(b'{"traceEvents": [' + b" " * (8 << 20)))
    assert "KERNELDB_MAX_RATIO" in refused(bomb, tmp_path / "spool")
    monkeypatch.setenv("KERNELDB_MAX_RATIO", "0")
    convert(bomb, tmp_path / "spool", Options())


def test_folders_in_folders(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    inner = tmp_path / "a" / "b" / "c"
    inner.mkdir(parents=True)
    trace(inner / "t.json")
    assert expand([tmp_path]) == [inner / "t.json"]
    monkeypatch.setenv("KERNELDB_MAX_DEPTH", "2")
    with pytest.raises(UnreadableTraceError, match="folders in 3 folders, more than KERNELDB_MAX_DEPTH allows"):
        expand([tmp_path])


def test_a_limit_that_is_no_number(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("KERNELDB_MAX_NAME", "much")
    with pytest.raises(UsageError, match="KERNELDB_MAX_NAME='much' is no number"):
        limits.NAME.value()
    monkeypatch.setenv("KERNELDB_MAX_NAME", "1.5 KiB")
    assert limits.NAME.value() == 1536


def test_of_a_batch_only_the_bad_files_are_left_out(tmp_path: Path) -> None:
    """Every second file is damaged in its own way."""
    paths = []
    for number, bad in enumerate(BAD):
        text = kineto(everything()).replace("gemm", f"gemm{number}").encode()
        paths += [trace(tmp_path / f"{number}-bad.json", bad), trace(tmp_path / f"{number}-good.json", text)]
    done = list(kerneldb.open(tmp_path / "k.duckdb").ingest_each(paths, IngestOptions()))
    assert [one.path for one in ingest.plan(paths)] == paths
    assert [one.path for one in done if one.status == "failed"] == paths[::2]
    assert all(str(one.path) in str(one.error) for one in done if one.error is not None)
    assert [one.path for one in done if one.status == "ingested"] == paths[1::2]


def test_a_pipe_is_no_file(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe.json")
    assert "this is a pipe" in refused(tmp_path / "pipe.json", tmp_path / "spool")
    with pytest.raises(NotATraceError, match="no trace in this folder"):
        expand([tmp_path])


def test_whose_disk_is_full() -> None:
    full = UnreadableTraceError("trace.json: cannot be read")
    full.__cause__ = OSError(28, "No space left on device")
    assert str(of_disk(full, Path("here"))).startswith("here: No space left on device. Nothing was lost")
    assert of_disk(UnreadableTraceError("No space left on device (os error 28)"), Path("here")) is None


def test_an_error_that_is_its_own_cause_is_looked_at_once() -> None:
    one, other = ValueError("one"), ValueError("other")
    one.__cause__, other.__cause__ = other, one
    assert of_disk(one, Path("here")) is None


@pytest.mark.parametrize(
    ("error", "folder"),
    [
        (duckdb.IOException('Could not write file "/far/k.duckdb": No space left on device'), "/far"),
        (duckdb.TransactionException('Failed to commit: Could not write file "/far/k.wal": File too large'), "/far"),
        (duckdb.FatalException('Checkpoint failed: Could not fsync file "/far/k": Disk quota exceeded'), "/far"),
        (duckdb.OutOfMemoryException("failed to offload: set by the 'max_temp_directory_size' setting"), "/here"),
    ],
)  # fmt: skip
def test_a_full_disk_in_the_words_of_the_engine(error: Exception, folder: str) -> None:
    found = str(of_disk(error, Path("/here")))
    assert found.startswith(f"{folder}: ")
    assert found.endswith(". Nothing was lost; make room there, and give the command again.")


def test_of_temporary_files_another_folder_is_the_other_remedy(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    text = f'Could not write file "{tmp_path}/kerneldb-spilled-1/a.tmp": No space left on device'
    found = str(of_disk(duckdb.IOException(text), Path("/here")))
    assert found.startswith(f"{tmp_path}: No space left on device.")
    assert found.endswith("or choose another folder for temporary files with TMPDIR")
    for of_a_text in (duckdb.InvalidInputException, duckdb.ConversionException, duckdb.BinderException):
        assert of_disk(of_a_text(text), Path("/here")) is None  # SELECT error(…), or a row, says anything


def test_a_value_that_its_column_does_not_hold_is_unknown_and_counted() -> None:
    report = Report()
    rows = [(1, "a"), (1 << 40, None), (None, "c"), ("x", 3)]
    frame = frame_of(rows, {"device": pl.Int32, "name": pl.String}, report)
    assert frame["device"].to_list() == [1, None, None, None]
    assert report.counts[("unread", "value of device that its column does not hold: left empty")][0] == 2


def seconds(work: object) -> float:
    assert callable(work)
    began = time.process_time()
    work()
    return time.process_time() - began


@pytest.mark.parametrize(
    "letters", ["a", "_", "<", "(", "void f<int, ", "::", "1", " ", "_Z1a", "a<(", "Cijk_", "nvjet_"]
)
def test_a_long_name_costs_time_in_proportion(letters: str) -> None:
    short, long = ((letters * size)[:size] for size in (50_000, 200_000))
    decode(short[:100])
    least = seconds(functools.partial(decode, short))
    assert seconds(lambda: decode(long)) < max(2.0, 4 * GROWTH * least)


def test_a_full_disk_is_named_where_the_writer_of_parquet_does_not(tmp_path: Path) -> None:
    class Frame:
        def write_parquet(self, *_: object, **__: object) -> None:
            raise pl.exceptions.ComputeError("parquet: File out of specification: Invalid thrift: transport error")

    with pytest.raises(pl.exceptions.ComputeError):
        write_part(cast("pl.DataFrame", Frame()), tmp_path / "a.parquet")
    (tmp_path / "b.probe").mkdir()
    with pytest.raises(OSError, match="Is a directory"):
        write_part(cast("pl.DataFrame", Frame()), tmp_path / "b.parquet")


def test_the_limit_of_a_container_counts_without_what_it_keeps_of_files(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, text in (("most", "1000"), ("used", "900"), ("memory.stat", "anon 600\ninactive_file 300\n")):
        (tmp_path / name).write_text(text)
    monkeypatch.setattr(files, "GROUPS", [(str(tmp_path), "most", "used", "inactive_file")])
    assert files.free_memory() == 400
    (tmp_path / "most").write_text("max")
    assert files.free_memory() > 1000
