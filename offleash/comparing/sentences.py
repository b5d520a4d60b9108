"""The finding of a comparison in words, the warnings on it, and the phrases that captions and tables share."""

from dataclasses import dataclass

import numpy as np

from offleash.comparing.compare import Comparison
from offleash.comparing.evidence import GREEDY
from offleash.comparing.headline import headline
from offleash.data.tally import Per
from offleash.stats.change import METRICS
from offleash.stats.support_classes import Rule, ratio


def chance_rates(comparison: Comparison) -> dict[str, float]:
    """The rates that resampling an unchanged model would show, from the exchange null; empty where there is none."""
    null = comparison.evidence.null
    if null is None or comparison.tally.per is not Per.PROBLEM or comparison.change.rule is not Rule.SEEN:
        return {}  # other rules need several successes, so an exchange also moves problems out of reach of both runs
    E, S = null.expected_E, null.expected_S
    either = int(
        (comparison.tally.head_PR >= 1).any(axis=1).sum()
    )  # exchange moves successes between the runs, so one of the two still reaches it
    values = {name: float(ratio(name, either - E - S, E, S, len(comparison.tally))) for name in METRICS}
    return {name: value for name, value in values.items() if np.isfinite(value)}


SMALL_K = 32  # below it a rate of 0.1 is missed once in 30 problems, so "not reached" says little
MANY_SAMPLES = 100  # of a run of bare counts, from which on equal counts are no coincidence
NOTABLE = 0.05  # share of unread, failed or truncated samples from which it is worth a warning
LEAST = 0.1  # a smaller number of problems would be printed as 0.0


def finding(comparison: Comparison) -> str:
    """One paragraph: the headline, the counts of another rule or target, and what one sample is worth."""
    return " ".join(part for part in (headline(comparison).text, details(comparison)) if part)


def details(comparison: Comparison) -> str:
    """What stands beside the headline: the counts of another rule or target, and what one sample is worth."""
    return " ".join(part for part in (_other_counts(comparison), _sample_value(comparison)) if part)


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
                "they count as not correct; --json has the table with all of them wrong and with all correct",
            ),
            ("truncated", "they were cut at the token limit"),
        ):
            share = int(getattr(tally, f"{what}_PR")[:, r].sum()) / drawn
            if share >= NOTABLE:
                out.append(f"{share:.0%} of the samples of {run} are {what}: {meaning}.")
    for name, problems in comparison.guessing.problems.items():
        if problems:
            run = comparison.before.name if name == "before" else comparison.after.name
            some = _count_and_verb(len(problems), "problem", f"with a correct sample from {run}")
            out.append(f"{some} solved no more often than by blind guessing.")
    out += [f"{note.text.rstrip('.')}." for note in comparison.notes if "scores are above 1" in note.text]
    # undecided samples are worth a warning only if they could change the table
    if comparison.undecided is not None and _table(comparison.undecided[0]) != _table(comparison.undecided[1]):
        low, high = (_table(bound) for bound in comparison.undecided)
        out.append(f"Undecided samples matter: {low} if all of them are wrong, {high} if all are correct.")
    if change.undetermined:
        some = _count_and_verb(change.undetermined, _unit(comparison, 1))
        out.append(f"{some} undetermined under the rule {change.rule.value!r}.")
    return out


def _other_counts(comparison: Comparison) -> str:
    """What was lost and gained by the rule and per target in force, where they are not those of the headline."""
    change, base, rl = comparison.change, comparison.change.before, comparison.change.after
    if change.rule is Rule.SEEN and comparison.tally.per is Per.PROBLEM:
        return ""
    unit = _unit(comparison, 2)
    scope = f"Counted per {comparison.tally.per.value}" if comparison.tally.per is not Per.PROBLEM else ""
    rule = "" if change.rule is Rule.SEEN else f"{', b' if scope else 'B'}y the rule '{change.rule.value}'"
    lost = f"{rl} no longer reaches {_few(change.S)} of the {_few(change.P + change.S)} {unit} that {base} reaches"
    return f"{scope}{rule}, {lost} and reaches {_few(change.E)} that {base} does not."


def _sample_value(comparison: Comparison) -> str:
    """What one sample of the run after is worth; where the curves cross is in the headline."""
    worth, base, rl = comparison.equivalent[0], comparison.before.name, comparison.after.name
    if worth.most < 2 or comparison.tally.per is not Per.PROBLEM:
        return ""
    if worth.k is not None:
        return f"One {rl} sample does as well as {worth.text()} {base} samples."
    if worth.reason and "neither" not in worth.reason:
        return f"One {rl} sample is worth {worth.reason.replace('the run before', base)}."
    return ""


def _table(change: object) -> str:
    """P, E, S and O on one line, for a sentence that compares two tables."""
    return " ".join(f"{name} {_count(getattr(change, name))}" for name in ("P", "E", "S", "O"))


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


def _few(value: float) -> str:
    """A number that does not read as none where it is not."""
    return "none" if _is_zero(value) else f"fewer than {LEAST:g}" if value < LEAST else _count(value)


def _is_whole(value: float) -> bool:
    """Whether an expectation is a whole number, up to rounding."""
    return bool(np.isfinite(value)) and abs(value - round(value)) < 1e-9


def _count(value: float) -> str:
    """A number of problems: whole where it is whole, else an expectation with one decimal."""
    return "?" if not np.isfinite(value) else f"{round(value):,}" if _is_whole(value) else f"{value:,.1f}"
