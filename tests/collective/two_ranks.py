"""Recordings of a step of two ranks: a product, a sum of it on another stream, and a product of that."""

from __future__ import annotations

import hashlib
import json
from pathlib import Path
from typing import Any

from kerneldb.recordings import NAME, Part, Recording, Traced

DIMS, STRIDES = [64, 64], [64, 1]
TENSORS = {"a": 11, "b": 12, "c": 13, "d": 14}
SUM = "ncclDevKernel_AllReduce_Sum_f32_RING_LL(ncclDevKernelArgsStorage<4096ul>)"
TRANSFER_US, WAIT_US = 20.0, 15.0
PRODUCTS = (("a", "b", "c"), ("c", "a", "d"))
STEPS = 3


def make(folder: Path, *, waits: bool = True) -> list[Path]:
    """A folder per rank; rank 0 waits in every sum, and, with `waits`, the first stream is told to wait for the sum."""
    return [_write(folder / f"rank{rank}", rank, waits=waits) for rank in (0, 1)]


def _write(folder: Path, rank: int, *, waits: bool) -> Path:
    folder.mkdir(parents=True)
    made = _Made(rank)
    for number in range(STEPS):
        made.step(number, waits=waits)
    trace = {
        "schemaVersion": 1,
        "distributedInfo": {"backend": "nccl", "rank": rank, "world_size": 2},
        "deviceProperties": [{"id": rank, "name": "NVIDIA H200", "computeMajor": 9, "computeMinor": 0, "numSms": 132}],
        "traceEvents": made.events,
    }
    said = {"schema": "1.1.1-chakra.0.0.4", "pid": 1, "nodes": made.nodes}
    path = folder / "step.pt.trace.json"
    text = json.dumps(trace)
    path.write_text(text)
    (folder / "step.et.json").write_text(json.dumps(said))
    traced = Traced(
        path.name, hashlib.sha256(text.encode()).hexdigest(), len(text), STEPS, execution_trace="step.et.json"
    )
    parts = [Part("step", "eager", measurements=[], trace=traced)]
    (folder / NAME).write_text(Recording("job", parts=parts, rank=rank, world_size=2).text())
    return path


class _Made:
    """Events of a trace and nodes of its Execution Trace, in order of time."""

    def __init__(self, rank: int) -> None:
        self.rank = rank
        self.events: list[dict[str, Any]] = []
        self.nodes: list[dict[str, Any]] = []
        self.at, self.number = 1000.0, 0

    def step(self, number: int, *, waits: bool) -> None:
        begun = self.at
        self._op("aten::mm", PRODUCTS[0], "gemm", 7, 10.0, {})
        wait = WAIT_US if self.rank == 0 else 0.0
        said = {
            "Collective name": "allreduce", "dtype": "Float", "In msg nelems": 4096, "Out msg nelems": 4096,
            "Group size": 2, "Process Group Name": "0", "Process Group Ranks": "[0, 1]", "Seq": number,
        }  # fmt: skip
        self._op("record_param_comms", ("c", "c"), SUM, 20, TRANSFER_US + wait, said)
        if waits:
            self._stream_wait(self.number)
        self._op("aten::mm", PRODUCTS[1], "gemm", 7, 10.0, {})
        self._event("user_annotation", f"ProfilerStep#{number + 1}", begun - 1, self.at - begun + 1, {})
        self.at += 100

    def _op(
        self, name: str, tensors: tuple[str, ...], kernel: str, stream: int, lasts: float, said: dict[str, Any]
    ) -> None:
        self.number += 1
        taken, ids = tensors[:-1], {"External id": self.number, "Record function id": self.number}
        dims = {"Input Dims": [DIMS] * len(taken), "Input Strides": [STRIDES] * len(taken)}
        call = {**ids, **dims, "Input type": ["float"] * len(taken), "Concrete Inputs": [""] * len(taken)}
        self._event("cpu_op", name, self.at, 8, {**call, **said, **({"Rank": self.rank} if said else {})})
        self._event("cuda_runtime", "cudaLaunchKernel", self.at + 2, 3, {"correlation": self.number, **ids})
        launch = {"device": self.rank, "stream": stream, "correlation": self.number, "External id": self.number}
        shape = {"grid": [4, 1, 1], "block": [128, 1, 1], "shared memory": 0, "registers per thread": 32}
        self._event("kernel", kernel, self.at + 10, lasts, {**launch, **shape, **said}, stream)
        self.nodes.append(self._node(name, taken, tensors[-1:]))
        self.at += 10 + lasts

    def _stream_wait(self, recorded: int) -> None:
        """The stream of the products waits for what was launched last."""
        call = 1000 + self.number
        self._event("cuda_runtime", "cudaStreamWaitEvent", self.at, 1, {"correlation": call})
        told = {"stream": 7, "wait_on_stream": 20, "wait_on_cuda_event_record_corr_id": recorded + 2000}
        self._event("cuda_runtime", "cudaEventRecord", self.at - 1, 1, {"correlation": recorded + 2000})
        kind = {"cuda_sync_kind": "Stream Wait Event", "correlation": call, "device": self.rank, "context": 1}
        self._event("cuda_sync", "Stream Wait Event", self.at, 0, {**told, **kind, "wait_on_cuda_event_id": 5}, 7)
        self.at += 2

    def _event(self, kind: str, name: str, at: float, lasts: float, said: dict[str, Any], thread: int = 1) -> None:
        process = self.rank if kind in {"kernel", "cuda_sync"} else 1
        place = {"pid": process, "tid": thread, "ts": at, "dur": lasts}
        self.events.append({"ph": "X", "cat": kind, "name": name, **place, "args": said})

    def _node(self, name: str, taken: tuple[str, ...], given: tuple[str, ...]) -> dict[str, Any]:
        def tensors(names: tuple[str, ...]) -> dict[str, Any]:
            values = [[TENSORS[one], TENSORS[one], 0, 4096, 4, f"cuda:{self.rank}"] for one in names]
            same = {"types": ["Tensor(float)"] * len(names), "strides": [STRIDES] * len(names)}
            return {"values": values, "shapes": [DIMS] * len(names), **same}

        attributes = [{"name": "rf_id", "type": "uint64", "value": self.number}]
        node = {"id": self.number + 100, "name": name, "ctrl_deps": 2, "attrs": attributes}
        return {**node, "inputs": tensors(taken), "outputs": tensors(given)}
