"""Prints, exports and copies of one capture are one run by what they hold, in any folder, and its work counts once.

What is true stands in what the prints were made of: `tests/nsys/exports.py`, the CSV of `tests/ncu/data`, the kernels
that a test hands to `tests/rocprof/databases.py`, or the JSON of a PyTorch trace.
"""

from __future__ import annotations

import contextlib
import csv
import dataclasses
import gzip
import io
import json
import random
import re
import sqlite3
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import pytest

import kerneldb
from kerneldb.api import Database
from tests.conftest import made_once
from tests.ingest import traces
from tests.nsys import exports
from tests.rocprof import databases, formats
from tests.rocprof.databases import Kernel, Process, rocpd
from tests.rocprof.test_csv import COUNTED, COUNTERS
from tests.runs import asking
from tests.runs.asking import Files, sets

pytestmark = pytest.mark.thorough

TESTS = Path(__file__).parents[1]
NSYS, NCU = TESTS / "fixtures" / "nsys", TESTS / "ncu" / "data"
TOTAL = sum(one.duration for one in exports.KERNELS)
COPIED = sum(one.duration for one in exports.MEMORY)
LAUNCHED = (len(exports.KERNELS), TOTAL)
KIND = "kind = 'kernel'"
REPORT = re.compile(r"Processing \[r23\.sqlite\] with \[\S+/(\w+)\.py\]\.\.\. \n")


def launched(database: Database, where: str = KIND) -> tuple[int, int]:
    """How many launches ran, and for how long (ns), by the view that says what ran once."""
    sql = f"SELECT count(*) AS n, coalesce(sum(duration_ns), 0)::BIGINT AS ns FROM kernels WHERE {where}"
    ((n, total),) = (row.values() for row in database.sql(sql))
    return n, total


def summed(database: Database, where: str = KIND) -> tuple[int, int]:
    """The same by the sums per signature, which prints without launches have, too."""
    sql = f"SELECT sum(n)::BIGINT AS n, sum(total_ns)::BIGINT AS ns FROM kernel_rollups WHERE {where}"
    ((n, total),) = (row.values() for row in database.sql(sql))
    return n or 0, total or 0


def one_run(database: Database, files: Files) -> None:
    """All are prints of one report, and no ranks of a job."""
    assert asking.together(database, files, "run") == sets(" ".join(files))
    assert asking.linked(database, files, "print") == sets(" ".join(files))
    assert asking.linked(database, files, "job") == sets(*files)


def own_runs(database: Database, files: Files) -> None:
    """Each is alone."""
    assert asking.together(database, files, "run") == sets(*files)
    assert asking.linked(database, files, "print") == sets(*files)


def placed(folder: Path, contents: dict[str, bytes]) -> Files:
    """A folder of its own for each file, with a name that tells nothing; the endings stay."""
    files = {}
    for number, (word, content) in enumerate(contents.items()):
        ending = "".join(Path(word).suffixes[-2:]) if word.endswith(".gz") else Path(word).suffix
        key = word.replace(" ", "-")
        files[key] = folder / f"f{number}" / f"{chr(122 - number)}x{ending}"
        files[key].parent.mkdir(parents=True)
        files[key].write_bytes(content)
    return files


# Nsight Systems


def console_reports() -> dict[str, bytes]:
    """The reports that nsys printed into a terminal, each as a file of its own."""
    parts = REPORT.split((NSYS / "console_2023.4.csv").read_text())
    return {f"{name}.csv": text.strip().encode() + b"\n" for name, text in zip(parts[1::2], parts[2::2], strict=True)}


def printed_by_nsys() -> dict[str, bytes]:
    """The prints of the capture in the database of `exports.build`, but sums per range, which tell of no sum."""
    wanted = (
        "r23_cuda_gpu_trace*",
        "r23_cuda_gpu_kern*",
        "r23_cuda_gpu_sum*",
        "units_*",
        "micro*",
    )
    fixtures = [path for pattern in wanted for path in sorted(NSYS.glob(pattern))]
    whole = {path.name: path.read_bytes() for path in (*fixtures, NSYS / "console_2023.4.csv")}
    reports = console_reports()
    apart = ("cuda_kern_exec_trace.csv", "cuda_gpu_mem_time_sum.csv")
    return {**whole, **{name: reports[name] for name in apart}}


