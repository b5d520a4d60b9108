"""`offleash check`: does each problem's verifier accept its gold answer and reject corruptions of it?

Three parts: the check, the corruptions per verifier, and the result as JSON and text.
"""

import json
import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from string import ascii_uppercase
from typing import Any

import polars as pl

from offleash.cpus import usable_cpus
from offleash.data.tables import as_problems
from offleash.data.verdict import Verdict
from offleash.errors import OffleashError
from offleash.files.rows import shown
from offleash.progress import Progress, silent
from offleash.render.escape import clean
from offleash.render.json import SCHEMA, Json, encode
from offleash.verifiers.extraction.extract import extract
from offleash.verifiers.own.bind import CallOptions
from offleash.verifiers.own.decide import packed
from offleash.verifiers.registry import chosen_verifier, verifier
from offleash.verifiers.sandbox.pool import Pool
from offleash.verifiers.verifier import Case, Isolation, Judgement, Verifier
from offleash.verifying.cases import case_of_row
from offleash.verifying.judge import Judge, ProblemCase, problem_case, refuse_wrong_form


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
class ProblemCheck:
    """What a check brought to light. Its fields, in this order, are the keys of `check --json`."""

    problems: int
    accepted: int = 0  # problems whose gold answer was accepted
    corruptions: int = 0  # corruptions that were tried
    rejected: int = 0  # corruptions that were rejected
    undecided: int = 0  # corruptions on which the verifier failed: not accepted, so no fault
    unchecked: dict[str, int] = field(default_factory=dict)  # why gold answers were not tried -> problems
    faults: tuple[Fault, ...] = ()

    @property
    def sound(self) -> bool:
        """Whether every problem can be judged, as far as this check can see."""
        return not self.faults


@dataclass(frozen=True)
class _Trial:
    """One answer to one problem, and whether it must be accepted."""

    row: int
    problem: str
    case: Case
    right: bool
    text: str = ""  # the whole sample, where that is what is judged

    @property
    def shown(self) -> str:
        """What was judged, for messages."""
        return self.text or self.case.answer


def check(
    frame: pl.DataFrame,
    *,
    rows: Mapping[str, int] | None = None,
    name: str | None = None,
    jobs: int | None = None,
    trust_code: bool = False,
    call: CallOptions | None = None,
    progress: Progress = silent,
) -> ProblemCheck:
    """Judge gold answers and corruptions of them.

    Args:
        frame: a table of PROBLEMS.
        rows: problem id -> row of the user's file, for messages; without it, the row of the table.
        name: the verifier of all problems; None: each problem's own, and an error where one names none.
        jobs: worker processes; None: one per core.
        trust_code: run model-written code without isolation where the machine offers none.
        call: how a user's own function is called.
        progress: gets a line per verifier.

    Returns:
        Counts, and one fault per gold answer that is not accepted or corruption that is.
    """
    chosen_own = chosen_verifier(name) if name is not None else None
    if chosen_own is not None and chosen_own.own is not None:
        own_verifier = (call or CallOptions()).of(chosen_own)
        return _check_own(as_problems(frame), rows or {}, own_verifier, jobs or usable_cpus(), progress)
    unchecked: dict[str, int] = {}
    trials: dict[str, list[_Trial]] = {}
    problems: dict[str, list[tuple[int, ProblemCase]]] = {}
    for number, values in enumerate(frame.iter_rows(named=True), 1):
        row = (rows or {}).get(values["problem"], number)
        chosen = name or values["verifier"]
        if chosen is None:
            raise OffleashError(
                f"Problem {shown(values['problem'])} (row {row}) does not name a verifier. Choose one for all: "
                "--verifier math."
            )
        if verifier(chosen).isolation is Isolation.REMOTE:
            _count(unchecked, "not checked: it queries a model")
            continue
        problem = problem_case(values["problem"], values["gold"], values["question"], values["details"])
        problems.setdefault(chosen, []).append((row, problem))
        trials.setdefault(chosen, []).extend(_trials(row, values, chosen, unchecked))
    tally = _CheckTally()
    for chosen, batch in trials.items():
        progress(f"{chosen}: {len(batch):,} answers")
        with Pool(jobs or usable_cpus(), trust_code=trust_code) as pool:
            unusable = _unusable_problems(pool, verifier(chosen), problems[chosen])
            tally.faults += unusable.values()
            usable_trials = [trial for trial in batch if trial.row not in unusable]
            for index, judgement in pool.judge(verifier(chosen), [trial.case for trial in usable_trials]):
                tally.add(usable_trials[index], verifier(chosen), judgement)
    return tally.result(frame.height, unchecked)


