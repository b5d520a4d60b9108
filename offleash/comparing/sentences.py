"""Every sentence that claims something about a comparison, but for the headline (comparing/headline.py).

Terminal, page, Markdown, JSON and captions take their claims from here, so that each is written once. tests/comparing/
test_claims.py lists all of them, each with a known world in which it is true. What only describes (axis titles, how to
read a figure, why a number is missing) is beside what it describes.
"""

from dataclasses import dataclass

import numpy as np

from offleash.comparing.captions import names
from offleash.comparing.checkpoints import SeveralRuns
from offleash.comparing.compare import Comparison
from offleash.comparing.evidence import ALL_SAMPLES, GREEDY, Evidence, samples_text
from offleash.comparing.headline import headline
from offleash.comparing.question import RunsAre
from offleash.data.tally import Per
from offleash.render.numbers import counted, share
from offleash.stats.change import SupportChange
from offleash.stats.intervals import MIN_EFFECTIVE_PROBLEMS, Interval
from offleash.stats.portfolio import Portfolio
from offleash.stats.support_classes import Rule


def redraw_rates(change: SupportChange) -> dict[str, float]:
    """The rates that an unchanged model drawn twice would show; empty where nothing is random."""
    values = {} if change.redraw is None else change.redraw.value
    return {name: value for name, value in values.items() if np.isfinite(value)}


SMALL_K = 32  # below it a rate of 0.1 is missed once in 30 problems, so "not reached" says little
MANY_SAMPLES = 100  # of a run of bare counts, from which on equal counts are no coincidence
NOTABLE_SHARE = 0.05  # share of unread, failed or truncated samples from which it is worth a warning
MIN_SHOWN = 0.1  # a smaller number of problems would be printed as 0.0
FEW_LEFT_SHARE = 0.1  # share of problems that were not reached before, below which few could be gained


def finding(comparison: Comparison) -> str:
    """One paragraph: the headline, and what stands beside it."""
    return " ".join(part for part in (headline(comparison).text, details(comparison)) if part)


def details(comparison: Comparison) -> str:
    """Beside the headline: counts of another rule or target, which samples were tested, and what a sample is worth."""
    unseen = no_change_text(comparison) if comparison.evidence.E == 0 else ""  # else below the tables
    parts = (_other_counts(comparison), _tested_text(comparison), unseen, _sample_value(comparison))
    return " ".join(part for part in parts if part)


def no_change_text(comparison: Comparison) -> str:
    """What it is worth that no gain is significant: how many may have stayed unseen; empty where one is significant.

    Part of the finding where no gain was seen at all, else beside the lists.
    """
    power, bound = comparison.evidence.gain_power, comparison.evidence.gains_at_least
    at = None if power is None else power.at_epsilon
    if power is None or at is None or bound:
        return ""
    base, rl = comparison.before.name, comparison.after.name
    unreached_text = (
        f"Of the {power.candidates:,} problems that {base} does not reach"
        if power.candidates > 1
        else (f"Of the one problem that {base} does not reach")
    )
    most = f"at most {at.at_most:,} may have" if at.at_most else "none has"
    text = f"{unreached_text}, {most} a success rate of {at.rate:.2g} or more under {rl} (95% confidence)"
    if power.detectable_rate is None:
        return f"{text}."
    return f"{text}; a single gain would be detected with 80% power at a rate of {power.detectable_rate:.2g} or more."


def bounds_text(evidence: Evidence) -> str:
    """On how many lost and gained problems, at least, the rate changed; empty where there is no bound."""
    if evidence.losses_at_least is None:
        return ""
    if not evidence.losses_at_least and not evidence.gains_at_least:
        return "On none of them is the change of the rate significant (joint 95% confidence)."
    return (
        f"The rate fell on at least {evidence.losses_at_least} of the lost and rose on at least "
        f"{evidence.gains_at_least} of the gained problems (joint 95% confidence)."
    )


def bound_text(cell: str, least: int) -> str:
    """The same of one class, below its count."""
    changed = "fell" if cell == "S" else "rose"
    change_text = f"the rate {changed} on at least {least:,}" if least else f"no rate {changed} significantly"
    return f"{change_text} (E and S jointly 95%)"


