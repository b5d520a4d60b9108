"""Planted pairs for the fingerprint `steps`: worked texts of one method in two writings, and of two methods.

A method is a list of operations on given numbers and on results of earlier ones; a writing turns it into text. What is
a difference of method was settled before the fingerprint was written: another sequence of operations on the given
numbers, where regrouping a sum or a product, the order of independent steps, wording, notation and units do not count.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from fractions import Fraction

import numpy as np

from offleash.analyses.strategies.fingerprints.fingerprint import SolvedProblem
from tests.analyses.strategies.planted.pair import Pair

COUNT = 60  # made pairs of each kind
Operand = int | str  # a given number (with its unit where it has one), or `#0`: the result of an operation
Operation = tuple[Operand, str, Operand]
Method = tuple[Operation, ...]


@dataclass(frozen=True)
class Template:
    """A kind of problem: a question, and at least two methods, from numbers drawn at random."""

    question: str
    methods: tuple[Method, ...]


def planted_steps(seed: int = 0) -> list[Pair]:
    """Pairs that must merge, then pairs that must not; made ones first, then those written by hand."""
    rng = np.random.default_rng([seed, 12])
    same, different = list[Pair](), list[Pair]()
    for number in range(COUNT):
        made = TEMPLATES[number % len(TEMPLATES)](rng)
        one, other = (made.methods[int(place)] for place in rng.choice(len(made.methods), size=2, replace=False))
        asked = SolvedProblem(f"steps-{number}", made.question, written(_values(one)[-1]))
        first, second = (int(place) for place in rng.choice(len(WRITINGS), size=2, replace=False))
        a, b = (WRITINGS[place](one, rng) for place in (first, second))
        same.append(Pair("steps", True, asked, a, b, f"{WRITINGS[first].__name__}, {WRITINGS[second].__name__}"))
        a, b = (WRITINGS[int(rng.integers(len(WRITINGS)))](method, rng) for method in (one, other))
        different.append(Pair("steps", False, asked, a, b, "two methods"))
    for kind, pairs in ((True, STEPS_SAME), (False, STEPS_DIFFERENT)):
        found = [Pair("steps", kind, SolvedProblem("", "", gold), one, other, "by hand") for gold, one, other in pairs]
        (same if kind else different).extend(found)
    return same + different


def written(value: Fraction) -> str:
    """A number as people write it: decimals where they end, thousands with commas."""
    if value.denominator == 1:
        return f"{int(value):,}"
    return f"{float(value):,.6g}"


def _values(method: Method) -> list[Fraction]:
    found: list[Fraction] = []
    for left, sign, right in method:
        a, b = (found[int(str(one)[1:])] if str(one).startswith("#") else Fraction(one) for one in (left, right))
        found.append(a + b if sign == "+" else a - b if sign == "-" else a * b if sign == "*" else a / b)
    return found


def _shown(method: Method) -> list[tuple[str, str, str, str]]:
    """Every operation with its numbers written out: left, sign, right, result."""
    values = _values(method)
    texts = []
    for (left, sign, right), value in zip(method, values, strict=True):
        a, b = (
            written(values[int(str(one)[1:])]) if str(one).startswith("#") else written(Fraction(one))
            for one in (left, right)
        )
        texts.append((a, sign, b, written(value)))
    return texts


def school(method: Method, rng: np.random.Generator) -> str:
    """As grade-school answers are: a line a step, with the calculator's marks."""
    lines = []
    for a, sign, b, value in _shown(method):
        bare = f"{a}{sign}{b}={value}".replace(",", "")
        lines.append(f"{rng.choice(OPENINGS)} {a} {sign} {b} = <<{bare}>>{value} {rng.choice(UNITS)}")
    return "\n".join(lines) + f"\n#### {_shown(method)[-1][3]}"


def latex(method: Method, rng: np.random.Generator) -> str:
    """Displayed formulas, fractions for divisions."""
    lines = []
    for a, sign, b, value in _shown(method):
        a, b, value = (one.replace(",", "{,}") for one in (a, b, value))
        left = f"\\frac{{{a}}}{{{b}}}" if sign == "/" else f"{a} {sign} {b}".replace("*", "\\times")
        lines.append(f"{rng.choice(OPENINGS)}\n\\[ {left} = {value} \\text{{ {rng.choice(UNITS)}}} \\]")
    return "\n".join(lines) + f"\nThe answer is $\\boxed{{{_shown(method)[-1][3]}}}$."


def swapped(method: Method, rng: np.random.Generator) -> str:
    """Operands of sums and products the other way round, signs of print."""
    lines: list[str] = []
    for a, sign, b, value in _shown(method):
        a, b = (b, a) if sign in "+*" else (a, b)
        print_sign = {"*": "×", "/": "÷", "-": "−", "+": "+"}[sign]
        lines.append(f"**Step {len(lines) + 1}:** {rng.choice(OPENINGS)} {a} {print_sign} {b} = {value}.")
    return "\n\n".join(lines)


