"""What a route is: one class that says which launches it can make again, how, and how close that came.

Planning asks `claims`, `plan`, `sources` and `lacks`; the worker `provide`, `search` or `prepare`, `verify`, and
`again` for the energy; results and documents take `name`, `about`, `source` and `waits`. Every method but `claims` and
`prepare` does what most routes need.

`compare` says whether the same operators ran again, for replays on the CPU, where no kernel has a name. It compares the
call and the calls below it, recorded and replayed, as multisets of (name, dims, dtypes). Operators that only describe
or allocate memory are left out: how often they are called differs between builds of PyTorch.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar, Final, Protocol

from kerneldb import codec
from kerneldb.replay.plan.work import Archive, Work
from kerneldb.replay.routes import grades
from kerneldb.replay.routes.grades import CallMatch
from kerneldb.replay.wire.plan import CallSpec, Candidate, Item, OpCall, Plan
from kerneldb.replay.wire.results import Activity, AttemptResult, CallResult, Grade
from kerneldb.replay.worker.profiling import Operation

if TYPE_CHECKING:
    from kerneldb.replay.worker.executor import Verdict

WITHOUT_WORK: Final = frozenset({
    "_assert_tensor_metadata", "_conj", "_fused_sdp_choice", "_has_compatible_shallow_copy_type",
    "_nested_tensor_size", "_nnpack_available", "_reshape_alias", "_unsafe_view", "adjoint", "alias", "as_strided",
    "as_strided_", "broadcast_to", "can_cast", "chunk", "cudnn_is_acceptable", "data", "detach", "detach_",
    "diagonal", "empty", "empty_like", "empty_strided", "expand", "expand_as", "flatten", "imag", "is_same_size",
    "lift", "lift_fresh", "mH", "mT", "moveaxis", "movedim", "narrow", "new_empty", "new_empty_strided", "numpy_T",
    "output_nr", "permute", "pin_memory", "real", "record_stream", "requires_grad_", "reshape", "resize_",
    "resize_as_", "resolve_conj", "resolve_neg", "result_type", "select", "set_", "size", "slice", "split",
    "split_with_sizes", "squeeze", "squeeze_", "swapaxes", "swapdims", "t", "t_", "tensor_split", "transpose",
    "transpose_", "unbind", "unflatten", "unfold", "unsqueeze", "unsqueeze_", "view", "view_as", "view_as_complex",
    "view_as_real",
})  # fmt: skip

Key = tuple[str, str, str]


class Input(Protocol):
    """A tensor that a call reads or writes, with the name of its argument and the bytes that it really holds."""

    @property
    def name(self) -> str:
        """Schema name of the argument; `tensors[2]` in a list."""

    @property
    def tensor(self) -> Any:
        """The tensor."""

    @property
    def bytes(self) -> int:
        """Bytes of the elements that it really holds: broadcast dims once."""


class Call(Protocol):
    """A call with its inputs in memory, ready to run any number of times.

    One that has its operator as `function` (an OpOverload) tells by its schema which inputs it changes.
    """

    @property
    def overload(self) -> str:
        """The overload called, as in `aten::add.Tensor`."""

    @property
    def inputs(self) -> Sequence[Input]:
        """The tensors it reads or writes."""

    @property
    def notes(self) -> tuple[str, ...]:
        """What was assumed; a note that begins with `drift` says that it is not quite the recorded call."""

    def call(self) -> Any:
        """Run it once. Raises UnresolvedCallError, or an error of torch, where the operator refuses."""

    def refill(self, seed: int = 0) -> None:
        """Draw all inputs anew."""


class Search(Protocol):
    """Chooses the calls to try for an item whose own is not recorded, from what came of the earlier ones.

    Attempts are counted from 0; `attempts` has those chosen so far.
    """

    @property
    def attempts(self) -> Sequence[Any]:
        """The calls chosen so far."""

    def build(self, attempt: int, device: str) -> Call:
        """The call of an attempt. Raises UnresolvedCallError."""

    def played(self, attempt: int) -> Item:
        """The item with the call of the attempt as its recorded one."""

    def failed(self, attempt: int, reason: str) -> None:
        """An attempt could not run."""

    def judged(self, verdict: Verdict) -> None:
        """An attempt ran."""

    def better(self, new: Verdict, old: Verdict | None) -> bool:
        """Whether a new verdict replaces the one so far."""

    def goes_on(self, attempt: int) -> bool:
        """Whether there is a further call to try after this attempt."""

    def found(self) -> Candidate | None:
        """The call that is accepted."""

    def trail(self) -> tuple[AttemptResult, ...]:
        """All attempts in order."""


@dataclass(frozen=True, slots=True)
class Seen:
    """What a profiler saw of one run of a call, in call order: activities of a GPU, or operators on a CPU."""

    activities: Sequence[Activity] = ()
    operations: Sequence[Operation] = ()
    on_cpu: bool = False


SOURCES: Final = ("op", "inherited", "inferred", None)


class Route:
    """A way to make launches again. Subclass it, and `kerneldb.replay.routes.register` one instance.

    `name` is what plans and tables call it, `about` a line for people. `source` says where its calls come from: `op`
    (recorded), `inherited` or `inferred` (such results are summed apart), or None where there is no operator call.
    `waits`: recorded times hold waiting for others, and are not compared with replayed ones.
    """

    name: ClassVar[str]
    about: ClassVar[str] = ""
    source: ClassVar[str | None] = "op"
    waits: ClassVar[bool] = False

    @property
    def apart(self) -> bool:
        """Whether its results are summed apart: its calls were not recorded."""
        return self.source not in {"op", None}

    # Planning, where no PyTorch need be.

    def claims(self, work: Work) -> bool:
        """Whether this route makes `work` again. The first route that says so has it, those of users first."""
        del work
        return False

    def plan(self, work: Work) -> Item:
        """The item of a plan for a work that it claims."""
        return Item(work.id, self.name, work.spec, work.kernels, work.candidates, below=work.below)

    def sources(self, items: Sequence[Item], archive: Archive) -> Mapping[str, Any]:
        """What its items need beside themselves: JSON-ready values by keys of its own, which the plan carries."""
        del items, archive
        return {}

    def lacks(self, item: Item, sources: Mapping[str, Any]) -> str | None:
        """Why an item that is planned will hardly be the same kernel; None where nothing is missing."""
        del item, sources
        return None

    # Running.

    def consent(self, plan: Plan, *, allowed: bool) -> list[str]:
        """Lines that say what code the plan carries that would run; none where it carries none."""
        del plan, allowed
        return []

    def provide(self, sources: Mapping[str, Any], *, allowed: bool) -> None:
        """Take the sources of the plan, in the worker. Without `allowed` no code among them may run."""

    def ranks(self, item: Item) -> int:
        """How many devices take part in the item at once: more than one for what `collective` says is exchanged."""
        del item
        return 1

    def search(self, item: Item) -> Search | None:
        """A search for the call of `item`, for routes that choose calls by what came of the earlier ones."""
        del item
        return None

    def prepare(self, item: Item, device: str) -> Iterator[Call]:
        """The calls that `item` may have been, best first, each built when asked for; always the same ones.

        `device` is a torch device text. Raises UnresolvedCallError where there is none.
        """
        raise NotImplementedError

    def verify(self, item: Item, call: Any, seen: Seen) -> CallMatch:
        """How close a call came, by what the profiler saw of it."""
        if seen.on_cpu:
            return grades.on_cpu(item, self.same_operators(item, call, seen), faithful(call))
        return grades.compare(item.kernels, seen.activities, faithful=faithful(call), below=item.below)

    def same_operators(self, item: Item, call: Any, seen: Seen) -> Grade:
        """The grade on a CPU, where operators are compared because no GPU kernel runs."""
        del call
        return Grade.L3 if item.spec is None else compare(item.spec, seen.operations)

    def accepted(self, item: Item, result: CallResult | None = None) -> Candidate | None:
        """The call accepted for launches without a recorded one; None for recorded calls, and where none was found."""
        del item
        return None if result is None else result.found

    def again(self, item: Item, result: CallResult) -> tuple[Item, int] | None:
        """The item and which of its attempts a result is of; None where the result does not say."""
        return None if result.attempt is None else (item, result.attempt)


def faithful(call: Call) -> bool:
    """Whether the rebuilt call has every recorded dim, stride, dtype and scalar, as far as its notes tell."""
    return not any(note.startswith("drift") for note in call.notes)


def compare(spec: CallSpec, seen: Sequence[Operation]) -> Grade:
    """L0: the same operators with the same dims and dtypes; L1: the same operators; else L3."""
    recorded, replayed = Counter([_key(spec.call)]), Counter(_replayed(spec.call.op, seen))
    for child in spec.children:
        if _works(child.call.op):
            recorded[_key(child.call)] += child.times
    if recorded == replayed:
        return Grade.L0
    return Grade.L1 if _names(recorded) == _names(replayed) else Grade.L3


def _replayed(root: str, seen: Iterable[Operation]) -> Iterator[Key]:
    """The operators in the marker; the call itself always counts, whatever its name."""
    for operation in seen:
        if _works(operation.name) or (operation.depth == 0 and operation.name == root):
            yield operation.name, json.dumps(operation.dims), json.dumps(operation.dtypes)


def _key(call: OpCall) -> Key:
    """As PyTorch prints it, whatever the recorded text looks like."""
    return call.op, _canonical(call.input_dims), _canonical(call.input_dtypes)


def _canonical(text: str | None) -> str:
    """A recorded text as JSON is written; a text that is not JSON is kept as it is, and equals nothing."""
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
