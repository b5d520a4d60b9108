"""Verifiers as verl's compute_score. No code is needed, only configuration:

    reward.custom_reward_function.path=pkg://offleash.training.verl
    reward.custom_reward_function.name=compute_score
    +reward.custom_reward_function.reward_kwargs.verifier=math

verl calls it once per sample, from threads and from several processes; each process has its own workers.
"""

import threading
from collections.abc import Mapping
from functools import cache
from importlib.metadata import PackageNotFoundError, version
from typing import TypedDict

from offleash.data.verdict import Verdict
from offleash.errors import OffleashError
from offleash.options import Judging
from offleash.problems.problem import Problem
from offleash.problems.read import gold_of
from offleash.training.rewards import RewardJudge, RewardValues, log

TESTED = "0.9."  # of verl: how it calls compute_score


class Score(TypedDict):
    """What verl gets; it averages the numbers in its validation metrics, and keeps all of it in its dumps."""

    score: float
    acc: float  # 1 for correct samples, whatever unread and failed ones are worth
    pred: str  # the answer as extracted, "" for none
    unread: float  # 1 where no answer was found
    failed: float  # 1 where the sample could not be judged


_judges: dict[tuple[str, int, bool, bool, float], RewardJudge] = {}  # by options: verl passes them with every sample
_lock = threading.Lock()


def compute_score(
    data_source: str,
    solution_str: str,
    ground_truth: object,
    extra_info: Mapping[str, object] | None = None,
    *,
    verifier: str = "math",
    unread: float = 0.0,
    failed: float = 0.0,
    jobs: int = 0,
    opened: bool = False,
    trust_code: bool = False,
    threshold: float = 1.0,
    **_: object,
) -> Score:
    """The score of one sample by a verifier.

    Args:
        data_source: the dataset that the sample's problem is from.
        solution_str: the sample.
        ground_truth: the gold answer; for the verifier `countdown` an object with target and numbers.
        extra_info: more about the problem; `question` and `details` are passed on to the verifier, all of it to a
            function of your own.
        verifier: a name such as `math`, or a function of your own as FILE.py:NAME.
        unread: the score of samples without an answer.
        failed: the score of samples that could not be judged. verl cannot leave a sample out, so it is a number.
        jobs: worker processes per process of verl; 0: one per core.
        opened: the prompt ends in <think>, so that a text without </think> is unfinished.
        trust_code: run model-written code without isolation where the machine offers none.
        threshold: from which number on a function of your own means correct.

    >>> compute_score("math500", "It is \\\\boxed{0.5}.", "1/2")["score"]
    1.0
    """
    _check_version()
    extra = dict(extra_info or {})
    question, details = extra.get("question"), extra.get("details")
    try:
        gold, target = gold_of(ground_truth)
    except OffleashError:
        gold, target = None, {}  # an object of the user's own, for a function of theirs
    problem = Problem(
        problem=f"{data_source}/{extra.get('index', 0)}",
        question=question if isinstance(question, str) else "",
        gold=gold,
        benchmark=data_source,
        details={**target, **(details if isinstance(details, Mapping) else {})},
        columns={"extra_info": extra, "reward_model": {"ground_truth": ground_truth}},
    )
    judge = _judge(verifier, jobs, opened, trust_code, threshold)
    (judged,) = judge.judge([problem], [solution_str])
    value = RewardValues(unread, failed).of(judged.verdict)
    assert value is not None, "both values are numbers"
    return Score(
        score=value,
        acc=float(judged.verdict is Verdict.CORRECT),
        pred=judged.answer or "",
        unread=float(judged.verdict is Verdict.UNREAD),
        failed=float(judged.verdict is Verdict.FAILED),
    )


@cache
def _check_version() -> None:
    """Say once where verl is of another version than the one this was tested with."""
    try:
        installed = version("verl")
    except PackageNotFoundError:  # a test, or a process of verl that is not installed as a package
        return
    if not installed.startswith(TESTED):
        log.warning(
            "verl %s is installed, but compute_score was tested with %sx. Check the scores of a few samples.",
            installed, TESTED,
        )  # fmt: skip


def _judge(verifier: str, jobs: int, opened: bool, trust_code: bool, threshold: float) -> RewardJudge:
    """The judge for these options, made once per process."""
    key = (verifier, jobs, opened, trust_code, threshold)
    with _lock:
        if key not in _judges:
            judging = Judging(jobs=jobs, trust_code=trust_code, cache=False, threshold=threshold)
            _judges[key] = RewardJudge(verifier, judging, opened)
        return _judges[key]
