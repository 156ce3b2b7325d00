"""The same run in other formats: CSV and JSON of rocprofv3, written from a rocpd file with its base tables.

Headers are those of rocprofiler-sdk's generateCSV.cpp and of its rocpd module, keys those of generateJSON.cpp.
"""

from __future__ import annotations

import contextlib
import csv
import json
import sqlite3
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

KERNEL_TRACE = [
    *("Kind", "Agent_Id", "Queue_Id", "Stream_Id", "Thread_Id", "Dispatch_Id", "Kernel_Id", "Kernel_Name"),
    *("Correlation_Id", "Start_Timestamp", "End_Timestamp", "LDS_Block_Size", "Scratch_Size", "VGPR_Count"),
    *("Accum_VGPR_Count", "SGPR_Count", "Workgroup_Size_X", "Workgroup_Size_Y", "Workgroup_Size_Z"),
    *("Grid_Size_X", "Grid_Size_Y", "Grid_Size_Z"),
]
TIMES = ["Correlation_Id", "Start_Timestamp", "End_Timestamp"]
API_TRACE = ["Domain", "Function", "Process_Id", "Thread_Id", *TIMES]
COPY_TRACE = ["Kind", "Direction", "Stream_Id", "Source_Agent_Id", "Destination_Agent_Id", *TIMES]
LDS_STEP = 512


class Rocpd:
    """A rocpd file, read the plain way: base tables through the views without suffix."""

    def __init__(self, path: Path) -> None:
        with contextlib.closing(sqlite3.connect(f"file:{path}?mode=ro", uri=True)) as connection:
            connection.row_factory = sqlite3.Row
            self._tables = {name: self._rows(connection, name) for name in NEEDED}
        self.strings = {row["id"]: row["string"] for row in self._tables["rocpd_string"]}
        self.events = {row["id"]: row for row in self._tables["rocpd_event"]}
        self.symbols = {row["id"]: row for row in self._tables["rocpd_info_kernel_symbol"]}
        self.agents = {row["id"]: row for row in self._tables["rocpd_info_agent"]}

    def rows(self, table: str) -> list[dict[str, Any]]:
        """All rows of a base table."""
        return self._tables[table]

    def regions(self, markers: bool) -> Iterator[tuple[str, str, dict[str, Any], dict[str, Any]]]:
        """(category, name, region, event) of roctx ranges, or of all other regions."""
        for region in self.rows("rocpd_region"):
            event = self.events[region["event_id"]]
            category = self.strings[event["category_id"]]
            if category.startswith("MARKER") == markers:
                yield category, self.strings[region["name_id"]], region, event

    @staticmethod
    def _rows(connection: sqlite3.Connection, table: str) -> list[dict[str, Any]]:
        return [dict(row) for row in connection.execute(f'SELECT * FROM "{table}" ORDER BY id')]


NEEDED = (
    "rocpd_string",
    "rocpd_event",
    "rocpd_region",
    "rocpd_kernel_dispatch",
    "rocpd_memory_copy",
    "rocpd_info_kernel_symbol",
    "rocpd_info_agent",
    "rocpd_info_process",
)


def write_csv(
    database: Path, folder: Path, prefix: str, agent_info: bool = True, rocpd_style: bool = False
) -> list[Path]:
    """The CSV files of a run. `rocpd_style`: as `rocpd convert -f csv` writes them, quoted and with the exact LDS."""
    it = Rocpd(database)
    guid = ["Guid"] if rocpd_style else []
    kernels = [*guid, *(KERNEL_TRACE if not rocpd_style else [name.replace("LDS_", "Lds_") for name in KERNEL_TRACE])]
    files = {
        "kernel_trace": (kernels, [_kernel(it, row, rocpd_style) for row in it.rows("rocpd_kernel_dispatch")]),
        "hip_api_trace": ([*guid, *API_TRACE], list(_api(it, rocpd_style))),
        "marker_api_trace": ([*guid, *API_TRACE], list(_markers(it, rocpd_style))),
        "memory_copy_trace": (
            [*guid, *COPY_TRACE],
            [_copy(it, row, rocpd_style) for row in it.rows("rocpd_memory_copy")],
        ),
    }
    if agent_info:
        files["agent_info"] = _agent_info(it)
    quoting = csv.QUOTE_ALL if rocpd_style else csv.QUOTE_NONNUMERIC
    paths = []
    for name, (header, rows) in files.items():
        if rows:
            paths.append(folder / f"{prefix}_{name}.csv")
            with paths[-1].open("w", newline="", encoding="utf-8") as file:
                writer = csv.writer(file, quoting=quoting, lineterminator="\n")
                writer.writerow(header)
                writer.writerows(rows)
    return paths


