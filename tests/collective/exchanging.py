"""Four ranks in processes of their own make every kind of exchange of a step, in groups of four, of two and of one.

`python -m tests.collective.exchanging FOLDER`: each rank writes what it held afterwards to `FOLDER/RANK.json`.
"""

from __future__ import annotations

import json
import os
import sys
import traceback
from pathlib import Path
from typing import Any

import torch

from kerneldb.replay import processes
from kerneldb.replay.recording.ranks import Place, Ranks, free_ports
from kerneldb.replay.steps import exchanges
from kerneldb.replay.wire.plan import CallSpec, Item, OpCall, PlannedKernel
from kerneldb.replay.wire.steps import Exchange, Step, StepCall

RANKS = 4
EVERYONE = tuple(range(RANKS))
PAIRS = ((0, 1), (2, 3))
SIZE = 8
SHARES = ((5, 3), (1, 7))
"""What each of a pair gives to each."""


def values(rank: int) -> Any:
    """What a rank gives: no two ranks have a number in common."""
    return torch.arange(SIZE, dtype=torch.float32) + 10 * rank


def asked(rank: int) -> list[tuple[str, Exchange, int, int]]:
    """A name for each exchange of a rank, what it is, and how many elements the rank gives and takes."""
    pair = PAIRS[rank // 2]
    place = pair.index(rank)
    shares, others = SHARES[place], tuple(one[place] for one in SHARES)
    whole, half, last = SIZE, SIZE // 2, pair[1]
    kinds: dict[str, tuple[Exchange, int, int]] = {
        "sum": (Exchange("allreduce", pair), whole, whole),
        "sum of all": (Exchange("allreduce", EVERYONE), whole, whole),
        "sum to one": (Exchange("reduce", pair, root=last), whole, whole),
        "from one": (Exchange("broadcast", pair, root=last), whole, whole),
        "gathered": (Exchange("allgather", pair), half, whole),
        "scattered sum": (Exchange("reducescatter", pair), whole, half),
        "exchanged": (Exchange("alltoall", pair), whole, whole),
        "exchanged unequally": (Exchange("alltoallv", pair, shares, others), sum(shares), sum(others)),
        "barrier": (Exchange("barrier", EVERYONE), 1, 1),
    }
    end = Exchange("send" if place == 0 else "recv", pair, peer=pair[1 - place])
    kinds["sent"] = (end, whole, whole)
    if rank == 0:
        kinds["alone"] = (Exchange("allreduce", (0,)), whole, whole)
    return [(name, *one) for name, one in kinds.items()]


def item(name: str, exchange: Exchange, given: int, taken: int) -> Item:
    """An item of a plan that says so."""
    said = {"Collective name": exchange.operation, "dtype": "Float", "In msg nelems": given, "Out msg nelems": taken}
    call = OpCall("record_param_comms", extra=json.dumps({**said, "Group size": len(exchange.group)}))
    return Item(name, "collective", CallSpec(call), (PlannedKernel(0, name, "ncclDevKernel"),))


def step(rank: int) -> tuple[Step, dict[str, Item]]:
    """The exchanges of a rank as a step."""
    listed = asked(rank)
    calls = tuple(StepCall(name, exchange=exchange) for name, exchange, _, _ in listed)
    made = Step(f"step{rank}", "t", "t", "execution trace", (), (), calls, rank=rank, ranks=RANKS, job="job")
    return made, {one[0]: item(*one) for one in listed}


def run(rank: int, port: int, folder: Path) -> None:
    """Make all exchanges of a rank."""
    ranks = Ranks(Place(rank, RANKS, port))
    ranks.join("cpu")
    planned, items = step(rank)
    together = exchanges.joined(ranks, planned, items, "cpu")
    again = exchanges.joined(ranks, planned, items, "cpu", (), together.groups)
    found: dict[str, Any] = {"refused": sorted(together.refused), "kept": again.groups == together.groups}
    for call, (name, exchange, given, taken) in zip(planned.calls, asked(rank), strict=True):
        if not together.can(exchange):
            continue
        mine, theirs = values(rank)[:given], torch.full((taken,), -1.0)
        exchanges.made(items[call.item], call, together, "cpu").on([mine], [theirs])
        found[name] = {"given": mine.tolist(), "taken": theirs.tolist()}
    broken = exchanges.joined(ranks, planned, items, "cpu", {"sent"} if rank == 0 else (), together.groups)
    found["refused as broken"] = sorted(broken.refused)
    (folder / f"{rank}.json").write_text(json.dumps(found))
    ranks.leave()


def main() -> None:
    """Start the ranks, which share what is imported."""
    (port,) = free_ports(1)
    for rank in EVERYONE:
        if not os.fork():
            try:
                processes.die_with_parent()
                run(rank, port, Path(sys.argv[1]))
            except Exception:  # noqa: BLE001 (said, and ended)
                traceback.print_exc()
                os._exit(1)
            os._exit(0)
    for _ in EVERYONE:
        if os.wait()[1]:
            os._exit(1)  # the others, which wait for it, end with this process


if __name__ == "__main__":
    main()
