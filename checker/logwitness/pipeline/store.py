"""Where the tables of an audit are: which files belong to them, and how a round of results is added at once.

    OUT/audit.json                        what this directory is
    OUT/<table>/part-<round>-<n>.parquet  verdicts, violations, losses, evidence, quarantine, runs, events_small
    OUT/events/run_id=<id>/part-<round>-<n>.parquet
    OUT/summary.json, OUT/summary.txt
    OUT/_rounds/<round>/                  what tasks are writing; nobody reads it
    OUT/_commit.json                      a round that is decided

A round is added in two steps. Writing ``_commit.json`` (by rename) decides it: the file says which files come in and
which go. Then they are moved and removed, and ``_commit.json`` is removed. A process that is killed before the decision
leaves nothing but a directory that the next one removes; one that is killed after it leaves work that the next one
finishes first, and doing a part of it twice changes nothing.
"""

from __future__ import annotations

import secrets
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import PurePosixPath
from typing import Any

import msgspec
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from loghistory import HistoryError

from .files import Files
from .sources import Pending, Source
from .tables import EVENTS, RUNS, SMALL_EVENTS, TABLES, as_utf8

MARK = "audit.json"
COMMIT = "_commit.json"
ROUNDS = "_rounds"
VERSION = 1


class _Decision(msgspec.Struct):
    """What a round changes: files that come in, from and to, and files that go."""

    round: str
    add: list[tuple[str, str]]
    remove: list[str]


@dataclass(slots=True)
class Known:
    """What is known of histories judged before, by their name."""

    stamp: dict[str, str] = field(default_factory=dict)
    digest: dict[str, str] = field(default_factory=dict)
    judged_by: dict[str, str] = field(default_factory=dict)

    def pending(self, source: Source, judged_by: str, *, verify: bool = False) -> Pending | None:
        """The history if it has to be looked at; None if it is as it was when it was judged.

        With ``verify`` it is looked at even if nothing speaks for a change.
        """
        run = as_utf8(source.run)
        if self.judged_by.get(run) != judged_by:
            return Pending(source)
        if source.files and not verify and self.stamp.get(run) == source.stamp:
            return None
        return Pending(source, self.digest.get(run))


