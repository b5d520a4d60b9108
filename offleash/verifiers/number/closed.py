r"""Closed forms such as `\frac{2\pi}{15}` or `10\sqrt{93}` as floating-point numbers, for answers with a tolerance.

A shunting-yard parser over at most TOKENS tokens: no recursion, no code evaluated, no number beyond a float, so no text
can keep it busy. What can be read in two ways (`1/2\pi`, `\sin 2x`, an arcsine in degrees or radians) is left unread.
"""

import math
import operator
import re
from collections.abc import Callable
from fractions import Fraction

from offleash.verifiers.number.numerals import CHARACTERS, NotANumberError, plain
from offleash.verifiers.number.units import leading_unit

TOKENS = 200
CHARACTERS_READ = 400
FUNCTIONS: dict[str, Callable[[float], float]] = {
    "sqrt": math.sqrt,
    "ln": math.log,
    "exp": math.exp,
    "sin": math.sin,
    "cos": math.cos,
    "tan": math.tan,
}
CONSTANTS = {"pi": math.pi, "e": math.e}
OPERATORS: dict[str, tuple[int, Callable[[float, float], float]]] = {
    "+": (1, operator.add),
    "-": (1, operator.sub),
    "*": (2, operator.mul),
    "/": (2, operator.truediv),
    "^": (4, math.pow),
}
UNARY_RANK = 3  # binds -x and f x below a power and above a product
CLEANING_RULES = tuple(
    (re.compile(pattern), replacement)
    for pattern, replacement in (
        (r"\\(?:left|right|displaystyle|!)(?![A-Za-z])|\\[,;: ]|[$~`]|\\q?quad(?![A-Za-z])|\*\*", " "),
        (r"\\[()\[\]]", " "),
        (r"\^\s*\{?\s*\\circ\s*\}?|°", "*(\\\\pi/180)"),
        (r"\\(?:times|cdot)(?![A-Za-z])", "*"),
        (r"(?<=[0-9]),(?=[0-9]{3}(?![0-9]))", ""),
        (r"\\[dt]frac", r"\\frac"),
        (r"\\frac\s*([0-9])\s*([0-9])", r"\\frac{\1}{\2}"),
        (r"\\sqrt\s*([0-9])(?![0-9.])", r"\\sqrt{\1}"),
    )
)
TOKEN = re.compile(
    r"\s*(?:([0-9]+(?:\.[0-9]*)?|\.[0-9]+)|\\?(frac|sqrt|ln|exp|sin|cos|tan|pi|e)(?![A-Za-z])|([-+*/^(){}]))"
)
UNIT_START = re.compile(r"\s*(?:\\(?:text|mathrm)\s*\{|[A-Za-zµΩ])")


def closed_form(text: str) -> tuple[Fraction, str] | None:
    """The value of a closed form and the unit after it, or None when the text is anything else."""
    text = text.rpartition("=")[2].strip().rstrip(".")
    if len(text) > CHARACTERS_READ:
        return None
    text = text.translate(CHARACTERS)
    for pattern, replacement in CLEANING_RULES:
        text = pattern.sub(replacement, text)
    tokens, rest = _tokens(text)
    unit = _unit(rest)
    if not tokens or len(tokens) > TOKENS or unit is None:
        return None
    try:
        postfix = _postfix(_expand_latex(tokens))
        value = _evaluate(postfix)
    except (ValueError, OverflowError, ZeroDivisionError, IndexError):
        return None
    return (Fraction(value), unit) if math.isfinite(value) else None


def _tokens(text: str) -> tuple[list[str], str]:
    """Tokens up to the first text that is none, and that text."""
    tokens, position = [], 0
    while match := TOKEN.match(text, position):
        tokens.append(match[1] or match[2] or match[3])
        position = match.end()
    return tokens, text[position:].strip()


def _unit(rest: str) -> str | None:
    if not rest:
        return ""
    try:
        plain_unit = plain(rest) if UNIT_START.match(rest) else ""
    except NotANumberError:
        return None
    return plain_unit if plain_unit and leading_unit(plain_unit) == plain_unit else None


def _expand_latex(tokens: list[str]) -> list[str]:
    r"""`\frac{a}{b}` as `((a)/(b))`, every bracket round, every product with its sign."""
    plain_tokens: list[str] = []
    open_brackets: list[str] = []
    pending = ""  # what the next opening brace belongs to
    for token in tokens:
        if pending and token != "{":
            raise ValueError("a fraction without braces")
        if token == "frac":
            _multiply(plain_tokens)
            plain_tokens.append("(")
            pending = "above"
        elif token in "{(":
            if not pending:
                _multiply(plain_tokens)
            plain_tokens.append("(")
            open_brackets.append(pending or token)
            pending = ""
        elif token in "})":
            kind = open_brackets.pop()
            if (token == ")") != (kind == "("):
                raise ValueError("mismatched brackets")
            plain_tokens += {"above": [")", "/"], "below": [")", ")"]}.get(kind, [")"])
            pending = "below" if kind == "above" else ""
        else:
            if token not in OPERATORS:
                _multiply(plain_tokens, number=token[0] in "0123456789.")
            plain_tokens.append(token)
    if open_brackets or pending:
        raise ValueError("unclosed brackets")
    return plain_tokens


def _multiply(tokens: list[str], *, number: bool = False) -> None:
    """Writes the sign of a product that stands without one; refuses where it could be read in two ways."""
    if not tokens or tokens[-1] in OPERATORS or tokens[-1] in FUNCTIONS or tokens[-1] == "(":
        return
    if number:
        raise ValueError("two numbers side by side")
    if tokens[-1] != ")" and len(tokens) > 1 and (tokens[-2] == "/" or tokens[-2] in FUNCTIONS):
        raise ValueError("1/2 pi and sin 2 pi can be read in two ways")
    tokens.append("*")


def _postfix(tokens: list[str]) -> list[str]:
    """Tokens in the order of evaluation; a unary minus is written `neg`."""
    output: list[str] = []
    operators: list[str] = []
    before = "("
    for token in tokens:
        if token == "(" or token in FUNCTIONS:
            operators.append(token)
        elif token == ")":
            while operators[-1] != "(":
                output.append(operators.pop())
            operators.pop()
        elif token in OPERATORS:
            if before == "(" or before in OPERATORS:
                if token != "-" or before in ("+", "-"):
                    raise ValueError("an operator without a left operand")
                operators.append("neg")
            else:
                rank = OPERATORS[token][0]
                while operators and operators[-1] != "(" and _precedence(operators[-1]) >= rank and token != "^":
                    output.append(operators.pop())
                operators.append(token)
        else:
            output.append(token)
        before = token
    return output + operators[::-1]


def _precedence(token: str) -> int:
    return OPERATORS[token][0] if token in OPERATORS else UNARY_RANK


def _evaluate(postfix: list[str]) -> float:
    stack: list[float] = []
    for token in postfix:
        if token in OPERATORS:
            right, left = stack.pop(), stack.pop()
            stack.append(OPERATORS[token][1](left, right))
        elif token == "neg":
            stack.append(-stack.pop())
        elif token in FUNCTIONS:
            stack.append(FUNCTIONS[token](stack.pop()))
        else:
            stack.append(CONSTANTS[token] if token in CONSTANTS else float(token))
    (value,) = stack
    return value
