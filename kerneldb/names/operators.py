"""What the operator that launched a kernel says of it, where the kernel's name does not: category and element type.

A name is what ran, so it goes first. The operator answers where no rule knows the name, where the name is a guess (a
symbol that no demangler reads, a word in a hand-written kernel's name) and where the two cannot both be true. It never
turns one stage of an operator into another: copies, fills and reductions that an operator launches beside its product
have names of their own, which are known.
"""

from __future__ import annotations

import re
from functools import cache, lru_cache
from typing import TYPE_CHECKING, Final, NamedTuple, Protocol

from kerneldb.names.dtypes import element_type
from kerneldb.names.tables import rows_of

if TYPE_CHECKING:
    from collections.abc import Sequence

NAME: Final = "name"
OPERATOR: Final = "operator"
INPUTS: Final = "inputs"
_PRODUCTS: Final = frozenset(("GEMM", "GEMV", "ATTENTION", "CONVOLUTION"))
# A convolution or an attention may run as matrix products, a matrix product never as one of those.
_IMPOSSIBLE: Final = {"GEMM": {"ATTENTION", "CONVOLUTION"}, "GEMV": {"ATTENTION", "CONVOLUTION"}}
_INTEGERS: Final = re.compile(r"u?int\d+|bool")
_FLOAT: Final = re.compile(r"(?:fp|bf|tf)\d+\w*|complex\d+")
_NARROW: Final = re.compile(r"fp[48]\w*")
_DECORATION: Final = re.compile(r"\.(?:default|out|\w*[A-Z]\w*)$|_(?:out)?$")


class Named(Protocol):
    """What is taken from a decoded name."""

    @property
    def category(self) -> str | None:
        """Category by the name."""

    @property
    def dtype(self) -> str | None:
        """Element type in the name."""

    @property
    def library(self) -> str | None:
        """Who wrote the kernel; `user` where words of the name were guessed from."""

    @property
    def demangled(self) -> str | None:
        """The name as C++ text, still mangled where no demangler reads it."""


class Settled(NamedTuple):
    """Category and element type of a kernel, each with where it comes from (None where it is not known)."""

    category: str | None
    category_source: str | None
    dtype: str | None
    dtype_source: str | None


@cache
def _table() -> tuple[tuple[str, re.Pattern[str]], ...]:
    return tuple((row["category"], re.compile(row["pattern"])) for row in rows_of("operators.csv"))


@lru_cache(maxsize=20_000)
def operator_category(op: str) -> str | None:
    """Return the category of an operator's work, None where it is not known or of several kinds.

    Names are those of PyTorch (`aten::mm`, `c10d::allreduce_`, `vllm::unified_attention`), of TensorFlow (`MatMul`) and
    of JAX (`jit(step)/dot_general`).
    """
    whole = _DECORATION.sub("", op.rpartition("/")[2]).lower()
    base = whole.rpartition("::")[2]
    return next((found for found, names in _table() if names.fullmatch(base) or names.fullmatch(whole)), None)


def settle(name: Named, op: str | None, inputs: Sequence[str]) -> Settled:
    """Return the category and element type of a kernel, from its name, its operator and its operator's inputs.

    `inputs` are the C++ types of the operator's tensors as the profiler recorded them (`c10::Half`).
    """
    by_operator = operator_category(op) if op else None
    category, source = _category(name, by_operator)
    types = [found for text in inputs if (found := element_type(text.removeprefix("c10::")))]
    if name.dtype is not None and not _contradicts(name, category, types):
        return Settled(category, source, name.dtype, NAME)
    dtype = _of_inputs(types, category) if _same_work(category, by_operator) else None
    return Settled(category, source, dtype, INPUTS if dtype else None)


def _same_work(category: str | None, by_operator: str | None) -> bool:
    """Whether the kernel does what its operator is for; a helper's element type is not that of the inputs."""
    return by_operator is not None and (category == by_operator or {category, by_operator} <= _PRODUCTS)


def _is_mangled(name: Named) -> bool:
    return (name.demangled or "").startswith("_Z")


def _category(name: Named, by_operator: str | None) -> tuple[str | None, str | None]:
    if name.category is None or by_operator is None or by_operator == name.category:
        return name.category, None if name.category in {None, "OTHER"} else NAME
    is_guess = name.category == "OTHER" or name.library == "user" or _is_mangled(name)
    if is_guess or name.category in _IMPOSSIBLE.get(by_operator, ()):
        return by_operator, OPERATOR
    return name.category, NAME


def _contradicts(name: Named, category: str | None, inputs: list[str]) -> bool:
    """Whether the name's type cannot be that of the work: a mangled guess, or integers where all inputs are floats."""
    if not inputs or name.dtype in inputs:
        return False
    if _is_mangled(name):
        return True
    wide = all(_FLOAT.fullmatch(dtype) and not _NARROW.fullmatch(dtype) for dtype in inputs)
    return category in _PRODUCTS and wide and _INTEGERS.fullmatch(name.dtype or "") is not None


def _of_inputs(inputs: list[str], category: str | None) -> str | None:
    """Return the type of the inputs where they agree on one (indices and masks aside); a product's first one counts."""
    distinct = list(dict.fromkeys(inputs))
    values = [dtype for dtype in distinct if _FLOAT.fullmatch(dtype)] or distinct
    return values[0] if len(values) == 1 or (values and category in _PRODUCTS) else None
