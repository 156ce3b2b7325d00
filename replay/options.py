"""The options of a replay: one definition, from which the command lines, the screen and the worker have theirs.

Fields of any dataclass may say by a `Flag` how command lines show them; `add_flags` makes them options of argparse.
"""

from __future__ import annotations

import argparse
import dataclasses
import typing
from dataclasses import dataclass
from typing import Any, Final

from kerneldb.shell import valued

CACHES: Final = ("cold", "warm", "mixed")


@dataclass(frozen=True, slots=True)
class Flag:
    """How a command line shows an option: its `help`, another `name` than the field's, allowed values, the least one.

    `expert` options are those of the module that runs on a machine without a database only.
    """

    help: str
    name: str | None = None
    metavar: str | None = None
    choices: tuple[str, ...] = ()
    least: float | None = None
    expert: bool = False


def option(default: Any, flag: Flag) -> Any:
    """A field that command lines show."""
    return dataclasses.field(default=default, metadata={"flag": flag})


@dataclass(frozen=True, slots=True)
class Options:
    """How to replay.

    Attributes:
        device: torch device text, `cuda:0` or `cpu`.
        cache: cold, warm or mixed (see `kerneldb.replay.measure.inputs`).
        runs: timed runs of a call in its first session; three times as many where they do not settle.
        warmup: calls before them.
        modules: modules to import first: they register operators, routes or meters.
        spacing: `idle` lets the device run dry before each timed call, as eager code that waits for its launches does;
            `queued` keeps the queue full.
        loops: whether to time CUDA-graph loops.
        tries: how many rebuilt calls to try until the recorded kernels come out.
        batch: calls per profiler session.
        item_seconds: a worker that is silent for longer than this, once it began with items, is killed.
        start_seconds: the same until a worker begins with its first item.
        energy: whether to measure energy, where there is a meter.
        energy_seconds: time for that; calls with least recorded time go without where it is not enough.
        allow_code: whether code that comes with the plan (sources of Triton kernels) may run.
        counters: sets of hardware counters (`kerneldb.gpus.counting.SETS`), or names of metrics, which are read instead
            of energy.
        counted: of each call of a step, the counters of so many are read.
        ncu: the profiler that reads them; None: the one on PATH, or where its installers put it.
        limit_seconds: the run stops after this time; what is left is marked as skipped. None: no limit.
    """

    device: str = option("cuda:0", Flag("cuda:N or cpu.", metavar="DEVICE"))
    cache: str = option("mixed", Flag("State of the L2.", choices=CACHES))
    runs: int = option(12, Flag("Timed calls.", least=1))
    warmup: int = option(3, Flag("Calls before them.", least=1))
    modules: tuple[str, ...] = option(
        (), Flag("Module to import first: it registers operators or routes.", "import", metavar="MODULE")
    )
    spacing: str = option("idle", Flag("Device before a timed call.", choices=("idle", "queued"), expert=True))
    loops: bool = option(default=True, flag=Flag("Time CUDA-graph loops.", expert=True))
    tries: int = option(10, Flag("Rebuilt calls to try.", least=1, expert=True))
    batch: int = option(64, Flag("Calls per profiler session.", least=1, expert=True))
    item_seconds: float = option(60.0, Flag("Patience with a silent worker.", metavar="S", least=0, expert=True))
    start_seconds: float = option(300.0, Flag("Patience until it begins.", metavar="S", least=0, expert=True))
    limit_seconds: float | None = option(None, Flag("Stop after so long; --resume goes on.", metavar="S", least=0))
    energy: bool = option(default=True, flag=Flag("Measure energy, where there is a meter."))
    energy_seconds: float = option(
        420.0,
        Flag("Time for energy; kernels with least time go without where it is not enough.", metavar="S", least=0),
    )
    allow_code: bool = option(default=False, flag=Flag("Run sources of Triton kernels that came with the traces."))
    counters: tuple[str, ...] = option(
        (),
        Flag(
            "Hardware counters instead of energy, by Nsight Compute (rocprofv3 on AMD): roofline, memory, compute, "
            "stalls, or names of metrics.",
            metavar="SET",
        ),
    )
    counted: int = option(4, Flag("Calls of each item of a step whose counters are read.", least=1, expert=True))
    ncu: str | None = option(None, Flag("Where that profiler is.", metavar="PATH"))

    def __post_init__(self) -> None:
        """Take `cuda` as the first device, and names of counters one by one."""
        if self.device == "cuda":
            object.__setattr__(self, "device", "cuda:0")
        names = (name.strip() for text in self.counters for name in text.split(","))
        object.__setattr__(self, "counters", tuple(dict.fromkeys(filter(None, names))))

    @property
    def on_cpu(self) -> bool:
        """Whether calls run on the CPU."""
        return self.device == "cpu"

    def arguments(self) -> list[str]:
        """The command-line options that mean the same, without those that hold their default."""
        found: list[str] = []
        for field, flag in flags(Options):
            value, name = getattr(self, field.name), switch(field.name, flag)
            if value == field.default:
                continue
            if isinstance(value, bool):
                found.append(name if value else f"--no-{name[2:]}")
            else:
                for one in value if isinstance(value, tuple) else (value,):
                    found += valued(name, f"{one:g}" if isinstance(one, float) else str(one))
        return found


def flags(options: type[Any]) -> list[tuple[dataclasses.Field[Any], Flag]]:
    """The fields of a dataclass that command lines show, with how they show each."""
    return [(field, field.metadata["flag"]) for field in dataclasses.fields(options) if "flag" in field.metadata]


def switch(field: str, flag: Flag) -> str:
    """The name of an option on a command line: `--energy-seconds`."""
    return f"--{(flag.name or field).replace('_', '-')}"


def scalar(options: type[Any], field: str) -> Any:
    """What one value of an option is: `int` for `int`, `int | None` and `tuple[int, ...]`."""
    kind = typing.get_type_hints(options)[field]
    return next(iter(typing.get_args(kind)), kind)


def add_flags(parser: argparse.ArgumentParser, options: type[Any]) -> None:
    """Add an option for each field that command lines show; what they are given decodes as `options`."""
    for field, flag in flags(options):
        kind = scalar(options, field.name)
        name, default = switch(field.name, flag), field.default
        same: dict[str, Any] = {"dest": field.name, "help": flag.help}
        if kind is bool:
            parser.add_argument(name, action=argparse.BooleanOptionalAction, default=default, **same)
        elif isinstance(default, tuple):
            parser.add_argument(name, action="append", default=[], metavar=flag.metavar, **same)
        else:
            checked = kind if flag.least is None else _at_least(kind, flag.least)
            same |= {"type": checked, "choices": flag.choices or None, "metavar": flag.metavar}
            parser.add_argument(name, default=default, **same)


def _at_least(kind: type[float], least: float) -> Any:
    """Reads a number that may not be smaller."""

    def number(text: str) -> float:
        value = kind(text)
        if value < least:
            raise argparse.ArgumentTypeError(f"{value} is less than {least:g}")
        return value

    return number
