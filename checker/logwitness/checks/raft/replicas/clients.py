"""Clients against nodes: what clients were told, compared with what nodes recorded.

The order of a run is causal: what a client hears of was recorded before. What a node did may lack in its record only
behind the last event before it died: a process that is killed, or a machine that loses power, may take the end of its
record with it. So what looks wrong is kept as a *doubt* and judged at the end, when it is known whose record is whole
(`whole`). Sources: history-checks.md#clients-and-nodes, raft.md#acks, raft.md#visible-offset.
"""

from __future__ import annotations

from ...codes import (
    ACKED,
    ACKS_ALL,
    ACKS_LEADER,
    ACKS_NONE,
    APPEND,
    COMMIT,
    F_APPEND,
    F_FINAL_READ,
    F_READ,
    F_READ_COMMITTED,
    F_TAIL,
    INFO,
    INVOKE,
    NO_ACKS,
    NULL,
    OBSERVE,
    OK,
    READS,
    REFUSALS,
    START,
)
from ...columns import Columns
from ...faults import WIPE
from ...findings import Findings, excuse, report, show
from ...hashing import named_row, place_of, row_of
from ...kernel import part, step
from ..configurations import majority_in
from .answers import COMMITTED_READS, bound_of, least_held, not_shown_by, observe
from .client_rules import (
    ANSWERED_BY_WHO_ACTED,
    FAIL_HAD_NO_EFFECT,
    OK_AFTER_ACKED,
    OK_AFTER_COMMIT,
    OK_NAMES_THE_ENTRY,
    READ_ENDS_IN_THE_LOG,
    READ_LEAVES_NOTHING_OUT,
    READ_SHOWS_THE_NODE,
    TAIL_IS_COMMITTED,
    WRITTEN_AFTER_ASKED,
    Answered,
    Asked,
    Ended,
    HadEffect,
    Misplaced,
    Returned,
    Success,
    Tail,
)
from .commitment import taken_for
from .state import ANYBODY, Attempts, Clients, Cluster, Doubts, Former, Lives, Replicas, suspect
from .tree import (
    ACKED_ALL,
    ACKED_LEADER,
    ACKED_NONE,
    ANSWERED_OK,
    ANY_ACKED,
    COMMITTED,
    GIVEN_UP,
    NONE,
    REPORTED_TRUNCATED,
    ROOT,
    UNKNOWN,
    WRITTEN,
    WRITTEN_ALL,
    WRITTEN_LEADER,
    Tree,
    appended_by,
    at,
    find,
    members,
    written_with,
)

HAS_NOT, HAS, MAY_HAVE = range(3)
"""Whether a node held and showed something."""

_SHORT = -2
"""In `Doubts.shown`: an answer that left the last offset out, if answers in this history ever state one."""

_SEVERAL = -2
"""In `Clients.giver`: several nodes; in `Attempts.asked` and `Attempts.expected`: not the same each time."""

_MOST = 1000
"""Former states of a node, and entries without a value, that are looked at for one read."""


@part
def retreat(replicas: Replicas, former: Former, node: int, seq: int) -> None:
    """``node`` is about to hold or show less: remember what it had until event ``seq``."""
    place = former.used[0]
    former.used[0] += 1
    former.until[place] = replicas.down[node] - 1 if replicas.down[node] > 0 else seq
    former.tip[place] = replicas.tip[node]
    former.commit[place] = replicas.commit[node]
    former.visible[place] = replicas.visible[node]
    former.before[place] = replicas.former[node]
    replicas.former[node] = place
    replicas.retreat_seq[node] = seq


@part
def was_shown(replicas: Replicas, former: Former, node: int, tip: int, seq: int) -> None:
    """Of the log of ``node`` less is known than before event ``seq``, when it was ``tip``; it lost nothing."""
    now, retreated = replicas.tip[node], replicas.retreat_seq[node]
    replicas.tip[node] = tip
    retreat(replicas, former, node, seq)
    replicas.tip[node] = now
    replicas.retreat_seq[node] = retreated


@part
def end_of_life(replicas: Replicas, lives: Lives, node: int, seq: int) -> None:
    """The process of ``node`` ended, not of its own accord: its record may lack what came after its last event."""
    place = lives.used[0]
    lives.used[0] += 1
    lives.node[place] = node
    lives.ended[place] = seq
    lives.recorded[place] = replicas.stated_seq[node]


@part
def whole(lives: Lives, node: int, invoked: int, seq: int) -> bool:
    """Whether the record of ``node`` has all that it did between two events; lives are sorted by node."""
    low = 0
    high: int = lives.used[0]
    while low < high:
        middle = (low + high) // 2
        if (lives.node[middle], lives.ended[middle]) > (node, invoked):
            high = middle
        else:
            low = middle + 1
    if low < lives.used[0] and lives.node[low] == node:
        return bool(lives.ended[low] > seq and lives.recorded[low] > seq)
    return True


