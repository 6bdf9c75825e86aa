"""Messages between nodes; recorded only at the detail ``messages``."""

from __future__ import annotations

import pyarrow as pa

from ..vocabulary import Column, EventKind, Vocabulary

_MESSAGE = ("node", "peer", "f", "message")

VOCABULARY = Vocabulary(
    "messages",
    "messages between nodes",
    kinds=(
        EventKind("send", "The node sent message `message` of type `f` to `peer`.", _MESSAGE),
        EventKind("receive", "The node received message `message` of type `f` from `peer`.", _MESSAGE),
    ),
    columns=(
        Column(24, "peer", pa.int32(), "the other node: voted for, sent to, received from"),
        Column(25, "message", pa.int64(), "number of the message, unique in the run; joins `send` and `receive`"),
    ),
)
