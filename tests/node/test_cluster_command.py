"""``logwitness cluster`` as a person uses it: a leader killed under load, judged; and ended in every way."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from importlib.metadata import entry_points
from pathlib import Path
from typing import Any

import pytest

from loghistory import RunSource, open_run

COMMAND = [sys.executable, "-c", "from quorumlog.cluster.cli import cluster; cluster(prog_name='logwitness cluster')"]


def judge() -> Callable[[RunSource], dict[str, Any]]:
    """The checker, by name."""
    (found,) = entry_points(group="logwitness.judges", name="history")
    loaded: Callable[[RunSource], dict[str, Any]] = found.load()
    return loaded


def run(directory: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    """Run the command to its end."""
    return subprocess.run(
        [*COMMAND, "-o", str(directory), *arguments], capture_output=True, text=True, timeout=300, check=False
    )


def recorded(directory: Path, *arguments: str) -> RunSource:
    """What a run of the command recorded, which ended well."""
    done = run(directory, *arguments)
    assert done.returncode == 0, done
    return open_run(directory)


def rows(source: RunSource, *kinds: str) -> list[dict[str, Any]]:
    return [row for batch in source.batches(kinds=list(kinds)) for row in batch.to_pylist()]


def test_a_killed_leader_loses_nothing(tmp_path: Path) -> None:
    directory = tmp_path / "run"
    done = run(directory, "--faults", "kill-leader", "--duration", "4", "--seed", "3", "--clients", "8")
    assert done.returncode == 0, done
    assert done.stdout.startswith("seed 3\n")
    assert "all nodes agree" in done.stdout
    assert f"logwitness check {directory}" in done.stdout
    assert [path.name for path in tmp_path.iterdir()] == ["run"]

    source = open_run(directory)
    manifest = source.manifest
    assert manifest is not None
    assert manifest.made_by["seed"] == 3
    assert manifest.made_by["configuration"]["plan"]
    leaders = rows(source, "leader")
    crashes = rows(source, "crash")
    assert crashes
    assert crashes[0]["node"] in {leader["node"] for leader in leaders if leader["seq"] < crashes[0]["seq"]}
    assert len({leader["term"] for leader in leaders}) == len(leaders) >= 2
    assert {start["incarnation"] for start in rows(source, "start")} >= {0, 1}

    # All acks=all appends that were acknowledged are in the final read of every node.
    appended = {row["op"]: row["value"] for row in rows(source, "invoke") if row["f"] == "append" and row["acks"] == -1}
    acknowledged = {appended[row["op"]] for row in rows(source, "ok") if row["op"] in appended}
    assert len(acknowledged) > 50
    final: dict[int, set[int]] = {}
    for row in rows(source, "observe"):
        if row["f"] == "final_read":
            final.setdefault(row["node"], set()).add(row["value"])
    assert sorted(final) == [0, 1, 2]
    for values in final.values():
        assert acknowledged <= values

    verdict = judge()(source)
    assert verdict["verdict"] == "holds", verdict
    assert verdict["exit_status"] == 0


def test_every_fault_at_once_and_write_caching(tmp_path: Path) -> None:
    source = recorded(
        tmp_path / "run", "--duration", "5", "--seed", "4", "--write-caching", "--faults", "kill,stop,cut"
    )
    happened = {row["f"] for row in rows(source, "fault")}
    assert "kill" in happened
    assert "pause" in happened
    assert happened & {"partition", "mute", "deafen"}
    assert judge()(source)["verdict"] == "holds"


def test_logs_trimmed_under_kills_keep_all_promises(tmp_path: Path) -> None:
    directory = tmp_path / "run"
    done = run(directory, "--duration", "6", "--seed", "5", "--retention", "8192", "--faults", "kill,kill-leader")
    assert done.returncode == 0, done
    assert "8192 bytes of log on each node" in done.stdout
    source = open_run(directory)
    assert source.manifest is not None
    assert source.manifest.made_by["configuration"]["retention"] == 8192
    trims = rows(source, "trim")
    assert {trim["node"] for trim in trims} == {0, 1, 2}
    assert all(trim["offset"] <= trim["commit"] + 1 for trim in trims)
    # Somebody was killed after it had trimmed, and began again where its log had begun.
    assert any(start["commit"] >= 0 for start in rows(source, "start"))
    verdict = judge()(source)
    assert verdict["verdict"] == "holds", verdict
    read = [row["offset"] for row in rows(source, "observe") if row["f"] == "final_read"]
    assert min(read) >= min(trim["offset"] for trim in trims) > 0


@pytest.mark.long
def test_members_come_and_go_and_leaders_leave(tmp_path: Path) -> None:
    source = recorded(tmp_path / "run", "--duration", "8", "--seed", "6", "--faults", "members,transfer,kill")
    assert {row["f"] for row in rows(source, "fault")} == {"leave", "transfer", "kill"}
    texts = [row["text"] for row in rows(source, "configuration")]
    assert any(" old " in text for text in texts)
    assert any(" learners " in text for text in texts)
    assert rows(source, "transfer")
    assert judge()(source)["verdict"] == "holds"


@pytest.mark.long
def test_logs_are_compacted_under_load_and_kills(tmp_path: Path) -> None:
    source = recorded(tmp_path / "run", "--duration", "9", "--seed", "2", "--faults", "compact,kill")
    assert {row["f"] for row in rows(source, "fault")} == {"compact", "kill"}
    assert rows(source, "compact")
    verdict = judge()(source)
    assert verdict["verdict"] == "holds", verdict
    judged = {check["id"]: check["judged"] for check in verdict["checks"]}
    assert min(judged["gaps-are-explained"], judged["newest-values-agree"]) > 10


@pytest.mark.long
def test_a_node_whose_disk_is_wiped_is_replaced_by_itself(tmp_path: Path) -> None:
    source = recorded(tmp_path / "run", "--duration", "8", "--seed", "1", "--faults", "wipe,kill")
    (wiped,) = {row["node"] for row in rows(source, "fault") if row["f"] == "wipe"}
    texts = [row["text"] for row in rows(source, "configuration")]
    assert any(f" sessions {wiped}:" in text for text in texts)
    assert judge()(source)["verdict"] == "holds"


def children(process: int) -> list[int]:
    """The processes that a process started."""
    return [int(word) for word in Path(f"/proc/{process}/task/{process}/children").read_text().split()]


def alive(process: int) -> bool:
    """Whether a process is there and no zombie."""
    try:
        return ") Z " not in Path(f"/proc/{process}/stat").read_text()
    except FileNotFoundError:
        return False


def wait(holds: Callable[[], bool], what: str, seconds: float = 10) -> None:
    deadline = time.monotonic() + seconds
    while not holds():
        assert time.monotonic() < deadline, what
        time.sleep(0.05)


@pytest.mark.skipif(sys.platform != "linux", reason="finds the processes in /proc")
@pytest.mark.parametrize(
    ("how", "times"), [(signal.SIGKILL, 1), (signal.SIGINT, 1), (signal.SIGINT, 3), (signal.SIGTERM, 1)]
)
def test_no_process_is_left_behind(how: signal.Signals, times: int, tmp_path: Path) -> None:
    directory = tmp_path / "run"
    command = subprocess.Popen(
        [*COMMAND, "-o", str(directory), "--duration", "60", "--faults", "none", "--clients", "100"],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    try:
        wait(lambda: len(children(command.pid)) == 3, "three nodes")
        work = tmp_path / ".run.work"
        wait(lambda: len(list(work.glob("histories/*.part"))) == 3, "the nodes are up")
        time.sleep(1)
        nodes = children(command.pid)
        assert all(map(alive, nodes))
        os.kill(nodes[0], signal.SIGSTOP)  # one that cannot even notice
        for _ in range(times):
            command.send_signal(how)
            time.sleep(0.02 * (times > 1))
        _, errors = command.communicate(timeout=15)
        wait(lambda: not any(map(alive, nodes)), f"nodes left behind: {nodes}")
    finally:
        command.kill()
        command.wait()
    assert not directory.exists()
    if how == signal.SIGKILL:
        # What was recorded so far is there, readable.
        recorded = open_run(work / "clients.jsonl.part")
        assert rows(recorded, "invoke")
        again = run(directory, "--duration", "1", "--faults", "none")
        assert again.returncode == 2
        assert "left by a run that was killed" in again.stderr
    else:
        assert command.returncode == 130
        assert errors == "interrupted; all nodes are stopped and nothing was written\n"
        assert not work.exists()


def test_an_interruption_while_modules_are_loaded_is_one_line() -> None:
    program = (
        "import os, signal, sys; from importlib import abc; from logwitness.start import main\n"
        "class Interrupting(abc.MetaPathFinder):\n"
        "    def find_spec(self, name, path, target=None):\n"
        "        if name == sys.argv[2]: os.kill(os.getpid(), signal.SIGINT)\n"
        "sys.meta_path.insert(0, Interrupting()); main()"
    )
    for module in ("logwitness.commands", "quorumlog.cluster.supervisor"):
        done = subprocess.run(
            [sys.executable, "-c", program, "cluster", module], capture_output=True, text=True, timeout=300, check=False
        )
        assert (done.returncode, done.stdout, done.stderr) == (130, "", "logwitness: interrupted\n"), module


def test_an_interruption_while_nodes_are_started_leaves_none(tmp_path: Path) -> None:
    for delay in (0.0, 0.02, 0.05):
        command = subprocess.Popen(
            [*COMMAND, "-o", str(tmp_path / "run"), "--duration", "60", "--faults", "none"],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        wait(lambda: any(tmp_path.glob(".run.work/node-*.json")), "the first node is being started")
        time.sleep(delay)
        command.send_signal(signal.SIGINT)
        _, errors = command.communicate(timeout=15)
        assert (command.returncode, errors) == (
            130,
            "interrupted; all nodes are stopped and nothing was written\n",
        ), delay
        assert list(tmp_path.iterdir()) == []


USAGE: dict[str, tuple[list[str], str]] = {
    "an unknown fault": (["--faults", "kill,rain"], "'rain' is unknown"),
    "no fault": (["--faults", ","], "give none"),
    "no node": (["--nodes", "0"], "--nodes"),
    "an unknown protocol": (["--protocol", "chain"], "'chain' is not"),
    "too little to keep": (["--retention", "100"], "--retention"),
    "not a time": (["--duration", "never"], "'never' is not a time"),
    "too long": (["--duration", "2h"], "is not a time"),
}


def test_bad_usage_is_refused(tmp_path: Path) -> None:
    from click.testing import CliRunner

    from quorumlog.cluster.cli import cluster

    for name, (arguments, expected) in USAGE.items():
        done = CliRunner().invoke(cluster, ["-o", str(tmp_path / "run"), *arguments])
        assert done.exit_code == 2, name
        assert expected in done.output, name
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "letter.txt").write_text("dear")
    for options, expected in (([], "already exists"), (["--force"], "holds no run")):
        done = CliRunner().invoke(cluster, ["-o", str(tmp_path / "mine"), *options])
        assert done.exit_code == 2
        assert expected in done.output
    assert (tmp_path / "mine" / "letter.txt").read_text() == "dear"
    file = tmp_path / "file"
    file.write_text("")
    done = CliRunner().invoke(cluster, ["-o", str(file / "run"), "--duration", "1"])
    assert done.exit_code == 2
    assert len(done.output.splitlines()) == 2  # the seed, and what is wrong
    assert json.dumps(str(file))[1:-1] in done.output


@pytest.mark.parametrize(
    ("groups", "more"),
    [(3, ["--duration", "1.5"]), pytest.param(100, ["--set", "election_timeout=4000"], marks=pytest.mark.long)],
    ids=str,
)
def test_several_groups_in_each_process_are_logs_of_their_own(tmp_path: Path, groups: int, more: list[str]) -> None:
    ended = run(tmp_path / "run", "--groups", str(groups), "--faults", "kill-leader", "--seed", "3", *more)
    assert ended.returncode == 0, ended.stderr + ended.stdout
    logs = {str(group) for group in range(groups)}
    assert {row["log"] for row in rows(open_run(tmp_path / "run"), "append", "ok")} == logs
    answer = judge()(open_run(tmp_path / "run"))
    assert answer["verdict"] == "holds", answer
    crashes = rows(open_run(tmp_path / "run"), "crash")
    assert crashes
    assert all(row["log"] is None for row in crashes)  # what ends a process concerns all of them


def test_a_protocol_that_runs_one_group_a_process_says_so(tmp_path: Path) -> None:
    ended = run(tmp_path / "run", "--protocol", "pull-queries", "--groups", "2", "--faults", "none")
    assert ended.returncode == 2
    assert "pull-queries runs one group in each process; leave --groups out" in ended.stderr
