"""What clients were told: one value an offset, nothing lost, nothing invented, nothing out of order.

Needs client operations alone, so black-box histories are judged in full. Anomalies and what each acks level
forbids are those of history-checks.md#anomalies, with their excuses (history-checks.md#excuses); losses that an acks
level permits go to the loss account.

One pass binds offsets and values from acknowledgements and reads (history-checks.md#bind-offsets) in hash tables;
what needs the end of the history, such as losses, is judged there over whole columns. Memory: the values that
were named, and the gaps that readers passed over, each once.
"""

from __future__ import annotations

import numpy as np

from loghistory.schema import Kind

from ..codes import (
    APPEND,
    CARRIES_STATE,
    COMPACT,
    ENDS,
    F_APPEND,
    F_FINAL_READ,
    F_READ_COMMITTED,
    F_READ_LINEARIZABLE,
    F_TAIL,
    FAIL,
    FAULT,
    FAULT_COMPACT,
    FAULT_TRIM,
    FAULT_WIPE,
    HEAL,
    INVOKE,
    LEADER,
    NULL,
    OBSERVE,
    OF_LOGS,
    OK,
    READS,
    STOP,
    TRIM,
    codes,
    how_many,
    lookup,
)
from ..columns import Columns
from ..contract import Family, Loss, Setting
from ..faults import (
    Faults,
    Held,
    cause_of,
    empty_faults,
    empty_held,
    fault_code,
    lasts,
    note_end,
    note_fault,
    note_heal,
    note_leader,
    note_state,
    note_wipe,
    with_fault_room,
)
from ..findings import Findings, KernelFold, report
from ..hashing import all_grown, empty_table, roomy, row_of
from ..kernel import kernel
from ..sentences import NOTHING_OBSERVED
from .at_end import AtEnd
from .linearizable_reads import committed_until, read_answered
from .losses import excuse_by, lost_by
from .per_event import acknowledge, gap, invoke, observe
from .rules import CHECKS, LOST_WRITE, SKIP, STALE_READ, STALE_TAIL, UNSEEN, ShortTail
from .state import KNOWN_GAPS, NONE, Bound, Clients, Gaps, Known, Tables, Values, blank, fill, gap_room

_JUDGED = frozenset({Kind.INVOKE, Kind.OBSERVE, Kind.OK, Kind.FAIL})
_IS_JUDGED = lookup(_JUDGED)

_BY_TRIMS = (LOST_WRITE, UNSEEN, SKIP, STALE_READ)
_UNSEEN_TRIMS = "what lacks at the beginning of a read may be trimmed, and a node recorded nothing or was cut off"


