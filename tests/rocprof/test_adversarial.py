"""Files that the documentation of the formats allows, or that damage makes: no wrong number, and nothing in silence."""

from __future__ import annotations

import json
import sqlite3
from typing import TYPE_CHECKING, Any

import pytest
from click.testing import CliRunner

from kerneldb.cli import cli
from kerneldb.errors import UnreadableTraceError
from kerneldb.ingest.amd.host import UNTIMED_RANGE
from kerneldb.ingest.amd.launches import UNKNOWN_KERNEL
from kerneldb.ingest.ledger import UNKNOWN
from tests.rocprof.conversion import converted, launch_rows
from tests.rocprof.databases import GUID, Kernel, write_rocpd
from tests.rocprof.formats import write_json
from tests.rocprof.test_csv import COUNTED, COUNTERS, KERNELS_63, STATS, written

if TYPE_CHECKING:
    from pathlib import Path

    from tests.ingest.conversion import Converted

KERNEL = Kernel("k", (256, 1, 1), (64, 1, 1), [1_000, 2_000])
SUFFIX = GUID.replace("-", "_")
HEADER, ROW = KERNELS_63.splitlines()
TIMES = [(1_000_000_000_000, 1_000), (1_000_000_003_000, 2_000)]


def changed(path: Path, *statements: str) -> Converted:
    """The database of KERNEL after these statements, in which `{}` is the suffix of its tables."""
    connection = sqlite3.connect(write_rocpd(path, [KERNEL]))
    with connection:
        for statement in statements:
            connection.execute(statement.replace("{}", "_" + SUFFIX))
    connection.close()
    return converted(path)


def of_json(tmp_path: Path, **parts: Any) -> Path:
    """The JSON of KERNEL with some sections of the process replaced or added to."""
    path = write_json(write_rocpd(tmp_path / "run.db", [KERNEL]), tmp_path / "run_results.json")
    document = json.loads(path.read_text())
    for name, value in parts.items():
        old = document["rocprofiler-sdk-tool"][0].get(name)
        both = {**old, **value} if isinstance(old, dict) and value is not None else value
        document["rocprofiler-sdk-tool"][0][name] = both
    path.write_text(json.dumps(document))
    return path


@pytest.mark.parametrize(
    "table",
    ["event", "string", "info_agent", "info_kernel_symbol", "info_process", "info_thread", "region", "metadata"],
)
def test_a_table_that_is_missing_takes_no_launch_along(tmp_path: Path, table: str) -> None:
    found = changed(tmp_path / "a.db", f"DROP VIEW IF EXISTS rocpd_{table}", f'DROP TABLE "rocpd_{table}{{}}"')
    rows = launch_rows(found, "start_ns", "duration_ns", "grid_x", "block_x")
    assert [tuple(row.values()) for row in rows] == [(*times, 4, 64) for times in TIMES]


def test_an_agent_without_an_id_takes_no_launch_along(tmp_path: Path) -> None:
    table = '"rocpd_info_agent{}"'
    found = changed(
        tmp_path / "a.db",
        f"CREATE TABLE other AS SELECT * FROM {table}",
        "INSERT INTO other (type) VALUES ('GPU')",
        "DROP VIEW rocpd_info_agent",
        f"DROP TABLE {table}",
        f"ALTER TABLE other RENAME TO {table}",
    )
    assert [tuple(row.values()) for row in launch_rows(found, "start_ns", "duration_ns")] == TIMES


def test_a_range_without_an_end_is_counted_and_arguments_are_no_events(tmp_path: Path) -> None:
    texts = "(900, 'MARKER_CORE_RANGE_API'), (901, 'roctxThreadRangeA')"
    path = tmp_path / "a.db"
    found = changed(
        path,
        f'INSERT INTO "rocpd_string{{}}" (id, string) VALUES {texts}',
        'INSERT INTO "rocpd_event{}" (id, category_id, stack_id) VALUES (900, 900, 77)',
        'INSERT INTO "rocpd_region{}" (start, "end", name_id, event_id) VALUES (1000, NULL, 901, 900)',
        "INSERT INTO \"rocpd_arg{}\" (event_id, position, name) VALUES (1, 0, 'stream'), (1, 1, 'size')",
    )
    assert found.report("lost") == {UNTIMED_RANGE: 1}
    assert found.report("unread") == {"argument of an API call": 2}
    assert found.table("trace_files")["events"].sum() == sum(found.report("stored").values()) + 1


