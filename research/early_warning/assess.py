"""From the stored looks to results: signals against the base's, truth, thresholds from other seeds, alarms."""

from dataclasses import asdict
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from offleash.data.tally import tally_of_counts
from offleash.progress import Progress
from offleash.samplers.seeds import seed_of
from offleash.stats.chance import retest
from offleash.stats.diversity import entropy_rarefied
from offleash.stats.significance import losses_at_least
from research.early_warning.follow import AGAIN, FIRST, Counts, Look, Watched, file_of, name_of, read_look
from research.early_warning.plan import BASE, RISES, SIGNALS, Job, Plan, jobs_of
from research.early_warning.published import published
from research.early_warning.report import Trajectory, WarningStudy
from research.early_warning.rule import FALSE_ALARM, Floats, Rule, alarms, relative_change
from research.early_warning.thresholds import choose_rule, drop_of, evaluate_signals, signal_correlations

TOGETHER = 20_000  # groups of samples whose entropy is computed at a time: bounds the memory of the sort
Codes = NDArray[np.int32]


def assess(plan: Plan, folder: Path, seconds: float, progress: Progress) -> WarningStudy:
    """All results of a study whose looks are stored."""
    jobs = [job for job in jobs_of(plan) if job.recipe != BASE]
    bases = [read_look(file_of(folder, Job(BASE, seed), FIRST)) for seed in range(plan.seeds)]
    redraws = [read_look(file_of(folder, Job(BASE, seed), AGAIN)).counts for seed in range(plan.seeds)]
    values = [signals(_part(base.watched, 0, plan.base_k), plan.rarefied) for base in bases]
    null: dict[str, list[Floats]] = {name: [] for name in SIGNALS}
    spread: dict[str, list[Floats]] = {name: [] for name in SIGNALS}
    for seed, base in enumerate(bases):
        progress(f"null trajectories of seed {seed}")
        for name, change in null_changes(plan, base.watched, values[seed], seed).items():
            null[name].append(change[0])
            spread[name].append(change[1])
    trainings = tuple(
        _trajectory(plan, folder, job, values[job.seed], bases[job.seed].counts, redraws[job.seed]) for job in jobs
    )
    null_SNT = {name: np.stack(results) for name, results in null.items()}
    results = evaluate_signals(trainings, null_SNT)
    by_error = {
        name: float(alarms(null_SNT[name], np.stack(spread[name]), _bare(plan, name), plan.watched).any(axis=-1).mean())
        for name in SIGNALS
    }
    return WarningStudy(
        plan={**asdict(plan), "looks": plan.looks},
        trainings=trainings,
        signals=results,
        correlations=signal_correlations(trainings),
        redraw_lost_S=tuple(
            _certain(base.counts, twice, FALSE_ALARM) for base, twice in zip(bases, redraws, strict=True)
        ),
        bonferroni_null=by_error,
        drops={name: drop_of("loss", name, trainings, null_SNT[name], None) for name in SIGNALS},
        rule=choose_rule(trainings, null_SNT, results),
        published=published(),
        seconds=seconds,
    )


def signals(watched: Watched, n: int) -> dict[str, Floats]:
    """Each signal of every problem; entropies NaN where fewer than n samples could be read."""
    return {
        "answer": code_entropy(watched.answer_PK, n),
        "value": code_entropy(watched.value_PK, n),
        "token": watched.entropy_PK.sum(axis=1) / np.maximum(watched.tokens_PK.sum(axis=1), 1),
        "reward": watched.correct_PK.mean(axis=1),
    }


