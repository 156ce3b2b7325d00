"""Plans the replay of launches whose operator call is not recorded: inherited from other launches, else inferred."""

from __future__ import annotations

import dataclasses
import re
import statistics
from collections import Counter, defaultdict
from typing import TYPE_CHECKING, Any, Final

from kerneldb.api import collectives, inheriting, sequences
from kerneldb.api.recorded import frame, op_call, rows, triple
from kerneldb.ids import content_id
from kerneldb.replay.wire.plan import CallSpec, Candidate, Donor, Item, PlannedKernel

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

    import duckdb
    import polars as pl

    from kerneldb.api.inheriting import Found
    from kerneldb.api.recorded import Recorded
    from kerneldb.replay.plan.unknowns import Guess, Sequence

    Connection = duckdb.DuckDBPyConnection
    Row = dict[str, Any]

INHERITED: Final = inheriting.INHERITED
INFERRED: Final = inheriting.INFERRED
NONE: Final = "none"
NOTHING_PROPOSED: Final = "no call could be proposed"
KERNEL: Final = "kernel"
LAUNCH: Final = "launch"
COMMUNICATION: Final = "COMMUNICATION"
EARLIER: Final = "found by the replay {run}: {why}"
SAID: Final = re.compile(r"^found by the replay \S+: ")


@dataclasses.dataclass(slots=True)
class Unrecorded:
    """Items for launches without a recorded call, what was inherited, and rows of the routes of all of them.

    `covered` are copies and fills that are part of the items ("trace_id launch_index").
    """

    items: list[Item] = dataclasses.field(default_factory=list)
    routes: list[Row] = dataclasses.field(default_factory=list)
    covered: list[str] = dataclasses.field(default_factory=list)
    found: list[Found] = dataclasses.field(default_factory=list)


def plan(
    con: Connection, wanted: Mapping[str, Any], recorded: Recorded, config: Mapping[str, Any] | None
) -> Unrecorded:
    """Plan the wanted launches of `selection` that have no recorded call. `wanted`: parameters of the statements."""
    import polars as pl

    selected = frame(con, "replay_unrecorded", wanted)
    planned = Unrecorded()
    if selected.is_empty():
        return planned
    planned.found = [one for one in inheriting.find(con) if one.trace_id in set(selected["trace_id"])]
    settled: dict[tuple[str, int], tuple[str, str | None]] = {}
    for found in planned.found:
        asked = selected.filter(pl.col("trace_id") == found.trace_id)
        for item in _inherited(con, found, asked, recorded):
            planned.items.append(item)
            settled |= dict.fromkeys(_places(item), (INHERITED, None))
        inherited = dict(found.with_call.select("launch_index", "call_id").rows())
        for item, reason in _inferred(con, found, asked, inherited, config):
            route = INFERRED if item.candidates else NONE
            planned.items += [item] if item.candidates else []
            settled |= dict.fromkeys(_places(item), (route, reason))
        settled = _beyond(found, asked) | settled
    kernel = pl.col("kind") == KERNEL
    copies = [row for row in selected.filter(~kernel).to_dicts() if (row["trace_id"], row["launch_index"]) in settled]
    planned.covered = [f"{row['trace_id']} {row['launch_index']}" for row in copies]
    planned.routes = _routes([*selected.filter(kernel).to_dicts(), *copies], settled)
    return planned


def _beyond(found: Found, asked: pl.DataFrame) -> dict[tuple[str, int], tuple[str, str | None]]:
    """The asked kernels of a trace with more launches than calls are proposed for: those not reached have a reason."""
    if found.launches.height <= sequences.MOST:
        return {}
    import polars as pl

    reason = f"not among the {sequences.MOST:,} launches of the trace that calls are proposed for"
    kernels = asked.filter((pl.col("kind") == KERNEL) & (pl.col("category") != COMMUNICATION))
    return {(found.trace_id, index): (NONE, reason) for index in kernels["launch_index"]}


def _places(item: Item) -> Iterator[tuple[str, int]]:
    for kernel in item.kernels:
        for trace_id, indices in (kernel.places or {}).items():
            yield from ((trace_id, index) for index in indices)


