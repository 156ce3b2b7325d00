"""Synchronisation, samples and allocations in exports; and that every table is read or named."""

from __future__ import annotations

import contextlib
import sqlite3
from typing import TYPE_CHECKING, Any

import pytest
from polars.testing import assert_frame_equal

from kerneldb.ingest.ledger import UNKNOWN
from kerneldb.ingest.nsys.tables import LEDGER
from tests.ingest.conversion import Converted, convert_file
from tests.nsys import exports
from tests.nsys.test_exported import parquet_of

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

PID = exports.global_pid(exports.FIRST)
TID = exports.global_tid(exports.FIRST)
PLACE = {"deviceId": 0, "contextId": 1, "globalPid": PID}
NONE = (1 << 32) - 1
SAMPLES = ("lighttransport_gemm", "nsightful_power_iteration", "nsysai_h100_2gpu_1s")


def build(tmp_path: Path, **extra: Sequence[dict[str, Any]]) -> Converted:
    return convert_file(exports.build(tmp_path / "small.sqlite", extra=extra), tmp_path / "spool")


def asked(path: Path, sql: str) -> list[tuple[Any, ...]]:
    with contextlib.closing(sqlite3.connect(f"{path.as_uri()}?immutable=1", uri=True)) as connection:
        return connection.execute(sql).fetchall()


def wait(start: int, duration: int, *values: int) -> dict[str, int]:
    names = ("streamId", "correlationId", "syncType", "eventId", "eventSyncId")
    return {"start": start, "end": start + duration, **PLACE, **dict(zip(names, values, strict=True))}


def test_a_wait_names_the_record_it_waits_for(tmp_path: Path) -> None:
    records = [
        {"timestamp": 5_000, **PLACE, "streamId": 7, "correlationId": 1, "eventId": 3, "eventSyncId": 11},
        {"timestamp": 0, **PLACE, "streamId": 8, "correlationId": 2, "eventId": 3, "eventSyncId": 12},
    ]
    waits = [
        wait(2_000_000, 100, 9, 50, 2, 3, 11),
        wait(2_000_200, 700, NONE, 51, 1, 3, 12),
        wait(2_001_000, 500, NONE, 52, 4, NONE, NONE),
        wait(2_002_000, 500, 7, 11, 2, NONE, NONE),
        wait(2_003_000, 500, 7, 53, 0, NONE, NONE),
    ]
    found = build(tmp_path, CUPTI_ACTIVITY_KIND_CUDA_EVENT=records, CUPTI_ACTIVITY_KIND_SYNCHRONIZATION=waits)
    columns = ("kind", "stream", "start_ns", "duration_ns", "event_id", "waits_on_stream", "waits_on_correlation_id")
    assert found.rows("sync_events", *columns) == [
        ("event_record", 7, 1_000_100, 300, 3, None, None),
        ("event_record", 8, 1_000_600, 300, 3, None, None),
        ("stream_wait_event", 9, 2_000_000, 100, 3, 7, 1),
        ("event_sync", None, 2_000_200, 700, 3, 8, 2),
        ("context_sync", None, 2_001_000, 500, None, None, None),
        ("stream_sync", 7, 2_002_000, 500, None, None, None),
        ("unknown", 7, 2_003_000, 500, None, None, None),
    ]
    assert found.table("sync_events")["details"].to_list()[:2] == ['{"completed_ns": 5000}', None]
    assert found.table("sync_events")["thread"].to_list() == ["111", "111", None, None, None, "111", None]
    assert found.table("sync_events")["sync_index"].to_list() == list(range(7))


def test_a_record_has_no_call_where_several_have_its_number(tmp_path: Path) -> None:
    """Its own time is that of the GPU: a later call that began before it would pass for the one that recorded."""
    record = {"timestamp": 9_000_000, **PLACE, "streamId": 7, "correlationId": 60, "eventId": 3, "eventSyncId": 11}
    again = [
        *exports.CALLS,
        *(exports.Call(start, 10, "cudaLaunchKernel_v7000", 60) for start in (2_000_000, 8_000_000)),
    ]
    extra = {"CUPTI_ACTIVITY_KIND_CUDA_EVENT": [record, {**record, "correlationId": 1}]}
    path = exports.build(tmp_path / "small.sqlite", calls=again, extra=extra)
    found = convert_file(path, tmp_path / "spool")
    rows = found.rows("sync_events", "correlation_id", "name", "start_ns", "details")
    completed = '{"completed_ns": 9000000}'
    assert sorted(rows) == [
        (1, "cudaLaunchKernel", 1_000_100, completed),
        (60, "cudaEventRecord", None, completed),
    ]
    assert found.report("lost") == {"call of an event record: several calls have its number": 1}


