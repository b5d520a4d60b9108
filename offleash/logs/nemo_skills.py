"""NeMo-Skills: output-rs{seed}.jsonl, one file per seed."""

import re
from collections.abc import Iterator
from pathlib import Path

from offleash.data.tables import Note
from offleash.data.verdict import Verdict
from offleash.errors import unknown
from offleash.files.detect import Container, Head
from offleash.files.rows import Row
from offleash.logs.format import Entry, Format, Log, Options
from offleash.logs.frames import row_log
from offleash.logs.own_verdicts import VerdictReader

KEYS = {"generation", "expected_answer"}
MARKS = ("symbolic_correct", "is_correct", "judgement")
JUDGEMENT = re.compile(r"judgement:\W*(yes|no)", re.IGNORECASE)
HINT = "These are samples before their evaluation: judge them with --verifier math, or run `ns eval` and read that."


def recognise(head: Head) -> bool:
    own = {*MARKS, "predicted_answer", "num_generated_tokens"}
    return head.container is Container.JSONL and set(head.columns) >= KEYS and bool(own & set(head.columns))


def read(path: Path, head: Head, options: Options) -> Log:
    marks = [name for name in MARKS if name in head.columns]
    if options.filter is not None and options.filter not in marks:
        raise unknown("verdict", options.filter, marks)
    mark = options.filter or (marks[0] if marks else None)

    def convert(row: Row, judge: VerdictReader) -> Iterator[Entry]:
        if row.values:
            yield _entry(row, judge, mark)
        else:  # an empty object stands for a generation that did not finish
            judge.no_sample(row.number)

    log = row_log("nemo_skills", head, options, convert, f"NeMo-Skills {mark}" if mark else None)
    log.unverified_hint = "" if mark else HINT
    if len(marks) > 1:
        others = ", ".join(other for other in marks if other != mark)
        log.notes.append(Note(f"{path.name}: the verdict is {mark}; also there: {others} (--filter NAME)."))
    return log


def _entry(row: Row, judge: VerdictReader, mark: str | None) -> Entry:
    question = row.text("problem", "question")
    verdict = _verdict(row, judge, mark) if mark else None
    if verdict == Verdict.WRONG and "predicted_answer" in row.values and row.text("predicted_answer") is None:
        verdict = Verdict.UNREAD
    return Entry(
        problem=row.problem("id", "problem_id", question=question),
        question=question,
        gold=row.text("expected_answer"),
        benchmark=row.text("benchmark", "subset_for_metrics"),
        text=row.text("generation"),
        answer=row.text("predicted_answer"),
        verdict=verdict,
        tokens=row.whole("num_generated_tokens"),
        finish=row.text("finish_reason"),
        row=row.number,
    )


def _verdict(row: Row, judge: VerdictReader, mark: str) -> str | None:
    """A judge model answers in prose that ends in "Judgement: Yes" or "Judgement: No"; anything else is no verdict."""
    value = row.values.get(mark)
    if mark == "judgement" and isinstance(value, str):
        said = JUDGEMENT.findall(value)
        value = said[-1] if said else None
    return judge.mark(value, row.number)[0]


FORMAT = Format("nemo_skills", "NeMo-Skills evaluation outputs", recognise, read, ("output-rs0.jsonl",))
