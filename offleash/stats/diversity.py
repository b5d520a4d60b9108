"""Diversity of answers per problem from answer counts: entropies (nats), distinct answers, unseen mass, Chao1.

Answers of all problems are stored flat: answer a was given `count_A[a]` times to problem `problem_A[a]`, a code in
0..problems-1, and each (problem, answer) pair appears once. To count unread samples as a class (as arXiv:2507.14843
does), give them a row; to exclude them, leave the row out. NaN where a problem has no samples, or fewer than n.
"""

from collections.abc import Callable
from math import factorial
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from offleash.stats.binomials import log_hypergeometric, log_miss

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]

# (samples of the problem, count of the answer, n) -> what the answer adds in expectation
TermFunction = Callable[[Ints, Ints, int], Floats]
CHUNK = 1 << 19  # hypergeometric terms held in memory at a time


def entropy_plugin(count_A: ArrayLike, problem_A: ArrayLike, problems: int) -> Floats:
    """Entropy of the observed shares; too low by about (classes - 1)/2n, so compare runs only at equal n.

    Args:
        count_A: how often each distinct answer was given.
        problem_A: the row of the problem, 0 to problems-1, that each answer belongs to.
        problems: how many problems there are.

    Returns:
        Nats, per problem; NaN where nothing was drawn.

    Example:
        >>> entropy_plugin([3, 1, 2], [0, 0, 1], 2).round(4)
        array([0.5623, 0.    ])
    """
    answers = _answers(count_A, problem_A, problems)
    share_A = answers.count_A / answers.total_A
    return _sum(answers, -share_A * np.log(share_A))


def entropy_rarefied(count_A: ArrayLike, problem_A: ArrayLike, problems: int, n: ArrayLike) -> Floats:
    """Exact expectation of the plug-in entropy of n samples drawn without replacement from those of each problem.

    One n gives P values, a vector of them P x K; n = 0 has no entropy.

    Args:
        count_A: how often each distinct answer was given.
        problem_A: the row of the problem, 0 to problems-1, that each answer belongs to.
        problems: how many problems there are.
        n: samples to rarefy to.

    Returns:
        Nats; NaN where a problem has fewer than n samples.

    Example:
        >>> entropy_rarefied([3, 1, 2], [0, 0, 1], 2, 2).round(4)
        array([0.3466, 0.    ])
    """
    return _rarefied(_answers(count_A, problem_A, problems), n, _expected_surprise, least=1)


def entropy_miller_madow(count_A: ArrayLike, problem_A: ArrayLike, problems: int) -> Floats:
    """Plug-in entropy plus (distinct - 1)/2n (Miller 1955).

    Args:
        count_A: how often each distinct answer was given.
        problem_A: the row of the problem, 0 to problems-1, that each answer belongs to.
        problems: how many problems there are.

    Returns:
        Nats, per problem; NaN where nothing was drawn.

    Example:
        >>> entropy_miller_madow([3, 1, 2], [0, 0, 1], 2).round(4)
        array([0.6873, 0.    ])
    """
    answers = _answers(count_A, problem_A, problems)
    share_A = answers.count_A / answers.total_A
    return _sum(answers, -share_A * np.log(share_A) + 0.5 / answers.total_A) - 0.5 / _nan_if_none(answers)


def entropy_chao_shen(count_A: ArrayLike, problem_A: ArrayLike, problems: int) -> Floats:
    """Horvitz-Thompson entropy with shares shrunk by the Good-Turing coverage (Chao & Shen 2003).

    Args:
        count_A: how often each distinct answer was given.
        problem_A: the row of the problem, 0 to problems-1, that each answer belongs to.
        problems: how many problems there are.

    Returns:
        Nats, per problem; NaN where nothing was drawn.

    Example:
        >>> entropy_chao_shen([3, 1, 2], [0, 0, 1], 2).round(4)
        array([0.8923, 0.    ])
    """
    answers = _answers(count_A, problem_A, problems)
    singletons_P = _answers_seen_times(answers, 1)
    # all seen once would make the coverage 0 and the entropy infinite; the authors' code takes one away
    coverage_P = 1 - np.where(singletons_P == answers.total_P, singletons_P - 1, singletons_P) / np.maximum(
        answers.total_P, 1
    )
    share_A = coverage_P[answers.problem_A] * answers.count_A / answers.total_A
    with np.errstate(divide="ignore"):  # a single class with share 1 is certain to be seen: log 0, chance 1
        seen_A = -np.expm1(answers.total_A * np.log1p(-share_A))
    return _sum(answers, -share_A * np.log(share_A) / seen_A)


