"""The route of recorded operator calls: the resolver's candidates, with variants of process-wide settings between them.

Order: the plain candidates; the best one under other settings of PyTorch's backends, where they can matter; then the
variants by hidden variables (storage offsets, aliases, …). Where the plan has a copy from or to the host, the variant
with that argument in host memory comes first: the trace does not record the device of an argument.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Final

from kerneldb.replay.resolve import BuiltCall, Draft, drafts
from kerneldb.replay.resolve.errors import Reason, UnresolvedCallError
from kerneldb.replay.resolve.recorded import short_name
from kerneldb.replay.wire.plan import Item

HIDDEN: Final = "hidden:"
HTOD: Final = "HtoD"
DTOH: Final = "DtoH"
PRODUCTS: Final = frozenset({"mm", "addmm", "bmm", "baddbmm", "_addmm_activation", "mv", "addmv", "linear", "matmul"})

Settings = Callable[[], contextlib.AbstractContextManager[None]]


@dataclass(frozen=True, slots=True)
class Under:
    """A call made under other settings of PyTorch's backends, which a trace does not record."""

    plain: BuiltCall
    label: str
    settings: Settings

    @property
    def overload(self) -> str:
        """The overload called."""
        return self.plain.overload

    @property
    def inputs(self) -> Sequence[Any]:
        """The inputs of the plain call."""
        return self.plain.inputs

    @property
    def notes(self) -> tuple[str, ...]:
        """Its notes, with the setting."""
        return (*self.plain.notes, f"{HIDDEN}{self.label}")

    @property
    def function(self) -> Any:
        """The operator."""
        return self.plain.function

    def call(self) -> Any:
        """Run it once under the settings."""
        with self.settings():
            return self.plain.call()

    def refill(self, seed: int = 0) -> None:
        """Draw all inputs anew."""
        self.plain.refill(seed)


class AtenRoute:
    """Rebuilds the recorded operator call (`kerneldb.replay.resolve`)."""

    name = "aten"

    def prepare(self, item: Item, device: str) -> Iterator[Any]:
        """The candidates of the resolver, and the first of them under other settings."""
        if item.spec is None:
            raise UnresolvedCallError(Reason.NO_INPUTS, "the plan has no operator call for this item")
        wanted = _host_variant(item)
        ordered = sorted(drafts(item.spec, device), key=lambda draft: wanted not in draft.notes)
        plain = [draft for draft in ordered if wanted in draft.notes or not _is_hidden(draft)]
        first: BuiltCall | None = None
        for built in _built(plain, device):
            first = first or built
            yield built
        if first is not None and device != "cpu":
            yield from _under_settings(first, item)
        hidden = [draft for draft in ordered if draft not in plain]
        yield from _built(hidden, device) if first is not None else ()


def _built(on_paper: Iterable[Draft], device: str) -> Iterator[BuiltCall]:
    """The calls of these drafts that can be built. Raises the first failure where none can."""
    failure: UnresolvedCallError | None = None
    any_built = False
    for draft in on_paper:
        try:
            built = draft.build(device)
        except UnresolvedCallError as error:
            failure = failure or error
            continue
        any_built = True
        yield built
    if failure is not None and not any_built:
        raise failure


def _is_hidden(draft: Draft) -> bool:
    return any(note.startswith(HIDDEN) for note in draft.notes)


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


def _under_settings(built: BuiltCall, item: Item) -> Iterator[Under]:
    operator = "" if item.spec is None else short_name(item.spec.call.op)
    single = item.spec is not None and '"float"' in (item.spec.call.input_dtypes or "")
    if "conv" in operator:
        yield Under(built, "cudnn-benchmark", lambda: _flag("cudnn", "benchmark", value=True))
        if single:
            yield Under(built, "no-tf32", lambda: _flag("cudnn", "allow_tf32", value=False))
    elif operator in PRODUCTS:
        if single:
            yield Under(built, "tf32", lambda: _flag("cuda.matmul", "allow_tf32", value=True))
        yield Under(built, "cublaslt", lambda: _blas_library("cublaslt"))


@contextlib.contextmanager
def _flag(backend: str, name: str, *, value: bool) -> Iterator[None]:
    import torch

    holder: Any = torch.backends
    for part in backend.split("."):
        holder = getattr(holder, part)
    before = getattr(holder, name)
    setattr(holder, name, value)
    try:
        yield
    finally:
        setattr(holder, name, before)


@contextlib.contextmanager
def _blas_library(library: str) -> Iterator[None]:
    import torch

    before = torch.backends.cuda.preferred_blas_library()
    torch.backends.cuda.preferred_blas_library(library)
    try:
        yield
    finally:
        torch.backends.cuda.preferred_blas_library(before)
