"""Programs written eagerly, for `kerneldb improve`: `decoder`, `decode`, `unet` and `train`, each with ranges `step N`.

    python improve_programs.py decoder [--tiny] [--compile]

Norms and attention are written by hand, as many models have them; `--compile` passes the model through torch.compile.
"""

import math
import sys

import torch
import torch.nn.functional as F
from torch import nn
from torch.profiler import record_function

TINY = "--tiny" in sys.argv
DEVICE = "cuda" if torch.cuda.is_available() and not TINY else "cpu"
HALF = torch.float32 if DEVICE == "cpu" else torch.bfloat16
STEPS = 15


class Norm(nn.Module):
    def __init__(self, size):
        super().__init__()
        self.weight = nn.Parameter(torch.ones(size) + 0.02 * torch.randn(size))
        self.eps = 1e-6

    def forward(self, x):
        y = x.to(torch.float32)
        y = y * torch.rsqrt(y.pow(2).mean(-1, keepdim=True) + self.eps)
        return self.weight * y.to(x.dtype)


def attention(query, key, value, mask, scale):
    scores = torch.matmul(query, key.transpose(-1, -2)) * scale
    if mask is not None:
        scores = scores + mask
    weights = torch.softmax(scores, dim=-1, dtype=torch.float32).to(query.dtype)
    return torch.matmul(weights, value).transpose(1, 2).contiguous()


class Attention(nn.Module):
    def __init__(self, size, heads):
        super().__init__()
        self.heads, self.scale = heads, 1 / math.sqrt(size // heads)
        self.q, self.k, self.v, self.o = (nn.Linear(size, size, bias=False) for _ in range(4))

    def forward(self, x, mask, past):
        batch, tokens, size = x.shape
        q, k, v = (one(x).view(batch, tokens, self.heads, -1).transpose(1, 2) for one in (self.q, self.k, self.v))
        if past is not None:
            k, v = torch.cat([past[0], k], 2), torch.cat([past[1], v], 2)
        return self.o(attention(q, k, v, mask, self.scale).view(batch, tokens, size))


class Mlp(nn.Module):
    def __init__(self, size):
        super().__init__()
        self.gate, self.up = nn.Linear(size, 3 * size, bias=False), nn.Linear(size, 3 * size, bias=False)
        self.down = nn.Linear(3 * size, size, bias=False)

    def forward(self, x):
        return self.down(F.silu(self.gate(x)) * self.up(x))


class Block(nn.Module):
    def __init__(self, size, heads):
        super().__init__()
        self.first, self.second = Norm(size), Norm(size)
        self.attention, self.mlp = Attention(size, heads), Mlp(size)

    def forward(self, x, mask, past):
        x = x + self.attention(self.first(x), mask, past)
        return x + self.mlp(self.second(x))


class Decoder(nn.Module):
    def __init__(self, size, heads, layers, vocabulary):
        super().__init__()
        self.embedding = nn.Embedding(vocabulary, size)
        self.blocks = nn.ModuleList(Block(size, heads) for _ in range(layers))
        self.norm, self.head = Norm(size), nn.Linear(size, vocabulary, bias=False)

    def forward(self, ids, past=None):
        x, tokens = self.embedding(ids), ids.shape[1]
        mask = None
        if tokens > 1:
            mask = torch.full((1, 1, tokens, tokens), float("-inf"), device=ids.device, dtype=x.dtype).triu(1)
        for number, block in enumerate(self.blocks):
            x = block(x, mask, None if past is None else past[number])
        return self.head(self.norm(x))


class Residual(nn.Module):
    def __init__(self, inputs, outputs):
        super().__init__()
        self.first, self.second = nn.Conv2d(inputs, outputs, 3, padding=1), nn.Conv2d(outputs, outputs, 3, padding=1)
        self.one, self.two = nn.GroupNorm(32, inputs), nn.GroupNorm(32, outputs)
        self.short = nn.Conv2d(inputs, outputs, 1)

    def forward(self, x):
        y = self.first(F.silu(self.one(x)))
        return self.short(x) + self.second(F.silu(self.two(y)))


class Unet(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.start, self.end = nn.Conv2d(4, width, 3, padding=1), nn.Conv2d(width, 4, 3, padding=1)
        self.down = nn.ModuleList([Residual(width, width), Residual(width, 2 * width), Residual(2 * width, 2 * width)])
        self.up = nn.ModuleList(
            [Residual(4 * width, 2 * width), Residual(4 * width, width), Residual(2 * width, width)]
        )

    def forward(self, x):
        x, kept = self.start(x), []
        for block in self.down:
            x = block(x)
            kept.append(x)
            x = F.avg_pool2d(x, 2)
        for block in self.up:
            x = F.interpolate(x, scale_factor=2.0)
            x = block(torch.cat([x, kept.pop()], 1))
        return self.end(x)


def decoder(tiny):
    sizes = (64, 4, 2, 128) if tiny else (2048, 16, 8, 32000)
    return Decoder(*sizes).to(DEVICE, HALF)


def main(what):
    torch.manual_seed(0)
    training = what == "train"
    with torch.set_grad_enabled(training):
        model = Unet(32 if TINY else 256).to(DEVICE, HALF) if what == "unet" else decoder(TINY)
        vocabulary = 128 if TINY else 32000
        batch, tokens = (2, 32) if TINY else ((8, 1) if what == "decode" else (4, 1024))
        tokens = 1 if what == "decode" else tokens
        ids = torch.randint(0, vocabulary, (batch, tokens), device=DEVICE)
        side = 16 if TINY else 64
        given = torch.randn(batch, 4, side, side, device=DEVICE, dtype=HALF) if what == "unet" else ids
        past = None
        if what == "decode":
            shape = (batch, 4, 32, 16) if TINY else (batch, 16, 1024, 128)
            past = [tuple(torch.randn(shape, device=DEVICE, dtype=HALF) for _ in range(2)) for _ in model.blocks]
        called = torch.compile(model, dynamic=False) if "--compile" in sys.argv else model
        optimizer = torch.optim.AdamW(model.parameters(), lr=1e-5) if training else None
        for number in range(STEPS):
            with record_function(f"step {number}"):
                output = called(given) if past is None else called(given, past)
                if optimizer is not None:
                    loss = F.cross_entropy(output.flatten(0, 1).float(), ids.flatten())
                    loss.backward()
                    optimizer.step()
                    optimizer.zero_grad(set_to_none=True)


if __name__ == "__main__":
    main(sys.argv[1])
