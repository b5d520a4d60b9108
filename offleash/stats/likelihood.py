"""Bounds on one model's chance of success from another model's samples, and weights for comparing traces.

Log-probabilities are those of whole completions, under the distributions that samples were drawn from. S samples, T
traces, P problems. Used by analyses/likelihood.
"""

from dataclasses import dataclass
from enum import StrEnum

import numpy as np
from numpy.typing import ArrayLike, NDArray

from offleash.stats.binomials import Float
from offleash.stats.support_classes import ZETA, epsilon

STRATA = 5  # of lengths, at most
MIN_EFFECTIVE = 5.0  # effective samples below which an estimate is one or two samples' word, and no reading rests on it
MIN_TRACES = 2  # traces of a class below which lengths are not matched


class Reach(StrEnum):
    """What a lower bound on a model's chance says of a problem that its samples did not reach.

    A lower bound alone: nothing here says that a chance is small.
    """

    MISSED = "missed"  # the bound is above epsilon: k samples show that with 95%, and did not
    WITHIN = "within reach"  # k more samples show it with at least 5%
    OPEN = "cannot tell"  # never "new": mass that the finder's samples do not show cannot be seen


@dataclass(frozen=True)
class ImportanceMass:
    """A model's correct mass on P problems, estimated with the samples of another."""

    estimate_P: Float
    effective_P: Float  # (sum Rw)^2 / sum (Rw)^2: how many of the finder's right samples carry it
    low_P: Float  # with 95% confidence the mass is at least this, on a problem that was not chosen by these samples


def log_sums(log_S: ArrayLike, problem_S: ArrayLike, problems: int) -> Float:
    """For each problem the log of the sum of exp: no overflow, minus infinity where there is nothing.

    Args:
        log_S: logs.
        problem_S: the row of the problem, 0 to problems-1, of each.
        problems: how many problems there are.

    Returns:
        One log per problem.

    Example:
        >>> np.exp(log_sums(np.log([0.1, 0.2, 0.5]), [0, 0, 1], 3)).round(4)
        array([0.3, 0.5, 0. ])
    """
    value_S, index_S = np.asarray(log_S, dtype=np.float64), np.asarray(problem_S, dtype=np.int64)
    max_log_P = np.full(problems, -np.inf)
    np.maximum.at(max_log_P, index_S, value_S)
    shift_P = np.where(np.isfinite(max_log_P), max_log_P, 0.0)
    sum_P = np.zeros(problems)
    np.add.at(sum_P, index_S, np.exp(value_S - shift_P[index_S]))
    with np.errstate(divide="ignore"):
        return np.asarray(np.log(sum_P) + shift_P)


def distinct_mass(log_other_Y: ArrayLike, problem_Y: ArrayLike, problems: int) -> Float:
    """The mass of different completions under a model: of right ones, a certain lower bound on its chance.

    Args:
        log_other_Y: log-probability of each distinct completion under the model.
        problem_Y: the row of its problem.
        problems: how many problems there are.

    Returns:
        A probability per problem.

    Example:
        >>> distinct_mass(np.log([0.1, 0.2]), [0, 0], 2).round(4)
        array([0.3, 0. ])
    """
    return np.asarray(np.exp(np.minimum(log_sums(log_other_Y, problem_Y, problems), 0.0)))


def importance_mass(
    log_other_S: ArrayLike, log_finder_S: ArrayLike, problem_S: ArrayLike, drawn_P: ArrayLike
) -> ImportanceMass:
    """Importance sampling: the mean over a finder's `drawn_P` samples of R q(y)/pi(y), from its right samples (S).

    Unbiased for the other's correct mass on what the finder can draw (Kahn and Marshall 1953; Owen, Monte Carlo
    theory, chapter 9). It is not divided by the sum of the weights: over right samples that would tend to 1. The bound
    is Markov's inequality: a mean of nonnegative weights exceeds 20 times what it estimates at most once in 20:
    of all draws, not of those that were chosen because they succeeded.
    A sample that one of the laws excludes weighs nothing, which can only lower the estimate.

    Args:
        log_other_S: log-probability of each correct sample under the model whose mass is estimated.
        log_finder_S: under the model that drew it.
        problem_S: the row of its problem.
        drawn_P: all samples that the finder drew of each problem.

    Returns:
        The estimate per problem, how many samples carry it, and a 95% lower bound.

    Example:
        >>> mass = importance_mass(np.log([0.01, 0.01]), np.log([0.1, 0.1]), [0, 0], [4])
        >>> mass.estimate_P.round(4), mass.effective_P.round(4)
        (array([0.05]), array([2.]))
    """
    other_S, finder_S = (np.asarray(log_p, dtype=np.float64) for log_p in (log_other_S, log_finder_S))
    n_P = np.asarray(drawn_P, dtype=np.float64)
    possible_S = np.isfinite(other_S) & np.isfinite(finder_S)
    log_S = np.subtract(other_S, finder_S, out=np.full_like(other_S, -np.inf), where=possible_S)
    sum_P, square_P = (log_sums(power * log_S, problem_S, len(n_P)) for power in (1, 2))
    finite_P = np.isfinite(sum_P)
    with np.errstate(divide="ignore", over="ignore", invalid="ignore"):
        estimate_P = np.where(n_P > 0, np.exp(sum_P - np.log(n_P)), np.nan)
        effective_P = np.where(finite_P, np.exp(2 * sum_P - square_P), 0.0)
    return ImportanceMass(estimate_P, effective_P, np.minimum(ZETA * estimate_P, 1.0))


