"""What the implementation can explain: its decision rules and its mutants."""

from __future__ import annotations

import inspect
import re
from collections.abc import Iterator
from dataclasses import fields
from typing import Any

from quorumlog.protocol import Protocol, every

_CITATION = re.compile(r"\b[a-z-]+\.md#[a-z0-9-]+")


def topics() -> Iterator[dict[str, Any]]:
    """One topic for each rule, by the name of its function, and one for each mutant, of every protocol."""
    for protocol in every():
        yield from _rules(protocol.rules)
        yield from _mutants(protocol)


def _rules(reference: Any) -> Iterator[dict[str, Any]]:  # noqa: ANN401
    for each in fields(reference):
        text, _, source = (inspect.getdoc(getattr(reference, each.name)) or "").partition("\n\nSource: ")
        first, _, rest = text.partition("\n\n")
        reasons = [("Why", " ".join(rest.split()))] if rest else []
        module = getattr(reference, each.name).__module__
        code = f"impl/{module.replace('.', '/')}.py" if module.startswith("quorumlog.") else f"module {module}"
        yield {
            "kind": "rule",
            "name": each.name,
            "says": " ".join(first.split()),
            "source": tuple(_CITATION.findall(source)),
            "details": [*reasons, ("Code", code)],
        }


def _mutants(protocol: Protocol) -> Iterator[dict[str, Any]]:
    """One topic for each mutant."""
    for mutant in protocol.mutants.values():
        yield {
            "kind": "mutant",
            "name": mutant.id,
            "says": f"{mutant.change[0].upper()}{mutant.change[1:]}.",
            "source": (f"{mutant.page or protocol.name}.md#{mutant.id}",),
            "details": [
                ("One of these checks must notice", ", ".join(mutant.checks))
                if mutant.checks
                else ("No history shows it; the test that notices", mutant.test),
                *([("A test that plays its steps", mutant.test)] if mutant.checks and mutant.test else []),
                *([("A real system that had it", mutant.thread)] if mutant.thread else []),
            ],
            "names": {"check": mutant.checks},
            "shows": [f"logwitness hunt --mutant {mutant.id}" if mutant.checks else f"pytest {mutant.test}"],
        }
