"""Groups of a training run before it begins: which give no signal, and which solutions they would miss.

A group of G samples of one problem teaches nothing when all of them are wrong or all are right: with rate p that is
(1-p)^G + p^G. The rates come from counts of the base: the distribution of rates over problems is estimated without
assuming its shape (stats/mixture.py), and a problem's own rate is its posterior under that distribution, because c/n is
0 for a problem that was merely not solved yet.
"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.special import expit

from offleash.stats.binomials import binomial_at_most, binomial_pmf
from offleash.stats.mixture import Floats, Mixture, RateLikelihood, functional_range, miss, npmle

NODES = 21  # of the Gauss-Hermite rule: chances change by less than .001 with more
HALF_CHI_SQUARE = 1.92  # how far the log-likelihood may be below its maximum at 95%


@dataclass(frozen=True)
class RatePosterior:
    """The posterior of every problem's rate, over a grid of rates.

    Example:
        >>> posterior = rate_posterior([8, 8, 8], [0, 4, 8])
        >>> posterior.mean(posterior.rate_J).round(1)
        array([0. , 0.5, 1. ])
    """

    rate_J: Floats
    weight_PJ: Floats  # of each problem, with sum 1

    def mean(self, value_J: ArrayLike) -> Floats:
        """The expected value of a function of the rate, for each problem.

        Args:
            value_J: its values at the rates of the grid.

        Returns:
            One value per problem.

        Example:
            >>> posterior = rate_posterior([8, 8, 8], [0, 4, 8])
            >>> posterior.mean(np.ones_like(posterior.rate_J)).round(6)
            array([1., 1., 1.])
        """
        return np.asarray(self.weight_PJ @ np.asarray(value_J, dtype=np.float64))


def rate_posterior(drawn_P: ArrayLike, correct_P: ArrayLike, prior: Mixture | None = None) -> RatePosterior:
    """The posterior of each problem's rate, under the distribution of rates that all problems show.

    Args:
        drawn_P: samples of each problem.
        correct_P: correct ones among them.
        prior: the distribution of rates; default: the one with the largest likelihood.

    Returns:
        The posterior.

    Example:
        >>> posterior = rate_posterior([8] * 20, [0] * 10 + [4] * 10)
        >>> bool(posterior.mean(posterior.rate_J)[0] < 0.05)
        True
    """
    drawn, correct = np.asarray(drawn_P, dtype=np.int64), np.asarray(correct_P, dtype=np.int64)
    law = npmle(RateLikelihood.from_counts(drawn, correct)) if prior is None else prior
    weight_PJ = binomial_pmf(correct[:, None], drawn[:, None], law.rate_J) * law.weight_J
    return RatePosterior(law.rate_J, weight_PJ / weight_PJ.sum(axis=1, keepdims=True))


@dataclass(frozen=True)
class GroupSignal:
    """Groups of one size: shares without signal, over problems such as these.

    Example:
        >>> (half,) = group_signal([64] * 30, [32] * 30, [2])
        >>> round(half.all_wrong, 2), round(half.all_right, 2)
        (0.25, 0.25)
    """

    size: int
    all_wrong: float
    all_right: float
    low: float  # 95%, of the expected share of groups without signal
    high: float
    step_low: float  # 95%, of the share that a step with so many groups shows
    step_high: float

    @property
    def none(self) -> float:
        """The share without signal."""
        return self.all_wrong + self.all_right


def group_signal(
    drawn_P: ArrayLike, correct_P: ArrayLike, size_K: ArrayLike, groups: int = 64
) -> tuple[GroupSignal, ...]:
    """The share of groups without signal at each group size, from counts of the base.

    The share is a mean over the distribution of rates, so its interval is the range that it has over all distributions
    that the likelihood does not rule out. The interval of a step adds the chance of its own groups.

    Args:
        drawn_P: samples of each problem.
        correct_P: correct ones among them.
        size_K: group sizes.
        groups: groups of a training step.

    Returns:
        One for each size.

    Example:
        >>> signal = group_signal([64] * 30, [0] * 15 + [1] * 15, [8, 512])
        >>> signal[0].none > signal[1].none, signal[0].low <= signal[0].none <= signal[0].high
        (True, True)
    """
    size_K = np.atleast_1d(np.asarray(size_K, dtype=np.int64))
    likelihood = RateLikelihood.from_counts(drawn_P, correct_P)
    best = npmle(likelihood)
    wrong_KJ, right_KJ = miss(best.rate_J, size_K[:, None]), best.rate_J ** size_K[:, None]
    low_K, high_K = functional_range(likelihood, best, wrong_KJ + right_KJ, HALF_CHI_SQUARE)
    signals = []
    for place, size in enumerate(size_K):
        wrong, right = float(wrong_KJ[place] @ best.weight_J), float(right_KJ[place] @ best.weight_J)
        none = wrong + right
        low, high = min(float(low_K[place]), none), max(float(high_K[place]), none)
        below, above = _step_interval(none, groups)
        step_low = none - float(np.hypot(none - low, none - below))
        step_high = none + float(np.hypot(high - none, above - none))
        signals.append(GroupSignal(int(size), wrong, right, low, high, max(step_low, 0.0), min(step_high, 1.0)))
    return tuple(signals)


def _step_interval(share: float, groups: int) -> tuple[float, float]:
    """Where the share that so many groups show lies with 95%, if its expectation is known."""
    at_most = binomial_at_most(np.arange(groups + 1), groups, share)
    low, high = np.searchsorted(at_most, [0.025, 0.975])
    return float(low) / groups, float(min(high, groups)) / groups


def draws_for_half(posterior: RatePosterior, chosen_P: NDArray[np.bool_], most: int) -> int | None:
    """The samples per problem at which half of the chosen problems are expected to be solved at least once.

    Args:
        posterior: of the rates.
        chosen_P: which problems.
        most: the largest number that is looked at: beyond a few times the samples drawn, counts say nothing.

    Returns:
        The number; None where it is larger than `most`, or there is no such problem.

    Example:
        >>> posterior = rate_posterior([64] * 20, [1] * 10 + [32] * 10)
        >>> draws_for_half(posterior, np.array([True] * 10 + [False] * 10), 512)
        48
    """
    if not chosen_P.any():
        return None
    weight_J = posterior.weight_PJ[chosen_P].mean(axis=0)

    def solved(draws: int) -> bool:
        return float(weight_J @ miss(posterior.rate_J, draws)) <= 0.5

    if not solved(most):
        return None
    low, high = 0, most
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (low, middle) if solved(middle) else (middle, high)
    return high


@dataclass(frozen=True)
class RateShift:
    """What a training run does to rates: the logit of a rate p becomes `offset + slope logit(p) + noise z`, z normal.

    A slope above 1 lowers rare rates and raises common ones; no offset, slope 1 and no noise leave them as they are.

    Example:
        >>> RateShift(offset=0.0, slope=1.0, noise=0.0).rates(np.array([0.25]))
        array([[0.25]])
    """

    offset: float
    slope: float
    noise: float

    def rates(self, rate_J: ArrayLike) -> Floats:
        """The rates after the training, at each node of `nodes`.

        Args:
            rate_J: rates before it.

        Returns:
            Rates, by rate before and node; 0 stays 0 and 1 stays 1.

        Example:
            >>> RateShift(-1.0, 1.5, 0.0).rates([0.0, 0.5, 1.0]).round(2)
            array([[0.  ],
                   [0.27],
                   [1.  ]])
        """
        rate_J = np.asarray(rate_J, dtype=np.float64)
        with np.errstate(divide="ignore"):
            logit_J = np.log(rate_J) - np.log1p(-rate_J)
        return np.asarray(expit(self.offset + self.slope * logit_J[:, None] + self.noise * self.nodes[0]))

    @property
    def nodes(self) -> tuple[Floats, Floats]:
        """Values of z and their weights: Gauss-Hermite, or z = 0 where there is no noise.

        Example:
            >>> RateShift(0.0, 1.0, 0.0).nodes
            (array([0.]), array([1.]))
        """
        if not self.noise:
            return np.zeros(1), np.ones(1)
        z, weight = np.polynomial.hermite_e.hermegauss(NODES)
        return z, weight / weight.sum()


def chance_lost(posterior: RatePosterior, shift: RateShift, k: int) -> Floats:
    """The chance that no sample of k solves a problem after a training run.

    Args:
        posterior: of the rates before it.
        shift: what it does to rates; RateShift(0, 1, 0) is the same model drawn again.
        k: samples.

    Returns:
        One chance per problem.

    Example:
        >>> posterior = rate_posterior([64] * 30, [1] * 10 + [8] * 10 + [32] * 10)
        >>> chance = chance_lost(posterior, RateShift(-2.0, 1.5, 1.0), 64)
        >>> bool(chance[0] > chance[10] > chance[20])
        True
    """
    return posterior.mean(miss(shift.rates(posterior.rate_J), k) @ shift.nodes[1])


def shifted_counts(posterior: RatePosterior, shift: RateShift, n: int, correct_P: ArrayLike) -> Floats:
    """The likelihood of counts after a training run, by which a shift is fitted (research/chance_of_loss).

    Args:
        posterior: of the rates before it.
        shift: what it does to rates.
        n: samples of each problem after it.
        correct_P: correct ones among them.

    Returns:
        One probability per problem.

    Example:
        >>> posterior = rate_posterior([64] * 20, [1] * 10 + [32] * 10)
        >>> counts = [shifted_counts(posterior, RateShift(0.0, 1.0, 0.5), 4, [c] * 20) for c in range(5)]
        >>> np.sum(counts, axis=0)[[0, 10]].round(6)
        array([1., 1.])
    """
    rate_JE, weight_E = shift.rates(posterior.rate_J), shift.nodes[1]
    correct_P = np.asarray(correct_P, dtype=np.int64)
    values, place_P = np.unique(correct_P, return_inverse=True)
    chance_CJ = np.stack([binomial_pmf(value, n, rate_JE) @ weight_E for value in values])
    return np.asarray((posterior.weight_PJ * chance_CJ[place_P]).sum(axis=1))


def tail_miss(tau: ArrayLike, rate: ArrayLike, size: ArrayLike) -> Floats:
    """Chance that a group has a signal and holds no sample of a rare solution.

    Such a group pushes the solution down: its mass goes to what was sampled (F-GRPO). With probability `tau` of the
    solution and `rate` of any correct sample it is (1-tau)^G - (rate-tau)^G - (1-rate)^G.

    Args:
        tau: probability of the solution, at most `rate`.
        rate: probability of a correct sample.
        size: G, the samples of a group.

    Returns:
        The chances, broadcast over the arguments.

    Example:
        >>> tail_miss(0.1, 0.5, [2]).round(4)  # one correct sample of another solution, one wrong: 2 x 0.4 x 0.5
        array([0.4])
    """
    tau, rate, size = (np.asarray(value, dtype=np.float64) for value in (tau, rate, size))
    return np.asarray((1 - tau) ** size - np.maximum(rate - tau, 0.0) ** size - (1 - rate) ** size)


def seen_posterior(drawn_S: ArrayLike, count_S: ArrayLike) -> RatePosterior:
    """The posterior of the probabilities of things that were each seen at least once, such as solutions.

    What was never seen is not among them, so that the likelihood of a count is conditional on it being positive.

    Args:
        drawn_S: samples among which each was counted.
        count_S: how often it was seen, at least once.

    Returns:
        The posterior.

    Example:
        >>> posterior = seen_posterior([64] * 20, [1] * 10 + [32] * 10)
        >>> bool(posterior.mean(posterior.rate_J)[0] < 0.05), posterior.mean(posterior.rate_J)[-1].round(1)
        (True, np.float64(0.5))
    """
    drawn, count = np.asarray(drawn_S, dtype=np.int64), np.asarray(count_S, dtype=np.int64)
    likelihood = RateLikelihood.from_counts(drawn, count)
    rate_J = likelihood.rate_J[1:]  # a probability of 0 is never seen
    case_2U, weight_U = np.unique(np.stack([drawn, count]), axis=1, return_counts=True)
    n_U1, c_U1 = case_2U[0][:, None], case_2U[1][:, None]
    chance_UJ = binomial_pmf(c_U1, n_U1, rate_J) / -np.expm1(n_U1 * np.log1p(-np.minimum(rate_J, 1 - 1e-15)))
    scaled_UJ = chance_UJ / chance_UJ.max(axis=1, keepdims=True)
    law = npmle(RateLikelihood(rate_J, scaled_UJ, weight_U.astype(np.float64)))
    by_case = {(int(n), int(c)): row for (n, c), row in zip(case_2U.T, scaled_UJ * law.weight_J, strict=True)}
    weight_SJ = np.stack([by_case[int(n), int(c)] for n, c in zip(drawn, count, strict=True)])
    return RatePosterior(rate_J, weight_SJ / weight_SJ.sum(axis=1, keepdims=True))
