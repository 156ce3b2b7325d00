"""Parquet and Arrow IPC files, written batch by batch."""

from __future__ import annotations

from typing import TYPE_CHECKING, BinaryIO

if TYPE_CHECKING:
    from collections.abc import Iterator

    import pyarrow as pa

ROW_GROUP_ROWS = 131_072
"""Rows of one Parquet row group: enough to compress well, few enough to keep memory flat."""


def write_parquet(sink: BinaryIO, reader: pa.RecordBatchReader) -> int:
    """Write a Parquet file (zstd); returns the number of rows.

    Intervals, for which Parquet has no type that pyarrow writes, become JSON text, as in CSV.
    """
    import pyarrow.parquet as pq

    rows = 0
    reader = _without_intervals(reader)
    with pq.ParquetWriter(sink, reader.schema, compression="zstd") as writer:
        for table in _grouped(reader):
            writer.write_table(table)
            rows += table.num_rows
    return rows


def _without_intervals(reader: pa.RecordBatchReader) -> pa.RecordBatchReader:
    import pyarrow as pa

    from kerneldb.output.records import as_text

    places = [index for index, field in enumerate(reader.schema) if _holds_interval(field.type)]
    if not places:
        return reader
    schema = reader.schema
    for index in places:
        schema = schema.set(index, pa.field(schema.field(index).name, pa.string()))

    def converted(batch: pa.RecordBatch) -> pa.RecordBatch:
        columns = [as_text(column) if index in places else column for index, column in enumerate(batch.columns)]
        return pa.RecordBatch.from_arrays(columns, schema=schema)

    return pa.RecordBatchReader.from_batches(schema, map(converted, reader))


def _holds_interval(kind: pa.DataType) -> bool:
    import pyarrow as pa

    if pa.types.is_interval(kind):
        return True
    return any(_holds_interval(kind.field(index).type) for index in range(kind.num_fields))


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
