"""The replicas that a server keeps: what it folds, and what it appends where it is the active.

A replica begins where its table was saved, and goes when an assignment takes it away. The active of a partition
announces itself, waits until it has passed that, and then turns the source log into changes
(pull-queries.md#takeover).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import ClassVar

from quorumlog.durations import MILLISECOND
from quorumlog.events import Effect, SetTimer
from quorumlog.pull_queries.assignment import Assignment, folded
from quorumlog.pull_queries.configuration import Configuration
from quorumlog.pull_queries.events import (
    AppendFailed,
    AppendRecords,
    AssignmentRead,
    ChangelogRead,
    ReadSource,
    SourceRead,
    SourceVisible,
)
from quorumlog.pull_queries.rules import Rules
from quorumlog.pull_queries.table import Change, Feeder, SavedTable, Table, Takeover

RETRY = 100
"""Milliseconds after which what could not be appended is appended again."""


class Replicas:
    """The tables of one server; ``saved``: what it had saved of each partition (pull-queries.md#saved-together)."""

    table_type: ClassVar[type[Table]] = Table
    feeder_type: ClassVar[type[Feeder]] = Feeder

    def __init__(self, host: str, configuration: Configuration, saved: Mapping[int, SavedTable], rules: Rules) -> None:
        self.host, self.configuration, self.rules = host, configuration, rules
        self.assignment = Assignment()
        self.tables: dict[int, Table] = {}
        self._saved = dict(saved)
        self._feeders: dict[int, Feeder] = {}
        self._sources: dict[int, int] = {}
        self._effects: list[Effect] = []

    def fenced(self, partition: int) -> bool:
        """Whether this server is the active of a partition and has passed its own takeover."""
        feeder, table = self._feeders.get(partition), self.tables.get(partition)
        return feeder is not None and table is not None and table.epoch == feeder.epoch

    def _assignment_read(self, event: AssignmentRead) -> None:
        self.assignment = folded(self.rules, self.assignment, event.record)
        for partition in range(self.configuration.partitions):
            placement = self.assignment.of(partition)
            if self.host not in placement.hosts:
                if partition in self.tables:  # it may come back, and a table is true at its position for ever
                    self._saved[partition] = self.tables.pop(partition).saved()
            elif partition not in self.tables:
                self.tables[partition] = self.table_type(self.rules, self._saved.pop(partition, None))
            if placement.active != self.host:
                self._feeders.pop(partition, None)
            elif partition not in self._feeders:
                self._feeders[partition] = self.feeder_type(self.assignment.epoch)
            self._feed(partition)

    def _changelog_read(self, event: ChangelogRead) -> None:
        """Fold what is next; what was folded already, or is not kept here, is passed over."""
        table = self.tables.get(event.partition)
        if table is not None and event.offset == table.current:
            table.fold(event.offset, event.record)
            table.note_visible(event.offset)
            self._feed(event.partition)

    def _source_visible(self, event: SourceVisible) -> None:
        self._sources[event.partition] = max(self._sources.get(event.partition, 0), event.visible + 1)
        self._feed(event.partition)

    def _source_read(self, event: SourceRead) -> None:
        feeder = self._feeders.get(event.partition)
        if feeder is None:
            return
        made = [
            Change(feeder.epoch, source) if entry is None else Change(feeder.epoch, source, *entry)
            for source, entry in enumerate(event.entries, event.first)
        ]
        self._effects.append(AppendRecords(event.partition, tuple(made)))

    def _append_failed(self, event: AppendFailed) -> None:
        if event.partition in self._feeders and event.partition in self.tables:
            self._feeders[event.partition].failed(self.tables[event.partition])
            self._effects.append(SetTimer("feed", RETRY * MILLISECOND))

    def _feed_all(self) -> None:
        for partition in self._feeders:
            self._feed(partition)

    def _feed(self, partition: int) -> None:
        """Let the active append what is due."""
        feeder, table = self._feeders.get(partition), self.tables.get(partition)
        if feeder is None or table is None:
            return
        due = feeder.due(table, self._sources.get(partition, 0))
        if isinstance(due, Takeover):
            self._effects.append(AppendRecords(partition, (due,)))
        elif due is not None:
            self._effects.append(ReadSource(partition, due.start, due.stop))
