"""The bodies of pull-queries.md#http as the page writes them, and what other bytes are answered."""

from __future__ import annotations

import json
from contextlib import suppress
from functools import partial
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from quorumlog.pull_queries import wire
from quorumlog.pull_queries.assignment import Assignment, Placement
from quorumlog.pull_queries.configuration import Configuration
from quorumlog.pull_queries.events import Answer, Finish, HeartbeatReceived, Query
from quorumlog.pull_queries.execution import EXHAUSTED, Attempt
from quorumlog.pull_queries.lag import LagReport, Position, Store
from quorumlog.pull_queries.rules import Failure
from quorumlog.pull_queries.status import Status
from quorumlog.pull_queries.table import Filter

REPORT = LagReport("h:8088", 1, {(Store("Q", "store"), 0): Position(0, 0)})
REPORT_BODY = (
    b'{"ksqlHost":"h:8088","hostStoreLags":{"stateStoreLags":{"Q#store":{"lagByPartition":{"0":'
    b'{"currentOffsetPosition":0,"endOffsetPosition":0,"offsetLag":0}}}},"updateTimeMs":1}}'
)


def test_a_heartbeat_and_a_report_are_as_the_page_has_them() -> None:
    assert wire.encode_heartbeat("h:8088", 1) == b'{"hostInfo":"h:8088","timestamp":1}'
    assert wire.decode_heartbeat(b'{"hostInfo":"h:8088","timestamp":1,"more":[]}') == HeartbeatReceived("h:8088", 1)
    assert wire.encode_report(REPORT) == REPORT_BODY
    assert wire.decode_report(REPORT_BODY).report == REPORT
    paths = [wire.report_path(Configuration(mode=mode)) for mode in ("proposal", "shipped")]  # type: ignore[arg-type]
    assert paths == ["/reportlag", "/lag"]


def test_the_lag_of_a_report_is_written_and_not_believed() -> None:
    body = wire.encode_report(LagReport("h:1", 5, {(Store("Q", "a#b"), 3): Position(4, 9)}))
    assert b'"Q#a#b"' in body
    assert b'"offsetLag":5' in body
    assert b'"offsetLag":0' in wire.encode_report(LagReport("h:1", 5, {(Store("Q", "s"), 3): Position(9, 4)}))
    again = wire.decode_report(body.replace(b'"offsetLag":5', b'"offsetLag":0')).report
    assert again.positions == {(Store("Q", "a#b"), 3): Position(4, 9)}


def test_the_cluster_status_shows_who_keeps_what() -> None:
    statuses = {"h:1": Status(True, 5), "i:1": Status(False, 3)}
    assignment = Assignment(1, ("h:1", "i:1"), (Placement("h:1", ("i:1",)), Placement("i:1", ())))
    report = LagReport("h:1", 1, REPORT.positions)
    said = json.loads(wire.cluster_status(statuses, {"h:1": report}, assignment, Store("Q", "store")))["clusterStatus"]
    assert said["h:1"]["hostStoreLags"] == json.loads(REPORT_BODY)["hostStoreLags"]
    assert said["i:1"] == {
        "hostAlive": False,
        "lastStatusUpdateMs": 3,
        "activeStandbyPerQuery": {
            "Q": {
                "activeStores": ["store"],
                "activePartitions": [1],
                "standByStores": ["store"],
                "standByPartitions": [0],
            }
        },
        "hostStoreLags": {"stateStoreLags": {}, "updateTimeMs": 0},
    }


@pytest.mark.parametrize(
    ("body", "forwarded", "asked"),
    [
        (
            b'{"table":"T","keys":["k"],"properties":{"acceptable.offset.lag":10}}',
            False,
            wire.Asked("T", Query(("k",), None, 10)),
        ),
        (
            b'{"table":"T","filter":{"column":"v","op":">=","value":3}}',
            False,
            wire.Asked("T", Query(None, Filter("v", ">=", 3))),
        ),
        (b'{"table":"T","properties":{"acceptable.offset.lag":0}}', False, wire.Asked("T", Query(bound=0))),
        (b'{"table":"T","partitions":[0]}', True, wire.Asked("T", Query(), (0,))),
    ],
)
def test_a_query_is_as_the_page_has_it(body: bytes, forwarded: bool, asked: wire.Asked) -> None:
    assert wire.decode_query(body, forwarded=forwarded) == asked
    assert wire.encode_query(asked) == body


CLIENT = partial(wire.decode_query, forwarded=False)
SERVER = partial(wire.decode_query, forwarded=True)


