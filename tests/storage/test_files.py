"""Real files: processes that are killed, a disk that is full, locks, and the number of open files."""

from __future__ import annotations

import contextlib
import errno
import os
import resource
import signal
import subprocess
import sys
import textwrap
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from random import Random

import pytest

from quorumlog.storage import (
    BatchKind,
    DiskFull,
    DiskLocked,
    FileDisk,
    FlushFailed,
    Log,
    LogFailed,
    RecordBatch,
    StorageError,
    VoteStore,
)
from quorumlog.storage import files as files_module

DIRECTORY = "log"


def test_what_a_broken_off_replacement_left_goes_at_the_next_opening(tmp_path: Path) -> None:
    disk = FileDisk(tmp_path)
    Log.open(disk, DIRECTORY).close()
    disk.close()
    left = tmp_path / DIRECTORY / "00000000000000000000-1.log.new"
    left.write_bytes(b"half a segment")
    Log.open(FileDisk(tmp_path), DIRECTORY)
    assert not left.exists()


def data(offset: int, term: int = 1, size: int = 20) -> RecordBatch:
    return RecordBatch(offset, term, BatchKind.DATA, 1, -1, offset.to_bytes(8, "big") + bytes(size))


APPENDER = """
    import sys
    from pathlib import Path
    from random import Random
    from quorumlog.storage import BatchKind, FileDisk, Log, RecordBatch, VoteStore

    random = Random(int(sys.argv[2]))
    disk = FileDisk(Path(sys.argv[1]))
    log = Log.open(disk, "log", segment_bytes=4096)
    votes = VoteStore(disk)
    term = max(log.last_term, votes.load()[0]) + 1
    votes.save(term, term % 3)
    print("vote", term, flush=True)
    for _ in range(100_000):
        offset = log.dirty + 1
        batches = []
        for _ in range(random.randint(1, 5)):
            payload = (offset * 1000 + term).to_bytes(8, "big") + random.randbytes(random.randint(0, 300))
            batches.append(RecordBatch(offset, term, BatchKind.DATA, 1, -1, payload))
            offset += 1
        log.append(batches)
        if random.random() < 0.1 and log.dirty > 3:
            print("cut", log.truncate(log.dirty - random.randint(0, 2)), flush=True)
        if random.random() < 0.5:
            log.flush()
            print("flushed", log.flushed, flush=True)
"""


@pytest.mark.slow
def test_what_a_killed_process_reported_as_flushed_is_there(tmp_path: Path) -> None:
    """Appends, truncations and flushes in a process that is killed at random moments, one life after the other."""
    random = Random(20)
    flushed = term = -1
    for life in range(12):
        process = subprocess.Popen(
            [sys.executable, "-c", textwrap.dedent(APPENDER), str(tmp_path), str(life)],
            stdout=subprocess.PIPE,
            text=True,
        )
        try:
            assert process.stdout is not None
            seen = [process.stdout.readline() for _ in range(random.randint(1, 60))]
        finally:
            process.kill()
            rest, _ = process.communicate(timeout=30)
        assert process.returncode == -signal.SIGKILL, "the process ended by itself"
        for line in [*seen, *rest.splitlines(keepends=True)]:
            if line.endswith("\n"):  # the last line may be cut short
                word, number = line.split()
                match word:
                    case "vote":
                        term = int(number)
                    case "cut":
                        flushed = min(flushed, int(number) - 1)
                    case "flushed":
                        flushed = int(number)
        disk = FileDisk(tmp_path)
        log = Log.open(disk, DIRECTORY)
        # The last truncation, of three offsets at most, may have been done and not yet reported.
        assert log.dirty >= flushed - 3
        assert VoteStore(disk).load()[0] in {term, term + 1}
        values = [batch.value for batch in log.read(0, 1 << 30)]
        assert values == [offset * 1000 + log.term(offset) for offset in range(log.dirty + 1)]
        flushed = log.flushed
        disk.close()
    assert flushed > 100
    assert term >= 12


def append_until_full(disk: FileDisk) -> tuple[int, str]:
    """Flushes every batch until there is no room. Returns the last offset flushed and what the log said."""
    log = Log.open(disk, DIRECTORY)
    try:
        for offset in range(log.dirty + 1, 10_000):
            log.append([data(offset, size=1000)])
            log.flush()
    except DiskFull as error:
        with pytest.raises(LogFailed):
            log.append([data(log.dirty + 1)])
        return log.flushed, str(error)
    pytest.fail("the disk was never full")


def test_a_file_size_limit_reads_as_a_full_disk(tmp_path: Path) -> None:
    limit = resource.getrlimit(resource.RLIMIT_FSIZE)
    disk = FileDisk(tmp_path)
    resource.setrlimit(resource.RLIMIT_FSIZE, (100_000, limit[1]))
    try:
        flushed, message = append_until_full(disk)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limit)
    assert 90 < flushed < 100
    assert message.startswith("log/00000000000000000000-1.log: File too large")
    log = Log.open(disk, DIRECTORY)
    assert log.dirty == flushed
    assert log.recovery.bytes_cut == 100_000 - (flushed + 1) * data(0, size=1000).size_bytes
    log.append([data(flushed + 1)])
    log.flush()


