"""Servers are as the configuration of the run has them. Source: pull-queries.md#servers-as-configured."""

from __future__ import annotations

from loghistory.schema import Kind

from ..codes import codes
from ..columns import Columns
from ..configured import SENTENCES, AsConfiguredFold
from ..contract import Check, Family
from .protocol import PULL_QUERIES

CHECK = Check(
    id="servers-as-configured",
    rule="Servers serve with the configuration of the run, and there are no more of them than it has.",
    source=("pull-queries.md#servers-as-configured",),
    fact="a server that begins to serve, of which the configuration says something",
    sentence=SENTENCES,
    kinds=(Kind.SERVE,),
    columns=("node",),
    doubtful=True,
)


class ServersConfiguredFold(AsConfiguredFold):
    """See the module."""

    check = CHECK
    wanted = codes({Kind.SERVE})

    def take(self, rows: Columns, at: int) -> None:
        """See `AsConfiguredFold`."""
        self.compare(self.part("server"), self.said(rows.value[at]), rows.seq[at])
        self.count("servers", rows.node[at], rows.seq[at], "nodes")


FAMILY = Family(
    "pull_queries_configured",
    (CHECK,),
    frozenset({Kind.SERVE}),
    ("node", "value"),
    ServersConfiguredFold,
    PULL_QUERIES,
    reads_texts=True,
)
