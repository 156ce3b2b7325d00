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
from kerneldb.ingest.nsys import text
from tests.ingest.conversion import convert_file
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
    refused(path, UnreadableTraceError, "SQLite cannot read it|as in a damaged file")


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
    refused(path, NotATraceError, "osrt_sum holds no rows: nothing was recorded")
    path = tmp_path / "run_wddm_queue_sum.csv"
    path.write_text("Utilization (%),Instances,Avg (ns),Med (ns),Name,Q Type,Q Name\n1.0,2,3.0,3.0,a,1,b\n")
    refused(path, NotATraceError, "wddm_queue_sum.*no GPU work.*queues of the Windows driver")


def test_units_that_are_not_known(tmp_path: Path, root: Path) -> None:
    text = (root / "tests/fixtures/nsys/r23_cuda_gpu_trace.csv").read_text()
    path = tmp_path / "run_cuda_gpu_trace.csv"
    path.write_text(text.replace("Duration (ns)", "Duration (ticks)", 1))
    refused(path, NotATraceError, r"cuda_gpu_trace has columns in units that are not known \(Duration \(ticks\)\)")


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


CUTS = {
    "short": ("1030000,999,4\n", r"line 5 has 3 fields where the report cuda_gpu_trace has \d+"),
    "long": ("," * 30 + "\n", r"line 5 has 31 fields where the report cuda_gpu_trace has \d+"),
    "quoted": ('1030000,999,"4\n', "line 5 has an open quote"),
}


@pytest.mark.parametrize("kind", CUTS)
@pytest.mark.parametrize("place", ["inside", "last"])
def test_a_row_of_another_width_names_its_line(tmp_path: Path, root: Path, kind: str, place: str) -> None:
    lines = (root / "tests/fixtures/nsys/r23_cuda_gpu_trace.csv").read_text().splitlines(keepends=True)
    row, pattern = CUTS[kind]
    path = tmp_path / "run_cuda_gpu_trace.csv"
    path.write_text("".join([*lines[:4], row, *(lines[4:] if place == "inside" else [])]))
    refused(path, UnreadableTraceError, pattern)


@pytest.mark.parametrize("name", ["r23_cuda_gpu_sum.csv", "r23_cuda_gpu_kern_sum.tsv", "console_2022.4.csv"])
def test_a_sum_that_lost_its_end_names_its_line(tmp_path: Path, root: Path, name: str) -> None:
    lines = (root / "tests/fixtures/nsys" / name).read_text().splitlines(keepends=True)
    last = max(number for number, line in enumerate(lines) if line.count(",") + line.count("\t") > 6)
    separator = "\t" if name.endswith("tsv") else ","
    lines[last] = separator.join(lines[last].split(separator)[:5]) + "\n"
    path = tmp_path / name
    path.write_text("".join(lines))
    refused(path, UnreadableTraceError, f"line {last + 1} has 5 fields")


