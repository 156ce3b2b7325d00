"""Times of the same calls after disturbers of more and of fewer kinds of kernels; OUT gets a JSON file.

    PYTHONPATH=. python3 benchmarks/gpu/measure_cache_disturber.py OUT --plans bloom-560m.plan gpt2-train.plan

Needs PyTorch and nvidia-ml-py; plans are made elsewhere with `kerneldb replay --write-plan`. The full disturber comes
twice: how far the two are apart is what the others are to be compared with.
"""

from __future__ import annotations

import argparse
import json
import statistics
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from kerneldb.replay import facts
from kerneldb.replay.options import Options
from kerneldb.replay.wire import plan
from kerneldb.replay.wire.plan import Item
from kerneldb.replay.wire.results import CallResult
from kerneldb.replay.worker.engine import Engine
from kerneldb.replay.worker.executor import CacheDisturber, GpuExecutor

KINDS: Mapping[str, Sequence[int] | None] = {
    "all": None,
    "none": (),
    "softmax to index_select": (6, 7, 8, 9, 10, 11),
    "gelu to sort": (2, 3, 4, 5),
    "all, again": None,
}


class Times:
    """The engine's report: keeps the time of each call, and listens to the worker's messages."""

    def __init__(self) -> None:
        self.found: dict[str, float] = {}
        self.facts: Mapping[str, Any] = {}

    def begin(self, item: str | None, phase: str) -> None: ...

    def result(self, result: CallResult) -> None:
        if result.time is not None and result.final:
            self.found[result.item] = result.time.median_ns

    def ready(self, found: Mapping[str, Any]) -> None:
        self.facts = found


def only(
    kinds: Callable[[CacheDisturber], list[Any]], places: Sequence[int] | None
) -> Callable[[CacheDisturber], list[Any]]:
    """The kinds of kernels at these places."""
    return lambda self: [one for place, one in enumerate(kinds(self)) if places is None or place in places]


def measured(items: Sequence[Item], options: Options, said: Times) -> dict[str, tuple[float, dict[str, float]]]:
    """Seconds, and nanoseconds by call, for each disturber."""
    monitor = facts.open_device(options, said)  # type: ignore[arg-type]
    found, kinds = {}, CacheDisturber._kinds
    for name, places in KINDS.items():
        CacheDisturber._kinds = only(kinds, places)  # type: ignore[method-assign]
        said.found = {}
        begun = time.monotonic()
        Engine(GpuExecutor(options, monitor), options, said).run(items)
        found[name] = time.monotonic() - begun, said.found
    return found


def summed(found: Mapping[str, tuple[float, dict[str, float]]]) -> list[dict[str, Any]]:
    """Each disturber against the full one."""
    _, base = found["all"]
    rows = []
    for name, (seconds, times) in found.items():
        both = sorted(times.keys() & base.keys())
        ratios = [times[one] / base[one] for one in both]
        rows.append(
            {
                "interlude": name,
                "seconds": round(seconds, 1),
                "calls": len(both),
                "mean_ratio": round(statistics.fmean(ratios), 5),
                "ratio_of_sums": round(sum(times[one] for one in both) / sum(base[one] for one in both), 5),
                "deciles": [round(one, 4) for one in statistics.quantiles(ratios, n=10)],
            }
        )
    return rows


def main() -> int:
    """Run it."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("out", type=Path)
    parser.add_argument("--plans", type=Path, nargs="+", required=True)
    parser.add_argument("--runs", type=int, default=24)
    given = parser.parse_args()
    items = {item.id: item for path in given.plans for item in plan.read(path).items}
    options = Options(runs=given.runs, tries=2, loops=False, energy=False)
    said = Times()
    rows = summed(measured(list(items.values()), options, said))
    (given.out / "interlude.json").write_text(json.dumps({"run": said.facts, "rows": rows}, indent=1, default=str))
    for row in rows:
        sys.stdout.write(f"== {json.dumps(row)}\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
