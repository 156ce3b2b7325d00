"""What a Triton kernel was launched with, as a trace says it: `kernel_kwargs`, `num_warps`, `num_stages`, `grid`.

`kernel_kwargs` is written by `CachingAutotuner.get_profiler_kwargs` of torch/_inductor/runtime/triton_heuristics.py as
`XBLOCK=1024,R0_BLOCK=2048`, each value as `str` prints it; a `grid` only by torch before 2.6, as `grid(100,)`.
Kernels that are made from templates (matrix products chosen by max-autotune) have no hash there: their source knows no
file name (`template` of the same file), and PyTorch's profiler leaves out what is empty.
"""

from __future__ import annotations

import ast
import json
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final

AXES: Final = 3
BACKEND: Final = "triton"
PAIR: Final = re.compile(r"(\w+)=([^,]*)")
PARSING_ERRORS: Final = (SyntaxError, ValueError, RecursionError, MemoryError)
"""What Python's parser raises for texts that are no Python, hold zero bytes, or nest too deeply."""
MOST_DIGITS: Final = 18
WORDS: Final = {"True": True, "False": False, "None": None}


@dataclass(frozen=True, slots=True)
class Constants:
    """The recorded constants of a launch. `kwargs` has each value as text; None is what the trace does not say."""

    kernel_hash: str | None
    kwargs: Mapping[str, str] = field(default_factory=dict)
    num_warps: int | None = None
    num_stages: int | None = None
    grid: tuple[int, ...] | None = None

    @property
    def numbers(self) -> dict[str, int]:
        """`num_warps` and `num_stages`, where recorded."""
        given = {"num_warps": self.num_warps, "num_stages": self.num_stages}
        return {name: value for name, value in given.items() if value is not None}

    @property
    def values(self) -> dict[str, Any]:
        """The values that the texts of `kwargs` write."""
        return {name: value_of(text) for name, text in self.kwargs.items()}

    def shown(self) -> str:
        """As one text: `XBLOCK=1024 num_warps=4 num_stages=1`."""
        return " ".join(f"{name}={value}" for name, value in {**self.kwargs, **self.numbers}.items())


def read(extra: str | None) -> Constants | None:
    """The constants in `extra` of a call (JSON, see `op_calls`); None where it is no call of a Triton kernel."""
    held = json.loads(extra) if extra else None
    if not isinstance(held, dict) or not (held.get("kernel_hash") or held.get("kernel_backend") == BACKEND):
        return None
    return Constants(
        kernel_hash=str(held["kernel_hash"]) if held.get("kernel_hash") else None,
        kwargs=_pairs(str(held.get("kernel_kwargs") or "")),
        num_warps=_number(held.get("num_warps")),
        num_stages=_number(held.get("num_stages")),
        grid=_grid(held.get("grid")),
    )


def value_of(text: str) -> Any:
    """The value that `text` writes: a number, a bool, None, a quoted text; any other text as it is (`tl.float32`)."""
    try:
        return ast.literal_eval(text)
    except (*PARSING_ERRORS, TypeError):
        return WORDS.get(text, text)


def literal(value: Any) -> str:
    """The inverse of `value_of`, also for Triton's types (`tl.float32`)."""
    held = getattr(value, "value", value) if type(value).__name__ == "constexpr" else value
    if type(held).__name__ == "dtype":
        return repr(held).replace("triton.language.", "tl.")
    return repr(held)


def written(values: Mapping[str, Any]) -> str:
    """`values` as `kernel_kwargs`."""
    return ",".join(f"{name}={literal(value)}" for name, value in values.items())


def _pairs(text: str) -> dict[str, str]:
    """Names with the texts of their values; a value may hold commas inside of brackets or quotes."""
    try:
        call = ast.parse(f"f({text})", mode="eval").body
        if isinstance(call, ast.Call) and isinstance(call.func, ast.Name):
            return {one.arg: ast.unparse(one.value) for one in call.keywords if one.arg is not None}
    except PARSING_ERRORS:
        pass
    return dict(PAIR.findall(text))


def _number(value: Any) -> int | None:
    """Whole numbers come as numbers or as text."""
    return int(value) if value is not None and re.fullmatch(rf"\d{{1,{MOST_DIGITS}}}", str(value)) else None


def _grid(value: Any) -> tuple[int, ...] | None:
    """`grid(100,)`, `(64, 2)` or `[64, 2, 1]` as three numbers."""
    digits = re.findall(r"\d+", str(value)) if value is not None else []
    numbers = [] if any(len(one) > MOST_DIGITS for one in digits) else [int(one) for one in digits]
    return (*numbers, *([1] * (AXES - len(numbers)))) if 0 < len(numbers) <= AXES else None
