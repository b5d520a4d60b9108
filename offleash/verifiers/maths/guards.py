"""Guards: reasons to distrust math-verify's "equal". Each stands for a way in which it was seen to be wrong.

The parser recovers from errors by dropping what it does not know (`4 \\foo{3}`, `4 \\mid 5`, `\\neq 4` all read as one
number), ignores units and bases, and compares rounded numbers (1/2004! equals 1/2006!). An answer is not accepted when
it holds something the parser drops that the gold answer does not hold, and the other way round.
"""

import re
from collections import Counter
from typing import Any

RELATIVE = 1e-5  # numbers that are not exact agree to this, however small they are
POINTS = 3  # random points at which expressions with letters must agree
_KNOWN = frozenset(  # commands that the parser reads, or that carry no meaning of their own
    """
    frac dfrac tfrac cfrac sqrt root pi theta alpha beta gamma delta epsilon lambda mu nu phi varphi psi omega
    rho sigma tau zeta eta kappa xi chi Delta Gamma Omega Phi Sigma Theta Lambda Pi Psi sin cos tan cot sec
    csc sinh cosh tanh arcsin arccos arctan log ln lg exp cdot times div pm mp le leq ge geq lt gt ne neq in
    notin cup cap setminus emptyset varnothing infty left right big Big bigg Bigg bigl bigr Bigl Bigr text
    textbf textit textrm textnormal mbox mathrm mathbf mathbb mathcal mathit operatorname begin end circ
    degree prime binom dbinom tbinom choose sum prod int lim max min gcd lcm mod lfloor rfloor lceil rceil
    lvert rvert vert lbrace rbrace langle rangle overline bar hat vec boxed fbox approx equiv sim cong because
    therefore displaystyle limits nolimits quad qquad space dots partial nabla angle triangle to rightarrow
    Rightarrow implies land lor wedge vee neg forall exists mid nmid perp parallel subset subseteq supset
    supseteq ast star det sgn arg Re Im ell hbar cdotp imath jmath i e d not percent dollar euro pounds yen
    """.split()  # noqa: SIM905
)
_DROPPED = {
    "mid",
    "nmid",
    "to",
    "rightarrow",
    "Rightarrow",
    "implies",
    "notin",
    "not",
    "perp",
    "parallel",
    "subset",
    "sim",
}
_COMMAND = re.compile(r"\\([A-Za-z]+)")
_STRAY = re.compile(r"[@#?~`\"]")
_DOTS = re.compile(r"\\[lcd]?dots(?![A-Za-z])|\.\.\.|…")
_OPEN_END = re.compile(r"(?:[-+*/^=<>]|\\(?:cdot|times|div|pm|mp|cup|cap))\s*$")
_RELATION = re.compile(r"^\s*(<=?|>=?|\\(?:leq?|geq?|lt|gt|neq?)(?![A-Za-z]))")
_TEXT = re.compile(r"\\(?:text(?:bf|it|rm|normal)?|mbox|mathrm)\s*\{([^{}]*)\}")
_MEANING = re.compile(
    r"\b(?:not|half|dozen|least|most|more|less|than|except|minus|negative|between|square root)\b", re.I
)
_BASE = re.compile(r"(?<=[0-9A-F])_\{?(?:\\text\s*\{\s*)?(\d{1,2}|[a-z]{3,8})\b")
_DIGITS = re.compile(r"\d+(?:\.\d+)?|\.\d+")
_CHAIN = re.compile(r"=|\\approx|\\equiv|≈|\\in(?![A-Za-z])")
_EVALUATED = re.compile(r"\\(?:[dtc]?frac|[dt]?binom|choose|gcd|lcm|max|min)(?![A-Za-z])|[/:]")
UNITS = {
    "length": "mm cm dm m km in ft yd mi|millimeter centimeter decimeter meter kilometer inch foot yard mile",
    "mass": "mg g kg t lb oz|milligram gram kilogram ton pound ounce",
    "time": "ms s min h d|millisecond second minute hour day",
    "volume": "ml l|milliliter liter",
    "money": "cents dollars|cent dollar",
}


def objection(gold: str, answer: str, expected: tuple[object, ...], found: tuple[object, ...]) -> str:
    """Why an answer that math-verify takes for equal is not accepted; empty where nothing speaks against it."""
    if _letters(gold) == _letters(answer):
        return ""
    lost, added = Counter(dropped(gold)), Counter(dropped(answer))
    if lost != added:
        return f"the parser drops {next(iter((added - lost) + (lost - added)))!r} from one of the two"
    if _bases(gold) and _bases(answer) and _bases(gold) != _bases(answer):
        return "they are written in different bases"
    units = _unit(gold), _unit(answer)
    if units[0] and units[1] and units[0] != units[1]:
        return f"their units differ: {units[0]} and {units[1]}"
    value = next((part for part in found if not isinstance(part, str)), None)
    if value is not None and _partly_read(answer, value):
        return "the parser read only a part of it"
    return _differs(next((part for part in expected if not isinstance(part, str)), None), value)


