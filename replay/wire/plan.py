"""The plan file: what a replay worker is asked to run. JSON Lines, UTF-8, standard library only.

The first line is the header, every other line one item:

    {"format": "kerneldb-replay-plan", "version": 1, "notes": {"trace": "bloom-560m"}}
    {"id": "…", "route": "aten", "spec": {"call": {"op": "aten::mm", "input_dims": "[[2, 3], [3, 4]]", …},
     "children": [{"call": {…}, "depth": 1, "times": 2}], "parent": {…}, "neighbours": [{…}]}, "kernels": [{…}]}

An item whose call is not recorded has `candidates`, each with its own spec, the reason for it and a score. What a route
needs beside its items (sources of Triton kernels) stands in lines of its own: `{"source": "…", "value": …}`.

Fields whose value is the default (null, empty list, `times` 1, …) are left out. A reader ignores fields it does not
know, and refuses a newer version. The call fields are the columns of `op_calls`: JSON texts as PyTorch's profiler wrote
them ("Input Dims", "Input Strides", "Input type", "Concrete Inputs"); `extra` is kerneldb's own.
"""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from kerneldb.errors import KerneldbError

FORMAT: Final = "kerneldb-replay-plan"
VERSION: Final = 1
SOURCE: Final = "source"


class PlanError(KerneldbError):
    """The file is no replay plan, or one of a newer kerneldb."""


@dataclass(frozen=True, slots=True)
class OpCall:
    """A distinct operator call as recorded: the columns of `op_calls`. None is what the trace did not record."""

    op: str
    input_dims: str | None = None
    input_strides: str | None = None
    input_dtypes: str | None = None
    scalars: str | None = None
    extra: str | None = None


@dataclass(frozen=True, slots=True)
class ChildCall:
    """A distinct call below the item's call (or near it), `times` times at `depth` levels below (1: called directly).

    Lists of children keep the order of first appearance.
    """

    call: OpCall
    depth: int = 1
    times: int = 1


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
    """A recorded launch that another one takes its call from: its trace, and its `launch_index` there."""

    trace: str
    trace_id: str
    launch_index: int


@dataclass(frozen=True, slots=True)
class Candidate:
    """A call that an item without a recorded one may have made: where it comes from, and why it is believed.

    `source` is inherited or inferred. `score` is between 0 and 1 and compares candidates of one item; `expected_ns` is
    the duration that a model of the GPU expects. `donor` is set for inherited calls.
    """

    spec: CallSpec
    why: str
    score: float | None = None
    source: str = "inferred"
    donor: Donor | None = None
    expected_ns: float | None = None


@dataclass(frozen=True, slots=True)
class PlannedKernel:
    """A GPU activity that one call launched, in call order, with its recorded totals over the selection.

    `grid` in blocks, `block` in threads, `shared_bytes` static plus dynamic, `launches` a count, `median_ns` and
    `total_ns` nanoseconds. `bytes` and `copy_kind` belong to memcpy and memset. `places` says which launches these are
    (trace id to launch indices), for items whose call is not recorded.
    """

    ordinal: int
    signature_id: str
    name: str
    kind: str = "kernel"
    grid: tuple[int, ...] | None = None
    block: tuple[int, ...] | None = None
    shared_bytes: int | None = None
    bytes: int | None = None
    copy_kind: str | None = None
    launches: int = 1
    median_ns: int | None = None
    total_ns: int | None = None
    places: Mapping[str, Sequence[int]] | None = None


@dataclass(frozen=True, slots=True)
class Item:
    """One unit of replay: a distinct call with the kernels it launched, and the route that replays it.

    `spec` is None for routes that need no operator call (memory), and where `candidates` are all that is known.
    """

    id: str
    route: str
    spec: CallSpec | None = None
    kernels: tuple[PlannedKernel, ...] = ()
    candidates: tuple[Candidate, ...] = ()


@dataclass(frozen=True, slots=True)
class Plan:
    """Items in replay order, with free notes (trace, selection, machine) for the reader of the file.

    `sources` holds what routes need beside the items, by a key that their calls name, as JSON-ready values.
    """

    items: tuple[Item, ...] = ()
    notes: Mapping[str, Any] = field(default_factory=dict)
    sources: Mapping[str, Any] = field(default_factory=dict)


def to_lines(plan: Plan) -> Iterator[str]:
    """The lines of the plan file, without line ends."""
    yield json.dumps({"format": FORMAT, "version": VERSION, "notes": dict(plan.notes)})
    for key, value in plan.sources.items():
        yield json.dumps({"source": key, "value": value})
    for item in plan.items:
        yield json.dumps(_compact(item))


