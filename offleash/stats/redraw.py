"""The table that two draws of one model would show: P, E and S in expectation, for every rule and at every k.

Without it no table can be read: rates near the threshold of a rule fall on either side of it by chance, so the same
model drawn twice has an SRR below 1, far below where many rates are near. If no rate changed, the samples of both runs
are one pool, from which two draws are taken at random: exact for any number of samples, and without a model of the
rates. Only runs that stopped early, whose numbers of samples depend on their successes, need such a model.
"""

import numpy as np

from offleash.stats.binomials import (
    Float,
    Integer,
    hypergeometric_at_most,
    log_hypergeometric,
    log_miss,
)

_ROWS_AT_A_TIME = 256  # problems whose possible divisions are held in memory together
_SPREADS = 9.0  # standard deviations within which a division lies, but for less than rounding


def redraw_at(drawn_P2: Integer, correct_P2: Integer, k_K: Integer) -> Float:
    """P, E and S that two draws of k from the samples of both runs together would show: the rule `seen`.

    Args:
        drawn_P2: samples of each target in the run before and the run after.
        correct_P2: correct ones among them.
        k_K: the budgets; the runs have 2k samples together, so that both draws are disjoint.

    Returns:
        Expected P, E and S, 3 x K; E and S are equal.

    Example:
        >>> redraw_at(np.array([[8, 8], [8, 8]]), np.array([[3, 0], [8, 8]]), np.array([8])).round(2)[:, 0]
        array([1.8, 0.1, 0.1])
    """
    pool_P1, hits_P1 = drawn_P2.sum(axis=1)[:, None], correct_P2.sum(axis=1)[:, None]
    miss_PK, miss_twice_PK = (np.exp(log_miss(pool_P1, hits_P1, k)) for k in (k_K, 2 * k_K))
    only_first_K = _total(np.maximum(miss_PK - miss_twice_PK, 0.0))
    both_K = _total(np.maximum(1 - 2 * miss_PK + miss_twice_PK, 0.0))
    return np.stack([both_K, only_first_K, only_first_K])


def redraw_by_count(correct_P2: Integer, k: int, least: int, most: int) -> Float:
    """The same under a rule that a count decides: reached from `least` of k successes on, and not reached up to `most`.

    Args:
        correct_P2: correct among k samples of each target, before and after.
        k: the samples.
        least: successes from which a target is reached; k + 1: never.
        most: successes up to which it is not reached; -1: never. Between the two it is undetermined.

    Returns:
        Expected P, E and S.

    Example:
        >>> redraw_by_count(np.array([[8, 4], [1, 0]]), k=16, least=6, most=5).round(3)
        array([0.284, 0.358, 0.358])
    """
    # a target enters by the sum of its successes alone, so equal sums are computed once
    total_C, multiplicity_C = np.unique(correct_P2.sum(axis=1), return_counts=True)

    def at_most(hits_C: Integer) -> Float:
        return hypergeometric_at_most(hits_C, 2 * k, total_C, k)

    both_C = np.where(total_C >= 2 * least, at_most(total_C - least) - at_most(np.full_like(total_C, least - 1)), 0.0)
    only_first_C = at_most(np.minimum(most, total_C - least))
    both, alone = float(multiplicity_C @ np.maximum(both_C, 0.0)), float(multiplicity_C @ only_first_C)
    return np.array([both, alone, alone])


def redraw_above(drawn_P2: Integer, correct_P2: Integer, least_P2: Integer, k: int) -> Float:
    """The same where a target is reached if k samples include a success and all samples at least `least_P2` of them.

    Args:
        drawn_P2: samples of each target in the run before and the run after.
        correct_P2: correct ones among them.
        least_P2: successes among all samples that reach a target, in each run: above the guess floor.
        k: the budget, at most the samples of either run.

    Returns:
        Expected P, E and S.

    Example:
        >>> drawn_P2, correct_P2 = np.full((2, 2), 16), np.array([[8, 4], [1, 0]])
        >>> redraw_above(drawn_P2, correct_P2, np.array([[6, 6], [6, 6]]), k=16).round(3)
        array([0.284, 0.358, 0.358])
    """
    # with a threshold of one success the division of the pool is the rule `seen`, which has a closed form
    seen_rule_P = (least_P2 <= 1).all(axis=1)
    sums_3 = redraw_at(drawn_P2[seen_rule_P], correct_P2[seen_rule_P], np.array([k]))[:, 0]
    rows = np.flatnonzero(~seen_rule_P & (correct_P2.sum(axis=1) > 0))
    cells_P3 = np.zeros((rows.size, 3))
    for start in range(0, rows.size, _ROWS_AT_A_TIME):
        part = rows[start : start + _ROWS_AT_A_TIME]
        cells_P3[start : start + part.size] = _split_pooled(drawn_P2[part], correct_P2[part], least_P2[part], k)
    return sums_3 + _total(cells_P3)


