"""What the reader makes of logs: columns, units, gaps in values, times, GPUs, damage."""

from __future__ import annotations

import datetime
import itertools
import json
from pathlib import Path
from typing import Any

import pytest

from kerneldb import ingest
from kerneldb.errors import NotATraceError, UsageError
from kerneldb.ingest import readers
from kerneldb.ingest.power import log
from kerneldb.ingest.power.log import reasons
from tests.power.conftest import Read

UUIDS = ("GPU-8f1ad1a6-0000-1111-2222-333344445555", "GPU-8f1ad1a6-0000-1111-2222-333344445556")
HEADER = (
    "timestamp, index, name, uuid, power.draw [W], clocks.current.sm [MHz], clocks.current.memory [MHz], "
    "temperature.gpu, utilization.gpu [%], utilization.memory [%], memory.used [MiB], pstate, "
    "clocks_event_reasons.active"
)
ROWS = (
    f"2026/11/21 10:20:30.123, 0, NVIDIA H200, {UUIDS[0]}, 121.50 W, 1980 MHz, 3201 MHz, 35, "
    "7 %, 1 %, 12 MiB, P0, 0x0000000000000001",
    f"2026/11/21 10:20:30.124, 1, NVIDIA H200, {UUIDS[1]}, [N/A], 1980 MHz, [Unknown Error], 36, "
    "[Not Supported], 1 %, 12 MiB, P2, 0x0000000000000024",
)
FULL = "\n".join((HEADER, *ROWS, ""))
DMON = """\
#Date       Time        gpu    pwr  gtemp  mtemp     sm    mem    enc    dec    jpg    ofa   mclk   pclk
#YYYYMMDD   HH:MM:SS    Idx      W      C      C      %      %      %      %      %      %    MHz    MHz
 20261121   10:20:30      0     71     33     41      -      0      0      0      0      0   2619    345
 20261121   10:20:31      0     72     33     41      5      0      0      0      0      0   2619   1980
#Date       Time        gpu    pwr  gtemp  mtemp     sm    mem    enc    dec    jpg    ofa   mclk   pclk
#YYYYMMDD   HH:MM:SS    Idx      W      C      C      %      %      %      %      %      %    MHz    MHz
 20261121   10:20:32      0     75     33     41      -      0      0      0      0      0   2619    345
"""


def utc(*when: int) -> int:
    return int(datetime.datetime(*when, tzinfo=datetime.UTC).timestamp()) * 10**9  # type: ignore[misc,arg-type]


def test_all_columns_and_units(read: Read) -> None:
    log = read(FULL)
    first, second = log.rows()
    assert first["epoch_ns"] == utc(2026, 11, 21, 10, 20, 30) + 123_000_000
    known = {name: first[name] for name in ("power_w", "sm_mhz", "memory_mhz", "temperature_c", "gpu_util_pct")}
    assert known == {"power_w": 121.5, "sm_mhz": 1980, "memory_mhz": 3201, "temperature_c": 35, "gpu_util_pct": 7}
    assert (first["device"], first["gpu"], first["source"], first["throttle"]) == (0, UUIDS[0], "log", "")
    assert (second["power_w"], second["memory_mhz"], second["gpu_util_pct"]) == (None, None, None)
    assert second["throttle"] == "software power cap; software thermal slowdown"
    assert (second["ts_ns"], log.trace["kind"], log.trace["source"], log.trace["clock"]) == (
        1_000_000, "power", "nvidia-smi", "epoch",
    )  # fmt: skip


def test_further_columns_become_counters(read: Read) -> None:
    found = {(row["counter"], row["device"]): (row["value"], row["unit"]) for row in read(FULL).rows("samples")}
    assert found["memory.used", 0] == (12 * 2**20, "byte")
    assert (found["pstate", 0], found["pstate", 1]) == ((0.0, None), (2.0, None))


@pytest.mark.parametrize("number", [1, 2, 500])
def test_a_log_of_further_columns_alone(read: Read, number: int) -> None:
    rows = "".join(f"2026/11/21 12:00:00.{one:03d}, 0, {one} %\n" for one in range(number))
    log = read(f"timestamp, index, fan.speed [%]\n{rows}")
    assert [row["value"] for row in log.rows("samples")] == list(range(number))
    assert log.column("power_w") == [None] * number


