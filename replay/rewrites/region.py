"""A run of calls as one function: of the tensors that it takes to those that are used after it.

The function is a graph of torch.fx over the recorded operators. It can be run, compiled, and run in float64, which is
what results are compared with.
"""

from __future__ import annotations

import dataclasses
import operator
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Final

from kerneldb.replay.resolve.tensors import TensorSpec
from kerneldb.replay.rewrites.flow import Flow, Node
from kerneldb.replay.rewrites.views import dense, in_memory_order, is_contiguous, moves
from kerneldb.replay.wire.steps import UNKNOWN, Tensor

ANYTHING: Final = "its calls could not all be rebuilt"
CONVOLUTIONS: Final = frozenset({"cudnn_convolution", "mkldnn_convolution", "miopen_convolution"})
"""Of backends; all but the first take a bias."""
CONTIGUOUS: Final = frozenset({"native_group_norm", "native_layer_norm"})
"""Operators whose callers in torch make their first argument contiguous."""
OVERWRITING: Final = frozenset({"fill_", "zero_", "copy_", "normal_", "uniform_", "random_", "bernoulli_"})
"""Operators that write all of their first argument, whatever was in it."""
ANYTHING_BETWEEN: Final = "it is not known what calls between them use"
BETWEEN: Final = "other calls between them use the same tensors"


class CannotTryError(Exception):
    """A rewrite cannot be tried; says why."""


@dataclass(frozen=True, slots=True)
class Region:
    """Calls of a step by place, what they take and what is used of what they write (slots), and where to put another.

    `anchor` is the place at which a function with the same inputs and outputs does the same.
    """

    flow: Flow
    places: tuple[int, ...]
    inputs: tuple[int, ...]
    outputs: tuple[int, ...]
    anchor: int

    @property
    def structure(self) -> tuple[Any, ...]:
        """What it computes, whatever the tensors: equal ones are one function."""
        numbers: dict[int, int] = {}
        storages: dict[int, int] = {}
        kinds = []
        for place in self.places:
            node = self.flow.nodes[place]
            slots = [*[one for slots in node.inputs for one in slots], *node.call.outputs]
            kinds.append((node.call.item, tuple(numbers.setdefault(one, len(numbers)) for one in slots)))
        known = sorted(numbers, key=lambda one: numbers[one])
        tensors = [self.flow.tensor(one) for one in known if one != UNKNOWN]
        shapes = [dataclasses.replace(one, storage=storages.setdefault(one.storage, len(storages))) for one in tensors]
        ends = tuple(numbers[one] for one in (*self.inputs, *self.outputs))
        return tuple(kinds), tuple(shapes), ends

    def inputs_now(self) -> list[Any]:
        """Copies of its inputs as the step has them now."""
        return [self.flow.player.view(one).clone() for one in self.inputs]


def region(flow: Flow, places: Sequence[int]) -> Region:
    """The region of these calls. Raises CannotTryError."""
    inside, ordered = set(places), tuple(sorted(places))
    if any(not flow.nodes[one].op for one in ordered):
        raise CannotTryError(ANYTHING)
    taken: dict[int, None] = {}
    made, results = set[int](), dict[int, int]()
    for place in ordered:
        node = flow.nodes[place]
        for slot in node.taken:
            storage = flow.storage(slot)
            if storage not in made and (flow.source(slot, place) is not None or _given(flow, slot)):
                taken[slot] = None
        for slot in (*node.written, *node.call.outputs):
            if slot != UNKNOWN and 0 not in flow.tensor(slot).dims:
                made.add(flow.storage(slot))
                results.setdefault(flow.storage(slot), slot)
    given = {flow.storage(one) for one in taken}
    beside = {flow.storage(one) for place in ordered for one in flow.nodes[place].call.outputs[1:] if one != UNKNOWN}
    kept = [
        slot
        for storage, slot in results.items()
        if storage in given or _used(flow, storage, inside, ordered, beside=storage in beside)
    ]
    anchor = _anchor(flow, inside, ordered, given, made)
    return Region(flow, ordered, tuple(taken), tuple(kept), anchor)


def _given(flow: Flow, slot: int) -> bool:
    return flow.step.storages[flow.storage(slot)].given


