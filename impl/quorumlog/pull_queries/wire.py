"""What servers of pull queries say over HTTP: paths, bodies, status codes, and the lines of an answer as they come.

Bytes in, events out, and back; no socket. What was received is not trusted: another form is refused with the field that
is wrong, and fields that nobody knows are passed over. Source: pull-queries.md#http, pull-queries.md#endpoints.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from reprlib import repr as short
from typing import Annotated, Any

import msgspec

from quorumlog.pull_queries.assignment import Assignment
from quorumlog.pull_queries.configuration import Configuration
from quorumlog.pull_queries.events import Answer, Finish, HeartbeatReceived, Query, ReportReceived
from quorumlog.pull_queries.lag import LagReport, Position, Store
from quorumlog.pull_queries.rules import Failure
from quorumlog.pull_queries.status import Status
from quorumlog.pull_queries.table import Filter, Value

Host = Annotated[str, msgspec.Meta(pattern=r"^[^\s:,]{1,255}:\d{1,5}$")]
Count = Annotated[int, msgspec.Meta(ge=0, le=2**63 - 1)]
Key = Annotated[str, msgspec.Meta(max_length=4096)]

OK = b'{"isOk":true}'
HEADER = b'{"header":{"columns":["k","v"]}}'
COMPLETED = b'{"finalMessage":"Query Completed"}'
BOUND = "acceptable.offset.lag"


class BadRequestError(ValueError):
    """A body that cannot be understood; ``str()`` is one line that names the field. The status is 400."""


class _Heartbeat(msgspec.Struct, rename="camel"):
    host_info: Host
    timestamp: Count


class _Lag(msgspec.Struct, rename="camel"):
    current_offset_position: Count
    end_offset_position: Count
    offset_lag: Count = 0


class _Lags(msgspec.Struct, rename="camel"):
    lag_by_partition: dict[Count, _Lag]


class _StoreLags(msgspec.Struct, rename="camel"):
    state_store_lags: dict[str, _Lags]
    update_time_ms: Count


class _Report(msgspec.Struct, rename="camel"):
    ksql_host: Host
    host_store_lags: _StoreLags


class _Query(msgspec.Struct, omit_defaults=True):
    table: str
    keys: Annotated[tuple[Key, ...], msgspec.Meta(min_length=1, max_length=10_000)] | None = None
    filter: Filter | None = None
    properties: dict[str, Any] = {}
    partitions: tuple[Count, ...] | None = None


class _Rows(msgspec.Struct):
    partition: Count
    host: Host
    position: Count
    rows: tuple[tuple[str, Value], ...]


class Asked(msgspec.Struct, frozen=True):
    """The body of a query: which table, what of it, and for a forwarded one which partitions."""

    table: str
    query: Query
    partitions: tuple[int, ...] | None = None


def report_path(configuration: Configuration) -> str:
    """Where lag reports are taken (pull-queries.md#endpoints)."""
    return "/lag" if configuration.shipped else "/reportlag"


def _decoded(body: bytes, form: type[Any]) -> Any:  # noqa: ANN401
    try:
        return msgspec.json.decode(body, type=form)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as error:
        raise BadRequestError(" ".join(str(error).split())) from None


# -- heartbeats and reports ----------------------------------------------------------------------------------------


def encode_heartbeat(host: str, stamp: int) -> bytes:
    """The body of POST /heartbeat; ``stamp``: the sender's wall clock in milliseconds (pull-queries.md#stamps)."""
    return msgspec.json.encode(_Heartbeat(host, stamp))


def decode_heartbeat(body: bytes) -> HeartbeatReceived:
    """Read the body of POST /heartbeat. Raises BadRequestError."""
    said = _decoded(body, _Heartbeat)
    return HeartbeatReceived(said.host_info, said.timestamp)


def encode_report(report: LagReport) -> bytes:
    """The body of a lag report."""
    return msgspec.json.encode(_Report(report.host, _store_lags(report)))


def decode_report(body: bytes) -> ReportReceived:
    """Read the body of a lag report; the lag that it states is not read. Raises BadRequestError."""
    said = _decoded(body, _Report)
    positions = {}
    for name, lags in said.host_store_lags.state_store_lags.items():
        query, hash_, store = name.partition("#")
        if not hash_:
            raise BadRequestError(f"the store {short(name)} is not of the form QUERY#STORE - at `$.hostStoreLags`")
        for partition, lag in lags.lag_by_partition.items():
            position = Position(lag.current_offset_position, lag.end_offset_position)
            positions[Store(query, store), partition] = position
    return ReportReceived(LagReport(said.ksql_host, said.host_store_lags.update_time_ms, positions))


def _store_lags(report: LagReport) -> _StoreLags:
    by_store: dict[str, _Lags] = {}
    for (store, partition), (current, end) in report.positions.items():
        lags = by_store.setdefault(str(store), _Lags({}))
        lags.lag_by_partition[partition] = _Lag(current, end, max(0, end - current))
    return _StoreLags(by_store, report.time)


def cluster_status(
    statuses: Mapping[str, Status], shown: Mapping[str, LagReport], assignment: Assignment, store: Store
) -> bytes:
    """The body of GET /clusterStatus; ``shown``: the lag records of the hosts that are alive."""
    hosts = {}
    for host, status in statuses.items():
        active = [p for p, placement in enumerate(assignment.placements) if placement.active == host]
        standby = [p for p, placement in enumerate(assignment.placements) if host in placement.standbys]
        hosts[host] = {
            "hostAlive": status.alive,
            "lastStatusUpdateMs": status.updated,
            "activeStandbyPerQuery": {
                store.query: {
                    "activeStores": [store.name] if active else [],
                    "activePartitions": active,
                    "standByStores": [store.name] if standby else [],
                    "standByPartitions": standby,
                }
            },
            "hostStoreLags": _store_lags(shown[host]) if host in shown else {"stateStoreLags": {}, "updateTimeMs": 0},
        }
    return msgspec.json.encode({"clusterStatus": hosts})


# -- queries -------------------------------------------------------------------------------------------------------


def encode_query(asked: Asked) -> bytes:
    """The body of POST /query; a forwarded one carries the query's own bound (pull-queries.md#rounds)."""
    query = asked.query
    properties = {} if query.bound is None else {BOUND: query.bound}
    return msgspec.json.encode(_Query(asked.table, query.keys, query.filter, properties, asked.partitions))


def decode_query(body: bytes, *, forwarded: bool) -> Asked:
    """Read the body of POST /query; ``forwarded``: it came from a server, and must name partitions.

    Raises BadRequestError, for a client's that names partitions too.
    """
    said = _decoded(body, _Query)
    if forwarded != (said.partitions is not None):
        wrong = "is missing in a forwarded query" if forwarded else "is for servers only"
        raise BadRequestError(f"partitions {wrong} - at `$.partitions`")
    if len(set(said.partitions or ())) < len(said.partitions or ()):
        raise BadRequestError("a partition is named twice - at `$.partitions`")
    if said.keys is not None and said.filter is not None:
        raise BadRequestError("a query has keys or a filter, not both - at `$.filter`")
    bound = said.properties.get(BOUND)
    if bound is not None and (not isinstance(bound, int) or isinstance(bound, bool) or not 0 <= bound < 2**63):
        raise BadRequestError(
            f"{BOUND} is {short(bound)}; it must be a whole number from 0 to {2**63 - 1} - at `$.properties`"
        )
    return Asked(said.table, Query(said.keys, said.filter, bound), said.partitions)


def encode_answer(answer: Answer) -> bytes:
    """The line of one partition in the body of an answer, without the end of the line."""
    return msgspec.json.encode(_Rows(answer.partition, answer.host, answer.position, answer.rows))


def error_body(status: int, message: str, attempts: Sequence[tuple[int, str, Failure | None]] = ()) -> bytes:
    """What says that a request failed, and of a query that was tried, with whom."""
    body: dict[str, Any] = {"@type": "generic_error", "error_code": 100 * status, "message": message}
    if attempts:
        body["attempts"] = [(each[0], each[1], each[2].value if each[2] else "answered") for each in attempts]
    return msgspec.json.encode(body)


def error_line(finish: Finish) -> bytes:
    """The last line of a query that failed after its header."""
    body = msgspec.Raw(error_body(503, finish.message or "", finish.attempts))
    return msgspec.json.encode({"errorMessage": body})


class AnswerReader:
    """Reads the response to a forwarded query, line by line; ``answers`` are the partitions that came completely."""

    def __init__(self, status: int) -> None:
        self.status, self.answers = status, list[Answer]()
        self._header = self._completed = self._error = False

    def line(self, text: bytes) -> None:
        """Take the next line; one of another form breaks the stream, and what follows is not read."""
        if self.status != 200 or self._completed or self._error:
            return
        try:
            said = msgspec.json.decode(text)
            if not isinstance(said, dict):
                self._error = True
            elif "header" in said:
                self._header = True
            elif "finalMessage" in said:
                self._completed = True
            elif "errorMessage" in said:
                self._error = True
            elif self._header:
                rows = msgspec.convert(said, _Rows)
                self.answers.append(Answer(rows.partition, rows.host, rows.position, rows.rows))
        except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
            self._error = True

    def ended(self) -> Failure | None:
        """What failed for the partitions that did not come, when the stream has ended; None: nothing did.

        Source: pull-queries.md#falls-through.
        """
        if self.status >= 500:
            return Failure.SERVER_ERROR
        if self.status != 200:
            return Failure.CLIENT_ERROR
        if not self._header:
            return Failure.NO_HEADER
        if self._error:
            return Failure.ERROR_LINE
        return None if self._completed else Failure.BROKEN_STREAM
