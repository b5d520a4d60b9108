"""The fingerprint `steps`: what a worked text computes, whatever words, order and notation it uses.

Its equations are substituted into each other (`16-3=13, 13*2=26` is `(16-3)*2`), so that neither the size of the steps
nor the order of independent steps counts. The strategy is the expression that makes the answer; where the answer is no
number or no equation makes it, everything that was computed. Ignored, because it is notation and not method:

* wording, units, currencies, LaTeX, list marks; numbers written as words;
* order and grouping of sums and products, and subtracting one by one or all at once (`verifiers/arithmetic.canonical`);
* how a fraction is written: `50 * 0.2`, `50 * 20%`, `50 * 1/5` and `50 / 5`;
* repeats of an equation, and an equation simplified step by step (`(3+5)*2 = 8*2 = 16`).

Not ignored: which numbers are combined by which operations.
"""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from decimal import Decimal
from fractions import Fraction

from offleash.analyses.strategies.fingerprints.fingerprint import SolvedProblem, short
from offleash.verifiers.arithmetic import NotArithmeticError, Tree, canonical, evaluate, leaves, parse_expression
from offleash.verifiers.extraction.extract import THINK_END

# Equations of worked texts, in natural language or LaTeX: cleaned, cut into tokens, and read from their equal signs.
#
# `16 eggs - 3 eggs = $13`, `\frac{16}{2} = 8`, `20% of 50 is 10`: both sides of an equal sign are read outwards as far
# as numbers and operations go; units, currencies and words between them are skipped. An equation whose two sides do not
# agree was misread, or is wrong, and is left out. Time is linear in the text but for brackets: texts may be hostile.


# Limits that honest texts stay far below; they bound the time on repetitive or hostile ones.
LONGEST = 60_000  # characters of a text, from its end: there the answer is
EQUATIONS = 400  # per text
TOKENS = 80  # per side of an equation
WORDS = 4  # skipped between a number and an operation (`16 fresh brown eggs - 3`)
ROUNDING_TOLERANCE = Fraction(1, 200)  # relative: a stated result may be rounded to two or three digits
LARGEST_POWER = 6  # x^6 is written out as a product; larger powers are no steps of school arithmetic

