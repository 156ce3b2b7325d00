"""Long runs of blanks and other bytes cost what reading them costs: no pattern goes over a run anew from each byte."""

from __future__ import annotations

import itertools
import random
import time
import zipfile
from pathlib import Path

import pytest

from kerneldb import limits
from kerneldb.ingest import Options, convert, readers
from kerneldb.ingest.nsys import sniff
from kerneldb.ingest.pytorch import repair
from kerneldb.ingest.pytorch.split import STRING, Boundary, Splitter, _Quotes
from kerneldb.ingest.source import Source
from tests.ingest.conversion import convert_file

SECONDS = 5.0
"""Of a processor. From each byte anew, they are minutes."""
MIB = 1 << 20
EVENT = '{"ph":"X","cat":"kernel","name":"k","pid":0,"tid":7,"ts":1,"dur":5,"args":{"stream":7,"device":0}}'
RUNS = (
    b"\n",
    b" ",
    b"\n\t",
    b'\n"',
    b"=",
    b"|\n",
    b'\\"',
    b";",
    b"[{}\n",
    b'"name":"/device:',
    b"Processing [a.sqlite",
)


@pytest.mark.parametrize("run", RUNS)
def test_no_first_bytes_are_looked_at_without_end(run: bytes) -> None:
    for opening in (b"", b"[{", b"Start,Duration\n", b'{"traceEvents":['):
        head = (opening + run * readers.HEAD_BYTES)[: readers.HEAD_BYTES]
        begun = time.process_time()
        readers.find(readers.Head(Path("a.csv"), head))
        assert time.process_time() - begun < SECONDS


