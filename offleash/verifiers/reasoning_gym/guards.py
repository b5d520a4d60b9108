"""Guards before a Reasoning Gym scorer runs: texts it would evaluate, or that would keep it busy for hours.

A guard returns a reason, or nothing, and never credits. Found by reading the scorers of version 0.1.25. The second half
checks literals and formulas as syntax trees; guards that apply after scoring are in scorer.py. The sandbox would stop
most of what is refused here too, but by a limit: as `failed`, after seconds. A guard says `wrong` at once, which is
what such a text is. Each guard's docstring says what its scorer does with a text that is no answer.
"""

import ast
import json
import re
import warnings
from collections.abc import Callable, Collection, Mapping, Sequence
from fractions import Fraction
from math import isfinite
from typing import Any

from offleash.verifiers.arithmetic import NotArithmeticError
from offleash.verifiers.countdown import Rules, solution_tree
from offleash.verifiers.repairs import repair_answer

Entry = Mapping[str, Any]
Guard = Callable[[str, Entry], str]

MAX_EXTRA_CHARACTERS = 100_000  # characters beyond four times the gold answer: above it no scorer is run
MAX_MOVES_CHARACTERS = 5_000  # characters of moves of a cube, a car or a player
NUMBER = re.compile(r"[+-]?(?:\d{1,300}(?:,\d{3}){0,100}(?:\.\d{0,300})?|\.\d{1,300})(?:[eE][+-]?\d{1,3})?", re.ASCII)


def rejection_reason(task: str, answer: str, entry: Entry) -> str:
    """Why this text is wrong without asking the scorer; "" where the scorer may see it."""
    gold = entry["answer"]
    if len(answer) > MAX_EXTRA_CHARACTERS + 4 * len(gold or ""):
        return f"{len(answer)} characters are too many for an answer"
    if not answer.strip() and (gold is None or gold.strip()):
        return "there is no answer"
    return GUARDS_BEFORE_SCORING[task](answer, entry) if task in GUARDS_BEFORE_SCORING else ""


def answer_for_scorer(task: str, answer: str, entry: Entry) -> str:
    """The text as the scorer has to see it: rush_hour takes the n-th letter for the n-th car, but boards skip some."""
    if task != "rush_hour":
        return answer
    cars = sorted(set(entry["metadata"]["board_config"]) - {"o", "x"})
    return answer.translate({ord(car): chr(ord("A") + index) for index, car in enumerate(cars)})


def sums_rules(entry: Entry) -> Rules:
    """The rules of a countdown or puzzle24: all numbers, each once, and exactly the target."""
    return Rules(tuple(entry["metadata"]["numbers"]), entry["metadata"].get("target", 24), all=True)


def json_value(text: str) -> Any:
    """The JSON value; the text itself, which equals no value asked for, when it is none."""
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        return text


def _probability(answer: str, entry: Entry) -> str:
    """coin_flip credits what begins with the same digits (0 for 0.25); a part in ten thousand off is close enough."""
    text = answer.strip()
    fraction = re.fullmatch(r"\+?(\d{1,60})\s?/\s?(\d{1,60})", text, re.ASCII)
    if not fraction and not NUMBER.fullmatch(text):
        return "not a number"
    if fraction and not int(fraction[2]):
        return "it divides by zero"
    value = Fraction(int(fraction[1]), int(fraction[2])) if fraction else Fraction(text.replace(",", ""))
    exact = Fraction(entry["metadata"]["rational"]["numerator"], entry["metadata"]["rational"]["denominator"])
    return "" if abs(value - exact) <= min(Fraction(1, 10_000), exact / 100) else f"not {float(exact):.10g}"


def _buttons(answer: str, entry: Entry) -> str:
    """quantum_lock picks the letters A, B, C out of any text."""
    if not re.fullmatch(r"[\sABCabc→>,;\-–\[\]()'\"]*", answer):
        return "not a sequence of buttons"
    return "" if len(answer) <= MAX_MOVES_CHARACTERS else "too many buttons"


def _moves(pattern: str, what: str) -> Guard:
    """sokoban plays the letters of any text, rush_hour and rubiks_cube run one move a billion times."""
    move = re.compile(pattern)

    def guard(answer: str, entry: Entry) -> str:
        words = answer.split() if len(answer) <= MAX_MOVES_CHARACTERS else []
        return "" if words and all(move.fullmatch(word) for word in words) else f"not {what}"

    return guard


def _cars(answer: str, entry: Entry) -> str:
    """rush_hour ignores cars that are not there."""
    board_cars = "".join(sorted(set(entry["metadata"]["board_config"]) - {"o", "x"}))
    return _moves(rf"(?:[{board_cars}][+-]\d{{1,2}},?)+", "moves of the cars on the board")(answer, entry)


