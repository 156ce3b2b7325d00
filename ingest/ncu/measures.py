"""Half-precision rooflines on the details page: ncu counts pairs of operations since 2025, under the same labels.

`Theoretical Predicated-On HFMA Operations` is twice the instructions per cycle up to ncu 2024 (`…_x2`) and four times
since 2025 (`…_x4`), where additions and multiplications of the roofline are pairs too (`--print-metric-name label-name`
of 2024.1 and 2025.3). A page does not tell its version, but it has the instructions beside the operations.
"""

from __future__ import annotations

import functools
import re
from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import polars as pl

from kerneldb.ingest.columns import schema
from kerneldb.ingest.ncu.kernels import Kernel, PrintedMetric, Rule
from kerneldb.ingest.ncu.numbers import Style, base_unit
from kerneldb.schemas import loader

if TYPE_CHECKING:
    from kerneldb.ingest.ncu.kernels import PrintedMetric
    from kerneldb.ingest.ncu.numbers import Style

SECTION: Final = "(Half Precision)"
INSTRUCTIONS: Final = "Theoretical Predicated-On HFMA Thread Instructions Executed"
OPERATIONS: Final = "Theoretical Predicated-On HFMA Operations"
PAIRED: Final = 4
NAMES: Final = {
    **{
        f"derived__{unit}__sass_thread_inst_executed_op_hfma_pred_on_x2": (
            f"derived__{unit}__sass_thread_inst_executed_op_hfma_pred_on_x4"
        )
        for unit in ("sm", "smsp")
    },
    **{
        f"smsp__sass_thread_inst_executed_op_{op}_pred_on.sum.per_cycle_elapsed": (
            f"derived__smsp__sass_thread_inst_executed_op_{op}_pred_on_x2"
        )
        for op in ("hadd", "hmul")
    },
}
"""Metrics of the body items: up to 2024, and since 2025."""
METRIC: Final = re.compile(r"[A-Za-z0-9_.]*[a-z0-9]__[\w.:]+")
CAPABILITY: Final = re.compile(r"cc (<|>=) (\d+\.\d+)")
TENSOR: Final = re.compile(r"\(((?:(?:Op|Src|Dst|Sparsity):\w+ ?)+)\)")
ANY_TYPE: Final = "(*)"
"""What stands in `metric_aliases` for the type of a tensor operation in the label of an item."""

TENSOR_LABELS: Final = {
    "Theoretical Tensor Operations": "sum.peak_sustained",
    "Tensor Operations Per Cycle": "sum.per_cycle_elapsed",
}
RULE: Final = "rule:"
ROUNDING: Final = 1e-9
DEVICE: Final = "device__attribute_"
INSTANCES: Final = re.compile(r"(?P<value>[^()]*?)\s*\((?P<each>.*)\)", re.DOTALL)
# A bare label means something within its section only.
PLACE: Final = pl.when(pl.col("metric").str.contains("__", literal=True)).then(None).otherwise("section")
SCHEMA: Final = schema("launch_index metric value text unit precision instance source_metric section")


def counts_pairs(printed: Iterable[PrintedMetric], style: Style) -> bool:
    """Whether what is printed of a kernel counts half-precision operations as ncu does since 2025."""
    found: dict[str, float] = {}
    for one in printed:
        if one.name in {INSTRUCTIONS, OPERATIONS} and SECTION in (one.section or ""):
            number = style.read(one.text)
            if number is not None:
                found[one.name] = number[0]
    return INSTRUCTIONS in found and found.get(OPERATIONS) == PAIRED * found[INSTRUCTIONS]


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
    """The only metric that an alias means on a GPU."""
    metrics = []
    for metric, tool in aliases().get(alias, {}).items():
        found = CAPABILITY.search(tool) if capability else None
        if found is None or (float(capability) >= float(found[2])) == (found[1] == ">="):
            metrics.append(metric)
    return metrics[0] if len(metrics) == 1 else None


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


class Measure(NamedTuple):
    """A row of `metrics` without its launch. Either `value` or `text` is there."""

    metric: str
    value: float | None
    text: str | None
    unit: str | None
    precision: float | None
    instance: str | None
    source_metric: str
    section: str | None


def measures(kernel: Kernel, style: Style) -> Iterator[Measure]:
    """What is printed of a kernel, but attributes of the device."""
    pairs = counts_pairs(kernel.printed, style)
    for one in kernel.printed:
        if not one.name.startswith(DEVICE):
            for measure in _measures(one, style, kernel.identity.get("CC", "")):
                yield (
                    measure._replace(metric=NAMES.get(measure.metric, measure.metric))
                    if pairs and one.item
                    else measure
                )
    for rule in kernel.rules:
        yield _rule(rule, style)


