"""What the timeline says about what is under its cursor: a launch, a call, an idle time, and where it comes from."""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING, Any, Final

from textual.content import Content

from kerneldb.tui.numbers import amount, count, cut_before, cut_frame, duration, figure, safe, several
from kerneldb.tui.widgets.gantt import clock

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from kerneldb.api.timeline import Axis
    from kerneldb.api.tracks import Event, Track
    from kerneldb.tui.widgets.table import Row

LEAST_TFLOPS: Final = 0.01
"""Rates below are written with a smaller unit."""
LEAST_FRAME: Final = 24
"""Cells of a frame of a library behind the line of the user; with less it says nothing."""
CALLS: Final = " → "


@dataclasses.dataclass(frozen=True, slots=True)
class Told:
    """What an event of a track led to: the `launch` that it is linked with, in `words`, and what was `around` it."""

    words: str = ""
    launch: Row | None = None
    around: Mapping[str, Any] | None = None


def about_gap(where: str, measured_ns: int | None, *, known: bool) -> Content:
    """Lines about the cursor where no launch is, or none is `known` yet."""
    found = "no launch here  " if known else "…  "
    return Content.assemble(measured(measured_ns), found, Content.styled(safe(where), "dim"), "\n\n")


def about_launch(one: dict[str, Any], where: str, at_ns: int, measured_ns: int | None, width: int) -> Content:
    """Lines about a launch: its kernel and lane, its numbers, where it comes from, and, where it fits, its full name.

    The line of the program is as wide as there is room for; all others are cut at their end by who shows them.
    """
    lines = ["  ".join([f"at {clock(at_ns, 1)}", *facts_of(one)]), *_from(one, width)]
    return Content.assemble(
        measured(measured_ns),
        Content.styled(safe(one["short_name"] or one["copy_kind"] or one["kind"]), "bold"),
        Content.styled(safe(f"  {one['category'] or ''}  {where}"), "dim"),
        *(f"\n{safe(line)}" for line in lines),
        "\n",
        Content.styled(safe(one["name"] or ""), "dim"),
    )


def _from(launch: Mapping[str, Any], width: int) -> list[str]:
    """What launched it and the line of the program, each as a line where anything of it is known."""
    around = launch["around"] or {}
    line = program_line(around, width) or cut_before(launch["python_line"] or "", width)
    return [text for text in (origin(launch), line) if text]


def origin(one: Mapping[str, Any]) -> str:
    """What launched it: the call, operator, module and annotation, as far as they are known."""
    call, around = "", one["around"] or {}
    if one["launch_start_ns"] is not None:
        call = f"{one['api_call'] or 'launched'} {duration(max(one['start_ns'] - one['launch_start_ns'], 0))} before"
    return _joined("from", call, one["op"], one["module"] or around.get("module"), _annotation(one))


def _annotation(launch: Mapping[str, Any]) -> str:
    """The innermost one: of a thread of autograd, of the thread that waits for it."""
    return (launch["range_path"] or "").rsplit("/", 1)[-1]


def _joined(before: str, *parts: str | None) -> str:
    known = [part for part in parts if part]
    return f"{before} {' · '.join(known)}" if known else ""


def program_line(around: Mapping[str, Any], width: int) -> str:
    """The user's line of Python, and behind it the innermost one that it led to; cut so that file and line stay."""
    frame, line = around.get("frame") or "", around.get("line") or ""
    before = "backward of " if around.get("is_forward") and (line or frame) else ""
    room = width - len(before)
    if not line or not frame or line == frame:
        return before + cut_before(line or frame, room)
    text = before + cut_before(line, room)
    left = width - len(text) - len(CALLS)
    return text + CALLS + cut_before(frame, left) if left >= LEAST_FRAME else text


def measured(ns: int | None) -> Content:
    """How long what is measured takes, before all else."""
    return Content.styled("" if ns is None else f"measured {duration(ns)}  ", "bold")


