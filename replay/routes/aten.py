"""The route of recorded operator calls: the resolver's candidates, with variants of process-wide settings between them.

Order: the plain candidates; the best one under other settings of PyTorch's backends, where they can matter; then the
variants by hidden variables (storage offsets, aliases, …). Where the plan has a copy from or to the host, the variant
with that argument in host memory comes first: the trace does not record the device of an argument.
"""

from __future__ import annotations

import contextlib
import operator
from collections.abc import Iterator
from dataclasses import replace
from typing import Any, Final

from kerneldb.replay.errors import Reason, UnresolvedCallError
from kerneldb.replay.plan.work import Work
from kerneldb.replay.resolve import BuiltCall, ResolvedCall, resolved_calls
from kerneldb.replay.resolve.calls import Settings, blas_library, built, on_host
from kerneldb.replay.resolve.recorded import short_name
from kerneldb.replay.routes.base import Route
from kerneldb.replay.wire.plan import CallSpec, Item

HIDDEN: Final = "hidden:"
HTOD: Final = "HtoD"
DTOH: Final = "DtoH"
PRODUCTS: Final = frozenset({"mm", "addmm", "bmm", "baddbmm", "_addmm_activation", "mv", "addmv", "linear", "matmul"})


class AtenRoute(Route):
    """Rebuilds the recorded operator call (`kerneldb.replay.resolve`)."""

    name = "aten"
    about = "rebuilds the recorded operator call, also of libraries that `--import MODULE` registers"

    def claims(self, work: Work) -> bool:
        """A recorded call with types of its inputs. Exchanges with other ranks are left to another route."""
        call = None if work.spec is None else work.spec.call
        return call is not None and call.input_dtypes is not None and work.category != "COMMUNICATION"

    def prepare(self, item: Item, device: str) -> Iterator[Any]:
        """The candidates of the resolver, and the first of them under other settings."""
        if item.spec is None:
            raise UnresolvedCallError(Reason.NO_INPUTS, "the plan has no operator call for this item")
        wanted, ordered = _ordered(item, item.spec, device)
        plain = [call for call in ordered if wanted in call.notes or not _is_hidden(call)]
        first: BuiltCall | None = None
        for call in built(plain, device):
            first = first or call
            yield call
        if first is not None and device != "cpu":
            for label, settings in _settings(item):
                yield replace(first, notes=(*first.notes, f"{HIDDEN}{label}"), settings=settings)
        hidden = [call for call in ordered if call not in plain]
        if not item.kernels and device != "cpu":  # what launches nothing may have worked on tensors of the host
            hidden.insert(0, on_host(plain[0]))
        yield from built(hidden, device) if first is not None else ()


def on_paper(item: Item, device: str) -> Iterator[tuple[ResolvedCall, Settings]]:
    """The same calls, not built, each with the settings that it runs under. Raises UnresolvedCallError."""
    if item.spec is None:
        raise UnresolvedCallError(Reason.NO_INPUTS, "the plan has no operator call for this item")
    wanted, ordered = _ordered(item, item.spec, device)
    plain = [call for call in ordered if wanted in call.notes or not _is_hidden(call)]
    yield from ((call, contextlib.nullcontext) for call in plain)
    if device != "cpu":
        yield from ((plain[0].noted(f"{HIDDEN}{label}"), settings) for label, settings in _settings(item))
    yield from ((call, contextlib.nullcontext) for call in ordered if call not in plain)


def _ordered(item: Item, spec: CallSpec, device: str) -> tuple[str, list[ResolvedCall]]:
    """The note of the variant that the planned copies show, or ""; and the calls, those with that note first."""
    wanted, kernels = _host_variant(item), [kernel.name for kernel in item.kernels if kernel.kind == "kernel"]
    return wanted, sorted(resolved_calls(spec, device, kernels=kernels), key=lambda call: wanted not in call.notes)


def _is_hidden(call: ResolvedCall) -> bool:
    return any(note.startswith(HIDDEN) for note in call.notes)


def _host_variant(item: Item) -> str:
    """The note of the variant whose argument lies where a planned copy between host and device has its host end."""
    between = (kernel for kernel in item.kernels if kernel.kind == "memcpy" and kernel.copy_kind in {HTOD, DTOH})
    copy = next(between, None)
    if copy is None or item.spec is None:
        return ""
    place = "pinned" if "Pinned" in copy.name else "cpu"
    in_place = short_name(item.spec.call.op) == "copy_"
    if copy.copy_kind == DTOH:
        return f"{HIDDEN}{place}(self)" if in_place else f"{HIDDEN}to-host"
    return f"{HIDDEN}{place}(src)" if in_place else f"{HIDDEN}{place}(self)"


def _settings(item: Item) -> Iterator[tuple[str, Settings]]:
    """Settings of PyTorch's backends that can matter, with their names: a trace does not record them."""
    called = "" if item.spec is None else short_name(item.spec.call.op)
    single = item.spec is not None and '"float"' in (item.spec.call.input_dtypes or "")
    if "conv" in called:
        yield "cudnn-benchmark", lambda: flag("cudnn", "benchmark", value=True)
        if single:
            yield "no-tf32", lambda: flag("cudnn", "allow_tf32", value=False)
    elif called in PRODUCTS:
        if single:
            yield "tf32", lambda: flag("cuda.matmul", "allow_tf32", value=True)
        yield "cublaslt", lambda: blas_library("cublaslt")


@contextlib.contextmanager
def flag(backend: str, name: str, *, value: bool) -> Iterator[None]:
    """A flag of one of PyTorch's backends, as in `cudnn`, `benchmark`."""
    import torch

    holder = operator.attrgetter(backend)(torch.backends)
    before = getattr(holder, name)
    setattr(holder, name, value)
    try:
        yield
    finally:
        setattr(holder, name, before)
