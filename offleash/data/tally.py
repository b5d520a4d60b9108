"""The tally: samples drawn and correct for P targets and R runs; and how often each answer was given.

Made by comparing/tally.py and comparing/answers.py from verdicts, or from bare counts; the statistics start here.
"""

from dataclasses import dataclass, replace
from enum import StrEnum

import numpy as np
from numpy.typing import ArrayLike, NDArray

from offleash.errors import OffleashError, unknown

Integer = NDArray[np.int64]
Float = NDArray[np.float64]
Text = NDArray[np.str_]

UNKNOWN = -1  # an index or a count that the source could not tell


class Per(StrEnum):
    PROBLEM = "problem"
    ANSWER = "answer"
    SOLUTION = "solution"


@dataclass(frozen=True, repr=False)
class Tally:
    """Counts of P targets (problems, answers or solutions) in R runs; `problem_P` is the problem of each target."""

    runs: tuple[str, ...]
    problem_P: Text
    benchmark_P: Text
    drawn_PR: Integer
    correct_PR: Integer
    guess_P: Float  # chance that a blind guess is accepted; NaN: not known
    unread_PR: Integer
    failed_PR: Integer
    unverified_PR: Integer  # drawn but without a verdict: not in drawn_PR
    truncated_PR: Integer
    first_PR: Integer  # index of the first success, in order of index; -1: none or UNKNOWN order
    head_PR: Integer  # correct among the first `head` samples; UNKNOWN where the order of the samples is
    head: int
    stopped_PR: NDArray[np.bool_]  # the record ended at its until-th success
    budget_R: Integer
    until_R: Integer  # 0: every problem was drawn to the budget
    ordered_R: NDArray[np.bool_]  # False: counts without the order of the samples
    per: Per = Per.PROBLEM
    target_P: Text | None = None  # the answer or solution, when a target is not a problem

    def __len__(self) -> int:
        return len(self.problem_P)

    def __repr__(self) -> str:
        drawn_R, correct_R = self.drawn_PR.sum(axis=0).tolist(), self.correct_PR.sum(axis=0).tolist()
        counts = zip(self.runs, correct_R, drawn_R, strict=True)
        runs = "; ".join(f"{name}: {correct:,} of {drawn:,} samples correct" for name, correct, drawn in counts)
        return f"<Tally of {len(self):,} {self.per}s, k = {self.head:,}; {runs}>"

    def column(self, run: str) -> int:
        if run not in self.runs:
            raise unknown("run", run, self.runs)
        return self.runs.index(run)

    def take(self, row_T: Integer) -> "Tally":
        """The same tally for some of its rows, in that order."""
        by_target = {name: getattr(self, name)[row_T] for name in _BY_TARGET}
        target = None if self.target_P is None else self.target_P[row_T]
        return replace(self, target_P=target, **by_target)

    def rows(self, keep_P: NDArray[np.bool_]) -> "Tally":
        """The same tally for the rows that are kept."""
        return self.take(np.flatnonzero(keep_P))

    def pair(self, before: str, after: str) -> "Tally":
        """The same tally for two of its runs, in that order."""
        columns = [self.column(before), self.column(after)]
        by_run = {name: getattr(self, name)[:, columns] for name in _BY_TARGET if name.endswith("_PR")}
        run_arrays = {name: getattr(self, name)[columns] for name in ("budget_R", "until_R", "ordered_R")}
        return replace(self, runs=(before, after), **by_run, **run_arrays)


_BY_TARGET = (
    "problem_P",
    "benchmark_P",
    "guess_P",
    "drawn_PR",
    "correct_PR",
    "unread_PR",
    "failed_PR",
    "unverified_PR",
    "truncated_PR",
    "first_PR",
    "head_PR",
    "stopped_PR",
)


def tally_of_counts(
    drawn_PR: ArrayLike,
    correct_PR: ArrayLike,
    *,
    runs: tuple[str, ...] = ("before", "after"),
    problem_P: ArrayLike | None = None,
    benchmark_P: ArrayLike | None = None,
    guess_P: ArrayLike | None = None,
) -> Tally:
    """A tally from bare counts; the order of the samples is not known.

    >>> counts = ol.tally_of_counts(8, [[2, 4], [0, 1]], runs=("base", "rl"))
    >>> counts.drawn_PR.tolist(), counts.correct_PR.tolist()
    ([[8, 8], [8, 8]], [[2, 4], [0, 1]])
    """
    drawn, correct = np.asarray(drawn_PR, dtype=np.int64), np.asarray(correct_PR, dtype=np.int64)
    drawn = np.broadcast_to(drawn, correct.shape).copy()
    invalid_cells = np.argwhere((correct < 0) | (correct > drawn))
    if invalid_cells.size:
        p, r = invalid_cells[0]
        raise OffleashError(
            f"Problem {p} of run {runs[r]!r} has {correct[p, r]} correct of {drawn[p, r]} drawn. "
            "Correct must be between 0 and drawn."
        )
    problems, zeros = correct.shape[0], np.zeros_like(correct)
    head = int(drawn.min(initial=drawn.max(initial=0)))
    return Tally(
        runs=runs,
        problem_P=np.asarray(np.arange(problems) if problem_P is None else problem_P).astype(np.str_),
        benchmark_P=np.asarray(np.full(problems, "") if benchmark_P is None else benchmark_P).astype(np.str_),
        guess_P=np.asarray(np.full(problems, np.nan) if guess_P is None else guess_P, dtype=np.float64),
        drawn_PR=drawn,
        correct_PR=correct,
        unread_PR=zeros,
        failed_PR=zeros,
        unverified_PR=zeros,
        truncated_PR=zeros,
        first_PR=np.full_like(correct, UNKNOWN),
        head_PR=np.where(drawn == head, correct, UNKNOWN),
        head=head,
        stopped_PR=np.zeros_like(correct, dtype=bool),
        budget_R=drawn.max(axis=0, initial=0),
        until_R=np.zeros(correct.shape[1], dtype=np.int64),
        ordered_R=np.zeros(correct.shape[1], dtype=bool),
    )


Flags = NDArray[np.bool_]


@dataclass(frozen=True)
class Answers:
    """A distinct (problem, answer) pairs of one run: rows of the tally, codes shared by all runs, counts."""

    problem_A: Integer
    answer_A: Integer  # code of the answer's text; -1: no answer was found (unread)
    count_A: Integer
    correct_A: Flags
    wrong_A: Flags
    label: NDArray[np.str_]  # text of each code