def test_devices_have_name_and_uuid(read: Read) -> None:
    devices = read(FULL).rows("devices")
    assert [(row["device"], row["name"]) for row in devices] == [(0, "NVIDIA H200"), (1, "NVIDIA H200")]
    assert [json.loads(row["properties"])["uuid"] for row in devices] == list(UUIDS)


def test_every_order_of_columns_reads_the_same(read: Read) -> None:
    header = ["timestamp", "index", "power.draw [W]", "clocks.sm [MHz]"]
    cells = ["2026/11/21 10:20:30.123", "1", "95.62 W", "1755 MHz"]
    for order in itertools.permutations(range(4)):
        rows = (", ".join(line[place] for place in order) for line in (header, cells))
        (row,) = read("\n".join(rows) + "\n").rows()
        assert (row["device"], row["power_w"], row["sm_mhz"]) == (1, 95.62, 1755)


@pytest.mark.parametrize(
    ("header", "cell", "power"),
    [
        ("power.draw [W]", "95.62", 95.62),
        ("power.draw", "95.62 W", 95.62),
        ("power.draw.instant [W]", "95.62 W", 95.62),
        ("power.draw.average [W]", "[N/A]", None),
        ("power.draw [W]", "[GPU requires reset]", None),
    ],
)
def test_units_in_header_or_cells(read: Read, header: str, cell: str, power: float | None) -> None:
    (row,) = read(f"timestamp, {header}\n2026/11/21 10:20:30.123, {cell}\n").rows()
    assert row["power_w"] == power


def test_instant_power_comes_before_average(read: Read) -> None:
    log = read(
        "timestamp, power.draw [W], power.draw.instant [W]\n"
        "2026/11/21 10:20:30.000, 100.00 W, 120.00 W\n"
        "2026/11/21 10:20:31.000, 101.00 W, [N/A]\n"
    )
    assert log.column("power_w") == [120, 101]
    assert "power_w is power.draw.instant, else power.draw" in log.report()


def test_reasons_as_columns_of_their_own(read: Read) -> None:
    log = read(
        "timestamp, power.draw [W], clocks_event_reasons.sw_power_cap, clocks_event_reasons.hw_slowdown\n"
        "2026/11/21 10:20:30.000, 1 W, Active, Active\n"
        "2026/11/21 10:20:31.000, 1 W, Not Active, Not Active\n"
        "2026/11/21 10:20:32.000, 1 W, [N/A], [N/A]\n"
    )
    assert log.column("throttle") == ["software power cap; hardware slowdown", "", None]
    assert reasons("Active") is None


def test_dmon_with_repeated_headers(read: Read) -> None:
    log = read(DMON, "dmon.txt")
    assert log.column("epoch_ns") == [utc(2026, 11, 21, 10, 20, 30 + number) for number in range(3)]
    assert (log.column("power_w"), log.column("gpu_util_pct")) == ([71, 72, 75], [None, 5, None])
    assert log.column("sm_mhz") == [345, 1980, 345]
    assert {row["unit"] for row in log.rows("samples") if row["counter"] == "mtemp"} == {"°C"}
    assert len(log.manifest.parts["power_samples"]) == 1, "a repeated header does not split the rows"
    assert log.trace["name"] == "dmon"


def test_dmon_as_csv(read: Read) -> None:
    text = "#Date, Time, gpu, pwr, pclk\n#YYYYMMDD, HH:MM:SS, Idx, W, MHz\n20261121, 10:20:30, 1, 71, 345\n"
    (row,) = read(text).rows()
    assert (row["device"], row["power_w"], row["sm_mhz"]) == (1, 71, 345)


def test_dmon_over_midnight_with_the_day_given(read: Read) -> None:
    text = "#Time        gpu    pwr\n#HH:MM:SS    Idx      W\n 23:59:59      0     71\n 00:00:01      0     72\n"
    log = read(text, date="2026-11-21")
    assert log.column("epoch_ns") == [utc(2026, 11, 21, 23, 59, 59), utc(2026, 11, 22, 0, 0, 1)]


