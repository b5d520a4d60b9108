"""`program` on HumanEval's own solutions: all are correct, corrupted ones are not."""

import json
from collections.abc import Iterator

import pytest

from offleash.data.verdict import Verdict
from offleash.verifiers.registry import VERIFIERS
from offleash.verifiers.sandbox import run
from offleash.verifiers.sandbox.pool import Pool
from offleash.verifiers.verifier import Case
from tests.places import SHARED_DATA

HUMANEVAL = SHARED_DATA / "bench" / "humaneval.jsonl"

pytestmark = pytest.mark.skipif(
    bool(run.unavailable_reason("bwrap") and run.unavailable_reason("namespaces")),
    reason="no sandbox can be built here",
)


def humaneval() -> list[dict[str, str]]:
    if not HUMANEVAL.exists():
        pytest.skip(f"{HUMANEVAL} is not there")
    return [json.loads(line) for line in HUMANEVAL.read_text("utf-8").splitlines()]


def corrupted(solution: str) -> Iterator[str]:
    """Bodies that are wrong: nothing, a constant, and the right value changed."""
    yield "    pass\n"
    yield "    return None\n"
    yield "    def inner():\n" + "\n".join("    " + line for line in solution.splitlines()) + "\n    return [inner()]\n"


def all_judged(rows: list[dict[str, str]]) -> None:
    cases, expected = [], []
    for row in rows:
        details = {"kind": "check", "prompt": row["problem"], "test": row["test"], "entry_point": row["entry_point"]}
        cases += [Case(row["answer"], details=details), Case(row["problem"] + row["answer"], details=details)]
        expected += [Verdict.CORRECT] * 2
        for wrong in corrupted(row["answer"]):
            cases.append(Case(wrong, details=details))
            expected.append(Verdict.WRONG)
    with Pool(2) as pool:
        actual = dict(pool.judge(VERIFIERS["program"], cases))
    odd = {index: actual[index] for index in range(len(cases)) if actual[index].verdict is not expected[index]}
    assert not odd


def test_canonical_solutions_of_humaneval_are_correct_and_corrupted_ones_wrong() -> None:
    rows = humaneval()
    all_judged(
        [row for row in rows if row["entry_point"] in ("find_zero", "decode_cyclic", "decode_shift")] + rows[::40]
    )


@pytest.mark.slow
def test_all_canonical_solutions_of_humaneval_are_correct_and_corrupted_ones_wrong() -> None:
    all_judged(humaneval())
