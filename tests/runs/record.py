"""Makes the recorded runs of `histories/runs` that do not exist yet: good ones, and one of every mutant of what counts.

    python tests/runs/record.py [NAME...]

A run that is there is never made again: whatever was recorded once must stay readable by every later version. To
replace one on purpose, remove its directory first. The manifest holds how the run was made and the verdict expected of
every check; what is written there is what the checker says today, so read it before it is committed.
"""

from __future__ import annotations

import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable, Sequence
from functools import partial
from itertools import product
from pathlib import Path
from typing import Any

from msgspec.structs import replace

from loghistory import Format, Manifest, open_run, write_run
from loghistory.schema import CLIENT_KINDS
from quorumlog.durations import MILLISECOND, SECOND
from quorumlog.hunting.hunt import hunt
from quorumlog.hunting.judge import Candidate, Rejection, judge_run, load_judge
from quorumlog.hunting.shrinking import shrunk
from quorumlog.protocol import Mutant, Protocol
from quorumlog.pull_queries.protocol import PROTOCOL as PULL_QUERIES
from quorumlog.raft.mutants import compaction, offsets
from quorumlog.raft.protocol import PROTOCOL as RAFT
from quorumlog.raft.settings import SETTINGS, RaftConfiguration
from quorumlog.read_path.protocol import PROTOCOL as READ_PATH
from quorumlog.simulation.runs import made_by

RUNS = Path(__file__).resolve().parents[2] / "histories" / "runs"
SEEDS = 2000


def keep(name: str, table: Any, made: dict[str, Any], notes: list[str], format: Format = Format.ZSTD) -> None:  # noqa: A002, ANN401
    """Write a run with the verdicts that the checker gives it now."""
    with tempfile.TemporaryDirectory() as scratch:
        draft = Path(scratch) / Path(name).name
        manifest = Manifest(name=Path(name).name, made_by=made, notes=notes)
        write_run(draft, table, manifest, format)
        answer = load_judge()(open_run(draft))
        said = {check["id"]: check["verdict"] for check in answer["checks"]}
        manifest.expected = {id_: verdict for id_, verdict in said.items() if verdict != "unexercised"}
    write_run(RUNS / name, table, manifest, format)
    violated = [check for check, verdict in manifest.expected.items() if verdict == "violated"]
    print(f"{name}: {len(table):,} events; violated: {', '.join(violated) or 'none'}")


def reference(
    seed: int,
    setting: str,
    format: Format = Format.ZSTD,  # noqa: A002
    protocol: Protocol = RAFT,
    **changes: Any,  # noqa: ANN401
) -> Callable[[str], None]:
    """A run of the reference under a setting, shortened."""

    def make(name: str) -> None:
        configuration = replace(protocol.settings[setting], **({"duration": SECOND} | changes))
        table, outcome = protocol.simulate(seed, configuration)
        assert outcome.converged
        made = made_by(protocol.name, seed, configuration)
        keep(name, table, made, [f"The reference under the setting {setting}."], format)

    return make


def clients_only(seed: int) -> Callable[[str], None]:
    """The same run as an outsider would have seen it: what clients asked and were told, nothing else."""

    def make(name: str) -> None:
        configuration = replace(SETTINGS["leaders-fall"], duration=SECOND)
        table, _ = RAFT.simulate(seed, configuration)
        seen = table.filter([kind in CLIENT_KINDS for kind in table["kind"].to_pylist()])
        keep(name, seen, made_by("raft", seed, configuration), ["Client operations only: a black-box run."])

    return make


def shortened(mutant: Mutant, found: Rejection) -> tuple[Rejection, RaftConfiguration]:
    """The rejection with as little load as still shows it."""
    configuration = found.configuration
    for duration in (300 * MILLISECOND, 600 * MILLISECOND, 1000 * MILLISECOND, 1500 * MILLISECOND, 2 * SECOND):
        if duration < configuration.duration:
            shorter = replace(configuration, duration=duration)
            rejections = judge_run(Candidate("raft", mutant.id), found.seed, found.setting, shorter).rejections
            if rejections:
                return rejections[0], shorter
    return found, configuration