@pytest.mark.parametrize(
    ("decode", "body", "said"),
    [
        (wire.decode_heartbeat, b"", "truncated"),
        (wire.decode_heartbeat, b"[]", "Expected `object`"),
        (wire.decode_heartbeat, b'{"timestamp":1}', "`hostInfo`"),
        (wire.decode_heartbeat, b'{"hostInfo":"h","timestamp":1}', "`$.hostInfo`"),
        (wire.decode_heartbeat, b'{"hostInfo":"h:1","timestamp":-1}', "`$.timestamp`"),
        (wire.decode_heartbeat, b'{"hostInfo":"h:1","timestamp":1.5}', "`$.timestamp`"),
        (wire.decode_report, REPORT_BODY.replace(b"Q#store", b"store"), "not of the form QUERY#STORE"),
        (wire.decode_report, REPORT_BODY.replace(b'"endOffsetPosition":0,', b""), "`endOffsetPosition`"),
        (CLIENT, b'{"table":"T","partitions":[0]}', "partitions is for servers only - at `$.partitions`"),
        (SERVER, b'{"table":"T"}', "partitions is missing in a forwarded query - at `$.partitions`"),
        (CLIENT, b'{"table":"T","keys":[]}', "`$.keys`"),
        (CLIENT, b'{"table":"T","filter":{"column":"w","op":"=","value":1}}', "the columns are k and v"),
        (CLIENT, b'{"table":"T","keys":["k"],"filter":{"column":"k","op":"=","value":1}}', "`$.filter`"),
        (
            CLIENT,
            b'{"table":"T","properties":{"acceptable.offset.lag":-1}}',
            "must be a whole number from 0 to 9223372036854775807",
        ),
        (
            CLIENT,
            b'{"table":"T","properties":{"acceptable.offset.lag":true}}',
            "must be a whole number from 0 to 9223372036854775807",
        ),
        (CLIENT, b'{"table":"\xff"}', ""),
    ],
)
def test_another_form_is_refused_with_its_field(decode: Any, body: bytes, said: str) -> None:  # noqa: ANN401
    with pytest.raises(wire.BadRequestError) as refused:
        decode(body)
    assert said in str(refused.value)
    assert "\n" not in str(refused.value)


@given(st.binary(max_size=60) | st.recursive(st.none() | st.integers(), st.lists).map(lambda v: json.dumps(v).encode()))
def test_any_bytes_are_read_or_refused(body: bytes) -> None:
    for decode in (wire.decode_heartbeat, wire.decode_report, CLIENT, SERVER):
        with suppress(wire.BadRequestError):
            decode(body)
    reader = wire.AnswerReader(200)
    reader.line(wire.HEADER)
    reader.line(body)
    assert reader.ended() in (None, Failure.ERROR_LINE, Failure.BROKEN_STREAM)


ANSWER = Answer(0, "h:8088", 7, (("k", 3),))
LINE = b'{"partition":0,"host":"h:8088","position":7,"rows":[["k",3]]}'


@pytest.mark.parametrize(
    ("status", "lines", "answers", "failure"),
    [
        (200, [wire.HEADER, LINE, wire.COMPLETED], 1, None),
        (200, [wire.HEADER, wire.COMPLETED], 0, None),
        (200, [wire.HEADER, LINE], 1, Failure.BROKEN_STREAM),
        (200, [wire.HEADER, LINE, LINE[:-5]], 1, Failure.ERROR_LINE),
        (200, [wire.HEADER, LINE.replace(b"7", b'"7"')], 0, Failure.ERROR_LINE),
        (200, [wire.HEADER, b"3", LINE, wire.COMPLETED], 0, Failure.ERROR_LINE),
        (200, [wire.HEADER, wire.error_line(Finish(1, "no"))], 0, Failure.ERROR_LINE),
        (200, [LINE, wire.COMPLETED], 0, Failure.NO_HEADER),
        (200, [], 0, Failure.NO_HEADER),
        (200, [b"3"], 0, Failure.NO_HEADER),
        (200, [wire.HEADER, wire.COMPLETED, LINE], 0, None),
        (503, [wire.error_body(503, "no")], 0, Failure.SERVER_ERROR),
        (500, [], 0, Failure.SERVER_ERROR),
        (302, [], 0, Failure.CLIENT_ERROR),
        (429, [], 0, Failure.CLIENT_ERROR),
        (404, [wire.HEADER, LINE, wire.COMPLETED], 0, Failure.CLIENT_ERROR),
    ],
)
def test_a_response_is_read_as_far_as_it_goes(
    status: int, lines: list[bytes], answers: int, failure: Failure | None
) -> None:
    reader = wire.AnswerReader(status)
    for line in lines:
        reader.line(line)
    assert reader.answers == [ANSWER] * answers
    assert reader.ended() == failure
    assert wire.encode_answer(ANSWER) == LINE


def test_an_error_says_what_was_attempted() -> None:
    attempts = (Attempt(0, "h:1", Failure.TIME_OUT), Attempt(1, "h:1", None))
    said = {
        "@type": "generic_error",
        "error_code": 50300,
        "message": EXHAUSTED,
        "attempts": [[0, "h:1", "time-out"], [1, "h:1", "answered"]],
    }
    assert json.loads(wire.error_body(503, EXHAUSTED, attempts)) == said
    assert json.loads(wire.error_line(Finish(1, EXHAUSTED, attempts))) == {"errorMessage": said}
    assert "attempts" not in json.loads(wire.error_body(404, "no such table"))
