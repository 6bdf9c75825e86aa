"""What tables hold, from the changelogs, and what servers know of each other, from their lag reports.

Sources: pull-queries.md#materialised-state, pull-queries.md#report-replaces.
"""

from __future__ import annotations

from ...codes import NULL
from ...columns import Ints
from ...hashing import place_of, row_of
from ...kernel import part
from ...strings import Strings
from ..skimming import FEW, NOWHERE
from .reading import NONE, NOTHING, POSITIONS, RECORD, ROWS, WORD
from .state import State

_MOST = 1 << 40
"""No string has as large a number."""

# -- tables ------------------------------------------------------------------------------------------------------------


@part
def _before(strings: Strings, one: int, other: int) -> bool:
    """Whether a name comes before another one."""
    first, end = strings.starts[one], strings.starts[one + 1]
    second, other_end = strings.starts[other], strings.starts[other + 1]
    while first < end and second < other_end:
        if strings.pool[first] != strings.pool[second]:
            return bool(strings.pool[first] < strings.pool[second])
        first, second = first + 1, second + 1
    return bool(first == end and second < other_end)


@part
def shows(state: State, partition: int, offset: int, text: int) -> bool:
    """Note what a changelog shows at an offset; whether that is known, as all before."""
    logs, said, used = state.logs, state.said, state.used
    at = said.at[text] if text >= 0 and said.forms[text] == RECORD else NOWHERE
    if not logs.whole[partition] or offset != logs.end[partition] or (text >= 0 and at < 0):
        logs.whole[partition] = 0
        return False
    logs.end[partition] += 1
    if text < 0 or said.numbers[at] < logs.epoch[partition]:
        return True
    if said.numbers[at + 1] >= 0:
        if said.numbers[at + 1] != logs.source[partition]:
            return True
        logs.source[partition] += 1
        name = said.numbers[at + 2]
        if name >= 0:
            keys, changes = state.keys, state.changes
            known = used[0]
            place = partition * _MOST + name
            row = row_of(state.of_keys, used, place)
            if row == known:
                keys.name[row], keys.last[row] = name, NOWHERE
                before, after = NOWHERE, logs.first[partition]
                while after >= 0 and _before(state.strings, keys.name[after], name):
                    before, after = after, keys.after[after]
                keys.after[row] = after
                if before < 0:
                    logs.first[partition] = row
                else:
                    keys.after[before] = row
            change = used[1]
            used[1] += 1
            changes.position[change], changes.before[change] = logs.end[partition], keys.last[row]
            changes.form[change], changes.value[change] = said.numbers[at + 3], said.numbers[at + 4]
            keys.last[row] = change
    logs.epoch[partition] = said.numbers[at]
    return True


@part
def _change_at(state: State, row: int, position: int) -> int:
    """The change of a key that holds at a position; `NOWHERE` if it has no row then."""
    changes, change = state.changes, state.keys.last[row]
    while change >= 0 and changes.position[change] > position:
        change = changes.before[change]
    return NOWHERE if change < 0 or changes.form[change] == NOTHING else int(change)


@part
def _compares(state: State, op: int, form: int, value: int, other_form: int, other: int) -> bool:
    """Whether a scan wants a value that compares so."""
    if form != other_form:
        return op == 1
    if form == WORD:
        equal = value == other
        less = not equal and _before(state.strings, value, other)
    else:
        equal, less = value == other, value < other
    if op <= 1:
        return equal == (op == 0)
    if op == 2 or op == 5:
        return less == (op == 2)
    return (less or equal) == (op == 3)


@part
def _same(state: State, change: int, row: int, at: int) -> bool:
    """Whether a row of an answer is that of a key with a change."""
    numbers, changes = state.said.numbers, state.changes
    same = numbers[at] == state.keys.name[row] and numbers[at + 1] == changes.form[change]
    return bool(same and numbers[at + 2] == changes.value[change])