_NUMBER_WORDS = (
    *(("two", "2"), ("three", "3"), ("four", "4"), ("five", "5"), ("six", "6"), ("seven", "7"), ("eight", "8")),
    *(
        ("nine", "9"),
        ("ten", "10"),
        ("twenty", "20"),
        ("thirty", "30"),
        ("forty", "40"),
        ("fifty", "50"),
        ("a hundred", "100"),
    ),
)
# Patterns and replacements, in this order: markup and LaTeX become plain text, then words become signs. Later patterns
# rely on earlier ones: list marks are removed when the dashes are plain, words for operations when numbers are digits.
_CLEANING: tuple[tuple[re.Pattern[str], str], ...] = tuple(
    (re.compile(pattern, re.MULTILINE), into)
    for pattern, into in (
        (r"<<[^<>\n]{0,200}>>", ""),  # the calculator annotations of GSM8K
        (r"\\\\|\\newline", "\n"),
        (r"\\(?:text|mathrm|textbf|mbox|operatorname)\s*\{[^{}]{0,200}\}", " "),
        (r"\\(?:left|right|displaystyle|,|;|!|:|quad|qquad| )(?![A-Za-z])|[&~]", " "),
        (r"\{,\}", ","),
        (r"\\(?:times|cdot|ast)(?![A-Za-z])|[×·⋅∙✕∗]", "*"),
        (r"\\div(?![A-Za-z])|[÷∕⁄]", "/"),
        (r"[−–﹣－]", "-"),
        (r"\\(?:approx|simeq)(?![A-Za-z])|[≈≃]", "="),
        (r"\^?\s*\{?\s*\\circ\s*\}?|[°º]", " "),
        (r"²", "^2"),
        (r"³", "^3"),
        (r"\\%", "%"),
        (r"\\?\$|[€£¥]", ""),
        (r"\\[()\[\]]", "\n"),
        (r"(?<=[0-9])\s*\*\*\s*(?=[0-9])", "^"),
        (r"\*\*|__|`", ""),
        (r"^[ \t]*[-*•][ \t]+", ""),
        (r"^[ \t]*[0-9]{1,2}[.)][ \t]+", ""),
        (r"/[ \t]*[A-Za-z]+", " "),  # units: 60 miles/hour
        (r"\n ?=", " ="),
        *((rf"(?i)\b{word}\b", number) for word, number in _NUMBER_WORDS),
        (r"(?i)\b(?:half|one half) of\b", "1/2*"),
        (r"(?i)\b(?:a|one)[ -]third of\b", "1/3*"),
        (r"(?i)\b(?:a|one)[ -](?:quarter|fourth) of\b", "1/4*"),
        (r"(?i)\b(?:twice|double)\s+(?=[0-9(])", "2*"),
        (r"(?<=[0-9%)])\s+of\s+(?=[0-9(])", "*"),
        (r"(?i)(?<=\s)x(?=\s+[0-9(])|(?<=[0-9)])x(?=[0-9(])", "*"),
        (r"(?i)\bplus\b", "+"),
        (r"(?i)\bminus\b", "-"),
        (r"(?i)\b(?:times|multiplied by)\b(?=\s+[0-9(])", "*"),
        (r"(?i)\bdivided by\b", "/"),
        (r"(?i)\b(?:is equal to|equals|equal to|is|are|makes|gives|leaves|totals)\b", "="),
    )
)
_FRACTION = re.compile(r"\\[dtc]?frac\s*(?:\{([^{}]*)\}\s*\{([^{}]*)\}|([0-9])\s*([0-9]))")
_TOKEN = re.compile(
    r"(?P<number>[0-9]{1,3}(?:,[0-9]{3})+(?:\.[0-9]+)?|[0-9]+(?:\.[0-9]+)?|\.[0-9]+)(?P<percent>\s?%)?"
    r"|(?P<sign>[-+*/^()=])|(?P<word>[^\W\d_]+(?:['’-][^\W\d_]+)*)|(?P<stop>\S|\n)"
)


@dataclass(frozen=True)
class Token:
    """A piece of cleaned text with its position in it."""

    kind: str  # number, word, stop, or the sign itself
    text: str
    start: int
    end: int


@dataclass(frozen=True)
class Equation:
    """One equation: the operation, and the result that the text states for it."""

    tree: Tree
    value: Fraction


def steps_of(text: str) -> list[Equation]:
    """The equations of a text that have an operation and agree on both sides, in order.

    >>> [str(step.value) for step in steps_of("16 eggs - 3 eggs = 13 eggs. She earns 13 * 2 = $26.")]
    ['13', '26']
    """
    tokens = tokens_of(text)
    equations: list[Equation] = []
    chain: tuple[int, Fraction] | None = None  # where the right side of the last equation begins, and its value
    for index in [index for index, token in enumerate(tokens) if token.kind == "="][:EQUATIONS]:
        left, start = _left_side(tokens, index)
        right, first = _right_side(tokens, index)
        step = _step(left, right, first)
        if step is None:
            continue
        if (
            chain is None or chain[0] != start or chain[1] != step.value
        ):  # else a chain: (3+5)*2 = 8*2 = 16 is one step, simplified
            equations.append(step)
        chain = (index + 1, step.value)
    return equations


def tokens_of(text: str) -> list[Token]:
    """A cleaned text as numbers, signs, words and stops."""
    lines = (
        " ".join(line.split()) for line in text[-LONGEST:].splitlines()
    )  # runs of spaces make the patterns below slow
    plain = "\n".join(line for line in lines if line)
    for pattern, replacement in _CLEANING:
        plain = pattern.sub(replacement, plain)
    for _ in range(4):  # fractions within fractions, from the inside
        plain, count = _FRACTION.subn(
            lambda fraction: f"(({fraction[1] or fraction[3]})/({fraction[2] or fraction[4]}))", plain
        )
        if not count:
            break
    plain = re.sub(r"\^\s*\{\s*([0-9]+)\s*\}", r"^\1", plain)
    plain = re.sub(r"\\[A-Za-z]+|[{}]", " ", plain)
    tokens = []
    for match in _TOKEN.finditer(plain):
        kind = match.lastgroup or "stop"
        content = match[0]
        if match["number"]:
            kind, content = "number", _numeral(match["number"], bool(match["percent"]))
        tokens.append(Token(content if kind == "sign" else kind, content, match.start(), match.end()))
    return tokens


