"""The command line's tree: the program, its groups, and what every command in it has in common.

A command declares where it belongs by its decorator, `@analyze.command(…)` for `kerneldb analyze …`; `load` finds it.
Every command and group takes `--db`, and errors become messages and exit codes here.
"""

from __future__ import annotations

import dataclasses
import difflib
import functools
import importlib
import itertools
import os
import pkgutil
import re
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final, NoReturn

import click
from click.exceptions import NoArgsIsHelpError

from kerneldb.errors import KerneldbError, TraceError
from kerneldb.output import terminal
from kerneldb.output.text import escape
from kerneldb.shell import command_line, file, kerneldb, valued

DEFAULT_DATABASE: Final = "kernels.duckdb"
INTERRUPTED: Final = 130
LAKE: Final = "ducklake:"
HELP_OPTIONS: Final = ["-h", "--help"]
TASKS: Final = {
    "LOAD": ("ingest", "record", "traces"),
    "ASK": ("query", "top", "show", "tui", "serve"),
    "EXPLAIN": ("why", "diff", "history", "analyze", "ncu"),
    "REPLAY": ("replay", "improve"),
    "SHARE": ("report", "mcp", "skill"),
    "MAINTAIN": ("db",),
}
"""The headings of `kerneldb --help` with the commands and groups below each."""
NAMES: Final = tuple(name for names in TASKS.values() for name in names)


FOLDER: Final = Path(__file__).parent
NOT_COMMANDS: Final = "docs"
"""The module that writes docs/cli.md, which reads the tree of commands."""


def load(name: str) -> None:
    """Import what makes the command `name` whole: its own module where it has one, else those of all commands.

    All take more than a tenth of a second to import, which is as long as many a command works.
    """
    there = cli.commands.get(name)
    if there is None and name in NAMES and (FOLDER / f"{name}.py").exists():
        importlib.import_module(f"kerneldb.cli.{name}")
    elif there is None or isinstance(there, click.Group):
        load_all()


@functools.cache
def load_all() -> None:
    """Import every module here: each adds its commands to the program or to a group of it."""
    for module in pkgutil.iter_modules([str(FOLDER)]):
        if module.name != NOT_COMMANDS:
            importlib.import_module(f"kerneldb.cli.{module.name}")


@dataclasses.dataclass
class Settings:
    """What holds for the whole call: the database file, or the text that names a lake."""

    database: str | Path = Path(DEFAULT_DATABASE)


class DatabaseType(click.Path):
    """A path of a database file, or the text that names a lake."""

    def __init__(self) -> None:
        super().__init__(dir_okay=False, path_type=Path)

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        """The path, or the text of a lake as it is: slashes in it mean something."""
        return str(value) if str(value).startswith(LAKE) else super().convert(value, param, ctx)


def refuse(message: str) -> NoReturn:
    """End the call with what is wrong with it, and exit code 2."""
    raise click.UsageError(message)


def chosen_database() -> str | Path:
    """The file or lake that the current call is about, which need not exist."""
    return click.get_current_context().ensure_object(Settings).database


def program(*words: str) -> str:
    """The command line of a command on the database: with `--db` unless it takes this one without."""
    place = chosen_database()
    default = os.environ.get("KERNELDB_DB") or DEFAULT_DATABASE
    return kerneldb(*words, database=None if str(place) == default else place)


def _database_option(**more: Any) -> click.Option:
    def use(ctx: click.Context, _parameter: click.Parameter, value: str | Path | None) -> None:
        if value is not None:
            ctx.ensure_object(Settings).database = value

    text = "Database file or lake, before or after the command (default: KERNELDB_DB, else kernels.duckdb)."
    return click.Option(
        ["--db"], type=DatabaseType(), expose_value=False, callback=use, metavar="FILE", help=text, **more
    )


EXTRA: Final = re.compile(r"argument \((.*)\)$")
"""How click ends a complaint about one argument too many."""