def test_the_line_counts_across_pieces(tmp_path: Path, root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(text, "PIECE_BYTES", 100)
    lines = (root / "tests/fixtures/nsys/r23_cuda_gpu_trace.csv").read_text().splitlines(keepends=True)
    path = tmp_path / "run_cuda_gpu_trace.csv"
    path.write_text("".join(["a word first\n", *lines, *lines[1:], "1,2\n", lines[1]]))
    refused(path, UnreadableTraceError, f"line {2 * len(lines) + 1} has 2 fields")


@pytest.mark.parametrize("ending", ["\n", "\r\n", ""])
def test_a_header_alone(tmp_path: Path, root: Path, ending: str) -> None:
    header = (root / "tests/fixtures/nsys/r23_cuda_gpu_trace.csv").read_text().splitlines()[0]
    path = tmp_path / "my run_cuda_gpu_trace.csv"
    path.write_text(header + ending)
    message = refused(path, NotATraceError, "cuda_gpu_trace holds no rows: nothing was recorded")
    assert "--output 'my run.sqlite' 'my run.nsys-rep'`" in message


def test_an_empty_report_beside_a_filled_one_is_noted(tmp_path: Path, root: Path) -> None:
    folder = root / "tests" / "fixtures" / "nsys"
    header = (folder / "r23_cuda_gpu_trace.csv").read_text().splitlines()[0]
    path = tmp_path / "out.csv"
    path.write_text(f"{header}\n\n{(folder / 'r23_cuda_gpu_sum.csv').read_text()}")
    converted = convert_file(path, tmp_path / "spool")
    assert converted.trace["kind"] == "summary"
    assert converted.report("note") == {"report cuda_gpu_trace has no rows": 1}


def test_names_with_blanks_are_quoted(tmp_path: Path) -> None:
    path = tmp_path / "my.run 7.nsys-rep"
    path.write_bytes(b"x")
    message = refused(path, NotATraceError, "report file")
    assert "`nsys export --type sqlite --output 'my.run 7.sqlite' 'my.run 7.nsys-rep'`" in message


def test_a_damaged_parquet_file(tmp_path: Path) -> None:
    folder = parquet_of(exports.build(tmp_path / "small.sqlite"), tmp_path / "small_pqtdir")
    path = folder / "CUPTI_ACTIVITY_KIND_KERNEL.parquet"
    path.write_bytes(path.read_bytes()[:-40])
    with pytest.raises(UnreadableTraceError, match=r"CUPTI_ACTIVITY_KIND_KERNEL.*parquetdir"):
        convert(folder, tmp_path / "spool", Options())


@pytest.mark.parametrize("kept", ["*", "CUPTI_ACTIVITY_KIND_KERNEL.parquet"])
def test_a_folder_without_names(tmp_path: Path, kept: str) -> None:
    """As `nsys export --tables=…` leaves it: kernels have numbers in place of names."""
    whole = parquet_of(exports.build(tmp_path / "small.sqlite"), tmp_path / "whole_pqtdir")
    folder = tmp_path / "small_pqtdir"
    folder.mkdir()
    for path in whole.glob(kept):
        if path.stem != "StringIds":
            path.rename(folder / path.name)
    with pytest.raises(
        UnreadableTraceError, match=r"small_pqtdir: an export .* without the table StringIds.*parquetdir"
    ):
        convert(folder, tmp_path / "spool", Options())


def test_a_database_without_names(tmp_path: Path) -> None:
    path = exports.build(tmp_path / "small.sqlite")
    with sqlite3.connect(path) as connection:
        connection.execute("DROP TABLE StringIds")
    connection.close()
    refused(path, UnreadableTraceError, "without the table StringIds.*--type sqlite")


def test_a_single_parquet_file_is_no_export(tmp_path: Path) -> None:
    buffer = io.BytesIO()
    pl.DataFrame({"start": [1]}).write_parquet(buffer)
    path = tmp_path / "CUPTI_ACTIVITY_KIND_KERNEL.parquet"
    path.write_bytes(buffer.getvalue())
    refused(path, NotATraceError, "Parquet")


def test_text_in_a_column_of_numbers_is_unknown(tmp_path: Path) -> None:
    path = exports.build(tmp_path / "small.sqlite")
    with sqlite3.connect(path) as connection:
        connection.execute("UPDATE CUPTI_ACTIVITY_KIND_KERNEL SET gridX = 'many' WHERE correlationId = 3")
    connection.close()
    reports = convert_file(path, tmp_path / "spool").table("ingest_reports")
    reports = reports.filter(pl.col("reason").str.contains("column gridX"))
    assert reports.select("outcome", "n", "example").rows() == [("unread", 1, "'many'")]


@pytest.mark.parametrize("name", ["rank0_nvtx_sum.json", "run_cuda_gpu_trace.json"])
def test_a_pytorch_trace_stays_one_whatever_its_name(tmp_path: Path, name: str) -> None:
    path = tmp_path / name
    path.write_text(kineto(everything()), encoding="utf-8")
    (manifest,) = convert(path, tmp_path / "spool", Options())
    assert manifest.trace["source"] == "pytorch"


def test_reports_of_two_recordings_in_one_text(tmp_path: Path) -> None:
    text = "".join(
        f"Processing [{name}.sqlite] with [/opt/reports/cuda_gpu_kern_sum.py]... \n"
        f"Time (%),Total Time (ns),Instances,Avg (ns),Med (ns),Min (ns),Max (ns),StdDev (ns),Name\n"
        f"100.0,5,1,5.0,5.0,5,5,0.0,k\n\n"
        for name in ("a", "b")
    )
    (tmp_path / "all.csv").write_text(text)
    with pytest.raises(NotATraceError, match=r"several recordings \(a\.sqlite, b\.sqlite\)"):
        convert_file(tmp_path / "all.csv", tmp_path / "spool")
