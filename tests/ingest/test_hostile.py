"""Files made to do harm: each is refused in one line with a remedy, or read with what is wrong in it counted."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

import kerneldb
from kerneldb.api.ingestion import IngestOptions
from kerneldb.errors import TraceError

if TYPE_CHECKING:
    from pathlib import Path

    from kerneldb import Database

REFUSED = {
    "crc.zip": "Bad CRC-32",
    "enc.zip": "encrypted",
    "lzmabad.zip": "Corrupt input data",
    "m_aes.zip": "not supported",
    "m_deflate64.zip": "not supported",
    "m_shrink.zip": "not supported",
    "m_zstd.zip": "not supported",
    "offs.zip": "Truncated file header",
    "patched.zip": "patched data",
    "ver.zip": "version 9.9",
    "stray-cr-ncu.csv": "carriage return",
    "endless-view.sqlite": "which no profiler writes",
    "bundle-absolute-file": "expected the name of a file in the folder",
}
READ = {
    "duration-5e15.json": "duration",
    "negative-duration.json": "",
    "negative-duration-nsys.sqlite": "",
    "negative_kernel_trace.csv": "",
}


@pytest.fixture
def database(tmp_path: Path) -> Database:
    return kerneldb.open(tmp_path / "k.duckdb")


def test_all_are_here(field: Path) -> None:
    assert {path.name for path in (field / "hostile").iterdir()} == {*REFUSED, *READ, "bundle-bad-version"}


@pytest.mark.parametrize("name", REFUSED)
def test_it_is_refused_in_one_line_with_a_remedy(field: Path, database: Database, name: str) -> None:
    with pytest.raises(TraceError, match=REFUSED[name]) as caught:
        database.ingest(field / "hostile" / name)
    message = str(caught.value)
    assert "\n" not in message
    assert "report it" not in message
    assert message.endswith(".")
    assert name in message


@pytest.mark.parametrize("name", READ)
def test_odd_times_are_counted_and_sums_of_all_traces_work(field: Path, database: Database, name: str) -> None:
    (one,) = database.ingest(field / "hostile" / name)
    refused = [entry for entry in one.report if entry.outcome == "refused"]
    assert refused, one.report
    for question in ("FROM gpu_time()", "FROM top_kernels()", "FROM time_by('category')", "FROM trace_overview"):
        database.sql(question)
    (least,) = database.sql("SELECT min(duration_ns) AS least FROM all_launches").arrow().to_pylist()
    assert (least["least"] or 0) >= 0


def test_a_damaged_recording_does_not_hide_the_one_beside_it(field: Path, database: Database) -> None:
    bad, good = database.ingest_each([field / "hostile" / "bundle-bad-version"], IngestOptions())
    assert "Infinity is not a JSON number" in str(bad.error)
    assert good.status == "ingested"
