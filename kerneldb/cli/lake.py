"""`kerneldb db lake push`, `pull` and `compact`."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from kerneldb.cli.console import MEGABYTE, note, plural
from kerneldb.cli.options import lock_timeout_option, open_database, trace_names
from kerneldb.cli.root import DatabaseType, chosen_database, lake

if TYPE_CHECKING:
    from kerneldb.api.upkeep import Copied


@lake.command(short_help="Merge the small files of a lake.")
@click.option(
    "--keep", type=click.IntRange(min=0), default=24, show_default=True, metavar="HOURS",
    help="How long old snapshots stay readable.",
)  # fmt: skip
@click.option(
    "--orphans-after", type=click.IntRange(min=24), default=24, show_default=True, metavar="HOURS",
    help="Remove files that no snapshot refers to from this age on (killed programs leave such files).",
)  # fmt: skip
@lock_timeout_option
def compact(*, keep: int, orphans_after: int, lock_timeout: float) -> None:
    """Merge the small Parquet files of a lake, forget old snapshots, and remove files that nothing refers to.

    No row changes, and others may read and write meanwhile. Run it every night where traces arrive all day.

    \b
      kerneldb db lake compact --db ducklake:sqlite:/shared/lake.sqlite
    """
    from kerneldb.warehouse import upkeep
    from kerneldb.warehouse.place import Place

    done = upkeep.compact(Place.of(chosen_database()), keep, orphans_after, lock_timeout)
    note(
        f"{plural(done.files_before, 'file')} → {plural(done.files_after, 'file')} "
        f"({done.bytes_after / MEGABYTE:,.1f} MB), {plural(done.snapshots, 'snapshot')}; "
        f"removed {plural(done.removed, 'old file')} and {plural(done.orphans, 'orphan')}"
    )


@lake.command(short_help="Copy traces into a lake.")
@click.argument("names", nargs=-1, metavar="[TRACE]...", shell_complete=trace_names)
@click.option("--to", "target", type=DatabaseType(), required=True, metavar="LAKE", help="Lake or file to copy to.")
@lock_timeout_option
def push(names: tuple[str, ...], *, target: str | Path, lock_timeout: float) -> None:
    """Copy traces (all, or the named ones) of the database into a lake, with their notes, replays and inferred calls.

    A trace that is there already, by content, is not copied again, but what was added to it since is: notes, replays,
    calls. A push that was stopped can simply be repeated.

    \b
      kerneldb db lake push decoder-h200 --to ducklake:sqlite:/shared/lake.sqlite
    """
    from kerneldb import api

    source = open_database(lock_timeout=lock_timeout)
    _say(api.open(target, lock_timeout=lock_timeout).copy_from(source, names), "pushed")


@lake.command(short_help="Copy traces out of a lake.")
@click.argument("names", nargs=-1, metavar="[TRACE]...", shell_complete=trace_names)
@click.option("--from", "source", type=DatabaseType(), required=True, metavar="LAKE", help="Lake or file to copy from.")
@lock_timeout_option
def pull(names: tuple[str, ...], *, source: str | Path, lock_timeout: float) -> None:
    """Copy traces (all, or the named ones) of a lake into the database, as `kerneldb db lake push` does the other way.

    \b
      kerneldb db lake pull decoder-h200 --from ducklake:sqlite:/shared/lake.sqlite
    """
    from kerneldb import api

    found = api.open(source, create=False, lock_timeout=lock_timeout)
    _say(open_database(create=True, lock_timeout=lock_timeout).copy_from(found, names), "pulled")


def _say(copied: Copied, done: str) -> None:
    for name in copied.traces:
        note(name)
    counts = {
        "trace": len(copied.traces),
        "note": copied.notes,
        "replayed call": copied.calls,
        "inferred call": copied.finds,
    }
    listed = ", ".join(plural(count, what) for what, count in counts.items() if count)
    note(f"{done} {listed}" if copied else "nothing to do: all of it is there")
