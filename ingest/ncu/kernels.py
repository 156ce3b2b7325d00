"""Kernels of a page: the launch that its first columns identify, its NVTX ranges, and the metrics printed of it.

NVTX ranges are in two columns, one of push/pop stacks, one of start/stop ranges. A stack reads
`97844  "<default domain>:outer:none:none:none:none:none:none"  "domain:inner:…"`, outermost first; a start/stop range
begins with its id (ncu 2022 to 2026). Fields after the name: payload type and value, colour type and value, message
type and message.
"""

from __future__ import annotations

import collections
import dataclasses
import functools
import re
import string
from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import polars as pl

from kerneldb.ingest.columns import schema
from kerneldb.ingest.ledger import Ledger
from kerneldb.ingest.ncu.numbers import Style, base_unit, general
from kerneldb.ingest.ncu.table import Header, Row
from kerneldb.schemas import loader

if TYPE_CHECKING:
    from kerneldb.ingest.ncu.numbers import Style

RULE_COLUMNS: Final = (
    *("Rule Name", "Section Name", "Rule Type", "Rule Description"),
    *("Estimated Speedup Type", "Estimated Speedup"),
)
VALUES: Final = ("Metric Value", "Minimum", "Maximum", "Average")
COLUMNS: Final = Ledger(
    "column", {*RULE_COLUMNS, "Body Item Label", "Metric Name", "Metric Unit", *VALUES}, {}, outcome="unread"
)
UNITS: Final = "rows of units"
"""What a raw page has between its header and its launches."""
"""Columns of details and summary pages beside those that identify a launch; on raw pages all others are metrics."""
COUNTS: Final = frozenset(
    ("launch__grid_size", "launch__block_size", "launch__thread_count", "Grid Size", "Block Size", "Threads")
)
"""Metrics without decimals, by name and label: what looks like decimals there separates groups of digits."""
PUSH_POP: Final = "Push/Pop_Range"
START_STOP: Final = "Start/Stop_Range"
QUOTED: Final = re.compile(r'"([^"]*)"')
PLAIN: Final = re.compile(r"^(?P<domain>[^:]*):(?P<name>.*):none:none:none:none:none:none$", re.DOTALL)
FULL: Final = re.compile(
    r"^(?P<domain>[^:]*):(?P<name>.*?)"
    r":(?:none|\w*(?:int|float|double|json)\w*):[^:]*:\w+:[^:]*:(?:none|ascii|unicode|registered)\w*:.*$",
    re.DOTALL | re.IGNORECASE,
)
IDENTITY: Final = frozenset(
    (
        *("ID", "Process ID", "Process Name", "Host Name", "Kernel Name", "Kernel Time", "Context", "Stream"),
        *("Block Size", "Grid Size", "Device", "CC", "Invocations", "Domain"),
    )
)
Key = tuple[str, str]
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
MIDDLE: Final = re.compile(r"[a-z0-9]__[\w.:]+")
BEFORE: Final = frozenset(string.ascii_letters + string.digits + "_.")
DECIMAL: Final = re.compile(r"\d+(?:\.\d+)?")
CAPABILITY: Final = re.compile(r"cc (<|>=) (\d+\.\d+)")
TENSOR: Final = re.compile(r"\(((?:(?:Op|Src|Dst|Sparsity):\w+ ?)+)\)")
ANY_TYPE: Final = "(*)"
"""How `metric_aliases` writes the type of a tensor operation in the label of an item."""

TENSOR_LABELS: Final = {
    "Theoretical Tensor Operations": "sum.peak_sustained",
    "Tensor Operations Per Cycle": "sum.per_cycle_elapsed",
}
RULE: Final = "rule:"
ROUNDING: Final = 1e-9
DEVICE: Final = "device__attribute_"
# A bare label means something within its section only.
PLACE: Final = pl.when(pl.col("metric").str.contains("__", literal=True)).then(None).otherwise("section")
SCHEMA: Final = schema("launch_index metric value text unit precision instance source_metric section")


def stack(cell: str) -> list[str]:
    """Names of the ranges in a cell of the push/pop column, outermost first."""
    return [name for text in QUOTED.findall(cell) if (name := _name(text))]


def started(cell: str) -> list[str]:
    """Names of the ranges in a cell of the start/stop column."""
    texts = QUOTED.findall(cell) or ([cell] if cell.strip() else [])
    return [name for text in texts if (name := _name(re.sub(r"^\s*\d+:", "", text)))]


