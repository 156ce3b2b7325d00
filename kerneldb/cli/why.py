"""`kerneldb why`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import click

from kerneldb.cli.console import emit_rows, note, plural
from kerneldb.cli.lacking import note_unknown, note_unsplit
from kerneldb.cli.options import READ_WAIT_S, open_database, output_options, trace_names
from kerneldb.cli.root import cli, program, refuse
from kerneldb.output.tables import terminal_width
from kerneldb.output.text import shorten, wrapped
from kerneldb.shell import Name, kerneldb, valued

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from kerneldb.api import Database, Result
    from kerneldb.output import Output
    from kerneldb.report.model import Advice
    from kerneldb.report.why import Verdict

TRACES: Final = 5
"""So many traces, those with most GPU time, are looked at where none is named."""
WIDTH: Final = 100
LINES: Final = 20
"""A sentence that is longer holds a name that nobody reads whole; `--json` has it."""
NOTHING: Final = "no GPU time: no trace holds launches or sums of them; kerneldb db doctor FILE says what a file lacks"
COLUMNS: Final = (
    "trace", "span_ns", "rule", "version", "at_stake_ns", "share_pct", "sentence", "remedy", "evidence", "command",
)  # fmt: skip


@cli.command(short_help="Why it takes so long, and what to do.")
@click.argument("traces", nargs=-1, metavar="[TRACE]...", shell_complete=trace_names)
@click.option("--trace", "named", multiple=True, metavar="NAME", shell_complete=trace_names, help="The same as TRACE.")
@click.option("--budget", is_flag=True, help="Show the wall time by cause, to the nanosecond, instead of sentences.")
@click.option("--by", type=click.Choice(("phase", "iteration")), help="With --budget: by these as well.")
@output_options
def why(traces: tuple[str, ...], *, named: tuple[str, ...], budget: bool, by: str | None, output: Output) -> None:
    """Show where the wall time of a trace went, what held it up, and what to do about it, most time first.

    Every nanosecond from the first launch to the last has one cause: computation; communication or copies that no
    computation hides; the host, which was late; launches that had not started yet. Each sentence says how sure it is,
    and which command shows more. Without TRACE: the traces with most GPU time. Formats for programs have a row per
    sentence; --budget has the times behind them (docs/why.md), each summed over n pieces of time: needed is what the
    work of a row takes at the peaks of the GPU, lost the rest. Communication is unsplit, waiting and transfer together,
    where not all ranks are in the database, and where it is a send or receive.

    \b
      kerneldb why
      kerneldb why decoder-h200
      kerneldb why decoder-h200 --json
      kerneldb why decoder-h200 --budget --by phase
    """
    from kerneldb.report import asking
    from kerneldb.report import why as verdicts

    if by is not None and not budget:
        refuse("--by goes with --budget")
    database = open_database(lock_timeout=READ_WAIT_S)
    chosen = list(dict.fromkeys(row["trace"] for name in (*traces, *named) for row in asking.named(database, name)))
    chosen = answering(database, chosen)
    if budget:
        result = database.wall_time(by, traces=chosen)
        note_unknown(by, result, "name")
        note_unsplit(result, "cause")
        if by is None and output.format == "table":
            result = result.without("name")
        emit_rows(result, output, None, None)
        return
    found = verdicts.verdicts(database, chosen or most_time(database))
    if not found:
        note(NOTHING)
    if output.format == "table":
        say(found, among_ranks(database, found), alone=database.scope()[0] == 1)
    else:
        emit_rows(_result(found), output, None, None)


def among_ranks(database: Database, found: Sequence[Verdict]) -> str:
    """Of several ranks of a job, who waits for whom, before what is said of each."""
    from kerneldb.report import ranks

    waiting = [one.trace for one in found if any(piece.rule == "late-rank" for piece in one.advice)]
    if len(found) < 2 or not waiting:  # noqa: PLR2004 (ranks)
        return ""
    width = min(WIDTH, terminal_width() or WIDTH)
    rows = database.analyze("collective_stragglers", traces=[one.trace for one in found]).rows()
    return "".join(f"{_wrapped(one, width)}\n" for one in ranks.sentences(rows))


def answering(database: Database, traces: Sequence[str]) -> list[str]:
    """The traces on which an answer about `traces` is: where another one has all that one of them holds, that one."""
    instead = {trace: (run, other) for trace, run, other in database.repeated_by(traces)}
    held = {row["trace"]: row["launches"] for row in database.traces([]).rows()} if instead else {}
    for trace, (run, other) in instead.items():
        own, all_ = plural(held[trace] or 0, "launch", "launches"), f"{held[other] or 0:,}"
        note(f"{trace}: its {own} are in {other}, too (run {run}); the answer is on that one, which has {all_}")
    return list(dict.fromkeys(instead[trace][1] if trace in instead else trace for trace in traces))


def most_time(database: Database) -> list[str]:
    """The traces with most GPU time; says so where there are more."""
    traces = database.by_time()
    if len(traces) > TRACES:
        note(f"the {plural(TRACES, 'trace')} with most GPU time, of {len(traces):,}; name others to ask about them")
    return traces[:TRACES]


def say(verdicts: Sequence[Verdict], lead: str = "", *, alone: bool = False) -> None:
    """Print verdicts for people; `alone`: the database has no other trace, so commands need not name it."""
    width = min(WIDTH, terminal_width() or WIDTH)
    for number, verdict in enumerate(verdicts):
        title = f"{verdict.trace}: {verdict.headline()}" if len(verdicts) > 1 else verdict.headline()
        lines = [lead] * bool(lead and number == 0) + [_wrapped(title, width)] * bool(title.strip(": "))
        click.echo("\n".join(["", *lines] if number else lines) or verdict.trace)
        for place, piece in enumerate(verdict.first(), 1):
            _say(place, piece, None if alone else verdict.trace, width)
        if not verdict.advice and verdict.has_kernels:
            click.echo("  Nothing stands out.")
        for line in verdict.unknown:
            click.echo(_wrapped(line, width, "  ", "  "))


def _say(number: int, piece: Advice, trace: str | None, width: int) -> None:
    """A sentence, what to do, how sure it is, and the command that shows more."""
    first, indent = f"  {number}. ", " " * 5
    click.echo(_wrapped(f"{piece.sentence} {piece.remedy}", width, first, indent))
    if piece.evidence:
        click.echo(_wrapped(f"({piece.evidence.rstrip('.')})", width, indent, indent))
    click.echo(indent + program(*command_of(piece, trace)))


def _wrapped(text: str, width: int, first: str = "", indent: str = "") -> str:
    return "\n".join(wrapped(shorten(text, LINES * width), width, first, indent))


def command_of(piece: Advice, trace: str | None) -> list[str]:
    """The words of the command that shows more, about `trace` where one is named and the command takes it."""
    words = [piece.command[0], *map(Name, piece.command[1:])] if piece.command[0] == "show" else list(piece.command)
    if trace is None or words[0] == "ncu":
        return words
    return ["why", Name(trace), *words[1:]] if words[0] == "why" else [*words, *valued("--trace", trace)]


def _result(verdicts: Sequence[Verdict]) -> Result:
    """A row per sentence."""
    import pyarrow as pa

    from kerneldb.api import Result

    kinds = {"span_ns": pa.int64(), "version": pa.int32(), "at_stake_ns": pa.int64(), "share_pct": pa.float64()}
    schema = pa.schema([(name, kinds.get(name, pa.string())) for name in COLUMNS])
    return Result(pa.Table.from_pylist(list(_rows(verdicts)), schema))


def _rows(verdicts: Sequence[Verdict]) -> Iterator[dict[str, Any]]:
    for verdict in verdicts:
        for piece in verdict.first():
            yield {
                "trace": verdict.trace,
                "span_ns": verdict.span_ns,
                "rule": piece.rule,
                "version": piece.version,
                "at_stake_ns": None if piece.at_stake_ns is None else round(piece.at_stake_ns),
                "share_pct": piece.row.get("share_pct"),
                "sentence": piece.sentence,
                "remedy": piece.remedy,
                "evidence": piece.evidence,
                "command": kerneldb(*command_of(piece, verdict.trace)),
            }
