"""Hardware counters: what limits kernels, which kernels have counters, and the ncu line that collects them."""

from __future__ import annotations

import dataclasses
import re
from typing import TYPE_CHECKING, Any, Final

from kerneldb.api import queries
from kerneldb.errors import SelectionError, UsageError
from kerneldb.gpus import counting
from kerneldb.shell import command_line, file

if TYPE_CHECKING:
    from collections.abc import Sequence

    import pyarrow as pa

    from kerneldb.api.queries import Connection
    from kerneldb.warehouse import Warehouse


TOP: Final = 20
NAMED: Final = 17
"""Columns of sums that a message lists: the dimensions, which come first."""

LOG_FILE: Final = "ncu-raw.csv"
_NVTX_DELIMITERS: Final = re.compile(r"[\\/@,\[\]?*]")


@dataclasses.dataclass(frozen=True, slots=True)
class Counting:
    """What a user wants counted: the `top` kernels of the selection, in `phase`, by running `program`.

    `nvtx` is a filter expression of ncu that takes the place of the one made from `phase`.
    """

    where: str | None = None
    traces: tuple[str, ...] = ()
    top: int = TOP
    phase: str | None = None
    nvtx: str | None = None
    log_file: str = LOG_FILE
    program: tuple[str, ...] = ()


@dataclasses.dataclass(frozen=True, slots=True)
class NcuCommand:
    """A command line of Nsight Compute, and the kernels it is for.

    Attributes:
        arguments: the line, one argument each.
        kernels: rows with name, short_name, n, total_ns (ns), share_pct; most time first.
        share_pct: their share of the kernel time of the selection.
        profiled: launches that ncu will profile if the program runs as recorded; 0 where no launches are recorded.
        from_sums: only sums are recorded, in which the order of launches is unknown: ``--launch-count`` meets every
            kernel in the worst order.
    """

    arguments: tuple[str, ...]
    kernels: tuple[dict[str, Any], ...]
    share_pct: float
    profiled: int
    from_sums: bool = False

    @property
    def line(self) -> str:
        """The line, quoted for a POSIX shell."""
        return command_line(self.arguments)


def bounds(
    warehouse: Warehouse, rule: str, where: str | None, traces: Sequence[str], *, kernels: bool = False
) -> pa.Table:
    """What `rule` says limits the selected profiled launches: a row per verdict with means, or (`kernels`) per launch.

    Raises UsageError for an unknown rule or trace, SelectionError for a bad `where`.
    """
    queries.require("rule", [rule], sorted({row["rule"] for row in queries.ask(warehouse, "bounds_rules")}))
    return queries.selected(warehouse, "bounds_kernels" if kernels else "bounds_classes", where, traces, {"rule": rule})


def rules(warehouse: Warehouse, where: str | None, traces: Sequence[str], *, everything: bool = False) -> pa.Table:
    """What Nsight Compute's own rules say of the selected profiled launches; `everything` includes mere information.

    Raises UsageError for an unknown trace, SelectionError for a bad `where`.
    """
    return queries.selected(warehouse, "ncu_rules", where, traces, {"everything": everything})


def coverage(warehouse: Warehouse, where: str | None, traces: Sequence[str], top: int | None = None) -> pa.Table:
    """Which of the selected kernels (the `top` ones by time, or all) have counters: rows of `counter_coverage`.

    Where a trace holds only sums, its kernels are selected among those. Raises SelectionError where `where` then names
    a column of launches.
    """
    import pyarrow as pa

    with queries.selecting(warehouse, where, traces) as con:
        found = queries.table(con, "coverage_top")
        if _bind_sums(con, where, traces, needed=not found.num_rows):
            order = [("total_ns", "descending"), ("trace", "ascending"), ("signature_id", "ascending")]
            found = pa.concat_tables([found, queries.table(con, "coverage_sums")]).sort_by(order)
    return found if top is None else found.slice(0, top)


def _bind_sums(
    con: Connection, where: str | None, traces: Sequence[str], *, phase: str | None = None, needed: bool
) -> bool:
    """Make the selected sums of tools known to statements as `sums`; False where there are none.

    `where` may name columns of `kernel_rollups`. For others it raises SelectionError if sums are `needed`, because
    there are no launches to select from.
    """
    import duckdb

    sums = con.sql(queries.statement("coverage_reported"), params={"traces": list(traces)})
    if phase is not None:
        sums = sums.filter(queries.among("phase", [phase]))
    try:
        chosen = sums.filter(where) if queries.has_condition(where) else sums
        con.register("sums", chosen)
    except duckdb.Error as error:
        if not needed or not len(sums.limit(1)):
            return False
        raise SelectionError(
            f"no launches are selected, and the sums of reports have no such columns: the condition {where!r} may name "
            f"{', '.join(sums.columns[:NAMED])} of them ({str(error).splitlines()[0]})"
        ) from error
    return len(chosen.limit(1)) > 0