def _letters(text: str) -> str:
    """The text without its fonts and spaces: `\\text{Even}` is `even`."""
    return re.sub(r"\\(?:text|math)[a-z]*(?![A-Za-z])|[\\s{}]", "", text).lower()


def dropped(text: str) -> list[str]:
    """What a formula holds that the parser skips or misreads though it has a meaning."""
    words = [word for block in _TEXT.findall(text) for word in _MEANING.findall(block)]
    unknown = [name for name in _COMMAND.findall(text) if name in _DROPPED or not (name in _KNOWN or "dots" in name)]
    ends = [*_OPEN_END.findall(text), *_RELATION.findall(text)]
    return (
        [word.lower() for word in words] + unknown + _STRAY.findall(text) + ["..." for _ in _DOTS.findall(text)] + ends
    )


def _bases(text: str) -> list[str]:
    return sorted(_BASE.findall(text))


def _unit(text: str) -> str:
    """The unit of a number, where it is one of the few whose confusion is known to matter."""
    blocks = [block.strip().lower().rstrip(".") for block in _TEXT.findall(text)]
    trailing = re.search(r"\d\s*([A-Za-z]+)\.?$", text)
    for word in [*blocks, *([trailing[1].lower()] if trailing else [])]:
        for group in UNITS.values():
            short, long = (part.split() for part in group.split("|"))
            for name, full in zip(short, long, strict=True):
                if word in (name, full, f"{full}s", f"{full[:-2]}eet" if full == "foot" else full, f"{full}es"):
                    return name
    return ""


def _partly_read(answer: str, value: Any) -> bool:
    """Whether a text with several numbers was read as a single one, with no operation to explain it."""
    if not (getattr(value, "is_Integer", False) or getattr(value, "is_Float", False)):
        return False
    text = re.sub(r"_\{?[^{}\s]*\}?", "", _TEXT.sub("", answer))
    if _CHAIN.search(text) or _EVALUATED.search(text.strip().lstrip("-+")):
        return False
    joined = re.sub(r"(?<=\d)[,\s]+(?=\d{3}(?!\d))", "", text)
    return len(_DIGITS.findall(joined)) > 1


def _differs(expected: Any, found: Any) -> str:
    """Whether two expressions that were taken for equal are told apart by exact or high-precision numbers."""
    import sympy

    if not (isinstance(expected, sympy.Expr) and isinstance(found, sympy.Expr)):
        return ""
    symbols = sorted(expected.free_symbols | found.free_symbols, key=str)
    if symbols:
        return _differ_somewhere(expected, found, symbols)
    exact = not (expected.has(sympy.Float) or found.has(sympy.Float))
    try:
        if exact and expected.is_Rational and found.is_Rational:
            return "" if expected == found or _percent(expected, found) else "they are different rational numbers"
        one, other = sympy.N(expected, 40), sympy.N(found, 40)
        size = max(abs(one), abs(other))
        near = size == 0 or bool(abs(one - other) <= (10**-30 if exact else RELATIVE) * size)
    except (TypeError, ValueError, ArithmeticError):
        return ""  # not numbers after all (infinities, undefined values)
    return "" if near or _percent(one, other) else "they are equal only after rounding"


def _percent(one: Any, other: Any) -> bool:
    """math-verify takes 50% for 50 and for 0.5: a convention, not a rounding."""
    ratio = abs(one / other) if other else 0
    return bool(abs(ratio - 100) < 1e-9 or abs(ratio * 100 - 1) < 1e-11)


def _differ_somewhere(expected: Any, found: Any, symbols: list[Any]) -> str:
    import random

    import sympy

    rng = random.Random(0)
    for _ in range(POINTS):
        point = {symbol: sympy.Rational(rng.randint(101, 997), 173) for symbol in symbols}
        try:
            one, other = complex(expected.subs(point).evalf(30)), complex(found.subs(point).evalf(30))
        except (TypeError, ValueError, ArithmeticError, AttributeError):
            return ""
        if one == one and other == other and abs(one - other) > 1e-6 * max(abs(one), abs(other), 1e-300):
            return "they differ at some values of their letters"
    return ""