def _used(flow: Flow, storage: int, inside: set[int], ordered: Sequence[int], *, beside: bool) -> bool:
    """Whether something after a region needs a storage that it wrote: another call, or the program itself.

    The program does not look at what operators return `beside` their result, such as the mean that a norm saves.
    """
    readers = [one for one in flow.readers[storage] if one > flow.writers[storage][0]]
    if any(one not in inside and one > ordered[0] for one in readers):
        return True
    last = flow.writers[storage][-1]
    unread = not any(one > last for one in readers)
    return not (beside and not readers) and (unread or storage not in flow.freed)


def _anchor(flow: Flow, inside: set[int], ordered: Sequence[int], given: set[int], made: set[int]) -> int:
    """The first place where others between the calls leave alone what they use, else the last. Raises otherwise."""
    others = [one for one in range(ordered[0], ordered[-1]) if one not in inside]
    if any(not flow.nodes[one].op and not flow.nodes[one].taken for one in others):
        raise CannotTryError(ANYTHING_BETWEEN)
    read = {storage for one in others for storage in flow.reads(one)}
    written = {storage for one in others for storage in flow.writes(one)}
    if not written & (given | made) and not given & made & read:
        return ordered[0]
    first_read = {storage: one for one in reversed(ordered) for storage in flow.reads(one)}
    late = any(storage in given and one > first_read[storage] for one in others for storage in flow.writes(one))
    if late or (read | written) & made:
        raise CannotTryError(BETWEEN)
    return ordered[-1]


Within = tuple[Region, Callable[..., Sequence[Any]]]
"""A region inside another one, and what is called in its place."""


def graph(found: Region, *, exact: Any = None, inside: Sequence[Within] = (), any_layout: bool = False) -> Any:
    """The calls of a region as a torch.fx.GraphModule.

    With `exact`, a floating dtype, all is in that; with `inside`, parts of it by other functions; with `any_layout` its
    images may come in another memory format than was recorded: views are made by shape, and norms get what their
    callers give them.
    """
    return _Builder(found, exact=exact, inside=inside, any_layout=any_layout).made()


