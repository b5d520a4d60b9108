"""Did diversity collapse, and where? The measures of Table 5 in arXiv:2507.14843, with intervals.

Accuracy, length, token entropy and answer entropy of one or more runs, each against the first; also for the two runs of
a comparison, from which its page, JSON and figures take them.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import polars as pl
from numpy.typing import NDArray

from offleash.analyses.entropy.positions import Positions, positions
from offleash.analyses.entropy.tokens import STOPPED, TokenEntropies, first_samples, tokens_of
from offleash.comparing.align import same_decoding
from offleash.comparing.compare import Comparison
from offleash.comparing.per_problem import ProblemDetail
from offleash.comparing.question import Question
from offleash.comparing.tally import AlignedTally, tally
from offleash.data.run import Run
from offleash.data.tables import Note
from offleash.data.tally import Float, Integer, Tally
from offleash.errors import OffleashError
from offleash.loading.arguments import disambiguate_names, distinct_names, parse_argument
from offleash.loading.load import LoadOptions, RunInput, load
from offleash.progress import Progress, silent
from offleash.stats.curves import budgets
from offleash.stats.diversity import distinct_rarefied, entropy_chao_wang_jost, entropy_plugin
from offleash.stats.entropy import Means, Square, Widening, entropy_at_equal_n, means, square
from offleash.stats.support_classes import reach_PRK

Flags = NDArray[np.bool_]

# Names of measures, and keys of the JSON. Answer entropy has three forms, because plug-in entropy depends on how many
# answers there are and on how unread samples count:
# ANSWER as in the paper (unread samples are one class, all samples); EQUAL without unread samples, rarefied to the
# number that all runs have of a problem, which is the one that runs are compared by; ALL an estimate of what infinitely
# many samples would show.
ACCURACY, LENGTH, TOKEN = "accuracy", "length", "token_entropy"
ANSWER, EQUAL_N, ALL = "answer_entropy", "answer_entropy_equal_n", "answer_entropy_estimated"
UNREAD = "unread"
# Nats between answers that are all the same and two that are equally frequent: the smallest step that answer entropy
# can make, so the width that pseudo-problems give to runs which happen to agree on every problem.
LOG_2 = float(np.log(2))
INTERVAL_WIDENING: dict[
    str, Widening
] = {  # how the interval of each measure is widened where all problems agree by chance
    ACCURACY: Widening(share=True),
    LENGTH: Widening(),
    TOKEN: Widening(),
    ANSWER: Widening(LOG_2),
    EQUAL_N: Widening(LOG_2),
    ALL: Widening(LOG_2),
    UNREAD: Widening(share=True),
}
# Reasons why a measure is missing: printed after the name of the run, so they start with a small letter.
NO_ANSWERS = "it has no answers; use run folders or logs that record them"
NO_ANSWER_COLUMN = (
    "its samples have no final answers; name their column with --map answer=COLUMN (a column called answer is "
    "read as the reference where there is no other)"
)
NO_TOKEN_ENTROPIES = "not computed here because token entropies are missing; run offleash entropy"
TRUNCATION_NOTE_SHARE = 0.05  # share of truncated samples from which on a note says so, as in comparisons


@dataclass(frozen=True)
class Measure:
    """One measure: each problem in each run, its average over benchmarks, and each benchmark."""

    value_PR: Float  # NaN: not known
    average: Means  # over benchmarks of means over problems, as in the paper's last column
    benchmarks: Mapping[str, Means]  # by name; "" where problems have none
    reasons: Mapping[str, str]  # by run: why it is not known


@dataclass(frozen=True)
class DistinctAnswers:
    """Different readable answers against k, mean over the problems with k of them in every run that keeps answers."""

    k_K: Integer
    mean_KR: Float  # NaN: that run keeps no answers
    problems_K: Integer  # with k readable answers or more; the others are not in the mean


@dataclass(frozen=True)
class Entropies:
    """Accuracy, length, token entropy and answer entropy of runs, each against the first."""

    runs: tuple[str, ...]
    k: int  # samples per problem that the measures are over
    problem_P: tuple[str, ...]  # problems that all runs have
    measures: Mapping[str, Measure]  # by name, in the order of INTERVAL_WIDENING
    tokens: tuple[TokenEntropies, ...]  # of each run: where its token entropies come from
    squares: tuple[Square | None, ...]  # of each run but the first
    positions: Positions
    distinct: DistinctAnswers | None  # None: no run keeps answers
    notes: tuple[Note, ...]


def entropies_of_inputs(
    inputs: Sequence[RunInput],
    options: LoadOptions | None = None,
    question: Question | None = None,
    progress: Progress = silent,
) -> Entropies:
    """Load the runs and compare each with the first; messages name a run by the path that the user gave."""
    runs = load(*inputs, options=options, progress=progress)
    parsed = disambiguate_names([parse_argument(str(path)) for path in inputs if isinstance(path, str | Path)])
    names = distinct_names([argument.name for argument in parsed])
    named_paths = {
        name: str(argument.paths[0]) for name, argument in zip(names, parsed, strict=True) if len(argument.paths) == 1
    }
    return entropies(runs, question, named_paths, progress)


def entropies(
    runs: Sequence[Run],
    question: Question | None = None,
    named_paths: Mapping[str, str] | None = None,
    progress: Progress = silent,
) -> Entropies:
    """The entropies of one or more runs.

    Args:
        runs: loaded runs; each is compared with the first.
        question: k, replicates, seed, and which differences in decoding are allowed; others are refused.
        named_paths: by run, the path that the user named it by, for messages.
        progress: called with a line of text as work is done.
    """
    question = question or Question()
    notes: tuple[Note, ...] = ()
    # Two copies of one draw would agree exactly, with intervals of no width: no evidence of anything.
    for other in runs[1:]:
        if other.draw and other.draw == runs[0].draw:
            raise OffleashError(
                f"{runs[0].name!r} and {other.name!r} are the same draw, so there is nothing to compare. Redraw one "
                "with --seed 1 to see how much sampling noise alone changes."
            )
        notes += same_decoding(runs[0], other, question.allow)
    aligned = tally(runs, question.at, question.seed)
    named = tuple(replace(note, text=f"{run.name}: {note.text}") for run in runs for note in run.notes)
    return _entropies(runs, aligned, question, named_paths or {}, notes + named + aligned.notes, progress)


def entropies_of(comparison: Comparison) -> Entropies:
    """The entropies of two compared runs, at the same k and over the same problems; computed once per comparison.

    Answers are read only where there are token entropies to set beside them: the diversity of answers alone is a
    section of the comparison already, and reading millions of verdicts a second time is slow.
    """
    return comparison.compute_once("entropies", _entropies_of_comparison)


def answer_entropy_PR(detail: ProblemDetail) -> Float | None:
    """Entropy of the readable answers of each problem (nats), at the n that both runs have of it.

    None where a run keeps no answers. NaN where a problem has too few of them.
    """
    entropy_PR = entropies_of(detail.comparison).measures[EQUAL_N].value_PR
    if not np.isnan(entropy_PR).all(axis=0).any():
        return entropy_PR
    if detail.answers is None or detail.comparison.diversity is None:
        return None
    # A comparison without token entropies has its own table of answers (its diversity): codes below 0 are unread.
    seen = [(run.count_A[run.answer_A >= 0], run.problem_A[run.answer_A >= 0]) for run in detail.answers]
    return entropy_at_equal_n(seen, len(detail.tally))[0]


def token_entropy_PR(detail: ProblemDetail) -> Float | None:
    """Mean entropy per token (nats, the model's own distribution) of each problem; None where a run has none."""
    entropy_PR = entropies_of(detail.comparison).measures[TOKEN].value_PR
    return None if np.isnan(entropy_PR).all(axis=0).any() else entropy_PR


def _entropies_of_comparison(comparison: Comparison) -> Entropies:
    """The entropies within a comparison: its runs, its tally and its question."""
    return _entropies(
        [comparison.before, comparison.after],
        comparison.counted,
        comparison.question,
        {},
        (),
        silent,
        with_comparison=True,
    )


def _entropies(
    runs: Sequence[Run],
    aligned: AlignedTally,
    question: Question,
    named_paths: Mapping[str, str],
    notes: tuple[Note, ...],
    progress: Progress,
    with_comparison: bool = False,
) -> Entropies:
    """All measures of all runs, from what each run keeps; a measure that a run lacks has its reason."""
    count = aligned.tally
    # Counts alone, and runs that stopped early, have no first samples that are a fair sample. Within a comparison a run
    # that keeps no samples has nothing to filter either, and finding its first ones would scan all of its verdicts.
    samples_per_run = [
        None
        if run.verdicts is None or run.budget.until or (with_comparison and run.samples is None)
        else first_samples(run, count.head)
        for run in runs
    ]
    progress("token entropies")
    tokens = [
        tokens_of(run, aligned, r, first, named_paths.get(run.name, ""))
        for r, (run, first) in enumerate(zip(runs, samples_per_run, strict=True))
    ]
    progress("answers")
    # Within a comparison answers serve only to be set beside token entropies (see `entropies_of`).
    skipped = with_comparison and any(run.entropy_P is None for run in tokens)
    answers = [
        None if first is None or run.verdicts is None or skipped else _answer_table(first(run.verdicts), aligned, r)
        for r, (run, first) in enumerate(zip(runs, samples_per_run, strict=True))
    ]
    # Every measure as a table of problems and runs; the reasons are by run, for those columns that are all NaN.
    columns = _columns(count, tokens, answers)
    reasons = {
        LENGTH: {
            run.name: token_entropies.length_reason
            for run, token_entropies in zip(runs, tokens, strict=True)
            if token_entropies.length_reason
        },
        TOKEN: {
            run.name: token_entropies.reason
            for run, token_entropies in zip(runs, tokens, strict=True)
            if token_entropies.reason
        },
    }
    without_answers = {
        run.name: STOPPED if run.budget.until else NO_TOKEN_ENTROPIES if skipped else _no_answers(run)
        for run, table in zip(runs, answers, strict=True)
        if table is None
    }
    reasons |= dict.fromkeys((ANSWER, EQUAL_N, ALL, UNREAD), without_answers)
    # All measures are resampled with the same seed, so their intervals come from the same replicates of problems.
    progress("intervals over problems")
    measures = {
        name: _measure(value_PR, count, INTERVAL_WIDENING[name], reasons.get(name, {}), question)
        for name, value_PR in columns.items()
    }
    return Entropies(
        runs=tuple(run.name for run in runs),
        k=count.head,
        problem_P=tuple(count.problem_P.tolist()),
        measures=measures,
        tokens=tuple(tokens),
        squares=tuple(_direction_counts(measures, r) for r in range(1, len(runs))),
        positions=positions(runs, aligned, named_paths, question.replicates, question.seed),
        distinct=_distinct(answers, len(count)),
        notes=notes + _truncation_notes(count),
    )


@dataclass(frozen=True)
class _AnswerTable:
    """How often a run gave each answer to each problem; A rows, one per (problem, answer), wrong answers included."""

    count_A: Integer
    problem_A: Integer  # row of the tally
    readable_A: Flags  # False: the samples of a problem in which no answer was found, as one row

    def readable(self) -> tuple[Integer, Integer]:
        return self.count_A[self.readable_A], self.problem_A[self.readable_A]


def _no_answers(run: Run) -> str:
    """Why a run has no answers: a log of another tool may have them under a name that was not recognised."""
    is_log_run = "format" in run.facts and "tool" not in run.facts and run.verdicts is not None
    return NO_ANSWER_COLUMN if is_log_run else NO_ANSWERS


def _answer_table(verdicts: pl.LazyFrame, aligned: AlignedTally, r: int) -> _AnswerTable | None:
    """The answers of run r; None where it keeps none."""
    answer_counts = verdicts.filter(pl.col("verdict").is_not_null()).group_by("problem", "answer").len("count")
    table = answer_counts.collect(engine="streaming").rename({"problem": "own"})
    if table["answer"].null_count() == table.height:
        return None
    rows = aligned.problems.select("problem").with_row_index("row").join(aligned.own[r], on="problem")
    counts = table.join(rows.select("row", "own"), on="own").select(
        pl.col("count", "row").cast(pl.Int64), read=pl.col("answer").is_not_null()
    )
    counts = counts.sort("row", "count", "read")  # groups come in no fixed order, on which sums of floats depend
    return _AnswerTable(counts["count"].to_numpy(), counts["row"].to_numpy(), counts["read"].to_numpy())


def _columns(
    count: Tally, tokens: Sequence[TokenEntropies], answers: Sequence[_AnswerTable | None]
) -> dict[str, Float]:
    """Every measure of every problem in every run (P x R), NaN where not known, in the order of INTERVAL_WIDENING."""
    problems, nan_P = len(count), np.full(len(count), np.nan)
    stacked = {
        ACCURACY: [_accuracy(count, r) for r in range(len(tokens))],
        LENGTH: [nan_P if run.length_P is None else run.length_P for run in tokens],
        TOKEN: [nan_P if run.entropy_P is None else run.entropy_P for run in tokens],
        ANSWER: [
            nan_P if table is None else entropy_plugin(table.count_A, table.problem_A, problems) for table in answers
        ],
        ALL: [nan_P if table is None else entropy_chao_wang_jost(*table.readable(), problems) for table in answers],
        UNREAD: [nan_P if table is None else _unread(table, problems) for table in answers],
    }
    columns = {name: np.stack(values, axis=1) for name, values in stacked.items()}
    # Rarefied together: the n of a problem is the smallest number of readable answers over the runs that keep answers.
    equal_n_PR = np.full_like(columns[ANSWER], np.nan)
    known = [(r, table.readable()) for r, table in enumerate(answers) if table is not None]
    if known:
        equal_n_PR[:, [r for r, _ in known]] = entropy_at_equal_n([table for _, table in known], problems)[0]
    columns[EQUAL_N] = equal_n_PR
    return {name: columns[name] for name in INTERVAL_WIDENING}


def _accuracy(tally: Tally, r: int) -> Float:
    """The share of correct samples per problem.

    Of the first k samples where their order is known; of all where only counts are. A problem that stopped at its m-th
    success is a negative binomial record, in which correct / drawn is too large: its pass@1 comes without that bias.
    """
    if tally.until_R[r] > 0:
        return reach_PRK(tally, np.array([1]))[:, r, 0]
    if not tally.ordered_R[r]:
        return np.asarray(tally.correct_PR[:, r] / np.maximum(tally.drawn_PR[:, r], 1))
    return np.asarray(tally.head_PR[:, r] / max(tally.head, 1))


def _unread(answers: _AnswerTable, problems: int) -> Float:
    weights = (answers.count_A * ~answers.readable_A, answers.count_A)
    unread_P, total_P = (np.bincount(answers.problem_A, weights=weight, minlength=problems) for weight in weights)
    return np.where(total_P > 0, unread_P / np.maximum(total_P, 1), np.nan)


def _measure(
    value_PR: Float, count: Tally, widening: Widening, reasons: Mapping[str, str], question: Question
) -> Measure:
    """A measure with its averages: over all benchmarks, and of each."""
    options = (widening, question.replicates, question.seed)
    average = means(value_PR, count.benchmark_P, *options)
    # With one benchmark its mean is the average: the intervals need not be computed twice.
    names = np.unique(count.benchmark_P).tolist()
    if len(names) == 1:
        return Measure(value_PR, average, {names[0]: average}, reasons)
    parts = {name: count.benchmark_P == name for name in names}
    means_by_benchmark = {
        name: means(value_PR[rows_P], count.benchmark_P[rows_P], *options) for name, rows_P in parts.items()
    }
    return Measure(value_PR, average, means_by_benchmark, reasons)


def _direction_counts(measures: Mapping[str, Measure], r: int) -> Square | None:
    """The 2x2 of run r against the first; None where no problem knows both entropies in both runs."""
    token, answer = measures[TOKEN], measures[EQUAL_N]
    pair = [measure.value_PR[:, [0, r]] for measure in (token, answer)]
    if any(np.isnan(measure).any(axis=1).all() for measure in pair):
        return None
    return square(pair[0], pair[1], token.average.direction(r), answer.average.direction(r))


def _distinct(answers: Sequence[_AnswerTable | None], problems: int) -> DistinctAnswers | None:
    """Different readable answers against k, rarefied: the expected number in k answers drawn without replacement."""
    known = [(r, table.readable()) for r, table in enumerate(answers) if table is not None]
    if not known:
        return None
    # k goes up to what the median problem has: beyond it the mean would be over ever fewer problems.
    min_count_P = np.min(
        [np.bincount(problem_rows, weights=count, minlength=problems) for _, (count, problem_rows) in known], axis=0
    )
    k_K = budgets(int(max(1, np.median(min_count_P))))
    has_k_PK = min_count_P[:, None] >= k_K
    problems_K = has_k_PK.sum(axis=0)
    mean_KR = np.full((len(k_K), len(answers)), np.nan)
    for r, (count, problem_rows) in known:
        distinct_PK = np.where(has_k_PK, distinct_rarefied(count, problem_rows, problems, k_K), 0.0)
        mean_KR[:, r] = np.where(problems_K > 0, distinct_PK.sum(axis=0) / np.maximum(problems_K, 1), np.nan)
    return DistinctAnswers(k_K, mean_KR, problems_K)


def _truncation_notes(count: Tally) -> tuple[Note, ...]:
    """Notes on runs whose lengths are bounded by the token limit."""
    total_PR = count.drawn_PR + count.unverified_PR  # samples without a verdict may be truncated, too
    share_R = count.truncated_PR.sum(axis=0) / np.maximum(total_PR.sum(axis=0), 1)
    return tuple(
        Note(f"{run}: {share:.0%} of its samples were truncated at the token limit, so its lengths are underestimates")
        for run, share in zip(count.runs, share_R.tolist(), strict=True)
        if share >= TRUNCATION_NOTE_SHARE
    )
