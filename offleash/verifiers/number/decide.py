r"""The `number` verifier: numbers with tolerances and units, as in SciBench, GSM8K, physics and chemistry problems.

`details` may hold `unit` (as the problem gives it, LaTeX and a power of ten allowed: `$10^{-3} \mathrm{~s}$`),
`relative` and `absolute`. Without tolerances two numbers are equal as rationals or not at all. A relative tolerance is
that of `math.isclose`, relative to the larger of the two: SciBench's own convention with 0.05 (Wang et al. 2024,
arXiv:2307.10635). No relative tolerance reaches 0, so a gold 0 accepts only 0 unless `absolute` is given.

* An answer without a unit is in the expected unit; where that has a power of ten, the power may also be written out.
* An answer in another unit of the table in units.py is converted; one that measures something else is wrong.
* If the answer's unit is not in the table, or the problem names none, the number alone decides.
* `n%` where no unit is expected is n/100; also n, when the gold is 1 or more (problems that ask "what percentage").
* Several different numbers are wrong, and a comma only groups thousands: `3,5` is two. A bound (`> 5`) is wrong.
* No number, or more than a number (`5x`, `5!`), is unread; a closed form (`2\pi`) is read where there is a tolerance.
"""

import math
import re
from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache
from itertools import pairwise

from offleash.data.verdict import Verdict
from offleash.verifiers.number.closed import closed_form
from offleash.verifiers.number.numerals import NUMERAL, NotANumberError, Quantity, canonical, plain, quantities
from offleash.verifiers.number.units import SUPERSCRIPTS, Unit, leading_unit, readings
from offleash.verifiers.verifier import Case, Judgement

INEQUALITY = re.compile(r"[<>≤≥≠]|\\(?:leq?|geq?|neq?|lt|gt|leqslant|geqslant)(?![A-Za-z])")
BOUND_PHRASE = re.compile(r"(?i)\b(?:less than|more than|greater than|fewer than|at least|at most|not|over|under)\b")
SEPARATOR = re.compile(r"[,;]|\. |\b(?:and|or)\b")
FUNCTION = re.compile(r"(?i)\b(?:sqrt|ln|log|exp|a?r?c?sin|a?r?c?cos|a?r?c?tan|cot|sec|csc)\b")
OPERATORS = re.compile(r"[-+*/^:xX]|\(|\) ?[-+*/^:xX(]?")
ALGEBRA = re.compile(
    rf"[!*+/]|_|\) ?[*/{SUPERSCRIPTS}]|- ?(?:\(|[A-Za-z]{{1,2}}(?![A-Za-z]))|(?:squared|cubed|factorial|choose|mod)\b"
)
POWER_OF_TEN = re.compile(r"10\^([-+]?[0-9]{1,3})(?![0-9.]) ?")
ROUNDING_TOLERANCE = Fraction(
    2, 100
)  # how far two statements of one number may differ: `1/3 ≈ 0.33`, `72 km/h (20 m/s)`


class SeveralNumbersError(ValueError):
    """The text gives more than one number, or a bound instead of a number."""


@dataclass(frozen=True)
class NumberSpec:
    """What a problem expects: a number in a unit, and how near an answer must come."""

    value: Fraction
    unit: str  # cleaned text, "" when none is named
    relative: Fraction
    absolute: Fraction

    def accepts(self, value: Fraction) -> bool:
        """As `math.isclose`, in exact fractions: the tolerance is relative to the larger of the two numbers."""
        tolerance = max(self.relative * max(abs(value), abs(self.value)), self.absolute)
        return abs(value - self.value) <= tolerance


def decide(case: Case) -> Judgement:
    """Is the answer's number the gold one, in its unit and within its tolerance?"""
    try:
        spec = _spec(case)
    except ValueError as error:
        return Judgement(Verdict.FAILED, str(error))
    try:
        quantity = _rounded_quantity(_right_side(plain(case.answer)), spec.unit)
    except SeveralNumbersError as error:
        return Judgement(Verdict.WRONG, str(error))
    except NotANumberError as error:
        return _decide_closed_form(case.answer, spec, str(error))
    if quantity is None:
        return _decide_closed_form(case.answer, spec, "no number in the answer")
    return _compare(quantity, spec)


def readable(case: Case) -> str:
    """Empty, or why the gold answer, its unit or its tolerances cannot be used."""
    try:
        _spec(case)
    except ValueError as error:
        return str(error)
    return ""


