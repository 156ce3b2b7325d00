"""What a user may allow agents: to run what traces recorded on a device, and to store what was measured."""

from __future__ import annotations

import dataclasses
import json
import os
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import TYPE_CHECKING, Final

from kerneldb.agents import answers
from kerneldb.agents.answers import Page, of_statement, together
from kerneldb.errors import KerneldbError
from kerneldb.replay.rewrites import patching
from kerneldb.warehouse.execute import held

if TYPE_CHECKING:
    from collections.abc import Sequence

    from kerneldb.agents.answers import Answer
    from kerneldb.api import Database

PROGRAM: Final = (sys.executable, "-P", "-m", "kerneldb.agents.child")
RUN_S: Final = 600.0
END_S: Final = 10.0
"""How long a command that nobody waits for any more may take to store what it has."""


@dataclasses.dataclass(frozen=True, slots=True)
class Runner:
    """Runs commands of kerneldb that the user allowed when the server was started."""

    database: Database
    allowed: frozenset[str]

    def replay(self, launches: Sequence[str], *, dry_run: bool) -> Answer:
        """Run launches again; what was measured, or the plan."""
        said = self._run("replay", ["replay", *launches, *(["--dry-run"] if dry_run else [])])
        if dry_run:
            return together({}, plan=answers.plain(json.loads(said)))
        return together({"replays": of_statement(self.database, "agents_replays", {}, Page())})

    def counters(self, launches: Sequence[str], sets: str, chosen: Page) -> Answer:
        """Read hardware counters of launches; what there is of them then."""
        self._run("counters", ["replay", "--counters", sets, *launches])
        return together({"counters": of_statement(self.database, "agents_counters", {}, chosen)})

    def improve(self, trace: str, options: Sequence[str], *, dry_run: bool) -> Answer:
        """Try rewrites in a step of a trace; what came of each, and the patch."""
        if dry_run:
            said = self._run("improve", ["improve", *options, "--dry-run", "--format", "json", "--", trace])
            return together({}, plan=answers.plain(json.loads(said)))
        with tempfile.TemporaryDirectory() as folder:
            patch = Path(folder) / "patch.py"
            self._run("improve", ["improve", *options, "--patch", str(patch), "--", trace])
            text = patch.read_text(encoding="utf-8")
        tried = of_statement(self.database, "improvements", {"names": [trace]}, Page())
        return together({"improvements": tried}, patch=None if patching.MARK in text else text)

    def _run(self, what: str, words: Sequence[str]) -> str:
        """What a command prints: in a process of its own, whose output is no part of this server's.

        Raises KerneldbError where it is not allowed, and where it fails.
        """
        if what not in self.allowed:
            raise KerneldbError(
                f"this server may not run anything: its user starts it with --allow {what} to allow that"
            )
        place = self.database.warehouse.place
        self.database.close()
        command = [*PROGRAM, str(os.getpid()), "--db", place.uri if place.is_lake else str(place.path)]
        done = _Command([*command, *words])
        with held(done):
            code, printed, said = done.result()
        if code is None:
            raise KerneldbError(f"{what} took longer than {RUN_S:g} s; choose less")
        if code != 0:
            raise KerneldbError(f"{what} failed: {said.strip()[-4 * answers.TEXT :]}")
        return printed


class _Command:
    """A command in a process of its own, which is asked to end, and ended where it does not."""

    def __init__(self, words: Sequence[str]) -> None:
        self._asked: float | None = None
        self._process = subprocess.Popen(  # noqa: S603 (this program)
            words,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            start_new_session=True,
        )

    def result(self) -> tuple[int | None, str, str]:
        """Its exit code (None where it took too long), and what it wrote to standard output and error."""
        with self._process:
            try:
                printed, said = self._process.communicate(timeout=RUN_S)
            except subprocess.TimeoutExpired:
                self._process.kill()
                return None, "", ""
        return self._process.returncode, printed, said

    def interrupt(self) -> None:
        """As Ctrl-C: it stores what it has, and ends its workers; they end with it in any case."""
        if self._asked is None:
            self._asked = time.monotonic()
            self._process.send_signal(signal.SIGINT)
        elif time.monotonic() - self._asked > END_S:
            self._process.kill()
