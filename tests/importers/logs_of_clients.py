"""Histories of clients of replicated logs that hold by construction, each with one anomaly planted if asked.

A log is simulated that does everything right; clients invoke, take effect and complete in random order. What is
planted comes last before the final read, on a key of its own where it must not touch the rest. All random choices
come from a seed.
"""

from __future__ import annotations

import random
from dataclasses import dataclass, field
from typing import Any

from written import Map


@dataclass
class _Log:
    entries: dict[int, Any] = field(default_factory=dict)
    end: int = 0

    def put(self, value: Any, at: int | None = None) -> int:  # noqa: ANN401
        offset = self.end if at is None else at
        self.entries[offset] = value
        self.end = max(self.end, offset + 1)
        return offset

    def after(self, position: int, limit: int) -> list[list[Any]]:
        """Offset and value of the entries behind a position."""
        return [[offset, self.entries[offset]] for offset in sorted(self.entries) if offset > position][:limit]


class History:
    """Operation maps, in order."""

    def __init__(self, seed: int) -> None:
        self.random = random.Random(seed)
        self.maps: list[Map] = []
        self._value = 100

    def add(self, kind: str, process: int | str, f: str, value: Any, **more: Any) -> None:  # noqa: ANN401
        place = len(self.maps)
        whole = {"index": place, "time": 1000 * place, "type": kind, "process": process, "f": f, "value": value}
        self.maps.append(whole | {name.replace("_", "-"): each for name, each in more.items()})

    def both(self, process: int, f: str, asked: Any, answer: Any, kind: str = "ok", **more: Any) -> None:  # noqa: ANN401
        """An operation at one go."""
        self.add("invoke", process, f, asked, **more)
        self.add(kind, process, f, answer, **more)

    def fresh(self) -> int:
        """A value that is nowhere yet."""
        self._value += 1
        return self._value


