"""Thresholds that other seeds chose, what they do on each seed, and the rule that all seeds together give."""

from collections.abc import Mapping, Sequence

import numpy as np

from research.early_warning.plan import RISES, SIGNALS
from research.early_warning.report import KINDS, Alarm, Course, SignalFound, Tied
from research.early_warning.rule import NEVER, Floats, Rule, alarms, choose_drop, delays, first, rank_correlation


def evaluated(courses: Sequence[Course], null_SNT: Mapping[str, Floats]) -> tuple[SignalFound, ...]:
    """Every signal at every kind of threshold; the threshold for a seed never sees that seed."""
    return tuple(_found(signal, kind, courses, null_SNT[signal]) for kind in KINDS for signal in SIGNALS)


def drop_of(kind: str, signal: str, courses: Sequence[Course], null_SNT: Floats, left_out: int | None) -> float:
    """A threshold from all seeds but one: beyond the noise, and for `loss` beyond every training that lost nothing."""
    rises = signal in RISES
    seeds = [seed for seed in range(len(null_SNT)) if seed != left_out]
    noise = choose_drop(np.concatenate([null_SNT[seed] for seed in seeds]), rises=rises)
    quiet = [one.change_T[signal] for one in courses if one.lost_at is None and one.seed != left_out]
    if kind == "noise" or not quiet:
        return noise
    return max(noise, choose_drop(np.array(quiet), false_alarm=1 / (len(quiet) + 1), rises=rises))


def shipped(courses: Sequence[Course], null_SNT: Mapping[str, Floats], found: Sequence[SignalFound]) -> Rule | None:
    """The rule of the study: fewest errors at the threshold `loss`, then the earliest; its drop from all seeds."""
    able = [one for one in found if one.kind == "loss" and one.losses]
    if not able:
        return None
    best = min(able, key=lambda one: (one.errors, np.inf if np.isnan(one.delay) else one.delay))
    drop = drop_of("loss", best.signal, courses, null_SNT[best.signal], None)
    return Rule(best.signal, drop, looks=len(courses[0].steps_T), rises=best.signal in RISES)


def tied(courses: Sequence[Course]) -> tuple[Tied, ...]:
    """How every signal's change follows the size of the loss, turned so that 1 is the best there can be."""
    loss_NT = np.array([one.loss_T for one in courses])
    found = []
    for signal in SIGNALS:
        toward_NT = np.array([one.change_T[signal] for one in courses]) * (1 if signal in RISES else -1)
        main = [row for row, one in enumerate(courses) if one.recipe == "grpo"]
        within = tuple(rank_correlation(toward_NT[row], loss_NT[row]) for row in main)
        by_look = [rank_correlation(toward_NT[:, look], loss_NT[:, look]) for look in range(loss_NT.shape[1])]
        known = [value for value in by_look if not np.isnan(value)]
        pooled = rank_correlation(toward_NT, loss_NT)
        found.append(Tied(signal, within, pooled, float(np.mean(known)) if known else float("nan")))
    return tuple(found)


def _found(signal: str, kind: str, courses: Sequence[Course], null_SNT: Floats) -> SignalFound:
    rules = [
        Rule(signal, drop_of(kind, signal, courses, null_SNT, seed), rises=signal in RISES)
        for seed in range(len(null_SNT))
    ]
    alarm_NT = np.array([alarms(one.change_T[signal], 0.0, rules[one.seed]) for one in courses])
    result = delays(alarm_NT, np.array([np.array(one.certain_T) > 0 for one in courses]))
    every = courses[0].steps_T[0]
    quiet = sum(one.lost_at is None for one in courses)
    return SignalFound(
        signal=signal,
        kind=kind,
        alarms=tuple(
            _alarm(one, rules[one.seed].drop, int(place)) for one, place in zip(courses, result.alarm_N, strict=True)
        ),
        misses=result.misses,
        losses=len(courses) - quiet,
        false_alarms=result.false_alarms,
        quiet=quiet,
        delay=result.mean * every,
        null_rate_S=tuple(
            float((first(alarms(null_SNT[seed], 0.0, rules[seed])) != NEVER).mean()) for seed in range(len(null_SNT))
        ),
    )


def _alarm(course: Course, drop: float, place: int) -> Alarm:
    step = None if place == NEVER else course.steps_T[place]
    return Alarm(
        recipe=course.recipe,
        seed=course.seed,
        drop=drop,
        step=step,
        lost_at=course.lost_at,
        delay=None if step is None or course.lost_at is None else float(step - course.lost_at),
        loss_then=None if place == NEVER else course.loss_T[place],
    )
