"""Recordings in the process of the tests: another one would import PyTorch again."""

from __future__ import annotations

import warnings
from typing import TYPE_CHECKING

from kerneldb.replay.recording import recorder

if TYPE_CHECKING:
    from pathlib import Path

    from kerneldb.replay.recording.ranks import Listener
    from kerneldb.replay.recording.settings import Settings


def run(settings: Settings, folder: Path, *, resume: bool, listen: Listener) -> bool:
    """In place of `ranks.run`. Warnings of torch and transformers are theirs."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        recorder.record(settings, folder, resume=resume, listen=listen)
    return True
