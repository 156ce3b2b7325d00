"""Records a program again and again, as a benchmark of every night does: each time a process of its own, after load.

    python benchmarks/gpu/record_nights.py FOLDER [--nights 30] [--slower 10] [--seconds 5] [--tiny]
    python benchmarks/gpu/record_nights.py --trace FILE [--slower 1]            one night alone
    kerneldb record --script benchmarks/gpu/record_nights.py --stack -- --steps 12    the steps for kerneldb improve

A night is a decoder of `improve_programs.py` whose logits are capped (tanh), `--seconds` under load, then eight steps
traced as `kerneldb record` traces them. In the last `--slower` nights the logits have 2 % more rows, as if padded: tanh
alone has more to do. Traces say driver and board, what a step took under load, and its energy. One process runs on the
GPU at a time; the next one imports torch meanwhile.
"""

from __future__ import annotations

import argparse
import gzip
import json
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

STEPS = 8
MORE = 1.02


def program(options: argparse.Namespace) -> Any:
    """The step, ready to be called: a decoder, then tanh of its logits (and of rows that pad them)."""
    import torch
    from improve_programs import DEVICE, HALF, Decoder

    size, heads, layers, vocabulary, batch, tokens = (
        (64, 4, 2, 128, 2, 32) if options.tiny else (1024, 8, 4, 32000, 4, 512)
    )
    torch.manual_seed(0)
    with torch.device(DEVICE):
        model = Decoder(size, heads, layers, vocabulary).to(HALF)
        ids = torch.randint(0, vocabulary, (batch, tokens))
        rows = round(batch * tokens * (MORE if options.slower else 1.0))
        padded = torch.zeros(rows, vocabulary, dtype=HALF)

    def step() -> Any:
        with torch.no_grad():
            padded[: batch * tokens].copy_(model(ids).view(batch * tokens, vocabulary))
            return torch.tanh(padded)

    return step


def night(options: argparse.Namespace) -> None:
    """Load, then a trace; says when the GPU is free again."""
    import torch

    told = sys.stdin.readline() if options.wait else ""
    on_gpu = torch.cuda.is_available() and not options.tiny
    wait = torch.cuda.synchronize if on_gpu else lambda: None
    step, facts = program(options), _facts() if on_gpu else {}
    before, started, steps = _energy_mj(on_gpu), time.monotonic_ns(), 0
    while time.monotonic_ns() - started < options.seconds * 1e9:
        step()
        wait()
        steps += 1
    took, used = time.monotonic_ns() - started, _energy_mj(on_gpu)
    if used is not None and before is not None:
        facts |= {"load_step_mj": str((used - before) / steps)}
    facts |= {"load_step_ns": str(took / steps), "load_steps": str(steps)}
    done = _traced(step, wait, facts, on_gpu=on_gpu)
    if told:
        sys.stdout.write("free\n")
        sys.stdout.flush()
    plain = options.trace.with_suffix("")
    done.export_chrome_trace(str(plain))
    options.trace.write_bytes(gzip.compress(plain.read_bytes(), 9))
    plain.unlink()


def plain(options: argparse.Namespace) -> None:
    """The steps alone, each a range, for another program that profiles them."""
    from torch.profiler import record_function

    step = program(options)
    for number in range(options.steps):
        with record_function(f"step {number}"):
            step()


def _traced(step: Any, wait: Any, facts: dict[str, str], *, on_gpu: bool) -> Any:
    from torch.profiler import ProfilerActivity, profile, schedule

    kinds = [ProfilerActivity.CPU, *([ProfilerActivity.CUDA] if on_gpu else [])]
    steps = schedule(wait=0, warmup=1, active=STEPS, repeat=1)
    with profile(activities=kinds, schedule=steps, record_shapes=True, profile_memory=True) as made:
        for number in range(1 + STEPS):
            step()
            if number == STEPS:
                for key, text in facts.items():
                    made.add_metadata(key, text)
            if number in (0, STEPS):
                wait()
            made.step()
    return made


def _facts() -> dict[str, str]:
    import pynvml

    pynvml.nvmlInit()
    board = pynvml.nvmlDeviceGetHandleByIndex(0)
    said = {"driver_version": pynvml.nvmlSystemGetDriverVersion(), "gpu_uuid": pynvml.nvmlDeviceGetUUID(board)}
    return {key: text if isinstance(text, str) else text.decode() for key, text in said.items()}


def _energy_mj(on_gpu: bool) -> int | None:
    if not on_gpu:
        return None
    import pynvml

    return int(pynvml.nvmlDeviceGetTotalEnergyConsumption(pynvml.nvmlDeviceGetHandleByIndex(0)))


def nights(options: argparse.Namespace) -> None:
    """All nights, one on the GPU at a time."""
    options.folder.mkdir(parents=True, exist_ok=True)
    started = time.monotonic()
    waiting = [_process(options, number) for number in range(min(2, options.nights))]
    ended: list[subprocess.Popen[str]] = []
    for number in range(options.nights):
        one = waiting.pop(0)
        assert one.stdin is not None
        assert one.stdout is not None
        one.stdin.write("go\n")
        one.stdin.flush()
        while (line := one.stdout.readline()) != "free\n":  # the profiler writes lines of its own
            if not line:
                sys.exit(f"night {number} failed")
        ended.append(one)
        if number + 2 < options.nights:
            waiting.append(_process(options, number + 2))
        sys.stderr.write(f"night {number}: {time.monotonic() - started:.1f} s\n")
    for one in ended:
        one.communicate()
    sys.stderr.write(json.dumps({"nights": options.nights, "exits": [one.returncode for one in ended]}) + "\n")


def _process(options: argparse.Namespace, number: int) -> subprocess.Popen[str]:
    trace = options.folder / f"night-{number:03d}.json.gz"
    slower = number >= options.nights - options.slower
    words = ["--trace", str(trace), "--wait", "--slower", str(int(slower)), "--seconds", str(options.seconds)]
    command = [sys.executable, __file__, *words, *(["--tiny"] if options.tiny else [])]
    return subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)  # this program


def main() -> None:
    """Read the options, and record."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("folder", type=Path, nargs="?")
    parser.add_argument("--nights", type=int, default=30)
    parser.add_argument("--slower", type=int, default=0)
    parser.add_argument("--seconds", type=float, default=5.0)
    parser.add_argument("--trace", type=Path)
    parser.add_argument("--wait", action="store_true")
    parser.add_argument("--steps", type=int)
    parser.add_argument("--tiny", action="store_true")
    options = parser.parse_args()
    if options.steps is not None:
        plain(options)
    elif options.trace is not None:
        night(options)
    else:
        nights(options)


if __name__ == "__main__":
    main()
