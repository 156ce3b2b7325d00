"""What a user may allow agents: to run what traces recorded on a device, and to store what was measured."""

from __future__ import annotations

import dataclasses
import json
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Final

from kerneldb.agents import answers
from kerneldb.agents.answers import Page, of_statement, together
from kerneldb.errors import KerneldbError
from kerneldb.replay.rewrites import patching

if TYPE_CHECKING:
    from collections.abc import Sequence

    from kerneldb.agents.answers import Answer
    from kerneldb.api import Database

RUN_S: Final = 600.0


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
        command = [sys.executable, "-P", "-m", "kerneldb", "--db", place.uri if place.is_lake else str(place.path)]
        try:
            done = subprocess.run(  # noqa: S603 (this program)
                [*command, *words], stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=RUN_S, check=False
            )
        except subprocess.TimeoutExpired as error:
            raise KerneldbError(f"{what} took longer than {RUN_S:g} s; choose less") from error
        if done.returncode != 0:
            raise KerneldbError(f"{what} failed: {done.stderr.strip()[-4 * answers.TEXT :]}")
        return done.stdout
