"""Plans the replay of launches whose operator call is not recorded: inherited from other launches, else inferred."""

from __future__ import annotations

import dataclasses
import itertools
import operator
import re
import statistics
from collections import Counter
from typing import TYPE_CHECKING, Any, Final

import polars as pl

from kerneldb.api import inheriting
from kerneldb.api.planning import COMMUNICATION, KERNEL, NOT_RECORDED
from kerneldb.api.queries import by_id, frame, rows
from kerneldb.api.recorded import filled, op_call, planned_kernel, triple
from kerneldb.ids import content_id
from kerneldb.replay import routes
from kerneldb.replay.infer import attention
from kerneldb.replay.plan.unknowns import Clues, Device, Kind, Sequence
from kerneldb.replay.plan.work import Work
from kerneldb.replay.wire.plan import CallSpec, Candidate, Donor, PlannedKernel

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Set

    from kerneldb.api.inheriting import Found
    from kerneldb.api.queries import Connection, Row
    from kerneldb.api.recorded import Recorded
    from kerneldb.replay.plan.unknowns import Guess
    from kerneldb.replay.plan.work import Decision

    Settled = dict[tuple[str, int], tuple[str, str | None]]

MOST: Final = 200_000
STREAM: Final = operator.itemgetter("process", "device", "stream")
KIND: Final = operator.itemgetter("signature_id", "call_id", "wanted")
"""Launches that are equal in these are of one kind."""
PLACE: Final = {"trace_id": str, "launch_index": int}
DONOR: Final = ("donor_trace_id", "donor_op_id")
EARLIER: Final = "found by the replay {run}: {why}"
SAID: Final = re.compile(r"^found by the replay \S+: ")


@dataclasses.dataclass(frozen=True, slots=True)
class Unrecorded:
    """What became of launches without a recorded call, what was inherited, and rows of the routes of all of them.

    `covered` are copies and fills that are part of the items ("trace_id launch_index").
    """

    decisions: list[Decision]
    routes: list[Row]
    covered: list[str]
    found: list[Found]


def plan(
    con: Connection, wanted: Mapping[str, Any], recorded: Recorded, config: Mapping[str, Any] | None
) -> Unrecorded:
    """Plan the wanted launches of `selection` that have no recorded call. `wanted`: parameters of the statements."""
    selected = frame(con, "replay_unrecorded", wanted)
    if selected.is_empty():
        return Unrecorded([], [], [], [])
    asked_first = routes.decide(_plain(con, selected), recorded, routes.of_users())
    decisions = [one for one in asked_first if one.item is not None]
    settled = _settled(decisions)
    rest = selected.join(pl.DataFrame(list(settled), schema=PLACE, orient="row"), on=list(PLACE), how="anti")
    found = [one for one in inheriting.find(con) if one.trace_id in set(rest["trace_id"])]
    for one in found:
        asked = rest.filter(pl.col("trace_id") == one.trace_id)
        works = [*_inherited(con, one, asked, recorded), *_inferred(con, one, asked, config)]
        decided = routes.decide(works, recorded)
        decisions += decided
        beyond: Settled = {}
        if one.launches.height > MOST:
            reason = f"not among the {MOST:,} launches of the trace that calls are proposed for"
            unreached = asked.filter(_proposable())["launch_index"]
            beyond = {(one.trace_id, index): (routes.NONE, reason) for index in unreached}
        settled = {**beyond, **settled, **_settled(decided)}
    return Unrecorded(decisions, *_routes(selected, settled), found)


def _plain(con: Connection, selected: pl.DataFrame) -> Iterator[Work]:
    """A work per trace and signature, for routes that need neither a call nor other launches."""
    if not routes.of_users():
        return
    facts = by_id(con, "inherit_signatures", "signature_id", selected["signature_id"])
    for (trace_id, signature_id), group in selected.group_by("trace_id", "signature_id", maintain_order=True):
        kernel = _kernel(str(trace_id), facts[str(signature_id)], group.to_dicts(), 0)
        yield Work(content_id("p4", str(trace_id), str(signature_id)), (kernel,), group["category"][0])


