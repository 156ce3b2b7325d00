"""`kerneldb improve`."""

from __future__ import annotations

import dataclasses
import shlex
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import click

from kerneldb.cli.console import emit, note
from kerneldb.cli.options import conditions, open_database, output_options, trace_names
from kerneldb.cli.root import cli, refuse
from kerneldb.output import opened

if TYPE_CHECKING:
    from collections.abc import Sequence

    from kerneldb.output import Output
    from kerneldb.replay.recording.settings import Settings
    from kerneldb.replay.wire.improvements import Improvement
    from kerneldb.replay.wire.plan import Plan
    from kerneldb.replay.worker.improving import Asked

ALLOWED: Final = ("precision",)
TOGETHER: Final = "together"


@cli.command(short_help="What would be faster: tried in the recorded step.")
@click.argument("traces", nargs=-1, metavar="[TRACE]...", shell_complete=trace_names)
@click.option("--iteration", metavar="NAME", help="This one, by label or number; of a script a range that it marks.")
@click.option("--device", default="cuda:0", show_default=True, metavar="DEVICE", help="cuda:N or cpu.")
@click.option("--seconds", type=click.FloatRange(min=1), default=300.0, show_default=True, help="For all of it.")
@click.option("--where", metavar="TEXT", shell_complete=conditions, help="Change calls with such launches, as in top.")
@click.option("--until-time", metavar="SHARE", help="Change calls that make up this share of the time, as in 90%.")
@click.option("--allow", multiple=True, type=click.Choice(ALLOWED), help="Also what computes less exactly.")
@click.option("--import", "modules", multiple=True, metavar="MODULE", help="Module that registers rewrites.")
@click.option("--dry-run", is_flag=True, help="List the rewrites and the step; try nothing.")
@click.option(
    "--patch", type=click.Path(dir_okay=False, path_type=Path), metavar="FILE", help="Write what was accepted."
)
@click.option(
    "--verify",
    metavar="SCRIPT|MODEL",
    help="Run the program, a script with its arguments, with and without the patch; needs --patch.",
)
@click.option("--workload", metavar="NAME", help="With --verify of a model: of these; default: of the trace.")
@output_options
def improve(*, traces: tuple[str, ...], output: Output, **given: Any) -> None:
    """Try what would make a recorded step faster, in the step itself, and say what it gains.

    The step is rebuilt whole (as with replay --in-context). Runs of its calls are replaced: norms and attention written
    by hand, loops over parameters, products of the same tensor, functions of the program through torch.compile,
    layouts, settings. Results are compared with float64 on several distributions of values: a rewrite whose error is
    more than twice that of the recorded calls is rejected. What is left is measured alone and in the step, in turns
    with the step as recorded, and all that pays is measured together. Rows, also of what was rejected and why: table
    improvements. --verify takes back what the program does not gain by, or may be slower with.

    busy is time of the device (of the process on a CPU), wall that of the step made call by call. Record with --stack,
    so that functions of the program are known: only then is there a patch.

    \b
      kerneldb record llama-7b --stack --output llama
      kerneldb improve llama-prefill --until-time 90% --patch faster.py
      kerneldb improve llama-prefill --where "module LIKE '%mlp%'" --allow precision
      kerneldb improve llama-prefill --patch faster.py --verify llama-7b
      kerneldb improve train-script --iteration "step 3" --patch faster.py --verify "train.py --steps 20"
      python faster.py train.py
      kerneldb query "FROM improvements WHERE status = 'accepted' ORDER BY busy_gain DESC"
    """
    from kerneldb.api import improving
    from kerneldb.api.planning import Request, share_of
    from kerneldb.replay.worker.improving import Asked

    if given["verify"] and given["patch"] is None:
        refuse("--verify needs --patch FILE: it runs the program with that patch")
    database = open_database()
    request = Request(traces=traces, iteration=given["iteration"], in_context=True, among=given["where"])
    planned = improving.plan_improvements(database.warehouse, request, host=given["device"] == "cpu")
    if given["dry_run"]:
        _list(planned, given["modules"], output)
        return
    share = share_of(given["until_time"]) if given["until_time"] else 1.0
    asked = Asked(given["device"], given["seconds"], given["allow"], given["modules"], share=share)
    found = improving.try_rewrites(planned, asked)
    improving.store(database.warehouse, planned, asked.device, found)
    names = [step.trace for step in planned.steps]
    emit(improving.results(database.warehouse, names).to_reader(), output)
    if given["patch"] is not None:
        _write(given["patch"], planned, found)
    if given["verify"]:
        _verify(given, found, planned, asked, output)


def _list(planned: Plan, modules: Sequence[str], output: Output) -> None:
    import pyarrow as pa

    from kerneldb.replay import rewrites
    from kerneldb.replay.processes import import_all

    import_all(modules)
    for step in planned.steps:
        note(f"{step.trace}, {step.iteration}: {len(step.calls):,} calls")
    rows = [{"rewrite": one.name, "about": one.about, "needs_allow": one.precision} for one in rewrites.known()]
    emit(pa.Table.from_pylist(rows).to_reader(), output)


def _write(path: Path, planned: Plan, found: Sequence[Improvement]) -> None:
    from kerneldb.replay.rewrites import patching
    from kerneldb.replay.worker.improving import changes as changes_of

    changes = changes_of(found)
    names = ", ".join(step.trace for step in planned.steps)
    with opened(path) as file:
        file.write(patching.text(changes, f"What kerneldb improve found to pay in {names}").encode())
    by_hand = sum(change["kind"] == "advice" for change in changes)
    note(f"{path}: {len(changes)} changes, {by_hand} of them to be made by hand")


def _verify(given: dict[str, Any], found: Sequence[Improvement], planned: Plan, asked: Asked, output: Output) -> None:
    import pyarrow as pa

    from kerneldb.api import improving
    from kerneldb.replay.worker import proving

    if not any(one.status == TOGETHER for one in found):
        note("nothing was accepted: there is nothing to verify")
        return
    kept, rows = proving.in_program(found, *_program(given, planned, asked))
    emit(pa.Table.from_pylist(rows).to_reader(), output)
    for before, one in zip(found, kept, strict=True):
        if before.status not in {one.status, TOGETHER}:
            note(f"taken back: {one.rewrite} ({one.place or one.what}): {one.reason}")
    _write(given["patch"], planned, kept)
    if kept != list(found):
        improving.store(open_database().warehouse, planned, asked.device, kept)


def _program(given: dict[str, Any], planned: Plan, asked: Asked) -> tuple[Settings, str]:
    """What is run: a script, whose step is the range that was tried, or a model as it was recorded."""
    from kerneldb.replay.recording.settings import Settings, resolved

    step, (program, *arguments) = planned.steps[0], shlex.split(given["verify"])
    if Path(program).suffix == ".py":
        script = Settings("", device=asked.device, script=(program, *arguments), trace_only=True)
        return resolved(script), str(step.iteration)
    workload = given["workload"] or step.trace.rsplit("-", 1)[-1]
    recorded = _recorded(step.trace)
    same = {name: recorded[name] for name in recorded if name in {one.name for one in dataclasses.fields(Settings)}}
    return resolved(Settings(**{**same, "model": program, "device": asked.device, "workloads": (workload,)})), workload


def _recorded(trace: str) -> dict[str, Any]:
    """The settings of a recording, as the tags of its trace have them."""
    from kerneldb.api.improving import recorded_settings

    return recorded_settings(open_database().warehouse, trace)
