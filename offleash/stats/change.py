"""Support change between two runs at one budget k: P, E, S, O and SRR, NDR, SDS, NSCR, with intervals.

The rules and the cells per problem are in stats/support_classes.py; every rule sees the same number of samples of
both runs.
"""

from dataclasses import dataclass
from functools import lru_cache

import numpy as np

from offleash.data.tally import Per, Tally
from offleash.display import html
from offleash.errors import OffleashError
from offleash.stats.binomials import Float, Integer, hypergeometric_at_least, hypergeometric_at_most
from offleash.stats.intervals import REPLICATES, Interval, percentile_intervals, wilson
from offleash.stats.redraw import redraw_by_count
from offleash.stats.support_classes import (
    IN,
    OUT,
    ZETA,
    Cells,
    CellSums,
    Rule,
    State,
    above,
    beta_prior,
    confident,
    epsilon,
    posterior,
    ratio,
    refuse_short,
    seen,
    state_cells,
    thinned_cells,
)

METRICS = ("SRR", "NDR", "SDS", "NSCR")
UNDEFINED = {
    "SRR": "the run before reached nothing (P + S = 0)",
    "NDR": "the run after reached nothing (P + E = 0)",
    "SDS": "SRR or NDR is undefined",
    "NSCR": "neither run reached anything (P + E + S = 0)",
}


@dataclass(frozen=True)
class Redraw:
    """What two draws of one model would show in place of the two runs, in expectation (stats/redraw.py)."""

    P: float
    E: float
    S: float
    value: dict[str, float]  # SRR, NDR, SDS, NSCR of these cells; NaN where undefined


@dataclass(frozen=True)
class SupportChange:
    """What was preserved (P), gained (E), lost (S) and never reached (O), with intervals and the redraw value.

    Example:
        >>> change_of_table(P=40, E=2, S=10, O=8).problems
        60
    """

    P: float
    E: float
    S: float
    O: float  # noqa: E741  the paper's name; NaN per answer or solution, where it cannot be observed
    undetermined: float
    value: dict[str, float]  # SRR, NDR, SDS, NSCR; NaN where undefined
    interval: dict[str, Interval]
    rule: Rule
    per: Per
    k: int
    before: str
    after: str
    redraw: Redraw | None = None  # None where nothing is random, and for a bare table

    @property
    def problems(self) -> float:
        return self.P + self.E + self.S + self.O + self.undetermined

    def reason(self, metric: str) -> str | None:
        """Why a metric has no value; None when it has one."""
        return UNDEFINED[metric] if np.isnan(self.value[metric]) else None

    def __str__(self) -> str:
        cells = f"P {self.P:g}  E {self.E:g}  S {self.S:g}  O {'?' if np.isnan(self.O) else format(self.O, 'g')}"
        metrics = "  ".join(
            f"{name} {self.value[name]:.3f} [{self.interval[name].low:.3f}, {self.interval[name].high:.3f}]"
            for name in METRICS
        )
        table = f"{self.before} -> {self.after}, per {self.per}, rule {self.rule}, k={self.k}\n{cells}\n{metrics}"
        if self.redraw is None:
            return table
        same = "  ".join(f"{name} {value:.3f}" for name, value in self.redraw.value.items())
        return f"{table}\nunchanged model, drawn twice: {same}"

    def _repr_html_(self) -> str | None:
        return html(self)


def support_change(
    tally: Tally,
    before: str,
    after: str,
    *,
    rule: Rule | str = Rule.SEEN,
    k: int | None = None,
    tau: float = 0.0,
    zeta: float = ZETA,
    replicates: int = REPLICATES,
    seed: int = 0,
) -> SupportChange:
    """Compare the support of two runs at one budget `k` for both (default: the largest that every problem has).

    Args:
        tally: a tally with both runs.
        before: the name of the run before.
        after: the name of the run after.
        rule: when a problem counts as reached.
        k: the budget of both runs.
        tau: the rate of the rule `above`.
        zeta: the error of the rules `confident` and `posterior`.
        replicates: bootstrap replicates.
        seed: of the weights; the same seed pairs statistics of the same problems.

    Returns:
        The cells and the metrics with their 95% intervals.

    Example:
        >>> counts = ol.tally_of_counts(8, [[2, 4], [3, 0], [0, 1]], runs=("base", "rl"))
        >>> change = ol.support_change(counts, "base", "rl")
        >>> change.P, change.E, change.S, change.O
        (1.0, 1.0, 1.0, 0.0)
    """
    pair, rule = tally.pair(before, after), Rule(rule)
    cells = cells_at(pair, rule, common_budget(pair) if k is None else k, tau, zeta)
    return change_at(cells.sums(replicates, seed), 0, pair, rule)