@part
def leader_of(replicas: Replicas, term: int) -> int:
    """The node that leads, or led last, this term; NONE if that is nobody, or several."""
    found = NONE
    for node in range(len(replicas.led)):
        if term != NULL and replicas.led[node] == term:
            if found != NONE:
                return NONE
            found = node
    return found


@part
def answerer_whole(replicas: Replicas, cluster: Cluster, lives: Lives, node: int, invoked: int, seq: int) -> bool:
    """The same of the ``node`` that answered; if nobody knows which one did, of all."""
    if node != NONE:
        return whole(lives, node, invoked, seq)
    for other in range(len(replicas.tip)):
        known = replicas.stated_seq[other] >= 0 or cluster.voters[0] >> other & 1
        if known and not whole(lives, other, invoked, seq):
            return False
    return True


@part
def doubt(
    doubts: Doubts,
    check: int,
    value: int,
    offset: int,
    last: int,
    term: int,
    acks: int,
    node: int,
    invoked: int,
    seq: int,
    shown: int,
    vertex: int,
) -> int:
    """Keep what looks wrong until the end. Room was made before."""
    place: int = doubts.used[0]
    doubts.used[0] += 1
    doubts.check[place] = check
    doubts.value[place] = value
    doubts.offset[place] = offset
    doubts.last[place] = last
    doubts.term[place] = term
    doubts.acks[place] = acks
    doubts.node[place] = node
    doubts.invoked[place] = invoked
    doubts.seq[place] = seq
    doubts.shown[place] = shown
    doubts.vertex[place] = vertex
    doubts.next[place] = NONE
    return place


@step
def hear(
    tree: Tree,
    replicas: Replicas,
    cluster: Cluster,
    clients: Clients,
    attempts: Attempts,
    former: Former,
    doubts: Doubts,
    found: Findings,
    columns: Columns,
    i: int,
) -> None:
    """A client asks or is told something, by event ``i``."""
    kind, seq, node = columns.kind[i], columns.seq[i], columns.node[i]
    if kind == INVOKE:
        row = row_of(clients.table, clients.used, columns.process[i])
        f = columns.f[i]
        if clients.f[row] == F_APPEND and clients.value[row] != NULL:
            # It was never answered: nobody knows whether it had an effect.
            attempts.other[attempted(attempts, clients, row)] = 1
        if f == F_APPEND and columns.value[i] != NULL:
            cluster.asks[0] = 1
        clients.f[row] = f
        clients.node[row] = node
        clients.seq[row] = seq
        clients.value[row] = columns.value[i]
        clients.acks[row] = columns.acks[i]
        clients.expected[row] = columns.term[i]
        clients.led[row] = 1 if node >= 0 and replicas.leader_term[node] != NULL else 0
        clients.start[row] = columns.offset[i]
        clients.reach[row] = columns.offset[i]
        clients.given[row] = 0
        clients.giver[row] = NONE
        if f == F_TAIL:
            clients.bound[row] = cluster.top_commit[0]
            clients.bound_seq[row] = cluster.top_commit_seq[0]
        elif f in READS:
            clients.bound[row] = bound_of(replicas, node, f) if node >= 0 else NULL
            clients.bound_seq[row] = replicas.stated_seq[node] if node >= 0 else -1
            runs = node >= 0 and replicas.down[node] <= 0
            clients.begins[row] = replicas.trimmed[node] if runs else NULL
            clients.begins_seq[row] = replicas.trimmed_seq[node] if runs else -1
        return
    cluster.batches[0] += kind == OBSERVE
    row = clients.table.rows[place_of(clients.table, columns.process[i])]
    if row == NONE:
        return
    f = clients.f[row]
    if kind == OK and f in READS:
        cluster.counted[0] += columns.records[i]
    if kind == OBSERVE:
        if f in READS and columns.value[i] != NULL:
            base, value = columns.offset[i], columns.value[i]
            observe(tree, replicas, cluster, found, f, base, value, clients.seq[row], seq)
            given(tree, replicas, cluster, clients, former, doubts, found, columns, i, row)
        return
    clients.f[row] = NONE
    if node >= 0 and (f in READS or f in (F_APPEND, F_TAIL)) and (kind == OK or columns.reason[i] in REFUSALS):
        by_leader = kind == OK and f not in (F_READ, F_READ_COMMITTED, F_FINAL_READ)
        answered(replicas, cluster, clients, doubts, found, node, by_leader, columns.process[i], row, seq)
    if f == F_APPEND:
        if clients.value[row] == NULL:
            return
        if kind == OK:
            succeeded(tree, replicas, cluster, clients, attempts, doubts, found, columns, i, row)
        else:
            # An append that failed had no effect; of one whose outcome is unknown nothing can be said.
            attempt = attempted(attempts, clients, row)
            if kind == INFO:
                attempts.other[attempt] = 1
            else:
                attempts.failed[attempt] = seq
                attempts.invoked[attempt] = clients.seq[row]
    elif kind == OK and f == F_TAIL:
        tail_answered(cluster, clients, doubts, found, columns.offset[i], row, seq)
    elif kind == OK and f in READS and node >= 0:
        read_answered(tree, replicas, cluster, clients, doubts, found, node, f, columns.offset[i], row, seq)
        read_ended(replicas, clients, former, doubts, found, node, f, columns.offset[i], row, seq)


