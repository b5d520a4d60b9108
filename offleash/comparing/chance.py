"""The chance part of the JSON: what luck would give, what is certain, and why a number is missing."""

from offleash.comparing.compare import Comparison
from offleash.render.numbers import Json, number
from offleash.stats.chance import Retest

_NULL = ("expected_E", "expected_S", "p_E", "p_S", "mid_p_E", "mid_p_S")


def chance_section(one: Comparison) -> Json:
    """Exchange null, McNemar, bounds, lists, retest, strength and confirmation of a comparison."""
    found, null = one.evidence, one.evidence.null
    return {name: None if null is None else number(getattr(null, name)) for name in _NULL} | {
        "observed_E": found.E,
        "observed_S": found.S,
        "basis": found.basis,
        "mcnemar_p": found.mcnemar_p,
        "losses_at_least": found.losses_at_least,
        "gains_at_least": found.gains_at_least,
        "lost": list(found.lost),
        "gained": list(found.gained),
        "fallen": list(found.fallen),
        "risen": list(found.risen),
        "retest": _retest(found.retest),
        "strength": {name: vars(by) for name, by in found.strength.items()},
        "confirmation": {name: vars(by) for name, by in found.confirmation.items()},
        "smallest_certain_loss": found.smallest_certain_loss,
        "reasons": _reasons(one),
    }


def _retest(again: Retest | None) -> Json:
    if again is None:
        return dict.fromkeys(("SRR", "gain", "k", "observed_SRR", "redraw_SRR", "redraw", "interval"))
    values = {name: number(getattr(again, name)) for name in ("SRR", "gain", "observed_SRR", "redraw_SRR", "redraw")}
    return {**values, "k": again.k, "interval": {"SRR": again.SRR_interval.pair(), "gain": again.gain_interval.pair()}}


def _reasons(one: Comparison) -> dict[str, str | None]:
    """Why each number that is null is so."""
    found = one.evidence
    missing = {
        **dict.fromkeys(_NULL, found.null is None),
        **dict.fromkeys(("observed_E", "observed_S"), found.E is None),
        "mcnemar_p": found.mcnemar_p is None,
    }
    reasons = {name: found.null_reason for name, absent in missing.items() if absent}
    if found.retest is None:
        reasons["retest"] = found.retest_reason
    if found.smallest_certain_loss is None:
        few = f"no number of successes in k = {one.change.k} samples makes the loss of one problem certain"
        reasons["smallest_certain_loss"] = found.null_reason or few
    if found.losses_at_least is None:
        rule = f"the bound is about problems without any success, not about the rule {one.change.rule.value!r}"
        reasons |= dict.fromkeys(("losses_at_least", "gains_at_least"), found.bound_reason or found.null_reason or rule)
    return reasons
