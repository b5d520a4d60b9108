"""The fingerprint `program`: the syntax tree of the last block of code, in a canonical form.

Two programs are one strategy where they differ only in what a programmer would call style. Ignored, and why:

* comments, docstrings, type hints and layout: they compute nothing;
* names that the program itself binds: they are numbered in the order in which they are met (`v0`, `v1`, ...);
* how something is imported: `from math import gcd` and `import math` both give `math.gcd` where it is used;
* `x += 1` or `x = x + 1`, `a > b` or `b < a`, `if __name__ == "__main__"`: the same computation in other notation;
* examples under the functions, in programs that read no input: they show the solution and are not part of it.

Not ignored, because they may be what distinguishes two methods: constants, builtins, modules and what they hold,
methods of foreign objects, the order of statements and of operands. Merging too little only splits a strategy in two,
merging too much hides a lost one, so in doubt a difference counts. Nothing is run or compiled.
"""

import ast
import builtins
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from textwrap import dedent, indent

from offleash.analyses.strategies.fingerprints.fingerprint import SolvedProblem, short
from offleash.verifiers.extraction.extract import extract
from offleash.verifiers.registry import VERIFIERS

# A program's own names, numbered in the order in which they are met; all others stay.
#
# A variable is a name in the scope that binds it. A builtin that is read before its scope binds it is the builtin, and
# an imported name is what it was imported from (`math.gcd`) until its scope binds it otherwise. An attribute belongs to
# the program where one of its classes sets it on `self` or defines it as a method, no class inherits from outside the
# program, and the attribute is read from nothing but `self`; any other attribute keeps its name, since code elsewhere
# may look it up by that name. So do `__init__` and the like.


