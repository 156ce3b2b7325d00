"""Ten small recordings of PyTorch's profiler, each slow for one known reason, and the same ones mended."""

from __future__ import annotations

import dataclasses
import itertools
from typing import TYPE_CHECKING, Any, Final

from tests.ingest.traces import T0, Trace, kineto

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

US: Final = 1_000
GEMM: Final = "nvjet_tst_128x256_64x4_2x1_v_bz_coopA_NNT"
ADD: Final = "void at::native::vectorized_elementwise_kernel<4, at::native::CUDAFunctor_add<float> >(int)"
ALL_REDUCE: Final = "ncclDevKernel_AllReduce_Sum_f32_RING_LL(ncclDevKernelArgsStorage<4096ul>)"
H100: Final = {"name": "NVIDIA H100 80GB HBM3", "computeMajor": 9, "computeMinor": 0, "numSms": 132}


HOUR: Final = 3_600_000_000_000
STARTS: Final = itertools.count(T0, HOUR)


@dataclasses.dataclass
class Program:
    """A host that launches one thing after the other on a GPU: `host` and `gpu` are how far each has come, in ns.

    Each program runs an hour after the one before: what ran at the same time is taken for one program.
    """

    host: int = dataclasses.field(default_factory=lambda: next(STARTS))
    trace: Trace = dataclasses.field(default_factory=Trace)
    gpu: int = 0
    number: int = 0

    def __post_init__(self) -> None:
        self.gpu = self.host
        self.trace.metadata["deviceProperties"] = [{"id": number, **H100} for number in range(2)]

    def call(self, name: str, duration: int, op: str | None = None, line: str | None = None) -> int:
        """A call of the runtime, in an operator and a frame of Python; returns its correlation."""
        self.number += 1
        begun = self.host
        self.host += duration
        self.trace.api(name, begun, duration, self.number, {"External id": self.number} if op else None)
        if op is not None:
            self.trace.op(op, begun - 200, duration + 400, {"External id": self.number})
        if line is not None:
            self.frame(line, begun - 400, duration + 800)
        return self.number

    def frame(self, line: str, start: int, duration: int) -> None:
        """A frame of Python."""
        details = {"Python id": 10_000 + len(self.trace.events), "Python parent id": None}
        self.trace.span("python_function", line, start, duration, details)

    def kernel(self, name: str = GEMM, duration: int = 200 * US, **more: Any) -> None:
        """A kernel, 5 µs after its launch began at the earliest; the host takes 10 µs for it, 4 for the call."""
        number = self.call("cudaLaunchKernel", 4 * US, more.pop("op", None), more.pop("line", None))
        start = max(self.gpu, self.host + US + more.pop("late", 0)) + more.pop("pause", 0)
        self.trace.kernel(name, start, duration, number, more.pop("details", None), **more)
        self.gpu = start + duration
        self.host += 6 * US

    def copy(self, name: str, duration: int, *, blocks: bool, op: str | None = None, line: str | None = None) -> None:
        """A copy of 8 MiB; the call lasts until its end where it blocks."""
        begun = self.host
        start = max(self.gpu, begun + 4 * US)
        self.gpu = start + duration
        number = self.call("cudaMemcpyAsync", self.gpu + US - begun if blocks else 4 * US, op, line)
        self.trace.gpu(name, start, duration, number, {"bytes": 2**23, "context": 1}, cat="gpu_memcpy")

    def read(self, late: int) -> None:
        """`.item()`: a copy of 4 bytes, and the host waits for it."""
        begun = self.host
        self.host += 4 * US
        start = max(self.gpu, self.host + 5 * US + late)
        number = self.call("cudaMemcpyAsync", 8 * US)
        self.gpu = start + 1_500
        self.trace.gpu("Memcpy DtoH (Device -> Pinned)", start, 1_500, number, {"bytes": 4}, cat="gpu_memcpy")
        self.call("cudaStreamSynchronize", max(self.gpu - self.host, 0) + 3 * US)
        self.host += 2 * US
        for inner, name in enumerate(("aten::item", "aten::_local_scalar_dense")):
            details = {"External id": 2 * self.number + 100_000 + inner}
            self.trace.op(name, begun + inner, self.host - begun - 2 * inner, details)

    def wait(self, op: str, line: str) -> None:
        """The host waits until the GPU has nothing to do."""
        self.call("cudaStreamSynchronize", max(self.gpu - self.host, 0) + 3 * US, op, line)

    def think(self, duration: int) -> None:
        """The host does something else, which nothing records."""
        self.host += duration

    def ahead(self) -> None:
        """Let the GPU have something to do for a while, as after the steps before."""
        self.kernel(duration=1_000 * US)

    def write(self, path: Path) -> Path:
        """The file, as the profiler writes it."""
        path.write_text(kineto(self.trace), encoding="utf-8")
        return path


def pageable_copy(*, broken: bool) -> Program:
    program = Program()
    program.ahead()
    for _ in range(20):
        if broken:
            program.copy(
                "Memcpy HtoD (Pageable -> Device)", 600 * US, blocks=True, op="aten::to", line="train.py(31): step"
            )
        program.kernel()
    return program


def item_in_a_loop(*, broken: bool) -> Program:
    program = Program()
    program.ahead()
    for _ in range(40):
        program.kernel(duration=100 * US, op="aten::mm", line="model.py(12): forward")
        if broken:
            program.wait("aten::item", "model.py(14): forward")
            program.think(60 * US)
    return program


