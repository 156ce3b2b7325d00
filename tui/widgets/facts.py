"""What is known about a row, as lines of name and value."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from textual.content import Content

from kerneldb.tui import numbers
from kerneldb.tui.widgets.columns import extent

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

    from kerneldb.tui.model import Level

Fact = tuple[str, str | None]

_ALWAYS: Final[tuple[tuple[str, str, Callable[[Any], str]], ...]] = (
    ("category", "category", str),
    ("library", "library", str),
    ("dtype", "dtype", str),
    ("operator", "op", str),
    ("shape", "shape", str),
)
_SUMS: Final[tuple[tuple[str, str, Callable[[Any], str]], ...]] = (
    ("launches", "n", numbers.count),
    ("total", "total_ns", numbers.duration),
    ("share", "share_pct", numbers.percent),
    ("mean", "mean_ns", numbers.duration),
    ("p50", "p50_ns", numbers.duration),
    ("p95", "p95_ns", numbers.duration),
    ("min", "min_ns", numbers.duration),
    ("max", "max_ns", numbers.duration),
)
_LAUNCH: Final[tuple[tuple[str, str, Callable[[Any], str]], ...]] = (
    ("trace", "trace", str),
    ("index", "launch_index", numbers.count),
    ("start", "offset_ns", numbers.duration),
    ("start_ns", "start_ns", str),
    ("duration", "duration_ns", numbers.duration),
    ("device", "device", str),
    ("stream", "stream", str),
    ("phase", "phase", str),
    ("module", "module", str),
    ("registers", "registers", numbers.count),
    ("shared", "shared_bytes", numbers.size),
    ("occupancy", "occupancy", lambda value: numbers.percent(100 * value)),
    ("copied", "bytes", numbers.size),
)
_WORK: Final[tuple[tuple[str, str, Callable[[Any], str]], ...]] = (
    ("TFLOP/s", "tflops", lambda value: f"{value:,.2f}"),
    ("GB/s", "gbs", lambda value: f"{value:,.1f}"),
    ("energy", "energy_mj", numbers.energy),
    ("replay", "replay_ratio", numbers.ratio),
    ("signature", "signature_id", str),
)


def kernel_facts(row: Mapping[str, Any], level: Level) -> Content:
    """The facts of a row of the Kernels table; what is not known is left out."""
    row = {**row, "op": row.get("operator") or row.get("op")}
    title = row.get("key" if level == "op" else "kernel") or row.get("name") or numbers.UNKNOWN
    chosen = (*_ALWAYS, *(_LAUNCH if level == "launch" else _SUMS), *_WORK)
    if level == "op":
        chosen = (*_SUMS, *_WORK[:-1])
    elif level == "kernel":
        chosen = (*_ALWAYS[:3], *_SUMS, *_WORK[:-1])
    facts: list[Fact] = [(name, write(row[key])) for name, key, write in chosen if row.get(key) is not None]
    if level in {"signature", "launch"}:
        facts[5:5] = [("grid", extent(row, "grid")), ("block", extent(row, "block"))]
    return lines([(title, None), ("", None), *facts])


def lines(facts: Iterable[Fact]) -> Content:
    """A line per fact: names aligned, a name without a value in bold."""
    known = list(facts)
    size = max((len(name) for name, value in known if value is not None), default=0)
    parts = []
    for name, value in known:
        if value is None:
            parts.append(Content.styled(numbers.safe(name), "bold"))
        else:
            label = Content.styled(name.ljust(size) + "  ", "dim")
            parts.append(Content.assemble(label, numbers.safe(value)))
    return Content("\n").join(parts)
