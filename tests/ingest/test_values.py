"""Arguments of events: what is read from them, and odd spellings."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest

from tests.ingest.conversion import dims
from tests.ingest.traces import T0, Raw, Trace, everything

if TYPE_CHECKING:
    from tests.ingest.conftest import Convert

TRITON = {
    "kernel_backend": "triton",
    "kernel_file": "/tmp/torchinductor_me/ab/cabc.py",  # noqa: S108 - what torch prints
    "kernel_hash": "cqaokwf2fbuu",
    "kernel_name": "triton_poi_fused_add_cos_sin_0",
    "kernel_kwargs": "XBLOCK=128",
    "num_warps": 4,
    "num_stages": 1,
    "grid": "grid(100,)",
    "stream": 0,
}
COLLECTIVE = {
    "Collective name": "allreduce",
    "In msg nelems": 2_049_000,
    "Out msg nelems": 2_049_000,
    "Group size": 2,
    "dtype": "BFloat16",
    "Process Group Name": "0",
    "Process Group Description": "default_pg",
    "Process Group Ranks": "[0, 1]",
    "Comms Id": 2**64 - 1,
    "In split size": "[]",
    "Seq": 12,
}


def launched(convert: Convert, op_args: dict[str, Any], **kernel_args: Any) -> dict[str, Any]:
    trace = Trace()
    trace.launch("op", "kernel", T0, 5, op_args, **kernel_args)
    return convert(trace).launch("kernel")


def signatures(convert: Convert, *variants: dict[str, Any], of_kernel: bool = False) -> list[str]:
    """Signature ids of one kernel launched with each variant of the operator's (or its own) arguments."""
    trace = Trace()
    for number, variant in enumerate(variants):
        args = ({}, variant) if of_kernel else (variant, {})
        trace.launch("op", "kernel", T0 + number * 100_000, number + 5, args[0], **args[1])
    return convert(trace).launches["signature_id"].to_list()


def test_shapes_of_tensors_and_lists(convert: Convert) -> None:
    given = {
        "Input Dims": [[[2, 3], [4, 3]], [], [5]],
        "Input Strides": [[[3, 1], [3, 1]], [], [1]],
        "Input type": ["TensorList", "Scalar", "c10::BFloat16"],
        "Concrete Inputs": ["", "0", ""],
    }
    kernel = launched(convert, given)
    columns = ("input_dims", "input_strides", "input_dtypes", "scalars")
    assert [dims(kernel[column]) for column in columns] == list(given.values())


def test_spellings_of_int64_make_one_call(convert: Convert) -> None:
    spellings = ("long int", "long", "long long", "__int64")
    found = signatures(convert, *({"Input Dims": [[2]], "Input type": [spelling]} for spelling in spellings))
    assert len(found) == len(spellings)
    assert len(set(found)) == 1


def test_long_double_is_not_int64(convert: Convert) -> None:
    one, two = ({"Input Dims": [[2]], "Input type": [name]} for name in ("long int", "long double"))
    assert len(set(signatures(convert, one, two))) == 2


CLASSES = [
    ("0.1", "0.25", True),
    ("2.", "3.", False),
    ("0.1", "1e-05", True),
    ("1.", "1.0", True),
    ("0.5", "0.", False),
    ("0.5", "1.", False),
    ("-1.", "1.", False),
    ("inf", "0.5", False),
    ("-inf", "inf", False),
    ("nan", "0.5", False),
    ("2", "3", False),
    ("2", "2.", False),
    ("True", "False", False),
    ("[1, 2]", "[1, 3]", False),
]
"""Two scalars, and whether they make one call."""


def test_floats_count_by_class_everything_else_as_recorded(convert: Convert) -> None:
    texts = [text for one, two, _ in CLASSES for text in (one, two)]
    ids = signatures(convert, *({"Input Dims": [[2], []], "Concrete Inputs": ["", text]} for text in texts))
    same = [first == second for first, second in zip(ids[::2], ids[1::2], strict=True)]
    assert [(one, two, found) for (one, two, _), found in zip(CLASSES, same, strict=True)] == CLASSES


