"""rocpd: joins, places, ranges, memory, counters, samples and what is kept out of the warehouse."""

from __future__ import annotations

import gzip
import json
from typing import TYPE_CHECKING

import polars as pl
import pytest

from kerneldb.ingest import Options
from kerneldb.ingest.ledger import UNKNOWN
from kerneldb.ingest.rocpd.convert import DROPPED
from tests.rocprof.conversion import converted
from tests.rocprof.databases import GUID, Kernel, Process, fill, rocpd, settings, views, write_rocpd

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from tests.ingest.conversion import Converted

KERNEL = Kernel("kernel_a", (1024, 1, 1), (256, 1, 1), [1_000, 3_000])
START = 1_000_000_000_000
OTHER = "0000f2c4-8192-7151-8115-1151c0de0002"
Change = "Callable[[Process], object]"


def made(path: Path, *changes: Callable[[Process], object], kernels: tuple[Kernel, ...] = (KERNEL,)) -> Converted:
    """The trace of a database with `kernels` after `changes` to it."""
    with rocpd(path / "run.db") as connection:
        process = Process(connection)
        fill(process, kernels)
        for change in changes:
            change(process)
        views(connection, [process.suffix])
    return converted(path / "run.db")


def table(process: Process, name: str) -> str:
    return f'"{name}{process.suffix}"'


def test_every_dispatch_is_linked_to_its_call(tmp_path: Path) -> None:
    first, second = made(tmp_path).launches.sort("start_ns").to_dicts()
    assert (first["api_call"], first["launch_status"]) == ("hipModuleLaunchKernel", "no_op")
    assert (first["launch_start_ns"], first["launch_duration_ns"]) == (START - 9_000, 5_000)
    assert (second["start_ns"], second["duration_ns"]) == (START + 3_000, 3_000)
    assert (first["process"], first["device"], first["stream"], first["queue"]) == ("115108", 0, 0, 1)


@pytest.mark.parametrize(
    ("broken", "sql"),
    [
        ("symbol", "DELETE FROM {symbols}"),
        ("event", "UPDATE {dispatches} SET event_id = NULL"),
        ("event", "UPDATE {dispatches} SET event_id = 9999"),
        ("event", "DELETE FROM {events} WHERE id IN (SELECT event_id FROM {dispatches})"),
        ("agent", "UPDATE {dispatches} SET agent_id = 99"),
        ("thread", "UPDATE {dispatches} SET tid = 99"),
        ("queue", "UPDATE {dispatches} SET queue_id = 99"),
        ("region", "UPDATE {dispatches} SET region_name_id = NULL"),
    ],
)
def test_orphans_are_kept_and_counted(tmp_path: Path, broken: str, sql: str) -> None:
    def change(process: Process) -> None:
        names = {"symbols": "rocpd_info_kernel_symbol", "dispatches": "rocpd_kernel_dispatch", "events": "rocpd_event"}
        process.connection.execute(sql.format(**{key: table(process, name) for key, name in names.items()}))

    trace = made(tmp_path, change)
    assert trace.launches.height == 2
    assert trace.launches["duration_ns"].sum() == 4_000
    assert trace.report("note")[DROPPED] == 2
    assert any(broken in reason for reason in trace.report("note"))


def test_merged_files_keep_processes_apart(tmp_path: Path) -> None:
    path = tmp_path / "merged.db"
    with rocpd(path) as connection:
        processes = [Process(connection, GUID, 100), Process(connection, OTHER, 200)]
        for process in processes:
            fill(process, [KERNEL], START + process.pid)
        views(connection, [process.suffix for process in processes])
    trace = converted(path)
    by_process = trace.launches.group_by("process").agg(pl.len(), pl.col("api_index").n_unique()).sort("process")
    assert by_process.rows() == [("100", 2, 2), ("200", 2, 2)]
    assert trace.table("devices")["process"].to_list() == ["100", "200"]
    assert json.loads(trace.trace["metadata"])["guids"] == [GUID, OTHER]
    calls = trace.table("api_calls").select("api_index", "process")
    linked = trace.launches.join(calls, on="api_index", suffix="_of_call")
    assert (linked["process"] == linked["process_of_call"]).all()


