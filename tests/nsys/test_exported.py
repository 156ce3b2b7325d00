"""Exports of Nsight Systems: SQLite of several schemas, and the same tables as a folder of Parquet files."""

from __future__ import annotations

import atexit
import contextlib
import functools
import gzip
import json
import random
import shutil
import sqlite3
import string
import tempfile
from pathlib import Path
from typing import Any

import polars as pl
import pyarrow as pa
import pytest
from pyarrow import parquet

from kerneldb.errors import UnreadableTraceError
from kerneldb.ingest import Options, convert, expand, plan
from kerneldb.ingest.nsys.store import ParquetStore
from tests.ingest.conversion import Converted, convert_file
from tests.nsys import exports

FIRST, SECOND = str(exports.FIRST), str(exports.SECOND)


@functools.cache
def usual(era: str = "2025.3") -> Converted:
    """An export as it is, converted once."""
    room = Path(tempfile.mkdtemp(prefix="kerneldb-test-nsys-"))
    atexit.register(shutil.rmtree, room, ignore_errors=True)
    return build(room, era)


def build(tmp_path: Path, era: str = "2025.3", **changes: Any) -> Converted:
    return convert_file(exports.build(tmp_path / "small.sqlite", era, **changes), tmp_path / "spool")


def parquet_of(database: Path, folder: Path) -> Path:
    """The tables of a database as `nsys export --type parquetdir` lays them out: ids unsigned, shapes 32 bits wide."""
    folder.mkdir()
    connection = sqlite3.connect(database)
    for (table,) in connection.execute("SELECT name FROM sqlite_master WHERE type = 'table'").fetchall():
        rows = connection.execute(f'SELECT * FROM "{table}"')
        names = [column[0] for column in rows.description]
        frame = pl.DataFrame(rows.fetchall(), schema=names, orient="row", infer_schema_length=None)
        narrow = [
            pl.col(name).cast(pl.Int32) for name in names if name.startswith(("grid", "block")) and name != "gridId"
        ]
        wide = [pl.col(name).reinterpret(signed=False) for name in ("globalPid", "globalTid", "id") if name in names]
        frame.with_columns(*narrow, *wide).write_parquet(folder / f"{table}.parquet")
    connection.close()
    return folder


def facts(converted: Converted) -> list[dict[str, Any]]:
    rows = converted.launches.drop("trace_id", strict=False)
    return rows.select(sorted(rows.columns)).sort("launch_index").to_dicts()


@pytest.mark.parametrize("era", exports.ERAS)
def test_every_schema_gives_the_same_launches(era: str) -> None:
    converted = usual(era)
    rows = converted.launches.sort("launch_index").to_dicts()
    truth = sorted((*exports.KERNELS, *exports.MEMORY), key=lambda one: one.start)
    assert [row["start_ns"] for row in rows] == [one.start for one in truth]
    assert [row["launch_index"] for row in rows] == list(range(len(truth)))
    for row, one in zip(rows, truth, strict=True):
        assert row["duration_ns"] == one.duration == row["end_ns"] - row["start_ns"]
        assert row["process"] == str(one.process)
        if isinstance(one, exports.Kernel):
            assert row["name"] == one.name[0]
            assert (row["static_shared_bytes"], row["dynamic_shared_bytes"]) == one.shared
            assert row["shared_bytes"] == sum(one.shared)
            assert row["registers"] == one.registers
            assert row["quality"] is None if "quality" in row else True
        else:
            assert row["bytes"] == one.bytes
    schema = exports.ERAS[era].schema
    assert converted.trace["era"] == (f"sqlite {schema}" if schema else "sqlite")


def test_launches_find_the_call_of_their_own_process() -> None:
    rows = usual().launches
    same_correlation = rows.filter(pl.col("correlation_id") == 1).sort("process").to_dicts()
    assert [(row["process"], row["launch_duration_ns"]) for row in same_correlation] == [(FIRST, 300), (SECOND, 777)]
    status = dict(rows.select("start_ns", "launch_status").iter_rows())
    assert status[1_000_500] == "no_op"
    assert status[1_070_000] == "no_launch"
    assert status[1_060_000] == status[1_061_000] == "graph"


