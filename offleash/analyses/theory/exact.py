"""Exact quantities of a world: success rates, pass@k, P/E/S/O at any epsilon, entropy, KL divergence."""

from dataclasses import dataclass
from enum import StrEnum

import numpy as np
from numpy.typing import ArrayLike

from offleash.analyses.theory.world import Flags, Float


class Level(StrEnum):
    """What is in the support: a correct answer, a problem with one above epsilon, a problem by its correct mass."""

    ANSWER = "answer"  # the definition of arXiv:2507.14843
    COMPLETION = "completion"
    MASS = "mass"


@dataclass(frozen=True)
class SupportCounts:
    """How many targets both policies reach (P), only the second (E), only the first (S), neither (O).

    Counts are floats because `expected_support` gives expectations; the ratios are NaN where nothing is in them.
    """

    P: float
    E: float
    S: float
    O: float  # noqa: E741

    @property
    def SRR(self) -> float:
        return _ratio(self.P, self.P + self.S)

    @property
    def NDR(self) -> float:
        return _ratio(self.E, self.P + self.E)

    @property
    def NSCR(self) -> float:
        return _ratio(self.E - self.S, self.P + self.E + self.S)


def success_rates(probability_XY: Float, correct_XY: Flags) -> Float:
    """The chance that one sample of each problem is correct."""
    rate_X: Float = np.where(correct_XY, probability_XY, 0.0).sum(axis=-1)
    return np.minimum(rate_X, 1.0)


def pass_at_k(rate_X: Float, k_K: ArrayLike) -> Float:
    """Mean over problems of 1 - (1-p)^k, for each k; k may be inf.

    >>> pass_at_k(np.array([0.5, 0.0]), [1, 2, np.inf]).tolist()
    [0.25, 0.375, 0.5]
    """
    k = np.atleast_1d(np.asarray(k_K, dtype=np.float64))
    rate = np.asarray(rate_X, dtype=np.float64)
    # log1p keeps the digits of tiny rates: (1 - 1e-18)^k computed directly is 1 at every k
    with np.errstate(divide="ignore", invalid="ignore"):
        log_XK = np.log1p(-rate)[..., :, None] * k  # -inf where a problem is never failed
    miss_XK = np.exp(np.where((rate == 0)[..., :, None], 0.0, log_XK))  # 0 times inf: never solved
    out: Float = 1.0 - miss_XK.mean(axis=-2)
    return out


def reached(probability_XY: Float, correct_XY: Flags, epsilon: float, level: Level) -> Flags:
    """Which targets lie above epsilon: correct answers (X times Y), or problems (X)."""
    if level is Level.MASS:
        return np.asarray(success_rates(probability_XY, correct_XY) > epsilon)
    # supp_eps = {y correct: p(y|x) > eps}, strictly, so that epsilon = 0 is the support itself
    reached_XY = correct_XY & (probability_XY > epsilon)
    return reached_XY if level is Level.ANSWER else np.asarray(reached_XY.any(axis=-1))


def support(before_XY: Float, after_XY: Float, correct_XY: Flags, epsilon: float, level: Level) -> SupportCounts:
    """P, E, S and O of two policies at epsilon, without sampling noise; wrong answers are no targets."""
    target = correct_XY if level is Level.ANSWER else correct_XY.any(axis=-1)
    before, after = (reached(p_XY, correct_XY, epsilon, level) for p_XY in (before_XY, after_XY))
    counts = (before & after, after & ~before, before & ~after, target & ~before & ~after)
    return SupportCounts(*(float(flags.sum()) for flags in counts))


def expected_support(before_X: Float, after_X: Float, k: int) -> SupportCounts:
    """The mean of P, E, S and O that k samples of each problem show, from the success rates of both policies."""
    # given the rates, the samples of the two runs are independent: expected cells are products of pass@k
    a, b = (1 - (1 - rate) ** k for rate in (before_X, after_X))
    return SupportCounts(*(float(part.sum()) for part in (a * b, (1 - a) * b, a * (1 - b), (1 - a) * (1 - b))))


def entropy(probability_XY: Float) -> Float:
    """Entropy of the answers of each problem, in nats."""
    return np.asarray(-(probability_XY * _log(probability_XY)).sum(axis=-1))


def divergence(p_XY: Float, q_XY: Float) -> Float:
    """KL(p || q) of each problem, in nats; inf where p gives what q cannot."""
    infinite_X = ((p_XY > 0) & (q_XY == 0)).any(axis=-1)
    return np.where(infinite_X, np.inf, (p_XY * (_log(p_XY) - _log(q_XY))).sum(axis=-1))


def _log(probability: Float) -> Float:
    """Logarithm with 0 for 0: what it is multiplied with is 0 there too."""
    out = np.zeros(probability.shape)
    np.log(probability, out=out, where=probability > 0)
    return out


def _ratio(part: float, whole: float) -> float:
    return part / whole if whole > 0 else float("nan")
