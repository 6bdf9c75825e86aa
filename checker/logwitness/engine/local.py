"""The engine that works in this process: one scan of the history feeds all checks."""

from __future__ import annotations

import gc
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import partial
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from loghistory import RunSource
from loghistory.arrays import occurrences
from loghistory.errors import quote
from loghistory.importers import ForeignFormat
from loghistory.schema import STATE_KINDS

from ..checks import families, families_of, house_families, left_out
from ..checks.columns import Columns, Reader
from ..checks.contract import Check, Family, Protocol, Setting, Verdict, Verdicts, worst
from ..checks.kernel import compiled_pays
from .configured import configured_bound, configured_switch
from .doubt import Doubt, Vocabulary
from .logs import Logs
from .memory import keep_freed
from .read_ahead import read_ahead
from .run import RunVerdict, exit_status, together
from .voters import configured_number, configured_voters, numbered_voters

BATCH_ROWS = 1 << 17
"""Events that are judged at once, as many as a row group has: folds make room for all that these may bring, which is
not to outgrow the caches."""

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
    (None: those of the run's protocol, and those that judge any log; what they depend on is judged in any case);
    ``required`` those that must not be unexercised; ``configuration`` what the run was made with (``voters``,
    ``write_caching``, ``idempotent``, ``progress_bound``, ``memory_bytes``, ``max_in_flight``; None: as its manifest
    says); ``compiled`` whether loops run as machine code (None: if it pays). Raises `HistoryError` for bad input and
    KeyError for an unknown check id.
    """
    setting = setting_of(source, configuration, compiled)
    chosen = families_for(only, setting)
    doubt = Doubt(vocabulary_of(chosen), by_log=not setting.foreign, timed=setting.foreign)
    events, by_log = judge_logs(_name(source), partial(_batches, source), chosen, setting, progress, doubt)
    notes: Sequence[str] = ()
    if isinstance(source, RunSource):
        doubt.read(source)
        notes = source.notes
    notes = (*notes, *(unfamiliar(setting) if only is None else ()))
    wanted = checks_for(only, setting, required)
    return concluded(
        _name(source), events, by_log, wanted, required=required, notes=notes, keep=setting.keep, doubt=doubt
    )


def concluded(
    name: str,
    events: int,
    by_log: Sequence[tuple[str | None, Verdicts]],
    wanted: Sequence[Check],
    *,
    required: Sequence[str] = (),
    notes: Sequence[str] = (),
    keep: int = 10,
    doubt: Doubt,
) -> RunVerdict:
    """The verdict on a run from what `judge_logs` says about all of its logs; ``wanted`` as of `checks_for`."""
    outcomes, losses = together(wanted, by_log, keep)
    by_operations = {check.id for family in families() if family.operations for check in family.checks}
    outcomes = doubt.weigh(outcomes, {check.id for check in wanted if check.conclusive}, by_operations)
    status = exit_status(outcomes, required)
    verdict = worst([each.verdict for each in outcomes])
    if verdict is Verdict.HOLDS and status:
        verdict = Verdict.UNEXERCISED
    said = (*notes, *doubt.notes, *left_out())
    aside, unknown = dict(doubt.set_aside), dict(doubt.unknown)
    return RunVerdict(name, verdict, status, events, len(by_log), outcomes, losses, said, aside, unknown)


def vocabulary_of(families: Iterable[Family]) -> Vocabulary | None:
    """The operations of clients that these families have rules for; None if none of them depends on operations."""
    known = frozenset[str]().union(*(family.operations for family in families))
    return Vocabulary(known) if known else None


def setting_of(
    source: RunSource | pa.Table, configuration: Mapping[str, Any] | None = None, compiled: bool | None = None
) -> Setting:
    """What the folds must know of a run before its first event; arguments as for `check`."""
    configuration = _configuration(source) if configuration is None else configuration
    if compiled is None:
        compiled = compiled_pays(_events(source))
    name = _name(source)
    voters, protocols, recorded = _nodes(source, configuration)
    return Setting(
        voters=voters,
        nodes=configured_number(configuration),
        stated=configuration,
        write_caching=configured_switch(name, configuration, "write_caching", False),
        idempotent=configured_switch(name, configuration, "idempotent", True),
        compiled=compiled,
        protocols=protocols,
        recorded=recorded,
        progress_bound=configured_bound(name, configuration, "progress_bound"),
        memory_bytes=configured_bound(name, configuration, "memory_bytes"),
        max_in_flight=configured_bound(name, configuration, "max_in_flight"),
        foreign=isinstance(source, RunSource) and isinstance(source.format, ForeignFormat),
    )


def families_for(only: Iterable[str] | None, setting: Setting) -> tuple[Family, ...]:
    """The families that have something to judge, and those that they depend on. Raises KeyError for an unknown id."""
    chosen = _chosen(only, setting)
    ground = tuple(family for family in _chosen(None, setting) if family.is_ground and family not in chosen)
    return (*ground, *chosen)


def checks_for(only: Iterable[str] | None, setting: Setting, required: Collection[str] = ()) -> tuple[Check, ...]:
    """The checks that a verdict tells of: those asked for; or those that can judge such a run, and the required ones.

    Raises KeyError for an unknown check id.
    """
    if only is not None:
        wanted = {*only}
        return tuple(check for family in families_of(wanted) for check in family.checks if check.id in wanted)
    chosen = {family.name for family in families_for(None, setting)}
    return tuple(
        check for family in families() for check in family.checks if family.name in chosen or check.id in required
    )


def unfamiliar(setting: Setting) -> list[str]:
    """A remark on each protocol of the run that no family is for, a sentence each."""
    known = {family.protocol.name for family in families() if family.protocol is not None}
    return [
        f"No check here is for the protocol {quote(name)}: only what clients saw is judged."
        for name in sorted(setting.protocols - known)
    ]


def _chosen(only: Iterable[str] | None, setting: Setting) -> tuple[Family, ...]:
    if only is not None:
        return families_of(only)
    return tuple(family for family in families() if family.judges(setting))


def judge_logs(
    name: str,
    batches: Callable[[Collection[str]], Iterable[pa.RecordBatch]],
    families: Sequence[Family],
    setting: Setting,
    progress: Progress | None = None,
    doubt: Doubt | None = None,
) -> tuple[int, list[tuple[str | None, Verdicts]]]:
    """Feed events to these families: how many there were, and what the families say about each log.

    ``batches`` gives the events in order, with the columns that it is told; ``doubt`` sees them too. Families may be
    judged apart from each other, and so may logs.
    """
    if setting.compiled:
        keep_freed()
    wanted = {column for family in families for column in family.columns}
    reader = Reader(name, wanted, setting.words, compiled=setting.compiled)
    logs = Logs(families, setting)
    events = 0

    def in_columns() -> Iterator[tuple[Columns, pa.DictionaryArray]]:
        for batch in batches(reader.reads | {"time"} if doubt is not None and doubt.timed else reader.reads):
            if batch.num_rows:
                if doubt is not None:
                    doubt.see(batch)
                yield reader.columns(batch), batch.column("log")

    with _collected_seldom():
        for columns, log in read_ahead(in_columns()):
            logs.feed(columns, log)
            events += len(log)
            if progress is not None:
                progress(events)
        return events, logs.finish()


_GARBAGE = 100_000
"""So many objects more than at the last time, and the collector looks again."""


@contextmanager
def _collected_seldom() -> Iterator[None]:
    """Let the collector look seldom: folds make many objects that stay and few cycles, and it takes a quarter of the
    time of those that are written in Python."""
    before = gc.get_threshold()
    gc.set_threshold(max(_GARBAGE, before[0]) if before[0] else 0, *before[1:])
    try:
        yield
    finally:
        gc.set_threshold(*before)


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
        return source.batches(columns, batch_rows=BATCH_ROWS, coded_texts=True)
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


def _nodes(
    source: RunSource | pa.Table, configuration: Mapping[str, Any]
) -> tuple[tuple[int, ...], frozenset[str], bool]:
    """The voters and the protocols of a run, and whether nodes recorded what they did.

    The voters: as configured; where only the number of nodes is, so many of them; else none is known. The protocols:
    the one that the manifest names, or the configuration of a table, and those of which there are events. One that is
    not of this house may record events as others do; then these are not judged by the rules of others.
    """
    known = {family.protocol for family in families() if family.protocol is not None}
    manifest = source.manifest if isinstance(source, RunSource) else None
    named = (configuration if manifest is None else manifest.made_by).get("protocol")
    voters = configured_voters(_name(source), configuration)
    number = 0 if voters else configured_number(configuration)
    if manifest is not None and manifest.events:
        kinds = {kind for kind, count in manifest.counts.items() if count}
        nodes = tuple(manifest.nodes)
    else:
        kinds, nodes = _recorded(source, known)
    if number:
        voters = numbered_voters(number, nodes)
    protocols = frozenset({named} if isinstance(named, str) and named else ())
    if protocols <= {family.protocol.name for family in house_families() if family.protocol is not None}:
        protocols |= _protocols_of(kinds, known)
    return voters, protocols, not STATE_KINDS.isdisjoint(kinds)


def _protocols_of(kinds: Collection[str], known: Iterable[Protocol]) -> frozenset[str]:
    return frozenset(protocol.name for protocol in known if any(kind in kinds for kind in protocol.kinds))


def _recorded(source: RunSource | pa.Table, known: Iterable[Protocol]) -> tuple[set[str], tuple[int, ...]]:
    """The kinds that occur in a run, and the nodes that have events of a protocol."""
    internal = {str(kind) for protocol in known for kind in protocol.kinds}
    of_protocols = pa.array(sorted(internal), pa.string())
    kinds: set[str] = set()
    nodes: set[int] = set()
    for batch in _batches(source, ["kind", "node"]):
        words = batch.column("kind")
        found = occurrences(words)
        kinds.update(found)
        if internal.isdisjoint(found):
            continue
        of_nodes = pc.is_in(words.dictionary, value_set=of_protocols).take(words.indices)
        nodes.update(node for node in batch.column("node").filter(of_nodes).unique().to_pylist() if node is not None)
    return kinds, tuple(sorted(nodes))
