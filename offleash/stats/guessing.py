"""Guess floors: how often answers meant for other problems would be accepted, and tests of runs against that.

A problem at its floor is guess-support; one above it is not yet evidence of reasoning. comparing/guessing.py applies
this to two runs.
"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

from offleash.stats.binomials import binomial_at_least

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]
Flags = NDArray[np.bool_]

ROWS_AT_A_TIME = (
    256  # problems compared with all others at a time: memory stays bounded when every problem shares its answers
)
TIE_TOLERANCE = 1e-12  # shares nearer than this are equal


@dataclass(frozen=True)
class GuessFloor:
    """The problem-blind guess floor of each problem of a run.

    `floor_P`: mean share of other problems' wrong answers that are accepted here; NaN where no accepted answer is known
    or no other problem is eligible, 0 where nobody else ever gave one (no test either way). `rank_p_P`: rank of the
    problem's own rate among those shares. `eligible_P`: the other problems it was compared with.
    """

    floor_P: Floats
    rank_p_P: Floats
    eligible_P: Ints


def guess_test(drawn_P: ArrayLike, correct_P: ArrayLike, floor_P: ArrayLike) -> Floats:
    """One-sided p-value of c correct among n against Binomial(n, floor); NaN without samples or without a floor.

    Args:
        drawn_P: samples of each problem.
        correct_P: correct ones among them.
        floor_P: the chance that a blind guess is right.

    Returns:
        A p-value per problem; small: more often right than guesses are.

    Example:
        >>> guess_test(100, [1, 30, 5], [0.01, 0.25, 0.0]).round(4)
        array([0.634 , 0.1495,    nan])
    """
    n, c, floor = np.broadcast_arrays(
        np.asarray(drawn_P, dtype=np.int64), np.asarray(correct_P, dtype=np.int64), np.asarray(floor_P, np.float64)
    )
    is_testable = (floor > 0) & (n > 0)
    p = binomial_at_least(c, np.where(is_testable, n, 1), np.where(is_testable, floor, 0.5))
    return np.where(is_testable, p, np.nan)


def least_above_floor(drawn_P: ArrayLike, floor_P: ArrayLike, alpha: float = 0.05) -> Ints:
    """From how many successes on `guess_test` puts a problem above its guess floor.

    Args:
        drawn_P: samples of each problem.
        floor_P: the chance that a blind guess is right; NaN or 0: there is no floor, and one success is enough.
        alpha: the level of the test.

    Returns:
        Successes; one more than the samples where no number is enough.

    Example:
        >>> least_above_floor(16, [0.25, 0.001, 0.0])
        array([8, 1, 1])
    """
    n, floor = np.broadcast_arrays(np.asarray(drawn_P, dtype=np.int64), np.asarray(floor_P, np.float64))
    is_testable = (floor > 0) & (n > 0)
    low, high = np.ones_like(n), np.where(is_testable, n + 1, 1)
    while (
        low < high
    ).any():  # the tail falls with the number of successes, so the first that is small enough is halved for
        middle = (low + high) // 2
        is_enough = ~(guess_test(n, np.minimum(middle, n), floor) > alpha)
        high, low = (
            np.where(is_enough & (low < high), middle, high),
            np.where(~is_enough & (low < high), middle + 1, low),
        )
    return low


def guess_support(p_P: ArrayLike, reached_P: ArrayLike, alpha: float = 0.05) -> Flags:
    """Reached, but not above the guess floor; a problem without a floor (p NaN) cannot be tested and is False.

    Args:
        p_P: p-values of `guess_test`.
        reached_P: whether each problem was reached.
        alpha: the level of the test.

    Returns:
        One flag per problem.

    Example:
        >>> guess_support([0.6, 0.001, np.nan], [True, True, True])
        array([ True, False, False])
    """
    p = np.asarray(p_P, dtype=np.float64)
    return np.asarray(np.asarray(reached_P, dtype=np.bool_) & (p > alpha))


def guess_floor(
    problem_A: ArrayLike,
    answer_A: ArrayLike,
    count_A: ArrayLike,
    correct_A: ArrayLike,
    wrong_A: ArrayLike,
    problems: int,
    accepted_problem: ArrayLike,
    accepted_answer: ArrayLike,
    gold_P: ArrayLike | None = None,
) -> GuessFloor:
    """Problem-blind guess floors of one run from answers already verdicted.

    One row per (problem, answer): answer codes are shared over problems; a row neither correct nor wrong is unread,
    failed or unverified and only counts as drawn. `accepted_problem`, `accepted_answer`: pairs verdicted correct in
    any run; `gold_P`: code of the reference answer, -1 if unknown, accepted too. Problems that accept a common answer
    count as having the same gold. Only wrong answers are borrowed: problems that are solved would dilute the floor.
    With m options a uniform guesser's floor is then 1/(m-1), not 1/m: where options are few, give the floor instead.

    Args:
        problem_A: the problem of each (problem, answer) pair of the run.
        answer_A: the code of its answer, shared over problems; -1: none was read.
        count_A: how often it was given.
        correct_A: whether it was judged correct.
        wrong_A: whether it was judged wrong.
        problems: how many problems there are.
        accepted_problem: problems of the pairs that any run had right.
        accepted_answer: their answers.
        gold_P: the code of the reference answer of each problem.

    Returns:
        Floor, rank p-value and number of problems compared with, per problem.

    Example:
        >>> # problem 0 accepts answer 7, which a quarter of the wrong answers to problem 1 are
        >>> right, wrong = [True, False, False], [False, True, True]
        >>> guess_floor([0, 1, 1], [7, 7, 8], [10, 1, 3], right, wrong, 2, [0], [7]).floor_P
        array([0.25,  nan])
    """
    from scipy.sparse import csr_array  # only runs that keep answers pay for it

    problem, answer, count = (np.asarray(x, dtype=np.int64) for x in (problem_A, answer_A, count_A))
    correct, wrong = np.asarray(correct_A, dtype=np.bool_), np.asarray(wrong_A, dtype=np.bool_)
    pairs = _accepted(problems, accepted_problem, accepted_answer, gold_P)
    codes = 1 + max(int(answer.max(initial=0)), int(pairs[1].max(initial=0)))
    accepts = csr_array((np.ones(pairs.shape[1]), (pairs[0], pairs[1])), shape=(problems, codes))
    errors_P = np.bincount(problem[wrong], weights=count[wrong], minlength=problems)
    is_readable = wrong & (answer >= 0) & (count > 0)
    share_A = count[is_readable] / errors_P[problem[is_readable]]
    shares = csr_array((share_A, (answer[is_readable], problem[is_readable])), shape=(codes, problems))

    drawn_P = np.bincount(problem, weights=count, minlength=problems)
    rate_P = np.bincount(problem[correct], weights=count[correct], minlength=problems) / np.maximum(drawn_P, 1)
    has_errors_P = (errors_P > 0).astype(np.float64)
    sum_P, above_P, excluded_P = np.zeros(problems), np.zeros(problems), np.zeros(problems)
    accepted_by = accepts.T.tocsr()
    for start in range(0, problems, ROWS_AT_A_TIME):
        rows = slice(start, min(start + ROWS_AT_A_TIME, problems))
        same = accepts[rows] @ accepted_by  # a problem shares its answers with itself, so this bars it too
        same.data[:] = 1.0
        excluded_P[rows] = same @ has_errors_P
        # [p, q]: how often a guesser with the wrong answers of problem q would be correct on problem p
        accepted_share = accepts[rows] @ shares
        accepted_share = csr_array(accepted_share - accepted_share.multiply(same))
        row = np.repeat(np.arange(accepted_share.shape[0]), np.diff(accepted_share.indptr))
        sum_P[rows] = np.bincount(row, weights=accepted_share.data, minlength=accepted_share.shape[0])
        # problems whose wrong answers are correct on p at least as often as the run is: the rank of its rate
        high = (accepted_share.data > 0) & (accepted_share.data >= rate_P[rows][row] - TIE_TOLERANCE)
        above_P[rows] = np.bincount(row[high], minlength=accepted_share.shape[0])
    eligible_P = np.where(np.diff(accepts.indptr) > 0, np.rint(has_errors_P.sum() - excluded_P), 0.0)
    known_P = eligible_P > 0
    floor_P = np.where(known_P, sum_P / np.maximum(eligible_P, 1), np.nan)
    # at rate 0 every eligible problem is at least as high, also those that share no answer
    rank_p_P = (1 + np.where(rate_P > 0, above_P, eligible_P)) / (eligible_P + 1)
    return GuessFloor(floor_P, np.where(known_P & (drawn_P > 0), rank_p_P, np.nan), eligible_P.astype(np.int64))


def _accepted(problems: int, problem: ArrayLike, answer: ArrayLike, gold_P: ArrayLike | None) -> Ints:
    """Distinct (problem, answer) pairs that are accepted, as two rows; codes below 0 stand for no answer."""
    pairs = np.stack([np.asarray(problem, dtype=np.int64), np.asarray(answer, dtype=np.int64)])
    if gold_P is not None:
        pairs = np.concatenate([pairs, np.stack([np.arange(problems), np.asarray(gold_P, dtype=np.int64)])], axis=1)
    return np.unique(pairs[:, pairs[1] >= 0], axis=1)
