"""Kernels of several traces side by side, and the other kernels of a code object."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kerneldb.api import signature
from kerneldb.api.queries import require_traces, statement
from kerneldb.errors import UsageError

if TYPE_CHECKING:
    from collections.abc import Sequence

    import duckdb
    import pyarrow as pa

    from kerneldb.warehouse import Warehouse

Pair = tuple[str, str]


def compare(
    warehouse: Warehouse,
    traces: Sequence[str],
    where: str | None,
    pairs: Sequence[Pair] = (),
    iterations: int | None = None,
) -> pa.Table:
    """One row per kernel and trace, matched kernels first, then the sums of an iteration.

    Kernels are the same that have the same role (annotation) or else the same name; `pairs` makes all kernels whose
    names hold one of two texts the same. `iterations` per trace: as given, else the greatest common divisor of the
    launch counts of its matched kernels. Columns: see `schemas/queries/compare_kernels.sql`; times in ns.

    Raises UsageError for unknown traces and for texts that no selected kernel's name holds.
    """
    from kerneldb.warehouse.statements import table_of

    require_traces(warehouse, traces)
    from kerneldb.selection import Selection
    from kerneldb.warehouse.execute import query_errors

    texts = [text for pair in pairs for text in pair]
    labels = [first for first, _ in pairs for _ in range(2)]
    with warehouse.connection() as con, query_errors():
        Selection(where, tuple(traces)).bind(con)
        _require_texts(con, texts)
        wanted = {"texts": texts, "labels": labels, "traces": list(traces), "iterations": iterations}
        return table_of(con, statement("compare_kernels"), wanted)


def _require_texts(con: duckdb.DuckDBPyConnection, texts: Sequence[str]) -> None:
    missing = con.execute(statement("compare_texts"), {"texts": list(texts)}).fetchall()
    if missing:
        message = f"no selected kernel has {missing[0][0]!r} in its name"
        raise UsageError(message)


def pair_of(text: str) -> Pair:
    """The two sides of A=B. Raises UsageError unless both are there."""
    first, _, second = text.partition("=")
    if not first.strip() or not second.strip():
        message = f"{text!r} is not A=B, parts of two kernels' names"
        raise UsageError(message)
    return first.strip(), second.strip()


def variants(warehouse: Warehouse, prefix: str) -> pa.Table:
    """The symbols of the code object that holds the kernel of the signature whose id starts with `prefix`.

    Nearest first; `differences` lists the tokens in which a Tensile name differs. Raises UsageError unless exactly one
    signature fits.
    """
    return warehouse.answer(statement("variants_of"), {"signature_id": signature.find(warehouse, prefix)})