def facts_of(one: Mapping[str, Any]) -> list[str]:
    """Numbers about a launch, as far as they are known."""
    facts = [f"lasts {duration(one['duration_ns'])}", *_exchanged(one.get("exchange") or {})]
    sides = {shape: [one[f"{shape}_{axis}"] for axis in "xyz"] for shape in ("grid", "block")}
    if known := [f"{shape} {'×'.join(map(str, three))}" for shape, three in sides.items() if None not in three]:
        facts.append(" ".join(known))
    if one["op"]:
        facts.append(f"op {one['op']}" + (f" ({one['inferred_by']})" if one["inferred_by"] else ""))
    if one["phase"]:
        facts.append(f"phase {one['phase']}")
    if one["bytes"] is not None:
        facts.append(f"{amount(one['bytes'], 'B')}")
    if one["tflops"] is not None:
        rate = one["tflops"]
        facts.append(f"{figure(rate)} TFLOP/s" if rate >= LEAST_TFLOPS else amount(1e12 * rate, "FLOP/s"))
    return [*facts, f"launch {count(one['launch_index'])}"]


def _exchanged(exchange: Mapping[str, Any]) -> Iterable[str]:
    """Of a collective for whom it waited, where all ranks are known, and what it moved."""
    wait, late = exchange.get("wait_ns"), exchange.get("late_rank")
    if wait:
        yield f"waited {duration(wait)} for rank {late}"
    elif wait is not None and late == exchange["rank"]:
        yield "joined last"
    if exchange.get("bytes") is not None:
        yield f"{exchange['operation']} of {amount(exchange['bytes'], 'B')}"


def about_event(
    axis: Axis, track: Track, event: Event | None, told: Told, measured_ns: int | None, width: int
) -> Content:
    """Lines about what a track holds under the cursor: what it is, its times, where it comes from."""
    where = f"{track.kind}  {axis.traces[track.number].trace}"
    if track.thread is not None:
        where += f" · thread {track.thread}"
    if event is None:
        return Content.assemble(measured(measured_ns), "nothing here  ", Content.styled(safe(where), "dim"), "\n\n\n")
    numbers = f"at {clock(event.begins_ns, 1)}  lasts {duration(event.ends_ns - event.begins_ns)}"
    lines = ["  ".join(filter(None, [numbers, told.words])), *_comes_from(track, told, width)]
    return Content.assemble(
        measured(measured_ns), Content.styled(safe(_named(track, event, width)), "bold"),
        Content.styled(f"  {safe(where)}", "dim"), *(f"\n{safe(line)}" for line in lines), "\n",
    )  # fmt: skip


def _named(track: Track, event: Event, width: int) -> str:
    if track.kind == "idle":
        return about_cause(event.facts)
    return cut_frame(event.text, width) if track.kind == "Python" else event.text


def _comes_from(track: Track, told: Told, width: int) -> Iterable[str]:
    """As of a launch, of what ended an idle time; of a call or an operator, what is around it."""
    if track.kind == "idle":
        return [] if told.launch is None else _from(told.launch, width)
    around = told.around or {}
    ops = (around.get("ops") or [])[: -1 if track.kind == "operators" else None]
    outer = ops[-1] if ops else None
    annotation = around.get("annotation") or (_annotation(told.launch) if told.launch else "")
    parts = _joined("in", outer, around.get("module"), annotation)
    return [line for line in (parts, program_line(around, width)) if line]


def led_to(launch: Mapping[str, Any], n: int, total_ns: int) -> str:
    """The launches of a call or an operator."""
    found = f"launched {several(n, 'activity', 'activities')}, {duration(total_ns)}"
    return f"{found}: {launch['short_name'] or launch['copy_kind'] or launch['kind']}" if n == 1 else f"{found} in all"


def about_cause(facts: Mapping[str, Any]) -> str:
    """Why a device was idle, as a sentence."""
    if not facts.get("cause"):
        return "idle"
    waited = f" in {facts['waiting_call']}" if facts["waiting_call"] else ""
    if waited and facts["is_carried"]:
        waited = f", after {facts['waiting_call']} had ended"
    quiet = f", in no call for {duration(facts['no_call_ns'])}" if facts["no_call_ns"] else ""
    late = f", the host {duration(facts['host_late_ns'])} late" if facts["host_late_ns"] else ""
    return f"idle: {facts['cause']}{waited}{late}{quiet}; then {facts['next_op'] or facts['next'] or '?'}"
