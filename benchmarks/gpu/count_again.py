"""Counters by replay against those of the program, and two runs of the program against each other, in one go.

    python -m benchmarks.gpu.count_again FOLDER SECONDS [--only NAME …] [--parts PART,…] [--plans FOLDER]

Records three programs and a decoder whose calls are taken out of its trace, reads counters of their kernels alone and
in their steps, runs the programs under ncu (in application replay twice: how far two runs are apart; with cold caches
once), and compares. `--plans` has plans of other traces (`kerneldb replay --write-plan`), of which kernels alone are
counted. What is done is not done again, and nothing begins that would not end within SECONDS, so that several calls on
one machine make the whole. FOLDER/out has `summary.json`, and all else packed. With all of it unpacked in a folder,
`--parts tables` makes the tables of the database from it, without a GPU.
"""

from __future__ import annotations

import argparse
import contextlib
import dataclasses
import itertools
import json
import os
import shutil
import signal
import subprocess
import sys
import tarfile
import threading
import time
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

from benchmarks.gpu import compare_step_counters, strip_calls
from benchmarks.gpu.replay_steps import Run
from kerneldb.replay.errors import ReplayError
from kerneldb.replay.host import profilers
from kerneldb.replay.options import Options
from kerneldb.replay.wire import plan

HERE = Path(__file__).parent
SCRIPTS = {"unet": ("context_programs.py", "unet"), "decoder": ("record_with_ncu.py", "--step")}
SCRIPTS |= {"cnn": ("context_programs.py", "cnn")}
STRIPPED = "stripped"
MODEL = ("llama-2-7b", "--layers", "4", "--prompt", "1024", "--workloads", "prefill")
METRICS = (
    "dram__bytes_read.sum", "dram__bytes_write.sum", "lts__t_bytes.sum", "lts__t_sectors_srcunit_tex.sum",
    "lts__t_sectors_srcunit_ltcfabric.sum", "sm__warps_active.avg.pct_of_peak_sustained_active",
)  # fmt: skip
NCU = Options(counters=METRICS)
SETS = "roofline,memory"
SHARE = "97%"
STEPS = 5
PACKED = (".csv", ".journal", ".plan", ".txt", ".json")
LONGEST = {
    "record": 90,
    "context": 80,
    "program": 70,
    "again": 70,
    "alone": 170,
    "cold": 90,
    "report": 10,
    "tables": 200,
}
"""Seconds that a part may take; with less left it is not begun."""


@dataclasses.dataclass
class Counted(Run):
    """Where results lie, until when parts may begin, and further options of replays."""

    more: tuple[str, ...] = ()

    def limited(self, words: Iterable[str], said: str, seconds: float) -> bool:
        """Run a command; one that takes longer ends with all that it started."""
        with (self.folder / said).open("w") as file:
            process = subprocess.Popen(list(words), stdout=file, stderr=file, start_new_session=True)
            try:
                return not process.wait(timeout=max(1.0, min(seconds, self.left())))
            except subprocess.TimeoutExpired:
                os.killpg(process.pid, signal.SIGKILL)
                process.wait()
                return False

    def database(self, name: str, *words: str, said: str, seconds: float = LONGEST["record"]) -> bool:
        """Run a kerneldb command on the database of a program."""
        database = str(self.folder / f"{name}.duckdb")
        return self.limited([sys.executable, "-m", "kerneldb", "--db", database, *words], said, seconds)


def record(run: Counted, name: str) -> bool:
    """Record and ingest, and plan."""
    shutil.rmtree(run.folder / name, ignore_errors=True)  # of a call that was stopped
    words = ["record", "--output", str(run.folder / name), "--seconds", "1", "--iterations", "2"]
    if name != STRIPPED:
        script, *arguments = SCRIPTS[name]
        words += ["--script", str(HERE / script), "--", *arguments]
        done = run.database(name, *words, said=f"{name}.record.txt")
        parts = {"step": ["--in-context"], "alone": ["--until-time", SHARE]}
    else:
        done = run.database("whole", *words, *MODEL, said=f"{name}.record.txt") and _strip(run)
        parts = {"alone": ["--until-time", SHARE]}
    for part, more in parts.items() if done else ():
        words = ["replay", *more, "--write-plan", str(run.folder / f"{name}.{part}.plan")]
        done &= run.database(name, *words, said=f"{name}.{part}.plan.txt")
    return done


def _strip(run: Counted) -> bool:
    """The trace without its calls, in a database that has no other."""
    (trace,) = (run.folder / STRIPPED).rglob("*.pt.trace.json.gz")
    copy = run.folder / f"{STRIPPED}.pt.trace.json.gz"
    strip_calls.strip(trace, copy)
    return run.database(STRIPPED, "ingest", str(copy), said=f"{STRIPPED}.ingest.txt")


