"""Fills the derived columns of `kernel_names` and `signatures` from the facts in their other columns.

Both tables hold distinct rows, so this costs little, and it can be done anew at any time (`kerneldb db refresh`).
"""

from __future__ import annotations

import dataclasses
import json
import math
from typing import TYPE_CHECKING, Any, Final

import polars as pl

from kerneldb import names as naming
from kerneldb import work
from kerneldb.gpus import find_device
from kerneldb.ids import content_id

if TYPE_CHECKING:
    from collections.abc import Mapping

    from kerneldb.names import Decoded

Row = dict[str, Any]

SLICE_ROWS: Final = 1 << 14
"""Rows that are derived at once: as Python objects, each takes some thousand bytes."""
TEXT: Final = pl.String()
NAME_SCHEMA: Final[dict[str, pl.DataType]] = {
    "name_id": TEXT,
    "name": TEXT,
    "kind": TEXT,
    "demangled": TEXT,
    "short_name": TEXT,
    "match_name": TEXT,
    "category": TEXT,
    "family": TEXT,
    "library": TEXT,
    "operation": TEXT,
    "dtype": TEXT,
    "dtypes": TEXT,
    "name_arch": TEXT,
    "tile_m": pl.Int32(),
    "tile_n": pl.Int32(),
    "tile_k": pl.Int32(),
    "pipeline_stages": pl.Int32(),
    "cluster": TEXT,
    "layout": TEXT,
    "split_k": pl.Boolean(),
    "epilogue": TEXT,
    "vector_width": pl.Int32(),
    "template": TEXT,
    "head_dim": pl.Int32(),
    "direction": TEXT,
    "decoded": TEXT,
    "deriver_version": pl.Int32(),
}
AS_DECODED: Final = frozenset(NAME_SCHEMA) - {
    "name_id", "name", "kind", "dtypes", "name_arch", "decoded", "deriver_version"
}  # fmt: skip

FACTS: Final[dict[str, pl.DataType]] = {
    "signature_id": TEXT,
    "kind": TEXT,
    "name_id": TEXT,
    **{f"{shape}_{axis}": pl.Int32() for shape in ("grid", "block") for axis in "xyz"},
    "bytes": pl.Int64(),
    "copy_kind": TEXT,
    "call_id": TEXT,
    "op": TEXT,
    "input_dims": TEXT,
    "input_strides": TEXT,
    "input_dtypes": TEXT,
    "scalars": TEXT,
    "total_blocks": pl.Int64(),
    "threads_per_block": pl.Int32(),
}
"""The last two are facts where a profiler prints products only, and computed where it prints grid and block."""

DERIVED: Final[dict[str, pl.DataType]] = {
    "level": TEXT,
    "launch_key": TEXT,
    "gemm_m": pl.Int64(),
    "gemm_n": pl.Int64(),
    "gemm_k": pl.Int64(),
    "gemm_batch": pl.Int64(),
    "numel": pl.Int64(),
    "dims_source": TEXT,
    "flops": pl.Float64(),
    "moved_bytes": pl.Float64(),
    "work_method": TEXT,
    "deriver_version": pl.Int32(),
    **dict.fromkeys(naming.Settled._fields, TEXT),
}


@dataclasses.dataclass(frozen=True, slots=True)
class NameRow:
    """What signatures take from a row of `kernel_names`."""

    match_name: str | None = None
    demangled: str | None = None
    library: str | None = None
    category: str | None = None
    family: str | None = None
    operation: str | None = None
    dtype: str | None = None
    vector_width: int | None = None
    tile_m: int | None = None
    tile_n: int | None = None
    tile_k: int | None = None


NAME_FIELDS: Final = tuple(field.name for field in dataclasses.fields(NameRow))
UNKNOWN_NAME: Final = NameRow()
PROBLEM_FIELDS: Final = tuple(field.name for field in dataclasses.fields(work.Problem))


def names_version() -> int:
    """The version that rows of `kernel_names` are derived with."""
    return naming.DERIVER_VERSION


def signatures_version() -> int:
    """The version that rows of `signatures` are derived with: a sum, so that it grows when either deriver's does."""
    return naming.DERIVER_VERSION + work.DERIVER_VERSION


