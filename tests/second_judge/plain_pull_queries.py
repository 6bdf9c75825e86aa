"""The twins of the checks of pull queries, each written from the rule that it names."""

from __future__ import annotations

import json
import zlib
from collections import Counter
from collections.abc import Callable, Iterable
from dataclasses import replace
from itertools import pairwise
from typing import Any

from plain import GONE, JUDGED, UNJUDGED, VIOLATED, Count, Event, History, Plain

Plainly = dict[str, Any]
"""What a text says."""

NUMBERS = (int, float)


# -- what texts say ----------------------------------------------------------------------------------------------------


def said(e: Event | None, form: Callable[[Any], bool]) -> Any:  # noqa: ANN401
    """What the text of an event says; None if it has none, or one of another form."""
    try:
        found = json.loads(e.text) if e is not None else None
        return found if found is not None and form(found) else None
    except (TypeError, ValueError, KeyError, AttributeError, IndexError, RecursionError):
        return None


def whole(*numbers: Any) -> bool:  # noqa: ANN401
    """Whether these are whole numbers."""
    return all(type(number) is int for number in numbers)


DEFAULTS = {
    "mode": "proposal",
    "heartbeat_send": 100,
    "heartbeat_check": 200,
    "heartbeat_window": 2000,
    "missed_threshold": 3,
    "received_threshold": 2,
    "lag_report": 5000,
    "forward_timeout": None,
    "maximum_lag": 2**63 - 1,
    "partitions": 1,
    "standbys": 2,
    "standby_reads": True,
    "heartbeats": True,
    "lag_reports": True,
    "with_bound": None,
}
"""pull-queries.md#configuration, in the mode of the proposal."""


def is_configuration(s: Plainly) -> bool:
    """A configuration, whatever its numbers; what it leaves out is as the proposal has it."""
    s |= DEFAULTS | s
    names = ("heartbeat_send", "heartbeat_window", "missed_threshold", "received_threshold", "heartbeat_check")
    names += ("lag_report", "maximum_lag", "partitions", "standbys")
    optional = [s[name] for name in ("forward_timeout", "with_bound") if s[name] is not None]
    switches = (s["standby_reads"], s["heartbeats"], s["lag_reports"])
    words = isinstance(s["host"], str) and isinstance(s["mode"], str)
    return words and all(type(switch) is bool for switch in switches) and whole(*optional, *(s[name] for name in names))


def is_server(s: Plainly) -> bool:
    """A configuration that can be reckoned with."""
    return (
        is_configuration(s)
        and min(s["heartbeat_send"], s["heartbeat_check"]) >= 1
        and (s["forward_timeout"] is None or s["forward_timeout"] >= 1)
        and 0 <= s["heartbeat_window"] // s["heartbeat_send"] <= 1 << 16
        and s["missed_threshold"] >= 1
        and s["received_threshold"] >= 1
        and s["lag_report"] >= 1
        and min(s["maximum_lag"], s["standbys"]) >= 0
        and 1 <= s["partitions"] <= 1 << 16
    )


def is_positions(s: Plainly) -> bool:
    """By partition, offsets passed and the end."""
    return all(whole(int(p)) and whole(*pair) and len(pair) == 2 for p, pair in s.items())


def is_assignment(s: Plainly) -> bool:
    """Epoch, members, and by partition the active and its standbys."""
    hosts = [*s["members"], *(host for active, standbys in s["placements"] for host in (active, *standbys))]
    lists = isinstance(s["members"], list) and all(isinstance(standbys, list) for _, standbys in s["placements"])
    return whole(s["epoch"]) and lists and all(isinstance(host, str) for host in hosts)


def is_view(s: Plainly) -> bool:
    """An assignment, statuses and lag reports."""
    statuses = all(type(alive) is bool and whole(updated) for alive, updated in s["statuses"].values())
    records = all(whole(time) and is_positions(positions) for time, positions in s["records"].values())
    return is_assignment(s["assignment"]) and statuses and records


def is_status(s: Plainly) -> bool:
    """By host: alive, the time of that, and of a lag report or none."""
    return all(type(alive) is bool and whole(updated, 0 if t is None else t) for alive, updated, t in s.values())


def is_value(value: Any) -> bool:  # noqa: ANN401
    """A word or a number."""
    return type(value) in (*NUMBERS, str)


def is_rows(s: list[Any]) -> bool:
    """Keys with values."""
    return isinstance(s, list) and all(isinstance(key, str) and is_value(value) for key, value in s)


def is_query(s: Plainly) -> bool:
    """Keys, or a filter, or neither; a bound or none."""
    keys, wanted, bound = s.get("keys"), s.get("filter"), s.get("bound")
    keyed = keys is None or (isinstance(keys, list) and all(isinstance(key, str) for key in keys))
    operators = ("=", "!=", "<", "<=", ">", ">=")
    known = wanted is None or (wanted["column"] in ("k", "v") and wanted["op"] in operators)
    known = known and (wanted is None or is_value(wanted["value"]))
    return keyed and known and (bound is None or whole(bound))


def is_asked(s: Plainly) -> bool:
    """Partitions, and the query's own bound."""
    return isinstance(s["partitions"], list) and whole(*s["partitions"]) and (s["bound"] is None or whole(s["bound"]))


def is_finished(s: Plainly) -> bool:
    """A message or none, and the attempts."""
    right = s["message"] is None or isinstance(s["message"], str)
    return right and all(
        whole(p) and isinstance(host, str) and (failure is None or isinstance(failure, str))
        for p, host, failure in s["attempts"]
    )


def is_record(s: Plainly) -> bool:
    """A takeover, or a change of one source offset."""
    source, key, value = s.get("source"), s.get("key"), s.get("value")
    of_words = (key is None or isinstance(key, str)) and (value is None or is_value(value))
    return whole(s["epoch"]) and (source is None or whole(source)) and of_words


# -- who is who --------------------------------------------------------------------------------------------------------


def server_of(events: list[Event], node: int) -> Plainly | None:
    """What a node was told when it began to serve last."""
    served = [e for e in events if e.kind == "serve" and e.node == node]
    return said(served[-1], is_server) if served else None


def numbers(events: list[Event]) -> dict[str, int]:
    """The nodes of the hosts that have served."""
    servers = [(said(e, is_server), e.node) for e in events if e.kind == "serve"]
    return {server["host"]: node for server, node in servers if server is not None}


def name_of(events: list[Event], number: int) -> str:
    """The host that is this node."""
    return next((host for host, node in numbers(events).items() if node == number), "unavailable:-1")


def life(events: list[Event], node: int) -> list[Event] | None:
    """What a process that runs has recorded since it began to serve; None if none runs."""
    own = [e for e in events if e.node == node and e.process is None]
    began = [at for at, e in enumerate(own) if e.kind == "serve"]
    if not began or any(e.kind in GONE for e in own[began[-1] :]):
        return None
    return own[began[-1] :]


def since(events: list[Event], node: int) -> list[Event]:
    """What a node has recorded since it began to serve, if it ever did."""
    own = [e for e in events if e.node == node and e.process is None]
    began = [at for at, e in enumerate(own) if e.kind == "serve"]
    return own[began[-1] :] if began else own


# -- statuses ----------------------------------------------------------------------------------------------------------