Function = ast.FunctionDef | ast.AsyncFunctionDef
Definition = Function | ast.ClassDef
Comprehension = ast.ListComp | ast.SetComp | ast.GeneratorExp | ast.DictComp
Import = ast.Import | ast.ImportFrom
Key = tuple[int, str]  # number of the scope, and name: the same name in two functions is two variables
ATTRIBUTES = -1  # the scope of attributes: one for all classes, as it is not known which class an object has
BUILTINS = frozenset(dir(builtins))
# Python's syntax tree lists targets before values; a program evaluates values first. Names are numbered in the order of
# evaluation, so that `x = y` numbers `y` first, as a longer expression would.
_ORDER: dict[type[ast.AST], tuple[str, ...]] = {
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
    elsewhere: frozenset[str] = frozenset()  # declared global or nonlocal: bound in an outer scope
    imports: dict[str, str] = field(default_factory=dict)  # imported name: its dotted path
    stored: set[str] = field(default_factory=set)  # names assigned so far, in the order in which the program runs


def number_names(tree: ast.Module) -> ast.Module:
    """The tree with its own names numbered. The tree is changed in place."""
    _NameNumbering(tree).walk(tree)
    return tree


class _NameNumbering:
    """Walks a tree in the order of evaluation, and writes the new names into it.

    Scopes are opened on the way in (`_inside`), since what a scope binds anywhere in its body decides what a name means
    everywhere in it.
    """

    def __init__(self, tree: ast.Module) -> None:
        self._names: dict[Key, str] = {}
        self._number: dict[ast.AST, int] = {}
        self._defined: dict[Key, Definition] = {}
        self._self_names = _self_names(tree)
        self._parameters: dict[ast.AST, frozenset[str]] = {
            node: frozenset(arg.arg for arg in _parameters(node.args))
            for node in ast.walk(tree)
            if isinstance(node, Function)
        }
        self._methods = {node.name: node for node in _methods(tree)}
        self._own_names = _own_attributes(tree, self._self_names)
        declared = [name for node in ast.walk(tree) if isinstance(node, ast.Global) for name in node.names]
        self._scope = self._inside(tree, tree.body, None, declared)

    def walk(self, node: ast.AST) -> None:
        """Rename a node and everything below it."""
        if isinstance(node, ast.Name):
            node.id = self._read(node.id) if isinstance(node.ctx, ast.Load) else self._bind(node.id)
        elif isinstance(node, ast.Attribute):
            is_own_attribute = (
                isinstance(node.value, ast.Name) and node.value.id in self._self_names
            )  # before `self` is renamed
            self.walk(node.value)
            node.attr = self._attribute(node.attr) if is_own_attribute else node.attr
        elif isinstance(node, ast.Call):
            self._call(node)
        elif isinstance(node, Definition):
            self._definition(node)
        elif isinstance(node, ast.Lambda):
            self._visit_all([*node.args.defaults, *(default for default in node.args.kw_defaults if default)])
            self._body(node, [node.body], node.args)
        elif isinstance(node, Comprehension):
            self._comprehension(node)
        elif isinstance(node, ast.Global | ast.Nonlocal):
            node.names = [self._known(name, self._scope_of(name)) for name in node.names]
        else:
            self._visit_other(node)

    def _visit_other(self, node: ast.AST) -> None:
        """Nodes without a scope of their own; some bind a name that is no `ast.Name` (except, match, import)."""
        if isinstance(node, ast.ExceptHandler | ast.MatchAs | ast.MatchStar) and node.name:
            node.name = self._bind(node.name)
        elif isinstance(node, ast.MatchMapping) and node.rest:
            node.rest = self._bind(node.rest)
        elif isinstance(node, Import):
            self._scope.stored.difference_update(_imported_names(node))
        for name in _ORDER.get(type(node), node._fields):
            inside = getattr(node, name, None)
            self._visit_all(inside if isinstance(inside, list) else [inside])

    def _visit_all(self, nodes: Iterable[object]) -> None:
        for node in nodes:
            if isinstance(node, ast.AST):
                self.walk(node)

    def _definition(self, node: Definition) -> None:
        """A function or class: decorators, bases and defaults belong to the outer scope, parameters to the inner."""
        self._visit_all(node.decorator_list)
        parameters = None
        if isinstance(node, ast.ClassDef):
            self._visit_all([*node.bases, *(part.value for part in node.keywords)])
        else:
            parameters = node.args
            self._visit_all([*parameters.defaults, *(part for part in parameters.kw_defaults if part)])
        method = isinstance(self._scope.node, ast.ClassDef) and not isinstance(node, ast.ClassDef)
        node.name = self._attribute(node.name) if method else self._bind(node.name)
        self._body(node, node.body, parameters)

    def _body(self, node: ast.AST, body: Iterable[ast.AST], parameters: ast.arguments | None) -> None:
        """Walk a body in a scope of its own."""
        arguments = _parameters(parameters)
        outer, self._scope = (
            self._scope,
            self._inside(node, body, self._scope, {parameter.arg for parameter in arguments}),
        )
        for parameter in arguments:
            parameter.arg = self._bind(parameter.arg)
        self._visit_all(body)
        self._scope = outer

    def _comprehension(self, node: Comprehension) -> None:
        """Its first iterable is evaluated in the outer scope; a name that := binds belongs there, too (PEP 572)."""
        self.walk(node.generators[0].iter)
        names = {name for generator in node.generators for name in _stored_names(generator.target)}
        outer, self._scope = self._scope, Scope(self._scope_number(node), self._scope, node, frozenset(names))
        for index, generator in enumerate(node.generators):
            self._visit_all(([generator.iter] if index else []) + [generator.target, *generator.ifs])
        self._visit_all([node.key, node.value] if isinstance(node, ast.DictComp) else [node.elt])
        self._scope = outer

    def _call(self, node: ast.Call) -> None:
        """A call; keyword names of the program's own functions follow the new names of their parameters."""
        called: Definition | None = None
        if isinstance(node.func, ast.Name):
            scope = self._scope_of(node.func.id)
            called = None if scope is None else self._defined.get((scope.number, node.func.id))
        elif isinstance(node.func, ast.Attribute) and node.func.attr in self._own_names:
            called = self._methods.get(node.func.attr)
        if isinstance(called, ast.ClassDef):
            methods = (part for part in called.body if isinstance(part, Function))
            called = next((method for method in methods if method.name == "__init__"), None)
        known = frozenset[str]() if called is None else self._parameters.get(called, frozenset())
        self._visit_all([node.func, *node.args, *(keyword.value for keyword in node.keywords)])
        for keyword in node.keywords:
            if called is not None and keyword.arg in known:
                keyword.arg = self._numbered_name((self._scope_number(called), str(keyword.arg)))

    def _inside(
        self, scope_node: ast.AST, body: Iterable[ast.AST], outer: Scope | None, parameters: Iterable[str] = ()
    ) -> Scope:
        """A new scope, with the names that its body binds, and its functions and classes noted for calls by keyword."""
        scope_nodes = [node for statement in body for node in _nodes_in_scope(statement)]
        elsewhere = {name for node in scope_nodes if isinstance(node, ast.Global | ast.Nonlocal) for name in node.names}
        names = {name for node in scope_nodes for name in _bound_names(node)} | set(parameters)
        number = self._scope_number(scope_node)
        self._defined |= {(number, node.name): node for node in scope_nodes if isinstance(node, Definition)}
        imports = {name: path for node in scope_nodes for name, path in _imported_names(node).items()}
        return Scope(number, outer, scope_node, frozenset(names - elsewhere), frozenset(elsewhere), imports)

    def _scope_number(self, node: ast.AST) -> int:
        return self._number.setdefault(node, len(self._number))

    def _numbered_name(self, key: Key) -> str:
        return self._names.setdefault(key, f"v{len(self._names)}")

    def _attribute(self, name: str) -> str:
        return self._numbered_name((ATTRIBUTES, name)) if name in self._own_names else name

    def _scope_of(self, name: str) -> Scope | None:
        """The scope that binds a name as seen from here; None: a builtin, or undefined.

        Names of a class body are seen in that body only, not in its methods.
        """
        scope: Scope | None = self._scope
        while scope is not None:
            seen = scope is self._scope or not isinstance(scope.node, ast.ClassDef)
            if seen and name in scope.names:
                return scope
            scope = scope.outer
        return None

    def _read(self, name: str) -> str:
        """The new name where a name is read: of an import its path, of a builtin itself, of a variable its number."""
        scope = self._scope_of(name)
        if scope is not None and name in scope.imports and name not in scope.stored:
            return scope.imports[name]  # dotted, so that no variable can have the same text
        here = scope is self._scope or name in self._scope.elsewhere
        if name in BUILTINS and scope is not None and here and name not in scope.stored:
            return name  # `sum = sum(a)` reads the builtin
        return self._known(name, scope)

    def _bind(self, name: str) -> str:
        if (scope := self._scope_of(name)) is not None:
            scope.stored.add(name)
        return self._known(name, scope)

    def _known(self, name: str, scope: Scope | None) -> str:
        """A variable's number; names in class bodies are attributes of the class and stay."""
        if scope is None or _keeps_name(name) or isinstance(scope.node, ast.ClassDef):
            return name
        return self._numbered_name((scope.number, name))


def _nodes_in_scope(node: ast.AST) -> Iterator[ast.AST]:
    """A node and what is below it in the same scope; of comprehensions only what := binds."""
    yield node
    if isinstance(node, Definition | ast.Lambda):
        return
    if isinstance(node, Comprehension):
        yield from (child.target for child in ast.walk(node) if isinstance(child, ast.NamedExpr))
        return
    for child in ast.iter_child_nodes(node):
        yield from _nodes_in_scope(child)


def _bound_names(node: ast.AST) -> Iterator[str]:
    """The names that a single node binds in its scope."""
    if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
        yield node.id
    elif isinstance(node, Definition | ast.ExceptHandler | ast.MatchAs | ast.MatchStar) and node.name:
        yield node.name
    elif isinstance(node, ast.MatchMapping) and node.rest:
        yield node.rest
    yield from _imported_names(node)


def _imported_names(node: ast.AST) -> dict[str, str]:
    """The names that an import binds, with their dotted paths: `import a.b` binds `a`, `import a.b as c` binds `c`."""
    if isinstance(node, ast.Import):
        return {
            alias.asname or alias.name.split(".")[0]: alias.name if alias.asname else alias.name.split(".")[0]
            for alias in node.names
        }
    if isinstance(node, ast.ImportFrom):
        return {alias.asname or alias.name: f"{node.module or ''}.{alias.name}".strip(".") for alias in node.names}
    return {}


def _stored_names(target: ast.AST) -> Iterator[str]:
    return (node.id for node in ast.walk(target) if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store))


