"""What ran, read from files of every format by plain Python: nothing of kerneldb decides here what is right."""

from __future__ import annotations

import collections
import csv
import dataclasses
import functools
import gzip
import io
import json
import re
import sqlite3
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from decimal import ROUND_HALF_EVEN, Decimal
from pathlib import Path
from typing import Any

TIMELINE, PROFILED = "timeline", "profiled"
KERNEL, MEMCPY, MEMSET, GRAPH = "kernel", "memcpy", "memset", "graph"
PYTORCH_KINDS = {
    "kernel": KERNEL, "gpu_memcpy": MEMCPY, "gpu_memset": MEMSET, "Kernel": KERNEL, "Memcpy": MEMCPY, "Memset": MEMSET,
}  # fmt: skip
NSYS_TABLES = {"KERNEL": KERNEL, "MEMCPY": MEMCPY, "MEMSET": MEMSET, "GRAPH_TRACE": GRAPH}
NANOSECONDS = {
    "ns": 1, "nsec": 1, "nsecond": 1, "us": 10**3, "usec": 10**3, "usecond": 10**3, "ms": 10**6, "msec": 10**6,
    "msecond": 10**6, "s": 10**9, "sec": 10**9, "second": 10**9,
}  # fmt: skip
DURATIONS = ("Duration", "gpu__time_duration.sum", "Duration (gpu__time_duration.sum)")
RPD_KINDS = {"KernelExecution": KERNEL, "FillBuffer": MEMSET}


@dataclasses.dataclass(frozen=True)
class Ran:
    """One activity of a GPU. `half_ns`: half of the last digit that was printed, 0 where the figure is exact."""

    timing: str
    kind: str
    start_ns: int | None
    duration_ns: int | None
    key: str
    half_ns: Decimal = Decimal(0)
    start_half_ns: Decimal = Decimal(0)


@dataclasses.dataclass(frozen=True)
class Sum:
    """Launches and their time."""

    n: int = 0
    total_ns: int = 0

    def __add__(self, other: Sum) -> Sum:
        return Sum(self.n + other.n, self.total_ns + other.total_ns)


Sums = dict[tuple[str, str], Sum]


def sums(launches: Iterable[Ran]) -> Sums:
    """By timing and kind. Whatever has no duration is counted, and adds nothing."""
    found: Sums = collections.defaultdict(Sum)
    for launch in launches:
        found[launch.timing, launch.kind] += Sum(1, launch.duration_ns or 0)
    return dict(found)


def timings(found: Sums) -> dict[str, Sum]:
    """The same without kinds."""
    result: dict[str, Sum] = collections.defaultdict(Sum)
    for (timing, _), value in found.items():
        result[timing] += value
    return dict(result)


def nanoseconds(text: object, unit: int = 1) -> int | None:
    """Exact; a duration that is not a whole number of nanoseconds is rounded half to even."""
    printed = str(text).strip() if text is not None else ""
    if printed in {"", "None"}:
        return None
    return int((Decimal(printed) * unit).to_integral_value(ROUND_HALF_EVEN))


def _duration(start: int | None, end: int | None) -> int | None:
    """None where the file has no time that could be one."""
    return None if start is None or end is None or end < start else end - start


def read_bytes(path: Path) -> bytes:
    data = path.read_bytes()
    return gzip.decompress(data) if data[:2] == b"\x1f\x8b" else data


def read_text(path: Path) -> str:
    return read_bytes(path).decode("utf-8-sig", errors="replace")


# PyTorch


def _of_pytorch(path: Path) -> list[Ran]:
    """Of malformed files only those without a GPU event are taken: the samples ran on the CPU alone."""
    text = read_text(path)
    try:
        trace = json.loads(text, parse_float=str, strict=False)
    except json.JSONDecodeError:
        if re.search(rf'"cat":\s*"({"|".join(PYTORCH_KINDS)})"', text):
            raise
        return []
    events = trace["traceEvents"] if isinstance(trace, dict) else trace
    return [_pytorch_event(event) for event in events if event.get("ph") == "X" and event.get("cat") in PYTORCH_KINDS]


