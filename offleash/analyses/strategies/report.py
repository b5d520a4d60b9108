"""Strategies of two runs compared: as JSON (schema 1), and in words.

In the JSON a strategy is called a `way`, the word of schema 1: stored names stay.
"""

import numpy as np

from offleash.analyses.strategies.strategies import Example, StrategyComparison
from offleash.comparing.json_sections import support_section
from offleash.render.escape import clean
from offleash.render.json import SCHEMA, Json, encode
from offleash.stats.strategies import MIN_PROBLEMS, Basis, Richness, StrategyNovelty


def strategies_document(strategies: StrategyComparison) -> Json:
    """The strategies of two runs as one JSON document; unknown numbers are null."""
    comparison, by = strategies.comparison, strategies.by
    retest = comparison.evidence.retest
    document: Json = encode(
        {
            "schema": SCHEMA,
            "kind": "ways",
            "by": {"name": by.function or by.name, "identity": by.identity, "about": by.about},
            "k": comparison.change.k,
            "problems": len(strategies.counts.drawn_P2),
            "finding": finding(strategies),
            "support": support_section(comparison.change),
            "redraw": None
            if retest is None
            else {
                "k": retest.k,
                "observed_SRR": retest.observed_SRR,
                "redraw_SRR": retest.redraw_SRR,
                "redraw_E": retest.redraw,
                "net_ratio": retest.net_ratio,
                "net_ratio_interval": retest.net_ratio_interval,
                "gain": retest.gain,
                "gain_interval": retest.gain_interval,
            },
            "significant": {
                "lost_at_least": strategies.lost_at_least,
                "new_at_least": strategies.new_at_least,
                "reason": strategies.coverage_caution or None,  # why the two above are null
            },
            "richness": {basis: _richness_section(part) for basis, part in strategies.richness.items()},
            "novelty": {basis: _novelty_section(new) for basis, new in strategies.novelty.items()},
            "coverage": dict(zip(("before", "after"), strategies.coverage, strict=True)),
            "lost": [_example_section(example) for example in strategies.lost],
            "new": [_example_section(example) for example in strategies.new],
            "notes": comparison.notes,
        }
    )
    return document


def _richness_section(richness: Richness | None) -> Json | None:
    if richness is None:
        return None
    sides = {"before": richness.before, "after": richness.after, "difference": richness.difference}
    return {"n": richness.n, "problems": richness.problems, "enough": richness.enough, **sides}


def _novelty_section(novelty: StrategyNovelty | None) -> Json | None:
    if novelty is None:
        return None
    return {
        "n": novelty.n,
        "problems": novelty.problems,
        "enough": novelty.enough,
        "ways": novelty.strategies,
        "ways_redraw": novelty.strategies_redraw,
        "ways_excess": novelty.strategies_excess,
        "mass": novelty.mass,
        "mass_redraw": novelty.mass_redraw,
        "mass_excess": novelty.mass_excess,
    }


def _example_section(example: Example) -> Json:
    return {
        "problem": example.problem,
        "way": example.strategy,
        "seen": dict(zip(("before", "after"), example.seen, strict=True)),
        "drawn": dict(zip(("before", "after"), example.drawn, strict=True)),
        "p": example.p,
        "sample": example.index,
        "text": example.text,
    }


# In words: what was lost, what is new, and whether resampling the run before would show as much.


def finding(strategies: StrategyComparison) -> str:
    """One paragraph, every statement with its uncertainty."""
    caution = f"Caution: {clean(strategies.coverage_caution)}." if strategies.coverage_caution else ""
    parts = (
        caution,
        _support_text(strategies),
        _significant_text(strategies),
        _richness_text(strategies),
        _novelty_text(strategies),
    )
    return " ".join(part for part in parts if part)


def count_text(value: float) -> str:
    """A count, whole where it is whole: thinned to fewer samples a count is an expectation."""
    return "-" if np.isnan(value) else f"{round(value):,}" if abs(value - round(value)) < 1e-9 else f"{value:,.1f}"


