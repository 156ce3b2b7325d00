"""`kerneldb ingest`."""

from __future__ import annotations

import functools
import re
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from kerneldb.cli.console import MEGABYTE, NAMED, Progress, emit, emit_columns, note, plural
from kerneldb.cli.options import lock_timeout_option, open_database, output_options, pairs
from kerneldb.cli.root import cli, refuse
from kerneldb.shell import Name, file, kerneldb

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from kerneldb.api import Database, IngestOptions, Outcome
    from kerneldb.api.ingestion import Linked, ReportEntry
    from kerneldb.output import Output

NOTES = (
    click.option(
        "--set", "--tag", "tags", multiple=True, metavar="KEY=VALUE",
        help="Note on the traces; may be given several times.",
    ),
    click.option("--commit", metavar="auto|SHA", help="Commit of the program; auto: of the current folder, by git."),
    click.option("--branch", metavar="NAME", help="Its branch (auto: that of the current folder)."),
    click.option("--ci", is_flag=True, help="Take commit and branch from the variables of the CI service."),
)  # fmt: skip
UNKNOWN = "new to this version of kerneldb"
"""How the reason ends where nothing is known of what was skipped (`ingest.ledger`)."""
TWICE = re.compile(r"the same links come from|say the same$|^mark .*: (read as|names and order of)|^table ENUM")
"""Reasons of what is read another way, or says how a viewer draws: it is in the report, and no loss."""
LEFT_EMPTY = re.compile(r"^(?:value|cell) of .*: left empty$|\bno (?:such )?numbers?\b")
"""Reasons of values of stored rows that are no such values: the file is damaged there."""
WORTH_A_LINE = ("repaired", "refused", "lost", "truncated")
LOST = ("lost", "truncated")
"""What a trace does not have that its program did: said in any case."""


def notes_options(command: Callable[..., None]) -> Callable[..., None]:
    """`--set` and what notes the commit; the command receives all as one `notes: dict[str, str]`."""

    @functools.wraps(command)
    def wrapper(*args: Any, **kwargs: Any) -> None:
        commit, branch, ci, tags = (kwargs.pop(name) for name in ("commit", "branch", "ci", "tags"))
        notes = {}
        if commit is not None or branch is not None or ci:
            from kerneldb.api.commits import notes_of

            notes = notes_of(commit, branch, ci=ci)
        command(*args, notes=notes | pairs(tags), **kwargs)

    for option in reversed(NOTES):
        option(wrapper)
    return wrapper


@cli.command(short_help="Read traces into the database.")
@click.argument("paths", nargs=-1, metavar="PATH...", type=click.Path(path_type=Path))
@click.option("--label", metavar="TEXT", help="Your description of the traces; it is shown beside their names.")
@click.option("--phase", metavar="NAME", help="Phase of the launches that no annotation names.")
@click.option("--name", metavar="NAME", help="Name of the trace (default: from the file name). For one trace only.")
@click.option(
    "--run",
    metavar="NAME",
    help="Name of the program run that the traces belong to (default: found out where the traces prove it).",
)
@notes_options
@click.option("--replace", is_flag=True, help="Read traces again that are in the database already.")
@click.option("--keep-environment", is_flag=True, help="Keep recorded environment variables and command lines.")
@click.option("--time-zone", metavar="ZONE", help="Time zone of logs with local times (default: this machine's).")
@click.option("--date", metavar="DAY", help="Date of the first row of logs with times of day only (2026-11-21).")
@click.option(
    "--triton-sources",
    multiple=True,
    metavar="DIR",
    type=click.Path(exists=True, file_okay=False, path_type=Path),
    help="Folder with sources of Triton kernels, such as TorchInductor's cache; matched to kernels by hash.",
)
@click.option(
    "--ray", is_flag=False, flag_value="", metavar="[ADDRESS]",
    help="Into a lake: read in tasks of a Ray cluster (default: RAY_ADDRESS, else this machine).",
)  # fmt: skip
@click.option("--shard", metavar="I/N", help="One of N shares of the traces (0/8 … 7/8), for arrays of jobs.")
@click.option(
    "-q", "--quiet", is_flag=True, help="No progress and no summary lines; only errors, and what a trace has lost.",
)  # fmt: skip
@lock_timeout_option
@output_options
def ingest(
    paths: tuple[Path, ...],
    *,
    label: str | None,
    phase: str | None,
    name: str | None,
    run: str | None,
    notes: dict[str, str],
    replace: bool,
    keep_environment: bool,
    time_zone: str | None,
    date: str | None,
    triton_sources: tuple[Path, ...],
    ray: str | None,
    shard: str | None,
    quiet: bool,
    lock_timeout: float,
    output: Output,
) -> None:
    """Read traces into the database, which is created where it is missing.

    PATH is a trace file, a zip, or a folder with any of them; the content says which profiler wrote it. A trace whose
    content is in the database already is left as it is, whatever its name. A trace is stored whole or not at all, and a
    file that cannot be read does not stop the others; the exit code is then 1. Several large traces are read at once,
    by as many processes as there are cores and GiB of free memory, and stored in the order given.

    stdout gets a row per trace; stderr progress, summaries, and what of a folder only other tools read (no error).

    \b
      kerneldb ingest examples/decoder-h200.json.gz
      kerneldb ingest ranks/ --run job-17 --set precision=bf16
      kerneldb ingest nightly/ --commit auto --tag workload=decode
    """
    from kerneldb.api import IngestOptions

    wanted = IngestOptions(
        label, phase, name, run, notes, replace, keep_environment, time_zone, date, triton_sources, _shard(shard)
    )
    (address, paths), outcomes = _ray(ray, paths), []
    database = open_database(create=True, lock_timeout=lock_timeout)
    with Progress(quiet=quiet) as progress:
        for outcome in _found(database, paths, wanted, progress, address):
            progress.clear()
            _report(outcome, wanted, quiet=quiet)
            outcomes.append(outcome)
    _emit(outcomes, output, quiet=quiet)
    if not quiet:
        _note_next(database, outcomes, in_history="commit" in notes)
    if any(outcome.error for outcome in outcomes):
        click.get_current_context().exit(1)