def context(run: Counted, name: str) -> bool:
    """Counters of every launch of the step, made again."""
    return _replay(run, name, "step", "context", ",".join(METRICS), "--counted", "100000")


def alone(run: Counted, name: str) -> bool:
    """Counters of the kernels alone, with cold caches."""
    return _replay(run, name, "alone", "alone", SETS, "--cache", "cold")


def _replay(run: Counted, name: str, planned: str, part: str, counters: str, *words: str) -> bool:
    given = run.folder / f"{name}.{planned}.plan"
    if not given.is_file():
        return False
    journal, limit = run.folder / f"{name}.{part}.journal", min(LONGEST[part], run.left() - 25)
    command = [sys.executable, "-P", "-m", "kerneldb.replay", str(given), "--journal", str(journal)]
    command += [
        "--counters",
        counters,
        "--runs",
        "6",
        "--no-loops",
        "--limit-seconds",
        f"{limit:.0f}",
        *words,
        *run.more,
    ]
    if journal.exists():
        command.append("--resume")
    return run.limited(command, f"{name}.{part}.txt", limit + 60)


def program(run: Counted, name: str, part: str = "program") -> bool:
    """The program under ncu, its caches as it leaves them."""
    return _under_ncu(run, name, part, dataclasses.replace(NCU, cache="mixed"))


def again(run: Counted, name: str) -> bool:
    """The same in another process."""
    return program(run, name, "again")


def cold(run: Counted, name: str) -> bool:
    """The program under ncu, caches flushed before each pass."""
    return _under_ncu(run, name, "cold", dataclasses.replace(NCU, cache="cold"))


def _under_ncu(run: Counted, name: str, part: str, options: Options) -> bool:
    if name not in SCRIPTS:
        return False
    page = run.folder / f"{name}.{part}.csv"
    command = [profilers.find(options, None).path, *profilers.ncu_options(options), "--log-file", str(page)]
    command += [sys.executable, "-m", "benchmarks.gpu.count_again", "--program", name]
    return run.limited(command, f"{name}.{part}.txt", LONGEST[part]) and any(compare_step_counters.rows(page))


def report(run: Counted, name: str) -> bool:
    """The comparisons."""
    found = {f"{mine} against {its}": _compared(run, name, mine, its) for mine, its in PAIRS}
    (run.folder / f"{name}.compared.json").write_text(json.dumps({one: how for one, how in found.items() if how}))
    return True


def tables(run: Counted, name: str) -> bool:
    """What the database makes of the counters alone; no GPU is needed, so that it is not among the parts by default."""
    journal, planned = (str(run.folder / f"{name}.alone.{kind}") for kind in ("journal", "plan"))
    recorded = run.folder / (f"{STRIPPED}.pt.trace.json.gz" if name == STRIPPED else name)
    done = (run.folder / f"{name}.duckdb").exists()
    done = done or run.database(name, "ingest", str(recorded), said=f"{name}.ingest.txt")
    words = [
        "replay",
        "--read-journal",
        journal,
        "--write-plan",
        planned,
        "-o",
        str(run.folder / f"{name}.counted.csv"),
    ]
    done &= run.database(name, *words, said=f"{name}.read.txt")
    for table, asked in TABLES.items():
        target = str(run.folder / f"{name}.{table}.csv")
        done &= run.database(name, *asked, "-o", target, said=f"{name}.{table}.txt")
    return done


PAIRS = (("context", "program"), ("again", "program"), ("context", "again"), ("alone", "cold"))
SHARES = """
SELECT trace, 100 * sum(total_ns) FILTER (covered) / sum(total_ns) AS covered_pct, count(*) FILTER (covered) AS covered,
    count(*) AS signatures FROM counter_coverage() WHERE timing = 'timeline' GROUP BY trace
"""
READ_ON = "SELECT gpu, method, count(DISTINCT signature_id) AS signatures FROM signature_counters GROUP BY ALL"
OF_ALL = ("alone", "report", "tables")
"""Parts that need no program."""
TABLES = {
    "covered": ("query", SHARES),
    "gpus": ("query", READ_ON),
    "coverage": ("ncu", "coverage"),
    "roofline": ("analyze", "roofline"),
    "errors": ("analyze", "work-errors"),
    "calls": ("query", "SELECT * FROM replay_calls"),
}


def _compared(run: Counted, name: str, mine: str, its: str) -> dict[str, Any] | None:
    theirs = run.folder / f"{name}.{its}.csv"
    pages = sorted(run.folder.glob(f"{name}.{mine}.journal.counters-*.csv")) or [run.folder / f"{name}.{mine}.csv"]
    if not theirs.exists() or not all(page.exists() for page in pages):
        return None
    path = run.folder / f"{name}.{'step' if mine == 'context' else mine}.plan"
    planned = plan.read(path) if path.exists() else None
    found = compare_step_counters.compare(
        compare_step_counters.read(pages, planned), compare_step_counters.read([theirs])
    )
    return {
        one: dataclasses.asdict(how) if isinstance(how, compare_step_counters.Agreement) else how
        for one, how in found.items()
    }