def test_equal_process_numbers_of_two_machines_stay_apart(tmp_path: Path) -> None:
    path = tmp_path / "merged.db"
    with rocpd(path) as connection:
        for guid, machine in ((GUID, "a"), (OTHER, "b")):
            fill(Process(connection, guid, 100, machine=machine), [KERNEL])
    trace = converted(path)
    assert trace.launches["process"].n_unique() == 2
    assert sorted(trace.launches["device"].unique()) == trace.table("devices")["device"].to_list() == [0, 1]


def test_a_compressed_database(tmp_path: Path) -> None:
    plain, packed = write_rocpd(tmp_path / "run.db", [KERNEL]), tmp_path / "run.db.gz"
    packed.write_bytes(gzip.compress(plain.read_bytes()))
    one, other = converted(plain), converted(packed)
    assert one.launches.equals(other.launches)
    assert one.manifest.trace_id == other.manifest.trace_id


def test_a_table_of_the_future_is_named(tmp_path: Path) -> None:
    """Tables have the GUID of their process behind their names, which the report leaves out."""

    def change(process: Process) -> None:
        future = table(process, "rocpd_future")
        process.connection.execute(f"CREATE TABLE {future} (id INTEGER, x BLOB)")
        process.connection.execute(f"INSERT INTO {future} VALUES (1, NULL), (2, NULL)")
        process.connection.execute(f"ALTER TABLE {table(process, 'rocpd_kernel_dispatch')} ADD COLUMN y REAL")

    found = made(tmp_path, change)
    assert found.launches.height == 2
    assert found.report("skipped")[f"table rocpd_future: {UNKNOWN}"] == 2


def test_missing_tables_are_no_error(tmp_path: Path) -> None:
    def change(process: Process) -> None:
        for name in ("rocpd_region", "rocpd_memory_copy", "rocpd_pmc_event", "rocpd_sample", "rocpd_info_queue"):
            process.connection.execute(f"DROP TABLE {table(process, name)}")

    with rocpd(tmp_path / "run.db") as connection:
        process = Process(connection)
        fill(process, [KERNEL])
        change(process)
    launches = converted(tmp_path / "run.db").launches
    assert launches["launch_status"].to_list() == ["no_launch", "no_launch"]


def roctx(process: Process, text: str, start: int, end: int, stack: int, function: str = "roctxThreadRangeA") -> None:
    extra = {"extdata": json.dumps({"message": text})}
    process.region("MARKER_CORE_RANGE_API", function, start, end, stack, **extra)


def test_ranges_become_phases(tmp_path: Path) -> None:
    def change(process: Process) -> None:
        roctx(process, "decode", START - 10_000, START + 1_000_000, 1)
        roctx(process, "layer", START - 9_500, START - 7_000, 2)
        roctx(process, "here", START, START, 3, "roctxMarkA")

    trace = made(tmp_path, change)
    first, second = trace.launches.sort("start_ns").to_dicts()
    assert (first["phase"], first["range_path"]) == ("decode", "decode/layer")
    assert (second["phase"], second["range_path"]) == ("decode", "decode")
    ranges = trace.table("ranges")
    assert dict(ranges.select("name", "kind").iter_rows()) == {
        "decode": "roctx",
        "layer": "roctx",
        "here": "roctx_mark",
    }
    assert ranges.filter(pl.col("name") == "layer")["parent_id"].item() == 0
    assert "roctxThreadRangeA" not in trace.table("api_calls")["name"].to_list()


def test_ranges_of_the_process_hold_for_all_threads(tmp_path: Path) -> None:
    def change(process: Process) -> None:
        roctx(process, "epoch", START - 20_000, START + 2_000, 1, "roctxProcessRangeA")
        roctx(process, "late", START - 8_000, START + 900_000, 2, "roctxProcessRangeA")

    launches = made(tmp_path, change).launches.sort("start_ns")
    assert launches["range_path"].to_list() == ["epoch", "late"]


