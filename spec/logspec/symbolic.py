"""Run a decision rule on z3 terms: what is proved is the function that the implementation runs, not a copy of it.

``Executor.call`` reads a function's source and evaluates it with the arguments as symbolic terms: ``if`` becomes
if-then-else, ``and`` becomes a conjunction, ``sorted`` of a list of known length becomes a sorting network. A
condition that does not depend on a symbolic term is decided at once. Terms are z3 integers and booleans, or elements
of a sort whose order the caller declares (``Order``), which keeps a proof free of arithmetic.

Only pure functions can be run: ``return``, ``if``, assignment to a local name, ``and``/``or``/``not``, comparison,
``+ - *`` and ``//`` by what is positive, ``min``, ``max``, ``sorted``, ``len``, ``abs``, ``any``, ``all``,
``sum``, lists and tuples, comprehensions over them, also of mappings from their elements, fields of a dataclass,
``mapping[key]``, ``mapping.get(key, default)`` and ``key in mapping`` for a plain key, and calls of other such
functions. Anything else is refused with one sentence that names the function and the line. All of this goes for the
groups of ``logspec.groups`` too, of which nobody says how many nodes they have.
"""

from __future__ import annotations

import ast
import builtins
import inspect
import linecache
from collections.abc import Callable, Mapping, Sequence, Set
from dataclasses import dataclass, field, fields, is_dataclass, replace
from functools import lru_cache
from types import FunctionType, ModuleType
from typing import Any

import z3

from logspec.groups import Census, Each, Group, Many, Node, PerNode, Sorted

Value = Any
"""A Python integer, boolean or None, a z3 term, a list, tuple, mapping or dataclass of values, a group, a function."""

_DEEPEST_CALL = 20


class UnsupportedRuleError(ValueError):
    """A rule uses something that cannot be run on symbolic terms; ``str()`` is one line with function and place."""


@dataclass(frozen=True)
class Order:
    """A sort with its order: ``at_most(a, b)`` is a <= b, None if it has none.

    ``constants`` says which element an integer such as -1 means.
    """

    sort: z3.SortRef
    at_most: Callable[[z3.ExprRef, z3.ExprRef], z3.BoolRef] | None
    constants: Mapping[int, z3.ExprRef] = field(default_factory=dict)


