"""The code that a plan carries, and whether it may run.

Sources of Triton kernels come with a trace, from whoever made it, and loading one runs it: it may be any Python.
So they run only where the user has said so (`--allow-code`), and what would run is shown before.

`Constants` are what a kernel was launched with, as a trace says it: `kernel_kwargs`, `num_warps`, `num_stages`, `grid`.

`kernel_kwargs` is written by `CachingAutotuner.get_profiler_kwargs` of torch/_inductor/runtime/triton_heuristics.py as
`XBLOCK=1024,R0_BLOCK=2048`, each value as `str` prints it; a `grid` only by torch before 2.6, as `grid(100,)`.
Kernels that are made from templates (matrix products chosen by max-autotune) have no hash there: their source knows no
file name (`template` of the same file), and PyTorch's profiler leaves out what is empty.
"""

from __future__ import annotations

import ast
import json
import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from kerneldb.ids import code_hash
from kerneldb.replay.wire.plan import CallSpec, Item, OpCall, Plan

ROUTE: Final = "triton"
INDUCTOR: Final = "inductor"
REFUSED: Final = "its source comes with the trace and was not run: allow it with --allow-code"
AXES: Final = 3
PAIR: Final = re.compile(r"(\w+)=([^,]*)")
PARSING_ERRORS: Final = (SyntaxError, ValueError, RecursionError, MemoryError)
"""What Python's parser raises for texts that are no Python, hold zero bytes, or nest too deeply."""
MOST_DIGITS: Final = 18
WORDS: Final = {"True": True, "False": False, "None": None}


@dataclass(frozen=True, slots=True)
class Code:
    """The source of one kernel: the function `name` in `text`, archived from `file`. `origin` is inductor or user."""

    hash: str
    name: str
    text: str
    origin: str = INDUCTOR
    file: str = ""

    def shown(self) -> str:
        """One line about it: name, origin, hash, number of lines and file, with escapes for what moves a cursor."""
        lines = len(self.text.strip().splitlines())
        said = f"{self.name}  {self.origin}  {self.hash}  {lines} lines  {self.file}"
        return "".join(one if one.isprintable() else repr(one)[1:-1] for one in said)


def is_triton(call: OpCall) -> bool:
    """Whether `call` is a launch of a Triton kernel, by what its trace says beside the arguments."""
    return read(call.extra) is not None


def wanted(calls: Iterable[OpCall]) -> tuple[list[str], list[str]]:
    """Hashes of the sources that `calls` were launched from, and names of those whose hash is not recorded."""
    launched = [(call, found) for call in calls if (found := read(call.extra)) is not None]
    hashes = {one.kernel_hash for _, one in launched if one.kernel_hash is not None}
    return sorted(hashes), sorted({function_name(call) for call, one in launched if one.kernel_hash is None})


def reason(call: OpCall, sources: Mapping[str, Any]) -> str | None:
    """Why `call` cannot be launched from its own source; None where it can."""
    if matching(call, held(sources)):
        return None
    found = read(call.extra)
    name = call.op if found is None or found.kernel_hash is None else found.kernel_hash
    return f"no source of {name}: give it to ingest with --triton-sources DIR"


def function_name(call: OpCall) -> str:
    """The name of the kernel's function; the operator of a user's kernel is `triton::` and this name."""
    return call.op.removeprefix("triton::")


def codes(sources: Mapping[str, Any]) -> Iterator[Code]:
    """The kernels among the sources of a plan. Their hashes are those of their texts, whatever the plan says."""
    for value in sources.values():
        if isinstance(value, Mapping) and value.get("language") == ROUTE:
            given = {name: str(value.get(name) or "") for name in ("name", "text", "file")}
            yield Code(code_hash(given["text"]), origin=str(value.get("origin") or INDUCTOR), **given)


def held(sources: Mapping[str, Any]) -> dict[str, Code]:
    """The same by hash."""
    return {code.hash: code for code in codes(sources)}


def to_source(code: Code) -> dict[str, str]:
    """The inverse of `codes` for one: JSON-ready."""
    return {"language": ROUTE} | {name: getattr(code, name) for name in Code.__dataclass_fields__}


def shown(plan: Plan, *, allowed: bool) -> list[str]:
    """What to show the user before a plan is run: each source that would run, or that none will. Empty without any."""
    known = held(plan.sources)
    specs = [spec for item in plan.items for spec in specs_of(item)]
    used = list({code.hash: code for spec in specs for code in matching(spec.call, known)}.values())
    if not used:
        return []
    number = f"{len(used)} source{'s' * (len(used) > 1)} of Triton kernels"
    if not allowed:
        return [f"{number} come with the plan, and are not run without --allow-code"]
    return [f"--allow-code runs {number} that come with the plan:", *(f"  {code.shown()}" for code in used)]


def matching(call: OpCall, known: Mapping[str, Code]) -> list[Code]:
    """Which of the sources `known` it may have been: that of the hash of `call`, or, without one, those of its name."""
    launched = read(call.extra)
    if launched is None:
        return []
    if launched.kernel_hash is not None:
        return [known[launched.kernel_hash]] if launched.kernel_hash in known else []
    named = [code for code in known.values() if code.name == function_name(call)]
    return [code for code in named if _agrees(code, launched)] or named


def specs_of(item: Item) -> list[CallSpec]:
    """The calls that an item with a known call may be replayed by: its own first, then other candidates, each once."""
    given = (item.spec, *(one.spec for one in item.candidates))
    return list(dict.fromkeys(spec for spec in given if spec is not None))


def _agrees(code: Code, launched: Constants) -> bool:
    """Whether a source that fixes its own constants (a template) fixes them as they were recorded."""
    return all(re.search(rf"\b{name}={value}\b", code.text) for name, value in launched.numbers.items())


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
    """The constants in `extra` of a call (JSON, see `op_calls`); None for calls of other kernels."""
    held = json.loads(extra) if extra else None
    if not isinstance(held, dict) or not (held.get("kernel_hash") or held.get("kernel_backend") == "triton"):
        return None
    # `grid(100,)`, `(64, 2)` or `[64, 2, 1]` as three numbers.
    value = held.get("grid")
    digits = re.findall(r"\d+", str(value)) if value is not None else []
    numbers = [] if any(len(one) > MOST_DIGITS for one in digits) else [int(one) for one in digits]
    return Constants(
        kernel_hash=str(held["kernel_hash"]) if held.get("kernel_hash") else None,
        kwargs=_keyword_texts(str(held.get("kernel_kwargs") or "")),
        num_warps=_number(held.get("num_warps")),
        num_stages=_number(held.get("num_stages")),
        grid=(*numbers, *([1] * (AXES - len(numbers)))) if 0 < len(numbers) <= AXES else None,
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


def _keyword_texts(text: str) -> dict[str, str]:
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
