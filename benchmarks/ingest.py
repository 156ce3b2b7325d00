"""Full ingest against `orjson.loads` and HTA on the same bytes, in one run, with processor time and peak memory.

    python benchmarks/ingest.py TRACE.json.gz … --megabytes 536 --hta /path/to/venv/bin/python --cores 2

Each trace is grown first (see grow_trace.py). Every contender runs in a process of its own; memory is the sum of the
resident sets of that process and all its children, sampled every 10 ms. `kerneldb` is the whole command: start, parse,
link, names, DuckDB commit; of the text as it is, of its `.gz`, and with one event in a hundred changed in ways that are
no JSON, or unusual. `orjson.loads` is timed alone, text in memory and garbage collector off: the floor. HTA is
`TraceAnalysis(...)`: parse and its own tables (pip install traceinsight "pandas<2.4" into its own environment).
"""

from __future__ import annotations

import argparse
import dataclasses
import gzip
import json
import os
import platform
import resource
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping, Sequence
from pathlib import Path

import psutil
from grow_trace import grow

ORJSON = """
import gc, sys, time, orjson
gc.disable()
text = open(sys.argv[1], 'rb').read()
start = time.perf_counter()
document = orjson.loads(text)
print(time.perf_counter() - start)
"""
HTA = """
import sys, time, logging
logging.disable(logging.CRITICAL)
from hta.trace_analysis import TraceAnalysis
start = time.perf_counter()
TraceAnalysis(trace_files={0: sys.argv[1]}, trace_dir='/')
print(time.perf_counter() - start)
"""
ADBC = """
import sys, time, json
from adbc_driver_sqlite import dbapi
tables = json.loads(sys.argv[2])
start = time.perf_counter()
with dbapi.connect(sys.argv[1]) as connection, connection.cursor() as cursor:
    for table, columns in tables.items():
        cursor.execute("SELECT " + ", ".join('"%s"' % name for name in columns) + ' FROM "%s"' % table)
        for batch in cursor.fetch_record_batch():
            pass
print(time.perf_counter() - start)
"""
SAMPLE_SECONDS = 0.01


@dataclasses.dataclass(frozen=True)
class Run:
    """Seconds as the process reports them, or wall time where it reports none.

    Processor seconds and peak bytes are those of its whole tree.
    """

    name: str
    seconds: float
    peak_bytes: int
    processor_seconds: float = 0.0


def resident(process: psutil.Process) -> int:
    """Bytes resident in a process and its children; zero once it is gone."""
    total = 0
    try:
        for one in (process, *process.children(recursive=True)):
            total += one.memory_info().rss
    except psutil.NoSuchProcess:
        return total
    return total


def processor() -> float:
    """Processor seconds of all children that have ended."""
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def measure(name: str, command: Sequence[str], reports_seconds: bool) -> Run:
    """Run a command to its end. Raises CalledProcessError with its output where it fails."""
    start, before = time.perf_counter(), processor()
    with tempfile.TemporaryFile("w+") as output, tempfile.TemporaryFile("w+") as errors:
        process = psutil.Popen(command, stdout=output, stderr=errors, text=True)
        peak = 0
        while process.poll() is None:
            peak = max(peak, resident(process))
            time.sleep(SAMPLE_SECONDS)
        wall = time.perf_counter() - start
        output.seek(0)
        errors.seek(0)
        text = output.read()
        if process.returncode:
            raise subprocess.CalledProcessError(process.returncode, command, text, errors.read())
    return Run(name, float(text.split()[-1]) if reports_seconds else wall, peak, processor() - before)


def contenders(texts: Mapping[str, Path], folder: Path, hta: str | None, repeats: int) -> list[Run]:
    """All runs, the best of `repeats` for each but HTA; the first of `texts` is the plain trace."""
    kerneldb = [sys.executable, "-m", "kerneldb"]

    def ingest(name: str, path: Path) -> Run:
        database = folder / "bench.duckdb"
        database.unlink(missing_ok=True)
        command = [*kerneldb, "--db", str(database), "ingest", str(path), "-q"]
        return measure(f"kerneldb ingest{name}", command, reports_seconds=False)

    plain = str(next(iter(texts.values())))
    runs = [best([measure("orjson.loads", [sys.executable, "-c", ORJSON, plain], True) for _ in range(repeats)])]
    runs += [best([ingest(name, path) for _ in range(repeats)]) for name, path in texts.items()]
    if hta:
        runs.append(measure("HTA TraceAnalysis", [hta, "-c", HTA, plain], reports_seconds=True))
    return runs


