"""Bytes of kernels that run alone: which are read in a run of their own, and how they come to the rest."""

from __future__ import annotations

import csv
from pathlib import Path

import pytest

from kerneldb.gpus.counting import ALWAYS
from kerneldb.replay.host import profilers, traffic
from kerneldb.replay.options import Options
from kerneldb.replay.wire.plan import PlannedKernel
from tests.counters import fake_ncu

SETS = Options(counters=("roofline", "memory"), cache="cold")
READ, WRITTEN, L2 = "dram__bytes_read.sum", "dram__bytes_write.sum", "lts__t_bytes.sum"


def kernel(name: str, grid: int = 1) -> PlannedKernel:
    return PlannedKernel(0, "s", name, grid=(grid, 1, 1), block=(32, 1, 1), shared_bytes=0)


def column(path: Path, name: str) -> list[str]:
    lines = list(csv.reader(path.read_text().splitlines()[1:]))
    place = lines[0].index(name)
    return [line[place] for line in lines[1:]]


def write(path: Path, ran: list[tuple[str, PlannedKernel]], process: int, *more: str) -> Path:
    path.write_text(f"==PROF== Connected to process {process}\n{fake_ncu.page(ran, process, more)}")
    return path


def test_where_a_kernel_runs_several_times_its_bytes_are_read_first() -> None:
    first, others = traffic.parts(profilers.needed(SETS), kernel_replay=True)
    assert first == [READ, WRITTEN, L2, *ALWAYS]
    assert not {READ, WRITTEN, L2, "dram__bytes.sum"} & set(others)
    assert {"SpeedOfLight", "l1tex__t_bytes.sum", *ALWAYS} <= set(others)


@pytest.mark.parametrize(
    ("names", "kernel_replay"),
    [
        (("roofline", "memory"), False),  # the program runs several times, not the kernel
        ((READ, WRITTEN, L2), True),  # one pass
        (("stalls", "sm__cycles_active.avg"), True),  # no bytes
    ],
)
def test_all_is_asked_for_at_once_where_bytes_do_not_suffer(names: tuple[str, ...], *, kernel_replay: bool) -> None:
    wanted = profilers.needed(Options(counters=names))
    assert traffic.parts(wanted, kernel_replay=kernel_replay) == [wanted]


def test_a_page_of_bytes_of_its_own_is_asked_for_before_the_page_of_all(tmp_path: Path) -> None:
    made = profilers.Profiler("ncu", "/opt/ncu")
    pages = [line[line.index("--log-file") + 1] for line in made.commands(SETS, tmp_path / "k", ["worker"])]
    assert pages == [str(tmp_path / "k.bytes.csv"), str(tmp_path / "k.csv")]


def test_bytes_go_to_the_same_launch_of_the_same_call(tmp_path: Path) -> None:
    output = tmp_path / "j.counters-1"
    ran = [("i", kernel("a")), ("i", kernel("b")), ("i", kernel("a")), ("j", kernel("a")), ("j", kernel("a", 2))]
    page = write(tmp_path / "j.counters-1.csv", [*ran, ("k", kernel("a"))], 7, READ)
    write(tmp_path / "j.counters-1.bytes.csv", [ran[4], ran[0], ran[3], ran[1], ran[2]], 8, READ, WRITTEN)
    assert profilers.Profiler.written(output) == [page]
    assert [path.name for path in tmp_path.iterdir()] == [page.name]
    assert column(page, READ) == ["byte", "2,000", "4,000", "5,000", "3,000", "1,000", ""]
    assert column(page, WRITTEN) == column(page, READ), "a call that was not run in both has none"
    assert page.read_text().startswith("==PROF== Connected to process 7\n")


def test_bytes_alone_are_no_counters_of_what_was_asked_for(tmp_path: Path) -> None:
    write(tmp_path / "j.counters-1.bytes.csv", [("i", kernel("a"))], 8, READ)
    assert profilers.Profiler.written(tmp_path / "j.counters-1") == []