def _pytorch_event(event: Mapping[str, Any]) -> Ran:
    start, duration = nanoseconds(event.get("ts"), 1000), nanoseconds(event.get("dur"), 1000)
    if duration is not None and duration < 0:
        duration = None
    return Ran(TIMELINE, PYTORCH_KINDS[event["cat"]], start, duration, str(event["name"]))


# Nsight Systems


def _connection(path: Path) -> sqlite3.Connection:
    return sqlite3.connect(f"file:{path}?mode=ro&immutable=1", uri=True)


def _names(con: sqlite3.Connection) -> set[str]:
    return {str(name) for (name,) in con.execute("SELECT name FROM sqlite_master WHERE type IN ('table', 'view')")}


def _of_nsys_sqlite(path: Path) -> list[Ran]:
    """A row of GRAPH_TRACE is a launch of a graph, unless the nodes of its launch were traced one by one."""
    con = _connection(path)
    found = []
    for table, kind in NSYS_TABLES.items():
        if f"CUPTI_ACTIVITY_KIND_{table}" in _names(con):
            rows = con.execute(f'SELECT start, "end", correlationId FROM CUPTI_ACTIVITY_KIND_{table}')
            found += [Ran(TIMELINE, kind, start, _duration(start, end), str(key)) for start, end, key in rows]
    con.close()
    return found


def _memory_kind(name: str) -> str:
    """Of a name in brackets, as nsys and nvprof print what is no kernel."""
    return MEMSET if "memset" in name.lower() else MEMCPY


def _is_no_launch(name: str) -> bool:
    return name.startswith("[Unified Memory") and "Memcpy" not in name


def _unit(header: str, units: Mapping[str, str]) -> int:
    """Of a column of times: nsys prints it in the header, nvprof in a row of units."""
    printed = re.search(r"\((\w+)\)$", header)
    return NANOSECONDS[printed[1] if printed else units[header]]


def _tables(text: str, first: str) -> Iterator[tuple[list[str], list[list[str]]]]:
    """The printed tables whose header has a column that starts with `first`."""
    for block in re.split(r"\n\s*\n|(?:^|\n)(?:Processing|Using|Exporting|==\d+==|========)[^\n]*", text):
        delimiter = "\t" if "\t" in block.strip().split("\n")[0] else ","
        rows = [row for row in csv.reader(io.StringIO(block.strip()), delimiter=delimiter) if row]
        if rows and any(cell.startswith(first) for cell in rows[0]):
            yield rows[0], rows[1:]


def _of_gpu_trace(path: Path) -> list[Ran]:
    """`cuda_gpu_trace` of nsys, `--print-gpu-trace` of nvprof."""
    found = []
    for header, rows in _tables(read_text(path), "Duration"):
        units = dict(zip(header, rows[0], strict=False)) if "Start" in header else {}
        columns = {name.split(" (")[0].split("(")[0]: name for name in header}
        for row in rows[bool(units) :]:
            cells = dict(zip(header, row, strict=False))
            found.append(_printed(columns, cells, units))
    return [launch for launch in found if launch is not None]


def _printed(columns: Mapping[str, str], cells: Mapping[str, str], units: Mapping[str, str]) -> Ran | None:
    name = cells["Name"].rsplit("/", 1)[-1] if "/[" in cells["Name"] else cells["Name"]
    if _is_no_launch(name):
        return None
    unit, start_unit = _unit(columns["Duration"], units), _unit(columns["Start"], units)
    printed, start = cells[columns["Duration"]], cells[columns["Start"]]
    kind = _memory_kind(name) if name.startswith("[") else KERNEL
    halves = _half(printed, unit), _half(start, start_unit)
    return Ran(TIMELINE, kind, nanoseconds(start, start_unit), nanoseconds(printed, unit), name, *halves)


def _half(printed: str, unit: int) -> Decimal:
    """Half of the last digit of a number, 0 where that is less than a nanosecond."""
    decimals = len(printed.partition(".")[2])
    step = Decimal(unit).scaleb(-decimals)
    return step / 2 if step > 1 else Decimal(0)


def _of_gpu_trace_json(path: Path) -> list[Ran]:
    rows = json.loads(read_text(path), parse_float=str)
    columns = {name.split(" (")[0]: name for name in rows[0]}
    found = (_printed(columns, {name: str(value) for name, value in row.items()}, {}) for row in rows)
    return [launch for launch in found if launch is not None]


