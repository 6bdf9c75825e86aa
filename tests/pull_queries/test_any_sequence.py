"""Any sequence of heartbeats, checks, reports, appends, failures and queries keeps the invariants of the page.

One router and three replicas of a partition, in both modes. What the cores answer is compared with plain definitions
of pull-queries.md#invariants, written here from the page.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from dataclasses import replace
from itertools import pairwise
from typing import Any, ClassVar

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import Phase as Step
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule, run_state_machine_as_test

from quorumlog.pull_queries.assignment import Assignment, Placement, folded, proposed
from quorumlog.pull_queries.configuration import Configuration
from quorumlog.pull_queries.execution import Execution, Phase
from quorumlog.pull_queries.lag import LagRecords, LagReport, Store
from quorumlog.pull_queries.routing import View, candidates, no_valid_host, terms_of
from quorumlog.pull_queries.rules import REFERENCE, Failure, Rules, Terms, obstacles
from quorumlog.pull_queries.status import Membership, Status
from quorumlog.pull_queries.table import Change, Record, SavedTable, Table, Takeover, scan

STORE = Store("Q", "T")
ROUTER, HOSTS = "r:1", ("a:1", "b:1", "c:1")
SEND, WINDOW = 3, 24
A_HOST, A_TIME = st.sampled_from(HOSTS), st.integers(0, 5)


def plain_table(log: list[Record | None], position: int) -> dict[str, object]:
    """The truth of pull-queries.md#table-at-position."""
    rows: dict[str, object] = {}
    seen = source = 0
    for record in log[:position]:
        if record is None or record.epoch < seen or (isinstance(record, Change) and record.source != source):
            continue
        seen = record.epoch
        if isinstance(record, Change):
            source += 1
            rows |= {str(record.key): record.value}
    return {key: value for key, value in rows.items() if value is not None}


class Replica:
    """A host that folds the changelog and can lose its process or its store."""

    def __init__(self, rules: Rules) -> None:
        self.saved, self.table = SavedTable(), Table(rules)
        self.reported = 0  # the end that it reported last


