"""Names of the traces that field/README.md lists."""

from __future__ import annotations

import gzip
from collections import Counter
from typing import TYPE_CHECKING

import orjson
import pytest

from kerneldb.names import decode

if TYPE_CHECKING:
    from pathlib import Path

KNOWN = (
    ("sam-triton-2.1", "triton__0d1d2d", "FUSED"),
    ("sam-triton-2.1", "_fwd_kernel_aligned", "ATTENTION"),
    ("deepseek-v3-train", "per_token_cast_to_fp8", "ELEMENTWISE"),
    ("deepseek-v3-train", "rotary_kernel", "ELEMENTWISE"),
)


def kernels(file: Path) -> dict[str, float]:
    """Time of each kernel name of a trace, by the file itself."""
    times: Counter[str] = Counter()
    for event in orjson.loads(gzip.decompress(file.read_bytes()))["traceEvents"]:
        if event.get("cat") == "kernel":
            times[event["name"]] += event["dur"]
    return times


@pytest.mark.parametrize(("trace", "part", "category"), KNOWN)
def test_names_of_the_field_are_known(field: Path, trace: str, part: str, category: str) -> None:
    names = [name for name in kernels(field / "pytorch" / f"{trace}.json.gz") if part in name]
    assert names
    assert {decode(name).category for name in names} == {category}


@pytest.mark.parametrize("trace", ["sam-triton-2.1", "deepseek-v3-train", "mi300-device-ids", "b200-eager"])
def test_less_than_a_hundredth_of_the_time_is_of_no_category(field: Path, trace: str) -> None:
    times = kernels(field / "pytorch" / f"{trace}.json.gz")
    assert sum(time for name, time in times.items() if decode(name).category == "OTHER") < 0.01 * sum(times.values())


def test_every_kernel_of_a_jax_program_has_a_category(field: Path) -> None:
    events = orjson.loads(gzip.decompress((field / "jax" / "train-step.trace.json.gz").read_bytes()))["traceEvents"]
    names = {event["name"] for event in events if event.get("pid") == 1 and event.get("ph") == "X"}
    assert len(names) > 40
    assert {name for name in names if decode(name).category == "OTHER"} == set()
