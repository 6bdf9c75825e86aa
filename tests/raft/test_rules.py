"""The decision rules, as a transcript: rule, arguments, answer. A line added here needs no code."""

from __future__ import annotations

import ast

import pytest

from quorumlog.quorum import VOTE_LOST, VOTE_PENDING, VOTE_WON, Voters
from quorumlog.raft import rules
from quorumlog.raft.rules import PENDING, REFERENCE, SUCCESS, TRUNCATED, Rules

TRANSCRIPT = """
# commit index; a group is written as its voters, for which see tests/quorum
replicated_flushed      10, 4, 7            4
replicated_flushed      10, 9, 7            7
commit_candidate        (0, 1, 2), {0: 5, 1: 9, 2: 9}, 5   5
commit_candidate        (0, 1, 2), {0: 9, 1: 5}, 9         5
commit_candidate        (0, 1, 2), {0: 9, 1: 3, 2: 5}, 9   5
commit_candidate        (1, 2), {0: 4, 1: 9, 2: 9}, 4      4
may_commit              5, 4, 2, 2          True
may_commit              5, 5, 2, 2          False
may_commit              5, 4, 1, 2          False
follower_commit         3, 9, 5, 7          5
follower_commit         3, 9, 8, 7          7
follower_commit         3, 4, 8, 7          4
follower_commit         3, 9, 1, 7          3
# visibility
replicated_dirty        10, 4, 7            7
replicated_dirty        6, 4, 7             6
majority_replicated     (0, 1, 2), {0: 9, 1: 5, 2: 7}, 2   7
majority_replicated     (0, 1, 2), {0: 9, 1: 5, 2: 7}, 8   8
majority_replicated     (0, 1, 2), {0: 9}, 3               3
may_count_replicated    2, 2                True
may_count_replicated    1, 2                False
visibility_on_append    3, 5, 5, 9          9
visibility_on_append    3, 4, 5, 9          3
visibility_on_commit    3, 9, 5, 5          9
visibility_on_commit    3, 9, 5, 8          5
follower_visible        9, 7, 8             7
follower_visible        9, 8, 7             7
# acknowledgements: the stop conditions of documents.md#raft-recovery-quorum-ack would say SUCCESS in the second line
resolve_quorum_ack      5, 2, 2, 5, 2       SUCCESS
resolve_quorum_ack      5, 2, 2, 4, 2       PENDING
resolve_quorum_ack      5, 2, 3, 4, 2       PENDING
resolve_quorum_ack      5, 2, 3, 5, 3       TRUNCATED
resolve_quorum_ack      5, 2, 2, 4, 3       PENDING
resolve_write_cached    5, 2, 2, 5, 1, 1    SUCCESS
resolve_write_cached    5, 2, 2, 4, 1, 1    PENDING
resolve_write_cached    5, 2, -1, 9, 6, 3   TRUNCATED
flush_required          -1, False, False    True
flush_required          -1, True, False     False
flush_required          1, False, False     False
flush_required          0, True, True       True
# flush
accept_flush            3, 3                True
accept_flush            3, 4                False
flushed_after           7, 5                7
flushed_after           5, 7                7
# recovery
recovery_flush          False, True, 0, 9   False
recovery_flush          True, True, 0, 9    True
recovery_flush          True, False, 0, 9   False
recovery_flush          False, False, 9, 9  True
recovery_commit         7, 5, 9             5
recovery_commit         4, 5, 9             4
recovery_waits          7, 7                True
recovery_waits          6, 7                False
may_dispatch            False, 3, 5         True
may_dispatch            True, 3, 5          False
may_dispatch            True, 5, 5          True
reply_is_current        4, 3                True
reply_is_current        3, 3                False
# elections
vote_result             (0, 1, 2), {0: True}               VOTE_PENDING
vote_result             (0, 1, 2), {0: True, 2: True}      VOTE_WON
vote_result             (0, 1, 2), {1: False, 2: False}    VOTE_LOST
log_ok                  3, 1, 2, 9          True
log_ok                  2, 9, 2, 9          True
log_ok                  2, 8, 2, 9          False
log_ok                  1, 99, 2, 0         False
grant_vote              -1, 4, True, False  True
grant_vote              4, 4, True, False   True
grant_vote              3, 4, True, False   False
grant_vote              -1, 4, False, False False
grant_vote              -1, 4, True, True   False
vote_after_step_down    4, 2, 2             4
vote_after_step_down    4, 2, 3             -1
election_waits          True                True
election_waits          False               False
keeps_office            (0, 1, 2), {0: 0, 1: 9, 2: 10}, 9    True
keeps_office            (0, 1, 2), {0: 0, 1: 10, 2: 10}, 9   False
keeps_office            (1, 2), {0: 0, 1: 9, 2: 10}, 9       False
keeps_office            (0,), {0: 0}, 9                      True
# serving clients
may_serve               2, 2                True
may_serve               1, 2                False
read_index              4, 7, False         4
read_index              4, 7, True          7
read_index              4, 3, True          4
leadership_confirmed    (0, 1, 2), [0]      False
leadership_confirmed    (0, 1, 2), [0, 2]   True
"""

NAMES = {
    "SUCCESS": SUCCESS,
    "TRUNCATED": TRUNCATED,
    "PENDING": PENDING,
    "True": True,
    "False": False,
    "VOTE_WON": VOTE_WON,
    "VOTE_LOST": VOTE_LOST,
    "VOTE_PENDING": VOTE_PENDING,
}


def lines() -> list[tuple[str, str, str]]:
    found = []
    for line in TRANSCRIPT.strip().splitlines():
        if not line.startswith("#"):
            name, rest = line.split(None, 1)
            arguments, answer = rest.rsplit(None, 1)
            found.append((name, arguments.strip(), answer))
    return found


def evaluate(text: str) -> list[object]:
    return [Voters(value) if isinstance(value, tuple) else value for value in ast.literal_eval(f"[{text}]")]


@pytest.mark.parametrize(("name", "arguments", "answer"), lines())
def test_transcript(name: str, arguments: str, answer: str) -> None:
    result = getattr(rules, name)(*evaluate(arguments))
    assert result == NAMES.get(answer, int(answer) if answer not in NAMES else None)


def test_the_bundle_names_what_was_replaced() -> None:
    assert REFERENCE.changed() == ()
    assert Rules(may_commit=lambda *_: True).changed() == ("may_commit",)
