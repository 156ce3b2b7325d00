"""`kerneldb replay`."""

from __future__ import annotations

import contextlib
import dataclasses
import functools
import re
import time
from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from kerneldb.cli.console import emit, note, note_repeated, plural
from kerneldb.cli.options import open_database, output_options, phases, replay_options, selection_options, signature_ids
from kerneldb.cli.root import cli, program, refuse
from kerneldb.errors import UsageError
from kerneldb.shell import command_line, file, kerneldb, valued

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from kerneldb.api import Database
    from kerneldb.api.planning import Planned, Request
    from kerneldb.output import Output
    from kerneldb.replay.options import Options
    from kerneldb.replay.wire.plan import Plan

PROGRESS_SECONDS = 2.0
BEST = 2
SHOWN_ROWS = 20
FIRST = 10
SHOWN = ["launches", "total_ns", "kernel", "route", "why"]
ASKED = ("where", "traces", "signatures", "top", "in_context", "iteration", "phase")
MEASURING = {"progress": "", "energy": "energy of ", "counters": "counters of "}


def _request_options(command: Callable[..., None]) -> Callable[..., None]:
    """Which launches are replayed; the command receives them as one `request: Request`."""

    @functools.wraps(command)
    def wrapper(*args: Any, until_time: str | None, model_config: Path | None, **kwargs: Any) -> None:
        from kerneldb.api.planning import Request, share_of

        asked = {name: kwargs.pop(name) for name in ASKED}
        if (asked["iteration"] or asked["phase"]) and not asked["in_context"]:
            refuse("--iteration and --phase choose what --in-context runs")
        share = share_of(until_time) if until_time else None
        config = None if model_config is None else _config(model_config)
        command(*args, request=Request(**asked, until_share=share, config=config), **kwargs)

    chosen: Callable[..., None] = wrapper
    for option in reversed(_REQUEST):
        chosen = option(chosen)
    return chosen


_REQUEST = (
    selection_options,
    click.option(
        "--signature",
        "signatures",
        multiple=True,
        metavar="ID",
        shell_complete=signature_ids,
        help="Only this one (a prefix will do).",
    ),
    click.option("--top", type=click.IntRange(min=1), metavar="N", help="The N signatures with most time."),
    click.option("--until-time", metavar="SHARE", help="Signatures up to this share of the time, for example 95%."),
    click.option(
        "--model-config",
        type=click.Path(exists=True, dir_okay=False, path_type=Path),
        metavar="CONFIG.JSON",
        help="Configuration of the model: its sizes help to find calls that were not recorded.",
    ),
    click.option("--in-context", is_flag=True, help="Run a whole recorded iteration, in order, on its memory."),
    click.option("--iteration", metavar="NAME", help="With --in-context: this one, by label or number."),
    click.option(
        "--phase", metavar="NAME", shell_complete=phases, help="With --in-context: only what is of this phase."
    ),
)


