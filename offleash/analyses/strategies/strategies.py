"""Strategies compared: which methods of the run before the run after still has, which it lost, which are new."""

import os
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
    identified,
    misread,
    refuse_untold,
    scan_ways,
    tell_run,
)
from offleash.comparing.align import match, same_decoding
from offleash.comparing.compare import Comparison, compare
from offleash.comparing.question import Question
from offleash.data.run import Run
from offleash.data.run_folder import is_run
from offleash.data.tables import VERDICT, VERDICTS
from offleash.data.tally import Per
from offleash.data.verdict import Verdict
from offleash.errors import OffleashError
from offleash.loading.arguments import parse_argument
from offleash.loading.import_logs import Scratch, copy_logs
from offleash.loading.load import LoadOptions, load
from offleash.progress import Progress, silent
from offleash.render.escape import clean
from offleash.stats.intervals import strata
from offleash.stats.significance import certain, loss_p
from offleash.stats.strategies import Basis, Richness, StrategyCounts, StrategyNovelty, novelty, richness
from offleash.stats.support_classes import AFTER, BEFORE
from offleash.verifiers.sandbox.pool import Pool

# Examples of lost and new strategies: the most frequent ones, each with the first sample that uses it.


WIDTH = 240  # characters of a text that are shown, from its end: there the way comes out


@dataclass(frozen=True)
class Example:
    """A way that one run shows and the other never does, with a sample; texts are cleaned."""

    problem: str
    way: str
    seen: tuple[int, int]  # in the run before and in the run after
    drawn: tuple[int, int]
    p: float  # one-sided: chance that all its samples fall to this run, had no rate changed
    index: int  # of the sample
    text: str


def examples(one: Comparison, counts: StrategyCounts, shown: int, lost: bool) -> tuple[Example, ...]:
    """The most frequent ways that are lost, or new, at most one a problem before any problem has two."""
    side, other = (BEFORE, AFTER) if lost else (AFTER, BEFORE)
    count_W2, drawn_W2 = counts.count_W2[:, [side, other]], counts.drawn_P2[counts.problem_W][:, [side, other]]
    alone = np.flatnonzero((count_W2[:, 0] > 0) & (count_W2[:, 1] == 0))
    alone = alone[np.argsort(-count_W2[alone, 0], kind="stable")]
    rank = _rank(counts.problem_W[alone])
    places = alone[np.lexsort((np.arange(len(alone)), rank))][:shown]
    p_W = loss_p(drawn_W2[places], count_W2[places])
    texts = _texts(one, places, side)
    out = []
    for place, p in zip(places, p_W, strict=True):
        problem, way = str(one.tally.problem_P[place]), _way(one, place)
        index, text = texts.get((problem, way), (-1, ""))
        seen, drawn = (tuple(int(n) for n in pair) for pair in (counts.count_W2[place], one.tally.drawn_PR[place]))
        out.append(Example(clean(problem), clean(way), (seen[0], seen[1]), (drawn[0], drawn[1]), float(p), index, text))
    return tuple(out)


def _rank(problem_W: np.ndarray) -> np.ndarray:
    """How many ways of the same problem come before each."""
    seen: dict[int, int] = {}
    out = []
    for problem in problem_W.tolist():
        out.append(seen.get(problem, 0))
        seen[problem] = out[-1] + 1
    return np.array(out, dtype=np.int64)


def _way(one: Comparison, place: int) -> str:
    assert one.tally.target_P is not None, "targets are ways"
    return str(one.tally.target_P[place])


