"""`kerneldb analyze reconciliation`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import click

from kerneldb.cli.console import emit, emit_text, note, note_left_out, table
from kerneldb.cli.options import READ_WAIT_S, conditions, open_database, output_options, trace_names
from kerneldb.cli.root import analyze
from kerneldb.output.text import escape
from kerneldb.output.units import UNKNOWN

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from kerneldb.api.reconciliation import WorkloadReconciliation
    from kerneldb.output import Output

TOP: Final = 20
SECTIONS: Final = {"time": "time", "energy": "energy", "dynamic energy": "dynamic energy"}
FACTS: Final = ("model", "gpu", "run", "kernels_trace")
MICRO: Final = {"ns": ("µs", 1e-3)}
GROUPS: Final = {"tier": "by tier", "category": "by category", "route": "by route"}
GROUP_COLUMNS: Final = (
    "part", "signatures", "n", "recorded_ns", "share_pct", "replayed_launches_pct", "replayed_ns", "error_pct",
    "dynamic_mj", "dynamic_error_mj",
)  # fmt: skip
PARTS: Final = (
    ("computation", "computation"), ("communication", "communication"), ("transfer", "transfer"), ("waiting", "wait"),
)  # fmt: skip
MEASURED: Final = (("wall time", "wall_ns", "µs"), ("energy of all ranks", "energy_mj", "J"))
PART_COLUMNS: Final = ("part", "n", "recorded_ns", "replayed_ns", "replayed_pct", "error_pct")
KERNEL_COLUMNS: Final = (
    "kernel", "category", "route", "grade", "n", "recorded_ns", "share_pct", "replayed_ns", "ratio", "dynamic_mj",
    "dynamic_error_mj",
)  # fmt: skip


@analyze.command(short_help="Replayed kernels against the measured workload.")
@click.argument("traces", nargs=-1, metavar="[TRACE]...", shell_complete=trace_names)
@click.option(
    "--where", metavar="TEXT", shell_complete=conditions, help="Only kernels of launches that meet this condition."
)
@click.option("--top", type=click.IntRange(min=0), default=TOP, show_default=True, help="Kernels shown per workload.")
@output_options
def reconciliation(traces: tuple[str, ...], *, where: str | None, top: int, output: Output) -> None:
    """Compare time and energy that replayed kernels predict with those measured for a whole workload, unprofiled.

    TRACE is a trace or a run; without it, all measured workloads are shown. Figures are per iteration: one prefill, one
    decode of all its new tokens, one training step. Components add up to the predicted total exactly. There are two
    totals: of replayed kernels only, and with all others at their recorded time. The prediction assumes that the GPU
    never waits for the host; where it was busy for less than 80 % of the measured time, a reason takes the place of the
    error.

    As csv: one row per component. As json: one document, with groups and kernels.

    \b
      kerneldb analyze reconciliation bloom-560m-decode
      kerneldb analyze reconciliation --csv
    """
    found = open_database(lock_timeout=READ_WAIT_S).reconciliation(traces, where=where, top=top)
    for remark in found.remarks():
        note(remark)
    if where is not None:
        note("only the selected launches are predicted; what was measured is the whole")
    if output.format == "table":
        out: list[str] = []
        pages = [
            *(page(one, output, out) for one in found.balances),
            *(job_page(job, output, out) for job in found.jobs),
        ]
        emit_text("\n".join("".join(line.rstrip() + "\n" for line in lines) for lines in pages), output, drawn=True)
        note_left_out(out)
    elif output.format == "json":
        from kerneldb.output.records import encode

        emit_text(
            encode({"workloads": [one.as_dict() for one in found.balances], "jobs": found.jobs}).decode() + "\n", output
        )
    else:
        emit(found.table.to_reader(), output)


def page(one: WorkloadReconciliation, output: Output, out: list[str]) -> Iterator[str]:
    """The balances of a workload for people; columns of tables without room are added to `out`."""
    yield escape(f"{one.trace}, {one.workload}" + (f", {one.mode}" if one.mode else ""))
    yield "  " + escape(", ".join(f"{name.replace('_', ' ')} {one.facts[name]}" for name in FACTS if one.facts[name]))
    for section, title in SECTIONS.items():
        rows = [row for row in one.components if row["section"] == section]
        whole = next((row["value"] for row in rows if row["role"] == "measured"), None)
        names = ("component", "value", "unit", "95 % interval", "of measured", "source", "note")
        cells = [_component(row, whole) for row in rows]
        columns = list(zip(names, zip(*cells, strict=True), strict=True))
        yield from ["", f"{title}, per iteration", *table(columns, output, out, right=("value", "of measured"))]
    for by, title in GROUPS.items():
        yield from [
            "",
            title,
            *_table([row for row in one.groups if row["grouped_by"] == by], GROUP_COLUMNS, output, out),
        ]
    if one.kernels:
        yield from ["", "kernels with most time", *_table(one.kernels, KERNEL_COLUMNS, output, out)]


def job_page(job: Mapping[str, Any], output: Output, out: list[str]) -> Iterator[str]:
    """A workload of a job of several ranks for people, as `page`."""
    yield escape(f"job {job['job']}, {job['workload']}" + (f", {job['mode']}" if job["mode"] else ""))
    facts = [f"{name} {job[name]}" for name in ("model", "gpu", "run") if job[name]]
    measured = [f"{title} {_number(job[name], 1e-3)} {unit}" for title, name, unit in MEASURED if job[name] is not None]
    ranks = f"{job['ranks']} of {job['world_size']} ranks, mean of them, per iteration"
    yield "  " + escape(", ".join([*facts, ranks]))
    if measured:
        yield f"  measured without profiler: {', '.join(measured)}"
    yield from ["", *_table([_part(job, part) for part in PARTS], PART_COLUMNS, output, out)]
    if job["wait_ns"] is not None:
        longest, slowest = _number(job["longest_wait_ns"], 1e-3), job["slowest_rank"]
        yield f"  the rank that waits most waits {longest} µs; the others wait for rank {slowest}"
        yield "  waiting is that under the profiler, which slows ranks unequally: it is not that of the measured run"


def _part(job: Mapping[str, Any], part: tuple[str, str]) -> dict[str, Any]:
    title, name = part
    columns = ("n", "ns", "replayed_ns", "replayed_pct", "error_pct")
    values = {column: job.get(f"{name}_{column}") for column in columns}
    return {"part": title, "recorded_ns": values.pop("ns"), **values}


def _component(row: Mapping[str, Any], whole: float | None) -> tuple[str, ...]:
    unit, factor = MICRO.get(row["unit"], (row["unit"], 1.0))
    value = _number(row["value"], factor)
    known = row["low"] is not None and row["high"] is not None
    interval = f"{_number(row['low'], factor)} to {_number(row['high'], factor)}" if known else ""
    comparable = whole and row["value"] is not None and row["unit"] not in ("%", "MHz")
    share = f"{100 * row['value'] / whole:.1f} %" if comparable and whole else ""
    return row["component"], value, unit, interval, share, row["source"] or "", row["note"] or ""


def _number(value: float | None, factor: float) -> str:
    """Four significant digits at least, thousands apart."""
    if value is None:
        return UNKNOWN
    scaled = value * factor
    return f"{scaled:,.1f}" if abs(scaled) >= 1000 else f"{scaled:,.4g}"  # noqa: PLR2004 (four digits before the point)


def _table(rows: Sequence[Mapping[str, Any]], names: Sequence[str], output: Output, out: list[str]) -> list[str]:
    return table([(name, [row[name] for row in rows]) for name in names], output, out)
