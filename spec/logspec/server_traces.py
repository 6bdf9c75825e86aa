"""Traces of servers of pull queries, followed in a module of the specification, many in one run of TLC.

What a module must have: TraceInit and TraceNext over the sequence Traces of the module TraceData, whose variable says
which trace is followed; ReportAccepted and ReportReached, which print where each has come. One whose ReportReached also
prints the state there has TraceResume, which begins in the state Before of TraceData.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any, Generic, NamedTuple, Protocol, TypeVar

from logspec.errors import SpecError
from logspec.places import spec_directory
from logspec.tlavalue import parse_values, print_value
from logspec.tlc import EXIT_OK, Outcome, run_tlc
from logspec.toolchain import Toolchain
from logspec.traces import Nearest, furthest


class Named(Protocol):
    """A trace of a run of this name."""

    name: str


Trace = TypeVar("Trace", bound=Named)


class Refused(NamedTuple, Generic[Trace]):
    """A trace that the spec does not allow, the line that it could not go beyond, and the state there, if told."""

    trace: Trace
    line: int
    before: Mapping[str, Any]


def followed(
    module: str,
    batch: Sequence[Trace],
    written: Callable[[Trace], str],
    configuration: Sequence[str],
    tools: Toolchain,
    seconds: float | None,
    definitions: str = "",
) -> Iterator[Refused[Trace]]:
    """Follow traces; the ones that the spec does not allow.

    ``written``: a trace as TLA+; ``configuration``: lines of TLC's; ``definitions``: further ones of TraceData. Raises
    `SpecError`.
    """

    def run(traces: Sequence[Trace], report: str) -> Outcome:
        text = _data(map(written, traces), definitions)
        return _run(module, text, ["INIT TraceInit", f"INVARIANT {report}", *configuration], tools, seconds, traces)

    printed = parse_values("\n".join(run(batch, "ReportAccepted").printed))
    accepted = {value[1] for value in printed if value[0] == "accepted"}
    rejected = [trace for number, trace in enumerate(batch, 1) if number not in accepted]
    if not rejected:
        return
    reached: dict[int, Refused[Trace]] = {}  # an event leaves one way to go on: the furthest is where a trace ends
    for word, number, line, *before in parse_values("\n".join(run(rejected, "ReportReached").printed)):
        if word == "reached" and (number not in reached or line > reached[number].line):
            reached[number] = Refused(rejected[number - 1], line, before[0] if before else {})
    for number in range(1, 1 + len(rejected)):
        yield reached[number]


def nearest(
    module: str,
    refused: Refused[Trace],
    event: str,
    configuration: Sequence[str],
    tools: Toolchain,
    seconds: float | None,
) -> Nearest | None:
    """Which action came nearest to the event at which a trace is stuck, and what of it does not hold.

    ``event``: the trace of that event alone, as TLA+. Raises `SpecError`.
    """
    text = _data([event], f"Before == {print_value(refused.before)}")
    lines = ["INIT TraceResume", "INVARIANT ReportAccepted", *configuration]
    return furthest(_run(module, text, lines, tools, seconds, [refused.trace], coverage=True).conjuncts)


def _data(traces: Iterable[str], definitions: str) -> str:
    body = ",\n".join(traces)
    return f"---- MODULE TraceData ----\nEXTENDS Integers, TLC\n{definitions}\nTraces == <<\n{body}\n>>\n====\n"


def _run(
    module: str,
    data: str,
    configuration: Sequence[str],
    tools: Toolchain,
    seconds: float | None,
    traces: Sequence[Named],
    coverage: bool = False,
) -> Outcome:
    outcome = run_tlc(
        tools,
        spec_directory() / module,
        "\n".join(["NEXT TraceNext", *configuration, ""]),
        extra_modules={"TraceData": data},
        coverage=coverage,
        brief=True,
        seconds=seconds,
    )
    if outcome.timed_out:
        raise SpecError(f"TLC did not follow {len(traces)} traces within {seconds:g} s; give it more, or fewer runs")
    if outcome.errors or outcome.status != EXIT_OK:
        reason = " ".join(" ".join(outcome.errors[:2] or outcome.printed[:4] or [f"status {outcome.status}"]).split())
        raise SpecError(f"TLC could not follow {traces[0].name}: {reason[:600]}")
    return outcome
