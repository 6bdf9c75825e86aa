"""The nodes' logs against each other: log matching, commitment, leader completeness, visibility, acknowledgements.

One pass keeps the tree of all logs (`tree`) and judges every event against it. Sources: raft.md#commit-index,
raft.md#visibility, raft.md#acks, raft.md#truncation-crash-restart, documents.md#raft-simplification-introduction.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from loghistory.arrays import Mask
from loghistory.schema import CLIENT_KINDS, END_KINDS, STATE_KINDS, Kind

from ...codes import (
    ACKED,
    APPEND,
    CARRIES_STATE,
    COMMIT,
    COMPACT,
    ENDS,
    ENQUEUE,
    FAIL,
    FAULT,
    FAULT_POWER,
    FAULT_WIPE,
    FLUSH,
    GAP,
    HEAL,
    INFO,
    INVOKE,
    IS_OF_CLIENT,
    KINDS,
    LEADER,
    NO_ACKS,
    NULL,
    OBSERVE,
    OK,
    OTHER,
    ROLE,
    ROLE_CANDIDATE,
    ROLE_LEADER,
    ROLE_LEARNER,
    START,
    STOP,
    TERM,
    TRIM,
    TRUNCATE,
    VOTE,
    among,
    how_many,
)
from ...codes import VISIBLE as SHOWN
from ...columns import Array, Columns
from ...contract import Family, Loss, Setting
from ...faults import (
    POWER,
    WIPE,
    Account,
    cause_of,
    empty_faults,
    empty_held,
    empty_ledger,
    fault_code,
    ledger_lines,
    note_end,
    note_fault,
    note_heal,
    note_leader,
    note_state,
    with_fault_room,
)
from ...findings import MAX_NODES, Findings
from ...hashing import roomy
from ...kernel import kernel, part
from ...sentences import NOTHING_OBSERVED
from ..configurations import NOT_READABLE, ConfiguredFold, majority_in
from ..protocol import RAFT
from ..voters import UNKNOWN_VOTERS, acts_as_voter, recorded_nothing
from .answers import answer, follower_shows, let_see, mark_visible, show_log
from .client_rules import (
    ANSWERED_BY_WHO_ACTED,
    OK_AFTER_ACKED,
    OK_AFTER_COMMIT,
    OK_NAMES_THE_ENTRY,
    READ_ENDS_IN_THE_LOG,
    READ_LEAVES_NOTHING_OUT,
    READ_SHOWS_THE_NODE,
    WRITTEN_AFTER_ASKED,
)
from .clients import end_of_life, enqueue, hear, may_have_run, retreat, settle, was_shown
from .commitment import commit_to, follower_commits, leader_commits, lose, take_office, writes_first
from .destroyed import destroy
from .kept import DIED, EMPTIED, LOST, RUNS, UNSURE, find_again, lose_end
from .log import append, flush, stand, truncate
from .rules import (
    ACK_RULE,
    ACKED_SURVIVES,
    APPEND_AT_END,
    CHECKS,
    COMMIT_CURRENT_TERM,
    COMMITTED_AGREE,
    COMMITTED_ON_MAJORITY,
    DIRTY_SURVIVES_CRASH,
    FLUSHED_DURABLE,
    FOLLOWER_COMMIT,
    FOLLOWER_VISIBLE,
    LEADER_APPEND_ONLY,
    LEADER_COMPLETENESS,
    LOG_TERMS,
    PENDING_NOT_VISIBLE,
    VISIBLE_ON_MAJORITY,
)
from .state import ANYBODY, SUSPECTS, Attempts, Clients, Cluster, Doubts, Former, Lives, Replicas, empty
from .state import with_room as with_rows
from .tree import (
    ACKED_ALL,
    ALIVE,
    ANSWERED_OK,
    ANY_ACKED,
    COMMITTED,
    DEAD,
    NONE,
    ROOT,
    UNKNOWN,
    Tree,
    at,
    before,
    empty_tree,
    members,
    unknown,
    with_room,
)


@part
def restart(tree: Tree, replicas: Replicas, cluster: Cluster, node: int, dirty: int, seq: int) -> None:
    """A node started with a log up to ``dirty``."""
    replicas.down[node] = 0
    replicas.leader_term[node] = NULL
    replicas.cut[node] = NONE
    replicas.commit[node] = NULL
    replicas.visible[node] = NULL
    replicas.trimmed[node] = NULL
    if cluster.shows[TRIM] and dirty != NULL:
        # The end of its last record may lack how far it had trimmed what it found.
        replicas.start[node] = max(replicas.start[node], dirty + 1)
    if dirty != NULL:
        tip = before(tree, replicas.tip[node], dirty + 1)
        if tip != replicas.tip[node] and replicas.takes[node] != NULL and cluster.write_caching[0]:
            destroy(tree, replicas, cluster, node, tip, replicas.takes[node], seq)
        if tree.last[tip] < dirty:
            cluster.has_unknown[0] = 1
            tip = unknown(tree, tip, dirty, seq)
        replicas.tip[node] = tip
        replicas.tip_seq[node] = seq


@kernel
def _scan(
    columns: Columns,
    tree: Tree,
    replicas: Replicas,
    cluster: Cluster,
    clients: Clients,
    attempts: Attempts,
    former: Former,
    lives: Lives,
    doubts: Doubts,
    account: Account,
    found: Findings,
) -> None:
    for i in range(len(columns.seq)):
        kind = columns.kind[i]
        seq = columns.seq[i]
        node = columns.node[i]
        if IS_OF_CLIENT[kind]:
            if columns.process[i] != NULL:
                hear(tree, replicas, cluster, clients, attempts, former, doubts, found, columns, i)
            continue
        if kind == HEAL:
            note_heal(account.faults, seq, columns.f[i], node)
            continue
        if kind == FAULT:
            f = columns.f[i]
            note_fault(account.faults, account.held, seq, f, node, True)
            if f in (FAULT_WIPE, FAULT_POWER):
                # Where no node is named it may have been any.
                for each in range(len(replicas.tip)):
                    if each != node and node >= 0:
                        continue
                    if f == FAULT_POWER:
                        replicas.takes[each] = POWER
                        continue
                    retreat(replicas, former, each, seq)
                    end_of_life(replicas, lives, each, seq)
                    replicas.running[each] = 0
                    replicas.start[each] = 0
                    replicas.trimmed[each] = NULL
                    destroy(tree, replicas, cluster, each, ROOT, WIPE, seq)
                    cluster.wiped[0] |= 1 << each
                    replicas.tip[each] = ROOT
                    replicas.tip_seq[each] = seq
                    replicas.flushed[each] = -1
                    replicas.flushed_seq[each] = seq
                    replicas.ended[each] = EMPTIED if node >= 0 else max(replicas.ended[each], UNSURE)
            continue
        if node < 0:
            continue
        cluster.shows[kind] = 1
        if not CARRIES_STATE[kind]:
            if kind in ENDS:
                replicas.leader_term[node] = NULL
                if replicas.down[node] <= 0:
                    replicas.down[node] = seq + 1
                elif kind != STOP:
                    may_have_run(doubts, node, replicas.down[node] - 1)
                if kind == STOP:
                    replicas.stated_seq[node] = seq
                elif replicas.running[node]:
                    end_of_life(replicas, lives, node, seq)
                    lose_end(tree, replicas, cluster, node, seq)
                replicas.running[node] = 0
                code = fault_code(kind, columns.reason[i])
                if kind != STOP:
                    note_fault(account.faults, account.held, seq, code, node, False)
                note_end(account.held, node, kind, seq)
                if kind != STOP and cause_of(code) >= 0:
                    replicas.takes[node] = cause_of(code)
                how = LOST if kind != STOP and cause_of(code) >= 0 else DIED
                replicas.ended[node] = max(replicas.ended[node], how)
            elif kind == ENQUEUE and columns.value[i] != NULL:
                enqueue(attempts, columns.value[i], seq)
            continue

        note_state(account.held, account.faults, node, columns.dirty[i], columns.flushed[i], seq)
        if kind == LEADER and columns.term[i] != NULL:
            note_leader(account.faults, node, columns.term[i])
        # What a node had before its first event is not known.
        first = replicas.begun[node] == NULL
        if first:
            replicas.begun[node] = 1 if kind == START else 0
        if kind == START:
            replicas.voters[node] = cluster.first[0]
            replicas.old[node] = 0
        if kind == START and replicas.running[node]:
            end_of_life(replicas, lives, node, seq)
            lose_end(tree, replicas, cluster, node, seq)
        term_before = replicas.term[node]
        term = columns.term[i]
        role = columns.role[i]
        if term != NULL:
            if term != replicas.term[node]:
                replicas.cut[node] = NONE
            replicas.term[node] = term
            if term != replicas.leader_term[node]:
                replicas.leader_term[node] = NULL
        if kind == ROLE and role != ROLE_LEADER:
            replicas.leader_term[node] = NULL
        if cluster.voters[0] >> node & 1:
            if role == ROLE_LEARNER and not cluster.changes[0]:
                cluster.stranger[0] = node
        elif kind in (VOTE, LEADER) or role in (ROLE_LEADER, ROLE_CANDIDATE):
            cluster.stranger[0] = node

        if kind != START and replicas.ended[node] != RUNS:
            if replicas.ended[node] == EMPTIED or replicas.down[node] > 0:
                cluster.happens[START] = 1
            replicas.ended[node] = RUNS
            replicas.lacks_until[node] = -1
        if kind == START or replicas.down[node] > 0:
            # Who was down and goes on has started, also where that was not recorded.
            dirty = columns.dirty[i] if kind != APPEND else columns.offset[i] - 1
            retreat(replicas, former, node, seq)
            if kind == START:
                find_again(tree, replicas, cluster, found, node, dirty, term_before, seq)
            restart(tree, replicas, cluster, node, dirty, seq)
            replicas.began[node] = term if kind == START else NULL
            replicas.began_seq[node] = seq
        tip = replicas.tip[node]
        over = kind == APPEND and columns.offset[i] <= tree.last[tip]
        falls = NULL < columns.commit[i] < replicas.commit[node] or NULL < columns.visible[i] < replicas.visible[node]
        if over or falls or kind == TRUNCATE:
            retreat(replicas, former, node, seq)
        if kind == APPEND:
            append(tree, replicas, cluster, found, columns, i)
            if not over and tree.parent[replicas.tip[node]] != tip:
                # It may be the log of another node by now, of which less is shown.
                was_shown(replicas, former, node, tip, seq)
        elif kind == TRUNCATE:
            truncate(tree, replicas, cluster, found, columns, i)
        elif kind == TRIM:
            replicas.start[node] = max(replicas.start[node], columns.offset[i])
            replicas.trimmed[node] = max(replicas.trimmed[node], columns.offset[i])
            replicas.trimmed_seq[node] = seq
            if columns.dirty[i] != NULL and columns.dirty[i] < columns.offset[i]:
                # Nothing is kept: the log was given up whole, to begin where its leader's begins. What the node had
                # before need not be what was committed there.
                retreat(replicas, former, node, seq)
                cluster.has_unknown[0] = 1
                replicas.cut[node] = NONE
                replicas.tip[node] = unknown(tree, ROOT, columns.dirty[i], seq)
                replicas.tip_seq[node] = seq
        elif kind == COMPACT:
            cluster.compacted[0] = 1
        if kind != GAP:
            replicas.gap[node] = NULL
        elif replicas.gap[node] == NULL:
            replicas.gap[node] = columns.offset[i]
            replicas.gap_last[node] = columns.last_offset[i]
        elif columns.offset[i] == replicas.gap_last[node] + 1:
            replicas.gap_last[node] = columns.last_offset[i]
        if role == ROLE_CANDIDATE and kind != TERM:
            stand(tree, replicas, found, node, seq)

        if replicas.takes[node] != NULL:
            replicas.takes[node] = NULL
        replicas.running[node] = 1
        replicas.stated_seq[node] = seq
        if columns.dirty[i] > tree.last[replicas.tip[node]]:
            cluster.has_unknown[0] = 1
        flushed = columns.flushed[i]
        if flushed != NULL:
            rises = flushed > replicas.flushed[node] and not first
            by_append = kind == APPEND and flushed == columns.last_offset[i]
            if rises and kind not in (FLUSH, START, TRIM) and not by_append:
                cluster.happens[FLUSH] = 1
            if kind == FLUSH and flushed >= 0:
                flush(tree, replicas, found, node, flushed, seq)
            replicas.flushed[node] = flushed
            replicas.flushed_seq[node] = seq
        if columns.dirty[i] != NULL:
            replicas.dirty[node] = columns.dirty[i]
            replicas.dirty_seq[node] = seq

        leads = replicas.leader_term[node] != NULL
        leader_seq = -1 if role == ROLE_LEADER else replicas.leader_seq[node]
        commit = columns.commit[i]
        if commit != NULL:
            old = replicas.commit[node]
            if commit != old:
                replicas.commit[node] = commit
                replicas.commit_seq[node] = seq
            if kind != START and commit >= 0 and (old == NULL or commit > old):
                if commit > cluster.top_commit[0]:
                    cluster.top_commit[0] = commit
                    cluster.top_commit_seq[0] = seq
                vertex = at(tree, replicas.tip[node], commit)
                if vertex != NONE:
                    commit_to(tree, replicas, cluster, account, found, node, vertex, seq)
                if not first:
                    cluster.happens[COMMIT] = 1
                    if leads:
                        leader_commits(tree, replicas, cluster, found, node, commit, vertex, leader_seq, seq)
                    else:
                        follower_commits(tree, replicas, cluster, found, node, commit, vertex, seq)
            if first and commit > cluster.most_commit[0]:
                cluster.most_commit[0] = commit
                cluster.most_commit_seq[0] = seq

        visible = columns.visible[i]
        if visible != NULL:
            old = replicas.visible[node]
            replicas.visible[node] = visible
            if visible >= 0 and (old == NULL or visible > old):
                vertex = at(tree, replicas.tip[node], visible)
                if vertex != NONE:
                    if kind == START:
                        mark_visible(tree, vertex)
                    else:
                        let_see(tree, replicas, cluster, found, node, visible, vertex, seq)
                if visible > cluster.most_visible[0] and (first or leads):
                    cluster.most_visible[0] = visible
                    cluster.most_visible_seq[0] = seq
                if not first and kind != START:
                    if kind != COMMIT or visible > commit:
                        cluster.happens[SHOWN] = 1
                    if not leads:
                        follower_shows(replicas, cluster, found, node, visible, seq)

        # A node that moves to a term states the role that it had before.
        if replicas.leader_term[node] != replicas.term[node] and kind != TERM:
            says = kind == LEADER or role == ROLE_LEADER
            if says or (kind == APPEND and role == OTHER and writes_first(tree, replicas, cluster, node, seq)):
                take_office(tree, replicas, cluster, found, node, seq)

        if kind == ACKED:
            answer(tree, replicas, cluster, account, found, columns, i)


@part
def may_be_held(tree: Tree, replicas: Replicas, cluster: Cluster, vertex: int) -> bool:
    """Whether ``vertex`` may be in a log of which that part is not known."""
    for node in range(-1, len(replicas.tip)):
        theirs = at(tree, cluster.committed[0] if node < 0 else replicas.tip[node], tree.base[vertex])
        if theirs != NONE and tree.flags[theirs] & UNKNOWN:
            return True
    return False


@kernel
def _close(
    tree: Tree,
    replicas: Replicas,
    cluster: Cluster,
    clients: Clients,
    attempts: Attempts,
    lives: Lives,
    doubts: Doubts,
    account: Account,
    found: Findings,
) -> None:
    """What the end of the history says of acknowledged entries, and of what clients were told."""
    for node in range(len(replicas.tip)):
        vertex = replicas.tip[node]
        while not tree.flags[vertex] & (COMMITTED | ALIVE):
            tree.flags[vertex] |= ALIVE
            vertex = tree.parent[vertex]
    for vertex in range(1, tree.used[0]):
        flags = tree.flags[vertex]
        if not flags & ANY_ACKED:
            continue
        if not flags & (COMMITTED | DEAD | ALIVE) and not may_be_held(tree, replicas, cluster, vertex):
            before_it = found.violated[ACKED_SURVIVES]
            lose(tree, replicas, cluster, account, found, vertex, -1)
            flags |= DEAD
            for node in range(len(replicas.tip)):
                if found.violated[ACKED_SURVIVES] > before_it and cluster.voters[0] >> node & 1:
                    show_log(tree, replicas, found, node, vertex)
        if flags & ACKED_ALL:
            if flags & (COMMITTED | DEAD):
                found.judged[ACKED_SURVIVES] += 1
            else:
                found.unjudged[ACKED_SURVIVES] += 1
    settle(tree, replicas, cluster, clients, lives, attempts, doubts, found)


class ReplicasFold(ConfiguredFold):
    """Judges the logs of all nodes of one log against each other."""

    checks = CHECKS

    def __init__(self, setting: Setting) -> None:
        super().__init__(setting)
        blank = {name: np.full(MAX_NODES, NULL, dtype=np.int64) for name in Replicas._fields}
        blank["tip"][:] = ROOT
        blank["cut"][:] = NONE
        for name in ("dirty_seq", "flushed_seq", "tip_seq", "lost_seq", "stated_seq", "former", "retreat_seq"):
            blank[name][:] = -1
        blank["lacks_until"][:] = -1
        for name in ("running", "ended", "start", "old"):
            blank[name][:] = 0
        self._replicas = Replicas(**blank)
        voters = min(len(setting.voters), MAX_NODES)
        start = dict.fromkeys(Cluster._fields, 0)
        start |= dict.fromkeys(("voters", "first"), (1 << voters) - 1)
        blank["voters"][:] = (1 << voters) - 1
        start |= {"write_caching": int(setting.write_caching), "committed": ROOT, "elected_term": NULL}
        start |= {"elected_twice": NULL, "idempotent": int(setting.idempotent)}
        start |= dict.fromkeys(
            (
                *("given_up_seq", "top_commit", "top_commit_seq", "stranger", "says_last", "acked_last"),
                *("passed_on", "divided", "outsider"),
            ),
            -1,
        )
        start |= dict.fromkeys(("most_commit", "most_commit_seq", "most_visible", "most_visible_seq"), -1)
        numbers_of = {name: np.array([number], dtype=np.int64) for name, number in start.items()}
        numbers_of["suspects"] = np.zeros((0, _OF_SUSPECT), dtype=np.int64)
        numbers_of["forks"] = np.zeros((0, 0, 2), dtype=np.int64)
        for name in ("shows", "happens"):
            numbers_of[name] = np.zeros(len(KINDS), dtype=np.int64)
        self._cluster = Cluster(**numbers_of)
        self._tree = empty_tree(voters)
        self._clients, self._attempts = empty(Clients), empty(Attempts)
        self._former, self._lives, self._doubts = empty(Former), empty(Lives), empty(Doubts)
        self._account = Account(empty_held(), empty_faults(), empty_ledger())
        self._unreadable = False

    def configured(self, node: int, halves: Sequence[int] | None) -> None:
        """See `ConfiguredFold`."""
        self._cluster.changes[0] = 1
        if halves is None:
            self._unreadable = True
        elif node >= 0:
            self._replicas.voters[node], self._replicas.old[node] = halves
            self._cluster.voters[0] |= halves[0] | halves[1]

    def run(self, columns: Columns) -> None:
        """Judge the events, each against the tree of all logs; nodes are indices."""
        compiled = self.setting.compiled
        # An append adds at most a vertex and a hidden part before it, a start and a trim such a part; so does a node
        # that goes on after its end.
        kinds = columns.kind if compiled else np.array(columns.kind, dtype=np.int8)
        growing = how_many(kinds, APPEND, START, TRIM, *ENDS) + int(np.count_nonzero(self._replicas.down > 0))
        self._tree = with_room(self._tree, 2 * growing, compiled)
        faults = with_fault_room(self._account.faults, how_many(kinds, FAULT, *ENDS))
        self._account = self._account._replace(faults=faults)
        self._make_room(columns, kinds, compiled)
        _scan.form(compiled)(
            columns,
            self._tree,
            self._replicas,
            self._cluster,
            self._clients,
            self._attempts,
            self._former,
            self._lives,
            self._doubts,
            self._account,
            self.found,
        )

    def _make_room(self, columns: Columns, kinds: Array, compiled: bool) -> None:
        """For what clients ask and are told, and for what nodes come to hold no more."""
        asked, answered = how_many(kinds, INVOKE), how_many(kinds, OK, FAIL, INFO, OBSERVE)
        # A disk without a node may be any.
        faults = np.flatnonzero(among(kinds, (FAULT,)))
        wiped = MAX_NODES * int(np.count_nonzero(np.asarray(columns.f)[faults] == FAULT_WIPE))
        wiped += int(np.count_nonzero(self._replicas.down > 0))
        ended = wiped + how_many(kinds, START, *ENDS)
        clients, used = self._clients, int(self._clients.used[0])
        self._clients = with_rows(clients, used, asked)._replace(table=roomy(clients.table, used, asked, compiled))
        tries = asked + answered
        self._attempts = self._with_attempts(tries + how_many(kinds, ENQUEUE))
        # Any event may state less than the one before it, and a start may come to less before that.
        self._former = with_rows(self._former, int(self._former.used[0]), wiped + 2 * (len(columns.seq) - tries))
        self._lives = with_rows(self._lives, int(self._lives.used[0]), ended)
        suspects = self._cluster.suspects
        room = min(SUSPECTS, int(self._cluster.suspects_used[0]) + 4 * (len(columns.seq) - tries) + answered)
        if len(suspects) < room:
            more = np.zeros((room - len(suspects), _OF_SUSPECT), dtype=np.int64)
            self._cluster = self._cluster._replace(suspects=np.concatenate([suspects, more]))
        nodes = min(len(self.nodes.names), MAX_NODES)
        forks = self._cluster.forks
        if len(forks) < nodes:
            grows = (0, nodes - len(forks))
            self._cluster = self._cluster._replace(forks=np.pad(forks, (grows, grows, (0, 0))))
        # What a client is told is doubted four times at most.
        self._doubts = with_rows(self._doubts, int(self._doubts.used[0]), 4 * answered)

    def _with_attempts(self, more: int) -> Attempts:
        """What is kept of values, with room for so many more."""
        attempts, used, compiled = self._attempts, int(self._attempts.used[0]), self.setting.compiled
        return with_rows(attempts, used, more)._replace(table=roomy(attempts.table, used, more, compiled))

    def losses(self) -> tuple[Loss, ...] | None:
        """Acknowledged entries that ended beside the committed log; None if no acknowledgement was recorded."""
        if not self.found.judged[ACK_RULE] + self.found.unjudged[ACK_RULE]:
            return None
        return ledger_lines(self._account.ledger, self.setting.words)

    def void(self) -> dict[int, str]:
        """A configuration that the events contradict says nothing about majorities; and who is the first to move is not
        known where nobody recorded when that was."""
        found = {
            check: reason
            for happened, needed, reason, checks in _WITHOUT
            for check in checks
            if check in (FOLLOWER_COMMIT, FOLLOWER_VISIBLE) and self._misses(happened, needed)
        }
        shows, judged = self._cluster.shows, self.found.judged
        if not shows[TRUNCATE] and self.found.violated[APPEND_AT_END] == self._cluster.cuts[0] > 0:
            found[APPEND_AT_END] = "entries are replaced, but no truncation is recorded"
        if judged[READ_SHOWS_THE_NODE] and not (shows[APPEND] and shows[SHOWN]):
            found[READ_SHOWS_THE_NODE] = "reads are answered, but nodes do not record what they append and show"
        elif self.found.violated[READ_SHOWS_THE_NODE] and self._misses(COMMIT, COMMIT):
            found[READ_SHOWS_THE_NODE] = "commit indexes move, but no commit event is recorded"
        if judged[READ_ENDS_IN_THE_LOG] and not (shows[COMMIT] and shows[SHOWN]):
            found[READ_ENDS_IN_THE_LOG] = "reads are answered, but nodes do not record what they commit and show"
        if self._cluster.counted[0] and not self._cluster.batches[0]:
            found[READ_LEAVES_NOTHING_OUT] = NOTHING_OBSERVED
        if judged[READ_LEAVES_NOTHING_OUT] and not shows[START]:
            found[READ_LEAVES_NOTHING_OUT] = "reads are answered, but no node records its starts"
        stranger = int(self._cluster.stranger[0])
        if self._unreadable:
            found |= dict.fromkeys(self._counting(), NOT_READABLE)
        if stranger >= 0 and self.setting.voters:
            found |= dict.fromkeys(self._counting(), acts_as_voter(self.nodes.names[stranger], self.setting.voters))
        return found

    def _misses(self, happened: int, needed: int) -> bool:
        """Whether something happened, while events that belong to it are missing altogether."""
        return bool(self._cluster.happens[happened] and not self._cluster.shows[needed])

    def lacking(self) -> dict[int, str]:
        """What shows that something happened while no event says so, or while nobody knows who votes."""
        found = {}
        if self._cluster.happens[COMMIT] and not self.found.judged[COMMITTED_ON_MAJORITY]:
            found[COMMITTED_ON_MAJORITY] = "commit indexes move, but the history does not show who had flushed what"
        for happened, needed, reason, checks in _WITHOUT:
            if self._misses(happened, needed):
                found |= dict.fromkeys(checks, reason)
        answered = self.found.unjudged[OK_AFTER_ACKED]
        if answered and not self._cluster.shows[ACKED]:
            found[OK_AFTER_ACKED] = f"{answered} appends were answered ok, but no answer of a node to them is recorded"
        if self.found.unjudged[WRITTEN_AFTER_ASKED]:
            found[WRITTEN_AFTER_ASKED] = "a value is enqueued, or in a log, that nobody is recorded to have asked for"
        for reason, nodes in (
            (_PASSED_ON, self._cluster.passed_on),
            (_DIVIDED, self._cluster.divided),
            (_OUTSIDE, self._cluster.outsider),
        ):
            if nodes[0] >= 0:
                found[ANSWERED_BY_WHO_ACTED] = reason.format(node=self.nodes.names[nodes[0]])
        if self.setting.recorded and self._clients.used[0] and (self._replicas.begun == NULL).all():
            found |= dict.fromkeys(range(OK_NAMES_THE_ENTRY, len(CHECKS)), _ELSEWHERE)
        silent = self._silent()
        if silent or not self.setting.voters:
            why = recorded_nothing(silent) if silent else UNKNOWN_VOTERS
            found |= {place: why for place in self._counting() if self.found.unjudged[place]}
        return found

    def way(self, check: int, fields: list[int]) -> str:
        """Whether terms, or values, are wrong in a log, or already before that."""
        _, offset, *_ = fields
        if check == LOG_TERMS:
            return "appends" if offset != NULL else "stands"
        if check == WRITTEN_AFTER_ASKED and fields[3] != NO_ACKS:
            return "level"
        if check == WRITTEN_AFTER_ASKED and fields[4] != NULL:
            return "elsewhere"
        return "appended" if offset != NULL else "enqueued"

    def _silent(self) -> list[int]:
        """The voters of which nothing was recorded, whatever the configuration."""
        voters = enumerate(self.nodes.names[:MAX_NODES])
        everyone = int(self._cluster.voters[0])
        return [name for place, name in voters if everyone >> place & 1 and self._replicas.term[place] == NULL]

    def _counting(self) -> tuple[int, ...]:
        """The checks that count voters."""
        counting = (COMMITTED_ON_MAJORITY, VISIBLE_ON_MAJORITY)
        return (*counting, ACK_RULE, OK_AFTER_COMMIT) if self.setting.write_caching else counting

    def end(self) -> None:
        """Judge what became of acknowledged entries, and what was doubted."""
        self._note_silence()
        used = int(self._lives.used[0])
        order = np.lexsort((self._lives.ended[:used], self._lives.node[:used]))
        lives = Lives(self._lives.used, *(column[:used][order] for column in self._lives[1:]))
        if self._cluster.asks[0]:
            flags = self._tree.flags[: int(self._tree.used[0])]
            self._attempts = self._with_attempts(int(np.count_nonzero(flags & ANSWERED_OK == 0)))
        _close.form(self.setting.compiled)(
            self._tree,
            self._replicas,
            self._cluster,
            self._clients,
            self._attempts,
            lives,
            self._doubts,
            self._account,
            self.found,
        )
        self._acquit()

    def _note_silence(self) -> None:
        """A voter of which nothing was recorded has one life, the end of whose record lacks all that it did."""
        silent = np.flatnonzero((self._replicas.begun == NULL) & self._voters())
        used = int(self._lives.used[0])
        kept = ~np.isin(self._lives.node[:used], silent)
        always = {"node": silent, "ended": np.full(len(silent), _FOR_EVER), "recorded": np.full(len(silent), -1)}
        columns = {name: np.concatenate([getattr(self._lives, name)[:used][kept], always[name]]) for name in always}
        self._lives = Lives(np.array([np.count_nonzero(kept) + len(silent)]), **columns)

    def _voters(self) -> Mask:
        """Who is a voter in any configuration, by node."""
        found: Mask = self._cluster.voters[0] >> np.arange(MAX_NODES) & 1 > 0
        return found

    def _acquit(self) -> None:
        """Nobody is accused of what may lack in the record of a voter that was cut off (`suspect`)."""
        used, voters = int(self._lives.used[0]), self._voters()
        nodes, ended, recorded = (column[:used][voters[self._lives.node[:used]]] for column in self._lives[1:])
        first = int(self._cluster.first[0])
        known = 0 if self._cluster.changes[0] else majority_in(first)
        suspects = self._cluster.suspects[: int(self._cluster.suspects_used[0])].tolist()
        for check, since, until, seq, those, besides in suspects:
            cut_off = {*nodes[(ended > since) & (recorded < until)].tolist()}
            lacks = sum(1 << node for node in cut_off if those >> node & 1)
            if lacks and (those == ANYBODY or members((lacks | besides) & first) >= known):
                self.found.violated[check] -= 1
                self.found.judged[check] -= 1
                self.found.unjudged[check] += 1
                self._kept = [each for each in self._kept if each[0] != check or seq not in each[2]]


_OF_SUSPECT = 6
_OF_COMMITS = (COMMITTED_ON_MAJORITY, COMMIT_CURRENT_TERM, COMMITTED_AGREE, FOLLOWER_COMMIT)
_OF_STARTS = (FLUSHED_DURABLE, DIRTY_SURVIVES_CRASH)
_OF_LEADERS = (COMMIT_CURRENT_TERM, LEADER_COMPLETENESS, LEADER_APPEND_ONLY)
_OF_VISIBLE = (VISIBLE_ON_MAJORITY, PENDING_NOT_VISIBLE, FOLLOWER_VISIBLE)
_WITHOUT = (
    (LEADER, LEADER, "nodes lead, but no leader event is recorded", _OF_LEADERS),
    (COMMIT, LEADER, "commit indexes move, but no leader event is recorded", _OF_LEADERS),
    (COMMIT, APPEND, "commit indexes move, but no append is recorded", _OF_COMMITS),
    (COMMIT, COMMIT, "commit indexes move, but no commit event is recorded", _OF_COMMITS),
    (START, START, "nodes go on after they were down, but no start is recorded", _OF_STARTS),
    (FLUSH, FLUSH, "flushed offsets move, but no flush is recorded", (COMMITTED_ON_MAJORITY,)),
    (SHOWN, SHOWN, "visible offsets move, but no visible event is recorded", _OF_VISIBLE),
    (ACKED, ACKED, "what clients appended is committed, but no answer to them is recorded", (ACK_RULE, ACKED_SURVIVES)),
)
"""By kind: what happened, the events without which it was not recorded, what to say, and who cannot judge then.

Source: raft.md#not-recorded.
"""

_FOR_EVER = 1 << 62
_PASSED_ON = "node {node} answered what only a leader answers, and is not seen to have led meanwhile"
_DIVIDED = "node {node} answered a read of which another node gave something"
_OUTSIDE = "node {node} answered, which is no voter and recorded nothing"
_ELSEWHERE = "clients use this log, and nodes recorded what they did of others alone"

FAMILY = Family(
    "replicas",
    tuple(CHECKS),
    STATE_KINDS | END_KINDS | CLIENT_KINDS | {Kind.FAULT, Kind.ENQUEUE},
    (
        "time",
        "node",
        "process",
        "f",
        "acks",
        "term",
        "offset",
        "last_offset",
        "entry_term",
        "value",
        "key",
        "text",
        "flushed",
        "dirty",
        "commit",
        "visible",
        "bytes",
        "count",
        "reason",
        "role",
    ),
    ReplicasFold,
    RAFT,
)
