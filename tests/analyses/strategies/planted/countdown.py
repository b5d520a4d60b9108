"""Planted pairs for the fingerprint `countdown`: one tree written in two ways, and two trees that differ."""

from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction

import numpy as np

from offleash.analyses.strategies.fingerprints.fingerprint import SolvedProblem
from tests.analyses.strategies.planted.pair import Pair

COUNT = 60  # pairs of each kind


@dataclass(frozen=True)
class Made:
    """A number and how it was made: given, or by an operation of two others."""

    value: Fraction
    sign: str = ""
    of: "tuple[Made, Made] | None" = None


def planted_countdown(seed: int = 0) -> list[Pair]:
    """Pairs that must merge, then pairs that must not; the same seed gives the same pairs."""
    rng = np.random.default_rng([seed, 11])
    same, different = list[Pair](), list[Pair]()
    while len(same) < COUNT or len(different) < COUNT:
        numbers = [int(one) for one in rng.choice(np.arange(2, 26), size=4, replace=False)]
        by_target = _all_ways(numbers)
        for target in (int(one) for one in rng.choice(sorted(by_target), size=6, replace=False)):
            trees = by_target[target]
            asked = SolvedProblem(f"countdown-{len(same)}", details={"numbers": numbers, "target": target, "all": True})
            one, other = (trees[int(place)] for place in rng.integers(len(trees), size=2))
            if len(same) < COUNT:
                first, second = rng.choice(len(WRITINGS), size=2, replace=False)
                a, b = (WRITINGS[int(place)](one, target, rng) for place in (first, second))
                same.append(Pair("countdown", True, asked, a, b, "one tree in two writings"))
            if len(different) < COUNT and _differ(one, other):
                a, b = (WRITINGS[int(rng.integers(len(WRITINGS)))](tree, target, rng) for tree in (one, other))
                different.append(Pair("countdown", False, asked, a, b, "two functions of the same numbers"))
    return same + different


def _all_ways(numbers: list[int]) -> dict[int, list[Made]]:
    """A few thousand trees over all numbers, by the whole number from 1 to 100 that they make."""
    found: dict[int, list[Made]] = {}
    held = [[Made(Fraction(number)) for number in numbers]]
    while held:
        left = held.pop()
        if len(left) == 1:
            value = left[0].value
            if value.denominator == 1 and 1 <= value <= 100:
                found.setdefault(int(value), []).append(left[0])
            continue
        for a in range(len(left)):
            for b in range(len(left)):
                if a == b:
                    continue
                rest = [one for place, one in enumerate(left) if place not in (a, b)]
                held += [[*rest, made] for made in _made(left[a], left[b], ordered=a < b)]
    return {value: trees for value, trees in found.items() if len(trees) > 1}


def _made(left: Made, right: Made, ordered: bool) -> list[Made]:
    out = []
    if ordered:
        out += [Made(left.value + right.value, "+", (left, right)), Made(left.value * right.value, "*", (left, right))]
    if left.value > right.value:
        out.append(Made(left.value - right.value, "-", (left, right)))
    if right.value and (left.value / right.value).denominator == 1:
        out.append(Made(left.value / right.value, "/", (left, right)))
    return out


def _differ(one: Made, other: Made) -> bool:
    """Whether two trees are different functions of their numbers: they are tried at numbers of no meaning."""
    rng = np.random.default_rng(5)
    instead = {number: float(rng.uniform(1, 2)) for number in range(1, 101)}
    return abs(_tried(one, instead) - _tried(other, instead)) > 1e-9


def _tried(tree: Made, instead: dict[int, float]) -> float:
    if tree.of is None:
        return instead[int(tree.value)]
    left, right = (_tried(one, instead) for one in tree.of)
    if tree.sign in "+-":
        return left + right if tree.sign == "+" else left - right
    return left * right if tree.sign == "*" else left / right


def _steps(tree: Made, swap: np.random.Generator | None = None) -> list[str]:
    """Its steps, each after those it rests on; with `swap`, operands that commute are swapped at random."""
    if tree.of is None:
        return []
    left, right = tree.of
    if swap is not None and tree.sign in "+*" and swap.random() < 0.5:
        left, right = right, left
    parts = [left, right] if swap is None or swap.random() < 0.5 else [right, left]
    before = [step for part in parts for step in _steps(part, swap)]
    return [*before, f"{left.value} {tree.sign} {right.value} = {tree.value}"]


def _nested(tree: Made) -> str:
    if tree.of is None:
        return str(tree.value)
    return f"({_nested(tree.of[0])} {tree.sign} {_nested(tree.of[1])})"


def _line(tree: Made, target: int, rng: np.random.Generator) -> str:
    return ", ".join(_steps(tree, rng))


def _lines(tree: Made, target: int, rng: np.random.Generator) -> str:
    return "<think>some numbers</think>\n" + "\n".join(_steps(tree, rng))


def _expression(tree: Made, target: int, rng: np.random.Generator) -> str:
    return f"<answer>{_nested(tree)[1:-1]} = {target}</answer>"


def _boxed(tree: Made, target: int, rng: np.random.Generator) -> str:
    latex = _nested(tree).replace("*", "\\times").replace("/", "\\div")
    return f"I combine them.\n\\boxed{{{latex}}}"


def _signs(tree: Made, target: int, rng: np.random.Generator) -> str:
    return "; ".join(_steps(tree)).replace("*", "×").replace("/", "÷").replace("-", "−")


WRITINGS: tuple[Callable[[Made, int, np.random.Generator], str], ...] = (_line, _lines, _expression, _boxed, _signs)
