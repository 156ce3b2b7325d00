"""How long a device was busy, with what collectives waited for other ranks left out."""

from __future__ import annotations

from typing import Any

from kerneldb import codec
from kerneldb.replay.recording import measuring, recorder

SUM = "ncclDevKernel_AllReduce_Sum_f16_RING_LL(ncclDevKernelArgsStorage<4096ul>)"
PAIR = "ncclDevKernel_SendRecv(ncclDevKernelArgsStorage<4096ul>)"


def event(name: str, start: float, lasts: float, kind: str = "kernel") -> dict[str, Any]:
    return {"ph": "X", "cat": kind, "name": name, "pid": 0, "ts": start, "dur": lasts}


WAITING = recorder.activities(
    [
        event(SUM, 0, 100),
        event("gemm", 10, 40),
        event("fill", 200, 5, "gpu_memset"),
        event(SUM, 300, 10),
        event(PAIR, 400, 50),
        event("aten::mm", 0, 1000, "cpu_op"),
    ]
)
LAST = recorder.activities([event(SUM, 60, 40), event(SUM, 280, 30), event(PAIR, 400, 50), event(PAIR, 500, 50)])


def test_collectives_count_from_when_the_last_rank_came() -> None:
    assert WAITING.count == 5
    assert WAITING.collectives() == {SUM: [100.0, 10.0]}
    shortest = recorder.transfers([WAITING.collectives(), LAST.collectives()])
    assert shortest == {SUM: [40.0, 10.0]}
    assert WAITING.busy_ns() == (100 + 5 + 10 + 50) * 1000
    assert WAITING.busy_ns(shortest) == (40 + 40 + 5 + 10 + 50) * 1000
    assert LAST.busy_ns(shortest) == (40 + 10 + 50 + 50) * 1000


def test_ranks_that_show_other_collectives_leave_the_waits_unknown() -> None:
    assert recorder.transfers([{SUM: [1.0]}, {SUM: [1.0, 2.0]}]) is None
    assert recorder.transfers([{SUM: [1.0]}, {}]) is None
    (row, _) = measuring.of_trace(None, 5, 1)
    assert codec.encode(row) == {"quantity": "busy_ns", "unit": "ns", "n": 1, "reason": measuring.UNEQUAL}
