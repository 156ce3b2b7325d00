"""The folder of a recording: what is in it, and writing it so that it is whole after each step.

    bundle.json                    model, settings, versions, measurements, and the list of the files below
    prefill.pt.trace.json.gz       PyTorch trace of a stage (prefill.cuda_graph.… under CUDA graphs)
    prefill.et.json.gz             Execution Trace of the same iterations
    power.ndjson                   readings of the meter, one JSON object per line
    triton/                        sources of compiled kernels, where there are any

bundle.json is replaced as a whole, and only names files that are complete: a recording that was killed lacks what
bundle.json does not name, nothing else. Neither environment nor command line are in it.
"""

from __future__ import annotations

import dataclasses
import importlib.metadata
import json
import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Final

from kerneldb.errors import UsageError
from kerneldb.replay import facts
from kerneldb.replay.measure.energy.meter import Sample
from kerneldb.replay.recording.errors import RecordError
from kerneldb.replay.recording.quantities import Row
from kerneldb.replay.recording.settings import Settings
from kerneldb.replay.recording.tracing import Traced

NAME: Final = "bundle.json"
POWER: Final = "power.ndjson"
FORMAT: Final = "kerneldb recording"
VERSION: Final = 1
FREE: Final = frozenset({"device"})
"""Settings that a resumed recording may change."""

Part = dict[str, Any]


class Bundle:
    """A recording's folder, open for writing. `content` is what bundle.json holds."""

    def __init__(self, folder: Path, content: dict[str, Any]) -> None:
        self.folder = folder
        self.content = content

    @property
    def parts(self) -> list[Part]:
        """The stages, one entry per stage and mode."""
        found: list[Part] = self.content["parts"]
        return found

    def part(self, stage: str, mode: str) -> Part:
        """The entry of one stage and mode."""
        return next(one for one in self.parts if (one["stage"], one["mode"]) == (stage, mode))

    def save(self) -> None:
        """Replace bundle.json."""
        unfinished = self.folder / f".{NAME}.tmp"
        with unfinished.open("w", encoding="utf-8") as file:
            json.dump(self.content, file, indent=1)
            file.write("\n")
            file.flush()
            os.fsync(file.fileno())
        unfinished.replace(self.folder / NAME)

    def note(self, **facts_: Any) -> None:
        """Set facts of the whole recording."""
        self.content.update(facts_)
        self.save()

    def measured(self, stage: str, mode: str, rows: Sequence[Row], samples: Sequence[Sample]) -> None:
        """Keep the measurements of a stage, with the readings taken meanwhile."""
        self._keep(samples, stage, mode)
        self.part(stage, mode).update(measurements=list(rows))
        self.save()

    def traced(self, stage: str, mode: str, found: Traced, rows: Sequence[Row], samples: Sequence[Sample]) -> None:
        """Keep the trace of a stage, with what it says per iteration."""
        self._keep(samples, stage, mode)
        self.part(stage, mode).update(trace=dataclasses.asdict(found), of_trace=list(rows))
        self.save()

    def powers(self, rows: Sequence[Row], samples: Mapping[str, Sequence[Sample]]) -> None:
        """Keep what the device draws around the work."""
        for stage, readings in samples.items():
            self._keep(readings, stage, None)
        known = {one["quantity"]: one for one in (*self.content["powers"], *rows)}
        self.note(powers=list(known.values()))

    def failed(self, stage: str, mode: str, reason: str) -> None:
        """A stage that cannot be recorded in this mode."""
        self.part(stage, mode)["reason"] = reason
        self.save()

    def _keep(self, samples: Sequence[Sample], stage: str, mode: str | None) -> None:
        """Append readings; bundle.json says how many bytes of the file count, so that a torn line does not."""
        if not samples:
            return
        path, size = self.folder / POWER, int(self.content.get("power_bytes", 0))
        path.touch()
        lines = "".join(json.dumps(_reading(one, stage, mode)) + "\n" for one in samples)
        with path.open("r+b") as file:
            file.truncate(size)
            file.seek(size)
            file.write(lines.encode())
            file.flush()
            os.fsync(file.fileno())
        self.content["power_bytes"] = size + len(lines.encode())


def _reading(sample: Sample, stage: str, mode: str | None) -> dict[str, Any]:
    known = {key: value for key, value in dataclasses.asdict(sample).items() if value is not None}
    known.pop("monotonic_ns", None)
    return {"stage": stage, **({} if mode is None else {"mode": mode}), **known}


def start(folder: Path, settings: Settings, *, resume: bool) -> Bundle:
    """A new recording in `folder`, or the one that is there.

    Raises UsageError where there is one and `resume` is false, or where it was made with other settings.
    """
    if (folder / NAME).exists():
        if not resume:
            message = (
                f"{folder}: there is a recording already. --resume goes on with it; --output FOLDER makes another."
            )
            raise UsageError(message)
        return _resumed(folder, settings)
    if folder.exists() and any(folder.iterdir()):
        message = f"{folder}: not empty, and no recording. Give another folder: --output FOLDER"
        raise UsageError(message)
    folder.mkdir(parents=True, exist_ok=True)
    made = Bundle(folder, _new(folder, settings))
    made.save()
    return made


def of_rank(folder: Path, rank: int) -> Path:
    """Where a rank of a job records, below the folder of the job."""
    return folder / f"rank{rank}"


def read_all(folder: Path) -> list[dict[str, Any]]:
    """What bundle.json holds: of the recording in `folder`, or of each rank of a job, in their order."""
    first = of_rank(folder, 0)
    if (folder / NAME).exists() or not (first / NAME).exists():
        return [read(folder)]
    ranks = range(int(read(first)["world_size"]))
    return [read(of_rank(folder, rank)) for rank in ranks]


def _new(folder: Path, settings: Settings) -> dict[str, Any]:
    return {
        "format": FORMAT,
        "version": VERSION,
        "kerneldb": _version(),
        "name": settings.name or folder.resolve().name,
        "label": settings.label,
        "model": settings.model,
        **({"rank": settings.rank, "world_size": settings.tp} if settings.tp > 1 else {}),
        "started": facts.now(),
        "finished": None,
        "settings": settings.kept(),
        "software": {},
        "meter": {},
        "powers": [],
        "parts": [{"stage": stage, "mode": mode, "tags": settings.tags(stage, mode)} for stage, mode in settings.parts],
    }


def _version() -> str | None:
    """The version of kerneldb; None where it runs from its sources."""
    try:
        return importlib.metadata.version("kerneldb")
    except importlib.metadata.PackageNotFoundError:
        return None


def _resumed(folder: Path, settings: Settings) -> Bundle:
    content = read(folder)
    before, now = content["settings"], json.loads(json.dumps(settings.kept()))
    other = sorted(key for key in {*before, *now} - FREE if before.get(key) != now.get(key))
    if other:
        was = ", ".join(f"{key} {before.get(key)}" for key in other)
        message = f"{folder}: was recorded with {was}. Give the same settings to --resume, or another --output."
        raise UsageError(message)
    for one in content["parts"]:
        one.pop("reason", None)
    return Bundle(folder, content)


def read(folder: Path) -> dict[str, Any]:
    """The content of bundle.json. Raises RecordError where it is damaged, or of a newer kerneldb."""
    path = folder / NAME
    try:
        content: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        message = f"{path}: cannot be read ({error}). Record again, into another folder."
        raise RecordError(message) from error
    if content.get("format") != FORMAT or int(content.get("version", 0)) > VERSION:
        message = f"{path}: written by another or newer program. Update kerneldb."
        raise RecordError(message)
    return content
