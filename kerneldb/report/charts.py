"""The charts, as Vega-Lite by Altair. Colours are those of Okabe and Ito, which colour-blind people can distinguish."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

Rows = Sequence[dict[str, Any]]

COLOURS: Final = ("#0072B2", "#E69F00", "#009E73", "#CC79A7", "#56B4E9", "#D55E00", "#F0E442", "#999999")
WIDTH: Final = 940
BAR_HEIGHT: Final = 18
FAINT: Final = 0.35
"""Opacity of the grid of logarithmic axes, which is dense."""


def bars(
    rows: Rows, label: str, value: str, title: str, more: Sequence[str] = (), colour: str | None = None
) -> dict[str, Any]:
    """Horizontal bars in the order of the rows; labels get a number where two are equal. `colour`: a column."""
    import altair as alt

    several = len({str(row[label]) for row in rows}) < len(rows)
    numbered = [
        {**row, "_place": f"{number:03d}", "_label": f"{number}. {row[label]}" if several else str(row[label])}
        for number, row in enumerate(rows, 1)
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
    """Upright bars in the order of the rows, grey where the column `steady_state` is false."""
    import altair as alt

    return _drawn(
        rows,
        alt.MarkDef("bar"),
        (WIDTH - 160, 160),
        x=alt.X(f"{label}:N", title=label, sort=None, axis=alt.Axis(labelAngle=0, labelOverlap=True)),
        y=alt.Y(f"{value}:Q", title=title),
        color=alt.condition("datum.steady_state === false", alt.value(COLOURS[-1]), alt.value(COLOURS[0])),
        tooltip=[f"{label}:N", "steady_state:N", *_tips(value)],
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
        color=alt.Color("category:N", scale=alt.Scale(range=list(COLOURS)), title="longest in the bin"),
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


def roofline(points: Rows, roofs: Rows) -> dict[str, Any]:
    """Log-log roofline: a line a roof (rows: name, intensity, flops_per_second), a dot a kernel, its size the time."""
    import altair as alt

    scales = []
    for name in ("intensity", "flops_per_second"):
        values = [row[name] for row in (*points, *roofs)]
        around = [min(values) / 1.5, max(values) * 1.5]  # so that no dot is on the frame
        scales.append(alt.Scale(type="log", nice=False, domain=around))
    grey = alt.value("#888888")
    axis = alt.Axis(format="~s", gridOpacity=FAINT)
    x = alt.X("intensity:Q", scale=scales[0], title="intensity in FLOP/byte", axis=alt.Axis(gridOpacity=FAINT))
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
    dots = (
        alt.Chart(_data(points))
        .mark_circle(opacity=0.8)
        .encode(
            x,
            y,
            color=alt.Color("category:N", scale=alt.Scale(range=list(COLOURS)), title="category"),
            size=alt.Size("total_ns:Q", legend=None, scale=alt.Scale(range=[30, 600])),
            tooltip=["kernel:N", "category:N", *_tips("intensity", "flops_per_second", "total_ns")],
        )
    )
    return _finished((lines + names + dots).properties(width=WIDTH - 160, height=380))


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


def _coloured(column: str, title: str, rows: Rows) -> Any:
    """The colours of Okabe and Ito, by the values in the order of the rows."""
    import altair as alt

    names = list(dict.fromkeys(str(row[column]) for row in rows))
    return alt.Color(f"{column}:N", scale=alt.Scale(domain=names, range=list(COLOURS)), title=title)


def _tips(*names: str, form: str = ".4~s") -> list[Any]:
    import altair as alt

    return [alt.Tooltip(f"{name}:Q", format=form) for name in names]


def _data(rows: Rows) -> Any:
    import altair as alt

    return alt.Data(values=[dict(row) for row in rows])


def _drawn(rows: Rows, mark: Any, size: tuple[float, float], **channels: Any) -> dict[str, Any]:
    """A chart of one kind of mark, `size` (width and height) without its axes."""
    import altair as alt

    return _finished(alt.Chart(_data(rows), mark=mark, width=size[0], height=size[1]).encode(**channels))


def _finished(chart: Any) -> dict[str, Any]:
    import altair as alt

    spec: dict[str, Any] = chart.configure(background="transparent", view=alt.ViewConfig(strokeOpacity=0)).to_dict()
    return spec


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
