"""Carry a walk of the specification out on the Raft core, step by step, and compare.

The specification has no messages: a step says what the receiver may have been told. Here that becomes a message made
by hand (the leader's batches, an older or the newest commit index, an earlier state of a follower), a flush, a saved
vote or a restart, handed to ``RaftCore.handle``. After each step

- term, vote, role, log, dirty, flushed, commit, visible of every node and what visibility is made of (MRI, UB, the
  leader's LQ) must be the specification's, and so must the answers to acks=all appends;
- a linearizable read that is served must reach all that had been acknowledged when it was asked for;
- whatever the core wants to send must be something that the specification says may be heard (``sent``, ``replies``,
  ``asked``, ``vote``), and nothing leaves while a vote is being saved.

The grain of the steps is that of ``CoreWalk.tla``. Left out: batches of several entries, trimmed logs and StartAt,
barriers, refusals because a leader was heard (time passes between any two steps), and recovery's own
pace: what the core reads and sends to catch a follower up is compared with ``sent``, but not delivered.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from quorumlog.events import Append as AppendEffect
from quorumlog.events import (
    AppendRequested,
    CoreFactory,
    Effect,
    Event,
    Flushed,
    LogRead,
    Outcome,
    ReadIndexRequested,
    ReadLog,
    Received,
    Resolved,
    Send,
    Started,
    StartFlush,
    TimerFired,
)
from quorumlog.events import Truncate as TruncateEffect
from quorumlog.quorum import Voters
from quorumlog.raft.core import RaftCore
from quorumlog.raft.events import SaveVote, Timer, VoteSaved
from quorumlog.raft.index import LogIndex
from quorumlog.raft.messages import (
    AnyMessage,
    AppendEntries,
    AppendReply,
    Heartbeat,
    HeartbeatReply,
    VoteReply,
    VoteRequest,
)
from quorumlog.raft.rules import NOBODY
from quorumlog.raft.state import Configuration, Restored
from quorumlog.storage.batch import BatchKind, RecordBatch

Choose = Callable[[int], int]
"""``choose(n)`` is one of 0..n-1: what the specification leaves open."""

SECOND = 1_000_000_000
NODES = (0, 1, 2)
_LIMIT = 20


@dataclass(frozen=True, slots=True)
class State:
    """One state of a walk: the step that led to it and the specification's variables."""

    step: str
    node: int
    values: tuple[Any, ...]
    variables: Mapping[str, Any]


class DifferenceError(AssertionError):
    """The core did something else than the specification."""


def state_of(variables: Mapping[str, Any]) -> State:
    """Read the step out of the variable ``did``."""
    step, node, *values = variables["did"]
    return State(step, node if isinstance(node, int) else NOBODY, tuple(values), variables)


def _function(value: Any) -> dict[int, Any]:  # noqa: ANN401
    """A function as TLC prints it: a sequence where its domain is 1..n."""
    return {at + 1: item for at, item in enumerate(value)} if isinstance(value, tuple) else dict(value)


class _Node:
    """A core with what its driver would keep: disk, flushes under way, saved vote."""

    def __init__(self, node: int, write_caching: bool, make_core: CoreFactory) -> None:
        self.configuration = Configuration(node=node, voters=Voters(NODES), write_caching=write_caching)
        self.make_core = make_core
        self.saved = (0, NOBODY)
        self.batches: list[RecordBatch] = []
        self.flushes: list[int] = []
        self.start(0)

    def start(self, keep: int) -> None:
        """Begin a new incarnation with the first ``keep`` batches."""
        del self.batches[keep:]
        index = LogIndex.of((batch.base_offset, batch.last_offset, batch.term) for batch in self.batches)
        self.core = self.make_core(self.configuration, Restored(*self.saved, index))
        self.flushes.clear()


