"""Derivations: what each benchmark makes of a row, as question, gold answer, details, and verifier if it differs.

A derivation takes `Fields` (question and gold answer as text) and the whole row, and returns `Derived`. What it leaves
None comes from the entry of the benchmark. Errors say what is wrong; the reader adds the row.

>>> from offleash.problems.problem import Fields
>>> whole_number(Fields("How many?", "073"), {}).gold
'73'
>>> hashes(Fields("How much?", "8 * 150 = 1200 #### 1,200"), {}).gold
'1200'
"""

import re
from collections.abc import Callable
from datetime import date, datetime

from offleash.errors import OffleashError
from offleash.files.rows import shown
from offleash.problems.problem import Derived, Fields, KeepRow, Row
from offleash.problems.read import (
    after_hashes,
    choices_of,
    last_boxed,
    letter,
    parse_json_text,
    text_of,
    without_thousands,
)

# A whole number as competitions write it: in dollars, with .0, or in degrees. 400 digits, below the limit of int().
WHOLE_NUMBER = re.compile(r"\$?\s*([+-]?\d{1,400})(?:\.0*)?\s*(?:\^\s*\{?\s*\\circ\s*\}?)?\s*\$?")
# LiveBench web_of_lies_v2: "yes, no, yes".
YES_NO_LIST = re.compile(r"(yes|no)(,\s*(yes|no))+", re.IGNORECASE)


def unchanged_fields(fields: Fields, row: Row) -> Derived:
    """Question and gold answer unchanged."""
    return Derived(fields.question, fields.gold)


def whole_number(fields: Fields, row: Row) -> Derived:
    """Competition answers are whole numbers: 073 is 73, 27.0 is 27, 336^\\circ is 336."""
    match = WHOLE_NUMBER.fullmatch(fields.gold.strip()) if fields.gold else None
    return Derived(fields.question, str(int(match[1])) if match else fields.gold)


def hashes(fields: Fields, row: Row) -> Derived:
    """GSM8K: what follows `####`, without the commas between thousands."""
    gold = fields.gold and (after_hashes(fields.gold) or fields.gold)
    return Derived(fields.question, gold and without_thousands(gold.strip().removeprefix("$")))


def boxed(fields: Fields, row: Row) -> Derived:
    """MATH: the answer, else what the solution boxes last."""
    solution = text_of(row.get("solution"), "solution")
    return Derived(fields.question, fields.gold or (last_boxed(solution) if solution else None))


def olympiad(fields: Fields, row: Row) -> Derived:
    """OlympiadBench: some questions need the context that is in a column of its own."""
    context = text_of(row.get("context"), "context")
    return Derived(f"{context}\n{fields.question}" if context else fields.question, fields.gold)


def scientific(fields: Fields, row: Row) -> Derived:
    """SciBench: a number in a unit, judged within 5% as its authors do (arXiv:2307.10635)."""
    gold = fields.gold and without_thousands(fields.gold.strip().replace("\u2212", "-"))  # a typographic minus
    unit = text_of(row.get("unit"), "unit")
    return Derived(fields.question, gold, {"unit": unit.strip() if unit else "", "relative": 0.05})


def livebench(fields: Fields, row: Row) -> Derived:
    """LiveBench: the first turn is the question; three answers of yes or no can be guessed one time in eight."""
    gold = fields.gold and fields.gold.strip()
    yes_no = YES_NO_LIST.fullmatch(gold) if gold else None
    return Derived(fields.question, gold, guess=0.5 ** (gold.count(",") + 1) if gold and yes_no else None)


def mathvista(fields: Fields, row: Row) -> Derived:
    """MathVista: a choice by its text, a whole number, a number to so many decimals, or a list."""
    choices = choices_of(row.get("choices"))
    unit = text_of(row.get("unit"), "unit")
    if choices:
        return _choice(fields, choices)
    kind = str(row.get("answer_type") or "")
    if kind == "float":
        decimals = row.get("precision")
        # `precision` decimals are asked for: an answer that rounds to the gold is right.
        tolerance = 0.5 * 10.0 ** -int(decimals) if isinstance(decimals, int | float) else 0.0
        return Derived(
            fields.question, fields.gold, {"unit": unit or "", "absolute": tolerance}, "number", prompt="number"
        )
    if kind == "text":
        return Derived(fields.question, fields.gold, verifier="string", prompt="boxed")
    return Derived(fields.question, fields.gold, prompt="boxed")


def mathvision(fields: Fields, row: Row) -> Derived:
    """MATH-Vision: a letter where there are options, else an expression."""
    choices = choices_of(row.get("options"))
    return _choice(fields, choices) if choices else Derived(fields.question, fields.gold, prompt="boxed")


