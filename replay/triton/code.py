"""The code that a plan carries, and whether it may run.

Sources of Triton kernels come with a trace, from whoever made it, and loading one runs it: any Python may stand in it.
So they run only where the user has said so (`--allow-code`), and what would run is shown before.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final

from kerneldb.ids import code_hash
from kerneldb.replay.triton import constants
from kerneldb.replay.triton.constants import Constants
from kerneldb.replay.wire.plan import CallSpec, Item, OpCall, Plan

ROUTE: Final = "triton"
RUNNING: Final = frozenset({ROUTE, "inherited"})
"""Routes that run sources."""
INDUCTOR: Final = "inductor"
REFUSED: Final = "its source comes with the trace and was not run: allow it with --allow-code"
USER_OP: Final = "triton::"


@dataclass(frozen=True, slots=True)
class Code:
    """The source of one kernel: the function `name` in `text`, archived from `file`. `origin` is inductor or user."""

    hash: str
    name: str
    text: str
    origin: str = INDUCTOR
    file: str = ""

    @property
    def lines(self) -> int:
        """Lines of the text."""
        return len(self.text.strip().splitlines())

    def shown(self) -> str:
        """One line about it: name, origin, hash, number of lines and file, with escapes for what moves a cursor."""
        said = f"{self.name}  {self.origin}  {self.hash}  {self.lines} lines  {self.file}"
        return "".join(one if one.isprintable() else repr(one)[1:-1] for one in said)


@dataclass(slots=True)
class _Held:
    """What this process was given: one plan's code, and whether it may run."""

    known: dict[str, Code]
    allowed: bool


_HELD: Final = _Held({}, allowed=False)


def provide(sources: Mapping[str, Any], *, allowed: bool) -> None:
    """Make the sources of a plan known to the route, in this process. Without `allowed` none of them runs."""
    _HELD.known = {code.hash: code for code in codes(sources)}
    _HELD.allowed = allowed


def allowed() -> bool:
    """Whether code of the plan may run."""
    return _HELD.allowed


def matching(call: OpCall) -> list[Code]:
    """The sources that `call` may have been launched from: the one of its hash, or, without one, those of its name."""
    return _matching(call, _HELD.known)


def is_triton(call: OpCall) -> bool:
    """Whether `call` is a launch of a Triton kernel, by what its trace says beside the arguments."""
    return constants.read(call.extra) is not None


def reason(call: OpCall, sources: Mapping[str, Any]) -> str | None:
    """Why `call` cannot be launched from its own source; None where it can."""
    return None if _matching(call, {code.hash: code for code in codes(sources)}) else lost(call)


def lost(call: OpCall) -> str:
    """That there is no source for `call`, and where to get it."""
    found = constants.read(call.extra)
    name = call.op if found is None or found.kernel_hash is None else found.kernel_hash
    return f"no source of {name}: give it to ingest with --triton-sources DIR"


def function_name(call: OpCall) -> str:
    """The name of the kernel's function; the operator of a user's kernel has it behind `triton::`."""
    return call.op.removeprefix(USER_OP)


def codes(sources: Mapping[str, Any]) -> Iterator[Code]:
    """The kernels among the sources of a plan. Their hashes are those of their texts, whatever the plan says."""
    for value in sources.values():
        if isinstance(value, Mapping) and value.get("language") == ROUTE:
            given = {name: str(value.get(name) or "") for name in ("name", "text", "file")}
            yield Code(code_hash(given["text"]), origin=str(value.get("origin") or INDUCTOR), **given)


def to_source(code: Code) -> dict[str, str]:
    """The inverse of `codes` for one: JSON-ready."""
    return {"language": ROUTE} | {name: getattr(code, name) for name in Code.__dataclass_fields__}


def shown(plan: Plan, *, allowed: bool) -> list[str]:
    """What to tell the user before a plan is run: each source that would run, or that none will. Empty without any."""
    used = list(used_by(plan))
    if not used:
        return []
    number = f"{len(used)} source{'s' * (len(used) > 1)} of Triton kernels"
    if not allowed:
        return [f"{number} come with the plan, and are not run without --allow-code"]
    return [f"--allow-code runs {number} that come with the plan:", *(f"  {code.shown()}" for code in used)]


def used_by(plan: Plan) -> Iterable[Code]:
    """The sources that items of `plan` would run, each once: of recorded calls, and of those that were inherited."""
    known = {code.hash: code for code in codes(plan.sources)}
    specs = [spec for item in plan.items if item.route in RUNNING for spec in specs_of(item)]
    found = {code.hash: code for spec in specs for code in _matching(spec.call, known)}
    return found.values()


def specs_of(item: Item) -> list[CallSpec]:
    """The calls that an item with a known call may be replayed by: its own first, then other candidates, each once."""
    given = (item.spec, *(one.spec for one in item.candidates))
    return list(dict.fromkeys(spec for spec in given if spec is not None))


def _matching(call: OpCall, known: Mapping[str, Code]) -> list[Code]:
    launched = constants.read(call.extra)
    if launched is None:
        return []
    if launched.kernel_hash is not None:
        return [known[launched.kernel_hash]] if launched.kernel_hash in known else []
    named = [code for code in known.values() if code.name == function_name(call)]
    return [code for code in named if _agrees(code, launched)] or named


def _agrees(code: Code, launched: Constants) -> bool:
    """Whether a source that fixes its own constants (a template) fixes them as they were recorded."""
    given = {"num_warps": launched.num_warps, "num_stages": launched.num_stages}
    return all(value is None or re.search(rf"\b{name}={value}\b", code.text) for name, value in given.items())