@pytest.fixture
def sqlite(tmp_path: Path) -> Path:
    (tmp_path / "db").mkdir()
    return exports.build(tmp_path / "db" / "report7.sqlite", "2023.4")


def test_the_prints_are_all_there() -> None:
    assert len(printed_by_nsys()) == 15


def test_all_prints_of_one_capture_are_one_run(database: Database, tmp_path: Path, sqlite: Path) -> None:
    """The database comes last: all that answered until then must step back."""
    files = {**placed(tmp_path / "prints", printed_by_nsys()), "sqlite": sqlite}
    order = random.Random(0).sample(sorted(files), len(files))
    database.ingest([files[word] for word in order if word != "sqlite"])
    database.ingest([sqlite])
    one_run(database, files)
    assert launched(database) == summed(database) == LAUNCHED
    copies = (len(exports.MEMORY), COPIED)
    assert launched(database, "kind <> 'kernel'") == summed(database, "kind <> 'kernel'") == copies


def each_print() -> list[Any]:
    """The names of the prints. One of few digits is in every run; tests beside have sums, and exact launches."""
    telling = "microseconds_gputrace.csv"
    others = [name for name in printed_by_nsys() if name != telling][::7]
    return [telling, *(pytest.param(name, marks=pytest.mark.volume) for name in others)]


@pytest.mark.parametrize("name", each_print())
def test_a_print_and_its_database_are_one_run(database: Database, tmp_path: Path, sqlite: Path, name: str) -> None:
    """The print came first: what answered until now must step back."""
    ((word, path),) = placed(tmp_path / "prints", {name: printed_by_nsys()[name]}).items()
    database.ingest([path])
    database.ingest([sqlite])
    one_run(database, {word: path, "sqlite": sqlite})
    assert launched(database) == summed(database) == LAUNCHED


def test_sizes_of_copies_add_no_time(database: Database, tmp_path: Path, sqlite: Path) -> None:
    """Whether a print without any time is of this capture may stay open: each capture of a program copies as much."""
    prints = placed(tmp_path / "prints", {"sizes.json": (NSYS / "r23_cuda_gpu_mem_size_sum.json").read_bytes()})
    database.ingest([*prints.values(), sqlite])
    assert summed(database) == LAUNCHED
    assert launched(database, "kind <> 'kernel'") == (len(exports.MEMORY), COPIED)
    assert summed(database, "kind <> 'kernel'")[1] == COPIED


def test_a_run_of_prints_without_a_trace_sums_once(database: Database, tmp_path: Path) -> None:
    names = ("r23_cuda_gpu_kern_sum.tsv", "r23_cuda_gpu_kern_gb_sum.json", "r23_cuda_gpu_sum.csv")
    files = placed(tmp_path / "prints", {name: printed_by_nsys()[name] for name in names})
    asking.in_calls(database, files, files)
    one_run(database, files)
    assert launched(database)[0] == 0
    assert summed(database) == LAUNCHED
    timings = database.sql("SELECT DISTINCT timing FROM kernel_rollups").rows()
    assert timings == [{"timing": "summed"}]


def test_the_next_print_answers_when_the_best_is_gone(database: Database, tmp_path: Path, sqlite: Path) -> None:
    names = ("r23_cuda_gpu_trace.csv", "cuda_kern_exec_trace.csv", "r23_cuda_gpu_kern_sum.tsv")
    prints = placed(tmp_path / "prints", {name: printed_by_nsys()[name] for name in names})
    files = {**prints, "sqlite": sqlite}
    database.ingest([tmp_path])
    database.remove(asking.facts(database, files)["sqlite"]["name"])
    del files["sqlite"]
    one_run(database, files)
    assert launched(database) == summed(database) == LAUNCHED
    database.remove(asking.facts(database, files)["r23_cuda_gpu_trace.csv"]["name"])
    assert launched(database)[0] == 8  # cuda_kern_exec_trace leaves out the kernel whose call nobody saw
    database.remove(asking.facts(database, files)["cuda_kern_exec_trace.csv"]["name"])
    assert launched(database)[0] == 0
    assert summed(database) == LAUNCHED


