"""Make a large synthetic warehouse: python benchmarks/generate_warehouse.py /tmp/big.duckdb --traces 100.

The rows are made by SQL `range()` in the tables of the real schema, and rolled up by the statement that ingest uses.
The same arguments give the same rows: 900 kernel names (about 160 characters), 6,000 signatures, steps that repeat with
jitter, two streams of which one communicates, and a wait of the host after every hundred launches.
"""

from __future__ import annotations

import argparse
import time
from pathlib import Path
from typing import TYPE_CHECKING

from kerneldb.schemas.loader import statement
from kerneldb.warehouse import Warehouse
from kerneldb.warehouse.commit import bin_up
from kerneldb.warehouse.engine import transaction

if TYPE_CHECKING:
    import duckdb

TRACES = """
INSERT INTO traces BY NAME
SELECT
    md5('t' || i)[:16] AS trace_id, 'run-' || i AS name, 'job-' || (i // 8) AS run, 'timeline' AS kind,
    'pytorch' AS source, i % 8 AS rank, 8 AS world_size, $launches AS launches, 0 AS window_start_ns
FROM range($traces) AS r(i)
"""

DEVICES = """
INSERT INTO devices BY NAME
SELECT trace_id, 0 AS device, 'nvidia' AS vendor, 'NVIDIA H100 80GB HBM3' AS name, 'sm_90' AS arch, 'H100 SXM' AS gpu
FROM traces
"""

NAMES = """
INSERT INTO kernel_names BY NAME
SELECT
    md5('n' || i)[:16] AS name_id,
    'void at::native::vectorized_elementwise_kernel<4, at::native::BinaryFunctor<c10::Half, c10::Half, c10::Half, '
    || 'at::native::binary_internal::MulFunctor<float>>, std::array<char*, 3ul>>(int, ...)_' || i AS name,
    'kernel_' || i AS short_name,
    'vectorized_elementwise_kernel_' || (i // 2) AS match_name,
    'kernel' AS kind,
    CASE
        WHEN i % 50 = 0 THEN 'COMMUNICATION'
        ELSE ['GEMM', 'ELEMENTWISE', 'REDUCTION', 'ATTENTION', 'NORMALIZATION', 'COPY', 'INDEXING', 'OTHER'][1 + i % 8]
    END AS category,
    'family_' || (i % 40) AS family,
    ['cuBLAS', 'PyTorch ATen', 'NCCL', 'Triton'][1 + i % 4] AS library,
    'operation_' || (i % 20) AS operation,
    'bf16' AS dtype,
    1 AS deriver_version
FROM range(900) AS r(i)
"""

SIGNATURES = """
INSERT INTO signatures BY NAME
SELECT
    md5('s' || i)[:16] AS signature_id, 'kernel' AS kind, md5('n' || (i % 900))[:16] AS name_id,
    1 + i % 132 AS grid_x, 1 AS grid_y, 1 AS grid_z, 128 AS block_x, 1 AS block_y, 1 AS block_z,
    md5('c' || i)[:16] AS call_id, 'aten::op_' || (i % 300) AS op,
    '[[' || (i % 64) || ', 4096], [' || i || ', 4096]]' AS input_dims, '[[4096, 1], [4096, 1]]' AS input_strides,
    '["c10::BFloat16", "c10::BFloat16"]' AS input_dtypes, 'call' AS level,
    (SELECT category FROM kernel_names WHERE name_id = md5('n' || (i % 900))[:16]) AS category, 'bf16' AS dtype,
    1 + i % 132 AS total_blocks,
    128 AS threads_per_block, md5('k' || (i % 900) || '.' || (i % 132))[:16] AS launch_key,
    CASE WHEN i % 3 > 0 THEN i * 1e6 END AS flops, CASE WHEN i % 3 > 0 THEN i * 1e3 END AS moved_bytes,
    2 AS deriver_version
FROM range(6000) AS r(i)
"""

