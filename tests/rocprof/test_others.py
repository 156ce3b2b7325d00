"""RPD, rocprof v1 and the JSON of rocprofv3. The v1 and JSON files are made by hand after the documentation."""

from __future__ import annotations

import json
import sqlite3
from typing import TYPE_CHECKING

import pytest

from kerneldb.errors import UnreadableTraceError
from kerneldb.ingest import Options
from kerneldb.ingest.ledger import UNKNOWN
from tests.rocprof.conversion import converted, launch_rows
from tests.rocprof.databases import Kernel, Process, rocpd, views, write_rocpd
from tests.rocprof.formats import write_json

if TYPE_CHECKING:
    from pathlib import Path

    from tests.ingest.conversion import Converted

RPD = """
CREATE TABLE rocpd_string (id INTEGER PRIMARY KEY, string TEXT);
CREATE TABLE rocpd_metadata (id INTEGER PRIMARY KEY, tag TEXT, value TEXT);
CREATE TABLE rocpd_op (id INTEGER PRIMARY KEY, gpuId, queueId, sequenceId, start, end, description_id, opType_id);
CREATE TABLE rocpd_api (id INTEGER PRIMARY KEY, pid, tid, start, end, apiName_id, args_id);
CREATE TABLE rocpd_api_ops (id INTEGER PRIMARY KEY, api_id, op_id);
CREATE TABLE rocpd_kernelapi (api_ptr_id INTEGER PRIMARY KEY, stream, gridX, gridY, gridZ, workgroupX, workgroupY,
    workgroupZ, groupSegmentSize, privateSegmentSize, kernelName_id);
CREATE TABLE rocpd_copyapi (api_ptr_id INTEGER PRIMARY KEY, stream, size);
INSERT INTO rocpd_metadata VALUES (1, 'schema_version', '2');
INSERT INTO rocpd_string VALUES (1, ''), (2, 'KernelExecution'), (3, 'Cijk_gemm'), (4, 'plain'),
    (5, 'hipExtModuleLaunchKernel'), (6, 'hipLaunchKernel'), (7, 'hipGraphLaunch'), (8, 'UserMarker'), (9, 'decode'),
    (10, 'CopyHostToDevice'), (11, 'hipMemcpy'), (12, 'FillBuffer');
INSERT INTO rocpd_api VALUES (1, 7, 8, 100, 110, 5, 1), (2, 7, 8, 120, 130, 6, 1), (3, 7, 8, 140, 150, 7, 1),
    (4, 7, 8, 90, 125, 8, 9), (5, 7, 8, 160, 190, 11, 1);
INSERT INTO rocpd_op VALUES (1, 0, 1, 0, 200, 300, 3, 2), (2, 0, 1, 0, 310, 320, 4, 2), (3, 0, 1, 0, 330, 340, 4, 2),
    (4, 0, 0, 0, 350, 390, 1, 10), (5, 0, 0, 0, 400, 401, 1, 12);
INSERT INTO rocpd_api_ops VALUES (1, 1, 1), (2, 2, 2), (3, 3, 3), (4, 5, 4), (5, 1, 4);
INSERT INTO rocpd_kernelapi VALUES (1, '0x10', 512, 4, 1, 256, 1, 1, 1024, 0, 3),
    (2, '0x0', 3, 2, 1, 128, 1, 1, 0, 0, 4);
INSERT INTO rocpd_copyapi VALUES (5, '0x0', 4096);
"""


@pytest.fixture
def rpd(tmp_path: Path) -> Path:
    path = tmp_path / "trace.rpd"
    connection = sqlite3.connect(path)
    connection.executescript(RPD)
    connection.close()
    return path


