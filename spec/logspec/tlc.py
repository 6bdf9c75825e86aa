"""Running TLC and reading its output.

TLC is run in its tool mode, in which every message has a number; the numbers used here are the same in 2.15 and 2.18.
Output that is not understood is kept, so that a failure can be shown in TLC's words.
"""

from __future__ import annotations

import os
import re
import shutil
import signal
import subprocess
import tempfile
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import takewhile
from pathlib import Path
from typing import IO, Any

from logspec.errors import SpecError
from logspec.places import cache_directory, spec_directory
from logspec.tlavalue import parse_state
from logspec.toolchain import Toolchain, class_archive

HEAP = "4g"
EXIT_OK, EXIT_VIOLATED, EXIT_ACTION_VIOLATED = 0, 12, 13

_WITH_ITS_PARENT = (
    'exec 3<&0; "$@" </dev/null 3<&- & java=$!; (cat <&3; kill -9 $java) >/dev/null 2>&1 & '
    "exec 3<&-; wait $java; exit $?"
)
"""A shell that ends Java when its own standard input closes: so TLC never outlives this process, even if it is
killed."""

_FORGOTTEN_SECONDS = 24 * 3600
"""A run's directory that is older than this was left by a process that was killed."""

_START = re.compile(r"@!@!@STARTMSG (\d+):(\d+) @!@!@$")
_END = re.compile(r"@!@!@ENDMSG \d+ @!@!@$")
_NUMBER = r"([\d,]+)"
_PROGRESS = re.compile(
    rf"Progress\({_NUMBER}\).*?: {_NUMBER} states generated.*?, {_NUMBER} distinct.*?, {_NUMBER} states left", re.DOTALL
)
_WALKED = re.compile(rf"{_NUMBER} states (?:generated|checked)")
_TOTAL = re.compile(rf"{_NUMBER} states generated, {_NUMBER} distinct states found, {_NUMBER} states left")
_LOCATION = re.compile(r"line (\d+), col (\d+) to line (\d+), col (\d+) of module (\w+)")
_ACTION = re.compile(r"<(\w+) (line .* of module \w+)(?: \((\d+) (\d+) (\d+) (\d+)\))?>: ([\d,]+):([\d,]+)")
_COMBINES = re.compile(r"(Trace)?Next|Spec$")
_UNNAMED = "a temporal property"
"""What TLC says is violated where it does not say which one."""
_VIOLATED = re.compile(r"(?:Invariant|Action property|Property|Temporal property) (\S+) (?:is|was) violated")


@dataclass(frozen=True, slots=True)
class Step:
    """One state of a behaviour: the action that led to it and all variables."""

    action: str
    variables: dict[str, Any]


@dataclass(frozen=True, slots=True)
class Progress:
    """How far TLC has got: depth of the search, states generated, distinct ones, and those still to be explored."""

    depth: int
    generated: int
    distinct: int
    left: int


@dataclass(slots=True)
class Outcome:
    """The result of a run of TLC. ``violated`` names the invariant or property; ``actions`` counts steps by action.

    ``unvisited``: places that were never looked at. ``conjuncts``: by action those that were, in their order. Both with
    coverage alone.
    """

    status: int = -1
    seconds: float = 0.0
    depth: int = 0
    generated: int = 0
    distinct: int = 0
    left: int = 0
    violated: str | None = None
    behaviour: list[Step] = field(default_factory=list)
    actions: dict[str, int] = field(default_factory=dict)
    unvisited: list[str] = field(default_factory=list)
    conjuncts: dict[str, list[str]] = field(default_factory=dict)
    printed: list[str] = field(default_factory=list)
    errors: list[str] = field(default_factory=list)
    timed_out: bool = False


