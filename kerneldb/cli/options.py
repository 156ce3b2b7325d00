"""Options that several commands share, each declared once."""

from __future__ import annotations

import contextlib
import dataclasses
import functools
import os
import re
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar, cast

import click

from kerneldb.cli import shells, working
from kerneldb.cli.console import note
from kerneldb.cli.root import Settings, chosen_database, refuse
from kerneldb.output import FORMATS, Format, Output, format_of
from kerneldb.output.text import escape

if TYPE_CHECKING:
    from kerneldb.api import Database
    from kerneldb.api.completion import Offers, Words
    from kerneldb.replay.options import Flag
    from kerneldb.warehouse import Warehouse

    _Choice = click.Choice[str]
else:
    _Choice = click.Choice  # click 8.1 has no types of choices

Command = TypeVar("Command", bound=Callable[..., None])

WORD = re.compile(r"\w+|'[\w:.+/ -]+'")
"""What completion puts into a condition outside of double quotes."""
GLOB = re.compile(r"[*?\[]")
"""What is in a pattern of names."""
LOCK_TIMEOUT_S = 30.0
READ_WAIT_S = 3.0
"""How long commands that only read, and have no --lock-timeout, wait for a writer; a commit rarely takes longer."""


def open_database(*, create: bool = False, lock_timeout: float = LOCK_TIMEOUT_S) -> Database:
    """The database that the current call is about. Raises WarehouseMissingError unless `create`."""
    from kerneldb import api

    working.begin()
    return api.open(chosen_database(), create=create, lock_timeout=lock_timeout)


def trace_names(ctx: click.Context, _parameter: click.Parameter, incomplete: str) -> list[str]:
    """Names of traces for the completion of a shell."""
    return _completed(ctx, "name", "trace_names", {}, incomplete)


def kernel_names(ctx: click.Context, _parameter: click.Parameter, incomplete: str) -> list[str]:
    """Names of kernels (up to what a shell would take apart), else ids of signatures, for the completion of a shell."""
    given = ("signature_ids", {"text": incomplete, "traces": None}, incomplete)
    return _completed(ctx, "kernel", *given) or _completed(ctx, "signature_id", *given)


def signature_ids(ctx: click.Context, _parameter: click.Parameter, incomplete: str) -> list[str]:
    """Ids of signatures for the completion of a shell."""
    return _completed(ctx, "signature_id", "signature_ids", {"text": incomplete, "traces": None}, incomplete)


def objects(ctx: click.Context, _parameter: click.Parameter, incomplete: str) -> list[str]:
    """Names of tables, views and macros for the completion of a shell."""
    return _completed(ctx, "object", "serve_schema", {}, incomplete)


def phases(ctx: click.Context, _parameter: click.Parameter, incomplete: str) -> list[str]:
    """Names of phases for the completion of a shell."""
    return _completed(ctx, "phase", "phase_names", {}, incomplete)


def conditions(ctx: click.Context, _parameter: click.Parameter, incomplete: str) -> list[str]:
    """A condition with its last word completed: a column of `kernels`, or a value that one of its columns has.

    Of names that the database holds only those that say nothing to a shell: within double quotes they may have blanks,
    brackets and the like. In any case of letters, but of one alone: a shell takes back what its offers do not have in
    common.
    """
    return _completed_sql(ctx, incomplete, lambda words: words.in_condition(incomplete))


def statements(ctx: click.Context, _parameter: click.Parameter, incomplete: str) -> list[str]:
    """An SQL statement with its last word completed, as a condition is."""
    return _completed_sql(ctx, incomplete, lambda words: words.at(incomplete))


def _completed_sql(ctx: click.Context, incomplete: str, offered: Callable[[Words], Offers]) -> list[str]:
    def found(warehouse: Warehouse) -> list[str]:
        from kerneldb.api import completion

        with warehouse.connection() as con:
            offers = offered(completion.words(con))
        begun, start = offers.begun, incomplete[: len(incomplete) - len(offers.begun)]
        says_nothing = _quoted if shells.open_quote() == '"' else WORD.fullmatch
        words = [one.word for one in offers.found if says_nothing(one.word)]
        words = [word for word in words if word.lower().startswith(begun.lower())]
        spelled = sorted({word[: len(begun)] for word in words}, key=lambda one: (one != begun, one))[:1]
        whole = [start + word for word in words if [word[: len(begun)]] == spelled]
        # A shell closes the quote behind an only offer, and a statement goes on behind the name of a column.
        goes_on = len(whole) == 1 and shells.open_quote() == '"' and not whole[0].endswith("'")
        return [*whole, *(one + " " for one in whole if goes_on)]

    return _answered(ctx, found)


def _quoted(word: str) -> bool:
    """Whether a shell takes the word as it is within double quotes."""
    return shells.ACTIVE.search(word) is None and escape(word) == word


