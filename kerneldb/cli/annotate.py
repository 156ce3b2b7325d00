"""`kerneldb db annotate`."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from kerneldb.cli.console import emit, note, plural
from kerneldb.cli.options import lock_timeout_option, open_database, output_options, selection_options
from kerneldb.cli.root import db, refuse

if TYPE_CHECKING:
    from kerneldb.output import Output

NOTES = ("flops", "bytes", "role")


@db.command(short_help="State FLOPs, bytes and roles of kernels.")
@selection_options
@click.option("--flops", metavar="EXPRESSION", help='Floating-point operations of one launch, such as "2*8192^3".')
@click.option("--bytes", "moved", metavar="EXPRESSION", help="Bytes that one launch must move, at least.")
@click.option("--role", metavar="LABEL", help="What the kernel does; `analyze compare` matches kernels of equal role.")
@click.option("--unset", multiple=True, type=click.Choice(NOTES), help="Remove a figure, whoever stated it.")
@click.option("--author", metavar="NAME", help="Who states it (default: the login name).")
@lock_timeout_option
@output_options
def annotate(
    *,
    where: str | None,
    traces: tuple[str, ...],
    flops: str | None,
    moved: str | None,
    role: str | None,
    unset: tuple[str, ...],
    author: str | None,
    lock_timeout: float,
    output: Output,
) -> None:
    """State what one launch of the selected kernels computes and moves, or list what is stated.

    The figures belong to signatures and replace those that kerneldb works out. They give the columns flops,
    moved_bytes, tflops, gbs and the shares of peak of the view `kernels`. An expression has numbers, + - * / ^ and
    parentheses.

    \b
      kerneldb db annotate --where "name LIKE 'nvjet%TNT'" --flops "2*2048*5632" --role gemm
      kerneldb db annotate --where "name = 'triton_poi_fused__to_copy_0'" --bytes "3*8192^2"
      kerneldb db annotate
    """
    given = {"flops": flops, "bytes": moved, "role": role}
    notes: dict[str, str | None] = {key: text for key, text in given.items() if text is not None}
    if both := [key for key in unset if key in notes]:
        refuse(f"--unset {both[0]} and --{both[0]} contradict each other")
    notes |= dict.fromkeys(unset)
    database = open_database(lock_timeout=lock_timeout)
    if not notes:
        emit(database.annotations(where=where, traces=traces).to_reader(), output)
        return
    if where is None and not traces:
        refuse("say which kernels: --where TEXT or --trace NAME")
    count = database.annotate(where, notes, traces=traces, author=author)
    note(f"noted {', '.join(notes)} of {plural(count, 'signature')}")
