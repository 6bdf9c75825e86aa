"""Safety of Raft with flush and crash, for all numbers of nodes, terms and offsets, as an inductive invariant.

Two layers. The first knows quorums and proves *leader completeness*: what was committed is in the log of every later
leader. The second takes that as a fact, forgets quorums, and proves what a user cares about: committed entries are
flushed, no two nodes commit different entries, no node ever cuts off what it committed. The key conjunct is
``replied-is-durable``: while an entry of some term can still be committed (``choosable``), every node that was
counted for it has it on disk; a power loss cannot undo what a leader counts on.
"""

# A short formula reads best as a named lambda; z3 has no type hints.
# ruff: noqa: E731
# mypy: disable-error-code="no-untyped-call"

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import lru_cache, partial

import z3

from logspec.proofs import quorums
from logspec.proofs.claims import Claim, Proof, Rules, Twin
from logspec.proofs.pictures import picture
from logspec.proofs.raft_invariants import (
    FACTS,
    agreement,
    commit_invariants,
    facts,
    gaplessness,
    invariants,
    invariants_with,
)
from logspec.proofs.raft_state import (
    BEFORE,
    NOBODY,
    STEPS,
    Choice,
    Commit,
    Name,
    State,
    Step,
    append_entries,
    ask_for_votes,
    axioms,
    become_leader,
    begin_flush,
    count_own,
    end_flush,
    follow_commit,
    grant_vote,
    install_snapshot,
    leader_append,
    leader_commit,
    reply,
    restart,
    save_vote,
    send_vote,
    start,
    step_down,
    take_snapshot,
    tell_commit,
    time_out,
    truncate_and_append,
)
from logspec.proofs.vocabulary import (
    Count,
    Formula,
    Index,
    Node,
    Offset,
    Quorum,
    TermSort,
    exists,
    forall,
    goal_wanted,
    implies,
    is_scoped,
    member,
    quorums_intersect,
)


def _quorums(without: frozenset[str]) -> list[Formula]:
    return [] if "quorums-intersect" in without else [quorums_intersect()]


def _without(formulas: Mapping[str, Formula], without: frozenset[str]) -> list[Formula]:
    return [formula for key, formula in formulas.items() if key not in without]


SUFFIX_IS_COMPARED, INSTALL_IS_DURABLE = "suffix-is-compared", "install-is-durable"
TERM_IS_SAVED, PREVIOUS_IS_COMPARED = "term-is-saved", "previous-is-compared"
ANSWERS_IN_TERM = "answers-in-term"

SIZES = {Node: 3, Index: 3, TermSort: 4, Count.sort: 2, Commit: 2, Quorum: 3, Name: 4, **quorums.SIZES}
"""Counterexamples are looked for with three nodes, two entries, three terms beside the first."""


@dataclass(frozen=True)
class Known:
    """What is known before a step, by layer."""

    first: Mapping[str, Formula]
    gaps: Mapping[str, Formula]
    second: Mapping[str, Formula]
    axioms: list[Formula]

    def tidy(self) -> list[Formula]:
        """All that holds in a state that can be reached, as far as it is known."""
        return [
            *self.first.values(),
            *self.gaps.values(),
            *self.second.values(),
            forall(Node, lambda n: exists(TermSort, lambda t: BEFORE.at(n, t))),
            forall(Node, lambda n: exists(TermSort, lambda t: BEFORE.disk_at(n, t))),
            forall(Node, lambda n: exists(Quorum, lambda q: z3.Not(member(n, q)))),
        ]


