"""Splitting k samples between base and RL model: coverage of every split, and what the best one gains.

The best split is chosen on one half of the problems and valued on the other: on the same problems it would look
better than it is.
"""

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from offleash.stats.pass_at_k import log_miss_stopped

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]

MOST_SPLITS = 65
SAME_TOLERANCE = 1e-12  # coverages nearer than this are equal: the more even split is then taken
LEVEL = 0.95


@dataclass(frozen=True)
class Portfolio:
    """Coverage of k samples split into `base_S` by the base and k - base_S by the RL model.

    `value` and `gain` are cross-fitted: the split (and the better pure strategy) is chosen on one half of the problems
    and valued on the other. `best` is the split chosen on all problems; its own entry of `coverage_S` is flattered.
    """

    k: int
    problems: int
    left_out: int  # problems with fewer than k samples in either run
    base_S: Ints
    coverage_S: Floats
    best: int | None  # samples by the base
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

    Records that `stopped` at their last success have the whole `budget` of their run. The interval of the gain is the
    95% percentile one over Exp(1) weights of problems. NaN with fewer than two problems that have k samples of both.

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
        Coverage of every split, and the cross-fitted value and gain of the best.

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
    best = int(base_S[_choice(coverage_S[None], base_S)[0]])
    value = gain = low = high = nan
    if problems > 1:
        half_HP = _halves(problems, halvings, seed)
        point = _cross_fit(np.ones((1, problems)), reach_PS, base_S, half_HP)
        value, gain = float(point.value_B[0]), float(point.gain_B[0])
        weight_BP = np.random.default_rng([seed, 1]).standard_exponential((replicates, problems))
        gain_B = _cross_fit(weight_BP, reach_PS, base_S, half_HP).gain_B
        low, high = (float(q) for q in np.quantile(gain_B, [(1 - LEVEL) / 2, (1 + LEVEL) / 2]))
    single_model = float(coverage_S[-1]), float(coverage_S[0])
    left_out = enough_P.size - problems
    return Portfolio(k, problems, left_out, base_S, coverage_S, best, value, *single_model, gain, low, high)


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
        fewest = int(drawn.min(initial=1 << 40)) if drawn.size else 0
        budgets_K = 2 ** np.arange(fewest.bit_length())
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
    return np.unique(np.rint(np.linspace(0, k, min(k + 1, MOST_SPLITS)))).astype(np.int64)


def _reach(
    drawn_P2: Ints, correct_P2: Ints, stopped_P2: NDArray[np.bool_], budget_P2: Ints, k: int, base_S: Ints
) -> Floats:
    log_base_PS = log_miss_stopped(drawn_P2[:, :1], correct_P2[:, :1], stopped_P2[:, :1], budget_P2[:, :1], base_S)
    log_rl_PS = log_miss_stopped(drawn_P2[:, 1:], correct_P2[:, 1:], stopped_P2[:, 1:], budget_P2[:, 1:], k - base_S)
    return np.asarray(-np.expm1(log_base_PS + log_rl_PS))


def _choice(coverage_BS: Floats, base_S: Ints) -> NDArray[np.intp]:
    """Index of the best split of each replicate; of equal ones the most even, so that swapping the runs mirrors it."""
    imbalance_S = np.abs(2 * base_S - base_S[-1]) + 1.0
    best_BS = coverage_BS >= coverage_BS.max(axis=1, keepdims=True) - SAME_TOLERANCE
    return np.asarray(np.argmax(best_BS / imbalance_S, axis=1))


def _halves(problems: int, halvings: int, seed: int) -> NDArray[np.bool_]:
    rng = np.random.default_rng([seed, 0])
    first_P = np.arange(problems) < problems // 2
    return np.stack([rng.permutation(first_P) for _ in range(halvings)])


class _CrossFit(NamedTuple):
    value_B: Floats
    gain_B: Floats


def _cross_fit(weight_BP: Floats, reach_PS: Floats, base_S: Ints, half_HP: NDArray[np.bool_]) -> _CrossFit:
    value_B, gain_B = np.zeros(weight_BP.shape[0]), np.zeros(weight_BP.shape[0])
    total_BS, weight_B = weight_BP @ reach_PS, weight_BP.sum(axis=1)
    row_B = np.arange(weight_B.size)
    ends = np.array([0, base_S.size - 1])
    for half_P in half_HP:
        part_BS, part_B = weight_BP[:, half_P] @ reach_PS[half_P], weight_BP[:, half_P].sum(axis=1)
        first_BS, second_BS = part_BS / part_B[:, None], (total_BS - part_BS) / (weight_B - part_B)[:, None]
        for learn_BS, test_BS, share_B in (
            (first_BS, second_BS, 1 - part_B / weight_B),
            (second_BS, first_BS, part_B / weight_B),
        ):
            test_value_B = test_BS[row_B, _choice(learn_BS, base_S)]
            pure_B = test_BS[row_B, ends[_choice(learn_BS[:, ends], ends)]]
            value_B += share_B * test_value_B
            gain_B += share_B * (test_value_B - pure_B)
    return _CrossFit(value_B / len(half_HP), gain_B / len(half_HP))
