"""Small healthy files of every format, made by the builders of the other tests or printed by the tools themselves.

A sample is what one capture leaves in a folder: name of the file → bytes. No file is larger than some ten KB. A reader
that is not named here has its sample in its own test, as SAMPLE of `tests/ingest/test_<reader>.py`.
"""

from __future__ import annotations

import dataclasses
import functools
import gzip
import importlib
import io
import json
import sqlite3
import tempfile
import zipfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Final

from kerneldb.ingest.readers import READERS
from tests.conftest import ROOT
from tests.fuzz import mutations
from tests.ingest.traces import LAYOUTS, everything, kineto
from tests.ncu.reading import DATA
from tests.nsys import exports
from tests.nsys.test_exported import parquet_of
from tests.nvprof import test_nvprof as nvprof
from tests.perfetto.traces import rocprofv3
from tests.power import test_reading as power
from tests.proton import test_profiles as proton
from tests.recording import damage
from tests.rocprof import databases, formats, test_csv, test_others
from tests.times import inputs
from tests.xla import profiles

Sample = dict[str, bytes]
LARGEST: Final = 12_000
NSYS: Final = ROOT / "tests" / "fixtures" / "nsys"


def _read(folder: Path) -> Sample:
    return {str(path.relative_to(folder)): path.read_bytes() for path in sorted(folder.rglob("*")) if path.is_file()}


def _made(*builders: Callable[[Path], object]) -> Iterator[Sample]:
    """What each builder leaves in a folder of its own."""
    for build in builders:
        with tempfile.TemporaryDirectory() as room:
            build(Path(room))
            yield _read(Path(room))


def pytorch() -> Iterator[Sample]:
    for layout in LAYOUTS.values():
        yield {"trace.json": layout(everything()).encode()}
    yield from _made(inputs.pytorch)


def archives() -> Iterator[Sample]:
    text = kineto(everything()).encode()
    yield {"trace.json.gz": gzip.compress(text, mtime=0)}
    for method in (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED, zipfile.ZIP_LZMA):
        packed = io.BytesIO()
        with zipfile.ZipFile(packed, "w", method) as archive:
            for name in ("rank0.json", "rank1.json.gz", "readme.txt"):
                archive.writestr(
                    zipfile.ZipInfo(name), gzip.compress(text, mtime=0) if name.endswith(".gz") else text, method
                )
        yield {"traces.zip": packed.getvalue()}


def nsys_databases() -> Iterator[Sample]:
    yield from _made(*(functools.partial(_export, era=era) for era in exports.ERAS), inputs.nsys_sqlite)


def _export(folder: Path, era: str) -> None:
    exports.build(folder / "small.sqlite", era)


def nsys_tables() -> Iterator[Sample]:
    def build(folder: Path) -> None:
        database = exports.build(folder / "small.sqlite", "2025.3", memory=[], ranges=[])
        parquet_of(database, folder / "small_pqtdir")
        database.unlink()

    yield from _made(build)


def nsys_texts() -> Iterator[Sample]:
    for path in sorted(NSYS.iterdir()):
        if path.suffix in {".csv", ".tsv", ".txt", ".json"} and 0 < path.stat().st_size < LARGEST:
            yield {path.name: path.read_bytes()}
    yield from _made(inputs.nsys_kern_exec_trace, inputs.nsys_sums)


def nvprof_files() -> Iterator[Sample]:
    yield {"run.csv": nvprof.TRACE.encode()}
    yield {"sums.csv": nvprof.SUMMARY.encode()}


def nvprof_databases() -> Iterator[Sample]:
    yield from _made(lambda folder: nvprof.nvvp(folder / "run.nvvp"))


def ncu() -> Iterator[Sample]:
    for path in sorted(DATA.glob("*.gz")):
        text = gzip.decompress(path.read_bytes())
        if len(text) < 2 * LARGEST:
            yield {path.name.removesuffix(".gz"): text}
    yield from _made(inputs.ncu)


KERNELS: Final = (
    databases.Kernel(databases.TENSILE_GEMM, (8192, 64, 1), (128, 1, 1), [4_000, 5_000], vgpr=256, lds=17408),
    databases.Kernel("add(float*)", (1000, 1, 1), (64, 1, 1), [1_500]),
)


def _rocpd(folder: Path) -> Path:
    return databases.write_rocpd(folder / "run.db", KERNELS)


def rocpd() -> Iterator[Sample]:
    yield from _made(_rocpd, inputs.rocpd_database)


def rocprof_csv() -> Iterator[Sample]:
    def build(folder: Path, *, rocpd_style: bool) -> None:
        formats.write_csv(_rocpd(folder), folder, "run", rocpd_style=rocpd_style)
        (folder / "run.db").unlink()

    yield from _made(*(functools.partial(build, rocpd_style=style) for style in (False, True)), inputs.rocprof_sums)
    counted = test_csv.COUNTED.format(dispatch=1, counter="SQ_WAVES", value="16", start=1000, end=1500)
    yield {
        "x_kernel_trace.csv": test_csv.KERNELS_63.encode(),
        "x_agent_info.csv": test_csv.AGENTS.encode(),
        "x_counter_collection.csv": (test_csv.COUNTERS + counted).encode(),
    }
    yield {"results.csv": test_csv.ROCPROF_V1.encode()}
    yield {"results_7.csv": test_csv.ROCPROF_V2.encode()}


