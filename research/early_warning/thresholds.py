"""Thresholds that other seeds chose, what they do on each seed, and the rule that all seeds together give."""

from collections.abc import Mapping, Sequence

import numpy as np

from research.early_warning.plan import RISES, SIGNALS
from research.early_warning.report import KINDS, Alarm, SignalCorrelation, SignalResult, Trajectory
from research.early_warning.rule import NEVER, Floats, Rule, alarms, choose_drop, delays, first, rank_correlation


def evaluate_signals(trainings: Sequence[Trajectory], null_SNT: Mapping[str, Floats]) -> tuple[SignalResult, ...]:
    """Every signal at every kind of threshold; the threshold for a seed never sees that seed."""
    return tuple(_evaluate(signal, kind, trainings, null_SNT[signal]) for kind in KINDS for signal in SIGNALS)


def drop_of(kind: str, signal: str, trainings: Sequence[Trajectory], null_SNT: Floats, left_out: int | None) -> float:
    """A threshold from all seeds but one: beyond the noise, and for `loss` beyond every training that lost nothing."""
    rises = signal in RISES
    # Leaving the seed out keeps a threshold from being fitted to the training that it is judged by.
    seeds = [seed for seed in range(len(null_SNT)) if seed != left_out]
    noise = choose_drop(np.concatenate([null_SNT[seed] for seed in seeds]), rises=rises)
    quiet = [
        training.change_T[signal] for training in trainings if training.lost_at is None and training.seed != left_out
    ]
    if kind == "noise" or not quiet:
        return noise
    return max(noise, choose_drop(np.array(quiet), false_alarm=1 / (len(quiet) + 1), rises=rises))


def choose_rule(
    trainings: Sequence[Trajectory], null_SNT: Mapping[str, Floats], signals: Sequence[SignalResult]
) -> Rule | None:
    """The rule of the study: fewest errors at the threshold `loss`, then the earliest; its drop from all seeds."""
    candidates = [signal for signal in signals if signal.kind == "loss" and signal.losses]
    if not candidates:
        return None
    best = min(candidates, key=lambda signal: (signal.errors, np.inf if np.isnan(signal.delay) else signal.delay))
    drop = drop_of("loss", best.signal, trainings, null_SNT[best.signal], None)
    return Rule(best.signal, drop, looks=len(trainings[0].steps_T), rises=best.signal in RISES)


def signal_correlations(trainings: Sequence[Trajectory]) -> tuple[SignalCorrelation, ...]:
    """How every signal's change follows the net loss, turned so that 1 is the best there can be."""
    loss_NT = np.array([training.net_loss_T for training in trainings])
    correlations = []
    for signal in SIGNALS:
        toward_NT = np.array([training.change_T[signal] for training in trainings]) * (1 if signal in RISES else -1)
        main = [row for row, training in enumerate(trainings) if training.recipe == "grpo"]
        within = tuple(rank_correlation(toward_NT[row], loss_NT[row]) for row in main)
        by_look = [rank_correlation(toward_NT[:, look], loss_NT[:, look]) for look in range(loss_NT.shape[1])]
        known = [value for value in by_look if not np.isnan(value)]
        pooled = rank_correlation(toward_NT, loss_NT)
        correlations.append(SignalCorrelation(signal, within, pooled, float(np.mean(known)) if known else float("nan")))
    return tuple(correlations)


def _evaluate(signal: str, kind: str, trainings: Sequence[Trajectory], null_SNT: Floats) -> SignalResult:
    """One signal at one kind of threshold; each seed is judged by a rule that was chosen without it."""
    rules = [
        Rule(signal, drop_of(kind, signal, trainings, null_SNT, seed), rises=signal in RISES)
        for seed in range(len(null_SNT))
    ]
    alarm_NT = np.array([alarms(training.change_T[signal], 0.0, rules[training.seed]) for training in trainings])
    result = delays(alarm_NT, np.array([np.array(training.certain_T) > 0 for training in trainings]))
    interval = trainings[0].steps_T[0]
    quiet = sum(training.lost_at is None for training in trainings)
    return SignalResult(
        signal=signal,
        kind=kind,
        alarms=tuple(
            _alarm(training, rules[training.seed].drop, int(place))
            for training, place in zip(trainings, result.alarm_N, strict=True)
        ),
        misses=result.misses,
        losses=len(trainings) - quiet,
        false_alarms=result.false_alarms,
        quiet=quiet,
        delay=result.mean * interval,
        null_rate_S=tuple(
            float((first(alarms(null_SNT[seed], 0.0, rules[seed])) != NEVER).mean()) for seed in range(len(null_SNT))
        ),
    )


def _alarm(training: Trajectory, drop: float, place: int) -> Alarm:
    step = None if place == NEVER else training.steps_T[place]
    return Alarm(
        recipe=training.recipe,
        seed=training.seed,
        drop=drop,
        step=step,
        lost_at=training.lost_at,
        delay=None if step is None or training.lost_at is None else float(step - training.lost_at),
        net_loss_then=None if place == NEVER else training.net_loss_T[place],
    )