@pytest.mark.parametrize("ends", [None, 2_000])
def test_a_range_of_json_without_an_end_is_counted(tmp_path: Path, ends: int | None) -> None:
    marker = {"kind": 1, "operation": 0, "thread_id": 1, "correlation_id": {"internal": 77, "external": 0}}
    domains = [{}, {"kind": "MARKER_CORE_RANGE_API", "operations": ["roctxThreadRangeA"]}]
    found = converted(
        of_json(
            tmp_path,
            buffer_records={"marker_api": [{**marker, "start_timestamp": 1_000, "end_timestamp": ends}]},
            strings={"buffer_records": domains},
        )
    )
    assert found.report("lost") == ({} if ends else {UNTIMED_RANGE: 1})
    assert found.report("stored").get("roctx ranges", 0) == (1 if ends else 0)


def test_another_guid_in_the_metadata(tmp_path: Path) -> None:
    found = changed(
        tmp_path / "a.db", "UPDATE \"rocpd_metadata{}\" SET value = '11112222' WHERE tag <> 'schema_version'"
    )
    assert [tuple(row.values()) for row in launch_rows(found, "start_ns", "duration_ns")] == TIMES


def test_a_counter_of_no_dispatch_is_no_launch(tmp_path: Path) -> None:
    row = 'INSERT INTO "rocpd_pmc_event{}" (event_id, pmc_id, value, extdata) VALUES (9999, 7, 1.5, \'{"a": 1}\')'
    found = changed(tmp_path / "a.db", row)
    assert found.launches.height == 2
    assert found.rows("metrics", "launch_index", "value") == [(None, 1.5)]
    assert found.report("note")["counter value of no dispatch"] == 1


@pytest.mark.parametrize("sizes", ["workgroup_size_x = 0", "grid_size_x = -1", "workgroup_size_x = -64"])
def test_sizes_that_cannot_be_are_unknown(tmp_path: Path, sizes: str) -> None:
    found = changed(tmp_path / "a.db", f'UPDATE "rocpd_kernel_dispatch{{}}" SET {sizes}')
    assert {row["grid_x"] for row in launch_rows(found, "grid_x")} == {None}
    assert {row["block_x"] for row in launch_rows(found, "block_x")} <= {None, 64}


def test_a_dispatch_that_ends_before_it_starts_has_no_duration(tmp_path: Path) -> None:
    found = changed(tmp_path / "a.db", 'UPDATE "rocpd_kernel_dispatch{}" SET "end" = start - 5')
    assert found.launches["duration_ns"].null_count() == 2
    assert found.total("refused") == 2


def test_columns_in_another_order(tmp_path: Path) -> None:
    cells = [line.split(",") for line in (HEADER, ROW)]
    found = converted(
        written(tmp_path / "a_kernel_trace.csv", "".join(",".join(reversed(one)) + "\n" for one in cells))
    )
    plain = converted(written(tmp_path / "b_kernel_trace.csv", KERNELS_63))
    columns = ("name", "start_ns", "duration_ns", "grid_x", "block_x", "device", "scratch_bytes", "shared_bytes")
    assert launch_rows(found, *columns) == launch_rows(plain, *columns)


@pytest.mark.parametrize(
    ("line", "reason"),
    [
        (HEADER, "header line between the rows"),
        ('"KERNEL_DISPATCH",4,1', "row without what rows of its kind have"),
        (ROW.replace('"add(float*)"', "add<1, 2>(float*, int)"), "row with more fields than the header has"),
    ],
)
@pytest.mark.parametrize("first", [True, False])
def test_a_line_that_is_no_row(tmp_path: Path, line: str, reason: str, first: bool) -> None:
    """Files that were put together, rows that break off, names with commas that nobody quoted."""
    lines = [HEADER, line, ROW] if first else [HEADER, ROW, line]
    found = converted(written(tmp_path / "a_kernel_trace.csv", "\n".join(lines) + "\n"))
    rows = launch_rows(found, "name", "duration_ns", "grid_x", "block_x")
    assert [tuple(row.values()) for row in rows] == [("add(float*)", 500, 16, 64)]
    assert found.report("lost") == {reason: 1}
    assert found.report("read")["rows"] == 2


