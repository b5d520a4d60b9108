"""A comparison problem by problem: classes, rates, tests and answers, for JSON, lists, figures and the page's table.

The classes are those of single problems by all samples of each run, as they are tested. They need not add up to the
table of the comparison, which is at k samples of each run and averages over all choices of them. Two tests, both on all
samples: whether the rate changed, and whether a loss or gain is more than chance.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import polars as pl
from numpy.typing import ArrayLike, NDArray

from offleash.comparing.align import is_greedy
from offleash.comparing.compare import Comparison
from offleash.comparing.evidence import GREEDY, loss_p_of_stopped
from offleash.data.tally import Answers, Float, Integer, Tally
from offleash.stats.binomials import hypergeometric_at_least, hypergeometric_at_most
from offleash.stats.chance import benjamini_hochberg
from offleash.stats.change import states
from offleash.stats.curves import budgets
from offleash.stats.diversity import distinct_rarefied
from offleash.stats.significance import FDR, TIE_FACTOR
from offleash.stats.support_classes import AFTER, BEFORE, IN, OUT, UNDETERMINED, Rule

Flags = NDArray[np.bool_]
Text = NDArray[np.str_]
Statistic = Callable[[ArrayLike, ArrayLike, int, ArrayLike], Float]  # counts, their problems, problems, n

UNDETERMINED_CLASS = "U"
FELL, ROSE = "fell", "rose"  # what became of a rate


@dataclass(frozen=True, repr=False)
class ProblemDetail:
    """One row per problem, in the order of `problems`; columns of runs: before, after."""

    comparison: Comparison
    problems: pl.DataFrame  # PROBLEMS
    tally: Tally  # per problem, whatever the comparison counts
    class_P: Text  # P, E, S, O by the rule in force among all samples of each run; "U": undetermined
    class_k_P: Text  # the same among the first k samples
    rate_PR: Float  # of a record that stopped at its m-th success, (m-1)/(N-1): unbiased
    p_P: Float  # two-sided, all samples: did the rate change? NaN where there is no valid test
    q_P: Float  # Benjamini-Hochberg over all problems
    change_P: Text  # FELL or ROSE at a false discovery rate of 5%, else ""
    p_class_P: Float  # one-sided: loss of S, gain of E; NaN for the others and without a test
    q_class_P: Float  # Benjamini-Hochberg over all problems of all runs, those of another class with p = 1
    reasons: Mapping[str, str]  # why p_P (key "p") and p_class_P (key "p_class") are NaN for all problems

    def __repr__(self) -> str:
        return f"<{len(self.class_P):,} problems of {self.comparison!r}>"

    @property
    def significant_P(self) -> Flags:
        """Significantly lost or gained, at a false discovery rate of 5%."""
        return np.asarray(self.q_class_P <= FDR * TIE_FACTOR)

    @property
    def answers(self) -> list[Answers] | None:
        """How often each answer was given, per run; None where a run keeps none or stopped early."""
        return self.comparison.answers

    @cached_property
    def distinct_answers(self) -> tuple[Integer, Float, int] | None:
        """Budgets, the mean number of different readable answers in so many samples of each run, and the problems."""
        answers_R, diversity = self.answers, self.comparison.diversity
        if answers_R is None or diversity is None:
            return None
        k_K = budgets(diversity.n)
        every = [_readable_statistic(run, distinct_rarefied, len(self.tally), k_K) for run in answers_R]
        known_P = ~np.isnan(np.stack(every)).any(axis=(0, 2))
        if not known_P.any():
            return None
        return k_K, np.stack([distinct_PK[known_P].mean(axis=0) for distinct_PK in every], axis=1), int(known_P.sum())


def detail(comparison: Comparison) -> ProblemDetail:
    """The detail of a comparison, computed once; what takes a scan of the samples is computed on first use."""
    return comparison.compute_once("per problem", _detail)


def _detail(comparison: Comparison) -> ProblemDetail:
    aligned = comparison.counted
    class_P, rate_PR = _classes(comparison, own=True), _rates(aligned.tally)
    (p_P, no_p_reason), (p_class_P, no_p_class_reason) = _p_of_change(comparison), _p_of_class(comparison, class_P)
    runs = comparison.evidence.runs_tested  # each run is another look at the same problems
    q_P = p_P if no_p_reason else benjamini_hochberg(np.minimum(p_P * runs, 1.0))
    fell_P = rate_PR[:, AFTER] < rate_PR[:, BEFORE]
    return ProblemDetail(
        comparison=comparison,
        problems=aligned.problems,
        tally=aligned.tally,
        class_P=class_P,
        class_k_P=_classes(comparison, own=False),
        rate_PR=rate_PR,
        p_P=p_P,
        q_P=q_P,
        change_P=np.where(q_P <= FDR * TIE_FACTOR, np.where(fell_P, FELL, ROSE), ""),
        p_class_P=p_class_P,
        q_class_P=_q_of_class(comparison, p_class_P, class_P),
        reasons={name: why for name, why in (("p", no_p_reason), ("p_class", no_p_class_reason)) if why},
    )


def problem_table(comparison: Comparison) -> pl.DataFrame:
    """The problems of a comparison as a table, in the order of their ids.

    Args:
        comparison: two compared runs.

    Returns:
        The keys of `problems` in the JSON (docs/json.md), null where there is no value, then question and gold answer.
    """
    rows = detail(comparison)
    tally = rows.tally
    counts = {
        f"{letter}_{side}": count_PR[:, r].tolist()
        for r, side in ((BEFORE, "before"), (AFTER, "after"))
        for letter, count_PR in (("n", tally.drawn_PR), ("c", tally.correct_PR))
    }
    columns = {
        "id": rows.problems["problem"],
        "benchmark": rows.problems["benchmark"],
        "class": rows.class_P.tolist(),
        **counts,
        "p": rows.p_P.tolist(),
        "q": rows.q_P.tolist(),
        "change": [change or None for change in rows.change_P.tolist()],
        "p_class": rows.p_class_P.tolist(),
        "q_class": rows.q_class_P.tolist(),
        "question": rows.problems["question"],
        "gold": rows.problems["gold"],
    }
    return pl.DataFrame(columns, schema_overrides={"change": pl.String}).with_columns(
        pl.col("p", "q", "p_class", "q_class").fill_nan(None)
    )


def _classes(comparison: Comparison, own: bool) -> Text:
    """The class of each problem, by all of its samples or the first k; of a run that stopped early, by its record."""
    tally, change, question = comparison.counted.tally, comparison.change, comparison.question
    if (tally.until_R > 0).any():
        first_PR = tally.first_PR
        stopped_PR = (first_PR >= 0) & (first_PR < change.k)
        state_PR = np.where(np.where(tally.until_R > 0, stopped_PR, tally.head_PR >= 1), IN, OUT)
    else:
        drawn_PR = tally.drawn_PR if own else np.full_like(tally.drawn_PR, change.k)
        correct_PR = tally.correct_PR if own else tally.head_PR
        state_PR = states(drawn_PR, correct_PR, change.rule, change.k, question.tau, question.zeta)
    reached_PR, known_P = state_PR == IN, (state_PR != UNDETERMINED).all(axis=1)
    names = np.array([["O", "E"], ["S", "P"]])  # before, after
    return np.where(
        known_P, names[reached_PR[:, BEFORE].astype(int), reached_PR[:, AFTER].astype(int)], UNDETERMINED_CLASS
    )


def _rates(tally: Tally) -> Float:
    """Success rates; a record that stopped at success m of N samples has (m-1)/(N-1): m/N is biased (Haldane 1945)."""
    plain = tally.correct_PR / np.maximum(tally.drawn_PR, 1)
    ended = (tally.correct_PR - 1) / np.maximum(tally.drawn_PR - 1, 1)
    short = tally.stopped_PR & (tally.correct_PR > 1)
    return np.where(short, ended, plain)


def _p_of_change(comparison: Comparison) -> tuple[Float, str]:
    """Fisher's exact test of each problem, twice the smaller tail, on all samples; and why there is none."""
    tally = comparison.counted.tally
    if (tally.until_R > 0).any():
        why = "a run stopped at a success, so its rates are not shares of a fixed number of samples"
        return np.full(len(tally), np.nan), why
    if _is_greedy(comparison):
        return np.full(len(tally), np.nan), GREEDY
    low_P, high_P = _p_fell_and_rose(tally.drawn_PR, tally.correct_PR)
    return np.asarray(np.minimum(1.0, 2 * np.minimum(low_P, high_P))), ""


