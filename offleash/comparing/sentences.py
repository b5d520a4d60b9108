"""The finding of a comparison in words, the warnings on it, and the phrases that captions and tables share."""

from math import isfinite

import numpy as np

from offleash.comparing.compare import Comparison
from offleash.data.tally import Per
from offleash.render.numbers import counted, share, short_name
from offleash.stats.change import METRICS
from offleash.stats.intervals import Interval
from offleash.stats.support_classes import Rule, ratio


def chance_rates(one: Comparison) -> dict[str, float]:
    """The rates of the table that chance alone would show had no rate changed: the exchange null's E and S."""
    null = one.evidence.null
    if null is None or one.tally.per is not Per.PROBLEM or one.change.rule is not Rule.SEEN:
        return {}  # under other rules exchange moves problems out of reach altogether
    E, S = null.expected_E, null.expected_S
    either = int((one.tally.head_PR >= 1).any(axis=1).sum())  # whoever had the successes, one of the two reaches it
    values = {name: float(ratio(name, either - E - S, E, S, len(one.tally))) for name in METRICS}
    return {name: value for name, value in values.items() if np.isfinite(value)}


SMALL_K = 32
NOTABLE = 0.05
LEAST = 0.1  # a smaller number of problems would be printed as 0.0


def finding(one: Comparison) -> str:
    """One paragraph: what was lost and found, what is certain, what chance would give, and what a try is worth."""
    return " ".join(part for part in (_counts(one), _certainty(one), _net(one), _trade(one)) if part)


def warnings(one: Comparison) -> list[str]:
    """What a reader should know before believing the table."""
    out = []
    change, tally = one.change, one.tally
    if change.k < SMALL_K:
        out.append(f"k is only {change.k}: what so few samples do not show may still be well within reach.")
    for r, run in enumerate(tally.runs):
        drawn = max(int(tally.drawn_PR[:, r].sum()), 1)
        for what, meaning in (
            ("unread", "an unread format counts as not correct; --unread drop shows the table without"),
            ("failed", "the verifier failed on them; both bounds are under sensitivity"),
            ("truncated", "cut at the token limit"),
        ):
            share = int(getattr(tally, f"{what}_PR")[:, r].sum()) / drawn
            if share >= NOTABLE:
                out.append(f"{share:.0%} of the samples of {run} are {what}: {meaning}.")
    for name, problems in one.guessing.problems.items():
        if problems:
            run = one.before.name if name == "before" else one.after.name
            some = _are(len(problems), "problem", f"with a right sample among all drawn by {run}")
            out.append(f"{some} no more often right than a blind guess would be.")
    out += [f"{note.text.rstrip('.')}." for note in one.notes if "scores are above 1" in note.text]
    if one.undecided is not None and _table(one.undecided[0]) != _table(one.undecided[1]):
        low, high = (_table(bound) for bound in one.undecided)
        out.append(f"Undecided samples matter: {low} with all of them wrong, {high} with all of them right.")
    same = (tally.correct_PR[:, 0] == tally.correct_PR[:, 1]) & (tally.first_PR[:, 0] == tally.first_PR[:, 1])
    if same.all() and tally.ordered_R.all() and 0 < tally.correct_PR[:, 0].sum() < tally.drawn_PR[:, 0].sum():
        out.append("Both runs have the same successes on every problem: are they the same samples?")
    if change.undetermined:
        some = _are(change.undetermined, _unit(one, 1))
        out.append(f"{some} undetermined under the rule {change.rule.value!r}.")
    return out


def _counts(one: Comparison) -> str:
    change, base, rl = one.change, one.change.before, one.change.after
    reached = change.P + change.S
    about = "" if _whole(change.S) and _whole(change.E) and _whole(change.P) else "about "
    alone = _whole(reached) and round(reached) == 1
    of = f"the one {_unit(one, 1)}" if alone else f"the {_n(reached)} {_unit(one, 2)}"
    all_of = of if alone else f"all of {of}"
    if _zero(reached):
        lost = f"{base} reaches none of the {_unit(one, 2)}"
    elif reached < LEAST:
        lost = f"{base} reaches fewer than {LEAST:g} {_unit(one, 2)}"
    elif _zero(change.S):
        lost = f"{rl} reaches {all_of} that {base} reaches"
    elif change.S < LEAST:
        lost = f"{rl} reaches all but fewer than {LEAST:g} of {of} that {base} reaches"
    elif alone and _whole(change.S):
        lost = f"{rl} no longer reaches {of} that {base} reaches"
    else:
        lost = f"{rl} no longer reaches {about}{_n(change.S)} of {of} that {base} reaches"
    found = "none" if _zero(change.E) else _some(change.E, about)
    subject = f"{rl} " if reached < LEAST else ""
    return f"{lost}, and {subject}reaches {found} that {base} does not (k = {change.k})."


def _certainty(one: Comparison) -> str:
    found = one.evidence
    if found.losses_at_least is None:
        again = found.retest
        if again is None or one.tally.per is Per.PROBLEM:
            return ""
        return f"Corrected for what a redraw of {one.before.name} would show, it keeps {again.SRR:.1%} (k = {again.k})."
    lost, gained = found.losses_at_least, found.gains_at_least
    if _nothing(one) and not lost and not gained:
        return ""
    if found.null is None and not lost and not gained:
        return "None of it is certain."
    if found.null is None or _nothing(one):
        return f"At least {lost} of the losses and {gained} of the gains are real (95% confidence)."
    losses, gains = found.null.expected_S, found.null.expected_E
    repeated = "about " if losses < LEAST else ""  # one "about" serves both, "fewer than" does not
    expected = f"{_rough(losses, 'about ')} losses and {_rough(gains, repeated)} gains"
    if not lost and not gained:
        return f"None of it is certain: had no rate changed, chance alone would show {expected}."
    certain = f"At least {lost} of the losses and {gained} of the gains are real (95% confidence)"
    return f"{certain}; had no rate changed, chance alone would show {expected}."


