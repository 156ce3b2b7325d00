"""`python -m kerneldb.replay.recording MODEL`: record where there is no database; `kerneldb ingest FOLDER` reads it.

Needs PyTorch and transformers. Prints a line per workload. Exit codes: 0 done, 1 failed or a workload could not be
recorded, 2 usage, 130 interrupted.
"""

from __future__ import annotations

import argparse
import functools
import json
import os
import signal
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Final

from kerneldb import codec, files
from kerneldb.errors import KerneldbError, UsageError
from kerneldb.recordings import Recording
from kerneldb.replay import processes
from kerneldb.replay.options import add_flags
from kerneldb.replay.recording import bundle, ranks, settings
from kerneldb.replay.recording.ranks import INTERRUPTED, Job, Listener, Ranks
from kerneldb.replay.recording.settings import Settings
from kerneldb.shell import file, kerneldb

PROCESS_WIDE: Final = {"TEARDOWN_CUPTI": "0", "DISABLE_CUPTI_LAZY_REINIT": "1"}
"""CUPTI stays attached: CUDA graphs captured between two profiler sessions break where it is torn down."""
OFFLINE: Final = {"HF_HUB_OFFLINE": "1", "TRANSFORMERS_OFFLINE": "1", "HF_HUB_DISABLE_TELEMETRY": "1"}


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command and return its exit code."""
    parser = _parser()
    given = vars(parser.parse_args(arguments))
    asked = {name: given.pop(name) for name in ("list", "output", "resume", "events")}
    if asked["list"]:
        sys.stdout.write("".join(f"{model.name:20}{', '.join(model.aliases)}\n" for model in settings.MODELS))
        return 0
    if asked["events"] is None and not given["model"] and not given["script"]:
        parser.error("name a model (--list shows them) or give --script FILE")
    tell = _tell if asked["events"] is None else functools.partial(_tell_parent, asked["events"])
    try:
        if asked["events"] is not None:
            return _do(tell)
        wanted = settings.resolved(codec.decode(Settings, {**given, "model": given["model"] or ""}))
        return _record(Job(wanted, str(asked["output"] or wanted.bundle_name), asked["resume"]), tell)
    except KeyboardInterrupt:
        return INTERRUPTED
    except (KerneldbError, OSError) as error:
        message = files.told(error) if isinstance(error, OSError) else str(error)
        code = error.exit_code if isinstance(error, KerneldbError) else 1
        tell({"what": "error", "message": message, "exit_code": code})
        return code


def _record(job: Job, listen: Listener) -> int:
    folder = Path(job.folder)
    if job.settings.tp > 1:
        complete = ranks.run(job.settings, folder, resume=job.resume, listen=listen)
        contents = bundle.read_all(folder)
    else:
        contents = [_here(job, listen)]
        complete = _complete(contents[0])
    sys.stderr.write(f"{folder}: recorded; read it with: {kerneldb('ingest', file(folder))}\n")
    sys.stdout.write(bundle.text(contents))
    return int(not complete)


def _here(job: Job, listen: Listener) -> Recording:
    """Record in this process, alone or as a rank of a job."""
    os.environ.update(PROCESS_WIDE | ({} if job.settings.script else OFFLINE))
    if job.place.world_size > 1:
        os.environ.update(job.place.environment())
    from kerneldb.replay.recording import recorder

    ranks = Ranks(job.place)
    made = recorder.record(job.settings, Path(job.folder), resume=job.resume, listen=listen, ranks=ranks)
    ranks.leave()
    return made.content


def _do(listen: Listener) -> int:
    """Do what a parent process wants, as JSON on standard input; this process ends with it."""
    processes.die_with_parent(signal.SIGTERM)
    try:
        job = codec.load(Job, sys.stdin.read())
    except ValueError as error:
        message = f"standard input: no job of a recording ({error}). Start it with a model instead of --events."
        raise UsageError(message) from error
    content = _here(job, listen)
    listen({"what": "end"})
    return int(not _complete(content))


def _complete(content: Recording) -> bool:
    """Whether every workload could be recorded."""
    return all(part.reason is None for part in content.parts)


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m kerneldb.replay.recording", description="Record a model.")
    parser.add_argument("model", nargs="?", help="bundled model (--list), or a name for --checkpoint")
    parser.add_argument("--list", action="store_true", help="show the bundled models")
    parser.add_argument("--script", nargs=argparse.REMAINDER, default=[], help="run this file, with arguments, instead")
    parser.add_argument("--output", help="folder to write (default: of model and settings)")
    parser.add_argument("--resume", action="store_true", help="go on with the recording in the folder")
    parser.add_argument("--events", type=int, help=argparse.SUPPRESS)
    add_flags(parser, Settings)
    return parser


def _tell_parent(events: int, event: Mapping[str, Any]) -> None:
    """Tell the parent process, through a descriptor."""
    os.write(events, (json.dumps(event) + "\n").encode())


def _tell(event: Mapping[str, Any]) -> None:
    said = event.get("message") or " ".join(
        str(event[key]) for key in ("what", "workload", "mode", "reason") if event.get(key)
    )
    sys.stderr.write(said + "\n")
    sys.stderr.flush()


if __name__ == "__main__":
    sys.exit(main())
