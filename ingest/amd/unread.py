"""Parts of AMD's files that are not read, by ledgers: tables of databases, columns of CSV files, sections of JSON."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from typing import Final

from kerneldb.ingest.ledger import Ledger
from kerneldb.ingest.output import Report
from kerneldb.ingest.sqlite import Database

READ: Final = "read"
CODE: Final = "places in the code of kernels (not supported)"
ROCPD: Final = Ledger(
    "table",
    [
        *("rocpd_metadata", "rocpd_string", "rocpd_track", "rocpd_event", "rocpd_pmc_event", "rocpd_region"),
        *("rocpd_sample", "rocpd_kernel_dispatch", "rocpd_memory_copy", "rocpd_memory_allocate", "rocpd_arg"),
        *(f"rocpd_info_{name}" for name in ("agent", "category", "code_object", "kernel_symbol", "node", "pmc")),
        *(f"rocpd_info_{name}" for name in ("process", "queue", "stream", "thread")),
    ],
    {
        "rocpd_graph_launch": "launches of whole graphs: their kernels are stored with the number of the graph",
        "rocpd_hip_event": "events of the HIP runtime (not supported)",
        "rocpd_info_(address_range|source_code|pc)|rocpd_(line_info|call_stack)|rocpd_.*pc_sampling.*": CODE,
    },
)
"""Tables of schemas 3.0 to 4.1. Arguments of calls are counted where calls are read; names of streams repeat their
numbers."""
RPD: Final = Ledger(
    "table",
    [
        *("rocpd_op", "rocpd_api", "rocpd_api_ops", "rocpd_string", "rocpd_ustring", "rocpd_metadata"),
        *("rocpd_kernelapi", "rocpd_copyapi", "rocpd_monitor"),
    ],
    {
        "rocpd_stackframe|ext_callstack": "call stacks of the host (not supported)",
        "rocpd_counter|rocpd_monitorType": "counters over time (not supported)",
        "rocpd_copyop": "sizes of copies, which the calls say",
        "rocpd_graphLaunchapi": "launches of whole graphs: their kernels are stored",
        "rocpd_hsaApi": "calls of HSA (not supported); those of HIP are read",
        "rocpd_kernelcodeobject": "counts of registers without a kernel that has them",
        "rocpd_barrierop|rocpd_op_inputSignals": "signals between queues (not supported)",
        "ext_.*": "results of a tool that ran over the trace",
    },
)
"""Tables of schemas 2 and 3, and those that tools of rocmProfileData add."""
ROCPROF: Final = Ledger(
    "table",
    ["OPS", "COPY", "HIP", "HSA", "KFD", "rocTX"],
    {"KERN|rocTX.*": "names, which the rows of activities repeat", "T": "times of the whole run"},
)
SECTIONS: Final = Ledger(
    "section",
    [
        *("metadata", "agents", "counters", "strings", "kernel_symbols", "buffer_records", "callback_records"),
        *(f"buffer_records.{kind}_api" for kind in ("hip", "hsa", "marker", "rccl", "rocdecode", "rocjpeg")),
        *(f"buffer_records.{kind}" for kind in ("kernel_dispatch", "memory_copy", "memory_allocation", "ompt")),
        *(f"buffer_records.{kind}" for kind in ("scratch_memory", "pc_sample_host_trap", "pc_sample_stochastic")),
        "callback_records.counter_collection",
    ],
    {
        "code_objects": "code objects: their kernels are in kernel_symbols",
        "host_functions": "addresses of functions of the host",
        "summary": "sums over the records",
        "(buffer|callback)_records.names": "names, which `strings` repeats",
    },
)
"""Of the JSON of rocprofv3; samples of the program counter are counted where records are read."""

KEYS: Final = Ledger(
    "key",
    (),
    {
        r"\w+\.(start_timestamp|end_timestamp|thread_id|correlation_id|kind|operation)": READ,
        r"kernel_dispatch\.(dispatch_info|stream_id)|counter_collection\.(dispatch_data|records)": READ,
        r"kernel_dispatch\.dispatch_info\.((agent|queue|kernel|dispatch)_id|(workgroup|grid)_size)": READ,
        r"kernel_dispatch\.dispatch_info\.(private|group)_segment_size": READ,
        r"memory_copy\.((dst|src)_agent_id|bytes|stream_id)": READ,
        r"(memory_allocation|scratch_memory)\.(agent_id|address|allocation_size)": READ,
        r".*\.size": "of the record in the memory of the profiler",
        r"memory_copy\.(dst|src)_address|scratch_memory\.(queue_id|flags|args_kind)": "no column has it yet",
        r"memory_allocation\.stream_id|scratch_memory\.dispatch_id": "no column has it yet",
        r"counter_collection\.(arch_vgpr_count|accum_vgpr_count|sgpr_count|lds_block_size_v)": "of the symbol",
        r"\w+_api\.(args|retval)|(hip|hsa)_api\.\w*stream_id|hip_api\.process_id": "arguments of calls",
        r"ompt\..*": "numbers of OpenMP's own",
    },
    outcome="unread",
)
"""Of the records in that JSON."""


def account_tables(
    ledger: Ledger, database: Database, report: Report, base: Callable[[str], str] = lambda name: name
) -> int:
    """Count the rows of tables that are not read, by `base` of their names; returns how many there are."""
    views = database.views()
    found: Counter[str] = Counter()
    for name in database.tables():
        if name not in views and ledger.reason(base(name)) is not None:
            found[base(name)] += database.count(name)
    ledger.account(found, report)
    return found.total()
