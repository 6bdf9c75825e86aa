"""What a shard could not record before a SIGKILL, found by comparing its disk with its history files.

A change is recorded after it is durable, and nobody hears of it before it is recorded. What is on the disk and in no
file is therefore recorded first by the next incarnation, as the last events of the last one that began. What led to it
may be later than the last event that is in a file: it is stamped with the end of that life, if it is known.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from loghistory.schema import Kind
from quorumlog.node.recording import History, end_stamp, find_history, history_path, whole_events
from quorumlog.node.wire import Stamp
from quorumlog.read_path.contents import Contents
from quorumlog.read_path.recording import Noted
from quorumlog.read_path.shard import copy_columns

_OF_A_COPY = ("offset", "record", "wave", "recovery", "shards", "value")


def files_before(directory: Path, node: int, incarnation: int) -> list[Path]:
    """The histories of the incarnations before."""
    found = (find_history(history_path(directory, node, number)) for number in range(incarnation))
    return [path for path in found if path is not None]


def missing_changes(files: Iterable[Path], contents: Contents) -> list[Noted]:
    """What lies between the last event in these files and the contents of a shard that has lost nothing."""
    recorded = _Recorded()
    for path in files:
        for event in whole_events(path):
            recorded.see(event)
    found: list[Noted] = []
    if contents.trim_point > recorded.trim_point:
        found.append(("trim_point", {"offset": contents.trim_point}))
        recorded.delete(0, contents.trim_point)
    gone = sorted(recorded.copies.keys() - contents.copies.keys())
    found += [("purge", {"offset": lsn, "last_offset": lsn}) for lsn in gone]
    for lsn, copy in sorted(contents.copies.items()):
        columns = copy_columns(copy)
        if recorded.copies.get(lsn) != columns:
            found.append(("copy", columns))
    if contents.sealed > recorded.sealed:
        found.append(("seal", {"epoch": contents.sealed}))
    return found


def record_missing(history: History, files: Sequence[Path], contents: Contents, ended: Mapping[int, Stamp]) -> None:
    """Begin a history with what the lives before could not record any more; ``ended``: when these were over."""
    if not files:
        return
    last, end = max(map(end_stamp, files))
    begun = (event for path in files for event in whole_events(path) if event.kind == Kind.TAKES_PART)
    lived = max((event.incarnation for event in begun), default=None)
    of_life = {} if lived is None else {"incarnation": lived}
    last = max(last, ended.get(-1 if lived is None else lived, last))
    for step, (kind, columns) in enumerate(missing_changes(files, contents), start=1):
        history.stamped(kind, (last[0], last[1] + step), {**columns, **of_life})
    history.clock.merge(max(end, last))


class _Recorded:
    """The shard as its history files show it."""

    def __init__(self) -> None:
        self.copies: dict[int, dict[str, Any]] = {}
        self.trim_point = self.sealed = 0

    def see(self, event: Any) -> None:  # noqa: ANN401
        """Follow one event, as far as it concerns copies."""
        match event.kind:
            case "takes_part" if event.reason == "lost":
                self.copies.clear()
                self.trim_point = self.sealed = 0
            case "copy":
                said = {name: getattr(event, name) for name in _OF_A_COPY}
                self.copies[event.offset] = {name: value for name, value in said.items() if value is not None}
            case "purge":
                self.delete(event.offset, event.offset if event.last_offset is None else event.last_offset)
            case "trim_point":
                self.trim_point = event.offset
                self.delete(0, event.offset)
            case "seal":
                self.sealed = event.epoch

    def delete(self, first: int, last: int) -> None:
        """Forget what is in this range."""
        for lsn in [lsn for lsn in self.copies if first <= lsn <= last]:
            del self.copies[lsn]
