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


class Experts(nn.Module):
    """A decoder layer: attention, then the two best of eight experts for each token."""

    def __init__(self, size: int, heads: int, count: int = 8) -> None:
        super().__init__()
        self.heads, self.norms = heads, nn.ModuleList([nn.RMSNorm(size), nn.RMSNorm(size)])
        self.qkv, self.out = nn.Linear(size, 3 * size, bias=False), nn.Linear(size, size, bias=False)
        self.router = nn.Linear(size, count, bias=False)
        self.up = nn.ModuleList(nn.Linear(size, 2 * size, bias=False) for _ in range(count))
        self.down = nn.ModuleList(nn.Linear(2 * size, size, bias=False) for _ in range(count))

    def forward(self, given: Any) -> Any:
        """The layer."""
        batch, tokens, size = given.shape
        rows = self.qkv(self.norms[0](given)).view(batch, tokens, 3, self.heads, -1).permute(2, 0, 3, 1, 4)
        mixed = functional.scaled_dot_product_attention(*rows, is_causal=True).transpose(1, 2).reshape(given.shape)
        given = given + self.out(mixed)
        flat = self.norms[1](given).view(-1, size)
        weights, chosen = torch.softmax(self.router(flat), -1).topk(2)
        made = torch.zeros_like(flat)
        for number, (up, down) in enumerate(zip(self.up, self.down, strict=True)):
            row, place = torch.where(chosen == number)
            worked = down(functional.silu(up(flat[row])))
            made.index_add_(0, row, worked * weights[row, place, None])
        return given + made.view(given.shape)


def experts() -> Step:
    """Prefill of a decoder whose layers have experts, bfloat16."""
    model = nn.Sequential(*(Experts(2048, 16) for _ in range(4))).cuda().bfloat16().eval()
    given = torch.randn(4, 512, 2048, device="cuda", dtype=torch.bfloat16)
    return functools.partial(_without_gradients, model, given)


def recommender() -> Step:
    """A training step of a recommender: bags of sparse embeddings, products of pairs, SGD."""
    tables = nn.ModuleList(nn.EmbeddingBag(200_000, 64, mode="sum", sparse=True) for _ in range(8)).cuda()
    below = nn.Sequential(nn.Linear(13, 512), nn.ReLU(), nn.Linear(512, 64)).cuda()
    above = nn.Sequential(nn.Linear(36 + 64, 1024), nn.ReLU(), nn.Linear(1024, 1)).cuda()
    optimizer = torch.optim.SGD([*tables.parameters(), *below.parameters(), *above.parameters()], lr=0.01)
    rows, offsets = 4096, torch.arange(0, 4096 * 20, 20, device="cuda")
    indices = [torch.randint(0, 200_000, (rows * 20,), device="cuda") for _ in tables]
    dense, labels = torch.randn(rows, 13, device="cuda"), torch.randint(0, 2, (rows, 1), device="cuda").float()
    left, right = torch.triu_indices(9, 9, 1, device="cuda")

    def step() -> None:
        optimizer.zero_grad(set_to_none=True)
        first = below(dense)
        listed = torch.stack([first, *(table(one, offsets) for table, one in zip(tables, indices, strict=True))], 1)
        pairs = torch.bmm(listed, listed.transpose(1, 2))[:, left, right]
        found = above(torch.cat([first, pairs], 1))
        functional.binary_cross_entropy_with_logits(found, labels).backward()
        optimizer.step()

    return step


class StateSpace(nn.Module):
    """A layer whose state decays: a convolution over time, then a scan in the logarithm."""

    def __init__(self, size: int) -> None:
        super().__init__()
        self.norm, self.into = nn.LayerNorm(size), nn.Linear(size, 4 * size, bias=False)
        self.mix = nn.Conv1d(2 * size, 2 * size, 4, padding=3, groups=2 * size)
        self.decay, self.out = nn.Linear(2 * size, 2 * size), nn.Linear(2 * size, size, bias=False)

    def forward(self, given: Any) -> Any:
        """The layer."""
        rows, gate = self.into(self.norm(given)).chunk(2, -1)
        rows = functional.silu(self.mix(rows.transpose(1, 2))[..., : given.shape[1]].transpose(1, 2))
        decay = -functional.softplus(self.decay(rows)) / 16
        total = torch.cumsum(decay, 1)
        state = torch.exp(total) * torch.cumsum(rows * torch.exp(-total), 1)
        return given + self.out(state * functional.silu(gate))


def state_space() -> Step:
    """A pass of a state-space model of four layers, float32."""
    model = nn.Sequential(*(StateSpace(1024) for _ in range(4))).cuda().eval()
    return functools.partial(_without_gradients, model, torch.randn(8, 512, 1024, device="cuda"))