def mutant_run(mutant: Mutant) -> Callable[[str], None]:
    """The first seed at which a mutant is caught, with as few faults and as little load as still show it."""

    def make(name: str) -> None:
        candidate = Candidate("raft", mutant.id)
        found = hunt(candidate, range(SEEDS))
        if found is None:
            raise SystemExit(f"{mutant.id} survived {SEEDS} seeds")
        found, configuration = shortened(mutant, shrunk(candidate, found))
        table, _ = RAFT.mutated(mutant.id).simulate(found.seed, configuration)
        keep(
            name,
            table,
            made_by("raft", found.seed, configuration, mutant.id),
            [f"Mutant: {mutant.change}."],
        )

    return make


def shortest_run(
    mutant: Mutant,
    protocol: Protocol,
    durations: Sequence[int | None] = (1500, 2000, 3000, 4500, 6000, None),
    settle: int = SECOND,
) -> Callable[[str], None]:
    """The shortest run, under the setting that it names, in which a mutant is caught; durations in milliseconds."""

    def make(name: str) -> None:
        candidate = Candidate(protocol.name, mutant.id)
        for duration, seed in product(durations, range(8)):
            configuration = replace(candidate.configuration(seed), settle=settle)
            if duration is not None:
                configuration = replace(configuration, duration=duration * MILLISECOND)
            rejections = judge_run(candidate, seed, mutant.setting, configuration).rejections
            if rejections:
                configuration = replace(configuration, plan=rejections[0].configuration.plan)
                table, _ = candidate.played.simulate(seed, configuration, candidate.make_core)
                made = made_by(protocol.name, seed, configuration, mutant.id)
                keep(name, table, made, [f"Mutant: {mutant.change}."])
                return
        raise SystemExit(f"{mutant.id} survived")

    return make


def cluster(*arguments: str) -> Callable[[str], None]:
    """A run of real processes."""

    def make(name: str) -> None:
        scratch = Path(tempfile.mkdtemp())
        command = ["cluster", *arguments]
        program = Path(sys.executable).with_name("logwitness")
        subprocess.run([program, *command, "-o", scratch / name], check=True, stdout=subprocess.DEVNULL)
        source = open_run(scratch / name)
        assert source.manifest is not None
        made = {**source.manifest.made_by, "command": ["logwitness", *command]}  # wherever it was written to
        keep(name, source.table(), made, ["Real processes on one machine."])
        shutil.rmtree(scratch)

    return make


servers = partial(cluster, "--protocol", "pull-queries")
"""A run of real servers."""

CHOSEN = {
    "stale-answers": (0, 1800),
    "losses": (5, 1000),  # a loss at the edge of an epoch, and grace periods
    "late-rewinds": (3, 1500),  # losses in the middle of one
    "failover": (2, 1200),  # holes, and two recoveries
    "slow": (1, 1500),  # a shard that is passed over
    "left-behind": (0, 1700),
    "taken-over": (0, 1300),
    "all-lost": (0, 1000),
    "late-answers": (0, 1000),
    "asleep": (0, 1600),
    "two-away": (0, 900),
    "two-donors": (0, 1300),
    "half-amended": (0, 1000),
    "drain-given-up": (0, 2100),
    "drained-unheard": (0, 1700),
    "slow-disks": (0, 1500),
    "read-while-drained": (2, 1300),
    "away-then-donated": (0, 2100),
    "lost-in-turn": (0, 2000),
    "said-in-pieces": (0, 1100),
    "long-grace": (0, 2500),
    "back-without": (0, 1300),
    "asleep-and-lost": (0, 2500),
    "short-of-memory": (4, 700),
    "late-first-statuses": (0, 1500),
    "long-on-its-way": (6, 700),
    "overtaken-by-a-loss": (0, 1000),
    "overtaken-unheard": (1, 1000),
    "trimmed-elsewhere": (0, 800),
}
"""The seeds of runs of the read path that show what others do not, and how long they last, in milliseconds."""

