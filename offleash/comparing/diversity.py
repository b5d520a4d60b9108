"""Diversity of the answers of two runs at equal numbers of samples, and the majority vote.

Imported when the diversity of a comparison is read: comparing counts needs none of it.
"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from offleash.data.tally import Answers, Float, Integer, Tally
from offleash.stats.diversity import chao1, distinct_rarefied, entropy_chao_wang_jost, entropy_plugin, unseen_mass
from offleash.stats.entropy import Widening, entropy_at_equal_n, means
from offleash.stats.intervals import REPLICATES, Interval
from offleash.stats.pass_at_k import majority_at_k
from offleash.stats.support_classes import AFTER

MAJORITY_SAMPLES = 32  # samples of a majority vote, where as many were drawn
DRAWS = 1 << 16  # simulated votes over all problems: only their mean is reported


@dataclass(frozen=True)
class RunDiversity:
    """Means over problems, in nats: answers of one run."""

    entropy_with_unread: float  # plug-in, unread as one class: as in arXiv:2507.14843
    entropy: float  # plug-in of the readable answers, each problem rarefied to as many as both runs have of it
    entropy_absolute: float  # Chao-Wang-Jost: what all possible samples would show
    entropy_correct: float  # plug-in of the correct answers alone, each problem rarefied to as many as both runs have
    distinct: float  # answers in n samples, of problems that have as many readable ones in both runs
    distinct_all: float  # Chao1: at least so many exist
    unseen_mass: float  # Good-Turing: chance that the next sample has a new answer
    unread_rate: float
    majority: float
    majority_error: float  # standard error of the part that is simulated


@dataclass(frozen=True)
class Diversity:
    """Answers of two runs at equal numbers of samples; the fields are the keys of its JSON."""

    n: int  # readable answers that half of the problems have in both runs
    votes: int
    problems: int  # with two or more readable answers in both runs
    problems_correct: int  # with two or more correct answers in both runs
    entropy_difference: float
    entropy_difference_interval: Interval
    before: RunDiversity
    after: RunDiversity


def diversity(answers_R: list[Answers], tally: Tally, replicates: int = REPLICATES, seed: int = 0) -> Diversity:
    """The diversity of the answers of both runs at the same n.

    Args:
        answers_R: the answers of the runs before and after, with shared codes.
        tally: counts per problem, for benchmarks and the size of votes.
        replicates: of the bootstrap over problems.
        seed: of the bootstrap.

    Returns:
        Means over problems. Entropy grows with the number of answers, so each problem is rarefied to as many as both
        runs have of it; a problem with fewer than two in either run does not enter.
    """
    entropy_PR, min_answers_P = entropy_at_equal_n([_readable_counts(run) for run in answers_R], len(tally))
    correct_PR, _ = entropy_at_equal_n([_readable_counts(run, run.correct_A) for run in answers_R], len(tally))
    both_correct_P = np.asarray(~np.isnan(correct_PR).any(axis=1))
    n = int(max(1, np.median(min_answers_P)))
    votes = min(MAJORITY_SAMPLES, tally.head)
    known_P = np.asarray(~np.isnan(entropy_PR).any(axis=1))
    before, after = (
        _run_diversity(
            run,
            tally,
            r,
            n,
            votes,
            min_answers_P >= n,
            entropy=_mean(entropy_PR[known_P, r]),
            entropy_correct=_mean(correct_PR[both_correct_P, r]),
        )
        for r, run in enumerate(answers_R)
    )
    # the procedure of `offleash entropy`, over problems: one difference has one interval, wherever it is printed
    whole = means(entropy_PR, np.full(len(tally), ""), Widening(float(np.log(2))), replicates, seed)
    difference, interval = float(whole.difference_R[AFTER]), whole.difference_interval_R[AFTER]
    return Diversity(n, votes, int(known_P.sum()), int(both_correct_P.sum()), difference, interval, before, after)


def _readable_counts(run: Answers, among_A: NDArray[np.bool_] | None = None) -> tuple[Integer, Integer]:
    """Counts of the readable answers, or of those among some, and their problems."""
    seen = run.answer_A >= 0 if among_A is None else (run.answer_A >= 0) & among_A
    return run.count_A[seen], run.problem_A[seen]


def _run_diversity(
    run: Answers,
    tally: Tally,
    r: int,
    n: int,
    votes: int,
    enough_P: NDArray[np.bool_],
    entropy: float,
    entropy_correct: float,
) -> RunDiversity:
    """The statistics of one run's answers.

    Args:
        run: its answers, with shared codes.
        tally: counts per problem.
        r: which run of the tally it is.
        n: readable answers at which distinct ones are counted.
        votes: samples of a majority vote.
        enough_P: problems that have n readable answers in both runs.
        entropy: at equal numbers of answers, which takes both runs to compute.
        entropy_correct: the same of the correct answers alone.
    """
    problems, seen = len(tally), run.answer_A >= 0
    count, problem = _readable_counts(run)
    draws = int(np.clip(DRAWS // max(problems, 1), 16, 128))
    ballots = (run.count_A, run.correct_A, run.problem_A, problems)
    vote = majority_at_k(*ballots, votes, votes_A=seen, effort=1e4, draws=draws)
    drawn = max(int(run.count_A.sum()), 1)
    return RunDiversity(
        entropy_with_unread=_mean(entropy_plugin(run.count_A, run.problem_A, problems)),
        entropy=entropy,
        entropy_absolute=_mean(entropy_chao_wang_jost(count, problem, problems)),
        entropy_correct=entropy_correct,
        distinct=_mean(distinct_rarefied(count, problem, problems, n)[enough_P]),
        distinct_all=_mean(chao1(count, problem, problems)),
        unseen_mass=_mean(unseen_mass(count, problem, problems)),
        unread_rate=float(tally.unread_PR[:, r].sum() / drawn),
        majority=vote.mean,
        majority_error=float(np.sqrt(np.nansum(vote.error_P**2)) / max(problems, 1)),
    )


def _mean(value_P: Float) -> float:
    """The mean over problems where the value is known; NaN where it is known nowhere."""
    known = value_P[~np.isnan(value_P)]
    return float(known.mean()) if known.size else float("nan")
