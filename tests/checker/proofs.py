"""What the evidence of a violation proves by itself: for every check of Raft a plain function that a person can verify.

A proof sees the events that a violation names, and nothing else: `Evidence`. It answers with the fields of the check's
sentence as they follow from these events, or raises `UnprovedError`. Which sentence follows is then compared with the
one that the violation has.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from itertools import pairwise, product
from typing import Any

from logwitness.checks.sentences import listed

Row = dict[str, Any]
Fields = dict[str, object]
Proof = Callable[["Evidence"], Fields | list[Fields]]
"""Where the same events show several things, all of them."""

ACKS = {-1: "all", 0: "0", 1: "1"}


class UnprovedError(Exception):
    """The events do not show it."""


def sure(said: object) -> None:
    """Raise `UnprovedError` unless that is so."""
    if not said:
        raise UnprovedError


def only(rows: Sequence[Row]) -> Row:
    """The only one. Raises `UnprovedError`."""
    sure(len(rows) == 1)
    return rows[0]


class Evidence:
    """The events of a violation in order, the last of which is the breach, and how the run was configured."""

    def __init__(
        self,
        rows: Sequence[Row],
        voters: Sequence[int],
        *,
        write_caching: bool = False,
        progress_bound: int = 0,
        memory_bytes: int = 0,
        max_in_flight: int = 0,
    ) -> None:
        sure(rows)
        self.rows = list(rows)
        self.last = rows[-1]
        self.before = self.rows[:-1]
        self.voters = list(voters)
        self.needed = len(voters) // 2 + 1
        self.write_caching = write_caching
        self.progress_bound = progress_bound
        self.memory_bytes = memory_bytes
        self.max_in_flight = max_in_flight

    def of(self, node: int, kind: str | None = None) -> list[Row]:
        """The events of a node, of that kind."""
        return [row for row in self.rows if row.get("node") == node and kind in (None, row["kind"])]

    def entry(self, node: int, offset: int) -> Row | None:
        """The append by which a node last wrote the entry at an offset, as far as it is shown."""
        found = [row for row in self.of(node, "append") if row["offset"] <= offset <= end(row)]
        return found[-1] if found else None

    def known_entry(self, node: int, offset: int) -> Row:
        """The same. Raises `UnprovedError` if it is not shown."""
        row = self.entry(node, offset)
        sure(row is not None)
        assert row is not None
        return row

    def committed(self, row: Row) -> Row:
        """An event by which a node that wrote the entry of ``row`` commits it."""
        for entry in self.rows:
            if entry["kind"] == "append" and same(entry, row):
                for event in self.of(entry["node"]):
                    if event["seq"] > entry["seq"] and event["commit"] >= entry["offset"]:
                        return event
        raise UnprovedError

    def holders(self, entry: Row, node: int) -> int:
        """How many voters wrote an entry, ``node`` among them, where it is shown of each what it wrote or has."""
        count = 0
        for voter in self.voters:
            theirs = self.entry(voter, end(entry))
            wrote = [row for row in self.of(voter, "append") if same(row, entry)]
            if voter == node or wrote:
                count += 1
            else:
                sure(theirs is not None or any(row["dirty"] < end(entry) for row in self.of(voter)))
        return count


def end(row: Row) -> int:
    """The last offset of an event."""
    last: int = row.get("last_offset", row.get("offset"))
    return last


def same(one: Row, other: Row) -> bool:
    """Whether two events concern the same entry: offset and term."""
    return bool((one["offset"], one["entry_term"]) == (other["offset"], other["entry_term"]))


def led(row: Row) -> tuple[int, int]:
    """The node and the term that an event shows it to lead. Raises `UnprovedError`."""
    if row["kind"] == "acked":
        return row["node"], row["entry_term"]
    says = row["kind"] == "leader" or (row["kind"] != "term" and row.get("role") == "leader")
    sure(says or (row["kind"] == "append" and row["entry_term"] == row["term"]))
    return row["node"], row["term"]


def leads(evidence: Evidence, node: int, term: int) -> None:
    """Raise `UnprovedError` unless an event shows that the node leads the term."""
    for row in evidence.rows:
        try:
            if led(row) == (node, term):
                return
        except UnprovedError:
            continue
    raise UnprovedError


def is_visible(row: Row) -> int | str:
    """The visible offset as sentences have it."""
    return row.get("visible", "unknown")


# -- elections --------------------------------------------------------------------------------------------------------


def one_leader_per_term(evidence: Evidence) -> Fields:
    """Two events, each of which shows a leader. Of one who writes, also how far the other had written."""
    first, last = evidence.rows[0], evidence.last
    (one, term), (other, again) = led(first), led(last)
    sure(term == again and one != other)
    if last["kind"] == "append" and last.get("role") != "leader":
        shown = evidence.of(one)[-1]
        sure(shown["term"] == term and shown["dirty"] < end(last) and shown["seq"] < last["seq"])
        sure(shown is not first or first["kind"] == "append")
    return {"first": one, "second": other, "term": term}


def one_vote_per_term(evidence: Evidence) -> Fields:
    first, second = evidence.rows
    sure(first["kind"] == second["kind"] == "vote" and first["node"] == second["node"])
    sure(first["term"] == second["term"] and first["peer"] != second["peer"])
    return {"node": first["node"], "term": first["term"], "first": first["peer"], "second": second["peer"]}


def leader_has_majority(evidence: Evidence) -> Fields:
    """Every voter is shown: how it voted in the term, or what it did last."""
    node, term = led(evidence.last)
    sure({row["node"] for row in evidence.rows} >= {*evidence.voters})
    votes = [row for row in evidence.rows if row["kind"] == "vote" and (row["peer"], row["term"]) == (node, term)]
    return {"node": node, "term": term, "votes": len(votes), "needed": evidence.needed}


def term_needs_candidate(evidence: Evidence) -> Fields:
    def stands(row: Row) -> bool:
        return row.get("role") == "candidate" or (row["kind"] == "vote" and row["peer"] == row["node"])

    if len(evidence.rows) == 1:
        node, term = evidence.last["node"], evidence.last["term"]
        sure(not stands(evidence.last))
        return {"node": node, "term": term, "peer": evidence.last["peer"] if evidence.last["kind"] == "vote" else node}
    moved = {row["node"]: row for row in reversed(evidence.rows) if not stands(row)}
    term = evidence.last["term"]
    sure(all(row["term"] == term for row in evidence.rows))
    if stands(evidence.last):
        (early,) = moved
        return {"node": early, "term": term, "candidate": evidence.last["node"]}
    sure(len(evidence.rows) > 1)
    *most, last = map(str, sorted(moved))
    return {"nodes": f"{', '.join(most)} and {last}" if most else last, "term": term}


def roles_in_order(evidence: Evidence) -> Fields:
    """One node: what it was, and voted, before it took the last role."""
    last = evidence.last
    roles = ["leader" if row["kind"] == "leader" else row.get("role") for row in evidence.rows]
    sure(all(row["node"] == last["node"] and row["term"] == last["term"] for row in evidence.rows))
    fields: Fields = {"node": last["node"], "role": roles[-1], "term": last["term"]}
    if last["kind"] == "vote":
        sure(len(roles) == 1 and last["peer"] == last["node"] and roles[-1] in ("follower", "learner"))
        return {"node": last["node"], "term": last["term"]}
    if last["kind"] == "start":
        sure(len(roles) == 1 and roles[-1] in ("leader", "candidate"))
    elif evidence.rows[0]["kind"] == "start":
        sure(len(roles) == 2 and roles[-1] == "leader")
        return {"node": last["node"], "term": last["term"]}
    elif evidence.rows[0]["kind"] == "vote":
        sure(len(roles) == 2 and roles[-1] == "candidate" and evidence.rows[0]["peer"] != last["node"])
        return {"node": last["node"], "term": last["term"], "peer": evidence.rows[0]["peer"]}
    elif roles == ["leader", "leader"]:
        sure(all(row["kind"] == "leader" for row in evidence.rows))
        return {"node": last["node"], "term": last["term"]}
    elif roles != ["leader", "candidate"]:
        first, between, then = roles
        sure({first, then} <= {"leader", "candidate"} and between in ("follower", "learner"))
    return fields


# -- the memory of a leader -------------------------------------------------------------------------------------------


def bounded_memory(evidence: Evidence) -> list[Fields]:
    """What a leader said that it held, and what it enqueued, or had written and handed over, by the last event."""
    (leader, *before), last, limit = evidence.before, evidence.last, evidence.memory_bytes
    sure(leader["kind"] == "leader" and all(row["node"] == leader["node"] for row in evidence.rows))
    fields: Fields = {"node": leader["node"], "term": leader["term"]}
    if [row["kind"] for row in evidence.rows[1:]] == ["hand_over", "hand_over"] and not before[0]["reserved"]:
        twice = max(before[0]["offset"], last["offset"])
        sure(twice <= min(end(before[0]), end(last)))
        return [fields | {"number": twice}]
    counted = [row["reserved"] for row in before if row["kind"] != "append"]
    held = sum(counted)
    sure(len(counted) < 2)
    if last["kind"] == "enqueue":
        held += min(last["bytes"], limit)
    else:
        written = [row for row in before if row["kind"] == "append"]
        sure(all(last["offset"] <= row["offset"] <= end(row) <= end(last) for row in written))
        held -= sum(min(row["bytes"], limit) for row in written)
    found: list[Fields] = []
    if not before and last["kind"] == "hand_over" and last["count"] > evidence.max_in_flight > 0:
        found.append(fields | {"number": last["count"], "limit": evidence.max_in_flight})
    if not before and last["reserved"] > limit:
        found.append(fields | {"held": last["reserved"], "limit": limit})
    if last["reserved"] != held:
        limits: Fields = {"limit": limit} if held > limit else {"reserved": last["reserved"]}
        found.append(fields | {"held": held} | limits)
    return found


def written_as_enqueued(evidence: Evidence) -> Fields:
    """A leader enqueued a value that it had written; wrote it with another acks level; or wrote another one before it
    that it had enqueued later."""
    (leader, *before), last = evidence.before, evidence.last
    sure(leader["kind"] == "leader" and all(row["node"] == leader["node"] for row in evidence.rows))
    fields: Fields = {"node": leader["node"], "term": leader["term"], "value": last["value"]}
    if last["kind"] == "enqueue":
        written = only(before)
        sure(written["kind"] == "append" and written["value"] == last["value"])
        return fields
    if len(before) == 1:
        enqueued = only(before)
        sure(enqueued["kind"] == "enqueue" and last["kind"] == "append" and enqueued["value"] == last["value"])
        sure(enqueued["acks"] != last["acks"])
        return fields | {"other": last["value"]}
    first, second, written = before
    sure([row["kind"] for row in evidence.rows[1:]] == ["enqueue", "enqueue", "append", "append"])
    sure(first["value"] == last["value"] and second["value"] == written["value"])
    return fields | {"other": written["value"]}


# -- the offsets of a node --------------------------------------------------------------------------------------------


def _moved_back(name: str) -> Proof:
    def proof(evidence: Evidence) -> Fields:
        first, second = evidence.rows
        sure(first["node"] == second["node"])
        floor = second["offset"] - 1 if second["kind"] == "truncate" and name != "commit" else first[name]
        sure(second[name] < min(first[name], floor))
        return {"node": first["node"], "before": first[name], "after": second[name]}

    return proof


def _beyond(name: str, bound: str) -> Proof:
    def proof(evidence: Evidence) -> Fields:
        row = only(evidence.rows)
        sure(row[name] > row[bound])
        return {"node": row["node"], "offset": row[name], "end": row[bound]}

    return proof


def flushed_durable(evidence: Evidence) -> Fields:
    first, start = evidence.rows
    sure(first["node"] == start["node"] and start["kind"] == "start" and start["dirty"] < first["flushed"])
    return {"node": start["node"], "offset": first["flushed"], "end": start["dirty"]}


def _keeps_all(ended: Row) -> bool:
    """Whether a life ended so that nothing that was written is lost."""
    return ended["kind"] in ("crash", "stop") or (ended["kind"] == "storage_error" and ended["reason"] == "DiskFull")


def dirty_survives_crash(evidence: Evidence) -> Fields:
    first, ended, start = evidence.rows
    sure(_keeps_all(ended) and start["kind"] == "start" and start["dirty"] < first["dirty"])
    sure(first["node"] == ended["node"] == start["node"])
    return {"node": start["node"], "offset": first["dirty"], "end": start["dirty"]}


def restart_is_flushed(evidence: Evidence) -> Fields:
    row = only(evidence.rows)
    sure(row["kind"] == "start" and row["flushed"] != row["dirty"])
    return {"node": row["node"], "offset": row["flushed"], "end": row["dirty"]}


def starts_as_it_knows(evidence: Evidence) -> Fields:
    start = evidence.last
    sure(start["kind"] == "start")
    found = {"node": start["node"], "commit": start["commit"]}
    if not evidence.before and start.get("text"):
        runs = json.loads(start["text"])
        terms = [term for _, term in runs if term >= 0]
        fall = any(a > b for a, b in pairwise(terms))
        sure(fall or max(terms) > start["term"] or runs[-1][0] > start["dirty"])
        return {"node": start["node"], "term": start["term"], "dirty": start["dirty"], "runs": start["text"]}
    if not evidence.before:
        sure(start["visible"] > start["commit"])
        return found | {"visible": start["visible"]}
    told, over = evidence.before
    sure(told["node"] == over["node"] == start["node"])
    if start["commit"] > told["commit"]:
        sure(over["kind"] == "stop")
        return found | {"before": told["commit"]}
    summed = told["offset"] - (told["kind"] == "trim")
    sure(told["kind"] in ("snapshot", "trim") and _keeps_all(over) and start["commit"] < summed)
    return found | {"before": summed}


def trim_within_commit(evidence: Evidence) -> Fields:
    before, row = evidence.rows
    upto = row["offset"] - 1 if row["kind"] == "trim" else end(row)
    states = [before["commit"], row["commit"], row["flushed"]]
    states += [row["dirty"], row.get("visible", upto)] if row["kind"] == "trim" else []
    sure(before["node"] == row["node"] and min(states) < upto)
    fields = {"node": row["node"], "offset": upto, "commit": row["commit"], "flushed": row["flushed"]}
    return fields | {"visible": is_visible(row), "before": before["commit"]}


def trim_monotonic(evidence: Evidence) -> Fields:
    first, second = evidence.rows
    sure(first["kind"] == second["kind"] == "trim" and first["node"] == second["node"])
    sure(second["offset"] < first["offset"])
    return {"node": first["node"], "before": first["offset"], "after": second["offset"]}


def converges(evidence: Evidence) -> list[Fields]:
    """That the run came to its end, how far a log reaches, and that of one node does not, or not committed."""
    only([row for row in evidence.rows if row.get("f") == "final_read"])
    states = [row for row in evidence.rows if row["kind"] != "phase"]
    farthest = max(row["dirty"] for row in states)
    behind = [row for row in states if min(row["dirty"], row["commit"]) < farthest]
    return [{"node": row["node"], "commit": row["commit"], "dirty": row["dirty"], "end": farthest} for row in behind]


def voters_return(evidence: Evidence) -> Fields:
    heal = only([row for row in evidence.rows if row.get("f") == "heal"])
    final = only([row for row in evidence.rows if row.get("f") == "final_read"])
    gone = only([row for row in evidence.rows if row["kind"] in ("crash", "power_loss", "storage_error")])
    sure(heal["seq"] < final["seq"] and gone["seq"] < final["seq"])
    return {"node": gone["node"]}


# -- logs -------------------------------------------------------------------------------------------------------------


def log_matching(evidence: Evidence) -> Fields:
    """The same offset and term twice: with another value or length; or else behind other entries."""
    last = evidence.last
    other = only([row for row in evidence.before if same(row, last)])
    if (other["value"], end(other)) == (last["value"], end(last)):
        mine, theirs = (evidence.known_entry(row["node"], last["offset"] - 1) for row in (last, other))
        sure(not same(mine, theirs))
    else:
        sure(len(evidence.rows) == 2)
    return {"node": last["node"], "offset": last["offset"], "term": last["entry_term"]}


def batches_are_flushed_whole(evidence: Evidence) -> Fields:
    """A node flushes a part of a batch that it has appended."""
    batch, last = evidence.rows
    sure((batch["kind"], last["kind"], batch["node"]) == ("append", "flush", last["node"]))
    sure(batch["offset"] <= last["flushed"] < batch["last_offset"])
    fields = {"node": last["node"], "flushed": last["flushed"]}
    return {**fields, "offset": batch["offset"], "last": batch["last_offset"]}


def append_at_end(evidence: Evidence) -> Fields:
    shown, last = evidence.rows
    sure(shown["node"] == last["node"] and shown["dirty"] >= last["offset"])
    return {"node": last["node"], "offset": last["offset"], "end": shown["dirty"]}


def log_terms_monotonic(evidence: Evidence) -> Fields:
    before, last = evidence.rows
    if last.get("role") == "candidate" and last["kind"] != "append":
        sure(before["node"] == last["node"] and before["entry_term"] == last["term"])
        return {"node": last["node"], "own": last["term"]}
    sure(before["node"] == last["node"] and end(before) == last["offset"] - 1)
    sure(last["entry_term"] < before["entry_term"] or last["entry_term"] > last["term"])
    fields = {"node": last["node"], "own": last["term"], "offset": last["offset"]}
    return fields | {"term": last["entry_term"], "before": before["entry_term"]}


def leader_append_only(evidence: Evidence) -> Fields:
    last = evidence.last
    leads(evidence, last["node"], last["term"])
    sure(last["kind"] == "truncate")
    return {"leader": last["node"], "offset": last["offset"], "term": last["term"]}


def truncation_needs_divergence(evidence: Evidence) -> Fields:
    first, cut, last = evidence.rows
    sure(cut["kind"] == "truncate" and cut["offset"] == first["offset"] and same(first, last))
    sure(first["node"] == cut["node"] == last["node"])
    return {"node": last["node"], "offset": last["offset"], "term": last["entry_term"]}


# -- commitment -------------------------------------------------------------------------------------------------------


def committed_flushed_on_majority(evidence: Evidence) -> Fields:
    """Of every voter what it had flushed, or that it had another entry there."""
    last, offset = evidence.last, evidence.last["commit"]
    entry = evidence.known_entry(last["node"], offset)
    holders = 0
    for voter in evidence.voters:
        theirs = evidence.entry(voter, offset)
        if theirs is None or same(theirs, entry):
            states = [row for row in evidence.of(voter) if row is not theirs or row is evidence.rows[-1]]
            flushed = max((row["flushed"] for row in states), default=None)
            if flushed is None and theirs is not None and theirs["flushed"] < offset:
                flushed = theirs["flushed"]
            sure(flushed is not None and (theirs is not None or flushed < offset))
            holders += flushed is not None and flushed >= offset
    sure(holders < evidence.needed)
    fields = {"leader": last["node"], "offset": offset, "term": entry["entry_term"]}
    return fields | {"holders": holders, "needed": evidence.needed}


def commit_current_term(evidence: Evidence) -> Fields:
    last = evidence.last
    entry = evidence.known_entry(last["node"], last["commit"])
    leads(Evidence([row for row in evidence.rows if row is not entry], evidence.voters), last["node"], last["term"])
    sure(entry["entry_term"] != last["term"])
    return {"leader": last["node"], "offset": last["commit"], "term": entry["entry_term"], "own": last["term"]}


def _beyond_leader(name: str) -> Proof:
    def proof(evidence: Evidence) -> Fields:
        last = evidence.last
        leaders = []
        for row in evidence.before:
            try:
                leaders.append((led(row), row))
            except UnprovedError:
                continue
        leader = only([row for (node, term), row in leaders if term == last["term"] and node != last["node"]][:1])
        most = max((row.get(name, -1) for row in evidence.before), default=-1)
        sure(most < last[name])
        fields = {"node": last["node"], "offset": last[name], "own": last["term"]}
        return fields | {"leader": leader["node"], "most": most}

    return proof


def committed_agree(evidence: Evidence) -> Fields:
    """Two nodes wrote different entries at one offset, and each committed its own."""
    last = evidence.last
    *_, mine = evidence.of(last["node"], "append")
    other = only([row for row in evidence.rows if row["kind"] == "append" and row is not mine])
    sure(last["kind"] != "append" and mine["offset"] <= last["commit"])
    sure(other["offset"] <= end(mine) and mine["offset"] <= end(other) and not same(mine, other))
    sure(evidence.committed(other) is not last)
    fields = {"node": last["node"], "term": mine["entry_term"], "offset": mine["offset"]}
    return fields | {"other": other["entry_term"]}


def committed_never_truncated(evidence: Evidence) -> Fields:
    last = evidence.last
    sure(last["kind"] == "truncate")
    mine = evidence.known_entry(last["node"], last["offset"])
    evidence.committed(mine)
    fields = {"node": last["node"], "offset": last["offset"]}
    return fields | {"removed": mine["offset"], "term": mine["entry_term"]}


def leader_completeness(evidence: Evidence) -> list[Fields]:
    """An entry is committed; the leader has another one there, or its log ends before it."""
    found: list[Fields] = []
    for entry in evidence.rows:
        if entry["kind"] != "append":
            continue
        for deed in evidence.rows:
            try:
                node, term = led(deed)
                sure(deed is not entry and term > entry["entry_term"])
                evidence.committed(entry)
                theirs = evidence.entry(node, entry["offset"])
                own = deed is theirs
                sure(deed["dirty"] < entry["offset"] if theirs is None else (own or not same(theirs, entry)))
            except UnprovedError:
                continue
            found.append({"leader": node, "elected": term, "offset": entry["offset"], "term": entry["entry_term"]})
    return found


# -- what leaves a node -----------------------------------------------------------------------------------------------


def visible_on_majority(evidence: Evidence) -> Fields:
    last = evidence.last
    entry = evidence.known_entry(last["node"], last["visible"])
    holders = evidence.holders(entry, last["node"]) - (last["node"] not in evidence.voters)
    sure(holders < evidence.needed)
    fields = {"node": last["node"], "offset": last["visible"], "term": entry["entry_term"]}
    return fields | {"holders": holders, "needed": evidence.needed}


def pending_not_visible(evidence: Evidence) -> Fields:
    last = evidence.last
    pending = only(evidence.of(last["node"], "append"))
    sure(pending["acks"] == -1 and last["commit"] < pending["offset"] <= last["visible"])
    fields = {"node": last["node"], "offset": last["visible"]}
    return fields | {"pending": pending["offset"], "term": pending["entry_term"]}


def ack_rule(evidence: Evidence) -> Fields:
    last = evidence.last
    sure(last["kind"] == "acked" and last["reason"] == "success")
    if last["acks"] == -1 and last["commit"] < end(last) and evidence.write_caching:
        sure(evidence.holders(evidence.known_entry(last["node"], end(last)), last["node"]) < evidence.needed)
    elif last["acks"] != -1 or last["commit"] >= end(last):
        shown = only(evidence.before)
        theirs = evidence.entry(last["node"], last["offset"])
        sure(shown["node"] == last["node"])
        sure(shown["dirty"] < last["offset"] if theirs is None else not same(theirs, last))
    fields = {"node": last["node"], "offset": last["offset"], "term": last["entry_term"]}
    return fields | {"acks": ACKS[last["acks"]], "commit": last["commit"]}


def answered_as_written(evidence: Evidence) -> Fields:
    """The first answer to the append, or the start of another life, or the append itself; and an answer that states
    its last offset, where this one leaves it out."""
    last = evidence.last
    sure(last["kind"] == "acked")
    states = [row for row in evidence.before if row["kind"] == "acked" and end(row) > row["offset"]]
    others = [row for row in evidence.before if row["kind"] == "start" or same(row, last)]
    sure(len(others) == 1 and len(evidence.before) == len([*others, *(row for row in states if row not in others)]))
    (shown,) = others
    fields = {"node": last["node"], "offset": last["offset"], "last": end(last), "term": last["entry_term"]}
    if shown["kind"] == "start":
        sure(shown["node"] == last["node"] and shown["term"] >= last["entry_term"])
    elif shown["kind"] == "append":
        left_out = end(last) == last["offset"] and not states
        sure((end(shown) != end(last) and not left_out) or shown["acks"] != last["acks"])
    return fields


def copies_agree(evidence: Evidence) -> Fields:
    first, last = evidence.rows
    sure(first["kind"] == last["kind"] == "append" and same(first, last))
    sure(any(first.get(name) != last.get(name) for name in ("value", "key", "acks", "bytes")))
    return {"node": last["node"], "offset": last["offset"], "term": last["entry_term"]}


def truncated_rule(evidence: Evidence) -> Fields:
    last = evidence.last
    sure(last["kind"] == "acked" and last["reason"] == "truncated")
    still = evidence.entry(last["node"], last["offset"])
    if still is None or not same(still, last):
        at_commit = evidence.entry(last["node"], last["commit"])
        sure(last["commit"] < 0 or (at_commit is not None and at_commit["entry_term"] <= last["entry_term"]))
    fields = {"node": last["node"], "offset": last["offset"], "term": last["entry_term"]}
    return fields | {"commit": last["commit"]}


def acked_survives(evidence: Evidence) -> Fields:
    """An entry was acknowledged; another is committed where it was or, of a later term, before; or nobody has it."""
    acked = only([row for row in evidence.rows if row["kind"] == "acked"])
    sure(acked["acks"] == -1 and acked["reason"] == "success")
    rivals = [row for row in evidence.rows if row["kind"] == "append" and not same(row, acked)]
    try:
        rival = only(rivals)
        sure(rival["offset"] <= acked["offset"] <= end(rival) or rival["entry_term"] > acked["entry_term"])
        Evidence([row for row in evidence.rows if row is not acked], evidence.voters).committed(rival)
    except UnprovedError:
        for voter in evidence.voters:
            shown = [row for row in evidence.of(voter) if row is not acked]
            entry = evidence.entry(voter, acked["offset"])
            sure(any(row["dirty"] < acked["offset"] for row in shown) or (entry is not None and not same(entry, acked)))
    return {"offset": acked["offset"], "term": acked["entry_term"]}


def waits_in_turn(evidence: Evidence) -> Fields:
    """Somebody waited, and another value was enqueued."""
    waits, last = only(evidence.before), evidence.last
    sure((waits["kind"], last["kind"]) == ("wait", "enqueue") and waits["node"] == last["node"])
    sure(waits["value"] != last["value"])
    return {"node": last["node"], "term": last["term"], "value": last["value"], "other": waits["value"]}


def slots_are_waited_for(evidence: Evidence) -> Fields:
    """A round was read back for want of a slot."""
    row = only(evidence.rows)
    sure((row["kind"], row["reason"]) == ("read_back", "round") and row["count"] >= evidence.max_in_flight > 0)
    said = {name: row[name] for name in ("node", "peer", "offset")}
    return {**said, "number": row["count"], "limit": evidence.max_in_flight}


def votes_go_to_complete_logs(evidence: Evidence) -> Fields:
    """Two votes for one candidate in a term, its own one by the lesser log."""
    stood, last = only(evidence.before), evidence.last
    sure(stood["kind"] == last["kind"] == "vote" and stood["node"] == stood["peer"] == last["peer"] != last["node"])
    sure(stood["term"] == last["term"])
    own, end = ((row["entry_term"], row["offset"]) for row in (last, stood))
    sure(end < own)
    said: Fields = {name: last[name] for name in ("node", "peer", "term")}
    return said | {"own": own[1], "own_term": own[0], "end": end[1], "end_term": end[0]}


def answers_of_members(evidence: Evidence) -> Fields:
    """What a configuration said, and an answer that was counted against it."""
    says, last = only(evidence.before), evidence.last
    sure(last["kind"] == "counted" and says["node"] == last["node"] and says["kind"] in ("start", "configuration"))
    said: Fields = {name: last[name] for name in ("node", "peer", "session")}
    words = says["text"].split() if says["kind"] == "configuration" else [",".join(map(str, evidence.voters))]
    named = dict(zip(words[1::2], words[2::2], strict=True))
    members = {*words[0].split(","), *named.get("old", "").split(","), *named.get("learners", "").split(",")}
    if str(last["peer"]) not in members:
        return said
    pairs = dict(pair.split(":") for pair in named["sessions"].split(",")) if "sessions" in named else {}
    session = int(pairs.get(str(last["peer"]), 0))
    sure(session != last["session"])
    return said | {"named": session}


def office_is_kept(evidence: Evidence) -> Fields:
    """Something that may hinder was over long ago; a node led, and follows in the same term."""
    last = evidence.last
    since, led = evidence.before
    sure(
        last["kind"] == "role" and last["role"] != "leader" and last["time"] - since["time"] >= evidence.progress_bound
    )
    sure("leader" in (led["kind"], led.get("role")) and (led["node"], led["term"]) == (last["node"], last["term"]))
    sure(since["kind"] in ("start", "heal", "fault", "crash", "stop", "power_loss", "storage_error"))
    return {"node": last["node"], "term": last["term"], "seconds": _seconds(since, last)}


def parts_in_order(evidence: Evidence) -> Fields:
    """A part that does not go behind what the node took last, or had when it started."""
    before, last = only(evidence.before), evidence.last
    sure(last["kind"] == "part" and before["kind"] in ("part", "start") and before["node"] == last["node"])
    same = before["kind"] == "part" and before["offset"] == last["offset"]
    held = before["count"] + before["bytes"] if same else 0
    sure(last["count"] not in (0, held))
    return {"node": last["node"], "offset": last["offset"], "count": last["count"], "held": held}


def transfer_loses_nothing(evidence: Evidence) -> Fields:
    """A leader handed its leadership on, and should not have; or wrote after it; or had acknowledged what is lost."""
    transfer = only([row for row in evidence.rows if row["kind"] == "transfer"])
    leader, last = transfer["node"], evidence.last
    if last is transfer:
        stranger = last["peer"] == leader or last["peer"] not in evidence.voters
        sure(stranger or last["offset"] != last["dirty"] or last.get("role", "leader") != "leader")
        return {"leader": leader, "term": last["term"], "dirty": last["dirty"]}
    if last["kind"] == "append":
        sure(transfer["seq"] < last["seq"] and last["node"] == leader and last["entry_term"] == transfer["term"])
        return {"leader": leader, "term": transfer["term"], "offset": last["offset"]}
    acked = only([row for row in evidence.rows if row["kind"] == "acked"])
    own = only(evidence.of(last["node"], "append"))
    sure(last["kind"] == "leader" and acked["node"] == leader and acked["entry_term"] == transfer["term"])
    sure(own["seq"] < last["seq"] and (end(own) < end(acked) or own["entry_term"] < acked["entry_term"]))
    fields = {"leader": leader, "acked": end(acked), "term": transfer["term"], "node": last["node"]}
    return fields | {"next": last["term"], "end": end(own), "end_term": own["entry_term"]}


def _said(row: Row) -> str:
    """The configuration of an event, without what is not compared."""
    words = row["text"].split(" ")
    named = [f" {name} {nodes}" for name, nodes in zip(words[1::2], words[2::2], strict=True) if name in _SAID]
    return str(words[0] + "".join(named))


_SAID = ("old", "learners")


def configuration_in_force(evidence: Evidence) -> list[Fields] | Fields:
    """What another node told of the entry, which the node has and does not go by; or its entry is cut off."""
    last, *before = reversed(evidence.rows)
    first = ",".join(map(str, evidence.voters))
    if not before:
        sure(last["kind"] == "configuration")
        sure(last["offset"] > last["dirty"] or _said(last) != first)
        fields: Fields = {"node": last["node"], "offset": last["offset"], "end": last["dirty"]}
        return (
            fields if last["offset"] > last["dirty"] else {"node": last["node"], "reported": first, "own": _said(last)}
        )
    if len(before) == 2 and before[1]["kind"] == "leader":
        copied, leader = before
        sure(copied["kind"] == "append" and last["kind"] == "configuration" and copied["node"] == last["node"])
        sure(copied["offset"] == last["offset"] == last["dirty"] and copied["entry_term"] == leader["term"])
        fields = {"node": last["node"], "offset": last["offset"], "reported": _said(last)}
        return {**fields, "leader": leader["node"], "term": leader["term"]}
    if len(before) == 2 and before[0]["node"] != last["node"]:
        reported, assumed = before
        sure(reported["kind"] == assumed["kind"] == "configuration" and _said(reported) != _said(assumed))
        sure(assumed["offset"] < reported["offset"] <= last["dirty"])
        said: Fields = {"reported": _said(reported), "own": _said(assumed)}
        return {"node": last["node"], "offset": reported["offset"], **said}
    if before[0]["node"] == last["node"] and before[0].get("incarnation") != last.get("incarnation"):
        held = only(before)
        sure(held["kind"] == "configuration" and held["offset"] <= last["dirty"] and _said(held) != first)
        return {"node": last["node"], "offset": held["offset"], "reported": _said(held), "own": first}
    if last["kind"] != "configuration" and before[0]["node"] == last["node"]:
        kept, *others = before
        back = _said(only(others)) if others else first
        sure(kept["kind"] == "configuration" and (last["kind"] != "append" or last["offset"] <= kept["offset"]))
        sure(_said(kept) != back and all(row["offset"] < kept["offset"] for row in others))
        return {"node": last["node"], "offset": kept["offset"], "own": _said(kept), "reported": back}
    reported = only(before)
    sure(reported["kind"] == "configuration")
    if last["kind"] == "configuration" and reported["node"] == last["node"]:
        sure(_said(last) != _said(reported) and reported["offset"] <= last["dirty"])
        return {"node": last["node"], "reported": _said(reported), "own": _said(last)}
    own = _said(last) if last["kind"] == "configuration" else first
    sure(own != _said(reported) and last["dirty"] >= reported["offset"])
    return {"node": last["node"], "offset": reported["offset"], "reported": _said(reported), "own": own}


def _applied_by(row: Row, node: int) -> int:
    """Up to where the state machine of a node has applied its log, as one event of the same life tells."""
    sure(row["node"] == node and (row["kind"] == "apply" or (row["kind"], row["reason"]) == ("snapshot", "installed")))
    return int(row["last_offset"] if row["kind"] == "apply" else row["offset"])


def applied_once(evidence: Evidence) -> Fields:
    """A node applies what it has not committed, or not what comes behind what it has applied, or installs that."""
    last = evidence.last
    if last["kind"] == "snapshot":
        applied = _applied_by(only(evidence.before), last["node"])
        sure(last["reason"] == "installed" and applied >= last["offset"])
        return {"node": last["node"], "offset": last["offset"], "applied": applied}
    sure(last["kind"] == "apply")
    if not evidence.before:
        sure(last["last_offset"] > last["commit"])
        return {"node": last["node"], "last": last["last_offset"], "commit": last["commit"]}
    *kept, latest = evidence.before
    if latest["kind"] == "start":
        # It begins behind its last snapshot; there is none in an empty log, and no later one than is committed.
        sure(latest["node"] == last["node"])
        applied = only(kept)["offset"] if kept else latest["dirty"]
        sure(not kept or (kept[0]["kind"] == "snapshot" and kept[0]["node"] == last["node"]))
        sure(latest["commit"] == applied if kept else latest["dirty"] == -1)
    else:
        applied = _applied_by(only(evidence.before), last["node"])
    sure(last["offset"] != applied + 1)
    return {"node": last["node"], "offset": last["offset"], "applied": applied}


def ghost_term(evidence: Evidence) -> Fields:
    """A node is told of a gap, and appends behind it in another term, or not right behind it; or its log did not end
    right before it."""
    last = evidence.last
    gap = only([row for row in evidence.before if row["kind"] == "gap"])
    state = [row for row in evidence.before if row is not gap]
    sure((gap["kind"], last["kind"], gap["node"]) == ("gap", "append", last["node"]))
    sure(gap["offset"] <= last["last_offset"])
    if state:
        end = only(state)
        sure(end["node"] == last["node"] and end["dirty"] != gap["offset"] - 1)
        return {"node": last["node"], "offset": gap["offset"], "end": end["dirty"]}
    if gap["entry_term"] == last["entry_term"]:
        if gap["last_offset"] + 1 == last["offset"]:
            sure(gap["dirty"] != gap["offset"] - 1)
            return {"node": last["node"], "offset": gap["offset"], "end": gap["dirty"]}
        return {"node": last["node"], "last": gap["last_offset"], "offset": last["offset"]}
    return {
        "node": last["node"],
        "last": gap["last_offset"],
        "term": gap["entry_term"],
        "behind": last["entry_term"],
    }


def gaps_are_explained(evidence: Evidence) -> Fields:
    """A node compacts a batch away that has no key, or whose next one is not committed; or is told of a gap."""
    last = evidence.last
    if last["kind"] == "gap":
        sure(not evidence.before)
        return {"node": last["node"], "offset": last["offset"], "last": last["last_offset"]}
    batch, *later = evidence.before
    sure((batch["kind"], last["kind"], batch["node"]) == ("append", "compact", last["node"]))
    if batch["offset"] < last["offset"] <= batch["last_offset"] or (
        batch["offset"] <= last["last_offset"] < batch["last_offset"]
    ):
        sure(not later)
        return {"node": last["node"], "offset": batch["offset"], "last": batch["last_offset"]}
    sure(last["offset"] <= batch["offset"] <= last["last_offset"])
    fields: Fields = {"node": last["node"], "offset": batch["offset"]}
    if batch.get("key") is None:
        sure(not later)
        return fields
    fields["key"] = batch["key"]
    if not later:
        return fields
    following = only(later)
    sure(following["key"] == batch["key"] and following["last_offset"] > last["commit"])
    return {**fields, "later": following["offset"], "commit": last["commit"]}


def newest_values_agree(evidence: Evidence) -> Fields:
    """One node has appended a batch of a key, another one has committed what is there."""
    batch, state = sorted(
        (*evidence.before, evidence.last), key=lambda row: row["kind"] != "append" or not row.get("key")
    )
    sure(batch["node"] != state["node"] and batch.get("key") is not None)
    sure(batch["offset"] <= state["commit"] == state["dirty"])
    fields: Fields = {"node": state["node"], "commit": state["commit"], "key": batch["key"]}
    return {**fields, "other": batch["node"], "offset": batch["offset"]}


def snapshot_is_committed(evidence: Evidence) -> Fields:
    """A snapshot covers what its node has not committed or not applied, or is installed and not all of it is there."""
    last = evidence.last
    if len(evidence.rows) == 3:
        return _trimmed_without(*evidence.rows)
    sure(last["kind"] == "snapshot")
    offsets = {"committed": last["commit"]}
    if last["reason"] == "installed":
        offsets = {"appended": last["dirty"], "flushed": last["flushed"], **offsets, "visible": last.get("visible")}
    if evidence.before:
        sure(last["reason"] == "taken")
        offsets = {"applied": _applied_by(only(evidence.before), last["node"])}
    what = next((what for what, reached in offsets.items() if reached is not None and reached < last["offset"]), None)
    sure(what is not None)
    return {"node": last["node"], "offset": last["offset"], "reached": offsets[str(what)], "what": what}


def _trimmed_without(kept: Row, trim: Row, then: Row) -> Fields:
    """A node trims more than its last snapshot has, if it has one at all, and does not install one next."""
    sure(trim["kind"] == "trim" and kept["node"] == trim["node"] == then["node"])
    sure(then["kind"] in ("apply", "trim") or then["reason"] == "taken" or then["offset"] < trim["offset"] - 1)
    fields = {"node": trim["node"], "offset": trim["offset"]}
    if kept["kind"] == "start":
        sure(kept["dirty"] == -1)
        return fields
    sure(kept["kind"] == "snapshot" and kept["offset"] < trim["offset"] - 1)
    return {**fields, "reached": kept["offset"]}


def snapshots_agree(evidence: Evidence) -> Fields:
    """Two snapshots that end at one offset differ; or one differs from its node's log, or was kept by nobody."""
    last = evidence.last
    fields: Fields = {"node": last["node"], "offset": last["offset"]}
    if not evidence.before:
        sure(last["reason"] == "installed")
        return fields
    other = only(evidence.before)
    if other["kind"] == "append":
        sure(other["node"] == last["node"] and other["entry_term"] != last["entry_term"])
        return fields | {"term": last["entry_term"], "other_term": other["entry_term"]}
    if other["kind"] != "snapshot" or (other["node"] == last["node"] and other["offset"] != last["offset"]):
        sure(other["node"] == last["node"] and last["reason"] == "taken")
        first = ",".join(map(str, evidence.voters))
        sure((first if other["kind"] == "start" else other["text"]) != last["text"])
        return fields | {"text": last["text"], "other_text": first if other["kind"] == "start" else other["text"]}
    sure(other["kind"] == last["kind"] == "snapshot" and other["offset"] == last["offset"])
    sure((other["entry_term"], other["text"]) != (last["entry_term"], last["text"]))
    return {
        "node": last["node"],
        "offset": last["offset"],
        "term": last["entry_term"],
        "text": last["text"],
        "other": other["node"],
        "other_term": other["entry_term"],
        "other_text": other["text"],
    }


