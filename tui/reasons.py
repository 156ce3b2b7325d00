"""Sentences where there is nothing to show: why, and what to do."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from kerneldb.tui.model import Choice
    from kerneldb.tui.store import Store

NO_BREAK = "\N{NO-BREAK SPACE}"
"""Fills lines that are to stand in one block though each is centred."""
NO_MATCH = "No launch matches the Selection.\n\n[ goes back   / edits the condition"


def no_traces(path: str) -> str:
    """What to type into a file without traces."""
    commands = (
        f"kerneldb --db {path} ingest trace.json.gz        PyTorch",
        f"kerneldb --db {path} ingest report.sqlite        nsys export, ncu CSV",
        f"kerneldb --db {path} ingest results.db           rocprofv3, rocpd",
    )
    width = max(map(len, commands))
    lines = "\n".join(command.ljust(width, NO_BREAK) for command in commands)
    return (
        f"No traces in this file yet. In another window:\n\n{lines}\n\n"
        "They show here by themselves. o reads a trace or a folder from here, or opens another file."
    )


async def why_empty(store: Store, choice: Choice, *, wanted: str = "sums") -> str:
    """Why the Selection has no rows. `wanted` says what was looked for: 'sums' of time, single 'launches'."""
    (found,) = await store.rows("tui_why_empty", {"names": list(choice.traces) or None})
    if not found["traces"]:
        return no_traces(store.title)
    if wanted == "launches" and not found["launches"]:
        return "Sums only: the tool that made these files reports no single launches.\n\ng shows kernels"
    if wanted == "sums" and found["launches"] and not found["timelines"] and not choice.where.strip():
        return (
            "Counters only: the kernels ran under a profiler, and such times enter no sums.\n\n"
            "g shows the launches   3 shows the counters of one   4 and 7 need a timeline"
        )
    if choice.where.strip() and not found["launches"]:
        return "Sums only: a condition needs single launches, which these files do not report.\n\n[ goes back"
    return NO_MATCH