@part
def rows_are_right(state: State, query: int, partition: int, position: int, text: int) -> bool:
    """Whether rows are those of the table at a position, which is shown."""
    said = state.said
    if text < 0 or said.forms[text] != ROWS or said.at[text] < 0 or not 0 <= position <= state.logs.end[partition]:
        return False
    numbers, at = said.numbers, said.at[text]
    count, keys = numbers[at], numbers[query + 1]
    at, left = at + 1, count
    if keys == NONE:
        row = state.logs.first[partition]
        while row >= 0:
            change = _change_at(state, row, position)
            wanted = change >= 0
            if wanted and numbers[query + 2]:
                if numbers[query + 3]:
                    form, value = state.changes.form[change], state.changes.value[change]
                else:
                    form, value = WORD, state.keys.name[row]
                wanted = _compares(state, numbers[query + 4], form, value, numbers[query + 5], numbers[query + 6])
            if wanted:
                if left == 0 or not _same(state, change, row, at):
                    return False
                at, left = at + 3, left - 1
            row = state.keys.after[row]
        return bool(left == 0)
    found = 0
    for i in range(keys):
        name, again = numbers[query + 2 + 2 * i], False
        for other in range(i):
            again |= numbers[query + 2 + 2 * other] == name
        if name < 0 or again:
            continue
        row = state.of_keys.rows[place_of(state.of_keys, partition * _MOST + name)]
        change = _change_at(state, row, position) if row >= 0 else NOWHERE
        if change < 0:
            continue
        found += 1
        there = False
        for other in range(count):
            there |= _same(state, change, row, at + 3 * other)
        if not there:
            return False
    for i in range(1, count):
        if not _before(state.strings, numbers[at + 3 * i - 3], numbers[at + 3 * i]):
            return False
    return bool(found == count)


# -- assignments -------------------------------------------------------------------------------------------------------


@part
def placement(numbers: Ints, assigned: int, partition: int) -> int:
    """Where an assignment says who keeps a partition; `NOWHERE` if it does not."""
    at = assigned + 2 + numbers[assigned + 1]
    if partition >= numbers[at]:
        return NOWHERE
    at += 1
    for _ in range(partition):
        at += 2 + numbers[at + 1]
    return int(at)


@part
def holds(state: State, node: int, partition: int) -> bool:
    """Whether a server keeps a partition, by the assignment that it has folded."""
    numbers, assigned, host = state.said.numbers, state.servers.assigned[node], state.servers.host[node]
    at = placement(numbers, assigned, partition) if assigned >= 0 else NOWHERE
    if at < 0:
        return False
    for i in range(numbers[at + 1]):
        if numbers[at + 2 + i] == host:
            return True
    return bool(numbers[at] == host)


@part
def _keeps_all(state: State, node: int, partitions: int) -> bool:
    """Whether a server keeps just these partitions, as bits, by the assignment that it has folded."""
    assigned, most = state.servers.assigned[node], len(state.logs.end)
    if assigned < 0 or placement(state.said.numbers, assigned, most) >= 0:
        return False
    kept = 0
    for partition in range(most):
        kept |= holds(state, node, partition) << partition
    return bool(kept == partitions)


# -- reports -----------------------------------------------------------------------------------------------------------


@part
def hears(state: State, node: int, peer: int, stamp: int, text: int) -> None:
    """A server makes a report, or hears one."""
    reports, said, pair = state.reports, state.said, node * FEW + peer
    most = len(state.logs.end)
    reports.heard_stamp[pair] = stamp
    reports.heard[pair] = 2
    if text < 0 or said.forms[text] != POSITIONS or said.at[text] < 0:
        return
    at = said.at[text]
    for partition in range(most):
        reports.heard_current[pair * most + partition] = NULL
    for i in range(said.numbers[at]):
        partition = said.numbers[at + 1 + 3 * i]
        if partition >= most:
            return
        reports.heard_current[pair * most + partition] = said.numbers[at + 2 + 3 * i]
        reports.heard_end[pair * most + partition] = said.numbers[at + 3 + 3 * i]
    reports.heard[pair] = 1


@part
def passes(state: State, node: int, partition: int, first: int, last: int) -> bool:
    """A server passes offsets; whether the next ones, all of them shown."""
    lives, place = state.lives, node * len(state.logs.end) + partition
    passed, furthest = lives.passed[place], lives.furthest[place]
    right = first == passed or (passed == NULL and first <= furthest)
    lives.passed[place] = last + 1
    if lives.served[node]:
        lives.furthest[place] = max(furthest, last + 1)
    shown = state.logs.whole[partition] and last < state.logs.end[partition]
    return bool(right and shown and lives.served[node])


