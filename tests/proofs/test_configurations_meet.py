"""What `membership-safety` takes for granted of a change of voters, of the very steps that the core takes."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import chain, combinations

from quorumlog.quorum import Voters, is_quorum
from quorumlog.raft.members import Change, Members, first_step, next_step

NODES = (0, 1, 2, 3)


def subsets(nodes: tuple[int, ...]) -> Iterator[tuple[int, ...]]:
    return chain.from_iterable(combinations(nodes, size) for size in range(len(nodes) + 1))


def steps(members: Members) -> Iterator[Members]:
    """Every configuration that may follow: of the change under way, of one that begins, of one that is cancelled."""
    revision = members.revision + 1
    choices = subsets(NODES) if members.simple else [()]
    changes = [Change(revision, cancel=True)]
    for named in choices:
        for removed in subsets(named):
            rest = tuple(node for node in named if node not in removed)
            changes += [Change(revision, add=rest, remove=removed), Change(revision, remove=removed, demote=rest)]
    following = [first_step(members, change) for change in changes]
    following += [next_step(members, caught_up) for caught_up in subsets(NODES)]
    yield from (each for each in following if each is not None)


def quorums(voters: Voters) -> list[set[int]]:
    return [set(nodes) for nodes in subsets(NODES) if is_quorum(voters, nodes)]


def test_every_step_leads_to_a_configuration_whose_quorums_meet_those_before() -> None:
    pairs: set[tuple[Voters, Voters]] = set()
    seen: set[Members] = set()
    waiting = [Members(Voters((0, 1, 2)), 0)]
    while waiting:
        members = waiting.pop()
        for following in steps(members):
            pairs.add((members.voters, following.voters))
            if following.revision <= 2 and following not in seen:
                seen.add(following)
                waiting.append(following)
    assert len(pairs) > 100
    apart = [pair for pair in pairs if any(not p & q for p in quorums(pair[0]) for q in quorums(pair[1]))]
    assert apart == []
