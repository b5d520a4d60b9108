"""The headline of a comparison: one finding of six, and the numbers behind it in a few words.

The rules, in this order, at 95% confidence; reach is the number of problems that k samples solve, in expectation:

| finding | when |
|---|---|
| `moved` | losses are significant, and so is a gain beyond sharpening |
| `grew` | a gain beyond sharpening is significant: H0 p_rl <= m p_base is rejected for a gained problem (Holm) |
| `shrank` | losses are significant, and reach fell significantly (stats/reach.py) |
| `sharpened` | pass@1 rose significantly, and none of the above |
| `too_few_samples` | no loss is significant, nor would the loss of one in ten problems have been; pass@1 did not rise |
| `no_change` | none of the above: reach is not shown to have changed |

m is the upper end of the equivalent budget at k = 1: how many base samples one RL sample is worth, at most. The
headline is always per problem and by the rule `seen`, whatever the comparison counts. With several runs after the first
each of these tests is at a level that they share: the findings of all of them hold together with 95% confidence.
"""

from dataclasses import dataclass
from enum import StrEnum
from math import ceil
from typing import NamedTuple

import numpy as np

from offleash.comparing.compare import Comparison
from offleash.comparing.evidence import ALL_SAMPLES, GREEDY, evidence
from offleash.data.tally import Per, Tally
from offleash.render.numbers import counted, short_name, whole
from offleash.stats.change import SupportChange, cells_at, change_at, common_budget
from offleash.stats.curves import Crossing, EquivalentBudget, crossing, curve, dense_budgets, equivalent_budget
from offleash.stats.reach import ReachChange, gains_beyond_sharpening, reach_change
from offleash.stats.significance import joint_confidence, losses_at_least
from offleash.stats.support_classes import AFTER, BEFORE, Rule, thinned_cells

ALPHA = 0.025  # for gains; the other 2.5% goes to the upper end of m
MIN_SHOWN = 0.1  # a smaller number of problems would be printed as 0.0
EVERY = 10  # a study that could not have shown the loss of every tenth problem has too few samples


class Finding(StrEnum):
    """What a comparison found, in one word."""

    SHRANK = "shrank"
    GREW = "grew"
    MOVED = "moved"
    SHARPENED = "sharpened"
    NO_CHANGE = "no_change"
    TOO_FEW_SAMPLES = "too_few_samples"

    @property
    def words(self) -> str:
        """As it stands in a table."""
        return self.value.replace("_", " ")


@dataclass(frozen=True)
class Headline:
    """The result of a comparison in a few words; `str` gives its text."""

    finding: Finding
    text: str

    def __str__(self) -> str:
        return self.text


def headline(comparison: Comparison) -> Headline:
    """The headline of a comparison; computed once."""
    return comparison.compute_once("headline", _headline)


class FirstTry(NamedTuple):
    """pass@1 of both runs, and whether it changed significantly."""

    before: float
    after: float
    rose: bool
    fell: bool


@dataclass(frozen=True)
class _Facts:
    """What the rules look at and the sentence is made of."""

    change: SupportChange  # per problem, by the rule seen
    losses: int | None  # at least; None where no test is possible
    lost_in_all: int | None  # losses among all samples, which are tested; None where they are those of the table
    expected_losses: float | None  # of an unchanged model, at k as the table
    beyond: int  # gains beyond sharpening
    reach: ReachChange
    first: FirstTry
    worth: EquivalentBudget  # base samples that one RL sample is worth
    worth_at_most: float  # m: its upper end
    crossing: Crossing


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
            pair,
            change,
            replicates=1,
            seed=question.seed,
            greedy=comparison.evidence.null_reason == GREEDY,
            runs=comparison.evidence.runs_tested,
        )
    worth, cross = comparison.equivalent[0], comparison.crossing
    worth_at_most, first_try = comparison.worth_at_most, comparison.first_try
    before, after = (comparison.curves[name] for name in ("before", "after"))
    confidence = joint_confidence(tested.runs_tested)
    if comparison.tally.per is not Per.PROBLEM:  # its curves are of answers or solutions
        sums = thinned_cells(pair, dense_budgets(common_budget(pair))).sums(question.replicates, question.seed)
        worth, cross = equivalent_budget(sums, pair=pair), crossing(sums, pair)
        worth_at_most = equivalent_budget(sums, level=confidence, pair=pair).high
        before, after = (curve(sums, name, sums.k_K[:1]) for name in ("before", "after"))
        first_try = sums.intervals("difference", sums.index_of(1), confidence)[0]
    return _Facts(
        change,
        tested.losses_at_least,
        None if tested.basis == ALL_SAMPLES or tested.null is None else tested.S,
        None if tested.at_k is None else tested.at_k.changed,
        gains_beyond_sharpening(pair, worth_at_most, ALPHA / tested.runs_tested),
        reach_change(pair, k, confidence),
        FirstTry(
            float(before.value_K[0]),
            float(after.value_K[0]),
            first_try.low > 0,
            first_try.high < 0,
        ),
        worth,
        worth_at_most,
        cross,
    )


def _finding(comparison: Comparison, facts: _Facts) -> Finding:
    if comparison.evidence.null_reason == GREEDY:
        return Finding.TOO_FEW_SAMPLES
    lost = bool(facts.losses)
    if facts.beyond:
        return Finding.MOVED if lost else Finding.GREW
    if lost and facts.reach.fell:
        return Finding.SHRANK
    if facts.first.rose:
        return Finding.SHARPENED
    if not lost and not facts.reach.rose and _underpowered(comparison.counted.tally, comparison.evidence.runs_tested):
        return Finding.TOO_FEW_SAMPLES
    return Finding.NO_CHANGE