def quorums_intersect(evidence: Evidence) -> Fields | list[Fields]:
    """Two sets of voters decide each by one of the two configurations, and have no node in common; or one of them is
    joint, and not with the halves that the other one leaves it."""
    last, *before = reversed(evidence.rows)
    first = {"text": ",".join(map(str, evidence.voters))}
    one, other = only(before) if before else first, last
    halves = [[{*map(int, nodes.split(","))} for nodes in _halves(row["text"])] for row in (one, other)]
    mine, theirs = ({*set().union(*each)} for each in halves)
    said: Fields = {"offset": last["offset"], "after": _said(last), "before": _said(one)}
    found = []
    for chosen in product((False, True), repeat=len(mine & theirs)):
        shared = {node for node, taken in zip(sorted(mine & theirs), chosen, strict=True) if taken}
        sets = (mine - theirs) | shared, theirs - shared
        if all(2 * len(nodes & half) > len(half) for nodes, each in zip(sets, halves, strict=True) for half in each):
            others, some = (listed(sorted(nodes)) for nodes in sets)
            found.append(said | {"some": some, "others": others})
    if not found:
        was, then = halves
        if len(was) == len(then) == 1:
            come = then[0] - was[0]
            follows = was[0] <= then[0] and len(come) <= 1 and come <= _learners(one["text"])
        else:
            follows = then == was or (len(then) == 1 and then[0] in was) if len(was) > 1 else then[1:] == was
        numbered = _are_numbered(one["text"], other["text"])
        sure(not (follows and numbered))
        found.append(said)
    return found


