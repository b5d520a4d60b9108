"""`watch --verifier`: samples judged as they appear, each distinct answer to a problem once, in worker processes."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager

import polars as pl

from offleash.data.tables import TRUNCATED
from offleash.progress import Progress, silent
from offleash.training.watch.rollouts import Judged, LoggedProblem
from offleash.verifiers.registry import chosen_verifier
from offleash.verifiers.verifier import Verifier
from offleash.verifying.cases import judge_texts, own_case
from offleash.verifying.judge import Judge, ProblemCase, problem_case
from offleash.verifying.verify import VerifyOptions, open_judge


@contextmanager
def judging(options: VerifyOptions, progress: Progress = silent) -> Iterator[Judged]:
    """What gives verdicts and answers in place of the log's own; its workers end with the context.

    A problem whose gold answer the verifier cannot read gets no verdicts: its samples are unverified, not wrong.
    """
    assert options.verifier is not None, "a verifier is named"
    verifier = options.extraction.of(chosen_verifier(options.verifier))
    with open_judge(options, progress) as judge:
        cases: dict[LoggedProblem, tuple[ProblemCase, Verifier] | None] = {}

        def judged(problems: Sequence[LoggedProblem], frame: pl.DataFrame) -> tuple[list[str | None], list[str | None]]:
            _add_cases(cases, set(problems), judge, verifier)
            pairs = [cases[problem] for problem in problems]
            known = [place for place, pair in enumerate(pairs) if pair is not None]
            truncated = (frame["finish"] == TRUNCATED).fill_null(False).to_list()
            texts = frame["text"].to_list()
            outcomes = judge_texts(
                judge,
                [pair for pair in pairs if pair is not None],
                [texts[place] for place in known],
                [truncated[place] for place in known],
                options.extraction.opened,
            )
            verdicts: list[str | None] = [None] * frame.height
            answers: list[str | None] = [None] * frame.height
            for place, (extraction, judgement) in zip(known, outcomes, strict=True):
                verdicts[place], answers[place] = judgement.verdict.value, extraction.answer
            return verdicts, answers

        yield judged


def _add_cases(
    cases: dict[LoggedProblem, tuple[ProblemCase, Verifier] | None],
    problems: set[LoggedProblem],
    judge: Judge,
    verifier: Verifier,
) -> None:
    """Add the problems that are new, each as its verifier gets it; None where its gold answer cannot be read."""
    new = {problem: _case(problem, verifier) for problem in problems if problem not in cases}
    unreadable = {case.id for case, _ in judge.unreadable(verifier, list(new.values()))}
    for problem, case in new.items():
        cases[problem] = None if case.id in unreadable else (case, verifier)


def _case(problem: LoggedProblem, verifier: Verifier) -> ProblemCase:
    case = problem_case(problem.label, problem.gold, problem.question, None)
    return case if verifier.own is None else own_case(case, verifier, problem.question or "", problem.benchmark, {})
