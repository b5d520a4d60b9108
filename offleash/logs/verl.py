"""verl (ByteDance): `{step}.jsonl` dumps of rollouts (rollout_data_dir) and of validation (validation_data_dir).

Fields: `input` (prompt with its chat template), `output`, `score` (the reward), `step`, and whatever the reward
function returns: often `acc`, `pred`; `gts` and `uid` in some versions. Traps:

* `score` may hold shaped rewards (-1, 0.1, 1): `acc` is the verdict where it is there.
* Without `uid` a problem is known by its prompt, so both runs need the same template.
* Each file is of one step: samples of different steps come from different weights.
"""

from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

from offleash.data.tables import Note
from offleash.files.columns import require_column
from offleash.files.detect import Container, Head
from offleash.files.rows import Row
from offleash.logs.format import Entry, Format, Log, Options
from offleash.logs.frames import row_log
from offleash.logs.own_verdicts import VerdictReader

KEYS = {"input", "output", "score", "step"}


def recognise(head: Head) -> bool:
    """Plain names, but these four are seldom together elsewhere."""
    return head.container is Container.JSONL and set(head.columns) >= KEYS


def read(path: Path, head: Head, options: Options) -> Log:
    """One sample per row; the verdict is `acc`, else `score`, or what --map verdict=COLUMN names."""
    own = "acc" if "acc" in head.columns else "score"
    mark = require_column(options.columns.get("verdict", own), head.columns, head.path, "--map verdict")
    steps = _Steps(path, options.split_by == "step")

    def convert(row: Row, judge: VerdictReader) -> Iterator[Entry]:
        steps.seen[row.text("step")] = None
        yield _entry(row, judge, mark)

    log = row_log("verl", head, options, convert, f"verl {mark}", maps=("verdict",), closing=steps.notes)
    if mark != "score":
        log.notes.append(Note(f"{path.name}: the verdict is {mark}; score is also available (--map verdict=NAME)."))
    return log


@dataclass
class _Steps:
    """The training steps seen: samples of several steps come from different weights."""

    path: Path
    split: bool
    seen: dict[str | None, None] = field(default_factory=dict)

    def notes(self) -> list[Note]:
        if self.split or len(self.seen) < 2:
            return []
        what = f"samples of {len(self.seen)} training steps are drawn from different weights"
        return [Note(f"{self.path.name}: {what}; --split-by step keeps them apart.")]


def _entry(row: Row, judge: VerdictReader, mark: str) -> Entry:
    question = row.text("input")
    verdict, _ = judge.mark(row.values.get(mark), row.number)
    return Entry(
        problem=row.problem("uid", question=question),
        question=question,
        gold=row.text("gts"),
        benchmark=row.text("data_source"),
        text=row.text("output"),
        answer=row.text("pred"),
        verdict=verdict,
        score=row.number_of("score"),
        row=row.number,
    )


FORMAT = Format("verl", "verl rollout and validation dumps", recognise, read, ("100.jsonl",))
