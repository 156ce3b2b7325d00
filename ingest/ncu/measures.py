"""Printed metrics as rows of `metrics`: canonical name, base unit, precision, instances, rules."""

from __future__ import annotations

import functools
import re
from collections.abc import Iterator
from typing import Any, Final, NamedTuple

import polars as pl

from kerneldb.ingest.ncu import halves
from kerneldb.ingest.ncu.kernels import Kernel, Printed, Rule
from kerneldb.ingest.ncu.names import canonical
from kerneldb.ingest.ncu.numbers import Style
from kerneldb.ingest.ncu.units import base_unit

RULE: Final = "rule:"
ROUNDING: Final = 1e-9
DEVICE: Final = "device__attribute_"
INSTANCES: Final = re.compile(r"(?P<value>[^()]*?)\s*\((?P<each>.*)\)", re.DOTALL)
# A bare label means something within its section only.
PLACE: Final = pl.when(pl.col("metric").str.contains("__", literal=True)).then(None).otherwise("section")
SCHEMA: Final[dict[str, type[pl.DataType]]] = {
    "launch_index": pl.Int64,
    "metric": pl.String,
    "value": pl.Float64,
    "text": pl.String,
    "unit": pl.String,
    "precision": pl.Float64,
    "instance": pl.String,
    "source_metric": pl.String,
    "section": pl.String,
}


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
    pairs = halves.counts_pairs(kernel.printed, style)
    for one in kernel.printed:
        if not one.name.startswith(DEVICE):
            for measure in _measures(one, style, kernel.identity.get("CC", "")):
                yield measure._replace(metric=halves.of_pairs(measure.metric)) if pairs and one.item else measure
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


def _measures(one: Printed, style: Style, capability: str) -> Iterator[Measure]:
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
    kept under its printed name, or as a further instance (`#2`), since its label then stands for something else. Of a
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
    whole = _told_apart(named.with_columns(place=PLACE)).select(frame.columns)
    return pl.concat([whole, rules]).sort("launch_index", maintain_order=True), counted.height - kept.height


def _told_apart(named: pl.DataFrame) -> pl.DataFrame:
    """Instances for rows that share launch, metric and instance: the place beside the first one's, and a number."""
    keys = ["launch_index", "metric", "instance"]
    nth = pl.int_range(pl.len()).over([*keys, "place"])
    elsewhere = pl.col("place").ne_missing(pl.col("place").first().over(keys))
    parts = ["instance", pl.when(elsewhere).then("place"), pl.when(nth > 0).then(pl.format("#{}", nth + 1))]
    told = pl.concat_str(parts, separator=" ", ignore_nulls=True)
    return named.with_columns(instance=pl.when(told != "").then(told))