class Executor:
    """Evaluates functions on symbolic values; ``orders`` declares sorts other than integers and booleans.

    ``census`` is told what rules ask of groups of any size; without one there are none. ``positive``: terms that the
    caller assumes to be positive, so that a rule may divide by them.
    """

    def __init__(
        self, orders: Sequence[Order] = (), census: Census | None = None, positive: Sequence[z3.ArithRef] = ()
    ) -> None:
        self._positive = tuple(positive)
        self._orders = {order.sort.get_id(): order for order in orders}
        self.census = census or Census()

    def call(self, function: Callable[..., Value], *arguments: Value) -> Value:
        """Return the result of ``function(*arguments)``: a plain value if nothing symbolic decides it, else a z3
        term.

        Raises UnsupportedRuleError if the function leaves the subset described in this module.
        """
        return self._apply(function, arguments, {}, 0)

    def _apply(
        self, function: Callable[..., Value], arguments: Sequence[Value], named: Mapping[str, Value], depth: int
    ) -> Value:
        node, plain = _source_of(function)
        frame = _Frame(self, plain, depth)
        try:
            bound = inspect.signature(plain).bind(*arguments, **named)
        except TypeError as error:
            raise frame.refuse(node, f"is called with the wrong arguments: {error}") from None
        bound.apply_defaults()
        names = dict(bound.arguments)
        if isinstance(node, ast.Lambda):
            return frame.evaluate(node.body, names)
        return frame.run(node.body, names, node)

    # -- values ------------------------------------------------------------------------------------------------------

    def order_of(self, value: Value) -> Order | None:
        """Return the declared order of a term's sort; None for integers, booleans and plain values."""
        if isinstance(value, z3.ExprRef):
            return self._orders.get(value.sort().get_id())
        return None

    def unify(self, left: Value, right: Value) -> tuple[Value, Value]:
        """Bring two values to one sort: plain numbers become the constant that the other's sort has for them."""
        for order in (self.order_of(left), self.order_of(right)):
            if order is not None:
                return _as_constant(left, order), _as_constant(right, order)
        return left, right

    def at_most(self, left: Value, right: Value) -> Value:
        """Return ``left <= right`` in the order of their sort. Raises ValueError for a sort without an order."""
        left, right = self.unify(left, right)
        order = self.order_of(left)
        if order is None:
            return left <= right
        if order.at_most is None:
            raise ValueError(f"compares elements of {order.sort}, which has no order")
        return order.at_most(left, right)

    def divided(self, left: Value, right: Value) -> Value:
        """Return ``left // right``. Raises ValueError unless ``right`` is a positive constant or assumed positive."""
        if isinstance(right, int):
            if right > 0:
                return left // right if isinstance(left, int) else left / right
        elif any(right.eq(each) for each in self._positive):
            return left / right  # z3 rounds down where the divisor is positive
        raise ValueError("divides by something that is not known to be positive")

    def equal(self, left: Value, right: Value) -> Value:
        """Return ``left == right`` after bringing both to one sort."""
        left, right = self.unify(left, right)
        return left == right

    def choose(self, condition: Value, then: Value, otherwise: Value) -> Value:
        """Return ``then if condition else otherwise``. Raises ValueError for lists of different lengths."""
        if isinstance(condition, bool):
            return then if condition else otherwise
        if isinstance(then, (list, tuple)) and isinstance(otherwise, (list, tuple)):
            if len(then) != len(otherwise):
                raise ValueError("makes a list whose length depends on a symbolic value")
            return [self.choose(condition, a, b) for a, b in zip(then, otherwise, strict=True)]
        then, otherwise = self.unify(then, otherwise)
        if then is otherwise:
            return then
        try:
            return z3.If(condition, then, otherwise)
        except z3.Z3Exception:
            raise ValueError("returns values of different types") from None

    def smaller(self, left: Value, right: Value) -> Value:
        """Return ``min(left, right)`` in the order of their sort."""
        return self.choose(self.at_most(left, right), left, right)

    def larger(self, left: Value, right: Value) -> Value:
        """Return ``max(left, right)`` in the order of their sort."""
        return self.choose(self.at_most(right, left), left, right)

    def ascending(self, values: Sequence[Value]) -> list[Value]:
        """Return the values sorted, by an odd-even transposition network of as many rounds as there are values."""
        wires = list(values)
        for turn in range(len(wires)):
            for left in range(turn % 2, len(wires) - 1, 2):
                low, high = wires[left], wires[left + 1]
                wires[left], wires[left + 1] = self.smaller(low, high), self.larger(low, high)
        return wires