def _spec(case: Case) -> NumberSpec:
    """The problem's number, unit and tolerances; ValueError says which of them cannot be used."""
    if case.gold is None or not case.gold.strip():
        raise ValueError("there is no gold answer")
    unit = case.details.get("unit")
    if not isinstance(unit, str | None):
        raise ValueError(f"details.unit is {unit!r}; give a string, such as 'm/s'")
    return _read_gold(case.gold, unit or "", _tolerance(case, "relative"), _tolerance(case, "absolute"))


@lru_cache(4096)  # a gold answer meets thousands of samples
def _read_gold(gold: str, unit: str, relative: Fraction, absolute: Fraction) -> NumberSpec:
    try:
        named = _unit_text(unit)
        quantity = _single_quantity(_right_side(plain(gold)), named)
    except ValueError as error:
        raise ValueError(f"gold answer {gold[:60]!r} is not one number: {error}") from None
    if quantity is None:
        raise ValueError(f"gold answer {gold[:60]!r} has no number")
    return NumberSpec(quantity.value, named or quantity.unit.strip(" .,;:"), relative, absolute)


def _tolerance(case: Case, name: str) -> Fraction:
    """A tolerance of the details; 0 where none is given. Read by its digits: 0.05 is 1/20, not the float near it."""
    value = case.details.get(name)
    if value is None:
        return Fraction(0)
    if isinstance(value, bool) or not isinstance(value, int | float) or not math.isfinite(value) or value < 0:
        raise ValueError(f"details.{name} is {value!r}; give a number of 0 or more, such as 0.05")
    return Fraction(str(value))


def _unit_text(unit: str) -> str:
    plain_unit = plain(unit).strip(" .,;:")
    return "dollars" if not plain_unit and "$" in unit else plain_unit


def _right_side(text: str) -> str:
    """What follows the last equals sign, when all before it leads up to that: `v = d/t = 5 m/s` is `5 m/s`."""
    *before, last = text.split("=")
    if not before:
        return text
    if len(before) == 1 and not quantities(last):
        return before[0].strip()
    if _gives_other_answer(before[0], last):
        raise SeveralNumbersError("several numbers, one before an equation and one after")
    for position, part in enumerate(before):
        numbers = quantities(part) if position or SEPARATOR.search(part) else []
        if not numbers or (position and _has_operator(numbers[-1].unit)):
            continue
        # in `x = 3, y = 4` nobody can tell which one is the answer
        if SEPARATOR.search(part) or (numbers[-1].unit and not readings(numbers[-1].unit)):
            raise SeveralNumbersError("several equations")
    return last.strip()


def _gives_other_answer(text: str, last: str) -> bool:
    """Does the text before an equation already give another answer, as in `3, since 2 + 3 = 5`?"""
    match = NUMERAL.match(text)
    words = text[match.end() :].strip() if match else ""
    if not re.match(r"\(|[A-Za-z]{3,}", words) or _has_operator(words.partition("(")[0]) or leading_unit(words):
        return False
    return quantities(text)[0].value not in [quantity.value for quantity in quantities(last)[:1]]


def _rounded_quantity(text: str, unit: str) -> Quantity | None:
    r"""The quantity of a text; of `\sqrt{12} ≈ 3.46` the rounded one."""
    try:
        return _single_quantity(text, unit)
    except NotANumberError:
        exact, sign, rounded = text.rpartition("≈")
        if not sign or SEPARATOR.search(exact):
            raise
        return _single_quantity(rounded.strip(), unit)


def _has_operator(text: str) -> bool:
    """Whether a text between two numbers computes with them, rather than listing them."""
    return bool(re.search(r"[-+*/^()\\]", text)) and not SEPARATOR.search(text)


def _single_quantity(text: str, unit: str) -> Quantity | None:
    """The one quantity of a cleaned text; None when it has no number.

    Several numbers are one quantity when they say the same (`1/2 = 0.5`, `72 km/h (20 m/s)`): otherwise a model could
    list candidates and be right by one of them.
    """
    numbers = quantities(text)
    if not numbers:
        return None
    prefix = text[: numbers[0].start]
    if INEQUALITY.search(text) or BOUND_PHRASE.search(prefix):
        raise SeveralNumbersError("a bound, not a number")
    if "±" in text:
        raise SeveralNumbersError("several numbers (±)")
    if "\\" in prefix or FUNCTION.search(prefix) or re.search(r"[-+*/^)]\s*$", prefix):
        raise NotANumberError("an expression, not a number")
    for quantity in numbers:
        _check_unit(quantity, unit, last=quantity is numbers[-1])
    if len(numbers) == 2 and numbers[0].unit in ("-", ":") and not re.match(r"[)^/*\\]", numbers[1].unit):
        raise SeveralNumbersError("several numbers, or a range")
    first = numbers[0]
    for before, after in pairwise(numbers):
        if not _same_quantity(before, after):
            raise SeveralNumbersError(
                f"several numbers: {canonical(before.value)[:30]} and {canonical(after.value)[:30]}"
            )
    return first


