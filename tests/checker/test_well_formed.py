"""Runs that hold, and the same runs altered: each clause of history-checks.md#well-formed-histories is broken here.

A plant is one line: the run, what is done to its events, and the check that must notice. Events are named by kind, and
by operation where that says more (``ok:read``), and counted from 0.

    drop KIND N                        the event is missing
    repeat KIND N [COLUMN...]          it is there once more, right behind, with other columns
    alter KIND N COLUMN...             other columns: ``dirty+1``, ``term=3``, ``logical=`` (none)
    move KIND N before|behind KIND N   it is elsewhere in the order
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from msgspec.structs import replace

from loghistory import SCHEMA, MemorySink, Recorder, open_run, write_run
from loghistory.schema import CLIENT_KINDS
from logwitness import Verdict, check
from logwitness.checks import families
from logwitness.engine.run import RunVerdict
from quorumlog.durations import MILLISECOND
from quorumlog.faults import KINDS, FaultMix
from quorumlog.raft.settings import SETTINGS, RaftConfiguration
from quorumlog.raft.simulated import RaftCluster

RUNS = Path(__file__).parents[2] / "histories" / "runs" / "raft"
GROUND = [
    each
    for family in families()
    if family.is_ground and (family.protocol is None or family.protocol.name == "raft")
    for each in family.checks
]
Rows = list[dict[str, Any]]

PLANTS = """
clients-only   drop invoke:append 3                                              completes-what-is-open
clients-only   drop invoke:read 5                                                completes-what-is-open
clients-only   repeat ok:append 4                                                completes-what-is-open
clients-only   repeat fail 2                                                     completes-what-is-open
clients-only   repeat ok:read 3 kind=info                                        completes-what-is-open
clients-only   repeat observe 9 op=100000                                        completes-what-is-open
clients-only   alter ok:append 2 process+1                                       completes-what-is-open
clients-only   alter ok:append 2 op+1                                            completes-what-is-open
clients-only   alter ok:tail 2 f=append                                          completes-what-is-open
clients-only   alter fail:append 4 f=read                                        completes-what-is-open
clients-only   alter observe 20 process+1                                        completes-what-is-open
clients-only   alter observe 20 f=tail                                           completes-what-is-open
clients-only   move ok:append 6 before invoke:append 6                           completes-what-is-open
clients-only   move observe 7 behind ok:read 5                                   completes-what-is-open
clients-only   move observe 11 before invoke:read 1                              completes-what-is-open
clients-only   repeat invoke:append 8                                            operations-are-new
clients-only   repeat invoke:append 8                                            one-operation-at-a-time
clients-only   alter invoke:append 9 op=1                                        operations-are-new
clients-only   alter invoke:tail 2 op=1                                          operations-are-new
clients-only   drop ok:append 5                                                  one-operation-at-a-time
clients-only   drop fail 7                                                       one-operation-at-a-time
clients-only   alter ok:append 4 kind=info                                       one-operation-at-a-time
clients-only   repeat invoke:append 5 op=100000                                  one-operation-at-a-time
clients-only   alter invoke:read 12 f=append; alter ok:read 12 f=append          reads-are-given
clients-only   repeat invoke:append 5 kind=observe offset=0 f=append             reads-are-given
clients-only   alter ok:read 14 count+1                                          reads-add-up
clients-only   alter ok:read 16 count=0                                          reads-add-up
clients-only   alter ok:read 16 offset=0                                         reads-add-up
clients-only   alter ok:final_read 1 offset-2                                    reads-add-up
clients-only   drop observe 30                                                   reads-add-up
clients-only   repeat observe 30                                                 reads-add-up
clients-only   alter observe 2 last_offset+90 offset+90                          reads-add-up
leaders-fall   alter ok:append 9 last_offset+1                                   appends-as-asked
leaders-fall   alter invoke:append 40 count+2                                    appends-as-asked
leaders-fall   alter invoke:append 42 term=77                                    appends-as-asked
leaders-fall   alter ok:append 9 term=                                           appends-as-asked?
leaders-fall   alter ok:append 9 offset= last_offset=                            appends-as-asked?
clients-only   alter fail:append 1 reason=term_mismatch                          appends-as-asked?
clients-only   alter ok:append 9 time-900000000                                  time-goes-forward
clients-only   alter ok:append 9 time+900000000                                  time-goes-forward
clients-only   move invoke:append 3 behind ok:append 9                           time-goes-forward
leaders-fall   repeat ok:append 7 process+1                                      completes-what-is-open
leaders-fall   alter invoke:append 20 op=3                                       operations-are-new
leaders-fall   drop start 3                                                      nothing-while-down
leaders-fall   drop start 4                                                      nothing-while-down
leaders-fall   repeat crash 1 kind=flush term=9 dirty=0 flushed=0 commit=0       nothing-while-down
leaders-fall   repeat crash 1 kind=stop                                          nothing-while-down
leaders-fall   drop start 0                                                      starts-are-recorded
five-nodes     drop start 2                                                      starts-are-recorded
five-nodes     move start 1 behind append 9                                      starts-are-recorded
leaders-fall   drop crash 1                                                      ends-are-recorded
leaders-fall   drop power_loss 1                                                 ends-are-recorded
leaders-fall   alter crash 1 node+1                                              ends-are-recorded
leaders-fall   repeat append 20 kind=fault f=power_loss                          cut-power-ends-lives
cluster        repeat append 100 kind=fault f=power_loss                         cut-power-ends-lives
leaders-fall   alter start 4 incarnation=0                                       incarnations-count-up
leaders-fall   alter start 0 incarnation=7                                       incarnations-count-up
leaders-fall   alter append 60 incarnation+1                                     incarnations-count-up
leaders-fall   alter power_loss 1 incarnation=-5                                 incarnations-count-up
leaders-fall   repeat start 5                                                    incarnations-count-up
cluster        alter append 50 time-100000000                                    stamps-count-up
cluster        alter flush 20 time=0                                             stamps-count-up
cluster        repeat commit 9                                                   stamps-count-up
cluster        move append 30 behind append 40                                   stamps-count-up
cluster-members  alter append 0 logical=                                        stamps-count-up
cluster        alter visible 30 time+90000000000                                 time-goes-forward
messages       move send 20 behind receive 40                                    sent-before-received
messages       repeat send 5                                                     sent-before-received
messages       alter receive 9 node+1                                            sent-before-received
messages       alter receive 9 peer+1                                            sent-before-received
messages       alter receive 9 message+1                                         sent-before-received
messages       alter send 9 f=Vote                                               sent-before-received
messages       alter send 12 term+1                                              sent-before-received
leaders-fall   repeat append 50 kind=fault f=wipe                                wiped-disks-are-empty
leaders-fall   repeat append 50 kind=fault f=wipe; repeat append 51 kind=fault f=wipe  wiped-disks-are-empty
leaders-fall   repeat append 50 kind=fault f=wipe node=                          wiped-disks-are-empty
leaders-fall   repeat crash 1 kind=fault f=wipe                                  wiped-disks-are-empty
leaders-fall   repeat visible -1 kind=fault f=wipe                               wiped-disks-are-empty
leaders-fall   alter append 50 dirty+1                                           dirty-follows-events
leaders-fall   alter append 50 dirty-1                                           dirty-follows-events
leaders-fall   alter append 50 last_offset+1                                     dirty-follows-events
leaders-fall   alter flush 30 dirty+1                                            dirty-follows-events
leaders-fall   alter commit 30 dirty-1                                           dirty-follows-events
leaders-fall   alter vote 5 dirty+1 flushed+1                                    dirty-follows-events
five-nodes     alter truncate 0 offset-1                                         dirty-follows-events
five-nodes     alter truncate 0 dirty+1                                          dirty-follows-events
leaders-fall   drop append 85                                                    no-hole
leaders-fall   drop append 83                                                    no-hole
leaders-fall   alter append 80 offset+1 last_offset+1 dirty+1                    no-hole
five-nodes     drop append 100                                                   no-hole
five-nodes     move append 120 behind append 150                                 no-hole
leaders-fall   drop flush 40                                                     flushed-follows-events
leaders-fall   alter commit 40 flushed+1                                         flushed-follows-events
leaders-fall   alter append 66 flushed+1                                         flushed-follows-events
leaders-fall   alter flush 50 kind=visible                                       flushed-follows-events
leaders-fall   alter crash 1 kind=stop; alter start 4 dirty+1 flushed+1          stopped-log-is-whole
leaders-fall   alter start 4 dirty+1 flushed+1                                   writes-are-recorded
leaders-fall   alter start 5 dirty+40 flushed+40                                 writes-are-recorded
leaders-fall   alter start 5 term=0                                              starts-in-its-last-term
lost-power     alter start 9 term=0                                              starts-in-its-last-term
leaders-fall   alter vote 5 offset=900 entry_term=1                              votes-state-the-log
leaders-fall   alter vote 6 offset=-1 entry_term=0                               votes-state-the-log
leaders-fall   drop leader 0; move append 40 before append 39                    leader-writes-first
leaders-fall   move append 37 before append 36                                   leader-writes-first
leaders-fall   move append 40 before append 38                                   leader-writes-first
leaders-fall   move append 41 before append 38                                   leader-writes-first
five-nodes     alter leader 0 node+1                                             leader-writes-first
five-nodes     alter append 90 entry_term+1                                      leader-writes-first
leaders-fall   drop commit 30                                                    moves-are-recorded
leaders-fall   drop visible 30                                                   moves-are-recorded
leaders-fall   drop term 3                                                       moves-are-recorded
leaders-fall   repeat term 3                                                     moves-are-recorded
leaders-fall   alter flush 30 commit+1 visible+1                                 moves-are-recorded
leaders-fall   alter commit 30 kind=visible                                      moves-are-recorded
"""


@cache
def recorded(name: str) -> tuple[Rows, Mapping[str, Any]]:
    """The events of a run that holds, the first of a long one; and what it was made with."""
    (run,) = [RUNS / each for each in (name, f"reference-{name}", f"{name}-all-faults") if (RUNS / each).is_dir()]
    source = open_run(run)
    assert source.manifest is not None
    rows = [row for batch in source.batches() for row in batch.to_pylist()]
    made = source.manifest.made_by
    voters = list(source.manifest.nodes)
    return rows[:3000], {"voters": voters, **made.get("configuration", {}), "protocol": made.get("protocol", "raft")}


def judged(rows: Rows, configuration: Mapping[str, Any], **more: Any) -> RunVerdict:  # noqa: ANN401
    """The verdict on events, which are numbered anew."""
    table = pa.Table.from_pylist([row | {"seq": seq} for seq, row in enumerate(rows)], schema=SCHEMA)
    return check(table, configuration=configuration, **more)


def altered(rows: Rows, what: str) -> Rows:
    """The events after what is done to them; see the module."""
    for step in what.split(";"):
        verb, kind, number, *rest = step.split()
        place = _place(rows, kind, number)
        row = rows[place]
        if verb == "drop":
            rows = rows[:place] + rows[place + 1 :]
        elif verb == "move":
            where, *other = rest
            others = rows[:place] + rows[place + 1 :]
            # Counted as it was before.
            before = _place(rows, *other)
            before += (where == "behind") - (before > place)
            rows = [*others[:before], row, *others[before:]]
        else:
            kept = rows[: place + (verb == "repeat")]
            rows = [*kept, row | dict(_column(row, change) for change in rest), *rows[place + 1 :]]
    return rows


def _place(rows: Rows, kind: str, number: str) -> int:
    kind, _, f = kind.partition(":")
    found = [place for place, row in enumerate(rows) if row["kind"] == kind and f in ("", row["f"])]
    return found[int(number)]


def _column(row: Mapping[str, Any], change: str) -> tuple[str, Any]:
    match = re.fullmatch(r"(\w+)([=+-])(-?\w*)", change)
    assert match is not None, change
    name, how, value = match.groups()
    if how != "=":
        return name, row[name] + int(how + value)
    return name, int(value) if re.fullmatch(r"-?\d+", value) else value or None


def _plants() -> list[Any]:
    lines = [re.split(r"\s{2,}", line) for line in PLANTS.strip().splitlines()]
    return [pytest.param(*line, id=f"{line[0]}: {line[1]} -> {line[2]}") for line in lines]


def _depends_on(broken: set[str]) -> set[str]:
    """The checks that see events which a breach of these makes uncertain."""
    unsettled = {kind for each in GROUND if each.id in broken for kind in each.unsettles}
    ground = {each.id for each in GROUND}
    return {each.id for family in families() if family.kinds & unsettled for each in family.checks} - ground


@pytest.mark.parametrize(("run", "node"), [("default", 0), ("leaders-fall", 2)])
def test_a_life_of_which_nothing_is_recorded_is_noticed(run: str, node: int) -> None:
    """The first life of a node is left out: when it starts again, it holds what it wrote in that life."""
    rows, configuration = recorded(run)
    left = [row for row in rows if (row["node"], row["incarnation"]) != (node, 0)]
    verdict = judged(left, configuration)
    found = {each.id: each for each in verdict.checks}["starts-are-recorded"]
    assert verdict.verdict is Verdict.UNDECIDED, verdict.document()
    assert found.verdict is Verdict.UNDECIDED
    # A leader wrote nothing at offset 0 of what is recorded, but most voters had nothing when they first started.
    late = [row for row in left if row["kind"] != "append" or row["offset"] != 0 or row["role"] != "leader"]
    found = {each.id: each for each in judged(late, configuration).checks}["starts-are-recorded"]
    assert found.verdict is Verdict.UNDECIDED
    # Where they are not most of them, the others may have held something before.
    more = configuration | {"voters": [*configuration["voters"], 97, 98, 99]}
    found = {each.id: each for each in judged(late, more).checks}["starts-are-recorded"]
    assert found.verdict is Verdict.HOLDS


@pytest.mark.sampled(3)
@pytest.mark.parametrize(("run", "what", "by"), _plants())
def test_what_is_planted_is_noticed(run: str, what: str, by: str) -> None:
    """``by``: the check; with a question mark it is undecided where it could be violated."""
    doubtful, by = by.endswith("?"), by.removesuffix("?")
    rows, configuration = recorded(run)
    verdict = judged(altered(rows, what), configuration)
    found = {each.id: each for each in verdict.checks}
    (rule,) = (each for each in GROUND if each.id == by)
    expected = Verdict.UNDECIDED if rule.doubtful or doubtful else Verdict.VIOLATED
    assert found[by].verdict is expected, verdict.document()
    assert found[by].reason or found[by].violations[0].events
    assert verdict.exit_status in (1, 3)
    broken = {each.id for each in verdict.checks if each.verdict in (Verdict.VIOLATED, Verdict.UNDECIDED)}
    held = {each.id for each in verdict.checks if each.verdict is Verdict.HOLDS}
    assert not held & _depends_on(broken & {each.id for each in GROUND})


def test_every_check_has_plants() -> None:
    planted = [line.split()[-1].removesuffix("?") for line in PLANTS.strip().splitlines()]
    assert {each.id for each in GROUND} == set(planted)
    assert len(planted) >= 60


@pytest.mark.parametrize("run", sorted({line.split()[0] for line in PLANTS.strip().splitlines()}))
def test_what_plants_are_put_into_holds(run: str) -> None:
    rows, configuration = recorded(run)
    assert judged(rows, configuration).verdict is Verdict.HOLDS


@pytest.mark.sampled(4)
@pytest.mark.parametrize("run", sorted(RUNS.iterdir()), ids=lambda run: run.name)
def test_every_recorded_run_is_well_formed(run: Path) -> None:
    """Those of mutants as well: the faults of nearly all are in what they do, not in what they record."""
    verdict = check(open_run(run), [each.id for each in GROUND])
    found = {each.id: str(each.verdict) for each in verdict.checks}
    wrong = {check: verdict for check, verdict in found.items() if verdict in ("violated", "undecided")}
    assert wrong == ({"no-hole": "violated"} if run.name == "mutant-late-read-filled" else {})


class _Shaken(RaftCluster):
    """A cluster whose nodes also trim their logs, and one of which may lose its disk and start with an empty one."""

    def start(self) -> None:
        super().start()
        self.draw = self.simulation.random("shaken")
        self.simulation.after(300 * MILLISECOND, self._trim)
        if self.draw.random() < 0.3:
            self.simulation.after(700 * MILLISECOND, self._wipe)

    def _trim(self) -> None:
        for node in self.nodes:
            if node.host.running and not node.host.paused and self.draw.random() < 0.5:
                node.trim(self.draw.randint(0, node.core.commit + 1))
        self.simulation.after(100 * MILLISECOND, self._trim)

    def _wipe(self) -> None:
        node = self.draw.choice(self.nodes)
        if node.host.running:
            self.record("crash", {"node": node.number})
        node.kill()
        self.record("fault", {"f": "wipe", "node": node.number})
        node.new_disk()
        self.simulation.after(50 * MILLISECOND, node.start)


EVERY_FAULT = replace(
    SETTINGS["default"],
    faults=FaultMix(
        weights=dict.fromkeys(KINDS, 1.0) | {"disk_full": 4.0, "fsync_error": 4.0},
        targets={"leader": 3.0, "any": 3.0, "all": 1.0, "majority": 1.0},
        per_second=10.0,
        longest=300 * MILLISECOND,
    ),
)


def _played(seed: int, configuration: RaftConfiguration) -> pa.Table:
    sink = MemorySink()
    recorder = Recorder(sink)
    _Shaken(seed, configuration, recorder).play()
    recorder.close()
    return sink.table


@pytest.mark.sampled(4)
@pytest.mark.parametrize(
    "seeds",
    [
        range(2),
        pytest.param(range(2, 4), marks=pytest.mark.slow),
        pytest.param(range(4, 16), marks=pytest.mark.long),
        pytest.param(range(16, 60), marks=pytest.mark.long(0)),
    ],
    ids=str,
)
@pytest.mark.parametrize("setting", [*SETTINGS, "every fault"])
def test_simulated_runs_are_well_formed(setting: str, seeds: range) -> None:
    for seed in seeds:
        whole = SETTINGS.get(setting, EVERY_FAULT)
        configuration = replace(whole, messages=seed % 3 == 0, segment_bytes=512, duration=whole.duration // 2)
        table = _played(seed, configuration)
        known = {**configuration.known_to_the_judge(), "protocol": "raft"}
        verdict = check(table, [each.id for each in GROUND], configuration=known)
        assert verdict.verdict is Verdict.HOLDS, (seed, verdict.document())


def test_what_was_asked_for_depends_on_what_was_not() -> None:
    """Whatever is asked of a history, its ground is judged; only what was asked for is answered."""
    rows, configuration = recorded("leaders-fall")
    ruined = altered(rows, "alter flush 30 dirty+1")
    (found,) = judged(ruined, configuration, only=["commit-monotonic"]).checks
    assert (found.id, found.verdict) == ("commit-monotonic", Verdict.UNDECIDED)
    assert found.reason == "it rests on events that are not well formed: dirty-follows-events"
    (found,) = judged(ruined, configuration, only=["phantom"]).checks
    assert found.verdict is Verdict.HOLDS


def test_a_violation_stays_one() -> None:
    source = open_run(RUNS / "mutant-commit-before-own-flush")
    assert source.manifest is not None
    rows = [row for batch in source.batches() for row in batch.to_pylist()]
    configuration = {**source.manifest.made_by["configuration"], "voters": [0, 1, 2], "protocol": "raft"}
    verdict = judged(altered(rows, "alter flush 5 dirty+1"), configuration)
    found = {each.id: each.verdict for each in verdict.checks}
    assert found["dirty-follows-events"] is found["commit-within-flushed"] is Verdict.VIOLATED
    assert found["commit-monotonic"] is Verdict.UNDECIDED


def test_one_log_of_several_takes_the_ground_from_the_run() -> None:
    rows, configuration = recorded("clients-only")
    good = [row | {"log": "good"} for row in rows]
    bad = [row | {"log": "bad"} for row in altered(rows, "repeat ok:append 4")]
    both = sorted([*good, *bad], key=lambda row: row["time"])
    verdict = judged(both, configuration)
    (found,) = (each for each in verdict.checks if each.verdict is Verdict.VIOLATED)
    assert found.id == "completes-what-is-open"
    assert {violation.log for violation in found.violations} == {"bad"}
    assert Verdict.HOLDS not in {each.verdict for each in verdict.checks if each.id in _depends_on({found.id})}


def test_a_well_formed_history_of_nothing_is_not_green() -> None:
    rows: Rows = [{"time": 0, "kind": "invoke", "process": 1, "op": 1, "f": "tail"}]
    verdict = judged(rows, {})
    assert (verdict.verdict, verdict.exit_status) == (Verdict.UNEXERCISED, 3)
    assert {each.verdict for each in verdict.checks} == {Verdict.UNEXERCISED}


FOREIGN = """
{:process 0 :type :invoke :f :append :value 1 :time 30}
{:process 0 :type :ok :f :append :value [0 1] :time 20}
{:process 1 :type :invoke :f :read :value nil :time 15}
{:process 1 :type :ok :f :read :value [[0 1]] :time 10}
"""


def test_histories_of_other_tools_are_judged_as_before(tmp_path: Path) -> None:
    """Their importers ask for what is to be asked; converted, they are of our own format."""
    file = tmp_path / "history.edn"
    file.write_text(FOREIGN)
    verdict = check(open_run(file))
    assert verdict.verdict is Verdict.HOLDS
    assert not {each.id for each in verdict.checks} & {each.id for each in GROUND}
    write_run(tmp_path / "run", open_run(file).batches(), {"name": "run"})
    assert check(open_run(tmp_path / "run")).verdict is Verdict.UNDECIDED


def test_what_is_unsettled_is_seen_by_some_check() -> None:
    kinds = {kind for family in families() if not family.is_ground for kind in family.kinds}
    for each in GROUND:
        assert each.unsettles & kinds, each.id
    assert all(each in CLIENT_KINDS for check in GROUND for each in check.unsettles if check.id == "reads-add-up")


@pytest.mark.parametrize("run", ["clients-only", "leaders-fall", "five-nodes"])
def test_a_record_that_begins_late_accuses_nobody(run: str) -> None:
    rows, configuration = recorded(run)
    late = 0
    for tenth in range(1, 9):
        verdict = judged(rows[len(rows) * tenth // 10 :], configuration)
        found = {each.id: each for each in verdict.checks}
        cut = found["completes-what-is-open"]
        assert cut.verdict is not Verdict.VIOLATED
        late += cut.unjudged > 0
        if cut.unjudged:
            assert cut.verdict is Verdict.UNDECIDED
            assert Verdict.VIOLATED not in (found["phantom"].verdict, found["linearizable-log"].verdict)
    assert late
