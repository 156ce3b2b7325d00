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

from kerneldb import codec, files
from kerneldb.errors import KerneldbError
from kerneldb.output import terminal
from kerneldb.replay import processes, routes
from kerneldb.replay.host.start import start
from kerneldb.replay.options import Options, add_flags
from kerneldb.replay.wire import plan

INTERRUPTED: Final = 130


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command and return its exit code."""
    given = vars(_parser().parse_args(arguments))
    where = {name: given.pop(name) for name in ("plan", "journal", "gpus", "resume")}
    chosen = codec.decode(Options, given)
    try:
        processes.import_all(chosen.modules)
        for line in routes.consent(plan.read(where["plan"]), allowed=chosen.allow_code):
            sys.stderr.write(f"{line}\n")
        outcome = start(**where, options=chosen, listen=_tell)
    except KerneldbError as error:
        sys.stderr.write(f"{error}\n")
        return error.exit_code
    except OSError as error:
        sys.stderr.write(f"{files.told(error)}\n")
        return 1
    except KeyboardInterrupt:
        return INTERRUPTED
    if outcome.interrupted:
        return INTERRUPTED
    return 0 if outcome.finished else 4


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        "python -P -m kerneldb.replay",
        description="Replay the calls of a plan.",
        formatter_class=argparse.ArgumentDefaultsHelpFormatter,
    )
    parser.add_argument("plan", type=Path, help="plan file (kerneldb replay --write-plan writes one)")
    parser.add_argument("--journal", type=Path, required=True, help="where results go, one JSON object per line")
    parser.add_argument("--resume", action="store_true", help="go on with the journal: skip the items it settles")
    parser.add_argument("--gpus", metavar="N", help="how many GPUs, or all; with --device cpu, how many workers")
    add_flags(parser, Options)
    return parser


def _tell(event: Mapping[str, Any]) -> None:
    sys.stderr.write(json.dumps(event) + "\n")
    sys.stderr.flush()


if __name__ == "__main__":
    terminal.guard()
    sys.exit(main())
