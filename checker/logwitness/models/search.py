"""The search for an order that explains every answer: Porcupine, by linearizability-checker (extra ``porcupine``).

Nothing else asks for that distribution, and it is imported with the first question.
Source: history-checks.md#porcupine-as-the-search-engine.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Final

from .choice import Model
from .operations import Operation, Unanswered, Value

if TYPE_CHECKING:
    from linearizability_checker import Checker, Result

_NAMES: Final = {
    Model.REGISTER: "cas-register",
    Model.CAS_REGISTER: "cas-register",
    Model.KEY_VALUE: "key-value",
    Model.SET: "set",
    Model.QUEUE: "queue",
}
"""What Porcupine's models are called."""


class SearchMissing(RuntimeError):  # noqa: N818 - the name says what is wrong
    """Porcupine is not installed, or its worker cannot be started: one sentence that says what to do."""


@dataclass(frozen=True, slots=True)
class Specification:
    """A model and the value that each register or key begins with."""

    model: Model
    initial: Value = None


def can_search() -> bool:
    """Whether Porcupine is installed with its worker."""
    try:
        from linearizability_checker.process import WORKER
    except ImportError:
        return False
    return WORKER.is_file()


class Search:
    """A worker of Porcupine's to ask, started with the first question, as a context manager.

    ``timeout`` is in seconds for each question and ``memory`` in bytes for the worker; None means no limit.
    """

    def __init__(self, *, timeout: float | None, memory: int | None) -> None:
        self._timeout = timeout
        self._memory = memory
        self._checker: Checker | None = None

    def __enter__(self) -> Search:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._checker is not None:
            self._checker.close()

    def ask(
        self,
        specification: Specification,
        operations: Sequence[Operation],
        seconds: float | None = None,
        *,
        explain: bool = True,
        page: Path | None = None,
    ) -> Result:
        """Whether some order explains the operations; ``page`` is a path for Porcupine's page (HTML).

        ``seconds`` is a limit for this question, where it is less than that of all; ``explain`` asks how far the search
        came. SearchMissing; ValueError for what is no history of the model; OSError if the page cannot be written.
        """
        try:
            import linearizability_checker as porcupine
            from linearizability_checker import MODELS, Outcome, WorkerMissing
        except ImportError:
            raise SearchMissing(
                "this takes a search, and Porcupine is not installed: install the extra, "
                "pip install 'logwitness[porcupine]'"
            ) from None
        ended = {each: Outcome(each.value) for each in Unanswered}
        translated = [
            porcupine.Operation(
                each.process,
                each.call,
                each.return_,
                each.input,
                ended[each.output] if isinstance(each.output, Unanswered) else each.output,
            )
            for each in operations
        ]
        if self._checker is None:
            self._checker = porcupine.Checker(timeout=self._timeout, memory_limit=self._memory)
        model = MODELS[_NAMES[specification.model]].starting(specification.initial)
        try:
            return self._checker.check_operations(
                model, translated, within=seconds, explain=explain, visualization=page
            )
        except WorkerMissing as missing:
            raise SearchMissing(str(missing)) from None
