"""The encoding of record batches: round trips, limits, and arbitrary bytes."""

from __future__ import annotations

import struct
import tracemalloc

import pytest
from crc32c import crc32c
from hypothesis import given, settings
from hypothesis import strategies as st

from loghistory.schema import MAX_BATCH_OFFSETS
from quorumlog.storage import (
    HEADER_BYTES,
    MAX_BATCH_BYTES,
    MAX_RECORDS,
    BatchDamaged,
    BatchKind,
    RecordBatch,
    decode,
    decode_header,
)

LARGEST = (1 << 63) - 1

batches = st.builds(
    RecordBatch,
    base_offset=st.integers(0, LARGEST - MAX_RECORDS),
    term=st.integers(0, LARGEST),
    kind=st.sampled_from([BatchKind.DATA, BatchKind.CONFIGURATION]),
    record_count=st.integers(1, MAX_RECORDS),
    acks=st.sampled_from([-1, 0, 1]),
    payload=st.binary(min_size=8, max_size=300),
)

GOOD = RecordBatch(7, 3, BatchKind.DATA, 2, -1, (-5).to_bytes(8, "big", signed=True) + b"rest")


@given(batch=batches, before=st.binary(max_size=40), behind=st.binary(max_size=40))
def test_a_batch_survives_its_encoding_wherever_it_lies(batch: RecordBatch, before: bytes, behind: bytes) -> None:
    encoded = batch.encode()
    assert len(encoded) == batch.size_bytes == HEADER_BYTES + len(batch.payload)
    for buffer in (before + encoded + behind, bytearray(before + encoded + behind)):
        found = decode(buffer, len(before))
        assert found == batch
        assert found.encode() == encoded
        assert decode(memoryview(buffer), len(before), len(before) + len(encoded)) == batch


def test_the_bytes_of_version_1_stay_what_they_are() -> None:
    assert crc32c(b"123456789") == 0xE3069283  # the check value of CRC-32C
    assert GOOD.encode().hex() == (
        "36fa16aa0000002c000000000000000700000000000000030000000201ff0001fffffffffffffffb72657374"
    )


def test_the_value_names_data_and_nothing_else() -> None:
    assert GOOD.value == -5
    assert RecordBatch(7, 3, BatchKind.CONFIGURATION, 1, -1, bytes(9)).value == -1


def test_another_position_is_another_encoding_of_the_same_payload() -> None:
    GOOD.encode()
    moved = GOOD.with_position(100, 4)
    assert (moved.base_offset, moved.last_offset, moved.term, moved.payload) == (100, 101, 4, GOOD.payload)
    assert decode(moved.encode()) == moved
    assert GOOD.encode() is GOOD.encode()


