"""Records a small model twice on one GPU: as a PyTorch trace with shapes, and under Nsight Compute.

The two recordings of one program let counters be joined with operators, and ncu's own roofline rows
(`--print-details all`) be compared with what is computed from the raw page.

    python benchmarks/gpu/record_with_ncu.py --trace OUT    the PyTorch trace
    python benchmarks/gpu/record_with_ncu.py --profile OUT  runs --program under ncu; prints pages, keeps a small report
    python benchmarks/gpu/record_with_ncu.py --program      what ncu runs: the same pass, with NVTX ranges
    python benchmarks/gpu/record_with_ncu.py --all OUT      trace, then profile
    kerneldb record --script benchmarks/gpu/record_with_ncu.py -- --step    records the pass, for a replay

`--cpu` makes everything smaller and runs it without a GPU (and without ncu, where there is none).
"""

from __future__ import annotations

import argparse
import contextlib
import json
import logging
import os
import shutil
import subprocess
import sys
import time
import types
from collections.abc import Iterator
from pathlib import Path

import torch
from torch import nn
from torch.nn import functional

LOG = logging.getLogger("ncu_h200")
MOST_REPORT_BYTES = 20 << 20
MOST_LAUNCHES = 240
SECTIONS = (
    "SpeedOfLight",
    "SpeedOfLight_RooflineChart",
    "SpeedOfLight_HierarchicalSingleRooflineChart",
    "SpeedOfLight_HierarchicalDoubleRooflineChart",
    "SpeedOfLight_HierarchicalHalfRooflineChart",
    "SpeedOfLight_HierarchicalTensorRooflineChart",
    "MemoryWorkloadAnalysis",
    "LaunchStats",
    "Occupancy",
    "ComputeWorkloadAnalysis",
)
PLACES = ("/usr/local/cuda*/bin/ncu", "/opt/nvidia/nsight-compute/*/ncu", "/usr/local/NsightCompute*/ncu")
PROFILE_SECONDS = 200


