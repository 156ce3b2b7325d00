"""The folder of a recording: what is in it, and writing it so that it is whole after each step.

    bundle.json                    model, settings, versions, measurements, and the list of the files below
    prefill.pt.trace.json.gz       PyTorch trace of a workload (prefill.cuda_graph.… under CUDA graphs)
    prefill.et.json.gz             Execution Trace of the same iterations
    prefill.cuda_graph_capture.…   both, of what was called while the graph was captured
    power.ndjson                   readings of the meter, one JSON object per line
    triton/                        sources of compiled kernels, where there are any

bundle.json (`kerneldb.recordings`) is replaced as a whole, and only names files that are complete: a recording that was
killed lacks what bundle.json does not name, nothing else. Neither environment nor command line are in it.
"""

from __future__ import annotations

import importlib.metadata
import json
import os
from collections.abc import Sequence
from pathlib import Path
from typing import IO, Any, Final

from kerneldb import codec, files, recordings
from kerneldb.errors import UsageError
from kerneldb.recordings import CAPTURE, NAME, POWER, Measurement, Part, Recording
from kerneldb.replay import facts
from kerneldb.replay.measure.energy.meter import Sample
from kerneldb.replay.recording.settings import Settings

FREE: Final = frozenset({"device"})
"""Settings that a resumed recording may change."""


class Bundle:
    """A recording's folder, open for writing. `content` is what bundle.json holds."""

    def __init__(self, folder: Path, content: Recording) -> None:
        self.folder = folder
        self.content = content

    def note(self, **facts_: Any) -> None:
        """Set facts of the whole recording, and replace bundle.json."""
        for name, value in facts_.items():
            setattr(self.content, name, value)
        with files.written(self.folder / NAME) as file:
            _write(file, self.content.text())

    def keep(self, part: Part, samples: Sequence[Sample], **found: Any) -> None:
        """Keep what was found of a workload, with the readings taken meanwhile."""
        self._append(samples, part.workload, part.mode)
        for name, value in found.items():
            setattr(part, name, value)
        self.note()

    def keep_power(self, name: str, rows: Sequence[Measurement], samples: Sequence[Sample]) -> None:
        """Keep what the device draws around the work."""
        self._append(samples, name, None)
        known = {one.quantity: one for one in (*self.content.powers, *rows)}
        self.note(powers=list(known.values()))

    def _append(self, samples: Sequence[Sample], workload: str, mode: str | None) -> None:
        """Append readings; bundle.json says how many bytes of the file count, so that a torn line does not."""
        if not samples:
            return
        path = self.folder / POWER
        with files.naming(path), path.open("ab") as file:
            file.truncate(self.content.power_bytes)
            _write(file, "".join(f"{codec.dump(one.reading(workload, mode))}\n" for one in samples))
            self.content.power_bytes = file.tell()


def _write(file: IO[bytes], text: str) -> None:
    """Write, and wait until it is on the disk."""
    file.write(text.encode())
    file.flush()
    os.fsync(file.fileno())


def start(folder: Path, settings: Settings, *, resume: bool) -> Bundle:
    """A new recording in `folder`, or the one that is there.

    Raises UsageError where there is one and `resume` is false, or where it was made with other settings.
    """
    if (folder / NAME).exists():
        if not resume:
            raise UsageError(
                f"{folder}: there is a recording already. --resume goes on with it; --output FOLDER makes another."
            )
        found = recordings.load(folder)
        before, now = found.settings, json.loads(json.dumps(settings.kept()))
        other = sorted(key for key in {*before, *now} - FREE if before.get(key) != now.get(key))
        if other:
            was = ", ".join(f"{key} {before.get(key)}" for key in other)
            message = f"{folder}: was recorded with {was}. Give the same settings to --resume, or another --output."
            raise UsageError(message)
        for part in found.parts:
            part.reason = None
        return Bundle(folder, found)
    if folder.exists() and any(folder.iterdir()):
        raise UsageError(f"{folder}: not empty, and no recording. Give another folder: --output FOLDER")
    folder.mkdir(parents=True, exist_ok=True)
    made = Bundle(folder, _new(folder, settings))
    made.note()
    return made


