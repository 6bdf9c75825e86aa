"""Merging the files of several processes into one run, in one causal order.

Every process records its own file and stamps events with a hybrid logical clock, so that (time, logical) of an event
is greater than of everything that it depends on. Events are merged by (time, logical, file, position in the file);
files rank by name, so that the order of the arguments does not matter. The order inside a file is kept always.

A ``receive`` never comes before its ``send`` (same ``message``): where the clocks say otherwise, because a process
did not merge the stamp it received, the receive and what follows it in its file are moved behind the send, and the
run's notes count it. The memory needed is a batch of each file; a send is looked for in what is in memory. If it
turns up only later, the merge is refused: those clocks are no hybrid logical clocks.
"""

from __future__ import annotations

import os
from collections import OrderedDict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeAlias

import msgspec
import numpy as np
import numpy.typing as npt
import pyarrow as pa

from .columns import empty, joined
from .errors import HistoryError
from .manifest import Manifest, as_manifest
from .recorder import UNFINISHED
from .run import write_run
from .schema import SCHEMA, Kind
from .source import RunSource, open_run
from .validity import KINDS, kind_codes
from .writers import Format

BATCH_ROWS = 1 << 14
"""Events of each file that are in memory, at most; blocks of JSON Lines may hold fewer."""

REMEMBERED = 1 << 18
"""Sends, and receives without a send, that are remembered for the messages in flight."""

_SEND, _RECEIVE = KINDS.index(Kind.SEND), KINDS.index(Kind.RECEIVE)
_Key: TypeAlias = tuple[int, int]
_Integers: TypeAlias = npt.NDArray[np.int64]


@dataclass(slots=True)
class MergeNotes:
    """What a merge found that a person should know."""

    moved: int = 0
    """Receives that were moved behind their send."""
    backwards: int = 0
    """Events stamped earlier than one before them in the same file."""
    without_send: int = 0
    """Receives whose send is in no file, as when the sender was killed before it wrote it."""
    sources: list[str] = field(default_factory=list)
    """Remarks on the files."""

    def sentences(self) -> list[str]:
        """The remarks for people, one sentence each: those on the files first; none where there is nothing to say."""
        found = list(self.sources)
        if self.backwards:
            found.append(f"Events stamped earlier than an event before them in their file: {self.backwards}.")
        if self.moved:
            found.append(f"Receives stamped before their send, moved behind it: {self.moved}.")
        if self.without_send:
            found.append(f"Messages received whose send is not recorded: {self.without_send}.")
        return found


