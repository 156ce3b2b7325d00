"""`kerneldb record`."""

from __future__ import annotations

import importlib.util
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from kerneldb.cli.console import emit, note
from kerneldb.cli.options import database_option, open_database
from kerneldb.output import FORMATS, Output

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

    from kerneldb.api import Database, Outcome
    from kerneldb.replay.recording.settings import Settings

STEPS = {"measure": "measuring", "trace": "tracing", "power": "measuring power without work", "failed": "left out"}
DTYPES = ("float16", "bfloat16", "float32")
POSITIVE = click.IntRange(min=1)
NEEDED = ("duckdb", "polars", "pyarrow")


@click.command(short_help="Run a model, measure it whole, trace it, ingest it.")
@click.argument("arguments", nargs=-1, metavar="[MODEL | [SCRIPT-ARGUMENT]...]")
@click.option("--list", "listed", is_flag=True, help="Show the bundled models.")
@click.option("--script", type=click.Path(exists=True, dir_okay=False), help="Run this Python file instead of a model.")
@click.option(
    "--checkpoint",
    type=click.Path(exists=True, file_okay=False),
    help="Weights of a local model, not random ones.",
)
@click.option("--stages", default="", metavar="NAMES", help="Of prefill, decode, forward, train; with commas.")
@click.option("--device", default="cuda:0", show_default=True, metavar="DEVICE", help="cuda:N or cpu.")
@click.option("--dtype", type=click.Choice(DTYPES), help="Default: of the model; float32 on a CPU.")
@click.option("--batch", type=POSITIVE, default=1, show_default=True, help="Sequences or images at once.")
@click.option("--prompt", type=POSITIVE, default=128, show_default=True, help="Tokens per sequence.")
@click.option("--new-tokens", type=POSITIVE, default=16, show_default=True, help="Decode steps per iteration.")
@click.option(
    "--tp",
    type=POSITIVE,
    default=1,
    show_default=True,
    metavar="N",
    help="Share the model out to N GPUs (tensor parallel); run so many processes of a script.",
)
@click.option("--cuda-graphs", is_flag=True, help="Also under CUDA graphs.")
@click.option("--compile", is_flag=True, help="Through torch.compile; keeps the sources of its kernels.")
@click.option(
    "--seconds", type=click.FloatRange(min=0.1), default=12.0, show_default=True, help="Measured, per stage and mode."
)
@click.option("--iterations", type=POSITIVE, default=2, show_default=True, help="Traced, per stage and mode.")
@click.option("--trace-only", is_flag=True, help="Trace, do not measure. With --output: do not ingest either.")
@click.option("--output", type=click.Path(file_okay=False, path_type=Path), metavar="FOLDER", help="Record here.")
@click.option("--resume", is_flag=True, help="Go on with the recording in the folder.")
@click.option("--label", metavar="TEXT", help="What it is, in your words; shown wherever the traces are.")
@click.option("--name", metavar="NAME", help="Name of the recording (default: of the folder).")
@click.option("--tiny", is_flag=True, help="Sizes for a test on a CPU.")
@click.option("--layers", type=POSITIVE, help="So many layers instead of the model's own.")
@click.option("--seed", type=int, default=0, show_default=True, help="Of random weights and inputs.")
@click.option("--import", "modules", multiple=True, metavar="MODULE", help="Module that registers a meter.")
@click.option("--format", "layout", type=click.Choice(FORMATS), default="table", help="Of the table. Default: table.")
@click.option("--json", "layout", flag_value="json", help="Same as --format json.")
@database_option
def record(*, arguments: tuple[str, ...], listed: bool, layout: Any, **given: Any) -> None:
    """Run a model, measure it whole, then trace it, and ingest everything.

    Each stage (prefill, decode, forward of an encoder, training step) runs without a profiler first: wall time and
    energy per iteration over --seconds, in three repetitions, with power at rest and between kernels. Then a few
    iterations of the same work are traced with shapes. One iteration of decode makes --new-tokens tokens per sequence
    behind the same prompt. Weights are random, or those of a local --checkpoint; nothing is ever downloaded.

    Everything goes into a folder (FOLDER, or one named by model and settings) that `kerneldb ingest` reads anywhere,
    and into the database. A recording that was stopped goes on with --resume and the same options. On a machine without
    DuckDB: python -P -m kerneldb.replay.recording MODEL.

    With --tp N, N processes share attention heads and MLP of the model, one a GPU, and exchange what they make (NCCL or
    RCCL; gloo on a CPU). Each measures and traces its own GPU; their traces are the ranks of one job. A script is run
    in N processes, as torchrun does it.

    Prints a row per stage and mode, per iteration: what is unknown is empty, with the reason.

    \b
      kerneldb record bloom-560m --batch 8 --prompt 1024 --cuda-graphs
      kerneldb record gpt2 --stages train --dtype bfloat16
      kerneldb record vicuna-7b --tp 2 --prompt 1024
      kerneldb record --script train.py -- --steps 20
    """
    output = Output(format=layout)
    if listed:
        _list(output)
        return
    settings = _settings(arguments, given)
    folder = given["output"] or Path(settings.bundle_name)
    ingests = not (given["trace_only"] and given["output"])
    if not all(importlib.util.find_spec(name) for name in NEEDED):
        message = f"no database on this machine: use python -P -m kerneldb.replay.recording {settings.model}"
        raise click.ClickException(message)
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
    from kerneldb.replay.recording.settings import Settings, resolved

    script = given["script"]
    if not script and len(arguments) != 1:
        message = "name one model (kerneldb record --list shows them), or give --script FILE"
        raise click.UsageError(message)
    same = (
        "device", "dtype", "batch", "prompt", "new_tokens", "cuda_graphs", "compile", "seconds", "iterations",
        "trace_only", "tiny", "layers", "seed", "label", "name", "checkpoint", "modules", "tp",
    )  # fmt: skip
    return resolved(
        Settings(
            model="" if script else arguments[0],
            stages=tuple(name.strip() for name in given["stages"].split(",") if name.strip()),
            script=(script, *arguments) if script else (),
            **{name: given[name] for name in same},
        )
    )


def _teller(settings: Settings) -> Callable[[Mapping[str, Any]], None]:
    """Tells each step on stderr, as it begins."""
    total = len(settings.parts) * (1 if settings.trace_only else 2)
    done = 0

    def tell(event: Mapping[str, Any]) -> None:
        nonlocal done
        what, stage = event["what"], event.get("stage")
        counted = what in ("measure", "trace")
        done += counted
        where = f" {stage} ({event['mode']})" if stage else ""
        reason = f": {event['reason']}" if event.get("reason") else ""
        note(f"{f'[{done}/{total}] ' if counted else ''}{STEPS[what]}{where}{reason}")

    return tell


def _list(output: Output) -> None:
    import pyarrow as pa

    from kerneldb.replay.recording.models import MODELS, STAGES

    rows = [
        {
            "model": model.name,
            "aliases": ", ".join(model.aliases) or None,
            "stages": ", ".join(STAGES[model.kind]),
            "dtype": model.dtype,
            "sizes_from": model.source + (f" ({model.note})" if model.note else ""),
        }
        for model in MODELS
    ]
    emit(pa.Table.from_pylist(rows).to_reader(), output)
