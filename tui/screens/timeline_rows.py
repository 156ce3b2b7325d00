"""What the timeline shows, as rows of a Gantt: lanes below their devices, in a fixed order, pinned ones first."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from kerneldb.api.timeline import Seen
from kerneldb.tui.numbers import amount, count, duration, percent
from kerneldb.tui.widgets.gantt import Cell, Name, Picture, Row

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from kerneldb.api.timeline import Axis, Bin, Label, Lane, Stretch

    Bins = Mapping[int, Bin]

SHOWN_REASONS: Final = 6
NOTHING: Final = Seen()


def sentence_for(axis: Axis) -> str:
    """Why there is no timeline."""
    if not axis.left_out:
        return "No traces yet.\n\nkerneldb ingest TRACE"
    lines = [f"{trace}: {reason}" for trace, reason in axis.left_out[:SHOWN_REASONS]]
    more = len(axis.left_out) - SHOWN_REASONS
    rest = [f"and {more} more"] if more > 0 else []
    return "\n".join(["No timeline here.", "", *lines, *rest])


class Board:
    """The lanes of an axis with what is in view.

    Lanes stay, empty, where the view holds nothing of them. `has_phases` is set to False once it is known that there
    are none anywhere.
    """

    def __init__(
        self,
        axis: Axis,
        everything: Seen = NOTHING,
        whole: Stretch | None = None,
        pinned: tuple[Lane, ...] = (),
    ) -> None:
        self.axis = axis
        self.everything = everything
        self.whole = whole
        self.pinned = tuple(lane for lane in pinned if lane in everything.lanes)
        self.view = everything
        self.stretch = whole
        self.phases: Mapping[int, Bins] = {}
        self.has_phases = True
        self.names: Sequence[Label] = ()
        self._ordered = sorted(everything.lanes, key=lambda lane: lane.order)

    @property
    def lanes(self) -> list[Lane]:
        """All lanes from top to bottom."""
        return [*self.pinned, *(lane for lane in self._ordered if lane not in self.pinned)]

    def see(self, view: Seen, stretch: Stretch) -> None:
        """Show another part."""
        self.view, self.stretch, self.names = view, stretch, ()

    def pin(self, lane: Lane) -> None:
        """Move a lane to the top, or back."""
        pinned = lane in self.pinned
        self.pinned = tuple(one for one in self.pinned if one != lane) if pinned else (*self.pinned, lane)

    def title(self, lane: Lane) -> str:
        """Trace, device and stream of a lane."""
        return f"{self._header(lane)} · {'queue' if lane.label.startswith('q') else 'stream'} {lane.label[1:]}"

    def row_of(self, lane: Lane) -> int:
        """The row of a lane in the picture."""
        return next((place for place, (_, one) in enumerate(self._placed()) if one == lane), 0)

    def lane_at(self, row: int) -> Lane | None:
        """The lane in a row of the picture; None for headers and phases."""
        placed = self._placed()
        return placed[row][1] if row < len(placed) else None

    def picture(self) -> Picture:
        """The rows as a Gantt draws them."""
        if self.stretch is None:
            return Picture()
        return Picture(
            [row for row, _ in self._placed()],
            self.stretch.first_ns,
            self.stretch.last_ns,
            self.axis.end_ns,
            self._overview(),
        )

    def _overview(self) -> list[float]:
        """For each bin of the whole axis, the busiest lane."""
        if self.whole is None:
            return []
        step = self.whole.step_ns
        shares = [0.0] * self.whole.bins
        for bins in self.everything.lanes.values():
            for place, one in bins.items():
                if place < len(shares):
                    shares[place] = max(shares[place], min(one.busy_ns / step, 1.0))
        return shares

    def _placed(self) -> list[tuple[Row, Lane | None]]:
        rows: list[tuple[Row, Lane | None]] = [(self._lane(lane, pinned=True), lane) for lane in self.pinned]
        header = ""
        told: set[int] = set()
        for lane in self._ordered:
            if lane in self.pinned:
                continue
            if self._header(lane) != header:
                header = self._header(lane)
                rows.append((Row("header", self._long_header(lane)), None))
                if lane.number not in told and lane.number in self.phases:
                    rows.append((Row("phases", "phases", cells=self._cells(self.phases[lane.number])), None))
                told.add(lane.number)
            rows.append((self._lane(lane, pinned=False), lane))
        return rows

    def _header(self, lane: Lane) -> str:
        trace = self.axis.traces[lane.number]
        process = f" · process {lane.process}" if lane.process else ""
        return f"{trace.trace}{process} · GPU {'?' if lane.device is None else lane.device}"

    def _long_header(self, lane: Lane) -> str:
        devices = self.axis.traces[lane.number].devices
        return self._header(lane) + (f" · {devices}" if devices else "")

    def _lane(self, lane: Lane, *, pinned: bool) -> Row:
        bins = self.view.lanes.get(lane, {})
        span = self.stretch.step_ns * self.stretch.bins if self.stretch else 1
        busy = sum(one.busy_ns for one in bins.values())
        label = f"⚑{lane.label} {self.axis.traces[lane.number].trace}" if pinned else f" {lane.label}"
        return Row("lane", label, percent(100 * busy / span), self._cells(bins), self._named(lane))

    def _cells(self, bins: Bins) -> dict[int, Cell]:
        step = self.stretch.step_ns if self.stretch else 1
        return {place: Cell(one.busy_ns / step, one.category) for place, one in bins.items()}

    def _named(self, lane: Lane) -> list[Name]:
        if self.stretch is None:
            return []
        first, step = self.stretch.first_ns, self.stretch.step_ns
        return [
            Name((one.begins_ns - first) // step, (one.ends_ns - first) // step, one.text, one.category)
            for one in self.names
            if one.lane == lane
        ]


def facts_of(one: dict[str, Any]) -> list[str]:
    """Numbers about a launch, as far as they are known."""
    facts = [f"lasts {duration(one['duration_ns'])}"]
    if one["grid_x"] is not None:
        grid, block = ("×".join(str(one[f"{shape}_{axis}"]) for axis in "xyz") for shape in ("grid", "block"))
        facts.append(f"grid {grid} block {block}")
    facts += [f"{name} {one[name]}" for name in ("op", "phase") if one[name]]
    if one["bytes"] is not None:
        facts.append(f"{amount(one['bytes'], 'B')}")
    if one["tflops"] is not None:
        facts.append(f"{one['tflops']:,.1f} TFLOP/s")
    return [*facts, f"launch {count(one['launch_index'])}"]
