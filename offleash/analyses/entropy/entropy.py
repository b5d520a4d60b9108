"""Do tokens, or answers, become more alike? The measures of Table 5 in arXiv:2507.14843, with intervals.

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
from offleash.loading.arguments import distinct_names, distinct_paths, parse_argument
from offleash.loading.load import LoadOptions, RunInput, load
from offleash.progress import Progress, silent
from offleash.stats.curves import budgets
from offleash.stats.diversity import distinct_rarefied, entropy_chao_wang_jost, entropy_plugin
from offleash.stats.entropy import Means, Square, Widened, entropy_at_equal_n, means, square
from offleash.stats.support_classes import reach_PRK

Flags = NDArray[np.bool_]

ACCURACY, LENGTH, TOKEN = "accuracy", "length", "token_entropy"
ANSWER, EQUAL, ALL = "answer_entropy", "answer_entropy_equal_n", "answer_entropy_estimated"
UNREAD = "unread"
COIN = float(np.log(2))  # nats between answers that are all alike and two that are equally frequent
WIDENED: dict[str, Widened] = {  # measures that can be the same for all problems by chance
    ACCURACY: Widened(share=True),
    LENGTH: Widened(),
    TOKEN: Widened(),
    ANSWER: Widened(COIN),
    EQUAL: Widened(COIN),
    ALL: Widened(COIN),
    UNREAD: Widened(share=True),
}
NO_ANSWERS = "it keeps no answers; give run folders or logs that do"
UNNAMED = (
    "it keeps no answers that were found; --map answer=COLUMN names the column that holds them (one called answer is "
    "read as the reference where no other is)"
)
UNASKED = "not read where token entropies are not known; offleash entropy tells it"
CUT = 0.05  # share of truncated samples that is told


@dataclass(frozen=True)
class Measure:
    """One measure: each problem in each run, its average over benchmarks, and each benchmark."""

    value_PR: Float  # NaN: not known
    average: Means
    benchmarks: Mapping[str, Means]
    reasons: Mapping[str, str]  # by run: why it is not known


@dataclass(frozen=True)
class Distinct:
    """Different readable answers against k, mean over the problems with k of them in every run told."""

    k_K: Integer
    mean_KR: Float  # NaN: that run keeps no answers
    problems_K: Integer  # with k readable answers or more; the others are not in the mean


@dataclass(frozen=True)
class Entropies:
    """Accuracy, length, token entropy and answer entropy of runs, each against the first."""

    runs: tuple[str, ...]
    k: int
    problem_P: tuple[str, ...]
    measures: Mapping[str, Measure]
    tokens: tuple[TokenEntropies, ...]
    squares: tuple[Square | None, ...]  # of each run but the first
    positions: Positions
    distinct: Distinct | None
    notes: tuple[Note, ...]


def entropies_of_inputs(
    inputs: Sequence[RunInput],
    options: LoadOptions | None = None,
    asked: Question | None = None,
    progress: Progress = silent,
) -> Entropies:
    """Load the runs and set each beside the first."""
    runs = load(*inputs, options=options, progress=progress)
    parsed = distinct_paths([parse_argument(str(one)) for one in inputs if isinstance(one, str | Path)])
    names = distinct_names([argument.name for argument in parsed])
    places = {name: str(one.paths[0]) for name, one in zip(names, parsed, strict=True) if len(one.paths) == 1}
    return entropies(runs, asked, places, progress)


def entropies(
    runs: Sequence[Run],
    asked: Question | None = None,
    places: Mapping[str, str] | None = None,
    progress: Progress = silent,
) -> Entropies:
    """The entropies of one or more runs; runs drawn in different ways are refused unless that is allowed."""
    question = asked or Question()
    notes: tuple[Note, ...] = ()
    for other in runs[1:]:
        if other.draw and other.draw == runs[0].draw:
            raise OffleashError(
                f"{runs[0].name!r} and {other.name!r} are the same draw, so they do not differ; draw one of them again "
                "with --seed 1 to see what chance alone does."
            )
        notes += same_decoding(runs[0], other, question.allow)
    counted = tally(runs, question.at, question.seed)
    named = tuple(replace(note, text=f"{run.name}: {note.text}") for run in runs for note in run.notes)
    return _entropies(runs, counted, question, places or {}, notes + named + counted.notes, progress)


def entropies_of(one: Comparison) -> Entropies:
    """The entropies of two runs that were compared, at the same k and over the same problems; computed once for each.

    Answers are read only where there are token entropies to set beside them: a comparison tells their diversity itself.
    """
    return one.once("entropies", _beside)


def answer_entropy_PR(told: ProblemDetail) -> Float | None:
    """Entropy of the readable answers of each problem (nats), at the n both runs have of it; None without them."""
    found_PR = entropies_of(told.comparison).measures[EQUAL].value_PR
    if not np.isnan(found_PR).all(axis=0).any():
        return found_PR
    if told.answers is None or told.comparison.diversity is None:
        return None
    seen = [(run.count_A[run.answer_A >= 0], run.problem_A[run.answer_A >= 0]) for run in told.answers]
    return entropy_at_equal_n(seen, len(told.tally))[0]


def token_entropy_PR(told: ProblemDetail) -> Float | None:
    """Mean entropy a token (nats, raw distribution) of each problem's samples; None where a run has no sums."""
    found_PR = entropies_of(told.comparison).measures[TOKEN].value_PR
    return None if np.isnan(found_PR).all(axis=0).any() else found_PR


