"""NeMo-Skills (NVIDIA): `output-rs{seed}.jsonl`, one row per problem and one file per seed.

Fields: `problem` or `question`, `expected_answer`, `generation`, `predicted_answer`, and marks: `symbolic_correct`
(newer), `is_correct` (older) or `judgement`, the prose of a judge model. Traps:

* The samples of a problem are in several files: name them with one quoted glob (output-rs*.jsonl).
* An empty object `{}` keeps the place of a generation that did not finish.
* A wrong mark without a `predicted_answer` means that no answer was found, which is unread here and not wrong.
"""

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
# In order of preference: exact rules before a judge model.
VERDICT_FIELDS = ("symbolic_correct", "is_correct", "judgement")
JUDGEMENT = re.compile(r"judgement:\W*(yes|no)", re.IGNORECASE)
HINT = "These samples have not been evaluated: judge them with --verifier math, or run `ns eval` and read its output."


def recognise(head: Head) -> bool:
    """Generation and expected answer alone are in many tables: one more field of its own is needed."""
    own_columns = {*VERDICT_FIELDS, "predicted_answer", "num_generated_tokens"}
    return head.container is Container.JSONL and set(head.columns) >= KEYS and bool(own_columns & set(head.columns))


def read(path: Path, head: Head, options: Options) -> Log:
    """One sample per row; the verdict is the mark of --filter, or the first of VERDICT_FIELDS that is there."""
    verdict_columns = [name for name in VERDICT_FIELDS if name in head.columns]
    if options.filter is not None and options.filter not in verdict_columns:
        raise unknown("verdict", options.filter, verdict_columns)
    verdict_column = options.filter or (verdict_columns[0] if verdict_columns else None)

    def convert(row: Row, judge: VerdictReader) -> Iterator[Entry]:
        if row.values:
            yield _entry(row, judge, verdict_column)
        else:
            judge.no_sample(row.number)

    log = row_log("nemo_skills", head, options, convert, f"NeMo-Skills {verdict_column}" if verdict_column else None)
    log.unverified_hint = "" if verdict_column else HINT
    if len(verdict_columns) > 1:
        other_columns = ", ".join(other for other in verdict_columns if other != verdict_column)
        log.notes.append(
            Note(f"{path.name}: the verdict is {verdict_column}; also available: {other_columns} (--filter NAME).")
        )
    return log


def _entry(row: Row, judge: VerdictReader, verdict_column: str | None) -> Entry:
    question = row.text("problem", "question")
    verdict = _verdict(row, judge, verdict_column) if verdict_column else None
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
        tokens=row.integer("num_generated_tokens"),
        finish=row.text("finish_reason"),
        row=row.number,
    )


def _verdict(row: Row, judge: VerdictReader, verdict_column: str) -> str | None:
    """A judge model answers in prose that ends in "Judgement: Yes" or "Judgement: No"; anything else is no verdict."""
    value = row.values.get(verdict_column)
    if verdict_column == "judgement" and isinstance(value, str):
        answers = JUDGEMENT.findall(value)
        value = answers[-1] if answers else None
    return judge.mark(value, row.number)[0]


FORMAT = Format(
    "nemo_skills",
    "NeMo-Skills evaluation outputs",
    recognise,
    read,
    ("output-rs0.jsonl",),
    columns=(KEYS | {"predicted_answer"},),
)