# How a sample may mark its answer. Which of them a user's own function reads is not known: its own gold answer says so.
ANSWER_FORMATS = (
    r"\boxed{{{}}}",
    "<answer>{}</answer>",
    "#### {}",
    "The final answer is {}.",
    "{}",
    r"The answer is ${}$.",
)


def _check_own(
    frame: pl.DataFrame, rows: Mapping[str, int], kind: Verifier, jobs: int, progress: Progress
) -> ProblemCheck:
    """The check of a user's own function, which reads whole texts: answers are marked in each of the usual ways.

    A gold answer is accepted if it is in one of them; corruptions are tried in the first way in which it is.
    """
    unchecked: dict[str, int] = {}
    problems: list[tuple[int, dict[str, Any], ProblemCase]] = []
    for number, values in enumerate(frame.iter_rows(named=True), 1):
        if values["gold"] is None:
            _count(unchecked, "gold not checked: none is known")
        else:
            problems.append((rows.get(values["problem"], number), values, case_of_row(values, kind)))

    def trial(
        row: int, values: dict[str, Any], problem: ProblemCase, answer: str, template: str, right: bool
    ) -> _Trial:
        text = template.format(answer)
        packed_text = packed(text, extract(text, kind.steps).answer)
        return _Trial(row, values["problem"], replace(problem.case(packed_text), gold=values["gold"]), right, text)

    tally = _CheckTally()
    accepted_by: dict[int, str] = {}  # row -> the mark in which its gold answer is accepted
    first_outcomes: dict[int, tuple[_Trial, Judgement]] = {}
    with Pool(jobs) as pool:
        for attempt, template in enumerate(ANSWER_FORMATS):
            left = [problem for problem in problems if problem[0] not in accepted_by]
            batch = [trial(row, values, problem, values["gold"], template, True) for row, values, problem in left]
            progress(f"{kind.name}: {len(batch):,} gold answers as {template.format('...')}")
            for index, judgement in pool.judge(kind, [item.case for item in batch]):
                if kind.own is not None and not attempt:
                    refuse_wrong_form(kind.own, judgement)
                row = left[index][0]
                first_outcomes.setdefault(row, (batch[index], judgement))
                if judgement.verdict is Verdict.CORRECT:
                    accepted_by[row] = template
                    tally.add(batch[index], kind, judgement)
        for row, _, _ in problems:
            if row not in accepted_by:
                tally.add(first_outcomes[row][0], kind, first_outcomes[row][1])
        wrong_trials = [
            trial(row, values, problem, answer, accepted_by[row], False)
            for row, values, problem in problems
            if row in accepted_by
            for answer in own_corruptions(values)
        ]
        progress(f"{kind.name}: {len(wrong_trials):,} corruptions")
        for index, judgement in pool.judge(kind, [item.case for item in wrong_trials]):
            tally.add(wrong_trials[index], kind, judgement)
    return tally.result(frame.height, unchecked)


@dataclass
class _CheckTally:
    """Counts while answers are judged, in any order."""

    accepted: int = 0
    rejected: int = 0
    undecided: int = 0
    tried: int = 0
    faults: list[Fault] = field(default_factory=list)

    def add(self, trial: _Trial, kind: Verifier, judgement: Judgement) -> None:
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

    def result(self, problems: int, unchecked: dict[str, int]) -> ProblemCheck:
        sorted_faults = tuple(sorted(self.faults, key=lambda fault: (fault.row, fault.happened)))
        return ProblemCheck(
            problems, self.accepted, self.tried, self.rejected, self.undecided, unchecked, sorted_faults
        )


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