def _inherited(con: Connection, found: Found, asked: pl.DataFrame, recorded: Recorded) -> Iterator[Item]:
    """One item per inherited call and list of kernels that it has here."""
    import polars as pl

    whole = found.with_call.join(found.launches, on="launch_index")
    touched = whole.join(asked.select("launch_index"), on="launch_index", how="semi").select("call_launch").unique()
    members = whole.join(touched, on="call_launch", how="semi").sort("call_launch", "call_ordinal")
    lists = members.group_by("call_launch", maintain_order=True).agg(
        key=pl.concat_str(pl.col("call_id").first(), pl.col("signature_id").str.join(" "), separator=" ")
    )
    facts = _facts(con, members["signature_id"].unique().to_list())
    for (key,), group in members.join(lists, on="call_launch").group_by("key", maintain_order=True):
        best = group.sort("confidence", descending=True).row(0, named=True)
        try:
            spec = recorded.spec(best["donor_trace_id"], best["donor_op_id"])
        except KeyError:  # an operator without a start is in no order of time
            continue
        kernels = [
            _kernel(found.trace_id, facts, rows_.to_dicts())
            for _, rows_ in group.group_by("call_ordinal", maintain_order=True)
        ]
        yield Item(
            content_id("p2", found.trace_id, str(key)), INHERITED, spec, tuple(kernels), (_donated(group, best, spec),)
        )


def _donated(group: pl.DataFrame, best: Row, spec: CallSpec) -> Candidate:
    donor = Donor(best["donor_trace"], best["donor_trace_id"], best["donor_launch_index"])
    score = float(group["confidence"].mean())  # type: ignore[arg-type]
    level = best["method"].split(":")[0]
    why = best["evidence"] if level == LAUNCH else f"by {level}: {best['evidence']}"
    return Candidate(spec, why, round(score, 4), INHERITED, donor)


def _facts(con: Connection, ids: list[str]) -> dict[str, Row]:
    return {row["signature_id"]: row for row in rows(con, "inherit_signatures", {"ids": ids})}


def _kernel(trace_id: str, facts: Mapping[str, Row], launches: list[Row], ordinal: int | None = None) -> PlannedKernel:
    first = launches[0]
    fact = facts[first["signature_id"]]
    durations = [row["duration_ns"] for row in launches if row["duration_ns"] is not None]
    return PlannedKernel(
        ordinal=first["call_ordinal"] if ordinal is None else ordinal,
        signature_id=first["signature_id"],
        name=fact["name"],
        kind=fact["kind"],
        grid=triple(fact, "grid"),
        block=triple(fact, "block"),
        shared_bytes=Counter(row["shared_bytes"] for row in launches).most_common(1)[0][0],
        bytes=fact["bytes"],
        copy_kind=fact["copy_kind"],
        launches=len(launches),
        median_ns=round(statistics.median(durations)) if durations else None,
        total_ns=sum(durations) if durations else None,
        places={trace_id: sorted(row["launch_index"] for row in launches)},
    )


def _inferred(
    con: Connection, found: Found, asked: pl.DataFrame, inherited: Mapping[int, str], config: Mapping[str, Any] | None
) -> Iterator[tuple[Item, str | None]]:
    """An item per guess, with the reason where it has no candidate."""
    import polars as pl

    open_ = ~pl.col("launch_index").is_in(list(inherited)) & (pl.col("kind") == KERNEL)
    rest = asked.filter(open_ & (pl.col("category") != COMMUNICATION))
    wanted = set(rest["launch_index"].to_list())
    if not wanted:
        return
    earlier = _known(con, found, wanted)
    facts = _facts(con, rest["signature_id"].unique().to_list())
    trace = (found.trace_id, found.trace)
    for guess, sequence, places in sequences.guesses(con, trace, wanted, inherited, config):
        kernels = [_guessed(found.trace_id, facts, sequence, places, guess, nth) for nth in range(len(guess.kernels))]
        known = tuple(kernel for kernel in kernels if kernel is not None)
        if known:
            candidates = (*_earlier(earlier, known[0]), *guess.candidates)
            first = str(min(index for kernel in known for one in (kernel.places or {}).values() for index in one))
            ids = (kernel.signature_id for kernel in known)
            yield Item(content_id("p3", found.trace_id, first, *ids), INFERRED, None, known, candidates), guess.reason


