"""pass@k and its relatives for one run: pass^k, G-Pass@k, Cover@tau, avg@k, max@k, Bayes@N and maj@k.

Most need only how many samples of a problem were drawn and how many were correct; max@k takes their scores, Bayes@N
their outcomes, and maj@k, the second part, how often each answer was given.
"""

from dataclasses import dataclass
from typing import Literal, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from offleash.stats.binomials import Float, binomial_pmf, log_hypergeometric, log_miss


def pass_at_k(drawn: ArrayLike, correct: ArrayLike, k: ArrayLike) -> Float:
    """Chance that `k` draws without replacement from the `drawn` include a correct one; NaN for k > drawn.

    Unbiased (Chen et al., arXiv:2107.03374).

    Args:
        drawn: samples n of each problem.
        correct: correct ones c among them.
        k: the budget.

    Returns:
        1 - C(n-c, k)/C(n, k), broadcast over the arguments: the unbiased estimator of arXiv:2107.03374.

    Example:
        >>> ol.pass_at_k([8, 8], [0, 2], 4)
        array([0.        , 0.78571429])
    """
    with np.errstate(invalid="ignore"):
        return 0.0 - np.expm1(log_miss(drawn, correct, k))


def pass_at_k_prefix(drawn: ArrayLike, first: ArrayLike, k: ArrayLike) -> Float:
    """Whether any of the first `k` samples in index order is correct; `first` is the first success, -1 for none.

    The curves of arXiv:2507.14843 are made this way; `pass_at_k` has the smaller variance.

    Args:
        drawn: samples of each problem.
        first: index of its first correct sample; -1: none.
        k: the budget.

    Returns:
        1 or 0; NaN for k > drawn.

    Example:
        >>> pass_at_k_prefix(8, [0, 5, -1], 4)
        array([1., 0., 0.])
    """
    first_, k_ = np.asarray(first), np.asarray(k)
    is_hit = (first_ >= 0) & (first_ < k_)
    return np.where(k_ <= np.asarray(drawn), is_hit, np.nan).astype(np.float64)


def log_miss_stopped(
    drawn: ArrayLike, correct: ArrayLike, stopped: ArrayLike, budget: ArrayLike, k: ArrayLike
) -> Float:
    """Log of an unbiased (1-p)^k for records that may have ended at their m-th success.

    A record that stopped on sample N with m successes is inverse sampling: its last sample is a success by design,
    so the estimate is C(N-1-k, m-1)/C(N-1, m-1); one that ran out of budget is a plain record. NaN for k > budget.

    Args:
        drawn: samples of each record: N where it stopped.
        correct: correct ones: m where it stopped.
        stopped: whether it ended at its m-th success.
        budget: the samples it would have had otherwise.
        k: the budget of the estimate.

    Returns:
        The logs, broadcast over the arguments.

    Example:
        >>> # the second success came on sample 5; beside it a record that ran to its budget of 8
        >>> np.exp(log_miss_stopped([5, 8], [2, 1], [True, False], 8, 2)).round(4)
        array([0.5 , 0.75])
    """
    n, c, stop = np.asarray(drawn), np.asarray(correct), np.asarray(stopped, dtype=bool)
    k_ = np.asarray(k)
    # Inverse binomial sampling (Haldane 1945). Given the stop on sample N, the other m-1 successes are a uniform choice
    # of the N-1 places before it: without its last sample the record is a plain one of N-1 samples and m-1 successes.
    # Keeping the last sample would count a success that had to come: p = .05 would read too high.
    log = log_miss(n - stop, c - stop, k_)
    is_impossible = stop & (k_ > n - stop) & (k_ <= np.asarray(budget))  # a stopped record cannot miss that often
    return np.where(is_impossible, -np.inf, log)


def pass_hat_k(drawn: ArrayLike, correct: ArrayLike, k: ArrayLike) -> Float:
    """pass^k: chance that all of `k` draws without replacement are correct.

    Args:
        drawn: samples n of each problem.
        correct: correct ones c among them.
        k: the budget.

    Returns:
        C(c, k)/C(n, k); NaN for k > n.

    Example:
        >>> pass_hat_k(10, [0, 5, 10], 2).round(4)
        array([0.    , 0.2222, 1.    ])
    """
    n, c = np.asarray(drawn), np.asarray(correct)
    return np.exp(log_miss(n, n - c, k))


