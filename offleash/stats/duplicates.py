"""Do samples repeat more than independent draws could? Sequential tests that stay valid when checked at any time.

Used by drawing/duplicates.py on a run as it is drawn.

**By probability**, where the probability of each sample is known. The expected number of outcomes of probability at
most p that occur at least c times among n independent draws is `sum over y of P(count_y >= c) <= sum C(n,c) p_y^c`;
with p_y <= p and sum p_y <= 1 that is at most `C(n,c) p^(c-1)`, which bounds the chance that there is any such outcome.
Every n, every c >= 2 and every problem gets a share of the error, 1/(n(n+1)), 1/(c(c-1)) and 1/(i(i+1)). These sum to
1, so the total over all looks at all texts of all problems stays below the error.

**By probability, in order**: a bet that a sample repeats the previous one, whose probability p is known, pays 1/p and
so has mean 1 under independent draws. Its product runs over all samples of all problems, and no error is spent on where
one looks: 64 copies of a text of probability 1/2 are enough, and so are a few copies in each of many problems.

**By position**, from the texts alone. Samples of one problem are exchangeable: given which texts occurred and how
often, every arrangement over the positions is equally likely, so the text at the next position is a ball from an urn of
the texts not yet placed. The alternative is a bet that a position copies the previous one. The likelihood ratio,
multiplied over positions, has mean 1 under independent draws from any distribution (a model with a single answer gives
1), so its running product over disjoint sets of samples ever exceeds 1/a with chance at most a (Ville 1939). The same
holds for a mean of products that start later, for a fault that starts later (their weights are again 1/(t(t+1))).
Arranged request by request, the previous position is another choice of the same request: n copies are found.
Alternating between two requests, it is the same choice of the other request: a reused seed is found. Sorted choices
fail both tests: they are not copies, but their order is not random, and anything counted in index order would be wrong.
"""

from dataclasses import dataclass, field

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy import special

from offleash.stats.binomials import Float

FALSE_ALARM = 1e-9  # chance that an honest run is stopped, over all tests, looks, texts and problems
TESTS = 4  # by probability, the same in order, by place within requests, and across: a quarter of the error for each

# Chance that the bet gives to a copy. None is near 0: a bet that wins on the faintest excess would also win on what is
# not quite independent in an honest server, such as answers that come in the order of their length.
BET_SIZES = np.array([0.25, 0.6, 0.95])

# A probability is taken for larger than it is said to be: it is a sum of rounded numbers, and an error of a percent
# would add up over 16,384 samples of a likely text. What is all but certain says nothing then.
ABSOLUTE_MARGIN, RELATIVE = 0.05, 0.02
TIE_TOLERANCE = 1e-6  # log-probabilities of one token sequence; one text can come from several
MIN_LOG_PROBABILITY = -6.0  # log-probability below which a bet pays no more: no single pair of texts decides a run

Labels = NDArray[np.uint64]


def at_most(log_probability: ArrayLike) -> Float:
    """A log-probability with a margin for what it was computed with, and not above 0.

    Args:
        log_probability: log-probabilities as a server reports them.

    Returns:
        Upper bounds of the true ones.

    Example:
        >>> at_most([-10.0, -0.01])
        array([-9.75,  0.  ])
    """
    log_p = np.minimum(log_probability, 0.0)
    return np.asarray(np.minimum(log_p + ABSOLUTE_MARGIN - RELATIVE * log_p, 0.0), dtype=np.float64)


def log_expected_repeats(drawn: ArrayLike, count: ArrayLike, log_probability: ArrayLike) -> Float:
    """Log of C(n,c) p^(c-1): at most so many outcomes of probability p or less are seen c times among n draws.

    Args:
        drawn: draws n.
        count: times c that an outcome was seen.
        log_probability: of that outcome.

    Returns:
        The logs.

    Example:
        >>> round(float(np.exp(log_expected_repeats(4, 2, np.log(0.01)))), 4)
        0.06
    """
    n, c = np.asarray(drawn, dtype=np.float64), np.asarray(count, dtype=np.float64)
    log_choices = special.gammaln(n + 1) - special.gammaln(c + 1) - special.gammaln(n - c + 1)
    return np.asarray(log_choices + (c - 1) * np.minimum(log_probability, 0.0), dtype=np.float64)


def log_chance_of_repeats(drawn: int, count: ArrayLike, log_probability: ArrayLike, number: int) -> Float:
    """Log of a chance for each count >= 2 of an outcome, corrected for all counts, all looks and all problems.

    `number` counts the problems of a run, from 1. The chance that any value ever falls to log(a) is at most a.
    NaN where the probability is not known.

    Args:
        drawn: draws so far.
        count: times that each outcome was seen, 2 or more.
        log_probability: of each outcome.
        number: of the problem in its run, from 1.

    Returns:
        The logs.

    Example:
        >>> log_chance_of_repeats(64, [2, 20], np.log(1e-3), number=1).round(1)
        array([ 10.4, -78.8])
    """
    c = np.asarray(count, dtype=np.float64)
    shares = np.log(drawn * (drawn + 1.0)) + np.log(c * (c - 1)) + np.log(number * (number + 1.0))
    return np.asarray(log_expected_repeats(drawn, c, log_probability) + shares, dtype=np.float64)


