"""Ways of solving: which methods of the run before the run after still has, which it lost, and which are new."""

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
    tell_run,
)
from offleash.analyses.strategies.samples import Example, examples
from offleash.analyses.strategies.ways import scan_ways
from offleash.comparing.align import match
from offleash.comparing.compare import Comparison, compare
from offleash.comparing.decodings import same_decoding
from offleash.comparing.question import Question
from offleash.data.folder import is_run
from offleash.data.run import Run
from offleash.data.tally import Per
from offleash.data.verdict import Verdict
from offleash.data.verdicts import VERDICT, VERDICTS
from offleash.errors import OffleashError
from offleash.loading.arguments import parse_argument
from offleash.loading.load import Reading, load
from offleash.loading.texts import with_texts
from offleash.progress import Progress, silent
from offleash.stats.intervals import strata
from offleash.stats.significance import certain, loss_p
from offleash.stats.strategies import Basis, Novelty, Richness, WayCounts, novelty, richness
from offleash.verifiers.sandbox.pool import Pool

SHOWN = 5  # lost and new ways with a sample each


@dataclass(frozen=True)
class Ways:
    """What became of the ways of solving: support per way, novelty, richness, and what was lost and found."""

    comparison: Comparison  # per solution, where a solution is a way
    by: Fingerprint
    coverage: tuple[Coverage, Coverage]
    counts: WayCounts
    novelty: dict[Basis, Novelty | None]
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
    reading: Reading | None = None,
    jobs: int = 0,
    shown: int = SHOWN,
    progress: Progress = silent,
    again: bool = False,
) -> Ways:
    """Tell the ways of two runs by a fingerprint and compare them; logs are copied into scratch folders first."""
    chosen, reading, asked = fingerprint(by), reading or Reading(), asked or Question()
    _refuse_same(arguments)
    if jobs < 0:
        raise OffleashError(f"Worker processes are counted from 0 (one a core); found --jobs {jobs}.")
    if reading.options.split_by is not None:
        raise OffleashError("--split-by leaves texts where they are; import each run: offleash import LOGS -o RUN.")
    with with_texts(arguments, reading, progress) as read, Pool(jobs or os.cpu_count() or 1) as pool:
        copied = [not is_run(parse_argument(given).paths[0]) for given in arguments]
        folders = [_folder(text, given) for text, given in zip(read.arguments, arguments, strict=True)]
        runs = load(*read.arguments, reading=reading, progress=progress)
        for folder, run, is_log in zip(folders, runs, copied, strict=True):
            refuse_untold(run, str(folder), is_log)
        match(runs)  # what cannot be compared is refused before the work
        same_decoding(runs[0], runs[1], asked.allow)
        reader = Reader(identified(chosen, pool), pool, progress)
        before, after = (tell_run(folder, reader, reading.verifier, progress, again) for folder in folders)
        _refuse_unread(chosen, runs, (before, after))
        named = [replace(run, notes=read.notes.get(run.name, ()) + run.notes) for run in runs]
        told = [with_ways(run, folder, reader.by) for run, folder in zip(named, folders, strict=True)]
        progress(f"comparing the ways of {runs[0].name} and {runs[1].name}")
        return compare_ways(told, reader.by, (before, after), replace(asked, per=Per.SOLUTION), shown)


def compare_ways(
    told: Sequence[Run], by: Fingerprint, coverage: tuple[Coverage, Coverage], asked: Question, shown: int = SHOWN
) -> Ways:
    """Compare two runs whose verdicts have ways in the place of solutions."""
    one = compare(told[0], told[1], asked)
    counts = counts_of(one)
    k, how = one.change.k, (asked.replicates, asked.seed)
    drawn_W2 = counts.drawn_P2[counts.problem_W]
    trouble = misread((one.change.before, one.change.after), coverage)
    return Ways(
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


def counts_of(one: Comparison) -> WayCounts:
    """The counts of ways of a comparison, problem by problem."""
    whole, pair = one.counted.tally, one.tally
    order = np.argsort(whole.problem_P)
    row_W = order[np.searchsorted(whole.problem_P, pair.problem_P, sorter=order)].astype(np.int64)
    return WayCounts(pair.correct_PR, row_W, whole.drawn_PR, strata(whole.benchmark_P))


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
