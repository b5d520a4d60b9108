"""Diversity of answers of two runs at equal numbers of samples, and what a majority vote would give."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from offleash.data.answers import Answers
from offleash.data.tally import Float, Integer, Tally
from offleash.stats.diversity import chao1, distinct_rarefied, entropy_chao_wang_jost, entropy_plugin, unseen_mass
from offleash.stats.entropy import entropy_at_equal_n
from offleash.stats.few import FEW
from offleash.stats.intervals import REPLICATES, Interval, percentile_intervals, replicate_sums, strata
from offleash.stats.majority import majority_at_k

VOTES = 32  # samples of a majority vote, where as many were drawn
DRAWS = 1 << 16  # simulated votes over all problems: the mean is told, not each problem


@dataclass(frozen=True)
class RunDiversity:
    """Means over problems, in nats: answers of one run."""

    entropy_with_unread: float  # plug-in, unread as one class: as in arXiv:2507.14843
    entropy: float  # plug-in of the readable answers, each problem rarefied to as many as both runs have of it
    entropy_absolute: float  # Chao-Wang-Jost: what all possible samples would show
    entropy_correct: float  # of the correct answers alone
    distinct: float  # answers in n samples, of problems that have as many readable ones in both runs
    distinct_all: float  # Chao1: at least so many exist
    unseen_mass: float  # Good-Turing: chance that the next sample has a new answer
    unread_rate: float
    majority: float
    majority_error: float  # standard error of the part that is simulated


@dataclass(frozen=True)
class Diversity:
    """Answers of two runs, their number made equal, and the difference of entropies with its interval."""

    n: int  # readable answers that half of the problems have in both runs
    votes: int
    before: RunDiversity
    after: RunDiversity
    entropy_difference: float
    entropy_interval: Interval
    problems: int  # with two or more readable answers in both runs


def diversity(told: list[Answers], tally: Tally, replicates: int = REPLICATES, seed: int = 0) -> Diversity:
    """The diversity of the answers of both runs at the same n."""
    entropy_PR, least_P = entropy_at_equal_n([_readable(run) for run in told], len(tally))
    n = int(max(1, np.median(least_P)))
    votes = min(VOTES, tally.head)
    known_P = np.asarray(~np.isnan(entropy_PR).any(axis=1))
    before, after = (
        _one(run, tally, r, n, votes, least_P >= n, _mean(entropy_PR[known_P, r])) for r, run in enumerate(told)
    )
    difference_P = np.where(known_P, entropy_PR[:, 1] - entropy_PR[:, 0], 0.0)
    value_P2 = np.stack([difference_P, known_P.astype(np.float64)], axis=1)
    coin = np.log(2)  # pseudo-problems that gain or lose one even answer, lest equal runs get an interval of no width
    pseudo_22 = np.array([[coin, 1.0], [-coin, 1.0]])
    sums_B2 = replicate_sums(value_P2, pseudo_22, strata(tally.benchmark_P), replicates, seed)
    mean = float(difference_P.sum() / known_P.sum()) if known_P.any() else float("nan")
    with np.errstate(invalid="ignore", divide="ignore"):
        interval = percentile_intervals((sums_B2[:, 0] / sums_B2[:, 1])[:, None], np.array([mean]))[0]
    if known_P.sum() < FEW:  # so few problems cannot show their own spread
        interval = Interval(np.nan, np.nan)
    return Diversity(n, votes, before, after, mean, interval, int(known_P.sum()))


def _readable(run: Answers) -> tuple[Integer, Integer]:
    """Counts of the readable answers, and their problems."""
    seen = run.answer_A >= 0
    return run.count_A[seen], run.problem_A[seen]


def _one(
    run: Answers, tally: Tally, r: int, n: int, votes: int, enough_P: NDArray[np.bool_], entropy: float
) -> RunDiversity:
    problems, seen = len(tally), run.answer_A >= 0
    (count, problem), right = _readable(run), run.correct_A & seen
    draws = int(np.clip(DRAWS // max(problems, 1), 16, 128))
    ballots = (run.count_A, run.correct_A, run.problem_A, problems)
    vote = majority_at_k(*ballots, votes, votes_A=seen, effort=1e4, draws=draws)
    drawn = max(int(run.count_A.sum()), 1)
    return RunDiversity(
        entropy_with_unread=_mean(entropy_plugin(run.count_A, run.problem_A, problems)),
        entropy=entropy,
        entropy_absolute=_mean(entropy_chao_wang_jost(count, problem, problems)),
        entropy_correct=_mean(entropy_plugin(run.count_A[right], run.problem_A[right], problems)),
        distinct=_mean(distinct_rarefied(count, problem, problems, n)[enough_P]),
        distinct_all=_mean(chao1(count, problem, problems)),
        unseen_mass=_mean(unseen_mass(count, problem, problems)),
        unread_rate=float(tally.unread_PR[:, r].sum() / drawn),
        majority=vote.mean,
        majority_error=float(np.sqrt(np.nansum(vote.error_P**2)) / max(problems, 1)),
    )


def _mean(value_P: Float) -> float:
    known = value_P[~np.isnan(value_P)]
    return float(known.mean()) if known.size else float("nan")
