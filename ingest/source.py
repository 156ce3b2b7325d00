"""Bytes of a trace file, whatever wraps them: plain, gzip or a zip member, told apart by magic bytes, never by name.

Reading and decompressing happen on one background thread, hashing on another, so that parsing need not wait for them.
"""

from __future__ import annotations

import codecs
import contextlib
import functools
import hashlib
import itertools
import lzma
import os
import stat
import zipfile
import zlib
from collections import Counter
from collections.abc import Generator, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Final, cast

from isal import isal_zlib

from kerneldb import limits
from kerneldb.errors import NotATraceError, UnreadableTraceError
from kerneldb.ids import content_id
from kerneldb.ingest.threads import ahead

BLOCK_BYTES: Final = 4 << 20
SLICE_BYTES: Final = 1 << 12
QUEUED_BLOCKS: Final = 4
IsalError = cast("type[Exception]", isal_zlib.error)
GZIP_MAGIC: Final = b"\x1f\x8b"
ZIP_MAGIC: Final = b"PK\x03\x04"
SQLITE_MAGIC: Final = b"SQLite format 3\x00"
UTF16_MARKS: Final = (codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)
ZIP_ERRORS: Final = (OSError, zipfile.BadZipFile, NotImplementedError, RuntimeError, ValueError)
"""What zipfile raises of archives that are damaged, encrypted, or packed in a way that it does not know."""
KINDS: Final = {
    stat.S_IFIFO: "a pipe",
    stat.S_IFSOCK: "a socket",
    stat.S_IFCHR: "a device",
    stat.S_IFBLK: "a device",
    stat.S_IFDIR: "a folder",
}
"""What is no file, by the type in its mode."""


class Source:
    """One logical file: an ordinary file, or one member of a zip archive.

    `sha256` and `decompressed_bytes` are final once `blocks()` is exhausted; `damage` then says why the bytes ended
    early. `odd` counts values that were left empty, by why, each with an example.
    """

    def __init__(self, path: Path, member: str | None = None) -> None:
        self.path = path
        self.member = member
        self.stored_bytes, self.stated_bytes = sizes(path, member)
        self.read_bytes = 0
        self.decompressed_bytes = 0
        self.damage: str | None = None
        self.odd: dict[str, tuple[int, str]] = {}
        self._hash = hashlib.sha256()

    @property
    def label(self) -> str:
        """How messages name this source."""
        return f"{self.path}::{self.member}" if self.member else str(self.path)

    @property
    def stem(self) -> str:
        """A short name for the trace: the file name without the endings that tools add."""
        name = Path(self.member).name if self.member else self.path.name
        for ending in (".gz", ".zip", ".tmp", ".json", ".pt.trace"):
            name = name.removesuffix(ending)
        return name or self.path.name

    @property
    def packed(self) -> bool:
        """Whether its bytes are stored compressed, or inside an archive."""
        with _file_errors(self.path), self.path.open("rb") as file:
            return self.member is not None or file.read(len(GZIP_MAGIC)) == GZIP_MAGIC

    @property
    def sha256(self) -> str:
        """SHA-256 of the decompressed bytes read so far, in hex; of a database, its write-ahead log comes behind it."""
        return self._hash.hexdigest()

    def blocks(self) -> Generator[bytes, None, None]:
        """Yield the decompressed bytes as UTF-8, read ahead on a background thread.

        Close it when leaving early (`contextlib.closing`): the thread would wait for a reader for ever.
        """
        return ahead(self._decoded, QUEUED_BLOCKS)

    def _decoded(self) -> Iterator[bytes]:
        limits.check_ratio(self.stored_bytes, self.stated_bytes)
        with _open(self.path, self.member) as raw:
            blocks = _gathered(self._decompressed(self._raw(raw)))
            yield from _gathered(self._as_utf8(self._hashed(blocks)))

    def _raw(self, file: IO[bytes]) -> Iterator[bytes]:
        try:
            while block := file.read(BLOCK_BYTES):
                self.read_bytes += len(block)
                yield block
        except (zlib.error, lzma.LZMAError, zipfile.BadZipFile, EOFError) as error:
            self.damage = f"the zip member is damaged ({error})"

    def _decompressed(self, raw: Iterator[bytes]) -> Iterator[bytes]:
        first = next(raw, b"")
        stream = itertools.chain((first,), raw)
        plain = self._gunzip(stream) if first.startswith(GZIP_MAGIC) else stream
        for block in plain:
            self.decompressed_bytes += len(block)
            limits.check_ratio(self.stored_bytes, self.decompressed_bytes)
            yield block

    def _hashed(self, blocks: Iterator[bytes]) -> Iterator[bytes]:
        """The blocks; the check sum of long ones is taken on a thread, while the next one is decompressed."""
        is_database, pending = False, list[Future[None]]()
        with ThreadPoolExecutor(1, thread_name_prefix="kerneldb-hash") as beside:
            for number, block in enumerate(blocks):
                is_database |= number == 0 and block.startswith(SQLITE_MAGIC)
                for one in pending:
                    one.result()
                if len(block) < BLOCK_BYTES:
                    self._hash.update(block)
                else:
                    pending = [beside.submit(self._hash.update, block)]
                yield block
        if is_database:
            self._add_log()

    def _add_log(self) -> None:
        """A write-ahead log that was left beside a database holds a part of what is in it."""
        log = self.path.resolve().with_name(self.path.resolve().name + "-wal")
        if not log.is_file():
            return
        with log.open("rb") as file:
            while block := file.read(BLOCK_BYTES):
                self._hash.update(block)

    def _gunzip(self, raw: Iterator[bytes]) -> Iterator[bytes]:
        """Decompress gzip members one after another; a cut or damaged end gives what precedes it and sets `damage`."""
        inflater, inside = isal_zlib.decompressobj(wbits=31), False
        try:
            # Small pieces: a damaged one costs what it holds, and nothing before it.
            for piece in (block[at : at + SLICE_BYTES] for block in raw for at in range(0, len(block), SLICE_BYTES)):
                rest = piece
                while rest and (inside or rest.startswith(GZIP_MAGIC[:1])):
                    yield inflater.decompress(rest)
                    inside = not inflater.eof
                    rest = b"" if inside else inflater.unused_data
                    if not inside:
                        inflater = isal_zlib.decompressobj(wbits=31)
        except IsalError as error:
            self.damage = f"the gzip stream is damaged ({error})"
        if inside and self.damage is None:
            self.damage = "the gzip stream ends early"

    def _as_utf8(self, stream: Iterator[bytes]) -> Iterator[bytes]:
        first = next(stream, b"")
        if first.startswith(codecs.BOM_UTF8):
            first = first[len(codecs.BOM_UTF8) :]
        if not first.startswith(UTF16_MARKS):
            yield from itertools.chain((first,) if first else (), stream)
            return
        decoder = codecs.getincrementaldecoder("utf-16")(errors="replace")
        for block in itertools.chain((first,), stream):
            yield decoder.decode(block).encode()