class Decoder(nn.Module):
    """A llama-like decoder: RMS norms, rotary attention, gated MLP; plus the layers around it."""

    def __init__(self, width: int, heads: int, layers: int, vocabulary: int) -> None:
        super().__init__()
        self.heads = heads
        self.embedding = nn.Embedding(vocabulary, width)
        self.layers = nn.ModuleList(Layer(width, heads) for _ in range(layers))
        self.norm = nn.RMSNorm(width)
        self.head = nn.Linear(width, vocabulary, bias=False)

    def forward(self, tokens: torch.Tensor) -> torch.Tensor:
        """Logits (batch, length, vocabulary) of tokens (batch, length)."""
        hidden = self.embedding(tokens)
        angles = rotary_angles(tokens.shape[1], hidden.shape[-1] // self.heads, tokens.device)
        for layer in self.layers:
            hidden = layer(hidden, angles)
        return torch.log_softmax(self.head(self.norm(hidden)).float(), dim=-1)


class Layer(nn.Module):
    """Attention and gated MLP with residual connections."""

    def __init__(self, width: int, heads: int) -> None:
        super().__init__()
        self.heads = heads
        self.before = nn.RMSNorm(width)
        self.after = nn.RMSNorm(width)
        self.qkv = nn.Linear(width, 3 * width, bias=False)
        self.out = nn.Linear(width, width, bias=False)
        self.gate = nn.Linear(width, 3 * width, bias=False)
        self.up = nn.Linear(width, 3 * width, bias=False)
        self.down = nn.Linear(3 * width, width, bias=False)

    def forward(self, hidden: torch.Tensor, angles: torch.Tensor) -> torch.Tensor:
        """Hidden states (batch, length, width)."""
        hidden = hidden + self.attention(self.before(hidden), angles)
        normal = self.after(hidden)
        return hidden + self.down(functional.silu(self.gate(normal)) * self.up(normal))

    def attention(self, hidden: torch.Tensor, angles: torch.Tensor) -> torch.Tensor:
        """Causal self attention with rotary positions."""
        batch, length, width = hidden.shape
        parts = self.qkv(hidden).view(batch, length, 3, self.heads, width // self.heads).unbind(2)
        query, key, value = (part.transpose(1, 2) for part in parts)
        query, key = rotated(query, angles), rotated(key, angles)
        mixed = functional.scaled_dot_product_attention(query, key, value, is_causal=True)
        return self.out(mixed.transpose(1, 2).reshape(batch, length, width))


def rotary_angles(length: int, size: int, device: torch.device) -> torch.Tensor:
    """Angles (length, size/2) of rotary position embeddings."""
    steps = torch.arange(0, size, 2, device=device, dtype=torch.float32) / size
    return torch.outer(torch.arange(length, device=device, dtype=torch.float32), 10000.0**-steps)


def rotated(states: torch.Tensor, angles: torch.Tensor) -> torch.Tensor:
    """States (batch, heads, length, size) turned by their positions."""
    first, second = states.float().chunk(2, dim=-1)
    cosine, sine = angles.cos(), angles.sin()
    turned = torch.cat((first * cosine - second * sine, second * cosine + first * sine), dim=-1)
    return turned.to(states.dtype)


def around(hidden: torch.Tensor) -> torch.Tensor:
    """Kernels of other kinds, so that the set is mixed: FP32 and FP16 GEMM, convolution, sort, scan, index, reduce."""
    width = hidden.shape[-1]
    single = hidden.float().reshape(-1, width)
    product = single @ single.mT
    half = single.half() @ single.half().mT
    image = single[: width // 8, :].reshape(1, 1, -1, width)
    edges = functional.conv2d(image, torch.ones(4, 1, 3, 3, device=hidden.device), padding=1)
    ordered = product.sort(dim=-1).values.cumsum(dim=-1)
    kept = ordered.topk(4, dim=-1).indices
    picked = single.gather(1, kept)
    wide = functional.layer_norm(functional.gelu(single), (width,)) + functional.group_norm(edges, 2).mean()
    spread = wide.double().var(dim=-1).sum()
    return picked.mean() + half.float().std() + spread.float() + torch.where(wide > 0, wide, -wide).amax()


@contextlib.contextmanager
def workload(name: str) -> Iterator[None]:
    """An annotation of the profiler, and an NVTX range where there is a GPU."""
    with torch.profiler.record_function(name):
        if torch.cuda.is_available():
            torch.cuda.nvtx.range_push(name)
        try:
            yield
        finally:
            if torch.cuda.is_available():
                torch.cuda.nvtx.range_pop()


class Program:
    """The model and its one pass: prefill, one decode step, the kernels around them."""

    def __init__(self, *, small: bool) -> None:
        torch.manual_seed(0)
        self.device = torch.device("cpu" if small else "cuda")
        width, heads, layers, vocabulary = (64, 4, 2, 256) if small else (2048, 16, 2, 32000)
        self.length = 16 if small else 512
        self.model = Decoder(width, heads, layers, vocabulary).to(self.device, torch.bfloat16).eval()
        self.tokens = torch.randint(0, vocabulary, (1, self.length), device=self.device)
        self.hidden = torch.randn(1, self.length, width, device=self.device, dtype=torch.bfloat16)

    @torch.inference_mode()
    def run(self) -> None:
        """One pass."""
        with workload("prefill"):
            self.model(self.tokens)
        with workload("decode"):
            self.model(self.tokens[:, -1:])
        with workload("around"):
            around(self.hidden)
        self.wait()

    def wait(self) -> None:
        """Until the GPU is idle."""
        if self.device.type == "cuda":
            torch.cuda.synchronize()


def write_trace(folder: Path, *, small: bool) -> Path:
    """The PyTorch trace of one pass, with shapes."""
    program = Program(small=small)
    for _ in range(2):
        program.run()
    activities = [torch.profiler.ProfilerActivity.CPU]
    if not small:
        activities.append(torch.profiler.ProfilerActivity.CUDA)
    with torch.profiler.profile(activities=activities, record_shapes=True) as profiler:
        program.run()
    path = folder / "model.pt.trace.json.gz"
    profiler.export_chrome_trace(str(path))
    return path


def run_program(*, small: bool) -> None:
    """The same pass; ncu profiles what lies between the start and the stop of the CUDA profiler."""
    program = Program(small=small)
    for _ in range(2):
        program.run()
    if small:
        program.run()
        return
    torch.cuda.cudart().cudaProfilerStart()
    program.run()
    torch.cuda.cudart().cudaProfilerStop()


def run_step(*, small: bool) -> None:
    """One pass of a program that stays in this process: what a recording runs again and again."""
    module = sys.modules.setdefault("kerneldb_counted_program", types.ModuleType("kerneldb_counted_program"))
    if not hasattr(module, "program"):
        module.program = Program(small=small)  # type: ignore[attr-defined]
    module.program.run()


def find_ncu() -> str | None:
    """The newest ncu on this machine, or None."""
    found = [shutil.which("ncu")] if shutil.which("ncu") else []
    for place in PLACES:
        found += sorted(str(path) for path in Path("/").glob(place.lstrip("/")))
    return os.environ.get("NCU") or (found[-1] if found else None)


def write_profile(folder: Path, *, small: bool) -> dict[str, object]:
    """Runs the program under ncu and prints the pages. Says why where that is not possible."""
    program = [sys.executable, str(Path(__file__).resolve()), "--program", *(["--cpu"] if small else [])]
    ncu = find_ncu()
    if ncu is None or small:
        subprocess.run(program, check=True, timeout=PROFILE_SECONDS)
        return {"ncu": ncu, "profiled": False}
    report = folder / "model.ncu-rep"
    wanted = [part for section in SECTIONS for part in ("--section", section)]
    limits = ["--profile-from-start", "off", "--launch-count", str(MOST_LAUNCHES), "--target-processes", "all"]
    command = [ncu, "--nvtx", *limits, *wanted, "--force-overwrite", "--export", str(report), *program]
    done = subprocess.run(command, capture_output=True, text=True, timeout=PROFILE_SECONDS, check=False)
    (folder / "ncu.log").write_text(done.stdout + done.stderr, encoding="utf-8")
    if done.returncode or not report.is_file():
        return {"ncu": ncu, "profiled": False, "log": (done.stdout + done.stderr)[-2000:]}
    print_pages(ncu, report)
    kept = report.stat().st_size <= MOST_REPORT_BYTES
    if not kept:
        report.unlink()
    version = subprocess.run([ncu, "--version"], capture_output=True, text=True, check=False, timeout=60).stdout
    return {"ncu": ncu, "version": version.split("\n")[-3:], "profiled": True, "report_kept": kept}


def print_pages(ncu: str, report: Path) -> None:
    """The pages as CSV, in the C locale and in that of the shell, units scaled and plain."""
    pages = {
        "model.raw.csv": ["--page", "raw"],
        "model.details.csv": ["--page", "details", "--print-details", "all"],
        "names.details.csv": ["--page", "details", "--print-details", "all", "--print-metric-name", "label-name"],
        "base.raw.csv": ["--page", "raw", "--print-units", "base"],
        "summary.csv": ["--page", "details", "--print-summary", "per-kernel"],
    }
    for name, options in pages.items():
        command = [ncu, "--import", str(report), "--csv", *options]
        done = subprocess.run(
            command, capture_output=True, check=True, timeout=PROFILE_SECONDS, env=os.environ | {"LC_ALL": "C"}
        )
        target = report.parent / name
        target.write_bytes(done.stdout)
        LOG.info("%s: %d bytes", name, target.stat().st_size)


def main() -> None:
    """Command line."""
    logging.basicConfig(level=logging.INFO, format="%(message)s")
    parser = argparse.ArgumentParser(description=__doc__.split("\n", maxsplit=1)[0])
    for mode in ("trace", "profile", "all"):
        parser.add_argument(f"--{mode}", metavar="OUT", type=Path)
    parser.add_argument("--program", action="store_true")
    parser.add_argument("--step", action="store_true")
    parser.add_argument("--cpu", action="store_true")
    options = parser.parse_args()
    if options.step:
        run_step(small=options.cpu)
    if options.program:
        run_program(small=options.cpu)
    for folder in {options.trace, options.all} - {None}:
        folder.mkdir(parents=True, exist_ok=True)
        began = time.monotonic()
        LOG.info("%s in %.0f s", write_trace(folder, small=options.cpu), time.monotonic() - began)
    for folder in {options.profile, options.all} - {None}:
        folder.mkdir(parents=True, exist_ok=True)
        began = time.monotonic()
        told = write_profile(folder, small=options.cpu)
        told["seconds"] = round(time.monotonic() - began)
        (folder / "ncu.json").write_text(json.dumps(told, indent=1), encoding="utf-8")
        LOG.info("%s", json.dumps(told))


if __name__ == "__main__":
    main()
