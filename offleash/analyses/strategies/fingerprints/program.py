"""The fingerprint `program`: the syntax tree of the last block of code, without names, comments, hints and examples.

Names that the program itself binds are numbered in their order; names of modules, of what they hold, of methods of
foreign objects and of builtins stay, as do constants. `x += 1` is `x = x + 1`, `a > b` is `b < a`, `from math import
gcd` is `math.gcd`; where no input is read, what only shows functions on constants is left out. Nothing is run or
compiled.
"""

import ast
import builtins
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from textwrap import dedent, indent

from offleash.analyses.strategies.fingerprints.fingerprint import SolvedProblem, short
from offleash.verifiers.extraction.extract import extract
from offleash.verifiers.registry import VERIFIERS

# The own names of a program, numbered in the order in which they are met; all others stay.
#
# A variable is a name in the scope that binds it. A builtin that is read before its scope binds it is the builtin,
# and an imported name is what it was imported from (`math.gcd`) until its scope binds it otherwise. An attribute is
# the own one of a program where a class that inherits from no foreign one sets it on `self` or defines it as a
# method, and nothing but `self` is asked for it; any other attribute keeps its name, and so do `__init__` and its
# like.


Function = ast.FunctionDef | ast.AsyncFunctionDef
Definition = Function | ast.ClassDef
Comprehension = ast.ListComp | ast.SetComp | ast.GeneratorExp | ast.DictComp
Import = ast.Import | ast.ImportFrom
Key = tuple[int, str]  # scope and name
ATTRIBUTES = -1  # in the place of a scope
BUILTINS = frozenset(dir(builtins))
_ORDER: dict[type[ast.AST], tuple[str, ...]] = {  # what is read comes before what is bound
    ast.Assign: ("value", "targets"),
    ast.NamedExpr: ("value", "target"),
    ast.For: ("iter", "target", "body", "orelse"),
    ast.AsyncFor: ("iter", "target", "body", "orelse"),
}


@dataclass(frozen=True)
class Scope:
    """A module, function, class or comprehension, and the names that it binds."""

    number: int
    outer: "Scope | None"
    node: ast.AST
    names: frozenset[str]
    elsewhere: frozenset[str] = frozenset()  # global and nonlocal
    imports: dict[str, str] = field(default_factory=dict)  # what imported names stand for
    stored: set[str] = field(default_factory=set)  # so far, in the order in which a program runs


def numbered(tree: ast.Module) -> ast.Module:
    """The same tree with its own names numbered."""
    _Numbering(tree).walk(tree)
    return tree


