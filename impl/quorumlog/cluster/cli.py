"""The command ``logwitness cluster``.

Exit statuses: 0 the run is recorded; 2 bad usage, or the cluster or its history could not be made; 3 the run is
recorded, but its nodes did not agree in time after everything was healed; 130 interrupted.
"""

from __future__ import annotations

import asyncio
import contextlib
import fcntl
import secrets
import shutil
import signal
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NoReturn, Self

import click
import msgspec
from rich.console import Console
from rich.table import Table

from loghistory import HistoryError, Kind, open_run
from quorumlog.cluster.faults import CHOICES
from quorumlog.cluster.processes import ClusterError
from quorumlog.cluster.run import Result, play
from quorumlog.cluster.stage import Setting
from quorumlog.cluster.staging import by_default, staged_protocols, staging
from quorumlog.durations import parse_duration
from quorumlog.node.configuration import LEAST_RETENTION
from quorumlog.run_directory import NoRoomError, check_command, check_room

PROTOCOLS = staged_protocols()
_ACKS = {-1: "all", 1: "leader", 0: "none"}
_OPERATIONS = {
    "read": "reads",
    "read_committed": "reads of committed",
    "read_linearizable": "linearizable reads",
    "tail": "tail reads",
    "final_read": "final reads",
}
_OF_CLIENTS = (Kind.INVOKE, Kind.OBSERVE, Kind.OK, Kind.FAIL, Kind.INFO)
_MOST_KINDS = 8


class _Seconds(click.ParamType):  # type: ignore[type-arg,unused-ignore]
    name = "seconds"

    def convert(self, value: object, param: click.Parameter | None, ctx: click.Context | None) -> float:
        text = str(value)
        with contextlib.suppress(ValueError):
            seconds = float(text) if text.replace(".", "", 1).isdecimal() else parse_duration(text) / 1e9
            if 1 <= seconds <= 3600:
                return seconds
        return self.fail(f"{text!r} is not a time from 1 s to 1 h; write one like 10 or 10s", param, ctx)


class _Faults(click.ParamType):  # type: ignore[type-arg,unused-ignore]
    name = "faults"

    def convert(self, value: object, param: click.Parameter | None, ctx: click.Context | None) -> tuple[str, ...]:
        if isinstance(value, tuple):
            return value
        words = tuple(word.strip() for word in str(value).split(",") if word.strip())
        if words == ("none",):
            return ()
        known = self._known(param, ctx)
        for word in words:
            if word not in known:
                whose = " and ".join(name for name in PROTOCOLS if word in _faults_of(name))
                wrong = f"is a fault of {whose} only (--protocol)" if whose else "is unknown"
                self.fail(f"{word!r} {wrong}; give none, or some of {', '.join(known)}", param, ctx)
        if not words:
            self.fail(f"give none, or some of {', '.join(known)}", param, ctx)
        return words

    def _known(self, param: click.Parameter | None, ctx: click.Context | None) -> tuple[str, ...]:
        """Those of the protocol that was asked for; its option is read before the others."""
        name = ctx.params.get("protocol") if ctx is not None else None
        if name is None:
            return self.fail("which protocol is meant? Name it with --protocol", param, ctx)
        try:
            return staging(name).faults
        except ClusterError as error:
            _refuse(str(error))


def _faults_of(protocol: str) -> tuple[str, ...]:
    """The faults of a protocol; none if a library is missing for it."""
    try:
        return staging(protocol).faults
    except ClusterError:
        return ()


class _Option(click.ParamType):  # type: ignore[type-arg,unused-ignore]
    name = "name=value"

    def convert(self, value: object, param: click.Parameter | None, ctx: click.Context | None) -> tuple[str, Any]:
        if isinstance(value, tuple):
            return value
        name, equals, said = str(value).partition("=")
        if not equals or not name:
            self.fail(f"{value!r} is not NAME=VALUE", param, ctx)
        try:
            return name, msgspec.json.decode(said)
        except msgspec.MsgspecError:
            return name, said


