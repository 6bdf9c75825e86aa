"""A server as a process, but for its ports: what it has on its disk when it ends, and begins with; how it stops."""

from __future__ import annotations

import asyncio
import socket
from pathlib import Path

import pytest

from quorumlog.cluster.log_client import LogPlace
from quorumlog.node.supervision import STOPPED
from quorumlog.pull_queries import events as e
from quorumlog.pull_queries.assignment import Assignment, Placement
from quorumlog.pull_queries.configuration import Configuration
from quorumlog.pull_queries.records import log_names
from quorumlog.pull_queries.server import process
from quorumlog.pull_queries.server.configuration import ServerConfiguration
from quorumlog.pull_queries.server.process import Server
from quorumlog.pull_queries.table import Change, SavedTable, Takeover

HERE = "127.0.0.1:1"
NOWHERE = LogPlace("nobody", {0: HERE})


class Noting(Server):
    """Notes whether a query was open when the tables were saved."""

    open_then: bool | None = None

    async def _save(self) -> None:
        self.open_then = not self._driver.idle
        await super()._save()


def server(directory: Path, active: str = HERE) -> Noting:
    """A server whose logs are where nobody listens; by the assignment that it has read it keeps the one partition, as
    active or as standby."""
    configuration = ServerConfiguration(
        node=0,
        internal=HERE,
        public="127.0.0.1:2",
        data=str(directory / "data"),
        servers={0: HERE},
        logs=dict.fromkeys(log_names(1), NOWHERE),
        server=Configuration(mode="shipped", standby_reads=True, forward_timeout=300),
        history=str(directory / "histories"),
        save=10,
    )
    made = Noting(configuration, None)
    standbys = () if active == HERE else (HERE,)
    made._driver.core.handle(e.Clocks(0, 0), e.AssignmentRead(Assignment(1, (HERE,), (Placement(active, standbys),))))
    return made


@pytest.mark.parametrize("stops", [False, True])
def test_a_server_begins_with_the_tables_that_it_saved(stops: bool, tmp_path: Path) -> None:
    """At intervals, and when it stops as it should."""

    async def body() -> SavedTable:
        made = server(tmp_path)
        for offset, record in enumerate((Takeover(1), Change(1, 0, "k", 3))):
            made._driver.core.handle(e.Clocks(0, 0), e.ChangelogRead(0, offset, record))
        if stops:
            assert await made._drain() == STOPPED
        else:
            saving = asyncio.create_task(made._save_tables())
            while not made._disk.exists("tables"):
                await asyncio.sleep(0.01)
            saving.cancel()
            made._disk.close()
        return server(tmp_path)._driver.core.tables[0].saved()

    assert asyncio.run(asyncio.wait_for(body(), 20)) == SavedTable(2, 1, 1, {"k": 3})


def test_a_server_that_stops_waits_for_the_queries_that_are_open(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The host that has to answer accepts connections, and says nothing until it is given up."""
    monkeypatch.setattr(process, "DRAIN_SECONDS", 30.0)

    async def body() -> None:
        with socket.socket() as silent:
            silent.bind(("127.0.0.1", 0))
            silent.listen()
            host, number = silent.getsockname()
            made = server(tmp_path, f"{host}:{number}")
            driver = made._driver
            request, asked = driver.query(None, e.Query())

            async def answer() -> None:
                await asked.ended
                driver.drop(request)

            answering = asyncio.create_task(answer())
            assert await made._drain() == STOPPED
            assert answering.done()
            assert made.open_then is False

    asyncio.run(asyncio.wait_for(body(), 40))