LAUNCHES = """
INSERT INTO launches BY NAME
SELECT
    md5('t' || $trace)[:16] AS trace_id, j AS launch_index, 'kernel' AS kind, 'timeline' AS timing,
    md5('s' || (j % 6000))[:16] AS signature_id, 0 AS device, CASE WHEN j % 50 = 0 THEN 20 ELSE 7 END AS stream,
    j * 12000 AS start_ns, j * 12000 + duration_ns AS end_ns, duration_ns, j AS correlation_id, j AS api_index,
    'cudaLaunchKernel' AS api_call, 'linked' AS launch_status, 'correlation' AS link_method,
    j * 12000 - 9000 AS launch_start_ns, 4000 AS launch_duration_ns, j // 2 AS op_id, j // 5000 AS range_id,
    ['forward', 'backward', 'optimizer'][1 + j % 3] AS phase, 'ProfilerStep#' || (j // 5000) AS range_path,
    32 + (j % 6000) % 64 AS registers, (j % 7) * 16384 AS shared_bytes, 0.5 AS occupancy, '1' AS process
FROM (
    SELECT j, (800 + hash(j % 6000) % 10000 + hash(j * 7 + $trace) % 3000)::BIGINT AS duration_ns
    FROM range($launches) AS r(j)
)
ORDER BY start_ns
"""

API_CALLS = """
INSERT INTO api_calls BY NAME
SELECT
    md5('t' || $trace)[:16] AS trace_id, j AS api_index, 'cuda_runtime' AS kind, '1' AS process, '1' AS thread,
    CASE WHEN j < $launches THEN j // 2 END AS op_id,
    CASE WHEN j < $launches THEN 'cudaLaunchKernel' ELSE 'cudaStreamSynchronize' END AS name,
    CASE WHEN j < $launches THEN j * 12000 - 9000 ELSE (j - $launches) * 1200000 - 4000 END AS start_ns,
    CASE WHEN j < $launches THEN 4000 ELSE 3000 END AS duration_ns, CASE WHEN j < $launches THEN j END AS correlation_id
FROM range($launches + $launches // 100) AS r(j)
"""

OPS = """
INSERT INTO ops BY NAME
SELECT
    md5('t' || $trace)[:16] AS trace_id, j AS op_id, 'aten::op_' || (j % 300) AS name,
    md5('c' || j % 6000)[:16] AS call_id, '1' AS process, '1' AS thread,
    j * 24000 AS start_ns, 9000 AS duration_ns, 0 AS depth
FROM range($launches // 2) AS r(j)
ORDER BY start_ns
"""


def generate(path: Path, traces: int, launches: int) -> None:
    """Fill a new warehouse with `traces` traces of `launches` launches each."""
    warehouse = Warehouse.create_or_open(path)
    with warehouse.connection(read_only=False) as con:
        with transaction(con):
            con.execute(TRACES, {"traces": traces, "launches": launches})
            for sql in (DEVICES, NAMES, SIGNATURES):
                con.execute(sql)
        for trace in range(traces):
            add_trace(con, trace, launches)


def add_trace(con: duckdb.DuckDBPyConnection, trace: int, launches: int) -> None:
    """Add the launches, calls, operators and rollups of one trace, in one transaction, as ingest does."""
    with transaction(con):
        for sql in (LAUNCHES, API_CALLS, OPS):
            con.execute(sql, {"trace": trace, "launches": launches})
        (trace_id,) = con.execute("SELECT md5('t' || $trace)[:16]", {"trace": trace}).fetchone() or ("",)
        con.execute(statement("commit", "roll_up"), {"trace_id": trace_id})
        bin_up(con, trace_id)


def main() -> None:
    """Read the arguments and make the file."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("path", type=Path)
    parser.add_argument("--traces", type=int, default=100)
    parser.add_argument("--launches", type=int, default=100_000, help="per trace")
    arguments = parser.parse_args()
    if arguments.path.exists():
        parser.error(f"{arguments.path} exists")
    began = time.perf_counter()
    generate(arguments.path, arguments.traces, arguments.launches)
    size = arguments.path.stat().st_size / 1e6
    print(f"{arguments.path}: {size:,.0f} MB in {time.perf_counter() - began:.1f} s")


if __name__ == "__main__":
    main()
