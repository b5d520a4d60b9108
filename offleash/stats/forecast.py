"""How many more problems a larger budget would reach: smoothed Good-Toulmin to 2n, a range of models to 8n.

A problem that was reached stays reached and one that was not is extrapolated from its own n, so every curve passes
through the observed pass@n. The share of problems that can never be reached is not identified by data, so every share
that the likelihood does not rule out is followed, and the range covers them all plus the noise of drawing.
"""

from dataclasses import dataclass
from math import comb
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from offleash.stats.binomials import log_miss

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]

SMOOTHING = 8  # length of the binomial that damps the alternating series
MAX_EXTRAPOLATION = 8  # times n; beyond, the two models part for reasons no data can settle
MIN_SAMPLES = 4  # samples per problem below which the two models cannot be distinguished by data
LOG_BOUNDS = (-9.0, 18.0)  # of a and b: a rate of 1e-12 is as good as 0 here, and a = b = 6e7 as good as one rate
NEVER_SHARES = np.array([0.0, 0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 0.98])  # of the unreached that never will be
LOG_LIKELIHOOD_DROP = 1.92  # log-likelihood below the best at which a share is ruled out (5%, one degree of freedom)
Z_95 = 1.96
CONFIDENCE = 0.95


@dataclass(frozen=True)
class Mixture:
    """A beta-binomial fit: rates are 0 with chance `never`, else Beta(a, b).

    Example:
        >>> np.exp(Mixture(a=1.0, b=1.0, never=0.0, log_likelihood=0.0).log_miss([1, 3])).round(4)
        array([0.5 , 0.25])
    """

    a: float
    b: float
    never: float
    log_likelihood: float

    def log_miss(self, k: ArrayLike) -> Floats:
        """Log chance that a problem of this population is missed by k samples."""
        from scipy.special import betaln

        log = betaln(self.a, self.b + np.asarray(k, dtype=np.float64)) - betaln(self.a, self.b)
        if self.never == 0:
            return np.asarray(log)
        return np.asarray(np.logaddexp(np.log(self.never), np.log1p(-self.never) + log))


@dataclass(frozen=True)
class Forecast:
    """Coverage (mean pass@k) at each budget as a range, with what it rests on.

    Up to n both ends are the unbiased pass@k; from n to 8n the range spans all plausible fits and the noise of drawing;
    NaN beyond. `newly_at_2n` is the smoothed Good-Toulmin count of problems that doubling n would newly reach.
    """

    n: int
    problems: int
    observed: float
    budgets_K: Ints
    low_K: Floats
    high_K: Floats
    newly_at_2n: float
    fits: tuple[Mixture, ...]
    notes: tuple[str, ...]


def good_toulmin(frequencies_J: ArrayLike, factor: float = 2.0) -> float:
    """Expected number of problems newly reached when n grows to `factor` n: sum_j -(-t)^j P(Bin(8, 1/(1+t)) >= j) f_j.

    t = factor - 1; `frequencies_J[j-1]` is f_j, the problems with j correct samples; at factor 2 the smoothing is
    Bin(8, 1/2) (Good & Toulmin 1956; Efron & Thisted 1976). NaN outside 1 <= factor <= 2, where the series is unstable.

    Args:
        frequencies_J: problems with 1, 2, 3, ... correct samples.
        factor: by which n grows, 1 to 2.

    Returns:
        The expected number; NaN outside 1 <= factor <= 2.

    Example:
        >>> round(good_toulmin([5, 3, 1]), 4)
        2.9414
    """
    t = factor - 1.0
    if not 0.0 <= t <= 1.0:
        return float("nan")
    f_J = np.asarray(frequencies_J, dtype=np.float64)[:SMOOTHING]
    return float(good_toulmin_weights(f_J.size, t) @ f_J)


def good_toulmin_weights(frequencies: int, t: float = 1.0) -> Floats:
    """The weights of the first f_j in the smoothed Good-Toulmin sum: -(-t)^j P(Bin(8, 1/(1+t)) >= j) for j = 1, 2, ...

    Args:
        frequencies: how many of them, at most SMOOTHING; beyond, the weights are 0.
        t: how many further times n samples are to be drawn, 0 to 1.

    Returns:
        One weight for each j from 1.

    Example:
        >>> good_toulmin_weights(3) * 256
        array([ 255., -247.,  219.])
    """
    p = 1 / (1 + t)
    pmf_I = np.array([comb(SMOOTHING, i) * p**i * (1 - p) ** (SMOOTHING - i) for i in range(SMOOTHING + 1)])
    at_least_J = np.cumsum(pmf_I[::-1])[::-1][1 : frequencies + 1]
    return np.asarray(-((-t) ** np.arange(1, frequencies + 1)) * at_least_J)


