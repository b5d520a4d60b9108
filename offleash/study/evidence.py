"""Evidence for the losses and gains of two runs: what chance would give, what is certain, and how it could mislead."""

from dataclasses import dataclass

import numpy as np

from offleash.support.cells import AFTER, BEFORE
from offleash.support.chance import ExchangeNull, Retest, exchange_null, mcnemar, retest
from offleash.support.change import SupportChange
from offleash.support.counting import Integer
from offleash.support.losses import (
    Strength,
    certain,
    found,
    gains_at_least,
    lists,
    loss_p_stopped,
    losses_at_least,
    strength,
)
from offleash.support.resampling import REPLICATES
from offleash.support.rules import OUT, Rule, above, confident, epsilon
from offleash.support.sensitivity import Confirmation, confirmation, smallest_certain_loss, tipping_rate
from offleash.tables.tally import Per, Tally


@dataclass(frozen=True)
class Evidence:
    """Tests on whole numbers: the first k samples of every problem. None where a number cannot be known."""

    E: int | None
    S: int | None
    basis: str
    null: ExchangeNull | None
    null_reason: str | None
    mcnemar_p: float | None
    losses_at_least: int | None
    gains_at_least: int | None
    lost: tuple[str, ...]
    gained: tuple[str, ...]
    fallen: tuple[str, ...]
    risen: tuple[str, ...]
    strength: dict[str, Strength]
    retest: Retest | None
    retest_reason: str | None
    confirmation: dict[str, Confirmation]
    tipping: dict[str, float]
    smallest_certain_loss: int | None


def evidence(
    pair: Tally, change: SupportChange, tau: float = 0.0, replicates: int = REPLICATES, seed: int = 0
) -> Evidence:
    """All that speaks for or against the change of a tally of two runs."""
    k, retested, why_not = change.k, None, None
    half = int(np.where(pair.stopped_PR, pair.budget_R, pair.drawn_PR)[:, BEFORE].min() // 2)
    if half >= 1:
        retested = retest(pair, min(half, k), replicates, seed)
    else:
        why_not = f"{pair.runs[BEFORE]!r} has one sample a problem; a redraw needs two"
    if pair.per is not Per.PROBLEM:
        dependent = f"per {pair.per.value} the targets of a problem depend on each other; compare with the redraw value"
        return _without_tests(dependent, retested, why_not)
    if (pair.until_R > 0).any():
        return _stopped(pair, change, retested, why_not)
    drawn_P2, correct_P2 = np.full_like(pair.drawn_PR, k), pair.head_PR
    reached_P2 = correct_P2 > 0
    E, S = int((~reached_P2[:, 0] & reached_P2[:, 1]).sum()), int((reached_P2[:, 0] & ~reached_P2[:, 1]).sum())
    null, reason = _null(change.rule, drawn_P2, correct_P2, k, tau)
    named = {name: _named(pair, rows) for name, rows in vars(lists(drawn_P2, correct_P2)).items()}
    return Evidence(
        E=E,
        S=S,
        basis=_basis(pair, k),
        null=null,
        null_reason=reason,
        mcnemar_p=mcnemar(E, S),
        losses_at_least=losses_at_least(drawn_P2, correct_P2),
        gains_at_least=gains_at_least(drawn_P2, correct_P2),
        **named,
        strength=strength(correct_P2),
        retest=retested,
        retest_reason=why_not,
        confirmation=confirmation(drawn_P2, correct_P2),
        tipping={"E": tipping_rate(change.E, change.O, k), "S": tipping_rate(change.S, change.O, k)},
        smallest_certain_loss=smallest_certain_loss(k, len(pair)),
    )


def _null(
    rule: Rule, drawn_P2: Integer, correct_P2: Integer, k: int, tau: float
) -> tuple[ExchangeNull | None, str | None]:
    """The exchange null under the rule in force: how many successes make a problem in, and how few out."""
    every = np.arange(k + 1)
    if rule is Rule.SEEN:
        return exchange_null(drawn_P2, correct_P2), None
    if rule is Rule.POSTERIOR:
        return None, "the posterior rule borrows from all problems, so it has no exchange null"
    state = above(k, every, tau) if rule is Rule.ABOVE else confident(k, every, float(epsilon(k)))
    inside, outside = np.flatnonzero(state == 1), np.flatnonzero(state == OUT)
    if not inside.size or not outside.size:
        return None, f"with k={k} no number of successes is both possible and decisive"
    return exchange_null(drawn_P2, correct_P2, int(inside[0]), int(outside[-1])), None


def _stopped(pair: Tally, change: SupportChange, retested: Retest | None, why_not: str | None) -> Evidence:
    """A run that stopped at its m-th success serves the table, McNemar and the lists, not the exchange null."""
    correct_P2 = pair.correct_PR
    p = []
    for side in (BEFORE, AFTER):
        other = AFTER if side == BEFORE else BEFORE
        order = [side, other]
        stopped_P, until, budget = pair.stopped_PR[:, side], int(pair.until_R[side]), int(pair.budget_R[other])
        p.append(loss_p_stopped(pair.drawn_PR[:, side], until, budget, correct_P2[:, order], stopped_P))
    reached_P2 = correct_P2 > 0
    E, S = int((~reached_P2[:, 0] & reached_P2[:, 1]).sum()), int((reached_P2[:, 0] & ~reached_P2[:, 1]).sum())
    empty = _without_tests("a run that stopped at its m-th success is not exchangeable with another", retested, why_not)
    known = vars(empty) | {
        "E": E,
        "S": S,
        "basis": f"records that end at success {int(pair.until_R.max())}",
        "mcnemar_p": mcnemar(E, S),
        "losses_at_least": certain(p[0]),
        "gains_at_least": certain(p[1]),
        "lost": _named(pair, found(p[0])),
        "gained": _named(pair, found(p[1])),
        "strength": strength(correct_P2),
        "tipping": {"E": tipping_rate(change.E, change.O, change.k), "S": tipping_rate(change.S, change.O, change.k)},
    }
    return Evidence(**known)


def _without_tests(reason: str, retested: Retest | None, why_not: str | None) -> Evidence:
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
        retest=retested,
        retest_reason=why_not,
        confirmation={},
        tipping={},
        smallest_certain_loss=None,
    )


def _named(pair: Tally, rows: Integer) -> tuple[str, ...]:
    return tuple(str(name) for name in pair.problem_P[rows])


def _basis(pair: Tally, k: int) -> str:
    if (pair.drawn_PR == k).all():
        return "all samples"
    return (
        f"the first {k} samples of each problem" if pair.ordered_R.all() else f"{k} samples of each problem at random"
    )