def _beside(one: Comparison) -> Entropies:
    return _entropies([one.before, one.after], one.counted, one.question, {}, (), silent, beside=True)


def _entropies(
    runs: Sequence[Run],
    counted: AlignedTally,
    asked: Question,
    places: Mapping[str, str],
    notes: tuple[Note, ...],
    progress: Progress,
    beside: bool = False,
) -> Entropies:
    count = counted.tally
    firsts = [None if run.verdicts is None or run.budget.until else first_samples(run, count.head) for run in runs]
    progress("token entropies")
    tokens = [
        tokens_of(run, counted, r, first, places.get(run.name, ""))
        for r, (run, first) in enumerate(zip(runs, firsts, strict=True))
    ]
    progress("answers")
    unasked = beside and any(one.entropy_P is None for one in tokens)
    told = [
        None if first is None or run.verdicts is None or unasked else _told(first(run.verdicts), counted, r)
        for r, (run, first) in enumerate(zip(runs, firsts, strict=True))
    ]
    columns = _columns(count, tokens, told)
    reasons = {
        LENGTH: {run.name: one.length_reason for run, one in zip(runs, tokens, strict=True) if one.length_reason},
        TOKEN: {run.name: one.reason for run, one in zip(runs, tokens, strict=True) if one.reason},
    }
    silenced = {
        run.name: STOPPED if run.budget.until else UNASKED if unasked else _no_answers(run)
        for run, some in zip(runs, told, strict=True)
        if some is None
    }
    reasons |= dict.fromkeys((ANSWER, EQUAL, ALL, UNREAD), silenced)
    progress("intervals over problems")
    measures = {
        name: _measure(value_PR, count, WIDENED[name], reasons.get(name, {}), asked)
        for name, value_PR in columns.items()
    }
    return Entropies(
        runs=tuple(run.name for run in runs),
        k=count.head,
        problem_P=tuple(count.problem_P.tolist()),
        measures=measures,
        tokens=tuple(tokens),
        squares=tuple(_square(measures, r) for r in range(1, len(runs))),
        positions=positions(runs, counted, places, asked.replicates, asked.seed),
        distinct=_distinct(told, len(count)),
        notes=notes + _cautions(count),
    )


@dataclass(frozen=True)
class _AnswerTable:
    """How often a run gave each answer to each problem, each pair once, whatever its verdicts."""

    count_A: Integer
    problem_A: Integer
    read_A: Flags  # False: the samples in which no answer was found

    def readable(self) -> tuple[Integer, Integer]:
        return self.count_A[self.read_A], self.problem_A[self.read_A]


def _no_answers(run: Run) -> str:
    logged = "format" in run.facts and "tool" not in run.facts and run.verdicts is not None
    return UNNAMED if logged else NO_ANSWERS


def _told(verdicts: pl.LazyFrame, counted: AlignedTally, r: int) -> _AnswerTable | None:
    """The answers of run r; None where it keeps none."""
    some = verdicts.filter(pl.col("verdict").is_not_null()).group_by("problem", "answer").len("count")
    grouped = some.collect(engine="streaming").rename({"problem": "own"})
    if grouped["answer"].null_count() == grouped.height:
        return None
    rows = counted.problems.select("problem").with_row_index("row").join(counted.own[r], on="problem")
    found = grouped.join(rows.select("row", "own"), on="own").select(
        pl.col("count", "row").cast(pl.Int64), read=pl.col("answer").is_not_null()
    )
    return _AnswerTable(found["count"].to_numpy(), found["row"].to_numpy(), found["read"].to_numpy())


