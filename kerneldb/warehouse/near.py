"""What a column is called here that a condition or a statement calls something else."""

from __future__ import annotations

import difflib
import re
from typing import TYPE_CHECKING, Final

from kerneldb.shell import Name, kerneldb

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

MOST: Final = 5
ALIKE: Final = 0.75
"""Below this the engine's own guesses begin, which are columns with some letters in common."""
SYNONYMS: Final = {
    **dict.fromkeys(("kernel", "kernel_name", "kernelname", "demangled_name"), ("kernel", "short_name", "name")),
    **dict.fromkeys(
        ("time", "duration", "dur", "elapsed", "gpu_time", "total_time"),
        ("duration_ns", "total_ns", "gap_ns", "idle_ns", "wall_ns"),
    ),
    **dict.fromkeys(("launches", "count", "calls", "instances"), ("n",)),
    **dict.fromkeys(("operator", "aten_op"), ("op",)),
    **dict.fromkeys(("shape", "shapes", "input_shapes", "dims"), ("input_dims",)),
    **dict.fromkeys(("type", "data_type", "datatype", "precision"), ("dtype", "kind")),
    **dict.fromkeys(("layer", "nn_module"), ("module",)),
    **dict.fromkeys(("line", "file", "stack", "source_line"), ("python_line",)),
    **dict.fromkeys(("bandwidth", "throughput"), ("gbs", "bytes_per_second", "pct_peak_bandwidth")),
    **dict.fromkeys(("flop", "gflops", "flops_s"), ("flops", "tflops", "flops_per_second")),
    **dict.fromkeys(("range", "nvtx", "annotation"), ("phase", "range_path")),
    **dict.fromkeys(("step",), ("iteration",)),
    **dict.fromkeys(("gpu_id", "device_id"), ("device",)),
    **dict.fromkeys(("start", "timestamp", "ts"), ("start_ns", "ts_ns")),
    **dict.fromkeys(("m", "n", "k"), ("gemm_m", "gemm_n", "gemm_k")),
}
"""What other tools, tables of commands and people call columns."""
UNKNOWN: Final = re.compile(
    r'Referenced column "([^"]+)" (?:was )?not found|does not have a column named "([^"]+)"', re.IGNORECASE
)
UNIT: Final = re.compile(r"_(?:ns|us|ms|s|sec|seconds)$")
CANDIDATES: Final = re.compile(r"\nCandidate bindings: ([^\n]*)")


def unknown_column(message: str) -> str | None:
    """The column that the engine says there is none of."""
    found = UNKNOWN.search(message)
    return found and (found[1] or found[2])


def near_columns(wanted: str, columns: Iterable[str]) -> list[str]:
    """Those of `columns` that may be meant by `wanted`: by another word for it, by its beginning, by its letters."""
    wanted = wanted.lower()
    known = list(dict.fromkeys(columns))
    words = (*SYNONYMS.get(wanted, ()), *SYNONYMS.get(UNIT.sub("", wanted), ()))
    meant = [name for name in words if name in known]
    begun = [name for name in known if name.startswith(f"{wanted}_")]
    alike = difflib.get_close_matches(wanted, known, MOST, ALIKE)
    return list(dict.fromkeys([*meant, *begun, *alike]))[:MOST]


def near_values(wanted: str, values: Iterable[str]) -> list[str]:
    """Those of `values` that may be meant by `wanted`, in any case of letters: `mm` by the end of `aten::mm` or in it.

    What ends with it as a word comes first, then what is spelled alike, then what holds it.
    """
    text = wanted.lower()
    lowered = {value.lower(): value for value in values}
    holding = sorted((one for one in lowered if len(text) > 1 and text in one), key=lambda one: (len(one), one))
    ended = re.compile(rf"(?<![a-z0-9]){re.escape(text)}$")
    found = [*filter(ended.search, holding), *difflib.get_close_matches(text, lowered, MOST), *holding]
    return [lowered[one] for one in dict.fromkeys(found)][:MOST]


def said(message: str, columns: Iterable[str], objects: Sequence[str] = ("kernels",)) -> str:
    """The engine's message with near columns, of `columns` and of what the statement reads, in place of its guesses.

    Without one it names the command that lists those of the first of `objects`, which the statement reads.
    """
    wanted = unknown_column(message)
    if wanted is None or "FROM clause is missing" in message:
        return message
    guessed = CANDIDATES.search(message)
    read = [name.rpartition(".")[2] for name in re.findall(r'"([^"]+)"', guessed[1])] if guessed else []
    near = near_columns(wanted, [*columns, *read])
    told = f"near columns: {', '.join(near)}" if near else f"see: {kerneldb('db', 'schema', *map(Name, objects[:1]))}"
    if guessed:
        return message.replace(guessed[0], f"\n{told}")
    first, *rest = message.split("\n", 1)
    return "\n".join([first, told, *rest])