def _support_text(strategies: StrategyComparison) -> str:
    """How many strategies were kept, and how many resampling the run before would have kept."""
    change, retest = strategies.comparison.change, strategies.comparison.evidence.retest
    base, rl = clean(change.before), clean(change.after)
    reached = change.P + change.S
    if reached < 1e-9:
        return f"{base} shows no strategy at all; {rl} shows {count_text(change.E)} (k = {change.k:,})."
    ends = change.interval["SRR"]
    kept = (
        f"{rl} keeps {count_text(change.P)} of the {count_text(reached)} strategies of {base}, "
        f"{change.value['SRR']:.1%} [{ends.low:.1%}, {ends.high:.1%}], and shows {count_text(change.E)} that {base} "
        f"does not (k = {change.k:,})."
    )
    if retest is None or np.isnan(retest.net_ratio):
        why = strategies.comparison.evidence.retest_reason or "no strategy was seen twice"
        return f"{kept} How many of them resampling {base} would miss is not known: {clean(why)}."
    net = retest.net_ratio_interval
    interval = "" if np.isnan(net.low) else f" [{net.low:.2f}, {net.high:.2f}]"
    # Rare strategies come and go between two draws of one model, so SRR is set against a second draw of the base.
    return (
        f"{kept} Resampling {base} would show {retest.redraw_SRR:.1%} of its own strategies, and {rl} shows "
        f"{retest.observed_SRR:.1%} (k = {retest.k:,}): a net ratio of {retest.net_ratio:.2f}{interval}, in which "
        "strategies that became more frequent offset lost ones."
    )


def _significant_text(strategies: StrategyComparison) -> str:
    lost, new = strategies.lost_at_least, strategies.new_at_least
    if lost is None or new is None:
        return "Significant losses and gains are therefore not reported."
    if not lost and not new:
        return "No single strategy is significantly lost or new (95%, corrected for all strategies)."
    return (
        f"At least {lost:,} strategies are significantly lost and at least {new:,} significantly new "
        "(95%, corrected for all strategies)."
    )


def _richness_text(strategies: StrategyComparison) -> str:
    """Strategies per problem at equal numbers of correct samples."""
    richness = strategies.richness[Basis.CORRECT]
    if richness is None:
        return "No problem has correct samples in both runs, so numbers of strategies cannot be compared fairly."
    if richness.n <= 1:
        return "No problem has two correct samples in both runs, so numbers of strategies cannot be compared."
    base, rl = clean(strategies.comparison.change.before), clean(strategies.comparison.change.after)
    ends = richness.difference.interval
    values = (
        f"At equal numbers of correct samples {rl} uses {richness.after.value:.2f} strategies per problem and {base} "
        f"{richness.before.value:.2f} ({richness.difference.value:+.2f} [{ends.low:+.2f}, {ends.high:+.2f}]): "
    )
    if reason := _not_interpreted(strategies, richness):
        return values + reason
    if ends.high < 0:
        return values + "fewer, and accuracy does not explain it."
    if ends.low > 0:
        return values + "more, and accuracy does not explain it."
    return values + "no significant difference."


def _novelty_text(strategies: StrategyComparison) -> str:
    """The share of new strategies against that of a second draw of the run before."""
    novelty = strategies.novelty[Basis.CORRECT]
    if novelty is None or np.isnan(novelty.strategies.value) or np.isnan(novelty.strategies_redraw.value):
        return ""
    base, rl = clean(strategies.comparison.change.before), clean(strategies.comparison.change.after)
    excess = novelty.strategies_excess.interval
    values = (
        f"Of the strategies of {rl}, {novelty.strategies.value:.1%} do not occur in as many correct samples of "
        f"{base}; resampling {base} would give {novelty.strategies_redraw.value:.1%}: "
    )
    if reason := _not_interpreted(strategies, novelty):
        return values + reason
    if excess.low > 0:
        return values + f"more than chance would give, so it has strategies that {base} uses rarely or never."
    if excess.high < 0:
        return values + "fewer than chance would give, so its strategies are those that were frequent before."
    return values + "not significantly more than chance would give."


def _not_interpreted(strategies: StrategyComparison, statistic: Richness | StrategyNovelty) -> str:
    """Why numbers are printed without a conclusion; empty where one may be drawn."""
    if strategies.coverage_caution:
        return "unread samples might reverse this."
    if statistic.enough:
        return ""
    return f"too few problems for a conclusion ({statistic.problems:,} of the {MIN_PROBLEMS} needed)."