def _proposable() -> pl.Expr:
    """Kernels, less those that say themselves what they do, and those of XLA, which no operator of PyTorch launched."""
    return (pl.col("kind") == KERNEL) & (pl.col("category") != COMMUNICATION) & (pl.col("source") != "xla")


def _settled(decisions: Iterable[Decision]) -> Settled:
    """Route and reason by launch."""
    return {
        (trace_id, index): (one.route, one.reason)
        for one in decisions
        for kernel in one.work.kernels
        for trace_id, indices in (kernel.places or {}).items()
        for index in indices
    }


def _inherited(con: Connection, found: Found, asked: pl.DataFrame, recorded: Recorded) -> Iterator[Work]:
    """One work per inherited call and list of kernels that it has here."""
    key = pl.concat_str(pl.first("call_id"), pl.col("signature_id").str.join(" "), separator=" ")
    touched = pl.col("launch_index").is_in(asked["launch_index"].to_list()).any()
    whole = found.with_call.join(found.launches, on="launch_index").sort("call_launch", "call_ordinal")
    members = whole.filter(touched.over("call_launch")).with_columns(key=key.over("call_launch"))
    facts = by_id(con, "inherit_signatures", "signature_id", whole["signature_id"])
    once = pl.col("call_launch") == pl.col("call_launch").min().over(*DONOR)
    launched = whole.filter(once)
    for (key_,), group in members.group_by("key", maintain_order=True):
        best = group.sort("confidence", descending=True).row(0, named=True)
        donor = best["donor_trace_id"], best["donor_op_id"]
        try:
            spec, inside = recorded.spec(*donor), recorded.inside(*donor)
        except KeyError:  # an operator without a start is in no order of time
            continue
        inner = (pl.col("donor_trace_id") == donor[0]) & pl.col("donor_op_id").is_in(inside)
        below = launched.filter(inner).to_dicts() if inside else []
        kernels = [
            _kernel(found.trace_id, facts[launches["signature_id"][0]], launches.to_dicts(), ordinal)
            for (ordinal,), launches in group.group_by("call_ordinal", maintain_order=True)
        ]
        identity = content_id("p2", found.trace_id, str(key_))
        donated = _donated(group, best, spec)
        others = _others(con, kernels, best, donated, recorded) if attention.is_attention(spec.call) else ()
        beside = tuple(_kernel(found.trace_id, facts[row["signature_id"]], [row], 0) for row in below)
        yield Work(identity, tuple(kernels), spec=spec, candidates=(donated, *others), below=beside)


def _others(
    con: Connection, kernels: list[PlannedKernel], best: Row, donated: Candidate, recorded: Recorded
) -> Iterator[Candidate]:
    """Other calls that launched the longest of these kernels, those of the nearest duration first."""
    kernel = max(kernels, key=lambda one: one.median_ns or 0)
    asked = {"signature_id": kernel.signature_id, "ordinal": kernel.ordinal, "duration_ns": kernel.median_ns or 0}
    for row in rows(con, "inherit_alternatives", {**asked, "call_id": best["call_id"]}):
        example = row["example"]
        try:
            spec = recorded.spec(example["trace_id"], example["op_id"])
        except KeyError:  # an operator without a start is in no order of time
            continue
        donor = Donor(example["trace"], example["trace_id"], example["launch_index"])
        why = f"as {donor.trace} #{donor.launch_index}; another call of such a kernel"
        yield Candidate(spec, why, donated.score, inheriting.INHERITED, donor)