@click.command(short_help="Run real nodes under load and faults.")
@click.option(
    "--protocol",
    type=click.Choice(PROTOCOLS),
    default=by_default,
    is_eager=True,
    help="The protocol to run.  [default: raft]",
)
@click.option("--nodes", type=click.IntRange(1, 15), default=3, show_default=True, help="How many nodes.")
@click.option("--duration", type=_Seconds(), default="10", show_default=True, help="Seconds of load and faults.")
@click.option(
    "--seed", type=click.IntRange(0, 2**63 - 1), help="The number that decides faults and load; random if omitted."
)
@click.option("--clients", type=click.IntRange(0, 500), default=6, show_default=True, help="How many clients.")
@click.option(
    "--faults",
    type=_Faults(),
    default="kill,stop,cut",
    show_default=True,
    help=f"A comma-separated list of {', '.join(CHOICES)} and of what the protocol has of its own; or none.",
)
@click.option(
    "--groups",
    type=click.IntRange(1, 200),
    default=1,
    show_default=True,
    help="How many groups each node holds, each with a log and at least one client of its own.",
)
@click.option("--write-caching", is_flag=True, help="Acknowledge acks=all without a flush.")
@click.option(
    "--retention",
    metavar="BYTES",
    type=click.IntRange(min=LEAST_RETENTION),
    help="How much of its log each node keeps; committed segments beyond that are removed.  [default: everything]",
)
@click.option(
    "--set", "options", type=_Option(), multiple=True, help="Replace a value of the protocol's configuration."
)
@click.option("-o", "--output", type=click.Path(path_type=Path), help="The run directory.  [default: out/cluster-SEED]")
@click.option("--force", is_flag=True, help="Replace an existing run.")
def cluster(
    seed: int | None,
    output: Path | None,
    force: bool,
    options: tuple[tuple[str, Any], ...],
    **setting: Any,  # noqa: ANN401
) -> None:
    """Run real nodes on this machine under load and faults, and record what happened.

    Each node is a process that replicates over TCP on the loopback and writes to real files. The seed decides which
    faults happen when, and what the clients ask; the rest depends on the machine, so no two runs are the same.

    \b
    logwitness cluster --faults kill
    logwitness cluster --nodes 5 --duration 20 --output runs/five
    logwitness cluster --retention 65536 --faults kill,stop
    logwitness cluster --set election_timeout=1000
    logwitness cluster --groups 100 --faults kill-leader
    """
    seed = secrets.randbelow(2**32) if seed is None else seed
    run = Setting(seed=seed, options=dict(options), **setting)
    directory = output if output is not None else Path("out") / f"cluster-{seed}"
    click.echo(f"seed {seed}")
    began = time.monotonic()
    try:
        with _Interruption() as interruption, _room(directory, force=force) as (work, fresh), _progress() as report:
            result = asyncio.run(_interruptible(interruption, run, work, fresh, directory.name, report))
    except (ClusterError, HistoryError, NoRoomError) as error:
        _refuse(str(error))
    except OSError as error:
        _refuse(f"{error.filename or directory}: {error.strerror or error}")
    except (KeyboardInterrupt, asyncio.CancelledError):
        click.echo("interrupted; all nodes are stopped and nothing was written", err=True)
        sys.exit(130)
    _show_result(result, run, directory, time.monotonic() - began)
    for problem in result.problems:
        click.echo(problem, err=True)
    click.echo(f"run in {directory}; judge it with: {check_command(directory)}")
    if not result.agreed:
        sys.exit(3)


class _Interruption:
    """SIGINT, SIGTERM and SIGHUP: the first one cancels the run, and later ones do not interrupt the clean-up."""

    def __init__(self) -> None:
        self._before: dict[int, Any] = {}
        self._heard = False
        self._cancel: Callable[[], object] | None = None

    def __enter__(self) -> Self:
        for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
            if signal.getsignal(number) is not signal.SIG_IGN:
                self._before[number] = signal.signal(number, self._hear)
        return self

    def __exit__(self, *error: object) -> None:
        for number, handler in self._before.items():
            signal.signal(number, signal.SIG_IGN if self._heard else handler)

    def _hear(self, *_: object) -> None:
        if self._heard:
            return
        self._heard = True
        if self._cancel is None:
            raise KeyboardInterrupt
        self._cancel()

    def cancels(self, task: asyncio.Task[Any]) -> None:
        """From now on it is this task that is cancelled."""
        loop = asyncio.get_running_loop()
        self._cancel = lambda: loop.call_soon_threadsafe(task.cancel)


async def _interruptible(
    interruption: _Interruption, setting: Setting, work: Path, output: Path, name: str, report: Callable[[str], None]
) -> Result:
    """Play the run; an interruption cancels it, which stops all nodes. Raises what `play` raises."""
    command = ["logwitness", *sys.argv[1:]]
    task = asyncio.create_task(play(setting, work, output, name, command, report))
    interruption.cancels(task)
    try:
        return await task
    except ExceptionGroup as group:  # several clients may fail at once, all for one reason
        first: Exception = group
        while isinstance(first, ExceptionGroup):
            first = first.exceptions[0]
        raise first from None


