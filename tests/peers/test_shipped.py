"""Every kind of figure that peers report, on the traces that the repository carries, against loops over their JSON."""

from __future__ import annotations

import functools
import json
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import duckdb
import pytest

import kerneldb
from tests.conftest import made_once
from tests.peers import plain
from tests.peers.conftest import QUERIES
from tests.peers.plain import Figures

ROOT = Path(__file__).resolve().parents[2]
FIXTURES = ROOT / "tests" / "fixtures"
TRACES = {
    "decoder": ROOT / "examples" / "decoder-h200.json.gz",
    "train-step": FIXTURES / "train-step-h200.json.gz",
    "compiled-graph": FIXTURES / "compiled-graph-h200.json.gz",
    "stacks-memory": FIXTURES / "stacks-memory-h200.json.gz",
    "rank0": FIXTURES / "exchanges-tp2-h200" / "rank0" / "script.pt.trace.json.gz",
    "rank1": FIXTURES / "exchanges-tp2-h200" / "rank1" / "script.pt.trace.json.gz",
}
KERNELS = """
    SELECT coalesce(op, '') AS op, name, stream,
        count(*) AS n, sum(duration_ns)::BIGINT AS total_ns, min(duration_ns) AS min_ns, max(duration_ns) AS max_ns
    FROM kernels WHERE trace = $trace AND kind = 'kernel' GROUP BY ALL
"""
BY_OPERATOR = (
    "SELECT op, sum(duration_ns)::BIGINT AS ns FROM kernels WHERE trace = $trace AND op IS NOT NULL GROUP BY op"
)
SIGNATURES = """
    WITH preceded AS (
        SELECT op_id, op, input_dims, input_dtypes, start_ns, end_ns, max(end_ns) OVER earlier AS last_end
        FROM kernels WHERE trace = $trace AND op IS NOT NULL
        WINDOW earlier AS (PARTITION BY op_id ORDER BY start_ns ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING)
    )
    SELECT op, input_dims, input_dtypes, count(DISTINCT op_id) AS n,
        sum(greatest(0, end_ns - greatest(start_ns, coalesce(last_end, start_ns))))::BIGINT AS ns
    FROM preceded GROUP BY ALL
"""
TABLE = """
    SELECT name, sum(blocks_per_multiprocessor * duration_ns) / sum(duration_ns) AS blocks,
        100 * sum(occupancy * duration_ns) / sum(duration_ns) AS occupancy, any_value(uses_tensor_cores(name)) AS tensor
    FROM kernels WHERE trace = $trace AND kind = 'kernel' GROUP BY name
"""
AROUND = """
    SELECT k.correlation_id, k.name, arg_min(r.name, r.duration_ns) AS annotation
    FROM kernels AS k
    LEFT JOIN ranges AS r
        ON r.trace_id = k.trace_id AND r.kind = 'gpu_user_annotation' AND r.device = k.device AND r.stream = k.stream
        AND k.start_ns >= r.start_ns AND k.end_ns <= r.start_ns + r.duration_ns
    WHERE k.trace = $trace GROUP BY k.launch_index, k.correlation_id, k.name
"""
WITHIN = """
    SELECT count(DISTINCT k.launch_index) AS n FROM kernels AS k
    INNER JOIN ranges AS r ON r.trace_id = k.trace_id
        AND k.launch_start_ns >= r.start_ns AND k.launch_start_ns < r.start_ns + r.duration_ns
    WHERE k.trace = $trace AND r.kind = 'user_annotation' AND r.name = $annotation
"""
IN_PATH = (
    "SELECT count(*) AS n FROM kernels WHERE trace = $trace AND list_contains(split(range_path, '/'), $annotation)"
)
STEPS = """
    CREATE OR REPLACE TEMP MACRO profiler_steps(trace_name) AS TABLE
    SELECT r.name, r.start_ns, greatest(r.start_ns + r.duration_ns, max(k.end_ns)) AS end_ns
    FROM ranges AS r
    INNER JOIN traces AS t ON t.trace_id = r.trace_id AND t.name = trace_name
    INNER JOIN kernels AS k ON k.trace_id = r.trace_id
        AND k.launch_start_ns >= r.start_ns AND k.launch_start_ns + k.launch_duration_ns <= r.start_ns + r.duration_ns
    WHERE r.kind = 'user_annotation' AND r.name = 'ProfilerStep#1'
    GROUP BY r.name, r.start_ns, r.duration_ns
"""
"""Steps are annotations since torch 1.9; profiler_steps.sql has them as the operators that they were before."""

Ask = Callable[..., list[dict[str, Any]]]