def _donated(group: pl.DataFrame, best: Row, spec: CallSpec) -> Candidate:
    donor = Donor(best["donor_trace"], best["donor_trace_id"], best["donor_launch_index"])
    score = float(group["confidence"].mean())  # type: ignore[arg-type]
    level = best["method"].split(":")[0]
    why = best["evidence"] if level == "launch" else f"by {level}: {best['evidence']}"
    return Candidate(spec, why, round(score, 4), inheriting.INHERITED, donor)


def _kernel(trace_id: str, facts: Row, launches: list[Row], ordinal: Any) -> PlannedKernel:
    """A kernel of a call, of which `facts` are those of the signature, with sums over its launches."""
    durations = [row["duration_ns"] for row in launches if row["duration_ns"] is not None]
    sums = {
        "ordinal": ordinal,
        "shared_bytes": Counter(row.get("shared_bytes") for row in launches).most_common(1)[0][0],
        "launches": len(launches),
        "median_ns": round(statistics.median(durations)) if durations else None,
        "total_ns": sum(durations) if durations else None,
        "places": {trace_id: tuple(sorted(row["launch_index"] for row in launches))},
    }
    return planned_kernel({**facts, **sums})


def _inferred(con: Connection, found: Found, asked: pl.DataFrame, config: Mapping[str, Any] | None) -> Iterator[Work]:
    """A work per guess, with the reason where it has no candidate."""
    inherited = dict(found.with_call.select("launch_index", "call_id").rows())
    wanted = set(asked.filter(_proposable())["launch_index"]) - inherited.keys()
    if not wanted:
        return
    earlier, trace_id = _known(con, found, wanted), found.trace_id
    for guess, launches in _guesses(con, (trace_id, found.trace), wanted, inherited, config):
        listed = [(nth, [launches[place] for place in at]) for nth, at in enumerate(guess.kernels) if at]
        kernels = tuple(_kernel(trace_id, members[0], members, nth) for nth, members in listed)
        if kernels:
            candidates = (*_earlier(earlier, listed[0][1]), *guess.candidates)
            first = min(row["launch_index"] for _, members in listed for row in members)
            identity = content_id("p3", trace_id, str(first), *(kernel.signature_id for kernel in kernels))
            yield Work(identity, kernels, candidates=candidates, why_not=guess.reason)


def _known(con: Connection, found: Found, wanted: set[int]) -> dict[int, Row]:
    """Calls to try before those that are guessed, by launch: of donors that are not sure, and of earlier replays."""
    weak = [row for row in found.weak.to_dicts() if row["launch_index"] in wanted]
    calls = by_id(con, "inherit_calls", "call_id", (row["call_id"] for row in weak))
    known = {row["launch_index"]: {**row, **calls[row["call_id"]], "source": inheriting.INHERITED} for row in weak}
    for row in rows(con, "replay_found", {"trace_id": found.trace_id}):
        # Why the call was tried at first, and how it was run, whichever replay found it again since.
        why = SAID.sub("", row["evidence"] or "")
        known[row["launch_index"]] = {**row, "evidence": EARLIER.format(run=row["run_id"], why=why)}
    return known


def _earlier(known: Mapping[int, Row], launches: list[Row]) -> Iterator[Candidate]:
    """The call that is already known of most of these launches."""
    calls = [known[index] for index in sorted(row["launch_index"] for row in launches) if index in known]
    if calls:
        usual = Counter(row["call_id"] for row in calls).most_common(1)[0][0]
        row = next(row for row in calls if row["call_id"] == usual)
        donor = (
            Donor(row["donor_trace"], row["donor_trace_id"], row["donor_launch_index"]) if row["donor_trace"] else None
        )
        yield Candidate(CallSpec(op_call(row)), row["evidence"], row["confidence"], row["source"], donor)


