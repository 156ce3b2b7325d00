"""What looks alike and is not the same: chance, rounding, neighbours in time, and folders prove nothing."""

from __future__ import annotations

import itertools
import random
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import kerneldb
from kerneldb.api import Database
from kerneldb.warehouse import Warehouse
from tests.runs import asking, ranks
from tests.runs.asking import sets
from tests.runs.ranks import Job, clock
from tests.runs.test_prints import encoded, passes, placed, rows_of
from tests.warehouse.conftest import Launch, Traces

MS = 1_000_000


@pytest.fixture
def warehouse(tmp_path: Path) -> Iterator[Warehouse]:
    """Traces that are added one after the other share an engine, as in one call of ingest."""
    made = Warehouse.create_or_open(tmp_path / "made.duckdb")
    with made.batch():
        yield made


@pytest.fixture
def make(tmp_path: Path) -> Traces:
    return Traces(tmp_path / "spools")


def counted(warehouse: Warehouse, source: str = "kernels") -> dict[str, tuple[int, int]]:
    """Run → launches and their time (ns)."""
    sql = f"SELECT run, count(*) AS n, sum(duration_ns)::BIGINT AS ns FROM {source} GROUP BY run"
    return {row["run"]: (row["n"], row["ns"]) for row in kerneldb.open(warehouse.path).sql(sql).rows()}


def rolled_up(warehouse: Warehouse) -> int:
    """The time (ns) of what ran, by sums."""
    (row,) = kerneldb.open(warehouse.path).sql("SELECT sum(total_ns)::BIGINT AS ns FROM kernel_rollups").rows()
    return int(row["ns"])


def microseconds(seed: str, name: str, n: int = 3_000) -> tuple[Launch, ...]:
    """A dense timeline, as tools print it that know whole microseconds only."""
    chance, starts = random.Random(seed), itertools.count(1_000, 7_000)
    return tuple(
        Launch(name, start + 1_000 * chance.randrange(2), 1_000 * chance.randrange(1, 6))
        for start in itertools.islice(starts, n)
    )


def exact(seed: str, n: int = 4, *, at: int = 0, step: int = 32) -> tuple[Launch, ...]:
    """A small program; a GPU's clock ticks every 32 ns."""
    chance = random.Random(seed)
    durations = [2_208 + step * chance.randrange(3) for _ in range(n)]
    return tuple(Launch("add", at + 9_001 * i + chance.randrange(900), one) for i, one in enumerate(durations))


@pytest.mark.parametrize("names", [pytest.param(("gemm", "add"), marks=pytest.mark.volume), ("gemm", "gemm")])
def test_launches_that_are_equal_by_chance(warehouse: Warehouse, make: Traces, names: tuple[str, str]) -> None:
    """Two processes without a common clock: of 3,000 launches some hundreds begin and last alike."""
    sides = [microseconds(seed, name) for seed, name in zip("ab", names, strict=True)]
    alike = {(one.start, one.duration) for one in sides[0]} & {(one.start, one.duration) for one in sides[1]}
    assert len(alike) > 100
    for word, launches in zip("ab", sides, strict=True):
        warehouse.commit(make(word, launches, base_ns=None))
    assert {run: n for run, (n, _) in counted(warehouse).items()} == {"a": 3_000, "b": 3_000}


def test_runs_of_a_small_program(warehouse: Warehouse, make: Traces) -> None:
    """Durations are few, so that sums are equal; no launch begins where one of another run does."""
    programs = {f"run{number:02}": exact(str(number), at=1_000 * number) for number in range(6)}
    totals = {word: sum(one.duration or 0 for one in launches) for word, launches in programs.items()}
    assert len(set(totals.values())) < len(totals)
    for word, launches in programs.items():
        warehouse.commit(make(word, launches, source="nsys", base_ns=None))
    assert counted(warehouse) == {word: (4, total) for word, total in totals.items()}


