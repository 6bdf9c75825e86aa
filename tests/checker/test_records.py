"""What every check says of itself: its source is there, its sentences can be formatted, kernels report their fields."""

from __future__ import annotations

import ast
import inspect
import re
import sys
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pytest

import logwitness.checks
from loghistory import Kind
from logwitness.checks import all_checks, families, house_families
from logwitness.checks.contract import Check, Excuse, Family, Setting, Tally, summed
from logwitness.checks.findings import EVENTS, FIELDS, KernelFold, Node, number, report, show
from logwitness.checks.raft.protocol import RAFT
from logwitness.checks.sentences import fields_of, listed, worded
from logwitness.models.linearizable import LINEARIZABLE

RULES = Path(__file__).resolve().parents[2] / "docs" / "rules"
_WRONG_NUMBER = re.compile(r"\b1 (voters|\w+ votes|operations|transactions|entries|appends|are needed|were known)\b")
CHECKS = {check.id: check for check in (*all_checks(), LINEARIZABLE)}


def _anchors(page: Path) -> set[str]:
    """The anchors of a page: those that GitHub makes of its headings, and those that it sets."""
    text = page.read_text()
    headings = re.findall(r"^#+ (.*)$", text, re.M)
    slugs = {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}
    return slugs | set(re.findall(r"<a (?:id|name)=\"([^\"]+)\"", text))


@pytest.mark.parametrize("id_", CHECKS)
def test_the_source_leads_to_a_rule(id_: str) -> None:
    first, *others = CHECKS[id_].source
    page, mark, anchor = first.partition("#")
    assert mark, first
    assert anchor in _anchors(RULES / page)
    for other in others:
        page, mark, anchor = other.partition("#")
        assert not mark or anchor in _anchors(RULES / page)


@pytest.mark.parametrize("id_", CHECKS)
def test_every_sentence_can_be_formatted(id_: str) -> None:
    for way, sentence in CHECKS[id_].sentences.items():
        for value in (0, 1, 2):
            fields = dict.fromkeys(fields_of(sentence), value)
            broken = CHECKS[id_].violation((3, -1, 2, 3), way, **fields)
            assert broken.events == (2, 3)
            assert broken.sentence.endswith(".")
            assert broken.sentence[0].isupper()
            assert not set("{}|") & set(broken.sentence)
            assert not _WRONG_NUMBER.search(broken.sentence)


def test_a_count_has_the_word_for_its_number() -> None:
    sentence = "{holders:voter|voters} had it; {needed:is|are} needed."
    assert worded(sentence, {"holders": 1, "needed": 2}) == "1 voter had it; 2 are needed."
    assert worded(sentence, {"holders": 0, "needed": 1}) == "0 voters had it; 1 is needed."
    assert [listed(names) for names in ([1], [1, 2], [1, 2, 3])] == ["1", "1 and 2", "1, 2 and 3"]


def test_nothing_is_decided_by_the_order_of_kinds() -> None:
    """Codes follow from the order in which kinds are declared: they are equal or not, and in a table or not."""
    code = "|".join(kind.name for kind in Kind)
    by_order = re.compile(
        rf"\bkinds?(?:\[\w+\])? *(?:<|>)|(?:<|>)=? *(?:\w+\.)?kinds?\b(?!\.)|\b(?:{code}) *[<>]|[<>]=? *(?:{code})\b"
    )
    modules = sorted(Path(logwitness.checks.__file__).parents[1].rglob("*.py"))
    found = [
        (path.name, line)
        for path in modules
        for line in path.read_text(encoding="utf-8").splitlines()
        if by_order.search(line.replace("->", "")) and not line.lstrip().startswith(("#", '"'))
    ]
    assert found == []


def _reports() -> list[tuple[str, dict[str, object], ast.Call]]:
    """Every report of a kernel, with the names of its module."""
    found = []
    for name, module in list(sys.modules.items()):
        if not name.startswith(f"{logwitness.checks.__name__}.") or name.endswith("findings"):
            continue
        calls = [node for node in ast.walk(ast.parse(inspect.getsource(module))) if isinstance(node, ast.Call)]
        named = [each for each in calls if isinstance(each.func, ast.Name) and each.func.id == "report"]
        found += [(name, vars(module), each) for each in named]
    return found


def _numbered() -> dict[str, Check]:
    """The checks of kernels by the name of their number, wherever it is defined."""
    found: dict[str, Check] = {}
    for module in list(sys.modules.values()):
        names = vars(module)
        if getattr(module, "__name__", "").startswith(logwitness.checks.__name__) and isinstance(
            names.get("CHECKS"), list
        ):
            for name, value in names.items():
                if name.isupper() and type(value) is int and _says(module, name):
                    found[name] = names["CHECKS"][value]
    return found


def _says(module: object, name: str) -> bool:
    return re.search(rf"^{name} = number\(", inspect.getsource(module), re.M) is not None  # type: ignore[arg-type]