def g_pass_at_k(drawn: ArrayLike, correct: ArrayLike, k: int, tau: float) -> Float:
    """G-Pass@k: chance that at least a share `tau` of `k` draws without replacement are correct (arXiv:2412.13147).

    Args:
        drawn: samples n of each problem.
        correct: correct ones c among them.
        k: the budget.
        tau: the share of the k that must be correct.

    Returns:
        The chance; NaN for k > n.

    Example:
        >>> g_pass_at_k(10, [0, 5, 10], 4, 0.5).round(4)
        array([0.    , 0.7381, 1.    ])
    """
    least = max(1, int(np.ceil(tau * k - 1e-9)))
    return _at_least(drawn, correct, k, np.array([least]))[..., 0]


def mg_pass_at_k(drawn: ArrayLike, correct: ArrayLike, k: int) -> Float:
    """mG-Pass@k: G-Pass@k averaged over the shares above one half (arXiv:2412.13147).

    Args:
        drawn: samples n of each problem.
        correct: correct ones c among them.
        k: the budget.

    Returns:
        The mean; NaN for k > n.

    Example:
        >>> mg_pass_at_k(10, [0, 5, 10], 4).round(4)
        array([0.    , 0.1429, 1.    ])
    """
    least = np.arange(int(np.ceil(k / 2)) + 1, k + 1)
    if not least.size:  # no share lies above one half of a single draw
        return np.where(np.asarray(drawn) >= k, 0.0, np.nan) + 0.0 * np.asarray(correct)
    mean: Float = (2.0 / k) * _at_least(drawn, correct, k, least).sum(axis=-1)
    return mean


def cover_at(drawn: ArrayLike, correct: ArrayLike, tau: float) -> float:
    """Cover@tau: share of the problems whose rate is at least `tau` (arXiv:2510.08325).

    Args:
        drawn: samples n of each problem.
        correct: correct ones c among them.
        tau: the rate.

    Returns:
        The share; NaN where no problem has samples.

    Example:
        >>> cover_at(10, [0, 5, 10], 0.5)
        0.6666666666666666
    """
    n, c = np.broadcast_arrays(np.asarray(drawn, dtype=np.float64), np.asarray(correct))
    n, c = n[n > 0], c[n > 0]  # a problem without samples has no rate
    return float(np.mean(c >= tau * n - 1e-9)) if n.size else float("nan")


def avg_at_k(drawn: ArrayLike, correct: ArrayLike) -> Float:
    """avg@k: share of the samples of each problem that are correct; NaN where none was drawn.

    Args:
        drawn: samples n of each problem.
        correct: correct ones c among them.

    Returns:
        The rates.

    Example:
        >>> avg_at_k([10, 0], [3, 0])
        array([0.3, nan])
    """
    n, c = np.asarray(drawn, dtype=np.float64), np.asarray(correct, dtype=np.float64)
    rate: Float = np.full(np.broadcast(n, c).shape, np.nan)
    np.divide(c, n, out=rate, where=n > 0)
    return rate