def _gathered(pieces: Iterator[bytes]) -> Iterator[bytes]:
    """Blocks of at least BLOCK_BYTES: handing a block to another thread costs the same whatever its size."""
    block = bytearray()
    for piece in pieces:
        if not block and len(piece) >= BLOCK_BYTES:
            yield piece
            continue
        block += piece
        if len(block) >= BLOCK_BYTES:
            limits.check_memory()
            yield bytes(block)
            block.clear()
    if block:
        yield bytes(block)


@contextmanager
def _open(path: Path, member: str | None) -> Iterator[IO[bytes]]:
    if member is None:
        with _file_errors(path), path.open("rb") as file:
            yield file
    else:
        with _archive(path) as archive, archive.open(member) as inner:
            yield inner


@contextmanager
def _file_errors(path: Path) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        message = f"{path}: cannot be read ({error}). Check the path and its permissions."
        raise UnreadableTraceError(message) from error


@functools.lru_cache(maxsize=1)
def _opened(path: Path, seen: tuple[int, ...]) -> zipfile.ZipFile:  # noqa: ARG001 (whether it is still the same)
    """The archive that is read: to open it anew for each of its members would take time as the square of their number.

    The one before it is closed when nothing of it is being read any more.
    """
    return zipfile.ZipFile(path)


@contextmanager
def _archive(path: Path) -> Iterator[zipfile.ZipFile]:
    """A zip archive. What it cannot do, when opened or read, is an UnreadableTraceError with the remedy."""
    try:
        seen = path.stat()
        yield _opened(path, (seen.st_dev, seen.st_ino, seen.st_size, seen.st_mtime_ns))
    except ZIP_ERRORS as error:
        message = f"{path}: a zip archive that cannot be read ({error}). Unpack it with its own tool, or copy it again."
        raise UnreadableTraceError(message) from error


