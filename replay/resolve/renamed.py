"""Calls of older versions of torch, as the calls that make the same launches now.

Names and arguments of old ones: aten/src/ATen/native/native_functions.yaml of torch 1.8.
"""

from __future__ import annotations

import json
import re
from dataclasses import replace
from typing import Final

from kerneldb.replay.resolve import recorded
from kerneldb.replay.resolve.recorded import Argument
from kerneldb.replay.wire.plan import CallSpec, OpCall

GRADIENT: Final = re.compile(r"aten::(?:cudnn|miopen)_convolution_backward_(input|weight)")
"""Up to torch 1.10, two operators of a library; since 1.11 `convolution_backward`, whose mask says which it makes."""
MASKS: Final = {"input": "[True, False, False]", "weight": "[False, True, False]"}
SOFTMAX: Final = frozenset({"aten::_softmax_backward_data", "aten::_log_softmax_backward_data"})
"""Up to torch 1.10 with the input itself as their last argument; since then, with its dtype."""
DTYPES: Final = {"c10::Half": "5", "float": "6", "double": "7", "c10::BFloat16": "15"}
"""Numbers of c10::ScalarType (c10/core/ScalarType.h)."""
ABSENT: Final = Argument(recorded.ABSENT)
UNKNOWN: Final = Argument(recorded.SCALAR)
UNKNOWN_LIST: Final = Argument(recorded.GENERIC_LIST)


def current(spec: CallSpec) -> CallSpec:
    """The call as one of now; itself where it is that, or where what was recorded is not enough."""
    given = recorded.or_none(spec.call)
    if spec.call.op in SOFTMAX and given[3:] and given[3].kind in DTYPES:
        return _called(spec, spec.call.op, *given[:3], Argument(recorded.SCALAR, text=DTYPES[given[3].kind]))
    found = GRADIENT.fullmatch(spec.call.op)
    around = recorded.or_none(spec.parent)[:3]
    if found is None or [one.is_tensor for one in around] != [True] * 3:
        return spec
    inputs, gradient, weight = around
    transposed = Argument(recorded.SCALAR, text="False")
    window = (UNKNOWN_LIST, UNKNOWN_LIST, UNKNOWN_LIST, transposed, UNKNOWN_LIST, UNKNOWN)
    mask = Argument(recorded.SCALAR_LIST, text=MASKS[found[1]])
    return _called(spec, "aten::convolution_backward", gradient, inputs, weight, ABSENT, *window, mask)


def _called(spec: CallSpec, op: str, *arguments: Argument) -> CallSpec:
    """The same with another call. Versions that old recorded no strides."""
    dims, types = ([getattr(one, name) for one in arguments] for name in ("dims", "kind"))
    call = OpCall(op, json.dumps(dims), None, json.dumps(types), json.dumps([one.text for one in arguments]))
    return replace(spec, call=call)