class _Frame:
    """One call of one function: knows its globals and where it stands in its file."""

    def __init__(self, executor: Executor, function: FunctionType, depth: int) -> None:
        self._executor = executor
        self._function = function
        self._depth = depth
        self._outer = inspect.getclosurevars(function)

    def refuse(self, node: ast.AST, problem: str) -> UnsupportedRuleError:
        line = getattr(node, "lineno", self._function.__code__.co_firstlineno)
        file = self._function.__code__.co_filename
        return UnsupportedRuleError(f"{self._function.__name__} ({file}:{line}) {problem}")

    # -- statements --------------------------------------------------------------------------------------------------

    def run(self, body: Sequence[ast.stmt], names: dict[str, Value], after: ast.AST) -> Value:
        """Run statements to their return; an ``if`` runs what follows it once in each branch."""
        if not body:
            raise self.refuse(after, "can end without a return, which no rule may")
        first, rest = body[0], body[1:]
        match first:
            case ast.Return(value=ast.expr() as value):
                return self.evaluate(value, names)
            case ast.If():
                condition = self._truth(first.test, names)
                if isinstance(condition, bool):
                    return self.run([*(first.body if condition else first.orelse), *rest], names, first)
                then = self.run([*first.body, *rest], dict(names), first)
                otherwise = self.run([*first.orelse, *rest], dict(names), first)
                return self._guarded(first, lambda: self._executor.choose(condition, then, otherwise))
            case ast.Assign(targets=[ast.Name(id=name)], value=value):
                return self.run(rest, {**names, name: self.evaluate(value, names)}, first)
            case ast.AnnAssign(target=ast.Name(id=name), value=ast.expr() as value):
                return self.run(rest, {**names, name: self.evaluate(value, names)}, first)
            case ast.Expr(value=ast.Constant(value=str())) | ast.Pass():
                return self.run(rest, names, first)
        raise self.refuse(first, f"uses a statement that has no symbolic meaning: {_written(first)}")

    # -- expressions -------------------------------------------------------------------------------------------------

    def evaluate(self, node: ast.expr, names: Mapping[str, Value]) -> Value:
        return self._guarded(node, lambda: self._evaluate(node, names))

    def _guarded(self, node: ast.AST, work: Callable[[], Value]) -> Value:
        try:
            return work()
        except UnsupportedRuleError:
            raise
        except (ValueError, TypeError, LookupError, z3.Z3Exception) as error:
            raise self.refuse(node, str(error).splitlines()[0]) from None

    def _evaluate(self, node: ast.expr, names: Mapping[str, Value]) -> Value:
        match node:
            case ast.Constant(value=bool() | int() | None as value):
                return value
            case ast.Name(id=name):
                return self._look_up(name, names)
            case ast.Attribute(value=inner, attr=attribute):
                owner = self.evaluate(inner, names)
                if isinstance(owner, ModuleType) or _has_field(owner, attribute):
                    return getattr(owner, attribute)
            case ast.List(elts=parts) | ast.Tuple(elts=parts):
                return self._parts(parts, names)
            case ast.BoolOp(op=operator, values=parts):
                return self._junction(isinstance(operator, ast.And), parts, names)
            case ast.UnaryOp(op=operator, operand=operand):
                return self._unary(operator, operand, names)
            case ast.BinOp(left=left, op=operator, right=right):
                return self._arithmetic(operator, self.evaluate(left, names), self.evaluate(right, names))
            case ast.Compare():
                return self._compare(node, names)
            case ast.IfExp(test=test, body=then, orelse=otherwise):
                condition = self._truth(test, names)
                if isinstance(condition, bool):
                    return self.evaluate(then if condition else otherwise, names)
                return self._executor.choose(condition, self.evaluate(then, names), self.evaluate(otherwise, names))
            case ast.Subscript(value=inner, slice=index):
                return self._item(self.evaluate(inner, names), index, names)
            case ast.ListComp(elt=element, generators=[loop]) | ast.GeneratorExp(elt=element, generators=[loop]):
                return self._comprehension(element, loop, names)
            case ast.DictComp(key=ast.Name(id=key), value=element, generators=[loop]):
                return self._mapping(key, element, loop, names)
            case ast.Call():
                return self._call(node, names)
        raise ValueError(f"uses an expression that has no symbolic meaning: {_written(node)}")

    def _look_up(self, name: str, names: Mapping[str, Value]) -> Value:
        for scope in (names, self._outer.nonlocals, self._function.__globals__, vars(builtins)):
            if name in scope:
                return scope[name]
        raise ValueError(f"uses the unknown name {name}")

    def _parts(self, parts: Sequence[ast.expr], names: Mapping[str, Value]) -> Value:
        values: list[Value] = []
        open_ended: list[Each] = []
        for part in parts:
            inner = self.evaluate(part.value if isinstance(part, ast.Starred) else part, names)
            if not isinstance(part, ast.Starred):
                values.append(inner)
            elif isinstance(inner, (Group, Many)):
                open_ended.extend(_many(inner).parts)
                values.extend(_many(inner).single)
            else:
                values.extend(_listed(inner))
        return Many(tuple(open_ended), tuple(values)) if open_ended else values

    def _truth(self, node: ast.expr, names: Mapping[str, Value]) -> Value:
        return _boolean(self.evaluate(node, names))

    def _junction(self, conjunction: bool, parts: Sequence[ast.expr], names: Mapping[str, Value]) -> Value:
        """``and``/``or``: stops at a plain value that decides, as Python does."""
        symbolic: list[Value] = []
        for part in parts:
            value = self._truth(part, names)
            if not isinstance(value, bool):
                symbolic.append(value)
            elif value is not conjunction:
                if not symbolic:
                    return value
                symbolic.append(z3.BoolVal(value))
                break
        if not symbolic:
            return conjunction
        return z3.And(symbolic) if conjunction else z3.Or(symbolic)

    def _unary(self, operator: ast.unaryop, operand: ast.expr, names: Mapping[str, Value]) -> Value:
        if isinstance(operator, ast.Not):
            value = self._truth(operand, names)
            return (not value) if isinstance(value, bool) else z3.Not(value)
        number = _number(self.evaluate(operand, names))
        if isinstance(operator, ast.USub):
            return -number
        if isinstance(operator, ast.UAdd):
            return number
        raise ValueError("uses a bit operation")

    def _arithmetic(self, operator: ast.operator, left: Value, right: Value) -> Value:
        left, right = _number(left), _number(right)
        match operator:
            case ast.Add():
                return left + right
            case ast.Sub():
                return left - right
            case ast.Mult():
                return left * right
            case ast.FloorDiv():
                return self._executor.divided(left, right)
        raise ValueError("uses an arithmetic operator other than + - * //")

    def _compare(self, node: ast.Compare, names: Mapping[str, Value]) -> Value:
        left = self.evaluate(node.left, names)
        results: list[Value] = []
        for operator, other in zip(node.ops, node.comparators, strict=True):
            right = self.evaluate(other, names)
            results.append(self._compared(operator, left, right))
            left = right
        return _all(results)

    def _compared(self, operator: ast.cmpop, left: Value, right: Value) -> Value:
        run = self._executor
        match operator:
            case ast.Eq() | ast.Is():
                return run.equal(left, right)
            case ast.NotEq() | ast.IsNot():
                return _negated(run.equal(left, right))
            case ast.LtE():
                return run.at_most(left, right)
            case ast.GtE():
                return run.at_most(right, left)
            case ast.Lt():
                return _negated(run.at_most(right, left))
            case ast.Gt():
                return _negated(run.at_most(left, right))
            case ast.In():
                return self._contains(right, left)
            case ast.NotIn():
                return _negated(self._contains(right, left))
        raise ValueError("uses an unknown comparison")

    def _contains(self, owner: Value, item: Value) -> Value:
        if isinstance(owner, (Group, PerNode)):
            return owner.has(_node(item)) if isinstance(owner, Group) else owner.known(_node(item))
        if isinstance(owner, (Mapping, Set)):
            return _plain(item) in owner
        return _any([self._executor.equal(item, other) for other in _listed(owner)])

    def _item(self, owner: Value, index: ast.expr, names: Mapping[str, Value]) -> Value:
        if isinstance(owner, Mapping):
            return owner[_plain(self.evaluate(index, names))]
        if isinstance(owner, PerNode):
            return owner.value(_node(self.evaluate(index, names)))
        if isinstance(owner, Sorted) and not isinstance(index, ast.Slice):
            return self._executor.census.item(owner.values, _number(self.evaluate(index, names)))
        values = _listed(owner)
        if isinstance(index, ast.Slice):
            bounds = [
                None if part is None else _plain(self.evaluate(part, names))
                for part in (index.lower, index.upper, index.step)
            ]
            return values[slice(*bounds)]
        return values[_plain(self.evaluate(index, names))]

    def _comprehension(self, element: ast.expr, loop: ast.comprehension, names: Mapping[str, Value]) -> Value:
        if not isinstance(loop.target, ast.Name):
            raise ValueError("unpacks in a comprehension")
        name, values, open_ended = loop.target.id, list[Value](), list[Each]()
        over = self.evaluate(loop.iter, names)
        many = _many(over) if isinstance(over, (Group, Many)) else Many(())
        for each in self._executor.census.over(many):
            inner = {**names, name: each.value}
            where = z3.And(each.where, *(_formula(self._truth(test, inner)) for test in loop.ifs))
            open_ended.append(replace(each, where=where, value=self.evaluate(element, inner)))
        for item in many.single if many.parts else _listed(over):
            inner = {**names, name: item}
            wanted = _all([self._truth(test, inner) for test in loop.ifs])
            if not isinstance(wanted, bool):
                raise ValueError("makes a list whose length depends on a symbolic value")
            if wanted:
                values.append(self.evaluate(element, inner))
        return Many(tuple(open_ended), tuple(values)) if open_ended else values

    def _mapping(self, key: str, element: ast.expr, loop: ast.comprehension, names: Mapping[str, Value]) -> Value:
        """A mapping from the elements of a list, each to a value of its own."""
        if not isinstance(loop.target, ast.Name) or loop.target.id != key or loop.ifs:
            raise ValueError("makes a mapping other than one from each element of a list")
        over = self.evaluate(loop.iter, names)
        if not isinstance(over, (Group, Many)):
            return {_plain(item): self.evaluate(element, {**names, key: item}) for item in _listed(over)}
        many = _many(over)
        values: list[Each] = []
        for each in self._executor.census.over(many):
            if many.single or not each.value.eq(each.node):
                raise ValueError("makes a mapping from something other than nodes")
            values.append(replace(each, value=self.evaluate(element, {**names, key: each.node})))
        return PerNode(
            lambda node: z3.Or([z3.And(each.group.has(node), each.of(node).where) for each in values]),
            lambda node: values[0].of(node).value,
        )

    def _call(self, node: ast.Call, names: Mapping[str, Value]) -> Value:
        run = self._executor
        match node:
            case ast.Call(func=ast.Attribute(value=inner, attr="get"), args=[key, default], keywords=[]):
                owner = self.evaluate(inner, names)
                if isinstance(owner, Mapping):
                    return owner.get(_plain(self.evaluate(key, names)), self.evaluate(default, names))
                if isinstance(owner, PerNode):
                    node = _node(self.evaluate(key, names))
                    return run.choose(owner.known(node), owner.value(node), self.evaluate(default, names))
        function = self.evaluate(node.func, names)
        arguments = self._parts(node.args, names)
        if isinstance(arguments, Many):  # max(-1, *offsets)
            arguments = [arguments]
        named: dict[str, Value] = {}
        for keyword in node.keywords:
            if keyword.arg is None:
                raise ValueError("passes arguments by a mapping")
            named[keyword.arg] = self.evaluate(keyword.value, names)
        known = getattr(function, "__module__", None) == "builtins"
        if known and not named:
            return self._builtin(function, arguments)
        if known or not isinstance(function, FunctionType):
            raise ValueError(f"calls something that has no symbolic meaning: {_written(node)}")
        if self._depth >= _DEEPEST_CALL:
            raise ValueError(f"calls more than {_DEEPEST_CALL} functions deep; recursion has no symbolic meaning")
        return run._apply(function, arguments, named, self._depth + 1)

    def _of_many(self, function: Callable[..., Value], values: Many) -> Value:
        """What a builtin says of a list of unknown length."""
        run, census = self._executor, self._executor.census
        if function is len:
            return census.total(values, lambda value: True)
        if function is sorted:
            return Sorted(values)
        if function in (list, tuple):
            return values
        if function is sum:
            return census.total(values, _boolean)
        if function is any:
            return census.total(values, _boolean) > 0
        if function is all:
            return census.total(values, lambda value: _negated(_boolean(value))) == 0
        if function in (min, max):
            upwards = function is max
            return census.extreme(values, lambda a, b: run.at_most(a, b) if upwards else run.at_most(b, a))
        raise ValueError(f"calls {function.__name__}, which has no symbolic meaning for a group of any size")

    def _builtin(self, function: Callable[..., Value], arguments: list[Value]) -> Value:
        run = self._executor
        if len(arguments) == 1 and isinstance(arguments[0], (Group, Many)):
            return self._of_many(function, _many(arguments[0]))
        values = _listed(arguments[0]) if len(arguments) == 1 and isinstance(arguments[0], (list, tuple)) else None
        if function in (min, max):
            pool = arguments if values is None else values
            if not pool:
                raise ValueError(f"takes {function.__name__} of nothing")
            best = pool[0]
            for value in pool[1:]:
                best = run.smaller(best, value) if function is min else run.larger(best, value)
            return best
        if function is abs and len(arguments) == 1:
            number = _number(arguments[0])
            return run.choose(run.at_most(0, number), number, -number)
        if function is bool and len(arguments) == 1:
            return _boolean(arguments[0])
        if values is not None:
            if function is len:
                return len(values)
            if function is sorted:
                return run.ascending(values)
            if function in (list, tuple):
                return list(values)
            if function is any:
                return _any([_boolean(value) for value in values])
            if function is all:
                return _all([_boolean(value) for value in values])
            if function is sum:
                return sum((_counted(value) for value in values), 0)
        if function is range and all(isinstance(argument, int) for argument in arguments):
            return list(range(*arguments))
        raise ValueError(f"calls {function.__name__}, which has no symbolic meaning here")