class Command(click.Command):
    """A command; it takes `--db`, and says how names are given to it."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.params.append(_database_option())

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """As in click, with a hint where the name of a trace or of the database is in the wrong place."""
        names = [one.make_metavar(ctx) for one in self.params if isinstance(one, click.Argument)]
        options = {name: one for one in self.params if isinstance(one, click.Option) for name in one.opts}
        self._require_values(ctx, options, args)
        try:
            return super().parse_args(ctx, args)
        except click.NoSuchOption as error:
            if error.option_name == "--trace" and re.search("TRACE|NAME|BEFORE", " ".join(names)):
                text = f"traces are named without --trace here: {ctx.command_path} {' '.join(names)}"
                raise click.UsageError(text, ctx) from error
            raise
        except click.UsageError as error:
            if not names and error.message.startswith("Got unexpected"):
                found = EXTRA.search(error.message)
                given = command_line(valued("--trace", found[1] if found else "NAME"))
                name = f"{given} chooses a trace" if "--trace" in options else "--db FILE names the database"
                raise click.UsageError(f"{error.message}; {name}", ctx) from error
            raise

    def _require_values(self, ctx: click.Context, options: dict[str, click.Option], args: list[str]) -> None:
        """Refuse an option whose value would be the option after it."""
        for name, following in itertools.pairwise(itertools.takewhile("--".__ne__, args)):
            one = options.get(name)
            if one is not None and following.startswith("--") and following in options and not _may_lack(one):
                raise click.BadOptionUsage(
                    name, f"Option {name!r} needs {one.make_metavar(ctx)} before {following}.", ctx
                )


def _may_lack(option: click.Option) -> bool:
    """Whether the option is given without a value."""
    return option.is_flag or option.count or isinstance(option.flag_value, str)


class Group(click.Group):
    """A group of commands; it takes `--db`, and says where a command is that is not in it."""

    command_class = Command
    group_class: type[click.Group] | type[type] | None = type  # groups in it are of its own class

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.params.append(_database_option(envvar="KERNELDB_DB" if isinstance(self, Root) else None))

    def list_commands(self, _ctx: click.Context) -> list[str]:
        """The names of the commands in the order of their modules."""
        return list(self.commands)

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """As in click, but a name that is not here is looked for, and then for near ones, in the whole tree."""
        try:
            return super().resolve_command(ctx, args)
        except click.exceptions.NoSuchCommand as error:
            what = "command" if args[0].replace("-", "").isidentifier() else "command, file or folder"
            raise click.UsageError(f"no such {what} {args[0]!r}; {_elsewhere(args[0], ctx)}", ctx) from error


def _is_text(word: str) -> bool:
    """Whether an argument is UTF-8: all but the names of files have to be."""
    return not any("\ud800" <= one <= "\udfff" for one in word)


class Root(Group):
    """The program `kerneldb`; every command runs inside its error boundary."""

    group_class = Group

    def main(self, *args: Any, **kwargs: Any) -> Any:
        """As in click; no text that is written drives the terminal."""
        if "_KERNELDB_COMPLETE" in os.environ:
            from kerneldb.cli import shells

            shells.register()
        with terminal.guarded():
            return super().main(*args, **kwargs)

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """As in click; the help that a call without arguments gets names the database of the current folder."""
        for word in args:
            if not _is_text(word) and not Path(word).exists():
                raise click.UsageError(f"an argument is not UTF-8: {escape(word)}", ctx)
        try:
            return super().parse_args(ctx, args)
        except OSError as error:  # of help that cannot be written
            raise click.ClickException(f"output: {error.strerror or error}") from error
        except NoArgsIsHelpError as help_text:
            if not Path(DEFAULT_DATABASE).is_file():
                raise
            help_text.show()
            click.echo(f"\nkerneldb {DEFAULT_DATABASE} shows what the database of this folder says.", err=True)
            ctx.exit(help_text.exit_code)

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """As in click; where no command but a file or folder is named, its overview."""
        if args[0] not in NAMES and Path(args[0]).exists():
            from kerneldb.cli.overview import overview

            return "", overview, args
        return super().resolve_command(ctx, args)

    def list_commands(self, _ctx: click.Context) -> list[str]:
        """The commands in the order of their headings."""
        load_all()
        return list(NAMES)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """As in click; no module of another command is imported."""
        load(cmd_name)
        return super().get_command(ctx, cmd_name)

    def format_commands(self, _ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """The commands and groups by task."""
        load_all()
        width = max(map(len, self.commands))
        for task, names in TASKS.items():
            with formatter.section(task):
                formatter.write_dl([(name.ljust(width), self.commands[name].get_short_help_str(80)) for name in names])

    def invoke(self, ctx: click.Context) -> Any:
        """Run the command. Errors that kerneldb raises on purpose become one message; others stay tracebacks."""
        try:
            return super().invoke(ctx)
        except KerneldbError as error:
            raise Failure(error) from error
        except KeyboardInterrupt as error:
            raise Interrupted from error
        except BrokenPipeError:
            # The reader of stdout (`| head`) has what it wants, which is not a failure: the rest goes nowhere.
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
            ctx.exit()
        except OSError as error:
            if error.errno is None or error.strerror is None:
                raise
            from kerneldb.files import told

            raise click.ClickException(told(error)) from error


class Failure(click.ClickException):
    """A kerneldb error on its way to stderr, with the exit code of its class."""

    exit_code: int  # type: ignore[misc]  # click declares one per class; here each error brings its own

    def __init__(self, error: KerneldbError) -> None:
        # What is wrong with a file takes one line, whatever its name is; the engine marks a place over several.
        super().__init__(escape(str(error)) if isinstance(error, TraceError) else str(error))
        self.exit_code = error.exit_code


class Interrupted(click.ClickException):
    """Ctrl-C. Exit code 130, as shells report a process ended by SIGINT."""

    exit_code = INTERRUPTED

    def __init__(self) -> None:
        super().__init__("interrupted; the database is as it was before the unfinished step")


def tree(group: click.Group, *path: str) -> Iterator[tuple[tuple[str, ...], click.Command]]:
    """Every command and group below `group`, with the words that call it."""
    for name in group.list_commands(click.Context(group)):
        command = group.commands[name]
        yield (*path, name), command
        if isinstance(command, click.Group):
            yield from tree(command, *path, name)


KNOWN_ELSEWHERE: Final = {
    **dict.fromkeys(("stats", "summary", "kernels", "hotspots", "hot"), "top"),
    **dict.fromkeys(("list", "ls", "info"), "traces"),
    **dict.fromkeys(("counters", "metrics", "pmc", "details"), "show"),
    **dict.fromkeys(("import", "load", "add", "read"), "ingest"),
    **dict.fromkeys(("sql", "select"), "query"),
    **dict.fromkeys(("gaps",), "idle"),
    **dict.fromkeys(("variants",), "same-code"),
    **dict.fromkeys(("check", "validate"), "doctor"),
    **dict.fromkeys(("dump", "convert"), "export"),
}
"""What other tools call a command, and its name here."""


def _elsewhere(wrong: str, ctx: click.Context) -> str:
    """Where a command of that name is, else commands with near names."""
    root = ctx.find_root()
    if not isinstance(root.command, click.Group):
        raise TypeError
    paths = [path for path, _ in tree(root.command)]
    wrong = KNOWN_ELSEWHERE.get(wrong, wrong)
    found = [path for path in paths if wrong in (path[-1], "-".join(path), "_".join(path))]
    near = difflib.get_close_matches(wrong, {path[-1] for path in paths}, 3, 0.6)
    lead = "it is" if found else "did you mean"
    if not found and not near:
        return f"`{ctx.command_path} --help` lists the commands"
    listed = found or [path for name in near for path in paths if path[-1] == name]
    lines = " or ".join(f"`{root.info_name} {' '.join(path)}`" for path in listed)
    return f"{lead} {lines}" + ("" if found else "?")


def _version(context: click.Context, _: click.Parameter, wanted: bool) -> None:
    """Print the version, and which reader of PyTorch traces is installed."""
    if not wanted or context.resilient_parsing:
        return
    from importlib import metadata, util

    compiled = util.find_spec("kerneldb.ingest.pytorch._scan") is not None
    reader = "compiled" if compiled else "in Python: no C compiler was there when it was installed"
    click.echo(f"kerneldb {metadata.version('kerneldb')} (reader of PyTorch traces: {reader})")
    context.exit()


@click.group(
    cls=Root, subcommand_metavar="COMMAND [ARGS]... | PATH...", context_settings={"help_option_names": HELP_OPTIONS},
    no_args_is_help=True, invoke_without_command=True,
)  # fmt: skip
@click.pass_context
@click.option(
    "--version", is_flag=True, expose_value=False, is_eager=True, callback=_version, help="Show the version and exit."
)
def cli(context: click.Context) -> None:
    """Find out what runs on a GPU, and what it costs: kernels of profiler traces in one database.

    \b
      kerneldb trace.json.gz             what is slow in a trace, and what to do; nothing is kept
      kerneldb ingest trace.json.gz      read it into kernels.duckdb
      kerneldb top                       the kernels that take most time
      kerneldb query "SELECT op, sum(duration_ns) FROM kernels GROUP BY 1"
    """
    if context.invoked_subcommand is None:
        shown = kerneldb(file(chosen_database()))
        refuse(f"no command; `{shown}` shows what the database says, `kerneldb --help` lists the commands")


@cli.group(short_help="Idle time, overlap, roofline, fusion and more.")
def analyze() -> None:
    """Explain where the time of the selected launches goes: one question per command."""


@cli.group(short_help="Collect and read counters of Nsight Compute.")
def ncu() -> None:
    """Collect hardware counters of chosen kernels with Nsight Compute, and say what limits these kernels."""


@cli.group(short_help="Checks, export, schema, upkeep, lakes and more.")
def db() -> None:
    """Check, describe, export and maintain the database, and add to what it knows of kernels."""


@db.group(short_help="Share a database between machines.")
def lake() -> None:
    """Move traces between a database file and a lake, which many machines read and write at once.

    `kerneldb db init` makes a lake.
    """