def test_synchronisation_of_a_real_export(shared_data: Path, tmp_path: Path) -> None:
    path = shared_data / "nsys" / "nsysai_h100_2gpu_1s.sqlite"
    columns = "streamId, correlationId, start, end - start"
    sql = f"SELECT {columns} FROM CUPTI_ACTIVITY_KIND_SYNCHRONIZATION ORDER BY start, correlationId"
    found = convert_file(path, tmp_path / "spool")
    assert found.rows("sync_events", "stream", "correlation_id", "start_ns", "duration_ns") == asked(path, sql)
    kinds = found.table("sync_events")["kind"].value_counts().rows()
    assert dict(kinds) == {"stream_wait_event": 236, "stream_sync": 8}


def test_metrics_of_gpus_are_samples(tmp_path: Path) -> None:
    kind = 0x0102_0000_0001  # the last byte is the GPU
    names = ("SM Active [Throughput %]", "GPC Clock Frequency [MHz]", "Compute Warps in Flight")
    metrics = [{"typeId": kind, "metricId": number, "metricName": name} for number, name in enumerate(names)]
    values = [{"timestamp": 10 * n, "typeId": kind, "metricId": n, "value": 40 + n} for n in range(4)]
    found = build(tmp_path, TARGET_INFO_GPU_METRICS=metrics, GPU_METRICS=values)
    assert found.rows("samples", "counter", "unit", "device", "ts_ns", "value") == [
        ("SM Active", "%", 1, 0, 40.0),
        ("GPC Clock Frequency", "MHz", 1, 10, 41.0),
        ("Compute Warps in Flight", None, 1, 20, 42.0),
        ("GPU metric 3", None, 1, 30, 43.0),
    ]


def test_a_gpu_that_no_process_uses_is_not_the_one_whose_ordinal_is_its_number(tmp_path: Path) -> None:
    path = exports.build(
        tmp_path / "small.sqlite",
        extra={
            "GPU_METRICS": [
                {"timestamp": 10 * gpu, "typeId": gpu, "metricId": 0, "value": 40 + gpu} for gpu in range(3)
            ]
        },
    )
    with contextlib.closing(sqlite3.connect(path)) as connection:
        connection.execute("DELETE FROM TARGET_INFO_CUDA_DEVICE WHERE gpuId = 0")
        connection.commit()
    found = convert_file(path, tmp_path / "spool")
    assert found.rows("samples", "ts_ns", "device") == [(0, None), (10, 0), (20, 2)]
    assert [n for reason, n in found.report("unread").items() if reason.startswith("GPU of a sample")] == [1]


def test_waits_and_allocations_of_a_process_that_is_not_mapped_have_no_gpu(tmp_path: Path) -> None:
    other = {**PLACE, "globalPid": exports.global_pid(exports.SECOND)}
    held = [
        {"start": n, "memKind": kind, "bytes": 64, "memoryOperationType": 0, "address": n, **place}
        for n, (kind, place) in enumerate([(2, PLACE), (2, other), (0, other)], 1)
    ]
    waits = [{**wait(n, 5, 7, n, 3, 0, 0), **place} for n, place in enumerate([PLACE, other], 1)]
    extra = {"CUDA_GPU_MEMORY_USAGE_EVENTS": held, "CUPTI_ACTIVITY_KIND_SYNCHRONIZATION": waits}
    path = exports.build(tmp_path / "small.sqlite", extra=extra)
    with contextlib.closing(sqlite3.connect(path)) as connection:
        connection.execute("UPDATE TARGET_INFO_CUDA_DEVICE SET pid = 333 WHERE pid = ?", (exports.SECOND,))
        connection.commit()
    found = convert_file(path, tmp_path / "spool")
    assert found.rows("memory_events", "device") == [(1,), (None,), (None,)]  # the last one is memory of the host
    assert found.rows("sync_events", "device") == [(1,), (None,)]
    counted = [(reason.partition(":")[0], n) for reason, n in found.report("unread").items() if "GPU of" in reason]
    assert counted == [("GPU of a synchronisation or record of an event", 1), ("GPU of an allocation or release", 1)]


def test_samples_of_the_cpu_have_their_stack(tmp_path: Path) -> None:
    path = exports.build(tmp_path / "small.sqlite")
    names = ("id", "start", "cpu", "threadState", "globalTid", "cpuCycles")
    rows = [(1, 20, 3, 1, TID, 7), (2, 10, 4, None, TID, 8), (3, 30, 4, None, TID, 9)]
    frames = [(1, 903, 902, 0, 0), (1, 901, 902, 0, 1), (1, 900, 902, 0, 2), (2, 903, 902, 1, 0)]
    texts = ["main", "run;all", "/usr/lib/libc.so.6", "read"]
    with contextlib.closing(sqlite3.connect(path)) as connection:
        connection.execute(f"CREATE TABLE COMPOSITE_EVENTS ({', '.join(names)})")
        connection.execute("CREATE TABLE SAMPLING_CALLCHAINS (id, symbol, module, unresolved, stackDepth)")
        connection.executemany("INSERT INTO COMPOSITE_EVENTS VALUES (?, ?, ?, ?, ?, ?)", rows)
        connection.executemany("INSERT INTO SAMPLING_CALLCHAINS VALUES (?, ?, ?, ?, ?)", frames)
        connection.executemany("INSERT INTO StringIds VALUES (?, ?)", enumerate(texts, start=900))
        connection.commit()
    found = convert_file(path, tmp_path / "spool")
    assert found.rows("cpu_samples", "sample_index", "ts_ns", "cpu", "function", "stack", "cycles", "process") == [
        (0, 10, 4, "[libc.so.6]", "[libc.so.6]", 8, "111"),
        (1, 20, 3, "read", "main;run,all;read", 7, "111"),
        (2, 30, 4, None, None, 9, "111"),
    ]