def _net(one: Comparison) -> str:
    found = one.evidence
    if found.mcnemar_p is None or found.E is None or found.S is None or _nothing(one):
        return ""
    if found.mcnemar_p >= 0.05:
        return f"The net change is not significant (McNemar p = {_p(found.mcnemar_p)})."
    direction = "shrinkage" if found.S > found.E else "expansion"
    return f"Net {direction} (McNemar p = {_p(found.mcnemar_p)})."


def _trade(one: Comparison) -> str:
    worth, cross, base, rl = one.equivalent[0], one.crossing, one.before.name, one.after.name
    if worth.most < 2 or one.tally.per is not Per.PROBLEM:
        return ""
    parts = []
    if worth.k is not None:
        parts.append(f"One try of {rl} is worth {worth.text()} of {base}")
    elif worth.reason and "neither" not in worth.reason:
        parts.append(f"One try of {rl} is worth {worth.reason.replace('the run before', base)}")
    if cross.resolved:
        parts.append(f"beyond {cross.text()} {base} is ahead")
    elif cross.k is not None:
        parts.append(f"whether {base} is ahead beyond some number of tries is not settled")
    return "; ".join(parts) + "." if parts else ""


def _table(change: object) -> str:
    return " ".join(f"{name} {_n(getattr(change, name))}" for name in ("P", "E", "S", "O"))


def _unit(one: Comparison, number: float) -> str:
    word = {Per.PROBLEM: "problem", Per.ANSWER: "correct answer", Per.SOLUTION: "solution"}[one.tally.per]
    return word if number == 1 else f"{word}s"


def _are(number: float, word: str, which: str = "") -> str:
    """How many there are, with the verb: 1 problem is, 2 problems are."""
    one = number == 1
    return " ".join(part for part in (_n(number), word if one else f"{word}s", which, "is" if one else "are") if part)


def _nothing(one: Comparison) -> bool:
    """Whether neither run reached anything, so that there is nothing to have changed."""
    return _zero(one.change.P + one.change.E + one.change.S)


def _zero(value: float) -> bool:
    return _whole(value) and round(value) == 0


def _some(value: float, about: str) -> str:
    """A number above 0 that does not read as none."""
    return f"fewer than {LEAST:g}" if value < LEAST else f"{about}{_n(value)}"


def _rough(value: float, about: str) -> str:
    """An expected number."""
    return f"fewer than {LEAST:g}" if value < LEAST else f"{about}{value:.1f}"


def _whole(value: float) -> bool:
    return bool(np.isfinite(value)) and abs(value - round(value)) < 1e-9


def _n(value: float) -> str:
    return "?" if not np.isfinite(value) else f"{round(value):,}" if _whole(value) else f"{value:,.1f}"


def _p(value: float) -> str:
    return f"{value:.2g}" if value >= 1e-4 else f"{value:.1e}"


# Phrases for captions and tables: problems and samples, the rule, and the metrics spelt out.


REACHED = {
    Rule.SEEN: "at least one of the k samples is right",
    Rule.ABOVE: "the share of right samples is above tau",
    Rule.CONFIDENT: "the lower bound of its rate is above epsilon",
    Rule.POSTERIOR: "the posterior says so",
    Rule.CERTIFIED: "its certificate says so",
}
UNITS = {Per.PROBLEM: "problem", Per.ANSWER: "correct answer", Per.SOLUTION: "solution"}
METRIC_WORDS = {
    "SRR": "support retention rate (SRR), the share of what was reached before that is still reached",
    "NDR": "net discovery rate (NDR), the share of what is reached after that is new",
    "NSCR": "net support change rate (NSCR), found minus lost over all that either run reached",
}
CELLS = "P: reached by both runs, kept; E: only after, found; S: only before, lost; O: by neither"


def names(one: Comparison) -> tuple[str, str]:
    """The names of both runs as sentences hold them."""
    return short_name(one.before.name, 60), short_name(one.after.name, 60)


def unit(one: Comparison, many: bool = True) -> str:
    """What is counted."""
    return UNITS[one.tally.per] + ("s" if many else "")


def basis(one: Comparison, per: Per | None = None) -> str:
    """How many problems, samples and k stand behind a figure, and when a problem (or what else `per`) is reached."""
    change, before, after = one.change, *names(one)
    problems = counted(len(set(one.tally.problem_P.tolist())), "problem")
    target = UNITS[per or one.tally.per]
    rule = f"rule {change.rule.value}: a {target} is reached when {REACHED[change.rule]}"
    return f"{problems}, {drawn(one)}, {before} before and {after} after; k = {change.k:,}, {rule}."


def drawn(one: Comparison) -> str:
    """How many samples of each problem were drawn, in words."""
    least, most = int(one.tally.drawn_PR.min()), int(one.tally.drawn_PR.max())
    if (one.tally.until_R > 0).any():
        until = int(one.tally.until_R.max())
        return f"up to {most:,} samples of each (a run stopped a problem at {until} successes)"
    return f"{most:,} samples of each" if least == most else f"{least:,} to {most:,} samples of each"


def between(value: float, interval: Interval) -> str:
    """A value with its 95% interval."""
    return f"{share(value)} [{share(interval.low)}, {share(interval.high)}]" if isfinite(value) else "undefined"


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
    "NSCR": "net change over all that either reached",
}
