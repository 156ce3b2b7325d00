"""Whether times of all traces of a database add up, and what to say where a sum is over such as do not."""

from __future__ import annotations

import contextlib
import json
import re
from typing import TYPE_CHECKING, Any, Final

from kerneldb.api import queries
from kerneldb.schemas.loader import statement

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from kerneldb.warehouse import Warehouse

NAMED: Final = 3
"""So many names stand in a sentence."""
KINDS: Final = {
    "timeline": "times of a program", "profiled": "one by one under a profiler", "summary": "sums that a tool printed"
}  # fmt: skip
LAUNCHES: Final = frozenset(("kernels", "all_launches", "launches", "selection"))
"""Relations with a row for each launch of every trace."""
APART: Final = frozenset((
    "trace", "trace_id", "run", "job", "rank", "timing", "device_name", "is_primary", "signature_id", "launch_index",
))  # fmt: skip
"""Who names one of these looks at traces, kinds or GPUs one by one."""
SUMS: Final = frozenset(("sum", "fsum", "kahan_sum", "sumkahan"))


def scope(count: int, gpus: Sequence[str]) -> str:
    """`count` traces and the names of the GPUs that they ran on."""
    more = f" and {len(gpus) - NAMED:,} more" if len(gpus) > NAMED else ""
    return f"{count:,} trace{'' if count == 1 else 's'}" + (f" on {', '.join(gpus[:NAMED])}{more}" if gpus else "")


def mixed(kinds: Sequence[str]) -> str:
    """That traces of these kinds do not add up; nothing of one kind."""
    if len(kinds) < 2:  # noqa: PLR2004
        return ""
    named = ", ".join(f"{kind} ({KINDS.get(kind, 'other')})" for kind in kinds)
    return f"warning: these are different kinds of traces, whose times do not add up: {named}"


def warnings(warehouse: Warehouse, sql: str, where: str | None = None) -> list[str]:
    """What to say beside the answer of a statement that sums durations of all traces, where these do not add up.

    They ran on several GPUs, or under a profiler in part. A statement (or `where`, what `selection` selects by) that
    names the trace, its run, its kind or the GPU anywhere is not judged: it tells them apart.
    """
    if APART & set(re.findall(r"\w+", (where or "").lower())) or not _sums_all(warehouse, sql):
        return []
    (found,) = queries.ask(warehouse, "scope", {"names": None})
    kinds = [kind for kind in found["kinds"] or [] if kind != "summary"]  # has no launches
    said = []
    if len(found["gpus"] or []) > 1:
        said.append(f"this sums durations over {scope(found['traces'], found['gpus'])}; WHERE trace = 'NAME' takes one")
    if warning := mixed(kinds):
        said.append(f"{warning}; WHERE timing = 'timeline' takes those of programs")
    return said


def _sums_all(warehouse: Warehouse, sql: str) -> bool:
    """Whether a statement sums durations of launches, whichever trace they are of."""
    import duckdb

    with warehouse.connection() as con, contextlib.suppress(duckdb.Error, ValueError):
        ((parsed,),) = con.execute(statement("session", "parsed"), {"sql": sql}).fetchall()
        nodes = list(_nodes(json.loads(parsed)))
        read = {str(node.get("table_name", "")).lower() for node in nodes if node.get("type") == "BASE_TABLE"}
        return bool(read & LAUNCHES) and not _columns(nodes) & APART and any(map(_sums, nodes))
    return False


def _sums(node: dict[str, Any]) -> bool:
    is_sum = node.get("class") == "FUNCTION" and str(node.get("function_name", "")).lower() in SUMS
    return is_sum and "duration_ns" in _columns(list(_nodes(node)))


def _columns(nodes: Sequence[dict[str, Any]]) -> set[str]:
    """The names of all columns that are read, and of those by which tables are joined."""
    read = {str(node["column_names"][-1]).lower() for node in nodes if node.get("column_names")}
    return read | {str(name).lower() for node in nodes for name in node.get("using_columns") or ()}


def _nodes(parsed: object) -> Iterator[dict[str, Any]]:
    """All nodes of a statement as the engine parsed it."""
    if isinstance(parsed, dict):
        yield parsed
    parts = parsed.values() if isinstance(parsed, dict) else parsed if isinstance(parsed, list) else ()
    for part in parts:
        yield from _nodes(part)