def _parameters(args: ast.arguments | None) -> list[ast.arg]:
    if args is None:
        return []
    rest = [parameter for parameter in (args.vararg, args.kwarg) if parameter is not None]
    return [*args.posonlyargs, *args.args, *args.kwonlyargs, *rest]


def _keeps_name(name: str) -> bool:
    """Whether Python itself calls a name (`__init__`, `__len__`), so that renaming it would change the program."""
    return name.startswith("__") and name.endswith("__")


def _methods(tree: ast.AST) -> list[Function]:
    classes = (node for node in ast.walk(tree) if isinstance(node, ast.ClassDef))
    return [method for node in classes for method in node.body if isinstance(method, Function)]


def _self_names(tree: ast.AST) -> frozenset[str]:
    """The names that methods use for their object: the first parameter, usually `self`."""
    static_methods = {
        method
        for method in _methods(tree)
        for name in method.decorator_list
        if ast.unparse(name).startswith("staticmethod")
    }
    first_parameters = (
        [*method.args.posonlyargs, *method.args.args][:1] for method in _methods(tree) if method not in static_methods
    )
    return frozenset(first.arg for parameters in first_parameters for first in parameters)


def _own_attributes(tree: ast.AST, self_names: frozenset[str]) -> frozenset[str]:
    """Attributes that may be renamed: methods and what is set on `self`, that nothing else in the program reads.

    None where a class inherits from outside the program or has a metaclass: that one may look attributes up by name.
    """
    classes = [node for node in ast.walk(tree) if isinstance(node, ast.ClassDef)]
    known = {owner.name for owner in classes} | {"object"}
    if any(
        owner.keywords or not all(isinstance(b, ast.Name) and b.id in known for b in owner.bases) for owner in classes
    ):
        return frozenset()
    attributes, others = {method.name for method in _methods(tree)}, set[str]()
    for node in ast.walk(tree):
        others |= {part for path in _imported_names(node).values() for part in path.split(".")[1:]}
        if not isinstance(node, ast.Attribute):
            continue
        if not isinstance(node.value, ast.Name) or node.value.id not in self_names:
            others.add(node.attr)
        elif isinstance(node.ctx, ast.Store):
            attributes.add(node.attr)
    scope_nodes = [part for owner in classes for inside in owner.body for part in _nodes_in_scope(inside)]
    scope_nodes += [part for method in _methods(tree) for inside in method.decorator_list for part in ast.walk(inside)]
    # A method that its class body or a decorator mentions as a plain name would be renamed in one place only.
    others |= {node.id for node in scope_nodes if isinstance(node, ast.Name)}
    return frozenset(name for name in attributes - others if not _keeps_name(name))


