"""Limits of time and memory, workers that end before their time: unknown, never ok, a hang or an orphan."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

import linearizability_checker.checker
from linearizability_checker import LOG, REGISTER, UNKNOWN, Checker, Operation, Reason, Result, Verdict, process

pytestmark = pytest.mark.slow

EASY = [Operation(0, 0, 1, ("write", 5), None), Operation(1, 2, 3, ("read",), 5)]
WRONG = [Operation(0, 0, 1, ("write", 5), None), Operation(1, 2, 3, ("read",), 6)]
HARD = [Operation(i, 0, None, ("write", i), UNKNOWN) for i in range(60)] + [Operation(99, 1, 2, ("read",), -1)]
"""Every set of the writes can have happened before the read: 2 to the 60."""
HARD_LOG = [Operation(i, 0, None, ("append", i), UNKNOWN) for i in range(60)] + [Operation(99, 1, 2, ("tail",), 61)]
"""Every sequence of the appends can have happened: its states are large and many."""

SMALL = 64 << 20


def _alive(process_id: int) -> bool:
    try:
        return Path(f"/proc/{process_id}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


def _gone_within(seconds: float, process_id: int) -> bool:
    end = time.monotonic() + seconds
    while _alive(process_id):
        if time.monotonic() > end:
            return False
        time.sleep(0.02)
    return True


def _children() -> set[int]:
    found: set[int] = set()
    for task in Path("/proc/self/task").iterdir():
        with contextlib.suppress(FileNotFoundError):  # a thread that ended meanwhile
            found.update(int(word) for word in (task / "children").read_text().split())
    return found


@pytest.fixture(autouse=True)
def no_orphans() -> Iterator[None]:
    before = _children()
    yield
    assert not _children() - before, "a worker outlived its checker"


@pytest.mark.parametrize("explain", [True, False])
def test_timeout(explain: bool) -> None:
    with Checker(timeout=0.3, memory_limit=4 << 30) as checker:
        assert checker.check_operations("register", EASY, explain=explain)
        before = checker.process_id
        start = time.monotonic()
        result = checker.check_operations("register", HARD, explain=explain)
        assert time.monotonic() - start < 5
        assert (result.verdict, result.reason) == (Verdict.UNKNOWN, Reason.TIMEOUT)
        assert not result
        assert checker.check_operations("register", WRONG).verdict == "illegal"
        assert checker.process_id == before, "a timeout does not cost the worker"
        if explain:
            (partition,) = result.partitions
            assert not partition.complete
            assert len(partition.linearizations[0]) == 60
            assert partition.unplaced == (60,)


@pytest.mark.parametrize(("model", "history"), [(REGISTER, HARD), (LOG, HARD_LOG)], ids=["register", "log"])
def test_memory_limit(model: str, history: list[Operation], tmp_path: Path) -> None:
    with Checker(timeout=120, memory_limit=SMALL) as checker:
        page = tmp_path / "page.html"
        result = checker.check_operations(model, history, visualization=page)
        assert (result.verdict, result.reason) == (Verdict.UNKNOWN, Reason.MEMORY)
        assert not result
        if checker.process_id is not None:  # a loaded machine may need the hard way
            peak = Path(f"/proc/{checker.process_id}/status").read_text().partition("VmHWM:")[2].split()[0]
            assert int(peak) * 1024 < 1.5 * SMALL
            assert not result.partitions[0].complete
            assert page.read_text().startswith("<!doctype html>")
        assert checker.check_operations("register", EASY)
        assert checker.check_operations("register", WRONG).verdict == "illegal"


def _on_key(key: str, operations: list[Operation]) -> list[Operation]:
    """The same history, of a register, on a key of a store."""
    words = {"write": "put", "read": "get"}
    return [
        Operation(each.process, each.call, each.return_, (words[each.input[0]], key, *each.input[1:]), each.output)
        for each in operations
    ]


@pytest.mark.parametrize("explain", [True, False])
@pytest.mark.parametrize("memory", [SMALL, 4 << 30])
def test_a_partition_that_is_illegal_is_found_beside_hard_ones(explain: bool, memory: int) -> None:
    hard = [operation for key in ("a", "b", "c", "d") for operation in _on_key(key, HARD)]
    with Checker(timeout=20, memory_limit=memory) as checker:
        start = time.monotonic()
        result = checker.check_operations("key-value", [*hard, *_on_key("z", WRONG)], explain=explain)
        assert result.verdict == "illegal"
        assert time.monotonic() - start < 15
        if explain:
            (partition,) = result.partitions
            assert partition.operations == (len(hard), len(hard) + 1)
            assert partition.unplaced == (len(hard) + 1,)


def test_the_limit_is_of_processor_time() -> None:
    """A worker that is stopped for longer than the limit, as on a busy machine, still comes to its verdict."""

    def pause(worker: int) -> None:
        os.kill(worker, signal.SIGSTOP)
        time.sleep(2)
        os.kill(worker, signal.SIGCONT)

    with Checker(timeout=0.8, memory_limit=4 << 30) as checker:
        start = time.monotonic()
        result = _while_searching(checker, pause)
        assert (result.verdict, result.reason) == (Verdict.UNKNOWN, Reason.TIMEOUT)
        assert time.monotonic() - start > 2.3


def _processor_seconds(process_id: int) -> float:
    fields = Path(f"/proc/{process_id}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def test_partitions_side_by_side_have_the_limit_each(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GOMAXPROCS", "2")
    hard = [operation for key in ("a", "b", "c", "d") for operation in _on_key(key, HARD)]
    with Checker(timeout=1, memory_limit=4 << 30) as checker:
        assert checker.check_operations("key-value", _on_key("z", EASY))
        assert checker.process_id is not None
        before = _processor_seconds(checker.process_id)
        assert checker.check_operations("key-value", hard).reason is Reason.TIMEOUT
        assert _processor_seconds(checker.process_id) - before > 1.9


def test_limits_among_many() -> None:
    with Checker(timeout=0.5, memory_limit=4 << 30) as checker:
        results = list(checker.check_many("register", [EASY, HARD, WRONG, HARD, EASY]))
        assert [r.verdict for r in results] == ["ok", "unknown", "illegal", "unknown", "ok"]
        assert {r.reason for r in results} == {None, Reason.TIMEOUT}
    with Checker(timeout=120, memory_limit=SMALL) as checker:
        results = list(checker.check_many("register", [EASY, HARD, WRONG, EASY]))
        assert [r.verdict for r in results] == ["ok", "unknown", "illegal", "ok"]
        assert results[1].reason is Reason.MEMORY


def _while_searching(checker: Checker, act: Callable[[int], None]) -> Result:
    """Ask a hard question and do something to the worker in the middle of it."""
    assert checker.check_operations("register", EASY)
    process_id = checker.process_id
    assert process_id is not None
    timer = threading.Timer(0.3, act, [process_id])
    timer.start()
    try:
        return checker.check_operations("register", HARD)
    finally:
        timer.join()


def test_worker_killed_in_the_middle() -> None:
    with Checker(timeout=60, memory_limit=4 << 30) as checker:
        result = _while_searching(checker, lambda worker: os.kill(worker, signal.SIGKILL))
        assert (result.verdict, result.reason) == (Verdict.UNKNOWN, Reason.WORKER)
        assert result.partitions == ()
        assert checker.check_operations("register", WRONG).verdict == "illegal"


def test_worker_that_hangs(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(linearizability_checker.checker, "_GRACE", 0.5)
    monkeypatch.setattr(linearizability_checker.checker, "_BUSY", 1)
    with Checker(timeout=0.6, memory_limit=4 << 30) as checker:
        start = time.monotonic()
        result = _while_searching(checker, lambda worker: os.kill(worker, signal.SIGSTOP))
        assert time.monotonic() - start < 5
        assert (result.verdict, result.reason) == (Verdict.UNKNOWN, Reason.TIMEOUT)
        assert checker.check_operations("register", EASY)


def test_worker_that_does_not_keep_its_limit() -> None:
    with Checker(timeout=60, memory_limit=None) as checker:
        assert checker.check_operations("register", EASY)
        worker = checker._worker
        assert worker is not None
        worker._memory_limit = 20 << 20  # which the worker was not told
        result = checker.check_operations("register", HARD)
        assert (result.verdict, result.reason) == (Verdict.UNKNOWN, Reason.MEMORY)
        assert checker.check_operations("register", WRONG).verdict == "illegal"


NO_WORKERS = {
    "cut short": None,
    "no JSON": "read x; echo rubbish; cat >/dev/null",
    "no bytes of a text": r"read x; printf '\377\376\n'; cat >/dev/null",
    "no object": "read x; echo '[1]'; cat >/dev/null",
    "nothing of it": "read x; echo '{}'; cat >/dev/null",
    "unknown letter": """read x; echo '{"verdicts": "x"}'; cat >/dev/null""",
    "more than was asked": """read x; echo '{"verdicts": "ooooooo"}'; cat >/dev/null""",
    "less than was asked": """read x; echo '{"verdicts": ""}'; cat >/dev/null""",
    "gone at once": "exit 7",
}
"""Programs in the worker's place, None: its first million bytes."""