def mass_of_both(
    log_q_S: ArrayLike, log_pi_S: ArrayLike, problem_S: ArrayLike, drawn_q_P: ArrayLike, drawn_pi_P: ArrayLike
) -> Float:
    """The correct mass of q from the right samples (S) of both runs: sum of R q / (n_q q + n_pi pi).

    The balance heuristic (Veach and Guibas 1995): unbiased, and never far worse than q's own samples alone. For
    problems that were not chosen by what came out.

    Args:
        log_q_S: log-probability of each correct sample of both runs under q.
        log_pi_S: under pi.
        problem_S: the row of its problem.
        drawn_q_P: samples of each problem drawn from q.
        drawn_pi_P: samples drawn from pi.

    Returns:
        A probability per problem; NaN where nothing was drawn.

    Example:
        >>> mass_of_both(np.log([0.5, 0.5]), np.log([0.5, 0.5]), [0, 0], [2], [2]).round(4)
        array([0.5])
    """
    q_S, pi_S = (np.asarray(log_p, dtype=np.float64) for log_p in (log_q_S, log_pi_S))
    index_S = np.asarray(problem_S, dtype=np.int64)
    n_q_P, n_pi_P = (np.asarray(drawn_P, dtype=np.float64) for drawn_P in (drawn_q_P, drawn_pi_P))
    with np.errstate(divide="ignore"):
        mixture_S = np.logaddexp(np.log(n_q_P)[index_S] + q_S, np.log(n_pi_P)[index_S] + pi_S)
    possible_S = np.isfinite(q_S) & np.isfinite(mixture_S)
    log_S = np.subtract(q_S, mixture_S, out=np.full_like(q_S, -np.inf), where=possible_S)
    mass_P = np.exp(log_sums(log_S, index_S, len(n_q_P)))
    return np.where(n_q_P + n_pi_P > 0, mass_P, np.nan)


def chance_within(low_P: ArrayLike, k: int) -> Float:
    """The chance that k samples show what has at least this probability.

    Args:
        low_P: probabilities of a correct sample.
        k: samples.

    Returns:
        1 - (1-p)^k, per problem.

    Example:
        >>> chance_within([0.5, 0.001], 2).round(4)
        array([0.75 , 0.002])
    """
    p_P = np.clip(np.asarray(low_P, dtype=np.float64), 0.0, 1.0)
    with np.errstate(divide="ignore"):
        return np.asarray(-np.expm1(k * np.log1p(-p_P)))


def trusted_bound(bound_P: ArrayLike, mass: ImportanceMass) -> Float:
    """What readings rest on: the certain bound, or the 95% one where more than one or two samples carry it.

    A problem that was chosen because a rare success came has few of them, and then the 95% bound does not hold.

    Args:
        bound_P: certain lower bounds (`distinct_mass`).
        mass: estimates with their 95% bounds (`importance_mass`).

    Returns:
        A lower bound per problem.

    Example:
        >>> mass = ImportanceMass(np.array([0.4, 0.4]), np.array([9.0, 1.5]), np.array([0.02, 0.02]))
        >>> trusted_bound([0.001, 0.001], mass)
        array([0.02 , 0.001])
    """
    certain_P = np.asarray(bound_P, dtype=np.float64)
    return np.where(mass.effective_P >= MIN_EFFECTIVE, np.fmax(certain_P, np.nan_to_num(mass.low_P)), certain_P)