def test_counters_that_are_no_numbers(tmp_path: Path) -> None:
    given = [("SQ_WAVES", "nan"), ("SQ_WAVES", "1e999"), ("GRBM_COUNT", "many"), ("", "3")]
    lines = [COUNTED.format(dispatch=1, counter=name, value=value, start=1, end=2) for name, value in given]
    found = converted(written(tmp_path / "a_counter_collection.csv", COUNTERS + "".join(lines)))
    assert {row[0] for row in found.rows("metrics", "value")} == {None}
    assert sorted(row[0] for row in found.rows("metrics", "text")) == ["1e999", "many", "nan"]
    assert found.report("lost") == {"value of a counter without a name": 1}


def test_sums_that_are_no_numbers(tmp_path: Path) -> None:
    found = converted(written(tmp_path / "a_kernel_stats.csv", STATS + '"k","many","x","y","z","w","v","u"\n'))
    assert found.table("rollups").is_empty()
    assert found.total("skipped") == 1


def test_agents_of_both_numberings(tmp_path: Path) -> None:
    rows = [ROW.replace(",4,1,", f",{agent},1,", 1) for agent in ('"GPU 1"', '"Agent 4"', '"CPU 0"')]
    found = converted(written(tmp_path / "a_kernel_trace.csv", "\n".join([HEADER, *rows]) + "\n"))
    assert [row["device"] for row in launch_rows(found, "device")] == [1, 4, None]


def test_json_with_counters_of_another_dispatch(tmp_path: Path) -> None:
    counted = {
        "dispatch_data": {"dispatch_info": {"dispatch_id": 999}},
        "records": [{"counter_id": {"handle": 5}, "value": value} for value in (None, 2.0)],
    }
    found = converted(of_json(tmp_path, callback_records={"counter_collection": [counted]}))
    assert found.launches["duration_ns"].sum() == 3_000
    assert found.rows("metrics", "value") == [(2.0,)]
    assert found.report("lost") == {"value of a counter that is no number": 1}


def test_json_with_a_section_of_the_future(tmp_path: Path) -> None:
    found = converted(of_json(tmp_path, buffer_records={"thread_trace": [{}, {}]}))
    assert found.report("skipped")["section buffer_records.thread_trace: new to this version of kerneldb"] == 2


def test_json_with_keys_of_the_future(tmp_path: Path) -> None:
    path = of_json(tmp_path)
    document = json.loads(path.read_text())
    dispatches = document["rocprofiler-sdk-tool"][0]["buffer_records"]["kernel_dispatch"]
    dispatches[0]["dispatch_info"]["cluster_size"] = 2
    dispatches[1]["priority"] = 1
    path.write_text(json.dumps(document))
    new = [reason for reason in converted(path).report("unread") if UNKNOWN in reason]
    parts = ("kernel_dispatch.dispatch_info.cluster_size", "kernel_dispatch.priority")
    assert sorted(new) == [f"key {part}: {UNKNOWN}" for part in parts]


def test_json_with_a_size_beyond_64_bits(tmp_path: Path) -> None:
    path = of_json(tmp_path)
    document = json.loads(path.read_text())
    for symbol in document["rocprofiler-sdk-tool"][0]["kernel_symbols"]:
        symbol["kernarg_segment_size"] = 1 << 63
    path.write_text(json.dumps(document))
    found = converted(path)
    assert set(found.table("kernel_symbols")["kernarg_bytes"]) == {None}
    assert found.report("unread")["value of kernarg_bytes that its column does not hold: left empty"] > 0