def report(n: int, total: int, shortest: int, longest: int) -> dict[str, Any]:
    return {
        "origin": "report",
        "signature_id": "s:add:1:",
        "timing": "timeline",
        "n": n,
        "timed": n,
        "total_ns": total,
        "min_ns": shortest,
        "max_ns": longest,
    }


def test_exact_sums_that_are_nearly_equal(warehouse: Warehouse, make: Traces) -> None:
    """The benchmark of two nights: a hundred-thousandth apart, and each exact."""
    for word, total in (("monday", 100_000_003), ("tuesday", 100_000_701)):
        printed = report(1_000, total, 90_001, 110_003)
        warehouse.commit(make(word, (), kind="summary", source="nsys", base_ns=None, reports=(printed,)))
    names = {row["run"] for row in kerneldb.open(warehouse.path).sql("SELECT run FROM traces").rows()}
    assert names == {"monday", "tuesday"}
    assert rolled_up(warehouse) == 200_000_704


def rounded(launches: tuple[Launch, ...], unit: int) -> tuple[Launch, ...]:
    return tuple(
        Launch(one.name, round(one.start / unit) * unit, round((one.duration or 0) / unit) * unit) for one in launches
    )


@pytest.mark.thorough
@pytest.mark.parametrize(
    "order",
    [
        ("sums", "coarse", "whole"),
        pytest.param(("coarse", "sums", "whole"), marks=pytest.mark.thorough),
        pytest.param(("whole", "sums", "coarse"), marks=pytest.mark.volume),
    ],
    ids="-".join,
)
def test_prints_of_few_digits(warehouse: Warehouse, make: Traces, order: tuple[str, ...]) -> None:
    """Ten launches, printed in milliseconds with three decimals: launch by launch, and as a sum."""
    whole = tuple(Launch("add", MS * i + 17 * i, 300_017 + 12_345 * i) for i in range(1, 11))
    total = sum(one.duration or 0 for one in whole)
    sums = report(10, round(total, -3), round(312_362, -3), round(423_467, -3))
    manifests = {
        "whole": make("whole", whole, source="nsys", base_ns=None),
        "coarse": make("coarse", rounded(whole, 1_000), source="nsys", base_ns=None),
        "sums": make("sums", (), kind="summary", source="nsys", base_ns=None, reports=(sums,)),
    }
    for word in order:
        warehouse.commit(manifests[word])
    (found,) = counted(warehouse).values()
    assert found == (10, total)
    assert rolled_up(warehouse) == total


def test_a_print_of_fewer_digits_than_a_kernel_lasts(warehouse: Warehouse, make: Traces) -> None:
    """Kernels of 2 µs in milliseconds with three decimals: their starts tell. A window is no other capture."""
    whole = exact("short", 500)
    warehouse.commit(make("window", whole[:200], source="nsys", base_ns=None))
    warehouse.commit(make("coarse", rounded(whole, 1_000), source="nsys", base_ns=None))
    warehouse.commit(make("whole", whole, source="nsys", base_ns=None))
    (found,) = counted(warehouse).values()
    assert found == (500, sum(one.duration or 0 for one in whole))


@pytest.mark.thorough
def test_a_print_of_few_digits_that_fits_two_runs_is_of_none(warehouse: Warehouse, make: Traces) -> None:
    """Two nights that differ by less than what the print rounds."""
    nights = {
        word: tuple(Launch("add", MS * i, 300_017 + 12_345 * i + more) for i in range(1, 11))
        for word, more in (("monday", 0), ("tuesday", 3))
    }
    totals = {word: sum(one.duration or 0 for one in launches) for word, launches in nights.items()}
    for word, launches in nights.items():
        warehouse.commit(make(word, launches, source="nsys"))
    sums = report(10, round(totals["monday"], -3), 312_000, 423_000)
    warehouse.commit(make("sums", (), kind="summary", source="nsys", base_ns=None, reports=(sums,)))
    assert {run: ns for run, (_, ns) in counted(warehouse).items()} == totals
    runs = [row["run"] for row in kerneldb.open(warehouse.path).sql("SELECT run FROM traces").rows()]
    assert len(set(runs)) == 3


