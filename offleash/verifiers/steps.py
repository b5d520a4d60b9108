"""Plain steps of whole numbers, `3 + 5 = 8 , 8 * 2 = 16`: judged in a fraction of the time that reading takes."""

import re
from fractions import Fraction

from offleash.data.verdict import Verdict
from offleash.verifiers.arithmetic import Tree, canonical
from offleash.verifiers.verifier import Case, Judgement

LONGEST_STEPS, MOST = 1_000, 20  # characters of an answer that is looked at, and numbers
_STEP = re.compile(r"\s?([0-9]{1,9}) ?([-+*/]) ?([0-9]{1,9}) ?= ?([0-9]{1,9})\s?")


def decide_steps(case: Case) -> Judgement | None:
    """The judgement of plain steps, to the word that of the countdown verifier; None: it must be asked."""
    numbers, target = case.details.get("numbers"), case.details.get("target")
    if not isinstance(numbers, list) or not isinstance(target, int) or not _plain(case, numbers, target):
        return None
    steps = [_STEP.fullmatch(part) for part in case.answer.split(",")]
    if None in steps:
        return None
    given, results, made, value = list(numbers), list[int](), list[Tree](), 0
    for step in steps:
        assert step is not None
        left, sign, right, stated = int(step[1]), step[2], int(step[3]), int(step[4])
        operands: list[Tree] = []
        for number in (left, right):
            if number in results:
                place = results.index(number)
                del results[place]
                operands.append(made.pop(place))
            elif number in given:
                given.remove(number)
                operands.append(Fraction(number))
            else:
                how = "is used more often than it is given" if number in numbers else "is not among the numbers"
                return Judgement(Verdict.WRONG, f"{number} {how}")
        if sign == "/":
            if not right or left % right:
                return None
            value = left // right
        else:
            value = left + right if sign == "+" else left - right if sign == "-" else left * right
        if value != stated:
            return Judgement(Verdict.WRONG, f"{value} is stated to be {stated}") if len(steps) > 1 else None
        results.append(value)
        made.append((sign, tuple(operands)))
    if value != target:
        return Judgement(Verdict.WRONG, f"it makes {value}, not {target}")
    whole = not given and len(made) == 1  # else it depends on whether all numbers must be used
    return Judgement(Verdict.CORRECT, solution=canonical(made[0])) if whole else None


def _plain(case: Case, numbers: list[object], target: int) -> bool:
    """Whether the details are as they should be, and the answer short: whatever else there is, the verifier tells."""
    kinds = {type(one) for one in (*numbers, target)}
    switches = (case.details.get(name, True) for name in ("all", "integers"))
    sizes = 0 < len(numbers) <= MOST and 0 < len(case.answer) <= LONGEST_STEPS
    return sizes and kinds == {int} and all(isinstance(switch, bool) for switch in switches)
