"""Launches of ncu as rows of `launches` and `devices`."""

from __future__ import annotations

import dataclasses
import json
import re
from collections.abc import Iterable, Mapping
from typing import Any, Final

import polars as pl

from kerneldb.ingest.columns import Schema, frame_of, schema
from kerneldb.ingest.digits import whole
from kerneldb.ingest.ncu.kernels import ROUNDING, Kernel, Key, Measure, phase_of
from kerneldb.ingest.output import Report
from kerneldb.times import whole_ns

SHAPE: Final = re.compile(r"\(\s*(\d+),\s*(\d+),\s*(\d+)\s*\)")
DURATION: Final = "gpu__time_duration.sum"
WHOLE: Final[Mapping[str, str]] = {
    "launch__registers_per_thread": "registers",
    "launch__shared_mem_per_block_static": "static_shared_bytes",
    "launch__shared_mem_per_block_dynamic": "dynamic_shared_bytes",
    "launch__grid_size": "total_blocks",
    "launch__block_size": "threads_per_block",
    **{f"launch__{shape}_dim_{axis}": f"{shape}_{axis}" for shape in ("grid", "block") for axis in "xyz"},
}
SHARES: Final[Mapping[str, str]] = {
    "sm__warps_active.avg.pct_of_peak_sustained_active": "occupancy",
    "sm__maximum_warps_per_active_cycle_pct": "theoretical_occupancy",
}
EXACT: Final = 0.5
AXES: Final = ("grid_x", "grid_y", "grid_z", "block_x", "block_y", "block_z")
SCHEMA: Final[Schema] = {
    **schema("launch_index kind timing launch_status name process device context stream correlation_id duration_ns"),
    **dict.fromkeys((*AXES, "total_blocks", "threads_per_block"), pl.Int64),
    **schema("registers static_shared_bytes dynamic_shared_bytes shared_bytes occupancy theoretical_occupancy"),
    **schema("phase range_path quality"),
}
DEVICES: Final = schema(
    "process device vendor name arch multiprocessors memory_bytes warp_size max_threads_per_multiprocessor "
    "registers_per_multiprocessor shared_bytes_per_multiprocessor shared_bytes_per_block_optin clock_mhz "
    "memory_clock_mhz properties"
)


@dataclasses.dataclass(slots=True)
class Launch:
    """What all pages say of a launch. `shared_rounded`: shared memory is printed coarser than a byte."""

    key: Key
    row: dict[str, Any]
    shared_rounded: bool = False


def launch_of(kernel: Kernel, index: int) -> Launch:
    """A launch from the first columns of a page."""
    cells = kernel.identity
    path = kernel.ranges
    row = {
        "launch_index": index,
        "kind": "kernel",
        "timing": "profiled",
        "launch_status": "no_launch",
        "name": kernel.name,
        "process": cells.get("Process ID") or None,
        "device": _integer(cells.get("Device")),
        "context": _integer(cells.get("Context")),
        "stream": _integer(cells.get("Stream")),
        "correlation_id": _integer(cells.get("ID")),
        "phase": phase_of(path),
        "range_path": "/".join(path) or None,
    }
    for side in ("grid", "block"):
        found = SHAPE.fullmatch(cells.get(f"{side.capitalize()} Size") or "")
        row |= {f"{side}_{axis}": whole(found[place]) if found else None for place, axis in enumerate("xyz", 1)}
    return Launch(kernel.key, row)


class ContradictionError(ValueError):
    """Two pages say of one launch what cannot both be; the text says what."""