@pytest.mark.parametrize(
    ("batch", "words"),
    [
        (RecordBatch(-1, 0, BatchKind.DATA, 1, 0, bytes(8)), "base offset -1"),
        (RecordBatch(LARGEST, 0, BatchKind.DATA, 1, 0, bytes(8)), "base offset"),
        (RecordBatch(0, -1, BatchKind.DATA, 1, 0, bytes(8)), "term -1"),
        (RecordBatch(0, LARGEST + 1, BatchKind.DATA, 1, 0, bytes(8)), "term"),
        (RecordBatch(0, 0, BatchKind.DATA, 0, 0, bytes(8)), "record count 0"),
        (RecordBatch(0, 0, BatchKind.DATA, MAX_RECORDS + 1, 0, bytes(8)), "record count"),
        (RecordBatch(0, 0, BatchKind.DATA, 1, 2, bytes(8)), "acks 2"),
        (RecordBatch(0, 0, BatchKind.DATA, 1, 0, bytes(7)), "at least its value"),
        (RecordBatch(0, 0, BatchKind.CONFIGURATION, 1, 0, bytes(MAX_BATCH_BYTES)), "size"),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_what_is_out_of_its_limits_is_not_encoded(batch: RecordBatch, words: str) -> None:
    with pytest.raises(BatchDamaged, match=words):
        batch.encode()


def test_the_largest_batch_can_be_read_back() -> None:
    batch = RecordBatch(0, 0, BatchKind.DATA, 1, 0, bytes(MAX_BATCH_BYTES - HEADER_BYTES))
    assert decode(batch.encode()).size_bytes == MAX_BATCH_BYTES


def test_a_history_takes_the_widest_batch() -> None:
    assert MAX_RECORDS <= MAX_BATCH_OFFSETS


def test_every_flipped_bit_and_every_missing_end_is_noticed() -> None:
    encoded = GOOD.encode()
    for position in range(len(encoded)):
        with pytest.raises(BatchDamaged):
            decode(encoded[:position])
        with pytest.raises(BatchDamaged):
            decode(encoded, 0, position)
        for bit in range(8):
            damaged = bytearray(encoded)
            damaged[position] ^= 1 << bit
            with pytest.raises(BatchDamaged):
                decode(damaged)


@given(
    size=st.integers(0, (1 << 32) - 1),
    base=st.integers(-(1 << 63), LARGEST),
    term=st.integers(-(1 << 63), LARGEST),
    count=st.integers(0, (1 << 32) - 1),
    kind=st.integers(0, 255),
    acks=st.integers(-128, 127),
    version=st.integers(0, 3),
    rest=st.binary(max_size=64),
)
def test_a_header_that_lies_is_refused_even_with_a_right_checksum(
    size: int, base: int, term: int, count: int, kind: int, acks: int, version: int, rest: bytes
) -> None:
    body = struct.pack(">IqqIBbH", size, base, term, count, kind, acks, version) + rest
    buffer = struct.pack(">I", crc32c(body)) + body
    try:
        batch = decode(buffer)
    except BatchDamaged:
        return
    # The rare one that is right: then it is what the header says, to the byte.
    assert (batch.size_bytes, batch.base_offset, batch.term, batch.record_count) == (size, base, term, count)
    assert batch.encode() == buffer[:size]


@pytest.mark.parametrize(
    ("kind", "key", "payload", "said"),
    [
        (BatchKind.DATA, 5, b"", "at least its value"),
        (BatchKind.DATA, 5, bytes(7), "at least its value"),
        (BatchKind.DATA, 0, bytes(8), "without a key"),
        (BatchKind.CONFIGURATION, 5, bytes(8), "only a data batch has a key"),
    ],
)
def test_a_batch_of_version_2_is_data_with_a_key_and_a_value(
    kind: BatchKind, key: int, payload: bytes, said: str
) -> None:
    body = struct.pack(">IqqIBbHq", HEADER_BYTES + 8 + len(payload), 7, 3, 1, kind, -1, 2, key) + payload
    with pytest.raises(BatchDamaged, match=said):
        decode(struct.pack(">I", crc32c(body)) + body)
    if key:
        with pytest.raises(BatchDamaged, match=said):
            RecordBatch(7, 3, kind, 1, -1, payload, key).encode()


@settings(max_examples=300)
@given(buffer=st.binary(max_size=200), position=st.integers(0, 220))
def test_arbitrary_bytes_are_refused_or_decoded(buffer: bytes, position: int) -> None:
    try:
        batch = decode(buffer, position)
    except BatchDamaged:
        return
    assert buffer[position : position + batch.size_bytes] == batch.encode()


def test_a_claimed_size_allocates_nothing() -> None:
    body = struct.pack(">IqqIBbH", MAX_BATCH_BYTES, 0, 0, 1, 1, 0, 1) + bytes(100)
    buffer = struct.pack(">I", crc32c(body)) + body
    tracemalloc.start()
    try:
        with pytest.raises(BatchDamaged, match="cut short"):
            decode(buffer)
        assert decode_header(buffer, 0, MAX_BATCH_BYTES).size == MAX_BATCH_BYTES
        assert tracemalloc.get_traced_memory()[1] < 100_000
    finally:
        tracemalloc.stop()
