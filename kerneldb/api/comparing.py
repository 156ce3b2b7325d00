"""Kernels of several traces side by side."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kerneldb.api.queries import rows, selecting, table
from kerneldb.errors import UsageError

if TYPE_CHECKING:
    from collections.abc import Sequence

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
    texts = [text for pair in pairs for text in pair]
    labels = [first for first, _ in pairs for _ in range(2)]
    with selecting(warehouse, where, traces) as con:
        if missing := rows(con, "compare_texts", {"texts": texts}):
            message = f"no selected kernel has {missing[0]['text']!r} in its name"
            raise UsageError(message)
        wanted = {"texts": texts, "labels": labels, "traces": list(traces), "iterations": iterations}
        return table(con, "compare_kernels", wanted)


def pair_of(text: str) -> Pair:
    """The two sides of A=B. Raises UsageError unless both are there."""
    first, _, second = text.partition("=")
    if not first.strip() or not second.strip():
        message = f"{text!r} is not A=B, parts of two kernels' names"
        raise UsageError(message)
    return first.strip(), second.strip()
