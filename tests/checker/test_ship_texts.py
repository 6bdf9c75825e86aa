"""What `ship` events name, read at once or each by itself: texts of another form say nothing, and spoil no other."""

from __future__ import annotations

import random

import numpy as np
import pyarrow as pa
import pytest

from logwitness.checks.codes import NULL
from logwitness.checks.kernel import available
from logwitness.checks.read_path.nodesets import all_lsns_said, lsns_said
from logwitness.checks.words import Words

PLAIN = ("[]", "[1]", "[1,2,3]", "[0]", "[10,2]", "[999999999999999999]", "[3,1,2,5,5,8,4]")
OTHERS = (None, "[7, 8]", " [4]", "", "x", "{}", "[1],[2", "3]", "[1],[2]", "[[1]]", "[1.5]", "[", "]", "[01]", "[00]")
HARDLY = ("[,]", "[1,]", "[,1]", "[1,,2]", "[-1]", "[3,-0]", "[4]]", "[1 ]", "[/]", "[:]", "[2,:]", "[1;2]")
LARGE = ("[99999999999999999999]", "[-3,5,4611686018427387904]", "[1000000000000000000]")


@pytest.mark.parametrize("compiled", [False, pytest.param(True, marks=pytest.mark.skipif(not available(), reason="-"))])
def test_all_at_once_is_each_by_itself(compiled: bool) -> None:
    draw = random.Random(3)
    for number in range(1000):
        words = Words()
        if compiled:
            words.keep_bytes()
        texts = [draw.choice((*PLAIN, *((*OTHERS, *HARDLY, *LARGE) * (number % 2)))) for _ in range(draw.randrange(7))]
        first, last = (np.array([draw.choice((0, 2, bound)) for _ in texts], dtype=np.int64) for bound in (4, 1 << 61))
        coded = words.text_codes(pa.array([text or "" for text in texts], pa.string()))
        coded[[text is None for text in texts]] = NULL
        named, upto = all_lsns_said(words, coded, first, last, compiled)
        found = [named[upto[place] : upto[place + 1]].tolist() for place in range(len(texts))]
        assert found == [lsns_said(*each) for each in zip(texts, first.tolist(), last.tolist(), strict=True)]