def crossing_text(comparison: Comparison) -> str:
    """Where the run before overtakes, or why no crossing is drawn."""
    cross, (before, _) = comparison.crossing, names(comparison)
    if cross.k is None:
        return f"No crossing is drawn: {(cross.reason or '').replace('before', before)}."
    ends = ", ".join(cross.ends())
    if not cross.is_resolved:
        return (
            f"No crossing is drawn: the curves meet near k = {cross.k:.3g}, but the 95% interval [{ends}] extends "
            "beyond the budgets drawn."
        )
    return f"Beyond k = {cross.k:.3g} (95% interval [{ends}], shaded) {before} is ahead."


def redraw_text(comparison: Comparison) -> str:
    """SRR of two draws of the run before, beside that of this pair at the same k; empty where it cannot be known."""
    retest, (before, _) = comparison.evidence.retest, names(comparison)
    if retest is None or not np.isfinite(retest.redraw_SRR):
        return ""
    return (
        f"Two draws of {before} itself would show SRR {share(retest.redraw_SRR)} at k = {retest.k:,} by chance alone; "
        f"this pair has {share(retest.observed_SRR)}."
    )


NOTHING_LISTED = "No single loss or gain is significant (FDR 5%)."


def changed_rates_text(changed: str, number: int, before: str, after: str) -> str:
    """The title of a list of problems whose rate `changed`: fell or rose."""
    return f"The rate {changed} significantly from {before} to {after} on {counted(number, 'problem')} (FDR 5%)."


def class_list_text(
    comparison: Comparison, name: str, number: int, significant: int | None, before: str, after: str
) -> str:
    """The title of a list of problems that were lost or gained; classes are by all samples of each run.

    Args:
        comparison: where the list comes from.
        name: lost or gained.
        number: how many problems are on it.
        significant: how many of them are significant; None where they were not tested.
        before: the name of the run before, as it is printed.
        after: the name of the run after.
    """
    tally, change = comparison.counted.tally, comparison.change
    whole_budget = bool(((tally.drawn_PR == change.k) | tally.stopped_PR).all())
    within = f"within {change.k:,} samples" if whole_budget else "in all of its samples"
    reaching_run, missing_run = (before, after) if name == "lost" else (after, before)
    pronoun = "it" if number == 1 else "them"
    tested = "" if significant is None else f"; {significant:,} significant (FDR 5%)"
    problems = counted(number, "problem")
    where = f"{within} (rule {change.rule})"
    return f"{problems} {name}: {reaching_run} reaches {pronoun} {where} and {missing_run} does not{tested}."


LISTED = 8  # problems of a list that a line of the terminal names


def evidence_lines(comparison: Comparison) -> list[str]:
    """Below the tables: on which lost and gained problems the rate changed, what that rests on, and the best split."""
    evidence, lines = comparison.evidence, []
    for cell, problems in (("S", evidence.lost), ("E", evidence.gained)):
        if problems:
            shown = ", ".join(problems[:LISTED]) + (", ..." if len(problems) > LISTED else "")
            lines.append(f"{_listed_text(evidence, cell, len(problems))}: {shown}")
    if evidence.fallen or evidence.risen:
        lines.append(
            f"Among problems that both runs reach, the rate fell significantly on {len(evidence.fallen)} and rose on "
            f"{len(evidence.risen)}."
        )
    # a loss on a single success is what chance produces, so the counts are split by how many successes they rest on
    for cell, by in evidence.strength.items():
        total, what = by.weak + by.middle + by.strong, "gained" if cell == "E" else "lost"
        if total:
            by_successes = f"{by.weak} with one, {by.middle} with 2-4, {by.strong} with 5 or more"
            lines.append(f"The {counted(total, f'{what} problem')} by number of successes: {by_successes}.")
    unseen = no_change_text(comparison) if evidence.E else ""  # without any gain it stands beside the headline
    lines += [words for words in (listed_from_text(evidence), unseen) if words]
    if (split := portfolio_sentence(comparison)) is not None:
        lines.append(split)
    if comparison.guessing.floor is None and comparison.guessing.reason:
        lines.append(f"Guessing: {comparison.guessing.reason}.")
    return lines


def _listed_text(evidence: Evidence, cell: str, number: int) -> str:
    """On how many of the lost, or gained, problems the rate changed significantly: a claim about rates."""
    changed, what, total = ("fell", "lost", evidence.S) if cell == "S" else ("rose", "gained", evidence.E)
    problems_text = (
        f"{number:,} of the {total:,} {what} problems" if total is not None else f"{number:,} {what} problems"
    )
    problems_text = f"the {what} problem" if total == 1 else problems_text
    note = "; sharpening alone can do this" if cell == "E" else ""
    return f"The rate {changed} significantly on {problems_text} (FDR 5%{note})"


