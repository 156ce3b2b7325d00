"""Reports in ncu's own format (`.ncu-rep`), through NVIDIA's package `ncu_report` (extra `ncu-report`).

Values there are whole doubles in base units; neither ncu nor a GPU is needed. API: Nsight Compute Customization Guide,
Python Report Interface.
"""

from __future__ import annotations

import importlib
import itertools
import math
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

import polars as pl

from kerneldb.batch import Manifest
from kerneldb.errors import UnreadableTraceError
from kerneldb.ingest.ncu.convert import NO_KERNELS, Capture, PrintedFile, close, without_kernels
from kerneldb.ingest.ncu.kernels import DEVICE, RULE, Kernel, Measure, canonical
from kerneldb.ingest.ncu.numbers import Style, base_unit
from kerneldb.ingest.ncu.report_source import addresses, counters
from kerneldb.ingest.ncu.table import Log
from kerneldb.ingest.output import Report
from kerneldb.ingest.readers import Options, Progress, Unit
from kerneldb.ingest.source import Source, digest
from kerneldb.shell import command_line, file

Action = tuple[Kernel, list[Measure], dict[str, Any], pl.DataFrame]
"""A launch, its metrics, attributes of its device, and rows of `source_counters`."""
MODULE: Final = "ncu_report"
MOST_INSTANCES: Final = 256
"""Of a metric with more instances, which is neither per instruction nor sampled over time, the aggregate is kept."""
SAMPLED: Final = "pmsampling:"
"""What metrics begin with whose instances are samples at equal intervals."""
TYPES: Final = {"MsgType_OPTIMIZATION": "OPT", "MsgType_WARNING": "WRN", "MsgType_ERR": "ERR"}
SPEEDUPS: Final = {"SpeedupType_LOCAL": "local", "SpeedupType_GLOBAL": "global"}


def convert(unit: Unit, folder: Path, options: Options, progress: Progress | None = None) -> Manifest:
    """The spool of a report. Raises UnreadableTraceError where the package is missing or the report cannot be read."""
    path = unit.files[0]
    module = _module(path)
    source = Source(path)
    digest(source)
    report, capture = Report(), Capture(folder)
    for kernel, found, device, lines in _actions(module, path, report):
        capture.add(kernel, found, device, (path, "report"))
        capture.output.write("source_counters", lines)
    report.add("stored", "counters of instructions", capture.output.written["source_counters"])
    if not capture.known and ("skipped", NO_KERNELS) in report.counts:
        raise without_kernels(str(path))
    if not capture.known:
        message = (
            f"{path}: no profiled kernel in this report. It is damaged, empty, or newer than the installed {MODULE}: "
            "try `pip install --upgrade ncu-report`."
        )
        raise UnreadableTraceError(message)
    capture.flush()
    if progress is not None:
        progress(source.read_bytes, unit.stored_bytes)
    report.add("read", "workloads", len(capture.known))
    file = PrintedFile(source, Log(), Style(), ("report",), len(capture.known), 0, report)
    return close(capture, [file], options, "ncu-rep")


def _module(path: Path) -> Any:
    try:
        return importlib.import_module(MODULE)
    except ImportError as error:
        printing = command_line(["ncu", "--import", file(path.name), "--page", "raw", "--csv"])
        message = (
            f"{path}: a report of Nsight Compute is read through `pip install ncu-report`. Without it, "
            f"print the report: `{printing} > {command_line([file(f'{path.stem}.raw.csv')])}`."
        )
        raise UnreadableTraceError(message) from error


def _actions(module: Any, path: Path, report: Report) -> Iterator[Action]:
    # The package raises RuntimeError, ValueError or a SWIG type of its own for what it cannot read.
    try:
        context = module.load_report(str(path))
    except (OSError, RuntimeError, ValueError, TypeError, SystemError) as error:
        message = f"{path}: {MODULE} cannot read this report ({error}). Try `pip install --upgrade ncu-report`."
        raise UnreadableTraceError(message) from error
    number = itertools.count()
    kind = getattr(module.IAction, "WorkloadType_KERNEL", None)
    for index in range(context.num_ranges()):
        part = context.range_by_idx(index)
        for at in range(part.num_actions()):
            action = part.action_by_idx(at)
            if kind is None or not hasattr(action, "workload_type") or action.workload_type() == kind:
                yield _action(module, action, next(number), report)
            else:
                report.add("skipped", NO_KERNELS, 1)


