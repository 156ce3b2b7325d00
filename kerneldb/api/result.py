"""The result of a query: an Arrow table, with the ways out of it that Python users want."""

from __future__ import annotations

import collections
from typing import TYPE_CHECKING, Any, Final

from kerneldb.errors import UsageError
from kerneldb.output.text import escape

if TYPE_CHECKING:
    from collections.abc import Iterator

    import pandas as pd
    import polars as pl
    import pyarrow as pa

BATCH_ROWS: Final = 65_536
NOTEBOOK_ROWS: Final = 20


class Result:
    """Rows of a query, held as an Arrow table. Anything that reads Arrow (Polars, pandas, DuckDB) takes it as it is.

    Sums of integers, which the engine keeps in 128 bits, are int64 where all of them fit.
    """

    def __init__(self, table: pa.Table) -> None:
        self._table = _with_integers(table)

    @property
    def columns(self) -> list[str]:
        """The names of the columns."""
        return list(self._table.column_names)

    def __len__(self) -> int:
        """The number of rows."""
        return int(self._table.num_rows)

    def __iter__(self) -> Iterator[dict[str, Any]]:
        """Iterate over the rows as dictionaries."""
        from kerneldb.output import values

        self._require_names()
        for batch in self._table.to_batches(BATCH_ROWS):
            yield from values.rows(batch)

    def __arrow_c_stream__(self, requested_schema: object = None) -> object:
        """The rows as an Arrow C stream, for `polars.DataFrame(result)` and the like."""
        return self._table.__arrow_c_stream__(requested_schema)

    def __repr__(self) -> str:
        """Columns and size, not the data."""
        return f"<Result: {len(self):,} rows; {escape(', '.join(self.columns))}>"

    def _repr_html_(self) -> str:
        """The first rows as a table, for notebooks."""
        from kerneldb.output import tables
        from kerneldb.output.values import python_values

        shown = self._table.slice(0, NOTEBOOK_ROWS)
        columns = [(name, python_values(shown.column(place))) for place, name in enumerate(self.columns)]
        return tables.html(columns, len(self) - shown.num_rows)

    def to_arrow(self) -> pa.Table:
        """The rows as a pyarrow Table, without a copy."""
        return self._table

    def arrow(self) -> pa.Table:
        """Same as `to_arrow`."""
        return self._table

    def pl(self) -> pl.DataFrame:
        """The rows as a Polars DataFrame, in which names are unique.

        Raises UsageError, with a remedy, where two columns have one name; `arrow()` and `df()` hold both.
        """
        import polars as pl

        self._require_names()
        return pl.DataFrame(self._table)

    def df(self) -> pd.DataFrame:
        """The rows as a pandas DataFrame; integers stay integers where some are NULL (`Int64`).

        Raises ModuleNotFoundError, with a remedy, where pandas is not installed.
        """
        import pyarrow as pa

        try:
            import pandas as pd
        except ModuleNotFoundError as error:
            text = "df() needs pandas (pip install pandas); pl() gives a Polars, arrow() a pyarrow table"
            raise ModuleNotFoundError(text, name=error.name) from error
        found = self._table.to_pandas()
        for place, (field, column) in enumerate(zip(self._table.schema, self._table.columns, strict=True)):
            if pa.types.is_integer(field.type) and column.null_count:
                kind = pd.UInt64Dtype() if pa.types.is_uint64(field.type) else pd.Int64Dtype()
                found.isetitem(place, column.to_pandas(types_mapper={field.type: kind}.get))
        return found

    def rows(self) -> list[dict[str, Any]]:
        """The rows as dictionaries. Raises UsageError, as `pl` does, where a dictionary would lose a column."""
        return list(self)

    def _require_names(self) -> None:
        """Raise UsageError where two columns have one name."""
        if repeated := [name for name, n in collections.Counter(self.columns).items() if n > 1]:
            first = repeated[0]
            named = " and ".join(map(repr, repeated))
            raise UsageError(f"several columns are named {named}; give each its own name: {first} AS {first}_2")

    def head(self, count: int) -> Result:
        """The first `count` rows."""
        return Result(self._table.slice(0, count))

    def without(self, *names: str) -> Result:
        """The rows without the columns `names`, as far as there are such columns."""
        return Result(self._table.select([name for name in self.columns if name not in names]))

    def to_reader(self) -> pa.RecordBatchReader:
        """The rows as a stream of record batches."""
        return self._table.to_reader(max_chunksize=BATCH_ROWS)


def _with_integers(table: pa.Table) -> pa.Table:
    """`table` with 64-bit integers for numbers without decimals, column by column where all of them fit."""
    import pyarrow as pa

    for place, field in enumerate(table.schema):
        if pa.types.is_decimal(field.type) and field.type.scale == 0:
            try:
                column = table.column(place).cast(pa.int64())
            except pa.ArrowInvalid:
                continue
            table = table.set_column(place, field.with_type(pa.int64()), column)
    return table