@part
def attempted(attempts: Attempts, clients: Clients, row: int) -> int:
    """The row of the value whose append is over, though what became of it is not known, or not where."""
    attempt: int = named_row(attempts.table, attempts.used, attempts.value, clients.value[row])
    attempts.loose[attempt] = 1
    asked_for(attempts, attempt, clients.seq[row])
    level, term = written_with(clients.acks[row]), clients.expected[row]
    if attempts.asked[attempt] not in (NONE, level) or not level:
        attempts.asked[attempt] = _SEVERAL
    elif attempts.asked[attempt] == NONE:
        attempts.asked[attempt] = level
    if attempts.expected[attempt] not in (NONE, term) or term == NULL:
        attempts.expected[attempt] = _SEVERAL
    elif attempts.expected[attempt] == NONE:
        attempts.expected[attempt] = term
    return attempt


@part
def was_answered_ok(attempts: Attempts, attempt: int) -> None:
    """An append of the value was answered ok: what it was asked for is judged by that."""
    attempts.other[attempt] = 1
    attempts.asked[attempt] = attempts.expected[attempt] = _SEVERAL


@part
def asked_for(attempts: Attempts, attempt: int, seq: int) -> None:
    """An append of the value began by event ``seq``."""
    if attempts.first[attempt] < 0 or seq < attempts.first[attempt]:
        attempts.first[attempt] = seq


@part
def enqueue(attempts: Attempts, value: int, seq: int) -> None:
    """A leader enqueued a value by event ``seq``."""
    attempt = named_row(attempts.table, attempts.used, attempts.value, value)
    if attempts.queued[attempt] < 0:
        attempts.queued[attempt] = seq


@part
def answered(
    replicas: Replicas,
    cluster: Cluster,
    clients: Clients,
    doubts: Doubts,
    found: Findings,
    node: int,
    by_leader: bool,
    process: int,
    row: int,
    seq: int,
) -> None:
    """``node`` answered an operation: did it run meanwhile, and lead where it takes a leader?"""
    if replicas.stated_seq[node] < 0:
        found.unjudged[ANSWERED_BY_WHO_ACTED] += 1
        if cluster.voters[0] and not cluster.voters[0] >> node & 1:
            cluster.outsider[0] = node
        return
    if clients.giver[row] != NONE and clients.giver[row] != node:
        found.unjudged[ANSWERED_BY_WHO_ACTED] += 1
        cluster.divided[0] = node
        return
    check, invoked, end = ANSWERED_BY_WHO_ACTED, clients.seq[row], replicas.down[node] - 1
    down = 0 <= end < invoked
    led = replicas.leader_term[node] != NULL or replicas.leader_seq[node] > invoked
    led = led or (clients.led[row] > 0 and clients.node[row] == node)
    if not down and (led or not by_leader):
        found.judged[check] += 1
    else:
        doubt(doubts, check, process, NULL, NULL, NULL, NO_ACKS, node, invoked, seq, end if down else -1, NONE)


@part
def may_have_run(doubts: Doubts, node: int, end: int) -> None:
    """``node`` ended once more since its end by event ``end``: it may have run between, unrecorded."""
    for i in range(doubts.used[0]):
        if doubts.check[i] == ANSWERED_BY_WHO_ACTED and doubts.node[i] == node and doubts.shown[i] == end:
            doubts.vertex[i] = ROOT


