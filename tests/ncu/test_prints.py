"""One report, printed in every way: locales, units, names, instances, versions, pages. Values stay the same."""

from __future__ import annotations

import functools
import re
from typing import TYPE_CHECKING

import polars as pl
import pytest

from tests.ncu.reading import DATA, SPEED, convert_text, convert_units, differing, of_sample, printed, room, values

if TYPE_CHECKING:
    from pathlib import Path

    from tests.ingest.conversion import Converted

LOCALES = ("de_DE", "en_US", "fr_FR", "de_CH", "en_IN")
OTHERS = (
    "C.details",
    "base.raw",
    "base.details",
    "all.details",
    "name.details",
    "label-name.details",
    "instances-values.raw",
    "instances-details.raw",
    "fp.raw",
    "base-function.raw",
    "base-mangled.raw",
)
VERSIONS = ("2020.3.1", "2022.3.0", "2024.2")


@functools.cache
def of(name: str) -> Converted:
    folder = room() / name
    folder.mkdir()
    return convert_text(printed(f"{name}.csv"), folder, f"{name}.csv")


@pytest.mark.parametrize("page", ["raw", "details"])
@pytest.mark.parametrize("locale", LOCALES)
def test_that_locales_give_identical_values(locale: str, page: str) -> None:
    plain = of(f"C.{page}")
    other = of(f"{locale}.{page}")
    assert values(other) == values(plain)
    assert other.launches.drop("trace_id").equals(plain.launches.drop("trace_id"))


@pytest.mark.parametrize("name", OTHERS)
def test_that_prints_agree_within_their_digits(name: str) -> None:
    plain, other = values(of("C.raw")), values(of(name))
    assert len(plain.keys() & other.keys()) > 50
    assert differing(plain, other) == {}


def test_that_only_labels_with_several_meanings_stay() -> None:
    metrics = of("all.details").table("metrics")["metric"].unique()
    assert sorted(name for name in metrics if "__" not in name) == [
        "L2 Compression Ratio",
        "L2 Compression Success Rate",
    ]


def test_instances() -> None:
    for name in ("instances-values.raw", "instances-details.raw"):
        found = values(of(name))
        metric = "launch__occupancy_per_block_size"
        assert [found[0, metric, str(number)][0] for number in range(4)] == [0.5, 1000.5, 2000.5, 3000.5]
        assert found[0, metric, None] == values(of("C.raw"))[0, metric, None]


def test_ranges_in_another_form_are_counted(tmp_path: Path) -> None:
    column = "thread Domain:Push/Pop_Range:PL_Type:PL_Value:CLR_Type:Color:Msg_Type:Msg"
    rows = [
        f'"{number}","1","k","{cell}","{SPEED}","Duration","us","1.00"' for number, cell in enumerate(["7", "7 odd"])
    ]
    header = f'"ID","Process ID","Kernel Name","{column}","Section Name","Metric Name","Metric Unit","Metric Value"'
    found = convert_text("\n".join([header, *rows]) + "\n", tmp_path)
    assert found.report("unread") == {"NVTX ranges in a form that is not known": 1}


def test_ranges_are_phases() -> None:
    rows = of("de_DE.details").table("launches").select("phase", "range_path").rows()
    assert rows == [
        ("decode", "decode/layer.0: attn::qkv/request"),
        ("decode", "decode/layer.12: attn::qkv/request"),
    ]


@pytest.mark.parametrize(
    ("name", "kernel"),
    [
        ("C.raw", "void ns::gather<16, long>(char *, const T2 *)"),
        ("base-function.raw", "gather"),
        ("base-mangled.raw", "_ZN2ns6gatherILi16ElEEvPcPKT2_"),
    ],
)
def test_names_are_kept_as_printed(name: str, kernel: str) -> None:
    assert of(name).launches["name"][0] == kernel


def test_summary() -> None:
    one = of("summary-per-kernel")
    assert one.trace["kind"] == "summary"
    assert "launches" not in one.manifest.parts
    rows = one.table("rollups").select("origin", "timing", "n", "timed", "total_ns", "min_ns", "max_ns").rows()
    assert set(rows) == {
        ("report", "profiled", 1, 1, 3460, 3460, 3460),
        ("report", "profiled", 1, 1, 4830, 4830, 4830),
    }
    averages = one.table("metrics").filter(pl.col("instance").is_null() & (pl.col("metric") == "launch__grid_size"))
    assert sorted(averages["value"]) == [512, 1280]
    assert averages["signature_id"].null_count() == 0


def test_summary_per_range() -> None:
    one = of("summary-per-nvtx")
    assert one.table("rollups")["phase"].unique().to_list() == ["decode"]
    assert one.table("rollups")["n"].sum() == 2