# -- where a function is written -------------------------------------------------------------------------------------


def _source_of(function: Callable[..., Value]) -> tuple[ast.FunctionDef | ast.Lambda, FunctionType]:
    """Return the syntax tree of a function and the function itself; the file is parsed and searched once."""
    if not isinstance(function, FunctionType):
        raise UnsupportedRuleError(f"{function!r} is not a function written in Python, so it cannot be read")
    code = function.__code__
    lines = linecache.getlines(code.co_filename, function.__globals__)
    if not lines:
        raise UnsupportedRuleError(f"{function.__name__} ({code.co_filename}:{code.co_firstlineno}) has no source file")
    try:
        written = _functions("".join(lines)).get((code.co_name, code.co_firstlineno), ())
    except SyntaxError:
        raise UnsupportedRuleError(f"{code.co_filename} changed after it was loaded and no longer parses") from None
    found = [node for node in written if _parameters(node) == code.co_varnames[: code.co_argcount]]
    if len(found) != 1:
        place = f"{code.co_name} ({code.co_filename}:{code.co_firstlineno})"
        raise UnsupportedRuleError(f"{place} cannot be identified in its file; write it as a separate function")
    return found[0], function


@lru_cache(maxsize=16)
def _functions(text: str) -> Mapping[tuple[str, int], Sequence[ast.FunctionDef | ast.Lambda]]:
    """The functions of a source by name and line, where a decorated one has several."""
    found: dict[tuple[str, int], list[ast.FunctionDef | ast.Lambda]] = {}
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.Lambda):
            found.setdefault(("<lambda>", node.lineno), []).append(node)
        elif isinstance(node, ast.FunctionDef):
            for line in {node.lineno, *(mark.lineno for mark in node.decorator_list)}:
                found.setdefault((node.name, line), []).append(node)
    return found


