"""The worker process: started, written to, read from, watched and ended.

Nothing here waits without a limit of its own if the caller gave one, and no worker outlives its parent: it ends at
the end of its input, it ends when its parent's process is gone (a forked child could hold the pipe open), and it is
killed when it does not keep its limits.
"""

from __future__ import annotations

import contextlib
import os
import selectors
import signal
import subprocess
import tempfile
import time
import weakref
from pathlib import Path
from typing import IO, Final

from linearizability_checker.result import Reason

WORKER: Final = Path(__file__).with_name(f"porcupine-worker{'.exe' if os.name == 'nt' else ''}")
"""Where a wheel and an editable install put the worker."""
_EXIT_MEMORY: Final = 3
"""exitMemory of worker/guard.go."""
_LOOK: Final = 0.05
"""Seconds between two looks at the memory of a worker that works."""
_BLOCK: Final = 1 << 16


class WorkerMissing(RuntimeError):  # noqa: N818 - the name says what is wrong
    """The worker is not there, or cannot be started."""


class WorkerDied(Exception):  # noqa: N818 - see above
    """The worker ended before it answered."""

    def __init__(self, reason: Reason, detail: str) -> None:
        super().__init__(f"the worker ended ({reason}): {detail}")
        self.reason = reason


class Worker:
    """One worker process. Use from one thread at a time."""

    def __init__(self, memory_limit: int | None) -> None:
        if not WORKER.is_file():
            raise WorkerMissing(
                f"the Porcupine worker {WORKER} is missing: install linearizability-checker with pip, "
                "which takes a wheel that has it, or builds it from the sources"
            )
        self._memory_limit = memory_limit
        self._errors: IO[bytes] = tempfile.TemporaryFile()  # noqa: SIM115 - closed with the worker
        try:
            self._process = _start(memory_limit, self._errors)
        except OSError as problem:
            self._errors.close()
            raise WorkerMissing(
                f"the Porcupine worker {WORKER} cannot be started ({problem.strerror or problem}): "
                "if it is damaged, install linearizability-checker again"
            ) from None
        self._owner = os.getpid()
        self._outgoing = bytearray()
        self._incoming = bytearray()
        self._scanned = 0
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._stdin = self._process.stdin.fileno()
        self._stdout = self._process.stdout.fileno()
        os.set_blocking(self._stdin, False)
        os.set_blocking(self._stdout, False)
        self.close = weakref.finalize(self, _end, self._process, self._errors, self._owner)

    @property
    def process_id(self) -> int:
        """The worker's process id in the operating system; it stays the same once the worker has ended."""
        return self._process.pid

    def send(self, line: bytes) -> None:
        """Queue one request; it is written while answers are awaited."""
        self._outgoing += line

    def receive(self, seconds: float | None) -> bytes:
        """The next answer. WorkerDied if there is none within the time, or the worker ends or takes too much memory."""
        if os.getpid() != self._owner:
            raise RuntimeError("this checker was opened by another process: open one in each")
        deadline = None if seconds is None else time.monotonic() + seconds
        with selectors.DefaultSelector() as selector:
            selector.register(self._stdout, selectors.EVENT_READ)
            writing = False
            while True:
                line = self._line()
                if line is not None:
                    return line
                if bool(self._outgoing) != writing:
                    writing = not writing
                    if writing:
                        selector.register(self._stdin, selectors.EVENT_WRITE)
                    else:
                        selector.unregister(self._stdin)
                left = _LOOK if deadline is None else min(_LOOK, deadline - time.monotonic())
                if left <= 0:
                    raise self._killed(Reason.TIMEOUT)
                ready = selector.select(left)
                for key, _ in ready:
                    self._read() if key.fd == self._stdout else self._write()
                if not ready and self._too_large():
                    raise self._killed(Reason.MEMORY)

    def _line(self) -> bytes | None:
        end = self._incoming.find(b"\n", self._scanned)
        if end < 0:
            self._scanned = len(self._incoming)
            return None
        line = bytes(self._incoming[:end])
        del self._incoming[: end + 1]
        self._scanned = 0
        return line

    def _read(self) -> None:
        try:
            block = os.read(self._stdout, _BLOCK)
        except BlockingIOError:
            return
        if not block:
            raise self._died()
        self._incoming += block

    def _write(self) -> None:
        try:
            written = os.write(self._stdin, memoryview(self._outgoing)[:_BLOCK].tobytes())
        except BlockingIOError:
            return
        except BrokenPipeError:
            raise self._died() from None
        del self._outgoing[:written]

    def _too_large(self) -> bool:
        """Whether the worker failed to hold itself to its limit; it has a quarter of slack to notice, this has half."""
        if self._memory_limit is None:
            return False
        try:
            pages = int(Path(f"/proc/{self.process_id}/statm").read_text(encoding="ascii").split()[1])
        except (OSError, ValueError, IndexError):
            return False  # not Linux, or gone: the worker watches itself
        return pages * os.sysconf("SC_PAGE_SIZE") > self._memory_limit + self._memory_limit // 2

    def _killed(self, reason: Reason) -> WorkerDied:
        self.close()
        return WorkerDied(reason, "killed, for it did not keep its limits")

    def _died(self) -> WorkerDied:
        with contextlib.suppress(subprocess.TimeoutExpired):
            self._process.wait(1)
        status = self._process.poll()
        self._errors.seek(0)
        said = self._errors.read(4096).decode(errors="replace").strip().partition("\n")[0]
        self.close()
        if status == _EXIT_MEMORY or "out of memory" in said or "cannot allocate memory" in said:
            return WorkerDied(Reason.MEMORY, "it could not keep its memory limit")
        if status is not None and status < 0:
            return WorkerDied(Reason.WORKER, f"by signal {signal.Signals(-status).name}")
        return WorkerDied(Reason.WORKER, said or f"with exit status {status}")


def _start(memory_limit: int | None, errors: IO[bytes]) -> subprocess.Popen[bytes]:
    command = [str(WORKER), "-parent", str(os.getpid())]
    if memory_limit is not None:
        command += ["-memory-limit", str(memory_limit)]
    environment = {name: text for name, text in os.environ.items() if name not in ("GOMEMLIMIT", "GOGC", "GODEBUG")}
    return subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=errors, bufsize=0, env=environment
    )


def _end(process: subprocess.Popen[bytes], errors: IO[bytes], owner: int) -> None:
    """End a worker at once: whoever closes it wants no more answers."""
    for stream in (process.stdin, process.stdout):
        if stream is not None:
            with contextlib.suppress(OSError):
                stream.close()
    errors.close()
    if os.getpid() == owner:
        process.kill()
        process.wait()
