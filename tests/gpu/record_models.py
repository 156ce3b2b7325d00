"""Records three models on a GPU, measured whole and traced, also under CUDA graphs: what the closure is shown on.

    PYTHONPATH=. python3 tests/gpu/record_models.py FOLDER

Prefill and decode of BLOOM-560M and a 7B Llama, and a training step of GPT-2, all with random weights. Long prompts and
CUDA graphs keep the GPU busy for more than 80 % of the time, so that what it draws at rest cannot carry the result.
Needs PyTorch and transformers; `kerneldb ingest FOLDER` reads the recordings elsewhere. `--tiny` tries the script on a
CPU.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
import time
from pathlib import Path

RECORD = (sys.executable, "-m", "kerneldb.replay.recording")
RUNS: dict[str, tuple[str, ...]] = {
    "bloom-560m": ("--batch", "8", "--prompt", "1024", "--new-tokens", "8", "--stages", "prefill,decode"),
    "llama-2-7b": ("--batch", "1", "--prompt", "1024", "--new-tokens", "8", "--stages", "prefill,decode"),
    "gpt2": ("--batch", "16", "--prompt", "1024", "--stages", "train", "--dtype", "bfloat16"),
}
TINY = ("--tiny", "--device", "cpu", "--batch", "1", "--prompt", "16", "--new-tokens", "2", "--seconds", "0.3")


def arguments(model: str, folder: Path, *, tiny: bool, seconds: float) -> list[str]:
    """The command line of one recording."""
    scale = TINY if tiny else ("--cuda-graphs", "--seconds", str(seconds))
    return [*RECORD, model, *RUNS[model], *scale, "--output", str(folder / model)]


def record(model: str, folder: Path, *, tiny: bool, seconds: float) -> int:
    """Record a model; what it prints goes to files beside the recording. Returns its exit code."""
    begun = time.monotonic()
    with (folder / f"{model}.out").open("w") as table, (folder / f"{model}.err").open("w") as log:
        command = arguments(model, folder, tiny=tiny, seconds=seconds)
        code = subprocess.run(command, stdout=table, stderr=log, check=False).returncode
    sys.stdout.write(f"{model}: exit code {code} after {time.monotonic() - begun:.0f} s\n")
    sys.stdout.write((folder / f"{model}.out").read_text())
    if code:
        sys.stdout.write("".join((folder / f"{model}.err").read_text().splitlines(keepends=True)[-12:]))
    sys.stdout.flush()
    return code


def main() -> int:
    """Record all, or the named models."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path)
    parser.add_argument("models", nargs="*", default=list(RUNS), help="of " + ", ".join(RUNS))
    parser.add_argument("--seconds", type=float, default=12.0, help="measured time per stage and mode")
    parser.add_argument("--tiny", action="store_true")
    given = parser.parse_args()
    given.folder.mkdir(parents=True, exist_ok=True)
    return max(record(model, given.folder, tiny=given.tiny, seconds=given.seconds) for model in given.models)


if __name__ == "__main__":
    sys.exit(main())
