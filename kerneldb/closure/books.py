"""The balance of one stage: what its kernels predict of time and energy, and how far that is from what was measured."""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING

from kerneldb.closure.duration import Time, timed
from kerneldb.closure.energy import Energy, powered
from kerneldb.closure.judging import Verdict, verdict

if TYPE_CHECKING:
    from collections.abc import Mapping

    from kerneldb.closure.model import Flow, Run, Stage
    from kerneldb.closure.sums import Sums


@dataclasses.dataclass(frozen=True, slots=True)
class Book:
    """A row of `closure`, in parts whose fields are named like its columns."""

    stage: Stage
    sums: Sums
    time: Time
    energy: Energy
    verdict: Verdict

    def row(self) -> Mapping[str, object]:
        """The row: what a later part says of a column goes before what an earlier one does."""
        parts = (self.stage, self.sums, self.time, self.energy, self.verdict)
        named = {field.name: getattr(part, field.name) for part in parts for field in dataclasses.fields(part)}
        return {**named, "model_mhz": self.stage.sm_mhz}


def book(stage: Stage, sums: Sums, flow: Flow, run: Run | None) -> Book:
    """The balance of a stage by the sums over its kernels; `run` measured the energy of most of them."""
    time = timed(stage, sums, flow)
    energy = powered(stage, sums, time, run)
    return Book(stage, sums, time, energy, verdict(stage, sums, time, energy))
