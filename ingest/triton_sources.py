"""Finds the sources of the Triton kernels that a trace names, by the hash of their text.

    index(folders)       all kernels in the Python files below some folders
    found(manifest, …)   those of a converted trace, as rows of `kernel_sources`

TorchInductor writes each kernel to a file that is named by the hash of its text, and writes all of them again as texts
into the file that calls them (`async_compile.triton(name, text)`, torch/_inductor/codegen/wrapper.py): either will do.
Nothing is imported or run here.
"""

from __future__ import annotations

import ast
import dataclasses
import getpass
import hashlib
import os
import re
import stat
import tempfile
from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from kerneldb.ids import code_hash

if TYPE_CHECKING:
    from kerneldb.batch import Manifest
    from kerneldb.ingest.output import Report

TABLE: Final = "kernel_sources"
CACHE_VARIABLE: Final = "TORCHINDUCTOR_CACHE_DIR"
MARKS: Final = ("@triton.jit", "@triton_heuristics.")
HASH: Final = re.compile(r"c[a-z2-7]{51}")
"""What TorchInductor names a file by (`kerneldb.ids.code_hash`)."""
DEFINED: Final = re.compile(r"^def (\w+)\(", re.MULTILINE)
LARGEST_BYTES: Final = 32 << 20
KERNEL: Final = 2
LONE_SURROGATE: Final = re.compile("[\ud800-\udfff]")


@dataclasses.dataclass(frozen=True, slots=True)
class Source:
    """The text of one kernel: the function `name` is the last one in it."""

    kernel_hash: str
    name: str
    text: str
    file: str

    @property
    def place(self) -> str:
        """The file, with escapes for the bytes of its name that are no UTF-8."""
        return self.file.encode("utf-8", "backslashreplace").decode()

    @property
    def is_unicode(self) -> bool:
        """Whether the text can be stored: an escape in a program can put a lone surrogate into it."""
        return LONE_SURROGATE.search(self.text) is None

    @property
    def origin(self) -> str:
        """Who wrote it: TorchInductor, or the program itself (`user`)."""
        return "inductor" if "torch._inductor" in self.text else "user"


@dataclasses.dataclass(frozen=True, slots=True)
class Found:
    """Sources of the kernels of a trace: rows of `kernel_sources`, and those that no database can store."""

    rows: list[dict[str, Any]]
    left_out: tuple[Source, ...] = ()

    def report(self) -> Report:
        """What was left out, naming the first of it."""
        from kerneldb.ingest.output import Report

        report = Report()
        if self.left_out:
            first = self.left_out[0]
            which = f"{first.name} in {first.place}{' and others' * (len(self.left_out) > 1)}"
            shown = "".join(one if one.isprintable() else repr(one)[1:-1] for one in which)
            report.add("lost", f"source of a Triton kernel that is not Unicode text ({shown})", len(self.left_out))
        return report


def source_of(text: str, file: str) -> Source | None:
    """The kernel of a text; None where it defines none."""
    names = DEFINED.findall(text)
    if not names or not any(mark in text for mark in MARKS):
        return None
    return Source(code_hash(text), names[-1], text, file)


def index(folders: Iterable[Path]) -> dict[str, Source]:
    """Kernels in the Python files below `folders`, by hash.

    Passed over are files that cannot be read or parsed, are larger than 32 MiB, or are no files (pipes, devices).
    """
    found: dict[str, Source] = {}
    for folder in folders:
        for path in sorted(folder.rglob("*.py")):
            for source in _in_file(path):
                found.setdefault(source.kernel_hash, source)
    return found


def found(manifest: Manifest, folders: Sequence[Path], file: Path) -> Found:
    """The sources for the calls of a converted trace that was read from `file`.

    Searched are `folders`, a folder `triton` beside the file, and, by hash only, the cache of TorchInductor here.
    """
    hashes, names = _wanted(manifest)
    if not hashes and not names:
        return Found([])
    beside = file.parent / "triton"
    known = index([*folders, *([beside] if beside.is_dir() else [])])
    chosen = [one for one in known.values() if one.kernel_hash in hashes or one.name in names]
    chosen += _cached(hashes - known.keys())
    stored = [_row(manifest.trace_id, source) for source in chosen if source.is_unicode]
    return Found(stored, tuple(source for source in chosen if not source.is_unicode))


def _row(trace_id: str, source: Source) -> dict[str, Any]:
    return {
        "trace_id": trace_id,
        "kernel_hash": source.kernel_hash,
        "name": source.name,
        "language": "triton",
        "origin": source.origin,
        "source": source.text,
        "file": source.place,
        "sha256": hashlib.sha256(source.text.encode()).hexdigest(),
        "archived_at": datetime.now(UTC).replace(tzinfo=None),
    }


def _wanted(manifest: Manifest) -> tuple[frozenset[str], frozenset[str]]:
    """What a trace needs: hashes, and names of kernels whose hash the trace does not have."""
    import polars as pl

    parts = manifest.parts.get("op_calls", [])
    if not parts:
        return frozenset(), frozenset()
    calls = pl.concat([pl.read_parquet(part, columns=["op", "extra"]).cast(pl.String) for part in parts])
    calls = calls.filter(pl.col("extra").str.contains("kernel_hash|kernel_backend"))
    extras = calls.select("op", pl.col("extra").str.json_path_match("$.kernel_hash").alias("hash")).unique()
    hashes = frozenset(extras["hash"].drop_nulls().to_list())
    return hashes, frozenset(extras.filter(pl.col("hash").is_null())["op"].to_list())


def _in_file(path: Path) -> Iterator[Source]:
    try:
        about = path.stat()
        if not stat.S_ISREG(about.st_mode) or about.st_size > LARGEST_BYTES:
            return
        text = path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError):
        return
    if "async_compile.triton(" in text:
        yield from _embedded(text, str(path))
    else:
        source = source_of(text, str(path))
        if source is not None:
            yield source


def _embedded(text: str, file: str) -> Iterator[Source]:
    """The kernels that a file of TorchInductor hands to its compiler as texts."""
    try:
        tree = ast.parse(text)
    except (SyntaxError, ValueError, RecursionError, MemoryError):  # the last two of texts that nest too deeply
        return
    for node in ast.walk(tree):
        if isinstance(node, ast.Call) and ast.unparse(node.func) == "async_compile.triton" and len(node.args) >= KERNEL:
            held = node.args[1]
            if isinstance(held, ast.Constant) and isinstance(held.value, str):
                source = source_of(held.value, file)
                if source is not None:
                    yield source


def _cached(hashes: Iterable[str], environment: Mapping[str, str] = os.environ) -> Iterator[Source]:
    """Kernels in TorchInductor's cache on this machine (`cache_dir` of torch/_inductor/runtime/cache_dir_utils.py)."""
    try:
        user = getpass.getuser()
    except (KeyError, OSError):
        user = ""
    user = re.sub(r"[\\/:*?\"<>|]", "_", user)
    usual = Path(tempfile.gettempdir()) / f"torchinductor_{user}"
    folder = Path(environment.get(CACHE_VARIABLE) or usual)
    for name in sorted(filter(HASH.fullmatch, hashes)):
        for source in _in_file(folder / name[1:3] / f"{name}.py"):
            if source.kernel_hash == name:
                yield source
