"""Which losses and gains are significant: a lower bound on their number, lists of problems, and robustness.

Several runs after the first are several looks: bounds share one error (`joint_confidence`), lists are made over all
problems of all runs (`joint_lists`). What a study could have shown is in stats/power.py.

Built on the null distributions of stats/chance.py; comparing/evidence.py applies it to two runs.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import ArrayLike, NDArray

from offleash.data.tally import Tally
from offleash.stats.binomials import Float, Integer, hypergeometric_at_most, log_miss
from offleash.stats.chance import benjamini_hochberg, holm, lost_by_exchange, upper_tail
from offleash.stats.intervals import Interval
from offleash.stats.support_classes import AFTER, BEFORE, ratio, reach_PRK

Flags = NDArray[np.bool_]

CONFIDENCE = 0.95
FDR = 0.05  # false discovery rate of the lists
TIE_FACTOR = 1 + 1e-9  # a p-value that is the threshold but for rounding, as 1/20 of 3 against 0 in 3, does not miss it


@dataclass(frozen=True)
class Strength:
    """How many of the lost or gained problems rest on 1, on 2 to 4, and on 5 or more successes."""

    weak: int
    middle: int
    strong: int


@dataclass(frozen=True)
class ProblemTests:
    """One-sided p-values of every problem of two runs, one vector per kind of change; 1 where it was not seen."""

    lost_P: Float
    gained_P: Float
    fallen_P: Float
    risen_P: Float


@dataclass(frozen=True)
class Lists:
    """Problems (rows of the tally) whose change survives Benjamini-Hochberg over all problems of all runs."""

    lost: Integer
    gained: Integer
    fallen: Integer  # the rate fell, and the problem is still reached
    risen: Integer


def joint_confidence(bounds: int) -> float:
    """The confidence of each of several bounds that hold together with 95% confidence (Bonferroni).

    Losses and gains are two bounds; with R runs after the first there are 2 R of them, and the statement that is
    printed is about all. Nothing is assumed of their dependence: the runs share the samples of the first.

    Args:
        bounds: how many bounds are printed together.

    Returns:
        The confidence of each.

    Example:
        >>> joint_confidence(2), round(joint_confidence(40), 6)
        (0.975, 0.99875)
    """
    return 1 - (1 - CONFIDENCE) / max(bounds, 1)


def losses_at_least(drawn_P2: Integer, correct_P2: Integer, confidence: float = CONFIDENCE) -> int:
    """Lost problems whose rate fell, at least this many: the larger of a bound by count and one by problem.

    By count: without the m most significant S problems, the number of S left is one that an unchanged model could show.
    By problem: Holm over all problems. Each bound takes half of the error, so their maximum keeps the confidence.

    Args:
        drawn_P2: samples of each problem in the run before and the run after.
        correct_P2: correct ones among them.
        confidence: of the bound.

    Returns:
        The bound; 0 where the data show none.

    Example:
        >>> drawn_P2 = np.full((3, 2), 16)
        >>> correct_P2 = np.array([[9, 0], [1, 0], [4, 5]])
        >>> losses_at_least(drawn_P2, correct_P2)
        1
    """
    alpha = (1 - confidence) / 2
    return max(_bound_by_count(drawn_P2, correct_P2, alpha), holm_rejections(loss_p(drawn_P2, correct_P2), alpha))


def gains_at_least(drawn_P2: Integer, correct_P2: Integer, confidence: float = CONFIDENCE) -> int:
    """Gained problems whose rate rose, at least this many with the given confidence.

    Args:
        drawn_P2: samples of each problem in the run before and the run after.
        correct_P2: correct ones among them.
        confidence: of the bound.

    Returns:
        The bound; 0 where the data show none.

    Example:
        >>> drawn_P2 = np.full((3, 2), 16)
        >>> correct_P2 = np.array([[9, 0], [1, 0], [4, 5]])
        >>> gains_at_least(drawn_P2, correct_P2)
        0
    """
    return losses_at_least(drawn_P2[:, ::-1], correct_P2[:, ::-1], confidence)


def loss_p(drawn_P2: Integer, correct_P2: Integer) -> Float:
    """One-sided Fisher p of each problem for a loss: every success before and none after, else 1.

    Args:
        drawn_P2: samples of each problem in the run before and the run after.
        correct_P2: correct ones among them.

    Returns:
        A p-value per problem.

    Example:
        >>> drawn_P2 = np.full((3, 2), 16)
        >>> correct_P2 = np.array([[9, 0], [1, 0], [4, 5]])
        >>> loss_p(drawn_P2, correct_P2).round(4)
        array([4.e-04, 5.e-01, 1.e+00])
    """
    lost_P = (correct_P2[:, BEFORE] >= 1) & (correct_P2[:, AFTER] == 0)
    return np.where(lost_P, lost_by_exchange(drawn_P2, correct_P2), 1.0)


def loss_p_stopped(stop_P: Integer, until: int, budget: int, correct_P2: Integer, stopped_P: Flags) -> Float:
    """A valid p for a loss when the run before stopped on sample N at its m-th success: C(N, m)/C(N+B, m).

    Args:
        stop_P: the sample N on which the run before stopped, or its budget.
        until: the m-th success at which it stopped.
        budget: samples B of each problem in the run after.
        correct_P2: correct samples before and after.
        stopped_P: whether the run before stopped.

    Returns:
        A p-value per problem: the bound holds for any rate, since stopping at a success favours none.

    Example:
        >>> loss_p_stopped(np.array([40, 64]), 5, 64, np.array([[5, 0], [2, 1]]), np.array([True, False])).round(4)
        array([0.0072, 1.    ])
    """
    lost_P = (correct_P2[:, BEFORE] >= 1) & (correct_P2[:, AFTER] == 0)
    hits_P = np.where(stopped_P, until, correct_P2[:, BEFORE])
    bound_P = np.exp(log_miss(stop_P + budget, budget, hits_P))
    return np.where(lost_P, bound_P, 1.0)


def fall_p(drawn_P2: Integer, correct_P2: Integer) -> Float:
    """One-sided Fisher p of each problem for a fall of its rate that keeps the problem reached, else 1.

    Args:
        drawn_P2: samples of each problem in the run before and the run after.
        correct_P2: correct ones among them.

    Returns:
        A p-value per problem.

    Example:
        >>> fall_p(np.full((2, 2), 16), np.array([[12, 3], [12, 0]])).round(4)
        array([0.0019, 1.    ])
    """
    total_P, drawn_P = correct_P2.sum(axis=1), drawn_P2.sum(axis=1)
    tail_P = hypergeometric_at_most(correct_P2[:, AFTER], drawn_P, total_P, drawn_P2[:, AFTER])
    return np.where(correct_P2[:, AFTER] >= 1, tail_P, 1.0)


def problem_tests(drawn_P2: Integer, correct_P2: Integer) -> ProblemTests:
    """p-values of every problem for a loss, a gain, a fall and a rise of its rate.

    Args:
        drawn_P2: samples of each problem in the run before and the run after; the numbers may differ.
        correct_P2: correct ones among them.

    Returns:
        Four vectors of p-values.

    Example:
        >>> problem_tests(np.full((2, 2), 16), np.array([[9, 0], [0, 1]])).gained_P
        array([1. , 0.5])
    """
    swapped = drawn_P2[:, ::-1], correct_P2[:, ::-1]
    return ProblemTests(loss_p(drawn_P2, correct_P2), loss_p(*swapped), fall_p(drawn_P2, correct_P2), fall_p(*swapped))


def lists(drawn_P2: Integer, correct_P2: Integer, rate: float = FDR) -> Lists:
    """Lost, gained, fallen and risen problems at a false discovery rate, each list over all problems.

    Args:
        drawn_P2: samples of each problem in the run before and the run after.
        correct_P2: correct ones among them.
        rate: the false discovery rate.

    Returns:
        Rows of the four lists, most significant first.

    Example:
        >>> drawn_P2 = np.full((3, 2), 16)
        >>> correct_P2 = np.array([[9, 0], [1, 0], [4, 5]])
        >>> lists(drawn_P2, correct_P2).lost
        array([0])
    """
    return joint_lists([problem_tests(drawn_P2, correct_P2)], rate)[0]


def joint_lists(tests: Sequence[ProblemTests], rate: float = FDR) -> list[Lists]:
    """The lists of several runs against one, each kind of change corrected over all problems of all runs.

    With one list per run, each at 5%, twenty runs that changed nothing would show a loss in every other study.

    Args:
        tests: p-values of each run against the first.
        rate: the false discovery rate of all lists of one kind together.

    Returns:
        The lists of each run.

    Example:
        >>> alone = problem_tests(np.full((2, 2), 16), np.array([[6, 0], [3, 3]]))
        >>> joint_lists([alone])[0].lost, joint_lists([alone] * 2 + [problem_tests(*np.full((2, 50, 2), 16))])[0].lost
        (array([0]), array([], dtype=int64))
    """
    by_kind = []
    for kind in ("lost_P", "gained_P", "fallen_P", "risen_P"):
        p_R = [getattr(tests_of_run, kind) for tests_of_run in tests]
        adjusted_R = np.split(benjamini_hochberg(np.concatenate(p_R)), np.cumsum([len(p_P) for p_P in p_R])[:-1])
        by_kind.append([_listed_problems(p_P, q_P, rate) for p_P, q_P in zip(p_R, adjusted_R, strict=True)])
    return [Lists(*rows) for rows in zip(*by_kind, strict=True)]


def list_level(p_P: Float, rate: float = FDR) -> float:
    """The p-value up to which Benjamini-Hochberg lists a problem, given all p-values of the list.

    With R problems listed it is R rate/N; with none, the level at which a first one would be listed, rate/N. Every
    listed p is at most this, and every other one above it.

    Args:
        p_P: all p-values that the list was made from, of all problems and runs.
        rate: the false discovery rate.

    Returns:
        The level.

    Example:
        >>> round(list_level(np.array([0.2, 0.001, 0.01, 1.0])), 4)
        0.025
    """
    listed_count = int((benjamini_hochberg(p_P) <= rate * TIE_FACTOR).sum())
    return max(listed_count, 1) * rate / max(len(p_P), 1)


def discoveries(p_P: Float, rate: float = FDR) -> Integer:
    """Rows that are significant after Benjamini-Hochberg, most significant first.

    Args:
        p_P: p-values.
        rate: the false discovery rate.

    Returns:
        The rows.

    Example:
        >>> discoveries(np.array([0.2, 0.001, 0.01]))
        array([1, 2])
    """
    return _listed_problems(p_P, benjamini_hochberg(p_P), rate)


def _listed_problems(p_P: Float, adjusted_P: Float, rate: float) -> Integer:
    """Rows whose adjusted p-value is at most the rate, smallest p first."""
    rows = np.flatnonzero(adjusted_P <= rate * TIE_FACTOR)
    return rows[np.argsort(p_P[rows], kind="stable")]


def holm_rejections(p_P: Float, alpha: float = 1 - CONFIDENCE) -> int:
    """How many problems are significant after Holm: with confidence 1-alpha none of them is a false alarm.

    Args:
        p_P: p-values.
        alpha: the chance of any false alarm.

    Returns:
        Their number.

    Example:
        >>> holm_rejections(np.array([0.2, 0.001, 0.01]))
        2
    """
    return int((holm(p_P) <= alpha * TIE_FACTOR).sum())


def strength(correct_P2: Integer) -> dict[str, Strength]:
    """E and S by the number of successes on the side that has them; chance gives c against 0 about 2^-c of the time.

    Args:
        correct_P2: correct ones among them.

    Returns:
        Strength by cell, E and S.

    Example:
        >>> drawn_P2 = np.full((3, 2), 16)
        >>> correct_P2 = np.array([[9, 0], [1, 0], [4, 5]])
        >>> strength(correct_P2)['S']
        Strength(weak=1, middle=0, strong=1)
    """
    before_P, after_P = correct_P2[:, BEFORE], correct_P2[:, AFTER]
    return {"E": _strength(after_P[before_P == 0]), "S": _strength(before_P[after_P == 0])}


def _strength(correct_P: Integer) -> Strength:
    weak = int((correct_P == 1).sum())
    middle = int(((correct_P >= 2) & (correct_P <= 4)).sum())
    return Strength(weak, middle, int((correct_P >= 5).sum()))


def _bound_by_count(drawn_P2: Integer, correct_P2: Integer, alpha: float) -> int:
    chance_P = lost_by_exchange(drawn_P2, correct_P2)
    lost = np.flatnonzero((correct_P2[:, BEFORE] >= 1) & (correct_P2[:, AFTER] == 0))
    lost = lost[np.argsort(chance_P[lost], kind="stable")]

    def explains_loss(dropped_count: int) -> bool:
        remaining_P = np.delete(chance_P, lost[:dropped_count])
        return upper_tail(remaining_P, len(lost) - dropped_count)[0] > alpha * TIE_FACTOR

    low, high = 0, len(lost)  # the tail grows with every problem dropped, so the least m is found by halving
    while low < high:
        middle = (low + high) // 2
        low, high = (low, middle) if explains_loss(middle) else (middle + 1, high)
    return low


# How the table could mislead: split-half confirmation, verifier errors and undecided samples.


@dataclass(frozen=True)
class Confirmation:
    """Lost (or gained) problems that show in both halves of the samples, and how many a redraw would confirm."""

    confirmed: float
    redraw: float


def confirmation(drawn_P2: Integer, correct_P2: Integer) -> dict[str, Confirmation]:
    """S and E that a split of the samples would confirm, in expectation over all splits, without splitting.

    Args:
        drawn_P2: samples of each problem in the run before and the run after.
        correct_P2: correct ones among them.

    Returns:
        Confirmation by cell, S and E.

    Example:
        >>> drawn_P2 = np.full((3, 2), 16)
        >>> correct_P2 = np.array([[9, 0], [1, 0], [4, 5]])
        >>> round(confirmation(drawn_P2, correct_P2)['S'].confirmed, 3)
        1.0
    """
    swapped = drawn_P2[:, ::-1], correct_P2[:, ::-1]
    return {"S": _confirmed(drawn_P2, correct_P2), "E": _confirmed(*swapped)}


def tipping_rate(reached_alone: float, neither: float, k: int) -> float:
    """False-positive rate per sample, in one run only, that would explain all problems that this run alone reached.

    The candidates are those problems and the ones that neither run reached. A verifier that judged both runs has its
    false positives in both: see `shared_tipping_rate`.

    Args:
        reached_alone: problems that one run alone reached.
        neither: problems that neither reached.
        k: samples per problem.

    Returns:
        The rate; NaN when there is no such rate below 1.

    Example:
        >>> round(tipping_rate(5, 20, 256), 6)
        0.000871
    """
    if reached_alone <= 0 or neither <= 0 or k <= 0:
        return float("nan")
    return float(-np.expm1(np.log1p(-reached_alone / (reached_alone + neither)) / k))


def shared_tipping_rate(E: float, S: float, neither: float, k: int) -> float:
    """False-positive rate per sample, the same in both runs, that would explain all of E and S together.

    Of M problems that nobody solves, a share r(1-r) shows in either run alone, r = 1 - (1-rate)^k: as many gains as
    losses. No such rate explains that one is much larger than the other; the split is McNemar's test.

    Args:
        E: problems that only the run after reached.
        S: problems that only the run before reached.
        neither: problems that neither reached.
        k: samples per problem.

    Returns:
        The smallest rate; NaN where there is none, since at most half of the problems show in one run alone.

    Example:
        >>> round(shared_tipping_rate(5, 5, 90, 256), 6)
        0.000212
    """
    total = E + S + neither
    if E + S <= 0 or k <= 0 or total < 2 * (E + S):
        return np.nan
    reached = (1 - np.sqrt(1 - 2 * (E + S) / total)) / 2  # the smaller root of 2 r (1 - r) = (E + S)/M
    return float(-np.expm1(np.log1p(-reached) / k))


def reached_by_error(rate: float, k: int) -> float:
    """Share of impossible problems that a false-positive rate per sample puts into the support at budget k.

    Args:
        rate: false positives per sample.
        k: samples per problem.

    Returns:
        1 - (1-rate)^k.

    Example:
        >>> round(reached_by_error(1e-4, 8192), 2)
        0.56
    """
    return float(-np.expm1(k * np.log1p(-rate)))


def undecided_bounds(tally: Tally, k: int) -> dict[str, Interval]:
    """The least and the most that P, E, S, O, SRR, NDR and NSCR can be, however undecided samples turn out.

    Failed and unverified samples of either run may be right or wrong, each by itself. The extremes of E and S are the
    crossed assignments: S is largest where all of the run before are right and all of the run after wrong.

    Args:
        tally: a tally of two runs.
        k: the budget, by the rule `seen`.

    Returns:
        Both ends by name; NaN where a ratio is undefined under every assignment.

    Example:
        >>> from dataclasses import replace
        >>> tally = replace(ol.tally_of_counts(8, [[4, 0], [0, 3]]), failed_PR=np.array([[0, 2], [1, 0]]))
        >>> bounds = undecided_bounds(tally, 8)
        >>> bounds['S'], bounds['SRR']
        (Interval(low=0.0, high=1.0), Interval(low=0.0, high=1.0))
    """
    drawn_PR = tally.drawn_PR + tally.unverified_PR
    right_PR = tally.correct_PR + tally.failed_PR + tally.unverified_PR
    low, high = (
        reach_PRK(replace(tally, drawn_PR=drawn_PR, correct_PR=correct_PR), np.array([k]))[:, :, 0]
        for correct_PR in (tally.correct_PR, right_PR)
    )
    a_low, b_low, a_high, b_high = low[:, BEFORE], low[:, AFTER], high[:, BEFORE], high[:, AFTER]

    def ends(least: ArrayLike, most: ArrayLike) -> Interval:
        return Interval(*np.asarray([least, most], dtype=np.float64).tolist())

    # every cell grows with one chance and falls with the other; so does NSCR, since |E - S| is at most P + E + S
    return {
        "P": ends((a_low * b_low).sum(), (a_high * b_high).sum()),
        "E": ends(((1 - a_high) * b_low).sum(), ((1 - a_low) * b_high).sum()),
        "S": ends((a_low * (1 - b_high)).sum(), (a_high * (1 - b_low)).sum()),
        "O": ends(((1 - a_high) * (1 - b_high)).sum(), ((1 - a_low) * (1 - b_low)).sum()),
        "SRR": ends(0.0 - _largest_mean(-b_low, a_low, a_high), _largest_mean(b_high, a_low, a_high)),
        "NDR": ends(1 - _largest_mean(a_high, b_low, b_high), 1 + _largest_mean(-a_low, b_low, b_high)),
        "NSCR": ends(_net_rate(a_high, b_low), _net_rate(a_low, b_high)),
    }


def _largest_mean(value_P: Float, low_P: Float, high_P: Float) -> float:
    """The largest mean of the values with weights between two ends; NaN where nothing can weigh.

    It has the upper weight on all values above some point and the lower on all others, so only the order is searched.
    """
    order = np.argsort(-value_P, kind="stable")
    value, low, high = value_P[order], low_P[order], high_P[order]
    zero = np.zeros(1)
    weight_M = np.concatenate([zero, np.cumsum(high - low)]) + low.sum()
    total_M = np.concatenate([zero, np.cumsum((high - low) * value)]) + float((low * value).sum())
    mean_M = np.divide(total_M, weight_M, out=np.full_like(total_M, -np.inf), where=weight_M > 1e-12)
    largest = float(mean_M.max())
    return largest if np.isfinite(largest) else float("nan")


def _net_rate(a_P: Float, b_P: Float) -> float:
    """NSCR from the chances of both runs."""
    P, E, S = (a_P * b_P).sum(), ((1 - a_P) * b_P).sum(), (a_P * (1 - b_P)).sum()
    return float(ratio("NSCR", P, E, S, len(a_P)))


def _confirmed(drawn_P2: Integer, correct_P2: Integer) -> Confirmation:
    drawn_P, correct_P = drawn_P2[:, BEFORE], correct_P2[:, BEFORE]
    lost_P = (correct_P >= 1) & (correct_P2[:, AFTER] == 0)
    total_P = correct_P2.sum(axis=1)
    return Confirmation(
        float(_both_halves(drawn_P, correct_P)[lost_P].sum()),
        float((lost_by_exchange(drawn_P2, correct_P2) * _both_halves(drawn_P, np.minimum(total_P, drawn_P))).sum()),
    )


def _both_halves(drawn_P: Integer, correct_P: Integer) -> Float:
    """Chance that both halves of a random split hold a success; 0 for fewer than two."""
    even_count_P = drawn_P - drawn_P % 2  # of an odd number one sample is set aside
    miss_P = np.exp(log_miss(drawn_P, correct_P, even_count_P // 2))
    neither_P = np.exp(log_miss(drawn_P, correct_P, even_count_P))
    return np.where(correct_P >= 2, 1 - 2 * miss_P + neither_P, 0.0)