def stored(lived: list[Event], peer: int) -> tuple[bool, int] | None:
    """The status of a host after these events: as listed, then as decided; the time stays if nothing was stored."""
    return status_of(lived, peer)[0]


def status_of(lived: list[Event], peer: int) -> tuple[tuple[bool, int] | None, list[int]]:
    """The status of a host, and its stamps that are stored: each check drops those before its window."""
    server = said(lived[0], is_server)
    status, stamps = None, set()
    for e in lived:
        if e.peer != peer:
            continue
        if e.kind == "listed":
            status = (True, e.stamp)
        elif e.kind == "heard":
            stamps.add(e.stamp)
        elif e.kind in ("up", "down"):
            before = e.stamp if status is None else status[1]
            status = (e.kind == "up", e.stamp if stamps else before)
            if server is not None:
                stamps = {stamp for stamp in stamps if stamp >= e.stamp - server["heartbeat_window"]}
    return status, sorted(stamps)


def decisions(history: History) -> Iterable[tuple[Plainly | None, list[Event], Event]]:
    """Every decision of a check: of which server, after what it had seen."""
    for at, e in enumerate(history.events):
        if e.kind in ("up", "down"):
            lived = life(history.events[:at], e.node)
            if lived is not None:
                yield server_of(history.events[:at], e.node), lived, e


def counted(server: Plainly, lived: list[Event], e: Event) -> list[int]:
    """The stamps in the window of a check."""
    start = e.stamp - server["heartbeat_window"]
    return [stamp for stamp in status_of(lived, e.peer)[1] if start <= stamp <= e.stamp]


def shipped(server: Plainly) -> bool:
    """Whether it follows the public implementation."""
    return bool(server["mode"] == "shipped")


def silence(server: Plainly) -> int:
    """M * send."""
    return int((server["missed_threshold"] + (0 if shipped(server) else 1)) * server["heartbeat_send"])