def test_rpd_counts_grids_by_the_launching_call(rpd: Path) -> None:
    columns = ("name", "kind", "grid_x", "grid_y", "reported_grid_unit", "launch_status", "phase", "stream", "quality")
    rows = {row["name"] + str(number): row for number, row in enumerate(launch_rows(converted(rpd), *columns))}
    tensile, plain, graph = rows["Cijk_gemm0"], rows["plain1"], rows["plain2"]
    assert (tensile["grid_x"], tensile["grid_y"], tensile["reported_grid_unit"]) == (2, 4, "work-items")
    assert (plain["grid_x"], plain["grid_y"], plain["reported_grid_unit"]) == (3, 2, "blocks")
    assert (graph["grid_x"], graph["launch_status"]) == (None, "graph")
    assert (tensile["phase"], plain["phase"], graph["phase"]) == ("decode", "decode", None)
    assert (tensile["stream"], tensile["quality"]) == (16, "grid_unit_by_api")


def test_a_long_text_of_many_rows_of_rpd_is_refused_before_they_are_read(rpd: Path) -> None:
    connection = sqlite3.connect(rpd)
    with connection:
        connection.execute("UPDATE rocpd_string SET string = ? WHERE id = 3", ("x" * 200_000,))
    assert converted(rpd).launches.height == 5
    with connection:
        connection.executemany(
            "INSERT INTO rocpd_op VALUES (?, 0, 1, 0, ?, ?, 3, 2)", [(n, n, n + 1) for n in range(1_000, 3_000)]
        )
    connection.close()
    with pytest.raises(UnreadableTraceError, match=r"one stored byte becomes .*KERNELDB_MAX_RATIO allows"):
        converted(rpd)


def test_rpd_over_rocprofiler_sdk_has_grids_and_lds_of_the_dispatch(rpd: Path) -> None:
    connection = sqlite3.connect(rpd)
    with connection:
        connection.execute("INSERT INTO rocpd_string VALUES (20, 'RocprofDataSource::buffer_callback')")
        connection.execute("INSERT INTO rocpd_api VALUES (20, 7, 9, 500, 510, 20, 1)")
    connection.close()
    columns = ("name", "grid_x", "grid_y", "reported_grid_unit", "quality", "shared_bytes", "dynamic_shared_bytes")
    tensile, plain = launch_rows(converted(rpd), *columns)[:2]
    assert tuple(tensile.values()) == ("Cijk_gemm", 2, 4, "work-items", None, 1024, None)
    assert (plain["grid_x"], plain["reported_grid_unit"]) == (1, "work-items")


def test_rpd_counts_what_it_leaves_out(rpd: Path) -> None:
    connection = sqlite3.connect(rpd)
    with connection:
        connection.execute("CREATE TABLE rocpd_monitor (deviceType, deviceId, monitorType, start, end, value)")
        connection.execute(
            "INSERT INTO rocpd_monitor VALUES ('gpu', 1, 'power', 5, 9, '99.5'), ('cpu', 0, 'load', 5, 9, 1)"
        )
        connection.execute("CREATE TABLE rocpd_graphLaunchapi (api_ptr_id, graphExec)")
        connection.execute("INSERT INTO rocpd_graphLaunchapi VALUES (3, '0x1')")
        connection.execute("CREATE TABLE rocpd_next (id)")
        connection.execute("INSERT INTO rocpd_next VALUES (1), (2), (3)")
    connection.close()
    trace = converted(rpd)
    assert trace.rows("samples", "counter", "device", "value") == [("power", 1, 99.5)]
    graphs = "table rocpd_graphLaunchapi: launches of whole graphs: their kernels are stored"
    new = f"table rocpd_next: {UNKNOWN}"
    assert trace.report("skipped") == {graphs: 1, "reading of something that is no GPU": 1, new: 3}


def test_rpd_keeps_copies_and_fills_once(rpd: Path) -> None:
    rows = launch_rows(converted(rpd), "name", "kind", "copy_kind", "bytes", "api_call")
    copy, fill = rows[3:]
    assert (copy["name"], copy["kind"], copy["copy_kind"]) == ("CopyHostToDevice", "memcpy", "HtoD")
    assert (fill["name"], fill["kind"]) == ("FillBuffer", "memset")
    assert len(rows) == 5


