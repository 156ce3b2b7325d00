"""How long a writer waits for those who read the same file, and what each of them sees meanwhile.

    python benchmarks/sessions.py TRACE.json.gz [--traces 20] [--json benchmarks/results/DATE-sessions.json]

Two processes ask one question after the other, the terminal screens (Textual's test driver) go from screen to screen,
and a fourth process reads copies of the trace into the same database, one by one. The floor is the same without
company, in the same run. A reader that sees some launches of a trace and not all of them ends with an error.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import gzip
import json
import platform
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator

SEEN = """
SELECT count(*) AS n
FROM (
    SELECT t.trace_id
    FROM traces AS t
    LEFT JOIN launches AS l USING (trace_id)
    GROUP BY t.trace_id, t.launches
    HAVING count(l.trace_id) <> t.launches
)
"""
"""How many traces are there in part."""
SCREENS = ("1", "2", "4", "5", "8")


def read(database: str) -> None:
    """Ask until stdin ends."""
    import threading

    import kerneldb

    ended = threading.Event()
    threading.Thread(target=lambda: (sys.stdin.read(), ended.set()), daemon=True).start()
    asked = 0
    while not ended.is_set():
        (row,) = kerneldb.open(database).sql(SEEN).rows()
        if row["n"]:
            sys.exit("half a trace was seen")
        asked += 1
        if asked == 1:
            print("asks", flush=True)
    print(asked, flush=True)


async def look(database: str) -> None:
    """Go from screen to screen until stdin ends."""
    from kerneldb.tui.app import KerneldbApp

    loop = asyncio.get_running_loop()
    ended = loop.run_in_executor(None, sys.stdin.read)
    app, shown = KerneldbApp(database), 0
    async with app.run_test(size=(160, 48)) as pilot:
        while not ended.done():
            await pilot.press(SCREENS[shown % len(SCREENS)])
            await asyncio.sleep(0.1)
            shown += 1
            if shown == len(SCREENS):
                print("asks", flush=True)
    print(shown, flush=True)


@contextlib.contextmanager
def company(database: Path, *roles: str) -> Iterator[list[int]]:
    """Processes that use the database meanwhile; the list holds at the end how often each of them asked."""
    counts: list[int] = []
    command = [sys.executable, __file__, "--database", str(database), "--role"]
    with contextlib.ExitStack() as stack:
        started = [
            stack.enter_context(
                subprocess.Popen([*command, role], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
            )
            for role in roles
        ]
        for process in started:
            if process.stdout is None or process.stdout.readline() != "asks\n":
                sys.exit("a reader did not begin")
        yield counts
        for process in started:
            said, _ = process.communicate()
            if process.returncode:
                sys.exit("a reader failed")
            counts.append(int(said))


def commits(database: Path, texts: list[Path]) -> tuple[list[float], list[float]]:
    """Seconds until the file could be written, by a change of nothing, and of an ingest, in turn."""
    import kerneldb

    waits, ingests = [], []
    for text in texts:
        opened = kerneldb.open(database)
        began = time.perf_counter()
        if database.exists():
            opened.warehouse.write(lambda con: con.execute("SELECT 1"))
        waits.append(time.perf_counter() - began)
        opened.ingest(text)
        ingests.append(time.perf_counter() - began - waits[-1])
    return waits, ingests


def copies(trace: Path, folder: Path, count: int) -> list[Path]:
    """The same trace as so many files of other content: blanks behind the end."""
    text = gzip.decompress(trace.read_bytes()) if trace.suffix == ".gz" else trace.read_bytes()
    paths = [folder / f"{number}.json" for number in range(count)]
    for number, path in enumerate(paths):
        path.write_bytes(text + b" " * number)
    return paths


def measure(trace: Path, count: int) -> dict[str, object]:
    """Seconds without and with company, and how often the company asked."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        texts = copies(trace, folder, 2 * count + 1)
        commits(folder / "k.duckdb", texts[:1])
        alone = commits(folder / "k.duckdb", texts[1 : count + 1])
        with company(folder / "k.duckdb", "read", "read", "look") as asked:
            beside = commits(folder / "k.duckdb", texts[count + 1 :])
    found: dict[str, object] = {"asked": asked}
    for place, (waits, ingests) in {"alone": alone, "beside": beside}.items():
        found[f"write_{place}_s"] = [round(statistics.median(waits), 3), round(max(waits), 3)]
        found[f"ingest_{place}_s"] = [round(statistics.median(ingests), 3), round(max(ingests), 3)]
    return found


def main() -> None:
    """Measure, or be the company of a measurement."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("trace", type=Path, nargs="?")
    parser.add_argument("--traces", type=int, default=20)
    parser.add_argument("--json", type=Path)
    parser.add_argument("--database", help=argparse.SUPPRESS)
    parser.add_argument("--role", help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.role == "read":
        read(given.database)
    elif given.role == "look":
        asyncio.run(look(given.database))
    elif given.trace is None:
        parser.error("which trace?")
    else:
        found = measure(given.trace, given.traces)
        found["python"] = platform.python_version()
        text = json.dumps(found, indent=1)
        print(text)
        if given.json is not None:
            given.json.write_text(f"{text}\n")


if __name__ == "__main__":
    main()
