"""The one way of text to the terminal of a command: streams that show as escapes what would drive it.

Whatever a command, its libraries or Python itself write to stdout and stderr as text passes `Harmless`: notes,
messages that name files, help, what a shell completes, tracebacks. What kerneldb itself sends to a terminal to drive it
are bytes, written with `control`. Data go to `opened` of this package, as bytes too: exact in files and pipes, and on a
terminal harmless as well. tests/test_foreign_text.py finds what goes another way.
"""

from __future__ import annotations

import codecs
import contextlib
import io
import sys
from typing import TYPE_CHECKING, BinaryIO, Final, cast

from kerneldb.output.text import harmless

if TYPE_CHECKING:
    from collections.abc import Iterator

ERASE_LINE: Final = b"\r\x1b[K"


class Harmless(io.TextIOWrapper):
    """A stream of text over one of bytes. What is written keeps its lines, and loses what drives terminals."""

    def write(self, text: str, /) -> int:
        """Write `text`; its length."""
        super().write(harmless(text))
        return len(text)


@contextlib.contextmanager
def guarded() -> Iterator[None]:
    """Make stdout and stderr harmless for as long as the context lasts."""
    before = sys.stdout, sys.stderr
    guard()
    try:
        yield
    finally:
        for old, new in zip(before, (sys.stdout, sys.stderr), strict=True):
            if new is not old:
                with contextlib.suppress(OSError, ValueError):  # the reader is gone
                    cast("Harmless", new).detach()
        sys.stdout, sys.stderr = before


def guard() -> None:
    """Make stdout and stderr harmless for good, those that are not yet and have bytes below them."""
    for name in ("stdout", "stderr"):
        stream = getattr(sys, name)
        if not isinstance(stream, Harmless) and hasattr(stream, "buffer"):
            stream.flush()
            lines = name == "stderr" or stream.isatty()
            safe = Harmless(stream.buffer, stream.encoding, "backslashreplace", line_buffering=lines)
            setattr(sys, name, safe)


def control(sequence: bytes) -> None:
    """Send a sequence of our own, such as ERASE_LINE, to the terminal on stderr."""
    sys.stderr.flush()
    sys.stderr.buffer.write(sequence)
    sys.stderr.buffer.flush()


def stdout() -> BinaryIO:
    """The bytes of stdout, for data. On a terminal, what is written is made harmless on its way."""
    return cast("BinaryIO", _Shown(sys.stdout.buffer)) if sys.stdout.isatty() else sys.stdout.buffer


def drawn() -> BinaryIO:
    """The bytes of stdout, for lines that are made harmless already, and may have colours."""
    return sys.stdout.buffer


class _Shown(io.RawIOBase):
    """Bytes of UTF-8 on their way to a terminal."""

    def __init__(self, sink: BinaryIO) -> None:
        self._sink = sink
        self._decoder = codecs.getincrementaldecoder("utf-8")("backslashreplace")

    def writable(self) -> bool:
        return True

    def write(self, data: bytes) -> int:  # type: ignore[override]  # as BinaryIO has it
        self._sink.write(harmless(self._decoder.decode(data)).encode("utf-8"))
        return len(data)

    def flush(self) -> None:
        self._sink.flush()
