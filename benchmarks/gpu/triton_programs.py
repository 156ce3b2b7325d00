"""Programs with Triton kernels for benchmarks/gpu/replay_triton.py: one by name, traced with its sources kept beside.

    python3 benchmarks/gpu/triton_programs.py FOLDER NAME

    fp8       b of float8 is cast to half, a @ b, times a scale, plus a bias; N = 8192, under torch.compile
    user      kernels of the program itself: one tuned by triton.autotune, one that calls another, one inside of
              torch.compile
    template  a product and its epilogue as one Triton template, chosen by max-autotune

Writes FOLDER/trace.json.gz and FOLDER/triton. On a CPU, `fp8` runs small and without a Triton kernel.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch

from kerneldb.replay.recording import sources

CUDA = torch.cuda.is_available()
DEVICE = "cuda" if CUDA else "cpu"
WARM, TRACED = 3, 2
Step = Callable[[], Any]

if CUDA:
    import triton
    import triton.language as tl

    SLOPE = tl.constexpr(0.125)

    @triton.jit
    def bent(x):  # type: ignore[no-untyped-def]  # noqa: ANN001, ANN201 (Triton reads annotations as its own)
        return tl.where(x > 0, x, x * SLOPE)

    @triton.autotune(  # type: ignore[untyped-decorator]
        configs=[triton.Config({"BLOCK": size}, num_warps=warps) for size in (256, 1024) for warps in (2, 4)], key=["n"]
    )
    @triton.jit  # type: ignore[untyped-decorator]
    def leaky_add(x_ptr, y_ptr, out_ptr, n, BLOCK: tl.constexpr):  # type: ignore[no-untyped-def]  # noqa: ANN001, ANN201, N803
        at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
        mask = at < n
        x = tl.load(x_ptr + at, mask=mask)
        y = tl.load(y_ptr + at, mask=mask)
        tl.store(out_ptr + at, bent(x + y), mask=mask)

    @triton.jit  # type: ignore[untyped-decorator]
    def row_softmax(out_ptr, in_ptr, stride, scale, columns, BLOCK: tl.constexpr):  # type: ignore[no-untyped-def]  # noqa: ANN001, ANN201, N803
        row = tl.program_id(0)
        at = tl.arange(0, BLOCK)
        x = tl.load(in_ptr + row * stride + at, mask=at < columns, other=-float("inf")).to(tl.float32) * scale
        x = tl.exp(x - tl.max(x, axis=0))
        tl.store(out_ptr + row * stride + at, (x / tl.sum(x, axis=0)).to(tl.float16), mask=at < columns)

    @triton.jit  # type: ignore[untyped-decorator]
    def doubled(in_ptr, out_ptr, n, BLOCK: tl.constexpr):  # type: ignore[no-untyped-def]  # noqa: ANN001, ANN201, N803
        at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
        tl.store(out_ptr + at, tl.load(in_ptr + at, mask=at < n) * 2, mask=at < n)


def fp8() -> Step:
    n = 8192 if CUDA else 64
    a = torch.randn(n, n, device=DEVICE).half()
    b = torch.randn(n, n, device=DEVICE).to(torch.float8_e4m3fn)
    scale, bias = torch.tensor(0.5, device=DEVICE).half(), torch.randn(n, device=DEVICE).half()

    def scaled(a: Any, b: Any, scale: Any, bias: Any) -> Any:
        return torch.mm(a, b.to(torch.float16)) * scale + bias

    compiled = torch.compile(scaled)
    return lambda: compiled(a, b, scale, bias)


def user() -> Step:
    x, y = (torch.randn(3_000_001, device=DEVICE) for _ in range(2))
    out = torch.empty_like(x)
    rows = torch.randn(4096, 1000, device=DEVICE).half()
    soft = torch.empty_like(rows)

    def inside(x: Any) -> Any:
        out = torch.empty_like(x)
        doubled[(triton.cdiv(x.numel(), 512),)](x, out, x.numel(), BLOCK=512)
        return torch.relu(out) + 1

    compiled = torch.compile(inside)

    def step() -> None:
        leaky_add[lambda meta: (triton.cdiv(x.numel(), meta["BLOCK"]),)](x, y, out, x.numel())
        row_softmax[(rows.shape[0],)](soft, rows, rows.stride(0), 0.5, rows.shape[1], BLOCK=1024, num_warps=8)
        compiled(x)

    return step


def template() -> Step:
    import torch._inductor.config as inductor

    inductor.max_autotune_gemm_backends = "TRITON"
    a, b = (torch.randn(1536, 1024, device=DEVICE).half() for _ in range(2))
    bias = torch.randn(1536, device=DEVICE).half()

    def linear(a: Any, b: Any, bias: Any) -> Any:
        return torch.relu(torch.mm(a, b.t()) + bias)

    compiled = torch.compile(linear, mode="max-autotune-no-cudagraphs")
    return lambda: compiled(a, b, bias)


def main() -> None:
    folder, name = Path(sys.argv[1]), sys.argv[2]
    from torch.profiler import ProfilerActivity, profile

    end = sources.watch(folder)
    with torch.inference_mode():
        step = {"fp8": fp8, "user": user, "template": template}[name]()
        for _ in range(WARM):
            step()
        if CUDA:
            torch.cuda.synchronize()
        activities = [ProfilerActivity.CPU, *([ProfilerActivity.CUDA] if CUDA else [])]
        with profile(activities=activities, record_shapes=True) as profiler:
            for _ in range(TRACED):
                step()
            if CUDA:
                torch.cuda.synchronize()
    end()
    profiler.export_chrome_trace(str(folder / "trace.json.gz"))
    sources.keep(folder)


if __name__ == "__main__":
    target = Path(sys.argv[1])
    target.mkdir(parents=True, exist_ok=True)
    sources.redirect(target)
    main()