def _known(con: Connection, found: Found, wanted: set[int]) -> dict[int, Row]:
    """Calls to try before those that are guessed, by launch: of donors that are not sure, and of earlier replays."""
    import polars as pl

    weak = found.weak.filter(pl.col("launch_index").is_in(list(wanted))).to_dicts()
    calls = {
        row["call_id"]: row for row in rows(con, "inherit_calls", {"ids": sorted({row["call_id"] for row in weak})})
    }
    known = {row["launch_index"]: {**row, **calls[row["call_id"]], "source": INHERITED} for row in weak}
    for row in rows(con, "replay_found", {"trace_id": found.trace_id}):
        known[row["launch_index"]] = {**row, "evidence": EARLIER.format(run=row["run_id"], why=_first_why(row))}
    return known


def _first_why(row: Row) -> str:
    """Why the call was tried at first, and how it was run, whichever replay found it again since."""
    return SAID.sub("", row["evidence"] or "")


def _guessed(
    trace_id: str, facts: dict[str, Row], sequence: Sequence, places: list[int], guess: Guess, nth: int
) -> PlannedKernel | None:
    at = guess.kernels[nth]
    if not at:
        return None
    kind = sequence.kinds[sequence.order[at[0]]]
    fact = facts.setdefault(kind.signature_id, _fact(sequence, at[0]))
    launches = [
        {
            "signature_id": kind.signature_id,
            "launch_index": places[place],
            "duration_ns": sequence.duration_ns[place],
            "shared_bytes": sequence.kinds[sequence.order[place]].shared_bytes,
        }
        for place in at
    ]
    return _kernel(trace_id, {kind.signature_id: fact}, launches, nth)


def _fact(sequence: Sequence, place: int) -> Row:
    kind = sequence.kinds[sequence.order[place]]
    shapes = zip(("grid", "block"), (kind.grid, kind.block), strict=True)
    axes = {
        f"{shape}_{axis}": value for shape, given in shapes for axis, value in zip("xyz", given or (), strict=False)
    }
    return {"name": kind.name, "kind": kind.kind, "bytes": kind.bytes, "copy_kind": kind.copy_kind, **axes}


def _earlier(known: Mapping[int, Row], kernel: PlannedKernel) -> Iterator[Candidate]:
    """The call that is already known of most of these launches."""
    calls = [known[index] for indices in (kernel.places or {}).values() for index in indices if index in known]
    if calls:
        usual = Counter(row["call_id"] for row in calls).most_common(1)[0][0]
        row = next(row for row in calls if row["call_id"] == usual)
        place = (row["donor_trace"], row["donor_trace_id"], row["donor_launch_index"])
        donor = Donor(*place) if None not in place else None
        yield Candidate(CallSpec(op_call(row)), row["evidence"], row["confidence"], row["source"], donor)


def _routes(selected: Iterable[Row], settled: Mapping[tuple[str, int], tuple[str, str | None]]) -> list[Row]:
    """Rows like those of the statement `replay_routes`: launches by signature, route and reason."""
    groups: dict[tuple[str, str, str | None], list[Row]] = defaultdict(list)
    for row in selected:
        place = (row["trace_id"], row["launch_index"])
        usual = ("collective", collectives.NOT_RECORDED) if row["category"] == COMMUNICATION else (NONE, None)
        route, why = settled.get(place, usual)
        reason = None if route in {INHERITED, INFERRED} else why or f"{row['reason']}; {NOTHING_PROPOSED}"
        groups[row["signature_id"], route, reason].append(row)
    return [_route(key, group) for key, group in groups.items()]


def _route(key: tuple[str, str, str | None], group: list[Row]) -> Row:
    durations = [row["duration_ns"] for row in group if row["duration_ns"] is not None]
    return {
        "signature_id": key[0],
        "category": group[0]["category"],
        "kind": group[0]["kind"],
        "name": group[0]["name"],
        "n": len(group),
        "total_ns": sum(durations) if durations else None,
        "route": key[1],
        "reason": key[2],
    }
