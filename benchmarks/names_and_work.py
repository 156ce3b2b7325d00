"""How fast kernel names are decoded and problems are worked out, beside a floor in the same run.

    python benchmarks/names_and_work.py TRACE.json[.gz] …

Names: the distinct kernel names of the traces, each made new by a suffix so that no cache answers. Floor: one pass of
a regular expression that splits the same names into words and signs. Problems: a matrix product from its recorded
arguments. Floor: `json.loads` of the same four texts. Rates are per processor second of this process, best of three.
"""

from __future__ import annotations

import argparse
import gzip
import json
import re
import time
from pathlib import Path
from typing import TYPE_CHECKING

import orjson

from kerneldb.names import decode_many
from kerneldb.work import LaunchShape, OpCall, problem

if TYPE_CHECKING:
    from collections.abc import Callable

KINDS = {"kernel": "kernel", "gpu_memcpy": "memcpy", "gpu_memset": "memset"}
WORDS = re.compile(r"\w+|\W")
COPIES = 8
PROBLEMS = 5_000
TIMES = 3
CALL = (
    "[[3072], [64, 1024], [1024, 3072], [], []]",
    "[[1], [1024, 1], [1, 1024], [], []]",
    '["c10::Half", "c10::Half", "c10::Half", "Scalar", "Scalar"]',
    '["", "", "", "1", "1"]',
)
LAUNCH = LaunchShape("kernel", (4, 12, 1), (384, 1, 1))


def names_of(path: Path) -> set[tuple[str, str]]:
    """Kernel names of a trace, with the kind of activity."""
    data = path.read_bytes()
    events = orjson.loads(gzip.decompress(data) if path.suffix == ".gz" else data)["traceEvents"]
    shown = (event for event in events if event.get("cat") in KINDS and event["ph"] == "X")
    return {(event["name"], KINDS[event["cat"]]) for event in shown}


def rate(work: Callable[[int], object], items: int) -> float:
    """Items per processor second; `work` is told which time it is."""
    spent = []
    for turn in range(TIMES):
        began = time.process_time()
        work(turn)
        spent.append(time.process_time() - began)
    return items / min(spent)


def names_rates(names: set[tuple[str, str]]) -> tuple[float, float]:
    """Names decoded per second, and names split into words per second."""

    def fresh(turn: int) -> list[tuple[str, str]]:
        return [(f"{name}variant{turn}x{copy}", kind) for copy in range(COPIES) for name, kind in sorted(names)]

    made = [fresh(turn) for turn in range(TIMES)]
    found = rate(lambda turn: decode_many(made[turn]), len(made[0]))
    return found, rate(lambda turn: [WORDS.findall(name) for name, _ in made[turn]], len(made[0]))


def work_rates() -> tuple[float, float]:
    """Problems per second, and calls whose texts are parsed per second."""
    (name,) = decode_many([("nvjet_hsh_128x64_64x6_1x2_h_bz_TNT", "kernel")])
    call = OpCall("aten::addmm", *CALL)
    found = rate(lambda _: [problem(call, name, LAUNCH) for _ in range(PROBLEMS)], PROBLEMS)
    return found, rate(lambda _: [[json.loads(text) for text in CALL] for _ in range(PROBLEMS)], PROBLEMS)


def main() -> None:
    """Command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("traces", type=Path, nargs="+", metavar="TRACE")
    names = set().union(*(names_of(path) for path in parser.parse_args().traces))
    print(f"{len(names):,} distinct names")
    print(f"{'':10} {'per second':>12} {'floor':>12} {'times the floor':>16}")
    for what, (found, floor) in (("names", names_rates(names)), ("problems", work_rates())):
        print(f"{what:10} {found:12,.0f} {floor:12,.0f} {floor / found:16.2f}")


if __name__ == "__main__":
    main()
