"""What outlasts a session: conditions, statements and files that were used, in the state folder of the user."""

from __future__ import annotations

import contextlib
import json
import os
from pathlib import Path
from typing import Final, Literal

Kind = Literal["where", "sql", "files"]
MOST: Final = 200


def default_place() -> Path:
    """`$XDG_STATE_HOME/kerneldb/history.json`; the folder is `~/.local/state` where the variable is not set."""
    folder = os.environ.get("XDG_STATE_HOME") or Path.home() / ".local" / "state"
    return Path(folder) / "kerneldb" / "history.json"


class SavedHistory:
    """Texts by kind, the latest first. Without a place, they last as long as the program.

    A file that cannot be read counts as empty, and one that cannot be written is left: nothing depends on it.
    """

    def __init__(self, place: Path | None = None) -> None:
        self.place = place
        self._texts = _read(place) if place is not None else {}

    def texts(self, kind: Kind) -> list[str]:
        """What was used before, the latest first."""
        return list(self._texts.get(kind, ()))

    def add(self, kind: Kind, text: str) -> None:
        """Put `text` first. What other sessions wrote meanwhile is kept."""
        if not text.strip() or self._texts.get(kind, [])[:1] == [text]:
            return
        if self.place is not None:
            self._texts |= _read(self.place)
        self._texts[kind] = list(dict.fromkeys([text, *self._texts.get(kind, ())]))[:MOST]
        if self.place is not None:
            with contextlib.suppress(OSError):
                _write(self.place, self._texts)


def _read(place: Path) -> dict[str, list[str]]:
    try:
        found = json.loads(place.read_text())
    except (OSError, ValueError):
        return {}
    if not isinstance(found, dict):
        return {}
    return {
        kind: [text for text in texts if isinstance(text, str)]
        for kind, texts in found.items()
        if isinstance(texts, list)
    }


def _write(place: Path, texts: dict[str, list[str]]) -> None:
    """Whole or not at all; for the user alone, for conditions may name what is private."""
    place.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
    part = place.with_suffix(f".{os.getpid()}")
    part.unlink(missing_ok=True)
    with os.fdopen(os.open(part, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "w", encoding="utf-8") as file:
        file.write(json.dumps(texts, indent=1))
    part.replace(place)
