"""What a log does when it is opened: find what is undamaged, cut the rest, and report it.

After a power loss any segment may have lost its tail, and a later segment may have survived an earlier
one's loss. The recovered log is the longest run of whole batches from the start offset on; it ends at the
first damaged byte or the first discontinuity that no compaction explains, and what lies behind is removed.

A checksum cannot distinguish a torn tail from bit rot. So nothing that is known to have been flushed
(`LogState.known_flushed`) is ever cut: opening fails with `LogDamaged` instead, and the files stay as they
are. Behind that place recovery cuts and reports what it cut, and whether whole batches lay behind the cut.

Sources: raft.md#restart, ghost-batches.md#compaction-is-durable.
"""

from __future__ import annotations

from dataclasses import dataclass

from quorumlog.storage.compaction import Borders
from quorumlog.storage.disk import Disk, StorageError
from quorumlog.storage.segment import Scan, Segment, parse_segment_name, scan, whole_batch_behind
from quorumlog.storage.state import LogState, is_begun, load_state


class LogDamaged(StorageError):  # noqa: N818 - named for what happened
    """Data that had been flushed is missing or fails its checksum."""


@dataclass(frozen=True, slots=True)
class RecoveryReport:
    """What opening a log found.

    `dirty` is the recovered end, `bytes_read` what was scanned. If something was cut, `cut_offset` is the
    first offset that is not there (the end plus one), `bytes_cut` how much went, `removed` the names of the
    segment files that went with it, `reason` says why in words, and `whole_batches_behind` whether
    undamaged batches lay behind the cut, which a torn tail alone does not explain.
    """

    dirty: int
    bytes_read: int
    bytes_cut: int = 0
    cut_offset: int | None = None
    removed: tuple[str, ...] = ()
    reason: str | None = None
    whole_batches_behind: bool = False


def recover(disk: Disk, directory: str, state: LogState, scan: Scan = scan) -> tuple[list[Segment], RecoveryReport]:
    """The segments of the log, with everything cut away that does not belong to it, durably.

    Raises `LogDamaged` if that would cut what is known to be flushed; nothing is changed then.
    """
    found = _find(disk, directory, state.start_offset, scan)
    segments, behind, reason = found.segments, found.behind, found.reason
    dirty = _end(segments, state.start_offset)
    if dirty < state.known_flushed:
        raise LogDamaged(
            f"{directory}: offset {dirty + 1} is damaged or missing ({reason or 'the log ends there'}), but "
            f"everything up to offset {state.known_flushed} had been flushed; restore the disk, or replace the "
            "node by an empty one under a new id"
        )
    whole_behind = reason is not None and (
        any(disk.size(path) for path in behind) or (bool(segments) and whole_batch_behind(disk, segments[-1]))
    )
    if state.cut_behind and dirty > state.known_flushed:
        reason = f"the log was being emptied to restart at offset {state.start_offset}"
        segments, more = _keep_up_to(segments, state.known_flushed, state.start_offset)
        behind = [*more, *behind]
        dirty = _end(segments, state.start_offset)
    bytes_cut = _cut(disk, directory, segments, behind, found.trimmed)
    if not bytes_cut:
        return segments, RecoveryReport(dirty, found.bytes_read)
    removed = tuple(path.rpartition("/")[2] for path in behind)
    return segments, RecoveryReport(dirty, found.bytes_read, bytes_cut, dirty + 1, removed, reason, whole_behind)


def known_to_be_flushed(disk: Disk, directory: str) -> list[tuple[str, int]]:
    """The segments that hold what is known to be flushed, and how many bytes of each do; none in a log never opened.

    If one of these bytes changes, or one of these files is missing, `recover` raises `LogDamaged`. Raises
    `FileDamaged`.
    """
    if not is_begun(disk, directory):
        return []
    state = load_state(disk, f"{directory}/state")
    if state.known_flushed < state.start_offset:
        return []
    known = []
    for segment in _find(disk, directory, state.start_offset, scan).segments:
        if segment.base_offset > state.known_flushed:
            break
        within = segment.next_offset > state.known_flushed + 1
        known.append((segment.path, segment.position_behind(state.known_flushed) if within else segment.size))
    return known


@dataclass(slots=True)
class _Found:
    """Segments that continue each other, the paths after them and those a trim left over, and why the log ends."""

    segments: list[Segment]
    behind: list[str]
    trimmed: list[str]
    reason: str | None = None
    bytes_read: int = 0


def _find(disk: Disk, directory: str, start_offset: int, scan: Scan) -> _Found:
    named = [(parsed, name) for name in disk.list(directory) if (parsed := parse_segment_name(name)) is not None]
    named.sort()
    borders = Borders(disk, directory)
    found = _Found([], [], [])
    for index, ((base_offset, term), name) in enumerate(named):
        path = f"{directory}/{name}"
        if index + 1 < len(named) and named[index + 1][0][0] <= start_offset and base_offset < start_offset:
            found.trimmed.append(path)
            continue
        expected = found.segments[-1].next_offset if found.segments else start_offset
        if base_offset > expected and borders.explain(expected, base_offset - 1):
            base_offset = expected  # a gap before its first batch
        if found.reason is None:
            found.reason = _misfit(found.segments, start_offset, base_offset, term, name)
        if found.reason is not None:
            found.behind.append(path)
            continue
        segment, problem = scan(disk, path, base_offset, term)
        found.bytes_read += segment.size
        if problem is not None:
            found.reason = f"{name} at byte {segment.size}: {problem}"
        if segment.next_offset > max(base_offset, start_offset):
            found.segments.append(segment)
        elif base_offset < start_offset:
            found.trimmed.append(path)
        else:
            found.behind.append(path)
    return found


def _misfit(segments: list[Segment], start_offset: int, base_offset: int, term: int, name: str) -> str | None:
    """Why the segment does not follow those before it, or None."""
    if not segments:
        return None if base_offset <= start_offset else f"{name} where offset {start_offset} should follow"
    last = segments[-1]
    if base_offset != last.next_offset:
        return f"{name} where offset {last.next_offset} should follow"
    return None if term >= last.term else f"{name} behind term {last.term}"


def _keep_up_to(segments: list[Segment], offset: int, start_offset: int) -> tuple[list[Segment], list[str]]:
    """The segments without the batches behind `offset`, and the paths that are left without a batch of the log."""
    kept = [segment for segment in segments if segment.base_offset <= offset and offset >= start_offset]
    if kept and kept[-1].next_offset > offset + 1:
        kept[-1].cut(kept[-1].batch_base(offset + 1))
    return kept, [segment.path for segment in segments[len(kept) :]]


def _cut(disk: Disk, directory: str, segments: list[Segment], behind: list[str], trimmed: list[str]) -> int:
    """Remove the files that are not part of the log and shorten its last one, durably. Returns the bytes cut."""
    bytes_cut = sum(disk.size(path) for path in behind)
    # From the end backwards, so that what is left after an interruption is still one log with a cut.
    for path in (*reversed(behind), *trimmed):
        disk.remove(path)
    if behind or trimmed:
        disk.sync(directory)
    if segments:
        last = segments[-1]
        excess = disk.size(last.path) - last.size
        if excess:
            disk.truncate(last.path, last.size)
            disk.sync(last.path)
            bytes_cut += excess
    return bytes_cut


def _end(segments: list[Segment], start_offset: int) -> int:
    return segments[-1].next_offset - 1 if segments else start_offset - 1