RECORDINGS: dict[str, Callable[[str], None]] = {
    "raft/reference-default": reference(1, "default"),
    "raft/reference-leaders-fall": reference(2, "leaders-fall"),
    "raft/reference-five-nodes": reference(3, "five-nodes"),
    "raft/reference-lost-power": reference(4, "lost-power"),
    "raft/reference-reads": reference(10, "clocks-drift"),
    "raft/reference-write-caching": reference(5, "lost-power", write_caching=True),
    "raft/reference-snapshots": reference(10, "snapshots"),
    "raft/reference-members": reference(16, "snapshots"),  # who joins installs one, which brings the members
    "raft/reference-compacted": reference(1, "compacted"),
    "raft/reference-jsonl": reference(6, "default", Format.JSON_LINES, duration=200 * MILLISECOND),
    "raft/reference-parquet": reference(7, "default", Format.PARQUET, duration=200 * MILLISECOND),
    "raft/reference-little-memory": reference(11, "little-memory"),
    "raft/reference-messages": reference(8, "default", messages=True, duration=400 * MILLISECOND),
    "raft/clients-only": clients_only(9),
    "raft/cluster-kill-leader": cluster("--duration", "3", "--seed", "11", "--faults", "kill-leader"),
    "raft/cluster-all-faults": cluster("--duration", "4", "--seed", "12"),
    "raft/cluster-snapshots": cluster("--duration", "4", "--seed", "13", "--faults", "kill", "--retention", "4096"),
    "raft/cluster-members": cluster("--duration", "4", "--seed", "14", "--faults", "members,transfer"),
    **{f"raft/mutant-{mutant.id}": mutant_run(mutant) for mutant in (*offsets.MUTANTS, *compaction.MUTANTS)},
    "raft/mutant-pending-forgotten-at-step-down": mutant_run(RAFT.mutants["pending-forgotten-at-step-down"]),
    **{
        f"pull_queries/reference-{setting}": reference(
            seed, setting, protocol=PULL_QUERIES, duration=2500 * MILLISECOND
        )
        for seed, setting in enumerate(PULL_QUERIES.settings)
        if setting not in ("departures", "handed-over")
    },
    "pull_queries/reference-departures": reference(15, "departures", protocol=PULL_QUERIES, duration=16 * SECOND),
    "pull_queries/cluster-kill-active": servers("--duration", "3", "--seed", "11", "--faults", "kill-leader"),
    "pull_queries/cluster-shipped": servers("--duration", "4", "--seed", "12", "--set", "mode=shipped"),
    **{f"pull_queries/mutant-{each.id}": shortest_run(each, PULL_QUERIES) for each in PULL_QUERIES.hunted.values()},
    **{
        f"read_path/reference-{setting}": reference(seed, setting, protocol=READ_PATH, duration=700 * MILLISECOND)
        for seed, setting in enumerate(READ_PATH.settings)
        if setting not in CHOSEN
    },
    **{
        f"read_path/reference-{setting}": reference(seed, setting, protocol=READ_PATH, duration=duration * MILLISECOND)
        for setting, (seed, duration) in CHOSEN.items()
    },
    # Shards that are killed and wiped, one of which comes back while what it had is rebuilt.
    "read_path/cluster-wipe": cluster(
        *("--protocol", "read-path", "--nodes", "4", "--faults", "kill,wipe,kill-leader"),
        *("--duration", "2.5", "--seed", "3", "--set", "rebuild_after=2"),
    ),
    **{
        f"read_path/mutant-{each.id}": shortest_run(each, READ_PATH, (400, 700, 1000, 1500, 2500, None), 20 * SECOND)
        for each in READ_PATH.hunted.values()
    },
}


def main(names: list[str]) -> None:
    """Make the runs named, or all that are missing."""
    for name in names or RECORDINGS:
        if (RUNS / name).exists():
            if names:
                print(f"{name} is there already", file=sys.stderr)
            continue
        RECORDINGS[name](name)


if __name__ == "__main__":
    main(sys.argv[1:])
