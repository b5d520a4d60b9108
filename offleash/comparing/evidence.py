"""Evidence for the losses and gains of two runs: what chance would give, what is significant, how robust it is.

Applies stats/chance.py and stats/significance.py to the first k samples of every problem. A number that the rule or an
early-stopped run rules out is None, with the reason.
"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from offleash.data.tally import Per, Tally
from offleash.stats.binomials import Float, Integer
from offleash.stats.chance import ExchangeNull, Retest, exchange_null, mcnemar, retest
from offleash.stats.change import SupportChange, count_thresholds
from offleash.stats.intervals import REPLICATES
from offleash.stats.significance import (
    Confirmation,
    Strength,
    confirmation,
    discoveries,
    gains_at_least,
    holm_rejections,
    lists,
    loss_p_stopped,
    losses_at_least,
    shared_tipping_rate,
    smallest_certain_loss,
    strength,
    tipping_rate,
)
from offleash.stats.support_classes import AFTER, BEFORE, ZETA, Rule

Flags = NDArray[np.bool_]

GREEDY = "greedy decoding is deterministic, so resampling would change nothing and problems are the only randomness"


@dataclass(frozen=True)
class Evidence:
    """Tests on whole numbers: the first k samples of every problem. None where a number cannot be known.

    The table itself may average over all choices of k samples and hold fractions; exact tests need counts, so E and S
    here may differ from those of the table. `basis` says which samples were tested.
    """

    E: int | None  # gained among the samples tested
    S: int | None  # lost among the samples tested
    basis: str
    null: ExchangeNull | None  # what resampling an unchanged model would lose and gain
    null_reason: str | None  # why there is none
    mcnemar_p: float | None  # exact, two-sided: is the net change more than an even split of E + S?
    losses_at_least: int | None  # losses beyond chance, a lower bound with 95% confidence
    gains_at_least: int | None
    lost: tuple[str, ...]  # problems reached before and never after, at 5% false discoveries; strongest first
    gained: tuple[str, ...]
    fallen: tuple[str, ...]  # problems that both runs reach, whose rate fell, by the same correction
    risen: tuple[str, ...]
    strength: dict[str, Strength]  # by class (E, S): how many rest on 1, on 2 to 4, and on 5 or more successes
    retest: Retest | None  # SRR and gain, corrected for what a second draw of the run before would show
    retest_reason: str | None  # why there is none
    confirmation: dict[str, Confirmation]  # by class: how many show in both halves of the samples, over all splits
    # the verifier's false-positive rate that alone would explain E (in the run after only), S (in the run before only),
    # and both together (the same rate in both runs)
    false_positive_rate_that_explains: dict[str, float]
    smallest_certain_loss: int | None  # successes against none from which a single loss is significant
    bound_reason: str | None = None  # why losses_at_least is None, where null_reason does not say it


def evidence(
    pair: Tally,
    change: SupportChange,
    tau: float = 0.0,
    zeta: float = ZETA,
    replicates: int = REPLICATES,
    seed: int = 0,
    greedy: bool = False,
) -> Evidence:
    """All that speaks for or against the change of a tally of two runs.

    Args:
        pair: counts of the runs before and after.
        change: the support change that is examined; its rule and k are those of the tests.
        tau: the success rate of the rule `above`.
        zeta: the error level of the rules `confident` and `posterior`.
        replicates: bootstrap replicates of the retest's intervals.
        seed: of the bootstrap.
        greedy: whether a run was decoded greedily. Resampling it would change nothing, so nothing is due to chance in
            the sampling; only the choice of problems is random, which McNemar's test is about.

    Returns:
        The evidence. Per answer or solution all tests are missing: answers to one problem compete for the same samples,
        so their changes are not independent. Runs that stopped early keep the tests that their records allow.
    """
    k, retest_result, no_retest = change.k, None, None
    if greedy and pair.per is Per.PROBLEM:
        E, S = _gains_and_losses(pair.head_PR > 0, pair.head_PR == 0)
        known = vars(_without_tests(GREEDY, None, GREEDY)) | {"E": E, "S": S, "basis": _basis(pair, k)}
        return Evidence(**known | {"mcnemar_p": mcnemar(E, S)})
    # a redraw at k is estimated from pass@2k of the run before, so it needs 2k of its samples
    half = int(np.where(pair.stopped_PR, pair.budget_R, pair.drawn_PR)[:, BEFORE].min() // 2)
    if half >= 1:
        retest_result = retest(pair, min(half, k), replicates, seed)
    else:
        no_retest = f"{pair.runs[BEFORE]!r} has only one sample per problem; estimating a redraw needs two"
    if pair.per is not Per.PROBLEM:
        tests_invalid = (
            f"{pair.per.value}s of one problem are not independent, so they are not tested; compare with the redraw"
        )
        return _without_tests(tests_invalid, retest_result, no_retest)
    if (pair.until_R > 0).any():
        return _evidence_of_stopped_runs(pair, change, retest_result, no_retest)
    drawn_P2, correct_P2 = np.full_like(pair.drawn_PR, k), pair.head_PR
    # the exchange null needs a rule that depends on the count of a problem alone: in from `least`, out up to `most`
    least, most, reason = _thresholds(change.rule, k, tau, zeta)
    E, S = _gains_and_losses(correct_P2 >= least, correct_P2 <= most)
    null = exchange_null(drawn_P2, correct_P2, least, most) if reason is None else None
    rows = lists(drawn_P2, correct_P2)  # Benjamini-Hochberg over all problems, whatever the rule
    return Evidence(
        E=E if reason is None else None,
        S=S if reason is None else None,
        basis=_basis(pair, k),
        null=null,
        null_reason=reason,
        mcnemar_p=mcnemar(E, S) if reason is None else None,
        losses_at_least=losses_at_least(drawn_P2, correct_P2) if change.rule is Rule.SEEN else None,
        gains_at_least=gains_at_least(drawn_P2, correct_P2) if change.rule is Rule.SEEN else None,
        lost=_problem_ids(pair, rows.lost),
        gained=_problem_ids(pair, rows.gained),
        fallen=_problem_ids(pair, rows.fallen),
        risen=_problem_ids(pair, rows.risen),
        strength=strength(correct_P2),
        retest=retest_result,
        retest_reason=no_retest,
        confirmation=confirmation(drawn_P2, correct_P2),
        false_positive_rate_that_explains=_tipping_rates(change),
        smallest_certain_loss=smallest_certain_loss(k, len(pair)),
    )


def _thresholds(rule: Rule, k: int, tau: float, zeta: float) -> tuple[int, int, str | None]:
    """How many successes of k put a problem in, how few leave it out, and why a rule has no such numbers.

    Every rule but `posterior` depends on the count of the problem alone, so it is a pair of thresholds on it.
    """
    if rule is Rule.SEEN:
        return 1, 0, None
    if rule is Rule.POSTERIOR:
        return 1, 0, "the posterior rule pools all problems, so it has no exchange null"
    least, most = count_thresholds(rule, k, tau, zeta)
    if least > k or most < 0:
        return 1, 0, f"with k = {k} no number of successes decides whether a problem is reached"
    return least, most, None


def _gains_and_losses(inside_P2: Flags, outside_P2: Flags) -> tuple[int, int]:
    """E and S; an undetermined problem, neither in nor out, counts as neither."""
    E = int((outside_P2[:, BEFORE] & inside_P2[:, AFTER]).sum())
    return E, int((inside_P2[:, BEFORE] & outside_P2[:, AFTER]).sum())


def _evidence_of_stopped_runs(
    pair: Tally, change: SupportChange, retest_result: Retest | None, no_retest: str | None
) -> Evidence:
    """The evidence of runs that stopped at their m-th success: the table, McNemar and the lists, not the exchange null.

    Such a record has a random number of samples and, if it stopped, a fixed number of successes: exchanging successes
    between two of them has no meaning. A loss is tested by how early the successes came (`loss_p_stopped`).
    """
    reached_P2 = (pair.first_PR >= 0) & (pair.first_PR < change.k)
    E, S = _gains_and_losses(reached_P2, ~reached_P2)
    empty = _without_tests("runs that stop at their m-th success are not exchangeable", retest_result, no_retest)
    known = vars(empty) | {
        "E": E,
        "S": S,
        "basis": f"samples up to success {int(pair.until_R.max())} of each problem",
        "mcnemar_p": mcnemar(E, S),
        "false_positive_rate_that_explains": _tipping_rates(change),
    }
    # with a smaller k the records hold successes beyond it, and the test is about the whole record
    if (pair.budget_R == change.k).all():
        lost_p, gained_p = (_loss_p(pair, side, other) for side, other in ((BEFORE, AFTER), (AFTER, BEFORE)))
        known |= {
            "losses_at_least": holm_rejections(lost_p),
            "gains_at_least": holm_rejections(gained_p),
            "lost": _problem_ids(pair, discoveries(lost_p)),
            "gained": _problem_ids(pair, discoveries(gained_p)),
            "strength": strength(pair.correct_PR),
        }
    else:
        known["bound_reason"] = f"runs that stopped early include successes beyond k = {change.k}"
    return Evidence(**known)


def _loss_p(pair: Tally, side: int, other: int) -> Float:
    """p of each loss (or gain) of runs that may have stopped early: how soon successes came, against none."""
    stopped_P, until, budget = pair.stopped_PR[:, side], int(pair.until_R[side]), int(pair.budget_R[other])
    return loss_p_stopped(pair.drawn_PR[:, side], until, budget, pair.correct_PR[:, [side, other]], stopped_P)


def _without_tests(reason: str, retest_result: Retest | None, no_retest: str | None) -> Evidence:
    """Evidence that consists of the retest only, with the reason why nothing was tested."""
    return Evidence(
        E=None,
        S=None,
        basis="none",
        null=None,
        null_reason=reason,
        mcnemar_p=None,
        losses_at_least=None,
        gains_at_least=None,
        lost=(),
        gained=(),
        fallen=(),
        risen=(),
        strength={},
        retest=retest_result,
        retest_reason=no_retest,
        confirmation={},
        false_positive_rate_that_explains={},
        smallest_certain_loss=None,
    )


def _tipping_rates(change: SupportChange) -> dict[str, float]:
    """False-positive rates that would explain E, S, and both of them."""
    return {
        "E": tipping_rate(change.E, change.O, change.k),
        "S": tipping_rate(change.S, change.O, change.k),
        "both": shared_tipping_rate(change.E, change.S, change.O, change.k),
    }


def _problem_ids(pair: Tally, rows: Integer) -> tuple[str, ...]:
    """The ids of some rows as plain strings, for JSON and the terminal."""
    return tuple(str(name) for name in pair.problem_P[rows])


def _basis(pair: Tally, k: int) -> str:
    """Which samples the tests use, as the terminal and the JSON say it."""
    if (pair.drawn_PR == k).all():
        return "all samples"
    return f"the first {k} samples of each problem" if pair.ordered_R.all() else f"{k} random samples of each problem"
