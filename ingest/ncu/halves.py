"""Half-precision rooflines on the details page: ncu counts pairs of operations since 2025, under the same labels.

`Theoretical Predicated-On HFMA Operations` is twice the instructions per cycle up to ncu 2024 (`…_x2`) and four times
since 2025 (`…_x4`), where additions and multiplications of the roofline are pairs too (`--print-metric-name label-name`
of 2024.1 and 2025.3). A page does not tell its version, but it has the instructions beside the operations.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from kerneldb.ingest.ncu.kernels import Printed
    from kerneldb.ingest.ncu.numbers import Style

SECTION: Final = "(Half Precision)"
INSTRUCTIONS: Final = "Theoretical Predicated-On HFMA Thread Instructions Executed"
OPERATIONS: Final = "Theoretical Predicated-On HFMA Operations"
PAIRED: Final = 4
NAMES: Final = {
    "derived__sm__sass_thread_inst_executed_op_hfma_pred_on_x2": (
        "derived__sm__sass_thread_inst_executed_op_hfma_pred_on_x4"
    ),
    "derived__smsp__sass_thread_inst_executed_op_hfma_pred_on_x2": (
        "derived__smsp__sass_thread_inst_executed_op_hfma_pred_on_x4"
    ),
    "smsp__sass_thread_inst_executed_op_hadd_pred_on.sum.per_cycle_elapsed": (
        "derived__smsp__sass_thread_inst_executed_op_hadd_pred_on_x2"
    ),
    "smsp__sass_thread_inst_executed_op_hmul_pred_on.sum.per_cycle_elapsed": (
        "derived__smsp__sass_thread_inst_executed_op_hmul_pred_on_x2"
    ),
}
"""Metrics of the body items: up to 2024, and since 2025."""


def counts_pairs(printed: Iterable[Printed], style: Style) -> bool:
    """Whether what is printed of a kernel counts half-precision operations as ncu does since 2025."""
    found: dict[str, float] = {}
    for one in printed:
        if one.name in {INSTRUCTIONS, OPERATIONS} and SECTION in (one.section or ""):
            number = style.read(one.text)
            if number is not None:
                found[one.name] = number[0]
    return INSTRUCTIONS in found and found.get(OPERATIONS) == PAIRED * found[INSTRUCTIONS]


def of_pairs(metric: str) -> str:
    """The metric that a body item means where operations are counted as pairs."""
    return NAMES.get(metric, metric)