def note_left_out(paths: Sequence[Path]) -> None:
    """Say which files of folders are of a profiler and are not read, and what to do with them."""
    from kerneldb.api.ingestion import left_out

    found = left_out(paths)
    for line in found[:NAMED]:
        note(f"left out: {line}")
    if len(found) > NAMED:
        note(f"left out: {plural(len(found) - NAMED, 'more file', 'more files')} of this kind")


def _note_next(database: Database, outcomes: Sequence[Outcome], *, in_history: bool) -> None:
    """Say what to ask of what was loaded, and where the history was not looked at."""
    if any(outcome.launches for outcome in outcomes):
        note("what holds it up: kerneldb why; where the time goes: kerneldb top; all of it: kerneldb tui")
    if not in_history:
        return
    from kerneldb.api.history import MISSING

    due = database.history().due
    if due:
        note(f"{plural(due, 'run is', 'runs are')} in the history; {MISSING}")


def _emit(outcomes: Sequence[Outcome], output: Output, *, quiet: bool) -> None:
    from kerneldb.api.ingestion import outcome_columns, outcome_table

    if quiet and output.path is None and output.format == "table":
        return
    if output.format == "table":
        columns = outcome_columns(outcomes)
        if output.path is None:
            del columns["error"]  # which stands above, on a line of its own
        emit_columns(columns, output)
    else:
        emit(outcome_table(outcomes).to_reader(), output)


def _found(
    database: Database, paths: Sequence[Path], wanted: IngestOptions, progress: Progress, address: str | None
) -> Iterator[Outcome]:
    note_left_out(paths)
    if address is None:
        return database.ingest_each(paths, wanted, progress)
    return database.ingest_with_ray(paths, wanted, address or None)


def _shard(text: str | None) -> tuple[int, int] | None:
    """The number and the count of `I/N`. Raises click.BadParameter unless 0 ≤ I < N."""
    if text is None:
        return None
    number, _, count = text.partition("/")
    if not (number.isdecimal() and count.isdecimal() and int(number) < int(count)):
        raise click.BadParameter(f"{text!r} is not I/N with 0 ≤ I < N", param_hint="--shard")
    return int(number), int(count)


def _ray(value: str | None, paths: tuple[Path, ...]) -> tuple[str | None, tuple[Path, ...]]:
    """The address (None: no Ray), and the paths: a first one behind `--ray` is taken for its address by the parser."""
    if value:
        from kerneldb.api.clustering import is_address

        if not is_address(value):
            value, paths = "", (Path(value), *paths)
    if not paths:
        refuse("Missing argument 'PATH...'.")
    return value, paths


def _report(outcome: Outcome, wanted: IngestOptions, *, quiet: bool) -> None:
    if outcome.error is not None:
        note(f"Error: {outcome.error}")
    elif quiet:
        if lost := [f"{one.outcome} {one.n:,}: {one.reason}" for one in outcome.report if one.outcome in LOST]:
            note("; ".join([f"{outcome.trace}: {outcome.status}", *lost]))
    else:
        note(summary(outcome))
        for line in warnings(outcome, wanted):
            note(line)


