"""Splitting k samples between base and RL model: coverage of every split, and what the best one gains.

The gain is the coverage of the best split minus that of the better run alone: 0 where no split is better, never less.
The largest of many noisy coverages looks better than it is, so two devices keep the gain honest. Its estimate values a
split on problems that had no part in choosing it. Its interval comes from bounds that hold for every split and both
comparisons at once, so choosing among them costs nothing: its lower end is above 0 only where one split is
significantly better than the base alone and than the RL model alone.
"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

from offleash.stats.intervals import LEVEL, MIN_EFFECTIVE_PROBLEMS, NO_INTERVAL, Interval, problem_sums, pseudo_weights
from offleash.stats.pass_at_k import log_miss_stopped

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]

MAX_SPLITS = 65
Z_95 = 1.959964  # normal quantile of a two-sided interval at LEVEL
TIE_TOLERANCE = 1e-12  # coverages nearer than this are equal: a run alone is then preferred to a split


@dataclass(frozen=True)
class Portfolio:
    """Coverage of k samples split into `base_S` by the base and k - base_S by the RL model.

    `best` is chosen on all problems, so its own entry of `coverage_S` is biased upwards. `value` is not: the split is
    chosen on one half of the problems and valued on the other. `gain` is what `value` exceeds the better run alone by,
    0 where it does not. `gain_low` and `gain_high` are the ends of the 95% interval of the gain of the best split.
    """

    k: int
    problems: int
    left_out: int  # problems with fewer than k samples in either run
    base_S: Ints
    coverage_S: Floats
    best: int | None  # samples by the base; None: no problem, or all from one run or the other makes no difference
    value: float
    all_base: float
    all_rl: float
    gain: float
    gain_low: float
    gain_high: float


@dataclass(frozen=True)
class PortfolioCurve:
    """The best split at each budget: the base's share of the samples, its cross-fitted coverage and gain."""

    budget_K: Ints
    share_K: Floats
    value_K: Floats
    all_base_K: Floats
    all_rl_K: Floats
    gain_K: Floats
    gain_low_K: Floats
    gain_high_K: Floats


def portfolio(
    drawn_P2: ArrayLike,
    correct_P2: ArrayLike,
    k: int,
    *,
    stopped_P2: ArrayLike = False,
    budget_2: ArrayLike = 0,
    halvings: int = 10,
    replicates: int = 2000,
    seed: int = 0,
) -> Portfolio:
    """Expected coverage of k samples for every split between two runs (columns: base, RL), and what the best one gains.

    The quantity estimated is max over splits of C - max(C all base, C all RL), C being the mean coverage over problems
    like these. It is at least 0, and 0 for the same model twice, for a run that is better on every problem, and for one
    that solves nothing. Differences of a split to either run alone are resampled over problems, with two
    pseudo-problems of +1 and -1 (Gamma(1/2) weights) so that few problems cannot look like none; their bounds are
    simultaneous over splits (max-t), with Student's t for few problems. The gain is between the largest lower and the
    largest upper bound. Records that `stopped` at their last success have the whole `budget` of their run.

    Args:
        drawn_P2: samples of each problem in the base and in the RL model.
        correct_P2: correct ones among them.
        k: samples to split.
        stopped_P2: whether a record ended at its last success.
        budget_2: the samples that such a record would have had.
        halvings: random halves of the problems that the cross-fit averages over.
        replicates: bootstrap replicates.
        seed: of the halves and the replicates.

    Returns:
        Coverage of every split, the cross-fitted value of the best and its gain. NaN with fewer than two problems that
        have k samples of both; no interval with fewer than eight.

    Example:
        >>> # each model solves a problem that the other cannot
        >>> split = portfolio([[8, 8]] * 4, [[8, 0], [0, 8], [8, 0], [0, 8]], k=4, replicates=50)
        >>> split.best, split.coverage_S
        (2, array([0.5, 1. , 1. , 1. , 0.5]))
    """
    drawn, correct = np.asarray(drawn_P2, dtype=np.int64), np.asarray(correct_P2, dtype=np.int64)
    stopped = np.broadcast_to(np.asarray(stopped_P2, dtype=bool), drawn.shape)
    budget = np.broadcast_to(np.asarray(budget_2, dtype=np.int64), drawn.shape)
    enough_P = (np.where(stopped, budget, drawn) >= k).all(axis=1)
    problems, base_S = int(enough_P.sum()), _splits(k)
    reach_PS = _reach(drawn[enough_P], correct[enough_P], stopped[enough_P], budget[enough_P], k, base_S)
    nan = float("nan")
    if problems == 0:
        nan_S = np.full(base_S.size, np.nan)
        return Portfolio(k, 0, enough_P.size, base_S, nan_S, None, nan, nan, nan, nan, nan, nan)
    coverage_S = reach_PS.mean(axis=0)
    all_rl, all_base = float(coverage_S[0]), float(coverage_S[-1])
    rate_P2 = -np.expm1(log_miss_stopped(drawn[enough_P], correct[enough_P], stopped[enough_P], budget[enough_P], 1))
    best = _best(coverage_S, base_S, rate_P2.mean(axis=0))
    value = _cross_fit(reach_PS, base_S, _halves(problems, halvings, seed)) if problems > 1 else nan
    gain = value - max(all_base, all_rl)
    gain = 0.0 if gain < TIE_TOLERANCE else gain  # NaN stays
    ends = _gain_interval(reach_PS, gain, replicates, seed)
    left_out = enough_P.size - problems
    return Portfolio(
        k, problems, left_out, base_S, coverage_S, best, value, all_base, all_rl, gain, ends.low, ends.high
    )


