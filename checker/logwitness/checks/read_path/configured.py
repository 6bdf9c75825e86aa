"""Nodesets, readers and shards are as the configuration of the run has them.

Source: read-path.md#nodesets-as-configured.
"""

from __future__ import annotations

from loghistory.schema import Kind
from loghistory.vocabularies.read_path import NodeWord

from ..codes import code, codes, word_code
from ..columns import Columns
from ..configured import SENTENCES, AsConfiguredFold
from ..contract import Check, Family
from .protocol import READ_PATH

CHECK = Check(
    id="nodesets-as-configured",
    rule="Records are replicated, and readers set, as the configuration of the run says, and there are no more shards, "
    "sequencers and readers than it has.",
    source=("read-path.md#nodesets-as-configured",),
    fact="a nodeset, the settings of a stream, or a node that takes part, of which the configuration says something",
    sentence=SENTENCES,
    kinds=(Kind.NODESET,),
    columns=("node",),
    doubtful=True,
)
_NODESET, _SETTINGS = code(Kind.NODESET), code(Kind.STREAM_SETTINGS)
_KINDS = frozenset({Kind.NODESET, Kind.STREAM_SETTINGS, Kind.TAKES_PART})
_NAMES = {
    word_code(NodeWord.SHARD): ("shards", ("shards", "nodes")),
    word_code(NodeWord.SEQUENCER): ("sequencers", ("sequencers",)),
    word_code(NodeWord.READER): ("readers", ("readers",)),
}


class ReadPathConfiguredFold(AsConfiguredFold):
    """See the module."""

    check = CHECK
    wanted = codes(_KINDS)

    def take(self, rows: Columns, at: int) -> None:
        """See `AsConfiguredFold`."""
        kind, seq = rows.kind[at], rows.seq[at]
        if kind == _NODESET:
            replication = self.part("replication")
            self.compare({"replication": replication} if replication else {}, self.said(rows.value[at]), seq)
        elif kind == _SETTINGS:
            self.compare(self.part("reader"), self.said(rows.value[at]), seq)
        elif rows.f[at] in _NAMES:
            what, names = _NAMES[rows.f[at]]
            self.count(what, rows.node[at], seq, *names)


FAMILY = Family(
    "read_path_configured",
    (CHECK,),
    _KINDS,
    ("node", "f", "value"),
    ReadPathConfiguredFold,
    READ_PATH,
    reads_texts=True,
)