def _completed(
    ctx: click.Context, column: str, statement: str, parameters: dict[str, Any], incomplete: str
) -> list[str]:
    """What a column of a statement has that begins with `incomplete`; nothing where the database is not there.

    Each up to the first character that a shell takes apart or a terminal acts on: click hands over bytes as they are.
    """

    def found(warehouse: Warehouse) -> list[str]:
        from kerneldb.api.queries import ask

        return [row[column] or "" for row in ask(warehouse, statement, parameters)]

    names = (re.match(r"[^\s<>()&*'\",;|$`]*", name) for name in _answered(ctx, found))
    shown = (os.path.commonprefix([name[0], escape(name[0])]) for name in names if name)  # noqa: RUF071 (of characters)
    return [name for name in dict.fromkeys(shown) if name.startswith(incomplete)]


def _answered(ctx: click.Context, work: Callable[[Warehouse], list[str]]) -> list[str]:
    """What `work` finds in the database; nothing where that is not there or not to be had."""
    from kerneldb import api

    place = ctx.ensure_object(Settings).database
    with contextlib.suppress(Exception), api.open(place, create=False, lock_timeout=0) as database:
        return work(database.warehouse)
    return []


def lock_timeout_option(command: Command) -> Command:
    """`--lock-timeout` of commands that write, or may."""
    return click.option(
        "--lock-timeout",
        type=click.FloatRange(min=0),
        default=LOCK_TIMEOUT_S,
        show_default=True,
        metavar="SECONDS",
        help="How long to wait while another process holds the database.",
    )(command)


def limit_option(default: int | None) -> Callable[[Command], Command]:
    """`--limit`; `default` is how many rows a table shows without it (None: all, as in other formats)."""
    shown = "all" if default is None else f"{default} of a table, all in other formats"
    return click.option(
        "--limit", type=click.IntRange(min=0), metavar="N", help=f"Rows to show (default: {shown}; 0: all)."
    )


class Grouping(_Choice):
    """What to sum by; what people call otherwise (operator) is told its name here."""

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        """One of the choices. Raises click.BadParameter, which says what may be meant."""
        from kerneldb.warehouse.near import near_columns

        try:
            return super().convert(value, param, ctx)
        except click.BadParameter as error:
            near = near_columns(str(value), self.choices)
            if not near:
                raise
            raise click.BadParameter(f"{error.message} Did you mean {near[0]}?", ctx, param) from error


def selection_options(command: Command) -> Command:
    """`--where` and `--trace`: which launches a command is about."""
    where = click.option(
        "--where",
        metavar="TEXT",
        shell_complete=conditions,
        help="SQL condition over the view `kernels`, for example \"category = 'GEMM'\".",
    )
    return where(trace_option(command))


def trace_option(command: Command) -> Command:
    """`--trace`: which traces a command is about; what is none but fits some as a pattern stands for these."""

    @functools.wraps(command)
    def wrapper(*given: Any, traces: tuple[str, ...], **more: Any) -> None:
        if any(GLOB.search(name) for name in traces):
            from kerneldb.api import analyses

            warehouse = open_database(lock_timeout=READ_WAIT_S).warehouse
            found = [one for name in traces for one in analyses.traces_named(warehouse, name)]
            traces = tuple(dict.fromkeys(found))
        command(*given, traces=traces, **more)

    return click.option(
        "--trace",
        "traces",
        multiple=True,
        metavar="NAME",
        shell_complete=trace_names,
        help="Only this trace, or those that fit it as a pattern ('rank*'); may be given several times.",
    )(cast("Command", wrapper))


def trace_argument(command: Command) -> Command:
    """`[TRACE]...` beside the `--trace` of a command that is about traces and nothing else: the same, patterns too."""

    @functools.wraps(command)
    def wrapper(*given: Any, named: tuple[str, ...], traces: tuple[str, ...], **more: Any) -> None:
        command(*given, traces=tuple(dict.fromkeys((*named, *traces))), **more)

    words = click.argument("named", nargs=-1, metavar="[TRACE]...", shell_complete=trace_names)
    return words(cast("Command", wrapper))


def plot_option(command: Command) -> Command:
    """`--plot FILE`; ending and libraries are checked before anything is asked."""
    return click.option(
        "--plot",
        type=click.Path(dir_okay=False, path_type=Path),
        callback=_checked,
        metavar="FILE",
        help="Also draw the rows as a chart: FILE.svg, FILE.png or FILE.html.",
    )(command)


def _checked(_ctx: click.Context, _parameter: click.Parameter, value: Path | None) -> Path | None:
    if value is not None:
        from kerneldb.report import charts

        charts.check(value)
    return value


def draw(name: str, rows: list[dict[str, Any]], path: Path | None) -> None:
    """Draw the rows of the answer `name` to `path`, if there is one, and say so."""
    if path is None:
        return
    from kerneldb.report import charts

    charts.save(name, rows, path)
    note(f"drew {path}")