def _action(module: Any, action: Any, number: int, report: Report) -> Action:
    values = {name: action.metric_by_name(name) for name in action.metric_names()}
    device = {
        name.removeprefix(DEVICE): metric.value()
        for name, metric in values.items()
        if name.startswith(DEVICE) and metric.value() is not None
    }
    plain = {name: metric for name, metric in values.items() if not name.startswith(DEVICE)}
    correlated = {name: (metric, where) for name, metric in plain.items() if (where := addresses(action, metric))}
    found = [one for name, metric in plain.items() for one in _metric(name, metric, report, alone=name in correlated)]
    found += [_rule(module, rule) for rule in action.rule_results_as_dicts()]
    identity = {"ID": str(number), "Kernel Name": action.name(module.IAction.NameBase_DEMANGLED)}
    identity |= _identity(values, device) | _ranges(action)
    lines = counters(action, number, identity["Kernel Name"], correlated)
    return Kernel(identity, "report"), found, device, lines


def _identity(values: dict[str, Any], device: dict[str, Any]) -> dict[str, str]:
    """The columns that pages print first, from the metrics that hold them here."""
    identity = {}
    for column, name in (("Context", "context_id"), ("Stream", "stream_id"), ("Device", "device_id")):
        metric = values.get(f"launch__{name}")
        if metric is not None and metric.value() is not None:
            identity[column] = str(int(metric.value()))
    for column, shape in (("Grid Size", "grid"), ("Block Size", "block")):
        axes = [values[name] for axis in "xyz" if (name := f"launch__{shape}_dim_{axis}") in values]
        if len(axes) == len("xyz"):
            identity[column] = f"({', '.join(str(int(axis.value())) for axis in axes)})"
    major, minor = device.get("compute_capability_major"), device.get("compute_capability_minor")
    return identity | ({"CC": f"{int(major)}.{int(minor or 0)}"} if major is not None else {})


def _ranges(action: Any) -> dict[str, str]:
    """NVTX ranges of all domains, in the form of the printed columns."""
    state = action.nvtx_state()
    if state is None:
        return {}
    domains = [state.domain_by_id(identity) for identity in state.domains()]
    pushed = [_printed(name) for domain in domains for name in domain.push_pop_ranges()]
    started = [_printed(name) for domain in domains for name in domain.start_end_ranges()]
    return {"thread Domain:Push/Pop_Range": " ".join(pushed), "Id:Domain:Start/Stop_Range": " ".join(started)}


def _printed(name: str) -> str:
    return f'"domain:{name}:none:none:none:none:none:none"'


def _metric(name: str, metric: Any, report: Report, *, alone: bool) -> Iterator[Measure]:
    """The aggregate and the instances of a metric; `alone`: its instances are stored elsewhere."""
    exponent, unit = base_unit(metric.unit() or "")
    scale = 10.0**exponent
    printed = canonical(name)
    yield _measure(printed, name, metric.value(), scale, unit, None)
    instances = 0 if alone else metric.num_instances()
    if instances > MOST_INSTANCES and not name.startswith(SAMPLED):
        report.add("skipped", f"instances of metrics with more than {MOST_INSTANCES} of them", instances)
        return
    for index in range(instances):
        yield _measure(printed, name, metric.value(index), scale, unit, str(index))


def _measure(metric: str, name: str, value: Any, scale: float, unit: str | None, instance: str | None) -> Measure:
    if isinstance(value, int | float) and math.isfinite(value):
        return Measure(metric, float(value) * scale, None, unit, 0.0, instance, name, None)
    return Measure(metric, None, "n/a" if value is None else str(value), unit, None, instance, name, None)


def _rule(module: Any, rule: dict[str, Any]) -> Measure:
    message = rule.get("rule_message") or {}
    speedup = rule.get("speedup_estimation") or {}
    kind = _constant(module, TYPES, message.get("type")) or "INF"
    value = speedup.get("speedup")
    unit = f"% {_constant(module, SPEEDUPS, speedup.get('type'))}" if value is not None else None
    name = rule.get("rule_identifier") or rule.get("name") or ""
    return Measure(RULE + name, value, message.get("message"), unit, 0.0, kind, name, rule.get("section_identifier"))


def _constant(module: Any, known: dict[str, str], value: Any) -> str:
    """The short name of a value of an enumeration of the package; '' for others."""
    return next((short for name, short in known.items() if getattr(module, name, None) == value), "")