def mixed() -> Step:
    """A graph network, a filter in the frequency domain, a recurrent network and linear algebra."""
    nodes, edges = 50_000, torch.randint(0, 50_000, (2, 400_000), device="cuda")
    features = torch.randn(nodes, 128, device="cuda")
    layers = nn.ModuleList(nn.Linear(256, 128) for _ in range(2)).cuda()
    images, response = torch.randn(16, 64, 256, 256, device="cuda"), torch.randn(64, 256, 129, device="cuda")
    recurrent, steps = nn.LSTM(256, 512, 2).cuda(), torch.randn(64, 64, 256, device="cuda")
    square = torch.randn(64, 256, 256, device="cuda")
    definite = square @ square.mT + 256 * torch.eye(256, device="cuda")

    @torch.no_grad()
    def step() -> None:
        found = features
        for layer in layers:
            around = torch.zeros_like(found).index_add_(0, edges[1], found[edges[0]])
            found = torch.relu(layer(torch.cat([found, around], 1)))
        torch.fft.irfft2(torch.fft.rfft2(images) * response)
        recurrent(steps)
        torch.cholesky_solve(square, torch.linalg.cholesky(definite))

    return step


def quantised() -> Step:
    """A serving step of layers whose products are of 8-bit floats, scaled by row."""
    sizes = ((4096, 12288), (4096, 4096), (4096, 22016), (11008, 4096))
    weights = [torch.randn(o, i, device="cuda").to(torch.float8_e4m3fn) for i, o in sizes]
    # As large as what goes in: sums of i products of normal numbers have a spread of i ** 0.5.
    scales = [torch.rand(1, o, device="cuda") / i**0.5 for i, o in sizes]
    given = torch.randn(512, 4096, device="cuda", dtype=torch.bfloat16)

    def product(rows: Any, place: int) -> Any:
        most = rows.abs().amax(1, keepdim=True).float() / 448
        small = (rows / most).to(torch.float8_e4m3fn)
        return torch._scaled_mm(small, weights[place].t(), most, scales[place], out_dtype=torch.bfloat16)

    @torch.no_grad()
    def step() -> None:
        rows = given
        for _ in range(4):
            query, key, value = product(rows, 0).view(4, 128, 3, 32, 128).permute(2, 0, 3, 1, 4)
            made = functional.scaled_dot_product_attention(query, key, value, is_causal=True)
            rows = rows + product(made.transpose(1, 2).reshape(512, 4096), 1)
            gate, up = product(functional.rms_norm(rows, (4096,)), 2).chunk(2, 1)
            rows = rows + product(functional.silu(gate) * up, 3)

    return step


def vit() -> Step:
    """A pass of a vision transformer of large size, float16."""
    import transformers

    config = transformers.ViTConfig(
        hidden_size=1024, num_hidden_layers=12, num_attention_heads=16, intermediate_size=4096
    )
    model = transformers.ViTForImageClassification(config).cuda().half().eval()
    return functools.partial(_without_gradients, model, torch.randn(32, 3, 224, 224, device="cuda").half())


def compiled() -> Step:
    """A training step of two blocks of a decoder under torch.compile: most of its kernels are Triton's."""
    import transformers

    config = transformers.LlamaConfig(
        vocab_size=8192, hidden_size=1024, intermediate_size=2816, num_hidden_layers=2, num_attention_heads=16
    )
    model = transformers.LlamaForCausalLM(config).cuda().train()
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4, fused=True)
    ids = torch.randint(3, 8000, (4, 512), device="cuda")
    fast = torch.compile(model)

    def step() -> None:
        with torch.autocast("cuda", torch.bfloat16):
            loss = fast(input_ids=ids, labels=ids, use_cache=False).loss
        loss.backward()
        optimizer.step()
        optimizer.zero_grad(set_to_none=True)

    return step


@torch.no_grad()
def _without_gradients(model: nn.Module, given: Any) -> None:
    model(given)


PROGRAMS: dict[str, Callable[[], Step]] = {
    "encoder-decoder": encoder_decoder, "cnn": cnn, "unet": unet, "experts": experts, "recommender": recommender,
    "state-space": state_space, "mixed": mixed, "quantised": quantised, "vit": vit, "compiled": compiled,
}  # fmt: skip


def kept(name: str) -> Step:
    """The step of a program, built when it is first asked for."""
    module = sys.modules.setdefault(KEPT, types.ModuleType(KEPT))
    if not hasattr(module, name):
        torch.manual_seed(0)
        setattr(module, name, functools.partial(PROGRAMS[name]()))
    found: Step = getattr(module, name)
    return found


if __name__ == "__main__":
    kept(sys.argv[1])()
