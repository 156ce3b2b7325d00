"""What is no capture, or half of one, is refused in one line with the remedy, and nothing is loaded of it."""

from __future__ import annotations

import gzip
import io
import sqlite3
from typing import TYPE_CHECKING

import polars as pl
import pytest

from kerneldb.errors import NotATraceError, TraceError, UnreadableTraceError
from kerneldb.ingest import Options, convert
from tests.ingest.traces import everything, kineto
from tests.nsys import exports
from tests.nsys.test_exported import parquet_of

if TYPE_CHECKING:
    from pathlib import Path


def refused(path: Path, kind: type[TraceError], pattern: str) -> str:
    spool = path.parent / f"spool-{path.name}"
    with pytest.raises(kind, match=pattern) as caught:
        convert(path, spool, Options())
    message = str(caught.value)
    assert "\n" not in message
    assert path.name in message
    assert not (list(spool.glob("**/manifest.json")) if spool.exists() else [])
    return message


@pytest.mark.parametrize("ending", [".nsys-rep", ".qdrep"])
def test_report_files_name_the_command(tmp_path: Path, ending: str) -> None:
    path = tmp_path / f"run7{ending}"
    path.write_bytes(bytes(range(256)) * 20)
    message = refused(path, NotATraceError, "report file of Nsight Systems")
    assert f"`nsys export --type sqlite --output run7.sqlite run7{ending}`" in message


def test_a_renamed_report_file_is_told_by_its_content(tmp_path: Path) -> None:
    path = tmp_path / "run7.bin"
    path.write_bytes(b"\x00\x01\x02Profiler Report 2025@6@1@190\x00" + bytes(500))
    message = refused(path, NotATraceError, "nsys export --type sqlite")
    assert "2025.6.1" in message


@pytest.mark.parametrize("share", [0.2, 0.5, 0.97])
def test_half_a_database(tmp_path: Path, share: float) -> None:
    path = exports.build(tmp_path / "small.sqlite")
    content = path.read_bytes()
    path.write_bytes(content[: int(len(content) * share)])
    refused(path, UnreadableTraceError, "cut.*export it again")


def test_a_database_with_damaged_pages(tmp_path: Path) -> None:
    path = exports.build(tmp_path / "small.sqlite")
    content = bytearray(path.read_bytes())
    for start in range(4096 * 2, len(content) - 4096, 4096):
        content[start : start + 200] = b"\xff" * 200
    path.write_bytes(bytes(content))
    refused(path, UnreadableTraceError, "SQLite cannot read it")


def test_a_cut_archive_of_a_database(tmp_path: Path) -> None:
    path = exports.build(tmp_path / "small.sqlite")
    packed = tmp_path / "small.sqlite.gz"
    packed.write_bytes(gzip.compress(path.read_bytes())[:-3000])
    refused(packed, TraceError, r"gzip stream|cut")


def test_a_half_written_database(tmp_path: Path) -> None:
    path = exports.build(tmp_path / "small.sqlite")
    (tmp_path / "small.sqlite-journal").write_bytes(b"\xd9\xd5\x05\xf9\x20\xa1\x63\xd7" + bytes(600))
    refused(path, UnreadableTraceError, "did not finish")


def test_another_database(tmp_path: Path) -> None:
    path = tmp_path / "cookies.sqlite"
    with sqlite3.connect(path) as connection:
        connection.execute("CREATE TABLE moz_cookies (id INTEGER)")
    connection.close()
    message = refused(path, NotATraceError, "SQLite database")
    assert "moz_cookies" in message


def test_an_empty_export(tmp_path: Path) -> None:
    path = tmp_path / "run.sqlite"
    path.write_bytes(b"")
    refused(path, NotATraceError, "empty file")


@pytest.mark.parametrize("name", ["run_cuda_gpu_trace.csv", "run_gpukernsum.csv", "run_nvtx_kern_sum.csv.gz"])
def test_an_empty_report(tmp_path: Path, name: str) -> None:
    path = tmp_path / name
    path.write_bytes(gzip.compress(b"") if name.endswith(".gz") else b"")
    message = refused(path, NotATraceError, "empty report")
    assert "nsys export --type sqlite --output run.sqlite run.nsys-rep" in message


def test_a_report_without_gpu_work(tmp_path: Path) -> None:
    path = tmp_path / "run_osrt_sum.csv"
    path.write_text("Time (%),Total Time (ns),Num Calls,Avg (ns),Med (ns),Min (ns),Max (ns),StdDev (ns),Name\n")
    refused(path, NotATraceError, "osrt_sum.*no GPU work")


def test_a_report_that_nsys_skipped(tmp_path: Path) -> None:
    path = tmp_path / "out.csv"
    announced = "Processing [r.sqlite] with [/opt/x/reports/cuda_gpu_trace.py]... "
    path.write_text(f"{announced}SKIPPED: r.sqlite does not contain GPU data.\n")
    refused(path, NotATraceError, "skipped the report cuda_gpu_trace.*does not contain GPU data")


def test_a_row_of_something_else_inside_a_report(tmp_path: Path, root: Path) -> None:
    lines = (root / "tests/fixtures/nsys/r23_cuda_gpu_trace.csv").read_text().splitlines(keepends=True)
    path = tmp_path / "run_cuda_gpu_trace.csv"
    path.write_text("".join([*lines[:4], "Epoch 3: loss 2.5\n", *lines[4:]]))
    refused(path, UnreadableTraceError, "cuda_gpu_trace.*row|row.*cuda_gpu_trace")


def test_a_damaged_parquet_file(tmp_path: Path) -> None:
    folder = parquet_of(exports.build(tmp_path / "small.sqlite"), tmp_path / "small_pqtdir")
    path = folder / "CUPTI_ACTIVITY_KIND_KERNEL.parquet"
    path.write_bytes(path.read_bytes()[:-40])
    with pytest.raises(UnreadableTraceError, match=r"CUPTI_ACTIVITY_KIND_KERNEL.*parquetdir"):
        convert(folder, tmp_path / "spool", Options())


def test_a_single_parquet_file_is_no_export(tmp_path: Path) -> None:
    buffer = io.BytesIO()
    pl.DataFrame({"start": [1]}).write_parquet(buffer)
    path = tmp_path / "CUPTI_ACTIVITY_KIND_KERNEL.parquet"
    path.write_bytes(buffer.getvalue())
    refused(path, NotATraceError, "Parquet")


def test_text_in_a_column_of_numbers(tmp_path: Path) -> None:
    path = exports.build(tmp_path / "small.sqlite")
    with sqlite3.connect(path) as connection:
        connection.execute("UPDATE CUPTI_ACTIVITY_KIND_KERNEL SET gridX = 'many' WHERE correlationId = 3")
    connection.close()
    refused(path, UnreadableTraceError, "column gridX holds 'many'")


@pytest.mark.parametrize("name", ["rank0_nvtx_sum.json", "run_cuda_gpu_trace.json"])
def test_a_pytorch_trace_stays_one_whatever_its_name(tmp_path: Path, name: str) -> None:
    path = tmp_path / name
    path.write_text(kineto(everything()), encoding="utf-8")
    (manifest,) = convert(path, tmp_path / "spool", Options())
    assert manifest.trace["source"] == "pytorch"