@pytest.mark.skipif(not sys.platform.startswith("linux") or os.geteuid() != 0, reason="mounts a small file system")
def test_a_file_system_that_is_full(tmp_path: Path) -> None:
    mount = ["mount", "-t", "tmpfs", "-o", "size=256k", "tmpfs", str(tmp_path)]
    if subprocess.run(mount, capture_output=True, check=False).returncode != 0:
        pytest.skip("this machine does not let one mount")
    disk: FileDisk | None = None
    try:
        disk = FileDisk(tmp_path)
        flushed, message = append_until_full(disk)
        assert "No space left on device" in message
        # It starts on the full disk, reads everything, and knows that it cannot vote.
        log = Log.open(disk, DIRECTORY)
        assert [batch.base_offset for batch in log.read(0, 1 << 30)] == list(range(flushed + 1))
        log.append([data(flushed + 1, size=1)])
        log.close()
        (tmp_path / "ballast").write_bytes(bytes(os.statvfs(tmp_path).f_bavail * os.statvfs(tmp_path).f_bsize))
        with pytest.raises(DiskFull, match="vote: No space left"):
            VoteStore(disk).save(4, 1)
        assert VoteStore(disk).load() == (0, None)
        assert not (tmp_path / "vote.new").exists()
    finally:
        if disk is not None:
            disk.close()
        del disk
        subprocess.run(["umount", "-l", str(tmp_path)], check=True)


def test_a_failing_sync_stops_the_log_and_the_next_one_writes_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    disk = FileDisk(tmp_path)
    log = Log.open(disk, DIRECTORY)
    log.append([data(0), data(1)])
    log.flush()
    log.append([data(2)])
    sync, failures = files_module._sync_data, iter([OSError(errno.EIO, "Input/output error")])

    def failing_once(descriptor: int) -> None:
        for failure in failures:
            raise failure
        sync(descriptor)

    monkeypatch.setattr(files_module, "_sync_data", failing_once)
    with pytest.raises(FlushFailed, match=r"0-1\.log: sync failed: Input/output error"):
        log.flush()
    with pytest.raises(LogFailed, match="sync failed"):
        log.flush_begin()
    log.close()
    written = []
    write = os.pwrite

    def noted(descriptor: int, part: bytes, position: int) -> int:
        written.append((position, bytes(part)))
        return write(descriptor, part, position)

    monkeypatch.setattr(os, "pwrite", noted)
    log = Log.open(disk, DIRECTORY)
    assert (log.dirty, log.flushed, log.recovery.bytes_cut) == (2, 2, 0)
    # Nothing was remembered since the log began: all of it is written once more, in its place.
    whole = b"".join(data(offset).encode() for offset in range(3))
    assert (0, whole) in written
    assert (tmp_path / DIRECTORY / "00000000000000000000-1.log").read_bytes() == whole


def test_no_second_process_opens_the_disk(tmp_path: Path) -> None:
    disk = FileDisk(tmp_path)
    with pytest.raises(DiskLocked, match="another process has it open"):
        FileDisk(tmp_path)
    script = f"from pathlib import Path; from quorumlog.storage import FileDisk; FileDisk(Path({str(tmp_path)!r}))"
    other = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, timeout=60, check=False)
    assert other.returncode == 1
    assert "DiskLocked" in other.stderr
    disk.close()
    FileDisk(tmp_path).close()


def open_files(root: Path) -> int:
    count = 0
    for link in Path("/proc/self/fd").iterdir():
        with contextlib.suppress(OSError):
            count += str(link.readlink()).startswith(str(root))
    return count


NEEDS_PROC = pytest.mark.skipif(not Path("/proc/self/fd").exists(), reason="looks at descriptors in /proc")