@kernel
def _scan(
    columns: Columns,
    tables: Tables,
    values: Values,
    clients: Clients,
    bound: Bound,
    known: Known,
    gaps: Gaps,
    held: Held,
    faults: Faults,
    found: Findings,
) -> None:
    for i in range(len(columns.seq)):
        kind = columns.kind[i]
        seq = columns.seq[i]
        if CARRIES_STATE[kind]:
            note_state(held, faults, columns.node[i], columns.dirty[i], columns.flushed[i], seq)
            if kind == LEADER and columns.term[i] != NULL:
                note_leader(faults, columns.node[i], columns.term[i])
            elif kind == TRIM:
                known.trimmed[0] = max(known.trimmed[0], columns.offset[i])
            elif kind == COMPACT:
                known.compacted[0] += 1
            elif kind == APPEND and columns.key[i] != NULL:
                known.keyed[0] = 1
        elif kind == FAULT:
            f = columns.f[i]
            if f == FAULT_WIPE and columns.node[i] >= known.voters[0] > 0:
                note_wipe(held, faults, columns.node[i])
                continue  # nothing was promised by the disk of a node that does not vote
            note_fault(faults, held, seq, f, columns.node[i], True)
            if f in (FAULT_TRIM, FAULT_COMPACT):
                known.may_trim[0] = 1
            if f == FAULT_COMPACT:
                known.compacted[0] += 1
            if f == FAULT_WIPE:
                known.wipe_seq[0] = seq
                known.cut_off[0] = 1
            elif cause_of(f) >= 0:
                known.power_seq[0] = seq
                known.failing[0] |= lasts(f)
        elif kind == HEAL:
            note_heal(faults, seq, columns.f[i], columns.node[i])
        elif kind in ENDS:
            code = fault_code(kind, columns.reason[i])
            if kind != STOP:
                note_fault(faults, held, seq, code, columns.node[i], False)
                known.cut_off[0] = 1
            if kind != STOP and cause_of(code) >= 0:
                known.power_seq[0] = seq
            note_end(held, columns.node[i], kind, seq)
        if not _IS_JUDGED[kind] or columns.process[i] == NULL:
            continue

        process = columns.process[i]
        client = row_of(tables.clients, known.clients, process)
        offset = columns.offset[i]
        if kind == INVOKE:
            invoke(tables, values, clients, known, found, columns, client, i)
            continue
        f = clients.f[client]
        reading = f in READS
        if reading and kind != FAIL and (f == F_FINAL_READ or not known.final_reads[0]):
            known.seen[0] = seq
        if kind == OBSERVE:
            known.batches[0] += 1
            if reading:
                last, value = columns.last_offset[i], columns.value[i]
                observe(tables, values, clients, bound, known, gaps, faults, found, client, offset, last, value, seq)
        elif kind == OK:
            if f == F_APPEND:
                acknowledge(tables, values, clients, bound, known, faults, found, columns, client, i)
            elif f == F_TAIL and offset == NULL:
                found.unjudged[STALE_TAIL] += 1
            elif f == F_TAIL:
                found.judged[STALE_TAIL] += 1
                # Under write caching a power loss takes acknowledged entries, and with them the end of the log.
                since, weak, last = clients.tail_since[client], known.write_caching[0] != 0, clients.tail[client] - 1
                short_of = offset < clients.tail[client]
                there = clients.tail_seq[client]
                place = lost_by(known, faults, since, there, weak, last) if short_of else -1
                if place >= 0:
                    excuse_by(faults, found, STALE_TAIL, place)
                elif short_of:
                    short = ShortTail(tail=offset, known=clients.tail[client])
                    report(found, STALE_TAIL, short, clients.tail_seq[client], clients.seq[client], seq)
                if offset > known.tail[0]:
                    known.tail[0] = offset
                    known.tail_seq[0] = seq
                    known.tail_since[0] = clients.seq[client]
            elif reading:
                known.counted[0] += columns.records[i]
                position = clients.position[client]
                if position != NULL and offset != NULL and offset > position:
                    before, invoked = clients.position_seq[client], clients.seq[client]
                    gap(known, gaps, position, offset - 1, seq, before, NONE, invoked)
                    position = offset
                clients.following[client] = position
                if f == F_READ_LINEARIZABLE and offset != NULL:
                    read_answered(clients, known, faults, found, client, offset, seq)
                if f in (F_READ_COMMITTED, F_READ_LINEARIZABLE) and offset != NULL:
                    committed_until(clients, known, client, offset, seq)
                if f == F_FINAL_READ:
                    known.final_reads[0] += 1
                    known.final_begun[0] = max(known.final_begun[0], clients.seq[client])
                    if position != NULL:
                        known.final_high[0] = max(known.final_high[0], position - 1)
            clients.f[client] = NONE
        elif kind == FAIL:
            if f == F_APPEND and clients.row[client] != NONE:
                row = clients.row[client]
                values.fails[row] += 1
                values.fail_seq[row] = seq
            clients.f[client] = NONE


