"""Early warning: when a signal that a training can afford to watch has changed enough to announce a loss of support.

A signal (answer entropy, token entropy, reward) is measured on the same few problems at every look, and set against
the base's: `relative_change`. A `Rule` says how much of a change is announced; `choose_drop` finds that amount from
trajectories that had nothing to announce; `alarms` applies it; `delays` and `rank_correlation` say how good it was.
Axes: N trajectories, T looks, P problems.
"""

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.stats import t

from offleash.stats.intervals import MIN_EFFECTIVE_PROBLEMS

Floats = NDArray[np.float64]
Flags = NDArray[np.bool_]
Ints = NDArray[np.int64]

NEVER = -1  # the place of an alarm or a loss that did not come
FALSE_ALARM = 0.05  # over all looks of a training in which nothing is lost


@dataclass(frozen=True)
class Rule:
    """What is announced: a change by at least `drop`, that chance would not give at any of the planned looks.

    The chance of a false alarm is shared among the looks (Bonferroni): 20 looks at an unchanged model, each at 5%,
    would raise an alarm more often than one time in four.
    """

    signal: str
    drop: float = 0.0  # relative to the base: 0.1 is a tenth less, or a tenth more of a signal that rises
    looks: int = 1  # that are planned, this one included
    false_alarm: float = FALSE_ALARM
    rises: bool = False  # the signal goes up where support is lost, as reward does

    def __post_init__(self) -> None:
        if not (self.looks >= 1 and 0 < self.false_alarm < 1 and self.drop >= 0):
            raise ValueError(f"a rule has looks of 1 or more, 0 < false_alarm < 1 and a drop of 0 or more: {self}")

    def errors(self, problems: ArrayLike = np.inf) -> Floats:
        """How many standard errors a change has to be: Student's t, with one degree of freedom less than problems."""
        freedom = np.maximum(np.asarray(problems, np.float64) - 1, 1.0)
        return np.asarray(t.isf(self.false_alarm / self.looks, freedom))


# Measured by `python -m research.early_warning -o runs/warning` (README.md): the largest change of each signal, in
# 120 steps, of trainings in which no loss was significant. `answer` is the entropy of answers as the verifier reads
# them, there whole expressions; `value` that of final values, nearer to the answers of mathematics.
HARMLESS = {"answer": 0.077, "value": 0.181, "token": 0.253, "reward": 1.085}
# the signal with the fewest errors there, then the smallest delay; five seeds do not put it beyond the others
SHIPPED = Rule("answer", drop=HARMLESS["answer"], looks=12)


class Change(NamedTuple):
    """A signal's mean over problems relative to the base's, minus 1, and its standard error, at every look."""

    value_T: Floats
    spread_T: Floats
    problems_T: Floats  # behind both


def relative_change(value_TP: ArrayLike, base_P: ArrayLike) -> Change:
    """The change of a signal that was measured on the same problems as the base's; NaN where fewer than two are known.

    A ratio of means over the problems that both know, with the usual standard error of a ratio. It holds the noise of
    the samples of both and the differences between problems, which fewer than FEW do not show: then there is none.
    """
    value, base = np.atleast_2d(np.asarray(value_TP, np.float64)), np.asarray(base_P, np.float64)
    known_TP = ~np.isnan(value) & ~np.isnan(base)
    count_T = known_TP.sum(axis=1)
    base_TP = np.where(known_TP, base, 0.0)
    total_T = base_TP.sum(axis=1)
    usable_T = (count_T >= 2) & (total_T > 0)
    total_T = np.where(usable_T, total_T, np.nan)
    ratio_T = np.where(known_TP, value, 0.0).sum(axis=1) / total_T
    rest_TP = np.where(known_TP, value - ratio_T[:, None] * base, 0.0)
    spread_T = np.sqrt(count_T / np.maximum(count_T - 1, 1) * (rest_TP**2).sum(axis=1)) / total_T
    known_spread_T = np.where(count_T >= MIN_EFFECTIVE_PROBLEMS, spread_T, np.nan)
    return Change(ratio_T - 1, known_spread_T, count_T.astype(np.float64))


