"""What a study of early warning showed."""

from collections.abc import Mapping
from dataclasses import dataclass

from research.early_warning.rule import Rule

SAID = {
    "answer": "answer entropy",
    "value": "entropy of final values",
    "token": "token entropy",
    "reward": "reward (pass@1)",
}
KINDS = {
    "noise": "drop that 5% of redraws of the base pass",
    "loss": "drop beyond all trainings that lost nothing",
}


@dataclass(frozen=True)
class Course:
    """One training, look by look."""

    recipe: str
    seed: int
    steps_T: tuple[int, ...]
    change_T: Mapping[str, tuple[float, ...]]  # of each signal, relative to the base
    spread_T: Mapping[str, tuple[float, ...]]
    certain_T: tuple[int, ...]  # real losses, at least
    loss_T: tuple[float, ...]  # 1 - SRR_retest
    low_T: tuple[float, ...]
    high_T: tuple[float, ...]
    lost_at: int | None  # the step at which a loss was first certain


@dataclass(frozen=True)
class Alarm:
    """What a threshold that was chosen on other seeds did with one training."""

    recipe: str
    seed: int
    drop: float
    step: int | None
    lost_at: int | None
    delay: float | None  # steps after the loss; negative: before it; None where either did not come
    loss_then: float | None  # the size of the loss when the alarm came


@dataclass(frozen=True)
class SignalFound:
    """One signal at one kind of threshold."""

    signal: str
    kind: str  # of KINDS
    alarms: tuple[Alarm, ...]
    misses: int
    losses: int  # trainings in which support was lost
    false_alarms: int
    quiet: int  # trainings in which it was not
    delay: float  # mean, in steps
    null_rate_S: tuple[float, ...]  # share of each seed's null trajectories with an alarm

    @property
    def errors(self) -> int:
        return self.misses + self.false_alarms


@dataclass(frozen=True)
class Tied:
    """How a signal's change follows the size of the loss: Spearman's rank correlation."""

    signal: str
    within_S: tuple[float, ...]  # over the looks of each grpo training
    pooled: float  # over all looks of all trainings
    same_step: float  # mean over looks of that across trainings at the same step


@dataclass(frozen=True)
class Published:
    """A published table of counts by step: when a monitor of counts alone would have spoken."""

    name: str
    steps_T: tuple[int, ...]
    found_T: tuple[int, ...]
    lost_T: tuple[int, ...]
    p_T: tuple[float, ...]
    seen: int | None  # first step with more lost than found
    alone: int | None  # at which McNemar's p is below 5%, as if it were the only look
    resolved: int | None  # at which it is below 5% shared among all looks
    stays: bool  # at every later look too


@dataclass(frozen=True)
class Warned:
    """What a study showed."""

    plan: Mapping[str, object]
    courses: tuple[Course, ...]
    found: tuple[SignalFound, ...]
    tied: tuple[Tied, ...]
    again_S: tuple[int, ...]  # real losses, at least, of a second draw of each base: none are real
    bonferroni_null: Mapping[str, float]  # false alarms of null trajectories by the standard error alone, no threshold
    drops: Mapping[str, float]  # of every signal, at the threshold `loss` from all seeds
    rule: Rule | None  # that this study would ship
    published: tuple[Published, ...]
    seconds: float