@NEEDS_PROC
def test_the_number_of_open_files_is_bounded(tmp_path: Path) -> None:
    disk = FileDisk(tmp_path, max_open_files=4)
    log = Log.open(disk, DIRECTORY, segment_bytes=64)
    log.append([data(offset, term=offset // 2) for offset in range(200)])
    assert open_files(tmp_path) <= 5  # and the lock
    ticket = log.flush_begin()
    log.flush_run(ticket)
    assert log.flush_finish(ticket)
    assert open_files(tmp_path) <= 5
    assert len(log.read(0, 1 << 20)) == 200
    assert open_files(tmp_path) <= 9  # the ticket has its own
    del ticket
    assert open_files(tmp_path) <= 5
    log = Log.open(disk, DIRECTORY, segment_bytes=64)
    assert log.dirty == 199
    assert open_files(tmp_path) <= 5
    disk.close()
    assert open_files(tmp_path) == 0


@NEEDS_PROC
def test_a_file_closed_to_make_room_is_synced_first(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    disk = FileDisk(tmp_path, max_open_files=2)
    synced: list[str] = []
    sync = files_module._sync_data

    def noting(descriptor: int) -> None:
        synced.append(Path(f"/proc/self/fd/{descriptor}").readlink().name)
        sync(descriptor)

    monkeypatch.setattr(files_module, "_sync_data", noting)
    for name in "abcd":
        disk.create(name)
        disk.append(name, b"x")
    assert synced == ["a", "b"]
    for name in "abcd":
        disk.sync(name)
    assert synced == ["a", "b", "c", "d"]
    for name, change in (
        ("a", lambda: disk.append("a", b"y")),
        ("b", lambda: disk.rewrite("b", 0)),
        ("c", lambda: disk.truncate("c", 0)),
    ):
        change()  # the file had been closed with nothing left to sync
        disk.sync(name)
    # A file that this process has not written may still hold what a killed one left unsynced.
    disk.close()
    disk = FileDisk(tmp_path, max_open_files=2)
    disk.sync("a")
    assert synced[4:] == ["a", "b", "c", "a"]


def test_a_flush_in_a_thread_while_the_log_is_appended_to_and_cut(tmp_path: Path) -> None:
    random = Random(3)
    disk = FileDisk(tmp_path, max_open_files=3)
    log = Log.open(disk, DIRECTORY, segment_bytes=2000)
    with ThreadPoolExecutor(1) as thread:
        for _ in range(300):
            log.append([data(log.dirty + 1, term=1 + log.dirty // 50, size=random.randint(0, 200))])
            ticket = log.flush_begin()
            running = thread.submit(log.flush_run, ticket)
            cut = random.random() < 0.2
            if cut:
                log.truncate(max(log.dirty - random.randint(0, 30), 0))
            log.append([data(log.dirty + 1, term=max(log.last_term, 1))])
            running.result(timeout=60)
            assert log.flush_finish(ticket) is not cut
            assert log.flushed <= log.dirty
    dirty, flushed = log.dirty, log.flushed
    assert flushed >= dirty - 1 or cut
    disk.close()
    log = Log.open(FileDisk(tmp_path), DIRECTORY)
    assert log.dirty == dirty
    assert [batch.value for batch in log.read(0, 1 << 30)] == list(range(dirty + 1))


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda disk: disk.read("none", 0, 1), "none: No such file"),
        (lambda disk: disk.remove("log/none"), "log/none: No such file"),
        (lambda disk: disk.create("vote"), "vote: File exists"),
        (lambda disk: disk.list("nowhere"), "nowhere: No such file"),
        (lambda disk: disk.make_directory("vote"), "vote: File exists"),
        (lambda disk: disk.sync("nowhere/at/all"), "nowhere/at/all: No such file"),
    ],
)
def test_errors_of_the_system_name_the_file(tmp_path: Path, call: Callable[[FileDisk], object], message: str) -> None:
    disk = FileDisk(tmp_path)
    disk.create("vote")
    with pytest.raises(StorageError, match=message):
        call(disk)


def test_a_file_is_no_place_for_a_disk(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("here")
    with pytest.raises(StorageError, match="file: File exists"):
        FileDisk(tmp_path / "file")


def names_synced(monkeypatch: pytest.MonkeyPatch, root: Path, act: Callable[[], object]) -> list[str]:
    """The files and directories that are synced while something is done, in order, as paths below ``root``."""
    synced: list[str] = []

    def watched(sync: Callable[[int], None]) -> Callable[[int], None]:
        def watching(descriptor: int) -> None:
            names = {path.stat().st_ino: path for path in (root, *root.rglob("*"))}
            synced.append(str(names[os.fstat(descriptor).st_ino].relative_to(root)))
            sync(descriptor)

        return watching

    with monkeypatch.context() as patched:
        for name in ("fsync", "fdatasync"):
            patched.setattr(os, name, watched(getattr(os, name)))
        act()
    return synced


@pytest.mark.skipif(not hasattr(os, "fdatasync"), reason="there is no fdatasync here")
def test_names_are_synced_where_they_are(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    root = tmp_path / "disk"
    assert names_synced(monkeypatch, tmp_path, lambda: FileDisk(root).close()) == ["disk", "."]
    disk = FileDisk(root)
    assert names_synced(monkeypatch, root, lambda: disk.make_directory("log")) == ["."]
    # First what it holds, under another name; then, under its own name, that name.
    assert names_synced(monkeypatch, root, lambda: disk.replace("log/state", b"1")) == ["log/state.new", "log"]
    assert (root / "log/state").read_bytes() == b"1"

    log = Log.open(FileDisk(tmp_path / "other"), "log", segment_bytes=60)
    other = tmp_path / "other"
    log.append([data(0)])
    assert names_synced(monkeypatch, other, log.flush) == ["log/00000000000000000000-1.log", "log"]
    log.append([data(1), data(2)])
    flushed = names_synced(monkeypatch, other, log.flush)
    assert flushed[-1] == "log"
    assert sorted(flushed[:-1]) == ["log/00000000000000000001-1.log", "log/00000000000000000002-1.log"]
    assert "log" in names_synced(monkeypatch, other, lambda: log.truncate(1))
