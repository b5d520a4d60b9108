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
# standard deviations, and successes for skewed distributions, within which a division lies, but for less than rounding
_SPREADS, _STEPS = 9.0, 12


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


def redraw_by_count(drawn_P2: Integer, correct_P2: Integer, k: int, least: int, most: int) -> Float:
    """The same under a rule that a count decides: reached from `least` of k successes on, and not reached up to `most`.

    Args:
        drawn_P2: samples of each target in the run before and the run after, 2k together or more.
        correct_P2: correct ones among them.
        k: the samples of each draw.
        least: successes from which a target is reached; k + 1: never.
        most: successes up to which it is not reached; -1: never. Between the two it is undetermined.

    Returns:
        Expected P, E and S.

    Example:
        >>> redraw_by_count(np.full((2, 2), 16), np.array([[8, 4], [1, 0]]), k=16, least=6, most=5).round(3)
        array([0.284, 0.358, 0.358])
    """
    # a target enters by its pool alone, so equal pools are computed once
    pool_U2, multiplicity_U = np.unique(
        np.stack([drawn_P2.sum(axis=1), correct_P2.sum(axis=1)], axis=1), axis=0, return_counts=True
    )
    both_U, alone_U = np.zeros(len(pool_U2)), np.zeros(len(pool_U2))
    for start in range(0, len(pool_U2), _ROWS_AT_A_TIME):
        part = slice(start, start + _ROWS_AT_A_TIME)
        # both draws together are 2k of the pool, and each is half of those
        hits_UX, chance_UX = _possible_hits(pool_U2[part, 0], pool_U2[part, 1], 2 * k)
        hits_H, where_UX = np.unique(hits_UX, return_inverse=True)
        both_H, alone_H = _halves(hits_H, k, least, most)
        where_UX = where_UX.reshape(hits_UX.shape)
        both_U[part] = (chance_UX * both_H[where_UX]).sum(axis=1)
        alone_U[part] = (chance_UX * alone_H[where_UX]).sum(axis=1)
    both, alone = float(multiplicity_U @ both_U), float(multiplicity_U @ alone_U)
    return np.array([both, alone, alone])


def _halves(hits_H: Integer, k: int, least: int, most: int) -> tuple[Float, Float]:
    """Chances that 2k samples with so many successes, halved at random, are in twice, and first in and then out."""

    def at_most(successes_H: Integer) -> Float:
        return hypergeometric_at_most(successes_H, 2 * k, hits_H, k)

    both_H = np.where(hits_H >= 2 * least, at_most(hits_H - least) - at_most(np.full_like(hits_H, least - 1)), 0.0)
    return np.maximum(both_H, 0.0), at_most(np.minimum(most, hits_H - least))


def _possible_hits(pool_P: Integer, hits_P: Integer, taken: int | Integer) -> tuple[Integer, Float]:
    """Numbers of successes among the `taken` of each pool and their chances, but for less than rounding: both P x X."""
    taken_P = np.broadcast_to(np.asarray(taken, dtype=np.int64), pool_P.shape)
    share_P = hits_P / np.maximum(pool_P, 1)
    mean_P = taken_P * share_P
    spread_P = np.sqrt(mean_P * (1 - share_P) * (pool_P - taken_P) / np.maximum(pool_P - 1, 1))
    least_P = np.maximum(0, taken_P - (pool_P - hits_P))
    reach_P = _SPREADS * spread_P + _STEPS
    first_P = np.maximum(least_P, np.floor(mean_P - reach_P).astype(np.int64))
    last_P = np.minimum(np.minimum(hits_P, taken_P), np.ceil(mean_P + reach_P).astype(np.int64))
    possible_PX = first_P[:, None] + np.arange(int((last_P - first_P).max(initial=0)) + 1)
    log_PX = log_hypergeometric(possible_PX, pool_P[:, None], hits_P[:, None], taken_P[:, None])
    return np.minimum(possible_PX, last_P[:, None]), np.exp(log_PX)


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
    hits_P = correct_P2.sum(axis=1)
    before_PX, chance_PX = _possible_hits(drawn_P2.sum(axis=1), hits_P, drawn_P2[:, 0])
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