@contextmanager
def _room(directory: Path, *, force: bool) -> Iterator[tuple[Path, Path]]:
    """A directory to work in and one to write the run to, both beside ``directory``; the run gets its name at the end.

    Raises `NoRoomError` if there is something else already, `ClusterError` if another process is making the same run.
    """
    check_room(directory, force=force)
    directory.parent.mkdir(parents=True, exist_ok=True)
    work = directory.with_name(f".{directory.name}.work")
    if work.exists() and not force:
        raise ClusterError(
            f"{work}: left by a run that was killed or is still going on; remove it, or replace it with --force"
        )
    work.mkdir(exist_ok=True)
    with (work / "lock").open("w") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise ClusterError(f"{work}: another process is making this run; name another directory with -o") from None
        for left in work.iterdir():
            if left.is_dir():
                shutil.rmtree(left)
            elif left.name != "lock":
                left.unlink()
        try:
            yield work, work / "run"
            if directory.exists():
                shutil.rmtree(directory)
            (work / "run").rename(directory)
        finally:
            shutil.rmtree(work, ignore_errors=True)


@contextmanager
def _progress() -> Iterator[Callable[[str], None]]:
    """A status line that says what is going on, if standard error is a terminal."""
    console = Console(stderr=True)
    if not console.is_terminal:
        yield lambda _: None
        return
    with console.status("") as status:
        yield status.update


def _show_result(result: Result, setting: Setting, directory: Path, took: float) -> None:
    """What happened, as a table."""
    table = Table(show_header=False, box=None, pad_edge=False)
    table.add_column(style="bold")
    table.add_column()
    kinds: Counter[str] = Counter()
    leaders = []
    faults: Counter[str] = Counter()
    for batch in open_run(directory).batches(columns=["kind", "node", "term", "f"]):
        columns = (batch.column(name).to_pylist() for name in ("kind", "node", "term", "f"))
        for kind, node, term, f in zip(*columns, strict=True):
            kinds[kind] += 1
            if kind == Kind.LEADER:
                leaders.append(f"node {node} in term {term}")
            elif kind == Kind.FAULT:
                faults[f] += 1
    groups = f", {setting.groups} groups in each" if setting.groups > 1 else ""
    caching = ", write caching" if setting.write_caching else ""
    table.add_row("nodes", f"{setting.nodes} processes{groups}{caching}")
    if setting.retention is not None:
        table.add_row("retention", f"{setting.retention} bytes of log on each node")
    table.add_row("time", f"{setting.duration:g} s of load, {took:.1f} s in all")
    table.add_row("faults", ", ".join(f"{n} {name.replace('_', ' ')}" for name, n in sorted(faults.items())) or "none")
    if leaders:
        named = f": {', '.join(leaders)}" if setting.groups == 1 else ""
        table.add_row("elections", f"{len(leaders)} won{named}")
    for acks, word in _ACKS.items():
        _row(table, f"appends, acks {word}", result.counts, "append", acks)
    others = sorted({f for f, acks, _ in result.counts if acks is None} - _OPERATIONS.keys())
    for f, word in {**_OPERATIONS, **{f: f.replace("_", " ") for f in others}}.items():
        _row(table, word, result.counts, f, None)
    frequent = [(n, kind) for kind, n in kinds.most_common() if kind not in _OF_CLIENTS]
    of_nodes = [f"{n} {kind}" for n, kind in frequent[:_MOST_KINDS]]
    if rest := sum(n for n, _ in frequent[_MOST_KINDS:]):
        of_nodes.append(f"{rest} others")
    table.add_row("events", f"{result.events}; of nodes " + ", ".join(of_nodes))
    table.add_row("after healing", "all nodes agree" if result.agreed else "the nodes did NOT agree")
    Console().print(table)


def _row(table: Table, title: str, counts: Counter[tuple[str, int | None, str]], f: str, acks: int | None) -> None:
    """One kind of operation, by how it ended."""
    completed = {how: n for (name, level, how), n in sorted(counts.items(), key=str) if (name, level) == (f, acks)}
    words = {
        how: how.replace("fail", "failed:", 1).replace("info", "unknown:", 1).replace("_", " ") for how in completed
    }
    if completed:
        first = [f"{completed['ok']} ok"] if "ok" in completed else []
        table.add_row(title, ", ".join(first + [f"{n} {words[how]}" for how, n in completed.items() if how != "ok"]))


def _refuse(problem: str) -> NoReturn:
    click.echo(f"logwitness: {problem}", err=True)
    sys.exit(2)
