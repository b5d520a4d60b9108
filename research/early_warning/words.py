"""What a study of early warning showed, in words."""

from collections.abc import Sequence

import numpy as np

from offleash.render.numbers import many
from offleash.stats.chance import mcnemar
from research.early_warning.rule import Rule
from research.early_warning.warned import SAID, SignalFound, Warned

SURE = 0.05


def finding(done: Warned) -> str:
    """What was found, in words."""
    by = {(one.kind, one.signal): one for one in done.found}
    lossy = [course for course in done.courses if course.lost_at is not None]
    if not lossy:
        return "No training lost support beyond chance, so there was nothing to announce: train longer (--steps)."
    free = sum(course.recipe == "grpo" for course in lossy)
    grpo = sum(course.recipe == "grpo" for course in done.courses)
    steps = [course.lost_at for course in lossy if course.lost_at is not None]
    told = "; ".join(_told(by["loss", signal]) for signal in SAID)
    ahead = " ".join(_ahead(by["loss", "answer"], by["loss", other]) for other in ("token", "reward"))
    noisy = [by["noise", signal].false_alarms for signal in SAID]
    rule = "" if done.rule is None else f" The rule this gives: {_rule(done.rule)}."
    return (
        f"Support was lost in {free} of {grpo} trainings with GRPO, certain from step {_between(steps)} on, "
        f"and in {len(lossy) - free} of {len(done.courses) - grpo} on a short leash. At the threshold of noise, the "
        f"signals also spoke in {_between(noisy)} of the {by['noise', 'answer'].quiet} trainings that lost "
        f"nothing: that the model moves does not say that support is lost. At the threshold `loss`: {told}. "
        f"{ahead}{rule} This is one small world, {grpo} seeds and a look every {done.plan['every']} steps; the steps "
        "are not to be carried over."
    )


def _told(one: SignalFound) -> str:
    when = "" if np.isnan(one.delay) else f" {_steps(one.delay)} on average"
    return (
        f"{SAID[one.signal]} announced {one.losses - one.misses} of {one.losses} losses{when}, "
        f"{one.false_alarms} of {one.quiet} falsely"
    )


def _ahead(answer: SignalFound, other: SignalFound) -> str:
    """Whether answer entropy came before another signal, training by training, with the sign test."""
    pairs = [(a.step, b.step) for a, b in zip(answer.alarms, other.alarms, strict=True) if a.lost_at is not None]
    before = sum(_place(a) < _place(b) for a, b in pairs)
    after = sum(_place(a) > _place(b) for a, b in pairs)
    p = mcnemar(before, after)
    sure = "" if p < SURE else ", which is not beyond chance"
    return (
        f"Answer entropy came before {SAID[other.signal]} in {before} and after it in {after} of {len(pairs)} "
        f"trainings (sign test p = {p:.2g}{sure})."
    )


def _place(step: int | None) -> float:
    return float("inf") if step is None else float(step)


def _steps(delay: float) -> str:
    if round(delay, 1) == 0:
        return "when it was certain"
    steps = many(round(abs(delay)), "step")
    return f"{steps} {'before' if delay < 0 else 'after'} it was certain"


def _between(numbers: Sequence[int]) -> str:
    least, most = min(numbers), max(numbers)
    return f"{least}" if least == most else f"{least} to {most}"


def _rule(rule: Rule) -> str:
    way = "rose" if rule.rises else "fell"
    return (
        f"announce when {SAID[rule.signal]} {way} by {rule.drop:.1%} of the base's or more, and by "
        f"{float(rule.errors()):.2f} standard errors ({rule.looks} looks)"
    )
