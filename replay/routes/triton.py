"""The route of Triton kernels: launched from their archived source with the recorded constants, without tuning.

The inputs have the recorded dims, strides and dtypes. Integers may be indices, and one out of range stops the whole
process: they are drawn below the bounds that the source asserts, else below the smallest dim of all inputs. Workspaces
and semaphores begin as zeros, as TorchInductor hands them over.
"""

from __future__ import annotations

import dataclasses
import functools
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from kerneldb.replay.errors import CallFailedError, Reason, UnresolvedCallError
from kerneldb.replay.plan.work import Archive, Work
from kerneldb.replay.resolve.calls import TORCH_ERRORS, Input, generator, quoted
from kerneldb.replay.resolve.recorded import ABSENT, SCALAR, Argument, arguments, number
from kerneldb.replay.resolve.tensors import INTEGERS, Fill, TensorSpec, distinct, make, refill, torch_name
from kerneldb.replay.routes import grades
from kerneldb.replay.routes.base import Route, Seen
from kerneldb.replay.routes.grades import CallMatch
from kerneldb.replay.triton import code, loading
from kerneldb.replay.triton.code import Code, Constants
from kerneldb.replay.triton.loading import Launchable, Recompiled, launchables
from kerneldb.replay.wire.plan import Item, OpCall, Plan
from kerneldb.replay.wire.results import Grade

ASSERTED: Final = re.compile(r"index out of bounds: .*?< (\d+)")
ZEROED: Final = re.compile(r"^(ws_ptr|workspace|semaphores?|sem_ptr)")
ZERO: Final = Fill("constant", 0)
FEWEST: Final = 2
OTHER_SOURCE: Final = "drift:other-source"
OTHER: Final = "its source is missing: the operators were compiled again, to a different kernel"


@dataclass(frozen=True, slots=True)
class KernelCall:
    """A launch with its inputs in memory. `changes` names the inputs that the kernel reads and writes."""

    kernel: Launchable
    arguments: tuple[Any, ...]
    inputs: tuple[Input, ...]
    overload: str
    changes: frozenset[str]
    notes: tuple[str, ...] = ()

    def call(self) -> Any:
        """Launch it once, on the current stream. Raises CallFailedError with the first line of the error."""
        return self.on(*self.arguments)

    def specs(self) -> Iterator[tuple[int, TensorSpec]]:
        """The tensors among its arguments, by place."""
        given = {id(one.tensor): one.spec for one in self.inputs}
        return ((place, given[id(one)]) for place, one in enumerate(self.arguments) if id(one) in given)

    def on(self, *arguments: Any) -> Any:
        """The same with other arguments."""
        from triton.errors import TritonError

        try:
            return self.kernel.launch(*arguments)
        except (*TORCH_ERRORS, TritonError) as error:
            raise CallFailedError(Reason.REFUSED, f"{self.overload}: {quoted(error)}") from error

    def refill(self, seed: int = 0) -> None:
        """Draw all inputs anew."""
        for one in self.inputs:
            refill(one.tensor, one.spec, generator(str(one.tensor.device), seed))


