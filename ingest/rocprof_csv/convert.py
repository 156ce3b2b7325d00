"""Rows of the CSV files as launches, calls, ranges, memory events, metrics and sums.

Which GPU a cell means: `Agent 4` and `4` are numbers among all agents, `GPU 0` one among GPUs.

rocprofv3 counts agents by their logical node, with `--agent-index absolute` by the node of the driver; both numbers
are in `agent_info.csv`, and nothing says which of them the cells are.
Source: rocprofiler-sdk, source/lib/output/metadata.cpp (`get_agent_index`).
"""

from __future__ import annotations

import dataclasses
import json
import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any, Final

import polars as pl

from kerneldb.batch import Manifest
from kerneldb.gpus.hip import WORK_ITEMS
from kerneldb.ingest import readers
from kerneldb.ingest.amd import agents as agent_rows
from kerneldb.ingest.amd import capture
from kerneldb.ingest.amd.agents import Agent, agent_of, numbered
from kerneldb.ingest.amd.agents import archs as archs_of
from kerneldb.ingest.amd.host import UNTIMED_RANGE, Host, Marker, is_range
from kerneldb.ingest.amd.launches import (
    COUNTED,
    DIRECTION,
    STATIC_ONLY,
    Launches,
    copy_kind,
    is_halved,
    mapped,
    remarked,
)
from kerneldb.ingest.amd.rows import address_of, memory_rows, metric_rows
from kerneldb.ingest.columns import Schema
from kerneldb.ingest.digits import BEYOND, whole
from kerneldb.ingest.launches import INT32_MAX, Signer
from kerneldb.ingest.output import File, Output, Report, nullable
from kerneldb.ingest.readers import Options, Progress, Unit
from kerneldb.ingest.rocprof_csv.table import INTEGERS, Kind, Table
from kerneldb.ingest.source import Source, digest

CELL: Final = re.compile(r"\s*(agent|gpu|cpu)?\s*(\d+)\s*", re.IGNORECASE)
KEYS: Final = {"node": "node_id", "stat_name": "name"}
AXES: Final = "xyz"
TEXTS: Final = (
    *("name", "agent", "process", "thread", "guid", "domain", "function", "direction", "operation"),
    *("source_agent", "target_agent", "address", "flags", "counter", "stat_name"),
)
COLUMNS: Final[Schema] = dict.fromkeys(TEXTS, pl.String) | dict.fromkeys(sorted(INTEGERS), pl.Int64)
SUMS: Final[Schema] = {**COLUMNS, "deviation_ns": pl.Float64, "mean_ns": pl.Float64}
KEY: Final = ("part", "dispatch", "start")
NO_AGENTS: Final = "devices numbered among all agents: no agent_info.csv in the capture"
NO_SUM: Final = "row of sums without a name or a number of calls"
PC_SAMPLES: Final = "samples of the program counter (not supported)"
INSTANCE: Final = r"^(.*\S)\s*\[(\d+)\]$"
API_NAME: Final = re.compile(r"(__)?(hip|hsa|roctx|nccl|rocdec|rocjpeg|mscclpp?)[A-Z_]\w*")
DOMAIN_NAME: Final = re.compile(r"[A-Z][A-Z_]+")


