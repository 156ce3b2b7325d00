"""Parquet and Arrow IPC files, written batch by batch."""

from __future__ import annotations

from typing import TYPE_CHECKING, BinaryIO

if TYPE_CHECKING:
    from collections.abc import Iterator

    import pyarrow as pa

ROW_GROUP_ROWS = 131_072
"""Rows of one Parquet row group: enough to compress well, few enough to keep memory flat."""


def write_parquet(sink: BinaryIO, reader: pa.RecordBatchReader) -> int:
    """Write a Parquet file (zstd); returns the number of rows."""
    import pyarrow.parquet as pq

    rows = 0
    with pq.ParquetWriter(sink, reader.schema, compression="zstd") as writer:
        for table in _grouped(reader):
            writer.write_table(table)
            rows += table.num_rows
    return rows


def write_arrow(sink: BinaryIO, reader: pa.RecordBatchReader) -> int:
    """Write an Arrow IPC file (the random-access format, also known as Feather 2); returns the number of rows."""
    import pyarrow as pa

    rows = 0
    with pa.ipc.new_file(sink, reader.schema) as writer:
        for batch in reader:
            writer.write_batch(batch)
            rows += batch.num_rows
    return rows


def _grouped(reader: pa.RecordBatchReader) -> Iterator[pa.Table]:
    import pyarrow as pa

    waiting: list[pa.RecordBatch] = []
    for batch in reader:
        waiting.append(batch)
        if sum(one.num_rows for one in waiting) >= ROW_GROUP_ROWS:
            yield pa.Table.from_batches(waiting, reader.schema)
            waiting = []
    if waiting:
        yield pa.Table.from_batches(waiting, reader.schema)
