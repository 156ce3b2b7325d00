"""CSV, JSON and NDJSON; Parquet and Arrow IPC files, written batch by batch.

JSON follows what most readers accept: dates as ISO 8601, NaN and infinities as null (JSON has no such numbers), binary
as base64, exact decimals as numbers, intervals as [months, days, nanoseconds]. CSV quotes text only where it must, and
an empty text, so that it differs from NULL, which stays empty; it ends lines with a line feed, and holds nested
values as JSON text and binary as hex. On request no text of a CSV is a formula: spreadsheets run those that they open.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, BinaryIO

from kerneldb.errors import UsageError
from kerneldb.output import values

if TYPE_CHECKING:
    from collections.abc import Iterator

    import msgspec
    import pyarrow as pa


BATCH_ROWS = 4_096
"""Rows that are turned into text at once: Python objects take far more memory than the Arrow rows they come from."""
BATCH_BYTES = 1 << 26
"""As many bytes at most, if rows are long."""

SPECIAL_IN_CSV = r'[",\r\n]|^$'
SPLIT_IN_CSV = r'[",;\t\r\n]|^$'
"""Spreadsheets of other languages split lines at semicolons, and then a formula can stand behind one."""
FORMULA = r"^(?:[\s\p{Z}\p{C}]*[=+@\x{ff1d}\x{ff0b}\x{ff0d}\x{ff20}\x{fe62}\x{fe63}\x{fe66}\x{fe6b}-]|[\t\r\n\x00])"
"""What makes a text a formula to a spreadsheet (https://owasp.org/www-community/attacks/CSV_Injection),
in full width, too."""
UNPRINTED = "<value out of range"
"""So begins what Arrow prints in place of an infinite time, a year after 9999 and the end of a day."""


def write(
    sink: BinaryIO, reader: pa.RecordBatchReader, layout: str, *, header: bool = True, safe_cells: bool = False
) -> int:
    """Write all rows in `layout` (csv, json, ndjson); returns their number. `header` and `safe_cells` concern csv only.

    Raises UsageError for JSON where two columns have one name: an object can hold only one of them.
    """
    if layout == "csv":
        return _write_csv(sink, reader, header=header, safe=safe_cells)
    names = reader.schema.names
    if twice := sorted({name for name in names if names.count(name) > 1}):
        raise UsageError(f"JSON cannot hold two columns of one name; rename with AS: {', '.join(twice)}")
    return _write_json(sink, reader, lines=layout == "ndjson")


def _portions(reader: pa.RecordBatchReader) -> Iterator[pa.RecordBatch]:
    for batch in reader:
        rows = BATCH_ROWS
        while rows > 1 and batch.nbytes * rows > BATCH_BYTES * batch.num_rows:
            rows //= 2
        for start in range(0, batch.num_rows, rows):
            yield batch.slice(start, rows)


def encode(value: object) -> bytes:
    """`value` as JSON, by the rules of this module."""
    return _encoder().encode(value)


def _encoder() -> msgspec.json.Encoder:
    import msgspec

    return msgspec.json.Encoder(enc_hook=str, decimal_format="number")


def _write_json(sink: BinaryIO, reader: pa.RecordBatchReader, *, lines: bool) -> int:
    """An object per row: in `lines` without anything around them, else as one array, one object per line."""
    encoder = _encoder()
    rows = 0
    for batch in _portions(reader):
        if lines:
            sink.write(encoder.encode_lines(values.rows(batch)))
        elif batch.num_rows:
            sink.write(b",\n" if rows else b"[\n")
            sink.write(b",\n".join([encoder.encode(record) for record in values.rows(batch)]))
        rows += batch.num_rows
    if not lines:
        sink.write(b"\n]\n" if rows else b"[]\n")
    return rows


def _write_csv(sink: BinaryIO, reader: pa.RecordBatchReader, *, header: bool, safe: bool) -> int:
    import pyarrow as pa
    from pyarrow import compute

    if header:
        names = pa.array(reader.schema.names, pa.string())
        sink.write((",".join(_csv_cells(names, safe=safe).to_pylist()) + "\n").encode())
    rows = 0
    for batch in _portions(reader):
        if batch.num_rows and batch.num_columns:
            lines = compute.binary_join_element_wise(*(_csv_cells(column, safe=safe) for column in batch.columns), ",")
            sink.write(("\n".join(lines.to_pylist()) + "\n").encode())
        rows += batch.num_rows
    return rows


def _csv_cells(column: pa.Array, *, safe: bool) -> pa.Array:
    """Each value as CSV prints it: quoted where it holds a separator or is an empty text, empty for NULL."""
    import pyarrow as pa
    from pyarrow import compute

    kind = _csv_type(column.type)
    text = _csv_column(column, kind)
    if kind != pa.string():
        return compute.fill_null(_printed(text), "")
    text = _as_texts(text) if safe else text
    special = compute.match_substring_regex(text, SPLIT_IN_CSV if safe else SPECIAL_IN_CSV)
    doubled = compute.replace_substring(text, '"', '""')
    quoted = compute.binary_join_element_wise('"', doubled, '"', "")
    return compute.fill_null(compute.if_else(special, quoted, text), "")


def _as_texts(column: pa.Array) -> pa.Array:
    """Texts with an apostrophe before those that a spreadsheet would take for formulas: so it takes them for texts."""
    from pyarrow import compute

    marked = compute.binary_join_element_wise("'", column, "")
    return compute.if_else(compute.match_substring_regex(column, FORMULA), marked, column)


def _printed(column: pa.Array) -> pa.Array:
    """Each value as Arrow prints it; what it has no text for as the engine prints it."""
    import pyarrow as pa
    from pyarrow import compute

    text = column.cast(pa.string())
    if not pa.types.is_temporal(column.type) or not compute.any(compute.starts_with(text, UNPRINTED)).as_py():
        return text
    held = [None if value is None else str(value) for value in values.python_values(column)]
    return compute.if_else(compute.starts_with(text, UNPRINTED), pa.array(held, pa.string()), text)


def _csv_type(kind: pa.DataType) -> pa.DataType:
    """The type under which a column is written: what the CSV writer of Arrow cannot print becomes text."""
    import pyarrow as pa

    if pa.types.is_dictionary(kind):
        return _csv_type(kind.value_type)
    if pa.types.is_large_string(kind) or pa.types.is_string_view(kind):
        return pa.string()
    if _needs_encoding(kind) or pa.types.is_null(kind):
        return pa.string()
    return kind


def _csv_column(column: pa.Array, kind: pa.DataType) -> pa.Array:
    if column.type == kind:
        return column
    return as_text(column) if _needs_encoding(column.type) else column.cast(kind)


def _needs_encoding(kind: pa.DataType) -> bool:
    import pyarrow as pa

    return bool(pa.types.is_nested(kind) or pa.types.is_binary(kind) or pa.types.is_interval(kind))


def as_text(column: pa.Array) -> pa.Array:
    """`column` as JSON text (binary as hex): for values that a format cannot hold."""
    import pyarrow as pa

    return pa.array([_csv_text(value) for value in values.python_values(column)], pa.string())


def _csv_text(value: Any) -> str | None:
    if value is None:
        return None
    return value.hex() if isinstance(value, bytes) else encode(value).decode()


ROW_GROUP_ROWS = 131_072
"""Rows of one Parquet row group: enough to compress well, few enough to keep memory flat."""
ROW_GROUP_BYTES = 1 << 28
"""As many bytes, if rows are long."""


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
        for table in _grouped(reader):
            writer.write_table(table.combine_chunks())
            rows += table.num_rows
    return rows


def _grouped(reader: pa.RecordBatchReader) -> Iterator[pa.Table]:
    import pyarrow as pa

    waiting: list[pa.RecordBatch] = []
    rows = held = 0
    for batch in reader:
        waiting.append(batch)
        rows, held = rows + batch.num_rows, held + batch.nbytes
        if rows >= ROW_GROUP_ROWS or held >= ROW_GROUP_BYTES:
            yield pa.Table.from_batches(waiting, reader.schema)
            waiting, rows, held = [], 0, 0
    if waiting:
        yield pa.Table.from_batches(waiting, reader.schema)