def flag_options(options: type[Any]) -> Callable[[Command], Command]:
    """An option for each field of the dataclass `options` that is for everyone (see `kerneldb.replay.options.Flag`)."""
    from kerneldb.replay.options import flags

    def add(command: Command) -> Command:
        for field, flag in reversed(flags(options)):
            if not flag.expert:
                _flag_option(options, field, flag)(command)
        return command

    return add


def replay_options(command: Callable[..., None]) -> Callable[..., None]:
    """The options of a replay (see `kerneldb.replay.options`); the command receives them as one `options: Options`."""
    from kerneldb.replay.options import Options, flags

    @functools.wraps(command)
    def wrapper(*args: Any, **kwargs: Any) -> None:
        chosen = {field.name: kwargs.pop(field.name) for field, flag in flags(Options) if not flag.expert}
        command(*args, options=Options(**chosen), **kwargs)

    return flag_options(Options)(wrapper)


def _flag_option(
    options: type[Any], field: dataclasses.Field[Any], flag: Flag
) -> Callable[[Callable[..., None]], Callable[..., None]]:
    from kerneldb.replay.options import scalar, switch

    name, default = switch(field.name, flag), field.default
    same: dict[str, Any] = {"help": flag.help, "metavar": flag.metavar}
    if isinstance(default, bool):
        both = f"{name}/--no-{name[2:]}" if default else name
        return click.option(both, field.name, is_flag=True, default=default, show_default=default, help=flag.help)
    if isinstance(default, tuple):
        return click.option(name, field.name, multiple=True, **same)
    kind: Any = scalar(options, field.name)
    if flag.choices:
        kind = click.Choice(flag.choices)
    elif flag.least is not None:
        kind = click.IntRange(int(flag.least)) if kind is int else click.FloatRange(flag.least)
    return click.option(name, field.name, type=kind, default=default, show_default=default is not None, **same)


def output_options(command: Callable[..., None], default: Format = "table") -> Callable[..., None]:
    """The options of all commands that print data; the command receives them as one `output: Output`."""

    @functools.wraps(command)
    def wrapper(*args: Any, **kwargs: Any) -> None:
        chosen = _format(kwargs.pop("layout"), csv=kwargs.pop("as_csv"), json=kwargs.pop("as_json"))
        path = kwargs.pop("output_path")
        output = Output(
            format=chosen or (format_of(path) if path else None) or default,
            path=path,
            header=not kwargs.pop("no_header"),
            wide=kwargs.pop("wide"),
            safe_cells=kwargs.pop("safe_cells"),
        )
        if output.safe_cells and output.format != "csv":
            refuse("--safe-cells is for CSV: add --csv")
        if path is not None and path.suffix and not chosen and output.format == "table" != format_of(path):
            note(f"{path.name} gets a table as text; exact: a name that ends in .csv, .json, .parquet or .arrow")
        command(*args, output=output, **kwargs)

    for option in reversed(_OUTPUT_OPTIONS):
        option(wrapper)
    text = f"Default: by the suffix of -o FILE, else {default}. All but tables have exact values in ns, bytes, mJ."
    return click.option("--format", "layout", type=click.Choice(FORMATS), help=text)(wrapper)


def format_given() -> bool:
    """Whether the current call asked for a format, by option or by the name of its output file."""
    parameters = click.get_current_context().params
    path = parameters.get("output_path")
    named = any(parameters.get(name) for name in ("layout", "as_csv", "as_json"))
    return named or (path is not None and format_of(path) is not None)


def pairs(values: tuple[str, ...]) -> dict[str, str]:
    """The mapping of KEY=VALUE texts. Raises click.BadParameter for anything else."""
    found = {}
    for text in values:
        key, separator, value = text.partition("=")
        if not separator or not key.strip():
            raise click.BadParameter(f"{text!r} is not KEY=VALUE")
        found[key.strip()] = value
    return found


def _format(layout: str | None, *, csv: bool, json: bool) -> Format | None:
    named: list[Format] = [
        name for name in FORMATS if name == layout or (csv and name == "csv") or (json and name == "json")
    ]
    if len(named) > 1:
        refuse(f"choose one format: {' or '.join(named)}")
    return named[0] if named else None


def _output_path(_ctx: click.Context, _parameter: click.Parameter, value: Path | None) -> Path | None:
    return None if value == Path("-") else value


_OUTPUT_OPTIONS = (
    click.option("--csv", "as_csv", is_flag=True, help="Same as --format csv."),
    click.option("--json", "as_json", is_flag=True, help="Same as --format json."),
    click.option(
        "-o",
        "--output",
        "output_path",
        type=click.Path(dir_okay=False, path_type=Path),
        callback=_output_path,
        metavar="FILE",
        help="Write to FILE instead of stdout; FILE appears when it is complete.",
    ),
    click.option("--no-header", is_flag=True, help="No header line (table, csv)."),
    click.option("--wide", is_flag=True, help="All columns and long text whole on a terminal, too."),
    click.option("--safe-cells", is_flag=True, help="CSV for spreadsheets: texts that are formulas get a ' before."),
)