def _parameters(node: ast.FunctionDef | ast.Lambda) -> tuple[str, ...]:
    return tuple(argument.arg for argument in (*node.args.posonlyargs, *node.args.args))


def _written(node: ast.AST) -> str:
    text = ast.unparse(node).splitlines()[0]
    return text if len(text) <= 60 else text[:57] + "..."


# -- small conversions -----------------------------------------------------------------------------------------------


def _as_constant(value: Value, order: Order) -> Value:
    if isinstance(value, int) and not isinstance(value, bool):
        if value not in order.constants:
            raise ValueError(f"uses the number {value} where an element of {order.sort} belongs")
        return order.constants[value]
    return value


def _boolean(value: Value) -> Value:
    if isinstance(value, bool) or (isinstance(value, z3.ExprRef) and z3.is_bool(value)):
        return value
    raise ValueError("uses something that is not a boolean as a condition")


def _number(value: Value) -> Value:
    if isinstance(value, bool) or z3.is_bool(value):
        raise ValueError("calculates with a boolean")
    if isinstance(value, int) or z3.is_int(value):
        return value
    raise ValueError("calculates with something that is not a number")


def _counted(value: Value) -> Value:
    if isinstance(value, z3.ExprRef) and z3.is_bool(value):
        return z3.If(value, z3.IntVal(1), z3.IntVal(0))
    return value