@dataclass(frozen=True)
class World:
    """What a state is taken for: ``see`` may identify variables, so that one proof serves two statements.

    ``names``: what an invariant says in this world, where that has another name. ``counting``: the rules that say who
    agreed; that they count quorums, and that any two of these intersect, is what the steps take for granted.
    """

    see: Callable[[State], State]
    names: Mapping[str, str] = field(default_factory=dict, hash=False)
    counting: tuple[str, ...] = ("vote-result", "commit-candidate")

    def before(self) -> State:
        """The state before a step, as this world sees it."""
        return self.see(BEFORE)

    def named(self, goals: Mapping[str, Formula]) -> dict[str, Formula]:
        """The goals by their names in this world."""
        return {self.names.get(name, name): goal for name, goal in goals.items()}

    def invariant(self, name: str) -> str:
        """The invariant that has this name in this world."""
        return next((own for own, here in self.names.items() if here == name), name)


def _as_it_is(s: State) -> State:
    return s


POWER_LOSS = World(_as_it_is)
"""What is dirty may be lost."""


@lru_cache(maxsize=4)
def known_before(scoped: bool, world: World = POWER_LOSS) -> Known:
    """Built once for each world, with quantifiers and, for counterexamples, without."""
    s = world.before()
    return Known(invariants(s), gaplessness(s), commit_invariants(s), axioms())


def claims(
    rules: Rules, without: frozenset[str] = frozenset(), world: World = POWER_LOSS
) -> dict[str, Callable[[], Claim]]:
    """Runs in which every step happens (vacuity), the initial state, for each step what it must keep, and quorums."""
    made: dict[str, Callable[[], Claim]] = {run: partial(_reachable, run, rules, world) for run in runs_in(world, RUNS)}
    made["start"] = partial(_start, without, world)
    made["agreement"] = partial(_agreement, world)
    for make in STEPS:
        name_of_step = make.__name__.replace("_", "-")
        made[f"{name_of_step}/logs"] = partial(_keeps_logs, make, rules, without, world)
        made[f"{name_of_step}/gaps"] = partial(_keeps_gapless, make, rules, world)
        made[f"{name_of_step}/commits"] = partial(_keeps_commits, make, rules, without, world)
    return made | {f"quorums/{name}": claim for name, claim in quorums.claims(rules, world.counting).items()}


def _start(without: frozenset[str], world: World) -> Claim:
    s = world.see(start())
    goals = {**invariants(s), **gaplessness(s), **commit_invariants(s)}
    return Claim([*axioms(), *_quorums(without)], world.named(goals))


def _agreement(world: World) -> Claim:
    """No two nodes commit different entries: it follows in every state."""
    s, known = world.before(), known_before(is_scoped(), world)
    assume = [*known.axioms, *facts(known.first), *known.second.values()]
    return Claim(assume, world.named(agreement(s)), picture(s, s), known.tidy())


def _take(make: MakeStep, rules: Rules, without: frozenset[str], world: World) -> Step:
    step = make(world.before(), rules, Choice())
    if make is install_snapshot:
        compared, durable = SUFFIX_IS_COMPARED not in without, INSTALL_IS_DURABLE not in without
        step = install_snapshot(world.before(), rules, Choice(), compared=compared, durable=durable)
    if make is append_entries:
        step = append_entries(world.before(), rules, Choice(), compared=PREVIOUS_IS_COMPARED not in without)
    if make is reply:
        step = reply(world.before(), rules, Choice(), in_term=ANSWERS_IN_TERM not in without)
    if make is take_snapshot:
        step = take_snapshot(world.before(), rules, Choice(), saved=TERM_IS_SAVED not in without)
    if "truncation-lowers-flushed" in without:
        return replace(step, after=replace(step.after, flushed=BEFORE.flushed))
    return replace(step, after=world.see(step.after))


def _keeps_logs(make: MakeStep, rules: Rules, without: frozenset[str], world: World) -> Claim:
    """The first layer is inductive."""
    step, known = _take(make, rules, without, world), known_before(is_scoped(), world)
    assume = [*known.axioms, *_quorums(without), *_without(known.first, without), step.guard]
    tidy = [] if without else known.tidy()
    wanted = world.invariant(goal_wanted())
    after = invariants_with(step.after, [wanted]) if wanted else invariants(step.after)
    goals = world.named({**after, **_permanent(step.after)})
    return Claim(assume, goals, picture(world.before(), step.after), tidy)


