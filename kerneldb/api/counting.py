"""Stores what counter profilers wrote of replayed calls: the kernels that are the ones that were replayed.

Each file becomes a trace of the kind `replay`, whose launches have the signatures of the recorded kernels: all that
reads counters by signature finds them there, with the GPU that they were read on. A kernel counts where it has the
name, grid, block and shared memory of the one that came out of the replay, and that one was graded L0 or L1.
"""

from __future__ import annotations

import dataclasses
import itertools
import json
import math
from typing import TYPE_CHECKING, Any, Final

from kerneldb import ingest
from kerneldb.api.ingestion import derived
from kerneldb.errors import TraceError
from kerneldb.files import spool_folder
from kerneldb.replay.routes import grades
from kerneldb.replay.wire.plan import PlannedKernel
from kerneldb.replay.wire.results import Activity, Grade

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence
    from pathlib import Path

    import polars as pl

    from kerneldb.batch import Manifest
    from kerneldb.replay.wire.journal import Journal
    from kerneldb.replay.wire.messages import Counters
    from kerneldb.replay.wire.plan import Item
    from kerneldb.replay.wire.results import CallResult
    from kerneldb.warehouse import Warehouse

LABEL: Final = "kerneldb "
"""What the NVTX range around a call is named, before the id of its item (`kerneldb.replay.worker.counting`)."""
NTH: Final = "#"
"""What is between that and the number of the call, where several of an item were profiled."""
NOTHING: Final = "the profiler printed no kernel of it"
OTHERS: Final = "under the profiler another kernel ran than in the replay"
SHAPES: Final = ("grid", "block")
UNUSED: Final = ("kernel_names", "signatures", "rollups", "ranges", "api_calls")
"""Tables of a manifest that a trace of counters does without: its launches have signatures that are there already."""


def keep(
    warehouse: Warehouse, items: Mapping[str, Item], found: Journal, folder: Path, batch: Counters
) -> dict[str, str | None]:
    """Store the counters of a batch of calls, from its files in `folder`; why a call has none (None: it has some).

    The rows of a file that is there already stay as they are.
    """
    reasons: dict[str, str | None] = dict(batch.refused)
    calls = {call.item: call for call in (*found.placed, *found.calls) if call.cache == found.run.cache}
    wanted = {name: _wanted(items[name], calls[name]) for name in batch.items if name in items and name in calls}
    reasons |= dict.fromkeys(wanted, NOTHING)
    for name in batch.files:
        try:
            with spool_folder(warehouse.path) as spool:
                for manifest in _converted(folder / name, spool, found.run.run_id):
                    graded, came = _graded(manifest, wanted, _facts(found, batch), found.run.gpu)
                    reasons |= came
                    if graded is not None:
                        warehouse.commit(graded)
        except (TraceError, OSError) as error:
            reasons |= dict.fromkeys(wanted, str(error).splitlines()[0])
    return reasons


def _converted(path: Path, spool: Path, run_id: str) -> Iterator[Manifest]:
    """What the readers make of a file, as a trace that is of a run of its own."""
    options = ingest.Options(name=f"counters-{run_id[:8]}", run=f"counters-{run_id}")
    for unit in ingest.plan([path]):
        yield from map(derived, ingest.convert(unit, spool, options))


def _facts(found: Journal, batch: Counters) -> dict[str, Any]:
    """What the trace says of where its counters come from."""
    told = {"replay_run": found.run.run_id, "tool": batch.tool, "options": list(batch.command)}
    return {**told, "cache": "in context" if found.steps else found.run.cache}


def _wanted(item: Item, call: CallResult) -> list[PlannedKernel]:
    """The kernels of a call as they came out of its replay, with the signatures of those that were recorded."""
    fitting = [one for one in call.kernels if one.replayed is not None and one.grade.rank <= Grade.L1.rank]
    if not fitting:  # on a CPU no kernel comes out
        return [kernel for kernel in item.kernels if kernel.kind == "kernel"]
    seen = [(one, one.replayed) for one in fitting if one.replayed is not None and one.replayed.kind == "kernel"]
    return [
        PlannedKernel(
            one.ordinal, one.signature_id, it.name, grid=it.grid, block=it.block, shared_bytes=it.shared_bytes
        )
        for one, it in seen
    ]


def _graded(
    manifest: Manifest, wanted: Mapping[str, Sequence[PlannedKernel]], facts: Mapping[str, Any], gpu: str | None
) -> tuple[Manifest | None, dict[str, str | None]]:
    """The trace with the launches that are replayed kernels, under their signatures; what came of each call."""
    import polars as pl

    launches = _read(manifest, "launches")
    signatures: dict[int, str] = {}
    reasons: dict[str, str | None] = {}
    for name, rows in _by_item(manifest, launches, wanted):
        matched = dict(_matched(wanted[name], rows))
        signatures |= matched
        reasons[name] = None if matched or reasons.get(name, OTHERS) is None else OTHERS
    if not signatures:
        return None, reasons
    ids = pl.DataFrame({"launch_index": list(signatures), "signature_id": list(signatures.values())})
    ids = ids.with_columns(pl.col("launch_index").cast(launches.schema["launch_index"]))
    kept = launches.drop("signature_id").join(ids, on="launch_index")
    kept = kept.with_columns(phase=pl.lit(None, dtype=pl.String), timing=pl.lit("profiled"))
    (trace,) = _read(manifest, "traces").to_dicts()
    told = {**json.loads(trace["metadata"] or "{}"), **facts}
    trace |= {"kind": "replay", "launches": kept.height, "metadata": json.dumps(told)}
    trace |= {"tool_version": str(facts["tool"]).partition(" ")[2] or trace.get("tool_version")}
    frames = {
        "launches": kept.sort("launch_index"),
        "metrics": _read(manifest, "metrics").filter(pl.col("launch_index").is_in(list(signatures))),
        "devices": _named(_read(manifest, "devices"), launches, gpu),
        "traces": pl.DataFrame([trace], infer_schema_length=None),
        "ingest_reports": _read(manifest, "ingest_reports"),
    }
    return _with(manifest, frames, launches.height - kept.height), reasons


