"""Asks the questions of a report and arranges the answers."""

from __future__ import annotations

import dataclasses
import datetime
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final

from kerneldb.api import timeline as timelines
from kerneldb.output import units
from kerneldb.report import charts, contents, counters, events, ranks, why
from kerneldb.report.asking import Asking, asking, named
from kerneldb.report.model import Chart, Report, Section, Table

if TYPE_CHECKING:
    from kerneldb.api import Database

NO_TIMES: Final = "Counters only: no trace with times of its own is among these."
TOGETHER: Final = (
    "One point per kernel, launch shape and call. Rates are of all its launches together, long ones weigh more; "
    "work from counters is the mean of the launches that were profiled."
)
ALL_SHORT: Final = 90
SETUP: Final = "Setup"
TOP: Final = "Where the GPU time goes"
DRAWN: Final = "Timeline"
MEMORY: Final = "Memory at the peak"
NO_ADDRESSES: Final = "What was held then is not known: the trace does not say which allocation a release is of."
LONGEST_NS: Final = 86_400_000_000_000
"""No recording lasts for longer than a day."""
RANKS: Final = "Who waits for whom"
TOGETHER_DRAWN: Final = "All of them on one timeline"
ALIGNED: Final = "Their clocks are the same: what is above each other happened at the same time."
TOO_MANY: Final = "Their {:,} events are too many for a page that comes at once: kerneldb report has them, as sums."
APART: Final = "Their clocks have nothing in common: the first launch of each is at the same place."


def single(database: Database, names: Sequence[str], rule: str | None = None, *, live: bool = False) -> Report:
    """The report on the traces that `names` mean (see `named`). Raises UsageError for an unknown name or rule.

    Each trace with times has its own sections; counters of all of them have sections by model of GPU, with those of
    the run of a trace with times. `rule` is the rule of `bounds` by which counters are classified. The launches of a
    trace that are primary in another one are in the sections of that one. With `live`, timelines ask for more (see
    `events`).
    """
    sections = tuple(arriving(database, names, rule, live=live))
    return Report(title(names), made(database), sections)


def arriving(
    database: Database, names: Sequence[str], rule: str | None = None, *, live: bool = False
) -> Iterator[Section]:
    """The sections of `single`, each when it has been asked for; raises at once what `single` raises."""
    counters.check_rule(database, rule)
    meant = [row for name in names for row in named(database, name)]
    instead = {trace: other for trace, _, other in database.repeated_by([row["trace"] for row in meant])}
    known = {row["trace"]: row for row in meant}
    for trace in [row["trace"] for row in meant if row["trace"] in instead and row["kind"] not in counters.KINDS]:
        del known[trace]
        known |= {row["trace"]: row for row in named(database, instead[trace])}
    return _asked(database, list(known.values()), rule, live)


def _asked(database: Database, found: Sequence[dict[str, Any]], rule: str | None, live: bool) -> Iterator[Section]:
    with asking(database) as ask:
        yield from _sections(ask, found, rule, live)


def title(names: Sequence[str]) -> str:
    """The title of the report on these traces."""
    return f"GPU kernels of {', '.join(names)}"


def timeline(database: Database, name: str) -> Report:
    """The timeline of one trace alone, which asks for more. Raises UsageError for an unknown name."""
    database.traces([name])
    with asking(database) as ask:
        one = ask.about(trace=name)
        return Report(name, made(database), (_drawn(one, live=True),))


def _sections(ask: Asking, found: Sequence[dict[str, Any]], rule: str | None, live: bool) -> Iterator[Section]:
    """Those of each trace with times, those of the counters of all, and the appendices."""
    timed = [ask.about(trace=row["trace"]) for row in found if row["kind"] not in counters.KINDS]
    axis = (
        ask.of(timelines.axis, [one.params["trace"] for one in timed]) if len(timed) > 1 else timelines.Axis((), False)
    )
    placed = {one.trace for one in axis.traces} if len(axis.traces) > 1 else set()
    each = [_titled(one, _of_trace(one, live, alone=live or one.params["trace"] not in placed), timed) for one in timed]
    if len(timed) > 1:
        yield from _ranks(ask, timed)
    if not live:
        yield from map(next, each)  # why each takes so long
    if placed and not live:
        yield _together(ask, axis)
    for parts in each:
        yield from parts
    if not timed:
        yield Section(SETUP, (), (), NO_TIMES)
    yield from counters.sections(ask, [row["trace"] for row in found], rule)
    if placed and live:
        held = sum(events.extent(ask.about(trace=trace)).events for trace in placed)
        many = Section(TOGETHER_DRAWN, (), (), TOO_MANY.format(held))
        yield many if held > events.MOST else _together(ask, axis)
    for one in timed:
        yield Section(f"Full names: {one.params['trace']}", (one.table(contents.NAMES),))