def _are_numbered(text: str, later: str) -> bool:
    """Whether revisions rise, and members come in the session of a new one."""
    split = [each.split(" ")[1:] for each in (text, later)]
    before, after = (dict(zip(words[::2], words[1::2], strict=True)) for words in split)
    was, now = int(before.get("revision", 0)), int(after.get("revision", 0))
    sessions = dict(each.split(":") for each in after.get("sessions", "").split(",") if each)
    come = _members(later) - _members(text)
    rises = now > was or (now == was and not (come and now))
    return rises and (not sessions or all(int(sessions.get(str(node), 0)) == now for node in come))


def _members(text: str) -> set[int]:
    return {int(node) for half in _halves(text) for node in half.split(",")} | _learners(text)


def _learners(text: str) -> set[int]:
    words = text.split(" ")
    named = dict(zip(words[1::2], words[2::2], strict=True))
    return {*map(int, named["learners"].split(","))} if "learners" in named else set()


def _halves(text: str) -> list[str]:
    words = text.split(" ")
    return [words[0], *(nodes for name, nodes in zip(words[1::2], words[2::2], strict=True) if name == "old")]


def changes_are_committed(evidence: Evidence) -> Fields:
    """A leader changes what it has not committed, or before it has committed anything of its own term."""
    before, last = evidence.rows
    sure(before["node"] == last["node"] and last["kind"] == "configuration" and last["role"] == "leader")
    fields: Fields = {"node": last["node"], "offset": last["offset"], "commit": last["commit"]}
    if before["kind"] == "configuration":
        sure(last["commit"] < before["offset"])
        return fields | {"before": before["offset"]}
    sure(before["kind"] == "leader" and before["term"] == last["term"] and last["commit"] <= before["dirty"])
    return fields | {"before": before["dirty"], "term": last["term"]}


