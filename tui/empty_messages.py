"""Sentences where there is nothing to show: why, and what to do."""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING, Final, Literal

from kerneldb.shell import kerneldb
from kerneldb.tui.numbers import safe

if TYPE_CHECKING:
    from collections.abc import Sequence

    from kerneldb.tui.model import Choice
    from kerneldb.tui.store import Store

Wanted = Literal["sums", "launches", "points", "calls"]

NO_BREAK: Final = "\N{NO-BREAK SPACE}"
"""Pads the lines of a block, each of which is centred."""

NO_ACTIVITY: Final = (
    "No GPU activity: these traces hold no kernels and no copies.\n\n"
    "kerneldb db doctor FILE says what a file holds; 8 asks in SQL"
)
SUMS_HAVE_NO_LAUNCHES: Final = {
    "launches": "the tool that made these files reports no single launches.\n\ng shows kernels",
    "points": "a roofline needs single launches, which these files do not report.\n\n2 shows the sums",
    "calls": "a replay needs single launches, which these files do not report.\n\n2 shows the sums",
}


def no_traces(path: str) -> str:
    """What to type into a file without traces."""
    commands = (
        f"{kerneldb('ingest', 'trace.json.gz', database=path)}   PyTorch",
        f"{kerneldb('ingest', 'report.sqlite', database=path)}   nsys export, ncu CSV",
        f"{kerneldb('ingest', 'results.db', database=path)}      rocprofv3, rocpd",
    )
    width = max(map(len, commands))
    lines = "\n".join(command.ljust(width, NO_BREAK) for command in commands)
    return (
        f"No traces in this file yet. In another window:\n\n{lines}\n\n"
        "They show here by themselves. o reads a trace or a folder from here, or opens another file."
    )


def gone(names: Sequence[str]) -> str:
    """What to do where traces are selected that others renamed or removed."""
    shown = ", ".join(map(safe, names[:3])) + (f" and {len(names) - 3} more" if len(names) > 3 else "")  # noqa: PLR2004
    subject = f"The trace {shown} is" if len(names) == 1 else f"The traces {shown} are"
    return f"{subject} not in this file (any more).\n\n^p, then “Clear the Selection”, looks at all traces"


async def why_empty(store: Store, choice: Choice, *, wanted: Wanted = "sums") -> str:
    """Why the Selection has no rows.

    `wanted` says what was looked for: 'sums' of time, single 'launches', 'points' of a roofline, 'calls' to replay.
    """
    (found,) = await store.rows("tui_why_empty", {"names": list(choice.traces) or None})
    if not found["traces"]:
        (found,) = await store.rows("tui_why_empty", {"names": None})
        return gone(choice.traces) if found["traces"] else no_traces(store.title)
    if not found["launches"]:
        # Why traces without a single launch have nothing to show
        if not await store.summed(dataclasses.replace(choice, where="")):
            return NO_ACTIVITY
        if wanted in SUMS_HAVE_NO_LAUNCHES:
            return f"Sums only: {SUMS_HAVE_NO_LAUNCHES[wanted]}"
        return (
            "Sums only: a condition needs single launches, which these files do not report.\n\n"
            "[ goes back   8 asks in SQL: FROM kernel_rollups WHERE …"
        )
    conditioned = bool(choice.where.strip())
    if wanted == "points":
        back = "\n\n[ goes back   / edits the condition" if conditioned else ""
        return f"The Selection holds no kernel with a duration; copies and fills have no roofline.{back}"
    if wanted == "sums" and not found["timelines"] and not conditioned:
        return (
            "Counters only: the kernels ran under a profiler, and such times enter no sums.\n\n"
            "g shows the launches   3 shows the counters of one   4 needs a timeline"
        )
    return "No launch matches the Selection.\n\n[ goes back   / edits the condition"