def test_sums_of_everything_and_of_its_launches_agree(database: Database, tmp_path: Path, sqlite: Path) -> None:
    prints = placed(tmp_path / "prints", {"r23_cuda_gpu_trace.csv": printed_by_nsys()["r23_cuda_gpu_trace.csv"]})
    files = {**prints, "sqlite": sqlite}
    asking.in_calls(database, files, files)
    one_run(database, files)
    total = TOTAL + COPIED
    for call in ("top_kernels({})", "time_by('category, operation', {})"):
        for source in ("'kernels'", "'selection'"):
            asked = f"SELECT sum(total_ns)::BIGINT AS ns FROM {call.format(source)}"
            assert database.sql(asked, where="true").rows() == [{"ns": total}], asked
    every = database.sql("SELECT is_primary, count(*) AS n FROM all_launches GROUP BY ALL ORDER BY ALL").rows()
    activities = len(exports.KERNELS) + len(exports.MEMORY)
    assert every == [{"is_primary": False, "n": activities}, {"is_primary": True, "n": activities}]


def renewed(
    folder: Path, kernels: Iterable[exports.Kernel] = exports.KERNELS, *, later_s: int = 0, **more: Any
) -> Path:
    """An export, of a capture that began `later_s` after the others."""
    folder.mkdir(parents=True)
    path = exports.build(folder / "report1.sqlite", "2023.4", kernels=kernels, **more)
    with contextlib.closing(sqlite3.connect(path)) as connection, connection:
        began = exports.START_UTC + later_s * 10**9
        connection.execute("UPDATE TARGET_INFO_SESSION_START_TIME SET utcEpochNs = ?", (began,))
    return path


def longer(one: exports.Kernel, by: int) -> exports.Kernel:
    return dataclasses.replace(one, duration=one.duration + by, start=one.start + by)


@pytest.mark.parametrize(("same", "later_s"), [pytest.param(0, 0, marks=pytest.mark.volume), (1, 60)])
def test_another_capture_of_the_same_program_is_another_run(
    database: Database, tmp_path: Path, same: int, later_s: int
) -> None:
    """The same names, grids, calls and correlations; a kernel may take as long as it took before."""
    again = [longer(one, 3 + 2 * number if number >= same else 0) for number, one in enumerate(exports.KERNELS)]
    copies = [dataclasses.replace(one, duration=one.duration + 11) for one in exports.MEMORY]
    files = {"A": renewed(tmp_path / "x"), "B": renewed(tmp_path / "y", again, later_s=later_s, memory=copies)}
    asking.in_calls(database, files, files)
    own_runs(database, files)
    assert launched(database) == (2 * len(again), TOTAL + sum(one.duration for one in again))


def test_prints_of_two_captures_find_their_own(database: Database, tmp_path: Path) -> None:
    """Sums of the first capture join the first, though the second is of the same program."""
    again = [longer(one, 3 + 2 * number) for number, one in enumerate(exports.KERNELS)]
    names = ("r23_cuda_gpu_kern_sum.tsv", "r23_cuda_gpu_trace_base.csv")
    prints = placed(tmp_path / "prints", {name: printed_by_nsys()[name] for name in names})
    files = {"B": renewed(tmp_path / "y", again, later_s=60), **prints, "A": renewed(tmp_path / "x")}
    asking.in_calls(database, files, files)
    assert asking.together(database, files, "run") == sets("B", f"A {' '.join(names)}")
    assert launched(database) == (2 * len(again), TOTAL + sum(one.duration for one in again))


def test_windows_that_overlap_count_each_launch_once(database: Database, tmp_path: Path) -> None:
    """Exports with `--ts-start` and the like: A and B share launches; C is between them."""
    parts = {"A": exports.KERNELS[:6], "C": exports.KERNELS[2:7], "B": exports.KERNELS[3:]}
    files = {word: renewed(tmp_path / word, part) for word, part in parts.items()}
    asking.in_calls(database, files, files)
    assert asking.together(database, files, "run") == sets("A B C")
    assert launched(database) == LAUNCHED
    assert launched(database, "kind <> 'kernel'") == (len(exports.MEMORY), COPIED)
    remove(database, files, "C")
    assert launched(database) == LAUNCHED
    remove(database, files, "A")
    assert launched(database) == (len(parts["B"]), sum(one.duration for one in parts["B"]))