def read_in_layers(*, broken: bool, kernel: int, host: int, first: int = 0, late: int = 0) -> Program:
    """24 layers of 15 kernels of `kernel` µs, the first of a layer `first` µs; the host takes 4 + `host` µs for each.

    Kernels start at least 3 + `late` µs after their call began. Broken, a value is read after each layer.
    """
    program = Program()
    program.ahead()
    for _ in range(24):
        for place in range(15):
            program.kernel(duration=(first if first and not place else kernel) * US, op="aten::mm", late=late * US)
            program.think((host - 6) * US)
        if broken:
            program.read(late * US)
    return program


def data_loader(*, broken: bool) -> Program:
    program = Program()
    for _ in range(5):
        if broken:
            name = "enumerate(DataLoader)#_SingleProcessDataLoaderIter.__next__"
            program.trace.span("user_annotation", name, program.host, 5_000 * US)
            program.frame("train.py(20): main", program.host - US, 5_002 * US)
            program.think(5_000 * US)
        for _ in range(5):
            program.kernel()
    return program


def small_kernels(*, broken: bool) -> Program:
    program = Program()
    for _ in range(200 if broken else 4):
        program.kernel(ADD, 2 * US if broken else 400 * US, op="aten::add")
        program.think(8 * US)
    return program


def slow_gemm(*, broken: bool) -> Program:
    """A product of 4096 × 50257 × 768 takes 0.32 ms at the peak of an H100."""
    program = Program()
    program.ahead()
    sizes = [[4096, 768], [768, 50257 if broken else 50304]]
    shape = {"Input Dims": sizes, "Input type": ["c10::BFloat16"] * 2, "Input Strides": [[768, 1], [1, 768]]}
    for _ in range(5):
        program.number += 1
        program.trace.op(
            "aten::mm", program.host, 30 * US, {"External id": program.number + 1, **shape, "Concrete Inputs": ["", ""]}
        )
        number = program.number + 1
        program.host += US
        program.kernel(duration=3_000 * US if broken else 400 * US, details={"External id": number})
        program.think(30 * US)
        for _ in range(4):
            program.kernel()
    return program


def gc_pause(*, broken: bool) -> Program:
    program = Program()
    for _ in range(10):
        program.kernel()
        if broken:
            program.trace.span("python_function", "Python GC", program.host, 900 * US, {"Python id": 1})
            program.think(900 * US)
    return program


def stream_dependency(*, broken: bool) -> Program:
    """Each kernel waits for an event of the other GPU, and was launched long before."""
    program = Program()
    program.ahead()
    for _ in range(20):
        if broken:
            program.call("cudaStreamWaitEvent", US)
        program.kernel(pause=80 * US if broken else 0, duration=100 * US, stream=7)
    return program


def allocator(*, broken: bool) -> Program:
    program = Program()
    for _ in range(20):
        program.kernel(op="aten::mm")
        if broken:
            program.call("cudaFree", max(program.gpu - program.host, 0) + 20 * US, "aten::empty", "cache.py(7): grow")
            program.call("cudaMalloc", 400 * US, "aten::empty", "cache.py(7): grow")
    return program


def exposed_all_reduce(*, broken: bool) -> Program:
    program = Program()
    program.ahead()
    for number in range(10):
        program.kernel(duration=200 * US)
        program.kernel(ALL_REDUCE, 800 * US, details=collective(number), stream=7)
        if not broken:  # beside the next kernel
            program.gpu -= 800 * US
        program.kernel(duration=900 * US)
    return program


def late_rank(rank: int, *, broken: bool) -> Program:
    """Rank 1 computes 900 µs longer than rank 0, which waits for it in the all-reduce."""
    program = Program(T0 - HOUR if broken else T0 - 2 * HOUR)
    program.trace.metadata["distributedInfo"] = {
        "backend": "nccl", "rank": rank, "world_size": 2, "pg_count": 1,
        "pg_config": [{"pg_name": "0", "pg_desc": "default_pg", "pg_size": 2, "ranks": [0, 1]}],
    }  # fmt: skip
    program.ahead()
    for number in range(10):
        late = 900 * US if broken else 0
        program.kernel(duration=300 * US + late * rank)
        program.kernel(ALL_REDUCE, 100 * US + late * (1 - rank), details=collective(number))
    return program


def collective(number: int) -> dict[str, Any]:
    """What the profiler says of an all-reduce of 4 MiB of two ranks."""
    return {
        "Collective name": "allreduce", "In msg nelems": 2**20, "Out msg nelems": 2**20, "Group size": 2,
        "dtype": "Float", "Process Group Name": "0", "Process Group Description": "default_pg",
        "Process Group Ranks": "[0, 1]", "Seq": number,
    }  # fmt: skip


CAUSES: Final[dict[str, Callable[..., Program]]] = {
    "exposed-copies": pageable_copy,
    "synchronising": item_in_a_loop,
    "data-loading": data_loader,
    "host-bound": small_kernels,
    "odd-gemm": slow_gemm,
    "garbage-collection": gc_pause,
    "stream-dependency": stream_dependency,
    "allocating": allocator,
    "exposed-communication": exposed_all_reduce,
}
"""The rule that must come first → the program; `late-rank` has two ranks, see `late_rank`."""