def alarms(value_T: ArrayLike, spread_T: ArrayLike, rule: Rule, problems_T: ArrayLike = np.inf) -> Flags:
    """At which looks the rule raises an alarm; never where the change is not known. Leading axes are trajectories.

    With a `spread_T` of 0 the size alone decides: for a drop that was chosen on trajectories with the same noise. Of a
    spread that was estimated, `problems_T` is the number of problems behind it: with fewer, a change has to be larger.
    """
    toward_T = _toward(value_T, rule.rises)
    with np.errstate(invalid="ignore"):
        return (
            (toward_T >= rule.drop)
            & (toward_T >= rule.errors(problems_T) * np.asarray(spread_T, np.float64))
            & (toward_T > 0)
        )


def first(flag_T: ArrayLike) -> Ints:
    """The place of the first True along the last axis; NEVER where there is none."""
    flag = np.asarray(flag_T, np.bool_)
    return np.where(flag.any(axis=-1), flag.argmax(axis=-1), NEVER).astype(np.int64)


def choose_drop(value_NT: ArrayLike, false_alarm: float = FALSE_ALARM, rises: bool = False) -> float:
    """The least drop that trajectories with nothing to announce pass, at any look, with at most this chance.

    The ceil((1 - false_alarm)(N + 1))-th of their largest changes, and just above it: another trajectory of the same
    kind passes it with chance at most `false_alarm`, whatever the law of the noise (as in conformal prediction, Vovk
    et al. 2005). With too few of them for that, their largest: then the chance is 1/(N + 1).
    """
    toward_NT = np.atleast_2d(_toward(value_NT, rises))
    known_N = ~np.isnan(toward_NT).all(axis=1)
    most_N = np.sort(np.fmax.reduce(toward_NT[known_N], axis=1))
    if not most_N.size:
        raise ValueError("no trajectory to choose a drop by")
    place = int(np.ceil((1 - false_alarm) * (most_N.size + 1) - 1e-9)) - 1
    return float(np.nextafter(max(most_N[min(place, most_N.size - 1)], 0.0), np.inf))


@dataclass(frozen=True)
class Delays:
    """Alarms of N trajectories against their losses. Places are looks, counted from 0; NEVER where there is none."""

    alarm_N: Ints
    loss_N: Ints
    delay_N: Floats  # looks from the loss to the alarm, negative: it came before; NaN where either did not come

    @property
    def misses(self) -> int:
        """Losses that were not announced."""
        return int(((self.loss_N != NEVER) & (self.alarm_N == NEVER)).sum())

    @property
    def false_alarms(self) -> int:
        """Alarms where nothing was lost."""
        return int(((self.loss_N == NEVER) & (self.alarm_N != NEVER)).sum())

    @property
    def mean(self) -> float:
        known = self.delay_N[~np.isnan(self.delay_N)]
        return float(known.mean()) if known.size else float("nan")


def delays(alarm_NT: ArrayLike, lost_NT: ArrayLike) -> Delays:
    """Alarms against losses of the same trajectories."""
    alarm_N, loss_N = np.atleast_1d(first(alarm_NT)), np.atleast_1d(first(lost_NT))
    both_N = (alarm_N != NEVER) & (loss_N != NEVER)
    return Delays(alarm_N, loss_N, np.where(both_N, (alarm_N - loss_N).astype(np.float64), np.nan))


def rank_correlation(left_N: ArrayLike, right_N: ArrayLike) -> float:
    """Spearman's, ties sharing their rank; NaN where fewer than three pairs are known, or one side does not vary."""
    left, right = np.ravel(np.asarray(left_N, np.float64)), np.ravel(np.asarray(right_N, np.float64))
    known = ~np.isnan(left) & ~np.isnan(right)
    if known.sum() < 3:
        return float("nan")
    a, b = _ranks(left[known]), _ranks(right[known])
    a, b = a - a.mean(), b - b.mean()
    scale = float(np.sqrt((a @ a) * (b @ b)))
    return float(a @ b) / scale if scale > 0 else float("nan")


def _toward(value: ArrayLike, rises: bool) -> Floats:
    """A change, positive in the direction that is announced."""
    change = np.asarray(value, np.float64)
    return change if rises else -change


def _ranks(value_N: Floats) -> Floats:
    _, code_N, count_U = np.unique(value_N, return_inverse=True, return_counts=True)
    return (np.cumsum(count_U) - (count_U - 1) / 2)[code_N]
