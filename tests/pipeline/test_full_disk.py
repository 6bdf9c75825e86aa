"""A disk that is full under an audit: one sentence, and with more room the audit goes on."""

from __future__ import annotations

import random
import resource
import subprocess
import sys
from pathlib import Path

import pyarrow as pa
import pytest
from audit_tables import Auditor

from loghistory import SCHEMA
from loghistory.run import write_file

pytestmark = pytest.mark.long

MOST = 100_000
"""Bytes of a file, as if the disk had no more; what Java writes for itself is less."""


def test_a_full_disk_is_one_sentence_and_room_lets_the_audit_go_on(tmp_path: Path, audited: Auditor) -> None:
    chosen = random.Random(1)
    rows = []
    for op in range(20_000):
        common = {"process": 0, "op": op, "f": "append"}
        rows.append({"kind": "invoke", "value": chosen.randrange(1 << 60), "acks": -1, **common})
        rows.append({"kind": "ok", "offset": op, "term": 1, **common})
    rows = [row | {"seq": seq, "time": 1000 * seq + chosen.randrange(1000)} for seq, row in enumerate(rows)]
    (tmp_path / "runs").mkdir()
    write_file(tmp_path / "runs" / "one.jsonl", pa.Table.from_pylist(rows, SCHEMA).to_batches())

    full = subprocess.run(
        [sys.executable, "-m", "logwitness", "audit", "--master", "local[1]", tmp_path / "runs", tmp_path / "out"],
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
        preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (MOST, resource.RLIM_INFINITY)),
    )
    assert (full.returncode, full.stdout) == (2, "")
    assert full.stderr == (
        f"logwitness: {tmp_path}/out: the results cannot be written (File too large); nothing of this round is in the "
        "tables: make room and start the audit again, it goes on where it was\n"
    )
    assert not (tmp_path / "out" / "_rounds").exists()
    again = audited(tmp_path / "runs", tmp_path / "out")
    assert (again.exit_status, again.seen, again.judged) == (0, 1, 1)
