"""The first run of a step: every call is looked at before it is made, and what comes of it afterwards.

An index out of range, or a false assertion, breaks the device for the whole process, and how much an operator finds
decides how long those after it take. So integers that are not in the range that their meaning asks for are replaced by
tensors that are, and where an operator finds another number than was recorded, so is what it searches.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from typing import Any, Final

from kerneldb.replay.errors import FAILURES, first_line
from kerneldb.replay.resolve.recorded import short_name
from kerneldb.replay.resolve.tensors import POOLED, Fill, TensorSpec, tensors
from kerneldb.replay.steps.exchanges import StepExchange
from kerneldb.replay.steps.player import Player
from kerneldb.replay.wire.steps import UNKNOWN

RANGES: Final = frozenset({"integers", "range", "values", "shuffled", "even", POOLED})
ASCENDING: Final = frozenset({"ascending", "cumulative"})
SEARCHED: Final = {"nonzero": 0, "masked_select": 1}
"""Which argument decides how much an operator finds."""
INDEXING: Final = frozenset(
    {"index", "_unsafe_index", "index_put", "index_put_", "_index_put_impl_", "_unsafe_index_put"}
)
INDICES: Final = 1
SUMMED: Final = frozenset({"torch.float16", "torch.bfloat16", "torch.float32", "torch.float64"})
"""Dtypes that all devices add up. A sum needs no memory; it is NaN where one of them is, and of both infinities."""
NAN: Final = "its result holds NaN, which takes less power than numbers do"


def rehearse(player: Player, told: Callable[[str], object], check: Callable[[], object]) -> None:
    """Run the step once, call by call. `told` gets the item of each call before it, `check` waits for the device.

    A call that cannot be made goes on to the next way to rebuild it; one that has none is filled. What `check` raises
    passes through, and what an exchange with other ranks raises: they would wait for it.
    """
    import torch

    player.begin()
    player.keeps_result = True
    with torch.no_grad():
        for place, call in enumerate(player.step.calls):
            player.before(call)
            told(call.item)
            _make(player, place, check)
            player.result = None
            player.after(call)
    player.keeps_result = False


def _make(player: Player, place: int, check: Callable[[], object]) -> None:
    item = player.step.calls[place].item
    while True:
        try:
            guard(player, place)
            player.make(place)
            check()
            settle(player, place)
        except FAILURES as error:
            check()
            if isinstance(player.prepared[place].apart, StepExchange):
                raise
            if player.prepared[place].resolved is None or not player.further(item):
                player.fill(item, first_line(error))
            player.again(place)
            continue
        with contextlib.suppress(*FAILURES):  # no memory to look, or results that cannot be added up: the call has run
            look(player, place)
        return


def guard(player: Player, place: int) -> None:
    """Replace integers that are not in their range."""
    for key, spec, slot in list(player.arguments_of(place)):
        fill = _wanted(player, place, key, spec, slot)
        if fill is None:
            continue
        if player.step.tensors[slot].storage in player.unwritten:
            player.replace(place, key, slot, fill, f"{key}: values that no call of the step has written")
        elif not _within(player.view(slot, spec), fill):
            player.replace(place, key, slot, fill, f"{key}: values that are not in range")


def _wanted(player: Player, place: int, key: tuple[int, int], spec: TensorSpec | None, slot: int) -> Fill | None:
    """The values that an integer tensor must have; None where any will do."""
    how = player.prepared[place]
    tensor = player.step.tensors[slot]
    if tensor.dtype not in {"long int", "long", "int", "short int", "unsigned char", "signed char"}:
        return None
    operator = "" if how.resolved is None else short_name(how.resolved.overload.name.split(".")[0])
    if operator in INDEXING and key[0] == INDICES and tensor.dtype in {"long int", "long", "int"}:
        return Fill("integers", 0, max(_indexed(player, place, key[1]), 1))
    return spec.fill if spec is not None and spec.fill.kind in RANGES | ASCENDING else None


def _indexed(player: Player, place: int, entry: int) -> int:
    """The size of the dim of self that an index tensor is for: masks before it take as many as they have."""
    call = player.step.calls[place]
    dims, at = player.step.tensors[call.inputs[0][0]].dims, 0
    for slot in call.inputs[INDICES][:entry]:
        mask = slot != UNKNOWN and player.step.tensors[slot].dtype == "bool"
        at += len(player.step.tensors[slot].dims) if mask else 1
    return dims[at] if at < len(dims) else 1


def _within(tensor: Any, fill: Fill) -> bool:
    if not tensor.numel():
        return True
    low, high = int(tensor.min()), int(tensor.max())
    if fill.kind in ASCENDING:
        steady = bool((tensor.flatten()[1:] >= tensor.flatten()[:-1]).all())
        return steady and low >= fill.low and high <= fill.high
    if fill.kind == "even":
        return low >= 0 and int(tensor.sum()) == int(fill.low)
    if fill.kind == "values":
        return low >= min(fill.values) and high <= max(fill.values)
    return low >= fill.low and high < max(fill.high, fill.low + 1)


def look(player: Player, place: int) -> None:
    """Note the first call that makes NaN: what follows takes as long, but a GPU draws less power for such values."""
    if any(note.endswith(NAN) for note in player.notes):
        return
    summed = (one for one in tensors(player.result) if str(one.dtype) in SUMMED and bool(one.sum().isnan()))
    if any(bool(one.isnan().any()) for one in summed):
        how = player.prepared[place]
        player.notes[f"{how.resolved.overload.name if how.resolved else ''}: {NAN}"] += 1


def settle(player: Player, place: int) -> None:
    """Where an operator found another number than was recorded, let it search what has the right one."""
    call, how = player.step.calls[place], player.prepared[place]
    if how.resolved is None or not call.outputs or call.outputs[0] == UNKNOWN:
        return
    operator = short_name(how.resolved.overload.name.split(".")[0])
    planned = player.step.tensors[call.outputs[0]].dims
    found = next(tensors(player.result), None)
    if found is None or tuple(found.shape) == planned or not planned:
        return
    wanted, given = SEARCHED.get(operator, INDICES), [(key, slot) for key, _, slot in player.arguments_of(place)]
    masks = [one for one in given if operator in SEARCHED or player.step.tensors[one[1]].dtype == "bool"]
    for key, slot in [one for one in masks if one[0][0] == wanted][:1]:
        player.replace(place, key, slot, Fill("count", 0, planned[0]), "finds as many as were recorded")
        player.make(place)
