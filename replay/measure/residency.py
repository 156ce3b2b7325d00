"""Which inputs a kernel found in the L2 cache when it was recorded: the rule behind the cache state `mixed`.

A model reads every layer's weights once per pass, so they come from memory, clean; what the kernel before has just
written lies in the L2, dirty (measured on an H200: GEMV over 32 MB of weights 12.5 µs in the model, 9.0 with warm and
15.3 with dirty-flushed caches; elementwise kernels 2.1–2.4 µs in the model, 1.7 warm, 2.7–3.0 cold). The rule goes by
the schema name of the argument:

    cold    parameters and statistics of layers (weight, bias, running_mean, …); the second factor of a two-dimensional
            product and the one-dimensional bias of `addmm`; a one-dimensional factor or summand of a larger tensor,
            which is the scale or shift of a layer written out in single operators; what a backward operator reads
            beside gradients, which was saved in the forward pass; the lists of optimizers, unless all of them fit into
            half of the L2
    fresh   all else: rewritten right before each run. Where such an input is larger than half of the L2, rewriting
            leaves what its producer would leave: the end of it in the cache

Recorded durations play no part in the rule.
"""

from __future__ import annotations

import enum
import re
from collections.abc import Sequence
from typing import Final

from kerneldb.replay.resolve.recorded import short_name
from kerneldb.replay.routes.base import Input
from kerneldb.replay.wire.plan import Item


class Role(enum.StrEnum):
    """How an input is prepared before each run: left alone, brought from memory, or rewritten."""

    WARM = "warm"
    COLD = "cold"
    FRESH = "fresh"


PARAMETERS: Final = frozenset({"bias", "running_mean", "running_var", "gamma", "scale", "zero_point"})
PRODUCTS: Final = frozenset({"mm", "addmm", "_addmm_activation", "linear", "mv", "addmv", "_scaled_mm"})
POINTWISE: Final = frozenset({"mul", "add", "sub", "div"})
TERMS: Final = frozenset({"self", "other"})
FACTORS: Final = frozenset({(2, "mat2"), (2, "b"), (1, "self")})
OPTIMIZERS: Final = re.compile(r"_fused_(adam|adamw|sgd|adagrad)|_foreach_")
BACKWARD: Final = re.compile(r"_backward(_|$)|_bwd")
ENTRY: Final = re.compile(r"\[\d+\]$")


def roles(item: Item, inputs: Sequence[Input], cache: str, l2_bytes: int) -> list[Role]:
    """The role of each input under the cache state `cache`: cold, warm or mixed."""
    if cache != "mixed":
        return [Role.COLD if cache == "cold" else Role.WARM for _ in inputs]
    operator = "" if item.spec is None else short_name(item.spec.call.op)
    if OPTIMIZERS.match(operator):
        total = sum(one.bytes for one in inputs)
        return [Role.FRESH if total <= l2_bytes // 2 else Role.COLD for _ in inputs]
    widest = max((len(one.tensor.shape) for one in inputs), default=0)
    return [_role(operator, ENTRY.sub("", one.name), one, widest) for one in inputs]


def _role(operator: str, name: str, one: Input, widest: int) -> Role:
    dims = len(one.tensor.shape)
    parameter = "weight" in name or name in PARAMETERS
    factor = operator in PRODUCTS and (dims, name) in FACTORS
    scale = operator in POINTWISE and dims == 1 and name in TERMS and widest > 1
    saved = BACKWARD.search(operator) is not None and not name.startswith("grad")
    return Role.COLD if parameter or factor or scale or saved else Role.FRESH