class _Numbering:
    """Walks a tree in the order in which it runs, and writes the new names into it."""

    def __init__(self, tree: ast.Module) -> None:
        self._names: dict[Key, str] = {}
        self._number: dict[ast.AST, int] = {}
        self._defined: dict[Key, Definition] = {}
        self._selves = _selves(tree)
        self._parameters: dict[ast.AST, frozenset[str]] = {
            one: frozenset(arg.arg for arg in _parameters(one.args))
            for one in ast.walk(tree)
            if isinstance(one, Function)
        }
        self._methods = {one.name: one for one in _methods(tree)}
        self._own = _own_attributes(tree, self._selves)
        declared = [name for one in ast.walk(tree) if isinstance(one, ast.Global) for name in one.names]
        self._scope = self._inside(tree, tree.body, None, declared)

    def walk(self, node: ast.AST) -> None:
        """Rename a node and what it holds."""
        if isinstance(node, ast.Name):
            node.id = self._read(node.id) if isinstance(node.ctx, ast.Load) else self._bind(node.id)
        elif isinstance(node, ast.Attribute):
            mine = isinstance(node.value, ast.Name) and node.value.id in self._selves
            self.walk(node.value)
            node.attr = self._attribute(node.attr) if mine else node.attr
        elif isinstance(node, ast.Call):
            self._call(node)
        elif isinstance(node, Definition):
            self._definition(node)
        elif isinstance(node, ast.Lambda):
            self._all([*node.args.defaults, *(one for one in node.args.kw_defaults if one)])
            self._body(node, [node.body], node.args)
        elif isinstance(node, Comprehension):
            self._comprehension(node)
        elif isinstance(node, ast.Global | ast.Nonlocal):
            node.names = [self._known(name, self._place(name)) for name in node.names]
        else:
            self._rest(node)

    def _rest(self, node: ast.AST) -> None:
        if isinstance(node, ast.ExceptHandler | ast.MatchAs | ast.MatchStar) and node.name:
            node.name = self._bind(node.name)
        elif isinstance(node, ast.MatchMapping) and node.rest:
            node.rest = self._bind(node.rest)
        elif isinstance(node, Import):
            self._scope.stored.difference_update(_imported(node))
        for name in _ORDER.get(type(node), node._fields):
            inside = getattr(node, name, None)
            self._all(inside if isinstance(inside, list) else [inside])

    def _all(self, nodes: Iterable[object]) -> None:
        for one in nodes:
            if isinstance(one, ast.AST):
                self.walk(one)

    def _definition(self, node: Definition) -> None:
        self._all(node.decorator_list)
        parameters = None
        if isinstance(node, ast.ClassDef):
            self._all([*node.bases, *(one.value for one in node.keywords)])
        else:
            parameters = node.args
            self._all([*parameters.defaults, *(one for one in parameters.kw_defaults if one)])
        method = isinstance(self._scope.node, ast.ClassDef) and not isinstance(node, ast.ClassDef)
        node.name = self._attribute(node.name) if method else self._bind(node.name)
        self._body(node, node.body, parameters)

    def _body(self, node: ast.AST, body: Iterable[ast.AST], parameters: ast.arguments | None) -> None:
        """Walk what stands in a scope of its own."""
        own = _parameters(parameters)
        outer, self._scope = self._scope, self._inside(node, body, self._scope, {one.arg for one in own})
        for one in own:
            one.arg = self._bind(one.arg)
        self._all(body)
        self._scope = outer

    def _comprehension(self, node: Comprehension) -> None:
        """Its first list is read outside of it; a name that := binds in it belongs outside as well."""
        self.walk(node.generators[0].iter)
        names = {name for one in node.generators for name in _stored(one.target)}
        outer, self._scope = self._scope, Scope(self._numbered(node), self._scope, node, frozenset(names))
        for place, one in enumerate(node.generators):
            self._all(([one.iter] if place else []) + [one.target, *one.ifs])
        self._all([node.key, node.value] if isinstance(node, ast.DictComp) else [node.elt])
        self._scope = outer

    def _call(self, node: ast.Call) -> None:
        """A call; keywords of the program's own functions are named as their parameters."""
        called: Definition | None = None
        if isinstance(node.func, ast.Name):
            place = self._place(node.func.id)
            called = None if place is None else self._defined.get((place.number, node.func.id))
        elif isinstance(node.func, ast.Attribute) and node.func.attr in self._own:
            called = self._methods.get(node.func.attr)
        if isinstance(called, ast.ClassDef):
            called = next((one for one in called.body if isinstance(one, Function) and one.name == "__init__"), None)
        known = frozenset[str]() if called is None else self._parameters.get(called, frozenset())
        self._all([node.func, *node.args, *(one.value for one in node.keywords)])
        for one in node.keywords:
            if called is not None and one.arg in known:
                one.arg = self._named((self._numbered(called), str(one.arg)))

    def _inside(
        self, node: ast.AST, body: Iterable[ast.AST], outer: Scope | None, parameters: Iterable[str] = ()
    ) -> Scope:
        """A scope with what its body binds, its functions and classes noted."""
        held = [one for part in body for one in _here(part)]
        elsewhere = {name for one in held if isinstance(one, ast.Global | ast.Nonlocal) for name in one.names}
        names = {name for one in held for name in _binds(one)} | set(parameters)
        number = self._numbered(node)
        self._defined |= {(number, one.name): one for one in held if isinstance(one, Definition)}
        imports = {name: path for one in held for name, path in _imported(one).items()}
        return Scope(number, outer, node, frozenset(names - elsewhere), frozenset(elsewhere), imports)

    def _numbered(self, node: ast.AST) -> int:
        return self._number.setdefault(node, len(self._number))

    def _named(self, key: Key) -> str:
        return self._names.setdefault(key, f"v{len(self._names)}")

    def _attribute(self, name: str) -> str:
        return self._named((ATTRIBUTES, name)) if name in self._own else name

    def _place(self, name: str) -> Scope | None:
        """The scope that binds a name as it is seen from here; None: a builtin, or nothing."""
        scope: Scope | None = self._scope
        while scope is not None:
            seen = scope is self._scope or not isinstance(scope.node, ast.ClassDef)
            if seen and name in scope.names:
                return scope
            scope = scope.outer
        return None

    def _read(self, name: str) -> str:
        place = self._place(name)
        if place is not None and name in place.imports and name not in place.stored:
            return place.imports[name]  # dotted, so that no variable is taken for the module
        here = place is self._scope or name in self._scope.elsewhere
        if name in BUILTINS and place is not None and here and name not in place.stored:
            return name  # `sum = sum(a)` reads the builtin
        return self._known(name, place)

    def _bind(self, name: str) -> str:
        if (place := self._place(name)) is not None:
            place.stored.add(name)
        return self._known(name, place)

    def _known(self, name: str, place: Scope | None) -> str:
        if place is None or _stays(name) or isinstance(place.node, ast.ClassDef):
            return name
        return self._named((place.number, name))