@pytest.mark.parametrize("section", ["kernel_symbols", "agents", "callback_records", "metadata", "strings"])
def test_json_with_a_section_that_is_null(tmp_path: Path, section: str) -> None:
    found = converted(of_json(tmp_path, **{section: None}))
    assert found.launches["duration_ns"].sum() == 3_000


@pytest.mark.parametrize("kernel_dispatch", [7, [{"start_timestamp": "soon"}]])
def test_json_of_other_types_is_refused_with_the_place(tmp_path: Path, kernel_dispatch: object) -> None:
    path = of_json(tmp_path, buffer_records={"kernel_dispatch": kernel_dispatch})
    with pytest.raises(UnreadableTraceError, match=r"run_results\.json.*buffer_records\.kernel_dispatch"):
        converted(path)


def test_activities_of_rocprof_without_names(tmp_path: Path) -> None:
    connection = sqlite3.connect(tmp_path / "results.db")
    connection.executescript("""
        CREATE TABLE OPS ("BeginNs" INTEGER, "EndNs" INTEGER, "dev-id" INTEGER, "Index" INTEGER);
        CREATE TABLE KERN ("Index" INTEGER, "KernelName" TEXT);
        INSERT INTO OPS VALUES (10, 5, 0, 1), (NULL, 20, 'x', 2), (30, 70, 1, 3);
    """)
    connection.close()
    found = converted(tmp_path / "results.db")
    rows = launch_rows(found, "name", "duration_ns", "device")
    assert sorted((tuple(row.values()) for row in rows), key=str) == [
        ("unknown_kernel", 40, 1),
        ("unknown_kernel", None, 0),
        ("unknown_kernel", None, None),
    ]


@pytest.mark.parametrize(("machine", "devices"), [("a", [0]), ("b", [0, 1])])
def test_processes_of_two_machines_in_one_document(tmp_path: Path, machine: str, devices: list[int]) -> None:
    path = of_json(tmp_path, metadata={"node": {"machine_id": "a"}})
    document = json.loads(path.read_text())
    (first,) = document["rocprofiler-sdk-tool"]
    facts = {**first["metadata"], "pid": 7, "node": {"machine_id": machine}}
    path.write_text(json.dumps({"rocprofiler-sdk-tool": [first, {**first, "metadata": facts}]}))
    assert sorted(converted(path).launches["device"].unique()) == devices


@pytest.mark.parametrize("handle", [[7], "seven", float("nan"), None])
def test_an_agent_whose_handle_is_no_number_takes_no_launch_along(tmp_path: Path, handle: object) -> None:
    path = of_json(tmp_path)
    document = json.loads(path.read_text())
    document["rocprofiler-sdk-tool"][0]["agents"].append({"id": {"handle": handle}, "type": 2})
    path.write_text(json.dumps(document))
    assert [tuple(row.values()) for row in launch_rows(converted(path), "start_ns", "duration_ns")] == [*TIMES]


def test_values_that_json_does_not_know(tmp_path: Path) -> None:
    """Counters that divide by zero: no sum over instances where one of them is unknown; names stay as they are."""
    path = of_json(tmp_path, counters=[{"id": {"handle": 1}, "name": "SQ_WAVES"}])
    document = json.loads(path.read_text().replace('"k"', '"k, nan, -Infinity]"'))
    process = document["rocprofiler-sdk-tool"][0]
    records = [{"counter_id": {"handle": 1}, "value": value} for value in (5.0, float("nan"))]
    counted = {"dispatch_data": process["buffer_records"]["kernel_dispatch"][0], "records": records}
    process["callback_records"]["counter_collection"] = [counted]
    path.write_text(json.dumps(document))
    found = converted(path)
    assert {row["name"] for row in launch_rows(found, "name")} == {"k, nan, -Infinity]"}
    assert found.rows("metrics", "value", "instance") == [(5.0, "0")]
    assert found.report("lost") == {"value of a counter that is no number": 1}


