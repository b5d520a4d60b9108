"""Ways of solving as JSON (schema 1)."""

from offleash.analyses.strategies.samples import Example
from offleash.analyses.strategies.strategies import Ways
from offleash.analyses.strategies.words import finding
from offleash.comparing.json_sections import support_section
from offleash.render.numbers import Json, number
from offleash.stats.strategies import Estimate, Novelty, Richness
from tests.analyses.strategies.error_rates import Checked, Rate

SCHEMA = 1


def ways_json(found: Ways) -> Json:
    """What became of the ways of two runs."""
    one = found.comparison
    again = one.evidence.retest
    return {
        "schema": SCHEMA,
        "kind": "ways",
        "by": {"name": found.by.function or found.by.name, "identity": found.by.identity, "about": found.by.about},
        "k": one.change.k,
        "problems": len(found.counts.drawn_P2),
        "finding": finding(found),
        "support": support_section(one.change),
        "redraw": None
        if again is None
        else {
            "k": again.k,
            "observed_SRR": number(again.observed_SRR),
            "redraw_SRR": number(again.redraw_SRR),
            "redraw_E": number(again.redraw),
            "retest_SRR": number(again.SRR),
            "retest_SRR_interval": again.SRR_interval.pair(),
            "gain": number(again.gain),
            "gain_interval": again.gain_interval.pair(),
        },
        "certain": {
            "lost_at_least": found.lost_at_least,
            "new_at_least": found.new_at_least,
            "reason": found.misread or None,  # why there are none
        },
        "richness": {basis.value: _richness_json(rich) for basis, rich in found.richness.items()},
        "novelty": {basis.value: _novelty_json(new) for basis, new in found.novelty.items()},
        "coverage": {
            side: {
                "correct": how.correct,
                "read": how.read,
                "failed": how.failed,
                "new": how.new,
                "trouble": how.trouble,
            }
            for side, how in zip(("before", "after"), found.coverage, strict=True)
        },
        "lost": [_example(way) for way in found.lost],
        "new": [_example(way) for way in found.new],
        "notes": [{"text": note.text, "rows": note.rows, "left_out": note.left_out} for note in one.notes],
    }


def check_json(found: list[Checked]) -> Json:
    """Error rates of fingerprints on planted pairs."""
    return {
        "schema": SCHEMA,
        "kind": "ways_check",
        "fingerprints": {
            one.by.name: {
                "identity": one.by.identity,
                "about": one.by.about,
                "paraphrases_split": _rate(one.split),
                "methods_merged": _rate(one.merged),
                "unread_texts": one.unread,
                "failures": [
                    {"same": pair.same, "how": pair.how, "first": pair.first, "second": pair.second}
                    for pair in one.failures
                ],
            }
            for one in found
        },
    }


def _rate(rate: Rate) -> Json:
    return {
        "errors": rate.errors,
        "pairs": rate.pairs,
        "rate": number(rate.value),
        "interval": rate.interval.pair(),
    }


def _estimate(one: Estimate) -> Json:
    return {"value": number(one.value), "interval": one.interval.pair()}


def _richness_json(one: Richness | None) -> Json | None:
    if one is None:
        return None
    sides: Json = {name: _estimate(getattr(one, name)) for name in ("before", "after", "difference")}
    return {**_size(one), **sides}


def _novelty_json(one: Novelty | None) -> Json | None:
    if one is None:
        return None
    names = ("ways", "ways_redraw", "ways_excess", "mass", "mass_redraw", "mass_excess")
    return {**_size(one), **{name: _estimate(getattr(one, name)) for name in names}}


def _size(one: Richness | Novelty) -> Json:
    return {"n": number(one.n), "problems": one.problems, "enough": one.enough}


def _example(one: Example) -> Json:
    return {
        "problem": one.problem,
        "way": one.way,
        "seen": {"before": one.seen[0], "after": one.seen[1]},
        "drawn": {"before": one.drawn[0], "after": one.drawn[1]},
        "p": number(one.p),
        "sample": one.index,
        "text": one.text,
    }