def _here(node: ast.AST) -> Iterator[ast.AST]:
    """A node and what it holds in the same scope; of comprehensions only what := binds."""
    yield node
    if isinstance(node, Definition | ast.Lambda):
        return
    if isinstance(node, Comprehension):
        yield from (one.target for one in ast.walk(node) if isinstance(one, ast.NamedExpr))
        return
    for one in ast.iter_child_nodes(node):
        yield from _here(one)


def _binds(node: ast.AST) -> Iterator[str]:
    if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
        yield node.id
    elif isinstance(node, Definition | ast.ExceptHandler | ast.MatchAs | ast.MatchStar) and node.name:
        yield node.name
    elif isinstance(node, ast.MatchMapping) and node.rest:
        yield node.rest
    yield from _imported(node)


def _imported(node: ast.AST) -> dict[str, str]:
    """The names that an import binds, with what they stand for."""
    if isinstance(node, ast.Import):
        return {
            one.asname or one.name.split(".")[0]: one.name if one.asname else one.name.split(".")[0]
            for one in node.names
        }
    if isinstance(node, ast.ImportFrom):
        return {one.asname or one.name: f"{node.module or ''}.{one.name}".strip(".") for one in node.names}
    return {}


def _stored(target: ast.AST) -> Iterator[str]:
    return (one.id for one in ast.walk(target) if isinstance(one, ast.Name) and isinstance(one.ctx, ast.Store))


def _parameters(args: ast.arguments | None) -> list[ast.arg]:
    if args is None:
        return []
    rest = [one for one in (args.vararg, args.kwarg) if one is not None]
    return [*args.posonlyargs, *args.args, *args.kwonlyargs, *rest]


def _stays(name: str) -> bool:
    return name.startswith("__") and name.endswith("__")


def _methods(tree: ast.AST) -> list[Function]:
    classes = (node for node in ast.walk(tree) if isinstance(node, ast.ClassDef))
    return [one for node in classes for one in node.body if isinstance(one, Function)]


def _selves(tree: ast.AST) -> frozenset[str]:
    """What methods call the object that they belong to."""
    static = {
        one for one in _methods(tree) for name in one.decorator_list if ast.unparse(name).startswith("staticmethod")
    }
    firsts = ([*one.args.posonlyargs, *one.args.args][:1] for one in _methods(tree) if one not in static)
    return frozenset(first.arg for some in firsts for first in some)


def _own_attributes(tree: ast.AST, selves: frozenset[str]) -> frozenset[str]:
    """Attributes that may be renamed: methods and what is set on self, if no class is foreign and nobody else asks."""
    classes = [node for node in ast.walk(tree) if isinstance(node, ast.ClassDef)]
    known = {one.name for one in classes} | {"object"}
    if any(one.keywords or not all(isinstance(b, ast.Name) and b.id in known for b in one.bases) for one in classes):
        return frozenset()
    found, others = {one.name for one in _methods(tree)}, set[str]()
    for node in ast.walk(tree):
        others |= {part for path in _imported(node).values() for part in path.split(".")[1:]}
        if not isinstance(node, ast.Attribute):
            continue
        if not isinstance(node.value, ast.Name) or node.value.id not in selves:
            others.add(node.attr)
        elif isinstance(node.ctx, ast.Store):
            found.add(node.attr)
    held = [part for one in classes for inside in one.body for part in _here(inside)]
    held += [part for one in _methods(tree) for inside in one.decorator_list for part in ast.walk(inside)]
    others |= {one.id for one in held if isinstance(one, ast.Name)}
    return frozenset(name for name in found - others if not _stays(name))


