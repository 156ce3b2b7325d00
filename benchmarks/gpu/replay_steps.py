"""Records the programs of context_programs.py and a decoder, replays their steps whole and their kernels alone.

    python benchmarks/gpu/replay_steps.py FOLDER SECONDS [--only NAME …] [--parts record,step,alone,again]

`--only prefill --parts record,step` is the prefill of the decoder alone, call by call and as a graph (150 s).

Each program has a database of its own in FOLDER. What is done is not done again, and nothing begins that would not end
within SECONDS, so that several calls on one machine make the whole. Prints a line for each part.
"""

from __future__ import annotations

import argparse
import itertools
import subprocess
import sys
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path

PROGRAMS = str(Path(__file__).with_name("context_programs.py"))
SCRIPTS = (
    "encoder-decoder", "cnn", "unet", "experts", "recommender", "state-space", "mixed", "quantised", "vit", "compiled",
)  # fmt: skip
DECODER = (
    "llama-2-7b", "--layers", "8", "--batch", "4", "--prompt", "512", "--new-tokens", "4", "--workloads",
    "prefill,decode", "--cuda-graphs",
)  # fmt: skip
PREFILL = tuple("prefill" if word == "prefill,decode" else word for word in DECODER)
MODELS = {"decoder": DECODER, "prefill": PREFILL}
MODELS |= {  # eagerly and as a graph, each large enough that the GPU does not wait for its host
    "images": ("vit-large", "--batch", "64", "--workloads", "forward", "--cuda-graphs"),
    "texts": ("bert-base", "--batch", "32", "--prompt", "512", "--workloads", "forward", "--cuda-graphs"),
    "bloom": ("bloom-560m", "--batch", "8", "--prompt", "1024", "--workloads", "prefill", "--cuda-graphs"),
    "qwen": (
        "qwen2.5-0.5b", "--batch", "16", "--prompt", "1024", "--new-tokens", "4", "--workloads", "decode",
        "--cuda-graphs",
    ),
}  # fmt: skip
STEADY = ("--load", "5", "--iterations", "12")
"""A GPU that rested has higher clocks for some steps: the one that is replayed is not among them."""
ITERATION = "ProfilerStep#8"
NAMES = "SELECT name FROM traces ORDER BY name"
PATIENCE = 100.0  # [s]
LONGEST = {"record": 90.0, "step": 50.0, "alone": 60.0, "again": 45.0}  # [s] with which a part is begun


@dataclass
class Run:
    """Where results lie, and until when parts may begin."""

    folder: Path
    until: float
    named: str = ""
    plans: ThreadPoolExecutor = field(default_factory=lambda: ThreadPoolExecutor(4))

    def left(self) -> float:
        """Seconds."""
        return self.until - time.monotonic()

    def kerneldb(self, name: str, *words: str, said: str) -> bool:
        """Run a command on the database of a program; what it says goes to a file."""
        return self.python("-m", "kerneldb", "--db", str(self.folder / f"{name}.duckdb"), *words, said=said)

    def python(self, *words: str, said: str) -> bool:
        """Run Python with these words, to the end or to the end of the time."""
        with (self.folder / said).open("w") as file:
            try:
                return not subprocess.call(
                    [sys.executable, *words], stdout=file, stderr=file, timeout=max(1, self.left())
                )
            except subprocess.TimeoutExpired:
                return False

    def stages(self, name: str) -> list[str]:
        """The traces of a program."""
        rows = self.folder / f"{name}.traces"
        if not rows.exists() and not self.kerneldb(name, "query", NAMES, "--csv", "--no-header", said=rows.name):
            rows.unlink()
            return []
        found = [one for one in rows.read_text().split() if one.startswith(f"{name}-")]
        return [one for one in found if self.named in one and not one.endswith("-capture")]


def record(run: Run, name: str, _: str) -> bool:
    """Record and ingest; the plans are made while the next program is recorded."""
    words = ["record", "--output", str(run.folder / name), "--seconds", "6", *STEADY]
    words += MODELS.get(name) or ("--script", PROGRAMS, "--", name)
    done = run.kerneldb(name, *words, said=f"{name}.record.txt")
    for stage in run.stages(name) if done else []:
        run.plans.submit(_plan, run, name, stage, "step", "--in-context", "--iteration", ITERATION)
        run.plans.submit(_plan, run, name, stage, "alone")
    return done


def _plan(run: Run, name: str, stage: str, part: str, *words: str) -> None:
    plan = str(run.folder / f"{stage}.{part}.plan")
    run.kerneldb(name, "replay", "--trace", stage, *words, "--write-plan", plan, said=f"{stage}.{part}.plan.txt")


def step(run: Run, _: str, stage: str) -> bool:
    """Replay the step whole, with its energy."""
    return _replay(run, stage, "step", "--energy-seconds", "20")


def alone(run: Run, _: str, stage: str) -> bool:
    """Replay its kernels alone."""
    return _replay(run, stage, "alone", "--no-energy")


def _replay(run: Run, stage: str, part: str, *words: str) -> bool:
    plan, journal = (str(run.folder / f"{stage}.{part}.{kind}") for kind in ("plan", "journal"))
    said = f"{stage}.{part}.txt"
    return run.python("-P", "-m", "kerneldb.replay", plan, "--journal", journal, "--allow-code", *words, said=said)


def again(run: Run, name: str, _: str) -> bool:
    """Record once more, in another process: how far two recordings are apart."""
    words = ["record", "--output", str(run.folder / f"{name}2"), "--seconds", "1.5", *STEADY]
    words += MODELS.get(name) or ("--script", PROGRAMS, "--", name)
    return run.kerneldb(f"{name}2", *words, said=f"{name}.again.txt")


PARTS: dict[str, Callable[[Run, str, str], bool]] = {"record": record, "step": step, "alone": alone, "again": again}


def main() -> None:
    """Do the parts, one after another."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("folder", type=Path)
    parser.add_argument("seconds", type=float)
    parser.add_argument("--only", nargs="*", default=[*SCRIPTS, "decoder"])
    parser.add_argument("--parts", default=",".join(PARTS))
    parser.add_argument("--named", default="", help="replay traces with this in their names")
    given = parser.parse_args()
    given.folder.mkdir(parents=True, exist_ok=True)
    run = Run(given.folder, time.monotonic() + given.seconds, given.named)
    for part, name in itertools.product(given.parts.split(","), given.only):
        if part == "step":
            run.plans.shutdown(wait=True)
        for stage in run.stages(name) if part in ("step", "alone") else [name]:
            _once(run, part, name, stage)


def _once(run: Run, part: str, name: str, stage: str) -> None:
    mark = run.folder / f"{stage}.{part}.done"
    if mark.exists() or run.left() < LONGEST[part]:
        return
    begun = time.monotonic()
    done = PARTS[part](run, name, stage)
    if done:
        mark.touch()
    print(stage, part, "done" if done else "FAILED", f"{time.monotonic() - begun:.0f} s", flush=True)


if __name__ == "__main__":
    main()
