"""Makes the sequences of launches that calls are inferred from, and asks for the guesses."""

from __future__ import annotations

import itertools
from typing import TYPE_CHECKING, Any, Final

from kerneldb.api.recorded import op_call, rows, triple
from kerneldb.replay.plan.unknowns import Clues, Device, Kind, Sequence

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Iterator, Mapping

    import duckdb

    from kerneldb.replay.plan.unknowns import Guess
    from kerneldb.replay.wire.plan import OpCall

    Connection = duckdb.DuckDBPyConnection
    Row = Mapping[str, Any]
    Asked = tuple["Guess", "Sequence", list[int]]

MOST: Final = 200_000
STREAM: Final = ("process", "device", "stream")
RECORDED: Final = "recorded"
SAME: Final = (
    "signature_id",
    "name",
    "kind",
    "total_blocks",
    "threads_per_block",
    "shared_bytes",
    "registers",
    "bytes",
)


def guesses(
    con: Connection, trace: tuple[str, str], wanted: Collection[int], inherited: Mapping[int, str], config: Row | None
) -> Iterator[Asked]:
    """The guesses for the launches `wanted` (launch indices) of a trace (id and name), stream by stream.

    Each comes with its sequence and the launch indices of that. `inherited` has the calls that other launches of the
    trace inherit, by launch index; `config` is that of the model.
    """
    from kerneldb.replay.infer import infer

    trace_id, name = trace
    launches = rows(con, "replay_sequence", {"trace_id": trace_id, "most": MOST})
    calls = _calls(con, launches, inherited)
    devices = {row["device"]: _device(row) for row in rows(con, "replay_devices", {"trace_id": trace_id})}
    clues = Clues(tuple((op_call(row), row["n"]) for row in rows(con, "replay_seen", {"trace_id": trace_id})), config)
    for _, stream in itertools.groupby(launches, key=lambda row: [row[column] for column in STREAM]):
        members = list(stream)
        places = [row["launch_index"] for row in members]
        if wanted.isdisjoint(places) if isinstance(wanted, set) else not set(wanted) & set(places):
            continue
        device = devices.get(members[0]["device"]) or next(iter(devices.values()), Device())
        sequence = _sequence(name, device, members, wanted, inherited, calls)
        for guess in infer(sequence, clues):
            yield guess, sequence, places


def _calls(con: Connection, launches: Iterable[Row], inherited: Mapping[int, str]) -> dict[str, OpCall]:
    ids = {row["call_id"] for row in launches if row["call_id"]} | set(inherited.values())
    return {row["call_id"]: op_call(row) for row in rows(con, "inherit_calls", {"ids": sorted(ids)})}


def _device(row: Row) -> Device:
    peaks = dict(row["peaks"] or {})
    known = {name: row[name] for name in ("name", "vendor", "arch", "multiprocessors", "bandwidth_gbs")}
    return Device(**known, peaks=peaks)


def _sequence(
    name: str,
    device: Device,
    members: list[dict[str, Any]],
    wanted: Collection[int],
    inherited: Mapping[int, str],
    calls: Mapping[str, OpCall],
) -> Sequence:
    kinds: dict[tuple[Any, ...], int] = {}
    found: list[Kind] = []
    order: list[int] = []
    for row in members:
        call_id = row["call_id"] or inherited.get(row["launch_index"])
        asked = row["launch_index"] in wanted and call_id is None
        key = (row["signature_id"], call_id, asked)
        if key not in kinds:
            kinds[key] = len(found)
            found.append(_kind(row, None if call_id is None else calls.get(call_id), wanted=asked))
        order.append(kinds[key])
    return Sequence(
        trace=name,
        device=device,
        kinds=tuple(found),
        order=tuple(order),
        duration_ns=tuple(row["duration_ns"] for row in members),
        start_ns=tuple(row["start_ns"] for row in members),
        phase=tuple(row["phase"] for row in members),
        source=members[0]["source"],
        timing=members[0]["timing"],
    )


def _kind(row: Row, call: OpCall | None, *, wanted: bool) -> Kind:
    source = None if call is None else (RECORDED if row["call_id"] else "inherited")
    return Kind(
        **{name: row[name] for name in SAME},
        grid=triple(row, "grid"),
        block=triple(row, "block"),
        copy_kind=row["copy_kind"],
        moved_bytes=row["moved_bytes"],
        call=call,
        call_source=source,
        wanted=wanted,
    )