class AnySequence(RuleBasedStateMachine):
    """``decided_by`` are the rules of the cores; the truth that they are held against is written here."""

    decided_by: ClassVar[Rules] = REFERENCE

    @initialize(shipped=st.booleans(), bound=st.integers(0, 6))
    def begin(self, shipped: bool, bound: int) -> None:
        self.configuration = Configuration(
            mode="shipped" if shipped else "proposal",
            heartbeat_send=SEND,
            heartbeat_window=WINDOW,
            maximum_lag=bound,
            standby_reads=True,
            heartbeats=True,
            lag_reports=True,
        )
        self.now = 0
        self.membership = Membership(ROUTER, 0, self.configuration, self.decided_by)
        self.heard: dict[str, set[int]] = {host: set() for host in HOSTS}
        self.statuses = self.membership.statuses
        self.log: list[Record | None] = []
        self.replicas = {host: Replica(self.decided_by) for host in HOSTS}
        self.reports: list[LagReport] = []
        self.records = LagRecords(self.decided_by)
        self.accepted: dict[str, LagReport] = {}
        self.proposals: list[Assignment] = []
        self.folds = [[Assignment()], [Assignment()]]

    # -- time and heartbeats -------------------------------------------------------------------------------------------

    @rule(by=st.integers(1, 7))
    def tick(self, by: int) -> None:
        self.now += by

    @rule(host=A_HOST, skew=st.integers(-8, 8))
    def heartbeat(self, host: str, skew: int) -> None:
        self.membership.heartbeat(host, self.now + skew)
        self.heard[host].add(self.now + skew)

    @rule(host=A_HOST, steps=st.integers(3, 12))
    def heartbeats(self, host: str, steps: int) -> None:
        """A host that sends for a while."""
        for _ in range(steps):
            self.now += SEND
            self.heartbeat(host, 0)

    @rule(hosts=st.sets(A_HOST))
    def discover(self, hosts: set[str]) -> None:
        for host in self.membership.discover(self.now, sorted(hosts)):
            self.statuses = {**self.statuses, host: Status(True, self.now)}

    @rule()
    def check(self) -> None:
        before, self.statuses = self.statuses, {**self.statuses, **self.membership.check(self.now)}
        for host, stamps in self.heard.items():
            if host in before:
                self.decided_rightly(stamps, before[host].alive, self.statuses[host])
                if stamps:
                    assert self.statuses[host].updated == self.now
                self.heard[host] = {stamp for stamp in stamps if stamp >= self.now - WINDOW}

    def decided_rightly(self, stamps: set[int], was_up: bool, status: Status) -> None:
        """pull-queries.md#no-false-down and pull-queries.md#silence-is-down."""
        end, silence = self.now, self.configuration.silence * SEND
        if not any(end - silence <= stamp < end for stamp in stamps):
            assert not status.alive
        if self.configuration.shipped:
            if any(end - silence <= stamp <= end - 2 for stamp in stamps):
                assert status.alive
            return
        slots = [any(at <= stamp < at + SEND for stamp in stamps) for at in range(end - WINDOW, end, SEND)]
        runs = "".join("x" if filled else " " for filled in slots).split("x")
        enough = all(slots[-self.configuration.received_threshold :])
        if enough or (was_up and max(map(len, runs)) <= self.configuration.missed_threshold):
            assert status.alive

    # -- changelog and replicas ----------------------------------------------------------------------------------------

    @rule(record=st.sampled_from(("own", "takeover", "change", "again", "late")), value=st.none() | st.integers(0, 9))
    def append(self, record: str, value: int | None) -> None:
        truth = Table(REFERENCE)
        for offset, each in enumerate(self.log):
            truth.fold(offset, each)
        changes = {
            "own": None,
            "takeover": Takeover(truth.epoch + 1),
            "change": Change(truth.epoch, truth.source, f"k{truth.source % 3}", value),
            "again": Change(truth.epoch, truth.source - 1, "k0", 77),
            "late": Change(truth.epoch - 1, truth.source, "k1", 88),
        }
        self.log.append(changes[record])

    @rule(host=A_HOST, most=st.integers(1, 6), behind=st.sampled_from((0, 0, 1, 2)))
    def fold(self, host: str, most: int, behind: int) -> None:
        """What a node of the group shows, which may be behind another one."""
        table = self.replicas[host].table
        table.note_visible(len(self.log) - 1 - behind)
        for offset in range(table.current, len(self.log) - behind)[:most]:
            table.fold(offset, self.log[offset])
            table.note_visible(offset)

    @rule(host=A_HOST)
    def save(self, host: str) -> None:
        self.replicas[host].saved = self.replicas[host].table.saved()

    @rule(host=A_HOST, lost=st.booleans())
    def restart(self, host: str, lost: bool) -> None:
        replica = self.replicas[host]
        replica.saved = SavedTable() if lost else replica.saved
        replica.table, replica.reported = Table(self.decided_by, replica.saved), 0

    @rule(host=A_HOST)
    def report(self, host: str) -> None:
        """pull-queries.md#reports-are-true."""
        replica = self.replicas[host]
        current, end = replica.table.position
        assert current <= end <= len(self.log)
        assert replica.reported <= end
        replica.reported = end
        self.reports.append(LagReport(host, self.now, {(STORE, 0): self.replicas[host].table.position}))

    @rule(data=st.data())
    def deliver(self, data: st.DataObject) -> None:
        """Any report that was ever sent: late, again, in any order (pull-queries.md#report-times-rise)."""
        if self.reports:
            report = data.draw(st.sampled_from(self.reports))
            stored = self.accepted.get(report.host)
            assert self.records.accept(report) == (stored is None or stored.time <= report.time)
            if stored is None or stored.time <= report.time:
                self.accepted[report.host] = report

    # -- assignments ---------------------------------------------------------------------------------------------------

    @rule(members=st.sets(A_HOST), by=st.integers(0, 1))
    def propose(self, members: set[str], by: int) -> None:
        last = self.folds[by][-1]
        after = proposed(last, members, 1, 2, {(host, 0): host == "a:1" for host in HOSTS})
        self.proposals.append(after)
        if last.of(0).active in members:
            assert after.of(0).active == last.of(0).active

    @rule(by=st.integers(0, 1), most=st.integers(1, 4))
    def fold_assignments(self, by: int, most: int) -> None:
        """Each of two servers folds the same log at its own pace."""
        mine = self.folds[by]
        for record in self.proposals[len(mine) - 1 :][:most]:
            mine.append(folded(self.decided_by, mine[-1], record))

    @invariant()
    def assignments_are_prefixes(self) -> None:
        if hasattr(self, "folds"):
            short, long = sorted(self.folds, key=len)
            assert long[: len(short)] == short
            assert all(later == earlier or later.epoch == earlier.epoch + 1 for earlier, later in pairwise(long))

    @invariant()
    def statuses_change_at_a_check_alone(self) -> None:
        if hasattr(self, "membership"):
            assert self.membership.statuses == self.statuses

    # -- queries -------------------------------------------------------------------------------------------------------

    @rule(active=A_HOST, bound=st.none() | st.integers(0, 8), outcomes=st.lists(st.none() | st.sampled_from(Failure)))
    def query(self, active: str, bound: int | None, outcomes: list[Failure | None]) -> None:
        placement = Placement(active, tuple(host for host in HOSTS if host != active))
        view = View(Assignment(1, HOSTS, (placement,)), self.membership.statuses, self.records.snapshot())
        terms = terms_of(self.configuration, bound)
        scanned = candidates(self.decided_by, view, terms, STORE, 0)
        self.excluded_rightly(scanned, placement, view, terms)
        chosen = [each.host for each in scanned if each.selected]
        message = no_valid_host({0: scanned})
        assert (message is None) == bool(chosen)
        if message is not None:
            assert all(f"{each.host} was not selected because {','.join(each.reasons)}" in message for each in scanned)
            return
        query = Execution(self.decided_by, self.configuration.shipped, {0: chosen})
        contacted: list[str] = []
        answers = 0
        while requests := query.next_round():
            (host,) = requests
            contacted.append(host)
            failure = outcomes.pop() if outcomes else None
            answers += len(query.answered(host, [] if failure else [0], failure))
            if failure is None:
                self.answered_rightly(host, placement, terms)
        assert contacted == chosen[: len(contacted)]
        assert answers == (query.phase is Phase.COMPLETE)
        last = query.attempts[-1].failure
        final = terms.shipped and last in (Failure.CLIENT_ERROR, Failure.NO_HEADER)
        assert (query.phase is Phase.FAILED) == final
        assert (query.phase is Phase.EXHAUSTED) == (last is not None and not final)
        assert (contacted == chosen) or last is None or final

    def excluded_rightly(self, scanned: Any, placement: Placement, view: View, terms: Terms) -> None:  # noqa: ANN401
        """pull-queries.md#selected-within-bound, no-record-not-selected, candidates-follow-view."""
        assert {each.host for each in scanned} == set(HOSTS)
        assert scanned[0].host == placement.active
        ends = [report.positions[(STORE, 0)].end for report in self.accepted.values()]
        for each in scanned:
            status, report = view.statuses.get(each.host), self.accepted.get(each.host)
            alive = terms.shipped if status is None else status.alive
            filtered = terms.shipped or each.host != placement.active
            lag = None if report is None else max(0, max(ends) - report.positions[(STORE, 0)].current)
            near = lag is not None and (lag < terms.bound or (lag == terms.bound and terms.shipped))
            assert each.selected == (alive and (near or not filtered))
            assert len(each.reasons) == (not alive) + (filtered and not near)
        if not terms.shipped:
            lags = [self.lag_of(each.host) for each in scanned[1:]]
            assert lags == sorted(lags)
        else:
            assert [each.host for each in scanned[1:]] == sorted(placement.standbys)

    def lag_of(self, host: str) -> float:
        ends = [report.positions[(STORE, 0)].end for report in self.accepted.values()]
        report = self.accepted.get(host)
        return float("inf") if report is None else max(ends) - report.positions[(STORE, 0)].current

    def answered_rightly(self, host: str, placement: Placement, terms: Terms) -> None:
        """pull-queries.md#rows-are-the-table and pull-queries.md#staleness-bounded."""
        answer = self.replicas[host].table.saved()
        assert answer.current <= len(self.log)
        assert dict(scan(answer)) == plain_table(self.log, answer.current)
        if terms.shipped or host != placement.active:
            known = max(report.positions[(STORE, 0)].end for report in self.accepted.values())
            fallen = max(0, self.accepted[host].positions[(STORE, 0)].current - answer.current)
            assert len(self.log) - answer.current <= terms.bound + (len(self.log) - known) + fallen