def run_tlc(
    tools: Toolchain,
    module: Path,
    configuration: str,
    *,
    extra_modules: Mapping[str, str] | None = None,
    workers: int = 2,
    coverage: bool = True,
    brief: bool = False,
    heap: str = HEAP,
    arguments: Iterable[str] = (),
    seconds: float | None = None,
    on_progress: Callable[[Progress], None] | None = None,
    on_print: Callable[[str], None] | None = None,
) -> Outcome:
    """Check ``module`` under a configuration in a separate directory, with every module beside it.

    ``brief`` runs take seconds: Java compiles them quickly but not well, which halves their processor time.
    ``extra_modules`` are generated ones (name -> text). A run that takes longer than ``seconds`` is stopped and says so
    in ``timed_out``. ``on_print`` receives what the specification prints instead of ``Outcome.printed``. The parameters
    are many because each is an option of TLC or of Java; all but the first three have defaults.
    """
    root = cache_directory() / "runs"
    root.mkdir(parents=True, exist_ok=True)
    _sweep(root)
    work = Path(tempfile.mkdtemp(prefix=f"{module.stem}-", dir=root))
    try:
        for file in module.parent.glob("*.tla"):
            shutil.copy(file, work)
        for name, text in (extra_modules or {}).items():
            (work / f"{name}.tla").write_text(text, encoding="utf-8")
        (work / f"{module.stem}.cfg").write_text(configuration, encoding="utf-8")
        command = [str(tools.java), *tools.options, f"-Xmx{heap}", "-Xss64m", f"-Djava.io.tmpdir={work}"]
        command += ["-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1"] if brief else ["-XX:+UseParallelGC"]
        command += ["-cp", str(tools.jar), "tlc2.TLC", "-tool", "-deadlock", "-workers", str(workers)]
        command += ["-metadir", str(work / "states"), *(["-coverage", "60"] if coverage else []), *arguments]
        command += [f"{module.stem}.tla"]
        outcome = _run(command, work, seconds, _Reader(work, on_progress, on_print))
        properties = [line.split()[1] for line in configuration.splitlines() if line.startswith("PROPERTY")]
        if outcome.violated == _UNNAMED and len(properties) == 1:
            outcome.violated = properties[0]
        return outcome
    finally:
        shutil.rmtree(work, ignore_errors=True)


_TYPICAL = """
INIT InitLed
NEXT NextLed
CONSTANT Node = {n1, n2, n3}
CONSTANT Nobody = Nobody
CONSTANT WriteCaching = FALSE
CONSTANT MaxTerm = 2
CONSTANT MaxLog = 2
CONSTANT MaxCrashes = 0
CONSTANT MaxPowerLosses = 0
CONSTANT AcksAsked <- OnlyRelaxed
INVARIANT TypeOk
PROPERTY RelaxedVisibleUnflushed
"""
"""A small run of `raft/MCProgress` in which TLC does most of what it can."""


def archive_classes(tools: Toolchain) -> None:
    """Write TLC's classes as Java has them in memory, so that later runs start in three quarters of the processor time.

    Nothing is written where Java cannot do that (before 13).
    """
    archive = class_archive(tools.jar)
    if archive.is_file() and archive.stat().st_mtime > tools.jar.stat().st_mtime:
        return
    with tempfile.TemporaryDirectory(dir=archive.parent) as scratch:
        made = Path(scratch) / archive.name
        options = ("-XX:+IgnoreUnrecognizedVMOptions", f"-XX:ArchiveClassesAtExit={made}", "-Xlog:disable")
        module = spec_directory() / "raft" / "MCProgress.tla"
        run_tlc(replace(tools, options=options), module, _TYPICAL, workers=1, brief=True)
        if made.is_file():
            made.replace(archive)


def _run(command: list[str], work: Path, seconds: float | None, reader: _Reader) -> Outcome:
    began = time.monotonic()
    try:
        process = subprocess.Popen(
            ["sh", "-c", _WITH_ITS_PARENT, "sh", *command],
            cwd=work,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            encoding="utf-8",
            errors="replace",
            start_new_session=True,
        )
    except OSError as problem:
        raise SpecError(f"{command[0]}: Java does not start: {problem}") from None
    outcome = reader.outcome

    def stop() -> None:
        outcome.timed_out = True
        _kill(process)

    timer = threading.Timer(seconds, stop) if seconds else None
    try:
        if timer:
            timer.daemon = True
            timer.start()
        assert process.stdout is not None
        reader.read(process.stdout)
        outcome.status = process.wait()
    finally:
        if timer:
            timer.cancel()
        if process.poll() is None:
            _kill(process)
            process.wait()
        for pipe in (process.stdin, process.stdout):
            if pipe is not None:
                pipe.close()
    outcome.seconds = time.monotonic() - began
    if not reader.started and not outcome.timed_out:
        reason = " ".join(outcome.printed[:2]) or f"it ended with status {outcome.status}"
        raise SpecError(f"TLC does not start: {reason}")
    return outcome


