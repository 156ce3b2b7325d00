"""What a recording found, a row per stage and mode."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

COLUMNS: Final = (
    "stage", "mode", "iterations", "wall_ms", "wall_error_pct", "busy_pct", "launches", "energy_mj", "energy_error_pct",
    "power_w", "tokens_per_s", "j_per_token", "reason",
)  # fmt: skip
NOT_ASKED: Final = "not measured: --trace-only"
Row = dict[str, Any]


def columns(contents: Sequence[Mapping[str, Any]]) -> tuple[str, ...]:
    """The columns of recordings: those of a job tell the rank."""
    return ("rank", *COLUMNS) if any("rank" in one for one in contents) else COLUMNS


def rows(contents: Sequence[Mapping[str, Any]]) -> list[Row]:
    """The rows of bundle.jsons. All figures are per iteration; what is not known is None."""
    return [_row(part, content) for content in contents for part in content["parts"]]


def _row(part: Mapping[str, Any], content: Mapping[str, Any]) -> Row:
    found = {
        one["quantity"]: one
        for one in (*part.get("measurements", ()), *part.get("of_trace", ()))
        if "repetition" not in one
    }
    wall, energy = _value(found, "wall_ns"), _value(found, "energy_mj")
    busy, tokens = _value(found, "busy_ns"), _value(found, "tokens")
    return {
        "rank": content.get("rank"),
        "stage": part["stage"],
        "mode": part["mode"],
        "iterations": _value(found, "iterations"),
        "wall_ms": _over(wall, 1e6),
        "wall_error_pct": _error(found, "wall_ns"),
        "busy_pct": _over(busy, wall, 100),
        "launches": _value(found, "launches"),
        "energy_mj": energy,
        "energy_error_pct": _error(found, "energy_mj"),
        "power_w": _value(found, "power_w"),
        "tokens_per_s": _over(tokens, wall, 1e9),
        "j_per_token": _over(energy, tokens, 1e-3),
        "reason": part.get("reason") or _reason(found, content["settings"]),
    }


def _reason(found: Mapping[str, Row], settings: Mapping[str, Any]) -> str | None:
    """Why there is no energy, or nothing measured at all."""
    if "wall_ns" not in found and settings.get("trace_only"):
        return NOT_ASKED
    reason: str | None = found.get("energy_mj", {}).get("reason")
    return reason


def _value(found: Mapping[str, Row], quantity: str) -> float | None:
    return found.get(quantity, {}).get("value")


def _over(value: float | None, by: float | None, times: float = 1.0) -> float | None:
    return None if value is None or not by else value / by * times


def _error(found: Mapping[str, Row], quantity: str) -> float | None:
    """Half of the 95 % interval, in percent of the value."""
    row = found.get(quantity, {})
    if not row.get("value") or "low" not in row:
        return None
    return float((row["high"] - row["low"]) / 2 / row["value"] * 100)


def text(contents: Sequence[Mapping[str, Any]]) -> str:
    """The rows as a table of text, for machines where nothing else prints one."""
    names = columns(contents)
    shown = [names, *(tuple(_cell(one[name]) for name in names) for one in rows(contents))]
    widths = [max(len(line[column]) for line in shown) for column in range(len(names))]
    return "\n".join(_line(line, widths) for line in shown) + "\n"


def _line(cells: Sequence[str], widths: Sequence[int]) -> str:
    return "  ".join(cell.ljust(width) for cell, width in zip(cells, widths, strict=True)).rstrip()


def _cell(value: Any) -> str:
    return "" if value is None else f"{value:.5g}" if isinstance(value, float) else str(value)