def warnings(outcome: Outcome, wanted: IngestOptions) -> Iterator[str]:
    """What the user may have expected of a trace and did not get, one line each."""
    ignored = _ignored(outcome, wanted)
    if ignored:
        yield f"{outcome.trace}: {', '.join(ignored)} not applied, the trace keeps what it has; {_remedy(ignored)}"
    yield from _links(outcome.trace or "", outcome.linked)
    if outcome.launches == 0 and any("power samples" in entry.reason for entry in outcome.report):
        yield from (f"{outcome.trace}: {entry.reason}" for entry in outcome.report if entry.outcome == "note")
    elif outcome.launches == 0 and not outcome.sums:
        yield f"{outcome.trace}: no GPU activity in it; see: {kerneldb('db', 'doctor', file(outcome.path))}"


def _links(trace: str, linked: Sequence[Linked]) -> Iterator[str]:
    """What a trace was joined with, and what it could be joined with, one line for each kind."""
    prints = [one for one in linked if one.relation == "print" and one.joined]
    ranks = [one for one in linked if one.relation == "job" and one.joined]
    apart = [one for one in linked if one.relation in ("job", "hint") and not one.joined]
    if prints:
        first = prints[0]
        yield f"{trace}: the same launches as {_others(prints)}, summed once ({first.evidence}; run {first.run})"
    if ranks:
        yield f"{trace}: of one job with {_others(ranks)} ({ranks[0].evidence}; run {ranks[0].run})"
    if apart and not ranks:
        is_one_job = len({one.rank for one in apart}) == len(apart)
        others = (one.other for one in apart) if is_one_job else ("OTHER",)
        joining = kerneldb("traces", *map(Name, (trace, *others)), "--run", "NAME")
        yield (
            f"{trace}: may be of one job with {_others(apart)}, but nothing proves it ({apart[0].evidence}); "
            f"if it is: {joining}"
        )


def _others(linked: Sequence[Linked]) -> str:
    more = len(linked) - NAMED
    return ", ".join(one.other for one in linked[:NAMED]) + (f" and {more:,} more" if more > 0 else "")


def _ignored(outcome: Outcome, wanted: IngestOptions) -> list[str]:
    """The given options that a trace which is there already does not take over."""
    named = wanted.name is not None and wanted.name != outcome.trace
    given = {
        "--name": named,
        "--run": wanted.run is not None,
        "--label": wanted.label is not None,
        "--phase": wanted.phase is not None,
        "--set": bool(wanted.tags),
        "--time-zone": wanted.time_zone is not None,
        "--date": wanted.date is not None,
        "--triton-sources": bool(wanted.triton_sources),
    }
    kept = {"unchanged": tuple(given), "replaced": ("--name",)}.get(outcome.status, ())
    return [option for option in kept if given[option]]


def _remedy(ignored: list[str]) -> str:
    ways = {
        "--name": "kerneldb traces --rename OLD NEW",
        "--run": "kerneldb traces NAME --run RUN",
        "--set": "kerneldb traces NAME --set KEY=VALUE",
    }
    return "use: " + ", or ".join(dict.fromkeys(ways.get(option, "kerneldb ingest --replace") for option in ignored))


def summary(outcome: Outcome) -> str:
    """One line about a trace that was read, or was there already."""
    if outcome.status == "unchanged":
        return f"{outcome.trace}: unchanged, already in the database ({outcome.path})"
    counts = f"{plural(outcome.launches or 0, 'launch', 'launches')}, {plural(outcome.ops or 0, 'op')}"
    size = (outcome.bytes or 0) / MEGABYTE
    speed = f" ({size / outcome.seconds:,.0f} MB/s)" if outcome.seconds and size >= max(1, outcome.seconds) else ""
    line = f"{outcome.trace}: {outcome.status}, {counts} in {outcome.seconds:.1f} s{speed}"
    return "; ".join([line, *_remarks(outcome)])


def _remarks(outcome: Outcome) -> Iterator[str]:
    """Exceptions of an ingest, and of what was skipped the part that matters most: what is new, else what is most."""
    for entry in outcome.report:
        if entry.outcome in WORTH_A_LINE:
            yield f"{entry.outcome} {entry.n:,}: {entry.reason}"
    skipped = [one for one in outcome.report if one.outcome == "skipped" and not TWICE.search(one.reason)]
    if skipped:
        yield _most(outcome, skipped, ("row or event", "rows or events"), "left out")
    if empty := [one for one in outcome.report if one.outcome == "unread" and LEFT_EMPTY.search(one.reason)]:
        yield _most(outcome, empty, ("value", "values"), "unread")


def _most(outcome: Outcome, entries: Sequence[ReportEntry], what: tuple[str, str], became: str) -> str:
    """How many there are, the reason that matters most, and where the others are."""
    first = max(entries, key=lambda entry: (entry.reason.endswith(UNKNOWN), entry.n))
    part = "" if len(entries) == 1 else f", {first.n:,} of them"
    told = kerneldb("traces", Name(outcome.trace or ""), "--report")
    return f"{plural(sum(entry.n for entry in entries), *what)} {became}{part}: {first.reason} ({told})"
