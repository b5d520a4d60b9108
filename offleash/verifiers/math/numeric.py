"""Expressions compared as numbers: at random points before algebra, and precisely after algebra says "equal".

Two expressions that differ at a point are not equal, and a point takes a millisecond where algebra may never finish.
"""

from typing import Any

RELATIVE_TOLERANCE = 1e-5  # numbers that are not exact agree to this, however small they are
CLEAR_DIFFERENCE = 1e-2  # relative; what is closer is left to algebra and its roundings
LARGEST_VALUE = 1e300  # near the largest float: what is larger counts as this
POINTS = 3  # random points at which expressions with letters must agree: different ones hardly agree at three


def clearly_different(expected: Any, answer: Any) -> bool:
    """Whether two expressions differ at a random point by far more than any rounding or percent sign explains."""
    import sympy
    from sympy.core.function import AppliedUndef

    slow_types = (sympy.Integral, sympy.Sum, sympy.Product, sympy.Limit, sympy.Derivative, AppliedUndef)
    if not all(isinstance(part, sympy.Expr) and not part.has(*slow_types) for part in (expected, answer)):
        return False
    symbols = sorted(expected.free_symbols | answer.free_symbols, key=str)
    pair = _values(expected, answer, symbols, 0, 15)
    if pair is None:
        return False
    left, right = pair
    return abs(left - right) > CLEAR_DIFFERENCE * max(abs(left), abs(right)) and not _near_percent(left, right)


def _near_percent(left: complex, right: complex) -> bool:
    """About a hundred times the other: math-verify may take one for a percentage, so algebra must decide."""
    ratio = abs(left / right) if right else 0.0
    return abs(ratio - 100) < 1 or abs(ratio * 100 - 1) < 0.01


def difference(expected: Any, answer: Any) -> str:
    """Why two expressions that math-verify takes for equal are different, by exact or precise numbers; "" if equal."""
    import sympy

    if not (isinstance(expected, sympy.Expr) and isinstance(answer, sympy.Expr)):
        return ""
    symbols = sorted(expected.free_symbols | answer.free_symbols, key=str)
    if symbols:
        return _difference_at_points(expected, answer, symbols)
    exact = not (expected.has(sympy.Float) or answer.has(sympy.Float))
    try:
        if exact and expected.is_Rational and answer.is_Rational:
            return "" if expected == answer or _percent(expected, answer) else "they are different rational numbers"
        left, right = sympy.N(expected, 40), sympy.N(answer, 40)
        size = max(abs(left), abs(right))
        is_near = size == 0 or bool(abs(left - right) <= (10**-30 if exact else RELATIVE_TOLERANCE) * size)
    except (TypeError, ValueError, ArithmeticError):
        return ""  # not numbers after all (infinities, undefined values)
    return "" if is_near or _percent(left, right) else "they are equal only after rounding"


def _percent(left: Any, right: Any) -> bool:
    """math-verify takes 50% for 50 and for 0.5: a convention, not a rounding."""
    ratio = abs(left / right) if right else 0
    return bool(abs(ratio - 100) < 1e-9 or abs(ratio * 100 - 1) < 1e-11)


def _difference_at_points(expected: Any, answer: Any, symbols: list[Any]) -> str:
    """A reason where the two differ at a random point; "" where they agree, or a point has no finite value."""
    for number in range(POINTS):
        pair = _values(expected, answer, symbols, number, 30)
        if pair is None:
            return ""
        if abs(pair[0] - pair[1]) > 1e-6 * max(abs(pair[0]), abs(pair[1]), 1e-300):
            return "they differ at some values of their variables"
    return ""


def _values(expected: Any, answer: Any, symbols: list[Any], number: int, digits: int) -> tuple[complex, complex] | None:
    """Both expressions at one random point, where both have a finite value there."""
    import random

    import sympy

    rng = random.Random(number)  # the same points in every process: a verdict must not depend on luck
    point = {symbol: sympy.Rational(rng.randint(101, 997), 173) for symbol in symbols}
    try:
        left, right = (_number(part.subs(point).evalf(digits)) for part in (expected, answer))
    except (TypeError, ValueError, ArithmeticError, AttributeError):
        return None
    finite = all(abs(value) <= LARGEST_VALUE for value in (left, right))  # false for what is not a number
    both_huge = abs(left) == abs(right) == LARGEST_VALUE
    return (left, right) if finite and not both_huge else None


def _number(value: Any) -> complex:
    """A value as a complex number; one that is finite and too large for it counts as very large."""
    if value.is_finite and value.is_real and abs(value) > LARGEST_VALUE:
        return complex(LARGEST_VALUE)
    return complex(value)