@part
def stands_at(state: State, node: int, partition: int, position: int) -> bool:
    """Whether a server is at a position, as far as it has passed offsets since it began to serve."""
    lives, place = state.lives, node * len(state.logs.end) + partition
    return bool(lives.served[node] and lives.passed[place] in (NULL, position))


@part
def reports_truly(state: State, node: int, stamp: int, text: int) -> bool:
    """A server makes a report; whether it says what is so, of the partitions that it keeps, as the one before did."""
    lives, said, logs, most = state.lives, state.said, state.logs, len(state.logs.end)
    lives.newest[node], lives.text[node] = max(lives.newest[node], stamp), text
    if text < 0 or said.forms[text] != POSITIONS or said.at[text] < 0:
        lives.served[node] = 0
        return False
    at, right, spoken = said.at[text], True, 0
    for i in range(said.numbers[at]):
        partition, current, end = (
            said.numbers[at + 1 + 3 * i],
            said.numbers[at + 2 + 3 * i],
            said.numbers[at + 3 + 3 * i],
        )
        if partition >= most or spoken >> partition & 1:
            lives.served[node] = 0
            return False
        spoken |= 1 << partition
        place = node * most + partition
        passed = lives.passed[place]
        right &= current == passed or (passed == NULL and current <= lives.furthest[place])
        right &= current <= end and lives.end[place] <= end
        right &= logs.whole[partition] != 0 and end <= logs.end[partition]
        lives.end[place] = end
    right &= spoken == lives.reported[node] and lives.served[node] != 0 and _keeps_all(state, node, spoken)
    lives.reported[node] = spoken
    state.reported[0] += said.numbers[at] if right else 0
    return bool(right)


@part
def hears_truly(state: State, peer: int, stamp: int, text: int) -> bool:
    """Whether a report that somebody heard is the last one that was made, and none before was newer."""
    lives, pair = state.lives, peer * FEW + peer
    last = state.reports.heard[pair] != 0 and state.reports.heard_stamp[pair] == stamp and lives.newest[peer] == stamp
    return bool(last and lives.served[peer] and text >= 0 and lives.text[peer] == text)


@part
def keeps(state: State, node: int, peer: int, stamp: int) -> bool:
    """A server keeps a report, the last one that it heard; whether it is no older than the one before."""
    reports, pair, most = state.reports, node * FEW + peer, len(state.logs.end)
    right = reports.kept[pair] == 0 or stamp >= reports.kept_stamp[pair]
    reports.kept[pair] = 1 if reports.heard[pair] == 1 and reports.heard_stamp[pair] == stamp else 2
    reports.kept_stamp[pair] = stamp
    state.lives.kept[node] += 1
    for place in range(pair * most, (pair + 1) * most):
        reports.current[place], reports.end[place] = reports.heard_current[place], reports.heard_end[place]
    return bool(right)


@part
def views_reports(state: State, node: int, at: int) -> bool:
    """Whether the reports of a view are those that its server keeps."""
    servers, reports, numbers, most = state.servers, state.reports, state.said.numbers, len(state.logs.end)
    count, place = numbers[at], at + 1
    for other in range(state.used[4]):
        if servers.host[other] >= 0 and reports.kept[node * FEW + other] != 0:
            if reports.kept[node * FEW + other] == 2:
                return False
            count -= 1
    if count != 0:
        return False
    for _ in range(numbers[at]):
        other = state.node_of[numbers[place]]
        if other < 0:
            return False
        pair = node * FEW + other
        if reports.kept[pair] != 1 or reports.kept_stamp[pair] != numbers[place + 1]:
            return False
        positions = numbers[place + 2]
        kept = 0
        for partition in range(most):
            kept += reports.current[pair * most + partition] != NULL
        if kept != positions:
            return False
        for i in range(positions):
            partition = numbers[place + 3 + 3 * i]
            if partition >= most or reports.current[pair * most + partition] != numbers[place + 4 + 3 * i]:
                return False
            if reports.end[pair * most + partition] != numbers[place + 5 + 3 * i]:
                return False
        place += 3 + 3 * positions
    return True
