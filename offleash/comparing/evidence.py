"""Evidence for the losses and gains of two runs: what chance would give, what is significant, how robust it is.

Applies stats/chance.py, stats/significance.py and stats/power.py to all samples of every problem: the exchange null is
exact for unequal numbers of them. The table of a comparison is at one k instead, so E and S here may differ from it. A
number that the rule or an early-stopped run rules out is None, with the reason.

Several runs after the first are several looks at one base. `evidence` gives the bounds of one of them at the level that
all bounds share; `tested_jointly` then corrects lists and p-values over all runs.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field, replace

import numpy as np
from numpy.typing import NDArray

from offleash.data.tally import Per, Tally, Text
from offleash.stats.binomials import Float, Integer
from offleash.stats.chance import (
    ExchangeAtK,
    ExchangeNull,
    Retest,
    benjamini_hochberg,
    exchange_at_k,
    exchange_null,
    holm,
    mcnemar,
    retest,
)
from offleash.stats.change import SupportChange, states
from offleash.stats.intervals import REPLICATES
from offleash.stats.power import GainPower, gain_power, smallest_significant_count, successes_needed
from offleash.stats.significance import (
    Confirmation,
    ProblemTests,
    Strength,
    confirmation,
    gains_at_least,
    holm_rejections,
    joint_confidence,
    joint_lists,
    list_level,
    loss_p_stopped,
    losses_at_least,
    problem_tests,
    shared_tipping_rate,
    strength,
    tipping_rate,
)
from offleash.stats.support_classes import AFTER, BEFORE, IN, OUT, ZETA, Rule

Flags = NDArray[np.bool_]

GREEDY = "greedy decoding is deterministic, so resampling would change nothing and problems are the only randomness"
ALL_SAMPLES = "all samples"  # the basis where every problem has k samples in both runs


@dataclass(frozen=True)
class Net:
    """The net change E - S at equal numbers of samples, and its exact two-sided McNemar test."""

    E: int
    S: int
    p: float
    adjusted_p: float  # Holm over all runs after the first; equal to p for one
    basis: str  # which samples: at unequal budgets E and S differ by budget alone


@dataclass(frozen=True)
class ListedFrom:
    """From how many successes, against none, the lists accept a change: Benjamini-Hochberg, as the lists themselves."""

    lost: int | None  # successes of the run before; None: not even as many as were drawn
    gained: int | None  # successes of the run after
    samples: tuple[int, int]  # per problem, before and after: those of most problems


@dataclass(frozen=True)
class Evidence:
    """Tests on all samples of every problem. None where a number cannot be known.

    The table itself is at k samples of each run, averaged over all choices of them. `basis` says which samples were
    tested.
    """

    E: int | None  # gained among the samples tested
    S: int | None  # lost among the samples tested
    basis: str
    null: ExchangeNull | None  # what resampling an unchanged model would lose and gain in the samples tested
    null_reason: str | None  # why there is none
    at_k: ExchangeAtK | None  # the same at k samples of each run, as the table is; None for other rules than `seen`
    adjusted_p: dict[str, float]  # p_E and p_S of the null by class, Holm over all runs after the first
    net: Net | None
    net_reason: str | None  # why there is none
    losses_at_least: int | None  # lost problems whose rate fell; bounds of all runs hold together with 95% confidence
    gains_at_least: int | None
    runs_tested: int  # runs after the first, over which everything is corrected
    lost: tuple[str, ...]  # problems reached before and never after, at 5% false discoveries; strongest first
    gained: tuple[str, ...]
    fallen: tuple[str, ...]  # problems that both runs reach, whose rate fell, by the same correction
    risen: tuple[str, ...]
    listed_from: ListedFrom | None
    strength: dict[str, Strength]  # by class (E, S): how many rest on 1, on 2 to 4, and on 5 or more successes
    retest: Retest | None  # SRR and gain, corrected for what a second draw of the run before would show
    retest_reason: str | None  # why there is none
    confirmation: dict[str, Confirmation]  # by class: how many show in both halves of the samples, over all splits
    # the verifier's false-positive rate that alone would explain E (in the run after only), S (in the run before only),
    # and both together (the same rate in both runs)
    false_positive_rate_that_explains: dict[str, float]
    successes_needed: int | None  # a priori: successes against none whose loss is significant, Bonferroni over all
    gain_power: GainPower | None  # what the absence of gains is worth; None for other rules than `seen`
    bound_reason: str | None = None  # why losses_at_least is None, where null_reason does not say it
    tests: ProblemTests | None = field(
        default=None, repr=False, compare=False
    )  # p-values that `tested_jointly` corrects
    problem_P: Text | None = field(default=None, repr=False, compare=False)  # their problems
    q_lost_P: Float | None = field(default=None, repr=False, compare=False)  # adjusted over all problems of all runs
    q_gained_P: Float | None = field(default=None, repr=False, compare=False)

    @property
    def mcnemar_p(self) -> float | None:
        """p of the net change, not corrected over runs."""
        return None if self.net is None else self.net.p


def evidence(
    pair: Tally,
    change: SupportChange,
    tau: float = 0.0,
    zeta: float = ZETA,
    replicates: int = REPLICATES,
    seed: int = 0,
    greedy: bool = False,
    runs: int = 1,
) -> Evidence:
    """All that speaks for or against the change of a tally of two runs.

    Args:
        pair: counts of the runs before and after.
        change: the support change that is examined; its rule is that of the tests.
        tau: the success rate of the rule `above`.
        zeta: the error level of the rules `confident` and `posterior`.
        replicates: bootstrap replicates of the retest's intervals.
        seed: of the bootstrap of the retest; no test depends on it.
        greedy: whether a run was decoded greedily. Resampling it would change nothing, so nothing is due to chance in
            the sampling; only the choice of problems is random, which McNemar's test is about.
        runs: runs after the first that are compared with it: the bounds of all of them hold together.

    Returns:
        The evidence. Per answer or solution all tests are missing: answers to one problem compete for the same samples,
        so their changes are not independent. Runs that stopped early keep the tests that their records allow.
    """
    k, retest_result, no_retest = change.k, None, None
    if greedy and pair.per is Per.PROBLEM:
        E, S = _gains_and_losses(pair.correct_PR > 0, pair.correct_PR == 0)
        net, net_reason = _net(pair, Rule.SEEN, k, tau, zeta)
        known = {"E": E, "S": S, "basis": _basis(pair, k), "net": net, "net_reason": net_reason}
        return Evidence(**vars(_without_tests(GREEDY, None, GREEDY, runs)) | known)
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
        return _without_tests(tests_invalid, retest_result, no_retest, runs)
    if (pair.until_R > 0).any():
        return _evidence_of_stopped_runs(pair, change, retest_result, no_retest, runs)
    drawn_P2, correct_P2, seen = pair.drawn_PR, pair.correct_PR, change.rule is Rule.SEEN
    # the exchange null needs a rule that depends on the count of a problem alone: in from `least`, out up to `most`
    least_P2, most_P2, reason = _thresholds(change.rule, drawn_P2, k, tau, zeta)
    E, S = _gains_and_losses(correct_P2 >= least_P2, correct_P2 <= most_P2)
    net, net_reason = _net(pair, change.rule, k, tau, zeta)
    confidence = joint_confidence(2 * runs)
    tested = Evidence(
        E=E if reason is None else None,
        S=S if reason is None else None,
        basis=_basis(pair, k),
        null=exchange_null(drawn_P2, correct_P2, least_P2, most_P2) if reason is None else None,
        null_reason=reason,
        at_k=exchange_at_k(drawn_P2, correct_P2, k) if seen else None,
        adjusted_p={},
        net=net,
        net_reason=net_reason,
        losses_at_least=losses_at_least(drawn_P2, correct_P2, confidence) if seen else None,
        gains_at_least=gains_at_least(drawn_P2, correct_P2, confidence) if seen else None,
        runs_tested=runs,
        lost=(),
        gained=(),
        fallen=(),
        risen=(),
        listed_from=_most_common_samples(drawn_P2),
        strength=strength(correct_P2),
        retest=retest_result,
        retest_reason=no_retest,
        confirmation=confirmation(drawn_P2, correct_P2),
        false_positive_rate_that_explains=_tipping_rates(change),
        successes_needed=successes_needed(*_most_common_samples(drawn_P2).samples, len(pair) * runs),
        gain_power=gain_power(drawn_P2, correct_P2 > 0, len(pair) * runs, joint_confidence(runs)) if seen else None,
        tests=problem_tests(drawn_P2, correct_P2),  # whatever the rule
        problem_P=pair.problem_P,
    )
    return tested_jointly([tested])[0]


def tested_jointly(every: Sequence[Evidence]) -> list[Evidence]:
    """The evidence of several runs against one base, with lists and p-values corrected over all of them.

    Args:
        every: the evidence of each run after the first; one alone is corrected over its problems only.

    Returns:
        The same with `lost`, `gained`, `fallen`, `risen` at 5% false discoveries over all problems of all runs, and
        with adjusted p-values that control the chance of any false alarm among the runs (Holm).
    """
    per_run = list(every)
    tests = {r: tested.tests for r, tested in enumerate(per_run) if tested.tests is not None}
    if not tests:
        return _with_adjusted_p(per_run)
    lost_level, gained_level = (
        list_level(np.concatenate([getattr(test, kind) for test in tests.values()])) for kind in ("lost_P", "gained_P")
    )
    ends = np.cumsum([len(test.lost_P) for test in tests.values()])[:-1]
    adjusted = {
        kind: np.split(benjamini_hochberg(np.concatenate([getattr(test, kind) for test in tests.values()])), ends)
        for kind in ("lost_P", "gained_P")
    }
    for number, (r, rows) in enumerate(zip(tests, joint_lists(list(tests.values())), strict=True)):
        tested, listed_from = per_run[r], per_run[r].listed_from
        assert tested.problem_P is not None, "tests come with their problems"
        if listed_from is not None:
            before, after = listed_from.samples
            listed_from = replace(
                listed_from,
                lost=smallest_significant_count(before, after, lost_level),
                gained=smallest_significant_count(after, before, gained_level),
            )
        per_run[r] = replace(
            tested,
            lost=_problem_ids(tested.problem_P, rows.lost),
            gained=_problem_ids(tested.problem_P, rows.gained),
            fallen=_problem_ids(tested.problem_P, rows.fallen),
            risen=_problem_ids(tested.problem_P, rows.risen),
            listed_from=listed_from,
            q_lost_P=adjusted["lost_P"][number],
            q_gained_P=adjusted["gained_P"][number],
        )
    return _with_adjusted_p(per_run)


def _with_adjusted_p(every: list[Evidence]) -> list[Evidence]:
    """The same with p-values of the exchange null and of McNemar's test adjusted over the runs."""
    per_run = list(every)
    for cell in ("E", "S"):
        p_R = {r: getattr(tested.null, f"p_{cell}") for r, tested in enumerate(per_run) if tested.null is not None}
        for r, p in zip(p_R, holm(list(p_R.values())).tolist() if p_R else (), strict=True):
            per_run[r] = replace(per_run[r], adjusted_p=per_run[r].adjusted_p | {cell: p})
    nets = {r: tested.net for r, tested in enumerate(per_run) if tested.net is not None}
    for (r, net), p in zip(nets.items(), holm([net.p for net in nets.values()]).tolist() if nets else (), strict=True):
        per_run[r] = replace(per_run[r], net=replace(net, adjusted_p=p))
    return per_run


