"""Figures of `expected-nsight.tsv` about ncu exports, derived from the files by another program."""

from __future__ import annotations

import csv
import functools
import json
import re
from typing import TYPE_CHECKING

import polars as pl
import pytest

from kerneldb.ingest.ncu.kernels import canonical
from kerneldb.ingest.ncu.numbers import Style, base_unit
from kerneldb.ingest.ncu.table import Log, lines, rows
from kerneldb.ingest.source import Source
from tests.conftest import SHARED_DATA
from tests.ncu.reading import of_sample

if TYPE_CHECKING:
    from pathlib import Path

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
def launches(sample: str) -> dict[str, tuple[int, str]]:
    """Index and name of the launches by the number that ncu gives them."""
    one = of_sample(sample)
    names = one.table("signatures").join(one.table("kernel_names"), on="name_id").select("signature_id", "name")
    table = one.table("launches").join(names, on="signature_id").select("correlation_id", "launch_index", "name")
    return {str(number): (index, name) for number, index, name in table.iter_rows()}


@functools.cache
def metrics(sample: str) -> dict[tuple[int, str], list[tuple[float | None, float | None, str | None]]]:
    """Value, precision and text of what is no instance, by launch and metric."""
    found: dict[tuple[int, str], list[tuple[float | None, float | None, str | None]]] = {}
    table = of_sample(sample).table("metrics").filter(pl.col("instance").is_null())
    for index, metric, *told in table.select("launch_index", "metric", "value", "precision", "text").iter_rows():
        found.setdefault((index, metric), []).append((told[0], told[1], told[2]))
    return found


def durations(sample: str) -> list[int]:
    one = of_sample(sample).table("launches")
    return sorted(one["duration_ns"].to_list(), reverse=True)


def widths(sample: str) -> str:
    source = Source(SHARED_DATA / sample)
    found = sorted({len(fields) for _, fields in rows(lines(source.blocks()), Log(), source.label)})
    return ",".join(map(str, found))


def of_file(sample: str, key: str) -> str:
    one = of_sample(sample)
    report = {reason: n for outcome, reason, n in one.rows("ingest_reports", "outcome", "reason", "n")}
    return {
        "columns": lambda: str(json.loads(one.trace["metadata"])["columns"][0]),
        "page": lambda: PAGES[one.table("trace_files")["role"][0]],
        "kernels": lambda: str(one.table("launches").height),
        "metric_rows": lambda: str(report["rows of metrics"]),
        "row_widths": lambda: widths(sample),
    }[key]()


def fits(sample: str, number: str, key: str, expected: str, note: str) -> bool:
    """Whether a metric of a launch has the expected value within the digits that ncu printed."""
    section, slash, label = key.rpartition("/") if not re.search(r"__", key) else ("", "", key)
    if slash and key.count("/") > 1:
        section, _, label = key.partition("/")
    found = metrics(sample).get((launches(sample)[number][0], canonical(label, section or None)), [])
    if len(found) != 1:
        return False
    value, precision, text = found[0]
    if expected == "NULL":
        return value is None and text in {"n/a", "no data"}
    seen = re.fullmatch(r'raw "(.*)" (.*)', note)
    read = Style().read(seen[1], base_unit(seen[2])[0]) if seen else None
    if read is None or value is None or float(expected) != pytest.approx(read[0], rel=1e-12):
        return False
    return abs(value - float(expected)) <= (0 if value == float(expected) else read[1] + (precision or 0))


def agrees(sample: str, key: str, expected: str, note: str) -> bool:
    """Whether a figure is that of the converted tables."""
    metric = re.fullmatch(r"id(\d+)\.(.*)", key)
    top = re.fullmatch(r"top(\d)_ns", key)
    if metric and metric[2] == "kernel":
        return launches(sample)[metric[1]][1][: len(expected)] == expected
    if metric:
        return fits(sample, metric[1], metric[2], expected, note)
    if top:
        return durations(sample)[int(top[1]) - 1] == float(expected)
    if key == "time_ns_total":
        return sum(durations(sample)) == float(expected)
    return of_file(sample, key) == expected


@pytest.mark.parametrize("sample", sorted({row[0] for row in FIGURES}))
def test_figures(sample: str, shared_data: Path) -> None:
    assert (shared_data / sample).is_file()
    figures = [row for row in FIGURES if row[0] == sample]
    assert [row for row in figures if not agrees(*row)] == []


def test_that_there_are_figures(shared_data: Path) -> None:
    assert shared_data.is_dir()
    assert len(FIGURES) == 618