def listed_from_text(evidence: Evidence) -> str:
    """From how many successes on the lists accept a loss: their own procedure, at the level they ended at."""
    listed = evidence.listed_from
    if listed is None:
        return ""
    before, after = listed.samples
    if listed.lost is None:
        return f"No single loss could reach the list with {before:,} samples before and {after:,} after."
    runs_text = f" and {evidence.runs_tested} runs" if evidence.runs_tested > 1 else ""
    return (
        f"The list of losses (FDR 5% over all problems{runs_text}) accepts {listed.lost:,} or more successes in "
        f"{before:,} samples against none in {after:,}."
    )


def runs_are_text(several: SeveralRuns) -> str:
    """What several runs after the first are taken for, and why: one line above their table."""
    what = {
        RunsAre.CHECKPOINTS: "checkpoints of one training run",
        RunsAre.SEEDS: "seeds of one method",
        RunsAre.METHODS: "different methods",
    }[several.value]
    if not several.guessed:
        return f"The runs after the first are {what} (--runs-are {several.value.value})."
    shown = ", ".join(several.marks[:3]) + (", ..." if len(several.marks) > 3 else "")
    why = f"by their names: {shown}" if several.marks else "their names show neither steps nor seeds"
    return f"The runs after the first are treated as {what} ({why}); override with --runs-are."


def single_training_caveat(several: SeveralRuns | None) -> str | None:
    """What one training run per method leaves out; None where several seeds were compared."""
    return None if several is not None and several.value is RunsAre.SEEDS else SINGLE_TRAINING


NOISY_SHARES = (0.07, 0.77)  # of 30 and of 500 problems: tests/stats/test_single_training.py (docs/statistics.md)
SINGLE_TRAINING = (
    "One training run per method: intervals and tests are about these models, not about what another training seed "
    "would give. Where equivalent training runs differ by noise of SD 1 in the logit of each problem's rate, "
    f"{NOISY_SHARES[0]:.0%} to {NOISY_SHARES[1]:.0%} of simulated studies show significant losses, depending on the "
    "numbers of problems and samples and on the rates."
)


@dataclass(frozen=True)
class InputWarning:
    """What was read may not be what the user meant."""

    code: str  # for programs; stays when the text changes (docs/json.md)
    text: str  # a sentence


def input_warnings(*comparisons: Comparison) -> list[InputWarning]:
    """What to know of the runs before the table: shown above it, and `warnings` of the JSON. Each once."""
    out: dict[InputWarning, None] = {}
    for comparison in comparisons:
        for note in comparison.notes:
            if note.warning:
                out[InputWarning(note.code, f"{note.text.rstrip('.')}.")] = None
        if comparison.evidence.null_reason == GREEDY:
            out[InputWarning("greedy", f"What chance alone would give is not shown: {GREEDY}.")] = None
        if _same_samples(comparison):
            both = f"{comparison.before.name} and {comparison.after.name}"
            text = f"{both} have the same successes on every problem: are they the same samples?"
            out[InputWarning("same_samples", text)] = None
    return list(out)


def _same_samples(comparison: Comparison) -> bool:
    """Independent draws almost never agree in every count and every first success; a copied log does."""
    tally = comparison.tally
    same = (tally.correct_PR[:, 0] == tally.correct_PR[:, 1]) & (tally.drawn_PR[:, 0] == tally.drawn_PR[:, 1])
    if tally.ordered_R.all():
        same &= tally.first_PR[:, 0] == tally.first_PR[:, 1]
    elif int(tally.drawn_PR[:, 0].sum()) < MANY_SAMPLES:
        return False  # a few counts may well agree by chance
    return bool(same.all()) and 0 < int(tally.correct_PR[:, 0].sum()) < int(tally.drawn_PR[:, 0].sum())


def warnings(comparison: Comparison) -> list[str]:
    """What a reader should know before believing the table, most general first; each is a sentence."""
    return [warning.text for warning in input_warnings(comparison)] + result_warnings(comparison)


