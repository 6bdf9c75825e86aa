"""Hunting: run after run until the checker rejects one.

A mutant is rejected when one of the checks listed with it is violated; the reference and a developer's rules are
rejected when any check is violated, when a run does not converge, or when a core or a disk breaks down; either, when
virtual time stands still.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from functools import partial

from quorumlog.hunting.judge import RUN_SECONDS, Candidate, Judged, Rejection, judge_seed
from quorumlog.hunting.parallel import in_order

_IN_PROCESS = 8
"""Seeds that are tried before helpers are started: most hunts end sooner than a process starts."""


def hunt(
    candidate: Candidate,
    seeds: Sequence[int],
    *,
    processes: int = 2,
    progress: Callable[[int], None] = lambda tried: None,
) -> Rejection | None:
    """Return the rejection of the first seed that is rejected, in the order of ``seeds``; None if none is.

    ``progress`` is called with the number of seeds tried so far. Raises `HelperError`, and `TimeoutError` for a run
    that cannot be given up: it sleeps, or catches all that is raised.
    """
    runs = _judged(candidate, seeds, processes)
    for tried, seed in enumerate(seeds, start=1):
        try:
            judged = next(runs)
        except TimeoutError:
            sentence = f"the run with seed {seed} did not end within {2 * RUN_SECONDS:g} s of processor time"
            raise TimeoutError(sentence) from None
        progress(tried)
        if judged.rejections:
            return judged.rejections[0]
    return None


def _judged(candidate: Candidate, seeds: Sequence[int], processes: int) -> Iterator[Judged]:
    alone = processes <= 1 and candidate.rules is None  # rules may loop: only a helper can be given up
    early = 0 if candidate.rules is not None else _IN_PROCESS
    first, rest = (seeds, ()) if alone else (seeds[:early], seeds[early:])
    for seed in first:
        yield judge_seed(candidate, seed)
    if rest:
        yield from in_order(partial(judge_seed, candidate), rest, processes, seconds=2 * RUN_SECONDS)


__all__ = ["hunt"]
