"""Traces of servers of pull queries, followed in a module of the specification, many in one run of TLC.

What a module must have: TraceInit and TraceNext over the sequence Traces of the module TraceData, whose variable says
which trace is followed; ReportAccepted and ReportReached, which print where each has come.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Protocol, TypeVar

from logspec.errors import SpecError
from logspec.places import spec_directory
from logspec.tlavalue import parse_values
from logspec.tlc import EXIT_OK, Outcome, run_tlc
from logspec.toolchain import Toolchain


class Named(Protocol):
    """A trace of a run of this name."""

    name: str


Trace = TypeVar("Trace", bound=Named)


def followed(
    module: str,
    batch: Sequence[Trace],
    written: Callable[[Trace], str],
    configuration: Sequence[str],
    tools: Toolchain,
    seconds: float | None,
    definitions: str = "",
) -> Iterator[tuple[Trace, int]]:
    """Follow traces; the ones that the spec does not allow, each with the line that it could not go beyond.

    ``written``: a trace as TLA+; ``configuration``: lines of TLC's; ``definitions``: further ones of TraceData. Raises
    `SpecError`.
    """

    def run(traces: Sequence[Trace], report: str) -> Outcome:
        data = ",\n".join(map(written, traces))
        text = f"---- MODULE TraceData ----\nEXTENDS Integers, TLC\n{definitions}\nTraces == <<\n{data}\n>>\n====\n"
        return _run(module, text, [f"INVARIANT {report}", *configuration], tools, seconds, traces)

    printed = parse_values("\n".join(run(batch, "ReportAccepted").printed))
    accepted = {value[1] for value in printed if value[0] == "accepted"}
    rejected = [trace for number, trace in enumerate(batch, 1) if number not in accepted]
    if not rejected:
        return
    reached: dict[int, int] = {}  # an event leaves one way to go on: the furthest is where a trace ends
    for value in parse_values("\n".join(run(rejected, "ReportReached").printed)):
        if value[0] == "reached":
            reached[value[1]] = max(reached.get(value[1], 0), value[2])
    for number, trace in enumerate(rejected, 1):
        yield trace, reached[number]


def _run(
    module: str,
    data: str,
    configuration: Sequence[str],
    tools: Toolchain,
    seconds: float | None,
    traces: Sequence[Named],
) -> Outcome:
    outcome = run_tlc(
        tools,
        spec_directory() / module,
        "\n".join(["INIT TraceInit", "NEXT TraceNext", *configuration, ""]),
        extra_modules={"TraceData": data},
        coverage=False,
        brief=True,
        seconds=seconds,
    )
    if outcome.timed_out:
        raise SpecError(f"TLC did not follow {len(traces)} traces within {seconds:g} s; give it more, or fewer runs")
    if outcome.errors or outcome.status != EXIT_OK:
        reason = " ".join(" ".join(outcome.errors[:2] or outcome.printed[:4] or [f"status {outcome.status}"]).split())
        raise SpecError(f"TLC could not follow {traces[0].name}: {reason[:600]}")
    return outcome
