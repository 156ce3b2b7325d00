"""Identity of operator calls and signatures: hashes over facts of the file only (design: level 'call')."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Mapping, Sequence
from typing import Any, Final

from kerneldb.ids import content_id
from kerneldb.ingest.launches import name_id
from kerneldb.ingest.pytorch.fields import CALL, COLLECTIVE, TRITON

SAME_DTYPE: Final = re.compile(r'"(?:__int64|long long|long)"')
FLOAT: Final = re.compile(r"(?<![\w.])[-+]?(?:(?:\d+\.\d*|\.\d+)(?:[eE][-+]?\d+)?|\d+[eE][-+]?\d+|inf|nan)(?![\w.])")
HALVES: Final = (0.5, -0.5)
SMALL: Final = 16
INT32_MAX: Final = 2**31 - 1
AXES: Final = 3
SHAPE: Final = ("grid_x", "grid_y", "grid_z", "block_x", "block_y", "block_z")
EMPTY_LISTS: Final = frozenset(("", "[]"))
UNHASHED: Final = frozenset(("kernel_file", "kernel_backend"))

CallRow = dict[str, str | None]


def call_row(values: Sequence[Any]) -> CallRow:
    """A row of `op_calls` from the recorded fields of a call, in the order of `fields.CALL`.

    Floats count by class: small whole numbers, ±½, inf and nan as they are, since operators choose kernels by them
    (`pow` has one for 2 and one for 3), all others alike; the recorded text stays in `scalars` as an example.
    """
    recorded = dict(zip(CALL, values, strict=True))
    op = recorded["name"] or ""
    row: CallRow = {
        "op": op,
        "input_dims": _text(recorded["Input Dims"]),
        "input_strides": _text(recorded["Input Strides"]),
        "input_dtypes": _text(recorded["Input type"]),
        "scalars": _text(recorded["Concrete Inputs"]),
        "extra": _extra(recorded),
    }
    row["call_id"] = call_id(row)
    return row


def call_id(row: Mapping[str, str | None]) -> str:
    """The id of the operator call whose other columns of `op_calls` are in `row`."""
    dtypes, scalars = row["input_dtypes"], row["scalars"]
    return content_id(
        "c1",
        row["op"],
        row["input_dims"],
        row["input_strides"],
        SAME_DTYPE.sub('"long int"', dtypes) if dtypes else None,
        FLOAT.sub(_float_class, scalars) if scalars else None,
        row["extra"],
    )


def _text(value: str | None) -> str | None:
    return None if value is None or value in EMPTY_LISTS else value


def _extra(recorded: dict[str, Any]) -> str | None:
    """What else tells calls apart: the Triton kernel with its constants, or the collective with its sizes."""
    if recorded["kernel_hash"] is not None:
        kept: dict[str, Any] = {name: recorded[name] for name in TRITON if name not in UNHASHED}
    elif recorded["kernel_backend"] == "triton":  # made from a template: PyTorch does not know its file
        kept = {name: recorded[name] for name in TRITON}
    elif recorded["Collective name"] is not None:
        kept = {name: recorded[name] for name in tuple(COLLECTIVE)[:5]}
    else:
        return None
    return json.dumps({name: value for name, value in kept.items() if value is not None})


def _float_class(match: re.Match[str]) -> str:
    number = float(match.group())
    exact = not math.isfinite(number) or number in HALVES or (number.is_integer() and abs(number) <= SMALL)
    return repr(number) if exact else "other"


def triple(text: str | None) -> tuple[int | None, int | None, int | None]:
    """`[64, 1, 1]` as three integers; NULLs where the text is absent, something else or beyond int32."""
    numbers = re.findall(r"\d+", text) if text else []
    if len(numbers) != AXES or any(len(digits) > len(str(INT32_MAX)) for digits in numbers):
        return None, None, None
    x, y, z = map(int, numbers)
    return (x, y, z) if max(x, y, z) <= INT32_MAX else (None, None, None)


def signature_row(
    kind: str,
    name: str,
    grid: str | None,
    block: str | None,
    copied: tuple[int | None, str | None],
    call: CallRow | None,
) -> dict[str, Any]:
    """The fact columns of a row of `signatures`. `copied` is (bytes, copy kind) of a memcpy or memset."""
    blocks, threads = triple(grid), triple(block)
    call_id = call["call_id"] if call else None
    return {
        "signature_id": content_id("s1", kind, name, *blocks, *threads, *copied, call_id),
        "kind": kind,
        "name_id": name_id(name),
        **dict(zip(SHAPE, (*blocks, *threads), strict=True)),
        "bytes": copied[0],
        "copy_kind": copied[1],
        "call_id": call_id,
        **{
            name: call[name] if call else None
            for name in ("op", "input_dims", "input_strides", "input_dtypes", "scalars")
        },
    }
