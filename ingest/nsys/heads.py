"""Tells files of Nsight Systems from their first bytes: exports, printed reports, and what only looks like them."""

from __future__ import annotations

import csv
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from kerneldb.ingest import sqlite
from kerneldb.ingest.nsys import columns
from kerneldb.ingest.readers import Head

REPORT_ENDINGS: Final = (".nsys-rep", ".qdrep", ".qdstrm", ".nsys-rep.gz")
REPORT_MARK: Final = re.compile(rb"Profiler Report (\d+)@(\d+)@(\d+)@(\d+)")
REPORT_MARK_BYTES: Final = 1 << 14
TABLES: Final = ("CUPTI_ACTIVITY_KIND_", "NVTX_EVENTS", "TARGET_INFO_", "META_DATA_", "EXPORT_META_DATA", "ANALYSIS_")
STRINGS: Final = re.compile(r"StringIds(?:_V\d+)?", re.IGNORECASE)
PREAMBLE: Final = re.compile(r"(?:Processing|Exporting) \[(.*?)\]?(?: with \[| )?([\w/.\\: -]*?)(\w+)\.py\b(.*)")
PASTED: Final = re.compile(
    r"^[\s|]*(?:Time ?\(%\)[\s|]{2,}Total Time|Start ?\(\w+\)[\s|]{2,}Duration|API Start ?\(\w+\)[\s|]{2,}API Dur"
    r"|NVTX Range[\s|]{2,}Style|Total(?: \(\w+\))?[\s|]{2,}(?:Count|Operations)[\s|]{2,}Avg)",
    re.MULTILINE,
)
FIRST_OBJECT: Final = re.compile(r"^\[\s*\{([^{}]*)\}", re.MULTILINE)
KEY: Final = re.compile(r'"((?:[^"\\]|\\.)*)"\s*:')
MARKS: Final = re.compile(r"\b(?:Start|Duration|Time|Total|Range|Name)\b")
LINE_LIMIT: Final = 1000
TEXT_BYTES: Final = 4096
ENDINGS: Final = re.compile(r"(?:\.gz|\.csv|\.tsv|\.json|\.txt|\.log|\.sqlite|\.db)+$")


def stem_of(path: Path) -> str:
    """The file name without the endings of text and export files."""
    return ENDINGS.sub("", path.name) or path.name


def fits(head: Head) -> bool:
    """Whether the reader takes the file: to read it, or to say which file to give instead."""
    if sqlite.is_database(head.data):
        return is_export(sqlite.table_names(head))
    if is_report_file(head):
        return True
    named = columns.from_file_name(stem_of(head.path))[1] is not None
    if not head.data.strip():
        return named
    if b"\x00" in head.data[:TEXT_BYTES] or head.data.lstrip().startswith(b"{"):
        return False
    text = head.data.decode("utf-8", errors="replace")
    array = text.lstrip().startswith("[")
    return (named and not array) or next(headers(text), None) is not None or _is_capture(text)


def is_export(tables: frozenset[str]) -> bool:
    """Whether a database with these tables is an export of Nsight Systems."""
    return any(map(STRINGS.fullmatch, tables)) and any(name.startswith(TABLES) for name in tables)


def is_parquet_export(folder: Path) -> bool:
    """Whether a folder is a `parquetdir` export: one Parquet file per table."""
    return is_export(frozenset(path.stem for path in folder.glob("*.parquet")))


def is_report_file(head: Head) -> bool:
    """Whether the file is a report of the profiler itself, which only nsys can read."""
    named = head.path.name.endswith(REPORT_ENDINGS)
    return named or REPORT_MARK.search(head.data[:REPORT_MARK_BYTES]) is not None


def writer_of(head: Head) -> str | None:
    """Version of nsys that wrote a report file, such as 2025.6.1."""
    found = REPORT_MARK.search(head.data)
    return None if found is None else ".".join(part.decode() for part in found.groups()[:3])


def headers(text: str) -> Iterator[tuple[str, list[columns.Column]]]:
    """Name and columns of each report whose header line, or first JSON object, is in `text`."""
    for line in text.splitlines():
        found = header(line)
        if found is not None:
            yield found
    for one in FIRST_OBJECT.finditer(text):
        described = first_object(text[one.start() :])
        if described is not None:
            yield described


def first_object(text: str) -> tuple[str, list[columns.Column]] | None:
    """Name and columns of the report that begins here as a JSON array of objects, else None."""
    found = FIRST_OBJECT.match(text)
    described = [columns.column(key) for key in KEY.findall(found.group(1))] if found else []
    name = columns.kind_of(described)
    return None if name is None else (name, described)


def header(line: str) -> tuple[str, list[columns.Column]] | None:
    """Name and columns of the report whose header this line is (CSV or TSV), else None."""
    if len(line) > LINE_LIMIT or MARKS.search(line) is None:
        return None
    described = [columns.column(name) for name in fields(line)]
    name = columns.kind_of(described)
    return None if name is None else (name, described)


def fields(line: str) -> list[str]:
    """The fields of a header line."""
    return line.split("\t") if "\t" in line else next(csv.reader([line]), [])


def report_of(line: str) -> tuple[str, frozenset[str]] | None:
    """Report and arguments that nsys announces before it prints (`Processing […/gputrace.py](base)... `), else None."""
    found = PREAMBLE.search(line)
    if found is None:
        return None
    name, rest = found.group(3), found.group(4)
    arguments = frozenset(re.findall(r"nvtx-name|base|mangled", rest.split("...")[0]))
    return columns.OLD_NAMES.get(name, name), arguments


def _is_capture(text: str) -> bool:
    return PREAMBLE.search(text) is not None or PASTED.search(text) is not None
