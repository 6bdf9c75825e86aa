"""The engine that works in this process: one scan of the history feeds all checks."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from functools import partial
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from loghistory import Kind, RunSource
from loghistory.schema import STATE_KINDS

from ..checks import all_checks, families_of
from ..checks.columns import Reader
from ..checks.contract import Family, Setting, Verdict, Verdicts, worst
from ..checks.kernel import compiled_pays
from .logs import Logs
from .read_ahead import read_ahead
from .run import RunVerdict, exit_status, together

BATCH_ROWS = 1 << 17
_INTERNAL = tuple(map(str, STATE_KINDS - {Kind.COMPACT, Kind.TRIM}))
"""Kinds that show the nodes at work; that records are given up may be all that a black-box run shows of them."""

Progress = Callable[[int], None]
"""Called with the number of events read so far."""


def check(
    source: RunSource | pa.Table,
    only: Sequence[str] | None = None,
    *,
    required: Sequence[str] = (),
    configuration: Mapping[str, Any] | None = None,
    compiled: bool | None = None,
    progress: Progress | None = None,
) -> RunVerdict:
    """Judge one run.

    ``source`` is a run as opened by loghistory, or a table of its schema; ``only`` the ids of the checks wanted
    (None: all); ``required`` those that must not be unexercised; ``configuration`` what the run was made with
    (``voters``, ``write_caching``, ``idempotent``; None: as its manifest says); ``compiled`` whether loops run
    as machine code (None: if it pays). Raises `HistoryError` for bad input and KeyError for an unknown check
    id.
    """
    setting = setting_of(source, configuration, compiled)
    families = families_for(only, setting)
    events, by_log = judge_logs(_name(source), partial(_batches, source), families, setting, progress)
    notes = tuple(source.notes) if isinstance(source, RunSource) else ()
    return concluded(_name(source), events, by_log, only, required=required, notes=notes, keep=setting.keep)


def concluded(
    name: str,
    events: int,
    by_log: Sequence[tuple[str | None, Verdicts]],
    only: Sequence[str] | None = None,
    *,
    required: Sequence[str] = (),
    notes: Sequence[str] = (),
    keep: int = 10,
) -> RunVerdict:
    """The verdict on a run from what `judge_logs` says about all of its logs."""
    wanted = [each for each in all_checks() if only is None or each.id in only]
    outcomes, losses = together(wanted, by_log, keep)
    status = exit_status(outcomes, required)
    verdict = worst([each.verdict for each in outcomes])
    if verdict is Verdict.HOLDS and status:
        verdict = Verdict.UNEXERCISED
    return RunVerdict(name, verdict, status, events, len(by_log), outcomes, losses, tuple(notes))


def setting_of(
    source: RunSource | pa.Table, configuration: Mapping[str, Any] | None = None, compiled: bool | None = None
) -> Setting:
    """What the folds must know of a run before its first event; arguments as for `check`."""
    configuration = _configuration(source) if configuration is None else configuration
    if compiled is None:
        compiled = compiled_pays(_events(source))
    return Setting(
        voters=_voters(source, configuration),
        write_caching=bool(configuration.get("write_caching", False)),
        idempotent=bool(configuration.get("idempotent", True)),
        compiled=compiled,
    )


def families_for(only: Iterable[str] | None, setting: Setting) -> tuple[Family, ...]:
    """The families that have something to judge. Raises KeyError for an unknown check id."""
    return tuple(family for family in families_of(only) if setting.voters or not family.of_nodes)


def judge_logs(
    name: str,
    batches: Callable[[Collection[str]], Iterable[pa.RecordBatch]],
    families: Sequence[Family],
    setting: Setting,
    progress: Progress | None = None,
) -> tuple[int, list[tuple[str | None, Verdicts]]]:
    """Feed events to these families: how many there were, and what the families say about each log.

    ``batches`` gives the events in order, with the columns that it is told. Families may be judged apart from each
    other, and so may logs.
    """
    reader = Reader(name, {column for family in families for column in family.columns}, setting.words)
    logs = Logs(lambda: [family.start(setting) for family in families])
    events = 0
    read = ((reader.columns(batch), batch.column("log")) for batch in batches(reader.reads) if batch.num_rows)
    for columns, log in read_ahead(read):
        logs.feed(columns, log)
        events += len(log)
        if progress is not None:
            progress(events)
    return events, logs.finish()


def events_at(source: RunSource | pa.Table, wanted: Iterable[int]) -> dict[int, dict[str, Any]]:
    """The events with these ``seq``, each as its columns that are not null."""
    left = np.array(sorted(set(wanted)), dtype=np.int64)
    found: dict[int, dict[str, Any]] = {}
    if not len(left):
        return found
    for batch in _batches(source, None):
        seqs = batch.column("seq")
        mask = pc.is_in(seqs, value_set=pa.array(left))
        if pc.any(mask).as_py():
            for row in batch.filter(mask).to_pylist():
                found[row["seq"]] = {name: value for name, value in row.items() if value is not None}
            if len(found) == len(left):
                break
    return found


def _name(source: RunSource | pa.Table) -> str:
    return str(source.path) if isinstance(source, RunSource) else "memory"


def _batches(source: RunSource | pa.Table, columns: Iterable[str] | None) -> Iterator[pa.RecordBatch]:
    if isinstance(source, RunSource):
        return source.batches(columns, batch_rows=BATCH_ROWS)
    table = source
    if columns is not None:
        wanted = set(columns)
        table = table.select([name for name in table.column_names if name in wanted])
    return iter(table.to_batches(BATCH_ROWS))


def _events(source: RunSource | pa.Table) -> int | None:
    if isinstance(source, RunSource):
        return source.manifest.events if source.manifest else None
    return int(source.num_rows)


def _configuration(source: RunSource | pa.Table) -> Mapping[str, Any]:
    """What the manifest says the run was made with."""
    if not isinstance(source, RunSource) or source.manifest is None:
        return {}
    found = source.manifest.made_by.get("configuration")
    return found if isinstance(found, Mapping) else {}


def _voters(source: RunSource | pa.Table, configuration: Mapping[str, Any]) -> tuple[int, ...]:
    """The voters: as configured, else the nodes that have internal events."""
    configured = configuration.get("voters")
    if isinstance(configured, list) and configured:
        return tuple(int(node) for node in configured)
    if isinstance(source, RunSource) and source.manifest is not None and source.manifest.events:
        seen = source.manifest.counts
        return tuple(source.manifest.nodes) if any(seen.get(kind) for kind in _INTERNAL) else ()
    kinds = pa.array(_INTERNAL, pa.string())
    nodes: set[int] = set()
    for batch in _batches(source, ["kind", "node"]):
        words = batch.column("kind")
        internal = pc.is_in(words.dictionary, value_set=kinds).take(words.indices)
        nodes.update(node for node in batch.column("node").filter(internal).unique().to_pylist() if node is not None)
    return tuple(sorted(nodes))