@part
def succeeded(
    tree: Tree,
    replicas: Replicas,
    cluster: Cluster,
    clients: Clients,
    attempts: Attempts,
    doubts: Doubts,
    found: Findings,
    columns: Columns,
    i: int,
    row: int,
) -> None:
    """An append was answered ok: is it where the client was told, acknowledged and committed?"""
    seq, offset, last, term = columns.seq[i], columns.offset[i], columns.last_offset[i], columns.term[i]
    value, acks, invoked = clients.value[row], clients.acks[row], clients.seq[row]
    if term == NULL:
        term = clients.expected[row]
    if NULL < offset < last:
        if cluster.says_last[0] < 0:
            cluster.says_last[0] = seq
    elif cluster.says_last[0] < 0:
        last = NULL  # it may have been left out
    vertex = NONE
    if offset != NULL and offset >= 0:
        other = tree.by_base.rows[place_of(tree.by_base, offset)]
        while other != NONE:
            if tree.value[other] == value and fits(tree, other, offset, last, term):
                vertex = other
            other = tree.same[other]
    if vertex != NONE and last == NULL and tree.last[vertex] > offset:
        doubt(doubts, OK_NAMES_THE_ENTRY, value, offset, NULL, term, acks, NONE, invoked, seq, _SHORT, vertex)
    attempt = attempts.table.rows[place_of(attempts.table, value)]
    if attempt != NONE:
        was_answered_ok(attempts, attempt)
    by = leader_of(replicas, term)
    if vertex == NONE:
        place = doubt(doubts, OK_NAMES_THE_ENTRY, value, offset, last, term, acks, by, invoked, seq, -1, NONE)
        attempt = attempted(attempts, clients, row)
        was_answered_ok(attempts, attempt)
        doubts.next[place] = attempts.doubt[attempt]
        attempts.doubt[attempt] = place
        return
    found.judged[OK_NAMES_THE_ENTRY] += 1
    if not tree.flags[vertex] & ANSWERED_OK:
        tree.flags[vertex] |= ANSWERED_OK
        found.judged[WRITTEN_AFTER_ASKED] += 1
        tree.asked[vertex] = invoked
    elif invoked < tree.asked[vertex]:
        tree.asked[vertex] = invoked
    if tree.seq[vertex] < invoked:
        named_row(attempts.table, attempts.used, attempts.value, value)
    if acked_as(tree, vertex, acks):
        found.judged[OK_AFTER_ACKED] += 1
    else:
        doubt(doubts, OK_AFTER_ACKED, value, offset, last, term, acks, by, invoked, seq, -1, vertex)
    # One whose acks level is not recorded has that of its entry.
    if acks == ACKS_ALL or (acks == NO_ACKS and tree.flags[vertex] & WRITTEN in (0, WRITTEN_ALL)):
        if promised(tree, replicas, cluster, vertex, by):
            found.judged[OK_AFTER_COMMIT] += 1
        elif cluster.write_caching[0] and may_be_promised(tree, replicas, cluster, vertex):
            found.unjudged[OK_AFTER_COMMIT] += 1
        else:
            said = replicas.stated_seq[by] if by != NONE else -1
            doubt(doubts, OK_AFTER_COMMIT, value, offset, last, term, acks, by, invoked, seq, said, vertex)


@part
def fits(tree: Tree, vertex: int, offset: int, last: int, term: int) -> bool:
    """Whether a known entry is where a client was told; NULL: it was not told its term or its last offset."""
    if vertex == NONE or tree.flags[vertex] & UNKNOWN:
        return False
    placed = tree.base[vertex] == offset and last in (NULL, tree.last[vertex])
    return bool(placed and term in (NULL, tree.term[vertex]))


@part
def acked_as(tree: Tree, vertex: int, acks: int) -> bool:
    """Whether a node has acknowledged the entry with this acks level."""
    if acks == NO_ACKS:
        return bool(tree.flags[vertex] & ANY_ACKED != 0)
    mark = ACKED_ALL if acks == ACKS_ALL else ACKED_LEADER if acks == ACKS_LEADER else ACKED_NONE
    return bool(tree.flags[vertex] & mark != 0)


@part
def promised(tree: Tree, replicas: Replicas, cluster: Cluster, vertex: int, leader: int) -> bool:
    """Whether acks=all may be answered for the entry: it is committed, by ``leader`` at least, if that is a node."""
    if tree.flags[vertex] & (COMMITTED | GIVEN_UP):
        return True
    if leader != NONE and replicas.commit[leader] >= tree.last[vertex]:
        return bool(at(tree, replicas.tip[leader], tree.last[vertex]) == vertex)
    half = cluster.first[0] if leader == NONE else least_held(tree, replicas, leader, vertex)
    holders, needed = members(tree.held[vertex] & half), majority_in(half)
    return bool(cluster.write_caching[0] != 0 and needed and holders >= needed)


@part
def may_be_promised(tree: Tree, replicas: Replicas, cluster: Cluster, vertex: int) -> bool:
    """Whether its leader may have counted a majority for the entry under write caching, for all that it was told."""
    if cluster.changes[0]:
        return True
    count = members(tree.held[vertex] & cluster.voters[0])
    for voter in range(len(replicas.tip)):
        theirs = at(tree, replicas.tip[voter], tree.last[vertex])
        if cluster.voters[0] >> voter & 1 and theirs != NONE and not tree.held[vertex] >> voter & 1:
            count += taken_for(tree, cluster, theirs, vertex)
    return bool(count >= majority_in(cluster.voters[0]))


@part
def shows(tree: Tree, tip: int, bound: int, base: int, last: int, value: int) -> int:
    """Whether a node with this log, shown up to ``bound``, shows the value at ``base``."""
    vertex = at(tree, tip, base)
    if vertex == NONE:
        return HAS_NOT
    if tree.flags[vertex] & UNKNOWN or tree.value[vertex] == NULL or bound == NULL:
        return MAY_HAVE
    same = tree.value[vertex] == value and tree.base[vertex] == base and last in (base, tree.last[vertex])
    return HAS if same and tree.last[vertex] <= bound else HAS_NOT


