"""When a run reaches a problem (rules), and the cells of two runs: P (both), E (only after), S (only before), O.

First the rules, then what each problem adds to the cells, their sums in every bootstrap replicate, and the support
metrics of arXiv:2507.14843 as ratios of them.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from enum import StrEnum
from functools import cached_property

import numpy as np
from numpy.typing import ArrayLike, NDArray

from offleash.data.tally import Per, Tally
from offleash.errors import OffleashError
from offleash.stats.binomials import Float, Integer
from offleash.stats.intervals import (
    LEVEL,
    REPLICATES,
    Interval,
    percentile_intervals,
    problem_sums,
    pseudo_weights,
    strata,
)
from offleash.stats.pass_at_k import log_miss_stopped
from offleash.stats.redraw import redraw_at, redraw_of_rates

# Rules: whether a run reaches a problem. In, out or undetermined.


IN, OUT, UNDETERMINED = 1, 0, -1
ZETA = 0.05

State = NDArray[np.int8]


class Rule(StrEnum):
    SEEN = "seen"  # at least one correct sample (the paper): a soft threshold with its 50% point at ln2/k
    ABOVE = "above"  # rate of at least tau: Cover@tau cross-tabulated
    CONFIDENT = "confident"  # one-sided Clopper-Pearson bounds against epsilon
    CERTIFIED = "certified"  # from exact certificates, without sampling noise
    POSTERIOR = "posterior"  # empirical Bayes: a sensitivity analysis, never a headline


class Certified(StrEnum):
    COMPLETION = "completion"  # some correct completion has p > epsilon
    MASS = "mass"  # the correct completions together have p > epsilon


def epsilon(k: ArrayLike, zeta: float = ZETA) -> Float:
    """-ln(zeta)/k: with confidence 1-zeta nothing unseen in k samples is more probable (arXiv:2507.14843).

    Args:
        k: samples per problem.
        zeta: the error.

    Returns:
        The threshold: with k samples, 3.0/k at zeta = 0.05.

    Example:
        >>> float(epsilon(8192).round(7))
        0.0003657
    """
    bound: Float = -np.log(zeta) / np.asarray(k, dtype=np.float64)
    return bound


def seen(correct: ArrayLike) -> State:
    """In where at least one sample is correct: the paper's rule.

    Args:
        correct: correct samples.

    Returns:
        IN or OUT (1, 0).

    Example:
        >>> seen([0, 1, 5])
        array([0, 1, 1], dtype=int8)
    """
    return np.where(np.asarray(correct) >= 1, IN, OUT).astype(np.int8)


def above(drawn: ArrayLike, correct: ArrayLike, tau: float) -> State:
    """In where the observed rate is at least `tau`, as in Cover@tau, and above 0.

    Args:
        drawn: samples.
        correct: correct ones among them.
        tau: the rate, at least 0 and below 1; with 0 this is the rule `seen`.

    Returns:
        IN or OUT (1, 0).

    Example:
        >>> above(10, [1, 2, 3], 0.2)
        array([0, 1, 1], dtype=int8)
    """
    if not 0 <= tau < 1:
        raise OffleashError(f"tau must be a rate, at least 0 and below 1; found {tau}.")
    # as many successes as Cover@tau and G-Pass@k ask for, and at least one
    least = np.maximum(tau * np.asarray(drawn) - 1e-9, 1)
    return np.where(np.asarray(correct) >= least, IN, OUT).astype(np.int8)


def confident(drawn: ArrayLike, correct: ArrayLike, threshold: float, zeta: float = ZETA) -> State:
    """In where the lower, out where the upper one-sided Clopper-Pearson bound decides; otherwise undetermined.

    Args:
        drawn: samples.
        correct: correct ones among them.
        threshold: the rate that decides, as `epsilon`.
        zeta: the error of each bound.

    Returns:
        IN, OUT or UNDETERMINED (1, 0, -1). With fewer samples than the k of `epsilon(k)` nothing is ever out.

    Example:
        >>> confident(256, [0, 3, 7], float(epsilon(256)))
        array([ 0, -1,  1], dtype=int8)
    """
    from scipy import special

    n, c = np.asarray(drawn, dtype=np.float64), np.asarray(correct, dtype=np.float64)
    # Clopper-Pearson from quantiles of Beta(c, n-c+1) and Beta(c+1, n-c), each one-sided at zeta: on either side a
    # problem is misplaced with chance at most zeta, whatever its rate
    lower = np.where(c > 0, special.betaincinv(np.maximum(c, 1), n - c + 1, zeta), 0.0)
    upper = np.where(c < n, special.betaincinv(c + 1, np.maximum(n - c, 1), 1 - zeta), 1.0)
    return np.where(lower > threshold, IN, np.where(upper <= threshold, OUT, UNDETERMINED)).astype(np.int8)


def certified(
    correct_mass: ArrayLike,
    unexplored: ArrayLike,
    largest: ArrayLike,
    threshold: float,
    question: Certified = Certified.MASS,
) -> State:
    """From a certificate: correct mass `found`, mass `unexplored`, the `largest` probability of a correct completion.

    The two questions differ: ten correct completions of epsilon/2 each are in by mass and out by completion.

    Args:
        correct_mass: probability of the correct completions found.
        unexplored: probability of what was not expanded.
        largest: the largest probability of a correct completion.
        threshold: the epsilon that decides.
        question: whether a single completion or their mass must be above it.

    Returns:
        IN, OUT or UNDETERMINED (1, 0, -1).

    Example:
        >>> certified([0.02, 0.0], [0.0, 0.5], [0.005, 0.0], 0.01)
        array([ 1, -1], dtype=int8)
    """
    mass, unexplored_mass, largest_p = (
        np.asarray(value, dtype=np.float64) for value in (correct_mass, unexplored, largest)
    )
    if question is Certified.COMPLETION:  # prefixes above the threshold are all expanded: nothing unexplored is
        return np.where(largest_p > threshold, IN, OUT).astype(np.int8)
    return np.where(mass > threshold, IN, np.where(mass + unexplored_mass <= threshold, OUT, UNDETERMINED)).astype(
        np.int8
    )


def posterior(
    drawn: ArrayLike,
    correct: ArrayLike,
    threshold: float,
    zeta: float = ZETA,
    prior: tuple[float, float] | None = None,
) -> State:
    """Empirical Bayes: in where P(p > threshold | counts) >= 1-zeta under a Beta prior fitted to all problems.

    Args:
        drawn: samples of each problem.
        correct: correct ones among them.
        threshold: the rate that decides.
        zeta: the error.
        prior: the shapes of the Beta prior; default: fitted to these counts.

    Returns:
        IN, OUT or UNDETERMINED (1, 0, -1).

    Example:
        >>> posterior([64] * 4, [0, 0, 20, 60], 0.05)
        array([0, 0, 1, 1], dtype=int8)
    """
    from scipy import special

    n, c = np.asarray(drawn, dtype=np.float64), np.asarray(correct, dtype=np.float64)
    shape_a, shape_b = prior or beta_prior(n, c)
    above_P = special.betaincc(shape_a + c, shape_b + n - c, threshold)
    return np.where(above_P >= 1 - zeta, IN, np.where(above_P <= zeta, OUT, UNDETERMINED)).astype(np.int8)


def beta_prior(drawn: Float, correct: Float) -> tuple[float, float]:
    """Beta prior by maximum likelihood of the beta-binomial; kept within shapes that a few problems can bear.

    Args:
        drawn: samples of each problem.
        correct: correct ones among them.

    Returns:
        The shapes a and b.

    Example:
        >>> shape_a, shape_b = beta_prior(np.full(4, 64.0), np.array([0.0, 0.0, 20.0, 60.0]))
        >>> shape_a < 1, shape_b < 1
        (True, True)
    """
    from scipy import optimize, special

    def loss(log_shape: Float) -> float:
        shape_a, shape_b = np.exp(log_shape)
        return -float(
            np.sum(special.betaln(shape_a + correct, shape_b + drawn - correct) - special.betaln(shape_a, shape_b))
        )

    bounds = [(np.log(1e-3), np.log(1e3))] * 2
    fits = [optimize.minimize(loss, start, bounds=bounds, method="L-BFGS-B") for start in ([-1.0, 0.0], [0.0, 2.0])]
    shape_a, shape_b = np.exp(min(fits, key=lambda fit: float(fit.fun)).x)
    return float(shape_a), float(shape_b)


# Cells: what each problem adds to P, E and S, and their sums in every bootstrap replicate.


BEFORE, AFTER = 0, 1

# Numerator and denominator of each ratio of P, E, S and the number of problems.
RATIOS: dict[str, Callable[[Float, Float, Float, Float], tuple[Float, Float]]] = {
    "SRR": lambda P, E, S, total: (P, P + S),
    "NDR": lambda P, E, S, total: (E, P + E),
    "SDS": lambda P, E, S, total: (2 * P * E, P * P + 2 * P * E + E * S),
    "NSCR": lambda P, E, S, total: (E - S, P + E + S),
    "before": lambda P, E, S, total: (P + S, total),
    "after": lambda P, E, S, total: (P + E, total),
    "difference": lambda P, E, S, total: (E - S, total),
}

# The cells that a ratio depends on, by their places in P, E, S, O; pass@k of one run on what it reaches and what not.
_GROUPS: dict[str, tuple[tuple[int, ...], ...]] = {
    "SRR": ((0,), (2,)),
    "NDR": ((0,), (1,)),
    "SDS": ((0,), (1,), (2,)),
    "NSCR": ((0,), (1,), (2,)),
    "before": ((0, 2), (1, 3)),
    "after": ((0, 1), (2, 3)),
    "difference": ((1,), (2,)),
}

# Of the pseudo-problems in P, E, S, O, pass@k of one run has use for two, reached and not: all four would weigh twice
# as much and pull an interval near 0 or 1 away from the truth.
_REACHED_OR_NOT = np.array([1.0, 0, 0, 1])


@dataclass(frozen=True)
class Cells:
    """What each problem adds to P, E and S at K budgets, and whether it is determined at all.

    Example:
        >>> pair = ol.tally_of_counts(8, [[4, 0], [2, 3], [0, 1], [0, 0]])
        >>> thinned_cells(pair, np.array([8])).sums(100).estimate_4K[:, 0]
        array([1., 1., 1., 4.])
    """

    k_K: Integer
    P_PK: Float
    E_PK: Float
    S_PK: Float
    determined_PK: Float  # 1, or 0 where a rule cannot decide; O is what remains of it
    stratum_P: Integer
    O_is_observable: bool  # False per answer or solution
    redraw_3K: Float | None = None  # P, E and S of two draws of one model (stats/redraw.py); None: not computed

    def sums(self, replicates: int = REPLICATES, seed: int = 0) -> "CellSums":
        problems, budgets = self.P_PK.shape
        # by thinning every problem is determined at every k: one column of weights serves all budgets
        all_equal = bool((self.determined_PK == self.determined_PK[:, :1]).all())
        determined = self.determined_PK[:, :1] if all_equal else self.determined_PK
        value_PQ = np.concatenate([self.P_PK, self.E_PK, self.S_PK, determined], axis=1)
        sums_BQ = problem_sums(value_PQ, self.stratum_P, replicates, seed)
        P_BK, E_BK, S_BK, determined_BK = np.split(sums_BQ, [budgets, 2 * budgets, 3 * budgets], axis=1)
        replicate_4BK = (P_BK, E_BK, S_BK, np.broadcast_to(determined_BK, P_BK.shape))  # views: nothing is copied
        pseudo_B4 = pseudo_weights(4, problems, replicates, seed)
        estimate_4K = np.stack([cell.sum(axis=0) for cell in (self.P_PK, self.E_PK, self.S_PK, self.determined_PK)])
        extra_B4 = pseudo_weights(4, problems, replicates, seed, stream=1)
        return CellSums(self.k_K, estimate_4K, replicate_4BK, pseudo_B4, self.O_is_observable, self.redraw_3K, extra_B4)


@dataclass(frozen=True)
class CellSums:
    """P, E, S and the number of determined problems, summed: as estimated and in every bootstrap replicate.

    Example:
        >>> pair = ol.tally_of_counts(8, [[4, 0], [2, 3], [0, 1], [0, 0]])
        >>> sums = thinned_cells(pair, np.array([4, 8])).sums(100)
        >>> sums.ratio('SRR')[0].round(4), sums.index_of(8), sums.out_K.round(4)
        (array([0.4119, 0.5   ]), array([1]), array([1.5296, 1.    ]))
    """

    k_K: Integer
    estimate_4K: Float
    replicate_4BK: tuple[Float, Float, Float, Float]  # without the pseudo-problems
    pseudo_B4: Float  # weights of the pseudo-problems in P, E, S, O
    O_is_observable: bool
    redraw_3K: Float | None = None  # expected P, E and S of two draws of one model
    extra_B4: Float | None = None  # further weight of the pseudo-problems of empty cells; None: intervals stay plain

    def ratio(self, name: str, at: Integer | slice = slice(None), paired: bool = False) -> tuple[Float, Float]:
        """A ratio of the cells (a key of RATIOS) at some of the budgets: estimate_K and replicate_BK.

        `paired`: pass@k of one run, to be set against that of the other.
        """
        P, E, S, total = self.estimate_4K[:, at]
        alone = name in ("before", "after") and not paired
        pseudo_4B1 = (self.pseudo_B4 * (_REACHED_OR_NOT if alone else 1.0)).T[:, :, None]
        P_BK, E_BK, S_BK = (self.replicate_4BK[cell][:, at] + pseudo_4B1[cell] for cell in range(3))
        total_BK = self.replicate_4BK[3][:, at] + pseudo_4B1.sum(axis=0)
        return ratio(name, P, E, S, total), ratio(name, P_BK, E_BK, S_BK, total_BK)

    def intervals(
        self,
        name: str,
        at: Integer | slice = slice(None),
        level: float = LEVEL,
        plain: tuple[Float, Float] | None = None,
    ) -> list[Interval]:
        """Intervals of a ratio at some of the budgets: percentiles, and wider where a cell has fewer than two problems.

        With Gamma(1/2) pseudo-problems the interval of a share is that of Jeffreys, which covers as little as .88 where
        about none or one problem is expected in a cell. As Brown, Cai and DasGupta (2001) modify it: of no problem the
        cell may hold as many as Clopper-Pearson allows (Gamma(1) weight), and of one problem it may hold none.
        `plain`: `ratio` of the same name and budgets, where the caller has it.
        """
        estimate_K, replicate_BK = self.ratio(name, at) if plain is None else plain
        percentiles = percentile_intervals(replicate_BK, estimate_K, level)
        low_K, high_K = (np.array([getattr(ends, side) for ends in percentiles]) for side in ("low", "high"))
        for where, variant_BQ in self._with_few(name, at):
            wider = percentile_intervals(variant_BQ, estimate_K[where], level)
            low_K[where] = np.fmin(low_K[where], [ends.low for ends in wider])
            high_K[where] = np.fmax(high_K[where], [ends.high for ends in wider])
        return [Interval(float(low), float(high)) for low, high in zip(low_K, high_K, strict=True)]

    def _with_few(self, name: str, at: Integer | slice) -> Iterator[tuple[Integer, Float]]:
        """Replicates of a ratio in which a cell with few problems holds more, or none; and at which of the budgets.

        Between 0 and 2 problems, as thinning has them, the change fades out: nothing jumps.
        """
        if self.extra_B4 is None:
            return
        P, E, S, total = self.estimate_4K[:, at]
        number_4K = np.stack([P, E, S, total - P - E - S])
        for group in _GROUPS[name]:
            held_K = number_4K[list(group)].sum(axis=0)
            # a net change has the other side's pseudo-problem in it: its interval holds 0 beside one problem as it is
            net = name in ("NSCR", "difference")
            where = np.flatnonzero((held_K < 2) & ~np.isnan(self.ratio_of(name, at)))
            if not where.size:
                continue
            for most in (True,) if net else (True, False):
                P_BQ, E_BQ, S_BQ, total_BQ = (cell_BK[:, at][:, where] for cell_BK in self.replicate_4BK)
                cell_4BQ = np.stack([P_BQ, E_BQ, S_BQ, total_BQ - P_BQ - E_BQ - S_BQ])
                used_4 = _REACHED_OR_NOT if name in ("before", "after") else np.ones(4)
                cell_4BQ += (self.pseudo_B4 * used_4).T[:, :, None]
                if most:
                    first = 3 if 3 in group else group[0]  # the pseudo-problem of pass@k that is not reached is in O
                    cell_4BQ[first] += (1 - held_K[where] / 2) * self.extra_B4[:, first, None]
                else:
                    cell_4BQ[list(group)] *= np.clip(held_K[where] - 1, 0, 1)
                P_BQ, E_BQ, S_BQ, _ = cell_4BQ
                yield where, ratio(name, P_BQ, E_BQ, S_BQ, cell_4BQ.sum(axis=0))

    def ratio_of(self, name: str, at: Integer | slice = slice(None)) -> Float:
        """The estimate of a ratio at some of the budgets, without its replicates."""
        P, E, S, total = self.estimate_4K[:, at]
        return ratio(name, P, E, S, total)

    def redraw(self, name: str) -> Float | None:
        """A ratio of the cells that two draws of one model would show, at every budget; None where not computed."""
        if self.redraw_3K is None:
            return None
        P, E, S = self.redraw_3K
        return ratio(name, P, E, S, self.estimate_4K[3])

    def index_of(self, k: ArrayLike) -> Integer:
        """Positions of budgets among those summed."""
        requested_K = np.atleast_1d(np.asarray(k, dtype=np.int64))
        missing = requested_K[~np.isin(requested_K, self.k_K)]
        if missing.size:
            raise OffleashError(
                f"k={missing[0]} is not among the budgets computed, 1 to {self.k_K[-1]}. Choose one of them."
            )
        return np.searchsorted(self.k_K, requested_K).astype(np.int64)

    @cached_property
    def out_K(self) -> Float:
        """O; NaN where it cannot be observed."""
        if not self.O_is_observable:
            return np.full(len(self.k_K), np.nan)
        total = self.estimate_4K[3]
        out_K = total - self.estimate_4K[:3].sum(axis=0)
        return np.where(out_K > 1e-12 * np.maximum(total, 1.0), out_K, 0.0)  # what rounding leaves is nothing


def ratio(name: str, P: ArrayLike, E: ArrayLike, S: ArrayLike, total: ArrayLike) -> Float:
    """One of the support metrics of arXiv:2507.14843, or pass@k before, after and their difference; NaN for 0/0.

    SDS is the harmonic mean of SRR and NDR, written without them so that E = 0 < P gives 0.

    Args:
        name: a key of RATIOS.
        P: problems that both runs reached.
        E: problems that only the run after reached.
        S: problems that only the run before reached.
        total: all problems.

    Returns:
        The ratio, broadcast over the cells.

    Example:
        >>> float(ratio('SRR', 40, 2, 10, 60)), float(ratio('SDS', 40, 0, 10, 60))
        (0.8, 0.0)
    """
    P, E, S, total = (np.asarray(side, dtype=np.float64) for side in (P, E, S, total))
    top, ratio_denominator = RATIOS[name](P, E, S, total)
    quotient: Float = np.full(np.shape(top), np.nan)
    np.divide(top, ratio_denominator, out=quotient, where=ratio_denominator > 0)
    return quotient


def reach_PRK(tally: Tally, k_K: Integer) -> Float:
    """Chance that k samples thinned from those drawn reach the target: pass@k of one problem, stopped early or not.

    Args:
        tally: samples drawn and correct.
        k_K: the budgets.

    Returns:
        P x R x K chances.

    Example:
        >>> pair = ol.tally_of_counts(8, [[4, 0], [2, 3], [0, 1], [0, 0]])
        >>> reach_PRK(pair, np.array([1, 8]))[0]
        array([[0.5, 1. ],
               [0. , 0. ]])
    """
    # both kinds of record, in one tally: what stopped at its m-th success is unbiased too, up to its whole budget
    log = log_miss_stopped(
        tally.drawn_PR[:, :, None],
        tally.correct_PR[:, :, None],
        tally.stopped_PR[:, :, None],
        tally.budget_R[None, :, None],
        k_K,
    )
    return np.asarray(0.0 - np.expm1(log))


def thinned_cells(tally: Tally, k_K: Integer, redraw: bool = False) -> Cells:
    """Cells of a tally of two runs (before, after) at budgets k, by thinning: the rule `seen` at any k.

    Args:
        tally: a tally of two runs.
        k_K: the budgets, none above what every problem has.
        redraw: also compute what two draws of one model would show.

    Returns:
        What each problem adds to P = ab, E = (1-a)b, S = a(1-b), with a and b its chances to be reached.

    Example:
        >>> pair = ol.tally_of_counts(8, [[4, 0], [2, 3], [0, 1], [0, 0]])
        >>> thinned_cells(pair, np.array([1, 8])).E_PK
        array([[0.     , 0.     ],
               [0.28125, 0.     ],
               [0.125  , 1.     ],
               [0.     , 0.     ]])
    """
    refuse_short(tally, int(k_K.max(initial=0)))
    redraw_3K = _redraw_seen(tally, k_K) if redraw else None
    return reach_cells(tally, k_K, reach_PRK(tally, k_K), redraw_3K)


def refuse_short(tally: Tally, k: int) -> None:
    """Refuse a budget that some problem does not have: no average over k samples exists there.

    Args:
        tally: samples of runs.
        k: the budget.

    Returns:
        Nothing; an OffleashError is raised where a problem has fewer samples in one of the runs.

    Example:
        >>> refuse_short(ol.tally_of_counts(8, [[4, 0]]), 8)
    """
    is_short = np.where(tally.stopped_PR, tally.budget_R, tally.drawn_PR) < k
    if is_short.any():
        p, r = np.argwhere(is_short)[0]
        raise OffleashError(
            f"k={k} is more than the {tally.drawn_PR[p, r]} samples of problem {str(tally.problem_P[p])!r} "
            f"in {tally.runs[r]!r}. Compare at a smaller k, or leave that problem out."
        )


def reach_cells(tally: Tally, k_K: Integer, reach: Float, redraw_3K: Float | None = None) -> Cells:
    """Cells from the chance of every target to be reached: P = ab, E = (1-a)b, S = a(1-b).

    Args:
        tally: a tally of two runs.
        k_K: the budgets.
        reach: P x R x K chances, as `reach_PRK`.
        redraw_3K: P, E and S of two draws of one model at those budgets.

    Returns:
        What each problem adds to the cells.

    Example:
        >>> pair = ol.tally_of_counts(8, [[4, 0], [2, 3], [0, 1], [0, 0]])
        >>> reach_cells(pair, np.array([8]), np.full((4, 2, 1), 0.5)).P_PK[:, 0]
        array([0.25, 0.25, 0.25, 0.25])
    """
    a_PK, b_PK = reach[:, BEFORE], reach[:, AFTER]
    cells = (a_PK * b_PK, (1 - a_PK) * b_PK, a_PK * (1 - b_PK), np.ones_like(a_PK))
    return _cells_of_problems(tally, k_K, *cells, redraw_3K)


def _redraw_seen(tally: Tally, k_K: Integer) -> Float:
    """P, E and S of two draws of one model by the rule `seen`; records that stopped early are no pool of samples."""
    if not (tally.until_R > 0).any():
        return redraw_at(tally.drawn_PR, tally.correct_PR, k_K)
    drawn_P, correct_P = (counts_PR.sum(axis=1).astype(np.float64) for counts_PR in (tally.drawn_PR, tally.correct_PR))
    return redraw_of_rates(tally.drawn_PR, tally.correct_PR, beta_prior(drawn_P, correct_P), k_K)


def rule_cells(tally: Tally, state_PR: State, k: int) -> Cells:
    """Cells of a tally of two runs whose targets are in, out or undetermined without any chance: certificates.

    Args:
        tally: a tally of two runs.
        state_PR: IN, OUT or UNDETERMINED for every target and run.
        k: the budget the states belong to.

    Returns:
        Cells of 0 and 1.

    Example:
        >>> pair = ol.tally_of_counts(8, [[4, 0], [2, 3], [0, 1], [0, 0]])
        >>> rule_cells(pair, seen(pair.correct_PR), 8).E_PK[:, 0]
        array([0., 0., 1., 0.])
    """
    return state_cells(tally, (state_PR == IN).astype(np.float64), (state_PR == OUT).astype(np.float64), k)


def state_cells(tally: Tally, in_PR: Float, out_PR: Float, k: int, redraw_3: Float | None = None) -> Cells:
    """Cells of a tally of two runs from the chances that k samples put a target in and out; the rest is undetermined.

    Args:
        tally: a tally of two runs.
        in_PR: chance of every target and run to be in.
        out_PR: chance to be out.
        k: the budget they belong to.
        redraw_3: P, E and S that two draws of one model would show under the rule; None where nothing is random.

    Returns:
        What each problem adds to the cells: products of the chances of both runs.

    Example:
        >>> pair = ol.tally_of_counts(8, [[4, 0]])
        >>> cells = state_cells(pair, np.array([[0.5, 0.0]]), np.array([[0.25, 1.0]]), 4)
        >>> cells.S_PK[:, 0], cells.determined_PK[:, 0]
        (array([0.5]), array([0.75]))
    """
    before_in, before_out = in_PR[:, BEFORE, None], out_PR[:, BEFORE, None]
    after_in, after_out = in_PR[:, AFTER, None], out_PR[:, AFTER, None]
    determined = (before_in + before_out) * (after_in + after_out)
    cells = (before_in * after_in, before_out * after_in, before_in * after_out, determined)
    return _cells_of_problems(tally, np.array([k]), *cells, None if redraw_3 is None else redraw_3[:, None])


def _cells_of_problems(
    tally: Tally, k_K: Integer, P: Float, E: Float, S: Float, determined: Float, redraw_3K: Float | None
) -> Cells:
    """Sum targets into their problems, since problems are what is resampled."""
    if tally.per is Per.PROBLEM:
        return Cells(k_K, P, E, S, determined, strata(tally.benchmark_P), True, redraw_3K)
    label_P, first, row_T = np.unique(tally.problem_P, return_index=True, return_inverse=True)

    def summed(value_TK: Float) -> Float:
        sums = np.zeros((len(label_P), value_TK.shape[1]))
        np.add.at(sums, row_T, value_TK)
        return sums

    stratum_P = strata(tally.benchmark_P[first])
    return Cells(k_K, summed(P), summed(E), summed(S), summed(determined), stratum_P, False, redraw_3K)
