"""Logs that are told by lists alone: appends without offsets, reads of everything."""

from __future__ import annotations

from pathlib import Path

import pytest
from logs_of_clients import Appends
from written import written

from loghistory import open_run
from logwitness.models import Model, check_model, model_of
from logwitness.models.anomalies import anomalies

# A word an event: a3 append of 3, r read; then =3 or =1,2,3 its answer, ! it failed, ? its outcome is unknown.
# t2 is a tail that answers 2.
CASES = {
    "a1 = a2 = a3 = r =1,2,3": [],
    "a1 = a2 = a3 = r =1,2": ["unseen"],
    "a1 = a2 = a3 = r =1,3": ["unseen"],
    "a1 = a2 = r =": ["unseen"],
    "a1 = a2 = r =2,1": ["non-monotonic append", "real-time inversion"],
    "a1 = a2 = r =1,2,2": ["duplicate"],
    "a1 = r =1,9": ["phantom"],
    "a1 = a2 ! r =1,2": ["aborted read"],
    "a1 = a2 ! r =1": [],
    "a1 = a2 ? r =1": [],
    "a1 = a2 ? r =1,2": [],
    "a1 = a2 = r =1,2 r =1 r =1,2": ["stale tail"],
    "a1 = a2 ? r =1,2 r =1": ["stale tail"],
    "a1 = a2 ? r =1 r =1,2": [],
    "r = a1 = a2 = r =1,2": [],
    "t0 a1 = t1 a2 ? t1 r =1,2 t2": [],
    "a1 = t0 r =1": ["stale tail"],
    "a1 = a2 = t1 a3 ?": ["stale tail"],
    "a1 = a2 ? t2 t1": ["stale tail"],
    "a1 = t1 r =": ["unseen", "stale tail"],
    "r =1 a1 = r =1": ["phantom"],
    "r = a1 = a2 = r =2,1": ["non-monotonic append", "real-time inversion"],
    "a1 = a2 = r = a3 ? r =3": ["unseen"],
    "a1 = r = a2 ?": ["stale tail"],
    "a1 = a2 = r =1,2 a3 = r =1,3,2": ["duplicate", "inconsistent offset"],
}


def _maps(text: str) -> list[dict[str, object]]:
    maps: list[dict[str, object]] = []
    process = 0
    for word in text.split():
        if word[0] == "t":
            both = {"process": process, "f": "tail"}
            maps += [{"type": "invoke", "value": None, **both}, {"type": "ok", "value": int(word[1:]), **both}]
            continue
        if word[0] in "ar":
            f, asked = ("append", int(word[1:])) if word[0] == "a" else ("read", None)
            maps.append({"type": "invoke", "process": process, "f": f, "value": asked})
            continue
        kind = {"=": "ok", "!": "fail", "?": "info"}[word[0]]
        answer: object = asked
        if f == "read" and kind == "ok":
            answer = [int(each) for each in word[1:].split(",") if each]
        maps.append({"type": kind, "process": process, "f": f, "value": answer})
        process += kind == "info"
    return maps


@pytest.mark.parametrize("text", CASES)
@pytest.mark.parametrize("form", ["EDN, a map a line", "JSON, one array", "log, bare"])
def test_lists(tmp_path: Path, text: str, form: str) -> None:
    path = tmp_path / "history"
    path.write_bytes(written(_maps(text), form))
    source = open_run(path)
    assert model_of(source) is Model.LIST_APPEND
    verdict = check_model(source, Model.LIST_APPEND)
    found = set(anomalies(verdict.checks))
    # What goes wrong with places goes wrong in other words too; what is named first is what must be.
    assert set(CASES[text]) <= found if len(CASES[text]) > 1 else found == set(CASES[text])
    assert verdict.exit_status == (1 if CASES[text] else 0)


def test_offsets_are_judged_by_the_checks_of_a_log(tmp_path: Path) -> None:
    history = Appends(1)
    history.run()
    path = tmp_path / "history"
    path.write_bytes(written(history.maps, "JSON, one array"))
    ids = {each.id for each in check_model(open_run(path), Model.LOG).checks}
    assert "linearizable-log" in ids
