"""Converts ncu exports for tests and reads the tables back."""

from __future__ import annotations

import atexit
import functools
import gzip
import shutil
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Any

import polars as pl

from kerneldb.ingest import Options, convert, expand, plan
from tests.conftest import SHARED_DATA
from tests.ingest.conversion import Converted

if TYPE_CHECKING:
    from collections.abc import Iterable

DATA = Path(__file__).parent / "data"
Values = dict[tuple[int | None, str, str | None], tuple[float | None, str | None, float | None]]

HEADER = (
    '"ID","Process ID","Process Name","Host Name","Kernel Name","Context","Stream","Block Size","Grid Size","Device",'
    '"CC","Section Name","Metric Name","Metric Unit","Metric Value","Rule Name","Rule Type","Rule Description",'
    '"Estimated Speedup Type","Estimated Speedup"'
)
SPEED = "GPU Speed Of Light Throughput"


def printed(name: str) -> bytes:
    """What ncu 2024.1 printed of the synthetic report (see data/README.md)."""
    return gzip.decompress((DATA / f"{name}.gz").read_bytes())


@functools.cache
def room() -> Path:
    """A folder of this process."""
    folder = tempfile.mkdtemp(prefix="kerneldb-test-ncu-")
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    return Path(folder)


@functools.cache
def of_sample(sample: str) -> Converted:
    """The file alone, whatever other pages of its report lie beside it."""
    (one,) = convert_units([SHARED_DATA / sample], room() / "samples" / sample)
    return one


def convert_units(paths: Iterable[Path], folder: Path, options: Options | None = None) -> list[Converted]:
    """The captures behind paths, converted in order."""
    units = plan(expand(paths))
    found = []
    for number, unit in enumerate(units):
        found += [Converted(one) for one in convert(unit, folder / f"spool-{number}", options or Options())]
    return found


def convert_text(text: str | bytes, folder: Path, name: str = "page.csv", options: Options | None = None) -> Converted:
    """One file with this text, converted."""
    path = folder / name
    path.write_bytes(text.encode() if isinstance(text, str) else text)
    (one,) = convert_units([path], folder, options)
    return one


def values(one: Converted) -> Values:
    """Value, text and precision of each metric, rules aside."""
    frame = one.table("metrics").filter(~pl.col("metric").str.starts_with("rule:"))
    columns = frame.select("launch_index", "metric", "instance", "value", "text", "precision").rows()
    return {(row[0], row[1], row[2]): (row[3], row[4], row[5]) for row in columns}


def rules(one: Converted) -> list[tuple[int, str, str | None, str | None, float | None]]:
    """Launch, name, kind, unit and estimated speedup of each result of a rule."""
    frame = one.table("metrics").filter(pl.col("metric").str.starts_with("rule:"))
    return frame.select("launch_index", "metric", "instance", "unit", "value").rows()


def differing(some: Values, others: Values) -> dict[Any, Any]:
    """Metrics of both that differ by more than what both of them print."""
    found = {}
    for key in some.keys() & others.keys():
        (left, _, fine), (right, _, coarse) = some[key], others[key]
        if left is None or right is None:
            same = left is right
        else:
            same = abs(left - right) <= ((fine or 0) + (coarse or 0)) * (1 + 1e-9) + 1e-12 * abs(left)
        if not same:
            found[key] = (some[key], others[key])
    return found


def row(
    metric: str, unit: str, value: str, section: str = SPEED, launch: int = 0, name: str = "k(int)", tail: str = ","
) -> str:
    """A metric row of a details page of 2024 to 2026."""
    cells = [str(launch), "7", "app", "127.0.0.1", name, "1", "7", "(64, 1, 1)", "(8, 2, 1)", "0", "9.0", section]
    return ",".join(f'"{cell}"' for cell in [*cells, metric, unit, value]) + tail


def page(*rows: str) -> str:
    """A details page."""
    return "\n".join([HEADER, *rows]) + "\n"