def _sweep(root: Path) -> None:
    """Remove what killed runs have left here."""
    for place in root.iterdir():
        try:
            if time.time() - place.stat().st_mtime > _FORGOTTEN_SECONDS:
                shutil.rmtree(place, ignore_errors=True)
        except OSError:
            continue  # another process was faster


def _kill(process: subprocess.Popen[str]) -> None:
    try:
        os.killpg(process.pid, signal.SIGKILL)
    except ProcessLookupError:
        return


class _Reader:
    """Turns TLC's messages into an ``Outcome``."""

    def __init__(
        self,
        work: Path,
        on_progress: Callable[[Progress], None] | None,
        on_print: Callable[[str], None] | None,
    ) -> None:
        self.outcome = Outcome()
        self.names = ActionNames(work)
        self.started = False
        self.action = ""  # that coverage is about
        self.visits: dict[str, int] = {}
        self.on_progress = on_progress
        self.on_print = on_print or self.outcome.printed.append

    def read(self, stream: IO[str]) -> None:
        for code, severity, text in _messages(stream):
            if code is None:
                if not text.startswith(("Parsing file ", "Semantic processing ", "Linting ")):
                    self.on_print(text)
            else:
                self.started = True
                self._message(code, severity, text)
        self.outcome.unvisited = [self.names.source(place) for place, count in self.visits.items() if count == 0]

    def _message(self, code: int, severity: int, text: str) -> None:
        outcome = self.outcome
        if code == 2200:
            match = _PROGRESS.search(text)
            if match and self.on_progress:
                self.on_progress(Progress(*(_integer(group) for group in match.groups())))
        elif code == 2209:  # random behaviours
            match = _WALKED.search(text)
            if match:
                outcome.generated = _integer(match[1])
                if self.on_progress:
                    self.on_progress(Progress(0, outcome.generated, 0, 0))
        elif code == 2199:
            match = _TOTAL.search(text)
            if match:
                outcome.generated, outcome.distinct, outcome.left = (_integer(group) for group in match.groups())
        elif code == 2194:
            outcome.depth = int("".join(re.findall(r"\d", text)) or 0)
        elif code in (2217, 2218):
            head, _, body = text.partition("\n")
            outcome.behaviour.append(Step(self.names.of(head), parse_state(body)))
        elif code in (2772, 2774, 2773):
            match = _ACTION.search(text)
            self.action = ""
            if match and code == 2772:
                self.action = self.names.of(text)
                outcome.actions[self.action] = outcome.actions.get(self.action, 0) + _integer(match[8])
        elif code == 2221:
            match = re.search(r"(line .*): ([\d,]+)", text)
            if match:  # the same place may be counted several times, once for each action that it is part of
                self.visits[match[1]] = self.visits.get(match[1], 0) + _integer(match[2])
                conjunct = self.names.conjunct(match[1]) if self.action and "|" not in text else None
                if conjunct and match[2] != "0":
                    outcome.conjuncts.setdefault(self.action, []).append(conjunct)
        elif code == 2116:
            outcome.violated = _UNNAMED
        elif (match := _VIOLATED.search(text)) is not None and severity == 1:
            outcome.violated = match[1]
        elif severity == 1 and code not in (2121, 2264):
            outcome.errors.append(text)


def _integer(text: str) -> int:
    return int(text.replace(",", ""))


def _messages(stream: IO[str]) -> Iterator[tuple[int | None, int, str]]:
    """Yield (number, severity, text) of each message; a line outside of messages is printed by the specification."""
    code, severity, lines = None, 0, list[str]()
    for raw in stream:
        line = raw.rstrip("\n")
        begin = _START.search(line)
        if begin:
            code, severity, lines = int(begin[1]), int(begin[2]), []
        elif _END.search(line):
            yield code, severity, "\n".join(lines)
            code = None
        elif code is None:
            if line:
                yield None, 0, line
        else:
            lines.append(line)