@part
def given(
    tree: Tree,
    replicas: Replicas,
    cluster: Cluster,
    clients: Clients,
    former: Former,
    doubts: Doubts,
    found: Findings,
    columns: Columns,
    i: int,
    row: int,
) -> None:
    """A read of a node returned a batch, by event ``i``."""
    node, seq, base, last, value = (
        columns.node[i],
        columns.seq[i],
        columns.offset[i],
        columns.last_offset[i],
        columns.value[i],
    )
    reach, begins = clients.reach[row], not clients.given[row]
    clients.reach[row] = last + 1
    clients.given[row] = 1
    if node < 0:
        return
    alone = clients.giver[row] == NONE or clients.giver[row] == node
    clients.giver[row] = node if alone else _SEVERAL
    if replicas.stated_seq[node] < 0:
        found.unjudged[READ_SHOWS_THE_NODE] += 1
        return
    f, invoked = clients.f[row], clients.seq[row]
    if node == clients.node[row] and base < clients.begins[row]:
        begins = clients.begins_seq[row]
        doubt(doubts, READ_SHOWS_THE_NODE, value, base, last, NULL, NO_ACKS, node, invoked, seq, begins, NONE)
        return
    had, down = HAS_NOT, replicas.down[node] > 0
    if not down or replicas.down[node] - 1 > invoked:
        had = shows(tree, replicas.tip[node], bound_of(replicas, node, f), base, last, value)
    if had == HAS:
        found.judged[READ_SHOWS_THE_NODE] += 1
        if down:
            return
        if reach != NULL and base > reach:
            vertex = tree.parent[at(tree, replicas.tip[node], base)]
            if left_out(tree, replicas, cluster, doubts, node, vertex, reach, begins, -1, invoked, seq):
                return
        found.judged[READ_LEAVES_NOTHING_OUT] += 1
        return
    place = replicas.former[node]
    steps = 0
    while place != NONE and former.until[place] > invoked:
        steps += 1
        if steps > _MOST:
            had = MAY_HAVE
            break
        bound = former.commit[place] if f in COMMITTED_READS else former.visible[place]
        before = shows(tree, former.tip[place], bound, base, last, value)
        if before != HAS_NOT:
            had = before
        if had == HAS:
            found.judged[READ_SHOWS_THE_NODE] += 1
            return
        place = former.before[place]
    if had == MAY_HAVE:
        found.unjudged[READ_SHOWS_THE_NODE] += 1
        return
    shown = replicas.down[node] - 1 if down else not_shown_by(tree, replicas, node, f, base)
    doubt(doubts, READ_SHOWS_THE_NODE, value, base, last, NULL, NO_ACKS, node, invoked, seq, shown, NONE)


@part
def left_out(
    tree: Tree,
    replicas: Replicas,
    cluster: Cluster,
    doubts: Doubts,
    node: int,
    vertex: int,
    reach: int,
    begins: bool,
    bound_seq: int,
    invoked: int,
    seq: int,
) -> bool:
    """A reader went from ``reach`` to what follows ``vertex`` in the log of ``node``: was there a value? If so it is
    doubted. ``begins``: it had been given nothing, and would have been given a batch that ``reach`` is inside of.
    ``bound_seq``: the event that says how far the node showed its log, if that matters."""
    start = replicas.start[node]
    steps = 0
    while vertex != ROOT and tree.last[vertex] >= reach and steps < _MOST and not cluster.compacted[0]:
        if tree.base[vertex] < (start if begins else max(reach, start)):
            return False
        steps += 1
        if tree.value[vertex] != NULL and not tree.flags[vertex] & UNKNOWN:
            value, base, held = tree.value[vertex], tree.base[vertex], appended_by(tree, vertex, node)
            check = READ_LEAVES_NOTHING_OUT
            doubt(doubts, check, value, base, bound_seq, NULL, NO_ACKS, node, invoked, seq, held, vertex)
            return True
        vertex = tree.parent[vertex]
    return False


@part
def read_answered(
    tree: Tree,
    replicas: Replicas,
    cluster: Cluster,
    clients: Clients,
    doubts: Doubts,
    found: Findings,
    node: int,
    f: int,
    offset: int,
    row: int,
    seq: int,
) -> None:
    """A read of a node was answered, and goes on at ``offset``."""
    invoked, reach, tip = clients.seq[row], clients.reach[row], replicas.tip[node]
    begins = not clients.given[row]
    steady = replicas.retreat_seq[node] < invoked
    if reach == NULL or not steady or replicas.stated_seq[node] < 0:
        return
    if offset == NULL:
        offset = reach  # it does not say where it goes on
    if offset > reach:
        vertex = at(tree, tip, min(offset - 1, tree.last[tip]))
        if tree.last[vertex] >= offset:
            vertex = tree.parent[vertex]
        if left_out(tree, replicas, cluster, doubts, node, vertex, reach, begins, -1, invoked, seq):
            return
    if (begins or f == F_FINAL_READ) and clients.node[row] == node:
        # What it showed when it was asked it still shows; entries without a value are no batches.
        first, bound = max(offset, replicas.start[node]), clients.bound[row]
        highest = min(bound, first + _MOST, tree.last[tip])
        vertex = at(tree, tip, highest) if bound != NULL and bound >= first else NONE
        if vertex != NONE and tree.last[vertex] > bound:
            vertex = tree.parent[vertex]
        said, at_it = clients.bound_seq[row], begins and offset == reach
        if vertex != NONE and left_out(tree, replicas, cluster, doubts, node, vertex, first, at_it, said, invoked, seq):
            return
    found.judged[READ_LEAVES_NOTHING_OUT] += 1