def remove(database: Database, files: Files, word: str) -> None:
    database.remove(asking.facts(database, files)[word]["name"])


def test_reports_of_one_name_in_folders_of_one_name_are_apart(database: Database, tmp_path: Path) -> None:
    """`run/report1.sqlite` is what nsys calls everybody's."""
    other = [longer(one, 1000 + 7 * number) for number, one in enumerate(exports.KERNELS[:4])]
    files = {
        "A": renewed(tmp_path / "x" / "run", memory=()),
        "B": renewed(tmp_path / "y" / "run", other, later_s=60, memory=()),
    }
    database.ingest([tmp_path / "x", tmp_path / "y"])
    own_runs(database, files)
    assert launched(database)[0] == len(exports.KERNELS) + len(other)


# Nsight Compute


def page(name: str) -> bytes:
    return gzip.decompress((NCU / f"{name}.csv.gz").read_bytes())


def rows_of(name: str) -> list[list[str]]:
    return list(csv.reader(io.StringIO(page(name).decode())))


def encoded(rows: Iterable[list[str]]) -> bytes:
    text = io.StringIO()
    csv.writer(text, quoting=csv.QUOTE_ALL, lineterminator="\n").writerows(rows)
    return text.getvalue().encode()


def sections(*names: str) -> bytes:
    """The details page with some sections only, as of `ncu --import … --section`."""
    head, *rows = rows_of("C.details")
    return encoded([head, *(row for row in rows if row[13] in names)])


def metrics(keep: Callable[[str], bool]) -> bytes:
    """The raw page with some metrics only, as of `ncu --import … --metrics`."""
    rows = rows_of("C.raw")
    wanted = [number for number, name in enumerate(rows[0]) if number < 13 or keep(name)]
    return encoded([row[number] for number in wanted] for row in rows)


def counters(database: Database) -> dict[tuple[str, str], tuple[int, float]]:
    """Kernel and metric → on how many launches it is known, and its mean."""
    sql = """
        SELECT n.match_name AS name, c.metric, c.launches, c.mean FROM signature_counters AS c
        JOIN signatures USING (signature_id) JOIN kernel_names AS n USING (name_id)
    """
    return {(row["name"], row["metric"]): (row["launches"], row["mean"]) for row in database.sql(sql)}


Counters = dict[tuple[str, str], tuple[int, float]]
Alone = Callable[[str], Counters]


@pytest.fixture(scope="session")
def alone(tmp_path_factory: pytest.TempPathFactory) -> Alone:
    """What the counters of a page are where there is no other."""

    def made(name: str) -> Counters:
        def fill(path: Path) -> None:
            (file,) = placed(tmp_path_factory.mktemp("alone"), {f"{name}.csv": page(name)}).values()
            kerneldb.open(path).ingest([file])

        return counters(kerneldb.open(made_once(tmp_path_factory, f"runs-{name}.duckdb", fill)))

    return made


def test_pages_of_one_report_are_one_run(database: Database, tmp_path: Path, alone: Alone) -> None:
    files = placed(tmp_path / "pages", {f"{name}.csv": page(name) for name in ("C.details", "C.raw")})
    asking.in_calls(database, files, files)
    one_run(database, files)
    assert launched(database) == (2, 3456 + 4832)
    found, raw, details = counters(database), alone("C.raw"), alone("C.details")
    assert found.keys() == raw.keys() | details.keys()
    assert {n for n, _ in found.values()} == {1}
    assert {key: found[key] for key in raw} == raw


def test_all_prints_of_one_report_are_one_run(database: Database, tmp_path: Path) -> None:
    """Other locales, units, kinds of names, and details; no launch is there twice."""
    names = ("C.details", "base.raw", "de_DE.raw", "all.details", "name.details", "base-function.raw")
    files = placed(tmp_path / "pages", {f"{name}.csv": page(name) for name in names})
    database.ingest([tmp_path / "pages"])
    one_run(database, files)
    assert launched(database) == (2, 3456 + 4832)
    assert {n for n, _ in counters(database).values()} == {1}