def test_functions_of_the_cpu_are_summed(shared_data: Path, tmp_path: Path) -> None:
    import kerneldb

    path = shared_data / "nsys" / "nsightful_power_iteration.sqlite"
    database = kerneldb.open(tmp_path / "a.duckdb")
    database.ingest(path)
    (sums,) = database.sql("SELECT sum(self_samples) AS own, max(samples) AS most FROM cpu_functions").rows()
    ((sampled,),) = asked(path, "SELECT count(*) FROM COMPOSITE_EVENTS")
    ((read,),) = asked(
        path,
        """SELECT count(DISTINCT c.id) FROM SAMPLING_CALLCHAINS AS c JOIN StringIds AS m ON m.id = c.module
        WHERE c.unresolved = 1 AND m.value LIKE '%/libc.so.6'""",
    )
    assert sums["own"] == sampled
    (row,) = database.sql("FROM cpu_functions WHERE function = '[libc.so.6]'").rows()
    assert row["samples"] == read
    assert row["self_share"] == row["self_samples"] / sampled


def test_calls_of_other_libraries_have_their_kind(tmp_path: Path) -> None:
    call = {"start": 1_000_100, "end": 1_000_200, "globalTid": TID, "nameId": exports.IDS["plain_kernel"]}
    sent = {"start": 5, "end": 9, "globalTid": TID, "textId": exports.IDS["decode"], "size": 64}
    found = build(tmp_path, OSRT_API=[call, call], CUDNN_EVENTS=[call], CUBLAS_EVENTS=[call], MPI_P2P_EVENTS=[sent])
    calls = found.table("api_calls")
    others = calls.filter(~calls["kind"].str.starts_with("cuda"))
    assert others.select("kind", "name", "bytes").rows() == [
        *[(kind, "plain_kernel", None) for kind in ("osrt", "osrt", "cudnn", "cublas")],
        ("mpi", "decode", 64),
    ]
    assert calls["api_index"].to_list() == list(range(calls.height))
    assert found.trace["window_start_ns"] == 1_000_100


def test_allocations(tmp_path: Path) -> None:
    rows = [
        {"start": 10 * n, **PLACE, "address": 4096, "bytes": 512, "memKind": kind, "memoryOperationType": release}
        for n, (kind, release) in enumerate([(2, 0), (2, 1), (1, 0), (99, 0)])
    ]
    found = build(tmp_path, CUDA_GPU_MEMORY_USAGE_EVENTS=rows)
    columns = ("event_index", "ts_ns", "bytes", "device_type", "device", "memory_kind", "address")
    assert found.rows("memory_events", *columns) == [
        (0, 0, 512, "cuda", 1, "Device", "4096"),
        (1, 10, -512, "cuda", 1, "Device", "4096"),
        (2, 20, 512, "cpu", None, "Pinned", "4096"),
        (3, 30, 512, "cuda", 1, None, "4096"),
    ]


def test_parquet_and_sqlite_give_the_same_events(shared_data: Path, tmp_path: Path) -> None:
    path = shared_data / "nsys" / "nsightful_power_iteration.sqlite"
    one = convert_file(path, tmp_path / "one")
    other = convert_file(parquet_of(path, tmp_path / "small_pqtdir"), tmp_path / "other")
    for table in ("sync_events", "cpu_samples", "api_calls"):
        assert_frame_equal(*(side.table(table).drop("trace_id") for side in (one, other)))
    assert one.report("stored") == other.report("stored")


@pytest.mark.parametrize("name", SAMPLES)
def test_no_table_of_a_sample_is_unknown(shared_data: Path, name: str) -> None:
    tables = asked(shared_data / "nsys" / f"{name}.sqlite", "SELECT name FROM sqlite_master WHERE type = 'table'")
    assert [table for (table,) in tables if LEDGER.reason(table) == UNKNOWN] == []


def test_a_table_of_the_future_is_named(tmp_path: Path) -> None:
    found = build(tmp_path, QUANTUM_EVENTS=[{"start": 1}, {"start": 2}])
    assert found.report("skipped")[f"table QUANTUM_EVENTS: {UNKNOWN}"] == 2
