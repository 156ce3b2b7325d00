"""Figures of `expected-nsight.tsv` about ncu exports, derived from the files by another program."""

from __future__ import annotations

import atexit
import csv
import functools
import json
import re
import shutil
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

import polars as pl
import pytest

from kerneldb.ingest.ncu.log import Log
from kerneldb.ingest.ncu.names import canonical
from kerneldb.ingest.ncu.numbers import Style
from kerneldb.ingest.ncu.table import lines, rows
from kerneldb.ingest.ncu.units import base_unit
from kerneldb.ingest.source import Source
from tests.conftest import SHARED_DATA
from tests.ncu.reading import convert_units

if TYPE_CHECKING:
    from tests.ingest.conversion import Converted

FILE = SHARED_DATA / "expected-nsight.tsv"
PAGES = {"details": "details(long)", "raw": "raw(wide)"}


def _figures() -> list[tuple[str, str, str, str]]:
    if not FILE.is_file():
        return []
    with FILE.open(encoding="utf-8") as file:
        table = csv.reader(file, delimiter="\t", quoting=csv.QUOTE_NONE)
        return [(row[0], row[2], row[3], row[4]) for row in table if len(row) > 4 and row[1] == "ncu_csv"]


FIGURES = _figures()


@functools.cache
def converted(sample: str) -> Converted:
    """The file alone, whatever other pages of its report lie beside it."""
    folder = tempfile.mkdtemp(prefix="kerneldb-test-ncu-")
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    (one,) = convert_units([SHARED_DATA / sample], Path(folder))
    return one


def launch(sample: str, number: str) -> dict[str, object]:
    """The launch that ncu numbers so, with its name."""
    one = converted(sample)
    names = one.table("signatures").join(one.table("kernel_names"), on="name_id").select("signature_id", "name")
    table = one.table("launches").join(names, on="signature_id").filter(pl.col("correlation_id") == int(number))
    return dict(next(table.iter_rows(named=True)))


def durations(sample: str) -> list[int]:
    one = converted(sample).table("launches")
    return sorted(one["duration_ns"].to_list(), reverse=True)


def widths(sample: str) -> str:
    source = Source(SHARED_DATA / sample)
    found = sorted({len(fields) for _, fields in rows(lines(source.blocks()), Log(), source.label)})
    return ",".join(map(str, found))


def of_file(sample: str, key: str) -> str:
    one = converted(sample)
    report = {reason: n for outcome, reason, n in one.rows("ingest_reports", "outcome", "reason", "n")}
    return {
        "columns": lambda: str(json.loads(one.trace["metadata"])["columns"][0]),
        "page": lambda: PAGES[one.table("trace_files")["role"][0]],
        "kernels": lambda: str(one.table("launches").height),
        "metric_rows": lambda: str(report["rows of metrics"]),
        "row_widths": lambda: widths(sample),
    }[key]()


def check_metric(sample: str, number: str, key: str, expected: str, note: str) -> None:
    section, slash, label = key.rpartition("/") if not re.search(r"__", key) else ("", "", key)
    if slash and key.count("/") > 1:
        section, _, label = key.partition("/")
    metric = canonical(label, section or None)
    index = launch(sample, number)["launch_index"]
    table = converted(sample).table("metrics")
    found = table.filter(
        (pl.col("launch_index") == index) & (pl.col("metric") == metric) & pl.col("instance").is_null()
    )
    assert found.height == 1
    value, precision = found["value"][0], found["precision"][0]
    if expected == "NULL":
        assert value is None
        assert found["text"][0] in {"n/a", "no data"}
        return
    seen = re.fullmatch(r'raw "(.*)" (.*)', note)
    assert seen is not None
    read = Style().read(seen[1], base_unit(seen[2])[0])
    assert read is not None
    assert float(expected) == pytest.approx(read[0], rel=1e-12)
    assert abs(value - float(expected)) <= (0 if value == float(expected) else read[1] + precision)


@pytest.mark.parametrize(("sample", "key", "expected", "note"), FIGURES, ids=[f"{row[0]}-{row[1]}" for row in FIGURES])
def test_figure(sample: str, key: str, expected: str, note: str, shared_data: Path) -> None:
    assert (shared_data / sample).is_file()
    metric = re.fullmatch(r"id(\d+)\.(.*)", key)
    top = re.fullmatch(r"top(\d)_ns", key)
    if metric and metric[2] == "kernel":
        assert str(launch(sample, metric[1])["name"])[: len(expected)] == expected
    elif metric:
        check_metric(sample, metric[1], metric[2], expected, note)
    elif top:
        assert durations(sample)[int(top[1]) - 1] == float(expected)
    elif key == "time_ns_total":
        assert sum(durations(sample)) == float(expected)
    else:
        assert of_file(sample, key) == expected


def test_that_there_are_figures(shared_data: Path) -> None:
    assert shared_data.is_dir()
    assert len(FIGURES) == 618
