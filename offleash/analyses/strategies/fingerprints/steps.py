"""The fingerprint `steps`: what a worked text computes, whatever words, order and notation it uses.

Its equations are put into each other (`16-3=13, 13*2=26` is `(16-3)*2`), so that neither the size of the steps nor the
order of those that do not rest on each other counts. The way is the expression that makes the answer; where the answer
is no number or no equation makes it, all that was computed. Order and grouping of sums and products do not count.
"""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from decimal import Decimal
from fractions import Fraction

from offleash.analyses.strategies.fingerprints.fingerprint import SolvedProblem, short
from offleash.verifiers.arithmetic import NotArithmeticError, Tree, canonical, leaves, parsed, valued
from offleash.verifiers.extraction.extract import THOUGHT

# Equations of worked texts, in natural language or LaTeX: cleaned, cut into tokens, and read from their equal signs.
#
# `16 eggs - 3 eggs = $13`, `\frac{16}{2} = 8`, `20% of 50 is 10`: what stands on both sides of an equal sign is read
# outwards as far as numbers and operations go; units, currencies and words between them are passed over. An equation
# whose two sides do not agree was misread, or is wrong, and is left out. Time is linear in the text but for brackets.


LONGEST = 60_000  # characters of a text, from its end
EQUATIONS = 400  # of a text
TOKENS = 80  # of one side
WORDS = 4  # passed over between a number and an operation
NEAR = Fraction(1, 200)  # a stated result may be rounded by so much
LARGEST_POWER = 6

