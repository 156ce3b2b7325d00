"""A program of plain exchanges between ranks: every kind in several sizes, and one kind beside a matrix product.

    kerneldb record --script benchmarks/gpu/collectives_program.py --tp 2 --trace-only

Runs under torchrun too; on a CPU with gloo, in small sizes.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import Any

import torch
import torch.distributed as dist

KIB = 1024
SIZES = (4 * KIB, 64 * KIB, 1024 * KIB, 16 * 1024 * KIB, 256 * 1024 * KIB)
REPEATS = 4
BESIDE_BYTES = 64 * 1024 * KIB
SIDE = 4096


def start() -> str:
    """The process group, made once; returns the device of this rank."""
    on_gpu = torch.cuda.is_available()
    device = f"cuda:{os.environ['LOCAL_RANK']}" if on_gpu else "cpu"
    if not dist.is_initialized():
        if on_gpu:
            torch.cuda.set_device(device)
        group = torch.device(device) if on_gpu else None
        dist.init_process_group("nccl" if on_gpu else "gloo", device_id=group)
    return device


def exchanges(ranks: int, rank: int) -> dict[str, Callable[[Any, Any], Any]]:
    """Each kind as a function of a tensor of all elements and one of a rank's part."""
    other = (rank + 1) % ranks

    def pair(whole: Any, part: Any) -> None:
        requests = [dist.P2POp(dist.isend, part, other), dist.P2POp(dist.irecv, whole[: part.numel()], other)]
        for one in dist.batch_isend_irecv(requests):
            one.wait()

    return {
        "all_reduce": lambda whole, _: dist.all_reduce(whole),
        "all_gather": dist.all_gather_into_tensor,
        "reduce_scatter": lambda whole, part: dist.reduce_scatter_tensor(part, whole),
        "broadcast": lambda whole, _: dist.broadcast(whole, 0),
        "reduce": lambda whole, _: dist.reduce(whole, 0),
        "all_to_all": lambda whole, _: dist.all_to_all_single(torch.empty_like(whole), whole),
        "pair": pair,
    }


def plain(device: str) -> None:
    """Every kind in every size."""
    ranks, rank = dist.get_world_size(), dist.get_rank()
    on_gpu = device != "cpu"
    for size in SIZES if on_gpu else SIZES[:2]:
        for dtype in (torch.float16, torch.float32) if on_gpu else (torch.float32,):
            whole = torch.randn(size // dtype.itemsize, device=device, dtype=dtype)
            part = torch.randn(whole.numel() // ranks, device=device, dtype=dtype)
            for name, exchange in exchanges(ranks, rank).items():
                if on_gpu or name in ("all_reduce", "broadcast"):
                    for _ in range(REPEATS):
                        exchange(whole, part)


def beside(device: str) -> None:
    """Sums that begin together with matrix products that do not need them, and one behind them that waits."""
    side = SIDE if device != "cpu" else 64
    left = torch.randn(side, side, device=device, dtype=torch.float32 if device == "cpu" else torch.float16)
    held = torch.randn(BESIDE_BYTES // 4 if device != "cpu" else KIB, device=device)
    for _ in range(REPEATS):
        running = dist.all_reduce(held, async_op=True)
        for _ in range(2):
            left @ left
        running.wait()
        dist.all_reduce(held)


def main() -> None:
    """All of it."""
    device = start()
    plain(device)
    beside(device)
    if device != "cpu":
        torch.cuda.synchronize()


if __name__ == "__main__":
    main()
