"""Every figure that TraceLens, tb_plugin and HTA report for the sample traces, asked of one warehouse in SQL."""

from __future__ import annotations

import ast
import dataclasses
import json
import os
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.peers.conftest import by_size

Ask = Callable[..., list[dict[str, Any]]]

DATA = Path(os.environ.get("KERNELDB_TEST_DATA", Path(__file__).resolve().parents[3] / "shared" / "data"))
EXPECTED = DATA / "pytorch" / "expected-peers.jsonl"
ROW_COUNT = 465

# As the rows state them: (absolute, relative), the absolute one in the unit of the figure, times in µs.
TOLERANCES = {
    "0.5us or 1e-4": (0.5, 1e-4),
    "0.02us": (0.02, 0.0),
    "0.05us or 2e-5": (0.05, 2e-5),
    "exact": (0.0, 0.0),
    "exact; 0.02": (0.02, 0.0),
    "0.01": (0.01, 0.0),
    "1us": (1.0, 0.0),
}

TIMELINE_COLUMNS = {
    "computation_time": "computation_ns",
    "exposed_comm_time": "exposed_communication_ns",
    "exposed_memcpy_time": "exposed_memcpy_ns",
    "busy_time": "busy_ns",
    "idle_time": "idle_ns",
    "total_time": "span_ns",
    "total_comm_time": "total_communication_ns",
    "total_memcpy_time": "total_memcpy_ns",
}


@dataclasses.dataclass(frozen=True)
class Row:
    """One figure of a peer. `trace` is the name of the trace in the warehouse."""

    number: int
    peer: str
    trace: str
    query: str
    expected: Any
    tolerance: str

    def near(self, expected: float) -> Any:
        """Equal within the stated tolerance."""
        absolute, relative = TOLERANCES[self.tolerance]
        return pytest.approx(expected, abs=absolute, rel=relative)

    def of(self, *names: str) -> tuple[Any, ...]:
        """Some values of a figure that is a record."""
        return tuple(self.expected[name] for name in names)


def check_timeline(ask: Ask, row: Row) -> None:
    launched = row.query.endswith("over only gpu events whose launch is in the trace")
    assert launched or row.query.endswith("over all gpu events")
    devices = ask("gpu_timeline_launched" if launched else "gpu_timeline_all", trace=row.trace)
    assert len(devices) == 1
    assert devices[0][TIMELINE_COLUMNS[row.query.split()[1]]] / 1000 == row.near(1000 * row.expected)


def check_kernel_of_operator(ask: Ask, row: Row) -> None:
    op, kernel, stream = row.of("cpu_op", "kernel", "stream")
    [found] = ask("kernels_by_op", trace=row.trace, op=op or "", kernel=kernel, stream=int(stream))
    assert found["count"] == row.expected["count"]
    for figure in ("sum_us", "min_us", "max_us"):
        assert found[figure] == row.near(row.expected[figure]), figure


def check_signature(ask: Ask, row: Row) -> None:
    """The rows do not print strides and scalars, so several may read the same: those are told apart by their time."""
    printed = ("op", "input_dims", "input_type")
    twins = [
        other.expected["kernel_us"]
        for other in ROWS
        if (other.trace, other.query) == (row.trace, row.query) and other.of(*printed) == row.of(*printed)
    ]
    op, dims, dtypes = row.of(*printed)
    found = ask("op_signature", trace=row.trace, op=op, input_dims=as_json(dims), input_dtypes=as_json(dtypes))
    assert len(found) == len(twins)
    signature = found[sorted(twins).index(row.expected["kernel_us"])]
    assert signature["count"] == row.expected["count"]
    assert signature["kernel_us"] == row.near(row.expected["kernel_us"])


def as_json(text: str) -> str:
    """TraceLens prints Python tuples, the warehouse keeps the JSON of the trace."""
    return json.dumps(ast.literal_eval(text))