def _check_unit(quantity: Quantity, expected: str, *, last: bool) -> None:
    """What follows a number is a unit or words; when it is algebra, the text is more than a number."""
    text = quantity.unit
    if not text or (expected and text.strip(" .,;:") in (expected, POWER_OF_TEN.sub("", expected))):
        return
    if re.search(r"[0-9^\\]", POWER_OF_TEN.sub("", text)) or (ALGEBRA.match(text) and not leading_unit(text)):
        raise NotANumberError("an expression, not a number")
    if not last and text not in ("-", ":") and OPERATORS.fullmatch(text) and (quantity.is_attached or text != "("):
        raise NotANumberError("an expression, not a number")
    word = re.match(r"[A-Za-z]+", text)
    if word is None or leading_unit(text):
        return
    single_letter = len(word[0]) == 1 and word.end() == len(text.rstrip(" .,;:)"))
    if single_letter or (quantity.is_attached and len(word[0]) <= 3):
        raise NotANumberError("an expression, not a number")


def _same_quantity(first: Quantity, second: Quantity) -> bool:
    """Do two quantities that stand side by side say the same?"""
    restates = first.unit.endswith("(") or "≈" in first.unit
    tolerance = ROUNDING_TOLERANCE if restates else Fraction(0)
    value = second.value
    first_units, second_units = readings(first.unit.strip(" (≈,;:.")), readings(second.unit.strip(" ()≈,;:."))
    if first_units and second_units and first_units[0].agrees(second_units[0]):
        value = second_units[0].convert(value, first_units[0])
    return abs(value - first.value) <= tolerance * abs(first.value)


def _compare(quantity: Quantity, spec: NumberSpec) -> Judgement:
    """The verdict on a quantity, in any of the readings that its unit allows."""
    values = _in_expected_unit(quantity, spec)
    if not values:
        return Judgement(Verdict.WRONG, f"measured in {quantity.unit[:30]!r}, expected in {spec.unit[:30]!r}")
    if any(spec.accepts(value) for value in values):
        # an accepted number is the gold one, rounded: all of them are one solution
        return Judgement(Verdict.CORRECT, solution=canonical(spec.value))
    return Judgement(Verdict.WRONG, f"{canonical(values[0])[:60]} is not {canonical(spec.value)[:60]}")


def _in_expected_unit(quantity: Quantity, spec: NumberSpec) -> list[Fraction]:
    """What the answer's number may be in the expected unit; empty when it measures something else."""
    text = leading_unit(quantity.unit.strip(" .,;:()≈"))
    expected_units, answer_units = readings(spec.unit), readings(text)
    named = [unit for unit in expected_units if unit.size != unit.scale or any(unit.dimensions)]
    if answer_units and named and not _same_letters(text, spec.unit):
        return [unit.convert(quantity.value, other) for unit in answer_units for other in named if unit.agrees(other)]
    values = [quantity.value]
    scale = _scale(spec.unit, expected_units)
    if scale != 1:
        values.append(quantity.value / scale)
    if text == "%" and not spec.unit:
        values = [quantity.value / 100] + [quantity.value] * (abs(spec.value) >= 1)
    return values


def _same_letters(first: str, second: str) -> bool:
    """`25 C` answers a question for degrees Celsius."""
    return first.replace("°", "").strip() == second.replace("°", "").strip()


def _scale(text: str, expected_units: tuple[Unit, ...]) -> Fraction:
    """The power of ten in a unit's text, known or not: of `10^16 photons`, 10^16."""
    if expected_units:
        return expected_units[0].scale
    power = POWER_OF_TEN.match(text)
    return Fraction(10) ** int(power[1]) if power else Fraction(1)


def _decide_closed_form(answer: str, spec: NumberSpec, reason: str) -> Judgement:
    r"""A closed form such as `\frac{2\pi}{15}`, which only a tolerance can compare."""
    value = closed_form(answer) if spec.relative or spec.absolute else None
    if value is None:
        return Judgement(Verdict.UNREAD, reason)
    return _compare(Quantity(*value, is_attached=False, start=0, end=0), spec)