class Kafka(History):
    """A Kafka-like workload: send, poll, assign, subscribe, transactions, crashes and faults."""

    KEYS = (1, 2, 11)

    def __init__(self, seed: int) -> None:
        super().__init__(seed)
        self.logs = {key: _Log() for key in (*self.KEYS, 77)}
        self._positions: dict[int, dict[int, int]] = {}
        self._next_process = 5

    def run(self, operations: int = 60) -> None:
        idle = list(range(5))
        running: list[list[Any]] = []
        begun = 0
        while begun < operations or running:
            choice = self.random.random()
            if choice < 0.02:
                self.add("info", "nemesis", self.random.choice(["start-partition", "stop-partition"]), None)
            if idle and begun < operations and (choice < 0.5 or not running):
                process = idle.pop(self.random.randrange(len(idle)))
                running.append([process, *self._begin(process)])
                begun += 1
                continue
            one = self.random.choice(running)
            process, f, parts, done = one
            if done is None:
                one[3] = self._effect(process, f, parts)
            else:
                kind, answer = done
                self.add(kind, process, f, answer)
                running.remove(one)
                if kind == "info":
                    process = self._next_process
                    self._next_process += 1
                idle.append(process)

    def _begin(self, process: int) -> tuple[str, list[Any], None]:
        f = self.random.choice(["send", "send", "poll", "poll", "txn", "assign", "subscribe", "crash"])
        parts: list[Any] = []
        if f in ("assign", "subscribe"):
            parts = self.random.sample(self.KEYS, self.random.randint(1, 3))
        elif f != "crash":
            kinds = {"send": ["send"], "poll": ["poll"], "txn": ["send", "poll"]}[f]
            for kind in self.random.choices(kinds, k=self.random.randint(1, 3)):
                key = self.random.choice(self.KEYS)
                parts.append(["send", key, self.fresh()] if kind == "send" else ["poll"])
        self.add("invoke", process, f, parts if f != "crash" else None)
        return f, parts, None

    def _effect(self, process: int, f: str, parts: list[Any]) -> tuple[str, Any]:
        positions = self._positions.setdefault(process, {})
        if f == "crash":
            return "info", None
        if f in ("assign", "subscribe"):
            if self.random.random() < 0.1:
                return "fail", parts
            self._positions[process] = {key: at for key, at in positions.items() if key in parts}
            for key in parts:
                self._positions[process].setdefault(key, self.random.choice([-1, self.logs[key].end - 1]))
            return "ok", parts
        kind = self.random.choices(["ok", "fail", "info"], [8, 1, 1])[0]
        there = kind == "ok" or (kind == "info" and self.random.random() < 0.5)
        moved = dict(positions)
        answer: list[Any] = []
        sends: list[tuple[int, int, list[Any]]] = []
        for part in parts:
            if part[0] == "send":
                answer.append(list(part))
                sends.append((part[1], part[2], answer[-1]))
                continue
            given: dict[int, Any] = {}
            for key in self.random.sample(sorted(moved), len(moved)):
                found = self.logs[key].after(moved[key], self.random.randint(0, 4))
                if found:
                    given[key] = found
                    moved[key] = found[-1][0]
            answer.append(["poll", given] if given or self.random.random() < 0.5 else ["poll"])
        for key, value, shown in sends:
            log = self.logs[key]
            log.end += self.random.choice([0, 0, 0, 1, 1000])  # control records
            if there:
                offset = log.put(value)
                if kind == "ok" or self.random.random() < 0.5:
                    shown[2] = self.random.choice([[offset, value]] * 9 + [value])
            elif kind == "info" and self.random.random() < 0.5:
                shown[2] = [log.end, value]  # what it was to be
        if kind == "ok":
            self._positions[process] = moved
        return kind, answer if kind != "info" or self.random.random() < 0.8 else parts

    def plant(self, anomaly: str) -> None:
        """Add operations that show one anomaly and no other."""
        key = 77
        log = self.logs[key]
        writer, other, reader = 90, 91, 92

        def send(process: int, offset: int | None = None, *, inside: bool = True, kind: str = "ok") -> int:
            value = self.fresh()
            at = log.put(value, offset) if inside else log.end if offset is None else offset
            answer = [["send", key, [at, value] if kind == "ok" else value]]
            self.both(process, "send", [["send", key, value]], answer, kind)
            return value

        def poll(process: int, *offsets: int) -> None:
            given = [[offset, log.entries[offset]] for offset in offsets]
            self.both(process, "poll", [["poll"]], [["poll", {key: given}]])

        first = send(writer)
        self.both(reader, "assign", [key], [key])
        match anomaly:
            case "inconsistent offset":
                send(writer)
                send(other, log.end - 1, inside=False)
            case "duplicate":
                log.put(first)
            case "aborted read":
                send(writer, kind="fail")
            case "phantom":
                log.put(self.fresh())
            case "lost write":
                send(writer, inside=False)
                send(writer, log.end + 1)
            case "unseen":
                send(writer, log.end, inside=False)
            case "skip":
                send(writer)
                send(writer)
                poll(reader, 0)
                poll(reader, 2)
            case "non-monotonic read":
                send(writer)
                poll(reader, 0, 1)
                poll(reader, 1)
            case "non-monotonic append":
                one, two = self.fresh(), self.fresh()
                log.put(two), log.put(one)
                answer = [["send", key, [2, one]], ["send", key, [1, two]]]
                self.both(writer, "txn", [["send", key, one], ["send", key, two]], answer)
            case "real-time inversion":
                send(writer, 5)
                send(other, 3)
            case "uncommitted read":
                value = self.fresh()
                log.put(value)
                answer = [["send", key, [1, value]], ["poll", {key: [[1, value]]}]]
                self.both(reader, "txn", [["send", key, value], ["poll"]], answer)
            case _:
                raise AssertionError(anomaly)

    def final(self) -> None:
        """New clients read everything from the beginning."""
        for process in (300, 301):
            keys = sorted(self.logs)
            more = {"seek_to_beginning?": True}
            self.both(process, "assign", keys, keys, **more)
            positions = dict.fromkeys(keys, -1)
            while True:
                given = {}
                for key in keys:
                    found = self.logs[key].after(positions[key], self.random.randint(1, 9))
                    if found:
                        given[key], positions[key] = found, found[-1][0]
                self.both(process, "poll", [["poll"]], [["poll", given]])
                if not given:
                    break