def words(method: Method, rng: np.random.Generator) -> str:
    """Operations in words."""
    said = {"+": "plus", "-": "minus", "*": "times", "/": "divided by"}
    parts = [f"{a} {said[sign]} {b} {rng.choice(['is', 'equals', 'makes'])} {v}" for a, sign, b, v in _shown(method)]
    return "We see that " + ", and then ".join(parts) + "."


def units(method: Method, rng: np.random.Generator) -> str:
    """Units after the numbers, or a currency before them."""
    unit, money = str(rng.choice(UNITS)), bool(rng.random() < 0.5)
    put: Callable[[str], str] = (lambda one: f"${one}") if money else (lambda one: f"{one} {unit}")
    return " ".join(
        f"{rng.choice(OPENINGS)} {put(a)} {sign} {b if sign in '*/' else put(b)} = {put(value)}."
        for a, sign, b, value in _shown(method)
    )


def named(method: Method, rng: np.random.Generator) -> str:
    """What is computed has a name and stands on the left."""
    lines = [
        f"- {name.capitalize()} = {a}{sign}{b} = {value}"
        for name, (a, sign, b, value) in zip(NAMES, _shown(method), strict=False)
    ]
    return "Let me compute.\n" + "\n".join(lines) + "\nDone."


def whole(method: Method, rng: np.random.Generator) -> str:
    """One expression for all of it."""
    inside: list[str] = []
    for left, sign, right in method:
        a, b = (inside[int(str(one)[1:])] if str(one).startswith("#") else str(one) for one in (left, right))
        inside.append(f"({a} {sign} {b})")
    return f"{rng.choice(OPENINGS)} {inside[-1][1:-1]} = {_shown(method)[-1][3]}, and that is the answer."


def checked(method: Method, rng: np.random.Generator) -> str:
    """As at school, then the last step once more to be sure."""
    a, sign, b, value = _shown(method)[-1]
    return school(method, rng) + f"\nCheck: {a} {sign} {b} = {value}, as it should be."


def _numbers(rng: np.random.Generator, *ranges: tuple[int, int]) -> list[int]:
    return [int(rng.integers(low, high)) for low, high in ranges]


def _shopping(rng: np.random.Generator) -> Template:
    a, p, b, q = _numbers(rng, (11, 20), (21, 30), (31, 40), (41, 50))
    sums = ((a, "*", p), (b, "*", q), ("#0", "+", "#1"))
    apart = ((a, "+", b), ("#0", "*", p), (q, "-", p), ("#2", "*", b), ("#1", "+", "#3"))
    return Template(f"{a} pens cost ${p} each and {b} books ${q} each. What do they cost together?", (sums, apart))


def _discount(rng: np.random.Generator) -> Template:
    price, tenths = int(rng.integers(20, 90)) * 100, int(rng.integers(1, 5))
    off = ((price, "*", tenths * 10), ("#0", "/", 100), (price, "-", "#1"))
    left = ((100, "-", tenths * 10), (price, "*", "#0"), ("#1", "/", 100))
    return Template(f"A bike of ${price:,} is {tenths * 10}% off. What does it cost?", (off, left))


def _fence(rng: np.random.Generator) -> Template:
    length, width = _numbers(rng, (51, 90), (21, 50))
    twice = ((2, "*", length), (2, "*", width), ("#0", "+", "#1"))
    half = ((length, "+", width), (2, "*", "#0"))
    around = ((length, "+", width), ("#0", "+", length), ("#1", "+", width))
    return Template(f"How long is the fence around {length} by {width} metres?", (twice, half, around))


def _work(rng: np.random.Generator) -> Template:
    each, hours, days = _numbers(rng, (11, 19), (3, 9), (20, 30))
    daily = ((each, "*", hours), ("#0", "*", days), ("#1", "/", 2))
    halves = ((days, "/", 2), ("#0", "*", 2), (each, "*", hours), ("#2", "*", "#1"), ("#3", "/", 2))
    return Template(f"{each} parts an hour, {hours} hours a day, {days} days, half is kept. How many?", (daily, halves))


def _eggs(rng: np.random.Generator) -> Template:
    lay, eat, price = _numbers(rng, (40, 60), (11, 19), (3, 9))
    first = ((lay, "-", eat), ("#0", "*", price))
    later = ((lay, "*", price), (eat, "*", price), ("#0", "-", "#1"))
    return Template(f"{lay} eggs, {eat} are eaten, the rest sold at ${price}. What comes in?", (first, later))


TEMPLATES: tuple[Callable[[np.random.Generator], Template], ...] = (_shopping, _discount, _fence, _work, _eggs)
Writing = Callable[[Method, np.random.Generator], str]
WRITINGS: Sequence[Writing] = (school, latex, swapped, words, units, named, whole, checked)
OPENINGS = (
    "So we get",
    "Then",
    "That gives",
    "First,",
    "Now we compute",
    "There are",
    "In total that is",
    "This makes",
)
UNITS = ("apples", "dollars", "eggs a day", "metres", "pieces")
NAMES = ("total", "rest", "cost", "amount left", "result")