LONGEST = 50_000  # characters of a program
Block = (
    Definition | ast.If | ast.For | ast.AsyncFor | ast.While | ast.With | ast.AsyncWith | ast.Try | ast.ExceptHandler
)
_SWAPPED: dict[type[ast.cmpop], type[ast.cmpop]] = {ast.Gt: ast.Lt, ast.GtE: ast.LtE}


def strategy(problem: SolvedProblem, text: str) -> str | None:
    """The program in one writing; None where there is no program that can be read."""
    source = extract(text, VERIFIERS["program"].steps).answer
    if source is None or len(source) > LONGEST:
        return None
    tree = _read(source)
    if tree is None:
        return None
    shown = examples(tree)
    again = _read(source) if shown else None  # numbering writes into its tree
    if again is not None and not reads_input(numbered(again)):
        tree.body = [one for place, one in enumerate(tree.body) if place not in shown]
    bare = _WithoutImports().visit(numbered(tree))
    assert isinstance(bare, ast.Module)
    return short(ast.unparse(ast.fix_missing_locations(bare)))


def _read(source: str) -> ast.Module | None:
    """The tree of a program, its main guard opened, in one writing; None where there is none."""
    tree = _parsed(source)
    if tree is None or not any(not isinstance(one, ast.Expr) or isinstance(one.value, ast.Call) for one in tree.body):
        return None
    plain = _Plain().visit(opened(tree))
    assert isinstance(plain, ast.Module)
    return plain


def _parsed(source: str) -> ast.Module | None:
    """The tree of a program, or of the body of a function that the prompt had begun."""
    for text in (source, dedent(source), "def f():\n" + indent(dedent(source), "    ")):
        try:
            return ast.parse(text)
        except (SyntaxError, ValueError):
            continue
    return None


class _Plain(ast.NodeTransformer):
    """Without docstrings, hints and what is only another writing of the same."""

    def generic_visit(self, node: ast.AST) -> ast.AST:
        super().generic_visit(node)
        body = getattr(node, "body", None)
        if isinstance(node, ast.Module | Definition) and isinstance(body, list):
            node.body = [one for one in body if not _is_docstring(one)] or [ast.Pass()]
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            node.returns = None
        return node

    def visit_arg(self, node: ast.arg) -> ast.AST:
        return ast.arg(arg=node.arg)

    def visit_AnnAssign(self, node: ast.AnnAssign) -> ast.AST | None:
        self.generic_visit(node)
        return None if node.value is None else ast.Assign(targets=[node.target], value=node.value)

    def visit_AugAssign(self, node: ast.AugAssign) -> ast.AST:
        self.generic_visit(node)
        if not isinstance(node.target, ast.Name):  # a[f()] += 1 calls once
            return node
        read = ast.Name(id=node.target.id, ctx=ast.Load())
        return ast.Assign(targets=[node.target], value=ast.BinOp(left=read, op=node.op, right=node.value))

    def visit_Compare(self, node: ast.Compare) -> ast.AST:
        self.generic_visit(node)
        swapped = _SWAPPED.get(type(node.ops[0])) if len(node.ops) == 1 else None
        if swapped is None:
            return node
        return ast.Compare(left=node.comparators[0], ops=[swapped()], comparators=[node.left])


class _WithoutImports(ast.NodeTransformer):
    """Without imports: what they bind stands where it is used."""

    def visit_Import(self, node: ast.Import) -> None:
        return None

    def visit_ImportFrom(self, node: ast.ImportFrom) -> None:
        return None

    def generic_visit(self, node: ast.AST) -> ast.AST:
        super().generic_visit(node)
        if isinstance(node, Block) and not node.body:  # it held nothing but imports
            node.body = [ast.Pass()]
        return node