_SAID = (
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
_CLEANING: tuple[tuple[re.Pattern[str], str], ...] = tuple(
    (re.compile(pattern, re.MULTILINE), into)
    for pattern, into in (
        (r"<<[^<>\n]{0,200}>>", ""),
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
        (r"/[ \t]*[A-Za-z]+", " "),
        (r"\n ?=", " ="),
        *((rf"(?i)\b{word}\b", number) for word, number in _SAID),
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
    kind: str  # number, word, stop, or the sign itself
    text: str
    start: int
    end: int


@dataclass(frozen=True)
class Equation:
    """One equation: what was done, and what it was stated to make."""

    tree: Tree
    value: Fraction


def steps_of(text: str) -> list[Equation]:
    """The equations of a text that hold an operation and agree on both sides, in their order."""
    tokens = tokens_of(text)
    found: list[Equation] = []
    chain: tuple[int, Fraction] | None = None  # where the right side of the last equation began, and its value
    for place in [place for place, token in enumerate(tokens) if token.kind == "="][:EQUATIONS]:
        left, start = _left(tokens, place)
        right, first = _right(tokens, place)
        step = _step(left, right, first)
        if step is None:
            continue
        if chain is None or chain[0] != start or chain[1] != step.value:  # else (3+5)*2 = 8*2 was simplified
            found.append(step)
        chain = (place + 1, step.value)
    return found


def tokens_of(text: str) -> list[Token]:
    """A cleaned text as numbers, signs, words and stops."""
    lines = (" ".join(line.split()) for line in text[-LONGEST:].splitlines())  # runs of space are costly below
    plain = "\n".join(line for line in lines if line)
    for pattern, into in _CLEANING:
        plain = pattern.sub(into, plain)
    for _ in range(4):  # fractions within fractions, from the inside
        plain, count = _FRACTION.subn(lambda one: f"(({one[1] or one[3]})/({one[2] or one[4]}))", plain)
        if not count:
            break
    plain = re.sub(r"\^\s*\{\s*([0-9]+)\s*\}", r"^\1", plain)
    plain = re.sub(r"\\[A-Za-z]+|[{}]", " ", plain)
    out = []
    for match in _TOKEN.finditer(plain):
        kind = match.lastgroup or "stop"
        content = match[0]
        if match["number"]:
            kind, content = "number", _numeral(match["number"], bool(match["percent"]))
        out.append(Token(content if kind == "sign" else kind, content, match.start(), match.end()))
    return out


def number_in(text: str | None) -> Fraction | None:
    """The one number that a gold answer is; None where it is something else."""
    found = re.fullmatch(r"\s*\\?\$?\s*(-?[0-9][0-9,]*(?:\.[0-9]+)?|-?\.[0-9]+)\s*(?:\\?%)?\s*", text or "")
    return Fraction(found[1].replace(",", "")) if found and len(found[1]) < 30 else None


def _numeral(text: str, percent: bool) -> str:
    plain = text.replace(",", "")
    return f"{Decimal(plain) / 100:f}" if percent and len(plain) < 20 else plain


def _step(left: list[Token], right: list[Token], first: list[Token]) -> Equation | None:
    """The step that two sides make: the left one where it has an operation, else the right one."""
    done, stated = _tree(left), _tree(right)
    if done is not None and not isinstance(done, Fraction):
        value = _value(done)
        for other in (stated, _tree(first)):
            told = None if other is None else _value(other)
            if value is not None and told is not None and _agree(value, told):
                return Equation(done, told)
        return None
    if stated is None or isinstance(stated, Fraction):
        return None
    value, told = _value(stated), None if done is None else _value(done)
    if value is None or (told is not None and not _agree(value, told)):
        return None
    return Equation(stated, value)


def _agree(value: Fraction, told: Fraction) -> bool:
    return abs(value - told) <= NEAR * max(abs(told), abs(value))


def _value(tree: Tree) -> Fraction | None:
    try:
        return valued(tree)
    except NotArithmeticError:
        return None


def _tree(tokens: list[Token]) -> Tree | None:
    """A side of an equation as a tree; powers of small whole exponents are written out."""
    if not tokens or len(tokens) > TOKENS:
        return None
    parts: list[str] = []
    place = 0
    while place < len(tokens):
        token = tokens[place]
        if token.kind == "^":
            power = tokens[place + 1].text if place + 1 < len(tokens) else ""
            if not power.isdigit() or not 2 <= int(power[:3]) <= LARGEST_POWER or not parts or parts[-1] == ")":
                return None
            parts[-1] = f"({'*'.join([parts[-1]] * int(power))})"
            place += 2
            continue
        parts.append(token.text)
        place += 1
    try:
        return parsed(" ".join(parts))
    except NotArithmeticError:
        return None


def _left(tokens: list[Token], equal: int) -> tuple[list[Token], int]:
    """The expression that ends before an equal sign, and the place of its first token."""
    taken: list[Token] = []
    at = _past_words(tokens, equal - 1, -1)
    while (begin := _operand_before(tokens, at)) is not None and len(taken) <= TOKENS:
        taken = [one for one in tokens[begin : at + 1] if one.kind not in ("word", "stop")] + taken
        before = begin - 1
        if before >= 0 and tokens[begin].kind == "(" and _touching(tokens, before, begin):
            taken, at = [Token("*", "*", 0, 0), *taken], before  # 3(4 + 5)
            continue
        sign = _past_words(tokens, before, -1)
        if sign < 0 or tokens[sign].kind not in "+-*/^":
            return taken, begin
        further = _past_words(tokens, sign - 1, -1)
        if _operand_before(tokens, further) is None:
            alone = tokens[sign].kind == "-" and tokens[sign].end == tokens[begin].start
            return ([tokens[sign], *taken], sign) if alone else (taken, begin)
        taken, at = [tokens[sign], *taken], further
    return taken, at + 1


def _right(tokens: list[Token], equal: int) -> tuple[list[Token], list[Token]]:
    """The expression that begins after an equal sign, and its first number alone."""
    taken: list[Token] = []
    first: list[Token] = []
    at = equal + 1
    if at < len(tokens) and tokens[at].kind == "-":
        taken, at = [tokens[at]], at + 1
    while (end := _operand_after(tokens, at)) is not None and len(taken) <= TOKENS:
        taken = taken + [one for one in tokens[at : end + 1] if one.kind not in ("word", "stop")]
        first = first or taken
        sign = _past_words(tokens, end + 1, 1)
        if sign >= len(tokens) or tokens[sign].kind not in "+-*/^" or _operand_after(tokens, sign + 1) is None:
            break
        taken, at = [*taken, tokens[sign]], sign + 1
    return taken, first


def _past_words(tokens: list[Token], at: int, step: int) -> int:
    """The next place that is no word, at most so many words away."""
    for _ in range(WORDS):
        if not 0 <= at < len(tokens) or tokens[at].kind != "word":
            break
        at += step
    return at


def _operand_before(tokens: list[Token], at: int) -> int | None:
    """Where the number or bracket that ends at a place begins."""
    if at < 0 or tokens[at].kind not in ("number", ")"):
        return None
    return at if tokens[at].kind == "number" else _matching(tokens, at, -1)


def _operand_after(tokens: list[Token], at: int) -> int | None:
    """Where the number or bracket that begins at a place ends."""
    if at >= len(tokens) or tokens[at].kind not in ("number", "("):
        return None
    return at if tokens[at].kind == "number" else _matching(tokens, at, 1)


def _matching(tokens: list[Token], at: int, step: int) -> int | None:
    depth = 0
    for place in range(at, at + step * TOKENS, step):
        if not 0 <= place < len(tokens) or tokens[place].kind in ("stop", "="):
            return None
        depth += {"(": step, ")": -step}.get(tokens[place].kind, 0)
        if depth == 0:
            return place
    return None


def _touching(tokens: list[Token], before: int, after: int) -> bool:
    return tokens[before].kind in ("number", ")") and tokens[before].end == tokens[after].start


HUNDRED = Fraction(100)
LARGEST = 60  # numbers of an expression into which steps are put
_NUMBER = re.compile(r"[0-9][0-9,]*(?:\.[0-9]+)?")


def strategy(problem: SolvedProblem, text: str) -> str | None:
    """The expression that makes the answer, in one writing; None where the text holds no equation."""
    said = text.rpartition(THOUGHT)[2]
    steps = steps_of(said) or (steps_of(text) if said != text else [])
    if not steps:
        return None
    made = _composed(steps, _given(problem.question))
    gold = number_in(problem.gold)
    final = next((one for one in reversed(made) if one.value == gold), None)
    roots = [final] if final is not None else [one for one in made if not one.used]
    return short("; ".join(sorted({canonical(_plain(one.tree)) for one in roots})))


@dataclass
class _Made:
    """A step with the steps it rests on put into it."""

    tree: Tree
    value: Fraction
    used: bool = False


def _composed(steps: Sequence[Equation], given: frozenset[Fraction]) -> list[_Made]:
    """Every step with earlier results in the place of the numbers that quote them, repeats left out.

    A number that the question gives as well quotes a result only once: steps are written in order to be used.
    """
    made: list[_Made] = []
    latest: dict[Fraction, _Made] = {}
    seen: set[str] = set()
    for step in steps:
        name = f"{canonical(step.tree)} = {step.value}"
        if name in seen:
            continue
        seen.add(name)
        one = _Made(_quoting(step.tree, latest, given), step.value)
        made.append(one)
        latest[step.value] = one
    return made


def _quoting(tree: Tree, latest: dict[Fraction, _Made], given: frozenset[Fraction]) -> Tree:
    if isinstance(tree, Fraction):
        source = latest.get(tree)
        if source is None or (source.used and tree in given) or len(leaves(source.tree)) > LARGEST:
            return tree
        source.used = True
        return source.tree
    operation, arguments = tree
    inside = tuple(_quoting(argument, latest, given) for argument in arguments)
    out = (operation, inside)
    return out if len(leaves(out)) <= LARGEST else tree


def _given(question: str) -> frozenset[Fraction]:
    found = (number.replace(",", "") for number in _NUMBER.findall(question[:20_000]))
    return frozenset(Fraction(number) for number in found if len(number) < 30)


def _plain(tree: Tree, root: bool = True) -> Tree:
    """The same with fractions in one writing: `50 * 0.2`, `50 * (1/5)` and `50 / 5` are one way to take a fifth."""
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
        right = HUNDRED / share  # 120 * 30 / 100 takes 30/100 of 120
        left = _without(left, share)
    above, below = Fraction(right.numerator), Fraction(right.denominator)
    if operation == "/":
        above, below = below, above
    times: Tree = left if above == 1 else above if left == 1 else ("*", (left, above))
    return times if below == 1 else ("/", (times, below))


def _factors(tree: Tree) -> list[Fraction]:
    """The whole numbers among the factors of a product."""
    if isinstance(tree, Fraction) or tree[0] != "*":
        return []
    found = [[one] if isinstance(one, Fraction) else _factors(one) for one in tree[1]]
    return [number for part in found for number in part if number.denominator == 1 and number > 1]


def _without(tree: Tree, factor: Fraction) -> Tree:
    """A product without one of its factors."""
    if isinstance(tree, Fraction) or tree[0] != "*":
        return tree
    left, right = tree[1]
    if left == factor:
        return right
    if right == factor:
        return left
    if factor in _factors(left):
        return "*", (_without(left, factor), right)
    return "*", (left, _without(right, factor))
