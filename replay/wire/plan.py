"""The plan file: what a replay worker is asked to run. JSON Lines, UTF-8, standard library only.

The first line is the header, every other line one item:

    {"format": "kerneldb-replay-plan", "version": 1, "notes": {"trace": "bloom-560m"}}
    {"id": "…", "route": "aten", "spec": {"call": {"op": "aten::mm", "input_dims": "[[2, 3], [3, 4]]", …},
     "children": [{"call": {…}, "depth": 1, "times": 2}], "parent": {…}, "neighbours": [{…}]}, "kernels": [{…}]}

An item whose call is not recorded has `candidates`, each with its own spec, the reason for it and a score. What a route
needs beside its items (sources of Triton kernels) is in lines of its own: `{"source": "…", "value": …}`. So are
recorded steps (`wire.steps`): `{"step": {…}}`.

Fields whose value is the default (null, empty list, `times` 1, …) are left out. A reader ignores fields it does not
know, and refuses a newer version. The call fields are the columns of `op_calls`: JSON texts as PyTorch's profiler wrote
them ("Input Dims", "Input Strides", "Input type", "Concrete Inputs"); `extra` is kerneldb's own.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, Any, Final, Literal

from kerneldb import codec, files, limits
from kerneldb.codec import Count, Int32
from kerneldb.replay.errors import PlanError
from kerneldb.replay.wire import lines
from kerneldb.replay.wire.steps import Step

FORMAT: Final = "kerneldb-replay-plan"
VERSION: Final = 1
MOST_KERNELS: Final = 10_000
"""What one call may launch. Fused optimizers and lists launch some hundred."""
MOST_CALLS: Final = 10_000_000
"""Calls that may be listed below one call and near it, each as often as it was made."""
LONGEST_CHARACTER: Final = 4
"""Bytes of UTF-8."""


@dataclass(frozen=True, slots=True)
class OpCall:
    """A distinct operator call as recorded: the columns of `op_calls`. None is what the trace did not record.

    The texts of the profiler may hold anything, which is graded when the call is rebuilt; `extra` is an object.
    """

    op: str
    input_dims: str | None = None
    input_strides: str | None = None
    input_dtypes: str | None = None
    scalars: str | None = None
    extra: str | None = None

    def __post_init__(self) -> None:
        """Refuse an `extra` that kerneldb cannot have written."""
        if self.extra is not None:
            try:
                codec.load(Mapping[str, Any], self.extra)  # type: ignore[type-abstract]
            except codec.CodecError as error:
                raise codec.CodecError(error.message, "extra") from None


@dataclass(frozen=True, slots=True)
class ChildCall:
    """A distinct call below the item's call (or near it), `times` times at `depth` levels below (1: called directly).

    Lists of children keep the order of first appearance.
    """

    call: OpCall
    depth: Int32 = 1
    times: Count = 1


@dataclass(frozen=True, slots=True)
class CallSpec:
    """A call to rebuild, with the evidence for what the profiler leaves out of it.

    `children` are the calls below it in the recorded op tree, `parent` the call that made it (its fields may be None
    where only its name is known), `neighbours` calls near it in time (see `kerneldb.replay.plan.evidence`).
    """

    call: OpCall
    children: tuple[ChildCall, ...] = ()
    parent: OpCall | None = None
    neighbours: tuple[ChildCall, ...] = ()

    def direct(self) -> Iterator[OpCall]:
        """The calls made directly, each as often as it was made."""
        return (child.call for child in self.children if child.depth == 1 for _ in range(child.times))

    def below(self) -> Iterator[OpCall]:
        """All distinct calls below, in the order of first appearance."""
        return (child.call for child in self.children)


@dataclass(frozen=True, slots=True)
class Donor:
    """What another launch takes its call from: a recorded launch, by its trace and its `launch_index` there.

    `launch_index` is None where the trace is that of a capture: its calls are recorded, their kernels did not run.
    """

    trace: str
    trace_id: str
    launch_index: int | None


@dataclass(frozen=True, slots=True)
class Candidate:
    """A call that an item without a recorded one may have made: where it comes from, and why it is accepted.

    `source` is inherited or inferred. `score` is between 0 and 1 and compares candidates of one item; `expected_ns` is
    the duration that a model of the GPU expects. `donor` is set for inherited calls.
    """

    spec: CallSpec
    why: str
    score: float | None = None
    source: Literal["inherited", "inferred"] = "inferred"
    donor: Donor | None = None
    expected_ns: float | None = None


@dataclass(frozen=True, slots=True)
class PlannedKernel:
    """A GPU activity that one call launched, in call order, with its recorded totals over the selection.

    `grid` in blocks, `block` in threads, `shared_bytes` static plus dynamic, `launches` a count, `median_ns` and
    `total_ns` nanoseconds. `bytes` and `copy_kind` belong to memcpy and memset. `places` says which launches these are
    (trace id to launch indices), for items whose call is not recorded.
    """

    ordinal: Int32
    signature_id: str
    name: str
    kind: str = "kernel"
    grid: tuple[int, ...] | None = None
    block: tuple[int, ...] | None = None
    shared_bytes: int | None = None
    bytes: int | None = None
    copy_kind: str | None = None
    launches: Count = 1
    median_ns: int | None = None
    total_ns: int | None = None
    places: Mapping[str, Sequence[int]] | None = None


Moved = Annotated[int, codec.Between(-1, codec.LARGEST)]
"""Bytes; -1 where they are not known."""


@dataclass(frozen=True, slots=True)
class Item:
    """One unit of replay: a distinct call with the kernels it launched, and the route that replays it.

    `spec` is None for routes that need no operator call (memory), and where `candidates` are all that is known.
    `reuse`: for each tensor of each argument, how many bytes kernels had moved since it was last used; -1: not known.
    `below`: what the calls inside it launched, which comes out again with it and belongs to other items.
    """

    id: str
    route: str
    spec: CallSpec | None = None
    kernels: tuple[PlannedKernel, ...] = ()
    candidates: tuple[Candidate, ...] = ()
    reuse: tuple[tuple[Moved, ...], ...] = ()
    below: tuple[PlannedKernel, ...] = ()


@dataclass(frozen=True, slots=True)
class Plan:
    """Items in replay order, with free notes (trace, selection, machine) for the reader of the file.

    `sources` holds what routes need beside the items, by a key that their calls name, as JSON-ready values. A plan with
    `steps` is replayed in context: its items are the calls of the steps.
    """

    items: tuple[Item, ...] = ()
    notes: Mapping[str, Any] = field(default_factory=dict)
    sources: Mapping[str, Any] = field(default_factory=dict)
    steps: tuple[Step, ...] = ()


@dataclass(frozen=True, slots=True)
class _Header:
    format: str
    version: Count
    notes: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class _Source:
    source: str
    value: Any = None


@dataclass(frozen=True, slots=True)
class _Step:
    step: Step


def to_lines(plan: Plan) -> Iterator[str]:
    """The lines of the plan file, without line ends."""
    yield codec.dump(_Header(FORMAT, VERSION, plan.notes))
    for key, value in plan.sources.items():
        yield codec.dump(_Source(key, value))
    yield from map(codec.dump, plan.items)
    yield from (codec.dump(_Step(one)) for one in plan.steps)


def write(plan: Plan, path: Path) -> None:
    """Write the plan file at `path`, whole or not at all. Raises OSError, which names it."""
    with files.written(path) as file:
        file.writelines(f"{line}\n".encode() for line in to_lines(plan))


def from_lines(given: Iterable[str], place: str = "plan") -> Plan:
    """The plan of these lines. Raises PlanError, with `place` and the line, for other lines and newer versions."""
    numbered = [(number, text) for number, text in enumerate(given, 1) if text.strip()]
    header = lines.header(_Header, numbered, lines.Wanted(FORMAT, VERSION, "a replay plan", PlanError), place)
    sources: dict[str, Any] = {}
    items: dict[str, Item] = {}
    steps: list[Step] = []
    for number, text in numbered[1:]:
        with lines.naming(PlanError, place, number):
            data = codec.parse(text)
            if isinstance(data, dict) and "source" in data:
                source = codec.decode(_Source, data)
                sources[source.source] = source.value
            elif isinstance(data, dict) and "step" in data:
                steps.append(codec.decode(_Step, data).step)
            else:
                require_usual(text, data)
                item = codec.decode(Item, data)
                require_few(item)
                if item.id in items:
                    raise codec.CodecError(f"a second item '{codec.printable(item.id)}'")
                items[item.id] = item
    return Plan(tuple(items.values()), header.notes, sources, tuple(steps))


def require_usual(line: str, data: Any) -> None:
    """Raise CodecError where a text of a line is longer than one that a trace may bring into a database."""
    if len(line) > limits.NAME.value() // LONGEST_CHARACTER:
        for text in _texts(data):
            try:
                limits.NAME.check(len(text.encode(errors="replace")), "a text of {} bytes")
            except limits.ExceededError as error:
                raise codec.CodecError(str(error)) from error


def _texts(data: Any) -> Iterator[str]:
    if isinstance(data, str):
        yield data
    elif isinstance(data, dict):
        for name, value in data.items():
            yield name
            yield from _texts(value)
    elif isinstance(data, list):
        for value in data:
            yield from _texts(value)


def require_few(item: Item) -> None:
    """Raise CodecError where a call would have more kernels or calls below it than any has: each result lists them."""
    for name, kernels in (("kernels", item.kernels), ("below", item.below)):
        if len(kernels) > MOST_KERNELS:
            raise codec.CodecError(f"{len(kernels):,} of one call, more than {MOST_KERNELS:,}", name)
    for spec in (item.spec, *(one.spec for one in item.candidates)):
        calls = 0 if spec is None else sum(child.times for child in (*spec.children, *spec.neighbours))
        if calls > MOST_CALLS:
            raise codec.CodecError(f"{calls:,} calls below one call, more than {MOST_CALLS:,}", "spec")


def read(path: Path) -> Plan:
    """The plan of the file at `path`. Raises PlanError with its place."""
    return from_lines((text for _, text in lines.numbered(path, PlanError)), str(path))