def cells_at(pair: Tally, rule: Rule, k: int, tau: float = 0.0, zeta: float = ZETA, redraw: bool = True) -> Cells:
    """The cells of every problem at one budget under a rule: by thinning for `seen`, else by the rule's states.

    Args:
        pair: a tally of two runs.
        rule: when a problem counts as reached.
        k: the budget.
        tau: the rate of the rule `above`.
        zeta: the error of the rules `confident` and `posterior`.
        redraw: also compute what two draws of one model would show.

    Returns:
        The cells at that one budget.

    Example:
        >>> pair = ol.tally_of_counts(8, [[4, 0], [2, 3], [0, 1], [0, 0]])
        >>> cells_at(pair, Rule.SEEN, 8).S_PK[:, 0]
        array([1., 0., 0., 0.])
    """
    if rule is Rule.SEEN:
        return thinned_cells(pair, np.array([k]), redraw)
    in_PR, out_PR = _state_chances(pair, rule, k, tau, zeta)
    return state_cells(pair, in_PR, out_PR, k, _redraw_under(pair, rule, k, tau, zeta) if redraw else None)


def _state_chances(pair: Tally, rule: Rule, k: int, tau: float, zeta: float) -> tuple[Float, Float]:
    """Chances that k of the samples put each target in and out: the mean over all ways to take them, as by `seen`."""
    _refuse_unusable(pair, rule, k)
    threshold_R = [_run_thresholds(pair, rule, k, tau, zeta, r) for r in range(len(pair.runs))]
    least_R, most_R = np.array(threshold_R).T
    in_PR = hypergeometric_at_least(least_R, pair.drawn_PR, pair.correct_PR, k)
    return in_PR, hypergeometric_at_most(most_R, pair.drawn_PR, pair.correct_PR, k)


def _run_thresholds(pair: Tally, rule: Rule, k: int, tau: float, zeta: float, r: int) -> tuple[int, int]:
    """The counts that decide in one run; by `posterior` they depend on the rates of all its problems."""
    prior = _prior(pair, r) if rule is Rule.POSTERIOR else None
    return count_thresholds(rule, k, tau, zeta, prior)


def _prior(pair: Tally, r: int | slice) -> tuple[float, float]:
    """The Beta prior of the rates of one run, or of both."""
    return beta_prior(
        *(counts_PR[:, r].reshape(-1).astype(np.float64) for counts_PR in (pair.drawn_PR, pair.correct_PR))
    )


def _redraw_under(pair: Tally, rule: Rule, k: int, tau: float, zeta: float) -> Float:
    """P, E and S of two draws of one model under a rule on counts."""
    # the posterior rule pools problems: its prior is that of both runs together, and then it is a rule on counts too
    prior = _prior(pair, slice(None)) if rule is Rule.POSTERIOR else None
    return redraw_by_count(pair.drawn_PR, pair.correct_PR, k, *count_thresholds(rule, k, tau, zeta, prior))


@lru_cache(maxsize=64)  # every benchmark has the same
def count_thresholds(
    rule: Rule, k: int, tau: float = 0.0, zeta: float = ZETA, prior: tuple[float, float] | None = None
) -> tuple[int, int]:
    """From how many successes of k a target is in, and up to how many it is out; between the two undetermined.

    Args:
        rule: a rule on the counts of a target.
        k: the samples.
        tau: the rate of the rule `above`.
        zeta: the error of the rules `confident` and `posterior`.
        prior: the shapes of the Beta prior of the rule `posterior`.

    Returns:
        Both numbers; k + 1 where no number is in, -1 where none is out.

    Example:
        >>> count_thresholds(Rule.SEEN, 256), count_thresholds(Rule.CONFIDENT, 256)
        ((1, 0), (7, 0))
    """
    every = np.arange(k + 1)
    if rule is Rule.SEEN:
        return 1, 0
    if rule is Rule.ABOVE:
        state = above(k, every, tau)
    elif rule is Rule.CONFIDENT:
        state = confident(k, every, float(epsilon(k, zeta)), zeta)
    else:
        state = posterior(np.full(k + 1, k), every, float(epsilon(k, zeta)), zeta, prior)
    inside, outside = np.flatnonzero(state == IN), np.flatnonzero(state == OUT)
    return int(inside[0]) if inside.size else k + 1, int(outside[-1]) if outside.size else -1


def change_at(sums: CellSums, position: int, pair: Tally, rule: Rule = Rule.SEEN) -> SupportChange:
    """The support change at one of the budgets of `sums`.

    Args:
        sums: sums of the cells over problems, in every replicate.
        position: which of their budgets.
        pair: the tally they come from.
        rule: the rule they were made by.

    Returns:
        The cells and the metrics with their 95% intervals.

    Example:
        >>> pair = ol.tally_of_counts(8, [[4, 0], [2, 3], [0, 1], [0, 0]])
        >>> sums = thinned_cells(pair, np.array([4, 8])).sums(200)
        >>> change = change_at(sums, 1, pair)
        >>> change.k, change.value['SRR']
        (8, 0.5)
    """
    P, E, S, determined = (float(value) for value in sums.estimate_4K[:, position])
    value, interval = {}, {}
    for name in METRICS:
        at = np.array([position])
        value[name] = float(sums.ratio_of(name, at)[0])
        interval[name] = sums.intervals(name, at)[0]
    O = float(sums.out_K[position])  # noqa: E741
    undetermined = len(pair) - determined if pair.per is Per.PROBLEM else 0.0
    k, redraw = int(sums.k_K[position]), None
    if sums.redraw_3K is not None:
        redrawn_P, redrawn_E, redrawn_S = (float(cell) for cell in sums.redraw_3K[:, position])
        same = {name: float(ratio(name, redrawn_P, redrawn_E, redrawn_S, determined)) for name in METRICS}
        redraw = Redraw(redrawn_P, redrawn_E, redrawn_S, same)
    before, after = pair.runs
    return SupportChange(P, E, S, O, undetermined, value, interval, rule, pair.per, k, before, after, redraw)