def test_graph_nodes_share_one_call() -> None:
    rows = usual().launches.filter(pl.col("launch_status") == "graph")
    assert rows["graph_node_id"].to_list() == [77, 78]
    assert set(rows["api_call"]) == {"cudaGraphLaunch"}
    assert rows["api_index"].n_unique() == 1


def test_calls_lose_the_suffix_of_their_version() -> None:
    calls = usual().table("api_calls")
    assert set(calls["name"]) == {
        "cudaLaunchKernel",
        "cuLaunchKernel",
        "cudaMemcpyAsync",
        "cudaMemsetAsync",
        "cudaGraphLaunch",
        "cudaStreamSynchronize",
    }
    assert set(calls.filter(pl.col("kind") == "cuda_driver")["name"]) == {"cuLaunchKernel"}
    assert calls.height == len(exports.CALLS)


def test_phases_and_paths() -> None:
    rows = usual().launches
    found = {row["start_ns"]: (row["phase"], row["range_path"]) for row in rows.to_dicts()}
    assert found[1_000_500] == ("prefill", "prefill/layer 0")
    assert found[1_010_000] == ("prefill", "prefill/layer 0/NCCL:ncclAllReduce")
    assert found[1_020_000] == ("decode", "decode")
    assert found[1_001_000] == ("epoch", "epoch")
    assert found[1_060_000] == ("decode", "decode/unfinished")
    assert found[1_070_000] == (None, None)


def test_ranges() -> None:
    converted = usual()
    rows = {row["name"]: row for row in converted.table("ranges").to_dicts()}
    assert len(rows) == len(exports.RANGES)
    assert rows["layer 0"]["parent_id"] == rows["prefill"]["range_id"]
    assert (rows["prefill"]["depth"], rows["layer 0"]["depth"], rows["NCCL:ncclAllReduce"]["depth"]) == (0, 1, 2)
    assert rows["epoch"]["kind"] == "nvtx_start_end"
    assert (rows["unfinished"]["finished"], rows["unfinished"]["duration_ns"]) == (False, None)
    assert converted.report("note")["NVTX range that the recording cut"] == 1


RANGES = {
    "steps are no phases": ((exports.Range(0, 10**7, "ProfilerStep#4"), exports.Range(1, 10**7 - 1, "train")), "train"),
    "operators of torch are no phases": (
        (exports.Range(0, 10**7, "decode, op_id = 3"), exports.Range(1, 10**7 - 1, "aten::mm, op_id = 4")),
        "decode",
    ),
    "a library alone": ((exports.Range(0, 10**7, "allreduce", domain=3),), "NCCL:allreduce"),
    "the default domain before a library": (
        (exports.Range(0, 10**7, "outer", domain=3), exports.Range(1, 10**7 - 1, "mine")),
        "mine",
    ),
    "equal intervals": ((exports.Range(0, 10**7, "a"), exports.Range(0, 10**7, "b")), "a"),
    "an empty range before": ((exports.Range(999_999, 999_999, "x"), exports.Range(1_000_000, 10**7, "y")), "y"),
    "overlapping start/end ranges": (
        (exports.Range(0, 1_000_200, "cut", kind=60), exports.Range(5, 10**7, "whole", kind=60)),
        "whole",
    ),
    "around the call and not around the innermost": (
        (exports.Range(0, 2_000_000, "first", kind=60), exports.Range(5, 3_000_000, "second", kind=60)),
        "first",
    ),
    "the default domain before a library that overlaps it": (
        (exports.Range(0, 2_000_000, "mine"), exports.Range(5, 3_000_000, "library", domain=3)),
        "mine",
    ),
    "another thread": ((exports.Range(0, 10**7, "x", thread=5),), None),
    "ends inside the call": ((exports.Range(0, 1_000_399, "x"),), None),
}


@pytest.mark.parametrize("case", RANGES)
def test_the_phase_of_a_launch(tmp_path: Path, case: str) -> None:
    ranges, wanted = RANGES[case]
    rows = build(tmp_path, ranges=ranges).launches
    assert rows.row(by_predicate=pl.col("start_ns") == 1_000_500, named=True)["phase"] == wanted