def _routes(selected: pl.DataFrame, settled: Settled) -> tuple[list[Row], list[str]]:
    """Rows like those of the statement `replay_selected` with route and reason, and the copies that are settled."""
    kernel, alone = pl.col("kind") == KERNEL, pl.col("route").is_null()
    places = [(*place, *route) for place, route in settled.items()]
    known = pl.DataFrame(places, schema={**PLACE, "route": str, "why": str}, orient="row")
    routed = selected.join(known, on=list(PLACE), how="left", maintain_order="left")
    copies = routed.filter(~kernel & ~alone)
    exchanged = pl.when(alone & (pl.col("category") == COMMUNICATION)).then(pl.lit(NOT_RECORDED))
    nothing = pl.when(alone | (pl.col("route") == routes.NONE)).then(
        pl.format("{}; {}", "reason", pl.lit("no call could be proposed"))
    )
    groups = pl.concat([routed.filter(kernel), copies]).group_by(
        "signature_id",
        route=pl.col("route").fill_null(routes.NONE),
        reason=pl.coalesce("why", exchanged, nothing),
        maintain_order=True,
    )
    total_ns = pl.when(pl.count("duration_ns") > 0).then(pl.sum("duration_ns"))
    listed = groups.agg(pl.first("category", "kind", "name"), n=pl.len(), total_ns=total_ns)
    return listed.to_dicts(), copies.select(pl.concat_str(*PLACE, separator=" ")).to_series().to_list()


def _guesses(
    con: Connection,
    trace: tuple[str, str],
    wanted: Set[int],
    inherited: Mapping[int, str],
    config: Mapping[str, Any] | None,
) -> Iterator[tuple[Guess, list[Row]]]:
    """The guesses for the launches `wanted` (launch indices) of a trace (id and name), stream by stream.

    Each comes with the launches of its sequence. `inherited` has the calls that other launches of the trace inherit, by
    launch index; `config` is that of the model.
    """
    from kerneldb.replay.infer import infer

    trace_id, name = trace
    launches = _launches(con, trace_id, wanted, inherited)
    listed = rows(con, "replay_devices", {"trace_id": trace_id})
    devices = {row["device"]: filled(Device, row, peaks=dict(row["peaks"] or {})) for row in listed}
    clues = Clues(tuple((op_call(row), row["n"]) for row in rows(con, "replay_seen", {"trace_id": trace_id})), config)
    for _, stream in itertools.groupby(launches, STREAM):
        members = list(stream)
        if not wanted.isdisjoint(row["launch_index"] for row in members):
            device = devices.get(members[0]["device"]) or next(iter(devices.values()), Device())
            for guess in infer(_sequence(name, device, members), clues):
                yield guess, members


def _launches(con: Connection, trace_id: str, wanted: Set[int], inherited: Mapping[int, str]) -> list[Row]:
    """The launches of a trace with their calls, recorded or inherited, and whether one is `wanted`."""
    launches = rows(con, "replay_sequence", {"trace_id": trace_id, "most": MOST})
    ids = {row["call_id"] for row in launches if row["call_id"]} | set(inherited.values())
    calls = {call_id: op_call(row) for call_id, row in by_id(con, "inherit_calls", "call_id", ids).items()}
    for row in launches:
        row["call_id"] = row["call_id"] or inherited.get(row["launch_index"])
        row["call"] = calls.get(row["call_id"])
        row["wanted"] = row["call_id"] is None and row["launch_index"] in wanted
    return launches


def _sequence(name: str, device: Device, members: list[Row]) -> Sequence:
    firsts: dict[tuple[Any, ...], Row] = {}
    for row in members:
        row["shared_bytes"] = firsts.setdefault(KIND(row), row)["shared_bytes"]
    kinds = [filled(Kind, row, grid=triple(row, "grid"), block=triple(row, "block")) for row in firsts.values()]
    numbers = {key: number for number, key in enumerate(firsts)}
    order = tuple(numbers[KIND(row)] for row in members)
    times = {column: tuple(row[column] for row in members) for column in ("duration_ns", "start_ns", "phase")}
    return filled(Sequence, members[0], trace=name, device=device, kinds=tuple(kinds), order=order, **times)