class ClientsFold(KernelFold):
    """Judges what the clients of one log were told."""

    checks = CHECKS

    def __init__(self, setting: Setting) -> None:
        super().__init__(setting)
        self._values = Values(**blank(Values._fields))
        self._clients = Clients(**blank(Clients._fields))
        self._bound = Bound(**blank(Bound._fields))
        self._tables = Tables(empty_table(), empty_table(), empty_table())
        self._held = empty_held()
        self._faults = empty_faults()
        self._recorded: set[int] = set()  # nodes, by index
        start = dict.fromkeys(Known._fields, 0)
        start |= dict.fromkeys(("far_row", "term_row", "tail_seq", "tail_since", "read_seq", "read_since"), NONE)
        start |= dict.fromkeys(("final_high", "final_begun", "power_seq", "wipe_seq", "seen"), NONE)
        start |= {"term": NULL, "far": NONE}
        start |= {"write_caching": int(setting.write_caching), "idempotent": int(setting.idempotent)}
        start |= {"foreign": int(setting.foreign), "voters": len(setting.voters)}
        # Other tools write down logs that are not trimmed, and so does who names no protocol, unless a fault says that
        # nodes trim (counting.md#trims).
        start["unseen_trims"] = start["may_trim"] = int(not setting.foreign)
        start["may_trim"] &= bool(setting.protocols)
        self._known = Known(**{name: np.array([number], dtype=np.int64) for name, number in start.items()})
        seen = [np.full(KNOWN_GAPS, NULL, dtype=np.int64) for _ in range(2)]
        self._gaps = gap_room(0, *seen)
        self._at_end = AtEnd()

    def run(self, columns: Columns) -> None:
        """Judge the events and keep what the end needs; nodes are indices."""
        compiled = self.setting.compiled
        kinds = columns.kind if compiled else np.array(columns.kind, dtype=np.int8)
        if self._known.unseen_trims[0]:
            self._recorded |= {*np.unique(np.asarray(columns.node)[CARRIES_STATE[kinds]]).tolist()} - {NONE}
            voters = {*range(len(self.setting.voters))}
            self._known.unseen_trims[0] = not self._recorded or not voters <= self._recorded
        self._make_room(how_many(kinds, *codes(_JUDGED)), how_many(kinds, FAULT, *ENDS), compiled)
        if how_many(kinds, COMPACT):
            self._at_end.compacted(columns, kinds == COMPACT)
        _scan.form(compiled)(
            columns,
            self._tables,
            self._values,
            self._clients,
            self._bound,
            self._known,
            self._gaps,
            self._held,
            self._faults,
            self.found,
        )
        self._at_end.take_gaps(self._gaps, int(self._known.gaps[0]))
        self._known.gaps[0] = 0

    def _make_room(self, rows: int, faults: int, compiled: bool) -> None:
        values, clients, offsets = (int(getattr(self._known, name)[0]) for name in ("values", "clients", "offsets"))
        self._tables = Tables(
            roomy(self._tables.values, values, rows, compiled),
            roomy(self._tables.clients, clients, rows, compiled),
            roomy(self._tables.offsets, offsets, rows, compiled),
        )
        self._values = all_grown(self._values, values, rows, fill)
        self._clients = all_grown(self._clients, clients, rows, fill)
        self._bound = all_grown(self._bound, offsets, rows, fill)
        self._faults = with_fault_room(self._faults, faults)
        if len(self._gaps.low) < rows:
            self._gaps = gap_room(rows, self._gaps.seen_low, self._gaps.seen_high)

    def end(self) -> None:
        """Judge what the whole history shows: losses, gaps, failed appends that were read."""
        self._at_end.judge(self._values, self._known, self._faults, self.found, self.setting.compiled)

    def void(self) -> dict[int, str]:
        """A history without any observation does not tell what reads left out."""
        unseen = self._known.counted[0] and not self._known.batches[0]
        return dict.fromkeys((LOST_WRITE, UNSEEN, SKIP), NOTHING_OBSERVED) if unseen else {}

    def way(self, check: int, fields: list[int]) -> str:
        """Whether an offset has two values, or one value two ends."""
        del check
        _, first, second, *_ = fields
        return "values" if first != second else "ends"

    def lacking(self) -> dict[int, str]:
        """Trims that nobody would have recorded, and what a tail was answered."""
        found = {place: _UNSEEN_TRIMS for place in _BY_TRIMS if self.found.unjudged[place]}
        return found | ({STALE_TAIL: "a tail was answered without a number"} if self.found.unjudged[STALE_TAIL] else {})

    def losses(self) -> tuple[Loss, ...] | None:
        """Acknowledged appends that the final read did not return; None without one."""
        return self._at_end.losses(self.setting.words)


_KINDS = frozenset(
    {
        Kind.INVOKE,
        Kind.OBSERVE,
        Kind.OK,
        Kind.FAIL,
        Kind.INFO,
        Kind.STOP,
        Kind.CRASH,
        Kind.POWER_LOSS,
        Kind.STORAGE_ERROR,
        Kind.FAULT,
        Kind.HEAL,
        Kind.COMPACT,
        Kind.TRIM,
    }
)

FAMILY = Family(
    "clients",
    tuple(CHECKS),
    _KINDS,
    (
        *("time", "node", "process", "f", "acks", "term", "offset", "last_offset", "value", "text", "count", "bytes"),
        *("dirty", "flushed", "reason", "key"),
    ),
    ClientsFold,
    operations=OF_LOGS,
)
