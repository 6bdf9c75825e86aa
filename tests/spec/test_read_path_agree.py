"""The decisions of the specification of the read path are those of the implementation, on every small case.

Verdicts for three shards in two racks, gaps at an epoch's edge, copysets of up to three shards.
"""

from __future__ import annotations

import itertools
import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

from logspec.places import spec_directory
from logspec.tlc import run_tlc
from logspec.toolchain import Toolchain
from quorumlog.read_path import rules
from quorumlog.read_path.rules import REFERENCE

SHARDS = (1, 2, 3)
RACKS = ((1, 3), (2,))
SCOPES = (rules.Scope(2, RACKS), rules.Scope(2, tuple((shard,) for shard in SHARDS)))
SCOPES_SAID = "{[domains |-> {{1, 3}, {2}}, factor |-> 2], [domains |-> {{1}, {2}, {3}}, factor |-> 2]}"
STATUS = {
    rules.FULLY_AUTHORITATIVE: "full",
    rules.UNAVAILABLE: "unavailable",
    rules.UNDERREPLICATION: "under",
    rules.AUTHORITATIVE_EMPTY: "empty",
}
VERDICT = {rules.NONE: "none", rules.INCOMPLETE: "incomplete", rules.NON_AUTH: "non-auth", rules.COMPLETE: "complete"}
GAP = {rules.DATALOSS: "dataloss", rules.TRIM: "trim", rules.BRIDGE: "bridge"}
PER_EPOCH = 8


def texts(values: Iterator[str] | list[str]) -> str:
    return ", ".join(f'"{value}"' for value in values)


def members(shards: list[int]) -> str:
    return "{" + ", ".join(map(str, shards)) + "}"


def verdicts() -> Iterator[str]:
    """The statuses, who has no record, who may lack it, and the verdict."""
    for statuses in itertools.product(STATUS, repeat=3):
        for states in itertools.product((rules.SILENT, rules.UNDER_REPLICATED, rules.GAP), repeat=3):
            known, said = dict(zip(SHARDS, statuses, strict=True)), dict(zip(SHARDS, states, strict=True))
            verdict = REFERENCE.gap_verdict(SCOPES, SHARDS, known, said)
            gaps = [shard for shard in SHARDS if said[shard] == rules.GAP]
            lacking = [shard for shard in SHARDS if said[shard] == rules.UNDER_REPLICATED]
            named = texts([STATUS[each] for each in statuses])
            yield f'<<<<{named}>>, {members(gaps)}, {members(lacking)}, "{VERDICT[verdict]}">>'


def gaps() -> Iterator[str]:
    """From, to, trim point, where the stream begins, writes in flight, and the type."""
    places = range(PER_EPOCH + 5, 2 * PER_EPOCH + 4)
    for start, end in itertools.combinations(places, 2):
        trims = [trim for trim in (0, start, end - 1, end) if (trim + 1) % PER_EPOCH]  # real epochs do not end so soon
        for trim, first, in_flight in itertools.product(trims, (True, False), (0, 2)):
            found = REFERENCE.gap_type(large(start), large(end), large(trim), first, in_flight, False)
            yield f'<<{start}, {end}, {trim}, {start if first else 0}, {in_flight}, "{GAP[found]}">>'


def large(place: int) -> int:
    """The LSN of a place of the specification, whose epochs are small."""
    return rules.lsn_of(place // PER_EPOCH, place % PER_EPOCH)


def shipping() -> Iterator[str]:
    """The copyset in order, who is listed, the factor, and who ships."""
    for size in (1, 2, 3):
        for order in itertools.permutations(SHARDS, size):
            for down in itertools.chain.from_iterable(itertools.combinations(SHARDS, n) for n in range(4)):
                for factor in range(1, size + 1):
                    listed = [shard in down for shard in order]
                    ships = [order[me] for me in range(size) if REFERENCE.ships(me, listed, [False] * size, factor)]
                    named = ", ".join(map(str, order))
                    yield f"<<<<{named}>>, {members(list(down))}, {factor}, {members(sorted(ships))}>>"


def slow() -> Iterator[str]:
    """The factor, how many are down, and how many may be slow."""
    for factor, down in itertools.product(range(1, 9), range(8)):
        yield f"<<{factor}, {down}, {members([REFERENCE.most_slow(factor, down)])}>>"


def writes() -> Iterator[str]:
    """Two writes with run and wave, and whether the first one wins."""
    for run, wave, other_run, other_wave in itertools.product(range(3), repeat=4):
        beats = "yes" if REFERENCE.beats(run, wave, other_run, other_wave) else "no"
        yield f'<<<<{run}, {wave}>>, <<{other_run}, {other_wave}>>, "{beats}">>'


SAME = {
    "slow": (slow, "{MostSlow(row[1], row[2])} = row[3]"),
    "writes": (writes, 'IF WriteBeats(row[1], row[2]) THEN row[3] = "yes" ELSE row[3] = "no"'),
    "verdicts": (verdicts, f"ReadVerdict({SCOPES_SAID}, row[1], row[2], row[3]) = row[4]"),
    "gaps": (gaps, 'GapType(<<"full">>, row[1], row[2], row[3], row[4], row[5]) = row[6]'),
    "ships": (
        shipping,
        "{row[1][i] : i \\in {j \\in DOMAIN row[1] : Ships(row[1][j], row[1], row[2], row[3])}} = row[4]",
    ),
}


@pytest.mark.parametrize("wrong", [False, True])
def test_the_decisions_are_the_same(wrong: bool, tools: Toolchain, tmp_path: Path) -> None:
    """With one answer changed in each table, TLC names it."""
    shutil.copy(spec_directory() / "read_path" / "Decision.tla", tmp_path)
    module = tmp_path / "Choices.tla"
    lines = ["EXTENDS Decision", "VARIABLE x", "Init == x = 0", "Next == UNCHANGED x"]
    for name, (rows, same) in SAME.items():
        table = list(rows())
        assert len(table) > 50
        if wrong:
            last, _, answer = table[0].rpartition(", ")
            table[0] = last + (', "other">>' if '"' in answer else ", {9}>>")
        lines.append(f"Table{name} == {{{', '.join(table)}}}")
        reported = f'PrintT(<<"differs", "{name}">>)' if wrong else "FALSE"
        lines.append(f"ASSUME \\A row \\in Table{name} : ({same}) \\/ {reported}")
    lines[0] += ", TLC"
    module.write_text("\n".join(["---- MODULE Choices ----", *lines, "===="]), encoding="utf-8")
    found = run_tlc(tools, module, "INIT Init\nNEXT Next\n", workers=1, coverage=False, brief=True, seconds=200)
    assert found.errors == []
    assert found.printed == ([f'<<"differs", "{name}">>' for name in SAME] if wrong else [])