@part
def read_ended(
    replicas: Replicas,
    clients: Clients,
    former: Former,
    doubts: Doubts,
    found: Findings,
    node: int,
    f: int,
    offset: int,
    row: int,
    seq: int,
) -> None:
    """A read of a node was answered, and goes on at ``offset``: no further than what the node showed meanwhile?"""
    check, invoked, reach = READ_ENDS_IN_THE_LOG, clients.seq[row], clients.reach[row]
    if offset == NULL or reach == NULL:
        return
    unknown = replicas.stated_seq[node] < 0
    if offset <= reach and not unknown:
        found.judged[check] += 1
        return
    bound = bound_of(replicas, node, f)
    most = bound
    if replicas.down[node] <= 0 or replicas.down[node] - 1 > invoked:
        if offset <= bound + 1:
            found.judged[check] += 1
            return
        unknown = unknown or bound == NULL
    place = replicas.former[node]
    steps = 0
    while place != NONE and former.until[place] > invoked:
        steps += 1
        bound = former.commit[place] if f in COMMITTED_READS else former.visible[place]
        if offset <= bound + 1:
            found.judged[check] += 1
            return
        unknown = unknown or bound == NULL or steps > _MOST
        most = max(most, bound)
        place = former.before[place] if steps <= _MOST else NONE
    if unknown:
        found.unjudged[check] += 1
    else:
        shown = replicas.stated_seq[node]
        doubt(doubts, check, NULL, offset, most, NULL, NO_ACKS, node, invoked, seq, shown, NONE)


@part
def tail_answered(
    cluster: Cluster, clients: Clients, doubts: Doubts, found: Findings, offset: int, row: int, seq: int
) -> None:
    """A client was told the end of the log, ``offset`` (exclusive). Source: history-checks.md#tail-is-committed."""
    if offset == NULL or offset < 0 or not cluster.shows[COMMIT]:
        return
    invoked, known = clients.seq[row], clients.bound[row]
    if offset - 1 > cluster.top_commit[0]:
        committed = cluster.top_commit[0] + 1
        top = cluster.top_commit_seq[0]
        doubt(doubts, TAIL_IS_COMMITTED, offset, committed, NULL, NULL, NO_ACKS, NONE, invoked, seq, top, NONE)
        return
    found.judged[TAIL_IS_COMMITTED] += 1
    if offset - 1 < known:
        if cluster.given_up_seq[0] > clients.bound_seq[row]:
            excuse(found, TAIL_IS_COMMITTED, WIPE, -1, cluster.given_up_seq[0], 1)
        else:
            report(found, TAIL_IS_COMMITTED, Tail(offset, committed=known + 1), clients.bound_seq[row], invoked, seq)