def entropy_chao_wang_jost(count_A: ArrayLike, problem_A: ArrayLike, problems: int) -> Floats:
    """Entropy with the unseen answers estimated from those seen once and twice (Chao, Wang & Jost 2013, eq. 7).

    Args:
        count_A: how often each distinct answer was given.
        problem_A: the row of the problem, 0 to problems-1, that each answer belongs to.
        problems: how many problems there are.

    Returns:
        Nats, per problem; NaN where nothing was drawn.

    Example:
        >>> entropy_chao_wang_jost([3, 1, 2], [0, 0, 1], 2).round(4)
        array([0.7083, 0.    ])
    """
    from scipy.special import digamma

    answers = _answers(count_A, problem_A, problems)
    n_P, singletons_P, doubletons_P = (
        answers.total_P.astype(np.float64),
        _answers_seen_times(answers, 1),
        _answers_seen_times(answers, 2),
    )
    seen_A = answers.count_A / answers.total_A * (digamma(answers.total_A) - digamma(answers.count_A))
    unseen_P = np.zeros(answers.total_P.size)
    has_singletons = singletons_P > 0
    n, singletons, doubletons = n_P[has_singletons], singletons_P[has_singletons], doubletons_P[has_singletons]
    A = np.where(
        doubletons > 0,
        2 * doubletons / np.maximum((n - 1) * singletons + 2 * doubletons, 1),
        2 / ((n - 1) * (singletons - 1) + 2),
    )
    # (1-A)^(1-n) {-log A - sum_{r<n} (1-A)^r/r} cancels badly; it equals sum_{r>=n} (1-A)^(r-n+1)/r, term by term
    unseen_P[has_singletons] = singletons / n * (1 - A) / n * _lerch(n, A)
    return _sum(answers, seen_A) + unseen_P


def distinct(count_A: ArrayLike, problem_A: ArrayLike, problems: int) -> Floats:
    """Number of different answers seen; 0 where nothing was drawn.

    Args:
        count_A: how often each distinct answer was given.
        problem_A: the row of the problem, 0 to problems-1, that each answer belongs to.
        problems: how many problems there are.

    Returns:
        The number of each problem.

    Example:
        >>> distinct([3, 1, 2], [0, 0, 1], 2)
        array([2., 1.])
    """
    answers = _answers(count_A, problem_A, problems)
    return np.bincount(answers.problem_A, minlength=problems).astype(np.float64)


def distinct_rarefied(count_A: ArrayLike, problem_A: ArrayLike, problems: int, n: ArrayLike) -> Floats:
    """Exact expected number of different answers among n samples drawn without replacement (Hurlbert 1971).

    One n gives P values, a vector of them P x K.

    Args:
        count_A: how often each distinct answer was given.
        problem_A: the row of the problem, 0 to problems-1, that each answer belongs to.
        problems: how many problems there are.
        n: samples to rarefy to.

    Returns:
        Expected numbers; NaN where a problem has fewer than n samples.

    Example:
        >>> distinct_rarefied([3, 1, 2], [0, 0, 1], 2, 2)
        array([1.5, 1. ])
    """
    return _rarefied(_answers(count_A, problem_A, problems), n, _expected_seen, least=0)


def unseen_mass(count_A: ArrayLike, problem_A: ArrayLike, problems: int) -> Floats:
    """Good-Turing estimate f1/n of the chance that the next sample is an answer not seen yet (Good 1953).

    Args:
        count_A: how often each distinct answer was given.
        problem_A: the row of the problem, 0 to problems-1, that each answer belongs to.
        problems: how many problems there are.

    Returns:
        The chance, per problem; NaN where nothing was drawn.

    Example:
        >>> unseen_mass([3, 1, 2], [0, 0, 1], 2)
        array([0.25, 0.  ])
    """
    answers = _answers(count_A, problem_A, problems)
    return _answers_seen_times(answers, 1) / _nan_if_none(answers)


def chao1(count_A: ArrayLike, problem_A: ArrayLike, problems: int) -> Floats:
    """Lower bound of the number of possible answers: distinct + (n-1)/n f1^2/2 f2 (Chao 1984, 1987).

    Where nothing was seen twice, the bias-corrected (n-1)/n f1 (f1-1)/2 is added instead.

    Args:
        count_A: how often each distinct answer was given.
        problem_A: the row of the problem, 0 to problems-1, that each answer belongs to.
        problems: how many problems there are.

    Returns:
        The bound, per problem; NaN where nothing was drawn.

    Example:
        >>> chao1([5, 1, 1, 2], [0, 0, 0, 0], 1).round(4)
        array([5.7778])
    """
    answers = _answers(count_A, problem_A, problems)
    n_P, singletons_P, doubletons_P = (
        _nan_if_none(answers),
        _answers_seen_times(answers, 1),
        _answers_seen_times(answers, 2),
    )
    unseen_P = np.where(
        doubletons_P > 0, singletons_P**2 / (2 * np.maximum(doubletons_P, 1)), singletons_P * (singletons_P - 1) / 2
    )
    return np.bincount(answers.problem_A, minlength=problems) + (n_P - 1) / n_P * unseen_P


class _Answers(NamedTuple):
    count_A: Ints
    problem_A: Ints
    total_A: Ints  # samples of the problem the answer belongs to
    total_P: Ints


