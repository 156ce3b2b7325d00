"""`kerneldb db …`: making, describing and updating the database; shell completion."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import click

from kerneldb.cli import shells
from kerneldb.cli.console import emit, note
from kerneldb.cli.options import READ_WAIT_S, lock_timeout_option, objects, open_database, output_options
from kerneldb.cli.root import chosen_database, db, refuse

if TYPE_CHECKING:
    from kerneldb.output import Output

SHELLS: Final = ("bash", "zsh", "fish")


@db.command(short_help="Make a database or a lake.")
@click.option("--data", metavar="FOLDER", help="Folder or S3 prefix for the Parquet files of a new lake.")
@lock_timeout_option
def init(*, data: str | None, lock_timeout: float) -> None:
    """Make an empty database: a file, or a lake, which many programs on many machines read and write at once.

    `kerneldb ingest` makes a file where it is missing; a lake is only made here. A database that exists is not changed.

    \b
      kerneldb db init --db empty.duckdb
      kerneldb db init --db ducklake:sqlite:/shared/lake.sqlite --data /shared/kernels
      kerneldb db init --db 'ducklake:postgres:dbname=lake host=db' --data s3://bucket/kernels
    """
    from kerneldb.warehouse import upkeep
    from kerneldb.warehouse.place import Place

    upkeep.init(Place.of(chosen_database()), data, lock_timeout)
    note("the database is ready")


@db.command(short_help="Bring a database to the schema of this version.")
@lock_timeout_option
def migrate(*, lock_timeout: float) -> None:
    """Bring tables, views and macros to the schema of this version of kerneldb.

    Files are migrated when they are opened. In a lake, this changes the definitions for everybody: programs with an
    older kerneldb can still read, and cannot write to tables that have changed.

    \b
      kerneldb db migrate
    """
    from kerneldb.warehouse import upkeep
    from kerneldb.warehouse.place import Place

    before, now = upkeep.migrate_to_newest(Place.of(chosen_database()), lock_timeout)
    note(f"schema {before} → {now}" if before != now else f"schema {now}; views and macros are those of this version")


@db.command(short_help="Decode names and problem sizes anew.")
@click.option("--all", "everything", is_flag=True, help="Decode all, not only what an older kerneldb decoded.")
@click.option("-q", "--quiet", is_flag=True, help="No summary line.")
@lock_timeout_option
def refresh(*, everything: bool, quiet: bool, lock_timeout: float) -> None:
    """Decode kernel names and problem sizes anew, after an update of kerneldb.

    Only what is derived changes; nothing is read from the trace files again. Views and macros are brought up to date
    too, and the tables of `kerneldb analyze reconciliation` are written anew.

    \b
      kerneldb db refresh
      kerneldb db refresh --all
    """
    counts = open_database(lock_timeout=lock_timeout).refresh(everything=everything)
    if not quiet:
        note("refreshed: " + ", ".join(f"{table} {rows:,}" for table, rows in counts.items()))


@db.command(short_help="Tables, views, macros and their columns.")
@click.argument("name", required=False, metavar="[OBJECT]", shell_complete=objects)
@output_options
def schema(name: str | None, *, output: Output) -> None:
    """List tables, views and macros with their meaning; with OBJECT, an example, and its columns with types and units.

    \b
      kerneldb db schema
      kerneldb db schema kernels
    """
    database = open_database(lock_timeout=READ_WAIT_S)
    if name is not None:
        about = database.schema_about(name)
        note(f"{about['kind']} {name}: {about['meaning']}")
        for lead, part in (("", about["notes"]), ("example: ", about["example"])):
            if part:
                note(lead + part)
    emit(database.schema(name).to_reader(), output)


@db.command(short_help="Print the completion script of a shell.")
@click.argument("shell", type=click.Choice(SHELLS))
@click.pass_context
def completion(ctx: click.Context, shell: str) -> None:
    """Print the script that lets SHELL complete commands, options, names of traces, kernels and tables, and SQL.

    For the shell that runs (zsh: after `autoload -U compinit && compinit`):

    \b
      source <(kerneldb db completion bash)
      source <(kerneldb db completion zsh)
      kerneldb db completion fish | source

    For every new shell, write that line into ~/.bashrc, ~/.zshrc or config.fish; or, so that they start as fast as
    before, make a file that they read when it is needed:

    \b
      mkdir -p ~/.local/share/bash-completion/completions ~/.zfunc ~/.config/fish/completions
      # only where the package bash-completion is installed:
      kerneldb db completion bash > ~/.local/share/bash-completion/completions/kerneldb
      # with fpath=(~/.zfunc $fpath) before compinit in ~/.zshrc:
      kerneldb db completion zsh > ~/.zfunc/_kerneldb
      kerneldb db completion fish > ~/.config/fish/completions/kerneldb.fish
    """
    from click.shell_completion import get_completion_class

    shells.register()
    kind = get_completion_class(shell)
    if kind is None:
        refuse(f"no completion for {shell}")
    click.echo(kind(ctx.find_root().command, {}, "kerneldb", shells.VARIABLE).source())