class AgentMap:
    """Agents of `agent_info.csv`; without one, absolute numbers count as devices, counted in `guessed`."""

    def __init__(self, rows: Iterable[dict[str, Any]]) -> None:
        found = numbered(agent_of({KEYS.get(name, name.lower()): value for name, value in row.items()}) for row in rows)
        self.agents: list[Agent] = found
        self.odd: dict[str, list[str]] = {}
        """Cells that should be numbers of agents and are none, by column."""
        self._by_node, self._by_logical = (self._numbered(name) for name in ("node_id", "logical_node_id"))
        self._absolute = not self._by_logical
        self.guessed = 0

    def _numbered(self, name: str) -> dict[int, Agent]:
        cells = {str(one.facts.get(name) or ""): one for one in self.agents}
        numbers = {cell: number for cell in cells if (number := whole(cell)) is not None and number < BEYOND}
        self.odd[name] = [cell for cell in cells if cell.strip() and cell not in numbers]
        return {number: cells[cell] for cell, number in numbers.items()}

    @property
    def archs(self) -> dict[int, str | None]:
        """Device → architecture."""
        return archs_of(self.agents)

    def devices(self, cells: pl.Series) -> pl.Series:
        """Device numbers; NULL for CPUs and for cells that name none."""
        distinct = [str(cell) for cell in cells.unique().drop_nulls()]
        self._absolute = self._absolute or any(self._is_absolute(cell) for cell in distinct)
        table = {cell: self._device(cell) for cell in distinct}
        if not self._by_node:
            absolute = [cell for cell in table if not cell.lower().startswith("gpu")]
            self.guessed += int(cells.is_in(absolute).sum())
        return cells.replace_strict(table, default=None, return_dtype=pl.Int32)

    def _is_absolute(self, cell: str) -> bool:
        """Whether the cell names an agent that only the driver's numbers know."""
        found = CELL.fullmatch(cell)
        if found is None or (found.group(1) or "agent").lower() != "agent":
            return False
        return whole(found.group(2)) in self._by_node.keys() - self._by_logical.keys()

    def _device(self, cell: str) -> int | None:
        found = CELL.fullmatch(cell)
        if found is None or (found.group(1) or "").lower() == "cpu":
            return None
        number = whole(found.group(2)) or 0
        if (found.group(1) or "").lower() == "gpu" or not self._by_node:
            return number if number <= INT32_MAX else None
        agent = (self._by_node if self._absolute else self._by_logical).get(number)
        return agent.device if agent is not None and agent.is_gpu else None


