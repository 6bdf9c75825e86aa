"""Who must agree: the transcripts beside this file, and every set of voters against the definition of a quorum.

A transcript is read line by line; a line added there needs no code.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import combinations
from pathlib import Path

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from quorumlog.quorum import (
    EVERYTHING,
    NOTHING,
    VOTE_LOST,
    VOTE_PENDING,
    VOTE_WON,
    Voters,
    is_quorum,
    quorum_match,
    vote_result,
)

OFFSETS = {"nothing": NOTHING, "everything": EVERYTHING}
RESULTS = {"pending": VOTE_PENDING, "won": VOTE_WON, "lost": VOTE_LOST}
ANSWERS = {"yes": True, "no": False}


def ids(text: str) -> tuple[int, ...]:
    return () if text == "none" else tuple(int(number) for number in text.split(","))


def group(line: str) -> Voters:
    words = line.split()
    named = dict(zip(words[::2], map(ids, words[1::2]), strict=True))
    return Voters(named.pop("voters"), **named)


def cases(name: str) -> list[object]:
    """The cases of a transcript: the group, and what follows it: by node, or by the words before the last one."""
    path = Path(__file__).with_name(f"{name}.txt")
    found = []
    for paragraph in path.read_text(encoding="utf-8").split("\n\n"):
        head, *rest = [line for line in paragraph.splitlines() if not line.startswith("#")] or [""]
        if head:
            fields = [line.split(None, 1) if line[0].isdigit() else line.rsplit(None, 1) for line in rest]
            found.append(pytest.param(group(head), dict(fields), id=head))
    return found


@pytest.mark.parametrize(("voters", "case"), cases("offsets"))
def test_offsets(voters: Voters, case: dict[str, str]) -> None:
    answer = case.pop("quorum at")
    acknowledged = {}
    for node, picture in case.items():
        if picture != "?":
            bar, offset = picture.split()
            assert bar == "=" * (int(offset) + 1), "the bar shows another offset"
            acknowledged[int(node)] = int(offset)
    assert quorum_match(voters, acknowledged) == (OFFSETS[answer] if answer in OFFSETS else int(answer))


@pytest.mark.parametrize(("voters", "case"), cases("votes"))
def test_votes(voters: Voters, case: dict[str, str]) -> None:
    answer = RESULTS[case.pop("vote")]
    votes = {int(node): ANSWERS[said] for node, said in case.items() if said != "?"}
    assert vote_result(voters, votes) == answer


@pytest.mark.parametrize(("voters", "case"), cases("recipients"))
def test_recipients(voters: Voters, case: dict[str, str]) -> None:
    assert voters.voting == ids(case.pop("votes from"))
    assert voters.members == ids(case.pop("log to"))
    assert case == {}


def test_a_node_has_one_place_in_a_half() -> None:
    with pytest.raises(ValueError, match="node 1 is named twice in the voters 0,1,1"):
        Voters((0, 1, 1))
    with pytest.raises(ValueError, match="node 2 is named twice in the voters 0 old 2,2"):
        Voters((0,), old=(2, 2))
    with pytest.raises(ValueError, match="node 0 is named twice in the voters 0,1 learners 0"):
        Voters((0, 1), learners=(0,))
    assert str(Voters((0, 1), old=(0, 2), learners=(2, 3))) == "0,1 old 0,2 learners 2,3"


# -- against the definition ------------------------------------------------------------------------------------------

NODES = range(7)


@st.composite
def groups(draw: st.DrawFn) -> Voters:
    some = st.lists(st.sampled_from(NODES), unique=True, max_size=5).map(tuple)
    current, old, learners = draw(some), draw(some), draw(some)
    return Voters(current, old, tuple(node for node in learners if node not in current))


def quorums(voters: Voters) -> list[set[int]]:
    """Every set of nodes that has more than half of each half that has any."""

    def enough(half: Sequence[int], nodes: set[int]) -> bool:
        return len(half) == 0 or len(nodes.intersection(half)) > len(half) / 2

    subsets = [set(some) for size in range(len(NODES) + 1) for some in combinations(NODES, size)]
    return [nodes for nodes in subsets if enough(voters.current, nodes) and enough(voters.old, nodes)]


@given(groups(), st.dictionaries(st.sampled_from(NODES), st.integers(-1, 5)))
def test_the_offset_is_the_largest_that_all_of_some_quorum_have_reached(
    voters: Voters, acknowledged: dict[int, int]
) -> None:
    by_quorum = [min((acknowledged.get(node, NOTHING) for node in q), default=EVERYTHING) for q in quorums(voters)]
    assert quorum_match(voters, acknowledged) == max(by_quorum)


@given(groups(), st.dictionaries(st.sampled_from(NODES), st.booleans()))
@example(Voters((0,), (1,)), {0: True, 1: True})
def test_a_vote_is_won_by_a_quorum_and_lost_once_none_can_be_had(voters: Voters, votes: dict[int, bool]) -> None:
    granted = {node for node, vote in votes.items() if vote}
    possible = granted.union(NODES).difference(node for node, vote in votes.items() if not vote)
    result = vote_result(voters, votes)
    assert (result == VOTE_WON) == any(q <= granted for q in quorums(voters)) == is_quorum(voters, granted)
    assert (result == VOTE_LOST) == (not any(q <= possible for q in quorums(voters)))


@given(groups(), st.dictionaries(st.sampled_from(NODES), st.integers(-1, 5)))
def test_an_empty_half_leaves_the_other_one_to_decide(voters: Voters, acknowledged: dict[int, int]) -> None:
    alone = Voters(voters.current)
    assert quorum_match(Voters((), voters.current), acknowledged) == quorum_match(alone, acknowledged)
    votes = {node: offset > 1 for node, offset in acknowledged.items()}
    assert vote_result(Voters((), voters.current), votes) == vote_result(alone, votes)
