"""One profiler session over many calls, each inside a marker of its own."""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import Any, Self

from kerneldb.replay.worker import activity
from kerneldb.replay.worker.activity import MARKER_PREFIX, Marked


class Session:
    """Profiles the block it is opened for; afterwards `seen` has the marked calls, by label, in time order.

    On a GPU it records kernels, copies and runtime calls; without one the operators with their shapes. Everything is
    read from one exported trace: the same text, names and launch fields as in a recorded one.
    """

    def __init__(self, *, gpu: bool) -> None:
        # `torch.profiler.profile` is the same, and imports torch._inductor (4 s with torch 2.11) to read one setting.
        from torch.autograd.profiler import profile

        self._gpu = gpu
        self._profile: Any = profile(use_device="cuda" if gpu else None, record_shapes=not gpu, use_kineto=True)
        self.seen: dict[str, list[Marked]] = {}

    def __enter__(self) -> Self:
        self._profile.__enter__()
        return self

    def __exit__(self, *raised: object) -> None:
        self._profile.__exit__(*raised)
        if raised == (None, None, None):
            self.seen = self._read()
        self._profile = None

    def _read(self) -> dict[str, list[Marked]]:
        with tempfile.TemporaryDirectory(prefix="kerneldb-replay-") as folder:
            path = Path(folder, "trace.json")
            self._profile.export_chrome_trace(str(path))
            found = activity.read(path, operators=not self._gpu)
        return {label.removeprefix(MARKER_PREFIX): marked for label, marked in found.items()}


def marker(label: str) -> Any:
    """A context for one call; `Session.seen` lists it under `label`."""
    from torch.autograd.profiler import record_function

    return record_function(f"{MARKER_PREFIX}{label}")