def summary_ranges(cell: str) -> list[str]:
    """Names of the ranges in the column Range of `--print-summary per-nvtx`, which prints no domains."""
    return [text.rsplit(":", 6)[0] for text in QUOTED.findall(cell)]


def phase_of(path: list[str]) -> str | None:
    """The outermost range below the step of a profiler, as for timelines."""
    return next((name for name in path if not name.startswith("ProfilerStep")), None)


def _name(text: str) -> str | None:
    found = PLAIN.match(text) or FULL.match(text)
    return found["name"] if found else None


class PrintedMetric(NamedTuple):
    """A metric as printed. `item` is the label inside the section (`--print-details all`)."""

    name: str
    section: str | None
    item: str | None
    unit: str
    text: str


class Rule(NamedTuple):
    """The result of a rule: kind OPT, INF or WRN; an estimated speedup is local (of the kernel's part) or global."""

    name: str
    section: str
    kind: str
    text: str
    speedup_kind: str
    speedup: str


@dataclasses.dataclass(slots=True)
class Kernel:
    """One launch (of a summary: one kernel). `identity` holds the cells of the first columns by their names."""

    identity: dict[str, str]
    page: str
    printed: list[PrintedMetric] = dataclasses.field(default_factory=list)
    rules: list[Rule] = dataclasses.field(default_factory=list)

    @property
    def key(self) -> Key:
        """Process and launch, as ncu numbers them."""
        return self.identity.get("Process ID", ""), self.identity.get("ID", "")

    @property
    def name(self) -> str:
        """The kernel, without the innermost range that `--print-nvtx-rename kernel` puts before it."""
        return self.identity["Kernel Name"].removeprefix(f"{(self.ranges or [''])[-1]}/")

    @property
    def is_range(self) -> bool:
        """Whether it is a range of a program (`--replay-mode range`) or a graph: it has no grid, a range no stream."""
        grid = self.identity.get("Grid Size")
        return self.identity.get("Stream") == "n/a" if grid is None else grid.strip() in ("", "n/a")

    @property
    def ranges(self) -> list[str]:
        """Names of the NVTX ranges around it: of the push/pop stack, outermost first, then of start/stop ranges."""
        return [name for _, names in self._ranges() for name in names]

    @property
    def unread_ranges(self) -> list[str]:
        """Cells of NVTX ranges in a form that is not known; a number alone is the thread, outside of all ranges."""
        return [cell for cell, names in self._ranges() if not names and cell.strip() and not cell.strip().isdecimal()]

    def _ranges(self) -> list[tuple[str, list[str]]]:
        readers = ((PUSH_POP, stack), (START_STOP, started))
        cells = self.identity.items()
        return [(cell, read(cell)) for mark, read in readers for column, cell in cells if mark in column]


@functools.cache
def is_identity(column: str) -> bool:
    """Whether a column identifies the launch and is not a metric."""
    return column in IDENTITY or PUSH_POP in column or START_STOP in column or column.startswith("Range:")


def kernels(rows: Iterable[Row]) -> Iterator[Kernel]:
    """Kernels of raw and details pages, in the order of the rows."""
    table: Header | None = None
    units: list[str] | None = None
    current: Kernel | None = None
    for header, fields in rows:
        if header is not table:
            table, units = header, None
        if header.page == "raw":
            if not fields[header.columns.index("ID")] and units is None:
                units = fields
                continue
            cells = zip(header.columns, units or [""] * len(header.columns), fields, strict=False)
            kernel = Kernel(_identity(header, fields), header.page)
            kernel.printed = [
                PrintedMetric(name, None, None, unit, text)
                for name, unit, text in cells
                if text and not is_identity(name)
            ]
            yield kernel
            continue
        identity = _identity(header, fields)
        if current is None or current.identity != identity:
            if current is not None:
                yield current
            current = Kernel(identity, header.page)
        row = dict(zip(header.columns, fields, strict=False))
        if row["Metric Name"]:
            item = row.get("Body Item Label") or None
            metric = (row["Metric Name"], row.get("Section Name"), item, row["Metric Unit"], row["Metric Value"])
            current.printed.append(PrintedMetric(*metric))
        elif row.get("Rule Name"):
            current.rules.append(Rule(*(row.get(name) or "" for name in RULE_COLUMNS)))
    if current is not None:
        yield current


