"""check: every problem's verifier accepts its gold answer and rejects corruptions of it."""

import json
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from os import cpu_count

import polars as pl

from offleash.data.verdict import Verdict
from offleash.errors import OffleashError
from offleash.files.problems_rows import shown
from offleash.verifiers.registry import verifier
from offleash.verifiers.sandbox.pool import Pool
from offleash.verifiers.verifier import Case, Judgement, Room, Verifier
from offleash.verifying.corruption import corruptions
from offleash.verifying.judge import Judge, Subject, subject_of

Tell = Callable[[str], None]


@dataclass(frozen=True)
class Fault:
    """One thing wrong with one problem."""

    row: int  # of the user's file; of the table, from 1, where there is no file
    problem: str
    verifier: str
    gold: str | None
    happened: str
    next_step: str


@dataclass(frozen=True)
class Checked:
    """What a check found."""

    problems: int
    accepted: int = 0  # problems whose gold answer was accepted
    rejected: int = 0  # corruptions that were rejected
    corruptions: int = 0  # corruptions that were tried
    undecided: int = 0  # corruptions on which the verifier failed: not accepted, so no fault
    unchecked: dict[str, int] = field(default_factory=dict)  # why gold answers were not tried -> problems
    faults: tuple[Fault, ...] = ()

    @property
    def sound(self) -> bool:
        return not self.faults


@dataclass(frozen=True)
class _Trial:
    """One answer to one problem, and whether it must be accepted."""

    row: int
    problem: str
    case: Case
    right: bool


def check(
    frame: pl.DataFrame,
    *,
    rows: Mapping[str, int] | None = None,
    name: str | None = None,
    jobs: int | None = None,
    trust_code: bool = False,
    tell: Tell = lambda text: None,
) -> Checked:
    """Judge gold answers and corruptions of them; `name` is the verifier of problems that name none, or of all."""
    unchecked: dict[str, int] = {}
    trials: dict[str, list[_Trial]] = {}
    subjects: dict[str, list[tuple[int, Subject]]] = {}
    for place, values in enumerate(frame.iter_rows(named=True), 1):
        row = (rows or {}).get(values["problem"], place)
        chosen = name or values["verifier"]
        if chosen is None:
            raise OffleashError(
                f"Problem {shown(values['problem'])}, row {row}, names no verifier. Name one for all: --verifier math."
            )
        if verifier(chosen).room is Room.ASKS:
            _count(unchecked, "not checked: asks a model")
            continue
        subject = subject_of(values["problem"], values["gold"], values["question"], values["details"])
        subjects.setdefault(chosen, []).append((row, subject))
        trials.setdefault(chosen, []).extend(_trials(row, values, chosen, unchecked))
    score = _Score()
    for chosen, batch in trials.items():
        tell(f"{chosen}: {len(batch):,} answers")
        with Pool(jobs or cpu_count() or 1, trust_code=trust_code) as pool:
            unusable = _unusable(pool, verifier(chosen), subjects[chosen])
            score.faults += unusable.values()
            usable = [trial for trial in batch if trial.row not in unusable]
            for index, judgement in pool.judge(verifier(chosen), [trial.case for trial in usable]):
                score.note(usable[index], verifier(chosen), judgement)
    return score.checked(frame.height, unchecked)


@dataclass
class _Score:
    """Counts while answers are judged, in any order."""

    accepted: int = 0
    rejected: int = 0
    undecided: int = 0
    tried: int = 0
    faults: list[Fault] = field(default_factory=list)

    def note(self, trial: _Trial, kind: Verifier, judgement: Judgement) -> None:
        correct, failed = judgement.verdict is Verdict.CORRECT, judgement.verdict is Verdict.FAILED
        self.tried += not trial.right
        if trial.right != correct:
            self.faults.append(_fault(trial, kind, judgement))
        elif trial.right:
            self.accepted += 1
        elif failed:
            self.undecided += 1
        else:
            self.rejected += 1

    def checked(self, problems: int, unchecked: dict[str, int]) -> Checked:
        ordered = tuple(sorted(self.faults, key=lambda fault: (fault.row, fault.happened)))
        return Checked(problems, self.accepted, self.rejected, self.tried, self.undecided, unchecked, ordered)


def _trials(row: int, values: dict[str, object], name: str, unchecked: dict[str, int]) -> Iterator[_Trial]:
    """The gold answer, where there is one, and its corruptions."""
    gold = values["gold"] if isinstance(values["gold"], str) else None
    details = json.loads(str(values["details"])) if values["details"] else {}
    question, problem = str(values["question"] or ""), str(values["problem"])
    if gold is None:
        _count(unchecked, "gold not checked: none is known")
    else:
        yield _Trial(row, problem, Case(gold, gold, question, details), right=True)
    for text in corruptions(name, gold, details):
        yield _Trial(row, problem, Case(text, gold, question, details), right=False)


def _unusable(pool: Pool, kind: Verifier, subjects: list[tuple[int, Subject]]) -> dict[int, Fault]:
    """Problems that their verifier cannot judge at all, by row; those without a gold answer may still be usable."""
    rows = {subject.problem: row for row, subject in subjects}
    asked = [subject for _, subject in subjects if subject.gold is not None or kind.room is not Room.WORKER]
    return {
        rows[subject.problem]: Fault(
            rows[subject.problem],
            subject.problem,
            kind.name,
            subject.gold,
            why,
            "correct its gold answer or details, or choose another verifier with --verifier",
        )
        for subject, why in Judge(pool).unreadable(kind, asked)
    }


def _fault(trial: _Trial, kind: Verifier, judgement: Judgement) -> Fault:
    gold, because = trial.case.gold, f": {judgement.reason}" if judgement.reason else ""
    if judgement.verdict is Verdict.FAILED:
        happened, then = (
            f"the verifier failed on its gold answer{because}",
            "mend the problem, or choose another verifier",
        )
    elif trial.right:
        happened = f"its own gold answer is {judgement.verdict.value}{because}"
        then = "mend the gold answer, or choose another verifier with --verifier"
    else:
        happened = f"the corruption {shown(trial.case.answer)} is accepted"
        then = f"a wrong answer would count as right: choose another verifier than {kind.name}"
    return Fault(trial.row, trial.problem, kind.name, gold, happened, then)


def _count(counts: dict[str, int], reason: str) -> None:
    counts[reason] = counts.get(reason, 0) + 1
