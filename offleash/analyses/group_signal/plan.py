"""Plan a training run from the base's counts: groups without signal, problems out of reach, solutions at risk, weights.

The plan, then its JSON, its table and its file of weights. The arithmetic is stats/groups.py.
"""

import io
import json
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import polars as pl
from rich import box
from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from offleash.comparing.tally import tally
from offleash.data.run import Run
from offleash.data.verdict import Verdict
from offleash.errors import OffleashError
from offleash.render.escape import clean, spreadsheet_text
from offleash.render.json import SCHEMA, Json, encode
from offleash.render.numbers import many
from offleash.render.output import write_bytes
from offleash.stats.groups import (
    GroupSignal,
    RateShift,
    chance_lost,
    draws_for_half,
    group_signal,
    rate_posterior,
    seen_posterior,
    tail_miss,
)
from offleash.stats.mixture import miss

GROUP_SIZES = (8, 16, 32, 64, 128, 256, 512)  # of groups: from the usual ones to those of BroRL
RARE_CHANCE = 0.05  # chance of a success in a group, below which a group almost never sees the problem solved
MAX_EXTRAPOLATION = 8  # times the samples drawn, beyond which counts say nothing about rates (docs/statistics.md)
SAME_MODEL = RateShift(0.0, 1.0, 0.0)
# What the GRPO of `demo --quick` (50 steps of 32 groups of 16, learning rate 3e-4) did to rates, fitted on its seeds 1
# to 4 and judged on seed 0 and on another world: python -m research.chance_of_loss (research/chance_of_loss/README.md).
GRPO_OF_THE_LAB = RateShift(offset=2.605, slope=1.805, noise=0.737)
LISTED = 5  # solutions at risk in the terminal
WEIGHT_FILES = (".csv", ".jsonl", ".parquet")


@dataclass(frozen=True)
class ProblemPlan:
    """One problem: its rate, and what a group of the planned size would see of it."""

    problem: str
    n: int
    c: int
    rate: float  # posterior mean
    solved: float  # chance that a group includes a correct sample
    signal: float  # chance that a group has correct and wrong samples
    weight: float  # for a curriculum; the mean over problems is 1
    loss_by_chance: float | None  # of a solved problem: that as many samples of the same model would not solve it
    chance_of_loss: float | None  # the same after a training run such as the lab's (GRPO_OF_THE_LAB)


@dataclass(frozen=True)
class SolutionRisk:
    """A solution that groups would seldom sample while they train on its problem."""

    problem: str
    solution: str
    seen: int
    samples: int
    missed: float  # chance that a group has a signal without this solution in it


@dataclass(frozen=True)
class TrainingPlan:
    """What groups of a training run would see, from counts of its base."""

    run: str
    group: int
    groups: int  # per step
    samples: int  # of the base per problem, median
    signals: tuple[GroupSignal, ...]
    problems: tuple[ProblemPlan, ...]
    seldom: tuple[str, ...]  # problems that a group almost never sees solved
    draws_for_half: int | None  # samples per problem at which half of these are solved
    tokens: float | None  # per sample
    solutions: tuple[SolutionRisk, ...] | None  # None: the counts are not of solutions
    solutions_missed: tuple[float, ...] = ()  # mean over solutions of `missed`, at each size of GROUP_SIZES


def plan_groups(run: Run, group: int = 16, groups: int = 64) -> TrainingPlan:
    """Plan a training run with groups of `group` samples, `groups` of them per step."""
    counted = tally([run]).tally
    drawn_P, correct_P = counted.drawn_PR[:, 0], counted.correct_PR[:, 0]
    if not correct_P.any():
        raise OffleashError(
            f"{run.name!r} solves none of its {len(counted)} problems in {int(np.median(drawn_P))} samples each: no "
            "group would have a signal. Choose easier problems, or draw more samples."
        )
    posterior = rate_posterior(drawn_P, correct_P)
    rate_J = posterior.rate_J
    rate_P, solved_P = posterior.mean(rate_J), 1 - posterior.mean(miss(rate_J, group))
    signal_P = np.maximum(solved_P - posterior.mean(rate_J**group), 0.0)
    unscaled_weight_P = signal_P * (
        1 - rate_P
    )  # of two problems with the same signal the harder one, which GRPO sees less of
    weight_P = (
        unscaled_weight_P / unscaled_weight_P.mean() if unscaled_weight_P.any() else np.ones_like(unscaled_weight_P)
    )
    by_chance_P, lost_P = np.zeros(len(counted)), np.zeros(len(counted))
    for n in np.unique(drawn_P):  # as many samples as the base had: numbers may differ between problems
        chosen_P = drawn_P == n
        by_chance_P[chosen_P] = chance_lost(posterior, SAME_MODEL, int(n))[chosen_P]
        lost_P[chosen_P] = chance_lost(posterior, GRPO_OF_THE_LAB, int(n))[chosen_P]
    rare_P = solved_P < RARE_CHANCE
    samples = int(np.median(drawn_P))
    solutions, missed_by_size = _solutions(run, dict(zip(counted.problem_P, drawn_P, strict=True)), group)
    return TrainingPlan(
        run=run.name,
        group=group,
        groups=groups,
        samples=samples,
        signals=group_signal(drawn_P, correct_P, sorted({*GROUP_SIZES, group}), groups),
        problems=tuple(
            ProblemPlan(
                str(counted.problem_P[p]),
                int(drawn_P[p]),
                int(correct_P[p]),
                float(rate_P[p]),
                float(solved_P[p]),
                float(signal_P[p]),
                float(weight_P[p]),
                float(by_chance_P[p]) if correct_P[p] else None,
                float(lost_P[p]) if correct_P[p] else None,
            )
            for p in range(len(counted))
        ),
        seldom=tuple(str(problem) for problem in counted.problem_P[rare_P]),
        draws_for_half=draws_for_half(posterior, rare_P, MAX_EXTRAPOLATION * samples),
        tokens=_tokens(run),
        solutions=solutions,
        solutions_missed=missed_by_size,
    )