def _p_of_class(comparison: Comparison, class_P: Text) -> tuple[Float, str]:
    """One-sided test of each loss (class S) and each gain (class E), NaN for the others; and why there is none."""
    tally, k = comparison.counted.tally, comparison.change.k
    nan_P = np.full(len(tally), np.nan)
    if _is_greedy(comparison):
        return nan_P, GREEDY
    if not (tally.until_R > 0).any():
        low_P, high_P = _p_fell_and_rose(tally.drawn_PR, tally.correct_PR)
    elif (tally.budget_R == k).all():
        low_P, high_P = loss_p_of_stopped(tally, BEFORE, AFTER), loss_p_of_stopped(tally, AFTER, BEFORE)
    else:
        return nan_P, f"runs that stopped early include successes beyond k = {k}"
    return np.where(class_P == "S", low_P, np.where(class_P == "E", high_P, np.nan)), ""


def _q_of_class(comparison: Comparison, p_class_P: Float, class_P: Text) -> Float:
    """Losses and gains are two lists, each corrected over all problems of all runs: those of comparing/evidence.py.

    Under another rule than `seen` the classes are not those of the lists: corrected over the problems, times the runs.
    """
    q_P, evidence = np.full(len(class_P), np.nan), comparison.evidence
    listed = {"S": evidence.q_lost_P, "E": evidence.q_gained_P} if comparison.change.rule is Rule.SEEN else {}
    for name in ("S", "E"):
        in_class_P = (class_P == name) & ~np.isnan(p_class_P)
        if not in_class_P.any():
            continue
        joint_P = listed.get(name)
        if joint_P is None:
            joint_P = benjamini_hochberg(np.minimum(np.where(in_class_P, p_class_P, 1.0) * evidence.runs_tested, 1.0))
        q_P[in_class_P] = joint_P[in_class_P]
    return q_P


def _p_fell_and_rose(drawn_P2: Integer, correct_P2: Integer) -> tuple[Float, Float]:
    """Fisher's one-sided p of each problem: that its rate fell, and that it rose."""
    total_P = drawn_P2.sum(axis=1), correct_P2.sum(axis=1), drawn_P2[:, AFTER]
    after_P = correct_P2[:, AFTER]
    return hypergeometric_at_most(after_P, *total_P), hypergeometric_at_least(after_P, *total_P)


def _is_greedy(comparison: Comparison) -> bool:
    return is_greedy(comparison.before) or is_greedy(comparison.after)


def _readable_statistic(run: Answers, statistic: Statistic, problems: int, n: ArrayLike) -> Float:
    """A statistic of the readable answers: unread samples have code -1 and are left out."""
    seen = run.answer_A >= 0
    return statistic(run.count_A[seen], run.problem_A[seen], problems, n)