class Store:
    """The output directory of an audit. Only one process at a time may change it."""

    def __init__(self, files: Files) -> None:
        self._files = files

    @property
    def place(self) -> str:
        """The directory: an absolute path or a URI."""
        return self._files.place

    def give_up(self) -> None:
        """Remove what tasks have written of a round that is not decided."""
        self._files.remove(ROUNDS)

    def open(self) -> None:
        """Make it ready: finish what was decided, forget what was not. Raises `HistoryError` if it is no audit's."""
        mark = self._files.read(MARK)
        if mark is None:
            if [name for name in self._files.names("") if not name.startswith(".")]:
                problem = "is not empty and holds no audit"
                raise HistoryError(self._files.place, None, None, problem, "name another directory for the results")
            self._files.write(MARK, msgspec.json.encode({"kind": "logwitness audit", "version": VERSION}) + b"\n")
        else:
            self._check(mark)
        decided = self._files.read(COMMIT)
        if decided is not None:
            self._carry_out(msgspec.json.decode(decided, type=_Decision))
        self._files.remove(ROUNDS)

    def _check(self, mark: bytes) -> None:
        try:
            found = msgspec.json.decode(mark)
            fine = found["kind"] == "logwitness audit" and found["version"] == VERSION
        except (msgspec.DecodeError, KeyError, TypeError):
            fine = False
        if not fine:
            problem = "is of an audit that this version cannot continue"
            raise HistoryError(f"{self._files.place}/{MARK}", None, None, problem, "name another directory")

    def known(self) -> Known:
        """What the table of runs says of the histories judged so far, by path or URI."""
        known = Known()
        for table in self.parts(RUNS, ["run", "stamp", "digest", "judged_by"]):
            for row in table.to_pylist():
                known.stamp[row["run"]] = row["stamp"]
                known.judged_by[row["run"]] = row["judged_by"]
                if row["digest"] is not None:
                    known.digest[row["run"]] = row["digest"]
        return known

    def parts(self, name: str, columns: Sequence[str] | None = None) -> list[pa.Table]:
        """The files of a table, each as it is."""
        return [
            pq.read_table(self._files.local(f"{name}/{part}"), columns=columns, partitioning=None)
            for part in self._parts(name)
        ]

    def table(self, name: str, columns: Sequence[str] | None = None) -> pa.Table:
        """A whole table, with these columns (None: all); one without rows if nothing is there."""
        schema = TABLES[name] if columns is None else pa.schema([TABLES[name].field(column) for column in columns])
        return pa.concat_tables([schema.empty_table(), *self.parts(name, columns)])

    def _parts(self, name: str) -> list[str]:
        return sorted(part for part in self._files.names(name) if part.endswith(".parquet"))

    def begin(self) -> str:
        """Begin a round: a new name, eight hexadecimal digits."""
        return secrets.token_hex(4)

    def place_of(self, round_: str, task: str) -> str:
        """Where a task of the round puts its files."""
        self._files.make(f"{ROUNDS}/{round_}/{task}")
        return f"{self._files.place}/{ROUNDS}/{round_}/{task}"

    def commit(
        self,
        round_: str,
        outputs: Sequence[tuple[str, Sequence[tuple[str, str]]]],
        *,
        replaced: Collection[str],
        stamps: Mapping[str, str],
    ) -> None:
        """Add the files of a round and take out all that was known of the histories ``replaced`` (run ids).

        ``outputs`` are directories below the round's, each with the table and name of its files; ``stamps`` are new
        stamps of histories, by run id.
        """
        add: list[tuple[str, str]] = []
        for number, (directory, made) in enumerate(outputs):
            for table, name in made:
                suffix = f"part-{round_}-{number:05}.parquet"
                if table == EVENTS:
                    run = PurePosixPath(name).parent
                    add.append((f"{ROUNDS}/{round_}/{directory}/{EVENTS}/{name}", f"{EVENTS}/{run}/{suffix}"))
                else:
                    add.append((f"{ROUNDS}/{round_}/{directory}/{name}", f"{table}/{suffix}"))
        rewritten, remove = self._without(round_, replaced, stamps)
        decision = _Decision(round_, add + rewritten, remove)
        self._files.write(COMMIT, msgspec.json.encode(decision))
        self._carry_out(decision)
        self._files.remove(ROUNDS)

    def _without(
        self, round_: str, replaced: Collection[str], stamps: Mapping[str, str]
    ) -> tuple[list[tuple[str, str]], list[str]]:
        """The files that know of these histories written anew without them, and the files that go."""
        add: list[tuple[str, str]] = []
        remove: list[str] = []
        if not replaced and not stamps:
            return add, remove
        for table in (*TABLES, SMALL_EVENTS):
            concerned = {*replaced, *stamps} if table == RUNS else set(replaced)
            if not concerned:
                continue
            ids = pa.array(sorted(concerned))
            for number, part in enumerate(self._parts(table)):
                file = self._files.local(f"{table}/{part}")
                column = pq.read_table(file, columns=["run_id"], partitioning=None).column("run_id").cast(pa.string())
                if not pc.any(pc.is_in(column, value_set=ids)).as_py():
                    continue
                remove.append(f"{table}/{part}")
                whole = pq.read_table(file, partitioning=None)
                kept = whole.filter(pc.invert(pc.is_in(column, value_set=pa.array(sorted(replaced), pa.string()))))
                if table == RUNS and stamps:
                    kept = _restamped(kept, stamps)
                if kept.num_rows:
                    new = f"{ROUNDS}/{round_}/rewritten/{table}-{number:05}.parquet"
                    with self._files.to_write(new) as place:
                        pq.write_table(kept, place, compression="zstd")
                    add.append((new, f"{table}/part-{round_}-kept-{number:05}.parquet"))
        for run_id in sorted(replaced):
            directory = f"{EVENTS}/run_id={run_id}"
            remove += [f"{directory}/{part}" for part in self._files.names(directory)]
        return add, remove

    def _carry_out(self, decision: _Decision) -> None:
        self._files.move(decision.add)
        for name in decision.remove:
            self._files.remove(name)
        self._files.remove(COMMIT)

    def report(self, name: str, data: bytes) -> None:
        """Write a file for people, by rename."""
        self._files.write(name, data)


def _restamped(runs: pa.Table, stamps: Mapping[str, str]) -> pa.Table:
    rows: list[dict[str, Any]] = runs.to_pylist()
    for row in rows:
        row["stamp"] = stamps.get(row["run_id"], row["stamp"])
    return pa.Table.from_pylist(rows, TABLES[RUNS])
