"""The headline of a comparison: one finding of six, and one sentence with the numbers behind it.

The rules, in this order, at 95% confidence; reach is the number of problems that k samples solve, in expectation:

| finding | when |
|---|---|
| `moved` | losses are significant, and so is a gain beyond sharpening |
| `grew` | a gain beyond sharpening is significant: H0 p_rl <= m p_base is rejected for a gained problem (Holm) |
| `shrank` | losses are significant, and reach fell significantly (stats/reach.py) |
| `sharpened` | pass@1 rose significantly, and none of the above |
| `too_few_samples` | nothing is significant, and losing every tenth problem would not have been either |
| `no_change` | none of the above |

m is the upper end of the equivalent budget at k = 1: how many base samples one RL sample is worth, at most. The
headline is always per problem and by the rule `seen`, whatever the comparison counts.
"""

from dataclasses import dataclass
from enum import StrEnum
from math import ceil

import numpy as np

from offleash.comparing.compare import Comparison
from offleash.comparing.evidence import GREEDY, evidence
from offleash.data.tally import Per, Tally
from offleash.render.numbers import counted, short_name
from offleash.stats.change import SupportChange, cells_at, change_at
from offleash.stats.reach import ReachChange, gains_beyond_sharpening, reach_change
from offleash.stats.significance import losses_at_least
from offleash.stats.support_classes import AFTER, BEFORE, Rule

ALPHA = 0.025  # of the gains; the upper end of m has the other half of 5%
EVERY = 10  # a study that could not have shown the loss of every tenth problem has too few samples


class Finding(StrEnum):
    """What a comparison found, in one word."""

    SHRANK = "shrank"
    GREW = "grew"
    MOVED = "moved"
    SHARPENED = "sharpened"
    NO_CHANGE = "no_change"
    TOO_FEW_SAMPLES = "too_few_samples"


@dataclass(frozen=True)
class Headline:
    """The result of a comparison in one sentence; `str` gives its text."""

    finding: Finding
    text: str

    def __str__(self) -> str:
        return self.text


def headline(comparison: Comparison) -> Headline:
    """The headline of a comparison; computed once."""
    return comparison.once("headline", _headline)


@dataclass(frozen=True)
class _Facts:
    """What the rules look at and the sentence is made of."""

    change: SupportChange  # per problem, by the rule seen
    losses: int | None  # at least; None where no test is possible
    expected_losses: float | None
    beyond: int  # gains beyond sharpening
    reach: ReachChange
    first_before: float  # pass@1
    first_after: float
    first_rose: bool
    first_fell: bool
    most: float  # the upper end of m


def _headline(comparison: Comparison) -> Headline:
    facts = _facts(comparison)
    finding = _finding(comparison, facts)
    return Headline(finding, _text(comparison, facts, finding))


def _facts(comparison: Comparison) -> _Facts:
    question, pair = comparison.question, comparison.counted.tally
    k = comparison.change.k
    change, tested = comparison.change, comparison.evidence
    if comparison.tally.per is not Per.PROBLEM or change.rule is not Rule.SEEN:
        cells = cells_at(pair, Rule.SEEN, k)
        change = change_at(cells.sums(question.replicates, question.seed), 0, pair)
        tested = evidence(
            pair, change, replicates=1, seed=question.seed, greedy=comparison.evidence.null_reason == GREEDY
        )
    worth = comparison.equivalent[0]
    difference = comparison.curves["difference"]
    rate_R = np.where(pair.stopped_PR, _first_try(pair), pair.correct_PR / np.maximum(pair.drawn_PR, 1)).mean(axis=0)
    return _Facts(
        change,
        tested.losses_at_least,
        None if tested.null is None else tested.null.expected_S,
        gains_beyond_sharpening(pair, worth.high, ALPHA),
        reach_change(pair, k),
        float(rate_R[BEFORE]),
        float(rate_R[AFTER]),
        bool(difference.low_K[0] > 0),
        bool(difference.high_K[0] < 0),
        worth.high,
    )


def _first_try(pair: Tally) -> np.ndarray:
    """Rates of records that stopped at success m of N: (m-1)/(N-1), as m/N is biased (Haldane 1945)."""
    return np.asarray((pair.correct_PR - 1) / np.maximum(pair.drawn_PR - 1, 1))


def _finding(comparison: Comparison, facts: _Facts) -> Finding:
    if comparison.evidence.null_reason == GREEDY:
        return Finding.TOO_FEW_SAMPLES
    lost = bool(facts.losses)
    if facts.beyond:
        return Finding.MOVED if lost else Finding.GREW
    if lost and facts.reach.fell:
        return Finding.SHRANK
    if facts.first_rose:
        return Finding.SHARPENED
    if not lost and not facts.reach.rose and _underpowered(comparison.counted.tally):
        return Finding.TOO_FEW_SAMPLES
    return Finding.NO_CHANGE


