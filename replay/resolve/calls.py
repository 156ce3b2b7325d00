"""A call on paper (`ResolvedCall`) and in memory (`BuiltCall`), and its variants by what a trace does not record.

How often recorded models have these: inputs not aligned to 16 bytes 1.3 %, nonzero storage offset 4.4 %, the same
tensor passed twice 1.5 %. Also: 0-dim tensors in host memory, copies between host and device, inputs that beta = 0
leaves unread, the order of index values (kernels whose grid depends on the data), autograd on.
"""

from __future__ import annotations

import contextlib
import math
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, replace
from typing import Any, Final

from kerneldb import files
from kerneldb.output.units import size
from kerneldb.replay.errors import CallFailedError, Reason, UnresolvedCallError
from kerneldb.replay.resolve import recorded
from kerneldb.replay.resolve.schema import Overload
from kerneldb.replay.resolve.tensors import (
    INTEGERS,
    Fill,
    StorageSpec,
    TensorSpec,
    distinct,
    hide,
    make,
    refill,
    torch_dtype,
)
from kerneldb.replay.wire.plan import CallSpec

# What torch raises for arguments that an operator does not take; out-of-memory is a RuntimeError.
TORCH_ERRORS: Final = (
    RuntimeError, TypeError, ValueError, LookupError, AttributeError, AssertionError, ZeroDivisionError, OverflowError,
)  # fmt: skip

PARTS: Final = 4
"""Inputs may take one part in so many of the free host memory: results, copies and other calls come on top."""
ALWAYS_BYTES: Final = 64 << 20
"""Inputs of no more are made without a look at the memory."""

Settings = Callable[[], contextlib.AbstractContextManager[None]]


@dataclass(frozen=True, slots=True)
class ResolvedCall:
    """A call to be built: one value per schema argument (TensorSpec, lists of them, StorageSpec, or plain Python).

    `notes` say what was assumed. With `grad`, float tensors that are only read require gradients and the call
    runs with autograd on.
    """

    overload: Overload
    values: tuple[Any, ...]
    notes: tuple[str, ...] = ()
    grad: bool = False

    def tensors(self) -> Iterator[tuple[int, TensorSpec]]:
        """The tensors passed directly (not in lists), with their argument index."""
        return ((index, value) for index, value in enumerate(self.values) if isinstance(value, TensorSpec))

    def with_value(self, index: int, value: Any) -> ResolvedCall:
        """The same with another value of one argument."""
        return replace(self, values=(*self.values[:index], value, *self.values[index + 1 :]))

    def noted(self, *notes: str) -> ResolvedCall:
        """The same with further notes."""
        return replace(self, notes=tuple(dict.fromkeys((*self.notes, *notes))))

    def name(self, index: int) -> str:
        """Schema name of the argument at `index`."""
        return self.overload.parameters[index].name

    def build(self, device: str, seed: int = 0) -> BuiltCall:
        """Make the tensors on `device`.

        Raises UnresolvedCallError: DTYPE, MEMORY where the host has too little for them, or REFUSED where torch cannot
        make one.
        """
        maker = _Maker(device, seed)
        try:
            require_memory(self.values, device)
            made = [maker.make(value, self.name(index), (index, 0)) for index, value in enumerate(self.values)]
        except TORCH_ERRORS as error:
            raise UnresolvedCallError(Reason.REFUSED, f"making the inputs: {quoted(error)}") from error
        pairs = list(zip(self.overload.parameters, made, strict=False))
        if self.grad:
            pairs = [(one, value if one.written else _requiring_grad(value)) for one, value in pairs]
        return BuiltCall(
            overload=self.overload.name,
            function=self.overload.function,
            args=tuple(value for parameter, value in pairs if not parameter.keyword),
            kwargs={parameter.name: value for parameter, value in pairs if parameter.keyword},
            inputs=tuple(maker.inputs),
            notes=self.notes,
            resolved=self,
        )


def require_memory(values: Iterable[Any], device: str) -> None:
    """Raise UnresolvedCallError (MEMORY) where the tensors of a call would take too much of the host memory.

    A GPU refuses what does not fit; a host promises it, and ends a process when it is used.
    """
    specs = [one for one in _specs(values) if one.place or device == "cpu"]
    shared = {one.group: one for one in specs if one.group}
    sizes = [_bytes(one) for one in [*shared.values(), *(one for one in specs if not one.group)]]
    if (total := sum(sizes)) > ALWAYS_BYTES and total > (free := files.free_memory()) / PARTS:
        text = (
            f"inputs of {size(total)}; they may take one part in {PARTS} of the {size(free)} that are free on the host"
        )
        raise UnresolvedCallError(Reason.MEMORY, text)


def _specs(values: Iterable[Any]) -> Iterator[TensorSpec]:
    for value in values:
        if isinstance(value, TensorSpec):
            yield value
        elif isinstance(value, StorageSpec):
            yield TensorSpec((value.elements,), (1,), value.dtype)
        elif isinstance(value, list):
            yield from _specs(value)