@pytest.mark.parametrize("blank", [" ", "\n", "\t\n "])
@pytest.mark.parametrize("place", ["head", "event", "arguments", "behind"])
def test_blanks_in_a_trace(tmp_path: Path, place: str, blank: str) -> None:
    places = dict.fromkeys(("head", "event", "arguments", "behind"), "") | {place: blank * (20 * MIB // len(blank))}
    event = EVENT.replace('"device"', places["arguments"] + '"device"')
    text = f'{{"a":1,{places["head"]}"traceEvents":[{EVENT},{places["event"]}{event},{EVENT}]{places["behind"]}}}'
    (tmp_path / "a.json").write_text(text)
    begun = time.process_time()
    (manifest,) = convert(tmp_path / "a.json", tmp_path / "spool", Options())
    assert time.process_time() - begun < 2 * SECONDS
    assert manifest.rows["launches"] == 3


def test_a_long_event_is_not_looked_at_with_each_block(monkeypatch: pytest.MonkeyPatch) -> None:
    looked: list[int] = []
    learn = Boundary.learn
    monkeypatch.setattr(Boundary, "learn", lambda text: looked.append(len(text)) or learn(text))
    blocks = [b'{"traceEvents":[{"name":"', *[b"a" * 1000] * 1000, b'"}]}']
    list(Splitter(iter(blocks), 1000))
    assert sum(looked) < 6 * sum(map(len, blocks))


@pytest.mark.parametrize(
    "opening", ['{"traceEvents":[', f'{{"traceEvents":[{EVENT},', f'{{"traceEvents":[{EVENT},{{"args":']
)
def test_blanks_between_values_are_not_held(opening: str) -> None:
    blocks = [b" " * 1000, *[b"\n \t" * 1000] * 200, b" "]
    splitter = Splitter(iter([opening.encode(), *blocks, EVENT.encode()]), 1000)
    held = [piece.text for piece in splitter] + [splitter.tail]
    assert sum(map(len, held)) < len(opening) + 2000 + 2 * len(EVENT)
    assert held[-1].endswith(EVENT.encode())


def test_many_blank_blocks_in_a_long_event_do_not_have_it_looked_at_anew() -> None:
    inside = b"[" + b'"x\\"[",' * 3000
    blocks = [b'{"traceEvents": [{"ph":"X","args":{', *[b'"k":' + inside, b" " * 10, b"2],"] * 800, b'"z":1}}]}']
    begun = time.process_time()
    list(Splitter(iter(blocks)))
    assert time.process_time() - begun < SECONDS


def test_whether_a_text_ends_in_a_string_is_known_however_it_is_cut() -> None:
    dice = random.Random(7)
    for _ in range(2000):
        text = bytes(dice.choices(b'"\\a, ', k=dice.randrange(30)))
        cuts = sorted(dice.choices(range(len(text) + 1), k=dice.randrange(6)))
        parts = [text[start:end] for start, end in itertools.pairwise([0, *cuts, len(text)])]
        quotes, size = _Quotes(), 0
        for number, part in enumerate(parts, 1):
            size += len(part)
            if number == len(parts) or dice.random() < 0.5:
                open_behind = quotes.open_behind(parts[:number], size)
                assert open_behind is (b'"' in STRING.sub(b"", text[:size])), parts


@pytest.mark.parametrize("inside", ["a", "a,{", "x }  y"])
def test_blanks_in_a_string_are_held(inside: str) -> None:
    opening = f'{{"traceEvents":[{EVENT},{{"name":"{inside}'
    blocks = [f"{opening}x".encode(), *[b" " * 1000] * 50, b'"}]}']
    splitter = Splitter(iter(blocks), 1000)
    assert sum(len(piece.text) for piece in splitter) + len(splitter.tail) > 50_000


@pytest.mark.parametrize("size", [99_000, 101_000])
def test_an_event_without_end_is_refused(monkeypatch: pytest.MonkeyPatch, size: int) -> None:
    monkeypatch.setenv("KERNELDB_MAX_EVENT", "100000")
    blocks = [f'{{"traceEvents":[{EVENT},{{"name":"'.encode(), *[b'\\"' * 500] * (size // 1000)]
    splitter = Splitter(iter(blocks), 1000)
    if size < 100_000:
        list(splitter)
        return
    with pytest.raises(limits.ExceededError, match=r"no event ends within 100,\d+ bytes, more than KERNELDB_MAX_EVENT"):
        list(splitter)


@pytest.mark.parametrize(("most", "lost"), [(repair.MOST_REPAIRED, 0), (100, 1)])
def test_what_no_event_is_as_long_as_is_not_repaired(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, most: int, lost: int
) -> None:
    monkeypatch.setattr(repair, "MOST_REPAIRED", most)
    damaged = EVENT.replace('"k"', '"k \\w "')
    (tmp_path / "a.json").write_text(f'{{"traceEvents":[{EVENT},{damaged},{EVENT}]}}')
    found = convert_file(tmp_path / "a.json", tmp_path / "spool")
    assert (found.launches.height, found.total("lost")) == (3 - lost, lost)


@pytest.mark.parametrize("broken", ['"name":"', "}]", '"\n\n', '"a":"x" ', ",\n"])
def test_what_is_repaired_is_not_sought_without_end(tmp_path: Path, broken: str) -> None:
    (tmp_path / "a.json").write_text(f'{{"traceEvents":[{EVENT},{EVENT},{{"ts": x {broken * 20_000}')
    begun = time.process_time()
    convert(tmp_path / "a.json", tmp_path / "spool", Options())
    assert time.process_time() - begun < 2 * SECONDS


def test_what_an_archive_says_of_itself_is_refused_before_it_is_read(tmp_path: Path) -> None:
    path = tmp_path / "a.zip"
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("a.json", f'{{"traceEvents":[{EVENT}]}}' + " " * 100 * MIB)
    source = Source(path, "a.json")
    with pytest.raises(limits.ExceededError, match="KERNELDB_MAX_RATIO"):
        list(source.blocks())
    assert source.read_bytes == 0


@pytest.mark.parametrize(
    ("printed", "name", "unit"),
    [
        (" Total Time (ns) ", "Total Time", "ns"),
        ("Time(%)", "Time", "%"),
        ("GrdX", "GrdX", None),
        ("Start (a(b)", "Start (a", "b"),
        ("Name (x) y", "Name (x) y", None),
        (f"a{' ' * 10_000}b", f"a{' ' * 10_000}b", None),
    ],
)
def test_names_and_units_of_columns(printed: str, name: str, unit: str | None) -> None:
    assert (sniff.column(printed).name, sniff.column(printed).unit) == (name, unit)
