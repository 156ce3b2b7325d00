"""Reading ahead: it stops with its reader, passes errors on, and takes gzip as files have it."""

from __future__ import annotations

import gzip
import hashlib
import itertools
import threading
import time
from types import SimpleNamespace
from typing import TYPE_CHECKING

import msgspec
import pytest

from kerneldb.errors import UnreadableTraceError
from kerneldb.ingest import source, threads
from kerneldb.ingest.pytorch import split
from kerneldb.ingest.pytorch.split import Splitter
from kerneldb.ingest.source import Source, sources
from kerneldb.ingest.threads import ahead
from tests.ingest.conversion import outcome

if TYPE_CHECKING:
    import re
    from collections.abc import Iterator
    from pathlib import Path


def readers() -> list[threading.Thread]:
    return [thread for thread in threading.enumerate() if thread.name.startswith("kerneldb-ahead")]


def test_leaving_early_stops_the_thread() -> None:
    produced = itertools.count()

    def endless() -> Iterator[bytes]:
        for _ in produced:
            yield b"x"

    blocks = ahead(endless, source.QUEUED_BLOCKS)
    assert next(blocks) == b"x"
    assert len(readers()) == 1
    blocks.close()
    assert readers() == []
    after = next(produced)
    time.sleep(0.02)
    assert next(produced) == after + 1, "nothing reads on"


def test_reading_ahead_is_bounded() -> None:
    produced = itertools.count()

    def endless() -> Iterator[bytes]:
        for _ in produced:
            yield b"x"

    blocks = ahead(endless, source.QUEUED_BLOCKS)
    next(blocks)
    time.sleep(0.05)
    blocks.close()
    assert next(produced) <= source.QUEUED_BLOCKS + 3


def test_a_consumer_that_fails_stops_the_thread(tmp_path: Path) -> None:
    path = tmp_path / "trace.json"
    path.write_bytes(b"{}" * 100)

    def consume() -> None:
        for _ in Source(path).blocks():
            message = "enough"
            raise ValueError(message)

    with pytest.raises(ValueError, match="enough"):
        consume()
    assert readers() == []


@pytest.mark.parametrize("error", [OSError("disk gone"), UnreadableTraceError("no access")])
def test_errors_reach_the_consumer_behind_the_blocks(error: Exception) -> None:
    def failing() -> Iterator[bytes]:
        yield b"one"
        raise error

    blocks = ahead(failing, 4)
    assert next(blocks) == b"one"
    with pytest.raises(type(error), match=str(error)):
        next(blocks)
    assert readers() == []


def test_unexpected_errors_reach_the_consumer_too() -> None:
    """Else the consumer would wait for ever."""

    def failing() -> Iterator[bytes]:
        yield b"one"
        message = "a bug"
        raise RuntimeError(message)

    assert isinstance(outcome(lambda: list(ahead(failing, 4))), RuntimeError)


def test_missing_file_while_reading(tmp_path: Path) -> None:
    path = tmp_path / "trace.json"
    path.write_bytes(b"{}")
    one = Source(path)
    path.unlink()
    with pytest.raises(UnreadableTraceError, match="cannot be read"):
        list(one.blocks())


def read(path: Path) -> tuple[bytes, Source]:
    (one,) = sources(path)
    return b"".join(one.blocks()), one


@pytest.mark.parametrize("block", [7, 100, 1 << 20])
@pytest.mark.parametrize("parts", [1, 2, 5])
def test_gzip_members(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, parts: int, block: int) -> None:
    monkeypatch.setattr(source, "BLOCK_BYTES", block)
    text = b"".join(b"%d," % number for number in range(400))
    length = len(text) // parts + 1
    path = tmp_path / "trace.json"
    path.write_bytes(b"".join(gzip.compress(text[start : start + length]) for start in range(0, len(text), length)))
    found, one = read(path)
    assert found == text
    assert one.damage is None
    assert one.sha256 == hashlib.sha256(text).hexdigest()
    assert (one.decompressed_bytes, one.read_bytes) == (len(text), path.stat().st_size)


def test_cut_second_member(tmp_path: Path) -> None:
    path = tmp_path / "trace.json.gz"
    path.write_bytes(gzip.compress(b"first") + gzip.compress(b"second" * 100)[:-12])
    found, one = read(path)
    assert found.startswith(b"first")
    assert one.damage == "the gzip stream ends early"


@pytest.mark.parametrize("length", [1, 5, 12])
def test_cut_within_the_header(tmp_path: Path, length: int) -> None:
    path = tmp_path / "trace.json.gz"
    path.write_bytes(gzip.compress(b"text" * 100) + gzip.compress(b"more")[:length])
    found, one = read(path)
    assert found.startswith(b"text" * 100)
    assert one.damage == "the gzip stream ends early"


def test_a_plain_file_that_begins_like_no_archive(tmp_path: Path) -> None:
    path = tmp_path / "trace.json.gz"
    path.write_bytes(b"PK is not an archive")
    found, one = read(path)
    assert (found, one.damage) == (b"PK is not an archive", None)


