"""verl (ByteDance): `{step}.jsonl` dumps of rollouts (rollout_data_dir) and of validation (validation_data_dir).

Fields: `input` (prompt with its chat template), `output`, `score` (the reward), `step`, `gts` (the gold answer: a
text, a list or an object), and whatever the reward function returns: often `acc`, `pred`; validation adds `reward`.
Since 0.9 rollouts have a `uid`, before that some have a `request_id`. Traps:

* `score` may hold shaped rewards (-1, 0.1, 1): `acc` is the verdict where it is there.
* Neither `uid` nor `request_id` names a problem: they are new in every file, and in some versions in every row. A
  problem is its prompt, gold answer, data source and images, so both runs need the same template.
* Every problem of an image task may have the same prompt: `gts` separates them.
* Each file is of one step: samples of different steps come from different weights.
"""

from collections.abc import Iterator, Mapping
from pathlib import Path

from offleash.data.content import content_hashes
from offleash.data.tables import Note
from offleash.files.columns import require_column
from offleash.files.detect import Container, Head
from offleash.files.rows import Row
from offleash.logs.format import Entry, Format, Ids, Log, Options, RolloutFormat
from offleash.logs.own_verdicts import VerdictReader
from offleash.logs.training import IMAGES, evaluation_by_path, first_of, training_log

KEYS = {"input", "output", "score", "step"}


def recognise(head: Head) -> bool:
    """Plain names, but these four are seldom together elsewhere."""
    return head.container is Container.JSONL and set(head.columns) >= KEYS


def read(path: Path, head: Head, options: Options) -> Log:
    """One sample per row; the verdict is `acc`, else `score`, or what --map verdict=COLUMN names."""
    default_column = "acc" if "acc" in head.columns else "score"
    verdict_column = require_column(
        options.columns.get("verdict", default_column), head.columns, head.path, "--map verdict"
    )

    def convert(row: Row, judge: VerdictReader) -> Iterator[Entry]:
        yield _entry(row, judge, verdict_column)

    log = training_log("verl", head, options, convert, f"verl {verdict_column}", maps=("verdict",))
    log.ids = Ids.GROUP if "uid" in head.columns else Ids.PROBLEM
    if verdict_column != "score":
        log.notes.append(
            Note(f"{path.name}: the verdict is {verdict_column}; score is also available (--map verdict=NAME).")
        )
    return log


def _entry(row: Row, judge: VerdictReader, verdict_column: str) -> Entry:
    question = row.text("input")
    verdict, _ = judge.mark(row.values.get(verdict_column), row.number)
    return Entry(
        problem=row.problem("uid", question=question),
        question=question,
        gold=row.text("gts"),
        benchmark=row.text("data_source"),
        contents=content_hashes(images=first_of(row.values, IMAGES)),
        text=row.text("output"),
        answer=row.text("pred"),
        verdict=verdict,
        score=row.number_field("score"),
        row=row.number,
    )


def _is_validation(path: Path, values: Mapping[str, object]) -> bool:
    """Dumps of validation have a `reward` beside the score, and are in a folder that users name after it."""
    return "reward" in values or evaluation_by_path(path, values)


FORMAT = Format(
    "verl",
    "verl rollout and validation dumps",
    recognise,
    read,
    ("100.jsonl",),
    columns=(KEYS,),
    rollouts=RolloutFormat(("step",), _is_validation),
)
