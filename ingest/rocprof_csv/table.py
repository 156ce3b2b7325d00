"""A CSV file in slices of rows, as text: cells are quoted in some eras and not in others."""

from __future__ import annotations

import contextlib
import csv
import io
import re
from collections.abc import Iterator
from typing import Final

import polars as pl

from kerneldb.ingest.amd.capture import prefix_of
from kerneldb.ingest.report import Report
from kerneldb.ingest.rocprof_csv.headers import Kind, columns_of, counters_among, kind_of
from kerneldb.ingest.source import Source
from kerneldb.times import SATURATED

OLD: Final = re.compile("BeginNs|Dispatch_ID|Wave_Size|LDS_Per_Workgroup")
"""Columns of rocprof, rocprofv2 and rocprof-compute, which rocprofv3 writes in other letters or not at all."""
ENDINGS: Final = (".gz", ".csv")
SUMS: Final = re.compile(r"\.((?:\w+_)?stats)$")
"""rocprof's sums: `results.stats.csv` of kernels, `results.hip_stats.csv` of calls."""
SLICE_BYTES: Final = 1 << 24
CUT: Final = "the text ends within a row"
INTEGERS: Final = frozenset(
    {"start", "end", "queue", "stream", "dispatch", "correlation", "lds_block", "lds_total", "scratch", "vgpr"}
    | {"agpr", "sgpr", "workgroup", "grid", "size", "graph", "graph_node", "calls", "total_ns", "min_ns", "max_ns"}
    | {f"{side}_{axis}" for side in ("workgroup", "grid") for axis in "xyz"}
)
TIMES: Final = frozenset({"start", "end", "total_ns", "min_ns", "max_ns"})
FLOATS: Final = frozenset({"deviation_ns", "mean_ns"})


class Table:
    """One CSV file. `report` counts its rows; the check sum of `source` is complete after `rows` ran to its end."""

    def __init__(self, source: Source, head: bytes) -> None:
        kind = kind_of(head)
        if kind is None:
            message = f"{source.label}: not a CSV file of rocprof."
            raise ValueError(message)
        self.source = source
        self.kind: Kind = kind
        self.report = Report()
        self.read = 0
        header = head.partition(b"\n")[0].decode("utf-8").strip("\r\n\ufeff")
        self.columns: list[str] = columns_of(header)
        self.is_old = kind == "kernels" and OLD.search(header) is not None

    @property
    def stem(self) -> str:
        """The file's name without what all files of the capture share: `kernel_trace`; of rocprof, `stats`."""
        name = self.source.path.name
        for ending in ENDINGS:
            name = name.removesuffix(ending)
        of_rocprof = SUMS.search(name)
        return of_rocprof.group(1) if of_rocprof else name.removeprefix(prefix_of(self.source.path)).strip("_")

    @property
    def wide_counters(self) -> list[str]:
        """Columns of counters; rocprofv3 has none, and a column that is new there is no counter."""
        return counters_among(self.columns) if self.is_old else []

    @property
    def from_rocpd(self) -> bool:
        """Whether `rocpd convert` wrote the file: it puts the GUID first."""
        return "guid" in self.columns

    def rows(self) -> Iterator[pl.DataFrame]:
        """Slices with known columns as numbers where they are numbers, and all others as text."""
        with contextlib.closing(self.source.blocks()) as blocks:
            first = True
            for text, last in _cut(blocks):
                body = text.partition(b"\n")[2] if first else text
                first = False
                frame = self._parsed(self._whole(body) if last else body)
                self.read += frame.height
                if frame.height:
                    yield _typed(frame)
        if self.source.damage:
            self.report.add("truncated", self.source.damage, 1)
        self.report.add("read", "rows", self.read)

    def _parsed(self, body: bytes) -> pl.DataFrame:
        schema = dict.fromkeys(self.columns, pl.String)
        if not body.strip():
            return pl.DataFrame(schema=schema)
        frame = pl.read_csv(
            io.BytesIO(body),
            has_header=False,
            schema=schema,
            truncate_ragged_lines=True,
            encoding="utf8-lossy",
        )
        return frame.filter(~pl.all_horizontal(pl.all().is_null()))

    def _whole(self, body: bytes) -> bytes:
        """Without a last row that breaks off."""
        if not body or body.endswith((b"\n", b"\r")):
            return body
        before, newline, line = body.rpartition(b"\n")
        fields = next(csv.reader([line.decode("utf-8", errors="replace")]), [])
        if body.count(b'"') % 2 == 0 and len(fields) == len(self.columns):
            return body
        self.report.add("truncated", CUT, 1)
        return before + newline


def _cut(blocks: Iterator[bytes]) -> Iterator[tuple[bytes, bool]]:
    """Texts of whole rows, and whether it is the last one. A line break inside quotes ends no row."""
    rest = b""
    for block in blocks:
        rest += block
        if len(rest) < SLICE_BYTES:
            continue
        end = _row_end(rest)
        if end:
            yield rest[:end], False
            rest = rest[end:]
    yield rest, True


def _row_end(text: bytes) -> int:
    """Offset behind the last line break outside quotes."""
    quotes, at = text.count(b'"'), len(text)
    while (newline := text.rfind(b"\n", 0, at)) >= 0:
        quotes -= text.count(b'"', newline, at)
        if quotes % 2 == 0:
            return newline + 1
        at = newline
    return 0


def _typed(frame: pl.DataFrame) -> pl.DataFrame:
    whole = [_integer(name) for name in frame.columns if name in INTEGERS]
    broken = [pl.col(name).cast(pl.Float64, strict=False) for name in frame.columns if name in FLOATS]
    return frame.with_columns(*whole, *broken)


def _integer(name: str) -> pl.Expr:
    """Whole numbers; rocprof-compute prints some as floats (`8.0`)."""
    text = pl.col(name)
    real = text.cast(pl.Float64, strict=False)
    if name in TIMES:
        real = real.clip(-SATURATED, SATURATED)
    return pl.coalesce(text.cast(pl.Int64, strict=False), real.cast(pl.Int64, strict=False)).alias(name)
