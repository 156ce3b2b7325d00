"""Why an answer does not tell its rows apart: what was not recorded, and how to record it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from kerneldb.cli.console import note

if TYPE_CHECKING:
    from kerneldb.api import Result

STACKS: Final = "that takes Python stacks (torch.profiler: with_stack=True)"
FORWARD_ONLY: Final = (
    "module is what launched in the forward pass; backward launches have none, and are in the row without a name. With "
    "the module of their forward call: kerneldb analyze modules"
)
OPERATORS: Final = (
    "no operator is known: that takes the host's side of a PyTorch program (torch.profiler: activities CPU and CUDA; "
    "nsys: run it under torch.autograd.profiler.emit_nvtx(record_shapes=True)), which replays of a graph do not have: "
    "where its capture was recorded (kerneldb record --cuda-graphs), kerneldb db inherit gives them its operators"
)
NAMES: Final = "the names of the kernels do not tell it"
UNKNOWN: Final = {
    "op": OPERATORS,
    "root_op": OPERATORS,
    "module": f"no module is known: {STACKS} of a program made of torch.nn modules",
    "python_line": f"no line of Python is known: {STACKS}",
    "line": f"no line of Python is known: {STACKS}",
    "phase": "no phase is known: mark parts of the program (torch.profiler.record_function; for nsys "
    "torch.cuda.nvtx.range; roctx), around the calls on the thread that launches, and record again; ranges of "
    "operators and steps are none. Or name that of a whole trace: kerneldb ingest --replace --phase NAME",
    "iteration": "no iteration is known: call prof.step() after each (torch.profiler), and record several",
    "dtype": f"no data type is known: {NAMES}, and no inputs are recorded (torch.profiler: record_shapes=True)",
    "library": f"no library is known: {NAMES}",
    "family": f"no family of kernels is known: {NAMES}",
    "operation": f"no operation is known: {NAMES}",
    "device": "no device is known: sums and some prints of a profiler do not have it; a timeline does",
    "stream": "no stream is known: sums and some prints of a profiler do not have it; a timeline does",
}
"""By what an answer is asked for, and what to do where none of its launches has that."""
OUTSIDE: Final = frozenset({None, "(outside of modules)", "(before the recording)"})
"""What stands for a part that is not known."""
UNSPLIT_CAUSES: Final = frozenset({"unsplit", "communication: unsplit"})


def note_unsplit(result: Result, column: str) -> None:
    """Say what `unsplit` means, where it is one of the causes in `column`."""
    from kerneldb.report.wording import UNSPLIT

    if column in result.columns and UNSPLIT_CAUSES & set(result.to_arrow()[column].to_pylist()):
        note(f"unsplit: {UNSPLIT}")


def note_unknown(by: str | None, result: Result, column: str | None = None) -> bool:
    """Say why all rows have no value of `by`, which is in `column` (default: of that name); whether it was said."""
    if by not in UNKNOWN or not len(result) or (column := column or by) not in result.columns:
        return False
    if not set(result.to_arrow()[column].to_pylist()) <= OUTSIDE:
        return False
    note(UNKNOWN[by])
    return True