def sizes(path: Path, member: str | None = None) -> tuple[int, int]:
    """Bytes on disk (of the file, or of the member as the archive holds it), and what the archive says they become.

    More than is stated is not read of a member; of a file that is no archive nothing is stated (0).
    """
    if member is None:
        return _regular(path).st_size, 0
    with _archive(path) as archive:
        stated = archive.getinfo(member)
        return stated.compress_size, stated.file_size


def _regular(path: Path) -> os.stat_result:
    """The state of a file, which is not opened. Raises UnreadableTraceError for what is none: to open it may wait."""
    if not path.exists():
        raise absent(path, "file")
    with _file_errors(path):
        found = path.stat()
    if not stat.S_ISREG(found.st_mode):
        what = KINDS.get(stat.S_IFMT(found.st_mode), "something else")
        message = f"{path}: this is {what}, and traces are read from files. Write what it gives into a file first."
        raise UnreadableTraceError(message)
    return found


def absent(path: Path, what: str) -> UnreadableTraceError:
    """The error of a path where no `what` is."""
    found = f"a link to what is not there ({path.readlink()})" if path.is_symlink() else f"no such {what}"
    return UnreadableTraceError(f"{path}: {found}. Give a trace file or a folder of traces.")


def _is_trace(member: str) -> bool:
    """Whether a member of an archive may be a trace: JSON, and no shadow file that macOS or an editor left there."""
    hidden = any(part.startswith((".", "__MACOSX")) for part in member.split("/"))
    return member.endswith((".json", ".json.gz")) and not hidden


def sources(path: Path, member: str | None = None) -> list[Source]:
    """The logical files behind `path`: one, or the JSON members of a zip archive, or that `member` of it.

    Raises NotATraceError for an archive with no JSON member, UnreadableTraceError where the file cannot be read.
    """
    _regular(path)
    with path.open("rb") as file:
        magic = file.read(4)
    if magic != ZIP_MAGIC or member is not None:
        return [Source(path, member)]
    with _archive(path) as archive:
        members = [name for name in archive.namelist() if _is_trace(name)]
    if not members:
        message = f"{path}: a zip archive without a .json member. Give the trace files themselves."
        raise NotATraceError(message)
    limits.MEMBERS.check(len(members), "an archive of {} traces")
    if twice := [name for name, n in Counter(members).items() if n > 1]:
        message = f"{path}: several members are called {twice[0]}. Unpack it, and give each trace a name of its own."
        raise UnreadableTraceError(message)
    return [Source(path, name) for name in members]


def stored_sizes(path: Path, member: str | None = None) -> list[int]:
    """Bytes on disk of each logical file behind `path`."""
    return [one.stored_bytes for one in sources(path, member)]


def digest(one: Source) -> str:
    """SHA-256 of all decompressed bytes of a source that was not read yet, in hex."""
    with contextlib.closing(one.blocks()) as blocks:
        for _ in blocks:
            pass
    return one.sha256


def trace_id_of(read: Sequence[Source]) -> str:
    """The trace id of files that were read to their ends: the same whatever their names, order and compression.

    Raises ValueError for a file that was not read: all of them would have the same id.
    """
    unread = [one.label for one in read if one.stored_bytes and not one.decompressed_bytes]
    if unread:
        message = f"{unread[0]} is to be read before its trace has an id"
        raise ValueError(message)
    return content_id("t1", *sorted(one.sha256 for one in read))


def text_of(one: Source) -> bytes:
    """All decompressed bytes of a source. Raises UnreadableTraceError for a damaged archive."""
    with contextlib.closing(one.blocks()) as blocks:
        text = b"".join(blocks)
    require_whole(one)
    return text


def require_whole(one: Source) -> None:
    """Raise UnreadableTraceError where the bytes of a source that was read ended early."""
    if one.damage:
        message = f"{one.label}: {one.damage}. Copy the file again."
        raise UnreadableTraceError(message)


def local_file(one: Source, folder: Path) -> Path:
    """A path with the decompressed bytes, for readers that need a file: the file itself, or a copy in `folder`.

    Reads the source to its end, so that its check sum is known. Raises UnreadableTraceError for a damaged archive.
    """
    if not one.packed:
        digest(one)
        return one.path
    target = folder / one.stem
    with contextlib.closing(one.blocks()) as blocks, target.open("wb") as out:
        for block in blocks:
            out.write(block)
    require_whole(one)
    return target