def max_at_k(score_S: ArrayLike, problem_S: ArrayLike, problems: int, k: int) -> Float:
    """max@k: expected best score of `k` draws without replacement, for each problem; NaN where fewer were drawn.

    `problem_S` is the row (0 to problems-1) that each of the S scores belongs to.

    Args:
        score_S: the score of each sample.
        problem_S: the row of its problem.
        problems: how many problems there are.
        k: the budget.

    Returns:
        One expectation per problem.

    Example:
        >>> max_at_k([0, 1, 1, 0, 1], [0, 0, 0, 0, 0], 1, 2)
        array([0.9])
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
    """Delta_SE = pass@256(base) - pass@1(RL): what sampling still had to give (arXiv:2504.13837).

    Args:
        pass_before: pass@256 of the base.
        pass_after: pass@1 of the RL model.

    Returns:
        Their difference.

    Example:
        >>> sampling_efficiency_gap(0.75, 0.5)
        0.25
    """
    return pass_before - pass_after


def bayes_at_n(outcome_PN: ArrayLike, weight_C: ArrayLike) -> tuple[float, float]:
    """Bayes@N: posterior mean and standard deviation of the mean weight, uniform Dirichlet prior (arXiv:2510.04265).

    Args:
        outcome_PN: the outcome, a class from 0, of each of N samples.
        weight_C: the weight of each class.

    Returns:
        Mean and standard deviation.

    Example:
        >>> mean, spread = bayes_at_n([[0, 1, 2, 2, 1], [1, 1, 0, 2, 2]], [0, 0.5, 1])
        >>> mean, round(spread, 6)
        (0.5625, 0.091998)
    """
    outcome, weight = np.asarray(outcome_PN, dtype=np.int64), np.asarray(weight_C, dtype=np.float64)
    problems, samples = outcome.shape
    total = samples + weight.size
    share_PC = (1 + np.stack([(outcome == c).sum(axis=1) for c in range(weight.size)], axis=1)) / total
    mean_P = share_PC @ weight
    variance_P = share_PC @ weight**2 - mean_P**2
    return float(mean_P.mean()), float(np.sqrt(variance_P.sum() / (total + 1)) / problems)


def _at_least(drawn: ArrayLike, correct: ArrayLike, k: int, min_hits_J: np.ndarray) -> Float:
    """Chance of at least each of the `least` successes in k draws; the last axis runs over `least`."""
    n, c = np.broadcast_arrays(np.asarray(drawn), np.asarray(correct))
    hits = np.arange(min_hits_J.min(), k + 1)
    pmf = np.exp(log_hypergeometric(hits, n[..., None], c[..., None], k))
    tail = np.cumsum(pmf[..., ::-1], axis=-1)[..., ::-1]
    chance = np.minimum(tail[..., min_hits_J - min_hits_J.min()], 1.0)
    return np.where((k <= n)[..., None], chance, np.nan)


# maj@k: the chance that the most frequent answer of k samples is correct, from answer counts.
#
# Exact without enumerating outcomes: the counts of k samples without replacement are independent Binomial(count, k/n)
# given that they add to k, so the chance that an answer wins with m votes is one coefficient of a product of short
# polynomials, read off at a few roots of unity. Ties share credit: 1/t = int_0^1 u^(t-1) du makes the number tied a
# power of u.


Floats = NDArray[np.float64]
Ints = NDArray[np.int64]
Complex = NDArray[np.complex128]

MAX_SHUFFLED = 1 << 20  # samples of a problem up to which subsamples are drawn by shuffling them
NEGLIGIBLE = 1e-17  # chance below which a number of winning votes is left out of an exact sum


@dataclass(frozen=True)
class Majority:
    """maj@k of each problem; `error_P` is the standard error of the simulated ones and 0 where `exact_P`.

    Example:
        >>> majority_at_k([3, 2], [True, False], [0, 0], 1, k=5).mean
        1.0
    """

    k: int
    value_P: Floats
    error_P: Floats
    exact_P: NDArray[np.bool_]

    @property
    def mean(self) -> float:
        """Mean over the problems that have k samples; NaN if none has."""
        known = np.isfinite(self.value_P)
        return float(self.value_P[known].mean()) if known.any() else float("nan")


def majority_at_k(
    count_A: ArrayLike,
    correct_A: ArrayLike,
    problem_A: ArrayLike,
    problems: int,
    k: int,
    *,
    votes_A: ArrayLike | None = None,
    draws: int = 4096,
    seed: int = 0,
    effort: float = 2e7,
) -> Majority:
    """Chance that the plurality answer of k samples drawn without replacement is correct, ties sharing credit.

    Rows with `votes_A` False (unread) take a draw but cannot be elected; if nothing votable is drawn the credit is 0.
    Problems whose exact sum would take more than `effort` multiplications are simulated with `draws` subsamples.
    NaN where a problem has fewer than k samples.

    Args:
        count_A: how often each distinct answer was given.
        correct_A: whether it is correct.
        problem_A: the row of its problem.
        problems: how many problems there are.
        k: votes.
        votes_A: whether it can be elected; default: all can.
        draws: subsamples of a problem that is simulated.
        seed: of the subsamples.
        effort: multiplications up to which a problem is summed exactly.

    Returns:
        maj@k of each problem with its standard error.

    Example:
        >>> vote = majority_at_k([3, 2], [True, False], [0, 0], 1, k=3)
        >>> vote.value_P.round(4), vote.exact_P
        (array([0.7]), array([ True]))
    """
    if k < 1:
        raise ValueError(f"a vote needs at least one sample, got k={k}")
    count, problem = np.asarray(count_A, dtype=np.int64), np.asarray(problem_A, dtype=np.int64)
    votes = np.ones(count.size, dtype=np.bool_) if votes_A is None else np.asarray(votes_A, dtype=np.bool_)
    correct = np.asarray(correct_A, dtype=np.bool_)
    order = np.argsort(problem, kind="stable")
    order = order[count[order] > 0]
    boundary = np.searchsorted(problem[order], np.arange(problems + 1))
    value_P, error_P = np.full(problems, np.nan), np.full(problems, np.nan)
    for i in range(problems):
        rows = order[boundary[i] : boundary[i + 1]]
        ballot = _ballot(count[rows], correct[rows], votes[rows])
        if ballot.n >= k:
            value_P[i], error_P[i] = _majority_of_problem(ballot, k, draws, effort, (seed, i))
    return Majority(k, value_P, error_P, error_P == 0)


class _Ballot(NamedTuple):
    count_U: Ints  # distinct numbers of votes among the answers that may be elected
    right_U: Ints  # how many correct answers have that number
    wrong_U: Ints
    ineligible: int  # samples that cannot be elected
    n: int  # all samples

    @property
    def kinds(self) -> int:
        """Pairs of a number of votes that a correct answer has and one that any answer has."""
        return int(np.count_nonzero(self.right_U)) * self.count_U.size

    @property
    def roots(self) -> int:
        """Roots of unity to sum over; fewer than n+1 alias k with k +- roots, whose chance is < 1e-20 (Hoeffding)."""
        return min(self.n + 1, int(5 * np.sqrt(self.n)) + 2)


def _ballot(count_A: Ints, correct_A: NDArray[np.bool_], votes_A: NDArray[np.bool_]) -> _Ballot:
    # answers with equal counts and verdicts are interchangeable: a few distinct counts stand for hundreds of answers
    count_U, group_index = np.unique(count_A[votes_A], return_inverse=True)
    right_U = np.bincount(group_index[correct_A[votes_A]], minlength=count_U.size)
    answers_U = np.bincount(group_index, minlength=count_U.size)
    return _Ballot(count_U, right_U, answers_U - right_U, int(count_A[~votes_A].sum()), int(count_A.sum()))


def _majority_of_problem(
    ballot: _Ballot, k: int, draws: int, effort: float, seed: tuple[int, int]
) -> tuple[float, float]:
    """maj@k of one problem and the standard error of it (0 if exact); the seed is that of its own simulation."""
    if not ballot.right_U.any():
        return 0.0, 0.0
    if k == 1:
        return float(ballot.count_U @ ballot.right_U) / ballot.n, 0.0
    if k == ballot.n:
        top = ballot.count_U.size - 1
        return float(ballot.right_U[top] / (ballot.right_U[top] + ballot.wrong_U[top])), 0.0
    if 2 * ballot.kinds * ballot.roots <= effort:  # at least two sums of so many terms: the race itself is not cheap
        vote_counts = _vote_counts(ballot, k)
        if vote_counts.effort <= effort:
            return _exact_majority(ballot, k, vote_counts), 0.0
    return _simulated_majority(ballot, k, draws, np.random.default_rng(seed))


class _VoteCounts(NamedTuple):
    pmf_UM: Floats  # chance that an answer gets m votes, before the condition that all votes add to k
    winning: list[int]  # numbers of winning votes with a chance that matters
    ties_M: Ints  # largest number of rivals that could tie at m votes
    roots: int
    effort: float


def _vote_counts(ballot: _Ballot, k: int) -> _VoteCounts:
    n, answers_U = ballot.n, ballot.right_U + ballot.wrong_U
    most = min(k, int(ballot.count_U.max()))
    m_M = np.arange(most + 1)
    pmf_UM = binomial_pmf(m_M, ballot.count_U[:, None], k / n)
    none_above_M = np.prod(np.minimum(np.cumsum(pmf_UM, axis=1), 1.0) ** answers_U[:, None], axis=0)
    wins_M = np.max(pmf_UM * (ballot.right_U > 0)[:, None], axis=0)
    ties_M = np.minimum(answers_U @ (ballot.count_U[:, None] >= m_M), k // np.maximum(m_M, 1)) - 1
    probability_of_k = float(binomial_pmf(k, n, k / n))
    winning = [m for m in range(1, most + 1) if min(wins_M[m], none_above_M[m]) > NEGLIGIBLE * probability_of_k]
    sums = sum(int(ties_M[m]) // 2 + 2 for m in winning)
    return _VoteCounts(pmf_UM, winning, ties_M, ballot.roots, float(ballot.kinds * ballot.roots * sums))


def _exact_majority(ballot: _Ballot, k: int, vote_counts: _VoteCounts) -> float:
    answers_U, theta = ballot.right_U + ballot.wrong_U, k / ballot.n
    z_F = np.exp(2j * np.pi * np.arange(vote_counts.roots // 2 + 1) / vote_counts.roots)
    # conjugate roots give conjugate terms: count the inner ones twice and keep the real part
    root_weight_F = (
        np.where((np.arange(z_F.size) == 0) | (2 * np.arange(z_F.size) == vote_counts.roots), 1.0, 2.0)
        / vote_counts.roots
    )
    ineligible_F = root_weight_F * (1 - theta + theta * z_F) ** ballot.ineligible * z_F ** (-k % vote_counts.roots)
    below_UF, power_F, credit = np.zeros((answers_U.size, z_F.size), dtype=np.complex128), np.ones_like(z_F), 0.0
    winning = set(vote_counts.winning)
    for m in range(1, max(vote_counts.winning, default=0) + 1):
        below_UF += vote_counts.pmf_UM[:, m - 1, None] * power_F
        power_F = power_F * z_F
        if m in winning:
            tie_UF = vote_counts.pmf_UM[:, m, None] * power_F
            credit += _credit(ballot, below_UF, tie_UF, ineligible_F, int(vote_counts.ties_M[m]))
    return float(np.clip(credit / binomial_pmf(k, ballot.n, theta), 0.0, 1.0))


def _credit(ballot: _Ballot, below_UF: Complex, tie_UF: Complex, ineligible_F: Complex, ties: int) -> float:
    """Chance, shared over ties, that a correct answer wins with the votes that `tie_UF` stands for."""
    answers_U, credit = ballot.right_U + ballot.wrong_U, 0.0
    node_Q, weight_Q = np.polynomial.legendre.leggauss(ties // 2 + 1)  # exact for the degree `ties` in u
    for winner in np.flatnonzero(ballot.right_U):
        rival_U = answers_U - (np.arange(answers_U.size) == winner)
        won_F = ineligible_F * tie_UF[winner] * ballot.right_U[winner]
        for u, weight in zip((node_Q + 1) / 2, weight_Q / 2, strict=True):
            product_F = np.prod((below_UF + u * tie_UF) ** rival_U[:, None], axis=0)
            credit += weight * float((won_F @ product_F).real)
    return credit


def _simulated_majority(ballot: _Ballot, k: int, draws: int, rng: np.random.Generator) -> tuple[float, float]:
    # descending counts: the sampler stops once the k samples are handed out; of equal ones, correct answers first
    answers_V = np.stack([ballot.wrong_U, ballot.right_U], axis=1).ravel()[::-1]
    count_A = np.repeat(np.repeat(ballot.count_U, 2)[::-1], answers_V)
    right_A = np.repeat(np.arange(answers_V.size) % 2 == 0, answers_V)
    pool_A = np.append(count_A, ballot.ineligible)
    # "count" shuffles the samples themselves: cheap where k is much smaller than the number of answers
    method: Literal["count", "marginals"] = "count" if ballot.n <= MAX_SHUFFLED else "marginals"
    drawn_BA = rng.multivariate_hypergeometric(pool_A, k, size=draws, method=method)[:, :-1]
    top_B = drawn_BA.max(axis=1)
    tied_BA = (drawn_BA == top_B[:, None]) & (top_B > 0)[:, None]
    credit_B = tied_BA[:, right_A].sum(axis=1) / np.maximum(tied_BA.sum(axis=1), 1)
    # a sample without variation still is a sample: one draw of each kind keeps the error above 0 (Laplace)
    mean = float(credit_B.mean())
    floor = (1 / (draws + 2)) * (1 - 1 / (draws + 2))
    return mean, float(np.sqrt(max(float(credit_B.var(ddof=1)), floor) / draws))