def test_the_path_has_all_ranges_around_the_call(tmp_path: Path) -> None:
    ranges = (
        exports.Range(0, 2_000_000, "step"),
        exports.Range(5, 1_000_100, "over before the call ends", kind=60),
        exports.Range(10, 3_000_000, "request", kind=60),
    )
    rows = build(tmp_path, ranges=ranges).launches
    launch = rows.row(by_predicate=pl.col("start_ns") == 1_000_500, named=True)
    assert (launch["range_path"], launch["phase"]) == ("step/request", "step")


def test_ordinals_that_are_another_gpu_in_each_process_become_numbers_of_the_host() -> None:
    devices = {row["process"]: row for row in usual().table("devices").to_dicts()}
    assert (devices[FIRST]["device"], devices[FIRST]["arch"], devices[FIRST]["multiprocessors"]) == (1, "sm_80", 108)
    assert (devices[SECOND]["device"], devices[SECOND]["arch"]) == (0, "sm_90")
    launched = usual().launches.select("process", "device").unique().rows()
    assert sorted(launched) == sorted([(FIRST, 1), (SECOND, 0)])
    assert devices[SECOND]["clock_mhz"] == 1980.0
    assert json.loads(devices[SECOND]["properties"])["memoryBandwidth"] == 3_352_320_000_000


def test_a_process_that_is_not_mapped_has_no_gpu_where_ordinals_are_ambiguous(tmp_path: Path) -> None:
    path = exports.build(tmp_path / "small.sqlite")
    with sqlite3.connect(path) as connection:
        connection.execute("UPDATE TARGET_INFO_CUDA_DEVICE SET pid = 333 WHERE pid = ?", (exports.SECOND,))
    connection.close()
    found = convert_file(path, tmp_path / "spool")
    launched = found.launches.select("process", "device").unique().rows()
    assert sorted(launched, key=str) == sorted([(FIRST, 1), (SECOND, None)], key=str)
    assert [n for reason, n in found.report("lost").items() if reason.startswith("GPU of a launch")] == [1]


@pytest.mark.parametrize("era", ["2020.4", "2023.4"])
def test_gpus_without_a_mapping_keep_their_numbers(era: str) -> None:
    devices = usual(era).table("devices").sort("device")
    assert devices["device"].to_list() == [0, 1]
    assert devices["name"].to_list() == ["NVIDIA H100 80GB HBM3", "NVIDIA A100-SXM4-80GB"]


def test_a_mig_slice_has_no_capability(tmp_path: Path) -> None:
    slice_of = {"id": 0, "name": "NVIDIA H100 MIG 1g.10gb", "smCount": 0, "computeMajor": 0, "computeMinor": 0}
    path = exports.build(tmp_path / "mig.sqlite")
    with sqlite3.connect(path) as connection:
        connection.execute("DELETE FROM TARGET_INFO_GPU")
        names = ", ".join(slice_of)
        connection.execute(f"INSERT INTO TARGET_INFO_GPU ({names}) VALUES (?, ?, ?, ?, ?)", tuple(slice_of.values()))
    row = convert_file(path, tmp_path / "spool").table("devices").row(0, named=True)
    assert (row["multiprocessors"], row["arch"]) == (None, None)


def test_occupancy_follows_the_gpu() -> None:
    rows = usual("2023.4").launches.filter(pl.col("name") == exports.GEMM[0])
    assert rows["theoretical_occupancy"].is_between(0, 1).all()
    assert set(rows["theoretical_limiter"]) == {"registers"}


def test_the_clock_is_that_of_the_session() -> None:
    trace = usual().trace
    assert (trace["clock"], trace["base_ns"]) == ("epoch", exports.START_UTC)
    assert (trace["window_start_ns"], trace["window_end_ns"]) == (1_000_100, 3_580_000)
    assert (trace["source"], trace["kind"], trace["host"]) == ("nsys", "timeline", "node7")
    assert trace["tool_version"] == "2099.1.1"