def number_in(text: str | None) -> Fraction | None:
    """The number that a reference answer is; None where it is anything else."""
    match = re.fullmatch(r"\s*\\?\$?\s*(-?[0-9][0-9,]*(?:\.[0-9]+)?|-?\.[0-9]+)\s*(?:\\?%)?\s*", text or "")
    return Fraction(match[1].replace(",", "")) if match and len(match[1]) < 30 else None


def _numeral(text: str, percent: bool) -> str:
    plain = text.replace(",", "")
    return f"{Decimal(plain) / 100:f}" if percent and len(plain) < 20 else plain


def _step(left: list[Token], right: list[Token], first: list[Token]) -> Equation | None:
    """The equation of two sides: the operation is on the left where there is one, else on the right (`x = 3 * 5`).

    `first` is the first number of the right side alone: in `8 * 2 = 16 - then ...` the right side was read too far.
    None where there is no operation or the sides do not agree.
    """
    left_tree, right_tree = _tree(left), _tree(right)
    if left_tree is not None and not isinstance(left_tree, Fraction):
        value = _value(left_tree)
        for other in (right_tree, _tree(first)):
            claimed_value = None if other is None else _value(other)
            if value is not None and claimed_value is not None and _nearly_equal(value, claimed_value):
                return Equation(left_tree, claimed_value)
        return None
    if right_tree is None or isinstance(right_tree, Fraction):
        return None
    value, claimed_value = _value(right_tree), None if left_tree is None else _value(left_tree)
    if value is None or (claimed_value is not None and not _nearly_equal(value, claimed_value)):
        return None
    return Equation(right_tree, value)


def _nearly_equal(value: Fraction, claimed_value: Fraction) -> bool:
    return abs(value - claimed_value) <= ROUNDING_TOLERANCE * max(abs(claimed_value), abs(value))


def _value(tree: Tree) -> Fraction | None:
    try:
        return evaluate(tree)
    except NotArithmeticError:
        return None


def _tree(tokens: list[Token]) -> Tree | None:
    """A side of an equation as a tree; powers with small whole exponents are written out. None: it does not parse."""
    if not tokens or len(tokens) > TOKENS:
        return None
    parts: list[str] = []
    index = 0
    while index < len(tokens):
        token = tokens[index]
        if token.kind == "^":
            power = tokens[index + 1].text if index + 1 < len(tokens) else ""
            if not power.isdigit() or not 2 <= int(power[:3]) <= LARGEST_POWER or not parts or parts[-1] == ")":
                return None
            parts[-1] = f"({'*'.join([parts[-1]] * int(power))})"
            index += 2
            continue
        parts.append(token.text)
        index += 1
    try:
        return parse_expression(" ".join(parts))
    except NotArithmeticError:
        return None


def _left_side(tokens: list[Token], equal: int) -> tuple[list[Token], int]:
    """The expression that ends before an equal sign, and the index of its first token."""
    taken: list[Token] = []
    at = _skip_words(tokens, equal - 1, -1)
    while (begin := _operand_before(tokens, at)) is not None and len(taken) <= TOKENS:
        taken = [token for token in tokens[begin : at + 1] if token.kind not in ("word", "stop")] + taken
        before = begin - 1
        if before >= 0 and tokens[begin].kind == "(" and _are_adjacent(tokens, before, begin):
            taken, at = [Token("*", "*", 0, 0), *taken], before  # 3(4 + 5)
            continue
        sign = _skip_words(tokens, before, -1)
        # No operation before the operand: the expression begins here.
        if sign < 0 or tokens[sign].kind not in "+-*/^":
            return taken, begin
        operand_end = _skip_words(tokens, sign - 1, -1)
        if _operand_before(tokens, operand_end) is None:
            # A minus that touches its number and has no operand before it is a sign, else it is a dash of the text.
            alone = tokens[sign].kind == "-" and tokens[sign].end == tokens[begin].start
            return ([tokens[sign], *taken], sign) if alone else (taken, begin)
        taken, at = [tokens[sign], *taken], operand_end
    return taken, at + 1


