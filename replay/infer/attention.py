"""Calls of fused attention that launch the same kernel: with a mask, causal, or plain; and with other keys.

Name, grid and block of attention kernels go by queries and heads. Whether keys are masked, or how many there are, shows
in the time only: a causal call in place of one with a mask took 0.38 of its time on an H200. Captured graphs mostly
have a mask where the eager call was causal. Schemas: aten/src/ATen/native/native_functions.yaml.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any, Final

from kerneldb.replay.resolve.recorded import short_name
from kerneldb.replay.wire.plan import CallSpec, OpCall

QUERY, KEY, VALUE = 0, 1, 2


@dataclass(frozen=True, slots=True)
class Places:
    """Where an operator has its mask (None: it takes none) and what makes it causal, written as `flags` (no, yes).

    `rows` is the dim, from the end, that counts queries and keys; `longest` where the number of keys is said again.
    """

    mask: int | None
    causal: int
    rows: int = -2
    longest: int | None = None
    flags: tuple[str, str] = ("False", "True")


PLACES: Final = {
    "_cudnn_attention_forward": Places(3, 10, longest=7),
    "_efficient_attention_forward": Places(3, 9, rows=-3, longest=7, flags=("0", "1")),
    "_flash_attention_forward": Places(None, 8, rows=-3, longest=6),
    "_scaled_dot_product_cudnn_attention": Places(3, 6),
    "_scaled_dot_product_efficient_attention": Places(3, 6),
    "_scaled_dot_product_flash_attention": Places(None, 4),
    "_scaled_dot_product_flash_attention_for_cpu": Places(5, 4),
    "_scaled_dot_product_fused_attention_overrideable": Places(3, 5),
    "scaled_dot_product_attention": Places(3, 5),
}


def is_attention(call: OpCall) -> bool:
    """Whether the call is one of those that `variants` knows."""
    return short_name(call.op) in PLACES


def keys(call: OpCall) -> tuple[tuple[int, int], ...]:
    """The arguments of an attention call that have its keys, with the dim from the end; none for other calls."""
    places = PLACES.get(short_name(call.op))
    if places is None:
        return ()
    masked = places.mask is not None and bool(_column(call.input_dims)[places.mask : places.mask + 1][0])
    mask = ((places.mask, -1),) if masked and places.mask is not None else ()
    return ((KEY, places.rows), (VALUE, places.rows), *mask)


def counted(call: OpCall, size: int) -> OpCall:
    """The call with the number of keys that it says beside their dims; unchanged where it says none."""
    places, scalars = PLACES.get(short_name(call.op)), _column(call.scalars)
    if places is None or places.longest is None or scalars[places.longest : places.longest + 1] in ([], [""]):
        return call
    scalars[places.longest] = str(size)
    return replace(call, scalars=json.dumps(scalars))


def variants(spec: CallSpec) -> Iterator[tuple[CallSpec, str]]:
    """The other ways to mask the same attention, each with a word for it."""
    places = PLACES.get(short_name(spec.call.op))
    columns = _columns(spec.call)
    if places is None or columns is None or len(columns["scalars"]) <= places.causal:
        return
    masked = places.mask is not None and bool(columns["input_dims"][places.mask])
    causal = columns["scalars"][places.causal] not in {places.flags[0], ""}
    ways = {"with a mask": (True, False), "causal": (False, True), "without a mask": (False, False)}
    for word, (mask, flag) in ways.items():
        if (mask, flag) != (masked, causal) and not (mask and places.mask is None):
            yield replace(spec, call=_made(spec.call, places, mask=mask, causal=flag), children=()), word


def _made(call: OpCall, places: Places, *, mask: bool, causal: bool) -> OpCall:
    columns = _columns(call)
    assert columns is not None  # noqa: S101 (the caller has checked)
    columns["scalars"][places.causal] = places.flags[causal]
    if places.mask is not None:
        dims, strides, kind = _mask(columns, places) if mask else ([], [], "")
        columns["input_dims"][places.mask], columns["input_dtypes"][places.mask] = dims, kind
        if "input_strides" in columns:
            columns["input_strides"][places.mask] = strides
    return replace(call, **{name: json.dumps(column) for name, column in columns.items()})


def _mask(columns: dict[str, list[Any]], places: Places) -> tuple[list[int], list[int], str]:
    """A mask of [batch, heads, queries, keys] that all heads share, of the type of the queries."""
    query, key = columns["input_dims"][QUERY], columns["input_dims"][KEY]
    rows, columns_, heads = query[places.rows], key[places.rows], query[-5 - places.rows]
    return [query[0], heads, rows, columns_], [rows * columns_, 0, columns_, 1], columns["input_dtypes"][QUERY]


def _columns(call: OpCall) -> dict[str, list[Any]] | None:
    """The recorded columns as lists of one entry per argument; None where they are not that, or not of four dims."""
    names = ("input_dims", "input_dtypes", "scalars", "input_strides")
    columns = {name: _column(getattr(call, name)) for name in names if getattr(call, name) is not None}
    if not {"input_dims", "input_dtypes", "scalars"} <= columns.keys():
        return None
    if len({len(column) for column in columns.values()}) > 1 or len(columns["input_dims"]) <= VALUE:
        return None
    return columns if all(len(columns["input_dims"][place]) == 4 for place in (QUERY, KEY)) else None  # noqa: PLR2004


def _column(text: str | None) -> list[Any]:
    found = json.loads(text or "[]")
    return found if isinstance(found, list) else []