def log_repeating(label_N: Labels, log_probability_N: Float) -> Float:
    """Log-likelihood ratio, for each of the BET_SIZES, of copying the sample before against drawing by its probability.

    No bet is made after a text whose probability is not known (NaN) or about 1.

    Args:
        label_N: a hash of each text, in the order drawn.
        log_probability_N: log-probability of each text; NaN: not known.

    Returns:
        One log-ratio for each of the BET_SIZES.

    Example:
        >>> log_repeating(np.array([7, 7, 7], dtype=np.uint64), np.log([0.01, 0.01, 0.01])).round(2)
        array([6.22, 7.92, 8.82])
    """
    log_p = np.maximum(at_most(log_probability_N[:-1]), MIN_LOG_PROBABILITY)
    difference_N = np.abs(
        log_probability_N[1:] - log_probability_N[:-1]
    )  # NaN, and so lost, where the next is not known
    is_repeat = (label_N[1:] == label_N[:-1]) & (difference_N <= TIE_TOLERANCE)
    ratio_NR = 1 - BET_SIZES + BET_SIZES * (is_repeat * np.exp(-log_p))[log_p < 0, None]
    return np.asarray(np.log(ratio_NR).sum(axis=0))


def log_copying(label_N: Labels, is_bet_N: NDArray[np.bool_]) -> Float:
    """Log-likelihood ratio, for each of BET_SIZES, of copying against exchange, for N samples in the given order.

    `is_bet_N` marks the places at which a copy of the place before is bet on, as long as the urn still holds one.

    Args:
        label_N: a hash of each text, in the order laid out.
        is_bet_N: the places at which a copy of the place before is bet on.

    Returns:
        One log-ratio for each of the BET_SIZES.

    Example:
        >>> log_copying(np.array([7, 7, 8, 8], dtype=np.uint64), np.array([False, True, False, True])).round(2)
        array([0.41, 0.79, 1.06])
    """
    _, code_N, total_U = np.unique(label_N, return_inverse=True, return_counts=True)
    remaining_N = total_U[code_N] - _earlier_count(code_N)  # in the urn, of a place's own text, before it is taken
    same_N, copy_remains_N = np.zeros(len(code_N), bool), np.zeros(len(code_N), bool)
    same_N[1:] = code_N[1:] == code_N[:-1]
    copy_remains_N[1:] = remaining_N[:-1] > 1
    chance_N = remaining_N / np.arange(len(code_N), 0, -1)
    bet_mask_N = is_bet_N & copy_remains_N
    ratio_NR = 1 - BET_SIZES + BET_SIZES * (same_N / chance_N)[bet_mask_N, None]
    return np.asarray(np.log(ratio_NR).sum(axis=0))


def within_requests(first: Labels, second: Labels) -> Float:
    """`log_copying` of each choice from the choice before it in the same request, given the texts of both requests.

    Args:
        first: hashes of the texts of a request, in the order of its choices.
        second: those of the next request.

    Returns:
        One log-ratio for each of the BET_SIZES; large where choices of one request are copies.

    Example:
        >>> copies, others = np.array([1, 1, 1], dtype=np.uint64), np.array([2, 2, 2], dtype=np.uint64)
        >>> within_requests(copies, others).round(2)
        array([0.88, 1.67, 2.23])
    """
    is_bet = np.ones(len(first) + len(second), bool)
    is_bet[[0, len(first)]] = False
    return log_copying(np.concatenate([first, second]), is_bet)


def across_requests(first: Labels, second: Labels) -> Float:
    """`log_copying` of each choice of the second request from the same choice of the first.

    Args:
        first: hashes of the texts of a request, in the order of its choices.
        second: those of the next request.

    Returns:
        One log-ratio for each of the BET_SIZES; large where a seed was used again.

    Example:
        >>> texts = np.array([1, 2, 3], dtype=np.uint64)
        >>> across_requests(texts, texts).round(2)
        array([1.1 , 2.01, 2.63])
    """
    both = min(len(first), len(second))
    alternating = np.stack([first[:both], second[:both]], axis=1).ravel()
    label_N = np.concatenate([alternating, first[both:], second[both:]])
    index_N = np.arange(len(label_N))
    return log_copying(label_N, (index_N < 2 * both) & (index_N % 2 == 1))


@dataclass(frozen=True)
class CopyingEvidence:
    """Against independent draws, over separate sets of samples: a mean over the bets and over when the fault began.

    Example:
        >>> evidence = CopyingEvidence()
        >>> for _ in range(5):
        ...     evidence = evidence.after(np.array([1.0, 3.0, 6.0]))
        ...
        >>> round(evidence.log, 1)
        28.2
    """

    set_count: int = 0
    log_product_R: Float = field(
        default_factory=lambda: np.full(len(BET_SIZES), -np.inf)
    )  # log of the products begun so far

    def after(self, log_ratio_R: Float) -> "CopyingEvidence":
        """With one more set of samples."""
        t = self.set_count + 1
        return CopyingEvidence(t, np.logaddexp(self.log_product_R, -np.log(t * (t + 1.0))) + log_ratio_R)

    @property
    def log(self) -> float:
        """Log of the evidence: that it ever reaches -log(a) has chance at most a for independent draws."""
        started = special.logsumexp(self.log_product_R) - np.log(len(BET_SIZES))
        return float(np.logaddexp(started, -np.log(self.set_count + 1.0)))


def _earlier_count(code_N: NDArray[np.intp]) -> NDArray[np.intp]:
    """How many places before each hold the same text."""
    order = np.argsort(code_N, kind="stable")
    start_U = np.flatnonzero(np.r_[True, np.diff(code_N[order]) > 0])
    size_U = np.diff(np.r_[start_U, len(code_N)])
    count_N = np.empty(len(code_N), dtype=np.intp)
    count_N[order] = np.arange(len(code_N)) - np.repeat(start_U, size_U)
    return count_N