def write(plan: Plan, path: Path) -> None:
    """Write the plan file at `path`."""
    path.write_text("".join(f"{line}\n" for line in to_lines(plan)), encoding="utf-8")


def from_lines(lines: Iterable[str]) -> Plan:
    """The plan of these lines. Raises PlanError where they are no plan, or one of a newer version."""
    rest = iter(lines)
    header = _parse(next(rest, ""), 1)
    if header.get("format") != FORMAT:
        msg = f"line 1: not a replay plan (no format {FORMAT!r})"
        raise PlanError(msg)
    version = header.get("version")
    if not isinstance(version, int) or version > VERSION:
        msg = f"line 1: version {version} of a replay plan; this kerneldb reads up to {VERSION}: upgrade it"
        raise PlanError(msg)
    parsed = [(_parse(line, number), number) for number, line in enumerate(rest, 2) if line.strip()]
    sources = {data["source"]: data.get("value") for data, _ in parsed if SOURCE in data}
    items = tuple(_item(data, number) for data, number in parsed if SOURCE not in data)
    return Plan(items, header.get("notes") or {}, sources)


def read(path: Path) -> Plan:
    """The plan of the file at `path`. Raises PlanError."""
    with path.open(encoding="utf-8") as lines:
        return from_lines(lines)


def spec_to_dict(spec: CallSpec) -> dict[str, Any]:
    """`spec` as JSON-ready values, defaults left out."""
    compact: dict[str, Any] = _compact(spec)
    return compact


def spec_from_dict(data: Mapping[str, Any]) -> CallSpec:
    """The inverse of `spec_to_dict`. Raises KeyError or TypeError on other data."""
    parent = data.get("parent")
    return CallSpec(
        call=_known(OpCall, data["call"]),
        children=_children(data.get("children", ())),
        parent=None if parent is None else _known(OpCall, parent),
        neighbours=_children(data.get("neighbours", ())),
    )


def candidate_from_dict(data: Mapping[str, Any]) -> Candidate:
    """The inverse of `to_dict` of a candidate. Raises KeyError or TypeError on other data."""
    donor = data.get("donor")
    known = {"spec": spec_from_dict(data["spec"]), "donor": None if donor is None else _known(Donor, donor)}
    candidate: Candidate = _known(Candidate, {**data, **known})
    return candidate


def call_from_dict(data: Mapping[str, Any]) -> OpCall:
    """An operator call of its fields. Raises TypeError on other data."""
    call: OpCall = _known(OpCall, data)
    return call


def _compact(value: Any) -> Any:
    """Dataclasses as dictionaries without the fields that hold their default."""
    if isinstance(value, tuple):
        return [_compact(entry) for entry in value]
    if not dataclasses.is_dataclass(value):
        return value
    pairs = ((entry, getattr(value, entry.name)) for entry in dataclasses.fields(value))
    return {entry.name: _compact(held) for entry, held in pairs if held != entry.default}


def _known(kind: type[Any], data: Mapping[str, Any]) -> Any:
    names = {entry.name for entry in dataclasses.fields(kind)}
    return kind(**{name: value for name, value in data.items() if name in names})


def _children(data: Iterable[Mapping[str, Any]]) -> tuple[ChildCall, ...]:
    return tuple(_known(ChildCall, {**child, "call": _known(OpCall, child["call"])}) for child in data)


def _kernel(data: Mapping[str, Any]) -> PlannedKernel:
    triples = {name: tuple(data[name]) for name in ("grid", "block") if data.get(name) is not None}
    kernel: PlannedKernel = _known(PlannedKernel, {**data, **triples})
    return kernel


def _item(data: Mapping[str, Any], number: int) -> Item:
    try:
        spec = data.get("spec")
        kernels = tuple(_kernel(kernel) for kernel in data.get("kernels", ()))
        candidates = tuple(candidate_from_dict(one) for one in data.get("candidates", ()))
        return Item(data["id"], data["route"], None if spec is None else spec_from_dict(spec), kernels, candidates)
    except (KeyError, TypeError) as error:
        msg = f"line {number}: not an item of a replay plan ({error!r})"
        raise PlanError(msg) from error


def _parse(line: str, number: int) -> dict[str, Any]:
    try:
        data = json.loads(line)
    except ValueError as error:
        msg = f"line {number}: not JSON ({error})"
        raise PlanError(msg) from error
    if not isinstance(data, dict):
        msg = f"line {number}: not a JSON object"
        raise PlanError(msg)
    return data
