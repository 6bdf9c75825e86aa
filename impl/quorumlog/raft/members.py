"""A group's configuration as an entry of its log, and the steps by which one becomes the next.

A configuration has a revision, voters, learners, old voters while it is joint, and what is still to be done of the
change of that revision (raft.md#configuration-in-force). A change adds learners, promotes them one by one, and goes
through a joint configuration if voters are removed or demoted (raft.md#change-steps). Pure functions; who may take a
step, and when, is decided in ``membership``.

An entry holds the configuration as text, ``0,1,2 old 2,3,4 learners 5 adding 5 revision 7 sessions 5:7``: what is empty
or 0 is left out.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass, replace

from quorumlog.quorum import Voters

MOST_MEMBERS = 62
"""Members of one group; as many nodes as a history of one log may have."""
MOST_BYTES = 4096
"""Bytes of an encoded configuration; read before anything else of it is looked at."""
_LARGEST = 1 << 53
"""Of the numbers of a configuration."""

NO_SESSION = -1
"""The session of a node that is no member, or that does not know its own."""


@dataclass(frozen=True, slots=True)
class Change:
    """What whoever runs the group asks for: nodes that become voters, that leave, and that become learners.

    ``revision`` is larger than that of any change before. ``cancel``: instead, take back the change under way.
    """

    revision: int
    add: tuple[int, ...] = ()
    remove: tuple[int, ...] = ()
    demote: tuple[int, ...] = ()
    cancel: bool = False


@dataclass(frozen=True, slots=True)
class Members:
    """One configuration.

    ``adding`` (learners that are to be promoted), ``removing`` and ``demoting`` are what is left of the change.
    ``sessions`` has the session of each member whose session is not 0: the revision of the change that added it
    (raft.md#configuration-in-force, raft.md#session).
    """

    voters: Voters
    revision: int = 0
    adding: tuple[int, ...] = ()
    removing: tuple[int, ...] = ()
    demoting: tuple[int, ...] = ()
    sessions: tuple[tuple[int, int], ...] = ()

    @property
    def simple(self) -> bool:
        """Whether no change is under way."""
        return not (self.voters.old or self.adding or self.removing or self.demoting)

    def session(self, node: int) -> int:
        """The session of a member; ``NO_SESSION`` of any other node."""
        if node not in self.voters.members:
            return NO_SESSION
        return dict(self.sessions).get(node, 0) if self.sessions else 0

    def __str__(self) -> str:
        parts = [str(self.voters)]
        for name in ("adding", "removing", "demoting"):
            nodes = getattr(self, name)
            if nodes:
                parts.append(f"{name} {','.join(map(str, nodes))}")
        if self.revision:
            parts.append(f"revision {self.revision}")
        if self.sessions:
            parts.append("sessions " + ",".join(f"{node}:{session}" for node, session in self.sessions))
        return " ".join(parts)

    def encode(self) -> bytes:
        """The configuration as a log entry holds it; `decode` reads it back."""
        return str(self).encode()

    @classmethod
    def decode(cls, payload: bytes) -> Members:
        """Read a configuration. Raises ValueError with what is wrong with it."""
        if len(payload) > MOST_BYTES:
            raise ValueError(f"a configuration of {len(payload)} bytes; at most {MOST_BYTES} are read")
        try:
            words = payload.decode("ascii").split(" ")
        except UnicodeDecodeError:
            raise ValueError("a configuration that is not text") from None
        named = dict(zip(words[1::2], words[2::2], strict=False))
        if len(words) % 2 == 0 or len(named) != len(words) // 2 or not named.keys() <= _NAMES:
            raise ValueError(f"a configuration that cannot be read: {payload[:80]!r}")
        nodes = {name: _numbers(named[name]) for name in _NAMES - {"revision", "sessions"} if name in named}
        sessions = [each.split(":") for each in named["sessions"].split(",")] if "sessions" in named else []
        if any(len(pair) != 2 for pair in sessions):
            raise ValueError(f"sessions {named['sessions']!r}; each is written node:session")
        voters = Voters(_numbers(words[0]), nodes.pop("old", ()), nodes.pop("learners", ()))
        if not voters.current or len(voters.members) > MOST_MEMBERS:
            raise ValueError(f"a configuration with the voters {voters}; a group has 1 to {MOST_MEMBERS} members")
        return cls(
            voters,
            _number(named.get("revision", "0")),
            **nodes,
            sessions=tuple((_number(node), _number(session)) for node, session in sessions),
        )


_NAMES = frozenset({"old", "learners", "adding", "removing", "demoting", "revision", "sessions"})


def _numbers(text: str) -> tuple[int, ...]:
    return tuple(_number(each) for each in text.split(","))


def _number(text: str) -> int:
    if not text.isdecimal() or len(text) > 16 or int(text) > _LARGEST:
        raise ValueError(f"{text[:20]!r} is not a number in a configuration")
    return int(text)


def first_step(members: Members, change: Change) -> Members | None:
    """The configuration with which a change begins; None if it is none that can be made from ``members``.

    Sources: raft.md#change-refused, raft.md#change-steps, raft.md#cancel-change.
    """
    if not members.revision < change.revision <= _LARGEST:
        return None
    if change.cancel:
        return None if members.simple else replace(_cancelled(members), revision=change.revision)
    voters, named = members.voters, (*change.add, *change.remove, *change.demote)
    left = {*voters.current, *change.add} - {*change.remove, *change.demote}
    refused = (
        not members.simple
        or not named
        or len(set(named)) < len(named)
        or min(named) < 0
        or not set(change.add).isdisjoint(voters.current)
        or not {*change.remove} <= {*voters.members}
        or not {*change.demote} <= {*voters.current}
        or not left
        or len({*voters.members, *change.add}) > MOST_MEMBERS
    )
    if refused:
        return None
    new = tuple(node for node in change.add if node not in voters.learners)
    begun = replace(
        members,
        voters=replace(voters, learners=(*voters.learners, *new)),
        revision=change.revision,
        adding=change.add,
        removing=change.remove,
        demoting=change.demote,
        sessions=(*members.sessions, *((node, change.revision) for node in new)),
    )
    return begun if change.add else next_step(begun, ())


def next_step(members: Members, caught_up: Collection[int]) -> Members | None:
    """The configuration that follows, once ``members`` is committed; None if nothing does, or nothing yet.

    ``caught_up``: nodes that have all that the leader has flushed. Source: raft.md#change-steps.
    """
    voters = members.voters
    if voters.old:
        return _settled(members, Voters(voters.current, (), voters.learners))
    ready = next((node for node in members.adding if node in caught_up), None)
    if ready is not None:
        promoted = Voters((*voters.current, ready), (), _without(voters.learners, (ready,)))
        return replace(members, voters=promoted, adding=_without(members.adding, (ready,)))
    if members.adding or not (members.removing or members.demoting):
        return None
    return joint(members)


def joint(members: Members) -> Members:
    """The configuration in which the voters decide with and without those that are to go (raft.md#joint)."""
    voters = members.voters
    going = (*members.removing, *members.demoting)
    learners = (*_without(voters.learners, members.removing), *members.demoting)
    if set(going).isdisjoint(voters.current):  # learners alone are removed
        return _settled(members, Voters(voters.current, (), learners))
    return replace(members, voters=Voters(_without(voters.current, going), voters.current, learners))


def _cancelled(members: Members) -> Members:
    """What a change is taken back to: learners that were added go, promoted ones through a joint configuration."""
    voters = members.voters
    learners = _without(voters.learners, (*members.adding, *members.demoting))
    if voters.old:
        return _settled(members, Voters(voters.old, (), _without(learners, voters.old)))
    promoted = [node for node in voters.current if members.session(node) == members.revision]
    if not promoted or len(promoted) == len(voters.current):
        return _settled(members, Voters(voters.current, (), learners))
    kept = replace(members, voters=replace(voters, learners=learners), adding=(), demoting=(), removing=tuple(promoted))
    return joint(kept)


def _settled(members: Members, voters: Voters) -> Members:
    """A configuration with these voters and nothing left to do; who is no member has no session."""
    kept = tuple(pair for pair in members.sessions if pair[0] in voters.members)
    return Members(voters, members.revision, sessions=kept)


def _without(nodes: tuple[int, ...], gone: Collection[int]) -> tuple[int, ...]:
    return tuple(node for node in nodes if node not in gone)
