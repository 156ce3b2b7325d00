"""One worker process: started with a job, followed by its messages, and ended with everything that it started."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import tempfile
from collections.abc import Sequence
from typing import IO, Final, Self

from kerneldb import codec
from kerneldb.replay import processes
from kerneldb.replay.errors import LINE
from kerneldb.replay.wire.messages import Job, Message, Receiver

EXIT_SECONDS: Final = 10
TAIL_BYTES: Final = 4096
PROFILER_CHATTER: Final = "USDT:"


class WorkerProcess:
    """A worker that does `job`, for as long as the context lasts. `command` gets the descriptor of its pipe added."""

    def __init__(self, command: Sequence[str], job: Job) -> None:
        self._job = job
        self._output: IO[bytes] = tempfile.TemporaryFile()  # noqa: SIM115 (closed with the worker)
        ours, theirs = os.pipe()
        self._receiver = Receiver(ours)
        self.process = subprocess.Popen(  # noqa: S603 (our own interpreter)
            [*command, str(theirs)],
            stdin=subprocess.PIPE,
            stdout=self._output,
            stderr=self._output,
            pass_fds=[theirs],
            start_new_session=True,
            env=processes.environment(),
        )
        os.close(theirs)

    def __enter__(self) -> Self:
        return self

    def begin(self) -> None:
        """Hand over the job."""
        self.write(codec.dump(self._job))
        if not self._job.further:
            self._close_input()

    def __exit__(self, *_: object) -> None:
        if self.process.poll() is None:
            os.killpg(self.process.pid, signal.SIGKILL)
        self.process.wait()
        self._close_input()
        self._receiver.close()
        self._output.close()

    @property
    def ended(self) -> bool:
        """Whether the worker has closed its end of the pipe."""
        return self._receiver.ended

    def next(self, seconds: float) -> Message | None:
        """The next message; None after `seconds` without one, or where the worker `ended`. Raises CodecError."""
        return self._receiver.next(seconds)

    def write(self, text: str) -> None:
        """Write a line to its input; a worker that died is noticed by its closed pipe."""
        assert self.process.stdin is not None  # noqa: S101 (it was asked for)
        with contextlib.suppress(BrokenPipeError):
            self.process.stdin.write(f"{text}\n".encode())
            self.process.stdin.flush()

    def _close_input(self) -> None:
        with contextlib.suppress(BrokenPipeError):
            if self.process.stdin is not None:
                self.process.stdin.close()

    def death(self) -> str:
        """Why the worker has closed its pipe: its signal or exit code, and the last line it wrote."""
        try:
            code = self.process.wait(EXIT_SECONDS)
        except subprocess.TimeoutExpired:
            return "worker closed its pipe and did not end"
        self._output.seek(0, os.SEEK_END)
        self._output.seek(max(0, self._output.tell() - TAIL_BYTES))
        written = self._output.read().decode("utf-8", "replace").splitlines()
        lines = [line for line in written if line.strip() and not line.startswith(PROFILER_CHATTER)]
        cause = f"killed by {signal.Signals(-code).name}" if code < 0 else f"exit code {code}"
        return f"worker {cause}: {codec.printable(lines[-1].strip(), LINE)}" if lines else f"worker {cause}"