def ncu_command(warehouse: Warehouse, wanted: Counting) -> NcuCommand:
    """The line that collects the counters of the wanted kernels. Raises UsageError where nothing timed is selected."""
    from kerneldb.selection import Selection
    from kerneldb.warehouse.execute import query_errors

    queries.require_traces(warehouse, wanted.traces)
    with warehouse.connection() as con, query_errors():
        launches = Selection(wanted.where, wanted.traces).relation(con)
        if wanted.phase is not None:
            launches = launches.filter(queries.among("phase", [wanted.phase]))
        con.register("selection", launches)
        kernels = queries.rows(con, "ncu_chosen", {"top": wanted.top})
        from_sums = not kernels and _bind_sums(con, wanted.where, wanted.traces, phase=wanted.phase, needed=True)
        if from_sums:
            kernels = queries.rows(con, "ncu_chosen_sums", {"top": wanted.top})
        if not kernels:
            raise UsageError(
                "no kernels with times are selected (collectives do not count); kerneldb top lists what there is"
            )
        functions = {function_name(row["name"]) for row in kernels}
        _refuse_amd(kernels, sorted(functions))
        chosen = [row["launch"] for row in kernels]
        if from_sums:
            count, profiled = _safe_count(con, functions, wanted.traces, chosen), 0
        else:
            count, profiled = _launch_count(con, functions, chosen)
    arguments = _arguments(sorted(functions), count, wanted)
    return NcuCommand(arguments, tuple(kernels), sum(row["share_pct"] or 0.0 for row in kernels), profiled, from_sums)


def _refuse_amd(kernels: Sequence[dict[str, Any]], functions: Sequence[str]) -> None:
    """Raise UsageError where all kernels ran on AMD GPUs, with the line that counts there."""
    amd = [row.pop("is_amd", False) for row in kernels]
    if all(amd):
        names = command_line(["|".join(re.escape(name) for name in functions)])
        raise UsageError(
            "Nsight Compute counts on NVIDIA GPUs, and these kernels ran on AMD ones; there (rocprofv3 --list-avail "
            f"names counters): rocprofv3 --pmc COUNTERS --kernel-include-regex {names} --output-format csv -- PROGRAM"
        )


def function_name(name: str) -> str:
    """The name that ``--kernel-name-base function`` of ncu matches: without scope, template arguments, parameters."""
    from kerneldb.names.structure import parse

    return parse(name).base.strip() or name


def _launch_count(con: Connection, functions: set[str], launches: Sequence[str]) -> tuple[int, int]:
    """Launches of one grid and block to profile so that all of `launches` are among them, and how many that makes.

    ``--filter-mode per-launch-config`` applies ``--launch-count`` to each grid size, block size and shared memory
    (Nsight Compute CLI guide), not to each name.
    """
    names = [row["name_id"] for row in queries.rows(con, "ncu_names") if function_name(row["name"]) in functions]
    (row,) = queries.rows(con, "ncu_launch_count", {"name_ids": names, "launches": list(launches)})
    return row["per_configuration"], row["profiled"]


def _safe_count(con: Connection, functions: set[str], traces: Sequence[str], chosen: Sequence[str]) -> int:
    """Launches of one grid and block that surely include all of the `chosen` names, in whatever order they run.

    Other names with these functions may come first, with all of their launches in one configuration.
    """
    names = queries.rows(con, "ncu_names_sums", {"traces": list(traces)})
    launches = {row["name_id"]: row["n"] or 1 for row in names if function_name(row["name"]) in functions}
    return 1 + sum(launches.values()) - min(launches[name] for name in chosen)


def _arguments(functions: Sequence[str], count: int, wanted: Counting) -> tuple[str, ...]:
    """The arguments of ncu: options and their meaning in NVIDIA's Nsight Compute CLI guide."""
    nvtx: tuple[str, ...] = ()
    if wanted.nvtx is not None or wanted.phase is not None:
        # a slash after the name means a range that was pushed (not started)
        pushed = _NVTX_DELIMITERS.sub(lambda match: "\\" + match[0], wanted.phase or "") + "/"
        nvtx = ("--nvtx", "--nvtx-include", wanted.nvtx or pushed)
    sections = [argument for section in counting.SECTIONS for argument in ("--section", section)]
    return (
        *("ncu", "--target-processes", "all", *nvtx),
        *("--kernel-name-base", "function", "--kernel-name", kernel_filter(functions)),
        *("--filter-mode", "per-launch-config", "--launch-count", str(count)),
        *(*sections, "--metrics", ",".join(counting.METRICS)),
        *("--csv", "--page", "raw", "--log-file", file(wanted.log_file)),
        *wanted.program,
    )


def kernel_filter(functions: Sequence[str]) -> str:
    """The filter of ``--kernel-name`` that matches exactly these function names."""
    escaped = (re.sub(r"([^\w])", r"\\\1", function) for function in functions)
    return f"regex:^({'|'.join(escaped)})$"
