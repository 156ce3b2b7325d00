"""Answers as pictures: Vega-Lite charts written as SVG, PNG or an HTML page that opens without a network."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any, Final

from kerneldb.errors import KerneldbError, UsageError
from kerneldb.report import charts, require

Rows = list[dict[str, Any]]
Spec = dict[str, Any]

ENDINGS: Final = (".svg", ".png", ".html")
DRAWN: Final = ("altair", "vl_convert")
MANY: Final = 25
"""Bars of one chart; more cannot be read."""
DOTS: Final = 5_000
PIXELS: Final = 2.0
"""Pixels of a PNG per unit of the chart."""


def check(path: Path) -> None:
    """Raise UsageError unless the ending of `path` names a format, KerneldbError where a library is missing."""
    if path.suffix.lower() not in ENDINGS:
        raise UsageError(f"cannot draw {path}: the name of a plot ends in {', '.join(ENDINGS[:-1])} or {ENDINGS[-1]}")
    require(DRAWN, "plots")


def save(name: str, rows: Rows, path: Path) -> None:
    """Draw the rows of the answer `name` (a key of DRAWINGS) to `path`, in the format that its ending names.

    Raises what `check` raises, and KerneldbError where the rows hold nothing to draw.
    """
    check(path)
    spec = DRAWINGS[name](rows)
    if spec is None:
        raise KerneldbError(f"nothing to draw in {path}: no row has what the chart of {name} shows")
    import vl_convert

    from kerneldb.output.destination import opened

    ending, spec = path.suffix.lower(), {**spec, "background": "white"}
    if ending == ".svg":
        data = str(vl_convert.vegalite_to_svg(spec)).encode()
    elif ending == ".png":
        data = bytes(vl_convert.vegalite_to_png(spec, scale=PIXELS))
    else:
        data = str(vl_convert.vegalite_to_html(spec, bundle=True)).encode()
    with opened(path) as sink:
        sink.write(data)


def _roofline(rows: Rows) -> Spec | None:
    points = [row for row in rows if row["intensity"] and row["flops_per_second"]][:DOTS]
    return charts.roofline(points, charts.roofs(points, "dtype")) if points else None


def _idle(rows: Rows) -> Spec | None:
    shown = [{**row, "place": _place(row), "idle_ms": row["idle_ns"] / 1e6} for row in rows]
    return charts.stacked(shown, "place", ("idle_ms", "idle time in ms"), "cause") if shown else None


def _gaps(rows: Rows) -> Spec | None:
    shown = [
        {**row, "at_ms": row["gap_start_ns"] / 1e6, "gap_us": row["gap_ns"] / 1e3, "kernel": row["next"]}
        for row in rows[:DOTS]
    ]
    first = min((row["at_ms"] for row in shown), default=0.0)
    moved = [{**row, "at_ms": row["at_ms"] - first} for row in shown]
    titles = ("time in ms", "gap in µs")
    return charts.scatter(moved, ("at_ms", "gap_us"), titles, "cause", logarithmic=(False, True)) if moved else None


def _collectives(rows: Rows) -> Spec | None:
    shown = [{**row, "kernel": row["dtype"]} for row in rows if row["bytes"] and row["median_bus_gbs"]][:DOTS]
    titles = ("bytes", "bus bandwidth in GB/s")
    axes = ("bytes", "median_bus_gbs")
    return charts.scatter(shown, axes, titles, "operation", logarithmic=(True, True)) if shown else None


def _waits(rows: Rows) -> Spec | None:
    parts = [
        {"place": f"{row['run']}, rank {row['rank']}", "part": part, "ms": row[f"{part}_ns"] / 1e6}
        for row in rows
        for part in ("transfer", "wait")
        if row[f"{part}_ns"] is not None
    ]
    return charts.stacked(parts, "place", ("ms", "time in ms"), "part") if parts else None


def _phases(rows: Rows) -> Spec | None:
    several = len({row["trace"] for row in rows}) > 1
    shown = [
        {
            "phase": (f"{row['trace']}: " if several else "") + str(row["phase"] or "no phase"),
            "total_ms": row["total_ns"] / 1e6,
            "n": row["n"],
        }
        for row in rows[:MANY]
        if row["total_ns"] is not None
    ]
    return charts.bars(shown, "phase", "total_ms", "GPU time in ms", ["n"]) if shown else None


def _diff(rows: Rows) -> Spec | None:
    shown = [
        {"kernel": str(row["kernel"])[:90], "delta_ms": row["delta_ns"] / 1e6, "verdict": row["verdict"]}
        for row in rows[:MANY]
        if row["delta_ns"]
    ]
    return charts.bars(shown, "kernel", "delta_ms", "change of GPU time in ms", colour="verdict") if shown else None


def _place(row: dict[str, Any]) -> str:
    return f"{row['trace']}, GPU {'?' if row['device'] is None else row['device']}"


DRAWINGS: Final[dict[str, Callable[[Rows], Spec | None]]] = {
    "roofline": _roofline,
    "idle": _idle,
    "idle_gaps": _gaps,
    "collectives": _collectives,
    "collective_waits": _waits,
    "phases": _phases,
    "diff": _diff,
}
"""Answer → how its rows are drawn; None where they hold nothing to draw."""
