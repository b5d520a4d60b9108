"""Verifiers as rewards of TRL and verl: the values, who may call them from where, and what is refused."""

import asyncio
import inspect
import os
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from offleash.errors import OffleashError
from offleash.options import Judging
from offleash.problems.problem import Problem
from offleash.training import verl
from offleash.training.rewards import RewardJudge, completion_text
from offleash.training.trl import prompt_text, reward
from offleash.training.verl import compute_score

# what the function is called with has no type: TRL passes whatever columns the dataset has
Score = Callable[..., Any]
HALVES = {"prompts": ["What is 1/2?"] * 3, "answer": ["1/2"] * 3}
TEXTS = ["It is \\boxed{0.5}.", "It is \\boxed{2}.", "I do not know."]


@pytest.fixture(scope="module")
def math() -> Score:
    return reward("math", judging=Judging(jobs=1, cache=False))


def test_a_reward_is_one_for_correct_and_zero_for_wrong_and_unread_samples(math: Score) -> None:
    assert math(completions=TEXTS, **HALVES) == [1.0, 0.0, 0.0]
    assert math.__name__ == "math"


def test_messages_count_like_texts(math: Score) -> None:
    prompts = [[{"role": "system", "content": "Think."}, {"role": "user", "content": "What is 1/2?"}]] * 3
    completions = [[{"role": "assistant", "content": text}] for text in TEXTS]
    assert math(prompts=prompts, completions=completions, solution=["1/2"] * 3) == [1.0, 0.0, 0.0]


def test_unread_and_failed_samples_are_worth_what_was_chosen() -> None:
    score: Score = reward("number", unread=None, failed=-1.0)
    given = {"prompts": ["a"] * 3, "answer": ["12", "12", "no number"]}
    assert score(completions=["\\boxed{12}", "nothing", "\\boxed{1}"], **given) == [1.0, None, -1.0]


def test_an_asynchronous_reward_is_a_coroutine_with_the_same_values(math: Score) -> None:
    score: Score = reward("math", asynchronous=True, judging=Judging(jobs=1, cache=False))
    assert inspect.iscoroutinefunction(score)
    assert asyncio.run(score(completions=TEXTS, **HALVES)) == math(completions=TEXTS, **HALVES)


def test_verdicts_go_to_the_logs_that_trl_offers(math: Score) -> None:
    extra: dict[str, list[str]] = {}
    metrics: dict[str, float] = {}
    math(completions=TEXTS, **HALVES, log_extra=extra.__setitem__, log_metric=metrics.__setitem__, trainer_state=None)
    assert extra == {"math_verdict": ["correct", "wrong", "unread"]}
    assert metrics == {"math/unread_rate": pytest.approx(1 / 3), "math/failed_rate": 0.0}


def test_the_end_of_a_truncated_text_is_not_read_as_an_answer() -> None:
    text = "So we add 3 and 4 and get 7"
    for ends, expected in ((None, 1.0), ([9], 1.0), ([2], None)):
        score: Score = reward("number", unread=None, end_tokens=ends)
        assert score(prompts=["a"], completions=[text], completion_ids=[[1, 9]], answer=["7"]) == [expected]


def test_every_row_may_name_its_own_verifier_and_details() -> None:
    score: Score = reward()
    given = {
        "prompts": ["3, 5, 2 to 16", "a"],
        "verifier": ["countdown", "number"],
        "details": [{"numbers": [3, 5, 2], "target": 16}, None],
        "answer": [None, "12"],
    }
    assert score(completions=["3 + 5 = 8 , 8 * 2 = 16", "\\boxed{13}"], **given) == [1.0, 0.0]


def test_a_dataset_without_answers_is_refused(math: Score) -> None:
    fresh: Score = reward("math")
    with pytest.raises(OffleashError, match="needs gold answers, but the dataset has only the columns level, prompt"):
        fresh(prompts=["a"], completions=["b"], level=[3])
    named: Score = reward("math", columns={"gold": "truth"})
    with pytest.raises(OffleashError, match="no column 'truth'"):
        named(prompts=["a"], completions=["b"], answer=["1"])
    with pytest.raises(OffleashError, match="column role"):
        reward("math", columns={"golden": "truth"})
    assert named(prompts=["a"], completions=["\\boxed{1}"], truth=["1"]) == [1.0]


def test_a_row_without_an_answer_is_failed_and_not_wrong(math: Score, caplog: pytest.LogCaptureFixture) -> None:
    given = {"prompts": ["a", "b"], "completions": ["\\boxed{1}"] * 2, "answer": ["1", None]}
    assert math(**given) == [1.0, None]
    assert "there is no answer" in caplog.text


OWN = """
CALLS = __file__ + ".calls"

def same(completions, answer, **kwargs):
    with open(CALLS, "a") as file:
        file.write("x")
    return [float(c[0]["content"] == a) for c, a in zip(completions, answer)]
"""