def test_rpd_counts_blocks_below_hip_ext_launch_kernel(rpd: Path) -> None:
    """`hipExtLaunchKernel(function, numBlocks, dimBlocks, …)`: only the launches of modules count work-items."""
    connection = sqlite3.connect(rpd)
    with connection:
        connection.execute("UPDATE rocpd_string SET string = 'hipExtLaunchKernel' WHERE id = 5")
    connection.close()
    row = launch_rows(converted(rpd), "name", "grid_x", "grid_y", "reported_grid_unit")[0]
    assert tuple(row.values()) == ("Cijk_gemm", 512, 4, "blocks")


MISSING = {
    "rocpd_copyapi": ("bytes", [None] * 5),
    "rocpd_kernelapi": ("grid_x", [None] * 5),
    "rocpd_api_ops": ("api_call", [None] * 5),
    "rocpd_metadata": (
        "api_call",
        ["hipExtModuleLaunchKernel", "hipLaunchKernel", "hipGraphLaunch", None, None],  # two calls claim the copy
    ),
}


@pytest.mark.parametrize("table", MISSING)
def test_rpd_without_a_table_that_a_tracer_may_leave_out(rpd: Path, table: str) -> None:
    connection = sqlite3.connect(rpd)
    with connection:
        connection.execute(f"DROP TABLE {table}")
    connection.close()
    column, expected = MISSING[table]
    trace = converted(rpd)
    assert [row[column] for row in launch_rows(trace, column)] == expected
    assert [one for one in trace.table("ingest_reports")["reason"] if f"no table {table}" in one]


def test_rpd_without_a_column(rpd: Path) -> None:
    connection = sqlite3.connect(rpd)
    with connection:
        connection.execute("ALTER TABLE rocpd_copyapi DROP COLUMN size")
    connection.close()
    assert {row["bytes"] for row in launch_rows(converted(rpd), "bytes")} == {None}


def test_rpd_readings_that_say_nothing(rpd: Path) -> None:
    connection = sqlite3.connect(rpd)
    connection.execute("CREATE TABLE rocpd_monitor (deviceType, deviceId, monitorType, start, end, value)")
    rows = [
        ("gpu", 0, "sclk", 100, 110, "1700"),
        ("gpu", 0, "sclk", 120, 130, "fast"),
        ("gpu", 0, None, 140, None, "1"),
    ]
    connection.executemany("INSERT INTO rocpd_monitor VALUES (?, ?, ?, ?, ?, ?)", rows)
    connection.commit()
    connection.close()
    found = converted(rpd)
    assert found.rows("samples", "counter", "value") == [("sclk", 1700.0), ("sclk", None)]
    assert found.report("skipped")["reading that does not say of what"] == 1
    assert found.report("unread")["reading that is no number"] == 1


def changed(rpd: Path, *statements: str) -> Converted:
    connection = sqlite3.connect(rpd)
    with connection:
        for statement in statements:
            connection.execute(statement)
    connection.close()
    return converted(rpd)


def test_rpd_with_an_activity_that_two_calls_claim(rpd: Path) -> None:
    """Grid and stream are those of a call: of two, none is taken."""
    found = changed(rpd, "INSERT INTO rocpd_api_ops VALUES (9, 2, 1)")
    rows = [tuple(row.values()) for row in launch_rows(found, "name", "api_call", "grid_x", "stream", "duration_ns")]
    assert rows[:2] == [("Cijk_gemm", None, None, None, 100), ("plain", "hipLaunchKernel", 3, 0, 10)]
    assert found.report("unread") == {"activity that several API calls claim: its call is left empty": 2}


@pytest.mark.parametrize("table", ["rocpd_kernelapi", "rocpd_copyapi"])
def test_rpd_with_arguments_that_are_there_twice(rpd: Path, table: str) -> None:
    """Tables that a program copied have no primary keys: launches and calls stay as many as they are."""
    found = changed(
        rpd,
        f"CREATE TABLE other AS SELECT * FROM {table} UNION ALL SELECT * FROM {table}",
        f"DROP TABLE {table}",
        f"ALTER TABLE other RENAME TO {table}",
    )
    assert [row["duration_ns"] for row in launch_rows(found, "duration_ns")] == [100, 10, 10, 40, 1]
    assert found.table("api_calls").height == 4
    assert found.report("unread")["arguments of an API call that several rows tell: left empty"] > 0