def _texts(one: Comparison, places: np.ndarray, side: int) -> dict[tuple[str, str], tuple[int, str]]:
    """The first sample of each of some ways, by problem and way: its index and the end of its text."""
    run, names = (one.before, one.after)[side], one.counted.own[side]
    if not len(places) or run.verdicts is None or run.samples is None:
        return {}
    wanted = pl.DataFrame(
        {
            "shared": [str(one.tally.problem_P[place]) for place in places],
            "solution": [_way(one, place) for place in places],
        }
    ).join(names.rename({"problem": "shared", "own": "problem"}), on="shared")
    hits = run.verdicts.join(wanted.lazy(), on=["problem", "solution"], how="inner")
    first = hits.group_by("problem", "solution", "shared").agg(pl.col("index").min()).collect()
    near = run.samples.filter(pl.col("problem").is_in(first["problem"].unique().to_list()))
    found = near.select(*KEY, "text").join(first.lazy(), on=KEY).collect()
    return {
        (row["shared"], row["solution"]): (int(row["index"]), _end(row["text"] or ""))
        for row in found.iter_rows(named=True)
    }


def _end(text: str) -> str:
    return ("…" if len(text) > WIDTH else "") + clean(text[-WIDTH:])


SHOWN = 5  # lost and new ways with a sample each


@dataclass(frozen=True)
class StrategyComparison:
    """What became of the ways of solving: support per way, novelty, richness, and what was lost and found."""

    comparison: Comparison  # per solution, where a solution is a way
    by: Fingerprint
    coverage: tuple[Coverage, Coverage]
    counts: StrategyCounts
    novelty: dict[Basis, StrategyNovelty | None]
    richness: dict[Basis, Richness | None]
    misread: str  # why ways may seem lost or new by reading alone; empty where both runs are read alike and well
    lost_at_least: int | None  # ways whose loss is certain together, 95%: Holm holds whatever their dependence
    new_at_least: int | None  # both None where ways may be lost by reading
    lost: tuple[Example, ...]  # the most frequent ways of the run before that the run after never shows
    new: tuple[Example, ...]


def ways(
    arguments: Sequence[str],
    by: str,
    asked: Question | None = None,
    options: LoadOptions | None = None,
    jobs: int = 0,
    shown: int = SHOWN,
    progress: Progress = silent,
    again: bool = False,
) -> StrategyComparison:
    """Tell the ways of two runs by a fingerprint and compare them; logs are copied into scratch folders first."""
    chosen, options, asked = fingerprint(by), options or LoadOptions(), asked or Question()
    _refuse_same(arguments)
    if options.options.split_by is not None:
        raise OffleashError("--split-by leaves texts where they are; import each run: offleash import LOGS -o RUN.")
    scratch = Scratch()  # removed when this function is left
    read = copy_logs(arguments, options, scratch, progress)
    with Pool(jobs or os.cpu_count() or 1) as pool:
        copied = [not is_run(parse_argument(given).paths[0]) for given in arguments]
        folders = [_folder(text, given) for text, given in zip(map(str, read.inputs), arguments, strict=True)]
        runs = load(*read.inputs, options=options, progress=progress)
        for folder, run, is_log in zip(folders, runs, copied, strict=True):
            refuse_untold(run, str(folder), is_log)
        match(runs)  # what cannot be compared is refused before the work
        same_decoding(runs[0], runs[1], asked.allow)
        reader = Reader(identified(chosen, pool), pool, progress)
        before, after = (tell_run(folder, reader, options.verdicts, progress, again) for folder in folders)
        _refuse_unread(chosen, runs, (before, after))
        named = [replace(run, notes=read.notes.get(run.name, ()) + run.notes) for run in runs]
        told = [with_ways(run, folder, reader.by) for run, folder in zip(named, folders, strict=True)]
        progress(f"comparing the ways of {runs[0].name} and {runs[1].name}")
        return compare_ways(told, reader.by, (before, after), replace(asked, per=Per.SOLUTION), shown)


