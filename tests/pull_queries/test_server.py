"""Whole servers in virtual time: the document's test plan, take-overs, and what holds in any run."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import pytest
from hypothesis import Phase, given, settings
from hypothesis import strategies as st
from server_network import Network

from quorumlog.pull_queries.configuration import Configuration
from quorumlog.pull_queries.core import NOT_READY
from quorumlog.pull_queries.events import Answer, ClientGone, Query
from quorumlog.pull_queries.execution import EXHAUSTED
from quorumlog.pull_queries.rules import REFERENCE, Failure
from quorumlog.pull_queries.table import Filter, SavedTable, Table, Takeover, partition_of

KEYS = [f"k{number}" for number in range(8)]


def network(seed: int = 1, loss: int = 0, **given: Any) -> Network:  # noqa: ANN401
    """Three servers with two partitions, started one after the other, and long enough ago to be ready."""
    modes = {"standby_reads": True, "heartbeats": True, "lag_reports": True, "lag_report": 500, **given}
    made = Network(seed, Configuration(partitions=2, **modes), loss=loss)
    for host in made.servers:
        made.start(host)
        made.run(300)
    write(made, 0)
    made.run(8000)
    return made


def write(made: Network, value: int) -> None:
    for key in KEYS:
        made.put(partition_of(key, 2), key, value)


def rows(answers: list[Answer]) -> dict[str, Any]:
    return {key: value for answer in answers for key, value in answer.rows}


def result(made: Network, request: int) -> tuple[str | None, dict[str, Any]]:
    _, finish = made.finished[request]
    return finish.message, rows(made.answers[request])


def truth(made: Network, partition: int, position: int) -> SavedTable:
    table = Table(REFERENCE)
    for offset, record in enumerate(made.changelogs[partition][:position]):
        table.fold(offset, record)
    return table.saved()


def active_of(made: Network) -> str:
    (active,) = {made.servers["h2:1"].core.assignment.of(partition).active for partition in range(2)}  # type: ignore[union-attr]
    return active


@pytest.mark.parametrize("mode", ["proposal", "shipped"])
def test_every_server_answers_for_all(mode: str) -> None:
    made = network(mode=mode)
    assert active_of(made) == "h0:1"
    for host in made.servers:
        request = made.ask(host, Query())
        made.run(20)
        message, found = result(made, request)
        assert message is None
        assert found == {key: value for p in range(2) for key, value in truth(made, p, 10**6).rows.items()}
        assert {answer.host for answer in made.answers[request]} == {"h0:1"}
    request = made.ask("h1:1", Query(keys=("k1", "k5", "nobody"), filter=None))
    made.run(20)
    assert set(rows(made.answers[request])) <= {"k1", "k5"}
    request = made.ask("h1:1", Query(filter=Filter("k", "<", "k3")))
    made.run(20)
    assert set(rows(made.answers[request])) <= {"k0", "k1", "k2"}


def test_a_server_is_not_ready_at_once() -> None:
    made = Network(1, Configuration(partitions=2))
    made.start("h0:1")
    made.run(60)
    request = made.ask("h0:1", Query())
    assert made.finished[request][1].message == NOT_READY


def test_forwarded_to_a_standby_at_once_and_without_an_attempt_once_the_active_is_known_to_be_dead() -> None:
    made = network()
    made.crash("h0:1")
    request = made.ask("h1:1", Query())
    made.run(20)
    finish = made.finished[request][1]
    assert finish.message is None
    assert {(attempt.host, attempt.failure) for attempt in finish.attempts} > {("h0:1", Failure.NO_CONNECTION)}
    assert {answer.host for answer in made.answers[request]} <= {"h1:1", "h2:1"}
    made.run(made.configuration.detection + 10)
    request = made.ask("h1:1", Query())
    made.run(20)
    assert {attempt.host for attempt in made.finished[request][1].attempts} <= {"h1:1", "h2:1"}


def test_a_query_whose_client_is_gone_goes_no_further() -> None:
    made = network()
    made.unreachable = {"h0:1"}
    gone, waiting = made.ask("h1:1", Query()), made.ask("h1:1", Query())
    made.tell("h1:1", ClientGone(gone))
    made.run(2000)
    assert waiting in made.finished
    assert gone not in made.finished
    assert made.answers[gone] == []


def test_the_most_caught_up_standby_is_asked_and_nobody_if_all_lag_too_far() -> None:
    made = network()
    made.stuck = {"h1:1"}
    write(made, 1)
    made.run(1000)
    made.crash("h0:1")
    made.run(1000)
    request = made.ask("h1:1", Query())
    made.run(20)
    assert {answer.host for answer in made.answers[request]} == {"h2:1"}
    made.crash("h2:1")
    made.run(1000)
    request = made.ask("h1:1", Query(bound=2))
    made.run(20)
    message, found = result(made, request)
    assert found == {}
    assert message is not None
    assert "exceeds maximum allowed lag 2." in message
    request = made.ask("h1:1", Query(bound=1000))
    made.run(20)
    assert result(made, request)[0] is None


def test_a_standby_takes_over_and_what_the_old_active_still_appends_is_passed_over() -> None:
    made = network()
    made.crash("h0:1")
    write(made, 2)
    made.run(13_000)
    assert active_of(made) in ("h1:1", "h2:1")
    assert all(set(truth(made, partition, 10**6).rows.values()) <= {0, 2} for partition in range(2))
    assert sum(truth(made, partition, 10**6).source for partition in range(2)) == 2 * len(KEYS)
    takeovers = [[each.epoch for each in made.changelogs[p] if isinstance(each, Takeover)] for p in range(2)]
    epochs = [assignment.epoch for assignment in made.assignments if assignment.of(0).active == active_of(made)]
    assert takeovers == [[1, epochs[0]]] * 2
    made.start("h0:1")
    made.run(3000)
    assert active_of(made) in ("h1:1", "h2:1")
    core = made.servers["h0:1"].core
    assert core is not None
    assert "h0:1" in core.assignment.of(0).standbys
    assert {p: table.saved() for p, table in core.tables.items()} == {p: truth(made, p, 10**6) for p in range(2)}


def test_with_standby_reads_off_the_active_alone_answers_after_its_takeover() -> None:
    made = network(mode="shipped", standby_reads=False)
    made.crash("h0:1")
    made.run(1000)
    request = made.ask("h1:1", Query())
    message = made.finished[request][1].message
    assert message is not None
    assert message.count("Host is not the active host for this partition.") == 4
    made.run(13_000)
    active = active_of(made)
    for host in ("h1:1", "h2:1"):
        request = made.ask(host, Query())
        made.run(20)
        assert {answer.host for answer in made.answers[request]} == {active}
        core = made.servers[host].core
        assert core is not None
        assert core.fenced(0) == core.fenced(1) == (host == active)


def test_a_server_that_comes_back_begins_with_what_it_had_saved() -> None:
    made = network()
    saved = made.servers["h1:1"].saved
    assert all(table.current > 0 for table in saved.values())
    made.crash("h1:1")
    made.run(12_000)
    made.start("h1:1")
    made.run(20)
    core = made.servers["h1:1"].core
    assert core is not None
    assert "h1:1" not in core.assignment.members  # nothing is kept of what it is no member of
    assert core.tables == {}
    made.stuck = {"h1:1"}
    made.run(100)
    assert {p: table.saved() for p, table in core.tables.items()} == {p: truth(made, p, 10**6) for p in range(2)}


def test_a_negative_bound_is_refused() -> None:
    with pytest.raises(ValueError, match="it must be 0 or more"):
        Query(bound=-1)


def test_an_answer_that_nobody_waits_for_changes_nothing() -> None:
    made = network()
    request = made.ask("h1:1", Query())
    made.run(2000)
    assert len(made.answers[request]) == 2
    assert made.finished[request][1].message is None


def probed(made: Network, host: str, milliseconds: int) -> list[bool]:
    """Whether each partition was answered at each probe of a tenth of a second, within that time."""
    found = []
    for _ in range(milliseconds // 100):
        request = made.ask(host, Query())
        made.run(100)
        found += [any(answer.partition == p for answer in made.answers[request]) for p in range(2)]
    return found


@pytest.mark.parametrize("mode", ["proposal", "shipped"])
def test_while_the_active_is_cut_off_bad_time_is_that_of_the_detection(mode: str) -> None:
    """pull-queries.md#bad-time-bounded: nobody refuses the connection, so attempts run into the time-out."""
    made = network(mode=mode, forward_timeout=500)
    assert all(probed(made, "h1:1", 500))
    made.unreachable = {"h0:1"}
    found = probed(made, "h1:1", 4000)
    bad = 100 * found.count(False) / 2
    assert 0 < bad <= made.configuration.detection + 500
    assert all(found[2 * 20 :])