def _identity(header: Header, fields: list[str]) -> dict[str, str]:
    return {name: text for name, text in zip(header.columns, fields, strict=False) if is_identity(name)}


def what_of(header: Header, fields: list[str]) -> str:
    """What a record is, for the ingest report."""
    if header.page == "raw":
        return "rows of launches" if fields[header.columns.index("ID")] else UNITS
    return "rows of metrics" if fields[header.columns.index("Metric Name")] else "rows of rules"


def numbers_of(header: Header, fields: list[str]) -> Iterator[tuple[str, bool]]:
    """The cells of a record that may hold numbers in the locale of the file; and whether they count whole things.

    Estimated speedups are in the C locale, so they say nothing of the others.
    """
    row = dict(zip(header.columns, fields, strict=False))
    if header.page == "raw":
        cells = [(text, name in COUNTS) for name, text in row.items() if not is_identity(name)]
    else:
        cells = [(row.get(name) or "", row["Metric Name"] in COUNTS) for name in VALUES]
    for cell, whole in cells:
        value, parenthesis, _ = cell.partition(" (")
        yield value if parenthesis else cell, whole


@dataclasses.dataclass(slots=True)
class Completeness:
    """The metrics of each section that all launches but the last one have at least."""

    least: dict[str, int] = dataclasses.field(default_factory=dict)
    last: dict[str, int] = dataclasses.field(default_factory=dict)
    launches: int = 0

    def see(self, kernel: Kernel) -> None:
        """Take the next launch of the page into account; other pages have a launch per line."""
        if kernel.page != "details":
            return
        if self.launches:
            known = self.least if self.launches > 1 else self.last
            self.least = {name: min(known[name], self.last[name]) for name in known.keys() & self.last.keys()}
        self.last = dict(collections.Counter(one.section or "" for one in kernel.printed))
        self.launches += 1

    @property
    def missing(self) -> int:
        """Metrics that all other launches have and the last one has not; 0 where that is not known."""
        return sum(max(least - self.last.get(name, 0), 0) for name, least in self.least.items())


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


def metric_in(printed: str) -> str | None:
    """The first name of a metric in a text, as METRIC finds it, in time that grows with the length of the text only."""
    middle = MIDDLE.search(printed)
    if middle is None:
        return None
    start = middle.start()
    while start and printed[start - 1] in BEFORE:
        start -= 1
    return printed[start : middle.end()]


@functools.cache
def canonical(printed: str, section: str | None = None, item: str | None = None, capability: str = "") -> str:
    """The canonical name of what is printed as a metric in a section, under a body item label, of a GPU (`9.0`)."""
    found = metric_in(printed)
    if found is not None and (found == printed or " " in printed):
        return _renamed(found)
    items = (item, TENSOR.sub(ANY_TYPE, item)) if item else ()
    places = (*(f"{section}/{one}/{printed}" for one in items), f"{section}/{printed}")
    listed = next((metric for place in places if (metric := _listed(place, capability))), None)
    return listed or _tensor(printed, item) or printed


def _listed(alias: str, capability: str) -> str | None:
    """The only metric that an alias means on a GPU."""
    metrics = []
    for metric, tool in aliases().get(alias, {}).items():
        found = CAPABILITY.search(tool) if DECIMAL.fullmatch(capability) else None
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
        number = general(rule.speedup)
        value, precision = number or (None, None)
        unit = f"% {rule.speedup_kind}".strip() if number is not None else None
        yield Measure(RULE + rule.name, value, rule.text, unit, precision, rule.kind, rule.name, rule.section)


def attributes(kernel: Kernel, style: Style) -> dict[str, Any]:
    """Attributes of the device by name without their prefix: numbers, or texts."""
    found = {}
    for one in kernel.printed:
        if one.name.startswith(DEVICE):
            number = style.read(one.text)
            value: Any = one.text if number is None else number[0]
            found[one.name.removeprefix(DEVICE)] = int(value) if number and value.is_integer() else value
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
    value, parenthesis, each = text.partition("(")
    value, each = value.rstrip(), each.removesuffix(")")
    if not (parenthesis and text.endswith(")") and each) or (value and style.read(value) is None):
        return text, []
    return value or "n/a", [part.strip() for part in each.split(";")]


def _filled(empty: Measure, text: str, number: tuple[float, float] | None) -> Measure:
    value, precision = number or (None, None)
    said = text if number is None else None
    return Measure(empty[0], value, said, empty[3], precision, empty[5], empty[6], empty[7])


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