def reach(low_P: ArrayLike, k: int) -> list[Reach]:
    """What lower bounds on a model's chance say of problems that k of its samples did not reach.

    Args:
        low_P: lower bounds on the model's chance.
        k: samples that did not reach the problem.

    Returns:
        One reading per problem.

    Example:
        >>> [str(reading) for reading in reach([0.5, 0.02, 0.0], 8)]
        ['missed', 'within reach', 'cannot tell']
    """
    bound_P = np.nan_to_num(np.asarray(low_P, dtype=np.float64))
    missed_P, within_P = bound_P > epsilon(k), chance_within(bound_P, k) >= ZETA
    return [
        Reach.MISSED if missed else Reach.WITHIN if within else Reach.OPEN
        for missed, within in zip(missed_P, within_P, strict=True)
    ]


def problem_means(value_S: ArrayLike, problem_S: ArrayLike, problems: int) -> Float:
    """The mean over each problem's samples; NaN where it has none.

    Args:
        value_S: a value per sample.
        problem_S: the row of its problem.
        problems: how many problems there are.

    Returns:
        One mean per problem.

    Example:
        >>> problem_means([1.0, 3.0, 5.0], [0, 0, 1], 3)
        array([ 2.,  5., nan])
    """
    index_S = np.asarray(problem_S, dtype=np.int64)
    count_P = np.bincount(index_S, minlength=problems)
    sum_P = np.bincount(index_S, np.asarray(value_S, dtype=np.float64), minlength=problems)
    return np.asarray(np.divide(sum_P, count_P, out=np.full(problems, np.nan), where=count_P > 0))


def equal_weights(problem_T: ArrayLike, group_T: ArrayLike) -> Float:
    """Weights of traces by which every problem of a group weighs the same, however many traces it has.

    Args:
        problem_T: the problem of each trace.
        group_T: the group of each trace.

    Returns:
        One weight per trace.

    Example:
        >>> equal_weights([0, 0, 1], [0, 0, 0])
        array([0.5, 0.5, 1. ])
    """
    pair = np.stack([np.asarray(problem_T, dtype=np.int64), np.asarray(group_T, dtype=np.int64)])
    _, index_T, count = np.unique(pair, axis=1, return_inverse=True, return_counts=True)
    return np.asarray(1.0 / count[index_T.ravel()])


def matched_weights(tokens_T: ArrayLike, group_T: ArrayLike, weight_T: ArrayLike) -> Float:
    """Weights by which all groups of traces have the same lengths: direct standardisation over strata of tokens.

    Strata are quantiles of all lengths; a stratum in which some group has no trace weighs nothing in any. All zero
    where the groups share no stratum or a group has fewer than two traces.

    Args:
        tokens_T: the length of each trace.
        group_T: its group.
        weight_T: its weight before matching.

    Returns:
        One weight per trace.

    Example:
        >>> matched_weights([10, 20, 30, 10, 10, 30], [0, 0, 0, 1, 1, 1], np.ones(6)).round(3)
        array([0.5 , 0.25, 0.25, 0.25, 0.25, 0.5 ])
    """
    length_T, weights_T = np.asarray(tokens_T, dtype=np.float64), np.asarray(weight_T, dtype=np.float64)
    _, index_T, size_G = np.unique(np.asarray(group_T), return_inverse=True, return_counts=True)
    if len(size_G) < 2 or size_G.min() < MIN_TRACES:
        return np.zeros(len(length_T))
    strata = int(np.clip(size_G.min() // 2, 2, STRATA))
    edges = np.unique(np.quantile(length_T, np.linspace(0, 1, strata + 1)[1:-1]))
    stratum_T = np.searchsorted(edges, length_T, side="left")
    count_GS = np.zeros((len(size_G), len(edges) + 1))
    np.add.at(count_GS, (index_T, stratum_T), weights_T)
    share_GS = count_GS / count_GS.sum(axis=1, keepdims=True)
    common_S = np.where((count_GS > 0).all(axis=0), share_GS.mean(axis=0), 0.0)
    scale_GS = np.divide(common_S, count_GS, out=np.zeros_like(count_GS), where=count_GS > 0)
    return np.asarray(weights_T * scale_GS[index_T, stratum_T])


def by_problem(value_T: ArrayLike, weight_T: ArrayLike, problem_T: NDArray[np.int64], problems: int) -> Float:
    """Weighted sums of traces per problem.

    Args:
        value_T: a value per trace.
        weight_T: its weight.
        problem_T: the row of its problem.
        problems: how many problems there are.

    Returns:
        One sum per problem.

    Example:
        >>> by_problem([1.0, 2.0, 3.0], [1.0, 0.5, 1.0], np.array([0, 0, 1]), 2)
        array([2., 3.])
    """
    value, weight = np.asarray(value_T, dtype=np.float64), np.asarray(weight_T, dtype=np.float64)
    return np.bincount(problem_T, value * weight, minlength=problems).astype(np.float64)