@pytest.mark.parametrize("slice_rows", [1, 2, 3])
def test_midnight_and_summer_time_across_slices(read: Read, monkeypatch: pytest.MonkeyPatch, slice_rows: int) -> None:
    monkeypatch.setattr(log, "SLICE_ROWS", slice_rows)
    text = "#Time gpu pwr\n#HH:MM:SS Idx W\n23:59:58 0 1\n23:59:59 0 2\n00:00:01 0 3\n00:00:02 0 4\n"
    assert read(text, date="2026-11-21").column("epoch_ns")[3] == utc(2026, 11, 22, 0, 0, 2)
    back = ("02:59:59", "02:00:01", "02:59:59", "03:00:01")
    text = "timestamp, power.draw [W]\n" + "".join(f"2026/10/25 {time}.000, 1 W\n" for time in back)
    found = read(text, time_zone="Europe/Berlin").column("epoch_ns")
    assert found == [
        utc(2026, 10, 25, 0, 59, 59),
        utc(2026, 10, 25, 1, 0, 1),
        utc(2026, 10, 25, 1, 59, 59),
        utc(2026, 10, 25, 2, 0, 1),
    ]


def test_time_zone_is_kept_and_told(read: Read, monkeypatch: pytest.MonkeyPatch) -> None:
    text = "timestamp, power.draw [W]\n2026/07/01 12:00:00.000, 1 W\n"
    log = read(text, time_zone="America/New_York")
    assert log.column("epoch_ns") == [utc(2026, 7, 1, 16)]
    assert json.loads(log.trace["metadata"])["time_zone"] == "America/New_York"
    monkeypatch.setenv("TZ", "Asia/Tokyo")
    import time

    time.tzset()
    try:
        here = read(text, time_zone=None)
    finally:
        monkeypatch.undo()
        time.tzset()
    assert here.column("epoch_ns") == [utc(2026, 7, 1, 3)]
    assert any("UTC+0900" in reason and "of this machine" in reason for reason in here.report())


@pytest.mark.parametrize("encoding", ["utf-8-sig", "utf-16", "utf-16-le-bom"])
def test_windows_encodings(read: Read, encoding: str) -> None:
    text = FULL.replace("\n", "\r\n")
    data = b"\xff\xfe" + text.encode("utf-16-le") if encoding == "utf-16-le-bom" else text.encode(encoding)
    assert read(data).column("power_w") == [121.5, None]


def test_cut_line_repeated_header_and_foreign_text(read: Read) -> None:
    header, first, second = FULL.splitlines(keepends=True)
    log = read(f"starting, 1 of 2\n{header}{first}[app] step 3, loss 0.1\n\n{header}{second}{first[:60]}")
    assert len(log.rows()) == 2
    report = log.report()
    assert report["lines that are not rows of the log"] == 2
    assert report["the last line has no end"] == 1
    assert report["power samples"] == 2


def test_columns_may_change_within_a_file(read: Read) -> None:
    log = read(
        "timestamp, power.draw [W]\n2026/11/21 10:20:30.000, 1 W\n"
        "timestamp, index, clocks.sm [MHz], power.draw [W]\n2026/11/21 10:20:31.000, 2, 900 MHz, 3 W\n"
    )
    assert [(row["device"], row["power_w"]) for row in log.rows()] == [(None, 1), (2, 3)]


@pytest.mark.parametrize(
    ("rows", "power"),
    [
        ("2026/11/21 10:20:30.123, 95.62 W, 1980 MHz", 95.62),
        ("2026/11/21 10:20:30.123, 45, 95.62", 95.62),
        (f"{UUIDS[0]}, 2026/11/21 10:20:30.123, 95.62 W, 45", 95.62),
    ],
)
def test_rows_without_header_that_speak_for_themselves(read: Read, rows: str, power: float) -> None:
    log = read(rows + "\n" + rows.replace("30.123", "30.223") + "\n")
    assert log.column("power_w") == [power, power]