def result_warnings(comparison: Comparison) -> list[str]:
    """What the numbers do not say by themselves; each is a sentence."""
    out = []
    change, tally = comparison.change, comparison.tally
    if change.k < SMALL_K:
        out.append(f"k is only {change.k}: a problem without a correct sample may still be well within reach.")
    for r, run in enumerate(tally.runs):
        drawn = max(int(tally.drawn_PR[:, r].sum()), 1)
        for what, meaning in (
            ("unread", "they count as not correct; --unread drop shows the table without them"),
            (
                "failed",
                "they count as not correct; --json has what each number could be",
            ),
            ("truncated", "they were cut at the token limit"),
        ):
            share = int(getattr(tally, f"{what}_PR")[:, r].sum()) / drawn
            if share >= NOTABLE_SHARE:
                out.append(f"{share:.0%} of the samples of {run} are {what}: {meaning}.")
    for name, problems in comparison.guessing.problems.items():
        if problems:
            run = comparison.before.name if name == "before" else comparison.after.name
            problems_text = _count_and_verb(len(problems), "problem", f"with a correct sample from {run}")
            out.append(f"{problems_text} solved no more often than by blind guessing.")
    out += [f"{note.text.rstrip('.')}." for note in comparison.notes if "scores are above 1" in note.text]
    # undecided samples are worth a warning only if they could change the table
    bounds = comparison.undecided
    if bounds is not None and any(_count(ends.low) != _count(ends.high) for ends in bounds.values()):
        ranges = ", ".join(_range(name, bounds[name]) for name in ("P", "E", "S", "O", "SRR"))
        out.append(f"Undecided samples could change the table. Depending on how they are decided: {ranges}.")
    power = comparison.evidence.gain_power
    if power is not None and power.problems and power.candidates < FEW_LEFT_SHARE * power.problems:
        possible = f"at most {power.candidates:,}" if power.candidates else "none"
        reached = f"{change.before} reaches {power.problems - power.candidates:,} of {power.problems:,} problems"
        out.append(f"{reached}, so {possible} could be gained: a small number of gains means little here.")
    if change.undetermined:
        problems_text = _count_and_verb(change.undetermined, _unit(comparison, 1))
        out.append(f"{problems_text} undetermined under the rule {change.rule.value!r}.")
    return out


def portfolio_sentence(comparison: Comparison) -> str | None:
    """What splitting the budget between the two runs gains; a split is recommended only where its gain is significant.

    Args:
        comparison: two compared runs.

    Returns:
        The sentence; None where there is nothing to split.
    """
    split = comparison.portfolio
    if split is None or split.problems == 0 or split.k < 2:
        return None
    if np.isnan(split.gain_low):
        return f"Too few problems to say whether splitting {split.k} samples between the two runs gains anything."
    ends = f"[{split.gain_low:.3f}, {split.gain_high:.3f}]"
    if split.best is not None and split.gain_low > 0:
        parts = f"{split.best} from {comparison.before.name} and {split.k - split.best} from {comparison.after.name}"
        gain = f"+{split.gain:.3f} {ends} over the better run alone"
        return f"Best split of {split.k} samples: {parts}, coverage {split.value:.3f}, {gain}."
    return (
        f"No split of {split.k} samples between the two runs is significantly better than the better run alone: gain "
        f"{split.gain:.3f} {ends}."
    )


def split_gain_text(split: Portfolio) -> str:
    """What the best split gains, for the caption of its figure."""
    if not np.isfinite(split.gain_low):
        size = counted(split.problems, "problem")
        return f"With {size} the gain of a split has no interval (it needs {MIN_EFFECTIVE_PROBLEMS})"
    none = "; no split is significantly better" if split.gain_low == 0 else ""
    return (
        f"The best split gains {_split_gain(split)} over the better run alone: chosen on one half of the problems and "
        f"evaluated on the other (95% interval over problems, for all splits at once){none}"
    )


def best_split_text(split: Portfolio, before: str, flat: bool, mix_reaches_more: bool) -> str:
    """Which split is best on these problems, and what it gains."""
    if flat:
        return "every split reaches the same share"
    best = f"best with {split.best:,} of {split.k:,} from {before}" if mix_reaches_more else "no mix reaches more"
    if np.isfinite(split.gain_low):
        return f"{best}, gain {_split_gain(split)}"
    size = counted(split.problems, "problem")
    return f"{best}; {size} cannot show whether that is chance" if mix_reaches_more else best