def forecast(drawn_P: ArrayLike, correct_P: ArrayLike, budgets_K: ArrayLike) -> Forecast:
    """Coverage at budgets up to 8n, n being the fewest samples of any problem that has some.

    Args:
        drawn_P: samples of each problem.
        correct_P: correct ones among them.
        budgets_K: the budgets to forecast.

    Returns:
        A range of coverage at each budget, NaN beyond 8n, and notes on what it rests on.

    Example:
        >>> ahead = forecast([16] * 6, [0, 0, 1, 2, 5, 16], [16, 32])
        >>> round(ahead.observed, 2), ahead.low_K.round(2), ahead.high_K.round(2)
        (0.67, array([0.67, 0.67]), array([0.67, 0.86]))
    """
    drawn, correct = np.asarray(drawn_P, dtype=np.int64), np.asarray(correct_P, dtype=np.int64)
    budgets = np.atleast_1d(np.asarray(budgets_K, dtype=np.int64))
    drawn, correct, left_out = drawn[drawn > 0], correct[drawn > 0], int(np.count_nonzero(drawn <= 0))
    notes = [f"{left_out} problems without samples are left out"] if left_out else []
    if drawn.size == 0:
        nan_K = np.full(budgets.size, np.nan)
        return Forecast(0, 0, np.nan, budgets, nan_K, nan_K, np.nan, (), (*notes, "no samples: no forecast"))
    n, unreached = int(drawn.min()), correct == 0
    if drawn.max() > n:
        notes.append(
            f"samples per problem differ ({n} to {drawn.max()}): n is the smallest, and each problem continues from "
            "its own"
        )
    fits: tuple[Mixture, ...] = ()
    newly_reached = np.nan
    if not unreached.any():
        newly_reached = 0.0
        notes.append("every problem is reached: a larger budget can add nothing")
        bounds = [_coverage(drawn, correct, budgets)]
    elif unreached.all():
        notes.append("no problem is reached: low is 0, high is the 95% bound 3(k-n)/n problems (rule of three)")
        bounds = [np.zeros(budgets.size), _rule_of_three(drawn, budgets)]
    elif n < MIN_SAMPLES:
        newly_reached = _newly_reached(correct)
        notes.append(
            f"{n} samples per problem are too few to estimate the spread of rates: a forecast needs {MIN_SAMPLES}"
        )
        bounds = [np.where(budgets <= n, _coverage(drawn, correct, budgets), np.nan)]
    else:
        newly_reached = _newly_reached(correct)
        fits = _fits(drawn, correct)
        bounds = [bound for fit in fits for bound in _carried(drawn, correct, budgets, fit)]
        notes.append(
            "range over models that the data do not rule out: beta-binomial, with or without problems never reached"
        )
    low, high = (_non_decreasing(budgets, bound) for bound in (np.fmin.reduce(bounds), np.fmax.reduce(bounds)))
    beyond = (budgets > MAX_EXTRAPOLATION * n) | (budgets < 1)
    if beyond.any():
        notes.append(f"no forecast beyond {MAX_EXTRAPOLATION}n = {MAX_EXTRAPOLATION * n} samples")
    nan_K = np.where(beyond, np.nan, 0.0)
    observed = float(1 - unreached.mean())
    return Forecast(n, drawn.size, observed, budgets, low + nan_K, high + nan_K, newly_reached, fits, tuple(notes))


def _newly_reached(correct_P: Ints) -> float:
    """Good-Toulmin at 2n, which can be negative or too large, within what is possible."""
    frequencies = np.bincount(correct_P[correct_P > 0])[1:]
    return float(np.clip(good_toulmin(frequencies), 0, np.count_nonzero(correct_P == 0)))


def _non_decreasing(budgets_K: Ints, bound_K: Floats) -> Floats:
    """A bound that does not fall with the budget, as coverage cannot."""
    order = np.argsort(budgets_K, kind="stable")
    out = np.empty_like(bound_K)
    out[order] = np.fmax.accumulate(bound_K[order])
    return np.where(np.isnan(bound_K), np.nan, out)