def _tokens(run: Run) -> float | None:
    if run.samples is None:
        return None
    mean = run.samples.select(pl.col("tokens").mean()).collect(engine="streaming").item()
    return None if mean is None else float(mean)


def _solutions(
    run: Run, drawn: dict[str, int], group: int
) -> tuple[tuple[SolutionRisk, ...] | None, tuple[float, ...]]:
    """The solutions that a run saw, the most at risk first; None where it has none."""
    if run.verdicts is None:
        return None, ()
    correct = pl.col("verdict") == Verdict.CORRECT.value
    counts = (
        run.verdicts.filter(correct & pl.col("solution").is_not_null())
        .group_by("problem", "solution")
        .agg(pl.len().alias("seen"))
        .sort("problem", "solution")
        .collect(engine="streaming")
    )
    counts = counts.filter(pl.col("problem").is_in(list(drawn)))
    if counts.is_empty():
        return None, ()
    seen_S = counts["seen"].to_numpy()
    drawn_S = np.array([drawn[problem] for problem in counts["problem"]])
    total = counts.select(pl.col("seen").sum().over("problem"))["seen"].to_numpy()
    posterior = seen_posterior(drawn_S, seen_S)
    other_rate_S1 = ((total - seen_S) / drawn_S)[:, None]  # of the other solutions: known far better than a rare one
    solution_rate_SJ = np.minimum(posterior.rate_J, 1 - other_rate_S1)

    def miss_chance_at(size: int) -> np.ndarray:
        return np.asarray(
            (posterior.weight_PJ * tail_miss(solution_rate_SJ, solution_rate_SJ + other_rate_S1, size)).sum(axis=1)
        )

    miss_chance_S = miss_chance_at(group)
    order = np.argsort(-miss_chance_S, kind="stable")
    rows = counts.rows()
    risks = tuple(
        SolutionRisk(rows[s][0], rows[s][1], int(seen_S[s]), int(drawn_S[s]), float(miss_chance_S[s])) for s in order
    )
    return risks, tuple(float(miss_chance_at(size).mean()) for size in GROUP_SIZES)


# The plan as JSON, as a table and as a file of weights.


def group_plan_document(plan: TrainingPlan) -> Json:
    """The plan as JSON."""
    return encode(
        {
            "schema": SCHEMA,
            "run": plan.run,
            "group": plan.group,
            "groups": plan.groups,
            "samples": plan.samples,
            "sizes": [
                {
                    "group": signal.size,
                    "all_wrong": signal.all_wrong,
                    "all_right": signal.all_right,
                    "no_signal": signal.none,
                    "interval": [signal.low, signal.high],
                    "step_interval": [signal.step_low, signal.step_high],
                    "samples": signal.size * len(plan.problems),
                    "tokens": None if plan.tokens is None else plan.tokens * signal.size * len(plan.problems),
                    "signals_per_1000_samples": 1000 * (1 - signal.none) / signal.size,
                }
                for signal in plan.signals
            ],
            "seldom_solved": plan.seldom,
            "draws_for_half": plan.draws_for_half,
            "draws_for_half_reason": _why_no_half(plan),
            "problems": plan.problems,
            "solutions": None
            if plan.solutions is None
            else {
                "count": len(plan.solutions),
                "missed": dict(zip(map(str, GROUP_SIZES), plan.solutions_missed, strict=True)),
                "at_risk": plan.solutions,
            },
            "solutions_reason": None if plan.solutions is not None else NO_SOLUTIONS,
        }
    )


NO_SOLUTIONS = "the input has counts, but no solutions: give a run folder whose verifier stores them"


def _why_no_half(plan: TrainingPlan) -> str | None:
    """Why there is no number of draws."""
    if plan.draws_for_half is not None:
        return None
    if not plan.seldom:
        return "no problem is solved that rarely"
    return f"more than {MAX_EXTRAPOLATION * plan.samples:,} samples per problem: counts say nothing beyond that"


