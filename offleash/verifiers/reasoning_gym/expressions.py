"""What a text is allowed to be before a scorer evaluates it: looked at as a syntax tree, never run.

Several Reasoning Gym scorers call `eval` or SymPy's `parse_expr` (which calls `eval`) on the model's text. A text gets
there only if it is a plain literal, or a formula of known names and functions within the limits below. Anything else is
wrong, not undecided: no answer of these tasks needs an attribute, a call of an unknown name, a lambda, a string where
numbers belong, a number of thousands of digits or a tower of powers, so refusing them loses no right answer.
"""

import ast
import re
import warnings
from collections.abc import Collection
from math import isfinite

LONGEST_EXPRESSION = 20_000  # characters; the largest board or spiral of the hard level has 7,500
LONGEST_FORMULA = 8_000  # characters; the longest product of polynomials has 2,000
DEEPEST = 60  # levels of the tree beside chains of sums and products
NODES = 20_000
DIGITS = 200  # of one number
BITS = 8192  # of a power of numbers; for a power of symbols its degree counts

# fmt: off
FUNCTIONS = frozenset((
    "sin", "cos", "tan", "cot", "sec", "csc", "asin", "acos", "atan", "acot", "asec", "acsc", "sinh", "cosh", "tanh",
    "coth", "sech", "csch", "asinh", "acosh", "atanh", "acoth", "asech", "acsch", "exp", "log", "ln", "sqrt", "Abs",
    "abs",
))
# fmt: on
CONSTANTS = frozenset({"pi", "E", "e", "C"})
_LONG_NUMBER = re.compile(rf"[\d_]{{{DIGITS + 1}}}")
_OPERATIONS = (ast.Add, ast.Sub, ast.Mult, ast.Div, ast.Pow)
_SIGNS = (ast.UAdd, ast.USub)


def not_a_literal(text: str, strings: bool) -> str:
    """Why the text is not a list or tuple of numbers, if need be nested and of `strings`; nothing when it is one."""
    tree = _tree(text, LONGEST_EXPRESSION)
    if isinstance(tree, str):
        return tree
    if not isinstance(tree, ast.List | ast.Tuple):
        return "not a list"
    open_nodes: list[ast.expr] = [tree]
    while open_nodes:
        node = open_nodes.pop()
        match node:
            case ast.List(elts=items) | ast.Tuple(elts=items):
                open_nodes.extend(items)
            case ast.Constant(value=bool() | int() | float()):
                pass
            case ast.Constant(value=str()) if strings:
                pass
            case ast.UnaryOp(op=ast.USub(), operand=ast.Constant(value=int() | float())):
                pass
            case _:
                return f"a list holds {_named(node)}, not only literals"
    return ""


def not_a_formula(text: str, symbols: Collection[str], functions: Collection[str] = FUNCTIONS) -> str:
    """Why the text is not a formula in the symbols, the usual constants and functions; nothing when it is one."""
    tree = _tree(text, LONGEST_FORMULA)
    if isinstance(tree, str):
        return tree
    known = {*symbols, *CONSTANTS}
    try:
        _measured(tree, known, functions)
    except _RefusedError as refused:
        return str(refused)
    return ""


class _RefusedError(Exception):
    pass


def _tree(text: str, longest: int) -> ast.expr | str:
    """The text's syntax tree, or why it has none; brackets and digits are counted before Python's parser sees it."""
    if len(text) > longest:
        return f"{len(text)} characters are no expression"
    if _LONG_NUMBER.search(text):
        return f"a number has more than {DIGITS} digits"
    if "#" in text:  # a comment would hide from Python what other readers of the text see
        return "not an expression"
    if _nesting(text) > DEEPEST:
        return f"nested more than {DEEPEST} deep"
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # "invalid escape sequence" and the like: the text is not ours
            tree = ast.parse(text.strip(), mode="eval").body
    except (SyntaxError, ValueError, MemoryError, RecursionError):
        return "not an expression"
    if sum(1 for _ in ast.walk(tree)) > NODES:
        return "too long an expression"
    return tree


def _nesting(text: str) -> int:
    depth = deepest = 0
    for character in text:
        if character in "([{":
            depth += 1
            deepest = max(deepest, depth)
        elif character in ")]}":
            depth -= 1
    return deepest


def _measured(root: ast.expr, known: Collection[str], functions: Collection[str]) -> None:
    """Visit children before parents, without recursion: a sum of 2,000 terms is a tree 2,000 deep."""
    order: list[ast.expr] = []
    open_nodes = [root]
    while open_nodes:
        node = open_nodes.pop()
        order.append(node)
        open_nodes.extend(_operands(node, known, functions))
    bits: dict[int, int] = {}
    for node in reversed(order):
        bits[id(node)] = _bits(node, bits)
        if bits[id(node)] > BITS:
            raise _RefusedError("a power is too large to be an answer")


def _operands(node: ast.expr, known: Collection[str], functions: Collection[str]) -> list[ast.expr]:
    """What a node is made of, if it may stand in a formula at all."""
    match node:
        case ast.Constant(value=value) if type(value) in (int, float):
            return []
        case ast.Name(id=name) if name in known:
            return []
        case ast.UnaryOp(op=op, operand=operand) if isinstance(op, _SIGNS):
            return [operand]
        case ast.BinOp(left=left, op=op, right=right) if isinstance(op, _OPERATIONS):
            return [left, right]
        case ast.Call(func=ast.Name(id=name), args=arguments, keywords=[]) if name in functions and arguments:
            if len(arguments) > 2 or any(isinstance(argument, ast.Starred) for argument in arguments):
                raise _RefusedError(f"{name} has {len(arguments)} arguments")
            return arguments
    raise _RefusedError(f"{_named(node)} is not part of a formula")


def _bits(node: ast.expr, bits: dict[int, int]) -> int:
    """An upper bound on the bits of a node's value, or for symbols on its degree: only powers make it jump."""
    match node:
        case ast.Constant(value=int() as number):
            return max(1, number.bit_length())
        case ast.Constant(value=float() as number):
            return max(1, int(number).bit_length()) if isfinite(number) else BITS + 1
        case ast.BinOp(left=left, op=ast.Pow(), right=right):
            exponent = bits[id(right)]
            return BITS + 1 if exponent > 12 and _numeric(right) else bits[id(left)] * 2 ** min(exponent, 12)
        case ast.BinOp(left=left, op=ast.Mult() | ast.Div(), right=right):
            return bits[id(left)] + bits[id(right)]
        case ast.BinOp(left=left, right=right):
            return max(bits[id(left)], bits[id(right)]) + 1
    return max((bits[id(child)] for child in ast.iter_child_nodes(node) if id(child) in bits), default=1)


def _numeric(node: ast.expr) -> bool:
    return not any(isinstance(inner, ast.Name) for inner in ast.walk(node))


def _named(node: ast.expr) -> str:
    match node:
        case ast.Name(id=name):
            return f"the name {name!r:.40}"
        case ast.Constant(value=value):
            return f"the {type(value).__name__} {value!r:.40}"
        case ast.Call(func=ast.Name(id=name)):
            return f"a call of {name!r:.40}"
    return {"Attribute": "an attribute", "Lambda": "a lambda", "Subscript": "a subscript"}.get(
        type(node).__name__, f"a {type(node).__name__}"
    )
