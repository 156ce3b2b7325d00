"""Converts texts for tests and reads the parts back."""

from __future__ import annotations

import atexit
import dataclasses
import functools
import json
import shutil
import tempfile
import threading
from pathlib import Path
from typing import TYPE_CHECKING, Any

import polars as pl

from kerneldb.ingest import Options, convert
from tests.ingest.traces import LAYOUTS, Trace, everything, kineto

if TYPE_CHECKING:
    from collections.abc import Callable

    from kerneldb.batch import Manifest

Content = Trace | str | bytes


@dataclasses.dataclass(frozen=True)
class Converted:
    """The tables of one converted trace."""

    manifest: Manifest

    def table(self, name: str) -> pl.DataFrame:
        """All rows of a table; an empty frame where nothing was written."""
        paths = self.manifest.parts.get(name, [])
        return pl.concat([pl.read_parquet(path) for path in paths], how="diagonal_relaxed") if paths else pl.DataFrame()

    def rows(self, name: str, *columns: str) -> list[tuple[Any, ...]]:
        """Some columns of a table, row by row; a table that was not written has none."""
        frame = self.table(name)
        return frame.select(columns).rows() if frame.height else []

    @property
    def launches(self) -> pl.DataFrame:
        """The launches with name and shape of their signature."""
        shapes = self.table("signatures").join(
            self.table("kernel_names").select("name_id", "name"), on="name_id", how="left"
        )
        facts = shapes.drop("kind", "name_id")
        return self.table("launches").join(facts, on="signature_id", how="left", maintain_order="left")

    def launch(self, name: str) -> dict[str, Any]:
        """The only launch of the kernel `name`."""
        return self.launches.row(by_predicate=pl.col("name") == name, named=True)

    def op(self, name: str) -> dict[str, Any]:
        """The only operator of that name."""
        return self.table("ops").row(by_predicate=pl.col("name") == name, named=True)

    @property
    def trace(self) -> dict[str, Any]:
        """The row of `traces`."""
        return self.table("traces").row(0, named=True)

    def report(self, outcome: str) -> dict[str, int]:
        """Reason → count of one outcome of the ingest report."""
        rows = self.table("ingest_reports").filter(pl.col("outcome") == outcome)
        return dict(rows.select("reason", "n").iter_rows())

    def total(self, outcome: str) -> int:
        """Sum of the counts of one outcome."""
        return sum(self.report(outcome).values())

    @property
    def accounted(self) -> int:
        """Events that the report accounts for, with what became of them."""
        return self.total("stored") + self.total("skipped") + self.total("lost")

    @property
    def repaired(self) -> int:
        """Events and metadata strings that were repaired."""
        return self.total("repaired")


def as_bytes(content: Content) -> bytes:
    """The bytes of a trace in the Kineto layout, or of a text in UTF-8."""
    text = kineto(content) if isinstance(content, Trace) else content
    return text.encode() if isinstance(text, str) else text


def convert_file(path: Path, folder: Path, options: Options | None = None) -> Converted:
    """Convert the only trace in `path`."""
    (manifest,) = convert(path, folder, options or Options())
    return Converted(manifest)


@functools.cache
def laid_out(layout: str = "kineto") -> Converted:
    """The trace with every kind of event in a layout, converted once."""
    room = Path(tempfile.mkdtemp(prefix="kerneldb-test-ingest-"))
    atexit.register(shutil.rmtree, room, ignore_errors=True)
    (room / "trace.json").write_bytes(LAYOUTS[layout](everything()).encode())
    return convert_file(room / "trace.json", room / "spool")


@functools.cache
def from_repository(path: Path) -> Converted:
    """A recorded trace of the repository, converted once."""
    room = Path(tempfile.mkdtemp(prefix="kerneldb-test-ingest-"))
    atexit.register(shutil.rmtree, room, ignore_errors=True)
    return convert_file(path, room / "spool")


def dims(text: str | None) -> Any:
    """The value of a JSON column."""
    return None if text is None else json.loads(text)


def outcome(action: Callable[[], object], seconds: float = 3.0) -> object:
    """What `action` returns or raises. Fails where it does not end: it runs on a daemon thread, so the tests go on."""
    results: list[object] = []

    def run() -> None:
        try:
            results.append(action())
        except Exception as error:  # noqa: BLE001 - the caller judges it
            results.append(error)

    thread = threading.Thread(target=run, daemon=True)
    thread.start()
    thread.join(seconds)
    assert not thread.is_alive(), f"still running after {seconds} s"
    return results[0]