class _Builder:
    def __init__(self, found: Region, *, exact: Any, inside: Sequence[Within], any_layout: bool) -> None:
        import torch.fx

        self._region = found
        self._flow = found.flow
        self._exact = exact
        self._any_layout = any_layout
        self._inside = {one.anchor: (one, function) for one, function in inside}
        self._left_out = {place for one, _ in inside for place in one.places}
        self._graph = torch.fx.Graph()
        self._held: dict[str, Any] = {}
        self._nodes: dict[int, Any] = {}
        self._bases: dict[int, tuple[Any, Tensor]] = {}

    def made(self) -> Any:
        import torch.fx

        for number, slot in enumerate(self._region.inputs):
            self._fill(slot, self._graph.placeholder(f"x{number}"))
        for place in self._region.places:
            if place in self._inside:
                self._replaced(*self._inside[place])
            elif place not in self._left_out:
                self._add(self._flow.nodes[place])
        self._graph.output(tuple(self._get(slot) for slot in self._region.outputs))
        root = torch.nn.Module()
        for name, tensor in self._held.items():
            root.register_buffer(name, tensor)
        return torch.fx.GraphModule(root, self._graph)

    def _replaced(self, other: Region, function: Callable[..., Sequence[Any]]) -> None:
        made = self._graph.call_function(function, tuple(map(self._get, other.inputs)))
        for number, slot in enumerate(other.outputs):
            tensor, result = self._flow.tensor(slot), self._graph.call_function(operator.getitem, (made, number))
            self._forget(tensor.storage)
            result = self._call("_to_copy.default", result, dtype=self._dtype(self._flow.player.dtype(slot)))
            self._fill(slot, self._in_order(self._call("reshape.default", result, list(tensor.dims)), tensor))

    def _in_order(self, node: Any, tensor: Tensor) -> Any:
        """What lies in memory as a tensor of the step does."""
        order = in_memory_order(tensor)
        if is_contiguous(tensor) or order == sorted(order):
            return self._call("contiguous.default", node)
        moved = self._call("contiguous.default", self._call("permute.default", node, order))
        return self._call("permute.default", moved, [order.index(one) for one in range(len(order))])

    def _fill(self, slot: int, node: Any) -> None:
        storage = self._flow.storage(slot)
        self._nodes[slot] = node
        known = self._bases.get(storage)
        if known is None or dense(self._flow.tensor(slot)):
            self._bases[storage] = node, self._flow.tensor(slot)

    def _get(self, slot: int) -> Any:
        if slot not in self._nodes:
            tensor = self._flow.tensor(slot)
            if tensor.storage not in self._bases:
                self._bases[tensor.storage] = self._empty(slot), tensor
            node, base = self._bases[tensor.storage]
            for name, arguments in [] if base == tensor else moves(base, tensor):
                node = self._call(name, node, *arguments)
            self._nodes[slot] = node
        return self._nodes[slot]

    def _written_once(self, node: Node, index: int, slot: int) -> Any:
        """A tensor that a call takes; zeros where nothing wrote it: what is compared must not be left to chance."""
        new = slot not in self._nodes and self._flow.storage(slot) not in self._bases
        found = self._get(slot)
        if new and not _overwrites(node, index):
            self._call("zero_.default", found)
        return found

    def _call(self, name: str, *args: Any, **kwargs: Any) -> Any:
        import torch

        packet, _, overload = ("reshape.default" if self._any_layout and name == "view.default" else name).partition(
            "."
        )
        return self._graph.call_function(getattr(getattr(torch.ops.aten, packet), overload), args, kwargs)

    def _empty(self, slot: int) -> Any:
        tensor, player = self._flow.tensor(slot), self._flow.player
        device = "cpu" if self._flow.step.storages[tensor.storage].host else player.device
        like = {"dtype": self._dtype(player.dtype(slot)), "device": device}
        return self._call("empty_strided.default", list(tensor.dims), list(tensor.strides), **like)

    def _dtype(self, dtype: Any) -> Any:
        return self._exact if self._exact is not None and dtype.is_floating_point else dtype

    def _add(self, node: Node) -> None:
        if node.op == "copy_" and self._fresh(node):
            self._converted(node)
            return
        args, kwargs = self._arguments(node)
        general = self._general(node, args)
        written = self._written(node) if general is None else set[int]()
        made = self._graph.call_function(node.overload, tuple(args), kwargs) if general is None else general
        made.meta["place"] = node.place
        returns = node.overload._schema.returns
        several = len(returns) > 1 or "List" in str([one.type for one in returns])
        mask = node.argument("output_mask")
        numbers = [n for n, on in enumerate(mask) if on] if isinstance(mask, list) else range(len(node.call.outputs))
        for number, slot in zip(numbers, node.call.outputs, strict=False):  # what is not asked for is not returned
            if slot == UNKNOWN or self._flow.storage(slot) in written:
                continue
            self._forget(self._flow.storage(slot))
            self._fill(slot, self._graph.call_function(operator.getitem, (made, number)) if several else made)

    def _general(self, node: Node, args: list[Any]) -> Any:
        """Calls of a backend by the operator of the program that it is for: compilers know only that."""
        if node.op in CONVOLUTIONS:
            biased = node.op != "cudnn_convolution"
            image, weight, *settings = args
            bias = settings.pop(0) if biased else None
            padding, stride, dilation, groups = settings[:4]
            rest = (bias, stride, padding, dilation, False, [0] * len(padding), groups)
            return self._call("convolution.default", image, weight, *rest)
        if node.op == "arange" and node.written:
            dtype = self._flow.player.dtype(node.call.outputs[0])
            return self._call("arange.start_step", *args, dtype=dtype, device=self._flow.player.device)
        return None

    def _written(self, node: Node) -> set[int]:
        return {self._flow.storage(one) for one in node.written}

    def _forget(self, storage: int) -> None:
        self._bases.pop(storage, None)
        for slot in [one for one in self._nodes if self._flow.storage(one) == storage]:
            del self._nodes[slot]

    def _fresh(self, node: Node) -> bool:
        """Whether a copy fills a tensor that nothing has been in yet, all of it."""
        if not node.written:
            return False
        slot = node.written[0]
        tensor = self._flow.tensor(slot)
        return tensor.storage not in self._bases and dense(tensor) and not tensor.offset

    def _converted(self, node: Node) -> None:
        """A copy into a new tensor, as a conversion: what it copies may be smaller."""
        import torch

        slot = node.written[0]
        tensor, source = self._flow.tensor(slot), self._argument(node, 1)
        if self._flow.tensor(node.inputs[1][0]).dims != tensor.dims:
            source = self._call("expand.default", source, list(tensor.dims))
        order, plain = in_memory_order(tensor), is_contiguous(tensor)
        if not plain:
            source = self._call("permute.default", source, order)
        like = {"dtype": self._dtype(self._flow.player.dtype(slot)), "memory_format": torch.contiguous_format}
        made = self._call("_to_copy.default", source, **like)
        if not plain:
            made = self._call("permute.default", made, [order.index(one) for one in range(len(order))])
        self._fill(slot, made)

    def _argument(self, node: Node, index: int) -> Any:
        slots = node.inputs[index] if index < len(node.inputs) else ()
        assert node.how.resolved is not None  # noqa: S101 (a region has only rebuilt calls)
        return self._value(node, index, node.how.resolved.values[index], slots)

    def _arguments(self, node: Node) -> tuple[list[Any], dict[str, Any]]:
        assert node.how.resolved is not None  # noqa: S101 (a region has only rebuilt calls)
        args, kwargs = list[Any](), dict[str, Any]()
        for index, (parameter, _) in enumerate(
            zip(node.how.resolved.overload.parameters, node.how.resolved.values, strict=False)
        ):
            value = self._argument(node, index)
            value = False if self._exact is not None and parameter.name == "half_to_float" else value
            if parameter.keyword:
                kwargs[parameter.name] = value
            else:
                args.append(value)
        return args, kwargs

    def _value(self, node: Node, index: int, value: Any, slots: Sequence[int]) -> Any:
        import torch

        if isinstance(value, TensorSpec):
            given = self._tensor(node, (index, 0), value, slots[0] if len(slots) == 1 else UNKNOWN)
            made_contiguous = self._any_layout and node.op in CONTIGUOUS and index == 0
            return self._call("contiguous.default", given) if made_contiguous else given
        if isinstance(value, list) and slots and (not value or any(isinstance(one, TensorSpec) for one in value)):
            return [self._tensor(node, (index, n), None, slot) for n, slot in enumerate(slots)]
        if isinstance(value, torch.dtype):
            return self._dtype(value)
        return value

    def _tensor(self, node: Node, key: tuple[int, int], spec: Any, slot: int) -> Any:
        own = node.how.own.get(key)
        if own is None and slot != UNKNOWN:
            return self._written_once(node, key[0], slot)
        if own is None and spec is None:
            return None
        if own is None:
            raise CannotTryError(f"a tensor of {node.op} is not known")
        name = f"held_{node.place}_{key[0]}_{key[1]}"
        self._held[name] = own.to(self._dtype(own.dtype))
        return self._graph.get_attr(name)


def _overwrites(node: Node, index: int) -> bool:
    """Whether a call writes all of an argument without reading it."""
    assert node.how.resolved is not None  # noqa: S101 (a region has only rebuilt calls)
    parameter = node.how.resolved.overload.parameters[index]
    return parameter.written and (parameter.keyword or (node.op in OVERWRITING and index == 0))


def conforming(found: Region, function: Callable[..., Sequence[Any]]) -> Callable[..., tuple[Any, ...]]:
    """A function whose results have the dtypes and layouts that those of the region have."""
    import torch

    wanted = [(found.flow.tensor(slot), found.flow.player.dtype(slot)) for slot in found.outputs]

    def call(*tensors: Any) -> tuple[Any, ...]:
        results = []
        for made, (tensor, dtype) in zip(function(*tensors), wanted, strict=True):
            fits = made.dtype == dtype and made.stride() == tensor.strides and made.storage_offset() == tensor.offset
            if not fits and not (made.dtype == dtype and is_contiguous(tensor) and made.is_contiguous()):
                made = torch.empty_strided(tensor.dims, tensor.strides, dtype=dtype, device=made.device).copy_(made)  # noqa: PLW2901
            results.append(made)
        return tuple(results)

    return call