TestAnySequence = pytest.mark.slow(AnySequence.TestCase)
TestAnySequence.settings = settings(max_examples=200, stateful_step_count=40, deadline=None)


OUTCOMES = st.none() | st.sampled_from(Failure)


@given(
    candidates=st.dictionaries(
        st.integers(0, 4), st.lists(st.sampled_from(HOSTS), min_size=1, unique=True), min_size=1
    ),
    shipped=st.booleans(),
    data=st.data(),
)
def test_any_query_of_several_partitions_goes_by_rounds(
    candidates: dict[int, list[str]], shipped: bool, data: st.DataObject
) -> None:
    """pull-queries.md#rounds, partitions-once and falls-through: hosts answer in any order, wholly, in part, not."""
    query = Execution(REFERENCE, shipped, candidates)
    left, emitted, turn, failed = set(candidates), Counter[int](), 0, False
    while requests := dict(query.next_round()):
        assert {partition: host for host, asked in requests.items() for partition in asked} == {
            partition: candidates[partition][turn] for partition in left
        }
        assert all(list(asked) == sorted(set(asked)) for asked in requests.values())
        for host in data.draw(st.permutations(list(requests))):
            with pytest.raises(ValueError, match="still waits"):
                query.next_round()
            came = data.draw(st.sets(st.sampled_from([*requests[host], 9])))
            lacking = set(requests[host]) - came
            failure = data.draw(st.sampled_from(Failure) if lacking else OUTCOMES)
            emitted.update(query.answered(host, came, failure))
            left -= came
            failed |= bool(lacking) and shipped and failure in (Failure.CLIENT_ERROR, Failure.NO_HEADER)
        turn += 1
        if failed or not left:
            break
    assert not query.next_round()
    assert emitted == dict.fromkeys(candidates.keys() - left, 1)
    for partition, hosts in candidates.items():
        tried = [attempt.host for attempt in query.attempts if attempt.partition == partition]
        assert tried == hosts[: len(tried)]
    assert {each.partition for each in query.attempts if each.failure is None} == set(emitted)
    if failed:
        assert query.phase is Phase.FAILED
    elif left:
        assert query.phase is Phase.EXHAUSTED
        assert any(len(candidates[partition]) == turn for partition in left)
    else:
        assert query.phase is Phase.COMPLETE


