"""Plain steps of whole numbers, `3 + 5 = 8 , 8 * 2 = 16`: found wrong in a fraction of the time that reading takes."""

import re

from offleash.tables.verdict import Verdict
from offleash.verifiers.judgement import Case, Judgement

LONGEST, MOST = 1_000, 20  # characters of an answer that is looked at, and numbers
_STEP = re.compile(r"\s?([0-9]{1,9}) ?([-+*/]) ?([0-9]{1,9}) ?= ?([0-9]{1,9})\s?")


def found_wrong(case: Case) -> Judgement | None:
    """The judgement of steps that are surely wrong, in the words of the countdown verifier; None: it must be asked."""
    numbers, target = case.details.get("numbers"), case.details.get("target")
    if not isinstance(numbers, list) or not isinstance(target, int) or not _plain(case, numbers, target):
        return None
    steps = [_STEP.fullmatch(part) for part in case.answer.split(",")]
    if None in steps:
        return None
    given, results, value = list(numbers), list[int](), 0
    for step in steps:
        assert step is not None
        left, right, stated = int(step[1]), int(step[3]), int(step[4])
        for number in (left, right):
            if number in results:
                results.remove(number)
            elif number in given:
                given.remove(number)
            else:
                how = "is used more often than it is given" if number in numbers else "is not among the numbers"
                return Judgement(Verdict.WRONG, f"{number} {how}")
        if step[2] == "/":
            if not right or left % right:
                return None
            value = left // right
        else:
            value = left + right if step[2] == "+" else left - right if step[2] == "-" else left * right
        if value != stated:
            return Judgement(Verdict.WRONG, f"{value} is stated to be {stated}") if len(steps) > 1 else None
        results.append(value)
    return Judgement(Verdict.WRONG, f"it makes {value}, not {target}") if value != target else None


def _plain(case: Case, numbers: list[object], target: int) -> bool:
    """Whether the details are as they should be, and the answer short: whatever else there is, the verifier tells."""
    kinds = {type(one) for one in (*numbers, target)}
    switches = (case.details.get(name, True) for name in ("all", "integers"))
    sizes = 0 < len(numbers) <= MOST and 0 < len(case.answer) <= LONGEST
    return sizes and kinds == {int} and all(isinstance(switch, bool) for switch in switches)