def attributes(kernel: Kernel, style: Style) -> dict[str, Any]:
    """Attributes of the device by name without their prefix: numbers, or texts."""
    found = {}
    for one in kernel.printed:
        if one.name.startswith(DEVICE):
            number = style.read(one.text)
            value: Any = one.text if number is None else number[0]
            found[one.name.removeprefix(DEVICE)] = int(value) if number and value == int(value) else value
    return found


def _measures(one: PrintedMetric, style: Style, capability: str) -> Iterator[Measure]:
    empty, exponent = _empty(one.name, one.section, one.item, one.unit, capability)
    text, each = _split(one.text, style) if "(" in one.text else (one.text, [])
    yield _filled(empty, text, style.read(text, exponent))
    for number, part in enumerate(each):
        label, colon, value = part.rpartition(": ")
        instance = empty._replace(instance=label.strip() if colon else str(number))
        yield _filled(instance, value.strip(), style.read(value.strip(), exponent))


@functools.cache
def _empty(name: str, section: str | None, item: str | None, unit: str, capability: str) -> tuple[Measure, int]:
    """A metric without its value, and the power of ten of its unit."""
    exponent, base = base_unit(unit)
    place = f"{section}/{item}" if item else section
    return Measure(canonical(name, section, item, capability), None, None, base, None, None, name, place), exponent


def _split(text: str, style: Style) -> tuple[str, list[str]]:
    """The value itself and those of its instances: `4578 (32; 32)`, `4578 (0: 32; 1: 32)`."""
    found = INSTANCES.fullmatch(text)
    if found is None or (found["value"] and style.read(found["value"]) is None) or not found["each"]:
        return text, []
    return found["value"] or "n/a", [part.strip() for part in found["each"].split(";")]


def _filled(empty: Measure, text: str, number: tuple[float, float] | None) -> Measure:
    value, precision = number or (None, None)
    said = text if number is None else None
    return Measure(empty[0], value, said, empty[3], precision, empty[5], empty[6], empty[7])


def _rule(rule: Rule, style: Style) -> Measure:
    number = style.read(rule.speedup) if rule.speedup else None
    value, precision = number if number is not None else (None, None)
    unit = f"% {rule.speedup_kind}".strip() if number is not None else None
    return Measure(RULE + rule.name, value, rule.text, unit, precision, rule.kind, rule.name, rule.section)


def settled(frame: pl.DataFrame) -> tuple[pl.DataFrame, int]:
    """One row per launch, metric and instance: the finest; and how many rows repeated one.

    Pages and sections print a metric more than once. A row that contradicts the finest one beyond what both print is
    kept under its printed name, or as a further instance (`#2`), since its label then means something else. Of a
    bare label under several sections the first has no instance, the others have their section as `instance`.
    """
    is_rule = pl.col("metric").str.starts_with(RULE)
    rules, counted = frame.filter(is_rule), frame.filter(~is_rule).with_row_index("order")
    keys = ["launch_index", "metric", "instance", "place"]
    ranked = counted.with_columns(place=PLACE).sort(
        pl.col("value").is_null(), pl.col("precision").fill_null(float("inf")), "order", maintain_order=True
    )
    best, slack = (pl.col(name).first().over(keys) for name in ("value", "precision"))
    near = (pl.col("value") - best).abs() <= (pl.col("precision") + slack) * (1 + ROUNDING)
    ranked = ranked.with_columns(nth=pl.int_range(pl.len()).over(keys), contrary=(~near).fill_null(value=False))
    kept = ranked.filter((pl.col("nth") == 0) | pl.col("contrary")).sort("order")
    # A metric that another one contradicts is what its label says, no more.
    named = kept.with_columns(metric=pl.when(pl.col("nth") > 0).then("source_metric").otherwise("metric"))
    distinct = _with_instances(named.with_columns(place=PLACE)).select(frame.columns)
    return pl.concat([distinct, rules]).sort("launch_index", maintain_order=True), counted.height - kept.height


def _with_instances(named: pl.DataFrame) -> pl.DataFrame:
    """Instances for rows that share launch, metric and instance: the place beside the first one's, and a number."""
    keys = ["launch_index", "metric", "instance"]
    nth = pl.int_range(pl.len()).over([*keys, "place"])
    elsewhere = pl.col("place").ne_missing(pl.col("place").first().over(keys))
    parts = ["instance", pl.when(elsewhere).then("place"), pl.when(nth > 0).then(pl.format("#{}", nth + 1))]
    instance = pl.concat_str(parts, separator=" ", ignore_nulls=True)
    return named.with_columns(instance=pl.when(instance != "").then(instance))
