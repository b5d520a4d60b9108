"""What each benchmark makes of a row: its gold answer, its details, and who judges the exceptions."""

import re

from offleash.errors import OffleashError
from offleash.files.problems_rows import shown
from offleash.problems.benchmark import Derived, Fields, Row
from offleash.problems.boxed import after_hashes, last_boxed, without_thousands
from offleash.problems.values import choices_of, letter, text_of

WHOLE = re.compile(r"\$?\s*([+-]?\d{1,400})(?:\.0*)?\s*(?:\^\s*\{?\s*\\circ\s*\}?)?\s*\$?")
TRUTHS = re.compile(r"(yes|no)(,\s*(yes|no))+", re.IGNORECASE)


def as_given(fields: Fields, row: Row) -> Derived:
    """Question and gold answer as they stand."""
    return Derived(fields.question, fields.gold)


def whole_number(fields: Fields, row: Row) -> Derived:
    """Competition answers are whole numbers: 073 is 73, 27.0 is 27, 336^\\circ is 336."""
    found = WHOLE.fullmatch(fields.gold.strip()) if fields.gold else None
    return Derived(fields.question, str(int(found[1])) if found else fields.gold)


def hashes(fields: Fields, row: Row) -> Derived:
    """GSM8K: what follows `####`, without the commas between thousands."""
    gold = fields.gold and (after_hashes(fields.gold) or fields.gold)
    return Derived(fields.question, gold and without_thousands(gold.strip().removeprefix("$")))


def boxed(fields: Fields, row: Row) -> Derived:
    """MATH: the answer, else what the solution boxes last."""
    solution = text_of(row.get("solution"), "solution")
    return Derived(fields.question, fields.gold or (last_boxed(solution) if solution else None))


def olympiad(fields: Fields, row: Row) -> Derived:
    """OlympiadBench: a context stands before the question."""
    context = text_of(row.get("context"), "context")
    return Derived(f"{context}\n{fields.question}" if context else fields.question, fields.gold)


def scientific(fields: Fields, row: Row) -> Derived:
    """SciBench: a number in a unit, judged within 5% as its authors do (arXiv:2307.10635)."""
    gold = fields.gold and without_thousands(fields.gold.strip().replace("\u2212", "-"))
    unit = text_of(row.get("unit"), "unit")
    return Derived(fields.question, gold, {"unit": unit.strip() if unit else "", "relative": 0.05})


def livebench(fields: Fields, row: Row) -> Derived:
    """LiveBench: the first turn is the question; three answers of yes or no can be guessed one time in eight."""
    gold = fields.gold and fields.gold.strip()
    truths = TRUTHS.fullmatch(gold) if gold else None
    return Derived(fields.question, gold, guess=0.5 ** (gold.count(",") + 1) if gold and truths else None)


def mathvista(fields: Fields, row: Row) -> Derived:
    """MathVista: a choice by its text, a whole number, a number to so many decimals, or a list."""
    choices = choices_of(row.get("choices"))
    unit = text_of(row.get("unit"), "unit")
    if choices:
        return _choice(fields, choices)
    kind = str(row.get("answer_type") or "")
    if kind == "float":
        places = row.get("precision")
        near = 0.5 * 10.0 ** -int(places) if isinstance(places, int | float) else 0.0
        return Derived(fields.question, fields.gold, {"unit": unit or "", "absolute": near}, "number", prompt="number")
    if kind == "text":
        return Derived(fields.question, fields.gold, verifier="string", prompt="boxed")
    return Derived(fields.question, fields.gold, prompt="boxed")


def mathvision(fields: Fields, row: Row) -> Derived:
    """MATH-Vision: a letter where there are options, else an expression."""
    choices = choices_of(row.get("options"))
    return _choice(fields, choices) if choices else Derived(fields.question, fields.gold, prompt="boxed")


def _choice(fields: Fields, choices: tuple[str, ...]) -> Derived:
    right = letter(fields.gold, None, choices)
    if right is None:
        raise OffleashError(f"there is no answer among the choices {shown(list(choices))}.")
    return Derived(fields.question, right, {"choices": list(choices)}, "choice", 1 / len(choices), "choice")