class _Stream:
    """The part of one file that is in memory: some events and the keys by which they are merged.

    ``time`` and ``logical`` are those keys. They never decrease, and differ from the columns of these names only
    where the file's clock went back or a receive was moved behind its send.
    """

    def __init__(self, source: RunSource, rank: int, notes: MergeNotes) -> None:
        self.name = str(source.events)
        self.rank = rank
        self._notes = notes
        self._batches = source.batches(batch_rows=BATCH_ROWS)
        self.batch = empty()
        self.time: _Integers = np.empty(0, np.int64)
        self.logical: _Integers = np.empty(0, np.int64)
        self.sends: dict[int, int] = {}
        """Messages sent by the events in memory, with the event's position in the file."""
        self.receives: list[tuple[int, int]] = []
        """Position in the file and message of the receives in memory, in order."""
        self.start = 0
        """Position in the file of the first event in memory."""
        self._floor: _Key = (np.iinfo(np.int64).min, 0)

    def refill(self) -> bool:
        """Read on if nothing is in memory; False if there is nothing left."""
        if self.batch.num_rows:
            return True
        batch = next(self._batches, None)
        if batch is None:
            return False
        self.batch = batch
        self.time = batch.column("time").to_numpy().copy()
        self.logical = batch.column("logical").fill_null(0).to_numpy().astype(np.int64)
        self._notes.backwards += self._raise_from(0)
        codes = kind_codes(batch.column("kind"))
        messages = batch.column("message")
        places = np.flatnonzero((codes == _SEND) | (codes == _RECEIVE))
        for place, message in zip(places.tolist(), messages.take(pa.array(places)).to_pylist(), strict=True):
            if codes[place] == _SEND:
                self.sends[message] = self.start + place
            else:
                self.receives.append((self.start + place, message))
        return True

    @property
    def last(self) -> tuple[int, int, int]:
        """The key of the last event in memory, with the file's rank."""
        return int(self.time[-1]), int(self.logical[-1]), self.rank

    def key(self, position: int) -> tuple[int, int, int]:
        """The key of an event in memory by its position in the file, with the file's rank."""
        place = position - self.start
        return int(self.time[place]), int(self.logical[place]), self.rank

    def up_to(self, limit: tuple[int, int, int]) -> int:
        """How many events in memory do not come after the limit."""
        time, logical, rank = limit
        before = self.logical <= logical if self.rank <= rank else self.logical < logical
        return int(np.count_nonzero((self.time < time) | ((self.time == time) & before)))

    def move_behind(self, position: int, key: _Key) -> None:
        """Move an event, and what follows it as far as needed, behind a key."""
        place = position - self.start
        self.time[place], self.logical[place] = key[0], key[1] + 1
        self._raise_from(place + 1)

    def take(self, count: int) -> pa.RecordBatch:
        """Remove the first events from memory and return them."""
        head = self.batch.slice(0, count)
        if count:
            self._floor = (int(self.time[count - 1]), int(self.logical[count - 1]))
        self.batch = self.batch.slice(count)
        self.time, self.logical = self.time[count:], self.logical[count:]
        self.start += count
        return head

    def _raise_from(self, place: int) -> int:
        """Raise keys from a place on so that none is below one before it; how many were."""
        times, logicals = self.time, self.logical
        if place == 0:
            low = (int(times[0]), int(logicals[0])) < self._floor
        else:
            low = place < len(times) and (times[place], logicals[place]) < (times[place - 1], logicals[place - 1])
        same = times[1:] == times[:-1]
        if not low and bool(np.all((times[1:] > times[:-1]) | (same & (logicals[1:] >= logicals[:-1])))):
            return 0
        raised = 0
        floor = self._floor if place == 0 else (int(times[place - 1]), int(logicals[place - 1]))
        for at, key in enumerate(zip(times[place:].tolist(), logicals[place:].tolist(), strict=True), place):
            if key < floor:
                times[at], logicals[at] = floor
                raised += 1
            else:
                floor = key
        return raised


class _Merge:
    """Merges streams window by window: all that cannot be preceded by anything that is not in memory."""

    def __init__(self, streams: Sequence[_Stream], notes: MergeNotes) -> None:
        self._streams = streams
        self._notes = notes
        self._sent: OrderedDict[int, None] = OrderedDict()
        self._early: OrderedDict[int, str] = OrderedDict()

    def __iter__(self) -> Iterator[pa.RecordBatch]:
        while True:
            live = [stream for stream in self._streams if self._refilled(stream)]
            if not live:
                return
            counts = self._settle(live)
            times = np.concatenate([s.time[:n] for s, n in zip(live, counts, strict=True)])
            logicals = np.concatenate([s.logical[:n] for s, n in zip(live, counts, strict=True)])
            for stream, count in zip(live, counts, strict=True):
                self._note_sends(stream, stream.start + count)
            for stream, count in zip(live, counts, strict=True):
                self._note_receives(stream, stream.start + count)
            window = joined([stream.take(count) for stream, count in zip(live, counts, strict=True)])
            # Streams are concatenated by rank and the sort is stable: ties keep rank and position.
            order = np.lexsort((logicals, times))
            yield window.take(pa.array(order))

    def _refilled(self, stream: _Stream) -> bool:
        fresh = stream.batch.num_rows == 0
        if not stream.refill():
            return False
        if fresh and self._early:
            for message in stream.sends:
                if message in self._early:
                    problem = f"message {message} is sent here, long after {self._early[message]} received it"
                    remedy = "stamp events with hybrid logical clocks that merge the stamp of each message received"
                    raise HistoryError(stream.name, None, "time", problem, remedy)
        return True

    def _settle(self, live: Sequence[_Stream]) -> list[int]:
        """How many events of each stream the window has, after every receive is behind a send that is in memory."""
        sends = {m: (s, position) for s in live for m, position in s.sends.items()}
        # A sweep settles every chain of messages that is one longer than before, so more sweeps mean a circle.
        for _ in range(1 + sum(len(stream.receives) for stream in live)):
            limit = min(stream.last for stream in live)
            counts = [stream.up_to(limit) for stream in live]
            moved = [self._move(s, n, sends) for s, n in zip(live, counts, strict=True)]
            if True not in moved:
                return counts
        problem = "messages are received before they are sent, in a circle"
        raise HistoryError(live[0].name, None, "message", problem, "give every message of the run its own number")

    def _move(self, stream: _Stream, count: int, sends: Mapping[int, tuple[_Stream, int]]) -> bool:
        """Move receives among the stream's first events behind their sends; whether any had to be."""
        moved = False
        if not sends:
            return moved
        end = stream.start + count
        for position, message in stream.receives:
            if position >= end:
                break
            if message not in sends:
                continue
            sender, sent_at = sends[message]
            sent = sender.key(sent_at)
            if (*sent, sent_at if sender is stream else 0) > (*stream.key(position), position):
                stream.move_behind(position, sent[:2])
                self._notes.moved += 1
                moved = True
        return moved

    def _note_sends(self, stream: _Stream, end: int) -> None:
        gone = [message for message, position in stream.sends.items() if position < end]
        for message in gone:
            del stream.sends[message]
            self._sent[message] = None
        while len(self._sent) > REMEMBERED:
            self._sent.popitem(last=False)

    def _note_receives(self, stream: _Stream, end: int) -> None:
        gone = 0
        for position, message in stream.receives:
            if position >= end:
                break
            gone += 1
            if message not in self._sent:
                self._notes.without_send += 1
                self._early[message] = stream.name
        del stream.receives[:gone]
        while len(self._early) > REMEMBERED:
            self._early.popitem(last=False)


