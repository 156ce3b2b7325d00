"""`kerneldb refresh`."""

from __future__ import annotations

import click

from kerneldb.cli.console import note
from kerneldb.cli.options import database_option, lock_timeout_option, open_database


@click.command(short_help="Decode names and problem sizes anew.")
@click.option("--all", "everything", is_flag=True, help="Decode everything, not only what an older kerneldb decoded.")
@click.option("-q", "--quiet", is_flag=True, help="Say nothing.")
@lock_timeout_option
@database_option
def refresh(*, everything: bool, quiet: bool, lock_timeout: float) -> None:
    """Decode kernel names and problem sizes anew, after an update of kerneldb.

    Only what is derived changes; nothing is read from the trace files again. Views and macros are brought up to date
    too, and the tables of `kerneldb closure` are written anew.
    """
    counts = open_database(lock_timeout=lock_timeout).refresh(everything=everything)
    if not quiet:
        note("refreshed: " + ", ".join(f"{table} {rows:,}" for table, rows in counts.items()))
