"""Jobs of many ranks, made up: what each rank's PyTorch profiler would have written of them.

A job is simulated, so that its traces agree as those of a real one do: a rank comes to a collective when its products
are done, the collective ends on all members when the last has come and the data is over, and only then they go on.
Layout and keys follow kineto `src/output_json.cpp` and torch's `record_param_comms`; the base of times is the one that
kineto takes (a multiple of three months), so jobs of one season share it.

    job = Job(world=4, start=clock(minutes=5), seed="a")
    job.write(2, folder / "anything.json.gz")
    job.waits([0, 1, 2, 3])   # rank → what kerneldb should say of it, by plain arithmetic
"""

from __future__ import annotations

import dataclasses
import functools
import gzip
import random
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any, Final

from tests.ingest import traces

QUARTER_NS: Final = 7_889_238 * 10**9
"""Kineto rounds the base of times to it."""
MORNING_NS: Final = 1_790_857_026_000_000_000 + 4_401_030_676_000_000
STEP_NS: Final = 100_000
"""About what a step takes with the default exchanges."""
WORLD: Final = "world"
KERNELS: Final = {
    "allreduce": "ncclDevKernel_AllReduce_Sum_bf16_RING_LL(ncclDevKernelArgsStorage<4096ul>)",
    "_allgather_base": "ncclDevKernel_AllGather_RING_LL(ncclDevKernelArgsStorage<4096ul>)",
    "_reduce_scatter_base": "ncclDevKernel_ReduceScatter_Sum_bf16_RING_LL(ncclDevKernelArgsStorage<4096ul>)",
}
PRODUCTS: Final = ("nvjet_tst_128x256_64x4_1x2_h_bz_coopA_TNT", "nvjet_tst_64x8_64x16_1x4_h_bz_TNN")
ARCH: Final = {"NVIDIA H200": (9, 0, 132), "NVIDIA A100-SXM4-80GB": (8, 0, 108)}
FIRST_SEQ: Final = 4_000
"""Groups live longer than a profile: their counts do not begin with it."""


def clock(*, hours: float = 0, minutes: float = 0, ms: float = 0) -> int:
    """Nanoseconds since the epoch, counted from one morning."""
    return MORNING_NS + int(1e6 * (ms + 1e3 * 60 * (minutes + 60 * hours)))


@dataclasses.dataclass(frozen=True)
class Exchange:
    """A collective of each step. `kind` names the groups that run it: a key of `Job.groups`."""

    call: str
    elements: int
    kind: str = WORLD


LAYER: Final = (Exchange("allreduce", 4096), Exchange("_allgather_base", 16_384), Exchange("allreduce", 4096))
OTHER_SIZES: Final = (Exchange("allreduce", 8192), Exchange("_allgather_base", 65_536), Exchange("allreduce", 8192))
OTHER_ORDER: Final = (Exchange("_allgather_base", 16_384), Exchange("allreduce", 4096), Exchange("allreduce", 4096))
TENSOR_AND_DATA: Final = (
    Exchange("allreduce", 4096, "tp"),
    Exchange("allreduce", 4096, "tp"),
    Exchange("_reduce_scatter_base", 65_536, "dp"),
)
GRID: Final = {"tp": ((0, 1), (2, 3)), "dp": ((0, 2), (1, 3))}


@dataclasses.dataclass(frozen=True)
class Launch:
    """A kernel of a rank; times in ns since the epoch. `exchange` and `group` where it is a collective."""

    step: int
    name: str
    start: int
    end: int
    exchange: Exchange | None = None
    group: tuple[int, ...] = ()
    number: int = 0
    """Of the collectives of its group, from 0."""