def _of_exec_trace(path: Path) -> list[Ran]:
    """`cuda_kern_exec_trace`: kernels beside the calls that launched them, no copies."""
    found = []
    for header, rows in _tables(read_text(path), "Kernel Start"):
        for row in rows:
            cells = dict(zip(header, row, strict=True))
            start, duration = nanoseconds(cells["Kernel Start (ns)"]), nanoseconds(cells["Kernel Dur (ns)"])
            found.append(Ran(TIMELINE, KERNEL, start, duration, cells["Kernel Name"]))
    return found


# Nsight Compute


def _of_ncu(path: Path) -> list[Ran]:
    """Pages `details` (a row per metric) and `raw` (a row per launch, units in the second row)."""
    text = read_text(path)
    start = re.search(r'^"ID",', text, re.MULTILINE)
    if start is None:
        return []
    rows = [row for row in csv.reader(io.StringIO(text[start.start() :])) if len(row) > 5]
    header = rows[0]
    if "Metric Name" in header:
        return _of_details(header, rows[1:])
    if "Invocations" in header:
        return []
    return _of_raw(header, rows[1], [row for row in rows[2:] if row[0].isdigit()])


def _ncu_key(header: Sequence[str], row: Sequence[str]) -> str:
    """A process and the number of the launch in it."""
    return " ".join((row[header.index("Process ID")], row[header.index("Process Name")], row[header.index("ID")]))


def _of_details(header: Sequence[str], rows: Sequence[Sequence[str]]) -> list[Ran]:
    name, unit, value = (header.index(f"Metric {what}") for what in ("Name", "Unit", "Value"))
    durations: dict[str, tuple[Decimal, int] | None] = {}
    for row in rows:
        if not row[0].isdigit():
            continue
        key = _ncu_key(header, row)
        durations.setdefault(key, None)
        if row[name] in DURATIONS:
            factor = NANOSECONDS[row[unit]]
            printed = _of_locale(row[value], 2)
            found = (_half(printed, factor), nanoseconds(printed, factor) or 0)
            durations[key] = min(found, durations[key] or found)
    return [_profiled(key, found) for key, found in durations.items()]


def _profiled(key: str, found: tuple[Decimal, int] | None) -> Ran:
    half, duration = found or (Decimal(0), None)
    return Ran(PROFILED, KERNEL, None, duration, key, half)


def _of_locale(printed: str, decimals: int) -> str:
    """The number without the separators of thousands: what follows the last separator is decimals if there are two."""
    digits = re.sub(r"[^0-9]", "", printed)
    tail = re.search(rf"[.,]([0-9]{{{decimals}}}|[0-9]{{6}})$", printed)
    return f"{digits[: -len(tail[1])]}.{tail[1]}" if tail else digits


def _of_raw(header: Sequence[str], units: Sequence[str], rows: Sequence[Sequence[str]]) -> list[Ran]:
    """Its hardware metrics are printed alike in every locale; a base unit has at most two decimals."""
    if "gpu__time_duration.sum" not in header:
        return [_profiled(_ncu_key(header, row), None) for row in rows]
    column = header.index("gpu__time_duration.sum")
    unit = NANOSECONDS[units[column]]
    found = []
    for row in rows:
        printed = _of_locale(row[column].split(" (")[0], 2)
        found.append(_profiled(_ncu_key(header, row), (_half(printed, unit), nanoseconds(printed, unit) or 0)))
    return found


# ROCm


def _of_rocpd(path: Path) -> list[Ran]:
    """Dispatches and copies, of every process of the file: the views without a suffix unite them."""
    con = _connection(path)
    found = []
    for table, kind in (("rocpd_kernel_dispatch", KERNEL), ("rocpd_memory_copy", MEMCPY)):
        rows = con.execute(f'SELECT start, "end", guid, id FROM {table}')
        found += [Ran(TIMELINE, kind, start, _duration(start, end), f"{guid} {row}") for start, end, guid, row in rows]
    con.close()
    return found