def slots(server: Plainly, end: int, stamps: list[int]) -> str:
    """Each slot of the window: ``x`` if a stamp lies in it, else ``.``."""
    start, send = end - server["heartbeat_window"], server["heartbeat_send"]
    bounds = [start + k * send for k in range(server["heartbeat_window"] // send)]
    return "".join("x" if any(low <= stamp < low + send for stamp in stamps) else "." for low in bounds)


def decided(server: Plainly, stamps: list[int], end: int, up: bool) -> bool:
    """What a check decides."""
    send = server["heartbeat_send"]
    if not stamps:
        return False
    if shipped(server):
        before = [end - server["heartbeat_window"], *(stamp for stamp in stamps if stamp < end)]
        gaps = [b - a for a, b in pairwise(before)]
        missed = (gaps[-1] - 1) // send if gaps and gaps[-1] > send else 0
        tail = end - before[-1]
        return ((tail - 1) // send if tail > 1 else missed) < int(server["missed_threshold"])
    seen = ""
    for slot in slots(server, end, stamps):
        seen += slot
        if seen.endswith("x" * server["received_threshold"]):
            up = True
        if seen.endswith("." * (server["missed_threshold"] + 1)):
            up = False
    return up


def status_replays(history: History) -> Count:
    """pull-queries.md#status-replays."""
    count = Count()
    for server, lived, e in decisions(history):
        if server is None:
            count += UNJUDGED
            continue
        before = stored(lived, e.peer)
        count += JUDGED if before is not None else JUDGED + VIOLATED
        if (e.kind == "up") != decided(server, counted(server, lived, e), e.stamp, before is None or before[0]):
            count += VIOLATED
    for at, e in enumerate(history.events):
        lived = life(history.events[:at], e.node) if e.kind in ("route", "shown", "listed") else None
        if lived is None:
            continue
        if e.kind != "listed":
            count += by_statuses(history.events[:at], lived, e)
        elif any(b.kind == "listed" and b.peer == e.peer for b in lived):
            count += JUDGED + VIOLATED
    return count


def by_statuses(events: list[Event], lived: list[Event], e: Event) -> Count:
    """Whether a view has the statuses that the last check gave."""
    server, view, status = server_of(events, e.node), said(e, is_view), said(e, is_status)
    statuses = view["statuses"] if e.kind == "route" and view is not None else None
    if e.kind == "shown" and status is not None:
        statuses = {host: [alive, updated] for host, (alive, updated, _) in status.items()}
    if server is None or statuses is None:
        return UNJUDGED
    known = {}
    for host, node in numbers(events).items():
        status = stored(lived, node) if server["heartbeats"] and host != server["host"] else None
        if status is not None:
            known[host] = list(status)
    shown = {host: status for host, status in statuses.items() if host != server["host"]}
    wrong = [host for host in numbers(events) if known.get(host) != shown.get(host)]
    own = statuses.get(server["host"])
    right = own is not None and own[0] if server["heartbeats"] else own is None
    return JUDGED + Count(violated=len(wrong) + (not right))


def no_false_down(history: History) -> Count:
    """pull-queries.md#no-false-down."""
    count = Count()
    for server, lived, e in decisions(history):
        if server is None:
            continue
        stamps, status = counted(server, lived, e), stored(lived, e.peer)
        if shipped(server):
            heard = any(stamp <= e.stamp - 2 and e.stamp - stamp <= silence(server) for stamp in stamps)
        else:
            row = slots(server, e.stamp, stamps)
            up = status is None or status[0]
            gap = "." * (server["missed_threshold"] + 1)
            heard = (up and gap not in row) or row.endswith("x" * server["received_threshold"])
        if heard:
            count += JUDGED if e.kind == "up" else JUDGED + VIOLATED
    return count


def silence_is_down(history: History) -> Count:
    """pull-queries.md#silence-is-down."""
    count = Count()
    for server, lived, e in decisions(history):
        if server is None:
            continue
        if not [stamp for stamp in counted(server, lived, e) if e.stamp - silence(server) <= stamp < e.stamp]:
            count += JUDGED if e.kind == "down" else JUDGED + VIOLATED
    return count


OF_STATUSES = ("serve", "listed", "heartbeat", "heard", "up", "down", "route", "report", "report_sent", "shown", *GONE)


def heartbeats_to_all(history: History) -> Count:
    """pull-queries.md#heartbeats-to-all."""
    count = Count()
    for node in {e.node for e in history.events if e.kind == "heartbeat"}:
        own = [e for e in history.events if e.node == node and e.process is None and e.kind in OF_STATUSES]
        for at, e in enumerate(own[1:], 1):
            before = own[at - 1]
            goes_on = e.kind not in ("serve", *GONE) and (e.kind != "heartbeat" or e.stamp != before.stamp)
            lived = life(own[:at], node) if before.kind == "heartbeat" and goes_on else None
            if lived is None:
                continue
            sent = set()
            for b in reversed(lived):
                if b.kind != "heartbeat" or b.stamp != before.stamp:
                    break
                sent.add(b.peer)
            listed = {b.peer for b in lived if b.kind == "listed"}
            count += Count(judged=int(bool(listed)), violated=len(listed - sent))
    return count


def checks_decide_all(history: History) -> Count:
    """pull-queries.md#checks-decide-all."""
    count = Count()
    for _, lived, e in decisions(history):
        made = [b for b in lived if b.kind in ("up", "down")]
        if not made or made[-1].stamp == e.stamp:
            continue
        since = next((at for at, b in enumerate(reversed(made)) if b.stamp != made[-1].stamp), len(made))
        check = made[::-1][:since]
        listed = {b.peer for b in lived[: lived.index(check[-1])] if b.kind == "listed"} - {e.node}
        count += Count(judged=int(bool(listed)), violated=len(listed - {b.peer for b in check}))
    return count


def reports_to_all(history: History) -> Count:
    """pull-queries.md#reports-to-all."""
    count = Count()
    for at, e in enumerate(history.events):
        events = history.events[:at]
        lived = life(events, e.node) if e.kind == "report" else None
        server = server_of(events, e.node) if lived is not None else None
        if lived is None or server is None:
            continue
        if not any(b.kind == "report_sent" and life(events[:i], b.node) is not None for i, b in enumerate(events)):
            continue
        made = [i for i, b in enumerate(lived) if b.kind == "report"]
        since_last = [b for b in lived[made[-1] + 1 if made else 0 :] if b.kind == "report_sent"]
        sent: set[int | None] = set()
        for b in reversed(since_last):
            if b.stamp != e.stamp:
                break
            sent.add(b.peer)
        if shipped(server):
            decided_last = {b.peer: b.kind for b in lived if b.kind in ("up", "down")}
            targets = {peer for peer, kind in decided_last.items() if kind == "up"}
        else:
            targets = {b.peer for b in lived if b.kind == "listed"}
        count += JUDGED + Count(violated=len(sent ^ (targets - {e.node})))
    return count


def reports_go_on(history: History) -> Count:
    """pull-queries.md#reports-go-on."""
    count = Count()
    for node in {e.node for e in history.events if e.kind in ("heartbeat", "report", "up", "down")}:
        own = [e for e in history.events if e.node == node and e.process is None and e.kind in OF_STATUSES]
        for kinds, interval in ((("report",), "lag_report"), (("up", "down"), "heartbeat_check")):
            count += goes_on(own, node, kinds, interval)
        count += goes_on_sending(own, node)
    return count


def goes_on_sending(own: list[Event], node: int) -> Count:
    """Whether a node sends heartbeats again and again while it checks who is alive."""
    count, checks, now = Count(), 0, None
    for at, e in enumerate(own):
        lived = life(own[:at], node)
        server = said(lived[0], is_server) if lived else None
        if lived is None or e.kind in (*GONE, "serve", "heartbeat"):
            checks, now = 0, now if e.kind == "heartbeat" else None
        elif e.kind in ("up", "down") and e.stamp != now:
            checks, now = checks + 1, e.stamp
            sends = server is not None and server["heartbeats"]
            if sends and (checks - 1) * server["heartbeat_check"] > 1000 + 10 * server["heartbeat_send"]:
                count += VIOLATED
                checks = 0
    return count


def goes_on(own: list[Event], node: int, kinds: tuple[str, ...], interval: str) -> Count:
    """Whether a node does something of these kinds again and again while it sends heartbeats."""
    count, rounds = Count(), 0
    for at, e in enumerate(own):
        lived = life(own[:at], node)
        server = said(lived[0], is_server) if lived else None
        if lived is None or e.kind in GONE or e.kind == "serve":
            rounds = 0
            continue
        before = own[at - 1]
        counts = server is not None and (interval != "lag_report" or server["lag_reports"])
        if counts and before.kind == "heartbeat" and (e.kind != "heartbeat" or e.stamp != before.stamp):
            rounds += 1
            if rounds * server["heartbeat_send"] > 1000 + 10 * server[interval]:
                count += VIOLATED
                rounds = 0
        if e.kind in kinds:
            count += JUDGED if counts else Count()
            rounds = 0
    return count


# -- tables ------------------------------------------------------------------------------------------------------------


def end_of(events: list[Event], partition: int) -> tuple[int, bool]:
    """How many offsets of a changelog are known, and whether none lacks before what was shown."""
    end = 0
    for e in events:
        if e.kind == "changelog" and e.partition == partition:
            if e.offset != end or (e.text is not None and said(e, is_record) is None):
                return end, False
            end += 1
    return end, True


def table(events: list[Event], partition: int, position: int) -> dict[str, Any]:
    """Table(p, n)."""
    shown = [e for e in events if e.kind == "changelog" and e.partition == partition][:position]
    rows: dict[str, Any] = {}
    epoch = source = 0
    for e in shown:
        record = said(e, is_record)
        if record is None or record["epoch"] < epoch:
            continue
        if record.get("source") is not None:
            if record["source"] != source:
                continue
            source += 1
            if record.get("key") is not None:
                rows[record["key"]] = record.get("value")
        epoch = record["epoch"]
    return {key: value for key, value in rows.items() if value is not None}


def wanted(query: Plainly, key: str, value: Any) -> bool:  # noqa: ANN401
    """Whether a query asks for a row."""
    if query.get("keys") is not None and key not in query["keys"]:
        return False
    if query.get("filter") is None:
        return True
    found, other = (key if query["filter"]["column"] == "k" else value), query["filter"]["value"]
    op = query["filter"]["op"]
    if isinstance(found, str) != isinstance(other, str):
        return bool(op == "!=")
    return bool(eval(f"a {'==' if op == '=' else op} b", {"a": found, "b": other}))


def asked_from(events: list[Event], op: int | None) -> int:
    """Where a client asked first; behind everything if none did."""
    return next((at for at, e in enumerate(events) if e.kind == "invoke" and e.op == op), len(events))


def query_of(events: list[Event], op: int) -> Any:  # noqa: ANN401
    """What the client asked."""
    asked = [e for e in events if e.kind == "invoke" and e.op == op]
    return said(asked[-1], is_query) if asked else None


def rows_are_the_table(history: History) -> Count:
    """pull-queries.md#rows-are-the-table."""
    count = Count()
    for at, e in enumerate(history.events):
        if e.kind not in ("answer", "rows"):
            continue
        events = history.events[:at]
        end, certain = end_of(events, e.partition)
        query, rows = query_of(events, e.op), said(e, is_rows)
        if e.offset > end and certain:
            count += JUDGED + VIOLATED
        elif e.offset > end or query is None or rows is None:
            count += UNJUDGED
        else:
            truth = table(events, e.partition, e.offset)
            expected = [[key, truth[key]] for key in sorted(truth) if wanted(query, key, truth[key])]
            count += JUDGED if rows == expected else JUDGED + VIOLATED
    return count


def changelog_in_order(history: History) -> Count:
    """pull-queries.md#changelog-in-order."""
    count = Count()
    shown = [e for e in history.events if e.kind == "changelog"]
    for partition in {e.partition for e in shown}:
        for before, e in pairwise(e for e in shown if e.partition == partition):
            count += JUDGED if e.offset == before.offset + 1 else JUDGED + VIOLATED
    for e in shown:
        record = said(e, is_record)
        if record is not None:
            count += JUDGED if record["epoch"] == e.epoch else JUDGED + VIOLATED
    return count


def takeover_comes_first(history: History) -> Count:
    """pull-queries.md#takeover-comes-first."""
    count = Count()
    shown = [e for e in history.events if e.kind == "changelog"]
    for partition in {e.partition for e in shown}:
        epoch = due = 0
        for offset, e in enumerate(e for e in shown if e.partition == partition):
            record = said(e, is_record)
            if e.offset != offset or (record is None and e.text is not None):
                break
            if record is None or record["epoch"] < epoch:
                continue
            source = record.get("source")
            if record["epoch"] > epoch:
                count += JUDGED if source is None else JUDGED + VIOLATED
            if source in (None, due):
                epoch, due = record["epoch"], due + (source is not None)
    return count


def reports_are_true(history: History) -> Count:
    """pull-queries.md#current-and-end."""
    count = Count()
    for at, e in enumerate(history.events):
        if e.kind != "report":
            continue
        events, positions = history.events[:at], said(e, is_positions)
        if positions is None:
            count += UNJUDGED
            continue
        folds = [b for b in events if b.kind == "fold" and b.node == e.node]
        lived = [b for b in since(events, e.node) if b.kind == "fold"]
        for name, (current, reported_end) in positions.items():
            passed = [b.last + 1 for b in lived if b.partition == int(name)]
            most = max((b.last + 1 for b in folds if b.partition == int(name)), default=0)
            end, certain = end_of(events, int(name))
            count += JUDGED
            if current != passed[-1] if passed else current > max(most, 0):
                count += VIOLATED
            if reported_end > end and certain:
                count += VIOLATED
            if reported_end < current:
                count += VIOLATED
            before = end_reported(events, e.node, int(name))
            if before is not None and reported_end < before:
                count += VIOLATED
    return count


def end_reported(events: list[Event], node: int, partition: int) -> int | None:
    """The end that a host reported last of a partition, in its present life and since it keeps it."""
    server, before = server_of(events, node), None
    for b in since(events, node):
        if b.kind == "report":
            before = (said(b, is_positions) or {}).get(str(partition), [None, before])[1]
        elif b.kind == "assigned":
            placements = (said(b, is_assignment) or {"placements": []})["placements"]
            active, standbys = placements[partition] if 0 <= partition < len(placements) else (None, [])
            if server is None or server["host"] not in (active, *standbys):
                before = None
    return before


def kept_of(lived: list[Event], peer: int) -> tuple[int, Any] | None:
    """The lag report of a host that is kept: its time and what it says."""
    kept = None
    for at, e in enumerate(lived):
        if e.kind == "report_kept" and e.peer == peer:
            heard = [
                b
                for b in lived[:at]
                if (b.kind == "report_heard" and b.peer == peer) or (b.kind == "report" and b.node == peer)
            ]
            same = heard and heard[-1].stamp == e.stamp
            kept = e.stamp, said(heard[-1], is_positions) if same else None
    return kept


def report_times_rise(history: History) -> Count:
    """pull-queries.md#report-times-rise."""
    count = Count()
    for at, e in enumerate(history.events):
        if e.kind not in ("report_kept", "route"):
            continue
        lived = since(history.events[:at], e.node)
        if e.kind == "report_kept":
            before = kept_of(lived, e.peer)
            count += JUDGED + VIOLATED if before is not None and e.stamp < before[0] else JUDGED
            continue
        view = said(e, is_view)
        if view is None:
            count += UNJUDGED
            continue
        nodes = numbers(history.events[:at])
        kept = {host: kept_of(lived, node) for host, node in nodes.items()}
        shown = {host: (record[0], record[1]) for host, record in view["records"].items()}
        count += JUDGED + Count(violated=sum(shown.get(host) != kept.get(host) for host in nodes))
    return count


def by_assignment(events: list[Event], e: Event) -> Count:
    """pull-queries.md#routes-by-fold."""
    folded, view = [b for b in since(events, e.node) if b.kind == "assigned"], said(e, is_view)
    plain = said(folded[-1], is_assignment) if folded else None
    if plain is None or view is None:
        return Count()
    names = ("epoch", "members", "placements")
    same = all(plain[name] == view["assignment"][name] for name in names)
    return JUDGED if same else JUDGED + VIOLATED


def assignments_are_prefixes(history: History) -> Count:
    """pull-queries.md#assignments-are-prefixes."""
    count = Count()
    first: dict[int, Any] = {}
    for at, e in enumerate(history.events):
        if e.kind == "route":
            count += by_assignment(history.events[:at], e)
        if e.kind != "assigned":
            continue
        folded = [b.epoch for b in since(history.events[:at], e.node) if b.kind == "assigned"]
        plain = said(e, is_assignment)
        text = e.text if plain is None else {name: plain[name] for name in ("epoch", "members", "placements")}
        count += JUDGED if e.epoch == (folded[-1] if folded else 0) + 1 else JUDGED + VIOLATED
        if first.setdefault(e.epoch, text) != text:
            count += VIOLATED
    return count


def shown_is_kept(history: History) -> Count:
    """pull-queries.md#shown-is-kept."""
    count = Count()
    for at, e in enumerate(history.events):
        statuses = said(e, is_status) if e.kind == "shown" else None
        if e.kind == "shown" and statuses is None:
            count += UNJUDGED
        for host, (alive, _, stamp) in (statuses or {}).items():
            node = numbers(history.events[:at]).get(host, -1)
            mine = since(history.events[:at], e.node)
            kept = [b.stamp for b in mine if b.kind == "report_kept" and b.peer == node]
            expected = kept[-1] if alive and kept else None
            count += JUDGED if stamp == expected else JUDGED + VIOLATED
    return count


# -- routing -----------------------------------------------------------------------------------------------------------


class Route:
    """A query as it was routed first since it was asked, with what the view says of each host of its partitions."""

    def __init__(self, events: list[Event], op: int) -> None:
        asked = asked_from(events, op)
        routed = [at for at, e in enumerate(events) if e.kind == "route" and e.op == op and at > asked]
        before = events[: routed[0]] if routed else []
        self.event = events[routed[0]] if routed else None
        self.at = routed[0] if routed else -1
        self.node = self.event.node if self.event is not None else None
        self.server = server_of(before, self.node) if routed else None
        self.query = query_of(before, op)
        self.view = said(self.event, is_view)
        self.known = self.server is not None and self.query is not None and self.view is not None
        if self.known:
            assert self.server is not None
            own = self.query.get("bound")
            of_table = self.server["with_bound"] if self.server["mode"] == "proposal" else None
            self.bound = next(each for each in (own, of_table, self.server["maximum_lag"]) if each is not None)
            self.partitions = asked_for(self.server, self.query)

    def hosts(self, partition: int) -> list[str]:
        """The active and the standbys."""
        placements = self.view["assignment"]["placements"]
        if partition >= len(placements):
            return ["unavailable:-1"]
        return [placements[partition][0], *placements[partition][1]]

    def current(self, host: str, partition: int) -> int | None:
        """How far a host is by its record."""
        record = self.view["records"].get(host)
        pair = record[1].get(str(partition)) if record else None
        return pair[0] if pair else None

    def max_end(self, partition: int) -> int:
        """The largest end that the router knows."""
        of = self.hosts(partition) if shipped(self.server or {}) else [*self.view["records"]]
        records = [self.view["records"][host][1] for host in of if host in self.view["records"]]
        return max((record[str(partition)][1] for record in records if str(partition) in record), default=0)

    def filtered(self, host: str, partition: int) -> bool:
        """Whether the lag filter applies to a host."""
        assert self.server is not None
        return bool(self.server["lag_reports"]) and (shipped(self.server) or host != self.hosts(partition)[0])

    def within(self, lag: int) -> bool:
        """Whether a lag is acceptable."""
        return lag <= self.bound if shipped(self.server or {}) else lag < self.bound

    def lag(self, host: str, partition: int) -> int:
        """How far behind a host with a record is."""
        return max(0, self.max_end(partition) - (self.current(host, partition) or 0))

    def reasons(self, host: str, partition: int) -> list[str]:
        """Every reason against a host."""
        assert self.server is not None
        found = []
        if host != self.hosts(partition)[0] and not self.server["standby_reads"]:
            found.append("Host is not the active host for this partition.")
        alive, updated = self.view["statuses"].get(host, (shipped(self.server), -1))
        if not alive:
            found.append(f"Host is not alive as of time {updated}")
        if self.filtered(host, partition):
            if self.current(host, partition) is None:
                found.append("Lag information is not present for host.")
            elif not self.within(self.lag(host, partition)):
                lag = self.lag(host, partition)
                found.append(f"Host excluded because lag {lag} exceeds maximum allowed lag {self.bound}.")
        return found

    def ordered(self, partition: int) -> list[str]:
        """The hosts in the order in which they are tried."""
        active, *standbys = self.hosts(partition)
        if shipped(self.server or {}):
            return [active, *sorted(standbys)]
        unknown = sorted(host for host in standbys if self.current(host, partition) is None)
        known = sorted((self.lag(host, partition), host) for host in standbys if host not in unknown)
        return [active, *(host for _, host in known), *unknown]

    def candidates(self, partition: int) -> list[str]:
        """Those against which nothing is said."""
        return [host for host in self.ordered(partition) if not self.reasons(host, partition)]

    def message(self) -> str | None:
        """What a query without a valid host is told."""
        lines = []
        for p in self.partitions:
            if not self.candidates(p):
                why = [f"{h} was not selected because {','.join(self.reasons(h, p))}" for h in self.ordered(p)]
                lines.append(f"Partition {p} failed to find valid host. Hosts scanned: [{', '.join(why)}]")
        return f"Unable to execute pull query. [{', '.join(lines)}]" if lines else None


def asked_for(server: Plainly, query: Plainly) -> list[int]:
    """pull-queries.md#partitions-asked."""
    keys = query.get("keys")
    if keys is None or (shipped(server) and len(keys) > 1):
        return list(range(server["partitions"]))
    return sorted({zlib.crc32(key.encode("utf-8", "surrogatepass")) % server["partitions"] for key in keys})


NOT_READY = "Unable to execute pull query. The server is not ready."
NO_VALID_HOST = "Unable to execute pull query. ["
EXHAUSTED = "Unable to execute pull query: Exhausted standby hosts to try."


def contacts(history: History) -> Iterable[tuple[Route, int, str]]:
    """Every host that is asked for a partition, by a forwarded query or by the router of itself."""
    for at, e in enumerate(history.events):
        if e.kind not in ("forward", "finish"):
            continue
        route = Route(history.events[:at], e.op)
        if not route.known or e.node != route.node or (e.kind == "finish" and is_over(history.events[:at], e, route)):
            continue
        if e.kind == "forward":
            asked = said(e, is_asked)
            for partition in asked["partitions"] if asked else ():
                yield route, partition, name_of(history.events[:at], e.peer)
            continue
        finished = said(e, is_finished)
        for partition, host, _ in finished["attempts"] if finished else ():
            if host == (route.server or {})["host"]:
                yield route, partition, host


def is_over(events: list[Event], e: Event, route: Route) -> bool:
    """Whether its router had ended the query before."""
    ends = [b for b in events[route.at :] if (b.kind, b.op, b.node) == ("finish", e.op, route.node)]
    return any(said(b, is_finished) is not None for b in ends)


def forwarded_to(events: list[Event], op: int | None, route: Route) -> list[tuple[str, int]]:
    """Which hosts the router asked for which partitions, since it routed the query."""
    found: list[tuple[str, int]] = []
    for at, b in enumerate(events):
        if b.kind == "forward" and b.op == op and b.node == route.node and at > route.at:
            asked = said(b, is_asked)
            found += [(name_of(events[:at], b.peer), p) for p in (asked["partitions"] if asked else ())]
    return found


def of_partition(route: Route, partition: int, host: str) -> bool:
    """Whether a host was scanned for a partition that is asked for."""
    return partition in route.partitions and host in route.hosts(partition)


def no_record_not_selected(history: History) -> Count:
    """pull-queries.md#no-record-not-selected."""
    count = Count()
    for route, partition, host in contacts(history):
        if of_partition(route, partition, host) and route.filtered(host, partition):
            count += JUDGED if route.current(host, partition) is not None else JUDGED + VIOLATED
    return count


def selected_within_bound(history: History) -> Count:
    """pull-queries.md#selected-within-bound."""
    count = Count()
    for route, partition, host in contacts(history):
        applies = of_partition(route, partition, host) and route.filtered(host, partition)
        if applies and route.current(host, partition) is not None:
            count += JUDGED if route.within(route.lag(host, partition)) else JUDGED + VIOLATED
    return count


def staleness_bounded(history: History) -> Count:
    """pull-queries.md#staleness-bounded, without the true end, which is on both sides."""
    count = Count()
    for at, e in enumerate(history.events):
        if e.kind != "rows":
            continue
        route, host = Route(history.events[:at], e.op), name_of(history.events[:at], e.peer)
        if not route.known:
            count += UNJUDGED
        elif of_partition(route, e.partition, host) and route.filtered(host, e.partition):
            current = route.current(host, e.partition)
            if current is not None:
                lost = max(0, current - e.offset)
                stale = max(0, route.max_end(e.partition) - e.offset - lost)
                count += JUDGED if route.within(stale) else JUDGED + VIOLATED
    return count


def candidates_follow_view(history: History) -> Count:
    """pull-queries.md#candidates-follow-view."""
    count = Count()
    for at, e in enumerate(history.events):
        if e.kind in ("forward", "forwarded", "finish"):
            route = Route(history.events[:at], e.op)
            if route.at < 0 and e.kind != "forwarded" and is_open(history.events[:at], e.op):
                lacks = not any(b.kind == "route" for b in history.events)
                count += Count(1, 0, 0, 1, 1) if lacks else JUDGED + VIOLATED
            else:
                count += UNJUDGED if not route.known else one_step(history.events[:at], e, route)
        elif e.kind == "route":
            count += JUDGED + VIOLATED if Route(history.events[:at], e.op).known else Count()
        elif e.kind == "answer":
            place = e.op, e.node, e.partition
            asked = history.events[asked_from(history.events[:at], e.op) : at]
            again = any(b.kind == "answer" and (b.op, b.node, b.partition) == place for b in asked)
            count += JUDGED + VIOLATED if again else Count()
    for route, partition, host in contacts(history):
        if not of_partition(route, partition, host) or route.reasons(host, partition):
            count += VIOLATED
    return count


def is_open(events: list[Event], op: int | None) -> bool:
    """Whether a client asked, and was not told yet that it has got everything."""
    own = [e.kind for e in events[asked_from(events, op) :] if e.op == op and e.kind in ("invoke", "ok")]
    return own[-1:] == ["invoke"]


def one_step(events: list[Event], e: Event, route: Route) -> Count:
    """A forwarded query, or how a query ended."""
    if e.kind == "finish":
        finished = said(e, is_finished)
        if finished is None or e.node != route.node:
            return UNJUDGED
        return JUDGED + VIOLATED if is_over(events, e, route) else ended(events, e, route, finished)
    asked = said(e, is_asked)
    if asked is None:
        return UNJUDGED
    strange = asked["bound"] != route.query.get("bound")
    hop = e.kind == "forward" and e.node != route.node
    before = forwarded_to(events, e.op, route) if e.kind == "forward" and not hop else []
    again = sum((name_of(events, e.peer), partition) in before for partition in asked["partitions"])
    return JUDGED + Count(violated=strange + hop + again)


def ended(events: list[Event], e: Event, route: Route, finished: Plainly) -> Count:
    """Whether the attempts are those of the rounds, and the end is that of the attempts."""
    attempts = [(p, host, failure) for p, host, failure in finished["attempts"]]
    if finished["message"] == NOT_READY and not attempts:
        return Count()
    no_host = route.message() is not None or (finished["message"] or "").startswith(NO_VALID_HOST)
    if no_host and not attempts:
        return JUDGED
    count = JUDGED
    own = (route.server or {})["host"]
    if {*forwarded_to(events, e.op, route)} != {
        (host, p) for p, host, _ in attempts if host not in (own, "unavailable:-1")
    }:
        count += VIOLATED
    nodes = numbers(events)
    since_asked = events[asked_from(events, e.op) :]
    for p, host, failure in attempts:
        is_said = failure in ("gave up", "client error", "no header") and host != own
        answered = [b for b in since_asked if b.kind == "answer" and b.op == e.op and b.partition == p]
        if is_said and any(b.node == nodes.get(host, -1) for b in answered):
            count += VIOLATED
    return count + rounds(events, route, e.op, attempts, finished["message"])


def rounds(
    events: list[Event], route: Route, op: int | None, attempts: list[tuple[int, str, str | None]], message: str | None
) -> Count:
    """pull-queries.md#rounds."""
    every: list[list[tuple[int, str, str | None]]] = []
    candidates = {p: route.candidates(p) for p in route.partitions}
    remaining, left = set(route.partitions), attempts
    final = False
    while remaining and not final and all(candidates[p] for p in remaining):
        made, left = left[: len(remaining)], left[len(remaining) :]
        if {(p, host) for p, host, _ in made} != {(p, candidates[p][0]) for p in remaining}:
            return VIOLATED
        every.append(made)
        candidates = {p: rest[1:] for p, rest in candidates.items()}
        remaining = {p for p, _, failure in made if failure is not None}
        final = shipped(route.server or {}) and any(f in ("client error", "no header") for _, _, f in made)
    count = VIOLATED if left else Count()
    for i, made in enumerate(every):
        later = [(p, host) for others in every[i + 1 :] for p, host, _ in others]
        for p, host, failure in made:
            own = [
                b.seq
                for b in events[asked_from(events, op) :]
                if b.kind == "answer" and (b.op, b.partition) == (op, p) and b.node == numbers(events).get(host, -1)
            ]
            if failure is None and own and any(own[0] > seq for seq in asked_at(events, route, op, later)):
                count += VIOLATED
    if not remaining:
        return count if message is None else count + VIOLATED
    fits = message is not None if final else message == EXHAUSTED
    return count if fits else count + VIOLATED


def asked_at(events: list[Event], route: Route, op: int | None, places: list[tuple[int, str]]) -> list[int]:
    """When the router asked these hosts for these partitions."""
    found = []
    for at, b in enumerate(events):
        if b.kind == "forward" and b.op == op and b.node == route.node and at > route.at:
            asked = said(b, is_asked)
            if any((p, name_of(events[:at], b.peer)) in places for p in (asked["partitions"] if asked else ())):
                found.append(b.seq)
    return found


def partitions_once(history: History) -> Count:
    """pull-queries.md#partitions-once."""
    count = Count()
    for at, e in enumerate(history.events):
        if e.kind not in ("ok", "fail", "info"):
            continue
        events = history.events[:at]
        route = Route(events, e.op)
        closed = [i for i, b in enumerate(events) if b.kind in ("ok", "fail", "info") and b.op == e.op]
        fresh = events[max([route.at, *closed]) + 1 :]  # what comes before it is routed is of no query
        got = [b.partition for b in fresh if b.kind == "rows" and b.op == e.op]
        if route.known:
            lacking = [p for p in route.partitions if e.kind == "ok" and p not in got]
            twice = [p for p in {*got} if got.count(p) > 1]
            other = [p for p in {*got} if p not in route.partitions]
            count += JUDGED + Count(violated=len(lacking) + len(twice) + len(other))
    return count


def no_valid_host_says_why(history: History) -> Count:
    """pull-queries.md#no-valid-host-says-why."""
    count = Count()
    for at, e in enumerate(history.events):
        route = Route(history.events[:at], e.op) if e.kind == "finish" else None
        finished = said(e, is_finished)
        if route is None or not route.known or finished is None or e.node != route.node:
            continue
        if is_over(history.events[:at], e, route):
            continue
        message, expected = finished["message"], route.message()
        if message == NOT_READY and not finished["attempts"]:
            continue
        if expected is not None or (message or "").startswith(NO_VALID_HOST):
            count += JUDGED if message == expected else JUDGED + VIOLATED
    return count


# -- messages ----------------------------------------------------------------------------------------------------------

LATE = 60_000
"""Milliseconds before a sender's newest stamp from which on nothing is judged."""


def same(one: Event, other: Event, form: Callable[[Any], bool]) -> bool:
    """Whether two texts say the same."""
    mine, theirs = said(one, form), said(other, form)
    if form is is_asked and mine is not None and theirs is not None:
        return bool((mine["partitions"], mine["bound"]) == (theirs["partitions"], theirs["bound"]))
    if form is is_positions and mine is not None and theirs is not None:
        mine, theirs = ({int(p): pair for p, pair in each.items()} for each in (mine, theirs))
    return one.text == other.text or (mine is not None and mine == theirs)


def heard_was_said(history: History) -> Count:
    """pull-queries.md#heard-was-said."""
    count = Count()
    for at, e in enumerate(history.events):
        if e.kind in ("heard", "report_heard", "forwarded", "answer", "give_up", "finish", "rows", "ok", "fail"):
            count += arrived(history, since_begun(history.events[:at], e.op), e)
    return count


OF_SERVERS = ("heartbeat", "heard", "report", "report_heard", "route", "forward", "forwarded", "answer", "give_up")


def unsaid(history: History, node: int | None, e: Event) -> Count:
    """A node did not say before an event what it should have said, unless it was cut off: before, or as it did next."""
    own = [b for b in history.events if b.node == node and b.kind in ("serve", "finish", *OF_SERVERS, *GONE)]
    turns = [b for b in own if b.kind in ("serve", *GONE)]
    cuts = {b.seq for b in turns if b.kind not in ("serve", "stop")}
    cuts |= {b.seq for a, b in pairwise(turns) if a.kind == b.kind == "serve"}
    following = next((b.seq for b in own if b.seq > e.seq), None)
    of_query = (b.seq for b in history.events if b.op == e.op and b.kind in BEGIN and b.seq <= e.seq)
    since = -1 if e.op is None else next(of_query, -1)  # nothing is said of a query before it begins
    if e.kind in ("heard", "report_heard") and not is_set(history, node, e):
        said_then = [b for b in own if b.kind in ("serve", "heartbeat", "report")]
        after = {cut: [b.stamp for b in said_then if b.kind == "serve" and cut <= b.seq < e.seq] for cut in cuts}
        before = {cut: [b.stamp for b in said_then if b.seq < cut] for cut in (*cuts, e.seq)}
        cuts = {
            cut
            for cut in cuts
            if before[min(cut, e.seq)][-1:] <= [e.stamp] and (not after[cut] or e.stamp <= after[cut][0])
        }
    lost = any(since < cut < e.seq for cut in cuts) or following in cuts
    return UNJUDGED if lost else JUDGED + VIOLATED


def is_set(history: History, node: int | None, e: Event) -> bool:
    """Whether a fault has set the clock of a node, or nobody knows whose."""
    events = (b for b in history.events[: e.seq] if b.kind in ("fault", "heal") and b.f == "clock")
    return any(b.node in (None, node) for b in events)


def since_begun(events: list[Event], op: int | None) -> list[Event]:
    """Without what was said of a query before anybody began it: that is not of this one."""
    first = next((b.seq for b in events if b.op == op and b.kind in BEGIN), None)
    return [b for b in events if op is None or b.op != op or (first is not None and first <= b.seq)]


def arrived(history: History, events: list[Event], e: Event) -> Count:
    """One thing that arrives."""
    served = {b.node for b in events if b.kind == "serve"}
    routed = [b.node for b in events if b.kind == "route" and b.op == e.op]
    wrong: bool | None = None
    by: int | None = e.peer
    if e.kind in ("heard", "report_heard") and e.peer in served:
        kind = "heartbeat" if e.kind == "heard" else "report"
        made = [b for b in events if b.kind == kind and b.node == e.peer and (kind == "report" or b.peer == e.node)]
        if made and e.stamp < max(b.stamp for b in made) - LATE:
            return UNJUDGED
        made = [b for b in made if b.stamp == e.stamp]
        wrong = not (made if kind == "heartbeat" else [b for b in made if same(b, e, is_positions)])
    elif e.kind in ("forwarded", "rows") and not begun(events, e.op):
        return UNJUDGED
    elif e.kind == "forwarded" and e.peer in served:
        asked = [b for b in events if b.kind == "forward" and (b.op, b.node, b.peer) == (e.op, e.peer, e.node)]
        wrong = not any(same(b, e, is_asked) for b in asked)
    elif e.kind in ("answer", "give_up") and e.node in served and routed and routed[0] != e.node:
        asked = [b for b in events if b.kind == "forwarded" and (b.op, b.node) == (e.op, e.node)]
        wrong = not any(e.partition in (said(b, is_asked) or {"partitions": []})["partitions"] for b in asked)
    elif e.kind == "rows" and e.peer in served:
        place = (e.op, e.peer, e.partition, e.offset)
        made = [b for b in events if b.kind == "answer" and (b.op, b.node, b.partition, b.offset) == place]
        wrong = not any(same(b, e, is_rows) for b in made)
    elif e.kind == "finish" and routed and routed[0] == e.node:
        return by_answers(history, events, e, served)
    elif e.kind in ("ok", "fail") and routed and routed[0] in served:
        ends = [
            said(b, is_finished)
            for i, b in enumerate(events)
            if b.kind == "finish" and b.op == e.op and b.node == routed[0]
            if any(a.kind == "route" and a.op == e.op for a in events[:i])
        ]
        by = routed[0]
        wrong = (e.kind == "ok") not in [end["message"] is None for end in ends if end is not None]
    if wrong and e.kind not in ("answer", "give_up"):
        return unsaid(history, by, e)
    return Count() if wrong is None else JUDGED + VIOLATED if wrong else JUDGED


def by_answers(history: History, events: list[Event], e: Event, served: set[int | None]) -> Count:
    """Whether what was attempted with success was answered."""
    count, finished, nodes = Count(), said(e, is_finished), numbers(events)
    for partition, host, failure in finished["attempts"] if finished else ():
        node = nodes.get(host)
        if failure is None and node in served:
            place = (e.op, node, partition)
            answered = any(b.kind == "answer" and (b.op, b.node, b.partition) == place for b in events)
            count += JUDGED if answered else unsaid(history, node, e)
    return count


# -- who keeps what ----------------------------------------------------------------------------------------------------


def active_stays(history: History) -> Count:
    """pull-queries.md#active-stays."""
    count = Count()
    first: dict[int, Plainly] = {0: {"members": [], "placements": []}}
    for at, e in enumerate(history.events):
        server, now = server_of(history.events[: at + 1], e.node), said(e, is_assignment)
        if e.kind != "assigned" or server is None or now is None or e.epoch in first:
            continue
        first[e.epoch] = now
        nodes = {b.node for b in history.events[:at] if b.kind == "serve"}
        served = [each for each in (server_of(history.events[:at], node) for node in nodes) if each is not None]
        if e.epoch - 1 not in first or len({(each["partitions"], each["standbys"]) for each in served}) > 1:
            count += UNJUDGED
        else:
            count += JUDGED + Count(violated=len(follows(first[e.epoch - 1], now, server)))
    return count


def follows(last: Plainly, now: Plainly, server: Plainly) -> list[int]:
    """The partitions that an assignment places wrongly; -1 if its members are wrong."""
    old, new = {*last["members"]}, {*now["members"]}
    if not ((len(new - old) == 1 and old <= new) or new < old):
        return [-1]
    stay = {}
    for p in range(server["partitions"]):
        active, rest = last["placements"][p] if p < len(last["placements"]) else (None, [])
        stay[p] = (active, [host for host in dict.fromkeys([active, *rest]) if host in new])
    load = {host: [host in replicas for _, replicas in stay.values()].count(True) for host in new}
    wrong = []
    for p, (was, replicas) in stay.items():
        hosts = [*replicas]
        for _ in range(server["standbys"] + 1):
            free = sorted((load[host], host) for host in new if host not in hosts)
            if free and len(hosts) <= server["standbys"]:
                hosts.append(free[0][1])
                load[free[0][1]] += 1
        active, rest = now["placements"][p] if p < len(now["placements"]) else ("nobody", [])
        may = [was] if was in replicas else (replicas or hosts[:1])
        if (may and active not in may) or (hosts and sorted([active, *rest]) != sorted(hosts)):
            wrong.append(p)
    return wrong


def folds_in_order(history: History) -> Count:
    """pull-queries.md#folds-in-order."""
    count = Count()
    for at, e in enumerate(history.events):
        events = history.events[:at]
        if e.kind != "fold" or not any(b.kind == "serve" and b.node == e.node for b in events):
            continue
        count += JUDGED
        began = max(i for i, b in enumerate(events) if b.kind == "serve" and b.node == e.node)
        folds = [
            (i, b.last + 1)
            for i, b in enumerate(events)
            if b.kind == "fold" and (b.node, b.partition) == (e.node, e.partition)
            if any(s.kind == "serve" and s.node == e.node for s in events[:i])
        ]
        own = [passed for i, passed in folds if i > began]
        if e.offset != own[-1] if own else e.offset > max([passed for _, passed in folds], default=0):
            count += VIOLATED
        shown = [b.offset for b in events if b.kind == "changelog" and b.partition == e.partition]
        if shown == [*range(len(shown))] and e.last >= len(shown):
            count += VIOLATED
    return count


def targets_may_answer(history: History) -> Count:
    """pull-queries.md#targets-may-answer."""
    count = Count()
    for at, e in enumerate(history.events):
        events = history.events[:at]
        if e.kind not in ("answer", "give_up") or not any(b.kind == "serve" and b.node == e.node for b in events):
            continue
        reason = against(events, e)
        if reason == "unknown":
            count += UNJUDGED
        elif e.kind == "answer":
            count += JUDGED if reason is None else JUDGED + VIOLATED
        else:
            count += JUDGED if reason is not None and reason == e.text else JUDGED + VIOLATED
    return count


def against(events: list[Event], e: Event) -> str | None:
    """Why a server should give a partition up; "unknown" where that cannot be told."""
    server, lived, query = server_of(events, e.node), since(events, e.node), query_of(events, e.op)
    folded = [b for b in lived if b.kind == "assigned"]
    now = said(folded[-1], is_assignment) if folded else None
    if server is None or query is None or now is None:
        return "unknown"
    host, p = server["host"], e.partition
    active, rest = now["placements"][p] if 0 <= p < len(now["placements"]) else (None, [])
    if host not in (active, *rest):
        return "Host does not hold this partition."
    not_active = "Host is not the active host for this partition."
    if not server["standby_reads"]:
        if active != host:
            return not_active
        passed = [b.last + 1 for b in lived if b.kind == "fold" and b.partition == p]
        position = e.offset if e.kind == "answer" else passed[-1] if passed else None
        log = [b for b in events if b.kind == "changelog" and b.partition == p]
        if position is None or [b.offset for b in log] != [*range(len(log))]:
            return "unknown"
        since_epoch = None
        for b in folded:
            view = said(b, is_assignment)
            if view is None:
                continue
            mine = p < len(view["placements"]) and view["placements"][p][0] == host
            since_epoch = (b.epoch if since_epoch is None else since_epoch) if mine else None
        if max([0, *(b.epoch for b in log[:position] if b.epoch is not None)]) != since_epoch:
            return not_active
    if not shipped(server) or not server["lag_reports"]:
        return None
    kept = kept_of(lived, e.node)
    if kept is not None and kept[1] is None:
        return "unknown"
    pair = None if kept is None else {int(q): at for q, at in kept[1].items()}.get(p)
    if pair is None:
        return "Lag information is not present for host."
    lag = max(0, pair[1] - pair[0])
    bound = next(b for b in (query.get("bound"), server["maximum_lag"]) if b is not None)
    return None if lag <= bound else f"Host excluded because lag {lag} exceeds maximum allowed lag {bound}."


BEGIN = ("invoke", "route", "forward")


def begun(events: list[Event], op: int) -> bool:
    """Whether anybody has asked a query, routed or forwarded it."""
    return any(b.kind in BEGIN and b.op == op for b in events)


def apart(plain: Plain) -> Plain:
    """The twin that knows nothing of a query that is over (pull-queries.md#judged-until-over): what comes then is of
    another one."""

    def judged(history: History) -> Count:
        turn: Counter[int] = Counter()
        closed: dict[int, int] = {}
        events = []
        for e in history.events:
            op = e.op
            if op is not None and e.time - closed.get(op, e.time) > LATE * 1_000_000:
                turn[op] += 1
                del closed[op]
            events.append(e if op is None else Event({**e, "op": (op, turn[op])}.items()))
            if e.kind == "ok" and op is not None:
                turn[op] += 1
                closed.pop(op, None)
            elif e.kind in ("fail", "info") and op is not None:
                closed.setdefault(op, e.time)
        return plain(replace(history, events=events))

    return judged


OF_QUERIES: dict[str, Plain] = {
    "heard-was-said": heard_was_said,
    "targets-may-answer": targets_may_answer,
    "rows-are-the-table": rows_are_the_table,
    "selected-within-bound": selected_within_bound,
    "no-record-not-selected": no_record_not_selected,
    "staleness-bounded": staleness_bounded,
    "candidates-follow-view": candidates_follow_view,
    "partitions-once": partitions_once,
    "no-valid-host-says-why": no_valid_host_says_why,
}


def answers_where_it_is(history: History) -> Count:
    """pull-queries.md#answers-where-it-is."""
    count = Count()
    for at, e in enumerate(history.events):
        lived = since(history.events[:at], e.node) if e.kind == "answer" else []
        folds = [b for b in lived if b.kind == "fold" and b.partition == e.partition]
        if folds and lived[0].kind == "serve":
            count += JUDGED if e.offset == folds[-1].last + 1 else JUDGED + VIOLATED
    return count


def reports_what_it_keeps(history: History) -> Count:
    """pull-queries.md#reports-what-it-keeps."""
    count = Count()
    for at, e in enumerate(history.events):
        lived = since(history.events[:at], e.node) if e.kind == "report" else []
        folded = [b for b in lived if b.kind == "assigned"]
        if not folded or lived[0].kind != "serve":
            continue
        served, now = said(lived[0], is_configuration), said(folded[-1], is_assignment)
        positions = said(e, is_positions)
        if served is not None and now is not None and positions is not None:
            kept = {p for p, (active, rest) in enumerate(now["placements"]) if served["host"] in (active, *rest)}
            count += JUDGED if kept == {int(p) for p in positions} else JUDGED + VIOLATED
    return count


def serves_count_up(history: History) -> Count:
    """pull-queries.md#serves-count-up."""
    count = Count()
    for at, e in enumerate(history.events):
        events = history.events[:at] if e.kind == "serve" else []
        before = [b for b in events if b.kind == "serve" and b.node == e.node]
        wiped = [b.seq for b in events if b.kind == "fault" and b.f == "wipe" and b.node == e.node]
        if before and not any(seq > before[-1].seq for seq in wiped):
            count += JUDGED if e.incarnation > before[-1].incarnation else JUDGED + VIOLATED
    return count


TWINS: dict[str, Plain] = {
    "answers-where-it-is": answers_where_it_is,
    "reports-what-it-keeps": reports_what_it_keeps,
    "serves-count-up": serves_count_up,
    "status-replays": status_replays,
    "no-false-down": no_false_down,
    "silence-is-down": silence_is_down,
    "heartbeats-to-all": heartbeats_to_all,
    "checks-decide-all": checks_decide_all,
    "reports-to-all": reports_to_all,
    "reports-go-on": reports_go_on,
    "active-stays": active_stays,
    "folds-in-order": folds_in_order,
    "takeover-comes-first": takeover_comes_first,
    "changelog-in-order": changelog_in_order,
    "reports-are-true": reports_are_true,
    "report-times-rise": report_times_rise,
    "assignments-are-prefixes": assignments_are_prefixes,
    "shown-is-kept": shown_is_kept,
    **{check: apart(plain) for check, plain in OF_QUERIES.items()},
}