def _permanent(after: State) -> dict[str, Formula]:
    """What never moves back: terms on disk, leaders' logs, what was committed. Other proofs may look back.

    What follows from the invariants and has its own name is here as well.
    """
    s, T, I = BEFORE, TermSort, Index  # noqa: E741, N806
    kept = lambda e: z3.And(
        after.happened(e),
        after.commit_term(e) == s.commit_term(e),
        after.commit_offset(e) == s.commit_offset(e),
    )
    return {
        "leader-append-only": forall(T, I, T, lambda t, i, u: implies(s.term_log(t, i, u), after.term_log(t, i, u))),
        "term-monotonic": forall(Node, T, lambda n, t: implies(s.gone(n, t), after.gone(n, t))),
        "flushed-within-dirty": forall(Node, lambda n: Offset.at_most(after.flushed(n), after.dirty(n))),
        "commits-stay": forall(Commit, lambda e: implies(s.happened(e), kept(e))),
    }


def _keeps_gapless(make: MakeStep, rules: Rules, world: World) -> Claim:
    step, known = _take(make, rules, frozenset(), world), known_before(is_scoped(), world)
    assume = [*known.axioms, *facts(known.first), *known.gaps.values(), step.guard]
    return Claim(assume, gaplessness(step.after), picture(world.before(), step.after), known.tidy())


def _keeps_commits(make: MakeStep, rules: Rules, without: frozenset[str], world: World) -> Claim:
    """The second layer is inductive, given what the first says before and after the step."""
    step, known = _take(make, rules, without, world), known_before(is_scoped(), world)
    assume = [*known.axioms, *facts(known.first), *facts(invariants_with(step.after, FACTS))]
    assume += [*_without(known.second, without), step.guard]
    goals = world.named(commit_invariants(step.after))
    return Claim(assume, goals, picture(world.before(), step.after), known.tidy())


MakeStep = Callable[[State, Rules, Choice], Step]
Run = Sequence[tuple[MakeStep, str]]

ELECTS_FIRST: Run = (
    (time_out, "n1"), (save_vote, "n1"), (ask_for_votes, "n1"), (grant_vote, "n2"), (save_vote, "n2"), (send_vote,
    "n2"),
    (become_leader, "n1"), (leader_append, "n1"),
)  # fmt: skip

COMMITS_FIRST: Run = (
    *ELECTS_FIRST,
    (begin_flush, "n1"), (end_flush, "n1"), (append_entries, "n2"), (begin_flush, "n2"), (end_flush, "n2"),
    (reply, "n2"), (count_own, "n1"), (leader_commit, "n1"), (tell_commit, "n1"),
)  # fmt: skip

RUNS: Mapping[str, Run] = {
    "a-run-that-commits": (*COMMITS_FIRST, (follow_commit, "n2"), (take_snapshot, "n2"), (restart, "n2")),
    "a-run-that-installs": (
        *COMMITS_FIRST, (step_down, "n3"), (save_vote, "n3"), (install_snapshot, "n3"), (restart, "n3"),
    ),
    "a-run-that-loses": (*ELECTS_FIRST, (restart, "n1")),
    "a-run-that-truncates": (
        *ELECTS_FIRST,
        (time_out, "n2"), (save_vote, "n2"), (ask_for_votes, "n2"), (grant_vote, "n3"), (save_vote, "n3"),
        (send_vote, "n3"), (become_leader, "n2"), (leader_append, "n2"), (truncate_and_append, "n1"), (step_down, "n2"),
        (restart, "n2"),
    ),
}  # fmt: skip
"""Runs from the empty state that take every step at least once: the steps are possible, and so are the invariants."""