@cli.command(short_help="Run kernels again, proven the same, for time and energy.")
@_request_options
@click.option("--gpus", metavar="N", help="How many GPUs, or all: one worker each; with --device cpu, workers.")
@click.option(
    "--ray", is_flag=False, flag_value="", metavar="[ADDRESS]",
    help="On all GPUs of a Ray cluster (default: RAY_ADDRESS, else this machine); with --device cpu, its CPUs.",
)  # fmt: skip
@replay_options
@click.option("--resume", is_flag=True, help="Go on with the replay that was stopped.")
@click.option(
    "--dry-run",
    is_flag=True,
    help="Print how much can be replayed, by category and route, and the first calls; run nothing.",
)
@click.option("--calls", "only_calls", is_flag=True, help="Print all calls and where each is from; run nothing.")
@click.option(
    "--write-plan", type=click.Path(dir_okay=False, path_type=Path), help="Write the plan for another machine."
)
@click.option("--read-journal", type=click.Path(path_type=Path), help="Commit a journal made elsewhere.")
@output_options
def replay(
    *, request: Request, gpus: str | None, ray: str | None, options: Options, resume: bool, dry_run: bool,
    only_calls: bool, write_plan: Path | None, read_journal: Path | None, output: Output,
) -> None:  # fmt: skip
    """Run kernels again on this machine, alone, prove that the same kernel ran, and measure its time and energy.

    The operator call of each selected kernel is rebuilt; the profiler says which kernels came out. Grades: L0 same
    name, grid, block and shared memory; L1 same name, other launch; L2 same family; L3 same operation; L4 failed or not
    tried. Only L0 and L1 enter predicted times. Results are stored as they come (replays, replay_calls).

    Energy is that of the whole board, by the counter of its driver (NVIDIA, AMD) or of the CPU (RAPL), with a 95 %
    interval: energy_mj per launch, and dynamic_mj, its energy above launch-loop power (a GPU that runs empty kernels).
    NULL, with the reason, where it cannot be measured.

    Launches recorded without a call (in graphs, cut traces, traces of nsys, ncu and rocprof) take that of the same
    launch elsewhere in the database; failing that, calls are proposed from name, grid, duration and order, and tried.
    Their results are labelled inherited and inferred (dims_source), and summed apart.

    With --in-context a recorded iteration runs whole, on memory allocated, shared and freed as recorded, by itself and
    as CUDA graphs; each kernel is timed in its place (step_kernels), the step without a profiler (step_replays).

    --counters reads hardware counters of the calls that came out L0 or L1: they run once more under Nsight Compute,
    which profiles their kernels only. What it prints becomes counters of the recorded kernel, in every trace that has
    it (kerneldb ncu coverage, ncu bounds, analyze roofline, show). Caches are flushed before each pass, unless --cache
    says warm or mixed; clocks stay as they are.

    Prints the plan with --dry-run, else what came of it: shares of launches and of time that came out L0, the recorded
    time of what has a prediction (compared), the predicted time, its error, the energy, and the share of time that has
    one. Needs PyTorch and, unless --device cpu, a GPU. On a machine without DuckDB: --write-plan here,
    `python -P -m kerneldb.replay PLAN --journal JOURNAL` there, --read-journal with --write-plan here.

    \b
      kerneldb replay --where "category = 'GEMM'" --dry-run
      kerneldb replay --trace nsys-run --model-config config.json --calls
      kerneldb replay --until-time 95%
      kerneldb replay --counters roofline,memory --until-time 95%
      kerneldb replay --in-context --trace decode --iteration "ProfilerStep#2"
      kerneldb top --where "energy_mj > 5"
      kerneldb query "SELECT name, reason FROM kernels JOIN replays USING (signature_id) WHERE replay_grade = 'L4'"
    """
    options = _counting(options)
    database = _opened(options)
    if read_journal is not None:
        _read(database, write_plan, read_journal, output)
    elif dry_run or only_calls or write_plan is not None:
        _plan(database, request, write_plan, output, options, only_calls=only_calls)
    else:
        _run(database, None if resume else request, options, output, gpus=gpus, ray=ray)


def _counting(options: Options) -> Options:
    """Counters are read with cold caches unless the user names another state: so does ncu by itself."""
    from click.core import ParameterSource

    asked = click.get_current_context().get_parameter_source("cache")
    if not options.counters or asked is not ParameterSource.DEFAULT:
        return options
    return dataclasses.replace(options, cache="cold")


def _opened(options: Options) -> Database:
    from kerneldb.replay.processes import import_all

    database = open_database()
    import_all(options.modules)
    return database


def _config(path: Path) -> dict[str, Any]:
    import json

    try:
        config = json.loads(path.read_text(encoding="utf-8"))
    except (ValueError, RecursionError) as error:  # the second of what nests too deeply
        raise click.BadParameter(f"{path}: not JSON ({error})", param_hint="--model-config") from error
    if not isinstance(config, dict):
        raise click.BadParameter(f"{path}: not the configuration of a model", param_hint="--model-config")
    # Refuse a configuration with impossible sizes here, where its file is known
    from kerneldb.errors import UsageError
    from kerneldb.replay.infer.dims import from_config

    try:
        from_config(config, "fp16")
    except UsageError as error:
        raise click.BadParameter(f"{path}: {error}", param_hint="--model-config") from error
    return config