def test_external_correlation_names_the_range_where_no_call_was_recorded(tmp_path: Path) -> None:
    def change(process: Process) -> None:
        roctx(process, "warmup", START - 10**9, START - 10**8, 77)
        process.connection.execute(f"DELETE FROM {table(process, 'rocpd_region')} WHERE end < 10 OR event_id < 5")
        process.connection.execute(
            f"UPDATE {table(process, 'rocpd_event')} SET correlation_id = 77 WHERE stack_id = 101"
        )

    first, second = made(tmp_path, change).launches.sort("start_ns").to_dicts()
    assert (first["phase"], second["phase"]) == ("warmup", None)


def test_ranges_of_one_process_are_none_of_another(tmp_path: Path) -> None:
    """Both count their correlations from the same number."""
    path = tmp_path / "merged.db"
    with rocpd(path) as connection:
        processes = [Process(connection, GUID, 100), Process(connection, OTHER, 200)]
        roctx(processes[0], "only in 100", START - 10**9, START - 10**8, 77)
        for process in processes:
            process.dispatch(KERNEL, process.symbol(KERNEL), START, 10, 900)
            process.connection.execute(
                f"UPDATE {table(process, 'rocpd_event')} SET correlation_id = 77 WHERE stack_id = 900"
            )
    phases = converted(path).launches.select("process", "phase").sort("process").rows()
    assert phases == [("100", "only in 100"), ("200", None)]


def test_kernel_rename_gives_a_phase(tmp_path: Path) -> None:
    def change(process: Process) -> None:
        number = process.text("attention")
        process.connection.execute(f"UPDATE {table(process, 'rocpd_kernel_dispatch')} SET region_name_id = {number}")

    assert made(tmp_path, change).launches["phase"].to_list() == ["attention", "attention"]


def test_symbols_that_were_never_launched_are_stored(tmp_path: Path) -> None:
    trace = made(tmp_path, lambda process: process.symbol(Kernel("idle", (1, 1, 1), (1, 1, 1), [], vgpr=64, lds=512)))
    symbols = trace.table("kernel_symbols").join(trace.table("kernel_names"), on="name_id")
    rows = symbols.select("name", "launches", "registers_reported", "static_shared_bytes", "target").rows()
    assert sorted(rows) == [("idle", 0, 64, 512, "gfx1151"), ("kernel_a", 2, 32, 0, "gfx1151")]


def test_copies_and_allocations(tmp_path: Path) -> None:
    def change(process: Process) -> None:
        place, event = process.place(), process.event("MEMORY_COPY", 500)
        name = process.text("MEMORY_COPY_DEVICE_TO_HOST")
        ends = {"dst_agent_id": 0, "src_agent_id": 1, "size": 4096, "stream_id": 3, "name_id": name}
        process.insert("rocpd_memory_copy", start=START, end=START + 10, event_id=event, **ends, **place)
        at = {"address": 0x7F00, "start": START, "end": START + 1, "agent_id": 1}
        process.insert("rocpd_memory_allocate", type="ALLOC", level="REAL", size=1024, **at, **place)
        later = {**at, "start": START + 5, "agent_id": None}
        process.insert("rocpd_memory_allocate", type="FREE", level="REAL", size=0, **later, **place)
        process.insert(
            "rocpd_memory_allocate", type="ALLOC", level="SCRATCH", size=64, **{**at, "start": START + 9}, **place
        )

    trace = made(tmp_path, change)
    copy = trace.launch("MEMORY_COPY_DEVICE_TO_HOST")
    assert (copy["kind"], copy["copy_kind"], copy["bytes"], copy["device"], copy["stream"]) == (
        "memcpy",
        "DtoH",
        4096,
        0,
        3,
    )
    events = trace.table("memory_events").select("bytes", "address", "device_type", "device").rows()
    assert events == [(1024, "0x7f00", "hip", 0), (-1024, "0x7f00", "hip", 0), (64, "0x7f00", "hip_scratch", 0)]


def count(process: Process, events: list[int], name: str, values: tuple[float, ...], derived: int = 0) -> None:
    """A counter with one instance per value, for each of the events."""
    number = process.insert(
        "rocpd_info_pmc", nid=1, pid=process.pid, agent_id=1, name=name, symbol=name, is_derived=derived
    )
    for event in events:
        for value in values:
            process.insert("rocpd_pmc_event", event_id=event, pmc_id=number, value=value)