def of_rank(folder: Path, rank: int) -> Path:
    """Where a rank of a job records, below the folder of the job."""
    return folder / f"rank{rank}"


def read_all(folder: Path) -> list[Recording]:
    """What bundle.json holds: of the recording in `folder`, or of each rank of a job, in their order."""
    first = of_rank(folder, 0)
    if (folder / NAME).exists() or not (first / NAME).exists():
        return [recordings.load(folder)]
    ranks = range(recordings.load(first).world_size or 1)
    return [recordings.load(of_rank(folder, rank)) for rank in ranks]


def _new(folder: Path, settings: Settings) -> Recording:
    return Recording(
        name=settings.name or folder.resolve().name,
        parts=[Part(*part, settings.tags(*part)) for part in settings.parts],
        label=settings.label,
        model=settings.model,
        rank=settings.rank if settings.tp > 1 else None,
        world_size=settings.tp if settings.tp > 1 else None,
        kerneldb=_version(),
        started=facts.now(),
        settings=settings.kept(),
    )


def _version() -> str | None:
    """The version of kerneldb; None where it runs from its sources."""
    try:
        return importlib.metadata.version("kerneldb")
    except importlib.metadata.PackageNotFoundError:
        return None


QUANTITIES: Final = ("wall_ns", "energy_mj", "busy_ns", "tokens", "iterations", "launches", "power_w")
NOTHING: Final = Measurement("")
Row = dict[str, Any]


def columns(contents: Sequence[Recording]) -> tuple[str, ...]:
    """The columns of recordings: those of a job tell the rank."""
    rank, *others = _row(Part("", ""), Recording(""))
    return (rank, *others) if any(one.rank is not None for one in contents) else tuple(others)


def rows(contents: Sequence[Recording]) -> list[Row]:
    """The rows of bundle.jsons. All figures are per iteration; what is not known is None."""
    return [_row(part, content) for content in contents for part in content.parts if part.mode != CAPTURE]


def _row(part: Part, content: Recording) -> Row:
    found = {one.quantity: one for one in part.rows if one.repetition is None}
    known = {name: found.get(name, NOTHING) for name in QUANTITIES}
    value = {name: one.value for name, one in known.items()}
    wall, energy, tokens = value["wall_ns"], value["energy_mj"], value["tokens"]
    asked = "wall_ns" in found or not content.settings.get("trace_only")
    return {
        "rank": content.rank,
        "workload": part.workload,
        "mode": part.mode,
        "iterations": value["iterations"] and round(value["iterations"]),
        "wall_ms": _over(wall, 1e6),
        "wall_error_pct": _error(known["wall_ns"]),
        "busy_pct": _over(value["busy_ns"], wall, 100),
        "launches": value["launches"],
        "energy_mj": energy,
        "energy_error_pct": _error(known["energy_mj"]),
        "power_w": value["power_w"],
        "tokens_per_s": _over(tokens, wall, 1e9),
        "j_per_token": _over(energy, tokens, 1e-3),
        "reason": part.reason or (known["energy_mj"].reason if asked else "not measured: --trace-only"),
    }


def _over(value: float | None, by: float | None, times: float = 1.0) -> float | None:
    return None if value is None or not by else value / by * times


def _error(one: Measurement) -> float | None:
    """Half of the 95 % interval, in percent of the value."""
    return None if one.low is None or one.high is None else _over((one.high - one.low) / 2, one.value, 100)


def text(contents: Sequence[Recording]) -> str:
    """The rows as a table of text, for machines where nothing else prints one."""
    names = columns(contents)
    shown = [names, *(tuple(_cell(one[name]) for name in names) for one in rows(contents))]
    padded = [[cell.ljust(max(map(len, column))) for cell in column] for column in zip(*shown, strict=True)]
    return "".join("  ".join(line).rstrip() + "\n" for line in zip(*padded, strict=True))


def _cell(value: Any) -> str:
    return "" if value is None else f"{value:.5g}" if isinstance(value, float) else str(value)