LOSES = "a-run-that-loses"
ENDS: Mapping[str, tuple[str, Callable[[State, z3.ExprRef], Formula]]] = {
    "a-run-that-commits": ("n2", lambda s, n: s.commit(n) != Offset.least),
    "a-run-that-installs": ("n3", lambda s, n: s.commit(n) != Offset.least),
    LOSES: ("n1", lambda s, n: s.dirty(n) == Offset.least),
}
"""What such a run comes to: what somebody knows to be committed after a restart, or that what was not flushed is
lost."""


def runs_in(world: World, runs: Mapping[str, Run]) -> dict[str, Run]:
    """The runs that there are in a world: nothing is lost where no power is."""
    return {name: run for name, run in runs.items() if name != LOSES or world is POWER_LOSS}


def comes_to(run_name: str, state: State, nodes: Mapping[str, z3.ExprRef]) -> list[Formula]:
    """What holds at the end of a run."""
    if run_name not in ENDS:
        return []
    label, end = ENDS[run_name]
    return [end(state, nodes[label])]


def _reachable(run_name: str, rules: Rules, world: World) -> Claim:
    """Every step of a run is possible after those before it."""
    nodes = {label: z3.Const(label, Node) for label in ("n1", "n2", "n3")}
    state, run = world.see(start()), RUNS[run_name]
    assume = [*axioms(), quorums_intersect(), z3.Distinct(*nodes.values())]
    for number, (make, label) in enumerate(run):
        choice = Choice(f"_{number}")
        step = make(state, rules, choice)
        assume += [choice.n == nodes[label], step.guard]
        state = world.see(step.after)
    return Claim([*assume, *comes_to(run_name, state, nodes)])


