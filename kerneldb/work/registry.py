"""Which model computes the work of which operator.

A model is a function of the parsed call. It returns None where the record does not say enough. An operator's work
belongs to the kernel that does it, so a model is asked about kernels of its categories only, and not about helpers that
share these (a split-K reduction beside a GEMM, a layout change beside a convolution): they get none.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import re
    from collections.abc import Callable, Collection

    from kerneldb.work.model import NameFacts, Problem
    from kerneldb.work.tensors import Call

    Model = Callable[[Call], Problem | None]
    ModelOfKernel = Callable[[Call, NameFacts], Problem | None]

MODELS: dict[str, ModelOfKernel] = {}
"""Operator name with its namespace -> model. Filled when the modules of this package are imported."""


def model(*names: str, categories: Collection[str], helpers: re.Pattern[str] | None = None) -> Callable[[Model], Model]:
    """Register the decorated function for operators; a name without a namespace means `aten::`.

    `categories` are those of the kernels that do the work. `helpers` is searched in family and operation of a kernel's
    name and finds the auxiliary kernels of these categories.
    """

    def register(function: Model) -> Model:
        def of_kernel(call: Call, name: NameFacts) -> Problem | None:
            if name.category not in categories:
                return None
            is_helper = helpers is not None and helpers.search(f"{name.family or ''} {name.operation or ''}".lower())
            return None if is_helper else function(call)

        MODELS.update((name if "::" in name else f"aten::{name}", of_kernel) for name in names)
        return function

    return register
