"""Simulated clients of a log on many shards: they append records, and trim now and then."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from quorumlog.read_path.events import AppendAsked, TrimAsked
from quorumlog.read_path.nodes import ReadPathNode
from quorumlog.read_path.rules import NOWHERE
from quorumlog.read_path.settings import ReadPathConfiguration, ReadPathWorkload
from quorumlog.simulation.client import Client, Service


class AppendClient(Client[ReadPathNode]):
    """One client; see `Client`. It speaks to the sequencer that answered last."""

    def __init__(
        self, service: Service[ReadPathNode], mix: ReadPathWorkload, configuration: ReadPathConfiguration
    ) -> None:
        self._mix, self._configuration = mix, configuration
        self._newest = 0
        super().__init__(service, mix, configuration.client_delay)

    def operations(self) -> Sequence[tuple[Callable[[], object], float]]:
        """Appends, and trims, as the mix says."""
        return (self._append_some, self._mix.append), (self._trim_some, self._mix.trim)

    def last_write(self, node: int) -> int:
        """Append by way of sequencer ``node``; returns the operation."""
        return self._append(node)

    def final_read(self, node: int) -> int:
        """Clients of this protocol do not read. Raises NotImplementedError."""
        raise NotImplementedError("readers are nodes of their own")

    def _sequencer(self) -> int:
        """Mostly the first; another one where that has failed."""
        stray = self._leader if self.last_outcome in ("fail", "info") else 0
        return self._configuration.shards + stray % self._configuration.sequencers

    def _append_some(self) -> None:
        self._append(self._sequencer())

    def _append(self, node: int) -> int:
        value = self._service.new_value()
        payload = value.to_bytes(8, "big") + b"." * self._random.randint(0, self._mix.value_bytes)
        return self._ask("append_record", node, {"value": value}, lambda request: AppendAsked(request, payload))

    def _trim_some(self) -> None:
        if self._newest:
            lsn = self._newest - self._random.randint(0, self._mix.trim_behind)
            self._ask("trim_log", self._sequencer(), {"offset": lsn}, lambda request: TrimAsked(request, lsn))
        else:
            self._append_some()

    def _ask(self, f: str, node: int, columns: dict[str, Any], event: Callable[[int], Any]) -> int:
        def serve(operation: int, target: ReadPathNode) -> None:
            reply = target.open(lambda ended: self.answer(self._ended, operation, ended))
            target.handle(event(reply))

        return self.ask(f, node, columns, serve)

    def _ended(self, ended: Any) -> None:  # noqa: ANN401 - AppendEnded, TrimEnded, or None: the process died
        if ended is None or (ended.lsn == NOWHERE and ended.refused is None):
            self.give_up("unknown")
        elif ended.refused is not None:
            self.refuse(ended.refused)
        else:
            self._newest = max(self._newest, ended.lsn)
            self.close("ok", {"offset": ended.lsn})