def compare_ways(
    told: Sequence[Run], by: Fingerprint, coverage: tuple[Coverage, Coverage], asked: Question, shown: int = SHOWN
) -> StrategyComparison:
    """Compare two runs whose verdicts have ways in the place of solutions."""
    one = compare(told[0], told[1], asked)
    counts = counts_of(one)
    k, how = one.change.k, (asked.replicates, asked.seed)
    drawn_W2 = counts.drawn_P2[counts.problem_W]
    trouble = misread((one.change.before, one.change.after), coverage)
    return StrategyComparison(
        comparison=one,
        by=by,
        coverage=coverage,
        counts=counts,
        novelty={basis: novelty(counts, basis, k, *how) for basis in Basis},
        richness={basis: richness(counts, basis, k, *how) for basis in Basis},
        misread=trouble,
        lost_at_least=None if trouble else certain(loss_p(drawn_W2, counts.count_W2)),
        new_at_least=None if trouble else certain(loss_p(drawn_W2[:, ::-1], counts.count_W2[:, ::-1])),
        lost=examples(one, counts, shown, lost=True),
        new=examples(one, counts, shown, lost=False),
    )


def counts_of(one: Comparison) -> StrategyCounts:
    """The counts of ways of a comparison, problem by problem."""
    whole, pair = one.counted.tally, one.tally
    order = np.argsort(whole.problem_P)
    row_W = order[np.searchsorted(whole.problem_P, pair.problem_P, sorter=order)].astype(np.int64)
    return StrategyCounts(pair.correct_PR, row_W, whole.drawn_PR, strata(whole.benchmark_P))


def with_ways(run: Run, folder: Path, by: Fingerprint) -> Run:
    """The run with ways as the solutions of its correct samples; one whose way is not known counts as unread."""
    assert run.verdicts is not None, "checked before"
    told = scan_ways(folder, by.identity).select(*KEY, "way")
    unread = CORRECT & pl.col("way").is_null()
    kept = run.verdicts.select(*KEY, "verdict").join(told, on=KEY, how="left")
    judged = kept.with_columns(
        verdict=pl.when(unread).then(pl.lit(Verdict.UNREAD.value, VERDICT)).otherwise(pl.col("verdict")),
        solution=pl.when(CORRECT).then(pl.col("way")),
    ).drop("way")
    rest = [
        pl.lit(None, kind).alias(name) for name, kind in VERDICTS.items() if name not in (*KEY, "verdict", "solution")
    ]
    return replace(run, verdicts=judged.with_columns(rest).select(*VERDICTS).collect().lazy())


def _folder(text: str, given: str) -> Path:
    """The run folder that an argument names, after logs were copied."""
    paths = parse_argument(text).paths
    if len(paths) > 1 and any(is_run(path) for path in paths):
        raise OffleashError(f"{given!r} names {len(paths)} run folders, and ways are told of one at a time; name one.")
    if not is_run(paths[0]):
        raise OffleashError(
            f"{given!r} holds counts, or logs without verdicts, and a way is read from the text of a correct sample. "
            f"Import logs that keep texts (offleash import {given} -o RUN --texts), then offleash verify RUN."
        )
    return paths[0]


def _refuse_same(arguments: Sequence[str]) -> None:
    if len(arguments) != 2:
        raise OffleashError(f"Ways are compared of two runs, before and after; found {len(arguments)}.")
    before, after = ({path.resolve() for path in parse_argument(given).paths} for given in arguments)
    if before == after:
        raise OffleashError(
            f"{arguments[0]!r} and {arguments[1]!r} are the same; give the run before training and the run after."
        )


def _refuse_unread(by: Fingerprint, runs: Sequence[Run], coverage: tuple[Coverage, Coverage]) -> None:
    if sum(one.read for one in coverage):
        return
    if not sum(one.correct for one in coverage):
        names = " nor ".join(repr(run.name) for run in runs)
        raise OffleashError(
            f"Neither {names} has a correct sample, and ways are told of correct ones; draw more samples, or see what "
            "the verifier says with offleash verify."
        )
    why = next((f" ({one.trouble})" for one in coverage if one.trouble), "")
    correct = " and ".join(f"{one.correct:,} of {run.name!r}" for run, one in zip(runs, coverage, strict=True))
    raise OffleashError(
        f"The fingerprint {by.function or by.name!r} could tell the way of none of the correct samples, "
        f"{correct}{why}; use another with --by."
    )