class TritonRoute(Route):
    """Launches archived Triton kernels (`kerneldb.replay.triton`)."""

    name = code.ROUTE
    about = "launches archived Triton kernels from their sources, only with --allow-code"

    def __init__(self) -> None:
        self._known: Mapping[str, Code] = {}
        self._allowed = False

    def claims(self, work: Work) -> bool:
        """A recorded launch of a Triton kernel, by what its trace says beside the arguments."""
        return work.spec is not None and code.is_triton(work.spec.call)

    def sources(self, items: Sequence[Item], archive: Archive) -> Mapping[str, Any]:
        """The archived sources that calls were launched from, by hash; a call without one takes all of its name."""
        hashes, names = code.wanted(one.spec.call for one in items if one.spec is not None)
        if not hashes and not names:
            return {}
        found = (Code(**row) for row in archive.sources(code.ROUTE, hashes, names))
        return {one.hash: code.to_source(one) for one in found}

    def lacks(self, item: Item, sources: Mapping[str, Any]) -> str | None:
        """The source, and where to get it."""
        return None if item.spec is None else code.reason(item.spec.call, sources)

    def consent(self, plan: Plan, *, allowed: bool) -> list[str]:
        """Each source that would run, or that none will."""
        return code.shown(plan, allowed=allowed)

    def provide(self, sources: Mapping[str, Any], *, allowed: bool) -> None:
        """Take the sources of the plan."""
        self._known, self._allowed = code.held(sources), allowed

    def verify(self, item: Item, call: Any, seen: Seen) -> CallMatch:
        """As any call; L3 at best where the source is lost."""
        match = super().verify(item, call, seen)
        return grades.at_best(match, Grade.L3, OTHER) if OTHER_SOURCE in call.notes else match

    def prepare(self, item: Item, device: str) -> Iterator[Any]:
        """One call per source and configuration that the launch may have had, mostly one.

        Raises UnresolvedCallError: REFUSED without a GPU or permission to run code, UNREADABLE or NO_INPUTS.
        """
        launched = None if item.spec is None else code.read(item.spec.call.extra)
        if item.spec is None or launched is None:
            raise UnresolvedCallError(Reason.NO_INPUTS, "the plan has no launch of a Triton kernel for this item")
        if device == "cpu":
            raise UnresolvedCallError(Reason.REFUSED, "a Triton kernel needs a GPU")
        call = item.spec.call
        sources = code.matching(call, self._known)
        if not sources:
            yield _again(call, launched, device)
            return
        if not self._allowed:
            raise UnresolvedCallError(Reason.SOURCE, code.REFUSED)
        grid = launched.grid or (item.kernels[0].grid if item.kernels else None)
        for source in sources:
            for kernel in launchables(source, launched, grid, device):
                yield build(kernel, call, source.text, device)


def _again(call: OpCall, launched: Constants, device: str) -> KernelCall:
    """A call whose source is lost: its operators compiled again. Raises UnresolvedCallError."""
    try:
        made, lost = _recompiled(call, launched.kernel_hash, device)
    except TORCH_ERRORS as error:
        raise UnresolvedCallError(Reason.SOURCE, f"lost, and compiling its operators: {quoted(error)}") from error
    if lost is not None:
        found = build(next(launchables(lost, launched, launched.grid, device)), call, lost.text, device)
        return dataclasses.replace(found, notes=(*found.notes, "source:compiled-again"))
    kernel = Launchable(lambda *given: made.function(*given[: made.reads]))
    return dataclasses.replace(build(kernel, call, "", device), notes=(OTHER_SOURCE,))


@functools.cache
def _recompiled(call: OpCall, kernel_hash: str | None, device: str) -> tuple[Recompiled, Code | None]:
    tensors = [one.tensor for one in build(Launchable(lambda *_: None), call, "", device).inputs]
    return loading.anew(code.function_name(call), kernel_hash, tensors)


def build(kernel: Launchable, call: OpCall, text: str, device: str) -> KernelCall:
    """`kernel` with inputs as `call` recorded them. Raises UnresolvedCallError."""
    recorded = arguments(call)
    bound, asserted = _bound(recorded, text)
    inputs: list[Input] = []
    values: list[Any] = []
    for place, one in enumerate(recorded):
        name = kernel.names[place] if place < len(kernel.names) else f"argument{place}"
        if one.is_tensor:
            dtype = torch_name(one.kind)
            drawn = Fill("integers", 0, bound) if dtype in INTEGERS else Fill("normal")
            fill = ZERO if ZEROED.match(name) else drawn
            spec = TensorSpec(one.dims, one.strides, dtype, fill)
            tensor = make(spec, device, generator(device, 0))
            held = distinct(spec.dims, spec.strides) * tensor.element_size()
            inputs.append(Input(name, tensor, spec, held, (place, 0)))
            values.append(inputs[-1].tensor)
        else:
            values.append(_scalar(one, name))
    guessed = not asserted and any(one.spec.dtype in INTEGERS and not ZEROED.match(one.name) for one in inputs)
    notes = ("int-default",) if guessed else ()
    return KernelCall(kernel, tuple(values), tuple(inputs), f"triton {call.op}", kernel.changed, notes)


def _scalar(one: Argument, name: str) -> Any:
    if one.kind == SCALAR:
        return number(one.text)
    if one.kind == ABSENT:
        return None
    raise UnresolvedCallError(Reason.OPAQUE, f"{name}: {one.kind}")


def _bound(recorded: Sequence[Argument], text: str) -> tuple[int, bool]:
    """The bound of integer inputs, and whether the source asserts it."""
    asserted = [int(digits) for digits in ASSERTED.findall(text)]
    if asserted:
        return min(asserted), True
    sizes = [int(size) for one in recorded if one.is_tensor for size in one.dims if size > 1]
    return min(sizes, default=FEWEST), False
