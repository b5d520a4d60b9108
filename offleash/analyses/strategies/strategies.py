"""Strategies compared: which methods of the run before the run after still has, which it lost, which are new.

A strategy takes the place of a solution: the verdicts of both runs get the strategy of each correct sample as its
solution (`with_strategies_as_solutions`), and an ordinary comparison per solution does the rest.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import polars as pl

from offleash.analyses.strategies.fingerprints.fingerprint import Fingerprint
from offleash.analyses.strategies.fingerprints.registry import fingerprint
from offleash.analyses.strategies.read import (
    CORRECT,
    KEY,
    Coverage,
    Reader,
    coverage_caution,
    read_run,
    refuse_unreadable,
    scan_strategies,
    with_revision,
)
from offleash.comparing.align import match, same_decoding
from offleash.comparing.compare import Comparison, compare
from offleash.comparing.question import Question
from offleash.cpus import usable_cpus
from offleash.data.run import Run
from offleash.data.run_folder import Scratch, is_run
from offleash.data.tables import VERDICT, VERDICTS
from offleash.data.tally import Per
from offleash.data.verdict import Verdict
from offleash.errors import OffleashError
from offleash.loading.arguments import parse_argument
from offleash.loading.import_logs import copy_logs
from offleash.loading.load import LoadOptions, load
from offleash.progress import Progress, silent
from offleash.render.escape import clean
from offleash.stats.intervals import strata
from offleash.stats.significance import holm_rejections, loss_p
from offleash.stats.strategies import Basis, Richness, StrategyCounts, StrategyNovelty, novelty, richness
from offleash.stats.support_classes import AFTER, BEFORE
from offleash.verifiers.sandbox.pool import Pool

SHOWN = 5  # lost and new strategies with a sample each


@dataclass(frozen=True)
class Example:
    """A strategy that one run shows and the other never does, with a sample; texts are cleaned for a terminal."""

    problem: str
    strategy: str
    seen: tuple[int, int]  # in the run before and in the run after
    drawn: tuple[int, int]
    p: float  # one-sided: chance that all its samples fall to this run, if no rate had changed
    index: int  # of the sample; -1 where the run keeps no texts
    text: str


@dataclass(frozen=True)
class StrategyComparison:
    """Strategies of two runs: support per strategy, novelty, richness, and the lost and new ones."""

    comparison: Comparison  # per solution, where a solution is a strategy
    by: Fingerprint
    coverage: tuple[Coverage, Coverage]
    counts: StrategyCounts
    novelty: dict[Basis, StrategyNovelty | None]
    richness: dict[Basis, Richness | None]
    coverage_caution: (
        str  # why strategies may seem lost or new by reading alone; empty: both runs are read equally well
    )
    lost_at_least: int | None  # significant at 95% family-wise; Holm's correction holds whatever their dependence
    new_at_least: int | None  # both None where strategies may be lost by reading
    lost: tuple[Example, ...]  # the most frequent strategies of the run before that the run after never shows
    new: tuple[Example, ...]


def compare_strategies(
    arguments: Sequence[str],
    by: str,
    question: Question | None = None,
    options: LoadOptions | None = None,
    jobs: int = 0,
    shown: int = SHOWN,
    progress: Progress = silent,
    again: bool = False,
) -> StrategyComparison:
    """Read the strategies of two runs by a fingerprint and compare them.

    Args:
        arguments: the run before and the run after; logs are copied into scratch folders first.
        by: a name in FINGERPRINTS, or a function of the user's (FILE.py:NAME).
        question: k, replicates and seed of the comparison.
        options: how logs are read.
        jobs: worker processes; 0: one per core.
        shown: how many lost and how many new strategies to show with a sample.
        progress: called with a line of text as work is done.
        again: read stored strategies again.
    """
    chosen, options, question = fingerprint(by), options or LoadOptions(), question or Question()
    _refuse_same(arguments)
    if options.options.split_by is not None:
        raise OffleashError(
            "--split-by does not copy the texts that strategies are read from. Import each run: "
            "offleash import LOGS -o RUN."
        )
    scratch = Scratch()  # removed when this function is left
    read = copy_logs(arguments, options, scratch, progress)
    with Pool(jobs or usable_cpus()) as pool:
        are_logs = [not is_run(parse_argument(argument).paths[0]) for argument in arguments]
        folders = [_folder(text, argument) for text, argument in zip(map(str, read.inputs), arguments, strict=True)]
        runs = load(*read.inputs, options=options, progress=progress)
        for folder, run, is_log in zip(folders, runs, are_logs, strict=True):
            refuse_unreadable(run, str(folder), is_log)
        # Runs that cannot be compared are refused here, before the hours that reading may take.
        match(runs)
        same_decoding(runs[0], runs[1], question.allow)
        reader = Reader(with_revision(chosen, pool), pool, progress)
        before, after = (read_run(folder, reader, options.verdicts, progress, again) for folder in folders)
        _refuse_unread(chosen, runs, (before, after))
        runs_with_notes = [replace(run, notes=read.notes.get(run.name, ()) + run.notes) for run in runs]
        solved = [
            with_strategies_as_solutions(run, folder, reader.by)
            for run, folder in zip(runs_with_notes, folders, strict=True)
        ]
        progress(f"comparing the strategies of {runs[0].name} and {runs[1].name}")
        return compare_solutions(solved, reader.by, (before, after), replace(question, per=Per.SOLUTION), shown)


def compare_solutions(
    runs: Sequence[Run], by: Fingerprint, coverage: tuple[Coverage, Coverage], question: Question, shown: int = SHOWN
) -> StrategyComparison:
    """Compare two runs whose verdicts have strategies in the place of solutions."""
    comparison = compare(runs[0], runs[1], question)
    counts = counts_of(comparison)
    k, resampling = comparison.change.k, (question.replicates, question.seed)
    drawn_W2 = counts.drawn_P2[counts.problem_W]
    caution = coverage_caution((comparison.change.before, comparison.change.after), coverage)
    return StrategyComparison(
        comparison=comparison,
        by=by,
        coverage=coverage,
        counts=counts,
        novelty={basis: novelty(counts, basis, k, *resampling) for basis in Basis},
        richness={basis: richness(counts, basis, k, *resampling) for basis in Basis},
        coverage_caution=caution,
        lost_at_least=None if caution else holm_rejections(loss_p(drawn_W2, counts.count_W2)),
        new_at_least=None if caution else holm_rejections(loss_p(drawn_W2[:, ::-1], counts.count_W2[:, ::-1])),
        lost=examples(comparison, counts, shown, lost=True),
        new=examples(comparison, counts, shown, lost=False),
    )


def counts_of(comparison: Comparison) -> StrategyCounts:
    """How often each strategy was seen, with the problem it belongs to.

    The tally per solution has a row per (problem, strategy), the tally per problem a row per problem; `problem_W` maps
    the first onto the second.
    """
    problems, targets = comparison.counted.tally, comparison.tally
    order = np.argsort(problems.problem_P)
    row_W = order[np.searchsorted(problems.problem_P, targets.problem_P, sorter=order)].astype(np.int64)
    return StrategyCounts(targets.correct_PR, row_W, problems.drawn_PR, strata(problems.benchmark_P))


def with_strategies_as_solutions(run: Run, folder: Path, by: Fingerprint) -> Run:
    """The run with strategies as the solutions of its correct samples; one whose strategy is unknown is unread.

    Unread and not wrong: the sample stays among those drawn, and the share of unread samples stays visible.
    """
    assert run.verdicts is not None, "checked before"
    strategies = scan_strategies(folder, by.identity).select(*KEY, "way")
    unread = CORRECT & pl.col("way").is_null()
    joined = run.verdicts.select(*KEY, "verdict").join(strategies, on=KEY, how="left")
    judged = joined.with_columns(
        verdict=pl.when(unread).then(pl.lit(Verdict.UNREAD.value, VERDICT)).otherwise(pl.col("verdict")),
        solution=pl.when(CORRECT).then(pl.col("way")),
    ).drop("way")
    # The other columns of a verdict (answer, reason, ...) belong to the verifier and would mean something else here.
    empty = [
        pl.lit(None, kind).alias(name) for name, kind in VERDICTS.items() if name not in (*KEY, "verdict", "solution")
    ]
    return replace(run, verdicts=judged.with_columns(empty).select(*VERDICTS).collect().lazy())


def _folder(text: str, argument: str) -> Path:
    """The run folder that an argument names, after logs were copied."""
    paths = parse_argument(text).paths
    if len(paths) > 1 and any(is_run(path) for path in paths):
        raise OffleashError(f"{argument!r} names {len(paths)} run folders, but each side takes one. Name one.")
    if not is_run(paths[0]):
        raise OffleashError(
            f"{argument!r} holds counts, or logs without verdicts, but a strategy is read from the text of a correct "
            f"sample. Import logs with texts (offleash import {argument} -o RUN --texts), then offleash verify RUN."
        )
    return paths[0]


def _refuse_same(arguments: Sequence[str]) -> None:
    if len(arguments) != 2:
        raise OffleashError(f"Strategies are compared between two runs, before and after; found {len(arguments)}.")
    before, after = ({path.resolve() for path in parse_argument(argument).paths} for argument in arguments)
    if before == after:
        raise OffleashError(
            f"{arguments[0]!r} and {arguments[1]!r} are the same run. Name the run before training and the run after."
        )


def _refuse_unread(by: Fingerprint, runs: Sequence[Run], coverage: tuple[Coverage, Coverage]) -> None:
    if sum(run.read for run in coverage):
        return
    if not sum(run.correct for run in coverage):
        names = " nor ".join(repr(run.name) for run in runs)
        raise OffleashError(
            f"Neither {names} has a correct sample, but strategies are read from correct ones. Draw more samples, or "
            "check the verdicts with offleash verify."
        )
    why = next((f" ({side.trouble})" for side in coverage if side.trouble), "")
    correct = " and ".join(f"{side.correct:,} of {run.name!r}" for run, side in zip(runs, coverage, strict=True))
    raise OffleashError(
        f"The fingerprint {by.function or by.name!r} could not read the strategy of any of the correct samples "
        f"({correct}){why}. Choose another with --by."
    )


# Examples of lost and new strategies: the most frequent ones, each with the first sample that uses it.


WIDTH = 240  # characters of a text that are shown, from its end: models finish with the result and the step to it


def examples(comparison: Comparison, counts: StrategyCounts, shown: int, lost: bool) -> tuple[Example, ...]:
    """The most frequent strategies that are lost, or new; no problem has two before every such problem has one."""
    side, other = (BEFORE, AFTER) if lost else (AFTER, BEFORE)
    count_W2, drawn_W2 = counts.count_W2[:, [side, other]], counts.drawn_P2[counts.problem_W][:, [side, other]]
    alone = np.flatnonzero((count_W2[:, 0] > 0) & (count_W2[:, 1] == 0))
    alone = alone[np.argsort(-count_W2[alone, 0], kind="stable")]
    # By rank within the problem first, then by frequency, which is the order that `alone` has already.
    rank = _rank_in_problem(counts.problem_W[alone])
    target_indices = alone[np.lexsort((np.arange(len(alone)), rank))][:shown]
    p_W = loss_p(drawn_W2[target_indices], count_W2[target_indices])
    texts = _texts(comparison, target_indices, side)
    out = []
    for target, p in zip(target_indices, p_W, strict=True):
        problem, strategy = str(comparison.tally.problem_P[target]), _strategy(comparison, target)
        index, text = texts.get((problem, strategy), (-1, ""))
        before, after = (int(n) for n in counts.count_W2[target])
        drawn_before, drawn_after = (int(n) for n in comparison.tally.drawn_PR[target])
        seen, drawn = (before, after), (drawn_before, drawn_after)
        out.append(Example(clean(problem), clean(strategy), seen, drawn, float(p), index, text))
    return tuple(out)


def _rank_in_problem(problem_W: np.ndarray) -> np.ndarray:
    """How many strategies of the same problem come before each."""
    seen: dict[int, int] = {}
    out = []
    for problem in problem_W.tolist():
        out.append(seen.get(problem, 0))
        seen[problem] = out[-1] + 1
    return np.array(out, dtype=np.int64)


def _strategy(comparison: Comparison, target: int) -> str:
    assert comparison.tally.target_P is not None, "targets are strategies"
    return str(comparison.tally.target_P[target])


def _texts(comparison: Comparison, target_indices: np.ndarray, side: int) -> dict[tuple[str, str], tuple[int, str]]:
    """The first sample of each strategy in `places`, by problem and strategy: its index and the end of its text."""
    run, names = (comparison.before, comparison.after)[side], comparison.counted.own[side]
    if not len(target_indices) or run.verdicts is None or run.samples is None:
        return {}
    # `shared` is the id that both runs are aligned by, `problem` the id that this run stores.
    wanted = pl.DataFrame(
        {
            "shared": [str(comparison.tally.problem_P[target]) for target in target_indices],
            "solution": [_strategy(comparison, target) for target in target_indices],
        }
    ).join(names.rename({"problem": "shared", "own": "problem"}), on="shared")
    hits = run.verdicts.join(wanted.lazy(), on=["problem", "solution"], how="inner")
    first = hits.group_by("problem", "solution", "shared").agg(pl.col("index").min()).collect()
    # Filtered by problem first: Parquet skips row groups by it, and texts are the bulk of a run.
    near = run.samples.filter(pl.col("problem").is_in(first["problem"].unique().to_list()))
    samples = near.select(*KEY, "text").join(first.lazy(), on=KEY).collect()
    return {
        (row["shared"], row["solution"]): (int(row["index"]), _end(row["text"] or ""))
        for row in samples.iter_rows(named=True)
    }


def _end(text: str) -> str:
    return ("…" if len(text) > WIDTH else "") + clean(text[-WIDTH:])
