"""The read path in processes of its own: whole runs under faults, and what a process refuses."""

from __future__ import annotations

import asyncio
import contextlib
import subprocess
import sys
from collections.abc import Sequence
from importlib.metadata import entry_points
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner
from omniscient import problems

from loghistory import HybridClock, open_run
from logspec.reading_traces import follow_reading, read_reading_traces
from logspec.toolchain import find_toolchain
from quorumlog.cluster.cli import cluster
from quorumlog.cluster.groups import Groups
from quorumlog.cluster.log_client import Log, UnreachableError
from quorumlog.node.configuration import cluster_key
from quorumlog.node.framing import Hello, Role, frame
from quorumlog.read_path.process.internal import FORM, LOG
from quorumlog.read_path.processes import PathProcesses
from quorumlog.read_path.rules import lsn_of

DRIVE = """
import sys
from pathlib import Path
from quorumlog.read_path import processes
from quorumlog.cluster.cli import cluster
planted = sys.argv.pop(1)
if planted:
    path = Path(planted)
    processes.COMMAND = (sys.executable, str(path))
cluster(prog_name="logwitness cluster")
"""
PLANTED = """
from quorumlog.read_path.mutants import MUTANTS
from quorumlog.read_path.process import process
from quorumlog.read_path.process.__main__ import main
process.make_core = MUTANTS["{mutant}"].make_core
main()
"""

pytestmark = pytest.mark.slow


def play(directory: Path, arguments: Sequence[str], planted: str = "") -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-c", DRIVE, planted, "--protocol", "read-path", "-o", str(directory), *arguments]
    return subprocess.run(command, capture_output=True, text=True, timeout=240, check=False)


def judged(directory: Path) -> dict[str, Any]:
    (judge,) = entry_points(group="logwitness.judges", name="history")
    verdict: dict[str, Any] = judge.load()(open_run(directory))
    return verdict


def refused(directory: Path) -> list[str]:
    """What the specification does not allow of what readers did."""
    traces = read_reading_traces(open_run(directory), directory.name)
    assert traces
    follow_reading(traces, find_toolchain(None, None))
    return [trace.stuck for trace in traces if trace.stuck is not None]


def test_a_run_with_a_shard_wiped_and_a_sequencer_killed_is_recorded_and_holds(tmp_path: Path) -> None:
    directory = tmp_path / "run"
    arguments = ["--nodes", "4", "--faults", "wipe,kill-leader", "--duration", "4", "--seed", "3"]
    done = play(directory, [*arguments, "--set", "rebuild_after=0.4"])
    assert done.returncode == 0, done
    assert done.stdout.startswith("seed 3\n")
    assert "all nodes agree" in done.stdout
    assert [path.name for path in tmp_path.iterdir()] == ["run"]
    verdict = judged(directory)
    assert verdict["verdict"] == "holds", verdict
    events = [event for batch in open_run(directory).batches() for event in batch.to_pylist()]
    assert list(problems(events)) == []
    facts = {check["id"]: check["judged"] for check in verdict["checks"]}
    for check in ("tiling", "record-as-appended", "released-only", "replication-property-holds"):
        assert facts[check] > 100, check
    kinds, reasons = ({event[name] for event in events} for name in ("kind", "reason"))
    assert {"crash", "nodeset", "event_log", "recover", "seal", "ship", "stream_rewind", "stream_gap", "stop"} <= kinds
    assert {"intact", "lost"} <= reasons
    assert refused(directory) == []


def test_a_planted_fault_is_noticed(tmp_path: Path) -> None:
    """Shards send what is not released."""
    planted = tmp_path / "planted.py"
    planted.write_text(PLANTED.format(mutant="release-ignored"))
    directory = tmp_path / "run"
    done = play(directory, ["--nodes", "3", "--faults", "none", "--duration", "1", "--seed", "1"], str(planted))
    assert done.returncode == 0, done
    assert judged(directory)["verdict"] == "violated"


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["--retention", "8192"], "leave out --write-caching and --retention"),
        (["--set", "reader=1"], "the options are sequencers, readers, brokers"),
        (["--nodes", "2", "--set", 'replication={"NODE":3}'], "needs more shards than a nodeset has"),
        (["--set", 'replication={"PLANET":1}'], "scope 'PLANET' is unknown"),
        (["--set", "readers=0"], "give at least 1 of sequencers, readers and brokers"),
        (["--faults", "rot"], "'rot' is unknown"),
    ],
)
def test_what_cannot_be_run_is_refused_with_one_line(arguments: list[str], said: str, tmp_path: Path) -> None:
    done = CliRunner().invoke(cluster, ["--protocol", "read-path", "-o", str(tmp_path / "run"), *arguments])
    assert done.exit_code == 2, done.output
    assert said in done.stderr.splitlines()[-1]
    assert list(tmp_path.iterdir()) == []