def test_that_pages_of_one_report_are_one_trace(tmp_path: Path) -> None:
    for page in ("raw", "details"):
        (tmp_path / f"x.{page}.csv").write_bytes(printed(f"de_DE.{page}.csv"))
    (one,) = convert_units([tmp_path], tmp_path)
    assert one.manifest.name == "x"
    assert one.table("trace_files")["role"].to_list() == ["raw", "details"]
    assert one.table("launches").height == 2
    raw = values(convert_text(printed("C.raw.csv"), tmp_path, "alone.csv"))
    joined = values(one)
    assert {key: joined[key] for key in raw} == raw
    counts = one.table("metrics").filter(pl.col("instance").is_null()).group_by("launch_index", "metric").len()
    assert counts["len"].max() == 1


def test_that_pages_of_other_processes_stay_apart(tmp_path: Path) -> None:
    (tmp_path / "x.raw.csv").write_bytes(printed("C.raw.csv"))
    (tmp_path / "x.details.csv").write_bytes(printed("C.details.csv").replace(b'"4242"', b'"4243"'))
    assert [one.manifest.name for one in convert_units([tmp_path], tmp_path)] == ["x.details", "x.raw"]


def test_that_contradicting_pages_are_refused(tmp_path: Path) -> None:
    from kerneldb.errors import UnreadableTraceError

    (tmp_path / "x.raw.csv").write_bytes(printed("C.raw.csv"))
    (tmp_path / "x.details.csv").write_bytes(printed("C.details.csv").replace(b'"(512, 1, 1)"', b'"(513, 1, 1)"'))
    with pytest.raises(UnreadableTraceError, match="has grid_x 512 on one page and 513 on another"):
        convert_units([tmp_path], tmp_path)


def test_two_tables_in_one_file(tmp_path: Path) -> None:
    both = printed("C.raw.csv") + b"the program goes on\n" + printed("C.details.csv")
    one = convert_text(both, tmp_path)
    assert one.table("launches").height == 2
    assert one.trace["era"] == "ncu csv raw+details"
    assert values(one)[0, "gpu__time_duration.sum", None][2] == pytest.approx(0.0005)


@pytest.mark.parametrize("page", ["raw", "details"])
@pytest.mark.parametrize("version", VERSIONS[:2])
def test_that_versions_of_ncu_agree(version: str, page: str, shared_data: Path) -> None:
    """`mojo_profile` (GTX 1660 Ti), printed by three versions of ncu."""
    names = [f"ncu/mojo_profile.ncu{name}.{page}.auto.csv" for name in (version, VERSIONS[2])]
    old, new = (values(of_sample(name)) for name in names)
    assert len(old.keys() & new.keys()) > 80
    assert differing(old, new) == {}


@pytest.mark.thorough
def test_raw_and_details_of_60_kernels(shared_data: Path) -> None:
    """Every label of ncu 2025.3 that has a canonical name agrees with the raw page of the same report."""
    raw, details = (values(of_sample(f"ncu/h200-decoder-{page}.csv.gz")) for page in ("raw", "details"))
    assert len(raw.keys() & details.keys()) == 60 * 81
    assert differing(raw, details) == {}


@pytest.mark.thorough
def test_raw_and_details_of_60_kernels_in_one_trace(shared_data: Path, tmp_path: Path) -> None:
    paths = [shared_data / "ncu" / f"h200-decoder-{page}.csv.gz" for page in ("raw", "details")]
    (one,) = convert_units(paths, tmp_path / "both")
    assert one.table("launches").height == 60
    assert one.table("launches")["duration_ns"].sum() == 308672
    assert one.table("devices").select("name", "arch").rows() == [("NVIDIA H200", "sm_90")]


def test_twenty_captures_of_one_run(shared_data: Path, tmp_path: Path) -> None:
    found = convert_units([shared_data / "ncu" / "deepseek-ocr-v2"], tmp_path)
    assert len(found) == 20
    assert {one.trace.get("stated_run") for one in found} == {None}
    assert {one.trace["kind"] for one in found} == {"profiled"}
    assert sum(one.table("launches").height for one in found) == 20


def test_that_the_fixtures_are_all_used() -> None:
    names = {path.name for path in DATA.iterdir()}
    assert {f"{name}.csv.gz" for name in OTHERS} | {f"{one}.raw.csv.gz" for one in LOCALES} <= names


def test_numbers_of_a_page_that_no_column_holds_are_left_empty(tmp_path: Path) -> None:
    before, _, last = printed("C.raw.csv").decode().rstrip().rpartition("\n")
    (tmp_path / "C.raw.csv").write_text(before + "\n" + re.sub(r'"\d+"', f'"{"9" * 5000}"', last) + "\n")
    (found,) = convert_units([tmp_path / "C.raw.csv"], tmp_path)
    assert found.launches["correlation_id"].null_count() == 1
    assert found.report("unread")["value of correlation_id that its column does not hold: left empty"] == 1