def rocprof_json() -> Iterator[Sample]:
    def build(folder: Path) -> None:
        formats.write_json(_rocpd(folder), folder / "run_results.json", keep=["add(float*)"])
        (folder / "run.db").unlink()

    yield from _made(build, inputs.rocprof_json)


def rocprof_v1() -> Iterator[Sample]:
    yield from _made(inputs.rocprof_v1_json)


def rocprof_v1_databases() -> Iterator[Sample]:
    yield from _made(inputs.rocprof_v1)


def rpd() -> Iterator[Sample]:
    def build(folder: Path) -> None:
        connection = sqlite3.connect(folder / "trace.rpd")
        connection.executescript(test_others.RPD)
        connection.close()

    yield from _made(build)


def xplane() -> Iterator[Sample]:
    for events in (profiles.buffered(), profiles.direct()):
        yield {"host.xplane.pb": profiles.space(events)}


def xla_json() -> Iterator[Sample]:
    yield {"host.trace.json": profiles.as_json(profiles.direct())}


def perfetto() -> Iterator[Sample]:
    yield {"run_results.pftrace": rocprofv3()}


def proton_trees() -> Iterator[Sample]:
    yield {"run.hatchet": json.dumps(proton.tree()).encode()}
    events = (proton.event("gemm", 1.5, 2.0, "stream 7", "prefill"), proton.event("add", 4.0, 0.5, "stream 7"))
    yield {"run.chrome_trace": proton.timeline(*events).encode()}


def power_logs() -> Iterator[Sample]:
    yield {"power.csv": power.FULL.encode()}
    yield {"dmon.txt": power.DMON.encode()}


def bundles() -> Iterator[Sample]:
    for sample in _made(functools.partial(damage.recording, ROOT)):
        content = json.loads(sample["bundle.json"])
        for part in content["parts"]:
            if "measurements" in part:
                del part["measurements"][3:]
        lines = sample["power.ndjson"].splitlines(keepends=True)[:20]
        yield {**sample, "bundle.json": json.dumps(content).encode(), "power.ndjson": b"".join(lines)}


def trace_events(content: bytes) -> int | None:
    """The entries of `traceEvents` of JSON that Python reads."""
    try:
        found = json.loads(content)
    except (ValueError, RecursionError):
        return None
    events = found.get("traceEvents") if isinstance(found, dict) else found
    return len(events) if isinstance(events, list) else None


@dataclasses.dataclass(frozen=True, slots=True)
class Format:
    """A family of files: the reader that takes them, healthy samples, and the ways of damaging one of their files."""

    reader: str
    samples: Callable[[], Iterator[Sample]]
    mutate: Callable[[mutations.Dice, bytes], bytes]
    files: str = ""
    """The ending of the files that are damaged."""
    whole: bool = False
    """Whether the folder is given, not its files."""

    told: bool = True
    """Whether each event has a row or a line of the report: not packets that end, nor metrics of one launch."""

    counted: Callable[[bytes], int | None] = lambda _: None
    """How many events a file holds, counted without the reader; None where that cannot be said."""

    def all(self) -> list[Sample]:
        """Its samples, in an order that never changes."""
        return _samples(self)


@functools.cache
def _samples(one: Format) -> list[Sample]:
    return list(one.samples())


def of_its_test(reader: str) -> Format:
    """The sample that the test of a reader holds, damaged as its first file looks."""
    sample: Sample = importlib.import_module(f"tests.ingest.test_{reader}").SAMPLE
    return Format(reader, lambda: iter([sample]), _way(next(iter(sample.values()))))


def _way(content: bytes) -> Callable[[mutations.Dice, bytes], bytes]:
    if content.startswith(b"SQLite format 3"):
        return mutations.sqlite
    if content.lstrip()[:1] in (b"{", b"["):
        return mutations.json_text
    return mutations.protobuf if b"\0" in content else mutations.table


FORMATS: Final = {
    "pytorch": Format("pytorch", pytorch, mutations.json_text, counted=trace_events),
    "archives": Format("pytorch", archives, mutations.archive),
    "nsys-sqlite": Format("nsys", nsys_databases, mutations.sqlite),
    "nsys-parquet": Format("nsys", nsys_tables, mutations.parquet, ".parquet", whole=True),
    "nsys-text": Format("nsys", nsys_texts, mutations.table),
    "nvprof-text": Format("nvprof", nvprof_files, mutations.table),
    "nvprof-sqlite": Format("nvprof", nvprof_databases, mutations.sqlite),
    "ncu": Format("ncu", ncu, mutations.table, told=False),
    "rocpd": Format("rocpd", rocpd, mutations.sqlite),
    "rocprof-csv": Format("rocprof_csv", rocprof_csv, mutations.table),
    "rocprof-json": Format("rocprof_json", rocprof_json, mutations.json_text),
    "rocprof-v1-json": Format("rocprof_v1", rocprof_v1, mutations.json_text, counted=trace_events),
    "rocprof-v1-sqlite": Format("rocprof_v1", rocprof_v1_databases, mutations.sqlite),
    "rpd": Format("rpd", rpd, mutations.sqlite),
    "xplane": Format("xla", xplane, mutations.protobuf),
    "xla-json": Format("xla", xla_json, mutations.json_text),
    "perfetto": Format("perfetto", perfetto, mutations.protobuf, told=False),
    "proton": Format("proton", proton_trees, mutations.json_text),
    "power": Format("power", power_logs, mutations.table),
    "bundle": Format("bundle", bundles, mutations.json_text, ".json", whole=True),
}
FORMATS.update({name: of_its_test(name) for name in READERS if all(name != one.reader for one in FORMATS.values())})
