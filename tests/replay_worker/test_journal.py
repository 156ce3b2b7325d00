from __future__ import annotations

import dataclasses
import errno
import resource
import shlex
import subprocess
import time
from pathlib import Path
from typing import TYPE_CHECKING, NoReturn

import pytest

from kerneldb.recordings import Reading
from kerneldb.replay.errors import JournalError, JournalExistsError
from kerneldb.replay.wire import journal
from kerneldb.replay.wire.energy import CallEnergy, EnergyFacts, Window
from kerneldb.replay.wire.journal import Writer
from kerneldb.replay.wire.messages import Readings
from kerneldb.replay.wire.results import (
    FAILED,
    OK,
    SKIPPED,
    Activity,
    CallResult,
    DeviceState,
    KernelResult,
    LoopCost,
    RunFacts,
    Spread,
)

if TYPE_CHECKING:
    from collections.abc import Callable

RUN = RunFacts("r1", "2026-01-01T00:00:00+00:00", "mixed", "cuda:0", gpu="NVIDIA H200", arguments={"runs": 12})
SPREAD = Spread(12, 2048.0, 32.0, 2016.0, 2080.0, 2050.5, 1984.0)
FULL = CallResult(
    item="i1",
    route="aten",
    cache="mixed",
    status=OK,
    grade="L1",
    reason="other grid",
    overload="aten::mm.default",
    notes=("hidden:offset(self)",),
    tries=2,
    warmup=3,
    runs=12,
    wall_s=0.25,
    kernels=(
        KernelResult(0, "s1", "gemm", "L1", "other grid", Activity("kernel", "gemm", 2048, (1, 2, 3), (128, 1, 1), 64),
                     ("shared_bytes",), 1.0, SPREAD),
    ),
    extra=(Activity("memset", "Memset (Device)", 700, bytes=4),),
    missing=("splitK",),
    time=SPREAD,
    loop=LoopCost(SPREAD, 256, 6),
    inputs={"cold_bytes": 10, "ring": 6},
    state=DeviceState(1980, 3201, 41, 310.5, ("software power cap",)),
)  # fmt: skip


def call(item: str, status: str = OK, *, final: bool = True, grade: str = "L0") -> CallResult:
    return CallResult(item, "aten", "mixed", status, grade, final=final)


def written(path: Path, *results: CallResult) -> Path:
    with Writer(path) as writer:
        writer.run(RUN)
        for result in results:
            writer.call(result)
    return path


def test_a_result_comes_back_as_it_went(tmp_path: Path) -> None:
    path = written(tmp_path / "j", FULL, call("i2"))
    read = journal.read(path)
    assert read.run == RUN
    assert read.calls == (FULL, call("i2"))
    assert (read.finished, read.cut) == (False, False)


def test_the_end_is_known(tmp_path: Path) -> None:
    path = tmp_path / "j"
    with Writer(path) as writer:
        writer.run(RUN)
        writer.end(finished=True, remaining=0, wall_s=1.0)
    assert journal.read(path).finished


def test_each_line_is_there_before_the_journal_is_closed(tmp_path: Path) -> None:
    with Writer(tmp_path / "j") as writer:
        writer.run(RUN)
        writer.call(FULL)
        assert journal.read(tmp_path / "j").calls == (FULL,)


def test_a_journal_that_cannot_be_written_is_named_and_not_left(tmp_path: Path) -> None:
    path, before = tmp_path / "j", resource.getrlimit(resource.RLIMIT_FSIZE)

    def tried() -> None:
        with Writer(path) as writer:
            writer.run(RUN)

    resource.setrlimit(resource.RLIMIT_FSIZE, (0, before[1]))
    try:
        with pytest.raises(OSError, match="File too large") as caught:
            tried()
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)
    assert (caught.value.filename, path.exists()) == (str(path), False)


@pytest.mark.parametrize("cut", [1, 7, 40])
def test_a_cut_last_line_is_dropped(tmp_path: Path, cut: int) -> None:
    path = written(tmp_path / "j", call("i1"), FULL)
    path.write_bytes(path.read_bytes()[:-cut])
    read = journal.read(path)
    assert [one.item for one in read.calls] == ["i1"]
    assert read.cut


