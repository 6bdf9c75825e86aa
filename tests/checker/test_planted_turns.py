"""Recorded runs of every protocol in which something comes out of its turn: no correct system does that."""

from __future__ import annotations

import pytest
from test_well_formed import RUNS, altered, judged

from loghistory import open_run
from logwitness import Verdict

PLANTS = """
read_path/reference-losses-in-scd  points-only-rise         alter trim_point 5 offset=4294966892
read_path/reference-failover       points-only-rise         repeat seal 8 epoch=1
read_path/reference-losses         points-only-rise         alter stream_statuses -3 version+50
read_path/reference-losses         points-only-rise         repeat stream_statuses -3 version=1
read_path/reference-restarts       points-only-rise         alter takes_part 12 incarnation=0
read_path/reference-failover       asks-in-turn             alter stream_start 14 offset-20
read_path/reference-failover       asks-in-turn             drop stream_rewind 0
read_path/reference-failover       asks-in-turn             alter stream_rewind 2 filter+3
read_path/reference-failover       asks-in-turn             alter stream_started 10 filter+1
read_path/reference-losses         asks-in-turn             alter stream_settings 0 node+1
read_path/reference-losses         acts-in-its-life         alter takes_part 2 f=reader
read_path/reference-losses         points-only-rise         alter stream_metadata 5 epoch=0
read_path/reference-losses         asks-in-turn             repeat stream_heard 1000 kind=stream_closed
read_path/reference-failover       released-after-recovery  drop recover 0
read_path/reference-failover       released-after-recovery  repeat copy 2 kind=purge
pull_queries/reference-default     answers-where-it-is      alter answer 20 offset+1
pull_queries/reference-lagging     serves-count-up          alter serve 4 incarnation=0
raft/reference-leaders-fall        starts-as-it-knows       alter start 3 visible=5
"""
"""By line: a run, the check that notices, and what is done (`test_well_formed`)."""


@pytest.mark.parametrize("line", PLANTS.strip().splitlines(), ids=lambda line: " ".join(line.split()))
def test_what_comes_out_of_turn_is_noticed(line: str) -> None:
    run, check, what = line.split(maxsplit=2)
    source = open_run(RUNS.parent / run)
    assert source.manifest is not None
    made = source.manifest.made_by
    known = {"voters": list(source.manifest.nodes), "protocol": made.get("protocol", "raft")} | made["configuration"]
    rows = [row for batch in source.batches() for row in batch.to_pylist()]
    assert judged(rows, known, only=[check]).verdict is Verdict.HOLDS
    assert judged(altered(rows, what), known, only=[check]).verdict is Verdict.VIOLATED