def test_a_print_of_sections_without_durations_is_no_launch_more(database: Database, tmp_path: Path) -> None:
    contents = {"section.csv": sections("Occupancy", "Launch Statistics"), "C.raw.csv": page("C.raw")}
    files = placed(tmp_path / "pages", contents)
    asking.in_calls(database, files, files)
    one_run(database, files)
    assert launched(database) == (2, 3456 + 4832)


def test_sections_in_three_prints_make_one_launch(database: Database, tmp_path: Path, alone: Alone) -> None:
    """None of them holds all; what each alone holds is there."""
    parts = {
        "speed.csv": sections("GPU Speed Of Light Throughput"),
        "rest.csv": sections("Occupancy", "Launch Statistics"),
        "memory.csv": sections("Memory Workload Analysis"),
    }
    files = placed(tmp_path / "pages", parts)
    asking.in_calls(database, files, ("rest.csv", "memory.csv", "speed.csv"))
    one_run(database, files)
    assert launched(database) == (2, 3460 + 4830)
    assert counters(database) == alone("C.details")


def test_the_finest_print_of_each_metric_answers(database: Database, tmp_path: Path, alone: Alone) -> None:
    """No print is the best: one has durations in ns, one the rates, one all, but with three digits."""
    contents = {
        "times.csv": metrics(lambda name: name.startswith(("gpu__time", "launch__"))),
        "rates.csv": metrics(lambda name: not name.startswith("gpu__time")),
        "details.csv": page("C.details"),
    }
    files = placed(tmp_path / "pages", contents)
    asking.in_calls(database, files, ("rates.csv", "details.csv", "times.csv"))
    one_run(database, files)
    assert launched(database) == (2, 3456 + 4832)
    raw, found = alone("C.raw"), counters(database)
    assert {key: found[key] for key in raw} == raw


def other_times(name: str) -> bytes:
    """The page of another profiling in a container: the same process id, other durations."""
    content = page(name)
    for old, new in (("3.456000", "3.610000"), ("4.832000", "4.970000"), ("3.46", "3.61"), ("4.83", "4.97")):
        content = content.replace(f'"{old}"'.encode(), f'"{new}"'.encode())
    return content


def test_two_profilings_with_equal_process_ids_both_stay_until_pages_find_their_own(
    database: Database, tmp_path: Path
) -> None:
    contents = {
        "A.raw.csv": page("C.raw"),
        "B.raw.csv": other_times("C.raw"),
        "A.details.csv": page("C.details"),
        "B.details.csv": other_times("C.details"),
    }
    files = placed(tmp_path / "pages", contents)
    first = {word: files[word] for word in ("A.raw.csv", "B.raw.csv")}
    asking.in_calls(database, first, first)
    own_runs(database, first)
    assert launched(database) == (4, 3456 + 4832 + 3610 + 4970)
    asking.in_calls(database, files, ("A.details.csv", "B.details.csv"))
    two_profilings(database, files)


def two_profilings(database: Database, files: Files) -> None:
    """The pages of A and B are two runs, and each launch is there once."""
    assert asking.together(database, files, "run") == sets("A.raw.csv A.details.csv", "B.raw.csv B.details.csv")
    assert launched(database) == (4, 3456 + 4832 + 3610 + 4970)
    durations = {value for (_, metric), value in counters(database).items() if metric == "gpu__time_duration.sum"}
    assert {n for n, _ in durations} == {2}


def test_pages_of_two_profilings_find_their_own(database: Database, tmp_path: Path) -> None:
    order, made = ("A.details", "B.raw", "B.details", "A.raw"), {"A": page, "B": other_times}
    files = placed(tmp_path / "pages", {f"{word}.csv": made[word[0]](f"C.{word[2:]}") for word in order})
    asking.in_calls(database, files, files)
    two_profilings(database, files)


def test_reports_of_other_processes_stay(database: Database, tmp_path: Path) -> None:
    """Another process, with durations that are equal to the digit: short kernels often are."""
    contents = {"A.csv": page("C.raw"), "B.csv": page("C.raw").replace(b'"4242"', b'"4243"')}
    files = placed(tmp_path / "pages", contents)
    asking.in_calls(database, files, files)
    own_runs(database, files)
    assert launched(database) == (4, 2 * (3456 + 4832))