class Replay:
    """Cores of one cluster that follow a walk."""

    def __init__(self, write_caching: bool, choose: Choose, make_core: CoreFactory = RaftCore) -> None:
        self.nodes = {node: _Node(node, write_caching, make_core) for node in NODES}
        self.choose = choose
        self.now = 0
        self.requests = 0
        self.batches: dict[
            tuple[int, int], RecordBatch
        ] = {}  # (offset, term) -> the batch; one value an offset and term
        self.appends: dict[int, tuple[int, int]] = {}  # request -> (offset, term)
        self.answers: set[tuple[int, int, str]] = set()
        self.write_caching = write_caching
        self.reads: dict[int, tuple[int, int]] = {}  # request -> its node, what had been acknowledged when it came
        self.outbox: list[tuple[int, Send]] = []
        self.votes: dict[tuple[int, int], set[int]] = {}  # (term, candidate) -> voters
        self.before: State | None = None
        for node in NODES:
            self.handle(node, Started())

    def follow(self, walk: Sequence[State]) -> None:
        """Take every step and compare; raises DifferenceError."""
        for number, state in enumerate(walk):
            if self.before is not None:
                getattr(self, f"_{_snake(state.step)}")(state)
            self.before = state
            # Where the walk ends, the second half of what the core does in one event may be missing.
            if number + 1 < len(walk) and not _completes(walk[number + 1], state):
                self._compare(state)
                self._ask_reads(state.variables)

    # -- events ---------------------------------------------------------------------------------------------------

    def handle(self, node: int, event: Event, passing: int = 10 * SECOND) -> list[Effect]:
        """Hand one event to a core and carry its effects out; time passes, so that nobody counts as heard."""
        self.now += passing
        holder = self.nodes[node]
        effects = holder.core.handle(self.now, event)
        for effect in effects:
            if isinstance(effect, AppendEffect):
                holder.batches.extend(effect.batches)
                for batch in effect.batches:
                    self.batches.setdefault((batch.base_offset, batch.term), batch)
            elif isinstance(effect, TruncateEffect):
                del holder.batches[effect.offset :]
            elif isinstance(effect, StartFlush):
                holder.flushes.append(effect.ticket)
            elif isinstance(effect, Send):
                self.outbox.append((node, effect))
            elif isinstance(effect, Resolved) and effect.request in self.appends:
                offset, term = self.appends.pop(effect.request)
                outcome = "success" if effect.outcome is Outcome.SUCCESS else "truncated"
                self.answers.add((offset + 1, term, outcome))
            elif isinstance(effect, Resolved) and effect.request in self.reads:
                _, acknowledged = self.reads.pop(effect.request)
                if effect.outcome is Outcome.SUCCESS and holder.core.commit + 1 < acknowledged:
                    raise DifferenceError(f"node {node} serves a read up to {holder.core.commit + 1} of {acknowledged}")
        saving = False
        for effect in effects:
            if saving and isinstance(effect, Send):
                raise DifferenceError(f"node {node} sends {effect.message} before its term and vote are durable")
            saving = saving or isinstance(effect, SaveVote)
        for effect in effects:
            if isinstance(effect, SaveVote):
                holder.saved = (effect.term, effect.voted_for)
                self.handle(node, VoteSaved(effect.ticket))
            elif isinstance(effect, ReadLog):
                self.handle(node, LogRead(effect.ticket, tuple(holder.batches[effect.start : effect.start + 2])))
        return effects

    def deliver(self, sender: int, to: int, message: AnyMessage) -> None:
        """Hand over a message."""
        self.handle(to, Received(sender, message))

    def _leader_of(self, term: int) -> int:
        """Who led ``term``, as far as a message needs a sender."""
        return next(candidate for (at, candidate), voters in self.votes.items() if at == term and len(voters) > 1)

    # -- elections ------------------------------------------------------------------------------------------------

    def _update_term(self, state: State) -> None:
        other = (state.node + 1) % len(NODES)
        self.deliver(other, state.node, VoteReply(state.values[0], 0, False, False))

    def _stand_for_election(self, state: State) -> None:
        node, before = state.node, self._before.variables
        sent = self._sends(node, lambda: self.handle(node, TimerFired(Timer.ELECTION)))
        for to, request in sent:
            if isinstance(request, VoteRequest) and request.pre_vote:
                if before["role"][to] == "leader" or before["term"][to] > before["term"][node]:
                    continue
                for _, reply in self._sends(to, lambda to=to, request=request: self.deliver(node, to, request)):
                    self.deliver(to, node, reply)
        self.votes[state.variables["term"][node], node] = {node}

    def _give_vote(self, state: State) -> None:
        node, candidate = state.node, state.values[0]
        asked = next(
            record
            for record in self._before.variables["asked"]
            if record["node"] == candidate and record["term"] == state.variables["term"][node]
        )
        request = VoteRequest(asked["term"], candidate, asked["lastTerm"], asked["dirty"] - 1, False)
        sent = self._sends(node, lambda: self.deliver(candidate, node, request))
        self._expect(any(isinstance(m, VoteReply) and m.granted for _, m in sent), state, "the vote is not given")
        self.votes[asked["term"], candidate].add(node)

    def _step_down(self, state: State) -> None:
        self._hear(state.node, previous=len(self._request(state.node)["log"]))

    def _leave_office(self, state: State) -> None:
        self.handle(state.node, TimerFired(Timer.HEARTBEAT))

    def _become_leader(self, state: State) -> None:
        pass

    def _append_configuration(self, state: State) -> None:
        node, term = state.node, state.variables["term"][state.node]
        for voter in sorted(self.votes[term, node] - {node}):
            self.deliver(voter, node, VoteReply(term, term, False, True))

    # -- the leader -----------------------------------------------------------------------------------------------

    def _client_append(self, state: State) -> None:
        node, acks = state.node, state.values[0]
        self.requests += 1
        batch = RecordBatch(
            base_offset=0,
            term=0,
            kind=BatchKind.DATA,
            record_count=1,
            acks=acks,
            payload=self.requests.to_bytes(8, "big"),
        )
        if acks == -1:
            core = self.nodes[node].core
            self.appends[self.requests] = (core.dirty + 1, core.term)
        self.handle(node, AppendRequested(self.requests, batch))
        self.handle(node, TimerFired(Timer.DRAIN))

    def _hear_reply(self, state: State) -> None:
        """A heartbeat goes out; its reply says what the follower was. It may come twice, or an older one late."""
        leader, (follower, said) = state.node, state.values
        if state.variables["term"][follower] != state.variables["term"][leader]:
            self._forget_reads(leader)  # it answered before it left the term, and not after they were asked for
        core = self.nodes[leader].core
        for follower_progress in core.progress.values():
            follower_progress.heard = self.now  # often enough for the leader to keep its office
        sent = self._sends(leader, lambda: self.handle(leader, TimerFired(Timer.HEARTBEAT), 0))
        sequence = next(m.sequence for to, m in sent if to == follower and isinstance(m, Heartbeat))
        core = self.nodes[leader].core
        reply = HeartbeatReply(core.term, sequence, True, said["match"] - 1, said["flushed"] - 1, said["dirty"] - 1)
        self.deliver(follower, leader, reply)
        if self.choose(2):
            self.deliver(follower, leader, reply)
        if self.choose(2):  # from before the follower's log was cut back: as long as the leader's, but another one
            self.deliver(follower, leader, HeartbeatReply(core.term, sequence - 1, False, -1, core.dirty, core.dirty))

    def _count(self, state: State) -> None:
        pass

    # -- a follower -----------------------------------------------------------------------------------------------

    def _request(self, node: int) -> Mapping[str, Any]:
        """What the leader of the node's term may have sent it."""
        before = self._before.variables
        request: Mapping[str, Any] = _function(before["sent"])[before["term"][node]]
        return request

    def _hear(self, node: int, *, previous: int, commit: int = 0, visible: int = 0) -> None:
        """A heartbeat."""
        term = self.nodes[node].core.term
        log = self._request(node)["log"]
        previous_term = log[previous - 1]["term"] if previous else -1
        self.deliver(
            self._leader_of(term), node, Heartbeat(term, 0, previous - 1, previous_term, commit - 1, visible - 1)
        )

    def _follower_append(self, state: State) -> None:
        """A request with the next entry, perhaps also with some before it that are there already.

        If it truncates, the flushes that were begun before end after it, and count for nothing.
        """
        node, log = state.node, self._request(state.node)["log"]
        holder = self.nodes[node]
        stale = []
        if len(holder.batches) > len(self._before.variables["log"][node]):
            self.handle(node, TimerFired(Timer.FLUSH))
            stale = list(holder.flushes)
        end = len(state.variables["log"][node])
        previous = self.choose(end)
        batches = tuple(self.batches[at, log[at]["term"]] for at in range(previous, end))
        term = self.nodes[node].core.term
        previous_term = log[previous - 1]["term"] if previous else -1
        request = AppendEntries(term, 0, previous - 1, previous_term, -1, -1, bool(self.choose(2)), batches)
        self.deliver(self._leader_of(term), node, request)
        for ticket in stale:
            holder.flushes.remove(ticket)
            self.handle(node, Flushed(ticket))
        if end > 1 and self.choose(2):  # an old request comes once more
            self.deliver(
                self._leader_of(term), node, AppendEntries(term, 0, -1, -1, -1, -1, False, self._old(log, end))
            )

    def _old(self, log: tuple[Any, ...], end: int) -> tuple[RecordBatch, ...]:
        return tuple(self.batches[at, log[at]["term"]] for at in range(1 + self.choose(end)))

    def _wait(self, state: State) -> None:
        """What the specification has no step for must change nothing: votes that are not to be given, a flush begun."""
        spec = state.variables
        for asked in spec["asked"]:
            for node in NODES:
                if asked["term"] == spec["term"][node] and asked["node"] != node and not _may_vote(spec, node, asked):
                    request = VoteRequest(asked["term"], asked["node"], asked["lastTerm"], asked["dirty"] - 1, False)
                    self.deliver(asked["node"], node, request)
        self.handle(self.choose(len(NODES)), TimerFired(Timer.FLUSH))

    def _ask_reads(self, spec: Mapping[str, Any]) -> None:
        """Ask every leader for a linearizable read, also one that is one no more; what confirms that it is comes later.

        Under write caching a power loss takes what was acknowledged.
        """
        said = [answer["index"] for answer in spec["answered"] if answer["outcome"] == "success"]
        if self.write_caching and spec["powerLosses"]:
            return
        leaders = {node for node in NODES if spec["role"][node] == "leader"}
        for node in sorted(leaders - {node for node, _ in self.reads.values()}):
            self.requests += 1
            self.reads[self.requests] = node, max(said, default=0)
            self.handle(node, ReadIndexRequested(self.requests))

    def _forget_reads(self, node: int) -> None:
        self.reads = {request: read for request, read in self.reads.items() if read[0] != node}

    def _follower_truncate(self, state: State) -> None:
        pass

    def _follower_hears_commit(self, state: State) -> None:
        self._hear(state.node, previous=state.values[1], commit=state.values[0])

    def _follower_hears_visible(self, state: State) -> None:
        self._hear(state.node, previous=state.values[1], visible=state.values[0])

    # -- disks ----------------------------------------------------------------------------------------------------

    def _flush(self, state: State) -> None:
        """All flushes end, the last begun first, until everything is durable."""
        holder = self.nodes[state.node]
        for _ in range(_LIMIT):
            if holder.core.flushed == holder.core.dirty and not holder.flushes:
                return
            if not holder.flushes:
                self.handle(state.node, TimerFired(Timer.FLUSH))
            self._expect(bool(holder.flushes), state, "no flush is begun")
            flushed = holder.core.flushed
            self.handle(state.node, Flushed(holder.flushes.pop()))
            self._expect(holder.core.flushed >= flushed, state, "the flushed offset moves back")
        raise DifferenceError(f"{state.step}: node {state.node} goes on flushing")

    def _crash(self, state: State) -> None:
        self._restart(state.node, len(self.nodes[state.node].batches))

    def _power_loss(self, state: State) -> None:
        if self.write_caching:
            self.reads.clear()
        self._restart(state.node, state.values[0])

    def _restart(self, node: int, keep: int) -> None:
        holder = self.nodes[node]
        for request, (_, term) in list(self.appends.items()):
            if self._appended_by(node, term):
                del self.appends[request]
        self._forget_reads(node)
        holder.start(keep)
        self.handle(node, Started())

    def _appended_by(self, node: int, term: int) -> bool:
        return (term, node) in self.votes and self._leader_of(term) == node

    # -- comparing ------------------------------------------------------------------------------------------------

    @property
    def _before(self) -> State:
        assert self.before is not None
        return self.before

    def _sends(self, node: int, act: Callable[[], object]) -> list[tuple[int, AnyMessage]]:
        """What a node sends while something is done."""
        first = len(self.outbox)
        act()
        return [(send.to, send.message) for sender, send in self.outbox[first:] if sender == node]

    def _expect(self, condition: bool, state: State, problem: str) -> None:
        if not condition:
            raise DifferenceError(f"{state.step} of node {state.node}: {problem}")

    def _compare(self, state: State) -> None:
        spec = state.variables
        for node, holder in self.nodes.items():
            core = holder.core
            mine = {
                "term": core.term,
                "vote": core.voted_for,
                "role": core.role,
                "dirty": core.dirty + 1,
                "flushed": core.flushed + 1,
                "commit": core.commit + 1,
                "visible": core.visible + 1,
                "majorityReplicated": core.majority_replicated + 1,
                "visibilityUpperBound": core.visibility_upper_bound + 1,
                "log": tuple(batch.term for batch in holder.batches),
            }
            theirs = {
                "term": spec["term"][node],
                "vote": spec["vote"][node] if isinstance(spec["vote"][node], int) else NOBODY,
                "role": spec["role"][node],
                "dirty": len(spec["log"][node]),
                "flushed": spec["flushed"][node],
                "commit": spec["commit"][node],
                "visible": min(spec["majorityReplicated"][node], spec["visibilityUpperBound"][node]),
                "majorityReplicated": spec["majorityReplicated"][node],
                "visibilityUpperBound": spec["visibilityUpperBound"][node],
                "log": tuple(entry["term"] for entry in spec["log"][node]),
            }
            if core.role == "leader":
                mine["lastQuorumWrite"] = core.last_quorum_write + 1
                theirs["lastQuorumWrite"] = spec["lastQuorumWrite"][node]
            for name, value in mine.items():
                self._expect(value == theirs[name], state, f"node {node} has {name} {value}, the spec {theirs[name]}")
        answered = {(answer["index"], answer["term"], answer["outcome"]) for answer in spec["answered"]}
        self._expect(self.answers == answered, state, f"answered {self.answers}, in the spec {answered}")
        for sender, send in self.outbox:
            self._may_be_heard(state, sender, send)
        self.outbox.clear()

    def _may_be_heard(self, state: State, sender: int, send: Send) -> None:
        """Whether the specification lets this message arrive."""
        spec, message = state.variables, send.message
        if isinstance(message, AppendEntries | Heartbeat):
            request = _function(spec["sent"]).get(message.term)
            if request is None:
                return  # everybody has left that term
            log = request["log"]
            self._expect(
                message.commit < request["commit"] + 0 or message.commit == request["commit"] - 1,
                state,
                f"sends commit {message.commit + 1} of {request['commit']}",
            )
            self._expect(
                message.visible < request["visible"],
                state,
                f"sends visible {message.visible + 1} of {request['visible']}",
            )
            if message.previous >= 0:
                self._expect(log[message.previous]["term"] == message.previous_term, state, "sends another log")
            for batch in message.batches if isinstance(message, AppendEntries) else ():
                self._expect(log[batch.base_offset]["term"] == batch.term, state, "sends entries that it has not")
        elif isinstance(message, AppendReply | HeartbeatReply) and message.success:
            replies = _function(spec["replies"])
            if send.to in replies and message.term == spec["term"][send.to]:
                said = _function(replies[send.to])[sender]
                self._expect(
                    any(
                        message.match < r["match"] and message.flushed < r["flushed"] and message.dirty < r["dirty"]
                        for r in said
                    ),
                    state,
                    f"node {sender} answers {message}, which the spec does not know",
                )
        elif isinstance(message, VoteRequest) and not message.pre_vote:
            asked = {(a["term"], a["node"], a["lastTerm"], a["dirty"]) for a in spec["asked"]}
            here = (message.term, message.candidate, message.last_term, message.dirty + 1)
            self._expect(here in asked, state, f"asks for votes with {here}")
        elif isinstance(message, VoteReply) and message.granted and not message.pre_vote:
            self._expect(spec["vote"][sender] == send.to, state, f"node {sender} votes for {send.to}")


def _may_vote(spec: Mapping[str, Any], node: int, asked: Mapping[str, Any]) -> bool:
    """Whether ``GiveVote`` is a step here, or was (to ask again changes nothing)."""
    log = spec["log"][node]
    last_term = log[-1]["term"] if log else -1
    up_to_date = (asked["lastTerm"], asked["dirty"]) >= (last_term, len(log))
    return spec["role"][node] == "follower" and up_to_date and spec["vote"][node] in ("Nobody", asked["node"])


def _completes(state: State, before: State) -> bool:
    """Whether this step of the specification is the second half of what the core does in one event."""
    return state.step in ("AppendConfiguration", "Count") or before.step == "FollowerTruncate"


def _snake(name: str) -> str:
    return "".join(f"_{letter.lower()}" if letter.isupper() else letter for letter in name).lstrip("_")