def _columns(count: Tally, tokens: Sequence[TokenEntropies], told: Sequence[_AnswerTable | None]) -> dict[str, Float]:
    """Every measure of every problem in every run."""
    problems, none_P = len(count), np.full(len(count), np.nan)
    stacked = {
        ACCURACY: [_accuracy(count, r) for r in range(len(tokens))],
        LENGTH: [none_P if one.length_P is None else one.length_P for one in tokens],
        TOKEN: [none_P if one.entropy_P is None else one.entropy_P for one in tokens],
        ANSWER: [none_P if some is None else entropy_plugin(some.count_A, some.problem_A, problems) for some in told],
        ALL: [none_P if some is None else entropy_chao_wang_jost(*some.readable(), problems) for some in told],
        UNREAD: [none_P if some is None else _unread(some, problems) for some in told],
    }
    columns = {name: np.stack(values, axis=1) for name, values in stacked.items()}
    equal_PR = np.full_like(columns[ANSWER], np.nan)
    known = [(r, some.readable()) for r, some in enumerate(told) if some is not None]
    if known:
        equal_PR[:, [r for r, _ in known]] = entropy_at_equal_n([some for _, some in known], problems)[0]
    columns[EQUAL] = equal_PR
    return {name: columns[name] for name in WIDENED}


def _accuracy(count: Tally, r: int) -> Float:
    """The share of the first k samples that are correct; of counts, of all; of a stopped record, without bias."""
    if count.until_R[r] > 0:
        return reach_PRK(count, np.array([1]))[:, r, 0]
    if not count.ordered_R[r]:
        return np.asarray(count.correct_PR[:, r] / np.maximum(count.drawn_PR[:, r], 1))
    return np.asarray(count.head_PR[:, r] / max(count.head, 1))


def _unread(some: _AnswerTable, problems: int) -> Float:
    weights = (some.count_A * ~some.read_A, some.count_A)
    unread_P, all_P = (np.bincount(some.problem_A, weights=one, minlength=problems) for one in weights)
    return np.where(all_P > 0, unread_P / np.maximum(all_P, 1), np.nan)


def _measure(value_PR: Float, count: Tally, widened: Widened, reasons: Mapping[str, str], asked: Question) -> Measure:
    how = (widened, asked.replicates, asked.seed)
    average = means(value_PR, count.benchmark_P, *how)
    names = np.unique(count.benchmark_P).tolist()
    if len(names) == 1:
        return Measure(value_PR, average, {names[0]: average}, reasons)
    parts = {name: count.benchmark_P == name for name in names}
    each = {name: means(value_PR[rows_P], count.benchmark_P[rows_P], *how) for name, rows_P in parts.items()}
    return Measure(value_PR, average, each, reasons)


def _square(measures: Mapping[str, Measure], r: int) -> Square | None:
    token, answer = measures[TOKEN], measures[EQUAL]
    pair = [one.value_PR[:, [0, r]] for one in (token, answer)]
    if any(np.isnan(one).any(axis=1).all() for one in pair):
        return None
    return square(pair[0], pair[1], token.average.direction(r), answer.average.direction(r))


def _distinct(told: Sequence[_AnswerTable | None], problems: int) -> Distinct | None:
    known = [(r, some.readable()) for r, some in enumerate(told) if some is not None]
    if not known:
        return None
    least_P = np.min([np.bincount(of, weights=count, minlength=problems) for _, (count, of) in known], axis=0)
    k_K = budgets(int(max(1, np.median(least_P))))
    enough_PK = least_P[:, None] >= k_K
    problems_K = enough_PK.sum(axis=0)
    mean_KR = np.full((len(k_K), len(told)), np.nan)
    for r, (count, of) in known:
        one_PK = np.where(enough_PK, distinct_rarefied(count, of, problems, k_K), 0.0)
        mean_KR[:, r] = np.where(problems_K > 0, one_PK.sum(axis=0) / np.maximum(problems_K, 1), np.nan)
    return Distinct(k_K, mean_KR, problems_K)


def _cautions(count: Tally) -> tuple[Note, ...]:
    kept_PR = count.drawn_PR + count.unverified_PR  # samples without a verdict may be cut, too
    share_R = count.truncated_PR.sum(axis=0) / np.maximum(kept_PR.sum(axis=0), 1)
    return tuple(
        Note(f"{run}: {share:.0%} of its samples were cut at the token limit, so it would write longer than it could")
        for run, share in zip(count.runs, share_R.tolist(), strict=True)
        if share >= CUT
    )
