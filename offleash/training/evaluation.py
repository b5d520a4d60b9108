"""What an evaluation measures, and what the monitor keeps of it in monitor.json, by which a training run is resumed.

The values go to the loggers under the names of `metrics_of`. An alarm takes two draws. In the first the losses must
exceed what chance gives with an error of ALPHA over all planned evaluations (Bonferroni: an evaluation that is never
held keeps its share); the second, at ALPHA, confirms them.
"""

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path

import numpy as np

from offleash.comparing.compare import Comparison
from offleash.data.atomic import write_text_atomically
from offleash.errors import OffleashError
from offleash.stats.binomials import Integer
from offleash.stats.entropy import entropy_at_equal_n, means
from offleash.stats.significance import losses_at_least
from offleash.stats.support_classes import AFTER, BEFORE

ALPHA = 0.05  # chance that an unchanged model raises an alarm in a whole training run
METRICS = ("SRR", "NDR", "SDS", "NSCR")


@dataclass(frozen=True)
class Alarm:
    """Losses that chance does not explain, seen in two draws."""

    step: int
    losses_at_least: int  # lost problems whose rate fell, with 95% confidence over all planned evaluations
    confirmed_at_least: int  # the same in the confirmation draw, with 95% confidence
    folder: Path  # the run folder of the evaluation
    metrics: Mapping[str, float]


@dataclass
class Evaluation:
    """One evaluation, as the state file keeps it."""

    step: int
    folder: str
    seconds: float
    metrics: dict[str, float]
    losses_at_least: int
    confirmed_at_least: int | None = None  # None: there was nothing to confirm, or the second draw failed
    net_ratio: float | None = None  # SRR over the base's redraw SRR at the same k

    @property
    def alarm(self) -> bool:
        """Whether losses were seen in both draws."""
        return bool(self.confirmed_at_least)


@dataclass
class MonitorState:
    """What a resumed training run needs: the settings that must not change, and the evaluations so far."""

    settings: dict[str, object]
    planned: int = 0  # evaluations of the whole training run
    base_entropy: float | None = None  # of tokens
    evaluations: list[Evaluation] = field(default_factory=list)
    postponed: int = 0
    seconds: float = 0.0  # of training so far, evaluations included
    spent: float = 0.0  # of these in evaluations, failed ones included
    best_step: int | None = None  # of the copy in best_above_floor
    best_pass_1: float = -1.0


def read_state(file: Path) -> MonitorState:
    """The state that an earlier part of a training run has stored."""
    try:
        document = json.loads(file.read_text(encoding="utf-8"))
        rows = [Evaluation(**row) for row in document.pop("evaluations")]
        return MonitorState(**{**document, "evaluations": rows})
    except (OSError, ValueError, TypeError, KeyError, AttributeError) as error:
        raise OffleashError(f"{file} cannot be read ({error}). Restore it, or give out=.") from None


def write_state(file: Path, state: MonitorState) -> None:
    """Store the state, whole or not at all."""
    file.parent.mkdir(parents=True, exist_ok=True)
    write_text_atomically(file, json.dumps(asdict(state), indent=2) + "\n")


def metrics_of(comparison: Comparison, k: int) -> dict[str, float]:
    """The values of an evaluation by the names under which they are logged; what is undefined is left out."""
    change, tally = comparison.change, comparison.tally
    values: dict[str, float] = {f"support/{cell}": getattr(change, cell) for cell in "PESO"}
    for name in METRICS:
        interval = change.interval[name]
        values |= {f"support/{name.lower()}": change.value[name]}
        values |= {f"support/{name.lower()}_low": interval.low, f"support/{name.lower()}_high": interval.high}
    after = comparison.curves["after"]
    for wanted in sorted({1, k}):
        k_index = int(np.flatnonzero(after.k_K == wanted)[0])
        name = f"probe/pass@{wanted}"
        values |= {name: float(after.value_K[k_index]), f"{name}_low": float(after.low_K[k_index])}
        values |= {f"{name}_high": float(after.high_K[k_index])}
    if comparison.answers is not None:
        counts = [(run.count_A[run.answer_A >= 0], run.problem_A[run.answer_A >= 0]) for run in comparison.answers]
        whole = means(entropy_at_equal_n(counts, len(tally))[0], np.full(len(tally), ""))
        values |= {"probe/entropy_answer": float(whole.value_R[AFTER])}
        values |= {"probe/entropy_answer_low": whole.interval_R[AFTER].low}
        values |= {"probe/entropy_answer_high": whole.interval_R[AFTER].high}
        values |= {"probe/entropy_answer_base": float(whole.value_R[BEFORE])}
    drawn = float(tally.drawn_PR[:, AFTER].sum())
    for name, column in (("unread_rate", "unread_PR"), ("failed_rate", "failed_PR"), ("clipped_ratio", "truncated_PR")):
        values[f"probe/{name}"] = float(getattr(tally, column)[:, AFTER].sum() / drawn)
    return {name: float(value) for name, value in values.items() if not np.isnan(value)}


def token_entropy_values(entropy_P: np.ndarray) -> dict[str, float]:
    """The mean over problems with a normal interval: tokens of one problem are not independent."""
    mean, error = (
        float(entropy_P.mean()),
        float(entropy_P.std(ddof=1) / len(entropy_P) ** 0.5) if len(entropy_P) > 1 else 0.0,
    )
    ends = {"_low": mean - 1.96 * error, "_high": mean + 1.96 * error}
    return {"probe/entropy_token": mean, **{f"probe/entropy_token{end}": value for end, value in ends.items()}}


def first_losses(drawn_P2: Integer, correct_P2: Integer, planned: int) -> int:
    """Problems lost at least, beyond what chance gives in any of the planned evaluations; 0: nothing to confirm."""
    return losses_at_least(drawn_P2, correct_P2, 1 - ALPHA / planned)


def confirmed_losses(drawn_P2: Integer, correct_P2: Integer) -> int:
    """Problems lost at least in the confirmation draw; 0: no alarm."""
    return losses_at_least(drawn_P2, correct_P2, 1 - ALPHA)
