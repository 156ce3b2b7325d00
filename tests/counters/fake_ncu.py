"""Stands in for Nsight Compute: runs its program, then prints a recorded page with the kernels of the calls that ran.

The page is one of an H200 (tests/ncu/data); only names, launch shapes and ranges are written into it. FAKE_NCU in the
environment says what goes wrong: `permission`, or `hang` (of four calls the second hangs).
"""

from __future__ import annotations

import csv
import gzip
import io
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

from kerneldb import codec
from kerneldb.replay.host import traffic
from kerneldb.replay.wire import plan
from kerneldb.replay.wire.messages import MESSAGES, Counted, Job
from kerneldb.replay.wire.plan import PlannedKernel

PAGE = Path(__file__).parents[1] / "ncu" / "data" / "h200-roofline.raw.csv.gz"
RANGES = "thread Domain:Push/Pop_Range:PL_Type:PL_Value:CLR_Type:Color:Msg_Type:Msg"
CHILD = "python3.12"
FAULT = os.environ.get("FAKE_NCU", "")


def page(ran: list[tuple[str, PlannedKernel]], process: int, more: tuple[str, ...] = ()) -> str:
    """A page; of `more` metrics each launch has a thousand for each launch before it, and a thousand."""
    lines = list(csv.reader(io.StringIO(gzip.decompress(PAGE.read_bytes()).decode())))
    at = next(number for number, line in enumerate(lines) if line[:1] == ["ID"])
    header, units, recorded = lines[at], lines[at + 1], lines[at + 2 :]
    written = io.StringIO()
    writer = csv.writer(written, quoting=csv.QUOTE_ALL, lineterminator="\n")
    writer.writerow([*header[:4], RANGES, *header[4:], *more])
    writer.writerow([*units[:4], "", *units[4:], *["byte"] * len(more)])
    for number, (item, kernel) in enumerate(ran):
        row = dict(zip(header, recorded[number % len(recorded)], strict=True))
        row |= {"ID": str(number), "Process ID": str(process), "Kernel Name": kernel.name}
        for shape, column in ((kernel.grid, "Grid Size"), (kernel.block, "Block Size")):
            row[column] = f"({', '.join(map(str, shape or (1, 1, 1)))})"
        axes = {
            f"launch__{side}_dim_{axis}": size
            for side, sizes in (("grid", kernel.grid), ("block", kernel.block))
            for axis, size in zip("xyz", sizes or (), strict=False)
        }
        shared = {"launch__shared_mem_per_block_static": 0, "launch__shared_mem_per_block_dynamic": kernel.shared_bytes}
        row |= {name: str(value or 0) for name, value in (axes | shared).items() if name in row}
        cells = list(row.values())
        label = f'{process}  "<default domain>:kerneldb {item}:none:none:none:none:none:none" '
        writer.writerow([*cells[:4], label, *cells[4:], *[f"{number + 1},000"] * len(more)])
    return written.getvalue()


def main() -> int:
    arguments = sys.argv[1:]
    if arguments == ["--version"]:
        sys.stdout.write("NVIDIA (R) Nsight Compute Command Line Profiler\nVersion 2025.3.1.0 (build 36398880)\n")
        return 0
    log = Path(arguments[arguments.index("--log-file") + 1])
    program = arguments[arguments.index(sys.executable) :]
    folder = Path(program[-2])
    if FAULT == "permission":
        log.write_text(
            "==ERROR== ERR_NVGPUCTRPERM - The user does not have permission to access NVIDIA GPU Performance Counters "
            "on the target device 0.\n==WARNING== No kernels were profiled.\n"
        )
        return 1
    child = subprocess.Popen(program)
    job = codec.load(Job, (folder / "job").read_text(), own=True)
    victim = job.items[1] if FAULT == "hang" and len(job.items) > 3 else None
    messages = folder / "messages"
    while victim is not None and child.poll() is None:
        if f'"{victim}"' in messages.read_text():
            os.kill(child.pid, signal.SIGSTOP)
            break
        time.sleep(0.001)
    child.wait()
    said = [MESSAGES.load(line) for line in messages.read_text().splitlines()]
    ran = [one.item for one in said if isinstance(one, Counted) and one.reason is None and one.item != victim]
    items = {item.id: item for item in plan.read(Path(job.plan)).items}
    kernels = [(name, one) for name in ran for one in items[name].kernels if one.kind == "kernel"]
    asked = arguments[arguments.index("--metrics") + 1].split(",")
    more = tuple(name for name in asked if name in traffic.METRICS)
    log.write_text(f"==PROF== Connected to process {child.pid} ({CHILD})\n{page(kernels, child.pid, more)}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