def test_mangled_names_are_kept_beside_the_full_ones() -> None:
    converted = usual()
    names = converted.table("kernel_names").select("name_id", "name")
    symbols = converted.table("kernel_symbols").join(names, on="name_id")
    found = {row["name"]: (row["symbol"], row["launches"]) for row in symbols.to_dicts()}
    assert found == {exports.GEMM[0]: (exports.GEMM[2], 3), exports.ADD[0]: (exports.ADD[2], 3)}


def test_environments_and_command_lines_stay_out(tmp_path: Path) -> None:
    path = exports.build(tmp_path / "small.sqlite")
    convert_file(path, tmp_path / "spool")
    for part in tmp_path.glob("spool/**/*"):
        assert part.is_dir() or b"SECRET" not in part.read_bytes()
    kept = convert_file(path, tmp_path / "kept", Options(keep_environment=True)).trace["metadata"]
    assert "HF_TOKEN=SECRET" in kept
    assert "--token=SECRET" in kept


def test_the_file_is_not_touched(tmp_path: Path) -> None:
    path = exports.build(tmp_path / "small.sqlite")
    content, before = path.read_bytes(), sorted(tmp_path.iterdir())
    path.chmod(0o444)
    convert_file(path, tmp_path / "spool")
    assert path.read_bytes() == content
    assert sorted(tmp_path.iterdir()) == sorted([*before, tmp_path / "spool"])


def test_a_compressed_export_is_the_same_trace(tmp_path: Path) -> None:
    path = exports.build(tmp_path / "small.sqlite")
    packed = tmp_path / "small.sqlite.gz"
    packed.write_bytes(gzip.compress(path.read_bytes()))
    one, other = convert_file(path, tmp_path / "one"), convert_file(packed, tmp_path / "other")
    assert one.manifest.trace_id == other.manifest.trace_id
    assert one.trace["name"] == other.trace["name"] == "small"
    assert facts(one) == facts(other)


@pytest.mark.parametrize("era", ["2021.5", "2023.4", "2026.2"])
def test_parquet_and_sqlite_give_the_same(tmp_path: Path, era: str) -> None:
    path = exports.build(tmp_path / "small.sqlite", era)
    folder = parquet_of(path, tmp_path / "small_pqtdir")
    assert expand([tmp_path / "small_pqtdir"]) == [folder]
    one, other = convert_file(path, tmp_path / "one"), convert_file(folder, tmp_path / "other")
    assert facts(one) == facts(other)
    for table in ("ranges", "api_calls", "signatures", "kernel_names", "devices", "kernel_symbols"):
        assert one.table(table).drop("trace_id", strict=False).equals(other.table(table).drop("trace_id", strict=False))
    schema = exports.ERAS[era].schema
    assert (other.trace["era"], other.trace["name"]) == (f"parquetdir {schema}", "small")


def test_a_number_that_a_column_does_not_hold_is_left_empty_and_counted(tmp_path: Path) -> None:
    folder = parquet_of(exports.build(tmp_path / "small.sqlite"), tmp_path / "small_pqtdir")
    kernels = folder / "CUPTI_ACTIVITY_KIND_KERNEL.parquet"
    frame = pl.read_parquet(kernels)
    wide = pl.when(pl.int_range(pl.len()) == 0).then(1 << 40).otherwise(pl.col("gridX").cast(pl.Int64))
    frame.with_columns(gridX=wide).write_parquet(kernels)
    found = convert_file(folder, tmp_path / "spool")
    assert found.report("unread")["value of column gridX that is not of type Int32: left empty"] == 1
    assert found.launches.filter(kind="kernel")["grid_x"].null_count() == 1


def test_a_gpu_with_more_threads_than_a_column_holds(tmp_path: Path) -> None:
    path = exports.build(tmp_path / "small.sqlite")
    connection = sqlite3.connect(path)
    with connection:
        connection.execute("UPDATE TARGET_INFO_GPU SET maxWarpsPerSm = 1 << 62")
    connection.close()
    found = convert_file(path, tmp_path / "spool")
    devices = found.table("devices")
    assert set(devices["max_threads_per_multiprocessor"]) == {None}
    reason = "value of max_threads_per_multiprocessor that its column does not hold: left empty"
    assert found.report("unread")[reason] == devices.height


