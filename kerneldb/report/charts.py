"""The charts, as Vega-Lite by Altair; and answers as pictures: SVG, PNG, or an HTML page that opens without a network.

Colours are those of Okabe and Ito, which colour-blind people can distinguish.
"""

from __future__ import annotations

import json
import math
import os
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, Final, cast

from kerneldb.errors import KerneldbError, UsageError
from kerneldb.output.text import escape, shorten
from kerneldb.output.units import duration
from kerneldb.report import require
from kerneldb.report.dots import ROOFED, SIZE, texts, told_apart
from kerneldb.report.model import shapes

Rows = Sequence[dict[str, Any]]

COLOURS: Final = ("#0072B2", "#E69F00", "#009E73", "#CC79A7", "#56B4E9", "#D55E00", "#F0E442", "#BBBBBB")
GREYS: Final = ("#020202", "#7d7d7d", "#484848", "#bbbbbb", "#292929", "#999999", "#646464", "#e4e4e4")
"""What files of plots have in their place where NO_COLOR is set. Pages that others read keep their colours."""
SCALE: Final = [*COLOURS, *COLOURS[-1:] * 24]
"""From the eighth value on all are grey: a colour that comes again would say that two values are one."""
WIDTH: Final = 940
BAR_HEIGHT: Final = 18
LONGEST: Final = 300
"""A label of so many characters has no room; to measure very long ones takes seconds."""
FAINT: Final = 0.35
"""Opacity of the grid of logarithmic axes, which is dense."""


def bars(
    rows: Rows, label: str, value: str, title: str, more: Sequence[str] = (), colour: str | None = None
) -> dict[str, Any]:
    """Horizontal bars in the order of the rows; labels get a number where two are equal. `colour`: a column."""
    import altair as alt

    shown = [shorten(escape(str(row[label])), LONGEST) for row in rows]
    several = len(set(shown)) < len(rows)
    numbered = [
        {**row, "_place": f"{number:03d}", "_label": f"{number}. {text}" if several else text}
        for number, (row, text) in enumerate(zip(rows, shown, strict=True), 1)
    ]
    axis = alt.Axis(labelExpr="datum.value", labelLimit=320, title=None)
    tips = [f"{label}:N", f"{value}:Q", *(f"{name}:Q" for name in more), *([f"{colour}:N"] if colour else [])]
    return _drawn(
        numbered,
        alt.MarkDef("bar", color=COLOURS[0]),
        (WIDTH - 340, max(2, len({row["_label"] for row in numbered})) * BAR_HEIGHT),
        x=alt.X(f"{value}:Q", title=title),
        y=alt.Y("_label:N", sort=alt.EncodingSortField("_place"), axis=axis),
        tooltip=tips,
        **({"color": _coloured(colour, colour, rows)} if colour else {}),
    )


def stacked(rows: Rows, label: str, value: tuple[str, str], part: str) -> dict[str, Any]:
    """Horizontal bars of parts: a bar per `label`, as long as the sum of `value` (column, title), coloured."""
    import altair as alt

    return _drawn(
        rows,
        alt.MarkDef("bar"),
        (WIDTH - 340, max(2, len({row[label] for row in rows})) * BAR_HEIGHT * 1.5),
        x=alt.X(f"{value[0]}:Q", title=value[1]),
        y=alt.Y(f"{label}:N", title=None, axis=alt.Axis(labelLimit=320)),
        color=_coloured(part, part, rows),
        tooltip=[f"{label}:N", f"{part}:N", *_tips(value[0])],
    )


def columns(rows: Rows, label: str, value: str, title: str) -> dict[str, Any]:
    """Upright bars in the order of the rows, side by side for GPUs, grey where the column `steady_state` is false."""
    import altair as alt

    several = len({row.get("device") for row in rows}) > 1
    return _drawn(
        rows,
        alt.MarkDef("bar"),
        (WIDTH - 160, 160),
        x=alt.X(f"{label}:N", title=label, sort=None, axis=alt.Axis(labelAngle=0, labelOverlap=True)),
        y=alt.Y(f"{value}:Q", title=title),
        color=alt.condition("datum.steady_state === false", alt.value(COLOURS[-1]), alt.value(COLOURS[0])),
        tooltip=[*(["device:N"] if several else []), f"{label}:N", "steady_state:N", *_tips(value)],
        **({"xOffset": "device:N"} if several else {}),
    )


