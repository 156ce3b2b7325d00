"""How much of the L2 traffic of a kernel depends on where its memory lies: equal calls on other memory of a process.

    ncu --profile-from-start off --cache-control all --clock-control none --csv --page raw --log-file PAGE \
        --metrics lts__t_sectors_srcunit_ltcfabric.sum,lts__t_sectors_srcunit_tex.sum,dram__bytes_read.sum \
        python benchmarks/gpu/measure_l2_halves.py > NAMES

A layer norm and a matrix product run on the same tensors, on others, with other values, behind 40 GB that are held, and
at other offsets of one allocation. NAMES gets a line per call: what is other in it. PAGE has two kernels for each.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator

import torch

ROWS, WIDTH, WIDE = 8192, 2048, 1 << 29
OFFSETS = (0, 2 << 20, 1 << 20, 37 << 20, 512 << 10, 256)
HELD_BYTES = 40 << 30
Pair = tuple[torch.Tensor, torch.Tensor]


def pair() -> Pair:
    """What is read, and what is written."""
    read = torch.randn(ROWS, WIDTH, device="cuda", dtype=torch.bfloat16)
    return read, torch.zeros_like(read)


def inside(pool: torch.Tensor, offset: int) -> torch.Tensor:
    """A tensor at an offset of one allocation."""
    part = pool[offset : offset + 2 * ROWS * WIDTH].view(torch.bfloat16)
    return part.view(ROWS, WIDTH)


def calls() -> Iterator[tuple[str, Pair]]:
    """What is other in each call, and its tensors."""
    held: list[object] = []
    first = pair()
    yield from (("nothing", first) for _ in range(3))
    yield "zeros", (first[0].zero_(), first[1])
    yield "values", (first[0].normal_(), first[1])
    for what in ("memory", "memory, 40 GB held"):
        for _ in range(4):
            held.append(pair())
            yield what, held[-1]  # type: ignore[misc]  # of the kinds in it, a pair
        held.append(torch.empty(HELD_BYTES, device="cuda", dtype=torch.uint8))
    pool = torch.empty(1 << 30, device="cuda", dtype=torch.uint8)
    for offset in OFFSETS:
        yield f"offset {offset}", (inside(pool, offset).normal_(), inside(pool, WIDE + offset))


def main() -> None:
    """Run each call once before, and once under the profiler."""
    weight = torch.randn(WIDTH, WIDTH, device="cuda", dtype=torch.bfloat16)
    gain = torch.ones(WIDTH, device="cuda", dtype=torch.bfloat16)
    for what, (read, written) in calls():
        for under in (False, True):
            torch.cuda.synchronize()
            if under:
                torch.cuda.profiler.start()  # type: ignore[no-untyped-call]
            torch.nn.functional.layer_norm(read, (WIDTH,), gain, gain)
            torch.mm(read[:WIDTH], weight, out=written[:WIDTH])
            torch.cuda.synchronize()
        torch.cuda.profiler.stop()  # type: ignore[no-untyped-call]
        sys.stdout.write(f"{what}\n")


if __name__ == "__main__":
    main()
