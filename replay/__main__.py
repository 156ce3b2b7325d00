"""`python -P -m kerneldb.replay PLAN --journal JOURNAL`: replay a plan. Needs PyTorch; standard library otherwise.

With `--gpus all` (or a number) it runs on as many GPUs, into JOURNAL.0, JOURNAL.1, …, and JOURNAL.ranksN for
collectives of N ranks. Progress goes to standard error as one JSON object per line. Exit codes: 0 done, 1 failed,
2 usage, 4 time limit reached, 130 interrupted.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Final

from kerneldb.errors import KerneldbError
from kerneldb.replay.host import devices, fleet, supervisor
from kerneldb.replay.host.fleet import FleetOutcome
from kerneldb.replay.host.supervisor import Outcome
from kerneldb.replay.measure.residency import CACHES
from kerneldb.replay.options import SPACINGS, Options
from kerneldb.replay.triton import code
from kerneldb.replay.wire import plan

IMPORT_HELP: Final = "import first; in the current folder where it is nowhere else"
LIMIT_REACHED: Final = 4
INTERRUPTED: Final = 130


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command and return its exit code."""
    given = _parser().parse_args(arguments)
    try:
        for line in code.shown(plan.read(given.plan), allowed=given.allow_code):
            sys.stderr.write(f"{line}\n")
        outcome = _run(given)
    except KerneldbError as error:
        sys.stderr.write(f"{error}\n")
        return error.exit_code
    except OSError as error:
        sys.stderr.write(f"{error.filename}: {error.strerror}\n")
        return 1
    except KeyboardInterrupt:
        return INTERRUPTED
    if outcome.interrupted:
        return INTERRUPTED
    return 0 if outcome.finished else LIMIT_REACHED


def _run(given: argparse.Namespace) -> Outcome | FleetOutcome:
    chosen = _options(given)
    if given.gpus is None:
        return supervisor.run(given.plan, given.journal, chosen, resume=given.resume, listen=_tell)
    found = devices.chosen(given.gpus, chosen.device)
    return fleet.run(given.plan, given.journal, chosen, found, resume=given.resume, listen=_tell)


def _options(given: argparse.Namespace) -> Options:
    return Options(
        device="cuda:0" if given.device == "cuda" else given.device,
        cache=given.cache,
        runs=given.runs,
        warmup=given.warmup,
        modules=tuple(given.modules),
        spacing=given.spacing,
        loops=not given.no_loops,
        tries=given.tries,
        batch=given.batch,
        item_seconds=given.item_seconds,
        limit_seconds=given.limit_seconds,
        energy=not given.no_energy,
        energy_seconds=given.energy_seconds,
        allow_code=given.allow_code,
    )


def _parser() -> argparse.ArgumentParser:
    usual = Options()
    parser = argparse.ArgumentParser(prog="python -P -m kerneldb.replay", description="Replay the calls of a plan.")
    parser.add_argument("plan", type=Path, help="plan file (kerneldb replay --plan writes one)")
    parser.add_argument("--journal", type=Path, required=True, help="where results go, one JSON object per line")
    parser.add_argument("--resume", action="store_true", help="go on with the journal: skip the items it settles")
    parser.add_argument("--device", default=usual.device, help="cuda, cuda:N or cpu (default %(default)s)")
    parser.add_argument("--gpus", metavar="N", help="how many GPUs, or all; with --device cpu, how many workers")
    parser.add_argument("--cache", choices=CACHES, default=usual.cache, help="state of the L2 (default %(default)s)")
    parser.add_argument("--runs", type=_positive, default=usual.runs, help="timed runs (default %(default)s)")
    parser.add_argument("--warmup", type=_positive, default=usual.warmup, help="runs before (default %(default)s)")
    parser.add_argument("--import", dest="modules", action="append", default=[], metavar="MODULE", help=IMPORT_HELP)
    parser.add_argument("--spacing", choices=SPACINGS, default=usual.spacing, help="device before a timed call")
    parser.add_argument("--no-loops", action="store_true", help="no CUDA-graph loops")
    parser.add_argument("--tries", type=_positive, default=usual.tries, help="rebuilt calls (default %(default)s)")
    parser.add_argument("--batch", type=_positive, default=usual.batch, help="calls per profiler session")
    parser.add_argument("--item-seconds", type=float, default=usual.item_seconds, help="patience with a silent worker")
    parser.add_argument("--limit-seconds", type=float, help="stop after so long; --resume goes on")
    parser.add_argument("--no-energy", action="store_true", help="do not measure energy")
    parser.add_argument("--energy-seconds", type=float, default=usual.energy_seconds, help="time for it (%(default)s)")
    parser.add_argument("--allow-code", action="store_true", help="run sources of kernels that come with the plan")
    return parser


def _positive(text: str) -> int:
    number = int(text)
    if number < 1:
        msg = f"{number} is not positive"
        raise argparse.ArgumentTypeError(msg)
    return number


def _tell(event: Mapping[str, Any]) -> None:
    sys.stderr.write(json.dumps(event) + "\n")
    sys.stderr.flush()


if __name__ == "__main__":
    sys.exit(main())
