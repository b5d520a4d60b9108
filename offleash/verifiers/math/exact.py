"""Decisions without algebra (identical texts, integers, decimals, fractions), and limits on what algebra is given.

A decision here never contradicts decide.py: near misses, and every other form, are left to algebra.
"""

import re
from fractions import Fraction
from functools import lru_cache

from offleash.data.verdict import Verdict
from offleash.verifiers.math.latex import gold_text, inside_delimiters, without_spaces
from offleash.verifiers.verifier import Case, Judgement

PLAIN_DIGITS = 30  # of a plain number; longer ones are left to algebra
NEAR_RATIO = Fraction(1, 100)  # relative; closer than this, rounding conventions decide, and they are not ours
_INTEGER = r"(?:[1-9]\d{0,2}(?:(?:,|\{,\}|,\\!)\d{3})+|\d+)"
_PLAIN = re.compile(rf"(-?)\s?({_INTEGER})(\.\d+)?", re.ASCII)
_SLASH = re.compile(r"(-?)(\d+)/(\d+)", re.ASCII)
_FRAC = re.compile(r"(-?)\\[dt]?frac\{(-?\d+)\}\{(\d+)\}", re.ASCII)

_MIXED = re.compile(r"(-?)(\d+)\s?\\[dt]?frac\{([1-9]\d*)\}\{(\d+)\}", re.ASCII)


def decide_exactly(case: Case) -> Judgement | None:
    """A verdict where plain equality or plain numbers settle it; None where they do not."""
    if case.gold is None or len(case.answer) > MAX_CHARACTERS:
        return None
    gold, answer = gold_text(case.gold), inside_delimiters(case.answer)
    if answer == gold and answer:
        return Judgement(Verdict.CORRECT, solution=gold)
    # letters of choices; the parser reads both cases alike, so what differs only in case is left to it
    if len(answer) == len(gold) == 1 and (answer + gold).isascii() and (answer + gold).isalpha():
        return None if answer.lower() == gold.lower() else Judgement(Verdict.WRONG)
    expected, value = _plain_gold(gold), plain_number(answer)
    if expected is None or value is None:
        return (
            Judgement(Verdict.CORRECT, solution=gold)
            if answer and without_spaces(answer) == without_spaces(gold)
            else None
        )
    if expected == value:
        return Judgement(Verdict.CORRECT, solution=gold)
    if abs(expected - value) <= NEAR_RATIO * max(abs(expected), abs(value)) and (
        expected.denominator > 1 or value.denominator > 1
    ):
        return None
    return Judgement(Verdict.WRONG)


def plain_number(text: str) -> Fraction | None:
    """The exact value of an integer, a decimal or a fraction of integers written plainly; None for anything else."""
    if len(text) > PLAIN_DIGITS:
        return None
    plain = _PLAIN.fullmatch(text)
    if plain:
        whole = re.sub(r"[^\d]", "", plain[2])
        return Fraction(f"{plain[1]}{whole}{plain[3] or ''}")
    mixed = _MIXED.fullmatch(text)
    if mixed and int(mixed[3]) < int(mixed[4]):
        return (int(mixed[2]) + Fraction(int(mixed[3]), int(mixed[4]))) * (-1 if mixed[1] else 1)
    parts = _SLASH.fullmatch(text) or _FRAC.fullmatch(text)
    if parts and int(parts[3]):
        return Fraction(int(parts[2]), int(parts[3])) * (-1 if parts[1] else 1)
    return None


@lru_cache(maxsize=4096)
def _plain_gold(gold: str) -> Fraction | None:
    return plain_number(gold)


# Structural limits: formulas that would take algebra too long to evaluate, recognised by their text.
#
# Whatever passes them is still killed at its limit of time or memory by the pool; these only save the wait.


MAX_CHARACTERS = 2_000  # characters of a formula
MAX_DEPTH = 30  # of braces and brackets: the parser recurses
MAX_EXPONENT = 20_000  # largest exponent written out
MAX_FACTORIAL = 5_000  # largest argument of a factorial
MAX_BOUND = 100_000  # largest bound of a sum or product
MAX_DIGITS = 1_000  # of one number
_TRIPLE_POWER = re.compile(r"\^\s*\{?\s*\(?\s*[\w\\.]+\s*\^\s*\{?\s*\(?\s*[\w\\.]+\s*\^")
_DOUBLE_POWER = re.compile(r"\^\s*\{?\s*\(?\s*\d+\s*\^\s*\{?\s*\(?\s*(\d+)")
_EXPONENT = re.compile(r"\^\s*\{?\s*\(?\s*-?\s*(\d+)")
_FACTORIAL = re.compile(r"(\d+)\s*\)?\s*!")
_NESTED_GROWTH = re.compile(r"[\^!*][^()]{0,60}\)\s*!|!\s*\)?\s*\}?\s*[!^]|\^\s*\{?\s*\(?\s*\d+\s*!")
_BOUND = re.compile(r"\\(?:sum|prod|int|binom|dbinom|tbinom)[^0-9]{0,40}\d*[^0-9]{0,40}?(\d{6,})")
_NUMBER = re.compile(r"\d+")


def exceeded_limit(text: str) -> str:
    """Why a formula is not handed to algebra, in words; empty where it may be."""
    if len(text) > MAX_CHARACTERS:
        return f"its {len(text):,} characters are more than {MAX_CHARACTERS:,}"
    if _depth(text) > MAX_DEPTH:
        return f"it is nested more than {MAX_DEPTH} levels deep"
    if any(len(number) > MAX_DIGITS for number in _NUMBER.findall(text)):
        return f"it has a number of more than {MAX_DIGITS:,} digits"
    if _TRIPLE_POWER.search(text):
        return "it has a tower of powers"
    double_power = _DOUBLE_POWER.search(text)
    if double_power and _exceeds(double_power[1], 4):
        return "it has a power of a power too large to compute"
    exponent = next((match[1] for match in _EXPONENT.finditer(text) if _exceeds(match[1], MAX_EXPONENT)), None)
    if exponent:
        return f"it has a power with the exponent {exponent[:12]}"
    if any(_exceeds(match[1], MAX_FACTORIAL) for match in _FACTORIAL.finditer(text)) or _NESTED_GROWTH.search(text):
        return f"it has a factorial beyond {MAX_FACTORIAL:,}!"
    if _BOUND.search(text):
        return f"it has a sum, product or binomial beyond {MAX_BOUND:,}"
    return ""


def _exceeds(digits: str, bound: int) -> bool:
    """Whether a numeral exceeds a bound, without converting a hostile one: `int` is quadratic in its digits."""
    return len(digits) > 12 or int(digits) > bound


def _depth(text: str) -> int:
    depth = max_depth = 0
    for character in text:
        if character in "{([":
            depth += 1
            max_depth = max(max_depth, depth)
        elif character in "})]":
            depth -= 1
    return max_depth
