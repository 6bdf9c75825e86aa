"""What every function keeps to: public ones are described, and one that is long, or takes much, says why."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
PACKAGES = (
    "histories/loghistory",
    "impl/quorumlog",
    "spec/logspec",
    "checker/logwitness",
    "checker/linearizability_checker/src",
)
MOST_LINES, MOST_PARAMETERS = 60, 8
LOOPS = {"kernel", "part", "step"}
"""Parts of compiled loops; why these are long is said in `logwitness.checks.kernel`."""
REASON_FOR_LINES = re.compile(r"\b(?:is|and) long\b")
REASON_FOR_PARAMETERS = re.compile(
    r"\bmany\s+parameters\b|\bparameters\s+are\s+many\b|\bparameter\s+(?:for\s+each|per)\b"
)
FEWEST_WORDS = 6
Function = ast.FunctionDef | ast.AsyncFunctionDef
Defined = Function | ast.ClassDef


@cache
def _modules(package: str) -> list[tuple[Path, str, ast.Module]]:
    """The modules of a package: where they are, what they say."""
    texts = [(path, path.read_text()) for path in sorted((ROOT / package).rglob("*.py"))]
    return [(path, text, ast.parse(text)) for path, text in texts]


def _defined(node: ast.AST, owner: ast.ClassDef | None = None) -> Iterator[tuple[Defined, ast.ClassDef | None]]:
    """The functions and classes of a module, each with the class that it is in."""
    for child in ast.iter_child_nodes(node):
        if isinstance(child, Defined):
            yield child, owner
        if isinstance(child, ast.stmt | ast.excepthandler | ast.match_case):  # an expression defines none
            yield from _defined(child, child if isinstance(child, ast.ClassDef) else owner)


def _parameters(function: Function) -> int:
    given = function.args
    names = [each.arg for each in (*given.posonlyargs, *given.args, *given.kwonlyargs)]
    return len([name for name in names if name not in ("self", "cls")])


def _said(function: Function, owner: ast.ClassDef | None, lines: list[str]) -> str:
    """The docstring, that of the class, and comments in the signature."""
    head = "\n".join(lines[function.lineno - 1 : function.body[0].lineno])
    comments = [line.partition("#")[2] for line in head.splitlines()]
    texts = [ast.get_docstring(function), owner and ast.get_docstring(owner), *comments]
    return "\n".join(text for text in texts if text)


def _hasty(described: Defined, owner: ast.ClassDef | None) -> str | None:
    """The docstring of something public if it is too short to say anything; the linter sees to it that there is one."""
    said = ast.get_docstring(described) or ""
    private = described.name.startswith("_") or (owner is not None and owner.name.startswith("_"))
    short = said and not private and not said.startswith("See ") and len(said.split()) < FEWEST_WORDS
    return said if short else None


@pytest.mark.parametrize("package", PACKAGES)
def test_functions_are_short_or_say_why_and_are_described(package: str) -> None:
    silent, hasty = [], []
    for path, text, tree in _modules(package):
        for function, owner in _defined(tree):
            where = f"{path.relative_to(ROOT)}:{function.lineno}: {function.name}"
            if (described := _hasty(function, owner)) is not None:
                hasty.append(f"{where}: {described}")
            if isinstance(function, ast.ClassDef):
                continue
            marks = {getattr(mark, "id", "") for mark in function.decorator_list}
            lines = (function.end_lineno or 0) - function.lineno + 1
            reasons = [REASON_FOR_LINES] if lines > MOST_LINES else []
            reasons += [REASON_FOR_PARAMETERS] if _parameters(function) > MOST_PARAMETERS else []
            said = _said(function, owner, text.splitlines()) if reasons and not marks & LOOPS else None
            if said is not None and not all(reason.search(said) for reason in reasons):
                silent.append(f"{where} ({lines} lines, {_parameters(function)} parameters)")
    assert not silent, silent
    assert not hasty, hasty


NOT_FOR_CALLERS = {"AssertionError", "NotImplementedError", "RuntimeError", "SystemExit", "TimeoutError"}
SAYS_WHAT_IT_RAISES = re.compile(r"[Rr]aise|[Rr]efuse|Error|Failed|^See `", re.MULTILINE)


def _raised(function: Function) -> set[str]:
    """The exceptions that a function makes and does not catch itself."""
    caught = {
        id(each)
        for node in ast.walk(function)
        if isinstance(node, ast.Try)
        for part in node.body
        for each in ast.walk(part)
    }
    made = [node.exc for node in ast.walk(function) if isinstance(node, ast.Raise) and id(node) not in caught]
    named = [each.func if isinstance(each, ast.Call) else each for each in made]
    return {each.id for each in named if isinstance(each, ast.Name) and each.id[0].isupper()} - NOT_FOR_CALLERS


@pytest.mark.parametrize("package", PACKAGES)
def test_public_functions_say_what_they_raise(package: str) -> None:
    silent = []
    for path, _, tree in _modules(package):
        for function, owner in _defined(tree):
            if isinstance(function, ast.ClassDef) or function.name.startswith("_"):
                continue
            said = ast.get_docstring(function) or ""
            public = said and not (owner is not None and owner.name.startswith("_"))
            if public and not SAYS_WHAT_IT_RAISES.search(said) and _raised(function):
                silent.append(f"{path.relative_to(ROOT)}:{function.lineno}: {function.name}")
    assert silent == []


REPLACED = {
    *("told", "judging", "ahead", "one_after_another", "many_operations", "pieces", "ending", "intake", "trial"),
    *("disturb", "disturbance", "disturbances", "trials"),
}
"""Names for which the field has plainer ones."""


def _names(tree: ast.AST) -> Iterator[str]:
    """The names that a module gives to functions, classes, parameters, variables and attributes."""
    for node in ast.walk(tree):
        match node:
            case ast.FunctionDef(name=name) | ast.AsyncFunctionDef(name=name) | ast.ClassDef(name=name):
                yield name
            case ast.arg(arg=name) | ast.Name(id=name, ctx=ast.Store()) | ast.Attribute(attr=name, ctx=ast.Store()):
                yield name
            case ast.alias(name=name, asname=other):
                yield other or name.rpartition(".")[2]
            case ast.MatchAs(name=str(name)) | ast.MatchStar(name=str(name)) | ast.ExceptHandler(name=str(name)):
                yield name


@pytest.mark.parametrize("package", PACKAGES)
def test_names_that_were_replaced_do_not_come_back(package: str) -> None:
    found = [
        (str(path), name)
        for path, _, tree in _modules(package)
        for name in (path.stem, *path.relative_to(ROOT).parent.parts, *_names(tree))
        if name.strip("_").lower() in REPLACED
    ]
    assert found == []


SHORT = {
    *(
        "all",
        "at",
        "by",
        "cut",
        "due",
        "end",
        "gap",
        "hit",
        "in",
        "key",
        "lag",
        "led",
        "log",
        "low",
        "me",
        "new",
        "now",
    ),
    *("of", "old", "one", "op", "own", "run", "set", "to", "up", "won"),
    *("lng", "lsn", "ts", "ur"),  # words of the rules pages, which say what they are
}
"""Names of two or three letters that modules of the specification may use; a single letter is bound nearby."""


def test_variables_in_tla_are_spelled_out() -> None:
    comments = re.compile(r"\\\*.*|\(\*.*?\*\)")
    definition = re.compile(r"(\w+)(?:\(([^)=]*)\))?\s*==")
    modules = sorted((ROOT / "spec").glob("*/*.tla"))
    assert modules
    short = set()
    for path in modules:
        text = comments.sub("", path.read_text())
        names = [word for name, given in definition.findall(text) for word in (name, *re.findall(r"\w+", given))]
        names += re.findall(r"(\w+)\s*\\in\b", text)
        for declared in re.findall(r"VARIABLES?(.*?)(?:\n\s*\n|==)", text, re.DOTALL):
            names += re.findall(r"\w+", declared)
        short |= {(path.name, name) for name in names if 2 <= len(name) <= 3 and name.islower() and name not in SHORT}
    assert short == set()