def failed_never_committed(evidence: Evidence) -> Fields:
    acked = only([row for row in evidence.rows if row["kind"] == "acked"])
    sure(acked["reason"] == "truncated")
    entry = only([row for row in evidence.rows if row["kind"] == "append"])
    sure(same(entry, acked))
    evidence.committed(entry)
    return {"offset": acked["offset"], "term": acked["entry_term"]}


# -- clients against nodes --------------------------------------------------------------------------------------------


def _asked(evidence: Evidence, answer: Row) -> Row:
    """The invocation of an answered operation. Raises `UnprovedError`."""
    return only([row for row in evidence.rows if row["kind"] == "invoke" and row["op"] == answer["op"]])


def ok_names_the_entry(evidence: Evidence) -> Fields:
    """What was asked for and told; the entry is elsewhere, or another one is there."""
    *others, answered = [row for row in evidence.rows if row["kind"] == "ok"]
    asked, entry = _asked(evidence, answered), only([row for row in evidence.rows if row["kind"] == "append"])
    ends = [answered["offset"]] * all(end(row) == row["offset"] for row in others)
    there: tuple[object, object] = (entry["offset"], entry["entry_term"])
    value, term = asked["value"], answered.get("term", asked.get("term", "unknown"))
    if entry["value"] == value:
        elsewhere = answered["offset"] != there[0] or term not in (there[1], "unknown")
        sure(elsewhere or end(answered) not in (end(entry), *ends))
    else:
        sure((answered["offset"], term) == there)
        there = "unknown", "unknown"
    fields = {"value": value, "offset": answered["offset"], "last": end(answered), "term": term}
    return fields | {"there": there[0], "entry_term": there[1]}


