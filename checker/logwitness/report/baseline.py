"""Known violations: a file of those that a gate puts up with, so that only new ones fail.

A violation is known by its run's name, its check, and a digest of its log, sentence and events. That is stable for
histories that are kept, or made again from their seed; a history that is recorded anew has new events. A run's
violations of a check are kept up to a limit and counted beyond it, so the count is compared too.
"""

from __future__ import annotations

import hashlib
from pathlib import Path

import msgspec

from loghistory import HistoryError
from loghistory.errors import printable, quote

from ..checks.contract import Outcome, Verdict, Violation
from .results import write_whole

KIND = "logwitness baseline"
VERSION = 1
_MAX_BYTES = 256 << 20


class Known(msgspec.Struct, frozen=True):
    """One known violation; the sentence is for people."""

    digest: str
    sentence: str


class Recorded(msgspec.Struct, frozen=True):
    """What is known of one check of one run."""

    violated: int
    """Violations in all."""
    known: tuple[Known, ...]


Runs = dict[str, dict[str, Recorded]]
"""By name of the run, then by check id."""


class _Document(msgspec.Struct):
    kind: str
    version: int
    runs: Runs


def digest(run: str, check: str, violation: Violation) -> str:
    """What a violation is recognised by, in hexadecimal."""
    parts = [printable(each) for each in (run, check, violation.sentence)]
    log = None if violation.log is None else printable(violation.log)
    return hashlib.sha256(msgspec.json.encode([*parts, log, list(violation.events)])).hexdigest()[:32]


class Baseline:
    """Known violations by run and check."""

    def __init__(self, runs: Runs | None = None) -> None:
        self.runs: Runs = runs or {}

    def known(self, run: str, outcome: Outcome) -> frozenset[int]:
        """The places of the violations that are known."""
        recorded = self._of(run, outcome)
        digests = {each.digest for each in recorded.known} if recorded else set()
        return frozenset(
            place for place, each in enumerate(outcome.violations) if digest(run, outcome.id, each) in digests
        )

    def excuses(self, run: str, outcome: Outcome) -> bool:
        """Whether every violation of the check is known, and they are no more than they were."""
        recorded = self._of(run, outcome)
        if recorded is None or not outcome.violations:
            return False
        return len(self.known(run, outcome)) == len(outcome.violations) and outcome.violated <= recorded.violated

    def gone(self, run: str, outcome: Outcome) -> list[str]:
        """Sentences of the known violations that are there no more; none where that cannot be told."""
        recorded = self._of(run, outcome)
        if recorded is None or outcome.verdict is Verdict.UNDECIDED or outcome.violated > len(outcome.violations):
            return []
        found = {digest(run, outcome.id, each) for each in outcome.violations}
        return [each.sentence for each in recorded.known if each.digest not in found]

    def add(self, run: str, outcome: Outcome) -> None:
        """Record the violations of a check."""
        if outcome.violated:
            known = tuple(Known(digest(run, outcome.id, each), printable(each.sentence)) for each in outcome.violations)
            self.runs.setdefault(printable(run), {})[outcome.id] = Recorded(outcome.violated, known)

    def _of(self, run: str, outcome: Outcome) -> Recorded | None:
        return self.runs.get(printable(run), {}).get(outcome.id)


def read_baseline(path: Path) -> Baseline:
    """The baseline in a file; `HistoryError` if it is none."""
    remedy = "write it with `logwitness check RUN... --write-baseline FILE`"
    try:
        if path.stat().st_size > _MAX_BYTES:
            raise HistoryError(path, None, None, f"larger than {_MAX_BYTES >> 20} MiB", remedy)
        document = msgspec.json.decode(path.read_bytes(), type=_Document)
    except OSError as error:
        raise HistoryError(path, None, None, f"cannot be read ({error.strerror or error})", remedy) from None
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise HistoryError(path, None, None, f"not a baseline ({quote(str(error))[1:-1]})", remedy) from None
    if document.kind != KIND or document.version != VERSION:
        problem = f"{quote(document.kind)} of version {document.version} is not a baseline of version {VERSION}"
        raise HistoryError(path, None, "kind", problem, remedy)
    return Baseline(document.runs)


def write_baseline(path: Path, baseline: Baseline) -> None:
    """Write the file, sorted, so that a change of it can be reviewed; it appears by rename."""
    runs = {run: {check: checks[check] for check in sorted(checks)} for run, checks in sorted(baseline.runs.items())}
    data = msgspec.json.encode(_Document(KIND, VERSION, runs))
    write_whole(path, msgspec.json.format(data, indent=1) + b"\n")