def _of_rpd(path: Path) -> list[Ran]:
    con = _connection(path)
    rows = con.execute(
        'SELECT o.start, o."end", t.string, d.string FROM rocpd_op o '
        "LEFT JOIN rocpd_string t ON t.id = o.opType_id LEFT JOIN rocpd_string d ON d.id = o.description_id"
    ).fetchall()
    con.close()
    return [
        Ran(TIMELINE, RPD_KINDS.get(kind, MEMCPY), start, _duration(start, end), name or kind)
        for start, end, kind, name in rows
    ]


def _of_rocprof_trace(path: Path) -> list[Ran]:
    """`kernel_trace` and `memory_copy_trace` of rocprofv3."""
    found = []
    for row in csv.DictReader(io.StringIO(read_text(path))):
        start, end = int(row["Start_Timestamp"]), int(row["End_Timestamp"])
        kind = KERNEL if "Kernel_Name" in row else MEMCPY
        found.append(Ran(TIMELINE, kind, start, _duration(start, end), row.get("Kernel_Name") or row["Direction"]))
    return found


def _of_counters(path: Path) -> list[Ran]:
    """`counter_collection` has a row per dispatch and counter; counting serialises, so the dispatches are profiled."""
    found = {}
    for row in csv.DictReader(io.StringIO(read_text(path))):
        start, end = int(row["Start_Timestamp"]), int(row["End_Timestamp"])
        key = f"{row['Process_Id']} {row['Dispatch_Id']}"
        found[key] = Ran(PROFILED, KERNEL, start, _duration(start, end), key)
    return list(found.values())


def _nothing(_: Path) -> list[Ran]:
    return []


IGNORED = re.compile(r"bundle\.json$|\.facts\.json$|\.(md|py|yaml|jsonl|ncu-rep)$|/expected-|symbols\.txt")
READERS: tuple[tuple[str, Callable[[Path], list[Ran]]], ...] = (
    (r"kernel_trace\.csv$|memory_copy_trace\.csv$", _of_rocprof_trace),
    (r"counter_collection\.csv$", _of_counters),
    (r"rocprof.*\.db$", _of_rocpd),
    (r"\.rpd$", _of_rpd),
    (r"kern_exec_trace", _of_exec_trace),
    (r"gpu_?trace[^/]*\.json$", _of_gpu_trace_json),
    (r"gpu_?trace|gpu-trace", _of_gpu_trace),
    (r"console_20\d\d\.\d\.csv$", _of_gpu_trace),
    (r"[_-]sum[._]|_stats\.csv$|rocprofv3_docs_|nvprof-no-last|nvtx_", _nothing),
    (r"\.sqlite$", _of_nsys_sqlite),
    (r"/ncu[^/]*/.*(csv|log)(\.gz)?$|/nsight/ncu-", _of_ncu),
    (r"\.json(\.gz)?$", _of_pytorch),
)


def _reader(path: Path) -> Callable[[Path], list[Ran]] | None:
    if IGNORED.search(str(path)):
        return None
    return next((reader for pattern, reader in READERS if re.search(pattern, str(path))), None)


def knows(path: Path) -> bool:
    """Whether the name is one of a trace or a report, going by the samples."""
    return _reader(path) is not None


@functools.cache
def ran(path: Path) -> tuple[Ran, ...]:
    """What ran by one file. Raises ValueError for a file that this module does not know."""
    reader = _reader(path)
    if reader is None:
        message = f"no plain reader for {path}"
        raise ValueError(message)
    return tuple(reader(path))


# Prints of one report


Launch = tuple[str, str, int | None, int | None]


def _timeline(launches: Iterable[Ran]) -> collections.Counter[Launch]:
    return collections.Counter(
        (launch.timing, launch.kind, launch.start_ns, launch.duration_ns)
        for launch in launches
        if launch.timing == TIMELINE
    )


def _exact(launches: Iterable[Ran]) -> bool:
    return not any(launch.half_ns or launch.start_half_ns for launch in launches)


def _near(one: Ran, other: Ran) -> bool:
    """Whether start and duration are the same but for what printing cut off."""
    if one.duration_ns is None or other.duration_ns is None or one.start_ns is None or other.start_ns is None:
        return True
    apart, starts_apart = abs(one.duration_ns - other.duration_ns), abs(one.start_ns - other.start_ns)
    return apart <= one.half_ns + other.half_ns and starts_apart <= one.start_half_ns + other.start_half_ns