def _unusable_problems(pool: Pool, kind: Verifier, problems: list[tuple[int, ProblemCase]]) -> dict[int, Fault]:
    """Problems that their verifier cannot judge at all, by row; those without a gold answer may still be usable."""
    rows = {problem.id: row for row, problem in problems}
    # A verifier in a worker parses the gold answer, so a missing one is no fault of its own there: it was counted as
    # unchecked. The others look at the details, which must be sound without a gold answer too.
    judgeable = [
        problem for _, problem in problems if problem.gold is not None or kind.isolation is not Isolation.WORKER
    ]
    return {
        rows[problem.id]: Fault(
            rows[problem.id],
            problem.id,
            kind.name,
            problem.gold,
            reason,
            "correct its gold answer or details, or choose another verifier with --verifier",
        )
        for problem, reason in Judge(pool).unreadable(kind, judgeable)
    }


def _fault(trial: _Trial, kind: Verifier, judgement: Judgement) -> Fault:
    reason = f": {judgement.reason}" if judgement.reason else ""
    if judgement.verdict is Verdict.FAILED:
        description = (
            f"the verifier failed on its gold answer{reason}" if trial.right else f"the verifier failed{reason}"
        )
        next_step = "correct the problem, or choose another verifier"
    elif trial.right and kind.own is not None:
        description = f"its own gold answer is {judgement.verdict.value}, even in a box, a tag or a sentence{reason}"
        next_step = "correct the function, or the gold answer"
    elif trial.right:
        description = f"its own gold answer is {judgement.verdict.value}{reason}"
        next_step = "correct the gold answer, or choose another verifier with --verifier"
    else:
        description = f"the corruption {shown(trial.shown)} is accepted"
        next_step = f"a wrong answer would count as correct: choose a verifier other than {kind.name}"
    return Fault(trial.row, trial.problem, kind.name, trial.case.gold, description, next_step)


def _count(counts: dict[str, int], reason: str) -> None:
    counts[reason] = counts.get(reason, 0) + 1


# Corruptions: the gold answer of a problem, changed so that it is certainly wrong.


# A corruption must be wrong under every convention that a verifier grants (rounding, units, order, percent), or the
# check would blame the verifier for being right. So digits are changed at the front, never at the end.

GARBAGE = "no such answer"
NO_FORMULA = r"\text{no such answer}"  # bare words would be read as a product of letters
NUMBER = re.compile(r"[+-]?(\d+(,\d{3})*(\.\d*)?|\.\d+)([eE][+-]?\d+)?")
# A digit of a value: not of an index such as x_1 or \log_{10}, not behind another digit or a point.
DIGIT = re.compile(r"(?<![\d._])(?<!_\{)[0.]*[1-9]")

Details = Mapping[str, object]


def corruptions(verifier: str, gold: str | None, details: Details) -> list[str]:
    """Wrong answers to a problem, in the form in which its verifier gets answers: without tags or boxes."""
    candidates = CORRUPTIONS.get(verifier, _changed_words)(gold or "", details)
    return [text for text in dict.fromkeys(candidates) if text.strip() and text.strip() != (gold or "").strip()]


def own_corruptions(problem: Mapping[str, Any]) -> list[str]:
    """Wrong answers for a user's own function: by the verifier that the problem names, else by its gold answer."""
    gold, details = str(problem["gold"]), json.loads(problem["details"]) if problem["details"] else {}
    if problem["verifier"] in CORRUPTIONS:
        return corruptions(problem["verifier"], gold, details)
    if details.get("choices"):
        return corruptions("choice", gold, details)
    return corruptions("math" if any(map(str.isdigit, gold)) else "words", gold, details)


def _number(gold: str, details: Details) -> list[str]:
    """Another leading digit and the other sign: far outside any tolerance."""
    text = gold.strip()
    return [change_number(text), *([negate(text)] if _nonzero(text) else []), GARBAGE]


def _math(gold: str, details: Details) -> list[str]:
    """Another leading digit; the other sign only of a plain number, since -(a-b) may be b-a and right."""
    text = gold.strip()
    if NUMBER.fullmatch(text):
        return [change_number(text), *([negate(text)] if _nonzero(text) else []), NO_FORMULA]
    return [change_number(text), NO_FORMULA]