@functools.cache
def figures(trace: str) -> Figures:
    return Figures(TRACES[trace])


@pytest.fixture(scope="module")
def ask(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Ask]:
    """`ask(query, trace=…)`: the rows of SQL, or of queries/<query>.sql, in plain DuckDB."""

    def make(path: Path) -> None:
        database = kerneldb.open(path)
        for name, file in TRACES.items():
            database.ingest(file, name=name)

    with duckdb.connect(str(made_once(tmp_path_factory, "shipped-peers.duckdb", make)), read_only=True) as con:
        con.execute((QUERIES / "uses_tensor_cores.sql").read_text(encoding="utf-8"))
        con.execute(STEPS)

        def run(query: str, **values: object) -> list[dict[str, Any]]:
            text = (QUERIES / f"{query}.sql").read_text(encoding="utf-8") if query.isidentifier() else query
            result = con.execute(text, values)
            columns = [column[0] for column in result.description]
            return [dict(zip(columns, row, strict=True)) for row in result.fetchall()]

        yield run


every_trace = pytest.mark.parametrize("trace", TRACES)


@every_trace
def test_counts_and_bytes(ask: Ask, trace: str) -> None:
    assert ask("recorded", trace=trace) == [plain.recorded(figures(trace))]
    assert ask("gpu_events", trace=trace) == [{"n": len(figures(trace).gpu)}]


@every_trace
@pytest.mark.parametrize("query", ["gpu_timeline_all", "gpu_timeline_launched"])
def test_busy_idle_and_exposed_time(ask: Ask, trace: str, query: str) -> None:
    events = figures(trace).gpu if query == "gpu_timeline_all" else figures(trace).launched()
    [found], expected = ask(query, trace=trace), plain.timeline(events)
    assert {name: found[name] for name in expected} == expected


@every_trace
def test_what_ran_beside_what(ask: Ask, trace: str) -> None:
    [found], expected = ask("FROM overlap() WHERE trace = $trace", trace=trace), plain.overlap(figures(trace).gpu)
    assert {name: found[name] for name in expected} == expected


@every_trace
def test_gaps(ask: Ask, trace: str) -> None:
    found = ask("SELECT gap_ns FROM idle_gaps() WHERE trace = $trace", trace=trace)
    assert sorted(row["gap_ns"] for row in found) == sorted(plain.gaps(figures(trace).gpu))


@every_trace
def test_kernels_by_operator_name_and_stream(ask: Ask, trace: str) -> None:
    mine = figures(trace)

    def group(event: plain.Event) -> tuple[str, str, int]:
        op = mine.op(event)
        return op["name"] if op else "", event["name"], event["args"]["stream"]

    found = {
        (row["op"], row["name"], row["stream"]): (row["n"], row["total_ns"], row["min_ns"], row["max_ns"])
        for row in ask(KERNELS, trace=trace)
    }
    assert found == plain.sums(mine.kernels, group)


@every_trace
def test_kernel_table(ask: Ask, trace: str) -> None:
    top = ask("FROM top_kernels() WHERE trace = $trace AND kind = 'kernel'", trace=trace)
    found = {row["name"]: (row["n"], row["total_ns"], row["min_ns"], row["max_ns"]) for row in top}
    assert found == plain.sums(figures(trace).kernels, lambda event: event["name"])
    table = {row["name"]: (row["blocks"], row["occupancy"], row["tensor"]) for row in ask(TABLE, trace=trace)}
    expected = plain.kernel_table(figures(trace))
    assert table.keys() == expected.keys()
    for name, (blocks, occupancy, tensor) in expected.items():
        estimated = pytest.approx(occupancy, rel=1e-9) if occupancy else None  # 0: Kineto did not estimate it
        assert table[name] == (pytest.approx(blocks, rel=1e-9), estimated, tensor), name


@every_trace
def test_signatures_of_operators(ask: Ask, trace: str) -> None:
    """Calls with the same operator, dims and types; several events of one call count as long as any of them runs."""
    found = {
        (row["op"], *(json.dumps(json.loads(row[name] or "null")) for name in ("input_dims", "input_dtypes"))):
            (row["n"], row["ns"])
        for row in ask(SIGNATURES, trace=trace)
    }  # fmt: skip
    assert found == plain.signatures(figures(trace))


@every_trace
def test_time_and_calls_of_operators(ask: Ask, trace: str) -> None:
    mine = figures(trace)
    ours = [event for event in mine.gpu if mine.op(event)]
    sums = plain.sums(ours, lambda event: (mine.op(event) or {})["name"])
    found = {row["op"]: row["ns"] for row in ask(BY_OPERATOR, trace=trace)}
    assert found == {op: total for op, (_, total, _, _) in sums.items()}
    calls = plain.operator_calls(mine)
    for op in sums:
        assert ask("operator_self_time", trace=trace, op=op) == [{"calls": calls[op], "us": found[op] / 1000}]


