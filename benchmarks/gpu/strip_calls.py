"""Takes out of a PyTorch trace what tells which operators ran: the copy is as poor as one of a kernel profiler.

    python benchmarks/gpu/strip_calls.py TRACE.json.gz COPY.json.gz

Operators (`cpu_op`, Python functions and their links) go, with all arguments that name shapes or tie a launch to its
operator. GPU activities, runtime calls, annotations and the facts of the device stay. Standard library only.
"""

from __future__ import annotations

import gzip
import json
import sys
from collections import Counter
from pathlib import Path
from typing import Any, Final

OPERATORS: Final = frozenset({"cpu_op", "python_function", "cpu_instant_event", "fwdbwd", "async_cpu_to_gpu"})
LINKS: Final = (
    "External id", "external id", "Record function id", "Ev Idx", "Sequence number", "Fwd thread id",
    "Input Dims", "Input type", "Input Strides", "Concrete Inputs",
)  # fmt: skip
REMOVED: Final = "removed"
CLEANED: Final = "cleaned"


def strip(source: Path, target: Path) -> Counter[str]:
    """Write the copy of `source` at `target` (either .json or .json.gz); events removed and cleaned of arguments."""
    trace = json.loads(_read(source))
    counts: Counter[str] = Counter()
    trace["traceEvents"] = [_cleaned(event, counts) for event in trace["traceEvents"] if _kept(event, counts)]
    trace.pop("record_shapes", None)
    _write(target, json.dumps(trace))
    return counts


def _kept(event: dict[str, Any], counts: Counter[str]) -> bool:
    removed = event.get("cat") in OPERATORS
    counts[REMOVED] += removed
    return not removed


def _cleaned(event: dict[str, Any], counts: Counter[str]) -> dict[str, Any]:
    args = event.get("args")
    if not isinstance(args, dict):
        return event
    kept = {name: value for name, value in args.items() if name not in LINKS}
    counts[CLEANED] += len(kept) < len(args)
    return {**event, "args": kept}


def _read(path: Path) -> str:
    data = path.read_bytes()
    return (gzip.decompress(data) if path.suffix == ".gz" else data).decode("utf-8")


def _write(path: Path, text: str) -> None:
    data = text.encode("utf-8")
    path.write_bytes(gzip.compress(data, mtime=0) if path.suffix == ".gz" else data)


if __name__ == "__main__":
    sys.stdout.write(f"{dict(strip(Path(sys.argv[1]), Path(sys.argv[2])))}\n")
