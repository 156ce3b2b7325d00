"""The command line. One module per command: it parses, calls `kerneldb.api` and prints; nothing else happens here.

stdout carries data only; progress, notes and errors go to stderr. Exit codes are those of `kerneldb.errors`, 2 for a
wrong call and 130 for Ctrl-C. Nothing heavy is imported until a command needs it.
"""

from __future__ import annotations

import functools
from pathlib import Path

import click

from kerneldb.cli import answers, process
from kerneldb.cli.annotate import annotate
from kerneldb.cli.bounds import bounds
from kerneldb.cli.closure import closure
from kerneldb.cli.compare import compare, variants
from kerneldb.cli.completion import completion
from kerneldb.cli.diff import diff
from kerneldb.cli.doctor import doctor
from kerneldb.cli.export import export
from kerneldb.cli.ingest import ingest
from kerneldb.cli.inherit import inherit
from kerneldb.cli.lake import compact, init, migrate, pull, push
from kerneldb.cli.ncu_command import coverage, ncu_command
from kerneldb.cli.options import DatabaseType
from kerneldb.cli.query import query
from kerneldb.cli.record import record
from kerneldb.cli.refresh import refresh
from kerneldb.cli.replay import replay
from kerneldb.cli.report import report
from kerneldb.cli.root import DEFAULT_DATABASE, Root, Settings
from kerneldb.cli.schema import schema
from kerneldb.cli.show import show
from kerneldb.cli.top import top
from kerneldb.cli.traces import traces
from kerneldb.cli.tui import tui

HELP_OPTIONS = ["-h", "--help"]
COMMANDS: tuple[click.Command, ...] = (
    ingest, query, top, show, diff, compare, variants, annotate, *answers.COMMANDS, report, bounds, ncu_command,
    coverage, record, inherit, replay, closure, traces, export, doctor, schema, refresh, init, migrate, push, pull,
    compact, completion, tui,
)  # fmt: skip


def _print_version(ctx: click.Context, _parameter: click.Parameter, value: bool) -> None:
    if value and not ctx.resilient_parsing:
        from kerneldb import __version__

        click.echo(f"kerneldb {__version__}")
        ctx.exit()


@click.group(cls=Root, context_settings={"help_option_names": HELP_OPTIONS})
@click.option(
    "--version",
    is_flag=True,
    expose_value=False,
    is_eager=True,
    callback=_print_version,
    help="Show the version and exit.",
)
@click.option(
    "--db",
    type=DatabaseType(),
    default=DEFAULT_DATABASE,
    show_default=True,
    envvar="KERNELDB_DB",
    show_envvar=True,
    metavar="FILE",
    help="Database file or lake; may also follow the command.",
)
@click.pass_context
def cli(ctx: click.Context, db: str | Path) -> None:
    """Ask GPU-kernel traces questions in SQL.

    Traces go into one DuckDB file; every command reads that file.

    \b
      kerneldb ingest trace.json
      kerneldb top
      kerneldb query "SELECT op, sum(duration_ns) FROM kernels GROUP BY 1"
    """
    ctx.obj = Settings(database=db)


for _command in COMMANDS:
    cli.add_command(_command)


def main() -> None:
    """Entry point of the program `kerneldb`."""
    process.run(functools.partial(cli, prog_name="kerneldb"))