def _underpowered(pair: Tally, runs: int) -> bool:
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
    return losses_at_least(pair.drawn_PR, correct_P2, joint_confidence(2 * runs)) == 0


def _text(comparison: Comparison, facts: _Facts, finding: Finding) -> str:
    """The sentence: losses, gains, first try; then where the curves cross, or what is missing."""
    change, k = facts.change, facts.change.k
    base, rl = short_name(comparison.before.name, 40), short_name(comparison.after.name, 40)
    within = f"Within {counted(k, 'sample')}"
    if finding is Finding.TOO_FEW_SAMPLES:
        if comparison.evidence.null_reason == GREEDY:
            why = "one greedy answer per problem does not show what lies within reach of sampling"
        elif change.P + change.S < MIN_SHOWN:
            why = "there are too few samples to say more"
        else:
            lost = f"losing one in ten of the problems that {base} reaches would not have been significant"
            why = f"there are too few samples: {lost}"
        return f"{within} {_counts(facts, base, rl)}; {why}. {_first(facts)}."
    sentences = [f"{within} {_counts(facts, base, rl)}; {_first(facts, start=False)}."]
    if finding is Finding.SHARPENED and facts.reach.rose:
        n, before, after = change.problems, facts.reach.before, facts.reach.after
        m = facts.worth.k
        worth_text = (
            "" if m is None else f"; at k = 1 one {rl} sample is worth {m:.3g} of {base}, so this may be sharpening"
        )
        sentences.append(f"pass@{k:,} rose from {before / n:.1%} to {after / n:.1%}{worth_text}.")
    if change.E >= MIN_SHOWN and not np.isfinite(facts.worth_at_most):
        more = f"One {rl} sample may be worth more than {counted(facts.worth.most, 'sample')} of {base}"
        sentences.append(f"{more}, so sharpening and expansion cannot be told apart.")
    if finding is Finding.NO_CHANGE and not facts.losses:
        sentences.append("No loss is significant, nor any gain beyond sharpening.")
    cross = facts.crossing
    if cross.is_resolved and cross.k is not None:
        sentences.append(f"Beyond {counted(ceil(cross.k), 'sample')} {base} has the higher pass@k.")
    elif finding in (Finding.SHARPENED, Finding.NO_CHANGE) and facts.losses:
        sentences.append(f"Whether {rl} reaches fewer problems overall is unresolved.")
    return " ".join(sentences)


def _counts(facts: _Facts, base: str, rl: str) -> str:
    """Losses with what is significant and what resampling gives, and gains with what was left to gain."""
    change = facts.change
    reached, left = change.P + change.S, change.E + change.O
    alone = reached == 1
    reached_text = f"the {'one problem' if alone else counted(reached, 'problem')} that {base} reaches"
    if reached < MIN_SHOWN:
        lost = f"{base} reaches {'fewer than 0.1' if reached else 'none'} of the {counted(change.problems, 'problem')}"
    elif change.S == 0:
        lost = f"{rl} reaches {reached_text if alone else reached_text.replace('the', 'all', 1)}"
    elif change.S < MIN_SHOWN:
        lost = f"{rl} reaches all but fewer than {MIN_SHOWN:g} of {reached_text}"
    else:
        number = "" if alone and change.S == 1 else f"{whole(change.S)} of "
        lost = f"{rl} no longer reaches {number}{reached_text}{_significance(facts)}"
    if left < MIN_SHOWN:
        gained = "there was nothing left to gain" if not change.E else f"gained fewer than {MIN_SHOWN:g}"
    else:
        gained_text = (
            "none" if not change.E else f"fewer than {MIN_SHOWN:g}" if change.E < MIN_SHOWN else whole(change.E)
        )
        gained = f"gained {gained_text} of the {whole(left)} that {base} does not reach"
    if facts.beyond:
        gained += f" (at least {facts.beyond} by more than sharpening explains)"
    elif change.E and np.isfinite(facts.worth_at_most):
        gained += " (not significantly more than sharpening explains)"
    # one subject for both verbs, unless a clause in between has another
    joined = f" and {gained}" if reached >= MIN_SHOWN and gained.startswith("gained") else f", and {gained}"
    return lost + (joined if reached >= MIN_SHOWN else joined.replace("gained", f"{rl} gained", 1))


def _significance(facts: _Facts) -> str:
    """What is significant of the losses, and what resampling an unchanged model would lose, in parentheses."""
    behind = []
    if facts.losses:
        all_samples = facts.lost_in_all is not None
        losses_text = "it" if facts.change.S == 1 and not all_samples else f"at least {facts.losses} of them"
        if all_samples:
            losses_text = f"at least {facts.losses} of the {facts.lost_in_all} lost in all samples"
        behind.append(f"the rate fell on {losses_text}, with 95% confidence")
    elif facts.losses is not None:
        behind.append("not significant")
    if facts.expected_losses is not None:
        small = facts.expected_losses < MIN_SHOWN
        expected_text = f"fewer than {MIN_SHOWN:g}" if small else f"about {facts.expected_losses:.1f}"
        behind.append(f"resampling an unchanged model would lose {expected_text}")
    return f" ({'; '.join(behind)})" if behind else ""


def _first(facts: _Facts, start: bool = True) -> str:
    """pass@1 before and after, and whether the difference is significant."""
    moved = facts.first.rose or facts.first.fell
    values = f"pass@1 {_share(facts.first.before)} -> {_share(facts.first.after)}"
    return values if moved or start else f"{values} (not significant)"


def _share(value: float) -> str:
    """A share in percent, with as many digits as tell small ones from none."""
    return f"{value:.0%}" if value >= 0.1 or value == 0 else f"{value:.1%}" if value >= 0.001 else f"{value:.2g}"