def _is_docstring(node: ast.stmt) -> bool:
    return isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant) and isinstance(node.value.value, str)


# What stands under the functions of a program only to show them: calls, prints and asserts on constants.
#
# An example calls a function or a class of the program, or a method of such a class, with nothing but literals: as a
# statement, printed beside other constants, or asserted. A program that reads input is a script, and has no examples.


STREAMS = frozenset({"stdin", "argv"})
READERS = frozenset({"input", "open", "fileinput"})
_LITERAL = (
    *(ast.Constant, ast.List, ast.Tuple, ast.Set, ast.Dict, ast.Starred),
    *(ast.UnaryOp, ast.BinOp, ast.unaryop, ast.operator, ast.expr_context),
)


def opened(tree: ast.Module) -> ast.Module:
    """With what stands under `if __name__ == "__main__"` at the top level."""
    body: list[ast.stmt] = []
    for one in tree.body:
        guard = isinstance(one, ast.If) and any(
            isinstance(name, ast.Name) and name.id == "__name__" for name in ast.walk(one.test)
        )
        body += one.body if guard and isinstance(one, ast.If) else [one]
    return ast.Module(body=body, type_ignores=[])


def examples(tree: ast.Module) -> frozenset[int]:
    """The places of examples at the top level; where there are any, prints of text alone belong to them."""
    own = {one.name: one for one in tree.body if isinstance(one, Definition)}
    found = {place for place, one in enumerate(tree.body) if _is_example(one, own)}
    return frozenset(found | {place for place, one in enumerate(tree.body) if found and _prints_text(one)})


def reads_input(tree: ast.Module) -> bool:
    """Whether a program reads what it is given; its own names must be numbered, so that `input` is the builtin."""
    for one in ast.walk(tree):
        if isinstance(one, ast.Attribute) and one.attr in STREAMS:
            return True
        if isinstance(one, ast.Name) and one.id.split(".")[-1] in STREAMS | READERS:
            return True
    return False


def _is_example(node: ast.stmt, own: dict[str, Definition]) -> bool:
    if isinstance(node, ast.Assert):  # it computes nothing that the program gives
        return any(_shows(one, own) for one in ast.walk(node.test))
    if not isinstance(node, ast.Expr):
        return False
    printed = _printed(node)
    if printed is None:
        return _shows(node.value, own)
    shown = any(_shows(one, own) for part in printed for one in ast.walk(part))
    return shown and all(_is_constant(one, own) for one in printed)


def _prints_text(node: ast.stmt) -> bool:
    printed = _printed(node)
    return printed is not None and all(isinstance(one, ast.Constant) and isinstance(one.value, str) for one in printed)


def _printed(node: ast.stmt) -> list[ast.expr] | None:
    """What a statement prints; None where it is no print."""
    call = node.value if isinstance(node, ast.Expr) else None
    if isinstance(call, ast.Call) and isinstance(call.func, ast.Name) and call.func.id == "print":
        return [*call.args, *(one.value for one in call.keywords)]
    return None


def _is_constant(node: ast.expr, own: dict[str, Definition]) -> bool:
    """Whether it is made of literals and of what own functions give for literals: itself, compared, or in a text."""
    if isinstance(node, ast.JoinedStr | ast.FormattedValue | ast.Compare):
        return all(_is_constant(one, own) for one in ast.iter_child_nodes(node) if isinstance(one, ast.expr))
    return _is_literal(node) or _shows(node, own)


def _shows(node: ast.AST, own: dict[str, Definition]) -> bool:
    """Whether it calls, with literals, an own function or class, or a method of an own class made with literals."""
    if not isinstance(node, ast.Call):
        return False
    if not all(_is_literal(one) for one in (*node.args, *(one.value for one in node.keywords))):
        return False
    if isinstance(node.func, ast.Name):
        return node.func.id in own
    made = node.func.value if isinstance(node.func, ast.Attribute) else None
    if not isinstance(made, ast.Call) or not isinstance(made.func, ast.Name):
        return False
    return isinstance(own.get(made.func.id), ast.ClassDef) and _shows(made, own)


def _is_literal(node: ast.expr) -> bool:
    return all(isinstance(one, _LITERAL) for one in ast.walk(node))
