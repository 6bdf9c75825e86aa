"""What a server says to whoever asks it wrongly, too much, too slowly, or in no way at all; it goes on serving.

Its logs are at ports where nobody listens, so that it holds nothing; what it is asked well is in `test_real_servers`.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from time import time_ns
from typing import Any

import httpx2
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from loghistory import open_run
from quorumlog.pull_queries.server import configuration, http, listener

pytestmark = pytest.mark.slow

PORTS = ("public", "internal")
REPORT = {
    "ksqlHost": "h:1",
    "hostStoreLags": {
        "stateStoreLags": {
            "T#store": {"lagByPartition": {"0": {"currentOffsetPosition": 0, "endOffsetPosition": 0, "offsetLag": 0}}}
        },
        "updateTimeMs": 1,
    },
}
HEARTBEAT = {"hostInfo": "h:1", "timestamp": 1}


def free_port() -> str:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        return f"127.0.0.1:{taken.getsockname()[1]}"


class Served:
    """One server process and where it is."""

    def __init__(self, directory: Path, **changed: Any) -> None:  # noqa: ANN401
        internal, nowhere = free_port(), {"cluster": "nobody", "nodes": {"0": free_port()}}
        self.configuration: dict[str, Any] = {
            "node": 0,
            "internal": internal,
            "public": free_port(),
            "data": "data",
            "servers": {"0": internal},
            "logs": dict.fromkeys(("assignments", "s0", "c0"), nowhere),
            "history": "histories",
            **changed,
        }
        self.directory = directory
        directory.mkdir(exist_ok=True)
        self.file = directory / f"{len(list(directory.iterdir()))}.json"
        self.file.write_text(json.dumps(self.configuration))

    def start(self) -> subprocess.Popen[str]:
        command = [sys.executable, "-m", "quorumlog.pull_queries.server", "--config", str(self.file)]
        self.process = subprocess.Popen(command, stderr=subprocess.PIPE, text=True)
        return self.process

    def until_it_answers(self) -> None:
        deadline = time.monotonic() + 60
        while time.monotonic() < deadline:
            try:
                self.ask("public", "GET", "/")
            except httpx2.ConnectError:
                time.sleep(0.05)
            else:
                return
        raise AssertionError("it does not answer")

    def ask(self, port: str, method: str, path: str, body: Any = b"", **headers: str) -> httpx2.Response:  # noqa: ANN401
        content = body if isinstance(body, bytes) else json.dumps(body).encode()
        url = f"http://{self.configuration[port]}{path}"
        return httpx2.request(method, url, content=content, headers=headers, timeout=15, trust_env=False)

    def place(self, port: str) -> tuple[str, int]:
        host, _, number = self.configuration[port].rpartition(":")
        return host, int(number)


@contextmanager
def serving(directory: Path, mode: str) -> Iterator[Served]:
    """A server in a mode, with its switches as they are; it is stopped as it should be, and says nothing untoward."""
    made = Served(directory, server={"mode": mode, "lag_report": 200})
    process = made.start()
    try:
        made.until_it_answers()
        yield made
    finally:
        process.send_signal(signal.SIGTERM)
        _, errors = process.communicate(timeout=20)
    assert process.returncode == 0
    assert set(errors.splitlines()) <= {"server 0: Invalid HTTP request received."}
    (history,) = (made.directory / "histories").glob("*.jsonl")
    kinds = [kind for batch in open_run(history).batches(columns=["kind"]) for kind in batch.column("kind").to_pylist()]
    assert (kinds[0], kinds[-1]) == ("serve", "stop")


@pytest.fixture(scope="module")
def proposal(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    with serving(tmp_path_factory.mktemp("proposal"), "proposal") as made:
        yield made


@pytest.fixture(scope="module")
def shipped(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    with serving(tmp_path_factory.mktemp("shipped"), "shipped") as made:
        yield made


@pytest.fixture(params=["proposal", "shipped"])
def served(request: pytest.FixtureRequest) -> Served:
    made: Served = request.getfixturevalue(request.param)
    return made


def refused(answer: httpx2.Response, status: int, said: str) -> None:
    """It is refused with this status, and one line that says this."""
    assert answer.status_code == status, answer.text
    body = answer.json()
    assert (body["@type"], body["error_code"]) == ("generic_error", 100 * status)
    assert said in body["message"]
    assert "\n" not in body["message"]
    assert len(body["message"]) < 300


DEEP = b'{"table":"T","properties":{"x":' + b"[" * 20_000 + b"]" * 20_000 + b"}}"
REFUSED = [
    ("public", "POST", "/query", b"{", 400, "Input data was truncated"),
    ("public", "POST", "/query", b"\xff\xfe{}", 400, "malformed"),
    ("public", "POST", "/query", b'{"table":"\xff"}', 400, "utf-8"),
    ("public", "POST", "/query", b"", 400, "Input data was truncated"),
    ("public", "POST", "/query", b"[" * 100_000, 400, "Expected `object`"),
    ("public", "POST", "/query", DEEP, 400, "recursion"),
    ("public", "POST", "/query", {"keys": ["k"]}, 400, "required field `table`"),
    ("public", "POST", "/query", {"table": 3}, 400, "$.table"),
    ("public", "POST", "/query", {"table": "T", "keys": []}, 400, "$.keys"),
    ("public", "POST", "/query", {"table": "T", "keys": ["k"] * 10_001}, 400, "$.keys"),
    ("public", "POST", "/query", {"table": "T", "keys": ["k" * 5000]}, 400, "$.keys[0]"),
    ("public", "POST", "/query", {"table": "T", "filter": {"column": "x", "op": "=", "value": 1}}, 400, "k and v"),
    ("public", "POST", "/query", {"table": "T", "filter": {"column": "v", "op": "~", "value": 1}}, 400, "write one of"),
    *(
        (
            "public",
            "POST",
            "/query",
            {"table": "T", "properties": {"acceptable.offset.lag": bound}},
            400,
            "whole number from 0",
        )
        for bound in (-1, "9", True, 1.0, 2**63)
    ),
    ("public", "POST", "/query", {"table": "T", "partitions": [0]}, 400, "is for servers only"),
    ("public", "POST", "/query", {"table": "U"}, 404, "there is no table 'U'; the table is T"),
    ("internal", "POST", "/query", {"table": "U", "partitions": [0]}, 404, "there is no table 'U'; the table is T"),
    ("public", "GET", "/query", b"", 405, "/query does not take GET"),
    ("public", "BREW", "/query", b"", 405, "/query does not take BREW"),
    ("public", "POST", "/clusterStatus", b"", 405, "/clusterStatus does not take POST"),
    ("public", "GET", "/nothing", b"", 404, "there is no /nothing here"),
    ("public", "POST", "/query/", {"table": "T"}, 404, "there is no /query/ here"),
    ("internal", "POST", "/heartbeat/", HEARTBEAT, 404, "there is no /heartbeat/ here"),
    ("public", "GET", "/%ff%0a", b"", 404, "there is no /"),
    ("public", "POST", "/heartbeat", HEARTBEAT, 400, "/heartbeat is for servers only; they ask on another port"),
    ("public", "POST", "/reportlag", REPORT, 400, "/reportlag is for servers"),
    ("public", "POST", "/lag", REPORT, 400, "/lag is for servers"),
    ("internal", "GET", "/clusterStatus", b"", 404, "there is no /clusterStatus here"),
    ("internal", "GET", "/heartbeat", b"", 405, "/heartbeat does not take GET"),
    ("internal", "POST", "/query", {"table": "T"}, 400, "partitions is missing in a forwarded query"),
    ("internal", "POST", "/query", {"table": "T", "partitions": [-1]}, 400, "$.partitions[0]"),
    ("internal", "POST", "/query", {"table": "T", "partitions": [7]}, 400, "there is no partition 7"),
    ("internal", "POST", "/query", {"table": "T", "partitions": [0] * 1000}, 400, "a partition is named twice"),
    *(
        (
            "public",
            "POST",
            "/query",
            {"table": "T", "properties": {"acceptable.offset.lag": bound}},
            400,
            "whole number",
        )
        for bound in ("9\n" * 100_000, [[1]] * 100_000, {"x" * 100_000: 1})
    ),
    ("public", "POST", "/query", b'{"table":"T","properties":{"acceptable.offset.lag":NaN}}', 400, "malformed"),
    (
        "public",
        "POST",
        "/query",
        {"table": "T", "filter": {"column": "v" * 9999, "op": "=", "value": 1}},
        400,
        "k and v",
    ),
    (
        "public",
        "POST",
        "/query",
        {"table": "T", "filter": {"column": "v", "op": "=" * 9999, "value": 1}},
        400,
        "one of",
    ),
    ("public", "POST", "/query", b'{"table":"T","keys":["\\ud800 alone"]}', 400, "surrogate"),
    ("public", "GET", "/" + "x" * 60_000, b"", 404, "there is no /xxx"),
]


@pytest.mark.parametrize(("port", "method", "path", "body", "status", "said"), REFUSED)
def test_what_is_asked_wrongly_is_refused_with_one_line(
    served: Served, port: str, method: str, path: str, body: object, status: int, said: str
) -> None:
    refused(served.ask(port, method, path, body), status, said)


@pytest.mark.parametrize(
    ("path", "body", "said"),
    [
        ("/heartbeat", {"hostInfo": "nowhere", "timestamp": 1}, "$.hostInfo"),
        ("/heartbeat", {"hostInfo": "h:1", "timestamp": -1}, "$.timestamp"),
        ("/heartbeat", {"hostInfo": "h:1", "timestamp": 1e300}, "$.timestamp"),
        ("/heartbeat", {"hostInfo": "h:1"}, "required field `timestamp`"),
        ("/reportlag", {**REPORT, "ksqlHost": None}, "$.ksqlHost"),
        (
            "/reportlag",
            {"ksqlHost": "h:1", "hostStoreLags": {"stateStoreLags": {"T": {"lagByPartition": {}}}, "updateTimeMs": 1}},
            "'T' is not of the form QUERY#STORE",
        ),
    ],
)
def test_what_no_server_would_say_changes_nothing(proposal: Served, path: str, body: object, said: str) -> None:
    before = proposal.ask("public", "GET", "/clusterStatus").json()["clusterStatus"].keys()
    refused(proposal.ask("internal", "POST", path, body), 400, said)
    assert proposal.ask("public", "GET", "/clusterStatus").json()["clusterStatus"].keys() == before


def test_each_mode_has_its_paths_and_switches(proposal: Served, shipped: Served) -> None:
    assert proposal.ask("internal", "POST", "/heartbeat", {**HEARTBEAT, "new": 1}).json() == {"isOk": True}
    assert proposal.ask("internal", "POST", "/reportlag", REPORT).json() == {"isOk": True}
    refused(proposal.ask("internal", "POST", "/lag", REPORT), 404, "there is no /lag here")
    (host,) = proposal.ask("public", "GET", "/clusterStatus").json()["clusterStatus"]
    assert host == proposal.configuration["internal"]
    refused(shipped.ask("internal", "POST", "/heartbeat", HEARTBEAT), 404, "heartbeats are switched off")
    refused(shipped.ask("internal", "POST", "/lag", REPORT), 404, "lag reports are switched off")
    refused(shipped.ask("internal", "POST", "/reportlag", REPORT), 404, "there is no /reportlag here")
    refused(shipped.ask("public", "GET", "/clusterStatus"), 404, "heartbeats are switched off")


def until_it_is_ready(made: Served) -> None:
    deadline = time.monotonic() + 20
    while made.ask("public", "POST", "/query", {"table": "T"}).json()["message"].endswith("The server is not ready."):
        assert time.monotonic() < deadline
        time.sleep(0.05)


def test_a_server_that_holds_nothing_says_who_was_scanned_and_refuses_what_is_forwarded(proposal: Served) -> None:
    until_it_is_ready(proposal)
    said = "Partition 0 failed to find valid host. Hosts scanned: [unavailable:-1 was not selected because Host is not"
    refused(proposal.ask("public", "POST", "/query", {"table": "T"}), 503, said)
    answer = proposal.ask("internal", "POST", "/query", {"table": "T", "partitions": [0]})
    assert answer.status_code == 200
    header, last = map(json.loads, answer.text.splitlines())
    assert "header" in header
    assert last["errorMessage"]["message"] == "partition 0: Host does not hold this partition."


@pytest.mark.parametrize("port", PORTS)
def test_large_bodies_are_not_read(proposal: Served, port: str) -> None:
    size = http.MAX_QUERY_BYTES + 1
    refused(proposal.ask(port, "POST", "/query", b"x" * size), 413, "larger than 1048576 bytes")
    url = f"http://{proposal.configuration[port]}/query"
    parts = (b"x" * 65536 for _ in range(40))
    refused(httpx2.post(url, content=parts, timeout=15, trust_env=False), 413, "larger than 1048576 bytes")
    refused(proposal.ask("internal", "POST", "/heartbeat", b" " * 5000), 413, "larger than 4096 bytes")


@pytest.mark.parametrize(
    "body", [b"content-length: %d\r\n\r\n%s", b"transfer-encoding: chunked\r\n\r\n%x\r\n%s\r\n0\r\n\r\n"]
)
def test_who_sends_all_before_it_reads_hears_that_it_is_too_large(proposal: Served, body: bytes) -> None:
    for size in (2, 9, 30):
        large = b"x" * (size * http.MAX_QUERY_BYTES)
        with socket.create_connection(proposal.place("public"), timeout=10) as client:
            client.sendall(b"POST /query HTTP/1.1\r\nhost: h\r\n" + body % (len(large), large))
            assert client.recv(65536).startswith(b"HTTP/1.1 413 ")


def test_a_large_body_that_is_announced_is_refused_before_it_comes(proposal: Served) -> None:
    head = f"POST /query HTTP/1.1\r\nhost: h\r\ncontent-length: {http.MAX_QUERY_BYTES + 1}\r\n\r\n".encode()
    said, took = asyncio.run(sent(proposal.place("public"), head, 15))
    assert said.startswith(b"HTTP/1.1 413 ")
    assert took < http.BODY_SECONDS


@pytest.mark.parametrize(
    ("name", "value", "said"),
    [
        ("hybrid-clock", "now", "hybrid-clock"),
        ("hybrid-clock", f"{2**62} 0", "ahead"),
        ("operation", "-1", "is not the number of an operation"),
        ("operation", "9" * 30, "is not the number of an operation"),
    ],
)
def test_headers_that_mean_nothing_are_refused(proposal: Served, name: str, value: str, said: str) -> None:
    refused(proposal.ask("public", "POST", "/query", {"table": "T"}, **{name: value}), 400, said)


@pytest.mark.parametrize(
    ("port", "method", "path", "body"),
    [
        ("public", "POST", "/query", {"table": "T"}),
        ("public", "GET", "/clusterStatus", b""),
        ("internal", "POST", "/query", {"table": "T", "partitions": [0]}),
        ("internal", "POST", "/heartbeat", HEARTBEAT),
        ("internal", "POST", "/reportlag", REPORT),
        ("internal", "POST", "/heartbeat", b"{"),
    ],
)
def test_every_answer_is_later_than_its_request(
    proposal: Served, port: str, method: str, path: str, body: object
) -> None:
    time, logical = time_ns() + 2_000_000_000, 7
    answer = proposal.ask(port, method, path, body, **{"hybrid-clock": f"{time} {logical}"})
    assert tuple(map(int, answer.headers["hybrid-clock"].split())) > (time, logical)


async def sent(place: tuple[str, int], data: bytes, wait: float) -> tuple[bytes, float]:
    """What comes back before the connection is closed, and after how many seconds that is."""
    reader, writer = await asyncio.open_connection(*place)
    began = time.monotonic()
    writer.write(data)
    try:
        return await asyncio.wait_for(reader.read(-1), wait), time.monotonic() - began
    except ConnectionResetError:
        return b"", time.monotonic() - began
    finally:
        writer.close()


def test_slow_clients_are_cut_off(proposal: Served) -> None:
    place = proposal.place("public")
    head = b"POST /query HTTP/1.1\r\nhost: h\r\n"

    async def body() -> list[tuple[bytes, float]]:
        waits = (
            b"",
            head,
            head + b"content-length: 9\r\n\r\n{",
            head + b"transfer-encoding: chunked\r\n\r\n1\r\n{\r\n",
        )
        return await asyncio.gather(*(sent(place, data, 15) for data in waits))

    nothing, half, short, chunked = asyncio.run(body())
    limit = max(listener.HEADER_SECONDS, http.BODY_SECONDS) + 2
    assert all(took < limit for _, took in (nothing, half, short, chunked))
    assert (nothing[0], half[0]) == (b"", b"")
    for said, _ in (short, chunked):
        assert said.startswith(b"HTTP/1.1 408 ")
        assert b"the body did not come within 5 s" in said


async def sent_in_turn(place: tuple[str, int], parts: Sequence[bytes]) -> bytes:
    """What comes back when each part is sent after an answer to those before, or after a moment without one.

    For what the last one brings it is waited, however slow the machine is."""
    reader, writer = await asyncio.open_connection(*place)
    said = b""
    try:
        for number, part in enumerate(parts, 1):
            writer.write(part)
            with contextlib.suppress(TimeoutError):
                said += await asyncio.wait_for(reader.read(65536), 10 if number == len(parts) else 0.05)
    except ConnectionError:
        pass
    finally:
        writer.close()
    return said


CHUNKED = b" HTTP/1.1\r\nhost: h\r\ntransfer-encoding: chunked\r\n\r\n"


@pytest.mark.parametrize("port", PORTS)
@pytest.mark.parametrize("request_", [b"POST /nothing", b"GET /nothing", b"HEAD /nothing", b"POST /query"])
@pytest.mark.parametrize("chunk", [b"zz\r\n", b"2\r\n{}zz", b"0\r\n\r\n\0\r\n\r\n"])
def test_a_body_that_is_no_http_leaves_it_serving(proposal: Served, port: str, request_: bytes, chunk: bytes) -> None:
    """With the request, and when that has been answered, or nearly, already."""
    together = asyncio.run(sent_in_turn(proposal.place(port), [request_ + CHUNKED + chunk]))
    assert together.startswith(b"HTTP/1.1 4")
    asyncio.run(sent_in_turn(proposal.place(port), [request_ + CHUNKED, chunk, b"more"]))
    assert proposal.ask("public", "GET", "/clusterStatus").status_code == 200
    assert proposal.process.poll() is None


def test_what_is_no_http_is_refused_as_all_else_is(proposal: Served) -> None:
    said = asyncio.run(sent_in_turn(proposal.place("public"), [b"\x16\x03\x01\x02\0\r\n\r\n"]))
    head, _, body = said.partition(b"\r\n\r\n")
    assert head.startswith(b"HTTP/1.1 400 ")
    refused(httpx2.Response(400, content=body), 400, "no request in HTTP/1.1 that can be read")


def test_who_asks_much_and_reads_nothing_is_cut_off(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(listener, "IDLE_SECONDS", 0.2)

    async def body() -> None:
        async def much(_: Request) -> Response:
            return Response(b"x" * 300_000)

        port = listener.take_port(("127.0.0.1", 0), shared=False)
        serves = listener.Listener(Starlette(routes=[Route("/", much)]))
        serving_ = asyncio.create_task(serves.serve(sockets=[port]))
        connections = serves.server_state.connections
        while not serves.started:
            await asyncio.sleep(0.01)
        with socket.create_connection(port.getsockname()) as client:
            client.sendall(b"GET / HTTP/1.1\r\nhost: h\r\n\r\n" * 100)
            for there in (True, False):
                async with asyncio.timeout(10):
                    while bool(connections) != there:
                        await asyncio.sleep(0.01)
        serves.should_exit = True
        await serving_

    asyncio.run(body())


def test_headers_without_end_are_cut_off(proposal: Served) -> None:
    said, took = asyncio.run(sent(proposal.place("public"), b"GET / HTTP/1.1\r\n" + b"a: b\r\n" * 20_000, 10))
    assert took < 2
    assert said == b"" or said.startswith(b"HTTP/1.1 400 ")


def test_hosts_are_not_made_up_without_end(tmp_path: Path) -> None:
    made = Served(tmp_path / "flood")
    process = made.start()
    try:
        made.until_it_answers()
        url = f"http://{made.configuration['internal']}/heartbeat"
        with httpx2.Client(timeout=10, trust_env=False) as client:
            for number in range(http.MAX_HOSTS):
                assert client.post(url, json={"hostInfo": f"h:{number}", "timestamp": 1}).status_code == 200
            refused(client.post(url, json={"hostInfo": "h:5000", "timestamp": 1}), 429, "more than 512 hosts")
            assert client.post(url, json={"hostInfo": "h:7", "timestamp": 2}).status_code == 200
    finally:
        process.kill()
        process.communicate()


LINES = st.sampled_from([b"POST /query HTTP/1.1", b"GET /clusterStatus HTTP/1.1", b"POST /heartbeat HTTP/1.0", b"X"])
NAMES = st.sampled_from([b"host: h", b"content-length: 5", b"content-length: -1", b"transfer-encoding: chunked"])
REQUESTS = st.builds(
    lambda line, names, body: b"\r\n".join([line, *names, b"", body]),
    LINES,
    st.lists(NAMES | st.binary(max_size=20), max_size=4),
    st.binary(max_size=50),
)


@settings(max_examples=40, deadline=None)
@given(data=st.binary(max_size=200) | REQUESTS, cut=st.integers(0, 200), port=st.sampled_from(PORTS))
def test_any_bytes_on_either_port_leave_it_serving(proposal: Served, data: bytes, cut: int, port: str) -> None:
    with socket.create_connection(proposal.place(port), timeout=5) as connection:
        connection.sendall(data[:cut])
        if cut < len(data):
            time.sleep(0.01)
            with contextlib.suppress(ConnectionError):
                connection.sendall(data[cut:])
        with contextlib.suppress(OSError):
            connection.shutdown(socket.SHUT_WR)
        connection.settimeout(0.05)
        try:
            said = connection.recv(65536)
        except (TimeoutError, ConnectionResetError):
            said = b""
    assert said == b"" or said.startswith(b"HTTP/1.1 ")
    assert not said.startswith(b"HTTP/1.1 500")
    assert proposal.process.poll() is None
    assert proposal.ask("public", "GET", "/clusterStatus").status_code == 200


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=8), inner, max_size=3),
    max_leaves=8,
)
FIELDS = st.sampled_from(["table", "keys", "filter", "properties", "partitions", "hostInfo", "timestamp", "ksqlHost"])
PATHS = st.sampled_from(["/query", "/heartbeat", "/reportlag"])


@settings(max_examples=40, deadline=None)
@given(body=JSON | st.dictionaries(FIELDS, JSON, max_size=4), port=st.sampled_from(PORTS), path=PATHS)
def test_any_json_is_answered_or_refused(proposal: Served, body: object, port: str, path: str) -> None:
    answer = proposal.ask(port, "POST", path, body)
    assert answer.status_code in (200, 400, 404, 503)
    if answer.status_code != 200:
        assert "\n" not in answer.json()["message"]


@pytest.mark.parametrize(
    ("changed", "said"),
    [
        ({"node": "0"}, "Expected `int`, got `str` - at `$.node`"),
        ({"internal": "here"}, "$.internal"),
        ({"internal": "127.0.0.1:70000"}, "'127.0.0.1:70000' is not host:port"),
        ({"logs": {}}, "logs: give assignments, s0, c0, as server.partitions says"),
        ({"servers": {}}, "servers: server 0 is not "),
        ({"server": {"heartbeat_window": 100}}, "heartbeat_window is 100; it must be more than"),
        ({"server": {"mode": "fast"}}, "$.server.mode"),
        ({"server": {"partitions": 2**40}}, "partitions is 1099511627776; it must be at most 4096"),
        ({"server": {"maximum_lag": 2**63}}, "maximum_lag is 9223372036854775808; it must be at most"),
        ({"with_bound": 2**63}, "$.with_bound"),
        ({"with_bound": -1}, "$.with_bound"),
        ({"with_bound": 1.5}, "$.with_bound"),
        ({"with_bound": "10"}, "$.with_bound"),
        ({"poll": 0}, "$.poll"),
        ({"unknown": 1}, "unknown field `unknown`"),
    ],
)
def test_a_configuration_that_cannot_be_used_is_one_line(changed: dict[str, Any], said: str, tmp_path: Path) -> None:
    made = Served(tmp_path, **changed)
    with pytest.raises(configuration.BadConfigurationError) as caught:
        configuration.load(made.file)
    (line,) = str(caught.value).splitlines()
    assert line.startswith(str(made.file))
    assert said in line


def test_a_configuration_that_is_not_there_ends_the_process(tmp_path: Path) -> None:
    made = Served(tmp_path)
    made.file.unlink()
    _, errors = made.start().communicate(timeout=20)
    assert (made.process.returncode, errors) == (2, f"{made.file}: cannot be read: {os.strerror(2)}\n")


@pytest.mark.parametrize("port", PORTS)
def test_a_port_in_use_is_one_line(port: str, tmp_path: Path) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        place = f"127.0.0.1:{taken.getsockname()[1]}"
        servers = {"servers": {"0": place}} if port == "internal" else {}
        made = Served(tmp_path, **{port: place}, **servers)
        _, errors = made.start().communicate(timeout=20)
    assert (made.process.returncode, errors) == (2, f"server 0: {place}: {os.strerror(98)}\n")


def test_tables_that_are_damaged_are_one_line(tmp_path: Path) -> None:
    made = Served(tmp_path)
    (tmp_path / "data").mkdir()
    (tmp_path / "data" / "tables").write_bytes(b"\xff")
    _, errors = made.start().communicate(timeout=20)
    assert made.process.returncode == 2
    assert errors == (
        "server 0: tables: this file of the server's directory is damaged; remove it, and the tables are rebuilt\n"
    )
