"""What a recording found, a row per workload and mode."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

from kerneldb.recordings import Measurement, Part, Recording

QUANTITIES: Final = ("wall_ns", "energy_mj", "busy_ns", "tokens", "iterations", "launches", "power_w")
NOT_ASKED: Final = "not measured: --trace-only"
NOTHING: Final = Measurement("")
Row = dict[str, Any]


def columns(contents: Sequence[Recording]) -> tuple[str, ...]:
    """The columns of recordings: those of a job tell the rank."""
    rank, *others = _row(Part("", ""), Recording(""))
    return (rank, *others) if any(one.rank is not None for one in contents) else tuple(others)


def rows(contents: Sequence[Recording]) -> list[Row]:
    """The rows of bundle.jsons. All figures are per iteration; what is not known is None."""
    return [_row(part, content) for content in contents for part in content.parts]


def _row(part: Part, content: Recording) -> Row:
    found = {one.quantity: one for one in part.rows if one.repetition is None}
    known = {name: found.get(name, NOTHING) for name in QUANTITIES}
    value = {name: one.value for name, one in known.items()}
    wall, energy, tokens = value["wall_ns"], value["energy_mj"], value["tokens"]
    asked = "wall_ns" in found or not content.settings.get("trace_only")
    return {
        "rank": content.rank,
        "workload": part.workload,
        "mode": part.mode,
        "iterations": value["iterations"] and round(value["iterations"]),
        "wall_ms": _over(wall, 1e6),
        "wall_error_pct": _error(known["wall_ns"]),
        "busy_pct": _over(value["busy_ns"], wall, 100),
        "launches": value["launches"],
        "energy_mj": energy,
        "energy_error_pct": _error(known["energy_mj"]),
        "power_w": value["power_w"],
        "tokens_per_s": _over(tokens, wall, 1e9),
        "j_per_token": _over(energy, tokens, 1e-3),
        "reason": part.reason or (known["energy_mj"].reason if asked else NOT_ASKED),
    }


def _over(value: float | None, by: float | None, times: float = 1.0) -> float | None:
    return None if value is None or not by else value / by * times


def _error(one: Measurement) -> float | None:
    """Half of the 95 % interval, in percent of the value."""
    return None if one.low is None or one.high is None else _over((one.high - one.low) / 2, one.value, 100)


def text(contents: Sequence[Recording]) -> str:
    """The rows as a table of text, for machines where nothing else prints one."""
    names = columns(contents)
    shown = [names, *(tuple(_cell(one[name]) for name in names) for one in rows(contents))]
    padded = [[cell.ljust(max(map(len, column))) for cell in column] for column in zip(*shown, strict=True)]
    return "".join("  ".join(line).rstrip() + "\n" for line in zip(*padded, strict=True))


def _cell(value: Any) -> str:
    return "" if value is None else f"{value:.5g}" if isinstance(value, float) else str(value)
