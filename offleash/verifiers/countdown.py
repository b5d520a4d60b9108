"""Countdown: reach the target from the numbers with + - * /. Every step is checked in exact fractions.

Details: {"numbers": [3, 5, 2], "target": 16}, optionally "all": true (every number exactly once; without it each at
most once) and "integers": true (no intermediate fractions). An answer is one expression, `(3+5)*2` or `(3+5)*2 = 16`,
or steps, one per line or separated by commas or semicolons: `3+5=8, 8*2=16`. Nothing of the text is evaluated by
Python. `decide_steps` is a fast path for plain steps; its judgements are word for word the same.
"""

import re
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from fractions import Fraction

from offleash.data.verdict import Verdict
from offleash.verifiers.arithmetic import NotArithmeticError, Tree, canonical, evaluate, leaves, parse_expression
from offleash.verifiers.repairs import repair_answer
from offleash.verifiers.verifier import Case, Judgement

LONGEST_EXPRESSION = 5_000  # characters of an answer; a solution with twenty numbers has a few hundred
MAX_GIVEN_NUMBERS = 100  # numbers a problem may give
MAX_EQUAL_SIGNS = 10  # equal signs in an answer of one line: (3+5)*2 = 8*2 = 16


def decide(case: Case) -> Judgement:
    """Whether the answer reaches the target by the rules; its solution is its expression in canonical form."""
    if fault := readable(case):
        return Judgement(Verdict.FAILED, fault)
    rules = _rules(case.details)
    try:
        tree = solution_tree(case.answer, rules)
    except NotArithmeticError as error:
        return Judgement(Verdict.WRONG, str(error))
    return Judgement(Verdict.CORRECT, solution=canonical(tree))


def readable(case: Case) -> str:
    """Why the details cannot be used, or nothing; the gold answer, if there is one, is not needed."""
    numbers, target = case.details.get("numbers"), case.details.get("target")
    if not isinstance(numbers, list) or not numbers or not all(_is_whole_number(number) for number in numbers):
        return f"details must hold the numbers, a list of integers; found {numbers!r:.80}"
    if len(numbers) > MAX_GIVEN_NUMBERS:
        return f"details hold {len(numbers)} numbers; the verifier takes up to {MAX_GIVEN_NUMBERS}"
    if not _is_whole_number(target):
        return f"details must hold the target, an integer; found {target!r:.80}"
    for switch in ("all", "integers"):
        if not isinstance(case.details.get(switch, False), bool):
            return f"{switch!r} in details must be true or false; found {case.details[switch]!r:.80}"
    return ""


@dataclass(frozen=True)
class Rules:
    """What an answer must reach, from what."""

    numbers: tuple[int, ...]
    target: int
    all: bool = False  # every number must be used
    integers: bool = False  # no fraction on the way


def solution_tree(answer: str, rules: Rules) -> Tree:
    """The one expression that an answer amounts to, its steps put into each other; an error says what is wrong."""
    text = repair_answer(answer)
    if len(text) > LONGEST_EXPRESSION:
        raise NotArithmeticError(f"{len(text)} characters are too many for a countdown answer")
    parts = [part.strip() for part in re.split("[\n;,]", text) if part.strip()]
    if not parts:
        raise NotArithmeticError("there is no expression")
    available = _AvailableNumbers(Counter(map(Fraction, rules.numbers)))
    steps = [_step(part, number, len(parts)) for number, part in enumerate(parts, start=1)]
    for stated, tree in steps:
        value_tree = available.use_numbers(tree)
        value = evaluate(value_tree, rules.integers)
        if any(other != value for other in stated):
            raise NotArithmeticError(
                f"{_number_text(value)} is claimed to be {_number_text(next(o for o in stated if o != value))}"
            )
        available.results.append((value, value_tree))
    value, value_tree = available.results.pop()
    if value != rules.target:
        raise NotArithmeticError(f"it evaluates to {_number_text(value)}, not {rules.target}")
    if rules.all and (left := Counter(map(Fraction, rules.numbers)) - Counter(leaves(value_tree))):
        raise NotArithmeticError(f"{min(left)} is left over, but all numbers must be used")
    return value_tree


def _step(text: str, number: int, step_count: int) -> tuple[list[Fraction], Tree]:
    """One step: what it is stated to make, and its left side. Only an answer of one step may leave the result out."""
    left, *stated = text.split("=")
    if step_count > 1 and len(stated) != 1:
        raise NotArithmeticError(f"step {number}, {text!r:.60}, does not state one result")
    if len(stated) > MAX_EQUAL_SIGNS:
        raise NotArithmeticError(f"step {number} states {len(stated)} results")
    return [evaluate(parse_expression(part)) for part in stated], parse_expression(left)