@pytest.mark.slow
def test_kernels_report_the_fields_of_the_check_that_they_name() -> None:
    """A report names the check by its number and gives the tuple that the record of this check has."""
    numbered, seen = _numbered(), set()
    for module, names, call in _reports():
        check, fields = call.args[1:3]
        if not isinstance(check, ast.Name) or check.id not in numbered:
            assert module.rpartition(".")[2] in ("at_end", "clients", "kept"), "one that its callers name"
            assert ast.unparse(check) == "check"
            continue
        record = numbered[check.id]
        seen.add(record.id)
        made = fields
        if isinstance(fields, ast.Name):
            body = ast.parse(inspect.getsource(sys.modules[module]))
            before = [
                node
                for node in ast.walk(body)
                if isinstance(node, ast.Assign)
                and node.lineno < call.lineno
                and any(isinstance(target, ast.Name) and target.id == fields.id for target in node.targets)
            ]
            made = max(before, key=lambda node: node.lineno).value
        assert isinstance(made, ast.Call)
        assert isinstance(made.func, ast.Name)
        assert names[made.func.id] is record.fields, (module, call.lineno)
        assert len(made.args) <= 1, "fields are given by name, but the one that the tuple begins with"
    of_kernels = {check.id for check in numbered.values()}
    of_callers = {"ok-names-the-entry", "ok-after-commit", "read-leaves-nothing-out", "read-shows-the-node"}
    of_callers |= {"flushed-durable", "dirty-survives-crash"}
    assert of_kernels - seen == {"lost-write"} | of_callers
    assert of_kernels == {check.id for family in house_families() for check in family.checks if check.fields}


class _Two(NamedTuple):
    node: Node
    offset: int


def _check(**changes: object) -> Check:
    plain = {"id": "a-b", "rule": "R.", "source": ("raft.md#acks",), "fact": "a fact", "sentence": "{node} {offset}."}
    return Check(**(plain | {"fields": _Two} | changes))  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"id": "A b"}, "not the id of a check"),
        ({"sentence": "{node} {offsets}."}, "the sentence has node, offsets, but node, offset are reported"),
        ({"sentence": "{node}."}, "the sentence has node, but node, offset are reported"),
        ({"sentence": "{0} {offset}."}, "not the name of a field"),
        ({"sentence": "{node.x} {offset}."}, "not the name of a field"),
    ],
)
def test_a_record_that_contradicts_itself_is_refused(changes: dict[str, object], said: str) -> None:
    with pytest.raises(ValueError, match=said):
        _check(**changes)


def test_a_kernel_needs_the_fields() -> None:
    with pytest.raises(ValueError, match=f"a named tuple of 1 to {FIELDS} fields"):
        number([], _check(fields=None))


def test_a_family_reads_columns_that_there_are() -> None:
    with pytest.raises(ValueError, match="the history has no column 'colour'"):
        Family("f", (_check(),), frozenset(), ("colour",), _Fold)
    with pytest.raises(ValueError, match="the history has no column 'colour'"):
        Family("f", (_check(columns=("colour",)),), frozenset(), (), _Fold)


class _Fold(KernelFold):
    """Its kernel reports ``seq`` as often as it says, each with many events."""

    checks = (_check(), _check(id="a-c"))
    most = 300

    def run(self, columns: object) -> None:
        for check in (0, 1, 0):
            report(self.found, check, _Two(1, offset=7), 5, -1, 3)
            for seq in range(check * self.most):
                show(self.found, seq)


@pytest.mark.parametrize("keep", [0, 1, 2, 5])
def test_findings_keep_the_first_violations_and_their_events(keep: int) -> None:
    """What is written down is kept over runs of the kernel, up to a number a check and a number of events."""
    fold, other = (_Fold(Setting((4, 9), keep=keep)) for _ in range(2))
    empty = type("Columns", (), {"node": np.zeros(0, dtype=np.int32), "lists": lambda self: self})
    empty._replace = lambda self, **_: self
    for each in (fold, other, fold):
        each.feed(empty())
    first, second = fold.finish().outcomes
    assert (first.violated, second.violated) == (4, 2)
    assert [v.events for v in first.violations] == [(3, 5)] * min(keep, 4)
    assert [len(v.events) for v in second.violations] == [EVENTS - 2] * min(keep, 2)
    assert {v.sentence for v in first.violations} <= {"9 7."}
    assert [each.violated for each in other.finish().outcomes] == [2, 1]


def test_a_tally_counts_all_and_words_the_first() -> None:
    tally = Tally(_check(fields=None), keep=2)
    for offset in range(3):
        tally.judged += 1
        tally.violation(offset, node=1, offset=offset)
    found = tally.outcome()
    assert (found.judged, found.violated, [v.sentence for v in found.violations]) == (3, 3, ["1 0.", "1 1."])


def test_families_of_a_protocol_name_it_and_the_others_judge_any_log() -> None:
    """The room of a protocol has its name."""
    rooms = {family.name: family.start.__module__.split(".")[2] for family in house_families()}
    for family in house_families():
        if family.name == "well_formed_nodes":
            assert family.protocol is RAFT
        elif family.protocol is None:
            assert rooms[family.name] in {"clients", "linearizable_log", "well_formed"}
        else:
            assert family.protocol.name.replace("-", "_") == rooms[family.name]
    assert {"raft", "pull_queries", "read_path", "clients", "linearizable_log"} <= {*rooms.values()}
    assert families()[0].protocol is not None, "what clients were told counts last in the loss account, and is believed"


def test_excuses_of_one_cause_become_one_with_the_first_of_their_causes() -> None:
    found = (
        Excuse("wipe", (2,), 1, 9),
        Excuse("gap", (), 1, -1),
        Excuse("wipe", (1,), 2, 4),
        Excuse("wipe", (), 1, -1),
    )
    assert summed(found) == (Excuse("gap", (), 1, -1), Excuse("wipe", (1, 2), 4, 4))