def _underpowered(pair: Tally) -> bool:
    """Whether the loss of every tenth problem that the run before reached would not have been significant.

    The problems are taken from the middle of each tenth by successes, the others as they are.
    """
    if (pair.until_R > 0).any():
        return False  # their records are long enough to have stopped
    reached = np.flatnonzero(pair.correct_PR[:, BEFORE] > 0)
    if not reached.size:
        return True
    reached = reached[np.argsort(pair.correct_PR[reached, BEFORE], kind="stable")]
    lost = reached[EVERY // 2 :: EVERY] if reached.size > EVERY // 2 else reached[reached.size // 2 :][:1]
    correct_P2 = pair.correct_PR.copy()
    correct_P2[lost, AFTER] = 0
    return losses_at_least(pair.drawn_PR, correct_P2) == 0


def _text(comparison: Comparison, facts: _Facts, finding: Finding) -> str:
    """The sentence: losses, gains, first try; then where the curves cross, or what is missing."""
    change, k = facts.change, facts.change.k
    base, rl = short_name(comparison.before.name, 40), short_name(comparison.after.name, 40)
    within = f"Within {counted(k, 'sample')}"
    if finding is Finding.TOO_FEW_SAMPLES:
        if comparison.evidence.null_reason == GREEDY:
            why = "one greedy answer per problem does not show what lies within reach of sampling"
        else:
            why = (
                f"{rl} could have lost every tenth problem that {base} reaches without a significant loss: too few "
                f"samples to tell"
            )
        return f"{within} {_counts(facts, base, rl)}; {why}. {_first(facts)}."
    sentences = [f"{within} {_counts(facts, base, rl)}; {_first(facts, start=False)}."]
    if finding is Finding.SHARPENED and facts.reach.rose:
        n, before, after = change.problems, facts.reach.before, facts.reach.after
        m = comparison.equivalent[0].k
        worth = "" if m is None else f", as {m:.3g} samples for one would do"
        sentences.append(f"pass@{k:,} rose from {before / n:.1%} to {after / n:.1%}{worth}.")
    if finding is Finding.NO_CHANGE and not facts.losses:
        sentences.append("Neither loss nor gain is significant.")
    cross = comparison.crossing
    if cross.resolved and cross.k is not None:
        sentences.append(f"From {counted(ceil(cross.k), 'sample')} on {base} is ahead.")
    elif finding in (Finding.SHARPENED, Finding.NO_CHANGE) and facts.losses:
        sentences.append(f"Whether {rl} reaches fewer problems in all is not resolved.")
    return " ".join(sentences)


def _counts(facts: _Facts, base: str, rl: str) -> str:
    """Losses with what is significant and what resampling gives, and gains with what was left to gain."""
    change = facts.change
    reached, left = change.P + change.S, change.E + change.O
    if reached < 0.05:
        lost = f"{base} reaches no problem"
    elif change.S < 0.05:
        lost = f"{rl} reaches all {counted(reached, 'problem')} that {base} reaches"
    else:
        lost = f"{rl} no longer reaches {_number(change.S)} of the {counted(reached, 'problem')} that {base} reaches"
        behind = []
        if facts.losses is not None:
            fell = f"the rate fell on at least {facts.losses} of them, 95%"
            behind.append(fell if facts.losses else "not significant")
        if facts.expected_losses is not None:
            behind.append(f"resampling alone: about {_number(facts.expected_losses)}")
        lost += f" ({'; '.join(behind)})" if behind else ""
    if left < 0.05:
        gained = "there was nothing left to gain"
    elif change.E < 0.05:
        gained = f"gained none of the {_number(left)} left to gain"
    else:
        gained = f"gained {_number(change.E)} of the {_number(left)} left to gain"
        if facts.beyond:
            gained += f" (at least {facts.beyond} by more than sharpening explains)"
        elif np.isfinite(facts.most):
            gained += " (no more than sharpening explains)"
    return f"{lost}{', and ' if left < 0.05 or reached < 0.05 else ' and '}{gained}"


def _first(facts: _Facts, start: bool = True) -> str:
    """pass@1 before and after, and whether the difference is significant."""
    moved = facts.first_rose or facts.first_fell
    values = f"pass@1 {_share(facts.first_before)} -> {_share(facts.first_after)}"
    return values if moved or start else f"{values} (not significant)"


def _share(value: float) -> str:
    """A share in percent, with as many digits as tell small ones from none."""
    return f"{value:.0%}" if value >= 0.1 or value == 0 else f"{value:.1%}" if value >= 0.001 else f"{value:.2g}"


def _number(value: float) -> str:
    """A number of problems: whole, or with one decimal where it is an expectation over thinned samples."""
    if abs(value - round(value)) < 1e-9:
        return f"{round(value):,}"
    return f"{value:,.1f}" if value >= 0.1 else "fewer than 0.1"
