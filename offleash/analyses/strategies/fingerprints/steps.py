"""The fingerprint `steps`: what a worked text computes, whatever words, order and notation it uses.

Its equations are put into each other (`16-3=13, 13*2=26` is `(16-3)*2`), so that neither the size of the steps nor the
order of those that do not rest on each other counts. The way is the expression that makes the answer; where the answer
is no number or no equation makes it, all that was computed. Order and grouping of sums and products do not count.
"""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction

from offleash.analyses.strategies.fingerprints.fingerprint import Asked, short
from offleash.analyses.strategies.fingerprints.formulas import Step, number_in, steps_of
from offleash.verifiers.arithmetic import Tree, canonical, leaves
from offleash.verifiers.extraction.extract import THOUGHT

HUNDRED = Fraction(100)
LARGEST = 60  # numbers of an expression into which steps are put
_NUMBER = re.compile(r"[0-9][0-9,]*(?:\.[0-9]+)?")


def way(asked: Asked, text: str) -> str | None:
    """The expression that makes the answer, in one writing; None where the text holds no equation."""
    said = text.rpartition(THOUGHT)[2]
    steps = steps_of(said) or (steps_of(text) if said != text else [])
    if not steps:
        return None
    made = _composed(steps, _given(asked.question))
    gold = number_in(asked.gold)
    final = next((one for one in reversed(made) if one.value == gold), None)
    roots = [final] if final is not None else [one for one in made if not one.used]
    return short("; ".join(sorted({canonical(_plain(one.tree)) for one in roots})))


@dataclass
class _Made:
    """A step with the steps it rests on put into it."""

    tree: Tree
    value: Fraction
    used: bool = False


def _composed(steps: Sequence[Step], given: frozenset[Fraction]) -> list[_Made]:
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
