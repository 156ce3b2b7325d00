"""A training step of a decoder on every rank, gradients summed in buckets while the backward pass goes on.

    kerneldb record --script benchmarks/gpu/data_parallel_program.py --tp 2

Each run of the script is a step; what it builds stays in a module of its own. Runs under torchrun too; on a CPU with
gloo, small.
"""

from __future__ import annotations

import functools
import os
import sys
import types
from collections.abc import Callable

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel

KEPT = "kerneldb_data_parallel_program"
BUCKET_MIB = 25
Step = Callable[[], object]


def built() -> Step:
    """The model, its optimizer, and a step of it."""
    on_gpu = torch.cuda.is_available()
    device = f"cuda:{os.environ['LOCAL_RANK']}" if on_gpu else "cpu"
    if on_gpu:
        torch.cuda.set_device(device)
    dist.init_process_group("nccl" if on_gpu else "gloo", device_id=torch.device(device) if on_gpu else None)
    torch.manual_seed(0)
    width, layers, tokens = (2048, 8, 2048) if on_gpu else (64, 2, 16)
    layer = functools.partial(nn.TransformerEncoderLayer, width, width // 64, 4 * width, dropout=0.0, batch_first=True)
    model = nn.Sequential(*(layer(norm_first=True) for _ in range(layers))).to(device)
    shared = DistributedDataParallel(model, device_ids=[device] if on_gpu else None, bucket_cap_mb=BUCKET_MIB)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4)
    given = torch.randn(2, tokens, width, device=device)

    def step() -> None:
        with torch.autocast(device.split(":", maxsplit=1)[0], torch.bfloat16):
            loss = shared(given).float().square().mean()
        loss.backward()
        optimizer.step()
        optimizer.zero_grad(set_to_none=True)

    return step


def main() -> None:
    """One step."""
    module = sys.modules.setdefault(KEPT, types.ModuleType(KEPT))
    if not hasattr(module, "step"):
        module.step = built()  # type: ignore[attr-defined]
    module.step()


if __name__ == "__main__":
    main()