@dataclasses.dataclass(frozen=True)
class Job:
    """N ranks of one program.

    `start`: ns since the epoch; `has_clock`: whether traces tell of it (else times are small, with an origin of each
    rank's own). `skew_ns`: rank → by how much its host's clock is ahead. `late`: rank → steps that its profile misses.
    `per_host`: ranks of each host (None: all on one). `own_device`: each process sees one GPU, number 0.
    `local_names`: groups are numbered on each rank, so that groups of other ranks have the same names.
    `says`: what traces tell of the job: rank and world size ("rank"), process groups ("groups"), sizes ("sizes"), the
    groups of collectives ("members"), sequence numbers ("seq").
    """

    world: int = 2
    step: tuple[Exchange, ...] = LAYER
    steps: int = 4
    first_step: int = 0
    groups: Mapping[str, tuple[tuple[int, ...], ...]] = dataclasses.field(default_factory=dict)
    start: int = MORNING_NS
    has_clock: bool = True
    skew_ns: Mapping[int, int] = dataclasses.field(default_factory=dict)
    late: Mapping[int, int] = dataclasses.field(default_factory=dict)
    jitter: float = 0.3
    per_host: int | None = None
    own_device: bool = False
    local_names: bool = False
    gpu: str = "NVIDIA H200"
    says: frozenset[str] = frozenset({"rank", "groups", "sizes", "members"})
    seed: str = "job"

    def but(self, **changes: Any) -> Job:
        """The same job with other options."""
        return dataclasses.replace(self, **changes)

    def saying(self, *more: str) -> Job:
        """The same job, whose traces tell `more`."""
        return self.but(says=self.says | set(more))

    def silent(self, *less: str) -> Job:
        """The same job, whose traces do not tell `less`."""
        return self.but(says=self.says - set(less))

    @functools.cached_property
    def members(self) -> dict[str, tuple[tuple[int, ...], ...]]:
        """Kind → its groups."""
        return {WORLD: (tuple(range(self.world)),), **self.groups}

    @functools.cached_property
    def launches(self) -> dict[int, list[Launch]]:
        """Rank → its kernels, in order, those before its window among them."""
        chance = random.Random(self.seed)
        free = {rank: self.start + int(20_000 * chance.random() * self.jitter) for rank in range(self.world)}
        made: dict[int, list[Launch]] = {rank: [] for rank in free}
        counts: Counter[tuple[int, ...]] = Counter()
        for step in range(self.steps):
            for turn, exchange in enumerate(self.step):
                for rank in range(self.world):
                    start = free[rank] + 1_000
                    end = start + int(20_000 * (1 + self.jitter * chance.random()))
                    made[rank].append(Launch(step, PRODUCTS[turn % 2], start, end))
                    free[rank] = end + 1_000
                for group in self.members[exchange.kind]:
                    _exchange(made, free, Launch(step, KERNELS[exchange.call], 0, 0, exchange, group, counts[group]))
                    counts[group] += 1
                    for rank in group:
                        free[rank] += int(400 * chance.random() * self.jitter)
        return made

    def seen(self, rank: int) -> list[Launch]:
        """What the profile of a rank holds."""
        return [one for one in self.launches[rank] if one.step >= self.late.get(rank, 0)]

    def waits(self, ranks: Iterable[int]) -> dict[int, dict[str, int]]:
        """Rank → sums over its collectives (ns): `n`, and where all traced members show them, `transfer` and `wait`."""
        traced = list(ranks)
        instances: dict[tuple[Any, ...], dict[int, int]] = defaultdict(dict)
        for rank in traced:
            for one in self.seen(rank):
                if one.exchange is not None:
                    instances[one.group, one.number][rank] = one.end - one.start
        sums = {rank: {"n": 0, "matched": 0, "transfer": 0, "wait": 0} for rank in traced}
        for (group, _), lasts in instances.items():
            there = [rank for rank in group if rank in traced]
            for rank, duration in lasts.items():
                sums[rank]["n"] += 1
                if len(lasts) == len(there) > 1:
                    sums[rank]["matched"] += 1
                    sums[rank]["transfer"] += min(lasts.values())
                    sums[rank]["wait"] += duration - min(lasts.values())
        return sums

    def write(self, rank: int, path: Path) -> Path:
        """Write the trace of a rank, packed where the name ends in gz."""
        text = traces.kineto(_Writer(self, rank).trace()).encode()
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(gzip.compress(text, mtime=0) if path.suffix == ".gz" else text)
        return path

    def host_of(self, rank: int) -> str:
        """The name of the machine of a rank."""
        return f"node{rank // self.per_host if self.per_host else 0}"

    def device_of(self, rank: int) -> int:
        """The number of the GPU that a rank's process uses."""
        return 0 if self.own_device else rank % (self.per_host or self.world)

    def group_name(self, group: tuple[int, ...], rank: int) -> str:
        """As torch names groups: by their number, the world first; with `local_names` among those of the rank."""
        listed = [one for groups in self.members.values() for one in groups]
        return str([one for one in listed if not self.local_names or rank in one].index(group))


def _exchange(made: dict[int, list[Launch]], free: dict[int, int], one: Launch) -> None:
    """All members leave a collective when the last has come and the data is over."""
    assert one.exchange is not None
    over = max(free[rank] for rank in one.group) + 5_000 + one.exchange.elements // 10
    for number, rank in enumerate(one.group):
        made[rank].append(dataclasses.replace(one, start=free[rank] + 500, end=over + 100 * number))
        free[rank] = over + 100 * number