LONGEST = 50_000  # characters of a program: longer ones are repetitions of a model that does not stop
Block = (
    Definition | ast.If | ast.For | ast.AsyncFor | ast.While | ast.With | ast.AsyncWith | ast.Try | ast.ExceptHandler
)
# `a > b` becomes `b < a`: of the two notations one has to be chosen.
_MIRRORED_COMPARISONS: dict[type[ast.cmpop], type[ast.cmpop]] = {ast.Gt: ast.Lt, ast.GtE: ast.LtE}


def strategy(problem: SolvedProblem, text: str) -> str | None:
    """The program in canonical form; None where the text has no program that parses."""
    source = extract(text, VERIFIERS["program"].steps).answer
    if source is None or len(source) > LONGEST:
        return None
    tree = _read(source)
    if tree is None:
        return None
    example_indices = examples(tree)
    copy = (
        _read(source) if example_indices else None
    )  # numbering changes a tree, so the question whether input is read needs a copy
    if copy is not None and not reads_input(number_names(copy)):
        tree.body = [statement for index, statement in enumerate(tree.body) if index not in example_indices]
    normalised = _WithoutImports().visit(number_names(tree))
    assert isinstance(normalised, ast.Module)
    return short(ast.unparse(ast.fix_missing_locations(normalised)))


def _read(source: str) -> ast.Module | None:
    """The tree of a program in plain notation, its main guard opened; None where it is no program but bare words."""
    tree = _parse(source)
    if tree is None or not any(
        not isinstance(statement, ast.Expr) or isinstance(statement.value, ast.Call) for statement in tree.body
    ):
        return None
    plain = _Normaliser().visit(open_main_guard(tree))
    assert isinstance(plain, ast.Module)
    return plain


def _parse(source: str) -> ast.Module | None:
    """The tree of a program, of an indented one, or of the body of a function whose head was in the prompt."""
    for text in (source, dedent(source), "def f():\n" + indent(dedent(source), "    ")):
        try:
            return ast.parse(text)
        except (SyntaxError, ValueError):
            continue
    return None


class _Normaliser(ast.NodeTransformer):
    """Removes docstrings and type hints, and writes what has several notations in one of them."""

    def generic_visit(self, node: ast.AST) -> ast.AST:
        super().generic_visit(node)
        body = getattr(node, "body", None)
        if isinstance(node, ast.Module | Definition) and isinstance(body, list):
            node.body = [statement for statement in body if not _is_docstring(statement)] or [ast.Pass()]
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
        if not isinstance(node.target, ast.Name):  # a[f()] += 1 calls f once, a[f()] = a[f()] + 1 twice
            return node
        read = ast.Name(id=node.target.id, ctx=ast.Load())
        return ast.Assign(targets=[node.target], value=ast.BinOp(left=read, op=node.op, right=node.value))

    def visit_Compare(self, node: ast.Compare) -> ast.AST:
        self.generic_visit(node)
        # A chain (a > b > c) is left alone: it evaluates from the left and stops early.
        swapped = _MIRRORED_COMPARISONS.get(type(node.ops[0])) if len(node.ops) == 1 else None
        if swapped is None:
            return node
        return ast.Compare(left=node.comparators[0], ops=[swapped()], comparators=[node.left])