def test_a_counter_of_which_one_instance_is_unknown_has_no_sum(tmp_path: Path) -> None:
    found = changed(
        tmp_path / "a.db",
        """INSERT INTO "rocpd_info_pmc{}" (id, nid, pid, agent_id, name, symbol)
        SELECT 1, nid, pid, agent_id, 'SQ_WAVES', 'SQ_WAVES' FROM "rocpd_kernel_dispatch{}" LIMIT 1""",
        """INSERT INTO "rocpd_pmc_event{}" (event_id, pmc_id, value)
        SELECT event_id, 1, 5 FROM "rocpd_kernel_dispatch{}" WHERE id = 1""",
        """INSERT INTO "rocpd_pmc_event{}" (event_id, pmc_id, value)
        SELECT event_id, 1, NULL FROM "rocpd_kernel_dispatch{}" WHERE id = 1""",
    )
    assert found.rows("metrics", "value", "instance") == [(5.0, "0"), (None, "1"), (None, None)]


def test_values_that_are_left_empty_are_in_the_line_about_the_trace(tmp_path: Path) -> None:
    lines = [HEADER, *(ROW.replace("1000", time) for time in ("1000", "n/a", "soon"))]
    path = written(tmp_path / "a_kernel_trace.csv", "\n".join(lines) + "\n")
    done = CliRunner().invoke(cli, ["--db", str(tmp_path / "k.duckdb"), "ingest", str(path)])
    assert (
        "; 4 values unread, 2 of them: cell of column start that is no such number: left empty (kerneldb traces"
        in done.stderr
    )


def test_launches_without_times_are_counted(tmp_path: Path) -> None:
    lines = [HEADER, *(ROW.replace("1000", time) for time in ("", "n/a", "8.1097E+14"))]
    found = converted(written(tmp_path / "a_kernel_trace.csv", "\n".join(lines) + "\n"))
    assert {row["duration_ns"] for row in launch_rows(found, "duration_ns")} == {None}
    assert found.report("note")["launches whose start or end is not in the file"] == len(lines) - 1
    assert found.report("unread")["cell of column start that is no such number: left empty"] == len(lines) - 2


def test_processes_in_one_table_are_refused(tmp_path: Path) -> None:
    """Ids of two processes are the same, and joins would mix their kernels."""
    connection = sqlite3.connect(tmp_path / "a.db")
    for table in ("string", "kernel_dispatch", "info_kernel_symbol", "event"):
        connection.execute(f"CREATE TABLE rocpd_{table} (id INTEGER, guid TEXT)")
        connection.executemany(f"INSERT INTO rocpd_{table} VALUES (1, ?)", [("a",), ("b",)])
    connection.commit()
    connection.close()
    with pytest.raises(UnreadableTraceError, match="several processes"):
        converted(tmp_path / "a.db")


def test_a_copy_of_fewer_than_no_bytes(tmp_path: Path) -> None:
    found = changed(
        tmp_path / "a.db",
        """INSERT INTO "rocpd_memory_copy{}" (id, nid, pid, start, end, name_id, size)
        SELECT 1, nid, pid, start, end, 1, -1 FROM "rocpd_kernel_dispatch{}" LIMIT 1""",
    )
    assert found.launches.filter(found.launches["kind"] == "memcpy").height == 1
    assert "bytes" not in found.table("signatures").columns or found.table("signatures")["bytes"].null_count()


def test_gpus_of_one_number_stay_apart(tmp_path: Path) -> None:
    """The description of neither is complete: their nodes tell them apart."""
    agents = """INSERT INTO "rocpd_info_agent{}" (id, nid, pid, type, absolute_index, type_index)
        SELECT 9, nid, pid, 'GPU', 9, type_index FROM "rocpd_info_agent{}" WHERE type = 'GPU'"""
    found = changed(tmp_path / "a.db", agents, 'UPDATE "rocpd_kernel_dispatch{}" SET agent_id = 9 WHERE id = 2')
    assert [row["device"] for row in launch_rows(found, "device")] == [0, 1]


def test_json_below_a_note(tmp_path: Path) -> None:
    path = of_json(tmp_path)
    path.write_text('{"made_by": "x",' + path.read_text()[1:])
    assert converted(path).launches.height == len(TIMES)


