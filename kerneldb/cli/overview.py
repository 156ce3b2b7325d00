"""`kerneldb PATH`: what a trace or a database says at first sight, and what to ask next."""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import click

from kerneldb.cli.console import Progress, emit_columns, note, plural
from kerneldb.cli.ingest import note_left_out, summary
from kerneldb.cli.options import READ_WAIT_S, open_database
from kerneldb.cli.root import DEFAULT_DATABASE, Command, Settings, program
from kerneldb.cli.why import most_time, say
from kerneldb.output import Output
from kerneldb.shell import Name, file

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from kerneldb.api import Database

    Rows = Sequence[Mapping[str, Any]]

ROWS: Final = 6
NOTABLE: Final = 0.05
NO_TIMELINE: Final = "No timeline: the traces hold sums or counters of kernels only."
NO_KERNELS: Final = "No kernels, copies or fills were recorded; kerneldb db doctor FILE says what the trace lacks."


@click.command("overview", cls=Command, short_help="What a trace or a database says at first sight.")
@click.argument("paths", nargs=-1, required=True, metavar="PATH...", type=click.Path(exists=True, path_type=Path))
def overview(paths: tuple[Path, ...]) -> None:
    """Show where the time of traces or of a database goes, what could be faster, and what to ask next.

    PATH is a database, or trace files and folders of them. Traces are read into a temporary database, which is removed.
    """
    if len(paths) == 1 and _is_database(paths[0]):
        click.get_current_context().ensure_object(Settings).database = paths[0]
        _page(open_database(lock_timeout=READ_WAIT_S), [])
        return
    with tempfile.TemporaryDirectory(prefix="kerneldb-") as folder:
        # Show what the traces say
        from kerneldb import api

        note_left_out(paths)
        with api.open(Path(folder, DEFAULT_DATABASE)) as database, Progress() as progress:
            outcomes = []
            for outcome in database.ingest_each(paths, api.IngestOptions(), progress):
                progress.clear()
                note(f"Error: {outcome.error}" if outcome.error else summary(outcome))
                outcomes.append(outcome)
            if any(outcome.error is None for outcome in outcomes):
                _page(database, [program("ingest", *map(file, paths))])
        is_whole = bool(outcomes) and not any(outcome.error for outcome in outcomes)
    if not is_whole:
        click.get_current_context().exit(1)


def _is_database(path: Path) -> bool:
    """Whether the file is one of DuckDB."""
    if not path.is_file():
        return False
    with path.open("rb") as file:
        return file.read(12).endswith(b"DUCK")


def _page(database: Database, keep: list[str]) -> None:
    """The overview; `keep` are the commands that store the traces where these are only read for it."""
    from kerneldb.api.adding_up import scope

    count, gpus = database.scope()
    click.echo(scope(count, gpus) if count else "no traces")
    if not count:
        return
    from kerneldb.report import contents, why

    click.echo()
    chosen = most_time(database)
    say(why.verdicts(database, chosen), contents.WHY, alone=count == 1)
    among = chosen if count > len(chosen) else []  # the intervals of all launches of a large database take minutes
    of = f" of the {plural(len(among), 'trace')} with most" if among else ""
    devices = sorted(database.analyze("gpu_time", traces=among).rows(), key=lambda row: -(row["busy_ns"] or 0))
    _table(f"GPU time{of}", devices, "trace", "device", "n", "span_ns", "busy_ns", "busy_pct", *_exposed(devices))
    if not devices:
        click.echo(f"\n{NO_TIMELINE if database.top('kernel').rows() else NO_KERNELS}")
    _table("Time by category", database.top("category").rows(), "category", "timing", "n", "total_ns", "share_pct")
    kernels = database.top("kernel").rows()
    _table("Kernels with most time", kernels, "kernel", "category", "timing", "n", "total_ns", "share_pct", "mean_ns")
    click.echo("\nNothing was stored. To keep the traces and ask more" if keep else "\nAsk next")
    more = [["show", Name(row["kernel"])] for row in kernels[:1] if row["kernel"]]
    more += [["report", Name(trace), "-o", "report.html"] for trace in chosen[:1]]
    for line in [*keep, *(program(*words) for words in [*more, ["analyze", "--help"], ["tui"]])]:
        click.echo(f"  {line}")


def _exposed(devices: Rows) -> list[str]:
    """Communication and copies that no computation hides, where they are a notable part of the busy time."""
    busy = sum(row["busy_ns"] or 0 for row in devices)
    parts = ("exposed_communication_ns", "exposed_memcpy_ns")
    notable = [part for part in parts if sum(row[part] or 0 for row in devices) > NOTABLE * busy]
    return ["computation_ns", *notable] if notable else []


def _table(title: str, rows: Rows, *names: str) -> None:
    """The first rows, with the columns that say something."""
    if not rows:
        return
    more = f" (first {ROWS} of {len(rows):,})" if len(rows) > ROWS else ""
    click.echo(f"\n{title}{more}")
    kept = [name for name in names if name != "timing" or len({row[name] for row in rows}) > 1]
    emit_columns({name: [row[name] for row in rows[:ROWS]] for name in kept}, Output())