def code_entropy(code_GK: Codes, n: int) -> Floats:
    """Plug-in entropy of each group of codes, rarefied to n; codes below 0 are left out."""
    out_G = np.full(len(code_GK), np.nan)
    for start in range(0, len(code_GK), TOGETHER):
        sorted_GK = np.sort(code_GK[start : start + TOGETHER], axis=1)
        groups, k = sorted_GK.shape
        begins_GK = np.ones((groups, k), np.bool_)
        begins_GK[:, 1:] = sorted_GK[:, 1:] != sorted_GK[:, :-1]
        place_A = np.flatnonzero(begins_GK)
        count_A = np.diff(np.append(place_A, groups * k))
        read_A = sorted_GK.ravel()[place_A] >= 0
        out_G[start : start + groups] = entropy_rarefied(count_A[read_A], place_A[read_A] // k, groups, n)
    return out_G


def null_changes(plan: Plan, base: Watched, value: dict[str, Floats], seed: int) -> dict[str, tuple[Floats, Floats]]:
    """Changes, and their standard errors, at every look of trajectories whose looks are all new draws of the base."""
    rng = np.random.default_rng(seed_of("null trajectories", seed))
    rest = _part(base, plan.base_k, plan.base_k + plan.null_k)
    shape = (plan.nulls, plan.looks)
    change = {name: (np.empty(shape), np.empty(shape)) for name in SIGNALS}
    order_PK = np.tile(np.arange(plan.null_k), (plan.watched, 1))
    block_TK = np.arange(plan.looks * plan.k).reshape(plan.looks, plan.k) % plan.null_k
    for row in range(plan.nulls):
        shuffled_PK = rng.permuted(order_PK, axis=1)  # looks share no sample until all null_k samples are used
        flat = _chosen(rest, shuffled_PK[:, block_TK].transpose(1, 0, 2))
        for name, value_G in signals(flat, plan.rarefied).items():
            change_of_signal = relative_change(value_G.reshape(plan.looks, plan.watched), value[name])
            change[name][0][row], change[name][1][row] = change_of_signal.value_T, change_of_signal.spread_T
    return change


def _trajectory(
    plan: Plan, folder: Path, job: Job, base: dict[str, Floats], before: Counts, again: Counts
) -> Trajectory:
    """One training from its stored looks: signals against the base, significant losses, and the net loss."""
    steps = tuple(range(plan.every, plan.looks * plan.every + 1, plan.every))
    looks = [read_look(file_of(folder, job, name_of(step))) for step in steps]
    signals_T = [signals(look.watched, plan.rarefied) for look in looks]
    change = {name: relative_change(np.stack([values[name] for values in signals_T]), base[name]) for name in SIGNALS}
    certain_T = tuple(_certain(before, look.counts, FALSE_ALARM / plan.looks) for look in looks)
    sizes = [_size(plan, before, again, look) for look in looks]
    return Trajectory(
        recipe=job.recipe,
        seed=job.seed,
        steps_T=steps,
        change_T={name: tuple(change_of_signal.value_T.tolist()) for name, change_of_signal in change.items()},
        spread_T={name: tuple(change_of_signal.spread_T.tolist()) for name, change_of_signal in change.items()},
        certain_T=certain_T,
        net_loss_T=tuple(size[0] for size in sizes),
        low_T=tuple(size[1] for size in sizes),
        high_T=tuple(size[2] for size in sizes),
        lost_at=next((step for step, certain in zip(steps, certain_T, strict=True) if certain), None),
    )


def _certain(before: Counts, after: Counts, alpha: float) -> int:
    """How many problems, at least, are significantly lost at level alpha."""
    drawn_P2 = np.stack([before.drawn_P, after.drawn_P], axis=1)
    return losses_at_least(drawn_P2, np.stack([before.correct_P, after.correct_P], axis=1), 1 - alpha)


def _size(plan: Plan, before: Counts, again: Counts, look: Look) -> tuple[float, float, float]:
    """1 - the net ratio at the budget of the truth, with the ends of its interval.

    Net: where rates of other problems rise, as training makes them, it is smaller than the share that was lost.
    """
    drawn_P2 = np.stack([before.drawn_P + again.drawn_P, look.counts.drawn_P], axis=1)
    correct_P2 = np.stack([before.correct_P + again.correct_P, look.counts.correct_P], axis=1)
    retested = retest(tally_of_counts(drawn_P2, correct_P2), plan.truth_k)
    ends = retested.net_ratio_interval
    return 1 - retested.net_ratio, 1 - ends.high, 1 - ends.low


def _bare(plan: Plan, name: str) -> Rule:
    """A rule without a threshold: a significant change, its 5% shared among the looks."""
    return Rule(name, looks=plan.looks, rises=name in RISES)


def _part(watched: Watched, start: int, end: int) -> Watched:
    """The samples from start to end of every problem."""
    return Watched(*(getattr(watched, name)[:, start:end] for name in Watched.__dataclass_fields__))


def _chosen(watched: Watched, index_TPK: NDArray[np.intp]) -> Watched:
    """Groups of samples of every look and problem, as if they were problems of their own."""
    problem = np.arange(index_TPK.shape[1])[None, :, None]
    arrays = (getattr(watched, name) for name in Watched.__dataclass_fields__)
    return Watched(*(array[problem, index_TPK].reshape(-1, index_TPK.shape[2]) for array in arrays))