def _ranks(ask: Asking, timed: Sequence[Asking]) -> Iterator[Section]:
    """Who waits for whom, where ranks of one job are among the traces."""
    table = ask.about(traces=[one.params["trace"] for one in timed]).table(contents.STRAGGLERS)
    if table.rows:
        yield Section(RANKS, (table,), (), " ".join(ranks.sentences(table.rows, named=False)))


def _titled(ask: Asking, parts: Iterator[Section], timed: Sequence[Asking]) -> Iterator[Section]:
    """The sections of a trace, with its name where there are several."""
    prefix = f"{ask.params['trace']}: " if len(timed) > 1 else ""
    for part in parts:
        yield dataclasses.replace(part, title=prefix + part.title, before=prefix + part.before)


def _together(ask: Asking, axis: timelines.Axis) -> Section:
    """One timeline of all traces of an axis."""
    placed = [ask.about(trace=one.trace) for one in axis.traces]
    found = events.together(placed, axis, events.MOST)
    rows = []
    for one, ask_one in zip(axis.traces, placed, strict=True):
        by = (one.first_ns + one.shift_ns) / 1e6
        for row in ask_one.rows("timeline"):
            moved = {name: row[name] + by for name in ("from_ms", "to_ms")}
            rows.append({**row, **moved, "lane": f"{one.trace}, {row['lane']}"})
    drawn = Chart(_caption(found), charts.lanes(rows), placed[0].sql("timeline"), events.inlined(found))
    clocks = ALIGNED if axis.aligned else APART
    return Section(TOGETHER_DRAWN, (drawn,), (), " ".join(filter(None, (clocks, found.without_path()))))


def made(database: Database) -> str:
    """By which version, from which file and when."""
    from kerneldb import __version__

    now = datetime.datetime.now(datetime.UTC).strftime("%Y-%m-%d %H:%M UTC")
    return f"made by kerneldb {__version__} from {database.path.name}, {now}"


def _of_trace(ask: Asking, live: bool, *, alone: bool) -> Iterator[Section]:
    """Why, setup and times of a trace, with its timeline `alone`.

    With `live` what is soon answered comes first, to be put in its place.
    """
    found = events.extent(ask)
    if not live:
        yield from (_why(ask), _setup(ask), _top(ask))
        if found.events and alone:
            yield _drawn(ask)
        if ask.rows("wall_parts"):
            yield from _time(ask)
        return
    timed = found.launches > 0
    if found.events:
        yield _drawn(ask, live=True)
    yield dataclasses.replace(_top(ask), before=DRAWN)
    yield dataclasses.replace(_setup(ask), before=TOP)
    if timed:
        yield from _time(ask)
    yield dataclasses.replace(_why(ask), before=SETUP)


def _why(ask: Asking) -> Section:
    """The verdict, and all wall time: of a large trace the last answer that is there."""
    found = why.verdict(ask)
    remark = " ".join([found.headline(), *found.unknown, *([] if found.advice else ["No rule found anything."])])
    plans = (contents.WALL, contents.GPU_TIME, contents.IDLE) if found.span_ns else (contents.WALL,)
    return Section(contents.WHY, tuple(map(ask.table, plans)), found.advice, remark)


def _setup(ask: Asking) -> Section:
    return Section(SETUP, (ask.table(contents.SETUP), ask.table(contents.LACKS)))


def _top(ask: Asking) -> Section:
    top, categories = ask.table(contents.TOP), ask.table(contents.CATEGORIES)
    drawn = [*_shares("Share of GPU time by category", categories, "category"), *_shares("Top kernels", top, "kernel")]
    others = map(ask.table, (contents.OPERATORS, contents.PHASES))
    return Section(TOP, (*drawn, top, categories, *others, _occupancy(ask)))


