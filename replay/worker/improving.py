"""The process that tries rewrites in the steps of a plan: one JSON line of results each (`wire/improvements.py`).

python -P -m kerneldb.replay.worker.improving PLAN RESULTS [--device cuda:0] [--seconds 120] [--allow precision]
"""

from __future__ import annotations

import argparse
import dataclasses
import sys
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any, Final

from kerneldb import codec
from kerneldb.errors import KerneldbError
from kerneldb.replay import facts, processes, rewrites
from kerneldb.replay.options import Options
from kerneldb.replay.rewrites.flow import CHOSEN, FRAMES, Flow, Frame, Frames
from kerneldb.replay.rewrites.search import Search, energies
from kerneldb.replay.rewrites.trial import Bench
from kerneldb.replay.wire import plan
from kerneldb.replay.wire.improvements import Improvement, Times
from kerneldb.replay.wire.plan import Plan
from kerneldb.replay.wire.steps import Step
from kerneldb.replay.worker.steps import StepRun

COMPILE: Final = "compile"
GRAPH: Final = "cuda_graph"
ADVICE: Final = "advice"
CUDAGRAPHS: Final = "triton.cudagraphs"
"""The option of inductor that `reduce-overhead` is."""
TRIAL_SECONDS: Final = {True: 1.0, False: 0.6}
"""Of one comparison, on a CPU and on a GPU."""


@dataclasses.dataclass(frozen=True, slots=True)
class Asked:
    """What is to be tried: on which device, for how long [s], what else is allowed (`precision`), with energy or not.

    `share` is that of the recorded time which the calls that are changed make up, slowest first (0 to 1).
    """

    device: str = "cuda:0"
    seconds: float = 300.0
    allow: tuple[str, ...] = ()
    modules: tuple[str, ...] = ()
    energy: bool = True
    share: float = 1.0


def main(arguments: Sequence[str] | None = None) -> int:
    """Try the rewrites; returns the exit code."""
    parser = argparse.ArgumentParser(description="Try rewrites in the steps of a plan.")
    parser.add_argument("plan", type=Path)
    parser.add_argument("results", type=Path)
    parser.add_argument("--device", default="cuda:0")
    parser.add_argument("--seconds", type=float, default=300.0)
    parser.add_argument("--allow", action="append", default=[])
    parser.add_argument("--share", type=float, default=1.0)
    parser.add_argument("--import", dest="modules", action="append", default=[])
    given = parser.parse_args(arguments)
    asked = Asked(given.device, given.seconds, tuple(given.allow), tuple(given.modules), share=given.share)
    try:
        processes.import_all(asked.modules)
        facts.require(asked.device)
        if asked.device == "cpu":
            processes.bound_memory()
        run(plan.read(given.plan), given.results, asked)
    except KerneldbError as error:
        sys.stderr.write(f"{error}\n")
        return error.exit_code
    return 0


def run(planned: Plan, results: Path, asked: Asked) -> None:
    """Try the rewrites in each step of a plan, and write a line for each to `results`."""
    with results.open("w", encoding="utf-8") as file:

        def send(one: Improvement) -> None:
            file.write(codec.dump(one) + "\n")
            file.flush()

        for step in planned.steps:
            _improve(step, planned, dataclasses.replace(asked, seconds=asked.seconds / len(planned.steps)), send)


def _improve(step: Step, planned: Plan, asked: Asked, send: Callable[[Improvement], object]) -> None:
    options = Options(device=asked.device, energy=asked.device != "cpu")
    ready = StepRun(step, {item.id: item for item in planned.items}, options, lambda _: None)
    player = ready.ready()

    def meter(first: Callable[[], object], second: Callable[[], object]) -> tuple[Times | None, str | None]:
        return energies(ready.whole(first), ready.whole(second)) if asked.energy else (None, "not asked for")

    trial_s = min(TRIAL_SECONDS[options.on_cpu], asked.seconds / 40)
    flow = Flow(player, frames_of(planned.sources.get(FRAMES + step.id)))
    bench = Bench(player, options.on_cpu, trial_s, meter)
    among = planned.sources.get(CHOSEN + step.id)
    Search(flow, bench, send, asked.seconds, asked.share, among).run(rewrites.known(), frozenset(asked.allow))


def frames_of(given: Any) -> Frames:
    """The frames of a step as a plan carries them. Raises CodecError."""
    if not given:
        return Frames()
    listed = tuple(Frame(str(path), int(line), str(name), module) for path, line, name, module in given["frames"])
    return Frames(listed, tuple(tuple(map(int, some)) for some in given["calls"]))


def read(path: Path) -> list[Improvement]:
    """The results in a file. Raises CodecError."""
    lines = path.read_text(encoding="utf-8").splitlines() if path.exists() else []
    return [codec.load(Improvement, one) for one in lines]


def changes(found: Iterable[Improvement]) -> list[dict[str, Any]]:
    """The changes of the accepted rewrites, for a patch: a function that is compiled and graphed is so at once."""
    accepted = [one for one in found if one.status == "accepted"]
    listed = [{**change, "rewrite": one.rewrite} for one in accepted for change in one.change.get("changes", ())]
    by_kind = {kind: [one["frame"] for one in listed if one["kind"] == kind] for kind in (COMPILE, GRAPH)}
    left = [one for one in listed if one["kind"] != GRAPH or one["frame"] not in by_kind[COMPILE]]
    for one in left:
        if one["kind"] == COMPILE and one["frame"] in by_kind[GRAPH]:
            options = one["values"].get("options")
            graphed = {"options": {**options, CUDAGRAPHS: True}} if options else {"mode": "reduce-overhead"}
            one |= {"values": graphed, "rewrite": f"{one['rewrite']}, {GRAPH}"}
        elif one["kind"] == GRAPH and one["values"].get("training"):
            one["kind"] = ADVICE
    return left


if __name__ == "__main__":
    sys.exit(main())
