"""Programs for `kerneldb improve`, each with ranges `step N`: all written eagerly but `tuned`.

    python improve_programs.py NAME [--tiny] [--compile] [--steps 30]

Norms and attention are written by hand, as many models have them; `--compile` passes the model through torch.compile.
NAME: decoder (prefill), decode, encdec (training), cnn (training), unet, moe, recommender, ssm, tuned (a decoder that
is compiled already, with fused attention and norms).
"""

import fcntl
import functools
import math
import os
import sys

import torch
import torch.nn.functional as F
from torch import nn
from torch.profiler import record_function

TINY = "--tiny" in sys.argv
DEVICE = "cuda" if torch.cuda.is_available() and not TINY else "cpu"
HALF = torch.float32 if DEVICE == "cpu" else torch.bfloat16
STEPS = int(sys.argv[sys.argv.index("--steps") + 1]) if "--steps" in sys.argv else 30


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

    def forward(self, x, mask, past, other=None):
        batch, tokens, size = x.shape
        pairs = ((self.q, x), (self.k, x if other is None else other), (self.v, x if other is None else other))
        q, k, v = (one(of).view(batch, -1, self.heads, size // self.heads).transpose(1, 2) for one, of in pairs)
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


def causal(tokens, like):
    return torch.full((1, 1, tokens, tokens), float("-inf"), device=like.device, dtype=like.dtype).triu(1)


class Decoder(nn.Module):
    def __init__(self, size, heads, layers, vocabulary, block=Block):
        super().__init__()
        self.embedding = nn.Embedding(vocabulary, size)
        self.blocks = nn.ModuleList(block(size, heads) for _ in range(layers))
        self.norm, self.head = Norm(size), nn.Linear(size, vocabulary, bias=False)

    def forward(self, ids, past=None):
        x, tokens = self.embedding(ids), ids.shape[1]
        mask = causal(tokens, x) if tokens > 1 else None
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


class CrossBlock(nn.Module):
    """A block of the decoder of an encoder-decoder: attention to itself, to what the encoder made, and an MLP."""

    def __init__(self, size, heads):
        super().__init__()
        self.inner, self.across, self.norm = Block(size, heads), Attention(size, heads), Norm(size)

    def forward(self, x, other, mask):
        x = x + self.across(self.norm(x), None, None, other)
        return self.inner(x, mask, None)


class EncoderDecoder(nn.Module):
    def __init__(self, size, heads, layers, vocabulary):
        super().__init__()
        self.embedding = nn.Embedding(vocabulary, size)
        self.encoder = nn.ModuleList(Block(size, heads) for _ in range(layers))
        self.decoder = nn.ModuleList(CrossBlock(size, heads) for _ in range(layers))
        self.norm, self.head = Norm(size), nn.Linear(size, vocabulary, bias=False)

    def forward(self, ids):
        source, x = self.embedding(ids), self.embedding(ids)
        for block in self.encoder:
            source = block(source, None, None)
        mask = causal(ids.shape[1], x)
        for block in self.decoder:
            x = block(x, source, mask)
        return self.head(self.norm(x))


class Bottleneck(nn.Module):
    def __init__(self, width):
        super().__init__()
        inner = width // 4
        sizes = [(width, inner, 1), (inner, inner, 3), (inner, width, 1)]
        self.convs = nn.ModuleList(nn.Conv2d(a, b, k, padding=k // 2, bias=False) for a, b, k in sizes)
        self.norms = nn.ModuleList(nn.BatchNorm2d(b) for _, b, _ in sizes)

    def forward(self, x):
        y = x
        for number, (conv, norm) in enumerate(zip(self.convs, self.norms, strict=True)):
            y = norm(conv(y))
            y = y if number == 2 else torch.relu(y)
        return torch.relu(x + y)


class Cnn(nn.Module):
    def __init__(self, width, blocks, classes):
        super().__init__()
        self.start, self.norm = nn.Conv2d(3, width, 4, stride=4, bias=False), nn.BatchNorm2d(width)
        self.blocks = nn.ModuleList(Bottleneck(width) for _ in range(blocks))
        self.head = nn.Linear(width, classes)

    def forward(self, x):
        x = torch.relu(self.norm(self.start(x)))
        for block in self.blocks:
            x = block(x)
        return self.head(x.mean((2, 3)))


class Experts(nn.Module):
    """All experts in a loop, each over a fixed share of the tokens, those with the largest weights."""

    def __init__(self, size, count):
        super().__init__()
        self.router = nn.Linear(size, count, bias=False)
        self.experts = nn.ModuleList(Mlp(size) for _ in range(count))

    def forward(self, x):
        flat = x.reshape(-1, x.shape[-1])
        weights = torch.softmax(self.router(flat), dim=-1, dtype=torch.float32).to(x.dtype)
        result = torch.zeros_like(flat)
        share = 2 * flat.shape[0] // len(self.experts)
        for number, expert in enumerate(self.experts):
            weight, chosen = torch.topk(weights[:, number], share)
            made = expert(flat.index_select(0, chosen)) * weight.unsqueeze(1)
            result = result.index_add(0, chosen, made)
        return result.view_as(x)


class MoeBlock(Block):
    def __init__(self, size, heads):
        super().__init__(size, heads)
        self.mlp = Experts(size, 8)


class Recommender(nn.Module):
    """Embedding bags of categories, an MLP of numbers, products of all pairs, and an MLP on top."""

    def __init__(self, tables, rows, size):
        super().__init__()
        self.tables = nn.ModuleList(nn.EmbeddingBag(rows, size, mode="sum") for _ in range(tables))
        self.bottom = nn.Sequential(nn.Linear(13, 512), nn.ReLU(), nn.Linear(512, size), nn.ReLU())
        pairs = tables * (tables + 1) // 2
        self.top = nn.Sequential(
            nn.Linear(pairs + size, 1024), nn.ReLU(), nn.Linear(1024, 512), nn.ReLU(), nn.Linear(512, 1)
        )
        self.register_buffer("pairs", torch.tril_indices(tables + 1, tables + 1, -1))

    def forward(self, numbers, categories):
        dense = self.bottom(numbers)
        bags = [table(categories[:, place]) for place, table in enumerate(self.tables)]
        stacked = torch.stack([dense, *bags], 1)
        products = torch.matmul(stacked, stacked.transpose(1, 2))[:, self.pairs[0], self.pairs[1]]
        return torch.sigmoid(self.top(torch.cat([dense, products], 1)))


class StateSpace(nn.Module):
    """A selective state space in chunks, each as products (the dual form), with the states carried between them."""

    def __init__(self, size, heads, state):
        super().__init__()
        self.norm, self.heads, self.state = Norm(size), heads, state
        self.inputs = nn.Linear(size, 2 * size + 2 * state + heads, bias=False)
        self.out = nn.Linear(size, size, bias=False)
        self.decay = nn.Parameter(torch.randn(heads) * 0.1)

    def forward(self, x, chunk):
        batch, tokens, size = x.shape
        gate, value, b, c, step = self.inputs(self.norm(x)).split([size, size, self.state, self.state, self.heads], -1)
        step = F.softplus(step.float())
        log = (-torch.exp(self.decay.float()) * step).view(batch, -1, chunk, self.heads).permute(0, 1, 3, 2)
        total = torch.cumsum(log, -1)
        value = (value.view(batch, tokens, self.heads, -1).float() * step.unsqueeze(-1)).view(
            batch, -1, chunk, self.heads, size // self.heads
        )
        b, c = (one.float().reshape(batch, -1, chunk, self.state) for one in (b, c))
        lower = torch.ones(chunk, chunk, device=x.device, dtype=torch.bool).tril()
        between = (total.unsqueeze(-1) - total.unsqueeze(-2)).masked_fill(~lower, float("-inf")).exp()
        scores = torch.matmul(c, b.transpose(-1, -2)).unsqueeze(2) * between
        values = value.permute(0, 1, 3, 2, 4)
        inside = torch.matmul(scores, values)
        left = (total[..., -1:] - total).exp().unsqueeze(-1)
        states = torch.matmul(b.unsqueeze(2).transpose(-1, -2), values * left)
        carried, state = [], torch.zeros_like(states[:, 0])
        for number in range(states.shape[1]):
            carried.append(state)
            state = state * total[:, number, :, -1, None, None].exp() + states[:, number]
        before = torch.matmul(c.unsqueeze(2), torch.stack(carried, 1)) * total.exp().unsqueeze(-1)
        y = (inside + before).permute(0, 1, 3, 2, 4).reshape(batch, tokens, size).to(x.dtype)
        return x + self.out(y * F.silu(gate))


class Spaces(nn.Module):
    def __init__(self, size, heads, layers, state, chunk, vocabulary):
        super().__init__()
        self.embedding, self.chunk = nn.Embedding(vocabulary, size), chunk
        self.blocks = nn.ModuleList(StateSpace(size, heads, state) for _ in range(layers))
        self.norm, self.head = Norm(size), nn.Linear(size, vocabulary, bias=False)

    def forward(self, ids):
        x = self.embedding(ids)
        for block in self.blocks:
            x = block(x, self.chunk)
        return self.head(self.norm(x))


class TunedBlock(nn.Module):
    def __init__(self, size, heads):
        super().__init__()
        self.heads = heads
        self.first, self.second = nn.RMSNorm(size), nn.RMSNorm(size)
        self.qkv, self.o = nn.Linear(size, 3 * size, bias=False), nn.Linear(size, size, bias=False)
        self.both, self.down = nn.Linear(size, 6 * size, bias=False), nn.Linear(3 * size, size, bias=False)

    def forward(self, x):
        batch, tokens, size = x.shape
        q, k, v = self.qkv(self.first(x)).view(batch, tokens, 3, self.heads, -1).permute(2, 0, 3, 1, 4)
        y = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        x = x + self.o(y.transpose(1, 2).reshape(batch, tokens, size))
        gate, up = self.both(self.second(x)).chunk(2, -1)
        return x + self.down(F.silu(gate) * up)


class Tuned(nn.Module):
    def __init__(self, size, heads, layers, vocabulary):
        super().__init__()
        self.embedding = nn.Embedding(vocabulary, size)
        self.blocks = nn.ModuleList(TunedBlock(size, heads) for _ in range(layers))
        self.norm, self.head = nn.RMSNorm(size), nn.Linear(size, vocabulary, bias=False)

    def forward(self, ids):
        x = self.embedding(ids)
        for block in self.blocks:
            x = block(x)
        return self.head(self.norm(x))


TRAINED = ("encdec", "cnn")
SIZES = {  # of a GPU, and tiny ones: sizes of the model, batch, tokens (or side of an image)
    "decoder": (Decoder, (2048, 16, 4, 32000), (64, 4, 2, 128), (4, 1024), (2, 32)),
    "decode": (Decoder, (2048, 16, 8, 32000), (64, 4, 2, 128), (8, 1), (2, 1)),
    "encdec": (EncoderDecoder, (1024, 16, 3, 16000), (64, 4, 1, 128), (8, 512), (2, 32)),
    "cnn": (Cnn, (512, 8, 1000), (32, 2, 10), (64, 224), (2, 32)),
    "unet": (Unet, (256,), (32,), (4, 64), (2, 16)),
    "moe": (functools.partial(Decoder, block=MoeBlock), (1024, 16, 2, 16000), (64, 4, 1, 128), (4, 1024), (2, 32)),
    "recommender": (Recommender, (26, 100000, 128), (4, 100, 16), (8192, 4), (8, 4)),
    "ssm": (Spaces, (1024, 16, 4, 64, 64, 16000), (64, 4, 2, 8, 8, 128), (4, 1024), (2, 32)),
    "tuned": (Tuned, (2048, 16, 4, 32000), (64, 4, 2, 128), (4, 1024), (2, 32)),
}


def inputs(what, batch, length, vocabulary):
    """What the model takes in every step."""
    if what == "unet":
        return (torch.randn(batch, 4, length, length, device=DEVICE, dtype=HALF),)
    if what == "cnn":
        return (torch.randn(batch, 3, length, length, device=DEVICE),)
    if what == "recommender":
        rows, tables = (100, 4) if TINY else (100000, 26)
        numbers = torch.randn(batch, 13, device=DEVICE, dtype=HALF)
        return numbers, torch.randint(0, rows, (batch, tables, length), device=DEVICE)
    ids = torch.randint(0, vocabulary, (batch, length), device=DEVICE)
    if what != "decode":
        return (ids,)
    shape, blocks = ((batch, 4, 32, 16), 2) if TINY else ((batch, 16, 1024, 128), 8)
    return ids, [tuple(torch.randn(shape, device=DEVICE, dtype=HALF) for _ in range(2)) for _ in range(blocks)]


def loss_of(what, output, given):
    if what == "cnn":
        return F.cross_entropy(output.float(), torch.arange(len(output), device=output.device) % output.shape[1])
    return F.cross_entropy(output.flatten(0, 1).float(), given[0].flatten())


def alone():
    """Wait until no other program measures on this machine, where IMPROVE_LOCK names a file; then hold it."""
    if "IMPROVE_LOCK" in os.environ:
        fcntl.flock(os.open(os.environ["IMPROVE_LOCK"], os.O_CREAT | os.O_RDWR), fcntl.LOCK_EX)


def main(what):
    torch.manual_seed(0)
    training = what in TRAINED
    make, usual, small, shape, short = SIZES[what]
    with torch.set_grad_enabled(training):
        model = make(*(small if TINY else usual)).to(DEVICE, torch.float32 if training else HALF)
        given = inputs(what, *(short if TINY else shape), 128 if TINY else 16000)
        called = torch.compile(model, dynamic=False) if what == "tuned" or "--compile" in sys.argv else model
        optimizer = torch.optim.AdamW(model.parameters(), lr=1e-5) if training else None
        for number in range(STEPS):
            if number == 2:
                alone()
            with record_function(f"step {number}"):
                with torch.autocast(DEVICE, torch.bfloat16, enabled=training and not TINY):
                    output = called(*given)
                if optimizer is not None:
                    loss_of(what, output, given).backward()
                    optimizer.step()
                    optimizer.zero_grad(set_to_none=True)


if __name__ == "__main__":
    main(sys.argv[1])