def check_kernel_table(ask: Ask, row: Row) -> None:
    [found] = ask("kernel_table", trace=row.trace, kernel=row.expected["Name"])
    exact = row.of("Calls", "Total Duration (us)", "Max Duration (us)", "Min Duration (us)", "Mean Duration (us)")
    assert (found["calls"], found["total_us"], found["max_us"], found["min_us"], round(found["mean_us"])) == exact
    assert found["blocks_per_multiprocessor"] == row.near(row.expected["Mean Blocks Per SM"])
    assert found["occupancy_pct"] == row.near(row.expected["Mean Est. Achieved Occupancy (%)"])
    assert found["tensor_cores"] == row.expected["Tensor Cores Used"]


def check_operator(ask: Ask, row: Row) -> None:
    [found] = ask("operator_self_time", trace=row.trace, op=row.expected["op"])
    assert (found["us"], found["calls"]) == row.of("us", "calls")


def check_gpu_summary(ask: Ask, row: Row) -> None:
    found = ask("gpu_summary", trace=row.trace)[0]
    assert found.keys() == row.expected.keys()
    for figure, expected in row.expected.items():
        if expected.endswith(" %"):
            assert found[figure] == row.near(float(expected.removesuffix(" %"))), figure
        else:
            assert found[figure] == expected, figure


def check_step_breakdown(ask: Ask, row: Row) -> None:
    found = {part["class"]: part["us"] for part in ask("step_breakdown", trace=row.trace)}
    assert found == {name: row.near(us) for name, us in row.expected}


def check_gpu_annotations(ask: Ask, row: Row) -> None:
    [found] = ask("annotation_names", trace=row.trace, kind="gpu_user_annotation", dropped="")
    assert found["n"] == row.expected


def check_user_annotations(ask: Ask, row: Row) -> None:
    [found] = ask("annotation_names", trace=row.trace, kind="user_annotation", dropped="ProfilerStep#105")
    assert found["n"] == row.expected


def check_launched_in_steps(ask: Ask, row: Row) -> None:
    [found] = ask("launched_in_steps", trace=row.trace)
    assert found["n"] == row.expected


def check_enclosing_annotation(ask: Ask, row: Row) -> None:
    annotation, kernel = row.expected
    correlation = re.findall(r"correlation (\d+)", row.query)
    [found] = ask("enclosing_annotation", trace=row.trace, correlation=int(correlation[0]))
    assert found["annotation"] == annotation
    assert kernel in found["kernel"]


def check_annotated_in_steps(ask: Ask, row: Row) -> None:
    [found] = ask("annotated_in_steps", trace=row.trace, annotation="Optimizer.step#SGD.step")
    assert found["n"] == row.expected


def check_communication_kernels(ask: Ask, row: Row) -> None:
    [found] = ask("communication_kernels", trace=row.trace)
    assert found["n"] == row.expected


def check_longest_collective(ask: Ask, row: Row) -> None:
    [found] = ask("longest_collective", trace=row.trace)
    assert list(found.values()) == row.expected


def check_triton(ask: Ask, row: Row) -> None:
    [found] = ask("triton_ops", trace=row.trace)
    assert list(found.values()) == row.expected


def check_gpu_events(ask: Ask, row: Row) -> None:
    [found] = ask("gpu_events", trace=row.trace)
    assert found["n"] == row.expected


Check = Callable[[Ask, Row], None]

