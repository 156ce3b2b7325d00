"""Identity of launches: from facts of the file to ids of signatures and names. For readers without operator calls."""

from __future__ import annotations

from typing import Any, Final

import polars as pl

from kerneldb.ids import content_id

AXES: Final = tuple(f"{shape}_{axis}" for shape in ("grid", "block") for axis in "xyz")
IDENTITY: Final[dict[str, type[pl.DataType]]] = {
    "kind": pl.String,
    "name": pl.String,
    **dict.fromkeys(AXES, pl.Int32),
    "bytes": pl.Int64,
    "copy_kind": pl.String,
}
PRODUCTS: Final[dict[str, type[pl.DataType]]] = {"total_blocks": pl.Int64, "threads_per_block": pl.Int32}
INT32_MAX: Final = 2**31 - 1


def name_id(name: str) -> str:
    """Identity of a kernel name as printed."""
    return content_id("n1", name)


class Signer:
    """Signs launches slice by slice, and keeps the distinct signatures and names for the end.

    Columns of a slice: `kind` (kernel, memcpy, memset), `name`, grid and block in blocks and threads, `bytes` and
    `copy_kind` of copies and fills; missing ones count as NULL. Where a source knows products only, `total_blocks` and
    `threads_per_block` are facts of the signature too, and part of its identity in place of grid and block.
    """

    def __init__(self) -> None:
        self._known: dict[tuple[Any, ...], dict[str, Any]] = {}

    def sign(self, launches: pl.DataFrame) -> pl.DataFrame:
        """`launches` with the column `signature_id`; the order of rows stays."""
        wanted = IDENTITY | PRODUCTS
        absent = [pl.lit(None, dtype=kind).alias(name) for name, kind in wanted.items() if name not in launches.columns]
        given = launches.with_columns(absent)
        axes = [pl.when(pl.col(axis).is_between(0, INT32_MAX)).then(axis).alias(axis) for axis in AXES]
        keys = given.select(*wanted).with_columns(axes).cast(wanted)  # type: ignore[arg-type]
        distinct = keys.unique(maintain_order=True)
        ids = pl.Series("signature_id", [self._id(row) for row in distinct.iter_rows()], dtype=pl.String)
        distinct = distinct.with_columns(ids)
        signed = keys.join(distinct, on=list(wanted), nulls_equal=True, how="left", maintain_order="left")
        return launches.with_columns(signed["signature_id"])

    def signatures(self) -> pl.DataFrame:
        """Fact columns of `signatures`, one row each."""
        columns: dict[str, type[pl.DataType]] = {"signature_id": pl.String, "name_id": pl.String}
        frame = pl.DataFrame(list(self._known.values()), schema=columns | IDENTITY | PRODUCTS)
        return frame.drop("name").unique("signature_id", keep="first", maintain_order=True)

    def names(self) -> pl.DataFrame:
        """Fact columns of `kernel_names`: name_id, name, kind."""
        columns = ("name_id", "name", "kind")
        rows = {row["name"]: {name: row[name] for name in columns} for row in self._known.values()}
        return pl.DataFrame(list(rows.values()), schema=dict.fromkeys(columns, pl.String))

    def _id(self, key: tuple[Any, ...]) -> str:
        found = self._known.get(key)
        if found is None:
            found = self._known[key] = _row(key)
        identity: str = found["signature_id"]
        return identity


def _row(key: tuple[Any, ...]) -> dict[str, Any]:
    row = dict(zip(IDENTITY | PRODUCTS, key, strict=True))
    shape = [row[axis] for axis in AXES]
    products = [row[name] for name in PRODUCTS] if all(axis is None for axis in shape) else [None, None]
    copied = [row["bytes"], row["copy_kind"]]
    facts = ["s1", row["kind"], row["name"], *shape, *copied, None]
    identity = content_id(*facts, *products) if any(value is not None for value in products) else content_id(*facts)
    return {**row, "signature_id": identity, "name_id": name_id(row["name"])}