def ok_after_acked(evidence: Evidence) -> Fields:
    """What was asked for and told; and that a node acknowledged it later, or otherwise, or only that it is in a log."""
    answered = only([row for row in evidence.rows if row["kind"] == "ok"])
    asked, shown = (
        _asked(evidence, answered),
        only([row for row in evidence.rows if row["kind"] in ("append", "acked")]),
    )
    sure((shown["offset"], shown["entry_term"]) == (answered["offset"], answered["term"]))
    sure(shown["kind"] == "append" or shown["seq"] > answered["seq"] or shown["acks"] != asked["acks"])
    return {
        "value": asked["value"],
        "acks": ACKS[asked["acks"]],
        "offset": answered["offset"],
        "term": answered["term"],
    }


def ok_after_commit(evidence: Evidence) -> Fields:
    """What was told of an entry; and that it is committed only later, or how far a node had committed by then."""
    answered = only([row for row in evidence.rows if row["kind"] == "ok"])
    entry = only([row for row in evidence.rows if row["kind"] == "append"])
    sure(
        (entry["offset"], entry["entry_term"]) == (answered["offset"], answered["term"])
        and entry["commit"] < answered["offset"]
    )
    state = only([row for row in evidence.rows if row not in (entry, answered)])
    if state["seq"] < answered["seq"]:
        sure(state["commit"] < answered["offset"])
    else:
        evidence.committed(entry)
    return {"value": entry["value"], "acks": "all", "offset": answered["offset"], "term": answered["term"]}