def test_profiled_launches_of_a_run_are_not_added_to_its_timeline(
    database: Database, tmp_path: Path, sqlite: Path
) -> None:
    profiled = placed(tmp_path / "pages", {"C.raw.csv": page("C.raw")})
    database.ingest([sqlite, *profiled.values()], run="mine")
    assert launched(database) == LAUNCHED
    rows = database.sql(f"SELECT timing, count(*) AS n FROM all_launches WHERE {KIND} GROUP BY ALL ORDER BY ALL").rows()
    assert rows == [{"timing": "profiled", "n": 2}, {"timing": "timeline", "n": len(exports.KERNELS)}]
    database.set_run([row["name"] for row in database.sql("SELECT name FROM traces")], None)
    assert launched(database) == (11, TOTAL + 3456 + 4832)


# rocprof


FIRST = Kernel("first_kernel", (1024, 1, 1), (128, 1, 1), [3_001, 3_102, 3_007])
SECOND = Kernel("second_kernel", (2048, 1, 1), (256, 1, 1), [901, 944, 913])
RAN = (6, sum(FIRST.durations) + sum(SECOND.durations))


@pytest.mark.parametrize(
    "order", [("csv", "json", "db"), pytest.param(("db", "json", "csv"), marks=pytest.mark.volume)], ids="-".join
)
def test_formats_of_rocprofv3_are_one_run(database: Database, tmp_path: Path, order: tuple[str, ...]) -> None:
    for place in ("a", "b", "c"):
        (tmp_path / place).mkdir()
    made = databases.write_rocpd(tmp_path / "a" / "17_results.db", [FIRST, SECOND])
    paths = formats.write_csv(made, tmp_path / "b", "other")
    files = {
        "db": made,
        "csv": next(path for path in paths if "kernel_trace" in path.name),
        "json": formats.write_json(made, tmp_path / "c" / "third_results.json"),
    }
    for word in order:
        database.ingest([files[word].parent])
    one_run(database, files)
    assert launched(database) == RAN


def test_a_merged_database_and_one_of_its_parts(database: Database, tmp_path: Path) -> None:
    other = "0000f2c4-8192-7151-8115-1151c0de0002"
    parts = {"part": [(databases.GUID, 100)], "merged": [(databases.GUID, 100), (other, 200)]}
    files = {}
    for word, processes in parts.items():
        files[word] = tmp_path / word / "results.db"
        files[word].parent.mkdir()
        with rocpd(files[word]) as connection:
            made = [Process(connection, guid, pid) for guid, pid in processes]
            for process in made:
                durations = [duration + process.pid for duration in FIRST.durations]
                kernel = dataclasses.replace(FIRST, durations=durations)
                databases.fill(process, [kernel], 10**12 + 7_000 * process.pid)
            databases.views(connection, [process.suffix for process in made])
    asking.in_calls(database, files, ("part", "merged"))
    one_run(database, files)
    assert launched(database) == (6, 2 * sum(FIRST.durations) + 3 * (100 + 200))


def passes(out: Path, process: int, *names: str) -> Files:
    """What rocprofv3 writes for an input of several `pmc` lines: the program runs once for each."""
    files = {}
    for number, name in enumerate(names, 1):
        path = out / f"pass_{number}" / f"{process + number}_counter_collection.csv"
        path.parent.mkdir(parents=True)
        start = 10**12 * number
        rows = [
            COUNTED.format(dispatch=one, counter=name, value=f"{16 * one}.0", start=start + 9_000 * one, end=end)
            for one in (1, 2, 3)
            for end in [start + 9_000 * one + 700 + 31 * number + 5 * one]
        ]
        path.write_text(COUNTERS + "".join(rows).replace(",15,15,", f",{process + number},{process + number},"))
        files[f"{out.parent.name}{number}"] = path
    return files


def test_passes_of_one_run_are_one_run(database: Database, tmp_path: Path) -> None:
    """Each pass ran the same launches for other counters: three launches, each with both."""
    files = passes(tmp_path / "A" / "out", 4_700, "SQ_WAVES", "SQ_INSTS_VALU")
    asking.in_calls(database, files, ("A2", "A1"))
    assert asking.together(database, files, "run") == sets("A1 A2")
    assert launched(database)[0] == 3
    sql = "SELECT DISTINCT metric, launches FROM signature_counters ORDER BY metric"
    assert database.sql(sql).rows() == [
        {"metric": "SQ_INSTS_VALU", "launches": 3},
        {"metric": "SQ_WAVES", "launches": 3},
    ]


