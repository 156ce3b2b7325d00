"""The JSON of rocprofv3 as typed records; what is not named here is skipped while decoding.

Source: rocprofiler-sdk, source/lib/output/generateJSON.cpp and source/include/rocprofiler-sdk/cxx/serialization.hpp.
"""

from __future__ import annotations

from typing import Any

import msgspec


class Handle(msgspec.Struct):
    """An id in an object of its own."""

    handle: int = 0


class Extent(msgspec.Struct):
    """Sizes along three axes."""

    x: int | None = None
    y: int | None = None
    z: int | None = None


class Correlation(msgspec.Struct):
    """`internal` ties an activity to its call; `external` is what roctx pushed."""

    internal: int | None = None
    external: Any = None


class DispatchInfo(msgspec.Struct):
    """What was launched where. Sizes of the grid count work-items."""

    agent_id: Handle = msgspec.field(default_factory=Handle)
    queue_id: Handle = msgspec.field(default_factory=Handle)
    kernel_id: int = 0
    dispatch_id: int | None = None
    private_segment_size: int | None = None
    group_segment_size: int | None = None
    workgroup_size: Extent = msgspec.field(default_factory=Extent)
    grid_size: Extent = msgspec.field(default_factory=Extent)


class Dispatch(msgspec.Struct):
    """A launch of a kernel."""

    start_timestamp: int | None = None
    end_timestamp: int | None = None
    thread_id: int | None = None
    correlation_id: Correlation = msgspec.field(default_factory=Correlation)
    dispatch_info: DispatchInfo = msgspec.field(default_factory=DispatchInfo)
    stream_id: Handle | None = None


class Call(msgspec.Struct):
    """A call of an API. Numbers are explained by `Strings.buffer_records`."""

    kind: int = -1
    operation: int = -1
    start_timestamp: int | None = None
    end_timestamp: int | None = None
    thread_id: int | None = None
    correlation_id: Correlation = msgspec.field(default_factory=Correlation)


class Copy(Call):
    """A copy between agents."""

    dst_agent_id: Handle = msgspec.field(default_factory=Handle)
    src_agent_id: Handle = msgspec.field(default_factory=Handle)
    bytes: int | None = None
    stream_id: Handle | None = None


class Allocation(Call):
    """An allocation or a release."""

    agent_id: Handle = msgspec.field(default_factory=Handle)
    address: Any = None
    allocation_size: int | None = None


class Value(msgspec.Struct):
    """One value of a counter."""

    counter_id: Handle = msgspec.field(default_factory=Handle)
    value: float | None = None


class Counted(msgspec.Struct):
    """The counters of a launch."""

    dispatch_data: Dispatch = msgspec.field(default_factory=Dispatch)
    records: list[Value] = []
    thread_id: int | None = None


class Symbol(msgspec.Struct):
    """A kernel in a code object."""

    kernel_id: int = 0
    code_object_id: int | None = None
    kernel_name: str | None = None
    formatted_kernel_name: str | None = None
    demangled_kernel_name: str | None = None
    kernarg_segment_size: int | None = None
    group_segment_size: int | None = None
    private_segment_size: int | None = None
    sgpr_count: int | None = None
    arch_vgpr_count: int | None = None
    accum_vgpr_count: int | None = None


class Names(msgspec.Struct):
    """A kind of record and the names of its operations, by number."""

    kind: str = ""
    operations: list[str] = []


class Text(msgspec.Struct):
    """A text by number."""

    key: int = 0
    value: str = ""


class External(msgspec.Struct):
    """Texts of roctx ranges by external correlation id, with `--kernel-rename`."""

    external: list[Text] = []


class Strings(msgspec.Struct):
    """Names behind the numbers."""

    buffer_records: list[Names] = []
    marker_api: list[Text] = []
    correlation_id: External = msgspec.field(default_factory=External)


class Counter(msgspec.Struct):
    """A counter."""

    id: Handle = msgspec.field(default_factory=Handle)
    name: str = ""
    is_derived: Any = None


class Buffered(msgspec.Struct):
    """Records of asynchronous activity and of calls."""

    kernel_dispatch: list[Dispatch] = []
    hip_api: list[Call] = []
    hsa_api: list[Call] = []
    marker_api: list[Call] = []
    rccl_api: list[Call] = []
    rocdecode_api: list[Call] = []
    rocjpeg_api: list[Call] = []
    ompt: list[Call] = []
    memory_copy: list[Copy] = []
    memory_allocation: list[Allocation] = []
    scratch_memory: list[Allocation] = []
    pc_sample_host_trap: list[msgspec.Raw] = []
    pc_sample_stochastic: list[msgspec.Raw] = []


class CalledBack(msgspec.Struct):
    """Records of counter collection."""

    counter_collection: list[Counted] = []


class Metadata(msgspec.Struct):
    """The process. `command` and `node` are kept only on request."""

    pid: int | None = None
    node: Any = None
    command: Any = None
    fini_time: int | None = None


class Process(msgspec.Struct):
    """Everything recorded of one process."""

    metadata: Metadata = msgspec.field(default_factory=Metadata)
    agents: list[dict[str, Any]] = []
    counters: list[Counter] = []
    strings: Strings = msgspec.field(default_factory=Strings)
    kernel_symbols: list[Symbol] = []
    buffer_records: Buffered = msgspec.field(default_factory=Buffered)
    callback_records: CalledBack = msgspec.field(default_factory=CalledBack)


class Sections(msgspec.Struct):
    """The same file by the names of its parts, for what `Document` skips."""

    tool: list[dict[str, msgspec.Raw]] = msgspec.field(default_factory=list, name="rocprofiler-sdk-tool")


class Document(msgspec.Struct):
    """The file: one entry per process."""

    tool: list[Process] = msgspec.field(default_factory=list, name="rocprofiler-sdk-tool")
