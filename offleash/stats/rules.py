"""Rules: when a problem counts as reached by a run. In, out, or not to be told."""

from enum import StrEnum

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy import optimize, special

from offleash.errors import OffleashError
from offleash.stats.binomials import Float

IN, OUT, UNDETERMINED = 1, 0, -1
ZETA = 0.05

State = NDArray[np.int8]


class Rule(StrEnum):
    SEEN = "seen"  # at least one correct sample (the paper): a soft threshold with its 50% point at ln2/k
    ABOVE = "above"  # rate above tau: Cover@tau cross-tabulated
    CONFIDENT = "confident"  # one-sided Clopper-Pearson bounds against epsilon
    CERTIFIED = "certified"  # from exact certificates, without sampling noise
    POSTERIOR = "posterior"  # empirical Bayes: a sensitivity analysis, never a headline


class Certified(StrEnum):
    COMPLETION = "completion"  # some correct completion has p > epsilon
    MASS = "mass"  # the correct completions together have p > epsilon


def epsilon(k: ArrayLike, zeta: float = ZETA) -> Float:
    """-ln(zeta)/k: with confidence 1-zeta nothing unseen in k samples is more probable (arXiv:2507.14843)."""
    bound: Float = -np.log(zeta) / np.asarray(k, dtype=np.float64)
    return bound


def seen(correct: ArrayLike) -> State:
    return np.where(np.asarray(correct) >= 1, IN, OUT).astype(np.int8)


def above(drawn: ArrayLike, correct: ArrayLike, tau: float) -> State:
    """In where the observed rate is above `tau`."""
    if not 0 <= tau < 1:
        raise OffleashError(f"tau is a rate, at least 0 and below 1; found {tau}.")
    return np.where(np.asarray(correct) > tau * np.asarray(drawn) + 1e-9, IN, OUT).astype(np.int8)


def confident(drawn: ArrayLike, correct: ArrayLike, threshold: float, zeta: float = ZETA) -> State:
    """In where the lower, out where the upper one-sided Clopper-Pearson bound decides; otherwise undetermined."""
    n, c = np.asarray(drawn, dtype=np.float64), np.asarray(correct, dtype=np.float64)
    lower = np.where(c > 0, special.betaincinv(np.maximum(c, 1), n - c + 1, zeta), 0.0)
    upper = np.where(c < n, special.betaincinv(c + 1, np.maximum(n - c, 1), 1 - zeta), 1.0)
    return np.where(lower > threshold, IN, np.where(upper <= threshold, OUT, UNDETERMINED)).astype(np.int8)


def certified(
    found: ArrayLike, unexplored: ArrayLike, largest: ArrayLike, threshold: float, question: Certified = Certified.MASS
) -> State:
    """From a certificate: correct mass `found`, mass `unexplored`, the `largest` probability of a correct completion.

    The two questions differ: ten correct completions of epsilon/2 each are in by mass and out by completion.
    """
    mass, rest, top = (np.asarray(value, dtype=np.float64) for value in (found, unexplored, largest))
    if question is Certified.COMPLETION:  # prefixes above the threshold are all expanded: nothing unexplored is
        return np.where(top > threshold, IN, OUT).astype(np.int8)
    return np.where(mass > threshold, IN, np.where(mass + rest <= threshold, OUT, UNDETERMINED)).astype(np.int8)


def posterior(drawn: ArrayLike, correct: ArrayLike, threshold: float, zeta: float = ZETA) -> State:
    """Empirical Bayes: in where P(p > threshold | counts) >= 1-zeta under a Beta prior fitted to all problems."""
    n, c = np.asarray(drawn, dtype=np.float64), np.asarray(correct, dtype=np.float64)
    shape_a, shape_b = beta_prior(n, c)
    above_P = special.betaincc(shape_a + c, shape_b + n - c, threshold)
    return np.where(above_P >= 1 - zeta, IN, np.where(above_P <= zeta, OUT, UNDETERMINED)).astype(np.int8)


def beta_prior(drawn: Float, correct: Float) -> tuple[float, float]:
    """Beta prior by maximum likelihood of the beta-binomial; kept within shapes that a few problems can bear."""

    def loss(log_shape: Float) -> float:
        shape_a, shape_b = np.exp(log_shape)
        return -float(
            np.sum(special.betaln(shape_a + correct, shape_b + drawn - correct) - special.betaln(shape_a, shape_b))
        )

    bounds = [(np.log(1e-3), np.log(1e3))] * 2
    fits = [optimize.minimize(loss, start, bounds=bounds, method="L-BFGS-B") for start in ([-1.0, 0.0], [0.0, 2.0])]
    shape_a, shape_b = np.exp(min(fits, key=lambda fit: float(fit.fun)).x)
    return float(shape_a), float(shape_b)