def test_resuming_goes_on_behind_a_cut_line(tmp_path: Path) -> None:
    path = written(tmp_path / "j", call("i1"), FULL)
    path.write_bytes(path.read_bytes()[:-5])
    with Writer(path, resume=True) as writer:
        writer.run(RUN)
        writer.call(call("i2"))
    read = journal.read(path)
    assert [one.item for one in read.calls] == ["i1", "i2"]
    assert read.resumed == [RUN]


def test_the_last_line_of_an_item_counts(tmp_path: Path) -> None:
    path = written(tmp_path / "j", call("i1", final=False, grade="L3"), call("i1", grade="L0"))
    assert [(one.item, one.grade, one.final) for one in journal.read(path).calls] == [("i1", "L0", True)]


def test_skipped_and_unfinished_items_are_not_settled(tmp_path: Path) -> None:
    results = (call("i1"), call("i2", FAILED), call("i3", SKIPPED), call("i4", final=False))
    read = journal.read(written(tmp_path / "j", *results))
    assert read.settled("mixed") == {"i1", "i2"}
    assert read.settled("cold") == frozenset()


def test_a_journal_is_not_overwritten(tmp_path: Path) -> None:
    path = written(tmp_path / "j")
    with pytest.raises(JournalExistsError, match="resume"):
        Writer(path)


ANEW = "give the file that --journal named, or replay from the start, without --resume"


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("\n\n", "not a replay journal (its header is missing or cut)"),
        ("{}\n", "not a replay journal (no format 'kerneldb-replay-journal')"),
        ('{"kind": "run", "format": "other"}\n', "not a replay journal (no format 'kerneldb-replay-journal')"),
        ("no json\n", "not JSON (Expecting value, character 0)"),
        ("\x1f\udc8b\n", "not UTF-8"),
    ],
)
@pytest.mark.parametrize("take", [journal.read, journal.begun])
def test_other_files_are_refused(tmp_path: Path, text: str, said: str, take: Callable[[Path], object]) -> None:
    path = tmp_path / "j"
    path.write_bytes(text.encode(errors="surrogateescape"))
    with pytest.raises(JournalError) as refused:
        take(path)
    assert str(refused.value) == f"{path}: line 1: {said}; {ANEW}"


@pytest.mark.parametrize("text", ["", '{"kind": "run", "ru'])
def test_a_journal_that_never_began_is_begun(tmp_path: Path, text: str) -> None:
    path = tmp_path / "j"
    path.write_text(text)
    assert journal.begun(path) is None
    with pytest.raises(JournalError, match=r"j: line 1: .*\(its header is missing or cut\); give the file"):
        journal.read(path)


@pytest.mark.parametrize("take", [journal.read, journal.begun])
def test_a_folder_is_no_journal(tmp_path: Path, take: Callable[[Path], object]) -> None:
    with pytest.raises(JournalError) as refused:
        take(tmp_path)
    assert str(refused.value) == f"{tmp_path}: a folder, no replay journal; {ANEW}"