def _answers(count_A: ArrayLike, problem_A: ArrayLike, problems: int) -> _Answers:
    count, problem = np.asarray(count_A, dtype=np.int64), np.asarray(problem_A, dtype=np.int64)
    count, problem = count[count > 0], problem[count > 0]
    total_P = np.bincount(problem, weights=count, minlength=problems).astype(np.int64)
    return _Answers(count, problem, total_P[problem], total_P)


def _nan_if_none(answers: _Answers) -> Floats:
    return np.where(answers.total_P > 0, answers.total_P.astype(np.float64), np.nan)


def _answers_seen_times(answers: _Answers, times: int) -> Floats:
    chosen = answers.problem_A[answers.count_A == times]
    return np.bincount(chosen, minlength=answers.total_P.size).astype(np.float64)


def _sum(answers: _Answers, term_A: Floats) -> Floats:
    sum_P = np.bincount(answers.problem_A, weights=term_A, minlength=answers.total_P.size)
    return np.where(answers.total_P > 0, sum_P, np.nan)


def _rarefied(answers: _Answers, n: ArrayLike, term: TermFunction, least: int) -> Floats:
    n_K = np.atleast_1d(np.asarray(n, dtype=np.int64))
    rarefied_PK = np.full((answers.total_P.size, n_K.size), np.nan)
    # millions of answers share a few thousand (total, count) pairs
    base = int(answers.count_A.max(initial=0)) + 1
    pair_U, pair_A = np.unique(answers.total_A * base + answers.count_A, return_inverse=True)
    total_U, count_U = pair_U // base, pair_U % base
    for column, budget in enumerate(n_K.tolist()):
        term_U, has_enough_U = np.zeros(pair_U.size), total_U >= budget
        term_U[has_enough_U] = term(total_U[has_enough_U], count_U[has_enough_U], budget)
        sum_P = np.bincount(answers.problem_A, weights=term_U[pair_A], minlength=answers.total_P.size)
        rarefied_PK[:, column] = np.where((answers.total_P >= budget) & (budget >= least), sum_P, np.nan)
    return rarefied_PK[:, 0] if np.ndim(n) == 0 else rarefied_PK


def _expected_seen(total_U: Ints, count_U: Ints, n: int) -> Floats:
    return -np.expm1(log_miss(total_U, count_U, n))


def _expected_surprise(total_U: Ints, count_U: Ints, n: int) -> Floats:
    """E[-(x/n) log(x/n)] for x ~ Hypergeometric(total, count, n), over the part of the support that matters."""
    if n <= 1:
        return np.zeros(total_U.size)
    # Hoeffding holds for each of the four ways to read the draw: beyond the window lies less than 2e-20
    min_margin_U = np.minimum(np.minimum(count_U, total_U - count_U), np.minimum(n, total_U - n))
    mean_U, half_width_U = n * count_U / total_U, np.sqrt(23.0 * min_margin_U) + 1
    low_U = np.maximum(np.floor(mean_U - half_width_U), np.maximum(1, n - (total_U - count_U))).astype(np.int64)
    high_U = np.minimum(np.ceil(mean_U + half_width_U), np.minimum(count_U, n)).astype(np.int64)
    width_U = np.maximum(high_U - low_U + 1, 0)
    end_U = np.cumsum(width_U)
    out_U, start = np.zeros(total_U.size), 0
    # the windows, which differ in width, are laid end to end, as many at a time as fit in CHUNK terms
    while start < total_U.size:
        before = int(end_U[start - 1]) if start else 0
        stop = max(int(np.searchsorted(end_U, before + CHUNK, side="right")), start + 1)
        part, width = slice(start, stop), width_U[start:stop]
        first = np.repeat(end_U[part] - width - before, width)
        hits = np.arange(first.size) - first + np.repeat(low_U[part], width)
        pmf = np.exp(log_hypergeometric(hits, np.repeat(total_U[part], width), np.repeat(count_U[part], width), n))
        term_owner = np.repeat(np.arange(stop - start), width)
        out_U[part] = np.bincount(term_owner, weights=-pmf * hits / n * np.log(hits / n), minlength=stop - start)
        start = stop
    return out_U


def _lerch(n: Floats, A: Floats) -> Floats:
    """sum_{m>=0} (1-A)^m n/(n+m), to ten digits or better for every n and 0 < A <= 1."""
    from scipy.special import hyp2f1, hyperu

    value, is_near = np.empty(n.size), (A >= 0.1) | (n < 40)
    value[is_near] = hyp2f1(1.0, n[is_near], n[is_near] + 1, 1 - A[is_near])
    # scipy's 2F1 gives NaN at large n and small A; there the terms fall slowly and Euler-Maclaurin is sharp
    large_n, a = n[~is_near], -np.log1p(-A[~is_near])
    total = large_n * hyperu(1, 1, a * large_n) + 0.5
    for order, weight in ((1, 1 / 12), (3, -1 / 720), (5, 1 / 30240), (7, -1 / 1209600)):
        steps = range(order + 1)
        total += weight * sum(factorial(order) / factorial(order - j) * a ** (order - j) / large_n**j for j in steps)
    value[~is_near] = total
    return value
