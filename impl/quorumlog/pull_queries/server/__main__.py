"""``python -m quorumlog.pull_queries.server --config FILE``: run one server until SIGTERM, SIGINT or a failing disk."""

from __future__ import annotations

import sys
from pathlib import Path

import click

from quorumlog.node.supervision import UNUSABLE, Supervisor
from quorumlog.pull_queries.server.configuration import BadConfigurationError, load
from quorumlog.pull_queries.server.process import run


@click.command(context_settings={"help_option_names": ["-h", "--help"]})
@click.option("--config", required=True, type=click.Path(path_type=Path), help="The server's configuration (JSON).")
@click.option("--supervisor", type=(int, int, int), hidden=True, help="The parent's process number and hybrid clock.")
def main(config: Path, supervisor: tuple[int, int, int] | None) -> None:
    """Run one server of pull queries, on logs that Raft nodes keep.

    \b
    The configuration, as server-0.json (times in milliseconds; what is in the last two lines may be left out):
      {"node": 0, "internal": "127.0.0.1:8088", "public": "127.0.0.1:8080", "data": "server-0",
       "servers": {"0": "127.0.0.1:8088", "1": "127.0.0.1:8089"},
       "logs": {"assignments": {"cluster": "a", "nodes": {"0": "127.0.0.1:7000"}},
                "s0": {"cluster": "s", "nodes": {"0": "127.0.0.1:7001"}},
                "c0": {"cluster": "c", "nodes": {"0": "127.0.0.1:7002"}}},
       "server": {"mode": "proposal", "partitions": 1, "standbys": 2}, "with_bound": null,
       "poll": 25, "save": 1000, "read_bytes": 1048576, "history": null}

    Exit status: 0 stopped as asked, 2 configuration, port or disk cannot be used, 4 the disk failed, 70 an internal
    error.
    """
    try:
        configuration = load(config)
    except BadConfigurationError as error:
        print(error, file=sys.stderr)
        sys.exit(UNUSABLE)
    under = None if supervisor is None else Supervisor(supervisor[0], (supervisor[1], supervisor[2]))
    sys.exit(run(configuration, under))


if __name__ == "__main__":
    main()