def derive_devices(devices: pl.DataFrame) -> pl.DataFrame:
    """Fill `gpu` of rows of `devices`, of one trace: what their name, architecture and number of multiprocessors mean.

    Processes number their devices on their own, so only what they agree on counts.
    """
    facts = [column for column in ("name", "arch", "multiprocessors") if column in devices.columns]
    agreed = devices.group_by("device").agg(
        pl.when(pl.col(column).drop_nulls().n_unique() == 1).then(pl.col(column).drop_nulls().first())
        for column in facts
    )
    found = [find_device(**known) for known in agreed.select(facts).iter_rows(named=True)]
    names = pl.Series("gpu", [gpu.name if gpu else None for gpu in found], dtype=pl.String)
    return devices.join(agreed.select("device", names), on="device", how="left")


def derive_names(facts: pl.DataFrame) -> pl.DataFrame:
    """Whole rows of `kernel_names` for rows of (name_id, name, kind)."""
    parts = [_derive_names(part) for part in facts.iter_slices(SLICE_ROWS)]
    return pl.concat(parts) if parts else pl.DataFrame(schema=NAME_SCHEMA)


def _derive_names(facts: pl.DataFrame) -> pl.DataFrame:
    given = facts.select("name_id", "name", "kind").rows()
    decoded = naming.decode_many([(name, kind) for _, name, kind in given])
    rows = [_name_row(row, found) for row, found in zip(given, decoded, strict=True)]
    return pl.DataFrame(rows, schema=NAME_SCHEMA)


def _name_row(given: tuple[str, str, str], decoded: Decoded) -> Row:
    name_id, name, kind = given
    return {
        "name_id": name_id,
        "name": name,
        "kind": kind,
        **{column: getattr(decoded, column) for column in AS_DECODED},
        "dtypes": ",".join(decoded.dtypes) or None,
        "name_arch": decoded.arch,
        "decoded": json.dumps(decoded.details, sort_keys=True, default=list) if decoded.details else None,
        "deriver_version": names_version(),
    }


def derive_signatures(facts: pl.DataFrame, names: pl.DataFrame) -> pl.DataFrame:
    """Whole rows of `signatures` from fact columns (missing ones count as NULL) and rows of `kernel_names`."""
    named = names.select("name_id", *NAME_FIELDS)
    parts = [
        _derive_signatures(part, named.join(part, on="name_id", how="semi")) for part in facts.iter_slices(SLICE_ROWS)
    ]
    return pl.concat(parts) if parts else pl.DataFrame(schema=FACTS | DERIVED)


def _derive_signatures(facts: pl.DataFrame, names: pl.DataFrame) -> pl.DataFrame:
    known = {row.pop("name_id"): NameRow(**row) for row in names.to_dicts()}
    absent = [pl.lit(None, dtype=kind).alias(name) for name, kind in FACTS.items() if name not in facts.columns]
    given = facts.with_columns(absent).select(*FACTS)
    rows = [row | _derived(row, known.get(row["name_id"], UNKNOWN_NAME)) for row in given.iter_rows(named=True)]
    return pl.DataFrame(rows, schema=FACTS | DERIVED)


def _derived(row: Mapping[str, Any], name: NameRow) -> Row:
    grid, block = _triple(row, "grid"), _triple(row, "block")
    blocks = _product(grid, 63) if grid else row["total_blocks"]
    threads = _product(block, 31) if block else row["threads_per_block"]
    call = work.OpCall(row["op"], row["input_dims"], row["input_strides"], row["input_dtypes"], row["scalars"])
    problem = work.problem(call, name, work.LaunchShape(row["kind"], grid, block, row["bytes"]))
    op, types = (row["op"], work.tensor_types(call)) if row["kind"] == "kernel" else (None, [])
    key = (name.match_name, blocks, threads)
    return {
        **{field: getattr(problem, field) for field in PROBLEM_FIELDS},
        "level": _level(row, has_grid=grid is not None, has_totals=blocks is not None or threads is not None),
        "total_blocks": blocks,
        "threads_per_block": threads,
        "launch_key": None if None in key else content_id("k1", *key),
        "deriver_version": signatures_version(),
        **naming.settle(name, op, types)._asdict(),
    }


def _product(shape: tuple[int, int, int], bits: int) -> int | None:
    """The product of the axes, None where a signed column with `bits` digits cannot hold it."""
    product = math.prod(shape)
    return product if product < 1 << bits else None


def _triple(row: Mapping[str, Any], shape: str) -> tuple[int, int, int] | None:
    x, y, z = (row[f"{shape}_{axis}"] for axis in "xyz")
    return None if x is None or y is None or z is None else (x, y, z)


def _level(row: Mapping[str, Any], *, has_grid: bool, has_totals: bool) -> str:
    if row["call_id"] is not None and row["input_dtypes"]:  # sizes alone are no call that could be made again
        return "call"
    if has_grid:
        return "launch"
    return "total" if has_totals else "name"
