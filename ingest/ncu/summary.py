"""Pages of `--print-summary per-kernel`: sums over the launches of a kernel, without the launches."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import polars as pl

from kerneldb.batch import Manifest, Spool
from kerneldb.errors import UnreadableTraceError
from kerneldb.ingest.finishing import file_row, finish, trace_row
from kerneldb.ingest.ncu import launches, nvtx, stems
from kerneldb.ingest.ncu.kernels import Kernel, is_identity
from kerneldb.ingest.ncu.log import Log
from kerneldb.ingest.ncu.names import canonical
from kerneldb.ingest.ncu.units import base_unit
from kerneldb.ingest.options import Options
from kerneldb.ingest.signing import PRODUCTS, Signer
from kerneldb.times import whole_ns

if TYPE_CHECKING:
    from kerneldb.ingest.ncu.convert import File
    from kerneldb.ingest.ncu.numbers import Style

SPREAD: Final = {"Average": None, "Minimum": "min", "Maximum": "max"}
"""Column → instance of the metric."""
DURATION: Final = "gpu__time_duration.sum"
READER_VERSION: Final = 1
METRICS: Final[dict[str, type[pl.DataType]]] = {
    "row": pl.Int64,
    "metric": pl.String,
    "value": pl.Float64,
    "text": pl.String,
    "unit": pl.String,
    "precision": pl.Float64,
    "instance": pl.String,
    "source_metric": pl.String,
    "section": pl.String,
}
ROLLUPS: Final[dict[str, type[pl.DataType]]] = {
    "row": pl.Int64,
    "origin": pl.String,
    "device": pl.Int32,
    "phase": pl.String,
    "timing": pl.String,
    "n": pl.Int64,
    "timed": pl.Int64,
    "total_ns": pl.Int64,
    "min_ns": pl.Int64,
    "max_ns": pl.Int64,
}


def convert(files: list[File], folder: Path, options: Options) -> Manifest:
    """The spool of a summary. Raises UnreadableTraceError where other pages stand in the same file."""
    for file in files:
        if file.pages != ("summary",) or len(files) > 1:
            message = f"{file.source.label}: a summary beside other pages. Put each page into a file of its own."
            raise UnreadableTraceError(message)
    file, spool = files[0], Spool(folder)
    kinds = _kernels(file)
    signer = Signer()
    signed = signer.sign(launches.frame([launches.launch_of(kernel, at) for at, kernel in enumerate(kinds)]))
    ids = signed.select(pl.col("launch_index").alias("row"), "signature_id", "device")
    row = _trace(file, options)
    traced = pl.lit(row["trace_id"]).alias("trace_id")
    metrics = pl.DataFrame(list(_metrics(file)), schema=METRICS, orient="row")
    spool.write("metrics", metrics.join(ids.drop("device"), on="row", how="left").drop("row").with_columns(traced))
    sums = pl.DataFrame(list(_sums(kinds, metrics, file.style)), schema=ROLLUPS, orient="row")
    spool.write("rollups", sums.join(ids.drop("device"), on="row", how="left").drop("row").with_columns(traced))
    spool.write("signatures", signer.signatures().drop([name for name in PRODUCTS if name not in signed.columns]))
    spool.write("kernel_names", signer.names())
    devices = {kernel.identity.get("Device"): launches.device_row(kernel, {}) for kernel in kinds}
    spool.write("devices", pl.DataFrame(list(devices.values()), schema=launches.DEVICES).with_columns(traced))
    file.report.add("stored", "kernels of a summary", len(kinds))
    return finish(spool, row, [file_row(file.source, "summary", file.records)], [file.report])


def _records(file: File) -> Iterator[tuple[dict[str, str], dict[str, str]]]:
    from kerneldb.ingest.ncu.convert import rows_of
    from kerneldb.ingest.source import Source

    for header, fields in rows_of(Source(file.source.path), Log()):
        row = dict(zip(header.columns, fields, strict=False))
        yield {name: text for name, text in row.items() if is_identity(name)}, row


def _kernels(file: File) -> list[Kernel]:
    found: dict[tuple[str, ...], Kernel] = {}
    for identity, _ in _records(file):
        found.setdefault(tuple(identity.values()), Kernel(identity, "summary"))
    return list(found.values())


def _metrics(file: File) -> Iterator[tuple[Any, ...]]:
    order: dict[tuple[str, ...], int] = {}
    for identity, row in _records(file):
        at = order.setdefault(tuple(identity.values()), len(order))
        metric = canonical(row["Metric Name"], row.get("Section Name"), row.get("Body Item Label") or None)
        exponent, unit = base_unit(row["Metric Unit"])
        for column, instance in SPREAD.items():
            text = row.get(column)
            if text:
                value, precision = file.style.read(text, exponent) or (None, None)
                kept = text if value is None else None
                yield (at, metric, value, kept, unit, precision, instance, row["Metric Name"], row.get("Section Name"))


def _sums(kinds: list[Kernel], metrics: pl.DataFrame, style: Style) -> Iterator[tuple[Any, ...]]:
    timed = metrics.filter(pl.col("metric") == DURATION)
    spread = {(row["row"], row["instance"]): row["value"] for row in timed.iter_rows(named=True)}
    for at, kernel in enumerate(kinds):
        number = style.read(kernel.identity.get("Invocations") or "1")
        n = 1 if number is None else int(number[0])
        average, low, high = (spread.get((at, name)) for name in SPREAD.values())
        total = None if average is None else whole_ns(average * n)
        device = launches.device_row(kernel, {})["device"]
        shortest, longest = (whole_ns(value) for value in (low, high))
        path = [
            name
            for column, cell in kernel.identity.items()
            if column.startswith("Range:")
            for name in nvtx.ranges(cell)
        ]
        phase = nvtx.phase_of(path)
        yield at, "report", device, phase, "profiled", n, n if average is not None else 0, total, shortest, longest


def _trace(file: File, options: Options) -> dict[str, Any]:
    path = file.source.path
    return trace_row(
        [file.source],
        options,
        stems.common([path]),
        kind="summary",
        source="ncu",
        tool="Nsight Compute",
        era="ncu csv summary",
        has_shapes=False,
        has_stacks=False,
        launches=0,
        metadata=json.dumps({"columns": [file.columns]}),
        reader_version=READER_VERSION,
    )