PARTS: dict[str, Callable[[Counted, str], bool]] = {
    "record": record, "program": program, "again": again, "context": context, "alone": alone, "cold": cold,
    "report": report, "tables": tables,
}  # fmt: skip


def run_program(name: str) -> None:
    """A few steps of a program; ncu profiles the one after them."""
    import torch

    from benchmarks.gpu import context_programs, record_with_ncu

    parent = os.getppid()
    threading.Thread(target=_end_with, args=(parent,), daemon=True).start()
    decoder = name == "decoder"
    step: Callable[[], object] = record_with_ncu.Program(small=False).run if decoder else context_programs.kept(name)
    for _ in range(STEPS):
        step()
    torch.cuda.synchronize()
    torch.cuda.cudart().cudaProfilerStart()
    step()
    torch.cuda.synchronize()
    torch.cuda.cudart().cudaProfilerStop()


def _end_with(parent: int) -> None:
    """End this process when its profiler has."""
    while os.getppid() == parent:
        time.sleep(1)
    os._exit(1)


def main() -> None:
    """Do the parts, one after another."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("folder", type=Path, nargs="?")
    parser.add_argument("seconds", type=float, nargs="?", default=500)
    parser.add_argument("--only", nargs="*")
    parser.add_argument("--parts", default=",".join(PARTS).removesuffix(",tables"))
    parser.add_argument("--plans", type=Path)
    parser.add_argument("--more", default="", help="further options of replays, as --more='--device cpu'")
    parser.add_argument("--program")
    given = parser.parse_args()
    if given.program:
        run_program(given.program)
        return
    given.folder.mkdir(parents=True, exist_ok=True)
    run = Counted(given.folder, time.monotonic() + given.seconds, more=tuple(given.more.split()))
    others = [] if given.plans is None else sorted(given.plans.glob("*.plan"))
    for path in others:
        shutil.copy(path, given.folder / f"{path.stem}.alone.plan")
    names = given.only or [*SCRIPTS, STRIPPED, *(path.stem for path in others)]
    try:
        for part, name in itertools.product(given.parts.split(","), names):
            _once(run, part, name)
    finally:
        _pack(run)


def _once(run: Counted, part: str, name: str) -> None:
    mark = run.folder / f"{name}.{part}.done"
    fitting = name in (*SCRIPTS, STRIPPED) if part == "record" else part in OF_ALL or name in SCRIPTS
    if not fitting or (mark.exists() and part != "report") or run.left() < LONGEST[part] / 2:
        return
    begun = time.monotonic()
    done = PARTS[part](run, name)
    if done:
        mark.touch()
    lines = [f"{name} {part} {'done' if done else 'FAILED'} {time.monotonic() - begun:.0f} s"]
    if not done:
        told = run.folder / f"{name}.{part}.txt"
        lines += told.read_text(errors="replace").splitlines()[-8:] if told.exists() else []
    with (run.folder / "log.txt").open("a") as file:
        file.write("\n".join(lines) + "\n")
    print("\n".join(lines), flush=True)


def _pack(run: Counted) -> None:
    """What came of it and which machine made it in one file, all pages, plans and journals in another, recordings."""
    asked = ["nvidia-smi", "--query-gpu=name,driver_version,clocks.sm,uuid", "--format=csv"]
    machine = subprocess.run(asked, capture_output=True, text=True, check=False) if shutil.which(asked[0]) else None
    told: dict[str, Any] = {"machine": machine.stdout if machine else None}
    with contextlib.suppress(ReplayError):  # tables are made where there is none
        told["ncu"] = profilers.find(NCU, None).version
    log = run.folder / "log.txt"
    told["log"] = log.read_text().splitlines() if log.exists() else []
    told |= {path.name: json.loads(path.read_text()) for path in sorted(run.folder.glob("*.compared.json"))}
    out = run.folder / "out"
    out.mkdir(exist_ok=True)
    (out / "summary.json").write_text(json.dumps(told, indent=1))
    with tarfile.open(out / "raw.tar.xz", "w:xz", preset=1) as packed:
        for path in sorted(path for path in run.folder.iterdir() if path.suffix in PACKED):
            packed.add(path, path.name)
    for name in (*SCRIPTS, STRIPPED):
        kept = [path for path in (run.folder / name, run.folder / f"{name}.pt.trace.json.gz") if path.exists()]
        if kept and not (out / f"{name}.tar").exists():
            with tarfile.open(out / f"{name}.tar", "w") as packed:
                for path in kept:
                    packed.add(path, path.name)


if __name__ == "__main__":
    main()