def _occupancy(ask: Asking) -> Table:
    """The occupancy of launches; where it is not known, what the trace lacks for it."""
    found = ask.table(contents.OCCUPANCY)
    if found.rows:
        return found
    (there,) = ask.rows("occupancy_lacks")
    if not there["with_resources"]:
        return found
    lacks = contents.NO_GPU if there["arch"] is None else contents.NO_LIMITS.format(there["arch"])
    return dataclasses.replace(found, missing=lacks)


def _shares(caption: str, table: Table, label: str) -> Iterator[Chart]:
    """A bar per row with a share of the time, if there is one."""
    rows = [
        {label: str(row[label])[:ALL_SHORT], "share_pct": row["share_pct"], "n": row["n"]}
        for row in table.rows
        if row["share_pct"] is not None
    ]
    if rows:
        yield Chart(caption, charts.bars(rows, label, "share_pct", "share of GPU time in %", ["n"]), table.sql)


def _drawn(ask: Asking, *, live: bool = False) -> Section:
    """The timeline; a page that is live asks for what it draws, and nothing else.

    Where a browser cannot unpack the events, the streams are drawn.
    """
    found = events.gather(ask, events.MOST, live=live)
    spec = charts.lanes([] if live else ask.rows("timeline"))
    return Section(
        DRAWN, (Chart(_caption(found), spec, ask.sql("timeline"), events.inlined(found)),), (), found.without_path()
    )


def _caption(found: events.Events) -> str:
    """What a timeline shows."""
    what = "Host and streams over time" if found.found.launches else "Host over time"
    return f"{what} ({found.note()[:-1]})" if found.note() else what


def _time(ask: Asking) -> Iterator[Section]:
    yield from _memory(ask)
    yield _roofline(ask)
    steps = ask.rows("iteration_times")
    bars = charts.columns(steps, "iteration", "total_ms", "ms") if len(steps) > 1 else None
    drawn = [Chart("GPU time of each", bars, ask.sql("iteration_times"))] if bars else []
    yield Section("Iterations", (ask.table(contents.ITERATIONS), *drawn))
    # Replays and reconciliation, where there are any
    plans = (contents.RECONCILIATION, contents.REPLAYS) if ask.about().rows("measured") else (contents.REPLAYS,)
    if found := [table for plan in plans if (table := ask.table(plan)).rows]:
        yield Section("Replay and reconciliation", (*found, ask.table(contents.REPLAYED_KERNELS)))
    less = contents.OVERHEAD, contents.FUSION, contents.CONVERSIONS, contents.COLLECTIVES
    yield Section("What could be less", tuple(map(ask.table, less)))


def _memory(ask: Asking) -> Iterator[Section]:
    """What held memory when most was in use, where allocations were recorded."""
    tables = [table for plan in (contents.MEMORY, contents.MEMORY_LINES) if (table := ask.table(plan)).rows]
    if tables:
        said = dict.fromkeys(peak(row) for row in tables[0].rows if row["device_peak_bytes"] is not None)
        held = any(row["at_peak_bytes"] is not None for row in tables[0].rows)
        yield Section(MEMORY, tuple(tables), (), " ".join([*said, *([] if held else [NO_ADDRESSES])]))


def peak(row: Mapping[str, Any]) -> str:
    """How much of the memory of a device was in use at the peak, when, and of how much that was reserved."""
    number = "" if row["device"] is None else f" {row['device']}"
    at = _after_launch(row["at_ns"])
    used, reserved = row["device_peak_bytes"], row["reserved_bytes"]
    of = f", of {units.size(reserved)} that the allocator had reserved" if reserved else ""
    return f"{row['device_type']}{number}: at most {units.size(used)} in use{at}{of}."


def _after_launch(at_ns: int | None) -> str:
    """When that was; nothing where times are further apart than a recording lasts, which are of different clocks."""
    if at_ns is None or abs(at_ns) > LONGEST_NS:
        return ""
    return f", {units.duration(abs(at_ns))} {'after' if at_ns >= 0 else 'before'} the first launch"


def _roofline(ask: Asking) -> Section:
    table = ask.table(contents.ROOFLINE, 20)
    points = [{**row, "point": events.point(row["trace"], row["signature_id"])} for row in ask.rows("roofline")]
    roofs = charts.roofs([point for point in points if point["peak_flops_per_second"]], "dtype")
    drawn = (
        [Chart("Roofline", charts.roofline(points, roofs, list(events.categories(ask))), table.sql)] if points else []
    )
    return Section("Roofline", (*drawn, table), (), TOGETHER if points else "")