def _bytes(spec: TensorSpec) -> int:
    """Bytes that the tensor takes; one of another layout is made of a plain one."""
    elements = math.prod(spec.dims) if spec.sparse else spec.elements
    return elements * int(torch_dtype(spec.dtype).itemsize)


@dataclass(frozen=True, slots=True)
class Input:
    """A tensor input. `bytes` counts the elements that it really holds: broadcast dims once.

    `place`: of which argument it is, and which entry of its list.
    """

    name: str
    tensor: Any
    spec: TensorSpec
    bytes: int
    place: tuple[int, int] | None = None


@dataclass(slots=True)
class BuiltCall:
    """A call with its inputs in memory. `overload` as in `aten::add.Tensor`, `notes` what was assumed.

    `settings` are those of PyTorch's backends that it runs under, `cache` the cache state where it overrides that of
    the run. With `masked`, the first input has the values that a causal mask leaves.
    """

    overload: str
    function: Any
    args: tuple[Any, ...]
    kwargs: dict[str, Any]
    inputs: tuple[Input, ...]
    notes: tuple[str, ...]
    resolved: ResolvedCall
    settings: Settings = contextlib.nullcontext
    cache: str | None = None
    masked: bool = False

    def call(self) -> Any:
        """Run it once and return its result. Raises CallFailedError with the first line of torch's message."""
        import torch

        with self.settings(), torch.set_grad_enabled(self.resolved.grad):
            try:
                return self.function(*self.args, **self.kwargs)
            except TORCH_ERRORS as error:
                raise CallFailedError(Reason.REFUSED, f"{self.overload}: {quoted(error)}") from error

    def refill(self, seed: int = 0) -> None:
        """Draw all inputs anew: values of in-place calls drift, towards inf or denormals, when they run in a loop."""
        for one in self.inputs:
            refill(one.tensor, one.spec, generator(str(one.tensor.device), seed))
        if self.masked:
            hide(self.inputs[0].tensor)


def built(on_paper: Iterable[ResolvedCall], device: str, seed: int = 0) -> Iterator[BuiltCall]:
    """The calls of these resolved_calls that can be built, each when it is asked for.

    Raises UnresolvedCallError, that of the first resolved, where none can.
    """
    failure: UnresolvedCallError | None = None
    any_built = False
    for resolved in on_paper:
        try:
            call = resolved.build(device, seed)
        except UnresolvedCallError as error:
            failure = failure or error
            continue
        any_built = True
        yield call
    if failure is not None and not any_built:
        raise failure


@contextlib.contextmanager
def blas_library(name: str) -> Iterator[None]:
    """Matrix products by this library (`cublas`, `cublaslt`) as far as it has them."""
    import torch

    before = torch.backends.cuda.preferred_blas_library()
    torch.backends.cuda.preferred_blas_library(name)
    try:
        yield
    finally:
        torch.backends.cuda.preferred_blas_library(before)


def generator(device: str, seed: int) -> Any:
    """A seeded random generator of `device`; None where it has none (meta)."""
    import torch

    if device == "meta":
        return None
    made = torch.Generator(device=device)
    made.manual_seed(seed)
    return made


def quoted(error: BaseException) -> str:
    """Class and first line of an error, shortened."""
    lines = str(error).splitlines()
    return f"{type(error).__name__}: {lines[0] if lines else ''}"[:200]


class _Maker:
    """Makes the values of one call; specs of one group share their tensor."""

    def __init__(self, device: str, seed: int) -> None:
        self.device = device
        self.inputs: list[Input] = []
        self._generators = {name: generator(name, seed) for name in {device, "cpu"}}
        self._shared: dict[int, Any] = {}

    def make(self, value: Any, name: str, place: tuple[int, int]) -> Any:
        if isinstance(value, TensorSpec):
            return self._tensor(value, name, place)
        if isinstance(value, StorageSpec):
            return self._tensor(TensorSpec((value.elements,), (1,), value.dtype), name, place).untyped_storage()
        if isinstance(value, list):
            entries = enumerate(value)
            return [self.make(entry, f"{name}[{index}]", (place[0], index)) for index, entry in entries]
        return value

    def _tensor(self, spec: TensorSpec, name: str, place: tuple[int, int]) -> Any:
        if spec.group and spec.group in self._shared:
            return self._shared[spec.group]
        tensor = make(spec, self.device, self._generators["cpu" if spec.place else self.device])
        held = distinct(spec.dims, spec.strides) * tensor.element_size()
        self.inputs.append(Input(name, tensor, spec, held, place))
        if spec.group:
            self._shared[spec.group] = tensor
        return tensor


def _requiring_grad(value: Any) -> Any:
    import torch

    if isinstance(value, list):
        return [_requiring_grad(entry) for entry in value]
    if torch.is_tensor(value) and (value.is_floating_point() or value.is_complex()):
        return value.requires_grad_()
    return value


BY_NORM: Final = frozenset({"linalg_matrix_exp", "matrix_exp"})
"""Operators whose calls below depend on the size of the values: of polynomials of higher degree for larger ones."""
DEVIATIONS: Final = (4.0, 8.0, 2.0, 0.3, 0.1, 0.01, 1e-3)
COPIES: Final = frozenset({"copy_", "_to_copy", "to"})