def test_an_example_of_the_float_is_kept(convert: Convert) -> None:
    assert dims(launched(convert, {"Concrete Inputs": ["0.125"]})["scalars"]) == ["0.125"]


def test_identity_has_no_counters_of_the_run(convert: Convert) -> None:
    keys = ("External id", "Record function id", "Ev Idx", "Sequence number")
    ids = signatures(convert, *({"Input Dims": [[2]], key: number} for key in keys for number in (5, 6)))
    assert len(ids) == 8
    assert len(set(ids)) == 1


def test_triton_metadata(convert: Convert) -> None:
    trace = Trace()
    trace.launch("triton_poi_fused_add_cos_sin_0", "triton_poi_fused_add_cos_sin_0", T0, 5, TRITON)
    (call,) = convert(trace).table("op_calls").to_dicts()
    extra = json.loads(call["extra"])
    assert extra["kernel_hash"] == "cqaokwf2fbuu"
    assert extra["kernel_kwargs"] == "XBLOCK=128"
    assert str(extra["num_warps"]) == "4"


@pytest.mark.parametrize(
    ("key", "other"), [("kernel_hash", "cother"), ("kernel_kwargs", "XBLOCK=64"), ("num_warps", 8)]
)
def test_triton_facts_are_identity(convert: Convert, key: str, other: object) -> None:
    assert len(set(signatures(convert, TRITON, {**TRITON, key: other}))) == 2


def test_triton_source_folder_is_not_identity(convert: Convert) -> None:
    other = {**TRITON, "kernel_file": "/home/you/cabc.py"}
    assert len(set(signatures(convert, TRITON, other))) == 1


def test_collective_on_its_kernel(convert: Convert) -> None:
    kernel = launched(convert, {}, **COLLECTIVE)
    columns = ("collective", "collective_dtype", "collective_in_elements", "collective_out_elements", "group_size")
    assert [kernel[column] for column in columns] == ["allreduce", "BFloat16", 2_049_000, 2_049_000, 2]
    assert (kernel["group_name"], kernel["group_description"], kernel["group_ranks"]) == ("0", "default_pg", "[0, 1]")
    assert kernel["collective_seq"] == 12


def test_collective_ranks_are_not_identity(convert: Convert) -> None:
    same, other, larger = signatures(
        convert, COLLECTIVE, {**COLLECTIVE, "Process Group Ranks": "[2, 3]"}, {**COLLECTIVE, "Group size": 4}
    )
    assert same == other != larger


def test_occupancy_object(convert: Convert) -> None:
    occupancy = {
        "activeBlocksPerMultiprocessor": 8,
        "limitingFactors": "REGS|SMEM",
        "blockLimitRegs": 8,
        "blockLimitSharedMem": 8,
    }
    kernel = launched(convert, {}, **{"occupancy": occupancy, "est. achieved occupancy %": 25, "blocks per SM": 0.5})
    assert (kernel["occupancy_limiter"], kernel["occupancy"], kernel["blocks_per_multiprocessor"]) == (
        "REGS|SMEM",
        0.25,
        0.5,
    )


def test_occupancy_that_was_not_estimated_is_unknown(convert: Convert) -> None:
    """Kineto writes 0, as for kernels of cuBLAS that CUDA gives no attributes of."""
    assert launched(convert, {}, **{"est. achieved occupancy %": 0})["occupancy"] is None


def test_kernel_attributes_are_not_identity(convert: Convert) -> None:
    variants = ({"registers per thread": 99}, {"shared memory": 4}, {"queued": 0})
    ids = set(signatures(convert, *variants, of_kernel=True))
    assert len(ids) == 1


def test_registers_and_shared_memory(convert: Convert) -> None:
    kernel = launched(convert, {}, **{"registers per thread": 255, "shared memory": 232_448})
    assert (kernel["registers"], kernel["shared_bytes"]) == (255, 232_448)


