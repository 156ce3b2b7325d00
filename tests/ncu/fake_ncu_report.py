"""A stand-in for NVIDIA's package `ncu_report`, with the part of its documented interface that the reader uses.

`test_report_files` compares its methods with those of the real package where that is installed.
"""

from __future__ import annotations

import dataclasses
from typing import Any

MsgType_OPTIMIZATION = 2
SpeedupType_LOCAL = 1


@dataclasses.dataclass(frozen=True)
class IMetric:
    """A metric: its value, and those of its instances."""

    aggregate: Any
    printed_unit: str = ""
    each: tuple[Any, ...] = ()
    ids: tuple[int, ...] = ()

    def has_correlation_ids(self) -> bool:
        """Whether the instances belong to something that has numbers, such as the instructions at addresses."""
        return bool(self.ids)

    def correlation_ids(self) -> IMetric | None:
        """These numbers, as the instances of another metric."""
        return IMetric(None, each=self.ids) if self.ids else None

    def as_uint64(self, idx: int) -> int:
        """The value of an instance."""
        return int(self.each[idx])

    def value(self, idx: int | None = None) -> Any:
        """The value, or that of an instance."""
        return self.aggregate if idx is None else self.each[idx]

    def unit(self) -> str:
        """The base unit."""
        return self.printed_unit

    def num_instances(self) -> int:
        """Number of instances."""
        return len(self.each)


@dataclasses.dataclass(frozen=True)
class INvtxDomainInfo:
    """Ranges of one domain."""

    pushed: tuple[str, ...]
    started: tuple[str, ...] = ()

    def push_pop_ranges(self) -> tuple[str, ...]:
        """Names of the stack, outermost first."""
        return self.pushed

    def start_end_ranges(self) -> tuple[str, ...]:
        """Names of the other ranges."""
        return self.started


@dataclasses.dataclass(frozen=True)
class INvtxState:
    """Domains around a launch."""

    by_id: dict[int, INvtxDomainInfo]

    def domains(self) -> tuple[int, ...]:
        """Ids of the domains."""
        return tuple(self.by_id)

    def domain_by_id(self, id: int) -> INvtxDomainInfo:  # noqa: A002 - the name of the real parameter
        """A domain."""
        return self.by_id[id]


@dataclasses.dataclass(frozen=True)
class ISourceInfo:
    """Where an instruction comes from."""

    place: tuple[str, int]

    def file_name(self) -> str:
        """The source file."""
        return self.place[0]

    def line(self) -> int:
        """Its line."""
        return self.place[1]


@dataclasses.dataclass(frozen=True)
class IAction:
    """A profiled kernel, or another workload."""

    metrics: dict[str, IMetric]
    names: tuple[str, str, str] = ("k", "void ns::k(int)", "_ZN2ns1kEi")
    state: INvtxState | None = None
    rules: tuple[dict[str, Any], ...] = ()
    kind: int = 0
    sass: tuple[tuple[int, str], ...] = ()

    NameBase_FUNCTION = 0
    NameBase_DEMANGLED = 1
    NameBase_MANGLED = 2
    WorkloadType_KERNEL = 0
    WorkloadType_RANGE = 1

    def name(self, name_base: int = 0) -> str:
        """The name in one of its forms."""
        return self.names[name_base]

    def metric_names(self) -> tuple[str, ...]:
        """Names of all metrics."""
        return tuple(self.metrics)

    def metric_by_name(self, name: str) -> IMetric:
        """A metric."""
        return self.metrics[name]

    def nvtx_state(self) -> INvtxState | None:
        """NVTX ranges around the launch."""
        return self.state

    def rule_results_as_dicts(self) -> list[dict[str, Any]]:
        """What the rules said."""
        return list(self.rules)

    def sass_by_pc(self, address: int) -> str:
        """The instruction at an address; '' where there is none."""
        return dict(self.sass).get(address, "")

    def source_info(self, address: int) -> ISourceInfo | None:
        """The source line of an instruction."""
        return ISourceInfo(("gemm.cu", 12)) if address % 32 == 0 else None

    def workload_type(self) -> int:
        """Kernel, range, graph, …."""
        return self.kind


@dataclasses.dataclass(frozen=True)
class IRange:
    """Workloads of a stream."""

    actions: tuple[IAction, ...]

    def num_actions(self) -> int:
        """Number of workloads."""
        return len(self.actions)

    def action_by_idx(self, idx: int) -> IAction:
        """A workload."""
        return self.actions[idx]


@dataclasses.dataclass(frozen=True)
class IContext:
    """A loaded report."""

    ranges: tuple[IRange, ...]

    def num_ranges(self) -> int:
        """Number of ranges."""
        return len(self.ranges)

    def range_by_idx(self, idx: int) -> IRange:
        """A range."""
        return self.ranges[idx]
