"""Whether the operations of clients on one log are linearizable, in the time of a sort.

A general search is exponential here; offsets make it polynomial (history-checks.md#linearizable-log-near-linear-time,
history-checks.md#why-it-is-exact). For every offset o let e[o] be the earliest and l[o] the latest time at which its
entry can have come into the log:

- e[o] is the invocation of its append; a read that found nothing at o, or a tail of o entries, raises it to its own
  invocation: the entry came later than that.
- l[o] is the completion of its append, for ever if its outcome is unknown; a read of o, or a tail of o + 1 entries,
  lowers it to its own completion: the entry was there by then.

Entries come in the order of their offsets. So the log is linearizable iff everywhere the prefix maximum of e is at most
the suffix minimum of l. Offsets below the end that nobody named are holes; appends of unknown outcome fill them, in
the order of their invocation: they have no deadline and l does not decrease, so no other order does better. Prefix
maximum and suffix minimum are associative, which lets one log be split by ranges of offsets.

`algorithm` works on arrays; `bounds` compares e with l, and puts the comparison together from ranges of offsets; `fold`
finds the arrays in a history, with the loop in `per_event` and the state in `state`. Only what acks=all (or no acks
level at all) promises is judged. Times are closed intervals: what happens at equal time stamps is concurrent.
A history whose clock stands still is ordered by ``seq``.

What each mixture of acks levels leaves: history-checks.md#acks-levels. What is left to `clients`: anomalies by their
names, and everything about the other acks levels.
"""

from .algorithm import Appends, Judgement, Outcome, Reads, judge
from .bounds import NEVER, Bounds, Ends, Range, merge, range_of
from .fold import FAMILY
from .rules import CHECK

__all__ = [
    "CHECK",
    "FAMILY",
    "NEVER",
    "Appends",
    "Bounds",
    "Ends",
    "Judgement",
    "Outcome",
    "Range",
    "Reads",
    "judge",
    "merge",
    "range_of",
]
