"""The decisions of the read path, each one a pure function, bundled in ``Rules``.

``reader``, ``shard``, ``sequencer`` and ``recovery`` keep state and carry these decisions out. A caller replaces one by
``dataclasses.replace(REFERENCE, gap_type=mine)``; the proofs run these very functions on symbolic terms, so they use
nothing but integers, booleans, lists, mappings by shard, fields of dataclasses and each other.

A shard is a number. ``statuses`` and ``states`` are mappings from every shard that is asked about. An LSN is an
integer, ``epoch * ESNS + esn``; ``NOWHERE`` means that there is none.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, fields

ESNS = 1 << 32
"""How many LSNs an epoch has; esn 0 is never a record."""
NOWHERE = -1

# The authoritative status of a shard.
FULLY_AUTHORITATIVE = 0
UNDERREPLICATION = 1
AUTHORITATIVE_EMPTY = 2
UNAVAILABLE = 3

# What the answers of some shards say about an LSN that none of them has; from NON_AUTH on nobody is left to wait for.
NONE = 0
INCOMPLETE = 1
NON_AUTH = 2
COMPLETE = 3

# What a shard has said about the next LSN to deliver.
SILENT = 0
UNDER_REPLICATED = 1
GAP = 2

# What a reader does about an LSN that it has not got.
WAIT = 0
GRACE = 1
ISSUE = 2

# The type of a gap that follows from an f-majority.
DATALOSS = 0
TRIM = 1
BRIDGE = 2

SHARDS_OUT_OF_GRACE = 2
"""A shard that let so many grace periods and one more pass is not waited for again."""


# -- LSNs ----------------------------------------------------------------------------------------------------------


def lsn_of(epoch: int, esn: int) -> int:
    """Return the LSN of a place in an epoch."""
    return epoch * ESNS + esn


def epoch_of(lsn: int) -> int:
    """Return the epoch of an LSN."""
    return lsn // ESNS


def esn_of(lsn: int) -> int:
    """Return the place of an LSN in its epoch."""
    return lsn - epoch_of(lsn) * ESNS


# -- f-majority ----------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Scope:
    """One scope of a replication property: a record has copies in ``factor`` of these domains.

    ``domains``: the shards of each domain; every shard is in one of them. The scope of shards has a domain for each.

    Source: read-path.md#replication-property.
    """

    factor: int
    domains: Sequence[Sequence[int]]


def replicated(scopes: Sequence[Scope], holds: Mapping[int, bool]) -> bool:
    """Tell whether copies on the shards that hold one satisfy a replication property.

    Source: read-path.md#replication-property.
    """
    return all(
        sum([any(holds[shard] for shard in domain) for domain in each.domains]) >= each.factor for each in scopes
    )


def full(status: int) -> bool:
    """Tell whether a shard of this status has all that was ever stored on it.

    Source: read-path.md#full-shards.
    """
    return status != UNDERREPLICATION and status != AUTHORITATIVE_EMPTY


def non_empty(status: int) -> bool:
    """Tell whether a shard of this status can be in the copyset of a record.

    Source: read-path.md#full-shards.
    """
    return status != AUTHORITATIVE_EMPTY


def complete_domain(domain: Sequence[int], statuses: Mapping[int, int], responded: Mapping[int, bool]) -> bool:
    """Tell whether no shard of a domain can have a copy: a full one responded, and none that is not empty is missing.

    Source: read-path.md#complete-domain.
    """
    some = any(full(statuses[shard]) and responded[shard] for shard in domain)
    missing = any(non_empty(statuses[shard]) and not (full(statuses[shard]) and responded[shard]) for shard in domain)
    return some and not missing


def domain_counts(domain: Sequence[int], statuses: Mapping[int, int]) -> bool:
    """Tell whether a domain has a shard that is not empty.

    Source: read-path.md#complete-domain.
    """
    return any(non_empty(statuses[shard]) for shard in domain)


def enough_domains(complete: int, counting: int, factor: int) -> bool:
    """Tell whether so many complete domains, of so many that count, leave less than ``factor`` others.

    Source: read-path.md#complete-domain.
    """
    return complete >= max(0, counting - factor + 1)


def f_majority_in(scope: Scope, statuses: Mapping[int, int], responded: Mapping[int, bool]) -> bool:
    """Tell whether the shards that responded are an f-majority in one scope.

    Source: read-path.md#complete-domain.
    """
    complete = sum([complete_domain(domain, statuses, responded) for domain in scope.domains])
    counting = sum([domain_counts(domain, statuses) for domain in scope.domains])
    return enough_domains(complete, counting, scope.factor)


def f_majority(scopes: Sequence[Scope], statuses: Mapping[int, int], responded: Mapping[int, bool]) -> bool:
    """Tell whether the shards that responded are an f-majority: every copyset has one of them.

    Source: read-path.md#complete-domain, documents.md#read-path-gap-detection.
    """
    return any(f_majority_in(scope, statuses, responded) for scope in scopes)


def all_full_responded(shards: Sequence[int], statuses: Mapping[int, int], responded: Mapping[int, bool]) -> bool:
    """Tell whether every full shard responded; true if there is none.

    Source: read-path.md#f-majority-verdict.
    """
    return all(responded[shard] or not full(statuses[shard]) for shard in shards)


def f_majority_verdict(
    scopes: Sequence[Scope], shards: Sequence[int], statuses: Mapping[int, int], responded: Mapping[int, bool]
) -> int:
    """Return COMPLETE, INCOMPLETE, NON_AUTH or NONE for the shards of a read set that responded.

    Source: read-path.md#f-majority-verdict.
    """
    everyone = all_full_responded(shards, statuses, responded)
    if f_majority(scopes, statuses, responded):
        return COMPLETE if everyone else INCOMPLETE
    return NON_AUTH if everyone else NONE


# -- statuses ------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Rebuilding:
    """What the event log says of the rebuilding of one shard.

    ``drain``: it is up, and its copies are to go elsewhere; ``recoverable``: its data may come back; ``done``: all
    donors are done; ``authoritatively``: each of them had all that it was to copy; ``accepted``: no shard that is being
    rebuilt is recoverable any more, so what is lost is lost.
    """

    drain: bool
    recoverable: bool
    done: bool
    authoritatively: bool
    accepted: bool


def status_in_rebuilding(rebuilding: Rebuilding) -> int:
    """Return the status of a shard that is being rebuilt or has been; without an event it is FULLY_AUTHORITATIVE.

    Source: read-path.md#status-of-events, read-path.md#down-is-not-unavailable.
    """
    if rebuilding.done and (rebuilding.authoritatively or rebuilding.accepted):
        return AUTHORITATIVE_EMPTY
    if rebuilding.drain:
        return FULLY_AUTHORITATIVE
    return UNAVAILABLE if rebuilding.recoverable else UNDERREPLICATION


def reader_status(logged: int, answering: bool) -> int:
    """Return the status that a reader counts a shard with; ``answering``: it has sent data, or said so, since START.

    Source: read-path.md#reader-statuses.
    """
    return FULLY_AUTHORITATIVE if answering else logged


def status_rewinds(before: int, after: int) -> bool:
    """Tell whether a change of a shard's status makes the reader rewind.

    Source: read-path.md#empty-rewinds, read-path.md#loss-rewinds.
    """
    return before != after and after in (AUTHORITATIVE_EMPTY, UNDERREPLICATION)


def statuses_suffice(answers: int, known: int) -> bool:
    """Tell whether a gap may follow from answers, by the newest log version they came with and the reader's own.

    Source: read-path.md#event-log-version.
    """
    return answers <= known


# -- gap decision --------------------------------------------------------------------------------------------------


def gap_state(position: int, next_lsn: int, under_replicated: int) -> int:
    """Return what a shard has said about ``position``, by ``next`` and ``ur`` of its state.

    Source: read-path.md#shard-state.
    """
    if next_lsn <= position:
        return SILENT
    return UNDER_REPLICATED if position < under_replicated else GAP


def gap_verdict(
    scopes: Sequence[Scope], shards: Sequence[int], statuses: Mapping[int, int], states: Mapping[int, int]
) -> int:
    """Return the verdict on an LSN that no shard has sent; what is under-replicated counts only if it must.

    Source: read-path.md#gap-verdict.
    """
    gaps = f_majority_verdict(scopes, shards, statuses, {shard: states[shard] == GAP for shard in shards})
    if gaps >= NON_AUTH:
        return gaps
    heard = f_majority_verdict(scopes, shards, statuses, {shard: states[shard] != SILENT for shard in shards})
    if heard >= NON_AUTH:
        return COMPLETE if gaps == INCOMPLETE else NON_AUTH
    return gaps


def grace_helps(
    shards: Sequence[int], statuses: Mapping[int, int], states: Mapping[int, int], expired: Mapping[int, int]
) -> bool:
    """Tell whether somebody is left whose answer is worth a grace period; ``expired``: how many it let pass.

    Source: read-path.md#gap-grace.
    """
    return any(
        states[shard] == SILENT and statuses[shard] == FULLY_AUTHORITATIVE and expired[shard] <= SHARDS_OUT_OF_GRACE
        for shard in shards
    )


def gap_decision(verdict: int, require_full_read_set: bool, grace: bool) -> int:
    """Return WAIT, GRACE or ISSUE; ``grace``: grace is on, could help, and the LSN is not trimmed.

    Source: read-path.md#gap-grace.
    """
    if verdict >= NON_AUTH:
        return ISSUE
    if verdict == NONE or require_full_read_set:
        return WAIT
    return GRACE if grace else ISSUE


def gap_end(position: int, slot: int, beyond: int, trim_point: int) -> int:
    """Return where a gap at ``position`` ends, exclusive, or NOWHERE.

    ``slot``: the first used slot above; ``beyond``: the smallest end heard beyond the window; both may be NOWHERE.

    Source: read-path.md#gap-end.
    """
    end = beyond if slot == NOWHERE else slot
    return trim_point + 1 if position <= trim_point and trim_point < end - 1 else end


def gap_type(position: int, end: int, trim_point: int, first: bool, in_flight: int, all_lost: bool) -> int:
    """Return DATALOSS, TRIM or BRIDGE for the gap from ``position`` to before ``end``.

    ``first``: nothing was delivered before; ``in_flight``: the most writes in flight; ``all_lost``: the read set is not
    empty and has only shards that are UNDERREPLICATION or AUTHORITATIVE_EMPTY.

    Source: read-path.md#gap-all-lost, read-path.md#gap-trimmed, read-path.md#gap-bridge, read-path.md#gap-data-loss.
    """
    if all_lost:
        return DATALOSS
    if end <= trim_point + 1:
        return TRIM
    if esn_of(end) <= in_flight and (first or epoch_of(position - 1) < epoch_of(end)):
        return BRIDGE
    return DATALOSS if epoch_of(position) == epoch_of(end) else BRIDGE


# -- SCD filter ----------------------------------------------------------------------------------------------------


def ships(me: int, down: Sequence[bool], local: Sequence[bool], factor: int) -> bool:
    """Tell whether a shard sends its copy in single-copy delivery; the copyset is in the order of the shuffle.

    ``me``: its place in the copyset, NOWHERE if it is not there; ``down``: which members the reader listed; ``local``:
    which are in the reader's region, with local SCD, else none; ``factor``: R.

    Source: read-path.md#scd-filter, read-path.md#shuffle-then-skip, documents.md#read-path-single-copy-delivery.
    """
    before = range(len(down) if me == NOWHERE else me)
    if any(local[place] and (place == me or not down[place]) for place in range(len(down))):
        return me != NOWHERE and local[me] and all(down[place] or not local[place] for place in before)
    extra = me != NOWHERE and sum([not down[place] for place in range(me + 1, len(down))]) < len(down) - factor
    return extra or all(down[place] for place in before)


# -- slow shards ---------------------------------------------------------------------------------------------------


def most_slow(factor: int, down: int) -> int:
    """Return how many shards may be slow at once, with so many non-empty ones down.

    Source: read-path.md#slow-shards.
    """
    return max(0, factor - 1 - down)


# -- recovery ------------------------------------------------------------------------------------------------------


def digest_status(status: int) -> int:
    """Return the status that an epoch's recovery counts a shard with: it waits for those that may come back.

    Source: read-path.md#recovery-digest.
    """
    return status


def remembered(status: int, forgotten: int, epoch: int) -> int:
    """Return the status that the recovery of an epoch counts a shard with that may be back without its records of it.

    ``forgotten``: the newest epoch of which it may have had records that nobody else has.

    Source: read-path.md#loss-is-remembered.
    """
    return UNDERREPLICATION if forgotten >= epoch else status


def recovery_may_go_on(verdict: int, can_store: bool) -> bool:
    """Tell whether a recovery has enough answers; ``can_store``: a copyset fits on those that answered.

    Source: read-path.md#recovery-seal.
    """
    return verdict >= NON_AUTH or (verdict == INCOMPLETE and can_store)


def plugs(verdict: int) -> bool:
    """Tell whether a recovery may write new holes and a bridge.

    Source: read-path.md#recovery-bridge, read-path.md#loss-is-remembered.
    """
    return verdict in (COMPLETE, INCOMPLETE)


def beats(run: int, wave: int, other_run: int, other_wave: int) -> bool:
    """Tell whether one copy of an esn wins over another; ``run`` is that of a recovery, 0 for the sequencer.

    Source: read-path.md#recovery-precedence.
    """
    return run > other_run or (run == other_run and wave > other_wave)


def takes_store(epoch: int, run: int, sealed: int) -> bool:
    """Tell whether a shard stores a copy; ``sealed``: no sequencer of an epoch up to this one may write any more.

    ``run`` is 0 for the sequencer of ``epoch``; a recovery is named by the epoch up to which it seals.

    Source: read-path.md#shard-refuses.
    """
    return run >= sealed if run > 0 else epoch > sealed


def takes_release(epoch: int, last_clean: int) -> bool:
    """Tell whether a shard may take a release of an epoch at once; else it purges first.

    Source: read-path.md#release-needs-recovery.
    """
    return last_clean >= epoch - 1


@dataclass(frozen=True, slots=True)
class Rules:
    """The bundle of rules that run; every field is one of the functions above or a stand-in for it."""

    f_majority_verdict: Callable[[Sequence[Scope], Sequence[int], Mapping[int, int], Mapping[int, bool]], int] = (
        f_majority_verdict
    )
    replicated: Callable[[Sequence[Scope], Mapping[int, bool]], bool] = replicated
    status_in_rebuilding: Callable[[Rebuilding], int] = status_in_rebuilding
    reader_status: Callable[[int, bool], int] = reader_status
    status_rewinds: Callable[[int, int], bool] = status_rewinds
    statuses_suffice: Callable[[int, int], bool] = statuses_suffice
    gap_state: Callable[[int, int, int], int] = gap_state
    gap_verdict: Callable[[Sequence[Scope], Sequence[int], Mapping[int, int], Mapping[int, int]], int] = gap_verdict
    grace_helps: Callable[[Sequence[int], Mapping[int, int], Mapping[int, int], Mapping[int, int]], bool] = grace_helps
    gap_decision: Callable[[int, bool, bool], int] = gap_decision
    gap_end: Callable[[int, int, int, int], int] = gap_end
    gap_type: Callable[[int, int, int, bool, int, bool], int] = gap_type
    ships: Callable[[int, Sequence[bool], Sequence[bool], int], bool] = ships
    most_slow: Callable[[int, int], int] = most_slow
    digest_status: Callable[[int], int] = digest_status
    remembered: Callable[[int, int, int], int] = remembered
    recovery_may_go_on: Callable[[int, bool], bool] = recovery_may_go_on
    plugs: Callable[[int], bool] = plugs
    beats: Callable[[int, int, int, int], bool] = beats
    takes_store: Callable[[int, int, int], bool] = takes_store
    takes_release: Callable[[int, int], bool] = takes_release

    def changed(self) -> tuple[str, ...]:
        """Return the names of the rules that are not the reference's, in the order of this class."""
        return tuple(f.name for f in fields(self) if getattr(self, f.name) is not f.default)


REFERENCE = Rules()
"""The rules as this project believes them to be right."""