def test_peer_to_peer_copy(convert: Convert) -> None:
    trace = Trace()
    places = {
        "fromDevice": 1,
        "inDevice": 0,
        "toDevice": 2,
        "fromContext": 1,
        "inContext": 1,
        "toContext": 2,
        "bytes": 64,
    }
    trace.span(
        "gpu_memcpy",
        "Memcpy PtoP (Device -> Device)",
        T0,
        3_000,
        {**places, "stream": 13, "correlation": 4},
        pid=0,
        tid=13,
    )
    copy = convert(trace).launch("Memcpy PtoP (Device -> Device)")
    assert (copy["device"], copy["stream"], copy["copy_kind"], copy["bytes"]) == (0, 13, "PtoP", 64)


@pytest.mark.parametrize("kind", ["HtoD", "DtoH", "DtoD", "HtoH", "PtoP"])
def test_copy_directions(convert: Convert, kind: str) -> None:
    trace = Trace()
    trace.gpu(f"Memcpy {kind} (A -> B)", T0, 3_000, 4, {"bytes": 64}, cat="gpu_memcpy")
    assert convert(trace).launches["copy_kind"].to_list() == [kind]


def test_bytes_are_identity_of_copies(convert: Convert) -> None:
    trace = Trace()
    trace.memcpy(T0, 10, 1, 64)
    trace.memcpy(T0 + 100, 20, 2, 64)
    trace.memcpy(T0 + 200, 20, 3, 65)
    trace.memset(T0 + 300, 20, 4, 64)
    assert convert(trace).launches["signature_id"].n_unique() == 3


def test_device_where_only_the_row_says_it(convert: Convert) -> None:
    trace = Trace()
    trace.span("kernel", "k", T0, 3_000, {"correlation": 4}, pid=3, tid="stream 21")
    assert convert(trace).launches.select("device", "stream").rows() == [(3, 21)]


def test_stream_is_the_argument_not_the_row(convert: Convert) -> None:
    trace = Trace()
    trace.span("kernel", "k", T0, 3_000, {"correlation": 4, "stream": 7, "device": 0}, pid=0, tid=100_007)
    assert convert(trace).launches["stream"].to_list() == [7]


def test_last_of_duplicate_keys_wins(convert: Convert) -> None:
    """tb_plugin's own test trace has `device` twice; JSON readers take the last."""
    trace = Trace()
    shape = '"grid": [4, 1, 1], "block": [32, 1, 1]'
    doubled = Raw(f'{{"device": 1, "stream": 3, "correlation": 4, {shape}, "device": 2}}')
    trace.span("kernel", "k", T0, 3_000, doubled, pid=0, tid=3)  # type: ignore[arg-type]
    assert convert(trace).launches.select("device", "grid_x").rows() == [(2, 4)]


def test_ids_beyond_int64(convert: Convert) -> None:
    trace = Trace()
    trace.launch("op", "fits", T0, 5, {}, **{"Comms Id": 2**64 - 1})
    trace.memory(T0, 512, 2**64 - 1)
    trace.kernel("over", T0 + 90_000, 1_000, 6, {"External id": 2**64 - 1})
    found = convert(trace)
    assert found.launches["name"].to_list() == ["fits", "over"]
    assert found.launch("fits")["op"] == "op"
    assert found.rows("memory_events", "address") == [(str(2**64 - 1),)]
    assert found.total("lost") == 0


def test_string_pids_and_tids(convert: Convert) -> None:
    trace = Trace()
    trace.span("Trace", "PyTorch Profiler (0)", T0, 9_000, {"Op count": 0}, pid="Spans", tid="PyTorch Profiler")
    trace.op("aten::relu", T0, 9_000, pid="worker", tid="main")
    found = convert(trace)
    assert found.rows("ops", "process", "thread") == [("worker", "main")]
    assert found.rows("ranges", "name", "process", "thread") == [("PyTorch Profiler (0)", "Spans", "PyTorch Profiler")]