def test_names_in_messages(tmp_path: Path) -> None:
    path = tmp_path / "trace.json"
    path.write_bytes(b"{}")
    assert sources(path)[0].label == str(path)


def test_utf16_with_a_split_character(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(source, "BLOCK_BYTES", 3)
    path = tmp_path / "trace.json"
    path.write_bytes('{"a": "模型🚀"}'.encode("utf-16"))
    assert read(path)[0].decode() == '{"a": "模型🚀"}'


@pytest.mark.parametrize("packed", [False, True])
def test_the_check_sum_is_that_of_all_bytes_in_order(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, packed: bool
) -> None:
    """Blocks are hashed beside their reader, and a short last one by it."""
    monkeypatch.setattr(source, "BLOCK_BYTES", 1000)
    content = b"\xef\xbb\xbf" + b"".join(b"%d," % number for number in range(10_000))
    path = tmp_path / "trace.json"
    path.write_bytes(gzip.compress(content) if packed else content)
    read_whole = Source(path)
    assert b"".join(read_whole.blocks()) == content[3:]
    assert read_whole.sha256 == hashlib.sha256(content).hexdigest()


def test_the_end_waits_for_no_poll(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Small files are many: waiting out a poll at each end would cost more than reading them."""
    monkeypatch.setattr(threads, "POLL_SECONDS", 3600.0)
    path = tmp_path / "trace.json"
    path.write_bytes(b"{}" * 1000)
    found: list[bytes] = []
    reader = threading.Thread(target=lambda: found.extend(Source(path).blocks()), daemon=True)
    reader.start()
    reader.join(60)
    assert not reader.is_alive()
    assert len(found) == 1


def test_a_long_head_in_small_blocks_is_searched_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """A big JSON file without events must not be searched from its start for every block of it."""
    searched: list[int] = []
    search = split.EVENTS_KEY.finditer

    def counting(text: bytearray, begins: int) -> Iterator[re.Match[bytes]]:
        searched.append(len(text) - begins)
        return search(text, begins)

    monkeypatch.setattr(split, "EVENTS_KEY", SimpleNamespace(finditer=counting))
    text = b'{"weights": [' + b"1234567," * (1 << 17)
    splitter = Splitter(iter([text[start : start + 4096] for start in range(0, len(text), 4096)]))
    assert splitter.head is None
    assert len(text) <= sum(searched) < 1.1 * len(text)


@pytest.mark.parametrize("size", [4096, 1 << 20])
def test_many_traces_inside_the_metadata_are_read_once(monkeypatch: pytest.MonkeyPatch, size: int) -> None:
    """Else a file of a megabyte takes minutes: what is before each of them was read again."""
    proven: list[int] = []
    decode = msgspec.json.decode

    def counting(text: bytes, *, type: object) -> object:  # noqa: A002 (the name that msgspec gives it)
        proven.append(len(text))
        return decode(text, type=type)

    monkeypatch.setattr(msgspec.json, "decode", counting)
    head = b'{"own": [%b], ' % b", ".join([b'{"a": "]}", "traceEvents": [{"b": [1]}]}'] * 2000)
    text = head + b'"traceEvents": [{"ph": "X"}]}'
    splitter = Splitter(iter([text[start : start + size] for start in range(0, len(text), size)]))
    assert splitter.head == head
    assert len(head) * 0.9 < sum(proven) < 2 * len(head)


def test_the_events_key_may_lie_across_blocks() -> None:
    text = b'{"a": 1,\n "traceEvents"  :  [ {"ph": "X"} ]}'
    for size in range(1, len(text)):
        splitter = Splitter(iter([text[start : start + size] for start in range(0, len(text), size)]))
        assert splitter.head == b'{"a": 1,\n '
        assert list(splitter) == []
        assert splitter.tail.replace(b" ", b"") == b'{"ph":"X"}]}', "blanks between values are nothing"


@pytest.mark.parametrize("before", ["a,", "{", 'say: \\"b\\" [', ""])
def test_blanks_of_a_name_are_kept_and_those_between_values_are_not(before: str) -> None:
    name = f"{before}{' ' * 64}b"
    between = b"," + b" " * 4096
    events = [b'{"ph":"X","name":"%b"}' % name.encode()] * 3
    text = b'{"traceEvents":[' + between.join(events) + b"]}"
    for size in (1, 7, 16):
        splitter = Splitter(iter([text[start : start + size] for start in range(0, len(text), size)]))
        found = b"".join(piece.text[: piece.end] for piece in splitter) + splitter.tail
        assert found.count(b'"name":"%b"' % name.encode()) == 3
        assert len(found) < 4096


def test_progress_reaches_the_size_of_the_file(tmp_path: Path) -> None:
    path = tmp_path / "trace.json"
    path.write_bytes(gzip.compress(b"text" * 10_000))
    _, one = read(path)
    assert one.read_bytes == one.stored_bytes == path.stat().st_size