def _bound(row: Row, asked: Row) -> int:
    """Up to where a node shows its log to a read, as its event says."""
    bound: int = row["commit" if asked["f"] in ("read_committed", "read_linearizable") else "visible"]
    return bound


def _not_shown(row: Row, asked: Row, given: Row) -> bool:
    """Whether an event of a node says that it did not show what a read was given: less, another entry, or its end."""
    if row["kind"] in ("stop", "crash", "power_loss", "storage_error"):
        return bool(row["seq"] < asked["seq"])
    if row["kind"] == "trim" and row["seq"] < asked["seq"] and given["offset"] < row["offset"]:
        return True
    other = row["kind"] == "append" and row["offset"] <= given["offset"] <= end(row) and row["value"] != given["value"]
    return other or row["dirty"] < given["offset"] or _bound(row, asked) < given["offset"]


def uncommitted_read(evidence: Evidence) -> Fields:
    """A read is given something; what each voter showed at most by then."""
    given = evidence.last
    asked = _asked(evidence, given)
    for voter in evidence.voters:
        said = only([row for row in evidence.before if row is not asked and row["node"] == voter])
        sure(_not_shown(said, asked, given))
    return {"value": given["value"], "offset": given["offset"]}


def read_shows_the_node(evidence: Evidence) -> Fields:
    """A read of a node is given something; what the node showed at most by then."""
    said, given = only([row for row in evidence.before if row["kind"] != "invoke"]), evidence.last
    sure(said["node"] == given["node"] and _not_shown(said, _asked(evidence, given), given))
    return {"node": given["node"], "value": given["value"], "offset": given["offset"]}