def _choice(fields: Fields, choices: tuple[str, ...]) -> Derived:
    """A question with options: the gold becomes a letter, and a blind guess is right once in so many."""
    correct_letter = letter(fields.gold, None, choices)
    if correct_letter is None:
        raise OffleashError(
            f"the row has the choices {shown(list(choices))} but no answer. Fill in the correct letter or text."
        )
    return Derived(fields.question, correct_letter, {"choices": list(choices)}, "choice", 1 / len(choices), "choice")


# Code benchmarks: how a program is called, and its tests.


def humaneval(fields: Fields, row: Row) -> Derived:
    """HumanEval: the function's head is the question, the canonical solution its body, `check` the test."""
    test, entry = _required_text(row, "test"), _required_text(row, "entry_point")
    details = {"kind": "check", "prompt": fields.question, "test": test, "entry_point": entry}
    return Derived(fields.question, fields.gold and fields.question + fields.gold, details)


def mbpp(fields: Fields, row: Row) -> Derived:
    """MBPP: a description, and assertions of which the first is shown, as its authors do (arXiv:2108.07732)."""
    tests = parse_json_text(row.get("test_list"))
    if not isinstance(tests, list) or not tests:
        raise OffleashError(f"test_list is {shown(tests)}, not a list of assertions.")
    imports = parse_json_text(row.get("test_imports"))
    setup = text_of(row.get("test_setup_code"), "test_setup_code") or ""
    setup = "\n".join([*(str(line) for line in imports if line), setup]) if isinstance(imports, list) else setup
    details = {"kind": "asserts", "setup": setup.strip(), "tests": [str(line) for line in tests]}
    return Derived(fields.question, fields.gold, details)


def livecodebench(fields: Fields, row: Row) -> Derived:
    """LiveCodeBench: public tests as they are, private tests still encoded; the verifier decodes them."""
    return _contest(fields, row, text_of(row.get("starter_code"), "starter_code"), row.get("metadata"))


def livebench_coding(fields: Fields, row: Row) -> Derived:
    """LiveBench coding: contest problems, half of them with the first lines of a program to be continued."""
    original = row.get("original_json")
    metadata = original.get("metadata") if isinstance(original, dict) else None
    derived = _contest(fields, row, None, metadata)
    partial = text_of(row.get("partial_solution"), "partial_solution")
    details = {**derived.details, **({"partial": partial} if partial else {})}
    return Derived(fields.question, None, details, prompt="plain")  # the question already says how to answer


def released_between(first: str, before: str) -> KeepRow:
    """Keeps contests from the day `first` to the day before `before`, both in ISO form.

    Rows without a date are kept: they are of a copy that was cut to the window already.
    """

    def keep(row: Row) -> bool:
        contest_date = row.get("contest_date")
        if contest_date is None:
            return True
        day = contest_date.isoformat() if isinstance(contest_date, date | datetime) else str(contest_date)
        return first <= day[:10] < before

    return keep


def has_task(*tasks: str) -> Callable[[Row], bool]:
    """Keeps rows of the named tasks; rows without a task are of a copy that was cut to them already."""

    def keep(row: Row) -> bool:
        return row.get("task") is None or row.get("task") in tasks

    return keep


def _contest(fields: Fields, row: Row, starter: str | None, metadata: object) -> Derived:
    """A contest problem: tests by standard input, or by calls of the function that the metadata names."""
    public = parse_json_text(row.get("public_test_cases"))
    private = text_of(row.get("private_test_cases"), "private_test_cases")
    if not isinstance(public, list) or not all(isinstance(test, dict) for test in public):
        raise OffleashError(f"public_test_cases is {shown(public)}, not a list of tests.")
    if not public and not private:
        raise OffleashError("it has neither public_test_cases nor private_test_cases.")
    about = parse_json_text(metadata)
    entry = about.get("func_name") if isinstance(about, dict) else None
    calls_function = bool(entry) or any(test.get("testtype") == "functional" for test in public)
    if calls_function and not entry:
        raise OffleashError("its tests call a function, but metadata has no func_name.")
    details: dict[str, object] = {
        "kind": "call" if calls_function else "stdin",
        "tests": [{"input": test.get("input"), "output": test.get("output")} for test in public],
        **({"entry_point": entry} if calls_function else {}),
        **({"private": private} if private else {}),
        **({"starter": starter} if starter else {}),
    }
    return Derived(fields.question, None, details, prompt="starter" if starter else "stdin")


def _required_text(row: Row, column: str) -> str:
    """A column without which nothing can be judged."""
    value = text_of(row.get(column), column)
    if value is None:
        raise OffleashError(f"it has no {column}. Give the benchmark's own file, with its tests.")
    return value
