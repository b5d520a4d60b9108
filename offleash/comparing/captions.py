"""Phrases that captions, tables and pages share: what is counted, the rule in words, and the metrics spelt out."""

from math import isfinite

from offleash.comparing.compare import Comparison
from offleash.data.tally import Per
from offleash.render.numbers import counted, share, short_name
from offleash.stats.intervals import Interval
from offleash.stats.support_classes import Rule

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
CELLS = "P: reached by both runs; E: only by the run after (gained); S: only by the run before (lost); O: by neither"


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
NET_RATIO = "against two draws of the run before, k = {k:,}: a net measure, so rises can hide losses"
SPELT_OUT = {
    "SRR": "support retention rate",
    "NDR": "net discovery rate",
    "SDS": "support dynamic score",
    "NSCR": "net support change rate",
}
FORMULAS = {"SRR": "P/(P+S)", "NDR": "E/(P+E)", "SDS": "2PE/(P²+2PE+ES)", "NSCR": "(E-S)/(P+E+S)"}
MEANING = {
    "SRR": "share of what was reached before that is still reached",
    "NDR": "share of what is reached after that is new",
    "SDS": "harmonic mean of SRR and NDR",
    "NSCR": "gained minus lost, over all that either reached",
}
