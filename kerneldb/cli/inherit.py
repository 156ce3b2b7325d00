"""`kerneldb db inherit`."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kerneldb.cli.console import emit, note
from kerneldb.cli.options import open_database, output_options, selection_options
from kerneldb.cli.root import db

if TYPE_CHECKING:
    from kerneldb.output import Output


@db.command(short_help="Find the operator calls of launches recorded without one.")
@selection_options
@output_options
def inherit(*, where: str | None, traces: tuple[str, ...], output: Output) -> None:
    """Copy operator calls to launches recorded without one, from the same launch elsewhere in the database.

    For launches in CUDA and HIP graphs, at the start of a cut trace, and in traces of nsys, ncu and rocprof. Kernels of
    a graph whose capture was recorded have the calls of the capture (see docs/cuda-graphs.md). Any other launch is
    matched by name, grid, block and shared memory, else by name and numbers of blocks and threads; where several
    calls launched it, the kernels before and after decide, then the place in the sequence, then the duration. Where no
    launch is the same, the operator is taken from kernels of the same name. The selected traces are searched whole;
    calls inherited before are searched again. `replay` does the same for the launches that it replays.

    The view `kernels` then has operators, dims and sizes, with inferred_by and dims_source = 'inherited';
    inferred_calls has the donor of each launch and the confidence.

    \b
      kerneldb db inherit
      kerneldb db inherit --trace llama-decode-cuda-graph
      kerneldb top --by op --where "inferred_by = 'inherited'"
    """
    found = open_database().inherit(traces, where)
    if not len(found):
        note("all launches of the selection have a recorded call")
    emit(found.to_reader(), output)
