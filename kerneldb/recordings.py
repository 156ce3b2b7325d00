"""What the folder of a recording holds: bundle.json and power.ndjson, format version 1.

`kerneldb.replay.recording` writes them, `kerneldb.ingest.bundle` reads them, from whomever they come: every value is
of the type that stands here, and files are named by plain names, so that no name leads out of the folder.

Standard library only: recordings are made where little else is installed.
"""

from __future__ import annotations

import dataclasses
import json
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, Final, Literal

from kerneldb import codec
from kerneldb.errors import NotATraceError, UnreadableTraceError

NAME: Final = "bundle.json"
POWER: Final = "power.ndjson"
FORMAT: Final = "kerneldb recording"
VERSION: Final[Literal[1]] = 1
EAGER: Final = "eager"
CAPTURE: Final = "cuda_graph_capture"
"""The mode of what was called while the graph of a workload was captured; nothing is measured of it."""
LARGEST: Final = (1 << 31) - 1
Bytes = Annotated[int, codec.Between(0, codec.LARGEST)]
LONGEST_NAME: Final = 255
ALWAYS: Final = ("version", "kerneldb", "label", "finished", "software", "meter", "powers")
"""What bundle.json says also where there is nothing to say: readers before this one ask for it."""


@dataclass(frozen=True, slots=True)
class Measurement:
    """A quantity with its 95 % interval, over all repetitions or of one of them; without a value, the reason why.

    `n`: iterations that it was measured over. `measured_at`: UTC.
    """

    quantity: str
    value: float | None = None
    low: float | None = None
    high: float | None = None
    unit: str | None = None
    n: int | None = None
    method: str | None = None
    reason: str | None = None
    repetition: int | None = None
    measured_at: str | None = None

    def __post_init__(self) -> None:
        """Refuse a repetition that the database has no place for."""
        _check_number("repetition", self.repetition)


@dataclass(frozen=True, slots=True)
class Reading:
    """What a meter showed: a line of power.ndjson, while a workload ran or (no `mode`) around the work.

    In the journal of a replay, `workload` says what ran during the energy measurement: idle, gap, anchor or an item.
    """

    workload: str = dataclasses.field(metadata={codec.OLDER: "stage"})
    epoch_ns: int
    mode: str | None = None
    energy_mj: float | None = None
    power_w: float | None = None
    memory_power_w: float | None = None
    sm_mhz: float | None = None
    memory_mhz: float | None = None
    temperature_c: float | None = None
    gpu_util_pct: float | None = None
    memory_util_pct: float | None = None
    throttle: str | None = None


@dataclass(frozen=True, slots=True)
class Traced:
    """A trace in the folder, and per iteration the GPU-busy time and the number of launches on the device.

    `busy_ns` is None where collectives wait for other ranks for nobody knows how long. `sha256` and `bytes` are those
    of the decompressed text, which the identity of the trace in a database comes from.
    """

    file: str
    sha256: str
    bytes: int = 0
    iterations: int = 0
    launches: float | None = None
    busy_ns: float | None = None
    execution_trace: str | None = None

    def __post_init__(self) -> None:
        """Refuse names that are not those of files in the folder."""
        _check_path("file", [self.file])
        _check_path("execution_trace", [self.execution_trace or self.file])


@dataclass(slots=True)
class Part:
    """A workload in a mode: `measurements` (None: not yet), then its trace, or the `reason` why it is not recorded."""

    workload: str = dataclasses.field(metadata={codec.OLDER: "stage"})
    mode: str
    tags: Mapping[str, str] = dataclasses.field(default_factory=dict)
    measurements: Sequence[Measurement] | None = None
    trace: Traced | None = None
    of_trace: Sequence[Measurement] = ()
    reason: str | None = None

    @property
    def label(self) -> str:
        """`prefill`, or `prefill (cuda_graph)`."""
        return self.workload if self.mode == EAGER else f"{self.workload} ({self.mode})"

    @property
    def rows(self) -> tuple[Measurement, ...]:
        """What was measured, and what the trace says."""
        return (*(self.measurements or ()), *self.of_trace)


@dataclass(frozen=True, slots=True)
class Device:
    """What `software` says of the device that was measured."""

    device: int | None = None
    gpu: str | None = None
    uuid: str | None = None

    def __post_init__(self) -> None:
        """Refuse an index that the database has no place for."""
        _check_number("device", self.device)