def _right_side(tokens: list[Token], equal: int) -> tuple[list[Token], list[Token]]:
    """The expression that begins after an equal sign, and its first number alone."""
    taken: list[Token] = []
    first: list[Token] = []
    at = equal + 1
    if at < len(tokens) and tokens[at].kind == "-":
        taken, at = [tokens[at]], at + 1
    while (end := _operand_after(tokens, at)) is not None and len(taken) <= TOKENS:
        taken = taken + [token for token in tokens[at : end + 1] if token.kind not in ("word", "stop")]
        first = first or taken
        sign = _skip_words(tokens, end + 1, 1)
        if sign >= len(tokens) or tokens[sign].kind not in "+-*/^" or _operand_after(tokens, sign + 1) is None:
            break
        taken, at = [*taken, tokens[sign]], sign + 1
    return taken, first


def _skip_words(tokens: list[Token], at: int, step: int) -> int:
    """The next index that is not a word, at most WORDS away."""
    for _ in range(WORDS):
        if not 0 <= at < len(tokens) or tokens[at].kind != "word":
            break
        at += step
    return at


def _operand_before(tokens: list[Token], at: int) -> int | None:
    """Where the number or bracket that ends at an index begins."""
    if at < 0 or tokens[at].kind not in ("number", ")"):
        return None
    return at if tokens[at].kind == "number" else _matching_bracket(tokens, at, -1)


def _operand_after(tokens: list[Token], at: int) -> int | None:
    """Where the number or bracket that begins at an index ends."""
    if at >= len(tokens) or tokens[at].kind not in ("number", "("):
        return None
    return at if tokens[at].kind == "number" else _matching_bracket(tokens, at, 1)


def _matching_bracket(tokens: list[Token], at: int, step: int) -> int | None:
    """The bracket that closes (step 1) or opens (step -1) the one at an index; None where an equation ends before."""
    depth = 0
    for index in range(at, at + step * TOKENS, step):
        if not 0 <= index < len(tokens) or tokens[index].kind in ("stop", "="):
            return None
        depth += {"(": step, ")": -step}.get(tokens[index].kind, 0)
        if depth == 0:
            return index
    return None


def _are_adjacent(tokens: list[Token], before: int, after: int) -> bool:
    """Whether an operand ends where the next begins, without a space: `3(4 + 5)` is a product, `3 (see above)` not."""
    return tokens[before].kind in ("number", ")") and tokens[before].end == tokens[after].start


HUNDRED = Fraction(100)
LARGEST = 60  # numbers in a composed expression: quoting a result twice in every step would grow it exponentially
_NUMBER = re.compile(r"[0-9][0-9,]*(?:\.[0-9]+)?")


def strategy(problem: SolvedProblem, text: str) -> str | None:
    """The expression that makes the answer, in canonical form; None where the text has no equation.

    Equations after the model's thinking count first: thinking tries out what the answer does not use.
    """
    answer = text.rpartition(THINK_END)[2]
    steps = steps_of(answer) or (steps_of(text) if answer != text else [])
    if not steps:
        return None
    composed_steps = _compose(steps, _question_numbers(problem.question))
    gold = number_in(problem.gold)
    final = next((step for step in reversed(composed_steps) if step.value == gold), None)
    roots = [final] if final is not None else [step for step in composed_steps if not step.used]
    return short("; ".join(sorted({canonical(_plain(step.tree)) for step in roots})))


@dataclass
class _ComposedStep:
    """A step with the earlier steps that it quotes substituted into it."""

    tree: Tree
    value: Fraction
    used: bool = False  # a later step quotes it, so it is not a result of its own