def test_rpd_with_waits_among_the_activities(rpd: Path) -> None:
    names = ("Barrier", "Marker", "InternalMarker")
    added = [f"INSERT INTO rocpd_string VALUES ({30 + at}, '{name}')" for at, name in enumerate(names)]
    waits = [f"INSERT INTO rocpd_op VALUES ({30 + at}, 0, 1, 0, 400, 9000, 1, {30 + at})" for at in range(len(names))]
    found = changed(rpd, *added, *waits)
    assert found.launches.height == 5
    assert found.report("skipped") == {"barriers and markers: no work of the GPU": len(names)}


def test_rpd_names_its_clock(rpd: Path) -> None:
    trace = converted(rpd).trace
    assert (trace["source"], trace["clock"], trace["era"]) == ("rpd", "monotonic", "rpd schema 2")


OPS = (
    'CREATE TABLE OPS ("BeginNs" INTEGER, "EndNs" INTEGER, "dev-id" INTEGER, "queue-id" INTEGER, "Name" TEXT,'
    ' "pid" INTEGER, "tid" INTEGER, "roctx-range" TEXT, "stream-id" INTEGER, "Index" INTEGER, "Data" TEXT,'
    ' "DurationNs" INTEGER)'
)


def test_rocprof_v1_database(tmp_path: Path) -> None:
    path = tmp_path / "results.db"
    connection = sqlite3.connect(path)
    connection.execute(OPS)
    connection.execute('CREATE TABLE KERN ("Index" INTEGER, KernelName TEXT)')
    connection.execute("CREATE TABLE HIP (BeginNs INTEGER, EndNs INTEGER, pid INTEGER, tid INTEGER, Name TEXT)")
    rows = [
        (100, 331_634_184_778, 0, 1, "spin(int)", 7, 7, "", 2, 1, "", 0),
        (5, 9, 0, 1, "CopyHostToDevice", 7, 7, "", 2, 2, "", 4),
    ]
    connection.executemany("INSERT INTO OPS VALUES (?,?,?,?,?,?,?,?,?,?,?,?)", rows)
    connection.execute("INSERT INTO HIP VALUES (1, 2, 7, 7, 'hipLaunchKernel')")
    connection.execute("CREATE TABLE NEXT (a)")
    connection.execute("INSERT INTO NEXT VALUES (1), (2)")
    connection.commit()
    connection.close()
    trace = converted(path)
    rows_read = launch_rows(trace, "name", "kind", "duration_ns", "device", "queue", "stream", "process", "grid_x")
    assert [tuple(row.values()) for row in rows_read] == [
        ("CopyHostToDevice", "memcpy", 4, 0, 1, 2, "7", None),
        ("spin(int)", "kernel", 331_634_184_678, 0, 1, 2, "7", None),
    ]
    assert trace.table("api_calls")["name"].to_list() == ["hipLaunchKernel"]
    assert trace.trace["source"] == "rocprof"
    assert trace.report("skipped") == {f"table NEXT: {UNKNOWN}": 2}


def test_rocprof_v1_json(tmp_path: Path) -> None:
    arguments = {
        "BeginNs": "1000",
        "EndNs": "1400",
        "dev-id": "0",
        "queue-id": "3",
        "pid": "7",
        "tid": "8",
        "Name": "k(int)",
    }
    call = {"BeginNs": "900", "EndNs": "950", "pid": "7", "tid": "8", "Name": "hipLaunchKernel"}
    events = [
        {"args": {"name": "GPU0"}, "ph": "M", "pid": 6, "name": "process_name"},
        {"ts": "1", "dur": "0.4", "ph": "X", "pid": "6", "tid": "3", "name": "k(int)", "args": arguments},
        {"ts": "0", "dur": "0.05", "ph": "X", "pid": "2", "tid": "8", "name": "hipLaunchKernel", "args": call},
    ]
    path = tmp_path / "results.json"
    path.write_text(json.dumps({"traceEvents": events}), encoding="utf-8")
    trace = converted(path)
    (row,) = launch_rows(trace, "name", "duration_ns", "device", "queue", "process")
    assert tuple(row.values()) == ("k(int)", 400, 0, 3, "7")
    assert trace.table("api_calls").height == 1