@pytest.mark.thorough
def test_windows_that_hardly_overlap(warehouse: Warehouse, make: Traces) -> None:
    launches = exact("long", 20_000)
    warehouse.commit(make("first", launches[:10_100], source="nsys", base_ns=None))
    warehouse.commit(make("second", launches[9_900:], source="nsys", base_ns=None))
    total = sum(one.duration or 0 for one in launches)
    (found,) = counted(warehouse).values()
    assert found == (20_000, total)


# Nsight Compute


def test_one_launch_that_is_equal_by_chance(database: Database, tmp_path: Path) -> None:
    """Two containers give the same small process id; the first launch fills a tensor in both."""
    rows = rows_of("C.raw")
    header, units, first, second = rows[0], rows[1], rows[2], rows[3]
    name, process = header.index("Kernel Name"), header.index("Process ID")
    other = list(second)
    other[name] = "void something_else(float *)"
    sides = {"A.csv": [header, units, first, second], "B.csv": [header, units, first, other]}
    for side in sides.values():
        for row in side[2:]:
            row[process] = "7"
    files = placed(tmp_path / "pages", {word: encoded(side) for word, side in sides.items()})
    asking.in_calls(database, files, files)
    assert asking.together(database, files, "run") == sets(*files)
    assert database.sql("SELECT count(*) AS n FROM kernels").rows() == [{"n": 4}]


def test_a_kernel_before_and_after_tuning(database: Database, tmp_path: Path) -> None:
    """It lasts as long, to the printed digit, and its counters differ."""
    rows = rows_of("C.raw")
    header = rows[0]
    process = header.index("Process ID")
    before, after = ([list(row) for row in rows[:3]] for _ in range(2))
    before[2][process] = after[2][process] = "1"
    counters = [at for at, metric in enumerate(header) if "__" in metric and metric != "gpu__time_duration.sum"]
    for at in counters:
        if after[2][at].replace(".", "").isdecimal():
            after[2][at] = str(3 * float(after[2][at]) + 1)
    files = placed(tmp_path / "pages", {"A.csv": encoded(before), "B.csv": encoded(after)})
    asking.in_calls(database, files, files)
    assert asking.together(database, files, "run") == sets(*files)


def test_a_page_without_durations_is_what_ran(database: Database, tmp_path: Path) -> None:
    rows = rows_of("C.details")
    at = rows[0].index("Metric Name")
    kept = [row for row in rows if row[at] not in {"Duration", "gpu__time_duration.sum"}]
    files = placed(tmp_path / "pages", {"A.csv": encoded(kept)})
    database.ingest(list(files.values()))
    sql = "SELECT timing, count(*) AS n, sum(duration_ns) AS ns FROM kernels GROUP BY timing"
    assert database.sql(sql).rows() == [{"timing": "profiled", "n": 2, "ns": None}]


@pytest.mark.parametrize("process", ["4242", pytest.param("7", marks=pytest.mark.volume)])
def test_a_page_that_fits_two_profiles_is_of_none(database: Database, tmp_path: Path, process: str) -> None:
    """Figures of the launch configuration are the same whenever a program runs."""
    rows = rows_of("C.raw")
    header = rows[0]
    later = [list(row) for row in rows]
    static = [
        at for at, metric in enumerate(header) if metric.startswith(("launch__", "device__")) or "__" not in metric
    ]
    for row, at in itertools.product(later[2:], range(len(header))):
        if at not in static and row[at].replace(".", "").isdecimal():
            row[at] = str(round(1.3 * float(row[at]) + 1, 2))
    pages = {
        "before.csv": rows,
        "after.csv": later,
        "static.csv": [[row[at] for at in static] for row in rows],
    }
    for page in pages.values():
        for row in page[2:]:
            row[page[0].index("Process ID")] = process
    files = placed(tmp_path / "pages", {word: encoded(page) for word, page in pages.items()})
    asking.in_calls(database, files, files)
    assert asking.together(database, files, "run") == sets(*files)
    database.remove(asking.facts(database, files)["after.csv"]["name"])
    expected = sets("before.csv", "static.csv") if process == "7" else sets("before.csv static.csv")
    left = {word: path for word, path in files.items() if word != "after.csv"}
    assert asking.together(database, left, "run") == expected


