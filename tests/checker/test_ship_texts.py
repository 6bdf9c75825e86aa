"""What `ship` events name, decoded at once or each by itself: texts of another form say nothing, and spoil no other."""

from __future__ import annotations

import random

import numpy as np

from logwitness.checks.read_path.nodesets import all_lsns_said, lsns_said

TEXTS = (None, "[]", "[1]", "[1,2,3]", "[7, 8]", " [4]", "", "x", "{}", "[1],[2", "3]", "[1],[2]", "[[1]]", "[1.5]")
TOO_LARGE = ("[99999999999999999999]", "[-3,5,4611686018427387904]")


def test_all_at_once_is_each_by_itself() -> None:
    draw = random.Random(3)
    for number in range(1000):
        texts = [draw.choice(TEXTS[:5] if number % 2 else (*TEXTS, *TOO_LARGE)) for _ in range(draw.randrange(7))]
        first, last = (np.array([draw.randrange(bound) for _ in texts], dtype=np.int64) for bound in (4, 9))
        named, upto = all_lsns_said(texts, first, last)
        found = [named[upto[place] : upto[place + 1]].tolist() for place in range(len(texts))]
        assert found == [lsns_said(*each) for each in zip(texts, first.tolist(), last.tolist(), strict=True)]