def _plain(value: Value) -> int:
    if isinstance(value, int):
        return value
    raise ValueError("looks something up by a symbolic value")


def _has_field(value: Value, name: str) -> bool:
    return is_dataclass(value) and not isinstance(value, type) and any(known.name == name for known in fields(value))


def _many(value: Group | Many) -> Many:
    return Many((value.each,)) if isinstance(value, Group) else value


def _node(value: Value) -> Value:
    if isinstance(value, z3.ExprRef) and value.sort() == Node:
        return value
    raise ValueError("asks for a particular node of a group of any size")


def _formula(value: Value) -> Value:
    return z3.BoolVal(value) if isinstance(value, bool) else value


def _listed(value: Value) -> list[Value]:
    if isinstance(value, (list, tuple)):
        return list(value)
    raise ValueError("iterates over something that is not a list of known length")


def _negated(value: Value) -> Value:
    return (not value) if isinstance(value, bool) else z3.Not(value)


def _all(values: Sequence[Value]) -> Value:
    if any(value is False for value in values):
        return False
    symbolic = [value for value in values if value is not True]
    return z3.And(symbolic) if symbolic else True


def _any(values: Sequence[Value]) -> Value:
    if any(value is True for value in values):
        return True
    symbolic = [value for value in values if value is not False]
    return z3.Or(symbolic) if symbolic else False
