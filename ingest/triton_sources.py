"""Finds the sources of the Triton kernels that a trace names, by the hash of their text.

    index(folders)     all kernels in the Python files below some folders
    rows(manifest, …)  the rows of `kernel_sources` for a converted trace

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
import tempfile
from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from kerneldb.ids import code_hash

if TYPE_CHECKING:
    from kerneldb.batch import Manifest

TABLE: Final = "kernel_sources"
BESIDE: Final = "triton"
CACHE_VARIABLE: Final = "TORCHINDUCTOR_CACHE_DIR"
EMBEDDED: Final = "async_compile.triton("
INDUCTOR: Final = "torch._inductor"
MARKS: Final = ("@triton.jit", "@triton_heuristics.")
DEFINED: Final = re.compile(r"^def (\w+)\(", re.MULTILINE)
LARGEST_BYTES: Final = 32 << 20
KERNEL: Final = 2


@dataclasses.dataclass(frozen=True, slots=True)
class Source:
    """The text of one kernel: the function `name` is the last one in it. `origin` is inductor or user."""

    kernel_hash: str
    name: str
    text: str
    file: str

    @property
    def origin(self) -> str:
        """Who wrote it: TorchInductor, or the program itself."""
        return "inductor" if INDUCTOR in self.text else "user"


@dataclasses.dataclass(frozen=True, slots=True)
class Wanted:
    """What a trace needs: hashes, and names of kernels whose hash the trace does not have."""

    hashes: frozenset[str]
    names: frozenset[str]

    def __bool__(self) -> bool:
        """Whether it needs anything."""
        return bool(self.hashes or self.names)


def source_of(text: str, file: str) -> Source | None:
    """The kernel of a text; None where it defines none."""
    names = DEFINED.findall(text)
    if not names or not any(mark in text for mark in MARKS):
        return None
    return Source(code_hash(text), names[-1], text, file)


def index(folders: Iterable[Path]) -> dict[str, Source]:
    """Kernels in the Python files below `folders`, by hash; files that cannot be read or parsed are passed over."""
    found: dict[str, Source] = {}
    for folder in folders:
        for path in sorted(folder.rglob("*.py")):
            for source in _in_file(path):
                found.setdefault(source.kernel_hash, source)
    return found


def rows(manifest: Manifest, folders: Sequence[Path], file: Path) -> list[dict[str, Any]]:
    """The rows of `kernel_sources` for the calls of a converted trace that was read from `file`.

    Searched are `folders`, a folder `triton` beside the file, and, by hash only, the cache of TorchInductor here.
    """
    needed = _wanted(manifest)
    if not needed:
        return []
    beside = file.parent / BESIDE
    known = index([*folders, *([beside] if beside.is_dir() else [])])
    chosen = [one for one in known.values() if one.kernel_hash in needed.hashes or one.name in needed.names]
    chosen += _cached(needed.hashes - known.keys())
    return [_row(manifest.trace_id, source) for source in chosen]


def _row(trace_id: str, source: Source) -> dict[str, Any]:
    return {
        "trace_id": trace_id,
        "kernel_hash": source.kernel_hash,
        "name": source.name,
        "language": "triton",
        "origin": source.origin,
        "source": source.text,
        "file": source.file,
        "sha256": hashlib.sha256(source.text.encode("utf-8", "surrogatepass")).hexdigest(),
        "archived_at": datetime.now(UTC).replace(tzinfo=None),
    }


def _wanted(manifest: Manifest) -> Wanted:
    import polars as pl

    parts = manifest.parts.get("op_calls", [])
    if not parts:
        return Wanted(frozenset(), frozenset())
    calls = pl.concat([pl.read_parquet(part, columns=["op", "extra"]).cast(pl.String) for part in parts])
    calls = calls.filter(pl.col("extra").str.contains("kernel_hash|kernel_backend"))
    extras = calls.select("op", pl.col("extra").str.json_path_match("$.kernel_hash").alias("hash")).unique()
    hashes = frozenset(extras["hash"].drop_nulls().to_list())
    return Wanted(hashes, frozenset(extras.filter(pl.col("hash").is_null())["op"].to_list()))


def _in_file(path: Path) -> Iterator[Source]:
    try:
        if path.stat().st_size > LARGEST_BYTES:
            return
        text = path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError):
        return
    if EMBEDDED in text:
        yield from _embedded(text, str(path))
    else:
        source = source_of(text, str(path))
        if source is not None:
            yield source


def _embedded(text: str, file: str) -> Iterator[Source]:
    """The kernels that a file of TorchInductor hands to its compiler as texts."""
    try:
        tree = ast.parse(text)
    except (SyntaxError, ValueError):
        return
    for node in ast.walk(tree):
        if isinstance(node, ast.Call) and _is_compile(node.func) and len(node.args) >= KERNEL:
            held = node.args[1]
            if isinstance(held, ast.Constant) and isinstance(held.value, str):
                source = source_of(held.value, file)
                if source is not None:
                    yield source


def _is_compile(function: ast.expr) -> bool:
    return isinstance(function, ast.Attribute) and ast.unparse(function) == "async_compile.triton"


def _cached(hashes: Iterable[str], environment: Mapping[str, str] = os.environ) -> Iterator[Source]:
    """Kernels in TorchInductor's cache on this machine (`cache_dir` of torch/_inductor/runtime/cache_dir_utils.py)."""
    user = re.sub(r"[\\/:*?\"<>|]", "_", _user())
    usual = Path(tempfile.gettempdir()) / f"torchinductor_{user}"
    folder = Path(environment.get(CACHE_VARIABLE) or usual)
    for name in sorted(hashes):
        path = folder / name[1:3] / f"{name}.py"
        for source in _in_file(path) if path.is_file() else ():
            if source.kernel_hash == name:
                yield source


def _user() -> str:
    try:
        return getpass.getuser()
    except (KeyError, OSError):
        return ""
