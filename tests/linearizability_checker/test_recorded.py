"""Histories recorded from real systems have their published verdicts."""

from __future__ import annotations

from pathlib import Path

import pytest
from recorded_histories import RECORDED, cas_register, etcd, key_value

from linearizability_checker import CAS_REGISTER, KEY_VALUE, Checker

ETCD_OK = ["005", "007", "025", "031", "045", "049", "051", "053", "067", "075", "087", "101"]
ETCD = sorted(p for p in RECORDED.glob("jepsen-etcd/*.log") if p.stem != "etcd_095")  # without a published verdict


def _named(path: Path) -> str:
    return f"{path.parent.name}/{path.name}"


@pytest.mark.parametrize("path", ETCD, ids=_named)
def test_etcd(checker: Checker, path: Path) -> None:
    expected = "ok" if path.stem.removeprefix("etcd_") in ETCD_OK else "illegal"
    assert checker.check_events(CAS_REGISTER, etcd(path)).verdict == expected


@pytest.mark.parametrize("path", sorted(RECORDED.glob("jepsen-cas-register/*/*.edn")), ids=_named)
def test_cas_register(checker: Checker, path: Path) -> None:
    expected = "ok" if path.parent.name == "good" else "illegal"
    history = cas_register(path)
    assert expected in (checker.check_events(CAS_REGISTER.starting(start), history).verdict for start in (None, 0))


@pytest.mark.parametrize("path", sorted(RECORDED.glob("kv/*.txt")), ids=_named)
def test_key_value(checker: Checker, path: Path, tmp_path: Path) -> None:
    result = checker.check_events(KEY_VALUE.starting(""), key_value(path), visualization=tmp_path / "page.html")
    assert result.verdict == ("ok" if path.stem.endswith("-ok") else "illegal")


def test_all_are_there() -> None:
    assert (len(ETCD), len(list(RECORDED.rglob("*.edn"))), len(list(RECORDED.glob("kv/*")))) == (50, 35, 6)
