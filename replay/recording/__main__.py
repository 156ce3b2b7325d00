"""`python -m kerneldb.replay.recording MODEL`: record where there is no database; `kerneldb ingest FOLDER` reads it.

Needs PyTorch and transformers. Prints a line per stage. Exit codes: 0 done, 1 failed or a stage could not be recorded,
2 usage, 130 interrupted.
"""

from __future__ import annotations

import argparse
import ctypes
import json
import os
import signal
import sys
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, Final

from kerneldb.errors import KerneldbError
from kerneldb.replay.recording import bundle, launch, models, settings, summary
from kerneldb.replay.recording.ranks import Place, Ranks
from kerneldb.replay.recording.settings import DTYPES, Settings

IMPORT_HELP: Final = "import first; in the current folder where it is nowhere else"
INTERRUPTED: Final = 130
PR_SET_PDEATHSIG: Final = 1
PROCESS_WIDE: Final = {"TEARDOWN_CUPTI": "0", "DISABLE_CUPTI_LAZY_REINIT": "1"}
"""CUPTI stays attached: CUDA graphs captured between two profiler sessions break where it is torn down."""
OFFLINE: Final = {"HF_HUB_OFFLINE": "1", "TRANSFORMERS_OFFLINE": "1", "HF_HUB_DISABLE_TELEMETRY": "1"}


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command and return its exit code."""
    parser = _parser()
    given = parser.parse_args(arguments)
    if given.list:
        sys.stdout.write("".join(f"{model.name:20}{', '.join(model.aliases)}\n" for model in models.MODELS))
        return 0
    if given.job is None and not given.model and not given.script:
        parser.error("name a model (--list shows them) or give --script FILE")
    try:
        if given.job is not None:
            return _do(given.events)
        wanted, folder, resume = _wanted(given)
        return _record(wanted, folder, resume=resume, listen=_tell)
    except KerneldbError as error:
        return _failed(given.events, str(error), error.exit_code)
    except OSError as error:
        return _failed(given.events, f"{error.filename}: {error.strerror}", 1)
    except KeyboardInterrupt:
        return INTERRUPTED


def _record(wanted: Settings, folder: Path, *, resume: bool, listen: Callable[[Mapping[str, Any]], None]) -> int:
    if wanted.tp > 1:
        complete = launch.run(wanted, folder, resume=resume, listen=listen)
        contents = bundle.read_all(folder)
    else:
        content = _here(wanted, folder, resume=resume, listen=listen)
        complete, contents = not any("reason" in part for part in content["parts"]), [content]
    sys.stderr.write(f"{folder}: recorded; read it with: kerneldb ingest {folder}\n")
    sys.stdout.write(summary.text(contents))
    return int(not complete)


def _here(
    wanted: Settings,
    folder: Path,
    *,
    resume: bool,
    listen: Callable[[Mapping[str, Any]], None],
    place: Place = Place(),  # noqa: B008 (it cannot change)
) -> dict[str, Any]:
    """Record in this process, alone or as a rank of a job."""
    os.environ.update(PROCESS_WIDE | ({} if wanted.script else OFFLINE))
    if place.world_size > 1:
        os.environ.update(place.environment())
    from kerneldb.replay.recording import recorder

    ranks = Ranks(place)
    made = recorder.record(wanted, folder, resume=resume, listen=listen, ranks=ranks)
    ranks.leave()
    return made.content


def _do(events: int) -> int:
    """Do what a parent process wants, as JSON on standard input; this process ends with it."""
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGTERM)
    job, listen = json.loads(sys.stdin.read()), _told(events)
    wanted, place = settings.from_dict(job["settings"]), Place.from_dict(job.get("place", {}))
    content = _here(wanted, Path(job["folder"]), resume=bool(job["resume"]), listen=listen, place=place)
    listen({"what": "end"})
    return int(any("reason" in part for part in content["parts"]))


def _wanted(given: argparse.Namespace) -> tuple[Settings, Path, bool]:
    wanted = settings.resolved(
        Settings(
            model=given.model or "",
            device=given.device,
            dtype=given.dtype,
            batch=given.batch,
            prompt=given.prompt,
            new_tokens=given.new_tokens,
            stages=tuple(name for name in given.stages.split(",") if name),
            cuda_graphs=given.cuda_graphs,
            compile=given.compile,
            seconds=given.seconds,
            iterations=given.iterations,
            trace_only=given.trace_only,
            tiny=given.tiny,
            layers=given.layers,
            seed=given.seed,
            label=given.label,
            name=given.name,
            checkpoint=given.checkpoint,
            script=tuple(given.script),
            modules=tuple(given.modules),
            tp=given.tp,
        )
    )
    return wanted, given.output or Path(wanted.bundle_name), given.resume


def _parser() -> argparse.ArgumentParser:
    usual = Settings("")
    parser = argparse.ArgumentParser(prog="python -m kerneldb.replay.recording", description="Record a model.")
    parser.add_argument("model", nargs="?", help="bundled model (--list), or a name for --checkpoint")
    parser.add_argument("--list", action="store_true", help="show the bundled models")
    parser.add_argument("--script", nargs=argparse.REMAINDER, default=[], help="run this file, with arguments, instead")
    parser.add_argument("--checkpoint", help="local folder of a transformers model")
    parser.add_argument("--output", type=Path, help="folder to write (default: of model and settings)")
    parser.add_argument("--resume", action="store_true", help="go on with the recording in the folder")
    parser.add_argument("--stages", default="", help="of prefill, decode, forward, train; with commas")
    parser.add_argument("--device", default=usual.device, help="cuda, cuda:N or cpu (default %(default)s)")
    parser.add_argument("--dtype", choices=DTYPES, help="default: of the model; float32 on a CPU")
    for name, meaning in _NUMBERS.items():
        usual_value = getattr(usual, name)
        parser.add_argument(f"--{name.replace('_', '-')}", type=_positive, default=usual_value, help=meaning)
    parser.add_argument("--seconds", type=float, default=usual.seconds, help="measured time per stage and mode")
    parser.add_argument("--seed", type=int, default=usual.seed, help="of weights and inputs")
    for name, meaning in _SWITCHES.items():
        parser.add_argument(f"--{name.replace('_', '-')}", action="store_true", help=meaning)
    parser.add_argument("--label", help="what it is, in your words")
    parser.add_argument("--name", help="name of the recording")
    parser.add_argument("--import", dest="modules", action="append", default=[], metavar="MODULE", help=IMPORT_HELP)
    parser.add_argument("--job", action="store_const", const=True, help=argparse.SUPPRESS)
    parser.add_argument("--events", type=int, help=argparse.SUPPRESS)
    return parser


_NUMBERS: Final = {
    "batch": "sequences or images at once",
    "prompt": "tokens per sequence",
    "new_tokens": "decode steps per iteration",
    "iterations": "traced iterations",
    "layers": "layers instead of the model's own",
    "tp": "GPUs that share the model (tensor parallel); with --script, its processes",
}
_SWITCHES: Final = {
    "cuda_graphs": "also under CUDA graphs",
    "compile": "through torch.compile",
    "trace_only": "trace, and do not measure",
    "tiny": "sizes for a test on a CPU",
}


def _positive(text: str) -> int:
    number = int(text)
    if number < 1:
        message = f"{number} is not positive"
        raise argparse.ArgumentTypeError(message)
    return number


def _told(events: int) -> Callable[[Mapping[str, Any]], None]:
    """Tells the parent process, through a descriptor."""

    def tell(event: Mapping[str, Any]) -> None:
        os.write(events, (json.dumps(event) + "\n").encode())

    return tell


def _failed(events: int | None, message: str, code: int) -> int:
    """Say why, to the parent process or to the user."""
    if events is None:
        sys.stderr.write(f"{message}\n")
    else:
        _told(events)({"what": "error", "message": message, "exit_code": code})
    return code


def _tell(event: Mapping[str, Any]) -> None:
    said = " ".join(str(event[key]) for key in ("what", "stage", "mode", "reason") if event.get(key))
    sys.stderr.write(said + "\n")
    sys.stderr.flush()


if __name__ == "__main__":
    sys.exit(main())
