"""Makes the sequences of launches that calls are inferred from, and asks for the guesses."""

from __future__ import annotations

import itertools
import operator
from typing import TYPE_CHECKING, Any, Final

from kerneldb.api.queries import by_id, rows
from kerneldb.api.recorded import filled, op_call, triple
from kerneldb.replay.plan.unknowns import Clues, Device, Kind, Sequence

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Set

    import duckdb

    from kerneldb.replay.plan.unknowns import Guess

    Connection = duckdb.DuckDBPyConnection
    Row = dict[str, Any]

MOST: Final = 200_000
STREAM: Final = operator.itemgetter("process", "device", "stream")
KEY: Final = operator.itemgetter("signature_id", "call_id", "wanted")
"""Launches that are equal in these are of one kind."""


def guesses(
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
        row["shared_bytes"] = firsts.setdefault(KEY(row), row)["shared_bytes"]
    kinds = [filled(Kind, row, grid=triple(row, "grid"), block=triple(row, "block")) for row in firsts.values()]
    numbers = {key: number for number, key in enumerate(firsts)}
    order = tuple(numbers[KEY(row)] for row in members)
    times = {column: tuple(row[column] for row in members) for column in ("duration_ns", "start_ns", "phase")}
    return filled(Sequence, members[0], trace=name, device=device, kinds=tuple(kinds), order=order, **times)
