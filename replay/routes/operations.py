"""Did the same operators run again? The check of replays on the CPU, where no kernel has a name.

Compares the call and the calls below it, recorded and replayed, as multisets of (name, dims, dtypes). Operators that
only describe or allocate memory are left out: how often they are called differs between builds of PyTorch.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from typing import Final

from kerneldb import codec
from kerneldb.replay.wire.plan import CallSpec, OpCall
from kerneldb.replay.wire.results import Grade
from kerneldb.replay.worker.activity import Operation

WITHOUT_WORK: Final = frozenset({
    "_assert_tensor_metadata", "_conj", "_fused_sdp_choice", "_has_compatible_shallow_copy_type",
    "_nested_tensor_size", "_reshape_alias", "_unsafe_view", "adjoint", "alias", "as_strided", "as_strided_",
    "broadcast_to", "can_cast", "chunk", "data", "detach", "detach_", "diagonal", "empty", "empty_like",
    "empty_strided", "expand", "expand_as", "flatten", "imag", "is_same_size", "lift", "lift_fresh", "mH", "mT",
    "moveaxis", "movedim", "narrow", "new_empty", "new_empty_strided", "numpy_T", "output_nr", "permute",
    "pin_memory", "real", "record_stream", "requires_grad_", "reshape", "resize_", "resize_as_", "resolve_conj",
    "resolve_neg", "result_type", "select", "set_", "size", "slice", "split", "split_with_sizes", "squeeze",
    "squeeze_", "swapaxes", "swapdims", "t", "t_", "tensor_split", "transpose", "transpose_", "unbind", "unflatten",
    "unfold", "unsqueeze", "unsqueeze_", "view", "view_as", "view_as_complex", "view_as_real",
})  # fmt: skip

Key = tuple[str, str, str]


def compare(spec: CallSpec, seen: Sequence[Operation]) -> Grade:
    """L0: the same operators with the same dims and dtypes; L1: the same operators; else L3."""
    recorded, replayed = _recorded(spec), Counter(_replayed(spec.call.op, seen))
    if recorded == replayed:
        return Grade.L0
    return Grade.L1 if _names(recorded) == _names(replayed) else Grade.L3


def _recorded(spec: CallSpec) -> Counter[Key]:
    found = Counter([_key(spec.call)])
    for child in spec.children:
        if _works(child.call.op):
            found[_key(child.call)] += child.times
    return found


def _replayed(root: str, seen: Iterable[Operation]) -> Iterator[Key]:
    """The operators in the marker; the call itself always counts, whatever its name."""
    for operation in seen:
        if _works(operation.name) or (operation.depth == 0 and operation.name == root):
            yield operation.name, json.dumps(operation.dims), json.dumps(operation.dtypes)


def _key(call: OpCall) -> Key:
    """As PyTorch prints it, whatever the recorded text looks like."""
    return call.op, _canonical(call.input_dims), _canonical(call.input_dtypes)


def _canonical(text: str | None) -> str:
    """A recorded text as JSON is written; one that is no JSON stands for itself, which equals nothing."""
    try:
        return "null" if text is None else json.dumps(codec.parse(text))
    except codec.CodecError:
        return text or ""


def _works(name: str) -> bool:
    return "::" in name and name.rsplit("::", 1)[-1] not in WITHOUT_WORK


def _names(keys: Counter[Key]) -> Counter[str]:
    names: Counter[str] = Counter()
    for (name, _, _), times in keys.items():
        names[name] += times
    return names
