"""What a user may say about a file while ingesting it."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable

Progress = Callable[[int, int], None]
"""Called with (bytes read so far, bytes of the file)."""


@dataclasses.dataclass(frozen=True, slots=True)
class Options:
    """`phase` names the stage of a one-stage file; `run` groups the traces of one program run.

    `time_zone` is that of local times in logs (None: of this machine), `date` the day of logs that lack it.
    """

    label: str | None = None
    phase: str | None = None
    name: str | None = None
    run: str | None = None
    keep_environment: bool = False
    time_zone: str | None = None
    date: str | None = None
