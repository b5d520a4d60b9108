"""Rewards: 1 for a sample that its verifier calls correct, 0 for any other, judged as every run is."""

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass

import polars as pl

from offleash.data.verdict import Verdict
from offleash.verifying.cases import Ladder, judged_texts, refuse_unreadable, subjects_of
from offleash.verifying.judge import Judge
from offleash.verifying.verify import Subjects, Verifying, judge_of


@dataclass(frozen=True)
class Judged:
    """What became of samples, in their order."""

    rewards: tuple[float, ...]
    answers: tuple[str, ...]  # the solution's one form where the verifier knows it, else what was read, else ""
    verdicts: Mapping[str, int]


@dataclass(frozen=True)
class Rewards:
    """A judge, and the problems it judges."""

    judge: Judge
    subjects: Subjects
    opened: bool

    def of(self, problems: Sequence[str], texts: Sequence[str], truncated: Sequence[bool]) -> Judged:
        """The rewards of samples, each with the problem it answers."""
        pairs = [self.subjects[problem] for problem in problems]
        found = judged_texts(self.judge, pairs, texts, truncated, self.opened)
        return Judged(
            tuple(float(judged.verdict is Verdict.CORRECT) for _, judged in found),
            tuple(judged.solution or extraction.answer or "" for extraction, judged in found),
            Counter(judged.verdict.value for _, judged in found),
        )


@contextmanager
def rewards_for(problems: pl.DataFrame, where: str, opened: bool = False) -> Iterator[Rewards]:
    """The rewards of a set of problems; refused where one of them cannot be judged."""
    with judge_of(Verifying(cache=False)) as judge:  # samples of a policy that changes are hardly ever seen again
        subjects = subjects_of(problems, None, Ladder(opened=opened), where)
        refuse_unreadable(judge, subjects, where)
        yield Rewards(judge, subjects, opened)
