"""Counting verdicts: from runs to a tally of problems, all at the same budget k.

Different budgets are cut to the smaller one and never compared raw: the run with more samples would look wider.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
import polars as pl

from offleash.comparing.align import Alignment, match
from offleash.data.run import Run
from offleash.data.tables import TRUNCATED, Note
from offleash.data.tally import UNKNOWN, Tally
from offleash.data.verdict import Verdict
from offleash.errors import OffleashError
from offleash.render.numbers import many

# columns counted per problem: n drawn and judged, c correct, first and last index, rows with or without a verdict
_COUNT_COLUMNS = ("n", "c", "unread", "failed", "unverified", "first", "last", "rows", "truncated", "stopped")


@dataclass(frozen=True, repr=False)
class AlignedTally:
    """A tally of runs, the problems behind its rows, and the notes on what is not in it."""

    tally: Tally
    problems: pl.DataFrame  # PROBLEMS, in the order of the tally's rows
    own: tuple[pl.DataFrame, ...]  # for each run: own id, problem
    notes: tuple[Note, ...]
    random_subset: tuple[str, ...] = ()  # runs whose `head_PR` is that of random samples: only --flips uses it

    def __repr__(self) -> str:
        return repr(self.tally)


def tally(
    runs: Sequence[Run], at: int | None = None, seed: int = 0, tables: Sequence[pl.DataFrame | None] | None = None
) -> AlignedTally:
    """Count the runs' verdicts problem by problem, and among the first k samples in index order.

    Args:
        runs: what is compared, in order; problems are matched across all of them.
        at: k; None: the largest that every problem has in every run.
        seed: of the random samples that stand in for the first k of bare counts (`head_PR`); only --flips uses them.
        tables: `verdict_table` of each run, where the caller needs it too; None: they are made here.

    Returns:
        The tally of the problems that have k samples in every run, with a note on each that was left out.
    """
    matched = match(runs)
    tables = [verdict_table(run) for run in runs] if tables is None else tables
    count_tables = [
        _in_problem_order(_counts(run, table), names, matched)
        for run, table, names in zip(runs, tables, matched.own, strict=True)
    ]
    column = {name: np.stack([frame[name].to_numpy() for frame in count_tables], axis=1) for name in _COUNT_COLUMNS}
    _refuse_unusable(runs, matched, column)
    stopped_PR = column["stopped"].astype(bool)
    budget_R = np.array([_budget(run, column["n"][:, r]) for r, run in enumerate(runs)], dtype=np.int64)
    # a record that stopped at its m-th success is complete: it has the information of its whole budget
    available_PR = np.where(stopped_PR, budget_R, column["n"])
    keep_P, head, notes = _common_budget(runs, matched, available_PR, at)
    full = Tally(
        runs=tuple(run.name for run in runs),
        problem_P=matched.problems["problem"].to_numpy().astype(np.str_),
        benchmark_P=matched.problems["benchmark"].fill_null("").to_numpy().astype(np.str_),
        guess_P=matched.problems["guess"].fill_null(np.nan).to_numpy().astype(np.float64),
        drawn_PR=column["n"],
        correct_PR=column["c"],
        unread_PR=column["unread"],
        failed_PR=column["failed"],
        unverified_PR=column["unverified"],
        truncated_PR=column["truncated"],
        first_PR=column["first"],
        head_PR=np.full_like(column["n"], UNKNOWN),
        head=head,
        stopped_PR=stopped_PR,
        budget_R=budget_R,
        until_R=np.array([run.budget.until for run in runs], dtype=np.int64),
        ordered_R=np.array([run.verdicts is not None for run in runs]),
    )
    head_PR, random_subset = _count_first_k(runs, matched, full, column["rows"], column["last"], seed)
    kept = replace(full, head_PR=head_PR).rows(keep_P)
    # as a list: to convert an array, polars imports numpy.ma, a thirtieth of the time that comparing counts takes
    problems = matched.problems.filter(keep_P.tolist())
    return AlignedTally(kept, problems, matched.own, tuple(notes), tuple(random_subset))


def verdict_table(run: Run, *columns: str) -> pl.DataFrame | None:
    """How often each verdict was given to each problem: the one scan of a run's verdicts that counts need.

    Args:
        run: a run; problems have the ids that it gives them.
        columns: of the table of verdicts, such as `answer`, to count each of their values apart: then answers are
            counted by the same scan, which takes a fifth longer, instead of by another.

    Returns:
        Rows (problem, columns, verdict, count, first and last index). None for bare counts, and for a run that stopped
        early, of which only the samples up to the last success of a record are counted.
    """
    return None if run.verdicts is None or run.budget.until else _count_by_problem(run.verdicts, *columns)


def _count_by_problem(verdicts: pl.LazyFrame, *columns: str) -> pl.DataFrame:
    index = pl.col("index").cast(pl.Int64)
    count = pl.len().cast(pl.Int64).alias("count")
    verdict_counts = verdicts.group_by("problem", *columns, "verdict").agg(
        count, index.min().alias("first"), index.max().alias("last")
    )
    return verdict_counts.collect(engine="streaming")


def _counts(run: Run, table: pl.DataFrame | None) -> pl.DataFrame:
    """Counts of every problem of a run, from its `verdict_table`: its own id and the columns of _COUNT_COLUMNS."""
    if run.verdicts is None:
        assert run.counts is not None, "a run has verdicts or counts"
        zero, unknown_count = pl.lit(0, pl.Int64), pl.lit(UNKNOWN, pl.Int64)
        zeros = [zero.alias(name) for name in ("unread", "failed", "unverified", "truncated", "stopped")]
        unknown = [unknown_count.alias("first"), unknown_count.alias("last"), pl.col("n").alias("rows")]
        return run.counts.with_columns(*zeros, *unknown)
    counts = _count_until_stop(run) if table is None else _count_verdicts(table)
    truncated = pl.lit(0, pl.Int64).alias("truncated")
    if run.samples is None:
        return counts.with_columns(truncated)
    counts = counts.join(_count_samples(run, counts), on="problem", how="left").with_columns(
        pl.col("truncated", "samples").fill_null(0)
    )
    if run.budget.until:  # the samples after the last success of a record are not missing a verdict
        return counts.drop("samples")
    waiting = (pl.col("samples") - pl.col("rows")).clip(lower_bound=0)
    return counts.with_columns(unverified=pl.col("unverified") + waiting).drop("samples")


def _count_samples(run: Run, counts: pl.DataFrame) -> pl.DataFrame:
    """How many samples of each problem a run keeps, and how many of them were cut at the token limit."""
    assert run.samples is not None, "checked by the caller"
    inside = pl.col("index").cast(pl.Int64) <= pl.col("last") if run.budget.until else pl.lit(True)
    cut = ((pl.col("finish") == TRUNCATED) & inside).sum().cast(pl.Int64).alias("truncated")
    size = [pl.len().cast(pl.Int64).alias("samples"), (pl.col("index").max().cast(pl.Int64) + 1).alias("end")]
    samples = run.samples.join(counts.lazy().select("problem", "last"), on="problem", how="left")
    kept = samples.group_by("problem").agg(cut, *size).collect(engine="streaming")
    duplicated = kept.filter(pl.col("samples") > pl.col("end"))
    if duplicated.height:
        problem, _, rows, end = duplicated.row(0)
        raise _duplicates(run, problem, rows, end)
    return kept.drop("end")


def _duplicates(run: Run, problem: str, rows: int, end: int) -> OffleashError:
    """More rows than indices: some samples are there twice."""
    return OffleashError(
        f"{run.name!r} has duplicate samples of problem {problem!r}: {rows} rows with indices up to {end - 1}. "
        "A shard was copied or written twice; remove the copy."
    )


def _count_verdicts(table: pl.DataFrame) -> pl.DataFrame:
    """Counts from a table of verdicts. A null verdict is not yet judged: it is not drawn as far as statistics go."""
    verdict, count = pl.col("verdict"), pl.col("count")
    correct = verdict == Verdict.CORRECT.value
    return table.group_by("problem").agg(
        count.filter(verdict.is_not_null()).sum().alias("n"),
        count.filter(correct).sum().alias("c"),
        count.filter(verdict == Verdict.UNREAD.value).sum().alias("unread"),
        count.filter(verdict == Verdict.FAILED.value).sum().alias("failed"),
        count.filter(verdict.is_null()).sum().alias("unverified"),
        pl.col("first").filter(correct).min().fill_null(UNKNOWN),
        pl.col("last").max(),
        count.sum().alias("rows"),
        pl.lit(0, pl.Int64).alias("stopped"),
    )


def _count_until_stop(run: Run) -> pl.DataFrame:
    """Counts of a run whose records end at their until-th success, in index order: what came later stays out."""
    assert run.verdicts is not None, "a run of counts alone has no order in which to stop"
    ordered = run.verdicts.sort("problem", "index").with_columns(
        position=pl.int_range(pl.len(), dtype=pl.Int64).over("problem"),
        hits=(pl.col("verdict") == Verdict.CORRECT.value).fill_null(False).cast(pl.Int64).cum_sum().over("problem"),
    )
    gaps = ordered.filter(pl.col("position") != pl.col("index")).select("problem").unique().collect()
    if gaps.height:
        raise OffleashError(
            f"{run.name!r}: problem {gaps['problem'][0]!r} has a gap in its sample indices, so where it stopped is "
            "unknown. Resume the draw."
        )
    hit = (pl.col("verdict") == Verdict.CORRECT.value).fill_null(False).cast(pl.Int64)
    # the until-th success itself belongs to the record, whatever follows it does not
    record = ordered.filter(pl.col("hits") - hit < run.budget.until)
    # samples after the last judged one may still be waiting; one before it would shift where the record stops
    judged = pl.col("index").filter(pl.col("verdict").is_not_null()).max().over("problem")
    unverified_gaps = (
        record.filter(pl.col("verdict").is_null() & (pl.col("index") < judged)).select("problem").unique().collect()
    )
    if unverified_gaps.height:
        raise OffleashError(
            f"{run.name!r}: problem {unverified_gaps['problem'][0]!r} has a sample without a verdict among judged "
            "ones, so where it stopped is unknown. Judge it with `offleash verify`."
        )
    counts = _count_verdicts(_count_by_problem(record))
    return counts.with_columns(stopped=(pl.col("c") >= run.budget.until).cast(pl.Int64))


def _in_problem_order(counts: pl.DataFrame, names: pl.DataFrame, matched: Alignment) -> pl.DataFrame:
    """The counts in the order of the matched problems; a problem of which nothing was drawn has zeros."""
    renamed = counts.rename({"problem": "own"}).join(names, on="own").drop("own")
    aligned_counts = matched.problems.select("problem").join(renamed, on="problem", how="left", maintain_order="left")
    return aligned_counts.with_columns(pl.col("first", "last").fill_null(UNKNOWN)).with_columns(
        pl.col(name).fill_null(0).cast(pl.Int64) for name in _COUNT_COLUMNS
    )


def _refuse_unusable(runs: Sequence[Run], matched: Alignment, column: dict[str, np.ndarray]) -> None:
    """Refuse samples that are there twice, which would count one success as two, and runs without any verdict."""
    drawn_PR, unverified_PR = column["n"], column["unverified"]
    for r, run in enumerate(runs):
        duplicated_P = (column["last"][:, r] >= 0) & (column["rows"][:, r] > column["last"][:, r] + 1)
        if duplicated_P.any():
            row = int(duplicated_P.argmax())
            raise _duplicates(run, matched.problems["problem"][row], column["rows"][row, r], column["last"][row, r] + 1)
        if drawn_PR[:, r].sum() == 0 and unverified_PR[:, r].sum() > 0:
            step = run.unverified_hint or "Judge them: offleash verify RUN, or compare with --verifier NAME."
            raise OffleashError(
                f"None of the {unverified_PR[:, r].sum():,} samples of {run.name!r} has a verdict. {step}"
            )


def _budget(run: Run, drawn_P: np.ndarray) -> int:
    """The samples per problem that a run was given; of a log that does not say, the most that any problem has."""
    return int(run.budget.k or drawn_P.max(initial=0))


def _common_budget(
    runs: Sequence[Run], matched: Alignment, available_PR: np.ndarray, at: int | None
) -> tuple[np.ndarray, int, list[Note]]:
    """Which problems to keep and at which k; different budgets are cut to the smaller, never compared raw.

    Args:
        runs: the runs, for their names.
        matched: the problems they share.
        available_PR: samples per problem and run; of a record that stopped early, its budget.
        at: k as the user gives it; None: as many as every problem has.

    Returns:
        Which problems stay, k, and notes on everything that was cut or left out.
    """
    notes = list(matched.notes)
    notes += [
        Note(f"{run.name}: problems missing from another run were left out", count, left_out=True)
        for run, count in zip(runs, matched.left_out, strict=True)
        if count
    ]
    if at is not None and at < 1:
        raise OffleashError(f"k is a number of samples, at least 1; found --at {at}.")
    min_drawn_P = available_PR.min(axis=1)  # what a problem has in the run that has fewest
    if at is None:
        drawn = min_drawn_P[min_drawn_P > 0]
        if not drawn.size:
            raise OffleashError(
                "No problem has a verified sample in every run. Judge the samples: offleash verify RUN."
            )
        head, keep_P = int(drawn.min()), min_drawn_P > 0
    else:
        head, keep_P = at, min_drawn_P >= at
        if not keep_P.any():
            raise OffleashError(
                f"No problem has {at} samples in every run (the most is {min_drawn_P.max(initial=0)}); use a "
                "smaller --at."
            )
    if (~keep_P).any():
        why = "no verified sample" if at is None else f"fewer than {at} samples"
        notes.append(Note(f"problems with {why} in some run were left out", int((~keep_P).sum()), left_out=True))
    # one problem with few samples limits k for all; the note says what it would cost to leave such problems out
    usual = int(np.median(min_drawn_P[keep_P]))
    if at is None and usual > head:
        problems_below = int((min_drawn_P[keep_P] < usual).sum())
        cut = f"k is limited to {head}, the fewest samples of any problem"
        notes.append(Note(f"{cut}; --at {usual} would leave out {many(problems_below, 'problem')} instead"))
    elif at is None and available_PR[keep_P].max() > head:
        most = {run.name: int(available_PR[keep_P, r].max()) for r, run in enumerate(runs)}
        budgets_text = ", ".join(f"{name} {n}" for name, n in most.items())
        if len(set(most.values())) > 1:
            notes.append(
                Note(f"budgets differ ({budgets_text}); k is limited to {head}, since more samples reach more problems")
            )
        else:
            notes.append(Note(f"k is limited to {head}, the fewest samples of any problem"))
    return keep_P, head, notes


def _count_first_k(
    runs: Sequence[Run], matched: Alignment, full: Tally, rows_PR: np.ndarray, last_PR: np.ndarray, seed: int
) -> tuple[np.ndarray, list[str]]:
    """Correct among the first `head` samples of every problem; of bare counts, a seeded random subset of that size.

    Whoever needs a whole number of successes among equally many samples has to choose a subset: the first in index
    order, which nobody could have selected after seeing the verdicts. Tables are means over all subsets, and tests use
    all samples.
    """
    head, random_subset, columns = full.head, [], []
    for r, run in enumerate(runs):
        drawn_P, correct_P = full.drawn_PR[:, r], full.correct_PR[:, r]
        if run.budget.until or (drawn_P <= head).all():
            columns.append(correct_P)
            continue
        if run.verdicts is None:
            random_subset.append(run.name)
            columns.append(_hits_in_random(drawn_P, correct_P, head, np.random.default_rng([seed, r])))
            continue
        contiguous = bool((rows_PR[:, r] == drawn_P).all() and (last_PR[:, r] + 1 == drawn_P).all())
        hits = _hits_in_first(run.verdicts, head, contiguous)
        named = hits.rename({"problem": "own"}).join(matched.own[r], on="own")
        ordered = matched.problems.select("problem").join(named, on="problem", how="left", maintain_order="left")
        columns.append(ordered["hits"].fill_null(0).cast(pl.Int64).to_numpy())
    return np.stack(columns, axis=1), random_subset


def _hits_in_first(verdicts: pl.LazyFrame, head: int, contiguous: bool) -> pl.DataFrame:
    """Successes among the first `head` judged samples; `contiguous` indices spare the sort that a rank needs."""
    verified = verdicts.filter(pl.col("verdict").is_not_null())
    position = pl.col("index") if contiguous else pl.col("index").rank("ordinal").over("problem") - 1
    hits = (pl.col("verdict") == Verdict.CORRECT.value).sum().alias("hits")
    return verified.filter(position < head).group_by("problem").agg(hits).collect(engine="streaming")


def _hits_in_random(drawn_P: np.ndarray, correct_P: np.ndarray, head: int, rng: np.random.Generator) -> np.ndarray:
    """Successes among `head` samples taken without replacement: hypergeometric. Fewer samples are taken whole."""
    enough = drawn_P >= head
    drawn = np.where(enough, drawn_P, head)
    return np.where(enough, rng.hypergeometric(correct_P, drawn - correct_P, head), correct_P)