def join(launch: Launch, kernel: Kernel, found: Iterable[Measure]) -> None:
    """Add what a page says to a launch. Raises ContradictionError where page and launch cannot be the same one.

    Processes of two sessions may have the same number, as in containers; then their launches are numbered alike, too.
    """
    other = launch_of(kernel, launch.row["launch_index"]).row
    for name in (*AXES, "device"):
        if launch.row[name] is not None and other[name] is not None and launch.row[name] != other[name]:
            message = f"launch {kernel.key[1]} has {name} {launch.row[name]} on one page and {other[name]} on another"
            raise ContradictionError(message)
    launch.row |= {name: value for name, value in other.items() if launch.row.get(name) is None and value is not None}
    for one in found:
        if one.instance is None and one.value is not None:
            _fact(launch, one.metric, one.value, one.precision or 0.0, one.unit)


def _fact(launch: Launch, metric: str, value: float, precision: float, unit: str | None) -> None:
    row = launch.row
    if metric == DURATION:
        before, slack = row.get("duration_ns"), precision + row.get("duration_precision", 0.0)
        if before is not None and abs(before - value) > slack * (1 + ROUNDING) + EXACT:
            message = f"launch {launch.key[1]} takes {before} ns on one page and {whole_ns(value)} ns on another"
            raise ContradictionError(message)
        # The finest print of the duration counts, whatever page or section it is on; one of unknown unit says nothing.
        if unit == "ns" and precision < row.get("duration_precision", float("inf")):
            row |= {"duration_ns": whole_ns(value), "duration_precision": precision}
    elif metric in SHARES:
        row[SHARES[metric]] = value / 100
    elif metric in WHOLE and row.get(WHOLE[metric]) is None:
        if precision <= EXACT and value.is_integer():
            row[WHOLE[metric]] = int(value)
        elif "shared" in metric:
            launch.shared_rounded = True


def frame(launches: Iterable[Launch], report: Report | None = None) -> pl.DataFrame:
    """Rows of `launches` with `name` in place of a signature. Shared memory that is rounded is left out, and marked."""
    rows = []
    for one in launches:
        row = one.row
        parts = (row.get("static_shared_bytes"), row.get("dynamic_shared_bytes"))
        row["shared_bytes"] = None if None in parts else sum(part or 0 for part in parts)
        row["quality"] = "shared memory rounded" if one.shared_rounded and row["shared_bytes"] is None else None
        rows.append({name: row.get(name) for name in SCHEMA})
    return frame_of(rows, SCHEMA, report)


def device_row(kernel: Kernel, attributes: dict[str, Any]) -> dict[str, Any]:
    """A row of `devices`, from the columns Device and CC and from the attributes on a raw page."""
    major, minor = attributes.get("compute_capability_major"), attributes.get("compute_capability_minor")
    capability = kernel.identity.get("CC") or (f"{major}.{minor}" if major is not None else "")
    numbers = {name: value for name, value in attributes.items() if not isinstance(value, str)}
    clocks = {name: numbers.get(f"{name}_rate") for name in ("clock", "memory_clock")}  # in kHz
    return {
        "process": kernel.identity.get("Process ID") or None,
        "device": _integer(kernel.identity.get("Device")) or 0,
        "vendor": "nvidia",
        "name": str(attributes["display_name"]) if "display_name" in attributes else None,
        "arch": f"sm_{capability.replace('.', '')}" if re.fullmatch(r"\d+\.\d+", capability) else None,
        "multiprocessors": numbers.get("multiprocessor_count"),
        "memory_bytes": numbers.get("total_memory"),
        "warp_size": numbers.get("warp_size"),
        "max_threads_per_multiprocessor": numbers.get("max_threads_per_multiprocessor"),
        "registers_per_multiprocessor": numbers.get("max_registers_per_multiprocessor"),
        "shared_bytes_per_multiprocessor": numbers.get("max_shared_memory_per_multiprocessor"),
        "shared_bytes_per_block_optin": numbers.get("max_shared_memory_per_block_optin"),
        **{f"{name}_mhz": None if rate is None else rate / 1000 for name, rate in clocks.items()},
        "properties": json.dumps(attributes) if attributes else None,
    }


def _integer(text: str | None) -> int | None:
    """Ids are printed plainly, also in locales that group digits; other text is no id."""
    return whole(text)
