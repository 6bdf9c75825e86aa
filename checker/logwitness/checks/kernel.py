"""Loops over columns, written once, run as Python or as machine code.

A loop in which order matters is a function over NumPy arrays in the subset of Python that numba compiles. A
short history runs it as it stands and pays nothing; for a long one it is compiled, once per machine, if numba
(the extra ``fast``) is installed. ``@kernel`` marks a loop that is called from Python, ``@part`` a function
that loops call, and ``@step`` one that a loop calls in a single place.

Loops are longer than other functions, and some parts have many parameters: a compiled loop has no objects, its state is
arrays that are handed on, and a part that is called between two others costs more than the lines that it saves.
"""

from __future__ import annotations

import contextlib
import fcntl
import functools
import hashlib
import importlib.util
import inspect
import os
import platform
import shutil
from collections.abc import Callable
from importlib import metadata
from pathlib import Path
from typing import Any, Generic, ParamSpec, TypeVar, cast

from . import codes

P = ParamSpec("P")
R = TypeVar("R")

WORTH_LOADING = 100_000
"""Events from which on it pays to load numba and machine code made earlier (half a second)."""

WORTH_COMPILING = 5_000_000
"""Events from which on it pays to make the machine code: it takes a hundred seconds, once per machine, and an event of
a Raft run 25 us without it, 2 to 5 us with it."""

_VERSIONS_KEPT = 8
_MADE = "made"

_parts: list[Callable[..., Any]] = []
_steps: set[Callable[..., Any]] = set()
_registered: set[Callable[..., Any]] = set()
_kernels: list[Kernel[..., Any]] = []
_judged_plainly = 0


def compiled_pays(events: int | None) -> bool:
    """Whether a history of so many events (None: unknown) is worth compiled loops.

    What this process judged without them counts as well, so that many small runs get there too.
    """
    global _judged_plainly
    if not available():
        return False
    _judged_plainly += events or 0
    if _judged_plainly < WORTH_LOADING:
        return False
    return _judged_plainly >= WORTH_COMPILING or _made()


@functools.cache
def available() -> bool:
    """Whether numba (the extra ``fast``) is installed, so that kernels can be compiled."""
    return importlib.util.find_spec("numba") is not None


def part(function: Callable[P, R]) -> Callable[P, R]:
    """Mark a function that kernels call. It stays an ordinary function."""
    _parts.append(function)
    return function


def step(function: Callable[P, R]) -> Callable[P, R]:
    """Mark a function that a kernel calls in one place, often: its machine code is put there.

    To describe all columns of a state to a function takes longer than what most of them do.
    """
    _steps.add(function)
    return part(function)


class Kernel(Generic[P, R]):
    """A loop with two forms of the same source: `plain` and, made on first use, `compiled`."""

    def __init__(self, function: Callable[P, R]) -> None:
        self.__doc__ = function.__doc__
        self.plain = function
        _kernels.append(self)

    @functools.cached_property
    def _dispatcher(self) -> Callable[P, R]:
        return _compile(self.plain)

    @functools.cached_property
    def compiled(self) -> Callable[P, R]:
        """The loop as machine code. Needs numba."""
        return _first_call_alone(self._dispatcher, f"{self.plain.__module__}.{self.plain.__qualname__}")

    def form(self, compiled: bool) -> Callable[P, R]:
        """The loop as machine code, or as it stands."""
        return self.compiled if compiled else self.plain

    def often(self, compiled: bool) -> Callable[P, R]:
        """The same for who calls it again and again with the same tuples of arrays, and other numbers.

        numba looks at the type of every array at every call, which takes twenty times as long as handing them over.
        """
        return _Often(self.compiled, self._dispatcher) if compiled else self.plain


class _Often(Generic[P, R]):
    """A loop as machine code; it keeps what it was called with last, the types of which are known."""

    def __init__(self, loop: Callable[P, R], dispatcher: Any) -> None:  # noqa: ANN401
        self._loop = loop
        self._overloads = dispatcher.overloads
        self._last: tuple[Any, ...] = ()
        self._entry: Callable[..., R] | None = None

    def __call__(self, *args: P.args, **kwargs: P.kwargs) -> R:
        if self._entry is not None and not kwargs and all(map(_same, args, self._last)):
            return self._entry(*args)
        found = self._loop(*args, **kwargs)
        # Of a loop that was compiled for several types it is not known which one this was.
        if len(self._overloads) > 1:
            self._entry = None
        elif self._entry is None:
            self._entry = next(iter(self._overloads.values())).entry_point
        self._last = args
        return found


def _same(one: object, other: object) -> bool:
    return one is other or type(one) is type(other) is int