class ActionNames:
    """Names of actions. TLC names an action chosen by ``\\E x \\in S : A(x)`` after the formula that has the ``\\E``;
    the name wanted is that of ``A``, which stands in the module's text at the place that TLC gives."""

    def __init__(self, directory: Path) -> None:
        self._texts = {file.stem: file.read_text(encoding="utf-8").splitlines() for file in directory.glob("*.tla")}
        self._actions = frozenset(_actions(self._texts.values()))

    def source(self, place: str) -> str:
        """Return where a place is and the text that stands there, for a person."""
        found = _LOCATION.search(place)
        if found is None:
            return place
        first, left, last, right = (int(x) for x in found.groups()[:4])
        lines = self._texts.get(found[5], [""] * last)[first - 1 : last]
        lines[-1] = lines[-1][:right]
        lines[0] = lines[0][left - 1 :]
        return f"line {first} of {found[5]}: {' '.join(' '.join(lines).split())}"

    def conjunct(self, place: str) -> str | None:
        """Return where the conjunct, or the whole definition, stands that begins at a place, and its text; None if none
        begins there."""
        found = _LOCATION.search(place)
        if found is None:
            return None
        first, left = int(found[1]), int(found[2]) - 1
        head, *rest = self._texts.get(found[5], [""] * first)[first - 1 :]
        before = head[:left].rstrip()
        if not before.endswith(("/\\", "==")):
            return None
        indented = len(before) - len("/\\")
        more = takewhile(lambda line: len(line) - len(line.lstrip()) > indented, rest)
        text = _one_conjunct(" ".join([head[left:], *more]))
        return f"line {first} of {found[5]}: {text}"

    def of(self, text: str) -> str:
        """Return the name of the action in a line such as ``<Next line 80, col 8 to ... of module M>``."""
        if "<Initial predicate>" in text:
            return "Initial"
        named = re.search(r"<(\w+) ", text)
        place = _LOCATION.search(text)
        if named is None or place is None:
            return text.strip()
        if not _COMBINES.match(named[1]):
            return named[1]
        inner = re.search(r"\((\d+) (\d+) (\d+) (\d+)\)", text)
        first, left, last, right = (int(x) for x in (inner.groups() if inner else place.groups()[:4]))
        lines = self._texts.get(place[5], [])[first - 1 : last]
        if not lines:
            return named[1]
        lines[-1] = lines[-1][:right]
        lines[0] = lines[0][left - 1 :]
        for word in re.findall(r"\w+", " ".join(lines)):
            if word in self._actions:
                return str(word)
        return named[1]


def _one_conjunct(text: str) -> str:
    """Return the text up to the next conjunct beside it, and without a comment."""
    depth = 0
    for match in re.finditer(r"/\\|\\\*|[\[({]|[\])}]", text):
        if depth == 0 and match[0] in ("/\\", "\\*"):
            text = text[: match.start()]
            break
        depth += (match[0] in "[({") - (match[0] in "])}")
    return " ".join(text.split())


def _actions(modules: Iterable[Sequence[str]]) -> set[str]:
    """Return the operators that are steps: their definition primes a variable, or is made of one that does."""
    bodies = {name: body for lines in modules for name, body in _definitions(lines) if not _COMBINES.match(name)}
    found = {name for name, body in bodies.items() if "UNCHANGED" in body or re.search(r"\w'", body)}
    more = found
    while more:
        more = {
            name
            for name, body in bodies.items()
            if name not in found and not found.isdisjoint(re.findall(r"\w+", body))
        }
        found |= more
    return found


def _definitions(lines: Sequence[str]) -> Iterator[tuple[str, str]]:
    """Yield each operator of a module with the text of its definition, without comments."""
    name, body = "", list[str]()
    for line in [*lines, "===="]:
        head = re.match(r"(\w+)(?:\([^)]*\))? ==", line)
        if head or line.startswith(("----", "====")):
            if name:
                yield name, re.sub(r"\\\*[^\n]*|\(\*.*?\*\)", "", "\n".join(body))
            name, body = (head[1], [line[head.end() :]]) if head else ("", [])
        else:
            body.append(line)