def test_what_was_acknowledged_outlives_sigkill_and_strangers_are_refused(tmp_path: Path) -> None:
    """One shard, so that nobody else has the records; a damaged frame and an append that is too large do no harm."""

    async def body() -> None:
        async with Groups(tmp_path / "logs", [LOG], 1, 1) as groups:
            (tmp_path / "processes").mkdir()
            processes = PathProcesses(
                tmp_path / "processes",
                name="test",
                locations={0: ("R", "C", "W", "K", "N0")},
                sequencers=1,
                readers=1,
                internal=groups.places[LOG],
                settings={"replication": {"NODE": 1}},
            )
            async with processes:
                sequencer = await processes.client(1)
                for number in range(1, 41):
                    assert (await sequencer.append_record(number.to_bytes(8, "big"))).lsn == lsn_of(1, number)
                await processes.kill(0)
                await processes.start(0)
                await processes.wait_for(0)
                await junk(processes, 0)
                refused = (await sequencer.append_record(bytes(1 << 20))).refused
                assert refused is not None
                assert "a payload may have" in refused
                reader = await processes.client(2)
                await reader.start_reading(1, lsn_of(1, 1), lsn_of(1, 40))
                values: list[int] = []
                while not (taken := await reader.take(1, 7)).ended:  # it has all before it takes them all
                    values += [int.from_bytes(payload, "big") for _, payload in taken.records]
                    assert taken.gap is None
                    await asyncio.sleep(0.01)
                assert values == [*range(1, 41)]
                sequencer.close()
                await processes.kill(1)
                await processes.start(1)
                await processes.wait_for(1)
                sequencer = await processes.client(1)
                async with asyncio.timeout(10):  # its records in the log that all follow are not those of its last life
                    assert (await sequencer.append_record(bytes(8))).lsn == lsn_of(2, 1)
                sequencer.close()
                reader.close()
        said = (tmp_path / "processes" / "node-0.stderr").read_text()
        assert "not a message of this protocol" in said
        assert "it belongs to another cluster" in said

    asyncio.run(asyncio.wait_for(body(), 60))


def test_calls_at_the_same_time_find_who_leads(tmp_path: Path) -> None:
    """What one call learns of the leader is not lost to another one that is still connecting elsewhere."""

    async def follow(log: Log) -> None:
        while True:
            with contextlib.suppress(UnreachableError):
                await log.read(0, 100)
            await asyncio.sleep(0.01)

    async def catch_up(log: Log) -> None:
        while True:
            try:
                await log.read_index()
            except UnreachableError:
                await asyncio.sleep(0.01)
            else:
                return

    async def body() -> None:
        async with Groups(tmp_path / "logs", [LOG], 3, 1) as groups:
            logs = [Log(LOG, FORM, groups.places[LOG], HybridClock()) for _ in range(30)]
            following = [asyncio.create_task(follow(log)) for log in logs]
            async with asyncio.timeout(15):
                await asyncio.gather(*map(catch_up, logs))
            for task in following:
                task.cancel()
            await asyncio.wait(following)
            for log in logs:
                log.close()

    asyncio.run(asyncio.wait_for(body(), 60))


async def junk(processes: PathProcesses, node: int) -> None:
    """Say what is no message as a sequencer, and hello as another cluster."""
    host, port = processes.addresses[node]
    for hello, rest in (
        (Hello(Role.NODE, 1, cluster_key("test")), frame(bytes(12) + b"\xc1")),
        (Hello(Role.NODE, 1, cluster_key("other")), b""),
    ):
        reader, writer = await asyncio.open_connection(host, port)
        writer.write(hello.encode() + rest)
        while await reader.read(1 << 12):
            pass  # it closes the connection
        writer.close()


@pytest.mark.long
@pytest.mark.parametrize(
    "faults", ["power,disk,damage", "cut-reader,kill-broker,kill,memory", "power,wipe,cut-reader,kill-leader"]
)
def test_disks_that_fail_and_readers_that_hear_half_of_the_shards(faults: str, tmp_path: Path) -> None:
    directory = tmp_path / "run"
    arguments = ["--nodes", "5", "--faults", faults, "--duration", "8", "--seed", "11"]
    done = play(directory, [*arguments, "--set", "brokers=3", "--set", "rebuild_after=0.5"])
    assert done.returncode == 0, done
    assert judged(directory)["verdict"] == "holds"
    assert refused(directory) == []


@pytest.mark.long
def test_a_wiped_shard_that_answers_is_accused_and_refused_by_the_specification(tmp_path: Path) -> None:
    """Other copies are there: nothing is lost yet."""
    planted = tmp_path / "planted.py"
    planted.write_text(PLANTED.format(mutant="wiped-shard-answers"))
    directory = tmp_path / "run"
    arguments = ["--nodes", "4", "--faults", "wipe", "--duration", "4", "--seed", "3"]
    done = play(directory, [*arguments, "--set", "rebuild_after=30"], str(planted))
    assert done.returncode == 0, done
    assert {each["id"]: each["verdict"] for each in judged(directory)["checks"]}["lost-data-refuses"] == "violated"
    assert any("its data is lost" in said for said in refused(directory))


@pytest.mark.long
@pytest.mark.timeout(900)
@pytest.mark.parametrize("seed", range(4))
def test_every_fault_at_once_and_a_group_of_three_keeps_the_log(seed: int, tmp_path: Path) -> None:
    directory = tmp_path / "run"
    faults = "kill,kill-leader,wipe,drain,slow,stop,terminate,cut"
    arguments = ["--nodes", "6", "--faults", faults, "--duration", "30", "--seed", str(seed)]
    for option in ("brokers=3", "readers=2", "spare=1", "nodeset_changes=0.5"):
        arguments += ["--set", option]
    done = play(directory, arguments)
    assert done.returncode == 0, done
    assert judged(directory)["verdict"] == "holds"
    assert refused(directory) == []