def _statement(answer: str, entry: Entry) -> str:
    """propositional_logic takes any text as a variable; 40 of them are 2^40 cases, and brackets recurse."""
    operand_next, depth = True, 0
    for character in answer if len(answer) <= 500 else "?":
        if character.isspace():
            continue
        if operand_next and character in "¬(":
            depth += character == "("
        elif operand_next and character in entry["metadata"]["variables"]:
            operand_next = False
        elif not operand_next and character == ")" and depth:
            depth -= 1
        elif not operand_next and character in "∧∨→↔":
            operand_next = True
        else:
            return f"{character!r} is out of place"
    return "" if not operand_next and not depth and answer.count("(") + answer.count("¬") <= 100 else "not a statement"


def _box_moves(answer: str, entry: Entry) -> str:
    """boxnet would also carry the targets to the boxes."""
    steps = json_value(answer)
    if (
        not isinstance(steps, list)
        or not all(isinstance(step, dict) for step in steps)
        or len(steps) > MAX_MOVES_CHARACTERS
    ):
        return "not a list of actions"
    moves = [(agent, move) for step in steps for agent, move in step.items()]
    box = re.compile(r"move\(box_\w{1,30}, [\w\[\]., ]{1,60}\)")
    all_valid = all(isinstance(move, str) and box.fullmatch(move.strip()) and len(agent) < 60 for agent, move in moves)
    return "" if all_valid else "an action that moves no box"


def _data(answer: str, entry: Entry) -> str:
    """codeio credits long data with a wrong value in it, and compares the trees of large ones for hours."""
    first, last = answer.find("{"), answer.rfind("}")
    if answer.strip() == entry["answer"].strip() or first < 0:
        return ""
    value, expected = json_value(answer[first : last + 1]), json_value(entry["answer"])
    return "" if value == expected or len(answer) + len(entry["answer"]) <= 400 else "different data"


def _literal(strings: bool) -> Guard:
    """string_insertion, spiral_matrix, binary_matrix, n_queens: what is not the answer as asked for goes to `eval`."""

    def guard(answer: str, entry: Entry) -> str:
        right: Sequence[str] = entry["metadata"].get("valid_answers") or (entry["answer"],)
        return "" if answer in right or answer.strip() in right else not_a_literal(answer, strings)

    return guard


def _arithmetic(answer: str, entry: Entry) -> str:
    """countdown allows an error of 0.01 and any function; puzzle24 drops decimals and takes any four numbers."""
    if re.search(r"[=\n,;]", answer.strip()) or repair_answer(answer) != answer.strip():
        return "not one plain expression"
    try:
        solution_tree(answer, sums_rules(entry))
    except NotArithmeticError as error:
        return str(error)
    return ""


def _formula(answer: str, entry: Entry) -> str:
    """The integrations give full marks to Integral(...), polynomial_multiplication to expand(...); all three run it."""
    metadata = entry["metadata"]
    if "variable" in metadata:
        return not_a_formula(answer, [metadata["variable"], "c", "k", "K"])
    return not_a_formula(answer, metadata["variables"], functions=())


GUARDS_BEFORE_SCORING: dict[str, Guard] = {
    "binary_matrix": _literal(strings=True),
    "boxnet": _box_moves,
    "codeio": _data,
    "coin_flip": _probability,
    "countdown": _arithmetic,
    "intermediate_integration": _formula,
    "n_queens": _literal(strings=True),
    "polynomial_multiplication": _formula,
    "propositional_logic": _statement,
    "puzzle24": _arithmetic,
    "quantum_lock": _buttons,
    "rubiks_cube": _moves(r"[UDLRFBudlrfbMESxyz]w?'?[1-4]?'?", "moves of the cube"),
    "rush_hour": _cars,
    "simple_integration": _formula,
    "sokoban": _moves("[UDLR]+", "moves of the player"),
    "spiral_matrix": _literal(strings=False),
    "string_insertion": _literal(strings=True),
}

# What a text may be before a scorer evaluates it: checked as a syntax tree, never run.
#
# Several Reasoning Gym scorers call `eval` or SymPy's `parse_expr` (which calls `eval`) on the model's text. A text
# gets there only if it is a plain literal, or a formula of known names and functions within the limits below.
# Anything else is wrong, not undecided: no answer of these tasks needs an attribute, a call of an unknown name, a
# lambda, a string where numbers belong, a number of thousands of digits or a tower of powers, so refusing them loses
# no right answer.


