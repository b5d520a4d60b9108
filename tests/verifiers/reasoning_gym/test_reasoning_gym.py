"""Reasoning Gym verdicts: gold accepted, garbage refused, nothing evaluated that a model may have meant as code."""

import ast
import json
import subprocess
import sys
import time
import warnings
from functools import cache
from pathlib import Path
from typing import Any, cast

import pytest

from offleash.data.reasoning_gym import TASKS, decode_value, encode_value
from offleash.data.verdict import Verdict
from offleash.problems.reasoning_gym import TASKS_WITHOUT_GOLD, _rows
from offleash.verifiers.verifier import Case, Judgement
from tests.verifiers.reasoning_gym.gym_solvers import SOLVERS

pytest.importorskip("reasoning_gym")

from offleash.verifiers.reasoning_gym import decide as verifier
from offleash.verifiers.reasoning_gym.scorer import decide, scorer_of
from tests.places import SHARED_DATA

GALLERY = SHARED_DATA / "bench" / "reasoning_gym_gallery.jsonl"
GARBAGE = ["garbage", "None", "the answer is 7, or perhaps 8", "[]", "{}", "...", "nan", "", " "]
EVALUATED = (
    "string_insertion spiral_matrix binary_matrix n_queens countdown puzzle24 simple_integration "
    "intermediate_integration polynomial_multiplication"
)
SLOW = {"sokoban", "zebra_puzzles", "futoshiki", "jugs", "knight_swap", "puzzle24"}  # a second or more to draw


@cache
def cases(task: str, size: int = 1, level: str = "easy", seed: int = 1) -> list[Case]:
    """Problems of a task as cases without an answer, drawn in this process: verdicts do not care about the order."""
    return [
        Case("", row["gold"], str(row["question"]), json.loads(str(row["details"])))
        for row in _rows(task, size, seed, level)
    ]


def entry(case: Case) -> dict[str, Any]:
    return cast(dict[str, Any], decode_value(cast(dict[str, Any], case.details)["entry"]))


def judged(case: Case, answer: str) -> Judgement:
    return decide(Case(answer, case.gold, case.question, case.details))


def right_answer(case: Case) -> str:
    return SOLVERS[str(case.details["task"])](entry(case)) if case.gold is None else case.gold


@pytest.mark.parametrize("task", TASKS)
def test_a_right_answer_is_accepted_and_garbage_refused(task: str) -> None:
    for case in cases(task, 1 if task in SLOW else 3):
        assert verifier.readable(case) == ""
        right = judged(case, right_answer(case))
        assert right.verdict is Verdict.CORRECT, right.reason
        assert right.score is not None
        assert right.score >= 0.99
        for garbage in GARBAGE:
            assert judged(case, garbage).verdict is Verdict.WRONG or garbage.strip() == case.gold


@pytest.mark.slow
@pytest.mark.parametrize("level", ["easy", "hard"])
@pytest.mark.parametrize("task", TASKS)
def test_many_right_answers_are_accepted_and_much_garbage_refused(task: str, level: str) -> None:
    drawn = cases(task, 2 if task in SLOW else 12, level, seed=9)
    for case in drawn:
        if (task, level) != ("rush_hour", "hard"):  # a search of millions of boards
            assert judged(case, right_answer(case)).verdict is Verdict.CORRECT
        corrupted = [f"{case.gold} or 12345", f"not {case.gold}", f"{case.gold}, 12345", case.question[:5000]]
        for garbage in [*GARBAGE, *(corrupted if case.gold else [])]:
            assert judged(case, garbage).verdict is Verdict.WRONG or garbage.strip() == case.gold


@pytest.mark.parametrize("task", TASKS)
def test_an_entry_scores_the_same_after_json(task: str) -> None:
    import reasoning_gym

    dataset_class, config_class = reasoning_gym.factory.DATASETS[task]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # a file that the library leaves open
        dataset = dataset_class(config_class(seed=4, size=1))
        made = dataset[0]
    kept = decode_value(json.loads(json.dumps(encode_value(made))))
    assert kept == made
    scorer = scorer_of(task, cast(Any, decode_value(cast(Any, cases(task)[0].details["config"]))))
    for answer in [made["answer"] or "[]", "0", "1, 2"]:
        try:
            before: object = dataset.score_answer(answer, made)
        except Exception as trouble:
            before = type(trouble)
        try:
            after: object = scorer.score_answer(answer, kept)
        except Exception as trouble:
            after = type(trouble)
        assert before == after


