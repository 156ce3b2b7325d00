"""Programs whose steps are replayed whole: `kerneldb record --script benchmarks/gpu/context_programs.py -- NAME`.

A script is run again and again in one process; what it builds stays in a module of its own, so that a run is one step.
"""

from __future__ import annotations

import functools
import sys
import types
from collections.abc import Callable
from typing import Any

import torch
from torch import nn
from torch.nn import functional

KEPT = "kerneldb_context_programs"
Step = Callable[[], object]


def encoder_decoder() -> Step:
    """A training step of an encoder-decoder (T5 of small size), bfloat16 autocast, AdamW."""
    import transformers

    config = transformers.T5Config(
        vocab_size=32128, d_model=768, d_kv=64, d_ff=2048, num_layers=6, num_heads=12, decoder_start_token_id=0
    )
    model = transformers.T5ForConditionalGeneration(config).cuda().train()
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4)
    ids, labels = (torch.randint(3, 32000, (8, size), device="cuda") for size in (512, 128))

    def step() -> None:
        with torch.autocast("cuda", torch.bfloat16):
            loss = model(input_ids=ids, labels=labels).loss
        loss.backward()
        optimizer.step()
        optimizer.zero_grad(set_to_none=True)

    return step


class Bottleneck(nn.Module):
    """A residual block of a ResNet-50."""

    def __init__(self, inner: int, width: int, stride: int) -> None:
        super().__init__()
        out = width * 4
        self.body = nn.Sequential(
            nn.Conv2d(inner, width, 1, bias=False), nn.BatchNorm2d(width), nn.ReLU(inplace=True),
            nn.Conv2d(width, width, 3, stride, 1, bias=False), nn.BatchNorm2d(width), nn.ReLU(inplace=True),
            nn.Conv2d(width, out, 1, bias=False), nn.BatchNorm2d(out),
        )  # fmt: skip
        narrow = stride == 1 and inner == out
        self.beside = nn.Identity() if narrow else nn.Sequential(nn.Conv2d(inner, out, 1, stride), nn.BatchNorm2d(out))
        self.last = nn.ReLU(inplace=True)

    def forward(self, given: Any) -> Any:
        """The block."""
        return self.last(self.body(given) + self.beside(given))


def cnn() -> Step:
    """A training step of a ResNet-50, channels last, mixed precision with loss scaling, SGD with momentum."""
    stages: list[nn.Module] = [nn.Conv2d(3, 64, 7, 2, 3), nn.BatchNorm2d(64), nn.ReLU(), nn.MaxPool2d(3, 2, 1)]
    inner = 64
    for width, count, stride in ((64, 3, 1), (128, 4, 2), (256, 6, 2), (512, 3, 2)):
        for place in range(count):
            stages.append(Bottleneck(inner, width, stride if place == 0 else 1))
            inner = width * 4
    model = nn.Sequential(*stages, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(2048, 1000))
    model = model.cuda().to(memory_format=torch.channels_last)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01, momentum=0.9)
    scaler = torch.amp.GradScaler("cuda")
    images = torch.randn(64, 3, 224, 224, device="cuda").to(memory_format=torch.channels_last)
    labels = torch.randint(0, 1000, (64,), device="cuda")

    def step() -> None:
        optimizer.zero_grad(set_to_none=True)
        with torch.autocast("cuda", torch.float16):
            loss = functional.cross_entropy(model(images), labels)
        scaler.scale(loss).backward()
        scaler.step(optimizer)
        scaler.update()

    return step


class Residual(nn.Module):
    """A residual block of a diffusion U-Net, with attention of its pixels."""

    def __init__(self, inner: int, out: int, *, attends: bool) -> None:
        super().__init__()
        self.first, self.second = nn.Conv2d(inner, out, 3, 1, 1), nn.Conv2d(out, out, 3, 1, 1)
        self.norms = nn.ModuleList([nn.GroupNorm(32, inner), nn.GroupNorm(32, out), nn.GroupNorm(32, out)])
        self.time = nn.Linear(1280, out)
        self.beside = nn.Conv2d(inner, out, 1)
        self.to_qkv = nn.Linear(out, 3 * out) if attends else None
        self.from_heads = nn.Linear(out, out)

    def forward(self, given: Any, time: Any) -> Any:
        """The block."""
        found = self.first(functional.silu(self.norms[0](given))) + self.time(functional.silu(time))[:, :, None, None]
        found = self.second(functional.silu(self.norms[1](found))) + self.beside(given)
        if self.to_qkv is None:
            return found
        batch, channels, height, width = found.shape
        rows = self.norms[2](found).flatten(2).transpose(1, 2)
        query, key, value = self.to_qkv(rows).view(batch, -1, 3, 8, channels // 8).permute(2, 0, 3, 1, 4)
        mixed = functional.scaled_dot_product_attention(query, key, value).transpose(1, 2).reshape(batch, -1, channels)
        return found + self.from_heads(mixed).transpose(1, 2).view(batch, channels, height, width)


class UNet(nn.Module):
    """A diffusion U-Net of three resolutions."""

    def __init__(self, widths: tuple[int, ...] = (320, 640, 1280)) -> None:
        super().__init__()
        self.first, self.last = nn.Conv2d(4, widths[0], 3, 1, 1), nn.Conv2d(widths[0], 4, 3, 1, 1)
        pairs = list(zip((widths[0], *widths), widths, strict=False))
        self.down = nn.ModuleList([Residual(a, b, attends=b > widths[0]) for a, b in pairs])
        self.middle = Residual(widths[-1], widths[-1], attends=True)
        self.up = nn.ModuleList([Residual(2 * b, a, attends=b > widths[0]) for a, b in reversed(pairs)])

    def forward(self, given: Any, time: Any) -> Any:
        """The noise in `given` at `time`."""
        found, kept = self.first(given), []
        for block in self.down:
            found = block(found, time)
            kept.append(found)
            found = functional.avg_pool2d(found, 2)
        found = self.middle(found, time)
        for block in self.up:
            found = functional.interpolate(found, scale_factor=2.0, mode="nearest")
            found = block(torch.cat([found, kept.pop()], 1), time)
        return self.last(functional.silu(found))


def unet() -> Step:
    """A step of denoising with a U-Net in float16."""
    model = UNet().cuda().half().eval()
    given, time = (torch.randn(*dims, device="cuda", dtype=torch.float16) for dims in ((4, 4, 64, 64), (4, 1280)))

    @torch.no_grad()
    def step() -> None:
        noise = model(given, time)
        torch.add(given, noise, alpha=-0.1)

    return step


def kept(name: str) -> Step:
    """The step of a program, built when it is first asked for."""
    module = sys.modules.setdefault(KEPT, types.ModuleType(KEPT))
    if not hasattr(module, name):
        torch.manual_seed(0)
        builders = {"encoder-decoder": encoder_decoder, "cnn": cnn, "unet": unet}
        setattr(module, name, functools.partial(builders[name]()))
    found: Step = getattr(module, name)
    return found


if __name__ == "__main__":
    kept(sys.argv[1])()