def lanes(rows: Rows) -> dict[str, Any]:
    """The timeline: a lane per stream, the colour the category, the opacity how busy."""
    import altair as alt

    return _drawn(
        rows,
        alt.MarkDef("rect"),
        (WIDTH - 160, max(1, len({row["lane"] for row in rows})) * 26),
        x=alt.X("from_ms:Q", title="time in ms", scale=alt.Scale(nice=False)),
        x2="to_ms:Q",
        y=alt.Y("lane:N", title=None),
        color=alt.Color("category:N", scale=alt.Scale(range=SCALE), title="longest in the bin"),
        opacity=alt.Opacity("busy:Q", scale=alt.Scale(domain=[0, 1], range=[0.15, 1]), legend=None),
        tooltip=["lane:N", "category:N", *_tips("busy", form=".0%"), "n:Q", *_tips("from_ms", form=".3f")],
    )


def histogram(rows: Rows, title: str) -> dict[str, Any]:
    """Bins as bars. Rows have from_value, to_value and n."""
    import altair as alt

    return _drawn(
        [row for row in rows if row["from_value"] is not None],
        alt.MarkDef("bar", color=COLOURS[0]),
        (WIDTH // 2 - 110, 140),
        x=alt.X("from_value:Q", title=title, bin="binned"),
        x2="to_value:Q",
        y=alt.Y("n:Q", title="launches"),
        tooltip=[*_tips("from_value", "to_value", form=".4~g"), "n:Q"],
    )


def line_of_runs(rows: Rows, unit: str) -> dict[str, Any]:
    """A dot a run (place, value in `unit`, commit, happened_at), in another colour where it `changed`."""
    import altair as alt

    return _drawn(
        rows,
        alt.MarkDef("circle", size=14, opacity=1),
        (WIDTH // 2 - 130, 90),
        x=alt.X("place:Q", title="run", scale=alt.Scale(zero=False, nice=False)),
        y=alt.Y("value:Q", title=unit, scale=alt.Scale(zero=False), axis=alt.Axis(format="~s", tickCount=4)),
        color=alt.condition("datum.changed", alt.value(COLOURS[5]), alt.value(COLOURS[0])),
        tooltip=["commit:N", "happened_at:N", *_tips("value")],
    )


def roofline(points: Rows, roofs: Rows, order: Sequence[str] = ()) -> dict[str, Any]:
    """Log-log roofline: a line a roof (rows: name, intensity, flops_per_second), a dot a kernel, its size the time.

    `order`: categories in the order in which other pictures of the page give them colours; else that of their time.
    """
    import altair as alt

    scales = []
    for name in ROOFED:
        values = [row[name] for row in (*points, *roofs)]
        around = [min(values) / 1.5, max(values) * 1.5]  # so that no dot is on the frame
        scales.append(alt.Scale(type="log", nice=False, domain=around))
    grey = alt.value("#888888")
    apart = {"gridOpacity": FAINT, "labelOverlap": "greedy", "labelSeparation": 10}
    axis, across = alt.Axis(format="~s", **apart), alt.Axis(**apart)
    x = alt.X("intensity:Q", scale=scales[0], title="intensity in FLOP/byte", axis=across)
    y = alt.Y("flops_per_second:Q", scale=scales[1], title="FLOP/s", axis=axis)
    lines = (
        alt.Chart(_data(roofs)).mark_line(strokeWidth=1.5).encode(x, y, detail="name:N", tooltip=["name:N"], color=grey)
    )
    last = {roof["name"]: roof for roof in roofs}
    names = (
        alt.Chart(_data(list(last.values())))
        .mark_text(align="right", dy=-7, fontSize=10)
        .encode(x, y, text="name:N", color=grey)
    )
    told = [
        {
            **row,
            "time": row["total_ns"] and duration(row["total_ns"]),
            "input_dims": shapes(row["input_dims"]) if row.get("input_dims") else None,
        }
        for row in points
    ]
    dots = (
        alt.Chart(_data(told))
        .mark_circle(opacity=0.8)
        .encode(
            x,
            y,
            color=_coloured("category", "category", sorted(points, key=lambda row: -(row["total_ns"] or 0)), order),
            size=alt.Size("total_ns:Q", legend=None, scale=alt.Scale(range=[30, 600])),
            tooltip=[tip for name, tip in _kernel_tips() if any(row.get(name) is not None for row in told)],
        )
    )
    extent = [(math.log(scale.domain[0]), math.log(scale.domain[1])) for scale in scales]
    layers = [lines, names, _ring(told, x, y), *texts(told_apart(points, roofs, extent), x, y), dots]
    marked = alt.param(name="marked", value="")
    return _finished(alt.layer(*layers).add_params(marked).properties(width=SIZE[0], height=SIZE[1]))


def _ring(points: Rows, x: Any, y: Any) -> Any:
    """A ring around the dots called `marked`, to which a page leads."""
    import altair as alt

    ring = alt.Chart(_data(points)).mark_point(size=900, strokeWidth=3, color=COLOURS[5], filled=False, opacity=1)
    return ring.transform_filter("datum.point === marked").encode(x, y)


def _kernel_tips() -> list[tuple[str, Any]]:
    """What a pointer over a dot of a roofline shows, by column: where the bytes are measured, `method` says so."""
    import altair as alt

    words = {
        "kernel": "kernel", "op": "operator", "input_dims": "shapes", "dtype": "type", "category": "category",
        "bound": "bound by", "method": "work and bytes from", "time": "GPU time",
    }  # fmt: skip
    numbers = {
        "n": "launches", "intensity": "FLOP/byte", "flops_per_second": "FLOP/s",
        "bytes_per_second": "bytes/s", "flops": "FLOP of a launch", "moved_bytes": "bytes of a launch",
        "modelled_bytes": "bytes by the shapes", "pct_attainable": "% of attainable",
    }  # fmt: skip
    forms = {"n": ",", "intensity": ".4~r", "pct_attainable": ".3~r"}
    texts = [(name, alt.Tooltip(f"{name}:N", title=title)) for name, title in words.items()]
    return texts + [
        (name, alt.Tooltip(f"{name}:Q", title=title, format=forms.get(name, ".4~s"))) for name, title in numbers.items()
    ]


def scatter(
    points: Rows,
    axes: tuple[str, str],
    titles: tuple[str, str],
    part: str = "verdict",
    logarithmic: tuple[bool, bool] = (False, False),
) -> dict[str, Any]:
    """Dots, coloured by the column `part`; rows have `kernel` too, which a pointer over a dot shows."""
    import altair as alt

    scales = [alt.Scale(type="log", nice=False) if of_it else alt.Scale() for of_it in logarithmic]
    formats = [alt.Axis(format="~g", gridOpacity=FAINT) if of_it else alt.Axis() for of_it in logarithmic]
    return _drawn(
        points,
        alt.MarkDef("circle", opacity=0.8, size=80),
        (WIDTH - 160, 320),
        x=alt.X(f"{axes[0]}:Q", title=titles[0], scale=scales[0], axis=formats[0]),
        y=alt.Y(f"{axes[1]}:Q", title=titles[1], scale=scales[1], axis=formats[1]),
        color=_coloured(part, "class" if part == "verdict" else part, points),
        tooltip=["kernel:N", f"{part}:N", *_tips(*axes)],
    )


def _coloured(column: str, title: str, rows: Rows, order: Sequence[str] = ()) -> Any:
    """The colours of Okabe and Ito, by the values in the order of the rows, or in `order`."""
    import altair as alt

    names = list(dict.fromkeys(str(row[column]) for row in rows))
    known = dict(zip(order or names, SCALE, strict=False))
    colours = [known.get(name, COLOURS[-1]) for name in names]
    return alt.Color(f"{column}:N", scale=alt.Scale(domain=names, range=colours), title=title)


def _tips(*names: str, form: str = ".4~s") -> list[Any]:
    import altair as alt

    return [alt.Tooltip(f"{name}:Q", format=form) for name in names]


class _Rows(str):
    """The rows of a chart, as a text to Altair: of rows it would copy and check each value at every step."""

    __slots__ = ("rows",)
    rows: list[dict[str, Any]]

    @classmethod
    def of(cls, rows: Rows) -> _Rows:
        """These rows; `_harmless` puts them in the place of the text."""
        made = cls()
        made.rows = [dict(row) for row in rows]
        return made


def _data(rows: Rows) -> Any:
    import altair as alt

    return alt.Data(values=_Rows.of(rows))


def _drawn(rows: Rows, mark: Any, size: tuple[float, float], **channels: Any) -> dict[str, Any]:
    """A chart of one kind of mark, `size` (width and height) without its axes."""
    import altair as alt

    return _finished(alt.Chart(_data(rows), mark=mark, width=size[0], height=size[1]).encode(**channels))


def _finished(chart: Any) -> dict[str, Any]:
    import altair as alt

    spec = chart.configure(background="transparent", view=alt.ViewConfig(strokeOpacity=0)).to_dict()
    return cast("dict[str, Any]", _harmless(spec))


def _harmless(part: Any) -> Any:
    """A part of a chart with all texts on one line, as `escape` makes them: of control characters SVG takes none."""
    if isinstance(part, _Rows):
        return _harmless(part.rows)
    if isinstance(part, dict):
        return {name: _harmless(inner) for name, inner in part.items()}
    if isinstance(part, list):
        return [_harmless(inner) for inner in part]
    return escape(part) if isinstance(part, str) else part


def roofs(points: Rows, kind: str) -> list[dict[str, Any]]:
    """The roof of each `kind` (a column) from its median peaks: the memory as a diagonal, the work as a line.

    Peaks are compared by four digits: they are worked out of rates and shares.
    """
    if not points:
        return []
    low = min(point["intensity"] for point in points) / 4
    ridges = [point["ridge"] for point in points if point["ridge"]]
    high = 4 * max([point["intensity"] for point in points] + ridges)
    alike: dict[tuple[float, float], list[str | None]] = {}
    for operation in dict.fromkeys(point[kind] for point in points):
        of_it = [point for point in points if point[kind] == operation and point["ridge"]]
        if of_it:
            middle = sorted(of_it, key=lambda point: point["peak_flops_per_second"])[len(of_it) // 2]
            same = (float(f"{middle['peak_flops_per_second']:.4g}"), float(f"{middle['ridge']:.4g}"))
            alike.setdefault(same, []).append(operation)
    drawn: list[dict[str, Any]] = []
    for (peak, ridge), operations in alike.items():
        ends = (min(low, ridge / 4), ridge, high)
        heights = (peak / ridge * ends[0], peak, peak)
        # One name for all whose roof is the same line: names over each other cannot be read.
        known = [operation for operation in operations if operation is not None]
        name = f"{', '.join(known)} peak" if known else "peak by the counters"
        drawn += [
            {"name": name, "intensity": at, "flops_per_second": height}
            for at, height in zip(ends, heights, strict=True)
        ]
    return drawn


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

    from kerneldb.output import opened

    if os.environ.get("NO_COLOR"):
        spec = _grey(spec)
    ending, spec = path.suffix.lower(), {**spec, "background": "white"}
    if ending == ".svg":
        data = str(vl_convert.vegalite_to_svg(spec)).encode()
    elif ending == ".png":
        data = bytes(vl_convert.vegalite_to_png(spec, scale=PIXELS))
    else:
        data = _page(spec).encode()
    with opened(path) as sink:
        sink.write(data)


def _grey(spec: Any) -> Any:
    """The chart with a grey for each colour."""
    if isinstance(spec, dict):
        return {key: _grey(value) for key, value in spec.items()}
    if isinstance(spec, list):
        return [_grey(value) for value in spec]
    return GREYS[COLOURS.index(spec)] if spec in COLOURS else spec


def _page(spec: Spec) -> str:
    """The chart as a page. The chart stands in a script there, which a `<` in a name must not end."""
    import vl_convert

    stand_in = "\ue000"  # `_harmless` left none of these
    marked = json.loads(json.dumps(spec).replace("<", stand_in))
    return str(vl_convert.vegalite_to_html(marked, bundle=True)).replace(stand_in, "\\u003c")


def _roofline(rows: Rows) -> Spec | None:
    points = [row for row in rows if row["intensity"] and row["flops_per_second"]][:DOTS]
    return roofline(points, roofs(points, "dtype")) if points else None


def _idle(rows: Rows) -> Spec | None:
    shown = [{**row, "place": _place(row), "idle_ms": row["idle_ns"] / 1e6} for row in rows]
    return stacked(shown, "place", ("idle_ms", "idle time in ms"), "cause") if shown else None


def _gaps(rows: Rows) -> Spec | None:
    shown = [
        {**row, "at_ms": row["gap_start_ns"] / 1e6, "gap_us": row["gap_ns"] / 1e3, "kernel": row["next"]}
        for row in rows[:DOTS]
    ]
    first = min((row["at_ms"] for row in shown), default=0.0)
    moved = [{**row, "at_ms": row["at_ms"] - first} for row in shown]
    titles = ("ms since the first gap", "gap in µs")
    return scatter(moved, ("at_ms", "gap_us"), titles, "cause", logarithmic=(False, True)) if moved else None


def _collectives(rows: Rows) -> Spec | None:
    shown = [{**row, "kernel": row["dtype"]} for row in rows if row["bytes"] and row["median_bus_gbs"]][:DOTS]
    titles = ("bytes", "bus bandwidth in GB/s")
    axes = ("bytes", "median_bus_gbs")
    return scatter(shown, axes, titles, "operation", logarithmic=(True, True)) if shown else None


def _waits(rows: Rows) -> Spec | None:
    parts = [
        {"place": f"{row['run']}, rank {row['rank']}", "part": part, "ms": row[f"{part}_ns"] / 1e6}
        for row in rows
        for part in ("transfer", "wait")
        if row[f"{part}_ns"] is not None
    ]
    return stacked(parts, "place", ("ms", "time in ms"), "part") if parts else None


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
    return bars(shown, "phase", "total_ms", "GPU time in ms", ["n"]) if shown else None


def _diff(rows: Rows) -> Spec | None:
    shown = [
        {"kernel": str(row["kernel"])[:90], "delta_ms": row["delta_ns"] / 1e6, "verdict": row["verdict"]}
        for row in rows[:MANY]
        if row["delta_ns"]
    ]
    return bars(shown, "kernel", "delta_ms", "change of GPU time in ms", colour="verdict") if shown else None


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