def test_text_that_is_no_utf_8_is_damage(tmp_path: Path) -> None:
    folder = parquet_of(exports.build(tmp_path / "small.sqlite"), tmp_path / "small_pqtdir")
    names = folder / "StringIds.parquet"
    text = pl.read_parquet(names)["value"].to_list()
    marked = pl.read_parquet(names).with_columns(value=pl.Series([f"{one}\u00e4" for one in text]))
    marked.write_parquet(names, compression="uncompressed")
    names.write_bytes(names.read_bytes().replace("\u00e4".encode(), b"\x84\xff"))
    with pytest.raises(UnreadableTraceError, match=r"StringIds\.parquet: damaged \(.*Invalid UTF8"):
        convert_file(folder, tmp_path / "spool")


@pytest.mark.parametrize("rows", [0, 1, 3])
def test_a_parquet_table_without_any_known_column(tmp_path: Path, rows: int) -> None:
    folder = parquet_of(exports.build(tmp_path / "small.sqlite"), tmp_path / "small_pqtdir")
    pl.DataFrame({"future": range(rows)}).write_parquet(folder / "OSRT_API.parquet")
    assert convert_file(folder, tmp_path / "spool").report("stored").get("call of the OS runtime", 0) == rows


def test_a_folder_of_folders_finds_each_parquet_export(tmp_path: Path) -> None:
    path = exports.build(tmp_path / "a.sqlite")
    parquet_of(path, tmp_path / "b_pqtdir")
    found = plan(expand([tmp_path]))
    assert [unit.path.name for unit in found] == ["a.sqlite", "b_pqtdir"]
    assert [unit.reader.name for unit in found if unit.reader] == ["nsys", "nsys"]


def test_rows_in_any_order_give_the_same_numbers(tmp_path: Path) -> None:
    one = usual()
    shuffled = exports.build(tmp_path / "b.sqlite", kernels=exports.KERNELS[::-1], calls=exports.CALLS[::-1])
    other = convert_file(shuffled, tmp_path / "other")
    for row, twin in zip(facts(one), facts(other), strict=True):
        same = {"api_index"}
        assert {key: row[key] for key in row if key not in same} == {key: twin[key] for key in twin if key not in same}


@pytest.mark.parametrize("left", ["kernels", "memory", "calls", "ranges"])
def test_any_table_may_be_missing(tmp_path: Path, left: str) -> None:
    converted = build(tmp_path, **{left: ()})
    counts = {"kernels": len(exports.KERNELS), "memory": len(exports.MEMORY)}
    assert converted.trace["launches"] == sum(count for name, count in counts.items() if name != left)
    if left == "calls":
        rows = converted.launches
        assert set(rows["launch_status"]) == {"no_launch", "graph"}
        assert rows["phase"].null_count() == rows.height


def test_an_export_without_gpu_work_is_an_empty_trace(tmp_path: Path) -> None:
    converted = build(tmp_path, kernels=(), memory=(), calls=(), ranges=())
    assert converted.trace["launches"] == 0
    assert converted.table("devices").height == 2


def test_graphs_recorded_as_a_whole_are_launches_and_said(tmp_path: Path) -> None:
    row = {
        "start": 2_000_000,
        "end": 2_900_000,
        "deviceId": 0,
        "contextId": 1,
        "streamId": 7,
        "correlationId": 9,
        "globalPid": exports.global_pid(exports.FIRST),
        "graphId": 4,
        "graphExecId": 5,
    }
    converted = build(tmp_path, kernels=(), extra={"CUPTI_ACTIVITY_KIND_GRAPH_TRACE": [row]})
    (launch,) = converted.launches.filter(pl.col("kind") == "graph").to_dicts()
    assert (launch["name"], launch["duration_ns"], launch["graph_id"]) == ("[CUDA graph]", 900_000, 4)
    assert (launch["launch_status"], launch["api_call"]) == ("graph", "cudaGraphLaunch")
    assert converted.report("note")["CUDA graph recorded as a whole: its kernels are not in the export"] == 1


