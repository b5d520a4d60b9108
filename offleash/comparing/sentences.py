"""The finding of a comparison in words, the warnings on it, and the phrases that captions and tables share."""

from dataclasses import dataclass
from math import isfinite

import numpy as np

from offleash.comparing.compare import Comparison
from offleash.comparing.evidence import GREEDY
from offleash.data.tally import Per
from offleash.render.numbers import counted, share, short_name
from offleash.stats.change import SupportChange
from offleash.stats.intervals import Interval
from offleash.stats.support_classes import Rule


def redraw_rates(change: SupportChange) -> dict[str, float]:
    """The rates that an unchanged model drawn twice would show; empty where nothing is random."""
    values = {} if change.redraw is None else change.redraw.value
    return {name: value for name, value in values.items() if np.isfinite(value)}


SMALL_K = 32  # below it a rate of 0.1 is missed once in 30 problems, so "not reached" says little
MANY_SAMPLES = 100  # of a run of bare counts, from which on equal counts are no coincidence
NOTABLE = 0.05  # share of unread, failed or truncated samples from which it is worth a warning
LEAST = 0.1  # a smaller number of problems would be printed as 0.0


def finding(comparison: Comparison) -> str:
    """One paragraph: losses and gains, how many are significant, the net change, and what one sample is worth."""
    return " ".join(
        part
        for part in (_counts(comparison), _significance(comparison), _net(comparison), _sample_value(comparison))
        if part
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
            if share >= NOTABLE:
                out.append(f"{share:.0%} of the samples of {run} are {what}: {meaning}.")
    for name, problems in comparison.guessing.problems.items():
        if problems:
            run = comparison.before.name if name == "before" else comparison.after.name
            some = _count_and_verb(len(problems), "problem", f"with a correct sample from {run}")
            out.append(f"{some} solved no more often than by blind guessing.")
    out += [f"{note.text.rstrip('.')}." for note in comparison.notes if "scores are above 1" in note.text]
    # undecided samples are worth a warning only if they could change the table
    bounds = comparison.undecided
    if bounds is not None and any(_count(ends.low) != _count(ends.high) for ends in bounds.values()):
        ranges = ", ".join(_range(name, bounds[name]) for name in ("P", "E", "S", "O", "SRR"))
        out.append(f"Undecided samples matter. If they were decided, in whatever way: {ranges}.")
    if change.undetermined:
        some = _count_and_verb(change.undetermined, _unit(comparison, 1))
        out.append(f"{some} undetermined under the rule {change.rule.value!r}.")
    return out


def _counts(comparison: Comparison) -> str:
    """What was lost and gained. Each branch avoids a misleading sentence, such as "0.0 of the problems"."""
    change, base, rl = comparison.change, comparison.change.before, comparison.change.after
    reached = change.P + change.S
    about = "" if _is_whole(change.S) and _is_whole(change.E) and _is_whole(change.P) else "about "
    alone = _is_whole(reached) and round(reached) == 1
    of = f"the one {_unit(comparison, 1)}" if alone else f"the {_count(reached)} {_unit(comparison, 2)}"
    all_of = of if alone else f"all of {of}"
    if _is_zero(reached):
        lost = f"{base} reaches none of the {_unit(comparison, 2)}"
    elif reached < LEAST:
        lost = f"{base} reaches fewer than {LEAST:g} {_unit(comparison, 2)}"
    elif _is_zero(change.S):
        lost = f"{rl} reaches {all_of} that {base} reaches"
    elif change.S < LEAST:
        lost = f"{rl} reaches all but fewer than {LEAST:g} of {of} that {base} reaches"
    elif alone and _is_whole(change.S):
        lost = f"{rl} no longer reaches {of} that {base} reaches"
    else:
        lost = f"{rl} no longer reaches {about}{_count(change.S)} of {of} that {base} reaches"
    gained = "none" if _is_zero(change.E) else _positive(change.E, about)
    subject = f"{rl} " if reached < LEAST else ""
    return f"{lost}, and {subject}reaches {gained} that {base} does not (k = {change.k})."


def _significance(comparison: Comparison) -> str:
    """How many losses and gains are beyond chance, beside what resampling an unchanged model would show.

    Per answer there is no test, and the SRR of an unchanged model takes its place.
    """
    evidence = comparison.evidence
    if evidence.losses_at_least is None:
        change, same = comparison.change, redraw_rates(comparison.change).get("SRR")
        if same is None or comparison.tally.per is Per.PROBLEM or not isfinite(change.value["SRR"]):
            return ""
        return f"Its SRR is {change.value['SRR']:.3f}; an unchanged model drawn twice would show {same:.3f}."
    lost, gained = evidence.losses_at_least, evidence.gains_at_least
    if _nothing_reached(comparison) and not lost and not gained:
        return ""
    if evidence.null is None and not lost and not gained:
        return "None of this is significant."
    if evidence.null is None or _nothing_reached(comparison):
        return f"At least {lost} of the losses and {gained} of the gains are beyond chance (95% confidence)."
    losses, gains = evidence.null.expected_S, evidence.null.expected_E
    expected = f"resampling an unchanged model would lose {_expected(losses)} and gain {_expected(gains)}"
    if not lost and not gained:
        return f"None of this is significant: {expected}."
    significant = f"At least {lost} of the losses and {gained} of the gains are beyond chance (95% confidence)"
    return f"{significant}; {expected}."


def _net(comparison: Comparison) -> str:
    """The direction of the net change, if McNemar finds any. A net change of 0 may hide many losses and gains."""
    evidence = comparison.evidence
    if evidence.mcnemar_p is None or evidence.E is None or evidence.S is None or _nothing_reached(comparison):
        return ""
    if evidence.mcnemar_p >= 0.05:
        return f"The net change is not significant (McNemar p = {_p(evidence.mcnemar_p)})."
    direction = "shrinkage" if evidence.S > evidence.E else "expansion"
    return f"Net {direction} (McNemar p = {_p(evidence.mcnemar_p)})."


def _sample_value(comparison: Comparison) -> str:
    """What one sample of the run after is worth, and from which k the run before is ahead."""
    worth, cross, base, rl = (
        comparison.equivalent[0],
        comparison.crossing,
        comparison.before.name,
        comparison.after.name,
    )
    if worth.most < 2 or comparison.tally.per is not Per.PROBLEM:
        return ""
    parts = []
    if worth.k is not None:
        parts.append(f"One {rl} sample does as well as {worth.text()} {base} samples")
    elif worth.reason and "neither" not in worth.reason:
        parts.append(f"One {rl} sample is worth {worth.reason.replace('the run before', base)}")
    if cross.resolved:
        parts.append(f"beyond {cross.text()} {base} is ahead")
    elif cross.k is not None:
        parts.append(f"whether {base} is ahead at larger k is not resolved")
    return "; ".join(parts) + "." if parts else ""


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


def _nothing_reached(comparison: Comparison) -> bool:
    """Whether neither run reached anything, so that there is nothing to have changed."""
    return _is_zero(comparison.change.P + comparison.change.E + comparison.change.S)


def _is_zero(value: float) -> bool:
    """Whether a number of problems is exactly none, not an expectation that rounds to it."""
    return _is_whole(value) and round(value) == 0


def _positive(value: float, about: str) -> str:
    """A number above 0 that does not read as none."""
    return f"fewer than {LEAST:g}" if value < LEAST else f"{about}{_count(value)}"


def _expected(value: float) -> str:
    """An expected number of problems."""
    return f"fewer than {LEAST:g}" if value < LEAST else f"about {value:.1f}"


def _is_whole(value: float) -> bool:
    """Whether an expectation is a whole number, up to rounding."""
    return bool(np.isfinite(value)) and abs(value - round(value)) < 1e-9


def _count(value: float) -> str:
    """A number of problems: whole where it is whole, else an expectation with one decimal."""
    return "?" if not np.isfinite(value) else f"{round(value):,}" if _is_whole(value) else f"{value:,.1f}"


def _p(value: float) -> str:
    """A p-value in two digits."""
    return f"{value:.2g}" if value >= 1e-4 else f"{value:.1e}"


# Phrases for captions and tables: problems and samples, the rule, and the metrics spelt out.


# "a problem is reached when ..."
REACHED = {
    Rule.SEEN: "at least one of the k samples is correct",
    Rule.ABOVE: "the share of correct samples is at least tau",
    Rule.CONFIDENT: "the lower confidence bound of its success rate is above epsilon",
    Rule.POSTERIOR: "its success rate is above epsilon with high posterior probability",
    Rule.CERTIFIED: "its certificate proves it",
}
# what is counted, in the singular
UNITS = {Per.PROBLEM: "problem", Per.ANSWER: "correct answer", Per.SOLUTION: "solution"}
METRIC_WORDS = {
    "SRR": "support retention rate (SRR), the share of what was reached before that is still reached",
    "NDR": "net discovery rate (NDR), the share of what is reached after that is new",
    "NSCR": "net support change rate (NSCR), gained minus lost over all that either run reached",
}
CELLS = (
    "P: reached by both runs (kept); E: only by the run after (gained); S: only by the run before (lost); O: by neither"
)


def names(comparison: Comparison) -> tuple[str, str]:
    """The names of both runs as sentences hold them."""
    return short_name(comparison.before.name, 60), short_name(comparison.after.name, 60)


def unit(comparison: Comparison, many: bool = True) -> str:
    """What is counted."""
    return UNITS[comparison.tally.per] + ("s" if many else "")


def basis(comparison: Comparison, per: Per | None = None) -> str:
    """What a figure is based on: problems, samples, k, and when a problem (or another target, `per`) is reached."""
    change, before, after = comparison.change, *names(comparison)
    problems = counted(len(set(comparison.tally.problem_P.tolist())), "problem")
    target = UNITS[per or comparison.tally.per]
    rule = f"rule {change.rule.value}: a {target} is reached when {REACHED[change.rule]}"
    return f"{problems}, {drawn(comparison)}, {before} before and {after} after; k = {change.k:,}, {rule}."


def drawn(comparison: Comparison) -> str:
    """How many samples of each problem were drawn, in words."""
    least, most = int(comparison.tally.drawn_PR.min()), int(comparison.tally.drawn_PR.max())
    if (comparison.tally.until_R > 0).any():
        until = int(comparison.tally.until_R.max())
        return f"up to {most:,} samples per problem (a run stopped each problem at success {until})"
    return f"{most:,} samples per problem" if least == most else f"{least:,} to {most:,} samples per problem"


def between(value: float, interval: Interval) -> str:
    """A value with its 95% interval."""
    return f"{share(value)} [{share(interval.low)}, {share(interval.high)}]" if isfinite(value) else "undefined"


# of the ratio that compares this pair with two draws of the run before
NET_RATIO = "against two draws of the run before, k = {k:,}: net, so rates that rose hide losses"
SPELT_OUT = {
    "SRR": "support retention rate",
    "NDR": "net discovery rate",
    "SDS": "support dynamic score",
    "NSCR": "net support change rate",
}
FORMULAS = {"SRR": "P/(P+S)", "NDR": "E/(P+E)", "SDS": "2PE/(P²+2PE+ES)", "NSCR": "(E-S)/(P+E+S)"}
MEANING = {
    "SRR": "share of what was reached before that is kept",
    "NDR": "share of what is reached after that is new",
    "SDS": "harmonic mean of SRR and NDR",
    "NSCR": "gained minus lost, over all that either reached",
}