def test_the_gallery_of_the_library_is_accepted() -> None:
    if not GALLERY.exists():
        pytest.skip("the gallery is not beside the project")
    refused = []
    for line in GALLERY.read_text("utf-8").splitlines():
        row = json.loads(line)
        details = {"task": row["task"], "metadata": encode_value(ast.literal_eval(row["metadata"]))}
        result = decide(Case(row["answer"], row["answer"], row["problem"], details))
        if (result.verdict is Verdict.CORRECT) == (
            row["task"] in TASKS_WITHOUT_GOLD
        ):  # those have "None" for an answer
            refused.append((row["id"], result))
    assert refused == []


@pytest.mark.parametrize(
    ("task", "answer"),
    [
        ("game_of_life_halting", "garbage"),
        ("complex_arithmetic", "nan"),
        ("coin_flip", "0"),
        ("puzzle24", "6*4*1*1"),
        ("puzzle24", "(6*4*1*1)+1/9"),
        ("simple_integration", "Integral(x, x)"),
        ("polynomial_multiplication", "expand(x)"),
        ("number_sorting", "[NaN, NaN, NaN]"),
    ],
)
def test_what_a_scorer_would_credit_but_is_no_answer_is_refused(task: str, answer: str) -> None:
    for case in cases(task, 1 if task in SLOW else 6):
        assert judged(case, answer).verdict is Verdict.WRONG


@pytest.mark.parametrize(
    ("task", "tail"),
    [
        ("gsm_symbolic", ", or 12345"),
        ("letter_jumble", " more words"),
        ("word_sorting", ", zebra"),
        ("spell_backward", "x"),
        ("quantum_lock", " because"),
        ("sokoban", " because"),
        ("survo", " because"),
        ("kakurasu", " 7"),
        ("time_intervals", " or 3"),
        ("knights_knaves", " or not"),
        ("fraction_simplification", " + 1"),
        ("modulo_grid", "x"),
        ("codeio", " {}"),
        ("rotate_matrix", "7"),
    ],
)
def test_a_right_answer_with_more_behind_it_is_refused(task: str, tail: str) -> None:
    for case in cases(task, 1 if task in SLOW else 6):
        assert judged(case, f"{case.gold}{tail}").verdict is Verdict.WRONG


def test_nearly_right_numbers_are_refused() -> None:
    by_task = {"calendar_arithmetic": 12, "gsm_symbolic": 6, "time_intervals": 12, "number_sorting": 4}
    for task, size in by_task.items():
        for case in cases(task, size):
            gold = str(case.gold)
            digits = [place for place, mark in enumerate(gold) if mark.isdigit()]
            if digits:
                last = digits[-1]
                changed = gold[:last] + str((int(gold[last]) + 1) % 10) + gold[last + 1 :]
                assert judged(case, changed).verdict is Verdict.WRONG, (gold, changed)


def test_the_integral_of_the_question_is_not_an_answer() -> None:
    for case in cases("simple_integration", 4):
        metadata = entry(case)["metadata"]
        echo = f"Integral({metadata['integrand']}, {metadata['variable']})"
        assert judged(case, echo).verdict is Verdict.WRONG


@pytest.mark.parametrize("task", EVALUATED.split())
def test_code_and_bombs_are_wrong_at_once_and_never_run(task: str, tmp_path: Path) -> None:
    case, mark = cases(task)[0], tmp_path / "mark"
    bombs = [
        f"__import__('pathlib').Path({str(mark)!r}).touch()",
        f"[__import__('pathlib').Path({str(mark)!r}).touch()]",
        f"[x for x in [open({str(mark)!r}, 'w')]]",
        "9**9**9**9",
        "[9**9**9**9]",
        "factorial(10**9)",
        "(" * 5000 + "1" + ")" * 5000,
        "[" * 50_000,
        "1+" * 50_000 + "1",
        "9" * 10_000_000,
        "(lambda f: f(f))(lambda f: f(f))",
    ]
    start = time.process_time()
    for bomb in bombs:
        assert judged(case, bomb).verdict is Verdict.WRONG
    assert not mark.exists()
    assert time.process_time() - start < 5