@dataclass(slots=True)
class Recording:
    """The content of bundle.json.

    `settings` are what a resumed recording must agree with, `software` versions and facts of the device, `powers` what
    the device draws around the work. `power_bytes` of power.ndjson count. `sources`: paths of what compilers wrote.
    `rank` and `world_size` are those of one rank of a job.
    """

    name: str
    version: Literal[1] = VERSION
    parts: Sequence[Part] = ()
    label: str | None = None
    model: str | None = None
    rank: int | None = None
    world_size: int | None = None
    kerneldb: str | None = None
    started: str | None = None
    finished: str | None = None
    settings: Mapping[str, Any] = dataclasses.field(default_factory=dict)
    software: Mapping[str, Any] = dataclasses.field(default_factory=dict)
    meter: Mapping[str, Any] = dataclasses.field(default_factory=dict)
    powers: Sequence[Measurement] = ()
    power_bytes: Bytes = 0
    sources: Sequence[str] = ()

    def __post_init__(self) -> None:
        """Refuse what fits no folder and no database."""
        for name in ("rank", "world_size"):
            _check_number(name, getattr(self, name))
        if (self.rank is None) != (self.world_size is None):
            message = "one of 'rank' and 'world_size' is missing"
            raise codec.CodecError(message)
        for path in self.sources:
            _check_path("sources", path.split("/"))
        self.device()

    def device(self) -> Device:
        """The device that was measured. Raises CodecError."""
        try:
            return codec.decode(Device, self.software)
        except codec.CodecError as error:
            raise error.inside("software") from None

    @property
    def traced(self) -> list[tuple[Part, Traced]]:
        """The parts that have a trace, with it."""
        return [(part, part.trace) for part in self.parts if part.trace is not None]

    def text(self) -> str:
        """As bundle.json."""
        always = {name: getattr(self, name) for name in ALWAYS}
        return json.dumps({"format": FORMAT, **always, **codec.encode(self)}, indent=1) + "\n"

    def files(self) -> list[str]:
        """Names of files that belong to it, whether they are there or not."""
        named = (name for _, trace in self.traced for name in (trace.file, trace.execution_trace))
        return [POWER, *filter(None, named), *self.sources]


def load(folder: Path) -> Recording:
    """What bundle.json in `folder` says.

    Raises NotATraceError where another program wrote it, UnreadableTraceError where it is damaged or of a newer
    kerneldb, or where a file of it is a link that leads out of the folder.
    """
    path = folder / NAME
    try:
        data = codec.parse(path.read_text(encoding="utf-8"))
        head = data if isinstance(data, dict) else {"format": FORMAT}
        version, ours = head.get("version"), head.get("format") == FORMAT
        newer = ours and isinstance(version, int) and version > VERSION
        if ours and not newer:
            found = codec.decode(Recording, data)
            _check_links(folder, found)
            return found
    except (OSError, ValueError, RecursionError) as error:
        reason = "".join(one if one.isprintable() else " " for one in str(error))
        message = f"{path}: cannot be read ({reason}). Copy or record it again."
        raise UnreadableTraceError(message) from error
    if newer:
        message = f"{path}: written by a newer kerneldb. Update this one."
        raise UnreadableTraceError(message)
    message = f"{path}: no recording of kerneldb, although it is called so. Give the trace files themselves."
    raise NotATraceError(message)


def present(folder: Path, recording: Recording) -> list[Path]:
    """The traces of a recording that lie in its folder."""
    return [path for path in (folder / trace.file for _, trace in recording.traced) if path.is_file()]


def _check_links(folder: Path, found: Recording) -> None:
    whole = os.path.realpath(folder)
    for name in found.files():
        if not Path(os.path.realpath(folder / name)).is_relative_to(whole):
            message = f"{name} is a link out of the folder"
            raise ValueError(message)


def _check_number(place: str, value: int | None) -> None:
    if value is not None and not 0 <= value <= LARGEST:
        message = f"expected a number from 0 to {LARGEST}, found {value}"
        raise codec.CodecError(message, place)


def _check_path(place: str, steps: Sequence[str]) -> None:
    """Refuse a path that could lead out of the folder, by its steps."""
    for step in steps:
        if step in ("", ".", "..") or not {*step}.isdisjoint("/\\\0") or len(os.fsencode(step)) > LONGEST_NAME:
            message = f"expected the name of a file in the folder, found {json.dumps('/'.join(steps))[:80]}"
            raise codec.CodecError(message, place)