def read_leaves_nothing_out(evidence: Evidence) -> Fields:
    """The node has a value where the read was; it passed over that, or ended before what the node showed."""
    last, entry = evidence.last, only([row for row in evidence.rows if row["kind"] == "append"])
    asked = _asked(evidence, last)
    sure(entry["node"] == last["node"] and last["kind"] in ("observe", "ok") and asked["offset"] <= end(entry))
    states = [row for row in evidence.before if row not in (asked, entry)] or [entry]
    if last.get("offset", asked["offset"]) <= end(entry):
        sure(only(states)["node"] == entry["node"] and _bound(states[0], asked) >= end(entry))
    else:
        sure(states == [entry])
    return {"node": last["node"], "value": entry["value"], "offset": entry["offset"]}


def written_after_asked(evidence: Evidence) -> Fields:
    """A node appends or enqueues the value; a client asks for it only then. Or it is asked for otherwise."""
    entry, asked = evidence.rows
    if entry["kind"] == "invoke":
        asked, entry = evidence.rows
        sure(entry["kind"] == "append" and entry["value"] == asked["value"])
        fields: Fields = {"value": entry["value"], "offset": entry["offset"], "term": entry["entry_term"]}
        if asked["acks"] != entry["acks"]:
            return fields | {"acks": {-1: "all"}.get(asked["acks"], str(asked["acks"]))}
        sure(asked["term"] != entry["entry_term"])
        return fields | {"expected": asked["term"]}
    sure(entry["kind"] in ("append", "enqueue") and asked["kind"] == "invoke" and entry["value"] == asked["value"])
    if entry["kind"] == "enqueue":
        return {"value": entry["value"]}
    return {"value": entry["value"], "offset": entry["offset"], "term": entry["entry_term"]}


def answered_by_who_acted(evidence: Evidence) -> Fields:
    """The end of the node; a client asks, and is answered by it."""
    ended, _, answered = evidence.rows
    sure(ended["kind"] in ("stop", "crash", "power_loss", "storage_error") and answered["kind"] in ("ok", "fail"))
    sure(ended["seq"] < _asked(evidence, answered)["seq"] and ended["node"] == answered["node"])
    return {"client": answered["process"], "node": answered["node"]}


def read_ends_in_the_log(evidence: Evidence) -> Fields:
    """The last that the node said of its log; where the read began, and where it goes on."""
    state, _, answered = evidence.rows
    asked = _asked(evidence, answered)
    sure(state["node"] == answered["node"] and asked["seq"] < answered["seq"])
    shown = state["commit" if asked["f"] in ("read_committed", "read_linearizable") else "visible"]
    sure(answered["offset"] > max(shown + 1, asked["offset"]))
    return {"node": answered["node"], "offset": answered["offset"], "shown": shown}


def fail_had_no_effect(evidence: Evidence) -> Fields:
    """The append failed, and its entry is acknowledged, or committed by a node that has it."""
    failed = only([row for row in evidence.rows if row["kind"] == "fail"])
    entry = only([row for row in evidence.rows if row["kind"] == "append"])
    sure(entry["value"] == _asked(evidence, failed)["value"])
    acked = [row for row in evidence.rows if row["kind"] == "acked" and row["reason"] == "success"]
    sure(same(only(acked), entry) if acked else evidence.committed(entry) is not entry)
    return {"value": entry["value"], "offset": entry["offset"], "term": entry["entry_term"]}


def tail_is_committed(evidence: Evidence) -> Fields:
    """The largest commit index by then; or one that was stated before the tail was asked for."""
    answered = evidence.last
    sure(answered["kind"] == "ok" and answered["f"] == "tail")
    states = [row for row in evidence.before if row["kind"] != "invoke"]
    committed = only(states)["commit"] + 1 if states else 0
    if answered["offset"] < committed:
        sure(states[0]["seq"] < _asked(evidence, answered)["seq"])
    return {"tail": answered["offset"], "committed": committed}


# -- progress ---------------------------------------------------------------------------------------------------------


def _seconds(since: Row, until: Row) -> str:
    return f"{(until['time'] - since['time']) / 1e9:.3g}"


def calls_end(evidence: Evidence) -> Fields:
    """An operation begins; much later it ends, or the history does."""
    begun, last = evidence.rows
    bound = evidence.progress_bound
    sure(begun["kind"] == "invoke" and last["time"] - begun["time"] > bound)
    fields = {"op": begun["op"], "client": begun["process"], "seconds": _seconds(begun, last)}
    return fields | {"bound": f"{bound / 1e9:.3g}"}


def _sets_in(row: Row) -> list[set[int]]:
    """The voters that a configuration names, and those that it replaces."""
    words = row["text"].split(" ")
    named = dict(zip(words[1::2], words[2::2], strict=True))
    return [{int(n) for n in each.split(",")} for each in (words[0], named.get("old")) if each]


def _vote(evidence: Evidence, nodes: set[int]) -> list[set[int]]:
    """The configurations shown, else the first one; each of the nodes votes in one of them, or in the first."""
    shown = [half for row in evidence.rows if row["kind"] == "configuration" for half in _sets_in(row)]
    sure(nodes <= set[int]({*evidence.voters}).union(*shown))
    return shown or [{*evidence.voters}]


