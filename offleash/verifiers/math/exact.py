"""Exact decisions without algebra: identical texts, plain integers, decimals and fractions.

They never differ from what `math` would say: what is near but not equal, and every other form, is left to it.
"""

import re
from fractions import Fraction
from functools import lru_cache

from offleash.data.verdict import Verdict
from offleash.verifiers.math.latex import gold_text, inside, squeezed
from offleash.verifiers.math.structure import LENGTH
from offleash.verifiers.verifier import Case, Judgement

PLAIN_DIGITS = 30  # of a plain number; longer ones are left to algebra
NEAR = Fraction(1, 100)  # relative; closer than this, rounding conventions decide, and they are not ours
_INTEGER = r"(?:[1-9]\d{0,2}(?:(?:,|\{,\}|,\\!)\d{3})+|\d+)"
_PLAIN = re.compile(rf"(-?)\s?({_INTEGER})(\.\d+)?", re.ASCII)
_SLASH = re.compile(r"(-?)(\d+)/(\d+)", re.ASCII)
_FRAC = re.compile(r"(-?)\\[dt]?frac\{(-?\d+)\}\{(\d+)\}", re.ASCII)

_MIXED = re.compile(r"(-?)(\d+)\s?\\[dt]?frac\{([1-9]\d*)\}\{(\d+)\}", re.ASCII)


def decide_exactly(case: Case) -> Judgement | None:
    """A verdict where plain equality or plain numbers settle it; None where they do not."""
    if case.gold is None or len(case.answer) > LENGTH:
        return None
    gold, answer = gold_text(case.gold), inside(case.answer)
    if answer == gold and answer:
        return Judgement(Verdict.CORRECT, solution=gold)
    if len(answer) == len(gold) == 1 and (answer + gold).isascii() and (answer + gold).isalpha():
        return None if answer.lower() == gold.lower() else Judgement(Verdict.WRONG)
    expected, found = _plain_gold(gold), plain_number(answer)
    if expected is None or found is None:
        return Judgement(Verdict.CORRECT, solution=gold) if answer and squeezed(answer) == squeezed(gold) else None
    if expected == found:
        return Judgement(Verdict.CORRECT, solution=gold)
    if abs(expected - found) <= NEAR * max(abs(expected), abs(found)) and (
        expected.denominator > 1 or found.denominator > 1
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