@pytest.mark.parametrize(
    ("text", "remedy"),
    [
        ("2026/11/21 10:20:30.123, 0, 95.62\n2026/11/21 10:20:30.124, 1, 90.10\n", r"sed -i '1i timestamp"),
        ("2026/11/21 10:20:30.123, 95.62 W, 700.00 W\n", r"sed -i '1i timestamp"),
        ("2026/11/21 10:20:30.123, 35, 45\n", r"sed -i '1i timestamp"),
        ("20261121, 10:20:30, 0, 71, 33\n", r"sed -i '1i #Date Time gpu"),
        ("index, power.draw [W]\n0, 95.62 W\n", r"without times.*--query-gpu=timestamp"),
        ("# gpu    pwr\n# Idx      W\n    0     71\n", r"without times.*dmon -o DT"),
        ("#Time gpu pwr\n#HH:MM:SS Idx W\n10:20:30 0 71\n", r"--date 2026-11-21"),
        ("timestamp, power.draw [W]\n", r"without any row"),
        (
            "#Date Time gpu pid type sm mem enc dec jpg ofa command\n#YYYYMMDD HH:MM:SS Idx # C/G % % % % % % name\n"
            " 20261126 15:20:59 0 15030 C 0 0 - - - - python3\n",
            r"of processes.*--query-gpu=timestamp",
        ),
        ("timestamp, pid, used_gpu_memory [MiB]\n2026/11/21 10:20:30.123, 7, 512 MiB\n", r"of processes"),
        (
            '<?xml version="1.0" ?>\n<!DOCTYPE nvidia_smi_log SYSTEM "nvsmi_device_v12.dtd">\n',
            r"on screen.*--query-gpu",
        ),
        ("timestamp, power.draw [W]\nnever, 1 W\n", r"without any row"),
        ("+-----+\n| NVIDIA-SMI 580.82    Driver Version: 580.82 |\n", r"on screen.*--query-gpu"),
        ("==============NVSMI LOG==============\n", r"on screen"),
    ],
)
def test_what_cannot_be_understood_is_refused_with_the_remedy(read: Read, text: str, remedy: str) -> None:
    with pytest.raises(NotATraceError, match=remedy):
        read(text)


@pytest.mark.parametrize(
    ("more", "message"), [({"time_zone": "Middle/Earth"}, "unknown time zone"), ({"date": "21.11."}, "not a day")]
)
def test_wrong_options(read: Read, more: dict[str, Any], message: str) -> None:
    with pytest.raises(UsageError, match=message):
        read(FULL, **more)


@pytest.mark.parametrize(
    "text",
    [
        "Start (ns),Duration (ns),Name\n1,2,k\n",
        "name, index, loss\na, 1, 0.5\n",
        "2026/11/21 10:20:30.123, INFO, loading\n",
        '{"traceEvents": []}',
        "# a comment about a gpu and more\n",
    ],
)
def test_other_files_are_left_to_other_readers(tmp_path: Path, text: str) -> None:
    path = tmp_path / "x.csv"
    path.write_text(text)
    found = readers.find(readers.head_of(path))
    assert found is None or found.name != "nvidia-smi"


def test_doctor_says_how_dense_the_samples_are(tmp_path: Path) -> None:
    path = tmp_path / "power.csv"
    path.write_text("timestamp, power.draw [W]\n2026/11/21 10:20:30.000, 1 W\n2026/11/21 10:20:31.000, 2 W\n")
    (diagnosis,) = ingest.diagnose(path)
    found = {one.topic: one.message for one in diagnosis.diagnostics}
    assert found["samples"] == "2 samples of 1 GPUs, one every 1,000 ms."
    assert "period" in found
    assert "GPUs" in found


def test_power_that_no_gpu_draws(read: Read) -> None:
    cells = ("5.00 W", "-1.00 W", "4294967.29 W", "nan", "[N/A]", "inf")
    rows = [f"2026/11/21 10:20:3{second}.000, 0, {cell}\n" for second, cell in enumerate(cells)]
    found = read("timestamp, index, power.draw [W]\n" + "".join(rows))
    assert found.column("power_w") == [5.0, None, None, None, None, None]
    assert found.report()["power that no GPU draws"] == 2
    assert found.report()["cells of power.draw: no numbers"] == 2
