"""Several runs after the first: checkpoints of one training run, seeds or methods; the union of checkpoints.

What they are is said by `--runs-are`, else guessed from their names. Only checkpoints have a union and a trend. A
problem that one checkpoint loses another may still reach: their union says whether training lost a problem for good, or
only moved it around. It is fair only at an equal total budget, so both are given.
"""

import re
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from offleash.comparing.compare import Comparison
from offleash.comparing.question import RunsAre
from offleash.comparing.tally import tally
from offleash.data.run import Run
from offleash.errors import OffleashError
from offleash.stats.binomials import Integer
from offleash.stats.support_classes import reach_PRK

# A number after one of these words marks a run: `global_step_20`, `checkpoint-50`, `seed1`. Short forms such as `s1`
# are not taken for seeds or steps: they may as well name a model.
_NAME_PATTERNS = {
    RunsAre.CHECKPOINTS: re.compile(
        r"(?<![a-z])(?:global[-_ ]?step|steps?|checkpoint|ckpt|iteration|iter|epoch)[-_= ]?(\d+)", re.I
    ),
    RunsAre.SEEDS: re.compile(r"(?<![a-z])seed[-_= ]?(\d+)", re.I),
}


@dataclass(frozen=True)
class SeveralRuns:
    """What the runs after the first are, and how that is known."""

    value: RunsAre
    guessed: bool  # from the names; False: --runs-are
    marks: tuple[str, ...] = ()  # the parts of the names that it was guessed from


def several_runs(names: Sequence[str], given: RunsAre | None = None, column: str | None = None) -> SeveralRuns:
    """What the runs with these names are; names that show nothing are those of different methods.

    The names must be alike but for the number of a step, or of a seed, which all differ. `column` is that of
    `--split-by`, whose values are the names: a name 100 of the column `step` is step100.

    >>> several_runs(["grpo-step100", "grpo-step200"]).value
    <RunsAre.CHECKPOINTS: 'checkpoints'>
    >>> several_runs(["grpo-step100", "dapo-step100"]).value, several_runs(["seed1", "seed2"]).marks
    (<RunsAre.METHODS: 'methods'>, ('seed1', 'seed2'))
    """
    if given is not None:
        return SeveralRuns(given, guessed=False)
    if column is not None:
        names = [f"{column}{name}" if name.isdigit() else name for name in names]
    for value, mark in _NAME_PATTERNS.items():
        matches = [list(mark.finditer(name)) for name in names]
        if not all(matches):
            continue
        last = [marks[-1] for marks in matches]
        rest = {name[: at.start()] + name[at.end() :] for name, at in zip(names, last, strict=True)}
        if len(rest) == 1 and len({int(at.group(1)) for at in last}) == len(names):
            return SeveralRuns(value, guessed=True, marks=tuple(at.group(0) for at in last))
    return SeveralRuns(RunsAre.METHODS, guessed=True)


def several_runs_of(comparisons: Sequence[Comparison]) -> SeveralRuns | None:
    """What the runs after the first are; None where there is one."""
    if len(comparisons) < 2:
        return None
    question = comparisons[0].question
    return several_runs([comparison.after.name for comparison in comparisons], question.runs_are, question.split_by)


def check_runs_are(runs: Sequence[Run], given: RunsAre | None) -> None:
    """Refuse `--runs-are` where one run is compared with another: it is about runs after the first."""
    if given is not None and len(runs) == 2:
        raise OffleashError(
            f"--runs-are {given.value} needs two or more runs after the first; there is one ({runs[1].name!r}). "
            "Name more runs, or drop the option."
        )


@dataclass(frozen=True)
class CheckpointUnion:
    """The first run at k against all others together: at k each, and at the same total budget."""

    k: int  # samples per problem of the first run
    checkpoints: int  # runs after the first
    problems: int
    each_k: tuple[float, float, float, float]  # P, E, S, O with k samples of every checkpoint: more samples than before
    equal_k: tuple[float, float, float, float] | None  # with k split over the checkpoints; None when k < checkpoints


def union(runs: Sequence[Run], at: int | None = None) -> CheckpointUnion:
    """What the runs after the first reach together, on the problems that all of them have.

    Args:
        runs: the base, then its checkpoints; at least two of these.
        at: k; None: as many samples as every problem has in every run.
    """
    pair_tally = tally(runs, at).tally
    k, others = pair_tally.head, len(runs) - 1
    before_P = reach_PRK(pair_tally, np.array([k]))[:, 0, 0]

    def cells(share_KR: Integer) -> tuple[float, float, float, float]:
        """P, E, S, O with these numbers of samples of each checkpoint, mean over the rows of numbers."""
        miss_PK = np.ones((len(pair_tally), len(share_KR)))
        for r in range(others):
            # checkpoints are sampled independently, so the chances of missing a problem multiply
            miss_PK *= 1 - reach_PRK(pair_tally, share_KR[:, r])[:, 1 + r]
        after_P = 1 - miss_PK.mean(axis=1)
        both = float(before_P @ after_P)
        gained, lost = float(after_P.sum()) - both, float(before_P.sum()) - both
        # rounding may push an exact 0 just below it
        return both, gained, lost, max(len(pair_tally) - both - gained - lost, 0.0)

    each, equal = np.full((1, others), k), _shares(k, others)
    return CheckpointUnion(k, others, len(pair_tally), cells(each), cells(equal) if k >= others else None)


def _shares(k: int, others: int) -> Integer:
    """k samples split evenly; each row gives the remainder of the division to another of the checkpoints."""
    rotation = (np.arange(others)[None] - np.arange(others)[:, None]) % others
    return np.asarray(k // others + (rotation < k % others), dtype=np.int64)