def _coverage(drawn_P: Ints, correct_P: Ints, budgets_K: Ints) -> Floats:
    """Mean pass@k, thinned up to a problem's own n and observed from there on."""
    case_U, weight_U = np.unique(np.stack([drawn_P, correct_P]), axis=1, return_counts=True)
    n_U1, c_U1 = case_U[0][:, None], case_U[1][:, None]
    miss_UK = np.exp(log_miss(n_U1, c_U1, np.minimum(budgets_K, n_U1)))
    return np.asarray(1 - weight_U @ miss_UK / drawn_P.size)


def _carried(drawn_P: Ints, correct_P: Ints, budgets_K: Ints, fit: Mixture) -> tuple[Floats, Floats]:
    """Ends of the coverage when a fit carries the unreached problems on, each newly reached or not by the draw."""
    n_U, weight_U = np.unique(drawn_P[correct_P == 0], return_counts=True)
    n_U1 = n_U[:, None]
    new_UK = np.where(budgets_K > n_U1, -np.expm1(fit.log_miss(np.maximum(budgets_K, n_U1)) - fit.log_miss(n_U1)), 0.0)
    mean_K, spread_K = weight_U @ new_UK, np.sqrt(weight_U @ (new_UK * (1 - new_UK)))
    seen_K, unreached = _coverage(drawn_P, correct_P, budgets_K), weight_U.sum()
    low_K, high_K = (np.clip(mean_K + sign * Z_95 * spread_K, 0, unreached) for sign in (-1, 1))
    return seen_K + low_K / drawn_P.size, seen_K + high_K / drawn_P.size


def _rule_of_three(drawn_P: Ints, budgets_K: Ints) -> Floats:
    # no success in sum n_i samples: sum n_i p_i <= -ln .05 with 95% confidence, whatever the rates; k - n_i further
    # samples then reach at most max (k - n_i)/n_i times as many problems in expectation
    extra_share_K = np.maximum((budgets_K[:, None] - drawn_P) / drawn_P, 0).max(axis=1)
    return np.asarray(np.minimum(-np.log(1 - CONFIDENCE) * extra_share_K / drawn_P.size, 1.0))


class _Cases(NamedTuple):
    drawn_U: Floats
    correct_U: Floats
    weight_U: Floats


def _fits(drawn_P: Ints, correct_P: Ints) -> tuple[Mixture, ...]:
    """Maximum likelihood at each share of problems that can never be reached, as far as the data do not rule it out."""
    case, weight = np.unique(np.stack([drawn_P, correct_P]), axis=1, return_counts=True)
    cases = _Cases(case[0].astype(np.float64), case[1].astype(np.float64), weight.astype(np.float64))
    rate = (correct_P.sum() + 0.5) / (drawn_P.sum() + 1)
    starts = [[np.log(size * rate), np.log(size * (1 - rate))] for size in (0.1, 1.0, 10.0)]
    fits: list[Mixture] = []
    for share in NEVER_SHARES * float(np.mean(correct_P == 0)):
        mixture = _fit(cases, float(share), starts)
        fits.append(mixture)
        # the next share's fit is near; a and b share a ridge, so the last start is tried again too
        starts = [[np.log(mixture.a), np.log(mixture.b)], starts[-1]]
    best = max(fit.log_likelihood for fit in fits)
    return tuple(fit for fit in fits if fit.log_likelihood >= best - LOG_LIKELIHOOD_DROP)


def _fit(cases: _Cases, never: float, starts: list[list[float]]) -> Mixture:
    from scipy.optimize import minimize  # a third of a second of start-up

    low, high = LOG_BOUNDS
    results = [
        minimize(
            _loss, np.clip(np.array(start), low, high), args=(cases, never), method="L-BFGS-B", bounds=[LOG_BOUNDS] * 2
        )
        for start in starts
    ]
    best = min(results, key=lambda result: float(result.fun))
    return Mixture(float(np.exp(best.x[0])), float(np.exp(best.x[1])), never, -float(best.fun))


def _loss(theta: Floats, cases: _Cases, never: float) -> float:
    from scipy.special import betaln

    a, b = np.exp(theta)
    log_U = betaln(a + cases.correct_U, b + cases.drawn_U - cases.correct_U) - betaln(a, b)
    if never > 0:
        log_U = np.log1p(-never) + log_U
        log_U = np.where(cases.correct_U == 0, np.logaddexp(np.log(never), log_U), log_U)
    return -float(cases.weight_U @ log_U)
