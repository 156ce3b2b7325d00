"""The same run as rocpd, CSV (both writers) and JSON gives the same launches."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.rocprof.conversion import SAME, converted, launch_rows
from tests.rocprof.databases import TORCH, Kernel, Process, fill, rocpd, views
from tests.rocprof.formats import write_csv, write_json

if TYPE_CHECKING:
    from pathlib import Path

ATTENTION = Kernel("_attn_fwd", (32768, 16, 1), (256, 1, 1), [123_456], vgpr=192, lds=49152, static_lds=0)
ODD = Kernel("uneven", (1000, 3, 1), (256, 2, 1), [0, 50_000], vgpr=17, scratch=64)
ONLY_ROCPD_STYLE = ("shared_bytes",)


@pytest.fixture
def database(tmp_path: Path) -> Path:
    """The gfx1151 workload with ranges, a copy, dynamic LDS, a zero duration and a dispatch without a symbol."""
    path = tmp_path / "run_results.db"
    with rocpd(path) as connection:
        process = Process(connection)
        fill(process, [*TORCH, ATTENTION, ODD])
        start = 1_000_000_000_000
        process.region(
            "MARKER_CORE_RANGE_API",
            "roctxThreadRangeA",
            start - 50_000,
            start + 10**8,
            90,
            extdata='{"message": "prefill"}',
        )
        process.region(
            "MARKER_CORE_RANGE_API",
            "roctxThreadRangeA",
            start - 40_000,
            start + 10**7,
            91,
            extdata='{"message": "layer 0"}',
        )
        process.region("MARKER_CORE_RANGE_API", "roctxMarkA", start, start, 92, extdata='{"message": "a, \\"mark\\""}')
        process.dispatch(ODD, 0, start + 2 * 10**9, 777, 9_999)
        copy = {"size": 4096, "stream_id": 0, "dst_agent_id": 1, "src_agent_id": 0}
        event = process.event("MEMORY_COPY", 9_998)
        process.insert(
            "rocpd_memory_copy",
            start=start + 3 * 10**9,
            end=start + 3 * 10**9 + 55,
            event_id=event,
            name_id=process.text("MEMORY_COPY_HOST_TO_DEVICE"),
            **copy,
            **process.place(),
        )
        views(connection, [process.suffix])
    return path


def test_csv_and_json_give_the_launches_of_rocpd(database: Path, tmp_path: Path) -> None:
    expected = launch_rows(converted(database), *SAME)
    direct, again = tmp_path / "direct", tmp_path / "again"
    direct.mkdir()
    again.mkdir()
    write_csv(database, direct, "115108")
    write_csv(database, again, "run", rocpd_style=True)
    json_file = write_json(database, tmp_path / "run_results.json")
    assert len(expected) == 3 * 23 + 1 + 2 + 1 + 1
    assert [row["phase"] for row in expected[:4]] == ["prefill"] * 3 + [expected[3]["phase"]]
    without_bytes = tuple(name for name in SAME if name != "signature_id")
    for trace in (converted(direct), converted(again)):
        assert launch_rows(trace, *without_bytes) == launch_rows(converted(database), *without_bytes)
    assert launch_rows(converted(json_file), *SAME) == expected


def test_only_the_signature_of_copies_differs_in_csv(database: Path, tmp_path: Path) -> None:
    """CSV prints no size of a copy, so its signature lacks the bytes."""
    folder = tmp_path / "csv"
    folder.mkdir()
    write_csv(database, folder, "115108")
    ours, theirs = (launch_rows(converted(one), "kind", "signature_id") for one in (database, folder))
    kinds = {one["kind"] for one, other in zip(ours, theirs, strict=True) if one != other}
    assert kinds == {"memcpy"}


@pytest.mark.parametrize("name", ["synthetic_gfx1151_full.db", "synthetic_gfx1151.db"])
def test_shared_databases_too(shared_data: Path, tmp_path: Path, name: str) -> None:
    source = shared_data / "rocprof" / name
    same = tuple(column for column in SAME if column not in ("signature_id", "timing"))
    folder = tmp_path / "csv"
    folder.mkdir()
    write_csv(source, folder, "run")
    expected = launch_rows(converted(source), *same)
    assert launch_rows(converted(folder), *same) == expected
    assert launch_rows(converted(write_json(source, tmp_path / "run.json")), *same) == expected


def test_direct_csv_loses_dynamic_lds_and_says_so(database: Path, tmp_path: Path) -> None:
    folder, other = tmp_path / "csv", tmp_path / "rocpd"
    folder.mkdir()
    other.mkdir()
    write_csv(database, folder, "115108")
    write_csv(database, other, "115108", rocpd_style=True)
    direct, exact, whole = (converted(one).launch("_attn_fwd") for one in (folder, other, database))
    assert direct.get("dynamic_shared_bytes") is None
    assert (direct.get("shared_bytes"), direct["static_shared_bytes"]) == (None, 0)
    assert direct["quality"] == "lds_static_only"
    assert exact["shared_bytes"] == whole["shared_bytes"] == 49152
    assert whole["dynamic_shared_bytes"] == 49152
