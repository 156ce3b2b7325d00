"""Distinct combinations of columns, described once however many rows have them."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import polars as pl

Describe = Callable[[pl.DataFrame], pl.DataFrame]


class Shapes:
    """Rows are told apart by the columns `keys` (NULL equals NULL); `describe` gives one row for each combination.

    `table` holds what was described so far, in the order of the numbers that `numbered` returns. Rows are looked up by
    a hash of their keys, and every hit is compared with the keys themselves.
    """

    def __init__(self, keys: Sequence[str], describe: Describe) -> None:
        self._keys = list(keys)
        self._describe = describe
        self._known = pl.DataFrame()
        self._numbers = pl.DataFrame(schema={"hash": pl.UInt64, "shape": pl.UInt32})
        self.table = pl.DataFrame()

    def numbered(self, rows: pl.DataFrame) -> pl.Series:
        """For each row the place of its combination in `table`."""
        asked = rows.select(self._keys)
        hashes = pl.DataFrame({"hash": asked.hash_rows()})
        found = self._by_hash(hashes)
        if found.null_count():
            unseen = found.is_null()
            self._learn(asked.filter(unseen).unique(maintain_order=True))
            found = self._by_hash(hashes)
        return found if self._agree(asked, found) else self._by_keys(asked)

    def described(self, rows: pl.DataFrame) -> pl.DataFrame:
        """What `describe` says of each row, in the order of the rows."""
        numbers = self.numbered(rows)  # makes the table grow
        return self.table[numbers]

    def _by_hash(self, hashes: pl.DataFrame) -> pl.Series:
        return hashes.join(self._numbers, on="hash", how="left", maintain_order="left")["shape"]

    def _agree(self, asked: pl.DataFrame, found: pl.Series) -> bool:
        """Whether rows with one hash really have the same keys."""
        known = self._known[found]
        return all(one.equals(other) for one, other in zip(asked, known, strict=True))

    def _by_keys(self, asked: pl.DataFrame) -> pl.Series:
        known = self._known.with_row_index("shape")
        found = asked.join(known, on=self._keys, how="left", nulls_equal=True, maintain_order="left")["shape"]
        if found.null_count():
            self._learn(asked.filter(found.is_null()).unique(maintain_order=True))
            return self._by_keys(asked)
        return found

    def _learn(self, fresh: pl.DataFrame) -> None:
        described = self._describe(fresh)
        first = self.table.height
        numbers = pl.DataFrame({"hash": fresh.hash_rows()}).with_row_index("shape", first).select("hash", "shape")
        self._numbers = pl.concat([self._numbers, numbers]).unique("hash", keep="first", maintain_order=True)
        self._known = pl.concat([self._known, fresh]) if first else fresh
        self.table = pl.concat([self.table, described], how="vertical_relaxed") if first else described
