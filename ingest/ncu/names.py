"""Canonical names of metrics: what labels of the details page stand for, and names that ncu changed.

The equivalences are the rows of `schemas/reference/metric_aliases.csv`: `Section/Label`, `Section/Item/Label` (rows of
`--print-details all`) or a metric name. A label that meant several metrics over the versions is left as it is printed,
since a CSV does not tell its version; one that differs by compute capability says so in the column `tool`.
"""

from __future__ import annotations

import functools
import re
from typing import Final

from kerneldb.schemas import loader

METRIC: Final = re.compile(r"[A-Za-z0-9_.]*[a-z0-9]__[\w.:]+")
CAPABILITY: Final = re.compile(r"cc (<|>=) (\d+\.\d+)")
TENSOR: Final = re.compile(r"\(((?:(?:Op|Src|Dst|Sparsity):\w+ ?)+)\)")
ANY_TYPE: Final = "(*)"
"""What stands in `metric_aliases` for the type of a tensor operation in the label of an item."""

TENSOR_LABELS: Final = {
    "Theoretical Tensor Operations": "sum.peak_sustained",
    "Tensor Operations Per Cycle": "sum.per_cycle_elapsed",
}


@functools.cache
def aliases() -> dict[str, dict[str, str]]:
    """Alias → canonical metric → the tool and capability that mean it."""
    table = loader.reference().get("metric_aliases", {})
    known: dict[str, dict[str, str]] = {}
    for alias, metric, tool in zip(*(table.get(name, []) for name in ("alias", "metric", "tool")), strict=True):
        if alias is not None and metric is not None:
            known.setdefault(alias, {})[metric] = tool or ""
    return known


@functools.cache
def canonical(printed: str, section: str | None = None, item: str | None = None, capability: str = "") -> str:
    """The canonical name of what is printed as a metric in a section, under a body item label, of a GPU (`9.0`)."""
    found = METRIC.search(printed)
    if found is not None and (found[0] == printed or " " in printed):
        return _renamed(found[0])
    items = (item, TENSOR.sub(ANY_TYPE, item)) if item else ()
    places = (*(f"{section}/{one}/{printed}" for one in items), f"{section}/{printed}")
    listed = next((metric for place in places if (metric := _listed(place, capability))), None)
    return listed or _tensor(printed, item) or printed


def _listed(alias: str, capability: str) -> str | None:
    """The only metric that an alias stands for on a GPU."""
    metrics = [metric for metric, tool in aliases().get(alias, {}).items() if _suits(tool, capability)]
    return metrics[0] if len(metrics) == 1 else None


def _suits(tool: str, capability: str) -> bool:
    found = CAPABILITY.search(tool)
    if found is None or not capability:
        return True
    return (float(capability) >= float(found[2])) == (found[1] == ">=")


def _renamed(name: str) -> str:
    """A metric under its canonical name: the whole of it, or the counter before the first dot."""
    counter, dot, rest = name.partition(".")
    known = _listed(counter, "")
    return _listed(name, "") or (known + dot + rest if known else name)


def _tensor(label: str, item: str | None) -> str | None:
    """Tensor rooflines name instruction, source, destination and sparsity in the item's label (ncu 2024.3 and later).

    `(Op:hgmma Src:bf16 Dst:fp32 Sparsity:off)` of ncu 2025.3 is `op_hgmma_src_bf16_dst_fp32_sparsity_off`: the same
    report, printed with `--print-metric-name label-name`.
    """
    found = TENSOR.search(item or "")
    if found is None or label not in TENSOR_LABELS:
        return None
    parts = found[1].split()
    kinds = "_".join(f"{kind.lower()}_{value}" for kind, _, value in (part.partition(":") for part in parts))
    return f"sm__ops_path_tensor_{kinds}.{TENSOR_LABELS[label]}"
