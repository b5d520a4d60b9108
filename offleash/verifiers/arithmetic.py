"""Arithmetic expressions (numbers, + - * / and brackets): our own parser, exact values, and a canonical form.

No text is passed to Python's `eval` or parser. Limits on length, digits, numbers and brackets bound time and memory.
"""

import re
from fractions import Fraction

Tree = Fraction | tuple[str, tuple["Tree", ...]]  # a number, or an operation (+ - * / neg) and its operands

LONGEST = 5_000  # characters
DIGITS = 30  # of one number
MAX_NUMBERS = 200  # in one expression, which bounds the depth of its tree
MAX_BRACKET_DEPTH = 100  # inside each other

_TOKEN = re.compile(r"\s*(?:(\d+(?:\.\d+)?|\.\d+)|([-+*/()]))", re.ASCII)
_SIGNS = str.maketrans(
    {
        sign: plain
        for plain, signs in {"-": "−–﹣－", "*": "×·⋅∙✕", "/": "÷∕", "(": "[", ")": "]"}.items()
        for sign in signs
    }
)
_PRECEDENCE = {"+": 1, "-": 1, "*": 2, "/": 2, "neg": 3}


class NotArithmeticError(ValueError):
    """The text is no expression, or breaks a rule; the message says which."""


def parse_expression(text: str) -> Tree:
    """The expression as a tree, by Dijkstra's shunting yard: two stacks, no recursion, so depth costs no stack.

    >>> parsed("(3+5)*2")
    ('*', (('+', (Fraction(3, 1), Fraction(5, 1))), Fraction(2, 1)))
    """
    operands: list[Tree] = []
    operators: list[str] = []  # operations and brackets whose right side is still being read
    operand_next, brackets, numbers = True, 0, 0
    for number, sign in _tokens(text):
        if number:
            numbers += 1
            if not operand_next or numbers > MAX_NUMBERS:
                raise NotArithmeticError(
                    f"missing operator before {number!r:.40}" if not operand_next else "too many numbers"
                )
            operands.append(_number(number))
            operand_next = False
        elif sign == "(":
            brackets += 1
            if not operand_next or brackets > MAX_BRACKET_DEPTH:
                raise NotArithmeticError(
                    "missing operator before a bracket" if not operand_next else "too many brackets"
                )
            operators.append(sign)
        elif operand_next and sign in "+-":
            if len(operators) > MAX_NUMBERS + MAX_BRACKET_DEPTH:
                raise NotArithmeticError("too many signs")
            operators.extend(["neg"] if sign == "-" else [])
        elif operand_next:
            raise NotArithmeticError(f"a number is missing before {sign!r}")
        elif sign == ")":
            while operators and operators[-1] != "(":
                _apply(operators.pop(), operands)
            if not operators:
                raise NotArithmeticError("unmatched closing bracket")
            operators.pop()
            brackets -= 1
        else:
            while operators and operators[-1] != "(" and _PRECEDENCE[operators[-1]] >= _PRECEDENCE[sign]:
                _apply(operators.pop(), operands)
            operators.append(sign)
            operand_next = True
    if operand_next:
        raise NotArithmeticError("the expression ends without a number" if operands else "there is no expression")
    if brackets:
        raise NotArithmeticError("unclosed bracket")
    while operators:
        _apply(operators.pop(), operands)
    return operands[0]


def evaluate(tree: Tree, integers: bool = False) -> Fraction:
    """Its exact value; division by zero, or a fraction on the way where only `integers` are allowed, is an error."""
    if isinstance(tree, Fraction):
        return tree
    operation, arguments = tree
    left = evaluate(arguments[0], integers)
    if operation == "neg":
        return -left
    right = evaluate(arguments[1], integers)
    if operation == "/" and not right:
        raise NotArithmeticError("it divides by zero")
    value = {"+": left.__add__, "-": left.__sub__, "*": left.__mul__, "/": left.__truediv__}[operation](right)
    if integers and value.denominator != 1:
        raise NotArithmeticError(f"{left} / {right} is not an integer")
    return value


def leaves(tree: Tree) -> list[Fraction]:
    """Its numbers, from left to right."""
    if isinstance(tree, Fraction):
        return [tree]
    return [number for argument in tree[1] for number in leaves(argument)]


def canonical(tree: Tree) -> str:
    """One text for all expressions that differ only in the order and grouping of sums and of products.

    >>> canonical(parsed("2*(5+3)")), canonical(parsed("(3+5)*2"))
    ('(3+5)*2', '(3+5)*2')
    """
    terms = sorted(_terms(tree, 1), key=lambda term: (-term[0], term[1]))
    expression = "".join(("+" if sign > 0 else "-") + text for sign, text in terms)
    return expression.removeprefix("+")


def _tokens(text: str) -> list[tuple[str, str]]:
    if len(text) > LONGEST:
        raise NotArithmeticError(f"{len(text)} characters are too many for an expression")
    plain, tokens, position = text.translate(_SIGNS).rstrip(), [], 0
    while position < len(plain):
        token = _TOKEN.match(plain, position)
        if token is None:
            raise NotArithmeticError(f"{plain[position:].strip()!r:.40} is not arithmetic")
        tokens.append((token[1] or "", token[2] or ""))
        position = token.end()
    return tokens


def _number(text: str) -> Fraction:
    if len(text) > DIGITS:
        raise NotArithmeticError(f"a number has {len(text)} digits")
    return Fraction(text)


def _apply(operation: str, operands: list[Tree]) -> None:
    """Replace the last one or two operands by the operation on them."""
    right = operands.pop()
    arguments = (right,) if operation == "neg" else (operands.pop(), right)
    operands.append((operation, arguments))


def _terms(tree: Tree, sign: int) -> list[tuple[int, str]]:
    """A sum as its signed terms."""
    if not isinstance(tree, Fraction):
        operation, arguments = tree
        if operation == "neg":
            return _terms(arguments[0], -sign)
        if operation in "+-":
            return _terms(arguments[0], sign) + _terms(arguments[1], sign if operation == "+" else -sign)
    is_negative, text = _product(tree)
    return [(-sign if is_negative else sign, text)]


def _product(tree: Tree) -> tuple[bool, str]:
    """A product: whether it is negative, and its factors above and below the line."""
    numerators: list[str] = []
    denominators: list[str] = []
    is_negative = False
    open_factors: list[tuple[Tree, list[str], list[str]]] = [(tree, numerators, denominators)]
    while open_factors:
        factor, same_side, other_side = open_factors.pop()
        if isinstance(factor, Fraction):
            same_side.append(str(factor) if factor >= 0 and factor.denominator == 1 else f"({factor})")
            continue
        operation, arguments = factor
        if operation in "*/":
            open_factors.append((arguments[0], same_side, other_side))
            open_factors.append(
                (arguments[1], same_side, other_side) if operation == "*" else (arguments[1], other_side, same_side)
            )
        elif operation == "neg" and not _is_sum(arguments[0]):
            is_negative = not is_negative
            open_factors.append((arguments[0], same_side, other_side))
        else:
            same_side.append(f"({canonical(factor)})")
    return is_negative, "*".join(sorted(numerators)) + "".join(f"/{factor}" for factor in sorted(denominators))


def _is_sum(tree: Tree) -> bool:
    return not isinstance(tree, Fraction) and tree[0] in "+-"