def portfolio_curve(
    drawn_P2: ArrayLike,
    correct_P2: ArrayLike,
    budgets_K: ArrayLike | None = None,
    *,
    halvings: int = 10,
    replicates: int = 2000,
    seed: int = 0,
) -> PortfolioCurve:
    """The portfolio over budgets: by default the powers of two up to the fewest samples any problem has.

    Args:
        drawn_P2: samples of each problem in the base and in the RL model.
        correct_P2: correct ones among them.
        budgets_K: the budgets.
        halvings: random halves of the problems that the cross-fit averages over.
        replicates: bootstrap replicates.
        seed: of the halves and the replicates.

    Returns:
        The best split at each budget.

    Example:
        >>> curve = portfolio_curve([[8, 8]] * 4, [[8, 0], [0, 8], [8, 0], [0, 8]], [2, 4], replicates=50)
        >>> curve.budget_K, curve.share_K
        (array([2, 4]), array([0.5, 0.5]))
    """
    drawn = np.asarray(drawn_P2, dtype=np.int64)
    if budgets_K is None:
        min_drawn = int(drawn.min(initial=1 << 40)) if drawn.size else 0
        budgets_K = 2 ** np.arange(min_drawn.bit_length())
    budget_K = np.atleast_1d(np.asarray(budgets_K, dtype=np.int64))
    portfolios = [
        portfolio(drawn, correct_P2, int(k), halvings=halvings, replicates=replicates, seed=seed) for k in budget_K
    ]
    return PortfolioCurve(
        budget_K,
        np.array([np.nan if result.best is None else result.best / result.k for result in portfolios]),
        np.array([result.value for result in portfolios]),
        np.array([result.all_base for result in portfolios]),
        np.array([result.all_rl for result in portfolios]),
        np.array([result.gain for result in portfolios]),
        np.array([result.gain_low for result in portfolios]),
        np.array([result.gain_high for result in portfolios]),
    )


def _splits(k: int) -> Ints:
    if k < 1:
        raise ValueError(f"a budget needs at least one sample, got k={k}")
    base_S = np.rint(np.linspace(0, k, min(k + 1, MAX_SPLITS))).astype(np.int64)
    return np.union1d(base_S, k - base_S)  # with the mirror image of a middle that was rounded


def _reach(
    drawn_P2: Ints, correct_P2: Ints, stopped_P2: NDArray[np.bool_], budget_P2: Ints, k: int, base_S: Ints
) -> Floats:
    log_base_PS = log_miss_stopped(drawn_P2[:, :1], correct_P2[:, :1], stopped_P2[:, :1], budget_P2[:, :1], base_S)
    log_rl_PS = log_miss_stopped(drawn_P2[:, 1:], correct_P2[:, 1:], stopped_P2[:, 1:], budget_P2[:, 1:], k - base_S)
    return np.asarray(-np.expm1(log_base_PS + log_rl_PS))