def kernels(rows: pl.DataFrame, agents: AgentMap, process: str | None, timing: str, from_rocpd: bool) -> pl.DataFrame:
    """Launches as `Launches.add` takes them, from a kernel trace or from counter collection."""
    rows = nullable(rows, COLUMNS)
    exact = pl.coalesce("lds_total", "lds_block") if from_rocpd else pl.col("lds_total")
    static = pl.lit(None, dtype=pl.Int64) if from_rocpd else pl.col("lds_block")
    products = pl.when(pl.col("grid_x").is_null() & (pl.col("workgroup") > 0))
    return rows.select(
        "stream",
        "queue",
        "name",
        agents.devices(rows["agent"]).alias("device"),
        kind=pl.lit("kernel"),
        timing=pl.lit(timing),
        process=pl.coalesce("process", pl.lit(process, dtype=pl.String)),
        start_ns="start",
        end_ns="end",
        correlation_id="correlation",
        reported_grid_unit=pl.lit(WORK_ITEMS),
        **{f"reported_grid_{axis}": pl.col(f"grid_{axis}") for axis in AXES},
        **{f"block_{axis}": pl.col(f"workgroup_{axis}") for axis in AXES},
        total_blocks=products.then((pl.col("grid") + pl.col("workgroup") - 1) // pl.col("workgroup")),
        threads_per_block=products.then("workgroup"),
        # Without what the launch adds: at least that much (STATIC_ONLY), and for Triton, which only adds, nothing.
        shared_bytes=pl.coalesce(exact, pl.when(static > 0).then(static)),
        static_shared_bytes=static,
        quality=pl.when(exact.is_null() & static.is_not_null()).then(pl.lit(STATIC_ONLY)),
        scratch_bytes="scratch",
        registers_reported="vgpr",
        agprs_reported="agpr",
        sgprs_reported="sgpr",
        graph_id=pl.when(pl.col("graph") != 0).then("graph"),
        graph_node_id=pl.when(pl.col("graph") != 0).then("graph_node"),
    )


def copies(rows: pl.DataFrame, agents: AgentMap, process: str | None) -> pl.DataFrame:
    """Copies as `Launches.add` takes them. The file prints no size; some releases of rocpd do."""
    rows = nullable(rows, COLUMNS)
    target, source = (agents.devices(rows[f"{side}_agent"]) for side in ("target", "source"))
    copied = rows.select(copy_kind=mapped(rows["direction"], copy_kind)).to_series()
    # Without a file of agents, the host looks like a device.
    device = pl.when(copied == "DtoH").then(pl.coalesce(source, target)).otherwise(pl.coalesce(target, source))
    return rows.select(
        "stream",
        pl.Series("device", pl.select(device).to_series()),
        copied,
        kind=pl.lit("memcpy"),
        name="direction",
        process=pl.coalesce("process", pl.lit(process, dtype=pl.String)),
        start_ns="start",
        end_ns="end",
        correlation_id="correlation",
        bytes="size",
    )


def calls(rows: pl.DataFrame) -> pl.DataFrame:
    """Calls as `Host.add` takes them."""
    return nullable(rows, COLUMNS).select(
        "process",
        "thread",
        kind="domain",
        name=pl.col("function").fill_null(""),
        start_ns="start",
        end_ns="end",
        correlation_id="correlation",
    )


def markers(rows: pl.DataFrame, report: Report) -> list[Marker]:
    """Roctx ranges; the text is where other files print the function. Thread 0 means a range of the process.

    Those without a time are counted in `report`.
    """
    columns = ("process", "thread", "function", "start", "end")
    found = nullable(rows, COLUMNS).drop_nulls(("start", "end")).select(columns)
    report.add("lost", UNTIMED_RANGE, rows.height - found.height)
    return [
        Marker(process, None if thread in (None, "0") else thread, text or "", start, end)
        for process, thread, text, start, end in found.iter_rows()
    ]


def memory(rows: pl.DataFrame, agents: AgentMap, process: str | None, scratch: bool) -> pl.DataFrame:
    """Allocations as `memory_rows` takes them."""
    rows = nullable(rows, COLUMNS)
    addresses = [address_of(text) for text in rows["address"]]
    return rows.select(
        "thread",
        agents.devices(rows["agent"]).alias("device"),
        pl.Series("address", addresses, dtype=pl.Int64),
        process=pl.coalesce("process", pl.lit(process, dtype=pl.String)),
        start_ns="start",
        end_ns="end",
        bytes="size",
        operation="operation",
        level=pl.lit("SCRATCH" if scratch else "REAL"),
    )


def kind_of_sums(stem: str, names: Sequence[str]) -> str:
    """What is summed: kernel, memcpy, or an API (`hip`), by the name that the tool gives the file, else by its rows."""
    if "copy" in stem or (not stem and all(DIRECTION.search(name) for name in names)):
        return "memcpy"
    of_calls = all(API_NAME.fullmatch(name) or DOMAIN_NAME.fullmatch(name) for name in names)
    if "kernel" in stem or stem == "stats" or (not stem and not of_calls):
        return "kernel"
    return re.sub("_?(api|stats)", "", stem) or "api"


def call_sums(rows: pl.DataFrame, kind: str) -> pl.DataFrame:
    """Rows of `call_sums` without trace_id."""
    rows = nullable(rows, SUMS).drop_nulls(("stat_name", "calls"))
    return rows.select("total_ns", "min_ns", "max_ns", "deviation_ns", kind=pl.lit(kind), name="stat_name", n="calls")


def sums(rows: pl.DataFrame, kind: str) -> pl.DataFrame:
    """Rows of `rollups` without ids, and the name of the kernel or copy beside them."""
    rows = nullable(rows, SUMS)
    calls_made = pl.col("calls").cast(pl.Float64)
    mean = pl.coalesce("mean_ns", pl.col("total_ns") / calls_made)
    rows = rows.drop_nulls(("stat_name", "calls"))
    return rows.select(
        "total_ns",
        "min_ns",
        "max_ns",
        name="stat_name",
        kind=pl.lit(kind),
        copy_kind=mapped(rows["stat_name"], copy_kind) if kind == "memcpy" else pl.lit(None, pl.String),
        origin=pl.lit("report"),
        timing=pl.lit("timeline"),
        n="calls",
        timed="calls",
        sum_squares_ns2=calls_made * mean**2 + (calls_made - 1).clip(lower_bound=0) * pl.col("deviation_ns") ** 2,
    )


class Counters:
    """Feed all kernel traces first. A dispatch is known by its number and its start."""

    def __init__(self, output: Output, launches: Launches, agents: AgentMap, process: str | None, halved: bool) -> None:
        self._output = output
        self._launches = launches
        self._agents = agents
        self._process = process
        self._halved = halved
        self._known = pl.DataFrame(schema={"part": pl.String, **dict.fromkeys((*KEY[1:], "launch_index"), pl.Int64)})

    def traced(self, part: str, rows: pl.DataFrame, wide: list[str], from_rocpd: bool) -> None:
        """Write rows of a kernel trace; `wide` are columns of counters beside them (rocprof, rocprofv2).

        Times under counter collection are no times of a running program.
        """
        timing = "profiled" if wide else "timeline"
        given = kernels(rows, self._agents, self._process, timing, from_rocpd)
        if wide:
            given = given.with_columns(quality=remarked(COUNTED))
        first, behind = self._launches.add(part, given, self._agents.archs, self._halved)
        keyed = nullable(rows, {"dispatch": pl.Int64, "start": pl.Int64})
        made = keyed.select(part=pl.lit(part), dispatch="dispatch", start="start")
        numbers = pl.int_range(first, behind, dtype=pl.Int64, eager=True)
        self._known = pl.concat([self._known, made.with_columns(launch_index=numbers)])
        if wide:
            values = rows.select(wide).with_columns(launch_index=numbers)
            long = values.unpivot(index="launch_index", variable_name="counter", value_name="value_text")
            self._write(long, None)

    def add(self, rows: pl.DataFrame, from_rocpd: bool, run_pass: int | None) -> None:
        """Write rows of a counter file, one per dispatch and counter."""
        guid = pl.col("guid").fill_null("") if "guid" in rows.columns else pl.lit("")
        rows = nullable(rows, {"dispatch": pl.Int64, "start": pl.Int64}).with_columns(part=guid)
        fresh = rows.unique(KEY, keep="first", maintain_order=True)
        fresh = fresh.join(self._known, on=KEY, how="anti", nulls_equal=True, maintain_order="left")
        for (part,), some in fresh.partition_by("part", as_dict=True, maintain_order=True).items():
            given = kernels(some, self._agents, self._process, "profiled", from_rocpd)
            given = given.with_columns(quality=remarked(COUNTED))
            first, behind = self._launches.add(str(part), given, self._agents.archs, self._halved)
            made = some.select(*KEY, launch_index=pl.int_range(first, behind, dtype=pl.Int64))
            self._known = pl.concat([self._known, made])
        one = self._known.unique(KEY, keep="first", maintain_order=True)  # of those that nothing tells apart
        found = rows.join(one, on=KEY, how="left", nulls_equal=True, maintain_order="left")
        self._write(found.select("launch_index", "counter", value_text="value"), run_pass)

    def _write(self, values: pl.DataFrame, run_pass: int | None) -> None:
        text = pl.col("value_text")
        value = text.cast(pl.Float64, strict=False)
        value = pl.when(value.is_finite()).then(value)
        decimals = text.str.extract(r"^-?\d+\.(\d+)$").str.len_chars().fill_null(0)
        plain = text.str.contains(r"^-?\d+(\.\d+)?$")
        rows = values.with_columns(
            value=value,
            precision=pl.when(plain).then(0.5 * 10.0 ** (-decimals.cast(pl.Float64))),
            text=pl.when(value.is_null()).then(text),
        ).drop("value_text")
        rows = rows.with_columns(pl.lit(run_pass, dtype=pl.Int32).alias("pass"))
        named = pl.col("counter").fill_null("") != ""
        self._output.report.add("lost", "value of a counter without a name", rows.filter(~named).height)
        stored = _summed(rows.filter(named & (pl.col("value").is_not_null() | pl.col("text").is_not_null())))
        self._output.report.add("stored", "counter values", stored.height)
        self._output.write("metrics", metric_rows(stored))


def _summed(values: pl.DataFrame) -> pl.DataFrame:
    """Counters of single channels (`TCC_HIT[7]`) as instances of one counter; their sum, where none is missing."""
    parts = pl.col("counter").str.extract_groups(INSTANCE).struct
    apart = values.with_columns(counter=pl.coalesce(parts[0], "counter"), instance=parts[1])
    several = apart.filter(pl.col("instance").is_not_null())
    keys = [name for name in ("launch_index", "counter", "pass") if name in values.columns]
    totals = several.group_by(keys, maintain_order=True).agg(
        pl.col("value", "precision").sum(), n=pl.col("value").count()
    )
    totals = totals.filter(pl.col("n") == pl.col("n").max().over("counter")).drop("n")
    return pl.concat([apart, totals], how="diagonal")


@dataclasses.dataclass(slots=True)
class Capture:
    """Everything that the steps of a conversion share."""

    tables: list[Table]
    output: Output
    agents: AgentMap
    process: str | None
    halved: bool
    progress: Callable[[], None]

    def of(self, *kinds: Kind) -> Iterator[Table]:
        """The tables of these kinds."""
        return (table for table in self.tables if table.kind in kinds)


def convert(unit: Unit, folder: Path, options: Options, progress: Progress | None = None) -> Manifest:
    """Convert all files of `unit` into the spool `folder`.

    Raises UnreadableTraceError where a file cannot be opened.
    """
    tables = [Table(Source(path), readers.head_of(path).data) for path in unit.files]
    total = sum(table.source.stored_bytes for table in tables)

    def follow() -> None:
        if progress is not None:
            progress(min(total, sum(table.source.read_bytes for table in tables)), total)

    read = [Source(path) for path in unit.files]
    for one in read:
        digest(one)
    output = Output(folder, read)
    agents = AgentMap(
        row
        for table in tables
        if table.kind == "agents"
        for frame in table.rows()
        for row in frame.iter_rows(named=True)
    )
    # Files that do not name the process may have it in their names, as `%pid%_kernel_trace.csv`.
    prefixes = [capture.prefix_of(path) for path in unit.files]
    process = next((prefix for prefix in prefixes if prefix.isdecimal()), None)
    it = Capture(tables, output, agents, process, _halved(tables, agents), follow)
    output.write("devices", agent_rows.device_rows(agents.agents, process, output.report))
    output.report.add("stored", "agents", len(agents.agents))
    host = Host(output, _markers(it))
    launches = Launches(output, host)
    _read(it, host, launches)
    output.report.add("note", NO_AGENTS, agents.guessed)
    for column, cells in agents.odd.items():
        output.report.add(
            "unread",
            f"cell of column {column} that is no number of an agent",
            len(cells),
            *(cell[:40] for cell in cells[:1]),
        )
    for (outcome, reason), (n, example) in output.report.counts.items():
        tables[0].report.add(outcome, reason, n, example)
    files = [File(table.source, table.stem or table.kind, table.read, table.report) for table in tables]
    name = prefixes[0] if len(tables) > 1 else ""
    stem = min((table.source.stem for table in tables), key=len)
    return output.finish(options, name or stem.removesuffix(".csv"), files, **_facts(it, launches))


def _markers(it: Capture) -> list[Marker]:
    found: list[Marker] = []
    for table in it.of("calls"):
        if "MARKER" in table.stem.upper() or b"MARKER_" in readers.head_of(table.source.path).data:
            found += [one for frame in _again(table).rows() for one in markers(_core(frame), table.report)]
    return found


def _again(table: Table) -> Table:
    """The same file, to be read once more: markers have to be known before the first call."""
    return Table(Source(table.source.path), readers.head_of(table.source.path).data)


def _core(frame: pl.DataFrame, wanted: bool = True) -> pl.DataFrame:
    flags = mapped(frame["domain"], lambda domain: is_range(domain, ""), pl.Boolean).fill_null(value=False)
    return frame.filter(flags if wanted else ~flags)


def _read(it: Capture, host: Host, launches: Launches) -> None:
    for table in it.of("calls"):
        for frame in table.rows():
            for part, rows in _by_guid(_core(frame, wanted=False)):
                host.add(part, calls(rows))
            it.progress()
    counters = Counters(it.output, launches, it.agents, it.process, it.halved)
    for table in it.of("kernels"):
        for frame in table.rows():
            for part, rows in _by_guid(frame):
                counters.traced(part, rows, table.wide_counters, table.from_rocpd)
            it.progress()
    for table in it.of("counters"):
        for frame in table.rows():
            counters.add(frame, table.from_rocpd, capture.pass_of(table.source.path))
            it.progress()
    for part, rows in (one for table in it.of("copies") for frame in table.rows() for one in _by_guid(frame)):
        launches.add(part, copies(rows, it.agents, it.process), it.agents.archs)
    _memory(it)
    _sums(it)
    for table in it.of("pc_samples"):
        table.report.add("skipped", PC_SAMPLES, sum(frame.height for frame in table.rows()))
    launches.finish()


def _halved(tables: Sequence[Table], known: AgentMap) -> bool:
    """Whether register counts suffer from the gfx950 fault of the profiler, which takes all launches to know."""
    suspected = any(is_halved(arch, 0) for arch in known.archs.values())
    return suspected and not any(
        any((count or 0) > 0 for count in frame["agpr"].unique())
        for table in tables
        if table.kind in ("kernels", "counters") and "agpr" in table.columns
        for frame in _again(table).rows()
    )


def _by_guid(frame: pl.DataFrame) -> Iterator[tuple[str, pl.DataFrame]]:
    if "guid" not in frame.columns:
        yield "", frame
        return
    for (guid,), rows in frame.partition_by("guid", as_dict=True, maintain_order=True).items():
        yield str(guid or ""), rows


def _memory(it: Capture) -> None:
    first = 0
    for table in it.of("memory", "scratch"):
        frames = [memory(frame, it.agents, it.process, scratch=table.kind == "scratch") for frame in table.rows()]
        given = pl.concat(frames) if frames else pl.DataFrame()
        if given.height:
            it.output.saw(given)
            it.output.write("memory_events", memory_rows(given, first))
            table.report.add("stored", "allocations and releases", given.height)
            first += given.height


def _sums(it: Capture) -> None:
    signer = Signer()
    for table in it.of("stats"):
        for frame in table.rows():
            kind = kind_of_sums(table.stem.lower(), frame["stat_name"].drop_nulls().to_list())
            if kind in ("kernel", "memcpy"):
                rows = sums(frame, kind)
                it.output.write("rollups", signer.sign(rows).drop("name", "kind", "copy_kind"))
                table.report.add("stored", "sums over launches", rows.height)
            else:
                rows = call_sums(frame, kind)
                it.output.write("call_sums", rows)
                table.report.add("stored", "sums over calls", rows.height)
            table.report.add("skipped", NO_SUM, frame.height - rows.height)
    signer.write(it.output.spool)


def _facts(it: Capture, launches: Launches) -> dict[str, Any]:
    """Columns of `traces`."""
    old = any(table.is_old or (table.kind == "stats" and "min_ns" not in table.columns) for table in it.tables)
    tool = "rocprof" if old else "rocprofv3"
    form = "rocpd csv" if any(table.from_rocpd for table in it.tables) else f"{tool} csv"
    kinds = {table.kind for table in it.tables}
    return {
        "kind": "summary" if kinds == {"stats"} else launches.trace_kind,
        "source": tool,
        "tool": tool,
        "era": capture.era_of(form, it.tables[0].source.path),
        "clock": "boottime",
        "base_ns": 0,
        "metadata": json.dumps({"files": sorted(kinds)}),
        "reader_version": 2,
    }
