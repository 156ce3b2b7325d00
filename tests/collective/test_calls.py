"""What the calls of collectives were given, as `collective_calls` shows it."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import kerneldb
from tests.ingest.traces import T0, Trace, kineto

if TYPE_CHECKING:
    from pathlib import Path

SPLIT = {
    "Collective name": "all_to_allv",
    "dtype": "BFloat16",
    "In msg nelems": 24,
    "Out msg nelems": 40,
    "In split size": "[8, 16]",
    "Out split size": "[24, 16]",
    "Group size": 2,
    "Process Group Name": "7",
    "Process Group Description": "ep",
    "Process Group Ranks": "[0, ...]",
    "Global rank start": 0,
    "Global rank stride": 4,
    "Seq": 11,
    "Comms Id": 2**64 - 1,
}


def test_splits_and_groups_of_calls(tmp_path: Path) -> None:
    groups = [{"pg_name": "7", "pg_desc": "ep", "backend_config": "cuda:nccl", "pg_size": 2, "ranks": [0, 4]}]
    job = {"backend": "nccl", "rank": 4, "world_size": 8, "pg_count": 1, "nccl_version": "2.27.5", "pg_config": groups}
    trace = Trace(metadata={"distributedInfo": job})
    trace.launch("record_param_comms", "ncclDevKernel_SendRecv(x)", T0, 1, SPLIT, **SPLIT)
    send = {"Collective name": "send", "dtype": "Float", "In msg nelems": 9, "Group size": 8, "Dst Rank": 5}
    trace.op("record_param_comms", T0 + 90_000, 10, send)  # gloo: no kernel
    (tmp_path / "t.json").write_text(kineto(trace))
    db = kerneldb.open(tmp_path / "k.duckdb")
    db.ingest(tmp_path / "t.json")
    first, second = db.sql("FROM collective_calls ORDER BY start_ns").rows()
    expected = {
        "rank": 4,
        "operation": "all_to_allv",
        "dtype": "BFloat16",
        "in_elements": 24,
        "out_elements": 40,
        "in_split": "[8, 16]",
        "out_split": "[24, 16]",
        "backend": "cuda:nccl",
        "group_name": "7",
        "group_description": "ep",
        "group_ranks": "[0, ...]",
        "group_size": 2,
        "first_rank": 0,
        "rank_stride": 4,
        "collective_seq": 11,
    }
    assert {key: first[key] for key in expected} == expected
    assert json.loads(first["details"])["Comms Id"] == str(2**64 - 1)
    assert (second["operation"], second["in_elements"], second["dst_rank"], second["in_split"]) == ("send", 9, 5, None)
    (launch,) = db.sql("SELECT op_id FROM kernels").rows()
    assert launch["op_id"] == first["op_id"]
    (row,) = db.sql("SELECT metadata FROM traces").rows()
    assert json.loads(row["metadata"]) | {"backend": "nccl", "nccl_version": "2.27.5"} == json.loads(row["metadata"])


def test_calls_of_a_recorded_job(shared_data: Path, tmp_path: Path) -> None:
    db = kerneldb.open(tmp_path / "k.duckdb")
    db.ingest(shared_data / "pytorch" / "hta-nccl.json.gz")
    rows = db.sql("""
        SELECT operation, backend, first_rank, rank_stride, in_split, count(*) AS n FROM collective_calls
        WHERE operation <> 'wait' GROUP BY ALL ORDER BY ALL
    """).rows()
    assert [tuple(row.values()) for row in rows] == [
        ("allreduce", "cuda:nccl", 0, 1, "[]", 15),
        ("broadcast", "cuda:nccl", 0, 1, "[]", 6),
    ]
