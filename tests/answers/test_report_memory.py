"""The memory at the peak in a report: the rows of a device add up to it; without allocations there is no section."""

from __future__ import annotations

import gzip
import json
from pathlib import Path

import pytest

import kerneldb
from kerneldb.report import gather, markdown
from kerneldb.report.model import Table

pytestmark = pytest.mark.again

FIXTURES = Path(__file__).parents[1] / "fixtures"


def test_what_is_held_at_the_peak_is_all_that_is_in_use(tmp_path: Path) -> None:
    path = FIXTURES / "stacks-memory-h200.json.gz"
    database = kerneldb.open(tmp_path / "k.duckdb")
    database.ingest(path)
    report = gather.single(database, ["stacks-memory-h200"])
    (section,) = [one for one in report.sections if one.title == gather.MEMORY]
    events = json.loads(gzip.decompress(path.read_bytes()))["traceEvents"]
    totals = [event["args"]["Total Allocated"] for event in events if event.get("name") == "[memory]"]
    operators, lines = section.blocks
    assert isinstance(operators, Table)
    assert isinstance(lines, Table)
    assert sum(row["at_peak_bytes"] for row in operators.rows) == max(totals)
    assert {row["name"] for row in lines.rows} >= {"record.py(103): step"}
    assert section.text == (
        "cuda 0: at most 69.5 MB in use, 1.12 ms after the first launch, of 71.3 MB that the allocator had reserved."
    )
    assert "| (before the recording)" in markdown.page(report).replace("`", "")


def test_without_allocations_a_report_says_nothing_of_memory(tmp_path: Path) -> None:
    database = kerneldb.open(tmp_path / "k.duckdb")
    database.ingest(FIXTURES / "exchanges-tp2-h200" / "rank0")
    titles = [one.title for one in gather.single(database, ["exchanges-script-rank0"]).sections]
    assert gather.MEMORY not in titles


def test_a_peak_of_another_clock_has_no_time(shared_data: Path, tmp_path: Path) -> None:
    """The files of the documentation are of different runs: this one's memory was read 2.8 days before its launches."""
    database = kerneldb.open(tmp_path / "k.duckdb")
    database.ingest(sorted((shared_data / "rocprof").glob("rocprofv3_docs_*.csv")))
    report = gather.single(database, ["rocprofv3_docs"])
    (text,) = [one.text for one in report.sections if one.title == gather.MEMORY]
    assert text == "hip 0: at most 2.05 KB in use."
