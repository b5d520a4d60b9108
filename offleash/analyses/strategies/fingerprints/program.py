"""The fingerprint `program`: the syntax tree of the last block of code, without names, comments, hints and examples.

Names that the program itself binds are numbered in their order (program_names.py); names of modules, of what they hold,
of methods of foreign objects and of builtins stay, as do constants. `x += 1` is `x = x + 1`, `a > b` is `b < a`, `from
math import gcd` is `math.gcd`; where no input is read, what only shows functions on constants is left out
(program_examples.py). Nothing is run or compiled.
"""

import ast
from textwrap import dedent, indent

from offleash.analyses.strategies.fingerprints.fingerprint import Asked, short
from offleash.analyses.strategies.fingerprints.program_examples import Definition, examples, opened, reads_input
from offleash.analyses.strategies.fingerprints.program_names import numbered
from offleash.verifiers.extraction.extract import extract
from offleash.verifiers.registry import VERIFIERS

LONGEST = 50_000  # characters of a program
Block = (
    Definition | ast.If | ast.For | ast.AsyncFor | ast.While | ast.With | ast.AsyncWith | ast.Try | ast.ExceptHandler
)
_SWAPPED: dict[type[ast.cmpop], type[ast.cmpop]] = {ast.Gt: ast.Lt, ast.GtE: ast.LtE}


def way(asked: Asked, text: str) -> str | None:
    """The program in one writing; None where there is no program that can be read."""
    source = extract(text, VERIFIERS["program"].ladder).answer
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