def _planned(database: Database, request: Request) -> Planned:
    """The plan; where nothing is selected, values near those of the condition are named, as in other commands."""
    try:
        return database.plan_replay(request)
    except UsageError:
        with contextlib.suppress(UsageError):  # a condition that cannot be asked at all
            for line in database.absent_values(request.where, request.traces) if request.where else ():
                note(line)
        raise


def _plan(
    database: Database,
    request: Request,
    path: Path | None,
    output: Output,
    options: Options,
    *,
    only_calls: bool = False,
) -> None:
    import pyarrow as pa

    from kerneldb.api.planning import CALLS, calls, feasibility
    from kerneldb.replay.wire import plan

    note_repeated(database, request.traces)
    planned = _planned(database, dataclasses.replace(request, shown=path is None))
    if path is not None:
        database.keep_found(planned)
        plan.write(planned.plan, path)
        note(f"{path}: {plural(len(planned.plan.items), 'call')} to replay")
        plan_file, journal = file(path), file(path.with_suffix(".journal"))
        there = ("python", "-P", "-m", "kerneldb.replay", plan_file, "--journal", journal)
        note(f"on a machine with a GPU: {command_line(there)}")
        here = ("replay", "--write-plan", plan_file, "--read-journal", journal)
        note(f"then here: {program(*here)}")
    _say_code(planned.plan, allowed=False)
    _say_counters(planned.plan, options)
    if planned.plan.steps:
        from kerneldb.api import stepping

        steps = stepping.planned_rows(planned.plan)
        emit(pa.Table.from_pylist(list(steps), schema=pa.schema(stepping.PLANNED)).to_reader(), output)
        return
    listed = list(calls(planned.plan))
    if only_calls:
        emit(pa.Table.from_pylist(listed, schema=pa.schema(CALLS)).to_reader(), output)
        return
    lines = feasibility(planned.routes, totals=output.format == "table")
    emit(pa.Table.from_pylist(lines).to_reader(), output)
    if listed and output.format == "table" and output.path is None:
        _show_calls(listed)


def _show_calls(listed: Sequence[Mapping[str, Any]]) -> None:
    """The calls of the launches that take most time; of those without a recorded one, the best candidates.

    A candidate beyond the first stands below it, without the launches and the time that it shares with it.
    """
    import pyarrow as pa

    from kerneldb.output import Output

    best = [row for row in listed if row["rank"] <= BEST][:FIRST]
    shown = [{"call": _call_of(row), **{name: row[name] for name in SHOWN}} for row in best]
    click.echo("\ncalls to run, those with most time first")
    emit(pa.Table.from_pylist(shown).to_reader(), Output())
    others = sum(row["rank"] > 1 for row in listed)
    if others:
        note("calls after `or` are alternatives for the launches of the call above, which count once")
    if len(best) < len(listed):
        note(f"--calls lists all {len(listed):,}" + (f", {others:,} of them alternatives" if others else ""))


def _call_of(row: Mapping[str, Any]) -> str | None:
    """Operator and shapes; arguments at the end that are no tensors say nothing here."""
    dims = re.sub(r"(, \[\])+(?=\]$)", "", row["input_dims"] or "")
    call = row["op"] and f"{row['op']} {dims}".rstrip()
    return call if row["rank"] == 1 else f"  or {call}"


def _read(database: Database, plan: Path | None, journal: Path, output: Output) -> None:
    if plan is None:
        refuse("--read-journal needs the plan that was replayed: --write-plan PLAN")
    from kerneldb.replay.host.fleet import journals

    paths = journals(journal)
    there = command_line(("python", "-P", "-m", "kerneldb.replay", file(plan), "--journal", file(journal)))
    if not paths:
        held = "an empty file" if journal.is_file() else "no such journal"
        refuse(f"{journal}: {held}; the replay on the other machine writes it: {there}")
    from kerneldb.replay.wire.journal import read as read_journal
    from kerneldb.replay.wire.plan import read

    found = [read_journal(path) for path in paths]
    run_ids = [database.read_journal(plan, path) for path in paths]
    for path, one in zip(paths, found, strict=True):
        if not one.finished:
            cut = " (a last line that was cut is left out)" if one.cut else ""
            note(f"{path}: the replay did not end; what came of it so far is stored{cut}. To go on: {there} --resume")
    _emit_results(database, run_ids, read(plan), output, counters=any(one.counters for one in found))


