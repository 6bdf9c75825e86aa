"""The check that `fold` judges, and the ways in which a log is not linearizable."""

from __future__ import annotations

from loghistory.schema import Kind

from ..contract import Check

CHECK = Check(
    id="linearizable-log",
    rule="Appends, reads and tails take effect one after the other, each between its invocation and its completion. No "
    "tail counts a part of a batch.",
    source=("history-checks.md#linearizable-log-near-linear-time", "history-checks.md#appended-at-once"),
    fact="an offset whose entry is known, a tail, or a read that found nothing",
    sentence={
        "two values": "Value {first} and value {second} are both at offset {offset}.",
        "two offsets": "Value {value} is at offset {first} and at offset {second}.",
        "never appended": "Value {value} was read at offset {offset} but never appended.",
        "failed": "Value {value} was read at offset {offset} although its append failed.",
        "holes": "Below offset {end}, {holes:offset holds|offsets hold} nothing that is known, and only "
        "{appends:append|appends} of unknown outcome could be there: entries are lost.",
        "part": "A tail of {tail:entry|entries} was returned, but value {value} is at offsets {offset} to {last}.",
        "too late": "It was known that {known}, and only then {later}.",
    },
    kinds=(Kind.INVOKE, Kind.OK),
    columns=("op", "f", "offset", "value"),
    looks_back=True,
)
