"""Which model computes the work of which operator.

A model is a function of the parsed call and the decoded kernel name. It returns None when it cannot tell, in
particular when the kernel is only a helper of the operator (a split-K reduction beside a GEMM, a layout change beside
a convolution): an operator's work belongs to the kernel that does it, and helpers get none.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import re
    from collections.abc import Callable

    from kerneldb.work.model import NameFacts, Problem
    from kerneldb.work.tensors import Call

    Model = Callable[[Call, NameFacts], Problem | None]

MODELS: dict[str, Model] = {}
"""Operator name with its namespace -> model. Filled when the modules of this package are imported."""


def model(*names: str) -> Callable[[Model], Model]:
    """Register the decorated function for operators; a name without a namespace means `aten::`."""

    def register(function: Model) -> Model:
        for name in names:
            MODELS[name if "::" in name else f"aten::{name}"] = function
        return function

    return register


def find(op: str) -> Model | None:
    """The model of an operator name as recorded, or None."""
    return MODELS.get(op)


def does_work(name: NameFacts, categories: frozenset[str], helpers: re.Pattern[str] | None = None) -> bool:
    """Whether the kernel does the operator's main work.

    Its category must fit, and its family and operation must not match `helpers`, the pattern of the auxiliary kernels
    that share the category.
    """
    if name.category not in categories:
        return False
    return helpers is None or not helpers.search(f"{name.family or ''} {name.operation or ''}".lower())
