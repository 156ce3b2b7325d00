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
    """Give launches that were recorded without an operator call that of the same launch elsewhere in the database.

    For launches in CUDA and HIP graphs, at the begin of a cut trace, and in traces of nsys, ncu and rocprof. A launch
    is known by name, grid, block and shared memory, else by name and numbers of blocks and threads; where several calls
    launched it, the kernels before and after decide, then the place in the sequence, then the duration. Where no launch
    is the same, the operator is told by kernels of the same name. The traces of the selection are looked through whole;
    what was inherited before is found anew. `replay` does the same for what it replays.

    Operators, dims and sizes then stand in `kernels`, with inferred_by and dims_source = 'inherited'; the donor of each
    launch, and how sure it is, in inferred_calls.

    \b
      kerneldb db inherit
      kerneldb db inherit --trace llama-decode-cuda-graph
      kerneldb top --by op --where "inferred_by = 'inherited'"
    """
    found = open_database().inherit(traces, where)
    if not len(found):
        note("all launches of the selection have a recorded call")
    emit(found.to_reader(), output)
