r"""Guards: reasons to distrust math-verify's "equal", each for a way in which it was seen to be wrong.

The parser recovers from errors by dropping what it does not know (`4 \foo{3}`, `4 \mid 5`, `\neq 4` all read as one
number), ignores units and bases, and compares rounded numbers (1/2004! equals 1/2006!). An answer is not accepted when
it holds something the parser drops that the gold answer does not hold, and the other way round.

A guard may cost a right answer in a strange form; a missing guard credits a wrong one. The second is worse here: of
thousands of samples per problem, one false "correct" puts the problem into the model's support.
"""

import re
from collections import Counter
from typing import Any

from offleash.verifiers.math.numeric import difference

_KNOWN_COMMANDS = frozenset(  # commands that the parser reads, or that carry no meaning of their own
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
_IGNORED_COMMANDS = {  # commands that change the meaning, and that the parser reads over all the same
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
_STRAY_CHARACTER = re.compile(r"[@#?~`\"]")
_DOTS = re.compile(r"\\[lcd]?dots(?![A-Za-z])|\.\.\.|…")
_OPEN_END = re.compile(r"(?:[-+*/^=<>]|\\(?:cdot|times|div|pm|mp|cup|cap))\s*$")
_RELATION = re.compile(r"^\s*(<=?|>=?|\\(?:leq?|geq?|lt|gt|neq?)(?![A-Za-z]))")
_AM_PM = re.compile(r"\b([ap])\.?\s?m\b", re.I)
_MEANINGFUL_WORD = re.compile(
    r"\b(?:not|half|dozen|least|most|more|less|than|except|minus|negative|between|square root)\b", re.I
)
_NUMBER_BASE = re.compile(r"(?<=[0-9A-F])_\{?(?:\\text\s*\{\s*)?(\d{1,2}|[a-z]{3,8})\b")
_DIGITS = re.compile(r"\d+(?:\.\d+)?|\.\d+")
_RELATION_SIGN = re.compile(r"=|\\approx|\\equiv|≈|\\in(?![A-Za-z])")
_EVALUATED_COMMAND = re.compile(r"\\(?:[dtc]?frac|[dt]?binom|choose|gcd|lcm|max|min|times|cdot)(?![A-Za-z])|[/:]")


def reject_reason(gold: str, answer: str, expected: tuple[object, ...], parsed: tuple[object, ...]) -> str:
    """Why an answer that math-verify takes for equal is not accepted; empty where nothing speaks against it."""
    if letters(gold) == letters(answer):
        return ""  # the same text: whatever the parser drops, it drops from both
    dropped_from_gold, dropped_from_answer = Counter(ignored_meaning(gold)), Counter(ignored_meaning(answer))
    if dropped_from_gold != dropped_from_answer:
        differing = (dropped_from_answer - dropped_from_gold) + (dropped_from_gold - dropped_from_answer)
        return f"the parser drops {next(iter(differing))!r} from one of the two"
    if _number_bases(gold) and _number_bases(answer) and _number_bases(gold) != _number_bases(answer):
        return "they are written in different bases"
    units = unit(gold), unit(answer)
    if units[0] and units[1] and units[0] != units[1]:
        return f"their units differ: {units[0]} and {units[1]}"
    am_pm = [[mark.lower() for mark in _AM_PM.findall(text)] for text in (gold, answer)]
    if all(am_pm) and am_pm[0] != am_pm[1]:
        return "one is before noon, the other after"
    order_reason = order_difference(gold, answer)
    if order_reason:
        return order_reason
    value = value_of(parsed)
    if value is not None and _is_partly_read(answer, value):
        return "the parser read only part of it"
    return difference(value_of(expected), value)


def value_of(read: tuple[object, ...]) -> Any:
    """The expression among what the parser gives; None where it gives only text."""
    return next((part for part in read if not isinstance(part, str)), None)


def letters(text: str) -> str:
    """The text without its fonts and spaces: `\\text{Even}` is `even`."""
    return re.sub(r"\\(?:text|math)[a-z]*(?![A-Za-z])|[\\\s{}]", "", text).lower()


def ignored_meaning(text: str) -> list[str]:
    """What a formula holds that the parser skips or misreads though it has a meaning."""
    words = [word for block in TEXT_COMMAND.findall(text) for word in _MEANINGFUL_WORD.findall(block)]
    unknown = [
        name
        for name in _COMMAND.findall(text)
        if name in _IGNORED_COMMANDS or not (name in _KNOWN_COMMANDS or "dots" in name)
    ]
    ends = [*_OPEN_END.findall(text), *_RELATION.findall(text)]
    return (
        [word.lower() for word in words]
        + unknown
        + _STRAY_CHARACTER.findall(text)
        + ["..." for _ in _DOTS.findall(text)]
        + ends
    )


def _number_bases(text: str) -> list[str]:
    """The bases that numerals are written in, as in `11_2` or `2A_{16}`."""
    return sorted(_NUMBER_BASE.findall(text))


def _is_partly_read(answer: str, value: Any) -> bool:
    """Whether a text with several numbers was read as a single one, with no operation to explain it."""
    if not (getattr(value, "is_Integer", False) or getattr(value, "is_Float", False)):
        return False
    text = re.sub(r"_\{?[^{}\s]*\}?", "", UNIT_TEXT.sub("", answer))
    if _RELATION_SIGN.search(text) or _EVALUATED_COMMAND.search(text.strip().lstrip("-+")):
        return False
    joined_digits = re.sub(r"(?<=\d)[,\s]+(?=\d{3}(?!\d))", "", text)
    return len(_DIGITS.findall(joined_digits)) > 1


# Order and repeats: lists, assignments and names of points, which the parser turns into sets and products.


_ENTRY = re.compile(r"\s*(?:([A-Za-z](?:_\{?\w+\}?)?)\s*=\s*)?(-?(?:\\[dt]?frac\{\d+\}\{\d+\}|[\d./]+))\s*")
_POINTS = re.compile(r"\s*(?:\\(angle|overline|triangle|widehat|measuredangle)\s*)?\{?\s*([A-Z]{2,})\s*\}?\s*")
_SUM = re.compile(r"[^=<>]*[A-Za-z)}]\s*[-+*/]\s*[A-Za-z\d(\\][^=<>]*=[^=]*")


def order_difference(gold: str, answer: str) -> str:
    """Why two texts of equal entries are not the same answer; empty where nothing speaks against it.

    The parser makes sets of lists, so 1, 1, 2 equals 1, 2, 2; drops the names of `x=2, y=1`; and reads the points AB as
    the product A*B, which equals BA.
    """
    expected, answered = _entries(gold), _entries(answer)
    if expected and answered and len(expected) == len(answered):
        values, others = [value for _, value in expected], [value for _, value in answered]
        if Counter(values) != Counter(others) and set(values) == set(others):
            return "different entries are repeated"
        named = all(name for name, _ in expected) and len({name for name, _ in expected}) == len(expected)
        if named and not any(name for name, _ in answered) and answer.lstrip().startswith("(") and values != others:
            return "the entries are in a different order"
    gold_points, answer_points = _POINTS.fullmatch(gold), _POINTS.fullmatch(answer)
    if gold_points and answer_points and len(gold_points[2]) > 2 and not _same_points(gold_points, answer_points):
        return "the points are named in a different order"
    if _SUM.fullmatch(gold) and "=" not in answer and not re.search(r"\\(?:in|approx)(?![A-Za-z])|[<>]", answer):
        return "the gold answer is an equation, but the answer is only one side of it"
    return ""


def _entries(text: str) -> list[tuple[str | None, str]]:
    """The plain entries of a list, with the names they are given; empty where something else is among them."""
    inner = text.strip().removeprefix("\\left").removesuffix("\\right)").strip()
    inner = inner.strip("()") if inner.startswith("(") else inner.replace("\\{", "").replace("\\}", "")
    parts = [_ENTRY.fullmatch(part) for part in re.split(r"[,;]", inner)]
    return [(part[1], part[2]) for part in parts if part] if len(parts) > 1 and all(parts) else []


def _same_points(gold: re.Match[str], answer: re.Match[str]) -> bool:
    """Angles and segments may be read from either end; a triangle is its corners in any order."""
    if "triangle" in (gold[1], answer[1]):
        return sorted(gold[2]) == sorted(answer[2])
    ends = gold[1] or answer[1]
    return gold[2] == answer[2] or (bool(ends) and gold[2] == answer[2][::-1])


# Units of numbers in formulas, recognised by font or after a bare number, since a lone letter is a variable.


TEXT_COMMAND = re.compile(r"\\(?:text(?:bf|it|rm|normal)?|mbox|mathrm)\s*\{([^{}]*)\}")
_FONT_COMMAND = (
    r"\\(?:text(?:bf|it|rm|normal)?|mbox|mathrm)\s*\{(?:[^{}]|\{[^{}]*\})*\}(?:\s*\^\s*(?:\{\s*-?\d+\s*\}|\d))?"
)
UNIT_TEXT = re.compile(_FONT_COMMAND)  # words in a formula, with the exponent of a unit
_TRAILING_TEXT = re.compile(rf"(?<=[\d}}\s)!])(?:\\[,;: ]|\s)*{_FONT_COMMAND}\s*$")
_BARE_UNIT = re.compile(
    r"^(-?[\d.,{}\\!]*\d)(?:\s*(?:km|cm|mm|dm|kg|mg|ml|mL|ft|lb|oz|yd|hr|min)(?:\^\{?[23]\}?)?|\s+[mgshlL])\s*$"
)
UNIT_NAMES = {
    "length": "mm cm dm m km in ft yd mi|millimeter centimeter decimeter meter kilometer inch foot yard mile",
    "mass": "mg g kg t lb oz|milligram gram kilogram ton pound ounce",
    "time": "ms s min h d|millisecond second minute hour day",
    "volume": "ml l|milliliter liter",
    "money": "cents dollars|cent dollar",
}


def unitless(text: str) -> str:
    """Without the unit at its end, known by its font or after a bare number; a lone letter is a variable otherwise."""
    return _BARE_UNIT.sub(r"\1", _TRAILING_TEXT.sub("", text) or text)


def unit(text: str) -> str:
    """The unit of a number, where it is one of the few whose confusion is known to matter."""
    blocks = [block.strip().lower().rstrip(".") for block in TEXT_COMMAND.findall(text)]
    trailing = re.search(r"\d\s*([A-Za-z]+)\.?$", text)
    for word in [*blocks, *([trailing[1].lower()] if trailing else [])]:
        for group in UNIT_NAMES.values():
            short, long = (part.split() for part in group.split("|"))
            for name, long_name in zip(short, long, strict=True):
                if word in (
                    name,
                    long_name,
                    f"{long_name}s",
                    f"{long_name[:-2]}eet" if long_name == "foot" else long_name,
                    f"{long_name}es",
                ):
                    return name
    return ""