def dispatched(process: Process) -> list[int]:
    rows = process.connection.execute(f"SELECT event_id FROM {table(process, 'rocpd_kernel_dispatch')} ORDER BY id")
    return [event for (event,) in rows]


def test_counters_become_metrics(tmp_path: Path) -> None:
    def change(process: Process) -> None:
        first = dispatched(process)[:1]
        count(process, first, "FETCH_SIZE", (2.5,), derived=1)
        count(process, first, "SQ_WAVES", (256.0, 257.0))
        count(process, first, "L2CacheHit", (80.0, 90.0), derived=1)

    trace = made(tmp_path, change)
    rows = (
        trace.table("metrics").select("metric", "value", "unit", "instance", "launch_index").sort("metric", "instance")
    )
    assert rows.rows() == [
        ("FETCH_SIZE", 2560.0, "byte", None, 0),
        ("L2CacheHit", 80.0, "%", "0", 0),
        ("L2CacheHit", 90.0, "%", "1", 0),
        ("SQ_WAVES", 513.0, None, None, 0),
        ("SQ_WAVES", 256.0, None, "0", 0),
        ("SQ_WAVES", 257.0, None, "1", 0),
    ]
    assert trace.launches.sort("launch_index")["quality"].to_list() == ["counters_collected", None]
    assert trace.launches["timing"].to_list() == ["timeline", "timeline"]


def test_streaming_counters_are_skipped_aloud(tmp_path: Path) -> None:
    def change(process: Process) -> None:
        process.connection.execute(f"ALTER TABLE {table(process, 'rocpd_pmc_event')} ADD COLUMN sample_id INTEGER")
        count(process, dispatched(process)[:1], "SQ_WAVES", (5.0, 6.0))
        process.connection.execute(f"UPDATE {table(process, 'rocpd_pmc_event')} SET sample_id = 1 WHERE value = 6.0")

    trace = made(tmp_path, change)
    assert trace.report("skipped") == {"value of a streaming counter (SPM)": 1}
    assert trace.table("metrics").select("value", "instance").rows() == [(5.0, None)]


@pytest.mark.parametrize(("traced", "timing"), [(False, "profiled"), (True, "timeline")])
def test_kernels_that_all_have_counters_were_timed_under_the_profiler(
    tmp_path: Path, traced: bool, timing: str
) -> None:
    def change(process: Process) -> None:
        count(process, dispatched(process), "SQ_WAVES", (1.0,))
        settings(process, {"kernel_trace": traced})

    trace = made(tmp_path, change)
    assert trace.launches["timing"].unique().to_list() == [timing]
    assert trace.trace["kind"] == timing


def sampled(process: Process) -> None:
    """Two moments of rocprof-sys: one event holds all readings of a moment, each reading has a sample of that event."""
    readings = (("device_power", "Pow", "w"), ("device_temp", "Temp", "°C"), ("device_busy", "Busy", "%"))
    pmc = {
        name: process.insert("rocpd_info_pmc", nid=1, pid=process.pid, agent_id=1, name=name, symbol=symbol, units=unit)
        for name, symbol, unit in readings
    }
    for number, values in enumerate(((90.0, 40.0, 0.0), (300.0, 55.0, 99.0))):
        event = process.event("amd_smi", 0)
        for name, value in zip(pmc, values, strict=True):
            track = process.insert("rocpd_track", nid=1, pid=process.pid, name_id=process.text(name))
            process.insert("rocpd_pmc_event", event_id=event, pmc_id=pmc[name], value=value)
            process.insert("rocpd_sample", track_id=track, timestamp=START + number, event_id=event)
    process.connection.execute("CREATE VIEW kernel_summary AS SELECT 1 AS one")


def test_power_samples_of_rocprof_sys(tmp_path: Path) -> None:
    trace = made(tmp_path, sampled)
    power = trace.table("power_samples").select("device", "ts_ns", "power_w", "temperature_c", "source").rows()
    assert power == [(0, START, 90.0, 40.0, "trace"), (0, START + 1, 300.0, 55.0, "trace")]
    assert trace.table("samples").height == 6
    assert trace.table("metrics").is_empty()
    assert trace.trace["tool"] == "rocprof-sys"