# Counter passes


def test_passes_in_folders_of_one_name(database: Database, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each capture is read from inside its folder, so that the paths are equal."""
    for place, process, name in (("A", 4_700, "SQ_WAVES"), ("B", 100, "SQ_INSTS_VALU")):
        (path,) = passes(tmp_path / place / "out", process, name).values()
        path.write_text(path.read_text().replace(",10000000", f",{process}00000"))
        if place == "B":
            (tmp_path / "B/out/pass_1").rename(tmp_path / "B/out/pass_2")
        monkeypatch.chdir(tmp_path / place)
        database.ingest([Path("out")])
    assert database.sql("SELECT count(*) AS n, count(DISTINCT run) AS runs FROM kernels").rows() == [
        {"n": 6, "runs": 2}
    ]


@pytest.mark.thorough
def test_a_program_that_is_profiled_anew_into_the_same_folder(database: Database, tmp_path: Path) -> None:
    """Of two captures with two passes each, every pass finds the one that ran beside it."""
    for process in (4_700, 5_900):
        files = passes(tmp_path / "A" / "out", process, "SQ_WAVES", "SQ_INSTS_VALU")
        for path in files.values():
            path.write_text(path.read_text().replace("1000000", f"{process}000"))
        database.ingest([tmp_path / "A"])
        for path in files.values():
            path.unlink()
            path.parent.rmdir()
    rows = database.sql("SELECT run, count(*) AS n FROM kernels GROUP BY run").rows()
    assert [row["n"] for row in rows] == [3, 3]


# Jobs


@pytest.mark.thorough
def test_ranks_whose_collectives_end_at_other_times(database: Database, tmp_path: Path) -> None:
    """Two jobs of one program at a time: ranks 0 and 1 of one, ranks 2 and 3 of the other."""
    early = Job(world=4, seed="early", step=ranks.LAYER * 8, steps=30)
    late = early.but(seed="late", start=clock(ms=14))
    assert early.launches[0][-1].end > late.launches[0][0].start, "at the same time"
    files = {
        f"{word}{rank}": tmp_path / word / f"rank{rank}.json" for word, rank in (("A", 0), ("A", 1), ("B", 2), ("B", 3))
    }
    for word, path in files.items():
        (early if word[0] == "A" else late).write(int(word[1]), path)
    asking.in_calls(database, files, files)
    assert asking.together(database, files) == sets("A0 A1", "B2 B3")


@pytest.mark.thorough
def test_ranks_that_share_no_group_need_one_between(database: Database, tmp_path: Path) -> None:
    """Tensor × data parallel, two jobs at a time: ranks 0 and 3 never meet, so nothing tells whose rank 3 it is."""
    grid = Job(world=4, step=ranks.TENSOR_AND_DATA, groups=ranks.GRID, seed="a", steps=30)
    other = grid.but(seed="b", start=clock(ms=1))
    files = {word: tmp_path / word[0] / f"rank{word[1]}.json" for word in ("A0", "B3")}
    grid.write(0, files["A0"])
    other.write(3, files["B3"])
    asking.in_calls(database, files, files)
    assert asking.together(database, files) == sets("A0", "B3")
    assert asking.hinted(database, files) == {"A0", "B3"}


# Marks


@pytest.mark.thorough
def test_without_the_third_both_windows_answer(warehouse: Warehouse, make: Traces) -> None:
    """Kernels and copies in an export each: they share no launch, so both answer where both are named."""
    whole = exact("whole", 9) + tuple(Launch("Memset", 5 + 9_001 * i, 51 + i) for i in range(4))
    parts = {"whole": whole, "kernels": whole[:9], "fills": whole[9:]}
    for word, launches in parts.items():
        warehouse.commit(make(word, launches, source="nsys", base_ns=None))
    assert sum(n for n, _ in counted(warehouse).values()) == 13
    database = kerneldb.open(warehouse.path)
    rows = database.top("kind", traces=["kernels", "fills"]).rows()
    assert {row["kind"]: row["n"] for row in rows} == {"kernel": 9, "memset": 4}


def test_a_stated_run_does_not_outweigh_what_is_known(warehouse: Warehouse, make: Traces) -> None:
    """Two captures of a run in stages: the print of one holds copies that only it has."""
    stage, other = exact("stage", 9), exact("other", 40, at=50 * MS)
    copies = tuple(Launch("Memset", 5 + 9_001 * i, 51 + i) for i in range(4))
    warehouse.commit(make("db", stage, source="nsys", era="sqlite", base_ns=None, stated_run="X"))
    warehouse.commit(make("print", stage + copies, source="nsys", era="csv", base_ns=None, stated_run="X"))
    warehouse.commit(make("second", other, source="nsys", era="sqlite", base_ns=None, stated_run="X"))
    expected = sum(one.duration or 0 for one in (*stage, *copies, *other))
    assert counted(warehouse) == {"X": (53, expected)}


def test_sums_of_another_phase_stay(warehouse: Warehouse, make: Traces) -> None:
    facts: dict[str, Any] = {"source": "nsys", "base_ns": None, "stated_run": "X"}
    prefill = exact("prefill", 9)
    warehouse.commit(make("prefill", prefill, default_phase="prefill", **facts))
    printed = report(100, 100_000_003, 90_001, 110_003)
    warehouse.commit(make("decode", (), kind="summary", default_phase="decode", reports=(printed,), **facts))
    assert rolled_up(warehouse) == 100_000_003 + sum(one.duration or 0 for one in prefill)


def test_two_runs_never_get_one_name(warehouse: Warehouse, make: Traces) -> None:
    for word in ("A", "A (2)", "C"):
        warehouse.commit(make(word, exact(word)))
    warehouse.set_run(["C"], "A")
    rows = kerneldb.open(warehouse.path).sql("SELECT name, run FROM traces").rows()
    assert len({row["run"] for row in rows}) == 3


@pytest.mark.thorough
def test_what_is_written_anew_takes_its_marks_along(warehouse: Warehouse, make: Traces) -> None:
    """A trace that shared launches is replaced by what another reader makes of it, which shares none."""
    whole, part = exact("whole", 22), exact("whole", 22)[:13]
    warehouse.commit(make("whole", whole, source="nsys", base_ns=None))
    warehouse.commit(make("part", part, source="nsys", base_ns=None))
    assert sum(n for n, _ in counted(warehouse).values()) == 22
    moved = tuple(Launch(one.name, one.start + 777 * MS, one.duration) for one in whole)
    warehouse.commit(make("whole", moved, source="nsys", base_ns=None), replace=True)
    assert {run: n for run, (n, _) in counted(warehouse).items()} == {"whole": 22, "part": 13}


@pytest.mark.thorough
def test_a_run_that_is_stated_while_writing_anew_counts(warehouse: Warehouse, make: Traces) -> None:
    warehouse.commit(make("one", exact("one"), stated_run="first"))
    warehouse.commit(make("one", exact("one"), stated_run="second"), replace=True)
    assert set(counted(warehouse)) == {"second"}
    warehouse.commit(make("one", exact("one")), replace=True)
    assert set(counted(warehouse)) == {"second"}
