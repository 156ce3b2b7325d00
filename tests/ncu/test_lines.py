"""Lines of the application between rows, names of files that hold pages of one report, and pages that end too early."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from kerneldb.errors import NotATraceError, UnreadableTraceError
from tests.ncu.reading import convert_text, convert_units, page, printed, row

if TYPE_CHECKING:
    from pathlib import Path

DURATION = row("Duration", "us", "6.75")


@pytest.mark.parametrize(
    "line", ["1,0.53", ", done", "1,2,3", ",".join(map(str, range(20))), "12,", 'loss="3', '"a","b"'], ids=repr
)
def test_lines_of_the_application_that_look_like_rows(line: str, tmp_path: Path) -> None:
    one = convert_text(page(DURATION, line, row("Duration", "us", "1.00", launch=1)), tmp_path)
    assert one.table("launches")["duration_ns"].to_list() == [6750, 1000]
    assert one.report("skipped") == {"lines of the application": 1}


def test_tables_among_the_rows(tmp_path: Path) -> None:
    """What `--print-details all` prints of links and processors between the rows of a launch (ncu 2025.3)."""
    inner = (
        "    The system does not have any NVLink connections.",
        "",
        '"GPU ID","GPU Name","NUMA ID by CPU Affinity","CPU Affinity","NUMA ID by Memory Affinity"',
        *(f'"{number}","NVIDIA H100 80GB HBM3","0","0-15","0"' for number in range(2)),
    )
    one = convert_text(page(DURATION, *inner, row("Memory Throughput", "%", "50.00")), tmp_path)
    assert one.table("launches").height == 1
    assert one.table("metrics")["value"].sort().to_list() == [50.0, 6750.0]
    assert one.report("skipped") == {"lines of the application": 4}


def test_a_range_of_the_program_is_no_kernel(tmp_path: Path) -> None:
    """As `--replay-mode app-range` prints it: without block and grid (ncu 2025.3)."""
    head = '"ID","Process ID","Process Name","Host Name","Kernel Name","Context","Stream",'
    text = (
        f'{head}"Device","CC","gpu__time_duration.sum"\n"","","","","","","","","","ms"\n'
        '"0","7","app","127.0.0.1","range","1","n/a","0","9.0","1.714304"\n'
    )
    with pytest.raises(NotATraceError, match="ranges of the program or graphs, and no kernel"):
        convert_text(text, tmp_path)
    mixed = convert_text(text + '"1","7","app","127.0.0.1","k","1","7","0","9.0","0.5"\n', tmp_path, "mixed.csv")
    assert mixed.table("launches")["duration_ns"].to_list() == [500_000]
    assert mixed.report("skipped") == {"workloads that are not kernels (ranges, graphs)": 1}


@pytest.mark.parametrize("absent", ["", "n/a"])
def test_a_graph_has_no_grid(absent: str, tmp_path: Path) -> None:
    graph = row("Duration", "us", "9.00", launch=1, name="graph").replace('"(8, 2, 1)"', f'"{absent}"')
    one = convert_text(page(DURATION, graph), tmp_path)
    assert one.launches.select("name", "duration_ns").rows() == [("k(int)", 6750)]
    assert one.report("skipped") == {"workloads that are not kernels (ranges, graphs)": 1}


@pytest.mark.parametrize("name", ["k(int)", "inner/k(int)"])
def test_a_kernel_renamed_by_its_range(name: str, tmp_path: Path) -> None:
    stack = "7  " + "  ".join(f'""<default domain>:{one}:none:none:none:none:none:none""' for one in ("outer", "inner"))
    head = (
        '"ID","Process ID","Kernel Name","thread Domain:Push/Pop_Range:PL_Type:PL_Value:CLR_Type:Color:Msg_Type:Msg",'
    )
    text = f'{head}"gpu__time_duration.sum"\n"","","","","ns"\n"0","7","{name}","{stack}","500"\n'
    one = convert_text(text, tmp_path)
    assert one.launches.select("name", "phase", "range_path").rows() == [("k(int)", "outer", "outer/inner")]


@pytest.mark.parametrize("first", ["", "Session", "Kernel Name"])
@pytest.mark.parametrize("quote", ["", '"'])
def test_a_table_that_another_program_laid_out_anew(first: str, quote: str, tmp_path: Path) -> None:
    """Rows that pandas numbered, columns in another order: refused by what is not as ncu prints it."""
    names = ["ID", "Process ID", "Kernel Name", "Section Name", "Metric Name", "Metric Unit", "Metric Value"]
    cells = ["0", "7", "k", "GPU Speed Of Light Throughput", "Duration", "us", "6.75"]
    order = sorted(range(len(names)), key=lambda at: names[at] != first)
    moved = [[row[at] for at in order] for row in (names, cells)]
    table = moved if first in names else [[head, *row] for head, row in zip((first, "0"), moved, strict=True)]
    text = "".join(",".join(f"{quote}{cell}{quote}" for cell in row) + "\n" for row in table)
    with pytest.raises(UnreadableTraceError, match=f"header of a table of ncu that a program changed.*'{first}'"):
        convert_text(text, tmp_path)


def test_tabs_between_the_fields(tmp_path: Path) -> None:
    text = "ID\tProcess ID\tKernel Name\tMetric Name\tMetric Unit\tMetric Value\n0\t7\tk\tDuration\tus\t6.75\n"
    with pytest.raises(UnreadableTraceError, match="with tabs between the fields"):
        convert_text(text, tmp_path)


def test_a_table_that_another_program_saved_without_quotes(tmp_path: Path) -> None:
    text = (
        "ID,Process ID,Kernel Name,Section Name,Metric Name,Metric Unit,Metric Value\n"
        "1,0.53\n"
        '0,7,"k(int, int)",GPU Speed Of Light Throughput,Duration,us,6.75\n'
    )
    one = convert_text(text, tmp_path)
    assert one.table("launches")["duration_ns"].to_list() == [6750]
    assert one.report("skipped") == {"lines of the application": 1}


@pytest.mark.parametrize(
    ("raw", "details"),
    [
        ("my run raw.csv", "my run details.csv"),
        ("x[raw].csv", "x (details).csv"),
        ("raw page of it.csv", "details page of it.csv"),
        ("a-raw.csv", "a_details.csv"),
    ],
)
def test_names_of_pages(raw: str, details: str, tmp_path: Path) -> None:
    (tmp_path / raw).write_bytes(printed("C.raw.csv"))
    (tmp_path / details).write_bytes(printed("C.details.csv"))
    (one,) = convert_units([tmp_path / raw, tmp_path / details], tmp_path / "spools")
    assert one.table("launches").height == 2


def test_words_that_hold_the_name_of_a_page(tmp_path: Path) -> None:
    for name in ("draw.csv", "detailsx.csv"):
        (tmp_path / name).write_bytes(printed("C.raw.csv"))
    assert len(convert_units(sorted(tmp_path.glob("*.csv")), tmp_path / "spools")) == 2


CUT = "metrics that only the last launch lacks: the page may be cut"


@pytest.mark.parametrize(("lines", "missing"), [(9, None), (8, 1), (7, 2)])
def test_a_page_that_ends_within_its_last_launch(lines: int, missing: int | None, tmp_path: Path) -> None:
    rows = [
        row(name, "us", "1.00", section, launch)
        for launch in range(3)
        for section, name in (("A", "Duration"), ("A", "Other"), ("B", "More"))
    ]
    one = convert_text(page(*rows[:lines]), tmp_path)
    assert one.report("note").get(CUT) == missing


def test_launches_of_unlike_sections_are_no_cut(tmp_path: Path) -> None:
    rows = [row("Duration", "us", "1.00", "A", 0), row("More", "", "1", "B", 1), row("Duration", "us", "1.00", "A", 2)]
    assert CUT not in convert_text(page(*rows), tmp_path).report("note")
