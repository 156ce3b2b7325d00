"""Hardware counters: what limits kernels, which kernels have counters, and the ncu line that collects them."""

from __future__ import annotations

import dataclasses
import re
import shlex
from typing import TYPE_CHECKING, Any, Final

from kerneldb.api.queries import require, require_traces, rows, statement
from kerneldb.errors import UsageError

if TYPE_CHECKING:
    from collections.abc import Sequence

    import duckdb
    import pyarrow as pa

    from kerneldb.warehouse import Warehouse

    Connection = duckdb.DuckDBPyConnection

DEFAULT_RULE: Final = "ncu"
TOP: Final = 20
LOG_FILE: Final = "ncu-raw.csv"
SECTIONS: Final = (
    "SpeedOfLight",
    "SpeedOfLight_RooflineChart",
    "SpeedOfLight_HierarchicalSingleRooflineChart",
    "SpeedOfLight_HierarchicalDoubleRooflineChart",
    "SpeedOfLight_HierarchicalHalfRooflineChart",
    "SpeedOfLight_HierarchicalTensorRooflineChart",
    "MemoryWorkloadAnalysis",
    "Occupancy",
    "LaunchStats",
)
"""Identifiers of the sections of Nsight Compute that the views `bounds` and `ncu_roofline` read."""

METRICS: Final = ("dram__bytes.sum", "dram__bytes_read.sum", "dram__bytes_write.sum")
"""DRAM bytes, which these sections have as rates only."""

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
    """

    arguments: tuple[str, ...]
    kernels: tuple[dict[str, Any], ...]
    share_pct: float
    profiled: int

    @property
    def line(self) -> str:
        """The line, quoted for a POSIX shell."""
        return shlex.join(self.arguments)


def rules(warehouse: Warehouse) -> pa.Table:
    """The rules of the table `bound_rules` with their thresholds and sources."""
    return warehouse.query(statement("bounds_rules"))


def bounds(
    warehouse: Warehouse, rule: str, where: str | None, traces: Sequence[str], *, kernels: bool = False
) -> pa.Table:
    """What `rule` says limits the selected profiled launches: a row per verdict with means, or (`kernels`) per launch.

    Raises UsageError for an unknown rule or trace, SelectionError for a bad `where`.
    """
    require("rule", [rule], sorted({row["rule"] for row in rows(warehouse, "bounds_rules")}))
    return _selected(warehouse, "bounds_kernels" if kernels else "bounds_classes", where, traces, rule=rule)


def coverage(warehouse: Warehouse, where: str | None, traces: Sequence[str], top: int | None = None) -> pa.Table:
    """Which of the selected kernels (the `top` ones by time, or all) have counters: rows of `counter_coverage`."""
    return _selected(warehouse, "coverage_top", where, traces, top=top)


def _selected(warehouse: Warehouse, name: str, where: str | None, traces: Sequence[str], **params: Any) -> pa.Table:
    from kerneldb.selection import Selection
    from kerneldb.warehouse.execute import query_errors

    require_traces(warehouse, traces)
    with warehouse.lease() as con, query_errors():
        Selection(where, tuple(traces)).bind(con)
        return con.sql(statement(name), params=params).to_arrow_table()


def ncu_command(warehouse: Warehouse, wanted: Counting) -> NcuCommand:
    """The line that collects the counters of the wanted kernels. Raises UsageError where nothing timed is selected."""
    from kerneldb.selection import Selection
    from kerneldb.warehouse.execute import query_errors

    require_traces(warehouse, wanted.traces)
    with warehouse.lease() as con, query_errors():
        selected = Selection(wanted.where, wanted.traces).relation(con)
        con.register("selection", selected if wanted.phase is None else _in_phase(selected, wanted.phase))
        kernels = _fetch(con, "ncu_chosen", top=wanted.top)
        if not kernels and wanted.where is None and wanted.phase is None:
            kernels = _fetch(con, "ncu_chosen_sums", top=wanted.top, traces=list(wanted.traces))
        if not kernels:
            message = "no kernels with times are selected; kerneldb top lists what there is"
            raise UsageError(message)
        functions = sorted({function_name(row["name"]) for row in kernels})
        count, profiled = _launch_count(con, functions, [row["launch"] for row in kernels])
    arguments = _arguments(functions, count, wanted)
    return NcuCommand(arguments, tuple(kernels), sum(row["share_pct"] for row in kernels), profiled)


def _in_phase(selected: duckdb.DuckDBPyRelation, phase: str) -> duckdb.DuckDBPyRelation:
    import duckdb

    return selected.filter(duckdb.ColumnExpression("phase") == duckdb.ConstantExpression(phase))


def _fetch(con: Connection, name: str, **params: Any) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = con.sql(statement(name), params=params or None).to_arrow_table().to_pylist()
    return found


def function_name(name: str) -> str:
    """The name that ``--kernel-name-base function`` of ncu matches: without scope, template arguments, parameters."""
    from kerneldb.names.structure import parse

    return parse(name).base.strip() or name


def _launch_count(con: Connection, functions: Sequence[str], launches: Sequence[str]) -> tuple[int, int]:
    """Launches of one grid and block to profile so that all of `launches` are among them, and how many that makes.

    ``--filter-mode per-launch-config`` applies ``--launch-count`` to each grid size, block size and shared memory
    (Nsight Compute CLI guide), not to each name.
    """
    wanted = set(functions)
    names = [row["name_id"] for row in _fetch(con, "ncu_names") if function_name(row["name"]) in wanted]
    (row,) = _fetch(con, "ncu_launch_count", name_ids=names, launches=list(launches))
    return int(row["per_configuration"]), int(row["profiled"])


def _arguments(functions: Sequence[str], count: int, wanted: Counting) -> tuple[str, ...]:
    """The arguments of ncu: options and their meaning in NVIDIA's Nsight Compute CLI guide."""
    sections = [argument for section in SECTIONS for argument in ("--section", section)]
    return (
        *("ncu", "--target-processes", "all", *_nvtx(wanted)),
        *("--kernel-name-base", "function", "--kernel-name", kernel_filter(functions)),
        *("--filter-mode", "per-launch-config", "--launch-count", str(count)),
        *(*sections, "--metrics", ",".join(METRICS)),
        *("--csv", "--page", "raw", "--log-file", wanted.log_file),
        *wanted.program,
    )


def kernel_filter(functions: Sequence[str]) -> str:
    """The filter of ``--kernel-name`` that matches exactly these function names."""
    escaped = (re.sub(r"([^\w])", r"\\\1", function) for function in functions)
    return f"regex:^({'|'.join(escaped)})$"


def _nvtx(wanted: Counting) -> tuple[str, ...]:
    """The NVTX filter: a slash behind the name stands for a range that was pushed (not started)."""
    if wanted.nvtx is None and wanted.phase is None:
        return ()
    expression = wanted.nvtx or _NVTX_DELIMITERS.sub(lambda match: "\\" + match[0], wanted.phase or "") + "/"
    return ("--nvtx", "--nvtx-include", expression)