@part
def match_attempts(
    tree: Tree, cluster: Cluster, clients: Clients, attempts: Attempts, doubts: Doubts, found: Findings
) -> None:
    """At the end: which entries have the values of appends that failed, or were answered with another place."""
    for row in range(clients.used[0]):
        if clients.f[row] == F_APPEND and clients.value[row] != NULL:
            attempts.other[attempted(attempts, clients, row)] = 1
    if not cluster.asks[0]:
        return
    for vertex in range(1, tree.used[0]):
        if tree.value[vertex] != NULL and not tree.flags[vertex] & (ANSWERED_OK | UNKNOWN):
            named_row(attempts.table, attempts.used, attempts.value, tree.value[vertex])
    for vertex in range(1, tree.used[0]):
        if tree.flags[vertex] & ANSWERED_OK:
            attempt = attempts.table.rows[place_of(attempts.table, tree.value[vertex])]
            if attempt != NONE:
                was_answered_ok(attempts, attempt)
                asked_for(attempts, attempt, tree.asked[vertex])
    for attempt in range(attempts.used[0]):
        first, queued = attempts.first[attempt], attempts.queued[attempt]
        if queued >= 0 and first < 0:
            found.unjudged[WRITTEN_AFTER_ASKED] += 1
        elif queued >= 0:
            found.judged[WRITTEN_AFTER_ASKED] += 1
            if queued < first:
                early = Asked(attempts.value[attempt], offset=NULL, term=NULL, acks=NO_ACKS, expected=NULL)
                report(found, WRITTEN_AFTER_ASKED, early, queued, first)
    if cluster.shows[APPEND]:
        for attempt in range(attempts.used[0]):
            if attempts.failed[attempt] >= 0 and attempts.other[attempt] < 0:
                found.judged[FAIL_HAD_NO_EFFECT] += 1
    for vertex in range(1, tree.used[0]):
        if tree.value[vertex] == NULL or tree.flags[vertex] & UNKNOWN:
            continue
        attempt = attempts.table.rows[place_of(attempts.table, tree.value[vertex])]
        if attempt == NONE:
            continue
        if attempts.first[attempt] < 0:
            found.unjudged[WRITTEN_AFTER_ASKED] += 1
        place = attempts.doubt[attempt]
        while place != NONE:
            if suits(tree, doubts, place, vertex) or not suits(tree, doubts, place, doubts.vertex[place]):
                doubts.vertex[place] = vertex
            place = doubts.next[place]
        flags = tree.flags[vertex]
        was_answered = flags & ANSWERED_OK != 0
        if attempts.loose[attempt] > 0 and not was_answered:
            found.judged[WRITTEN_AFTER_ASKED] += 1
        if (attempts.loose[attempt] > 0 or was_answered) and tree.seq[vertex] < attempts.first[attempt]:
            offset, term = tree.base[vertex], tree.term[vertex]
            early = Asked(tree.value[vertex], offset=offset, term=term, acks=NO_ACKS, expected=NULL)
            report(found, WRITTEN_AFTER_ASKED, early, tree.seq[vertex], attempts.first[attempt])
        elif attempts.loose[attempt] > 0 and not was_answered:
            compare_with_asked(tree, attempts, found, attempt, vertex)
        if attempts.failed[attempt] < 0 or attempts.other[attempt] > 0:
            continue
        if flags & (COMMITTED | GIVEN_UP | ANY_ACKED):
            if flags & REPORTED_TRUNCATED and not flags & ANY_ACKED and cluster.given_up_seq[0] > tree.ack_seq[vertex]:
                excuse(found, FAIL_HAD_NO_EFFECT, WIPE, -1, cluster.given_up_seq[0], 1)
                continue
            fields = HadEffect(tree.value[vertex], offset=tree.base[vertex], term=tree.term[vertex])
            report(found, FAIL_HAD_NO_EFFECT, fields, attempts.invoked[attempt], attempts.failed[attempt])
            if flags & ANY_ACKED:
                show(found, tree.seq[vertex])
                show(found, tree.ack_seq[vertex])
            else:
                show(found, appended_by(tree, vertex, tree.committer[vertex]))
                show(found, tree.commit_seq[vertex])


@part
def compare_with_asked(tree: Tree, attempts: Attempts, found: Findings, attempt: int, vertex: int) -> None:
    """Whether an entry has the acks level, and the term, that all appends of its value were asked for with."""
    asked, expected, written = attempts.asked[attempt], attempts.expected[attempt], tree.flags[vertex] & WRITTEN
    acks, term = NO_ACKS, NULL
    if asked > 0 and written and written != asked:
        acks = ACKS_ALL if asked == WRITTEN_ALL else ACKS_LEADER if asked == WRITTEN_LEADER else ACKS_NONE
    elif expected >= 0 and expected != tree.term[vertex]:
        term = expected
    if acks != NO_ACKS or term != NULL:
        offset, in_ = tree.base[vertex], tree.term[vertex]
        other = Asked(tree.value[vertex], offset=offset, term=in_, acks=acks, expected=term)
        report(found, WRITTEN_AFTER_ASKED, other, attempts.first[attempt], tree.seq[vertex])


@part
def suits(tree: Tree, doubts: Doubts, place: int, vertex: int) -> bool:
    """Whether an entry with the value of a doubtful answer is where the client was told; or, if it was not told where,
    was acknowledged by then."""
    if vertex == NONE:
        return False
    if doubts.offset[place] < 0:
        acked = acked_as(tree, vertex, doubts.acks[place]) and tree.ack_seq[vertex] < doubts.seq[place]
        return bool(acked)
    return bool(fits(tree, vertex, doubts.offset[place], doubts.last[place], doubts.term[place]))


