"""``python -m quorumlog.read_path.process --config FILE``: run one process until SIGTERM, SIGINT or a failing disk."""

from __future__ import annotations

import sys
from pathlib import Path

import click

from quorumlog.node.supervision import UNUSABLE, Supervisor
from quorumlog.read_path.process.configuration import BadConfigurationError, load
from quorumlog.read_path.process.process import run


@click.command(context_settings={"help_option_names": ["-h", "--help"]})
@click.option("--config", required=True, type=click.Path(path_type=Path), help="The process's configuration (JSON).")
@click.option("--supervisor", type=(int, int, int), hidden=True, help="The parent's process number and hybrid clock.")
@click.option("--ended", type=(int, int, int), multiple=True, hidden=True, help="A life before, the clock at its end.")
def main(config: Path, supervisor: tuple[int, int, int] | None, ended: tuple[tuple[int, int, int], ...]) -> None:
    """Run one shard, sequencer or reader of a log on many storage shards.

    \b
    The configuration, as node-0.json (what is in the last three lines may be left out):
      {"node": 0, "cluster": "a", "data": "node-0", "replication": {"NODE": 1},
       "addresses": {"0": "127.0.0.1:7000", "1": "127.0.0.1:7001", "2": "127.0.0.1:7002"},
       "roles": {"0": "shard", "1": "sequencer", "2": "reader"},
       "locations": {"0": ["R", "C", "W", "K", "N0"]},
       "internal": {"cluster": "b", "nodes": {"0": "127.0.0.1:7003"}},
       "history": null, "seed": 0, "poll": 25, "spare": 0, "nodeset_changes": 0.0,
       "reader": {"window": 512}, "shard": {"batch_bytes": 4096},
       "sequencer": {"in_flight": 100}}

    Exit status: 0 stopped as asked, 2 configuration, port or disk cannot be used, 4 the disk failed, 70 an internal
    error.
    """
    try:
        configuration = load(config)
    except BadConfigurationError as error:
        print(error, file=sys.stderr)
        sys.exit(UNUSABLE)
    ends = {life: (time, logical) for life, time, logical in ended}
    under = None if supervisor is None else Supervisor(supervisor[0], (supervisor[1], supervisor[2]), ends)
    sys.exit(run(configuration, under))


if __name__ == "__main__":
    main()