class _Writer:
    """Makes the trace of one rank."""

    def __init__(self, job: Job, rank: int) -> None:
        self._job = job
        self._rank = rank
        self._seen = job.seen(rank)
        ahead = job.skew_ns.get(rank, 0)
        origin = self._seen[0].start - 1_000_000 - 7_000 * rank
        self._base = (job.start // QUARTER_NS * QUARTER_NS if job.has_clock else origin) - ahead
        self._trace = traces.Trace(metadata=self._metadata())

    def trace(self) -> traces.Trace:
        """The events, calls before the kernels that they launch."""
        for number, one in enumerate(self._seen):
            self._launch(one, 20_000 + 13 * self._rank + number)
        for step in sorted({one.step for one in self._seen}):
            spans = [(one.start, one.end) for one in self._seen if one.step == step]
            start, end = self._ns(spans[0][0]) - 25_000, self._ns(spans[-1][1])
            self._trace.note(f"ProfilerStep#{self._job.first_step + step}", start, end - start)
        return self._trace

    def _metadata(self) -> dict[str, Any]:
        job = self._job
        major, minor, multiprocessors = ARCH[job.gpu]
        facts = {"name": job.gpu, "computeMajor": major, "computeMinor": minor, "numSms": multiprocessors}
        found: dict[str, Any] = {
            "deviceProperties": [{"id": number, **facts} for number in range(job.per_host or job.world)],
            "trace_id": random.Random(f"{job.seed} {self._rank}").randbytes(16).hex().upper(),
            "host_name": job.host_of(self._rank),
            "record_shapes": 1,
        }
        if "rank" in job.says:
            found["distributedInfo"] = self._distributed()
        found["displayTimeUnit"] = "ms"
        return {**found, "baseTimeNanoseconds": self._base + job.skew_ns.get(self._rank, 0)} if job.has_clock else found

    def _distributed(self) -> dict[str, Any]:
        job = self._job
        found: dict[str, Any] = {"backend": "nccl", "rank": self._rank, "world_size": job.world}
        if "groups" in job.says:
            own = [
                (kind, group) for kind, groups in job.members.items() for group in groups if self._rank in group
            ]  # torch lists the groups that a rank is a member of
            found["pg_count"] = len(own)
            found["pg_config"] = [
                {
                    "pg_name": job.group_name(group, self._rank),
                    "pg_desc": "default_pg" if kind == WORLD else f"mesh_{kind}",
                    "backend_config": "cuda:nccl",
                    "pg_size": len(group),
                    "ranks": list(group),
                }
                for kind, group in own
            ]
        return {**found, "nccl_version": "2.28.9"}

    def _ns(self, time: int) -> int:
        return time - self._base

    def _launch(self, one: Launch, number: int) -> None:
        """An operator, its call and its kernel. A rank's host is some 15 µs ahead of its GPU."""
        start, lasts, at = self._ns(one.start), one.end - one.start, self._ns(one.start) - 15_000
        said = {} if one.exchange is None else self._said(one, one.exchange)
        external = {"External id": number}
        self._trace.op("aten::mm" if one.exchange is None else "record_param_comms", at, 9_000, {**external, **said})
        self._trace.api("cudaLaunchKernel", at + 2_000, 3_000, number, external)
        stream, device = 7 if one.exchange is None else 20, self._job.device_of(self._rank)
        place = {"device": device, "stream": stream}
        self._trace.kernel(one.name, start, lasts, number, {**external, **said}, **place)

    def _said(self, one: Launch, exchange: Exchange) -> dict[str, Any]:
        if "sizes" not in self._job.says:
            return {}
        given = exchange.elements // (len(one.group) if exchange.call == "_allgather_base" else 1)
        taken = exchange.elements // (len(one.group) if exchange.call == "_reduce_scatter_base" else 1)
        said: dict[str, Any] = {
            "Collective name": exchange.call, "In msg nelems": given, "Out msg nelems": taken,
            "Group size": len(one.group), "dtype": "BFloat16", "In split size": "[]", "Out split size": "[]",
        }  # fmt: skip
        if "members" in self._job.says:
            said["Process Group Name"] = self._job.group_name(one.group, self._rank)
            said["Process Group Description"] = "default_pg" if exchange.kind == WORLD else f"mesh_{exchange.kind}"
            said["Process Group Ranks"] = str(list(one.group))
        if "seq" in self._job.says:
            said["Seq"] = FIRST_SEQ + len(self._job.step) * self._job.first_step + one.number
        return said