def best(runs: Sequence[Run]) -> Run:
    """The fastest run, with the highest peak and the least processor time of all."""
    fastest = min(runs, key=lambda run: run.seconds)
    peak, used = max(run.peak_bytes for run in runs), min(run.processor_seconds for run in runs)
    return dataclasses.replace(fastest, peak_bytes=peak, processor_seconds=used)


def bare_read(database: Path, tables: Mapping[str, Sequence[str]]) -> Run:
    """Fetch these columns of a SQLite database with ADBC, table by table, and drop them."""
    return measure("bare ADBC read", [sys.executable, "-c", ADBC, str(database), json.dumps(tables)], True)


def report_ratios(what: str, size: int, runs: Sequence[Run], target: Path | None) -> None:
    """Print each run and its ratio to the first on stdout; write the figures to `target` too."""
    print(f"{what}, {size / 1e6:,.0f} MB, {machine()}")
    for run in runs:
        ratio = run.seconds / runs[0].seconds
        print(f"{run.name:20} {run.seconds:8.2f} s {ratio:6.2f} × {run.peak_bytes / 1e6:8.0f} MB")
    if target:
        figures = {"bytes": size, "runs": [dataclasses.asdict(run) for run in runs]}
        target.write_text(json.dumps(figures, indent=1) + "\n", encoding="utf-8")


def machine() -> str:
    """What the figures were measured on."""
    return f"{platform.machine()}, {psutil.cpu_count()} cores, Python {platform.python_version()}"


def report(trace: str, runs: Sequence[Run], size: int) -> dict[str, object]:
    """Print the table on stdout and return the figures."""
    floor, cores = runs[0].seconds, len(os.sched_getaffinity(0))
    print(f"{trace}: {size / 1e6:,.0f} MB of JSON, {machine()}, {cores} of them used")
    print(f"{'':24} {'seconds':>8} {'cpu s':>8} {'MB/s':>7} {'× orjson':>9} {'peak MB':>8}")
    for run in runs:
        rate, used = size / 1e6 / run.seconds, run.processor_seconds
        ratio, peak = run.seconds / floor, run.peak_bytes / 1e6
        print(f"{run.name:24} {run.seconds:8.2f} {used:8.2f} {rate:7.0f} {ratio:9.2f} {peak:8.0f}", flush=True)
    return {"trace": trace, "bytes": size, "cores": cores, "runs": [dataclasses.asdict(run) for run in runs]}


def texts_of(source: Path, folder: Path, megabytes: int, odd: int) -> dict[str, Path]:
    """The grown trace as it is, compressed, and with odd events, by what the name of a run says of it."""
    texts = {"": folder / "trace.json", " (.gz)": folder / "trace.json.gz"}
    grow(source, texts[""], megabytes)
    with texts[""].open("rb") as plain, gzip.open(texts[" (.gz)"], "wb", compresslevel=4) as packed:
        shutil.copyfileobj(plain, packed, 1 << 22)
    if odd:
        texts[f" (1/{odd} odd)"] = folder / "odd.json"
        grow(source, folder / "odd.json", megabytes, odd)
    return texts


def main() -> None:
    """Command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("sources", type=Path, nargs="+", metavar="TRACE")
    parser.add_argument("--megabytes", type=int, default=536)
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--odd", type=int, default=100, help="one event in so many is odd (0: no such run)")
    parser.add_argument("--cores", type=int, action="append", help="use so many; may be given again")
    parser.add_argument("--hta", help="python of an environment that has HTA")
    parser.add_argument("--json", type=Path, help="write the figures here too")
    chosen = parser.parse_args()
    figures, available = [], sorted(os.sched_getaffinity(0))
    for source in chosen.sources:
        with tempfile.TemporaryDirectory(prefix="kerneldb-bench-") as name:
            texts = texts_of(source, Path(name), chosen.megabytes, chosen.odd)
            for cores in chosen.cores or [len(available)]:
                os.sched_setaffinity(0, available[:cores])
                runs = contenders(texts, Path(name), chosen.hta, chosen.repeats)
                figures.append(report(source.name, runs, texts[""].stat().st_size))
            os.sched_setaffinity(0, available)
    if chosen.json:
        chosen.json.write_text(json.dumps(figures, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