def test_a_function_of_ones_own_is_called_once_per_distinct_sample(tmp_path: Path) -> None:
    file = tmp_path / "own.py"
    file.write_text(OWN)
    score: Score = reward(f"{file}:same", judging=Judging(jobs=1, cache=False))
    completions = [[{"role": "assistant", "content": text}] for text in ["7", "8", "7", "7"]]
    given = {"prompts": [[{"role": "user", "content": "q"}]] * 4, "answer": ["7"] * 4}
    assert score(completions=completions, **given) == [1.0, 0.0, 1.0, 1.0]
    assert score(completions=completions, **given) == [1.0, 0.0, 1.0, 1.0]
    assert Path(f"{file}.calls").read_text() == "xx"
    assert score.__name__ == "same"


def test_compute_score_gives_what_verl_reads() -> None:
    right = compute_score("gsm8k", "#### 12", "12", {"index": 3}, verifier="number")
    assert right == {"score": 1.0, "acc": 1.0, "pred": "12", "unread": 0.0, "failed": 0.0}
    unread = compute_score("gsm8k", "well", "12", None, verifier="number", unread=-0.5)
    assert unread == {"score": -0.5, "acc": 0.0, "pred": "", "unread": 1.0, "failed": 0.0}
    steps = compute_score(
        "countdown", "<answer>(3 + 5) * 2</answer>", {"target": 16, "numbers": [3, 5, 2]}, verifier="countdown"
    )
    assert steps["score"] == 1.0
    failed = compute_score("x", "12", "no number", verifier="number", failed=-1.0)
    assert (failed["score"], failed["failed"]) == (-1.0, 1.0)


def test_threads_get_the_verdicts_that_the_main_thread_gets() -> None:
    """Time limits by SIGALRM raise outside the main thread, where verl calls its rewards."""
    samples = [(f"\\boxed{{{n}x + x}}", "x + 3x") for n in range(16)]
    here = [compute_score("math", text, gold, jobs=1)["score"] for text, gold in samples]
    with ThreadPoolExecutor(8) as threads:
        there = list(threads.map(lambda pair: compute_score("math", *pair, jobs=1)["score"], samples))
    assert there == here
    assert sum(here) == 1.0


def test_an_answer_that_two_threads_ask_about_is_judged_once(tmp_path: Path) -> None:
    file = tmp_path / "own.py"
    file.write_text("def f(text, gold):\n    open(__file__ + '.calls', 'a').write('x')\n    return text == gold\n")
    judge = RewardJudge(f"{file}:f", Judging(jobs=2, cache=False))
    barrier = threading.Barrier(8)

    def ask(_: int) -> str:
        barrier.wait()
        return judge.judge([Problem("1", "q", gold="7")], ["7"])[0].verdict.value

    with ThreadPoolExecutor(8) as threads:
        assert list(threads.map(ask, range(8))) == ["correct"] * 8
    assert Path(f"{file}.calls").read_text() == "x"


def test_an_error_reaches_only_the_caller_whose_samples_raise_it() -> None:
    judge = RewardJudge(None)
    good, bad = Problem("1", "q", gold="7", verifier="number"), Problem("2", "q", gold="7", verifier="model_judge")
    futures = [judge.submit([problem], ["7"]) for problem in (good, bad, good)]
    assert futures[0].result()[0].verdict.value == "correct"
    with pytest.raises(OffleashError, match="model_judge"):
        futures[1].result()
    assert futures[2].result()[0].verdict.value == "correct"
    with pytest.raises(OffleashError, match="does not name a verifier"):
        judge.submit([Problem("3", "q")], ["7"])


@pytest.mark.filterwarnings("ignore:.*fork.*:DeprecationWarning")
def test_a_forked_process_judges_with_workers_of_its_own() -> None:
    judge = RewardJudge("math", Judging(jobs=1, cache=False))
    problem = Problem("1", "q", gold="x + 1")
    assert judge.judge([problem], ["\\boxed{1 + x}"])[0].verdict.value == "correct"
    child = os.fork()
    if child == 0:
        verdict = judge.judge([problem], ["\\boxed{2 + x}"])[0].verdict.value
        os._exit(0 if verdict == "wrong" else 1)
    assert os.waitpid(child, 0)[1] == 0
    assert judge.judge([problem], ["\\boxed{3 + x}"])[0].verdict.value == "wrong"


def test_texts_of_completions_and_prompts() -> None:
    assert completion_text("a") == "a"
    turns = [
        {"role": "assistant", "content": "call"},
        {"role": "tool", "content": "4"},
        {"role": "assistant", "content": [{"type": "text", "text": "it is 4"}]},
    ]
    assert completion_text(turns) == "it is 4"
    assert completion_text([]) == ""
    assert prompt_text([{"role": "user", "content": "a"}, {"role": "assistant", "content": "b"}]) == "a"


def test_another_verl_is_named_once(monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture) -> None:
    monkeypatch.setattr(verl, "version", lambda _: "1.2.0")
    verl._check_version.cache_clear()
    for _ in range(2):
        assert compute_score("gsm8k", "#### 12", "12", verifier="number", jobs=1)["score"] == 1.0
    assert caplog.text.count("verl 1.2.0 is installed, but compute_score was tested with 0.9.x") == 1
    verl._check_version.cache_clear()
