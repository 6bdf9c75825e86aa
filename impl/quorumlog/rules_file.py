"""A developer's own rules: a Python file that redefines some of a protocol's rules.

    # my_rules.py
    def may_commit(candidate, commit, candidate_term, current_term):
        return candidate > commit

Every function whose name does not begin with ``_`` replaces the rule of that name; or the name ``RULES`` is
bound to a whole bundle. The caller, the bundle or the names say which protocol's rules they are. The file
is run as it is: it is trusted like any program that the developer runs.
"""

from __future__ import annotations

import importlib.util
import inspect
import sys
from collections.abc import Callable, Mapping
from dataclasses import fields, replace
from difflib import get_close_matches
from pathlib import Path
from types import ModuleType
from typing import Any

from quorumlog.protocol import Protocol, ProtocolError, every, load, one_of

_MODULE = "logwitness_rules_file"
_LINE_LIMIT = 300


class RulesFileError(ValueError):
    """The file gives no rules: ``str()`` is one line naming the file, the place and the remedy."""


def reference_rules(protocol: str) -> Any:  # noqa: ANN401
    """Return the bundle that the reference of a protocol runs. Raises `ProtocolError` if there is no such protocol."""
    return load(protocol).rules


def load_rules(path: str | Path, protocol: str | None = None) -> Any:  # noqa: ANN401
    """Return the reference's bundle with the rules of a file replacing its own; see `read_rules`."""
    return read_rules(path, protocol)[1]


def read_rules(path: str | Path, protocol: str | None = None) -> tuple[Protocol, Any]:
    """Return a protocol and its rules, with a file's replacing its own; ``protocol`` is its name, if that is known.

    Raises RulesFileError if the file cannot be run, names a rule that does not exist, takes other arguments than the
    rule does, or defines none; ProtocolError if the protocol is unknown.
    """
    path = Path(path)
    asked = every(protocol)
    module = _run(path)
    bundle = getattr(module, "RULES", None)
    found = {
        name: value
        for name, value in vars(module).items()
        if not name.startswith("_")
        and callable(value)
        and not isinstance(value, type)
        and getattr(value, "__module__", None) == module.__name__
        and getattr(value, "__name__", name) in (name, "<lambda>")
    }
    of = _protocol_of(path, asked, bundle, found)
    if bundle is not None and type(bundle) is not type(of.rules):
        raise RulesFileError(f"{path}: RULES is {_article(bundle)}; make it dataclasses.replace(REFERENCE, ...)")
    reference = _functions(of)
    for name, function in found.items():
        if name not in reference:
            near = get_close_matches(name, reference, 1)
            where = f"{type(of.rules).__module__}.{type(of.rules).__name__}"
            meant = f"is {near[0]} meant?" if near else f"the rules are the fields of {where};"
            raise RulesFileError(
                f"{path}:{_line(function)}: {name} is not a rule; {meant} A helper's name begins with _"
            )
    if bundle is None and not found:
        example = next(iter(reference))
        raise RulesFileError(f"{path}: defines no rule; define a function named like one, such as {example}, or RULES")
    rules = replace(of.rules if bundle is None else bundle, **found)
    for name, rule in reference.items():
        if getattr(rules, name) is not rule:
            _check_arguments(path, name, getattr(rules, name), rule)
    return of, rules


def _protocol_of(path: Path, asked: tuple[Protocol, ...], bundle: object, found: Mapping[str, object]) -> Protocol:
    """The protocol that a bundle's type identifies, or that has most of the names; or the only one there is."""
    if len(asked) == 1:
        return asked[0]
    if bundle is not None:
        fitting = [each for each in asked if type(bundle) is type(each.rules)]
    else:
        named = [len(found.keys() & _functions(each).keys()) for each in asked]
        fitting = [each for each, number in zip(asked, named, strict=True) if number == max(named) > 0]
    try:
        return one_of(tuple(fitting) or asked)
    except ProtocolError as error:
        raise RulesFileError(f"{path}: {error}") from None


def _functions(protocol: Protocol) -> Mapping[str, Callable[..., Any]]:
    """The reference's rules by name."""
    defaults: dict[str, Any] = {field.name: field.default for field in fields(protocol.rules)}
    return defaults


def _run(path: Path) -> ModuleType:
    if not path.is_file():
        raise RulesFileError(f"{path}: no such file; name a Python file that defines rules")
    spec = importlib.util.spec_from_file_location(_MODULE, path)
    if spec is None or spec.loader is None:
        raise RulesFileError(f"{path}: not a Python file; its name must end in .py")
    module = importlib.util.module_from_spec(spec)
    before, quiet = sys.modules.get(_MODULE), sys.dont_write_bytecode
    sys.modules[_MODULE] = module
    sys.dont_write_bytecode = True  # leave nothing beside the developer's file
    try:
        spec.loader.exec_module(module)
    except KeyboardInterrupt:
        raise
    except SyntaxError as error:
        raise RulesFileError(f"{path}:{error.lineno}: not Python: {error.msg}; correct it") from None
    except (Exception, SystemExit) as error:
        where = _place(error, path)
        raise RulesFileError(f"{where}: running the file fails: {type(error).__name__}: {_brief(error)}") from None
    finally:
        sys.dont_write_bytecode = quiet
        if before is None:
            sys.modules.pop(_MODULE, None)
        else:
            sys.modules[_MODULE] = before
    return module


def _check_arguments(path: Path, name: str, function: Any, rule: Callable[..., Any]) -> None:  # noqa: ANN401
    if not callable(function):
        raise RulesFileError(f"{path}: {name} is {_article(function)}; a rule is a function")
    wanted = inspect.signature(rule)
    try:
        inspect.signature(function).bind(*wanted.parameters)
    except (TypeError, ValueError):
        names = ", ".join(wanted.parameters)
        raise RulesFileError(
            f"{path}:{_line(function)}: {name} is called with ({names}); give it these arguments"
        ) from None


def _line(function: object) -> int:
    code = getattr(function, "__code__", None)
    return code.co_firstlineno if code is not None else 1


def _place(error: BaseException, path: Path) -> str:
    trace, line = error.__traceback__, 0
    while trace is not None:
        if Path(trace.tb_frame.f_code.co_filename) == path:
            line = trace.tb_lineno
        trace = trace.tb_next
    return f"{path}:{line}" if line else str(path)


def _brief(error: BaseException) -> str:
    return " ".join(str(error).split())[:_LINE_LIMIT] or "without a message"


def _article(value: object) -> str:
    return f"of type {type(value).__name__}"