@part
def settle(
    tree: Tree,
    replicas: Replicas,
    cluster: Cluster,
    clients: Clients,
    lives: Lives,
    attempts: Attempts,
    doubts: Doubts,
    found: Findings,
) -> None:
    """Judge every doubt, now that it is known whose record is whole."""
    match_attempts(tree, cluster, clients, attempts, doubts, found)
    for i in range(doubts.used[0]):
        check, node, invoked, seq = doubts.check[i], doubts.node[i], doubts.invoked[i], doubts.seq[i]
        if check in (READ_SHOWS_THE_NODE, READ_LEAVES_NOTHING_OUT):
            if not whole(lives, node, invoked, seq):
                found.unjudged[check] += 1
                continue
            found.judged[check] += 1
            fields = Returned(node, value=doubts.value[i], offset=doubts.offset[i])
            report(found, check, fields, doubts.shown[i], invoked, seq)
            if check == READ_LEAVES_NOTHING_OUT:
                show(found, doubts.last[i])
        elif check == READ_ENDS_IN_THE_LOG:
            if not whole(lives, node, invoked, seq):
                found.unjudged[check] += 1
                continue
            found.judged[check] += 1
            ended = Ended(node, offset=doubts.offset[i], shown=doubts.last[i])
            report(found, READ_ENDS_IN_THE_LOG, ended, doubts.shown[i], invoked, seq)
        elif check == ANSWERED_BY_WHO_ACTED:
            if doubts.shown[i] < 0 or doubts.vertex[i] == ROOT or not cluster.shows[START]:
                found.unjudged[check] += 1
                if doubts.shown[i] < 0 and whole(lives, node, invoked, seq):
                    cluster.passed_on[0] = node
                continue
            found.judged[check] += 1
            answer = Answered(doubts.value[i], node=node)
            report(found, ANSWERED_BY_WHO_ACTED, answer, doubts.shown[i], invoked, seq)
        elif check == TAIL_IS_COMMITTED:
            if not answerer_whole(replicas, cluster, lives, NONE, invoked, seq):
                found.unjudged[check] += 1
                continue
            found.judged[check] += 1
            report(found, check, Tail(doubts.value[i], committed=doubts.offset[i]), doubts.shown[i], seq)
        else:
            settle_ok(tree, replicas, cluster, lives, doubts, found, i)


@part
def settle_ok(
    tree: Tree,
    replicas: Replicas,
    cluster: Cluster,
    lives: Lives,
    doubts: Doubts,
    found: Findings,
    i: int,
) -> None:
    """Judge a doubt about an append that was answered ok."""
    check, vertex, invoked, seq = doubts.check[i], doubts.vertex[i], doubts.invoked[i], doubts.seq[i]
    value, offset, term, acks = doubts.value[i], doubts.offset[i], doubts.term[i], doubts.acks[i]
    sure = answerer_whole(replicas, cluster, lives, doubts.node[i], invoked, seq)
    level = ACKS_ALL if acks == NO_ACKS else acks
    fields = Success(value, acks=level, offset=offset, term=term)
    if check == OK_NAMES_THE_ENTRY:
        if not cluster.shows[APPEND]:
            return
        named = offset != NULL and offset >= 0
        other = find(tree, offset, term) if named and term != NULL else NONE
        there = vertex != NONE and named and fits(tree, vertex, offset, doubts.last[i], term)
        if there and doubts.last[i] == NULL and tree.last[vertex] > offset and cluster.says_last[0] >= 0:
            at_, in_ = tree.base[vertex], tree.term[vertex]
            place = Misplaced(value, offset=offset, last=offset, term=term, there=at_, entry_term=in_)
            report(found, check, place, invoked, tree.seq[vertex], seq, cluster.says_last[0])
        if doubts.shown[i] == _SHORT:
            return
        replaced = other != NONE and tree.value[other] not in (NULL, value)
        if there:
            # It is there; was it not when the client was told so?
            found.judged[check] += 1
        elif named and (replaced or (vertex != NONE and cluster.idempotent[0] and sure)):
            found.judged[check] += 1
            shown = vertex if vertex != NONE else other
            at_, in_ = (tree.base[vertex], tree.term[vertex]) if vertex != NONE else (NULL, NULL)
            end = doubts.last[i] if doubts.last[i] != NULL else offset
            place = Misplaced(value, offset=offset, last=end, term=term, there=at_, entry_term=in_)
            report(found, check, place, invoked, tree.seq[shown], seq)
            if vertex != NONE and end == offset and fits(tree, vertex, offset, NULL, term):
                show(found, cluster.says_last[0])
            return
        elif named:
            found.unjudged[check] += 1
        if not there and (named or vertex == NONE):
            known = vertex != NONE or other != NONE or cluster.has_unknown[0]
            if sure and not known and cluster.shows[ACKED]:
                found.judged[OK_AFTER_ACKED] += 1
                report(found, OK_AFTER_ACKED, fields, invoked, seq)
            else:
                found.unjudged[OK_AFTER_ACKED] += 1
            return
        check = OK_AFTER_ACKED
    if check == OK_AFTER_ACKED:
        acked = tree.flags[vertex] & ANY_ACKED != 0
        if acked and acked_as(tree, vertex, acks) and tree.ack_seq[vertex] < seq:
            found.judged[check] += 1
        elif acked or (sure and cluster.shows[ACKED]):
            found.judged[check] += 1
            report(found, check, fields, invoked, seq, tree.ack_seq[vertex] if acked else tree.seq[vertex])
        else:
            found.unjudged[check] += 1
    elif sure and cluster.shows[COMMIT]:
        found.judged[check] += 1
        committed = tree.commit_seq[vertex] if tree.flags[vertex] & COMMITTED else doubts.shown[i]
        report(found, check, fields, tree.seq[vertex], seq, committed)
        if cluster.write_caching[0]:
            suspect(cluster, check, tree.seq[vertex], seq, seq, ANYBODY, 0)
    else:
        found.unjudged[check] += 1