def _emit_results(
    database: Database, run_ids: Sequence[str], plan: Plan, output: Output, *, counters: bool = False
) -> None:
    if counters:
        emit(database.replay_counters(run_ids).to_reader(), output)
        return
    results = database.step_results(run_ids) if plan.steps else database.replay_results(run_ids)
    emit(results.to_reader(), output)
    if plan.steps and output.format == "table" and output.path is None:
        others = database.step_disagreements(run_ids).to_arrow()
        if others.num_rows:
            click.echo("\nkernels that took another time than recorded, or have none; step_kernels has all")
            emit(others.slice(0, SHOWN_ROWS).to_reader(), output)


def _run(
    database: Database, request: Request | None, options: Options, output: Output, *, gpus: str | None, ray: str | None
) -> None:
    if gpus is not None and ray is not None:
        refuse("--gpus is for this host, --ray for a cluster: give one of them")
    planned = None if request is None else _planned(database, request)
    plan = database.stopped_replay() if planned is None else planned.plan
    if plan.steps and ray is not None:
        refuse("--in-context runs on GPUs of this host: leave out --ray")
    _say_code(plan, allowed=options.allow_code)
    _say_counters(plan, options)
    given = (("--gpus", gpus), ("--ray", ray))
    many = [part for name, value in given if value is not None for part in valued(name, value)]
    again = filter(None, (*options.arguments(), *many))
    stopped = f"stopped; go on with: {kerneldb('replay', '--resume', *again)}"
    try:
        done = database.replay(planned, options, _Teller().hear, gpus=gpus, ray=ray)
    except KeyboardInterrupt:
        note(stopped)
        raise
    grades = ", ".join(f"{n:,} × {grade}" for grade, n in sorted(done.by_grade.items()))
    state = "done" if done.finished else stopped
    replayed = grades or ("nothing replayed" if request is not None else "no further call")
    note(f"replay {', '.join(done.run_ids)}: {replayed} in {done.wall_s:,.0f} s, {state}")
    if done.energy_reason is not None:
        note(f"no energy: {done.energy_reason}")
    _emit_results(database, done.run_ids, plan, output, counters=bool(options.counters))
    if done.interrupted:
        raise KeyboardInterrupt


def _say_code(plan: Plan, *, allowed: bool) -> None:
    from kerneldb.replay import routes

    for line in routes.consent(plan, allowed=allowed):
        note(line)


def _say_counters(plan: Plan, options: Options) -> None:
    """How often each kernel will run under the profiler, and how long that takes."""
    if options.counters:
        from kerneldb.replay.host.counting import estimate

        calls = Counter(call.item for step in plan.steps for call in step.calls)
        times = {item.id: min(options.counted, calls[item.id]) if plan.steps else 1 for item in plan.items}
        kernels = sum(times[item.id] for item in plan.items for kernel in item.kernels if kernel.kind == "kernel")
        passes, seconds = estimate(kernels, options.counters, steps=bool(plan.steps))
        note(f"counters of {kernels:,} kernels: about {passes} passes each, {seconds:,.0f} s after their replay")


class _Teller:
    """Says on stderr how far the run is, every few seconds."""

    def __init__(self) -> None:
        self._due = 0.0

    def hear(self, event: Mapping[str, Any]) -> None:
        """Take an event of the run."""
        if event.get("event") in MEASURING and time.monotonic() < self._due and event["done"] != event["total"]:
            return
        self._due = time.monotonic() + PROGRESS_SECONDS
        if event.get("event") in MEASURING:
            facts = (f"{name} {event[name]}" for name in ("eta_s", "sm_mhz", "power_w") if event.get(name) is not None)
            note(f"{MEASURING[event['event']]}{event.get('done')}/{event.get('total')} calls; {', '.join(facts)}")
        elif event.get("event") == "foreign":
            note(str(event.get("reason")))
        elif event.get("event") == "worker":
            note(f"a worker ended: {event.get('reason')}")