def _chosen(coverage_S: Floats, base_S: Ints) -> NDArray[np.intp]:
    """Indices of the best split: of equal ones a run alone, otherwise the most even. Two where both ends are equal."""
    equal = np.flatnonzero(coverage_S >= coverage_S.max() - TIE_TOLERANCE)
    imbalance_S = np.abs(2 * base_S - base_S[-1])
    single_run = equal[imbalance_S[equal] == base_S[-1]]
    return np.asarray(single_run if single_run.size else equal[imbalance_S[equal] == imbalance_S[equal].min()])


def _best(coverage_S: Floats, base_S: Ints, rate_2: Floats) -> int | None:
    """Samples by the base in the best split; None where either run alone does as well as every split.

    Of two splits that are mirror images, the one with more by the run with the higher pass@1, else by the base.
    """
    chosen = _chosen(coverage_S, base_S)
    if chosen.size > 1 and chosen[0] == 0:
        return None
    return int(base_S[chosen[0 if rate_2[0] < rate_2[1] - TIE_TOLERANCE else -1]])


def _halves(problems: int, halvings: int, seed: int) -> NDArray[np.bool_]:
    rng = np.random.default_rng([seed, 0])
    first_P = np.arange(problems) < problems // 2
    return np.stack([rng.permutation(first_P) for _ in range(halvings)])


def _cross_fit(reach_PS: Floats, base_S: Ints, half_HP: NDArray[np.bool_]) -> float:
    """Coverage of the split chosen on one half, on the other, over all halvings.

    It never exceeds the coverage of the best split on all problems: with weights w, v of the halves and s, t chosen on
    the second and the first, w C1(s) + v C2(s) and w C1(t) + v C2(t) are both at most the maximum, and replacing C2(s)
    by C2(t) and C1(t) by C1(s) makes them smaller.
    """
    value = 0.0
    for half_P in half_HP:
        first_S, second_S = reach_PS[half_P].mean(axis=0), reach_PS[~half_P].mean(axis=0)
        value += half_P.mean() * first_S[_chosen(second_S, base_S)].mean()
        value += (1 - half_P.mean()) * second_S[_chosen(first_S, base_S)].mean()
    return float(value / len(half_HP))


def _gain_interval(reach_PS: Floats, gain: float, replicates: int, seed: int) -> Interval:
    """Bounds of C(split) - C(run alone), together for all splits and both runs, and from them those of the gain."""
    problems, splits = reach_PS.shape
    if problems < MIN_EFFECTIVE_PROBLEMS:
        return NO_INTERVAL
    if splits == 2:
        return Interval(0.0, 0.0)  # one sample cannot be split
    inner_PI = reach_PS[:, 1:-1]
    difference_PD = np.concatenate([inner_PI - reach_PS[:, :1], inner_PI - reach_PS[:, -1:]], axis=1)
    pseudo_B2 = pseudo_weights(2, problems, replicates, seed)
    sums_BD = problem_sums(difference_PD, np.zeros(problems, dtype=np.int64), replicates, seed)
    replicate_BD = (sums_BD + pseudo_B2 @ np.array([[1.0], [-1.0]])) / (problems + pseudo_B2.sum(axis=1, keepdims=True))
    deviation_BD = replicate_BD - replicate_BD.mean(axis=0)
    spread_D = replicate_BD.std(axis=0)
    # Student's t over the normal quantile by Fisher's expansion, to 0.001 from 7 degrees of freedom; needs no scipy
    z, inverse = Z_95, 1 / (problems - 1)
    t_factor = 1 + (z**2 + 1) * inverse / 4 + (5 * z**4 + 16 * z**2 + 3) * inverse**2 / 96
    t_factor += (3 * z**6 + 19 * z**4 + 17 * z**2 - 15) * inverse**3 / 384
    width_D = t_factor * np.quantile(np.abs(deviation_BD / spread_D).max(axis=1), LEVEL) * spread_D
    mean_D = difference_PD.mean(axis=0)
    # a split gains what it exceeds the better run by; a run alone, also a choice, gains 0
    low, high = (max(float(np.minimum(*np.split(mean_D + sign * width_D, 2)).max()), 0.0) for sign in (-1.0, 1.0))
    return Interval(min(low, gain), max(high, gain))