FAULTS: dict[str, dict[str, Callable[..., Any]]] = {
    "threshold": {"tolerated": lambda missed, threshold: missed <= threshold},
    "older report": {"report_replaces": lambda stored, received: True},
    "dead": {"obstacles": lambda known, terms: (False, False, *obstacles(known, terms)[2:])},
    "far": {"obstacles": lambda known, terms: (*obstacles(known, terms)[:3], False)},
    "old epoch": {"counts": lambda epoch, seen, source, expected: source == expected},
    "end falls": {"end_after": lambda end, visible: visible + 1},
    "later proposal": {"assignment_valid": lambda epoch, last: epoch in (last, last + 1)},
}
"""Faults of rules; two of them are found after hundreds of sequences, one shrinks slowly."""


@pytest.mark.slow
@pytest.mark.parametrize(
    "fault",
    [
        pytest.param(name, marks=pytest.mark.long if name in ("threshold", "far", "old epoch") else [])
        for name in FAULTS
    ],
)
def test_a_fault_of_a_rule_is_found(fault: str) -> None:
    class Faulty(AnySequence):
        decided_by = replace(REFERENCE, **FAULTS[fault])

    often = settings(
        max_examples=2000,
        stateful_step_count=40,
        deadline=None,
        derandomize=True,
        database=None,
        phases=[Step.generate],
        suppress_health_check=[*HealthCheck],
    )
    with pytest.raises(AssertionError):
        run_state_machine_as_test(Faulty, settings=often)
