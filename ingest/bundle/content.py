"""bundle.json of a recording: which files belong to it, and what it says of each."""

from __future__ import annotations

import dataclasses
import json
from pathlib import Path
from typing import Any, Final

from kerneldb.errors import NotATraceError, UnreadableTraceError
from kerneldb.ingest.bundle import NAME

FORMAT: Final = "kerneldb recording"
VERSION: Final = 1
Part = dict[str, Any]


@dataclasses.dataclass(frozen=True, slots=True)
class Recording:
    """A recording's folder and the content of its bundle.json."""

    folder: Path
    content: dict[str, Any]

    @property
    def parts(self) -> list[Part]:
        """Its stages, one entry per stage and mode."""
        found: list[Part] = self.content.get("parts", [])
        return found

    @property
    def traced(self) -> list[Part]:
        """The parts that have a trace."""
        return [part for part in self.parts if part.get("trace")]

    def part_of(self, path: Path) -> Part | None:
        """The part whose trace is the file."""
        return next((part for part in self.traced if part["trace"]["file"] == path.name), None)

    def unfinished(self) -> list[str]:
        """The parts that are neither traced nor given up."""
        return [label(part) for part in self.parts if not part.get("trace") and "reason" not in part]

    def missing(self) -> list[str]:
        """Files of traces that are not in the folder."""
        files = (part["trace"]["file"] for part in self.traced)
        return [name for name in files if not (self.folder / name).is_file()]


def label(part: Part) -> str:
    """`prefill`, or `prefill (cuda_graph)`."""
    return str(part["stage"]) if part["mode"] == "eager" else f"{part['stage']} ({part['mode']})"


def load(folder: Path) -> Recording:
    """The recording in `folder`. Raises UnreadableTraceError for a damaged or newer bundle.json."""
    path = folder / NAME
    try:
        content = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        message = f"{path}: cannot be read ({error}). Copy or record it again."
        raise UnreadableTraceError(message) from error
    if not isinstance(content, dict) or content.get("format") != FORMAT:
        message = f"{path}: no recording of kerneldb, although it is called so. Give the trace files themselves."
        raise NotATraceError(message)
    if int(content.get("version", 0)) > VERSION:
        message = f"{path}: written by a newer kerneldb. Update this one."
        raise UnreadableTraceError(message)
    return Recording(folder, content)


def _known(folder: Path) -> Recording | None:
    """The recording in `folder`; None where its bundle.json is something else."""
    try:
        return load(folder)
    except NotATraceError:
        return None


def belongs(path: Path) -> bool:
    """Whether the file is a trace of the recording beside it, or the bundle.json of one."""
    try:
        found = _known(path.parent)
    except UnreadableTraceError:
        return path.name == NAME
    return found is not None and (path.name == NAME or found.part_of(path) is not None)


def traces_in(folder: Path) -> list[Path] | None:
    """The traces of the recording in `folder`; None where there is none in it.

    Raises NotATraceError where no stage of it is finished, UnreadableTraceError where bundle.json is damaged.
    """
    found = _known(folder)
    if found is None:
        return None
    paths = [folder / part["trace"]["file"] for part in found.traced]
    present = [path for path in paths if path.is_file()]
    if not present:
        message = f"{folder}: a recording without a finished stage. Go on with it: kerneldb record … --resume"
        raise NotATraceError(message)
    return present