MAX_EXPRESSION_CHARACTERS = 20_000  # characters; the largest board or spiral of the hard level has 7,500
MAX_FORMULA_CHARACTERS = 8_000  # characters; the longest product of polynomials has 2,000
MAX_TREE_DEPTH = 60  # levels of the tree beside chains of sums and products
MAX_TREE_NODES = 20_000
DIGITS = 200  # of one number
MAX_POWER_BITS = 8192  # of a power of numbers, some 2,500 digits; for a power of symbols its degree counts

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
    tree = _tree(text, MAX_EXPRESSION_CHARACTERS)
    if isinstance(tree, str):
        return tree
    if not isinstance(tree, ast.List | ast.Tuple):
        return "not a list"
    pending_nodes: list[ast.expr] = [tree]
    while pending_nodes:
        node = pending_nodes.pop()
        match node:
            case ast.List(elts=items) | ast.Tuple(elts=items):
                pending_nodes.extend(items)
            case ast.Constant(value=bool() | int() | float()):
                pass
            case ast.Constant(value=str()) if strings:
                pass
            case ast.UnaryOp(op=ast.USub(), operand=ast.Constant(value=int() | float())):
                pass
            case _:
                return f"a list holds {_node_name(node)}, not only literals"
    return ""


def not_a_formula(text: str, symbols: Collection[str], functions: Collection[str] = FUNCTIONS) -> str:
    """Why the text is not a formula in the symbols, the usual constants and functions; nothing when it is one."""
    tree = _tree(text, MAX_FORMULA_CHARACTERS)
    if isinstance(tree, str):
        return tree
    known = {*symbols, *CONSTANTS}
    try:
        _check_tree(tree, known, functions)
    except _RefusedError as refused:
        return str(refused)
    return ""


class _RefusedError(Exception):
    """The formula holds something that no answer needs; the message says what."""


def _tree(text: str, longest: int) -> ast.expr | str:
    """The text's syntax tree, or why it has none; brackets and digits are counted before Python's parser sees it."""
    if len(text) > longest:
        return f"{len(text)} characters are too many for an expression"
    if _LONG_NUMBER.search(text):
        return f"a number has more than {DIGITS} digits"
    if "#" in text:  # a comment would hide from Python what other readers of the text see
        return "not an expression"
    if _nesting(text) > MAX_TREE_DEPTH:
        return f"nested more than {MAX_TREE_DEPTH} deep"
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # "invalid escape sequence" and the like: the text is not ours
            tree = ast.parse(text.strip(), mode="eval").body
    except (SyntaxError, ValueError, MemoryError, RecursionError):
        return "not an expression"
    if sum(1 for _ in ast.walk(tree)) > MAX_TREE_NODES:
        return "the expression is too long"
    return tree


def _nesting(text: str) -> int:
    """The depth of brackets, counted in the text, before a parser that recurses sees it."""
    depth = max_depth = 0
    for character in text:
        if character in "([{":
            depth += 1
            max_depth = max(max_depth, depth)
        elif character in ")]}":
            depth -= 1
    return max_depth


def _check_tree(root: ast.expr, known: Collection[str], functions: Collection[str]) -> None:
    """Visit children before parents, without recursion: a sum of 2,000 terms is a tree 2,000 deep."""
    order: list[ast.expr] = []
    pending_nodes = [root]
    while pending_nodes:
        node = pending_nodes.pop()
        order.append(node)
        pending_nodes.extend(_operands(node, known, functions))
    bits: dict[int, int] = {}
    for node in reversed(order):
        bits[id(node)] = _bits(node, bits)
        if bits[id(node)] > MAX_POWER_BITS:
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
    raise _RefusedError(f"{_node_name(node)} is not part of a formula")


def _bits(node: ast.expr, bits: dict[int, int]) -> int:
    """An upper bound on the bits of a node's value, or for symbols on its degree: only powers make it jump."""
    match node:
        case ast.Constant(value=int() as number):
            return max(1, number.bit_length())
        case ast.Constant(value=float() as number):
            return max(1, int(number).bit_length()) if isfinite(number) else MAX_POWER_BITS + 1
        case ast.BinOp(left=left, op=ast.Pow(), right=right):
            exponent = bits[id(right)]  # below 2^exponent, so the power has at most bits(left) * 2^exponent bits
            return MAX_POWER_BITS + 1 if exponent > 12 and _numeric(right) else bits[id(left)] * 2 ** min(exponent, 12)
        case ast.BinOp(left=left, op=ast.Mult() | ast.Div(), right=right):
            return bits[id(left)] + bits[id(right)]
        case ast.BinOp(left=left, right=right):
            return max(bits[id(left)], bits[id(right)]) + 1
    return max((bits[id(child)] for child in ast.iter_child_nodes(node) if id(child) in bits), default=1)


def _numeric(node: ast.expr) -> bool:
    return not any(isinstance(inner, ast.Name) for inner in ast.walk(node))


def _node_name(node: ast.expr) -> str:
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
