"""``python -m quorumlog.node --config FILE``: run one node until SIGTERM, SIGINT or a failing disk."""

from __future__ import annotations

import sys
from pathlib import Path

import click

from quorumlog.node.configuration import ConfigurationError, load
from quorumlog.node.process import run
from quorumlog.node.supervision import UNUSABLE, Supervisor


@click.command(context_settings={"help_option_names": ["-h", "--help"]})
@click.option("--config", required=True, type=click.Path(path_type=Path), help="The node's configuration (JSON).")
@click.option("--supervisor", type=(int, int, int), hidden=True, help="The parent's process number and hybrid clock.")
@click.option("--ended", type=(int, int, int), multiple=True, hidden=True, help="A life before, the clock at its end.")
def main(config: Path, supervisor: tuple[int, int, int] | None, ended: tuple[tuple[int, int, int], ...]) -> None:
    """Run one node of a replicated log.

    \b
    The configuration, as node-0.json (times in milliseconds; all but the first three may be left out):
      {"node": 0,
       "addresses": {"0": "127.0.0.1:7000", "1": "127.0.0.1:7001", "2": "127.0.0.1:7002"},
       "data": "node-0",
       "protocol": "raft", "cluster": "quorumlog", "history": "histories", "seed": 0,
       "write_caching": false, "retention": null,
       "timing": {"election_timeout": 1500, "election_jitter": 1500,
                  "heartbeat_interval": 150, "flush_delay": 100}}

    Exit status: 0 stopped as asked, 2 configuration, port or disk cannot be used, 4 the disk failed, 70 an internal
    error.
    """
    try:
        configuration = load(config)
    except ConfigurationError as error:
        print(error, file=sys.stderr)
        sys.exit(UNUSABLE)
    ends = {life: (time, logical) for life, time, logical in ended}
    under = None if supervisor is None else Supervisor(supervisor[0], (supervisor[1], supervisor[2]), ends)
    sys.exit(run(configuration, supervisor=under))


if __name__ == "__main__":
    main()
