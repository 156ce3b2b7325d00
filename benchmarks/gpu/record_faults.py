"""Record a model with one planted fault, and mended: python benchmarks/gpu/record_faults.py FOLDER [DEVICE] [FAULT]...

Both are timed without a profiler, in turns, and then recorded with stacks and without, STEPS steps each time.
`kerneldb why` has to name the fault and its line; `measured.json` has what mending saves. `judge_faults.py` sets one
beside the other.
"""

from __future__ import annotations

import functools
import gc
import json
import statistics
import sys
import time
import zlib
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import torch
from torch import nn
from torch.utils import data

STEPS = 4
ROUNDS = 9
WIDTH = 4096
ROWS = 8192
BLOCKS = 6
Step = Callable[[], object]
DEVICE = torch.device(sys.argv[2] if len(sys.argv) > 2 else "cuda")
if DEVICE.type == "cpu":
    WIDTH, ROWS, ROUNDS = 64, 32, 2


class Block(nn.Module):
    """Two matrix products, with a norm before them; `watched` reads a value after each block."""

    def __init__(self) -> None:
        super().__init__()
        self.norm = nn.LayerNorm(WIDTH)
        self.up = nn.Linear(WIDTH, 2 * WIDTH)
        self.down = nn.Linear(2 * WIDTH, WIDTH)
        self.largest: list[Any] = []
        self.watched = self.empties = False

    def forward(self, x: Any) -> Any:
        """The block."""
        x = x + self.down(nn.functional.gelu(self.up(self.norm(x))))
        if self.watched:
            self.largest.append(x.abs().amax().item())
        if self.empties:
            torch.cuda.empty_cache()
        return x


class Samples(data.Dataset[Any]):
    """Compressed samples, which take the host some milliseconds each to decode."""

    def __init__(self) -> None:
        values = torch.randint(0, 12, (1_500_000,), dtype=torch.uint8)
        self.packed = zlib.compress(values.numpy().tobytes(), 1)

    def __len__(self) -> int:
        return 100_000

    def __getitem__(self, index: int) -> Any:
        """A sample: the first bytes of what was packed."""
        values = bytearray(zlib.decompress(self.packed))
        return torch.frombuffer(values, dtype=torch.uint8)[:WIDTH]


def model(**flags: bool) -> nn.Sequential:
    """The model, in bfloat16, with a fault in each block where `flags` say so."""
    blocks = [Block().to(DEVICE, torch.bfloat16) for _ in range(BLOCKS)]
    for block in blocks:
        for name, value in flags.items():
            setattr(block, name, value)
    return nn.Sequential(*blocks).eval().requires_grad_(False)


def batch() -> Any:
    return torch.randn(ROWS, WIDTH, device=DEVICE, dtype=torch.bfloat16)


def reads(*, broken: bool) -> Step:
    """A value is read after each block; mended, it stays where it is."""
    net, x = model(watched=broken), batch()
    return lambda: net(x)


def caches(*, broken: bool) -> Step:
    """The allocator gives all memory back after each block."""
    net, x = model(empties=broken), batch()
    return lambda: net(x)


def loads(*, broken: bool) -> Step:
    """The main process decodes each batch; mended, other processes do so ahead."""
    net, x = model(), batch()
    workers = {} if broken else {"num_workers": 8, "prefetch_factor": 8}
    batches: Iterator[Any] = iter(data.DataLoader(Samples(), 8, pin_memory=not broken, **workers))

    def step() -> None:
        extra = next(batches).to(DEVICE, torch.bfloat16, non_blocking=True)
        net(x + extra.sum(0))

    return step


def copies(*, broken: bool) -> Step:
    """Each batch is copied from pageable memory; mended, from pinned memory on another stream, a step ahead."""
    net = model()
    kept = torch.randn(ROWS, WIDTH).to(torch.bfloat16)
    if broken:
        return lambda: net(kept.to(DEVICE))
    kept, side = kept.pin_memory(), torch.cuda.Stream()
    ahead: list[Any] = []

    def fetch() -> None:
        with torch.cuda.stream(side):
            x = kept.to(DEVICE, non_blocking=True)
            ahead.append((x, side.record_event()))

    def step() -> None:
        if not ahead:
            fetch()
        x, ready = ahead.pop()
        torch.cuda.current_stream().wait_event(ready)
        x.record_stream(torch.cuda.current_stream())
        fetch()
        net(x)

    return step


@functools.cache
def objects() -> list[list[int]]:
    """Many objects: the same in both programs, which are there at once."""
    return [[number] for number in range(400_000)]


def collects(*, broken: bool) -> Step:
    """Garbage is collected in each step, among many objects."""
    net, x, many = model(), batch(), objects()

    def step() -> None:
        net(x)
        if broken:
            gc.collect()
        many[0][0] += 1

    return step


FAULTS = {"reads": reads, "caches": caches, "loads": loads, "copies": copies, "collects": collects}


def wait() -> None:
    if DEVICE.type == "cuda":
        torch.cuda.synchronize()


def timed(step: Step) -> float:
    """Milliseconds of STEPS steps, after one in which the allocator gets back what the other program gave away."""
    step()
    wait()
    began = time.perf_counter()
    for _ in range(STEPS):
        step()
    wait()
    return 1e3 * (time.perf_counter() - began)


def in_turns(broken: Step, mended: Step) -> dict[str, float]:
    """Medians of ROUNDS turns, and of what mending saves with its quartiles [ms]."""
    turns = [(timed(broken), timed(mended)) for _ in range(ROUNDS)]
    saved = [before - after for before, after in turns]
    low, middle, high = statistics.quantiles(saved, n=4)
    found = {"broken": statistics.median(one for one, _ in turns), "mended": statistics.median(one for _, one in turns)}
    return {**found, "saved": middle, "saved_low": low, "saved_high": high}


def mark() -> None:
    """A small kernel at either end, so that what the host does before the first step and after the last is between."""
    torch.zeros(1, device=DEVICE).add_(1)


def recorded(step: Step, file: Path | None, *, stacks: bool = True) -> None:
    """Record STEPS steps; with stacks and shapes the host is slower."""
    wait()
    with torch.profiler.profile(with_stack=stacks, record_shapes=stacks) as profiler:
        mark()
        for _ in range(STEPS):
            step()
        mark()
        wait()
    if file is not None:
        profiler.export_chrome_trace(str(file))


def main() -> None:
    folder, measured = Path(sys.argv[1]), {}
    names = sys.argv[3:] or FAULTS
    recorded(reads(broken=False), None)  # the first profile of a process starts the profiler
    for name in names:
        gc.collect()
        programs = {f"{name}{end}": FAULTS[name](broken=not end) for end in ("", "-mended")}
        for step in programs.values():
            for _ in range(STEPS):
                step()
        measured[name] = in_turns(*programs.values())
        for title, step in programs.items():
            for stacks, end in ((True, ""), (False, "-plain")):
                recorded(step, None, stacks=stacks)
                recorded(step, folder / f"{title}{end}.json.gz", stacks=stacks)
        del programs, step
    facts = {"torch": torch.__version__, "steps": STEPS, "ms": measured}
    if DEVICE.type == "cuda":
        facts |= {"gpu": torch.cuda.get_device_name(), "cuda": torch.version.cuda}
    (folder / "measured.json").write_text(json.dumps(facts, indent=1))
    print(json.dumps(facts))


if __name__ == "__main__":
    main()