def _compose(steps: Sequence[Equation], given: frozenset[Fraction]) -> list[_ComposedStep]:
    """Every step with earlier steps in the place of the numbers that quote their results, repeats left out.

    A number that is in the question, too, quotes a result only the first time: a step is written down to be used, and
    after that the number more likely means the one in the question. (Either reading can be wrong: docs/strategies.md.)
    """
    composed_steps: list[_ComposedStep] = []
    latest_steps: dict[Fraction, _ComposedStep] = {}
    seen: set[str] = set()
    for step in steps:
        name = f"{canonical(step.tree)} = {step.value}"
        if name in seen:
            continue
        seen.add(name)
        composed = _ComposedStep(_substitute(step.tree, latest_steps, given), step.value)
        composed_steps.append(composed)
        latest_steps[step.value] = composed
    return composed_steps


def _substitute(tree: Tree, latest_steps: dict[Fraction, _ComposedStep], given: frozenset[Fraction]) -> Tree:
    """A tree with earlier steps in the place of the numbers that are their results; it stops growing at LARGEST."""
    if isinstance(tree, Fraction):
        source = latest_steps.get(tree)
        if source is None or (source.used and tree in given) or len(leaves(source.tree)) > LARGEST:
            return tree
        source.used = True
        return source.tree
    operation, arguments = tree
    inside = tuple(_substitute(argument, latest_steps, given) for argument in arguments)
    composed_tree = (operation, inside)
    return composed_tree if len(leaves(composed_tree)) <= LARGEST else tree


def _question_numbers(question: str) -> frozenset[Fraction]:
    """The numbers in a question."""
    numbers = (number.replace(",", "") for number in _NUMBER.findall(question[:20_000]))
    return frozenset(Fraction(number) for number in numbers if len(number) < 30)


def _plain(tree: Tree, root: bool = True) -> Tree:
    """The same with fractions in one notation: `50 * 0.2`, `50 * (1/5)` and `50 / 5` all take a fifth.

    A product or quotient with a fraction becomes (times numerator) / denominator. At the root `3/4` stays a division:
    there it is the operation that makes the answer; below, it is a number written as a fraction.
    """
    if isinstance(tree, Fraction):
        return tree
    operation, arguments = tree
    inside = tuple(_plain(argument, root=False) for argument in arguments)
    if operation not in "*/":
        return operation, inside
    left, right = inside
    if operation == "*" and isinstance(left, Fraction) and (left.denominator != 1 or left == 1):
        left, right = right, left
    if not isinstance(right, Fraction):
        return operation, (left, right)
    if operation == "/" and not root and isinstance(left, Fraction) and 0 < left < right:
        return left / right
    if operation == "/" and right == HUNDRED and (share := min(_factors(left), default=HUNDRED)) < HUNDRED:
        right = (
            HUNDRED / share
        )  # 120 * 30 / 100 takes 30/100 of 120, whichever of the two is the percentage: the smaller is taken
        left = _without_factor(left, share)
    above, below = Fraction(right.numerator), Fraction(right.denominator)
    if operation == "/":
        above, below = below, above
    times: Tree = left if above == 1 else above if left == 1 else ("*", (left, above))
    return times if below == 1 else ("/", (times, below))


def _factors(tree: Tree) -> list[Fraction]:
    """The whole numbers among the factors of a product."""
    if isinstance(tree, Fraction) or tree[0] != "*":
        return []
    factors = [[factor] if isinstance(factor, Fraction) else _factors(factor) for factor in tree[1]]
    return [number for part in factors for number in part if number.denominator == 1 and number > 1]


def _without_factor(tree: Tree, factor: Fraction) -> Tree:
    """A product without one of its factors."""
    if isinstance(tree, Fraction) or tree[0] != "*":
        return tree
    left, right = tree[1]
    if left == factor:
        return right
    if right == factor:
        return left
    if factor in _factors(left):
        return "*", (_without_factor(left, factor), right)
    return "*", (left, _without_factor(right, factor))
