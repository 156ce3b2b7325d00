"""Identity of launches, from facts of the file to ids of signatures and names, and their theoretical occupancy."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any, Final

import polars as pl

from kerneldb.batch import Spool
from kerneldb.gpus.occupancy import occupancy
from kerneldb.ids import content_id
from kerneldb.ingest.columns import schema
from kerneldb.ingest.distinct import coded_rows

AXES: Final = tuple(f"{shape}_{axis}" for shape in ("grid", "block") for axis in "xyz")
IDENTITY: Final = schema("kind name grid_x grid_y grid_z block_x block_y block_z bytes copy_kind")
PRODUCTS: Final = schema("total_blocks threads_per_block")
CALL: Final = {"call_id": pl.String()}
INT32_MAX: Final = 2**31 - 1
RESOURCES: Final = schema("device block_x block_y block_z threads_per_block registers agprs sgprs shared_bytes")
FILLED: Final = schema("theoretical_occupancy theoretical_occupancy_cu theoretical_limiter")
WAVE64: Final = r"_WS64(?:_|$)"
"""Tensile says in a kernel's name that it runs in waves of 64; on RDNA nothing else in a trace does."""


def name_id(name: str) -> str:
    """Identity of a kernel name as printed."""
    return content_id("n1", name)


class Signer:
    """Signs launches slice by slice, and keeps the distinct signatures and names for the end.

    Columns of a slice: `kind` (kernel, memcpy, memset), `name`, grid and block in blocks and threads, `bytes` and
    `copy_kind` of copies and fills; missing ones count as NULL. Where a source knows products only, `total_blocks` and
    `threads_per_block` are facts of the signature too, and part of its identity in place of grid and block. Where
    slices have `call_id`, it is part of the signature, too, and `calls` are the rows of `op_calls` for them.
    """

    def __init__(self, calls: pl.DataFrame | None = None) -> None:
        self._known: dict[tuple[Any, ...], dict[str, Any]] = {}
        self._calls = calls

    def sign(self, launches: pl.DataFrame) -> pl.DataFrame:
        """`launches` with the column `signature_id`; the order of rows stays."""
        wanted = IDENTITY | PRODUCTS | (CALL if "call_id" in launches.columns else {})
        absent = [pl.lit(None, dtype=kind).alias(name) for name, kind in wanted.items() if name not in launches.columns]
        given = launches.with_columns(absent)
        axes = [pl.when(pl.col(axis).is_between(0, INT32_MAX)).then(axis).alias(axis) for axis in AXES]
        moved = pl.when(pl.col("bytes") >= 0).then("bytes")
        keys = given.select(*wanted).with_columns(*axes, moved.alias("bytes")).cast(wanted)  # type: ignore[arg-type]
        coded, distinct = coded_rows(keys)
        for key in distinct.iter_rows():
            if key not in self._known:
                self._known[key] = _signature(dict(zip(wanted, key, strict=True)))
        identities = [self._known[key]["signature_id"] for key in distinct.iter_rows()]
        return launches.with_columns(pl.Series("signature_id", identities, dtype=pl.String).gather(coded))

    def write(self, spool: Spool) -> None:
        """Write the distinct signatures and names of all launches that were signed."""
        spool.write("signatures", self.signatures())
        spool.write("kernel_names", self.names())
        if self._calls is not None:
            spool.write("op_calls", self._calls)

    def signatures(self) -> pl.DataFrame:
        """Fact columns of `signatures`, one row each."""
        columns = schema("signature_id name_id") | IDENTITY | PRODUCTS | (CALL if self._calls is not None else {})
        frame = pl.DataFrame(list(self._known.values()), schema=columns)
        distinct = frame.drop("name").unique("signature_id", keep="first", maintain_order=True)
        if self._calls is None:
            return distinct
        return distinct.join(self._calls.drop("extra"), on="call_id", how="left", maintain_order="left")

    def names(self) -> pl.DataFrame:
        """Fact columns of `kernel_names`: name_id, name, kind."""
        columns = ("name_id", "name", "kind")
        rows = {row["name"]: {name: row[name] for name in columns} for row in self._known.values()}
        return pl.DataFrame(list(rows.values()), schema=dict.fromkeys(columns, pl.String))


def _signature(row: dict[str, Any]) -> dict[str, Any]:
    shape = [row[axis] for axis in AXES]
    products = [row[name] for name in PRODUCTS] if all(axis is None for axis in shape) else [None, None]
    copied = [row["bytes"], row["copy_kind"]]
    facts = ["s1", row["kind"], row["name"], *shape, *copied, row.get("call_id")]
    identity = content_id(*facts, *products) if any(value is not None for value in products) else content_id(*facts)
    return {**row, "signature_id": identity, "name_id": name_id(row["name"])}


def with_occupancy(launches: pl.DataFrame, arch_of_device: Mapping[int, str | None]) -> pl.DataFrame:
    """`launches` with `theoretical_occupancy`, `theoretical_occupancy_cu` (RDNA) and `theoretical_limiter`.

    Reads the columns of `RESOURCES` and `name`; missing ones count as NULL, `threads_per_block` only where there is no
    block. Each distinct combination is computed once; rows and their order stay, NULL where nothing is known.
    """
    names = launches["name"] if "name" in launches.columns else pl.Series("name", [None], dtype=pl.String)
    wide = names.str.contains(WAVE64).fill_null(value=False)
    given = launches.with_columns(  # a selection of constants alone would be one row
        *(
            (pl.col(name) if name in launches.columns else pl.lit(None)).cast(kind).alias(name)
            for name, kind in RESOURCES.items()
        ),
        wide=pl.lit(wide) if "name" in launches.columns else pl.lit(value=False),
    ).select(*RESOURCES, "wide")
    coded, distinct = coded_rows(given)
    rows = [_row(row, arch_of_device) for row in distinct.iter_rows(named=True)]
    found = pl.DataFrame(rows, schema=FILLED, orient="row").select(pl.all().gather(coded))
    return launches.with_columns(found.get_columns())


def _row(resources: dict[str, Any], arch_of_device: Mapping[int, str | None]) -> tuple[float | None, ...]:
    block = [resources[f"block_{axis}"] for axis in "xyz"]
    found = occupancy(
        arch_of_device.get(resources["device"]),
        threads_per_block=math.prod(block) if None not in block else resources["threads_per_block"] or 0,
        registers=resources["registers"],
        shared_bytes=resources["shared_bytes"],
        agprs=resources["agprs"],
        scalar_registers=resources["sgprs"],
        warp_size=64 if resources["wide"] else None,
    )
    return (None, None, None) if found is None else (found.theoretical, found.cu, found.limiter)  # type: ignore[return-value]
