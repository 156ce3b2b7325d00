"""A recorded trace with launches of Triton kernels."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.triton.kernels import HASH, launch, op


@pytest.fixture
def recorded(tmp_path: Path) -> Path:
    """A folder with a trace of a kernel with a hash and one made from a template, without sources."""
    hashed = {"kernel_hash": HASH, "kernel_kwargs": "XBLOCK=64", "num_warps": 4, "num_stages": 1}
    events = [
        op("triton_poi_fused_add_mul_1", 1, {**hashed, "kernel_file": f"/cache/{HASH}.py"}),
        *launch("triton_poi_fused_add_mul_1", 1),
        op("triton_tem_fused_mm_0", 2, {"num_warps": 4, "num_stages": 3}),
        *launch("triton_tem_fused_mm_0", 2),
    ]
    folder = tmp_path / "recorded"
    folder.mkdir()
    trace = {"schemaVersion": 1, "deviceProperties": [{"id": 0, "name": "NVIDIA H200"}], "traceEvents": events}
    (folder / "trace.json").write_text(json.dumps(trace), encoding="utf-8")
    return folder