@dataclass
class _AvailableNumbers:
    """What may still be used: given numbers, and results of earlier steps with the way in which they were made."""

    given: Counter[Fraction]
    results: list[tuple[Fraction, Tree]] = field(default_factory=list)

    def use_numbers(self, tree: Tree) -> Tree:
        """The tree with earlier results in the place of the numbers that quote them, all taken from the supply.

        Results come before given numbers of the same value: a step is written in order to be used, and the values that
        remain are the same either way. A negative result is quoted with its sign.
        """
        if isinstance(tree, Fraction):
            return self._use(tree)
        operation, arguments = tree
        if operation == "neg" and isinstance(arguments[0], Fraction) and self._quotes(-arguments[0]):
            return self._use(-arguments[0])
        return operation, tuple(self.use_numbers(argument) for argument in arguments)

    def _quotes(self, number: Fraction) -> bool:
        return any(value == number for value, _ in self.results) or self.given[number] > 0

    def _use(self, number: Fraction) -> Tree:
        for index, (value, built) in enumerate(self.results):
            if value == number:
                del self.results[index]
                return built
        if not self.given[number]:
            problem_text = (
                "is not among the numbers" if number not in self.given else "is used more times than it was given"
            )
            raise NotArithmeticError(f"{_number_text(number)} {problem_text}")
        self.given[number] -= 1
        return number


def _rules(details: Mapping[str, object]) -> Rules:
    """The rules of details that `readable` has accepted."""
    numbers, target = details["numbers"], details["target"]
    assert isinstance(numbers, list)
    assert isinstance(target, int)
    return Rules(tuple(numbers), target, details.get("all") is True, details.get("integers") is True)


def _is_whole_number(value: object) -> bool:
    return isinstance(value, int) and not isinstance(value, bool)


def _number_text(value: Fraction) -> str:
    text = str(value)
    return text if len(text) <= 40 else f"a number of {len(text)} digits"


# Fast path: plain steps of whole numbers, `3 + 5 = 8 , 8 * 2 = 16`, judged in a fraction of the time.


MAX_STEPS_CHARACTERS, MAX_STEP_NUMBERS = 1_000, 20  # characters of an answer that is looked at, and numbers
_STEP = re.compile(r"\s?([0-9]{1,9}) ?([-+*/]) ?([0-9]{1,9}) ?= ?([0-9]{1,9})\s?")


def decide_steps(case: Case) -> Judgement | None:
    """The judgement of plain steps, word for word that of `decide`; None where `decide` must be called."""
    numbers, target = case.details.get("numbers"), case.details.get("target")
    if not isinstance(numbers, list) or not isinstance(target, int) or not _plain(case, numbers, target):
        return None
    steps = [_STEP.fullmatch(part) for part in case.answer.split(",")]
    if None in steps:
        return None
    given, results, built, value = list(numbers), list[int](), list[Tree](), 0
    for step in steps:
        assert step is not None
        left, sign, right, stated = int(step[1]), step[2], int(step[3]), int(step[4])
        operands: list[Tree] = []
        for number in (left, right):
            if number in results:
                index = results.index(number)
                del results[index]
                operands.append(built.pop(index))
            elif number in given:
                given.remove(number)
                operands.append(Fraction(number))
            else:
                problem_text = (
                    "is used more times than it was given" if number in numbers else "is not among the numbers"
                )
                return Judgement(Verdict.WRONG, f"{number} {problem_text}")
        if sign == "/":
            if not right or left % right:
                return None
            value = left // right
        else:
            value = left + right if sign == "+" else left - right if sign == "-" else left * right
        if value != stated:
            return Judgement(Verdict.WRONG, f"{value} is claimed to be {stated}") if len(steps) > 1 else None
        results.append(value)
        built.append((sign, tuple(operands)))
    if value != target:
        return Judgement(Verdict.WRONG, f"it evaluates to {value}, not {target}")
    single_result = not given and len(built) == 1  # else it depends on whether all numbers must be used
    return Judgement(Verdict.CORRECT, solution=canonical(built[0])) if single_result else None


def _plain(case: Case, numbers: list[object], target: int) -> bool:
    """Whether the details are well-formed and the answer is short; anything else is left to `decide`."""
    number_types = {type(number) for number in (*numbers, target)}
    switches = (case.details.get(name, True) for name in ("all", "integers"))
    within_limits = 0 < len(numbers) <= MAX_STEP_NUMBERS and 0 < len(case.answer) <= MAX_STEPS_CHARACTERS
    return within_limits and number_types == {int} and all(isinstance(switch, bool) for switch in switches)