def test_a_killed_active_costs_nothing_where_the_connection_is_refused() -> None:
    made = network()
    made.crash("h0:1")
    assert all(probed(made, "h1:1", 2000))


@pytest.mark.long
@pytest.mark.parametrize("mode", ["proposal", "shipped"])
def test_with_a_kill_every_minute_for_five_minutes_each_key_is_there_99_times_in_100(mode: str) -> None:
    """The document's goal, in virtual time; the killed one comes back after twenty seconds."""
    made = network(mode=mode, forward_timeout=500)
    found: list[bool] = []
    for minute in range(5):
        write(made, minute)
        asked = made.servers["h1:1"].core
        assert asked is not None
        victim = next(p.active for p in asked.assignment.placements) if minute % 2 else "h2:1"
        victim = "h0:1" if victim == "h1:1" else victim
        made.unreachable = {victim}
        found += probed(made, "h1:1", 2000)
        made.crash(victim)
        made.unreachable = set()
        found += probed(made, "h1:1", 18_000)
        made.start(victim)
        found += probed(made, "h1:1", 40_000)
    assert found.count(True) >= 0.99 * len(found)


@pytest.mark.slow
@settings(max_examples=6, deadline=None, phases=[Phase.explicit, Phase.reuse, Phase.generate])
@given(st.integers(0, 2**32), st.sampled_from(["proposal", "shipped"]), st.sampled_from([0, 5, 20]))
def test_in_any_run_answers_are_true_and_the_table_loses_nothing(seed: int, mode: str, loss: int) -> None:
    """Crashes, restarts, lost messages and appends; in the end all is quiet, and every write is there once."""
    made = network(seed, loss, mode=mode, heartbeat_window=1000)
    for round_ in range(1, 12):
        victim = made.random.choice(list(made.servers))
        if made.servers[victim].core is None:
            made.start(victim)
        elif sum(server.core is not None for server in made.servers.values()) > 1:
            made.crash(victim)
        write(made, round_)
        for host, server in made.servers.items():
            if server.core is not None:
                made.ask(host, Query(bound=made.random.choice([None, 3])))
        made.run(made.random.choice([50, 900, 12_000]))
    made.loss = 0
    for host, server in made.servers.items():
        if server.core is None:
            made.start(host)
    made.run(40_000)
    for request, answers in made.answers.items():
        if request in made.finished:
            message = made.finished[request][1].message
            assert len({answer.partition for answer in answers}) == len(answers)
            assert message is not None or len(answers) == 2
            assert message is None or message == EXHAUSTED or "Unable to execute pull query" in message
        for answer in answers:
            assert dict(answer.rows) == truth(made, answer.partition, answer.position).rows
    valid = [server.core.assignment for server in made.servers.values() if server.core is not None]
    assert all(one == other for one, other in pairwise(valid))
    for partition in range(2):
        whole = truth(made, partition, 10**6)
        assert whole.source == len(made.sources[partition])
        assert whole.rows == dict(entry for entry in made.sources[partition] if entry is not None)