def _share_timeline(one: Sequence[Ran], other: Sequence[Ran]) -> bool:
    """Half of the shorter one stands in the other; rounded prints have as many of each kind, and each alike."""
    if _exact(one) and _exact(other):
        mine, theirs = _timeline(one), _timeline(other)
        return 2 * (mine & theirs).total() >= min(mine.total(), theirs.total()) > 0
    ordered = [
        sorted((x for x in launches if x.timing == TIMELINE), key=lambda x: (x.kind, x.start_ns or 0, x.key))
        for launches in (one, other)
    ]
    alike = [launch.kind for launch in ordered[0]] == [launch.kind for launch in ordered[1]] != []
    return alike and all(_near(*pair) for pair in zip(*ordered, strict=True))


def _share_profiled(one: Sequence[Ran], other: Sequence[Ran]) -> bool:
    """Launches of the same number in the same process, and no duration that contradicts."""
    mine, theirs = ({x.key: x for x in launches if x.timing == PROFILED} for launches in (one, other))
    both = mine.keys() & theirs.keys()
    return bool(both) and all(
        mine[key].start_ns == theirs[key].start_ns
        and abs((mine[key].duration_ns or 0) - (theirs[key].duration_ns or 0))
        <= mine[key].half_ns + theirs[key].half_ns
        for key in both
        if mine[key].duration_ns is not None and theirs[key].duration_ns is not None
    )


def prints(files: Sequence[Path]) -> list[frozenset[Path]]:
    """Files that tell of the same launches, each file in one set; files without launches are left out."""
    found: list[set[Path]] = []
    for file in files:
        if ran(file):
            same = [group for group in found if any(_shared(file, other) for other in group)]
            found = [group for group in found if group not in same]
            found.append({file}.union(*same))
    return [frozenset(group) for group in found]


@functools.cache
def _shared(one: Path, other: Path) -> bool:
    if _marks(one).isdisjoint(_marks(other)):
        return False
    return _share_timeline(ran(one), ran(other)) or _share_profiled(ran(one), ran(other))


@functools.cache
def _marks(file: Path) -> frozenset[object]:
    """What two prints of a report have in common at the least: a duration, or a process and the number of a launch."""
    return frozenset(x.key if x.timing == PROFILED else (x.kind, x.duration_ns) for x in ran(file))


def once(files: Sequence[Path]) -> list[Ran]:
    """What ran by all these files, each launch once: of several prints, the most precise one counts."""
    found: list[Ran] = []
    for group in prints(files):
        found += _once_timeline([ran(file) for file in group])
        found += _once_profiled([ran(file) for file in group])
    return found


def _once_timeline(lists: Sequence[Sequence[Ran]]) -> list[Ran]:
    """As often as the file with most of them says; rounded prints add nothing to exact ones."""
    exact = [launches for launches in lists if _exact(launches)]
    most: collections.Counter[Launch] = collections.Counter()
    for launches in exact or lists[:1]:
        most |= _timeline(launches)
    return [Ran(*launch, key="") for launch in most.elements()]


def _once_profiled(lists: Sequence[Sequence[Ran]]) -> list[Ran]:
    best: dict[str, Ran] = {}
    for launch in (launch for launches in lists for launch in launches if launch.timing == PROFILED):
        best[launch.key] = min(launch, best.get(launch.key, launch), key=lambda x: (x.duration_ns is None, x.half_ns))
    return list(best.values())


OUTPUT = re.compile(r"(.*)_(?:kernel_trace|memory_copy_trace|counter_collection)\.csv$")


def answering(files: Sequence[Path]) -> list[Ran]:
    """What ran, with the timing that each run answers with.

    rocprofv3 writes the CSV of one call under one name. Where such an output has a timeline, its passes that count do
    not answer for how long kernels ran.
    """
    timed = {_output(file) for file in files if any(launch.timing == TIMELINE for launch in ran(file))}
    beside = {file for file in files if _output(file) in timed and all(x.timing == PROFILED for x in ran(file))}
    return once([file for file in files if file not in beside])


def _output(file: Path) -> str:
    found = OUTPUT.match(str(file))
    return found[1] if found else str(file)