def variants(call: ResolvedCall, spec: CallSpec, device: str) -> Iterator[ResolvedCall]:
    """Variants of `call`, the most frequent first, each noted `hidden:…`."""
    plain = ((index, spec) for index, spec in call.tensors() if spec.dims and not spec.sparse)
    places = [index for index, _ in plain if not call.overload.parameters[index].out]
    yield from _other_sizes(call, recorded.short_name(spec.call.op))
    for offset, word in ((1, "misaligned"), (64, "offset")):
        if len(places) > 1:
            yield _shifted(call, places, offset).noted(f"hidden:{word}(all)")
        for index in places[:4]:
            yield _shifted(call, [index], offset).noted(f"hidden:{word}({call.name(index)})")
    yield from _aliases(call)
    if device != "cpu":
        yield from _host_scalars(call)
        yield from _transfers(call, recorded.short_name(spec.call.op), device)
    # With beta = 0 the added matrix is not read; `empty` ones are what callers pass.
    named = dict(zip((one.name for one in call.overload.parameters), call.values, strict=False))
    beta: Any = named.get("beta")
    if isinstance(beta, int | float) and beta == 0 and isinstance(call.values[0], TensorSpec):
        unread = replace(call.values[0], fill=Fill("empty"))
        yield call.with_value(0, unread).noted("hidden:uninitialised(self)")
    yield from _other_values(call)
    if spec.children and not call.overload.has_out:  # composite calls under autograd may take another path
        yield replace(call, grad=True).noted("hidden:autograd")


def _other_values(call: ResolvedCall) -> Iterator[ResolvedCall]:
    """Ascending and constant index values in place of random ones."""
    for index, drawn in call.tensors():
        if drawn.fill.kind in {"integers", "shuffled"} and drawn.dtype in INTEGERS:
            for kind in ("range", "constant"):
                ordered = replace(drawn, fill=Fill(kind, drawn.fill.low, drawn.fill.high))
                yield call.with_value(index, ordered).noted(f"hidden:{kind}({call.name(index)})")


def _other_sizes(call: ResolvedCall, op: str) -> Iterator[ResolvedCall]:
    """Numbers of other sizes, where these decide what is called."""
    for index, drawn in call.tensors():
        if op in BY_NORM and not index:
            for deviation in DEVIATIONS:
                other = replace(drawn, fill=Fill("normal", 0.0, deviation))
                yield call.with_value(index, other).noted(f"hidden:deviation={deviation:g}({call.name(index)})")


def _shifted(call: ResolvedCall, places: list[int], offset: int) -> ResolvedCall:
    for index in places:
        spec: TensorSpec = call.values[index]
        call = call.with_value(index, replace(spec, offset=offset, storage=spec.storage and spec.storage + offset))
    return call


def _aliases(call: ResolvedCall) -> Iterator[ResolvedCall]:
    """Arguments of equal shape may have been one tensor (`mul(x, x)`, attention of x with itself)."""
    groups: dict[TensorSpec, list[int]] = {}
    for index, spec in call.tensors():
        groups.setdefault(replace(spec, fill=Fill("normal")), []).append(index)
    for number, places in enumerate(groups.values(), 1):
        aliased = call
        for index in places if len(places) > 1 else ():
            aliased = aliased.with_value(index, replace(call.values[places[0]], group=number))
        if aliased is not call:
            yield aliased.noted(f"hidden:aliased({','.join(map(call.name, places))})")


def _host_scalars(call: ResolvedCall) -> Iterator[ResolvedCall]:
    for index, spec in call.tensors():
        if not spec.dims:
            yield call.with_value(index, replace(spec, place="cpu")).noted(f"hidden:host-scalar({call.name(index)})")


def _transfers(call: ResolvedCall, op: str, device: str) -> Iterator[ResolvedCall]:
    """Copies between host and device, pageable and pinned."""
    if op not in COPIES:
        return
    places = [index for index, spec in call.tensors() if spec.dims or op != "copy_"]
    for place in ("cpu", "pinned"):
        for index in places[:2]:
            moved = call.with_value(index, replace(call.values[index], place=place))
            moved = moved if op == "copy_" else _to_device(moved, device)
            yield moved.noted(f"hidden:{place}({call.name(index)})")
    if op != "copy_":
        yield _to_device(call, "cpu").noted("hidden:to-host")


def on_host(call: ResolvedCall) -> ResolvedCall:
    """The same with all tensors in host memory."""

    def moved(value: Any) -> Any:
        if isinstance(value, list):
            return [moved(entry) for entry in value]
        return replace(value, place="cpu") if isinstance(value, TensorSpec) else value

    there = replace(call, values=tuple(moved(value) for value in call.values))
    return _to_device(there, "cpu").noted("hidden:on-host")


def _to_device(call: ResolvedCall, device: str) -> ResolvedCall:
    import torch

    pairs = enumerate(zip(call.overload.parameters, call.values, strict=False))
    index = next((index for index, (one, _) in pairs if one.base == "Device"), None)
    return call if index is None else call.with_value(index, torch.device(device))