def _thresholds(rule: Rule, drawn_P2: Integer, k: int, tau: float, zeta: float) -> tuple[Integer, Integer, str | None]:
    """How many successes put each problem in, how few leave it out, and why a rule has no such numbers.

    Every rule but `posterior` depends on the count of the problem alone, so it is a pair of thresholds on it.
    """
    least_P2, most_P2 = np.ones_like(drawn_P2), np.zeros_like(drawn_P2)
    if rule is Rule.SEEN:
        return least_P2, most_P2, None
    if rule is Rule.POSTERIOR:
        return least_P2, most_P2, "the posterior rule pools all problems, so it has no exchange null"
    decided = False
    for n in np.unique(drawn_P2).tolist():
        every = np.arange(n + 1)
        state = states(np.full_like(every, n), every, rule, k, tau, zeta)
        inside, outside = np.flatnonzero(state == IN), np.flatnonzero(state == OUT)
        decided |= bool(inside.size and outside.size)
        least_P2[drawn_P2 == n] = inside[0] if inside.size else n + 1
        most_P2[drawn_P2 == n] = outside[-1] if outside.size else -1
    if not decided:
        return least_P2, most_P2, f"with k = {k} no number of successes decides whether a problem is reached"
    return least_P2, most_P2, None


def _gains_and_losses(inside_P2: Flags, outside_P2: Flags) -> tuple[int, int]:
    """E and S; an undetermined problem, neither in nor out, counts as neither."""
    E = int((outside_P2[:, BEFORE] & inside_P2[:, AFTER]).sum())
    return E, int((inside_P2[:, BEFORE] & outside_P2[:, AFTER]).sum())


