"""What a rewrite is: one class that finds calls it can replace, and says by what, and how a program is changed.

`find` is asked with the dataflow of a rehearsed step and yields proposals, one for each place. Those of one rewrite
that compute the same, or are in the same function, are tried together. What is replaced is compared, measured and
ranked elsewhere (`search.py`): a rewrite only proposes.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar

from kerneldb.replay.rewrites.flow import Flow, Frame
from kerneldb.replay.rewrites.region import Region, Within

Function = Callable[..., Sequence[Any]]


@dataclass(frozen=True, slots=True)
class Change:
    """How a program is changed.

    `kind` names a replacement of `patching.py` for the function `frame`, with `values`; or it is `setting` with a line
    of Python, or `advice` with a sentence: for what no replaced function does.
    """

    kind: str
    frame: Frame | None = None
    values: dict[str, Any] = field(default_factory=dict)
    text: str = ""


@dataclass(frozen=True, slots=True)
class Proposal:
    """One place of a rewrite: the region, what to call in its place (made when it is needed), and the change.

    Where `around` is set, the calls of the step stay and all of it runs inside. `whole`: the step as a CUDA graph.
    """

    region: Region | None
    make: Callable[[], Function] | None
    change: Change
    around: Callable[[], contextlib.AbstractContextManager[Any]] = contextlib.nullcontext
    whole: bool = False
    what: str = ""


class Rewrite:
    """Subclass it, and `kerneldb.replay.rewrites.register` one instance.

    `name` is what tables call it, `about` a line for people. `removes_launches`: the host has less to do, so that wall
    time is measured too. `precision`: it computes less exactly, and is tried with `--allow precision` only.
    `compiler_misses`: no compiler finds it, so that functions are also compiled with it inside. `refines`: another way
    to do what a rewrite of this name does, tried where that is accepted.
    """

    name: ClassVar[str]
    about: ClassVar[str] = ""
    removes_launches: ClassVar[bool] = False
    precision: ClassVar[bool] = False
    compiler_misses: ClassVar[bool] = False
    refines: ClassVar[str | None] = None

    def lacks(self, flow: Flow) -> str | None:
        """Why it cannot be tried here at all (no GPU, no compiler); None where it can."""
        del flow
        return None

    def find(self, flow: Flow) -> Iterator[Proposal]:
        """The places of a step that it would change. Raises CannotTryError for a step in which it cannot look."""
        raise NotImplementedError

    def containing(self, proposal: Proposal, inside: Sequence[Within]) -> Proposal | None:
        """The same place with parts of it replaced already; None for what knows no parts."""
        del proposal, inside
        return None