def test_who_may_not_read_a_journal_is_told_who_lets_him(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = written(tmp_path / "the journal", call("i1"))

    def refuse(*_: object) -> NoReturn:  # the administrator may read any file
        raise PermissionError(errno.EACCES, "Permission denied", str(path))

    monkeypatch.setattr(Path, "open", refuse)
    with pytest.raises(JournalError) as refused:
        journal.begun(path)
    assert str(refused.value) == f"{path}: this user may not read it; its owner allows that: chmod u+r '{path}'"


@pytest.mark.parametrize(
    ("line", "said"),
    [
        (b"garbage", "not JSON (Expecting value, character 0)"),
        (b"\x80\xff", "not UTF-8"),
        (b"\0" * 4096, "not JSON (Expecting value, character 0)"),
        (b'{"kind": "call", "call": {}}', "call: no 'item'"),
        (b'{"kind": "call", "call": {"tries":', "not JSON (Expecting value, character 35)"),
    ],
)
def test_a_damaged_line_in_the_middle_is_named_and_can_be_left_out(tmp_path: Path, line: bytes, said: str) -> None:
    path = written(tmp_path / "the journal", call("i1"), call("i2"))
    lines = path.read_bytes().splitlines(keepends=True)
    path.write_bytes(lines[0] + line + b"\n" + lines[2])
    remedy = f"sed -i 2d '{path}'"
    for take in (journal.read, journal.begun):
        with pytest.raises(JournalError) as refused:
            take(path)
        without = f"copy the journal again, or do without what this line says: {remedy}"
        assert str(refused.value) == f"{path}: line 2: {said}; {without}"
    subprocess.run(shlex.split(remedy), check=True)
    assert [one.item for one in journal.read(path).calls] == ["i2"]


WINDOW = Window(
    1.7e9, 1.4, 615.2, 1.7, 120_350.0, 14, upkeep_ns=49.0, upkeep_w=391.8, temperature_c=48.5, sm_mhz=1980.0
)
ENERGY = CallEnergy(
    74.1, 73.6, 74.6, 58.8, 58.3, 59.3, 615.2, 0.9999, 4.2, "CUDA-graph loop", windows=(WINDOW, WINDOW)
)  # fmt: skip
FACTS = EnergyFacts(
    "nvml", period_ms=100.0, launch_loop_power_w=126.9, seed=7, gaps=(WINDOW,), anchors=(WINDOW,), flush=WINDOW
)


def test_energies_come_back_as_they_went(tmp_path: Path) -> None:
    weighed = dataclasses.replace(FULL, attempt=2, energy=ENERGY)
    unknown = dataclasses.replace(call("i2"), energy=CallEnergy(reason="budget", final=False))
    readings = [
        Reading("gap", 1, energy_mj=2.0, power_w=127.0),
        Reading("i1", 2, energy_mj=3.0, throttle="software power cap"),
    ]
    with Writer(tmp_path / "j") as writer:
        writer.run(RUN)
        writer.energy(EnergyFacts("nvml"))
        writer.power(readings)
        writer.call(weighed)
        writer.call(unknown)
        writer.energy(FACTS)
    read = journal.read(tmp_path / "j")
    assert read.calls == (weighed, unknown)
    assert read.energy == FACTS
    assert read.readings == readings


def test_what_is_still_to_be_measured(tmp_path: Path) -> None:
    known = dataclasses.replace(call("i1"), energy=ENERGY)
    begun = dataclasses.replace(call("i2"), energy=CallEnergy(1.0, final=False, windows=(WINDOW,)))
    results = (known, begun, call("i3"), call("i4", FAILED), call("i5", final=False), call("i6"))
    read = journal.read(written(tmp_path / "j", *results))
    assert [one.item for one in read.unmeasured("mixed")] == ["i2", "i3", "i6"]
    assert read.unmeasured("cold") == ()


def test_a_journal_of_an_earlier_version_has_no_energy(tmp_path: Path) -> None:
    read = journal.read(written(tmp_path / "j", FULL))
    assert (read.energy, read.readings, read.calls[0].energy, read.calls[0].attempt) == (None, [], None, None)


def test_what_a_later_version_adds_is_left_out(tmp_path: Path) -> None:
    path = written(tmp_path / "j", dataclasses.replace(FULL, energy=ENERGY))
    path.write_text(path.read_text().replace('"energy": {', '"energy": {"flavour": "strange", '))
    assert journal.read(path).calls[0].energy == ENERGY


def test_readings_are_not_copied_for_each_line() -> None:
    read = journal.Journal(RunFacts("r1", "2026-01-01T00:00:00+00:00", "mixed", "cpu"))
    line = Readings((Reading("gap", 1, energy_mj=2.0),))
    begun = time.process_time()
    for _ in range(100_000):
        read.take(line)
    assert time.process_time() - begun < 10  # a tenth of a second; copied for each, they take a minute
    assert len(read.readings) == 100_000
