"""Whether a rewrite computes the same: its error against float64 may be at most twice that of the original.

Both are compared with the original's calls in float64 (float32 where those refuse) on the same inputs: those of the
step, and others drawn from several distributions, each tensor on the scale that it has in the step; large and small
numbers only take the place of what is no parameter: a network whose weights are all thirty times as large overflows.
The error of an output is the root of its mean square, as a share of that of the output; half a unit in the last place
is granted, since no result of that dtype can be relied on to be closer. The largest single error may be four times the
original's: of two ways that are as exact, in networks of 16-bit numbers, one often has a single error two or three
times as large as the other's, while the mean squares are within a third of each other.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Final

from kerneldb.replay.errors import FAILURES, first_line
from kerneldb.replay.rewrites.region import CannotTryError, Region, graph

LIMIT: Final = 2.0
SLIGHT: Final = 2.0**-10
"""Errors below this share of the result, however exact the original is, pass where less precision is allowed: numbers
of TF32 and float16 have ten bits behind the first, so that a product in either may lose as much."""
SINGLE: Final = 2.0
"""How much more than `LIMIT` the largest single error may be."""
VERY_LOW: Final = 1e4
LEAST: Final = 1e-300
NOTHING_RIGHT: Final = 1.0
"""Error of an original that is rounding and nothing else (a gradient that is zero but for it): nothing to compare."""
ROUNDING: Final = 100.0
"""A rewrite that is as many times further off is no rounding, whatever the original is."""
DISTRIBUTIONS: Final = ("recorded", "normal", "uniform", "large", "small")

MEAN: Final = "the result (root mean square)"
LARGEST: Final = "the largest element"

Function = Callable[..., Sequence[Any]]


@dataclass(frozen=True, slots=True)
class Checked:
    """The largest error over outputs and distributions, of the original and the rewrite, as a share of the output.

    `compared` says whether any result was finite, so that there was something to compare. `ratio` is the largest of
    rewrite over original (half of it for single elements), on the distribution `on`. `refused` says why the rewrite is
    not the same, None where it is.
    """

    original: float = 0.0
    rewritten: float = 0.0
    ratio: float = 0.0
    on: str = ""
    refused: str | None = None
    compared: bool = False


@dataclass(frozen=True, slots=True)
class Errors:
    """Errors of an output, as shares of it, and what is granted; `allowed`: how much more than a mean it may be."""

    original: float
    rewritten: float
    granted: float = 0.0
    of: str = LARGEST
    allowed: float = 1.0

    @property
    def ratio(self) -> float:
        """Rewrite over original, as it is held against the limit."""
        if not self.rewritten:
            return 0.0
        return self.rewritten / max(self.original, self.granted, LEAST) / self.allowed


def check(
    found: Region, function: Function, recorded: Sequence[Any], limit: float = LIMIT, slight: float = 0.0
) -> Checked:
    """Compare `function` with the region on all distributions. Raises CannotTryError without a reference.

    An error may be `limit` times that of the original, or `slight` as a share of the result.
    """
    import torch

    original, worst = graph(found), Checked()
    with torch.no_grad():
        for name in DISTRIBUTIONS:
            inputs = list(_drawn(name, recorded, _parameters(found)))
            reference = _reference(found, inputs)
            ours = _run(original, inputs)
            try:
                theirs = _run(function, inputs)
            except FAILURES as error:
                return Checked(on=name, refused=f"it does not run: {first_line(error)}")
            for one in _compared(reference, ours, theirs):
                worst = _worse(worst, one, name, limit, slight)
    return worst


def _worse(worst: Checked, one: Errors, name: str, limit: float, slight: float) -> Checked:
    ratio = one.ratio
    refused = worst.refused
    if refused is None and not math.isfinite(one.rewritten):
        refused = f"infinite, or no number, where the original is finite, on {name} values"
    elif refused is None and not (ratio <= limit or one.rewritten <= slight * one.allowed):
        refused = f"error {one.rewritten:.3g} of {one.of} where the original has {one.original:.3g}, on {name} values"
    high = ratio if not ratio <= worst.ratio else worst.ratio
    on = name if high != worst.ratio else worst.on
    before, after = max(worst.original, one.original), max(worst.rewritten, one.rewritten)
    return Checked(before, after, high, on, refused, compared=True)


def _parameters(found: Region) -> set[int]:
    """Which inputs were there before the step, and stay as they are."""
    flow = found.flow
    storages = [flow.storage(slot) for slot in found.inputs]
    given = (flow.step.storages[one].given and not flow.writers[one] for one in storages)
    return {number for number, one in enumerate(given) if one} if len(found.places) > 1 else set()


def _drawn(name: str, recorded: Sequence[Any], parameters: set[int]) -> Iterator[Any]:
    """Inputs of a distribution; integers, masks and single numbers stay as they are in the step."""
    import torch

    factor = {"large": 30.0, "small": 1e-3}.get(name, 1.0)
    for number, tensor in enumerate(recorded):
        copy = torch.empty_strided(tensor.shape, tensor.stride(), dtype=tensor.dtype, device=tensor.device)
        copy.copy_(tensor)
        if name != "recorded" and tensor.is_floating_point() and tensor.dim() and not _is_mask(tensor):
            made = torch.Generator(device=tensor.device).manual_seed(len(name) + number)
            scale = float(tensor.float().square().mean().sqrt()) * (1.0 if number in parameters else factor)
            # of either sign around zero; what is above zero everywhere (a variance, a scale) stays above it
            plain = torch.rand if name == "uniform" else torch.randn
            drawn = plain(tensor.shape, generator=made, device=tensor.device) * (scale or factor)
            copy.copy_(drawn.abs() if bool((tensor > 0).all()) else drawn)
        yield copy


def _is_mask(tensor: Any) -> bool:
    """Whether a tensor only has zeros and very low numbers, as additive masks do."""
    low = tensor < -VERY_LOW
    return bool(low.any()) and bool((low | (tensor == 0)).all())


def _run(function: Callable[..., Any], inputs: Sequence[Any]) -> list[Any]:
    return [one.clone() for one in function(*[one.clone() for one in inputs])]


def _reference(found: Region, inputs: Sequence[Any]) -> list[Any]:
    import torch

    reasons = []
    for dtype in (torch.float64, torch.float32):
        if dtype == torch.float32 and all(one.dtype in {torch.float32, torch.float64} for one in inputs):
            continue
        try:
            raised = [one.to(dtype) if one.is_floating_point() else one.clone() for one in inputs]
            return list(graph(found, exact=dtype)(*raised))
        except FAILURES as error:
            reasons.append(first_line(error))
    message = f"the original does not run in float64 ({reasons[0]})"
    raise CannotTryError(message)


def _compared(reference: Sequence[Any], ours: Sequence[Any], theirs: Sequence[Any]) -> Iterator[Errors]:
    """Errors of original and rewrite in each output."""
    import torch

    for exact, one, other in zip(reference, ours, theirs, strict=True):
        if not one.is_floating_point():
            if len(ours) == 1 or bool((one != other).any()):  # equal ones say nothing of the numbers beside them
                yield Errors(0.0, float((one != other).sum()))
            continue
        fine = torch.isfinite(exact) & torch.isfinite(one)
        if not bool(fine.any()):
            continue
        if not bool(torch.isfinite(other[fine]).all()):
            yield Errors(0.0, float("inf"))
            continue
        truth, granted = exact[fine].double(), torch.finfo(one.dtype).eps / 2
        differences = [some[fine].double() - truth for some in (one, other)]
        for measure, of, allowed in ((_root_mean_square, MEAN, 1.0), (_largest, LARGEST, SINGLE)):
            original, rewritten = (measure(some) / (measure(truth) or 1.0) for some in differences)
            if original < NOTHING_RIGHT or rewritten > ROUNDING * original:
                yield Errors(original, rewritten, granted, of, allowed)


def _root_mean_square(values: Any) -> float:
    return float(values.square().mean().sqrt())


def _largest(values: Any) -> float:
    return float(values.abs().max())