def _are_a_quorum(evidence: Evidence, nodes: set[int]) -> None:
    sure(all(2 * len(half & nodes) > len(half) for half in _vote(evidence, nodes)))


def _asked_in_vain(evidence: Evidence, asks: list[Row], deeds: list[Row], names: str) -> Fields:
    """A leader that has committed all of its log was asked for appends, a bound after each other, and made none."""
    first, *_, last = asks
    leader = only([row for row in deeds if row["node"] == first["node"]])
    sure({(row["f"], row["node"], row.get("term")) for row in asks} == {("append", first["node"], None)})
    sure(leader["role"] == "leader" and leader["commit"] >= leader["dirty"] and leader["seq"] < last["seq"])
    sure(last["time"] - first["time"] >= evidence.progress_bound)
    since = _seconds(first, evidence.last)
    return {"seconds": since, "nodes": names, "leader": first["node"], "term": leader["term"]}


def somebody_leads(evidence: Evidence) -> list[Fields]:
    """Nodes that started; and nothing was committed, as some of them show who led or stood for election."""
    last = evidence.last
    nodes = sorted({row["node"] for row in evidence.rows if row["kind"] == "start"})
    sure(nodes)
    _are_a_quorum(evidence, {*nodes})
    names = f"{', '.join(map(str, nodes[:-1]))} and {nodes[-1]}" if len(nodes) > 1 else str(nodes[0])
    asks = [row for row in evidence.rows if row["kind"] == "invoke"]
    deeds = [row for row in evidence.before if row["kind"] not in ("start", "invoke") and row.get("node") in nodes]
    found: list[Fields] = []
    if asks:
        return [_asked_in_vain(evidence, asks, deeds, names)]
    for since in evidence.before:
        fields: Fields = {"seconds": _seconds(since, last), "nodes": names}
        if last["time"] - since["time"] < evidence.progress_bound:
            continue
        later = [row for row in deeds if row["seq"] > since["seq"]]
        if all(row["kind"] == "configuration" for row in deeds):
            found.append(fields)
        for row in deeds:
            waiting = row["dirty"] - row["commit"]
            found.append(
                fields | {"leader": row["node"], "term": row["term"], "dirty": row["dirty"], "waiting": waiting}
            )
        turns = [row for row in later if row.get("role") in ("leader", "candidate") or row["kind"] == "leader"]
        if turns and len({row["node"] for row in turns}) == 1:
            role = {"role": turns[0].get("role", "leader"), "times": len(turns), "node": turns[0]["node"]}
            found.append(fields | role | {"first": turns[0]["term"], "last": turns[-1]["term"]})
    return found


def replicas_catch_up(evidence: Evidence) -> list[Fields]:
    """Something is committed; a node has not got so far a bound later."""
    last = evidence.last
    found: list[Fields] = []
    for since in evidence.before:
        if last["time"] - since["time"] < evidence.progress_bound:
            continue
        goal = max((row.get("commit", -1) for row in evidence.rows if row["seq"] < since["seq"]), default=-1)
        for row in evidence.rows:
            commit = row.get("commit", goal)
            if commit < goal:
                _vote(evidence, {row["node"]})
                found.append({"node": row["node"], "seconds": _seconds(since, last), "commit": commit, "goal": goal})
    return found


def nothing_left_behind(evidence: Evidence) -> list[Fields]:
    """Where the leader's log ends, and where a node is left."""
    last, names = evidence.last, ("dirty", "flushed", "commit", "visible")
    voters = set[int]({*evidence.voters}).union(*_vote(evidence, set()))
    states = [row for row in evidence.rows if "dirty" in row and row["node"] in voters]
    return [
        {"node": row["node"], "end": leader["dirty"], "seconds": _seconds(since, last)}
        | {name: row.get(name, -1) for name in names}
        for row in states
        for leader in states
        for since in evidence.before
        if last["time"] - since["time"] >= evidence.progress_bound
        and (since["kind"] == "append" or (since is not row and since is not leader))
        and any(row.get(name, -1) != leader["dirty"] for name in names)
    ]


PROOFS: dict[str, Proof] = {
    "ok-names-the-entry": ok_names_the_entry,
    "ok-after-acked": ok_after_acked,
    "ok-after-commit": ok_after_commit,
    "uncommitted-read": uncommitted_read,
    "read-shows-the-node": read_shows_the_node,
    "read-leaves-nothing-out": read_leaves_nothing_out,
    "written-after-asked": written_after_asked,
    "answered-by-who-acted": answered_by_who_acted,
    "read-ends-in-the-log": read_ends_in_the_log,
    "fail-had-no-effect": fail_had_no_effect,
    "tail-is-committed": tail_is_committed,
    "calls-end": calls_end,
    "somebody-leads": somebody_leads,
    "replicas-catch-up": replicas_catch_up,
    "nothing-left-behind": nothing_left_behind,
    "one-leader-per-term": one_leader_per_term,
    "one-vote-per-term": one_vote_per_term,
    "leader-has-majority": leader_has_majority,
    "term-needs-candidate": term_needs_candidate,
    "roles-in-order": roles_in_order,
    "bounded-memory": bounded_memory,
    "written-as-enqueued": written_as_enqueued,
    "commit-monotonic": _moved_back("commit"),
    "flushed-monotonic": _moved_back("flushed"),
    "visible-monotonic": _moved_back("visible"),
    "term-monotonic": _moved_back("term"),
    "commit-within-flushed": _beyond("commit", "flushed"),
    "flushed-within-dirty": _beyond("flushed", "dirty"),
    "visible-within-dirty": _beyond("visible", "dirty"),
    "flushed-durable": flushed_durable,
    "dirty-survives-crash": dirty_survives_crash,
    "restart-is-flushed": restart_is_flushed,
    "starts-as-it-knows": starts_as_it_knows,
    "trim-within-commit": trim_within_commit,
    "trim-monotonic": trim_monotonic,
    "converges": converges,
    "voters-return": voters_return,
    "log-matching": log_matching,
    "append-at-end": append_at_end,
    "log-terms-monotonic": log_terms_monotonic,
    "leader-append-only": leader_append_only,
    "truncation-needs-divergence": truncation_needs_divergence,
    "committed-flushed-on-majority": committed_flushed_on_majority,
    "commit-current-term": commit_current_term,
    "follower-commit-within-leader": _beyond_leader("commit"),
    "follower-visible-within-leader": _beyond_leader("visible"),
    "committed-agree": committed_agree,
    "committed-never-truncated": committed_never_truncated,
    "leader-completeness": leader_completeness,
    "visible-on-majority": visible_on_majority,
    "pending-not-visible": pending_not_visible,
    "ack-rule": ack_rule,
    "answered-as-written": answered_as_written,
    "batches-are-flushed-whole": batches_are_flushed_whole,
    "copies-agree": copies_agree,
    "transfer-loses-nothing": transfer_loses_nothing,
    "waits-in-turn": waits_in_turn,
    "slots-are-waited-for": slots_are_waited_for,
    "parts-in-order": parts_in_order,
    "votes-go-to-complete-logs": votes_go_to_complete_logs,
    "answers-of-members": answers_of_members,
    "office-is-kept": office_is_kept,
    "configuration-in-force": configuration_in_force,
    "quorums-intersect": quorums_intersect,
    "changes-are-committed": changes_are_committed,
    "applied-once": applied_once,
    "ghost-term": ghost_term,
    "gaps-are-explained": gaps_are_explained,
    "newest-values-agree": newest_values_agree,
    "snapshot-is-committed": snapshot_is_committed,
    "snapshots-agree": snapshots_agree,
    "truncated-rule": truncated_rule,
    "acked-survives": acked_survives,
    "failed-never-committed": failed_never_committed,
}