# Worked texts written by hand for the fingerprint `steps`: (gold answer, one text, another text).


STEPS_SAME: tuple[tuple[str, str, str], ...] = (
    ("15", "3 boxes hold 5 pens each, so 3*5=15 pens.", "Each box has 5 pens. 5 × 3 = 15."),
    ("1500", "1,000 + 500 = 1,500 dollars.", "500 + 1000 = 1500."),
    ("10", "20% of 50 is 10.", "0.2 * 50 = 10"),
    ("10", "\\frac{1}{5} \\cdot 50 = 10", "0.2 * 50 = 10"),
    ("8", "Half of 16 is 8.", "16 / 2 = 8"),
    ("8", "\\(\\frac{16}{2} = 8\\)", "16 ÷ 2 = 8 apples"),
    ("9", "16 - 3 - 4 = 9 eggs are left.", "16 - 3 = 13 and 13 - 4 = 9."),
    ("18", "She sells 16 - 7 = 9 eggs. 9 * $2 = $18.", "(16 - 7) * 2 = 9 * 2 = 18"),
    ("18", "He gets $2/egg * 9 eggs = $18.", "9 * 2 = 18"),
    ("24", "4! is not needed: 4 * 6 = 24.", "We multiply: 6 * 4 = 24.\n\nTherefore the answer is 24."),
    ("42", "Total = 6*7 = 42", "Total: 7*6\n= 42"),
    ("25", "5^2 = 25", "5 * 5 = 25"),
    ("25", "The square has area 5² = 25.", "Area: $5 \\times 5 = 25$"),
    ("12", "2 + 4 + 6 = 12", "2 + 4 = 6. 6 + 6 = 12."),
    ("70", "She had 100 - 30 = 70. So she has 70 left.", "100-30=70. Let me double check: 100-30=70. Yes."),
    ("7", "Solve x + 3 = 10. Then x = 10 - 3 = 7.", "x+3=10, so x=10-3=7"),
    ("4", "2x = 8, so x = 8/2 = 4.", "From $2x = 8$ we get $x = \\frac{8}{2} = 4$."),
    ("3", "He works 24 / 8 = 3 days.", "24 hours divided by 8 hours per day is 3 days."),
    ("60", "There are twenty boys and 40 girls: 20 + 40 = 60.", "40 girls + 20 boys = 60 children"),
    ("45", "The first takes 15 minutes, the second 30 minutes, 15 + 30 = 45.", "It takes 30+15=45 min."),
    ("6.25", "2.5 * 2.5 = 6.25", "2.50 × 2.50 = 6.25"),
    ("0.5", "1 - 0.5 = 0.5", "1 - 1/2 = 1/2"),
    ("100", "10 * 10 = 100", "Ten rows of ten: ten times ten is a hundred."),
    ("36", "(4 + 5) * 4 = 36", "4 + 5 = 9\n9 * 4 = 36"),
    ("11", "x = 5 and y = 6, so x + y = 5 + 6 = 11", "x + y = 6 + 5 = 11"),
)
STEPS_DIFFERENT: tuple[tuple[str, str, str], ...] = (
    ("15", "1 + 2 + 3 + 4 + 5 = 15", "5 * 6 / 2 = 15"),
    ("40", "50 - 10 = 40", "50 * 0.8 = 40"),
    ("40", "20% of 50 is 10. 50 - 10 = 40.", "100% - 20% = 80%. 80% of 50 is 40."),
    ("20", "4 * 5 = 20", "5 + 5 + 5 + 5 = 20"),
    ("28", "2 * 8 + 2 * 6 = 28", "2 * (8 + 6) = 28"),
    ("90", "60 * 1.5 = 90", "60 / 60 = 1. 1 * 90 = 90."),
    ("12", "3 + 9 = 12", "3 * 4 = 12"),
    ("99", "100 * 99 / 100 = 99", "100 - 1 = 99"),
    ("24", "4 * 3 = 12. 12 * 2 = 24.", "4 * 5 = 20. 20 + 4 = 24."),
    ("48", "8 * 6 = 48", "8 * 5 = 40. 40 + 8 = 48."),
    ("16", "2^4 = 16", "20 - 4 = 16"),
    ("7", "x = 10 - 3 = 7", "3 + 4 = 7, so x must be 4 more than 3, 7."),
    ("21", "7 * 3 = 21", "6 * 3 = 18 and 18 + 3 = 21"),
    ("2550", "50 * 51 = 2,550", "(2 + 100) * 50 / 2 = 2550"),
    ("5", "25 / 5 = 5", "10 / 2 = 5"),
    ("72", "9 * 8 = 72", "10 * 8 = 80. 80 - 8 = 72."),
    ("36", "Half of 72 is 36.", "12 * 3 = 36"),
    ("150", "\\frac{300}{2} = 150", "100 + 50 = 150"),
    ("13", "5^2 - 12 = 13", "5 + 8 = 13"),
    ("64", "4 * 4 = 16. 16 * 4 = 64.", "8 * 8 = 64"),
)
