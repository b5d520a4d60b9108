"""A comparison problem by problem, for figures and the page's table: classes, rates, p-values and answers.

The classes are those of single problems by all samples of each run, as they are tested. They need not add up to the
table of the comparison, which is at k samples of each run and averages over all choices of them.
"""

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import polars as pl
from numpy.typing import ArrayLike, NDArray

from offleash.comparing.compare import Comparison
from offleash.comparing.evidence import own_states
from offleash.data.tally import Answers, Float, Integer, Tally
from offleash.stats.binomials import hypergeometric_at_least, hypergeometric_at_most
from offleash.stats.change import states
from offleash.stats.curves import budgets
from offleash.stats.diversity import distinct_rarefied
from offleash.stats.support_classes import AFTER, BEFORE, IN, OUT, UNDETERMINED, Rule

Flags = NDArray[np.bool_]
Text = NDArray[np.str_]
Statistic = Callable[[ArrayLike, ArrayLike, int, ArrayLike], Float]  # counts, their problems, problems, n

UNKNOWN_CLASS = "?"


@dataclass(frozen=True)
class ProblemDetail:
    """One row per problem, in the order of `problems`; columns of runs: before, after."""

    comparison: Comparison
    problems: pl.DataFrame  # PROBLEMS
    tally: Tally  # per problem, whatever the comparison counts
    class_P: Text  # P, E, S, O by the rule in force among all samples of each run; "?": undetermined
    class_k_P: Text  # the same among the first k samples
    rate_PR: Float  # of a record that stopped at its m-th success, (m-1)/(N-1): unbiased
    p_P: Float  # two-sided: did the rate change? NaN where a run stopped early
    significant_P: Flags  # on the lists of significant losses and gains (5% false discoveries)

    @property
    def answers(self) -> list[Answers] | None:
        """How often each answer was given, per run; None where a run keeps none or stopped early."""
        return self.comparison.answers

    @cached_property
    def distinct_KR(self) -> tuple[Integer, Float, int] | None:
        """Budgets, the mean number of different readable answers in so many samples of each run, and the problems."""
        answers_R, diversity = self.answers, self.comparison.diversity
        if answers_R is None or diversity is None:
            return None
        k_K = budgets(diversity.n)
        every = [_over_readable(run, distinct_rarefied, len(self.tally), k_K) for run in answers_R]
        known_P = ~np.isnan(np.stack(every)).any(axis=(0, 2))
        if not known_P.any():
            return None
        return k_K, np.stack([distinct_PK[known_P].mean(axis=0) for distinct_PK in every], axis=1), int(known_P.sum())


def detail(comparison: Comparison) -> ProblemDetail:
    """The detail of a comparison; what takes a scan of the samples is computed on first use."""
    aligned = comparison.counted
    significant = set(comparison.evidence.lost) | set(comparison.evidence.gained)
    return ProblemDetail(
        comparison=comparison,
        problems=aligned.problems,
        tally=aligned.tally,
        class_P=_classes(comparison, own=True),
        class_k_P=_classes(comparison, own=False),
        rate_PR=_rates(aligned.tally),
        p_P=_p_of_change(aligned.tally),
        significant_P=np.isin(aligned.tally.problem_P, sorted(significant))
        if significant
        else np.zeros(len(aligned.tally), dtype=bool),
    )


def _classes(comparison: Comparison, own: bool) -> Text:
    """The class of each problem, by all of its samples or the first k; of a run that stopped early, by its record."""
    tally, change, question = comparison.counted.tally, comparison.change, comparison.question
    if (tally.until_R > 0).any():
        first_PR = tally.first_PR
        stopped_PR = (first_PR >= 0) & (first_PR < change.k)
        state_PR = np.where(np.where(tally.until_R > 0, stopped_PR, tally.head_PR >= 1), IN, OUT)
    elif change.rule is Rule.POSTERIOR:
        state_PR = states(tally, change.rule, change.k, question.tau, question.zeta)
    else:
        drawn_PR = tally.drawn_PR if own else np.full_like(tally.drawn_PR, change.k)
        correct_PR = tally.correct_PR if own else tally.head_PR
        state_PR = own_states(drawn_PR, correct_PR, change.rule, change.k, question.tau, question.zeta)
    reached_PR, known_P = state_PR == IN, (state_PR != UNDETERMINED).all(axis=1)
    names = np.array([["O", "E"], ["S", "P"]])  # before, after
    return np.where(known_P, names[reached_PR[:, BEFORE].astype(int), reached_PR[:, AFTER].astype(int)], UNKNOWN_CLASS)


def _rates(tally: Tally) -> Float:
    """Success rates; a record that stopped at success m of N samples has (m-1)/(N-1): m/N is biased (Haldane 1945)."""
    plain = tally.correct_PR / np.maximum(tally.drawn_PR, 1)
    ended = (tally.correct_PR - 1) / np.maximum(tally.drawn_PR - 1, 1)
    short = tally.stopped_PR & (tally.correct_PR > 1)
    return np.where(short, ended, plain)


def _p_of_change(tally: Tally) -> Float:
    """Fisher's exact test of each problem, twice the smaller tail."""
    if (tally.until_R > 0).any():
        return np.full(len(tally), np.nan)
    drawn_PR, correct_PR = tally.drawn_PR, tally.correct_PR
    hypergeometric = (drawn_PR.sum(axis=1), correct_PR.sum(axis=1), drawn_PR[:, AFTER])
    low = hypergeometric_at_most(correct_PR[:, AFTER], *hypergeometric)
    high = hypergeometric_at_least(correct_PR[:, AFTER], *hypergeometric)
    return np.asarray(np.minimum(1.0, 2 * np.minimum(low, high)))


def _over_readable(run: Answers, statistic: Statistic, problems: int, n: ArrayLike) -> Float:
    """A statistic of the readable answers: unread samples have code -1 and are left out."""
    seen = run.answer_A >= 0
    return statistic(run.count_A[seen], run.problem_A[seen], problems, n)
