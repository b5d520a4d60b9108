"""Guess-support: problems that a run solves no more often than a blind guess would, and the table without them.

Floors come with the problems or from --guess, else from each run's wrong answers to other problems. A rate near its
floor is above it in one draw and not in the next, so the table without guess-support has its redraw value beside it.
"""

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np

from offleash.comparing.tally import AlignedTally
from offleash.data.tally import Answers, Float, Per, Tally
from offleash.errors import OffleashError
from offleash.stats.change import SupportChange, change_at
from offleash.stats.redraw import redraw_above
from offleash.stats.support_classes import AFTER, BEFORE, Rule, reach_cells, reach_PRK

if TYPE_CHECKING:
    from offleash.comparing.question import Question
    from offleash.stats.guessing import GuessFloor


SIDES = {"before": BEFORE, "after": AFTER}  # columns of a tally


@dataclass(frozen=True)
class Guessing:
    """Guess-support of two runs; `floor` says where the floors came from, None when there are none and why."""

    floor: str | None
    reason: str | None
    tested: dict[str, int]  # problems with a floor above 0
    median_floor: dict[str, float]  # median floor of those
    problems: dict[str, tuple[str, ...]]  # guess-support: reached, but no more often than the floor explains
    without: SupportChange | None  # the table with guess-support counted as not reached, with its redraw value
    by_rank: dict[str, int] | None = None  # guess-support by rank among other problems; None with given floors


def guessing(
    pair: Tally, answers_R: list[Answers] | None, aligned: AlignedTally, question: "Question", redraw: bool = True
) -> Guessing:
    """Test what was reached against given floors, or against floors from other problems' wrong answers.

    Args:
        pair: counts of both runs.
        answers_R: the answers of each run; None where a run keeps none.
        aligned: the aligned problems, whose gold answers the estimated floors need.
        question: its guess rate, if any, goes before the floors of the problems.
        redraw: also compute the table that two draws of one model would show.

    Returns:
        The guess-support of both runs; with `floor` None and a reason where nothing can be tested.
    """
    if pair.per is not Per.PROBLEM:
        return _not_tested("guess floors are defined per problem; use --per problem")
    if (pair.until_R > 0).any():
        return _not_tested("the successes of a run that stopped early are not binomial, so they cannot be tested")
    stated_floor_P = _given_floors(pair, question.guess)
    if (stated_floor_P > 0).any():
        return _test_against(pair, "given", np.stack([stated_floor_P, stated_floor_P], axis=1), question, redraw)
    if answers_R is None:
        return _not_tested("no guess floor is given (--guess RATE), and there are no answers to estimate one from")
    floors = _problem_blind_floors(answers_R, aligned)
    floor_PR = np.stack([floor.floor_P for floor in floors], axis=1)
    tested = _test_against(pair, "problem-blind", floor_PR, question, redraw)
    from offleash.stats.guessing import guess_support  # without floors there is nothing to load it for

    support_by_rank = {
        name: int(guess_support(floors[r].rank_p_P, pair.correct_PR[:, r] > 0).sum()) for name, r in SIDES.items()
    }
    return tested if tested.floor is None else replace(tested, by_rank=support_by_rank)


def _given_floors(pair: Tally, guess: float | None) -> Float:
    """Floors by problem from --guess, or as the problems have them; NaN: none is given."""
    if guess is not None and not 0 <= guess < 1:
        raise OffleashError(f"A guess floor is a probability, at least 0 and below 1; found --guess {guess}.")
    return pair.guess_P if guess is None else np.full(len(pair), guess)


def _problem_blind_floors(answers_R: list[Answers], aligned: AlignedTally) -> "list[GuessFloor]":
    """Floors of each run from its own wrong answers to other problems; an answer any run had right is accepted."""
    from offleash.stats.guessing import guess_floor

    problems = aligned.problems.height
    # answers and gold share one coding, so that "the same answer" is equality of integers
    code = {text: number for number, text in enumerate(answers_R[0].label)}
    gold_P = np.array([-1 if gold is None else code.get(gold, -1) for gold in aligned.problems["gold"]], dtype=np.int64)
    right = [(run.problem_A[run.correct_A], run.answer_A[run.correct_A]) for run in answers_R]
    accepted_problem, accepted_answer = (np.concatenate(column) for column in zip(*right, strict=True))
    return [
        guess_floor(
            run.problem_A,
            run.answer_A,
            run.count_A,
            run.correct_A,
            run.wrong_A,
            problems,
            accepted_problem,
            accepted_answer,
            gold_P,
        )
        for run in answers_R
    ]


def _test_against(pair: Tally, floor: str, floor_PR: Float, question: "Question", redraw: bool) -> Guessing:
    """Binomial tests of all samples drawn against the floors, and the table with guess-support as not reached."""
    from offleash.stats.guessing import guess_support, guess_test, least_above_floor

    # all samples are tested, not the first k: few samples cannot distinguish a floor of 1 in 1,000 from solving
    p_PR = np.stack([guess_test(pair.drawn_PR[:, r], pair.correct_PR[:, r], floor_PR[:, r]) for r in (0, 1)], axis=1)
    guessable_PR = guess_support(p_PR, pair.correct_PR > 0)
    k_K = np.array([pair.head])
    above_floor_PRK = reach_PRK(pair, k_K) * ~guessable_PR[:, :, None]
    redraw_3K = None
    if redraw:
        min_correct_PR = least_above_floor(pair.drawn_PR, floor_PR)
        redraw_3K = redraw_above(pair.drawn_PR, pair.correct_PR, min_correct_PR, pair.head)[:, None]
    sums = reach_cells(pair, k_K, above_floor_PRK, redraw_3K).sums(question.replicates, question.seed)
    known = {name: floor_PR[:, r][floor_PR[:, r] > 0] for name, r in SIDES.items()}
    tested = {name: len(floors) for name, floors in known.items()}
    if not any(tested.values()):
        return _not_tested("no guess floor, since no wrong answer to one problem is correct for another")
    return Guessing(
        floor=floor,
        reason=None,
        tested=tested,
        median_floor={
            name: float(np.median(floors)) if len(floors) else float("nan") for name, floors in known.items()
        },
        problems={
            name: tuple(str(problem) for problem in pair.problem_P[guessable_PR[:, r]]) for name, r in SIDES.items()
        },
        without=change_at(sums, 0, pair, Rule.SEEN),
    )


def _not_tested(reason: str) -> Guessing:
    """Nothing was tested, and why."""
    return Guessing(None, reason, {}, {}, {}, None)