def test_what_is_not_stored_is_counted(tmp_path: Path) -> None:
    converted = build(tmp_path, extra={"SCHED_EVENTS": [{"start": 1}, {"start": 3}]})
    skipped, stored = converted.report("skipped"), converted.report("stored")
    assert skipped == {
        "table ENUM_*: labels of numbers; those that are needed are read": 6,
        "table SCHED_EVENTS: scheduling of threads": 2,
        "table TARGET_INFO_SYSTEM_ENV: the environment of the program; `--keep-environment` stores it": 1,
    }
    assert (stored["kernel"], stored["copy"], stored["fill"]) == (len(exports.KERNELS), 3, 1)
    assert converted.table("trace_files")["events"].to_list() == [sum(stored.values()) + sum(skipped.values())]


def test_many_batches(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("kerneldb.ingest.sqlite.BATCH_ROWS", 2)
    one = build(tmp_path)
    monkeypatch.undo()
    other = convert_file(tmp_path / "small.sqlite", tmp_path / "other")
    assert facts(one) == facts(other)


def test_without_adbc_the_standard_library_reads(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    one = build(tmp_path)
    monkeypatch.setitem(__import__("sys").modules, "adbc_driver_sqlite", None)
    assert facts(convert_file(tmp_path / "small.sqlite", tmp_path / "other")) == facts(one)


def test_progress_ends_at_the_size_of_the_file(tmp_path: Path) -> None:
    path = exports.build(tmp_path / "small.sqlite")
    seen: list[tuple[int, int]] = []
    convert(path, tmp_path / "spool", Options(), lambda done, total: seen.append((done, total)))
    assert seen == sorted(seen)
    assert {total for _, total in seen} == {path.stat().st_size}
    assert all(done <= total for done, total in seen)


@pytest.mark.parametrize("form", ["sqlite", "parquetdir"])
def test_every_table_may_be_versioned(tmp_path: Path, form: str) -> None:
    path = exports.build(tmp_path / "small.sqlite")
    plain = facts(convert_file(path, tmp_path / "plain"))
    with sqlite3.connect(path) as connection:
        for (table,) in connection.execute("SELECT name FROM sqlite_master WHERE type = 'table'").fetchall():
            connection.execute(f'ALTER TABLE "{table}" RENAME TO "{table}_V1"')
    connection.close()
    versioned = path if form == "sqlite" else parquet_of(path, tmp_path / "small_pqtdir")
    assert facts(convert_file(versioned, tmp_path / "versioned")) == plain


def test_numbers_that_no_column_holds(tmp_path: Path) -> None:
    """One damaged row costs its own values, and they are counted."""
    path = exports.build(tmp_path / "small.sqlite")
    with sqlite3.connect(path) as connection:
        first = "(SELECT min(rowid) FROM CUPTI_ACTIVITY_KIND_KERNEL)"
        wide = ("gridX", "registersPerThread", "deviceId")
        values = ", ".join(f"{name} = {1 << 40}" for name in wide)
        connection.execute(f"UPDATE CUPTI_ACTIVITY_KIND_KERNEL SET {values} WHERE rowid = {first}")
    connection.close()
    found = convert_file(path, tmp_path / "spool")
    assert found.launches.height == usual().launches.height
    damaged = found.launches.filter(pl.col("device").is_null()).select("grid_x", "registers", "duration_ns")
    assert damaged.rows() == [(None, None, exports.KERNELS[0].duration)]
    assert (
        found.report("unread").items()
        >= {f"value of column {name} that is not of type Int32: left empty": 1 for name in wide}.items()
    )


def test_what_a_launch_lacks_is_counted(tmp_path: Path) -> None:
    path = exports.build(tmp_path / "small.sqlite")
    with sqlite3.connect(path) as connection:
        first = "(SELECT min(rowid) FROM CUPTI_ACTIVITY_KIND_KERNEL)"
        lost = "demangledName = 999999, shortName = NULL, end = NULL"
        connection.execute(f"UPDATE CUPTI_ACTIVITY_KIND_KERNEL SET {lost} WHERE rowid = {first}")
    connection.close()
    found = convert_file(path, tmp_path / "spool")
    assert found.launches.filter(pl.col("duration_ns").is_null())["name"].to_list() == [""]
    assert found.report("lost") == {"name of a kernel": 1}
    assert found.report("note")["launch without a duration"] == 1


def test_a_correlation_that_comes_again_belongs_to_the_last_call_before(tmp_path: Path) -> None:
    """32 bits of them begin anew; a call of no kernel in between changes nothing."""
    late = 10_000_000
    again = exports.Call(late, 300, "cuLaunchKernel", 1)
    kernel = exports.Kernel(late + 900, 50, exports.PLAIN, (1, 1, 1), (32, 1, 1), 1)
    found = build(tmp_path, kernels=(*exports.KERNELS, kernel), calls=(again, *exports.CALLS))
    ones = found.rows("launches", "start_ns", "process", "correlation_id", "api_call", "launch_start_ns")
    assert [row for row in ones if row[2] == 1] == [
        (1_000_500, FIRST, 1, "cudaLaunchKernel", 1_000_100),
        (1_001_000, SECOND, 1, "cudaLaunchKernel", 1_000_100),
        (late + 900, FIRST, 1, "cuLaunchKernel", late),
    ]


def test_rows_that_take_no_room_are_refused(tmp_path: Path) -> None:
    """Values that repeat are a few bytes of a Parquet file, however many they are."""
    folder = parquet_of(exports.build(tmp_path / "small.sqlite"), tmp_path / "small_pqtdir")
    table = folder / "OSRT_API.parquet"
    rows = 20_000_000
    pl.select(pl.repeat(1, rows, dtype=pl.Int8).alias("start")).write_parquet(table)
    assert 500 * table.stat().st_size < 8 * rows
    with pytest.raises(UnreadableTraceError, match="KERNELDB_MAX_RATIO allows"):
        convert_file(folder, tmp_path / "spool")


def test_a_table_that_claims_more_rows_than_it_has_is_refused(tmp_path: Path) -> None:
    folder = parquet_of(exports.build(tmp_path / "small.sqlite"), tmp_path / "small_pqtdir")
    table = folder / "CUPTI_ACTIVITY_KIND_KERNEL.parquet"
    rows = pl.read_parquet(table)
    pl.concat([rows] * 200)[:300].write_parquet(table)
    text = table.read_bytes()
    footer = len(text) - 8 - int.from_bytes(text[-8:-4], "little")
    # As thrift writes the numbers 300 and 8000 (zigzag, seven bits a byte).
    table.write_bytes(text[:footer] + text[footer:].replace(b"\xd8\x04", b"\x80\x7d"))
    with pytest.raises(UnreadableTraceError, match="7,700 of its 8,000 rows are not there"):
        convert_file(folder, tmp_path / "spool")


@pytest.mark.parametrize("encoding", [True, False])
def test_a_long_text_in_many_rows_is_refused(tmp_path: Path, encoding: bool) -> None:
    """It is in the file once, or packed; nothing decodes it for each row before that is counted."""
    folder = parquet_of(exports.build(tmp_path / "small.sqlite"), tmp_path / "small_pqtdir")
    table = folder / "NVTX_EVENTS.parquet"
    text, rows = "".join(random.Random(1).choices(string.ascii_letters, k=200_000)), 2_000
    texts = pa.DictionaryArray.from_arrays(pa.array([0] * rows, pa.int32()), pa.array([text]))
    times = pa.array(range(1_000_000, 1_000_000 + rows))
    columns = {"start": times, "end": times, "eventType": pa.array([59] * rows), "text": texts}
    parquet.write_table(pa.table(columns), table, use_dictionary=encoding, compression="zstd")
    assert 500 * table.stat().st_size < len(text) * rows
    with pytest.raises(UnreadableTraceError, match="KERNELDB_MAX_RATIO allows"):
        convert_file(folder, tmp_path / "spool")


WIDE = ("string", "large_string", "string_view", "binary", "large_binary", "binary_view", "fixed", "list")
WIDE += ("opaque", "json_")


@pytest.mark.parametrize("kind", WIDE)
def test_long_values_of_any_type_are_refused_before_they_are_decoded(tmp_path: Path, kind: str) -> None:
    folder = parquet_of(exports.build(tmp_path / "small.sqlite"), tmp_path / "small_pqtdir")
    table = folder / "NVTX_EVENTS.parquet"
    text, rows = "".join(random.Random(1).choices(string.ascii_letters, k=200_000)), 2_000
    special = {"fixed": pa.binary(len(text)), "list": pa.list_(pa.string())}
    special |= {"opaque": pa.opaque(pa.large_binary(), "text", "someone"), "json_": pa.json_(pa.large_string())}
    type_of = special.get(kind) or getattr(pa, kind)()
    value = {"list": [text], "json_": f'"{text}"'}.get(kind, text if "string" in kind else text.encode())
    storage = pa.array([value] * (rows // 20), getattr(type_of, "storage_type", type_of))
    part = pa.ExtensionArray.from_storage(type_of, storage) if kind in {"opaque", "json_"} else storage
    texts = pa.chunked_array([part] * 20)
    times = pa.array(range(1_000_000, 1_000_000 + rows))
    columns = {"start": times, "end": times, "eventType": pa.array([59] * rows), "text": texts}
    parquet.write_table(pa.table(columns), table, compression="zstd")
    del storage, part, texts, columns
    pool, usual = pa.proxy_memory_pool(pa.system_memory_pool()), pa.default_memory_pool()
    pa.set_memory_pool(pool)
    try:
        with pytest.raises(UnreadableTraceError) as caught:
            convert_file(folder, tmp_path / "spool")
    finally:
        pa.set_memory_pool(usual)
    said = str(caught.value)
    refused = kind in {"list", "opaque", "json_"}
    assert "export again" in said if refused else "KERNELDB_MAX_RATIO allows" in said
    assert str(folder) in said
    assert pool.max_memory() < 100 * len(text)


def test_a_table_with_a_column_twice_is_refused(tmp_path: Path) -> None:
    folder = parquet_of(exports.build(tmp_path / "small.sqlite"), tmp_path / "small_pqtdir")
    times = pa.array([1_000_000])
    table = pa.Table.from_arrays([times, times, pa.array([59])], names=["start", "start", "eventType"])
    parquet.write_table(table, folder / "NVTX_EVENTS.parquet")
    with pytest.raises(UnreadableTraceError, match="several columns start"):
        convert_file(folder, tmp_path / "spool")


def test_a_table_without_columns_that_are_read_has_its_rows_counted(tmp_path: Path) -> None:
    folder = parquet_of(exports.build(tmp_path / "small.sqlite"), tmp_path / "small_pqtdir")
    parquet.write_table(pa.table({"odd": [[{"a": 1}]] * 7}), folder / "NVTX_EVENTS.parquet")
    store = ParquetStore(folder)
    (part,) = store.frames("NVTX_EVENTS", {"start": pl.Int64, "text": pl.String})
    assert part.height == 7
    assert part.null_count().row(0) == (7, 7)


def test_a_long_name_of_many_ranges_is_refused(tmp_path: Path) -> None:
    """A table holds it once; each range would be stored with it."""
    ranges = [
        exports.Range(1_000_000 + 30 * at, 1_000_020 + 30 * at, "prefill", registered=True) for at in range(5_000)
    ]
    database = exports.build(tmp_path / "small.sqlite", ranges=ranges)
    with contextlib.closing(sqlite3.connect(database)) as connection, connection:
        connection.execute("UPDATE StringIds SET value = ? WHERE value = 'prefill'", ("x" * 1_000_000,))
    with pytest.raises(UnreadableTraceError, match=r"rows of ranges repeat texts.*KERNELDB_MAX_RATIO allows"):
        convert_file(database, tmp_path / "spool")


def test_ranges_with_much_text_are_written_in_parts(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    whole = convert_file(exports.build(tmp_path / "small.sqlite"), tmp_path / "whole")
    monkeypatch.setattr("kerneldb.repeated.PART_BYTES", 30)
    parts = convert_file(tmp_path / "small.sqlite", tmp_path / "parts")
    assert len(parts.manifest.parts["ranges"]) > len(whole.manifest.parts["ranges"])
    assert parts.table("ranges").equals(whole.table("ranges"))