def _net(pair: Tally, rule: Rule, k: int, tau: float, zeta: float) -> tuple[Net | None, str | None]:
    """McNemar's test, or why there is none.

    It needs equal numbers of samples: all of them, else the first k in index order. A random subset of bare counts
    would make it depend on a seed.
    """
    if rule is Rule.POSTERIOR:
        return None, "the posterior rule pools all problems"
    drawn_P2, correct_P2, basis = pair.drawn_PR, pair.correct_PR, _basis(pair, k)
    if (drawn_P2[:, BEFORE] != drawn_P2[:, AFTER]).any():
        if not pair.ordered_R.all():
            return None, "the runs have different numbers of samples in unknown order; see pass@k, which is at equal k"
        drawn_P2, correct_P2, basis = np.full_like(drawn_P2, k), pair.head_PR, f"the first {k:,} samples per problem"
    state_P2 = states(drawn_P2, correct_P2, rule, k, tau, zeta)
    E, S = _gains_and_losses(state_P2 == IN, state_P2 == OUT)
    p = mcnemar(E, S)
    return Net(E, S, p, p, basis), None


def _evidence_of_stopped_runs(
    pair: Tally, change: SupportChange, retest_result: Retest | None, no_retest: str | None, runs: int
) -> Evidence:
    """The evidence of runs that stopped at their m-th success: the table, McNemar and the lists, not the exchange null.

    Such a record has a random number of samples and, if it stopped, a fixed number of successes: exchanging successes
    between two of them has no meaning. A loss is tested by how early the successes came (`loss_p_stopped`).
    """
    reached_P2 = (pair.first_PR >= 0) & (pair.first_PR < change.k)
    E, S = _gains_and_losses(reached_P2, ~reached_P2)
    empty = _without_tests("runs that stop at their m-th success are not exchangeable", retest_result, no_retest, runs)
    basis, p = f"samples up to success {int(pair.until_R.max())} of each problem", mcnemar(E, S)
    known = vars(empty) | {
        "E": E,
        "S": S,
        "basis": basis,
        "net": Net(E, S, p, p, basis),
        "net_reason": None,
        "false_positive_rate_that_explains": _tipping_rates(change),
        # a record that stopped reached its problem: at k, the classes are those of the whole budget
        "gain_power": gain_power(
            np.full_like(pair.drawn_PR, change.k), reached_P2, len(pair) * runs, joint_confidence(runs), counted=False
        ),
    }
    # with a smaller k the records hold successes beyond it, and the test is about the whole record
    if (pair.budget_R == change.k).all():
        lost_p, gained_p = (loss_p_of_stopped(pair, side, other) for side, other in ((BEFORE, AFTER), (AFTER, BEFORE)))
        alpha = 1 - joint_confidence(2 * runs)
        known |= {
            "losses_at_least": holm_rejections(lost_p, alpha),
            "gains_at_least": holm_rejections(gained_p, alpha),
            "tests": ProblemTests(lost_p, gained_p, np.ones_like(lost_p), np.ones_like(lost_p)),
            "problem_P": pair.problem_P,
            "strength": strength(pair.correct_PR),
        }
    else:
        known["bound_reason"] = f"runs that stopped early include successes beyond k = {change.k}"
    return tested_jointly([Evidence(**known)])[0]


