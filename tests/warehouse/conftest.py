"""Small traces, made by hand: names, signatures and launches whose sums can be checked with a pencil."""

from __future__ import annotations

import dataclasses
import itertools
import lzma
import shutil
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import polars as pl
import pytest
from click.testing import CliRunner

from kerneldb.batch import Manifest, Spool
from kerneldb.cli import cli
from kerneldb.warehouse import Warehouse
from tests.conftest import made_once

Row = dict[str, Any]

KERNELS: dict[str, Row] = {
    "gemm": {"category": "GEMM", "library": "cuBLAS", "family": "nvjet", "operation": "gemm", "dtype": "fp16"},
    "add": {"category": "ELEMENTWISE", "library": "PyTorch ATen", "family": "vectorized", "operation": "add"},
    "nccl": {"category": "COMMUNICATION", "library": "NCCL", "family": "nccl", "operation": "allreduce"},
    "Memcpy HtoD": {"category": "MEMCPY", "kind": "memcpy", "operation": "HtoD"},
    "Memset": {"category": "MEMSET", "kind": "memset", "operation": "fill"},
}


FIXTURES = Path(__file__).parents[1] / "fixtures"


def unpacked(name: str) -> bytes:
    """A compressed file of tests/fixtures."""
    return lzma.decompress((FIXTURES / name).read_bytes())


