"""`kerneldb record`."""

from __future__ import annotations

import importlib.util
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from kerneldb.cli.console import emit, note
from kerneldb.cli.options import flag_options, open_database
from kerneldb.cli.root import cli, refuse
from kerneldb.output import FORMATS, Output
from kerneldb.replay.options import flags
from kerneldb.replay.recording.settings import Settings, resolved
from kerneldb.shell import Name, command_line

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

    from kerneldb.api import Database, Outcome

STEPS = {"measure": "measuring", "trace": "tracing", "power": "measuring power without work", "failed": "left out"}
NEEDED = ("duckdb", "polars", "pyarrow")


@cli.command(short_help="Run a model: measure it, trace it, ingest it.")
@click.argument("arguments", nargs=-1, metavar="[MODEL | [SCRIPT-ARGUMENT]...]")
@click.option("--list", "listed", is_flag=True, help="Show the bundled models.")
@click.option("--script", type=click.Path(exists=True, dir_okay=False), help="Run this Python file instead of a model.")
@flag_options(Settings)
@click.option("--output", type=click.Path(file_okay=False, path_type=Path), metavar="FOLDER", help="Record here.")
@click.option("--resume", is_flag=True, help="Go on with the recording in the folder.")
@click.option("--format", "layout", type=click.Choice(FORMATS), default="table", help="Of the table. Default: table.")
@click.option("--json", "layout", flag_value="json", help="Same as --format json.")
def record(*, arguments: tuple[str, ...], listed: bool, layout: Any, **given: Any) -> None:
    """Run a model, measure its time and energy without a profiler, then trace it, and ingest all of it.

    Each workload (prefill, decode, forward of an encoder, training step) first runs for --seconds, three times: wall
    time and energy per iteration, power at rest and between kernels. Then a few iterations of the same work are traced
    with input shapes. An iteration of decode is --new-tokens tokens for each sequence after the same prompt. Weights
    are random or come from a local --checkpoint; nothing is downloaded.

    The recording is a folder (--output, else named by model and settings) that `kerneldb ingest` reads on any machine.
    One that was stopped goes on with --resume and the same options. On a machine without DuckDB: python -P -m
    kerneldb.replay.recording MODEL.

    With --tp N, N processes on a GPU each share attention heads and MLP of the model (NCCL or RCCL; gloo on a CPU).
    Each measures and traces its own GPU; their traces become the ranks of one job. A script is run in N processes, as
    torchrun does.

    Prints a row per workload and mode; what is not known is empty, with the reason.

    \b
      kerneldb record --list
      kerneldb record bloom-560m --batch 8 --prompt 1024 --cuda-graphs
      kerneldb record gpt2 --workloads train --dtype bfloat16
      kerneldb record vicuna-7b --tp 2 --prompt 1024
      kerneldb record --script train.py -- --steps 20
    """
    output = Output(format=layout)
    if listed:
        import pyarrow as pa

        from kerneldb.replay.recording.settings import MODELS, WORKLOADS

        rows = [
            {
                "model": model.name,
                "aliases": ", ".join(model.aliases) or None,
                "workloads": ", ".join(WORKLOADS[model.kind]),
                "dtype": model.dtype,
                "sizes_from": model.source + (f" ({model.note})" if model.note else ""),
            }
            for model in MODELS
        ]
        emit(pa.Table.from_pylist(rows).to_reader(), output)
        return
    settings = _settings(arguments, given)
    folder = given["output"] or Path(settings.bundle_name)
    ingests = not (given["trace_only"] and given["output"])
    if not all(importlib.util.find_spec(name) for name in NEEDED):
        line = command_line(["python", "-P", "-m", "kerneldb.replay.recording", Name(settings.model)])
        raise click.ClickException(f"no database on this machine: use {line}")
    _record(open_database(create=True) if ingests else None, settings, folder, output, resume=given["resume"])


def _record(database: Database | None, settings: Settings, folder: Path, output: Output, *, resume: bool) -> None:
    from kerneldb.api import IngestOptions, recording

    made = recording.record(None, settings, folder, resume=resume, listen=_teller(settings))
    note(f"{folder}: recorded")
    emit(made.table().to_reader(), output)
    failed = False
    for outcome in () if database is None else database.ingest_each([folder], IngestOptions()):
        note(f"Error: {outcome.error}" if outcome.error else "; ".join(_said(outcome)))
        failed = failed or outcome.error is not None
    if failed or not made.complete:
        click.get_current_context().exit(1)


def _said(outcome: Outcome) -> Iterator[str]:
    from kerneldb.cli.ingest import summary

    yield summary(outcome)
    if outcome.launches == 0:
        yield "no GPU activity in it"


def _settings(arguments: tuple[str, ...], given: Mapping[str, Any]) -> Settings:
    script = given["script"]
    if not script and len(arguments) != 1:
        refuse("name one model (kerneldb record --list shows them), or give --script FILE")
    same = {field.name: given[field.name] for field, _ in flags(Settings)}
    return resolved(Settings("" if script else arguments[0], script=(script, *arguments) if script else (), **same))


def _teller(settings: Settings) -> Callable[[Mapping[str, Any]], None]:
    """Reports each step on stderr, as it begins."""
    total = len(settings.parts) * (1 if settings.trace_only else 2)
    done = 0

    def say(event: Mapping[str, Any]) -> None:
        nonlocal done
        what, workload = event["what"], event.get("workload")
        counted = what in ("measure", "trace")
        done += counted
        where = f" {workload} ({event['mode']})" if workload else ""
        reason = f": {event['reason']}" if event.get("reason") else ""
        note(f"{f'[{done}/{total}] ' if counted else ''}{STEPS[what]}{where}{reason}")

    return say