@pytest.mark.parametrize("task", TASKS)
def test_hostile_text_is_decided_at_once(task: str) -> None:
    case = cases(task)[0]
    bombs = ["1e999999999", "[" * 30_000, "R999999999", "A+999999999 B-999999999", "¬" * 3000 + "P", "a∧" * 900 + "b"]
    start = time.process_time()
    for bomb in [*bombs, "{" * 30_000, '[{"Agent[0.5, 0.5]": "move(' + ", " * 30_000 + '"}]', "7, " * 30_000]:
        assert judged(case, bomb).verdict is not Verdict.CORRECT
    assert time.process_time() - start < 5


@pytest.mark.parametrize("task", ["prime_factorization", "game_of_life"])
def test_a_scorer_that_stumbles_over_a_text_calls_it_wrong(task: str) -> None:
    result = judged(cases(task)[0], '{"a": 1}')
    assert result.verdict is Verdict.WRONG
    assert "could not read it" in result.reason


@pytest.mark.parametrize("trouble", [MemoryError, RecursionError, OSError])
def test_a_scorer_that_gives_up_has_failed(trouble: type[Exception], monkeypatch: pytest.MonkeyPatch) -> None:
    import reasoning_gym

    def broken(self: object, answer: str, entry: object) -> float:
        raise trouble

    monkeypatch.setattr(reasoning_gym.factory.DATASETS["gcd"][0], "score_answer", broken)
    assert judged(cases("gcd")[0], "1").verdict is Verdict.FAILED


def written(task: str, gold: str) -> str:
    """The gold answer as a model writes it in LaTeX or Markdown."""
    upper, _, lower = gold.partition("/")
    return {
        "dice": rf"\dfrac{{{upper}}}{{{lower}}}",
        "prime_factorization": gold.replace("×", r"\times"),
        "jugs": f"```json\n{gold}\n```",
        "gcd": rf"$\boxed{{}}${gold}".replace(r"$\boxed{}$", "") + ".",
        "color_cube_rotation": rf"\text{{{gold}}}",
        "countdown": gold.replace("*", "×").replace("-", "−"),
        "products": rf"\({gold}\)",
    }[task]


@pytest.mark.parametrize(
    "task", ["dice", "prime_factorization", "jugs", "gcd", "color_cube_rotation", "countdown", "products"]
)
def test_a_right_answer_in_another_writing_is_accepted(task: str) -> None:
    for case in cases(task, 1 if task in SLOW else 3):
        assert judged(case, written(task, str(case.gold))).verdict is Verdict.CORRECT


def test_graded_scores_are_kept() -> None:
    case = cases("rectangle_count")[0]
    near = judged(case, str(int(str(case.gold)) + 1))
    assert near.verdict is Verdict.WRONG
    assert near.score is not None
    assert 0 < near.score < 0.99


def test_two_writings_of_one_countdown_share_their_solution() -> None:
    case = cases("countdown")[0]
    first, other = judged(case, str(case.gold)), judged(case, f"({case.gold})")
    assert first.solution == other.solution
    assert first.solution is not None


def test_the_verifier_decides_by_the_scorer() -> None:
    assert verifier.decide is decide
    with pytest.raises(AttributeError, match="decided"):
        _ = verifier.decided


def test_reading_the_details_does_not_load_the_library() -> None:
    program = (
        "import sys; sys.modules['reasoning_gym'] = None\n"
        "from offleash.verifiers.verifier import Case\n"
        "from offleash.verifiers.reasoning_gym import decide as reasoning_gym\n"
        "print(reasoning_gym.readable(Case('', '1', '?', {'task': 'gcd'})) == '', 'sympy' in sys.modules)\n"
        "try: reasoning_gym.decide\n"
        "except ModuleNotFoundError as missing: print(missing.name)"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert done.stdout.split() == ["True", "False", "reasoning_gym.factory"]


@pytest.mark.parametrize(
    ("details", "why"),
    [
        ({}, "must name a Reasoning Gym task; found None"),
        ({"task": "legs"}, "found 'legs'"),
        ({"task": "composite"}, "found 'composite'"),
        ({"task": "gcd", "entry": {"question": "?"}}, "must hold question, answer and metadata"),
        ({"task": "gcd", "entry": {"question": "?", "answer": 3, "metadata": {}}}, "its answer a string"),
        ({"task": "gcd", "entry": {"!": "code", "of": ""}}, "type 'code'"),
        ({"task": "gcd", "config": 3}, "config in details must be an object"),
    ],
)
def test_details_that_cannot_be_used_are_named(details: dict[str, object], why: str) -> None:
    case = Case("1", "1", "?", details)
    assert why in verifier.readable(case)
    assert decide(case).verdict is Verdict.FAILED
