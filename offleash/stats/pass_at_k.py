"""Estimators of one run: what k samples of a problem give, from how many were drawn and how many were correct."""

import numpy as np
from numpy.typing import ArrayLike

from offleash.stats.binomials import Float, log_hypergeometric, log_miss


def pass_at_k(drawn: ArrayLike, correct: ArrayLike, k: ArrayLike) -> Float:
    """Chance that `k` draws without replacement from the `drawn` include a correct one; NaN for k > drawn.

    Unbiased (Chen et al., arXiv:2107.03374).
    """
    with np.errstate(invalid="ignore"):
        return 0.0 - np.expm1(log_miss(drawn, correct, k))


def pass_at_k_prefix(drawn: ArrayLike, first: ArrayLike, k: ArrayLike) -> Float:
    """Whether any of the first `k` samples in index order is correct; `first` is the first success, -1 for none.

    The curves of arXiv:2507.14843 are made this way; `pass_at_k` has the smaller variance.
    """
    first_, k_ = np.asarray(first), np.asarray(k)
    hit = (first_ >= 0) & (first_ < k_)
    return np.where(k_ <= np.asarray(drawn), hit, np.nan).astype(np.float64)


def log_miss_stopped(
    drawn: ArrayLike, correct: ArrayLike, stopped: ArrayLike, budget: ArrayLike, k: ArrayLike
) -> Float:
    """Log of an unbiased (1-p)^k for records that may have ended at their m-th success.

    A record that stopped on sample N with m successes is inverse sampling: its last sample is a success by design,
    so the estimate is C(N-1-k, m-1)/C(N-1, m-1); one that ran out of budget is a plain record. NaN for k > budget.
    """
    n, c, stop = np.asarray(drawn), np.asarray(correct), np.asarray(stopped, dtype=bool)
    k_ = np.asarray(k)
    log = log_miss(n - stop, c - stop, k_)
    beyond = stop & (k_ > n - stop) & (k_ <= np.asarray(budget))  # a stopped record cannot miss that often
    return np.where(beyond, -np.inf, log)


def pass_hat_k(drawn: ArrayLike, correct: ArrayLike, k: ArrayLike) -> Float:
    """pass^k: chance that all of `k` draws without replacement are correct."""
    n, c = np.asarray(drawn), np.asarray(correct)
    return np.exp(log_miss(n, n - c, k))


def g_pass_at_k(drawn: ArrayLike, correct: ArrayLike, k: int, tau: float) -> Float:
    """G-Pass@k: chance that at least a share `tau` of `k` draws without replacement are correct (arXiv:2412.13147)."""
    least = max(1, int(np.ceil(tau * k - 1e-9)))
    return _at_least(drawn, correct, k, np.array([least]))[..., 0]


def mg_pass_at_k(drawn: ArrayLike, correct: ArrayLike, k: int) -> Float:
    """mG-Pass@k: G-Pass@k averaged over the shares above one half (arXiv:2412.13147)."""
    least = np.arange(int(np.ceil(k / 2)) + 1, k + 1)
    if not least.size:  # no share lies above one half of a single draw
        return np.where(np.asarray(drawn) >= k, 0.0, np.nan) + 0.0 * np.asarray(correct)
    mean: Float = (2.0 / k) * _at_least(drawn, correct, k, least).sum(axis=-1)
    return mean


def cover_at(drawn: ArrayLike, correct: ArrayLike, tau: float) -> float:
    """Cover@tau: share of the problems whose rate is at least `tau` (arXiv:2510.08325)."""
    n, c = np.broadcast_arrays(np.asarray(drawn, dtype=np.float64), np.asarray(correct))
    n, c = n[n > 0], c[n > 0]  # a problem without samples has no rate
    return float(np.mean(c >= tau * n - 1e-9)) if n.size else float("nan")


def avg_at_k(drawn: ArrayLike, correct: ArrayLike) -> Float:
    """avg@k: share of the samples of each problem that are correct; NaN where none was drawn."""
    n, c = np.asarray(drawn, dtype=np.float64), np.asarray(correct, dtype=np.float64)
    rate: Float = np.full(np.broadcast(n, c).shape, np.nan)
    np.divide(c, n, out=rate, where=n > 0)
    return rate


def max_at_k(score_S: ArrayLike, problem_S: ArrayLike, problems: int, k: int) -> Float:
    """max@k: expected best score of `k` draws without replacement, for each problem; NaN where fewer were drawn.

    `problem_S` is the row (0 to problems-1) that each of the S scores belongs to.
    """
    score, problem = np.asarray(score_S, dtype=np.float64), np.asarray(problem_S, dtype=np.int64)
    order = np.lexsort((score, problem))
    score, problem = score[order], problem[order]
    drawn_P = np.bincount(problem, minlength=problems)
    start_P = np.cumsum(drawn_P) - drawn_P
    below = np.arange(score.size) - start_P[problem]  # how many of the problem's scores are not larger
    n = drawn_P[problem]
    weight = np.exp(log_miss(n - 1, n - 1 - below, k - 1)) * k / np.maximum(n, 1)
    best_P = np.bincount(problem, weights=np.where(n >= k, weight * score, 0.0), minlength=problems)
    return np.where(drawn_P >= k, best_P, np.nan)


def sampling_efficiency_gap(pass_before: float, pass_after: float) -> float:
    """Delta_SE = pass@256(base) - pass@1(RL): what sampling still had to give (arXiv:2504.13837)."""
    return pass_before - pass_after


def bayes_at_n(outcome_PN: ArrayLike, weight_C: ArrayLike) -> tuple[float, float]:
    """Bayes@N: posterior mean and standard deviation of the mean weight, uniform Dirichlet prior (arXiv:2510.04265)."""
    outcome, weight = np.asarray(outcome_PN, dtype=np.int64), np.asarray(weight_C, dtype=np.float64)
    problems, samples = outcome.shape
    total = samples + weight.size
    share_PC = (1 + np.stack([(outcome == c).sum(axis=1) for c in range(weight.size)], axis=1)) / total
    mean_P = share_PC @ weight
    variance_P = share_PC @ weight**2 - mean_P**2
    return float(mean_P.mean()), float(np.sqrt(variance_P.sum() / (total + 1)) / problems)


def _at_least(drawn: ArrayLike, correct: ArrayLike, k: int, least_J: np.ndarray) -> Float:
    """Chance of at least each of the `least` successes in k draws; the last axis runs over `least`."""
    n, c = np.broadcast_arrays(np.asarray(drawn), np.asarray(correct))
    hits = np.arange(least_J.min(), k + 1)
    pmf = np.exp(log_hypergeometric(hits, n[..., None], c[..., None], k))
    tail = np.cumsum(pmf[..., ::-1], axis=-1)[..., ::-1]
    chance = np.minimum(tail[..., least_J - least_J.min()], 1.0)
    return np.where((k <= n)[..., None], chance, np.nan)