def group_plan_table(plan: TrainingPlan) -> RenderableType:
    """The plan for the terminal."""
    table = Table(box=box.SIMPLE_HEAD)
    columns = (
        "group",
        "all wrong",
        "all right",
        "no signal",
        "95%",
        f"95%, {plan.groups} groups",
        "samples per pass",
    )
    for name in columns:
        table.add_column(name, justify="right")
    for signal in plan.signals:
        table.add_row(
            f"{signal.size}{' <' if signal.size == plan.group else ''}",
            f"{signal.all_wrong:.1%}",
            f"{signal.all_right:.1%}",
            f"{signal.none:.1%}",
            f"{100 * signal.low:.0f}-{signal.high:.0%}",
            f"{100 * signal.step_low:.0f}-{signal.step_high:.0%}",
            f"{signal.size * len(plan.problems):,}",
        )
    return Group(Text(_reading(plan)), table, Text(_risks(plan)))


def _reading(plan: TrainingPlan) -> str:
    flips = sum(problem.loss_by_chance or 0.0 for problem in plan.problems)
    lost = sum(problem.chance_of_loss or 0.0 for problem in plan.problems)
    solved = sum(problem.c > 0 for problem in plan.problems)
    half = (
        f"To solve half of them once takes {plan.draws_for_half:,} samples each "
        f"({plan.draws_for_half * len(plan.seldom):,} in total)."
        if plan.draws_for_half is not None
        else f"Samples needed to solve half of them: {_why_no_half(plan)}."
    )
    return (
        f"{clean(plan.run)}: {many(len(plan.problems), 'problem')}, {plan.samples} samples each. For "
        f"{many(len(plan.seldom), 'problem')} a group of {plan.group} rarely has a correct sample (chance below "
        f"{RARE_CHANCE:.0%}). {half} Of the {solved} solved problems, a second draw of the same size would miss "
        f"{flips:.1f} by chance, and one from a model trained as in the lab (GRPO, 50 steps) about {lost:.0f}."
    )


def _risks(plan: TrainingPlan) -> str:
    if plan.solutions is None:
        return f"Solutions at risk are left out: {NO_SOLUTIONS}."
    size_index = GROUP_SIZES.index(plan.group) if plan.group in GROUP_SIZES else None
    share = "" if size_index is None else f" with a mean chance of {plan.solutions_missed[size_index]:.0%}"
    lines = [
        f"{many(len(plan.solutions), 'solution')} seen. A group of {plan.group} has a signal and misses one of them"
        f"{share}: what a group does not sample loses probability. Most at risk:"
    ]
    for risk in plan.solutions[:LISTED]:
        seen = f"seen {risk.seen} of {risk.samples}"
        lines.append(f"  {clean(risk.problem)}: {clean(risk.solution)[:50]} ({seen}), missed in {risk.missed:.0%}")
    return "\n".join(lines)


def write_weights(plan: TrainingPlan, run: Run, path: Path) -> None:
    """Write the weights of a curriculum: CSV, or JSON lines and Parquet with the prompts that TRL and verl read."""
    columns = ("problem", "weight", "rate", "signal", "n", "c")
    table = pl.DataFrame({name: [getattr(problem, name) for problem in plan.problems] for name in columns})
    known = run.problems.select("problem", "question", "gold").unique("problem", keep="first")
    table = table.join(known, on="problem", how="left", maintain_order="left")
    if path.suffix.lower() == ".csv":
        ids = [spreadsheet_text(problem) for problem in table["problem"]]  # a spreadsheet must not run them
        safe = table.drop("question", "gold").with_columns(problem=pl.Series(ids, dtype=pl.String))
        write_bytes(path, safe.write_csv().encode(), "--curriculum")
        return
    if table["question"].null_count():
        raise OffleashError(
            f"{clean(run.name)} has no questions, which {path.name} needs. Use --curriculum FILE.csv, or a run folder."
        )
    rows = [_dataset_row(row, index) for index, row in enumerate(table.iter_rows(named=True))]
    if path.suffix.lower() == ".jsonl":
        write_bytes(path, "".join(json.dumps(row, ensure_ascii=False) + "\n" for row in rows).encode(), "--curriculum")
        return
    buffer = io.BytesIO()
    pl.DataFrame(rows, infer_schema_length=None).write_parquet(buffer)
    write_bytes(path, buffer.getvalue(), "--curriculum")


def _dataset_row(row: dict[str, object], index: int) -> dict[str, object]:
    """A problem as TRL (prompt, solution) and verl (prompt, reward_model, extra_info) take it, with its weight."""
    return {
        "prompt": [{"role": "user", "content": row["question"]}],
        "solution": row["gold"],
        "data_source": "offleash",
        "reward_model": {"style": "rule", "ground_truth": row["gold"]},
        "extra_info": {"index": index, "problem": row["problem"], "weight": row["weight"]},
        "weight": row["weight"],
    }