def kernel(function: Callable[P, R]) -> Kernel[P, R]:
    """Mark a loop that Python calls with whole columns."""
    return Kernel(function)


@functools.cache
def _options() -> dict[str, bool]:
    """Options of the compiler that this version of it knows.

    Kernels allocate nothing. Without the run-time system numba does not count references to each array of each tuple
    at each call, which makes them several times faster. They leave Python to the thread that reads ahead.
    """
    numba: Any = importlib.import_module("numba")
    options = {"_nrt": False, "nogil": True}
    try:
        numba.njit(**options)(_nothing)
    except (KeyError, TypeError):
        return {"nogil": True}
    return options


def _nothing() -> None:
    """What compiler options are tried on."""


def _register_parts() -> None:
    """Tell numba of the parts that it does not know yet."""
    register: Any = importlib.import_module("numba.extending").register_jitable
    options = _options()
    for function in [each for each in _parts if each not in _registered]:
        _registered.add(function)
        # Nobody but kernels calls a part. To hand it a state, hundreds of words, takes longer than what most do.
        inline = "always" if function in _steps else "never"
        register(inline=inline, forceinline=True, no_cfunc_wrapper=True, **options)(function)


def _compile(function: Callable[P, R]) -> Callable[P, R]:
    numba: Any = importlib.import_module("numba")
    _register_parts()
    directory = _cache_directory()
    if directory is None:
        return cast("Callable[P, R]", numba.njit(**_options())(function))
    # numba looks at the file of the loop only; a cache directory named by all sources also sees a change in a part.
    before = numba.config.CACHE_DIR
    numba.config.CACHE_DIR = str(directory)
    try:
        return cast("Callable[P, R]", numba.njit(cache=True, **_options())(function))
    finally:
        numba.config.CACHE_DIR = before


def _first_call_alone(function: Callable[P, R], name: str) -> Callable[P, R]:
    """The same loop; of several processes that need its machine code at once, one makes it and the others wait."""
    directory = _cache_directory()
    if directory is None:
        return function
    called = False

    def loop(*args: P.args, **kwargs: P.kwargs) -> R:
        nonlocal called
        if called:
            return function(*args, **kwargs)
        with contextlib.ExitStack() as held:
            with contextlib.suppress(OSError):  # the cache may be gone by now: then it is made without others' knowing
                fcntl.flock(held.enter_context((directory / f"{name}.lock").open("w")), fcntl.LOCK_EX)
            found = function(*args, **kwargs)
        called = True
        return found

    return loop


@functools.cache
def _cache_directory() -> Path | None:
    """Where machine code is kept, by the sources it was made from and where they lie; None if nowhere."""
    importlib.import_module(__package__).families()  # whose loops may not be known yet
    sources = {inspect.getsourcefile(function) for function in _parts}
    sources |= {inspect.getsourcefile(each.plain) for each in _kernels}
    sources |= {inspect.getsourcefile(codes), __file__}
    digest = hashlib.sha256(f"{metadata.version('numba')} {platform.python_version()} {platform.machine()}".encode())
    digest.update(codes.FROZEN.encode())
    for source in sorted(source for source in sources if source is not None):
        # numba does not take what it made for a file of another place, or of another time.
        digest.update(f"{source} {Path(source).stat().st_mtime_ns}".encode())
        digest.update(Path(source).read_bytes())
    root = os.environ.get("XDG_CACHE_HOME") or str(Path.home() / ".cache")
    directory = Path(root) / "logwitness" / "kernels" / digest.hexdigest()[:16]
    try:
        if not directory.exists():
            _discard_old(directory.parent)
        directory.mkdir(parents=True, exist_ok=True)
    except OSError:
        return None
    return directory if os.access(directory, os.W_OK) else None


def _discard_old(root: Path) -> None:
    """Leave the machine code of the last few versions; several may be in use at once."""
    found = [each for each in root.iterdir() if each.is_dir()] if root.exists() else []
    for each in sorted(found, key=lambda each: each.stat().st_mtime)[:-_VERSIONS_KEPT]:
        shutil.rmtree(each, ignore_errors=True)


def _made() -> bool:
    """Whether machine code for these sources is in the cache already, all that some history needed."""
    directory = _cache_directory()
    return directory is not None and (directory / _MADE).exists()


def all_made() -> None:
    """Say that a history was judged by compiled loops to its end, so that the cache has what the next one needs."""
    directory = _cache_directory()
    if directory is not None and not _made() and any(directory.rglob("*.nbi")):
        with contextlib.suppress(OSError):
            (directory / _MADE).touch()