def test_a_dispatch_without_times_does_not_begin_with_the_clock(tmp_path: Path) -> None:
    """The clock of the machine never shows 0: a profiler writes it where a dispatch did not end."""
    found = changed(tmp_path / "a.db", 'UPDATE "rocpd_kernel_dispatch{}" SET start = 0, "end" = 0 WHERE id = 1')
    assert sorted(found.launches["duration_ns"].to_list(), key=str) == [2_000, None]
    assert found.trace["window_start_ns"] > 0
    row = ROW.replace("1000,1500", "0,0")
    found = converted(written(tmp_path / "a_kernel_trace.csv", "\n".join([HEADER, ROW, row]) + "\n"))
    assert [row["duration_ns"] for row in launch_rows(found, "duration_ns")] == [None, 500]
    assert found.report("note")["launches whose start or end is not in the file"] == 1


def test_a_launch_with_two_records_of_counters_is_one_launch(tmp_path: Path) -> None:
    """As passes over the counters leave them; numbers of dispatches may begin with 0."""
    path = of_json(tmp_path, counters=[{"id": {"handle": number}, "name": f"C{number}"} for number in (1, 2)])
    document = json.loads(path.read_text())
    buffers = document["rocprofiler-sdk-tool"][0]["buffer_records"]
    dispatch = buffers.pop("kernel_dispatch")[0]
    dispatch["dispatch_info"]["dispatch_id"] = 0
    counted = [
        {"dispatch_data": dispatch, "records": [{"counter_id": {"handle": number}, "value": 1.0 * number}]}
        for number in (1, 2)
    ]
    document["rocprofiler-sdk-tool"][0]["callback_records"] = {"counter_collection": counted}
    path.write_text(json.dumps(document))
    found = converted(path)
    assert found.launches["timing"].to_list() == ["profiled"]
    assert sorted(found.rows("metrics", "launch_index", "metric", "value")) == [(0, "C1", 1.0), (0, "C2", 2.0)]


def test_a_symbol_without_a_name(tmp_path: Path) -> None:
    path = of_json(tmp_path)
    document = json.loads(path.read_text())
    for symbol in document["rocprofiler-sdk-tool"][0]["kernel_symbols"]:
        symbol.update(dict.fromkeys(("kernel_name", "formatted_kernel_name", "demangled_kernel_name"), ""))
    path.write_text(json.dumps(document))
    assert {row["name"] for row in launch_rows(converted(path), "name")} == {UNKNOWN_KERNEL}


def raised(value: Any, by: int) -> Any:
    """The part of a document with the ids of activities that much higher."""
    if isinstance(value, dict):
        ids = {"internal", "handle"} if {"internal", "handle"} & value.keys() else set()
        return {key: inner + by if key in ids else raised(inner, by) for key, inner in value.items()}
    return [raised(inner, by) for inner in value] if isinstance(value, list) else value


@pytest.mark.parametrize("by", [1 << 62, (1 << 63) - 2, (1 << 64) - 5000])
def test_ids_of_the_upper_half_of_64_bits_tie_the_same(tmp_path: Path, by: int) -> None:
    columns = ("start_ns", "api_call", "launch_start_ns", "device", "grid_x")
    path = of_json(tmp_path)
    usual = converted(path)
    path.write_text(json.dumps(raised(json.loads(path.read_text()), by)))
    high = converted(path)
    assert launch_rows(high, *columns) == launch_rows(usual, *columns)
    assert usual.launches["api_call"].null_count() == 0
    assert high.launches["queue"].n_unique() == usual.launches["queue"].n_unique()
    assert high.launches["correlation_id"].null_count() == 0
    assert high.report("unread") == usual.report("unread")


def test_ids_longer_than_64_bits_are_counted(tmp_path: Path) -> None:
    path = of_json(tmp_path)
    path.write_text(json.dumps(raised(json.loads(path.read_text()), 1 << 70)))
    found = converted(path)
    assert found.launches["duration_ns"].sum() == 3_000
    assert launch_rows(found, "correlation_id", "queue") == [{"correlation_id": None, "queue": None}] * 2
    left = "value of {} that its column does not hold: left empty"
    assert {found.report("unread")[left.format(name)] for name in ("queue", "stream")} == {2}