@every_trace
def test_annotations(ask: Ask, trace: str) -> None:
    mine = figures(trace)
    for kind in ("user_annotation", "gpu_user_annotation"):
        names = {event["name"] for event in mine.by_cat[kind]}
        assert ask("annotation_names", trace=trace, kind=kind, dropped="") == [{"n": len(names)}], kind
    for name in {event["name"] for event in mine.by_cat["user_annotation"]}:
        assert ask(WITHIN, trace=trace, annotation=name) == [
            {"n": plain.launched_within(mine, name, on_its_thread=False)}
        ], name
    around = Counter((row["correlation_id"], row["name"], row["annotation"]) for row in ask(AROUND, trace=trace))
    assert around == Counter((e["args"]["correlation"], e["name"], plain.enclosing(mine, e)) for e in mine.gpu)


@pytest.mark.parametrize(
    ("trace", "annotation"),
    [
        ("train-step", "Optimizer.step#AdamW.step"), ("train-step", "forward"),
        ("stacks-memory", "Optimizer.step#SGD.step"), ("decoder", "prefill"), ("rank0", "nccl:all_reduce"),
    ],
)  # fmt: skip
def test_events_inside_an_annotation(ask: Ask, trace: str, annotation: str) -> None:
    expected = plain.launched_within(figures(trace), annotation, on_its_thread=True)
    assert expected
    assert ask(IN_PATH, trace=trace, annotation=annotation) == [{"n": expected}]


@every_trace
def test_launch_delays_and_short_kernels(ask: Ask, trace: str) -> None:
    found = {
        row["api_call"]: (
            row["n"], row["call_ns"], row["median_call_ns"], row["median_delay_ns"], row["median_kernel_ns"],
            row["p95_delay_ns"], row["shorter_than_call"],
        )
        for row in ask("FROM launch_overhead() WHERE trace = $trace", trace=trace)
    }  # fmt: skip
    expected = plain.launching(figures(trace))
    assert found.keys() == expected.keys()
    for call, row in expected.items():
        assert found[call] == pytest.approx(row, rel=1e-12), call


@pytest.mark.parametrize("trace", ["rank0", "rank1"])
def test_collectives(ask: Ask, trace: str) -> None:
    talking = [event for event in figures(trace).kernels if plain.is_communication(event)]
    counted = "SELECT count(*) AS n FROM kernels WHERE trace = $trace AND category = 'COMMUNICATION'"
    assert ask(counted, trace=trace) == [{"n": len(talking)}]
    longest = max(talking, key=lambda event: event["end"] - event["start"])["args"]
    assert [list(row.values()) for row in ask("longest_collective", trace=trace)] == [
        [
            longest["Collective name"], longest["In msg nelems"], longest["Out msg nelems"],
            longest["Process Group Name"], longest["Process Group Description"],
            longest["Process Group Ranks"],
        ]
    ]  # fmt: skip


def test_triton_operators(ask: Ask) -> None:
    ops = [one for one in figures("compiled-graph").ops if one["args"].get("kernel_backend") == "triton"]
    found = Counter((row["n"], row["name"], row["kernel_hash"]) for row in ask("triton_ops", trace="compiled-graph"))
    assert found == Counter((len(ops), one["name"], one["args"]["kernel_hash"]) for one in ops)
    assert ops


@pytest.mark.parametrize("trace", ["rank0", "rank1"])
def test_step_time_by_category(ask: Ask, trace: str) -> None:
    found = {row["class"]: row["us"] for row in ask("step_breakdown", trace=trace)}
    expected = plain.step_breakdown(figures(trace), "ProfilerStep#1")
    assert found == pytest.approx({name: time / 1000 for name, time in expected.items()}, rel=1e-12)


@pytest.mark.parametrize("trace", ["rank0", "rank1"])
def test_summary_of_the_gpu(ask: Ask, trace: str) -> None:
    mine = figures(trace)
    found = ask("gpu_summary", trace=trace)[0]
    for name, value in plain.gpu_summary(mine, "ProfilerStep#1").items():
        assert found[name] == pytest.approx(value, rel=1e-9), name
    device = mine.trace["deviceProperties"][0]
    assert found["Name"] == device["name"]
    assert found["Memory"] == f"{device['totalGlobalMem'] / 1024**3:.2f} GB"
    assert found["Compute Capability"] == f"{device['computeMajor']}.{device['computeMinor']}"