def test_passes_of_other_programs_in_folders_of_one_name_are_apart(database: Database, tmp_path: Path) -> None:
    files = {**passes(tmp_path / "A" / "out", 4_700, "SQ_WAVES"), **passes(tmp_path / "B" / "out", 100, "GRBM_COUNT")}
    files["B1"].write_text(files["B1"].read_text().replace("add(float*)", "something_else(int)"))
    database.ingest([tmp_path / "A", tmp_path / "B"])
    own_runs(database, files)
    assert launched(database)[0] == 6


# PyTorch


def recorded() -> dict[str, Any]:
    content: dict[str, Any] = json.loads(gzip.decompress((TESTS / "fixtures/train-step-h200.json.gz").read_bytes()))
    return content


def ran(content: dict[str, Any]) -> tuple[int, int]:
    kernels = [event for event in content["traceEvents"] if event.get("cat") == "kernel"]
    return len(kernels), sum(round(1000 * event["dur"]) for event in kernels)


def shuffled(content: dict[str, Any]) -> dict[str, Any]:
    events = list(content["traceEvents"])
    random.Random("events").shuffle(events)
    return {**content, "traceEvents": events}


def test_a_trace_that_was_saved_again_counts_once(database: Database, tmp_path: Path) -> None:
    """By a tool that indents, sorts and adds; by one that was stopped in the middle; and as it was."""
    content = recorded()
    again = {**shuffled(content), "traceName": "/tmp/elsewhere.json", "note": "saved by a tool"}  # noqa: S108
    whole = json.dumps(shuffled(content))
    texts = {"cut": whole[: len(whole) // 2], "again": json.dumps(again, indent=1), "first": json.dumps(content)}
    files = placed(tmp_path / "traces", {f"{word}.json": text.encode() for word, text in texts.items()})
    asking.in_calls(database, files, files)
    one_run(database, files)
    assert launched(database) == ran(content)


def test_two_halves_of_a_trace_that_share_a_part(database: Database, tmp_path: Path) -> None:
    """A tool cut a trace that was too large in two, with some events in both."""
    content = recorded()
    events = sorted((one for one in content["traceEvents"] if "ts" in one), key=lambda one: one["ts"])
    third = len(events) // 3
    halves = {"A.json": events[: 2 * third], "B.json": events[third:]}
    made = {word: json.dumps({**content, "traceEvents": part}).encode() for word, part in halves.items()}
    files = placed(tmp_path / "traces", made)
    database.ingest([tmp_path / "traces"])
    assert asking.together(database, files, "run") == sets("A.json B.json")
    assert launched(database) == ran(content)


def test_a_graph_that_was_saved_again_counts_once(database: Database, tmp_path: Path) -> None:
    """Kernels of a graph share a correlation; two replays of it are two."""
    content = json.loads(gzip.decompress((TESTS / "fixtures/compiled-graph-h200.json.gz").read_bytes()))
    made = {"A.json": json.dumps(content).encode(), "B.json": json.dumps(shuffled(content)).encode()}
    files = placed(tmp_path / "traces", made)
    asking.in_calls(database, files, files)
    one_run(database, files)
    assert launched(database) == ran(content)


def test_a_program_recorded_twice_is_two_runs(database: Database, tmp_path: Path) -> None:
    """The same operators, an hour later; many short kernels take as long as before, to the nanosecond."""
    content, chance = recorded(), random.Random("again")
    events = []
    for event in content["traceEvents"]:
        later = {"ts": round(event["ts"] + 3.6e9 + chance.uniform(0, 0.9), 3)} if "ts" in event else {}
        if event.get("cat") == "kernel":
            later["dur"] = round(event["dur"] + chance.choice((0, 0, 0.032)), 3)
        events.append({**event, **later})
    again = {**content, "traceEvents": events, "trace_id": "OTHER"}
    files = placed(tmp_path / "traces", {"A.json": json.dumps(content).encode(), "B.json": json.dumps(again).encode()})
    asking.in_calls(database, files, files)
    own_runs(database, files)
    assert launched(database) == tuple(map(sum, zip(ran(content), ran(again), strict=True)))


# What must not join


def tiny(path: Path, name: str, *, at: int = traces.T0, base: int | None = traces.BASE_NS, lasts: int = 1_024) -> Path:
    """A trace with one kernel."""
    trace = traces.Trace(metadata={} if base is None else {"baseTimeNanoseconds": base})
    trace.kernel(name, at, lasts, 1)
    path.parent.mkdir(parents=True)
    path.write_text(traces.kineto(trace))
    return path


def test_tiny_traces_of_equal_duration_are_apart(database: Database, tmp_path: Path) -> None:
    """The same kernel, as long as another time, which is no proof of anything."""
    files = {
        "A": tiny(tmp_path / "x" / "t.json", "fill_kernel"),
        "B": tiny(tmp_path / "y" / "t.json", "fill_kernel", at=traces.T0 + 3 * 10**12),
    }
    database.ingest([tmp_path])
    own_runs(database, files)
    assert launched(database) == (2, 2 * 1_024)


def test_a_tiny_trace_and_a_long_one_that_has_such_a_kernel_are_apart(database: Database, tmp_path: Path) -> None:
    content = recorded()
    one = next(event for event in content["traceEvents"] if event.get("cat") == "kernel")
    files = {
        **placed(tmp_path / "traces", {"A": json.dumps(content).encode()}),
        "B": tiny(tmp_path / "y" / "t.json", one["name"], lasts=round(1000 * one["dur"])),
    }
    asking.in_calls(database, files, files)
    own_runs(database, files)
    assert launched(database)[0] == ran(content)[0] + 1


def test_equal_relative_starts_and_other_names_are_apart(database: Database, tmp_path: Path) -> None:
    """Traces without a clock begin at 0: an equal start is no proof where it is the origin."""
    files = {
        "A": tiny(tmp_path / "x" / "t.json", "fill_kernel", at=0, base=None),
        "B": tiny(tmp_path / "y" / "t.json", "copy_kernel", at=0, base=None),
    }
    database.ingest([tmp_path])
    own_runs(database, files)
    assert launched(database) == (2, 2 * 1_024)


def test_captures_with_equal_relative_starts_and_other_names_are_apart(database: Database, tmp_path: Path) -> None:
    """Regular programs: every launch of both is at the same time after the start and as long; the kernels differ."""
    files = {}
    for word, name in (("A", exports.GEMM), ("B", exports.ADD)):
        kernels = [
            exports.Kernel(10_000 * number, 1_024, name, (8, 1, 1), (128, 1, 1), number + 1) for number in range(5)
        ]
        later_s = 60 * (word == "B")
        files[word] = renewed(tmp_path / word, kernels, later_s=later_s, memory=(), calls=(), ranges=())
    database.ingest([tmp_path])
    own_runs(database, files)
    assert launched(database) == (10, 10 * 1_024)


def test_sums_of_other_kernels_with_equal_totals_are_apart(database: Database, tmp_path: Path) -> None:
    first = printed_by_nsys()["r23_cuda_gpu_kern_sum.tsv"]
    other = first.replace(b"gemm<", b"conv<").replace(b"add<", b"mul<").replace(b"plain_kernel", b"fancy_kernel")
    files = placed(tmp_path / "prints", {"A.tsv": first, "B.tsv": other})
    asking.in_calls(database, files, files)
    own_runs(database, files)
    assert summed(database) == (2 * LAUNCHED[0], 2 * TOTAL)


def test_a_rocprof_and_an_nsys_capture_are_apart(database: Database, tmp_path: Path, sqlite: Path) -> None:
    """Other tools, other GPUs: nothing is a print of the other."""
    kernels = [Kernel("plain_kernel", (32, 16, 1), (32, 16, 1), [exports.KERNELS[3].duration])]
    files = {"A": databases.write_rocpd(tmp_path / "db" / "report7.db", kernels), "B": sqlite}
    database.ingest([tmp_path / "db"])
    own_runs(database, files)
    assert launched(database) == (LAUNCHED[0] + 1, TOTAL + exports.KERNELS[3].duration)