def test_a_counter_value_without_an_event_is_stored_beside_samples(tmp_path: Path) -> None:
    def change(process: Process) -> None:
        sampled(process)
        count(process, dispatched(process)[:1], "SQ_WAVES", (5.0, 7.0))
        process.connection.execute(f"UPDATE {table(process, 'rocpd_pmc_event')} SET event_id = NULL WHERE value = 7.0")

    metrics = made(tmp_path, change).table("metrics").select("value", "launch_index").sort("value").rows()
    assert metrics == [(5.0, 0), (7.0, None)]


def test_addresses_in_the_upper_half(tmp_path: Path) -> None:
    """SQLite holds them as negative numbers."""

    def change(process: Process) -> None:
        at = {"address": -16, "start": START, "end": START + 1, "agent_id": 1}
        process.insert("rocpd_memory_allocate", type="ALLOC", level="REAL", size=8, **at, **process.place())

    assert made(tmp_path, change).table("memory_events")["address"].to_list() == ["0xfffffffffffffff0"]


def test_graph_launches_of_schema_3_0_2(tmp_path: Path) -> None:
    def change(process: Process) -> None:
        for name in ("graph_exec_id", "graph_node_id"):
            process.connection.execute(
                f"ALTER TABLE {table(process, 'rocpd_kernel_dispatch')} ADD COLUMN {name} INTEGER DEFAULT 0"
            )
        process.connection.execute(
            f"UPDATE {table(process, 'rocpd_kernel_dispatch')} SET graph_exec_id = 5, graph_node_id = 7 WHERE id = 2"
        )
        renamed = process.text("hipGraphLaunch")
        process.connection.execute(f"UPDATE {table(process, 'rocpd_region')} SET name_id = {renamed} WHERE id = 2")

    first, second = made(tmp_path, change).launches.sort("start_ns").to_dicts()
    assert (first["graph_id"], first["launch_status"]) == (None, "no_op")
    assert (second["graph_id"], second["graph_node_id"], second["launch_status"]) == (5, 7, "graph")


def test_secrets_stay_in_the_file(tmp_path: Path) -> None:
    path = write_rocpd(tmp_path / "run.db", [KERNEL])
    trace, open_trace = converted(path), converted(path, options=Options(keep_environment=True))
    text = "".join(part.read_bytes().decode("latin-1") for parts in trace.manifest.parts.values() for part in parts)
    for secret in ("hf_secret", "hunter2", "/home/someone"):
        assert secret not in trace.trace["metadata"] + json.dumps(trace.manifest.trace) + text
    assert "hunter2" in open_trace.trace["metadata"]
    assert "hf_secret" in open_trace.trace["metadata"]


def test_a_trace_is_named_by_prefix_and_no_run_by_a_folder(tmp_path: Path) -> None:
    folder = tmp_path / "job" / "host7"
    folder.mkdir(parents=True)
    trace = converted(write_rocpd(folder / "24228_results.db", [KERNEL])).trace
    assert (trace["stated_run"], trace["name"]) == (None, "24228")
    passes = tmp_path / "job" / "pass_2"
    passes.mkdir()
    assert converted(write_rocpd(passes / "9_results.db", [KERNEL])).trace["stated_run"] is None


def test_times_are_those_of_the_boot_clock(tmp_path: Path) -> None:
    trace = made(tmp_path).trace
    assert (trace["clock"], trace["base_ns"], trace["kind"], trace["source"]) == (
        "boottime",
        0,
        "timeline",
        "rocprofv3",
    )
    assert (trace["window_start_ns"], trace["window_end_ns"]) == (START - 9_000, START + 6_000)
    assert trace["host"] == "strix-halo"


def test_an_activity_that_ends_before_it_starts_has_no_duration(tmp_path: Path) -> None:
    def change(process: Process) -> None:
        process.connection.execute(
            f'UPDATE {table(process, "rocpd_kernel_dispatch")} SET "end" = start - 5 WHERE id = 1'
        )

    launches = made(tmp_path, change).launches.sort("launch_index")
    assert launches["duration_ns"].to_list() == [None, 3_000]
    assert launches["quality"].to_list() == ["ends_before_it_starts", None]