@pytest.fixture(scope="module")
def migrated(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """A database of kerneldb 0.1.0 with traces of all profilers, after a command that reads; only to be read."""

    def make(path: Path) -> None:
        path.write_bytes(unpacked("kernels-0.1.0.duckdb.xz"))
        result = CliRunner().invoke(cli, ["--db", str(path), "traces", "--json"])
        assert result.exit_code == 0, result.output

    path = made_once(tmp_path_factory, "migrated-0.1.0.duckdb", make)
    with Warehouse(path).connection():
        yield path
    Warehouse(path).release()


@dataclasses.dataclass(frozen=True)
class Launch:
    """One activity. `grid` tells signatures of one name apart; `op` makes the signature one of level 'call'."""

    name: str
    start: int
    duration: int | None
    stream: int = 7
    device: int = 0
    grid: int = 1
    op: str | None = None
    phase: str | None = None
    timing: str = "timeline"

    @property
    def kind(self) -> str:
        """Its kind, by its name."""
        return str(KERNELS[self.name].get("kind", "kernel"))

    @property
    def signature(self) -> str:
        """A readable signature id."""
        return f"s:{self.name}:{self.grid}:{self.op or ''}"


MIXED = (
    Launch("Memcpy HtoD", 0, 50, stream=9),
    Launch("gemm", 20, 100, op="aten::mm", phase="forward"),
    Launch("gemm", 130, 110, op="aten::mm", phase="backward"),
    Launch("gemm", 300, 90, grid=2, phase="forward"),
    Launch("add", 400, 10, op="aten::add", phase="forward"),
    Launch("add", 410, 12, op="aten::add"),
    Launch("nccl", 405, 100, stream=20),
    Launch("Memset", 600, 5),
    Launch("Memcpy HtoD", 603, 20, stream=9),
    Launch("add", 700, None, op="aten::add"),
    Launch("gemm", 0, 5000, op="aten::mm", timing="profiled"),
)


class Traces:
    """Makes manifests in a folder."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._numbers = itertools.count()

    def __call__(
        self,
        name: str = "one",
        launches: tuple[Launch, ...] = MIXED,
        *,
        trace_id: str | None = None,
        arch: str | None = "sm_90",
        reports: tuple[Row, ...] = (),
        **facts: Any,
    ) -> Manifest:
        """A trace with these launches; `facts` are further columns of its row."""
        spool = Spool(self.folder / f"spool-{next(self._numbers)}")
        row = {"trace_id": trace_id or f"t:{name}", "name": name, "kind": "timeline", "source": "pytorch"}
        began = zlib.crc32(name.encode())  # each at a time of its own: none is a print of another
        row |= {"base_ns": began, **facts}
        spool.write("traces", pl.DataFrame([row]))
        devices = sorted({launch.device for launch in launches})
        spool.write("devices", pl.DataFrame([_device(row["trace_id"], device, arch) for device in devices]))
        spool.write("kernel_names", pl.DataFrame([_name(key) for key in KERNELS], infer_schema_length=None))
        spool.write("signatures", _signatures(launches, reports))
        calls = {launch.op for launch in launches if launch.op is not None}
        spool.write("op_calls", pl.DataFrame([{"call_id": f"c:{op}", "op": op} for op in sorted(calls)]))
        rows = [_launch(row["trace_id"], index, launch) for index, launch in enumerate(launches)]
        spool.write("launches", pl.DataFrame(rows, infer_schema_length=None))
        spool.write("rollups", pl.DataFrame([{"trace_id": row["trace_id"], **report} for report in reports]))
        return spool.finish(row)


def _device(trace_id: str, device: int, arch: str | None) -> Row:
    return {"trace_id": trace_id, "device": device, "name": f"GPU {arch}", "arch": arch}


def _name(key: str) -> Row:
    return {
        "name_id": f"n:{key}",
        "name": f"{key}<float>(int)",
        "short_name": key,
        "match_name": key,
        "kind": "kernel",
    } | KERNELS[key]


def _signatures(launches: tuple[Launch, ...], reports: tuple[Row, ...]) -> pl.DataFrame:
    rows = {launch.signature: _signature(launch) for launch in launches}
    rows |= {report["signature_id"]: _report_signature(report["signature_id"]) for report in reports}
    return pl.DataFrame(list(rows.values()), infer_schema_length=None)


def _signature(launch: Launch) -> Row:
    return {
        "signature_id": launch.signature,
        "kind": launch.kind,
        "name_id": f"n:{launch.name}",
        "grid_x": launch.grid if launch.kind == "kernel" else None,
        "call_id": f"c:{launch.op}" if launch.op else None,
        "op": launch.op,
        "input_dims": "[[4, 4]]" if launch.op else None,
        "level": "call" if launch.op else "launch",
        "launch_key": f"k:{launch.name}:{launch.grid}" if launch.kind == "kernel" else None,
        **_settled(launch.name),
    }


def _settled(name: str) -> Row:
    return {column: KERNELS[name].get(column) for column in ("category", "dtype")}


def _report_signature(signature: str) -> Row:
    name = signature.split(":")[1]
    return {"signature_id": signature, "kind": "kernel", "name_id": f"n:{name}", "level": "name", **_settled(name)}


def _launch(trace_id: str, index: int, launch: Launch) -> Row:
    end = None if launch.duration is None else launch.start + launch.duration
    return {
        "trace_id": trace_id,
        "launch_index": index,
        "kind": launch.kind,
        "timing": launch.timing,
        "signature_id": launch.signature,
        "device": launch.device,
        "stream": launch.stream,
        "start_ns": launch.start,
        "end_ns": end,
        "duration_ns": launch.duration,
        "phase": launch.phase,
        "launch_status": "linked" if launch.op else "no_op",
    }


@pytest.fixture
def make_trace(tmp_path: Path) -> Traces:
    return Traces(tmp_path / "spools")


@pytest.fixture(scope="session")
def empty_file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("empty") / "kernels.duckdb"
    Warehouse.create_or_open(path)
    return path


@pytest.fixture(scope="session")
def filled_file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    def make(path: Path) -> None:
        warehouse, make_trace = Warehouse.create_or_open(path), Traces(tmp_path_factory.mktemp("filled"))
        warehouse.commit(make_trace("one", default_phase="prefill"))
        later = tuple(dataclasses.replace(launch, start=launch.start + 1_000) for launch in MIXED[1:])
        warehouse.commit(make_trace("two", later, stated_run="job"))
        launches = (Launch("gemm", 5, 70), Launch("gemm", 100, 80, grid=3))
        warehouse.commit(make_trace("three", launches, stated_run="job"))

    return made_once(tmp_path_factory, "filled.duckdb", make)


@pytest.fixture
def warehouse(empty_file: Path, tmp_path: Path) -> Warehouse:
    """A new warehouse."""
    return Warehouse(shutil.copy(empty_file, tmp_path), lock_timeout=0.5)


@pytest.fixture
def filled(filled_file: Path, tmp_path: Path) -> Warehouse:
    """Three traces; two of them have the same signatures, the third has other grids."""
    return Warehouse(shutil.copy(filled_file, tmp_path), lock_timeout=0.5)


@pytest.fixture(scope="session")
def read(filled_file: Path) -> Iterator[Warehouse]:
    """The same three traces, to read only: they stay open, so that nobody opens them for every question."""
    warehouse = Warehouse(filled_file)
    with warehouse.connection():
        yield warehouse
    warehouse.release()


@pytest.fixture
def launch() -> type[Launch]:
    return Launch


@pytest.fixture
def mixed() -> tuple[Launch, ...]:
    """The launches of the trace `one` of `filled`."""
    return MIXED