def test_counters_become_samples(convert: Convert) -> None:
    trace = Trace()
    trace.counter("GPU 0 Utilization", T0, {"GPU Utilization": 0.75})
    trace.counter("sm__cycles_active", T0 + 1, {"": 12.0}, pid="GPU 0 Counters")
    rows = convert(trace).rows("samples", "counter", "value", "ts_ns", "process")
    assert rows == [
        ("GPU 0 Utilization.GPU Utilization", 0.75, T0, "100"),
        ("sm__cycles_active", 12.0, T0 + 1, "GPU 0 Counters"),
    ]


def test_profiler_ranges_become_metrics(convert: Convert) -> None:
    found = convert(everything())
    ranges = dict(found.rows("ranges", "name", "range_id"))
    assert found.rows("metrics", "metric", "value", "range_id") == [
        ("smsp__inst_executed", 86_114_304.0, ranges["range_1"])
    ]


def test_unknown_category_is_kept_as_a_range(convert: Convert) -> None:
    trace = Trace()
    trace.span("something_new", "work", T0, 5_000, {"a": 1})
    trace.span(None, "bare", T0, 5_000)  # type: ignore[arg-type]
    assert convert(trace).rows("ranges", "kind", "name", "duration_ns") == [
        ("something_new", "work", 5_000),
        ("span", "bare", 5_000),
    ]


NAMES = [
    *('say "hi"', "back\\slash", "tab\there", "line\nbreak", "模型 🚀", "", "}, {", '"},{"ph":"X"', "\x7f", "a\u2028b"),
    "plain",
]


@pytest.mark.parametrize("few", [1, len(NAMES)], ids=["one", "all"])
def test_names_come_back_as_written(convert: Convert, few: int) -> None:
    """Valid JSON, whatever the name says."""
    trace, names = Trace(), NAMES[:few]
    for number, name in enumerate(names):
        trace.launch(name, name, T0 + number * 100_000, 5, {"Concrete Inputs": [name]})
    found = convert(trace)
    assert found.launches["name"].to_list() == names
    assert found.table("ops")["name"].to_list() == names
    assert [dims(found.launch(name)["scalars"]) for name in names] == [[name] for name in names]
    assert (found.repaired, found.total("lost")) == (0, 0)


def test_distributed_information(convert: Convert) -> None:
    trace = Trace()
    group = {"pg_name": "0", "pg_desc": "default_pg", "backend_config": "cuda:nccl", "pg_size": 8, "ranks": [0, 1]}
    trace.metadata["distributedInfo"] = {
        "backend": "nccl",
        "rank": 3,
        "world_size": 8,
        "pg_count": 1,
        "pg_config": [group],
    }
    trace.launch("op", "kernel", T0, 5)
    found = convert(trace)
    assert (found.trace["rank"], found.trace["world_size"]) == (3, 8)
    assert found.rows("process_groups", "group_name", "description", "group_size") == [("0", "default_pg", 8)]
    assert dims(found.table("process_groups")["ranks"][0]) == [0, 1]


@pytest.mark.parametrize("groups", [None, {"pg_name": "0", "pg_size": 2, "ranks": "[0, 1]"}], ids=["null", "object"])
def test_odd_process_groups(convert: Convert, groups: object) -> None:
    trace = Trace(metadata={"distributedInfo": {"rank": 1, "world_size": 2, "pg_config": groups}})
    trace.launch("op", "kernel", T0, 5)
    found = convert(trace)
    assert (found.trace["rank"], found.table("process_groups").height) == (1, 0 if groups is None else 1)


def test_device_properties(convert: Convert) -> None:
    card = {
        "id": 0,
        "name": "NVIDIA H200",
        "totalGlobalMem": 150_109_880_320,
        "computeMajor": 9,
        "computeMinor": 0,
        "numSms": 132,
        "warpSize": 32,
    }
    trace = Trace(metadata={"deviceProperties": [card, {**card, "id": 1}]})
    trace.launch("op", "kernel", T0, 5)
    rows = convert(trace).rows("devices", "device", "name", "arch", "multiprocessors", "memory_bytes", "warp_size")
    assert rows == [(number, "NVIDIA H200", "sm_90", 132, 150_109_880_320, 32) for number in (0, 1)]