GEMM = Kernel("gemm", (256, 1, 1), (64, 1, 1), [500, 700])
OTHER = Kernel("other", (256, 1, 1), (64, 1, 1), [100])


@pytest.fixture
def json_file(tmp_path: Path) -> Path:
    return write_json(write_rocpd(tmp_path / "a.db", [GEMM, OTHER]), tmp_path / "a_results.json", keep=["gemm"])


def test_json_counters_belong_to_the_traced_launches(json_file: Path) -> None:
    trace = converted(json_file)
    rows = launch_rows(trace, "name", "timing", "quality")
    assert [(row["name"], row["timing"], row["quality"]) for row in rows] == [
        ("gemm", "timeline", "counters_collected"),
        ("other", "timeline", None),
        ("gemm", "timeline", "counters_collected"),
    ]
    metrics = trace.table("metrics")
    assert metrics.filter(metrics["instance"].is_null())["value"].to_list() == [1030.0, 1030.0]
    assert metrics.height == 2 * 5


def test_json_counters_alone_are_profiled(json_file: Path) -> None:
    document = json.loads(json_file.read_text(encoding="utf-8"))
    document["rocprofiler-sdk-tool"][0]["buffer_records"]["kernel_dispatch"] = []
    json_file.write_text(json.dumps(document), encoding="utf-8")
    trace = converted(json_file)
    assert trace.launches["timing"].to_list() == ["profiled", "profiled"]
    assert trace.trace["kind"] == "profiled"


def test_json_keeps_command_lines_only_on_request(json_file: Path) -> None:
    assert "hunter2" not in json.dumps(converted(json_file).trace, default=str)
    assert "hunter2" in converted(json_file, options=Options(keep_environment=True)).trace["metadata"]


def test_json_symbols_and_devices(json_file: Path) -> None:
    trace = converted(json_file)
    assert trace.table("kernel_symbols").select("symbol", "launches").rows() == [("gemm.kd", 2), ("other.kd", 1)]
    assert trace.table("devices").select("device", "arch", "multiprocessors").rows() == [(0, "gfx1151", 40)]


def test_json_ranges_of_one_process_are_none_of_another(tmp_path: Path) -> None:
    """Both count their correlations from the same number; the kernels have no call."""
    for pid in (7, 8):
        with rocpd(tmp_path / f"{pid}.db") as connection:
            process = Process(connection, pid=pid)
            if pid == 7:
                text = json.dumps({"message": "only in 7"})
                process.region("MARKER_CORE_RANGE_API", "roctxThreadRangeA", 1_000, 2_000, 77, extdata=text)
            process.dispatch(GEMM, process.symbol(GEMM), 5_000, 10, 900)
            process.connection.execute(f'UPDATE "rocpd_event{process.suffix}" SET correlation_id = 77')
            views(connection, [process.suffix])
        write_json(tmp_path / f"{pid}.db", tmp_path / f"{pid}.json")
    both = [json.loads((tmp_path / f"{pid}.json").read_text(encoding="utf-8")) for pid in (7, 8)]
    path = tmp_path / "run_results.json"
    documents = [one["rocprofiler-sdk-tool"][0] for one in both]
    path.write_text(json.dumps({"rocprofiler-sdk-tool": documents}), encoding="utf-8")
    launches = converted(path).launches
    assert launches.select("process", "phase").sort("process").rows() == [("7", "only in 7"), ("8", None)]