def change_of_table(P: int, E: int, S: int, O: int, seed: int = 0) -> SupportChange:  # noqa: E741
    """The metrics of a bare table of integers, as papers print them; Wilson intervals for SRR and NDR.

    Args:
        P: problems that both runs reached.
        E: problems that only the run after reached.
        S: problems that only the run before reached.
        O: problems that neither reached.
        seed: of the replicates behind the intervals of SDS and NSCR.

    Returns:
        The metrics of that table; `k` is 0, since it is not known.

    Example:
        >>> change = change_of_table(P=40, E=2, S=10, O=8)
        >>> change.value['SRR'], round(change.interval['SRR'].low, 3)
        (0.8, 0.67)
    """
    cell_4 = np.array([P, E, S, O], dtype=np.float64)
    replicate_B4 = np.random.default_rng(seed).standard_gamma(cell_4 + 0.5, (REPLICATES, 4))
    preserved_B, gained_B, lost_B, neither_B = replicate_B4.T
    value, interval = {}, {}
    for name in METRICS:
        value[name] = float(ratio(name, P, E, S, P + E + S + O))
        replicate_B1 = ratio(name, preserved_B, gained_B, lost_B, preserved_B + gained_B + lost_B + neither_B)[:, None]
        interval[name] = percentile_intervals(replicate_B1, np.array([value[name]]))[0]
    interval |= {"SRR": wilson(P, P + S), "NDR": wilson(E, P + E)}
    return SupportChange(P, E, S, O, 0, value, interval, Rule.SEEN, Per.PROBLEM, 0, "before", "after")


def common_budget(pair: Tally) -> int:
    """The largest k that every problem has in every run; a record that stopped early has its whole budget.

    Args:
        pair: a tally of any number of runs.

    Returns:
        That k.

    Example:
        >>> pair = ol.tally_of_counts(8, [[4, 0], [2, 3], [0, 1], [0, 0]])
        >>> common_budget(pair)
        8
    """
    available_PR = np.where(pair.stopped_PR, pair.budget_R, pair.drawn_PR)
    if not available_PR.size or available_PR.min() == 0:
        raise OffleashError("A problem has no samples in one of the runs. Leave it out before comparing.")
    return int(available_PR.min())


def states(drawn_PR: Integer, correct_PR: Integer, rule: Rule, k: int, tau: float = 0.0, zeta: float = ZETA) -> State:
    """In, out or undetermined for every target and run, from all samples that it has.

    The threshold epsilon of the rules `confident` and `posterior` is that of k; more samples decide more targets.

    Args:
        drawn_PR: samples of each target in each run.
        correct_PR: correct ones among them.
        rule: any rule on samples.
        k: the budget that sets epsilon.
        tau: the rate of the rule `above`.
        zeta: the error of the rules `confident` and `posterior`.

    Returns:
        IN, OUT or UNDETERMINED (1, 0, -1) per target and run.

    Example:
        >>> states(np.full((2, 2), 8), np.array([[4, 0], [2, 3]]), Rule.ABOVE, 8, tau=0.3)
        array([[1, 0],
               [0, 1]], dtype=int8)
    """
    if rule is Rule.SEEN:
        return seen(correct_PR)
    if rule is Rule.ABOVE:
        return above(drawn_PR, correct_PR, tau)
    if rule is Rule.CONFIDENT:
        return confident(drawn_PR, correct_PR, float(epsilon(k, zeta)), zeta)
    if rule is Rule.POSTERIOR:
        runs = range(drawn_PR.shape[1])
        return np.stack(
            [posterior(drawn_PR[:, r], correct_PR[:, r], float(epsilon(k, zeta)), zeta) for r in runs], axis=1
        )
    raise OffleashError(_NO_CERTIFICATES)


_NO_CERTIFICATES = (
    "Rule 'certified' needs exact certificates, but these runs have samples. Use rule 'seen' or 'confident', or "
    "make certificates with `offleash certify PROBLEMS MODEL -o CERT` and compare those."
)


def _refuse_unusable(pair: Tally, rule: Rule, k: int) -> None:
    """A rule other than `seen` needs every sample of the budget."""
    if (pair.until_R > 0).any():
        raise OffleashError(
            f"Rule {rule.value!r} needs every sample of the budget, but {pair.runs} stopped at "
            f"success {pair.until_R.max()}. Use rule 'seen', or draw without --until."
        )
    if rule is Rule.CERTIFIED:
        raise OffleashError(_NO_CERTIFICATES)
    refuse_short(pair, k)
