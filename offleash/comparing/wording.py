"""Words that captions share: how many problems and samples, by which rule, and numbers as a reader likes them."""

from math import isfinite

from offleash.comparing.compare import Comparison
from offleash.data.tally import Per
from offleash.render.numbers import counted, share, short_name
from offleash.stats.intervals import Interval
from offleash.stats.rules import Rule

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