class _WithoutImports(ast.NodeTransformer):
    """Removes imports: where something imported is used, its full path is written already."""

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


# Examples: calls, prints and asserts on constants under the functions of a program, that only show how they are used.
#
# An example calls a function or a class of the program, or a method of such a class, with nothing but literals: as a
# statement, printed beside other constants, or asserted. A program that reads input is a script, and has no examples:
# there a call without arguments (`main()`) is the program.


# Attributes of sys, and names, by which a program reads its input.
STREAMS = frozenset({"stdin", "argv"})
INPUT_FUNCTIONS = frozenset({"input", "open", "fileinput"})
_LITERAL = (
    *(ast.Constant, ast.List, ast.Tuple, ast.Set, ast.Dict, ast.Starred),
    *(ast.UnaryOp, ast.BinOp, ast.unaryop, ast.operator, ast.expr_context),
)


def open_main_guard(tree: ast.Module) -> ast.Module:
    """The program with the body of `if __name__ == "__main__"` instead of the guard."""
    body: list[ast.stmt] = []
    for statement in tree.body:
        guard = isinstance(statement, ast.If) and any(
            isinstance(name, ast.Name) and name.id == "__name__" for name in ast.walk(statement.test)
        )
        body += statement.body if guard and isinstance(statement, ast.If) else [statement]
    return ast.Module(body=body, type_ignores=[])


def examples(tree: ast.Module) -> frozenset[int]:
    """The indices of examples at the top level; where there are any, prints of text alone (headings) belong to them."""
    own = {statement.name: statement for statement in tree.body if isinstance(statement, Definition)}
    indices = {index for index, statement in enumerate(tree.body) if _is_example(statement, own)}
    return frozenset(
        indices | {index for index, statement in enumerate(tree.body) if indices and _prints_text(statement)}
    )


def reads_input(tree: ast.Module) -> bool:
    """Whether a program reads input. Its names must be numbered already: a variable called `input` is no reading."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Attribute) and node.attr in STREAMS:
            return True
        if isinstance(node, ast.Name) and node.id.split(".")[-1] in STREAMS | INPUT_FUNCTIONS:
            return True
    return False


def _is_example(node: ast.stmt, own: dict[str, Definition]) -> bool:
    """Whether a statement only shows the program's own functions on literals."""
    if isinstance(node, ast.Assert):  # it checks a result and changes none
        return any(_is_literal_call(expression, own) for expression in ast.walk(node.test))
    if not isinstance(node, ast.Expr):
        return False
    arguments = _printed_arguments(node)
    if arguments is None:
        return _is_literal_call(node.value, own)
    has_call = any(_is_literal_call(expression, own) for argument in arguments for expression in ast.walk(argument))
    return has_call and all(_is_constant(expression, own) for expression in arguments)


def _prints_text(node: ast.stmt) -> bool:
    arguments = _printed_arguments(node)
    return arguments is not None and all(
        isinstance(part, ast.Constant) and isinstance(part.value, str) for part in arguments
    )


def _printed_arguments(node: ast.stmt) -> list[ast.expr] | None:
    """What a statement prints; None where it is no print."""
    call = node.value if isinstance(node, ast.Expr) else None
    if isinstance(call, ast.Call) and isinstance(call.func, ast.Name) and call.func.id == "print":
        return [*call.args, *(keyword.value for keyword in call.keywords)]
    return None


def _is_constant(node: ast.expr, own: dict[str, Definition]) -> bool:
    """Whether an expression is of literals and of calls of own functions on literals, also compared or in a text."""
    if isinstance(node, ast.JoinedStr | ast.FormattedValue | ast.Compare):
        return all(_is_constant(part, own) for part in ast.iter_child_nodes(node) if isinstance(part, ast.expr))
    return _is_literal(node) or _is_literal_call(node, own)


def _is_literal_call(node: ast.AST, own: dict[str, Definition]) -> bool:
    """Whether a node calls, with literals, an own function or class, or a method of an own class made with literals."""
    if not isinstance(node, ast.Call):
        return False
    if not all(_is_literal(argument) for argument in (*node.args, *(argument.value for argument in node.keywords))):
        return False
    if isinstance(node.func, ast.Name):
        return node.func.id in own
    receiver = node.func.value if isinstance(node.func, ast.Attribute) else None
    if not isinstance(receiver, ast.Call) or not isinstance(receiver.func, ast.Name):
        return False
    return isinstance(own.get(receiver.func.id), ast.ClassDef) and _is_literal_call(receiver, own)


def _is_literal(node: ast.expr) -> bool:
    return all(isinstance(part, _LITERAL) for part in ast.walk(node))