class Appends(History):
    """A log with append, read and tail; reads name the offset they begin at and answer pairs, or answer everything."""

    def __init__(self, seed: int) -> None:
        super().__init__(seed)
        self.log = _Log()

    def run(self, operations: int = 40) -> None:
        idle = list(range(4))
        running: list[list[Any]] = []
        begun = 0
        process_after = 4
        while begun < operations or running:
            if idle and begun < operations and (self.random.random() < 0.5 or not running):
                process = idle.pop(self.random.randrange(len(idle)))
                f = self.random.choice(["append", "append", "read", "tail"])
                value = self.fresh() if f == "append" else None
                more = {"offset": self.random.randint(0, self.log.end)} if f == "read" else {}
                self.add("invoke", process, f, value, **more)
                running.append([process, f, value, more, None])
                begun += 1
                continue
            one = self.random.choice(running)
            process, f, value, more, done = one
            if done is None:
                kind = self.random.choices(["ok", "fail", "info"], [8, 1, 1])[0]
                one[4] = (kind, self._answer(f, value, more, kind))
                continue
            self.add(done[0], process, f, done[1], **more)
            running.remove(one)
            if done[0] == "info":
                process, process_after = process_after, process_after + 1
            idle.append(process)

    def _answer(self, f: str, value: Any, more: dict[str, Any], kind: str) -> Any:  # noqa: ANN401
        if f == "append":
            if kind == "ok" or (kind == "info" and self.random.random() < 0.5):
                offset = self.log.put(value)
                return [offset, value] if kind == "ok" else value
            return value
        if kind != "ok":
            return None
        return self.log.end if f == "tail" else self.log.after(more["offset"] - 1, self.random.randint(1, 9))

    def plant(self, anomaly: str) -> None:
        log, end = self.log, self.log.end

        def append(process: int, offset: int | None = None, *, inside: bool = True, kind: str = "ok") -> int:
            value = self.fresh()
            at = log.put(value, offset) if inside else log.end if offset is None else offset
            self.both(process, "append", value, [at, value] if kind == "ok" else value, kind)
            return value

        def read(process: int, start: int, *offsets: int) -> None:
            answer = [[offset, log.entries[offset]] for offset in offsets]
            self.both(process, "read", None, answer, offset=start)

        first = append(90)
        match anomaly:
            case "inconsistent offset":
                other = self.fresh()
                self.add("invoke", 94, "append", other)
                append(91)
                read(92, end + 1, end + 1)
                self.add("info", 94, "append", other)
                self.both(93, "read", None, [[end + 1, other]], offset=end + 1)
            case "duplicate":
                log.put(first)
            case "aborted read":
                append(91, kind="fail")
            case "phantom":
                log.put(self.fresh())
            case "lost write":
                append(91, inside=False)
                log.end += 1
                append(91)
            case "unseen":
                append(91, inside=False)
            case "skip":
                append(91)
                read(92, end, end + 1)
            case "non-monotonic read":
                append(91)
                read(92, end + 1, end)
            case "non-monotonic append":
                append(91, end + 2)
                append(91, end + 1)
            case "real-time inversion":
                append(91, end + 2)
                append(93, end + 1)
            case "stale tail":
                self.both(92, "tail", None, end)
            case _:
                raise AssertionError(anomaly)

    def final(self) -> None:
        self.both(300, "final-read", None, self.log.after(-1, 1 << 30), offset=0)


_SHOWN = {"lost write": ["skip"]}
"""What else an anomaly shows: who reads on passes over a value that is lost."""
_COMMON = ("inconsistent offset", "duplicate", "aborted read", "phantom", "lost write", "unseen", "skip")
_COMMON += ("non-monotonic read", "non-monotonic append", "real-time inversion")

PLANTED: dict[tuple[type[Kafka] | type[Appends], str], list[str]] = {
    **{(Kafka, name): [name, *_SHOWN.get(name, [])] for name in (*_COMMON, "uncommitted read")},
    **{(Appends, name): [name] for name in (*_COMMON, "stale tail")},
    # Offsets of one client that go down are also in the wrong order of time, unless one operation has them both.
    (Appends, "non-monotonic append"): ["non-monotonic append", "real-time inversion"],
}
"""What is named of a history with one anomaly."""


def planted(kind: type[Kafka] | type[Appends], seed: int, anomaly: str | None) -> list[Map]:
    """A history that holds but for the anomaly (None: holds)."""
    history = kind(seed)
    history.run()
    if anomaly is not None:
        history.plant(anomaly)
    history.final()
    return history.maps
