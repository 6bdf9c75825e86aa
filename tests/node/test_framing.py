"""Frames and messages: what goes in comes out however it is cut, and garbage is refused and costs nothing."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from quorumlog.node import wire
from quorumlog.node.framing import (
    HELLO_BYTES,
    MAX_FRAME_BYTES,
    FrameError,
    FrameReader,
    Hello,
    Role,
    frame,
)
from quorumlog.raft import messages
from quorumlog.raft import wire as raft_wire
from quorumlog.raft.snapshot import MOST_SNAPSHOT_BYTES, Snapshot, State
from quorumlog.storage.batch import MAX_GHOST_OFFSETS, NO_KEY, BatchKind, RecordBatch, ghost

HELLO = Hello(Role.CLIENT, -1, b"12345678")
OFFSETS = st.integers(-1, 2**40)
MEMBERS = st.sampled_from([b"0", b"0,1,2", b"0,1 old 1,2 learners 7 adding 7 revision 9 sessions 7:9"])


@st.composite
def append_entries(draw: st.DrawFn) -> messages.AppendEntries:
    """A request as leaders make them: its batches follow what is before them, and one another."""
    numbers = {name: draw(OFFSETS) for name in ("sequence", "commit", "visible")}
    previous = last = draw(OFFSETS)
    previous_term = term = draw(OFFSETS)
    batches = []
    for _ in range(draw(st.integers(0, 4))):
        term = max(term, 0) + draw(st.integers(0, 2))
        if draw(st.booleans()):
            batches.append(ghost(last + 1, last + draw(st.integers(1, MAX_GHOST_OFFSETS)), term))
            last = batches[-1].last_offset
        kind, acks = draw(st.sampled_from(sorted({*BatchKind} - {BatchKind.GHOST}))), draw(st.sampled_from([-1, 0, 1]))
        payload = draw(MEMBERS if kind is BatchKind.CONFIGURATION else st.binary(min_size=16, max_size=100))
        key = draw(st.sampled_from([NO_KEY, 1, -(2**63)])) if kind is BatchKind.DATA else NO_KEY
        batches.append(RecordBatch(last + 1, term, kind, draw(st.integers(1, 1000)), acks, payload, key))
        last = batches[-1].last_offset
    return messages.AppendEntries(
        term=term + draw(st.integers(0, 3)),
        previous=previous,
        previous_term=previous_term,
        flush=draw(st.booleans()),
        recovery=draw(st.booleans()),
        session=draw(OFFSETS),
        sender_session=draw(OFFSETS),
        batches=tuple(batches),
        **numbers,
    )


FIELDS: dict[str, st.SearchStrategy[Any]] = {
    "pre_vote": st.booleans(),
    "transfer": st.booleans(),
    "granted": st.booleans(),
    "behind": st.booleans(),
    "follows": st.booleans(),
    "success": st.booleans(),
    "may_recover": st.booleans(),
    "done": st.booleans(),
    "data": st.binary(max_size=100),
    "position": st.integers(0, MOST_SNAPSHOT_BYTES - 100),
}
MESSAGES = st.one_of(
    append_entries(),
    *(
        st.builds(kind, **{name: FIELDS.get(name, OFFSETS) for name in kind.__struct_fields__})
        for kind in messages.AnyMessage.__args__
        if kind is not messages.AppendEntries
    ),
)
STAMPS = st.tuples(st.integers(0, 2**62), st.integers(0, 2**31 - 1))


@given(payloads=st.lists(st.binary(max_size=300), max_size=8), data=st.data())
def test_frames_come_out_however_the_stream_is_cut(payloads: list[bytes], data: st.DataObject) -> None:
    stream = HELLO.encode() + b"".join(map(frame, payloads))
    reader = FrameReader()
    found = []
    while stream:
        cut = data.draw(st.integers(1, len(stream)))
        found += reader.feed(stream[:cut])
        stream = stream[cut:]
    assert reader.hello == HELLO
    assert found == payloads
    assert not reader.partial


@given(garbage=st.binary(min_size=1, max_size=400))
def test_what_is_no_hello_is_refused_and_not_kept(garbage: bytes) -> None:
    reader = FrameReader()
    try:
        reader.feed(garbage)
    except FrameError:
        return
    # Only a beginning of the magic, or by rare luck a hello, is not refused.
    assert reader.held < HELLO_BYTES or reader.hello is not None


@pytest.mark.parametrize(
    ("place", "byte", "said"), [(5, 2, "protocol version 2"), (6, 0, "unknown role 0"), (6, 3, "unknown role 3")]
)
def test_a_hello_of_another_version_or_role_is_refused(place: int, byte: int, said: str) -> None:
    hello = bytearray(HELLO.encode())
    hello[place] = byte
    with pytest.raises(FrameError, match=said):
        FrameReader().feed(bytes(hello))


@pytest.mark.parametrize("length", [MAX_FRAME_BYTES + 1, 2**32 - 1])
def test_too_long_a_frame_is_refused_before_any_of_it_comes(length: int) -> None:
    reader = FrameReader()
    reader.feed(HELLO.encode())
    with pytest.raises(FrameError, match="limit"):
        reader.feed(length.to_bytes(4, "big"))
    with pytest.raises(FrameError, match="limit"):
        frame(bytes(MAX_FRAME_BYTES + 1))


@given(stamp=STAMPS, sent=st.lists(MESSAGES, max_size=5))
def test_messages_survive_the_wire(stamp: wire.Stamp, sent: list[messages.AnyMessage]) -> None:
    framed = raft_wire.MESSAGES.encode(stamp, sent)
    assert raft_wire.MESSAGES.decode(framed[4:]) == (stamp, sent)


@pytest.mark.parametrize("members", [b"", b"0,0", b"\xff", b"0 old"])
def test_what_is_no_configuration_is_refused(members: bytes) -> None:
    entry = RecordBatch(0, 1, BatchKind.CONFIGURATION, 1, -1, members)
    framed = raft_wire.MESSAGES.encode((0, 0), [messages.AppendEntries(1, 1, -1, -1, -1, -1, False, (entry,))])
    with pytest.raises(FrameError):
        raft_wire.MESSAGES.decode(framed[4:])
    with pytest.raises(ValueError, match=r"."):
        Snapshot.decode(Snapshot(4, 1, 0, members, State()).encode())


def test_a_snapshot_larger_than_any_is_refused() -> None:
    part = messages.InstallSnapshot(1, 1, 5, MOST_SNAPSHOT_BYTES - 1, b"no", True)
    with pytest.raises(FrameError, match="snapshot"):
        raft_wire.MESSAGES.decode(raft_wire.MESSAGES.encode((0, 0), [part])[4:])


@given(stamp=STAMPS, message=MESSAGES, where=st.integers(0, 10_000), flip=st.integers(1, 255))
def test_a_damaged_message_is_refused_or_still_a_message(
    stamp: wire.Stamp, message: messages.AnyMessage, where: int, flip: int
) -> None:
    payload = bytearray(raft_wire.MESSAGES.encode(stamp, [message])[4:])
    payload[where % len(payload)] ^= flip
    try:
        _, found = raft_wire.MESSAGES.decode(bytes(payload))
    except FrameError:
        return
    assert all(isinstance(each, messages.AnyMessage) for each in found)
    # A batch carries its own checksum: what comes through is what was sent.
    for each in found:
        if isinstance(each, messages.AppendEntries) and isinstance(message, messages.AppendEntries):
            assert set(each.batches) <= set(message.batches)


@given(st.binary(max_size=300))
def test_random_payloads_are_refused(payload: bytes) -> None:
    for decode in (raft_wire.MESSAGES.decode, wire.CALLS.decode, wire.RESULTS.decode):
        try:
            _, found = decode(payload)
        except FrameError:
            continue
        assert found == []


@pytest.mark.parametrize("field", ["term", "previous", "commit"])
@pytest.mark.parametrize("number", [-2, 2**60])
def test_numbers_out_of_range_are_refused(field: str, number: int) -> None:
    fields = {"term": 1, "sequence": 1, "previous": 0, "previous_term": 0, "commit": 0, "visible": 0}
    message = messages.AppendEntries(**{**fields, field: number}, flush=False, batches=())
    with pytest.raises(FrameError, match="out of range"):
        raft_wire.MESSAGES.decode(raft_wire.MESSAGES.encode((1, 0), [message])[4:])


@pytest.mark.parametrize(
    ("base", "term"), [(4, 2), (6, 2), (5, 1), (5, 4)], ids=["too early", "gap", "term goes back", "term of the future"]
)
def test_batches_that_do_not_follow_are_refused(base: int, term: int) -> None:
    first = RecordBatch(3, 2, BatchKind.DATA, 2, -1, bytes(8))
    second = RecordBatch(base, term, BatchKind.DATA, 1, -1, bytes(8))
    request = messages.AppendEntries(3, 1, 2, 2, 0, 0, False, (first, second))
    with pytest.raises(FrameError, match="follows nothing"):
        raft_wire.MESSAGES.decode(raft_wire.MESSAGES.encode((1, 0), [request])[4:])


def test_a_frame_may_be_as_long_as_the_limit_and_no_longer() -> None:
    reader = FrameReader(limit=10)
    assert reader.feed(HELLO.encode() + frame(bytes(10))) == [bytes(10)]
    with pytest.raises(FrameError, match="a frame of 11 bytes is announced; the limit is 10"):
        reader.feed(frame(bytes(11)))


def test_what_is_large_goes_into_a_frame_of_its_own() -> None:
    items = [wire.ReadResult(at, 0, bytes(size), 0, 0) for at, size in enumerate((6, 6, 3, 1, 20, 1))]
    sizes = [[len(each.batches) for each in group] for group in wire.RESULTS.groups(items, 10)]
    assert sizes == [[6], [6, 3, 1], [20], [1]]
    assert [*wire.RESULTS.groups(items[:1], 1)] == [items[:1]]
    assert [*wire.RESULTS.groups([], 1)] == []