def loss_p_of_stopped(pair: Tally, side: int, other: int) -> Float:
    """p of each loss (or gain) of runs that may have stopped early: how soon successes came, against none."""
    stopped_P, until, budget = pair.stopped_PR[:, side], int(pair.until_R[side]), int(pair.budget_R[other])
    return loss_p_stopped(pair.drawn_PR[:, side], until, budget, pair.correct_PR[:, [side, other]], stopped_P)


def _without_tests(reason: str, retest_result: Retest | None, no_retest: str | None, runs: int) -> Evidence:
    """Evidence that consists of the retest only, with the reason why nothing was tested."""
    return Evidence(
        E=None,
        S=None,
        basis="none",
        null=None,
        null_reason=reason,
        at_k=None,
        adjusted_p={},
        net=None,
        net_reason=reason,
        losses_at_least=None,
        gains_at_least=None,
        runs_tested=runs,
        lost=(),
        gained=(),
        fallen=(),
        risen=(),
        listed_from=None,
        strength={},
        retest=retest_result,
        retest_reason=no_retest,
        confirmation={},
        false_positive_rate_that_explains={},
        successes_needed=None,
        gain_power=None,
    )


def _tipping_rates(change: SupportChange) -> dict[str, float]:
    """False-positive rates that would explain E, S, and both of them."""
    return {
        "E": tipping_rate(change.E, change.O, change.k),
        "S": tipping_rate(change.S, change.O, change.k),
        "both": shared_tipping_rate(change.E, change.S, change.O, change.k),
    }


def _problem_ids(problem_P: Text, rows: Integer) -> tuple[str, ...]:
    """The ids of some rows as plain strings, for JSON and the terminal."""
    return tuple(str(name) for name in problem_P[rows])


def _most_common_samples(drawn_P2: Integer) -> ListedFrom:
    """The numbers of samples, before and after, that most problems have; lists are then made by `tested_jointly`."""
    pairs, counts = np.unique(drawn_P2, axis=0, return_counts=True)
    before, after = pairs[counts.argmax()].tolist()
    return ListedFrom(None, None, (before, after))


def _basis(pair: Tally, k: int) -> str:
    """Which samples the tests use, as the terminal and the JSON say it: both n where they are not k."""
    if (pair.drawn_PR == k).all():
        return ALL_SAMPLES
    return f"{ALL_SAMPLES} (n = {samples_text(pair, BEFORE)} before, {samples_text(pair, AFTER)} after)"


def samples_text(pair: Tally, r: int) -> str:
    """Samples per problem of a run: one number, or the fewest and the most."""
    least, most = int(pair.drawn_PR[:, r].min()), int(pair.drawn_PR[:, r].max())
    return f"{least:,}" if least == most else f"{least:,} to {most:,}"
