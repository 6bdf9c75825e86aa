"""Gaps in a log, and the ghosts that stand for them while entries are sent.

Compaction leaves gaps, and each replica has its own. A follower numbers what it is sent, so the leader puts a ghost
into each gap of a chunk; the follower writes nothing for it and lets the next batch begin behind it.

Sources: ghost-batches.md#sending, ghost-batches.md#receiving, documents.md#ghost-batches-proposal.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from quorumlog.storage.batch import MAX_GHOST_OFFSETS, RecordBatch, ghost


def fill_gaps(
    expected: int, batches: Sequence[RecordBatch], widest: int = MAX_GHOST_OFFSETS
) -> tuple[RecordBatch, ...]:
    """The batches of a chunk that begins at ``expected``, with ghosts in the gaps, each of ``widest`` offsets at most.

    A ghost has the term of the batch that follows it (ghost-batches.md#fill-gaps, ghost-batches.md#ghost-size).
    """
    filled: list[RecordBatch] = []
    for batch in batches:
        filled.extend(ghosts(expected, batch.base_offset - 1, batch.term, widest))
        filled.append(batch)
        expected = batch.last_offset + 1
    return tuple(filled)


def ghosts(first: int, last: int, term: int, widest: int = MAX_GHOST_OFFSETS) -> Iterator[RecordBatch]:
    """Ghosts for the offsets from ``first`` to ``last``; none if there are no such offsets."""
    while first <= last:
        end = min(last, first + widest - 1)
        yield ghost(first, end, term)
        first = end + 1