def merged(sources: Sequence[RunSource], notes: MergeNotes) -> Iterator[pa.RecordBatch]:
    """The events of several files in one causal order, with ``seq`` assigned anew from 0; see the module.

    What a person should know is added to ``notes``, complete when the iteration ends.
    """
    ranked = sorted(sources, key=lambda source: (source.events.name, str(source.events)))
    streams = [_Stream(source, rank, notes) for rank, source in enumerate(ranked)]
    seq = 0
    for window in _Merge(streams, notes):
        numbers = pa.array(np.arange(seq, seq + window.num_rows))
        seq += window.num_rows
        yield window.set_column(0, SCHEMA.field("seq"), numbers)
    for source in ranked:
        notes.sources += [f"{source.events.name}: {note}" for note in _remarks(source)]


def _remarks(source: RunSource) -> list[str]:
    """What is to be said of one file; that a process was killed is no surprise in a run of several."""
    if not source.events.name.endswith(UNFINISHED):
        return source.notes
    return ["Its process was killed; its events go up to its last whole one.", *source.set_aside_notes]


def merge_runs(
    files: Sequence[str | os.PathLike[str]],
    directory: str | os.PathLike[str],
    manifest: Manifest | Mapping[str, Any] | None = None,
    format: Format | str = Format.JSON_LINES,  # noqa: A002
    *,
    lenient: bool = False,
) -> Manifest:
    """Merge the files of several processes into a new run directory; returns its manifest, the notes included.

    For a file that is missing, what its killed process left (``<file>.part``) is taken. ``manifest`` None: the run is
    called after the directory and says from which files it was merged. Raises `HistoryError`.
    """
    paths = [_recorded(Path(file)) for file in files]
    complete = as_manifest(
        manifest or {"name": Path(directory).name, "made_by": {"merged": sorted(p.name for p in paths)}}
    )
    notes = MergeNotes()
    sources = [open_run(path, lenient=lenient) for path in paths]

    def described() -> Manifest:
        """The manifest with the remarks of the merge, which are complete when all events are written."""
        return msgspec.structs.replace(complete, notes=[*complete.notes, *notes.sentences()])

    version = min(source.version for source in sources)
    return write_run(directory, merged(sources, notes), described, format, version=version)


def _recorded(path: Path) -> Path:
    unfinished = path.with_name(path.name + UNFINISHED)
    return unfinished if not path.exists() and unfinished.exists() else path