def _with(manifest: Manifest, frames: dict[str, pl.DataFrame], others: int) -> Manifest:
    """`manifest` with these frames in place of its parts, and without the tables that are not used."""
    import polars as pl

    if others:
        note = {"trace_id": manifest.trace_id, "file_index": 0, "outcome": "skipped", "reason": OTHERS, "n": others}
        frames["ingest_reports"] = pl.concat([frames["ingest_reports"], pl.DataFrame([note])], how="diagonal_relaxed")
    parts = {table: paths for table, paths in manifest.parts.items() if table not in UNUSED}
    for table, frame in frames.items():
        if not frame.width:
            continue
        path = manifest.folder / f"{table}.graded.parquet"
        frame.write_parquet(path, compression="lz4", statistics=False)
        parts[table] = [path]
    rows = {**manifest.rows, **{table: frame.height for table, frame in frames.items()}}
    return dataclasses.replace(manifest, parts=parts, rows={table: rows[table] for table in parts if table in rows})


def _read(manifest: Manifest, table: str) -> pl.DataFrame:
    import polars as pl

    parts = manifest.parts.get(table, [])
    return pl.concat(map(pl.read_parquet, parts), how="diagonal_relaxed") if parts else pl.DataFrame()


def _named(devices: pl.DataFrame, launches: pl.DataFrame, gpu: str | None) -> pl.DataFrame:
    """Devices, with the GPU of the run as the name of the one that the profiler does not name, or does not list."""
    import polars as pl

    from kerneldb import derive

    used = [name for name in ("trace_id", "process", "device") if name in launches.columns]
    found = devices if devices.height else launches.select(used).unique()
    if found.height != 1 or gpu is None or ("name" in found.columns and found["name"].null_count() == 0):
        return devices
    return derive.derive_devices(found.with_columns(name=pl.lit(gpu)))


def _by_item(
    manifest: Manifest, launches: pl.DataFrame, wanted: Mapping[str, Sequence[PlannedKernel]]
) -> Iterator[tuple[str, list[tuple[int, Activity]]]]:
    """The launches of each call: by the range around it, else by their order where there are as many as in all."""
    named = _read(manifest, "signatures").join(_read(manifest, "kernel_names").select("name_id", "name"), on="name_id")
    joined = launches.join(named.drop("kind"), on="signature_id", how="left", suffix="_of_signature").sort(
        "launch_index"
    )
    rows = [(row["launch_index"], row.get("range_path") or "", _activity(row)) for row in joined.iter_rows(named=True)]
    if any(LABEL in path for _, path, _ in rows):
        for label, group in itertools.groupby(rows, key=lambda row: row[1].partition(LABEL)[2].partition("/")[0]):
            name = label.partition(NTH)[0]
            if name in wanted:
                yield name, [(index, one) for index, _, one in group]
        return
    if len(rows) == sum(map(len, wanted.values())):
        following = iter(rows)
        for name, kernels in wanted.items():
            yield name, [(index, one) for index, _, one in itertools.islice(following, len(kernels))]


def _activity(row: Mapping[str, Any]) -> Activity:
    """A launch as the replay sees its own; of profilers that print products, `grid` and `block` have one number."""
    shapes: dict[str, tuple[int, ...] | None] = {}
    for shape, total in zip(SHAPES, ("total_blocks", "threads_per_block"), strict=True):
        axes = tuple(row.get(f"{shape}_{axis}") for axis in "xyz")
        known = row.get(total)
        shapes[shape] = (None if known is None else (known,)) if None in axes else axes  # type: ignore[assignment]
    return Activity(
        row["kind"], row["name"], grid=shapes["grid"], block=shapes["block"], shared_bytes=row.get("shared_bytes")
    )


def _matched(kernels: Sequence[PlannedKernel], rows: Sequence[tuple[int, Activity]]) -> Iterator[tuple[int, str]]:
    """Launches that are these kernels, with their signatures."""
    seen = [one for _, one in rows]
    coarse = [shape for shape in SHAPES if any(len(getattr(one, shape) or ()) == 1 for one in seen)]
    planned = [dataclasses.replace(one, **_products(one, coarse)) for one in kernels]
    for match in grades.compare(planned, seen).kernels:
        if match.place is not None and match.seen is not None and match.grade.rank <= Grade.L1.rank:
            differing, _ = grades.differences(match.planned, match.seen)
            if set(differing) <= _untold(match.planned, match.seen):
                yield rows[match.place][0], match.planned.signature_id


def _products(kernel: PlannedKernel, shapes: Sequence[str]) -> dict[str, Any]:
    """The product of each of `shapes`, in place of its sides."""
    return {shape: (math.prod(sides),) for shape in shapes if (sides := getattr(kernel, shape))}


def _untold(planned: PlannedKernel, seen: Activity) -> set[str]:
    """Shared memory counts where both sides say it: profilers round it, or print that of the driver with it."""
    return {"shared_bytes"} if None in {planned.shared_bytes, seen.shared_bytes} else set()