CHECKS: dict[str, Check] = {
    r"gpu_timeline \w+ in ms over ": check_timeline,
    r"kernels grouped by \(launching cpu_op, kernel name, stream\): count, sum/min/max us$": check_kernel_of_operator,
    r"launching op signature \(.*\): launches, busy kernel us$": check_signature,
    r"kernel table row \(blocks/SM and occupancy weighted by duration\)$": check_kernel_table,
    r"operator device_self_duration us ": check_operator,
    r"GPU utilisation %, est SM efficiency %, est achieved occupancy % over the ProfilerSteps$": check_gpu_summary,
    r"average step time us by category$": check_step_breakdown,
    r"distinct gpu_user_annotation names$": check_gpu_annotations,
    r"distinct user_annotation names, last ProfilerStep \(#105\) dropped$": check_user_annotations,
    r"GPU events launched within ProfilerStep#101\.\.#104$": check_launched_in_steps,
    r"gpu annotation enclosing correlation \d+": check_enclosing_annotation,
    r"GPU events inside Optimizer\.step#SGD\.step ": check_annotated_in_steps,
    r"ncclKernel kernels$": check_communication_kernels,
    r"longest NCCL kernel: collective, in/out nelems, pg name, pg desc, ranks$": check_longest_collective,
    r"cpu_ops with kernel_backend=triton: n, name, kernel_hash$": check_triton,
    r"GPU events in a trace without GPU work$": check_gpu_events,
}


def checks_of(row: Row) -> list[Check]:
    return [check for pattern, check in CHECKS.items() if re.match(pattern, row.query)]


def load_rows(path: Path) -> list[Row]:
    lines = path.read_text(encoding="utf-8").splitlines() if path.is_file() else []
    raw = [json.loads(line) for line in lines]
    return [
        Row(
            number,
            row["peer"],
            row["trace"].removesuffix(".json.gz"),
            row["query"],
            row["expected"],
            row["tolerance"],
        )
        for number, row in enumerate(raw, start=1)
    ]


def figure(row: Row) -> str:
    """What a row is about, short enough to read in a list of failures."""
    if not isinstance(row.expected, dict):
        return row.query[:70]
    if "kernel" in row.expected:
        return f"kernel {row.expected['cpu_op'] or '(no op)'} {row.expected['kernel'][:60]}"
    if "op" in row.expected:
        return f"operator {row.expected['op']} {row.expected.get('input_dims', 'self time')[:60]}"
    return f"{row.query.split(' (')[0][:40]} {row.expected['Name'][:60]}"


def label(row: Row) -> str:
    return f"{row.number:03d} {row.peer}, {row.trace}: {figure(row)}"


ROWS = load_rows(EXPECTED)
NO_ROWS = pytest.param(None, id="none", marks=pytest.mark.skip(reason=f"no figures of peers at {EXPECTED}"))


def test_every_row_is_checked_by_exactly_one_query(shared_data: Path) -> None:
    assert len(ROWS) == ROW_COUNT
    assert [row.number for row in ROWS if len(checks_of(row)) != 1] == []
    assert len({label(row) for row in ROWS}) == ROW_COUNT
    assert {check for row in ROWS for check in checks_of(row)} == set(CHECKS.values())


def differs(ask: Ask, row: Row) -> str | None:
    """The row and what differs, where something does."""
    [check] = checks_of(row)
    try:
        check(ask, row)
    except (AssertionError, ValueError) as error:
        return f"{label(row)}: {error}"
    return None


@pytest.mark.parametrize("trace", by_size(sorted({row.trace for row in ROWS})) or [NO_ROWS])
def test_figures(ask: Ask, trace: str) -> None:
    wrong = [differs(ask, row) for row in ROWS if row.trace == trace]
    assert [one for one in wrong if one is not None] == []


@pytest.mark.parametrize("trace", by_size(sorted({row.trace for row in ROWS})) or [NO_ROWS])
def test_peers_list_every_kernel(ask: Ask, trace: str) -> None:
    """Nothing in the warehouse that the tables of the peers lack: as many groups, and as many launches in them."""
    by_operator = [row for row in ROWS if checks_of(row) == [check_kernel_of_operator]]
    by_name = [row for row in ROWS if checks_of(row) == [check_kernel_table]]
    [groups] = ask("kernel_groups", trace=trace)
    listed = [row.expected["count"] for row in by_operator if row.trace == trace]
    named = [row.expected["Calls"] for row in by_name if row.trace == trace]
    assert (len(listed), sum(listed)) in {(0, 0), (groups["by_operator"], groups["kernels"])}
    assert (len(named), sum(named)) in {(0, 0), (groups["by_name"], groups["kernels"])}
