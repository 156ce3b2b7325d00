"""How much of a step's data flow follows from dims alone: `python -m benchmarks.infer_flow`.

Tiny models of the families of `tests/replay/families.py` run a training step under the profiler, while a
TorchDispatchMode watches the storages. The trace is then read without its Execution Trace. An input is right where its
storage first appeared at the same operator as the real one. Parameters are left out.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
from collections import Counter
from pathlib import Path

import orjson

from tests.replay import families, flows


def main() -> int:
    """Print a line per family: operators compared, bytes of inputs, and the share of them that is right, in percent."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n", 1)[0])
    parser.add_argument("families", nargs="*", default=[one.name for one in families.FAMILIES])
    parser.add_argument("--further", action="store_true", help="families that it was not written for")
    parser.add_argument("--wrong", action="store_true", help="list the operators with most wrong bytes")
    asked = parser.parse_args()
    names = [one.name for one in families.FURTHER] if asked.further else asked.families
    lines = []
    with tempfile.TemporaryDirectory() as folder:
        for name in names:
            score = flows.compare(flows.record(name, Path(folder)))
            lines.append({"family": name, **score.row()})
            sys.stdout.write(f"{orjson.dumps(lines[-1]).decode()}\n")
            for key, size in Counter(score.wrong).most_common(25) if asked.wrong else ():
                sys.stdout.write(f"    {size:>9,} {key}\n")
    right, total = (sum(one[name] for one in lines) for name in ("right_bytes", "bytes"))
    sys.stdout.write(f"{len(lines)} families, {100 * right / total:.1f} % of {total:,} bytes\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