def _split_gain(split: Portfolio) -> str:
    return f"{split.gain:.3f} [{split.gain_low:.3f}, {split.gain_high:.3f}]"


def _other_counts(comparison: Comparison) -> str:
    """What was lost and gained by the rule and per target in force, where they are not those of the headline."""
    change, base, rl = comparison.change, comparison.change.before, comparison.change.after
    if change.rule is Rule.SEEN and comparison.tally.per is Per.PROBLEM:
        return ""
    unit = _unit(comparison, 2)
    scope = f"Counted per {comparison.tally.per.value}" if comparison.tally.per is not Per.PROBLEM else ""
    rule = "" if change.rule is Rule.SEEN else f"{', b' if scope else 'B'}y the rule '{change.rule.value}'"
    reached = change.P + change.S
    if _is_zero(reached):
        return f"{scope}{rule}, {base} reaches no {_unit(comparison, 1)} and {rl} reaches {_small_number(change.E)}."
    if _is_zero(change.S):
        kept = f"{rl} still reaches all {_small_number(reached)} {unit} that {base} reaches"
        return f"{scope}{rule}, {kept}, and {_small_number(change.E)} that {base} does not."
    lost = (
        f"{rl} no longer reaches {_small_number(change.S)} of the {_small_number(reached)} {unit} that {base} reaches"
    )
    return f"{scope}{rule}, {lost} and reaches {_small_number(change.E)} that {base} does not."


def _tested_text(comparison: Comparison) -> str:
    """Where the tests use more samples than the table: both n, and the classes that were tested."""
    evidence, tally, change = comparison.evidence, comparison.tally, comparison.change
    if evidence.null is None or evidence.basis == ALL_SAMPLES:
        return ""
    before, after = (
        f"{samples_text(tally, r)} per problem from {run.name}"
        for r, run in enumerate((comparison.before, comparison.after))
    )
    return (
        f"Tests use all samples ({before}, {after}), which give {evidence.S:,} lost and {evidence.E:,} gained (at "
        f"k = {change.k:,}: {_count(change.S)} and {_count(change.E)})."
    )


def _sample_value(comparison: Comparison) -> str:
    """What one sample of the run after is worth; where the curves cross is in the headline."""
    worth, base, rl = comparison.equivalent[0], comparison.before.name, comparison.after.name
    if worth.most < 2 or comparison.tally.per is not Per.PROBLEM:
        return ""
    if worth.k is not None:
        return f"One {rl} sample does as well as {worth.text()} {base} samples."
    if worth.reason and "neither" not in worth.reason:
        ends = ", ".join(worth.ends())
        return f"One {rl} sample is worth {worth.reason.replace('the run before', base)} (95% interval [{ends}])."
    return ""


def _range(name: str, ends: Interval) -> str:
    """What a number could be, from the least to the most."""
    low, high = (_count(end) if name in "PESO" else f"{end:.3f}" for end in (ends.low, ends.high))
    return f"{name} {low}" if low == high else f"{name} {low} to {high}"


def _unit(comparison: Comparison, number: float) -> str:
    """What is counted, in the singular or the plural."""
    word = {Per.PROBLEM: "problem", Per.ANSWER: "correct answer", Per.SOLUTION: "solution"}[comparison.tally.per]
    return word if number == 1 else f"{word}s"


def _count_and_verb(number: float, word: str, which: str = "") -> str:
    """How many there are, with the verb: 1 problem is, 2 problems are."""
    singular = number == 1
    return " ".join(
        part for part in (_count(number), word if singular else f"{word}s", which, "is" if singular else "are") if part
    )


def _is_zero(value: float) -> bool:
    """Whether a number of problems is exactly none, not an expectation that rounds to it."""
    return _is_whole(value) and round(value) == 0


def _small_number(value: float) -> str:
    """A number that does not read as none where it is not."""
    return "none" if _is_zero(value) else f"fewer than {MIN_SHOWN:g}" if value < MIN_SHOWN else _count(value)


def _is_whole(value: float) -> bool:
    """Whether an expectation is a whole number, up to rounding."""
    return bool(np.isfinite(value)) and abs(value - round(value)) < 1e-9


def _count(value: float) -> str:
    """A number of problems: whole where it is whole, else an expectation with one decimal."""
    return "?" if not np.isfinite(value) else f"{round(value):,}" if _is_whole(value) else f"{value:,.1f}"
