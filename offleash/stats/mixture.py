"""The distribution of success rates over problems, estimated without assuming its shape, and what counts leave open.

Rates lie on a grid that is even in log-odds, with 0 and 1; the weights of the grid points are free. The log-likelihood
of the counts is concave in the weights, and pass@k is linear in them. So the maximum-likelihood distribution (Laird
1978), and the smallest and the largest value of a linear functional over all distributions that the likelihood does not
rule out, are convex programs. What no counts can identify, such as how many of the problems never reached have a rate
of exactly 0, shows as the distance between these two values.
"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

from offleash.stats.binomials import binomial_at_least, binomial_pmf

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]

PER_DECADE = 10  # grid points per factor of ten in the odds: neighbours differ by a quarter
MIN_RATE_FACTOR = (
    1e-3  # times 1/n, the smallest rate above 0: below it, chances are proportional to the rate up to 100 n
)
TOLERANCE = 1e-3  # of a log-likelihood, and of a functional relative to the span of its values
SMALL_DECREMENT = 0.1  # Newton's decrement, squared, at which a barrier problem is near enough to its optimum
STEPS = 100  # of Newton's method per barrier; four or five are usual
MIN_STEP = 1e-10


@dataclass(frozen=True)
class RateLikelihood:
    """Counts of problems, equal ones grouped, with their chance at every rate of the grid.

    Example:
        >>> RateLikelihood.from_counts([4, 4, 4], [0, 0, 3]).weight_U
        array([2., 1.])
    """

    rate_J: Floats
    chance_UJ: Floats  # of each distinct count, relative to its largest over the grid
    weight_U: Floats  # problems with this count

    @classmethod
    def from_counts(cls, drawn_P: ArrayLike, correct_P: ArrayLike, pooled: int | None = None) -> "RateLikelihood":
        """Group equal counts and evaluate their binomial chances.

        Args:
            drawn_P: samples of each problem, at least one.
            correct_P: correct ones among them.
            pooled: counts above this one are a single case, "more than that", and the grid ends at the rates that give
                them: faster where only small rates matter. Default: every count is a case of its own.

        Returns:
            The likelihood of rates.

        Example:
            >>> likelihood = RateLikelihood.from_counts([4, 4, 4], [0, 0, 3])
            >>> likelihood.weight_U, likelihood.chance_UJ.shape == (2, likelihood.rate_J.size)
            (array([2., 1.]), True)
        """
        drawn, correct = np.asarray(drawn_P, dtype=np.int64), np.asarray(correct_P, dtype=np.int64)
        most = int(drawn.max()) if pooled is None else pooled
        case_2U, weight_U = np.unique(np.stack([drawn, np.minimum(correct, most + 1)]), axis=1, return_counts=True)
        rate_J = rate_grid(int(drawn.max()), 1.0 if pooled is None else 4 * most / int(drawn.min()))
        n_U1, c_U1 = case_2U[0][:, None], case_2U[1][:, None]
        chance_UJ = np.where(c_U1 > most, binomial_at_least(c_U1, n_U1, rate_J), binomial_pmf(c_U1, n_U1, rate_J))
        return cls(rate_J, chance_UJ / chance_UJ.max(axis=1, keepdims=True), weight_U.astype(np.float64))

    def log_likelihood(self, weight_J: Floats) -> float:
        """Log-likelihood of a distribution of rates, up to a constant of the counts.

        Args:
            weight_J: its weight at each rate of the grid.

        Returns:
            The log-likelihood.

        Example:
            >>> likelihood = RateLikelihood.from_counts([4, 4], [0, 0])
            >>> never = np.where(likelihood.rate_J == 0, 1.0, 0.0)
            >>> likelihood.log_likelihood(never)
            0.0
        """
        return float(self.weight_U @ np.log(self.chance_UJ @ weight_J))


@dataclass(frozen=True)
class Mixture:
    """A distribution of success rates: `weight_J` of the problems have the rate `rate_J`.

    Example:
        >>> Mixture(np.array([0.0, 0.5]), np.array([0.5, 0.5]), 0.0).pass_at_k(1)
        array([0.25])
    """

    rate_J: Floats
    weight_J: Floats
    log_likelihood: float  # up to a constant of the counts

    def pass_at_k(self, k: ArrayLike) -> Floats:
        """Chance that k samples of a problem with such a rate include a correct one.

        Args:
            k: numbers of samples, any.

        Returns:
            One chance for each k.

        Example:
            >>> half = Mixture(np.array([0.0, 0.5]), np.array([0.5, 0.5]), 0.0)
            >>> half.pass_at_k([1, 2])
            array([0.25 , 0.375])
        """
        return np.asarray(1 - miss(self.rate_J, np.atleast_1d(np.asarray(k))[:, None]) @ self.weight_J)


def rate_grid(n: int, largest: float = 1.0) -> Floats:
    """Rates from 0 to 1, even in log-odds above MIN_RATE_FACTOR/n.

    Args:
        n: samples per problem.
        largest: rates between this one and 1 are left out.

    Returns:
        Rates in increasing order.

    Example:
        >>> rate_J = rate_grid(16)
        >>> float(rate_J[0]), float(rate_J[-1]), rate_J.size
        (0.0, 1.0, 88)
    """
    low = float(np.log(MIN_RATE_FACTOR / n))
    high = -low if largest >= 0.5 else float(np.log(largest / (1 - largest)))
    odds = np.exp(np.linspace(low, high, int(np.ceil((high - low) / np.log(10) * PER_DECADE)) + 1))
    return np.concatenate([[0.0], odds / (1 + odds), [1.0]])


def miss(rate: ArrayLike, k: ArrayLike) -> Floats:
    """(1 - rate)^k: the chance that k samples include no correct one.

    Args:
        rate: success rates.
        k: numbers of samples.

    Returns:
        The chances, broadcast over the arguments.

    Example:
        >>> miss([0.0, 0.5, 1.0], 2)
        array([1.  , 0.25, 0.  ])
    """
    return np.asarray((1 - np.asarray(rate, dtype=np.float64)) ** np.asarray(k))


def npmle(likelihood: RateLikelihood) -> Mixture:
    """The distribution of rates with the largest likelihood, to within TOLERANCE of the log-likelihood.

    Every weight is positive, if tiny: the solution is approached from inside.

    Args:
        likelihood: of the counts.

    Returns:
        The distribution.

    Example:
        >>> likelihood = RateLikelihood.from_counts([64] * 8, [0, 0, 0, 0, 32, 32, 32, 32])
        >>> npmle(likelihood).pass_at_k(1).round(3)
        array([0.25])
    """
    size = likelihood.rate_J.size
    weight_J, zero_J = np.full(size, 1 / size), np.zeros(size)
    barrier = float(likelihood.weight_U.sum()) / size
    while True:
        weight_J = _center(likelihood, weight_J, zero_J, scale=1 / barrier)
        if size * barrier < TOLERANCE:  # what the barrier can cost at most
            return Mixture(likelihood.rate_J, weight_J, likelihood.log_likelihood(weight_J))
        barrier = max(barrier / 10, 0.9 * TOLERANCE / size)


def functional_range(
    likelihood: RateLikelihood, best: Mixture, value_KJ: ArrayLike, drop: float
) -> tuple[Floats, Floats]:
    """The least and the largest mean of a function of the rate over all distributions that the likelihood allows.

    Args:
        likelihood: of the counts.
        best: its maximum.
        value_KJ: K functions, by their values at the rates of the grid.
        drop: how far the log-likelihood may be below its maximum; 1.92 is the 95% point of chi-square with one degree
            of freedom, halved.

    Returns:
        The least and the largest mean of each function, not inside the exact ones.

    Example:
        >>> likelihood = RateLikelihood.from_counts([64] * 8, [0, 0, 0, 0, 32, 32, 32, 32])
        >>> low_K, high_K = functional_range(likelihood, npmle(likelihood), [likelihood.rate_J > 0.25], drop=1.92)
        >>> low_K.round(2), high_K.round(2)
        (array([0.19]), array([0.81]))
    """
    value = np.atleast_2d(np.asarray(value_KJ, dtype=np.float64))
    low, high = (
        np.array([_extreme_value(likelihood, best, sign * row_J, drop) for row_J in value]) * sign
        for sign in (-1.0, 1.0)
    )
    return np.asarray(low), np.asarray(high)


def _extreme_value(likelihood: RateLikelihood, best: Mixture, value_J: Floats, drop: float) -> float:
    """The largest mean of one function: a path of barrier problems whose optima approach it from inside."""
    span, size = float(np.ptp(value_J)), value_J.size
    if span == 0:
        return float(value_J[0])
    weight_J, floor = best.weight_J, best.log_likelihood - drop
    scale = (size + 1) / span
    while True:
        weight_J = _center(likelihood, weight_J, scale * value_J, floor=floor)
        gap = (size + 1) / scale  # the duality gap of an optimum of the barrier problem
        if gap <= TOLERANCE * span:
            return min(float(value_J @ weight_J) + gap, float(value_J.max()))
        scale *= 10


def _center(
    likelihood: RateLikelihood, weight_J: Floats, linear_J: Floats, *, scale: float = 1.0, floor: float | None = None
) -> Floats:
    """Maximise linear @ w + f(log-likelihood of w) + sum(log w) over weights that sum to 1, by Newton's method.

    f(x) = scale x, or log(x - floor) where there is a floor.
    """
    chance_UJ, count_U = likelihood.chance_UJ, likelihood.weight_U

    def value(w_J: Floats) -> float:
        if w_J.min() <= 0:
            return -np.inf
        log = float(count_U @ np.log(chance_UJ @ w_J))
        if floor is not None and log <= floor:
            return -np.inf
        inner = scale * log if floor is None else float(np.log(log - floor))
        return float(linear_J @ w_J) + inner + float(np.log(w_J).sum())

    now = value(weight_J)
    for _ in range(STEPS):
        mean_U = chance_UJ @ weight_J
        slope = scale if floor is None else 1 / (float(count_U @ np.log(mean_U)) - floor)
        # everything in units of the weights: the barrier's part of the Hessian is then the identity
        log_slope_J = slope * weight_J * (chance_UJ.T @ (count_U / mean_U))
        root_UJ = chance_UJ * weight_J * (np.sqrt(slope * count_U) / mean_U)[:, None]
        if floor is not None:
            root_UJ = np.concatenate([root_UJ, log_slope_J[None]])
        gradient_J = linear_J * weight_J + log_slope_J + 1.0
        step_J, total_J = _solve(root_UJ, np.stack([gradient_J, weight_J], axis=1)).T
        step_J = step_J - (weight_J @ step_J) / (weight_J @ total_J) * total_J  # the weights keep their sum
        decrement = float(gradient_J @ step_J)
        if decrement < SMALL_DECREMENT:
            break
        length = min(1.0, 0.99 / max(-float(step_J.min()), 1e-300))
        while length > MIN_STEP:
            next_J = weight_J * (1 + length * step_J)
            if (reached := value(next_J)) >= now + 0.1 * length * decrement:
                break
            length /= 2
        else:
            break  # rounding: no step improves
        weight_J, now = next_J / next_J.sum(), reached
    return weight_J


def _solve(root_UJ: Floats, right_JX: Floats) -> Floats:
    """Solve (1 + R'R) x = right, by the smaller of two matrices: often there are fewer distinct counts than rates."""
    counts, rates = root_UJ.shape
    if counts >= rates:
        hessian_JJ = root_UJ.T @ root_UJ
        hessian_JJ.flat[:: rates + 1] += 1.0
        return np.asarray(np.linalg.solve(hessian_JJ, right_JX), dtype=np.float64)
    # Woodbury: (1 + R'R)^-1 = 1 - R'(1 + RR')^-1 R
    small_UU = root_UJ @ root_UJ.T
    small_UU.flat[:: counts + 1] += 1.0
    return np.asarray(right_JX - root_UJ.T @ np.linalg.solve(small_UU, root_UJ @ right_JX))
