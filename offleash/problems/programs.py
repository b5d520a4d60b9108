"""What each benchmark of programs makes of a row: how a program is called, and its tests."""

from collections.abc import Callable
from datetime import date, datetime

from offleash.errors import OffleashError
from offleash.files.problems_rows import shown
from offleash.problems.benchmark import Derived, Fields, Keep, Row
from offleash.problems.values import structured, text_of


def humaneval(fields: Fields, row: Row) -> Derived:
    """HumanEval: the function's head is the question, the canonical solution its body, `check` the test."""
    test, entry = _needed(row, "test"), _needed(row, "entry_point")
    details = {"kind": "check", "prompt": fields.question, "test": test, "entry_point": entry}
    return Derived(fields.question, fields.gold and fields.question + fields.gold, details)


def mbpp(fields: Fields, row: Row) -> Derived:
    """MBPP: a description, and assertions of which the first is shown, as its authors do (arXiv:2108.07732)."""
    tests = structured(row.get("test_list"))
    if not isinstance(tests, list) or not tests:
        raise OffleashError(f"test_list is {shown(tests)}, not a list of assertions.")
    imports = structured(row.get("test_imports"))
    setup = text_of(row.get("test_setup_code"), "test_setup_code") or ""
    setup = "\n".join([*(str(one) for one in imports if one), setup]) if isinstance(imports, list) else setup
    details = {"kind": "asserts", "setup": setup.strip(), "tests": [str(one) for one in tests]}
    return Derived(fields.question, fields.gold, details)


def livecodebench(fields: Fields, row: Row) -> Derived:
    """LiveCodeBench: public tests as they are, private tests still encoded; the verifier decodes them."""
    return _contest(fields, row, text_of(row.get("starter_code"), "starter_code"), row.get("metadata"))


def livebench_coding(fields: Fields, row: Row) -> Derived:
    """LiveBench coding: contest problems, half of them with the first lines of a program to be continued."""
    original = row.get("original_json")
    metadata = original.get("metadata") if isinstance(original, dict) else None
    made = _contest(fields, row, None, metadata)
    partial = text_of(row.get("partial_solution"), "partial_solution")
    details = {**made.details, **({"partial": partial} if partial else {})}
    return Derived(fields.question, None, details, prompt="plain")  # the question says itself how to answer


def dated(first: str, before: str) -> Keep:
    """Keeps contests of a window of days; rows without a date are a copy that was cut to it already."""

    def keep(row: Row) -> bool:
        found = row.get("contest_date")
        if found is None:
            return True
        day = found.isoformat() if isinstance(found, date | datetime) else str(found)
        return first <= day[:10] < before

    return keep


def of_tasks(*tasks: str) -> Callable[[Row], bool]:
    """Keeps rows of the named tasks; rows without a task are a copy that was cut to them already."""

    def keep(row: Row) -> bool:
        return row.get("task") is None or row.get("task") in tasks

    return keep


def _contest(fields: Fields, row: Row, starter: str | None, metadata: object) -> Derived:
    public = structured(row.get("public_test_cases"))
    private = text_of(row.get("private_test_cases"), "private_test_cases")
    if not isinstance(public, list) or not all(isinstance(test, dict) for test in public):
        raise OffleashError(f"public_test_cases is {shown(public)}, not a list of tests.")
    if not public and not private:
        raise OffleashError("it has neither public_test_cases nor private_test_cases.")
    about = structured(metadata)
    entry = about.get("func_name") if isinstance(about, dict) else None
    called = bool(entry) or any(test.get("testtype") == "functional" for test in public)
    if called and not entry:
        raise OffleashError("its tests call a function, and metadata has no func_name.")
    details: dict[str, object] = {
        "kind": "call" if called else "stdin",
        "tests": [{"input": test.get("input"), "output": test.get("output")} for test in public],
        **({"entry_point": entry} if called else {}),
        **({"private": private} if private else {}),
        **({"starter": starter} if starter else {}),
    }
    return Derived(fields.question, None, details, prompt="starter" if starter else "stdin")


def _needed(row: Row, column: str) -> str:
    value = text_of(row.get(column), column)
    if value is None:
        raise OffleashError(f"it has no {column}. Give the benchmark's own file, with its tests.")
    return value