def redraw_of_rates(drawn_P2: Integer, correct_P2: Integer, prior: tuple[float, float], k_K: Integer) -> Float:
    """The same for runs that stopped early, whose samples are no pool: rates follow their Beta posterior.

    Stopping at a success does not change the likelihood of a rate, so a record that stopped enters as any other.

    Args:
        drawn_P2: samples of each target in the run before and the run after.
        correct_P2: correct ones among them.
        prior: the shapes of the Beta distribution of rates, as `beta_prior` of both runs together.
        k_K: the budgets.

    Returns:
        Expected P, E and S, 3 x K.

    Example:
        >>> redraw_of_rates(np.array([[8, 8]]), np.array([[1, 0]]), (0.5, 4.0), np.array([8])).round(3)[:, 0]
        array([0.216, 0.19 , 0.19 ])
    """
    from scipy.special import betaln

    alpha_P1 = prior[0] + correct_P2.sum(axis=1)[:, None]
    beta_P1 = prior[1] + (drawn_P2 - correct_P2).sum(axis=1)[:, None]
    # (1-p)^k has expectation B(a, b+k)/B(a, b) under Beta(a, b)
    miss_PK, miss_twice_PK = (np.exp(betaln(alpha_P1, beta_P1 + k) - betaln(alpha_P1, beta_P1)) for k in (k_K, 2 * k_K))
    only_first_K = (miss_PK - miss_twice_PK).sum(axis=0)
    return np.stack([(1 - 2 * miss_PK + miss_twice_PK).sum(axis=0), only_first_K, only_first_K])


def _split_pooled(drawn_P2: Integer, correct_P2: Integer, least_P2: Integer, k: int) -> Float:
    """P, E and S of each target, over all divisions of its successes between two draws as large as the runs."""
    pool_P, hits_P = drawn_P2.sum(axis=1), correct_P2.sum(axis=1)
    share_P = hits_P / pool_P
    mean_P = drawn_P2[:, 0] * share_P
    spread_P = np.sqrt(mean_P * (1 - share_P) * drawn_P2[:, 1] / np.maximum(pool_P - 1, 1))
    first_P = np.maximum(0, np.floor(mean_P - _SPREADS * spread_P).astype(np.int64) - 2)
    width = int(np.ceil(2 * _SPREADS * spread_P.max(initial=0.0))) + 5
    before_PX = first_P[:, None] + np.arange(width)
    chance_PX = np.exp(log_hypergeometric(before_PX, pool_P[:, None], hits_P[:, None], drawn_P2[:, :1]))
    reached = []
    for run, hits_PX in enumerate((before_PX, hits_P[:, None] - before_PX)):
        drawn_P1 = drawn_P2[:, run, None]
        possible_PX = (hits_PX >= 0) & (hits_PX <= drawn_P1)
        miss_PX = np.exp(log_miss(drawn_P1, np.where(possible_PX, hits_PX, 0), k))
        reached.append(np.where(hits_PX >= np.maximum(least_P2[:, run, None], 1), 1 - miss_PX, 0.0))
    a_PX, b_PX = reached
    cells = (a_PX * b_PX, (1 - a_PX) * b_PX, a_PX * (1 - b_PX))
    return np.stack([(chance_PX * cell_PX).sum(axis=1) for cell_PX in cells], axis=1)


def _total(value_PQ: Float) -> Float:
    """Sums over targets that do not depend on their order, not even in the last digit."""
    return np.asarray(np.sort(value_PQ, axis=0).sum(axis=0))