def _guid(row: Mapping[str, Any], rocpd_style: bool) -> list[Any]:
    return [row["guid"]] if rocpd_style else []


def _kernel(it: Rocpd, row: Mapping[str, Any], rocpd_style: bool) -> list[Any]:
    symbol = it.symbols.get(row["kernel_id"])
    static = symbol["group_segment_size"] if symbol else 0
    lds = row["group_segment_size"] if rocpd_style else -(-static // LDS_STEP) * LDS_STEP
    registers = [symbol[name] if symbol else "" for name in ("arch_vgpr_count", "accum_vgpr_count", "sgpr_count")]
    sizes = [row[f"{side}_size_{axis}"] for side in ("workgroup", "grid") for axis in "xyz"]
    name = symbol["display_name"] if symbol else "unknown_kernel"
    stack = it.events[row["event_id"]]["stack_id"]
    agent = f"Agent {row['agent_id']}"
    where = ["KERNEL_DISPATCH", agent, row["queue_id"], row["stream_id"], row["tid"], row["dispatch_id"]]
    facts = [row["kernel_id"], name, stack, row["start"], row["end"], lds, row["private_segment_size"]]
    return [*_guid(row, rocpd_style), *where, *facts, *registers, *sizes]


def _api(it: Rocpd, rocpd_style: bool) -> Iterator[list[Any]]:
    for category, name, row, event in it.regions(markers=False):
        place = [row["pid"], row["tid"], event["stack_id"], row["start"], row["end"]]
        yield [*_guid(row, rocpd_style), category, name, *place]


def _markers(it: Rocpd, rocpd_style: bool) -> Iterator[list[Any]]:
    for category, name, row, event in it.regions(markers=True):
        thread = 0 if name.startswith("roctxProcess") else row["tid"]
        text = json.loads(event["extdata"])["message"]
        yield [
            *_guid(row, rocpd_style),
            category,
            text,
            row["pid"],
            thread,
            event["stack_id"],
            row["start"],
            row["end"],
        ]


def _copy(it: Rocpd, row: Mapping[str, Any], rocpd_style: bool) -> list[Any]:
    ends = [f"Agent {row['src_agent_id']}", f"Agent {row['dst_agent_id']}"]
    stack = it.events[row["event_id"]]["stack_id"]
    facts = [it.strings[row["name_id"]], row["stream_id"], *ends, stack, row["start"], row["end"]]
    return [*_guid(row, rocpd_style), "MEMORY_COPY", *facts]


def _agent_info(it: Rocpd) -> tuple[list[str], list[list[Any]]]:
    header = ["Node_Id", "Logical_Node_Id", "Agent_Type", "Cpu_Cores_Count", "Simd_Count", "Cu_Count"]
    header += ["Wave_Front_Size", "Name", "Vendor_Name", "Product_Name", "Model_Name"]
    rows = []
    for number, row in it.agents.items():
        facts = json.loads(row["extdata"])
        counts = [facts.get(name, 0) for name in ("cpu_cores_count", "simd_count", "cu_count", "wave_front_size")]
        names = [row["name"], row["vendor_name"] or "", row["product_name"] or "", row["model_name"] or ""]
        rows.append([number, number, row["type"], *counts, *names])
    return header, rows


KINDS = ("NONE", "HIP_RUNTIME_API_EXT", "HIP_COMPILER_API_EXT", "MARKER_CORE_RANGE_API", "MEMORY_COPY")


class _Names:
    """Kinds and operations by number, as `strings.buffer_records` lists them."""

    def __init__(self) -> None:
        self.operations: dict[str, list[str]] = {kind: [] for kind in KINDS}

    def numbers(self, kind: str, operation: str) -> dict[str, int]:
        known = self.operations[kind]
        if operation not in known:
            known.append(operation)
        return {"kind": KINDS.index(kind), "operation": known.index(operation)}

    def listed(self) -> list[dict[str, Any]]:
        return [{"kind": kind, "operations": found} for kind, found in self.operations.items()]


def write_json(database: Path, path: Path, keep: Sequence[str] = ()) -> Path:
    """The JSON of a run, with a counter of each launch in `keep` (kernel names)."""
    it, names = Rocpd(database), _Names()
    kernels = [_dispatch(it, row) for row in it.rows("rocpd_kernel_dispatch")]
    calls = [_call(row, event, names.numbers(kind, name)) for kind, name, row, event in it.regions(markers=False)]
    marks = [_call(row, event, names.numbers(kind, name)) for kind, name, row, event in it.regions(markers=True)]
    texts = [
        {"key": event["stack_id"], "value": json.loads(event["extdata"])["message"]}
        for _, _, _, event in it.regions(markers=True)
    ]
    copies = [_copied(it, row, names) for row in it.rows("rocpd_memory_copy")]
    process = it.rows("rocpd_info_process")[0]
    document = {
        "metadata": {"pid": process["pid"], "command": process["command"], "node": {"hostname": "strix-halo"}},
        "agents": [_agent(number, row) for number, row in it.agents.items()],
        "counters": [{"id": {"handle": 77}, "name": "SQ_WAVES", "is_derived": 0}],
        "strings": {"buffer_records": names.listed(), "marker_api": texts, "correlation_id": {"external": []}},
        "code_objects": [],
        "kernel_symbols": [_symbol(row) for row in it.symbols.values()],
        "buffer_records": {
            "kernel_dispatch": kernels,
            "hip_api": calls,
            "marker_api": marks,
            "memory_copy": copies,
            "future_records": [{"unknown": True}],
        },
        "callback_records": {
            "counter_collection": [_counted(kernel) for kernel in kernels if _named(it, kernel, keep)]
        },
    }
    path.write_text(json.dumps({"rocprofiler-sdk-tool": [document]}), encoding="utf-8")
    return path


def _handle(number: int) -> dict[str, int]:
    return {"handle": 1000 + number}


def _agent(number: int, row: Mapping[str, Any]) -> dict[str, Any]:
    kind = 2 if row["type"] == "GPU" else 1
    numbers = {"node_id": number, "logical_node_id": number, "logical_node_type_id": row["type_index"]}
    facts = json.loads(row["extdata"])
    return {
        **facts,
        "id": _handle(number),
        "type": kind,
        "name": row["name"],
        "product_name": row["product_name"],
        **numbers,
    }


def _symbol(row: Mapping[str, Any]) -> dict[str, Any]:
    sizes = ("group_segment_size", "private_segment_size", "sgpr_count", "arch_vgpr_count", "accum_vgpr_count")
    names = {"kernel_name": row["kernel_name"], "formatted_kernel_name": row["display_name"]}
    return {
        "kernel_id": row["id"],
        "code_object_id": row["code_object_id"],
        **names,
        **{size: row[size] for size in sizes},
    }


def _dispatch(it: Rocpd, row: Mapping[str, Any]) -> dict[str, Any]:
    event = it.events[row["event_id"]]
    sizes = {f"{side}_size": {axis: row[f"{side}_size_{axis}"] for axis in "xyz"} for side in ("workgroup", "grid")}
    info = {
        "agent_id": _handle(row["agent_id"]),
        "queue_id": {"handle": row["queue_id"]},
        "kernel_id": row["kernel_id"],
        "dispatch_id": row["dispatch_id"],
        "private_segment_size": row["private_segment_size"],
        "group_segment_size": row["group_segment_size"],
        **sizes,
    }
    return {**_timed(row, event), "dispatch_info": info, "stream_id": {"handle": row["stream_id"]}}


def _timed(row: Mapping[str, Any], event: Mapping[str, Any]) -> dict[str, Any]:
    correlation = {"internal": event["stack_id"], "external": event["correlation_id"]}
    times = {"start_timestamp": row["start"], "end_timestamp": row["end"]}
    return {"size": 80, "thread_id": row["tid"], "correlation_id": correlation, **times}


def _call(row: Mapping[str, Any], event: Mapping[str, Any], numbers: Mapping[str, int]) -> dict[str, Any]:
    return {**_timed(row, event), **numbers}


def _copied(it: Rocpd, row: Mapping[str, Any], names: _Names) -> dict[str, Any]:
    numbers = names.numbers("MEMORY_COPY", it.strings[row["name_id"]])
    ends = {"dst_agent_id": _handle(row["dst_agent_id"]), "src_agent_id": _handle(row["src_agent_id"])}
    stream = {"stream_id": {"handle": row["stream_id"]}, "bytes": row["size"]}
    return {**_timed(row, it.events[row["event_id"]]), **numbers, **ends, **stream}


def _counted(kernel: Mapping[str, Any]) -> dict[str, Any]:
    values = [{"counter_id": {"handle": 77}, "value": float(256 + number)} for number in range(4)]
    return {"thread_id": kernel["thread_id"], "dispatch_data": dict(kernel), "records": values}


def _named(it: Rocpd, kernel: Mapping[str, Any], names: Sequence[str]) -> bool:
    symbol = it.symbols.get(kernel["dispatch_info"]["kernel_id"])
    return symbol is not None and symbol["display_name"] in names