def _choice(gold: str, details: Details) -> list[str]:
    """Every other letter."""
    choices = details.get("choices")
    count = len(choices) if isinstance(choices, list) else 4
    return [letter for letter in ascii_uppercase[:count] if letter != gold.strip().upper()]


def _changed_words(gold: str, details: Details) -> list[str]:
    """The gold answer among other words, with another digit, and nonsense."""
    return [f"not {gold}", change_number(gold), GARBAGE] if gold.strip() else [GARBAGE]


def _garbage(gold: str, details: Details) -> list[str]:
    """Where many answers are correct, a changed one may be correct as well: only nonsense is wrong for certain."""
    return [GARBAGE]


def _program(gold: str, details: Details) -> list[str]:
    """A program that runs and gives something no test expects."""
    entry = details.get("entry_point")
    name = entry if isinstance(entry, str) and entry.isidentifier() else None
    if details.get("kind") == "call" and name:
        return [f"class Solution:\n    def {name}(self, *given, **named):\n        return object()\n"]
    if details.get("kind") == "check" and name:
        return [f"def {name}(*given, **named):\n    return object()\n"]
    return [f"print({GARBAGE!r})\n"]


def change_number(text: str) -> str:
    """The text with the leading digit of its last value changed; `+ 1` is added where it has no digit.

    >>> changed("x = 0.25"), changed("12"), changed("$y$")
    ('x = 0.35', '22', '$y + 1$')
    """
    start = text.rfind("=") + 1
    match = DIGIT.search(text, start)
    if match:
        digit = match.end() - 1
        return f"{text[:digit]}{int(text[digit]) % 9 + 1}{text[digit + 1 :]}"
    zero = re.search(r"(?<![\d._])0", text[start:])
    if zero:
        return f"{text[: start + zero.start()]}7{text[start + zero.end() :]}"
    body = text.rstrip("$").rstrip()  # inside the dollars, where it has some
    return f"{body} + 1{text[len(body) :].strip()}"


def negate(text: str) -> str:
    """A number with the other sign."""
    return text[1:] if text.startswith("-") else f"-{text.removeprefix('+')}"


def _nonzero(text: str) -> bool:
    return bool(NUMBER.fullmatch(text)) and any(digit in text for digit in "123456789")


CORRUPTIONS: dict[str, Callable[[str, Details], list[str]]] = {
    "string": _changed_words,
    "choice": _choice,
    "number": _number,
    "math": _math,
    "reasoning_gym": _garbage,
    "countdown": _garbage,
    "program": _program,
}

# The result of a check as JSON and text.


FAULTS_SHOWN = 20  # faults in the terminal; --json has all


def check_json(check: ProblemCheck) -> Json:
    """The check as `check --json` prints it."""
    return {"schema": SCHEMA, **encode(check)}


def check_text(check: ProblemCheck, all_faults: bool = False) -> str:
    """The check for the terminal: counts, then one line per fault."""
    lines = [
        f"{check.problems:,} problems: {check.accepted:,} gold answers accepted, "
        f"{check.rejected:,} of {check.corruptions:,} corruptions rejected"
    ]
    if check.undecided:
        lines.append(f"  {check.undecided:,} corruptions not decided: the verifier failed on them")
    lines += [f"  {count:,} {reason}" for reason, count in check.unchecked.items()]
    shown_faults = check.faults if all_faults else check.faults[:FAULTS_SHOWN]
    for fault in shown_faults:
        gold = "" if fault.gold is None else f", gold {_short_text(fault.gold)}"
        lines.append(
            f"  row {fault.row}, {clean(fault.problem)} ({fault.verifier}{gold}): {clean(fault.happened)}; "
            f"{fault.next_step}."
        )
    if len(check.faults) > len(shown_faults):
        lines.append(f"  and {len(check.faults) - len(shown_faults):,} more; --json lists them all")
    problems_with_faults = len({fault.row for fault in check.faults})
    lines.append(f"{len(check.faults):,} faults in {problems_with_faults:,} problems" if check.faults else "no faults")
    return "\n".join(lines)


def _short_text(text: str) -> str:
    quoted_text = repr(text)
    return quoted_text if len(quoted_text) <= 60 else f"{quoted_text[:57]}..."