@pytest.mark.parametrize("name", NO_WORKERS)
def test_what_is_no_worker(name: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    script = NO_WORKERS[name]
    false = tmp_path / "worker"
    false.write_bytes(process.WORKER.read_bytes()[:1_000_000] if script is None else f"#!/bin/sh\n{script}\n".encode())
    false.chmod(0o755)
    monkeypatch.setattr(process, "WORKER", false)
    unknown = Result(Verdict.UNKNOWN, Reason.WORKER)
    with Checker(timeout=5) as checker:
        assert checker.check_operations("register", EASY) == unknown
        assert list(checker.check_many("register", [EASY] * 3)) == [unknown] * 3


def test_worker_killed_among_many() -> None:
    with Checker(timeout=1.0, memory_limit=4 << 30) as checker:
        before = _children()
        results = checker.check_many("register", [*[EASY] * 3000, HARD, *[WRONG] * 3000])
        first = next(results)
        (worker,) = _children() - before
        os.kill(worker, signal.SIGKILL)
        verdicts = [first.verdict, *(r.verdict for r in results)]
        assert verdicts == ["ok"] * 3000 + ["unknown"] + ["illegal"] * 3000


def test_many_given_up_half_way() -> None:
    with Checker() as checker:
        results = checker.check_many("register", (EASY for _ in range(10**9)))
        assert next(results)
        results.close()  # type: ignore[attr-defined]


def test_interrupted_question_leaves_no_answer_behind() -> None:
    class StoppedError(Exception):
        pass

    def interrupt(*_: object) -> None:
        raise StoppedError

    with Checker(timeout=60, memory_limit=4 << 30) as checker:
        old = signal.signal(signal.SIGALRM, interrupt)
        try:
            signal.setitimer(signal.ITIMER_REAL, 0.3)
            with pytest.raises(StoppedError):
                checker.check_operations("register", HARD)
        finally:
            signal.setitimer(signal.ITIMER_REAL, 0)
            signal.signal(signal.SIGALRM, old)
        assert checker.check_operations("register", EASY)
        assert checker.check_operations("register", WRONG).verdict == "illegal"


def test_threads_take_turns() -> None:
    wrong: list[str] = []
    with Checker() as checker:

        def ask(history: list[Operation], verdict: str) -> None:
            for _ in range(200):
                got = checker.check_operations("register", history).verdict
                if got != verdict:
                    wrong.append(got)

        threads = [threading.Thread(target=ask, args=pair) for pair in [(EASY, "ok"), (WRONG, "illegal")] * 3]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    assert not wrong


_PARENT = """
import os, sys, time
from linearizability_checker import Checker, Operation, UNKNOWN
checker = Checker(timeout=600, memory_limit=8 << 30)
checker.check_operations("register", [])
print(checker.process_id, flush=True)
if "fork" in sys.argv and os.fork() == 0:
    time.sleep(10)  # holds the worker's standard input open
    os._exit(0)
history = [Operation(i, 0, None, ("write", i), UNKNOWN) for i in range(60)]
checker.check_operations("register", [*history, Operation(99, 1, 2, ("read",), -1)])
"""


@pytest.mark.parametrize("arguments", [[], ["fork"]], ids=["alone", "with a forked child"])
def test_worker_ends_with_its_parent(arguments: list[str]) -> None:
    with subprocess.Popen(
        [sys.executable, "-c", _PARENT, *arguments], stdout=subprocess.PIPE, text=True, start_new_session=True
    ) as parent:
        assert parent.stdout is not None
        try:
            process_id = int(parent.stdout.readline())
            time.sleep(0.3)
            assert _alive(process_id)
            os.kill(parent.pid, signal.SIGKILL)
            assert _gone_within(5, process_id)
        finally:
            os.killpg(parent.pid, signal.SIGKILL)


def test_forked_child_is_told() -> None:
    with Checker() as checker:
        assert checker.check_operations("register", EASY)
        child = os.fork()
        if child == 0:
            try:
                checker.check_operations("register", EASY)
            except RuntimeError as error:
                os._exit(0 if "another process" in str(error) else 1)
            os._exit(2)
        assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
        assert checker.check_operations("register", EASY), "the child has not ended the parent's worker"


def test_history_too_large_to_explain_is_judged_all_the_same() -> None:
    entries = [Operation(0, i, i, ("append", i), i) for i in range(30_000)]
    with Checker(timeout=60, memory_limit=256 << 20) as checker:
        assert checker.check_operations("log", entries)
        entries[20_000].output = 5
        result = checker.check_operations("log", entries)
        assert (result.verdict, result.too_large) == ("illegal", True)
        assert result.partitions[0].linearizations == ()