TWINS = (
    Twin(
        "commit-counts-dirty",
        "an offset that is only dirty is counted as durable",
        "reply/logs",
        "replied-is-durable",
        {"replicated_flushed": lambda dirty, flushed, match: min(dirty, match)},
    ),
    Twin(
        "commit-ignores-match",
        "a flushed tail of another log is counted",
        "reply/logs",
        "replied-is-durable",
        {"replicated_flushed": lambda dirty, flushed, match: flushed},
    ),
    Twin(
        "commit-old-term",
        "a leader commits by an entry of an older term",
        "leader-commit/logs",
        "commit-current-term",
        {"may_commit": lambda candidate, commit, candidate_term, current_term: candidate > commit},
    ),
    Twin(
        "follower-commit-unclamped",
        "a follower takes over the leader's commit index",
        "follow-commit/commits",
        "commit-within-flushed",
        {"follower_commit": lambda commit, leader_commit, flushed, verified: max(commit, leader_commit)},
    ),
    Twin(
        "follower-commit-unverified",
        "a follower commits a flushed tail that its leader does not have",
        "follow-commit/commits",
        "committed-entries-are-the-committed-ones",
        {"follower_commit": lambda commit, leader_commit, flushed, verified: max(commit, min(leader_commit, flushed))},
    ),
    Twin(
        "flush-ignores-truncation",
        "a flush that a truncation overtook counts for what was appended since",
        "end-flush/logs",
        "flushed-durable",
        {"accept_flush": lambda truncations_at_start, truncations_now: True},
    ),
    Twin(
        "flush-assigns",
        "an older flush that ends later takes the flushed offset back",
        "end-flush/commits",
        "commit-within-flushed",
        {"flushed_after": lambda flushed, captured: captured},
    ),
    Twin(
        "duplicate-truncates",
        "a delayed duplicate cuts off what matches",
        "truncate-and-append/commits",
        "commit-within-flushed",
        {"batch_matches": lambda term_here, term_there: False},
    ),
    Twin(
        "holds-by-offset",
        "a follower appends behind any entry at the offset before",
        "append-entries/logs",
        "log-matching",
        without=frozenset({PREVIOUS_IS_COMPARED}),
    ),
    Twin(
        "answers-of-later-terms",
        "an answer given in a later term counts for the leader of an earlier one",
        "reply/logs",
        "choosable-is-in-later-logs",
        without=frozenset({ANSWERS_IN_TERM}),
    ),
    Twin(
        "vote-twice",
        "a node that steps down forgets its vote",
        "step-down/logs",
        "vote-on-disk-is-the-vote",
        {"vote_after_step_down": lambda voted_for, old_term, new_term: NOBODY},
    ),
    Twin(
        "vote-for-all",
        "a node votes for any candidate that asks",
        "grant-vote/logs",
        "vote-on-disk-is-the-vote",
        {"grant_vote": lambda voted_for, candidate, candidate_log_ok, heard_leader: candidate_log_ok},
    ),
    Twin(
        "vote-for-a-shorter-log",
        "the up-to-date check looks at the offset alone",
        "grant-vote/logs",
        "vote-in-memory-is-for-a-complete-log",
        {"log_ok": lambda last_term, dirty, own_last_term, own_dirty: dirty >= own_dirty},
    ),
    Twin(
        "vote-ignores-log",
        "a vote is given to a candidate whose log is behind",
        "grant-vote/logs",
        "vote-in-memory-is-for-a-complete-log",
        {"log_ok": lambda last_term, dirty, own_last_term, own_dirty: True},
    ),
    Twin(
        "vote-not-durable",
        "a vote leaves before it is on disk",
        "send-vote/logs",
        "sent-vote-is-durable",
        {"vote_is_durable_first": lambda: False},
    ),
    Twin(
        "truncation-keeps-flushed",
        "truncation does not lower the flushed offset, so that what is appended again counts as flushed",
        "truncate-and-append/logs",
        "flushed-durable",
        without=frozenset({"truncation-lowers-flushed"}),
    ),
    Twin(
        "suffix-kept-unchecked",
        "a follower keeps what lies behind an installed snapshot without comparing the term",
        "install-snapshot/logs",
        "verified-is-equal",
        without=frozenset({SUFFIX_IS_COMPARED}),
    ),
    Twin(
        "install-before-durable",
        "a snapshot is in use before it is durable",
        "install-snapshot/logs",
        "flushed-durable",
        without=frozenset({INSTALL_IS_DURABLE}),
    ),
    Twin(
        "sums-in-unsaved-term",
        "a node takes a snapshot in a term that a power loss can take back",
        "take-snapshot/commits",
        "summed-in-saved-term",
        without=frozenset({TERM_IS_SAVED}),
    ),
    Twin(
        "half-elects",
        "of an even number of voters one half elects",
        "quorums/vote-result",
        "two-quorums-intersect",
        {
            "vote_result": lambda voters, votes: (
                1 if 2 * sum([votes.get(node, False) for node in voters.current]) >= len(voters.current) else 0
            )
        },
    ),
    Twin(
        "quorums-need-not-intersect",
        "two majorities without a common member",
        "become-leader/logs",
        "one-leader-per-term",
        without=frozenset({"quorums-intersect"}),
    ),
    Twin(
        "without-the-key-conjunct",
        "nothing says that what was counted is durable",
        "grant-vote/logs",
        "vote-in-memory-is-for-a-complete-log",
        without=frozenset({"replied-is-durable"}),
    ),
)

ASSUMES = (
    "the voters stay the same",
    "what a log is trimmed of no step looks at, so that it counts as still there",
    "what was flushed survives a power loss, and what is written to a disk is read as it was written",
    "steps are those of raft_state, which the rules decide; an election takes the votes of a quorum and a commit counts"
    " one, as the claims quorums/ show of the rules",
)

PROOF = Proof(
    "raft-safety",
    ("raft.md#commit-index", "raft.md#flush", "raft.md#elections", "raft.md#truncation-crash-restart"),
    "With any number of nodes, terms and offsets, through crashes and power losses, no two nodes commit"
    " different entries, and what was committed is in every later leader's log and on the disks of a quorum.",
    claims,
    TWINS,
    SIZES,
    "all N",
    ASSUMES,
    protocol="raft",
)
